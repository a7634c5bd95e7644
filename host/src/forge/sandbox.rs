//! How does a program run with nothing of this machine in reach?

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::error::ForgeError;

/// Most bytes that are kept of standard error; the rest is read and dropped.
const OUTPUT_CAP: usize = 4 << 20;

/// One program in bubblewrap: own user, mount, process, network, IPC and host
/// name spaces; no network, no `/proc`, no environment but its own, no new
/// privileges; only the given paths. Works as root and as an ordinary user.
///
/// Processes are counted from within: RLIMIT_NPROC counts what the user has in one user name space,
/// so the limit is set behind its border, by `prlimit`. The kernel does not hold root to it; there
/// the limits of time and memory are what ends a flood, and nothing of a plugin runs in a build.
pub(super) struct Sandbox {
    bwrap: PathBuf,
    mounts: Vec<String>,
    environment: Vec<(String, String)>,
    limits: Limits,
    memory: MemoryLimit,
    /// Most files that a process has open.
    open_files: u64,
    fixed_random: bool,
    output: bool,
}

/// What of a process the limit of memory counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryLimit {
    /// All of its address space: for programs that reserve what they use.
    AddressSpace,
    /// What it can write to: for runtimes that reserve much more than they use.
    Data,
}

/// Most processes and threads of one build.
const PROCESSES: u32 = 128;
/// Sets the limit of processes inside the sandbox.
const PRLIMIT: &str = "/usr/bin/prlimit";

/// What the program may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Wall time. CPU time of each process has twice that, and 2 s.
    pub time: Duration,
    /// Bytes of memory of each process.
    pub memory: u64,
    /// Bytes of one written file.
    pub file: u64,
}

/// How the program ended.
pub(super) struct Ended {
    pub status: ExitStatus,
    pub stderr: Vec<u8>,
    /// Empty unless it is kept.
    pub stdout: Vec<u8>,
    pub seconds: f64,
    /// Stopped at the limit of wall or CPU time.
    pub timed_out: bool,
}

impl Sandbox {
    pub fn new(bwrap: &Path, limits: Limits) -> Self {
        let mut sandbox = Self {
            bwrap: bwrap.to_owned(),
            mounts: Vec::new(),
            environment: Vec::new(),
            limits,
            memory: MemoryLimit::AddressSpace,
            open_files: 256,
            fixed_random: false,
            output: false,
        };
        // The loader and the C library.
        for dir in ["/lib", "/lib64"] {
            sandbox.mount(&["--ro-bind-try", dir, dir]);
        }
        sandbox.mount(&["--dev", "/dev", "--size", "268435456", "--tmpfs", "/tmp"]);
        sandbox.mount(&["--ro-bind", PRLIMIT, "/forge/prlimit"]);
        sandbox.env("TMPDIR", "/tmp");
        sandbox
    }

    /// Counts as memory only what a process can write to. V8, Go and wasmtime reserve gigabytes of
    /// address space that they never touch.
    pub fn reserves_address_space(&mut self) -> &mut Self {
        self.memory = MemoryLimit::Data;
        self
    }

    /// For a compiler that builds a whole library with many processes at once.
    pub fn many_open_files(&mut self) -> &mut Self {
        self.open_files = 8192;
        self
    }

    /// Makes every random number that the program asks the kernel for a zero: for programs that put
    /// seeds into what they write.
    pub fn fixed_random(&mut self) -> &mut Self {
        self.fixed_random = true;
        self.mount(&["--dev-bind", "/dev/zero", "/dev/urandom"]);
        self
    }

    /// Keeps standard output too.
    pub fn keeps_output(&mut self) -> &mut Self {
        self.output = true;
        self
    }

    fn mount(&mut self, arguments: &[&str]) {
        self.mounts.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    }

    /// Shows `outside` at `inside`, for reading.
    pub fn read_only(&mut self, outside: &Path, inside: &str) -> &mut Self {
        self.mount(&["--ro-bind", &outside.to_string_lossy(), inside]);
        self
    }

    /// Shows the folder `outside` at `inside`, for reading and writing.
    pub fn writable(&mut self, outside: &Path, inside: &str) -> &mut Self {
        self.mount(&["--bind", &outside.to_string_lossy(), inside]);
        self
    }

