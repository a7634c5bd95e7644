//! What are the summed gradients of a step, and how long is that vector?

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::prelude::*;
use burn::tensor::{DType, Gradients};

/// The gradients of the trainable parameters, summed over the micro-batches of a step.
///
/// They are kept in f32 and by the parameter's path in the module: the order of every sum is then
/// the same in each process, and a resumed run repeats the bits of the one it continues.
#[derive(Default)]
pub struct StepGradients {
    by_path: BTreeMap<String, Tensor<1>>,
}

impl StepGradients {
    /// No gradients yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the gradients that a backward pass left for the trainable parameters of `model`.
    pub fn accumulate<M: Module>(&mut self, model: &M, gradients: &mut Gradients) {
        model.visit(&mut Collector { sums: self, gradients, path: Vec::new() });
    }

    /// The same for a part of the model that stands at `place` in it, such as `["layers", "3"]`.
    pub(crate) fn accumulate_within<M: Module>(
        &mut self,
        place: &[&str],
        part: &M,
        gradients: &mut Gradients,
    ) {
        let path = place.iter().map(|name| name.to_string()).collect();
        part.visit(&mut Collector { sums: self, gradients, path });
    }

    /// Takes out the gradient of one parameter, flattened.
    pub(crate) fn take(&mut self, path: &str) -> Option<Tensor<1>> {
        self.by_path.remove(path)
    }

    /// Sets the gradient of one parameter, flattened and f32.
    pub(crate) fn set(&mut self, path: &str, gradient: Tensor<1>) {
        self.by_path.insert(path.to_string(), gradient);
    }

    /// The gradient of one parameter, flattened.
    pub fn get(&self, path: &str) -> Option<&Tensor<1>> {
        self.by_path.get(path)
    }

    /// The paths of all parameters that have a gradient, in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.by_path.keys().map(String::as_str)
    }

    /// The squared L2 norm over all parameters together, as a tensor `[1]` on the device; none
    /// without gradients.
    pub fn norm_squared(&self) -> Option<Tensor<1>> {
        #[cfg(feature = "cuda")]
        if let Some(norm) = self.fused_norm_squared() {
            return Some(norm);
        }
        let squares: Vec<_> = self.by_path.values().map(|gradient| gradient.clone().square().sum()).collect();
        if squares.is_empty() { None } else { Some(Tensor::cat(squares, 0).sum()) }
    }
}

#[cfg(feature = "cuda")]
impl StepGradients {
    /// The same in one launch, where the device has own kernels.
    fn fused_norm_squared(&self) -> Option<Tensor<1>> {
        let first = self.by_path.values().next()?;
        if !crate::kernel::on_gpu(&first.device()) {
            return None;
        }
        let gradients: Vec<Tensor<1>> = self.by_path.values().cloned().collect();
        let norm = crate::kernel::squared_norm(&gradients);
        norm.unwrap_or_else(|reason| panic!("{reason}\nhelp: `tandem doctor` checks the device"))
    }
}

struct Collector<'a> {
    sums: &'a mut StepGradients,
    gradients: &'a mut Gradients,
    path: Vec<String>,
}

impl ModuleVisitor for Collector<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !param.is_require_grad() {
            return;
        }
        let Some(gradient) = param.val().grad_remove(self.gradients) else { return };
        let length = gradient.shape().num_elements();
        let gradient = gradient.reshape([length]).cast(DType::F32);
        let path = self.path.join(".");
        let sum = match self.sums.by_path.remove(&path) {
            Some(sum) => sum + gradient,
            None => gradient,
        };
        self.sums.by_path.insert(path, sum);
    }
}
