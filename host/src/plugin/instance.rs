//! One plugin in one episode: what does it answer when it is called?

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::{Instance as WasmInstance, InstancePre, ResourceTable};

use super::admission::{Admitted, Linked};
use super::bindings::points::{
    observe, on_choose_patch, on_episode_start, on_format_error, on_limit, on_loop, on_model_call, on_submit,
    on_tool_call, on_tool_result, tools,
};
use super::fault::{PluginFault, Raised, classify};
use super::points::{
    AnnotateOrReplace, Context, FormatError, HookPoint, LimitKind, NoteOrStop, PatchCandidate, Repetition,
    RewriteOrRefuse, Submission, ToolDefinition, ToolOutput, ToolResult,
};
use super::state::{Kept, Limiter, LogLine, OwnTime, PluginState, lock};
use super::wasi::{self, Random, Stdio, VirtualClock};
use super::workspace_access::WorkspaceAccess;
use crate::policy::ToolCall;

/// Indices of the exported functions, resolved once at admission; the functions of a living
/// instance have the same fields.
macro_rules! exports {
    ($($point:ident),*) => {
        #[derive(Clone, Default)]
        pub(super) struct ExportIndices { $($point: Option<$point::GuestIndices>),* }

        #[derive(Default)]
        struct Exports { $($point: Option<$point::Guest>),* }

        impl ExportIndices {
            /// The functions of every point in `exports`. The error names a missing function.
            pub fn new(
                pre: &InstancePre<PluginState>,
                exports: &[HookPoint],
            ) -> wasmtime::Result<Self> {
                let mut indices = Self::default();
                for point in exports {
                    $(if point.name().replace('-', "_") == stringify!($point) {
                        indices.$point = Some($point::GuestIndices::new(pre)?);
                    })*
                }
                Ok(indices)
            }

            /// Checks the types of the functions. The error names a function of another type.
            fn load(
                &self,
                store: &mut Store<PluginState>,
                instance: &WasmInstance,
            ) -> wasmtime::Result<Exports> {
                Ok(Exports {
                    $($point: match &self.$point {
                        Some(indices) => Some(indices.load(&mut *store, instance)?),
                        None => None,
                    }),*
                })
            }
        }
    };
}

exports!(
    tools,
    on_episode_start,
    on_model_call,
    on_format_error,
    on_tool_call,
    on_tool_result,
    on_loop,
    on_submit,
    on_choose_patch,
    on_limit,
    observe
);

/// What a plugin gets for one episode.
#[derive(Clone)]
pub struct InstanceConfig {
    /// Behind `settings`: a JSON object.
    pub settings: Arc<str>,
    /// Seed of the episode; plugins of one episode differ by their digest.
    pub seed: u64,
    /// Behind `workspace-read`, `workspace-write` and `exec`.
    pub workspace: Arc<dyn WorkspaceAccess>,
}

/// One plugin in one episode. It is started at the first call. After a fault what ran is
/// dropped and the next call starts anew, while `state` and the log stay. A call whose future
/// is dropped half-way also drops what ran.
pub struct Instance {
    linked: Arc<Linked>,
    config: InstanceConfig,
    /// Varied by admission, to find answers that depend on what no input tells.
    pub(super) hidden: Hidden,
    kept: Arc<Mutex<Kept>>,
    starts: u64,
    live: Option<Live>,
}

/// What a plugin sees of the world through WASI although no input of the contract says it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hidden {
    pub seed: u64,
    pub start_seconds: u64,
}

struct Live {
    store: Store<PluginState>,
    exports: Exports,
}

/// What one call may use.
#[derive(Clone, Copy)]
struct Allowance {
    fuel: u64,
    deadline: Duration,
}

/// A call of one exported function: enter, call, and either keep or drop what ran.
macro_rules! call {
    ($self:ident, $module:ident, $point:ident, $context:expr, $method:ident($($argument:expr),*)) => {{
        let (mut live, allowance) = $self.enter(HookPoint::$point, $context).await?;
        let answer = match live.exports.$module.clone() {
            Some(guest) => {
                let wall = live.store.data().limits.wall;
                bounded(wall, guest.$method(&mut live.store, $($argument),*)).await
            }
            None => Err(Raised(PluginFault::NotExported { point: HookPoint::$point.name() }).into()),
        };
        $self.leave(live, allowance, answer)
    }};
}

impl Instance {
    /// A plugin for one episode; nothing runs yet.
    pub fn new(admitted: &Admitted, config: InstanceConfig) -> Self {
        Self::of(admitted.linked.clone(), config)
    }

