//! `tandem plugin diff`: what does one component ask for and hook that another does not?

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use tandem_host::harness::HarnessDiff;
use tandem_host::plugin::admit_as_asked;

use super::inspect::facts;
use super::read;
use crate::cli::replay::ReplayOptions;
use crate::cli::{Exit, setup};

#[derive(Args)]
pub struct DiffArguments {
    /// The component as it was.
    from: PathBuf,
    /// The component as it is to be.
    to: PathBuf,
    #[command(flatten)]
    replay: ReplayOptions,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: DiffArguments) -> Result<Exit> {
    let (engine, admission) = (setup::engine()?, setup::admission()?);
    let (mut sides, mut plugins) = (Vec::new(), Vec::new());
    for file in [&arguments.from, &arguments.to] {
        let bytes = read(file)?;
        match admit_as_asked(&engine, &bytes, &admission).await {
            Ok(admitted) => {
                sides.push(facts(&arguments.to, &admitted));
                plugins.push((admitted, bytes));
            }
            Err(refused) => {
                match arguments.json {
                    true => println!("{}", serde_json::to_string_pretty(&json!({"reasons": [refused]}))?),
                    false => eprintln!("error: {}: {refused}", file.display()),
                }
                return Ok(Exit::No);
            }
        }
    }
    let diff = HarnessDiff::of_components(&sides[0], &sides[1]);
    let [(old, old_bytes), (new, new_bytes)] = plugins.as_slice() else { return Ok(Exit::Failed) };
    let replayed = async || {
        let (new, old) = ((new.as_ref(), new_bytes.as_slice()), (old.as_ref(), old_bytes.as_slice()));
        arguments.replay.changes(&sides[1].name, new, Some(old), !arguments.json).await
    };
    if arguments.json {
        let mut value = serde_json::to_value(&diff)?;
        if let Some(changes) = replayed().await? {
            value["replay"] = serde_json::to_value(changes)?;
        }
        println!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(Exit::Done);
    }
    match diff.changes.is_empty() && diff.from != diff.to {
        true => {
            println!("from {} to {}", diff.from.short(), diff.to.short());
            println!("It asks for, hooks and offers the same; code or data differ.");
        }
        false => print!("{diff}"),
    }
    replayed().await?;
    Ok(Exit::Done)
}
