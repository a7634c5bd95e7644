//! What is a policy on disk, without its weights in memory?

use std::path::Path;

use super::CheckpointError;
use super::adapter::base_of_adapter;
use super::manifest::{Manifest, read_manifest};
use crate::model::ModelConfig;
use crate::tokenizer::{ChatTemplate, Tokenizer, TokenizerError};
use crate::weights::{Gguf, StoredTensor, list_safetensors};

/// What the files of a policy say about it.
pub struct PolicyFacts {
    /// Its shape.
    pub config: ModelConfig,
    /// The tensors as they lie in the files.
    pub tensors: Vec<StoredTensor>,
    /// Names that the configuration asks for and the files lack, and names that nothing asks for;
    /// of a folder only, since a GGUF file names its tensors otherwise.
    pub missing: Vec<String>,
    pub unexpected: Vec<String>,
    pub tokenizer: Tokenizer,
    /// Its chat template, or why there is none that works.
    pub chat: Result<ChatTemplate, TokenizerError>,
    /// `tandem.json`, for a checkpoint that was written here; its files are not compared with it.
    pub manifest: Option<Manifest>,
}

/// Reads headers, configuration and tokenizer of a GGUF file or a Hugging Face model folder.
///
/// # Errors
/// If a file is missing, broken or of a kind that is not supported; the error names it.
pub fn inspect_policy(path: &Path) -> Result<PolicyFacts, CheckpointError> {
    if path.is_dir() { of_folder(path) } else { of_gguf(path) }
}

fn of_folder(folder: &Path) -> Result<PolicyFacts, CheckpointError> {
    if let Some(base) = base_of_adapter(folder) {
        return Err(CheckpointError::OnlyAdapter { path: folder.to_owned(), base });
    }
    let path = folder.join("config.json");
    if !path.exists() {
        return Err(CheckpointError::NoPolicy { path: folder.to_owned() });
    }
    let config = ModelConfig::from_hugging_face(&path)?;
    let tensors = list_safetensors(folder)?;
    let wanted: Vec<String> = config.shapes().into_iter().map(|(name, _)| name).collect();
    let found: Vec<String> = tensors.iter().map(|tensor| tensor.name.clone()).collect();
    let without = |left: &[String], right: &[String]| -> Vec<String> {
        let right: std::collections::BTreeSet<_> = right.iter().collect();
        left.iter().filter(|name| !right.contains(name)).cloned().collect()
    };
    let tokenizer = Tokenizer::from_folder(folder)?;
    Ok(PolicyFacts {
        missing: without(&wanted, &found),
        unexpected: without(&found, &wanted),
        chat: ChatTemplate::new(&tokenizer),
        manifest: read_manifest(folder)?,
        config,
        tensors,
        tokenizer,
    })
}

fn of_gguf(path: &Path) -> Result<PolicyFacts, CheckpointError> {
    let gguf = Gguf::open(path)?;
    let tensors = gguf.stored();
    let tied = !tensors.iter().any(|tensor| tensor.name == "output.weight");
    let tokenizer = Tokenizer::from_gguf(gguf.metadata())?;
    Ok(PolicyFacts {
        config: ModelConfig::from_gguf(gguf.metadata(), tied)?,
        tensors,
        missing: Vec::new(),
        unexpected: Vec::new(),
        chat: ChatTemplate::new(&tokenizer),
        manifest: None,
        tokenizer,
    })
}

impl PolicyFacts {
    /// Elements of all tensors in the files.
    pub fn parameters(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.shape.iter().map(|n| *n as u64).product::<u64>()).sum()
    }

    /// Bytes of the tensors' data.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes).sum()
    }

    /// Keys and values that one token adds to a cache, as a number of elements.
    pub fn cache_elements(&self) -> u64 {
        let config = &self.config;
        2 * (config.num_hidden_layers * config.num_key_value_heads * config.head_dim) as u64
    }
}
