//! What is a case, and how is a file of cases written?
//!
//! TOML, since the texts of hooks have many lines. Everything that is left out of an input stands
//! as in [`crate::plugin::sample`]; see `plugins/README.md` for the form.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::error::CasesError;
use crate::plugin::{Grants, HookPoint};

/// The name of a file of cases beside a plugin's source.
pub const FILE: &str = "cases.toml";
/// The folder for several such files.
const FOLDER: &str = "cases";

/// The cases of one plugin.
#[derive(Clone, Debug)]
pub struct Cases {
    /// What the plugin's entry in a manifest grants; none when the files do not say it.
    pub grants: Option<Grants>,
    pub cases: Vec<Case>,
}

/// One call of a plugin, with what comes before it and what must come of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The file that it is in.
    pub path: PathBuf,
    /// Says what must happen; unique in its file.
    pub name: String,
    pub settings: Map<String, Value>,
    pub seed: u64,
    /// Files of the base commit.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Files that are written over them before anything else.
    pub changes: BTreeMap<String, Vec<u8>>,
    /// Programs that the sandbox must have; where one is missing the case is passed over.
    pub needs: Vec<String>,
    /// What happens earlier in the same episode.
    pub before: Vec<Step>,
    pub point: HookPoint,
    /// Laid over the sample of the point.
    pub input: Value,
    /// What the answer must be: `"nothing"`, conditions on a text, or the answer itself.
    pub expect: Value,
    /// What the plugin must have logged, in the same form; of interest where nothing is answered.
    pub log: Option<Value>,
    /// What files must hold afterwards, in the same form.
    pub after: BTreeMap<String, Value>,
}

/// Something earlier in the episode of a case.
#[derive(Clone, Debug)]
pub enum Step {
    /// A command line in the workspace, as the policy would run it. It must end with 0.
    Run(String),
    /// A call of the same plugin, so that it can keep something.
    Call { point: HookPoint, input: Value, expect: Option<Value> },
}

impl Case {
    /// Whether the plugin must do something here. A tool that answers with an error counts as
    /// one that does not.
    pub fn fires(&self) -> bool {
        let refused = self.point == HookPoint::Tools && self.expect["is_error"] == json!(true);
        let answers = !refused && !super::expect::is_nothing(self.point, &self.expect);
        let logs = self.log.as_ref().is_some_and(|log| !super::expect::is_nothing(self.point, log));
        answers || logs
    }

    /// Whether it has to be run in a workspace.
    pub(super) fn has_workspace(&self) -> bool {
        let runs = self.before.iter().any(|step| matches!(step, Step::Run(_)));
        runs || !self.files.is_empty() || !self.changes.is_empty() || !self.needs.is_empty()
    }
}

