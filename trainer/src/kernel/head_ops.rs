//! How are log-probabilities read from rows of logits, and their gradient written, in one pass each?

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, binary};
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, Backend, Dispatch, TensorMetadata, backend_extension};
use burn::tensor::{DType, FloatDType, Int, Shape, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;

use super::cube::{computed, empty, narrow_ids, owner};
use super::cuda::{Argument, pointer};
use super::ops::TrainerOps;

/// Threads of a block, which takes a row.
const THREADS: usize = 512;

/// What the head does beside its products.
#[backend_extension(Autodiff, Cube, Fusion)]
pub(crate) trait HeadOps: Backend {
    /// Log-probability of the target, entropy, and the logarithm of the sum of exponentials of each row of
    /// `inverse · logits`.
    #[fusion(meta = |logits, _targets, _inverse| (row_spec(logits), row_spec(logits), row_spec(logits)))]
    fn read_logits(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        inverse: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// The gradient by the logits, in bf16.
    #[fusion(meta = |logits, _targets, _normalisers, _entropy, _by_logp, _by_entropy, _inverse|
        TensorSpec::new(logits.shape.clone(), DType::BF16))]
    fn logits_gradient(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        normalisers: FloatTensor<Self>,
        entropy: FloatTensor<Self>,
        by_logp: FloatTensor<Self>,
        by_entropy: FloatTensor<Self>,
        inverse: f64,
    ) -> FloatTensor<Self>;

    /// 0, whose gradient is that of `Σ gradient ∘ (hidden · weight)`.
    #[fusion(meta = |hidden, _weight, _gradient, _tied| TensorSpec::new(Shape::from([1]), hidden.dtype))]
    fn pulled(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        tied: bool,
    ) -> FloatTensor<Self>;
}

fn row_spec(logits: &TensorSpec) -> TensorSpec {
    TensorSpec::new(Shape::from([logits.shape[0]]), DType::F32)
}

/// Each row's log-probability of its target, entropy, and logarithm of the sum of exponentials, of the distribution
/// `softmax(inverse · logits)`; logits are `[rows, vocabulary]` in f32. Nothing is tracked.
pub(crate) fn read_logits(logits: Tensor<2>, targets: Tensor<1, Int>, inverse: f64) -> [Tensor<1>; 3] {
    let (logits, targets) = (logits.into_dispatch(), targets.into_dispatch());
    let (logp, entropy, normalisers) = <Dispatch as HeadOps>::read_logits(logits, targets, inverse);
    [logp, entropy, normalisers].map(Tensor::from_dispatch)
}

/// The gradient by the logits, `[rows, vocabulary]` in bf16, from what [`read_logits`] gave and the gradients by each
/// row's log-probability and entropy.
pub(crate) fn logits_gradient(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    [normalisers, entropy]: [Tensor<1>; 2],
    [by_logp, by_entropy]: [Tensor<1>; 2],
    inverse: f64,
) -> Tensor<2> {
    let (logits, targets) = (logits.into_dispatch(), targets.into_dispatch());
    let [normalisers, entropy, by_logp, by_entropy] =
        [normalisers, entropy, by_logp, by_entropy].map(Tensor::into_dispatch);
    Tensor::from_dispatch(<Dispatch as HeadOps>::logits_gradient(
        logits,
        targets,
        normalisers,
        entropy,
        by_logp,
        by_entropy,
        inverse,
    ))
}

/// A scalar whose backward pass leaves the gradients of `hidden · weight` where the product's own gradient is
/// `gradient`; the product is not computed. `tied` says that the weight is a transposed table, so that its gradient is
/// made in the table's layout.
pub(crate) fn pulled(hidden: Tensor<2>, weight: Tensor<2>, gradient: Tensor<2>, tied: bool) -> Tensor<1> {
    let [hidden, weight, gradient] = [hidden, weight, gradient].map(Tensor::into_dispatch);
    Tensor::from_dispatch(<Dispatch as HeadOps>::pulled(hidden, weight, gradient, tied))
}

fn read(logits: CubeTensor, targets: CubeTensor, inverse: f64) -> Result<[CubeTensor; 3], String> {
    let (logits, targets) = (into_contiguous(logits), narrow_ids(targets));
    let (rows, vocabulary) = (logits.meta.shape()[0], logits.meta.shape()[1]);
    let out = [0; 3].map(|_| empty(&logits, [rows], DType::F32));
    let (from, ids) = (pointer(&logits)?, pointer(&targets)?);
    let [logp, entropy, normalisers] = &out;
    let (logp, entropy, normalisers) = (pointer(logp)?, pointer(entropy)?, pointer(normalisers)?);
    owner(&logits)?.queue(|work| {
        let arguments: [&dyn Argument; 7] =
            [&from, &ids, &logp, &entropy, &normalisers, &(vocabulary as i32), &(inverse as f32)];
        work.launch(("", "read_logits"), [rows, 1], THREADS, &arguments)
    })?;
    Ok(out)
}

