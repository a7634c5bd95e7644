//! Is an answer what a case expects?
//!
//! - `"nothing"`: the plugin returned nothing (`on-limit`: it did not hand in).
//! - a table of `contains`, `lacks`, `starts`, `ends` (a text or a list of texts): a text of which
//!   all of that holds.
//! - another table: each of its keys is in the answer and holds what is expected of it. The
//!   answer of a tool has a further key `text`: all its texts together.
//! - a list: as long as the answer's, element by element.
//! - anything else: exactly this.

use serde_json::{Map, Value, json};

use crate::plugin::{HookPoint, LogLine};

const NOTHING: &str = "nothing";
const CONDITIONS: [&str; 4] = ["contains", "lacks", "starts", "ends"];

/// Whether a plugin that answers so has done nothing.
pub(super) fn is_nothing(point: HookPoint, expected: &Value) -> bool {
    expected == NOTHING || (point == HookPoint::OnLimit && expected == &json!(false))
}

/// What does not hold, as it goes on after "the answer"; none if all does.
pub(super) fn mismatch(point: HookPoint, expected: &Value, answer: &Value) -> Option<String> {
    let mut answer = answer.clone();
    if point == HookPoint::OnLimit && expected == NOTHING {
        return differs(&json!(false), &answer);
    }
    if point == HookPoint::Tools
        && let Some(fields) = answer.as_object_mut()
        && let Some(content) = fields.get("content").and_then(Value::as_array)
    {
        let texts: Vec<&str> = content.iter().filter_map(|block| block["text"].as_str()).collect();
        let text = texts.join("\n");
        fields.insert("text".to_owned(), json!(text));
    }
    differs(expected, &answer)
}

/// The same for the content of a file; none stands for a file that is not there.
pub(super) fn file_mismatch(expected: &Value, content: Option<&[u8]>) -> Option<String> {
    let content = content.map_or(Value::Null, |bytes| json!(String::from_utf8_lossy(bytes)));
    differs(expected, &content)
}

/// The same for everything that the plugin logged: its messages, one a line.
pub(super) fn log_mismatch(expected: &Value, log: &[LogLine]) -> Option<String> {
    let messages: Vec<_> = log.iter().map(|line| line.message.as_str()).collect();
    let logged = if messages.is_empty() { Value::Null } else { json!(messages.join("\n")) };
    differs(expected, &logged)
}

fn differs(expected: &Value, answer: &Value) -> Option<String> {
    match (expected, answer) {
        (Value::String(word), answer) if word == NOTHING => {
            (!answer.is_null()).then(|| format!("is {}, and nothing was expected", short(answer)))
        }
        (Value::Object(conditions), answer) if is_condition(conditions) => match answer.as_str() {
            Some(text) => conditions.iter().find_map(|(key, wanted)| unmet(key, wanted, text)),
            None => Some(format!("is {}, and a text was expected", short(answer))),
        },
        (Value::Object(fields), Value::Object(found)) => fields.iter().find_map(|(key, wanted)| {
            let found = found.get(key).unwrap_or(&Value::Null);
            differs(wanted, found).map(|what| format!("in `{key}` {what}"))
        }),
        (Value::Array(items), Value::Array(found)) if items.len() == found.len() => {
            items.iter().zip(found).find_map(|(wanted, found)| differs(wanted, found))
        }
        (expected, answer) => {
            (expected != answer).then(|| format!("is {}, expected {}", short(answer), short(expected)))
        }
    }
}

fn is_condition(fields: &Map<String, Value>) -> bool {
    !fields.is_empty() && fields.keys().all(|key| CONDITIONS.contains(&key.as_str()))
}

fn unmet(condition: &str, wanted: &Value, text: &str) -> Option<String> {
    let list = match wanted {
        Value::Array(items) => items.clone(),
        one => vec![one.clone()],
    };
    list.iter().find_map(|item| {
        let Some(part) = item.as_str() else {
            return Some(format!("cannot be compared: `{condition}` takes a text or texts, not {item}"));
        };
        let (holds, how) = match condition {
            "contains" => (text.contains(part), "does not contain"),
            "lacks" => (!text.contains(part), "contains"),
            "starts" => (text.starts_with(part), "does not start with"),
            _ => (text.ends_with(part), "does not end with"),
        };
        (!holds).then(|| format!("{how} {item}; it is {}", short(&json!(text))))
    })
}

/// A value short enough for a line of a report.
fn short(value: &Value) -> String {
    const CHARS: usize = 600;
    if value.is_null() {
        return NOTHING.to_owned();
    }
    let text = value.to_string();
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
