//! What do plugins reach of a folder that somebody else works in? Its files as they are, and what
//! changed in it since a moment that was marked.
//!
//! Nothing is copied. The git directory is the host's own, as everywhere: it borrows the objects of
//! the folder's repository to read, and no configuration, hook or filter of it. Folders with a
//! repository of their own are left out. What a plugin writes goes through the host, which keeps it out of
//! repositories and out of the settings of agents, whatever links there are: what is planted there would
//! run outside later. Commands run in a sandbox that sees the folder at its usual place, to read only.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Mutex, OnceCell};

use super::access::{failed, list, read_file, search, shown, stat, write_file};
use super::backend::Sandbox;
use super::beneath::Beneath;
use super::bubblewrap::{Bubblewrap, Parts};
use super::caps::{EXEC_TIME, FILE_BYTES};
use super::command::{Mount, SandboxCommand, WORKSPACE_PATH};
use super::config::{Backend, WorkspaceConfig};
use super::error::Error;
use super::extract::{Extracted, LeftOut, difference};
use super::git::HostGit;
use super::scratch::Scratch;
use super::tree::in_background;
use crate::harness::{PatchCandidate, PatchSource};
use crate::plugin::{ExecOutput, SearchHit, WorkspaceAccess, WorkspaceEntry, WorkspaceError};

/// Bytes of a list of files.
const LISTING: u64 = 64 << 20;

/// Parts of paths that no plugin reads or writes: a repository's configuration may hold passwords.
const HIDDEN: [&str; 1] = [".git"];

/// Parts of paths that no plugin writes: agents run what these name.
const SETTINGS: [&str; 4] = [".claude", ".codex", ".openhands", ".mcp.json"];

/// A folder of the user's, open to plugins.
pub struct Project {
    root: PathBuf,
    beneath: Arc<Beneath>,
    /// Its index holds what the folder held when it was looked at last.
    pub(super) git: Mutex<HostGit>,
    sandbox: OnceCell<Bubblewrap>,
    config: WorkspaceConfig,
    folder: Scratch,
}

impl Project {
    /// Opens `folder`.
    ///
    /// # Errors
    /// A folder that cannot be read, and no git on this machine.
    pub async fn open(folder: &Path, config: &WorkspaceConfig) -> Result<Arc<Self>, Error> {
        let root = fs::canonicalize(folder).map_err(Error::io("opening", folder))?;
        let beneath = Arc::new(Beneath::open_without_links(&root).map_err(Error::io("opening", &root))?);
        let folder = Scratch::new("project", config)?;
        for name in ["tmp", "home"] {
            let path = folder.path().join(name);
            fs::create_dir(&path).map_err(Error::io("making", &path))?;
        }
        let git = HostGit {
            git_dir: folder.path().join("base.git"),
            work_tree: root.clone(),
            index: folder.path().join("index"),
            objects: None,
            seconds: config.extract.git_seconds,
            enter: Vec::new(),
        };
        git.init().await?;
        if let Some(repository) = repository_of(&root) {
            borrow(&repository, &git.git_dir)?;
        }
        let config = config.clone();
        Ok(Arc::new(Self { root, beneath, git: Mutex::new(git), sandbox: OnceCell::new(), config, folder }))
    }

    /// Where it lies.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder as it is now, as what later changes are told against.
    pub async fn mark(self: &Arc<Self>) -> Result<Arc<ProjectSince>, Error> {
        let since = ProjectSince { project: self.clone(), base: OnceLock::new() };
        let git = self.git.lock().await;
        self.look(&git).await?;
        let tree = git.run(&["write-tree"], None, 1024).await?;
        let _ = since.base.set(String::from_utf8_lossy(&tree).trim().to_owned());
        drop(git);
        Ok(Arc::new(since))
    }

    /// The folder without a moment to compare with: for plugins that do not ask for changes.
    pub fn unmarked(self: &Arc<Self>) -> Arc<ProjectSince> {
        Arc::new(ProjectSince { project: self.clone(), base: OnceLock::new() })
    }

