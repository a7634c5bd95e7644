//! How does a learner stop, and go on later as if it had not?

use std::collections::BTreeMap;
use std::path::Path;

use burn::prelude::*;
use serde::{Deserialize, Serialize};

use super::report::read_all;
use super::{LearnError, Learner, LearnerConfig};
use crate::checkpoint::{digests_of, read_adapter, verify_digests, write_adapter, write_folder, write_json};
use crate::model::CausalLm;
use crate::optimizer::{AdamW, Moments};
use crate::weights::{HostTensor, NamedTensors, StoredType, read_safetensors, write_safetensors};

const FILE: &str = "learner.json";
const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const FORMAT: u32 = 1;

/// The contents of `learner.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    format: u32,
    /// Updates made.
    steps: u64,
    /// Steps in a row that were skipped at the end.
    #[serde(default)]
    skips: u32,
    /// Whether the weights are LoRA factors over a base policy.
    adapter: bool,
    /// The settings at the time, for people to read; going on may use others.
    config: LearnerConfig,
    /// The sha256 of each other file.
    files: BTreeMap<String, String>,
}

impl Learner {
    /// Writes all that a later [`load_state`](Self::load_state) needs into the new folder `folder`:
    /// LoRA factors or weights in f32, moments, and the number of steps. The folder appears
    /// complete or not at all, and is never overwritten: give each state a folder of its own.
    ///
    /// # Errors
    /// If the folder exists, or something cannot be written.
    pub fn save_state(&self, folder: &Path) -> Result<(), LearnError> {
        write_folder(folder, |folder| {
            let model = self.model();
            let adapter = model.lora().is_some();
            if adapter {
                write_adapter(folder, &model, "the base policy of the run", StoredType::F32)?;
            } else {
                write_safetensors(&folder.join(MODEL), &model.named_tensors(), StoredType::F32)?;
            }
            let optimizer = folder.join(OPTIMIZER);
            write_safetensors(&optimizer, &moments_to_host(&self.optimizer.moments()), StoredType::F32)?;
            let state = State {
                format: FORMAT,
                steps: self.optimizer.steps(),
                skips: self.skips,
                adapter,
                config: self.config.clone(),
                files: digests_of(folder)?,
            };
            Ok(write_json(&folder.join(FILE), &state)?)
        })
    }

    /// The learner whose state lies in `folder`. `base` is the policy that its LoRA factors belong
    /// to, without any of its own; for full weights it gives shape and device.
    ///
    /// With the same `config`, samples and device, its steps have the same bits as those of the
    /// learner that was saved.
    ///
    /// # Errors
    /// If a file is missing or damaged, or the state belongs to another model.
    pub fn load_state(base: CausalLm, config: LearnerConfig, folder: &Path) -> Result<Self, LearnError> {
        let path = folder.join(FILE);
        let broken = |reason: String| LearnError::State { path: path.clone(), reason };
        let text = std::fs::read_to_string(&path).map_err(|error| broken(error.to_string()))?;
        let state: State = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
        if state.format != FORMAT {
            return Err(broken(format!("it has format {}, this program reads {FORMAT}", state.format)));
        }
        verify_digests(folder, FILE, &state.files)?;
        let device = base.device().inner();
        let model = if state.adapter {
            let (lora, tensors) = read_adapter(folder, base.config().num_hidden_layers)?;
            base.clone().load_lora(&tensors, lora)?
        } else {
            let tensors = read_safetensors(&folder.join(MODEL))?;
            CausalLm::from_tensors(base.config().clone(), &tensors, &device)?
        };
        let model = model.computing_in(base.compute_type()).train();
        let stored = read_safetensors(&folder.join(OPTIMIZER))?;
        let moments = moments_from_host(&stored, &device).map_err(broken)?;
        let optimizer = AdamW::restore(config.adamw, state.steps, moments, &model)?;
        Self::with_optimizer(model, config, optimizer, state.skips)
    }
}

fn moments_to_host(moments: &BTreeMap<String, Moments>) -> NamedTensors {
    let mut tensors = NamedTensors::new("the optimiser's state");
    for (path, state) in moments {
        let parts = [
            ("first", Some(&state.first)),
            ("second", Some(&state.second)),
            ("master", state.master.as_ref()),
        ];
        for (part, tensor) in parts {
            let Some(tensor) = tensor else { continue };
            let data = read_all(vec![tensor.clone()]);
            tensors.insert(format!("{path}.{part}"), HostTensor::new([data.len()], data));
        }
    }
    tensors
}

fn moments_from_host(stored: &NamedTensors, device: &Device) -> Result<BTreeMap<String, Moments>, String> {
    let upload = |name: &str| -> Option<Tensor<1>> {
        let tensor = stored.get(name)?;
        let options = (device, burn::tensor::DType::F32);
        Some(Tensor::from_data(TensorData::new(tensor.data.clone(), [tensor.data.len()]), options))
    };
    let mut moments = BTreeMap::new();
    for (name, _) in stored.iter() {
        let Some(path) = name.strip_suffix(".first") else { continue };
        let (Some(first), Some(second)) = (upload(name), upload(&format!("{path}.second"))) else {
            return Err(format!("it has the first moment of `{path}` without the second"));
        };
        let master = upload(&format!("{path}.master"));
        moments.insert(path.to_string(), Moments { master, first, second });
    }
    Ok(moments)
}
