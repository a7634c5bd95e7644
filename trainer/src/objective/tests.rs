//! Golden vectors computed independently in f64, and the same formulas on the host.

use burn::prelude::*;

use super::*;

const THETA: [f64; 4] = [-0.9, -1.6, -0.2, -2.5];
const OLD: [f64; 4] = [-1.0, -1.5, -0.5, -1.2];
const ADVANTAGE: [f64; 4] = [1.0, 1.0, -1.0, -1.0];

fn tensor(values: &[f64], device: &Device) -> Tensor<1> {
    let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
    Tensor::from_data(TensorData::new(values, [THETA.len()]), device)
}

fn log_ratios() -> Vec<f64> {
    THETA.iter().zip(OLD).map(|(theta, old)| theta - old).collect()
}

/// The formula of each objective in f64: the loss of token `i` as a function of its ℓ_θ.
fn host_loss(objective: Objective, i: usize, theta: f64, ess: f64, sequence: &[f64]) -> f64 {
    let (old, advantage) = (OLD[i], ADVANTAGE[i]);
    let ratio = (theta - old).exp();
    let frozen = (THETA[i] - old).exp();
    match objective {
        Objective::Clip { low, high, dual } => {
            let bounded = ratio.clamp(1.0 - f64::from(low), 1.0 + f64::from(high));
            let least = (ratio * advantage).min(bounded * advantage);
            match dual {
                Some(dual) if advantage < 0.0 => -least.max(f64::from(dual) * advantage),
                _ => -least,
            }
        }
        Objective::Gspo { low, high } => {
            let ratio = (sequence[i] + theta - THETA[i]).exp();
            let bounded = ratio.clamp(1.0 - f64::from(low), 1.0 + f64::from(high));
            -(ratio * advantage).min(bounded * advantage)
        }
        Objective::Cispo { cap } => -frozen.min(f64::from(cap)) * advantage * theta,
        Objective::Dppo { bound, tau } => {
            let moved = THETA[i].exp() - old.exp();
            let dropped = advantage * moved > f64::from(bound);
            let keep = if dropped { 0.0 } else { 1.0 };
            -keep * advantage * ratio + f64::from(tau) * (theta - old).powi(2)
        }
        Objective::P3o => {
            let kl = (theta - old) + (old - theta).clamp(-10.0, 10.0).exp() - 1.0;
            -frozen.min(ess) * advantage * theta + (1.0 - ess) * kl
        }
    }
}

/// Checks sum and gradient of the tensor formula against the golden numbers, and each token
/// against the host formula and its numerical derivative.
fn check(objective: Objective, sequence: &[f64], sum: f64, gradient: [f64; 4]) {
    let device = Device::flex();
    let ess = effective_sample_size(log_ratios());
    let rows = Rows {
        old: tensor(&OLD, &device),
        advantage: tensor(&ADVANTAGE, &device),
        sequence_log_ratio: Some(tensor(sequence, &device)),
        effective_sample_size: ess as f32,
    };
    let theta = tensor(&THETA, &device).autodiff().require_grad();
    let loss = objective.token_loss(theta.clone(), &rows).loss;
    let values: Vec<f32> = loss.clone().inner().into_data().try_into_vec().unwrap();
    let grads = loss.sum().backward();
    let found: Vec<f32> = theta.grad(&grads).unwrap().into_data().try_into_vec().unwrap();

    let total: f64 = values.iter().map(|value| f64::from(*value)).sum();
    assert!((total - sum).abs() < 1e-4, "{objective:?}: sum {total}, golden {sum}");
    for i in 0..THETA.len() {
        let host = host_loss(objective, i, THETA[i], ess, sequence);
        assert!((f64::from(values[i]) - host).abs() < 1e-4, "{objective:?}: token {i}");
        let slope = (host_loss(objective, i, THETA[i] + 1e-6, ess, sequence)
            - host_loss(objective, i, THETA[i] - 1e-6, ess, sequence))
            / 2e-6;
        for (name, expected) in [("golden", gradient[i]), ("numerical", slope)] {
            let found = f64::from(found[i]);
            assert!(
                (found - expected).abs() < 1e-4,
                "{objective:?}: gradient of token {i} is {found}, {name} {expected}"
            );
        }
    }
}

#[test]
fn clip_cuts_only_towards_its_advantage() {
    let gradient = [-1.105171, -0.904837, 1.349859, 0.0];
    check(Objective::default(), &[0.0; 4], 0.1398504715, gradient);
}

#[test]
fn dual_clip_cuts_a_ratio_that_ran_away_from_a_negative_advantage() {
    let dual = |dual| Objective::Clip { low: 0.2, high: 0.28, dual: Some(dual) };
    // No ratio of the golden vectors is over 3; the third is over 1.2.
    check(dual(3.0), &[0.0; 4], 0.1398504715, [-1.105171, -0.904837, 1.349859, 0.0]);
    check(dual(1.2), &[0.0; 4], 0.1398504715 - 1.349859 + 1.2, [-1.105171, -0.904837, 0.0, 0.0]);
}