    /// Brings the index to what the folder holds now.
    async fn look(&self, git: &HostGit) -> Result<Vec<LeftOut>, Error> {
        self.folder.renew()?;
        git.unlock()?;
        let ask = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = git.run(&ask, None, LISTING).await?;
        let (root, limits) = (self.root.clone(), self.config.extract.clone());
        let (names, left_out) = in_background(move || {
            let (mut names, mut left_out) = (Vec::new(), Vec::new());
            let (mut entries, mut total) = (0, 0);
            for name in listed.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
                let path = PathBuf::from(std::ffi::OsStr::from_bytes(name));
                if name.ends_with(b"/") {
                    left_out.push(LeftOut::Repository(path));
                    continue;
                }
                entries += 1;
                let bytes = match fs::symlink_metadata(root.join(&path)) {
                    Ok(meta) if meta.is_file() => meta.len(),
                    _ => 0,
                };
                if bytes > limits.file_bytes {
                    left_out.push(LeftOut::TooLarge { path, bytes, limit: limits.file_bytes });
                    continue;
                }
                total += bytes;
                names.extend_from_slice(name);
                names.push(0);
            }
            for (what, used, limit, unit) in [
                ("the folder", entries, limits.entries, "entries"),
                ("the folder", total, limits.total_bytes, "bytes"),
            ] {
                if used > limit {
                    return Err(Error::TooLarge { what, used, limit, unit });
                }
            }
            Ok((names, left_out))
        })
        .await?;
        if !names.is_empty() {
            let fast = ["-c", "core.looseCompression=0"];
            let update = ["update-index", "--add", "--remove", "--replace", "-z", "--stdin"];
            let words: Vec<_> = fast.into_iter().chain(update).collect();
            git.run(&words, Some(&names), 0).await.map_err(|error| match error {
                Error::Git { reason, .. } => Error::UnreadableWorkTree { reason },
                other => other,
            })?;
        }
        Ok(left_out)
    }

    async fn sandbox(&self) -> Result<&Bubblewrap, Error> {
        self.sandbox
            .get_or_try_init(|| async {
                let place = |name: &str| self.folder.path().join(name);
                let mounts = vec![
                    Mount::read_only(&self.root, WORKSPACE_PATH),
                    Mount::read_write(place("tmp"), "/tmp"),
                    Mount::read_write(place("home"), "/home/agent"),
                ];
                let parts = Parts { mounts, keeper: None, proxy: None, space: None, resident: false };
                let sandbox = Bubblewrap::new(&self.config, &self.folder, parts).await?;
                if let Some(owner) = sandbox.owner() {
                    for name in ["tmp", "home"] {
                        super::snapshot::give_to(&place(name), owner)?;
                    }
                }
                Ok(sandbox)
            })
            .await
    }

    /// A path that a plugin names, below the folder where it is given in full.
    fn below<'a>(&self, path: &'a str) -> &'a str {
        let root = self.root.to_str().unwrap_or(WORKSPACE_PATH);
        for folder in [root, WORKSPACE_PATH] {
            match path.strip_prefix(folder) {
                Some("") => return ".",
                Some(rest) if rest.starts_with('/') => return rest.trim_start_matches('/'),
                _ => {}
            }
        }
        path
    }

    async fn blocking<T: Send + 'static>(
        &self,
        path: &str,
        work: impl FnOnce(&Beneath, &str) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let (beneath, path) = (self.beneath.clone(), self.below(path).to_owned());
        if has_part(&path, &HIDDEN) {
            return Err(WorkspaceError::Denied(path));
        }
        tokio::task::spawn_blocking(move || work(&beneath, &path))
            .await
            .map_err(|_| WorkspaceError::Failed("the folder is closing".into()))?
    }
}

/// A folder and a moment to compare it with.
pub struct ProjectSince {
    project: Arc<Project>,
    /// The tree of that moment.
    base: OnceLock<String>,
}

impl ProjectSince {
    /// What changed since the moment that was marked.
    ///
    /// # Errors
    /// Where no moment was marked, and where the folder cannot be read.
    pub async fn changes(&self) -> Result<Extracted, Error> {
        let unmarked = || Error::UnreadableWorkTree { reason: "its state at the start is not known".into() };
        let base = self.base.get().ok_or_else(unmarked)?;
        let git = self.project.git.lock().await;
        let left_out = self.project.look(&git).await?;
        difference(&git, base, left_out, &self.project.config.extract).await
    }

