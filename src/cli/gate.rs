//! `tandem gate`: why was a candidate accepted, and how often is the gate right?

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;

use super::{Exit, aa, setup};
use crate::campaign::{CampaignConfig, GateLine, KEPT, explain, gate_lines, task_counts};
use crate::evolve::{Characteristics, GateConfig, Pool, Question, Spending, Verdict, simulate};

#[derive(Subcommand)]
pub enum GateCommand {
    /// List the gates of a run.
    List {
        /// The run folder.
        run: PathBuf,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Recompute a gate from its episodes, say why it ended so, and compare it with the record (exit code 3
    /// when they differ).
    Explain {
        /// The run folder.
        run: PathBuf,
        /// The id of the gate, as `r1/gate0`.
        gate: String,
        /// Show the wealth after every task.
        #[arg(long)]
        path: bool,
        /// Read the whole record of every episode too.
        #[arg(long)]
        records: bool,
        /// JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Run gates with the same harness in both arms, through all that decides in a run (exit code 3 when they
    /// accept more often than their error allows).
    Aa(aa::AaArguments),
    /// Simulate gates: how often is what does nothing accepted, and what helps, and at what cost?
    Simulate(SimulateArguments),
}

#[derive(Args)]
pub struct SimulateArguments {
    /// Take the gate's settings from this campaign file.
    #[arg(long, value_name = "FILE")]
    campaign: Option<PathBuf>,
    /// Take the tasks' chances from the episodes of this run, and its settings without `--campaign`.
    #[arg(long, value_name = "RUN")]
    from: Option<PathBuf>,
    /// Gains of the pass rate in points.
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, default_values_t = [-3.0, 0.0, 3.0, 5.0, 10.0])]
    effects: Vec<f64>,
    /// Which gate of a run, from 1.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    decision: u32,
    /// Most tasks of a gate. With `--from`, tasks like those of the run, as many as asked for.
    #[arg(long)]
    tasks: Option<usize>,
    /// Rollouts of a task in each arm.
    #[arg(long)]
    group_size: Option<usize>,
    /// Gates to simulate for each line.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    gates: u32,
    /// Another seed simulates other gates.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub async fn run(command: GateCommand) -> Result<Exit> {
    match command {
        GateCommand::List { run, json } => list(&run, json),
        GateCommand::Explain { run, gate, path, records, json } => {
            let mut explanation = explain(&setup::existing_record(&run)?, &gate, records)?;
            explanation.whole_path = path;
            if json {
                println!("{}", serde_json::to_string_pretty(&explanation)?);
            } else {
                print!("{explanation}");
            }
            Ok(if explanation.differences.is_empty() { Exit::Done } else { Exit::No })
        }
        GateCommand::Aa(arguments) => aa::run(&arguments).await,
        GateCommand::Simulate(arguments) => simulated(&arguments),
    }
}

/// The campaign that a run began with.
pub(super) fn kept_campaign(run: &Path) -> Result<CampaignConfig> {
    let kept = run.join(KEPT);
    let text = std::fs::read_to_string(&kept).with_context(|| {
        format!("{} cannot be read\nhelp: name the campaign file instead of the run", kept.display())
    })?;
    serde_json::from_str(&text).with_context(|| format!("{} is no campaign of this version", kept.display()))
}

fn list(run: &Path, json: bool) -> Result<Exit> {
    let lines = gate_lines(&setup::existing_record(run)?)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&lines)?);
        return Ok(Exit::Done);
    }
    if lines.is_empty() {
        println!("the run has no gate yet");
        return Ok(Exit::Done);
    }
    let name = |verdict: Option<Verdict>| verdict.map_or("-", Verdict::name);
    println!(
        "{:10} {:24} {:>8} {:>9} {:>6} {:>9}  {:8} paper",
        "gate", "candidate", "decision", "level", "tasks", "rollouts", "verdict"
    );
    for line in &lines {
        println!(
            "{:10} {:24} {:>8} {:>9} {:>6} {:>9}  {:8} {}",
            line.gate,
            line.candidate,
            line.decision.map_or("-".into(), |decision| decision.to_string()),
            line.level.map_or("-".into(), |level| format!("{level:.5}")),
            line.tasks,
            line.rollouts,
            name(line.verdict),
            name(line.paper),
        );
    }
    let spent: f64 = lines.iter().filter(|line| line.shared).filter_map(|line| line.level).sum();
    if lines.iter().any(|line: &GateLine| line.shared) {
        println!("error spent by the gates of this run together: {spent:.5}");
    }
    Ok(Exit::Done)
}

