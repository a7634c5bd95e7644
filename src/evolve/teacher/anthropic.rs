//! The wire format of Anthropic's messages, whole and streamed.
//!
//! API reference, "Messages" and "Streaming messages": a stream is
//! `message_start`, for each content block `content_block_start`, deltas and
//! `content_block_stop`, then `message_delta` with the stop reason and the total
//! of output tokens, and `message_stop`; `ping` and `error` may come at any time,
//! and kinds of events that are not known are passed over.

use serde_json::{Value, json};

use super::backend::Trouble;
use super::config::TeacherConfig;
use super::request::{Finish, TeacherRequest};
use super::wire::{Partial, unreadable};

pub const PATH: &str = "/messages";
/// The value of the header `anthropic-version`.
pub const VERSION: &str = "2023-06-01";

/// The body of a request.
pub fn body(config: &TeacherConfig, request: &TeacherRequest) -> Value {
    let messages: Vec<Value> =
        request.turns().map(|(role, text)| json!({"role": role, "content": text})).collect();
    let mut body = json!({"model": config.model, "system": request.system, "messages": messages});
    body[&config.max_tokens_key] = json!(config.max_tokens);
    if let Some(temperature) = config.temperature {
        body["temperature"] = json!(temperature);
    }
    if config.stream {
        body["stream"] = json!(true);
    }
    body
}

/// Takes a whole answer.
pub fn whole(host: &str, text: &str, partial: &mut Partial) -> Result<(), Trouble> {
    let answer: Value = serde_json::from_str(text).map_err(|error| unreadable(host, error))?;
    if answer["type"] == "error" {
        return Err(failed(host, &answer, partial));
    }
    let Some(blocks) = answer["content"].as_array() else {
        return Err(unreadable(host, "there is no `content` in it"));
    };
    for block in blocks.iter().filter(|block| block["type"] == "text") {
        partial.text.push_str(block["text"].as_str().unwrap_or_default());
    }
    take_usage(&answer["usage"], partial);
    take_reason(&answer["stop_reason"], partial);
    partial.ended = true;
    Ok(())
}

/// Takes the data of one event of a stream; it names its own kind.
pub fn event(host: &str, data: &str, partial: &mut Partial) -> Result<(), Trouble> {
    let event: Value = serde_json::from_str(data).map_err(|error| unreadable(host, error))?;
    match event["type"].as_str().unwrap_or_default() {
        "message_start" => take_usage(&event["message"]["usage"], partial),
        "content_block_start" => {
            partial.text.push_str(event["content_block"]["text"].as_str().unwrap_or_default());
        }
        // Deltas of thinking, of its signature and of tool input are no text of the reply.
        "content_block_delta" if event["delta"]["type"] == "text_delta" => {
            partial.text.push_str(event["delta"]["text"].as_str().unwrap_or_default());
        }
        "message_delta" => {
            take_reason(&event["delta"]["stop_reason"], partial);
            take_usage(&event["usage"], partial);
        }
        "message_stop" => partial.ended = true,
        "error" => return Err(failed(host, &event, partial)),
        _ => {}
    }
    Ok(())
}

/// Counts of output tokens are totals. Input read from or written to the cache is paid for too.
fn take_usage(usage: &Value, partial: &mut Partial) {
    if let Some(input) = usage["input_tokens"].as_u64() {
        let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
        let cached: u64 = cached.iter().filter_map(|key| usage[*key].as_u64()).sum();
        partial.prompt_tokens = Some(input + cached);
    }
    if let Some(output) = usage["output_tokens"].as_u64() {
        partial.reply_tokens = Some(output);
    }
}

fn take_reason(reason: &Value, partial: &mut Partial) {
    partial.finish = match reason.as_str() {
        None => partial.finish,
        Some("max_tokens" | "model_context_window_exceeded") => Some(Finish::Length),
        Some("refusal") => Some(Finish::Refusal),
        Some(_) => Some(Finish::End),
    };
}

fn failed(host: &str, answer: &Value, partial: &Partial) -> Trouble {
    let said = answer["error"]["message"].as_str().unwrap_or("no message");
    let kind = answer["error"]["type"].as_str().unwrap_or("error");
    let said: String = said.chars().take(300).collect();
    Trouble::passing(format!("{host} reported an error in its answer: {kind}: {said}")).after(&partial.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: [&str; 9] = [
        r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_read_input_tokens":5,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"a_kind_of_tomorrow","x":1}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}"#,
        r#"{"type":"message_stop"}"#,
    ];

    #[test]
    fn events_add_up_to_a_reply() {
        let mut partial = Partial::default();
        for data in STREAM {
            event("host", data, &mut partial).unwrap();
        }
        let expected = Partial {
            text: "Hello".into(),
            finish: Some(Finish::End),
            prompt_tokens: Some(30),
            reply_tokens: Some(15),
            ended: true,
        };
        assert_eq!(partial, expected);
    }

    #[test]
    fn thinking_is_no_text_of_the_reply() {
        let mut partial = Partial::default();
        for data in [
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"x"}}"#,
        ] {
            event("host", data, &mut partial).unwrap();
        }
        assert_eq!(partial, Partial::default());
    }

    #[test]
    fn an_error_in_a_stream_keeps_what_had_come() {
        let mut partial = Partial { text: "half".into(), ..Partial::default() };
        let data = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
        let trouble = event("host", data, &mut partial).unwrap_err();
        let what = "host reported an error in its answer: overloaded_error: Overloaded";
        assert_eq!(trouble, Trouble::passing(what).after("half"));
    }

    #[test]
    fn a_whole_answer_is_read() {
        let check = |reason: &str, expected| {
            let text = format!(
                r#"{{"type":"message","content":[{{"type":"thinking","thinking":"hm"}},{{"type":"text","text":"Hi"}}],"stop_reason":"{reason}","usage":{{"input_tokens":3,"output_tokens":1}}}}"#
            );
            let mut partial = Partial::default();
            whole("host", &text, &mut partial).unwrap();
            assert_eq!((partial.text.as_str(), partial.finish), ("Hi", Some(expected)), "{reason}");
        };
        check("end_turn", Finish::End);
        check("stop_sequence", Finish::End);
        check("max_tokens", Finish::Length);
        check("refusal", Finish::Refusal);
        assert!(whole("host", "{}", &mut Partial::default()).is_err());
    }

    #[test]
    fn the_request_is_in_the_format_of_messages() {
        let request = TeacherRequest {
            role: super::super::TeacherRole::Skill,
            system: "s".into(),
            user: "u".into(),
            repairs: Vec::new(),
        };
        let config =
            TeacherConfig { model: "m".into(), max_tokens: 7, stream: false, ..TeacherConfig::default() };
        assert_eq!(
            body(&config, &request),
            json!({"model": "m", "max_tokens": 7, "system": "s", "messages": [{"role": "user", "content": "u"}]})
        );
    }
}