fn gradient(
    logits: CubeTensor,
    targets: CubeTensor,
    of_rows: [CubeTensor; 4],
    inverse: f64,
) -> Result<CubeTensor, String> {
    let (logits, targets) = (into_contiguous(logits), narrow_ids(targets));
    let [normalisers, entropy, by_logp, by_entropy] = of_rows.map(into_contiguous);
    let (rows, vocabulary) = (logits.meta.shape()[0], logits.meta.shape()[1]);
    let out = empty(&logits, [rows, vocabulary], DType::BF16);
    let (from, ids, to) = (pointer(&logits)?, pointer(&targets)?, pointer(&out)?);
    let (normalisers, entropy) = (pointer(&normalisers)?, pointer(&entropy)?);
    let (by_logp, by_entropy) = (pointer(&by_logp)?, pointer(&by_entropy)?);
    owner(&logits)?.queue(|work| {
        let (vocabulary, inverse) = (vocabulary as i32, inverse as f32);
        let arguments: [&dyn Argument; 9] =
            [&from, &ids, &normalisers, &entropy, &by_logp, &by_entropy, &to, &vocabulary, &inverse];
        work.launch(("", "logits_gradient"), [rows, 1], THREADS, &arguments)
    })?;
    Ok(out)
}

impl HeadOps for CubeBackend {
    fn read_logits(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        inverse: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let [logp, entropy, normalisers] = computed(read(logits, targets, inverse));
        (logp, entropy, normalisers)
    }

    fn logits_gradient(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        normalisers: FloatTensor<Self>,
        entropy: FloatTensor<Self>,
        by_logp: FloatTensor<Self>,
        by_entropy: FloatTensor<Self>,
        inverse: f64,
    ) -> FloatTensor<Self> {
        computed(gradient(logits, targets, [normalisers, entropy, by_logp, by_entropy], inverse))
    }

    fn pulled(
        _hidden: FloatTensor<Self>,
        _weight: FloatTensor<Self>,
        _gradient: FloatTensor<Self>,
        _tied: bool,
    ) -> FloatTensor<Self> {
        unreachable!("only a gradient is asked for")
    }
}

#[derive(Debug)]
struct Pulled;

#[derive(Clone, Debug)]
struct Factors<B: Backend> {
    hidden: NodeId,
    weight: NodeId,
    gradient: FloatTensor<B>,
    tied: bool,
}

impl<B: Backend + HeadOps + TrainerOps> Backward<B, 2> for Pulled {
    type State = Factors<B>;

    fn backward(self, ops: Ops<Factors<B>, 2>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let Factors { hidden, weight, gradient, tied } = ops.state;
        let hidden: FloatTensor<B> = checkpointer.retrieve_node_output(hidden);
        let weight: FloatTensor<B> = checkpointer.retrieve_node_output(weight);
        let above = gradient.clone();
        binary::<B, _, _>(
            ops.parents,
            ops.node,
            grads,
            |_| B::product(above, B::float_transpose(weight)),
            |_| match tied {
                true => B::float_transpose(B::product(B::float_transpose(gradient), hidden)),
                false => B::product(B::float_transpose(hidden), gradient),
            },
        );
    }
}

impl<B: Backend + HeadOps + TrainerOps, C: CheckpointStrategy> HeadOps for Autodiff<B, C> {
    fn read_logits(
        _logits: FloatTensor<Self>,
        _targets: IntTensor<Self>,
        _inverse: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("logits are read without a graph")
    }

    fn logits_gradient(
        _logits: FloatTensor<Self>,
        _targets: IntTensor<Self>,
        _normalisers: FloatTensor<Self>,
        _entropy: FloatTensor<Self>,
        _by_logp: FloatTensor<Self>,
        _by_entropy: FloatTensor<Self>,
        _inverse: f64,
    ) -> FloatTensor<Self> {
        unreachable!("gradients of gradients are not computed")
    }

    fn pulled(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        tied: bool,
    ) -> FloatTensor<Self> {
        let prepared = Backward::<B, 2>::prepare::<C>(Pulled, [hidden.node(), weight.node()]);
        let device = hidden.primitive().device();
        let dtype: FloatDType = hidden.primitive().dtype().into();
        let zero = B::float_zeros(Shape::from([1]), &device, dtype);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prepared) => {
                let state = Factors {
                    hidden: prepared.checkpoint(&hidden),
                    weight: prepared.checkpoint(&weight),
                    gradient: gradient.into_primitive(),
                    tied,
                };
                prepared.finish(state, zero)
            }
            OpsKind::UnTracked(prepared) => prepared.finish(zero),
        }
    }
}
