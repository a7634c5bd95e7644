//! How does a policy learn a protocol before it is trained on outcomes?

use serde::{Deserialize, Serialize};

use super::{LearnError, Learner, LearnerConfig, Sample, StepReport};
use crate::model::CausalLm;
use crate::optimizer::{Decay, Schedule};
use crate::tokenizer::{ChatMessage, ChatTemplate, TokenizerError};

/// Settings of a supervised warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WarmupConfig {
    /// Passes over the conversations.
    pub epochs: usize,
    /// Conversations of one step.
    pub batch: usize,
    /// Conversations of more tokens are left out and counted.
    pub max_tokens: usize,
    /// Steps over which the learning rate rises; then it falls in a straight line to 0.
    pub warmup_steps: u64,
    /// The order of the conversations is drawn from this.
    pub seed: u64,
    /// Everything else; its schedule is replaced.
    pub learner: LearnerConfig,
}

impl Default for WarmupConfig {
    fn default() -> Self {
        Self {
            epochs: 1,
            batch: 16,
            max_tokens: 1024,
            warmup_steps: 10,
            seed: 0,
            learner: LearnerConfig { learning_rate: 1e-3, ..LearnerConfig::default() },
        }
    }
}

/// What a warm-up did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WarmupReport {
    pub conversations: usize,
    /// Conversations that were longer than the limit.
    pub left_out: usize,
    /// Tokens of one pass, prompts included.
    pub tokens: usize,
    pub steps: usize,
    /// Mean loss of the first and the last ten steps, nats a token.
    pub first_loss: f64,
    pub last_loss: f64,
    /// Wall-clock time of the steps.
    pub seconds: f64,
}

/// Why a warm-up could not be done.
#[derive(Debug, thiserror::Error)]
pub enum WarmupError {
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    Learn(#[from] LearnError),
    #[error(
        "all {left_out} conversations are longer than {limit} tokens\nhelp: raise the limit of the warm-up"
    )]
    TooLong { left_out: usize, limit: usize },
}

/// Trains `model` by cross entropy on what the assistant says in `conversations`.
/// `on_step` sees the number of steps in all and each step's report.
///
/// # Errors
/// If a conversation cannot be tokenised, none is short enough, or the settings cannot work.
pub fn warm_up(
    model: CausalLm,
    chat: &ChatTemplate,
    conversations: &[Vec<ChatMessage>],
    config: &WarmupConfig,
    mut on_step: impl FnMut(usize, &StepReport),
) -> Result<(CausalLm, WarmupReport), WarmupError> {
    let mut samples = Vec::new();
    let mut left_out = 0;
    for messages in conversations {
        let tokens = chat.conversation(messages)?;
        if tokens.ids.len() > config.max_tokens {
            left_out += 1;
        } else {
            samples.push(Sample::demonstration(tokens.ids, tokens.mask));
        }
    }
    if samples.is_empty() {
        return Err(WarmupError::TooLong { left_out, limit: config.max_tokens });
    }
    let batch = config.batch.max(1);
    let steps = config.epochs * samples.len().div_ceil(batch);
    let mut settings = config.learner.clone();
    settings.schedule =
        Schedule { warmup_steps: config.warmup_steps, decay: Decay::Linear, total_steps: steps as u64 };
    let mut learner = Learner::new(model, settings)?;
    let mut losses = Vec::with_capacity(steps);
    let mut seconds = 0.0;
    for epoch in 0..config.epochs {
        for indices in shuffled(samples.len(), config.seed.wrapping_add(epoch as u64)).chunks(batch) {
            let batch: Vec<_> = indices.iter().map(|index| samples[*index].clone()).collect();
            let report = learner.supervised_step(&batch)?;
            losses.push(report.loss);
            seconds += report.seconds;
            on_step(steps, &report);
        }
    }
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len().max(1) as f64;
    let report = WarmupReport {
        conversations: samples.len(),
        left_out,
        tokens: samples.iter().map(|sample| sample.ids.len()).sum(),
        steps,
        first_loss: mean(&losses[..losses.len().min(10)]),
        last_loss: mean(&losses[losses.len().saturating_sub(10)..]),
        seconds,
    };
    Ok((learner.model(), report))
}

/// `0..count` in an order that depends on `seed` alone (Fisher and Yates).
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    use rand::SeedableRng;
    use rand::seq::SliceRandom;
    let mut order: Vec<_> = (0..count).collect();
    order.shuffle(&mut rand::rngs::StdRng::seed_from_u64(seed));
    order
}
