//! How is one field of a request read? What is not done, or not known, is refused by name.

use axum::http::StatusCode;
use serde_json::{Map, Value};

use crate::serve::refusal::Refusal;

/// Taken and without effect here: they name the caller, or where and how something is kept.
const WITHOUT_EFFECT: [&str; 11] = [
    "user",
    // OpenRouter's: the usage of a whole answer is always told.
    "usage",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "parallel_tool_calls",
    "add_special_tokens",
    "include_reasoning",
    // The policies have one effort.
    "reasoning_effort",
];

const COMMON: [&str; 14] = [
    "model",
    "n",
    "stream",
    "stream_options",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "stop",
    "include_stop_str_in_output",
    "logprobs",
    "return_token_ids",
    "ignore_eos",
];

/// Parameters that are taken only with the value that asks for nothing.
const NOT_DONE: [(&str, &str); 7] = [
    ("presence_penalty", "the sampler has no penalties"),
    ("frequency_penalty", "the sampler has no penalties"),
    ("logit_bias", "the sampler has no bias of tokens"),
    ("suffix", "the policy does not fill in"),
    ("echo", "a prompt is not given back"),
    ("return_tokens_as_token_ids", "token ids come with `return_token_ids`"),
    ("functions", "functions are told as `tools`"),
];

/// The fields of a request.
pub struct Fields(Map<String, Value>);

impl Fields {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// A refusal where it is no JSON object.
    pub fn read(body: &[u8]) -> Result<Self, Refusal> {
        let broken = |said: String| Refusal::new(StatusCode::BAD_REQUEST, "invalid_json", said);
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(_) => Err(broken("the body is no JSON object".into())),
            Err(error) => Err(broken(format!("the body is no JSON: {error}"))),
        }
    }

    /// Refuses every field that is neither common nor one of `own`, so that nothing is left out in silence.
    pub fn only(&self, own: &[&str]) -> Result<(), Refusal> {
        for (name, value) in &self.0 {
            let name = name.as_str();
            if COMMON.contains(&name) || own.contains(&name) || WITHOUT_EFFECT.contains(&name) {
                continue;
            }
            let empty = value.is_null() || value == &Value::Bool(false) || value.as_f64() == Some(0.0);
            let empty = empty
                || value.as_object().is_some_and(Map::is_empty)
                || value.as_array().is_some_and(Vec::is_empty);
            match NOT_DONE.iter().find(|(known, _)| *known == name) {
                _ if empty => {}
                Some((_, why)) => {
                    return Err(Refusal::of_parameter(name, format!("`{name}` cannot be set: {why}")));
                }
                None => {
                    let said = format!("there is no parameter `{name}`");
                    return Err(Refusal { code: "unknown_parameter", ..Refusal::of_parameter(name, said) });
                }
            }
        }
        Ok(())
    }

    /// The value of a field that is there and not null.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A field that is true or false; false where it is not there.
    pub fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(wanted(name, "true or false", other)),
        }
    }

    /// A whole number up to `most`.
    pub fn count(&self, name: &str, most: usize) -> Result<Option<usize>, Refusal> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
        match count.filter(|count| *count <= most) {
            Some(count) => Ok(Some(count)),
            None if most == usize::MAX => Err(wanted(name, "a whole number from 0 on", value)),
            None => Err(wanted(name, &format!("a whole number from 0 to {most}"), value)),
        }
    }

    /// A number that is `good`, as `wish` says; `default` where it is not there.
    pub fn number(
        &self,
        name: &str,
        default: f32,
        wish: &str,
        good: impl Fn(f32) -> bool,
    ) -> Result<f32, Refusal> {
        let Some(value) = self.get(name) else { return Ok(default) };
        let number = value.as_f64().map(|number| number as f32);
        number.filter(|number| good(*number)).ok_or_else(|| wanted(name, wish, value))
    }
}

/// The refusal of a value that is not as `wish` says.
pub fn wanted(name: &str, wish: &str, found: &Value) -> Refusal {
    let mut found = found.to_string();
    if found.len() > 60 {
        let end = (0..=60).rev().find(|end| found.is_char_boundary(*end)).unwrap_or(0);
        found.truncate(end);
        found.push('…');
    }
    Refusal::of_parameter(name, format!("`{name}` is {found}, wanted {wish}"))
}
