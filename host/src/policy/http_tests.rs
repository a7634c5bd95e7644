//! The HTTP policy against a real server on this machine.

use std::sync::{Arc, Mutex};

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// Answers connections with canned answers, one after the other, and keeps what was asked.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Server {
    /// Each answer is the status line's rest, further header lines, and the body.
    async fn start(answers: Vec<(&'static str, &'static str, String)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let kept = asked.clone();
        tokio::spawn(async move {
            for (status, headers, body) in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = Vec::new();
                let (head, rest) = loop {
                    let mut chunk = [0; 4096];
                    let count = stream.read(&mut chunk).await.unwrap();
                    bytes.extend_from_slice(&chunk[..count]);
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let Some((head, rest)) = text.split_once("\r\n\r\n") else { continue };
                    let length = head.to_lowercase();
                    let length = length.split("content-length: ").nth(1).unwrap();
                    let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
                    if rest.len() >= length {
                        break (head.to_owned(), rest.to_owned());
                    }
                };
                kept.lock().unwrap().push((head, serde_json::from_str(&rest).unwrap()));
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Self { url, asked }
    }

    fn config(&self) -> HttpConfig {
        HttpConfig { url: self.url.clone(), model: "m".into(), backoff_ms: 1, ..HttpConfig::default() }
    }

    /// A message with the port, which differs from run to run, left out.
    fn plain(&self, error: &PolicyError) -> String {
        let port = self.url.rsplit([':', '/']).nth(1).unwrap();
        error.to_string().replace(port, "PORT")
    }
}

fn ok(body: Value) -> (&'static str, &'static str, String) {
    ("200 OK", "content-type: application/json\r\n", body.to_string())
}

fn says(text: &str) -> Value {
    json!({"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
}

fn request(tools: Vec<Value>) -> OpenSession {
    let sampling = Sampling { temperature: 0.5, max_tokens: 64, stop: vec!["END".into()] };
    OpenSession { episode: "e".into(), task: "t".into(), seed: 5, harness: None, sampling, tools, after: 0 }
}

async fn first_reply(config: HttpConfig) -> Result<Reply, PolicyError> {
    let mut session = HttpPolicy::new(config)?.open(request(Vec::new())).await?;
    session.reply(&[Message::new(Role::User, "hi")]).await
}

#[tokio::test]
async fn a_conversation_grows_by_what_is_new() {
    let mut ended = says("one");
    ended["choices"][0]["stop_reason"] = json!("END");
    let mut cut = says("two");
    cut["choices"][0]["finish_reason"] = json!("length");
    let server = Server::start(vec![ok(ended), ok(cut)]).await;
    let policy = HttpPolicy::new(server.config()).unwrap();
    let mut session = policy.open(request(Vec::new())).await.unwrap();
    let first = [Message::new(Role::System, "s"), Message::new(Role::User, "u")];
    let reply = session.reply(&first).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("oneEND", FinishReason::Stop));
    let reply = session.reply(&[Message::new(Role::User, "v")]).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("two", FinishReason::Length));

    let asked = server.asked.lock().unwrap();
    let (head, body) = &asked[1];
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{head}");
    let roles: Vec<_> = body["messages"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert_eq!(body["temperature"], 0.5);
    assert_eq!((&body["seed"], &body["max_tokens"], &body["stop"]), (&json!(6), &json!(64), &json!(["END"])));
    assert!(body.get("tools").is_none() && body.get("logprobs").is_none());
}

#[tokio::test]
async fn tokens_are_those_that_the_endpoint_counted_where_it_does() {
    let check = async |usage: Value, expected: Option<(u64, u64)>| {
        let mut answer = says("one");
        answer["usage"] = usage;
        let server = Server::start(vec![ok(answer)]).await;
        let reply = first_reply(server.config()).await.unwrap();
        assert_eq!(reply.usage.map(|usage| (usage.prompt, usage.reply)), expected);
    };
    check(json!({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}), Some((12, 3))).await;
    check(json!({"prompt_tokens": 0, "completion_tokens": 0}), None).await;
    check(json!({}), None).await;
    check(json!(null), None).await;
}

#[test]
fn a_price_that_is_none_is_refused() {
    let check = |prompt: f64, reply: f64, expected: Expect| {
        let config = HttpConfig {
            url: "http://localhost:1/v1".into(),
            model: "m".into(),
            price: Some(Price { prompt, reply }),
            ..HttpConfig::default()
        };
        let error = HttpPolicy::new(config).err().map(|error| error.to_string());
        expected.assert_eq(&error.unwrap_or_else(|| "taken".into()));
    };
    check(0.0, 15.0, expect!["taken"]);
    check(
        -3.0,
        15.0,
        expect![[r#"
        policy `m` failed: its price is -3 and 15
        help: give numbers from 0 on, for a million tokens of the prompt and of the reply"#]],
    );
}

#[tokio::test]
async fn native_calls_go_there_and_back() {
    let call = |arguments: &str| {
        let function = json!({"name": "bash", "arguments": arguments});
        let message =
            json!({"content": null, "tool_calls": [{"id": "c1", "type": "function", "function": function}]});
        json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    };
    let server = Server::start(vec![ok(call("{\"command\": \"ls\"}")), ok(call("{broken"))]).await;
    let policy = HttpPolicy::new(server.config()).unwrap();
    let tool = json!({"type": "function", "function": {"name": "bash"}});
    let mut session = policy.open(request(vec![tool.clone()])).await.unwrap();
    let reply = session.reply(&[Message::new(Role::User, "u")]).await.unwrap();
    assert_eq!(reply.tool_calls[0].arguments, json!({"command": "ls"}));
    let answer = Message { tool_call_id: Some("c1".into()), ..Message::new(Role::Tool, "exit code 0") };
    let reply = session.reply(&[answer]).await.unwrap();
    assert_eq!(reply.tool_calls[0].arguments, json!("{broken"));
    let asked = server.asked.lock().unwrap();
    assert_eq!(asked[0].1["tools"], json!([tool]));
    let messages = &asked[1].1["messages"];
    assert_eq!(messages[1]["tool_calls"][0]["function"]["arguments"], "{\"command\":\"ls\"}");
    assert_eq!(messages[2]["tool_call_id"], "c1");
}

#[tokio::test]
async fn token_ids_are_told_as_what_is_new_or_refused() {
    let answer = |prompt: Value, ids: Value, count: usize| {
        let mut value = says("x");
        value["prompt_token_ids"] = prompt;
        value["choices"][0]["token_ids"] = ids;
        let entries: Vec<_> = (0..count).map(|_| json!({"token": "x", "logprob": -0.25})).collect();
        value["choices"][0]["logprobs"] = json!({ "content": entries });
        ok(value)
    };
    let run = async |answers: Vec<(&'static str, &'static str, String)>| {
        let turns = answers.len();
        let server = Server::start(answers).await;
        let policy = HttpPolicy::new(HttpConfig { token_ids: true, ..server.config() }).unwrap();
        let mut session = policy.open(request(Vec::new())).await.unwrap();
        let mut last = Err("no turn".to_owned());
        for _ in 0..turns {
            let reply = session.reply(&[Message::new(Role::User, "u")]).await;
            last = reply.map_err(|error| server.plain(&error).lines().next().unwrap().to_owned());
        }
        last.map(|reply| (reply.prompt_ids, reply.ids, reply.logprobs))
    };
    let grown = vec![answer(json!([1, 2]), json!([3, 4]), 2), answer(json!([1, 2, 3, 4, 5]), json!([6]), 1)];
    assert_eq!(run(grown).await, Ok((vec![5], vec![6], vec![-0.25])));
    let refused = async |answers, expected: &str| assert_eq!(run(answers).await, Err(expected.to_owned()));
    refused(
        vec![answer(json!([1, 2]), json!([3, 4]), 2), answer(json!([1, 2, 3, 9, 5]), json!([6]), 1)],
        "policy `m` failed: 127.0.0.1:PORT wrote the conversation anew: turn 2 does not extend the last",
    )
    .await;
    refused(vec![ok(says("x"))], "policy `m` failed: 127.0.0.1:PORT tells no token ids").await;
    refused(
        vec![answer(json!([1]), json!([3, 4]), 1)],
        "policy `m` failed: 127.0.0.1:PORT tells 2 ids and 1 log-probabilities for one reply",
    )
    .await;
}

#[tokio::test]
async fn trouble_that_may_pass_is_tried_again() {
    let server = Server::start(vec![
        ("503 Service Unavailable", "", "busy".into()),
        ("429 Too Many Requests", "retry-after: 0\r\n", "{}".into()),
        ok(says("here")),
    ])
    .await;
    assert_eq!(first_reply(server.config()).await.unwrap().text, "here");
    assert_eq!(server.asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn errors_name_the_host_and_what_it_said() {
    let check = async |status: &'static str, body: &str, expected: Expect| {
        let answers = vec![(status, "", body.to_owned()), (status, "", body.to_owned())];
        let server = Server::start(answers).await;
        let error = first_reply(HttpConfig { retries: 1, ..server.config() }).await.unwrap_err();
        expected.assert_eq(&server.plain(&error));
    };
    check(
        "500 Internal Server Error",
        "out of memory",
        expect![[r#"
        policy `m` failed: 127.0.0.1:PORT answered 500 Internal Server Error: out of memory (2 tries)
        help: see whether the endpoint is up"#]],
    )
    .await;
    check(
        "404 Not Found",
        r#"{"error": {"message": "The model `m` does not exist."}}"#,
        expect!["policy `m` failed: 127.0.0.1:PORT answered 404 Not Found: The model `m` does not exist."],
    )
    .await;
    check(
        "401 Unauthorized",
        r#"{"error": "no key"}"#,
        expect![[r#"
        policy `m` failed: 127.0.0.1:PORT answered 401 Unauthorized: no key
        help: name the variable of the key in `key_env`"#]],
    )
    .await;
    check(
        "400 Bad Request",
        r#"{"message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."}"#,
        expect!["the conversation has 5000 tokens and the context of `m` holds 4096"],
    )
    .await;
    check("200 OK", "<html>", expect!["policy `m` failed: 127.0.0.1:PORT answered 200 OK with something else than JSON: expected value at line 1 column 1"]).await;
    check(
        "200 OK",
        "{}",
        expect!["policy `m` failed: 127.0.0.1:PORT answered in another shape: missing field `choices`"],
    )
    .await;
    check(
        "200 OK",
        r#"{"choices": []}"#,
        expect!["policy `m` failed: 127.0.0.1:PORT answered without a choice"],
    )
    .await;
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_named() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/v1");
    let config = HttpConfig { url, retries: 1, backoff_ms: 1, model: "m".into(), ..HttpConfig::default() };
    let error = first_reply(config).await.unwrap_err().to_string().replace(&port.to_string(), "PORT");
    assert!(error.starts_with("policy `m` failed: no answer from 127.0.0.1:PORT: "), "{error}");
    assert!(error.ends_with("(2 tries)\nhelp: see whether the endpoint is up"), "{error}");
}

#[test]
fn settings_that_cannot_work_are_refused_before_the_first_request() {
    let check = |url: &str, key_env: Option<&str>, expected: Expect| {
        let key_env = key_env.map(str::to_owned);
        let config = HttpConfig { url: url.into(), model: "m".into(), key_env, ..HttpConfig::default() };
        expected.assert_eq(&HttpPolicy::new(config).err().unwrap().to_string());
    };
    check(
        "localhost:8000",
        None,
        expect![[r#"
        policy `m` failed: `localhost:8000` is not a URL
        help: write it like `http://localhost:8000/v1`"#]],
    );
    check(
        "",
        None,
        expect![[r#"
        policy `m` failed: `` is not a URL
        help: write it like `http://localhost:8000/v1`"#]],
    );
    check(
        "http://localhost/v1",
        Some("TANDEM_TEST_KEY_THAT_IS_NOT_SET"),
        expect![[r#"
        policy `m` failed: the variable `TANDEM_TEST_KEY_THAT_IS_NOT_SET` is not set
        help: put the endpoint's key into it"#]],
    );
}

#[tokio::test]
async fn the_key_is_sent_and_never_told() {
    // A variable that is set everywhere; its value stands for a key.
    let server = Server::start(vec![("403 Forbidden", "", "no".into())]).await;
    let config = HttpConfig { key_env: Some("PATH".into()), ..server.config() };
    let error = first_reply(config).await.unwrap_err();
    let (head, _) = server.asked.lock().unwrap()[0].clone();
    let key = std::env::var("PATH").unwrap();
    assert!(head.contains(&format!("earer {key}\r\n")), "{head}");
    assert!(!error.to_string().contains(&key), "{error}");
}
