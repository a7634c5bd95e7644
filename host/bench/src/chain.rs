//! How many hook calls a second do two cores serve, and what share of an episode is that?

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use measure::{Figure, Unit, nanoseconds, tell};
use serde_json::json;
use tandem_host::agent::{Cancel, EpisodeSpec, Outcome, SENTINEL, run_episode};
use tandem_host::harness::{
    Generation, Generations, HarnessManifest, Lease, Limits, PatchCandidate, PatchSource, Submission,
    ToolResult, ToolStatus, WorkTree,
};
use tandem_host::plugin::{Context, NoWorkspace};
use tandem_host::policy::{Sampling, ScriptedPolicy, ToolCall};
use tandem_host::store::BlobStore;
use tandem_host::task::Task;
use tandem_host::workspace::WorkspaceConfig;

use crate::calls::context;
use crate::guests::{self, Guests, VARIANTS, now};

const ME: &str = "tandem";
const EPISODES: usize = 10_000;
const TURNS: u32 = 20;
const THREADS: usize = 2;
/// Points that all plugins of the chain hook, each once a turn.
const POINTS: usize = 3;

pub fn run(guests: &Guests) -> Result<()> {
    let engine = guests::engine()?;
    let blobs_dir = tempfile::tempdir()?;
    let blobs = BlobStore::open(blobs_dir.path())?;
    let six = guests::generation(&engine, guests, &guests::variants(), &blobs)?;
    let first_party = guests::generation(&engine, guests, &guests::first_party(), &blobs)?;

    let seconds = episodes(&six.lease())?;
    let calls = EPISODES * TURNS as usize * POINTS * VARIANTS;
    let how = format!("{calls} calls in {EPISODES} episodes on {THREADS} threads, {seconds:.1} s");
    tell(&Figure::one("chain/calls", ME, Unit::PerSecond, calls as f64 / seconds, &how));
    // The time of one episode's hooks on one core.
    let hooks = seconds * THREADS as f64 / EPISODES as f64;
    let how = format!("{TURNS} turns, {} hook calls", TURNS as usize * POINTS * VARIANTS);
    tell(&Figure::one("chain/hooks-of-an-episode", ME, Unit::Nanoseconds, hooks * 1e9, &how));

    let seconds = episodes(&first_party.lease())?;
    let first_party = seconds * THREADS as f64 / EPISODES as f64;
    let how = format!("{EPISODES} episodes of {TURNS} turns, {seconds:.1} s");
    let id = "chain/hooks-of-an-episode/first-party";
    tell(&Figure::one(id, ME, Unit::Nanoseconds, first_party * 1e9, &how));

    let episode = scripted()?;
    let share = 100.0 * hooks * 1e9 / (hooks * 1e9 + episode.median);
    tell(&episode);
    let how = "a scripted policy that answers at once; a model makes it smaller";
    tell(&Figure::one("chain/share", ME, Unit::Percent, share, how));
    Ok(())
}

/// Seconds that all episodes take on all threads.
fn episodes(lease: &Lease) -> Result<f64> {
    let start = Instant::now();
    let faults: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    (0..EPISODES / THREADS)
                        .map(|index| episode(lease, (index * THREADS + thread) as u64))
                        .sum::<usize>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(1)).sum()
    });
    ensure!(faults == 0, "{faults} hook calls failed");
    Ok(start.elapsed().as_secs_f64())
}

/// The hooks of one episode; how many calls failed.
fn episode(lease: &Lease, seed: u64) -> usize {
    let mut hooks = lease.open(seed, Arc::new(NoWorkspace));
    let call = ToolCall { id: "c1".into(), name: "bash".into(), arguments: json!({"command": "ls -l src"}) };
    let result = ToolResult {
        status: ToolStatus::Finished,
        exit_code: Some(0),
        text: "total 2\n-rw-r--r-- 1 a a 1432 Jan  1 00:00 main.rs\n".repeat(8),
        raw_bytes: 416,
    };
    let mut context = Context { turn: 1, ..context() };
    context.budget.turns.limit = Some(u64::from(TURNS));
    for turn in 1..=TURNS {
        context.turn = turn;
        context.budget.turns.used = u64::from(turn - 1);
        now(hooks.on_model_call(&context));
        now(hooks.on_tool_call(&context, &call));
        now(hooks.on_tool_result(&context, &call, &result));
    }
    let patch = PatchCandidate {
        source: PatchSource::Submitted,
        bytes: 120,
        files: vec!["src/main.rs".into()],
        applies: true,
    };
    let work_tree = WorkTree { changed: vec!["src/main.rs".into()], untracked: vec![] };
    now(hooks.on_submit(&context, &Submission { patch, work_tree, deferrals: 0 }));
    hooks.finish().1.len()
}

/// A whole episode without plugins: workspace, a sandboxed command in each turn, verifier.
fn scripted() -> Result<Figure> {
    let task = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/tasks/add");
    let spec = EpisodeSpec {
        id: "e1".into(),
        group: "g1".into(),
        task: Arc::new(Task::load(&task)?),
        seed: 7,
        sampling: Sampling::default(),
        skill: None,
    };
    let say = |command: &str| format!("I do this.\n```bash\n{command}\n```");
    let mut replies = vec![say("sed -i 's/left - right/left + right/' calc.py")];
    // Each another command, so that nothing looks like a loop.
    replies.extend((2..TURNS).map(|turn| say(&format!("head -n {turn} calc.py"))));
    replies.push(say(&format!("echo {SENTINEL} && git diff")));
    let policy = ScriptedPolicy::new(move |_| replies.clone());
    let limits = Limits { turns: u64::from(TURNS), ..Limits::default() };
    let generations =
        Generations::new(Generation::bare(HarnessManifest { limits, ..HarnessManifest::bare() }));
    // Workspaces run their commands through tokio.
    let runtime = guests::runtime()?;
    let config = WorkspaceConfig::default();
    let mut samples = Vec::new();
    for _ in 0..15 {
        let (lease, cancel) = (generations.lease(), Cancel::new());
        let (record, time) =
            nanoseconds(|| runtime.block_on(run_episode(&spec, &policy, &lease, &config, &cancel)));
        let record = record.context("the scripted episode was cancelled")?;
        ensure!(
            record.outcome == Outcome::Solved && record.turns.len() == TURNS as usize,
            "the scripted episode did not go as its script says"
        );
        samples.push(time);
    }
    let how = format!("15 episodes of {TURNS} turns, a sandboxed command in each");
    Ok(Figure::of("chain/scripted-episode", ME, Unit::Nanoseconds, samples, &how))
}
