//! How is one token of many sequences computed in one launch?
//!
//! A step of decoding is hundreds of small kernels, which take less time than launching them does. So
//! the step is recorded once for each number of rows, as a CUDA graph, and replayed: everything that
//! changes from step to step lies in memory that the graph reads.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use burn::tensor::{DType, Device, Int, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::cache::DeviceCache;
use super::context::{Gpu, Matrix, Pointer, Work, pointer};
use super::library::{Handle, checked};
use crate::kernel::cube::{norm_threads, swiglu_blocks};
use crate::model::{CausalLm, PlainParts, RotaryTable};

/// Threads of a block for a row of activations.
const THREADS: usize = 256;
/// Positions of a tile of keys and of values, as in `decoding.cu`; a block holds two of each.
const TILE: usize = 64;
/// Of a block for a row of logits.
const SAMPLING_THREADS: usize = 512;

/// One token that a slot reads: the slot, its position and its id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub slot: usize,
    pub position: usize,
    pub id: u32,
}

/// How a row's next token is drawn, as in `sampling.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawing {
    pub seed: u64,
    /// 1 over the temperature; 0 takes the likeliest token.
    pub inverse: f32,
    pub unused: i32,
}

/// A drawn token and its log-probability; the id is −1 where the logits are not finite.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Drawn {
    pub id: i32,
    pub logp: f32,
}

/// A policy, ready to compute the next token of many sequences.
pub(crate) struct Decoder {
    gpu: Arc<Gpu>,
    shape: Shape,
    /// With which the kernels are compiled.
    options: String,
    layers: Vec<Layer>,
    embedding: Pointer,
    norm: Pointer,
    /// `[hidden, vocabulary]`; none where logits are bounded, which the kernels do not know.
    head: Option<Matrix>,
    cosines: Pointer,
    sines: Pointer,
    buffers: Buffers,
    /// By the number of rows, and whether tokens are drawn.
    graphs: HashMap<(usize, bool), Recorded>,
    /// What the cache said when its places were read last.
    seen: Option<u64>,
    device: Device,
    /// Memory of our own that the pointers above point into: CubeCL moves what it holds.
    weights: Vec<Pointer>,
}

#[derive(Clone, Copy)]
struct Shape {
    hidden: usize,
    vocabulary: usize,
    inner: usize,
    query_heads: usize,
    key_heads: usize,
    width: usize,
    epsilon: f32,
    scale: f32,
}

struct Layer {
    attention_norm: Pointer,
    qkv: Matrix,
    qkv_bias: Pointer,
    query_norm: Pointer,
    key_norm: Pointer,
    output: Matrix,
    mlp_norm: Pointer,
    gate_up: Matrix,
    down: Matrix,
}

/// A graph after a first run without one, which loads everything that a recording must not load.
enum Recorded {
    Warm,
    Graph(Handle),
}

// SAFETY: a graph belongs to no thread.
unsafe impl Send for Recorded {}

const NONE: Pointer = Pointer(0);

impl Decoder {
    /// For at most `rows` rows; none where the device or the policy is another than this can compute.
    pub fn new(model: &CausalLm, rotary: &RotaryTable, rows: usize) -> Option<Self> {
        let config = model.config();
        let fits = model.embedding.val().dtype() == DType::BF16
            && config.window.is_none()
            && config.embedding_scale() == 1.0
            && config.head_dim.is_multiple_of(2)
            && config.head_dim <= 256
            && config.query_group() <= 8;
        if !fits {
            return None;
        }
        let parts = model.layers.iter().map(|layer| layer.plain_parts()).collect::<Option<Vec<_>>>()?;
        let norm = model.norm.plain_weight()?;
        let table = cube(model.embedding.val()).ok()?;
        let gpu = crate::kernel::cube::gpu(&table)?;
        let made = Self::build(gpu, model, parts, norm, table, rotary, rows);
        made.inspect_err(|reason| tracing::warn!("tokens are decoded without a graph: {reason}")).ok()
    }

