//! What is one client answered? Its session is an episode: one lease, one workspace, hooks with their state.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex as Lock, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tandem_host::harness::{
    Context, EpisodeHooks, HarnessManifest, ToolCallEffect, ToolDefinition, ToolResult, ToolStatus, Usage,
    cut,
};
use tandem_host::plugin::ToolOutput;
use tandem_host::policy::ToolCall;
use tandem_host::store::Digest;
use tandem_host::workspace::SandboxCommand;
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

use super::message::{
    Failure, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND, VERSIONS, notification,
};
use super::server::{Counted, Place, Server};
use super::tools::{BASH, bash_definition, definition, has_output_schema, result};

/// How often a running call is told of.
const PROGRESS: Duration = Duration::from_secs(1);
/// Most bytes of a token under which a call is told of: it is repeated each time.
const TOKEN_BYTES: usize = 256;
/// The resource with the changes of the work tree.
const PATCH: &str = "tandem://workspace.patch";

/// A client's session.
pub struct Session {
    server: Arc<Server>,
    place: Place,
    /// One call at a time: hooks and tools of a session share their state.
    episode: Mutex<Episode>,
    calls: AtomicU32,
    start: Instant,
    /// Calls that can be cancelled, by the id of their request.
    running: Lock<HashMap<String, AbortHandle>>,
    number: u64,
    _counted: Counted,
}

/// The generation that the session holds, with its hooks.
struct Episode {
    hooks: EpisodeHooks,
    tools: Vec<ToolDefinition>,
}

impl Session {
    pub fn new(server: Arc<Server>, number: u64, place: Place, counted: Counted) -> Self {
        let episode = Mutex::new(Self::episode(&server, number, &place));
        let (calls, running) = (AtomicU32::new(0), Lock::default());
        Self { server, place, episode, calls, start: Instant::now(), running, number, _counted: counted }
    }

    fn episode(server: &Server, number: u64, place: &Place) -> Episode {
        let hooks = server.lease().open(number, place.access());
        let tools = hooks.tools();
        Episode { hooks, tools }
    }

    /// Takes a request whose task can be cancelled by `cancel`. Those that are over stay until `prune`, which
    /// looks at all of them and so is for whole batches.
    pub fn note(&self, id: &Value, task: AbortHandle) {
        self.running().insert(id.to_string(), task);
    }

    /// Ends the request with this id, if it runs: it is not answered any more.
    pub fn cancel(&self, id: &Value) {
        if let Some(task) = self.running().remove(&id.to_string()) {
            task.abort();
        }
    }

    /// Ends everything that runs.
    pub fn cancel_all(&self) {
        self.running().drain().for_each(|(_, task)| task.abort());
    }

    /// Forgets the requests that are over.
    pub fn prune(&self) {
        self.running().retain(|_, task| !task.is_finished());
    }

    fn running(&self) -> MutexGuard<'_, HashMap<String, AbortHandle>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a notification of the client.
    pub fn notified(&self, method: &str, params: &Value) {
        if method == "notifications/cancelled" {
            self.cancel(&params["requestId"]);
        }
    }

    /// Answers a request. Messages on the way to the answer go to `out`.
    ///
    /// # Errors
    /// Those of the protocol. What goes wrong in a tool is a result.
    pub async fn answer(
        &self,
        method: &str,
        params: &Value,
        out: &UnboundedSender<Value>,
    ) -> Result<Value, Failure> {
        match method {
            "initialize" => Ok(self.initialize(params).await),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(self.list().await),
            "tools/call" => self.call(params, out).await,
            "resources/list" => Ok(json!({"resources": self.resources()})),
            "resources/templates/list" => Ok(json!({"resourceTemplates": []})),
            "resources/read" => self.read(params).await,
            _ => {
                let method: String = method.chars().take(80).collect();
                Err(Failure::new(METHOD_NOT_FOUND, format!("there is no method `{}`", method.escape_debug())))
            }
        }
    }

