//! `tandem plugin`: what can an author of plugins ask?

mod check;
mod diff;
mod inspect;
mod new;
mod run;
mod source;
mod template;
mod templates;
mod test;
mod tools;
mod watch;
mod wrap;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Subcommand;

use super::Exit;

#[derive(Subcommand)]
pub enum PluginCommand {
    /// Make the folder of a new plugin: source that works, cases that pass, a README.
    New(new::NewArguments),
    /// Build a component from source, in a sandbox without network.
    Build(source::BuildArguments),
    /// Admit a component as a harness would, and say what it exports, asks for and answers.
    Check(check::CheckArguments),
    /// Call one hook point, or `tools`, with an input in JSON.
    Run(run::RunArguments),
    /// Build a plugin and run the cases beside it.
    Test(test::TestArguments),
    /// Show what builds each language here, or install it.
    Tools(tools::ToolsArguments),
    /// Build, check and test a plugin at every save, until Ctrl-C.
    Watch(watch::WatchArguments),
    /// Make a plugin that runs a command hook, in the sandbox of the workspace.
    Wrap(wrap::WrapArguments),
    /// Show what is in a component, and what it would be allowed.
    Inspect(inspect::InspectArguments),
    /// Show what a component newly asks for and newly hooks against another.
    Diff(diff::DiffArguments),
}

pub async fn run(command: PluginCommand) -> Result<Exit> {
    match command {
        PluginCommand::New(arguments) => new::run(arguments),
        PluginCommand::Build(arguments) => source::run(arguments).await,
        PluginCommand::Check(arguments) => check::run(arguments).await,
        PluginCommand::Run(arguments) => run::run(arguments).await,
        PluginCommand::Test(arguments) => test::run(arguments).await,
        PluginCommand::Tools(arguments) => tools::run(arguments).await,
        PluginCommand::Watch(arguments) => watch::run(arguments).await,
        PluginCommand::Wrap(arguments) => wrap::run(arguments).await,
        PluginCommand::Inspect(arguments) => inspect::run(arguments).await,
        PluginCommand::Diff(arguments) => diff::run(arguments).await,
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("{} cannot be read\nhelp: check the path", file.display()))
}
