//! Which session of the policy does an episode talk to?

use crate::policy::{Message, OpenSession, Policy, PolicyError, Reply, Session};

/// The conversation of an episode with its policy: one session, and another one for each time that
/// the history is shortened.
pub(super) struct Talk<'a> {
    policy: &'a dyn Policy,
    request: OpenSession,
    session: Option<Box<dyn Session>>,
}

impl<'a> Talk<'a> {
    pub(super) fn new(policy: &'a dyn Policy, request: OpenSession, session: Box<dyn Session>) -> Self {
        Self { policy, request, session: Some(session) }
    }

    /// What the policy's context holds, where that is known.
    pub(super) fn context(&self) -> Option<u64> {
        self.policy.context()
    }

    /// Appends `new` messages and samples a reply.
    pub(super) async fn reply(&mut self, new: &[Message]) -> Result<Reply, PolicyError> {
        let session = match self.session.take() {
            Some(session) => session,
            None => self.policy.open(self.request.clone()).await?,
        };
        self.session.insert(session).reply(new).await
    }

    /// Forgets the conversation, after so many replies. The next one has a session of its own; the
    /// place of this one is free first, since a policy may have no other.
    pub(super) fn forget(&mut self, replies: usize) {
        self.session = None;
        self.request.after = replies;
    }
}
