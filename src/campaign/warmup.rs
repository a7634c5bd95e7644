//! The supervised warm-up: a policy learns the protocol from demonstrations
//! before it is trained on outcomes.

use std::path::PathBuf;

use anyhow::{Context, Result};
use tandem_trainer::checkpoint::{CheckpointInfo, load_policy_as, save_adapter};
use tandem_trainer::learner::{WarmupConfig, warm_up};
use tandem_trainer::model::LoraConfig;
use tandem_trainer::tokenizer::ChatMessage;

use super::local_policy::chat_role;
use super::{demos, device, models};
use crate::view::Progress;

/// What to train, on what.
pub struct Warmup {
    pub base: String,
    /// Continue this adapter instead of starting one.
    pub adapter: Option<PathBuf>,
    pub demonstrations: PathBuf,
    /// The folder of the new adapter; it must not exist.
    pub out: PathBuf,
    pub device: String,
    /// `f32` or `bf16`; none for what suits the device.
    pub compute: Option<String>,
    /// The new adapter; not read when one is continued.
    pub lora: LoraConfig,
    pub config: WarmupConfig,
}

/// Runs the warm-up and writes the adapter. Returns one sentence for people.
pub fn run(warmup: &Warmup, progress: &Progress) -> Result<String> {
    let device = device::parse(&warmup.device)?;
    let conversations = demos::read(&warmup.demonstrations)?
        .into_iter()
        .map(|demonstration| {
            let messages = demonstration.messages.into_iter();
            messages.map(|message| ChatMessage::new(chat_role(message.role), message.content)).collect()
        })
        .collect::<Vec<_>>();
    let compute = device::compute(warmup.compute.as_deref(), &device)?;
    let base = models::resolve(&warmup.base)?;
    let loaded = load_policy_as(&base, warmup.adapter.as_deref(), &device, compute)?;
    let model = match warmup.adapter {
        Some(_) => loaded.model,
        None => loaded.model.with_lora(warmup.lora.clone(), warmup.config.seed),
    };
    let bar = progress.start("warm-up steps", 0);
    let (model, report) = warm_up(model, &loaded.chat, &conversations, &warmup.config, |steps, report| {
        bar.set_length(steps);
        if let Some(reason) = &report.skipped {
            progress.say(&format!("a warm-up step was skipped: {reason}"));
        }
        bar.step(&format!("loss {:.3}", report.loss));
    })?;
    bar.finish();
    let info =
        CheckpointInfo { policy_version: 0, harness_digest: None, parent: None, base: warmup.base.clone() };
    save_adapter(&warmup.out, &model, &info)
        .with_context(|| format!("the adapter cannot be written to {}", warmup.out.display()))?;
    Ok(format!(
        "{} demonstrations ({} tokens, {} left out as too long), {} steps in {:.0} s: loss {:.3} at the start, {:.3} at the end; adapter written to {}",
        report.conversations,
        report.tokens,
        report.left_out,
        report.steps,
        report.seconds,
        report.first_loss,
        report.last_loss,
        warmup.out.display()
    ))
}
