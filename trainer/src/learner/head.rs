//! What are the log-probabilities of the trained tokens, and what do they send back to the model?
//!
//! The head makes `[rows, vocabulary]` matrices, the largest of a step. They are made for a few
//! rows at a time, outside the graph of the layers: the gradient of each row's log-probability is
//! written down directly, `∂ℓ/∂logits = onehot(target) − softmax(logits)`, and the rows' gradients
//! enter the layers in one piece.

use burn::prelude::*;
use burn::tensor::activation::softmax;
use burn::tensor::{Gradients, IndexingUpdateOp};

#[cfg(feature = "cuda")]
use crate::kernel::{has_own_kernels, logits_gradient, matmul_wide, pulled, read_logits};
use crate::model::CausalLm;

/// What the head says about some rows; each tensor is `[rows]`, without a graph.
pub(super) struct Reading {
    /// Log-probability of the target.
    pub logp: Tensor<1>,
    /// Entropy of the distribution, in nats.
    pub entropy: Tensor<1>,
    /// The distribution, `[rows, vocabulary]`.
    probabilities: Tensor<2>,
}

fn read(logits: Tensor<2>, targets: &Tensor<2, Int>) -> Reading {
    let probabilities = softmax(logits.clone(), 1);
    let peak = logits.clone().max_dim(1);
    // log Σ exp(x) = max x − log(max p): as exact as subtracting the maximum, with two passes
    // less over the matrix.
    let normaliser: Tensor<2> = peak - probabilities.clone().max_dim(1).log();
    let logp = logits.clone().gather(1, targets.clone()) - normaliser.clone();
    let entropy = normaliser - (probabilities.clone() * logits).sum_dim(1);
    Reading { logp: logp.squeeze_dim(1), entropy: entropy.squeeze_dim(1), probabilities }
}

/// Log-probabilities of `targets` after the final hidden states `[rows, width]`, without gradient.
pub(super) fn logprobs(
    model: &CausalLm,
    hidden: Tensor<2>,
    targets: Tensor<1, Int>,
    temperature: f32,
) -> Tensor<1> {
    #[cfg(feature = "cuda")]
    if fuses(model, &hidden) {
        let logits = matmul_wide(hidden, model.head());
        let [logp, _, _] = read_logits(logits, targets, f64::from(temperature).recip());
        return logp;
    }
    read(heated(model, hidden, temperature), &targets.unsqueeze_dim(1)).logp
}

/// The logits of the distribution that is sampled from at this temperature, `[rows, vocabulary]`.
fn heated(model: &CausalLm, hidden: Tensor<2>, temperature: f32) -> Tensor<2> {
    let logits = model.logits(hidden);
    if temperature == 1.0 { logits } else { logits.div_scalar(temperature) }
}

/// What one chunk of rows leaves for the optimiser and the report.
pub(super) struct Chunk {
    pub logp: Tensor<1>,
    pub entropy: Tensor<1>,
    /// Gradient of the loss by the hidden states, `[rows, width]`.
    pub by_hidden: Tensor<2>,
    /// Gradients by the head's own parameters, if they are trained.
    pub gradients: Gradients,
}

/// Runs the head on `hidden` (`[rows, width]`, without a graph) and pulls the loss back.
///
/// `by_row` gets the rows' log-probabilities and entropies, and gives the gradient of the loss by each
/// log-probability and, where entropy is rewarded, by each entropy.
pub(super) fn pull_back(
    model: &CausalLm,
    hidden: Tensor<2>,
    targets: Tensor<1, Int>,
    temperature: f32,
    by_row: impl FnOnce(Tensor<1>, Tensor<1>) -> (Tensor<1>, Option<Tensor<1>>),
) -> Chunk {
    #[cfg(feature = "cuda")]
    if fuses(model, &hidden) {
        return fused_pull_back(model, hidden, targets, temperature, by_row);
    }
    let hidden = hidden.autodiff().require_grad();
    let logits = heated(model, hidden.clone(), temperature);
    let targets: Tensor<2, Int> = targets.unsqueeze_dim(1);
    let Reading { logp, entropy, probabilities } = read(logits.clone().inner(), &targets);
    let (by_logp, by_entropy) = by_row(logp.clone(), entropy.clone());
    let by_logp: Tensor<2> = by_logp.unsqueeze_dim(1);
    // What each probability is multiplied by. ∂H/∂logits = −p · (log p + H).
    let slope = match by_entropy {
        None => by_logp.clone().neg(),
        Some(by_entropy) => {
            let log = probabilities.clone().clamp_min(f32::MIN_POSITIVE).log();
            let by_entropy: Tensor<2> = by_entropy.unsqueeze_dim(1);
            by_logp.clone().neg() - (log + entropy.clone().unsqueeze_dim(1)) * by_entropy
        }
    };
    let by_logits = (probabilities * slope).scatter(1, targets, by_logp, IndexingUpdateOp::Add);
    // The gradient of Σ logits · constant by the logits is the constant.
    let mut gradients = (logits * by_logits).sum().backward();
    let by_hidden = match hidden.grad_remove(&mut gradients) {
        Some(gradient) => gradient,
        None => hidden.inner().zeros_like(),
    };
    Chunk { logp, entropy, by_hidden, gradients }
}

/// Whether one kernel reads the rows' log-probabilities and one writes their gradient.
#[cfg(feature = "cuda")]
fn fuses(model: &CausalLm, hidden: &Tensor<2>) -> bool {
    model.config().logit_softcap.is_none() && has_own_kernels(hidden)
}

/// [`pull_back`] with the logits of the chunk in f32 and their gradient in bf16, and nothing else of that size.
#[cfg(feature = "cuda")]
fn fused_pull_back(
    model: &CausalLm,
    hidden: Tensor<2>,
    targets: Tensor<1, Int>,
    temperature: f32,
    by_row: impl FnOnce(Tensor<1>, Tensor<1>) -> (Tensor<1>, Option<Tensor<1>>),
) -> Chunk {
    let weight = model.head();
    let inverse = f64::from(temperature).recip();
    let logits = matmul_wide(hidden.clone(), weight.clone().inner());
    let [logp, entropy, normalisers] = read_logits(logits.clone(), targets.clone(), inverse);
    let (by_logp, by_entropy) = by_row(logp.clone(), entropy.clone());
    let by_entropy = by_entropy.unwrap_or_else(|| by_logp.zeros_like());
    let by_logits =
        logits_gradient(logits, targets, [normalisers, entropy.clone()], [by_logp, by_entropy], inverse);
    let hidden = hidden.autodiff().require_grad();
    let tied = model.config().tie_word_embeddings;
    let mut gradients = pulled(hidden.clone(), weight, by_logits.autodiff(), tied).backward();
    let by_hidden = match hidden.grad_remove(&mut gradients) {
        Some(gradient) => gradient,
        None => hidden.inner().zeros_like(),
    };
    Chunk { logp, entropy, by_hidden, gradients }
}
