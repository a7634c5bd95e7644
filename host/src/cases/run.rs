//! How is a case run?

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::error::CasesError;
use super::expect::{file_mismatch, log_mismatch, mismatch};
use super::format::{Case, Cases, Step};
use super::report::{CaseReport, CasesReport, Verdict};
use crate::plugin::{
    Admitted, CallError, HookPoint, Instance, InstanceConfig, NoWorkspace, WorkspaceAccess, call_json,
    with_settings,
};
use crate::workspace::{Error, Snapshot, Workspace, WorkspaceConfig};

/// Time limit of a command of a case.
const COMMAND: Duration = Duration::from_secs(60);

/// Runs all cases of a plugin in their order, each in an episode of its own.
///
/// # Errors
/// When a workspace cannot be made: that says nothing about the plugin.
pub async fn run_cases(
    admitted: &Arc<Admitted>,
    cases: &Cases,
    config: &WorkspaceConfig,
) -> Result<CasesReport, CasesError> {
    let mut snapshots = Snapshots::default();
    let mut reports = Vec::new();
    for case in &cases.cases {
        let broken = |error| CasesError::Workspace { case: case.name.clone(), error };
        let workspace = match case.has_workspace() {
            false => None,
            true => {
                let snapshot = snapshots.of(&case.files, config).await.map_err(broken)?;
                Some(Arc::new(Workspace::create(snapshot, config).await.map_err(broken)?))
            }
        };
        reports.push(run(admitted, case, workspace).await.map_err(broken)?);
    }
    Ok(CasesReport { plugin: admitted.digest(), cases: reports })
}

/// What workspaces start from; cases often share their files.
#[derive(Default)]
struct Snapshots(Vec<(BTreeMap<String, Vec<u8>>, Arc<Snapshot>)>);

impl Snapshots {
    async fn of(
        &mut self,
        files: &BTreeMap<String, Vec<u8>>,
        config: &WorkspaceConfig,
    ) -> Result<Arc<Snapshot>, Error> {
        if let Some((_, snapshot)) = self.0.iter().find(|(known, _)| known == files) {
            return Ok(snapshot.clone());
        }
        let root = config.root();
        let folder = tempfile::tempdir_in(&root).map_err(Error::io("making a folder in", &root))?;
        for (name, content) in files {
            let path = folder.path().join(name);
            write(&path, content).map_err(Error::io("writing", &path))?;
        }
        let snapshot = Arc::new(Snapshot::take(folder.path(), config).await?);
        self.0.push((files.clone(), snapshot.clone()));
        Ok(snapshot)
    }
}

fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, content)
}

async fn run(
    admitted: &Arc<Admitted>,
    case: &Case,
    workspace: Option<Arc<Workspace>>,
) -> Result<CaseReport, Error> {
    let report = |verdict, log| CaseReport {
        name: case.name.clone(),
        point: case.point,
        fires: case.fires(),
        verdict,
        log,
    };
    if let Some(workspace) = &workspace {
        for program in &case.needs {
            let asked = workspace.bash(&format!("command -v '{program}'"), COMMAND).await?;
            if asked.exit_code != Some(0) {
                return Ok(report(Verdict::Skipped(program.clone()), Vec::new()));
            }
        }
    }
    let settings = Value::Object(case.settings.clone());
    if !case.settings.is_empty()
        && let Err(error) = with_settings(admitted, &settings).await
    {
        return Ok(report(Verdict::Failed(error.to_string()), Vec::new()));
    }
    let access: Arc<dyn WorkspaceAccess> = match &workspace {
        Some(workspace) => workspace.clone(),
        None => Arc::new(NoWorkspace),
    };
    let config = InstanceConfig { settings: settings.to_string().into(), seed: case.seed, workspace: access };
    let mut instance = Instance::new(admitted, config);
    let wrong = episode(&mut instance, admitted, case, workspace.as_deref()).await?;
    let log = instance.take_log();
    let logged = |expected| log_mismatch(expected, &log).map(|what| format!("the log {what}"));
    let wrong = wrong.or_else(|| case.log.as_ref().and_then(logged));
    Ok(report(wrong.map_or(Verdict::Passed, Verdict::Failed), log))
}

/// Plays the episode of a case. What does not hold; none if all does.
async fn episode(
    instance: &mut Instance,
    admitted: &Admitted,
    case: &Case,
    workspace: Option<&Workspace>,
) -> Result<Option<String>, Error> {
    if let Some(workspace) = workspace {
        for (path, content) in &case.changes {
            if let Err(error) = workspace.write(path, content).await {
                return Ok(Some(format!("the change of `{path}` could not be made: {error}")));
            }
        }
    }
    for (at, step) in case.before.iter().enumerate() {
        let wrong = match (step, workspace) {
            (Step::Run(command), Some(workspace)) => {
                let ended = workspace.bash(command, COMMAND).await?;
                let bytes = ended.output.bytes();
                let output = String::from_utf8_lossy(&bytes);
                let code = ended.exit_code.map_or("its time limit".to_owned(), |code| code.to_string());
                (ended.exit_code != Some(0))
                    .then(|| format!("the command `{command}` ended with {code}: {}", output.trim()))
            }
            (Step::Run(command), None) => Some(format!("there is no workspace for `{command}`")),
            (Step::Call { point, input, expect }, _) => {
                call(instance, admitted, *point, input, expect.as_ref()).await
            }
        };
        if let Some(wrong) = wrong {
            return Ok(Some(format!("earlier step {}: {wrong}", at + 1)));
        }
    }
    if let Some(wrong) = call(instance, admitted, case.point, &case.input, Some(&case.expect)).await {
        return Ok(Some(wrong));
    }
    for (path, expected) in &case.after {
        let content = match workspace {
            Some(workspace) => workspace.read(path).await.ok(),
            None => None,
        };
        if let Some(what) = file_mismatch(expected, content.as_deref()) {
            return Ok(Some(format!("the file `{path}` {what}")));
        }
    }
    Ok(None)
}

/// What is wrong with the answer of one call.
async fn call(
    instance: &mut Instance,
    admitted: &Admitted,
    point: HookPoint,
    input: &Value,
    expected: Option<&Value>,
) -> Option<String> {
    if !admitted.has(point) {
        let points: Vec<_> = admitted.exports().iter().map(|point| point.name()).collect();
        return Some(format!(
            "the plugin does not export `{}`; it exports {}",
            point.name(),
            points.join(", ")
        ));
    }
    match call_json(instance, point, input).await {
        Ok(answer) => mismatch(point, expected?, &answer).map(|what| format!("the answer {what}")),
        Err(CallError::Input(error)) => Some(error.to_string()),
        Err(CallError::Fault(fault)) => Some(format!("the plugin {fault}\nhelp: {}", fault.help())),
    }
}
