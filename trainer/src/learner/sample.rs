//! What does the learner learn from?

use super::LearnError;

/// One segment of an episode: tokens as the policy saw and sampled them, never re-tokenised text.
///
/// `ids`, `mask` and the lists of log-probabilities have one value for each token.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The token ids, prompt first.
    pub ids: Vec<u32>,
    /// True where the policy sampled the token, its end-of-turn token included.
    pub mask: Vec<bool>,
    /// Log-probabilities under the sampling distribution (after temperature); not read where the
    /// mask is false, nor by a supervised step, for which the list may be empty.
    pub logprobs: Vec<f32>,
    /// ℓ_old recomputed by the trainer ([`Learner::logprobs`](super::Learner::logprobs)) before
    /// the first of several updates on the same samples; then the ratio is measured against these
    /// and the sampler is corrected for. Without them ℓ_old is the sampler's.
    pub old_logprobs: Option<Vec<f32>>,
    /// Log-probabilities under the reference policy, for the KL penalty.
    pub reference_logprobs: Option<Vec<f32>>,
    /// How much better than its group the episode was; not read by a supervised step.
    pub advantage: f32,
    /// The weight of each of its tokens, in the loss and in the denominator. Usually 1.
    pub weight: f32,
    /// The part of an episode that it is, over 0: 1 divided by the samples that its episode became. Read by
    /// [`Aggregation::Constant`](crate::objective::Aggregation::Constant) alone, which counts episodes.
    pub share: f32,
}

impl Sample {
    /// A sample for a supervised step: cross entropy on the tokens with mask true.
    pub fn demonstration(ids: Vec<u32>, mask: Vec<bool>) -> Self {
        Self::new(ids, mask, Vec::new(), 0.0)
    }

    /// A sample for a policy step, a whole episode with weight 1 and the sampler's log-probabilities as ℓ_old.
    pub fn new(ids: Vec<u32>, mask: Vec<bool>, logprobs: Vec<f32>, advantage: f32) -> Self {
        let (weight, share) = (1.0, 1.0);
        Self { ids, mask, logprobs, old_logprobs: None, reference_logprobs: None, advantage, weight, share }
    }

    /// The number of trained tokens.
    pub fn trained(&self) -> usize {
        self.mask.iter().filter(|trained| **trained).count()
    }
}

/// What the samples are to be used for, which decides what they must carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Supervised,
    Policy { reference: bool },
}

/// Checks every sample on the host: on a GPU, a wrong id is an illegal memory access later on.
pub(super) fn check_samples(
    samples: &[Sample],
    usage: Use,
    vocabulary: usize,
    context: usize,
) -> Result<(), LearnError> {
    for (index, sample) in samples.iter().enumerate() {
        check_sample(index, sample, usage, vocabulary, context)?;
    }
    Ok(())
}

fn check_sample(
    index: usize,
    sample: &Sample,
    usage: Use,
    vocabulary: usize,
    context: usize,
) -> Result<(), LearnError> {
    let tokens = sample.ids.len();
    let length = |field: &'static str, found: usize| {
        if found == tokens {
            return Ok(());
        }
        Err(LearnError::UnequalLengths { sample: index, field, tokens, found })
    };
    length("mask", sample.mask.len())?;
    if tokens > context {
        return Err(LearnError::TooLong { sample: index, found: tokens, limit: context });
    }
    if let Some((position, id)) = sample.ids.iter().enumerate().find(|(_, id)| **id as usize >= vocabulary) {
        return Err(LearnError::OutsideVocabulary { sample: index, position, id: *id, vocabulary });
    }
    if sample.mask.first() == Some(&true) {
        return Err(LearnError::FirstTokenTrained { sample: index });
    }
    let bad = |field: &'static str, position: usize, value: f32| {
        Err(LearnError::BadValue { sample: index, field, position, value })
    };
    if !(sample.weight.is_finite() && sample.weight >= 0.0) {
        return bad("weight", 0, sample.weight);
    }
    if !(sample.share.is_finite() && sample.share > 0.0) {
        return bad("share", 0, sample.share);
    }
    let Use::Policy { reference } = usage else { return Ok(()) };
    if !sample.advantage.is_finite() {
        return bad("advantage", 0, sample.advantage);
    }
    if reference && sample.reference_logprobs.is_none() {
        return Err(LearnError::NoReference { sample: index });
    }
    let lists = [
        ("logprobs", Some(&sample.logprobs)),
        ("old_logprobs", sample.old_logprobs.as_ref()),
        ("reference_logprobs", sample.reference_logprobs.as_ref()),
    ];
    for (field, list) in lists {
        let Some(list) = list else { continue };
        length(field, list.len())?;
        for (position, value) in list.iter().enumerate() {
            // Rounding may leave a certain token a little over 0.
            if sample.mask[position] && !(value.is_finite() && *value <= 1e-3) {
                return bad(field, position, *value);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn good() -> Sample {
        Sample::new(vec![1, 2, 3], vec![false, true, true], vec![0.0, -1.0, -2.0], 0.5)
    }

    fn check(change: impl FnOnce(&mut Sample), expected: Expect) {
        let mut sample = good();
        change(&mut sample);
        let usage = Use::Policy { reference: false };
        let error = check_samples(&[good(), sample], usage, 10, 4).unwrap_err();
        expected.assert_eq(&error.to_string());
    }

    #[test]
    fn a_good_sample_passes_and_unmasked_log_probabilities_are_not_read() {
        let mut sample = good();
        sample.logprobs[0] = f32::NAN;
        assert!(check_samples(&[sample], Use::Policy { reference: false }, 4, 3).is_ok());
        let demonstration = Sample::demonstration(vec![0, 3], vec![false, true]);
        assert!(check_samples(&[demonstration], Use::Supervised, 4, 3).is_ok());
    }

    #[test]
    fn bad_samples_are_named() {
        check(
            |sample| sample.ids[2] = 10,
            expect![[r#"
                sample 1 has token id 10 at position 2, and the vocabulary ends at 10
                help: the ids come from another tokenizer than the model's"#]],
        );
        check(
            |sample| sample.mask.truncate(2),
            expect![[r#"
                sample 1 has 3 token ids but 2 values of `mask`
                help: every list of a sample has one value for each token, 0 where the mask is false"#]],
        );
        check(
            |sample| sample.mask[0] = true,
            expect![[r#"
                sample 1 trains its first token, which nothing precedes
                help: a sample starts with at least one token of the prompt, with mask false"#]],
        );
        check(
            |sample| sample.logprobs[1] = f32::NAN,
            expect![[r#"
                sample 1 has `logprobs` = NaN at position 1
                help: log-probabilities are finite and at most 0; advantages are finite; weights are at least 0; shares are over 0"#]],
        );
        check(
            |sample| sample.logprobs[2] = 0.5,
            expect![[r#"
                sample 1 has `logprobs` = 0.5 at position 2
                help: log-probabilities are finite and at most 0; advantages are finite; weights are at least 0; shares are over 0"#]],
        );
        check(
            |sample| sample.advantage = f32::INFINITY,
            expect![[r#"
                sample 1 has `advantage` = inf at position 0
                help: log-probabilities are finite and at most 0; advantages are finite; weights are at least 0; shares are over 0"#]],
        );
        check(
            |sample| *sample = Sample::demonstration(vec![1; 5], vec![false; 5]),
            expect![[r#"
                sample 1 has 5 tokens and the model's context is 4
                help: lower the episode's token limit, or split the episode into segments"#]],
        );
    }
}