    /// What hooks are told of these changes. A patch made here applies to what it was made from.
    pub fn candidate(changes: &Extracted) -> PatchCandidate {
        let tree = &changes.work_tree;
        let files = tree.changed.iter().chain(&tree.untracked).cloned().collect();
        let bytes = changes.patch.len() as u64;
        PatchCandidate { source: PatchSource::WorkTree, bytes, files, applies: true }
    }
}

#[async_trait]
impl WorkspaceAccess for ProjectSince {
    async fn read(&self, path: &str) -> Result<Vec<u8>, WorkspaceError> {
        self.project.blocking(path, read_file).await
    }

    async fn list(&self, path: &str) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
        self.project.blocking(path, list).await
    }

    async fn stat(&self, path: &str) -> Result<WorkspaceEntry, WorkspaceError> {
        self.project.blocking(path, stat).await
    }

    async fn search(
        &self,
        text: &str,
        suffix: &str,
        max_hits: u32,
    ) -> Result<Vec<SearchHit>, WorkspaceError> {
        let (text, suffix) = (text.to_owned(), suffix.to_owned());
        self.project.blocking("", move |beneath, _| search(beneath, &text, &suffix, max_hits as usize)).await
    }

    async fn diff(&self) -> Result<Vec<u8>, WorkspaceError> {
        Ok(self.changes().await.map_err(failed)?.patch)
    }

    async fn untracked(&self) -> Result<Vec<String>, WorkspaceError> {
        Ok(self.changes().await.map_err(failed)?.work_tree.untracked)
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<(), WorkspaceError> {
        super::access::too_large("the content", content.len() as u64, FILE_BYTES)?;
        if has_part(path, &SETTINGS) {
            return Err(WorkspaceError::Denied(path.to_owned()));
        }
        let content = content.to_owned();
        self.project.blocking(path, move |beneath, path| write_file(beneath, path, &content)).await
    }

    async fn exec(&self, argv: &[String], timeout: Duration) -> Result<ExecOutput, WorkspaceError> {
        if self.project.config.backend != Backend::Bubblewrap {
            let what = "commands run over a folder of the user's with the back-end `bubblewrap` alone";
            return Err(WorkspaceError::Failed(what.into()));
        }
        let sandbox = self.project.sandbox().await.map_err(failed)?;
        let command = SandboxCommand::argv(argv, timeout.min(EXEC_TIME)).alone();
        Ok(shown(sandbox.run(&command).await.map_err(failed)?))
    }
}

/// Whether a path goes through one of `names`, in whatever case: some file systems know no difference.
fn has_part(path: &str, names: &[&str]) -> bool {
    path.split('/').any(|part| names.iter().any(|name| part.eq_ignore_ascii_case(name)))
}

/// The repository of a folder: where its objects and its list of ignored files lie.
fn repository_of(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    // A work tree of its own, or a submodule: the file says where the rest lies.
    let named = fs::read_to_string(&git).ok()?;
    let own = root.join(named.strip_prefix("gitdir:")?.trim());
    match fs::read_to_string(own.join("commondir")) {
        Ok(common) => Some(own.join(common.trim())),
        Err(_) => Some(own),
    }
}

/// Lets `git_dir` read the objects of a repository, so that what it holds is not written again, and
/// ignore what it ignores.
fn borrow(repository: &Path, git_dir: &Path) -> Result<(), Error> {
    // A line that git would read otherwise is left out: objects are then written once more.
    let objects = fs::canonicalize(repository.join("objects")).ok();
    if let Some(line) = objects.filter(|path| !path.as_os_str().as_bytes().contains(&b'\n')) {
        let alternates = git_dir.join("objects/info/alternates");
        let text = [line.as_os_str().as_bytes(), b"\n"].concat();
        fs::create_dir_all(git_dir.join("objects/info"))
            .and_then(|()| fs::write(&alternates, text))
            .map_err(Error::io("writing", &alternates))?;
    }
    let exclude = git_dir.join("info/exclude");
    match fs::read(repository.join("info/exclude")) {
        Ok(rules) if rules.len() as u64 <= FILE_BYTES => {
            fs::write(&exclude, rules).map_err(Error::io("writing", &exclude))
        }
        _ => Ok(()),
    }
}
