//! How does a task folder become a task?

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::OnceCell;

use super::cache::ResultCache;
use super::dockerfile;
use super::error::TaskError;
use super::format::{MinReward, TaskFile};
use super::grading::{GRADING_FILE, Grading, Rule};
use super::quarantine::Quarantine;
use super::reward;
use super::steps::Step;
use crate::store::Digest;
use crate::workspace::{Folder, ImageFiles, Snapshot, WorkspaceConfig};

/// One problem: an instruction, files to work on, and tests that decide.
#[derive(Debug)]
pub struct Task {
    name: String,
    folder: PathBuf,
    instruction: String,
    file: TaskFile,
    notes: Vec<String>,
    grading: Option<Grading>,
    /// Which step of its folder it is, where that has several.
    step: Option<Step>,
    snapshot: OnceCell<Arc<Snapshot>>,
    tests: OnceCell<Folder>,
    /// Of what it was when it was first asked for.
    pub(super) fingerprint: OnceLock<Digest>,
    verdicts: OnceLock<ResultCache>,
}

/// The known solution of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// `solution/patch.diff`.
    Patch(Vec<u8>),
    /// `solution/solve.sh`, run in a workspace.
    Script(PathBuf),
}

impl Task {
    /// Reads a task folder. Its files are copied at the first use, once.
    ///
    /// # Errors
    /// A folder with a part missing, a `task.toml` that cannot be read, and a task of
    /// several steps, which [`Self::load_all`] reads.
    pub fn load(folder: &Path) -> Result<Self, TaskError> {
        let file = read_task_file(folder)?;
        match file.steps.is_empty() {
            true => Self::read(folder, file, None),
            false => Err(TaskError::Unsupported {
                task: name_of(folder, &file),
                what: "several steps",
                help: "read it as a task set: each step is a task of it",
            }),
        }
    }

