//! What is kept of the phases of a round? Written by the run, read by the report
//! and the pair.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tandem_host::forge::Language;
use tandem_host::harness::HarnessManifest;
use tandem_host::store::{BlobStore, Digest};
use tandem_trainer::learner::MOST_SKIPS;

use super::record::RunRecord;
use crate::evolve::{Edit, EditKind, GateReport, Manifest, Proposal, Signal, Verdict};

/// A proposal as kept in the record; what it changes is a blob.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProposalRow {
    pub name: String,
    pub signal: Signal,
    /// What kind of edit it is. Left out of what is kept of a plugin, as older programs wrote it.
    #[serde(default, skip_serializing_if = "EditKind::is_plugin")]
    pub kind: EditKind,
    /// The blob and the identity of the edit: the source of a plugin, else the edit as canonical JSON.
    pub source: Digest,
    /// Of a plugin, as are the grants.
    #[serde(default)]
    pub language: Language,
    #[serde(default)]
    pub grants: Vec<String>,
    pub rationale: String,
    /// What a model said about it, predictions included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Manifest>,
}

impl ProposalRow {
    /// Whether both propose the same change: the same text may be proposed again, with another rationale.
    pub fn is_same_edit(&self, other: &Self) -> bool {
        (&self.name, self.kind, self.source) == (&other.name, other.kind, other.source)
    }

    /// Keeps a proposal: its edit in `blobs`.
    ///
    /// # Errors
    /// A blob that cannot be written.
    pub fn keep(proposal: &Proposal, blobs: &BlobStore) -> Result<Self> {
        let (language, grants) = match &proposal.edit {
            Edit::Plugin { language, grants, .. } => (*language, grants.clone()),
            _ => Default::default(),
        };
        Ok(Self {
            name: proposal.name.clone(),
            signal: proposal.signal,
            kind: proposal.edit.kind(),
            source: blobs.put(proposal.edit.kept().as_bytes())?,
            language,
            grants,
            rationale: proposal.rationale.clone(),
            manifest: proposal.manifest.clone(),
        })
    }

    /// What it changes.
    ///
    /// # Errors
    /// A blob that is missing or is no edit.
    pub fn edit(&self, blobs: &BlobStore) -> Result<Edit> {
        let kept = blobs.get(&self.source)?;
        let text = String::from_utf8(kept)
            .with_context(|| format!("what the run keeps of the proposal `{}` is not text", self.name))?;
        if self.kind.is_plugin() {
            return Ok(Edit::Plugin { language: self.language, source: text, grants: self.grants.clone() });
        }
        serde_json::from_str(&text)
            .with_context(|| format!("what the run keeps of the proposal `{}` is no edit", self.name))
    }

    /// What people call it: another kind than a plugin is said.
    pub fn called(&self) -> String {
        match self.kind {
            EditKind::Plugin => self.name.clone(),
            kind => format!("{} ({kind})", self.name),
        }
    }
}

/// What asking the harness teacher in one round gave, beside its proposals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TeacherReport {
    /// For each proposal that was asked for, what was wrong in the rounds that were not usable.
    pub asked: Vec<AskedReport>,
    /// Why asking ended early: the budget, or an endpoint that gave no reply.
    pub stopped: Option<String>,
}

/// One proposal that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AskedReport {
    /// Its name, if one came of it.
    pub proposal: Option<String>,
    /// One for each round that was not usable.
    pub reasons: Vec<String>,
}

/// The phase that ends a run: nothing is left to do.
pub const END: &str = "end";

/// How a run came to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndReport {
    /// Why there was no further round.
    pub why: String,
}

/// What a candidate does to the harness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Makes the edit that was proposed: adds a plugin, sets a prompt.
    #[default]
    Add,
    /// Takes out what was accepted before and costs something by being there, to see whether it is still needed.
    Remove,
}

/// Rollouts of a gate that need not be run, and how that was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRollouts {
    /// Episodes of the candidate that are those of the incumbent, since the candidate does nothing in them.
    pub ties: usize,
    /// Such episodes that were run all the same and compared byte for byte, and those that differed.
    pub audited: usize,
    pub differed: usize,
    /// Training episodes that serve as the incumbent's.
    pub reused: usize,
}

/// What became of one candidate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CandidateReport {
    pub proposal: ProposalRow,
    #[serde(default)]
    pub change: Change,
    /// The component of a plugin that it adds, if the forge built it and admission let it in.
    pub plugin: Option<Digest>,
    pub incumbent: Digest,
    /// The harness with the candidate in it.
    pub harness: Option<Digest>,
    pub build_seconds: f64,
    /// Why it never came to a gate.
    pub refused: Option<String>,
    pub gate: Option<GateReport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<SavedRollouts>,
}

