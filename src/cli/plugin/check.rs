//! `tandem plugin check`: would a harness admit this component?

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use tandem_host::plugin::{AdmissionError, Grants, check};

use super::read;
use crate::cli::{Exit, setup};
use crate::view::Progress;

#[derive(Args)]
pub struct CheckArguments {
    /// The component.
    file: PathBuf,
    /// Capabilities to grant; without it, what the plugin asks for.
    #[arg(long = "grant")]
    grants: Vec<String>,
    /// Grant nothing.
    #[arg(long, conflicts_with = "grants")]
    no_grants: bool,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: CheckArguments) -> Result<Exit> {
    let bytes = read(&arguments.file)?;
    let named = arguments.no_grants || !arguments.grants.is_empty();
    let grants = named.then(|| Grants::parse(&arguments.grants)).transpose()?;
    let life = Progress::new().sign_of_life("compiling and trying it");
    let checked = check(&setup::engine()?, &bytes, grants.as_ref(), &setup::admission()?).await;
    drop(life);
    match checked {
        Ok(report) if arguments.json => println!("{}", serde_json::to_string_pretty(&report)?),
        Ok(report) => println!("{report}"),
        Err(reasons) => {
            if arguments.json {
                println!("{}", serde_json::to_string_pretty(&json!({"reasons": reasons}))?);
                return Ok(Exit::No);
            }
            eprintln!("{}", told(&reasons));
            return Ok(Exit::No);
        }
    }
    Ok(Exit::Done)
}

/// All reasons for people, and how many there are.
pub fn told(reasons: &[AdmissionError]) -> String {
    let mut lines: Vec<_> = reasons.iter().map(|reason| format!("error: {reason}")).collect();
    if reasons.len() > 1 {
        lines.push(format!("{} reasons", reasons.len()));
    }
    lines.join("\n")
}
