//! Which functions of NVIDIA's libraries do we call, and where are they found?
//!
//! They are loaded at run time, as Burn loads the driver: the program starts on machines without them.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libloading::Library;

/// A pointer that means something to the driver alone.
pub(super) type Handle = *mut c_void;
/// A place in the memory of the GPU.
pub(super) type Address = u64;

/// The library and its functions: a field each, of the given type.
macro_rules! library {
    ($(#[$doc:meta])* $name:ident { $($field:ident = $symbol:literal: fn($($argument:ty),*);)* }) => {
        $(#[$doc])*
        pub(super) struct $name {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
            _library: Library,
        }

        impl $name {
            /// From the first of `files` that has all functions.
            pub fn load(files: &[&str]) -> Result<Self, String> {
                let mut reason = String::new();
                for file in files {
                    // SAFETY: these are NVIDIA's libraries; loading runs their own initialisers only.
                    let library = match unsafe { Library::new(*file) } {
                        Ok(library) => library,
                        Err(error) => {
                            reason = error.to_string();
                            continue;
                        }
                    };
                    return Ok(Self {
                        $($field: {
                            // SAFETY: the type is the one of the library's header, and the pointer
                            // lives as long as the library, which is kept beside it.
                            let symbol = unsafe {
                                library.get::<unsafe extern "C" fn($($argument),*) -> c_int>($symbol)
                            };
                            *symbol.map_err(|error| format!("{file}: {error}"))?
                        },)*
                        _library: library,
                    });
                }
                Err(reason)
            }
        }
    };
}

library! {
    /// The driver.
    Driver {
        init = b"cuInit\0": fn(c_uint);
        device_get = b"cuDeviceGet\0": fn(*mut c_int, c_int);
        attribute = b"cuDeviceGetAttribute\0": fn(*mut c_int, c_int, c_int);
        primary_retain = b"cuDevicePrimaryCtxRetain\0": fn(*mut Handle, c_int);
        set_current = b"cuCtxSetCurrent\0": fn(Handle);
        // Order between all streams of a context, CUDA 12.5: Burn does not say which stream it uses.
        context_record = b"cuCtxRecordEvent\0": fn(Handle, Handle);
        context_wait = b"cuCtxWaitEvent\0": fn(Handle, Handle);
        event_create = b"cuEventCreate\0": fn(*mut Handle, c_uint);
        event_record = b"cuEventRecord\0": fn(Handle, Handle);
        stream_create = b"cuStreamCreate\0": fn(*mut Handle, c_uint);
        stream_wait = b"cuStreamWaitEvent\0": fn(Handle, Handle, c_uint);
        stream_synchronize = b"cuStreamSynchronize\0": fn(Handle);
        begin_capture = b"cuStreamBeginCapture_v2\0": fn(Handle, c_int);
        end_capture = b"cuStreamEndCapture\0": fn(Handle, *mut Handle);
        graph_instantiate = b"cuGraphInstantiateWithFlags\0": fn(*mut Handle, Handle, u64);
        graph_launch = b"cuGraphLaunch\0": fn(Handle, Handle);
        graph_destroy = b"cuGraphDestroy\0": fn(Handle);
        executable_destroy = b"cuGraphExecDestroy\0": fn(Handle);
        allocate = b"cuMemAlloc_v2\0": fn(*mut Address, usize);
        free = b"cuMemFree_v2\0": fn(Address);
        copy_in = b"cuMemcpyHtoDAsync_v2\0": fn(Address, *const c_void, usize, Handle);
        copy = b"cuMemcpyDtoDAsync_v2\0": fn(Address, Address, usize, Handle);
        copy_out = b"cuMemcpyDtoHAsync_v2\0": fn(*mut c_void, Address, usize, Handle);
        clear = b"cuMemsetD8Async\0": fn(Address, u8, usize, Handle);
        module_load = b"cuModuleLoadData\0": fn(*mut Handle, *const c_void);
        module_function = b"cuModuleGetFunction\0": fn(*mut Handle, Handle, *const c_char);
        function_attribute = b"cuFuncSetAttribute\0": fn(Handle, c_int, c_int);
        launch = b"cuLaunchKernel\0": fn(
            Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
        );
    }
}

library! {
    /// Matrix products.
    Blas {
        create = b"cublasCreate_v2\0": fn(*mut Handle);
        set_stream = b"cublasSetStream_v2\0": fn(Handle, Handle);
        set_workspace = b"cublasSetWorkspace_v2\0": fn(Handle, Address, usize);
        gemm = b"cublasGemmStridedBatchedEx\0": fn(
            Handle, c_int, c_int, c_int, c_int, c_int, *const f32, Address, c_int, c_int, i64, Address, c_int, c_int,
            i64, *const f32, Address, c_int, c_int, i64, c_int, c_int, c_int
        );
    }
}

library! {
    /// The compiler of kernels.
    Compiler {
        create = b"nvrtcCreateProgram\0": fn(
            *mut Handle, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char
        );
        compile = b"nvrtcCompileProgram\0": fn(Handle, c_int, *const *const c_char);
        log_size = b"nvrtcGetProgramLogSize\0": fn(Handle, *mut usize);
        log = b"nvrtcGetProgramLog\0": fn(Handle, *mut c_char);
        code_size = b"nvrtcGetCUBINSize\0": fn(Handle, *mut usize);
        code = b"nvrtcGetCUBIN\0": fn(Handle, *mut c_char);
        destroy = b"nvrtcDestroyProgram\0": fn(*mut Handle);
    }
}

/// The libraries together.
pub(super) struct Libraries {
    pub driver: Driver,
    pub blas: Blas,
    pub compiler: Compiler,
}

impl Libraries {
    pub fn load() -> Result<Self, String> {
        let toolkit = std::env::var("CUDA_PATH").unwrap_or_else(|_| "/usr/local/cuda".into());
        let within = |name: &str| format!("{toolkit}/lib64/{name}");
        let (blas, compiler) = (within("libcublas.so"), within("libnvrtc.so"));
        Ok(Self {
            driver: Driver::load(&["libcuda.so.1", "libcuda.so"])?,
            blas: Blas::load(&["libcublas.so.13", "libcublas.so.12", "libcublas.so", &blas])?,
            compiler: Compiler::load(&["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", &compiler])?,
        })
    }
}

/// Whether the libraries are there; they are looked for once.
pub(crate) fn available() -> bool {
    static FOUND: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *FOUND.get_or_init(|| Libraries::load().is_ok())
}

/// The libraries say success with 0.
pub(super) fn checked(what: &str, code: c_int) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("{what} failed on the GPU with code {code}")) }
}