    pub(super) fn of(linked: Arc<Linked>, config: InstanceConfig) -> Self {
        let kept = Arc::default();
        Self { linked, config, hidden: Hidden::default(), kept, starts: 0, live: None }
    }

    /// The messages that it logged since this was last called.
    pub fn take_log(&mut self) -> Vec<LogLine> {
        lock(&self.kept).take_log()
    }

    /// The tools that it has.
    pub async fn definitions(&mut self) -> Result<Vec<ToolDefinition>, PluginFault> {
        let tools = call!(self, tools, Tools, None, call_definitions())?;
        tools.into_iter().map(ToolDefinition::try_from).collect()
    }

    /// Calls the tool `name`. `arguments` is a JSON object.
    pub async fn call_tool(
        &mut self,
        context: &Context,
        name: &str,
        arguments: &Value,
    ) -> Result<ToolOutput, PluginFault> {
        let arguments = arguments.to_string();
        let wit = context.into();
        call!(self, tools, Tools, Some(context), call_call(wit, name, &arguments))?.try_into()
    }

    /// Text for its section of the first prompt.
    pub async fn on_episode_start(
        &mut self,
        context: &Context,
        instruction: &str,
    ) -> Result<Option<String>, PluginFault> {
        let wit = context.into();
        call!(self, on_episode_start, OnEpisodeStart, Some(context), call_on_episode_start(wit, instruction))
    }

    pub async fn on_model_call(&mut self, context: &Context) -> Result<Option<NoteOrStop>, PluginFault> {
        let wit = context.into();
        let effect = call!(self, on_model_call, OnModelCall, Some(context), call_on_model_call(wit))?;
        Ok(effect.map(NoteOrStop::from))
    }

    /// Text instead of the corrective text.
    pub async fn on_format_error(
        &mut self,
        context: &Context,
        error: FormatError,
        output: &str,
    ) -> Result<Option<String>, PluginFault> {
        let wit = context.into();
        call!(
            self,
            on_format_error,
            OnFormatError,
            Some(context),
            call_on_format_error(wit, error.into(), output)
        )
    }

    /// Other arguments, or a refusal.
    pub async fn on_tool_call(
        &mut self,
        context: &Context,
        call: &ToolCall,
    ) -> Result<Option<RewriteOrRefuse>, PluginFault> {
        let (wit, call) = (context.into(), call.into());
        let effect = call!(self, on_tool_call, OnToolCall, Some(context), call_on_tool_call(wit, &call))?;
        effect.map(RewriteOrRefuse::try_from).transpose()
    }

