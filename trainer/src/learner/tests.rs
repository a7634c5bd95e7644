//! A tiny random policy learns, and no way of computing a step changes what is learnt.

use burn::module::Module;
use burn::prelude::*;
use burn::tensor::activation::log_softmax;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::gradient::Aim;
use super::*;
use crate::model::{CausalLm, LoraConfig, ModelConfig};
use crate::objective::{AdvantageKind, Aggregation, Correction, KlPenalty, Objective, group_advantages};
use crate::optimizer::StepGradients;

fn shape(tied: bool) -> ModelConfig {
    let usual = ModelConfig::llama(16, 24, 3, [4, 2], 21);
    ModelConfig { max_position_embeddings: 64, tie_word_embeddings: tied, ..usual }
}

pub(super) fn full(tied: bool) -> CausalLm {
    CausalLm::random(shape(tied), 7, &Device::flex())
}

/// LoRA on the upper two layers, with a B that is not zero, so that every factor has a gradient.
pub(super) fn adapted() -> CausalLm {
    let lora = LoraConfig { rank: 2, alpha: 4.0, first_layer: 1, ..LoraConfig::default() };
    let mut learner = Learner::new(full(true).with_lora(lora, 3), LearnerConfig::default()).unwrap();
    learner.supervised_step(&samples(5)).unwrap();
    learner.model()
}

/// Samples of different lengths with gaps in their masks, off policy.
pub(super) fn samples(seed: u64) -> Vec<Sample> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..8)
        .map(|index| {
            let length = 4 + (index * 5) % 11;
            let ids: Vec<u32> = (0..length).map(|_| random.random_range(0..21)).collect();
            let mask = (0..length).map(|position| position > 1 && position % 4 != 0).collect();
            let logprobs = (0..length).map(|_| random.random_range(-4.0..-1.0)).collect();
            Sample::new(ids, mask, logprobs, random.random_range(-1.0..1.0))
        })
        .collect()
}

pub(super) fn all_objectives() -> [Objective; 5] {
    [
        Objective::default(),
        Objective::Gspo { low: 0.1, high: 0.1 },
        Objective::Cispo { cap: 4.0 },
        Objective::Dppo { bound: 0.2, tau: 1e-3 },
        Objective::P3o,
    ]
}

/// The gradient of a policy step, by parameter.
pub(super) fn policy_gradient(
    model: &CausalLm,
    config: &LearnerConfig,
    samples: &[Sample],
) -> Vec<(String, Vec<f32>)> {
    let learner = Learner::new(model.clone(), config.clone()).unwrap();
    let before = learner.logprobs(samples).unwrap();
    let aim = Aim::Policy { objective: config.objective, before: Some(before.into()) };
    values(&learner.gradient(samples, &aim).unwrap().gradients)
}

fn values(gradients: &StepGradients) -> Vec<(String, Vec<f32>)> {
    let read = |path: &str| gradients.get(path).unwrap().to_data().try_into_vec().unwrap();
    gradients.paths().map(|path| (path.to_string(), read(path))).collect()
}

fn assert_close(name: &str, found: &[(String, Vec<f32>)], expected: &[(String, Vec<f32>)], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{name}: number of gradients");
    let largest = expected.iter().flat_map(|(_, values)| values).fold(0f32, |most, x| most.max(x.abs()));
    assert!(largest > 1e-4, "{name}: the gradient to compare with is nearly 0");
    for ((path, found), (other, expected)) in found.iter().zip(expected) {
        assert_eq!(path, other, "{name}");
        for (found, expected) in found.iter().zip(expected) {
            let apart = (found - expected).abs();
            assert!(apart < tolerance * largest.max(1.0), "{name}: {path}: {found}, expected {expected}");
        }
    }
}

#[test]
fn splits_and_padding_do_not_change_the_gradient() {
    for model in [adapted(), full(true)] {
        for objective in all_objectives() {
            let whole = LearnerConfig { objective, micro_batch_tokens: 10_000, ..Default::default() };
            let expected = policy_gradient(&model, &whole, &samples(1));
            for (name, config) in [
                ("2 × 4", LearnerConfig { micro_batch_tokens: 52, ..whole.clone() }),
                ("8 × 1", LearnerConfig { micro_batch_tokens: 1, ..whole.clone() }),
                ("padded", LearnerConfig { pad_to_multiple_of: 32, ..whole.clone() }),
                ("rows one by one", LearnerConfig { head_rows: 1, ..whole.clone() }),
                ("rows by threes", LearnerConfig { head_rows: 3, ..whole.clone() }),
            ] {
                let found = policy_gradient(&model, &config, &samples(1));
                assert_close(&format!("{objective:?}, {name}"), &found, &expected, 1e-5);
            }
        }
    }
}

