//! How do the parts of a layer that are not products become one kernel each, with a gradient?
//!
//! Burn computes the same from several operations; these are used in bf16 on an NVIDIA GPU only, where
//! reading and writing activations is what costs. `tandem doctor` compares them with Burn on the CPU.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, Backend, Dispatch, TensorMetadata, backend_extension};
use burn::tensor::{DType, Int, Shape, Tensor};

use super::flash;

/// One kernel each way.
#[backend_extension(Autodiff, Cube, Fusion)]
pub(crate) trait LayerOps: Backend {
    /// RMSNorm of the last dimension.
    #[fusion(dtype = x, shape = x)]
    fn norm(x: FloatTensor<Self>, weight: FloatTensor<Self>, epsilon: f64) -> FloatTensor<Self>;

    #[fusion(meta = |x, weight, _gradient, _epsilon| (x.clone(), weight.clone()))]
    fn norm_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// `silu(gate) · up` of gate and up side by side.
    #[fusion(dtype = both, shape = halved(both))]
    fn gated(both: FloatTensor<Self>) -> FloatTensor<Self>;

    #[fusion(dtype = both, shape = both)]
    fn gated_backward(both: FloatTensor<Self>, gradient: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Rotation and attention of whole sequences, from `[batch, tokens, heads · width]` with queries, keys and
    /// values side by side to `[batch, tokens, query heads · width]`.
    #[fusion(meta = |all, cosines, _sines, turn| attended_spec(all, cosines, turn))]
    fn attend(
        all: FloatTensor<Self>,
        cosines: FloatTensor<Self>,
        sines: FloatTensor<Self>,
        turn: Turn,
    ) -> FloatTensor<Self>;

    #[fusion(dtype = all, shape = all)]
    fn attend_backward(
        all: FloatTensor<Self>,
        cosines: FloatTensor<Self>,
        sines: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        turn: Turn,
    ) -> FloatTensor<Self>;

    /// [`attend`](Self::attend) of heads that `flash` fits, with what its gradient needs: the result, the rotated
    /// input, and the logarithm of each row's sum of exponentials.
    #[fusion(meta = |all, cosines, _sines, turn| flash_spec(all, cosines, turn))]
    fn flash(
        all: FloatTensor<Self>,
        cosines: FloatTensor<Self>,
        sines: FloatTensor<Self>,
        turn: Turn,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    #[fusion(dtype = rotated, shape = rotated)]
    fn flash_backward(
        rotated: FloatTensor<Self>,
        cosines: FloatTensor<Self>,
        sines: FloatTensor<Self>,
        out: FloatTensor<Self>,
        normalisers: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        turn: Turn,
    ) -> FloatTensor<Self>;

    /// The rows of `table` with the given numbers.
    #[fusion(meta = |table, ids| TensorSpec::new(Shape::from([ids.shape[0], table.shape[1]]), table.dtype))]
    fn rows(table: FloatTensor<Self>, ids: IntTensor<Self>) -> FloatTensor<Self>;

    #[fusion(meta = |gradient, _ids, count| TensorSpec::new(Shape::from([*count, gradient.shape[1]]), gradient.dtype))]
    fn rows_backward(gradient: FloatTensor<Self>, ids: IntTensor<Self>, count: usize) -> FloatTensor<Self>;
}

fn halved(shape: &Shape) -> Shape {
    let mut shape = shape.clone();
    let last = shape.num_dims() - 1;
    shape[last] /= 2;
    shape
}

/// What attention needs to know beside its tensors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub query_heads: usize,
    pub key_heads: usize,
    pub scale: f64,
    /// Newest tokens that a token looks at.
    pub window: usize,
}

fn attended_spec(all: &TensorSpec, cosines: &TensorSpec, turn: &Turn) -> TensorSpec {
    let width = 2 * cosines.shape[cosines.shape.num_dims() - 1];
    let shape = [all.shape[0], all.shape[1], turn.query_heads * width];
    TensorSpec::new(Shape::from(shape), all.dtype)
}

fn flash_spec(all: &TensorSpec, cosines: &TensorSpec, turn: &Turn) -> (TensorSpec, TensorSpec, TensorSpec) {
    let rows = Shape::from([all.shape[0], turn.query_heads, all.shape[1]]);
    (attended_spec(all, cosines, turn), all.clone(), TensorSpec::new(rows, DType::F32))
}

/// `x / √(mean(x²) + ε) · weight` over the last dimension.
pub(crate) fn rms_norm<const D: usize>(x: Tensor<D>, weight: Tensor<1>, epsilon: f64) -> Tensor<D> {
    Tensor::from_dispatch(<Dispatch as LayerOps>::norm(x.into_dispatch(), weight.into_dispatch(), epsilon))
}

/// `silu(gate) · up`, where the last dimension holds gate and up.
pub(crate) fn swiglu<const D: usize>(both: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(<Dispatch as LayerOps>::gated(both.into_dispatch()))
}

/// Attention of whole sequences to themselves: `all` is `[batch, tokens, heads · width]`, queries, keys
/// and values side by side, not yet rotated; the result is `[batch, tokens, query heads · width]`. Cosines
/// and sines are those of positions `0..tokens`, in f32.
pub(crate) fn attend(all: Tensor<3>, [cosines, sines]: [Tensor<4>; 2], turn: Turn) -> Tensor<3> {
    let (all, cosines, sines) = (all.into_dispatch(), cosines.into_dispatch(), sines.into_dispatch());
    Tensor::from_dispatch(<Dispatch as LayerOps>::attend(all, cosines, sines, turn))
}

/// The rows of `table` with the given numbers, which may come more than once.
pub(crate) fn rows(table: Tensor<2>, ids: Tensor<1, Int>) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as LayerOps>::rows(table.into_dispatch(), ids.into_dispatch()))
}