    fn build(
        gpu: Arc<Gpu>,
        model: &CausalLm,
        parts: Vec<PlainParts>,
        norm: Tensor<1>,
        table: CubeTensor,
        rotary: &RotaryTable,
        rows: usize,
    ) -> Result<Self, String> {
        let config = model.config();
        let shape = Shape {
            hidden: config.hidden_size,
            vocabulary: config.vocab_size,
            inner: config.intermediate_size,
            query_heads: config.num_attention_heads,
            key_heads: config.num_key_value_heads,
            width: config.head_dim,
            epsilon: config.rms_norm_eps as f32,
            scale: config.attention_scale() as f32,
        };
        let mut weights = Vec::new();
        let own = |tensor: CubeTensor, weights: &mut Vec<Pointer>| {
            let tensor = burn_cubecl::kernel::into_contiguous(tensor);
            let from = pointer(&tensor)?;
            let bytes = tensor.meta.shape().num_elements() * tensor.dtype.size();
            gpu.queue(|work| {
                let to = work.allocate(bytes)?;
                weights.push(to);
                work.copy(to, from, bytes).map(|()| to)
            })
        };
        let vector = |tensor: Tensor<1>, weights: &mut Vec<Pointer>| own(cube(tensor)?, weights);
        let whole = |tensor: Tensor<2>, weights: &mut Vec<Pointer>| {
            let stride = tensor.dims()[1];
            Ok::<_, String>(Matrix { at: own(cube(tensor)?, weights)?, stride, transposed: false, step: 0 })
        };
        let embedding = own(table, &mut weights)?;
        let mut layers = Vec::with_capacity(parts.len());
        for part in parts {
            let (query_norm, key_norm) = match part.head_norms {
                Some([query, key]) => (vector(query, &mut weights)?, vector(key, &mut weights)?),
                None => (NONE, NONE),
            };
            layers.push(Layer {
                attention_norm: vector(part.attention_norm, &mut weights)?,
                qkv: whole(part.qkv, &mut weights)?,
                qkv_bias: part.qkv_bias.map_or(Ok(NONE), |bias| vector(bias, &mut weights))?,
                query_norm,
                key_norm,
                output: whole(part.output, &mut weights)?,
                mlp_norm: vector(part.mlp_norm, &mut weights)?,
                gate_up: whole(part.gate_up, &mut weights)?,
                down: whole(part.down, &mut weights)?,
            });
        }
        let norm = vector(norm, &mut weights)?;
        let head = match (config.logit_softcap, config.tie_word_embeddings) {
            (Some(_), _) => None,
            (None, true) => Some(Matrix { at: embedding, stride: shape.hidden, transposed: true, step: 0 }),
            (None, false) => Some(whole(model.head(), &mut weights)?),
        };
        let [cosines, sines] = rotary.tables();
        let (cosines, sines) = (whole(cosines, &mut weights)?.at, whole(sines, &mut weights)?.at);
        let options = format!("-DQUERY_GROUP={} -DHEAD_WIDTH={}", config.query_group(), config.head_dim);
        let buffers = Buffers::new(gpu.clone(), &shape, layers.len(), rows.next_power_of_two())?;
        let (graphs, seen, device) = (HashMap::new(), None, model.device());
        Ok(Self {
            gpu,
            shape,
            options,
            layers,
            embedding,
            norm,
            head,
            cosines,
            sines,
            buffers,
            graphs,
            seen,
            device,
            weights,
        })
    }

