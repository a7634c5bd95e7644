//! What does each capability of the contract do when a plugin calls it?

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use wasmtime::component::{HasSelf, Linker};

use super::bindings::host::{
    clock, exec, failure, log, random, settings, state, types, workspace_read, workspace_types,
    workspace_write,
};
use super::fault::{PluginFault, Raised};
use super::grants::{Capability, Grants};
use super::state::PluginState;
use super::workspace_access::WorkspaceError as Trouble;

use workspace_types::{Entry, SearchHit, WorkspaceError};

/// Links the granted capabilities and the interfaces that need no grant. What is not granted
/// is not there: the check at admission is for the message, this is the wall.
pub(super) fn link(linker: &mut Linker<PluginState>, grants: &Grants) -> wasmtime::Result<()> {
    type Own = HasSelf<PluginState>;
    let l = linker;
    types::add_to_linker::<_, Own>(l, |state| state)?;
    workspace_types::add_to_linker::<_, Own>(l, |state| state)?;
    failure::add_to_linker::<_, Own>(l, |state| state)?;
    for capability in grants.iter() {
        match capability {
            Capability::Log => log::add_to_linker::<_, Own>(l, |state| state)?,
            Capability::Clock => clock::add_to_linker::<_, Own>(l, |state| state)?,
            Capability::Random => random::add_to_linker::<_, Own>(l, |state| state)?,
            Capability::State => state::add_to_linker::<_, Own>(l, |state| state)?,
            Capability::Settings => settings::add_to_linker::<_, Own>(l, |state| state)?,
            Capability::WorkspaceRead => workspace_read::add_to_linker::<_, Own>(l, |state| state)?,
            Capability::WorkspaceWrite => workspace_write::add_to_linker::<_, Own>(l, |state| state)?,
            Capability::Exec => exec::add_to_linker::<_, Own>(l, |state| state)?,
        }
    }
    Ok(())
}

impl types::Host for PluginState {}

impl workspace_types::Host for PluginState {}

impl failure::Host for PluginState {
    fn explain(&mut self, message: String) -> wasmtime::Result<()> {
        self.count_host_call()?;
        self.explained = Some(message);
        Ok(())
    }
}

impl log::Host for PluginState {
    fn log(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        self.count_host_call()?;
        let level = match level {
            log::Level::Debug => "debug",
            log::Level::Info => "info",
            log::Level::Warn => "warn",
        };
        let limit = self.limits.log_bytes;
        self.kept().log(level, message, limit);
        Ok(())
    }
}

impl clock::Host for PluginState {
    fn now_ms(&mut self) -> wasmtime::Result<u64> {
        self.count_host_call()?;
        Ok(self.now_ms)
    }
}

impl random::Host for PluginState {
    fn next_u64(&mut self) -> wasmtime::Result<u64> {
        self.count_host_call()?;
        Ok(self.random.next())
    }
}

impl state::Host for PluginState {
    fn get(&mut self, key: String) -> wasmtime::Result<Option<Vec<u8>>> {
        self.count_host_call()?;
        Ok(self.kept().get(&key))
    }

    fn set(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), String>> {
        self.count_host_call()?;
        let limit = self.limits.state_bytes;
        Ok(self.kept().set(key, value, limit))
    }
}

impl settings::Host for PluginState {
    fn get(&mut self) -> wasmtime::Result<String> {
        self.count_host_call()?;
        Ok(self.settings.to_string())
    }
}

impl PluginState {
    /// Waits for the workspace, at most `limit`, while the guest's own time stands still.
    async fn wait<T>(
        &mut self,
        call: &'static str,
        limit: Duration,
        work: impl Future<Output = Result<T, Trouble>> + Send,
    ) -> wasmtime::Result<Result<T, WorkspaceError>> {
        self.count_host_call()?;
        // A panic of a workspace ends this call, not the episode and all that runs beside it.
        let work = AssertUnwindSafe(work).catch_unwind();
        let answer = self.clock.within(limit, work).await;
        self.own_time.waited();
        match answer {
            Some(Ok(answer)) => Ok(answer.map_err(WorkspaceError::from)),
            Some(Err(_)) => Err(Raised(PluginFault::Host { call }).into()),
            None => Err(Raised(PluginFault::HostCall { call, limit }).into()),
        }
    }

