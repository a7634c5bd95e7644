//! `tandem pair`: pack a run, and check, show, compare, take apart, export, push and pull pairs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Subcommand;
use tandem_host::harness::{Generation, HarnessDiff, HarnessManifest, PluginFacts, Side};
use tandem_host::store::{BlobStore, Digest};

use super::{Exit, error, setup};
use crate::campaign::{CampaignConfig, KEPT};
use crate::pair::oci::{self, Expiry, OciError, Reference, Trust};
use crate::pair::{
    Chosen, Commands, Contents, Existing, Halves, Mismatch, Pair, PairDiff, PairError, PolicyForm, Verified,
};
use crate::view::{self, Progress};

#[derive(Subcommand)]
pub enum PairCommand {
    /// Pack the newest policy and harness of a finished or stopped run.
    Pack {
        /// The run folder.
        run: PathBuf,
        /// The new folder.
        #[arg(short, long, value_name = "DIR")]
        out: PathBuf,
        /// Ship the trained adapter alone; who uses the pair needs the base policy.
        #[arg(long)]
        adapter_only: bool,
        /// Ship plugins that run a command of their owner's (`tandem plugin wrap`) too.
        #[arg(long)]
        allow_commands: bool,
        /// `pair.json` instead of a sentence.
        #[arg(long)]
        json: bool,
    },
    /// Check every digest of a pair, and that its halves belong together.
    Verify {
        /// The pair's folder.
        pair: PathBuf,
        /// The digest that the pair should have.
        #[arg(long)]
        digest: Option<Digest>,
        /// The public key that must have signed it, as PEM.
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        /// `pair.json` instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Show on one page what is in a pair, who wrote it, and what it solved.
    Inspect {
        /// The pair's folder.
        pair: PathBuf,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Show how a pair differs from another: what it newly asks for comes first.
    Diff {
        /// The pair's folder as it was.
        from: PathBuf,
        /// The pair's folder as it is to be.
        to: PathBuf,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Write the halves as folders: a harness home and a policy.
    Unpack {
        /// The pair's folder.
        pair: PathBuf,
        /// The new folder.
        #[arg(short, long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Sign a pair with a private key: `pair.json.sig`, as `cosign verify-blob` checks it.
    Sign {
        /// The pair's folder.
        pair: PathBuf,
        /// The private key: PKCS #8 in PEM, on the curve P-256.
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
    /// Make a key to sign with: `NAME.pem`, to be kept, and `NAME.pub`, to be given away.
    NewKey {
        /// The path of both files, without their endings.
        name: PathBuf,
    },
    /// Put a pair into an OCI registry, or an OCI layout on disk.
    Push(PushArguments),
    /// Get a pair from an OCI registry or layout; its folder appears when all of it was checked.
    Pull(PullArguments),
    /// Write a pair in the layout of another program.
    Export {
        /// The pair's folder.
        pair: PathBuf,
        /// A folder that `transformers` loads, with the harness beside the weights.
        #[arg(long, required = true)]
        hf: bool,
        /// The new folder.
        #[arg(short, long, value_name = "DIR")]
        out: PathBuf,
        /// Where the base of an adapter lies, if it is not found by its name.
        #[arg(long, value_name = "MODEL")]
        base: Option<String>,
    },
}

#[derive(clap::Args)]
pub struct PushArguments {
    /// The pair's folder.
    pair: PathBuf,
    /// HOST/NAME:TAG, or oci:DIR:TAG.
    reference: String,
    /// Sign it there, in cosign's format, with this private key.
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
    /// The signature is good for this many days only.
    #[arg(long, value_name = "DAYS", requires = "sign")]
    expires: Option<u64>,
    /// Talk to a registry that is not this machine without encryption.
    #[arg(long)]
    plain_http: bool,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct PullArguments {
    /// HOST/NAME:TAG, HOST/NAME@DIGEST, or oci:DIR:TAG.
    reference: String,
    /// The new folder.
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// A public key whose owner must have signed it there; of several, one.
    #[arg(long, value_name = "FILE", conflicts_with = "policy")]
    key: Vec<PathBuf>,
    /// A file that says whose pairs are taken from where; see `docs/pair.md`.
    #[arg(long, value_name = "FILE", env = "TANDEM_PAIR_POLICY")]
    policy: Option<PathBuf>,
    /// Talk to a registry that is not this machine without encryption.
    #[arg(long)]
    plain_http: bool,
    /// `pair.json` instead of text.
    #[arg(long)]
    json: bool,
}

/// Which policy stands beside the harness of a pair.
#[derive(clap::Args)]
pub struct HalvesArguments {
    /// Another policy than the pair's own: a folder or a GGUF file.
    #[arg(long, value_name = "FOLDER", requires = "pair")]
    pub policy: Option<PathBuf>,
    /// Where the base of an adapter lies, if it is not found by its name.
    #[arg(long, value_name = "MODEL", requires = "pair")]
    pub base: Option<String>,
    /// Use halves that were not evaluated together. A policy can lose up to 7.7 points without its harness.
    #[arg(long, requires = "pair")]
    pub allow_mismatch: bool,
    /// Where the pair's policy computes: `cpu`, or `cuda:N` in a program built for it.
    #[arg(long, default_value = "cpu", requires = "pair")]
    pub device: String,
}

impl HalvesArguments {
    pub fn halves(&self) -> Halves {
        if self.allow_mismatch { Halves::MayDiffer } else { Halves::MustMatch }
    }

    /// Opens the pair, and tells what of it does not match.
    pub fn open(&self, pair: &Path) -> Result<Pair> {
        let pair = crate::pair::open(pair, self.halves())?;
        warn(&pair.mismatches);
        Ok(pair)
    }

    pub fn chosen(&self) -> Chosen {
        Chosen {
            policy: self.policy.clone(),
            base: self.base.clone(),
            device: self.device.clone(),
            halves: self.halves(),
        }
    }
}

/// Says what does not match, and what that costs.
pub fn warn(mismatches: &[Mismatch]) {
    for mismatch in mismatches {
        eprintln!("warning: {mismatch}");
    }
    if !mismatches.is_empty() {
        eprintln!("warning: {}", crate::pair::COST);
    }
}

pub async fn run(command: PairCommand) -> Result<Exit> {
    match answer(command).await {
        Err(failure)
            if failure.downcast_ref::<PairError>().is_some_and(PairError::is_refusal)
                || failure.downcast_ref::<OciError>().is_some_and(OciError::is_refusal) =>
        {
            eprintln!("{}", error::render(&failure));
            Ok(Exit::No)
        }
        answer => answer,
    }
}

async fn answer(command: PairCommand) -> Result<Exit> {
    match command {
        PairCommand::Pack { run, out, adapter_only, allow_commands, json } => {
            let form = if adapter_only { PolicyForm::Adapter } else { PolicyForm::Full };
            let commands = if allow_commands { Commands::Ship } else { Commands::Refuse };
            pack(&run, &out, form, commands, json)?;
        }
        PairCommand::Verify { pair: folder, digest, key, json } => {
            match verified(&folder, digest, key.as_deref())? {
                Verified::Pair(pair) if json => println!("{}", serde_json::to_string_pretty(&pair.manifest)?),
                Verified::Pair(pair) => {
                    let manifest = &pair.manifest;
                    println!("pair is whole: {}, {} files", manifest.digest, manifest.files.len());
                    println!("  policy   {}", manifest.policy.digest);
                    println!("  harness  {}", manifest.harness);
                    for plugin in &manifest.plugins {
                        println!("  {}  {}", plugin.name, plugin.component);
                    }
                    match &key {
                        Some(key) => println!("  signed by the key {}", key.display()),
                        None if crate::pair::is_signed(&folder) => {
                            println!("  signed; `--key FILE` checks by whom");
                        }
                        None => {}
                    }
                }
                Verified::Layout1(old) => {
                    println!("pair is whole: harness {}, {} files, layout 1", old.harness, old.files.len());
                    for plugin in &old.plugins {
                        println!("  {}  {}", plugin.name, plugin.component);
                    }
                    println!(
                        "help: to use it, pack it again with `tandem pair pack RUN -o DIR` from its run"
                    );
                }
            }
        }
        PairCommand::Inspect { pair, json } => {
            let contents = Contents::of(&crate::pair::open(&pair, Halves::MustMatch)?);
            match json {
                true => println!("{}", serde_json::to_string_pretty(&contents)?),
                false => print!("{contents}"),
            }
        }
        PairCommand::Diff { from, to, json } => {
            let from = crate::pair::open(&from, Halves::MustMatch)?;
            let to = crate::pair::open(&to, Halves::MustMatch)?;
            let diff = PairDiff::of(&from.manifest, &to.manifest, harness_diff(&from, &to).await?);
            match json {
                true => println!("{}", serde_json::to_string_pretty(&diff)?),
                false => print!("{diff}"),
            }
        }
        PairCommand::Unpack { pair, out } => {
            let pair = crate::pair::open(&pair, Halves::MustMatch)?;
            crate::pair::unpack(&pair, &out)?;
            println!("{}: a harness home in `harness`, the policy in `policy`", out.display());
        }
        PairCommand::Sign { pair, key } => {
            let pair = crate::pair::open(&pair, Halves::MustMatch)?;
            crate::pair::sign(&pair, &key)?;
            println!("{} is signed", pair.manifest.digest);
        }
        PairCommand::NewKey { name } => {
            let file = |ending: &str| PathBuf::from(format!("{}.{ending}", name.display()));
            let (private, public) = (file("pem"), file("pub"));
            crate::pair::new_key(&private, &public)?;
            println!("{} signs and is not to be given away; {} checks", private.display(), public.display());
        }
        PairCommand::Push(arguments) => push(&arguments).await?,
        PairCommand::Pull(arguments) => pull(&arguments).await?,
        PairCommand::Export { pair, hf: _, out, base } => {
            let pair = crate::pair::open(&pair, Halves::MustMatch)?;
            let chosen = Chosen { policy: None, base, device: "cpu".into(), halves: Halves::MustMatch };
            crate::pair::export(&pair, &chosen, &out)?;
            println!("{}: a model folder, with the harness in `tandem`", out.display());
        }
    }
    Ok(Exit::Done)
}

async fn push(arguments: &PushArguments) -> Result<()> {
    let reference: Reference = arguments.reference.parse()?;
    let pair = crate::pair::open(&arguments.pair, Halves::MustMatch)?;
    let progress = Progress::new();
    let told = |name: &str, bytes: u64| progress.say(&format!("sending {name} ({})", view::bytes(bytes)));
    let pushed = oci::push(&pair, &reference, arguments.plain_http, told).await?;
    if let Some(key) = &arguments.sign {
        let (pair, expiry) = (&pair.manifest.digest, Expiry(arguments.expires));
        oci::sign_there(&reference, &pushed.manifest, pair, key, expiry, arguments.plain_http).await?;
    }
    if arguments.json {
        let told = serde_json::json!({
            "reference": reference.to_string(), "manifest": pushed.manifest, "pair": pair.manifest.digest,
            "files": pushed.files, "sent_files": pushed.sent, "sent_bytes": pushed.bytes,
            "signed": arguments.sign.is_some(),
        });
        println!("{}", serde_json::to_string_pretty(&told)?);
        return Ok(());
    }
    println!("pair {} is at {reference}", pair.manifest.digest);
    println!("  manifest {}", pushed.manifest);
    let there = if pushed.sent < pushed.files { "; the others were there" } else { "" };
    println!("  {} of {} files sent, {}{there}", pushed.sent, pushed.files, view::bytes(pushed.bytes));
    if let Some(key) = &arguments.sign {
        println!("  signed with {}", key.display());
    }
    Ok(())
}

async fn pull(arguments: &PullArguments) -> Result<()> {
    let reference: Reference = arguments.reference.parse()?;
    let trust = match &arguments.policy {
        Some(policy) if arguments.key.is_empty() => Trust::read(policy)?,
        _ if arguments.key.is_empty() => Trust::Nobody,
        _ => Trust::Keys(arguments.key.clone()),
    };
    let progress = Progress::new();
    let told = |name: &str, bytes: u64| progress.say(&format!("fetching {name} ({})", view::bytes(bytes)));
    let pulled = oci::pull(&reference, &arguments.out, &trust, arguments.plain_http, told).await?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&pulled.pair)?);
        return Ok(());
    }
    println!("pair {} is whole in {}", pulled.pair.digest, arguments.out.display());
    println!("  manifest {}", pulled.manifest);
    match pulled.signed_by {
        Some(key) => println!("  signed by the key {}", key.display()),
        None => println!("  nobody's signature was asked for; `--key FILE` or `--policy FILE` asks for one"),
    }
    Ok(())
}

/// A signature is checked first: what nobody vouches for is not looked into further.
fn verified(folder: &Path, digest: Option<Digest>, key: Option<&Path>) -> Result<Verified, PairError> {
    if let Some(key) = key {
        crate::pair::check_signature(folder, key)?;
    }
    crate::pair::verify(folder, digest.as_ref())
}

fn pack(run: &Path, out: &Path, form: PolicyForm, commands: Commands, json: bool) -> Result<()> {
    let record = setup::existing_record(run)?;
    let kept = run.join(KEPT);
    let text = std::fs::read_to_string(&kept).with_context(|| {
        format!("{} cannot be read\nhelp: the run was not begun; `tandem train` begins it", kept.display())
    })?;
    let config: CampaignConfig = serde_json::from_str(&text).with_context(|| {
        format!(
            "{} is no campaign of this version\nhelp: pack the run with the program version that made it",
            kept.display()
        )
    })?;
    let manifest = crate::pair::pack(&record, &config, form, out, Existing::Refuse, commands)?;
    match json {
        true => println!("{}", serde_json::to_string_pretty(&manifest)?),
        false => println!("pair {} written to {}", manifest.digest, out.display()),
    }
    Ok(())
}

/// How the harnesses differ, looked into as far as their plugins can still be admitted.
async fn harness_diff(from: &Pair, to: &Pair) -> Result<HarnessDiff> {
    let scratch = tempfile::tempdir().context("a scratch folder cannot be made")?;
    let blobs = BlobStore::open(scratch.path())?;
    let (old, new) = (from.harness_in(&blobs)?, to.harness_in(&blobs)?);
    let before = facts(&old, &blobs).await;
    let after = facts(&new, &blobs).await;
    let side = |facts| match facts {
        &Ok(ref facts) => Ok(Vec::as_slice(facts)),
        &Err(ref reason) => Err(String::as_str(reason)),
    };
    let before = Side { manifest: &old, facts: side(&before) };
    let after = Side { manifest: &new, facts: side(&after) };
    Ok(HarnessDiff::of(before, after))
}

async fn facts(manifest: &HarnessManifest, blobs: &BlobStore) -> Result<Vec<PluginFacts>, String> {
    let parts = setup::engine().and_then(|engine| Ok((engine, setup::admission()?)));
    let (engine, admission) = parts.map_err(|error| error.to_string())?;
    let built = Generation::build_with(&engine, manifest.clone(), blobs, &admission).await;
    built.map(|generation| generation.facts()).map_err(|error| error.to_string())
}
