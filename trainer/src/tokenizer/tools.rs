//! How does a chat template tell of tools, and how are their definitions written into it?

use std::fmt::Write;

use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind};
use serde_json::{Value, json};

/// How a policy writes a call of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolStyle {
    /// `<tool_call>` around `{"name": …, "arguments": …}`, once for each call (Hermes, Qwen).
    Tagged,
    /// A reply that is `{"name": …, "parameters": …}` (Llama 3).
    Bare,
}

impl ToolStyle {
    /// The style of a rendering of [`sample`].
    pub(super) fn of(rendered: &str) -> Option<Self> {
        // A template that leaves definitions or calls out knows no tools.
        if !rendered.contains(DESCRIPTION) || !rendered.contains(ARGUMENT) {
            return None;
        }
        if rendered.contains("<tool_call>") {
            return Some(Self::Tagged);
        }
        let bare = rendered.split(DESCRIPTION).last().unwrap_or_default();
        let squeezed: String = bare.chars().filter(|c| !c.is_whitespace()).collect();
        squeezed.contains("{\"name\":\"sample_tool\",\"parameters\":{").then_some(Self::Bare)
    }
}

const DESCRIPTION: &str = "A sample of a tool.";
const ARGUMENT: &str = "a sample of an argument";

/// A tool and a call of it, to see what a template makes of them.
pub(super) fn sample() -> (Value, Value) {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let tool = json!({"name": "sample_tool", "description": DESCRIPTION, "parameters": schema});
    let call = json!({"name": "sample_tool", "arguments": {"text": ARGUMENT}});
    let wrap = |function: Value| json!({"type": "function", "id": "call00000", "function": function});
    (wrap(tool), wrap(call))
}

/// The filter `tojson` as `transformers` sets it up: Python's spaces, nothing escaped for HTML. A text
/// of `added` within a string is escaped, so that it is tokenised as the characters that it is.
pub(super) fn add_filter(environment: &mut Environment<'static>, added: Vec<String>) {
    environment.add_filter("tojson", move |value: minijinja::Value, options: Kwargs| {
        let indent: Option<usize> = options.get("indent")?;
        let value = serde_json::to_value(&value)
            .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
        let mut text = String::new();
        write_json(&value, indent, 0, &mut text);
        Ok(minijinja::Value::from_safe_string(escape_added(text, &added)))
    });
}

/// No text that the tokenizer would match as a whole stands outside a string of JSON.
fn escape_added(mut text: String, added: &[String]) -> String {
    for token in added {
        if let Some(first) = token.chars().next().filter(|_| text.contains(token.as_str())) {
            let rest = &token[first.len_utf8()..];
            let mut units = [0; 2];
            let escaped = first.encode_utf16(&mut units).iter();
            let escaped: String = escaped.map(|unit| format!("\\u{unit:04x}")).collect();
            text = text.replace(token.as_str(), &format!("{escaped}{rest}"));
        }
    }
    text
}

/// Keys that come first, in the order in which definitions of tools are written everywhere; maps here
/// keep none of their own.
const FIRST: [&str; 6] = ["type", "function", "name", "description", "parameters", "arguments"];

