//! Which policy does a campaign have: one that is trained, or a script?

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use tandem_host::agent::EpisodeRecord;
use tandem_host::policy::Policy;
use tandem_host::task::Task;

use super::config::{CampaignConfig, UpdateConfig};
use super::reports::UpdateReport;
use super::runtime::TrainedPolicy;
use super::script::{self, ScriptRuntime};
use crate::model::Devices;

/// The policy of a running campaign.
pub enum PolicyRuntime {
    Trained(Box<TrainedPolicy>),
    Scripted(ScriptRuntime),
}

impl PolicyRuntime {
    /// Opens version `version` of the policy that the campaign names. A script plays the solutions of `tasks`.
    pub fn open<'a>(
        config: &CampaignConfig,
        devices: &Devices,
        checkpoints: &Path,
        version: u64,
        tasks: impl IntoIterator<Item = &'a Arc<Task>>,
    ) -> Result<Self> {
        let Some(file) = script::file_of(&config.policy.base) else {
            let trained = TrainedPolicy::open(config, devices, checkpoints, version)?;
            return Ok(Self::Trained(Box::new(trained)));
        };
        if config.method.trains() {
            bail!(
                "the policy `{}` is a script, which has nothing to train\nhelp: take `method = \"harness-only\"`, or another `policy.base`",
                config.policy.base
            );
        }
        Ok(Self::Scripted(ScriptRuntime::open(file, tasks, version)?))
    }

    /// The policy that episodes talk to.
    pub fn policy(&self) -> Arc<dyn Policy> {
        match self {
            Self::Trained(trained) => trained.policy(),
            Self::Scripted(scripted) => scripted.policy(),
        }
    }

    /// The version that was trained last.
    pub fn version(&self) -> u64 {
        match self {
            Self::Trained(trained) => trained.version(),
            Self::Scripted(scripted) => scripted.version(),
        }
    }

    /// As [`TrainedPolicy::update`].
    pub fn update(&mut self, config: &UpdateConfig, groups: &[Vec<EpisodeRecord>]) -> Result<UpdateReport> {
        match self {
            Self::Trained(trained) => trained.update(config, groups),
            Self::Scripted(_) => bail!("a script has nothing to train"),
        }
    }

    /// Loads a version of this run and serves it.
    pub fn activate(&mut self, version: u64) -> Result<()> {
        match self {
            Self::Trained(trained) => trained.activate(version),
            Self::Scripted(scripted) => {
                scripted.activate(version);
                Ok(())
            }
        }
    }
}
