//! What would the recorded episodes of a run have been under another harness?

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tandem_host::agent::{Cancel, Changes, EpisodeRecord, replay};
use tandem_host::harness::{Generation, HarnessManifest, PluginEntry};
use tandem_host::plugin::{AdmissionOptions, Engine};
use tandem_host::store::{BlobStore, Digest};
use tandem_host::task::{Task, TaskSet};
use tandem_host::workspace::WorkspaceConfig;

use super::config::CampaignConfig;
use super::record::RunRecord;

/// The campaign as a run began with it, in the folder of the run.
pub const KEPT: &str = "campaign.json";

/// The recorded episodes of a run, and the tasks that they were about.
pub struct Replays {
    record: RunRecord,
    tasks: BTreeMap<String, Arc<Task>>,
}

/// What a replay needs of this machine.
pub struct Machine {
    pub engine: Engine,
    pub admission: AdmissionOptions,
    pub workspaces: WorkspaceConfig,
}

impl Replays {
    /// Opens a run. Its tasks are those of its campaign, unless a folder is given.
    pub fn open(run: &Path, tasks: Option<&Path>) -> Result<Self> {
        if !run.join("run.sqlite").exists() {
            bail!(
                "{} is not the folder of a run: it has no run.sqlite\nhelp: `tandem train CAMPAIGN --run DIR` makes one",
                run.display()
            );
        }
        let record = RunRecord::read(run)?;
        let sets = match tasks {
            Some(folder) => vec![TaskSet::load(folder)?],
            None => {
                let kept = run.join(KEPT);
                let text = std::fs::read_to_string(&kept).with_context(|| {
                    format!(
                        "{} cannot be read\nhelp: name the folder of the tasks with `--tasks`",
                        kept.display()
                    )
                })?;
                let config: CampaignConfig = serde_json::from_str(&text)
                    .with_context(|| format!("{} is no campaign of this version", kept.display()))?;
                let folders = [Some(config.tasks.train), config.tasks.evaluation];
                folders
                    .into_iter()
                    .flatten()
                    .map(|folder| TaskSet::load(&folder))
                    .collect::<Result<_, _>>()?
            }
        };
        let all = sets.iter().flat_map(|set| set.tasks());
        let tasks = all.map(|task| (task.name().to_owned(), task.clone())).collect();
        Ok(Self { record, tasks })
    }

    /// The blobs of the run.
    pub fn blobs(&self) -> &BlobStore {
        self.record.blobs()
    }

    /// A harness of the run.
    pub fn harness(&self, digest: &Digest) -> Result<HarnessManifest> {
        self.record.harness(digest)
    }

    /// The harness of the run whose digest begins with `prefix`, with or without `sha256:`.
    pub fn harness_named(&self, prefix: &str) -> Result<Digest> {
        let digits = prefix.strip_prefix("sha256:").unwrap_or(prefix);
        let published = self.record.publications()?.into_iter().map(|publication| publication.digest);
        let used = self.record.episodes()?.into_iter().map(|row| row.harness);
        let all: BTreeSet<Digest> = published.chain(used).collect();
        let found: Vec<_> = all.iter().filter(|digest| digest.hex().starts_with(digits)).collect();
        match found.as_slice() {
            [one] => Ok(**one),
            [] => bail!("the run has no harness `{prefix}`\nhelp: the digests are in `tandem report RUN`"),
            more => bail!(
                "{} harnesses of the run begin with `{prefix}`\nhelp: give more of the digest",
                more.len()
            ),
        }
    }

