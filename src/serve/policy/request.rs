//! What does a request ask for? Its JSON becomes checked values, and what is not done is refused by name.

use axum::http::StatusCode;
use serde_json::{Map, Value};
use tandem_host::policy::Sampling;
use tandem_trainer::tokenizer::{ChatMessage, ChatRole};

use crate::serve::refusal::Refusal;

/// Most replies to one request.
pub const REPLIES: usize = 16;
/// Most stop texts, and bytes of one.
const STOPS: usize = 16;
const STOP_BYTES: usize = 1024;

/// What both kinds of request have.
#[derive(Clone, Debug, PartialEq)]
pub struct Common {
    pub model: String,
    /// Replies to each prompt.
    pub n: usize,
    pub stream: bool,
    pub include_usage: bool,
    /// Without it, as many as the server is set up for.
    pub max_tokens: Option<usize>,
    pub temperature: f32,
    pub top_p: f32,
    pub top_k: usize,
    pub seed: Option<u64>,
    pub stop: Vec<String>,
    /// Whether the stop text that ends a reply stays part of it: so it is in training, and so with the
    /// stop texts of a pair.
    pub keeps_stop: bool,
    pub logprobs: bool,
    pub token_ids: bool,
    /// Goes on where the policy would end, up to the most tokens.
    pub ignore_eos: bool,
}

/// A request of `/v1/chat/completions`.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRequest {
    pub common: Common,
    pub messages: Vec<ChatMessage>,
    /// What the message at the same place calls: `{"type", "function": {"name", "arguments"}}`, with
    /// arguments as an object.
    pub calls: Vec<Vec<Value>>,
    /// In the function shape; empty when none is to be called.
    pub tools: Vec<Value>,
}

/// A request of `/v1/completions`.
#[derive(Clone, Debug, PartialEq)]
pub struct TextRequest {
    pub common: Common,
    pub prompts: Vec<Prompt>,
}

/// What is to be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    Text(String),
    Ids(Vec<u32>),
}

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

impl ChatRequest {
    /// # Errors
    /// A refusal that names the parameter.
    pub fn read(body: &[u8], defaults: &Sampling) -> Result<Self, Refusal> {
        let fields = Fields::read(body)?;
        fields.only(&[
            "messages",
            "tools",
            "tool_choice",
            "max_completion_tokens",
            "top_logprobs",
            "response_format",
        ])?;
        let mut common = fields.common(defaults)?;
        let newer = fields.count("max_completion_tokens", usize::MAX)?;
        common.max_tokens = newer.or(common.max_tokens);
        common.logprobs = fields.flag("logprobs")?;
        if let Some(asked) = fields.count("top_logprobs", usize::MAX)?.filter(|asked| *asked > 0) {
            return Err(only_sampled("top_logprobs", asked));
        }
        if let Some(format) = fields.get("response_format")
            && format["type"] != "text"
        {
            let said = "replies are text; the sampler follows no schema or grammar";
            return Err(Refusal::of_parameter("response_format", said));
        }
        let (messages, calls) = messages(&fields)?;
        Ok(Self { common, messages, calls, tools: tools(&fields)? })
    }

    /// The names of the tools.
    pub fn tool_names(&self) -> Vec<String> {
        let names = self.tools.iter().filter_map(|tool| tool["function"]["name"].as_str());
        names.map(str::to_owned).collect()
    }
}

impl TextRequest {
    /// # Errors
    /// A refusal that names the parameter.
    pub fn read(body: &[u8], defaults: &Sampling) -> Result<Self, Refusal> {
        let fields = Fields::read(body)?;
        fields.only(&["prompt", "best_of"])?;
        let mut common = fields.common(defaults)?;
        match fields.count("logprobs", usize::MAX)? {
            None => {}
            Some(0) => common.logprobs = true,
            Some(asked) => return Err(only_sampled("logprobs", asked)),
        }
        if let Some(asked) = fields.count("best_of", usize::MAX)?.filter(|asked| *asked != common.n) {
            let said = format!("`best_of` is {asked} and `n` is {}; every reply is given back", common.n);
            return Err(Refusal::of_parameter("best_of", said));
        }
        let prompts = prompts(&fields)?;
        let replies = prompts.len() * common.n;
        if replies > REPLIES {
            let said = format!("{replies} replies are asked for, and one request has at most {REPLIES}");
            return Err(Refusal::of_parameter("prompt", said));
        }
        Ok(Self { common, prompts })
    }
}

