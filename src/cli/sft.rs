//! `tandem sft`: supervised fine-tuning on conversations, or on prompts with completions.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use tandem_host::rollout::Cancel;
use tandem_host::store::Digest;
use tandem_trainer::learner::{LearnerConfig, Recompute, SftConfig};
use tandem_trainer::model::{LoraConfig, LoraTargets};
use tandem_trainer::optimizer::Decay;

use super::Exit;
use super::train::stop_on_signal;
use crate::model::{Devices, Sft, SftSettings, Trained, run_sft};
use crate::view::Progress;

#[derive(clap::Args)]
pub struct SftArguments {
    /// A known name, a GGUF file, a Hugging Face folder, or a hub id `owner/name[@revision]`.
    #[arg(long, default_value = "smollm2-135m")]
    base: String,
    /// Train this adapter further; given more than once, the earlier ones become part of the weights.
    #[arg(long, value_name = "FOLDER")]
    adapter: Vec<PathBuf>,
    /// JSONL: `messages` on each line, as `tandem demos` writes them, or `prompt` and `completion`.
    #[arg(long)]
    data: PathBuf,
    /// The folder of the run: `adapter/` or `policy/` at the end, `steps.jsonl`, `tensorboard/`, state.
    #[arg(long)]
    out: PathBuf,
    /// Go on with a run that was stopped.
    #[arg(long)]
    resume: bool,
    /// `cpu`, or `cuda:N` in a program built for it; several, such as `cuda:0,cuda:1`, share each step.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// How several devices add up gradients, `nccl` or `host`; unless given, NCCL between GPUs.
    #[arg(long)]
    exchange: Option<String>,
    /// `f32` or `bf16`; unless given, f32 on the CPU and bf16 on a GPU.
    #[arg(long)]
    compute: Option<String>,
    /// Train all weights instead of an adapter.
    #[arg(long, conflicts_with_all = ["rank", "alpha", "first_layer", "targets"])]
    full: bool,
    /// Width of the adapter's two factors.
    #[arg(long, default_value_t = 8)]
    rank: usize,
    /// The adapter counts `alpha` / `rank` times.
    #[arg(long, default_value_t = 16.0)]
    alpha: f32,
    /// Layers below this one are frozen.
    #[arg(long, default_value_t = 0)]
    first_layer: usize,
    /// Linear maps that get an adapter, such as `q_proj,v_proj`, or `all-linear` with experts and routers; unless
    /// given, all but those of experts and routers.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    targets: Vec<String>,
    /// Times that every example is learnt.
    #[arg(long, default_value_t = 1)]
    epochs: usize,
    /// Examples of one step.
    #[arg(long, default_value_t = 16)]
    batch: usize,
    /// Of an adapter 1e-3 by default, of all weights 2e-5.
    #[arg(long, allow_negative_numbers = true)]
    learning_rate: Option<f64>,
    /// Steps over which the learning rate rises to its value.
    #[arg(long, default_value_t = 10)]
    warm_steps: u64,
    /// What the learning rate does after that.
    #[arg(long, value_enum, default_value = "linear")]
    schedule: ScheduleArgument,
    /// Share of the examples that is kept for validation.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, conflicts_with = "validation_data")]
    validation: f64,
    /// Examples to validate with, in a file of their own.
    #[arg(long, value_name = "FILE")]
    validation_data: Option<PathBuf>,
    /// Keep state to go on from after this many steps; 0 for once an epoch.
    #[arg(long, default_value_t = 0)]
    save_every: usize,
    /// Tokens, with padding, that go through the policy at once.
    #[arg(long, default_value_t = 4096)]
    micro_batch_tokens: usize,
    /// Pad sequences to a multiple of this; 0 is 256 on CUDA, where each new length means tuning kernels for it, and
    /// 1 on the CPU.
    #[arg(long, default_value_t = 0)]
    pad_to_multiple_of: usize,
    /// Compute the inside of layers again in the backward pass instead of keeping it: less memory, more time.
    #[arg(long, value_enum, default_value = "none")]
    recompute: RecomputeArgument,
    /// Of the adapter's first weights, the order of the examples and the draw of `--validation`.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Longer examples are left out.
    #[arg(long, default_value_t = 1024)]
    max_tokens: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ScheduleArgument {
    Constant,
    Linear,
    Cosine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum RecomputeArgument {
    None,
    Layer,
}

pub fn run(arguments: SftArguments) -> Result<Exit> {
    if !(0.0..1.0).contains(&arguments.validation) {
        bail!(
            "`--validation` is {}, and a share is wanted\nhelp: give a number from 0 to below 1, such as 0.05",
            arguments.validation
        );
    }
    if arguments.rank == 0 {
        bail!("`--rank` is 0, and an adapter has a width\nhelp: give a number over 0, such as 8");
    }
    // Before anything large is read.
    let devices = Devices::parse(&arguments.device, arguments.exchange.as_deref())?;
    let targets = match arguments.targets.is_empty() {
        true => LoraTargets::default(),
        false => LoraTargets::named(arguments.targets.iter().map(String::as_str))?,
    };
    let trained = match arguments.full {
        true => Trained::Full,
        false => Trained::Adapter(LoraConfig {
            rank: arguments.rank,
            alpha: arguments.alpha,
            first_layer: arguments.first_layer,
            targets,
        }),
    };
    let usual_rate = if arguments.full { 2e-5 } else { 1e-3 };
    let sha256 = Digest::of_file(&arguments.data)
        .with_context(|| format!("{} cannot be opened\nhelp: check the path", arguments.data.display()))?
        .hex();
    let (progress, stop) = (Progress::new(), Cancel::new());
    stop_on_signal(&stop, &progress);
    let sft = Sft {
        stop,
        out: arguments.out,
        devices,
        compute: arguments.compute,
        resume: arguments.resume,
        settings: SftSettings {
            base: arguments.base,
            adapters: arguments.adapter,
            data_sha256: sha256,
            data: arguments.data,
            validation_data: arguments.validation_data,
            validation: arguments.validation,
            max_tokens: arguments.max_tokens,
            trained,
            save_every: arguments.save_every,
            config: SftConfig {
                epochs: arguments.epochs,
                batch: arguments.batch,
                warmup_steps: arguments.warm_steps,
                decay: match arguments.schedule {
                    ScheduleArgument::Constant => Decay::Constant,
                    ScheduleArgument::Linear => Decay::Linear,
                    ScheduleArgument::Cosine => Decay::Cosine,
                },
                seed: arguments.seed,
                learner: LearnerConfig {
                    learning_rate: arguments.learning_rate.unwrap_or(usual_rate),
                    micro_batch_tokens: arguments.micro_batch_tokens,
                    pad_to_multiple_of: arguments.pad_to_multiple_of,
                    recompute: match arguments.recompute {
                        RecomputeArgument::None => Recompute::None,
                        RecomputeArgument::Layer => Recompute::Layer,
                    },
                    ..LearnerConfig::default()
                },
            },
        },
    };
    println!("{}", run_sft(&sft, &progress)?);
    Ok(Exit::Done)
}
