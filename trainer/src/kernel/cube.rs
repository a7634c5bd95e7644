//! How are our operations computed on a device of CubeCL's?

use burn::backend::ops::FloatTensorOps;
use burn::backend::ops::IntTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::tensor::{DType, IntDType};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeDevice};

use super::cuda::{Argument, Gpu, Matrix, Pointer, Work, pointer};
use super::flash::{self, Attended};
use super::layer_ops::{LayerOps, Turn};
use super::ops::{TrainerOps, plain_attention, plain_attention_backward, plain_wide_product};

/// Rows of scores that one block of threads takes.
const ROWS: usize = 8;

pub(super) fn gpu(tensor: &CubeTensor) -> Option<std::sync::Arc<Gpu>> {
    match &tensor.device {
        CubeDevice::Cuda(device) => Gpu::of(device.index),
        #[allow(unreachable_patterns)]
        _ => None,
    }
}

/// A tensor without values like another, with another shape and type.
pub(super) fn empty<const D: usize>(like: &CubeTensor, shape: [usize; D], dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), shape.into(), dtype)
}

/// A matrix whose rows or columns are contiguous: the tensor itself if it is one, else a copy.
pub(super) fn plain(tensor: CubeTensor) -> CubeTensor {
    match layout(&tensor) {
        Some(_) => tensor,
        None => into_contiguous(tensor),
    }
}

/// The distance of rows, or of columns of a transposed matrix, and whether it is one.
pub(super) fn layout(tensor: &CubeTensor) -> Option<(usize, bool)> {
    let strides = [tensor.meta.strides()[0], tensor.meta.strides()[1]];
    let shape = [tensor.meta.shape()[0], tensor.meta.shape()[1]];
    match strides {
        [row, 1] if row >= shape[1] => Some((row, false)),
        [1, column] if column >= shape[0] => Some((column, true)),
        _ => None,
    }
}

/// Where a [`plain`] matrix lies. CubeCL moves what it holds when it allocates, so all that a piece of work
/// needs is allocated before the first place is asked for.
pub(super) fn matrix(tensor: &CubeTensor) -> Result<Matrix, String> {
    let (stride, transposed) = layout(tensor).ok_or("a matrix is neither in rows nor in columns")?;
    Ok(Matrix { at: pointer(tensor)?, stride, transposed, step: 0 })
}

/// What backends do with errors that no caller can handle.
pub(super) fn computed<T>(result: Result<T, String>) -> T {
    result.unwrap_or_else(|reason| panic!("{reason}\nhelp: `tandem doctor` checks the device"))
}

pub(super) fn product(
    gpu: &Gpu,
    lhs: CubeTensor,
    rhs: CubeTensor,
    dtype: DType,
) -> Result<CubeTensor, String> {
    let (m, k, n) = (lhs.meta.shape()[0], lhs.meta.shape()[1], rhs.meta.shape()[1]);
    let input = lhs.dtype;
    let (lhs, rhs) = (plain(lhs), plain(rhs));
    let out = empty(&lhs, [m, n], dtype);
    let (left, right) = (matrix(&lhs)?, matrix(&rhs)?);
    let target = Matrix { at: pointer(&out)?, stride: n, transposed: false, step: 0 };
    gpu.queue(|work| work.product([left, right, target], [input, dtype], [m, k, n], 1, 1.0))?;
    Ok(out)
}

/// Sizes and places of one attention.
struct Heads {
    /// Key heads of all sequences.
    count: usize,
    /// Queries of a key head.
    rows: usize,
    tokens: usize,
    width: usize,
    scale: f32,
    window: i32,
    scores: CubeTensor,
    inputs: [CubeTensor; 3],
}

impl Heads {
    fn new(inputs: [CubeTensor; 3], scale: f64, window: usize) -> Self {
        let inputs = inputs.map(into_contiguous);
        let shape = inputs[0].meta.shape().clone();
        let tokens = inputs[1].meta.shape()[2];
        let (count, rows) = (shape[0] * shape[1], shape[2]);
        let scores = empty(&inputs[0], [count, rows, tokens], DType::BF16);
        let window = window.min(i32::MAX as usize) as i32;
        Self { count, rows, tokens, width: shape[3], scale: scale as f32, window, scores, inputs }
    }

