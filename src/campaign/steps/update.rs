//! How does a round's policy update happen once, and who is told of it?

use anyhow::Result;
use tandem_host::store::named_moment;

use super::super::reports::UpdateReport;
use super::super::run::Campaign;
use crate::view::EventLog;

impl Campaign {
    /// One policy update on the round's groups, then a checkpoint.
    pub(in crate::campaign) async fn update(&mut self, round: u32) -> Result<()> {
        if let Some(report) = self.record.phase::<UpdateReport>(round, "update")? {
            return report.check_stuck(round);
        }
        self.check_cancelled()?;
        let groups = self.training_groups(round)?;
        self.tell_top_ups(round)?;
        let spinner = self.progress.spin(&format!("round {round}: policy update"));
        let report = tokio::task::block_in_place(|| self.runtime.update(&self.config.update, &groups))?;
        spinner.finish();
        let before: usize =
            self.record.phases::<UpdateReport>("update")?.iter().map(|(.., done)| done.steps.len()).sum();
        named_moment("update-made");
        self.record.end_phase(round, "update", &report)?;
        named_moment("update-recorded");
        for (number, step) in report.steps.iter().enumerate() {
            let said = step.skipped.as_ref().map_or_else(|| step.line(), |why| format!("skipped: {why}"));
            self.progress.say(&format!("round {round}: step {}: {said}", before + number + 1));
        }
        self.progress.say(&format!("round {round}: {}", report.sentence()));
        self.show_steps(before, &report).unwrap_or_else(|error| tracing::warn!("{error:#}"));
        report.check_stuck(round)
    }

    /// Begins the event file of this start with all steps that the record holds, so that a kill
    /// between the record and the file loses none.
    pub(in crate::campaign) fn begin_events(&mut self) -> Result<()> {
        let mut events = EventLog::create(&self.run.join("tensorboard"), 1)?;
        let updates = self.record.phases::<UpdateReport>("update")?;
        let steps = updates.iter().flat_map(|(.., update)| &update.steps);
        for (number, step) in steps.enumerate() {
            events.scalars(number as i64 + 1, &step.scalars())?;
        }
        self.events = Some(events);
        Ok(())
    }

    /// Adds the steps of an update, which come after `before` others of this run, to the event file.
    fn show_steps(&mut self, before: usize, report: &UpdateReport) -> Result<()> {
        let Some(events) = &mut self.events else { return Ok(()) };
        for (number, step) in report.steps.iter().enumerate() {
            events.scalars((before + number + 1) as i64, &step.scalars())?;
        }
        Ok(())
    }

    /// Records and tells what topping up did in a round.
    fn tell_top_ups(&self, round: u32) -> Result<()> {
        let Some(report) = self.top_ups(round)? else { return Ok(()) };
        self.record.end_phase(round, "top-up", &report)?;
        self.progress.say(&format!(
            "round {round}: {} groups topped up with {} episodes: {} teach now, {} are left out",
            report.groups, report.episodes, report.rescued, report.given_up
        ));
        Ok(())
    }
}
