//! The tool `think`: a place for a thought that is followed by no command.
//!
//! Answers when the policy calls it, with one line; it reads and changes nothing. In the protocol of
//! tools every reply has to call one, and a policy that only wants to think would call a command.
//!
//! Interface: `tools`. Grants: none.

use tandem_plugin::json::Value;
use tandem_plugin::*;

const DESCRIPTION: &str = "Write a thought down: a plan, what a result means, which of several causes is likely. \
    Nothing is run and nothing is changed."; // parameter

const SCHEMA: &str = r#"{"type":"object","properties":{
"thought":{"type":"string","description":"the thought"}},
"required":["thought"]}"#;

pub struct Plugin;

impl Tools for Plugin {
    fn definitions() -> Vec<ToolDefinition> {
        vec![ToolDefinition {
            name: "think".into(),
            description: DESCRIPTION.into(),
            input_schema: SCHEMA.into(),
        }]
    }

    fn call(_context: Context, _name: String, arguments: String) -> ToolOutput {
        match answer(&arguments) {
            Ok(text) => ToolOutput::text(text),
            Err(text) => ToolOutput::error(text),
        }
    }
}

export_tools!(Plugin);

fn answer(arguments: &str) -> Result<&'static str, String> {
    let value = json::parse(arguments).map_err(|error| format!("The arguments are {error}."))?;
    match value.get("thought").and_then(Value::as_str).map(str::trim) {
        Some("") | None => Err("`thought` is missing: write the thought there.".into()),
        Some(_) => Ok("Noted."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thought_is_noted_and_its_absence_is_told() {
        assert_eq!(answer(r#"{"thought":"first the tests"}"#), Ok("Noted."));
        assert_eq!(answer("{}"), Err("`thought` is missing: write the thought there.".into()));
        assert_eq!(
            answer(r#"{"thought":"  "}"#),
            Err("`thought` is missing: write the thought there.".into())
        );
        assert!(answer("{").is_err());
    }
}