    /// A matrix of each key head, with rows one after another.
    fn matrices(at: Pointer, rows: usize, columns: usize) -> Matrix {
        Matrix { at, stride: columns, transposed: false, step: rows * columns }
    }

    /// Computes the weights into `scores`.
    fn weights(&self, work: &mut Work, queries: Matrix, keys: Matrix, scores: Matrix) -> Result<(), String> {
        let keys = Matrix { transposed: true, ..keys };
        let sizes = [self.rows, self.width, self.tokens];
        work.product([queries, keys, scores], [DType::BF16; 2], sizes, self.count, self.scale)?;
        let rows = (self.count * self.rows) as i64;
        let arguments: [&dyn Argument; 4] = [&scores.at, &rows, &(self.tokens as i32), &self.window];
        work.launch(("", "causal_softmax"), self.grid(), 32 * ROWS, &arguments)
    }

    fn grid(&self) -> [usize; 2] {
        [(self.count * self.rows).div_ceil(ROWS), 1]
    }
}

fn attention(gpu: &Gpu, inputs: [CubeTensor; 3], scale: f64, window: usize) -> Result<CubeTensor, String> {
    let shape = inputs[0].meta.shape().clone();
    let heads = Heads::new(inputs, scale, window);
    let out = empty(&heads.scores, [shape[0], shape[1], shape[2], shape[3]], DType::BF16);
    let [queries, keys, values] = &heads.inputs;
    let queries = Heads::matrices(pointer(queries)?, heads.rows, heads.width);
    let keys = Heads::matrices(pointer(keys)?, heads.tokens, heads.width);
    let values = Heads::matrices(pointer(values)?, heads.tokens, heads.width);
    let scores = Heads::matrices(pointer(&heads.scores)?, heads.rows, heads.tokens);
    let target = Heads::matrices(pointer(&out)?, heads.rows, heads.width);
    gpu.queue(|work| {
        heads.weights(work, queries, keys, scores)?;
        let sizes = [heads.rows, heads.tokens, heads.width];
        work.product([scores, values, target], [DType::BF16; 2], sizes, heads.count, 1.0)
    })?;
    Ok(out)
}

fn attention_backward(
    gpu: &Gpu,
    inputs: [CubeTensor; 3],
    gradient: CubeTensor,
    scale: f64,
    window: usize,
) -> Result<[CubeTensor; 3], String> {
    let shapes = [0, 1, 2].map(|input: usize| {
        let shape = inputs[input].meta.shape();
        [shape[0], shape[1], shape[2], shape[3]]
    });
    let heads = Heads::new(inputs, scale, window);
    let gradient = into_contiguous(gradient);
    let out = shapes.map(|shape| empty(&gradient, shape, DType::BF16));
    let by_scores = empty(&gradient, [heads.count, heads.rows, heads.tokens], DType::BF16);
    let of_queries = |tensor| Ok::<_, String>(Heads::matrices(pointer(tensor)?, heads.rows, heads.width));
    let of_keys = |tensor| Ok::<_, String>(Heads::matrices(pointer(tensor)?, heads.tokens, heads.width));
    let of_scores = |tensor| Ok::<_, String>(Heads::matrices(pointer(tensor)?, heads.rows, heads.tokens));
    let [queries, keys, values] = &heads.inputs;
    let (queries, keys, values) = (of_queries(queries)?, of_keys(keys)?, of_keys(values)?);
    let (weights, by_weights, above) =
        (of_scores(&heads.scores)?, of_scores(&by_scores)?, of_queries(&gradient)?);
    let [by_queries, by_keys, by_values] = &out;
    let (by_queries, by_keys, by_values) = (of_queries(by_queries)?, of_keys(by_keys)?, of_keys(by_values)?);
    let transposed = |matrix: Matrix| Matrix { transposed: true, ..matrix };
    let Heads { count, rows, tokens, width, scale, .. } = heads;
    let narrow = [DType::BF16; 2];
    gpu.queue(|work| {
        heads.weights(work, queries, keys, weights)?;
        work.product([above, transposed(values), by_weights], narrow, [rows, width, tokens], count, 1.0)?;
        work.product([transposed(weights), above, by_values], narrow, [tokens, rows, width], count, 1.0)?;
        let lines = (count * rows) as i64;
        let arguments: [&dyn Argument; 5] =
            [&weights.at, &by_weights.at, &lines, &(tokens as i32), &heads.window];
        work.launch(("", "causal_softmax_backward"), heads.grid(), 32 * ROWS, &arguments)?;
        work.product([by_weights, keys, by_queries], narrow, [rows, tokens, width], count, scale)?;
        work.product([transposed(by_weights), queries, by_keys], narrow, [tokens, rows, width], count, scale)
    })?;
    Ok(out)
}

