//! Exchanges over HTTP: streams, rate limits, silence, broken connections, budgets, keys.

use expect_test::{Expect, expect};

use super::super::ask::{ExchangeLog, TryBegun};
use super::super::request::{Finish, TokenUsage};
use super::super::{Teacher, config::TeacherKind};
use super::server::{Answer, End, chunks, error, stream, whole};
use super::*;

type Say = Box<dyn Fn() -> Answer + Send + Sync>;

fn say(answer: impl Fn() -> Answer + Send + Sync + 'static) -> Say {
    Box::new(answer)
}

const PRICED: &str = "[budget]\nbackoff_ms = 1\n[price]\nprompt = 3.0\nreply = 15.0\n";

#[tokio::test]
async fn a_stream_and_a_whole_answer_give_the_same_reply() {
    let text = "Two words, é and 🦀,\nand a second line.";
    let streamed = Server::saying(vec![say(move || stream(text))]);
    let plain = Server::saying(vec![say(move || whole(text))]);
    let log = Log::new();
    let reply = ask(&config(&streamed, PRICED), &log).await.unwrap();
    assert_eq!(reply.text, text);
    assert_eq!(reply.usage, TokenUsage { prompt: 1000, reply: 100, estimated: false });
    assert_eq!(log.tries(), [("answered".into(), 1000, 100, 0.0045)]);
    let unstreamed = config(&plain, &format!("stream = false\n{PRICED}"));
    assert_eq!(ask(&unstreamed, &Log::new()).await.unwrap(), reply);
    // An endpoint that streams nothing although it was asked to is understood too.
    assert_eq!(ask(&config(&plain, PRICED), &Log::new()).await.unwrap(), reply);
    let asked = streamed.asked.lock().unwrap();
    assert!(asked[0].head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{}", asked[0].head);
    assert_eq!((&asked[0].body["stream"], &asked[0].body["max_tokens"]), (&true.into(), &1000.into()));
    assert!(plain.asked.lock().unwrap()[0].body.get("stream").is_none());
}

#[tokio::test]
async fn an_anthropic_stream_is_read_from_a_real_connection() {
    let events = || {
        let lines = [
            (
                "message_start",
                r#"{"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}}"#,
            ),
            ("ping", r#"{"type":"ping"}"#),
            (
                "content_block_delta",
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}"#,
            ),
            (
                "content_block_delta",
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}"#,
            ),
            (
                "message_delta",
                r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":15}}"#,
            ),
            ("message_stop", r#"{"type":"message_stop"}"#),
        ];
        let pieces = lines.iter().map(|(name, data)| format!("event: {name}\ndata: {data}\n\n")).collect();
        Answer::Stream { pieces, end: End::Whole }
    };
    let server = Server::saying(vec![say(|| error("529 Overloaded", "", "Overloaded")), say(events)]);
    let mut config = config(&server, QUICK);
    config.kind = TeacherKind::Anthropic;
    config.key_env = Some("PATH".into());
    let log = Log::new();
    let reply = ask(&config, &log).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("Hello", Finish::Length));
    assert_eq!(reply.usage, TokenUsage { prompt: 25, reply: 15, estimated: false });
    assert_eq!(log.outcomes(), ["passing-trouble", "answered"]);
    let head = server.asked.lock().unwrap()[0].head.to_lowercase();
    assert!(
        head.starts_with("post /v1/messages ") && head.contains("anthropic-version: 2023-06-01"),
        "{head}"
    );
    assert!(head.contains("x-api-key: ") && !head.contains("authorization"), "{head}");
}

