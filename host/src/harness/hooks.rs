//! The hooks of one episode: calls the plugins of a generation in order.

use std::sync::Arc;

use serde_json::{Value, json};

use super::cut::cut;
use super::effects::{
    Context, Effect, EffectKind, Fault, FormatError, HookPoint, LimitKind, PatchCandidate, Repetition,
    Submission, ToolResult, ToolStatus,
};
use super::generation::Lease;
use crate::plugin::{
    AnnotateOrReplace, Content, Instance, InstanceConfig, NoteOrStop, PluginFault, RewriteOrRefuse,
    ToolDefinition, ToolOutput, WorkspaceAccess,
};
use crate::policy::{Origin, Piece, ToolCall};
use crate::store::Digest;

/// Faults in one episode after which a plugin is out (contract rule 3).
const FAULTS: u32 = 3;

/// What `on-model-call` or `on-loop` came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelCallEffect {
    /// Go on, with these notes at the end of the newest unsent content.
    Proceed(Vec<Piece>),
    /// End the episode.
    Stop { plugin: Digest, reason: String },
}

/// What `on-tool-call` came to.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolCallEffect {
    /// Run it with these arguments.
    Proceed(Value),
    /// Do not run it; the piece is its result.
    Refuse(Piece),
}

/// What `on-submit` came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmitEffect {
    Accept,
    Defer(Piece),
}

/// The plugins of one episode. Dropped with the episode.
pub struct EpisodeHooks {
    lease: Lease,
    seed: u64,
    workspace: Arc<dyn WorkspaceAccess>,
    /// In harness order, as the members of the generation.
    slots: Vec<Slot>,
    effects: Vec<Effect>,
    faults: Vec<Fault>,
    /// The last tool call that a plugin's tool answered, and whose text that is.
    answered: Option<(String, Origin)>,
}

/// What an episode has of one plugin; the instance is made at its first use.
#[derive(Default)]
struct Slot {
    instance: Option<Instance>,
    faults: u32,
}

impl EpisodeHooks {
    pub(super) fn new(lease: Lease, seed: u64, workspace: Arc<dyn WorkspaceAccess>) -> Self {
        let slots = lease.generation().plugins().iter().map(|_| Slot::default()).collect();
        let (effects, faults) = (Vec::new(), Vec::new());
        Self { lease, seed, workspace, slots, effects, faults, answered: None }
    }

    /// The lease that this episode holds.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Whether a plugin of it hooks `point`.
    pub fn hooks(&self, point: HookPoint) -> bool {
        !self.with(point).is_empty()
    }

    /// The tools of all plugins, in harness order.
    pub fn tools(&self) -> Vec<ToolDefinition> {
        let members = self.lease.generation().plugins();
        members.iter().flat_map(|member| member.tools.iter().cloned()).collect()
    }

    /// Calls a plugin's tool; none if no plugin has it. A fault becomes a failed result, so
    /// that every call has exactly one.
    pub async fn call_tool(&mut self, context: &Context, call: &ToolCall) -> Option<ToolResult> {
        Some(self.call_tool_whole(context, call).await?.0)
    }

    /// As [`call_tool`](Self::call_tool), with what the tool answered where it did: blocks and a structured
    /// answer, of which a policy reads the text alone.
    pub async fn call_tool_whole(
        &mut self,
        context: &Context,
        call: &ToolCall,
    ) -> Option<(ToolResult, Option<ToolOutput>)> {
        let members = self.lease.generation().plugins();
        let has = |tools: &[ToolDefinition]| tools.iter().any(|tool| tool.name == call.name);
        let index = members.iter().position(|member| has(&member.tools))?;
        let failed = |text: String| {
            let raw_bytes = text.len() as u64;
            (ToolResult { status: ToolStatus::Failed, exit_code: None, raw_bytes, text }, None)
        };
        let name = &call.name;
        let Some(instance) = self.instance(index) else {
            return Some(failed(format!("The tool `{name}` is out of order in this task.")));
        };
        if !call.arguments.is_object() {
            return Some(failed(format!("The arguments of `{name}` are not a JSON object.")));
        }
        let answer = instance.call_tool(context, name, &call.arguments).await;
        let Some(output) = self.settle(index, HookPoint::Tools, context, answer) else {
            return Some(failed(format!("The tool `{name}` broke down.")));
        };
        let text = tool_text(&output);
        let raw_bytes = text.len() as u64;
        let text = self.visible(&text);
        let piece = self.record(index, HookPoint::Tools, context, EffectKind::ToolCall, text);
        self.answered = Some((call.id.clone(), piece.origin));
        let status = if output.is_error { ToolStatus::Failed } else { ToolStatus::Finished };
        Some((ToolResult { status, exit_code: None, text: piece.text, raw_bytes }, Some(output)))
    }

