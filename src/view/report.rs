//! What came of a run? Rates by policy version and harness, the gate's ledger,
//! what the plugins did, the updates, and the final table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::Result;
use serde::Serialize;
use tandem_host::store::Digest;

use crate::campaign::{
    CandidateReport, EpisodeRow, ExchangeRow, HoldoutReport, Publication, RunRecord, ScreenReport,
    SkillsReport, TeacherReport, TopUpReport, UpdateReport,
};
use crate::evolve::{Diagnosis, EditKind, Verdict};

/// Everything that `tandem report` shows.
#[derive(Debug, Serialize)]
pub struct Report {
    pub harnesses: Vec<HarnessLine>,
    pub rates: Vec<RateLine>,
    /// Training episodes with a skill in the prompt.
    pub skilled: Vec<RateLine>,
    /// What topping up groups did, by round.
    pub top_ups: BTreeMap<u32, TopUpReport>,
    /// What the skill teacher wrote, by round.
    pub skills: BTreeMap<u32, SkillsReport>,
    /// What the candidates of a round did in its screen.
    pub screens: BTreeMap<u32, ScreenReport>,
    /// What the hold-out said, by round.
    pub holdout: BTreeMap<u32, HoldoutReport>,
    pub diagnoses: Vec<DiagnosisLine>,
    /// What asking teachers took, by role and model.
    pub teachers: Vec<TeacherLine>,
    pub asked: Vec<AskedLine>,
    pub ledger: Vec<LedgerLine>,
    pub firings: Vec<FiringLine>,
    pub updates: Vec<UpdateReport>,
    pub table: Vec<RateLine>,
    /// Episodes without a verdict, by cause. They count in no rate.
    pub invalid: BTreeMap<String, usize>,
}

/// A harness that was published.
#[derive(Debug, Serialize)]
pub struct HarnessLine {
    pub round: u32,
    pub digest: Digest,
    pub plugins: Vec<String>,
    pub reason: String,
}

/// Rates of one policy version under one harness.
#[derive(Debug, Serialize)]
pub struct RateLine {
    pub policy_version: u64,
    pub harness: Digest,
    pub episodes: usize,
    pub solved: usize,
    pub groups: usize,
    /// Groups with both a solved and an unsolved episode.
    pub mixed: usize,
}

/// Signals of one round.
#[derive(Debug, Serialize)]
pub struct DiagnosisLine {
    pub round: u32,
    pub diagnosis: Diagnosis,
}

/// What one teacher used.
#[derive(Debug, Default, Serialize)]
pub struct TeacherLine {
    pub role: String,
    pub kind: String,
    pub model: String,
    /// Tries, and those that gave a reply.
    pub tries: usize,
    pub replies: usize,
    pub prompt_tokens: u64,
    pub reply_tokens: u64,
    /// In the currency of the campaign's price.
    pub cost: f64,
    pub seconds: f64,
}

/// What asking for proposals in one round gave.
#[derive(Debug, Serialize)]
pub struct AskedLine {
    pub round: u32,
    pub report: TeacherReport,
}

/// One candidate's way through the gate.
#[derive(Debug, Serialize)]
pub struct LedgerLine {
    pub round: u32,
    pub candidate: CandidateReport,
}

/// What one plugin did at one hook point.
#[derive(Debug, Serialize)]
pub struct FiringLine {
    pub plugin: Digest,
    pub name: String,
    pub point: String,
    pub effect: String,
    pub times: usize,
    /// Episodes in which it happened, and how many of those were solved.
    pub episodes: usize,
    pub solved: usize,
}

