//! `tandem plugin wrap`: how does a command hook that a team has already run in a harness? As a plugin
//! that runs it in the workspace's sandbox, marked as trusted wherever it is shown.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use tandem_host::forge::{Provenance, Source};

use super::source::build;
use crate::cli::Exit;

/// Bytes of a program that goes with the plugin: one argument of a program holds no more than 128 KiB.
const PROGRAM_BYTES: usize = 100_000;
const TEMPLATE: &str = include_str!("templates/wrapped.rs.template");

#[derive(Args)]
pub struct WrapArguments {
    /// The command, as the settings of Claude Code have it. A file that it is goes with the plugin;
    /// programs that it calls are those of the sandbox.
    command: String,
    /// An event that it is for: PreToolUse, PostToolUse, PostToolUseFailure, UserPromptSubmit or Stop.
    #[arg(long = "event", value_name = "EVENT", required = true)]
    events: Vec<Event>,
    /// How long it may take.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// The component to write.
    #[arg(short, long)]
    output: PathBuf,
}

/// An event of Claude Code that has a hook point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Event {
    PreToolUse,
    PostToolUse,
    PostToolUseFailure,
    UserPromptSubmit,
    Stop,
}

pub async fn run(arguments: WrapArguments) -> Result<Exit> {
    let program = program(&arguments.command)?;
    let runs = match &program {
        Some(_) => arguments.command.trim().to_owned(),
        None => arguments.command.clone(),
    };
    let text = source(&runs, program.as_deref().unwrap_or_default(), &arguments);
    let built = match build(Source::File { name: "wrapped.rs".into(), text }).await? {
        Ok(built) => built,
        Err(refused) => {
            eprintln!("error: {refused}");
            return Ok(Exit::No);
        }
    };
    let output = &arguments.output;
    let beside = Provenance::path_beside(output);
    let provenance = serde_json::to_string_pretty(&built.provenance)? + "\n";
    for (path, bytes) in [(output, built.component.as_slice()), (&beside, provenance.as_bytes())] {
        fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    println!("{}: {} bytes, {}", output.display(), built.component.len(), built.provenance.component);
    let settings = serde_json::json!({"trusted": true, "runs": runs}).to_string();
    println!(
        "It runs `{runs}` in the sandbox of the workspace. It is trusted: nobody checked what that does."
    );
    println!("A harness takes it only with these words:");
    println!(
        "  tandem harness add NAME {} --grant exec --settings '{}' --reason TEXT",
        output.display(),
        settings.replace('\'', "'\\''")
    );
    Ok(Exit::Done)
}

/// The text of the program, where the command is a file of this machine and nothing else.
fn program(command: &str) -> Result<Option<String>> {
    let path = Path::new(command.trim());
    if !path.is_file() {
        return Ok(None);
    }
    let bytes = fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    if bytes.len() > PROGRAM_BYTES {
        bail!(
            "{} has {} bytes, and a program that goes with a plugin has at most {PROGRAM_BYTES}\nhelp: put it into the image or the folder of the workspace, and wrap the command that calls it there",
            path.display(),
            bytes.len()
        );
    }
    let text = String::from_utf8(bytes).ok().filter(|text| text.starts_with("#!"));
    let text = text.with_context(|| {
        format!(
            "{} is no script that begins with `#!`\nhelp: wrap a script, or the command that calls it",
            path.display()
        )
    })?;
    Ok(Some(text))
}

fn source(command: &str, program: &str, arguments: &WrapArguments) -> String {
    let mut events = arguments.events.clone();
    events.sort();
    events.dedup();
    let has = |event| events.contains(&event);
    let mut text = TEMPLATE
        .replace("__MILLISECONDS__", &(arguments.seconds * 1000).to_string())
        .replace("__COMMAND__", &literal(command))
        .replace("__PROGRAM__", &literal(program));
    if has(Event::PreToolUse) {
        text += PRE_TOOL_USE;
    }
    if has(Event::PostToolUse) || has(Event::PostToolUseFailure) {
        let wanted = |event| if has(event) { "true" } else { "false" };
        text += &POST_TOOL_USE
            .replace("__AFTER_SUCCESS__", wanted(Event::PostToolUse))
            .replace("__AFTER_FAILURE__", wanted(Event::PostToolUseFailure));
    }
    if has(Event::UserPromptSubmit) {
        text += USER_PROMPT_SUBMIT;
    }
    if has(Event::Stop) {
        text += STOP;
    }
    text
}

/// A text as Rust writes it.
fn literal(text: &str) -> String {
    let escaped: String = text
        .chars()
        .map(|letter| match letter {
            '"' | '\\' => format!("\\{letter}"),
            ' '..='~' => letter.to_string(),
            _ => format!("\\u{{{:x}}}", u32::from(letter)),
        })
        .collect();
    format!("\"{escaped}\"")
}

const PRE_TOOL_USE: &str = r#"
impl OnToolCall for Plugin {
    fn on_tool_call(_context: Context, call: ToolCall) -> Option<ToolCallEffect> {
        let said = ask("PreToolUse", &tool(&call))?;
        match (said.block, said.input) {
            (Some(reason), _) => Some(ToolCallEffect::Refuse(reason)),
            (None, Some(input)) if call.name == "bash" => {
                let command = input.get("command")?.as_str()?;
                Some(ToolCallEffect::Rewrite(format!("{{\"command\":{}}}", quote(command))))
            }
            (None, Some(input)) => Some(ToolCallEffect::Rewrite(input.to_string())),
            (None, None) => None,
        }
    }
}

export_on_tool_call!(Plugin);
"#;

const POST_TOOL_USE: &str = r#"
impl OnToolResult for Plugin {
    fn on_tool_result(_context: Context, call: ToolCall, outcome: ToolResult) -> Option<ToolResultEffect> {
        let failed = outcome.status != ToolStatus::Finished || outcome.exit_code.is_some_and(|code| code != 0);
        if outcome.status == ToolStatus::Refused || !(if failed { __AFTER_FAILURE__ } else { __AFTER_SUCCESS__ }) {
            return None;
        }
        let text = cut(&outcome.text);
        let said = if failed {
            let error = match outcome.exit_code {
                Some(code) => format!("Exit code {code}\n{text}"),
                None => text.to_owned(),
            };
            let interrupted = outcome.status == ToolStatus::TimedOut;
            let fields = format!(",\"error\":{},\"is_interrupt\":{interrupted}", quote(&error));
            ask("PostToolUseFailure", &(tool(&call) + &fields))?
        } else {
            let response = match call.name.as_str() {
                "bash" => format!("{{\"stdout\":{},\"stderr\":\"\",\"interrupted\":false}}", quote(text)),
                _ => quote(text),
            };
            ask("PostToolUse", &(tool(&call) + &format!(",\"tool_response\":{response}")))?
        };
        match (said.output, said.block.or(said.context)) {
            (Some(text), _) => Some(ToolResultEffect::Replace(text)),
            (None, Some(text)) => Some(ToolResultEffect::Annotate(text)),
            (None, None) => None,
        }
    }
}

export_on_tool_result!(Plugin);
"#;

const USER_PROMPT_SUBMIT: &str = r#"
impl OnEpisodeStart for Plugin {
    fn on_episode_start(_context: Context, instruction: String) -> Option<String> {
        ask("UserPromptSubmit", &format!(",\"prompt\":{}", quote(cut(&instruction))))?.context
    }
}

export_on_episode_start!(Plugin);
"#;

const STOP: &str = r#"
impl OnSubmit for Plugin {
    fn on_submit(_context: Context, submission: Submission) -> Option<String> {
        ask("Stop", &format!(",\"stop_hook_active\":{}", submission.deferrals > 0))?.block
    }
}

export_on_submit!(Plugin);
"#;

#[cfg(test)]
mod tests {
    use super::literal;

    #[test]
    fn any_text_is_one_literal() {
        let check = |text: &str, expected: &str| assert_eq!(literal(text), expected);
        check("a b", "\"a b\"");
        check("\"; panic!(\"", "\"\\\"; panic!(\\\"\"");
        check("a\\\nü", "\"a\\\\\\u{a}\\u{fc}\"");
    }
}
