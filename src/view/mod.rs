//! What does a person see of a run? Progress while it works, the report after.

mod progress;
mod report;
mod stats;
#[cfg(feature = "train")]
mod tensorboard;

pub use progress::Progress;
pub use report::report;
pub use stats::{Snapshot, Stats};
#[cfg(feature = "train")]
pub use tensorboard::EventLog;
