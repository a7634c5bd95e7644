//! The teacher of skills: a short text for one task, at the level of the mechanism,
//! that gives nothing of the solution away. Training only; no skill is in a pair.

use serde::{Deserialize, Serialize};
use tandem_host::store::Digest;

use super::ask::{ExchangeLog, Teacher, TeacherError};
use super::config::TeacherConfig;
use super::evidence::Evidence;
use super::harness::unmarked;
use super::leaks::TaskSecrets;
use super::prompts::{Prompt, Prompts};
use super::repair::{Exchange, unrendered};
use super::reply::{self, ReplyFault};
use super::request::{TeacherReply, TeacherRequest, TeacherRole};
use super::tokens::estimate;

/// Most tokens of a skill, by an upper estimate.
pub const SKILL_TOKENS: usize = 400;

/// A skill for one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    pub task: String,
    /// One sentence: what causes this class of failure.
    pub mechanism: String,
    /// One sentence: how the agent notices that it happens.
    pub check: String,
    /// The note as the agent reads it.
    pub text: String,
}

impl Skill {
    /// SHA-256 of the text, which is all that an episode sees of it.
    pub fn digest(&self) -> Digest {
        Digest::of(self.text.as_bytes())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SkillManifest {
    mechanism: String,
    check: String,
}

/// What a request is written from.
pub struct SkillBrief<'a> {
    pub task: &'a str,
    pub instruction: &'a str,
    pub evidence: &'a Evidence,
    /// Attempts with a verdict, and those that failed.
    pub episodes: usize,
    pub failed: usize,
}

/// Writes requests and reads replies.
pub struct SkillTeacher {
    prompts: Prompts,
    evidence_tokens: usize,
    repairs: u32,
}

/// What came of asking for a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillAsked {
    /// The skill and the place of the exchange that it came from; none when no reply was usable.
    pub skill: Option<(Skill, String)>,
    /// What was wrong in each round that was not usable.
    pub reasons: Vec<String>,
}

/// Tokens of one reason that goes back.
const REASON_TOKENS: usize = 500;

const MANIFEST_HELP: &str = "its keys are `mechanism` and `check`, one sentence each";

impl SkillTeacher {
    /// # Errors
    /// Prompt files that cannot be used, in one sentence with its help.
    pub fn open(config: &TeacherConfig) -> Result<Self, String> {
        Ok(Self {
            prompts: Prompts::open(config.prompts.as_deref())?,
            evidence_tokens: config.evidence_tokens,
            repairs: config.repairs,
        })
    }

    pub fn request(&self, brief: &SkillBrief<'_>) -> Result<TeacherRequest, String> {
        let context = minijinja::context! {
            instruction => unmarked(brief.instruction),
            episodes => brief.episodes,
            failed => brief.failed,
            evidence => unmarked(&brief.evidence.render(self.evidence_tokens, &[])),
        };
        let limits = minijinja::context! { max_tokens => SKILL_TOKENS };
        Ok(TeacherRequest {
            role: TeacherRole::Skill,
            system: self.prompts.render(Prompt::SkillSystem, limits)?,
            user: self.prompts.render(Prompt::SkillUser, context)?,
            repairs: Vec::new(),
        })
    }

    /// Asks, and lets the teacher mend what is not usable. `place` names the exchanges in the run's record.
    ///
    /// # Errors
    /// No reply within the budget, and trouble of this machine.
    pub async fn ask(
        &self,
        teacher: &Teacher,
        place: &str,
        brief: &SkillBrief<'_>,
        secrets: &TaskSecrets,
        log: &dyn ExchangeLog,
    ) -> Result<SkillAsked, TeacherError> {
        let request = self.request(brief).map_err(unrendered)?;
        let (prompts, repairs) = (&self.prompts, self.repairs);
        let exchange = Exchange { teacher, place, log, prompts, repairs, reason_tokens: REASON_TOKENS };
        let read = async |reply: &TeacherReply, place: &str| {
            Ok(self.read(reply, brief.task, secrets).map(|skill| (skill, place.to_owned())))
        };
        let (skill, reasons) = exchange.until_usable(request, read).await?;
        Ok(SkillAsked { skill, reasons })
    }

    /// Reads a reply and holds it against what the task hides. The error goes back to the teacher.
    pub fn read(&self, reply: &TeacherReply, task: &str, secrets: &TaskSecrets) -> Result<Skill, String> {
        let skill = parse(reply, task).map_err(|fault| fault.to_string())?;
        for part in [&skill.mechanism, &skill.check, &skill.text] {
            if let Some(leak) = secrets.find(part) {
                return Err(leak.to_string());
            }
        }
        Ok(skill)
    }
}

fn parse(reply: &TeacherReply, task: &str) -> Result<Skill, ReplyFault> {
    let blocks = reply::usable_blocks(reply)?;
    let is_note =
        |block: &reply::Block| matches!(block.language.as_str(), "markdown" | "md" | "text" | "txt");
    if let Some(block) = blocks.iter().find(|block| !reply::is_manifest(block) && !is_note(block)) {
        let known = "markdown".to_owned();
        return Err(match block.language.is_empty() {
            true => ReplyFault::Unnamed { known },
            false => ReplyFault::Language { language: block.language.clone(), known },
        });
    }
    let help = format!("write the manifest as ```toml: {MANIFEST_HELP}");
    let manifest = reply::only(&blocks, "manifest", &help, reply::is_manifest)?;
    let note = reply::only(&blocks, "markdown", "write the note as ```markdown", is_note)?;
    let manifest: SkillManifest = reply::manifest(manifest, MANIFEST_HELP)?;
    reply::sentence("mechanism", &manifest.mechanism)?;
    reply::sentence("check", &manifest.check)?;
    let text = note.text.trim().to_owned();
    if text.is_empty() {
        return Err(ReplyFault::Missing { wanted: "markdown", help: "write the note into it".into() });
    }
    let size = estimate(&text);
    if size > SKILL_TOKENS {
        return Err(ReplyFault::TooLong { what: "skill", size, unit: "tokens", limit: SKILL_TOKENS });
    }
    Ok(Skill {
        task: task.to_owned(),
        mechanism: manifest.mechanism.trim().to_owned(),
        check: manifest.check.trim().to_owned(),
        text,
    })
}
