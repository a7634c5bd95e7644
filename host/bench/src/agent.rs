//! What does the agent loop cost beside mini-SWE-agent 2.4.6? `make bench-agent` writes
//! `docs/benchmarks-agent.md`.
//!
//! Both play the same scripted replies, in the same run, by turns; both run commands with bubblewrap.
//! The wall and processor time of a turn is the difference between episodes of many turns and of one.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use measure::processor_seconds;
use serde::Deserialize;
use serde_json::{Value, json};
use tandem_host::agent::{Cancel, EpisodeRecord, EpisodeSpec, Exit, Outcome};
use tandem_host::harness::{Generation, HarnessManifest, Lease, Prompts};
use tandem_host::policy::{Reply, Sampling, ScriptedPolicy};
use tandem_host::rollout::{RolloutConfig, run_many};
use tandem_host::task::Task;
use tandem_host::workspace::{Files, Workspace, WorkspaceConfig};

use crate::{agent_idle, agent_page, machine};

pub const ROUNDS: usize = 5;
/// Episodes of each kind in a round.
pub const EPISODES: usize = 6;
/// Turns of a long episode; the last one hands in.
pub const TURNS: usize = 31;
/// Commands of each kind in a round, without an agent.
pub const COMMANDS: usize = 60;
/// Turns after which a workspace is kept.
pub const CHECKPOINTS: usize = 20;
/// Episodes at once.
pub const AT_ONCE: usize = 64;
/// Turns of each of them.
pub const TURNS_AT_ONCE: usize = 11;

pub const COMMAND: &str = "true";
const SYSTEM: &str = "You repair code.";
const HAND_IN: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";

/// What a number of episodes or commands took.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Took {
    /// Seconds.
    pub wall: f64,
    /// Seconds of processors, those of children with them.
    pub cpu: f64,
    /// The part of it that the program itself used.
    pub own: f64,
    /// For each episode, seconds before each model call, from its start or the call before.
    pub gaps: Vec<Vec<f64>>,
}

/// Seconds of one thing: wall and processors.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub wall: f64,
    pub cpu: f64,
    pub own: f64,
}

impl Cost {
    pub fn minus(self, other: Self) -> Self {
        Self { wall: self.wall - other.wall, cpu: self.cpu - other.cpu, own: self.own - other.own }
    }
}

/// Times from a moment on.
struct Watch(Instant, (f64, f64));

impl Watch {
    fn start() -> Self {
        Self(Instant::now(), processor_seconds())
    }

    fn took(&self) -> Took {
        let (own, children) = processor_seconds();
        let own = own - self.1.0;
        let cpu = own + children - self.1.1;
        Took { wall: self.0.elapsed().as_secs_f64(), cpu, own, gaps: Vec::new() }
    }
}

impl Took {
    fn each(&self, count: usize) -> Cost {
        let (count, Self { wall, cpu, own, .. }) = (count as f64, self);
        Cost { wall: wall / count, cpu: cpu / count, own: own / count }
    }
}

/// The samples of one contender, one of each for a round.
#[derive(Default)]
pub struct Contender {
    pub episode: Vec<Cost>,
    pub turn: Vec<Cost>,
    /// A command in its sandbox, without an agent.
    pub command: Vec<Cost>,
    pub per_minute: Vec<f64>,
    pub crowd: Took,
}

pub fn run(package: &Path, script: &Path, out: &Path) -> Result<()> {
    ensure!(
        package.join("minisweagent").is_dir(),
        "{} holds no mini-SWE-agent\nhelp: `scripts/agent_packages.sh` fetches it",
        package.display()
    );
    let machine = machine::lines();
    let folder = tempfile::tempdir()?;
    let task = write_task(folder.path())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let theirs = |jobs: &[Value]| theirs(package, script, &folder.path().join(TREE), jobs);
    let ours = |turns: usize, episodes: usize, at_once: usize| {
        runtime.block_on(ours(&task, turns, episodes, at_once))
    };
    // Both find out what this machine can do.
    ours(2, 1, 1)?;
    let (mut us, mut them, mut bare) = (Contender::default(), Contender::default(), Vec::new());
    for round in 1..=ROUNDS {
        let jobs = [
            job(2, 1, 1),
            job(1, EPISODES, 1),
            job(TURNS, EPISODES, 1),
            json!({"commands": COMMANDS, "command": COMMAND}),
        ];
        let answers = theirs(&jobs)?;
        let [_, short, long, commands] = &answers[..] else {
            bail!("mini-SWE-agent answered {} of {} jobs", answers.len(), jobs.len());
        };
        them.add(short, long, commands);
        let (short, long) = (ours(1, EPISODES, 1)?, ours(TURNS, EPISODES, 1)?);
        let commands = runtime.block_on(our_commands(&task))?;
        us.add(&short, &long, &commands);
        bare.push(bare_commands()?.each(COMMANDS));
        eprintln!("round {round} of {ROUNDS}: a turn takes {}", in_words(&us, &them));
    }
    us.crowd = ours(TURNS_AT_ONCE, AT_ONCE, AT_ONCE)?;
    them.crowd = theirs(&[job(TURNS_AT_ONCE, AT_ONCE, AT_ONCE)])?.pop().unwrap_or_default();
    let kept = [runtime.block_on(kept(&task, Files::Copy))?, runtime.block_on(kept(&task, Files::Overlay))?];
    let idle = agent_idle::of_a_process_of_its_own()?;
    std::fs::write(out, agent_page::page(&machine, &us, &them, &bare, &kept, &idle)?)?;
    Ok(())
}

