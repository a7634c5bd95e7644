//! Which tasks get a skill, and which of their groups use it?
//!
//! A skill is for a task whose attempts handed in a patch that is wrong: trouble of the idea, which is not
//! a matter for the harness. It is used in training groups of that task alone. Gates, screens and tables
//! ask for episodes without any.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use tandem_host::agent::{EpisodeRecord, Exit, Outcome};
use tandem_host::store::Digest;

use super::super::draw;
use super::super::record::{Arm, EpisodeRow};
use super::super::run::Campaign;
use super::super::sections::SkillMode;
use crate::evolve::teacher::TeacherError;

/// The phase of a round in which skills are written.
const PHASE: &str = "skills";

/// What asking for skills in one round gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillsReport {
    /// How skills enter the gradient, by the name of the mode.
    pub mode: String,
    pub skills: Vec<SkillRow>,
    /// Tasks without a usable reply: what was wrong in each of them.
    pub refused: BTreeMap<String, Vec<String>>,
    /// Why asking ended early.
    pub stopped: Option<String>,
}

/// A skill that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillRow {
    pub task: String,
    /// SHA-256 of its text.
    pub skill: Digest,
    /// The exchange that it came from.
    pub place: String,
    pub mechanism: String,
    /// Ids of the episodes that the teacher was shown.
    pub evidence: Vec<String>,
    /// What was wrong with the replies before the one that was taken.
    pub sent_back: Vec<String>,
}

/// Whether an attempt failed by its idea: a patch was handed in, applies, and is wrong.
fn is_strategy(episode: &EpisodeRecord) -> bool {
    episode.outcome == Outcome::Unsolved
        && episode.exit == Exit::Submitted
        && !episode.patch.is_empty()
        && episode.submitted_applies != Some(false)
}

impl Campaign {
    /// Asks for skills for those of `tasks` whose attempts in `round` failed by their idea.
    pub(in crate::campaign) async fn write_skills(&self, round: u32, tasks: &[String]) -> Result<()> {
        let Some(writer) = &self.skills else { return Ok(()) };
        if self.record.phase::<SkillsReport>(round, PHASE)?.is_some() {
            return Ok(());
        }
        let mode = self.config.skills.mode;
        let mut report = SkillsReport { mode: mode.name().into(), ..SkillsReport::default() };
        let spinner = self.progress.spin(&format!("round {round}: the teacher writes skills"));
        for (task, episodes) in self.strategy_cases(round, tasks)? {
            let Some(known) = self.tasks.get(&task) else { continue };
            let place = format!("r{round}/skill/{task}");
            let asked = tokio::select! {
                asked = writer.ask(&place, known, &episodes, &self.record) => asked,
                () = self.cancel.cancelled() => bail!(tandem_host::rollout::Cancelled),
            };
            let asked = match asked {
                Ok(asked) => asked,
                Err(TeacherError::Log(error)) => return Err(error),
                Err(error) => {
                    report.stopped = Some(error.to_string());
                    break;
                }
            };
            let Some((skill, place)) = asked.skill else {
                report.refused.insert(task, asked.reasons);
                continue;
            };
            self.record.add_skill(&place, &skill)?;
            report.skills.push(SkillRow {
                task,
                skill: skill.digest(),
                place,
                mechanism: skill.mechanism,
                evidence: episodes.into_iter().map(|episode| episode.id).collect(),
                sent_back: asked.reasons,
            });
        }
        spinner.finish();
        self.record.end_phase(round, PHASE, &report)?;
        self.progress.say(&format!(
            "round {round}: {} skills written, {} refused{}",
            report.skills.len(),
            report.refused.len(),
            report.stopped.as_ref().map_or(String::new(), |why| format!("; {}", why.replace('\n', "; ")))
        ));
        Ok(())
    }

