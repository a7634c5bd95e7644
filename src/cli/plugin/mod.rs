//! `tandem plugin`: what can an author of plugins ask?

mod check;
mod run;
mod source;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Subcommand;

use super::Exit;

#[derive(Subcommand)]
pub enum PluginCommand {
    /// Build a component from Rust source, in a sandbox without network.
    Build(source::BuildArguments),
    /// Admit a component as a harness would, and say what it exports, asks for and answers.
    Check(check::CheckArguments),
    /// Call one hook point, or `tools`, with an input in JSON.
    Run(run::RunArguments),
}

pub async fn run(command: PluginCommand) -> Result<Exit> {
    match command {
        PluginCommand::Build(arguments) => source::run(arguments).await,
        PluginCommand::Check(arguments) => check::run(arguments).await,
        PluginCommand::Run(arguments) => run::run(arguments).await,
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("{} cannot be read\nhelp: check the path", file.display()))
}
