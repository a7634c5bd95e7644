//! What does a person see of a run? Progress while it works, the report after.

mod progress;
mod report;
mod stats;
mod tensorboard;
mod watched;

pub use progress::Progress;
pub use report::report;
pub use stats::{Snapshot, Stats};
pub use tensorboard::EventLog;
pub use watched::Watched;