    /// Tasks that failed by their idea in `round`, with their attempts: those without a skill first, then
    /// those with most such failures, no more than are asked for. With `only-if-all-fail`, only tasks that no attempt solved.
    fn strategy_cases(&self, round: u32, tasks: &[String]) -> Result<Vec<(String, Vec<EpisodeRecord>)>> {
        let mut cases = Vec::new();
        let all = self.attempts(round)?;
        let written = self.record.phases::<SkillsReport>(PHASE)?;
        let has_one = |task: &String| {
            written.iter().flat_map(|(.., report)| &report.skills).any(|row| row.task == *task)
        };
        for task in tasks {
            let Some(rows) = all.get(task) else { continue };
            let solved = rows.iter().filter(|row| row.solved()).count();
            let every = self.config.skills.mode == SkillMode::OnlyIfAllFail && solved > 0;
            if every || solved == rows.len() {
                continue;
            }
            let episodes = rows.iter().map(|row| self.record.episode(row)).collect::<Result<Vec<_>>>()?;
            let failures = episodes.iter().filter(|episode| is_strategy(episode)).count();
            if failures > 0 {
                cases.push((failures, task.clone(), episodes));
            }
        }
        // Stable: equal counts stay in drawn order.
        cases.sort_by_key(|(failures, task, _)| (has_one(task), std::cmp::Reverse(*failures)));
        cases.truncate(self.config.skills.per_round);
        Ok(cases.into_iter().map(|(_, task, episodes)| (task, episodes)).collect())
    }

    /// The valid first episodes of the training groups of a round, by task.
    fn attempts(&self, round: u32) -> Result<BTreeMap<String, Vec<EpisodeRow>>> {
        let mut all: BTreeMap<String, Vec<EpisodeRow>> = BTreeMap::new();
        for arm in [Arm::Collect, Arm::Skill] {
            for row in self.rows(round, arm)?.into_iter().filter(EpisodeRow::valid) {
                all.entry(row.task.clone()).or_default().push(row);
            }
        }
        Ok(all)
    }

    /// The text of the skill of each of `tasks` that has one from an earlier round, and whose draw lets it
    /// be used in this one.
    pub(in crate::campaign) fn skills_of(
        &self,
        round: u32,
        tasks: &[String],
    ) -> Result<BTreeMap<String, String>> {
        let mut found = BTreeMap::new();
        for (written, _, report) in self.record.phases::<SkillsReport>(PHASE)? {
            for row in report.skills.into_iter().filter(|row| written < round && tasks.contains(&row.task)) {
                found.insert(row.task.clone(), (written, row));
            }
        }
        let used = found.into_values().filter(|(written, row)| self.is_used(round, *written, &row.task));
        used.map(|(_, row)| Ok((row.task.clone(), self.text_of(&row)?))).collect()
    }

    /// Whether a skill has not faded out: a draw of the campaign's seed.
    fn is_used(&self, round: u32, written: u32, task: &str) -> bool {
        let fade = self.config.skills.fade;
        if fade == 0 {
            return true;
        }
        let left = 1.0 - f64::from(round - written) / f64::from(fade);
        let draw = draw::seed(self.config.seed, &format!("fade/r{round}/{task}"));
        crate::evolve::Random::of_state(draw).uniform() < left
    }

    fn text_of(&self, row: &SkillRow) -> Result<String> {
        let kept = self.record.skills(&row.task)?;
        let found = kept.into_iter().find(|skill| skill.digest() == row.skill);
        match found {
            Some(skill) => Ok(skill.text),
            None => bail!(
                "the run record has no skill {} of task `{}`\nhelp: restore it from a backup, or start a new run",
                row.skill.short(),
                row.task
            ),
        }
    }

    /// Collects a group under each skill that was written in this round. With `only-if-all-fail`, those of
    /// `tasks` that have one from before and were not solved without get a group too.
    pub(in crate::campaign) async fn skill_groups(&self, round: u32, tasks: &[String]) -> Result<()> {
        let mut skills = BTreeMap::new();
        if self.config.skills.mode == SkillMode::OnlyIfAllFail {
            skills = self.skills_of(round, tasks)?;
            let attempts = self.attempts(round)?;
            skills.retain(|task, _| {
                let rows = attempts.get(task).map_or(&[][..], Vec::as_slice);
                let without: Vec<_> = rows.iter().filter(|row| row.arm == Arm::Collect.name()).collect();
                !without.is_empty() && without.iter().all(|row| !row.solved())
            });
        }
        let report: Option<SkillsReport> = self.record.phase(round, PHASE)?;
        for row in report.iter().flat_map(|report| &report.skills) {
            skills.insert(row.task.clone(), self.text_of(row)?);
        }
        let tasks: Vec<String> = skills.keys().cloned().collect();
        self.groups(round, Arm::Skill, &tasks, &skills).await
    }
}
