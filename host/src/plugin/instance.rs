//! One plugin in one episode: what does it answer when it is called?

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::{Instance as WasmInstance, InstancePre, ResourceTable};

use super::admission::{Admitted, Linked, Ready};
use super::bindings::points::{
    observe, on_choose_patch, on_episode_start, on_format_error, on_limit, on_loop, on_model_call, on_submit,
    on_tool_call, on_tool_result, settings_schema, tools,
};
use super::contract::{SETTINGS_SCHEMA, Surface};
use super::engine;
use super::fault::{PluginFault, Raised, classify};
use super::meters;
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
        pub(super) struct ExportIndices {
            settings_schema: Option<settings_schema::GuestIndices>,
            $($point: Option<$point::GuestIndices>),*
        }

        #[derive(Default)]
        struct Exports {
            settings_schema: Option<settings_schema::Guest>,
            $($point: Option<$point::Guest>),*
        }

        impl ExportIndices {
            /// The functions of everything that is exported. The error names a missing function.
            pub fn new(pre: &InstancePre<PluginState>, surface: &Surface) -> wasmtime::Result<Self> {
                let mut indices = Self::default();
                if surface.settings_schema {
                    indices.settings_schema = Some(settings_schema::GuestIndices::new(pre)?);
                }
                for point in &surface.exports {
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
                    settings_schema: match &self.settings_schema {
                        Some(indices) => Some(indices.load(&mut *store, instance)?),
                        None => None,
                    },
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

impl Drop for Live {
    fn drop(&mut self) {
        meters::instances().decrement(1.0);
    }
}

/// What one call may use.
#[derive(Clone, Copy)]
struct Allowance {
    fuel: u64,
    deadline: Duration,
}

/// A call that is going on. Dropped half-way, it takes what ran with it: a store in the middle
/// of a call is of no use to anybody.
struct Running<'a> {
    live: &'a mut Option<Live>,
    linked: &'a Linked,
    allowance: Allowance,
    point: Option<HookPoint>,
    /// None when calls are not metered.
    begun: Option<Instant>,
    came_back: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.came_back {
            *self.live = None;
        }
    }
}

/// A call of one exported function: enter, call, leave.
macro_rules! call {
    ($self:ident, $module:ident, $point:expr, $context:expr, $method:ident($($argument:expr),*)) => {{
        let running = $self.enter($point, $context).await?;
        let wall = running.linked.limits.wall;
        let answer = match running.live.as_mut() {
            Some(Live { store, exports }) => match &exports.$module {
                Some(guest) => {
                    let answer = running.linked.clock.within(wall, guest.$method(store, $($argument),*));
                    answer.await.unwrap_or_else(|| Err(Raised(PluginFault::Wall { limit: wall }).into()))
                }
                None => Err(not_exported(running.point)),
            },
            None => Err(not_exported(running.point)),
        };
        running.leave(answer)
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

    /// The schema of its settings, as it says it.
    pub(super) async fn settings_schema(&mut self) -> Result<String, PluginFault> {
        call!(self, settings_schema, None, None, call_settings_schema())
    }

    /// Starts what is to run, so that the first call does not wait for it.
    pub async fn prepare(&mut self) -> Result<(), PluginFault> {
        if self.live.is_none() {
            self.live = Some(self.start().await?);
        }
        Ok(())
    }

    /// The tools that it has.
    pub async fn definitions(&mut self) -> Result<Vec<ToolDefinition>, PluginFault> {
        let tools = call!(self, tools, Some(HookPoint::Tools), None, call_definitions())?;
        let tools = tools.into_iter().map(ToolDefinition::try_from).collect();
        self.checked(tools)
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
        let output =
            call!(self, tools, Some(HookPoint::Tools), Some(context), call_call(wit, name, &arguments))?;
        self.checked(output.try_into())
    }

    /// Text for its section of the first prompt.
    pub async fn on_episode_start(
        &mut self,
        context: &Context,
        instruction: &str,
    ) -> Result<Option<String>, PluginFault> {
        let wit = context.into();
        call!(
            self,
            on_episode_start,
            Some(HookPoint::OnEpisodeStart),
            Some(context),
            call_on_episode_start(wit, instruction)
        )
    }

    pub async fn on_model_call(&mut self, context: &Context) -> Result<Option<NoteOrStop>, PluginFault> {
        let wit = context.into();
        let effect =
            call!(self, on_model_call, Some(HookPoint::OnModelCall), Some(context), call_on_model_call(wit))?;
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
            Some(HookPoint::OnFormatError),
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
        let effect = call!(
            self,
            on_tool_call,
            Some(HookPoint::OnToolCall),
            Some(context),
            call_on_tool_call(wit, &call)
        )?;
        self.checked(effect.map(RewriteOrRefuse::try_from).transpose())
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
            Some(HookPoint::OnToolResult),
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
        let effect = call!(
            self,
            on_loop,
            Some(HookPoint::OnLoop),
            Some(context),
            call_on_loop(wit, repetition.into())
        )?;
        Ok(effect.map(NoteOrStop::from))
    }

    /// A message that defers the submission.
    pub async fn on_submit(
        &mut self,
        context: &Context,
        submission: &Submission,
    ) -> Result<Option<String>, PluginFault> {
        let (wit, submission) = (context.into(), submission.into());
        call!(self, on_submit, Some(HookPoint::OnSubmit), Some(context), call_on_submit(wit, &submission))
    }

    /// The candidate to hand in: an index that is in range.
    pub async fn on_choose_patch(
        &mut self,
        context: &Context,
        candidates: &[PatchCandidate],
    ) -> Result<Option<usize>, PluginFault> {
        let wit = context.into();
        let list: Vec<_> = candidates.iter().map(Into::into).collect();
        let index = call!(
            self,
            on_choose_patch,
            Some(HookPoint::OnChoosePatch),
            Some(context),
            call_on_choose_patch(wit, &list)
        )?;
        let index = match index {
            Some(index) if index as usize >= candidates.len() => Err(PluginFault::WrongValue {
                what: format!("it chose candidate {index} of {}, counted from 0", candidates.len()),
            }),
            index => Ok(index.map(|index| index as usize)),
        };
        self.checked(index)
    }

    /// Whether to hand in the work tree.
    pub async fn on_limit(
        &mut self,
        context: &Context,
        limit: LimitKind,
        work_tree: &PatchCandidate,
    ) -> Result<bool, PluginFault> {
        let (wit, patch) = (context.into(), work_tree.into());
        call!(
            self,
            on_limit,
            Some(HookPoint::OnLimit),
            Some(context),
            call_on_limit(wit, limit.into(), &patch)
        )
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
        call!(self, observe, Some(HookPoint::Observe), Some(context), call_observe(wit, name, &payload))
    }

    /// Starts what is to run if need be, with a fresh allowance. None is for admission alone.
    async fn enter(
        &mut self,
        point: Option<HookPoint>,
        context: Option<&Context>,
    ) -> Result<Running<'_>, PluginFault> {
        self.linked.clock.check();
        if self.live.is_none() {
            self.live = Some(self.start().await?);
        }
        let limits = &self.linked.limits;
        let allowance = match point {
            Some(HookPoint::Tools) => Allowance { fuel: limits.fuel_tool, deadline: limits.deadline_tool },
            _ => Allowance { fuel: limits.fuel_hook, deadline: limits.deadline_hook },
        };
        if let Some(live) = &mut self.live {
            let now_ms = context.map_or(0, |context| context.now_ms);
            begin(&mut live.store, now_ms, allowance)?;
        }
        let (live, linked) = (&mut self.live, &*self.linked);
        let begun = linked.meters.as_ref().map(|_| Instant::now());
        Ok(Running { live, linked, allowance, point, begun, came_back: false })
    }

    /// Drops what ran when its answer, read by the host, is a wrong value.
    fn checked<T>(&mut self, answer: Result<T, PluginFault>) -> Result<T, PluginFault> {
        if let Err(fault) = &answer {
            self.live = None;
            meters::fault(fault);
        }
        answer
    }

    /// Makes a store and instantiates, which may run code of the guest: in a prepared place if
    /// one is free.
    async fn start(&mut self) -> Result<Live, PluginFault> {
        self.starts += 1;
        let linked = self.linked.clone();
        match self.start_in(&linked.ready).await {
            Err(NotStarted::NoPlace) => {
                let Some(overflow) = linked.overflow() else {
                    return Err(PluginFault::Start { why: "the host has no place for it".to_owned() });
                };
                meters::overflows().increment(1);
                self.start_in(overflow).await.map_err(|error| match error {
                    NotStarted::Fault(fault) => fault,
                    NotStarted::NoPlace => {
                        PluginFault::Start { why: "the host has no place for it".to_owned() }
                    }
                })
            }
            Err(NotStarted::Fault(fault)) => Err(fault),
            Ok(live) => Ok(live),
        }
    }

    async fn start_in(&mut self, ready: &Ready) -> Result<Live, NotStarted> {
        let linked = self.linked.clone();
        let limits = linked.limits.clone();
        let seed = self.seed();
        let stdio = Stdio::new(limits.stdio_bytes);
        let own_time = Arc::new(OwnTime::default());
        let mut table = ResourceTable::new();
        // A handle is one entry or two: a pollable and what it waits for.
        table.set_max_capacity(limits.handles * 2);
        let state = PluginState {
            limiter: Limiter::new(&limits),
            table,
            wasi: wasi::context(&stdio),
            stdio,
            wasi_clock: VirtualClock::new(self.hidden.start_seconds),
            wasi_random: Random::new(seed ^ self.hidden.seed),
            random: Random::new(!seed),
            now_ms: 0,
            settings: self.config.settings.clone(),
            workspace: self.config.workspace.clone(),
            kept: self.kept.clone(),
            clock: linked.clock.clone(),
            own_time: own_time.clone(),
            host_calls: 0,
            wasi_calls: 0,
            explained: None,
            limits: limits.clone(),
        };
        let mut store = Store::new(ready.pre.engine(), state);
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(limits.output_bytes);
        store.set_max_component_handles(limits.handles);
        store.epoch_deadline_callback(move |_| own_time.tick());

        let allowance = Allowance { fuel: limits.fuel_start, deadline: limits.deadline_hook };
        begin(&mut store, 0, allowance).map_err(NotStarted::Fault)?;
        let started = linked.clock.within(limits.wall, ready.pre.instantiate_async(&mut store)).await;
        let started = started.unwrap_or_else(|| Err(Raised(PluginFault::Wall { limit: limits.wall }).into()));
        let instance = match started {
            Ok(instance) => instance,
            Err(error) if engine::is_full(&error) => return Err(NotStarted::NoPlace),
            Err(error) => {
                return Err(NotStarted::Fault(match classify(&error, store.data(), allowance.fuel) {
                    PluginFault::WrongValue { what } => PluginFault::Start { why: what },
                    fault => fault,
                }));
            }
        };
        let exports = ready
            .indices
            .load(&mut store, &instance)
            .map_err(|error| NotStarted::Fault(PluginFault::Start { why: format!("{error:#}") }))?;
        meters::instances().increment(1.0);
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

/// Why there is no instance.
enum NotStarted {
    /// All prepared places are taken.
    NoPlace,
    Fault(PluginFault),
}

fn not_exported(point: Option<HookPoint>) -> wasmtime::Error {
    let point = point.map_or(SETTINGS_SCHEMA, HookPoint::name);
    Raised(PluginFault::NotExported { point }).into()
}

impl Running<'_> {
    /// Keeps what ran after an answer; drops it after a fault.
    fn leave<T>(mut self, answer: wasmtime::Result<T>) -> Result<T, PluginFault> {
        let Some(live) = self.live.as_ref() else {
            return answer.map_err(|error| PluginFault::Start { why: format!("{error:#}") });
        };
        if let (Some(point), Some(meters), Some(begun)) = (self.point, &self.linked.meters, self.begun) {
            let fuel = self.allowance.fuel - live.store.get_fuel().unwrap_or(0);
            meters.called(point, begun, fuel);
        }
        match answer {
            Ok(answer) => match live.store.data().own_time.flood() {
                Some(fault) => {
                    meters::fault(&fault);
                    Err(fault)
                }
                None => {
                    self.came_back = true;
                    Ok(answer)
                }
            },
            Err(error) => {
                let fault = classify(&error, live.store.data(), self.allowance.fuel);
                meters::fault(&fault);
                Err(fault)
            }
        }
    }
}
