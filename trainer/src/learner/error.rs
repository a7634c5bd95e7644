//! Why could the learner not take the samples, or not keep its state?

use std::path::PathBuf;

use crate::checkpoint::CheckpointError;
use crate::optimizer::OptimizerError;
use crate::parallel::ParallelError;
use crate::weights::WeightsError;

/// What the learner refuses. Numbers that went wrong *during* a step are not here: such a step is
/// skipped and says so in its report.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    #[error("`{name}` is {value}, wanted {wanted}\nhelp: change it in the learner's settings")]
    BadSetting { name: &'static str, value: f64, wanted: &'static str },
    #[error(
        "no parameter of the model is trainable\n\
         help: add LoRA factors with a first layer below the number of layers, or unfreeze the model"
    )]
    NothingTrainable,
    #[error(
        "sample {sample} has {tokens} token ids but {found} values of `{field}`\n\
         help: every list of a sample has one value for each token, 0 where the mask is false"
    )]
    UnequalLengths { sample: usize, field: &'static str, tokens: usize, found: usize },
    #[error(
        "sample {sample} has token id {id} at position {position}, and the vocabulary ends at {vocabulary}\n\
         help: the ids come from another tokenizer than the model's"
    )]
    OutsideVocabulary { sample: usize, position: usize, id: u32, vocabulary: usize },
    #[error(
        "sample {sample} has {found} tokens and the model's context is {limit}\n\
         help: lower the episode's token limit, or split the episode into segments"
    )]
    TooLong { sample: usize, found: usize, limit: usize },
    #[error(
        "sample {sample} trains its first token, which nothing precedes\n\
         help: a sample starts with at least one token of the prompt, with mask false"
    )]
    FirstTokenTrained { sample: usize },
    #[error(
        "sample {sample} has `{field}` = {value} at position {position}\n\
         help: log-probabilities are finite and at most 0; advantages are finite; weights are at least 0; shares are over 0"
    )]
    BadValue { sample: usize, field: &'static str, position: usize, value: f32 },
    #[error(
        "the KL penalty is on and sample {sample} has no log-probabilities of the reference policy\n\
         help: fill `reference_logprobs`, or set `kl.coefficient` to 0"
    )]
    NoReference { sample: usize },
    /// The device failed; backends report that by a panic.
    #[error(
        "the step could not be computed: {reason}\n\
         help: when the device is out of memory, lower `micro_batch_tokens`, or let less run on it"
    )]
    Failed { reason: String },
    #[error("{0}")]
    Optimizer(#[from] OptimizerError),
    #[error("{0}")]
    Weights(#[from] WeightsError),
    #[error("{0}")]
    Parallel(#[from] ParallelError),
    #[error("{0}")]
    Checkpoint(#[from] CheckpointError),
    #[error(
        "the learner's state in `{}` cannot be used: {reason}\n\
         help: resume from an older state, or start from the checkpoint without optimiser state",
        path.display()
    )]
    State { path: PathBuf, reason: String },
}