#[derive(Debug)]
struct Norm;

impl<B: Backend + LayerOps> Backward<B, 2> for Norm {
    type State = ([NodeId; 2], f64);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let (inputs, epsilon) = ops.state;
        let gradient = grads.consume::<B>(&ops.node);
        let [x, weight]: [FloatTensor<B>; 2] = inputs.map(|id| checkpointer.retrieve_node_output(id));
        let (by_x, by_weight) = B::norm_backward(x, weight, gradient, epsilon);
        for (parent, gradient) in ops.parents.into_iter().zip([by_x, by_weight]) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

#[derive(Debug)]
struct Gated;

impl<B: Backend + LayerOps> Backward<B, 1> for Gated {
    type State = NodeId;

    fn backward(self, ops: Ops<NodeId, 1>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let both: FloatTensor<B> = checkpointer.retrieve_node_output(ops.state);
        unary::<B, _>(ops.parents, ops.node, grads, |gradient| B::gated_backward(both, gradient));
    }
}

#[derive(Debug)]
struct Attend;

impl<B: Backend + LayerOps> Backward<B, 1> for Attend {
    type State = (NodeId, [FloatTensor<B>; 2], Turn);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let (all, [cosines, sines], turn) = ops.state;
        let all: FloatTensor<B> = checkpointer.retrieve_node_output(all);
        unary::<B, _>(ops.parents, ops.node, grads, |gradient| {
            B::attend_backward(all, cosines, sines, gradient, turn)
        });
    }
}

#[derive(Debug)]
struct Flash;

#[derive(Clone, Debug)]
struct Kept<B: Backend> {
    rotated: FloatTensor<B>,
    tables: [FloatTensor<B>; 2],
    out: FloatTensor<B>,
    normalisers: FloatTensor<B>,
    turn: Turn,
}

impl<B: Backend + LayerOps> Backward<B, 1> for Flash {
    type State = Kept<B>;

    fn backward(self, ops: Ops<Kept<B>, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let Kept { rotated, tables: [cosines, sines], out, normalisers, turn } = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |gradient| {
            B::flash_backward(rotated, cosines, sines, out, normalisers, gradient, turn)
        });
    }
}

#[derive(Debug)]
struct Rows;

impl<B: Backend + LayerOps> Backward<B, 1> for Rows {
    type State = (IntTensor<B>, usize);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let (ids, count) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |gradient| B::rows_backward(gradient, ids, count));
    }
}

