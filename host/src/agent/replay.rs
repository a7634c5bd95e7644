//! What would a recorded episode have been under another harness? The recorded replies are
//! given again, without a model; commands run again in a new workspace, hooks are asked again.
//!
//! After the first effect that differs the policy would have read something else, and might have
//! said something else: what a replay shows beyond that turn is how the hooks act on these replies,
//! not what the policy would have done.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use tracing::instrument::WithSubscriber;

use super::cancel::Cancel;
use super::episode::{EpisodeSpec, run_episode};
use super::record::{EpisodeRecord, Exit, InvalidCause, Outcome};
use crate::harness::{Effect, EffectKind, Fault, Lease, LimitKind, Usage};
use crate::policy::{
    Message, OpenSession, Origin, Policy, PolicyError, Price, Reply, Sampling, Session, TokenUsage,
};
use crate::store::Digest;
use crate::task::Task;
use crate::workspace::WorkspaceConfig;

/// Runs a recorded episode again under the harness of `lease`, on the `task` that it was about.
/// None when asked to stop.
///
/// The record that comes back has the token ids of no model: it is to be read, not trained on.
pub async fn replay(
    recorded: &EpisodeRecord,
    task: Arc<Task>,
    lease: &Lease,
    config: &WorkspaceConfig,
    cancel: &Cancel,
) -> Option<EpisodeRecord> {
    let spec = EpisodeSpec {
        id: recorded.id.clone(),
        group: recorded.id.clone(),
        task,
        seed: recorded.seed,
        sampling: Sampling::default(),
        skill: skill_of(recorded),
    };
    // That the recorded replies come to an end is what a replay shows, and no trouble for the log.
    let quiet = tracing::subscriber::NoSubscriber::default();
    run_episode(&spec, &Recorded::of(recorded), lease, config, cancel).with_subscriber(quiet).await
}

/// The skill that the policy of a recorded episode was shown, from the pieces of the first prompt.
pub fn skill_of(recorded: &EpisodeRecord) -> Option<String> {
    let first = recorded.turns.first()?;
    let pieces = first.input.iter().flat_map(|message| &message.pieces);
    pieces.filter(|piece| piece.origin == Origin::Skill).map(|piece| piece.text.clone()).next()
}

/// What was replied, with as many ids as were sampled, so that the budget of tokens is used up as it was.
pub(super) fn replies(record: &EpisodeRecord) -> Vec<Reply> {
    let reply = |turn: &super::record::TurnRecord| {
        let tokens = usize::try_from(turn.sampled_tokens).unwrap_or_default();
        Reply {
            text: turn.reply.text(),
            tool_calls: turn.reply.tool_calls.clone(),
            finish: turn.finish,
            prompt_ids: Vec::new(),
            ids: vec![0; tokens],
            logprobs: vec![0.0; tokens],
            policy_version: turn.policy_version,
            // Records of earlier versions do not tell it.
            usage: (turn.prompt_tokens > 0)
                .then_some(TokenUsage { prompt: turn.prompt_tokens, reply: turn.sampled_tokens }),
        }
    };
    record.turns.iter().map(reply).collect()
}

/// A policy that says again what it said.
struct Recorded {
    name: String,
    version: u64,
    replies: Arc<Vec<Reply>>,
    price: Price,
    context: Option<u64>,
    /// Tokens and context, where the record ended because they did not fit.
    full: Option<(usize, usize)>,
}

impl Recorded {
    fn of(record: &EpisodeRecord) -> Self {
        let Usage { used, limit } = record.spent.context;
        let full = match record.exit {
            Exit::Limit { limit: LimitKind::Context, .. } => {
                usize::try_from(used).ok().zip(limit.and_then(|limit| usize::try_from(limit).ok()))
            }
            _ => None,
        };
        Self {
            full,
            name: record.policy.clone(),
            version: record.policy_version,
            replies: Arc::new(replies(record)),
            price: record.spent.price,
            context: record.spent.context.limit,
        }
    }
}