/// As after a top-up: each outcome has its weight, and some episodes became several samples.
fn weighted() -> Vec<Sample> {
    let mut all = samples(1);
    for (sample, (weight, share)) in all.iter_mut().zip([
        (1.0, 1.0),
        (11.0 / 7.0, 0.5),
        (11.0 / 7.0, 0.5),
        (0.25, 1.0),
        (3.0, 1.0 / 3.0),
        (3.0, 1.0 / 3.0),
        (3.0, 1.0 / 3.0),
        (2.0, 1.0),
    ]) {
        (sample.weight, sample.share) = (weight, share);
    }
    all
}

fn aggregations() -> [Aggregation; 2] {
    [Aggregation::TokenMean, Aggregation::Constant { tokens: 50.0 }]
}

#[test]
fn splits_do_not_change_the_gradient_of_weighted_samples() {
    for aggregation in aggregations() {
        let whole = LearnerConfig { aggregation, micro_batch_tokens: 10_000, ..Default::default() };
        let expected = policy_gradient(&adapted(), &whole, &weighted());
        for (name, tokens) in [("2 × 4", 52), ("8 × 1", 1)] {
            let config = LearnerConfig { micro_batch_tokens: tokens, ..whole.clone() };
            let found = policy_gradient(&adapted(), &config, &weighted());
            assert_close(&format!("{aggregation:?}, {name}"), &found, &expected, 1e-5);
        }
    }
}

#[test]
fn a_sample_of_weight_two_is_the_sample_twice_under_every_aggregation() {
    for aggregation in aggregations() {
        let config = LearnerConfig { aggregation, ..Default::default() };
        let mut once = samples(1);
        once[2].weight = 2.0;
        let mut twice = samples(1);
        twice.push(twice[2].clone());
        let expected = policy_gradient(&adapted(), &config, &twice);
        let found = policy_gradient(&adapted(), &config, &once);
        assert_close(&format!("{aggregation:?}"), &found, &expected, 1e-5);
    }
}

/// The samples of the weighted batch stand for 1 + 11/7 + 1/4 + 3 + 2 episodes, not for 8.
#[test]
fn a_constant_denominator_counts_episodes_by_their_weight() {
    let of = |aggregation| LearnerConfig { aggregation, ..Default::default() };
    let trained: f32 = weighted().iter().map(|sample| sample.weight * sample.trained() as f32).sum();
    let factor = trained / (50.0 * (1.0 + 11.0 / 7.0 + 0.25 + 3.0 + 2.0));
    let expected: Vec<(String, Vec<f32>)> =
        policy_gradient(&adapted(), &of(Aggregation::TokenMean), &weighted())
            .into_iter()
            .map(|(path, values)| (path, values.iter().map(|x| x * factor).collect()))
            .collect();
    let found = policy_gradient(&adapted(), &of(Aggregation::Constant { tokens: 50.0 }), &weighted());
    assert_close("constant", &found, &expected, 1e-5);
}

#[test]
fn the_order_of_samples_does_not_matter() {
    let config = LearnerConfig { micro_batch_tokens: 30, ..Default::default() };
    let mut shuffled = samples(1);
    shuffled.reverse();
    shuffled.swap(1, 5);
    let expected = policy_gradient(&adapted(), &config, &samples(1));
    assert_close("shuffled", &policy_gradient(&adapted(), &config, &shuffled), &expected, 1e-5);
}

#[test]
fn tokens_that_the_policy_did_not_sample_have_no_gradient() {
    let config = LearnerConfig::default();
    let expected = policy_gradient(&adapted(), &config, &samples(1));
    let mut changed = samples(1);
    for sample in &mut changed {
        for position in 0..sample.ids.len() {
            if !sample.mask[position] {
                sample.logprobs[position] = -17.0;
            }
        }
        // What follows the last trained token is context of nothing.
        sample.ids.extend([4, 5, 6]);
        sample.mask.extend([false; 3]);
        sample.logprobs.extend([f32::NAN; 3]);
    }
    assert_eq!(policy_gradient(&adapted(), &config, &changed), expected);
}

