//! How does what a user names become a policy in memory?

use std::path::PathBuf;

use anyhow::{Context, Result};
use tandem_trainer::checkpoint::{Policy, load_policy_as};
use tandem_trainer::model::ComputeType;

use super::{compute, parse_device, resolve};

/// Loads the policy that `base` stands for onto a device, with adapters on it: each one but the
/// last is folded into the weights before the next is put on. It computes in the number format that is
/// asked for, or in the one that suits the device; adapters are folded in f32.
pub fn load(base: &str, adapters: &[PathBuf], device: &str, format: Option<&str>) -> Result<Policy> {
    let device = parse_device(device)?;
    let format = compute(format, &device)?;
    let mut policy = load_policy_as(&resolve(base)?, None, &device, ComputeType::F32)?;
    for adapter in adapters {
        policy = policy
            .with_adapter(adapter)
            .with_context(|| format!("the adapter {} does not go on `{base}`", adapter.display()))?;
    }
    policy.model = policy.model.computing_in(format);
    Ok(policy)
}
