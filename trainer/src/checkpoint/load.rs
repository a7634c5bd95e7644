//! How does a path become a policy?

use std::path::Path;

use burn::tensor::Device;

use super::CheckpointError;
use super::adapter::{base_of_adapter, read_adapter};
use super::manifest::{Manifest, manifest_of};
use crate::model::{CausalLm, ComputeType, ModelConfig};
use crate::tokenizer::{ChatTemplate, Tokenizer};
use crate::weights::{Gguf, read_safetensors};

/// A policy and what it needs to hold a conversation.
pub struct Policy {
    pub model: CausalLm,
    pub tokenizer: Tokenizer,
    pub chat: ChatTemplate,
    /// The newest `tandem.json` on the way: the adapter's, else the model folder's.
    pub manifest: Option<Manifest>,
}

/// Loads a policy from a GGUF file or a Hugging Face model folder, and puts an adapter folder on
/// it if one is given.
///
/// It computes as suits the device: in f32 on the CPU, in bf16 on a GPU. Files that were written here
/// are compared with their checksums first.
///
/// # Errors
/// If a file is missing, broken or of a kind that is not supported; the error names it.
pub fn load_policy(path: &Path, adapter: Option<&Path>, device: &Device) -> Result<Policy, CheckpointError> {
    load_policy_as(path, adapter, device, ComputeType::usual(device))
}

/// [`load_policy`], computing in a given format.
///
/// # Errors
/// As for [`load_policy`].
pub fn load_policy_as(
    path: &Path,
    adapter: Option<&Path>,
    device: &Device,
    compute: ComputeType,
) -> Result<Policy, CheckpointError> {
    let mut policy = if path.is_dir() { from_folder(path, device)? } else { from_gguf(path, device)? };
    if let Some(folder) = adapter {
        policy = policy.with_adapter(folder)?;
    }
    policy.model = policy.model.computing_in(compute);
    Ok(policy)
}

impl Policy {
    /// The policy with the adapter of a folder on it; one that it has already becomes part of the
    /// weights first.
    ///
    /// # Errors
    /// If a file is missing or broken, or the adapter belongs to another policy.
    pub fn with_adapter(mut self, folder: &Path) -> Result<Self, CheckpointError> {
        let manifest = manifest_of(folder)?;
        let (lora, tensors) = read_adapter(folder, self.model.config().num_hidden_layers)?;
        self.model = self.model.load_lora(&tensors, lora)?;
        self.manifest = manifest.or(self.manifest);
        Ok(self)
    }
}

fn from_folder(folder: &Path, device: &Device) -> Result<Policy, CheckpointError> {
    if let Some(base) = base_of_adapter(folder) {
        return Err(CheckpointError::OnlyAdapter { path: folder.to_owned(), base });
    }
    let manifest = manifest_of(folder)?;
    let config = folder.join("config.json");
    if !config.exists() {
        return Err(CheckpointError::NoPolicy { path: folder.to_owned() });
    }
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        let path = folder.join(name);
        if !path.exists() {
            return Err(CheckpointError::Missing { path, needed: "a model folder has its tokenizer" });
        }
    }
    let config = ModelConfig::from_hugging_face(&config)?;
    let model = CausalLm::from_tensors(config, &read_safetensors(folder)?, device)?;
    let tokenizer = Tokenizer::from_folder(folder)?;
    let chat = ChatTemplate::new(&tokenizer)?;
    Ok(Policy { model, tokenizer, chat, manifest })
}

fn from_gguf(path: &Path, device: &Device) -> Result<Policy, CheckpointError> {
    let gguf = Gguf::open(path)?;
    let tensors = gguf.tensors()?;
    let tied = tensors.get("lm_head.weight").is_none();
    let config = ModelConfig::from_gguf(gguf.metadata(), tied)?;
    let model = CausalLm::from_tensors(config, &tensors, device)?;
    let tokenizer = Tokenizer::from_gguf(gguf.metadata())?;
    let chat = ChatTemplate::new(&tokenizer)?;
    Ok(Policy { model, tokenizer, chat, manifest: None })
}