#[test]
fn a_sample_that_trains_nothing_leaves_the_denominator() {
    let config = LearnerConfig::default();
    let expected = policy_gradient(&adapted(), &config, &samples(1));
    let mut more = samples(1);
    let mut idle = more[3].clone();
    idle.weight = 0.0;
    more.push(idle);
    more.push(Sample::new(vec![1, 2, 3], vec![false; 3], vec![0.0; 3], 1.0));
    assert_close("idle samples", &policy_gradient(&adapted(), &config, &more), &expected, 1e-6);
}

/// The gradient of mean cross entropy, by one straight pass of automatic differentiation.
fn straight_gradient(model: &CausalLm, samples: &[Sample]) -> Vec<(String, Vec<f32>)> {
    straight(model, samples, |logp, id| -logp.slice([0..1, id..id + 1]).reshape([1]))
}

/// The gradient of the mean of `token` over the trained tokens, which is given the distribution `[1, vocabulary]`
/// as logarithms, and the token.
fn straight(
    model: &CausalLm,
    samples: &[Sample],
    token: impl Fn(Tensor<2>, usize) -> Tensor<1>,
) -> Vec<(String, Vec<f32>)> {
    let model = model.clone().train();
    let device = Device::flex();
    let count: usize = samples.iter().map(Sample::trained).sum();
    let mut sum = StepGradients::new();
    for sample in samples {
        let length = sample.ids.len();
        let ids: Vec<i32> = sample.ids.iter().map(|id| *id as i32).collect();
        let batch = Tensor::<2, Int>::from_data(TensorData::new(ids.clone(), [1, length]), &device);
        let hidden = model.hidden(batch).reshape([length, 16]);
        let logp = log_softmax(model.logits(hidden), 1);
        let mut loss = Tensor::<1>::zeros([1], &device);
        for position in (0..length).filter(|position| sample.mask[*position]) {
            let id = sample.ids[position] as usize;
            loss = loss + token(logp.clone().slice_dim(0, position - 1..position), id);
        }
        let mut gradients = loss.div_scalar(count as f32).backward();
        sum.accumulate(&model, &mut gradients);
    }
    values(&sum)
}

#[test]
fn the_chunked_head_gives_the_gradient_of_automatic_differentiation() {
    for (name, model) in [("tied", full(true)), ("own head", full(false)), ("LoRA", adapted())] {
        let config = LearnerConfig { head_rows: 5, micro_batch_tokens: 40, ..Default::default() };
        let learner = Learner::new(model.clone(), config).unwrap();
        let pass = learner.gradient(&samples(2), &Aim::Supervised).unwrap();
        let expected = straight_gradient(&model, &samples(2));
        assert_close(name, &values(&pass.gradients), &expected, 1e-5);
    }
}

#[test]
fn the_entropy_bonus_has_the_gradient_of_the_entropy() {
    for model in [full(true), adapted()] {
        let config = LearnerConfig { entropy_bonus: 0.3, head_rows: 5, ..Default::default() };
        let mut batch = samples(2);
        for sample in &mut batch {
            sample.advantage = 0.0;
        }
        let expected = straight(&model, &batch, |logp, _| (logp.clone().exp() * logp).sum().mul_scalar(0.3));
        assert_close("entropy", &policy_gradient(&model, &config, &batch), &expected, 1e-5);
    }
}

