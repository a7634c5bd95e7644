//! By which one number is the summed loss of an optimiser step divided?

use serde::{Deserialize, Serialize};

/// How token losses become the loss of a step.
///
/// The denominator belongs to the whole step: it is computed once over all samples, before they
/// are split into micro-batches (or over devices), so that no split changes the gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Aggregation {
    /// `Σ weight · loss / Σ weight` over the trained tokens of the step.
    #[default]
    TokenMean,
    /// `Σ weight · loss / (samples · tokens)` with a configured number of tokens a sample
    /// (Dr. GRPO): the length of an answer does not change the weight of its tokens.
    Constant {
        /// The configured number of tokens a sample stands for, over 0.
        tokens: f64,
    },
}

impl Aggregation {
    /// The denominator of a step from each sample's (weight, number of trained tokens).
    ///
    /// A sample without a trained token, or with weight 0, is not counted. 0 means that there is
    /// nothing to learn from.
    pub fn denominator(&self, samples: impl IntoIterator<Item = (f32, usize)>) -> f64 {
        let counted = samples.into_iter().filter(|(weight, tokens)| *weight > 0.0 && *tokens > 0);
        match self {
            Aggregation::TokenMean => counted.map(|(weight, tokens)| f64::from(weight) * tokens as f64).sum(),
            Aggregation::Constant { tokens } => counted.count() as f64 * tokens,
        }
    }
}
