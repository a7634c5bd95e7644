//! Who writes plugins and skills, and how is one asked? The public face of the teachers.
//!
//! What this room deliberately does not do: it sees no test, no reference patch
//! and no output of a verifier, and it decides nothing about a candidate beyond
//! whether its reply can be used; the gate does.

mod anthropic;
mod ask;
mod backend;
mod config;
mod draft;
mod evidence;
mod harness;
mod http;
mod languages;
mod leaks;
mod openai;
mod own_policy;
mod program;
mod prompts;
mod recorded;
mod repair;
mod reply;
mod request;
mod skill;
mod sse;
#[cfg(test)]
mod tests;
mod tokens;
mod wire;

pub use ask::{ExchangeLog, Spent, Teacher, TeacherError, TryBegun, TryEnded, TryOutcome};
pub use config::{TeacherConfig, TeachersConfig};
pub use evidence::Evidence;
pub use harness::{HarnessBrief, HarnessTeacher, Idea, Judge, Rules};
pub use leaks::{SearchSetNames, TaskSecrets};
pub use prompts::PluginText;
pub use request::{TeacherReply, TeacherRequest, TeacherRole};
pub use skill::{Skill, SkillAsked, SkillBrief, SkillTeacher};
