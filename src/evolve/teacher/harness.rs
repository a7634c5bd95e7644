//! The teacher of the harness: from failing evidence to a proposal that can be built and that admission
//! let in, or to the reasons why there is none.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde::Serialize;
use tandem_host::forge::Language;
use tandem_host::harness::HarnessManifest;
use tandem_host::store::Digest;

use super::super::edit::{EditKind, LimitsEdit, PromptName};
use super::super::proposal::Proposal;
use super::super::signals::{Diagnosis, Signal};
use super::ask::{ExchangeLog, Teacher, TeacherError};
use super::config::TeacherConfig;
use super::draft::{self, Draft};
use super::evidence::Evidence;
use super::leaks::SearchSetNames;
use super::prompts::{ContractText, PluginText, Prompt, Prompts, meaning};
use super::repair::{Exchange, unrendered};
use super::request::{TeacherReply, TeacherRequest, TeacherRole};
use super::tokens::shorten;

/// Tokens of all sources of the current plugins together, and of one reason.
const SOURCES_TOKENS: usize = 12_000;
const REASON_TOKENS: usize = 1_500;
/// Tokens of one prompt of the harness; a longer one is not shown whole.
const PROMPT_TOKENS: usize = 4_096;
/// Rejected ideas that are shown, newest first.
const REJECTED: usize = 20;

/// A change that was proposed before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Idea {
    pub name: String,
    /// `plugin`, `prompt` and so on.
    pub kind: &'static str,
    pub mechanism: String,
    /// What became of it, in one line.
    pub reason: String,
}

/// What a request is written from.
pub struct HarnessBrief<'a> {
    pub evidence: &'a Evidence,
    pub diagnosis: &'a Diagnosis,
    /// Signals that recur, commonest first.
    pub recurring: &'a [(Signal, usize)],
    /// The current harness, and its plugins in hook order.
    pub harness: &'a HarnessManifest,
    pub plugins: Vec<PluginText>,
    /// Ideas that were kept and show in no plugin's source, oldest first.
    pub kept: Vec<Idea>,
    /// Ideas that are not wanted again, oldest first.
    pub rejected: Vec<Idea>,
}

/// What makes a harness of a proposal and admits it.
#[async_trait]
pub trait Judge: Send + Sync {
    /// The proposal with the grants that it really uses, or a reason that a model can act on; of two proposals
    /// that make one harness it takes the first.
    ///
    /// # Errors
    /// Trouble of this machine, which says nothing about the proposal.
    async fn judge(&self, proposal: Proposal) -> anyhow::Result<Result<Proposal, String>>;
}

/// What came of asking.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposed {
    /// None when no round gave a usable one.
    pub proposal: Option<Proposal>,
    /// What was wrong in each round that was not usable.
    pub reasons: Vec<String>,
}

/// What a candidate must be, beyond being built.
pub struct Rules<'a> {
    pub names: &'a SearchSetNames,
    /// Digests of the edits that were tried, of which the sources of plugins count.
    pub tried: &'a BTreeSet<Digest>,
    /// Names that are taken by other proposals of the same round.
    pub taken: &'a BTreeSet<String>,
    pub judge: &'a dyn Judge,
}

/// Writes requests, reads replies, holds repair rounds.
pub struct HarnessTeacher {
    prompts: Prompts,
    language: Language,
    evidence_tokens: usize,
    repairs: u32,
}

impl HarnessTeacher {
    /// # Errors
    /// Prompt files that cannot be used, in one sentence with its help.
    pub fn open(config: &TeacherConfig) -> Result<Self, String> {
        let prompts = Prompts::open(config.prompts.as_deref())?;
        Ok(Self {
            prompts,
            language: config.language,
            evidence_tokens: config.evidence_tokens,
            repairs: config.repairs,
        })
    }