    /// The episodes of these ids; without ids the newest valid ones, `most` of them, of as many
    /// tasks as there are.
    pub fn pick(&self, ids: &[String], most: usize) -> Result<Vec<EpisodeRecord>> {
        let mut rows = self.record.episodes()?;
        if !ids.is_empty() {
            let found = |id: &String| {
                let row = rows.iter().find(|row| row.id == *id);
                let row = row.with_context(|| {
                    format!("the run has no episode `{id}`\nhelp: leave out the ids to take the newest ones")
                })?;
                self.record.episode(row)
            };
            return ids.iter().map(found).collect();
        }
        rows.retain(|row| row.valid() && !row.thinned);
        rows.reverse();
        let (mut first, mut rest, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
        for row in rows {
            if seen.insert(row.task.clone()) { first.push(row) } else { rest.push(row) }
        }
        if first.is_empty() {
            bail!("the run has no valid episode yet\nhelp: wait for the first, or take another run");
        }
        first.into_iter().chain(rest).take(most).map(|row| self.record.episode(&row)).collect()
    }

    /// Replays `recorded` under `manifest`.
    pub async fn under(
        &self,
        recorded: &EpisodeRecord,
        generation: &Arc<Generation>,
        machine: &Machine,
    ) -> Result<EpisodeRecord> {
        let task = self.tasks.get(&recorded.task).with_context(|| {
            format!(
                "the task `{}` of episode {} is not in the task set\nhelp: name the folder that has it with `--tasks`",
                recorded.task, recorded.id
            )
        })?;
        let lease = generation.lease();
        let again = replay(recorded, task.clone(), &lease, &machine.workspaces, &Cancel::new()).await;
        again.context("the replay was stopped")
    }

    /// What one plugin would change in each of `recorded`: it takes the place of the plugin of its
    /// name in the harness of the episode, or comes last. With `instead_of`, the changes are against
    /// that component in the same place, not against the record.
    pub async fn with_plugin(
        &self,
        recorded: &[EpisodeRecord],
        entry: &PluginEntry,
        instead_of: Option<&PluginEntry>,
        machine: &Machine,
        mut done: impl FnMut(&Changes),
    ) -> Result<Vec<Changes>> {
        let mut built: BTreeMap<(Digest, Digest), Arc<Generation>> = BTreeMap::new();
        let mut all = Vec::new();
        for record in recorded {
            let mut sides = Vec::new();
            for entry in [Some(entry), instead_of].into_iter().flatten() {
                let key = (record.harness, entry.digest);
                let generation = match built.get(&key) {
                    Some(generation) => generation.clone(),
                    None => {
                        let manifest = placed(self.harness(&record.harness)?, entry);
                        let generation = Generation::build_with(
                            &machine.engine,
                            manifest,
                            self.blobs(),
                            &machine.admission,
                        );
                        let generation = generation.await?;
                        built.insert(key, generation.clone());
                        generation
                    }
                };
                sides.push(self.under(record, &generation, machine).await?);
            }
            let changes = Changes::between(sides.get(1).unwrap_or(record), &sides[0]);
            done(&changes);
            all.push(changes);
        }
        Ok(all)
    }
}

/// A harness with a plugin in the place of the one of its name, or behind the last.
fn placed(mut manifest: HarnessManifest, entry: &PluginEntry) -> HarnessManifest {
    match manifest.plugins.iter_mut().find(|plugin| plugin.name == entry.name) {
        // Its settings are those of the harness.
        Some(plugin) => {
            plugin.digest = entry.digest;
            plugin.grants = entry.grants.clone();
        }
        None => manifest.plugins.push(entry.clone()),
    }
    manifest
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use tandem_host::agent::{EpisodeSpec, run_episode};
    use tandem_host::forge::{Forge, ForgeConfig, Source};
    use tandem_host::plugin::{CompileIn, PluginLimits};
    use tandem_host::policy::{Sampling, ScriptedPolicy};

    use super::*;
    use crate::campaign::record::{Arm, Place};

    const HOLD: &str = include_str!("../../tests/data/look-again.rs");

    fn tasks() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/tasks/first-steps")
    }

    /// A run with an episode of each of two tasks, from their own demonstrations.
    async fn recorded_run(folder: &Path, machine: &Machine) {
        let record = RunRecord::open(folder).unwrap();
        let manifest = HarnessManifest::bare();
        let digest = record.add_harness(&manifest).unwrap();
        let generation = Generation::build(&machine.engine, manifest, record.blobs()).await.unwrap();
        assert_eq!(generation.lease().digest(), digest);
        for (number, task) in TaskSet::load(&tasks()).unwrap().tasks().iter().take(2).enumerate() {
            let hand_in = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff";
            let replies = ["ls", hand_in].map(|command| format!("```bash\n{command}\n```")).to_vec();
            let spec = EpisodeSpec {
                id: format!("round1/{number}"),
                group: "g".into(),
                task: task.clone(),
                seed: 3,
                sampling: Sampling::default(),
                skill: None,
            };
            let policy = ScriptedPolicy::new(move |_| replies.clone()).with_byte_ids();
            let lease = generation.lease();
            let episode =
                run_episode(&spec, &policy, &lease, &machine.workspaces, &Cancel::new()).await.unwrap();
            let place = Place { round: 1, arm: Arm::Collect, group: "g".into() };
            record.add_episode(&place, &episode).unwrap();
        }
    }

