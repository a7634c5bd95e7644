//! Refuses `rm -r` of everything, names failing tests, and gives the tool `head`.
//!
//! Exports: `on-tool-call`, `on-tool-result`, `tools`.
//! Grants: `workspace-read`.

use tandem_plugin::workspace::WorkspaceError;
use tandem_plugin::*;

pub struct Plugin;

const EVERYTHING: [&str; 10] = ["/", "/*", "~", "~/", "$HOME", "$HOME/", ".", "./", "..", "*"];

impl OnToolCall for Plugin {
    fn on_tool_call(_context: Context, call: ToolCall) -> Option<ToolCallEffect> {
        let line = call.command()?;
        let target = line.split([';', '&', '|', '\n']).find_map(deletes_everything)?;
        Some(ToolCallEffect::Refuse(format!(
            "`rm -r` of `{target}` would delete what the task needs; name the folder that you mean"
        )))
    }
}

export_on_tool_call!(Plugin);

/// The first target that is everything, of an `rm` that deletes folders.
fn deletes_everything(command: &str) -> Option<&str> {
    let mut words = command.split([' ', '\t']).filter(|word| !word.is_empty());
    let mut program = words.next()?;
    if program == "sudo" {
        program = words.next()?;
    }
    if program != "rm" && !program.ends_with("/rm") {
        return None;
    }
    let (flags, targets): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with('-'));
    let recursive =
        flags.iter().any(|flag| *flag == "--recursive" || !flag.starts_with("--") && flag.contains(['r', 'R']));
    targets.into_iter().find(|target| recursive && EVERYTHING.contains(target))
}

impl OnToolResult for Plugin {
    fn on_tool_result(
        _context: Context,
        call: ToolCall,
        outcome: ToolResult,
    ) -> Option<ToolResultEffect> {
        let failed = outcome.exit_code.is_some_and(|code| code != 0);
        if call.name != "bash" || outcome.status != ToolStatus::Finished || !failed {
            return None;
        }
        let names: Vec<&str> = outcome.text.split('\n').filter_map(failed_test).collect();
        let text = match names.as_slice() {
            [] => return None,
            [one] => format!("1 test fails: {one}"),
            [first, ..] => format!("{} tests fail; the first is {first}", names.len()),
        };
        Some(ToolResultEffect::Annotate(text))
    }
}

export_on_tool_result!(Plugin);

/// The name in a line of pytest's summary, without the reason behind it.
fn failed_test(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("FAILED ")?;
    let name = rest.split(" - ").next().unwrap_or(rest).trim_matches([' ', '\t', '\r']);
    (!name.is_empty()).then_some(name)
}

impl Tools for Plugin {
    fn definitions() -> Vec<ToolDefinition> {
        vec![ToolDefinition {
            name: "head".into(),
            description: "Shows the first lines of a file, with their numbers.".into(),
            input_schema: concat!(
                r#"{"type":"object","properties":{"path":{"type":"string","description":"relative to the workspace"},"#,
                r#""lines":{"type":"integer","minimum":1,"maximum":200,"description":"10 unless given"}},"#,
                r#""required":["path"],"additionalProperties":false}"#
            )
            .into(),
        }]
    }

    fn call(_context: Context, name: String, arguments: String) -> ToolOutput {
        if name != "head" {
            return ToolOutput::error(format!("there is no tool {name}"));
        }
        let arguments = json::parse(&arguments).unwrap_or(json::Value::Null);
        let Some(path) = arguments.get("path").and_then(json::Value::as_str) else {
            return ToolOutput::error("`path` is missing: name a file of the workspace");
        };
        let Some(wanted) = wanted_lines(arguments.get("lines")) else {
            return ToolOutput::error("`lines` must be a whole number from 1 to 200");
        };
        let text = match workspace::read(path).map(String::from_utf8) {
            Ok(Ok(text)) => text,
            Ok(Err(_)) => return ToolOutput::error(format!("{path} is not UTF-8 text")),
            Err(WorkspaceError::NotFound(_)) => return ToolOutput::error(format!("{path} does not exist")),
            Err(_) => return ToolOutput::error(format!("{path} cannot be read")),
        };
        if text.is_empty() {
            return ToolOutput::text(format!("{path} is empty"));
        }
        let lines = text.strip_suffix('\n').unwrap_or(&text).split('\n').take(wanted);
        let shown: Vec<String> = lines.enumerate().map(|(at, line)| format!("{}\t{line}", at + 1)).collect();
        let structured = Some(format!("{{\"lines\":{}}}", shown.len()));
        ToolOutput { structured, ..ToolOutput::text(shown.join("\n")) }
    }
}

export_tools!(Plugin);

/// 10 unless given; none for what is no whole number from 1 to 200.
fn wanted_lines(given: Option<&json::Value>) -> Option<usize> {
    match given {
        None => Some(10),
        Some(json::Value::Number(number)) if number.fract() == 0.0 && (1.0..=200.0).contains(number) => {
            Some(*number as usize)
        }
        Some(_) => None,
    }
}
