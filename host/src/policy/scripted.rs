//! A policy that says what a script says: for tests and for demonstrations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;

use super::{Message, OpenSession, Policy, PolicyError, Price, Reply, Session};

/// What a scripted policy answers: the session's request, the turn (from 1) and
/// the new messages in, a reply out; none when the script has ended.
pub type Script = Arc<dyn Fn(&OpenSession, usize, &[Message]) -> Option<Reply> + Send + Sync>;

/// What a scripted policy is called in records.
const NAME: &str = "script";

/// A policy without a model.
#[derive(Clone)]
pub struct ScriptedPolicy {
    script: Script,
    byte_ids: bool,
    price: Price,
    context: Option<usize>,
}

/// Why a script could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("`{}` could not be read: {source}", file.display())]
    Unreadable { file: PathBuf, source: std::io::Error },
    #[error("`{}` is not a script: {source}\nhelp: it holds `{{\"replies\": [\"…\", …]}}`", file.display())]
    NotAScript { file: PathBuf, source: serde_json::Error },
}

/// The shape of `solution/demo.json`.
#[derive(Deserialize)]
struct Demo {
    replies: Vec<String>,
}

impl ScriptedPolicy {
    /// A policy that gives the replies of a list one after the other; which list
    /// depends on the episode.
    pub fn new(list: impl Fn(&OpenSession) -> Vec<String> + Send + Sync + 'static) -> Self {
        Self::answering(move |request, turn, _| {
            let text = list(request).into_iter().nth(turn - 1)?;
            Some(Reply { text, ..Reply::default() })
        })
    }

    /// A policy with a list of replies for each task.
    pub fn by_task(replies: BTreeMap<String, Vec<String>>) -> Self {
        Self::new(move |request| replies.get(&request.task).cloned().unwrap_or_default())
    }

    /// A policy that answers by a function.
    pub fn answering(
        script: impl Fn(&OpenSession, usize, &[Message]) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        Self { script: Arc::new(script), byte_ids: false, price: Price::default(), context: None }
    }

    /// The replies of a task's `solution/demo.json`.
    pub fn read_replies(file: &Path) -> Result<Vec<String>, ScriptError> {
        let unreadable = |source| ScriptError::Unreadable { file: file.to_owned(), source };
        let text = std::fs::read_to_string(file).map_err(unreadable)?;
        let demo: Demo = serde_json::from_str(&text)
            .map_err(|source| ScriptError::NotAScript { file: file.to_owned(), source })?;
        Ok(demo.replies)
    }

    /// Tells token ids too: the bytes of the text, each with log-probability 0,
    /// since a script is certain of what it says.
    pub fn with_byte_ids(mut self) -> Self {
        self.byte_ids = true;
        self
    }

    /// Costs money.
    pub fn with_price(mut self, price: Price) -> Self {
        self.price = price;
        self
    }

    /// Has a context of so many tokens, each a byte of text; a prompt leaves room for one at least.
    pub fn with_context(mut self, tokens: usize) -> Self {
        self.context = Some(tokens);
        self
    }
}

#[async_trait]
impl Policy for ScriptedPolicy {
    async fn open(&self, request: OpenSession) -> Result<Box<dyn Session>, PolicyError> {
        let turn = request.after;
        Ok(Box::new(ScriptedSession { policy: self.clone(), request, turn, bytes: 0 }))
    }

    fn version(&self) -> u64 {
        0
    }

    fn name(&self) -> String {
        NAME.into()
    }

    fn price(&self) -> Option<Price> {
        Some(self.price)
    }

    fn context(&self) -> Option<u64> {
        self.context.map(|tokens| tokens as u64)
    }
}

struct ScriptedSession {
    policy: ScriptedPolicy,
    request: OpenSession,
    turn: usize,
    /// Of the conversation so far.
    bytes: usize,
}

#[async_trait]
impl Session for ScriptedSession {
    async fn reply(&mut self, new: &[Message]) -> Result<Reply, PolicyError> {
        let used = self.bytes + new.iter().map(|message| message.text().len()).sum::<usize>();
        if let Some(limit) = self.policy.context.filter(|limit| used >= *limit) {
            return Err(PolicyError::ContextFull { policy: NAME.into(), used, limit });
        }
        self.turn += 1;
        let Some(mut reply) = (self.policy.script)(&self.request, self.turn, new) else {
            return Err(PolicyError::Failed {
                policy: NAME.into(),
                reason: format!("its script for `{}` has no reply {}", self.request.task, self.turn),
            });
        };
        if self.policy.byte_ids {
            let bytes = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
            reply.prompt_ids = new.iter().flat_map(|message| bytes(&message.text())).collect();
            reply.ids = bytes(&reply.text);
            reply.logprobs = vec![0.0; reply.ids.len()];
        }
        self.bytes = used + reply.text.len();
        Ok(reply)
    }
}
