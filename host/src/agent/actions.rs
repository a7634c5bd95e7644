//! Which tool calls does a reply make?
//!
//! Text protocol: exactly one fenced block whose language tag is `bash`, holding
//! a command, or the name of a plugin's tool, holding its arguments as a JSON
//! object. Blocks with other tags are prose. Native protocol: one call or more.

use serde_json::{Value, json};

use crate::harness::{FormatError, Protocol};
use crate::policy::{FinishReason, Reply, ToolCall};

/// The tool that every harness has.
pub(super) const BASH: &str = "bash";

/// A reply that cannot be acted on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) kind: FormatError,
    /// How many actions were found.
    pub(super) actions: usize,
    /// What is wrong, for the policy: a sentence, or nothing where the count says it.
    pub(super) sentence: String,
}

/// The calls of a reply, in order; at least one.
pub(super) fn parse(
    protocol: Protocol,
    reply: &Reply,
    tools: &[String],
    turn: u32,
) -> Result<Vec<ToolCall>, Malformed> {
    let calls = match protocol {
        Protocol::Text => parse_text(reply, tools, turn).map(|call| vec![call]),
        Protocol::Tools => parse_native(reply, tools),
    };
    calls.map_err(|malformed| match reply.finish {
        // Whatever is wrong with half a reply, that it is half is what to say.
        FinishReason::Length => Malformed { kind: FormatError::CutOff, sentence: String::new(), ..malformed },
        FinishReason::Stop => malformed,
    })
}

fn parse_text(reply: &Reply, tools: &[String], turn: u32) -> Result<ToolCall, Malformed> {
    let found = blocks(&reply.text, tools);
    let actions = found.closed.len() + usize::from(found.open);
    let malformed = |kind, sentence: String| Err(Malformed { kind, actions, sentence });
    if found.open {
        return malformed(FormatError::NoAction, "The block has no closing fence.".into());
    }
    let [Block { tag, body, .. }] = &found.closed[..] else {
        let kind = if actions == 0 { FormatError::NoAction } else { FormatError::SeveralActions };
        return malformed(kind, String::new());
    };
    let arguments = if *tag == BASH {
        json!({ "command": body })
    } else {
        match serde_json::from_str::<Value>(body) {
            Ok(value) if value.is_object() => value,
            Ok(_) => return malformed(FormatError::BadArguments, format!("`{tag}` takes a JSON object.")),
            Err(error) => {
                let sentence = format!("`{tag}` takes a JSON object, and this is not JSON: {error}.");
                return malformed(FormatError::BadArguments, sentence);
            }
        }
    };
    Ok(ToolCall { id: format!("turn-{turn}"), name: (*tag).to_owned(), arguments })
}

/// The one call that a text makes by the text protocol, and where its block begins. `tools` are all
/// tools that there are; one named `bash` is called with a command.
///
/// None when the agent loop would answer such a reply with a format error, or the tool is none of `tools`.
pub fn text_call(text: &str, tools: &[String], finish: FinishReason) -> Option<(ToolCall, usize)> {
    let reply = Reply { text: text.to_owned(), finish, ..Reply::default() };
    let call = parse(Protocol::Text, &reply, tools, 1).ok()?.pop()?;
    let at = blocks(text, tools).closed.first()?.at;
    tools.contains(&call.name).then_some((call, at))
}

/// A fenced block.
struct Block<'a> {
    tag: &'a str,
    body: String,
    /// Where its opening fence begins in the text, bytes.
    at: usize,
}

/// The blocks of a text that are actions.
struct Blocks<'a> {
    /// Those that were closed.
    closed: Vec<Block<'a>>,
    /// Whether the text ends inside one.
    open: bool,
}

fn blocks<'a>(text: &'a str, tools: &[String]) -> Blocks<'a> {
    let mut closed = Vec::new();
    let mut inside: Option<(&str, usize, Vec<&str>)> = None;
    let mut start = 0;
    for whole in text.split_inclusive('\n') {
        let line = whole.strip_suffix('\n').map_or(whole, |line| line.strip_suffix('\r').unwrap_or(line));
        let fence = line.trim_end().strip_prefix("```");
        match (&mut inside, fence) {
            (Some(_), Some("")) => {
                let (tag, at, body) = inside.take().unwrap_or_default();
                closed.push(Block { tag, body: body.join("\n").trim().to_owned(), at });
            }
            (Some((_, _, body)), _) => body.push(line),
            (None, Some(tag)) => inside = Some((tag.trim(), start, Vec::new())),
            (None, None) => {}
        }
        start += whole.len();
    }
    let is_action = |tag: &str| tag == BASH || tools.iter().any(|tool| tool == tag);
    closed.retain(|block| is_action(block.tag));
    Blocks { closed, open: inside.is_some_and(|(tag, ..)| is_action(tag)) }
}

fn parse_native(reply: &Reply, tools: &[String]) -> Result<Vec<ToolCall>, Malformed> {
    let calls = &reply.tool_calls;
    let malformed = |kind, sentence: String| Err(Malformed { kind, actions: calls.len(), sentence });
    if calls.is_empty() {
        return malformed(FormatError::NoAction, String::new());
    }
    for call in calls {
        if call.name != BASH && !tools.contains(&call.name) {
            let known: Vec<_> = std::iter::once(BASH).chain(tools.iter().map(String::as_str)).collect();
            let sentence = format!("There is no tool `{}`; there is: {}.", call.name, known.join(", "));
            return malformed(FormatError::UnknownTool, sentence);
        }
        if let Some(sentence) = bad_arguments(call) {
            return malformed(FormatError::BadArguments, sentence);
        }
    }
    Ok(calls.clone())
}

