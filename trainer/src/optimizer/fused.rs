//! How does a step of AdamW change all parameters in one launch on a GPU?

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::prelude::*;
use burn::tensor::DType;

use super::{AdamW, Moments, StepGradients};
use crate::kernel::{DeviceMoments, Rates, Stepped, has_own_kernels};

impl AdamW {
    /// A step where every parameter with a gradient is in bf16 on a GPU with own kernels; else the model as it was.
    pub(super) fn fused_step<M: Module>(
        &mut self,
        model: M,
        gradients: &StepGradients,
        scale: f64,
        learning_rate: f64,
    ) -> Result<(M, Tensor<1>), M> {
        let mut collected = Collector { gradients, path: Vec::new(), parameters: Vec::new(), fits: true };
        model.visit(&mut collected);
        let Collector { parameters, fits, .. } = collected;
        if !fits || parameters.is_empty() {
            self.leave_device();
            return Err(model);
        }
        if self.on_device.as_ref().is_some_and(|held| !held.covers(&parameters)) {
            self.leave_device();
        }
        if self.on_device.is_none() {
            let stored = |path: &str| {
                let Moments { master, first, second } = self.moments.get(path)?.clone();
                Some([master?, first, second])
            };
            match DeviceMoments::new(&parameters, stored) {
                Ok(Some(made)) => {
                    self.on_device = Some(made);
                    self.moments.clear();
                }
                Ok(None) => return Err(model),
                Err(reason) => {
                    tracing::warn!("AdamW takes one parameter at a time: {reason}");
                    return Err(model);
                }
            }
        }
        let Some(on_device) = &mut self.on_device else { return Err(model) };
        let step = self.step as f64;
        let super::AdamWConfig { beta_1, beta_2, epsilon, weight_decay } = self.config;
        let rates = Rates {
            scale,
            beta_1,
            beta_2,
            epsilon,
            rate: learning_rate / (1.0 - beta_1.powf(step)),
            root: (1.0 - beta_2.powf(step)).sqrt().recip(),
            decay: 1.0 - learning_rate * weight_decay,
        };
        let paths: Vec<String> = parameters.iter().map(|parameter| parameter.path.clone()).collect();
        match on_device.step(parameters, rates) {
            Ok((weights, change)) => {
                let weights = paths.into_iter().zip(weights).collect();
                Ok((model.map(&mut Replacer { path: Vec::new(), weights }), change))
            }
            // What a backend does with an error that no caller can handle.
            Err(reason) => panic!("{reason}\nhelp: `tandem doctor` checks the device"),
        }
    }

    /// Takes the state back from the device, so that Burn can go on with it.
    fn leave_device(&mut self) {
        if let Some(on_device) = self.on_device.take() {
            self.moments = copies(&on_device);
        }
    }
}

/// The state that the device holds, as the optimiser's users know it.
pub(super) fn copies(on_device: &DeviceMoments) -> BTreeMap<String, Moments> {
    let read = on_device.read();
    let read = read.unwrap_or_else(|reason| panic!("the device cannot give the optimiser's state: {reason}"));
    let moments = |[master, first, second]: [Tensor<1>; 3]| Moments { master: Some(master), first, second };
    read.into_iter().map(|(path, tensors)| (path, moments(tensors))).collect()
}

struct Collector<'a> {
    gradients: &'a StepGradients,
    path: Vec<String>,
    parameters: Vec<Stepped>,
    fits: bool,
}

impl ModuleVisitor for Collector<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let path = self.path.join(".");
        let Some(gradient) = self.gradients.get(&path) else { return };
        let weight = param.val();
        if !has_own_kernels(&weight) || gradient.dtype() != DType::F32 {
            self.fits = false;
            return;
        }
        let count = weight.shape().num_elements();
        let weight: Tensor<1> = weight.inner().reshape([count]);
        self.parameters.push(Stepped { path, gradient: gradient.clone(), weight });
    }
}

struct Replacer {
    path: Vec<String>,
    weights: BTreeMap<String, Tensor<1>>,
}

impl ModuleMapper for Replacer {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(weight) = self.weights.remove(&self.path.join(".")) else { return param };
        let (id, old, mapper) = param.consume();
        let mut new: Tensor<D> = weight.reshape(old.dims());
        if old.is_autodiff() {
            new = new.autodiff().require_grad();
        }
        Param::from_mapped_value(id, new, mapper)
    }
}