/// Reads the report out of a run record.
pub fn report(record: &RunRecord) -> Result<Report> {
    let rows = record.episodes()?;
    let mut invalid: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.valid()) {
        *invalid.entry(row.outcome.clone()).or_default() += 1;
    }
    let harnesses =
        record.publications()?.into_iter().map(|p| harness_line(record, p)).collect::<Result<_>>()?;
    let diagnoses = record.phases::<Diagnosis>("diagnosis")?;
    let ledger = record.phases::<CandidateReport>("candidate-")?;
    let updates = record.phases::<UpdateReport>("update")?;
    Ok(Report {
        harnesses,
        rates: rates(rows.iter().filter(|row| row.arm == "collect")),
        skilled: rates(rows.iter().filter(|row| row.arm == "skill")),
        top_ups: by_round(record.phases("top-up")?),
        skills: by_round(record.phases("skills")?),
        screens: by_round(record.phases("screen")?),
        holdout: by_round(record.phases("holdout")?),
        diagnoses: diagnoses
            .into_iter()
            .map(|(round, _, diagnosis)| DiagnosisLine { round, diagnosis })
            .collect(),
        teachers: teachers(record.exchanges()?),
        asked: record
            .phases::<TeacherReport>("teacher")?
            .into_iter()
            .map(|(round, _, report)| AskedLine { round, report })
            .collect(),
        ledger: ledger.into_iter().map(|(round, _, candidate)| LedgerLine { round, candidate }).collect(),
        firings: firings(record, &rows)?,
        updates: updates.into_iter().map(|(_, _, update)| update).collect(),
        table: rates(rows.iter().filter(|row| row.arm == "evaluate")),
        invalid,
    })
}

fn by_round<T>(phases: Vec<(u32, String, T)>) -> BTreeMap<u32, T> {
    phases.into_iter().map(|(round, _, report)| (round, report)).collect()
}

fn teachers(rows: Vec<ExchangeRow>) -> Vec<TeacherLine> {
    let mut lines: BTreeMap<(String, String, String), TeacherLine> = BTreeMap::new();
    for row in rows {
        let key = (row.role, row.kind, row.model);
        let line = lines.entry(key.clone()).or_default();
        (line.role, line.kind, line.model) = key;
        line.tries += 1;
        line.replies += usize::from(row.reply.is_some());
        line.prompt_tokens += row.prompt_tokens;
        line.reply_tokens += row.reply_tokens;
        line.cost += row.cost;
        line.seconds += row.seconds;
    }
    lines.into_values().collect()
}

fn harness_line(record: &RunRecord, publication: Publication) -> Result<HarnessLine> {
    let manifest = record.harness(&publication.digest)?;
    Ok(HarnessLine {
        round: publication.round,
        digest: publication.digest,
        plugins: manifest.plugins.into_iter().map(|plugin| plugin.name).collect(),
        reason: publication.reason,
    })
}

fn rates<'a>(rows: impl Iterator<Item = &'a EpisodeRow>) -> Vec<RateLine> {
    let mut cells: BTreeMap<(u64, Digest), BTreeMap<&str, (usize, usize)>> = BTreeMap::new();
    for row in rows.filter(|row| row.valid()) {
        let groups = cells.entry((row.policy_version, row.harness)).or_default();
        let (solved, episodes) = groups.entry(&row.group).or_default();
        *solved += usize::from(row.solved());
        *episodes += 1;
    }
    cells
        .into_iter()
        .map(|((policy_version, harness), groups)| RateLine {
            policy_version,
            harness,
            episodes: groups.values().map(|(_, episodes)| episodes).sum(),
            solved: groups.values().map(|(solved, _)| solved).sum(),
            groups: groups.len(),
            mixed: groups.values().filter(|(solved, episodes)| *solved > 0 && solved < episodes).count(),
        })
        .collect()
}

