//! What can be wrong with a tokenizer or a chat template?

use std::path::{Path, PathBuf};

use crate::weights::WeightsError;

/// Why text could not become ids, or ids text.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// A file cannot be read or written.
    #[error("tokenizer: `{}` cannot be used: {source}\n\
             help: a policy folder needs tokenizer.json and tokenizer_config.json beside its weights", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// A file does not hold a tokenizer.
    #[error("tokenizer: `{}` is not usable: {reason}\nhelp: take the file that belongs to the policy's weights", path.display())]
    Broken { path: PathBuf, reason: String },
    /// The GGUF file's tokenizer is of a kind that is not built here.
    #[error("tokenizer: `{}` uses the {what} `{found}`; {known} is supported\n\
             help: use the policy's Hugging Face folder, whose tokenizer.json says everything", path.display())]
    Unsupported { path: PathBuf, what: &'static str, found: String, known: &'static str },
    /// The GGUF metadata are not complete.
    #[error(transparent)]
    Metadata(#[from] WeightsError),
    /// The library could not encode or decode.
    #[error(
        "tokenizer: the text cannot be tokenised: {reason}\n\
             help: the tokenizer has no token for a piece of it; the tokenizer's files are incomplete"
    )]
    Coding { reason: String },
    /// There is no chat template.
    #[error("tokenizer: `{}` has no chat template\n\
             help: use an instruction-tuned policy, or add `chat_template` to its tokenizer_config.json", origin.display())]
    NoTemplate { origin: PathBuf },
    /// The chat template does not render.
    #[error("tokenizer: the chat template of `{}` fails: {reason}\n\
             help: check `chat_template` in tokenizer_config.json against these roles", origin.display())]
    Template { origin: PathBuf, reason: String },
}

impl TokenizerError {
    pub(super) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    pub(super) fn broken(path: &Path, reason: impl ToString) -> Self {
        Self::Broken { path: path.to_owned(), reason: reason.to_string() }
    }

    pub(super) fn coding(reason: impl ToString) -> Self {
        Self::Coding { reason: reason.to_string() }
    }
}
