//! Real plugins are swapped while scripted episodes run in real sandboxes: does each record show
//! one harness, and the effects of that harness's plugins only?

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tandem_host::agent::{Cancel, EpisodeRecord, EpisodeSpec, Outcome};
use tandem_host::forge::{Forge, ForgeConfig, Source};
use tandem_host::harness::{Generation, Generations, HarnessManifest, PluginEntry};
use tandem_host::plugin::{Engine, PluginLimits};
use tandem_host::policy::{Origin, Sampling, ScriptedPolicy};
use tandem_host::rollout::{RolloutConfig, RolloutError, run_many};
use tandem_host::store::{BlobStore, Digest};
use tandem_host::task::Task;

const EPISODES: usize = 240;

static FORGE: LazyLock<Forge> = LazyLock::new(|| {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("forge");
    Forge::new(ForgeConfig::new(cache)).unwrap_or_else(|error| panic!("{error}"))
});

/// A plugin that tells its name at three points.
fn speaker(name: &str) -> Vec<u8> {
    let text = r#"
use tandem_plugin::*;

pub struct Plugin;

impl OnEpisodeStart for Plugin {
    fn on_episode_start(_: Context, _: String) -> Option<String> {
        Some("NAME starts".into())
    }
}

impl OnModelCall for Plugin {
    fn on_model_call(context: Context) -> Option<ModelCallEffect> {
        Some(ModelCallEffect::Note(format!("NAME at turn {}", context.turn)))
    }
}

impl OnToolResult for Plugin {
    fn on_tool_result(_: Context, _: ToolCall, _: ToolResult) -> Option<ToolResultEffect> {
        Some(ToolResultEffect::Annotate("NAME saw it".into()))
    }
}

export_on_episode_start!(Plugin);
export_on_model_call!(Plugin);
export_on_tool_result!(Plugin);
"#;
    let source = Source::File { name: format!("{name}.rs"), text: text.replace("NAME", name) };
    FORGE.build(&source).unwrap_or_else(|error| panic!("{error}")).component
}

/// What a harness of the test may put into a record: plugin digest to the name that it tells.
type Speakers = BTreeMap<Digest, &'static str>;

/// Everything in the record that came from a plugin is of this harness, and all of it speaks.
fn check(record: &EpisodeRecord, speakers: &Speakers) {
    let id = &record.id;
    assert!(record.faults.is_empty(), "{id}: {:?}", record.faults);
    let mut heard = BTreeSet::new();
    for effect in &record.effects {
        let name = speakers
            .get(&effect.plugin)
            .unwrap_or_else(|| panic!("{id}: {effect:?} is of no plugin of its harness"));
        assert!(effect.text.trim_start().starts_with(name), "{id}: {effect:?}");
        heard.insert(effect.plugin);
    }
    assert_eq!(heard, speakers.keys().copied().collect(), "{id}: a plugin of its harness said nothing");
    for message in record.turns.iter().flat_map(|turn| &turn.input) {
        for piece in &message.pieces {
            if let Origin::Hook { plugin, .. } = &piece.origin {
                assert!(speakers.contains_key(plugin), "{id}: the policy read a text of another harness");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn episodes_in_sandboxes_keep_their_plugins_while_harnesses_are_swapped() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(dir.path()).unwrap();
    let engine = Engine::new(PluginLimits::default()).unwrap();
    let names = ["ann", "bob", "cyd"];
    let digests: BTreeMap<_, _> =
        names.map(|name| (name, blobs.put(&speaker(name)).unwrap())).into_iter().collect();
    let (mut generations, mut speakers) = (Vec::new(), BTreeMap::new());
    for harness in [&["ann"][..], &["bob", "cyd"], &["cyd", "ann"], &[]] {
        let plugins = harness.iter().map(|name| PluginEntry {
            name: (*name).to_owned(),
            digest: digests[name],
            grants: vec![],
            settings: serde_json::Map::new(),
        });
        let manifest = HarnessManifest { plugins: plugins.collect(), ..HarnessManifest::bare() };
        let generation = Generation::build(&engine, manifest, &blobs).await.unwrap();
        let spoken: Speakers = harness.iter().map(|name| (digests[name], *name)).collect();
        speakers.insert(generation.digest(), spoken);
        generations.push(generation);
    }

    let current = Generations::new(generations[0].clone());
    let (done, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let publisher = {
        let (current, done, swaps) = (current.clone(), done.clone(), swaps.clone());
        std::thread::spawn(move || {
            while !done.load(Ordering::SeqCst) {
                let swap = swaps.fetch_add(1, Ordering::SeqCst) + 1;
                current.publish(generations[swap % generations.len()].clone());
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tasks/add");
    let task = Arc::new(Task::load(&folder).unwrap());
    // Half of the episodes are alone, half in groups of four.
    let group = |at: usize| if at % 2 == 0 { format!("alone-{at}") } else { format!("group-{}", at / 8) };
    let spec = |at: usize| EpisodeSpec {
        id: format!("e{at}"),
        group: group(at),
        task: task.clone(),
        seed: at as u64,
        sampling: Sampling::default(),
        skill: None,
    };
    let script = [
        "sed -i 's/left - right/left + right/' calc.py",
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff",
    ];
    let script: Vec<_> = script.iter().map(|line| format!("```bash\n{line}\n```")).collect();
    let policy = ScriptedPolicy::new(move |_| script.clone());
    let config = RolloutConfig { concurrency: 16, retries: 0, ..RolloutConfig::default() };
    let mut seen: BTreeMap<Digest, usize> = BTreeMap::new();
    let mut groups: BTreeMap<String, BTreeSet<Digest>> = BTreeMap::new();
    let summary = run_many::<RolloutError>(
        (0..EPISODES).map(spec).collect(),
        Arc::new(policy),
        |_| current.lease(),
        &config,
        &Cancel::new(),
        |record| {
            assert_eq!(record.outcome, Outcome::Solved, "{}: {:?}", record.id, record.exit);
            check(&record, &speakers[&record.harness]);
            *seen.entry(record.harness).or_default() += 1;
            let at: usize = record.id[1..].parse().unwrap();
            groups.entry(group(at)).or_default().insert(record.harness);
            Ok(())
        },
    )
    .await
    .unwrap();
    done.store(true, Ordering::SeqCst);
    publisher.join().unwrap();
    let swaps = swaps.load(Ordering::SeqCst);
    println!("{} episodes, {swaps} swaps, episodes of each harness: {:?}", summary.valid, seen.values());
    assert_eq!(summary.valid, EPISODES);
    assert!(groups.values().all(|digests| digests.len() == 1), "a group saw two harnesses");
    assert!(swaps > EPISODES && seen.len() >= 3, "{swaps} swaps, {} harnesses seen", seen.len());
}