/// The candidates of a run that came to an end, with their round and their number in it, oldest first.
///
/// # Errors
/// A record that cannot be read.
pub fn candidates(record: &RunRecord) -> Result<Vec<(u32, usize, CandidateReport)>> {
    let phases = record.phases::<CandidateReport>("candidate-")?.into_iter();
    let mut all: Vec<_> = phases.map(|(round, phase, report)| (round, index_of(&phase), report)).collect();
    // By number: as text, candidate 10 would come before candidate 2.
    all.sort_by_key(|(round, index, _)| (*round, *index));
    Ok(all)
}

/// The number at the end of a phase's name, such as that of a candidate.
pub fn index_of(phase: &str) -> usize {
    phase.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// What of a run had its chance, so that it is not tried again.
#[derive(Clone, Debug, Default)]
pub struct Tried {
    /// Edits by digest, whatever harness they were for.
    pub edits: BTreeSet<Digest>,
    /// The harnesses that came of them. An edit of something that is there, such as a removal, is another trial
    /// in another harness; two edits that make one harness are one.
    pub harnesses: BTreeSet<Digest>,
}

/// Reads what a run has tried.
///
/// # Errors
/// A record that cannot be read.
pub fn tried(record: &RunRecord) -> Result<Tried> {
    let mut tried = Tried::default();
    let reports = candidates(record)?.into_iter().map(|(.., report)| report);
    for report in reports.filter(|report| report.refused.as_deref() != Some(OVERTAKEN)) {
        // A test of whether something is still needed is no proposal of its edit.
        if report.change == Change::Add {
            tried.edits.insert(report.proposal.source);
        }
        tried.harnesses.extend(report.harness);
    }
    Ok(tried)
}

/// Why an edit is refused whose part of the harness an earlier candidate of the round has changed. It may be
/// proposed again.
pub const OVERTAKEN: &str = "what it changes was changed by a candidate of the same round before it\nhelp: propose it for the harness as it is now";

impl CandidateReport {
    /// Whether what was accepted is so in the harness that the run has now: nothing took it back, and nothing
    /// took its place. `harness` is that harness, `ancestry` what it came from.
    pub fn stands(&self, edit: &Edit, ancestry: &[Digest], harness: &HarnessManifest) -> bool {
        let is_part = self.harness.is_some_and(|digest| ancestry.contains(&digest));
        self.accepted() && is_part && self.left(edit, harness)
    }

    /// Whether `harness` is as the candidate would have it: with the edit, or without it.
    pub fn left(&self, edit: &Edit, harness: &HarnessManifest) -> bool {
        edit.holds(&self.proposal.name, harness) == (self.change == Change::Add)
    }

    /// A candidate of which nothing is known but what it is.
    pub fn begun(proposal: ProposalRow, change: Change, incumbent: Digest) -> Self {
        Self {
            proposal,
            change,
            plugin: None,
            incumbent,
            harness: None,
            build_seconds: 0.0,
            refused: None,
            gate: None,
            saved: None,
        }
    }

    /// What people call it.
    pub fn name(&self) -> String {
        match self.change {
            Change::Add => self.proposal.called(),
            Change::Remove => format!("without {}", self.proposal.name),
        }
    }

    /// The reason of the publication that it becomes.
    pub fn publication_reason(&self) -> String {
        let ProposalRow { name, kind, rationale, .. } = &self.proposal;
        match (self.change, kind) {
            (Change::Add, EditKind::Plugin) => format!("added {name}: {rationale}"),
            (Change::Add, kind) => format!("changed {kind}, {name}: {rationale}"),
            (Change::Remove, _) => format!("removed {name}: neither rate is lower without it"),
        }
    }

    pub fn accepted(&self) -> bool {
        self.gate.as_ref().is_some_and(|gate| gate.verdict == Verdict::Accept)
    }

    /// What became of it, in one sentence.
    pub fn verdict(&self) -> String {
        match (&self.refused, &self.gate) {
            (Some(reason), _) => format!("refused before the gate: {reason}"),
            (None, Some(gate)) if self.accepted() => match self.change {
                Change::Add => format!("accepted and published: {}", gate.reason),
                Change::Remove => format!("removed, and published without it: {}", gate.reason),
            },
            (None, Some(gate)) if self.change == Change::Remove => format!("kept: {}", gate.reason),
            (None, Some(gate)) => format!("refused: {}", gate.reason),
            (None, None) => "not gated".into(),
        }
    }
}

/// One optimiser step of an update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepSummary {
    #[serde(deserialize_with = "number_or_nan")]
    pub loss: f64,
    #[serde(deserialize_with = "number_or_nan")]
    pub grad_norm: f64,
    /// Tokens with a loss.
    pub tokens: usize,
    #[serde(deserialize_with = "number_or_nan")]
    pub mean_ratio: f64,
    #[serde(deserialize_with = "number_or_nan")]
    pub clip_fraction: f64,
    /// Mean |log-prob of the trainer − log-prob of the sampler| over the tokens.
    #[serde(deserialize_with = "number_or_nan")]
    pub logprob_gap: f64,
    /// L2 norm of the change of the parameters.
    #[serde(deserialize_with = "number_or_nan")]
    pub update_norm: f64,
    /// The k3 estimate of the divergence from the policy before the update, in nats.
    #[serde(default, deserialize_with = "number_or_nan")]
    pub approx_kl: f64,
    /// Mean entropy at the trained tokens, in nats.
    #[serde(default, deserialize_with = "number_or_nan")]
    pub entropy: f64,
    #[serde(default)]
    pub learning_rate: f64,
    /// Tokens that went through the policy, without padding.
    #[serde(default)]
    pub context_tokens: usize,
    /// Share of what went through the policy that was padding.
    #[serde(default)]
    pub padding: f64,
    pub seconds: f64,
    pub skipped: Option<String>,
}