#[test]
fn a_sampler_that_computes_otherwise_is_corrected_for() {
    // Every token was sampled at half the probability that the trainer computes.
    let mut batch = samples(1);
    for sample in &mut batch {
        sample.old_logprobs = Some(sample.logprobs.clone());
        sample.logprobs.iter_mut().for_each(|logp| *logp -= 2f32.ln());
    }
    let of = |correction| {
        let config = LearnerConfig { correction, ..Default::default() };
        policy_gradient(&adapted(), &config, &batch)
    };
    let plain = of(Correction::Off);
    let times = |factor: f32| -> Vec<(String, Vec<f32>)> {
        let scaled = |values: &[f32]| values.iter().map(|value| value * factor).collect();
        plain.iter().map(|(path, values)| (path.clone(), scaled(values))).collect()
    };
    for (correction, factor) in [
        (Correction::Token { cap: 3.0 }, 2.0),
        (Correction::Token { cap: 1.5 }, 1.5),
        (Correction::Sequence { cap: 1.5 }, 1.5),
        (Correction::TokenMask { low: 0.5, high: 2.5 }, 2.0),
        (Correction::TokenMask { low: 0.5, high: 1.5 }, 0.0),
        (Correction::SequenceMask { low: 0.5, high: 2.5 }, 1.0),
    ] {
        let found = of(correction);
        let expected = times(factor);
        for ((path, found), (_, expected)) in found.iter().zip(&expected) {
            for (found, expected) in found.iter().zip(expected) {
                assert!(
                    (found - expected).abs() < 2e-5,
                    "{correction:?}: {path}: {found}, expected {expected}"
                );
            }
        }
    }
}

#[test]
fn only_adapters_of_the_upper_layers_have_gradients() {
    let gradients = policy_gradient(&adapted(), &LearnerConfig::default(), &samples(1));
    // 2 layers, 7 projections, A and B.
    assert_eq!(gradients.len(), 28);
    for (path, _) in gradients {
        assert!(path.contains("adapters") && !path.starts_with("layers.0."), "{path}");
    }
}

#[test]
fn a_model_with_nothing_to_train_is_refused() {
    let lora = LoraConfig { rank: 2, alpha: 4.0, first_layer: 0, ..LoraConfig::default() };
    let frozen = full(true).with_lora(lora, 1).no_grad();
    let error = Learner::new(frozen, LearnerConfig::default()).err().unwrap();
    assert!(matches!(error, LearnError::NothingTrainable));
}

#[test]
fn supervised_steps_lower_the_loss() {
    for model in [full(true), adapted()] {
        let config = LearnerConfig { learning_rate: 1e-2, ..Default::default() };
        let mut learner = Learner::new(model, config).unwrap();
        let first = learner.supervised_step(&samples(3)).unwrap();
        assert!(first.update_norm > 0.0 && first.grad_norm > 0.0 && first.skipped.is_none());
        assert!(first.ratios.is_none());
        assert!((0.0..=21f64.ln()).contains(&first.entropy), "{}", first.entropy);
        let trained: usize = samples(3).iter().map(Sample::trained).sum();
        assert_eq!(first.tokens, trained);
        let mut last = first.clone();
        for _ in 0..30 {
            last = learner.supervised_step(&samples(3)).unwrap();
        }
        assert!(last.loss < 0.7 * first.loss, "{} → {}", first.loss, last.loss);
        assert_eq!(learner.steps(), 31);
    }
}

#[test]
fn the_reported_loss_is_the_mean_negative_log_probability() {
    let mut learner = Learner::new(adapted(), LearnerConfig::default()).unwrap();
    let logp = learner.logprobs(&samples(3)).unwrap();
    let count: usize = samples(3).iter().map(Sample::trained).sum();
    let expected = -logp.iter().flatten().map(|x| f64::from(*x)).sum::<f64>() / count as f64;
    let found = learner.supervised_step(&samples(3)).unwrap().loss;
    assert!((found - expected).abs() < 1e-5, "{found}, expected {expected}");
}

#[test]
fn on_policy_every_ratio_is_one() {
    for objective in all_objectives() {
        let config = LearnerConfig { objective, ..Default::default() };
        let mut learner = Learner::new(adapted(), config).unwrap();
        let mut batch = samples(4);
        for (sample, logp) in batch.iter_mut().zip(learner.logprobs(&samples(4)).unwrap()) {
            sample.logprobs = logp;
        }
        let ratios = learner.policy_step(&batch).unwrap().ratios.unwrap();
        assert!((ratios.mean_ratio - 1.0).abs() < 1e-5, "{objective:?}: {ratios:?}");
        assert!((ratios.max_ratio - 1.0).abs() < 1e-5, "{objective:?}: {ratios:?}");
        assert_eq!(ratios.clip_fraction, 0.0, "{objective:?}");
        assert!(ratios.approx_kl < 1e-9 && ratios.logprob_gap < 1e-5, "{objective:?}: {ratios:?}");
        // The second step on the same samples is off policy, and sees it.
        let again = learner.policy_step(&batch).unwrap().ratios.unwrap();
        assert!(again.max_ratio > 1.0 + 1e-4, "{objective:?}: {again:?}");
    }
}

