//! Which tokens may come next under top-k and top-p, and which one of them does?
//!
//! As in `transformers`: first the `k` likeliest tokens, then of those the smallest set whose
//! probabilities, made to add up to 1 again, reach `p` (nucleus sampling, Holtzman et al. 2019,
//! arXiv:1904.09751). Tokens as likely as the last one of a set belong to it, so that no choice
//! depends on an order of equals.

/// A drawn token: its id and the probability it had among those that could be drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Drawn {
    pub id: usize,
    pub probability: f64,
}

/// Draws by `point`, uniform in `[0, 1)`, from `weights` (finite, not negative, one above 0).
/// `top_k` of 0 and `top_p` of 1 take nothing away.
pub(super) fn draw(weights: &[f32], top_k: usize, top_p: f32, point: f64) -> Drawn {
    let least = cutoff(weights, top_k, top_p);
    let kept = |weight: f32| weight > 0.0 && weight >= least;
    let total: f64 = weights.iter().filter(|weight| kept(**weight)).map(|weight| f64::from(*weight)).sum();
    let mut at = point * total;
    let mut last = 0;
    for (id, weight) in weights.iter().enumerate() {
        if !kept(*weight) {
            continue;
        }
        last = id;
        at -= f64::from(*weight);
        if at < 0.0 {
            break;
        }
    }
    Drawn { id: last, probability: f64::from(weights[last]) / total }
}

/// The smallest weight that is kept.
fn cutoff(weights: &[f32], top_k: usize, top_p: f32) -> f32 {
    let mut least = 0.0;
    if top_k > 0 && top_k < weights.len() {
        let mut all = weights.to_vec();
        least = *all.select_nth_unstable_by(top_k - 1, |a, b| b.total_cmp(a)).1;
    }
    if top_p >= 1.0 {
        return least;
    }
    let kept = || weights.iter().copied().filter(|weight| *weight >= least);
    let total: f64 = kept().map(f64::from).sum();
    let wanted = f64::from(top_p) * total;
    // All below an equal share of what may be left out are left out: sorting the rest is cheap.
    let share = (total - wanted) / weights.len() as f64;
    let mut candidates: Vec<f32> = kept().filter(|weight| f64::from(*weight) >= share).collect();
    candidates.sort_unstable_by(|a, b| b.total_cmp(a));
    let mut sum = 0.0;
    for weight in candidates {
        least = weight;
        sum += f64::from(weight);
        if sum >= wanted {
            break;
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half, a quarter, an eighth and two sixteenths, in another order.
    const WEIGHTS: [f32; 5] = [2.0, 8.0, 1.0, 4.0, 1.0];

    /// What can be drawn, with its probability, over a fine grid of points.
    fn check(top_k: usize, top_p: f32, expected: &[(usize, f64)]) {
        let mut found: Vec<(usize, f64, usize)> = Vec::new();
        for step in 0..1000 {
            let drawn = draw(&WEIGHTS, top_k, top_p, f64::from(step) / 1000.0);
            match found.iter_mut().find(|(id, ..)| *id == drawn.id) {
                Some((_, _, count)) => *count += 1,
                None => found.push((drawn.id, drawn.probability, 1)),
            }
        }
        found.sort_by_key(|(id, ..)| *id);
        assert_eq!(found.iter().map(|(id, ..)| *id).collect::<Vec<_>>(), ids(expected), "{top_k} {top_p}");
        for ((_, probability, count), (_, wanted)) in found.iter().zip(expected) {
            assert!((probability - wanted).abs() < 1e-6, "{top_k} {top_p}: {probability} and not {wanted}");
            assert!((*count as f64 / 1000.0 - wanted).abs() < 2e-3, "{top_k} {top_p}: drawn {count} times");
        }
    }

    fn ids(expected: &[(usize, f64)]) -> Vec<usize> {
        expected.iter().map(|(id, _)| *id).collect()
    }

    #[test]
    fn probabilities_are_those_of_what_is_left() {
        let sixteenths =
            [(0, 2.0 / 16.0), (1, 8.0 / 16.0), (2, 1.0 / 16.0), (3, 4.0 / 16.0), (4, 1.0 / 16.0)];
        check(0, 1.0, &sixteenths);
        check(5, 1.0, &sixteenths);
        check(99, 1.0, &sixteenths);
        check(1, 1.0, &[(1, 1.0)]);
        check(2, 1.0, &[(1, 8.0 / 12.0), (3, 4.0 / 12.0)]);
        // Half is reached by the first alone; a little more needs the second.
        check(0, 0.5, &[(1, 1.0)]);
        check(0, 0.51, &[(1, 8.0 / 12.0), (3, 4.0 / 12.0)]);
        check(0, 0.76, &[(0, 2.0 / 14.0), (1, 8.0 / 14.0), (3, 4.0 / 14.0)]);
        check(0, 1e-6, &[(1, 1.0)]);
        // p is a share of what top-k left: 8 of 12 is two thirds.
        check(2, 0.66, &[(1, 1.0)]);
        check(2, 0.67, &[(1, 8.0 / 12.0), (3, 4.0 / 12.0)]);
    }

    #[test]
    fn equals_stay_together() {
        // The fourth of five: both sixteenths are the fourth.
        check(4, 1.0, &[(0, 0.125), (1, 0.5), (2, 0.0625), (3, 0.25), (4, 0.0625)]);
        check(0, 0.9, &[(0, 0.125), (1, 0.5), (2, 0.0625), (3, 0.25), (4, 0.0625)]);
    }

    #[test]
    fn a_token_that_cannot_come_never_does() {
        let weights = [0.0, 1.0, 0.0, f32::MIN_POSITIVE, 0.0];
        for point in [0.0, 0.5, 1.0 - f64::EPSILON] {
            for top_k in [0, 3, 4] {
                assert_eq!(draw(&weights, top_k, 1.0, point).id, 1);
            }
        }
    }
}
