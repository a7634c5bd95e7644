//! What did the user ask for, and how did it end? Arguments in, exit code out.

mod aa;
mod bisect;
mod demos;
mod doctor;
mod episode;
mod error;
mod eval;
mod export;
mod gate;
mod gc;
mod harness;
mod hook;
mod look;
mod model;
mod pair;
mod plugin;
mod reader;
mod replay;
mod run;
mod serve;
mod setup;
mod sft;
mod tasks;
mod teacher;
mod train;

#[cfg(test)]
pub use error::render as render_error;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// How a command ended. Wrong arguments end with 2, by clap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It did what was asked.
    Done = 0,
    /// It could not: the message says what and what to do next.
    Failed = 1,
    /// It could, and the answer is no: a plugin refused, a task not valid, a pair changed.
    No = 3,
    /// Ctrl-C or SIGTERM; `--resume` goes on.
    Interrupted = 130,
}

/// What every command takes stands behind what it takes itself.
const EVERYWHERE: &str = "Options of every command";

#[derive(Parser)]
#[command(
    name = "tandem",
    version,
    about = "Trains a coding agent's policy and evolves its harness in one loop, and ships both as one pair",
    after_help = "Exit codes: 0 done; 1 failed, the message says what to do; 2 wrong arguments; 3 the answer is no (a plugin refused, a task not valid, a pair or a record changed, a harness with warnings, an agent of `tandem run` without a patch that holds); 130 interrupted; 141 nobody reads the output any more.

Variables: TANDEM_HOME is the folder for models, compiled plugins and compilers, which can all be made again (`~/.cache/tandem` without it); TANDEM_HARNESS_HOME is the harness home; TANDEM_LOG says how much is logged (`info`, `debug`); NO_COLOR takes colours away."
)]
struct Arguments {
    /// Settings of workspaces: back-end, caps, network; a TOML file, see `docs/workspaces.md`.
    #[arg(long, global = true, env = "TANDEM_WORKSPACES", value_name = "FILE", help_heading = EVERYWHERE)]
    workspaces: Option<std::path::PathBuf>,
    /// Let commands of policies run on this machine without a sandbox, if the settings ask for it.
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    allow_host_commands: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check, run and build plugins.
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    /// Import, list, validate and judge task sets.
    #[command(subcommand)]
    Tasks(tasks::TasksCommand),
    /// Fetch policies, show what they are, sample from them, score texts, export them.
    #[command(subcommand)]
    Model(model::ModelCommand),
    /// Change, compare, publish and roll back harnesses.
    #[command(subcommand)]
    Harness(harness::HarnessCommand),
    /// Run the hooks of a harness inside other agents: Claude Code, Codex, OpenHands.
    #[command(subcommand)]
    Hook(hook::HookCommand),
    /// Explain, list, simulate and test the gates that candidates go through.
    #[command(subcommand)]
    Gate(gate::GateCommand),
    /// Try out the teachers of a campaign.
    #[command(subcommand)]
    Teacher(teacher::TeacherCommand),
    /// Run one task with a policy and a harness.
    Episode(episode::EpisodeArguments),
    /// Run recorded episodes again under another harness, without a model, and show what changes.
    Replay(replay::ReplayArguments),
    /// Write recorded episodes in the formats of other programs: ATIF, chat, mini-SWE-agent.
    Export(export::ExportArguments),
    /// Record demonstrations from tasks that carry scripted replies.
    Demos(demos::DemosArguments),
    /// Fine-tune a policy on conversations, or on prompts with completions.
    Sft(sft::SftArguments),
    /// Run a campaign from its file, or go on with one.
    Train(train::TrainArguments),
    /// Compare what a device computes with the CPU, operation by operation; exit code 3 if one is off.
    Doctor(doctor::DoctorArguments),
    /// Remove what runs left behind that were ended from outside.
    Gc(gc::GcArguments),
    /// Measure what a run brought on held-out tasks: the matrix of policies and harnesses, with intervals.
    Eval(eval::EvalArguments),
    /// Show what came of a run.
    Report(ReportArguments),
    /// Compile one component: the host calls this in a process with caps.
    #[command(name = setup::COMPILE, hide = true)]
    CompileComponent {
        input: std::path::PathBuf,
        output: std::path::PathBuf,
        functions: Option<std::path::PathBuf>,
    },
    /// Pack, verify, show, compare, take apart, export, push and pull pairs.
    #[command(subcommand)]
    Pair(pair::PairCommand),
    /// Let the agent of a pair work on a repository; a patch comes out. Or look into the run of a campaign.
    Run(look::RunCommand),
    /// Let other programs use a policy or the tools of a harness.
    #[command(subcommand)]
    Serve(serve::ServeCommand),
}

