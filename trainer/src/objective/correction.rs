//! How is a token weighted whose sampler computed another probability than the trainer?

use serde::{Deserialize, Serialize};

use super::LOG_RATIO_LIMIT;

/// The weight `w` of a token's loss, from `d = ℓ_old − ℓ_sampler`; it carries no gradient.
///
/// The forms over a sequence take the geometric mean: a product grows with the length, and a bound on it
/// throws away the long sequences.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Correction {
    /// `w = 1`.
    Off,
    /// `w = min(exp(d), cap)`: truncated importance sampling.
    Token { cap: f32 },
    /// `w = min(exp(mean d), cap)`, the mean over the trained tokens of the sample.
    Sequence { cap: f32 },
    /// `w = exp(d)` inside the band, 0 outside (IcePop).
    TokenMask { low: f32, high: f32 },
    /// `w = 1` for samples with `exp(mean d)` inside the band, 0 for others.
    SequenceMask { low: f32, high: f32 },
}

impl Default for Correction {
    fn default() -> Self {
        Self::Token { cap: 2.0 }
    }
}

impl Correction {
    /// The weight of a token with this difference, in a sample with this mean difference.
    pub fn weight(&self, token: f64, mean: f64) -> f32 {
        let limit = f64::from(LOG_RATIO_LIMIT);
        let ratio = |d: f64| d.clamp(-limit, limit).exp() as f32;
        match *self {
            Self::Off => 1.0,
            Self::Token { cap } => ratio(token).min(cap),
            Self::Sequence { cap } => ratio(mean).min(cap),
            Self::TokenMask { low, high } => {
                let ratio = ratio(token);
                if (low..=high).contains(&ratio) { ratio } else { 0.0 }
            }
            Self::SequenceMask { low, high } => f32::from((low..=high).contains(&ratio(mean))),
        }
    }

    /// What cannot work, as the setting's name and value.
    pub(crate) fn fault(&self) -> Option<(&'static str, f64)> {
        match *self {
            Self::Off => None,
            Self::Token { cap } | Self::Sequence { cap } => {
                (!(cap.is_finite() && cap > 0.0)).then_some(("correction.cap", f64::from(cap)))
            }
            Self::TokenMask { low, high } | Self::SequenceMask { low, high } => {
                if !(low.is_finite() && low >= 0.0) {
                    return Some(("correction.low", f64::from(low)));
                }
                (!(high.is_finite() && high > low)).then_some(("correction.high", f64::from(high)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ℓ_old − ℓ_sampler of the golden vectors, two sequences of two tokens.
    const APART: [f64; 4] = [0.1, 0.9, 0.0, 0.05];
    const MEANS: [f64; 4] = [0.5, 0.5, 0.025, 0.025];

    fn check(correction: Correction, expected: [f32; 4]) {
        for (token, expected) in expected.into_iter().enumerate() {
            let found = correction.weight(APART[token], MEANS[token]);
            assert!(
                (found - expected).abs() < 1e-5,
                "{correction:?}, token {token}: {found}, not {expected}"
            );
        }
    }

    #[test]
    fn weights_match_their_golden_values() {
        check(Correction::Off, [1.0; 4]);
        check(Correction::Token { cap: 2.0 }, [1.105171, 2.0, 1.0, 1.051271]);
        check(Correction::Sequence { cap: 1.5 }, [1.5, 1.5, 1.025315, 1.025315]);
        check(Correction::TokenMask { low: 0.5, high: 2.0 }, [1.105171, 0.0, 1.0, 1.051271]);
        check(Correction::SequenceMask { low: 0.9, high: 1.1 }, [0.0, 0.0, 1.0, 1.0]);
    }

    #[test]
    fn a_difference_without_bound_gives_a_weight_with_one() {
        assert_eq!(Correction::default().weight(1e30, 1e30), 2.0);
        assert!(Correction::TokenMask { low: 0.0, high: 1e30 }.weight(1e30, 0.0).is_finite());
        assert_eq!(Correction::default().weight(f64::NEG_INFINITY, 0.0), (-20f64).exp() as f32);
    }

    #[test]
    fn bounds_that_cannot_work_are_named() {
        assert_eq!(Correction::default().fault(), None);
        assert_eq!(Correction::Token { cap: 0.0 }.fault(), Some(("correction.cap", 0.0)));
        assert_eq!(Correction::TokenMask { low: 2.0, high: 1.0 }.fault(), Some(("correction.high", 1.0)));
    }
}
