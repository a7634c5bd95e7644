//! How does an error reach a person? One line for each cause, the next step last.

use anyhow::Error;

use super::Exit;
use crate::view::printable;

/// The error as text: `error:` the outermost sentence, `cause:` lines below it,
/// then every `help:` line once, outermost first.
pub fn render(error: &Error) -> String {
    let mut lines = Vec::new();
    let mut helps = Vec::new();
    for cause in error.chain() {
        // It can have words of another's in it.
        let text = printable(&cause.to_string());
        let (sentence, help) = match text.split_once("\nhelp: ") {
            Some((sentence, help)) => (sentence.to_owned(), Some(help.to_owned())),
            None => (text, None),
        };
        // A wrapping error often shows its cause already.
        if !lines.iter().any(|line: &String| line.contains(sentence.trim())) {
            let label = if lines.is_empty() { "error: " } else { "cause: " };
            lines.push(format!("{label}{sentence}"));
        }
        if let Some(help) = help
            && !helps.contains(&help)
        {
            helps.push(help);
        }
    }
    if is_disk_full(error) {
        // Whoever met it first took it for a fault of the file.
        helps.retain(|help| help.contains("--resume"));
        helps.push(DISK_FULL.into());
    } else if helps.is_empty() && is_io(error, std::io::ErrorKind::PermissionDenied) {
        helps.push("check who owns the file and its folder".into());
    } else if helps.is_empty() && is_io(error, std::io::ErrorKind::NotFound) {
        helps.push("check the path and the folder that it is in".into());
    }
    lines.extend(helps.into_iter().map(|help| format!("help: {help}")));
    lines.join("\n")
}

fn is_disk_full(error: &Error) -> bool {
    let full = [std::io::ErrorKind::StorageFull, std::io::ErrorKind::QuotaExceeded];
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let sqlite = cause.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
        io.is_some_and(|kind| full.contains(&kind)) || sqlite == Some(rusqlite::ErrorCode::DiskFull)
    })
}

fn is_io(error: &Error, kind: std::io::ErrorKind) -> bool {
    let io = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.map(std::io::Error::kind).any(|found| found == kind)
}

const DISK_FULL: &str =
    "the disk is full: free some space; what was recorded is safe, and a run goes on with `--resume`";

/// The exit code of an error.
pub fn exit(error: &Error) -> Exit {
    if error.chain().any(|cause| cause.is::<tandem_host::rollout::Cancelled>()) {
        Exit::Interrupted
    } else {
        Exit::Failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};
    use expect_test::{Expect, expect};

    fn check(error: Error, expected: Expect) {
        expected.assert_eq(&render(&error));
    }

    #[test]
    fn the_next_step_comes_last() {
        check(
            Err::<(), _>(anyhow!("the inner fault\nhelp: mend it"))
                .context("the outer sentence")
                .unwrap_err(),
            expect![[r#"
                error: the outer sentence
                cause: the inner fault
                help: mend it"#]],
        );
    }

    #[test]
    fn an_error_does_not_steer_the_terminal() {
        check(
            anyhow!("it is of the type `\u{1b}]0;x\u{7}`\nhelp: check it"),
            expect![[r#"
                error: it is of the type `]0;x`
                help: check it"#]],
        );
    }

    #[test]
    fn a_full_disk_says_that_nothing_is_lost() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        check(
            Err::<(), _>(full).context("blob abc cannot be written").unwrap_err(),
            expect![[r#"
                error: blob abc cannot be written
                cause: no storage space
                help: the disk is full: free some space; what was recorded is safe, and a run goes on with `--resume`"#]],
        );
    }

    #[test]
    fn a_path_that_is_not_there_has_a_next_step() {
        let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
        check(
            Err::<(), _>(missing()).context("none/x.wasm cannot be written").unwrap_err(),
            expect![[r#"
                error: none/x.wasm cannot be written
                cause: entity not found
                help: check the path and the folder that it is in"#]],
        );
        check(
            Err::<(), _>(missing()).context("x cannot be read\nhelp: check `--repo`").unwrap_err(),
            expect![[r#"
                error: x cannot be read
                cause: entity not found
                help: check `--repo`"#]],
        );
    }

    #[test]
    fn a_full_disk_is_not_taken_for_a_fault_of_the_file() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        check(
            Err::<(), _>(full)
                .context("`adapter.safetensors` cannot be used\nhelp: check that the path is right")
                .context("the checkpoint v1 was not written\nhelp: go on with `tandem train --resume`")
                .unwrap_err(),
            expect![[r#"
                error: the checkpoint v1 was not written
                cause: `adapter.safetensors` cannot be used
                cause: no storage space
                help: go on with `tandem train --resume`
                help: the disk is full: free some space; what was recorded is safe, and a run goes on with `--resume`"#]],
        );
    }

    #[test]
    fn a_cause_that_the_sentence_shows_already_is_not_repeated() {
        let inner = anyhow!("no such task");
        check(inner.context("it failed: no such task"), expect!["error: it failed: no such task"]);
    }
}