    async fn initialize(&self, params: &Value) -> Value {
        let asked = params["protocolVersion"].as_str().unwrap_or_default();
        let version = VERSIONS.into_iter().find(|version| *version == asked).unwrap_or(VERSIONS[0]);
        let harness = self.digest().await;
        let mut capabilities = json!({"tools": {"listChanged": self.server.follows()}});
        if matches!(self.place, Place::Files(_)) {
            capabilities["resources"] = json!({});
        }
        json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "serverInfo": {"name": "tandem", "title": "Tandem", "version": env!("CARGO_PKG_VERSION")},
            "_meta": {"tandem/harness": harness.to_string()},
        })
    }

    /// The harness that the session holds.
    pub async fn digest(&self) -> Digest {
        self.episode.lock().await.hooks.lease().digest()
    }

    async fn list(&self) -> Value {
        let mut episode = self.episode.lock().await;
        if self.server.follows() && episode.hooks.lease().digest() != self.server.lease().digest() {
            *episode = Self::episode(&self.server, self.number, &self.place);
        }
        let seconds = episode.hooks.lease().manifest().limits.command_seconds;
        let bash = self.server.offers_bash().then(|| bash_definition(seconds));
        let tools: Vec<Value> = bash.into_iter().chain(episode.tools.iter().map(definition)).collect();
        json!({"tools": tools})
    }

    fn context(&self, turn: u32) -> Context {
        let now_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut context = Context { turn, now_ms, ..Context::default() };
        context.budget.turns = Usage { used: turn.into(), limit: None };
        context.budget.seconds = Usage { used: now_ms / 1000, limit: None };
        context
    }

    async fn call(&self, params: &Value, out: &UnboundedSender<Value>) -> Result<Value, Failure> {
        let invalid = |said: String| Err(Failure::new(INVALID_PARAMS, said));
        let Some(name) = params["name"].as_str() else { return invalid("`name` is missing".into()) };
        let arguments = match &params["arguments"] {
            Value::Null => json!({}),
            arguments if arguments.is_object() => arguments.clone(),
            _ => return invalid("`arguments` is no object".into()),
        };
        let mut episode = self.episode.lock().await;
        let is_bash = name == BASH && self.server.offers_bash();
        let Some(structured) = episode
            .tools
            .iter()
            .find(|tool| tool.name == name)
            .map(has_output_schema)
            .or(is_bash.then_some(false))
        else {
            let name: String = name.chars().take(80).collect();
            return invalid(format!("there is no tool `{}`", name.escape_debug()));
        };
        // Only now: the name is one of a tool, and the one call that runs is told of, not all that wait.
        let _progress = Progress::start(&params["_meta"]["progressToken"], name, out.clone());
        let turn = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let context = self.context(turn);
        let mut call = ToolCall { id: format!("call-{turn}"), name: name.to_owned(), arguments };
        let hooks = &mut episode.hooks;
        let limit = hooks.lease().manifest().limits.observation_chars;
        match hooks.on_tool_call(&context, &call).await {
            ToolCallEffect::Refuse(piece) => {
                let refused = told(ToolStatus::Refused, None, piece.text.clone());
                let pieces = hooks.on_tool_result(&context, &call, &refused).await;
                return Ok(result(&refused, None, &pieces, limit, false));
            }
            ToolCallEffect::Proceed(arguments) => call.arguments = arguments,
        }
        let (called, output) = match is_bash {
            true => (self.bash(&call, hooks.lease().manifest()).await, None),
            false => Self::tool(hooks, &context, &call).await,
        };
        let pieces = hooks.on_tool_result(&context, &call, &called).await;
        Ok(result(&called, output.as_ref(), &pieces, limit, structured))
    }

    async fn tool(
        hooks: &mut EpisodeHooks,
        context: &Context,
        call: &ToolCall,
    ) -> (ToolResult, Option<ToolOutput>) {
        let gone = || (told(ToolStatus::Failed, None, format!("There is no tool `{}`.", call.name)), None);
        hooks.call_tool_whole(context, call).await.unwrap_or_else(gone)
    }

    async fn bash(&self, call: &ToolCall, manifest: &HarnessManifest) -> ToolResult {
        let failed = |text: String| told(ToolStatus::Failed, None, text);
        let Some(command) = call.arguments["command"].as_str() else {
            return failed("`bash` takes one argument: `command`, a string.".into());
        };
        let Place::Files(workspace) = &self.place else {
            return failed("There is no workspace.".into());
        };
        let limit = Duration::from_secs(manifest.limits.command_seconds);
        match workspace.run(&SandboxCommand::bash(command, limit)).await {
            Ok(output) => {
                let bytes = output.output.bytes();
                let text = String::from_utf8_lossy(&bytes);
                let text = cut(text.trim_end_matches('\n'), manifest.limits.observation_chars).into_owned();
                let timed_out = output.exit_code.is_none();
                let status = if timed_out { ToolStatus::TimedOut } else { ToolStatus::Finished };
                let text = match output.exit_code {
                    None => format!("{text}\n[stopped after {} seconds]", manifest.limits.command_seconds),
                    Some(0) => text,
                    Some(code) => format!("{text}\n[exit code {code}]"),
                };
                ToolResult { raw_bytes: output.output.total(), ..told(status, output.exit_code, text) }
            }
            Err(error) => {
                let text = error.to_string();
                failed(text.split("\nhelp: ").next().unwrap_or_default().to_owned())
            }
        }
    }

    fn resources(&self) -> Vec<Value> {
        match &self.place {
            Place::None => Vec::new(),
            Place::Files(_) => vec![json!({
                "uri": PATCH,
                "name": "workspace.patch",
                "description": "What this session changed in its copy of the files, as a patch for `git apply`.",
                "mimeType": "text/x-diff",
            })],
        }
    }

    async fn read(&self, params: &Value) -> Result<Value, Failure> {
        let uri = params["uri"].as_str().unwrap_or_default();
        let Place::Files(workspace) = &self.place else {
            return Err(Failure::new(RESOURCE_NOT_FOUND, "this session has no files"));
        };
        if uri != PATCH {
            return Err(Failure::new(RESOURCE_NOT_FOUND, format!("there is one resource, `{PATCH}`")));
        }
        let _alone = self.episode.lock().await;
        let extracted = workspace.extract().await.map_err(|error| {
            let text = error.to_string();
            Failure::new(INTERNAL_ERROR, text.split("\nhelp: ").next().unwrap_or_default())
        })?;
        Ok(json!({"contents": [contents(&extracted.patch)]}))
    }
}

