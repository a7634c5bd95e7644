//! What is an agent doing right now? A policy that tells each of its actions as it takes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tandem_host::policy::{Message, OpenSession, Policy, PolicyError, Price, Reply, Session};

use super::Progress;

/// Characters of an action that are shown.
const SHOWN: usize = 100;

/// Another policy, with a line of progress for each reply.
pub struct Watched {
    policy: Arc<dyn Policy>,
    progress: Progress,
    turns: Arc<AtomicUsize>,
}

impl Watched {
    pub fn over(policy: Arc<dyn Policy>, progress: Progress) -> Self {
        Self { policy, progress, turns: Arc::default() }
    }
}

#[async_trait]
impl Policy for Watched {
    async fn open(&self, request: OpenSession) -> Result<Box<dyn Session>, PolicyError> {
        let session = self.policy.open(request).await?;
        Ok(Box::new(WatchedSession { session, progress: self.progress.clone(), turns: self.turns.clone() }))
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

struct WatchedSession {
    session: Box<dyn Session>,
    progress: Progress,
    turns: Arc<AtomicUsize>,
}

#[async_trait]
impl Session for WatchedSession {
    async fn reply(&mut self, new: &[Message]) -> Result<Reply, PolicyError> {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
        let thinking = self.progress.sign_of_life(&format!("turn {turn}: the policy writes"));
        let reply = self.session.reply(new).await;
        drop(thinking);
        if let Ok(reply) = &reply {
            self.progress.say(&format!("turn {turn}: {}", action(reply)));
        }
        reply
    }
}

/// The action of a reply on one line, or what it says.
fn action(reply: &Reply) -> String {
    let called = reply.tool_calls.first().map(|call| format!("{} {}", call.name, call.arguments));
    let fenced = || {
        let (_, after) = reply.text.split_once("```")?;
        let (_, block) = after.split_once('\n')?;
        block.lines().find(|line| !line.trim().is_empty() && !line.starts_with("```")).map(str::to_owned)
    };
    let said = || reply.text.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing").to_owned();
    let line = called.or_else(fenced).unwrap_or_else(said);
    // An action cannot draw on the terminal of who watches.
    let plain: String = line.trim().chars().filter(|c| !c.is_control()).collect();
    match plain.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &plain[..at]),
        None => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_one_line_that_cannot_draw() {
        let check = |text: &str, expected: &str| {
            assert_eq!(action(&Reply { text: text.into(), ..Reply::default() }), expected);
        };
        check("I look.\n```bash\n\nls -la\n```", "ls -la");
        check("```bash\n```", "```bash");
        check("only talk\nand more", "only talk");
        check("", "nothing");
        check("\u{1b}[2Jx", "[2Jx");
        check(&"é".repeat(200), &format!("{}…", "é".repeat(100)));
    }
}