fn simulated(arguments: &SimulateArguments) -> Result<Exit> {
    let mut config = settings(arguments)?;
    let pools = match &arguments.from {
        None => Pool::synthetic().to_vec(),
        Some(run) => {
            let counts = task_counts(&setup::existing_record(run)?)?;
            let pool = Pool::of_tasks("this run", counts).with_context(|| {
                format!("the run {} has no episode with a verdict yet\nhelp: leave out `--from` to take synthetic pools", run.display())
            })?;
            vec![pool]
        }
    };
    if let Some(size) = arguments.group_size {
        config.group_size = size;
    }
    match (arguments.tasks, pools.iter().filter_map(Pool::size).min()) {
        (Some(tasks), _) => config.tasks = tasks,
        (None, Some(size)) => config.tasks = config.tasks.min(size),
        (None, None) => {}
    }
    config.check().map_err(anyhow::Error::msg)?;
    if let Some(effect) = arguments.effects.iter().find(|effect| !(-100.0..=100.0).contains(*effect)) {
        bail!(
            "`--effects` holds {effect}, and a gain is from -100 to 100 points\nhelp: give points, such as 5"
        );
    }
    let lines: Vec<Characteristics> = pools
        .iter()
        .flat_map(|pool| arguments.effects.iter().map(move |effect| (pool, effect / 100.0)))
        .map(|(pool, gain)| {
            let question = Question {
                config: config.clone(),
                decision: arguments.decision,
                gain,
                gates: arguments.gates as usize,
                seed: arguments.seed,
            };
            simulate(&question, pool)
        })
        .collect();
    if arguments.json {
        let level = config.level(arguments.decision);
        let whole = json!({ "config": config, "decision": arguments.decision, "level": level, "seed": arguments.seed, "lines": lines });
        println!("{}", serde_json::to_string_pretty(&whole)?);
    } else {
        print!("{}", table(&config, arguments, &pools, &lines));
    }
    Ok(Exit::Done)
}

/// The gate's settings: of the campaign file, of the run, or the defaults.
fn settings(arguments: &SimulateArguments) -> Result<GateConfig> {
    if let Some(file) = &arguments.campaign {
        return Ok(CampaignConfig::load(file)?.evolve.gate);
    }
    let Some(run) = &arguments.from else { return Ok(GateConfig::default()) };
    Ok(kept_campaign(run)?.evolve.gate)
}

fn table(
    config: &GateConfig,
    arguments: &SimulateArguments,
    pools: &[Pool],
    lines: &[Characteristics],
) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let level = config.level(arguments.decision);
    let share = match config.spending {
        Spending::Run => {
            format!("decision {} of a run, level {level:.4} of {}", arguments.decision, config.alpha)
        }
        Spending::Gate => format!("level {level:.4}, of each gate by itself"),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{share}; at most {} tasks × 2 arms × {} rollouts = {}; {} gates for each line, seed {}",
        config.tasks,
        config.group_size,
        config.most_rollouts(config.tasks),
        arguments.gates,
        arguments.seed
    );
    if let Some(size) = pools.first().and_then(Pool::size) {
        let _ = writeln!(text, "chances of the {size} tasks that the run has episodes of");
    }
    let _ = writeln!(
        text,
        "\n{:10} {:>9} {:>7} {:>9} {:>7} {:>12} {:>7} {:>10} {:>9}",
        "pool", "pass rate", "effect", "accepted", "±", "paper's rule", "tasks", "90 % below", "rollouts"
    );
    for line in lines {
        let _ = writeln!(
            text,
            "{:10} {:>7.1} % {:>7} {:>7.1} % {:>7.1} {:>10.1} % {:>7.0} {:>10} {:>9.0}",
            line.pool,
            100.0 * line.pass_rate,
            if line.gain == 0.0 { "none".into() } else { format!("{:+.1}", 100.0 * line.gain) },
            100.0 * line.accepted,
            200.0 * line.standard_error(line.accepted),
            100.0 * line.accepted_paper,
            line.tasks,
            line.tasks_90,
            line.rollouts,
        );
    }
    let _ = writeln!(
        text,
        "\n± two standard errors of the simulation; tasks and rollouts until the paired rule decides"
    );
    text
}