#[test]
fn cispo_keeps_every_gradient() {
    let gradient = [-1.105171, -0.904837, 1.349859, 0.272532];
    check(Objective::Cispo { cap: 4.0 }, &[0.0; 4], 1.4910924510, gradient);
}

#[test]
fn p3o_caps_ratios_at_the_effective_sample_size() {
    let gradient = [-0.822520, -0.854986, 0.879945, -0.160049];
    check(Objective::P3o, &[0.0; 4], 1.4760794764, gradient);
}

#[test]
fn dppo_drops_by_probability_not_by_ratio() {
    let drift = |log_ratio: f64| 2e-3 * log_ratio;
    let gradient = [-1.105171 + drift(0.1), -0.904837 + drift(-0.1), 1.349859 + drift(0.3), drift(-1.3)];
    check(Objective::Dppo { bound: 0.2, tau: 1e-3 }, &[0.0; 4], -0.6583495285, gradient);
}

#[test]
fn gspo_uses_the_ratio_of_the_sequence() {
    // Tokens (1,2) and (3,4) are two sequences with ratios 1 and exp(−0.5); wide bounds leave
    // both free, the default bounds cut the second.
    let sequence = [0.0, 0.0, -0.5, -0.5];
    let free = [-1.0, -1.0, 0.6065307, 0.6065307];
    check(Objective::Gspo { low: 0.5, high: 0.5 }, &sequence, -2.0 + 2.0 * 0.6065307, free);
    let cut = [-1.0, -1.0, 0.0, 0.0];
    check(Objective::Gspo { low: 3e-4, high: 4e-4 }, &sequence, -2.0 + 2.0 * 0.9997, cut);
}

#[test]
fn effective_sample_size_matches_its_golden_values() {
    for (log_ratios, expected) in [
        (log_ratios(), 0.8379420335),
        (vec![3f64.ln(); 5], 1.0),
        (vec![0.0; 3], 1.0),
        (vec![], 1.0),
        (vec![15.0, 0.0, 0.0, 0.0], 0.25),
        (vec![f64::NAN, 0.0], 1.0),
    ] {
        let found = effective_sample_size(log_ratios.clone());
        assert!((found - expected).abs() < 1e-5, "{log_ratios:?}: {found}, expected {expected}");
    }
}

#[test]
fn one_huge_ratio_leaves_the_loss_finite() {
    let device = Device::flex();
    for objective in [
        Objective::default(),
        Objective::Gspo { low: 3e-4, high: 4e-4 },
        Objective::Cispo { cap: 4.0 },
        Objective::Dppo { bound: 0.2, tau: 1e-3 },
        Objective::P3o,
    ] {
        let old = [-90.0, -0.1, -60.0, -1.2];
        let theta = [-0.1, -90.0, -0.1, -1.2];
        let log_ratios = theta.iter().zip(old).map(|(theta, old)| theta - old);
        let rows = Rows {
            old: tensor(&old, &device),
            advantage: tensor(&ADVANTAGE, &device),
            sequence_log_ratio: Some(tensor(&[30.0, -30.0, 0.0, 0.0], &device)),
            effective_sample_size: effective_sample_size(log_ratios) as f32,
        };
        let theta = tensor(&theta, &device).autodiff().require_grad();
        let loss = objective.token_loss(theta.clone(), &rows).loss.sum();
        let value: f32 = loss.clone().inner().into_scalar();
        let grads = loss.backward();
        let gradient: Vec<f32> = theta.grad(&grads).unwrap().into_data().try_into_vec().unwrap();
        assert!(value.is_finite(), "{objective:?}: {value}");
        assert!(gradient.iter().all(|value| value.is_finite()), "{objective:?}: {gradient:?}");
    }
}

fn check_advantages(rewards: &[f32], kind: AdvantageKind, success: f64, failure: f64, counted: bool) {
    let found = group_advantages(rewards, kind);
    assert_eq!(found.counted, counted, "{rewards:?} {kind:?}");
    for (reward, value) in rewards.iter().zip(&found.values) {
        let expected = if *reward > 0.5 { success } else { failure };
        assert!((f64::from(*value) - expected).abs() < 1e-4, "{rewards:?} {kind:?}: {value}");
    }
}

#[test]
fn advantages_match_their_golden_values() {
    use AdvantageKind::*;
    let group = |successes: usize| (0..8).map(|i| f32::from(i < successes)).collect::<Vec<_>>();
    for (successes, kind, success, failure) in [
        (1, Centred, 0.875, -0.125),
        (4, Centred, 0.5, -0.5),
        (7, Centred, 0.125, -0.875),
        (1, Std, 2.4749, -0.35355),
        (4, Std, 0.9354, -0.9354),
        (7, Std, 0.35355, -2.4749),
        (1, LeaveOneOut, 1.0, -0.142857),
        (4, LeaveOneOut, 0.571429, -0.571429),
        (7, LeaveOneOut, 0.142857, -1.0),
    ] {
        check_advantages(&group(successes), kind, success, failure, true);
    }
}

