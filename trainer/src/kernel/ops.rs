//! How does an operation of our own become part of a model and of its gradient?

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, binary};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Device, FloatDType, Shape, Tensor, TensorData};

/// Operations with a gradient of their own.
#[backend_extension(
    Flex,
    Autodiff,
    Cube: cfg(feature = "cuda"),
    Fusion: cfg(feature = "cuda")
)]
pub(crate) trait TrainerOps: Backend {
    /// `[m, k] · [k, n]`, in the inputs' type, summed in f32.
    #[fusion(dtype = lhs, shape = product_shape(lhs, rhs))]
    fn product(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The same in f32 whatever the inputs' type, never rounded to it.
    #[fusion(meta = |lhs, rhs| wide_product(lhs, rhs))]
    fn wide_product(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self>;

    /// `softmax(scale · q·kᵀ)·v` over what each token may see; see [`causal_attention`].
    #[fusion(dtype = queries, shape = queries)]
    fn own_attention(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        scale: f64,
        window: usize,
    ) -> FloatTensor<Self>;

    /// The gradients by queries, keys and values.
    #[fusion(meta = |queries, keys, values, _gradient, _scale, _window| (queries.clone(), keys.clone(), values.clone()))]
    fn own_attention_backward(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        scale: f64,
        window: usize,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

#[cfg(feature = "cuda")]
type Spec = burn::backend::fusion::custom::TensorSpec;

#[cfg(feature = "cuda")]
fn wide_product(lhs: &Spec, rhs: &Spec) -> Spec {
    Spec::new(product_shape(&lhs.shape, &rhs.shape), DType::F32)
}

#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
fn product_shape(lhs: &Shape, rhs: &Shape) -> Shape {
    Shape::from([lhs[0], rhs[1]])
}

/// `lhs · rhs`.
pub(crate) fn matmul(lhs: Tensor<2>, rhs: Tensor<2>) -> Tensor<2> {
    if !on_gpu(&lhs.device()) {
        return lhs.matmul(rhs);
    }
    Tensor::from_dispatch(<Dispatch as TrainerOps>::product(lhs.into_dispatch(), rhs.into_dispatch()))
}

/// `lhs · rhs` in f32.
pub(crate) fn matmul_wide(lhs: Tensor<2>, rhs: Tensor<2>) -> Tensor<2> {
    if lhs.dtype() == DType::F32 {
        return matmul(lhs, rhs);
    }
    Tensor::from_dispatch(<Dispatch as TrainerOps>::wide_product(lhs.into_dispatch(), rhs.into_dispatch()))
}

/// Whether [`causal_attention`] is better than its parts for such queries, of so many tokens.
pub(crate) fn fuses_attention<const D: usize>(queries: &Tensor<D>, tokens: usize) -> bool {
    tokens.is_multiple_of(2) && has_own_kernels(queries)
}

/// Whether operations on such a tensor have own kernels.
pub(crate) fn has_own_kernels<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.dtype() == DType::BF16 && on_gpu(&tensor.device())
}

/// `softmax(scale · q·kᵀ)·v` for whole sequences of `tokens` tokens.
///
/// Keys and values are `[batch, key heads, tokens, head_dim]`. Queries, and what is returned, are
/// `[batch, key heads, group · tokens, head_dim]`: the queries that share a key head follow each other.
/// Token `t` looks at `t - window + 1 ..= t`. Scores and weights are kept in the inputs' type, sums
/// in f32; the backward pass computes the weights again instead of keeping them.
pub(crate) fn causal_attention(
    queries: Tensor<4>,
    keys: Tensor<4>,
    values: Tensor<4>,
    scale: f64,
    window: usize,
) -> Tensor<4> {
    let [queries, keys, values] = [queries, keys, values].map(Tensor::into_dispatch);
    Tensor::from_dispatch(<Dispatch as TrainerOps>::own_attention(queries, keys, values, scale, window))
}

pub(crate) fn on_gpu(device: &Device) -> bool {
    #[cfg(feature = "cuda")]
    return device.clone().inner() != Device::flex() && super::cuda::available();
    #[cfg(not(feature = "cuda"))]
    {
        let _ = device;
        false
    }
}

/// The product as Burn computes it, and the way without our own kernels.
pub(super) fn plain_wide_product<B: Backend>(lhs: FloatTensor<B>, rhs: FloatTensor<B>) -> FloatTensor<B> {
    B::float_matmul(B::float_cast(lhs, FloatDType::F32), B::float_cast(rhs, FloatDType::F32))
}

/// The attention weights `[batch, key heads, group · tokens, tokens]`, in f32.
fn plain_weights<B: Backend>(
    queries: FloatTensor<B>,
    keys: FloatTensor<B>,
    scale: f64,
    window: usize,
) -> FloatTensor<B> {
    let (rows, tokens) = (queries.shape()[2], keys.shape()[2]);
    let device = queries.device();
    let scores = B::float_matmul(queries, B::float_transpose(keys));
    let scores = B::float_mul_scalar(B::float_cast(scores, FloatDType::F32), scale.into());
    let looks = |from: usize, to: usize| to <= from && from - to < window;
    let mask: Vec<f32> = (0..rows)
        .flat_map(|row| (0..tokens).map(move |to| if looks(row % tokens, to) { 0.0 } else { -1e9 }))
        .collect();
    let mask = B::float_from_data(TensorData::new(mask, [1, 1, rows, tokens]), &device);
    let scores = B::float_add(scores, B::float_cast(mask, FloatDType::F32));
    let largest = B::float_max_dim(scores.clone(), 3);
    let weights = B::float_exp(B::float_sub(scores, largest));
    let sums = B::float_sum_dim(weights.clone(), 3);
    B::float_div(weights, sums)
}

pub(super) fn plain_attention<B: Backend>(
    queries: FloatTensor<B>,
    keys: FloatTensor<B>,
    values: FloatTensor<B>,
    scale: f64,
    window: usize,
) -> FloatTensor<B> {
    let dtype = queries.dtype().into();
    let weights = plain_weights::<B>(queries, keys, scale, window);
    B::float_matmul(B::float_cast(weights, dtype), values)
}

pub(super) fn plain_attention_backward<B: Backend>(
    queries: FloatTensor<B>,
    keys: FloatTensor<B>,
    values: FloatTensor<B>,
    gradient: FloatTensor<B>,
    scale: f64,
    window: usize,
) -> (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>) {
    let dtype: FloatDType = queries.dtype().into();
    let weights = plain_weights::<B>(queries.clone(), keys.clone(), scale, window);
    let by_weights = B::float_matmul(gradient.clone(), B::float_transpose(values));
    let by_weights = B::float_cast(by_weights, FloatDType::F32);
    let narrow = B::float_cast(weights.clone(), dtype);
    let by_values = B::float_matmul(B::float_transpose(narrow), gradient);
    let product = B::float_mul(weights.clone(), by_weights.clone());
    let mean = B::float_sum_dim(product, 3);
    let by_scores = B::float_mul(weights, B::float_sub(by_weights, mean));
    let by_scores = B::float_cast(B::float_mul_scalar(by_scores, scale.into()), dtype);
    let by_queries = B::float_matmul(by_scores.clone(), keys);
    let by_keys = B::float_matmul(B::float_transpose(by_scores), queries);
    (by_queries, by_keys, by_values)
}

impl TrainerOps for Flex {
    fn product(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        use burn::backend::ops::FloatTensorOps;
        Self::float_matmul(lhs, rhs)
    }

    fn wide_product(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        plain_wide_product::<Self>(lhs, rhs)
    }

    fn own_attention(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        scale: f64,
        window: usize,
    ) -> FloatTensor<Self> {
        plain_attention::<Self>(queries, keys, values, scale, window)
    }

    fn own_attention_backward(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        scale: f64,
        window: usize,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        plain_attention_backward::<Self>(queries, keys, values, gradient, scale, window)
    }
}

#[derive(Debug)]
struct Product;

/// The inputs that the other one's gradient needs.
type Factors = (Option<NodeId>, Option<NodeId>);

impl<B: Backend + TrainerOps> Backward<B, 2> for Product {
    type State = Factors;

    fn backward(self, ops: Ops<Factors, 2>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let lhs: Option<FloatTensor<B>> = ops.state.0.map(|id| checkpointer.retrieve_node_output(id));
        let rhs: Option<FloatTensor<B>> = ops.state.1.map(|id| checkpointer.retrieve_node_output(id));
        let dtype = lhs.as_ref().or(rhs.as_ref()).map(TensorMetadata::dtype);
        // The gradient of a wide product is rounded as the product of narrow inputs would be.
        let narrow = |gradient: FloatTensor<B>| match dtype {
            Some(dtype) if dtype != gradient.dtype() => B::float_cast(gradient, dtype.into()),
            _ => gradient,
        };
        binary::<B, _, _>(
            ops.parents,
            ops.node,
            grads,
            |gradient| match rhs {
                Some(rhs) => B::product(narrow(gradient), B::float_transpose(rhs)),
                None => unreachable!("the left input is tracked, so the right one was kept"),
            },
            |gradient| match lhs {
                Some(lhs) => B::product(B::float_transpose(lhs), narrow(gradient)),
                None => unreachable!("the right input is tracked, so the left one was kept"),
            },
        );
    }
}

#[derive(Debug)]
struct Attention;

impl<B: Backend + TrainerOps> Backward<B, 3> for Attention {
    type State = ([NodeId; 3], f64, usize);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let (inputs, scale, window) = ops.state;
        let gradient = grads.consume::<B>(&ops.node);
        let [queries, keys, values]: [FloatTensor<B>; 3] =
            inputs.map(|id| checkpointer.retrieve_node_output(id));
        let (by_queries, by_keys, by_values) =
            B::own_attention_backward(queries, keys, values, gradient, scale, window);
        for (parent, gradient) in ops.parents.into_iter().zip([by_queries, by_keys, by_values]) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

fn tracked_product<B: Backend + TrainerOps, C: CheckpointStrategy>(
    lhs: FloatTensor<Autodiff<B, C>>,
    rhs: FloatTensor<Autodiff<B, C>>,
    compute: impl FnOnce(FloatTensor<B>, FloatTensor<B>) -> FloatTensor<B>,
) -> FloatTensor<Autodiff<B, C>> {
    let (lhs_tracked, rhs_tracked) = (lhs.is_tracked(), rhs.is_tracked());
    let prepared = Backward::<B, 2>::prepare::<C>(Product, [lhs.node(), rhs.node()]);
    let product = compute(lhs.primitive().clone(), rhs.primitive().clone());
    match prepared.compute_bound().stateful() {
        OpsKind::Tracked(mut prepared) => {
            let lhs_state = rhs_tracked.then(|| prepared.checkpoint(&lhs));
            let rhs_state = lhs_tracked.then(|| prepared.checkpoint(&rhs));
            prepared.finish((lhs_state, rhs_state), product)
        }
        OpsKind::UnTracked(prepared) => prepared.finish(product),
    }
}

impl<B: Backend + TrainerOps, C: CheckpointStrategy> TrainerOps for Autodiff<B, C> {
    fn product(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        tracked_product::<B, C>(lhs, rhs, B::product)
    }

    fn wide_product(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        tracked_product::<B, C>(lhs, rhs, B::wide_product)
    }

    fn own_attention(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        scale: f64,
        window: usize,
    ) -> FloatTensor<Self> {
        let inputs = [&queries, &keys, &values];
        let prepared = Backward::<B, 3>::prepare::<C>(Attention, inputs.map(|input| input.node()));
        let compute = || {
            let [queries, keys, values] = inputs.map(|input| input.primitive().clone());
            B::own_attention(queries, keys, values, scale, window)
        };
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prepared) => {
                let state = inputs.map(|input| prepared.checkpoint(input));
                prepared.finish((state, scale, window), compute())
            }
            OpsKind::UnTracked(prepared) => prepared.finish(compute()),
        }
    }

    fn own_attention_backward(
        _queries: FloatTensor<Self>,
        _keys: FloatTensor<Self>,
        _values: FloatTensor<Self>,
        _gradient: FloatTensor<Self>,
        _scale: f64,
        _window: usize,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("gradients of gradients are not computed")
    }
}
