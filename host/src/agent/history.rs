//! What is left of a history that was shortened?
//!
//! In the style of OpenHands: the first turns and the newest stay, and a summary stands for those
//! between them. The summary is made from the record without a model, so that the same episode has
//! the same one.

use serde_json::Value;

use super::observation::status_name;
use super::record::{CallRecord, Condensed, TurnRecord};
use crate::harness::{Condense, cut};
use crate::policy::{Message, Origin, Piece, Role};

/// Characters that the summary has of one call, and of what was said before it.
const LINE: usize = 120;

/// Turns that are left out, counted from 0: from `first` up to before `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gap {
    first: usize,
    end: usize,
}

impl Gap {
    /// Turns that are left out.
    pub(super) fn len(self) -> usize {
        self.end - self.first
    }

    /// The gap of a history of `turns` turns, if it is now longer than it may be.
    pub(super) fn due(condense: Condense, turns: usize, now: Self) -> Option<Self> {
        let over = condense.after > 0 && turns - now.len() > condense.after;
        if over { Self::keeping(condense, condense.last, turns, now) } else { None }
    }

    /// The gap for a context that has no room for a reply. A history that was shortened a short
    /// while ago is left as it is, or each turn would begin a new segment.
    pub(super) fn under_pressure(condense: Condense, turns: usize, now: Self) -> Option<Self> {
        let kept = condense.first + condense.last;
        let enough = kept + condense.after.saturating_sub(kept) / 2;
        let long = condense.after > 0 && turns - now.len() > enough;
        if long { Self::keeping(condense, condense.last, turns, now) } else { None }
    }

    /// The gap for a context that is full: fewer of the newest turns stay, by halves, down to one.
    pub(super) fn full(condense: Condense, turns: usize, now: Self) -> Option<Self> {
        let halves = std::iter::successors(Some(condense.last), |last| (*last > 1).then_some(last / 2));
        let mut gaps = halves.filter(|_| condense.after > 0);
        gaps.find_map(|last| Self::keeping(condense, last, turns, now))
    }

    /// The gap before the last turns; none when it leaves out no more than there is left out now.
    fn keeping(condense: Condense, last: usize, turns: usize, now: Self) -> Option<Self> {
        let gap = Self { first: condense.first, end: turns.saturating_sub(last) };
        (gap.end > gap.first.max(now.end)).then_some(gap)
    }

    /// What the record says of it.
    pub(super) fn condensed(self, turns: &[TurnRecord], chars: usize) -> Condensed {
        let mut text = format!(
            "[Turns {} to {} of this conversation were left out to save room. Changes to files are still \
             there. In those turns:]",
            self.first + 1,
            self.end
        );
        for (at, turn) in turns.iter().enumerate().take(self.end).skip(self.first) {
            text.push_str(&format!("\n{}. {}", at + 1, line(turn)));
        }
        let count = |turn: usize| u32::try_from(turn).unwrap_or(u32::MAX);
        let summary = cut(&text, chars).into_owned();
        Condensed { from: count(self.first + 1), to: count(self.end), summary }
    }

    /// The conversation with `summary` for what is left out. `pending` follows the newest reply.
    pub(super) fn conversation(
        self,
        turns: &[TurnRecord],
        pending: &[Message],
        summary: &str,
    ) -> Vec<Message> {
        // The results of a turn are what the next one was given.
        let given = |turn: usize| turns.get(turn).map_or(pending, |turn| turn.input.as_slice());
        let mut messages = given(0).to_vec();
        for at in 0..turns.len() {
            if at == self.first {
                put(&mut messages, summary);
            }
            if (self.first..self.end).contains(&at) {
                continue;
            }
            messages.push(turns[at].reply.clone());
            messages.extend_from_slice(given(at + 1));
        }
        messages
    }
}

