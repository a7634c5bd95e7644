//! Folds long output of commands: head, tail, and the lines between them that look like errors.
//!
//! Watches every result of `bash`. Fires when the output has more lines or characters than the
//! parameters allow; the policy then reads the first and the last lines, the lines in between
//! that look like errors with their numbers, how much was left out, and the command that shows
//! the rest. Silent when the output is short, at a submission, and for tools of plugins, which
//! cap their own answers.
//!
//! Setting: `max_lines`, from 46 to 1000, stands in for the parameter.
//! Point: `on-tool-result`. Grants: `settings`.

use tandem_plugin::*;

/// Lines of output that are shown whole.
const MAX_LINES: usize = 80; // parameter
/// Characters of output that are shown whole.
const MAX_CHARS: usize = 6_000; // parameter
/// Lines shown from the start.
const HEAD: usize = 20; // parameter
/// Lines shown from the end.
const TAIL: usize = 25; // parameter
/// Lines between them that are shown since they look like errors.
const MAX_ERRORS: usize = 15; // parameter
/// Characters of one line.
const LINE_CHARS: usize = 240; // parameter

const SENTINEL: &str = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";

pub struct Plugin;

impl SettingsSchema for Plugin {
    fn settings_schema() -> String {
        r#"{"type": "object", "properties": {"max_lines": {"type": "integer", "minimum": 46, "maximum": 1000, "description": "lines of output that are shown whole"}}, "additionalProperties": false}"#
            .into()
    }
}

export_settings_schema!(Plugin);

impl OnToolResult for Plugin {
    fn on_tool_result(_context: Context, call: ToolCall, outcome: ToolResult) -> Option<ToolResultEffect> {
        let command = call.command()?;
        if command.contains(SENTINEL) {
            return None;
        }
        let set = settings::get("max_lines").and_then(|lines| lines.as_u64());
        let most = set.and_then(|lines| usize::try_from(lines).ok()).unwrap_or(MAX_LINES);
        fold(&command, &outcome.text, most).map(ToolResultEffect::Replace)
    }
}

export_on_tool_result!(Plugin);

/// The folded output; none if it has at most `most` lines and is short.
fn fold(command: &str, text: &str, most: usize) -> Option<String> {
    // The host's own first line says how the command ended and is no line of the output.
    let (status, output) = match text.split_once('\n') {
        Some((first, rest)) if first.starts_with("exit code ") || first.starts_with("stopped after ") => {
            (Some(first), rest)
        }
        _ => (None, text),
    };
    let lines: Vec<&str> = output.lines().collect();
    let characters = output.chars().count();
    if lines.len() <= most && characters <= MAX_CHARS {
        return None;
    }
    let mut shown: Vec<String> = status.map(str::to_owned).into_iter().collect();
    let short = |line: &&str| shorten(line);
    if lines.len() <= HEAD + TAIL {
        shown.extend(lines.iter().map(short));
        shown.push(format!("[lines over {LINE_CHARS} characters are cut; {characters} characters in all]"));
    } else {
        let (head, rest) = lines.split_at(HEAD);
        let (middle, tail) = rest.split_at(rest.len() - TAIL);
        let errors: Vec<(usize, &&str)> =
            middle.iter().enumerate().filter(|(_, line)| looks_like_error(line)).collect();
        shown.extend(head.iter().map(short));
        shown.push(format!(
            "[lines {} to {} of {} left out{}]",
            HEAD + 1,
            HEAD + middle.len(),
            lines.len(),
            if errors.is_empty() { "; none of them looks like an error" } else { ", but for these:" },
        ));
        for (at, line) in errors.iter().take(MAX_ERRORS) {
            shown.push(format!("{}: {}", HEAD + at + 1, shorten(line)));
        }
        if errors.len() > MAX_ERRORS {
            shown.push(format!("[and {} more like these]", errors.len() - MAX_ERRORS));
        }
        if !errors.is_empty() {
            shown.push(format!("[the last {TAIL} lines:]"));
        }
        shown.extend(tail.iter().map(short));
        shown.push(advice(command, HEAD + 1, (HEAD + 60).min(HEAD + middle.len())));
    }
    Some(shown.join("\n"))
}

