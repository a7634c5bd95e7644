//! `tandem plugin run`: what does a component answer at one point?

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use tandem_host::harness::HookPoint;
use tandem_host::plugin::{Grants, NoWorkspace, RunError, RunPoint, run_point, sample};

use super::read;
use crate::cli::{Exit, setup};

#[derive(Args)]
pub struct RunArguments {
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
}

pub async fn run(arguments: RunArguments) -> Result<Exit> {
    let point = point_named(&arguments.point)?;
    if arguments.show_input {
        println!("{}", serde_json::to_string_pretty(&sample(point))?);
        return Ok(Exit::Done);
    }
    let input = serde_json::from_str(&arguments.input)
        .context("`--input` is not JSON\nhelp: `--show-input` prints the whole input of a point")?;
    let settings = serde_json::from_str(&arguments.settings)
        .context("`--settings` is not a JSON object\nhelp: write it like '{\"turns\": 3}'")?;
    let grants = arguments.grants.map(|words| Grants::parse(&words)).transpose()?;
    let how = RunPoint { grants, settings, seed: arguments.seed, workspace: Arc::new(NoWorkspace) };
    let bytes = read(&arguments.file)?;
    match run_point(&setup::engine()?, &bytes, point, &input, how, &setup::admission()?).await {
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

fn point_named(name: &str) -> Result<HookPoint> {
    match HookPoint::named(name) {
        Some(point) => Ok(point),
        None => {
            let names: Vec<_> = HookPoint::ALL.into_iter().map(HookPoint::name).collect();
            bail!("`{name}` is not a hook point\nhelp: hook points are {}", names.join(", "))
        }
    }
}
