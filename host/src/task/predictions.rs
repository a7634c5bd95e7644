//! Which patches does a file of predictions hold? The format of SWE-bench's evaluator:
//! JSONL, a JSON list, or a JSON object by instance.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One prediction. Names and order of the fields are the official ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    pub instance_id: String,
    #[serde(default = "no_model")]
    pub model_name_or_path: String,
    /// The patch; none or empty is never run.
    pub model_patch: Option<String>,
}

fn no_model() -> String {
    "None".into()
}

/// Why predictions cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PredictionsError {
    #[error("`{}` could not be read: {source}\nhelp: check the path and its permissions", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error(
        "`{}` is no file of predictions: {reason}\n\
         help: each line is an object with `instance_id`, `model_name_or_path` and `model_patch`",
        path.display()
    )]
    BadFile { path: PathBuf, reason: String },
    #[error("the patch of `{instance}` is not UTF-8, and JSON cannot hold it")]
    NotText { instance: String },
    #[error("two predictions are for `{instance}`\nhelp: take one of them out")]
    Twice { instance: String },
}

impl Prediction {
    /// A prediction of a patch.
    ///
    /// # Errors
    /// A patch that JSON cannot hold; decoding it with replacements would change it.
    pub fn new(instance: &str, model: &str, patch: &[u8]) -> Result<Self, PredictionsError> {
        let text = std::str::from_utf8(patch)
            .map_err(|_| PredictionsError::NotText { instance: instance.to_owned() })?;
        Ok(Self {
            instance_id: instance.to_owned(),
            model_name_or_path: model.to_owned(),
            model_patch: Some(text.to_owned()),
        })
    }

    /// The patch, if there is one to run.
    pub fn patch(&self) -> Option<&str> {
        self.model_patch.as_deref().filter(|patch| !patch.is_empty())
    }
}

/// The predictions of a file, one for each instance.
///
/// # Errors
/// A file that is none, and two predictions of one instance.
pub fn read_predictions(path: &Path) -> Result<Vec<Prediction>, PredictionsError> {
    let text = fs::read_to_string(path)
        .map_err(|source| PredictionsError::Unreadable { path: path.to_owned(), source })?;
    let bad = |reason: String| PredictionsError::BadFile { path: path.to_owned(), reason };
    let values: Vec<Value> = if path.extension().is_some_and(|extension| extension == "json") {
        match serde_json::from_str(&text).map_err(|error| bad(error.to_string()))? {
            Value::Array(list) => list,
            Value::Object(by_instance) => by_instance.into_iter().map(|(_, value)| value).collect(),
            _ => return Err(bad("it is neither a list nor an object".into())),
        }
    } else {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let parsed = lines.map(|(at, line)| {
            serde_json::from_str(line).map_err(|error| bad(format!("line {}: {error}", at + 1)))
        });
        parsed.collect::<Result<_, _>>()?
    };
    let mut predictions: Vec<Prediction> = Vec::new();
    for (at, value) in values.into_iter().enumerate() {
        let prediction: Prediction =
            serde_json::from_value(value).map_err(|error| bad(format!("prediction {}: {error}", at + 1)))?;
        if predictions.iter().any(|known| known.instance_id == prediction.instance_id) {
            return Err(PredictionsError::Twice { instance: prediction.instance_id });
        }
        predictions.push(prediction);
    }
    Ok(predictions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str, expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let shown = match read_predictions(&path) {
            Ok(found) => found
                .iter()
                .map(|found| {
                    format!("{} {} {:?}", found.instance_id, found.model_name_or_path, found.patch())
                })
                .collect::<Vec<_>>()
                .join("; "),
            Err(error) => {
                let text = error.to_string().replace(&path.display().to_string(), "FILE");
                text.lines().next().unwrap_or_default().to_owned()
            }
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn every_shape_that_the_official_evaluator_takes_is_read() {
        let one = r#"{"instance_id": "a", "model_name_or_path": "m", "model_patch": "p\r\n"}"#;
        check("p.jsonl", one, "a m Some(\"p\\r\\n\")");
        check("p.json", &format!("[{one}]"), "a m Some(\"p\\r\\n\")");
        check("p.json", &format!("{{\"a\": {one}}}"), "a m Some(\"p\\r\\n\")");
        check("p.jsonl", r#"{"instance_id": "a", "model_patch": null}"#, "a None None");
        check("p.jsonl", r#"{"instance_id": "a", "model_patch": "", "cost": 3}"#, "a None None");
        check(
            "p.jsonl",
            r#"{"model_patch": ""}"#,
            "`FILE` is no file of predictions: prediction 1: missing field `instance_id`",
        );
        check("p.jsonl", &format!("{one}\n{one}"), "two predictions are for `a`");
        check("p.json", "3", "`FILE` is no file of predictions: it is neither a list nor an object");
    }

    #[test]
    fn what_is_written_is_what_the_official_evaluator_reads() {
        let prediction = Prediction::new("a__b-1", "org/model", b"diff\r\n").unwrap();
        assert_eq!(
            serde_json::to_string(&prediction).unwrap(),
            r#"{"instance_id":"a__b-1","model_name_or_path":"org/model","model_patch":"diff\r\n"}"#
        );
        assert!(Prediction::new("a", "m", b"\xff").is_err());
    }
}
