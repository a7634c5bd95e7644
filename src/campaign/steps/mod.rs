//! The steps that methods are made of: each reads from the run record what is done, and does only the rest.

mod collect;
mod confirm;
mod episodes;
mod evaluate;
mod gate;
mod holdout;
mod propose;
mod removal;
mod screen;
mod skills;
mod ties;
mod update;

pub use episodes::{Label, Numbered, in_order, number_of};
pub use gate::{Asked, Gated, Seeds};
pub use holdout::{HoldoutReport, PHASE as HOLDOUT};
pub use screen::{Contender, Look, ScreenReport, contender, passed_over, ranked};
pub use skills::SkillsReport;
