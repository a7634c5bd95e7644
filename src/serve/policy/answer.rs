//! What does an answer look like? Sampled tokens become the JSON of OpenAI's API, whole or in pieces.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tandem_host::policy::{FinishReason, ToolCall};
use tandem_trainer::generate::{Finish, Sampled, SampledToken};
use tandem_trainer::tokenizer::{TextStream, TokenizerError};

use super::dialect::Parsed;
use super::engine::Engine;
use super::request::Common;
use crate::serve::refusal::Refusal;

/// Which of the two kinds of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Chat,
    Text,
}

/// An answer that grows.
pub struct Answer {
    engine: Arc<Engine>,
    kind: Kind,
    how: Common,
    /// Names of the tools that may be called.
    tools: Vec<String>,
    prompts: Vec<Vec<u32>>,
    replies: Vec<Reply>,
    id: String,
    created: u64,
}

/// One reply, as far as it is sampled.
struct Reply {
    stream: TextStream,
    /// Its text, as far as it is certain.
    text: String,
    characters: usize,
    /// Bytes of `text` that were sent.
    sent: usize,
    tokens: Vec<SampledToken>,
    /// Where each token begins in the text, characters.
    offsets: Vec<usize>,
    /// Tokens that were sent.
    told: usize,
    end: Option<End>,
}

/// How a reply ended.
struct End {
    parsed: Parsed,
    reason: &'static str,
    /// The stop text that ended it.
    stop: Option<String>,
    version: u64,
}