#[async_trait]
impl Policy for Recorded {
    async fn open(&self, request: OpenSession) -> Result<Box<dyn Session>, PolicyError> {
        let turn = request.after;
        let (name, replies, full) = (self.name.clone(), self.replies.clone(), self.full);
        Ok(Box::new(RecordedSession { name, replies, full, turn }))
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn price(&self) -> Option<Price> {
        Some(self.price)
    }

    fn context(&self) -> Option<u64> {
        self.context
    }
}

struct RecordedSession {
    name: String,
    replies: Arc<Vec<Reply>>,
    full: Option<(usize, usize)>,
    turn: usize,
}

#[async_trait]
impl Session for RecordedSession {
    async fn reply(&mut self, _new: &[Message]) -> Result<Reply, PolicyError> {
        self.turn += 1;
        let policy = self.name.clone();
        match (self.replies.get(self.turn - 1), self.full) {
            (Some(reply), _) => Ok(reply.clone()),
            (None, Some((used, limit))) => Err(PolicyError::ContextFull { policy, used, limit }),
            (None, None) => {
                let reason = format!("the record has no reply {}", self.turn);
                Err(PolicyError::Failed { policy, reason })
            }
        }
    }
}

/// What differs between two records of the same replies.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changes {
    pub episode: String,
    pub task: String,
    /// Harness digests.
    pub from: Digest,
    pub to: Digest,
    /// The first turn after which the policy would have read something else, if there is one.
    pub parted: Option<u32>,
    /// Effects that are gone, and new ones, in the order of turns. The same effect by another
    /// version of a plugin is no change.
    pub gone: Vec<Effect>,
    pub new: Vec<Effect>,
    pub new_faults: Vec<Fault>,
    /// How it ended, in words, where that differs.
    pub ending: Option<(String, String)>,
    /// The later record asks for more replies than there are.
    pub goes_on: bool,
}

impl Changes {
    /// Compares `to` with `from`, two records of the same replies.
    pub fn between(from: &EpisodeRecord, to: &EpisodeRecord) -> Self {
        let (gone, new) = (without(&from.effects, &to.effects), without(&to.effects, &from.effects));
        let known: Vec<_> = from.faults.iter().map(fault_key).collect();
        let new_faults =
            to.faults.iter().filter(|fault| !known.contains(&fault_key(fault))).cloned().collect();
        let goes_on = matches!(to.exit, Exit::Failed { cause: InvalidCause::Policy, .. })
            && to.turns.len() == from.turns.len()
            && !matches!(from.exit, Exit::Failed { .. });
        let to_ending = match goes_on {
            true => format!("goes on after {} turns", to.turns.len()),
            false => ending(to),
        };
        let endings = (ending(from), to_ending);
        // A history that is shortened elsewhere is read in another form.
        let pairs = (1..).zip(from.turns.iter().zip(&to.turns));
        let history = pairs.filter(|(_, (from, to))| from.condensed != to.condensed).map(|(turn, _)| turn);
        Self {
            episode: to.id.clone(),
            task: to.task.clone(),
            from: from.harness,
            to: to.harness,
            parted: gone
                .iter()
                .chain(&new)
                .filter(|effect| is_read(effect.kind))
                .map(|effect| effect.turn)
                .chain(history)
                .min(),
            gone,
            new,
            new_faults,
            ending: (endings.0 != endings.1).then_some(endings),
            goes_on,
        }
    }

    /// Whether nothing differs.
    pub fn none(&self) -> bool {
        self.gone.is_empty()
            && self.new.is_empty()
            && self.new_faults.is_empty()
            && self.ending.is_none()
            && self.parted.is_none()
    }
}

/// Whether an effect of this kind changes what the policy reads next.
fn is_read(kind: EffectKind) -> bool {
    !matches!(kind, EffectKind::Log | EffectKind::Choose | EffectKind::Salvage)
}

type EffectKey<'a> = (&'a str, &'static str, u32, &'static str, &'a str);

fn effect_key(effect: &Effect) -> EffectKey<'_> {
    (&effect.name, effect.point.name(), effect.turn, effect.kind.name(), &effect.text)
}

fn fault_key(fault: &Fault) -> (&str, &'static str, u32) {
    (&fault.name, fault.point.name(), fault.turn)
}