/// One prompt, one sampled token; token 5 is rewarded.
fn bandit_probability(objective: Objective) -> (f32, f32) {
    let config = LearnerConfig { objective, learning_rate: 2e-2, ..Default::default() };
    let mut learner = Learner::new(adapted(), config).unwrap();
    let mut random = StdRng::seed_from_u64(11);
    let arm = |action: u32| Sample::new(vec![3, 8, action], vec![false, false, true], vec![0.0; 3], 0.0);
    let arms: Vec<Sample> = (0..21).map(arm).collect();
    let probabilities = |learner: &Learner| -> Vec<f32> {
        learner.logprobs(&arms).unwrap().iter().map(|logp| logp[2].exp()).collect()
    };
    let first = probabilities(&learner)[5];
    for _ in 0..25 {
        let now = probabilities(&learner);
        let mut group: Vec<Sample> = (0..32)
            .map(|_| {
                let mut left: f32 = random.random();
                let action = now.iter().position(|p| {
                    left -= p;
                    left < 0.0
                });
                let action = action.unwrap_or(20);
                let mut sample = arm(action as u32);
                sample.logprobs[2] = now[action].ln();
                sample
            })
            .collect();
        let rewards: Vec<f32> = group.iter().map(|sample| f32::from(sample.ids[2] == 5)).collect();
        let advantages = group_advantages(&rewards, AdvantageKind::Centred);
        if !advantages.counted {
            continue;
        }
        for (sample, advantage) in group.iter_mut().zip(advantages.values) {
            sample.advantage = advantage;
        }
        learner.policy_step(&group).unwrap();
    }
    (first, probabilities(&learner)[5])
}

#[test]
fn a_rewarded_token_becomes_likely_under_every_objective() {
    for objective in all_objectives() {
        let (first, last) = bandit_probability(objective);
        assert!(first < 0.5 && last > 2.0 * first && last > 0.3, "{objective:?}: {first} → {last}");
    }
}

#[test]
fn equal_rewards_move_nothing() {
    let mut learner = Learner::new(adapted(), LearnerConfig::default()).unwrap();
    let mut batch = samples(4);
    batch.iter_mut().for_each(|sample| sample.advantage = 0.0);
    let report = learner.policy_step(&batch).unwrap();
    assert_eq!((report.grad_norm, report.update_norm), (0.0, 0.0));
}

#[test]
fn recomputed_log_probabilities_turn_the_sampler_into_a_bounded_weight() {
    let model = adapted();
    let learner = Learner::new(model.clone(), LearnerConfig::default()).unwrap();
    let old = learner.logprobs(&samples(4)).unwrap();
    // A sampler that is 0.1 nats off everywhere: weight e^0.1 on each token, ratio still 1.
    let with_sampler = |gap: f32, recomputed: bool| -> Vec<Sample> {
        let mut batch = samples(4);
        for (sample, old) in batch.iter_mut().zip(&old) {
            sample.logprobs = old.iter().map(|logp| logp - gap).collect();
            sample.old_logprobs = recomputed.then(|| old.clone());
        }
        batch
    };
    let config = LearnerConfig::default();
    let plain = policy_gradient(&model, &config, &with_sampler(0.0, false));
    for (gap, factor) in [(0.1f32, 0.1f32.exp()), (5.0, 2.0)] {
        let scaled: Vec<(String, Vec<f32>)> = plain
            .iter()
            .map(|(path, values)| (path.clone(), values.iter().map(|x| x * factor).collect()))
            .collect();
        let found = policy_gradient(&model, &config, &with_sampler(gap, true));
        assert_close(&format!("gap {gap}"), &found, &scaled, 1e-5);
    }
}

#[test]
fn a_constant_denominator_weighs_short_and_long_samples_alike() {
    let aggregation = Aggregation::Constant { tokens: 50.0 };
    let constant = LearnerConfig { aggregation, ..Default::default() };
    let mean = LearnerConfig::default();
    let trained: usize = samples(1).iter().map(Sample::trained).sum();
    let factor = trained as f32 / (8.0 * 50.0);
    let expected: Vec<(String, Vec<f32>)> = policy_gradient(&adapted(), &mean, &samples(1))
        .into_iter()
        .map(|(path, values)| (path, values.iter().map(|x| x * factor).collect()))
        .collect();
    assert_close("constant", &policy_gradient(&adapted(), &constant, &samples(1)), &expected, 1e-6);
}