    /// Makes the symbolic link `inside`, which leads to `target` inside.
    pub fn link(&mut self, target: &str, inside: &str) -> &mut Self {
        self.mount(&["--symlink", target, inside]);
        self
    }

    pub fn env(&mut self, name: &str, value: &str) -> &mut Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs `program` in the folder `dir` of the sandbox until it ends or its time is up.
    pub fn run(&self, dir: &str, program: &[&str]) -> Result<Ended, ForgeError> {
        let mut command = Command::new(&self.bwrap);
        command
            .args([
                "--unshare-all",
                "--unshare-user",
                "--disable-userns",
                "--die-with-parent",
                "--new-session",
            ])
            .args([
                "--cap-drop",
                "ALL",
                "--uid",
                "1000",
                "--gid",
                "1000",
                "--hostname",
                "forge",
                "--clearenv",
            ])
            .args(&self.mounts);
        for (name, value) in &self.environment {
            command.args(["--setenv", name, value]);
        }
        let filter = if self.fixed_random { Some(without_getrandom(&self.bwrap)?) } else { None };
        if filter.is_some() {
            command.args(["--seccomp", &FILTER_FD.to_string()]);
        }
        command.args(["--remount-ro", "/", "--chdir", dir, "--"]);
        command.arg("/forge/prlimit").arg(format!("--nproc={PROCESSES}")).args(program);
        let stdout = if self.output { Stdio::piped() } else { Stdio::null() };
        command.env_clear().stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());

        if !Path::new(PRLIMIT).is_file() {
            return Err(ForgeError::Toolchain {
                what: format!("`{PRLIMIT}`, which limits the processes of a build, is missing"),
                help: "apt-get install util-linux".into(),
            });
        }
        let (limits, memory, open_files) = (self.limits, self.memory, self.open_files);
        let filter_fd = filter.as_ref().map(std::os::fd::AsRawFd::as_raw_fd);
        let prepare = move || {
            // SAFETY: both only change descriptors of this child. What is at 10 outlives exec.
            let kept = match filter_fd {
                Some(FILTER_FD) => unsafe { libc::fcntl(FILTER_FD, libc::F_SETFD, 0) },
                Some(fd) => unsafe { libc::dup2(fd, FILTER_FD) },
                None => 0,
            };
            if kept < 0 {
                return Err(std::io::Error::last_os_error());
            }
            set_limits(limits, memory, open_files)
        };
        // SAFETY: only fcntl, dup2 and setrlimit are called between fork and exec, which is safe there.
        unsafe { command.pre_exec(prepare) };

        let start = Instant::now();
        let mut child = command.spawn().map_err(|error| ForgeError::Toolchain {
            what: format!("bubblewrap (`{}`) cannot be started: {error}", self.bwrap.display()),
            help: "apt-get install bubblewrap".into(),
        })?;
        let (stderr, stdout) = (drain(child.stderr.take()), drain(child.stdout.take()));
        let (status, killed) = self.wait(&mut child, start)?;
        let seconds = start.elapsed().as_secs_f64();
        // The pipe closes with the last process of the name space, and that one is gone.
        let (stderr, stdout) = (stderr.join().unwrap_or_default(), stdout.join().unwrap_or_default());
        let timed_out = killed || ended_by(&status, libc::SIGXCPU);
        Ok(Ended { status, stderr, stdout, seconds, timed_out })
    }

    /// Waits; kills the whole process name space at the time limit: bubblewrap
    /// is the parent of its first process, and that one dies with its parent.
    fn wait(&self, child: &mut Child, start: Instant) -> Result<(ExitStatus, bool), ForgeError> {
        let failed = |error| super::source::io("wait for", &self.bwrap, error);
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                return Ok((status, false));
            }
            if start.elapsed() >= self.limits.time {
                child.kill().map_err(failed)?;
                return Ok((child.wait().map_err(failed)?, true));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }
}

/// The descriptor on which bubblewrap reads the filter of system calls.
const FILTER_FD: i32 = 10;