/// A step that was skipped may hold a number that is none, which JSON writes as `null`.
fn number_or_nan<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

impl StepSummary {
    fn tokens_per_second(&self) -> f64 {
        self.context_tokens as f64 / self.seconds.max(1e-9)
    }

    /// What a progress line says of it.
    pub fn line(&self) -> String {
        format!(
            "loss {:.4}, clip share {:.3}, KL {:.5}, entropy {:.3}, gradient {:.3}, gap {:.5}, {:.0} tokens/s, {:.0} % padding",
            self.loss,
            self.clip_fraction,
            self.approx_kl,
            self.entropy,
            self.grad_norm,
            self.logprob_gap,
            self.tokens_per_second(),
            100.0 * self.padding
        )
    }

    /// Its numbers by their names in TensorBoard.
    pub fn scalars(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("train/loss", self.loss),
            ("train/clip_share", self.clip_fraction),
            ("train/kl", self.approx_kl),
            ("train/entropy", self.entropy),
            ("train/gradient_norm", self.grad_norm),
            ("train/update_norm", self.update_norm),
            ("train/learning_rate", self.learning_rate),
            ("train/logprob_gap", self.logprob_gap),
            ("train/tokens_per_second", self.tokens_per_second()),
            ("train/padding_share", self.padding),
        ]
    }
}

/// What an update did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpdateReport {
    /// The version that the policy has now.
    pub version: u64,
    /// Groups of the round, and those with mixed outcomes that had an advantage.
    pub groups: usize,
    pub mixed_groups: usize,
    /// Mixed groups left out because of `update.max_tokens`.
    pub left_out: usize,
    pub episodes: usize,
    pub tokens: usize,
    pub steps: Vec<StepSummary>,
    /// Why there was no update, if there was none.
    pub skipped: Option<String>,
    /// Whether the numbers of so many steps in a row were not finite that the run ends.
    #[serde(default)]
    pub stuck: bool,
}

impl UpdateReport {
    /// Ends a run whose policy learns nothing any more.
    ///
    /// # Errors
    /// When the numbers of several steps in a row were not finite.
    pub fn check_stuck(&self, round: u32) -> Result<()> {
        if !self.stuck {
            return Ok(());
        }
        let reason = self.steps.iter().rev().find_map(|step| step.skipped.as_deref()).unwrap_or("not finite");
        bail!(
            "the policy update of round {round} ended the run: {MOST_SKIPS} optimiser steps in a row were \
             skipped, the last since {reason}\nhelp: checkpoint v{} holds the policy before them; start a new \
             run with a lower `update.learning_rate`",
            self.version
        )
    }