    /// Reads a task folder: one task, or one for each of its steps.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_all(folder: &Path) -> Result<Vec<Self>, TaskError> {
        let file = read_task_file(folder)?;
        let mut tasks = Vec::new();
        let mut folders: Vec<PathBuf> = Vec::new();
        for part in &file.steps {
            let bad = |reason: String| TaskError::BadFile { file: folder.join("task.toml"), reason };
            let plain = Path::new(&part.name).components().count() == 1 && !part.name.contains(['/', '\\']);
            if !plain || part.name.starts_with('.') {
                return Err(bad(format!("`{}` is no name of a step", part.name)));
            }
            let own = folder.join("steps").join(&part.name);
            if folders.contains(&own) {
                return Err(bad(format!("two steps are named `{}`", part.name)));
            }
            folders.insert(0, own);
            let step = Step { part: part.clone(), folders: folders.clone() };
            tasks.push(Self::read(folder, file.clone(), Some(step))?);
        }
        if tasks.is_empty() {
            tasks.push(Self::read(folder, file, None)?);
        }
        Ok(tasks)
    }

    fn read(folder: &Path, mut file: TaskFile, step: Option<Step>) -> Result<Self, TaskError> {
        let own = step.as_ref().map_or(folder, Step::folder);
        let missing = |missing, help| TaskError::Missing { folder: own.to_owned(), missing, help };
        let instruction_path = own.join("instruction.md");
        if !instruction_path.is_file() {
            return Err(missing("instruction.md", "write there what the agent is asked to do"));
        }
        let instruction = fs::read_to_string(&instruction_path)
            .map_err(|source| TaskError::Unreadable { path: instruction_path, source })?;
        let instruction = without_canary(&instruction).trim().to_owned();
        if ![own, folder].iter().any(|folder| folder.join("tests/test.sh").is_file()) {
            return Err(missing(
                "tests/test.sh",
                "write a script that leaves 1 or 0 in `/logs/verifier/reward.txt`",
            ));
        }
        let has_files = folder.join("environment/workspace").is_dir();
        if !has_files && file.environment.docker_image.is_none() {
            return Err(missing(
                "environment/workspace",
                "put the files that the agent works on there; images are not built from a Dockerfile",
            ));
        }
        let mut name = name_of(folder, &file);
        if let Some(step) = &step {
            if !has_files {
                return Err(TaskError::Unsupported {
                    task: name,
                    what: "several steps in an image",
                    help: "make each step a task of its own, or put the files into `environment/workspace`",
                });
            }
            name = format!("{name}/{}", step.part.name);
            file.agent.timeout_sec = step.part.agent.timeout_sec.or(file.agent.timeout_sec);
            file.verifier.timeout_sec = step.part.verifier.timeout_sec;
            file.verifier.env.extend(step.part.verifier.env.clone());
        }
        let grading = read_grading(folder)?;
        let mut notes = file.unused(has_files);
        if let Ok(text) = fs::read_to_string(folder.join("environment/Dockerfile")) {
            notes.extend(dockerfile::unused(&text));
        }
        Ok(Self {
            name,
            folder: folder.to_owned(),
            instruction,
            file,
            notes,
            grading,
            step,
            snapshot: OnceCell::new(),
            tests: OnceCell::new(),
            fingerprint: OnceLock::new(),
            verdicts: OnceLock::new(),
        })
    }

    /// `name` under `[task]`, or the folder's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder it was read from.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps the verdicts of this task, and takes those that are kept: a patch is judged
    /// once. For tasks whose verdict depends on the patch alone; `tandem tasks validate`
    /// finds the others. The first place that is named holds.
    pub fn keep_verdicts(&self, place: ResultCache) {
        let _ = self.verdicts.set(place);
    }

    pub(super) fn kept_verdicts(&self) -> Option<&ResultCache> {
        self.verdicts.get()
    }

    /// What the agent is asked to do.
    pub fn instruction(&self) -> &str {
        &self.instruction
    }

    /// `description` under `[task]`.
    pub fn description(&self) -> Option<&str> {
        self.file.task.description.as_deref()
    }

    /// `difficulty` under `[metadata]`.
    pub fn difficulty(&self) -> Option<&str> {
        self.file.metadata.get("difficulty").and_then(toml::Value::as_str)
    }

    /// A text under `[metadata]`, such as `repo`.
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.file.metadata.get(key).and_then(toml::Value::as_str)
    }

    /// Wall-clock time that an agent may take, if the task limits it.
    pub fn agent_timeout(&self) -> Option<Duration> {
        self.file.agent.timeout_sec.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }

    /// Wall-clock seconds that the tests may take.
    pub fn verifier_seconds(&self) -> f64 {
        self.file.verifier.timeout_sec
    }

    /// Variables that the tests see.
    pub fn verifier_env(&self) -> impl Iterator<Item = (&String, &String)> {
        self.file.verifier.env.iter()
    }

    /// What the task asks for and this host does not do, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How the output of its tests is judged; a task without it leaves a reward.
    pub fn grading(&self) -> Option<&Grading> {
        self.grading.as_ref()
    }

    /// The name that predictions are made under: the data set's own, else [`Self::name`].
    pub fn instance_id(&self) -> &str {
        self.grading.as_ref().map_or(&self.name, |grading| &grading.instance_id)
    }

    /// The container image that its files lie in, where they do not lie in the folder.
    pub fn image(&self) -> Option<&str> {
        let has_files = self.folder.join("environment/workspace").is_dir();
        self.file.environment.docker_image.as_deref().filter(|_| !has_files)
    }

    /// The folder of the image that the agent works in.
    pub fn workdir(&self) -> Option<&str> {
        self.file.environment.workdir.as_deref()
    }

    /// The name of the step that it is, where its folder has several.
    pub fn step(&self) -> Option<&str> {
        self.step.as_ref().map(|step| step.part.name.as_str())
    }

    /// Whether rewards mean that it is solved: 1 or more, or what a step asks for before
    /// the next is begun.
    pub(super) fn is_enough(&self, rewards: &BTreeMap<String, f64>) -> bool {
        let least = |name: &str, least: f64| rewards.get(name).is_some_and(|reward| *reward >= least);
        match self.step.as_ref().and_then(|step| step.part.min_reward.as_ref()) {
            None => reward::deciding(rewards) >= 1.0,
            Some(MinReward::One(needed)) => least("reward", *needed),
            Some(MinReward::Each(needed)) => needed.iter().all(|(name, needed)| least(name, *needed)),
        }
    }

    /// A script that makes the agent's files from those of the image, once, before the
    /// base commit: it puts the fault in.
    pub fn setup_script(&self) -> Option<PathBuf> {
        Some(self.folder.join("environment/setup.sh")).filter(|path| path.is_file())
    }

    /// The known solution, if the folder has one.
    pub fn reference(&self) -> Result<Option<Reference>, TaskError> {
        let own = self.step.as_ref().map_or(self.folder.as_path(), Step::folder);
        let patch = own.join("solution/patch.diff");
        if patch.is_file() {
            let bytes = fs::read(&patch).map_err(|source| TaskError::Unreadable { path: patch, source })?;
            return Ok(Some(Reference::Patch(bytes)));
        }
        let script = own.join("solution/solve.sh");
        Ok(script.is_file().then_some(Reference::Script(script)))
    }

    /// The files that every workspace of this task starts from.
    pub async fn snapshot(&self, config: &WorkspaceConfig) -> Result<Arc<Snapshot>, TaskError> {
        let take = async || {
            let taken = match self.image() {
                Some(image) => self.take_from_image(image, config).await,
                None => Snapshot::take(&self.folder.join("environment/workspace"), config).await,
            };
            let taken = taken.map_err(|source| TaskError::Workspace { task: self.name.clone(), source })?;
            match &self.step {
                Some(step) => self.staged(step, taken, config).await.map(Arc::new),
                None => Ok(Arc::new(taken)),
            }
        };
        self.snapshot.get_or_try_init(take).await.cloned()
    }

    async fn take_from_image(
        &self,
        image: &str,
        config: &WorkspaceConfig,
    ) -> Result<Snapshot, crate::workspace::Error> {
        let setup = self.setup_script();
        let mut commits = BTreeSet::new();
        for script in [Some(self.folder.join("tests/test.sh")), setup.clone()].into_iter().flatten() {
            let text =
                fs::read_to_string(&script).map_err(crate::workspace::Error::io("reading", &script))?;
            commits.extend(commits_in(&text));
        }
        let from = ImageFiles {
            image,
            folder: self.workdir(),
            setup: setup.as_deref().and_then(Path::parent),
            commits: &commits.into_iter().collect::<Vec<_>>(),
        };
        Snapshot::take_from_image(&from, config).await
    }

    /// A copy of the tests that commands may read.
    pub(super) async fn tests(&self, config: &WorkspaceConfig) -> Result<&Folder, crate::workspace::Error> {
        let step = self.step.as_ref().map(|step| step.folder().join("tests"));
        let folders = [Some(self.folder.join("tests")), step];
        let folders: Vec<PathBuf> = folders.into_iter().flatten().filter(|folder| folder.is_dir()).collect();
        self.tests.get_or_try_init(async || Folder::copy_of_all(&folders, config)).await
    }
}

