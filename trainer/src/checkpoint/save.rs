//! How is a policy written so that others can load it?

use std::path::Path;

use super::CheckpointError;
use super::adapter::write_adapter;
use super::folder::write_folder;
use super::hf::write_configs;
use super::manifest::{CheckpointInfo, CheckpointKind, Manifest};
use crate::model::CausalLm;
use crate::tokenizer::Tokenizer;
use crate::weights::{StoredType, write_safetensors};

/// Writes the whole policy into the new folder `folder`: weights (LoRA factors folded in),
/// configuration, tokenizer with chat template, and `tandem.json`. `transformers` loads it.
///
/// The folder appears complete or not at all.
///
/// # Errors
/// If the folder exists, or something cannot be written.
pub fn save_policy(
    folder: &Path,
    model: &CausalLm,
    tokenizer: &Tokenizer,
    stored: StoredType,
    info: &CheckpointInfo,
) -> Result<(), CheckpointError> {
    write_folder(folder, |folder| {
        write_safetensors(&folder.join("model.safetensors"), &model.named_tensors(), stored)?;
        write_configs(folder, model.config(), stored)?;
        tokenizer.save(folder)?;
        Manifest::write(folder, CheckpointKind::Full, info)
    })
}

/// Writes the LoRA factors alone into the new folder `folder`, in PEFT's format, and `tandem.json`.
///
/// # Errors
/// If the model has no LoRA factors, the folder exists, or something cannot be written.
pub fn save_adapter(
    folder: &Path,
    model: &CausalLm,
    stored: StoredType,
    info: &CheckpointInfo,
) -> Result<(), CheckpointError> {
    write_folder(folder, |folder| {
        write_adapter(folder, model, &info.base, stored)?;
        Manifest::write(folder, CheckpointKind::Adapter, info)
    })
}
