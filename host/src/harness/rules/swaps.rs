//! Rule 7: one harness digest for the episodes of a group; a swap is seen by the next episode,
//! never by a running one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::testkit::*;
use super::super::*;
use crate::plugin::NoWorkspace;
use crate::plugin::testkit::notes;

async fn note(hooks: &mut EpisodeHooks, turn: u32) -> String {
    let ModelCallEffect::Proceed(pieces) = hooks.on_model_call(&at(turn)).await else { panic!() };
    texts(&pieces).join(" ")
}

#[tokio::test]
async fn rule_7_a_swap_is_seen_by_the_next_episode_and_not_by_a_running_one() {
    let (old, new) = (notes("old"), notes("new"));
    let generations = Generations::new(generation_of(engine(), &[("p", &old)]).await);
    let mut running = generations.lease().open(1, Arc::new(NoWorkspace));
    assert_eq!(note(&mut running, 1).await, "old");
    generations.publish(generation_of(engine(), &[("p", &new)]).await);
    // Also where the plugin was not called before the swap.
    let leased_before = running.lease().clone();
    let mut next = generations.lease().open(1, Arc::new(NoWorkspace));
    assert_eq!(note(&mut running, 2).await, "old");
    assert_eq!(note(&mut next, 1).await, "new");
    let mut late = leased_before.open(2, Arc::new(NoWorkspace));
    assert_eq!(note(&mut late, 1).await, "old");
    assert_ne!(running.lease().digest(), next.lease().digest());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rule_7_every_episode_sees_one_harness_under_constant_swaps() {
    const EPISODES: usize = 400;
    let (_dir, blobs) = blobs();
    let mut generations = Vec::new();
    for name in ["one", "two", "three"] {
        let bytes = notes(name);
        let manifest = manifest(&blobs, &[(name, bytes.as_slice())]);
        generations.push((name, Generation::build(engine(), manifest, &blobs).await.unwrap()));
    }
    let current = Generations::new(generations[0].1.clone());
    let done = Arc::new(AtomicBool::new(false));
    let publisher = {
        let (current, done) = (current.clone(), done.clone());
        let next: Vec<_> = generations.iter().map(|(_, next)| next.clone()).collect();
        std::thread::spawn(move || {
            let mut swaps = 0;
            while !done.load(Ordering::Relaxed) {
                current.publish(next[swaps % 3].clone());
                swaps += 1;
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
            swaps
        })
    };
    let mut episodes = Vec::new();
    for seed in 0..EPISODES {
        if seed % 20 == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let lease = current.lease();
        episodes.push(tokio::spawn(async move {
            let mut hooks = lease.open(seed as u64, Arc::new(NoWorkspace));
            for turn in 1..=5 {
                hooks.on_model_call(&at(turn)).await;
                tokio::task::yield_now().await;
            }
            let digest = hooks.lease().digest();
            (digest, hooks.finish().0)
        }));
    }
    let mut seen = std::collections::BTreeSet::new();
    for episode in episodes {
        let (digest, effects) = episode.await.unwrap();
        let (name, _) = generations.iter().find(|(_, g)| g.digest() == digest).unwrap();
        assert_eq!(effects.len(), 5);
        assert!(effects.iter().all(|effect| effect.text == *name), "{name}: {effects:?}");
        seen.insert(digest);
    }
    done.store(true, Ordering::Relaxed);
    let swaps = publisher.join().unwrap();
    assert!(swaps > 3 && seen.len() == 3, "{swaps} swaps, {} harnesses seen", seen.len());
}
