//! What is the first thing in which settings differ from those that were kept?

use serde_json::Value;

/// The longest value that is shown whole.
const LONGEST: usize = 60;

/// In a piece of a sentence, which key of two JSON texts differs first, with both values; nothing when none does.
pub fn first_change(before: &str, now: &str) -> Option<String> {
    let (before, now) = (serde_json::from_str(before).ok()?, serde_json::from_str(now).ok()?);
    let (key, before, now) = differs(String::new(), Some(&before), Some(&now))?;
    Some(format!("`{key}` was {}, and is {} now", shown(before), shown(now)))
}

/// The path to the first difference, and what stands there.
fn differs<'a>(
    path: String,
    before: Option<&'a Value>,
    now: Option<&'a Value>,
) -> Option<(String, Option<&'a Value>, Option<&'a Value>)> {
    if before == now {
        return None;
    }
    if let (Some(Value::Array(old)), Some(Value::Array(new))) = (before, now) {
        // A list may be long: what differs is one place of it.
        let place = (0..).find(|place| old.get(*place) != new.get(*place))?;
        return differs(format!("{path}[{place}]"), old.get(place), new.get(place));
    }
    let (Some(Value::Object(old)), Some(Value::Object(new))) = (before, now) else {
        return Some((path, before, now));
    };
    let added = new.keys().filter(|key| !old.contains_key(*key));
    old.keys().chain(added).find_map(|key| {
        let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        differs(below, old.get(key), new.get(key))
    })
}

fn shown(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => return "not given".into(),
        Some(value) => value.to_string(),
    };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, now: &str, expected: Option<&str>) {
        assert_eq!(first_change(before, now).as_deref(), expected);
    }

    #[test]
    fn the_key_that_differs_is_named_with_both_values() {
        check(r#"{"a": 1}"#, r#"{"a": 1}"#, None);
        check(r#"{"a": 1}"#, r#"{"a": 2}"#, Some("`a` was 1, and is 2 now"));
        check(
            r#"{"tasks": ["a", "c"]}"#,
            r#"{"tasks": ["a", "b", "c"]}"#,
            Some(r#"`tasks[1]` was "c", and is "b" now"#),
        );
        check(r#"{"tasks": ["a"]}"#, r#"{"tasks": []}"#, Some(r#"`tasks[0]` was "a", and is not given now"#));
        check(
            r#"{"a": 1, "b": {"c": "x", "d": 1}}"#,
            r#"{"a": 1, "b": {"c": "y", "d": 2}}"#,
            Some(r#"`b.c` was "x", and is "y" now"#),
        );
        check(r#"{"a": null}"#, r#"{"a": [1]}"#, Some("`a` was not given, and is [1] now"));
        check(r#"{}"#, r#"{"b": true}"#, Some("`b` was not given, and is true now"));
        check("not whole", "{}", None);
        let long = format!(r#"{{"a": "{}"}}"#, "é".repeat(80));
        let told = first_change(&long, r#"{"a": 1}"#).unwrap();
        assert_eq!(told, format!("`a` was \"{}…, and is 1 now", "é".repeat(59)));
    }
}
