//! How does what a user names become a policy in memory?

use std::path::PathBuf;

use anyhow::{Context, Result};
use tandem_trainer::checkpoint::{Policy, load_policy};

use super::{parse_device, resolve};

/// Loads the policy that `base` stands for onto a device, with adapters on it: each one but the
/// last is folded into the weights before the next is put on.
pub fn load(base: &str, adapters: &[PathBuf], device: &str) -> Result<Policy> {
    let device = parse_device(device)?;
    let mut policy = load_policy(&resolve(base)?, None, &device)?;
    for adapter in adapters {
        policy = policy
            .with_adapter(adapter)
            .with_context(|| format!("the adapter {} does not go on `{base}`", adapter.display()))?;
    }
    Ok(policy)
}
