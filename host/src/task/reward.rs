//! What reward did the tests leave?
//!
//! As in Harbor: `reward.json` first, a number or an object of numbers, else
//! `reward.txt`, one number. The files are written inside the sandbox, where a
//! patch runs too, so they are opened without following links and read with a cap.

use std::collections::BTreeMap;
use std::io::Read;

use super::error::VerifyError;
use crate::workspace::Folder;

/// Most bytes of a reward file.
const FILE_BYTES: u64 = 64 << 10;

/// The rewards of one verification by name; a single number is named `reward`.
///
/// Where both files are there and the second decides lower, it counts: code of
/// the patch under test may have left a `reward.json` beside the tests' own file.
pub(super) fn read(task: &str, logs: &Folder, output: &str) -> Result<BTreeMap<String, f64>, VerifyError> {
    let json = read_file(task, logs, "reward.json")?.map(|text| parse_json(task, &text));
    let text = read_file(task, logs, "reward.txt")?.map(|text| parse_text(task, &text));
    match (json, text) {
        (Some(json), Some(Ok(text))) => {
            let json = json?;
            Ok(if deciding(&text) < deciding(&json) { text } else { json })
        }
        (Some(json), _) => json,
        (None, Some(text)) => text,
        (None, None) => Err(VerifyError::NoReward { task: task.to_owned(), output: output.to_owned() }),
    }
}

/// The reward that decides: the one named `reward`, else the smallest.
pub(super) fn deciding(rewards: &BTreeMap<String, f64>) -> f64 {
    let smallest = rewards.values().copied().fold(f64::INFINITY, f64::min);
    rewards.get("reward").copied().unwrap_or(smallest)
}

fn read_file(task: &str, logs: &Folder, file: &'static str) -> Result<Option<String>, VerifyError> {
    let not_a_file = || VerifyError::NotAFile { task: task.to_owned(), file };
    let open = match logs.open(file) {
        Ok(open) => open,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err(not_a_file()),
    };
    let meta = open.metadata().map_err(|_| not_a_file())?;
    if !meta.is_file() || meta.len() > FILE_BYTES {
        return Err(not_a_file());
    }
    let mut bytes = Vec::new();
    open.take(FILE_BYTES).read_to_end(&mut bytes).map_err(|_| not_a_file())?;
    Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned()))
}

fn parse_text(task: &str, text: &str) -> Result<BTreeMap<String, f64>, VerifyError> {
    const FILE: &str = "reward.txt";
    if text.is_empty() {
        return Err(VerifyError::EmptyReward { task: task.to_owned(), file: FILE });
    }
    let number = text.parse::<f64>().map_err(|_| not_a_number(task, FILE, text))?;
    Ok(BTreeMap::from([("reward".into(), finite(task, FILE, number)?)]))
}

fn parse_json(task: &str, text: &str) -> Result<BTreeMap<String, f64>, VerifyError> {
    const FILE: &str = "reward.json";
    if text.is_empty() {
        return Err(VerifyError::EmptyReward { task: task.to_owned(), file: FILE });
    }
    // Python writes NaN and Infinity into JSON; both deserve their own message.
    if ["NaN", "Infinity", "-Infinity"].iter().any(|word| text.contains(word)) {
        return Err(VerifyError::NotFinite { task: task.to_owned(), file: FILE });
    }
    let number = |value: &serde_json::Value| match value.as_f64() {
        Some(number) => finite(task, FILE, number),
        None => Err(not_a_number(task, FILE, &value.to_string())),
    };
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(serde_json::Value::Object(map)) if map.is_empty() => {
            Err(VerifyError::EmptyReward { task: task.to_owned(), file: FILE })
        }
        Ok(serde_json::Value::Object(map)) => {
            map.iter().map(|(name, value)| Ok((name.clone(), number(value)?))).collect()
        }
        Ok(value) => Ok(BTreeMap::from([("reward".into(), number(&value)?)])),
        Err(_) => Err(not_a_number(task, FILE, text)),
    }
}

fn finite(task: &str, file: &'static str, number: f64) -> Result<f64, VerifyError> {
    match number.is_finite() {
        true => Ok(number),
        false => Err(VerifyError::NotFinite { task: task.to_owned(), file }),
    }
}

fn not_a_number(task: &str, file: &'static str, text: &str) -> VerifyError {
    let text = text.chars().take(60).collect();
    VerifyError::NotANumber { task: task.to_owned(), file, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(result: Result<BTreeMap<String, f64>, VerifyError>) -> String {
        match result {
            Ok(rewards) => format!("{}", deciding(&rewards)),
            Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn text_is_one_finite_number() {
        let check = |text: &str, expected: &str| assert_eq!(show(parse_text("t", text)), expected, "{text}");
        check("1", "1");
        check("0.5", "0.5");
        check("", "the tests of `t` left an empty `reward.txt`");
        check("yes", "the tests of `t` left `yes` in `reward.txt`, which is not a number");
        check("1 1", "the tests of `t` left `1 1` in `reward.txt`, which is not a number");
        check("nan", "the tests of `t` left a reward that is not finite in `reward.txt`");
        check("-inf", "the tests of `t` left a reward that is not finite in `reward.txt`");
    }

    #[test]
    fn json_is_a_number_or_an_object_of_numbers() {
        let check = |text: &str, expected: &str| assert_eq!(show(parse_json("t", text)), expected, "{text}");
        check("1", "1");
        check(r#"{"reward": 0.25, "speed": 0}"#, "0.25");
        check(r#"{"tests": 1, "style": 0.5}"#, "0.5");
        check("", "the tests of `t` left an empty `reward.json`");
        check("{}", "the tests of `t` left an empty `reward.json`");
        check("true", "the tests of `t` left `true` in `reward.json`, which is not a number");
        check(r#"{"reward": "1"}"#, "the tests of `t` left `\"1\"` in `reward.json`, which is not a number");
        check("{", "the tests of `t` left `{` in `reward.json`, which is not a number");
        check(r#"{"reward": NaN}"#, "the tests of `t` left a reward that is not finite in `reward.json`");
    }
}