fn only_sampled(name: &str, asked: usize) -> Refusal {
    Refusal::of_parameter(
        name,
        format!(
            "`{name}` is {asked}; the sampler tells the log-probability of the sampled token alone, under the distribution that it was drawn from, so `{name}` can be 0"
        ),
    )
}

/// The fields of a request.
struct Fields(Map<String, Value>);

impl Fields {
    fn read(body: &[u8]) -> Result<Self, Refusal> {
        let broken = |said: String| Refusal::new(StatusCode::BAD_REQUEST, "invalid_json", said);
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(_) => Err(broken("the body is no JSON object".into())),
            Err(error) => Err(broken(format!("the body is no JSON: {error}"))),
        }
    }

    /// Refuses every field that is neither common nor one of `own`, so that nothing is left out in silence.
    fn only(&self, own: &[&str]) -> Result<(), Refusal> {
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
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(wanted(name, "true or false", other)),
        }
    }

    fn count(&self, name: &str, most: usize) -> Result<Option<usize>, Refusal> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
        match count.filter(|count| *count <= most) {
            Some(count) => Ok(Some(count)),
            None if most == usize::MAX => Err(wanted(name, "a whole number from 0 on", value)),
            None => Err(wanted(name, &format!("a whole number from 0 to {most}"), value)),
        }
    }

    fn number(
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

    fn common(&self, defaults: &Sampling) -> Result<Common, Refusal> {
        let Some(model) = self.get("model").and_then(Value::as_str) else {
            return Err(Refusal::of_parameter(
                "model",
                "`model` is missing; `/v1/models` lists what there is",
            ));
        };
        let n = self.count("n", REPLIES)?.unwrap_or(1);
        let max_tokens = self.count("max_tokens", usize::MAX)?;
        for (name, value) in [("n", Some(n)), ("max_tokens", max_tokens)] {
            if value == Some(0) {
                return Err(wanted(name, "at least 1", &Value::from(0)));
            }
        }
        let stream = self.flag("stream")?;
        let include_usage = match self.get("stream_options") {
            None => false,
            Some(_) if !stream => {
                return Err(Refusal::of_parameter("stream_options", "`stream_options` need `stream`"));
            }
            Some(options) => options["include_usage"] == true,
        };
        let seed = match self.get("seed") {
            None => None,
            Some(value) => {
                let seed = value.as_u64().or_else(|| value.as_i64().map(|seed| seed as u64));
                Some(seed.ok_or_else(|| wanted("seed", "a whole number of 64 bits", value))?)
            }
        };
        Ok(Common {
            model: model.to_owned(),
            n,
            stream,
            include_usage,
            max_tokens,
            temperature: self.number(
                "temperature",
                defaults.temperature,
                "a number from 0 to 2",
                |number| (0.0..=2.0).contains(&number),
            )?,
            top_p: self.number("top_p", 1.0, "a number over 0 and at most 1", |number| {
                number > 0.0 && number <= 1.0
            })?,
            top_k: match self.get("top_k") {
                // As other servers have it: all of them.
                Some(value) if value.as_i64() == Some(-1) => 0,
                _ => self.count("top_k", usize::MAX)?.unwrap_or(0),
            },
            seed,
            stop: self.stops(defaults)?,
            keeps_stop: self.get("stop").is_none() || self.flag("include_stop_str_in_output")?,
            logprobs: false,
            token_ids: self.flag("return_token_ids")?,
            ignore_eos: self.flag("ignore_eos")?,
        })
    }

    fn stops(&self, defaults: &Sampling) -> Result<Vec<String>, Refusal> {
        let stops: Vec<&Value> = match self.get("stop") {
            None => return Ok(defaults.stop.clone()),
            Some(Value::Array(stops)) => stops.iter().collect(),
            Some(one) => vec![one],
        };
        if stops.len() > STOPS {
            let said = format!("`stop` has {} texts, and at most {STOPS} are taken", stops.len());
            return Err(Refusal::of_parameter("stop", said));
        }
        let text = |stop: &Value| {
            let text = stop.as_str().filter(|text| !text.is_empty() && text.len() <= STOP_BYTES);
            let wish = format!("texts of 1 to {STOP_BYTES} bytes");
            text.map(str::to_owned).ok_or_else(|| wanted("stop", &wish, stop))
        };
        stops.into_iter().map(text).collect()
    }
}