/// A patch as text, or as bytes where it is none.
fn contents(patch: &[u8]) -> Value {
    use base64::Engine;
    match std::str::from_utf8(patch) {
        Ok(text) => json!({"uri": PATCH, "mimeType": "text/x-diff", "text": text}),
        Err(_) => {
            let blob = base64::engine::general_purpose::STANDARD.encode(patch);
            json!({"uri": PATCH, "mimeType": "text/x-diff", "blob": blob})
        }
    }
}

fn told(status: ToolStatus, exit_code: Option<i32>, text: String) -> ToolResult {
    let raw_bytes = text.len() as u64;
    ToolResult { status, exit_code, text, raw_bytes }
}

/// Tells of a call while it runs, if the client asked for it.
struct Progress(Option<tokio::task::JoinHandle<()>>);

impl Progress {
    fn start(token: &Value, name: &str, out: UnboundedSender<Value>) -> Self {
        let short = token.as_str().is_none_or(|token| token.len() <= TOKEN_BYTES);
        if !short || !token.is_string() && !token.is_number() {
            return Self(None);
        }
        let (token, name) = (token.clone(), name.to_owned());
        Self(Some(tokio::spawn(async move {
            for second in 0_u64.. {
                let message = format!("`{name}` runs for {second} seconds");
                let params = json!({"progressToken": token, "progress": second, "message": message});
                if out.send(notification("notifications/progress", params)).is_err() {
                    return;
                }
                tokio::time::sleep(PROGRESS).await;
            }
        })))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}
