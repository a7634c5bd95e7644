//! Does a policy of each architecture compute what `transformers` computes, learn what it learns?
//!
//! The values come from `trainer/reference/architectures.py`, which says how to make them again.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor, TensorData};
use serde::Deserialize;
use serde_json::Value;

use super::{CausalLm, ModelConfig};
use crate::learner::{Learner, LearnerConfig, Sample};
use crate::optimizer::{AdamWConfig, StepGradients};
use crate::weights::{HostTensor, NamedTensors};

#[derive(Deserialize)]
struct Reference {
    ids: Vec<Vec<u32>>,
    positions: Vec<usize>,
    steps: usize,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    config: Value,
    /// Of `positions` in each sequence.
    logits: Vec<f32>,
    /// Mean over all tokens but the first of each sequence.
    loss: f64,
    /// Before each step.
    losses: Vec<f64>,
    gradients: BTreeMap<String, Summary>,
    /// The weights after all steps.
    after: BTreeMap<String, Summary>,
}

/// What is kept of a tensor.
#[derive(Deserialize)]
struct Summary {
    norm: f64,
    first: Vec<f64>,
}

impl Summary {
    /// The largest difference of the first values, and that of the norm, both relative to the norm.
    fn apart(&self, tensor: &HostTensor) -> f64 {
        let norm = tensor.data.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        let values = self.first.iter().zip(&tensor.data).map(|(one, other)| (one - f64::from(*other)).abs());
        values.fold((norm - self.norm).abs(), f64::max) / self.norm.max(1e-6)
    }
}

/// The script's pseudo-random values: FNV-1a of the name, then SplitMix64.
fn values(name: &str, shape: &[usize], norm_offset: f64) -> HostTensor {
    let seed = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let data = (1..=shape.iter().product::<usize>() as u64).map(|index| {
        let mut state = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
        let unit = (state >> 40) as f64 / f64::from(1 << 24) * 2.0 - 1.0;
        let value = match name.ends_with("norm.weight") {
            true => unit * 0.25 + 1.0 - norm_offset,
            false => unit * 0.5,
        };
        value as f32
    });
    HostTensor::new(shape, data.collect())
}

fn model(config: &Value, device: &Device) -> CausalLm {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    std::fs::write(&path, config.to_string()).unwrap();
    let config = ModelConfig::from_hugging_face(&path).unwrap();
    let mut tensors = NamedTensors::new("the reference");
    for (name, shape) in config.shapes() {
        tensors.insert(name.clone(), values(&name, &shape, config.norm_offset()));
    }
    CausalLm::from_tensors(config, &tensors, device).unwrap()
}

/// Logits of every token, `[sequences · tokens, vocabulary]`.
fn logits(model: &CausalLm, ids: &[Vec<u32>]) -> Tensor<2> {
    let flat: Vec<i64> = ids.concat().into_iter().map(i64::from).collect();
    let [rows, tokens] = [ids.len(), ids[0].len()];
    let batch: Tensor<2, Int> = Tensor::from_data(TensorData::new(flat, [rows, tokens]), &model.device());
    let hidden = model.hidden(batch);
    let width = hidden.dims()[2];
    model.logits(hidden.reshape([rows * tokens, width]))
}

/// Puts the gradient of each parameter in its place; 0 where there is none.
struct Gradients<'a> {
    of: &'a StepGradients,
    path: Vec<String>,
}

impl ModuleMapper for Gradients<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let path = self.path.join(".");
        param.map(|weight| match self.of.get(&path) {
            Some(gradient) => gradient.clone().reshape(weight.shape()),
            None => weight.zeros_like(),
        })
    }
}

fn check(case: &Case, reference: &Reference) {
    let Case { name, .. } = case;
    let (ids, tokens) = (&reference.ids, reference.ids[0].len());
    let plain = model(&case.config, &Device::flex());
    let all = logits(&plain, ids);
    let vocabulary = all.dims()[1];
    let all = all.try_into_vec_as::<f32>().unwrap();
    let rows = (0..ids.len()).flat_map(|row| reference.positions.iter().map(move |at| row * tokens + at));
    let chosen: Vec<f32> = rows.flat_map(|row| all[row * vocabulary..][..vocabulary].to_vec()).collect();
    assert_eq!(chosen.len(), case.logits.len(), "{name}");
    let worst = chosen.iter().zip(&case.logits).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst <= 1e-4, "{name}: logits differ by {worst:e}");

    // Gradients, through the graph as Burn makes it.
    let trained = plain.clone().train();
    let predicted = logits(&trained, ids);
    let rows: Vec<i64> =
        (0..ids.len()).flat_map(|row| (0..tokens - 1).map(move |at| (row * tokens + at) as i64)).collect();
    let targets: Vec<i64> = ids.iter().flat_map(|ids| ids[1..].iter().map(|id| i64::from(*id))).collect();
    let count = targets.len();
    let device = trained.device();
    let rows: Tensor<1, Int> = Tensor::from_data(TensorData::new(rows, [count]), &device);
    let targets: Tensor<2, Int> = Tensor::from_data(TensorData::new(targets, [count, 1]), &device);
    let loss = -log_softmax(predicted.select(0, rows), 1).gather(1, targets).mean();
    let mut gradients = StepGradients::new();
    gradients.accumulate(&trained, &mut loss.backward());
    let loss = f64::from(loss.into_scalar::<f32>());
    assert!((loss - case.loss).abs() <= 1e-5, "{name}: the loss is {loss}, expected {}", case.loss);
    // In the places of the weights, where they get the weights' names.
    let found = plain.clone().map(&mut Gradients { of: &gradients, path: Vec::new() }).named_tensors();
    let mut seen = 0;
    for (tensor, expected) in &case.gradients {
        let Some(gradient) = found.get(tensor) else { panic!("{name}: no gradient of {tensor}") };
        let apart = expected.apart(gradient);
        assert!(apart <= 1e-5, "{name}: the gradient of {tensor} differs by {apart:e} of its norm");
        seen += 1;
    }
    assert!(seen >= 10, "{name}");

    // Ten steps of the learner.
    let config = LearnerConfig {
        learning_rate: 1e-3,
        adamw: AdamWConfig { weight_decay: 0.01, ..AdamWConfig::default() },
        max_grad_norm: f64::INFINITY,
        ..LearnerConfig::default()
    };
    let mut learner = Learner::new(plain, config).unwrap();
    let samples: Vec<_> = ids
        .iter()
        .map(|ids| Sample::demonstration(ids.clone(), (0..ids.len()).map(|at| at > 0).collect()))
        .collect();
    for (step, expected) in case.losses.iter().enumerate().take(reference.steps) {
        let loss = learner.supervised_step(&samples).unwrap().loss;
        assert!((loss - expected).abs() <= 2e-5, "{name}: loss {loss} in step {step}, expected {expected}");
    }
    let after = learner.model().named_tensors();
    for (tensor, expected) in &case.after {
        let Some(weight) = after.get(tensor) else { panic!("{name}: no weight {tensor}") };
        let apart = expected.apart(weight);
        assert!(apart <= 1e-5, "{name}: after {} steps {tensor} differs by {apart:e}", reference.steps);
    }
}

#[test]
fn every_architecture_computes_and_learns_as_in_transformers() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/reference/architectures.json");
    let text = std::fs::read_to_string(path).expect("the reference values are in the repository");
    let reference: Reference = serde_json::from_str(&text).unwrap();
    assert_eq!(reference.cases.len(), 10);
    for case in &reference.cases {
        check(case, &reference);
    }
}
