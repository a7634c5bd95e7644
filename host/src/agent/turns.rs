//! The loop itself: limits, hooks, model call, actions, results.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::actions::{BASH, Malformed, bad_arguments, parse};
use super::budget::Meter;
use super::episode::{EpisodeSpec, Failed};
use super::hand_in::{self, Submitted};
use super::history::Gap;
use super::observation::{status_name, submission};
use super::prompts::{Templates, tool_section};
use super::record::{CallRecord, Condensed, EpisodeRecord, InvalidCause, TurnRecord};
use super::repetition::Detector;
use super::segments::{self, Place};
use super::shell;
use super::talk::Talk;
use crate::harness::{
    Context, Effect, EpisodeHooks, FINISH, Fault, FormatError, HandIn, Lease, LimitKind, Limits,
    ModelCallEffect, Protocol, SubmitEffect, ToolCallEffect, ToolDefinition, ToolResult, ToolStatus, cut,
};
use crate::policy::{Message, Origin, Piece, PolicyError, Price, Reply, Role, ToolCall};
use crate::store::Digest;
use crate::workspace::Workspace;

/// How the turns of an episode ended.
pub(super) enum End {
    Submitted(Submitted),
    Limit(LimitKind),
    Stopped { plugin: Digest, reason: String },
}

impl End {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Submitted(_) => "submitted",
            Self::Limit(_) => "limit",
            Self::Stopped { .. } => "stopped",
        }
    }
}

/// An episode that runs.
pub(super) struct Episode<'a> {
    spec: &'a EpisodeSpec,
    limits: Limits,
    templates: Templates,
    tools: Vec<ToolDefinition>,
    tool_names: Vec<String>,
    pub(super) hooks: EpisodeHooks,
    talk: Talk<'a>,
    pub(super) workspace: Arc<Workspace>,
    pub(super) record: &'a mut EpisodeRecord,
    /// Messages that the policy has not been shown.
    pending: Vec<Message>,
    meter: Meter,
    /// Turns that the policy is no longer shown.
    gap: Gap,
    /// The summary that stands for them, before the reply that reads it first.
    condensed: Option<Condensed>,
    turn: u32,
    deferrals: u32,
    malformed_in_a_row: u32,
    detector: Detector,
}

/// What became of one call.
struct Answer {
    /// What the policy is shown.
    pieces: Vec<Piece>,
    /// Set when the call handed in and no hook deferred it.
    submitted: Option<Submitted>,
}

impl<'a> Episode<'a> {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn new(
        spec: &'a EpisodeSpec,
        lease: &Lease,
        templates: Templates,
        tools: Vec<ToolDefinition>,
        hooks: EpisodeHooks,
        talk: Talk<'a>,
        price: Price,
        workspace: Arc<Workspace>,
        record: &'a mut EpisodeRecord,
    ) -> Self {
        let limits = lease.manifest().limits.clone();
        let task_seconds = spec.task.agent_timeout().map(|limit| limit.as_secs().max(1));
        let meter = Meter::new(&limits, task_seconds, price, talk.context());
        let own = (limits.hand_in == HandIn::Finish).then(|| FINISH.to_owned());
        let tool_names = tools.iter().map(|tool| tool.name.clone()).chain(own).collect();
        Self {
            spec,
            limits,
            templates,
            tools,
            tool_names,
            hooks,
            talk,
            workspace,
            record,
            pending: Vec::new(),
            meter,
            gap: Gap::default(),
            condensed: None,
            turn: 0,
            deferrals: 0,
            malformed_in_a_row: 0,
            detector: Detector::default(),
        }
    }

    /// Runs turns until the policy hands in, a limit is reached or a hook stops it.
    pub(super) async fn run(&mut self) -> Result<End, Failed> {
        self.start().await?;
        loop {
            if let Some(limit) = self.meter.reached() {
                return Ok(End::Limit(limit));
            }
            if let Some(end) = self.take_turn().await? {
                return Ok(end);
            }
        }
    }

    /// Everything that the plugins did, in order.
    pub(super) fn close(self) -> (Vec<Effect>, Vec<Fault>) {
        self.record.spent = self.meter.spent();
        self.hooks.finish()
    }

    pub(super) fn context(&self) -> Context {
        self.meter.context(self.turn)
    }

    pub(super) async fn observe(&mut self, name: &str, payload: &Value) {
        let context = self.context();
        self.hooks.observe(&context, name, payload).await;
    }