/// The effects of `all` that `other` lacks; each of `other` stands for one.
fn without(all: &[Effect], other: &[Effect]) -> Vec<Effect> {
    let mut left: BTreeMap<EffectKey<'_>, usize> = BTreeMap::new();
    for effect in other {
        *left.entry(effect_key(effect)).or_default() += 1;
    }
    let mut lacking = Vec::new();
    for effect in all {
        match left.get_mut(&effect_key(effect)) {
            Some(count) if *count > 0 => *count -= 1,
            _ => lacking.push(effect.clone()),
        }
    }
    lacking
}

/// How an episode ended, in words.
fn ending(record: &EpisodeRecord) -> String {
    let turns = record.turns.len();
    let exit = match &record.exit {
        Exit::Submitted => "handed in".to_owned(),
        Exit::Limit { limit, salvaged } => {
            let what = if *salvaged { ", the work tree handed in" } else { "" };
            format!("limit of {}{what}", limit.name())
        }
        Exit::Stopped { reason, .. } => format!("stopped: {reason}"),
        Exit::Failed { reason, .. } => format!("failed: {}", reason.lines().next().unwrap_or_default()),
    };
    let outcome = match record.outcome {
        Outcome::Solved => "solved",
        Outcome::Unsolved => "unsolved",
        Outcome::Invalid(_) => "no verdict",
    };
    format!("{outcome} after {turns} turns, {exit}")
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.none() {
            return write!(f, "{}: nothing changes", self.episode);
        }
        write!(f, "{}:", self.episode)?;
        if let Some((from, to)) = &self.ending {
            write!(f, " {from} -> {to}")?;
        }
        let mut lines: Vec<(u32, String)> = Vec::new();
        for (sign, effects) in [('-', &self.gone), ('+', &self.new)] {
            for effect in effects {
                let Effect { name, point, turn, kind, text, .. } = effect;
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                let line = format!(
                    "{sign} turn {turn}, {name} at {}: {} {}",
                    point.name(),
                    kind.name(),
                    short(&text)
                );
                lines.push((*turn, line.trim_end().to_owned()));
            }
        }
        for fault in &self.new_faults {
            let line =
                format!("! turn {}, {} at {}: {}", fault.turn, fault.name, fault.point.name(), fault.reason);
            lines.push((fault.turn, line));
        }
        lines.sort_by_key(|(turn, _)| *turn);
        for (_, line) in lines {
            write!(f, "\n  {line}")?;
        }
        if let Some(turn) = self.parted {
            write!(f, "\n  from turn {turn} on the policy would have read something else")?;
        }
        Ok(())
    }
}

