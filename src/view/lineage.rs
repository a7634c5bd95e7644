//! Where did each change of a run's harness come from, what spoke for it, and does it live?

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use anyhow::Result;
use serde::Serialize;
use tandem_host::store::Digest;

use super::report::report;
use crate::campaign::{CampaignConfig, CandidateReport, KEPT, Publication, RunRecord, gate_id_of};
use crate::evolve::{Diagnosis, EditKind};

/// The history of a run's harness.
#[derive(Debug, Serialize)]
pub struct Lineage {
    pub harnesses: Vec<Step>,
    pub plugins: Vec<Line>,
    /// Proposed changes that are no plugins: of prompts, settings, limits and orders, and removals.
    pub edits: Vec<Line>,
}

/// A publication.
#[derive(Debug, Serialize)]
pub struct Step {
    pub number: usize,
    pub round: u32,
    pub digest: Digest,
    pub plugins: Vec<String>,
    pub reason: String,
}

/// One plugin that the run began with, or one change that somebody proposed.
#[derive(Debug, Serialize)]
pub struct Line {
    pub name: String,
    pub kind: EditKind,
    /// What an edit changes, for people; none of a plugin.
    pub changes: Option<String>,
    pub plugin: Option<Digest>,
    /// The blob with the source of a plugin, or with the edit.
    pub source: Option<Digest>,
    /// `file`, `catalog`, or the kind and model of a teacher.
    pub author: String,
    /// What it does, in a sentence.
    pub mechanism: Option<String>,
    pub evidence: Option<EvidenceLine>,
    /// Its gate, as `tandem gate explain` knows it.
    pub gate: Option<String>,
    /// The harness that it was put into, and the one with it.
    pub incumbent: Option<Digest>,
    pub candidate: Option<Digest>,
    pub verdict: String,
    pub paired: Option<String>,
    pub paper: Option<String>,
    /// Pass rates of incumbent and candidate in the gate.
    pub pass: Option<[f64; 2]>,
    /// The first and the last publication that holds it.
    pub lived: Option<[usize; 2]>,
    pub alive: bool,
    /// What it did, and how many of the episodes in which it did something were solved.
    pub times: usize,
    pub episodes: usize,
    pub solved: usize,
}

/// What the diagnosis had counted when it was proposed.
#[derive(Debug, Serialize)]
pub struct EvidenceLine {
    pub round: u32,
    pub signal: String,
    pub episodes: usize,
    pub tasks: usize,
    pub failed: usize,
}