    /// Computes the steps' tokens, of different slots; their keys and values go into the cache.
    /// Gives the hidden states after the final norm, `[steps, hidden]`.
    ///
    /// # Errors
    /// What the device says.
    pub fn advance(&mut self, steps: &[Step], cache: &DeviceCache) -> Result<Tensor<2>, String> {
        // Flat, since CubeCL may put a gap between the rows of a matrix.
        let out = Tensor::<1>::empty([steps.len() * self.shape.hidden], (&self.device, DType::BF16));
        let target = cube(out.clone())?;
        let target = pointer(&target)?;
        let bytes = steps.len() * self.shape.hidden * 2;
        let from = self.buffers.hidden;
        self.run(steps, &[], cache, |work| work.copy(target, from, bytes))?;
        Ok(out.reshape([steps.len(), self.shape.hidden]))
    }

    /// Whether it can draw tokens.
    pub fn draws(&self) -> bool {
        self.head.is_some()
    }

    /// Computes the steps' tokens likewise, and draws the one after each; only where it [`draws`](Self::draws).
    ///
    /// # Errors
    /// What the device says.
    pub fn draw(
        &mut self,
        steps: &[Step],
        drawings: &[Drawing],
        cache: &DeviceCache,
    ) -> Result<Vec<Drawn>, String> {
        let mut drawn = vec![Drawn::default(); steps.len()];
        let from = self.buffers.drawn;
        self.run(steps, drawings, cache, |work| {
            work.copy_out(&mut drawn, from)?;
            work.synchronize()
        })?;
        Ok(drawn)
    }

    /// Queues a step, with drawings or without, and `finish` behind it.
    fn run(
        &mut self,
        steps: &[Step],
        drawings: &[Drawing],
        cache: &DeviceCache,
        finish: impl FnOnce(&Work) -> Result<(), String>,
    ) -> Result<(), String> {
        let rows = steps.len().next_power_of_two();
        let key = (rows, !drawings.is_empty());
        let changes = Some(cache.changes());
        let inputs = Inputs::written(steps, drawings, rows);
        let gpu = self.gpu.clone();
        gpu.queue(|work| {
            if self.seen != changes {
                let column = |which: usize| cache.places().map(|place| place[which].0).collect::<Vec<u64>>();
                work.copy_in(self.buffers.keys, &column(0))?;
                work.copy_in(self.buffers.values, &column(1))?;
                work.copy_in(self.buffers.capacity, &[cache.capacity() as i32])?;
            }
            work.copy_in(self.buffers.inputs, &inputs)?;
            match self.graphs.get(&key) {
                None => {
                    self.launch(work, key)?;
                    self.graphs.insert(key, Recorded::Warm);
                }
                Some(Recorded::Warm) => {
                    work.begin_recording()?;
                    // The recording has to be ended whatever happened.
                    let queued = self.launch(work, key);
                    let graph = work.end_recording()?;
                    queued?;
                    work.replay(graph)?;
                    self.graphs.insert(key, Recorded::Graph(graph));
                }
                Some(Recorded::Graph(graph)) => work.replay(*graph)?,
            }
            finish(work)
        })?;
        self.seen = changes;
        Ok(())
    }