    /// The plugins' own sections of the first prompt.
    pub async fn on_episode_start(&mut self, context: &Context, instruction: &str) -> Vec<Piece> {
        const POINT: HookPoint = HookPoint::OnEpisodeStart;
        let mut pieces = Vec::new();
        for &index in self.with(POINT).iter() {
            let Some(instance) = self.instance(index) else { continue };
            let answer = instance.on_episode_start(context, instruction).await;
            let text = self.settle(index, POINT, context, answer).flatten();
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                let text = self.visible(&text);
                pieces.push(self.record(index, POINT, context, EffectKind::Note, text));
            }
        }
        pieces
    }

    /// All notes in order; the first stop ends the chain, and observers hear of it as `stopped`.
    pub async fn on_model_call(&mut self, context: &Context) -> ModelCallEffect {
        const POINT: HookPoint = HookPoint::OnModelCall;
        let mut notes = Vec::new();
        for &index in self.with(POINT).iter() {
            let Some(instance) = self.instance(index) else { continue };
            let answer = instance.on_model_call(context).await;
            let effect = self.settle(index, POINT, context, answer).flatten();
            if let Some(stop) = self.note_or_stop(index, POINT, context, effect, &mut notes).await {
                return stop;
            }
        }
        ModelCallEffect::Proceed(notes)
    }

    /// Text instead of the corrective text, from the first plugin that has one.
    pub async fn on_format_error(
        &mut self,
        context: &Context,
        error: FormatError,
        output: &str,
    ) -> Option<Piece> {
        const POINT: HookPoint = HookPoint::OnFormatError;
        for &index in self.with(POINT).iter() {
            let Some(instance) = self.instance(index) else { continue };
            let answer = instance.on_format_error(context, error, output).await;
            let text = self.settle(index, POINT, context, answer).flatten();
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                let text = self.visible(&text);
                return Some(self.record(index, POINT, context, EffectKind::Replace, text));
            }
        }
        None
    }

    /// Each plugin sees the arguments as the ones before it left them; the first refusal ends
    /// the chain, and observers hear of it as `refused`.
    pub async fn on_tool_call(&mut self, context: &Context, call: &ToolCall) -> ToolCallEffect {
        const POINT: HookPoint = HookPoint::OnToolCall;
        let mut call = call.clone();
        for &index in self.with(POINT).iter() {
            let Some(instance) = self.instance(index) else { continue };
            let answer = instance.on_tool_call(context, &call).await;
            match self.settle(index, POINT, context, answer).flatten() {
                None => {}
                Some(RewriteOrRefuse::Rewrite(arguments)) => {
                    let text = arguments.to_string();
                    self.record(index, POINT, context, EffectKind::Rewrite, text);
                    call.arguments = arguments;
                }
                Some(RewriteOrRefuse::Refuse(reason)) => {
                    let reason = self.visible(&reason);
                    let piece = self.record(index, POINT, context, EffectKind::Refuse, reason);
                    let payload = json!({"call": call, "by": self.name(index), "reason": piece.text});
                    self.observe(context, "refused", &payload).await;
                    return ToolCallEffect::Refuse(piece);
                }
            }
        }
        ToolCallEffect::Proceed(call.arguments)
    }

    /// The pieces that the policy is shown of a result. Each plugin sees the text as the ones
    /// before it left it. An annotation starts on a line of its own.
    pub async fn on_tool_result(
        &mut self,
        context: &Context,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Vec<Piece> {
        const POINT: HookPoint = HookPoint::OnToolResult;
        let origin = match &self.answered {
            Some((id, origin)) if *id == call.id => origin.clone(),
            _ => Origin::Host,
        };
        self.answered = None;
        let mut pieces = vec![Piece { origin, text: result.text.clone() }];
        let mut result = result.clone();
        for &index in self.with(POINT).iter() {
            let Some(instance) = self.instance(index) else { continue };
            let answer = instance.on_tool_result(context, call, &result).await;
            match self.settle(index, POINT, context, answer).flatten() {
                None => {}
                Some(AnnotateOrReplace::Annotate(text)) if text.is_empty() => {}
                Some(AnnotateOrReplace::Annotate(text)) => {
                    let mut text = self.visible(&text);
                    if !result.text.is_empty() && !result.text.ends_with('\n') {
                        text.insert(0, '\n');
                    }
                    result.text.push_str(&text);
                    pieces.push(self.record(index, POINT, context, EffectKind::Annotate, text));
                }
                Some(AnnotateOrReplace::Replace(text)) => {
                    let text = self.visible(&text);
                    result.text.clone_from(&text);
                    pieces = vec![self.record(index, POINT, context, EffectKind::Replace, text)];
                }
            }
        }
        pieces
    }

    /// What plugins do about a repetition that the host saw; as [`Self::on_model_call`].
    pub async fn on_loop(&mut self, context: &Context, repetition: Repetition) -> ModelCallEffect {
        const POINT: HookPoint = HookPoint::OnLoop;
        let mut notes = Vec::new();
        for &index in self.with(POINT).iter() {
            let Some(instance) = self.instance(index) else { continue };
            let answer = instance.on_loop(context, repetition).await;
            let effect = self.settle(index, POINT, context, answer).flatten();
            if let Some(stop) = self.note_or_stop(index, POINT, context, effect, &mut notes).await {
                return stop;
            }
        }
        ModelCallEffect::Proceed(notes)
    }

    /// The first plugin that defers ends the chain, and observers hear of it as `deferred`.
    /// After as many deferrals as the harness allows, nobody is asked and it is accepted.
    pub async fn on_submit(&mut self, context: &Context, submission: &Submission) -> SubmitEffect {
        const POINT: HookPoint = HookPoint::OnSubmit;
        if submission.deferrals >= self.lease.manifest().limits.deferrals {
            return SubmitEffect::Accept;
        }
        for &index in self.with(POINT).iter() {
            let Some(instance) = self.instance(index) else { continue };
            let answer = instance.on_submit(context, submission).await;
            let message = self.settle(index, POINT, context, answer).flatten();
            if let Some(message) = message {
                let message = self.visible(&message);
                let piece = self.record(index, POINT, context, EffectKind::Defer, message);
                let payload = json!({"by": self.name(index), "message": piece.text});
                self.observe(context, "deferred", &payload).await;
                return SubmitEffect::Defer(piece);
            }
        }
        SubmitEffect::Accept
    }

    /// The index of the candidate to hand in. Each plugin is shown the choice of the ones
    /// before it as the first candidate, the one that stands when nothing is returned.
    pub async fn on_choose_patch(&mut self, context: &Context, candidates: &[PatchCandidate]) -> usize {
        const POINT: HookPoint = HookPoint::OnChoosePatch;
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        for &index in self.with(POINT).iter() {
            let Some(instance) = self.instance(index) else { continue };
            let shown: Vec<_> = order.iter().map(|at| candidates[*at].clone()).collect();
            let answer = instance.on_choose_patch(context, &shown).await;
            if let Some(choice) = self.settle(index, POINT, context, answer).flatten() {
                let chosen = order.remove(choice);
                order.insert(0, chosen);
                let text = format!("candidate {chosen}");
                self.record(index, POINT, context, EffectKind::Choose, text);
            }
        }
        order.first().copied().unwrap_or(0)
    }

    /// Whether the work tree is handed in after a limit: yes as soon as one plugin says so.
    pub async fn on_limit(
        &mut self,
        context: &Context,
        limit: LimitKind,
        work_tree: &PatchCandidate,
    ) -> bool {
        const POINT: HookPoint = HookPoint::OnLimit;
        for &index in self.with(POINT).iter() {
            let Some(instance) = self.instance(index) else { continue };
            let answer = instance.on_limit(context, limit, work_tree).await;
            if self.settle(index, POINT, context, answer) == Some(true) {
                self.record(index, POINT, context, EffectKind::Salvage, String::new());
                return true;
            }
        }
        false
    }

    /// Tells every observer. The chains tell them of `refused`, `deferred` and `stopped`
    /// themselves; everything else is the agent loop's.
    pub async fn observe(&mut self, context: &Context, name: &str, payload: &Value) {
        const POINT: HookPoint = HookPoint::Observe;
        for &index in self.with(POINT).iter() {
            let Some(instance) = self.instance(index) else { continue };
            let answer = instance.observe(context, name, payload).await;
            self.settle(index, POINT, context, answer);
        }
    }

    /// What the plugins did since this was asked last, in order: for episodes that have no end of
    /// their own.
    pub fn take(&mut self) -> (Vec<Effect>, Vec<Fault>) {
        (std::mem::take(&mut self.effects), std::mem::take(&mut self.faults))
    }

    /// Everything that the plugins did, in order.
    pub fn finish(self) -> (Vec<Effect>, Vec<Fault>) {
        (self.effects, self.faults)
    }

    /// The plugins that export `point`, in harness order.
    fn with(&self, point: HookPoint) -> Arc<[usize]> {
        self.lease.generation().with(point)
    }

    fn name(&self, index: usize) -> String {
        self.lease.generation().plugins()[index].name.clone()
    }

    /// The plugin's instance, made if need be; none when it is out.
    fn instance(&mut self, index: usize) -> Option<&mut Instance> {
        let slot = &mut self.slots[index];
        if slot.faults >= FAULTS {
            return None;
        }
        Some(slot.instance.get_or_insert_with(|| {
            let member = &self.lease.generation().plugins()[index];
            let config = InstanceConfig {
                settings: member.settings.clone(),
                seed: self.seed,
                workspace: self.workspace.clone(),
            };
            Instance::new(&member.admitted, config)
        }))
    }

    /// Keeps the log of a call, and turns a fault into a record and nothing else.
    fn settle<T>(
        &mut self,
        index: usize,
        point: HookPoint,
        context: &Context,
        answer: Result<T, PluginFault>,
    ) -> Option<T> {
        let log = self.slots[index].instance.as_mut().map(Instance::take_log);
        for line in log.into_iter().flatten() {
            let text = format!("{}: {}", line.level, line.message);
            self.record(index, point, context, EffectKind::Log, text);
        }
        let fault = match answer {
            Ok(answer) => return Some(answer),
            Err(fault) => fault,
        };
        let member = &self.lease.generation().plugins()[index];
        let slot = &mut self.slots[index];
        slot.faults += 1;
        self.faults.push(Fault {
            plugin: member.admitted.digest(),
            name: member.name.clone(),
            point,
            turn: context.turn,
            reason: format!("it {fault}"),
            barred: slot.faults == FAULTS,
        });
        None
    }

    /// Records an effect; the piece is its text with where it came from.
    fn record(
        &mut self,
        index: usize,
        point: HookPoint,
        context: &Context,
        kind: EffectKind,
        text: String,
    ) -> Piece {
        let member = &self.lease.generation().plugins()[index];
        let plugin = member.admitted.digest();
        self.effects.push(Effect {
            plugin,
            name: member.name.clone(),
            point,
            turn: context.turn,
            kind,
            text: text.clone(),
        });
        let (point, effect) = (point.name().to_owned(), kind.name().to_owned());
        Piece { origin: Origin::Hook { plugin, point, effect }, text }
    }

    /// Text within the cap on what the policy sees.
    fn visible(&self, text: &str) -> String {
        cut(text, self.lease.manifest().limits.observation_chars).into_owned()
    }

    /// Adds a note, or ends the chain with a stop, which observers hear of as `stopped`.
    async fn note_or_stop(
        &mut self,
        index: usize,
        point: HookPoint,
        context: &Context,
        effect: Option<NoteOrStop>,
        notes: &mut Vec<Piece>,
    ) -> Option<ModelCallEffect> {
        match effect? {
            NoteOrStop::Note(text) if text.is_empty() => None,
            NoteOrStop::Note(text) => {
                let text = self.visible(&text);
                notes.push(self.record(index, point, context, EffectKind::Note, text));
                None
            }
            NoteOrStop::Stop(reason) => {
                let reason = self.visible(&reason);
                let piece = self.record(index, point, context, EffectKind::Stop, reason);
                let payload = json!({"by": self.name(index), "reason": piece.text});
                self.observe(context, "stopped", &payload).await;
                let plugin = self.lease.generation().plugins()[index].admitted.digest();
                Some(ModelCallEffect::Stop { plugin, reason: piece.text })
            }
        }
    }
}

/// What the policy reads of a tool's answer: its text; a structured answer only without text.
fn tool_text(output: &ToolOutput) -> String {
    let blocks: Vec<_> = output
        .content
        .iter()
        .map(|block| match block {
            Content::Text(text) => text.clone(),
            Content::Image(image) => {
                format!("[an image, {}, {} bytes]", image.media_type, image.data.len())
            }
        })
        .collect();
    match (&output.structured, blocks.is_empty()) {
        (Some(structured), true) => structured.to_string(),
        _ => blocks.join("\n"),
    }
}
