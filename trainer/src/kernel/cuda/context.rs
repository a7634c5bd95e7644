//! How is work queued on a GPU beside Burn's, in the right order?

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use burn::tensor::DType;
use burn_cubecl::cubecl::cuda::CudaRuntime;
use burn_cubecl::tensor::CubeTensor;
use cubecl_runtime::runtime::Runtime;

use super::library::{Address, Handle, Libraries, checked};

const SOURCE: &str = concat!(
    include_str!("../kernels.cu"),
    include_str!("../layers.cu"),
    include_str!("../attention.cu"),
    include_str!("../decoding.cu"),
    include_str!("../learning.cu"),
    include_str!("../sampling.cu")
);
/// What cuBLAS may use for itself; NVIDIA advises 32 MiB on Hopper.
const WORKSPACE: usize = 32 << 20;
/// Bytes of shared memory that a block has without asking for more.
const USUAL_SHARED: usize = 48 << 10;

/// A GPU with a stream of its own.
///
/// Burn queues its work on streams that it keeps to itself. So a piece of work here waits for
/// all that was queued on the device before, and all that is queued later waits for it: two events
/// of the whole context, some microseconds each time.
pub(crate) struct Gpu {
    work: Mutex<Work>,
}

/// What a thread holds while it queues work.
pub(crate) struct Work {
    pub(super) libraries: Libraries,
    context: Handle,
    pub(super) stream: Handle,
    before: Handle,
    after: Handle,
    blas: Handle,
    architecture: String,
    /// Functions by the options that their module was compiled with, and name.
    functions: HashMap<(String, &'static str), Handle>,
    modules: HashMap<String, Handle>,
    /// Memory for tables that kernels read, and its size.
    table: (Pointer, usize),
}

// SAFETY: the handles are the driver's, which may be used from any thread; the mutex lets one at a time.
unsafe impl Send for Work {}

/// Where a tensor's values lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pointer(pub Address);

/// A matrix in memory, or several of them one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    pub at: Pointer,
    /// Values from one row to the next; from one column to the next where it is stored transposed.
    pub stride: usize,
    pub transposed: bool,
    /// Values from one matrix to the next.
    pub step: usize,
}

/// Where the heads of a tensor lie, in values; as in `attention.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strides {
    pub batch: i64,
    pub head: i32,
    pub row: i32,
}

impl Pointer {
    /// So many bf16 values further.
    pub fn skip(self, values: usize) -> Self {
        Self(self.0 + 2 * values as u64)
    }
}

impl Gpu {
    /// The GPU of that number; none where the libraries are missing or too old, which is said once.
    pub fn of(index: usize) -> Option<Arc<Self>> {
        static ALL: OnceLock<Mutex<HashMap<usize, Option<Arc<Gpu>>>>> = OnceLock::new();
        let mut all = ALL.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(index)
            .or_insert_with(|| match Work::open(index) {
                Ok(work) => Some(Arc::new(Self { work: Mutex::new(work) })),
                Err(reason) => {
                    tracing::warn!(
                        "own kernels are not used on cuda:{index}: {reason}\n\
                         help: install CUDA 12.5 or newer with cuBLAS and NVRTC, or set CUDA_PATH to where it is"
                    );
                    None
                }
            })
            .clone()
    }

    /// Queues work behind everything that was queued on the device before, and before everything that
    /// comes later.
    ///
    /// # Errors
    /// What the driver says.
    pub fn queue<T>(&self, work: impl FnOnce(&mut Work) -> Result<T, String>) -> Result<T, String> {
        let mut held: MutexGuard<Work> = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let held = &mut *held;
        // SAFETY: all handles were made by the driver for this context.
        unsafe {
            let driver = &held.libraries.driver;
            checked("cuCtxSetCurrent", (driver.set_current)(held.context))?;
            checked("cuCtxRecordEvent", (driver.context_record)(held.context, held.before))?;
            checked("cuStreamWaitEvent", (driver.stream_wait)(held.stream, held.before, 0))?;
        }
        let result = work(held)?;
        // SAFETY: as above.
        unsafe {
            let driver = &held.libraries.driver;
            checked("cuEventRecord", (driver.event_record)(held.after, held.stream))?;
            checked("cuCtxWaitEvent", (driver.context_wait)(held.context, held.after))?;
        }
        Ok(result)
    }
}

/// Where the values of a tensor of Burn's lie. Work that was given to Burn before has been queued
/// when this returns.
pub(crate) fn pointer(tensor: &CubeTensor) -> Result<Pointer, String> {
    let resource = tensor.client.get_resource::<<CudaRuntime as Runtime>::Server>(tensor.handle.clone());
    let resource = resource.map_err(|error| format!("a tensor has no memory on the GPU: {error}"))?;
    Ok(Pointer(resource.resource().ptr))
}