    #[tokio::test]
    async fn a_plugin_is_tried_on_the_recorded_episodes_of_a_run() {
        let machine = Machine {
            engine: Engine::new(PluginLimits::default()).unwrap(),
            admission: AdmissionOptions { compile_in: CompileIn::ThisProcess, ..AdmissionOptions::default() },
            workspaces: WorkspaceConfig::default(),
        };
        let run = tempfile::tempdir().unwrap();
        recorded_run(run.path(), &machine).await;
        let replays = Replays::open(run.path(), Some(&tasks())).unwrap();
        let recorded = replays.pick(&[], 8).unwrap();
        assert_eq!(
            recorded.iter().map(|record| record.id.as_str()).collect::<Vec<_>>(),
            ["round1/1", "round1/0"]
        );
        assert_eq!(replays.pick(&["round1/0".into()], 0).unwrap()[0].id, "round1/0");

        let cache = tempfile::tempdir().unwrap();
        let forge = Forge::new(ForgeConfig::new(cache.path())).unwrap();
        let entry = |text: &str| {
            let source = Source::File { name: "plugin.rs".into(), text: text.into() };
            let built = forge.build(&source).unwrap_or_else(|error| panic!("{error}"));
            PluginEntry {
                name: "hold".into(),
                digest: replays.blobs().put(&built.component).unwrap(),
                grants: Vec::new(),
                settings: serde_json::Map::new(),
            }
        };
        let (old, new) = (entry(HOLD), entry(&HOLD.replace("Look again.", "Run the tests.")));
        let all = replays.with_plugin(&recorded[..1], &old, None, &machine, |_| ()).await.unwrap();
        expect![[r#"
            round1/1: unsolved after 2 turns, handed in -> goes on after 2 turns
              + turn 2, hold at on-submit: defer Look again.
              from turn 2 on the policy would have read something else"#]]
        .assert_eq(&all[0].to_string());
        let all = replays.with_plugin(&recorded[..1], &new, Some(&old), &machine, |_| ()).await.unwrap();
        expect![[r#"
            round1/1:
              - turn 2, hold at on-submit: defer Look again.
              + turn 2, hold at on-submit: defer Run the tests.
              from turn 2 on the policy would have read something else"#]]
        .assert_eq(&all[0].to_string());
        let all = replays.with_plugin(&recorded[..1], &old, Some(&old), &machine, |_| ()).await.unwrap();
        assert!(all[0].none());
    }

    #[tokio::test]
    async fn what_cannot_be_replayed_says_what_is_missing() {
        let empty = tempfile::tempdir().unwrap();
        let check = |result: Result<()>, expected: expect_test::Expect| {
            let text = format!("{:#}", result.unwrap_err());
            expected.assert_eq(&text.replace(&empty.path().display().to_string(), "DIR"));
        };
        check(
            Replays::open(empty.path(), None).map(drop),
            expect![[r#"
            DIR is not the folder of a run: it has no run.sqlite
            help: `tandem train CAMPAIGN --run DIR` makes one"#]],
        );
        RunRecord::open(empty.path()).unwrap();
        check(
            Replays::open(empty.path(), None).map(drop),
            expect![[r#"
            DIR/campaign.json cannot be read
            help: name the folder of the tasks with `--tasks`: No such file or directory (os error 2)"#]],
        );
        let replays = Replays::open(empty.path(), Some(&tasks())).unwrap();
        check(
            replays.pick(&[], 3).map(drop),
            expect![[r#"
            the run has no valid episode yet
            help: wait for the first, or take another run"#]],
        );
        check(
            replays.pick(&["round9/0".into()], 3).map(drop),
            expect![[r#"
            the run has no episode `round9/0`
            help: leave out the ids to take the newest ones"#]],
        );
        check(
            replays.harness_named("ab").map(drop),
            expect![[r#"
            the run has no harness `ab`
            help: the digests are in `tandem report RUN`"#]],
        );
    }
}
