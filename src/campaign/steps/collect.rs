//! Which training episodes does a round collect, and which of them make its groups?

use std::collections::BTreeMap;

use anyhow::Result;
use tandem_host::store::Digest;

use super::super::balanced::{Schedule, TopUpReport, choose};
use super::super::draw;
use super::super::record::{Arm, EpisodeRow};
use super::super::run::Campaign;
use super::super::sections::SkillMode;
use super::super::training::TrainingGroup;
use super::episodes::{Label, Numbered, number_of};
use crate::evolve::Random;

/// The key of a training group without a skill.
pub fn group_of(round: u32, task: &str) -> String {
    format!("r{round}/collect/{task}")
}

/// The beginning of the keys of training groups with a skill.
fn skilled(round: u32) -> String {
    format!("r{round}/skill-")
}

impl Campaign {
    /// The tasks of a round: those that the diagnosis looks at, and the others.
    pub(in crate::campaign) fn drawn(&self, round: u32) -> (Vec<String>, Vec<String>) {
        let drawn =
            draw::for_round(self.config.seed, "collect", &self.names(), round, self.config.rollout.groups);
        let split = (drawn.len() as f64 * self.config.rollout.diagnosed).ceil() as usize;
        let (first, rest) = drawn.split_at(split.min(drawn.len()));
        (first.to_vec(), rest.to_vec())
    }

    /// Collects the training groups of `tasks`: with their skills where the mode says so, else without; then
    /// tops up those that teach nothing.
    pub(in crate::campaign) async fn collect(&self, round: u32, tasks: &[String]) -> Result<()> {
        let skilled = match self.config.skills.mode {
            SkillMode::OnlyIfAllFail => BTreeMap::new(),
            SkillMode::InContext | SkillMode::OffContext => self.skills_of(round, tasks)?,
        };
        let (with, without): (Vec<_>, Vec<_>) =
            tasks.iter().cloned().partition(|task| skilled.contains_key(task));
        self.groups(round, Arm::Collect, &without, &BTreeMap::new()).await?;
        self.groups(round, Arm::Skill, &with, &skilled).await
    }

    /// Collects a group for each of `tasks`, with its skill if there is one, and tops up.
    pub(in crate::campaign) async fn groups(
        &self,
        round: u32,
        arm: Arm,
        tasks: &[String],
        skills: &BTreeMap<String, String>,
    ) -> Result<()> {
        let size = self.config.rollout.group_size;
        let schedule = Schedule::new(size, self.config.most_of_a_group(), &self.config.rollout.top_up);
        let key = |task: &String| match skills.get(task) {
            // Another skill is another group.
            Some(text) => {
                format!("{}{}/{task}", skilled(round), Digest::of(text.as_bytes()).short())
            }
            None => group_of(round, task),
        };
        let some = |task: &String, numbers: std::ops::Range<usize>| {
            let (group, skill) = (key(task), skills.get(task).cloned());
            self.specs(&self.tasks, Numbered { task, group, numbers, label: Label::Own, skill })
        };
        let mut specs = Vec::new();
        for task in tasks {
            specs.extend(some(task, 0..size)?);
        }
        if specs.is_empty() {
            return Ok(());
        }
        let what = if arm == Arm::Skill { "episodes with skills" } else { "episodes" };
        self.rollouts(&format!("round {round}: {what}"), round, arm, specs, None).await?;
        if !schedule.is_on() {
            return Ok(());
        }
        for stage in 1.. {
            let all = self.outcomes_by_group()?;
            let mut specs = Vec::new();
            for task in tasks {
                let outcomes = all.get(&key(task)).map_or(&[][..], Vec::as_slice);
                let wanted = schedule.wanted(outcomes);
                specs.extend(some(task, size..wanted.max(size))?);
            }
            let known = self.record.episode_ids()?;
            if specs.iter().all(|spec| known.contains(&spec.id)) {
                return Ok(());
            }
            let title = format!("round {round}: stage {stage} of topping up");
            self.rollouts(&title, round, Arm::TopUp, specs, None).await?;
        }
        Ok(())
    }

