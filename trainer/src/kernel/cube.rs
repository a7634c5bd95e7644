//! How are our operations computed on a device of CubeCL's?

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::tensor::DType;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeDevice};

use super::cuda::{Gpu, Matrix, Pointer, Work, pointer};
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
fn empty<const D: usize>(like: &CubeTensor, shape: [usize; D], dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), shape.into(), dtype)
}

/// A matrix as it lies; copied if neither its rows nor its columns are contiguous.
pub(super) fn matrix(tensor: CubeTensor) -> Result<(CubeTensor, Matrix), String> {
    let strides = [tensor.meta.strides()[0], tensor.meta.strides()[1]];
    let shape = [tensor.meta.shape()[0], tensor.meta.shape()[1]];
    let (tensor, stride, transposed) = match strides {
        [row, 1] if row >= shape[1] => (tensor, row, false),
        [1, column] if column >= shape[0] => (tensor, column, true),
        _ => (into_contiguous(tensor), shape[1], false),
    };
    let at = pointer(&tensor)?;
    Ok((tensor, Matrix { at, stride, transposed, step: 0 }))
}

/// What backends do with errors that no caller can handle.
fn computed<T>(result: Result<T, String>) -> T {
    result.unwrap_or_else(|reason| panic!("{reason}\nhelp: `tandem doctor` checks the device"))
}

fn product(gpu: &Gpu, lhs: CubeTensor, rhs: CubeTensor, dtype: DType) -> Result<CubeTensor, String> {
    let (m, k, n) = (lhs.meta.shape()[0], lhs.meta.shape()[1], rhs.meta.shape()[1]);
    let input = lhs.dtype;
    let out = empty(&lhs, [m, n], dtype);
    let (_lhs, left) = matrix(lhs)?;
    let (_rhs, right) = matrix(rhs)?;
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
        let arguments: [&dyn super::cuda::Argument; 4] =
            [&scores.at, &rows, &(self.tokens as i32), &self.window];
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
        let arguments: [&dyn super::cuda::Argument; 5] =
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
                let inputs = [queries, keys, values];
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
