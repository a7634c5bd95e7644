//! What is the policy told, from the templates of the harness?

use minijinja::{Environment, UndefinedBehavior, context};
use serde_json::{Value, json};

use super::actions::{BASH, Malformed};
use super::observation::status_name;
use super::prompt_language::HARNESS_LANGUAGE;
use crate::harness::{
    FINISH, FormatError, HandIn, Limits, Prompts, Protocol, Shell, ToolDefinition, ToolResult,
};

/// A template of the harness that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the prompt `{name}` of the harness cannot be used: {reason}\nhelp: prompts are minijinja templates")]
pub struct TemplateError {
    /// As the manifest has it.
    pub name: &'static str,
    pub reason: String,
}

/// Bytes of a rendered prompt beyond twice those of the values in it.
const MOST_BYTES: usize = 256 << 10;

/// The templates of one harness.
pub(super) struct Templates {
    environment: Environment<'static>,
    limits: Limits,
}

impl Templates {
    pub(super) fn new(prompts: &Prompts, limits: &Limits) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // A template may come from a stranger or a model: it may loop, an episode must not. Nothing is
        // loaded from files, since no loader is set, what is written is counted in `render`, and nothing in
        // it makes a text longer.
        environment.set_fuel(Some(1_000_000));
        for (name, text) in [
            ("system", &prompts.system),
            ("instance", &prompts.instance),
            ("observation", &prompts.observation),
            ("format_error", &prompts.format_error),
        ] {
            let wrong = |reason: String| TemplateError { name, reason };
            // What is no template at all is told first, with its line.
            environment.add_template_owned(name, text.clone()).map_err(|error| wrong(error.to_string()))?;
            HARNESS_LANGUAGE
                .tags(text)
                .map_err(|what| wrong(format!("it has {what}, by which a text could grow without end")))?;
        }
        Ok(Self { environment, limits: limits.clone() })
    }

    pub(super) fn system(&self) -> Result<String, TemplateError> {
        self.render("system", 0, context! { limits => self.limits })
    }

    pub(super) fn instance(&self, instruction: &str) -> Result<String, TemplateError> {
        let values = context! { limits => self.limits, instruction => instruction };
        self.render("instance", instruction.len(), values)
    }

    /// `result.text` is already cut.
    pub(super) fn observation(&self, result: &ToolResult) -> Result<String, TemplateError> {
        self.render(
            "observation",
            result.text.len(),
            context! {
                limits => self.limits,
                text => result.text,
                exit_code => result.exit_code,
                status => status_name(result.status),
            },
        )
    }

    pub(super) fn format_error(
        &self,
        malformed: &Malformed,
        max_tokens: usize,
    ) -> Result<String, TemplateError> {
        let kind = match malformed.kind {
            FormatError::NoAction => "no-action",
            FormatError::SeveralActions => "several-actions",
            FormatError::UnknownTool => "unknown-tool",
            FormatError::BadArguments => "bad-arguments",
            FormatError::CutOff => "cut-off",
        };
        self.render(
            "format_error",
            malformed.sentence.len(),
            context! {
                limits => self.limits,
                error => malformed.sentence,
                kind => kind,
                actions => malformed.actions,
                max_tokens => max_tokens,
            },
        )
    }

    /// `given` are the bytes of the values that the template sees.
    fn render(
        &self,
        name: &'static str,
        given: usize,
        values: minijinja::Value,
    ) -> Result<String, TemplateError> {
        let wrong = |reason: String| TemplateError { name, reason };
        let template = self.environment.get_template(name).map_err(|error| wrong(error.to_string()))?;
        let limit = MOST_BYTES.saturating_add(given.saturating_mul(2));
        let mut text = Bounded { bytes: Vec::new(), limit, is_full: false };
        match template.render_captured_to(values, &mut text) {
            Err(_) if text.is_full => Err(wrong(format!("it writes more than {limit} bytes"))),
            Err(error) => Err(wrong(error.to_string())),
            Ok(_) => String::from_utf8(text.bytes).map_err(|error| wrong(error.to_string())),
        }
    }
}

/// Takes so many bytes and no more.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    is_full: bool,
}

