//! How soon does a new episode have its first answer, and how soon is a new harness in use?

use std::sync::Arc;

use anyhow::{Result, ensure};
use measure::{Figure, Unit, nanoseconds, tell};
use serde_json::json;
use tandem_host::harness::{Generations, LimitKind, PatchCandidate, PatchSource, Submission, WorkTree};
use tandem_host::harness::{Lease, ToolResult, ToolStatus};
use tandem_host::plugin::NoWorkspace;
use tandem_host::policy::ToolCall;
use tandem_host::store::BlobStore;

use crate::calls::context;
use crate::guests::{self, Guests, now};

const ME: &str = "tandem";
const ROUNDS: usize = 2000;
const WARM_UP: usize = 200;

/// Nanoseconds of `ROUNDS` runs, after some that do not count.
fn rounds(id: &str, mut work: impl FnMut()) -> Figure {
    (0..WARM_UP).for_each(|_| work());
    let samples = (0..ROUNDS).map(|_| nanoseconds(&mut work).1).collect();
    Figure::of(id, ME, Unit::Nanoseconds, samples, &format!("{ROUNDS} episodes"))
}

pub fn run(guests: &Guests) -> Result<()> {
    let engine = guests::engine()?;
    let blobs_dir = tempfile::tempdir()?;
    let blobs = BlobStore::open(blobs_dir.path())?;
    let six = guests::generation(&engine, guests, &guests::variants(), &blobs)?;
    let first_party = guests::generation(&engine, guests, &guests::first_party(), &blobs)?;
    let generations = Generations::new(six.clone());

    // Dropping the instances is the end of an episode, not its start.
    let mut ended = Vec::with_capacity(ROUNDS);
    let context = context();
    let mut first_call = |id: &str| {
        let mut samples = Vec::with_capacity(ROUNDS);
        for round in 0..WARM_UP + ROUNDS {
            let (hooks, time) = nanoseconds(|| {
                let mut hooks = generations.lease().open(round as u64, Arc::new(NoWorkspace));
                now(hooks.on_model_call(&context));
                hooks
            });
            ended.push(hooks);
            if ended.len() == 32 {
                ended.clear();
            }
            if round >= WARM_UP {
                samples.push(time);
            }
        }
        tell(&Figure::of(id, ME, Unit::Nanoseconds, samples, &format!("{ROUNDS} episodes")));
    };
    first_call("episode/first-call");
    generations.publish(first_party.clone());
    first_call("episode/first-call/first-party");
    every_plugin(&generations.lease())?;
    tell(&rounds("episode/first-party-all", || every_plugin(&generations.lease()).unwrap_or(())));

    // A swap by itself, and the building of a generation from what is admitted already.
    let mut next = [six, first_party].into_iter().cycle();
    tell(&rounds("publish/swap", || {
        let Some(generation) = next.next() else { return };
        let digest = generation.digest();
        generations.publish(generation);
        assert_eq!(generations.lease().digest(), digest, "a lease is on what was published");
    }));
    let mut names = guests::variants();
    let (mut samples, mut built) = (Vec::new(), 0);
    for _ in 0..200 {
        names.rotate_left(1);
        let (generation, time) = nanoseconds(|| {
            let generation = guests::generation(&engine, guests, &names, &blobs)?;
            generations.publish(generation.clone());
            anyhow::Ok((generations.lease().digest() == generation.digest()).then_some(generation))
        });
        built += usize::from(generation?.is_some());
        samples.push(time);
    }
    ensure!(built == samples.len(), "a lease is on what was published");
    tell(&Figure::of("publish/build-and-swap", ME, Unit::Nanoseconds, samples, "200 generations"));
    Ok(())
}

/// An episode in which every first-party plugin answers once.
fn every_plugin(lease: &Lease) -> Result<()> {
    let context = context();
    let mut hooks = lease.open(1, Arc::new(NoWorkspace));
    let call = ToolCall { id: "c1".into(), name: "bash".into(), arguments: json!({"command": "ls"}) };
    let result =
        ToolResult { status: ToolStatus::Finished, exit_code: Some(0), text: "a.py".into(), raw_bytes: 4 };
    let patch = PatchCandidate { source: PatchSource::WorkTree, bytes: 0, files: vec![], applies: true };
    let work_tree = WorkTree { changed: vec![], untracked: vec!["new.py".into()] };
    now(hooks.on_model_call(&context));
    now(hooks.on_tool_result(&context, &call, &result));
    let view = ToolCall { name: "view".into(), arguments: json!({"path": "a.py"}), ..call };
    now(hooks.call_tool(&context, &view));
    let submission = Submission { patch: patch.clone(), work_tree, deferrals: 0 };
    now(hooks.on_submit(&context, &submission));
    now(hooks.on_limit(&context, LimitKind::Turns, &patch));
    let (_, faults) = hooks.finish();
    ensure!(faults.is_empty(), "a first-party plugin failed: {}", faults[0].reason);
    Ok(())
}