#[tokio::test]
async fn trouble_that_may_pass_is_tried_again_and_each_try_is_recorded() {
    let server = Server::saying(vec![
        say(|| error("429 Too Many Requests", "retry-after: 0\r\n", "slow down")),
        say(|| error("503 Service Unavailable", "", "busy")),
        say(|| Answer::Close),
        say(|| Answer::Stream { pieces: chunks("half of a reply", None), end: End::Break }),
        // Ends as it should, but without saying why it ended.
        say(|| Answer::Stream { pieces: chunks("half of a reply", None), end: End::Whole }),
        say(|| stream("whole")),
    ]);
    let log = Log::new();
    let config = config(&server, "[budget]\nbackoff_ms = 1\nattempts = 6\n[price]\nreply = 1.0");
    assert_eq!(ask(&config, &log).await.unwrap().text, "whole");
    let rows = log.record.exchanges().unwrap();
    let reasons: Vec<_> = rows.iter().map(|row| server.plain(&row.reason)).collect();
    assert_eq!(reasons[0], "127.0.0.1:PORT answered 429 Too Many Requests: slow down");
    assert_eq!(reasons[1], "127.0.0.1:PORT answered 503 Service Unavailable: busy");
    assert!(reasons[2].starts_with("no answer from 127.0.0.1:PORT"), "{}", reasons[2]);
    assert!(reasons[3].starts_with("127.0.0.1:PORT broke off in the middle"), "{}", reasons[3]);
    assert!(reasons[4].starts_with("127.0.0.1:PORT broke off in the middle"), "{}", reasons[4]);
    assert_eq!(log.outcomes().last().unwrap(), "answered");
    // What came of a broken reply is paid for; a refusal is not.
    let paid: Vec<_> = rows.iter().map(|row| row.reply_tokens > 0).collect();
    assert_eq!(paid, [false, false, false, true, true, true]);
}

#[tokio::test]
async fn a_silent_endpoint_is_given_up_and_asked_again() {
    let server = Server::saying(vec![
        say(|| Answer::Silence),
        say(|| Answer::Stream { pieces: chunks("half", None), end: End::Silence }),
        say(|| stream("here")),
    ]);
    let log = Log::new();
    assert_eq!(
        ask(&config(&server, &format!("idle_seconds = 1\n{QUICK}")), &log).await.unwrap().text,
        "here"
    );
    let rows = log.record.exchanges().unwrap();
    assert_eq!(server.plain(&rows[0].reason), "127.0.0.1:PORT was silent for 1 seconds");
    assert_eq!(server.plain(&rows[1].reason), "127.0.0.1:PORT was silent for 1 seconds");
    assert!(rows[1].reply_tokens > 0, "what had come is counted");
}

