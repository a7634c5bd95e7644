//! `tandem harness`: what is in a manifest, and what is its digest?

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use tandem_host::harness::HarnessManifest;

use super::Exit;

#[derive(Subcommand)]
pub enum HarnessCommand {
    /// Print a manifest's digest, plugins, grants and limits.
    Show {
        /// A manifest in TOML.
        manifest: PathBuf,
    },
}

pub fn run(command: HarnessCommand) -> Result<Exit> {
    let HarnessCommand::Show { manifest } = command;
    let manifest = HarnessManifest::read(&manifest)?;
    println!("{}  contract {}", manifest.digest(), manifest.contract);
    for plugin in &manifest.plugins {
        let grants = if plugin.grants.is_empty() { "no grants".into() } else { plugin.grants.join(", ") };
        println!("  {}  {}  {grants}", plugin.name, plugin.digest);
    }
    let limits = &manifest.limits;
    println!(
        "  {} turns, {} s a command, {} characters an observation",
        limits.turns, limits.command_seconds, limits.observation_chars
    );
    Ok(Exit::Done)
}
