//! What does a policy do from some turn of a recorded episode on?
//!
//! The turns before it are given again as they were recorded: commands run again in a new workspace,
//! hooks are asked again. So workspace, plugins and conversation are where they were, under this
//! harness or another one, and no files have to be kept for it.

use std::sync::Arc;

use async_trait::async_trait;

use super::record::EpisodeRecord;
use super::replay::replies;
use crate::policy::{Message, OpenSession, Policy, PolicyError, Price, Reply, Role, Session, TokenUsage};

/// A policy that says what was recorded for some turns, and from there on what another one says.
///
/// Its episodes are to be read, not trained on: no token ids are told.
pub struct Branch {
    replies: Arc<Vec<Reply>>,
    policy: Arc<dyn Policy>,
}

/// A record cannot be gone on with from the turn that was asked for.
#[derive(Debug, thiserror::Error)]
#[error(
    "the episode `{episode}` has {turns} turns, so none can follow turn {after}\nhelp: name a turn from 0 to {turns}"
)]
pub struct NoSuchTurn {
    episode: String,
    turns: usize,
    after: usize,
}

impl Branch {
    /// Says again the first `after` replies of a record; `policy` says the rest.
    ///
    /// # Errors
    /// When the record has fewer turns.
    pub fn new(record: &EpisodeRecord, after: usize, policy: Arc<dyn Policy>) -> Result<Self, NoSuchTurn> {
        let turns = record.turns.len();
        if after > turns {
            return Err(NoSuchTurn { episode: record.id.clone(), turns, after });
        }
        let replies = replies(record).into_iter().take(after).map(without_ids).collect();
        Ok(Self { replies: Arc::new(replies), policy })
    }
}

/// The reply with its tokens as numbers: ids of two policies in one segment would be no input of either.
fn without_ids(mut reply: Reply) -> Reply {
    let sampled = reply.ids.len() as u64;
    if reply.usage.is_none() && sampled > 0 {
        let prompt = reply.prompt_ids.len() as u64;
        reply.usage = Some(TokenUsage { prompt, reply: sampled });
    }
    (reply.prompt_ids, reply.ids, reply.logprobs) = Default::default();
    reply
}

#[async_trait]
impl Policy for Branch {
    async fn open(&self, request: OpenSession) -> Result<Box<dyn Session>, PolicyError> {
        let (replies, policy, turn) = (self.replies.clone(), self.policy.clone(), request.after);
        Ok(Box::new(BranchSession {
            replies,
            policy,
            request,
            turn,
            said: Vec::new(),
            live: None,
            prompt: 0,
        }))
    }

    fn version(&self) -> u64 {
        self.policy.version()
    }

    fn name(&self) -> String {
        self.policy.name()
    }

    fn price(&self) -> Option<Price> {
        self.policy.price()
    }

    fn context(&self) -> Option<u64> {
        self.policy.context()
    }

    fn lost(&self) -> Option<String> {
        self.policy.lost()
    }
}

struct BranchSession {
    replies: Arc<Vec<Reply>>,
    policy: Arc<dyn Policy>,
    request: OpenSession,
    /// Replies that the episode has had.
    turn: usize,
    /// The conversation, until the policy is first asked.
    said: Vec<Message>,
    live: Option<Box<dyn Session>>,
    /// Tokens of the conversation, where the policy tells ids.
    prompt: u64,
}

