//! Is a candidate harness better than the incumbent, or is it luck?
//!
//! Both arms run the same tasks with fresh rollouts at one policy version. The
//! task is the sample: within a task, d = difference of the success share and
//! u = difference of the trainable indicator. Two rules give a verdict on the
//! same data, and both are always recorded:
//!
//! - `paired`: an anytime-valid test by betting. For x in [−1, 1] and the null
//!   E[x | past] ≤ −δ, W_n(x; δ) = mean over λ of Π (1 + λ (x_t + δ)) is a
//!   non-negative supermartingale, so P(sup W ≥ 1/α) ≤ α under any stopping rule
//!   (Ville; Waudby-Smith and Ramdas, "Estimating means of bounded random
//!   variables by betting", 2010.09686).
//! - `paper`: HarnessAdapt-RL's literal rule, observed pass rate or trainable
//!   rate up and neither down. It has no control of error: a do-nothing edit
//!   passes about one time in three.
//!
//! What the numbers of both rules are: `docs/gates.md`.

mod audit;
mod config;
mod cost;
mod counts;
mod explain;
mod paired;
mod paper;
mod pool;
mod random;
mod report;
mod simulate;
mod wealth;

pub use audit::differences;
pub use config::{Claim, GateConfig, Rule, Spending, as_recorded};
pub use cost::gate_cost;
pub use counts::{ArmCounts, PairedTask};
pub use explain::Explanation;
pub use paired::PairedTest;
pub use paper::Verdict;
pub use pool::Pool;
pub use random::Random;
pub use report::GateReport;
pub use simulate::{Characteristics, Question, simulate};