#[test]
fn the_kl_penalty_pulls_towards_the_reference_and_needs_it() {
    let config =
        LearnerConfig { kl: KlPenalty { coefficient: 0.5, ..KlPenalty::default() }, ..Default::default() };
    let mut learner = Learner::new(adapted(), config.clone()).unwrap();
    let error = learner.policy_step(&samples(4)).unwrap_err();
    assert!(matches!(error, LearnError::NoReference { sample: 0 }), "{error}");

    let mut batch = samples(4);
    for (sample, logp) in batch.iter_mut().zip(learner.logprobs(&samples(4)).unwrap()) {
        sample.advantage = 0.0;
        sample.logprobs = logp.clone();
        sample.reference_logprobs = Some(logp.iter().map(|x| x - 0.5).collect());
    }
    let pulled = learner.policy_step(&batch).unwrap();
    // d = −0.5 on each token: k3 = e^−0.5 + 0.5 − 1.
    let expected = 0.5 * ((-0.5f64).exp() + 0.5 - 1.0);
    assert!((pulled.loss - expected).abs() < 1e-4, "{} {expected}", pulled.loss);
    assert!(pulled.grad_norm > 0.0);
}

#[test]
fn numbers_that_are_not_finite_skip_the_step_and_say_where() {
    let mut tensors = full(true).named_tensors();
    let name = "model.layers.2.mlp.up_proj.weight";
    let mut broken = tensors.get(name).unwrap().clone();
    broken.data[3] = f32::NAN;
    tensors.insert(name, broken);
    let model = CausalLm::from_tensors(shape(true), &tensors, &Device::flex()).unwrap();
    let mut learner = Learner::new(model, LearnerConfig::default()).unwrap();
    let report = learner.supervised_step(&samples(3)).unwrap();
    let reason = report.skipped.unwrap();
    assert!(reason.contains("log-probability of sample") && reason.ends_with("is NaN"), "{reason}");
    assert_eq!((learner.steps(), report.update_norm), (0, 0.0));
    let embedding =
        |tensors: &crate::weights::NamedTensors| tensors.get("model.embed_tokens.weight").cloned();
    assert_eq!(embedding(&learner.model().named_tensors()), embedding(&tensors));
}

#[test]
fn a_step_without_trained_tokens_is_skipped() {
    let mut learner = Learner::new(adapted(), LearnerConfig::default()).unwrap();
    for batch in [vec![], vec![Sample::demonstration(vec![1, 2], vec![false, false])]] {
        let report = learner.supervised_step(&batch).unwrap();
        assert_eq!(report.skipped.as_deref(), Some("no sample has a token to train"));
    }
    assert_eq!(learner.steps(), 0);
}

#[test]
fn a_resumed_learner_repeats_the_bits_of_the_one_it_continues() {
    let lora = LoraConfig { rank: 2, alpha: 4.0, first_layer: 1, ..LoraConfig::default() };
    for base in [full(true), full(false), full(true).with_lora(lora, 3)] {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let config = LearnerConfig { micro_batch_tokens: 30, ..Default::default() };
        let mut one = Learner::new(base, config.clone()).unwrap();
        one.supervised_step(&samples(1)).unwrap();
        one.policy_step(&samples(2)).unwrap();
        one.save_state(&state).unwrap();
        assert!(one.save_state(&state).is_err(), "a state is never overwritten");

        // The base is the policy from before all training, as a new process would load it.
        let tied = one.model().config().tie_word_embeddings;
        let mut other = Learner::load_state(full(tied), config, &state).unwrap();
        assert_eq!(other.steps(), 2);
        for seed in 3..6 {
            let (first, second) = (one.policy_step(&samples(seed)), other.policy_step(&samples(seed)));
            let (mut first, mut second) = (first.unwrap(), second.unwrap());
            (first.seconds, second.seconds) = (0.0, 0.0);
            assert_eq!(first, second);
        }
        assert_eq!(one.model().named_tensors(), other.model().named_tensors());
    }
}

