//! What can be wrong with a checkpoint?

use std::path::{Path, PathBuf};

use crate::tokenizer::TokenizerError;
use crate::weights::WeightsError;

/// Why a checkpoint could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error(
        "checkpoint: `{}` already exists, and a checkpoint is never overwritten\n\
         help: give a new folder, or remove this one first",
        path.display()
    )]
    Exists { path: PathBuf },
    #[error(
        "checkpoint: `{}` cannot be used: {source}\n\
         help: check that the path is right, the disk has space and the folder can be written",
        path.display()
    )]
    Io { path: PathBuf, source: std::io::Error },
    #[error(
        "checkpoint: `{}` is missing\n\
         help: the folder is incomplete ({needed}); copy it again, or take another checkpoint",
        path.display()
    )]
    Missing { path: PathBuf, needed: &'static str },
    #[error(
        "checkpoint: `{}` is corrupt: {reason}\n\
         help: copy the checkpoint again, or take another one",
        path.display()
    )]
    Corrupt { path: PathBuf, reason: String },
    #[error(
        "checkpoint: `{}` is neither a GGUF file nor a model folder with config.json\n\
         help: give a .gguf file or a Hugging Face model folder; `tandem model fetch` gets the built-in policy",
        path.display()
    )]
    NoPolicy { path: PathBuf },
    #[error(
        "checkpoint: `{}` is an adapter, which is no policy by itself\n\
         help: load the base policy `{base}` and give this folder as its adapter",
        path.display()
    )]
    OnlyAdapter { path: PathBuf, base: String },
    #[error(
        "checkpoint: the model has no LoRA factors, so there is no adapter to write\n\
         help: write a full checkpoint instead"
    )]
    NoAdapter,
    #[error("{0}")]
    Weights(#[from] WeightsError),
    #[error("{0}")]
    Tokenizer(#[from] TokenizerError),
}

impl CheckpointError {
    pub(super) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    pub(super) fn corrupt(path: &Path, reason: impl ToString) -> Self {
        Self::Corrupt { path: path.to_owned(), reason: reason.to_string() }
    }
}
