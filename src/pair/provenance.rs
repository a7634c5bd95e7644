//! Who proposed a plugin or an edit of a run, why, and what let it in?

use std::fs;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tandem_host::forge;
use tandem_host::harness::HarnessManifest;
use tandem_host::store::Digest;

use super::manifest::PairEdit;
use crate::campaign::{CampaignConfig, CandidateReport, Change, RunRecord, candidates};
use crate::evolve::{Diagnosis, GateReport};

/// Where a plugin or an edit came from, as far as the record of its run tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    pub author: Author,
    /// Why it should help, in a sentence.
    pub mechanism: Option<String>,
    /// What its author said could get worse.
    pub risks: Vec<String>,
    pub evidence: Option<Evidence>,
    pub gate: Option<GateRecord>,
    /// Compiler, SDK and what else took part in the build of a plugin.
    pub tools: Vec<forge::Tool>,
}

/// Who wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Author {
    pub kind: AuthorKind,
    /// Of a teacher: its kind and model.
    pub teacher: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuthorKind {
    /// It came with the manifest that the run began with.
    File,
    Catalog,
    Teacher,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    pub round: u32,
    /// The signal that the diagnosis counted.
    pub signal: String,
    /// Episodes and tasks with the signal, and all failed ones that were looked at.
    pub episodes: usize,
    pub tasks: usize,
    pub failed: usize,
}

/// The gate's verdict with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateRecord {
    pub round: u32,
    /// The harness that it was compared with.
    pub incumbent: Digest,
    /// `accept` or `reject`, by the rule that decided.
    pub verdict: String,
    pub rule: String,
    /// The verdicts of both rules.
    pub paired: String,
    pub paper: String,
    pub tasks: usize,
    /// Of one task in one arm.
    pub rollouts: usize,
    pub pass_incumbent: f64,
    pub pass_candidate: f64,
    pub trainable_incumbent: f64,
    pub trainable_candidate: f64,
    /// Evidence of the paired test; accepted from 1/alpha on.
    pub superiority: f64,
    /// Evidence that neither rate fell; accepted from 1/beta on.
    pub level_pass: f64,
    pub level_trainable: f64,
    pub alpha: f64,
    pub beta: f64,
    pub reason: String,
}

/// Where the plugin `component` of a run came from.
pub fn provenance(record: &RunRecord, config: &CampaignConfig, component: &Digest) -> Result<Provenance> {
    let accepted = candidates(record)?
        .into_iter()
        .rev()
        .find(|(_, _, report)| report.accepted() && report.plugin.as_ref() == Some(component));
    let tools = tools(record, component)?;
    match accepted {
        Some((round, _, report)) => Ok(Provenance { tools, ..of_candidate(record, config, round, &report)? }),
        None => Ok(Provenance {
            author: Author { kind: AuthorKind::File, teacher: None },
            mechanism: None,
            risks: Vec::new(),
            evidence: None,
            gate: None,
            tools,
        }),
    }
}

/// The edits that a run accepted and that `harness` still shows, oldest first: all that is in it and is no
/// plugin, and did not come with the first harness.
pub fn edits(
    record: &RunRecord,
    config: &CampaignConfig,
    harness: &HarnessManifest,
) -> Result<Vec<PairEdit>> {
    let ancestry = record.ancestry()?;
    let mut found = Vec::new();
    for (round, _, report) in candidates(record)? {
        let proposal = &report.proposal;
        if proposal.kind.is_plugin() || report.change == Change::Remove || !report.accepted() {
            continue;
        }
        let edit = proposal.edit(record.blobs())?;
        if !report.stands(&edit, &ancestry, harness) {
            continue;
        }
        let provenance = of_candidate(record, config, round, &report)?;
        let (name, changes) = (proposal.name.clone(), edit.what());
        found.push(PairEdit { name, changes, edit, provenance });
    }
    Ok(found)
}

/// What the record tells of an accepted candidate.
fn of_candidate(
    record: &RunRecord,
    config: &CampaignConfig,
    round: u32,
    report: &CandidateReport,
) -> Result<Provenance> {
    let proposal = &report.proposal;
    let diagnosis = record.phase::<Diagnosis>(round, "diagnosis")?;
    let evidence = diagnosis.map(|diagnosis| {
        let counted = diagnosis.signals.get(&proposal.signal);
        Evidence {
            round,
            signal: proposal.signal.name().into(),
            episodes: counted.map_or(0, |tasks| tasks.values().sum()),
            tasks: counted.map_or(0, |tasks| tasks.len()),
            failed: diagnosis.failed,
        }
    });
    let gate = report.gate.as_ref().map(|gate| gate_record(round, report.incumbent, gate)).transpose()?;
    Ok(Provenance {
        author: author(config),
        mechanism: Some(proposal.rationale.clone()),
        risks: proposal.manifest.as_ref().map(|manifest| manifest.risks.clone()).unwrap_or_default(),
        evidence,
        gate,
        tools: Vec::new(),
    })
}

fn author(config: &CampaignConfig) -> Author {
    let teacher = &config.teacher.harness;
    match teacher.kind.name() {
        "catalog" => Author { kind: AuthorKind::Catalog, teacher: None },
        kind => {
            let model = Some(&teacher.model).filter(|model| !model.is_empty());
            let name = model.map_or_else(|| kind.to_owned(), |model| format!("{kind} {model}"));
            Author { kind: AuthorKind::Teacher, teacher: Some(name) }
        }
    }
}

/// What the forge noted beside the component.
fn tools(record: &RunRecord, component: &Digest) -> Result<Vec<forge::Tool>> {
    let path = forge::Provenance::path_beside(&record.blobs().path(component));
    match fs::read(&path) {
        Ok(bytes) => {
            let noted: forge::Provenance = serde_json::from_slice(&bytes)
                .with_context(|| format!("{} is not a provenance record", path.display()))?;
            Ok(noted.tools)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

fn gate_record(round: u32, incumbent: Digest, gate: &GateReport) -> Result<GateRecord> {
    // The name as the record and the campaign file write it.
    fn word<T: Serialize>(value: &T) -> Result<String> {
        Ok(serde_json::to_value(value)?.as_str().unwrap_or_default().to_owned())
    }
    // Evidence grows without bound; JSON has no infinity.
    let short = |value: f64| (value.clamp(-1e9, 1e9) * 1e6).round() / 1e6;
    Ok(GateRecord {
        round,
        incumbent,
        verdict: word(&gate.verdict)?,
        rule: word(&gate.config.rule)?,
        paired: word(&gate.paired)?,
        paper: word(&gate.paper.verdict)?,
        tasks: gate.tasks.len(),
        rollouts: gate.config.group_size,
        pass_incumbent: short(gate.paper.pass_incumbent),
        pass_candidate: short(gate.paper.pass_candidate),
        trainable_incumbent: short(gate.paper.trainable_incumbent),
        trainable_candidate: short(gate.paper.trainable_candidate),
        superiority: short(gate.superiority),
        level_pass: short(gate.level_pass),
        level_trainable: short(gate.level_trainable),
        alpha: gate.config.alpha,
        beta: gate.config.beta,
        reason: gate.reason.clone(),
    })
}
