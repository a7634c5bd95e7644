//! Signals that were ignored before this program began: by `nohup`, or by a shell's `&`.

use std::{mem, ptr};

/// Lets the processes that this one starts have their signals, and still does nothing at them itself.
///
/// An ignored signal stays ignored in every child (POSIX, `execve`), where a suite of tests can tell: Python
/// has no `KeyboardInterrupt` there, a shell no `trap`. A run under `nohup` would judge otherwise than one in
/// a terminal. A handler ends with `exec`.
pub(super) fn heed_ignored_signals() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: `sigaction` reads and writes structures of this function, for which zero is a value; the
        // handler touches nothing.
        unsafe {
            let mut now: libc::sigaction = mem::zeroed();
            if libc::sigaction(signal, ptr::null(), &mut now) != 0 || now.sa_sigaction != libc::SIG_IGN {
                continue;
            }
            let mut heeded: libc::sigaction = mem::zeroed();
            heeded.sa_sigaction = nothing as *const () as libc::sighandler_t;
            heeded.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &heeded, ptr::null_mut());
        }
    }
}
