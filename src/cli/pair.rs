//! `tandem pair`: is a pair whole?

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;

use super::{Exit, error};

#[derive(Subcommand)]
pub enum PairCommand {
    /// Check every digest of a pair.
    Verify {
        /// The pair's folder.
        pair: PathBuf,
    },
}

pub fn run(command: PairCommand) -> Result<Exit> {
    let PairCommand::Verify { pair } = command;
    match crate::pair::verify(&pair) {
        Ok(manifest) => {
            println!("pair is whole: harness {}, {} files", manifest.harness, manifest.files.len());
            for plugin in &manifest.plugins {
                println!("  {}  {}", plugin.name, plugin.component);
            }
            Ok(Exit::Done)
        }
        Err(failure) => {
            eprintln!("{}", error::render(&failure));
            Ok(Exit::No)
        }
    }
}