#[derive(clap::Args)]
struct ReportArguments {
    /// The run folder.
    run: std::path::PathBuf,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Runs the program.
pub fn main() -> ExitCode {
    reader::end_with_the_reader();
    // An agent waits for this one: no runtime, no parser of arguments.
    if let Some(code) = crate::hook::quick(std::env::args_os()) {
        return ExitCode::from(code);
    }
    let arguments = Arguments::parse();
    // CubeCL warns whenever two processes measure the same device; nothing is wrong then.
    let level = match arguments.command {
        // Why their one episode failed is their answer; a warning would say it twice.
        Command::Episode(_) | Command::Run(_) => {
            "warn,cubecl_runtime::throughput=error,tandem_host::agent=error"
        }
        _ => "warn,cubecl_runtime::throughput=error",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_env("TANDEM_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    setup::choose_workspaces(arguments.workspaces, arguments.allow_host_commands);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: the async runtime could not start: {error}");
            return ExitCode::from(Exit::Failed as u8);
        }
    };
    let exit = match runtime.block_on(dispatch(arguments.command)) {
        Ok(exit) => exit as u8,
        Err(failure) if reader::is_gone(&failure) => reader::CODE,
        Err(failure) => {
            eprintln!("{}", error::render(&failure));
            error::exit(&failure) as u8
        }
    };
    // Blocking work of a cancelled phase must not hold the program up.
    runtime.shutdown_background();
    ExitCode::from(exit)
}

async fn dispatch(command: Command) -> Result<Exit> {
    match command {
        Command::Plugin(command) => plugin::run(command).await,
        Command::Tasks(command) => tasks::run(command).await,
        Command::Model(command) => model::run(command),
        Command::Harness(command) => harness::run(command).await,
        Command::Hook(command) => hook::run(command).await,
        Command::Gate(command) => gate::run(command).await,
        Command::Teacher(command) => teacher::run(command).await,
        Command::Episode(arguments) => episode::run(arguments).await,
        Command::Replay(arguments) => replay::run(arguments).await,
        Command::Export(arguments) => export::run(&arguments),
        Command::Demos(arguments) => demos::run(arguments).await,
        Command::Sft(arguments) => sft::run(arguments),
        Command::Train(arguments) => train::run(arguments).await,
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Gc(arguments) => gc::run(arguments),
        Command::Eval(arguments) => eval::run(arguments).await,
        Command::Report(arguments) => report(&arguments),
        Command::CompileComponent { input, output, functions } => {
            match tandem_host::plugin::compile_child(&input, &output, functions.as_deref()) {
                Ok(()) => Ok(Exit::Done),
                // The parent reads this and says it in its own words.
                Err(reason) => {
                    eprintln!("{reason}");
                    Ok(Exit::Failed)
                }
            }
        }
        Command::Pair(command) => pair::run(command).await,
        Command::Run(command) => look::run(command).await,
        Command::Serve(command) => serve::run(command).await,
    }
}

fn report(arguments: &ReportArguments) -> Result<Exit> {
    let record = setup::existing_record(&arguments.run)?;
    let report = crate::view::report(&record)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Adds what says nothing of itself.
    fn silent(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
        let mute = arguments.filter(|argument| argument.get_help().is_none());
        found.extend(mute.map(|argument| format!("{path} {}", argument.get_id())));
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let path = format!("{path} {}", below.get_name());
            if below.get_about().is_none() {
                found.push(path.clone());
            }
            silent(below, &path, found);
        }
    }

    #[test]
    fn every_command_and_argument_says_what_it_is_for() {
        let mut found = Vec::new();
        silent(&Arguments::command(), "tandem", &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}
