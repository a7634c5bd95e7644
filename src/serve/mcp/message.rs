//! What is said between a client and the server? JSON-RPC 2.0, as the Model Context Protocol uses it.

use serde_json::{Value, json};

/// The message cannot be read as JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The message is no request, notification or response.
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL_ERROR: i64 = -32603;
/// A resource that is not there.
pub const RESOURCE_NOT_FOUND: i64 = -32002;

/// The versions of the protocol that are spoken, newest first.
pub const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Most messages of a list: each is a task, and a body has room for very many.
const BATCH: usize = 64;

/// A message of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// It is answered, under its id.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// An answer to a request of the server, which sends none.
    Response,
}

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub code: i64,
    pub message: String,
}

impl Failure {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The response that tells it.
    pub fn response(&self, id: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": self.code, "message": self.message}})
    }
}

/// The response to a request.
pub fn response(id: &Value, result: Result<Value, Failure>) -> Value {
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(failure) => failure.response(id),
    }
}

pub fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// Reads what was sent: one message or, in the oldest versions, a list of them.
///
/// # Errors
/// What is no JSON, or no message; and a list that is too long.
pub fn read(bytes: &[u8]) -> Result<Vec<Incoming>, Failure> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| Failure::new(PARSE_ERROR, format!("this is no JSON: {error}")))?;
    match value {
        Value::Array(messages) if messages.len() > BATCH => {
            let said = format!("the list has {} messages, and at most {BATCH} are taken", messages.len());
            Err(Failure::new(INVALID_REQUEST, said))
        }
        Value::Array(messages) if !messages.is_empty() => messages.into_iter().map(one).collect(),
        message => Ok(vec![one(message)?]),
    }
}

fn one(message: Value) -> Result<Incoming, Failure> {
    let invalid = |what: &str| Err(Failure::new(INVALID_REQUEST, format!("the message {what}")));
    if message["jsonrpc"] != "2.0" {
        return invalid("is not JSON-RPC 2.0");
    }
    let params = match &message["params"] {
        Value::Null => json!({}),
        params if params.is_object() => params.clone(),
        _ => return invalid("has parameters that are no object"),
    };
    match (&message["method"], message.get("id")) {
        (Value::String(method), None) => Ok(Incoming::Notification { method: method.clone(), params }),
        (Value::String(method), Some(id)) if id.is_string() || id.is_number() => {
            Ok(Incoming::Request { id: id.clone(), method: method.clone(), params })
        }
        (Value::String(_), Some(_)) => invalid("has an id that is neither text nor number"),
        (Value::Null, Some(_)) if message.get("result").is_some() || message.get("error").is_some() => {
            Ok(Incoming::Response)
        }
        _ => invalid("has no method"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_are_read_as_messages() {
        let check = |text: &str, expected: Result<usize, i64>| {
            let read = read(text.as_bytes());
            assert_eq!(
                read.map(|messages| messages.len()).map_err(|failure| failure.code),
                expected,
                "{text}"
            );
        };
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, Ok(1));
        check(r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":{}}"#, Ok(1));
        check(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, Ok(1));
        check(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Ok(1));
        check(r#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]"#, Ok(2));
        check("[]", Err(INVALID_REQUEST));
        let list = |count: usize| format!("[{}]", vec![r#"{"jsonrpc":"2.0","method":"a"}"#; count].join(","));
        check(&list(64), Ok(64));
        check(&list(65), Err(INVALID_REQUEST));
        check("{", Err(PARSE_ERROR));
        check("", Err(PARSE_ERROR));
        check("7", Err(INVALID_REQUEST));
        check(r#"{"id":1,"method":"ping"}"#, Err(INVALID_REQUEST));
        check(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Err(INVALID_REQUEST));
        check(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, Err(INVALID_REQUEST));
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, Err(INVALID_REQUEST));
        check(r#"{"jsonrpc":"2.0","id":1}"#, Err(INVALID_REQUEST));
    }
}