/// Reads the lineage of a run.
pub fn lineage(record: &RunRecord) -> Result<Lineage> {
    let publications = record.publications()?;
    let manifests = publications.iter().map(|publication| record.harness(&publication.digest));
    let manifests = manifests.collect::<Result<Vec<_>>>()?;
    let members: Vec<Vec<(String, Digest)>> = manifests
        .iter()
        .map(|manifest| manifest.plugins.iter().map(|plugin| (plugin.name.clone(), plugin.digest)).collect())
        .collect();
    let author = author(record);
    let mut plugins = Vec::new();
    for (name, digest) in members.first().into_iter().flatten() {
        plugins.push(Line {
            name: name.clone(),
            kind: EditKind::Plugin,
            changes: None,
            plugin: Some(*digest),
            source: record.source_of(digest)?.map(|source| source.digest),
            author: "file".into(),
            mechanism: None,
            evidence: None,
            gate: None,
            incumbent: None,
            candidate: None,
            verdict: "the run began with it".into(),
            paired: None,
            paper: None,
            pass: None,
            lived: None,
            alive: false,
            times: 0,
            episodes: 0,
            solved: 0,
        });
    }
    let mut edits = Vec::new();
    let ancestry = record.ancestry()?;
    for (round, phase, candidate) in record.phases::<CandidateReport>("candidate-")? {
        if candidate.proposal.kind.is_plugin() {
            plugins.push(line(record, &author, round, &phase, candidate)?);
            continue;
        }
        let edit = candidate.proposal.edit(record.blobs())?;
        let stands: Vec<bool> = manifests.iter().map(|manifest| candidate.left(&edit, manifest)).collect();
        // Another candidate may have led to the same harness: what was not accepted was never published.
        let first = publications.iter().position(|publication| {
            Some(publication.digest) == candidate.harness && publication.round >= round
        });
        let first = first.filter(|_| candidate.accepted());
        let alive = manifests.last().is_some_and(|last| candidate.stands(&edit, &ancestry, last));
        let mut line = line(record, &author, round, &phase, candidate)?;
        line.changes = Some(edit.what());
        line.lived = first.map(|first| {
            let last = (first..manifests.len()).rev().find(|at| stands[*at]).unwrap_or(first);
            [first, if alive { manifests.len() - 1 } else { last }]
        });
        line.alive = alive;
        edits.push(line);
    }
    let mut firings: BTreeMap<Digest, [usize; 3]> = BTreeMap::new();
    for firing in report(record)?.firings {
        let sums = firings.entry(firing.plugin).or_default();
        sums[0] += firing.times;
        // One episode may have several effects of a plugin: the largest point speaks for it.
        if firing.episodes > sums[1] {
            (sums[1], sums[2]) = (firing.episodes, firing.solved);
        }
    }
    for line in &mut plugins {
        let Some(digest) = line.plugin else { continue };
        let within = |plugins: &Vec<(String, Digest)>| plugins.contains(&(line.name.clone(), digest));
        let first = members.iter().position(within);
        let last = members.iter().rposition(within);
        line.lived = first.zip(last).map(|(first, last)| [first, last]);
        line.alive = last.is_some_and(|last| last + 1 == members.len());
        [line.times, line.episodes, line.solved] = firings.get(&digest).copied().unwrap_or_default();
    }
    let steps = publications.into_iter().zip(members).enumerate();
    let harnesses = steps
        .map(|(number, (Publication { round, digest, reason }, plugins))| Step {
            number,
            round,
            digest,
            plugins: plugins.into_iter().map(|(name, _)| name).collect(),
            reason,
        })
        .collect();
    Ok(Lineage { harnesses, plugins, edits })
}

/// Who proposes in this run.
fn author(record: &RunRecord) -> String {
    let kept = std::fs::read_to_string(record.folder().join(KEPT)).unwrap_or_default();
    let Ok(config) = serde_json::from_str::<CampaignConfig>(&kept) else { return "unknown".into() };
    let teacher = config.teacher.harness;
    match teacher.model.as_str() {
        "" => teacher.kind.name().to_owned(),
        model => format!("{} {model}", teacher.kind.name()),
    }
}

fn line(
    record: &RunRecord,
    author: &str,
    round: u32,
    phase: &str,
    candidate: CandidateReport,
) -> Result<Line> {
    let (verdict, name) = (candidate.verdict(), candidate.name());
    let CandidateReport { proposal, plugin, incumbent, harness, gate, .. } = candidate;
    let counted = record.phase::<Diagnosis>(round, "diagnosis")?.map(|diagnosis| {
        let tasks = diagnosis.signals.get(&proposal.signal);
        EvidenceLine {
            round,
            signal: proposal.signal.name().into(),
            episodes: tasks.map_or(0, |tasks| tasks.values().sum()),
            tasks: tasks.map_or(0, |tasks| tasks.len()),
            failed: diagnosis.failed,
        }
    });
    Ok(Line {
        name,
        kind: proposal.kind,
        changes: None,
        plugin,
        source: Some(proposal.source),
        author: author.to_owned(),
        mechanism: Some(proposal.rationale),
        evidence: counted,
        gate: gate.as_ref().and(gate_id_of(round, phase)),
        incumbent: Some(incumbent),
        candidate: harness,
        verdict,
        paired: gate.as_ref().map(|gate| gate.paired.name().to_owned()),
        paper: gate.as_ref().map(|gate| gate.paper.verdict.name().to_owned()),
        pass: gate.as_ref().map(|gate| [gate.paper.pass_incumbent, gate.paper.pass_candidate]),
        lived: None,
        alive: false,
        times: 0,
        episodes: 0,
        solved: 0,
    })
}

impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Harnesses, in the order of publication")?;
        for step in &self.harnesses {
            let plugins = if step.plugins.is_empty() { "no plugins".into() } else { step.plugins.join(", ") };
            writeln!(f, "  {} {} round {}: {plugins}", step.number, step.digest.short(), step.round)?;
            writeln!(f, "      {}", step.reason)?;
        }
        for line in self.plugins.iter().chain(&self.edits) {
            let built = || line.plugin.map_or("not built".into(), |digest| digest.short());
            match &line.changes {
                None => writeln!(f, "\n{} ({}), by {}", line.name, built(), line.author)?,
                Some(what) => writeln!(f, "\n{}: {what}, by {}", line.name, line.author)?,
            }
            if let Some(mechanism) = &line.mechanism {
                writeln!(f, "  mechanism  {mechanism}")?;
            }
            if let Some(evidence) = &line.evidence {
                writeln!(
                    f,
                    "  evidence   round {}: {} in {} of {} failed episodes, on {} tasks",
                    evidence.round, evidence.signal, evidence.episodes, evidence.failed, evidence.tasks
                )?;
            }
            writeln!(f, "  verdict    {}", line.verdict.replace('\n', " "))?;
            if let (Some(gate), Some(paired), Some(paper)) = (&line.gate, &line.paired, &line.paper) {
                writeln!(f, "  gate       {gate}: paired {paired}, paper's rule {paper}")?;
            }
            match (line.lived, line.alive) {
                (Some([first, _]), true) => writeln!(f, "  survival   since harness {first}, in force")?,
                (Some([first, last]), false) => {
                    writeln!(f, "  survival   harness {first} to {last}, then out")?;
                }
                (None, _) => writeln!(f, "  survival   never published")?,
            }
            if line.times > 0 {
                writeln!(
                    f,
                    "  effects    {} times, in {} episodes, of which {} were solved",
                    line.times, line.episodes, line.solved
                )?;
            }
        }
        Ok(())
    }
}

impl Lineage {
    /// The same as a graph for Graphviz.
    pub fn graph(&self) -> String {
        let mut text = String::from("digraph lineage {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n");
        for step in &self.harnesses {
            let plugins = if step.plugins.is_empty() { "no plugins".into() } else { step.plugins.join("\n") };
            let label = quoted(&format!("{}\nround {}\n{plugins}", step.digest.short(), step.round));
            let _ = writeln!(text, "  h{} [shape=box, label={label}];", step.number);
        }
        for pair in self.harnesses.windows(2) {
            let _ = writeln!(text, "  h{} -> h{} [style=bold];", pair[0].number, pair[1].number);
        }
        let number = |digest: Option<Digest>| {
            self.harnesses.iter().rev().find(|step| Some(step.digest) == digest).map(|step| step.number)
        };
        for (at, line) in self.plugins.iter().chain(&self.edits).enumerate() {
            let (colour, style) = match (line.lived.is_some(), line.alive) {
                (_, true) => ("darkgreen", "solid"),
                (true, false) => ("gray40", "dashed"),
                (false, false) => ("firebrick", "dashed"),
            };
            let label = quoted(&format!("{}\n{}", line.name, line.author));
            let _ = writeln!(text, "  p{at} [shape=ellipse, color={colour}, style={style}, label={label}];");
            let target = line.lived.map(|[first, _]| first).or_else(|| number(line.incumbent));
            if let Some(target) = target {
                let why = line.evidence.as_ref().map_or(String::new(), |evidence| evidence.signal.clone());
                let why = quoted(&why);
                let _ = writeln!(text, "  p{at} -> h{target} [color={colour}, style={style}, label={why}];");
            }
        }
        text.push_str("}\n");
        text
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