#[test]
fn episodes_that_were_kept_are_measured_against_all_that_were_drawn() {
    let check = |kept: &[f32], drawn: &[f32], expected: Option<&[f32]>| {
        let found = pooled_advantages(kept, drawn);
        assert_eq!(found.counted, expected.is_some(), "{kept:?} of {drawn:?}");
        assert_eq!(found.values, expected.map_or(vec![0.0; kept.len()], <[f32]>::to_vec));
    };
    // 16 were drawn until two succeeded: the kept half would hide how rare that is.
    let drawn = [[1.0; 2].as_slice(), [0.0; 14].as_slice()].concat();
    check(&[1.0, 1.0, 0.0, 0.0], &drawn, Some(&[0.875, 0.875, -0.125, -0.125]));
    check(&[1.0, 1.0], &drawn, Some(&[0.875, 0.875]));
    check(&[1.0], &[1.0], None);
    check(&[0.0, 0.0], &[0.0, 0.0, 0.0], None);
    check(&[], &[0.0, 1.0], None);
    check(&[1.0], &[f32::NAN, 1.0], None);
}

#[test]
fn a_group_that_teaches_nothing_has_no_advantage() {
    use AdvantageKind::*;
    for kind in [Centred, Std, LeaveOneOut] {
        for rewards in [vec![], vec![1.0], vec![0.0], vec![1.0; 8], vec![0.0; 8], vec![1.0, f32::NAN]] {
            check_advantages(&rewards, kind, 0.0, 0.0, false);
        }
    }
}

#[test]
fn the_denominator_counts_only_what_is_trained() {
    check_denominators(&[(1.0, 1.0, 10), (0.5, 1.0, 20), (0.0, 1.0, 7), (1.0, 1.0, 0)], 20.0, 150.0);
    check_denominators(&[], 0.0, 0.0);
    check_denominators(&[(0.0, 1.0, 5)], 0.0, 0.0);
}

/// Of (weight, share, trained tokens), with 100 tokens an episode.
fn check_denominators(samples: &[(f32, f32, usize)], token_mean: f64, constant: f64) {
    let counted = || {
        samples.iter().map(|(weight, share, tokens)| Counted {
            weight: *weight,
            share: *share,
            tokens: *tokens,
        })
    };
    for (kind, expected) in
        [(Aggregation::TokenMean, token_mean), (Aggregation::Constant { tokens: 100.0 }, constant)]
    {
        let found = kind.denominator(counted());
        assert!((found - expected).abs() < 1e-4, "{kind:?} of {samples:?}: {found}, expected {expected}");
    }
}

/// By hand: what a weight adds above the line it adds below it, under every aggregation.
#[test]
fn a_weight_counts_in_the_denominator_as_often_as_in_the_loss() {
    // A sample of weight 2 is the sample twice.
    check_denominators(&[(2.0, 1.0, 10), (1.0, 1.0, 30)], 50.0, 300.0);
    check_denominators(&[(1.0, 1.0, 10), (1.0, 1.0, 10), (1.0, 1.0, 30)], 50.0, 300.0);
    // A top-up of 12 with one success, of which 1 + 7 are kept: the 8 stand for all 12.
    let mut kept = vec![(1.0, 1.0, 4)];
    kept.extend([(11.0 / 7.0, 1.0, 14); 7]);
    check_denominators(&kept, 4.0 + 11.0 * 14.0, 1200.0);
    // An episode of three samples is one episode, with its weight.
    check_denominators(&[(1.0, 1.0, 60), (1.0, 1.0, 40)], 100.0, 200.0);
    let third = 1.0 / 3.0;
    check_denominators(&[(1.0, third, 10), (1.0, third, 20), (1.0, third, 30), (1.0, 1.0, 40)], 100.0, 200.0);
    check_denominators(&[(1.5, 0.5, 10), (1.5, 0.5, 20), (1.0, 1.0, 40)], 85.0, 250.0);
}

#[test]
fn objectives_are_read_from_configuration_with_their_defaults() {
    let read = |text: &str| serde_json::from_str::<Objective>(text);
    assert_eq!(read(r#"{"kind":"clip"}"#).unwrap(), Objective::default());
    assert_eq!(read(r#"{"kind":"p3o"}"#).unwrap(), Objective::P3o);
    assert_eq!(read(r#"{"kind":"cispo","cap":5}"#).unwrap(), Objective::Cispo { cap: 5.0 });
    assert!(read(r#"{"kind":"clip","hihg":0.3}"#).is_err(), "a misspelt key must not be ignored");
    assert!(read(r#"{"kind":"sapo"}"#).is_err());
}