impl Work {
    fn open(index: usize) -> Result<Self, String> {
        let libraries = Libraries::load()?;
        let (mut context, mut stream, mut blas) = (null_mut(), null_mut(), null_mut());
        let (mut before, mut after) = (null_mut(), null_mut());
        let (mut major, mut minor) = (0, 0);
        let driver = &libraries.driver;
        let mut work = 0;
        // SAFETY: the calls fill the variables that they are given; the device's primary context is
        // the one that Burn uses.
        unsafe {
            checked("cuInit", (driver.init)(0))?;
            let mut device: c_int = 0;
            checked("cuDeviceGet", (driver.device_get)(&mut device, index as c_int))?;
            checked("cuDeviceGetAttribute", (driver.attribute)(&mut major, 75, device))?;
            checked("cuDeviceGetAttribute", (driver.attribute)(&mut minor, 76, device))?;
            checked("cuDevicePrimaryCtxRetain", (driver.primary_retain)(&mut context, device))?;
            checked("cuCtxSetCurrent", (driver.set_current)(context))?;
            // 1: it does not wait for the default stream; 2: events measure no time.
            checked("cuStreamCreate", (driver.stream_create)(&mut stream, 1))?;
            checked("cuEventCreate", (driver.event_create)(&mut before, 2))?;
            checked("cuEventCreate", (driver.event_create)(&mut after, 2))?;
            checked("cuMemAlloc", (driver.allocate)(&mut work, WORKSPACE))?;
            checked("cublasCreate", (libraries.blas.create)(&mut blas))?;
            checked("cublasSetStream", (libraries.blas.set_stream)(blas, stream))?;
            checked("cublasSetWorkspace", (libraries.blas.set_workspace)(blas, work, WORKSPACE))?;
        }
        let architecture = format!("--gpu-architecture=sm_{major}{minor}");
        let (functions, modules) = (HashMap::new(), HashMap::new());
        let table = (Pointer(0), 0);
        let mut work =
            Self { libraries, context, stream, before, after, blas, architecture, functions, modules, table };
        // A missing compiler should be found now, while Burn can still do it all.
        work.function("", "causal_softmax")?;
        Ok(work)
    }

    /// `out = scale · lhs · rhs` for `count` pairs of matrices: `[m, k]`, `[k, n]` and `[m, n]`.
    pub fn product(
        &self,
        matrices: [Matrix; 3],
        types: [DType; 2],
        sizes: [usize; 3],
        count: usize,
        scale: f32,
    ) -> Result<(), String> {
        self.product_onto(matrices, types, sizes, count, [scale, 0.0])
    }

    /// `out = scale · lhs · rhs + kept · out`.
    pub fn product_onto(
        &self,
        [lhs, rhs, out]: [Matrix; 3],
        [lhs_type, out_type]: [DType; 2],
        [m, k, n]: [usize; 3],
        count: usize,
        [scale, kept]: [f32; 2],
    ) -> Result<(), String> {
        let size =
            |value: usize| c_int::try_from(value).map_err(|_| format!("{value} is too large for cuBLAS"));
        let kind = |dtype: DType| match dtype {
            DType::BF16 => Ok(14),
            DType::F32 => Ok(0),
            other => Err(format!("{other:?} products are not computed here")),
        };
        let (f32_sums, usual) = (68, -1);
        // cuBLAS counts columns first: it sees each matrix transposed, so `outᵀ = rhsᵀ · lhsᵀ`.
        // SAFETY: the matrices lie in memory that the caller's tensors keep, within the sizes given.
        let code = unsafe {
            (self.libraries.blas.gemm)(
                self.blas,
                rhs.transposed.into(),
                lhs.transposed.into(),
                size(n)?,
                size(m)?,
                size(k)?,
                &scale,
                rhs.at.0,
                kind(lhs_type)?,
                size(rhs.stride)?,
                rhs.step as i64,
                lhs.at.0,
                kind(lhs_type)?,
                size(lhs.stride)?,
                lhs.step as i64,
                &kept,
                out.at.0,
                kind(out_type)?,
                size(out.stride)?,
                out.step as i64,
                size(count)?,
                f32_sums,
                usual,
            )
        };
        checked("cublasGemmStridedBatchedEx", code)
    }

