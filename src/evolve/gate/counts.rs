//! What did both arms do on one task?

use serde::{Deserialize, Serialize};

use super::config::TrainableIndicator;

/// What one arm did on one task. A rollout without a result counts as a failure,
/// so that a plugin that crashes cannot look good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmCounts {
    pub solved: usize,
    pub rollouts: usize,
}

impl ArmCounts {
    pub(super) fn share(self) -> f64 {
        if self.rollouts == 0 { 0.0 } else { self.solved as f64 / self.rollouts as f64 }
    }

    pub(super) fn trainable(self, indicator: TrainableIndicator) -> f64 {
        let yes = match indicator {
            TrainableIndicator::AnySuccess => self.solved > 0,
            TrainableIndicator::Mixed => self.solved > 0 && self.solved < self.rollouts,
        };
        f64::from(u8::from(yes))
    }
}

/// One task of a gate, in the order drawn before the first rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairedTask {
    pub task: String,
    pub incumbent: ArmCounts,
    pub candidate: ArmCounts,
}

impl PairedTask {
    /// d: candidate minus incumbent, of the share of solved rollouts.
    pub fn gain(&self) -> f64 {
        self.candidate.share() - self.incumbent.share()
    }

    /// u: candidate minus incumbent, of the trainable indicator.
    pub(super) fn trainable_gain(&self, indicator: TrainableIndicator) -> f64 {
        self.candidate.trainable(indicator) - self.incumbent.trainable(indicator)
    }
}

/// A task for tests: solved by each arm, of `rollouts`.
#[cfg(test)]
pub(super) fn task(incumbent: usize, candidate: usize, rollouts: usize) -> PairedTask {
    PairedTask {
        task: "t".into(),
        incumbent: ArmCounts { solved: incumbent, rollouts },
        candidate: ArmCounts { solved: candidate, rollouts },
    }
}