impl<B: Backend + LayerOps, C: CheckpointStrategy> LayerOps for Autodiff<B, C> {
    fn norm(x: FloatTensor<Self>, weight: FloatTensor<Self>, epsilon: f64) -> FloatTensor<Self> {
        let prepared = Backward::<B, 2>::prepare::<C>(Norm, [x.node(), weight.node()]);
        let out = B::norm(x.primitive().clone(), weight.primitive().clone(), epsilon);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prepared) => {
                let state = [prepared.checkpoint(&x), prepared.checkpoint(&weight)];
                prepared.finish((state, epsilon), out)
            }
            OpsKind::UnTracked(prepared) => prepared.finish(out),
        }
    }

    fn gated(both: FloatTensor<Self>) -> FloatTensor<Self> {
        let prepared = Backward::<B, 1>::prepare::<C>(Gated, [both.node()]);
        let out = B::gated(both.primitive().clone());
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prepared) => {
                let state = prepared.checkpoint(&both);
                prepared.finish(state, out)
            }
            OpsKind::UnTracked(prepared) => prepared.finish(out),
        }
    }

    fn rows(table: FloatTensor<Self>, ids: IntTensor<Self>) -> FloatTensor<Self> {
        let count = table.primitive().shape()[0];
        let prepared = Backward::<B, 1>::prepare::<C>(Rows, [table.node()]);
        let out = B::rows(table.primitive().clone(), ids.clone());
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish((ids, count), out),
            OpsKind::UnTracked(prepared) => prepared.finish(out),
        }
    }

    fn attend(
        all: FloatTensor<Self>,
        cosines: FloatTensor<Self>,
        sines: FloatTensor<Self>,
        turn: Turn,
    ) -> FloatTensor<Self> {
        let tables = [cosines.primitive().clone(), sines.primitive().clone()];
        let half = tables[0].shape();
        if flash::fits(2 * half[half.num_dims() - 1]) {
            let prepared = Backward::<B, 1>::prepare::<C>(Flash, [all.node()]);
            return match prepared.compute_bound().stateful() {
                OpsKind::Tracked(prepared) => {
                    let [cosines, sines] = tables.clone();
                    let (out, rotated, normalisers) = B::flash(all.primitive().clone(), cosines, sines, turn);
                    let kept = Kept { rotated, tables, out: out.clone(), normalisers, turn };
                    prepared.finish(kept, out)
                }
                OpsKind::UnTracked(prepared) => {
                    let [cosines, sines] = tables;
                    prepared.finish(B::attend(all.primitive().clone(), cosines, sines, turn))
                }
            };
        }
        let prepared = Backward::<B, 1>::prepare::<C>(Attend, [all.node()]);
        let [cosines, sines] = tables.clone();
        let out = B::attend(all.primitive().clone(), cosines, sines, turn);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prepared) => {
                let state = prepared.checkpoint(&all);
                prepared.finish((state, tables, turn), out)
            }
            OpsKind::UnTracked(prepared) => prepared.finish(out),
        }
    }

    fn flash(
        _all: FloatTensor<Self>,
        _cosines: FloatTensor<Self>,
        _sines: FloatTensor<Self>,
        _turn: Turn,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("`attend` computes it where a gradient is kept")
    }

    fn flash_backward(
        _rotated: FloatTensor<Self>,
        _cosines: FloatTensor<Self>,
        _sines: FloatTensor<Self>,
        _out: FloatTensor<Self>,
        _normalisers: FloatTensor<Self>,
        _gradient: FloatTensor<Self>,
        _turn: Turn,
    ) -> FloatTensor<Self> {
        unreachable!("gradients of gradients are not computed")
    }

    fn norm_backward(
        _x: FloatTensor<Self>,
        _weight: FloatTensor<Self>,
        _gradient: FloatTensor<Self>,
        _epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("gradients of gradients are not computed")
    }

    fn gated_backward(_both: FloatTensor<Self>, _gradient: FloatTensor<Self>) -> FloatTensor<Self> {
        unreachable!("gradients of gradients are not computed")
    }

    fn attend_backward(
        _all: FloatTensor<Self>,
        _cosines: FloatTensor<Self>,
        _sines: FloatTensor<Self>,
        _gradient: FloatTensor<Self>,
        _turn: Turn,
    ) -> FloatTensor<Self> {
        unreachable!("gradients of gradients are not computed")
    }

    fn rows_backward(
        _gradient: FloatTensor<Self>,
        _ids: IntTensor<Self>,
        _count: usize,
    ) -> FloatTensor<Self> {
        unreachable!("gradients of gradients are not computed")
    }
}
