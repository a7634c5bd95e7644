//! At which moments may the program die without losing anything? At every one; tests choose one.
//!
//! A moment lies right before or right after something becomes durable: a blob, a whole file, a
//! transaction of a run record, a checkpoint. In a debug build the variable [`DIE_AT`] says at which one the
//! process ends as by `kill -9`: a number counts all moments from 1, and a name, such as
//! `checkpoint-written`, means the first of that name. A release build has no such variable.

/// The environment variable that a debug build reads once.
pub const DIE_AT: &str = "TANDEM_DIE_AT_MOMENT";

/// One moment. Does nothing unless a test asked for the end here.
#[inline]
pub fn moment() {
    named_moment("");
}

/// One moment that a test can ask for by its name.
#[inline]
pub fn named_moment(name: &'static str) {
    #[cfg(debug_assertions)]
    count(name);
    #[cfg(not(debug_assertions))]
    let _ = name;
}

#[cfg(debug_assertions)]
fn count(name: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static ASKED: OnceLock<Option<String>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let Some(asked) = ASKED.get_or_init(|| std::env::var(DIE_AT).ok()) else { return };
    let number = PASSED.fetch_add(1, Ordering::SeqCst) + 1;
    if asked == name || asked.parse() == Ok(number) {
        // SAFETY: both are plain system calls on our own process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}
