//! How does a module get to another device?

use burn::module::{Module, ModuleMapper, Param};
use burn::prelude::*;

/// A copy of `module` on `device`, through the memory of the host: formats and what is trained stay as they are, and
/// nothing is shared.
pub(crate) fn moved<M: Module>(module: M, device: &Device) -> M {
    module.map(&mut Move(device))
}

struct Move<'a>(&'a Device);

impl ModuleMapper for Move<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| {
            let (dtype, tracked, trained) = (tensor.dtype(), tensor.is_autodiff(), tensor.is_require_grad());
            let values = if tracked { tensor.inner() } else { tensor };
            let copy = Tensor::from_data(values.into_data(), (self.0, dtype));
            if tracked { copy.autodiff().set_require_grad(trained) } else { copy }
        })
    }
}