/// Puts the summary where a chat template takes it: two messages of the user in a row are refused.
fn put(messages: &mut Vec<Message>, summary: &str) {
    match messages.last_mut().filter(|last| last.role == Role::User) {
        Some(last) => {
            last.pieces.push(Piece { origin: Origin::Host, text: format!("\n\n{summary}") });
        }
        None => messages.push(Message::new(Role::User, summary)),
    }
}

/// A turn in one line: what the policy said first, what it called and how that ended.
fn line(turn: &TurnRecord) -> String {
    let text = turn.reply.text();
    let prose = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut parts = Vec::new();
    if !prose.is_empty() && !prose.starts_with("```") {
        parts.push(format!("\"{}\"", short(prose)));
    }
    if turn.calls.is_empty() {
        parts.push("No tool was called.".to_owned());
    }
    parts.extend(turn.calls.iter().map(told));
    parts.join(" ")
}

fn told(call: &CallRecord) -> String {
    let asked = match &call.arguments["command"] {
        Value::String(command) if call.name == super::actions::BASH => command.clone(),
        _ => call.arguments.to_string(),
    };
    let ended = match call.result.exit_code {
        Some(code) => format!("exit code {code}"),
        None => status_name(call.result.status).to_owned(),
    };
    format!("{}: {} -> {ended}.", call.name, short(&asked))
}