impl TrainerOps for CubeBackend {
    fn product(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        match gpu(&lhs).filter(|_| matches!(lhs.dtype, DType::BF16 | DType::F32)) {
            Some(gpu) => {
                let dtype = lhs.dtype;
                computed(product(&gpu, lhs, rhs, dtype))
            }
            None => Self::float_matmul(lhs, rhs),
        }
    }

    fn wide_product(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        match gpu(&lhs).filter(|_| lhs.dtype == DType::BF16) {
            Some(gpu) => computed(product(&gpu, lhs, rhs, DType::F32)),
            None => plain_wide_product::<Self>(lhs, rhs),
        }
    }

    fn own_attention(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        scale: f64,
        window: usize,
    ) -> FloatTensor<Self> {
        match gpu(&queries).filter(|_| fits(&queries, &keys)) {
            Some(_) if flash::fits(queries.meta.shape()[3]) => {
                computed(flash::attention([queries, keys, values], None, scale, window)).0
            }
            Some(gpu) => computed(attention(&gpu, [queries, keys, values], scale, window)),
            None => plain_attention::<Self>(queries, keys, values, scale, window),
        }
    }

    fn own_attention_backward(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        scale: f64,
        window: usize,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        match gpu(&queries).filter(|_| fits(&queries, &keys)) {
            Some(gpu) => {
                let width = queries.meta.shape()[3];
                let inputs = [queries, keys, values];
                if flash::fits(width) {
                    let by = flash::attention(inputs, Some(gradient), scale, window);
                    let by = by.and_then(|(_, by)| by.ok_or("no gradient was computed".into()));
                    let [queries, keys, values] = computed(by);
                    return (queries, keys, values);
                }
                let [queries, keys, values] =
                    computed(attention_backward(&gpu, inputs, gradient, scale, window));
                (queries, keys, values)
            }
            None => plain_attention_backward::<Self>(queries, keys, values, gradient, scale, window),
        }
    }
}

/// Whether the own kernels take such tensors.
fn fits(queries: &CubeTensor, keys: &CubeTensor) -> bool {
    queries.dtype == DType::BF16 && keys.meta.shape()[2].is_multiple_of(2)
}

/// What `add_rms_norm` and its like run with.
const THREADS: usize = 256;
/// Blocks that share the rows of a norm's gradient by its weight.
const PARTS: usize = 528;
/// The widest rows that `rows_backward` adds up.
const WIDEST_ROW: usize = 32 * 256;

/// Values that are read at once, in 16 bytes.
const PIECE: usize = 8;

/// Threads of a block of `add_rms_norm`, for rows of that width.
pub(super) fn norm_threads(width: usize) -> usize {
    width.div_ceil(PIECE).next_multiple_of(32).min(THREADS)
}

/// Blocks of `swiglu` and of its gradient.
pub(super) fn swiglu_blocks(rows: usize, width: usize) -> usize {
    let values = rows * width;
    let threads = if width.is_multiple_of(PIECE) { values / PIECE } else { values };
    threads.div_ceil(THREADS)
}

/// Rows and width of a tensor, by its last dimension.
pub(super) fn flat(tensor: &CubeTensor) -> (usize, usize) {
    let shape = tensor.meta.shape();
    let width = shape[shape.num_dims() - 1];
    (shape.num_elements() / width.max(1), width)
}

pub(super) fn like(tensor: &CubeTensor) -> CubeTensor {
    let shape = tensor.meta.shape().clone();
    empty_device_contiguous_dtype(tensor.client.clone(), tensor.device.clone(), shape, tensor.dtype)
}

