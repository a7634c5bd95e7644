//! What does a run end with: the table of first and trained policy, first and evolved harness, and the pair.

use std::collections::BTreeSet;

use anyhow::Result;
use tandem_host::store::Digest;

use super::super::draw;
use super::super::record::Arm;
use super::super::run::Campaign;
use super::episodes::{Label, Numbered};
use crate::pair::{Commands, Existing, PairError, PolicyForm, pack};

impl Campaign {
    /// The final table: first and trained policy, first and evolved harness, on the same seeds.
    pub(in crate::campaign) async fn evaluate(&mut self) -> Result<()> {
        let episodes = self.config.evaluation.episodes;
        if episodes == 0 {
            return Ok(());
        }
        let names: Vec<_> = self.evaluation.keys().cloned().collect();
        let mut drawn = draw::order(self.config.seed, "evaluate", &names);
        if self.config.evaluation.tasks > 0 {
            drawn.truncate(self.config.evaluation.tasks);
        }
        let publications = self.record.publications()?;
        let harnesses: BTreeSet<Digest> =
            [publications.first(), publications.last()].into_iter().flatten().map(|p| p.digest).collect();
        let last = self.runtime.version();
        let round = self.config.all_rounds() + 1;
        for version in BTreeSet::from([0, last]) {
            tokio::task::block_in_place(|| self.runtime.activate(version))?;
            for harness in &harnesses {
                let generation = self.generation(harness).await?;
                let mut specs = Vec::new();
                for task in &drawn {
                    let group = format!("evaluate/v{version}/{}/{task}", harness.short());
                    // A mode can only leave skills out: no table has any.
                    let (numbers, label) = (0..episodes, Label::Shared("evaluate"));
                    let wanted = Numbered { task, group, numbers, label, skill: None };
                    specs.extend(self.specs(&self.evaluation, wanted)?);
                }
                let title = format!("table: policy v{version}, harness {}", harness.short());
                self.rollouts(&title, round, Arm::Evaluate, specs, Some(generation)).await?;
            }
        }
        tokio::task::block_in_place(|| self.runtime.activate(last))
    }

    pub(in crate::campaign) fn write_pair(&self) -> Result<()> {
        self.check_cancelled()?;
        if !self.runtime.can_be_packed() {
            self.progress.say("no pair is written: the policy is a script");
            return Ok(());
        }
        let out = self.run.join("pair");
        let (form, existing) = (PolicyForm::Full, Existing::Replace);
        let commands = Commands::Refuse;
        let packed =
            tokio::task::block_in_place(|| pack(&self.record, &self.config, form, &out, existing, commands));
        match packed {
            Ok(_) => self.progress.say(&format!("pair written to {}", out.display())),
            // The run is done all the same; its owner decides.
            Err(error) if is_a_command(&error) => self.progress.say(&format!("no pair: {error}")),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn is_a_command(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(PairError::RunsCommand { .. }))
}
