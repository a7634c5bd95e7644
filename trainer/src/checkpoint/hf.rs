//! Which small JSON files does `transformers` expect beside the weights?

use std::path::Path;

use serde::Serialize;
use serde_json::json;

use super::CheckpointError;
use crate::model::ModelConfig;
use crate::weights::StoredType;

/// Writes config.json and generation_config.json.
pub(super) fn write_configs(
    folder: &Path,
    config: &ModelConfig,
    stored: StoredType,
) -> Result<(), CheckpointError> {
    let mut model = config.to_hugging_face();
    model["torch_dtype"] = json!(match stored {
        StoredType::F32 => "float32",
        StoredType::BF16 => "bfloat16",
    });
    write_json(&folder.join("config.json"), &model)?;
    let generation = json!({
        "_from_model_config": true,
        "bos_token_id": config.bos_token_id,
        "eos_token_id": config.eos_token_id,
        "pad_token_id": config.eos_token_id,
    });
    write_json(&folder.join("generation_config.json"), &generation)
}

pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), CheckpointError> {
    let mut text =
        serde_json::to_string_pretty(value).map_err(|error| CheckpointError::corrupt(path, error))?;
    text.push('\n');
    std::fs::write(path, text).map_err(CheckpointError::io(path))
}
