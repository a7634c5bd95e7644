//! What is wrong in the episodes of a round, and what does the teacher propose against it?

use anyhow::{Result, bail};

use super::super::record::EpisodeRow;
use super::super::reports::{ProposalRow, tried};
use super::super::run::{Campaign, newest_harness};
use super::super::teach::Round;
use crate::evolve::{Catalog, Diagnosis, diagnose};

impl Campaign {
    /// Diagnoses the episodes of `rows` and asks the teacher for at most `most` proposals.
    pub(in crate::campaign) async fn propose(
        &self,
        round: u32,
        rows: &[EpisodeRow],
        most: usize,
    ) -> Result<Vec<ProposalRow>> {
        if let Some(rows) = self.record.phase(round, "proposals")? {
            return Ok(rows);
        }
        // What retention thinned shows no trouble any more.
        let whole = rows.iter().filter(|row| !row.thinned);
        let records = whole.map(|row| self.record.episode(row)).collect::<Result<Vec<_>>>()?;
        let diagnosis: Diagnosis = diagnose(&records);
        let recurring = diagnosis.recurring(self.config.evolve.min_tasks);
        let proposals = match &self.teacher {
            None => {
                let incumbent = self.record.harness(&newest_harness(&self.record)?)?;
                Catalog.propose(&recurring, &incumbent, &tried(&self.record)?.edits, most)
            }
            Some(teacher) => {
                let incumbent = self.record.harness(&newest_harness(&self.record)?)?;
                let spinner = self.progress.spin(&format!("round {round}: the teacher writes"));
                let now = Round {
                    number: round,
                    records: &records,
                    diagnosis: &diagnosis,
                    recurring: &recurring,
                    record: &self.record,
                    builder: &self.builder,
                    incumbent: &incumbent,
                };
                let (proposals, report) = tokio::select! {
                    asked = teacher.propose(now, most) => asked?,
                    () = self.cancel.cancelled() => bail!(tandem_host::rollout::Cancelled),
                };
                spinner.finish();
                if let Some(why) = &report.stopped {
                    let why = why.replace("\nhelp: ", "; ");
                    self.progress.say(&format!("round {round}: the teacher was not asked further: {why}"));
                }
                self.record.end_phase(round, "teacher", &report)?;
                proposals
            }
        };
        let rows = proposals.iter().map(|proposal| ProposalRow::keep(proposal, self.record.blobs()));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        self.record.end_phase(round, "diagnosis", &diagnosis)?;
        self.record.end_phase(round, "proposals", &rows)?;
        self.progress.say(&format!(
            "round {round}: {} of {} episodes failed; signals: {}; proposed: {}",
            diagnosis.failed,
            diagnosis.episodes,
            list(recurring.iter().map(|(signal, count)| format!("{} ×{count}", signal.name()))),
            list(rows.iter().map(ProposalRow::called)),
        ));
        Ok(rows)
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    let text = items.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "none".into() } else { text }
}
