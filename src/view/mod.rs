//! What does a person see of a run? Progress while it works, the report after.

mod change;
mod dump;
mod lineage;
mod progress;
mod report;
mod stats;
mod status;
mod tensorboard;
mod watched;

pub use change::first_change;
pub use dump::dump;
pub use lineage::lineage;
pub use progress::{Progress, printable};
pub use report::report;
pub use stats::{Snapshot, Stats};
pub use status::{Disk, bytes, status, told};
pub use tensorboard::EventLog;
pub use watched::Watched;
