//! How does a command start in one or two milliseconds? In a sandbox that stays.
//!
//! Bubblewrap, its namespaces, the limits and the steps into them take ten times
//! as long as a short command. For an agent they are made once: a shell stays in
//! the sandbox as its process 1, starts each command as a process of its own,
//! and kills all others of the namespace when it ends. What a command can do to
//! that shell it can do to the later commands of its own workspace, and to
//! nothing else; [`Resident`] is never used where a patch is judged, and is
//! ended before the host reads the work tree.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::bubblewrap::kill_first;
use super::command::{SandboxCommand, Sink};
use super::error::Error;
use super::lease::Lease;

/// How long a sandbox that is dropped may take to end.
const LAST_WAIT: Duration = Duration::from_millis(500);
/// Longest answer, `NONCE CODE`.
const ANSWER_BYTES: u64 = 64;

/// What process 1 of the sandbox does. It gets on its input, for each command, a
/// nonce, the number of words and of variables, each followed by them as length
/// and bytes; numbers end with a zero byte. On descriptor 3 it answers with nonce
/// and exit code, and 4 is the output of all commands. Each command opens that
/// anew: one that makes its output non-blocking does so for itself.
///
/// `kill` to -1 fails when no other process is left.
fn script(start: &str) -> String {
    const SIGNALS: &str = "HUP INT QUIT TERM PIPE ALRM USR1 USR2";
    format!(
        "LC_ALL=C; exec 3>&1 4>&2 >/dev/null 2>&1; trap : {SIGNALS}; \
         words() {{ local n size word; IFS= read -r -d '' n || exit 1; list=(); \
           while ((n--)); do IFS= read -r -d '' size || exit 1; word=; \
             ((size)) && {{ IFS= read -r -N \"$size\" word || exit 1; }}; list+=(\"$word\"); done; }}; \
         while IFS= read -r -d '' nonce; do words; argv=(\"${{list[@]}}\"); words; \
           ( exec >/proc/self/fd/4 2>&1 3>&- 4>&- </dev/null || exit 125; \
             ((${{#list[@]}})) && export -- \"${{list[@]}}\"; trap - {SIGNALS}; \
             set -- \"${{argv[@]}}\"; {start} ); code=$?; \
           while kill -KILL -1; do :; done; printf '%s %s\\n' \"$nonce\" \"$code\" >&3; done"
    )
}

/// A sandbox that waits for commands. Dropping it kills all that runs in it.
#[derive(Debug)]
pub(super) struct Resident {
    pub(super) child: Child,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
    output: pipe::Receiver,
    /// The same pipe, for what is left in it at the end of a command.
    rest: File,
    commands: u64,
    _record: Option<Lease>,
}

impl Drop for Resident {
    fn drop(&mut self) {
        // The folders that it writes to are removed next.
        kill_first(&self.child);
        let end = Instant::now() + LAST_WAIT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

/// How a command in a resident sandbox ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// With an exit code; the sandbox waits for the next.
    Code(i32),
    /// With the sandbox, of which the child says how.
    Sandbox,
}

impl Resident {
    /// Starts a sandbox. `process` is bubblewrap up to the command, which must become process 1; `start` sets
    /// limits, says that the command starts and becomes it.
    pub(super) async fn start(
        mut process: Command,
        start: &str,
        owner: Option<u32>,
        hold: impl FnOnce(Option<u32>) -> Result<Option<Lease>, Error>,
    ) -> Result<Self, Error> {
        let pipe = |error| Error::io("making a pipe for", Path::new("output"))(error);
        let (reader, writer) = io::pipe().map_err(pipe)?;
        // Commands open it again, as the user that they are.
        std::os::unix::fs::fchown(&writer, owner, owner).map_err(pipe)?;
        process.args(["/bin/bash", "-c", &script(start), "bash"]);
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(writer).kill_on_drop(true);
        process.process_group(0);
        let mut child = on_lasting_thread(process).await.map_err(not_started)?;
        let record = hold(child.id())?;
        let (Some(asked), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(pipe(io::ErrorKind::BrokenPipe.into()));
        };
        let rest = File::from(reader.as_fd().try_clone_to_owned().map_err(pipe)?);
        let output = pipe::Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(pipe)?;
        let answers = BufReader::new(answers);
        Ok(Self { child, asked, answers, output, rest, commands: 0, _record: record })
    }