/// The GPU of tensors that only an own kernel takes.
pub(super) fn owner(tensor: &CubeTensor) -> Result<std::sync::Arc<Gpu>, String> {
    gpu(tensor).ok_or_else(|| "an own kernel was asked for on a device that has none".to_string())
}

fn norm(x: CubeTensor, weight: CubeTensor, epsilon: f64) -> Result<CubeTensor, String> {
    let (x, weight) = (into_contiguous(x), into_contiguous(weight));
    let out = like(&x);
    let (rows, width) = flat(&x);
    let (from, by, to) = (pointer(&x)?, pointer(&weight)?, pointer(&out)?);
    owner(&x)?.queue(|work| {
        let arguments: [&dyn Argument; 6] =
            [&from, &Pointer(0), &by, &to, &(width as i32), &(epsilon as f32)];
        work.launch(("", "add_rms_norm"), [rows, 1], norm_threads(width), &arguments)
    })?;
    Ok(out)
}

fn norm_backward(
    x: CubeTensor,
    weight: CubeTensor,
    gradient: CubeTensor,
    epsilon: f64,
) -> Result<(CubeTensor, CubeTensor), String> {
    let [x, weight, gradient] = [x, weight, gradient].map(into_contiguous);
    let (by_x, by_weight) = (like(&x), like(&weight));
    let (rows, width) = flat(&x);
    // A thread takes 8 columns where it can; more blocks where they are small.
    let wide = width.is_multiple_of(PIECE) && width <= 1024 * PIECE;
    let threads = if wide { (width / PIECE).next_multiple_of(32) } else { THREADS };
    let blocks = rows.min(if threads < 128 { 2 * PARTS } else { PARTS });
    let parts = empty(&x, [blocks, width], DType::F32);
    let at = [&x, &weight, &gradient, &by_x, &parts, &by_weight].map(pointer);
    let [x_at, weight_at, gradient_at, by_x_at, parts_at, by_weight_at] = at;
    let (x_at, weight_at, gradient_at) = (x_at?, weight_at?, gradient_at?);
    let (by_x_at, parts_at, by_weight_at) = (by_x_at?, parts_at?, by_weight_at?);
    owner(&x)?.queue(|work| {
        let (rows, width_i, epsilon) = (rows as i32, width as i32, epsilon as f32);
        let arguments: [&dyn Argument; 8] =
            [&x_at, &weight_at, &gradient_at, &by_x_at, &parts_at, &rows, &width_i, &epsilon];
        work.launch(("", "rms_norm_backward"), [blocks, 1], threads, &arguments)?;
        let arguments: [&dyn Argument; 4] = [&parts_at, &by_weight_at, &(blocks as i32), &width_i];
        work.launch(("", "sum_rows"), [width.div_ceil(32), 1], 256, &arguments)
    })?;
    Ok((by_x, by_weight))
}

fn gated(both: CubeTensor) -> Result<CubeTensor, String> {
    let both = into_contiguous(both);
    let mut shape = both.meta.shape().clone();
    let last = shape.num_dims() - 1;
    shape[last] /= 2;
    let out = empty_device_contiguous_dtype(both.client.clone(), both.device.clone(), shape, both.dtype);
    let (rows, width) = flat(&out);
    let (from, to) = (pointer(&both)?, pointer(&out)?);
    owner(&both)?.queue(|work| {
        let arguments: [&dyn Argument; 4] = [&from, &to, &(rows as i64), &(width as i32)];
        work.launch(("", "swiglu"), [swiglu_blocks(rows, width), 1], THREADS, &arguments)
    })?;
    Ok(out)
}

fn gated_backward(both: CubeTensor, gradient: CubeTensor) -> Result<CubeTensor, String> {
    let (both, gradient) = (into_contiguous(both), into_contiguous(gradient));
    let out = like(&both);
    let (rows, width) = flat(&gradient);
    let (from, above, to) = (pointer(&both)?, pointer(&gradient)?, pointer(&out)?);
    owner(&both)?.queue(|work| {
        let arguments: [&dyn Argument; 5] = [&from, &above, &to, &(rows as i64), &(width as i32)];
        work.launch(("", "swiglu_backward"), [swiglu_blocks(rows, width), 1], THREADS, &arguments)
    })?;
    Ok(out)
}

