//! What does an evaluation say? Its numbers, by part and arm, from its record alone.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use tandem_host::store::Digest;

use super::arms::{Arm, Part};
use super::numbers::{Estimate, Found, McNemar, by_task, difference, mcnemar, mean_pass_at_k, pass_rate};
use crate::campaign::{EpisodeRow, RunRecord};
use crate::pair::interval;

/// The k of pass@k that are told, as far as there are episodes.
const KS: [usize; 5] = [1, 2, 4, 8, 16];

/// Everything that a report of an evaluation shows.
#[derive(Debug, Serialize)]
pub struct Evaluation {
    pub name: String,
    pub run: String,
    /// Seals the events of the run, and of the evaluation.
    pub run_head: Option<Digest>,
    pub own_head: Option<Digest>,
    /// Of a task in an arm.
    pub episodes: usize,
    pub seed: u64,
    /// In what the runs of other arms began otherwise, as sentences.
    pub mismatches: Vec<String>,
    pub parts: Vec<PartTable>,
}

/// The arms that were asked the same tasks.
#[derive(Debug, Serialize)]
pub struct PartTable {
    pub part: Part,
    pub tasks: usize,
    pub arms: Vec<ArmLine>,
    pub comparisons: Vec<Comparison>,
    /// What joint has beyond what policy and harness bring alone: joint − bare − cross + base.
    pub interaction: Option<Estimate>,
}

#[derive(Debug, Serialize)]
pub struct ArmLine {
    pub arm: Arm,
    /// Episodes that are recorded; less than was asked for while it runs.
    pub episodes: usize,
    pub solved: usize,
    pub pass: Estimate,
    /// k and pass@k.
    pub pass_at: Vec<(usize, f64)>,
    /// Episodes that came to no verdict, by cause; they count as failures.
    pub no_verdict: BTreeMap<String, usize>,
    /// Episodes that a limit or a hook ended, by how.
    pub cut_short: BTreeMap<String, usize>,
    pub turns: f64,
    pub sampled_tokens: f64,
    #[serde(skip)]
    by_task: BTreeMap<String, Found>,
}

/// Two arms on the same tasks and seeds.
#[derive(Debug, Serialize)]
pub struct Comparison {
    pub before: String,
    pub after: String,
    pub difference: Estimate,
    pub mcnemar: McNemar,
}

/// Reads the numbers out of the record of an evaluation.
pub fn evaluation(
    own: &RunRecord,
    arms: &[Arm],
    sizes: &BTreeMap<Part, usize>,
    (name, run, run_head): (String, String, Option<Digest>),
    (episodes, seed): (usize, u64),
) -> Result<Evaluation> {
    let mut rows: BTreeMap<String, Vec<EpisodeRow>> = BTreeMap::new();
    for row in own.episodes()? {
        let arm = row.group.strip_suffix(&format!("/{}", row.task)).unwrap_or_default().to_owned();
        rows.entry(arm).or_default().push(row);
    }
    let mut parts = Vec::new();
    for part in Part::ALL {
        let lines: Vec<ArmLine> = arms
            .iter()
            .filter(|arm| arm.part == part)
            .map(|arm| line(arm, rows.get(&arm.name).map_or(&[][..], Vec::as_slice), episodes))
            .collect();
        if lines.is_empty() {
            continue;
        }
        parts.push(PartTable {
            part,
            tasks: sizes.get(&part).copied().unwrap_or(0),
            comparisons: comparisons(part, &lines),
            interaction: interaction(&lines),
            arms: lines,
        });
    }
    let own_head = own.head()?.map(|head| head.digest);
    Ok(Evaluation { name, run, run_head, own_head, episodes, seed, mismatches: Vec::new(), parts })
}

fn line(arm: &Arm, rows: &[EpisodeRow], episodes: usize) -> ArmLine {
    let tasks = by_task(rows, episodes);
    let mut no_verdict: BTreeMap<String, usize> = BTreeMap::new();
    let mut cut_short: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows {
        if !row.valid() {
            *no_verdict.entry(row.outcome.trim_start_matches("invalid:").to_owned()).or_default() += 1;
        } else if row.exit != "submitted" {
            *cut_short.entry(row.exit.clone()).or_default() += 1;
        }
    }
    let mean = |value: &dyn Fn(&EpisodeRow) -> u64| {
        rows.iter().map(value).sum::<u64>() as f64 / rows.len().max(1) as f64
    };
    ArmLine {
        arm: arm.clone(),
        episodes: rows.len(),
        solved: rows.iter().filter(|row| row.solved()).count(),
        pass: pass_rate(&tasks),
        pass_at: KS.iter().filter_map(|k| Some((*k, mean_pass_at_k(&tasks, *k)?))).collect(),
        no_verdict,
        cut_short,
        turns: mean(&|row| row.turns),
        sampled_tokens: mean(&|row| row.sampled_tokens),
        by_task: tasks,
    }
}

/// Every arm against the first of its part, and the pair against all others.
fn comparisons(part: Part, lines: &[ArmLine]) -> Vec<Comparison> {
    let compare = |before: &ArmLine, after: &ArmLine| Comparison {
        before: before.arm.name.clone(),
        after: after.arm.name.clone(),
        difference: difference(&before.by_task, &after.by_task),
        mcnemar: mcnemar(&before.by_task, &after.by_task),
    };
    let mut found: Vec<Comparison> = Vec::new();
    let first = lines.iter().find(|line| line.arm.name == "base" || part != Part::HeldOut);
    if let Some(first) = first {
        let others = lines.iter().filter(|line| line.arm.name != first.arm.name);
        found.extend(others.map(|line| compare(first, line)));
    }
    if let Some(pair) = lines.iter().find(|line| line.arm.name == "joint") {
        let others = lines.iter().filter(|line| !["base", "joint"].contains(&line.arm.name.as_str()));
        found.extend(others.map(|line| compare(line, pair)));
    }
    found
}

fn interaction(lines: &[ArmLine]) -> Option<Estimate> {
    let tasks = |name: &str| lines.iter().find(|line| line.arm.name == name).map(|line| &line.by_task);
    let (base, bare, cross, joint) = (tasks("base")?, tasks("bare")?, tasks("cross")?, tasks("joint")?);
    let values: Vec<f64> = joint
        .iter()
        .filter_map(|(task, found)| {
            Some(found.share() - bare.get(task)?.share() - cross.get(task)?.share() + base.get(task)?.share())
        })
        .collect();
    let value = values.iter().sum::<f64>() / values.len().max(1) as f64;
    Some(Estimate { value, interval: interval(&values) })
}
