//! The program under test, as a user starts it.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Whether the policy's weights are here. `make test` fetches them and demands
/// them; a plain `cargo test` says what it leaves out.
pub fn weights_are_here() -> bool {
    let here = Program::new(&["model".into(), "list".into()]).run().stdout.contains(", here");
    let required = std::env::var_os("TANDEM_REQUIRE_WEIGHTS").is_some();
    assert!(here || !required, "the weights are not here: run `tandem model fetch smollm2-135m`");
    if !here {
        eprintln!("left out: the weights are not here; `tandem model fetch smollm2-135m` gets them");
    }
    here
}

/// Where the program keeps the compiled SDK, between runs of the tests too.
pub fn tandem_home() -> String {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("home").to_string_lossy().into_owned()
}

/// One start of the program.
pub struct Program {
    command: Command,
}

/// How it ended.
pub struct Output {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Program {
    pub fn new(arguments: &[String]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
        command.args(arguments).current_dir(root()).stdin(Stdio::null());
        Self { command }
    }

    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.command.env(key, value);
        self
    }

    pub fn run(mut self) -> Output {
        let output = self.command.output().unwrap();
        Output {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub fn spawn(mut self) -> Running {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running { child: self.command.spawn().unwrap() }
    }
}

/// A start that is still going on.
pub struct Running {
    child: Child,
}

impl Running {
    /// True when it ended by itself within `time`.
    pub fn wait_at_most(&mut self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while Instant::now() < end {
            if self.child.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// SIGINT, as Ctrl-C sends it.
    pub fn interrupt(&self) {
        let status = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    pub fn output(self) -> Output {
        let output = self.child.wait_with_output().unwrap();
        Output {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
