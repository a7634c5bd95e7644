//! By which one number is the summed loss of an optimiser step divided?

use serde::{Deserialize, Serialize};

/// How token losses become the loss of a step.
///
/// The denominator belongs to the whole step: it is computed once over all samples, before they
/// are split into micro-batches (or over devices), so that no split changes the gradient. A weight
/// is in the numerator and in the denominator of each: a sample of weight 2 is the sample twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Aggregation {
    /// `Σ weight · loss / Σ weight` over the trained tokens of the step.
    #[default]
    TokenMean,
    /// `Σ weight · loss / (tokens · Σ weight)`, the lower sum over the episodes of the step, with a
    /// configured number of tokens an episode (Dr. GRPO): the length of an answer does not change
    /// the weight of its tokens, nor does the number of samples that an episode became.
    Constant {
        /// The configured number of tokens an episode stands for, over 0.
        tokens: f64,
    },
}

/// What a denominator counts of one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// The weight of each of its tokens.
    pub weight: f32,
    /// The part of an episode that it is: 1, or 1 divided by the samples that its episode became.
    pub share: f32,
    /// Trained tokens.
    pub tokens: usize,
}

impl Aggregation {
    /// The denominator of a step.
    ///
    /// A sample without a trained token, or with weight 0, is not counted. 0 means that there is
    /// nothing to learn from.
    pub fn denominator(&self, samples: impl IntoIterator<Item = Counted>) -> f64 {
        let counted = samples.into_iter().filter(|sample| sample.weight > 0.0 && sample.tokens > 0);
        match self {
            Aggregation::TokenMean => {
                counted.map(|sample| f64::from(sample.weight) * sample.tokens as f64).sum()
            }
            Aggregation::Constant { tokens } => {
                let episodes = counted.map(|sample| f64::from(sample.weight) * f64::from(sample.share));
                episodes.sum::<f64>() * tokens
            }
        }
    }
}
