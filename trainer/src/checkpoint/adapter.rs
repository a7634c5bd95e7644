//! How does PEFT describe LoRA factors, and how much of that can be applied here?

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::CheckpointError;
use super::hf::write_json;
use crate::model::{CausalLm, LoraConfig, LoraTargets};
use crate::weights::{NamedTensors, StoredType, read_safetensors, write_safetensors};

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";

/// Writes adapter_model.safetensors and adapter_config.json.
///
/// # Errors
/// If the model has no LoRA factors, or a file cannot be written.
pub(crate) fn write_adapter(
    folder: &Path,
    model: &CausalLm,
    base: &str,
    stored: StoredType,
) -> Result<(), CheckpointError> {
    let lora = model.lora().ok_or(CheckpointError::NoAdapter)?;
    write_safetensors(&folder.join(WEIGHTS), &model.lora_tensors(), stored)?;
    let layers: Vec<usize> = (lora.first_layer..model.config().num_hidden_layers).collect();
    let config = json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": false,
        "inference_mode": true,
        "target_modules": lora.targets.names(model.config()),
        "layers_to_transform": layers,
        "use_rslora": false,
        "use_dora": false,
    });
    write_json(&folder.join(CONFIG), &config)
}

/// The fields of PEFT's adapter_config.json that change what is computed.
#[derive(Deserialize)]
struct Wire {
    peft_type: String,
    #[serde(default)]
    base_model_name_or_path: Option<String>,
    r: usize,
    lora_alpha: f32,
    #[serde(default)]
    bias: Option<String>,
    #[serde(default)]
    use_rslora: bool,
    #[serde(default)]
    use_dora: bool,
    #[serde(default)]
    rank_pattern: Option<BTreeMap<String, Value>>,
    #[serde(default)]
    alpha_pattern: Option<BTreeMap<String, Value>>,
    #[serde(default)]
    modules_to_save: Option<Vec<String>>,
    #[serde(default)]
    layers_to_transform: Option<Vec<usize>>,
}

/// Reads an adapter for a model of `layers` layers.
///
/// # Errors
/// If a file is missing or broken, or the adapter uses something that is not computed here.
pub(crate) fn read_adapter(
    folder: &Path,
    layers: usize,
) -> Result<(LoraConfig, NamedTensors), CheckpointError> {
    let path = folder.join(CONFIG);
    let wire = read_config(folder)?;
    let refuse = |reason: String| Err(CheckpointError::corrupt(&path, reason));
    if wire.peft_type != "LORA" {
        return refuse(format!("it is a {} adapter, only LORA is applied", wire.peft_type));
    }
    let patterns = [&wire.rank_pattern, &wire.alpha_pattern];
    if wire.use_rslora
        || wire.use_dora
        || wire.bias.is_some_and(|bias| bias != "none")
        || wire.modules_to_save.is_some_and(|modules| !modules.is_empty())
        || patterns.into_iter().flatten().any(|pattern| !pattern.is_empty())
    {
        return refuse("it uses rsLoRA, DoRA, biases, saved modules or patterns".into());
    }
    if wire.r == 0 || !wire.lora_alpha.is_finite() {
        return refuse(format!("its rank is {} and its alpha {}", wire.r, wire.lora_alpha));
    }
    let first_layer = match &wire.layers_to_transform {
        None => 0,
        Some(adapted) => {
            let first = adapted.first().copied().unwrap_or(layers);
            if !adapted.iter().copied().eq(first..layers) {
                return refuse(format!(
                    "it adapts the layers {adapted:?}; those from one on to the last, {}, can be adapted",
                    layers.saturating_sub(1)
                ));
            }
            first
        }
    };
    let weights = folder.join(WEIGHTS);
    if !weights.exists() {
        return Err(CheckpointError::Missing {
            path: weights,
            needed: "adapter_config.json stands beside it",
        });
    }
    let tensors = read_safetensors(&weights)?;
    // What was adapted is seen by the factors: `target_modules` may be a pattern.
    let targets = LoraTargets::of_tensors(tensors.iter().map(|(name, _)| name));
    Ok((LoraConfig { rank: wire.r, alpha: wire.lora_alpha, first_layer, targets }, tensors))
}

/// The name of the base policy if `folder` holds an adapter and no model.
pub(super) fn base_of_adapter(folder: &Path) -> Option<String> {
    if folder.join("config.json").exists() || !folder.join(CONFIG).exists() {
        return None;
    }
    let base = read_config(folder).ok().and_then(|wire| wire.base_model_name_or_path);
    Some(base.unwrap_or_else(|| "it was trained on".into()))
}

fn read_config(folder: &Path) -> Result<Wire, CheckpointError> {
    let path = folder.join(CONFIG);
    if !path.exists() {
        return Err(CheckpointError::Missing { path, needed: "an adapter folder has this file" });
    }
    let text = std::fs::read_to_string(&path).map_err(CheckpointError::io(&path))?;
    serde_json::from_str(&text).map_err(|error| CheckpointError::corrupt(&path, error))
}
