//! How does a step of AdamW change the trainable parameters?

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, Param};
use burn::prelude::*;
use burn::tensor::DType;
use serde::{Deserialize, Serialize};

use super::StepGradients;

/// Settings of [`AdamW`]; the defaults are those of PyTorch, but for the weight decay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdamWConfig {
    /// Decay of the mean of gradients.
    pub beta_1: f64,
    /// Decay of the mean of squared gradients.
    pub beta_2: f64,
    /// Added to the root of the mean square.
    pub epsilon: f64,
    /// Decoupled weight decay; the step multiplies a weight by `1 − rate · weight_decay`.
    pub weight_decay: f64,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self { beta_1: 0.9, beta_2: 0.999, epsilon: 1e-8, weight_decay: 0.0 }
    }
}

/// What the optimiser remembers of one parameter; each tensor is flat and f32.
#[derive(Clone, Debug)]
pub struct Moments {
    /// The parameter itself, only where the model holds it in a smaller format than f32.
    pub master: Option<Tensor<1>>,
    /// Mean of gradients.
    pub first: Tensor<1>,
    /// Mean of squared gradients.
    pub second: Tensor<1>,
}

/// AdamW ("Decoupled Weight Decay Regularization") with f32 master weights.
///
/// Only a parameter that has received a gradient has state.
#[derive(Debug)]
pub struct AdamW {
    pub(super) config: AdamWConfig,
    pub(super) step: u64,
    pub(super) moments: BTreeMap<String, Moments>,
    /// In place of `moments`, where one kernel changes all parameters.
    #[cfg(feature = "cuda")]
    pub(super) on_device: Option<crate::kernel::DeviceMoments>,
}

impl Moments {
    /// A copy on another device.
    pub(crate) fn moved(&self, device: &Device) -> Self {
        let copy = |tensor: &Tensor<1>| Tensor::from_data(tensor.to_data(), (device, DType::F32));
        Self { master: self.master.as_ref().map(copy), first: copy(&self.first), second: copy(&self.second) }
    }
}

/// Why saved state of the optimiser does not fit.
#[derive(Debug, thiserror::Error)]
pub enum OptimizerError {
    #[error(
        "optimiser state for `{path}` has {found} values and the parameter has {expected}\n\
         help: load the state with the model and the LoRA settings it was saved with"
    )]
    WrongLength { path: String, expected: usize, found: usize },
    #[error(
        "optimiser state names `{path}`, which is no trainable parameter of this model\n\
         help: load the state with the model and the LoRA settings it was saved with"
    )]
    UnknownParameter { path: String },
}

impl AdamW {
    /// An optimiser that has taken no step.
    pub fn new(config: AdamWConfig) -> Self {
        Self {
            config,
            step: 0,
            moments: BTreeMap::new(),
            #[cfg(feature = "cuda")]
            on_device: None,
        }
    }

    /// An optimiser with the state of an earlier one; `moments` are by parameter path.
    ///
    /// # Errors
    /// If a path or a length is not one of `model`'s trainable parameters.
    pub fn restore<M: Module>(
        config: AdamWConfig,
        step: u64,
        moments: BTreeMap<String, Moments>,
        model: &M,
    ) -> Result<Self, OptimizerError> {
        let lengths = trainable_lengths(model);
        for (path, state) in &moments {
            let Some(&expected) = lengths.get(path) else {
                return Err(OptimizerError::UnknownParameter { path: path.clone() });
            };
            let parts = [Some(&state.first), Some(&state.second), state.master.as_ref()];
            for part in parts.into_iter().flatten() {
                let found = part.dims()[0];
                if found != expected {
                    return Err(OptimizerError::WrongLength { path: path.clone(), expected, found });
                }
            }
        }
        Ok(Self { step, moments, ..Self::new(config) })
    }

    /// How many steps were taken.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// The state of each parameter that has some, by path.
    pub fn moments(&self) -> BTreeMap<String, Moments> {
        #[cfg(feature = "cuda")]
        if let Some(on_device) = &self.on_device {
            return super::fused::copies(on_device);
        }
        self.moments.clone()
    }

    /// Takes one step with `gradients · scale` and gives the changed model, and the squared L2
    /// norm of the change as a tensor `[1]` (none if nothing has a gradient).
    pub fn step<M: Module>(
        &mut self,
        model: M,
        gradients: &StepGradients,
        scale: f64,
        learning_rate: f64,
    ) -> (M, Option<Tensor<1>>) {
        self.step += 1;
        #[cfg(feature = "cuda")]
        let model = match self.fused_step(model, gradients, scale, learning_rate) {
            Ok((model, change)) => return (model, Some(change)),
            Err(model) => model,
        };
        let mut update = Update {
            optimizer: self,
            gradients,
            scale,
            learning_rate,
            path: Vec::new(),
            changes: Vec::new(),
        };
        let model = model.map(&mut update);
        let changes = update.changes;
        let norm = if changes.is_empty() { None } else { Some(Tensor::cat(changes, 0).sum()) };
        (model, norm)
    }

