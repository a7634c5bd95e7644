//! How is an adapter's term added to a part of a projection's output without a copy of it?

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, backend_extension};
use burn::tensor::{Shape, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;

use super::cube::{computed, empty, matrix, owner, plain};
use super::cuda::Matrix;

/// Which columns of the output a term belongs to, and what it is multiplied by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    pub start: usize,
    pub width: usize,
    pub scale: f64,
}

/// `y[:, columns] += scale · terms · factor`, and its gradients.
#[backend_extension(Autodiff, Cube, Fusion)]
pub(crate) trait LoraOps: Backend {
    #[fusion(dtype = y, shape = y)]
    fn low_rank(
        y: FloatTensor<Self>,
        terms: FloatTensor<Self>,
        factor: FloatTensor<Self>,
        columns: Columns,
    ) -> FloatTensor<Self>;

    #[fusion(meta = |gradient, factor, _columns| spec(gradient, [gradient.shape[0], factor.shape[0]]))]
    fn low_rank_by_terms(
        gradient: FloatTensor<Self>,
        factor: FloatTensor<Self>,
        columns: Columns,
    ) -> FloatTensor<Self>;

    #[fusion(meta = |gradient, terms, columns| spec(gradient, [terms.shape[1], columns.width]))]
    fn low_rank_by_factor(
        gradient: FloatTensor<Self>,
        terms: FloatTensor<Self>,
        columns: Columns,
    ) -> FloatTensor<Self>;
}

fn spec(like: &TensorSpec, shape: [usize; 2]) -> TensorSpec {
    TensorSpec::new(Shape::from(shape), like.dtype)
}

/// `y` with `scale · terms · factor` added to some columns; `y` is `[rows, all]`, `terms` `[rows, rank]`, `factor`
/// `[rank, width]`.
pub(crate) fn add_low_rank(y: Tensor<2>, terms: Tensor<2>, factor: Tensor<2>, columns: Columns) -> Tensor<2> {
    let [y, terms, factor] = [y, terms, factor].map(Tensor::into_dispatch);
    Tensor::from_dispatch(<Dispatch as LoraOps>::low_rank(y, terms, factor, columns))
}

/// The columns of a matrix with contiguous rows.
fn part(of: &CubeTensor, columns: Columns) -> Result<Matrix, String> {
    let whole = matrix(of)?;
    Ok(Matrix { at: whole.at.skip(columns.start), ..whole })
}

fn add(y: CubeTensor, terms: CubeTensor, factor: CubeTensor, columns: Columns) -> Result<CubeTensor, String> {
    let y = into_contiguous(y);
    // Somebody else may want it as it was.
    let y = if y.can_mut() { y } else { y.copy() };
    let (terms, factor) = (plain(terms), plain(factor));
    let sizes = [terms.meta.shape()[0], terms.meta.shape()[1], columns.width];
    let matrices = [matrix(&terms)?, matrix(&factor)?, part(&y, columns)?];
    owner(&y)?
        .queue(|work| work.product_onto(matrices, [y.dtype; 2], sizes, 1, [columns.scale as f32, 1.0]))?;
    Ok(y)
}

fn by_terms(gradient: CubeTensor, factor: CubeTensor, columns: Columns) -> Result<CubeTensor, String> {
    let (gradient, factor) = (into_contiguous(gradient), plain(factor));
    let (rows, rank) = (gradient.meta.shape()[0], factor.meta.shape()[0]);
    let out = empty(&gradient, [rows, rank], gradient.dtype);
    let mut factor_at = matrix(&factor)?;
    factor_at.transposed = !factor_at.transposed;
    let matrices = [part(&gradient, columns)?, factor_at, matrix(&out)?];
    owner(&out)?.queue(|work| {
        let sizes = [rows, columns.width, rank];
        work.product(matrices, [out.dtype; 2], sizes, 1, columns.scale as f32)
    })?;
    Ok(out)
}