/// The text on one line, its end left out where it is long.
fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;
    use crate::harness::{ToolResult, ToolStatus};

    const CONDENSE: Condense = Condense { after: 10, first: 1, last: 4 };

    /// The gaps of an episode, by the number of turns before which they open.
    fn gaps(condense: Condense, turns: usize) -> Vec<(usize, usize, usize)> {
        let (mut now, mut found) = (Gap::default(), Vec::new());
        for count in 1..=turns {
            if let Some(gap) = Gap::due(condense, count, now) {
                now = gap;
                found.push((count, gap.first, gap.end));
            }
        }
        found
    }

    #[test]
    fn a_history_is_shortened_when_it_is_longer_than_it_may_be_and_not_before() {
        let check = |condense, turns, expected: &[(usize, usize, usize)]| {
            assert_eq!(gaps(condense, turns), expected, "{condense:?}");
        };
        check(Condense::default(), 500, &[]);
        check(CONDENSE, 10, &[]);
        check(CONDENSE, 11, &[(11, 1, 7)]);
        // 5 turns are left, and 6 more make it too long again.
        check(CONDENSE, 16, &[(11, 1, 7)]);
        check(CONDENSE, 17, &[(11, 1, 7), (17, 1, 13)]);
        check(Condense { first: 0, ..CONDENSE }, 11, &[(11, 0, 7)]);
    }

    #[test]
    fn a_context_without_room_shortens_a_history_that_is_long_enough() {
        let check = |turns, now: (usize, usize), expected: Option<(usize, usize)>| {
            let now = Gap { first: now.0, end: now.1 };
            let gap = Gap::under_pressure(CONDENSE, turns, now).map(|gap| (gap.first, gap.end));
            assert_eq!(gap, expected, "{turns} turns");
        };
        check(7, (0, 0), None);
        check(8, (0, 0), Some((1, 4)));
        check(9, (1, 4), None);
        check(11, (1, 4), Some((1, 7)));
        assert_eq!(Gap::under_pressure(Condense::default(), 500, Gap::default()), None);
    }

    #[test]
    fn a_full_context_keeps_fewer_of_the_newest_turns_and_one_at_least() {
        let mut now = Gap::default();
        let mut ends = Vec::new();
        while let Some(gap) = Gap::full(CONDENSE, 9, now) {
            now = gap;
            ends.push(gap.end);
        }
        assert_eq!(ends, [5, 7, 8]);
        assert_eq!(Gap::full(CONDENSE, 1, Gap::default()), None);
        // Fewer turns than stay by the manifest.
        assert_eq!(Gap::full(CONDENSE, 3, Gap::default()), Some(Gap { first: 1, end: 2 }));
        assert_eq!(Gap::full(Condense::default(), 9, Gap::default()), None);
    }

    fn turn(number: usize, reply: &str, calls: Vec<CallRecord>) -> TurnRecord {
        let given = if number == 1 {
            vec![Message::new(Role::System, "system"), Message::new(Role::User, "task")]
        } else {
            vec![Message::new(Role::User, format!("result {}", number - 1))]
        };
        TurnRecord {
            input: given,
            reply: Message::new(Role::Assistant, reply),
            policy_version: 0,
            sampled_tokens: 1,
            prompt_tokens: 0,
            cost: 0.0,
            condensed: None,
            finish: Default::default(),
            calls,
        }
    }

    fn call(name: &str, arguments: Value, status: ToolStatus, exit_code: Option<i32>) -> CallRecord {
        let result = ToolResult { status, exit_code, text: String::new(), raw_bytes: 0 };
        CallRecord { name: name.into(), arguments, result, seconds: 0.0 }
    }

    #[test]
    fn a_summary_says_what_was_called_and_how_it_ended() {
        use ToolStatus::{Failed, Finished, TimedOut};
        let bash = |command: &str, status, code| call("bash", json!({ "command": command }), status, code);
        let turns = [
            turn(1, "kept", vec![]),
            turn(2, "I look.\n```bash\nls\n```", vec![bash("ls  -la\n| head", Finished, Some(0))]),
            turn(3, "```bash\nsleep 99\n```", vec![bash("sleep 99", TimedOut, None)]),
            turn(4, "Hm.", vec![]),
            turn(
                5,
                "",
                vec![
                    call("editor", json!({"path": "a.py"}), Failed, None),
                    bash(&"x".repeat(300), Finished, Some(2)),
                ],
            ),
            turn(6, "newest", vec![]),
        ];
        let gap = Gap { first: 1, end: 5 };
        let condensed = gap.condensed(&turns, 2_000);
        assert_eq!((condensed.from, condensed.to), (2, 5));
        expect![[r#"
            [Turns 2 to 5 of this conversation were left out to save room. Changes to files are still there. In those turns:]
            2. "I look." bash: ls -la | head -> exit code 0.
            3. bash: sleep 99 -> timed-out.
            4. "Hm." No tool was called.
            5. editor: {"path":"a.py"} -> failed. bash: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… -> exit code 2."#]].assert_eq(&condensed.summary);
        // It is cut like everything else that the policy reads.
        assert!(gap.condensed(&turns, 100).summary.contains("[cut: 100 of "));
    }

    #[test]
    fn roles_alternate_around_a_summary() {
        let turns: Vec<_> = (1..=4).map(|number| turn(number, &format!("reply {number}"), vec![])).collect();
        let pending = [Message::new(Role::User, "result 4")];
        let check = |first: usize, end: usize, expected: &[&str]| {
            let messages = Gap { first, end }.conversation(&turns, &pending, "SUMMARY");
            let texts: Vec<_> = messages.iter().map(Message::text).collect();
            assert_eq!(texts, expected);
            let roles: Vec<_> = messages.iter().skip(1).map(|message| message.role).collect();
            assert!(roles.chunks(2).all(|pair| pair[0] == Role::User), "{roles:?}");
        };
        let end = ["reply 4", "result 4"];
        check(0, 3, &[&["system", "task\n\nSUMMARY"][..], &end].concat());
        check(1, 3, &[&["system", "task", "reply 1", "result 1\n\nSUMMARY"][..], &end].concat());
        // Behind an answer to a native call it is a message of its own.
        let mut turns = turns;
        turns[1].input[0].role = Role::Tool;
        let messages = Gap { first: 1, end: 3 }.conversation(&turns, &pending, "SUMMARY");
        assert_eq!((messages[4].role, messages[4].text().as_str()), (Role::User, "SUMMARY"));
        // What was there is not changed.
        assert_eq!(turns[1].input[0].text(), "result 1");
    }
}
