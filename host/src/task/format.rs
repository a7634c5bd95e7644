//! What does `task.toml` say? The keys of Harbor's schema 1.4 that this host
//! uses; all others are read over, as Harbor does.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A task file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TaskFile {
    pub(super) schema_version: Option<String>,
    /// What older files say instead.
    pub(super) version: Option<String>,
    pub(super) task: About,
    pub(super) metadata: toml::Table,
    pub(super) agent: AgentPart,
    pub(super) verifier: VerifierPart,
    pub(super) environment: EnvironmentPart,
    pub(super) steps: Vec<StepPart>,
    pub(super) artifacts: Vec<Artifact>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct About {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
}

/// One of several steps.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StepPart {
    pub(super) name: String,
    pub(super) agent: AgentPart,
    pub(super) verifier: VerifierPart,
    pub(super) min_reward: Option<MinReward>,
    pub(super) artifacts: Vec<Artifact>,
    pub(super) healthcheck: Option<toml::Value>,
}

/// The rewards from which on the next step is begun.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum MinReward {
    One(f64),
    Each(BTreeMap<String, f64>),
}

/// Something that the task wants to be kept of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Artifact {
    Path(String),
    Full { source: String },
}

impl Artifact {
    fn source(&self) -> &str {
        match self {
            Self::Path(source) | Self::Full { source } => source,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AgentPart {
    pub(super) timeout_sec: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(super) struct VerifierPart {
    pub(super) timeout_sec: f64,
    pub(super) env: BTreeMap<String, String>,
    pub(super) environment_mode: Option<String>,
    pub(super) environment: Option<toml::Value>,
    pub(super) collect: Vec<toml::Value>,
}

impl Default for VerifierPart {
    fn default() -> Self {
        Self {
            timeout_sec: 600.0,
            env: BTreeMap::new(),
            environment_mode: None,
            environment: None,
            collect: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EnvironmentPart {
    pub(super) docker_image: Option<String>,
    pub(super) network_mode: Option<String>,
    /// What older files say instead of `network_mode`.
    pub(super) allow_internet: Option<bool>,
    pub(super) workdir: Option<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) mcp_servers: Vec<toml::Value>,
    pub(super) healthcheck: Option<toml::Value>,
}

impl TaskFile {
    /// What the file asks for and this host does not do, a sentence each; `has_files`
    /// where the task's files lie in its folder and not in an image.
    pub(super) fn unused(&self, has_files: bool) -> Vec<String> {
        let environment = &self.environment;
        let mut notes = Vec::new();
        let mut note = |asked: bool, text: String| {
            if asked {
                notes.push(text);
            }
        };
        if let Some(image) = environment.docker_image.as_ref().filter(|_| has_files) {
            note(true, format!("the image `{image}` is not used: commands see the programs of this machine"));
        }
        let old = if environment.allow_internet == Some(true) { "public" } else { "no-network" };
        let network = environment.network_mode.as_deref().unwrap_or(old);
        note(network != "no-network", format!("network mode `{network}` is not used: there is no network"));
        if let Some(folder) = &environment.workdir {
            note(
                has_files && folder != "/workspace",
                format!("work folder `{folder}` is not used: it is `/workspace`"),
            );
        }
        let place = environment.workdir.as_deref().unwrap_or("/workspace").trim_end_matches('/');
        let of_steps = self.steps.iter().flat_map(|step| &step.artifacts);
        for artifact in self.artifacts.iter().chain(of_steps) {
            let source = artifact.source();
            let below = |folder: &str| {
                source.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let carried = !source.starts_with('/') || below(place) || below("/workspace");
            note(
                !carried,
                format!("the artifact `{source}` is not kept: a patch carries the work folder alone"),
            );
        }
        note(
            self.steps.iter().any(|step| step.healthcheck.is_some()),
            "`healthcheck` of a step is not used".into(),
        );
        note(!environment.env.is_empty(), "`[environment.env]` is not used".into());
        note(!environment.mcp_servers.is_empty(), "`mcp_servers` is not used".into());
        note(environment.healthcheck.is_some(), "`healthcheck` is not used".into());
        note(!self.verifier.collect.is_empty(), "`[[verifier.collect]]` is not used".into());
        note(self.verifier.environment.is_some(), "`[verifier.environment]` is not used".into());
        note(
            self.verifier.environment_mode.as_deref() == Some("separate"),
            "`environment_mode = \"separate\"` is not used: tests run in a fresh copy of the task's files"
                .into(),
        );
        for (name, value) in &self.verifier.env {
            note(
                value.contains("${"),
                format!(
                    "`{name}` in `[verifier.env]` keeps its `${{…}}`: nothing of the host's environment is passed on"
                ),
            );
        }
        notes
    }
}
