//! `tandem harness`: what is in a harness, how does it change, and what was it before?

mod compare;
mod edit;
mod history;
mod place;
mod publish;
mod running;
mod show;

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;

use super::Exit;
pub use place::{Bench, Place};

#[derive(Subcommand)]
pub enum HarnessCommand {
    /// Print a harness: digest, plugins with grants and settings, limits, prompts.
    Show {
        /// `current`, `previous`, a digest or its first digits, or a manifest in TOML.
        #[arg(default_value = "current")]
        harness: String,
        #[command(flatten)]
        place: Place,
        /// JSON instead of text.
        #[arg(long, conflicts_with = "toml")]
        json: bool,
        /// A manifest in TOML instead of text.
        #[arg(long)]
        toml: bool,
    },
    /// Admit a plugin and publish the harness with it.
    Add {
        /// The plugin's name in the harness.
        name: String,
        /// The component.
        component: PathBuf,
        #[command(flatten)]
        plugin: PluginArguments,
        /// The source that the component was built from; it is kept, and the ledger names it.
        #[arg(long, value_name = "FILE")]
        source: Option<PathBuf>,
        /// Put it in the place of the plugin of this name, with its grants and settings.
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        change: ChangeArguments,
    },
    /// Publish the harness without a plugin.
    Remove {
        /// The plugin's name in the harness.
        name: String,
        #[command(flatten)]
        change: ChangeArguments,
    },
    /// Change a plugin's grants, settings or place, or limits and prompts, and publish.
    Set {
        /// A plugin's name, or any number of `limits.KEY=VALUE` and `prompts.KEY=TEXT`
        /// (`@FILE` takes the text of a file).
        #[arg(required = true)]
        what: Vec<String>,
        #[command(flatten)]
        plugin: PluginArguments,
        #[command(flatten)]
        change: ChangeArguments,
    },
    /// Say in words what one harness asks for, hooks and says that another does not.
    Diff {
        /// `current`, `previous`, a digest or its first digits, or a manifest in TOML.
        from: String,
        /// The same.
        #[arg(default_value = "current")]
        to: String,
        #[command(flatten)]
        place: Place,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Make a harness current: one of before, or that of a manifest in TOML.
    Activate {
        /// `previous`, a digest or its first digits, or a manifest in TOML.
        harness: String,
        /// Why, for the ledger.
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        by: Actor,
        #[command(flatten)]
        place: Place,
        /// Swap the running server with this control socket too: its home is the one, unless `--home` is given.
        #[arg(long, value_name = "SOCKET")]
        server: Option<PathBuf>,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Go back to the harness before; again, and it goes a step further back.
    Rollback {
        /// Go back to this harness: a digest or its first digits.
        #[arg(long, value_name = "HARNESS", default_value = "previous")]
        to: String,
        /// Why, for the ledger.
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        by: Actor,
        #[command(flatten)]
        place: Place,
        /// Swap the running server with this control socket too: its home is the one, unless `--home` is given.
        #[arg(long, value_name = "SOCKET")]
        server: Option<PathBuf>,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// List the publications: who, what, when, why, from which sources.
    Log {
        #[command(flatten)]
        place: Place,
        /// One JSON object a line instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Say what the plugins of a run cost: calls, faults, instances, times.
    Stats {
        #[command(flatten)]
        place: Place,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Warn of what works and is still likely a mistake; ends with 3 if there is any.
    Lint {
        /// `current`, `previous`, a digest or its first digits, or a manifest in TOML.
        #[arg(default_value = "current")]
        harness: String,
        #[command(flatten)]
        place: Place,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
}

/// What a harness says of one plugin.
#[derive(clap::Args)]
pub struct PluginArguments {
    /// A capability that it may use; once for each. Together they replace the grants of before.
    #[arg(long = "grant", value_name = "CAPABILITY")]
    grants: Vec<String>,
    /// Take all grants away.
    #[arg(long, conflicts_with = "grants")]
    no_grants: bool,
    /// Its settings, a JSON object; `@FILE` takes them from a file.
    #[arg(long, value_name = "JSON")]
    settings: Option<String>,
    /// Its place in the order of the hooks, from 1; without it, the last.
    #[arg(long, value_name = "INDEX")]
    at: Option<usize>,
}

/// What every change has.
#[derive(clap::Args)]
pub struct ChangeArguments {
    /// Why, for the ledger.
    #[arg(long, required_unless_present = "file")]
    reason: Option<String>,
    #[command(flatten)]
    by: Actor,
    #[command(flatten)]
    place: Place,
    /// Change this manifest in TOML instead of the current harness of the home. It is written
    /// anew, without its comments; components still lie in the home.
    #[arg(long, value_name = "FILE.toml")]
    file: Option<PathBuf>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Who publishes.
#[derive(clap::Args)]
pub struct Actor {
    /// Your name, for the ledger; without it, that of the account.
    #[arg(long, value_name = "NAME", env = "TANDEM_ACTOR")]
    by: Option<String>,
}

impl Actor {
    fn name(&self) -> String {
        let account = || ["USER", "LOGNAME"].iter().find_map(|key| std::env::var(key).ok());
        let name = self.by.clone().or_else(account).filter(|name| !name.trim().is_empty());
        name.unwrap_or_else(|| "unknown".to_owned())
    }
}

pub async fn run(command: HarnessCommand) -> Result<Exit> {
    match command {
        HarnessCommand::Show { harness, place, json, toml } => show::run(&harness, &place, json, toml),
        HarnessCommand::Add { name, component, plugin, source, replace, change } => {
            let edit = edit::Add::read(name, &component, &plugin, source.as_deref(), replace)?;
            publish::change(edit::Edit::Add(edit), change).await
        }
        HarnessCommand::Remove { name, change } => publish::change(edit::Edit::Remove { name }, change).await,
        HarnessCommand::Set { what, plugin, change } => {
            publish::change(edit::set(&what, &plugin)?, change).await
        }
        HarnessCommand::Diff { from, to, place, json } => compare::diff(&from, &to, &place, json).await,
        HarnessCommand::Activate { harness, reason, by, place, server, json } => {
            let running = running::Running::find(server.as_deref(), place).await?;
            let exit = history::activate(&harness, reason, &by, &running.place, json).await?;
            running.swap(exit).await
        }
        HarnessCommand::Rollback { to, reason, by, place, server, json } => {
            let running = running::Running::find(server.as_deref(), place).await?;
            let exit = history::rollback(&to, reason, &by, &running.place, json).await?;
            running.swap(exit).await
        }
        HarnessCommand::Log { place, json } => history::log(&place, json),
        HarnessCommand::Stats { place, json } => show::stats(&place, json),
        HarnessCommand::Lint { harness, place, json } => compare::lint(&harness, &place, json).await,
    }
}
