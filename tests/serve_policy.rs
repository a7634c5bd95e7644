//! Does `tandem serve policy` answer as OpenAI's API does, and does it stand what clients do to it?

mod program;
#[path = "program/served.rs"]
mod served;
#[path = "program/tiny.rs"]
mod tiny;

use std::io::Write;

use expect_test::{Expect, expect};
use program::Program;
use serde_json::{Value, json};
use served::{Answer, Served, half_close, is_closed, long, policy, read_until};

const TOKEN: &str = "a-token-that-nobody-guesses";

fn start(more: &[&str]) -> (Served, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = policy(folder.path()).to_string_lossy().into_owned();
    let words = ["serve", "policy", &path, "--listen", "127.0.0.1:0"];
    let served = Served::start(&[&words, more].concat(), &[]);
    (served, folder)
}

fn chat(more: Value) -> Value {
    let mut body = json!({
        "model": "tiny", "seed": 3, "max_tokens": 12,
        "messages": [{"role": "user", "content": "hi"}],
    });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// A random policy says random bytes; what is not random is compared.
fn without_chance(value: &mut Value) {
    for key in ["id", "created", "content", "logprob", "token", "bytes", "text", "token_ids"] {
        if let Some(found) = value.get_mut(key)
            && !found.is_null()
            && !(key == "id" && *found == "tiny")
            && !(key == "content" && found.is_array())
        {
            *found = json!("…");
        }
    }
    match value {
        Value::Object(map) => map.values_mut().for_each(without_chance),
        Value::Array(list) => {
            list.truncate(1);
            list.iter_mut().for_each(without_chance);
        }
        _ => {}
    }
}

#[test]
fn answers_have_the_shape_of_openais() {
    let (served, _folder) = start(&[]);
    let check = |answer: Answer, expected: Expect| {
        assert_eq!(answer.status, 200, "{answer:?}");
        let mut value = answer.json();
        without_chance(&mut value);
        expected.assert_eq(&value.to_string());
    };
    check(
        served.get("/v1/models"),
        expect![[
            r#"{"data":[{"created":"…","id":"tiny","max_model_len":8192,"object":"model","owned_by":"tandem"}],"object":"list"}"#
        ]],
    );
    check(
        served.get("/v1/models/tiny"),
        expect![[r#"{"created":"…","id":"tiny","max_model_len":8192,"object":"model","owned_by":"tandem"}"#]],
    );
    check(served.get("/health"), expect![[r#"{"model":"tiny","policy_version":4,"status":"ok"}"#]]);
    let asked = chat(json!({"temperature": 0, "max_tokens": 2, "logprobs": true, "return_token_ids": true}));
    check(
        served.post("/v1/chat/completions", &asked),
        expect![[
            r#"{"choices":[{"finish_reason":"length","index":0,"logprobs":{"content":[{"bytes":null,"logprob":"…","token":"…","top_logprobs":[]}],"refusal":null},"message":{"content":"…","refusal":null,"role":"assistant"},"stop_reason":null,"token_ids":"…"}],"created":"…","id":"…","model":"tiny","object":"chat.completion","prompt_token_ids":[257],"system_fingerprint":"policy-v4","usage":{"completion_tokens":2,"prompt_tokens":21,"total_tokens":23}}"#
        ]],
    );
    let asked = json!({"model": "tiny", "prompt": "ab", "max_tokens": 2, "temperature": 0, "logprobs": 0});
    check(
        served.post("/v1/completions", &asked),
        expect![[
            r#"{"choices":[{"finish_reason":"length","index":0,"logprobs":{"text_offset":[0],"token_logprobs":[-2.429246187210083],"tokens":["a"],"top_logprobs":null},"stop_reason":null,"text":"…"}],"created":"…","id":"…","model":"tiny","object":"text_completion","system_fingerprint":"policy-v4","usage":{"completion_tokens":2,"prompt_tokens":2,"total_tokens":4}}"#
        ]],
    );
}

#[test]
fn errors_say_what_is_wrong_and_with_which_status() {
    let (served, _folder) = start(&["--context", "100", "--body-bytes", "5000"]);
    let check = |answer: Answer, status: u16, expected: Expect| {
        assert_eq!(answer.status, status, "{answer:?}");
        expected.assert_eq(&answer.body);
    };
    let post = |body: Value| served.post("/v1/chat/completions", &body);
    check(
        served.get("/v2"),
        404,
        expect![[
            r#"{"error":{"code":"not_found","message":"there is nothing at /v2","param":null,"type":"not_found_error"}}"#
        ]],
    );
    check(
        served.get("/v1/chat/completions"),
        405,
        expect![[
            r#"{"error":{"code":"method_not_allowed","message":"GET is not taken at /v1/chat/completions","param":null,"type":"not_found_error"}}"#
        ]],
    );
    check(
        served.get("/v1/models/other"),
        404,
        expect![[
            r#"{"error":{"code":"model_not_found","message":"there is no model `other` here; there is `tiny`","param":"model","type":"not_found_error"}}"#
        ]],
    );
    check(
        post(chat(json!({"model": "other"}))),
        404,
        expect![[
            r#"{"error":{"code":"model_not_found","message":"there is no model `other` here; there is `tiny`","param":"model","type":"not_found_error"}}"#
        ]],
    );
    check(
        served.ask("POST", "/v1/chat/completions", "", "{"),
        400,
        expect![[
            r#"{"error":{"code":"invalid_json","message":"the body is no JSON: EOF while parsing an object at line 1 column 1","param":null,"type":"invalid_request_error"}}"#
        ]],
    );
    check(
        post(chat(json!({"temperature": -1}))),
        400,
        expect![[
            r#"{"error":{"code":"invalid_value","message":"`temperature` is -1, wanted a number from 0 to 2","param":"temperature","type":"invalid_request_error"}}"#
        ]],
    );
    check(
        post(chat(json!({"top_logprobs": 3, "logprobs": true}))),
        400,
        expect![[
            r#"{"error":{"code":"invalid_value","message":"`top_logprobs` is 3; the sampler tells the log-probability of the sampled token alone, under the distribution that it was drawn from, so `top_logprobs` can be 0","param":"top_logprobs","type":"invalid_request_error"}}"#
        ]],
    );
    check(
        post(chat(json!({"max_tokens": 90}))),
        400,
        expect![[
            r#"{"error":{"code":"context_length_exceeded","message":"this model's maximum context length is 100 tokens, and the request needs 111: 21 of the prompt and 90 of the reply","param":null,"type":"invalid_request_error"}}"#
        ]],
    );
    let ids = json!({"model": "tiny", "prompt": [1, 999]});
    check(
        served.post("/v1/completions", &ids),
        400,
        expect![[
            r#"{"error":{"code":"invalid_value","message":"token 999 is not in the vocabulary of 259","param":"prompt","type":"invalid_request_error"}}"#
        ]],
    );
    let many = "x".repeat(5001);
    check(
        served.ask("POST", "/v1/completions", "", &many),
        413,
        expect![[
            r#"{"error":{"code":"body_too_large","message":"the body has 5001 bytes, and at most 5000 are taken","param":null,"type":"invalid_request_error"}}"#
        ]],
    );
}

#[test]
fn a_stream_says_what_a_whole_answer_says() {
    let (served, _folder) = start(&[]);
    let plain = served.post("/v1/chat/completions", &chat(json!({"n": 2, "logprobs": true}))).json();
    let asked = chat(json!({
        "n": 2, "stream": true, "stream_options": {"include_usage": true}, "logprobs": true, "return_token_ids": true,
    }));
    let streamed = served.post("/v1/chat/completions", &asked);
    assert_eq!(streamed.header("content-type").as_deref(), Some("text/event-stream"));
    let events = streamed.events();
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"));
    let events: Vec<Value> =
        events[..events.len() - 1].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    assert_eq!(events.last().unwrap()["usage"], plain["usage"]);
    assert!(events[0]["prompt_token_ids"].is_array());
    for index in 0..2 {
        let (mut text, mut tokens, mut ids, mut finish) = (String::new(), Vec::new(), 0, Value::Null);
        for choice in events.iter().flat_map(|event| event["choices"].as_array().unwrap()) {
            if choice["index"] == index {
                text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
                tokens.extend(choice["logprobs"]["content"].as_array().into_iter().flatten().cloned());
                ids += choice["token_ids"].as_array().map_or(0, Vec::len);
                finish = choice["finish_reason"].clone();
            }
        }
        let whole = &plain["choices"][index];
        assert_eq!(text, whole["message"]["content"]);
        same_tokens(&tokens, whole);
        assert_eq!((ids, &finish), (tokens.len(), &whole["finish_reason"]));
    }
    assert_ne!(plain["choices"][0]["message"], plain["choices"][1]["message"], "each reply has its own seed");
    let again = served.post("/v1/chat/completions", &chat(json!({"n": 2, "logprobs": true}))).json();
    for index in 0..2 {
        let (again, plain) = (&again["choices"][index], &plain["choices"][index]);
        assert_eq!(again["message"], plain["message"], "the same seed gives the same replies");
        same_tokens(again["logprobs"]["content"].as_array().unwrap(), plain);
    }
}

/// Whether tokens are those of a whole answer. Log-probabilities differ in the last bits by what else is
/// computed in one batch.
fn same_tokens(tokens: &[Value], whole: &Value) {
    let others = whole["logprobs"]["content"].as_array().unwrap();
    assert_eq!(tokens.len(), others.len());
    for (one, other) in tokens.iter().zip(others) {
        let apart = one["logprob"].as_f64().unwrap() - other["logprob"].as_f64().unwrap();
        assert!(one["token"] == other["token"] && apart.abs() < 1e-3, "{one} {other}");
    }
}

#[test]
fn a_stop_text_ends_a_reply_and_is_no_part_of_it() {
    let (served, _folder) = start(&[]);
    let ask = |more: Value| {
        let mut asked = json!({"model": "tiny", "prompt": "a", "max_tokens": 200, "temperature": 0});
        more.as_object().unwrap().iter().for_each(|(name, value)| asked[name] = value.clone());
        served.post("/v1/completions", &asked).json()["choices"][0].clone()
    };
    let whole = ask(json!({}));
    let text = whole["text"].as_str().unwrap();
    // Some piece of the reply that is whole characters.
    let stop: String = text.chars().skip(3).filter(|c| *c != '\u{fffd}').take(1).collect();
    let stopped = ask(json!({"stop": stop}));
    assert_eq!(stopped["finish_reason"], "stop");
    assert_eq!(stopped["stop_reason"], stop);
    let before = text.split(stop.as_str()).next().unwrap();
    assert_eq!(stopped["text"], before);
    let kept = ask(json!({"stop": stop, "include_stop_str_in_output": true}));
    assert_eq!(kept["text"], format!("{before}{stop}"));
}

#[test]
fn nobody_listens_for_others_without_a_token() {
    let run = |words: &[&str], token: Option<&str>| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let program = Program::new(&words);
        match token {
            Some(token) => program.env("TANDEM_SERVE_TOKEN", token).run(),
            None => program.run(),
        }
    };
    let open = run(&["serve", "policy", "nothing", "--listen", "0.0.0.0:0"], None);
    expect![[r#"
        error: others can reach 0.0.0.0:0, and no token keeps them out
        help: put a token into a file and name it with `--token-file`, or into `TANDEM_SERVE_TOKEN`; or listen at 127.0.0.1
    "#]].assert_eq(&open.stderr);
    assert_eq!(open.code, Some(1));
    let short = run(&["serve", "policy", "nothing"], Some("geheim"));
    expect![[r#"
        error: the token in the variable `TANDEM_SERVE_TOKEN` cannot be used
        cause: it has 6 characters, and at least 16 are needed
        help: make one with `openssl rand -hex 32`
    "#]]
    .assert_eq(&short.stderr);
    let option = run(&["serve", "policy", "nothing", "--token", "geheim"], None);
    assert_eq!(option.code, Some(2), "a token is never given on a command line");
}

#[test]
fn a_token_is_asked_for_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = policy(folder.path()).to_string_lossy().into_owned();
    let file = folder.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let file = file.to_string_lossy().into_owned();
    let words = ["serve", "policy", &path, "--listen", "0.0.0.0:0", "--token-file", &file];
    let mut served = Served::start(&words, &[("TANDEM_LOG", "trace")]);
    served.address = served.address.replace("0.0.0.0", "127.0.0.1");
    let ask = |headers: &str| served.ask("GET", "/v1/models", headers, "");
    let refused = ask("");
    assert_eq!((refused.status, refused.header("www-authenticate").as_deref()), (401, Some("Bearer")));
    expect![[r#"{"error":{"code":"invalid_api_key","message":"the access token is missing or another one; send `Authorization: Bearer TOKEN`","param":null,"type":"authentication_error"}}"#]].assert_eq(&refused.body);
    assert_eq!(ask("authorization: Bearer another-token-of-length\r\n").status, 401);
    assert_eq!(ask(&format!("authorization: Bearer {TOKEN}\r\n")).status, 200);
    assert_eq!(served.get("/metrics").status, 401);
    assert_eq!(served.get("/health").status, 200, "health is for everybody");
    served.signal("-TERM");
    assert_eq!(served.ended().code(), Some(0));
    assert!(!served.said.lock().unwrap().contains(TOKEN));
}

#[test]
fn pages_of_other_sites_are_not_answered() {
    let (served, _folder) = start(&[]);
    assert_eq!(served.ask("GET", "/v1/models", "origin: https://attacker.example\r\n", "").status, 403);
    assert_eq!(served.ask("GET", "/v1/models", "origin: http://localhost:3000\r\n", "").status, 200);
    let mut stream = served.connect();
    stream
        .write_all(b"GET /v1/models HTTP/1.1\r\nhost: attacker.example\r\nconnection: close\r\n\r\n")
        .unwrap();
    assert_eq!(Answer::read(&mut stream).status, 403);
}

#[test]
fn a_slow_loris_and_a_silent_client_are_let_go() {
    let (served, _folder) = start(&["--read-seconds", "0.5"]);
    let mut silent = served.connect();
    let mut loris = served.connect();
    loris.write_all(b"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a: ").unwrap();
    let mut body = served.connect();
    body.write_all(b"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n{")
        .unwrap();
    assert_eq!(served.get("/health").status, 200, "others are served meanwhile");
    let slow = Answer::read(&mut body);
    assert_eq!(slow.status, 408, "{slow:?}");
    assert!(is_closed(&mut loris));
    assert!(is_closed(&mut silent));
}

#[test]
fn a_giant_body_is_refused_before_it_is_read() {
    let (served, _folder) = start(&[]);
    let mut told = served.connect();
    told.write_all(
        b"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 99000000000\r\n\r\n{",
    )
    .unwrap();
    assert!(read_until(&mut told, "}}").starts_with("HTTP/1.1 413 "));
    let mut untold = served.connect();
    untold
        .write_all(b"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n")
        .unwrap();
    let chunk = format!("100000\r\n{}\r\n", "x".repeat(1 << 20));
    // The server answers in the middle and may close before all of it is sent.
    for _ in 0..12 {
        if untold.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    let answer = Answer::read(&mut untold);
    assert!(answer.status == 413 || answer.head.is_empty(), "{answer:?}");
    assert_eq!(served.get("/health").status, 200);
}

#[test]
fn a_flood_of_connections_is_turned_away_and_passes() {
    let (served, _folder) = start(&["--connections", "3"]);
    let held: Vec<_> = (0..3)
        .map(|_| {
            let mut stream = served.send("GET", "/health", "", "");
            read_until(&mut stream, "\"ok\"}");
            stream
        })
        .collect();
    for _ in 0..50 {
        let turned = Answer::read(&mut served.connect());
        assert_eq!(turned.status, 503);
        assert_eq!(turned.header("retry-after").as_deref(), Some("1"));
    }
    drop(held);
    let end = std::time::Instant::now() + served::SOON;
    while served.get("/health").status != 200 {
        assert!(std::time::Instant::now() < end, "nobody is served after the flood");
    }
    assert!(served.metric("tandem_serve_connections_refused_total") >= 50.0);
}

#[test]
fn who_goes_away_gives_the_slot_back() {
    let (served, _folder) = start(&["--slots", "1"]);
    for (number, streamed) in [(1.0, true), (2.0, false)] {
        let mut stream = served.send("POST", "/v1/completions", "", &long(streamed).to_string());
        if streamed {
            read_until(&mut stream, "data: ");
        }
        served.wait_for("tandem_serve_slots_in_use", 1.0);
        drop(stream);
        served.wait_for("tandem_serve_slots_in_use", 0.0);
        served.wait_for("tandem_serve_abandoned_total", number);
    }
    let half = served.send("POST", "/v1/completions", "", &long(false).to_string());
    served.wait_for("tandem_serve_slots_in_use", 1.0);
    half_close(&half);
    served.wait_for("tandem_serve_slots_in_use", 0.0);
    served.wait_for("tandem_serve_abandoned_total", 3.0);
    assert_eq!(served.post("/v1/chat/completions", &chat(json!({}))).status, 200);
}

#[test]
fn a_full_queue_is_told_with_the_time_to_come_back() {
    let (served, _folder) = start(&["--slots", "1", "--queue", "1"]);
    let first = served.send("POST", "/v1/completions", "", &long(false).to_string());
    served.wait_for("tandem_serve_slots_in_use", 1.0);
    let second = served.send("POST", "/v1/completions", "", &long(false).to_string());
    served.wait_for("tandem_serve_queue_length", 1.0);
    let third = served.post("/v1/completions", &long(false));
    assert_eq!((third.status, third.header("retry-after").as_deref()), (429, Some("1")));
    expect![[r#"{"error":{"code":"queue_full","message":"the queue is full: 2 replies are sampled or wait, and 2 may; try again soon","param":null,"type":"rate_limit_error"}}"#]].assert_eq(&third.body);
    drop((first, second));
    served.wait_for("tandem_serve_slots_in_use", 0.0);
    assert_eq!(served.post("/v1/chat/completions", &chat(json!({}))).status, 200);
}

#[test]
fn a_server_that_is_told_to_end_finishes_what_it_began() {
    let (mut served, _folder) = start(&[]);
    let mut asked = long(true);
    asked["max_tokens"] = json!(1500);
    let mut stream = served.send("POST", "/v1/completions", "connection: close\r\n", &asked.to_string());
    read_until(&mut stream, "data: ");
    served.signal("-TERM");
    let end = std::time::Instant::now() + served::SOON;
    while served.get("/health").status != 503 {
        assert!(std::time::Instant::now() < end, "it does not say that it ends");
    }
    let late = served.post("/v1/chat/completions", &chat(json!({})));
    assert_eq!((late.status, late.header("retry-after").as_deref()), (503, Some("5")));
    read_until(&mut stream, "data: [DONE]");
    assert_eq!(served.ended().code(), Some(0));
}

#[test]
fn a_second_signal_ends_a_server_at_once() {
    let (mut served, _folder) = start(&[]);
    let mut stream = served.send("POST", "/v1/completions", "", &long(true).to_string());
    read_until(&mut stream, "data: ");
    served.signal("-TERM");
    while served.get("/health").status != 503 {}
    served.signal("-TERM");
    assert_eq!(served.ended().code(), Some(130));
}