    /// Queues a kernel of the module compiled with `options`. Each argument is a pointer to its value.
    pub fn launch(
        &mut self,
        name: (&str, &'static str),
        grid: [usize; 2],
        block: usize,
        arguments: &[&dyn Argument],
    ) -> Result<(), String> {
        self.launch_shared(name, grid, [block, 0], arguments)
    }

    /// The same for a kernel that needs so many bytes of shared memory beside what it declares.
    pub fn launch_shared(
        &mut self,
        (options, name): (&str, &'static str),
        grid: [usize; 2],
        [block, shared]: [usize; 2],
        arguments: &[&dyn Argument],
    ) -> Result<(), String> {
        let function = self.function(options, name)?;
        if shared > USUAL_SHARED {
            // SAFETY: the function was loaded; 8 is the most dynamic shared memory that it may use.
            let code = unsafe { (self.libraries.driver.function_attribute)(function, 8, shared as c_int) };
            checked(name, code)?;
        }
        let mut places: Vec<*mut c_void> = arguments.iter().map(|argument| argument.place()).collect();
        // SAFETY: the arguments are those of the kernel's declaration, and the driver copies them.
        let code = unsafe {
            (self.libraries.driver.launch)(
                function,
                grid[0] as c_uint,
                grid[1] as c_uint,
                1,
                block as c_uint,
                1,
                1,
                shared as c_uint,
                self.stream,
                places.as_mut_ptr(),
                null_mut(),
            )
        };
        checked(name, code)
    }

    /// Puts a table where kernels can read it, until the next one.
    pub fn upload(&mut self, values: &[u64]) -> Result<Pointer, String> {
        let bytes = size_of_val(values);
        if bytes > self.table.1 {
            self.synchronize()?;
            let wider = bytes.next_power_of_two();
            let (old, _) = std::mem::replace(&mut self.table, (Pointer(0), 0));
            self.free(old);
            self.table = (self.allocate(wider)?, wider);
        }
        self.copy_in(self.table.0, values).map(|()| self.table.0)
    }

    /// Writes zeros.
    pub fn clear(&self, at: Pointer, bytes: usize) -> Result<(), String> {
        // SAFETY: the caller's tensor has that many bytes.
        checked("cuMemsetD8Async", unsafe { (self.libraries.driver.clear)(at.0, 0, bytes, self.stream) })
    }

    fn function(&mut self, options: &str, name: &'static str) -> Result<Handle, String> {
        let key = (options.to_string(), name);
        if let Some(function) = self.functions.get(&key) {
            return Ok(*function);
        }
        let module = match self.modules.get(options) {
            Some(module) => *module,
            None => {
                let module = self.compile(options)?;
                self.modules.insert(options.to_string(), module);
                module
            }
        };
        let mut function = null_mut();
        let symbol = CString::new(name).map_err(|error| error.to_string())?;
        // SAFETY: the module was loaded, the name ends with a zero.
        let code = unsafe { (self.libraries.driver.module_function)(&mut function, module, symbol.as_ptr()) };
        checked(name, code)?;
        self.functions.insert(key, function);
        Ok(function)
    }

    fn compile(&self, options: &str) -> Result<Handle, String> {
        let compiler = &self.libraries.compiler;
        let text = |text: &str| CString::new(text).map_err(|error| error.to_string());
        let source = text(SOURCE)?;
        let mut all = vec![text(&self.architecture)?, text("-std=c++17")?];
        for option in options.split_whitespace() {
            all.push(text(option)?);
        }
        let places: Vec<_> = all.iter().map(|option| option.as_ptr()).collect();
        let (mut program, mut module) = (null_mut(), null_mut());
        // SAFETY: strings end with a zero and outlive the calls; buffers have the size that was asked for.
        unsafe {
            let name = c"kernels.cu".as_ptr();
            let none = std::ptr::null();
            checked(
                "nvrtcCreateProgram",
                (compiler.create)(&mut program, source.as_ptr(), name, 0, none, none),
            )?;
            if (compiler.compile)(program, places.len() as c_int, places.as_ptr()) != 0 {
                let mut size = 0;
                (compiler.log_size)(program, &mut size);
                let mut log = vec![0u8; size.max(1)];
                (compiler.log)(program, log.as_mut_ptr().cast());
                return Err(format!("kernels.cu: {}", String::from_utf8_lossy(&log).trim_end_matches('\0')));
            }
            let mut size = 0;
            checked("nvrtcGetCUBINSize", (compiler.code_size)(program, &mut size))?;
            let mut code = vec![0u8; size];
            checked("nvrtcGetCUBIN", (compiler.code)(program, code.as_mut_ptr().cast()))?;
            checked(
                "cuModuleLoadData",
                (self.libraries.driver.module_load)(&mut module, code.as_ptr().cast()),
            )?;
            (compiler.destroy)(&mut program);
        }
        Ok(module)
    }
}

/// A value that a kernel takes.
pub(crate) trait Argument {
    fn place(&self) -> *mut c_void;
}

macro_rules! arguments {
    ($($kind:ty),*) => {$(
        impl Argument for $kind {
            fn place(&self) -> *mut c_void {
                std::ptr::from_ref(self).cast_mut().cast()
            }
        }
    )*};
}
arguments!(i32, i64, f32, Pointer, Strides);
