//! How does a pair look on one page?

use std::fmt;

use serde_json::Value;

use super::contents::Contents;
use super::evaluation::{Cell, Evaluation};
use super::manifest::{PairEdit, PairPlugin, PolicyForm};
use super::provenance::{AuthorKind, Provenance};

/// Characters of a sentence of an author; the rest is in the JSON.
const SENTENCE: usize = 100;

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = &self.manifest;
        writeln!(f, "pair `{}`: {}", pair.name, pair.digest)?;
        writeln!(
            f,
            "{} files, {}; packed by tandem {}; needs {}",
            pair.files.len(),
            size(self.bytes),
            pair.program,
            pair.contract
        )?;

        let policy = &pair.policy;
        let form = match policy.form {
            PolicyForm::Full => "all weights",
            PolicyForm::Adapter => "an adapter, the base not included",
        };
        writeln!(f, "\nPolicy {}", policy.digest)?;
        writeln!(f, "  version {} of `{}`: {form}", policy.version, policy.base.name)?;
        writeln!(f, "  base {}", policy.base.digest)?;
        if let Some(start) = &policy.base.start {
            writeln!(f, "  the run began with an adapter on it, {start}")?;
        }
        if let Some(template) = &policy.chat_template {
            writeln!(f, "  chat template {template}")?;
        }
        let sampling = &policy.sampling;
        writeln!(
            f,
            "  conversations of {} tokens; replies of {}, temperature {}",
            policy.context, sampling.max_tokens, sampling.temperature
        )?;

        writeln!(f, "\nHarness {}", pair.harness)?;
        if pair.plugins.is_empty() {
            writeln!(f, "  no plugins")?;
        }
        for (plugin, entry) in pair.plugins.iter().zip(&self.harness_manifest.plugins) {
            let grants = match entry.grants.is_empty() {
                true => "asks for nothing".to_owned(),
                false => format!("asks for {}", entry.grants.join(", ")),
            };
            writeln!(
                f,
                "  {} ({}): {grants}; {}",
                plugin.name,
                plugin.component.short(),
                written_by(plugin)
            )?;
            if let Some(command) = super::runs(&entry.settings) {
                writeln!(f, "      trusted: it runs the command `{command}`")?;
            }
            for line in story(&plugin.provenance) {
                writeln!(f, "      {line}")?;
            }
        }
        for edit in &pair.edits {
            let who = proposed_by(edit);
            writeln!(f, "  {} changes {}; {who}", edit.name, edit.changes)?;
            for line in story(&edit.provenance) {
                writeln!(f, "      {line}")?;
            }
        }
        writeln!(f, "  limits: {}", limits(&self.harness_manifest.limits))?;
        let prompts = &self.harness_manifest.prompts;
        let prompts = [
            ("system", &prompts.system),
            ("instance", &prompts.instance),
            ("observation", &prompts.observation),
            ("format error", &prompts.format_error),
        ];
        let prompts: Vec<_> =
            prompts.iter().map(|(name, text)| format!("{name} {}", text.chars().count())).collect();
        writeln!(f, "  prompts, in characters: {}", prompts.join(", "))?;

        writeln!(f, "\nEvaluation")?;
        match &pair.evaluation {
            None => writeln!(f, "  none: the run was packed before its table")?,
            Some(evaluation) => write_table(f, evaluation)?,
        }

        writeln!(f, "\nLicences")?;
        writeln!(f, "  base policy: {}", pair.licences.base_policy.as_deref().unwrap_or("not known"))?;
        for (plugin, licence) in &pair.licences.plugins {
            writeln!(f, "  {plugin}: {}", licence.as_deref().unwrap_or("not known"))?;
        }
        Ok(())
    }
}

/// Who wrote a plugin, in words.
pub fn written_by(plugin: &PairPlugin) -> String {
    let author = &plugin.provenance.author;
    let who = match (author.kind, &author.teacher) {
        (AuthorKind::File, _) => return "the run was given it".to_owned(),
        (AuthorKind::Catalog, _) => "from the catalog".to_owned(),
        (AuthorKind::Teacher, Some(teacher)) => format!("written by the teacher {teacher}"),
        (AuthorKind::Teacher, None) => "written by a teacher".to_owned(),
    };
    let language = plugin.source.as_ref().map(|source| format!(", {}", source.language));
    format!("{who}{}", language.unwrap_or_default())
}

/// Who proposed an edit, in words.
pub fn proposed_by(edit: &PairEdit) -> String {
    let author = &edit.provenance.author;
    match (author.kind, &author.teacher) {
        (AuthorKind::File, _) => "the run was given it".to_owned(),
        (AuthorKind::Catalog, _) => "from the catalog".to_owned(),
        (AuthorKind::Teacher, Some(teacher)) => format!("proposed by the teacher {teacher}"),
        (AuthorKind::Teacher, None) => "proposed by a teacher".to_owned(),
    }
}

fn story(told: &Provenance) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(told.mechanism.as_deref().map(|text| cut(text)));
    if let Some(seen) = &told.evidence {
        lines.push(format!(
            "answers `{}`, seen in {} episodes of {} tasks in round {}, where {} failed",
            seen.signal, seen.episodes, seen.tasks, seen.round, seen.failed
        ));
    }
    if let Some(gate) = &told.gate {
        lines.push(format!(
            "gate of round {}: {} by `{}`; pass {} to {}, trainable {} to {} on {} tasks, {} rollouts in each arm",
            gate.round,
            gate.verdict,
            gate.rule,
            percent(gate.pass_incumbent),
            percent(gate.pass_candidate),
            percent(gate.trainable_incumbent),
            percent(gate.trainable_candidate),
            gate.tasks,
            gate.rollouts
        ));
    }
    lines
}

fn cut(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(SENTENCE) {
        Some((at, _)) => format!("{}…", line[..at].trim_end()),
        None => line.to_owned(),
    }
}

fn limits(limits: &impl serde::Serialize) -> String {
    let Ok(Value::Object(map)) = serde_json::to_value(limits) else { return String::new() };
    let words = map.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name} {text}"),
        other => format!("{name} {other}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn write_table(f: &mut fmt::Formatter<'_>, evaluation: &Evaluation) -> fmt::Result {
    writeln!(f, "  {:<8} {:<12}  {:>5}  {:>8}  pass rate", "policy", "harness", "tasks", "episodes")?;
    for cell in &evaluation.cells {
        writeln!(
            f,
            "  {:<8} {:<12}  {:>5}  {:>8}  {}{}",
            format!("v{}", cell.policy_version),
            cell.harness.short(),
            cell.tasks,
            cell.episodes,
            rate(cell),
            if cell.of_pair { "  <- this pair" } else { "" }
        )?;
    }
    if !evaluation.cells.iter().any(|cell| cell.of_pair) {
        writeln!(f, "  this pair itself was not evaluated: its run went on after its table")?;
    }
    if let Some(gain) = &evaluation.gain {
        writeln!(
            f,
            "  over what the run began with: {} on {} tasks",
            with_interval(gain.pass_rate, gain.interval),
            gain.tasks
        )?;
    }
    writeln!(f, "  {}", evaluation.method)
}

/// The pass rate of a cell with its interval.
pub fn rate(cell: &Cell) -> String {
    with_interval(cell.pass_rate, cell.interval)
}

/// A rate in percent, with its interval where there is one.
pub fn with_interval(rate: f64, interval: Option<[f64; 2]>) -> String {
    match interval {
        Some([low, high]) => format!("{} [{}, {}]", percent(rate), percent(low), percent(high)),
        None => format!("{} (no interval: too few tasks)", percent(rate)),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}
