//! Does anybody still read what we print? `tandem report RUN | head -3` is no failure of ours.

use std::io;

use anyhow::Error;

/// 128 and the number of SIGPIPE: what a shell says of a program that its pipe ended.
pub const CODE: u8 = 141;

/// From now on the program ends without a word when it prints and nobody reads; `println!` panics then.
pub fn end_with_the_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str().is_some_and(is_unread) {
            std::process::exit(CODE.into());
        }
        usual(panic);
    }));
}

/// Whether a panic is that of a print into a pipe without a reader.
fn is_unread(message: &str) -> bool {
    message.starts_with("failed printing to std") && message.contains("Broken pipe")
}

/// Whether an error comes of a standard output that nobody reads. A pipe to another program breaks in the same way,
/// so the output itself is asked.
pub fn is_gone(error: &Error) -> bool {
    let broken = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref()).any(broken) && nobody_reads()
}

fn nobody_reads() -> bool {
    let mut output = libc::pollfd { fd: libc::STDOUT_FILENO, events: 0, revents: 0 };
    // SAFETY: it is one element, and lives longer than the call.
    let told = unsafe { libc::poll(&raw mut output, 1, 0) };
    told == 1 && output.revents & libc::POLLERR != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_panics_and_other_pipes_are_told_as_ever() {
        assert!(is_unread("failed printing to stdout: Broken pipe (os error 32)"));
        assert!(!is_unread("failed printing to stdout: No space left on device (os error 28)"));
        assert!(!is_unread("index out of bounds: Broken pipe"));
        // The output of a test is read.
        let pipe = Error::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(!is_gone(&pipe.context("the registry closed the connection")));
    }
}
