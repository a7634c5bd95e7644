//! What happens at one event of an agent's session? Plugins are called in the order of our own loop.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use tandem_host::agent::Detector;
use tandem_host::harness::{
    Budget, Context, Effect, EpisodeHooks, Fault, HookPoint, Lease, ModelCallEffect, Submission,
    SubmitEffect, ToolCallEffect, ToolResult, ToolStatus, Usage, cut,
};
use tandem_host::plugin::NoWorkspace;
use tandem_host::policy::{Origin, Piece, ToolCall};
use tandem_host::workspace::ProjectSince;

use super::agent::{Agent, AgentEvent};
use super::answer::Answer;
use super::input::{Input, What};

/// Calls that wait for their result at once.
const WAITING: usize = 256;

/// One session of an agent: its lease on a generation, its plugins and what is counted for them.
pub struct Session {
    hooks: EpisodeHooks,
    since: Option<Arc<ProjectSince>>,
    began: Instant,
    /// When it was heard of last.
    pub heard: Instant,
    turn: u32,
    started: bool,
    /// What stands in the first prompt, to be said again when the agent shortens its history.
    opening: Vec<String>,
    deferrals: u32,
    detector: Detector,
    /// Calls without a result yet.
    waiting: VecDeque<ToolCall>,
    calls: u64,
}

/// What an event came to.
pub struct Happened {
    pub answer: Answer,
    pub effects: Vec<Effect>,
    pub faults: Vec<Fault>,
    /// What was not asked, and why.
    pub troubles: Vec<String>,
}

impl Session {
    /// A session under `lease`; without a folder its plugins see an empty workspace.
    pub fn new(lease: &Lease, seed: u64, since: Option<Arc<ProjectSince>>) -> Self {
        let hooks = match &since {
            Some(since) => lease.open(seed, since.clone()),
            None => lease.open(seed, Arc::new(NoWorkspace)),
        };
        let now = Instant::now();
        Self {
            hooks,
            since,
            began: now,
            heard: now,
            turn: 1,
            started: false,
            opening: Vec::new(),
            deferrals: 0,
            detector: Detector::default(),
            waiting: VecDeque::new(),
            calls: 0,
        }
    }

    /// The harness that it holds.
    pub fn lease(&self) -> &Lease {
        self.hooks.lease()
    }

    /// Calls the hooks that belong to an event.
    pub async fn on(&mut self, input: &Input) -> Happened {
        self.heard = Instant::now();
        let mut answer = Answer::default();
        let mut troubles = Vec::new();
        match &input.what {
            What::SessionStart { source } => self.on_start(source, &mut answer).await,
            What::Prompt { text } => self.on_prompt(text, &mut answer).await,
            What::Call { call, .. } => self.on_call(call, &mut answer).await,
            What::Result { call, result, .. } => {
                self.on_result(call, result, &mut answer).await;
                // Claude Code says by itself when all calls of a reply were answered.
                if input.agent != Agent::Claude {
                    self.next_turn(&mut answer).await;
                }
            }
            What::Batch => self.next_turn(&mut answer).await,
            What::Stop => self.on_stop(&mut answer, &mut troubles).await,
            What::SessionEnd { reason } => {
                self.settle_waiting().await;
                let context = self.context();
                self.hooks.observe(&context, "episode-end", &json!({"exit": reason})).await;
            }
        }
        let (effects, faults) = self.hooks.take();
        Happened { answer, effects, faults, troubles }
    }

    fn context(&self) -> Context {
        let elapsed = self.began.elapsed();
        let used = |used| Usage { used, limit: None };
        Context {
            turn: self.turn,
            budget: Budget {
                turns: used(u64::from(self.turn)),
                tokens: used(0),
                seconds: used(elapsed.as_secs()),
            },
            now_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        }
    }

    async fn on_start(&mut self, source: &str, answer: &mut Answer) {
        match source {
            "clear" => {
                self.started = false;
                self.opening.clear();
            }
            // The agent forgot what it was told at first.
            "compact" => answer.notes.extend(self.opening.clone()),
            _ => {}
        }
    }

    async fn on_prompt(&mut self, text: &str, answer: &mut Answer) {
        self.settle_waiting().await;
        self.deferrals = 0;
        let context = self.context();
        if !self.started {
            self.started = true;
            let pieces = self.hooks.on_episode_start(&context, text).await;
            self.opening = pieces.into_iter().map(|piece| piece.text).collect();
            answer.notes.extend(self.opening.clone());
            self.hooks.observe(&context, "episode-start", &json!({"instruction": text})).await;
        }
        let effect = self.hooks.on_model_call(&context).await;
        take(effect, answer);
    }