impl std::io::Write for Bounded {
    fn write(&mut self, new: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + new.len() > self.limit {
            self.is_full = true;
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        self.bytes.extend_from_slice(new);
        Ok(new.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// How the text protocol calls a plugin's tools; nothing if there are none.
pub(super) fn tool_section(limits: &Limits, tools: &[ToolDefinition]) -> Option<String> {
    let tools: Vec<_> = tools.iter().cloned().chain(finish_tool(limits)).collect();
    let first = &tools.first()?.name;
    if limits.protocol == Protocol::Tools {
        return None;
    }
    let mut text = format!(
        "Instead of `bash`, a block may name one of these tools and hold its arguments as a JSON object, \
         like ```{first}\n"
    );
    for tool in &tools {
        let schema = &tool.input_schema;
        text.push_str(&format!("\n- `{}`: {} Arguments: {schema}", tool.name, tool.description.trim()));
    }
    Some(text)
}

/// The tools that the native protocol offers, in the OpenAI function shape.
pub(super) fn offered(limits: &Limits, tools: &[ToolDefinition]) -> Vec<Value> {
    if limits.protocol == Protocol::Text {
        return Vec::new();
    }
    let function = |name: &str, description: &str, parameters: &Value| {
        let function = json!({"name": name, "description": description, "parameters": parameters});
        json!({"type": "function", "function": function})
    };
    let bash = json!({
        "type": "object",
        "properties": {"command": {"type": "string", "description": "The command to run."}},
        "required": ["command"],
    });
    let told = match limits.shell {
        Shell::New => "Runs a command in a new bash in the repository's folder.",
        Shell::Kept => {
            "Runs a command in bash. The folder, variables and functions stay as the command leaves them; \
             processes do not go on."
        }
    };
    let own = function(BASH, told, &bash);
    let finish = finish_tool(limits);
    let others = tools.iter().chain(&finish);
    let others = others.map(|tool| function(&tool.name, &tool.description, &tool.input_schema));
    std::iter::once(own).chain(others).collect()
}

/// The host's own tool that hands in, where the harness has it.
fn finish_tool(limits: &Limits) -> Option<ToolDefinition> {
    (limits.hand_in == HandIn::Finish).then(|| ToolDefinition {
        name: FINISH.into(),
        description: "Hands in the work as the files are now. Nothing can be changed after it.".into(),
        input_schema: json!({
            "type": "object",
            "properties": {"message": {"type": "string", "description": "What was done."}},
        }),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::harness::ToolStatus;

    fn templates(protocol: Protocol) -> Templates {
        Templates::new(&Prompts::default(), &Limits { protocol, ..Limits::default() }).unwrap()
    }

    #[test]
    fn observations_say_how_a_command_ended() {
        let check = |status, exit_code, text: &str, expected: &str| {
            let result = ToolResult { status, exit_code, text: text.into(), raw_bytes: 0 };
            assert_eq!(templates(Protocol::Text).observation(&result).unwrap(), expected);
        };
        check(ToolStatus::Finished, Some(0), "a\nb", "exit code 0\na\nb");
        check(ToolStatus::Finished, Some(1), "", "exit code 1\n");
        check(ToolStatus::TimedOut, None, "half", "stopped after 60 seconds\nhalf");
        check(ToolStatus::Finished, None, "from a tool", "from a tool");
        check(ToolStatus::Failed, None, "no such file", "failed\nno such file");
        check(ToolStatus::Refused, None, "not this", "refused\nnot this");
    }

    #[test]
    fn each_format_error_has_its_own_text() {
        let check = |protocol, kind, actions, sentence: &str, expected: Expect| {
            let malformed = Malformed { kind, actions, sentence: sentence.into() };
            expected.assert_eq(&templates(protocol).format_error(&malformed, 256).unwrap());
        };
        check(
            Protocol::Text,
            FormatError::NoAction,
            0,
            "",
            expect![[r#"
            Your reply has 0 fenced bash blocks; exactly one is needed. Write one command like this:

            ```bash
            the command
            ```"#]],
        );
        check(
            Protocol::Text,
            FormatError::NoAction,
            1,
            "The block has no closing fence.",
            expect![[r#"
            Your reply has 1 fenced bash block; exactly one is needed. The block has no closing fence. Write one command like this:

            ```bash
            the command
            ```"#]],
        );
        check(
            Protocol::Text,
            FormatError::SeveralActions,
            2,
            "",
            expect![[r#"
            Your reply has 2 fenced bash blocks; exactly one is needed. Write one command like this:

            ```bash
            the command
            ```"#]],
        );
        check(
            Protocol::Text,
            FormatError::CutOff,
            1,
            "",
            expect![[r#"
                Your reply was cut off at 256 tokens. Write a short thought and one command like this:

                ```bash
                the command
                ```"#]],
        );
        check(
            Protocol::Text,
            FormatError::BadArguments,
            1,
            "`edit` takes a JSON object.",
            expect![[r#"
            Your reply has 1 fenced bash block; exactly one is needed. `edit` takes a JSON object. Write one command like this:

            ```bash
            the command
            ```"#]],
        );
        check(
            Protocol::Tools,
            FormatError::NoAction,
            0,
            "",
            expect!["Your reply calls no tool. Call a tool."],
        );
        check(
            Protocol::Tools,
            FormatError::UnknownTool,
            1,
            "There is no tool `x`.",
            expect!["There is no tool `x`. Call a tool."],
        );
    }

    #[test]
    fn a_template_that_is_none_is_told_by_name() {
        let prompts = Prompts { observation: "{{ text".into(), ..Prompts::default() };
        let error = Templates::new(&prompts, &Limits::default()).err().map(|error| error.to_string());
        assert!(
            error.unwrap_or_default().starts_with("the prompt `observation` of the harness cannot be used")
        );
        let prompts = Prompts { instance: "{{ reward }}".into(), ..Prompts::default() };
        let templates = Templates::new(&prompts, &Limits::default()).unwrap();
        assert!(templates.instance("x").unwrap_err().to_string().contains("`instance`"));
    }

    #[test]
    fn a_template_that_writes_without_end_is_stopped() {
        let check = |observation: &str, expected: &str| {
            let prompts = Prompts { observation: observation.into(), ..Prompts::default() };
            let (status, text) = (ToolStatus::Finished, "x".repeat(1000));
            let result = ToolResult { status, exit_code: Some(0), text, raw_bytes: 0 };
            let templates = Templates::new(&prompts, &Limits::default());
            let error = templates.and_then(|templates| templates.observation(&result)).unwrap_err();
            assert!(error.reason.contains(expected), "{observation}: {}", error.reason);
        };
        check("{% for a in range(9999) %}{{ text }}{% endfor %}", "it writes more than 264144 bytes");
        check("{{ text * 9999 }}", "it has `*` in a tag, by which");
        check("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "fuel");
        check("{% include '/etc/passwd' %}", "it has the statement `include`");
    }

    #[test]
    fn tools_are_told_in_the_way_of_the_protocol() {
        let tool = ToolDefinition {
            name: "edit".into(),
            description: "Edits a file.".into(),
            input_schema: json!({"type": "object"}),
        };
        let tools = [tool];
        let text = Limits::default();
        let native = Limits { protocol: Protocol::Tools, ..Limits::default() };
        expect![[r#"
            Instead of `bash`, a block may name one of these tools and hold its arguments as a JSON object, like ```edit

            - `edit`: Edits a file. Arguments: {"type":"object"}"#]].assert_eq(&tool_section(&text, &tools).unwrap());
        assert_eq!(tool_section(&text, &[]), None);
        assert_eq!(tool_section(&native, &tools), None);
        let names = |limits: &Limits| -> Vec<Value> {
            offered(limits, &tools).iter().map(|tool| tool["function"]["name"].clone()).collect()
        };
        assert_eq!(names(&native), ["bash", "edit"]);
        assert!(names(&text).is_empty());
        let finish = Limits { hand_in: HandIn::Finish, ..native };
        assert_eq!(names(&finish), ["bash", "edit", "finish"]);
        let finish = Limits { hand_in: HandIn::Finish, ..text };
        assert!(tool_section(&finish, &[]).unwrap().contains("like ```finish"));
    }
}
