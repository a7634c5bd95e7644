//! Ten thousand swaps under 256 episodes: does each keep its harness, does any wait, does memory
//! stay flat?

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;

use super::*;
use crate::plugin::testkit::*;
use crate::plugin::{Engine, NoWorkspace, PluginLimits};
use crate::store::{BlobStore, Digest};

const EPISODES: usize = 256;
const SWAPS: usize = 10_000;
/// Every so many swaps the next generation is freshly built, not one of a few kept ones.
const FRESH: usize = 20;

/// Notes what its settings are, so that each effect tells its generation; `pages` makes it
/// another component.
fn tells_settings(pages: u32) -> Vec<u8> {
    let body = format!(
        "(call $get (i32.const 128)) {}",
        say(0, "(i32.load (i32.const 128))", "(i32.load (i32.const 132))")
    );
    let guest = Guest::new().import("settings", "get", "(param i32)");
    guest.on(HookPoint::OnModelCall, &body).pages(pages).build()
}

/// Runs the test `name` in a process of its own, since resident memory is that of a process.
/// True in that process: the caller goes on.
fn alone(name: &str) -> bool {
    const MARK: &str = "TANDEM_TEST_ALONE";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args([name, "--exact", "--nocapture"]).env(MARK, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "there is no test {name}: {text}");
    false
}

/// Resident memory of this process, KiB.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// What the builder of generations has.
struct Builder {
    engine: Engine,
    blobs: BlobStore,
    plugins: [PluginEntry; 2],
    /// Whether a build is going on now.
    building: AtomicBool,
    built: AtomicU64,
}

impl Builder {
    fn new(dir: &std::path::Path) -> Self {
        let blobs = BlobStore::open(dir).unwrap();
        let plugins = [("one", 32), ("two", 33)].map(|(name, pages)| PluginEntry {
            name: name.into(),
            digest: blobs.put(&tells_settings(pages)).unwrap(),
            grants: vec!["settings".into()],
            settings: serde_json::Map::new(),
        });
        let (building, built) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { engine: Engine::new(PluginLimits::default()).unwrap(), blobs, plugins, building, built }
    }

    /// A generation that no other is like.
    async fn build(&self) -> Arc<Generation> {
        let number = self.built.fetch_add(1, Ordering::SeqCst);
        let mut manifest = HarnessManifest { plugins: self.plugins.to_vec(), ..HarnessManifest::bare() };
        for plugin in &mut manifest.plugins {
            plugin.settings.insert("generation".into(), number.into());
        }
        self.building.store(true, Ordering::SeqCst);
        let generation = Generation::build(&self.engine, manifest, &self.blobs).await.unwrap();
        self.building.store(false, Ordering::SeqCst);
        generation
    }
}

/// What the episodes saw, all together.
#[derive(Default)]
struct Seen {
    running: AtomicUsize,
    most: AtomicUsize,
    episodes: AtomicUsize,
    calls: AtomicUsize,
    leased_during_a_build: AtomicUsize,
}

/// One episode after the other until `done`, each checked.
async fn episodes(
    generations: Arc<Generations>,
    builder: Arc<Builder>,
    seen: Arc<Seen>,
    done: Arc<AtomicBool>,
) -> BTreeSet<Digest> {
    let mut digests = BTreeSet::new();
    while !done.load(Ordering::SeqCst) {
        let building = builder.building.load(Ordering::SeqCst);
        let lease = generations.lease();
        if building && builder.building.load(Ordering::SeqCst) {
            seen.leased_during_a_build.fetch_add(1, Ordering::SeqCst);
        }
        let running = seen.running.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most.fetch_max(running, Ordering::SeqCst);
        let (digest, manifest) = (lease.digest(), lease.manifest().clone());
        let mut hooks = lease.open(1, Arc::new(NoWorkspace));
        for turn in 1..=4 {
            hooks.on_model_call(&Context { turn, ..Context::default() }).await;
            assert_eq!(hooks.lease().digest(), digest);
            tokio::task::yield_now().await;
        }
        let (effects, faults) = hooks.finish();
        assert!(faults.is_empty(), "{faults:?}");
        let said: Vec<_> = effects.iter().map(|effect| (effect.plugin, effect.text.clone())).collect();
        let expected: Vec<_> = manifest
            .plugins
            .iter()
            .map(|plugin| (plugin.digest, serde_json::Value::Object(plugin.settings.clone()).to_string()))
            .collect();
        let expected: Vec<_> = std::iter::repeat_n(expected, 4).flatten().collect();
        assert_eq!(said, expected, "an episode of {digest} saw another harness");
        seen.calls.fetch_add(effects.len(), Ordering::SeqCst);
        seen.episodes.fetch_add(1, Ordering::SeqCst);
        seen.running.fetch_sub(1, Ordering::SeqCst);
        digests.insert(digest);
    }
    digests
}

