//! How does the host run git without running anything of an agent?
//!
//! The git directory is always the host's own; an agent's files are at most the
//! work tree. No configuration but the one given here is read; hooks, fsmonitor,
//! filters, textconv, external diffs and line-end conversion are off, the last
//! four by `info/attributes`, which wins over any `.gitattributes` in the tree.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::error::Error;
use super::programs::find_program;

/// Attributes of every path, whatever the tree says. `!` takes an attribute back.
const ATTRIBUTES: &str =
    "* -text !eol !crlf -ident !filter !diff !merge !whitespace !working-tree-encoding\n";

/// Author and date of every base commit: the same files give the same commit everywhere.
const NAME: &str = "tandem";
const EMAIL: &str = "tandem@localhost";
const DATE: &str = "946684800 +0000";

/// Settings of every call.
pub(super) const SETTINGS: [&str; 14] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.fileMode=true",
    "core.symlinks=true",
    "core.protectNTFS=false",
    "core.protectHFS=false",
    "core.quotePath=true",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// A git directory of the host, with the places that one use of it writes to.
#[derive(Clone, Debug)]
pub(crate) struct HostGit {
    pub(crate) git_dir: PathBuf,
    pub(crate) work_tree: PathBuf,
    pub(crate) index: PathBuf,
    /// Where new objects go; the git directory itself if none.
    pub(crate) objects: Option<PathBuf>,
    pub(crate) seconds: u64,
    /// The words before a command line that make it start where the work tree is seen.
    pub(crate) enter: Vec<OsString>,
}

impl HostGit {
    /// Makes the git directory.
    pub(crate) async fn init(&self) -> Result<(), Error> {
        self.run(&["init", "--quiet", "--template=", "--initial-branch=main"], None, 0).await?;
        let info = self.git_dir.join("info");
        std::fs::create_dir_all(&info).map_err(Error::io("making", &info))?;
        let attributes = info.join("attributes");
        std::fs::write(&attributes, ATTRIBUTES).map_err(Error::io("writing", &attributes))
    }

    /// Removes the lock of the index that a git leaves which was ended in the middle, as by a time-out of its
    /// caller. For who has the index to itself.
    pub(crate) fn unlock(&self) -> Result<(), Error> {
        let lock = self.lock();
        match std::fs::remove_file(&lock) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("removing", &lock)(error)),
            _ => Ok(()),
        }
    }

    /// Where git locks the index.
    pub(super) fn lock(&self) -> PathBuf {
        let mut lock = self.index.clone().into_os_string();
        lock.push(".lock");
        lock.into()
    }

    /// Runs git with `args` and gives back at most `cap` bytes of its output.
    ///
    /// # Errors
    /// [`Error::Git`] when it fails, [`Error::TooLarge`] when there is more output.
    pub(crate) async fn run(&self, args: &[&str], stdin: Option<&[u8]>, cap: u64) -> Result<Vec<u8>, Error> {
        let settings = args.chunks(2).take_while(|pair| pair[0] == "-c").count();
        let command = args.get(2 * settings).copied().unwrap_or_default().to_owned();
        let git = find_program("git").ok_or(Error::NoGit)?;
        let mut words = self.enter.iter();
        let mut process = match words.next() {
            Some(first) => {
                let mut process = tokio::process::Command::new(first);
                process.args(words).arg(&git);
                process
            }
            None => tokio::process::Command::new(&git),
        };
        process.arg("-C").arg(&self.work_tree);
        for setting in SETTINGS {
            process.args(["-c", setting]);
        }
        process.args(args).current_dir("/").env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            process.env("PATH", path);
        }
        process
            .env("HOME", "/nonexistent")
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_LITERAL_PATHSPECS", "0")
            .env("GIT_CEILING_DIRECTORIES", "/")
            .env("GIT_DIR", &self.git_dir)
            .env("GIT_WORK_TREE", &self.work_tree)
            .env("GIT_INDEX_FILE", &self.index)
            .envs([("GIT_AUTHOR_NAME", NAME), ("GIT_AUTHOR_EMAIL", EMAIL), ("GIT_AUTHOR_DATE", DATE)])
            .envs([("GIT_COMMITTER_NAME", NAME), ("GIT_COMMITTER_EMAIL", EMAIL)])
            .env("GIT_COMMITTER_DATE", DATE);
        if let Some(objects) = &self.objects {
            process
                .env("GIT_OBJECT_DIRECTORY", objects)
                .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", self.git_dir.join("objects"));
        }
        process
            .stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            // Ctrl-C is for the host to act on.
            .process_group(0);
        let mut child = process.spawn().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::NoGit,
            _ => Error::io("starting", &git)(source),
        })?;
        let (to, from, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let whole = async {
            let feed = async {
                if let (Some(mut to), Some(bytes)) = (to, stdin) {
                    // A git that has seen enough closes its end; its exit status tells the rest.
                    let _ = to.write_all(bytes).await;
                }
            };
            let ((), out, err) = tokio::join!(feed, read_up_to(from, cap + 1), read_up_to(errors, 64 << 10));
            if out.len() as u64 > cap {
                let _ = child.start_kill();
            }
            (child.wait().await, out, err)
        };
        let limit = Duration::from_secs(self.seconds);
        let Ok((status, out, err)) = tokio::time::timeout(limit, whole).await else {
            return Err(Error::GitTimeout { command, limit: self.seconds });
        };
        if out.len() as u64 > cap {
            let used = out.len() as u64;
            return Err(Error::TooLarge { what: "the output of git", used, limit: cap, unit: "bytes" });
        }
        let status = status.map_err(Error::io("waiting for", Path::new("git")))?;
        if let Some(signal) = status.signal() {
            return Err(Error::Killed { what: format!("`git {command}`"), signal });
        }
        if !status.success() {
            let reason = String::from_utf8_lossy(&err).trim().to_owned();
            return Err(Error::Git { command, reason });
        }
        Ok(out)
    }
}

/// Reads to the end or to `cap` bytes; past them the pipe is closed.
async fn read_up_to(pipe: Option<impl tokio::io::AsyncRead + Unpin>, cap: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(cap).read_to_end(&mut bytes).await;
    }
    bytes
}
