//! What does an evaluation ask that a run which goes on would change? Fixed before its first episode.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tandem_host::store::Digest;

use crate::campaign::RunRecord;

/// Tasks and skills as the run had them when the evaluation began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pinned {
    /// Training tasks that the first round's episodes never solved.
    pub hard_set: BTreeSet<String>,
    /// The newest skill of each task that had one: its text, among the blobs of the evaluation.
    pub skills: BTreeMap<String, Digest>,
}

impl Pinned {
    /// Reads `run` as it is now; the texts of skills are kept in `own`.
    pub fn of(run: &RunRecord, own: &RunRecord) -> Result<Self> {
        let rows = run.episodes()?;
        let first = || {
            rows.iter().filter(|row| {
                row.round == 1 && ["collect", "probe"].contains(&row.arm.as_str()) && row.valid()
            })
        };
        let solved: BTreeSet<&str> =
            first().filter(|row| row.solved()).map(|row| row.task.as_str()).collect();
        let hard = first().filter(|row| !solved.contains(row.task.as_str()));
        let mut skills = BTreeMap::new();
        for task in rows.iter().map(|row| &row.task).collect::<BTreeSet<_>>() {
            if let Some(skill) = run.skills(task)?.pop() {
                skills.insert(task.clone(), own.blobs().put(skill.text.as_bytes())?);
            }
        }
        Ok(Self { hard_set: hard.map(|row| row.task.clone()).collect(), skills })
    }

    /// The text of the skill of `task`, if it had one.
    pub fn skill(&self, task: &str, own: &RunRecord) -> Result<Option<String>> {
        let Some(digest) = self.skills.get(task) else { return Ok(None) };
        let bytes = own.blobs().get(digest)?;
        let text = String::from_utf8(bytes).with_context(|| format!("the skill of `{task}` is no text"))?;
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use tandem_host::agent::Outcome;

    use super::*;
    use crate::campaign::{Arm, Place};
    use crate::evolve::teacher::Skill;
    use crate::evolve::testkit;

    fn add_episode(run: &RunRecord, id: &str, task: &str, solved: bool) {
        let mut episode = testkit::episode(task);
        episode.id = id.to_owned();
        episode.outcome = if solved { Outcome::Solved } else { Outcome::Unsolved };
        let place = Place { round: 1, arm: Arm::Collect, group: format!("r1/collect/{task}") };
        run.add_episode(&place, &episode).unwrap();
    }

    fn add_skill(run: &RunRecord, key: &str, task: &str, text: &str) {
        let skill = Skill { task: task.into(), mechanism: "m".into(), check: "c".into(), text: text.into() };
        run.add_skill(key, &skill).unwrap();
    }

    #[test]
    fn a_run_that_grows_does_not_change_what_its_evaluation_asks() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [run, own] = folders.each_ref().map(|folder| RunRecord::open(folder.path()).unwrap());
        add_episode(&run, "1", "a", false);
        add_episode(&run, "2", "b", false);
        add_skill(&run, "p1", "a", "look first");
        let before = Pinned::of(&run, &own).unwrap();
        let kept = serde_json::to_string(&before).unwrap();
        // The run goes on: `a` is solved after all, `c` is new, and there are newer skills.
        add_episode(&run, "3", "a", true);
        add_episode(&run, "4", "c", false);
        add_skill(&run, "p2", "a", "look twice");
        add_skill(&run, "p3", "b", "look back");
        let again: Pinned = serde_json::from_str(&kept).unwrap();
        assert_eq!(again, before);
        assert_eq!(again.hard_set, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
        let text = |pinned: &Pinned, task: &str| pinned.skill(task, &own).unwrap();
        assert_eq!(text(&again, "a").as_deref(), Some("look first"));
        assert_eq!(text(&again, "b"), None);
        // An evaluation that begins now asks what the run has now.
        let now = Pinned::of(&run, &own).unwrap();
        assert_eq!(now.hard_set, BTreeSet::from(["b".to_owned(), "c".to_owned()]));
        assert_eq!(text(&now, "a").as_deref(), Some("look twice"));
    }
}
