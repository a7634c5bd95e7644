//! Which rows does a file hold? JSONL, a JSON list, or Parquet.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Map, Value};

use super::error::DatasetError;
use super::parquet;
use super::row::Row;

/// All rows of a file, in order.
pub(super) fn rows(path: &Path) -> Result<Vec<Row>, DatasetError> {
    let mut rows = Vec::new();
    let mut take = |fields: Map<String, Value>| {
        rows.push(Row { number: rows.len() + 1, fields, format: "this format" });
        Ok(())
    };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("parquet") => parquet::read(path, take)?,
        Some("jsonl" | "ndjson") => lines(path, take)?,
        Some("json") => {
            let text = std::fs::read_to_string(path)
                .map_err(|source| DatasetError::Unreadable { path: path.to_owned(), source })?;
            let bad = |row, reason| DatasetError::NotJson { path: path.to_owned(), row, reason };
            let list: Vec<Value> = serde_json::from_str(&text).map_err(|error| bad(1, error.to_string()))?;
            for (at, value) in list.into_iter().enumerate() {
                let Value::Object(fields) = value else {
                    return Err(bad(at + 1, "it is something else".into()));
                };
                take(fields)?;
            }
        }
        _ => return Err(DatasetError::UnknownFile { path: path.to_owned() }),
    }
    Ok(rows)
}

fn lines(
    path: &Path,
    mut take: impl FnMut(Map<String, Value>) -> Result<(), DatasetError>,
) -> Result<(), DatasetError> {
    let unreadable = |source| DatasetError::Unreadable { path: path.to_owned(), source };
    let reader = BufReader::new(File::open(path).map_err(unreadable)?);
    for (at, line) in reader.lines().enumerate() {
        let line = line.map_err(unreadable)?;
        if line.trim().is_empty() {
            continue;
        }
        let fields = serde_json::from_str(&line).map_err(|error| DatasetError::NotJson {
            path: path.to_owned(),
            row: at + 1,
            reason: error.to_string(),
        })?;
        take(fields)?;
    }
    Ok(())
}
