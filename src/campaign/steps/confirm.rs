//! How does a proposal become a candidate, go through its gate, and get published?

use std::sync::Arc;

use anyhow::Result;
use tandem_host::harness::Generation;

use super::super::ledger::keep_ledger;
use super::super::record::{Publication, SourceRow};
use super::super::reports::{CandidateReport, Change, OVERTAKEN, ProposalRow};
use super::super::run::{Campaign, newest_harness};
use super::gate::{Asked, Gated, Seeds};
use super::removal::without;
use crate::evolve::GateConfig;

/// A candidate before its gate.
pub struct Trial {
    pub index: usize,
    pub report: CandidateReport,
    /// None when it was refused.
    pub generation: Option<Arc<Generation>>,
}

impl Campaign {
    /// Builds and gates the proposals of a round, publishing what is accepted; with a screen, only the best
    /// of them comes to the gate. Then come the removal tests, and a look at the hold-out if it is due.
    pub(in crate::campaign) async fn evolve(&self, round: u32, proposals: &[ProposalRow]) -> Result<()> {
        let gate = &self.config.evolve.gate;
        if self.config.evolve.screen.tasks > 0 && proposals.len() > 1 {
            self.screened(round, proposals).await?;
        } else {
            for (index, proposal) in proposals.iter().enumerate() {
                if self.is_settled(round, index)? {
                    continue;
                }
                let trial = self.begin(round, index, proposal.clone(), Change::Add).await?;
                self.confirm(round, trial, gate, &self.names()).await?;
            }
        }
        self.removal_tests(round, proposals.len()).await?;
        self.consult_holdout(round).await
    }

    /// Whether candidate `index` of a round has its report.
    pub(in crate::campaign) fn is_settled(&self, round: u32, index: usize) -> Result<bool> {
        Ok(self.record.phase::<CandidateReport>(round, &format!("candidate-{index}"))?.is_some())
    }

    /// Makes a candidate over the newest harness.
    pub(in crate::campaign) async fn begin(
        &self,
        round: u32,
        index: usize,
        proposal: ProposalRow,
        change: Change,
    ) -> Result<Trial> {
        let incumbent = newest_harness(&self.record)?;
        let mut report = CandidateReport::begun(proposal, change, incumbent);
        let generation = match change {
            Change::Add => self.built(round, &mut report).await?,
            Change::Remove => match without(&self.record, &report.proposal, &incumbent)? {
                Some(manifest) => {
                    let digest = self.record.add_harness(&manifest)?;
                    report.harness = Some(digest);
                    Some(self.generation(&digest).await?)
                }
                None => {
                    report.refused = Some(OVERTAKEN.into());
                    None
                }
            },
        };
        Ok(Trial { index, report, generation })
    }

    /// An edit to a generation that is ready to be leased; a refusal goes into the report.
    async fn built(&self, round: u32, report: &mut CandidateReport) -> Result<Option<Arc<Generation>>> {
        let proposal = &report.proposal;
        let edit = proposal.edit(self.record.blobs())?;
        let incumbent = self.record.harness(&report.incumbent)?;
        // The harness that the round's proposals were made for.
        let publications = self.record.publications()?;
        let before = publications.iter().rev().find(|publication| publication.round < round);
        if let Some(before) = before
            && !edit.finds_its_part(&self.record.harness(&before.digest)?, &incumbent)
        {
            report.refused = Some(OVERTAKEN.into());
            return Ok(None);
        }
        let (plugin, seconds, built) = match self.builder.build(&proposal.name, &edit, &incumbent).await? {
            Ok(candidate) => (candidate.plugin, candidate.seconds, Ok(candidate.generation)),
            Err(refused) => (refused.plugin, refused.seconds, Err(refused.reason)),
        };
        if let Some(plugin) = &plugin {
            let source = SourceRow { digest: proposal.source, language: proposal.language };
            self.record.add_source(plugin, &source, &proposal.name)?;
        }
        report.plugin = plugin;
        report.build_seconds = seconds;
        match built {
            Ok(generation) => {
                // Kept before its gate, so that whoever explains the gate finds it.
                self.record.add_harness(generation.manifest())?;
                report.harness = Some(generation.digest());
                Ok(Some(generation))
            }
            Err(reason) => {
                report.refused = Some(reason);
                Ok(None)
            }
        }
    }

    /// Gates a candidate on `names` and settles it.
    pub(in crate::campaign) async fn confirm(
        &self,
        round: u32,
        mut trial: Trial,
        config: &GateConfig,
        names: &[String],
    ) -> Result<()> {
        if let Some(candidate) = &trial.generation {
            let incumbent = trial.report.incumbent;
            let (index, seeds) = (trial.index, Seeds::Shared);
            let asked = Asked { round, index, incumbent, candidate, config, names, seeds };
            match self.gate(asked).await? {
                Gated::Decided(gate, saved) => {
                    trial.report.gate = Some(*gate);
                    trial.report.saved = saved;
                }
                Gated::Broken(reason, saved) => {
                    trial.report.refused = Some(reason);
                    trial.report.saved = Some(saved);
                }
            }
        }
        self.settle(round, trial)
    }

    /// Records what became of a candidate, and publishes it if it was accepted: both or neither.
    pub(in crate::campaign) fn settle(&self, round: u32, trial: Trial) -> Result<()> {
        let Trial { index, report, generation } = trial;
        let accepted = report.accepted();
        let reason = report.publication_reason();
        let publication = generation.as_ref().filter(|_| accepted).map(|candidate| Publication {
            round,
            digest: candidate.digest(),
            reason,
        });
        self.record.end_gate(round, &format!("candidate-{index}"), &report, publication.as_ref())?;
        keep_ledger(&self.run, &self.record)?;
        self.progress.say(&format!("round {round}: candidate {} {}", report.name(), report.verdict()));
        if let (true, Some(candidate)) = (accepted, generation) {
            self.generations.publish(candidate);
        }
        Ok(())
    }
}
