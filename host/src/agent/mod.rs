//! The turn loop: how does one episode go from an instruction to a patch?

mod record;

pub use record::{CallRecord, EpisodeRecord, Exit, InvalidCause, Outcome, Segment, TurnRecord};
