//! How much memory does an episode hold that waits for its policy?

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tandem_host::agent::Cancel;
use tandem_host::policy::{Message, OpenSession, Policy, PolicyError, Reply, Session};
use tandem_host::rollout::{Cancelled, RolloutConfig, run_many};
use tandem_host::task::Task;
use tandem_host::workspace::WorkspaceConfig;

use crate::agent::{lease, replies, specs, write_task};

/// Episodes that wait.
pub const IDLE: usize = 256;

/// Memory of episodes that wait for their policy.
#[derive(Debug, Serialize, Deserialize)]
pub struct Idle {
    /// KiB of this process for each of them.
    pub ours: f64,
    /// KiB of their workspaces' processes, each page counted once, for each of them.
    pub others: f64,
    /// Processes of their workspaces.
    pub processes: usize,
}

/// In a new process, whose memory holds nothing else.
pub fn of_a_process_of_its_own() -> Result<[Idle; 2]> {
    let ask = |files: &str| -> Result<Idle> {
        let output = Command::new(std::env::current_exe()?).args(["agent-idle", files]).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    Ok([ask("copy")?, ask("overlay")?])
}

/// What `tandem-bench agent-idle FILES` prints.
pub fn run(files: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let task = write_task(folder.path())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let workspaces = WorkspaceConfig { files: serde_json::from_value(json!(files))?, ..Default::default() };
    println!("{}", serde_json::to_string(&runtime.block_on(waiting(&task, workspaces))?)?);
    Ok(())
}

async fn waiting(task: &Arc<Task>, workspaces: WorkspaceConfig) -> Result<Idle> {
    let config = RolloutConfig { concurrency: IDLE, retries: 0, workspaces };
    // Once, so that what is made once is there.
    at_rest(task, &config, 1, || Ok(())).await?;
    let before = resident()?;
    let count = IDLE as f64;
    at_rest(task, &config, IDLE, || {
        let ours = (resident()? - before) / count;
        let children = children(std::process::id())?;
        let others =
            children.iter().filter_map(|id| proportional(*id)).fold(0.0, |sum, kib| sum + kib) / count;
        Ok(Idle { ours, others, processes: children.len() })
    })
    .await
}

/// Looks when so many episodes wait for their policy, and ends them.
async fn at_rest<T>(
    task: &Arc<Task>,
    config: &RolloutConfig,
    count: usize,
    look: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let (policy, cancel, one) = (Arc::new(Waiting::default()), Cancel::new(), lease());
    let waiting = policy.waiting.clone();
    let rollout = run_many::<anyhow::Error>(
        specs(task, count),
        policy,
        |_| one.clone(),
        config,
        &cancel,
        |record| Err(anyhow!("an episode ended: {:?}", record.exit)),
    );
    let look = async {
        while waiting.load(Ordering::SeqCst) < count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let seen = look();
        cancel.cancel();
        seen
    };
    tokio::pin!(rollout, look);
    let seen = tokio::select! {
        ended = &mut rollout => {
            ended?;
            return Err(anyhow!("the episodes ended"));
        }
        seen = &mut look => seen,
    };
    match rollout.await {
        Err(error) if error.is::<Cancelled>() => seen,
        Err(error) => Err(error),
        Ok(_) => seen,
    }
}

/// Gives one command, and then nothing more.
#[derive(Default)]
struct Waiting {
    waiting: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl Policy for Waiting {
    async fn open(&self, _: OpenSession) -> Result<Box<dyn Session>, PolicyError> {
        Ok(Box::new(WaitingSession { waiting: self.waiting.clone(), turn: 0 }))
    }

    fn version(&self) -> u64 {
        0
    }

    fn name(&self) -> String {
        "waiting".into()
    }
}

struct WaitingSession {
    waiting: Arc<AtomicUsize>,
    turn: usize,
}

#[async_trait::async_trait]
impl Session for WaitingSession {
    async fn reply(&mut self, _: &[Message]) -> Result<Reply, PolicyError> {
        self.turn += 1;
        if self.turn > 1 {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
        Ok(Reply { text: replies(2)[0].clone(), ..Reply::default() })
    }
}

/// KiB of a line of `/proc`.
fn kib(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().ok()
}

/// Of this process.
fn resident() -> Result<f64> {
    kib(&std::fs::read_to_string("/proc/self/status")?, "VmRSS").context("no VmRSS")
}

/// Memory of a process, with pages that it shares counted in parts; none when it has ended.
fn proportional(id: u32) -> Option<f64> {
    kib(&std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()?, "Pss")
}

/// All processes below one.
fn children(of: u32) -> Result<Vec<u32>> {
    let mut below = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        if parent == Some(of) {
            below.push(id);
            below.extend(children(id)?);
        }
    }
    Ok(below)
}
