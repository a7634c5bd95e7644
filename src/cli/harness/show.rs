//! `show` and `stats`: what is in a harness, and what do its plugins cost?

use anyhow::{Result, bail};
use serde_json::json;

use super::place::Place;
use crate::cli::Exit;
use crate::view::Snapshot;

pub fn run(word: &str, place: &Place, json: bool, toml: bool) -> Result<Exit> {
    let manifest = place.find(word)?.manifest;
    if json {
        let value = json!({"digest": manifest.digest(), "manifest": manifest});
        println!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(Exit::Done);
    }
    if toml {
        print!("{}", manifest.to_toml()?);
        return Ok(Exit::Done);
    }
    println!("{}  contract {}", manifest.digest(), manifest.contract);
    for plugin in &manifest.plugins {
        let grants = if plugin.grants.is_empty() { "no grants".into() } else { plugin.grants.join(", ") };
        println!("  {}  {}  {grants}", plugin.name, plugin.digest);
        if let Some(command) = crate::pair::runs(&plugin.settings) {
            println!("    trusted: it runs the command `{command}`");
        } else if !plugin.settings.is_empty() {
            println!("    settings {}", serde_json::Value::Object(plugin.settings.clone()));
        }
    }
    let limits = &manifest.limits;
    println!(
        "  {} turns, {} s a command, {} characters an observation",
        limits.turns, limits.command_seconds, limits.observation_chars
    );
    Ok(Exit::Done)
}

/// `stats`: what a run counted last.
pub fn stats(place: &Place, json: bool) -> Result<Exit> {
    let run = place.dir();
    let Some(snapshot) = Snapshot::read(run)? else {
        bail!(
            "no plugin was counted in {}\nhelp: `tandem train` counts while it runs; name its folder with `--home RUN`",
            run.display()
        );
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&snapshot)?);
    } else {
        print!("{snapshot}");
    }
    Ok(Exit::Done)
}