    /// The first prompt: templates, tools, the sections of plugins, the skill.
    async fn start(&mut self) -> Result<(), Failed> {
        let instruction = self.spec.task.instruction();
        let broken = |error| Failed::because(InvalidCause::Harness)(error);
        let system = self.templates.system().map_err(broken)?;
        let mut first = Message::new(Role::User, self.templates.instance(instruction).map_err(broken)?);
        if let Some(section) = tool_section(&self.limits, &self.tools) {
            append(&mut first, "\n\n", Piece { origin: Origin::Host, text: section });
        }
        let context = self.context();
        for piece in self.hooks.on_episode_start(&context, instruction).await {
            append(&mut first, "\n\n", piece);
        }
        if let Some(text) = &self.spec.skill {
            append(&mut first, "\n\n", Piece { origin: Origin::Skill, text: text.clone() });
        }
        self.pending = vec![Message::new(Role::System, system), first];
        let payload = json!({"instruction": instruction, "tools": self.tool_names});
        self.observe("episode-start", &payload).await;
        Ok(())
    }

    async fn take_turn(&mut self) -> Result<Option<End>, Failed> {
        self.turn += 1;
        let context = self.context();
        match self.hooks.on_model_call(&context).await {
            ModelCallEffect::Proceed(notes) => self.note(notes),
            ModelCallEffect::Stop { plugin, reason } => return Ok(Some(End::Stopped { plugin, reason })),
        }
        let reply = match self.ask().await {
            Ok(reply) => reply,
            // The policy filled its context itself, unless not even the first prompt fits.
            Err(PolicyError::ContextFull { used, limit, .. }) if self.turn > 1 => {
                self.meter.context_full(used, limit);
                return Ok(Some(End::Limit(LimitKind::Context)));
            }
            Err(error) => return Err(Failed::because(InvalidCause::Policy)(error)),
        };
        self.keep(&reply)?;
        if let Some(Condensed { from, to, .. }) =
            self.record.turns.last().and_then(|turn| turn.condensed.as_ref())
        {
            let payload = json!({"from": from, "to": to});
            self.observe("condensed", &payload).await;
        }
        if let Some(usage) = self.meter.pressure() {
            self.observe("context-pressure", &json!({"used": usage.used, "limit": usage.limit})).await;
        }

        let parsed = parse(self.limits.protocol, &reply, &self.tool_names, self.turn);
        let end = match parsed {
            Err(malformed) => self.correct(&reply, &malformed).await?,
            Ok(calls) => {
                self.malformed_in_a_row = 0;
                self.meter.format_errors(0);
                self.run_calls(&calls).await?
            }
        };
        let calls: Vec<_> =
            self.record.turns.last().into_iter().flat_map(|turn| &turn.calls).map(told).collect();
        let payload = json!({"turn": self.turn, "finish": reply.finish, "calls": calls});
        self.observe("turn", &payload).await;
        match end {
            Some(end) => Ok(Some(end)),
            None => Ok(self.look_for_loops().await),
        }
    }

    /// Asks the policy, with a shorter history where this one is too long or does not fit.
    async fn ask(&mut self) -> Result<Reply, PolicyError> {
        let (condense, turns) = (self.limits.condense, self.record.turns.len());
        let cramped = self.meter.room().is_some_and(|room| room < self.spec.sampling.max_tokens as u64);
        let due = Gap::due(condense, turns, self.gap);
        let mut next = due.or_else(|| Gap::under_pressure(condense, turns, self.gap).filter(|_| cramped));
        loop {
            let full = match next {
                None => self.talk.reply(&self.pending).await,
                Some(gap) => {
                    let condensed = gap.condensed(&self.record.turns, self.limits.observation_chars);
                    let whole = gap.conversation(&self.record.turns, &self.pending, &condensed.summary);
                    self.talk.forget(turns);
                    self.meter.condensed();
                    (self.gap, self.condensed) = (gap, Some(condensed));
                    self.talk.reply(&whole).await
                }
            };
            if !matches!(full, Err(PolicyError::ContextFull { .. })) {
                return full;
            }
            next = Gap::full(condense, turns, self.gap);
            if next.is_none() {
                return full;
            }
        }
    }

