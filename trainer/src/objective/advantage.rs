//! How much better was each member of a group than its group?

use serde::{Deserialize, Serialize};

/// How the rewards of a group become advantages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdvantageKind {
    /// `R − mean(R)` ("Understanding R1-Zero-Like Training", Dr. GRPO): no bias towards tasks
    /// that are almost always, or almost never, solved.
    #[default]
    Centred,
    /// `(R − mean(R)) / std(R)` with the sample standard deviation (GRPO as first published).
    Std,
    /// `(R − mean(R)) · G / (G − 1)`: each member against the mean of the others (RLOO).
    LeaveOneOut,
}

/// The advantages of one group, in the order of its rewards.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupAdvantages {
    /// One advantage for each valid member; all of its tokens share it.
    pub values: Vec<f32>,
    /// False when the group teaches nothing (fewer than two members, or all rewards the same):
    /// its members must then stay out of the batch, and so out of the denominator.
    pub counted: bool,
}

/// The advantages of one group from the rewards of its *valid* members.
///
/// An invalid episode (infrastructure trouble) must not be passed in: it is no part of the mean.
/// A group of one has advantage 0; so has one whose rewards do not differ, or are not finite.
pub fn group_advantages(rewards: &[f32], kind: AdvantageKind) -> GroupAdvantages {
    let size = rewards.len() as f64;
    let uniform = rewards.iter().all(|reward| *reward == rewards[0]);
    if rewards.len() < 2 || uniform || rewards.iter().any(|reward| !reward.is_finite()) {
        return GroupAdvantages { values: vec![0.0; rewards.len()], counted: false };
    }
    let mean = rewards.iter().map(|reward| f64::from(*reward)).sum::<f64>() / size;
    let squares: f64 = rewards.iter().map(|reward| (f64::from(*reward) - mean).powi(2)).sum();
    let scale = match kind {
        AdvantageKind::Centred => 1.0,
        AdvantageKind::Std => 1.0 / (squares / (size - 1.0)).sqrt(),
        AdvantageKind::LeaveOneOut => size / (size - 1.0),
    };
    let values = rewards.iter().map(|reward| ((f64::from(*reward) - mean) * scale) as f32).collect();
    GroupAdvantages { values, counted: true }
}

/// The advantages of the episodes that were kept of a task when more were drawn: `R − mean(drawn)`, the
/// mean over all valid episodes of the task (Reinforce-Ada's global baseline). Which ones are kept depends
/// on their outcomes, so the mean of the kept alone would be biased.
///
/// Counted when the drawn rewards differ; the advantages need not add up to 0.
pub fn pooled_advantages(kept: &[f32], drawn: &[f32]) -> GroupAdvantages {
    if kept.is_empty() || !group_advantages(drawn, AdvantageKind::Centred).counted {
        return GroupAdvantages { values: vec![0.0; kept.len()], counted: false };
    }
    let mean = drawn.iter().map(|reward| f64::from(*reward)).sum::<f64>() / drawn.len() as f64;
    let values = kept.iter().map(|reward| (f64::from(*reward) - mean) as f32).collect();
    GroupAdvantages { values, counted: true }
}
