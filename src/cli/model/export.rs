//! `tandem model export`: a policy or an adapter as other programs read it.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use tandem_trainer::checkpoint::{CheckpointInfo, save_adapter, save_policy};
use tandem_trainer::weights::StoredType;

use super::PolicyArguments;

#[derive(clap::Args)]
pub struct ExportArguments {
    #[command(flatten)]
    policy: PolicyArguments,
    /// The new folder; nothing is ever overwritten.
    #[arg(long)]
    out: PathBuf,
    /// Fold the adapters into the weights and write the whole policy.
    #[arg(long, requires = "adapter")]
    merge: bool,
    /// The number format of the weights.
    #[arg(long, value_enum, default_value = "bf16")]
    dtype: Dtype,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Dtype {
    Bf16,
    F32,
}

pub fn run(arguments: &ExportArguments) -> Result<()> {
    let PolicyArguments { model, adapter, device, compute } = &arguments.policy;
    let out = &arguments.out;
    if out.exists() {
        bail!("{} exists already, and nothing is overwritten\nhelp: give a new folder", out.display());
    }
    if adapter.len() > 1 && !arguments.merge {
        bail!(
            "{} adapters were given, and only one can be written as an adapter of `{model}`\nhelp: add `--merge`, which writes the whole policy",
            adapter.len()
        );
    }
    let policy = crate::model::load(model, adapter, device, Some(compute.as_deref().unwrap_or("f32")))?;
    let stored = match arguments.dtype {
        Dtype::Bf16 => StoredType::BF16,
        Dtype::F32 => StoredType::F32,
    };
    let manifest = policy.manifest.as_ref();
    let info = CheckpointInfo {
        policy_version: manifest.map_or(0, |manifest| manifest.policy_version),
        harness_digest: manifest.and_then(|manifest| manifest.harness_digest.clone()),
        parent: None,
        base: manifest.map_or_else(|| model.clone(), |manifest| manifest.base.clone()),
    };
    let what = if adapter.is_empty() || arguments.merge {
        save_policy(out, &policy.model, &policy.tokenizer, stored, &info)
            .with_context(|| format!("the policy was not written to {}", out.display()))?;
        "a policy in the layout of Hugging Face"
    } else {
        save_adapter(out, &policy.model, stored, &info)
            .with_context(|| format!("the adapter was not written to {}", out.display()))?;
        "an adapter in the layout of PEFT"
    };
    println!("{}: {what}", out.display());
    Ok(())
}