    /// Records a reply and the messages that it answers.
    fn keep(&mut self, reply: &Reply) -> Result<(), Failed> {
        let first = self.record.turns.is_empty();
        let condensed = self.condensed.take();
        let (place, usage) = match &condensed {
            Some(Condensed { summary, .. }) => {
                let whole = self.gap.conversation(&self.record.turns, &self.pending, summary);
                (Place::Anew, segments::usage(reply, 0, &whole))
            }
            None => {
                let place = if first { Place::First } else { Place::Next };
                (place, segments::usage(reply, self.meter.conversation(), &self.pending))
            }
        };
        let cost = self.meter.add_reply(usage);
        let mut message = Message::new(Role::Assistant, reply.text.clone());
        message.tool_calls = reply.tool_calls.clone();
        self.record.policy_version = if first { reply.policy_version } else { self.record.policy_version };
        self.record.turns.push(TurnRecord {
            input: std::mem::take(&mut self.pending),
            reply: message,
            policy_version: reply.policy_version,
            sampled_tokens: usage.reply,
            prompt_tokens: usage.prompt,
            cost,
            condensed,
            finish: reply.finish,
            calls: Vec::new(),
        });
        segments::append(&mut self.record.segments, reply, place).map_err(|reason| {
            let reason = format!("policy `{}` cannot be trained on: {reason}", self.record.policy);
            Failed { cause: InvalidCause::Policy, reason }
        })
    }

    /// Answers a reply that cannot be acted on.
    async fn correct(&mut self, reply: &Reply, malformed: &Malformed) -> Result<Option<End>, Failed> {
        self.malformed_in_a_row += 1;
        if matches!(malformed.kind, FormatError::NoAction | FormatError::CutOff) {
            self.detector.no_action();
        }
        let context = self.context();
        let text = self.templates.format_error(malformed, self.spec.sampling.max_tokens);
        let text = text.map_err(Failed::because(InvalidCause::Harness))?;
        let replaced = self.hooks.on_format_error(&context, malformed.kind, &reply.text).await;
        let piece = replaced.unwrap_or(Piece { origin: Origin::Host, text });
        // A native call needs an answer of its own, or chat templates refuse what follows.
        self.pending = match reply.tool_calls.is_empty() {
            true => vec![message(Role::User, None, vec![piece])],
            false => {
                let answer = |call: &ToolCall| message(Role::Tool, Some(&call.id), vec![piece.clone()]);
                reply.tool_calls.iter().map(answer).collect()
            }
        };
        let over = self.meter.format_errors(self.malformed_in_a_row);
        Ok(over.then_some(End::Limit(LimitKind::FormatErrors)))
    }

    /// Runs the calls of one reply in order. After one that hands in, the rest do not run.
    async fn run_calls(&mut self, calls: &[ToolCall]) -> Result<Option<End>, Failed> {
        let mut submitted = None;
        for call in calls {
            if submitted.is_some() {
                let text = "not run: the patch was handed in before it".to_owned();
                let raw_bytes = text.len() as u64;
                let status = ToolStatus::Failed;
                self.settle(call, ToolResult { status, exit_code: None, text, raw_bytes }, 0, None).await?;
                continue;
            }
            let answer = self.run_call(call).await?;
            let (role, id) = match self.limits.protocol {
                Protocol::Text => (Role::User, None),
                Protocol::Tools => (Role::Tool, Some(call.id.as_str())),
            };
            self.pending.push(message(role, id, answer.pieces));
            submitted = answer.submitted;
        }
        Ok(submitted.map(End::Submitted))
    }

    async fn run_call(&mut self, call: &ToolCall) -> Result<Answer, Failed> {
        let context = self.context();
        let failed = |status, text: String| {
            let raw_bytes = text.len() as u64;
            ToolResult { status, exit_code: None, text, raw_bytes }
        };
        let mut call = call.clone();
        match self.hooks.on_tool_call(&context, &call).await {
            ToolCallEffect::Refuse(piece) => {
                let result = failed(ToolStatus::Refused, piece.text.clone());
                let pieces = self.settle(&call, result, 0, Some(piece)).await?;
                return Ok(Answer { pieces, submitted: None });
            }
            ToolCallEffect::Proceed(arguments) => call.arguments = arguments,
        }
        if let Some(sentence) = bad_arguments(&call) {
            let pieces = self.settle(&call, failed(ToolStatus::Failed, sentence), 0, None).await?;
            return Ok(Answer { pieces, submitted: None });
        }
        if call.name == FINISH && self.limits.hand_in == HandIn::Finish {
            let text = "The work was handed in.".to_owned();
            let raw_bytes = text.len() as u64;
            let result = ToolResult { status: ToolStatus::Finished, exit_code: None, text, raw_bytes };
            let pieces = self.settle(&call, result, 0, None).await?;
            let patch = hand_in::work_tree_patch(self).await?;
            return self.submit(patch, pieces).await;
        }
        if call.name != BASH {
            let result = self.hooks.call_tool(&context, &call).await;
            let unknown = || failed(ToolStatus::Failed, format!("There is no tool `{}`.", call.name));
            let result = result.unwrap_or_else(unknown);
            let pieces = self.settle(&call, result, 0, None).await?;
            return Ok(Answer { pieces, submitted: None });
        }
        let command = call.arguments["command"].as_str().unwrap_or_default().to_owned();
        let limit = Duration::from_secs(self.limits.command_seconds);
        let command = shell::command(self.limits.shell, &command, limit);
        let output = match self.workspace.run(&command).await {
            Ok(output) => output,
            Err(error) if error.is_caused_by_agent() => {
                let result = failed(ToolStatus::Failed, error.to_string());
                let pieces = self.settle(&call, result, 0, None).await?;
                return Ok(Answer { pieces, submitted: None });
            }
            Err(error) => return Err(Failed::because(InvalidCause::Workspace)(error)),
        };
        let seconds = self.meter.add_command(output.elapsed);
        let bytes = output.output.bytes();
        let text = String::from_utf8_lossy(&bytes);
        let status = if output.exit_code.is_some() { ToolStatus::Finished } else { ToolStatus::TimedOut };
        let result = ToolResult {
            status,
            exit_code: output.exit_code,
            text: cut(text.trim_end_matches('\n'), self.limits.observation_chars).into_owned(),
            raw_bytes: output.output.total(),
        };
        let pieces = self.settle(&call, result, seconds, None).await?;
        let patch = match self.limits.hand_in {
            HandIn::Sentinel => submission(output.exit_code, &bytes),
            HandIn::Finish => None,
        };
        match patch {
            Some(patch) => self.submit(patch.to_vec(), pieces).await,
            None => Ok(Answer { pieces, submitted: None }),
        }
    }

