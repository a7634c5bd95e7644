//! `tandem plugin test`: does a plugin do what the cases beside it say?

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use tandem_host::cases::{Cases, CasesReport, run_cases};
use tandem_host::plugin::{AdmissionError, AdmissionOptions, Admitted, Engine, admit, admit_as_asked, check};

use super::check::told;
use super::{read, source};
use crate::cli::replay::ReplayOptions;
use crate::cli::{Exit, setup};

#[derive(Args)]
pub struct TestArguments {
    /// The folder with the plugin's source and its cases, or one of these files.
    place: PathBuf,
    /// The component to test; without it the source beside the cases is built.
    #[arg(long, value_name = "FILE.wasm")]
    component: Option<PathBuf>,
    #[command(flatten)]
    replay: ReplayOptions,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// What came of a test.
pub enum Tested {
    /// The source did not build, or the component was not admitted.
    Refused(Refusal),
    Ran(Box<Ran>),
}

/// A plugin whose cases were run.
pub struct Ran {
    pub report: CasesReport,
    admitted: Arc<Admitted>,
    component: Vec<u8>,
}

/// Why there was nothing to run the cases of.
pub enum Refusal {
    /// What the forge says.
    Build(String),
    Admission(Vec<AdmissionError>),
}

impl Refusal {
    /// For people.
    pub fn text(&self) -> String {
        match self {
            Self::Build(text) => format!("error: {text}"),
            Self::Admission(reasons) => told(reasons),
        }
    }

    /// As `tandem plugin check --json` has it; a build has no plugin digest yet.
    fn json(&self) -> Value {
        match self {
            Self::Build(text) => {
                let (what, help) = text.split_once("\nhelp: ").unwrap_or((text, ""));
                json!({"reasons": [{"step": "build", "what": what, "help": help}]})
            }
            Self::Admission(reasons) => json!({"reasons": reasons}),
        }
    }
}

pub async fn run(arguments: TestArguments) -> Result<Exit> {
    let component = match &arguments.component {
        Some(file) => Some(read(file)?),
        None => None,
    };
    let tested = test(&arguments.place, component, &setup::engine()?, &setup::admission()?).await?;
    let exit = tested.exit();
    match tested {
        Tested::Refused(refusal) if arguments.json => {
            println!("{}", serde_json::to_string_pretty(&refusal.json())?);
        }
        Tested::Refused(refusal) => eprintln!("{}", refusal.text()),
        Tested::Ran(ran) => {
            if !arguments.json {
                println!("{}", ran.report);
            }
            let name = name_of(&arguments.place);
            let new = (ran.admitted.as_ref(), ran.component.as_slice());
            let changes = arguments.replay.changes(&name, new, None, !arguments.json).await?;
            if arguments.json {
                let mut value = serde_json::to_value(&ran.report)?;
                if let Some(changes) = changes {
                    value["replay"] = serde_json::to_value(changes)?;
                }
                println!("{}", serde_json::to_string_pretty(&value)?);
            }
        }
    }
    Ok(exit)
}

impl Tested {
    /// 3 when the plugin was refused or a case failed.
    fn exit(&self) -> Exit {
        match self {
            Self::Ran(ran) if ran.report.failed() == 0 => Exit::Done,
            _ => Exit::No,
        }
    }
}

/// Reads the cases at `place`, builds the source beside them unless there is a `component`, admits
/// it with the grants that the cases name, and runs them.
pub async fn test(
    place: &Path,
    component: Option<Vec<u8>>,
    engine: &Engine,
    admission: &AdmissionOptions,
) -> Result<Tested> {
    let is_source = !place.is_dir() && source::is_source(place);
    let cases = Cases::read(if is_source { folder_of(place) } else { place })?;
    let component = match component {
        Some(bytes) => bytes,
        None => {
            let source = if is_source { place } else { folder_of(place) };
            match source::build(source::source_at(source)?).await? {
                Ok(built) => built.component,
                Err(refused) => return Ok(Tested::Refused(Refusal::Build(refused.to_string()))),
            }
        }
    };
    if let Err(reasons) = check(engine, &component, cases.grants.as_ref(), admission).await {
        return Ok(Tested::Refused(Refusal::Admission(reasons)));
    }
    // The engine has it from the check.
    let admitted = match &cases.grants {
        Some(grants) => admit(engine, &component, grants, admission).await?,
        None => admit_as_asked(engine, &component, admission).await?,
    };
    let report = run_cases(&admitted, &cases, &setup::workspaces()?).await?;
    Ok(Tested::Ran(Box::new(Ran { report, admitted, component })))
}

/// What a harness would call the plugin at `place`, unless it is told: the name of its folder.
fn name_of(place: &Path) -> String {
    let folder = folder_of(place);
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    folder.file_name().map_or_else(|| "plugin".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The plugin's folder: that of its source, or of its cases, which may lie in a folder `cases`.
fn folder_of(place: &Path) -> &Path {
    if place.is_dir() {
        return place;
    }
    let parent = match place.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => return Path::new("."),
    };
    let has_cases_only = parent.file_name().is_some_and(|name| name == "cases" || name == "src");
    match parent.parent() {
        Some(above) if has_cases_only && above.as_os_str().is_empty() => Path::new("."),
        Some(above) if has_cases_only => above,
        _ => parent,
    }
}