fn in_words(us: &Contender, them: &Contender) -> String {
    let ms = |contender: &Contender| median(contender.turn.iter().map(|cost| cost.wall)) * 1e3;
    format!("{:.1} ms here and {:.1} ms there", ms(us), ms(them))
}

impl Contender {
    fn add(&mut self, short: &Took, long: &Took, commands: &Took) {
        let (short, long) = (short.each(EPISODES), long.each(EPISODES));
        let more = (TURNS - 1) as f64;
        let Cost { wall, cpu, own } = long.minus(short);
        self.turn.push(Cost { wall: wall / more, cpu: cpu / more, own: own / more });
        self.episode.push(short);
        self.command.push(commands.each(COMMANDS));
        self.per_minute.push(60.0 / long.wall);
    }
}

/// The folder of a task's files.
const TREE: &str = "task/environment/workspace";

/// A task with a small repository, and tests that say yes.
pub fn write_task(folder: &Path) -> Result<Arc<Task>> {
    let write = |name: &str, text: &str| -> Result<()> {
        let path = folder.join("task").join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
        std::fs::write(path, text)?;
        Ok(())
    };
    write("task.toml", "schema_version = \"1.4\"\n")?;
    write("instruction.md", "repair it\n")?;
    write("tests/test.sh", "echo 1 > /logs/verifier/reward.txt\n")?;
    for file in 0..100 {
        let text = format!("def f{file}(left, right):\n    return left - right\n").repeat(20);
        write(&format!("environment/workspace/package/module_{file}.py"), &text)?;
    }
    Ok(Arc::new(Task::load(&folder.join("task"))?))
}

pub fn replies(turns: usize) -> Vec<String> {
    let reply = |command: &str| format!("I go on.\n\n```bash\n{command}\n```");
    let mut replies = vec![reply(COMMAND); turns - 1];
    replies.push(reply(HAND_IN));
    replies
}

fn job(turns: usize, episodes: usize, at_once: usize) -> Value {
    json!({
        "replies": replies(turns),
        "episodes": episodes,
        "at_once": at_once,
        "system": SYSTEM,
        "instance": "{{ task }}",
    })
}