    /// The first request.
    pub fn request(&self, brief: &HarnessBrief<'_>) -> Result<TeacherRequest, String> {
        #[derive(Serialize)]
        struct SignalText {
            name: &'static str,
            episodes: usize,
            tasks: usize,
            meaning: &'static str,
        }
        #[derive(Serialize)]
        struct PromptText {
            name: &'static str,
            values: &'static [&'static str],
            text: String,
        }
        let signals: Vec<_> = brief.recurring.iter().map(|(signal, _)| *signal).collect();
        let texts: Vec<SignalText> = signals
            .iter()
            .map(|signal| {
                let tasks = brief.diagnosis.signals.get(signal);
                SignalText {
                    name: signal.name(),
                    episodes: tasks.map_or(0, |tasks| tasks.values().sum()),
                    tasks: tasks.map_or(0, |tasks| tasks.len()),
                    meaning: meaning(*signal),
                }
            })
            .collect();
        let newest: Vec<_> = brief.rejected.iter().rev().take(REJECTED).collect();
        let share = SOURCES_TOKENS / brief.plugins.len().max(1);
        let plugins: Vec<PluginText> = brief.plugins.iter().map(|plugin| shortened(plugin, share)).collect();
        let prompts = PromptName::ALL.map(|prompt| PromptText {
            name: prompt.name(),
            values: prompt.values(),
            text: unmarked(&shorten(prompt.of(&brief.harness.prompts), PROMPT_TOKENS)),
        });
        let current = LimitsEdit::current(&brief.harness.limits);
        let context = minijinja::context! {
            prompts => prompts,
            limits => current.to_string(),
            kept => brief.kept,
            episodes => brief.diagnosis.episodes,
            failed => brief.diagnosis.failed,
            signals => texts,
            system => shorten(brief.evidence.system(), 500),
            plugins => plugins,
            rejected => newest,
            evidence => unmarked(&brief.evidence.render(self.evidence_tokens, &signals)),
        };
        Ok(TeacherRequest {
            role: TeacherRole::Harness,
            system: self.prompts.render(Prompt::HarnessSystem, ContractText::new(self.language))?,
            user: self.prompts.render(Prompt::HarnessUser, context)?,
            repairs: Vec::new(),
        })
    }

    /// Reads one reply and holds it against the rules.
    ///
    /// # Errors
    /// Trouble of this machine. The inner error is a reason that goes back to the teacher.
    pub async fn read(
        &self,
        reply: &TeacherReply,
        signals: &[Signal],
        rules: &Rules<'_>,
    ) -> anyhow::Result<Result<Proposal, String>> {
        let draft = match draft::harness(reply, self.language, signals) {
            Ok(draft) => draft,
            Err(fault) => return Ok(Err(fault.to_string())),
        };
        let said = manifest_text(&draft);
        let mention = rules.names.find("manifest", &said);
        let beside = match draft.edit.kind() {
            EditKind::Prompt => "prompt",
            EditKind::Settings => "settings",
            _ => "source",
        };
        if let Some(mention) = mention.or_else(|| rules.names.find(beside, &draft.edit.written())) {
            return Ok(Err(mention.to_string()));
        }
        let proposal = Proposal {
            name: draft.manifest.name.clone(),
            signal: draft.signal,
            edit: draft.edit,
            rationale: draft.manifest.mechanism.trim().to_owned(),
            manifest: Some(draft.manifest),
        };
        // Any other edit is judged by the harness that it makes, which depends on what is there.
        if proposal.edit.kind().is_plugin() && rules.tried.contains(&proposal.digest()) {
            return Ok(Err("this very source was tried before\nhelp: propose another mechanism; the ideas that did not help are listed above".into()));
        }
        if rules.taken.contains(&proposal.name) {
            return Ok(Err(format!(
                "`{}` is the name of another proposal of this round\nhelp: propose another mechanism under another name",
                proposal.name
            )));
        }
        rules.judge.judge(proposal).await
    }

    /// Asks, and lets the teacher mend what is not usable. `place` names the exchanges in the run's record.
    ///
    /// # Errors
    /// No reply within the budget, and trouble of this machine.
    pub async fn propose(
        &self,
        teacher: &Teacher,
        place: &str,
        brief: &HarnessBrief<'_>,
        rules: &Rules<'_>,
        log: &dyn ExchangeLog,
    ) -> Result<Proposed, TeacherError> {
        let signals: Vec<_> = brief.recurring.iter().map(|(signal, _)| *signal).collect();
        let request = self.request(brief).map_err(unrendered)?;
        let (prompts, repairs) = (&self.prompts, self.repairs);
        let exchange = Exchange { teacher, place, log, prompts, repairs, reason_tokens: REASON_TOKENS };
        let read = async |reply: &TeacherReply, _: &str| self.read(reply, &signals, rules).await;
        let (proposal, reasons) = exchange.until_usable(request, read).await?;
        Ok(Proposed { proposal, reasons })
    }
}

fn shortened(plugin: &PluginText, tokens: usize) -> PluginText {
    let source =
        plugin.source.as_deref().map(|source| shorten(&super::prompts::without_tests(source), tokens));
    PluginText { source, ..plugin.clone() }
}

/// What was written by others cannot close the marks around it.
pub(super) fn unmarked(text: &str) -> String {
    text.replace("</evidence>", "<\u{2044}evidence>").replace("</task>", "<\u{2044}task>")
}

fn manifest_text(draft: &Draft) -> String {
    let manifest = &draft.manifest;
    let mut text = format!("{}\n{}\n", manifest.name, manifest.mechanism);
    text.push_str(&manifest.risks.join("\n"));
    text
}
