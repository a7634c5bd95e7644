//! Which campaign files cannot work, and which ask for what their method leaves unused?

use super::config::{CampaignConfig, Method};
use super::sections;
use crate::evolve::teacher::TeacherRole;

impl CampaignConfig {
    /// Refuses what training would silently leave unused.
    ///
    /// # Errors
    /// One sentence with its help.
    pub fn check_for_training(&self) -> Result<(), String> {
        let (skill, method) = (self.teacher.skill.is_some(), self.method);
        let (section, why) = match method {
            Method::Grpo if self.teacher.harness != Default::default() => {
                ("teacher.harness", "the method `grpo` leaves the harness as it is".to_owned())
            }
            Method::HarnessOnly if skill => {
                ("teacher.skill", "the method `harness-only` trains no policy".into())
            }
            Method::SelfHpo if skill => ("teacher.skill", "the method `self-hpo` has no skills".into()),
            Method::HarnessAdapt | Method::Grpo if self.self_hpo != Default::default() => {
                ("self_hpo", format!("the method `{}` has no cycles", method.name()))
            }
            Method::Grpo if self.evolve.holdout.is_some() => {
                ("evolve.holdout", "the method `grpo` accepts no candidates".into())
            }
            Method::SelfHpo if self.evolve.screen.tasks > 0 => {
                ("evolve.screen", "the harness step of `self-hpo` is a screen itself".into())
            }
            Method::SelfHpo if self.evolve.savings.reuse => {
                ("evolve.savings", "`self-hpo` gates before it collects, so there is nothing to reuse".into())
            }
            _ if !skill && self.skills != Default::default() => {
                ("skills", "no `[teacher.skill]` writes any".into())
            }
            _ => return Ok(()),
        };
        let ask = if section.starts_with("teacher.") { "; `tandem teacher ask` can use it" } else { "" };
        Err(format!("the campaign sets `[{section}]`, but {why}\nhelp: leave the section out{ask}"))
    }

    /// Refuses what cannot work whatever it is used for.
    ///
    /// # Errors
    /// One sentence.
    pub(super) fn check(&self) -> Result<(), String> {
        self.teacher.harness.check(TeacherRole::Harness)?;
        if let Some(skill) = &self.teacher.skill {
            skill.check(TeacherRole::Skill)?;
        }
        // `runs/NAME` is where its run goes.
        if self.name.is_empty() || self.name.starts_with('.') || self.name.contains(['/', '\\', '\0', '\n']) {
            return Err(format!(
                "`name` is {:?}, but the run's folder is called by it: take letters, digits and `-`",
                self.name
            ));
        }
        let positive = [
            ("rounds", self.rounds as usize),
            ("rollout.group_size", self.rollout.group_size),
            ("rollout.groups", self.rollout.groups),
            ("rollout.concurrency", self.rollout.concurrency),
            ("policy.slots", self.policy.slots),
            ("policy.lora.rank", self.policy.lora.rank),
            ("update.steps", self.update.steps),
        ];
        for (key, value) in positive {
            if value == 0 {
                return Err(format!("`{key}` is 0, but must be at least 1"));
            }
        }
        if self.rollout.group_size < 2 && self.method.trains() {
            return Err(format!(
                "`rollout.group_size` is {}, but a group of one has no advantage: take 2 or more",
                self.rollout.group_size
            ));
        }
        if self.method.trains() {
            let temperature = self.rollout.sampling.temperature;
            if temperature <= 0.0 {
                return Err(format!(
                    "`rollout.sampling.temperature` is {temperature}, but all episodes of a task are then the \
                     same, and their advantages 0: take one over 0"
                ));
            }
            self.update.learner(temperature).check().map_err(|error| {
                let text = error.to_string();
                format!("in `[update]`, {}", text.split('\n').next().unwrap_or_default())
            })?;
        }
        self.evolve.gate.check()?;
        let evolve = &self.evolve;
        sections::check(
            &evolve.screen,
            &evolve.removal,
            evolve.holdout.as_ref(),
            &evolve.savings,
            &self.self_hpo,
        )?;
        if self.method == Method::SelfHpo && self.rounds != 1 {
            return Err(format!(
                "`rounds` is {}, but the method `self-hpo` has `self_hpo.cycles` × `self_hpo.updates`: leave it out",
                self.rounds
            ));
        }
        let kept = self.retention.transcripts;
        if self.method == Method::SelfHpo && kept > 0 && kept < self.self_hpo.updates {
            return Err(format!(
                "`retention.transcripts` is {kept}, but a harness step of `self-hpo` looks at the episodes of the \
                 {} rounds before it: keep as many",
                self.self_hpo.updates
            ));
        }
        if self.harness.manifest.is_some() && self.harness.home.is_some() {
            return Err("`harness.manifest` and `harness.home` both name the first harness: keep one".into());
        }
        if self.harness.digest.is_some() && self.harness.home.is_none() {
            return Err("`harness.digest` names a harness of a home: name it in `harness.home`".into());
        }
        if let Some(cap) = self.rollout.top_up.cap
            && cap > 0
            && cap < self.rollout.group_size
        {
            return Err(format!(
                "`rollout.top_up.cap` is {cap}, but a group has {} episodes before it is topped up",
                self.rollout.group_size
            ));
        }
        if !(0.0..=1.0).contains(&self.rollout.diagnosed) {
            return Err(format!("`rollout.diagnosed` is {}, but must lie in 0 to 1", self.rollout.diagnosed));
        }
        Ok(())
    }
}
