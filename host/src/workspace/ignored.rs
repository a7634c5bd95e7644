//! Which new files does the task itself ignore? Build litter, by the rules of
//! the base commit: those that an agent writes hide nothing.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::git::SETTINGS;
use super::programs::find_program;
use super::snapshot::Snapshot;

/// Bytes of paths that are asked at once: less than a pipe holds, so that
/// neither side waits for the other.
const BATCH: usize = 16 << 10;

/// `git check-ignore` over the files of the base commit. It sees paths, and
/// never the agent's files.
pub(super) struct Ignored {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Ignored {
    /// Starts it; none where no rule exists.
    pub(super) fn start(snapshot: &Snapshot) -> io::Result<Option<Self>> {
        let rules = |path: &Path| path.file_name().is_some_and(|name| name == ".gitignore");
        if !snapshot.tracked().iter().any(|path| rules(path)) {
            return Ok(None);
        }
        let git = find_program("git").ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(git);
        command.arg("-C").arg(snapshot.tree());
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command.args(["check-ignore", "--no-index", "--stdin", "-z", "--verbose", "--non-matching"]);
        command.env_clear().current_dir("/").env("HOME", "/nonexistent").env("LC_ALL", "C");
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_SYSTEM", "/dev/null");
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_FLUSH", "1");
        command.env("GIT_DIR", snapshot.git_dir()).env("GIT_WORK_TREE", snapshot.tree());
        command.env("GIT_INDEX_FILE", snapshot.index());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Some(Self { child, input, output: BufReader::new(output) })),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Whether each path is ignored. Folders end with `/`.
    pub(super) fn ask(&mut self, paths: &[Vec<u8>]) -> io::Result<Vec<bool>> {
        let mut answers = Vec::with_capacity(paths.len());
        let (mut at, mut batch) = (0, Vec::new());
        while at < paths.len() {
            batch.clear();
            let first = at;
            while at < paths.len() && (at == first || batch.len() + paths[at].len() < BATCH) {
                batch.extend_from_slice(&paths[at]);
                batch.push(0);
                at += 1;
            }
            self.input.write_all(&batch)?;
            self.input.flush()?;
            for _ in first..at {
                answers.push(self.answer()?);
            }
        }
        Ok(answers)
    }

    /// Reads `source NUL line NUL pattern NUL path NUL`.
    fn answer(&mut self) -> io::Result<bool> {
        let [_source, _line, pattern, path] = [self.field()?, self.field()?, self.field()?, self.field()?];
        // `out/*` holds for what is in `out`, and git says so for `out/` too.
        let of_content = path.ends_with(b"/") && (pattern.ends_with(b"/*") || pattern.ends_with(b"/**"));
        Ok(!pattern.is_empty() && !pattern.starts_with(b"!") && !of_content)
    }

    fn field(&mut self) -> io::Result<Vec<u8>> {
        let mut field = Vec::new();
        self.output.read_until(0, &mut field)?;
        match field.pop() {
            Some(0) => Ok(field),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Drop for Ignored {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bytes to ask for.
pub(super) fn question(path: &Path, folder: bool) -> Vec<u8> {
    let mut bytes = path.as_os_str().as_bytes().to_vec();
    if folder {
        bytes.push(b'/');
    }
    bytes
}