fn wanted(name: &str, wish: &str, found: &Value) -> Refusal {
    let mut found = found.to_string();
    if found.len() > 60 {
        let end = (0..=60).rev().find(|end| found.is_char_boundary(*end)).unwrap_or(0);
        found.truncate(end);
        found.push('…');
    }
    Refusal::of_parameter(name, format!("`{name}` is {found}, wanted {wish}"))
}

type Turns = (Vec<ChatMessage>, Vec<Vec<Value>>);

fn messages(fields: &Fields) -> Result<Turns, Refusal> {
    let Some(Value::Array(messages)) = fields.get("messages") else {
        return Err(Refusal::of_parameter("messages", "`messages` is missing or no list"));
    };
    if messages.is_empty() {
        return Err(Refusal::of_parameter("messages", "`messages` is empty"));
    }
    let mut turns = (Vec::new(), Vec::new());
    for (at, message) in messages.iter().enumerate() {
        let name = |field: &str| format!("messages[{at}].{field}");
        let role = match message["role"].as_str() {
            Some("system" | "developer") => ChatRole::System,
            Some("user") => ChatRole::User,
            Some("assistant") => ChatRole::Assistant,
            Some("tool") => ChatRole::Tool,
            _ => {
                return Err(wanted(
                    &name("role"),
                    "system, developer, user, assistant or tool",
                    &message["role"],
                ));
            }
        };
        let calls = match &message["tool_calls"] {
            Value::Array(calls) if role == ChatRole::Assistant => {
                let read = |(number, value)| call(&format!("messages[{at}].tool_calls[{number}]"), value);
                calls.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?
            }
            Value::Null => Vec::new(),
            other => return Err(wanted(&name("tool_calls"), "a list in a message of the assistant", other)),
        };
        let content = content(&name("content"), &message["content"])?;
        if content.is_none() && calls.is_empty() && role != ChatRole::Assistant {
            return Err(Refusal::of_parameter(name("content"), format!("`{}` is missing", name("content"))));
        }
        turns.0.push(ChatMessage::new(role, content.unwrap_or_default()));
        turns.1.push(calls);
    }
    Ok(turns)
}

/// The text of a message: a string, or a list of parts of text.
fn content(name: &str, value: &Value) -> Result<Option<String>, Refusal> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Array(parts) => {
            let mut text = String::new();
            for (at, part) in parts.iter().enumerate() {
                match (part["type"].as_str(), part["text"].as_str()) {
                    (Some("text"), Some(piece)) => text.push_str(piece),
                    (kind, _) => {
                        let kind = kind.unwrap_or("nothing");
                        let said =
                            format!("`{name}[{at}]` is a part of the type `{kind}`; the policy reads text");
                        return Err(Refusal::of_parameter(format!("{name}[{at}]"), said));
                    }
                }
            }
            Ok(Some(text))
        }
        other => Err(wanted(name, "a text or a list of parts", other)),
    }
}

/// A call of an earlier turn, its arguments made an object.
fn call(name: &str, value: &Value) -> Result<Value, Refusal> {
    let function = &value["function"];
    if !function["name"].is_string() {
        return Err(Refusal::of_parameter(name, format!("`{name}.function.name` is missing")));
    }
    let arguments = match &function["arguments"] {
        Value::String(text) if text.trim().is_empty() => Ok(Value::Object(Map::new())),
        Value::String(text) => serde_json::from_str(text),
        other => Ok(other.clone()),
    };
    let Some(arguments) = arguments.ok().filter(Value::is_object) else {
        let said = format!("`{name}.function.arguments` is no JSON object");
        return Err(Refusal::of_parameter(name, said));
    };
    let function = serde_json::json!({"name": function["name"], "arguments": arguments});
    Ok(serde_json::json!({"type": "function", "id": value["id"], "function": function}))
}