/// A file of cases as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    grants: Option<Vec<String>>,
    /// Files that every case of this file starts from.
    #[serde(default)]
    files: BTreeMap<String, Content>,
    #[serde(default, rename = "case")]
    cases: Vec<CaseText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseText {
    name: String,
    #[serde(default)]
    settings: Map<String, Value>,
    #[serde(default = "one")]
    seed: u64,
    #[serde(default)]
    files: BTreeMap<String, Content>,
    #[serde(default)]
    changes: BTreeMap<String, Content>,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    before: Vec<StepText>,
    point: HookPoint,
    #[serde(default = "empty")]
    input: Value,
    expect: Value,
    log: Option<Value>,
    #[serde(default)]
    after: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepText {
    run: Option<String>,
    point: Option<HookPoint>,
    input: Option<Value>,
    expect: Option<Value>,
}

/// Text, or bytes that are no text.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a file is a text, or `{ hex = \"...\" }` for bytes")]
enum Content {
    Text(String),
    Bytes { hex: String },
}

fn one() -> u64 {
    1
}

fn empty() -> Value {
    json!({})
}

impl Cases {
    /// Reads the cases of a plugin: of one file, or of a plugin's folder, which has `cases.toml`
    /// or a folder `cases` of such files.
    ///
    /// # Errors
    /// What is wrong, with file and line or with the case's name.
    pub fn read(place: &Path) -> Result<Self, CasesError> {
        let mut found = Self { grants: None, cases: Vec::new() };
        for file in files_of(place)? {
            let text = std::fs::read_to_string(&file).map_err(io(&file))?;
            let (grants, cases) = parse(&file, &text)?;
            found.grants = found.grants.or(grants);
            found.cases.extend(cases);
        }
        if found.cases.is_empty() {
            return Err(CasesError::None { folder: place.to_owned() });
        }
        Ok(found)
    }
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> CasesError {
    move |error| CasesError::Io { path: path.to_owned(), error }
}

fn files_of(place: &Path) -> Result<Vec<PathBuf>, CasesError> {
    if !std::fs::metadata(place).map_err(io(place))?.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let mut files = Vec::new();
    let folder = place.join(FOLDER);
    if folder.is_dir() {
        for entry in std::fs::read_dir(&folder).map_err(io(&folder))? {
            let path = entry.map_err(io(&folder))?.path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                files.push(path);
            }
        }
    }
    files.sort();
    let file = place.join(FILE);
    if file.is_file() {
        files.insert(0, file);
    }
    Ok(files)
}

/// Reads one file of cases. `path` names it in errors.
pub(super) fn parse(path: &Path, text: &str) -> Result<(Option<Grants>, Vec<Case>), CasesError> {
    let written: FileText = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        let what = error.message().lines().next().unwrap_or_default().to_owned();
        CasesError::Toml { path: path.to_owned(), line, what }
    })?;
    let wrong = |case: &str, what: &str, help: &str| CasesError::Case {
        path: path.to_owned(),
        case: case.to_owned(),
        what: what.to_owned(),
        help: help.to_owned(),
    };
    let grants = written.grants.map(|words| Grants::parse(&words)).transpose().map_err(|error| {
        let what = error.to_string().lines().next().unwrap_or_default().to_owned();
        CasesError::Toml { path: path.to_owned(), line: 1, what }
    })?;
    let mut names = BTreeSet::new();
    let mut cases = Vec::new();
    for case in written.cases {
        let name = case.name.clone();
        if name.trim().is_empty() || !names.insert(name.clone()) {
            return Err(wrong(
                &name,
                "has a name that is empty or taken",
                "say in its name what must happen",
            ));
        }
        let mut files = contents(&written.files).map_err(|what| wrong(&name, &what, FILES_HELP))?;
        files.extend(contents(&case.files).map_err(|what| wrong(&name, &what, FILES_HELP))?);
        let changes = contents(&case.changes).map_err(|what| wrong(&name, &what, FILES_HELP))?;
        let before = case.before.into_iter().map(step).collect::<Result<Vec<_>, _>>();
        let before = before.map_err(|what| wrong(&name, what, "give `run`, or `point` with `input`"))?;
        let input = complete(case.point, case.input);
        let input = input.map_err(|what| wrong(&name, what, "write `input` as a table"))?;
        cases.push(Case {
            path: path.to_owned(),
            name,
            settings: case.settings,
            seed: case.seed,
            files,
            changes,
            needs: case.needs,
            before,
            point: case.point,
            input,
            expect: case.expect,
            log: case.log,
            after: case.after,
        });
    }
    Ok((grants, cases))
}

const FILES_HELP: &str = "name files relative to the workspace, as `files.\"src/a.py\" = \"...\"`";

fn contents(written: &BTreeMap<String, Content>) -> Result<BTreeMap<String, Vec<u8>>, String> {
    written
        .iter()
        .map(|(path, content)| {
            let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
            if path.is_empty() || !plain {
                return Err(format!("names the file `{path}`, which is not below the workspace"));
            }
            let bytes = match content {
                Content::Text(text) => text.clone().into_bytes(),
                Content::Bytes { hex } => hex::decode(hex)
                    .map_err(|error| format!("has bytes of `{path}` that are wrong: {error}"))?,
            };
            Ok((path.clone(), bytes))
        })
        .collect()
}

fn step(written: StepText) -> Result<Step, &'static str> {
    match (written.run, written.point) {
        (Some(run), None) if written.input.is_none() && written.expect.is_none() => Ok(Step::Run(run)),
        (None, Some(point)) => {
            let input = complete(point, written.input.unwrap_or_else(empty))?;
            Ok(Step::Call { point, input, expect: written.expect })
        }
        _ => Err("has an earlier step that neither runs a command nor calls a point"),
    }
}

/// Fills in what follows from the rest: a result that did not finish has no exit code, which TOML
/// cannot say, and a text has its own length.
fn complete(point: HookPoint, mut input: Value) -> Result<Value, &'static str> {
    if !input.is_object() {
        return Err("has an input that is not a table");
    }
    if point == HookPoint::OnToolResult
        && let Some(result) = input.get_mut("result").and_then(Value::as_object_mut)
    {
        let unfinished = result.get("status").is_some_and(|status| status != "finished");
        if unfinished && !result.contains_key("exit_code") {
            result.insert("exit_code".to_owned(), Value::Null);
        }
        let length = result.get("text").and_then(Value::as_str).map(str::len);
        if let Some(length) = length.filter(|_| !result.contains_key("raw_bytes")) {
            result.insert("raw_bytes".to_owned(), json!(length));
        }
    }
    Ok(input)
}