/// Tasks, sorted by name.
#[derive(Clone, Debug)]
pub struct TaskSet {
    tasks: Vec<Arc<Task>>,
    quarantine: Quarantine,
}

impl TaskSet {
    /// Reads every task folder in `folder`, or `folder` itself if it is one. Tasks in
    /// quarantine are left out.
    ///
    /// # Errors
    /// The first task that cannot be read, no task at all, or two of one name.
    pub fn load(folder: &Path) -> Result<Self, TaskError> {
        let quarantine = Quarantine::of(folder)?;
        let mut tasks: Vec<Arc<Task>> = Vec::new();
        for folder in task_folders(folder)? {
            let found = Task::load_all(&folder)?.into_iter();
            tasks.extend(found.filter(|task| !quarantine.tasks.contains_key(&task.name)).map(Arc::new));
        }
        tasks.sort_by(|left, right| left.name.cmp(&right.name));
        for pair in tasks.windows(2) {
            if pair[0].name == pair[1].name {
                let (first, second) = (pair[0].folder.clone(), pair[1].folder.clone());
                return Err(TaskError::SameName { name: pair[0].name.clone(), first, second });
            }
        }
        if tasks.is_empty() {
            return Err(TaskError::AllQuarantined { folder: folder.to_owned() });
        }
        Ok(Self { tasks, quarantine })
    }