/// Queries, keys and values of a projection, and how to take them apart and put them together.
struct Split {
    all: CubeTensor,
    cosines: CubeTensor,
    sines: CubeTensor,
    turn: Turn,
    batch: usize,
    tokens: usize,
    width: usize,
}

impl Split {
    fn new(all: CubeTensor, cosines: CubeTensor, sines: CubeTensor, turn: Turn) -> Self {
        let [all, cosines, sines] = [all, cosines, sines].map(into_contiguous);
        let (batch, tokens) = (all.meta.shape()[0], all.meta.shape()[1]);
        let width = 2 * flat(&cosines).1;
        Self { all, cosines, sines, turn, batch, tokens, width }
    }

    fn parts(&self) -> [CubeTensor; 3] {
        let Turn { query_heads, key_heads, .. } = self.turn;
        let (batch, tokens, width) = (self.batch, self.tokens, self.width);
        let keys = [batch, key_heads, tokens, width];
        let queries = [batch, key_heads, query_heads / key_heads * tokens, width];
        [queries, keys, keys].map(|shape| empty(&self.all, shape, self.all.dtype))
    }

    /// Takes `all` apart into `parts`, or with `back` puts gradients together.
    fn run(&self, all: &CubeTensor, parts: &[CubeTensor; 3], back: i32) -> Result<(), String> {
        let Turn { query_heads, key_heads, .. } = self.turn;
        let [queries, keys, values] = parts;
        let (all, cosines, sines) = (pointer(all)?, pointer(&self.cosines)?, pointer(&self.sines)?);
        let (queries, keys, values) = (pointer(queries)?, pointer(keys)?, pointer(values)?);
        owner(&self.all)?.queue(|work| {
            let arguments: [&dyn Argument; 11] = [
                &all,
                &cosines,
                &sines,
                &queries,
                &keys,
                &values,
                &(self.tokens as i32),
                &(query_heads as i32),
                &(key_heads as i32),
                &(self.width as i32),
                &back,
            ];
            work.launch(("", "split_heads"), [self.batch * self.tokens, 1], THREADS, &arguments)
        })
    }

    /// Between `[batch, heads, tokens, width]` and `[batch, tokens, heads · width]`.
    fn merge(&self, by_head: &CubeTensor, by_token: &CubeTensor, back: i32) -> Result<(), String> {
        let (from, to) = (pointer(by_head)?, pointer(by_token)?);
        owner(&self.all)?.queue(|work| {
            let arguments: [&dyn Argument; 6] = [
                &from,
                &to,
                &(self.tokens as i32),
                &(self.turn.query_heads as i32),
                &(self.width as i32),
                &back,
            ];
            work.launch(("", "merge_heads"), [self.batch * self.tokens, 1], THREADS, &arguments)
        })
    }
}

fn attend(all: CubeTensor, cosines: CubeTensor, sines: CubeTensor, turn: Turn) -> Result<CubeTensor, String> {
    let split = Split::new(all, cosines, sines, turn);
    let parts = split.parts();
    split.run(&split.all, &parts, 0)?;
    let by_head = attention(&*owner(&split.all)?, parts, turn.scale, turn.window)?;
    let shape = [split.batch, split.tokens, turn.query_heads * split.width];
    let out = empty(&split.all, shape, split.all.dtype);
    split.merge(&by_head, &out, 0)?;
    Ok(out)
}

fn attend_backward(
    all: CubeTensor,
    cosines: CubeTensor,
    sines: CubeTensor,
    gradient: CubeTensor,
    turn: Turn,
) -> Result<CubeTensor, String> {
    let split = Split::new(all, cosines, sines, turn);
    let parts = split.parts();
    split.run(&split.all, &parts, 0)?;
    let gradient = into_contiguous(gradient);
    let by_head = like(&parts[0]);
    split.merge(&by_head, &gradient, 1)?;
    let gradients = attention_backward(&*owner(&split.all)?, parts, by_head, turn.scale, turn.window)?;
    let out = like(&split.all);
    split.run(&out, &gradients, 1)?;
    Ok(out)
}

