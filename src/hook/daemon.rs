//! What stays between the calls of an agent? The built harness, and the sessions with their plugins.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;
use tandem_host::harness::{Generation, Generations, HookPoint};
use tandem_host::plugin::{AdmissionOptions, Capability, Engine};
use tandem_host::store::{BlobStore, Digest};
use tandem_host::workspace::{Project, ProjectSince, WorkspaceConfig};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore};

use super::agent::AgentEvent;
use super::answer::Answer;
use super::client::open_lock;
use super::input::{Input, What};
use super::journal::Journal;
use super::load::Seen;
use super::place::Place;
use super::session::{Session, opens};
use super::target::Target;
use super::wire::{self, Answered, Question, Reply, Status};

/// Calls that are worked on at once.
const AT_ONCE: usize = 64;
/// Sessions that are kept at once; past it the one that was silent for longest goes.
const SESSIONS: usize = 256;
/// How long a session may be silent.
const SILENT: Duration = Duration::from_secs(12 * 3600);
/// How long a caller may take to say what it has to say.
const SAY: Duration = Duration::from_secs(10);
/// How long looking at a project's files may hold its first event up.
const LOOK: Duration = Duration::from_secs(10);

/// What a daemon builds and runs plugins with.
pub struct Engines {
    pub engine: Engine,
    pub admission: AdmissionOptions,
    pub workspaces: WorkspaceConfig,
}

/// A session's place; empty until its first event made it.
type Slot = Arc<tokio::sync::Mutex<Option<Session>>>;

struct Daemon {
    target: Target,
    engines: Engines,
    blobs: BlobStore,
    _scratch: tempfile::TempDir,
    generations: Arc<Generations>,
    current: tokio::sync::Mutex<Current>,
    sessions: Mutex<HashMap<String, Slot>>,
    projects: tokio::sync::Mutex<HashMap<PathBuf, Weak<Project>>>,
    journal: Journal,
    calls: AtomicU64,
    busy: Mutex<Instant>,
    stop: Notify,
}

/// What is known of the current generation.
struct Current {
    seen: Seen,
    /// Whether a plugin of it can ask what changed.
    asks_changes: bool,
}

/// Serves the harness of `target` until nobody called for `idle`.
///
/// # Errors
/// A harness that cannot be built, and a place that cannot be used. It is in the journal too.
pub async fn serve(target: Target, engines: Engines, idle: Duration) -> Result<()> {
    let place = Place::of(&target)?;
    let journal = Journal::new(place.journal());
    let life = open_lock(&place.life_lock())?;
    if life.try_lock().is_err() {
        // Another one lives.
        return Ok(());
    }
    let opened = open(target, engines, journal.clone()).await;
    let daemon = match opened {
        Ok(daemon) => Arc::new(daemon),
        Err(error) => {
            let text = format!("{error:#}");
            let _ = fs::write(place.failed(), &text);
            journal.trouble(&format!("the daemon did not start: {text}"));
            return Err(error);
        }
    };
    let _ = fs::remove_file(place.failed());
    let socket = place.socket();
    // Whoever left it is gone: this process holds the lock.
    let _ = fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket)
        .with_context(|| format!("the socket {} cannot be made", socket.display()))?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
    daemon.listen(&listener, &socket, idle).await;
    drop(life);
    Ok(())
}

async fn open(target: Target, engines: Engines, journal: Journal) -> Result<Daemon> {
    let scratch = tempfile::tempdir().context("a scratch folder cannot be made")?;
    let blobs = BlobStore::open(scratch.path())?;
    let seen = target.seen();
    let generation = build(&target, &engines, &blobs).await?;
    let current = Current { seen, asks_changes: asks_changes(&generation) };
    Ok(Daemon {
        target,
        engines,
        blobs,
        _scratch: scratch,
        generations: Generations::new(generation),
        current: tokio::sync::Mutex::new(current),
        sessions: Mutex::default(),
        projects: tokio::sync::Mutex::default(),
        journal,
        calls: AtomicU64::new(0),
        busy: Mutex::new(Instant::now()),
        stop: Notify::new(),
    })
}

