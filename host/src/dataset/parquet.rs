//! What rows does a Parquet file hold?

use std::fs::File;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Map, Value};

use super::error::DatasetError;

/// Calls `take` with the fields of each row, in order, until it says stop.
pub(super) fn read(
    path: &Path,
    mut take: impl FnMut(Map<String, Value>) -> Result<(), DatasetError>,
) -> Result<(), DatasetError> {
    let bad = |reason: String| DatasetError::Parquet { path: path.to_owned(), reason };
    let file =
        File::open(path).map_err(|source| DatasetError::Unreadable { path: path.to_owned(), source })?;
    let reader = SerializedFileReader::new(file).map_err(|error| bad(error.to_string()))?;
    let rows = reader.get_row_iter(None).map_err(|error| bad(error.to_string()))?;
    for row in rows {
        let row = row.map_err(|error| bad(error.to_string()))?;
        let fields = row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect();
        take(fields)?;
    }
    Ok(())
}

/// A field as JSON. Dates and numbers that no format here reads become texts.
fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => Value::from(*value),
        Field::Byte(value) => Value::from(*value),
        Field::Short(value) => Value::from(*value),
        Field::Int(value) => Value::from(*value),
        Field::Long(value) => Value::from(*value),
        Field::UByte(value) => Value::from(*value),
        Field::UShort(value) => Value::from(*value),
        Field::UInt(value) => Value::from(*value),
        Field::ULong(value) => Value::from(*value),
        Field::Float(value) => Value::from(*value),
        Field::Double(value) => Value::from(*value),
        Field::Str(text) => Value::from(text.as_str()),
        Field::Bytes(bytes) => Value::from(String::from_utf8_lossy(bytes.data())),
        Field::Group(row) => {
            Value::Object(row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect())
        }
        Field::ListInternal(list) => Value::Array(list.elements().iter().map(value).collect()),
        Field::MapInternal(map) => {
            let entry = |(key, field): &(Field, Field)| match key {
                Field::Str(key) => (key.clone(), value(field)),
                other => (other.to_string(), value(field)),
            };
            Value::Object(map.entries().iter().map(entry).collect())
        }
        other => Value::from(other.to_string()),
    }
}
