//! Who works on a run folder? One program at a time; who only reads needs no leave.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The hold on a run folder, until it is dropped or the program ends.
pub struct RunLock(#[allow(dead_code)] File);

impl RunLock {
    /// Takes the folder, which is made if it is not there. A program that was killed just now may leave a
    /// child that ends a moment later, so this waits up to `wait` for whoever has it.
    ///
    /// # Errors
    /// When another program has it, or the folder cannot be written to.
    pub fn take(run: &Path, wait: Duration) -> Result<Self> {
        fs::create_dir_all(run).with_context(|| format!("{} cannot be made", run.display()))?;
        let file =
            File::create(run.join("lock")).with_context(|| format!("{} cannot be locked", run.display()))?;
        let end = Instant::now() + wait;
        while file.try_lock().is_err() {
            if Instant::now() >= end {
                bail!("another program works on {}\nhelp: wait for it, or stop it first", run.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self(file))
    }

    /// Whether a program works on the folder now.
    pub fn is_held(run: &Path) -> bool {
        // Shared: two that ask do not hinder each other.
        File::open(run.join("lock")).is_ok_and(|file| file.try_lock_shared().is_err())
    }
}