fn tools(fields: &Fields) -> Result<Vec<Value>, Refusal> {
    let tools = match fields.get("tools") {
        None => return Ok(Vec::new()),
        Some(Value::Array(tools)) => tools,
        Some(other) => return Err(wanted("tools", "a list", other)),
    };
    for (at, tool) in tools.iter().enumerate() {
        let name = tool["function"]["name"].as_str().unwrap_or_default();
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if tool["type"] != "function" || !(1..=64).contains(&name.len()) || !name.bytes().all(good) {
            let said =
                format!("`tools[{at}]` is no function with a name of 1 to 64 letters, digits, `_` and `-`");
            return Err(Refusal::of_parameter(format!("tools[{at}]"), said));
        }
        let parameters = &tool["function"]["parameters"];
        if !parameters.is_null() && !parameters.is_object() {
            let said = format!("`tools[{at}].function.parameters` is no JSON Schema");
            return Err(Refusal::of_parameter(format!("tools[{at}]"), said));
        }
    }
    match fields.get("tool_choice") {
        None => Ok(tools.clone()),
        Some(choice) if choice == "auto" => Ok(tools.clone()),
        Some(choice) if choice == "none" => Ok(Vec::new()),
        Some(_) => {
            let said = "`tool_choice` can be `auto` or `none`; the sampler cannot be made to call a tool";
            Err(Refusal::of_parameter("tool_choice", said))
        }
    }
}