    /// The tasks, sorted by name.
    pub fn tasks(&self) -> &[Arc<Task>] {
        &self.tasks
    }

    /// The tasks that were left out.
    pub fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }

    /// The task of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<Task>> {
        self.tasks.iter().find(|task| task.name == name)
    }
}

/// The folders in `folder` that hold tasks, or `folder` itself if it is one, sorted.
pub(super) fn task_folders(folder: &Path) -> Result<Vec<PathBuf>, TaskError> {
    if folder.join("task.toml").is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let unreadable = |source| TaskError::Unreadable { path: folder.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        // Any part of a task makes a folder one, so that a forgotten `task.toml` is told.
        let parts = ["task.toml", "instruction.md", "tests/test.sh", "environment/workspace"];
        if parts.iter().any(|part| path.join(part).exists()) {
            found.push(path);
        }
    }
    if found.is_empty() {
        return Err(TaskError::NoTasks { folder: folder.to_owned() });
    }
    found.sort();
    Ok(found)
}

/// `name` under `[task]`, or the folder's name.
fn name_of(folder: &Path, file: &TaskFile) -> String {
    let own = || folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned();
    file.task.name.clone().unwrap_or_else(own)
}

/// An instruction without the lines at its head that only mark where a text came from.
fn without_canary(text: &str) -> &str {
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n') {
        let (bare, lower) = (line.trim(), line.to_ascii_lowercase());
        let comment = (bare.starts_with("<!--") && bare.ends_with("-->")) || bare.starts_with('#');
        if !(comment && lower.contains("canary")) {
            break;
        }
        rest = after;
    }
    rest
}

/// The commits that a script names, by their whole hashes.
fn commits_in(script: &str) -> impl Iterator<Item = String> {
    let words = script.split(|c: char| !c.is_ascii_alphanumeric());
    let hash = |word: &&str| word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    words.filter(hash).map(str::to_owned)
}

fn read_grading(folder: &Path) -> Result<Option<Grading>, TaskError> {
    let path = folder.join("tests").join(GRADING_FILE);
    if !path.is_file() {
        return Ok(None);
    }
    let text =
        fs::read_to_string(&path).map_err(|source| TaskError::Unreadable { path: path.clone(), source })?;
    let grading: Grading = serde_json::from_str(&text)
        .map_err(|error| TaskError::BadGrading { file: path.clone(), reason: error.to_string() })?;
    let parser = match &grading.rule {
        Rule::SwebenchLog { log_parser, .. } | Rule::AllPassed { log_parser, .. } => Some(log_parser),
        Rule::ProOutput { .. } | Rule::ExactSummary { .. } => None,
    };
    if let Some(parser) = parser
        && !crate::swebench::has_parser(parser)
    {
        return Err(TaskError::BadGrading { file: path, reason: format!("there is no parser `{parser}`") });
    }
    Ok(Some(grading))
}

fn read_task_file(folder: &Path) -> Result<TaskFile, TaskError> {
    let path = folder.join("task.toml");
    if !path.is_file() {
        return Err(TaskError::Missing {
            folder: folder.to_owned(),
            missing: "task.toml",
            help: "start it with `schema_version = \"1.4\"`",
        });
    }
    let bad = |reason: String| TaskError::BadFile { file: path.clone(), reason };
    let text =
        fs::read_to_string(&path).map_err(|source| TaskError::Unreadable { path: path.clone(), source })?;
    let file: TaskFile = toml::from_str(&text).map_err(|error| bad(error.to_string().trim().to_owned()))?;
    if let Some(version) = file.schema_version.as_ref().or(file.version.as_ref())
        && version.split('.').next() != Some("1")
    {
        return Err(bad(format!("schema version `{version}` is not 1.x")));
    }
    for verifier in std::iter::once(&file.verifier).chain(file.steps.iter().map(|step| &step.verifier)) {
        let seconds = verifier.timeout_sec;
        if !(seconds.is_finite() && seconds > 0.0 && seconds <= 86_400.0) {
            return Err(bad(format!(
                "`timeout_sec` under `[verifier]` is {seconds}; it is between 0 and 86400"
            )));
        }
    }
    Ok(file)
}