/// The ids as the kernels read them.
pub(super) fn narrow_ids(ids: CubeTensor) -> CubeTensor {
    let ids = if ids.dtype == DType::I32 { ids } else { CubeBackend::int_cast(ids, IntDType::I32) };
    into_contiguous(ids)
}

fn rows(table: CubeTensor, ids: CubeTensor) -> Result<CubeTensor, String> {
    let (table, ids) = (into_contiguous(table), narrow_ids(ids));
    let (count, width) = (ids.meta.shape()[0], table.meta.shape()[1]);
    let out = empty(&table, [count, width], table.dtype);
    let (from, at, to) = (pointer(&table)?, pointer(&ids)?, pointer(&out)?);
    owner(&table)?.queue(|work| {
        let arguments: [&dyn Argument; 4] = [&from, &at, &to, &(width as i32)];
        work.launch(("", "embed"), [count, 1], THREADS, &arguments)
    })?;
    Ok(out)
}

fn rows_backward(gradient: CubeTensor, ids: CubeTensor, count: usize) -> Result<CubeTensor, String> {
    let (gradient, ids) = (into_contiguous(gradient), narrow_ids(ids));
    let (places, width) = (gradient.meta.shape()[0], gradient.meta.shape()[1]);
    if width > WIDEST_ROW {
        return Err(format!("rows of {width} values are wider than the {WIDEST_ROW} that can be added up"));
    }
    let out = empty(&gradient, [count, width], gradient.dtype);
    let (from, at, to) = (pointer(&gradient)?, pointer(&ids)?, pointer(&out)?);
    owner(&gradient)?.queue(|work| {
        work.clear(to, count * width * 2)?;
        let arguments: [&dyn Argument; 5] = [&from, &at, &to, &(places as i32), &(width as i32)];
        work.launch(("", "rows_backward"), [places, 1], THREADS, &arguments)
    })?;
    Ok(out)
}

impl LayerOps for CubeBackend {
    fn norm(x: FloatTensor<Self>, weight: FloatTensor<Self>, epsilon: f64) -> FloatTensor<Self> {
        computed(norm(x, weight, epsilon))
    }

    fn norm_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        computed(norm_backward(x, weight, gradient, epsilon))
    }

    fn gated(both: FloatTensor<Self>) -> FloatTensor<Self> {
        computed(gated(both))
    }

    fn gated_backward(both: FloatTensor<Self>, gradient: FloatTensor<Self>) -> FloatTensor<Self> {
        computed(gated_backward(both, gradient))
    }

    fn attend(
        all: FloatTensor<Self>,
        cosines: FloatTensor<Self>,
        sines: FloatTensor<Self>,
        turn: Turn,
    ) -> FloatTensor<Self> {
        if flash::fits(2 * flat(&cosines).1) {
            return computed(flash::attend(all, cosines, sines, &turn)).out;
        }
        computed(attend(all, cosines, sines, turn))
    }

    fn flash(
        all: FloatTensor<Self>,
        cosines: FloatTensor<Self>,
        sines: FloatTensor<Self>,
        turn: Turn,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let Attended { out, rotated, normalisers } = computed(flash::attend(all, cosines, sines, &turn));
        (out, rotated, normalisers)
    }

    fn flash_backward(
        rotated: FloatTensor<Self>,
        cosines: FloatTensor<Self>,
        sines: FloatTensor<Self>,
        out: FloatTensor<Self>,
        normalisers: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        turn: Turn,
    ) -> FloatTensor<Self> {
        let attended = Attended { out, rotated, normalisers };
        computed(flash::attend_backward(attended, cosines, sines, gradient, &turn))
    }

    fn attend_backward(
        all: FloatTensor<Self>,
        cosines: FloatTensor<Self>,
        sines: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        turn: Turn,
    ) -> FloatTensor<Self> {
        computed(attend_backward(all, cosines, sines, gradient, turn))
    }

    fn rows(table: FloatTensor<Self>, ids: IntTensor<Self>) -> FloatTensor<Self> {
        computed(rows(table, ids))
    }

    fn rows_backward(gradient: FloatTensor<Self>, ids: IntTensor<Self>, count: usize) -> FloatTensor<Self> {
        computed(rows_backward(gradient, ids, count))
    }
}