/// A filter under which the kernel has no `getrandom`, as before Linux 3.17: libraries read
/// `/dev/urandom` instead. Classic BPF over `struct seccomp_data` (seccomp(2)).
fn without_getrandom(bwrap: &Path) -> Result<std::fs::File, ForgeError> {
    use std::io::{Seek as _, Write as _};
    // Of <linux/audit.h>; the number of the call is at 0, the architecture at 4.
    let architecture: u32 = if cfg!(target_arch = "aarch64") { 0xC000_00B7 } else { 0xC000_003E };
    let (load, equal, answer) = (0x20, 0x15, 0x06);
    let program: [(u16, u8, u8, u32); 6] = [
        (load, 0, 0, 4),
        (equal, 0, 3, architecture),
        (load, 0, 0, 0),
        (equal, 0, 1, u32::try_from(libc::SYS_getrandom).unwrap_or(u32::MAX)),
        (answer, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()),
        (answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let mut bytes = Vec::new();
    for (code, yes, no, value) in program {
        bytes.extend(code.to_ne_bytes());
        bytes.extend([yes, no]);
        bytes.extend(value.to_ne_bytes());
    }
    let written = tempfile::tempfile().and_then(|mut file| {
        file.write_all(&bytes)?;
        file.rewind()?;
        Ok(file)
    });
    written.map_err(|error| super::source::io("write the filter of system calls for", bwrap, error))
}

/// Whether a process ended by `signal`. Bubblewrap reports its child's as 128 + signal.
pub(super) fn ended_by(status: &ExitStatus, signal: i32) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(signal) || status.code() == Some(128 + signal)
}

/// What this process may allow at most.
fn most_open_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through the call.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } {
        0 => limit.rlim_max,
        _ => u64::MAX,
    }
}

