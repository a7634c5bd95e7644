//! The turn loop: how does one episode go from an instruction to a patch?
//!
//! A faithful mini-SWE-agent with the hook points of the contract above its
//! control flow. What this room deliberately does not do: it decides nothing
//! about plugins (the room `harness` does), and never shows a verdict to a hook
//! or to the policy.

mod actions;
mod branch;
mod budget;
mod cancel;
mod episode;
pub mod export;
mod hand_in;
mod history;
#[cfg(test)]
mod limit_tests;
mod observation;
mod prompt_check;
mod prompt_language;
mod prompts;
mod record;
mod repetition;
mod replay;
#[cfg(test)]
mod rules;
mod segments;
mod shell;
mod spent;
mod talk;
#[cfg(test)]
mod testkit;
#[cfg(test)]
mod tests;
mod turns;

pub use actions::text_call;
pub use branch::{Branch, NoSuchTurn};
pub use cancel::Cancel;
pub use episode::{EpisodeSpec, run_episode};
pub use observation::SENTINEL;
pub use prompt_check::{RenderedPrompts, check_prompts, render_prompts};
pub use prompt_language::{HARNESS_LANGUAGE, PromptLanguage, PromptTag};
pub use prompts::TemplateError;
pub use record::{CallRecord, Condensed, EpisodeRecord, Exit, InvalidCause, Outcome, Segment, TurnRecord};
pub use repetition::Detector;
pub use replay::{Changes, replay, skill_of};
pub use spent::{Money, Spent, money};
