//! A campaign without a model: what does a script say in place of the policy?
//!
//! `policy.base = "script:FILE"` plays a TOML file. Each episode follows the first rule that fits what it
//! has read so far; a draw from its seed says whether it plays the reference solution of its task. So a
//! campaign can be tried out, with its real tasks, teachers, harnesses and gates, before a model is there:
//! the same seeds give the same episodes, and the policy "learns" as its rules for later versions say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use serde::Deserialize;
use tandem_host::agent::SENTINEL;
use tandem_host::policy::{Message, OpenSession, Policy, PolicyError, Reply, Session};
use tandem_host::task::{Reference, Task};

use super::reports::UpdateReport;
use super::training::{Chosen, TrainingGroup, choose_batches, plain_context};
use super::update_section::UpdateConfig;
use crate::evolve::Random;

const PREFIX: &str = "script:";
/// What records call it.
const NAME: &str = "script";

/// The file that `policy.base` names, where it is a script.
pub fn file_of(base: &str) -> Option<&Path> {
    base.strip_prefix(PREFIX).map(Path::new)
}

/// `policy.base` of a script's file.
pub fn base_of(file: &Path) -> String {
    format!("{PREFIX}{}", file.display())
}

/// The file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Script {
    /// The first that fits is followed.
    rules: Vec<Rule>,
    /// Files with replies to teachers' requests, relative to the script: the first whose plugin the request
    /// does not name is said.
    proposals: Vec<PathBuf>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Rule {
    /// Tasks that it is for; all, if there are none.
    tasks: Vec<String>,
    /// What the episode must have read: a skill, the text of a hook.
    when: String,
    /// The first version of the policy that it is for.
    from_version: u64,
    /// Share of the episodes that play the reference solution.
    chance: f64,
    /// What the others reply, one after the other, the last again and again. Unless given, they hand in
    /// without having changed anything.
    otherwise: Vec<String>,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            tasks: Vec::new(),
            when: String::new(),
            from_version: 0,
            chance: 0.0,
            otherwise: vec![command(&format!("echo {SENTINEL}"))],
        }
    }
}

fn command(text: &str) -> String {
    format!("```bash\n{text}\n```")
}

/// What all sessions share.
struct Played {
    script: Script,
    proposals: Vec<String>,
    /// Replies that solve a task.
    solutions: BTreeMap<String, Vec<String>>,
    version: AtomicU64,
}

/// A policy that plays a script, with a version that grows at each update.
pub struct ScriptRuntime {
    policy: Arc<ScriptPolicy>,
}

impl ScriptRuntime {
    /// Reads `file`, for `tasks`.
    pub fn open<'a>(
        file: &Path,
        tasks: impl IntoIterator<Item = &'a Arc<Task>>,
        version: u64,
    ) -> Result<Self> {
        let name = file.display();
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("the script {name} cannot be read\nhelp: check `policy.base`"))?;
        let script: Script = toml::from_str(&text)
            .with_context(|| format!("{name} is not a script\nhelp: docs/campaign.md shows one"))?;
        if let Some(rule) = script.rules.iter().find(|rule| !(0.0..=1.0).contains(&rule.chance)) {
            bail!("a rule of {name} has the chance {}, but must lie in 0 to 1", rule.chance);
        }
        if script.rules.iter().any(|rule| rule.otherwise.is_empty()) {
            bail!("a rule of {name} has an empty `otherwise`\nhelp: leave it out to hand in nothing");
        }
        let folder = file.parent().unwrap_or(Path::new("."));
        let read = |path: &PathBuf| {
            let path = folder.join(path);
            std::fs::read_to_string(&path)
                .with_context(|| format!("the proposal {} of {name} cannot be read", path.display()))
        };
        let proposals = script.proposals.iter().map(read).collect::<Result<_>>()?;
        let mut solutions = BTreeMap::new();
        for task in tasks {
            let patch = match task.reference()? {
                Some(Reference::Patch(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
                _ => bail!(
                    "task {} has no `solution/patch.diff`, so a script cannot play its solution\nhelp: take other tasks, or a model",
                    task.name()
                ),
            };
            let apply = command(&format!("git apply - <<'END_OF_PATCH'\n{}\nEND_OF_PATCH", patch.trim_end()));
            // New files are in no `git diff` before they are named.
            let hand_in = command(&format!("git add -N . && echo {SENTINEL} && git diff"));
            solutions.insert(task.name().to_owned(), vec![apply, hand_in]);
        }
        let played = Played { script, proposals, solutions, version: AtomicU64::new(version) };
        Ok(Self { policy: Arc::new(ScriptPolicy(Arc::new(played))) })
    }

    pub fn policy(&self) -> Arc<dyn Policy> {
        self.policy.clone()
    }

    pub fn version(&self) -> u64 {
        self.policy.version()
    }

    /// Serves `version` from now on.
    pub fn activate(&self, version: u64) {
        self.policy.0.version.store(version, Ordering::SeqCst);
    }

    /// Chooses what would be trained on, exactly as for a model, and grows the version.
    pub fn update(&self, config: &UpdateConfig, groups: &[TrainingGroup]) -> Result<UpdateReport> {
        let Chosen { mut report, batches } = choose_batches(config, groups, self.version(), &plain_context)?;
        if !batches.is_empty() {
            report.version += 1;
            self.activate(report.version);
        }
        Ok(report)
    }
}

