//! What may a teacher see of failed episodes? Built from episode records alone,
//! which hold no test, no reference patch and no output of a verifier: of a
//! verdict they keep one word. Task names are left out too, since no plugin may
//! know a task by name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tandem_host::agent::{EpisodeRecord, Exit, Outcome, TurnRecord};
use tandem_host::policy::{Message, Origin, Role};

use super::super::signals::{Signal, diagnose};
use super::tokens::{estimate, shorten};

/// One failed episode.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    signals: BTreeSet<Signal>,
    /// Which of the tasks, by number: the name is not kept.
    task: usize,
    turns: Vec<Turn>,
    end: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Turn {
    /// What the policy was shown.
    shown: String,
    reply: String,
}

/// The failing evidence of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The system text that the policy works under.
    system: String,
    failures: Vec<Failure>,
    /// Failed episodes by signal.
    counts: BTreeMap<Signal, usize>,
}

/// Tokens of one message at most, so that no single output fills the evidence.
const MESSAGE_TOKENS: usize = 600;
/// Tokens that are not worth an episode of their own.
const SCRAP_TOKENS: usize = 150;

impl Evidence {
    /// The failed episodes among `records`. Solved ones and those without a verdict are left out.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a EpisodeRecord>) -> Self {
        let mut evidence = Self::default();
        let mut tasks: BTreeMap<&str, usize> = BTreeMap::new();
        for record in records.into_iter().filter(|record| record.outcome == Outcome::Unsolved) {
            let number = tasks.len();
            let task = *tasks.entry(&record.task).or_insert(number);
            let signals: BTreeSet<Signal> = diagnose([record]).signals.into_keys().collect();
            for signal in &signals {
                *evidence.counts.entry(*signal).or_default() += 1;
            }
            if evidence.system.is_empty() {
                evidence.system = system_text(record);
            }
            let turns = record.turns.iter().map(turn).collect();
            evidence.failures.push(Failure { signals, task, turns, end: end(record) });
        }
        evidence
    }

    /// The system text of the policy.
    pub fn system(&self) -> &str {
        &self.system
    }

    /// The evidence as text of at most `limit` tokens, most informative first: episodes
    /// that show the commonest signals not shown yet, then tasks not shown yet, then
    /// short ones. `of_interest` are the signals that count; none counts all.
    pub fn render(&self, limit: usize, of_interest: &[Signal]) -> String {
        let mut text = String::new();
        let mut left: Vec<&Failure> = self.failures.iter().collect();
        let (mut signals, mut tasks): (BTreeSet<Signal>, BTreeSet<usize>) = Default::default();
        // So that at least three episodes are shown.
        let share = (limit / 3).max(SCRAP_TOKENS);
        while let Some(at) = self.most_informative(&left, &signals, &tasks, of_interest) {
            let free = limit.saturating_sub(estimate(&text));
            if free < SCRAP_TOKENS && !text.is_empty() {
                break;
            }
            let failure = left.remove(at);
            signals.extend(&failure.signals);
            tasks.insert(failure.task);
            text.push_str(&failure.render(tasks_shown(&text), free.min(share)));
        }
        text
    }

    fn most_informative(
        &self,
        left: &[&Failure],
        signals: &BTreeSet<Signal>,
        tasks: &BTreeSet<usize>,
        of_interest: &[Signal],
    ) -> Option<usize> {
        let counts = |failure: &Failure, new: bool| -> usize {
            let wanted = |signal: &&Signal| {
                (of_interest.is_empty() || of_interest.contains(signal)) && !(new && signals.contains(signal))
            };
            failure.signals.iter().filter(wanted).filter_map(|signal| self.counts.get(signal)).sum()
        };
        let key = |failure: &Failure| {
            (
                counts(failure, true),
                !tasks.contains(&failure.task),
                counts(failure, false),
                std::cmp::Reverse(failure.turns.len()),
            )
        };
        // The first of equals, so that the order of the records decides ties.
        (0..left.len()).rev().max_by_key(|at| key(left[*at]))
    }
}