async fn build(target: &Target, engines: &Engines, blobs: &BlobStore) -> Result<Arc<Generation>> {
    let manifest = target.load(blobs)?;
    Ok(Generation::build_with(&engines.engine, manifest, blobs, &engines.admission).await?)
}

fn asks_changes(generation: &Generation) -> bool {
    generation.facts().iter().any(|plugin| {
        plugin.points.contains(&HookPoint::OnSubmit)
            || plugin.capabilities.contains(&Capability::WorkspaceRead)
    })
}

/// The value behind a lock; what panicked while holding it left it whole.
fn held<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Daemon {
    async fn listen(self: &Arc<Self>, listener: &UnixListener, socket: &Path, idle: Duration) {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let mut tick = tokio::time::interval((idle / 4).clamp(Duration::from_millis(50), SAY));
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let Ok((connection, _)) = accepted else { continue };
                    let Ok(permit) = places.clone().acquire_owned().await else { break };
                    let daemon = self.clone();
                    tokio::spawn(async move {
                        daemon.attend(connection).await;
                        drop(permit);
                    });
                }
                _ = tick.tick() => {
                    self.drop_silent();
                    let quiet = held(&self.busy).elapsed();
                    let alone = held(&self.sessions).is_empty() && places.available_permits() == AT_ONCE;
                    if quiet > idle && (alone || quiet > SILENT) {
                        break;
                    }
                }
                () = self.stop.notified() => break,
            }
        }
        // Who comes now finds nobody, and starts the next daemon.
        let _ = fs::remove_file(socket);
        let _ = places.acquire_many(AT_ONCE as u32).await;
    }

    async fn attend(self: &Arc<Self>, connection: UnixStream) {
        *held(&self.busy) = Instant::now();
        let ours = connection.peer_cred().is_ok_and(|peer| {
            // SAFETY: it reads a number of this process and cannot fail.
            peer.uid() == unsafe { libc::geteuid() }
        });
        if !ours {
            return;
        }
        let mut connection = BufReader::new(connection);
        let read = tokio::time::timeout(SAY, wire::read(&mut connection)).await;
        let read = read.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let answered = match read {
            Ok((Question::Event { agent, event, folder, .. }, bytes)) => {
                self.calls.fetch_add(1, Ordering::Relaxed);
                let reply = match Input::read(agent, event, &bytes) {
                    Ok(input) => self.event(input, folder).await,
                    Err(error) => {
                        self.journal.trouble(&error.to_string());
                        Reply::default()
                    }
                };
                Answered::Reply(reply)
            }
            Ok((Question::Status, _)) => Answered::Status(Status {
                process: std::process::id(),
                harness: self.generations.current().to_string(),
                sessions: held(&self.sessions).len(),
                calls: self.calls.load(Ordering::Relaxed),
            }),
            Ok((Question::Stop, _)) => Answered::Stopping,
            Err(error) => {
                self.journal.trouble(&format!("a call was not understood: {error}"));
                return;
            }
        };
        if let Ok(text) = serde_json::to_vec(&answered) {
            // A caller that did not wait is the agent's own decision.
            let _ = connection.write_all(&text).await;
            let _ = connection.shutdown().await;
        }
        if answered == Answered::Stopping {
            self.stop.notify_one();
        }
    }

    async fn event(self: &Arc<Self>, input: Input, folder: Option<String>) -> Reply {
        // On a task of its own: a fault in it is one answer less, and not the daemon's end.
        let daemon = self.clone();
        let (title, event) = (input.agent.title(), input.event.name());
        match tokio::spawn(async move { daemon.answer(&input, folder).await }).await {
            Ok(reply) => reply,
            Err(_) => {
                self.journal.trouble(&format!("{title} {event}: the answer broke off"));
                Reply::default()
            }
        }
    }

    async fn answer(&self, input: &Input, folder: Option<String>) -> Reply {
        let key = format!("{}:{}", input.agent.word(), input.session);
        let fresh = matches!(&input.what, What::SessionStart { source } if source == "startup");
        let slot = match self.slot(&key, fresh, opens(input.event)) {
            Some(slot) => slot,
            None => return Reply::default(),
        };
        let mut place = slot.lock().await;
        if place.is_none() {
            *place = Some(self.session(&key, folder.or_else(|| input.folder.clone())).await);
        }
        let Some(session) = place.as_mut() else { return Reply::default() };
        let happened = session.on(input).await;
        let harness = session.lease().digest();
        drop(place);
        if input.event == AgentEvent::SessionEnd {
            held(&self.sessions).remove(&key);
        }
        let told = happened.answer.tell(input);
        let quiet = happened.answer == Answer::default();
        if !(quiet
            && happened.effects.is_empty()
            && happened.faults.is_empty()
            && happened.troubles.is_empty())
        {
            self.journal.write(json!({
                "agent": input.agent,
                "event": input.event.name(),
                "session": input.session,
                "harness": harness,
                "effects": happened.effects,
                "faults": happened.faults,
                "not_expressed": told.lost,
                "troubles": happened.troubles,
            }));
        }
        told.reply
    }

    /// The place of a session: a new one where it is not known, or begins again.
    fn slot(&self, key: &str, fresh: bool, may_open: bool) -> Option<Slot> {
        let mut sessions = held(&self.sessions);
        if !fresh && let Some(slot) = sessions.get(key) {
            return Some(slot.clone());
        }
        if !may_open {
            return None;
        }
        if sessions.len() >= SESSIONS {
            let silent = |slot: &Slot| slot.try_lock().ok()?.as_ref().map(|session| session.heard);
            let oldest = sessions.iter().filter_map(|(key, slot)| Some((silent(slot)?, key.clone()))).min();
            if let Some((_, oldest)) = oldest {
                sessions.remove(&oldest);
            }
        }
        let slot = Slot::default();
        sessions.insert(key.to_owned(), slot.clone());
        Some(slot)
    }

    /// A new session: under the newest harness, which sessions that are open do not see.
    async fn session(&self, key: &str, folder: Option<String>) -> Session {
        let asks_changes = self.renew().await;
        let since = match folder {
            Some(folder) => self.project(Path::new(&folder), asks_changes).await,
            None => None,
        };
        let digest = Digest::of(key.as_bytes());
        let seed = digest.bytes().iter().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte));
        Session::new(&self.generations.lease(), seed, since)
    }

    /// Publishes the harness again if it changed; a change that cannot be built leaves the one before.
    async fn renew(&self) -> bool {
        let mut current = self.current.lock().await;
        let seen = self.target.seen();
        if seen != current.seen {
            match build(&self.target, &self.engines, &self.blobs).await {
                Ok(generation) => {
                    current.asks_changes = asks_changes(&generation);
                    self.journal.write(json!({"published": generation.digest()}));
                    self.generations.publish(generation);
                }
                Err(error) => {
                    self.journal.trouble(&format!("the changed harness is not used: {error:#}"));
                }
            }
            current.seen = seen;
        }
        current.asks_changes
    }

    async fn project(&self, folder: &Path, asks_changes: bool) -> Option<Arc<ProjectSince>> {
        let opened = async {
            let root = fs::canonicalize(folder)?;
            let mut projects = self.projects.lock().await;
            let known = projects.get(&root).and_then(Weak::upgrade);
            let project = match known {
                Some(project) => project,
                None => {
                    let project = Project::open(&root, &self.engines.workspaces).await?;
                    projects.retain(|_, project| project.strong_count() > 0);
                    projects.insert(root, Arc::downgrade(&project));
                    project
                }
            };
            drop(projects);
            anyhow::Ok(project)
        };
        let project = match opened.await {
            Ok(project) => project,
            Err(error) => {
                self.journal.trouble(&format!("{}: plugins see no files: {error:#}", folder.display()));
                return None;
            }
        };
        if !asks_changes {
            return Some(project.unmarked());
        }
        let why = match tokio::time::timeout(LOOK, project.mark()).await {
            Ok(Ok(since)) => return Some(since),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("it took more than {} seconds", LOOK.as_secs()),
        };
        self.journal.trouble(&format!("{}: what changes is not known: {why}", folder.display()));
        Some(project.unmarked())
    }

    fn drop_silent(&self) {
        held(&self.sessions).retain(|_, slot| match slot.try_lock() {
            Ok(session) => session.as_ref().is_none_or(|session| session.heard.elapsed() < SILENT),
            Err(_) => true,
        });
    }
}
