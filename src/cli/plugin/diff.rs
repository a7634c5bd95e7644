//! `tandem plugin diff`: what does one component ask for and hook that another does not?

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use tandem_host::harness::HarnessDiff;
use tandem_host::plugin::admit_as_asked;

use super::inspect::facts;
use super::read;
use crate::cli::{Exit, setup};

#[derive(Args)]
pub struct DiffArguments {
    /// The component as it was.
    from: PathBuf,
    /// The component as it is to be.
    to: PathBuf,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: DiffArguments) -> Result<Exit> {
    let (engine, admission) = (setup::engine()?, setup::admission()?);
    let mut sides = Vec::new();
    for file in [&arguments.from, &arguments.to] {
        match admit_as_asked(&engine, &read(file)?, &admission).await {
            Ok(admitted) => sides.push(facts(&arguments.to, &admitted)),
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
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&diff)?),
        false if diff.changes.is_empty() && diff.from != diff.to => {
            println!("from {} to {}", diff.from.short(), diff.to.short());
            println!("It asks for, hooks and offers the same; code or data differ.");
        }
        false => print!("{diff}"),
    }
    Ok(Exit::Done)
}