    /// Queues all kernels of a step.
    fn launch(&self, work: &mut Work, (rows, draws): (usize, bool)) -> Result<(), String> {
        let Shape { hidden, vocabulary, inner, query_heads, key_heads, width, epsilon, scale } = self.shape;
        let buffers = &self.buffers;
        let inputs = Inputs::of(buffers.inputs, rows);
        let options = self.options.as_str();
        let (hidden_i, queries_i, keys_i, width_i) =
            (hidden as i32, query_heads as i32, key_heads as i32, width as i32);
        let heads = query_heads + 2 * key_heads;
        let product = |work: &mut Work, from: Pointer, weight: Matrix, to: Pointer, sizes: [usize; 2]| {
            let [k, n] = sizes;
            let rows_of = |at, stride| Matrix { at, stride, transposed: false, step: 0 };
            let matrices = [rows_of(from, k), weight, rows_of(to, n)];
            work.product(matrices, [DType::BF16; 2], [rows, k, n], 1, 1.0)
        };
        let norm = |work: &mut Work, added: Pointer, weight: Pointer| {
            work.launch(
                (options, "add_rms_norm"),
                [rows, 1],
                norm_threads(hidden),
                &[&buffers.x, &added, &weight, &buffers.hidden, &hidden_i, &epsilon],
            )
        };
        work.launch(
            (options, "embed"),
            [rows, 1],
            THREADS,
            &[&self.embedding, &inputs.ids, &buffers.x, &hidden_i],
        )?;
        let mut added = NONE;
        for (index, layer) in (0i32..).zip(&self.layers) {
            norm(work, added, layer.attention_norm)?;
            product(work, buffers.hidden, layer.qkv, buffers.qkv, [hidden, heads * width])?;
            work.launch(
                (options, "rotate_and_store"),
                [rows, 1],
                THREADS,
                &[
                    &buffers.qkv,
                    &layer.qkv_bias,
                    &layer.query_norm,
                    &layer.key_norm,
                    &epsilon,
                    &self.cosines,
                    &self.sines,
                    &inputs.positions,
                    &inputs.slots,
                    &buffers.keys,
                    &buffers.values,
                    &index,
                    &buffers.capacity,
                    &queries_i,
                    &keys_i,
                    &width_i,
                ],
            )?;
            let (name, block) = match width {
                64 | 128 => ("decode_tiles", [128, 4 * TILE * width * 2]),
                _ => ("decode_attention", [THREADS, 0]),
            };
            work.launch_shared(
                (options, name),
                [key_heads, rows],
                block,
                &[
                    &buffers.qkv,
                    &buffers.attended,
                    &inputs.positions,
                    &inputs.slots,
                    &buffers.keys,
                    &buffers.values,
                    &index,
                    &buffers.capacity,
                    &queries_i,
                    &keys_i,
                    &scale,
                ],
            )?;
            product(work, buffers.attended, layer.output, buffers.change, [query_heads * width, hidden])?;
            norm(work, buffers.change, layer.mlp_norm)?;
            product(work, buffers.hidden, layer.gate_up, buffers.both, [hidden, 2 * inner])?;
            let (rows_l, inner_i) = (rows as i64, inner as i32);
            let grid = [swiglu_blocks(rows, inner), 1];
            let arguments: [&dyn super::Argument; 4] = [&buffers.both, &buffers.open, &rows_l, &inner_i];
            work.launch((options, "swiglu"), grid, THREADS, &arguments)?;
            product(work, buffers.open, layer.down, buffers.change, [inner, hidden])?;
            added = buffers.change;
        }
        norm(work, added, self.norm)?;
        let Some(head) = self.head.filter(|_| draws) else { return Ok(()) };
        let of_rows = |at, stride| Matrix { at, stride, transposed: false, step: 0 };
        let matrices = [of_rows(buffers.hidden, hidden), head, of_rows(buffers.logits, vocabulary)];
        work.product(matrices, [DType::BF16, DType::F32], [rows, hidden, vocabulary], 1, 1.0)?;
        let arguments: [&dyn super::Argument; 4] =
            [&buffers.logits, &inputs.drawings, &buffers.drawn, &(vocabulary as i32)];
        work.launch((options, "sample_tokens"), [rows, 1], SAMPLING_THREADS, &arguments)
    }
}

/// Where a step's inputs lie: everything that changes from step to step, in one piece, so that one copy brings it.
struct Inputs {
    drawings: Pointer,
    ids: Pointer,
    positions: Pointer,
    slots: Pointer,
}

impl Inputs {
    /// Bytes of a row.
    const ROW: usize = size_of::<Drawing>() + 3 * size_of::<i32>();

    fn of(at: Pointer, rows: usize) -> Self {
        let begin = at.0 + (rows * size_of::<Drawing>()) as u64;
        let column = |number: usize| Pointer(begin + (number * rows * size_of::<i32>()) as u64);
        Self { drawings: at, ids: column(0), positions: column(1), slots: column(2) }
    }