/// What is wrong with the arguments of a call, if the host can tell.
pub(super) fn bad_arguments(call: &ToolCall) -> Option<String> {
    if !call.arguments.is_object() {
        return Some(format!("The arguments of `{}` are not a JSON object.", call.name));
    }
    if call.name == BASH && !call.arguments["command"].is_string() {
        return Some("`bash` takes one argument: `command`, a string.".into());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, finish: FinishReason, expected: Result<(&str, Value), (FormatError, usize)>) {
        let reply = Reply { text: text.into(), finish, ..Reply::default() };
        let found = parse(Protocol::Text, &reply, &["edit".to_owned()], 3);
        let found = found.map(|calls| (calls[0].name.clone(), calls[0].arguments.clone()));
        let found = found.map_err(|malformed| (malformed.kind, malformed.actions));
        let expected = expected.map(|(name, arguments)| (name.to_owned(), arguments));
        assert_eq!(found, expected, "{text}");
    }

    fn command(text: &str) -> Result<(&'static str, Value), (FormatError, usize)> {
        Ok(("bash", json!({ "command": text })))
    }

    #[test]
    fn one_block_is_one_action() {
        use FinishReason::{Length, Stop};
        check("I look.\n```bash\nls -la\n```", Stop, command("ls -la"));
        check("```bash\nls\n```\nand so on", Length, command("ls"));
        check("```bash  \na\n\n  b\n```  \n", Stop, command("a\n\n  b"));
        check("```bash\r\nls\r\n```\r\n", Stop, command("ls"));
        check("```bash\n```", Stop, command(""));
        check("```bash\n\n  ls  \n\n```", Stop, command("ls"));
        check("Like so:\n```python\nx\n```\n```bash\nls\n```", Stop, command("ls"));
        check("```edit\n{\"path\": \"a\"}\n```", Stop, Ok(("edit", json!({"path": "a"}))));
        check(
            "```bash\ncat > a.md <<'E'\n```python\nE\n```",
            Stop,
            command("cat > a.md <<'E'\n```python\nE"),
        );
    }

    #[test]
    fn anything_else_is_a_format_error() {
        use FinishReason::{Length, Stop};
        check("", Stop, Err((FormatError::NoAction, 0)));
        check("I am done.", Stop, Err((FormatError::NoAction, 0)));
        check("```\nls\n```", Stop, Err((FormatError::NoAction, 0)));
        check("```sh\nls\n```", Stop, Err((FormatError::NoAction, 0)));
        check("say ```bash\nls\n```", Stop, Err((FormatError::NoAction, 0)));
        check("```bash\nls", Stop, Err((FormatError::NoAction, 1)));
        check("```bash\nls\n```\n```bash\npwd\n```", Stop, Err((FormatError::SeveralActions, 2)));
        check("```bash\nls\n```\n```edit\n{}\n```", Stop, Err((FormatError::SeveralActions, 2)));
        check("a long thought", Length, Err((FormatError::CutOff, 0)));
        check("```bash\ncat <<E", Length, Err((FormatError::CutOff, 1)));
        check("```bash\nls\n```\n```bash\nls\n```", Length, Err((FormatError::CutOff, 2)));
        check("```edit\nnot json\n```", Stop, Err((FormatError::BadArguments, 1)));
        check("```edit\n[1]\n```", Stop, Err((FormatError::BadArguments, 1)));
    }

    #[test]
    fn a_call_of_a_text_is_told_with_its_place() {
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let tools = ["bash".to_owned(), "edit".to_owned()];
            let found = text_call(text, &tools, FinishReason::Stop);
            let found = found.map(|(call, at)| (call.name, text[..at].to_owned()));
            assert_eq!(found, expected.map(|(name, before)| (name.to_owned(), before.to_owned())), "{text}");
        };
        check("I look.\r\n```bash\nls\n```", Some(("bash", "I look.\r\n")));
        check("```python\nx\n```\n```edit\n{}\n```\n", Some(("edit", "```python\nx\n```\n")));
        check("I am done.", None);
        check("```bash\nls\n```\n```bash\npwd\n```", None);
        assert_eq!(text_call("```bash\nls\n```", &["edit".to_owned()], FinishReason::Stop), None);
    }

    #[test]
    fn native_calls_are_checked_before_any_runs() {
        let call = |name: &str, arguments: Value| ToolCall { id: "1".into(), name: name.into(), arguments };
        let check = |calls: Vec<ToolCall>, expected: Result<usize, FormatError>| {
            let reply = Reply { tool_calls: calls, ..Reply::default() };
            let found = parse(Protocol::Tools, &reply, &["edit".to_owned()], 1);
            assert_eq!(found.map(|calls| calls.len()).map_err(|malformed| malformed.kind), expected);
        };
        let good = call("bash", json!({"command": "ls"}));
        check(vec![good.clone(), call("edit", json!({}))], Ok(2));
        check(vec![], Err(FormatError::NoAction));
        check(vec![good.clone(), call("shell", json!({}))], Err(FormatError::UnknownTool));
        check(vec![good, call("bash", json!({"cmd": "ls"}))], Err(FormatError::BadArguments));
        check(vec![call("edit", json!("{broken"))], Err(FormatError::BadArguments));
    }
}