#[test]
fn damaged_state_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let learner = Learner::new(adapted(), LearnerConfig::default()).unwrap();
    learner.save_state(&state).unwrap();
    let load =
        || Learner::load_state(full(true), LearnerConfig::default(), &state).err().unwrap().to_string();

    let path = state.join("optimizer.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let good = bytes.clone();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert!(load().contains("optimizer.safetensors` is corrupt: its sha256 is"), "{}", load());
    std::fs::write(&path, good).unwrap();

    std::fs::remove_file(state.join("adapter_model.safetensors")).unwrap();
    assert!(load().contains("adapter_model.safetensors` is missing"), "{}", load());
    std::fs::write(state.join("learner.json"), "{}").unwrap();
    assert!(load().contains("learner.json` cannot be used: missing field `format`"), "{}", load());
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let read = |text: &str| serde_json::from_str::<LearnerConfig>(text);
    assert_eq!(read("{}").unwrap(), LearnerConfig::default());
    assert!(read(r#"{"learning_rat": 1}"#).is_err());
    assert!(read(r#"{"adamw": {"beta": 1}}"#).is_err());
    let check = |text: &str, expected: expect_test::Expect| {
        let error = Learner::new(adapted(), read(text).unwrap()).err().unwrap();
        expected.assert_eq(&error.to_string());
    };
    check(
        r#"{"learning_rate": 0}"#,
        expect_test::expect![[r#"
            `learning_rate` is 0, wanted a number over 0
            help: change it in the learner's settings"#]],
    );
    check(
        r#"{"aggregation": {"kind": "constant", "tokens": -1}}"#,
        expect_test::expect![[r#"
            `aggregation.tokens` is -1, wanted a number over 0
            help: change it in the learner's settings"#]],
    );
}

#[test]
fn samples_of_another_temperature_have_ratio_one_before_the_first_step() {
    for temperature in [0.7, 1.0, 1.5] {
        let config = LearnerConfig { temperature, learning_rate: 1e-9, ..Default::default() };
        let mut learner = Learner::new(full(true), config).unwrap();
        let mut batch = samples(1);
        let logits = |ids: &[u32]| -> Vec<Vec<f32>> {
            let ids_of = ids.iter().map(|id| *id as i32).collect::<Vec<_>>();
            let ids_of =
                Tensor::<2, Int>::from_data(TensorData::new(ids_of, [1, ids.len()]), &Device::flex());
            let hidden = full(true).hidden(ids_of);
            let width = hidden.dims()[2];
            let logits = full(true).logits(hidden.reshape([ids.len(), width])).div_scalar(temperature);
            let logp: Vec<f32> = log_softmax(logits, 1).into_data().try_into_vec().unwrap();
            logp.chunks(21).map(<[f32]>::to_vec).collect()
        };
        for sample in &mut batch {
            let rows = logits(&sample.ids);
            for at in 1..sample.ids.len() {
                sample.logprobs[at] = rows[at - 1][sample.ids[at] as usize];
            }
        }
        let ratios = learner.policy_step(&batch).unwrap().ratios.unwrap();
        assert!((ratios.max_ratio - 1.0).abs() < 1e-3, "temperature {temperature}: {ratios:?}");
        assert!(ratios.logprob_gap < 1e-4, "temperature {temperature}: {ratios:?}");
    }
}

#[test]
fn steps_that_are_skipped_in_a_row_are_counted_over_a_restart() {
    let mut learner = Learner::new(full(true), LearnerConfig::default()).unwrap();
    // A sample whose loss is not finite, though each of its numbers is.
    let mut bad = samples(3);
    bad.iter_mut().for_each(|sample| sample.advantage = f32::MAX);
    for expected in 1..=2 {
        let report = learner.policy_step(&bad).unwrap();
        assert!(report.skipped.is_some());
        assert_eq!(report.skips_in_a_row, expected);
    }
    let folder = tempfile::tempdir().unwrap();
    learner.save_state(&folder.path().join("state")).unwrap();
    let mut learner =
        Learner::load_state(full(true), LearnerConfig::default(), &folder.path().join("state")).unwrap();
    assert_eq!(learner.policy_step(&bad).unwrap().skips_in_a_row, MOST_SKIPS);
    assert_eq!(learner.policy_step(&samples(3)).unwrap().skips_in_a_row, 0);
    assert_eq!(learner.policy_step(&bad).unwrap().skips_in_a_row, 1);
}