#[test]
fn ten_thousand_swaps_under_256_episodes_mix_nothing_and_keep_memory_flat() {
    if !alone("harness::swap_tests::ten_thousand_swaps_under_256_episodes_mix_nothing_and_keep_memory_flat") {
        return;
    }
    // Neither is async: publishing and leasing have nothing that could wait for a build.
    let publish: fn(&Generations, Arc<Generation>) = Generations::publish;
    let lease: fn(&Generations) -> Lease = Generations::lease;

    let dir = tempfile::tempdir().unwrap();
    let builder = Arc::new(Builder::new(dir.path()));
    let workers = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let off_the_path = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kept: Vec<_> = (0..4).map(|_| off_the_path.block_on(builder.build())).collect();
    let generations = Generations::new(kept[0].clone());
    assert_eq!(lease(&generations).digest(), kept[0].digest());
    let (seen, done) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
    let running: Vec<_> = (0..EPISODES)
        .map(|_| workers.spawn(episodes(generations.clone(), builder.clone(), seen.clone(), done.clone())))
        .collect();
    // Memory that every place needs once is there before anything is measured.
    while seen.episodes.load(Ordering::SeqCst) < 4 * EPISODES {
        assert!(running.iter().all(|episode| !episode.is_finished()), "an episode failed");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }

    let mut fresh: Vec<Weak<Generation>> = Vec::new();
    let (mut first, mut last, mut most_alive) = (Vec::new(), Vec::new(), 0);
    for swap in 0..SWAPS {
        let next = match swap % FRESH {
            0 => {
                let built = off_the_path.block_on(builder.build());
                fresh.push(Arc::downgrade(&built));
                built
            }
            _ => kept[swap % kept.len()].clone(),
        };
        publish(&generations, next);
        if swap % 20 == 10 {
            most_alive = most_alive.max(fresh.iter().filter(|weak| weak.strong_count() > 0).count());
            match swap {
                0..1000 => first.push(resident()),
                9000.. => last.push(resident()),
                _ => {}
            }
        }
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
    done.store(true, Ordering::SeqCst);
    let mut digests = BTreeSet::new();
    for episode in running {
        digests.extend(workers.block_on(episode).unwrap());
    }

    let mean = |samples: &[u64]| samples.iter().sum::<u64>() as f64 / samples.len() as f64;
    let (first, last) = (mean(&first), mean(&last));
    let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
    println!(
        "{SWAPS} swaps, {} of them to fresh builds; {} episodes, {} at once, of {} harnesses; {} effects; {} leases during a build; at most {most_alive} drained-to-be generations alive; resident {first:.0} KiB in the first thousand swaps, {last:.0} KiB in the last",
        fresh.len(),
        count(&seen.episodes),
        count(&seen.most),
        digests.len(),
        count(&seen.calls),
        count(&seen.leased_during_a_build),
    );
    assert_eq!(count(&seen.most), EPISODES);
    assert!(digests.len() > kept.len(), "no episode saw a freshly built harness");
    // Two components, each compiled once however many generations hold them.
    assert_eq!(builder.engine.compiled(), 2);
    // Only what an episode holds, and the current one, is alive.
    assert!(most_alive <= EPISODES + 1, "{most_alive} generations alive under {EPISODES} episodes");
    publish(&generations, kept[0].clone());
    let alive = fresh.iter().filter(|weak| weak.strong_count() > 0).count();
    assert_eq!(alive, 0, "generations outlive their last lease");
    assert!((last - first).abs() <= 0.05 * first, "resident memory went from {first} to {last} KiB");
}

#[tokio::test]
async fn an_episode_begins_and_ends_while_the_next_generation_is_being_built() {
    let dir = tempfile::tempdir().unwrap();
    let builder = Builder::new(dir.path());
    let first = builder.build().await;
    let generations = Generations::new(first.clone());

    let mut manifest = HarnessManifest::bare();
    manifest.plugins.push(PluginEntry {
        name: "three".into(),
        digest: builder.blobs.put(&tells_settings(34)).unwrap(),
        grants: vec!["settings".into()],
        settings: serde_json::Map::new(),
    });
    let mut build = std::pin::pin!(Generation::build(&builder.engine, manifest, &builder.blobs));
    let begun = std::future::poll_fn(|task| Poll::Ready(build.as_mut().poll(task).is_pending())).await;
    assert!(begun, "the build was done at once");
    let mut hooks = generations.lease().open(1, Arc::new(NoWorkspace));
    hooks.on_model_call(&Context { turn: 1, ..Context::default() }).await;
    assert_eq!(hooks.finish().0.len(), 2);

    let next = build.await.unwrap();
    assert_eq!(generations.current(), first.digest());
    generations.publish(next.clone());
    assert_eq!(generations.lease().digest(), next.digest());
}