fn shorten(line: &str) -> String {
    let count = line.chars().count();
    if count <= LINE_CHARS {
        return line.to_owned();
    }
    let head: String = line.chars().take(LINE_CHARS).collect();
    format!("{head}… [{} more characters]", count - LINE_CHARS)
}

/// How to see what was left out.
fn advice(command: &str, from: usize, to: usize) -> String {
    let commands = shell::commands(command);
    match commands.as_slice() {
        // A file that is only shown can be shown in part.
        [only] if only.program() == "cat" && only.operands().count() == 1 && !only.fed => {
            let file = only.operands().next().unwrap_or_default();
            format!("[to see more: sed -n '{from},{to}p' {file}]")
        }
        _ => format!(
            "[to see more, add `> /tmp/out.txt 2>&1` to the command, then: sed -n '{from},{to}p' /tmp/out.txt]"
        ),
    }
}

fn looks_like_error(line: &str) -> bool {
    // The host's own line on what it cut itself has both numbers and must stay.
    if line.starts_with("[cut: ") {
        return true;
    }
    let lower = line.to_ascii_lowercase();
    ["error", "exception", "traceback", "panicked", "fatal", "failed", "assertion", "undefined reference"]
        .iter()
        .any(|mark| lower.contains(mark))
        && !["0 failed", "0 errors", "no errors"].iter().any(|fine| lower.contains(fine))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(count: usize) -> String {
        (1..=count).map(|at| format!("line {at}\n")).collect()
    }

    #[test]
    fn short_output_is_left_alone() {
        assert_eq!(fold("ls", "", MAX_LINES), None);
        assert_eq!(fold("ls", &numbered(MAX_LINES), MAX_LINES), None);
        // The line of the host does not count.
        assert_eq!(fold("ls", &format!("exit code 0\n{}", numbered(MAX_LINES)), MAX_LINES), None);
    }

    #[test]
    fn a_setting_stands_in_for_the_parameter() {
        assert_eq!(fold("ls", &numbered(50), 50), None);
        assert!(fold("ls", &numbered(51), 50).is_some_and(|folded| folded.contains("[lines 21 to 26 of 51")));
        assert_eq!(fold("ls", &numbered(200), 200), None);
    }

    #[test]
    fn head_tail_and_numbers_of_the_rest_are_shown() {
        let folded = fold("make", &format!("exit code 0\n{}", numbered(200)), MAX_LINES).unwrap();
        let lines: Vec<&str> = folded.lines().collect();
        assert_eq!(lines[0], "exit code 0");
        assert_eq!(lines[HEAD], format!("line {HEAD}"));
        assert_eq!(lines[HEAD + 1], "[lines 21 to 175 of 200 left out; none of them looks like an error]");
        assert_eq!(lines[HEAD + 2], "line 176");
        assert_eq!(
            lines.last().unwrap().split(':').next().unwrap(),
            "[to see more, add `> /tmp/out.txt 2>&1` to the command, then"
        );
        assert_eq!(lines.len(), 1 + HEAD + 1 + TAIL + 1);
    }

    #[test]
    fn errors_in_the_middle_are_kept_with_their_numbers() {
        let text = numbered(200).replace("line 90\n", "ValueError: 3\n");
        let folded = fold("cat log.txt", &text, MAX_LINES).unwrap();
        assert!(
            folded.contains("but for these:]\n90: ValueError: 3\n[the last 25 lines:]\nline 176"),
            "{folded}"
        );
        assert!(folded.ends_with("[to see more: sed -n '21,80p' log.txt]"), "{folded}");
        let many = fold("make", &"an error\n".repeat(200), MAX_LINES).unwrap();
        assert!(many.contains("[and 140 more like these]"), "{many}");
    }

    #[test]
    fn one_endless_line_is_cut() {
        let folded = fold("cat a.min.js", &"é".repeat(7_000), MAX_LINES).unwrap();
        assert!(folded.starts_with(&"é".repeat(LINE_CHARS)), "{folded}");
        assert!(folded.contains("… [6760 more characters]"), "{folded}");
        assert!(folded.ends_with("7000 characters in all]"), "{folded}");
    }
}
