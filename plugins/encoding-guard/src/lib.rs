//! Points out that an edit changed line endings, byte order mark or encoding of a file.
//!
//! Watches calls that may write: it notes line endings, byte order mark and encoding of the files
//! that the call names before it runs, and compares after it. Fires when a file that had one kind
//! of line endings, a mark or an encoding has another, and names the command that restores it.
//! Silent for new, deleted and binary files, for files whose line endings were mixed before, and
//! when only text changed.
//!
//! Points: `on-tool-call`, `on-tool-result`. Grants: `workspace-read`, `state`.

use tandem_plugin::*;

/// Files of one call that are looked at.
const MAX_FILES: usize = 6; // parameter
/// Words of one call that are tried as names of files.
const MAX_NAMES: usize = 40; // parameter
/// Watch line endings.
const LINE_ENDINGS: bool = true; // parameter
/// Watch the byte order mark.
const BYTE_ORDER_MARK: bool = true; // parameter
/// Watch the encoding.
const ENCODING: bool = true; // parameter

/// In `state`: the files of the running call, as lines of path, tab, traits.
const KEY: &str = "before";

pub struct Plugin;

impl OnToolCall for Plugin {
    fn on_tool_call(_context: Context, call: ToolCall) -> Option<ToolCallEffect> {
        // Most words with a dot in a script are no files.
        let traits = |path: &String| workspace::read(path).ok().and_then(|bytes| Traits::of(&bytes));
        let names = named(&call);
        let files = names.iter().filter_map(|path| Some((path, traits(path)?))).take(MAX_FILES);
        let before: String = files.map(|(path, traits)| format!("{path}\t{}\n", traits.code())).collect();
        // Paths of one command are far below the cap.
        let _ = state::set(KEY, before.as_bytes());
        None
    }
}

export_on_tool_call!(Plugin);

impl OnToolResult for Plugin {
    fn on_tool_result(_context: Context, _call: ToolCall, _outcome: ToolResult) -> Option<ToolResultEffect> {
        let before = state::text(KEY);
        if before.is_empty() {
            return None;
        }
        let _ = state::set(KEY, b"");
        let mut found = Vec::new();
        for (path, code) in before.lines().filter_map(|line| line.split_once('\t')) {
            let now = workspace::read(path).ok().and_then(|bytes| Traits::of(&bytes));
            if let (Some(before), Some(now)) = (Traits::from_code(code), now) {
                found.extend(change(path, before, now));
            }
        }
        if found.is_empty() {
            return None;
        }
        Some(ToolResultEffect::Annotate(format!("[{}]", found.join("\n"))))
    }
}

export_on_tool_result!(Plugin);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Endings {
    None,
    Lf,
    CrLf,
    Mixed,
}

/// What of a file an edit should leave as it was.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Traits {
    endings: Endings,
    mark: bool,
    utf8: bool,
}

const MARK: &[u8] = b"\xef\xbb\xbf";

impl Traits {
    /// None for binary files.
    fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.contains(&0) {
            return None;
        }
        let all = bytes.iter().filter(|byte| **byte == b'\n').count();
        let both = bytes.windows(2).filter(|pair| pair == b"\r\n").count();
        let endings = match (all, both) {
            (0, _) => Endings::None,
            (_, 0) => Endings::Lf,
            _ if all == both => Endings::CrLf,
            _ => Endings::Mixed,
        };
        Some(Self { endings, mark: bytes.starts_with(MARK), utf8: std::str::from_utf8(bytes).is_ok() })
    }

    fn code(self) -> String {
        let endings = match self.endings {
            Endings::None => "n",
            Endings::Lf => "l",
            Endings::CrLf => "c",
            Endings::Mixed => "m",
        };
        format!("{endings}{}{}", u8::from(self.mark), u8::from(self.utf8))
    }

    fn from_code(code: &str) -> Option<Self> {
        let [endings, mark, utf8] = code.as_bytes() else { return None };
        let endings = match endings {
            b'l' => Endings::Lf,
            b'c' => Endings::CrLf,
            b'm' => Endings::Mixed,
            _ => Endings::None,
        };
        Some(Self { endings, mark: *mark == b'1', utf8: *utf8 == b'1' })
    }
}

