//! What does a teacher see of a run, and what comes of asking it? The joint
//! between the run record and the teachers.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use tandem_host::agent::{EpisodeRecord, Outcome};
use tandem_host::harness::{Generation, HarnessManifest, PluginFacts};
use tandem_host::policy::Policy;
use tandem_host::task::Task;

use super::candidates::{Bench, Builder};
use super::record::RunRecord;
use super::reports::{AskedReport, CandidateReport, Change, TeacherReport, Tried, candidates, tried};
use crate::evolve::teacher::{
    Evidence, HarnessBrief, HarnessTeacher, Idea, PluginText, Rules, SearchSetNames, SkillAsked, SkillBrief,
    SkillTeacher, TaskSecrets, Teacher, TeacherConfig, TeacherError, TeacherRole,
};
use crate::evolve::{Diagnosis, Proposal, Signal};

/// Characters of one rejected idea's reason.
const REASON_CHARS: usize = 300;

/// The plugins of a harness, with the sources that this run knows and the schemas that admission found.
pub fn current_plugins(
    record: &RunRecord,
    manifest: &HarnessManifest,
    facts: &[PluginFacts],
) -> Result<Vec<PluginText>> {
    let plugins = manifest.plugins.iter().map(|plugin| {
        let source = record.source_of(&plugin.digest)?;
        let text = match &source {
            Some(source) => Some(String::from_utf8_lossy(&record.blobs().get(&source.digest)?).into_owned()),
            None => None,
        };
        let schema = facts.iter().find(|facts| facts.name == plugin.name);
        let schema = schema.and_then(|facts| facts.settings_schema.as_ref());
        let settings = serde_json::Value::from(plugin.settings.clone()).to_string();
        Ok(PluginText {
            name: plugin.name.clone(),
            grants: plugin.grants.clone(),
            language: source.map(|source| source.language).unwrap_or_default(),
            source: text,
            settings: if plugin.settings.is_empty() { String::new() } else { settings },
            schema: schema.map(serde_json::Value::to_string),
        })
    });
    plugins.collect()
}

/// The ideas of a run that were proposed before: those that are in the harness and show in no source, and those
/// that were not accepted or were found needless later. Oldest first.
#[derive(Clone, Debug, Default)]
pub struct EarlierIdeas {
    pub kept: Vec<Idea>,
    pub rejected: Vec<Idea>,
}

impl EarlierIdeas {
    /// Reads them from a run whose harness is `harness`.
    pub fn of(record: &RunRecord, harness: &HarnessManifest) -> Result<Self> {
        let mut ideas = Self::default();
        let ancestry = record.ancestry()?;
        let reports: Vec<_> = candidates(record)?.into_iter().map(|(.., report)| report).collect();
        for (number, report) in reports.iter().enumerate() {
            let proposal = &report.proposal;
            // What was taken out later is told once, with the reason for that.
            let is_taken_out = |later: &CandidateReport| {
                later.change == Change::Remove && later.accepted() && later.proposal.is_same_edit(proposal)
            };
            if reports[number + 1..].iter().any(is_taken_out) {
                continue;
            }
            let idea = Idea {
                name: proposal.name.clone(),
                kind: proposal.kind.name(),
                mechanism: proposal.rationale.clone(),
                reason: report.verdict().replace('\n', " ").chars().take(REASON_CHARS).collect(),
            };
            if report.accepted() == (report.change == Change::Remove) {
                ideas.rejected.push(idea);
            } else if !proposal.kind.is_plugin() && report.change == Change::Add {
                if report.stands(&proposal.edit(record.blobs())?, &ancestry, harness) {
                    ideas.kept.push(idea);
                } else if report.harness.is_some_and(|digest| !ancestry.contains(&digest)) {
                    let reason = "it was accepted, and the hold-out took it back".into();
                    ideas.rejected.push(Idea { reason, ..idea });
                }
            }
        }
        Ok(ideas)
    }
}

/// What a round has come to when the teacher is asked.
pub struct Round<'a> {
    pub number: u32,
    /// The episodes that were diagnosed.
    pub records: &'a [EpisodeRecord],
    pub diagnosis: &'a Diagnosis,
    /// Signals that recur, commonest first.
    pub recurring: &'a [(Signal, usize)],
    pub record: &'a RunRecord,
    pub builder: &'a Builder,
    /// The harness that a proposal is put into.
    pub incumbent: &'a HarnessManifest,
}

/// The harness teacher of a campaign.
pub struct NewIdeas {
    teacher: Teacher,
    writer: HarnessTeacher,
    names: SearchSetNames,
}

