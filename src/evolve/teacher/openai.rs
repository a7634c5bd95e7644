//! The wire format of OpenAI's chat completions, whole and streamed.
//!
//! API reference, "Create chat completion" and "The chat completion chunk
//! object": a stream is a sequence of `data:` events with one JSON chunk each and
//! ends with `data: [DONE]`; the chunk with the usage has no choice.

use serde::Deserialize;
use serde_json::{Value, json};

use super::backend::Trouble;
use super::config::TeacherConfig;
use super::request::{Finish, TeacherRequest};
use super::wire::{Partial, unreadable};

pub const PATH: &str = "/chat/completions";

/// The body of a request.
pub fn body(config: &TeacherConfig, request: &TeacherRequest) -> Value {
    let system = [json!({"role": "system", "content": request.system})];
    let turns = request.turns().map(|(role, text)| json!({"role": role, "content": text}));
    let messages: Vec<Value> = system.into_iter().chain(turns).collect();
    let mut body = json!({"model": config.model, "messages": messages});
    body[&config.max_tokens_key] = json!(config.max_tokens);
    if let Some(temperature) = config.temperature {
        body["temperature"] = json!(temperature);
    }
    if config.stream {
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
    }
    body
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    /// In a whole answer.
    #[serde(default)]
    message: Option<Content>,
    /// In a chunk.
    #[serde(default)]
    delta: Option<Content>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
}

/// Takes a whole answer.
pub fn whole(host: &str, text: &str, partial: &mut Partial) -> Result<(), Trouble> {
    let answer: Answer = serde_json::from_str(text).map_err(|error| unreadable(host, error))?;
    if answer.error.is_none() && answer.choices.is_empty() {
        return Err(unreadable(host, "there is no choice in it"));
    }
    take(host, answer, partial)?;
    partial.ended = true;
    Ok(())
}

/// Takes the data of one event of a stream.
pub fn event(host: &str, data: &str, partial: &mut Partial) -> Result<(), Trouble> {
    if data.trim() == "[DONE]" {
        partial.ended = true;
        return Ok(());
    }
    let answer: Answer = serde_json::from_str(data).map_err(|error| unreadable(host, error))?;
    take(host, answer, partial)
}

fn take(host: &str, answer: Answer, partial: &mut Partial) -> Result<(), Trouble> {
    if let Some(error) = answer.error.filter(|error| !error.is_null()) {
        let said = error["message"].as_str().map_or_else(|| error.to_string(), str::to_owned);
        let said: String = said.chars().take(300).collect();
        return Err(
            Trouble::passing(format!("{host} reported an error in its answer: {said}")).after(&partial.text)
        );
    }
    if let Some(usage) = answer.usage {
        partial.prompt_tokens = usage.prompt_tokens.or(partial.prompt_tokens);
        partial.reply_tokens = usage.completion_tokens.or(partial.reply_tokens);
    }
    for choice in answer.choices.into_iter().filter(|choice| choice.index == 0) {
        let content = choice.message.or(choice.delta);
        let (text, refusal) = content.map_or((None, None), |content| (content.content, content.refusal));
        partial.text.push_str(&text.unwrap_or_default());
        if let Some(refusal) = refusal.filter(|refusal| !refusal.is_empty()) {
            partial.text.push_str(&refusal);
            partial.finish = Some(Finish::Refusal);
        }
        let finish = match choice.finish_reason.as_deref() {
            None => continue,
            Some("length") => Finish::Length,
            Some("content_filter") => Finish::Refusal,
            Some(_) => Finish::End,
        };
        // A refusal that was told in its own field ends with `stop`.
        if partial.finish != Some(Finish::Refusal) {
            partial.finish = Some(finish);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(events: &[&str], expected: Partial) {
        let mut partial = Partial::default();
        for data in events {
            event("host", data, &mut partial).unwrap();
        }
        assert_eq!(partial, expected);
    }

    #[test]
    fn chunks_add_up_to_a_reply() {
        check(
            &[
                r#"{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}"#,
                r#"{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]}"#,
                r#"{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]}"#,
                r#"{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
                r#"{"id":"c1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}"#,
                "[DONE]",
            ],
            Partial {
                text: "Hello".into(),
                finish: Some(Finish::End),
                prompt_tokens: Some(9),
                reply_tokens: Some(2),
                ended: true,
            },
        );
    }

    #[test]
    fn a_reply_at_its_limit_and_a_refusal_are_told_apart_from_an_end() {
        let finish = |events: &[&str], expected| {
            let mut partial = Partial::default();
            for data in events {
                event("host", data, &mut partial).unwrap();
            }
            assert_eq!(partial.finish, expected, "{events:?}");
        };
        let ends = |reason: &str| format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#);
        finish(&[&ends("length")], Some(Finish::Length));
        finish(&[&ends("content_filter")], Some(Finish::Refusal));
        finish(&[r#"{"choices":[{"delta":{"refusal":"No."}}]}"#, &ends("stop")], Some(Finish::Refusal));
        finish(&[r#"{"choices":[{"delta":{"content":"x"}}]}"#], None);
        finish(&[r#"{"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}"#], None);
    }

    #[test]
    fn an_error_in_a_stream_keeps_what_had_come() {
        let mut partial = Partial { text: "half".into(), ..Partial::default() };
        let trouble = event("host", r#"{"error":{"message":"overloaded"}}"#, &mut partial).unwrap_err();
        assert_eq!(
            trouble,
            Trouble::passing("host reported an error in its answer: overloaded").after("half")
        );
    }

    #[test]
    fn a_whole_answer_is_read_and_other_shapes_are_refused() {
        let mut partial = Partial::default();
        let text = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi","refusal":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
        whole("host", text, &mut partial).unwrap();
        assert_eq!(
            (partial.text.as_str(), partial.finish, partial.reply_tokens),
            ("Hi", Some(Finish::End), Some(1))
        );
        for text in ["{}", "<html>", "[]"] {
            let trouble = whole("host", text, &mut Partial::default()).unwrap_err();
            assert!(trouble.what.starts_with("host answered in another shape"), "{}", trouble.what);
        }
    }

    #[test]
    fn the_request_is_in_the_format_of_chat_completions() {
        let request = TeacherRequest {
            role: super::super::TeacherRole::Harness,
            system: "s".into(),
            user: "u".into(),
            repairs: vec![super::super::request::Repair { reply: "a".into(), reason: "r".into() }],
        };
        let config = TeacherConfig {
            model: "m".into(),
            max_tokens: 7,
            max_tokens_key: "max_completion_tokens".into(),
            temperature: Some(0.5),
            ..TeacherConfig::default()
        };
        assert_eq!(
            body(&config, &request),
            json!({
                "model": "m", "max_completion_tokens": 7, "temperature": 0.5,
                "stream": true, "stream_options": {"include_usage": true},
                "messages": [
                    {"role": "system", "content": "s"}, {"role": "user", "content": "u"},
                    {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"},
                ],
            })
        );
    }
}
