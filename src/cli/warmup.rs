//! `tandem warmup`: supervised steps on demonstrations.

use std::path::PathBuf;

use anyhow::Result;
use tandem_trainer::learner::{LearnerConfig, WarmupConfig};
use tandem_trainer::model::LoraConfig;

use super::Exit;
use crate::campaign::{Warmup, run_warmup};
use crate::view::Progress;

#[derive(clap::Args)]
pub struct WarmupArguments {
    /// A name of `tandem model list`, a folder in Hugging Face layout, or a GGUF file.
    #[arg(long, default_value = "smollm2-135m")]
    base: String,
    /// Continue this adapter.
    #[arg(long)]
    adapter: Option<PathBuf>,
    /// Demonstrations as `tandem demos` writes them.
    #[arg(long)]
    demos: PathBuf,
    /// The folder of the new adapter.
    #[arg(long)]
    out: PathBuf,
    #[arg(long, default_value = "cpu")]
    device: String,
    /// `f32` or `bf16`; unless given, f32 on the CPU and bf16 on a GPU.
    #[arg(long)]
    compute: Option<String>,
    #[arg(long, default_value_t = 8)]
    rank: usize,
    #[arg(long, default_value_t = 16.0)]
    alpha: f32,
    /// Layers below this one are frozen.
    #[arg(long, default_value_t = 0)]
    first_layer: usize,
    #[arg(long, default_value_t = 1)]
    epochs: usize,
    /// Conversations of one step.
    #[arg(long, default_value_t = 16)]
    batch: usize,
    #[arg(long, default_value_t = 1e-3)]
    learning_rate: f64,
    /// Steps over which the learning rate rises to its value.
    #[arg(long, default_value_t = 10)]
    warm_steps: u64,
    #[arg(long, default_value_t = 4096)]
    micro_batch_tokens: usize,
    /// Pad sequences to a multiple of this; 128 keeps kernel tuning short on CUDA.
    #[arg(long, default_value_t = 1)]
    pad_to_multiple_of: usize,
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Longer conversations are left out.
    #[arg(long, default_value_t = 1024)]
    max_tokens: usize,
}

pub fn run(arguments: WarmupArguments) -> Result<Exit> {
    let warmup = Warmup {
        base: arguments.base,
        adapter: arguments.adapter,
        demonstrations: arguments.demos,
        out: arguments.out,
        device: arguments.device,
        compute: arguments.compute,
        lora: LoraConfig { rank: arguments.rank, alpha: arguments.alpha, first_layer: arguments.first_layer },
        config: WarmupConfig {
            epochs: arguments.epochs,
            batch: arguments.batch,
            max_tokens: arguments.max_tokens,
            warmup_steps: arguments.warm_steps,
            seed: arguments.seed,
            learner: LearnerConfig {
                learning_rate: arguments.learning_rate,
                micro_batch_tokens: arguments.micro_batch_tokens,
                pad_to_multiple_of: arguments.pad_to_multiple_of,
                ..LearnerConfig::default()
            },
        },
    };
    println!("{}", run_warmup(&warmup, &Progress::new())?);
    Ok(Exit::Done)
}