/// What these jobs take there, in one process.
fn theirs(package: &Path, script: &Path, files: &Path, jobs: &[Value]) -> Result<Vec<Took>> {
    let mut child = Command::new("python3")
        .arg(script)
        .args([package, files])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("python3 cannot be started")?;
    let mut input = child.stdin.take().context("no standard input")?;
    input.write_all(serde_json::to_string(jobs)?.as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{} failed", script.display());
    let lines = std::str::from_utf8(&output.stdout)?.lines();
    lines.map(|line| Ok(serde_json::from_str(line)?)).collect()
}

pub fn lease() -> Lease {
    let prompts = Prompts {
        system: SYSTEM.into(),
        instance: "{{ instruction }}".into(),
        observation: "exit code {{ exit_code }}\n{{ text }}".into(),
        ..Prompts::default()
    };
    Arc::new(Generation::bare(HarnessManifest { prompts, ..HarnessManifest::bare() })).lease()
}

pub fn specs(task: &Arc<Task>, episodes: usize) -> Vec<EpisodeSpec> {
    let spec = |at: usize| EpisodeSpec {
        id: format!("e{at}"),
        group: format!("g{at}"),
        task: task.clone(),
        seed: 0,
        sampling: Sampling::default(),
        skill: None,
    };
    (0..episodes).map(spec).collect()
}

/// What episodes take here, each with its verification.
async fn ours(task: &Arc<Task>, turns: usize, episodes: usize, at_once: usize) -> Result<Took> {
    let calls: Arc<Mutex<HashMap<String, Vec<Instant>>>> = Arc::default();
    let (replies, noted) = (replies(turns), calls.clone());
    let policy = ScriptedPolicy::answering(move |request, turn, _| {
        if let Ok(mut noted) = noted.lock() {
            noted.entry(request.episode.clone()).or_default().push(Instant::now());
        }
        Some(Reply { text: replies.get(turn - 1)?.clone(), ..Reply::default() })
    });
    let config = RolloutConfig { concurrency: at_once, retries: 0, workspaces: WorkspaceConfig::default() };
    let watch = Watch::start();
    let one = lease();
    let summary = run_many::<anyhow::Error>(
        specs(task, episodes),
        Arc::new(policy),
        |_| one.clone(),
        &config,
        &Cancel::new(),
        |record: EpisodeRecord| {
            ensure!(record.outcome == Outcome::Solved && record.exit == Exit::Submitted, "{:?}", record.exit);
            Ok(())
        },
    )
    .await?;
    let took = watch.took();
    ensure!(summary.valid == episodes, "{summary:?}");
    let calls = calls.lock().map_err(|_| anyhow!("a policy broke down"))?;
    let gaps = calls.values().map(|times| {
        let from = std::iter::once(&watch.0).chain(times);
        from.zip(times).map(|(before, call)| call.duration_since(*before).as_secs_f64()).collect()
    });
    Ok(Took { gaps: gaps.collect(), ..took })
}

/// Commands in a workspace, without an agent.
async fn our_commands(task: &Arc<Task>) -> Result<Took> {
    let config = WorkspaceConfig::default();
    let snapshot = task.snapshot(&config).await?;
    let workspace = Workspace::create(snapshot, &config).await?;
    let watch = Watch::start();
    for _ in 0..COMMANDS {
        let output = workspace.bash(COMMAND, Duration::from_secs(30)).await?;
        ensure!(output.exit_code == Some(0), "the command failed");
    }
    let wall = watch.took().wall;
    // What commands used of processors is told when their sandbox ends, which is before files are read.
    workspace.extract().await?;
    let took = watch.took();
    let watch = Watch::start();
    workspace.extract().await?;
    let reading = watch.took();
    Ok(Took { wall, cpu: took.cpu - reading.cpu, own: took.own - reading.own, gaps: Vec::new() })
}

/// What it takes to keep a workspace as it is after a turn, and to start one from there.
pub struct Kept {
    pub checkpoint: Cost,
    pub resume: Cost,
}

/// With the files as a copy and as an overlay.
async fn kept(task: &Arc<Task>, files: Files) -> Result<Kept> {
    let config = WorkspaceConfig { files, ..WorkspaceConfig::default() };
    let workspace = Workspace::create(task.snapshot(&config).await?, &config).await?;
    let (mut checkpoints, mut resumes) = (Vec::new(), Vec::new());
    for turn in 0..CHECKPOINTS {
        let edit = format!("echo '# {turn}' >> package/module_{turn}.py");
        let output = workspace.bash(&edit, Duration::from_secs(30)).await?;
        ensure!(output.exit_code == Some(0), "the command failed");
        let watch = Watch::start();
        let point = workspace.checkpoint().await?;
        checkpoints.push(watch.took().each(1));
        let watch = Watch::start();
        let again = Workspace::resume(&point, &config, Vec::new()).await?;
        resumes.push(watch.took().each(1));
        drop(again);
    }
    Ok(Kept { checkpoint: middle(&checkpoints), resume: middle(&resumes) })
}

/// The command itself: a shell that nothing is around.
fn bare_commands() -> Result<Took> {
    let watch = Watch::start();
    for _ in 0..COMMANDS {
        let output = Command::new("/bin/bash").args(["-c", COMMAND]).output()?;
        ensure!(output.status.success(), "the command failed");
    }
    Ok(watch.took())
}

pub fn median(samples: impl IntoIterator<Item = f64>) -> f64 {
    let mut samples: Vec<f64> = samples.into_iter().collect();
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Medians of each.
pub fn middle(costs: &[Cost]) -> Cost {
    let of = |part: fn(&Cost) -> f64| median(costs.iter().map(part));
    Cost { wall: of(|cost| cost.wall), cpu: of(|cost| cost.cpu), own: of(|cost| cost.own) }
}

/// Where the package lies that `scripts/agent_packages.sh` fetches.
pub fn package() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home).unwrap_or_default();
    cache.join("tandem/mini-swe-agent-2.4.6")
}
