//! What was asked and what was answered in each turn of a record?

use serde_json::{Map, Value, json};

use crate::agent::actions::parse;
use crate::agent::observation::status_name;
use crate::agent::record::{CallRecord, EpisodeRecord, TurnRecord};
use crate::harness::{Effect, Protocol};
use crate::policy::{Message, Origin, Piece, Reply, Role};

/// One turn: what the policy asked for and what it was answered.
pub(super) struct Exchange<'a> {
    /// From 1.
    pub number: u32,
    pub turn: &'a TurnRecord,
    pub asked: Vec<Asked<'a>>,
    pub answers: Vec<Answer<'a>>,
}

/// A call in the words of the policy.
pub(super) struct Asked<'a> {
    pub id: String,
    pub name: String,
    /// As the policy wrote them; not an object when they could not be read.
    pub arguments: Value,
    /// What ran, or was refused; none when the reply could not be acted on.
    pub ran: Option<&'a CallRecord>,
}

impl Asked<'_> {
    /// The arguments that ran, where a hook changed them.
    pub fn rewritten(&self) -> Option<&Value> {
        self.ran.map(|ran| &ran.arguments).filter(|arguments| **arguments != self.arguments)
    }
}

/// A text that stands for the result of a call, or for a reply that could not be acted on.
pub(super) struct Answer<'a> {
    pub role: Role,
    /// Index in [`Exchange::asked`].
    pub call: Option<usize>,
    pub pieces: &'a [Piece],
    /// Where the policy was not called again: the result as it came, before any hook.
    pub unseen: Option<&'a CallRecord>,
}

impl Answer<'_> {
    pub fn text(&self) -> String {
        match self.unseen {
            Some(call) => call.result.text.clone(),
            None => text(self.pieces),
        }
    }
}

/// The exchanges of a record, in order.
pub(super) fn exchanges(record: &EpisodeRecord) -> Vec<Exchange<'_>> {
    let mut all = Vec::new();
    for (number, turn) in (1..).zip(&record.turns) {
        let asked = asked(turn, number);
        let answers = match record.turns.get(all.len() + 1) {
            Some(next) => seen(&next.input, &asked),
            None => unseen(turn, &asked),
        };
        all.push(Exchange { number, turn, asked, answers });
    }
    all
}

fn asked(turn: &TurnRecord, number: u32) -> Vec<Asked<'_>> {
    let native = turn.reply.tool_calls.iter().enumerate().map(|(at, call)| Asked {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        ran: turn.calls.get(at),
    });
    if !turn.reply.tool_calls.is_empty() {
        return native.collect();
    }
    // In the text protocol a reply is one call, and what it says is in the text.
    let text = turn.calls.first().map(|ran| {
        let reply = Reply { text: turn.reply.text(), ..Reply::default() };
        let said = parse(Protocol::Text, &reply, std::slice::from_ref(&ran.name), number);
        let said = said.ok().and_then(|mut calls| calls.pop());
        Asked {
            id: format!("turn-{number}"),
            name: ran.name.clone(),
            arguments: said.map_or_else(|| ran.arguments.clone(), |call| call.arguments),
            ran: Some(ran),
        }
    });
    text.into_iter().collect()
}

/// The messages that the next call was shown.
fn seen<'a>(input: &'a [Message], asked: &[Asked<'_>]) -> Vec<Answer<'a>> {
    let answer = |(at, message): (usize, &'a Message)| {
        let answers = match message.role {
            Role::Tool => at < asked.len(),
            _ => asked.len() == 1,
        };
        Answer { role: message.role, call: answers.then_some(at), pieces: &message.pieces, unseen: None }
    };
    input.iter().enumerate().map(answer).collect()
}

/// The results after which the policy was not called again.
fn unseen<'a>(turn: &'a TurnRecord, asked: &[Asked<'_>]) -> Vec<Answer<'a>> {
    let role = if turn.reply.tool_calls.is_empty() { Role::User } else { Role::Tool };
    let answer = |(at, call): (usize, &'a CallRecord)| {
        let index = (at < asked.len()).then_some(at);
        Answer { role, call: index, pieces: &[], unseen: Some(call) }
    };
    turn.calls.iter().enumerate().map(answer).collect()
}

/// The text of pieces, as the policy read it.
pub(super) fn text(pieces: &[Piece]) -> String {
    pieces.iter().map(|piece| piece.text.as_str()).collect()
}

/// Where text lies that is not the host's or the policy's, and whose it is: `from` and `to` count
/// characters of the whole text. None when there is no such text.
pub(super) fn origins(pieces: &[Piece]) -> Option<Value> {
    let (mut found, mut at) = (Vec::new(), 0);
    for piece in pieces {
        let end = at + piece.text.chars().count();
        if !matches!(piece.origin, Origin::Host | Origin::Policy) {
            found.push(json!({"from": at, "to": end, "by": piece.origin}));
        }
        at = end;
    }
    (!found.is_empty()).then_some(Value::Array(found))
}

/// What is known of a result beside its text.
pub(super) fn facts(call: &CallRecord) -> Map<String, Value> {
    let mut facts = Map::new();
    facts.insert("status".into(), status_name(call.result.status).into());
    facts.insert("exit_code".into(), call.result.exit_code.into());
    facts.insert("raw_bytes".into(), call.result.raw_bytes.into());
    facts.insert("seconds".into(), call.seconds.into());
    facts
}

/// The effects of a turn; turn 0 is the start of the episode.
pub(super) fn effects(record: &EpisodeRecord, turn: u32) -> Vec<&Effect> {
    record.effects.iter().filter(|effect| effect.turn == turn).collect()
}

/// The effects after the last reply.
pub(super) fn late_effects(record: &EpisodeRecord) -> Vec<&Effect> {
    let replies = record.turns.len();
    // Without a reply there is no step of a turn, and the first prompt was not shown.
    let late = |turn: u32| replies == 0 || usize::try_from(turn).is_ok_and(|turn| turn > replies);
    record.effects.iter().filter(|effect| late(effect.turn)).collect()
}

/// What is known of the episode beside its conversation.
pub(super) fn about(record: &EpisodeRecord) -> Map<String, Value> {
    let mut about = Map::new();
    let mut put = |name: &str, value: Value| about.insert(name.to_owned(), value);
    put("episode", json!(record.id));
    put("task", json!(record.task));
    put("seed", json!(record.seed));
    put("policy", json!(record.policy));
    put("policy_version", json!(record.policy_version));
    put("harness", json!(record.harness));
    put("outcome", json!(record.outcome));
    put("exit", json!(record.exit));
    put("patch_source", json!(record.patch_source));
    // The text of a patch that is not UTF-8 is not the patch.
    match std::str::from_utf8(&record.patch) {
        Ok(patch) => put("patch", json!(patch)),
        Err(_) => put("patch_hex", json!(hex::encode(&record.patch))),
    };
    put("faults", json!(record.faults));
    put("spent", json!(record.spent));
    about
}
