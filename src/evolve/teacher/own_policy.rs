//! A teacher that is the policy itself: it reads its own failures and proposes.

use std::sync::Arc;

use async_trait::async_trait;
use tandem_host::policy::{FinishReason, Message, OpenSession, Policy, PolicyError, Role, Sampling};

use super::backend::{Backend, Trouble};
use super::config::TeacherConfig;
use super::request::{Finish, TeacherReply, TeacherRequest, TokenUsage};

/// The policy of the campaign.
pub struct OwnPolicy {
    policy: Arc<dyn Policy>,
    sampling: Sampling,
}

impl OwnPolicy {
    pub fn new(config: &TeacherConfig, policy: Arc<dyn Policy>) -> Self {
        let sampling = Sampling {
            temperature: config.temperature.map_or(1.0, |temperature| temperature as f32),
            max_tokens: usize::try_from(config.max_tokens).unwrap_or(usize::MAX),
            stop: Vec::new(),
        };
        Self { policy, sampling }
    }
}

#[async_trait]
impl Backend for OwnPolicy {
    async fn answer(&self, request: &TeacherRequest) -> Result<TeacherReply, Trouble> {
        // The same request gives the same reply, so that a resumed campaign goes the same way.
        let digest = request.digest().to_string();
        let seed = digest.bytes().fold(0u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let open = OpenSession {
            episode: format!("teacher/{}", request.digest().short()),
            task: String::new(),
            seed,
            harness: None,
            sampling: self.sampling.clone(),
            tools: Vec::new(),
            after: 0,
        };
        let mut messages = vec![Message::new(Role::System, request.system.clone())];
        messages.extend(request.turns().map(|(role, text)| {
            Message::new(if role == "assistant" { Role::Assistant } else { Role::User }, text)
        }));
        let mut session = self.policy.open(open).await.map_err(trouble)?;
        let reply = session.reply(&messages).await.map_err(trouble)?;
        let finish = match reply.finish {
            FinishReason::Stop => Finish::End,
            FinishReason::Length => Finish::Length,
        };
        if reply.ids.is_empty() && reply.prompt_ids.is_empty() {
            return Ok(TeacherReply::estimated(request, reply.text, finish));
        }
        let usage = TokenUsage {
            prompt: reply.prompt_ids.len() as u64,
            reply: reply.ids.len() as u64,
            estimated: false,
        };
        Ok(TeacherReply { text: reply.text, finish, usage })
    }

    fn model(&self) -> String {
        format!("{} v{}", self.policy.name(), self.policy.version())
    }
}

fn trouble(error: PolicyError) -> Trouble {
    let help = match error {
        PolicyError::ContextFull { .. } => {
            "lower `evidence_tokens`, shorten the prompt files, or raise `policy.context`"
        }
        PolicyError::Failed { .. } => "see whether episodes can talk to the policy",
    };
    Trouble::lasting(error.to_string(), help)
}
