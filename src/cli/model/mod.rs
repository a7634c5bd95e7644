//! `tandem model`: which models are there, what are they, and what do they say?

mod export;
mod generate;
mod logprobs;
mod prompts;

use anyhow::Result;
use clap::Subcommand;

use super::Exit;
use crate::model;
use crate::view::Progress;

#[derive(Subcommand)]
pub enum ModelCommand {
    /// Fetch a known model and check its SHA-256, or a model of the hub into its cache.
    Fetch {
        /// A name of `tandem model list`, or a hub id `owner/name[@revision]`.
        name: String,
    },
    /// List the known models.
    List,
    /// Show shape, size, context and tokenizer of a policy, and the memory of its KV cache.
    Info {
        /// A known name, a GGUF file, a Hugging Face folder, or a hub id.
        model: String,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Sample replies to a prompt, a conversation, or a file of prompts.
    Generate(generate::GenerateArguments),
    /// Write the log-probability of each token of given texts or token ids.
    Logprobs(logprobs::LogprobsArguments),
    /// Write a policy as a Hugging Face folder, or an adapter in PEFT's layout.
    Export(export::ExportArguments),
}

/// Which policy, and where it computes.
#[derive(clap::Args)]
struct PolicyArguments {
    /// A known name, a GGUF file, a Hugging Face folder, or a hub id `owner/name[@revision]`.
    model: String,
    /// A LoRA adapter in PEFT's layout, or a LoRA checkpoint of a run; given more than once, each
    /// is folded into the weights before the next.
    #[arg(long, value_name = "FOLDER")]
    adapter: Vec<std::path::PathBuf>,
    /// `cpu`, or `cuda:N` in a program built for it.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// `f32` or `bf16`; unless given, f32 on the CPU and for what is exported, and bf16 on a GPU.
    #[arg(long)]
    compute: Option<String>,
}

impl PolicyArguments {
    fn load(&self) -> Result<tandem_trainer::checkpoint::Policy> {
        let _life = Progress::new().sign_of_life(&format!("loading {}", self.model));
        model::load(&self.model, &self.adapter, &self.device, self.compute.as_deref())
    }
}

/// A count of which none makes no sense.
fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "a whole number from 1 on is needed".into())
}

pub fn run(command: ModelCommand) -> Result<Exit> {
    match command {
        ModelCommand::Fetch { name } => {
            let path = if name.contains('/') { model::resolve(&name)? } else { model::fetch(&name)? };
            println!("{}", path.display());
        }
        ModelCommand::List => {
            for known in model::KNOWN {
                let here = if model::resolve(known.name).is_ok() { "here" } else { "not fetched" };
                println!("{:12}  {} ({}), {here}", known.name, known.description, known.licence);
            }
        }
        ModelCommand::Info { model, json } => {
            let info = crate::model::ModelInfo::read(&model, &crate::model::resolve(&model)?)?;
            if json {
                println!("{}", serde_json::to_string_pretty(&info)?);
            } else {
                print!("{info}");
            }
        }
        ModelCommand::Generate(arguments) => generate::run(&arguments)?,
        ModelCommand::Logprobs(arguments) => logprobs::run(&arguments)?,
        ModelCommand::Export(arguments) => export::run(&arguments)?,
    }
    Ok(Exit::Done)
}
