//! What is a command's output to the policy, and when is it a submission?

use crate::harness::ToolStatus;

/// The line that hands in: the first line of the output that is not blank, of a
/// command that ended with 0. Everything after it is the patch.
pub const SENTINEL: &str = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";

/// The patch that an output hands in, byte for byte; none if it hands in nothing.
pub(super) fn submission(exit_code: Option<i32>, output: &[u8]) -> Option<&[u8]> {
    if exit_code != Some(0) {
        return None;
    }
    let start = output.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let rest = &output[start..];
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let (line, after) = rest.split_at(end);
    let handed_in = line.trim_ascii() == SENTINEL.as_bytes();
    handed_in.then(|| after.strip_prefix(b"\n").unwrap_or(after))
}

/// The status in the words of the contract.
pub(super) fn status_name(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Finished => "finished",
        ToolStatus::Failed => "failed",
        ToolStatus::TimedOut => "timed-out",
        ToolStatus::Refused => "refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_line_of_a_good_command_hands_in() {
        let check = |code: Option<i32>, output: &[u8], expected: Option<&[u8]>| {
            let shown = String::from_utf8_lossy(output);
            assert_eq!(submission(code, output), expected, "{shown}");
        };
        let line = SENTINEL.as_bytes();
        let with = |before: &[u8], after: &[u8]| [before, line, after].concat();
        check(Some(0), &with(b"", b""), Some(b""));
        check(Some(0), &with(b"", b"\n"), Some(b""));
        check(Some(0), &with(b"\n  \n", b"  \r\n--- a\n+++ b\n"), Some(b"--- a\n+++ b\n"));
        check(Some(0), &with(b"", b"\n\xe9\x00\n\n"), Some(b"\xe9\x00\n\n"));
        check(Some(1), &with(b"", b"\npatch"), None);
        check(None, &with(b"", b"\npatch"), None);
        check(Some(0), &with(b"done\n", b"\npatch"), None);
        check(Some(0), &with(b"", b" now\npatch"), None);
        check(Some(0), b"", None);
        check(Some(0), b" \n", None);
    }
}
