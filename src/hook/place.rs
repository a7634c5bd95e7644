//! Where do the daemon of a harness and those who ask it meet?

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tandem_host::store::Digest;

use super::client::program;
use super::target::Target;

/// The files of one daemon, in a folder that only this user can enter.
#[derive(Clone, Debug)]
pub struct Place {
    run: PathBuf,
    logs: PathBuf,
    key: String,
}

impl Place {
    /// The place of a harness: one for each user, harness and version of this program.
    ///
    /// # Errors
    /// A folder that somebody else could write to.
    pub fn of(target: &Target) -> io::Result<Self> {
        // SAFETY: it reads a number of this process and cannot fail.
        let user = unsafe { libc::geteuid() };
        let run = match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
            Some(dir) if dir.is_dir() => dir.join("tandem-hooks"),
            _ => std::env::temp_dir().join(format!("tandem-hooks-{user}")),
        };
        let run = match std::env::var_os("TANDEM_HOOK_DIR") {
            Some(dir) => PathBuf::from(dir),
            None => run,
        };
        own_folder(&run)?;
        let program = program()?;
        let meta = fs::metadata(&program)?;
        // Another program at this path is another daemon.
        let told = format!(
            "{}\n{}\n{}\n{}\n{}",
            target.harness,
            target.home.display(),
            program.display(),
            meta.len(),
            meta.mtime()
        );
        let key = Digest::of(told.as_bytes()).hex()[..16].to_owned();
        let logs = run.clone();
        Ok(Self { run, logs, key })
    }

    /// Where the daemon listens.
    pub fn socket(&self) -> PathBuf {
        self.file("sock")
    }

    /// Locked by who starts a daemon.
    pub fn start_lock(&self) -> PathBuf {
        self.file("start")
    }

    /// Locked by the daemon as long as it lives.
    pub fn life_lock(&self) -> PathBuf {
        self.file("lock")
    }

    /// There after a daemon could not start.
    pub fn failed(&self) -> PathBuf {
        self.file("failed")
    }

    /// What hooks did and what went wrong, a JSON object on each line.
    pub fn journal(&self) -> PathBuf {
        self.logs.join(format!("{}.jsonl", self.key))
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.run.join(format!("{}.{ending}", self.key))
    }
}

/// Makes the folder, or checks that the one that is there is this user's alone.
fn own_folder(path: &Path) -> io::Result<()> {
    if tandem_host::store::own_folder(path)? {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("{} is not a folder of this user alone", path.display()),
    ))
}