    /// What does not fit into one crossing is refused here, with both numbers, rather than by
    /// the guest's allocator.
    fn fits(&self, what: &str, bytes: Vec<u8>) -> Result<Vec<u8>, WorkspaceError> {
        let limit = self.limits.output_bytes;
        match bytes.len() {
            len if len > limit => {
                Err(WorkspaceError::TooLarge(format!("`{what}` has {len} bytes, limit {limit} bytes")))
            }
            _ => Ok(bytes),
        }
    }
}

impl workspace_read::Host for PluginState {
    async fn read(&mut self, path: String) -> wasmtime::Result<Result<Vec<u8>, WorkspaceError>> {
        let workspace = self.workspace.clone();
        let limit = self.limits.host_call;
        let answer = self.wait("workspace-read.read", limit, workspace.read(&path)).await?;
        Ok(answer.and_then(|bytes| self.fits(&path, bytes)))
    }

    async fn list(&mut self, path: String) -> wasmtime::Result<Result<Vec<Entry>, WorkspaceError>> {
        let workspace = self.workspace.clone();
        let limit = self.limits.host_call;
        let answer = self.wait("workspace-read.list", limit, workspace.list(&path)).await?;
        Ok(answer.map(|entries| entries.into_iter().map(Entry::from).collect()))
    }

    async fn stat(&mut self, path: String) -> wasmtime::Result<Result<Entry, WorkspaceError>> {
        let workspace = self.workspace.clone();
        let limit = self.limits.host_call;
        let answer = self.wait("workspace-read.stat", limit, workspace.stat(&path)).await?;
        Ok(answer.map(Entry::from))
    }

    async fn search(
        &mut self,
        text: String,
        suffix: String,
        max_hits: u32,
    ) -> wasmtime::Result<Result<Vec<SearchHit>, WorkspaceError>> {
        let workspace = self.workspace.clone();
        let limit = self.limits.host_call;
        let work = workspace.search(&text, &suffix, max_hits);
        let answer = self.wait("workspace-read.search", limit, work).await?;
        Ok(answer.map(|hits| hits.into_iter().map(SearchHit::from).collect()))
    }

    async fn diff(&mut self) -> wasmtime::Result<Result<Vec<u8>, WorkspaceError>> {
        let workspace = self.workspace.clone();
        let limit = self.limits.host_call;
        let answer = self.wait("workspace-read.diff", limit, workspace.diff()).await?;
        Ok(answer.and_then(|bytes| self.fits("the difference", bytes)))
    }

    async fn untracked(&mut self) -> wasmtime::Result<Result<Vec<String>, WorkspaceError>> {
        let workspace = self.workspace.clone();
        let limit = self.limits.host_call;
        self.wait("workspace-read.untracked", limit, workspace.untracked()).await
    }
}

impl workspace_write::Host for PluginState {
    async fn write(
        &mut self,
        path: String,
        content: Vec<u8>,
    ) -> wasmtime::Result<Result<(), WorkspaceError>> {
        let workspace = self.workspace.clone();
        let limit = self.limits.host_call;
        self.wait("workspace-write.write", limit, workspace.write(&path, &content)).await
    }
}

impl exec::Host for PluginState {
    async fn run(
        &mut self,
        argv: Vec<String>,
        timeout_ms: u32,
    ) -> wasmtime::Result<Result<exec::Output, WorkspaceError>> {
        if argv.is_empty() {
            self.count_host_call()?;
            return Ok(Err(WorkspaceError::Failed("`argv` is empty".to_owned())));
        }
        let workspace = self.workspace.clone();
        let timeout = Duration::from_millis(timeout_ms.into()).min(self.limits.exec);
        // The workspace stops the program itself; the wait is longer so that it can say so.
        let limit = timeout + self.limits.host_call;
        let answer = self.wait("exec.run", limit, workspace.exec(&argv, timeout)).await?;
        Ok(answer.and_then(|output| {
            let text = self.fits("the output", output.text)?;
            Ok(exec::Output { exit_code: output.exit_code, text })
        }))
    }
}

impl From<super::workspace_access::WorkspaceEntry> for Entry {
    fn from(entry: super::workspace_access::WorkspaceEntry) -> Self {
        Self { path: entry.path, is_folder: entry.is_folder, bytes: entry.bytes }
    }
}

impl From<super::workspace_access::SearchHit> for SearchHit {
    fn from(hit: super::workspace_access::SearchHit) -> Self {
        Self { path: hit.path, line: hit.line, text: hit.text }
    }
}
