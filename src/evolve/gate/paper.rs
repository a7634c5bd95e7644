//! What does the paper's literal rule say?

use serde::{Deserialize, Serialize};

use super::config::{Claim, TrainableIndicator};
use super::counts::PairedTask;

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Accept,
    Reject,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Reject => "reject",
        }
    }
}

/// What the paper's literal rule says, with the rates it looked at.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaperVerdict {
    pub verdict: Verdict,
    pub pass_incumbent: f64,
    pub pass_candidate: f64,
    pub trainable_incumbent: f64,
    pub trainable_candidate: f64,
}

/// The literal rule: observed pass rate or trainable rate up, neither down; for a removal, neither down. The
/// trainable rate is the share of groups with mixed outcomes.
pub(super) fn paper_verdict(tasks: &[PairedTask], claim: Claim) -> PaperVerdict {
    let mean = |f: &dyn Fn(&PairedTask) -> f64| {
        if tasks.is_empty() { 0.0 } else { tasks.iter().map(f).sum::<f64>() / tasks.len() as f64 }
    };
    let mixed = TrainableIndicator::Mixed;
    let pass_incumbent = mean(&|t| t.incumbent.share());
    let pass_candidate = mean(&|t| t.candidate.share());
    let trainable_incumbent = mean(&|t| t.incumbent.trainable(mixed));
    let trainable_candidate = mean(&|t| t.candidate.trainable(mixed));
    let none_down = pass_candidate >= pass_incumbent && trainable_candidate >= trainable_incumbent;
    let one_up = pass_candidate > pass_incumbent || trainable_candidate > trainable_incumbent;
    let verdict =
        if none_down && (one_up || claim == Claim::NotLower) { Verdict::Accept } else { Verdict::Reject };
    PaperVerdict { verdict, pass_incumbent, pass_candidate, trainable_incumbent, trainable_candidate }
}