impl NewIdeas {
    /// Everything that can be wrong without asking is found here. None for the catalog.
    pub fn open<'a>(
        config: &TeacherConfig,
        tasks: impl IntoIterator<Item = &'a Arc<Task>>,
        policy: Option<Arc<dyn Policy>>,
    ) -> Result<Option<Self>> {
        let section = |reason: String| anyhow!("`[teacher.harness]` cannot be used: {reason}");
        let Some(teacher) = Teacher::open(TeacherRole::Harness, config, policy).map_err(section)? else {
            return Ok(None);
        };
        let writer = HarnessTeacher::open(config).map_err(section)?;
        let names = SearchSetNames::of(tasks.into_iter().map(|task| &**task));
        Ok(Some(Self { teacher, writer, names }))
    }

    /// Asks for at most `most` proposals, one after the other.
    ///
    /// A teacher that gives no reply or whose budget is spent ends the asking and not
    /// the campaign: the report says why.
    pub async fn propose(&self, round: Round<'_>, most: usize) -> Result<(Vec<Proposal>, TeacherReport)> {
        let Round { number: round, records, diagnosis, recurring, record, builder, incumbent } = round;
        let mut report = TeacherReport::default();
        let mut proposals: Vec<Proposal> = Vec::new();
        if recurring.is_empty() {
            report.stopped = Some("no trouble was seen on enough tasks".into());
            return Ok((proposals, report));
        }
        let evidence = Evidence::of(records);
        let Tried { mut edits, harnesses } = tried(record)?;
        let EarlierIdeas { kept, mut rejected } = EarlierIdeas::of(record, incumbent)?;
        // It was admitted before, so nothing is compiled again.
        let admission = &builder.admission;
        let generation =
            Generation::build_with(&builder.engine, incumbent.clone(), &builder.blobs, admission).await?;
        let plugins = current_plugins(record, incumbent, &generation.facts())?;
        let bench = Bench::new(builder, incumbent, harnesses);
        for number in 0..most {
            let taken = proposals.iter().map(|proposal| proposal.name.clone()).collect();
            let rules = Rules { names: &self.names, tried: &edits, taken: &taken, judge: &bench };
            let brief = HarnessBrief {
                evidence: &evidence,
                diagnosis,
                recurring,
                harness: incumbent,
                plugins: plugins.clone(),
                kept: kept.clone(),
                rejected: rejected.clone(),
            };
            let place = format!("r{round}/harness/{number}");
            let proposed = match self.writer.propose(&self.teacher, &place, &brief, &rules, record).await {
                Ok(proposed) => proposed,
                Err(TeacherError::Log(error)) => return Err(error),
                Err(error) => {
                    report.stopped = Some(error.to_string());
                    break;
                }
            };
            let name = proposed.proposal.as_ref().map(|proposal| proposal.name.clone());
            report.asked.push(AskedReport { proposal: name, reasons: proposed.reasons });
            if let Some(proposal) = proposed.proposal {
                edits.insert(proposal.digest());
                // The next proposal of this round must be another idea.
                rejected.push(Idea {
                    name: proposal.name.clone(),
                    kind: proposal.edit.kind().name(),
                    mechanism: proposal.rationale.clone(),
                    reason: "proposed in this round already".into(),
                });
                proposals.push(proposal);
            }
        }
        Ok((proposals, report))
    }
}

/// The skill teacher of a campaign.
pub struct NewSkills {
    teacher: Teacher,
    writer: SkillTeacher,
}

impl NewSkills {
    /// Everything that can be wrong without asking is found here.
    pub fn open(config: &TeacherConfig, policy: Option<Arc<dyn Policy>>) -> Result<Option<Self>> {
        let section = |reason: String| anyhow!("`[teacher.skill]` cannot be used: {reason}");
        let Some(teacher) = Teacher::open(TeacherRole::Skill, config, policy).map_err(section)? else {
            return Ok(None);
        };
        let writer = SkillTeacher::open(config).map_err(section)?;
        Ok(Some(Self { teacher, writer }))
    }

    /// Asks for a skill for `task`, of which `records` are the attempts. The screen for leaks runs here, in
    /// the process that holds the hidden texts; of these the teacher sees none.
    ///
    /// # Errors
    /// No reply within the budget, and trouble of this machine.
    pub async fn ask(
        &self,
        place: &str,
        task: &Task,
        records: &[EpisodeRecord],
        record: &RunRecord,
    ) -> Result<SkillAsked, TeacherError> {
        let failed = records.iter().filter(|episode| episode.outcome == Outcome::Unsolved).count();
        let evidence = Evidence::of(records);
        let brief = SkillBrief {
            task: task.name(),
            instruction: task.instruction(),
            evidence: &evidence,
            episodes: records.len(),
            failed,
        };
        self.writer.ask(&self.teacher, place, &brief, &TaskSecrets::of(task), record).await
    }
}