struct ScriptPolicy(Arc<Played>);

#[async_trait]
impl Policy for ScriptPolicy {
    async fn open(&self, request: OpenSession) -> Result<Box<dyn Session>, PolicyError> {
        let draw = Random::new(request.seed, 0).uniform();
        let turn = request.after;
        Ok(Box::new(Playing { played: self.0.clone(), request, draw, seen: String::new(), rule: None, turn }))
    }

    fn version(&self) -> u64 {
        self.0.version.load(Ordering::SeqCst)
    }

    fn name(&self) -> String {
        NAME.into()
    }
}

struct Playing {
    played: Arc<Played>,
    request: OpenSession,
    /// Uniform in (0, 1), of the seed.
    draw: f64,
    /// All that the episode has read.
    seen: String,
    rule: Option<usize>,
    /// Replies under this rule.
    turn: usize,
}

#[async_trait]
impl Session for Playing {
    async fn reply(&mut self, new: &[Message]) -> Result<Reply, PolicyError> {
        let prompt: String = new.iter().map(Message::text).collect();
        self.seen.push_str(&prompt);
        let version = self.played.version.load(Ordering::SeqCst);
        let text = if self.request.task.is_empty() { self.proposal()? } else { self.next(version)? };
        // The bytes of the text stand for tokens; a script is certain of what it says.
        let ids: Vec<u32> = text.bytes().map(u32::from).collect();
        Ok(Reply {
            prompt_ids: prompt.bytes().map(u32::from).collect(),
            logprobs: vec![0.0; ids.len()],
            ids,
            policy_version: version,
            text,
            ..Reply::default()
        })
    }
}

impl Playing {
    fn next(&mut self, version: u64) -> Result<String, PolicyError> {
        let task = &self.request.task;
        let fits = |rule: &Rule| {
            (rule.tasks.is_empty() || rule.tasks.contains(task))
                && self.seen.contains(&rule.when)
                && version >= rule.from_version
        };
        let rules = &self.played.script.rules;
        let found = rules.iter().position(fits);
        if found != self.rule {
            (self.rule, self.turn) = (found, 0);
        }
        self.turn += 1;
        let solves = found.is_some_and(|at| self.draw < rules[at].chance);
        let usual = Rule::default();
        let replies = match (solves, self.played.solutions.get(task), found) {
            (true, Some(solution), _) => solution,
            (_, _, Some(at)) => &rules[at].otherwise,
            (_, _, None) => &usual.otherwise,
        };
        let at = self.turn.min(replies.len()).saturating_sub(1);
        replies.get(at).cloned().ok_or_else(|| failed(format!("it has no reply for `{task}`")))
    }

    /// The reply to a teacher's request.
    fn proposal(&self) -> Result<String, PolicyError> {
        let named = |text: &str| {
            let name = text.split("name = \"").nth(1)?.split('"').next()?;
            Some(name.to_owned())
        };
        let new = |text: &&String| named(text).is_none_or(|name| !self.seen.contains(&name));
        let proposals = &self.played.proposals;
        let found = proposals.iter().find(new).or(proposals.last());
        found.cloned().ok_or_else(|| failed("its script has no `proposals`".into()))
    }
}

fn failed(reason: String) -> PolicyError {
    PolicyError::Failed { policy: NAME.into(), reason }
}
