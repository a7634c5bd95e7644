//! Corrects the form of a reply with the policy's own text put into the right form.
//!
//! For the text protocol. Watches replies that could not be parsed. Fires when the command can be
//! seen in the reply: in a block with another tag or none, in a block without its end, behind a
//! `$`, or in the first of several blocks; the policy then reads its own command in the one form
//! that runs. Also fires when a reply without a command says that the work is done, with the
//! command that hands in. Silent when no command is in sight, when a reply was cut off, and when
//! arguments of a tool are wrong, where the host's own text says more.
//!
//! Point: `on-format-error`. Grants: none.

use tandem_plugin::*;

/// Characters of a command that is quoted; a longer one is not.
const MAX_CHARS: usize = 1_500; // parameter
/// Say how to hand in when a reply says that the work is done.
const HAND_IN: bool = true; // parameter
/// The command that hands in.
const HAND_IN_COMMAND: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"; // parameter

pub struct Plugin;

impl OnFormatError for Plugin {
    fn on_format_error(_context: Context, error: FormatError, output: String) -> Option<String> {
        correction(error, &output)
    }
}

export_on_format_error!(Plugin);

fn correction(error: FormatError, output: &str) -> Option<String> {
    let blocks = blocks(output);
    let (command, why) = match error {
        FormatError::SeveralActions => {
            let first = blocks.iter().find(|block| block.tag == "bash")?;
            (
                first.body.clone(),
                "Your reply has several blocks; only one can run. Run the first one alone, and the next in your next reply:",
            )
        }
        FormatError::NoAction => match blocks.iter().find(|block| is_shell(&block.tag)) {
            // Closed and with the right tag it would have run: this is another protocol.
            Some(block) if block.closed && block.tag == "bash" => return None,
            Some(block) if !block.closed => {
                (block.body.clone(), "Your block has no closing fence. Write it so:")
            }
            Some(block) => {
                (without_prompt(&block.body), "Only a block with the tag `bash` runs. Write it so:")
            }
            None => match prompted(output) {
                Some(command) => (command, "Nothing runs outside a block. Write it so:"),
                None if HAND_IN && says_done(output) => (
                    HAND_IN_COMMAND.to_owned(),
                    "Saying that it is done does not hand in. If the fix is in the files, hand in with:",
                ),
                None => return None,
            },
        },
        _ => return None,
    };
    let command = command.trim_matches('\n');
    if command.trim().is_empty() || command.chars().count() > MAX_CHARS || command.contains("```") {
        return None;
    }
    Some(format!("{why}\n\n```bash\n{command}\n```"))
}

#[derive(Debug, PartialEq)]
struct Block {
    tag: String,
    body: String,
    closed: bool,
}

/// The fenced blocks of a reply, in order.
fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for line in text.lines() {
        let fence = line.trim().strip_prefix("```");
        match (&mut open, fence) {
            (Some(block), Some("")) => {
                block.closed = true;
                found.extend(open.take());
            }
            (Some(block), _) => {
                block.body.push_str(line);
                block.body.push('\n');
            }
            (None, Some(tag)) => {
                open =
                    Some(Block { tag: tag.trim().to_ascii_lowercase(), body: String::new(), closed: false });
            }
            (None, None) => {}
        }
    }
    found.extend(open);
    found
}

fn is_shell(tag: &str) -> bool {
    matches!(
        tag,
        "" | "bash" | "sh" | "shell" | "console" | "terminal" | "zsh" | "cmd" | "shell-session" | "text"
    )
}

/// The commands without the prompt that people put before them in examples.
fn without_prompt(body: &str) -> String {
    let prompts = body.lines().any(|line| line.starts_with("$ "));
    if !prompts {
        return body.to_owned();
    }
    // What has no prompt is output.
    body.lines().filter_map(|line| line.strip_prefix("$ ")).collect::<Vec<_>>().join("\n")
}

/// A command behind a `$` in the running text, or in a line of single back quotes.
fn prompted(text: &str) -> Option<String> {
    text.lines().map(str::trim).find_map(|line| {
        let quoted =
            line.strip_prefix('`').and_then(|line| line.strip_suffix('`')).filter(|line| !line.contains('`'));
        line.strip_prefix("$ ").or(quoted).map(str::to_owned)
    })
}

fn says_done(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    [
        "is fixed",
        "is done",
        "i am done",
        "i'm done",
        "is complete",
        "completed the",
        "have fixed",
        "has been fixed",
        "submit",
        "finished",
    ]
    .iter()
    .any(|phrase| lower.contains(phrase))
        && !["not fixed", "not done", "not finished", "not complete"]
            .iter()
            .any(|phrase| lower.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: FormatError, output: &str, expected: Option<&str>) {
        let found = correction(error, output);
        let command = found
            .as_deref()
            .and_then(|text| text.split_once("```bash\n"))
            .map(|(_, rest)| rest.trim_end_matches("\n```"));
        assert_eq!(command, expected, "{output}");
    }

    #[test]
    fn the_command_is_put_into_the_right_form() {
        check(FormatError::NoAction, "I look.\n```sh\nls -la\n```", Some("ls -la"));
        check(FormatError::NoAction, "```\nls\npwd\n```", Some("ls\npwd"));
        check(FormatError::NoAction, "```console\n$ ls\na.py\n$ pwd\n```", Some("ls\npwd"));
        check(FormatError::NoAction, "```bash\nls", Some("ls"));
        check(FormatError::NoAction, "Run this:\n$ ls a", Some("ls a"));
        check(FormatError::NoAction, "Next:\n`cat a.py`", Some("cat a.py"));
        check(FormatError::NoAction, "The bug is fixed now.", Some(HAND_IN_COMMAND));
        check(FormatError::SeveralActions, "```bash\nls\n```\n```bash\npwd\n```", Some("ls"));
    }

    #[test]
    fn without_a_command_the_text_of_the_host_stands() {
        check(FormatError::NoAction, "I will think about it.", None);
        check(FormatError::NoAction, "It is not fixed yet.", None);
        check(FormatError::NoAction, "```python\nprint(1)\n```", None);
        check(FormatError::NoAction, "```bash\nls\n```", None);
        check(FormatError::NoAction, "```sh\n```", None);
        check(FormatError::CutOff, "```bash\ncat <<E", None);
        check(FormatError::BadArguments, "```edit\nx\n```", None);
        check(FormatError::UnknownTool, "$ ls", None);
        check(FormatError::NoAction, &format!("```sh\n{}\n```", "x".repeat(MAX_CHARS + 1)), None);
    }
}