/// A number that nobody can guess before.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Answer {
    /// An answer with `how.n` replies to each prompt.
    pub fn new(
        engine: Arc<Engine>,
        kind: Kind,
        how: Common,
        tools: Vec<String>,
        prompts: Vec<Vec<u32>>,
    ) -> Self {
        let hidden: &[String] = if how.keeps_stop { &[] } else { &how.stop };
        let reply = || Reply {
            stream: TextStream::new(&engine.tokenizer, hidden),
            text: String::new(),
            characters: 0,
            sent: 0,
            tokens: Vec::new(),
            offsets: Vec::new(),
            told: 0,
            end: None,
        };
        let replies = (0..prompts.len() * how.n).map(|_| reply()).collect();
        let word = if kind == Kind::Chat { "chatcmpl" } else { "cmpl" };
        let id = format!("{word}-{:016x}{:016x}", random(), random());
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Self { engine, kind, how, tools, prompts, replies, id, created }
    }

    /// Adds a token to a reply.
    ///
    /// # Errors
    /// Tokens that do not decode.
    pub fn push(&mut self, number: usize, token: SampledToken) -> Result<(), Refusal> {
        let is_end = self.engine.chat.end_ids().contains(&token.id);
        let reply = &mut self.replies[number];
        reply.tokens.push(token);
        reply.offsets.push(reply.characters);
        if !is_end {
            let piece = reply.stream.push(token.id).map_err(undecodable)?;
            reply.characters += piece.chars().count();
            reply.text.push_str(&piece);
        }
        Ok(())
    }

    /// Ends a reply.
    ///
    /// # Errors
    /// Tokens that do not decode.
    pub fn end(&mut self, number: usize, sampled: &Sampled) -> Result<(), Refusal> {
        let engine = &self.engine;
        let reply = &mut self.replies[number];
        reply.text.push_str(&reply.stream.finish().map_err(undecodable)?);
        let finish = match sampled.finish {
            Finish::Stop => FinishReason::Stop,
            Finish::Length => FinishReason::Length,
        };
        let by_token = sampled.ids.last().is_some_and(|last| engine.chat.end_ids().contains(last));
        let stop = match finish == FinishReason::Stop && !by_token {
            true => {
                let whole = engine.tokenizer.decode(&sampled.ids).map_err(undecodable)?;
                self.how.stop.iter().find(|stop| whole.contains(stop.as_str())).cloned()
            }
            false => None,
        };
        let mut parsed = match self.tools.is_empty() {
            true => Parsed { content: reply.text.clone(), ..Parsed::default() },
            false => engine.dialect.parse(&reply.text, &self.tools, finish),
        };
        for call in &mut parsed.calls {
            call.id = format!("call_{:016x}", random());
        }
        let reason = match finish {
            FinishReason::Length => "length",
            FinishReason::Stop if !parsed.calls.is_empty() => "tool_calls",
            FinishReason::Stop => "stop",
        };
        reply.end = Some(End { parsed, reason, stop, version: sampled.version });
        Ok(())
    }

    /// Tokens of all prompts and of all replies.
    pub fn tokens(&self) -> (u64, u64) {
        let prompts: usize = self.prompts.iter().map(Vec::len).sum();
        let replies: usize = self.replies.iter().map(|reply| reply.tokens.len()).sum();
        (prompts as u64, replies as u64)
    }

    /// The whole answer, once every reply has ended.
    pub fn whole(&self) -> Value {
        let object = if self.kind == Kind::Chat { "chat.completion" } else { "text_completion" };
        let mut answer = self.head(object);
        answer["choices"] = (0..self.replies.len()).map(|number| self.choice(number)).collect();
        answer["usage"] = self.usage();
        if self.how.token_ids && self.kind == Kind::Chat {
            answer["prompt_token_ids"] = json!(self.prompts[0]);
        }
        answer
    }

    fn head(&self, object: &str) -> Value {
        let version = self.replies.iter().find_map(|reply| reply.end.as_ref().map(|end| end.version));
        let version = version.unwrap_or_else(|| self.engine.generator.version());
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.engine.name,
            "system_fingerprint": format!("policy-v{version}"),
        })
    }

    fn usage(&self) -> Value {
        let (prompt, reply) = self.tokens();
        json!({"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply})
    }

    fn choice(&self, number: usize) -> Value {
        let reply = &self.replies[number];
        let mut choice = json!({"index": number, "logprobs": null});
        if let Some(end) = &reply.end {
            choice["finish_reason"] = json!(end.reason);
            choice["stop_reason"] = json!(end.stop);
            match self.kind {
                Kind::Text => choice["text"] = json!(end.parsed.content),
                Kind::Chat => {
                    let mut message =
                        json!({"role": "assistant", "content": end.parsed.content, "refusal": null});
                    if !end.parsed.calls.is_empty() {
                        message["tool_calls"] = end.parsed.calls.iter().map(wire).collect();
                        if end.parsed.content.is_empty() {
                            message["content"] = Value::Null;
                        }
                    }
                    choice["message"] = message;
                }
            }
        }
        self.tell_tokens(&mut choice, number, 0);
        if self.how.token_ids && self.kind == Kind::Text {
            choice["prompt_token_ids"] = json!(self.prompts[number / self.how.n]);
        }
        choice
    }

    /// Puts log-probabilities and ids of the tokens from `from` on into a choice, where they are asked for.
    fn tell_tokens(&self, choice: &mut Value, number: usize, from: usize) {
        let reply = &self.replies[number];
        let tokens = &reply.tokens[from..];
        let text =
            |token: &SampledToken| self.engine.tokenizer.decode_with_special(&[token.id]).unwrap_or_default();
        if self.how.token_ids {
            choice["token_ids"] = tokens.iter().map(|token| token.id).collect();
        }
        if !self.how.logprobs {
            return;
        }
        choice["logprobs"] = match self.kind {
            Kind::Chat => {
                let entries = tokens.iter().map(|token| {
                    let text = text(token);
                    // A part of a character has no text of its own.
                    let bytes = (!text.contains('\u{fffd}')).then(|| text.clone().into_bytes());
                    json!({"token": text, "logprob": token.logprob, "bytes": bytes, "top_logprobs": []})
                });
                json!({"content": entries.collect::<Vec<_>>(), "refusal": null})
            }
            Kind::Text => json!({
                "tokens": tokens.iter().map(text).collect::<Vec<_>>(),
                "token_logprobs": tokens.iter().map(|token| token.logprob).collect::<Vec<_>>(),
                "top_logprobs": null,
                "text_offset": &reply.offsets[from..],
            }),
        };
    }

    /// The events with which a streamed answer begins.
    pub fn first_events(&self) -> Vec<Value> {
        if self.kind == Kind::Text {
            return Vec::new();
        }
        let event = |number: usize| {
            let mut event = self.chunk(number, json!({"role": "assistant", "content": ""}), None);
            if self.how.token_ids && number == 0 {
                event["prompt_token_ids"] = json!(self.prompts[0]);
            }
            event
        };
        (0..self.replies.len()).map(event).collect()
    }

    /// What is new of a reply, if it can be told already: text that may belong to a call waits for its end.
    pub fn news(&mut self, number: usize) -> Option<Value> {
        let marker = (!self.tools.is_empty()).then(|| self.engine.dialect.marker());
        let reply = &self.replies[number];
        let certain = marker.map_or(reply.text.len(), |marker| before(&reply.text, marker));
        let (from, told) = (reply.sent, reply.told);
        if certain <= from {
            return None;
        }
        let piece = reply.text[from..certain].to_owned();
        let delta = self.delta(piece);
        let mut event = self.chunk(number, delta, None);
        self.tell_tokens(&mut event["choices"][0], number, told);
        let reply = &mut self.replies[number];
        (reply.sent, reply.told) = (certain, reply.tokens.len());
        Some(event)
    }

    /// The last events of a reply that has ended.
    pub fn last_events(&mut self, number: usize) -> Vec<Value> {
        let reply = &self.replies[number];
        let Some(end) = &reply.end else { return Vec::new() };
        let mut events = Vec::new();
        let rest = end.parsed.content.get(reply.sent..).unwrap_or_default().to_owned();
        let unsaid = reply.told < reply.tokens.len() && (self.how.logprobs || self.how.token_ids);
        if !rest.is_empty() || unsaid {
            let mut event = self.chunk(number, self.delta(rest), None);
            self.tell_tokens(&mut event["choices"][0], number, reply.told);
            events.push(event);
        }
        for (index, call) in end.parsed.calls.iter().enumerate() {
            let mut call = wire(call);
            call["index"] = json!(index);
            events.push(self.chunk(number, json!({"tool_calls": [call]}), None));
        }
        let delta = if self.kind == Kind::Chat { json!({}) } else { json!("") };
        let mut last = self.chunk(number, delta, Some(end.reason));
        last["choices"][0]["stop_reason"] = json!(end.stop);
        events.push(last);
        let reply = &mut self.replies[number];
        reply.told = reply.tokens.len();
        events
    }

    /// The event with the usage, where it is asked for.
    pub fn usage_event(&self) -> Option<Value> {
        let mut event = self.head(self.chunk_object());
        event["choices"] = json!([]);
        event["usage"] = self.usage();
        self.how.include_usage.then_some(event)
    }

    fn chunk_object(&self) -> &'static str {
        if self.kind == Kind::Chat { "chat.completion.chunk" } else { "text_completion" }
    }

    fn delta(&self, text: String) -> Value {
        if self.kind == Kind::Chat { json!({"content": text}) } else { json!(text) }
    }

    fn chunk(&self, number: usize, delta: Value, reason: Option<&str>) -> Value {
        let mut event = self.head(self.chunk_object());
        let word = if self.kind == Kind::Chat { "delta" } else { "text" };
        event["choices"] = json!([{"index": number, word: delta, "logprobs": null, "finish_reason": reason}]);
        if self.how.include_usage {
            event["usage"] = Value::Null;
        }
        event
    }
}

/// A call as it is written.
fn wire(call: &ToolCall) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments.to_string()});
    json!({"id": call.id, "type": "function", "function": function})
}

/// How many bytes of a text are certain to be no part of what begins with `marker`.
fn before(text: &str, marker: &str) -> usize {
    text.find(marker).unwrap_or_else(|| {
        let begun = (1..marker.len().min(text.len() + 1)).rev();
        let begun = begun
            .filter(|length| marker.is_char_boundary(*length))
            .find(|length| text.ends_with(&marker[..*length]));
        text.len() - begun.unwrap_or(0)
    })
}

fn undecodable(error: TokenizerError) -> Refusal {
    Refusal::internal(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_held_back_from_where_a_call_may_begin() {
        let check = |text: &str, expected: &str| assert_eq!(&text[..before(text, "```")], expected);
        check("", "");
        check("abc", "abc");
        check("abc`", "abc");
        check("abc``", "abc");
        check("abc```bash", "abc");
        check("a`b", "a`b");
        check("é``", "é");
    }
}
