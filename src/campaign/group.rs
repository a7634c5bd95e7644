//! What makes episodes one group? That they cannot be told apart before they ran.
//!
//! An advantage compares an episode with the others of its group, so a group of episodes that differ in
//! task, policy, harness or skill would credit luck of the draw to tokens. Such a group cannot be made.

use std::fmt;

use anyhow::{Result, bail};
use tandem_host::agent::{EpisodeRecord, Outcome, skill_of};
use tandem_host::store::Digest;

/// What the episodes of a group share. It is made from a record alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    task: String,
    policy_version: u64,
    harness: Digest,
    /// Of the skill's text.
    skill: Option<Digest>,
}

impl GroupKey {
    pub fn of(record: &EpisodeRecord) -> Self {
        Self {
            task: record.task.clone(),
            policy_version: record.policy_version,
            harness: record.harness,
            skill: skill_of(record).map(|text| Digest::of(text.as_bytes())),
        }
    }
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, policy_version, harness, skill } = self;
        write!(f, "task {task}, policy v{policy_version}, harness {}", harness.short())?;
        match skill {
            Some(skill) => write!(f, ", skill {}", skill.short()),
            None => write!(f, ", no skill"),
        }
    }
}

/// Episodes of one key, each with a verdict, that the policy which is trained has sampled itself.
pub struct FreshGroup<'a>(Vec<&'a EpisodeRecord>);

impl<'a> FreshGroup<'a> {
    /// The group of `records`, for an update of policy `version`.
    ///
    /// # Errors
    /// When they differ in what a group shares, one has no verdict, or another version sampled them: their
    /// log-probabilities would be of another distribution than the one that is trained.
    pub fn new(records: impl IntoIterator<Item = &'a EpisodeRecord>, version: u64) -> Result<Self> {
        let records: Vec<&EpisodeRecord> = records.into_iter().collect();
        let Some(first) = records.first() else { return Ok(Self(records)) };
        let key = GroupKey::of(first);
        for record in &records {
            if record.policy_version != version {
                bail!(
                    "episode {} was sampled by policy v{}, and v{version} is trained\nhelp: start a new run",
                    record.id,
                    record.policy_version
                );
            }
            if matches!(record.outcome, Outcome::Invalid(_)) {
                bail!("episode {} has no verdict and can be in no group\nhelp: start a new run", record.id);
            }
            let other = GroupKey::of(record);
            if other != key {
                bail!(
                    "the episodes {} ({key}) and {} ({other}) are of one group and differ\nhelp: start a new run",
                    first.id,
                    record.id
                );
            }
        }
        Ok(Self(records))
    }

    pub fn episodes(&self) -> &[&'a EpisodeRecord] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use tandem_host::agent::InvalidCause;
    use tandem_host::policy::{Message, Origin, Piece, Role};

    use super::*;
    use crate::evolve::testkit;

    fn with_skill(mut episode: EpisodeRecord) -> EpisodeRecord {
        let mut first = Message::new(Role::User, "Do it.");
        first.pieces.push(Piece { origin: Origin::Skill, text: "Look twice.".into() });
        episode.turns[0].input = vec![first];
        episode
    }

    #[test]
    fn a_group_that_mixes_what_it_shares_cannot_be_made() {
        let check = |change: fn(EpisodeRecord) -> EpisodeRecord, expected: Expect| {
            let (left, right) = (testkit::episode("t"), change(testkit::episode("t")));
            let told = match FreshGroup::new([&left, &right], 0) {
                Ok(group) => format!("a group of {}", group.episodes().len()),
                Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
            };
            let harness = left.harness.short();
            expected.assert_eq(&told.replace(&harness, "H"));
        };
        check(|same| same, expect!["a group of 2"]);
        check(|other| EpisodeRecord { seed: 9, id: "f".into(), ..other }, expect!["a group of 2"]);
        check(
            |other| EpisodeRecord { task: "u".into(), ..other },
            expect![
                "the episodes e (task t, policy v0, harness H, no skill) and e (task u, policy v0, harness H, no skill) are of one group and differ"
            ],
        );
        check(
            |other| EpisodeRecord { harness: Digest::of(b"other"), ..other },
            expect![
                "the episodes e (task t, policy v0, harness H, no skill) and e (task t, policy v0, harness d9298a10d1b0, no skill) are of one group and differ"
            ],
        );
        check(
            with_skill,
            expect![
                "the episodes e (task t, policy v0, harness H, no skill) and e (task t, policy v0, harness H, skill fece607af657) are of one group and differ"
            ],
        );
        check(
            |other| EpisodeRecord { policy_version: 3, ..other },
            expect!["episode e was sampled by policy v3, and v0 is trained"],
        );
        check(
            |other| EpisodeRecord { outcome: Outcome::Invalid(InvalidCause::Policy), ..other },
            expect!["episode e has no verdict and can be in no group"],
        );
    }
}