    /// The outcomes of every training group by the numbers of its episodes, up to the first that is missing.
    fn outcomes_by_group(&self) -> Result<BTreeMap<String, Vec<Option<bool>>>> {
        let mut found: BTreeMap<String, BTreeMap<usize, Option<bool>>> = BTreeMap::new();
        for row in self.record.episodes()?.iter().filter(|row| is_training(row)) {
            if let Some(number) = number_of(row) {
                let outcome = row.valid().then(|| row.solved());
                found.entry(row.group.clone()).or_default().insert(number, outcome);
            }
        }
        let whole = |numbers: BTreeMap<usize, Option<bool>>| {
            let in_order = numbers.into_iter().enumerate().take_while(|(at, (number, _))| at == number);
            in_order.map(|(_, (_, outcome))| outcome).collect()
        };
        Ok(found.into_iter().map(|(group, numbers)| (group, whole(numbers))).collect())
    }

    /// What topping up did in `round`, by the record; none when nothing was topped up.
    pub(in crate::campaign) fn top_ups(&self, round: u32) -> Result<Option<TopUpReport>> {
        let size = self.config.rollout.group_size;
        let rows = self.record.episodes()?;
        let of_round = rows.iter().filter(|row| row.round == round && row.arm == Arm::TopUp.name());
        let groups: std::collections::BTreeSet<_> = of_round.map(|row| row.group.clone()).collect();
        let all = self.outcomes_by_group()?;
        let mut report = TopUpReport::default();
        for outcomes in groups.iter().filter_map(|group| all.get(group)) {
            let valid: Vec<bool> = outcomes.iter().flatten().copied().collect();
            let mixed = valid.iter().any(|solved| *solved) && !valid.iter().all(|solved| *solved);
            report.groups += 1;
            report.rescued += usize::from(mixed);
            report.given_up += usize::from(!mixed);
            report.episodes += outcomes.len().saturating_sub(size);
        }
        Ok((report.groups > 0).then_some(report))
    }

    /// The groups of a round as the learner gets them.
    pub(in crate::campaign) fn training_groups(&self, round: u32) -> Result<Vec<TrainingGroup>> {
        let size = self.config.rollout.group_size;
        let without_skill = self.config.skills.mode == SkillMode::OffContext;
        let mut by_group: BTreeMap<String, BTreeMap<usize, EpisodeRow>> = BTreeMap::new();
        for row in self.record.episodes()? {
            // Invalid episodes never enter an advantage; a version of another round cannot appear.
            let numbered = number_of(&row).filter(|_| row.round == round && is_training(&row) && row.valid());
            if let Some(number) = numbered {
                by_group.entry(row.group.clone()).or_default().insert(number, row);
            }
        }
        // An update that has a limit of tokens takes the first groups: no task's name decides which.
        let mut by_group: Vec<_> = by_group.into_iter().collect();
        by_group.sort_by_cached_key(|(key, _)| draw::seed(self.config.seed, &format!("train/{key}")));
        let mut groups = Vec::new();
        for (key, rows) in by_group {
            let with_skill = key.starts_with(&skilled(round));
            let topped_up = rows.keys().any(|number| *number >= size);
            let rows: Vec<_> = rows.into_values().collect();
            let solved: Vec<bool> = rows.iter().map(EpisodeRow::solved).collect();
            let mut random = Random::of_state(draw::seed(self.config.seed, &format!("kept/{key}")));
            let mut kept = Vec::new();
            for (at, weight) in choose(&solved, size, self.config.rollout.top_up.reweight, &mut random) {
                kept.push((self.record.episode(&rows[at])?, weight));
            }
            groups.push(TrainingGroup {
                kept,
                drawn: solved.iter().map(|solved| f32::from(u8::from(*solved))).collect(),
                topped_up,
                without_skill: with_skill && without_skill,
            });
        }
        Ok(groups)
    }
}

/// Whether an episode was collected to train on.
fn is_training(row: &EpisodeRow) -> bool {
    [Arm::Collect, Arm::Skill, Arm::TopUp].iter().any(|arm| row.arm == arm.name())
}