/// One sentence for each trait that changed.
fn change(path: &str, before: Traits, now: Traits) -> Vec<String> {
    let mut found = Vec::new();
    if LINE_ENDINGS {
        match (before.endings, now.endings) {
            (Endings::CrLf, Endings::Lf | Endings::Mixed) => {
                let kind = if now.endings == Endings::Lf { "LF" } else { "both kinds" };
                found.push(format!("{path} had CRLF line endings and now has {kind}. To restore: sed -i 's/\\r*$/\\r/' {path}"));
            }
            (Endings::Lf, Endings::CrLf | Endings::Mixed) => {
                let kind = if now.endings == Endings::CrLf { "CRLF" } else { "both kinds" };
                found.push(format!(
                    "{path} had LF line endings and now has {kind}. To restore: sed -i 's/\\r$//' {path}"
                ));
            }
            _ => {}
        }
    }
    if BYTE_ORDER_MARK && before.mark && !now.mark {
        found.push(format!(
            "{path} lost its byte order mark. To restore: sed -i '1s/^/\\xef\\xbb\\xbf/' {path}"
        ));
    }
    if BYTE_ORDER_MARK && !before.mark && now.mark {
        found
            .push(format!("{path} got a byte order mark. To restore: sed -i '1s/^\\xef\\xbb\\xbf//' {path}"));
    }
    if ENCODING && before.utf8 && !now.utf8 {
        found.push(format!("{path} was UTF-8 and is no more. If it is Latin-1 now, to restore: iconv -f LATIN1 -t UTF-8 {path} > /tmp/f && cp /tmp/f {path}"));
    }
    if ENCODING && !before.utf8 && now.utf8 {
        found.push(format!("{path} was not UTF-8 and is now; what its bytes meant may be lost. To undo: git checkout -- {path}; then edit it with sed, which leaves other bytes alone"));
    }
    found
}

/// Paths that a call names and may write.
fn named(call: &ToolCall) -> Vec<String> {
    let Some(command) = call.command() else { return call.text("path").into_iter().collect() };
    let reads_only = |command: &shell::Command| {
        let program = command.program();
        let quiet = matches!(
            program,
            "cat" | "ls" | "head" | "tail" | "grep" | "rg" | "cd" | "wc" | "find" | "echo" | "pwd"
        ) || (program == "git"
            && command.has(&["diff", "log", "status", "show", "blame", "grep"]))
            || (program == "sed"
                && !command
                    .arguments()
                    .iter()
                    .any(|word| word.starts_with("-i") || word.starts_with("--in-place")));
        quiet && command.writes.is_empty()
    };
    if shell::commands(&command).iter().all(reads_only) {
        return Vec::new();
    }
    let is_part = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let mut paths: Vec<String> = Vec::new();
    for word in command.split(|c| !is_part(c)) {
        let path =
            word.strip_prefix("/workspace/").unwrap_or(word).trim_start_matches("./").trim_end_matches('.');
        let looks_like_path =
            path.contains('.') && !path.starts_with(['/', '-', '.']) && !path.contains("..");
        if paths.len() >= MAX_NAMES {
            break;
        }
        if looks_like_path && path.len() < 200 && !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &[u8], now: &[u8], expected: &[&str]) {
        let (before, now) = (Traits::of(before).unwrap(), Traits::of(now).unwrap());
        assert_eq!(Traits::from_code(&before.code()), Some(before));
        let found = change("a.py", before, now);
        let starts: Vec<&str> = found.iter().map(|text| text.split(". ").next().unwrap()).collect();
        assert_eq!(starts, expected);
    }

    #[test]
    fn changed_traits_are_named() {
        check(b"a\r\nb\r\n", b"a\nc\n", &["a.py had CRLF line endings and now has LF"]);
        check(b"a\r\nb\r\n", b"a\r\nc\n", &["a.py had CRLF line endings and now has both kinds"]);
        check(b"a\nb\n", b"a\r\nb\r\n", &["a.py had LF line endings and now has CRLF"]);
        check(b"\xef\xbb\xbfa\n", b"a\n", &["a.py lost its byte order mark"]);
        check(b"a\n", b"\xef\xbb\xbfa\n", &["a.py got a byte order mark"]);
        check(b"\xc3\xa9\n", b"\xe9\n", &["a.py was UTF-8 and is no more"]);
        check(b"\xe9\n", b"?\n", &["a.py was not UTF-8 and is now; what its bytes meant may be lost"]);
    }

    #[test]
    fn changed_text_is_not() {
        check(b"a\n", b"b\n", &[]);
        check(b"a\r\n", b"b\r\nc\r\n", &[]);
        check(b"a\r\nb\n", b"a\nb\n", &[]);
        check(b"", b"a\r\n", &[]);
        check(b"\xe9\n", b"\xe9\xe8\n", &[]);
        assert_eq!(Traits::of(b"a\0b"), None);
    }

    #[test]
    fn only_files_that_may_be_written_are_looked_at() {
        let check = |command: &str, expected: &[&str]| {
            let arguments = format!("{{\"command\":{}}}", json::quote(command));
            let call = ToolCall { id: "1".into(), name: "bash".into(), arguments };
            assert_eq!(named(&call), expected, "{command}");
        };
        check("sed -i 's/a/b/' src/a.py", &["src/a.py"]);
        check("python3 - <<'E'\nopen('x.txt', 'w')\nE", &["x.txt"]);
        check("cat a.py", &[]);
        check("cat a.py > b.py", &["a.py", "b.py"]);
        check("git diff a.py", &[]);
        let script: String = (0..9_000).map(|at| format!("self.x{at}\n")).collect();
        let arguments = format!("{{\"command\":{}}}", json::quote(&format!("python3 - <<'E'\n{script}E")));
        let call = ToolCall { id: "1".into(), name: "bash".into(), arguments };
        assert_eq!(named(&call).len(), MAX_NAMES);
        check("ls", &[]);
    }
}
