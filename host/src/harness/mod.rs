//! Which plugins serve an episode, in which order, and what did they do?

mod cut;
mod diff;
#[cfg(test)]
mod diff_tests;
mod diff_words;
mod effects;
mod error;
mod facts;
#[cfg(test)]
mod fuzz;
mod generation;
mod home;
#[cfg(test)]
mod home_tests;
mod hooks;
mod ledger;
mod lines;
mod lint;
mod manifest;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod swap_tests;
#[cfg(test)]
mod testkit;
#[cfg(test)]
mod tests;
mod utc;

pub use cut::cut;
pub use diff::{Change, HarnessDiff, Side};
pub use effects::{
    Budget, Context, Effect, EffectKind, Fault, FormatError, HookPoint, LimitKind, PatchCandidate,
    PatchSource, Repetition, Submission, ToolResult, ToolStatus, Usage, WorkTree,
};
pub use error::HarnessError;
pub use facts::PluginFacts;
pub use generation::{Generation, Generations, Lease};
pub use home::{HarnessHome, HomeError};
pub use hooks::{EpisodeHooks, ModelCallEffect, SubmitEffect, ToolCallEffect};
pub use ledger::{Appended, Base, Ledger, LedgerEntry, NewEntry, PublicationKind};
pub use lines::LineChange;
pub use lint::{Warning, lint};
pub use manifest::{
    CONTRACT, Condense, FINISH, HandIn, HarnessManifest, Limits, PluginEntry, Prompts, Protocol, Shell,
    canonical_json,
};
pub use utc::{rfc3339, utc_now};

pub use crate::plugin::ToolDefinition;