    /// The new f32 values of one parameter, as in PyTorch's `AdamW`.
    fn update(
        &mut self,
        path: &str,
        value: Tensor<1>,
        gradient: Tensor<1>,
        learning_rate: f64,
    ) -> (Tensor<1>, Moments) {
        let AdamWConfig { beta_1, beta_2, epsilon, weight_decay } = self.config;
        let (first, second) = match self.moments.remove(path) {
            Some(state) => (
                state.first.mul_scalar(beta_1) + gradient.clone().mul_scalar(1.0 - beta_1),
                state.second.mul_scalar(beta_2) + gradient.square().mul_scalar(1.0 - beta_2),
            ),
            None => (gradient.clone().mul_scalar(1.0 - beta_1), gradient.square().mul_scalar(1.0 - beta_2)),
        };
        let step = self.step as f64;
        let bias_1 = 1.0 - beta_1.powf(step);
        let bias_2 = 1.0 - beta_2.powf(step);
        let root = second.clone().sqrt().div_scalar(bias_2.sqrt()).add_scalar(epsilon);
        let change = first.clone().div(root).mul_scalar(learning_rate / bias_1);
        let decayed =
            if weight_decay == 0.0 { value } else { value.mul_scalar(1.0 - learning_rate * weight_decay) };
        (decayed - change, Moments { master: None, first, second })
    }
}

struct Update<'a> {
    optimizer: &'a mut AdamW,
    gradients: &'a StepGradients,
    scale: f64,
    learning_rate: f64,
    path: Vec<String>,
    changes: Vec<Tensor<1>>,
}

impl ModuleMapper for Update<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let path = self.path.join(".");
        let Some(gradient) = self.gradients.get(&path) else { return param };
        let (id, tensor, mapper) = param.consume();
        let (shape, stored) = (tensor.dims(), tensor.dtype());
        let tracked = tensor.is_autodiff();
        let length = tensor.shape().num_elements();
        let held: Tensor<1> = tensor.inner().reshape([length]);
        let master = self.optimizer.moments.get(&path).and_then(|state| state.master.clone());
        let old = master.unwrap_or_else(|| held.cast(DType::F32));

        let gradient = gradient.clone().mul_scalar(self.scale);
        let (new, mut moments) = self.optimizer.update(&path, old.clone(), gradient, self.learning_rate);
        self.changes.push((new.clone() - old).square().sum());
        if stored != DType::F32 {
            moments.master = Some(new.clone());
        }
        self.optimizer.moments.insert(path, moments);

        let mut tensor: Tensor<D> = new.cast(stored).reshape(shape);
        if tracked {
            tensor = tensor.autodiff().require_grad();
        }
        Param::from_mapped_value(id, tensor, mapper)
    }
}

/// Whether the model has a parameter to train.
pub(crate) fn has_trainable<M: Module>(model: &M) -> bool {
    !trainable_lengths(model).is_empty()
}