    /// Asks the hooks about a patch that the policy hands in.
    async fn submit(&mut self, patch: Vec<u8>, mut pieces: Vec<Piece>) -> Result<Answer, Failed> {
        let submitted = hand_in::submitted(self, patch).await?;
        let context = self.context();
        match self.hooks.on_submit(&context, &submitted.submission(self.deferrals)).await {
            SubmitEffect::Accept => Ok(Answer { pieces, submitted: Some(submitted) }),
            SubmitEffect::Defer(piece) => {
                self.deferrals += 1;
                pieces.push(Piece { origin: Origin::Host, text: "\n".into() });
                pieces.push(piece);
                Ok(Answer { pieces, submitted: None })
            }
        }
    }

    /// Records a call's result and asks the hooks about it, once for every call. `refusal` is
    /// the piece that stands for the result of a refused call.
    async fn settle(
        &mut self,
        call: &ToolCall,
        mut result: ToolResult,
        seconds: u64,
        refusal: Option<Piece>,
    ) -> Result<Vec<Piece>, Failed> {
        self.detector.call(call, &result);
        let context = self.context();
        let broken = Failed::because(InvalidCause::Harness);
        result.text = self.templates.observation(&result).map_err(broken)?;
        let mut pieces = self.hooks.on_tool_result(&context, call, &result).await;
        // The text of a refusal is the hook's, not the host's.
        if let (Some(refusal), Some(first)) = (refusal, pieces.first_mut())
            && first.origin == Origin::Host
        {
            first.origin = refusal.origin;
        }
        if let Some(turn) = self.record.turns.last_mut() {
            let (name, arguments) = (call.name.clone(), call.arguments.clone());
            turn.calls.push(CallRecord { name, arguments, result, seconds: seconds as f64 });
        }
        Ok(pieces)
    }

    /// Asks the hooks about a repetition, if the newest turn completed one.
    async fn look_for_loops(&mut self) -> Option<End> {
        let repetition = self.detector.seen()?;
        let context = self.context();
        match self.hooks.on_loop(&context, repetition).await {
            ModelCallEffect::Proceed(notes) => self.note(notes),
            ModelCallEffect::Stop { plugin, reason } => return Some(End::Stopped { plugin, reason }),
        }
        None
    }

    /// Puts notes at the end of the newest content that the policy has not seen.
    fn note(&mut self, notes: Vec<Piece>) {
        if let Some(newest) = self.pending.last_mut() {
            for note in notes {
                append(newest, "\n\n", note);
            }
        }
    }
}

/// What observers are told of a call.
fn told(call: &CallRecord) -> Value {
    let status = status_name(call.result.status);
    json!({"name": call.name, "status": status, "exit_code": call.result.exit_code})
}

fn message(role: Role, tool_call_id: Option<&str>, pieces: Vec<Piece>) -> Message {
    Message { role, pieces, tool_calls: Vec::new(), tool_call_id: tool_call_id.map(str::to_owned) }
}

/// Adds a piece behind a separator of the host's.
fn append(message: &mut Message, separator: &str, piece: Piece) {
    message.pieces.push(Piece { origin: Origin::Host, text: separator.to_owned() });
    message.pieces.push(piece);
}