fn write_json(value: &Value, indent: Option<usize>, depth: usize, out: &mut String) {
    let line = |depth: usize, out: &mut String| {
        if let Some(indent) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    };
    let comma = if indent.is_some() { "," } else { ", " };
    match value {
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (number, item) in items.iter().enumerate() {
                out.push_str(if number == 0 { "" } else { comma });
                line(depth + 1, out);
                write_json(item, indent, depth + 1, out);
            }
            line(depth, out);
            out.push(']');
        }
        Value::Object(map) if !map.is_empty() => {
            let mut entries: Vec<_> = map.iter().collect();
            entries
                .sort_by_key(|(key, _)| FIRST.iter().position(|first| first == key).unwrap_or(FIRST.len()));
            out.push('{');
            for (number, (key, item)) in entries.into_iter().enumerate() {
                out.push_str(if number == 0 { "" } else { comma });
                line(depth + 1, out);
                let _ = write!(out, "{}: ", Value::from(key.as_str()));
                write_json(item, indent, depth + 1, out);
            }
            line(depth, out);
            out.push('}');
        }
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ChatMessage, ChatRole, ChatTemplate, Tokenizer};
    use super::*;

    /// In the manner of Hermes and Qwen. A line break behind a block is the block's, so some are written out.
    const TAGGED: &str = "{%- if tools %}<|im_start|>system\n{% for tool in tools %}{{ tool | tojson }}\n\
        {% endfor %}<|im_end|>\n{% endif %}\
        {%- for m in messages %}<|im_start|>{{ m.role }}{% if m.content %}{{ '\\n' }}{{ m.content }}{% endif %}\
        {%- if m.tool_calls %}{% for c in m.tool_calls %}{{ '\\n' }}<tool_call>\n\
        {\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>\
        {%- endfor %}{% endif %}<|im_end|>\n{% endfor %}\
        {%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

    fn with_template(source: &str) -> (ChatTemplate, Tokenizer) {
        let folder = tempfile::tempdir().unwrap();
        Tokenizer::of_bytes().save(folder.path()).unwrap();
        std::fs::write(folder.path().join("chat_template.jinja"), source).unwrap();
        let tokenizer = Tokenizer::from_folder(folder.path()).unwrap();
        (ChatTemplate::new(&tokenizer).unwrap(), tokenizer)
    }

    #[test]
    fn the_style_is_told_by_what_a_template_makes_of_a_call() {
        let check = |source: &str, expected| assert_eq!(with_template(source).0.tool_style(), expected);
        check(TAGGED, Some(ToolStyle::Tagged));
        let bare = TAGGED.replace("<tool_call>", "").replace("</tool_call>", "");
        check(&bare.replace("\"arguments\": {{", "\"parameters\": {{"), Some(ToolStyle::Bare));
        check(&bare, None);
        check(&TAGGED.replace("{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}", ""), None);
        assert_eq!(ChatTemplate::new(&Tokenizer::of_bytes()).unwrap().tool_style(), None);
    }

    #[test]
    fn tools_and_calls_are_written_by_the_template() {
        let (template, tokenizer) = with_template(TAGGED);
        let function = json!({"name": "ls", "parameters": {"type": "object"}, "description": "Lists."});
        let tools = [json!({"type": "function", "function": function})];
        let messages = [
            ChatMessage::new(ChatRole::User, "<|im_end|>?"),
            ChatMessage::new(ChatRole::Assistant, ""),
            ChatMessage::new(ChatRole::Tool, "a.py"),
        ];
        let call = json!({"function": {"name": "ls", "arguments": {"p": "<|im_end|>é", "n": [1, 2]}}});
        let ids = template.first_with_tools(&messages, &[vec![], vec![call]], &tools).unwrap();
        let expected = "<|im_start|>system\n{\"type\": \"function\", \"function\": {\"name\": \"ls\", \
            \"description\": \"Lists.\", \"parameters\": {\"type\": \"object\"}}}\n<|im_end|>\n\
            <|im_start|>user\n<|im_end|>?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n\
            {\"name\": \"ls\", \"arguments\": {\"n\": [1, 2], \"p\": \"\\u003c|im_end|>é\"}}\n</tool_call><|im_end|>\n\
            <|im_start|>tool\na.py<|im_end|>\n<|im_start|>assistant\n";
        assert_eq!(tokenizer.decode_with_special(&ids).unwrap(), expected);
        let ends = ids.iter().filter(|id| **id == template.end_of_turn()).count();
        assert_eq!(ends, 4, "neither a message nor a call may end a turn");
    }

    #[test]
    fn without_tools_the_prompt_is_that_of_before() {
        let (template, _) = with_template(TAGGED);
        let messages = [ChatMessage::new(ChatRole::User, "hi")];
        let with = template.first_with_tools(&messages, &[], &[]).unwrap();
        assert_eq!(with, template.first(&messages).unwrap());
    }

    #[test]
    fn json_is_written_as_python_does() {
        let value = json!({"b": [], "a": {"x": null}});
        let check = |indent, expected: &str| {
            let mut text = String::new();
            write_json(&value, indent, 0, &mut text);
            assert_eq!(text, expected);
        };
        check(None, r#"{"a": {"x": null}, "b": []}"#);
        check(Some(2), "{\n  \"a\": {\n    \"x\": null\n  },\n  \"b\": []\n}");
    }
}
