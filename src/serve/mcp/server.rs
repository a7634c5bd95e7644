//! Which harness do new sessions get, and what do all sessions share?

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use anyhow::{Context, Result};
use tandem_host::harness::{Generation, Generations, HookPoint, Lease};
use tandem_host::plugin::{NoWorkspace, WorkspaceAccess};
use tandem_host::workspace::{Snapshot, Workspace, WorkspaceConfig};
use tokio::sync::watch;

use super::session::Session;

/// Whether open sessions go on to a harness that is activated while they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenSessions {
    /// They keep the generation that they leased at their start.
    Keep,
    /// They are told that the list of tools changed, and take the new generation with the next list that
    /// they ask for.
    Follow,
}

/// What a server is set up for.
pub struct Setup {
    /// The files that every session has a copy of; none when plugins have no workspace.
    pub files: Option<Arc<Snapshot>>,
    pub workspaces: WorkspaceConfig,
    /// Whether commands are offered beside the tools of plugins.
    pub bash: bool,
    pub open_sessions: OpenSessions,
}

/// A server of tools.
pub struct Server {
    generations: Arc<Generations>,
    setup: Setup,
    /// Grows with every swap.
    swaps: watch::Sender<u64>,
    sessions: Arc<AtomicUsize>,
    next: AtomicU64,
}

/// The workspace of one session.
#[derive(Clone)]
pub enum Place {
    None,
    Files(Arc<Workspace>),
}

impl Place {
    pub fn access(&self) -> Arc<dyn WorkspaceAccess> {
        match self {
            Self::None => Arc::new(NoWorkspace),
            Self::Files(workspace) => workspace.clone(),
        }
    }
}

/// Counts a session while it is open.
pub struct Counted(Weak<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(sessions) = self.0.upgrade() {
            sessions.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Server {
    pub fn new(first: Arc<Generation>, setup: Setup) -> Arc<Self> {
        let (generations, swaps) = (Generations::new(first), watch::Sender::new(0));
        Arc::new(Self { generations, setup, swaps, sessions: Arc::default(), next: AtomicU64::new(1) })
    }

    /// Opens a session: it leases the current generation and has a workspace of its own. None when `most`
    /// are open already, or are being opened.
    ///
    /// # Errors
    /// When no workspace can be made.
    pub async fn open(self: &Arc<Self>, most: usize) -> Result<Option<Session>> {
        let room = |open: usize| (open < most).then_some(open + 1);
        if self.sessions.fetch_update(Ordering::AcqRel, Ordering::Acquire, room).is_err() {
            return Ok(None);
        }
        let counted = Counted(Arc::downgrade(&self.sessions));
        let place = match &self.setup.files {
            None => Place::None,
            Some(files) => {
                let workspace = Workspace::create(files.clone(), &self.setup.workspaces).await;
                Place::Files(Arc::new(workspace.context("the session has no workspace")?))
            }
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Session::new(self.clone(), number, place, counted)))
    }

    /// Makes a harness current, with one atomic store.
    pub fn publish(&self, next: Arc<Generation>) {
        self.generations.publish(next);
        self.swaps.send_modify(|swaps| *swaps += 1);
    }

    pub fn lease(&self) -> Lease {
        self.generations.lease()
    }

    /// Tells of swaps.
    pub fn swaps(&self) -> watch::Receiver<u64> {
        self.swaps.subscribe()
    }

    /// Sessions that are open.
    pub fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Acquire)
    }

    pub fn follows(&self) -> bool {
        self.setup.open_sessions == OpenSessions::Follow
    }

    pub fn offers_bash(&self) -> bool {
        self.setup.bash
    }
}

/// Whether a harness needs files: a plugin that reads, writes or runs something.
pub fn needs_files(generation: &Generation) -> bool {
    let needs = |word: &str| word.contains("workspace") || word.contains("exec");
    generation.facts().iter().any(|plugin| plugin.capabilities.iter().any(|word| needs(word.name())))
}

/// Whether anything of a harness can be used through tools.
pub fn has_tools(generation: &Generation) -> bool {
    generation.facts().iter().any(|plugin| plugin.points.contains(&HookPoint::Tools))
}
