//! What can be wrong with a weight file?

use std::path::{Path, PathBuf};

/// Why weights could not be read, written or used.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file cannot be opened, mapped or written.
    #[error("weights: `{}` cannot be used: {source}\nhelp: check that the path is right and readable; \
             `tandem model fetch` gets the built-in policy", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// The first bytes are not those of the format.
    #[error("weights: `{}` is not a {format} file: it begins with {found}\n\
             help: give a .gguf or .safetensors file; an HTML page or a Git LFS pointer here means that the \
             download failed, so fetch it again", path.display())]
    WrongMagic { path: PathBuf, format: &'static str, found: String },
    /// The file ends before what its header promises.
    #[error("weights: `{}` is truncated: {what} would end at byte {needed} and the file has {have}\n\
             help: the download was interrupted or the disk was full; delete the file and fetch it again", path.display())]
    Truncated { path: PathBuf, what: String, needed: u64, have: u64 },
    /// The header contradicts itself or the format.
    #[error("weights: `{}` is corrupt: {reason}\nhelp: delete the file and fetch it again", path.display())]
    Corrupt { path: PathBuf, reason: String },
    /// A version of the format that this reader does not know.
    #[error("weights: `{}` is GGUF version {found}; versions {first} to {last} are read\n\
             help: convert the model again with a current llama.cpp", path.display())]
    UnsupportedVersion { path: PathBuf, found: u32, first: u32, last: u32 },
    /// A number format that is not read.
    #[error("weights: tensor `{tensor}` of `{}` is stored as {found}, which is not read\n\
             help: use a file in one of {known}", path.display())]
    UnsupportedType { path: PathBuf, tensor: String, found: String, known: &'static str },
    /// The model is of a family that is not built here.
    #[error("weights: `{}` holds a `{found}` model; {known} are supported\n\
             help: use a policy of a supported family", path.display())]
    UnsupportedModel { path: PathBuf, found: String, known: &'static str },
    /// A key of the metadata or configuration is absent or has another type.
    #[error("weights: `{}` has no usable `{key}`: expected {expected}\n\
             help: the file was made by an incomplete conversion; convert it again", path.display())]
    MissingKey { path: PathBuf, key: String, expected: &'static str },
    /// The model needs a tensor that is not there.
    #[error(
        "weights: tensor `{name}` is missing from {origin}\n\
             help: the file and the configuration describe different models, or a shard is missing"
    )]
    MissingTensor { name: String, origin: String },
    /// A tensor has another shape than the configuration says.
    #[error(
        "weights: tensor `{name}` of {origin} has shape {found:?}; the configuration asks for {expected:?}\n\
             help: take the configuration that belongs to these weights"
    )]
    WrongShape { name: String, origin: String, expected: Vec<usize>, found: Vec<usize> },
    /// Settings of an adapter that cannot be applied to this model.
    #[error("weights: the adapter does not fit: {reason}\nhelp: {help}")]
    Adapter { reason: String, help: &'static str },
}

impl WeightsError {
    /// An [`Io`](Self::Io) for `path`, for use in `map_err`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// A [`Corrupt`](Self::Corrupt) for `path`.
    pub(crate) fn corrupt(path: &Path, reason: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), reason: reason.into() }
    }
}
