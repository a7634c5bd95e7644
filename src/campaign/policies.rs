//! Which policy does a campaign have: one that is trained, or a script?

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use tandem_host::policy::Policy;
use tandem_host::task::Task;

use super::config::CampaignConfig;
use super::reports::UpdateReport;
use super::runtime::TrainedPolicy;
use super::script::{self, ScriptRuntime};
use super::training::TrainingGroup;
use super::update_section::UpdateConfig;
use crate::model::Devices;

/// The policy of a campaign.
pub enum PolicyRuntime {
    Trained(Box<TrainedPolicy>),
    Scripted(ScriptRuntime),
}

impl PolicyRuntime {
    /// Opens version `version` of the policy of `config`, whose checkpoints lie in `checkpoints`. Writes nothing.
    pub fn open<'a>(
        config: &CampaignConfig,
        devices: &Devices,
        checkpoints: &Path,
        version: u64,
        tasks: impl IntoIterator<Item = &'a Arc<Task>>,
    ) -> Result<Self> {
        let folder = checkpoints.join(format!("v{version}"));
        if version > 0 && script::file_of(&config.policy.base).is_none() && !folder.exists() {
            // Another policy would take its place without a word.
            bail!(
                "the checkpoint {} is not there\nhelp: restore it from a backup, or take a version that the run still has",
                folder.display()
            );
        }
        Ok(match script::file_of(&config.policy.base) {
            Some(file) => Self::Scripted(ScriptRuntime::open(file, tasks, version)?),
            None => Self::Trained(Box::new(TrainedPolicy::open(config, devices, checkpoints, version)?)),
        })
    }

    /// The policy that episodes talk to.
    pub fn policy(&self) -> Arc<dyn Policy> {
        match self {
            Self::Trained(trained) => trained.policy(),
            Self::Scripted(scripted) => scripted.policy(),
        }
    }

    /// The version that was trained last, or that was activated.
    pub fn version(&self) -> u64 {
        match self {
            Self::Trained(trained) => trained.version(),
            Self::Scripted(scripted) => scripted.version(),
        }
    }

    /// Writes down what the run begins with, where that is not there yet.
    pub fn keep_first(&self) -> Result<()> {
        match self {
            Self::Trained(trained) => trained.keep_first(),
            Self::Scripted(_) => Ok(()),
        }
    }

    /// Trains on `groups` and serves the new version.
    pub fn update(&mut self, config: &UpdateConfig, groups: &[TrainingGroup]) -> Result<UpdateReport> {
        match self {
            Self::Trained(trained) => trained.update(config, groups),
            Self::Scripted(scripted) => scripted.update(config, groups),
        }
    }

    /// Serves an earlier version of this run.
    pub fn activate(&mut self, version: u64) -> Result<()> {
        match self {
            Self::Trained(trained) => trained.activate(version),
            Self::Scripted(scripted) => {
                scripted.activate(version);
                Ok(())
            }
        }
    }

    /// Whether there are weights that a pair can ship.
    pub fn can_be_packed(&self) -> bool {
        matches!(self, Self::Trained(_))
    }
}