    /// Whether a command can be put to it: variables have names that a shell takes.
    pub(super) fn takes(command: &SandboxCommand) -> bool {
        let is_name = |name: &str| {
            name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
                && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
        };
        // Bash keeps these for itself.
        let own = ["BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"];
        command.env.iter().all(|(name, value)| {
            is_name(name) && !own.contains(&name.as_str()) && !value.as_bytes().contains(&0)
        })
    }

    /// Puts a command to the sandbox; it starts with this. Gives what its answer begins with.
    pub(super) async fn ask(&mut self, command: &SandboxCommand) -> io::Result<String> {
        self.commands += 1;
        let nonce = format!("{}-{:016x}", self.commands, rand_u64());
        let variables = command.env.iter().map(|(name, value)| OsString::from(format!("{name}={value}")));
        let mut request = nonce.clone().into_bytes();
        request.push(0);
        list(&mut request, command.argv.iter().cloned());
        list(&mut request, variables);
        match self.asked.write_all(&request).await {
            // It has ended: its output says why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(nonce),
            written => written.map(|()| nonce),
        }
    }

    /// Output, and the end of the command that `nonce` was drawn for.
    pub(super) fn parts(&mut self) -> (&mut pipe::Receiver, &mut BufReader<ChildStdout>) {
        (&mut self.output, &mut self.answers)
    }

    /// Reads what the ended command left in the pipe.
    pub(super) fn read_rest(&mut self, sink: &mut Sink) -> io::Result<()> {
        let mut chunk = vec![0; 64 << 10];
        loop {
            match self.rest.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(count) => sink.push(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Waits for the end of the command with this nonce. Anything else than its answer is the work of a command,
/// and ends the sandbox.
pub(super) async fn answer(answers: &mut BufReader<ChildStdout>, nonce: &str) -> io::Result<Ended> {
    let mut line = String::new();
    let read = answers.take(ANSWER_BYTES).read_line(&mut line).await;
    let code = match read {
        Ok(_) => line.strip_suffix('\n').and_then(|line| line.strip_prefix(nonce)?.strip_prefix(' ')),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
        Err(error) => return Err(error),
    };
    Ok(code.and_then(|code| code.parse().ok()).map_or(Ended::Sandbox, Ended::Code))
}

/// Appends the number of words, and each with its length.
fn list(request: &mut Vec<u8>, words: impl ExactSizeIterator<Item = OsString>) {
    request.extend_from_slice(format!("{}\0", words.len()).as_bytes());
    for word in words {
        request.extend_from_slice(format!("{}\0", word.len()).as_bytes());
        request.extend_from_slice(word.as_bytes());
    }
}

/// A number that a command cannot know.
fn rand_u64() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

pub(super) fn not_started(source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::NotFound => Error::NoBubblewrap,
        io::ErrorKind::ArgumentListTooLong | io::ErrorKind::InvalidInput => {
            Error::BadCommand { reason: source.to_string() }
        }
        _ => Error::io("starting", Path::new("bwrap"))(source),
    }
}

/// Keeps descriptors without the flag from the processes that are started next: those that this program
/// was started with, and those of libraries. A sandbox would hand them to its commands.
pub(super) fn close_on_exec() {
    // SAFETY: sets a flag of descriptors; a kernel before 5.11 knows neither the call nor the flag.
    unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int) };
}

/// Starts a process from a thread that lasts as long as this program: bubblewrap
/// ends with the *thread* that started it, and threads of the runtime come and go.
pub(super) async fn on_lasting_thread(process: Command) -> io::Result<Child> {
    type Job = Box<dyn FnOnce() + Send>;
    static JOBS: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let jobs = JOBS.get_or_init(|| {
        let (sender, jobs) = mpsc::channel::<Job>();
        std::thread::spawn(move || jobs.iter().for_each(|job| job()));
        sender
    });
    let (done, started) = tokio::sync::oneshot::channel();
    let runtime = tokio::runtime::Handle::current();
    let mut process = process;
    close_on_exec();
    let job = Box::new(move || {
        let _entered = runtime.enter();
        // Nobody waits any more: the child is killed as it is dropped.
        let _ = done.send(process.spawn());
    });
    let gone = || io::Error::other("the thread that starts processes has ended");
    jobs.send(job).map_err(|_| gone())?;
    started.await.map_err(|_| gone())?
}
