//! What is the learning rate at a step?

use serde::{Deserialize, Serialize};

/// What follows the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decay {
    /// The full learning rate to the end.
    #[default]
    Constant,
    /// A straight line to 0 at `total_steps`.
    Linear,
    /// Half a period of a cosine, to 0 at `total_steps` (Loshchilov and Hutter 2017, arXiv:1608.03983).
    Cosine,
}

/// A linear warm-up, then [`Decay`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Schedule {
    /// Steps over which the rate rises from `1/warmup_steps` of the full rate; 0 for none.
    pub warmup_steps: u64,
    /// What follows.
    pub decay: Decay,
    /// The step at which a decay reaches 0; not read by a constant rate.
    pub total_steps: u64,
}

impl Schedule {
    /// The factor on the full learning rate for the step after `done` finished ones, in `[0, 1]`.
    pub fn factor(&self, done: u64) -> f64 {
        if done < self.warmup_steps {
            return (done + 1) as f64 / self.warmup_steps as f64;
        }
        let length = self.total_steps.saturating_sub(self.warmup_steps).max(1) as f64;
        let left = (self.total_steps.saturating_sub(done) as f64 / length).min(1.0);
        match self.decay {
            Decay::Constant => 1.0,
            Decay::Linear => left,
            Decay::Cosine => 0.5 - 0.5 * (std::f64::consts::PI * left).cos(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schedule: Schedule, expected: &[(u64, f64)]) {
        for (done, factor) in expected {
            let found = schedule.factor(*done);
            assert!((found - factor).abs() < 1e-12, "{schedule:?} after {done}: {found}");
        }
    }

    #[test]
    fn a_cosine_falls_slowly_at_both_ends() {
        let schedule = Schedule { warmup_steps: 2, decay: Decay::Cosine, total_steps: 10 };
        let quarter = 0.5 + 0.5 * std::f64::consts::FRAC_1_SQRT_2;
        check(schedule, &[(2, 1.0), (4, quarter), (6, 0.5), (8, 1.0 - quarter), (10, 0.0), (99, 0.0)]);
    }

    #[test]
    fn the_first_step_already_learns() {
        let schedule = Schedule { warmup_steps: 4, ..Schedule::default() };
        check(schedule, &[(0, 0.25), (1, 0.5), (3, 1.0), (4, 1.0), (1000, 1.0)]);
        check(Schedule::default(), &[(0, 1.0), (7, 1.0)]);
    }

    #[test]
    fn a_linear_decay_ends_at_zero_and_stays_there() {
        let schedule = Schedule { warmup_steps: 2, decay: Decay::Linear, total_steps: 6 };
        check(schedule, &[(0, 0.5), (1, 1.0), (2, 1.0), (4, 0.5), (5, 0.25), (6, 0.0), (99, 0.0)]);
        // A total shorter than the warm-up must not divide by zero.
        let short = Schedule { warmup_steps: 3, decay: Decay::Linear, total_steps: 2 };
        check(short, &[(0, 1.0 / 3.0), (3, 0.0)]);
    }
}
