//! `tandem serve policy`: OpenAI's API over a policy of a pair, a folder, a file or the hub.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use tandem_host::policy::Sampling;
use tandem_trainer::checkpoint::Policy;
use tandem_trainer::generate::{Generator, GeneratorConfig};

use super::ListenArguments;
use crate::cli::Exit;
use crate::cli::pair::{HalvesArguments, warn};
use crate::model;
use crate::serve::{Drain, policy, until_signal};
use crate::view::Progress;

/// The longest context that is kept without being asked for: its keys and values take memory.
const CONTEXT: usize = 8192;

#[derive(clap::Args)]
pub struct PolicyArguments {
    /// A known name, a GGUF file, a Hugging Face folder, or a hub id `owner/name[@revision]`.
    #[arg(required_unless_present = "pair")]
    model: Option<String>,
    /// The policy of this pair.
    #[arg(long, conflicts_with_all = ["model", "adapter"])]
    pair: Option<PathBuf>,
    /// Another policy than the pair's own: a folder or a GGUF file.
    #[arg(long, value_name = "FOLDER", requires = "pair")]
    policy: Option<PathBuf>,
    /// Where the base of the pair's adapter lies, if it is not found by its name.
    #[arg(long, value_name = "MODEL", requires = "pair")]
    base: Option<String>,
    /// Use halves that were not evaluated together. A policy can lose up to 7.7 points without its harness.
    #[arg(long, requires = "pair")]
    allow_mismatch: bool,
    /// Where the policy computes: `cpu`, or `cuda:N` in a program built for it.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// A LoRA adapter on the model; given more than once, each is folded into the weights before the next.
    #[arg(long, value_name = "FOLDER")]
    adapter: Vec<PathBuf>,
    /// `f32` or `bf16`; unless given, f32 on the CPU and bf16 on a GPU.
    #[arg(long, conflicts_with = "pair")]
    compute: Option<String>,
    /// The model's name in requests; without it, the name of the model or of the pair.
    #[arg(long)]
    name: Option<String>,
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8000")]
    listen: String,
    /// Replies that are sampled at once.
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    slots: usize,
    /// Replies that may wait for a slot; more are answered 429.
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    queue: usize,
    /// Most tokens of a conversation; without it those of the pair, or the policy's own, at most 8192.
    #[arg(long, value_name = "TOKENS")]
    context: Option<usize>,
    #[command(flatten)]
    who: ListenArguments,
}

/// A policy with what goes with it.
struct Loaded {
    policy: Policy,
    name: String,
    version: u64,
    context: usize,
    sampling: Sampling,
    /// The pair's limit on replies.
    reply_tokens: Option<usize>,
}

pub async fn run(arguments: PolicyArguments) -> Result<Exit> {
    if arguments.slots == 0 || arguments.context.is_some_and(|context| context < 2) {
        bail!(
            "`--slots` is 0, or `--context` less than 2\nhelp: give at least 1 slot and a context of some tokens"
        );
    }
    // Whoever may not listen is told before the weights are read.
    let listener = arguments.who.listen(&arguments.listen).await?;
    let life = Progress::new().sign_of_life("loading the policy");
    let loaded = tokio::task::block_in_place(|| load(&arguments))?;
    drop(life);
    let Loaded { policy, name, version, context, sampling, reply_tokens } = loaded;
    let context = arguments.context.unwrap_or(context);
    let config = GeneratorConfig { slots: arguments.slots, context };
    let generator = Generator::spawn(policy.model, version, config);
    let queue = arguments.queue;
    let engine =
        policy::Engine::new(name, generator, policy.tokenizer, policy.chat, sampling, reply_tokens, queue);
    let drain = Drain::default();
    println!(
        "serving `{}` at http://{}/v1: {} slots of {} tokens, {queue} in the queue",
        engine.name,
        listener.address(),
        engine.generator.slots(),
        engine.generator.context()
    );
    let router = policy::router(Arc::new(engine), listener.limits(), drain.clone(), listener.refused());
    let serving = async {
        listener.serve(router, drain.clone()).await;
        Ok(())
    };
    Ok(super::exit(until_signal(&drain, arguments.who.drain(), serving).await?))
}

fn load(arguments: &PolicyArguments) -> Result<Loaded> {
    if let Some(folder) = &arguments.pair {
        let halves = HalvesArguments {
            policy: arguments.policy.clone(),
            base: arguments.base.clone(),
            allow_mismatch: arguments.allow_mismatch,
            device: arguments.device.clone(),
        };
        let pair = halves.open(folder)?;
        let (policy, mismatches) = crate::pair::load_policy(&pair, &halves.chosen())?;
        warn(&mismatches);
        let told = &pair.manifest.policy;
        return Ok(Loaded {
            policy,
            name: arguments.name.clone().unwrap_or_else(|| pair.manifest.name.clone()),
            version: told.version,
            context: told.context,
            reply_tokens: Some(told.sampling.max_tokens),
            sampling: told.sampling.clone(),
        });
    }
    let base = arguments.model.as_deref().unwrap_or_default();
    let policy = model::load(base, &arguments.adapter, &arguments.device, arguments.compute.as_deref())?;
    let file = std::path::Path::new(base).file_name().filter(|_| std::path::Path::new(base).exists());
    let name = file.map_or_else(|| base.to_owned(), |name| name.to_string_lossy().into_owned());
    Ok(Loaded {
        name: arguments.name.clone().unwrap_or(name),
        version: policy.manifest.as_ref().map_or(0, |manifest| manifest.policy_version),
        context: policy.model.config().max_position_embeddings.min(CONTEXT),
        sampling: Sampling::default(),
        reply_tokens: None,
        policy,
    })
}