#[tokio::test]
async fn a_drip_that_never_ends_is_stopped_at_the_time_limit() {
    let server =
        Server::saying(vec![say(|| Answer::Stream { pieces: chunks("slow", None), end: End::Silence })]);
    let log = Log::new();
    let text = "idle_seconds = 60\ntimeout_seconds = 1\n[budget]\nattempts = 1";
    let error = ask(&config(&server, text), &log).await.unwrap_err();
    expect![[r#"
        the teacher `m` gave no reply in 1 tries; the last: 127.0.0.1:PORT was not done after 1 seconds
        help: see whether it is up; `budget.attempts` sets the number of tries"#]]
    .assert_eq(&server.plain(&error.to_string()));
}

#[tokio::test]
async fn trouble_that_stays_is_told_with_what_to_do() {
    let check = async |answer: Say, text: &str, expected: Expect| {
        let server = Server::saying(vec![answer]);
        let log = Log::new();
        let error = ask(&config(&server, text), &log).await.unwrap_err();
        expected.assert_eq(&server.plain(&error.to_string()));
        assert_eq!(server.count(), log.tries().len());
    };
    check(
        say(|| error("401 Unauthorized", "", "no key")),
        QUICK,
        expect![[r#"
            the teacher `m` failed: 127.0.0.1:PORT answered 401 Unauthorized: no key
            help: put a valid key into a variable and name it in `key_env`"#]],
    )
    .await;
    check(
        say(|| error("400 Bad Request", "", "maximum context length is 4096 tokens")),
        QUICK,
        expect![[r#"
            the teacher `m` failed: 127.0.0.1:PORT answered 400 Bad Request: maximum context length is 4096 tokens
            help: lower `evidence_tokens` or `max_tokens`"#]],
    )
    .await;
    check(
        say(|| error("307 Temporary Redirect", "location: http://127.0.0.1:9/\r\n", "")),
        QUICK,
        expect![[r#"
            the teacher `m` failed: 127.0.0.1:PORT answered 307 Temporary Redirect
            help: set `url` to where the endpoint really is"#]],
    )
    .await;
    check(
        say(|| Answer::Whole { status: "200 OK", headers: String::new(), body: "<html>".into() }),
        QUICK,
        expect![[r#"
            the teacher `m` failed: 127.0.0.1:PORT answered in another shape: expected value at line 1 column 1
            help: check that `kind` and `url` fit the endpoint"#]],
    )
    .await;
    check(
        say(|| error("503 Service Unavailable", "", "busy")),
        "[budget]\nbackoff_ms = 1\nattempts = 2",
        expect![[r#"
            the teacher `m` gave no reply in 2 tries; the last: 127.0.0.1:PORT answered 503 Service Unavailable: busy
            help: see whether it is up; `budget.attempts` sets the number of tries"#]],
    )
    .await;
    check(
        say(|| error("429 Too Many Requests", "retry-after: 3600\r\n", "tomorrow")),
        "[budget]\nseconds = 60",
        expect![[r#"
            the teacher `m` gave no reply within its 60 seconds; the last try: 127.0.0.1:PORT answered 429 Too Many Requests: tomorrow
            help: `budget.seconds` sets the time of one exchange"#]],
    )
    .await;
}

#[tokio::test]
async fn a_spent_budget_is_said_with_both_numbers_before_anything_is_sent() {
    let check = async |text: &str, expected: Expect| {
        let server = Server::saying(vec![say(|| stream("x"))]);
        let log = Log::new();
        let config = config(&server, text);
        // The first exchange uses 1100 tokens.
        ask(&config, &log).await.unwrap();
        let teacher = Teacher::open(TeacherRole::Harness, &config, None).unwrap().unwrap();
        let error = teacher.ask("r1/harness/1/0", &request("u"), &log.record).await.unwrap_err();
        expected.assert_eq(&error.to_string());
        assert_eq!(server.count(), 1);
    };
    check(
        "[budget]\ntokens = 2000",
        expect![[r#"
            the harness teacher has used 1100 tokens and the next request may take 1018 more; its limit is 2000
            help: raise `teacher.harness.budget.tokens`, or lower `evidence_tokens` or `max_tokens`"#]],
    )
    .await;
    check(
        "[price]\nprompt = 1000.0\nreply = 1000.0\n[budget]\nmoney = 2.0",
        expect![[r#"
            the harness teacher has cost 1.1000 and the next request may cost 1.0180 more; its limit is 2.0000
            help: raise `teacher.harness.budget.money`, or lower `evidence_tokens` or `max_tokens`"#]],
    )
    .await;
}

#[tokio::test]
async fn what_was_answered_is_never_asked_again_and_what_was_cut_off_counts_at_its_most() {
    let server = Server::saying(vec![say(|| stream("once"))]);
    let log = Log::new();
    let config = config(&server, PRICED);
    // A program that died after sending: its row has no end.
    let most = TokenUsage { prompt: 500, reply: 1000, estimated: true };
    let asked = request("u");
    let begun = TryBegun {
        place: "r1/harness/0/0",
        kind: TeacherKind::Openai,
        model: "m".into(),
        request: &asked,
        most,
        most_cost: 0.5,
    };
    log.record.begin(&begun).unwrap();
    // The next start of the program.
    let again = RunRecord::open(log.folder.path()).unwrap();
    let log = Log { record: again, folder: log.folder };
    assert_eq!(ask(&config, &log).await.unwrap().text, "once");
    assert_eq!(log.tries(), [("cut-off".into(), 500, 1000, 0.5), ("answered".into(), 1000, 100, 0.0045)]);
    assert_eq!(ask(&config, &log).await.unwrap().text, "once");
    assert_eq!((server.count(), log.tries().len()), (1, 2));
    let spent = log.record.spent(TeacherRole::Harness).unwrap();
    assert_eq!((spent.tokens, spent.money), (2600, 0.5045));
    assert_eq!(log.record.spent(TeacherRole::Skill).unwrap().tokens, 0);
}

/// Everything under a folder.
fn bytes_of(folder: &std::path::Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => folders.push(path),
                false => found.push((path.clone(), std::fs::read(&path).unwrap())),
            }
        }
    }
    found
}

#[tokio::test]
async fn a_key_that_the_endpoint_throws_back_is_written_nowhere() {
    // A variable that is set everywhere; its value stands for a key.
    let key = std::env::var("PATH").unwrap();
    let said = key.clone();
    let server = Server::start(move |number, asked| {
        let line = asked.head.lines().find(|line| line.to_lowercase().starts_with("authorization:"));
        assert_eq!(line.unwrap().split_once(": ").unwrap().1, format!("Bearer {said}"));
        match number {
            0 => error("503 Service Unavailable", "", &format!("key {said} is tired")),
            1 => Answer::Stream { pieces: chunks(&format!("half {said}"), None), end: End::Break },
            2 => stream(&format!("your key is {said}.")),
            _ => error("403 Forbidden", "", &format!("key {said} is wrong")),
        }
    });
    let log = Log::new();
    let mut config = config(&server, QUICK);
    config.key_env = Some("PATH".into());
    config.record = Some(log.folder.path().join("exchanges.jsonl"));
    let reply = ask(&config, &log).await.unwrap();
    assert_eq!(reply.text, "your key is [key].");
    let teacher = Teacher::open(TeacherRole::Harness, &config, None).unwrap().unwrap();
    let error = teacher.ask("r2/harness/0/0", &request("u"), &log.record).await.unwrap_err();
    assert!(!error.to_string().contains(&key) && error.to_string().contains("key [key] is wrong"), "{error}");
    let written = bytes_of(log.folder.path());
    assert!(written.iter().any(|(path, _)| path.ends_with("exchanges.jsonl")), "{written:?}");
    for (path, bytes) in written {
        let found = bytes.windows(key.len()).any(|window| window == key.as_bytes());
        assert!(!found, "{} holds the key", path.display());
    }
}

#[tokio::test]
async fn a_missing_key_is_said_before_the_first_request() {
    let server = Server::saying(vec![say(|| stream("x"))]);
    let mut config = config(&server, "");
    config.key_env = Some("TANDEM_TEST_KEY_THAT_IS_NOT_SET".into());
    let error = Teacher::open(TeacherRole::Harness, &config, None).err().unwrap();
    expect![[r#"
        the environment variable `TANDEM_TEST_KEY_THAT_IS_NOT_SET` is not set
        help: put the endpoint's key into it"#]]
    .assert_eq(&error);
}

#[tokio::test]
async fn recorded_exchanges_are_replayed_by_the_digest_of_the_request() {
    let server = Server::saying(vec![say(|| stream("kept"))]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("exchanges.jsonl");
    let mut live = config(&server, QUICK);
    live.record = Some(file.clone());
    let reply = ask(&live, &Log::new()).await.unwrap();
    drop(server);
    let replay =
        TeacherConfig { kind: TeacherKind::Recorded, exchanges: Some(file), ..TeacherConfig::default() };
    assert_eq!(ask(&replay, &Log::new()).await.unwrap(), reply);
    let teacher = Teacher::open(TeacherRole::Harness, &replay, None).unwrap().unwrap();
    let error = teacher.ask("p", &request("another"), &Log::new().record).await.unwrap_err().to_string();
    assert!(
        error.contains("holds no exchange for the request") && error.contains("help: prompts, evidence"),
        "{error}"
    );
}
