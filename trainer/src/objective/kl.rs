//! How far is the policy from a reference, as a penalty on a sampled token?

use burn::prelude::*;
use serde::{Deserialize, Serialize};

use super::LOG_RATIO_LIMIT;

/// An estimate of KL(θ‖reference) from one sampled token, with `d = ℓ_reference − ℓ_θ`
/// (Schulman 2020, "Approximating KL divergence").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KlEstimator {
    /// `−d`: unbiased as a value; as a loss its gradient has mean 0 and pulls nowhere.
    K1,
    /// `½ d²`: its gradient is that of the divergence on fresh samples.
    K2,
    /// `e^d − d − 1`: never negative, of small variance.
    #[default]
    K3,
}

/// The penalty that is added to each token's loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KlPenalty {
    /// 0 is no penalty, and then no reference is needed.
    pub coefficient: f32,
    pub estimator: KlEstimator,
}

impl KlPenalty {
    /// Whether samples must carry the reference's log-probabilities.
    pub fn is_on(&self) -> bool {
        self.coefficient > 0.0
    }

    /// `[n]`, differentiable in `logp`. Differences are clamped to ±20.
    pub fn of(&self, logp: Tensor<1>, reference: Tensor<1>) -> Tensor<1> {
        let apart = (reference - logp).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT);
        let estimate = match self.estimator {
            KlEstimator::K1 => apart.neg(),
            KlEstimator::K2 => apart.square().mul_scalar(0.5),
            KlEstimator::K3 => (apart.clone().exp() - apart).sub_scalar(1.0),
        };
        estimate.mul_scalar(self.coefficient)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(estimator: KlEstimator, expected: [f32; 4]) {
        let device = Device::flex();
        let tensor = |values: [f32; 4]| Tensor::<1>::from_data(TensorData::from(values), &device);
        let (theta, reference) = ([-0.9, -1.6, -0.2, -2.5], [-1.0, -1.5, -0.5, -1.2]);
        let penalty = KlPenalty { coefficient: 2.0, estimator };
        let found: Vec<f32> =
            penalty.of(tensor(theta), tensor(reference)).into_data().try_into_vec().unwrap();
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - 2.0 * expected).abs() < 1e-5, "{estimator:?}: {found}, not twice {expected}");
        }
    }

    #[test]
    fn estimates_match_their_golden_values() {
        check(KlEstimator::K1, [0.1, -0.1, 0.3, -1.3]);
        check(KlEstimator::K2, [0.005, 0.005, 0.045, 0.845]);
        check(KlEstimator::K3, [0.004837, 0.005171, 0.040818, 1.369297]);
    }

    #[test]
    fn a_token_that_the_reference_never_says_leaves_the_loss_finite() {
        let device = Device::flex();
        let of = |value: f32| Tensor::<1>::from_data(TensorData::from([value]), &device);
        for estimator in [KlEstimator::K1, KlEstimator::K2, KlEstimator::K3] {
            let penalty = KlPenalty { coefficient: 1.0, estimator };
            for (theta, reference) in [(-0.1, -1e30), (-1e30, -0.1)] {
                let value: f32 = penalty.of(of(theta), of(reference)).into_scalar();
                assert!(value.is_finite(), "{estimator:?}");
            }
        }
    }
}
