//! `tandem plugin`: is a component good, what does it answer, how is one built?

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use tandem_host::forge::Source;
use tandem_host::harness::HookPoint;
use tandem_host::plugin::{Grants, NoWorkspace, RunError, RunPoint, check, run_point, sample};

use super::{Exit, setup};

#[derive(Subcommand)]
pub enum PluginCommand {
    /// Admit a component as a harness would, and say what it exports, asks for and answers.
    Check {
        /// The component.
        file: PathBuf,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Call one hook point, or `tools`, with an input in JSON.
    Run {
        /// The component.
        file: PathBuf,
        /// A hook point such as `on-tool-call`, or `tools`.
        point: String,
        /// The input; fields that are left out have the values of `--show-input`.
        #[arg(long, default_value = "{}")]
        input: String,
        /// Print the whole input that the point takes, and do not call.
        #[arg(long)]
        show_input: bool,
        /// Capabilities to grant; without it, what the plugin asks for.
        #[arg(long = "grant")]
        grants: Option<Vec<String>>,
        /// The plugin's settings, a JSON object.
        #[arg(long, default_value = "{}")]
        settings: String,
        /// Seed of the plugin's randomness.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Build a component from Rust source, in a sandbox without network.
    Build {
        /// One Rust file, or the folder of a crate.
        source: PathBuf,
        /// The component to write.
        #[arg(short, long)]
        output: PathBuf,
    },
}

pub async fn run(command: PluginCommand) -> Result<Exit> {
    match command {
        PluginCommand::Check { file, json } => check_file(&file, json).await,
        PluginCommand::Run { file, point, input, show_input, grants, settings, seed } => {
            let point = point_named(&point)?;
            if show_input {
                println!("{}", serde_json::to_string_pretty(&sample(point))?);
                return Ok(Exit::Done);
            }
            let input = serde_json::from_str(&input).context("--input is not JSON")?;
            let settings = serde_json::from_str(&settings).context("--settings is not a JSON object")?;
            let grants = grants.map(|words| Grants::parse(&words)).transpose()?;
            let how = RunPoint { grants, settings, seed, workspace: Arc::new(NoWorkspace) };
            let bytes = read(&file)?;
            let engine = setup::engine()?;
            match run_point(&engine, &bytes, point, &input, how, &setup::admission()?).await {
                Ok(output) => {
                    println!("{}", serde_json::to_string_pretty(&output)?);
                    Ok(Exit::Done)
                }
                Err(error @ RunError::Input(_)) => Err(error.into()),
                Err(refused) => {
                    eprintln!("error: {refused}");
                    Ok(Exit::No)
                }
            }
        }
        PluginCommand::Build { source, output } => build(source, output).await,
    }
}

async fn check_file(file: &Path, json: bool) -> Result<Exit> {
    let bytes = read(file)?;
    match check(&setup::engine()?, &bytes, &setup::admission()?).await {
        Ok(report) if json => println!("{}", serde_json::to_string_pretty(&report)?),
        Ok(report) => println!("{report}"),
        Err(refused) => {
            if json {
                println!("{}", serde_json::to_string_pretty(&refused)?);
            } else {
                eprintln!("error: {refused}");
            }
            return Ok(Exit::No);
        }
    }
    Ok(Exit::Done)
}

async fn build(source: PathBuf, output: PathBuf) -> Result<Exit> {
    let source = if source.is_dir() {
        Source::Crate { dir: source }
    } else {
        let text =
            fs::read_to_string(&source).with_context(|| format!("{} cannot be read", source.display()))?;
        let name =
            source.file_name().map_or_else(|| "plugin.rs".into(), |name| name.to_string_lossy().into_owned());
        Source::File { name, text }
    };
    let forge = setup::forge()?;
    match tokio::task::spawn_blocking(move || forge.build(&source)).await? {
        Ok(built) => {
            fs::write(&output, &built.component)
                .with_context(|| format!("{} cannot be written", output.display()))?;
            println!(
                "{}: {} bytes, {}, built in {:.2} s",
                output.display(),
                built.component.len(),
                tandem_host::store::Digest::of(&built.component),
                built.seconds
            );
            Ok(Exit::Done)
        }
        Err(refused) => {
            eprintln!("error: {refused}");
            Ok(Exit::No)
        }
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("{} cannot be read\nhelp: check the path", file.display()))
}

fn point_named(name: &str) -> Result<HookPoint> {
    match HookPoint::named(name) {
        Some(point) => Ok(point),
        None => {
            let names: Vec<_> = HookPoint::ALL.into_iter().map(HookPoint::name).collect();
            bail!("`{name}` is not a hook point\nhelp: hook points are {}", names.join(", "))
        }
    }
}
