//! In which number format does a policy compute?

use std::fmt;
use std::str::FromStr;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{DType, Device, Tensor};
use serde::{Deserialize, Serialize};

use super::CausalLm;

/// The format of weights and activations. Norms, softmax, rotations, logits and losses are
/// computed in f32 either way, and the optimizer keeps what it trains in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComputeType {
    F32,
    /// Half the memory; on a GPU several times as fast. On the CPU it is emulated and slow.
    Bf16,
}

impl ComputeType {
    /// What suits a device: f32 on the CPU, bf16 on a GPU.
    pub fn usual(device: &Device) -> Self {
        if device.clone().inner() == Device::flex() { Self::F32 } else { Self::Bf16 }
    }

    pub(crate) fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
        }
    }
}

impl fmt::Display for ComputeType {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        })
    }
}

impl FromStr for ComputeType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "f32" => Ok(Self::F32),
            "bf16" => Ok(Self::Bf16),
            other => Err(format!("`{other}` is not a number format; `f32` and `bf16` are")),
        }
    }
}

impl CausalLm {
    /// The format that it computes in.
    pub fn compute_type(&self) -> ComputeType {
        match self.embedding.val().dtype() {
            DType::BF16 => ComputeType::Bf16,
            _ => ComputeType::F32,
        }
    }

    /// The same policy with its weights, and so its activations, in another format. What was
    /// trained keeps being trained.
    pub fn computing_in(self, compute: ComputeType) -> Self {
        if self.compute_type() == compute { self } else { self.map(&mut Cast(compute.dtype())) }
    }
}

struct Cast(DType);

impl ModuleMapper for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| match tensor.is_autodiff() {
            true => {
                let trained = tensor.is_require_grad();
                tensor.inner().cast(self.0).autodiff().set_require_grad(trained)
            }
            false => tensor.cast(self.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Int, TensorData};

    use super::*;
    use crate::learner::{Learner, LearnerConfig, Sample};
    use crate::model::config::tests::tiny_of;
    use crate::model::projection::host;
    use crate::model::{Family, LoraConfig};

    fn logits(model: &CausalLm) -> Vec<f32> {
        let ids = TensorData::new(vec![5, 6, 7, 8, 9, 4, 3, 2], [2, 4]);
        let ids: Tensor<2, Int> = Tensor::from_data(ids, &Device::flex());
        let hidden = model.hidden(ids);
        assert_eq!(hidden.dtype(), model.compute_type().dtype());
        host(model.logits(hidden.reshape([8, 24]))).data
    }

    /// The length of the difference over the length of what is right.
    fn distance(found: &[f32], right: &[f32]) -> f32 {
        let length = |values: &mut dyn Iterator<Item = f32>| values.map(|x| x * x).sum::<f32>().sqrt();
        let difference = length(&mut found.iter().zip(right).map(|(found, right)| found - right));
        difference / length(&mut right.iter().copied())
    }

    #[test]
    fn every_family_computes_in_bf16_nearly_what_it_computes_in_f32() {
        for family in Family::ALL {
            let exact = CausalLm::random(tiny_of(family), 3, &Device::flex());
            let narrow = exact.clone().computing_in(ComputeType::Bf16);
            assert_eq!(narrow.compute_type(), ComputeType::Bf16);
            let distance = distance(&logits(&narrow), &logits(&exact));
            // bf16 has 8 bits, so each rounding is up to 0.4 %; 0 would mean that nothing was rounded.
            assert!((1e-4..0.05).contains(&distance), "{family:?}: {distance}");
        }
    }

    #[test]
    fn a_bf16_policy_learns_like_an_f32_one() {
        let sample = |seed: u32| {
            let ids = (0..9).map(|at| (at * 7 + seed * 5) % 50).collect();
            Sample::demonstration(ids, (0..9).map(|at| at > 2).collect())
        };
        let samples: Vec<_> = (0..4).map(sample).collect();
        let lora = LoraConfig { rank: 2, alpha: 4.0, first_layer: 0, ..LoraConfig::default() };
        let base = CausalLm::random(tiny_of(Family::Qwen3), 3, &Device::flex());
        for model in [base.clone(), base.with_lora(lora, 1)] {
            let run = |compute: ComputeType| {
                let config = LearnerConfig { learning_rate: 1e-2, ..LearnerConfig::default() };
                let mut learner = Learner::new(model.clone().computing_in(compute), config).unwrap();
                let reports: Vec<_> = (0..6).map(|_| learner.supervised_step(&samples).unwrap()).collect();
                assert_eq!(learner.model().compute_type(), compute);
                assert!(reports.iter().all(|report| report.skipped.is_none()));
                reports.iter().map(|report| report.loss as f32).collect::<Vec<_>>()
            };
            let (exact, narrow) = (run(ComputeType::F32), run(ComputeType::Bf16));
            assert!(exact[5] < 0.9 * exact[0], "{exact:?}");
            assert!(distance(&narrow, &exact) < 0.05, "{narrow:?} {exact:?}");
        }
    }
}