fn tasks_shown(text: &str) -> usize {
    text.matches("\n### Episode ").count() + usize::from(text.starts_with("### Episode "))
}

impl Failure {
    /// The episode within `limit` tokens: its beginning and its end are kept, turns in
    /// the middle are left out first.
    fn render(&self, before: usize, limit: usize) -> String {
        let names: Vec<_> = self.signals.iter().map(|signal| signal.name()).collect();
        let names = if names.is_empty() { "none".into() } else { names.join(", ") };
        let head = format!("### Episode {}\n\nSignals: {names}\n", before + 1);
        let end = format!("\nEnd: {}\n\n", self.end);
        let room = limit.saturating_sub(estimate(&head) + estimate(&end));
        let turns: Vec<String> =
            self.turns.iter().enumerate().map(|(at, turn)| turn.render(at + 1)).collect();
        let middle = |skipped: usize| format!("\n[… {skipped} turns left out …]\n");
        // First turn, then from the end backwards, as far as there is room.
        let mut used = turns.first().map_or(0, |turn| estimate(turn)) + 12;
        let mut tail = turns.len();
        while tail > 1 && used + estimate(&turns[tail - 1]) <= room {
            tail -= 1;
            used += estimate(&turns[tail]);
        }
        let mut body = turns.first().cloned().unwrap_or_default();
        if tail > 1 {
            body.push_str(&middle(tail - 1));
        }
        body.extend(turns.iter().skip(tail).map(String::as_str));
        format!("{head}{}{end}", shorten(&body, room))
    }
}

impl Turn {
    fn render(&self, number: usize) -> String {
        let mut text = String::new();
        let _ = write!(text, "\n--- turn {number}, shown to the policy:\n{}\n", self.shown);
        let _ = write!(text, "--- turn {number}, the policy:\n{}\n", self.reply);
        text
    }
}

fn turn(turn: &TurnRecord) -> Turn {
    let shown = turn.input.iter().filter(|message| message.role != Role::System).map(plain);
    let shown: Vec<String> = shown.map(|text| shorten(text.trim(), MESSAGE_TOKENS)).collect();
    let mut reply = plain(&turn.reply);
    for call in &turn.reply.tool_calls {
        let _ = write!(reply, "\n[call of {}: {}]", call.name, call.arguments);
    }
    Turn { shown: shown.join("\n"), reply: shorten(reply.trim(), MESSAGE_TOKENS) }
}

/// The text of a message without skills, which are one task's matter.
fn plain(message: &Message) -> String {
    let pieces = message.pieces.iter().filter(|piece| piece.origin != Origin::Skill);
    pieces.map(|piece| piece.text.as_str()).collect()
}

fn system_text(record: &EpisodeRecord) -> String {
    let first = record.turns.first().into_iter().flat_map(|turn| &turn.input);
    first.filter(|message| message.role == Role::System).map(plain).collect()
}

/// How it ended, from the harness's point of view.
fn end(record: &EpisodeRecord) -> String {
    let how = match &record.exit {
        Exit::Submitted => "the policy handed in".to_owned(),
        Exit::Limit { salvaged: true, .. } => "a limit; a hook handed in the work tree".into(),
        Exit::Limit { salvaged: false, .. } => "a limit; nothing was handed in".into(),
        Exit::Stopped { reason, .. } => format!("a hook stopped it: {}", shorten(reason, 60)),
        // Only episodes with a verdict get here.
        Exit::Failed { .. } => "trouble outside the episode".into(),
    };
    let applies = match record.submitted_applies {
        Some(true) => "; it applies",
        Some(false) => "; the submitted text does not apply",
        None => "",
    };
    let tree = &record.work_tree;
    format!(
        "{how}; the patch has {} bytes{applies}; {} files changed and {} are new in the work tree; the task is not solved",
        record.patch.len(),
        tree.changed.len(),
        tree.untracked.len(),
    )
}
