//! At which moments may the program die without losing anything? At every one; tests choose one.
//!
//! A moment lies right before or right after something becomes durable: a blob, a whole file, a
//! transaction of a run record. In a debug build the variable [`DIE_AT`] names the moment, counted
//! from 1, at which the process ends as by `kill -9`. A release build has no such variable.

/// The environment variable that a debug build reads once.
pub const DIE_AT: &str = "TANDEM_DIE_AT_MOMENT";

/// One moment. Does nothing unless a test asked for the end here.
#[inline]
pub fn moment() {
    #[cfg(debug_assertions)]
    count();
}

#[cfg(debug_assertions)]
fn count() {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static LAST: OnceLock<Option<u64>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let asked = || std::env::var(DIE_AT).ok().and_then(|text| text.parse().ok());
    let Some(last) = LAST.get_or_init(asked) else { return };
    if PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *last {
        // SAFETY: both are plain system calls on our own process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}