fn by_factor(gradient: CubeTensor, terms: CubeTensor, columns: Columns) -> Result<CubeTensor, String> {
    let (gradient, terms) = (into_contiguous(gradient), plain(terms));
    let (rows, rank) = (terms.meta.shape()[0], terms.meta.shape()[1]);
    let out = empty(&gradient, [rank, columns.width], gradient.dtype);
    let mut terms_at = matrix(&terms)?;
    terms_at.transposed = !terms_at.transposed;
    let matrices = [terms_at, part(&gradient, columns)?, matrix(&out)?];
    owner(&out)?.queue(|work| {
        let sizes = [rank, rows, columns.width];
        work.product(matrices, [out.dtype; 2], sizes, 1, columns.scale as f32)
    })?;
    Ok(out)
}

impl LoraOps for CubeBackend {
    fn low_rank(
        y: FloatTensor<Self>,
        terms: FloatTensor<Self>,
        factor: FloatTensor<Self>,
        columns: Columns,
    ) -> FloatTensor<Self> {
        computed(add(y, terms, factor, columns))
    }

    fn low_rank_by_terms(
        gradient: FloatTensor<Self>,
        factor: FloatTensor<Self>,
        columns: Columns,
    ) -> FloatTensor<Self> {
        computed(by_terms(gradient, factor, columns))
    }

    fn low_rank_by_factor(
        gradient: FloatTensor<Self>,
        terms: FloatTensor<Self>,
        columns: Columns,
    ) -> FloatTensor<Self> {
        computed(by_factor(gradient, terms, columns))
    }
}

#[derive(Debug)]
struct LowRank;

impl<B: Backend + LoraOps> Backward<B, 3> for LowRank {
    type State = ([NodeId; 2], Columns);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let (inputs, columns) = ops.state;
        let gradient = grads.consume::<B>(&ops.node);
        let [terms, factor]: [FloatTensor<B>; 2] = inputs.map(|id| checkpointer.retrieve_node_output(id));
        let [of_y, of_terms, of_factor] = ops.parents;
        if let Some(parent) = of_terms {
            grads.register::<B>(parent.id, B::low_rank_by_terms(gradient.clone(), factor, columns));
        }
        if let Some(parent) = of_factor {
            grads.register::<B>(parent.id, B::low_rank_by_factor(gradient.clone(), terms, columns));
        }
        if let Some(parent) = of_y {
            grads.register::<B>(parent.id, gradient);
        }
    }
}

impl<B: Backend + LoraOps, C: CheckpointStrategy> LoraOps for Autodiff<B, C> {
    fn low_rank(
        y: FloatTensor<Self>,
        terms: FloatTensor<Self>,
        factor: FloatTensor<Self>,
        columns: Columns,
    ) -> FloatTensor<Self> {
        // Taken apart, so that nobody else holds `y` and it can be changed in place.
        let (y, of_y) = y.into_parts();
        let nodes = [of_y, terms.node(), factor.node()];
        let prepared = Backward::<B, 3>::prepare::<C>(LowRank, nodes);
        let out = B::low_rank(y, terms.primitive().clone(), factor.primitive().clone(), columns);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prepared) => {
                let state = [prepared.checkpoint(&terms), prepared.checkpoint(&factor)];
                prepared.finish((state, columns), out)
            }
            OpsKind::UnTracked(prepared) => prepared.finish(out),
        }
    }

    fn low_rank_by_terms(
        _gradient: FloatTensor<Self>,
        _factor: FloatTensor<Self>,
        _columns: Columns,
    ) -> FloatTensor<Self> {
        unreachable!("gradients of gradients are not computed")
    }

    fn low_rank_by_factor(
        _gradient: FloatTensor<Self>,
        _terms: FloatTensor<Self>,
        _columns: Columns,
    ) -> FloatTensor<Self> {
        unreachable!("gradients of gradients are not computed")
    }
}