    /// Text after the result or instead of it.
    pub async fn on_tool_result(
        &mut self,
        context: &Context,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Result<Option<AnnotateOrReplace>, PluginFault> {
        let (wit, call, result) = (context.into(), call.into(), result.into());
        let effect = call!(
            self,
            on_tool_result,
            OnToolResult,
            Some(context),
            call_on_tool_result(wit, &call, &result)
        )?;
        Ok(effect.map(AnnotateOrReplace::from))
    }

    /// A note about a repetition, or a stop.
    pub async fn on_loop(
        &mut self,
        context: &Context,
        repetition: Repetition,
    ) -> Result<Option<NoteOrStop>, PluginFault> {
        let wit = context.into();
        let effect = call!(self, on_loop, OnLoop, Some(context), call_on_loop(wit, repetition.into()))?;
        Ok(effect.map(NoteOrStop::from))
    }

    /// A message that defers the submission.
    pub async fn on_submit(
        &mut self,
        context: &Context,
        submission: &Submission,
    ) -> Result<Option<String>, PluginFault> {
        let (wit, submission) = (context.into(), submission.into());
        call!(self, on_submit, OnSubmit, Some(context), call_on_submit(wit, &submission))
    }

    /// The candidate to hand in: an index that is in range.
    pub async fn on_choose_patch(
        &mut self,
        context: &Context,
        candidates: &[PatchCandidate],
    ) -> Result<Option<usize>, PluginFault> {
        let wit = context.into();
        let list: Vec<_> = candidates.iter().map(Into::into).collect();
        let index =
            call!(self, on_choose_patch, OnChoosePatch, Some(context), call_on_choose_patch(wit, &list))?;
        match index {
            Some(index) if index as usize >= candidates.len() => Err(PluginFault::WrongValue {
                what: format!("it chose candidate {index} of {}, counted from 0", candidates.len()),
            }),
            index => Ok(index.map(|index| index as usize)),
        }
    }

    /// Whether to hand in the work tree.
    pub async fn on_limit(
        &mut self,
        context: &Context,
        limit: LimitKind,
        work_tree: &PatchCandidate,
    ) -> Result<bool, PluginFault> {
        let (wit, patch) = (context.into(), work_tree.into());
        call!(self, on_limit, OnLimit, Some(context), call_on_limit(wit, limit.into(), &patch))
    }

    /// Tells it of an event; there is no answer.
    pub async fn observe(
        &mut self,
        context: &Context,
        name: &str,
        payload: &Value,
    ) -> Result<(), PluginFault> {
        let wit = context.into();
        let payload = payload.to_string();
        call!(self, observe, Observe, Some(context), call_observe(wit, name, &payload))
    }

    /// Takes what runs, started if need be, with a fresh allowance.
    async fn enter(
        &mut self,
        point: HookPoint,
        context: Option<&Context>,
    ) -> Result<(Live, Allowance), PluginFault> {
        let mut live = match self.live.take() {
            Some(live) => live,
            None => self.start().await?,
        };
        let limits = &self.linked.limits;
        let allowance = match point {
            HookPoint::Tools => Allowance { fuel: limits.fuel_tool, deadline: limits.deadline_tool },
            _ => Allowance { fuel: limits.fuel_hook, deadline: limits.deadline_hook },
        };
        let now_ms = context.map_or(0, |context| context.now_ms);
        begin(&mut live.store, now_ms, allowance)?;
        Ok((live, allowance))
    }

    /// Keeps what ran after an answer; drops it after a fault.
    fn leave<T>(
        &mut self,
        live: Live,
        allowance: Allowance,
        answer: wasmtime::Result<T>,
    ) -> Result<T, PluginFault> {
        match answer {
            Ok(answer) => {
                self.live = Some(live);
                Ok(answer)
            }
            Err(error) => Err(classify(&error, live.store.data(), allowance.fuel)),
        }
    }

    /// Makes a store and instantiates, which may run code of the guest.
    async fn start(&mut self) -> Result<Live, PluginFault> {
        let linked = &self.linked;
        let limits = linked.limits.clone();
        self.starts += 1;
        let seed = self.seed();
        let stdio = Stdio::new(limits.stdio_bytes);
        let own_time = Arc::new(OwnTime::default());
        let state = PluginState {
            limiter: Limiter::new(&limits),
            table: ResourceTable::new(),
            wasi: wasi::context(&stdio),
            stdio,
            wasi_clock: VirtualClock::new(self.hidden.start_seconds),
            wasi_random: Random::new(seed ^ self.hidden.seed),
            random: Random::new(!seed),
            now_ms: 0,
            settings: self.config.settings.clone(),
            workspace: self.config.workspace.clone(),
            kept: self.kept.clone(),
            own_time: own_time.clone(),
            host_calls: 0,
            limits: limits.clone(),
        };
        let mut store = Store::new(linked.pre.engine(), state);
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(limits.output_bytes);
        store.epoch_deadline_callback(move |_| own_time.tick());

        let allowance = Allowance { fuel: limits.fuel_start, deadline: limits.deadline_hook };
        begin(&mut store, 0, allowance)?;
        let started = bounded(limits.wall, linked.pre.instantiate_async(&mut store)).await;
        let instance = started.map_err(|error| match classify(&error, store.data(), allowance.fuel) {
            PluginFault::WrongValue { what } => PluginFault::Start { why: what },
            fault => fault,
        })?;
        let exports = linked
            .indices
            .load(&mut store, &instance)
            .map_err(|error| PluginFault::Start { why: format!("{error:#}") })?;
        Ok(Live { store, exports })
    }

    /// From the episode's seed, the plugin, and how often it was started.
    fn seed(&self) -> u64 {
        let digest = self.linked.digest;
        let (first, _) = digest.bytes().split_at(8);
        let plugin = first.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        let mut random = Random::new(self.config.seed ^ plugin);
        (0..self.starts).map(|_| random.next()).last().unwrap_or(0)
    }
}

/// Fuel, epoch and the account of a call.
fn begin(store: &mut Store<PluginState>, now_ms: u64, allowance: Allowance) -> Result<(), PluginFault> {
    store.data_mut().begin_call(now_ms, allowance.deadline);
    store.set_epoch_deadline(1);
    store.set_fuel(allowance.fuel).map_err(|error| PluginFault::Start { why: format!("{error:#}") })
}

/// The last resort against a call that never comes back.
async fn bounded<T>(limit: Duration, call: impl Future<Output = wasmtime::Result<T>>) -> wasmtime::Result<T> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer,
        Err(_) => Err(Raised(PluginFault::Wall { limit }).into()),
    }
}