#[async_trait]
impl Session for BranchSession {
    async fn reply(&mut self, new: &[Message]) -> Result<Reply, PolicyError> {
        if let Some(reply) = self.replies.get(self.turn) {
            self.said.extend_from_slice(new);
            let mut said = Message::new(Role::Assistant, reply.text.clone());
            said.tool_calls = reply.tool_calls.clone();
            self.said.push(said);
            self.turn += 1;
            return Ok(reply.clone());
        }
        let reply = match &mut self.live {
            Some(live) => live.reply(new).await?,
            None => {
                let request = OpenSession { after: self.turn, ..self.request.clone() };
                let live = self.live.insert(self.policy.open(request).await?);
                self.said.extend_from_slice(new);
                let whole = std::mem::take(&mut self.said);
                live.reply(&whole).await?
            }
        };
        self.turn += 1;
        // The ids of a turn are what is new in it; the prompt is the conversation.
        let prompt = self.prompt + reply.prompt_ids.len() as u64;
        self.prompt = prompt + reply.ids.len() as u64;
        let mut reply = without_ids(reply);
        if let Some(usage) = reply.usage.as_mut().filter(|usage| usage.prompt < prompt) {
            usage.prompt = prompt;
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testkit::*;
    use super::super::{Exit, Outcome};
    use super::*;
    use crate::harness::{Condense, EffectKind, HookPoint, Limits};
    use crate::policy::ScriptedPolicy;

    /// Records `replies`, goes on after some of them with what `then` says, and gives both records.
    async fn branch(
        replies: &[&str],
        after: usize,
        plugins: &[(&str, Vec<u8>)],
        limits: Limits,
        then: ScriptedPolicy,
    ) -> [EpisodeRecord; 2] {
        let recorded = play(&[], Limits { turns: replies.len() as u64, ..limits.clone() }, replies).await;
        let policy = Branch::new(&recorded, after, Arc::new(then)).unwrap();
        let went_on = play_spec(engine(), plugins, limits, &policy, None).await;
        [recorded, went_on]
    }

    #[tokio::test]
    async fn a_policy_goes_on_where_the_record_was() {
        // The script of the other policy counts all turns.
        let then = scripted(&["never", "never", "cat calc.py", SUBMIT]);
        let [recorded, record] = branch(&[FIX, "ls", "ls"], 2, &[], Limits::default(), then).await;
        assert_eq!((record.exit, record.outcome, record.turns.len()), (Exit::Submitted, Outcome::Solved, 4));
        assert_eq!(record.turns[1].input, recorded.turns[1].input);
        assert!(record.turns[3].input[0].text().contains("left + right"), "the work of turn 1 is there");
        assert!(record.segments.is_empty(), "tokens of two policies");
    }

    #[tokio::test]
    async fn the_other_policy_is_given_the_whole_conversation_once() {
        let then = ScriptedPolicy::answering(|request, turn, new| {
            let texts: Vec<_> = new.iter().map(Message::text).collect();
            match turn {
                3 => {
                    assert_eq!((request.after, new.len()), (2, 6));
                    assert!(texts[2].contains("echo one") && texts[4].contains("echo two"), "{texts:?}");
                    assert!(texts[5].ends_with("two"), "{texts:?}");
                }
                _ => assert_eq!(new.len(), 1),
            }
            let command = if turn == 3 { "echo three" } else { SUBMIT };
            Some(Reply { text: format!("```bash\n{command}\n```"), ..Reply::default() })
        });
        let [_, record] = branch(&["echo one", "echo two"], 2, &[], Limits::default(), then).await;
        assert_eq!((record.exit, record.turns.len()), (Exit::Submitted, 4));
    }

    #[tokio::test]
    async fn hooks_see_the_turns_before_it_and_a_history_may_be_shortened() {
        let note = on(HookPoint::OnToolResult, 0, "[seen]");
        let limits = Limits { condense: Condense { after: 3, first: 1, last: 1 }, ..Limits::default() };
        let then = scripted(&["", "", "ls", "ls", "ls", SUBMIT]);
        let [_, record] = branch(&["ls", "ls"], 2, &[("note", note)], limits, then).await;
        assert_eq!((&record.exit, record.turns.len()), (&Exit::Submitted, 6));
        assert_eq!(effects(&record, EffectKind::Annotate), 6);
        assert_eq!(record.spent.condensations, 1);
    }

    #[tokio::test]
    async fn a_turn_that_is_not_there_is_told_with_both_numbers() {
        let recorded = play(&[], Limits { turns: 1, ..Limits::default() }, &["ls"]).await;
        let policy = || Arc::new(scripted(&[]));
        assert!(Branch::new(&recorded, 0, policy()).is_ok() && Branch::new(&recorded, 1, policy()).is_ok());
        let error = Branch::new(&recorded, 2, policy()).err().map(|error| error.to_string());
        expect_test::expect![[r#"
            the episode `e` has 1 turns, so none can follow turn 2
            help: name a turn from 0 to 1"#]]
        .assert_eq(&error.unwrap_or_default());
    }
}