    /// The same as 32-bit words, padded to `rows` rows.
    fn written(steps: &[Step], drawings: &[Drawing], rows: usize) -> Vec<u32> {
        let mut words = Vec::with_capacity(rows * Self::ROW / size_of::<u32>());
        for row in 0..rows {
            let Drawing { seed, inverse, .. } =
                drawings.get(row).copied().unwrap_or(Drawing { seed: 0, inverse: 0.0, unused: 0 });
            words.extend([seed as u32, (seed >> 32) as u32, inverse.to_bits(), 0]);
        }
        let padding = Step { slot: usize::MAX, position: 0, id: 0 };
        let padded = || (0..rows).map(|row| steps.get(row).copied().unwrap_or(padding));
        words.extend(padded().map(|step| step.id));
        words.extend(padded().map(|step| step.position as u32));
        // A slot of −1 is none.
        words.extend(padded().map(|step| step.slot as u32));
        words
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        let graphs: Vec<_> = self.graphs.drain().collect();
        let weights = std::mem::take(&mut self.weights);
        let _ = self.gpu.queue(|work| {
            work.synchronize()?;
            weights.into_iter().for_each(|at| work.free(at));
            for (_, graph) in graphs {
                if let Recorded::Graph(graph) = graph {
                    work.forget(graph);
                }
            }
            Ok(())
        });
    }
}

/// Memory of the activations of a step.
struct Buffers {
    gpu: Arc<Gpu>,
    /// See [`Inputs`].
    inputs: Pointer,
    logits: Pointer,
    drawn: Pointer,
    capacity: Pointer,
    /// Where each layer's keys lie; likewise values.
    keys: Pointer,
    values: Pointer,
    x: Pointer,
    hidden: Pointer,
    qkv: Pointer,
    attended: Pointer,
    change: Pointer,
    both: Pointer,
    open: Pointer,
}

impl Buffers {
    fn new(gpu: Arc<Gpu>, shape: &Shape, layers: usize, rows: usize) -> Result<Self, String> {
        let heads = shape.query_heads + 2 * shape.key_heads;
        let wide = |width: usize| 2 * rows * width;
        let owner = gpu.clone();
        owner.queue(|work| {
            Ok(Self {
                gpu,
                inputs: work.allocate(Inputs::ROW * rows)?,
                logits: work.allocate(4 * rows * shape.vocabulary)?,
                drawn: work.allocate(size_of::<Drawn>() * rows)?,
                capacity: work.allocate(4)?,
                keys: work.allocate(8 * layers)?,
                values: work.allocate(8 * layers)?,
                x: work.allocate(wide(shape.hidden))?,
                hidden: work.allocate(wide(shape.hidden))?,
                qkv: work.allocate(wide(heads * shape.width))?,
                attended: work.allocate(wide(shape.query_heads * shape.width))?,
                change: work.allocate(wide(shape.hidden))?,
                both: work.allocate(wide(2 * shape.inner))?,
                open: work.allocate(wide(shape.inner))?,
            })
        })
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        let all = [
            self.inputs,
            self.logits,
            self.drawn,
            self.capacity,
            self.keys,
            self.values,
            self.x,
            self.hidden,
            self.qkv,
            self.attended,
            self.change,
            self.both,
            self.open,
        ];
        let _ = self.gpu.queue(|work| {
            work.synchronize()?;
            all.into_iter().for_each(|at| work.free(at));
            Ok(())
        });
    }
}

/// The tensor as CubeCL has it, with all that leads to it queued.
pub(super) fn cube<const D: usize>(tensor: Tensor<D>) -> Result<CubeTensor, String> {
    let tensor = tensor.try_into_primitive::<burn::backend::Cube>();
    let tensor = tensor.map_err(|_| "a tensor is on another device than was expected".to_string())?;
    let client = tensor.client.clone();
    Ok(client.resolve_tensor_float::<CubeBackend>(tensor))
}

