//! The hooks of one episode: calls the plugins of a generation in order.

use std::sync::Arc;

use super::effects::{Context, Effect, Fault, LimitKind, PatchCandidate, Submission, ToolResult};
use super::generation::Lease;
use crate::plugin::WorkspaceAccess;
use crate::policy::{Piece, ToolCall};

/// What `on-model-call` came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelCallEffect {
    /// Go on, with these notes at the end of the newest unsent content.
    Proceed(Vec<Piece>),
    /// End the episode.
    Stop { plugin: crate::store::Digest, reason: String },
}

/// What `on-tool-call` came to.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolCallEffect {
    /// Run it with these arguments.
    Proceed(serde_json::Value),
    /// Do not run it; the piece is its result.
    Refuse(Piece),
}

/// What `on-submit` came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmitEffect {
    Accept,
    Defer(Piece),
}

/// A tool that a plugin brought.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    pub name: String,
    pub description: String,
    pub input_schema: serde_json::Value,
}

/// The plugins of one episode. Dropped with the episode.
pub struct EpisodeHooks {
    lease: Lease,
    effects: Vec<Effect>,
    faults: Vec<Fault>,
}

impl EpisodeHooks {
    pub(super) fn new(lease: Lease, _seed: u64, _workspace: Arc<dyn WorkspaceAccess>) -> Self {
        Self { lease, effects: Vec::new(), faults: Vec::new() }
    }

    /// The lease that this episode holds.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The tools of all plugins, in harness order.
    pub fn tools(&self) -> Vec<ToolDefinition> {
        Vec::new()
    }

    /// Calls a plugin's tool; none if no plugin has it.
    pub async fn call_tool(&mut self, _context: &Context, _call: &ToolCall) -> Option<ToolResult> {
        None
    }

    pub async fn on_episode_start(&mut self, _context: &Context, _instruction: &str) -> Vec<Piece> {
        Vec::new()
    }

    pub async fn on_model_call(&mut self, _context: &Context) -> ModelCallEffect {
        ModelCallEffect::Proceed(Vec::new())
    }

    pub async fn on_tool_call(&mut self, _context: &Context, call: &ToolCall) -> ToolCallEffect {
        ToolCallEffect::Proceed(call.arguments.clone())
    }

    /// The pieces that the policy is shown of a result.
    pub async fn on_tool_result(
        &mut self,
        _context: &Context,
        _call: &ToolCall,
        result: &ToolResult,
    ) -> Vec<Piece> {
        vec![Piece { origin: crate::policy::Origin::Host, text: result.text.clone() }]
    }

    pub async fn on_submit(&mut self, _context: &Context, _submission: &Submission) -> SubmitEffect {
        SubmitEffect::Accept
    }

    /// The index of the candidate to hand in.
    pub async fn on_choose_patch(&mut self, _context: &Context, _candidates: &[PatchCandidate]) -> usize {
        0
    }

    /// Whether the work tree is handed in after a limit.
    pub async fn on_limit(
        &mut self,
        _context: &Context,
        _limit: LimitKind,
        _work_tree: &PatchCandidate,
    ) -> bool {
        false
    }

    pub async fn observe(&mut self, _context: &Context, _name: &str, _payload: &serde_json::Value) {}

    /// Everything that the plugins did, in order.
    pub fn finish(self) -> (Vec<Effect>, Vec<Fault>) {
        (self.effects, self.faults)
    }
}
