//! A rootless podman of the tests, with one image. It ends with the guard. Used by the tests
//! of this crate and, by its path, by tests outside of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The image that the service starts with.
pub const IMAGE: &str = "localhost/tandem-test";

/// A podman service with a store of its own.
pub struct Podman {
    child: Child,
    folder: tempfile::TempDir,
}

impl Podman {
    /// None where podman is not installed; `make test` demands it.
    pub fn start() -> Option<Self> {
        let required = std::env::var_os("TANDEM_REQUIRE_PODMAN").is_some();
        if Command::new("podman").arg("--version").stdout(Stdio::null()).status().is_err() {
            assert!(!required, "podman is not here: run scripts/setup.sh");
            eprintln!("left out: podman is not here; scripts/setup.sh installs it on Debian");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(script());
        command.arg(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let child = command.stderr(log).spawn().unwrap();
        let mut podman = Self { child, folder };
        let end = Instant::now() + Duration::from_secs(120);
        while !podman.folder.path().join("ready").exists() {
            let over = podman.child.try_wait().unwrap().is_some() || Instant::now() > end;
            if over {
                let log = fs::read_to_string(podman.folder.path().join("log")).unwrap_or_default();
                assert!(!required, "podman does not run here: {log}");
                eprintln!("left out: podman does not run here: {log}");
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(podman)
    }

    /// Where it answers.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("run/socket")
    }

    /// Runs podman over the same store and gives back what it prints.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(script()).arg(self.folder.path()).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "podman {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// How many containers there are, stopped ones too.
    pub fn containers(&self) -> usize {
        self.run(&["ps", "-aq"]).lines().count()
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/podman_service.sh")
}

impl Drop for Podman {
    fn drop(&mut self) {
        // SIGTERM: the script ends what it started.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
        let _ = Command::new("rm").arg("-rf").arg(self.folder.path()).status();
    }
}