    async fn on_call(&mut self, call: &ToolCall, answer: &mut Answer) {
        let mut call = call.clone();
        self.calls += 1;
        if call.id.is_empty() {
            call.id = format!("call-{}", self.calls);
        }
        let context = self.context();
        match self.hooks.on_tool_call(&context, &call).await {
            ToolCallEffect::Proceed(arguments) => {
                if arguments != call.arguments {
                    answer.rewrite = Some(arguments.clone());
                    call.arguments = arguments;
                }
                self.waiting.push_back(call);
                if self.waiting.len() > WAITING {
                    self.waiting.pop_front();
                }
            }
            ToolCallEffect::Refuse(reason) => {
                // The agent tells of no result of a call that did not run.
                let mut refused = Answer::default();
                let raw_bytes = reason.text.len() as u64;
                let result =
                    ToolResult { status: ToolStatus::Refused, exit_code: None, text: reason.text, raw_bytes };
                self.show(&call, &result, &mut refused).await;
                let said = refused.replace.unwrap_or(result.text);
                let said: Vec<_> = [said].into_iter().chain(refused.notes).collect();
                answer.refuse = Some(said.join("\n"));
            }
        }
    }

    async fn on_result(&mut self, call: &ToolCall, result: &ToolResult, answer: &mut Answer) {
        let same = |waiting: &ToolCall| match call.id.is_empty() {
            true => waiting.name == call.name && waiting.arguments == call.arguments,
            false => waiting.id == call.id,
        };
        let at = self.waiting.iter().position(same).or_else(|| {
            // Arguments that a hook changed, in an agent that gives calls no names.
            let named = |waiting: &ToolCall| call.id.is_empty() && waiting.name == call.name;
            self.waiting.iter().position(named)
        });
        let call = at.and_then(|at| self.waiting.remove(at)).unwrap_or_else(|| call.clone());
        self.show(&call, result, answer).await;
        self.detector.call(&call, result);
        if let Some(repetition) = self.detector.seen() {
            let context = self.context();
            let effect = self.hooks.on_loop(&context, repetition).await;
            take(effect, answer);
        }
    }

    /// Asks the hooks about a result.
    async fn show(&mut self, call: &ToolCall, result: &ToolResult, answer: &mut Answer) {
        let limit = self.lease().manifest().limits.observation_chars;
        let seen = ToolResult { text: cut(&result.text, limit).into_owned(), ..result.clone() };
        let context = self.context();
        let mut pieces = self.hooks.on_tool_result(&context, call, &seen).await.into_iter();
        if let Some(Piece { origin: Origin::Hook { .. }, text }) = pieces.next() {
            answer.replace = Some(text);
        }
        answer.notes.extend(pieces.map(|piece| piece.text.trim_start_matches('\n').to_owned()));
    }

    /// Every call has one result: those that the agent never told of were not run to their end.
    async fn settle_waiting(&mut self) {
        while let Some(call) = self.waiting.pop_front() {
            let text = "The call did not end.".to_owned();
            let raw_bytes = text.len() as u64;
            let result = ToolResult { status: ToolStatus::Failed, exit_code: None, text, raw_bytes };
            self.show(&call, &result, &mut Answer::default()).await;
        }
    }

    async fn next_turn(&mut self, answer: &mut Answer) {
        let context = self.context();
        self.hooks.observe(&context, "turn", &json!({"turn": self.turn})).await;
        self.turn = self.turn.saturating_add(1);
        let context = self.context();
        let effect = self.hooks.on_model_call(&context).await;
        take(effect, answer);
    }

    async fn on_stop(&mut self, answer: &mut Answer, troubles: &mut Vec<String>) {
        self.settle_waiting().await;
        if !self.hooks.hooks(HookPoint::OnSubmit) {
            return;
        }
        let context = self.context();
        let changes = match &self.since {
            Some(since) => since.changes().await.map_err(|error| error.to_string()),
            None => Err("the agent named no folder".into()),
        };
        let changes = match changes {
            Ok(changes) => changes,
            Err(reason) => {
                troubles.push(format!("`on-submit` was not asked: what changed is not known: {reason}"));
                return;
            }
        };
        let submission = Submission {
            patch: ProjectSince::candidate(&changes),
            work_tree: changes.work_tree,
            deferrals: self.deferrals,
        };
        if let SubmitEffect::Defer(message) = self.hooks.on_submit(&context, &submission).await {
            self.deferrals += 1;
            self.turn = self.turn.saturating_add(1);
            answer.defer = Some(message.text);
        }
    }
}

fn take(effect: ModelCallEffect, answer: &mut Answer) {
    match effect {
        ModelCallEffect::Proceed(notes) => answer.notes.extend(notes.into_iter().map(|note| note.text)),
        ModelCallEffect::Stop { reason, .. } => {
            answer.stop.get_or_insert(reason);
        }
    }
}

/// Whether an event can open a session that was not heard of.
pub fn opens(event: AgentEvent) -> bool {
    event != AgentEvent::SessionEnd
}
