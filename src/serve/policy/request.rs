//! What does a request ask for? Its JSON becomes checked values.

use serde_json::Value;
use tandem_host::policy::Sampling;
use tandem_trainer::tokenizer::ChatMessage;

use super::conversation::{Prompt, messages, prompts, tools};
use super::fields::{Fields, wanted};
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

impl Common {
    fn read(fields: &Fields, defaults: &Sampling) -> Result<Self, Refusal> {
        let Some(model) = fields.get("model").and_then(Value::as_str) else {
            return Err(Refusal::of_parameter(
                "model",
                "`model` is missing; `/v1/models` lists what there is",
            ));
        };
        let n = fields.count("n", REPLIES)?.unwrap_or(1);
        let max_tokens = fields.count("max_tokens", usize::MAX)?;
        for (name, value) in [("n", Some(n)), ("max_tokens", max_tokens)] {
            if value == Some(0) {
                return Err(wanted(name, "at least 1", &Value::from(0)));
            }
        }
        let stream = fields.flag("stream")?;
        let include_usage = match fields.get("stream_options") {
            None => false,
            Some(_) if !stream => {
                return Err(Refusal::of_parameter("stream_options", "`stream_options` need `stream`"));
            }
            Some(options) => options["include_usage"] == true,
        };
        let seed = match fields.get("seed") {
            None => None,
            Some(value) => {
                let seed = value.as_u64().or_else(|| value.as_i64().map(|seed| seed as u64));
                Some(seed.ok_or_else(|| wanted("seed", "a whole number of 64 bits", value))?)
            }
        };
        Ok(Self {
            model: model.to_owned(),
            n,
            stream,
            include_usage,
            max_tokens,
            temperature: fields.number(
                "temperature",
                defaults.temperature,
                "a number from 0 to 2",
                |number| (0.0..=2.0).contains(&number),
            )?,
            top_p: fields.number("top_p", 1.0, "a number over 0 and at most 1", |number| {
                number > 0.0 && number <= 1.0
            })?,
            top_k: match fields.get("top_k") {
                // As other servers have it: all of them.
                Some(value) if value.as_i64() == Some(-1) => 0,
                _ => fields.count("top_k", usize::MAX)?.unwrap_or(0),
            },
            seed,
            stop: stops(fields, defaults)?,
            keeps_stop: fields.get("stop").is_none() || fields.flag("include_stop_str_in_output")?,
            logprobs: false,
            token_ids: fields.flag("return_token_ids")?,
            ignore_eos: fields.flag("ignore_eos")?,
        })
    }
}

fn stops(fields: &Fields, defaults: &Sampling) -> Result<Vec<String>, Refusal> {
    let stops: Vec<&Value> = match fields.get("stop") {
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
        let mut common = Common::read(&fields, defaults)?;
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
        let mut common = Common::read(&fields, defaults)?;
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

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::json;
    use tandem_trainer::tokenizer::ChatRole;

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