fn set_limits(limits: Limits, memory: MemoryLimit, open_files: u64) -> std::io::Result<()> {
    // The wall clock decides; this is for the case that nobody is left to look at it.
    let cpu = 2 * limits.time.as_secs() + 2;
    let memory = match memory {
        MemoryLimit::AddressSpace => libc::RLIMIT_AS,
        MemoryLimit::Data => libc::RLIMIT_DATA,
    };
    for (resource, value) in [
        (memory, limits.memory),
        (libc::RLIMIT_CPU, cpu),
        (libc::RLIMIT_FSIZE, limits.file),
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_NOFILE, open_files.min(most_open_files())),
    ] {
        let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
        // SAFETY: `limit` lives through the call.
        if unsafe { libc::setrlimit(resource, &limit) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Reads a stream to its end in a thread of its own, keeping the first [`OUTPUT_CAP`] bytes.
fn drain(stream: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let Some(mut stream) = stream else { return kept };
        let mut block = [0; 16 << 10];
        while let Ok(count @ 1..) = stream.read(&mut block) {
            let room = OUTPUT_CAP - kept.len();
            kept.extend_from_slice(&block[..count.min(room)]);
        }
        kept
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Runs a script with everything in `/usr` in reach, which a build does not have.
    fn run(script: &str, limits: Limits, prepare: impl Fn(&mut Sandbox)) -> (String, Ended) {
        let mut sandbox = Sandbox::new(Path::new("bwrap"), limits);
        sandbox.read_only(Path::new("/usr"), "/usr").env("PATH", "/usr/bin");
        prepare(&mut sandbox);
        let ended = sandbox.run("/tmp", &["/usr/bin/bash", "-c", &format!("exec >&2\n{script}")]).unwrap();
        (String::from_utf8_lossy(&ended.stderr).into_owned(), ended)
    }

    const LIMITS: Limits = Limits { time: Duration::from_secs(10), memory: 1 << 30, file: 1 << 20 };

    #[test]
    fn nothing_of_this_machine_is_in_reach() {
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), "the secret").unwrap();
        let script = format!(
            "cat {} /etc/passwd; ls /proc /root /home; env | sort; echo x > /usr/x; echo x > /x; id -u; hostname",
            secret.path().display()
        );
        let (text, _) = run(&script, LIMITS, |_| {});
        assert!(!text.contains("the secret") && !text.contains("root:"), "{text}");
        assert!(
            text.contains("/etc/passwd: No such file") && text.contains("'/proc': No such file"),
            "{text}"
        );
        assert!(
            text.contains("/usr/x: Read-only file system") && text.contains("/x: Read-only file system"),
            "{text}"
        );
        assert!(!text.contains("HOME=") && !text.contains("CARGO"), "{text}");
        assert!(text.contains("1000\nforge\n"), "{text}");
    }

    #[test]
    fn a_loopback_listener_of_the_host_is_not_reached() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (text, _) = run(&format!("echo hello > /dev/tcp/127.0.0.1/{port}"), LIMITS, |_| {});
        assert!(text.contains("Connection refused") || text.contains("unreachable"), "{text}");
        assert!(listener.accept().is_err());
    }

    #[test]
    fn a_time_out_ends_every_process_of_the_sandbox() {
        let shared = tempfile::tempdir().unwrap();
        let limits = Limits { time: Duration::from_millis(500), ..LIMITS };
        let script = "(setsid bash -c 'sleep 1; touch /out/alive' &) ; sleep 60";
        let (_, ended) = run(script, limits, |sandbox| _ = sandbox.writable(shared.path(), "/out"));
        assert!(ended.timed_out && ended.seconds < 5.0, "{} s", ended.seconds);
        std::thread::sleep(Duration::from_millis(1_500));
        assert!(!shared.path().join("alive").exists());
    }

    /// The kernel holds no process of root to this limit, so the bomb is another user's.
    #[test]
    fn a_fork_bomb_ends_at_the_limit_of_processes() {
        let dir = tempfile::tempdir().unwrap();
        let bwrap = dir.path().join("bwrap");
        let as_nobody =
            "test $(id -u) -ne 0 || set -- setpriv --reuid=65534 --regid=65534 --clear-groups bwrap \"$@\"";
        let script =
            format!("#!/bin/sh\ntest $(id -u) -eq 0 || set -- bwrap \"$@\"\n{as_nobody}\nexec \"$@\"\n");
        std::fs::write(&bwrap, script).unwrap();
        std::fs::set_permissions(&bwrap, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut sandbox = Sandbox::new(&bwrap, Limits { time: Duration::from_secs(3), ..LIMITS });
        sandbox.read_only(Path::new("/usr"), "/usr").env("PATH", "/usr/bin");
        let bomb = "exec >&2; for i in $(seq 400); do sleep 60 & done; echo survived";
        let ended = sandbox.run("/tmp", &["/usr/bin/bash", "-c", bomb]).unwrap();
        let text = String::from_utf8_lossy(&ended.stderr);
        assert!(
            text.contains("fork: retry: Resource temporarily unavailable") && !text.contains("survived"),
            "{text}"
        );
    }

    #[test]
    fn random_numbers_are_fixed_where_they_would_end_up_in_the_output() {
        let script =
            "head -c 4 /dev/urandom | od -An -tx1; python3 -Ic 'import os; print(os.urandom(4).hex())'";
        let run = || run(script, LIMITS, |sandbox| _ = sandbox.fixed_random()).0;
        assert_eq!(run(), " 00 00 00 00\n00000000\n");
    }

    #[test]
    fn memory_cpu_time_and_files_are_capped() {
        let (text, _) = run("dd if=/dev/zero of=/dev/null bs=2G count=1", LIMITS, |_| {});
        assert!(text.contains("memory exhausted"), "{text}");

        let (text, _) = run("head -c 2000000 /dev/zero > /tmp/big; wc -c < /tmp/big", LIMITS, |_| {});
        assert!(text.contains("1048576"), "{text}");

        // A runtime may reserve what it likes; what it writes to is capped.
        let (text, _) = run("dd if=/dev/zero of=/dev/null bs=2G count=1", LIMITS, |sandbox| {
            sandbox.reserves_address_space();
        });
        assert!(text.contains("memory exhausted"), "{text}");

        let limits = Limits { time: Duration::from_secs(1), ..LIMITS };
        let (text, ended) = run("ulimit -t; while :; do :; done", limits, |_| {});
        assert!(ended.timed_out && text == "4\n", "{text}");
    }
}