fn short(text: &str) -> String {
    const CHARS: usize = 100;
    match text.char_indices().nth(CHARS) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::testkit::*;
    use super::*;
    use crate::harness::{Condense, Generation, HarnessManifest, HookPoint, Limits, PluginEntry};
    use crate::plugin::testkit::Guest;
    use crate::policy::FinishReason;
    use crate::store::BlobStore;

    type Plugins<'a> = &'a [(&'a str, Vec<u8>)];

    async fn again(recorded: &EpisodeRecord, plugins: Plugins<'_>, limits: Limits) -> EpisodeRecord {
        let folder = tempfile::tempdir().unwrap();
        let blobs = BlobStore::open(folder.path()).unwrap();
        let entry = |(name, bytes): &(&str, Vec<u8>)| PluginEntry {
            name: (*name).to_owned(),
            digest: blobs.put(bytes).unwrap(),
            grants: Vec::new(),
            settings: serde_json::Map::new(),
        };
        let plugins = plugins.iter().map(entry).collect();
        let manifest = HarnessManifest { plugins, limits, ..HarnessManifest::bare() };
        let lease = Generation::build(engine(), manifest, &blobs).await.unwrap().lease();
        let task = spec(None).task;
        replay(recorded, task, &lease, &WorkspaceConfig::default(), &Cancel::new()).await.unwrap()
    }

    /// Records these replies without plugins, replays them under `plugins`, and says what changes.
    async fn check(replies: &[&str], plugins: Plugins<'_>, limits: Limits, expected: Expect) {
        let recorded = play(&[], limits.clone(), replies).await;
        let replayed = again(&recorded, plugins, limits).await;
        expected.assert_eq(&Changes::between(&recorded, &replayed).to_string());
    }

    #[tokio::test]
    async fn the_same_harness_changes_nothing() {
        let replies = ["ls", ".nothing to do", FIX, SUBMIT];
        check(&replies, &[], Limits::default(), expect!["e: nothing changes"]).await;
        let limits = Limits { turns: 2, ..Limits::default() };
        check(&["ls", "ls"], &[], limits, expect!["e: nothing changes"]).await;
        let condense = Condense { after: 3, first: 1, last: 1 };
        let limits = Limits { condense, ..Limits::default() };
        check(&["ls", "ls", "ls", "ls", SUBMIT], &[], limits, expect!["e: nothing changes"]).await;
        // Tokens are used up as they were, and a reply that was cut off stays one.
        let policy = crate::policy::ScriptedPolicy::answering(|_, turn, _| {
            let text = if turn < 3 { "```bash\nls" } else { "```bash\nls\n```" }.to_owned();
            let finish = if turn < 3 { FinishReason::Length } else { FinishReason::Stop };
            Some(Reply { text, finish, ..Reply::default() })
        });
        let limits = Limits { turns: 4, tokens: 12, ..Limits::default() };
        let recorded = play_on(engine(), &[], limits.clone(), &policy).await;
        let replayed = again(&recorded, &[], limits).await;
        let policy = scripted(&["ls", "ls", "ls"]).with_price(Price { prompt: 1.0, reply: 2.0 });
        let policy = policy.with_context(usize::MAX);
        let limits = Limits { turns: 3, ..Limits::default() };
        let paid = play_on(engine(), &[], limits.clone(), &policy).await;
        assert_eq!(again(&paid, &[], limits).await.spent, paid.spent);
        let tokens =
            |record: &EpisodeRecord| record.turns.iter().map(|turn| turn.sampled_tokens).collect::<Vec<_>>();
        assert_eq!((tokens(&recorded), &recorded.exit), (tokens(&replayed), &replayed.exit));
        assert!(Changes::between(&recorded, &replayed).none());
    }

    #[tokio::test]
    async fn a_new_hook_shows_what_it_would_have_done() {
        let hold = says(HookPoint::OnSubmit, "Look again.");
        check(
            &["ls", FIX, SUBMIT],
            &[("hold", hold)],
            Limits::default(),
            expect![[r#"
                e: solved after 3 turns, handed in -> goes on after 3 turns
                  + turn 3, hold at on-submit: defer Look again.
                  from turn 3 on the policy would have read something else"#]],
        )
        .await;
        let salvage = Guest::new().on(HookPoint::OnLimit, "(i32.const 1)").build();
        check(
            &[FIX],
            &[("salvage", salvage)],
            Limits { turns: 1, ..Limits::default() },
            expect![[r#"
                e: unsolved after 1 turns, limit of turns -> solved after 1 turns, limit of turns, the work tree handed in
                  + turn 1, salvage at on-limit: salvage"#]],
        )
        .await;
    }

    #[tokio::test]
    async fn the_same_effect_of_another_version_is_no_change() {
        let note = |text: &str| vec![("note", on(HookPoint::OnToolResult, 0, text))];
        let recorded = play(&note("Run the tests."), Limits::default(), &["ls", FIX, SUBMIT]).await;
        let mut other = note("Run the tests.");
        // Other bytes, same behaviour.
        other[0].1.extend([0, 3, 1, b'x', 0]);
        let replayed = again(&recorded, &other, Limits::default()).await;
        assert_ne!(recorded.harness, replayed.harness);
        assert!(Changes::between(&recorded, &replayed).none());

        let replayed = again(&recorded, &note("Run them."), Limits::default()).await;
        let changes = Changes::between(&recorded, &replayed);
        assert_eq!((changes.gone.len(), changes.new.len(), changes.parted), (3, 3, Some(1)));
    }
}