fn firings(record: &RunRecord, rows: &[EpisodeRow]) -> Result<Vec<FiringLine>> {
    let mut found: BTreeMap<(String, Digest, String, String), (usize, usize, usize)> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.effects + row.faults > 0) {
        let episode = record.episode_facts(row)?;
        let mut seen = BTreeSet::new();
        let effects = episode.effects.iter().map(|e| (&e.name, e.plugin, e.point, e.kind.name()));
        let faults = episode.faults.iter().map(|f| (&f.name, f.plugin, f.point, "fault"));
        for (name, plugin, point, effect) in effects.chain(faults) {
            let key = (name.clone(), plugin, point.name().to_owned(), effect.to_owned());
            let counts = found.entry(key.clone()).or_default();
            counts.0 += 1;
            if seen.insert(key) {
                counts.1 += 1;
                counts.2 += usize::from(row.solved());
            }
        }
    }
    let lines = found.into_iter().map(|((name, plugin, point, effect), (times, episodes, solved))| {
        FiringLine { plugin, name, point, effect, times, episodes, solved }
    });
    Ok(lines.collect())
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn percent(part: usize, whole: usize) -> String {
    format!("{:.1} % ({part}/{whole})", 100.0 * share(part, whole))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Harnesses")?;
        let lines = self.harnesses.iter().map(|line| {
            let plugins = if line.plugins.is_empty() { "no plugins".into() } else { line.plugins.join(", ") };
            vec![format!("round {}", line.round), line.digest.short(), plugins, line.reason.clone()]
        });
        table(f, &["", "digest", "plugins", "why"], lines)?;

        writeln!(f, "\nTraining episodes")?;
        table(f, &["policy", "harness", "pass rate", "trainable rate"], self.rates.iter().map(rate_cells))?;

        if !self.skilled.is_empty() {
            writeln!(f, "\nTraining episodes with a skill; gates, tables and pairs have none")?;
            let head = ["policy", "harness", "pass rate", "trainable rate"];
            table(f, &head, self.skilled.iter().map(rate_cells))?;
        }
        for (round, skills) in &self.skills {
            for row in &skills.skills {
                let (task, short) = (&row.task, row.skill.short());
                writeln!(
                    f,
                    "  round {round}: skill {short} for {task} ({}): {}",
                    skills.mode, row.mechanism
                )?;
            }
            for (task, reasons) in &skills.refused {
                let why = reasons.last().and_then(|reason| reason.lines().next()).unwrap_or_default();
                writeln!(f, "  round {round}: no skill for {task}: {why}")?;
            }
        }
        for (round, top_up) in &self.top_ups {
            let TopUpReport { groups, rescued, given_up, episodes } = top_up;
            writeln!(
                f,
                "  round {round}: {groups} groups topped up with {episodes} episodes: {rescued} teach now, {given_up} are left out"
            )?;
        }

        for line in &self.diagnoses {
            let diagnosis = &line.diagnosis;
            writeln!(
                f,
                "\nDiagnosis of round {}: {} of {} episodes failed, {} of them by a wrong idea alone",
                line.round, diagnosis.failed, diagnosis.episodes, diagnosis.strategy
            )?;
            let lines = diagnosis.signals.iter().map(|(signal, tasks)| {
                vec![
                    signal.name().to_owned(),
                    tasks.values().sum::<usize>().to_string(),
                    tasks.len().to_string(),
                ]
            });
            table(f, &["signal", "episodes", "tasks"], lines)?;
        }

        if !self.teachers.is_empty() {
            writeln!(f, "\nTeachers")?;
            let lines = self.teachers.iter().map(|line| {
                vec![
                    line.role.clone(),
                    format!("{} ({})", line.model, line.kind),
                    format!("{}/{}", line.replies, line.tries),
                    format!("{} + {}", line.prompt_tokens, line.reply_tokens),
                    format!("{:.4}", line.cost),
                    format!("{:.1}", line.seconds),
                ]
            });
            table(f, &["role", "teacher", "replies/tries", "tokens", "cost", "seconds"], lines)?;
        }
        for line in &self.asked {
            for asked in &line.report.asked {
                let name = asked.proposal.as_deref().unwrap_or("no proposal");
                for reason in asked.reasons.iter().filter_map(|reason| reason.lines().next()) {
                    writeln!(f, "  round {}: {name}, sent back: {reason}", line.round)?;
                }
            }
            if let Some(why) = line.report.stopped.as_deref().and_then(|why| why.lines().next()) {
                writeln!(f, "  round {}: not asked further: {why}", line.round)?;
            }
        }

        for (round, screen) in &self.screens {
            for look in &screen.looks {
                let arms = look
                    .arms
                    .iter()
                    .map(|arm| format!("{} {}/{}", arm.name, arm.counts.solved, arm.counts.rollouts));
                let arms: Vec<_> = arms.collect();
                writeln!(f, "\nScreen of round {round} on {} tasks: {}", look.tasks, arms.join(", "))?;
            }
        }

        writeln!(f, "\nGate ledger")?;
        if self.ledger.is_empty() {
            writeln!(f, "  no candidate")?;
        }
        for line in &self.ledger {
            let candidate = &line.candidate;
            let kept = candidate.proposal.source.short();
            let made = match candidate.proposal.kind {
                EditKind::Plugin => format!("source {kept}, built in {:.1} s", candidate.build_seconds),
                _ => format!("edit {kept}"),
            };
            let signal = candidate.proposal.signal.name();
            writeln!(f, "  round {}: {} for {signal} ({made})", line.round, candidate.name())?;
            writeln!(f, "    {}", candidate.verdict())?;
            if let Some(gate) = &candidate.gate {
                writeln!(
                    f,
                    "    paired: {}; paper's rule: {} (pass {:.1} % to {:.1} %, trainable {:.1} % to {:.1} %)",
                    verdict(gate.paired),
                    verdict(gate.paper.verdict),
                    100.0 * gate.paper.pass_incumbent,
                    100.0 * gate.paper.pass_candidate,
                    100.0 * gate.paper.trainable_incumbent,
                    100.0 * gate.paper.trainable_candidate,
                )?;
            }
            if let Some(saved) = &candidate.saved {
                writeln!(
                    f,
                    "    saved: {} ties by replay ({} audited, {} differed), {} training episodes as the incumbent's",
                    saved.ties, saved.audited, saved.differed, saved.reused
                )?;
            }
        }
        for (round, look) in &self.holdout {
            writeln!(
                f,
                "  round {round}: the hold-out says of {} against {}: {}{}",
                look.now.short(),
                look.before.short(),
                look.word.name(),
                if look.rolled_back { ", rolled back" } else { "" }
            )?;
        }

        writeln!(f, "\nWhat the plugins did")?;
        let lines = self.firings.iter().map(|line| {
            vec![
                line.name.clone(),
                line.plugin.short(),
                line.point.clone(),
                line.effect.clone(),
                line.times.to_string(),
                percent(line.solved, line.episodes),
            ]
        });
        table(f, &["plugin", "digest", "point", "effect", "times", "episodes solved"], lines)?;

        writeln!(f, "\nPolicy updates")?;
        if self.updates.is_empty() {
            writeln!(f, "  none")?;
        }
        for update in &self.updates {
            writeln!(f, "  {}", update.sentence())?;
        }

        if !self.table.is_empty() {
            writeln!(f, "\nFinal table: policy × harness, same tasks and seeds")?;
            table(
                f,
                &["policy", "harness", "pass rate", "trainable rate"],
                self.table.iter().map(rate_cells),
            )?;
        }
        if !self.invalid.is_empty() {
            writeln!(f, "\nEpisodes without a verdict, in no rate")?;
            let lines = self.invalid.iter().map(|(cause, count)| vec![cause.clone(), count.to_string()]);
            table(f, &["cause", "episodes"], lines)?;
        }
        Ok(())
    }
}

fn rate_cells(line: &RateLine) -> Vec<String> {
    vec![
        format!("v{}", line.policy_version),
        line.harness.short(),
        percent(line.solved, line.episodes),
        percent(line.mixed, line.groups),
    ]
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Accept => "accept",
        Verdict::Reject => "reject",
    }
}

/// Columns as wide as their widest cell.
fn table(f: &mut fmt::Formatter<'_>, head: &[&str], lines: impl Iterator<Item = Vec<String>>) -> fmt::Result {
    let lines: Vec<_> = lines.collect();
    if lines.is_empty() {
        return writeln!(f, "  none");
    }
    let head: Vec<_> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let width = |column: usize| {
        [&head].into_iter().chain(&lines).map(|line| line[column].chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..head.len()).map(width).collect();
    for line in [&head].into_iter().chain(&lines) {
        let cells: Vec<_> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(f, "  {}", cells.join("  ").trim_end())?;
    }
    Ok(())
}
