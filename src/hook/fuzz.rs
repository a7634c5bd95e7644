//! Does anything that an agent, a caller or a settings file says make an adapter panic or grow without
//! bound? Seeded, so that a failure is found again.

use serde_json::{Value, json};
use tandem_host::store::Digest;

use super::agent::{Agent, AgentEvent};
use super::answer::Answer;
use super::input::Input;
use super::ordered::Json;
use super::wire;

const ROUNDS: u64 = 4_000;

/// Draws from a counter and a label.
struct Draw(u64, u64);

impl Draw {
    fn next(&mut self, below: usize) -> usize {
        self.1 += 1;
        let digest = Digest::of(&[self.0.to_le_bytes(), self.1.to_le_bytes()].concat());
        let mut number = [0; 8];
        number.copy_from_slice(&digest.bytes()[..8]);
        (u64::from_le_bytes(number) % below.max(1) as u64) as usize
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.next(of.len())]
    }

    /// A value that agents really send, in a shape that they do not.
    fn value(&mut self, depth: usize) -> Value {
        const WORDS: [&str; 8] =
            ["", "Bash", "terminal", "ls", "Exit code 99999999999\nx", "\u{0}", "ü\u{1f980}", "compact"];
        const KEYS: [&str; 14] = [
            "command",
            "stdout",
            "stderr",
            "content",
            "file",
            "text",
            "type",
            "output",
            "is_error",
            "exit_code",
            "metadata",
            "interrupted",
            "source",
            "reason",
        ];
        match self.next(if depth == 0 { 5 } else { 7 }) {
            0 => Value::Null,
            1 => json!(self.next(2) == 0),
            2 => json!(self.next(usize::MAX)),
            3 => json!(-(self.next(1 << 40) as i64)),
            4 => json!(*self.one(&WORDS)),
            5 => (0..self.next(4)).map(|_| self.value(depth - 1)).collect(),
            _ => {
                let fields =
                    (0..self.next(5)).map(|_| ((*self.one(&KEYS)).to_owned(), self.value(depth - 1)));
                Value::Object(fields.collect())
            }
        }
    }
}

#[test]
fn nothing_that_an_agent_says_breaks_an_adapter() {
    const FIELDS: [&str; 14] = [
        "session_id",
        "agent_id",
        "cwd",
        "working_dir",
        "hook_event_name",
        "event_type",
        "tool_name",
        "tool_input",
        "tool_response",
        "tool_use_id",
        "prompt",
        "message",
        "error",
        "is_interrupt",
    ];
    let mut read = 0;
    for round in 0..ROUNDS {
        let mut draw = Draw(round, 0);
        let agent = *draw.one(&Agent::ALL);
        let event = *draw.one(agent.events());
        let mut said = json!({"session_id": "s", "tool_name": "Bash", "prompt": "p", "message": "m"});
        for _ in 0..draw.next(8) {
            let name = *draw.one(&FIELDS);
            said[name] = draw.value(3);
        }
        let mut text = said.to_string().into_bytes();
        if draw.next(4) == 0 {
            let at = draw.next(text.len());
            match draw.next(2) {
                0 => text.truncate(at),
                _ => text[at] = draw.next(256) as u8,
            }
        }
        let Ok(input) = Input::read(agent, event, &text) else { continue };
        read += 1;
        let text = |draw: &mut Draw| (draw.next(3) == 0).then(|| draw.value(0).to_string());
        let answer = Answer {
            refuse: text(&mut draw),
            rewrite: (draw.next(3) == 0).then(|| draw.value(2)),
            replace: text(&mut draw),
            notes: text(&mut draw).into_iter().collect(),
            defer: text(&mut draw),
            stop: text(&mut draw),
        };
        let told = answer.tell(&input);
        assert_eq!(told.reply.exit, 0, "an agent takes another code as trouble, or as a refusal");
        let output = &told.reply.stdout;
        assert!(
            output.is_empty() || serde_json::from_str::<Value>(output).is_ok_and(|said| said.is_object())
        );
        assert!(output.len() < 16 * text_bytes(&input, &answer) + 1024, "{output}");
    }
    assert!(read > ROUNDS / 4, "{read} of {ROUNDS} were understood");
}

fn text_bytes(input: &Input, answer: &Answer) -> usize {
    format!("{input:?}{answer:?}").len()
}

#[test]
fn deeply_nested_json_is_an_error_and_not_the_end_of_the_stack() {
    let deep = format!("{{\"session_id\":\"s\",\"tool_input\":{}", "[".repeat(200_000));
    for event in Agent::Claude.events() {
        assert!(Input::read(Agent::Claude, *event, deep.as_bytes()).is_err());
    }
    assert!(serde_json::from_str::<Json>(&"[".repeat(200_000)).is_err());
}

#[tokio::test]
async fn a_caller_that_lies_about_its_bytes_is_refused_before_they_are_kept() {
    let line = |bytes: u64| {
        format!(
            "{{\"ask\":\"event\",\"agent\":\"claude\",\"event\":\"Stop\",\"folder\":null,\"bytes\":{bytes}}}\n"
        )
    };
    for (text, ok) in [
        (line(3) + "abc", true),
        (line(3) + "abcdef", true),
        (line(3) + "ab", false),
        (line(u64::MAX), false),
        (line(wire::INPUT_BYTES + 1), false),
        ("x".repeat(100_000), false),
        (String::new(), false),
        ("{\"ask\":\"status\"}\n".into(), true),
        ("{\"ask\":\"status\"}".into(), true),
    ] {
        let read = wire::read(text.as_bytes()).await;
        assert_eq!(read.is_ok(), ok, "{}", &text[..text.len().min(80)]);
        if let Ok((wire::Question::Event { .. }, bytes)) = read {
            assert_eq!(bytes, b"abc");
        }
    }
    for round in 0..ROUNDS {
        let mut draw = Draw(round, 1 << 32);
        let mut text = (line(2) + "{}").into_bytes();
        for _ in 0..=draw.next(3) {
            let at = draw.next(text.len());
            text[at] = draw.next(256) as u8;
        }
        let _ = wire::read(text.as_slice()).await;
    }
}

#[test]
fn every_event_has_a_name_that_is_read_again() {
    for agent in Agent::ALL {
        assert_eq!(Agent::named(agent.word()), Some(agent));
        for event in agent.events() {
            assert_eq!(AgentEvent::named(event.name()), Some(*event));
        }
    }
}
