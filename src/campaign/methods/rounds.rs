//! Rounds: the methods `harness-adapt`, `grpo` and `harness-only`, which differ in what they leave out.

use anyhow::Result;

use super::super::record::Arm;
use super::super::retention::retain;
use super::super::run::Campaign;

impl Campaign {
    /// Runs what is left of all rounds, and says why there is no further one.
    pub(in crate::campaign) async fn rounds(&mut self) -> Result<String> {
        let rounds = self.config.rounds;
        for round in 1..=rounds {
            if let Some(why) = self.spent(round)? {
                return Ok(why);
            }
            self.round(round).await?;
        }
        Ok(format!("rounds 1 to {rounds} were run"))
    }

    async fn round(&mut self, round: u32) -> Result<()> {
        let (first, rest) = self.drawn(round);
        self.collect(round, &first).await?;
        self.write_skills(round, &first).await?;
        if self.config.method.evolves() {
            let rows = self.rows(round, Arm::Collect)?;
            let proposals = self.propose(round, &rows, self.config.evolve.candidates).await?;
            if self.config.evolve.savings.reuse {
                // A gate's plan names the groups that serve in it, so they must be there before.
                self.collect(round, &rest).await?;
                self.evolve(round, &proposals).await?;
            } else {
                // Candidates are built, gated and published while the other groups run.
                tokio::try_join!(self.collect(round, &rest), self.evolve(round, &proposals))?;
            }
        } else {
            self.collect(round, &rest).await?;
        }
        let drawn = [first, rest].concat();
        self.skill_groups(round, &drawn).await?;
        if self.config.method.trains() {
            self.update(round).await?;
        }
        retain(&self.record, &self.config.retention, round)
    }
}