/// The number of values of each trainable parameter, by path.
pub(crate) fn trainable_lengths<M: Module>(model: &M) -> BTreeMap<String, usize> {
    struct Lengths {
        path: Vec<String>,
        found: BTreeMap<String, usize>,
    }
    impl burn::module::ModuleVisitor for Lengths {
        fn enter_module(&mut self, name: &str, _container_type: &str) {
            self.path.push(name.to_string());
        }

        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.path.pop();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if param.is_require_grad() {
                self.found.insert(self.path.join("."), param.lazy_shape().num_elements());
            }
        }
    }
    let mut lengths = Lengths { path: Vec::new(), found: BTreeMap::new() };
    model.visit(&mut lengths);
    lengths.found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Module, Debug)]
    struct Pair {
        moving: Param<Tensor<2>>,
        frozen: Param<Tensor<1>>,
    }

    fn flat(values: &[f32]) -> Tensor<1> {
        Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), &Device::flex())
    }

    fn pair(values: &[f32], dtype: DType) -> Pair {
        let moving: Tensor<2> = flat(values).reshape([2, values.len() / 2]).cast(dtype);
        let frozen = Param::from_tensor(flat(&[1.0, 2.0])).set_require_grad(false);
        Pair { moving: Param::from_tensor(moving), frozen }.train()
    }

    fn values(model: &Pair) -> Vec<f32> {
        model.moving.val().inner().cast(DType::F32).into_data().try_into_vec().unwrap()
    }

    /// The gradients of `Σ parameter · gradient`, through a real backward pass.
    fn gradients(model: &Pair, gradient: &[f32]) -> StepGradients {
        let shape = model.moving.val().dims();
        let weights: Tensor<2> = flat(gradient).reshape(shape).cast(model.moving.val().dtype());
        let mut grads = (model.moving.val() * weights).sum().backward();
        let mut step = StepGradients::new();
        step.accumulate(model, &mut grads);
        step
    }

    #[derive(Deserialize)]
    struct Reference {
        learning_rate: f64,
        weight_decay: f64,
        max_grad_norm: f64,
        start: Vec<f32>,
        gradients: Vec<Vec<f32>>,
        norms: Vec<f64>,
        parameters: Vec<Vec<f64>>,
    }

    fn reference() -> Vec<Reference> {
        serde_json::from_str(include_str!("../../reference/adamw.json")).unwrap()
    }

    #[test]
    fn ten_steps_equal_the_reference_run() {
        for run in reference() {
            let weight_decay = run.weight_decay;
            let mut model = pair(&run.start, DType::F32);
            let mut optimizer = AdamW::new(AdamWConfig { weight_decay, ..Default::default() });
            for (step, gradient) in run.gradients.iter().enumerate() {
                let gradients = gradients(&model, gradient);
                let squared: f32 = gradients.norm_squared().unwrap().into_scalar();
                let norm = f64::from(squared).sqrt();
                assert!((norm / run.norms[step] - 1.0).abs() < 1e-5, "norm of step {step}: {norm}");
                let scale = (run.max_grad_norm / (norm + 1e-6)).min(1.0);
                model = optimizer.step(model, &gradients, scale, run.learning_rate).0;
                for (found, expected) in values(&model).iter().zip(&run.parameters[step]) {
                    let error = (f64::from(*found) - expected).abs();
                    assert!(error < 1e-5 * expected.abs().max(0.1), "step {step}: {found}, {expected}");
                }
            }
            assert_eq!(optimizer.steps(), 10);
        }
    }

    #[test]
    fn a_frozen_parameter_has_no_state_and_does_not_move() {
        let model = pair(&[1.0, 2.0, 3.0, 4.0], DType::F32);
        let mut optimizer = AdamW::new(AdamWConfig { weight_decay: 0.5, ..Default::default() });
        let gradients = gradients(&model, &[1.0; 4]);
        assert_eq!(gradients.paths().collect::<Vec<_>>(), ["moving"]);
        let (model, change) = optimizer.step(model, &gradients, 1.0, 0.1);
        assert_eq!(optimizer.moments().into_keys().collect::<Vec<_>>(), ["moving"]);
        let frozen: Vec<f32> = model.frozen.val().inner().into_data().try_into_vec().unwrap();
        assert_eq!(frozen, [1.0, 2.0]);
        let change: f32 = change.unwrap().into_scalar();
        assert!(change > 0.0);
    }

    #[test]
    fn micro_batches_add_up() {
        let model = pair(&[1.0, 2.0, 3.0, 4.0], DType::F32);
        let mut sum = gradients(&model, &[1.0, 0.0, -2.0, 0.5]);
        let mut grads = (model.moving.val() * 2.0).sum().backward();
        sum.accumulate(&model, &mut grads);
        let total: Vec<f32> = sum.get("moving").unwrap().to_data().try_into_vec().unwrap();
        assert_eq!(total, [3.0, 2.0, 0.0, 2.5]);
    }

    #[test]
    fn small_updates_are_not_lost_in_a_bf16_parameter() {
        // 1e-4 is below half a unit in the last place of bf16 at 1.0 (2^-8): without a master
        // copy, the parameter would never move.
        let mut model = pair(&[1.0, 1.0], DType::BF16);
        let mut optimizer = AdamW::new(AdamWConfig::default());
        for _ in 0..100 {
            let gradients = gradients(&model, &[1.0, -1.0]);
            model = optimizer.step(model, &gradients, 1.0, 1e-4).0;
        }
        let found = values(&model);
        assert!((found[0] - 0.99).abs() < 4e-3 && (found[1] - 1.01).abs() < 4e-3, "{found:?}");
        let master = optimizer.moments()["moving"].master.clone().unwrap();
        let master: Vec<f32> = master.into_data().try_into_vec().unwrap();
        assert!((master[0] - 0.99).abs() < 1e-5, "{master:?}");
    }

    #[test]
    fn state_of_another_model_is_refused() {
        let model = pair(&[1.0, 2.0, 3.0, 4.0], DType::F32);
        let check = |path: &str, length: usize, expected: expect_test::Expect| {
            let zeros = flat(&vec![0.0; length]);
            let state = Moments { master: None, first: zeros.clone(), second: zeros };
            let moments = BTreeMap::from([(path.to_string(), state)]);
            let error = AdamW::restore(AdamWConfig::default(), 3, moments, &model).unwrap_err();
            expected.assert_eq(&error.to_string());
        };
        check(
            "moving",
            5,
            expect_test::expect![[r#"
                optimiser state for `moving` has 5 values and the parameter has 4
                help: load the state with the model and the LoRA settings it was saved with"#]],
        );
        check(
            "frozen",
            2,
            expect_test::expect![[r#"
                optimiser state names `frozen`, which is no trainable parameter of this model
                help: load the state with the model and the LoRA settings it was saved with"#]],
        );
    }
}
