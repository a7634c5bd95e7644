//! `tandem hook`: the hooks of a harness inside Claude Code, Codex and OpenHands.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde_json::json;
use tandem_host::harness::Generation;
use tandem_host::store::BlobStore;

use super::{Exit, setup};
use crate::hook::{self, Agent, Answered, Capabilities, Change, Engines, Place, Plan, Question, Target};

#[derive(Subcommand)]
pub enum HookCommand {
    /// Answer one event of Claude Code: what `install` writes into its settings.
    Claude(EventArguments),
    /// Answer one event of Codex.
    Codex(EventArguments),
    /// Answer one event of OpenHands.
    #[command(name = "openhands")]
    OpenHands(EventArguments),
    /// Show what of a harness an agent can express, and what not.
    Capabilities {
        /// Which agent.
        agent: Agent,
        #[command(flatten)]
        harness: HarnessArguments,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Write the hooks of a harness into an agent's settings.
    Install {
        /// Which agent.
        agent: Agent,
        #[command(flatten)]
        harness: HarnessArguments,
        #[command(flatten)]
        settings: SettingsArguments,
    },
    /// Take our hooks out of an agent's settings.
    Uninstall {
        /// Which agent.
        agent: Agent,
        #[command(flatten)]
        settings: SettingsArguments,
    },
    /// Show whether the daemon of a harness runs, and where its journal is.
    Status {
        #[command(flatten)]
        harness: HarnessArguments,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// End the daemon of a harness; the next call starts another.
    Stop {
        #[command(flatten)]
        harness: HarnessArguments,
    },
    /// Hold the harness between calls: a hook's process starts this.
    #[command(hide = true)]
    Daemon {
        #[command(flatten)]
        harness: HarnessArguments,
        /// How long nobody may call before it ends.
        #[arg(long, default_value_t = 1800.0)]
        idle_seconds: f64,
    },
    /// Time the calls of a warm daemon.
    #[command(hide = true)]
    Bench {
        #[command(flatten)]
        harness: HarnessArguments,
        #[arg(short = 'n', long, default_value_t = 500)]
        count: usize,
    },
}

#[derive(Args)]
pub struct EventArguments {
    /// The event, as the agent's settings name it.
    event: String,
    #[command(flatten)]
    harness: HarnessArguments,
}

/// Which harness.
#[derive(Args)]
pub struct HarnessArguments {
    /// A manifest file, the folder of a pair, or a harness of the home, such as `current`.
    #[arg(long, value_name = "H")]
    harness: String,
    /// The harness home: a folder with `blobs` and `ledger`. The folder of a run is one.
    #[arg(long, value_name = "DIR", env = "TANDEM_HARNESS_HOME", default_value = ".tandem")]
    home: PathBuf,
}

impl HarnessArguments {
    fn target(&self) -> Result<Target> {
        Target::new(&self.harness, &self.home)
    }
}

#[derive(Args)]
pub struct SettingsArguments {
    /// The settings of this project, and not the user's.
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Print the file as it would be, and write nothing.
    #[arg(long)]
    dry_run: bool,
}

pub async fn run(command: HookCommand) -> Result<Exit> {
    match command {
        HookCommand::Claude(arguments) => event(Agent::Claude, &arguments),
        HookCommand::Codex(arguments) => event(Agent::Codex, &arguments),
        HookCommand::OpenHands(arguments) => event(Agent::OpenHands, &arguments),
        HookCommand::Capabilities { agent, harness, json } => {
            let found = capabilities(agent, &harness.target()?).await?;
            match json {
                true => println!("{}", serde_json::to_string_pretty(&found)?),
                false => print!("{found}"),
            }
            Ok(Exit::Done)
        }
        HookCommand::Install { agent, harness, settings } => {
            let target = harness.target()?;
            let found = capabilities(agent, &target).await?;
            let plan = hook::install(agent, &target, settings.project.as_deref())?;
            carry_out(&plan, settings.dry_run)?;
            for line in found.lost() {
                eprintln!("note: {}", line.told(agent));
            }
            if agent == Agent::Codex && plan.change == Change::Write && !settings.dry_run {
                eprintln!("note: Codex runs new hooks only once you reviewed and trusted them in it");
            }
            Ok(Exit::Done)
        }
        HookCommand::Uninstall { agent, settings } => {
            carry_out(&hook::uninstall(agent, settings.project.as_deref())?, settings.dry_run)?;
            Ok(Exit::Done)
        }
        HookCommand::Status { harness, json } => status(&harness.target()?, json),
        HookCommand::Stop { harness } => {
            let place = Place::of(&harness.target()?)?;
            match hook::control(&place, &Question::Stop)? {
                Some(_) => println!("the daemon ends"),
                None => println!("no daemon runs"),
            }
            Ok(Exit::Done)
        }
        HookCommand::Daemon { harness, idle_seconds } => {
            let engines = Engines {
                engine: setup::engine()?,
                admission: setup::admission()?,
                workspaces: setup::workspaces()?,
            };
            let idle = Duration::try_from_secs_f64(idle_seconds).context("--idle-seconds is no time")?;
            hook::serve(harness.target()?, engines, idle).await?;
            Ok(Exit::Done)
        }
        HookCommand::Bench { harness, count } => {
            println!("{}", hook::bench(&harness.target()?, count.max(1))?);
            Ok(Exit::Done)
        }
    }
}

/// The words of `install` never come here: `hook::quick` answers them. These are a person's.
fn event(agent: Agent, arguments: &EventArguments) -> Result<Exit> {
    let names: Vec<_> = agent.events().iter().map(|event| event.name()).collect();
    let named = agent.events().iter().find(|event| event.name() == arguments.event);
    let event = named.with_context(|| {
        format!(
            "`{}` is no event of {}\nhelp: its events are {}",
            arguments.event,
            agent.title(),
            names.join(", ")
        )
    })?;
    let target = arguments.harness.target()?;
    let words = ["tandem", "hook", agent.word(), event.name(), "--harness", &target.harness, "--home"];
    let words = words.iter().map(Into::into).chain([target.home.clone().into_os_string()]);
    hook::quick(words);
    Ok(Exit::Done)
}

async fn capabilities(agent: Agent, target: &Target) -> Result<Capabilities> {
    let scratch = tempfile::tempdir().context("a scratch folder cannot be made")?;
    let blobs = BlobStore::open(scratch.path())?;
    let manifest = target.load(&blobs)?;
    let generation =
        Generation::build_with(&setup::engine()?, manifest, &blobs, &setup::admission()?).await?;
    Ok(Capabilities::of(agent, generation.manifest(), &generation.facts()))
}

fn carry_out(plan: &Plan, dry_run: bool) -> Result<()> {
    let path = plan.path.display();
    match (plan.change, dry_run) {
        (Change::Nothing, _) => println!("{path} is as it should be already"),
        (Change::Write, true) => print!("{path} would be:\n{}", plan.text),
        (Change::Remove, true) => println!("{path} would be removed: nothing else is in it"),
        (Change::Write, false) => {
            plan.carry_out()?;
            println!("{path} is written");
        }
        (Change::Remove, false) => {
            plan.carry_out()?;
            println!("{path} is removed: nothing else was in it");
        }
    }
    Ok(())
}

fn status(target: &Target, json: bool) -> Result<Exit> {
    let place = Place::of(target)?;
    let status = match hook::control(&place, &Question::Status)? {
        Some(Answered::Status(status)) => Some(status),
        _ => None,
    };
    let failed = std::fs::read_to_string(place.failed()).ok();
    if json {
        let told = json!({"daemon": status, "failed": failed, "journal": place.journal()});
        println!("{}", serde_json::to_string_pretty(&told)?);
        return Ok(Exit::Done);
    }
    match (&status, failed) {
        (Some(status), _) => println!(
            "process {} serves {}: {} sessions, {} calls",
            status.process, status.harness, status.sessions, status.calls
        ),
        (None, Some(reason)) => println!("no daemon runs; the last one could not start: {reason}"),
        (None, None) => println!("no daemon runs; the next call starts one"),
    }
    println!("journal: {}", place.journal().display());
    Ok(Exit::Done)
}