/// The integers as CubeCL has them.
pub(super) fn cube_integers(tensor: Tensor<1, Int>) -> Result<CubeTensor, String> {
    let tensor = tensor.try_into_primitive::<burn::backend::Cube>();
    let tensor = tensor.map_err(|_| "a tensor is on another device than was expected".to_string())?;
    let client = tensor.client.clone();
    Ok(client.resolve_tensor_int::<CubeBackend>(tensor))
}

impl Work {
    pub(super) fn allocate(&self, bytes: usize) -> Result<Pointer, String> {
        let mut at = 0;
        // SAFETY: the driver fills the variable.
        let code = unsafe { (self.libraries.driver.allocate)(&mut at, bytes) };
        checked("cuMemAlloc", code).map(|()| Pointer(at))
    }

    pub(super) fn free(&self, at: Pointer) {
        // SAFETY: it was allocated by `allocate`, and nothing uses it any more.
        unsafe { (self.libraries.driver.free)(at.0) };
    }

    pub(super) fn copy_in<T: Copy>(&self, to: Pointer, values: &[T]) -> Result<(), String> {
        let bytes = size_of_val(values);
        // SAFETY: the buffer was made for that many values; the driver has read pageable memory when it returns.
        let code = unsafe {
            (self.libraries.driver.copy_in)(to.0, values.as_ptr().cast::<c_void>(), bytes, self.stream)
        };
        checked("cuMemcpyHtoDAsync", code)
    }

    /// Brings values to the host; they are there once the stream was waited for.
    fn copy_out<T: Copy>(&self, to: &mut [T], from: Pointer) -> Result<(), String> {
        let bytes = size_of_val(to);
        // SAFETY: the buffer holds that many bytes, and the caller waits before it reads them.
        let code = unsafe {
            (self.libraries.driver.copy_out)(to.as_mut_ptr().cast::<c_void>(), from.0, bytes, self.stream)
        };
        checked("cuMemcpyDtoHAsync", code)
    }

    pub(super) fn copy(&self, to: Pointer, from: Pointer, bytes: usize) -> Result<(), String> {
        // SAFETY: both places hold that many bytes.
        let code = unsafe { (self.libraries.driver.copy)(to.0, from.0, bytes, self.stream) };
        checked("cuMemcpyDtoDAsync", code)
    }

    pub(super) fn synchronize(&self) -> Result<(), String> {
        // SAFETY: the stream is ours.
        checked("cuStreamSynchronize", unsafe { (self.libraries.driver.stream_synchronize)(self.stream) })
    }

    fn begin_recording(&self) -> Result<(), String> {
        // SAFETY: the stream is ours; 2 lets other threads do what they like meanwhile.
        checked("cuStreamBeginCapture", unsafe { (self.libraries.driver.begin_capture)(self.stream, 2) })
    }

    fn end_recording(&self) -> Result<Handle, String> {
        let (mut graph, mut executable) = (null_mut(), null_mut());
        let driver = &self.libraries.driver;
        // SAFETY: the calls fill the variables that they are given.
        unsafe {
            checked("cuStreamEndCapture", (driver.end_capture)(self.stream, &mut graph))?;
            let made = checked("cuGraphInstantiate", (driver.graph_instantiate)(&mut executable, graph, 0));
            (driver.graph_destroy)(graph);
            made?;
        }
        Ok(executable)
    }

    fn replay(&self, graph: Handle) -> Result<(), String> {
        // SAFETY: the graph was instantiated, and what it points to is kept by its owner.
        checked("cuGraphLaunch", unsafe { (self.libraries.driver.graph_launch)(graph, self.stream) })
    }

    fn forget(&self, graph: Handle) {
        // SAFETY: nothing uses it any more.
        unsafe { (self.libraries.driver.executable_destroy)(graph) };
    }
}