    /// One sentence for people.
    pub fn sentence(&self) -> String {
        if let Some(reason) = &self.skipped {
            return format!("no policy update: {reason}");
        }
        // An empty sum is -0.
        let moved = self.steps.iter().map(|step| step.update_norm).sum::<f64>() + 0.0;
        let gap = self.steps.first().map_or(0.0, |step| step.logprob_gap);
        format!(
            "policy v{}: {} steps on {} episodes of {} mixed groups ({} tokens); parameters moved by {moved:.4}; sampler and trainer differ by {gap:.5} a token",
            self.version,
            self.steps.len(),
            self.episodes,
            self.mixed_groups - self.left_out,
            self.tokens,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn step() -> StepSummary {
        StepSummary {
            loss: 0.5,
            grad_norm: 1.25,
            tokens: 40,
            mean_ratio: 1.01,
            clip_fraction: 0.125,
            logprob_gap: 0.00012,
            update_norm: 0.01,
            approx_kl: 0.0005,
            entropy: 1.5,
            learning_rate: 1e-4,
            context_tokens: 3000,
            padding: 0.07,
            seconds: 1.5,
            skipped: None,
        }
    }

    #[test]
    fn a_progress_line_tells_what_to_watch() {
        expect!["loss 0.5000, clip share 0.125, KL 0.00050, entropy 1.500, gradient 1.250, gap 0.00012, 2000 tokens/s, 7 % padding"]
            .assert_eq(&step().line());
    }

    #[test]
    fn a_skipped_step_is_read_back_from_the_record() {
        let step =
            StepSummary { loss: f64::NAN, grad_norm: f64::INFINITY, skipped: Some("NaN".into()), ..step() };
        let back: StepSummary = serde_json::from_str(&serde_json::to_string(&step).unwrap()).unwrap();
        assert!(back.loss.is_nan() && back.grad_norm.is_nan());
        assert_eq!((back.skipped, back.entropy), (step.skipped, step.entropy));
    }

    #[test]
    fn a_record_of_an_older_program_is_read() {
        let text = r#"{"loss":0.1,"grad_norm":1.0,"tokens":3,"mean_ratio":1.0,"clip_fraction":0.0,"logprob_gap":0.0,"update_norm":0.1,"seconds":1.0,"skipped":null}"#;
        let back: StepSummary = serde_json::from_str(text).unwrap();
        assert_eq!((back.context_tokens, back.approx_kl), (0, 0.0));
    }

    #[test]
    fn every_kind_of_proposal_is_kept_and_read_back_and_an_older_one_is_a_plugin() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = BlobStore::open(folder.path()).unwrap();
        let check = |edit: &str, called: &str| {
            let edit: Edit = serde_json::from_str(edit).unwrap();
            let (name, rationale) = ("an-idea".to_owned(), "it helps".to_owned());
            let signal = Signal::EmptyPatch;
            let proposal = Proposal { name, signal, edit, rationale, manifest: None };
            let row = ProposalRow::keep(&proposal, &blobs).unwrap();
            let row: ProposalRow = serde_json::from_str(&serde_json::to_string(&row).unwrap()).unwrap();
            assert_eq!(row.edit(&blobs).unwrap(), proposal.edit);
            assert_eq!((row.source, row.called().as_str()), (proposal.digest(), called));
        };
        check(r#"{"kind":"plugin","language":"go","source":"package p","grants":["state"]}"#, "an-idea");
        check(r#"{"kind":"settings","plugin":"p","settings":{"b":1,"a":[2]}}"#, "an-idea (settings)");
        check(r#"{"kind":"limits","limits":{"deferrals":1}}"#, "an-idea (limits)");
        check(r#"{"kind":"order","plugin":"p","place":{"before":"q"}}"#, "an-idea (order)");
        check(r#"{"kind":"prompt","prompt":"format-error","text":"No."}"#, "an-idea (prompt)");
        check(r#"{"kind":"remove","plugin":"p"}"#, "an-idea (remove)");
        let source = blobs.put(b"fn x() {}").unwrap();
        let older = format!(
            r#"{{"name":"old","signal":"empty-patch","source":"{source}","grants":["state"],"rationale":"r"}}"#
        );
        let row: ProposalRow = serde_json::from_str(&older).unwrap();
        let (source, grants) = ("fn x() {}".to_owned(), vec!["state".to_owned()]);
        assert_eq!(row.edit(&blobs).unwrap(), Edit::Plugin { language: Language::Rust, source, grants });
        // What this program keeps of a plugin is what older ones read.
        assert!(!serde_json::to_string(&row).unwrap().contains("kind"));
    }

    #[test]
    fn a_policy_that_learns_nothing_any_more_ends_the_run() {
        let step = StepSummary { loss: f64::NAN, skipped: Some("the loss is NaN".into()), ..step() };
        let mut report = UpdateReport {
            version: 4,
            groups: 1,
            mixed_groups: 1,
            left_out: 0,
            episodes: 8,
            tokens: 10,
            steps: vec![step],
            skipped: None,
            stuck: false,
        };
        assert!(report.check_stuck(2).is_ok());
        report.stuck = true;
        let expected = expect_test::expect![[r#"
            the policy update of round 2 ended the run: 3 optimiser steps in a row were skipped, the last since the loss is NaN
            help: checkpoint v4 holds the policy before them; start a new run with a lower `update.learning_rate`"#]];
        expected.assert_eq(&report.check_stuck(2).unwrap_err().to_string());
    }
}