fn prompts(fields: &Fields) -> Result<Vec<Prompt>, Refusal> {
    let ids = |list: &[Value]| -> Option<Vec<u32>> {
        list.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect()
    };
    let read = |value: &Value| match value {
        Value::String(text) => Some(Prompt::Text(text.clone())),
        Value::Array(list) if !list.is_empty() => ids(list).map(Prompt::Ids),
        _ => None,
    };
    let wish = "a text, a list of token ids, or a list of these";
    match fields.get("prompt") {
        None => Err(Refusal::of_parameter("prompt", "`prompt` is missing")),
        Some(value) => match (read(value), value) {
            (Some(one), _) => Ok(vec![one]),
            (None, Value::Array(list)) if !list.is_empty() => {
                let all: Option<Vec<Prompt>> = list.iter().map(read).collect();
                all.ok_or_else(|| wanted("prompt", wish, value))
            }
            (None, other) => Err(wanted("prompt", wish, other)),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chat(change: Value) -> Result<ChatRequest, Refusal> {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
        for (name, value) in change.as_object().unwrap() {
            body[name] = value.clone();
        }
        ChatRequest::read(body.to_string().as_bytes(), &Sampling::default())
    }

    #[test]
    fn what_is_wrong_is_told_with_its_parameter() {
        let check = |change: Value, param: &str, said: &str| {
            let refusal = chat(change.clone()).unwrap_err();
            assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
            assert_eq!(refusal.param.as_deref(), Some(param), "{change}");
            assert!(refusal.message.contains(said), "{change}: {}", refusal.message);
        };
        check(json!({"model": null}), "model", "missing");
        check(json!({"messages": []}), "messages", "empty");
        check(json!({"messages": "hi"}), "messages", "no list");
        check(
            json!({"messages": [{"role": "king", "content": ""}]}),
            "messages[0].role",
            "\"king\", wanted system",
        );
        check(json!({"messages": [{"role": "user"}]}), "messages[0].content", "missing");
        let picture = json!([{"type": "image_url", "image_url": {"url": "data:"}}]);
        check(
            json!({"messages": [{"role": "user", "content": picture}]}),
            "messages[0].content[0]",
            "reads text",
        );
        check(json!({"temperature": 3}), "temperature", "is 3, wanted a number from 0 to 2");
        check(json!({"temperature": "hot"}), "temperature", "is \"hot\"");
        check(json!({"top_p": 0}), "top_p", "over 0");
        check(json!({"n": 0}), "n", "at least 1");
        check(json!({"n": 17}), "n", "from 0 to 16");
        check(json!({"max_tokens": 0}), "max_tokens", "at least 1");
        check(json!({"max_tokens": -1}), "max_tokens", "a whole number");
        check(json!({"logprobs": true, "top_logprobs": 5}), "top_logprobs", "the sampled token alone");
        check(json!({"presence_penalty": 0.5}), "presence_penalty", "no penalties");
        check(json!({"logit_bias": {"1": 5}}), "logit_bias", "no bias");
        check(json!({"response_format": {"type": "json_object"}}), "response_format", "no schema");
        check(json!({"tool_choice": "required", "tools": []}), "tool_choice", "cannot be made");
        check(
            json!({"tools": [{"type": "function", "function": {"name": "a b"}}]}),
            "tools[0]",
            "name of 1 to 64",
        );
        check(json!({"stop": [""]}), "stop", "1 to 1024");
        check(json!({"seed": 0.5}), "seed", "64 bits");
        check(json!({"stream_options": {"include_usage": true}}), "stream_options", "need `stream`");
        check(json!({"temprature": 1}), "temprature", "there is no parameter `temprature`");
        let call = json!({"id": "1", "function": {"name": "ls", "arguments": "{"}});
        let said = json!([{"role": "assistant", "tool_calls": [call]}]);
        check(json!({"messages": said}), "messages[0].tool_calls[0]", "no JSON object");
    }

    #[test]
    fn what_asks_for_nothing_is_taken() {
        let plain = chat(json!({})).unwrap();
        let change = json!({
            "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "response_format": {"type": "text"},
            "user": "ada", "top_logprobs": 0, "tool_choice": "auto", "stream": false, "functions": [], "echo": null,
        });
        assert_eq!(chat(change).unwrap(), plain);
        assert_eq!(plain.common.n, 1);
        let content = json!([{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]);
        assert_eq!(chat(json!({"messages": [{"role": "user", "content": content}]})).unwrap(), plain);
    }

    #[test]
    fn the_stop_texts_of_a_pair_stay_part_of_a_reply() {
        let defaults = Sampling { stop: vec!["END".into()], ..Sampling::default() };
        let check = |change: Value, stop: &[&str], keeps: bool| {
            let mut body = json!({"model": "m", "prompt": "a"});
            change.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
            let common = TextRequest::read(body.to_string().as_bytes(), &defaults).unwrap().common;
            assert_eq!(
                (common.stop, common.keeps_stop),
                (stop.iter().map(|s| s.to_string()).collect(), keeps)
            );
        };
        check(json!({}), &["END"], true);
        check(json!({"stop": null}), &["END"], true);
        check(json!({"stop": "x"}), &["x"], false);
        check(json!({"stop": []}), &[], false);
        check(json!({"stop": ["x"], "include_stop_str_in_output": true}), &["x"], true);
    }

    #[test]
    fn calls_of_earlier_turns_have_arguments_as_objects() {
        let call =
            json!({"id": "1", "type": "function", "function": {"name": "ls", "arguments": "{\"p\": 1}"}});
        let messages = json!([
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "a"},
        ]);
        let request = chat(json!({"messages": messages, "tool_choice": "none", "tools": []})).unwrap();
        assert_eq!(request.calls[0][0]["function"]["arguments"], json!({"p": 1}));
        assert_eq!(request.messages[0].content, "");
        assert_eq!(request.messages[1].role, ChatRole::Tool);
    }

    #[test]
    fn prompts_are_texts_or_ids() {
        let check = |prompt: Value, expected: Option<Vec<Prompt>>| {
            let body = json!({"model": "m", "prompt": prompt});
            let read = TextRequest::read(body.to_string().as_bytes(), &Sampling::default());
            assert_eq!(read.ok().map(|request| request.prompts), expected, "{prompt}");
        };
        let text = |text: &str| Prompt::Text(text.into());
        check(json!("a"), Some(vec![text("a")]));
        check(json!(["a", "b"]), Some(vec![text("a"), text("b")]));
        check(json!([1, 2]), Some(vec![Prompt::Ids(vec![1, 2])]));
        check(json!([[1], [2, 3]]), Some(vec![Prompt::Ids(vec![1]), Prompt::Ids(vec![2, 3])]));
        check(json!([]), None);
        check(json!([1, "a"]), None);
        check(json!(null), None);
        check(json!([-1]), None);
    }
}
