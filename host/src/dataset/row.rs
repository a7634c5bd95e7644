//! What does a row hold? Fields by name, with errors that name row and field.

use serde_json::{Map, Value};

use super::error::DatasetError;

/// One row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// From 1, as people count lines.
    pub(super) number: usize,
    pub(super) fields: Map<String, Value>,
    /// The format it is read as, for errors.
    pub(super) format: &'static str,
}

impl Row {
    /// What people call it.
    pub(super) fn id(&self) -> String {
        let name = ["instance_id", "task_id", "commit_hash", "id"]
            .iter()
            .find_map(|field| self.fields.get(*field).and_then(Value::as_str));
        name.unwrap_or("no id").to_owned()
    }

    /// Whether a field is there and says something.
    pub(super) fn has(&self, field: &str) -> bool {
        self.fields.get(field).is_some_and(|value| !value.is_null())
    }

    fn missing(&self, field: &'static str) -> DatasetError {
        DatasetError::Missing { row: self.number, id: self.id(), field, format: self.format }
    }

    pub(super) fn wrong(&self, field: &'static str, expected: &'static str, found: &Value) -> DatasetError {
        let shown: String = found.to_string().chars().take(60).collect();
        DatasetError::Wrong { row: self.number, id: self.id(), field, expected, found: format!("`{shown}`") }
    }

    pub(super) fn unsupported(&self, what: impl Into<String>, help: &'static str) -> DatasetError {
        DatasetError::Unsupported { row: self.number, id: self.id(), what: what.into(), help }
    }

    fn value(&self, field: &'static str) -> Result<&Value, DatasetError> {
        self.fields.get(field).filter(|value| !value.is_null()).ok_or_else(|| self.missing(field))
    }

    /// A text, which may be empty.
    pub(super) fn text(&self, field: &'static str) -> Result<&str, DatasetError> {
        let value = self.value(field)?;
        value.as_str().ok_or_else(|| self.wrong(field, "a text", value))
    }

    /// A text that says something.
    pub(super) fn filled(&self, field: &'static str) -> Result<&str, DatasetError> {
        let text = self.text(field)?;
        if text.trim().is_empty() {
            return Err(self.wrong(field, "a text with something in it", &Value::from(text)));
        }
        Ok(text)
    }

    /// A text where the field is there.
    pub(super) fn text_if(&self, field: &'static str) -> Result<Option<&str>, DatasetError> {
        if self.has(field) { self.text(field).map(Some) } else { Ok(None) }
    }

    /// A list of texts: a list, or one in JSON, or one as Python prints it.
    pub(super) fn list(&self, field: &'static str) -> Result<Vec<String>, DatasetError> {
        let value = self.value(field)?;
        let wrong = || self.wrong(field, "a list of texts", value);
        let parsed;
        let list = match value {
            Value::Array(list) => list,
            Value::String(text) => {
                parsed = serde_json::from_str(text).ok().or_else(|| python_list(text)).ok_or_else(wrong)?;
                match &parsed {
                    Value::Array(list) => list,
                    _ => return Err(wrong()),
                }
            }
            _ => return Err(wrong()),
        };
        list.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
    }

    /// An object: one, or one in JSON.
    pub(super) fn object(&self, field: &'static str) -> Result<Map<String, Value>, DatasetError> {
        let value = self.value(field)?;
        let wrong = || self.wrong(field, "an object", value);
        match value {
            Value::Object(object) => Ok(object.clone()),
            Value::String(text) => serde_json::from_str(text).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

/// `['a', "b"]`, as Python prints a list of texts.
fn python_list(text: &str) -> Option<Value> {
    let mut chars = text.trim().strip_prefix('[')?.strip_suffix(']')?.chars().peekable();
    let mut items = Vec::new();
    loop {
        while chars.next_if(|c| c.is_whitespace() || *c == ',').is_some() {}
        let Some(quote) = chars.next() else { return Some(Value::Array(items)) };
        if quote != '\'' && quote != '"' {
            return None;
        }
        let mut item = String::new();
        loop {
            match chars.next()? {
                '\\' => item.push(match chars.next()? {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    other => other,
                }),
                c if c == quote => break,
                c => item.push(c),
            }
        }
        items.push(Value::from(item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(value: Value, expected: &[&str]) {
        let fields = json!({"instance_id": "a__b-1", "tests": value}).as_object().unwrap().clone();
        let row = Row { number: 3, fields, format: "SWE-bench" };
        assert_eq!(row.list("tests").unwrap(), expected);
    }

    #[test]
    fn a_list_may_be_a_list_or_a_text_that_holds_one() {
        check(json!(["a", "b"]), &["a", "b"]);
        check(json!("[\"a\", \"b [x]\"]"), &["a", "b [x]"]);
        check(json!("['a', \"it's\", 'a\\'b']"), &["a", "it's", "a'b"]);
        check(json!("[]"), &[]);
    }

    #[test]
    fn an_error_names_row_and_field() {
        let check = |fields: Value, expected: &str| {
            let row = Row { number: 3, fields: fields.as_object().unwrap().clone(), format: "SWE-bench" };
            assert_eq!(row.list("FAIL_TO_PASS").unwrap_err().to_string(), expected);
        };
        check(
            json!({"instance_id": "a__b-1"}),
            "row 3 (a__b-1) has no field `FAIL_TO_PASS`\nhelp: rows of SWE-bench have it; is the format right?",
        );
        check(
            json!({"FAIL_TO_PASS": "test_a, test_b"}),
            "row 3 (no id): the field `FAIL_TO_PASS` is `\"test_a, test_b\"`, not a list of texts",
        );
        check(
            json!({"instance_id": "x", "FAIL_TO_PASS": [1]}),
            "row 3 (x): the field `FAIL_TO_PASS` is `[1]`, not a list of texts",
        );
    }
}
