//! Which settings does a plugin take, and are these among them?

use std::fmt;

use boon::{Compiler, SchemaIndex, Schemas, UrlLoader};
use serde_json::{Value, json};

/// Size of a schema. It is the plugin's text, and the host walks it.
const SCHEMA_BYTES: usize = 64 << 10;

/// Regular expressions of a schema. A few letters can compile to ten megabytes.
const PATTERNS: usize = 8;

/// The schema that a plugin declares for its settings (JSON Schema, draft 2020-12 if it names
/// none).
pub struct SettingsSchema {
    json: Value,
    sample: Value,
    schemas: Schemas,
    index: SchemaIndex,
}

impl SettingsSchema {
    /// Reads a schema. The error goes on after "the schema of its settings".
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > SCHEMA_BYTES {
            return Err(format!("has {} bytes, limit {SCHEMA_BYTES} bytes", text.len()));
        }
        let schema: Value = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
        if schema.get("type") != Some(&json!("object")) {
            return Err("is not of type `object` at the top".to_owned());
        }
        // With references a small schema can stand for a huge or endless one.
        if let Some(keyword) = reference(&schema) {
            return Err(format!("has the keyword `{keyword}`, and references are not followed"));
        }
        let (schemas, index) = compile(&schema)?;
        let empty = json!({});
        let sample = match schemas.validate(&empty, index) {
            Ok(()) => empty,
            Err(why) => {
                let sample = schema["examples"][0].clone();
                let said = reasons(&why);
                if sample.is_null() {
                    return Err(format!(
                        "does not take `{{}}` ({said}) and has no `examples` for the trial calls"
                    ));
                }
                schemas
                    .validate(&sample, index)
                    .map_err(|why| format!("does not take its own first example: {}", reasons(&why)))?;
                sample
            }
        };
        Ok(Self { json: schema, sample, schemas, index })
    }

    /// The schema itself.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// Settings that it takes, for trial calls.
    pub(super) fn sample(&self) -> &Value {
        &self.sample
    }

    /// Whether it takes `settings`. The error names every place that it does not.
    pub fn check(&self, settings: &Value) -> Result<(), String> {
        self.schemas.validate(settings, self.index).map_err(|why| reasons(&why))
    }
}

impl fmt::Debug for SettingsSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SettingsSchema({})", self.json)
    }
}

/// Whether `schema` is a JSON Schema that the host can use; the error goes on after its name.
pub(super) fn check_schema(schema: &Value) -> Result<(), String> {
    compile(schema).map(|_| ())
}

fn compile(schema: &Value) -> Result<(Schemas, SchemaIndex), String> {
    const NAME: &str = "schema:///plugin";
    match patterns(schema) {
        count if count > PATTERNS => {
            return Err(format!("has {count} regular expressions, limit {PATTERNS}"));
        }
        _ => {}
    }
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    compiler.use_loader(Box::new(NoLoader));
    compiler.add_resource(NAME, schema.clone()).map_err(|error| format!("cannot be read: {error}"))?;
    let index = compiler.compile(NAME, &mut schemas).map_err(|error| match error {
        boon::CompileError::ValidationError { src, .. } => {
            format!("is not a JSON Schema: {}", reasons(&src))
        }
        error => format!("is not a JSON Schema: {error}"),
    })?;
    Ok((schemas, index))
}

/// A schema of a plugin never makes the host read a file or reach the network.
struct NoLoader;

impl UrlLoader for NoLoader {
    fn load(&self, url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err(format!("`{url}` is outside the schema").into())
    }
}

fn reference(value: &Value) -> Option<&str> {
    match value {
        Value::Object(fields) => fields.iter().find_map(|(key, value)| match key.as_str() {
            "$ref" | "$dynamicRef" | "$recursiveRef" => Some(key.as_str()),
            _ => reference(value),
        }),
        Value::Array(items) => items.iter().find_map(reference),
        _ => None,
    }
}

/// How many regular expressions are in `value`, read as a schema.
fn patterns(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| match (key.as_str(), value) {
                ("pattern", _) => 1 + patterns(value),
                ("patternProperties", Value::Object(inner)) => inner.len() + patterns(value),
                _ => patterns(value),
            })
            .sum(),
        Value::Array(items) => items.iter().map(patterns).sum(),
        _ => 0,
    }
}

/// The innermost reasons in one line, each with its place.
fn reasons(error: &boon::ValidationError<'_, '_>) -> String {
    let mut leaves = Vec::new();
    collect(error, &mut leaves);
    leaves.join("; ")
}

fn collect(error: &boon::ValidationError<'_, '_>, leaves: &mut Vec<String>) {
    if error.causes.is_empty() {
        let place = error.instance_location.to_string();
        let place = if place.is_empty() { "at the top".to_owned() } else { format!("at `{place}`") };
        leaves.push(format!("{place}: {}", error.kind));
    }
    for cause in &error.causes {
        collect(cause, leaves);
    }
}
