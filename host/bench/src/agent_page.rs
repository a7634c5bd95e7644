//! How is the cost of the agent loop shown? `docs/benchmarks-agent.md`.

use std::fmt::Write as _;

use anyhow::Result;

use crate::agent::{
    AT_ONCE, CHECKPOINTS, COMMAND, COMMANDS, Contender, Cost, EPISODES, Kept, ROUNDS, TURNS, TURNS_AT_ONCE,
    Took, median, middle,
};
use crate::agent_idle::{IDLE, Idle};

const IDLE_GOAL_KIB: f64 = 2048.0;
const RATIO_GOAL: f64 = 10.0;

fn met(yes: bool) -> &'static str {
    if yes { "yes" } else { "**no**" }
}

/// The page, of medians of the rounds.
pub fn page(
    machine: &[(&'static str, String)],
    us: &Contender,
    them: &Contender,
    bare: &[Cost],
    kept: &[Kept; 2],
    idle: &[Idle; 2],
) -> Result<String> {
    let mut page = String::from(
        "# The agent loop beside mini-SWE-agent\n\nWritten by `make bench-agent`, in one run: the same scripted \
         replies, the same files, commands in bubblewrap in both. A policy that answers at once stands in for the \
         model. Each program starts commands in the sandbox that it comes with; ours also takes away the network \
         and other processes, sets limits, and leaves no process behind.\n\n|  |  |\n|---|---|\n",
    );
    for (what, which) in machine.iter().filter(|(what, _)| !["extism", "wasmtime"].contains(what)) {
        writeln!(page, "| {what} | {which} |")?;
    }
    writeln!(
        page,
        "| mini-SWE-agent | 2.4.6, its text model and `BubblewrapEnvironment`, trajectory on disk |"
    )?;

    let bare = middle(bare);
    let rows = |contender: &Contender| {
        let (turn, command) = (middle(&contender.turn), middle(&contender.command));
        [turn, command, turn.minus(bare), command.minus(bare), turn.minus(command)]
    };
    let names = [
        "a turn",
        "its command in the sandbox, without the agent",
        "a turn, beyond the bare command",
        "of that the sandbox",
        "of that the agent loop",
    ];
    writeln!(
        page,
        "\n## A turn\n\nThe command is `{COMMAND}`; bare, as `bash -c`, it takes {:.2} ms, {:.2} ms of processors.\n",
        bare.wall * 1e3,
        bare.cpu * 1e3
    )?;
    page += "|  | mini-SWE-agent: wall | CPU | Tandem: wall | CPU | ratio: wall | CPU |\n|---|---|---|---|---|---|---|\n";
    let mut ratios = Vec::new();
    for ((name, theirs), ours) in names.iter().zip(rows(them)).zip(rows(us)) {
        let ratio = (theirs.wall / ours.wall, theirs.cpu / ours.cpu);
        ratios.push(ratio);
        // Below a hundredth of a millisecond the difference of two medians says nothing.
        let times = |ratio: f64, ours: f64| match ours > 1e-5 {
            true => format!("{ratio:.1}"),
            false => "below what can be measured".to_owned(),
        };
        writeln!(
            page,
            "| {name} | {:.2} ms | {:.2} ms | {:.2} ms | {:.2} ms | {} | {} |",
            theirs.wall * 1e3,
            theirs.cpu * 1e3,
            ours.wall * 1e3,
            ours.cpu * 1e3,
            times(ratio.0, ours.wall),
            times(ratio.1, ours.cpu),
        )?;
    }
    let (theirs, ours) = (middle(&them.turn).own, middle(&us.turn).own);
    let own = theirs / ours;
    writeln!(
        page,
        "| CPU of the program itself, without its children |  | {:.2} ms |  | {:.2} ms |  | {own:.1} |",
        theirs * 1e3,
        ours * 1e3
    )?;
    let good = |ratio: f64| ratio >= RATIO_GOAL || ratio < 0.0;
    writeln!(
        page,
        "\nThe goal is {RATIO_GOAL} times less beyond the command itself. With the sandbox counted: {} (wall), {} (CPU); \
         of the agent loop alone: {} (wall), {} (CPU); of the program itself: {}.",
        met(ratios[2].0 >= RATIO_GOAL),
        met(ratios[2].1 >= RATIO_GOAL),
        met(good(ratios[4].0)),
        met(good(ratios[4].1)),
        met(own >= RATIO_GOAL),
    )?;

    let (theirs, ours) = (middle(&them.episode), middle(&us.episode));
    writeln!(
        page,
        "\n## An episode\n\n|  | mini-SWE-agent | Tandem |\n|---|---|---|\n\
         | episodes of {TURNS} turns a minute, one after the other | {:.0} | {:.0} |\n\
         | an episode of one turn, wall | {:.1} ms | {:.1} ms |\n\
         | an episode of one turn, CPU | {:.1} ms | {:.1} ms |\n\n\
         Theirs copies the repository and hands in what the command printed. Ours also makes the repository from a base \
         commit, checks the patch, reads the work tree, and verifies in a second workspace.",
        median(them.per_minute.clone()),
        median(us.per_minute.clone()),
        theirs.wall * 1e3,
        ours.wall * 1e3,
        theirs.cpu * 1e3,
        ours.cpu * 1e3,
    )?;

    writeln!(
        page,
        "\n## {AT_ONCE} episodes at once\n\n{TURNS_AT_ONCE} turns each; theirs in {AT_ONCE} threads, as its batch runs do. A \
         gap is the time between two model calls of one episode; it is fair when all episodes move on by turns.\n\n\
         |  | mini-SWE-agent | Tandem |\n|---|---|---|"
    )?;
    let crowd = |took: &Took| {
        let gaps: Vec<f64> = took.gaps.iter().flat_map(|gaps| gaps.iter().skip(1)).copied().collect();
        let first = took.gaps.iter().filter_map(|gaps| gaps.first()).copied().fold(0.0, f64::max);
        (took.wall, took.cpu, median(gaps.clone()), gaps.into_iter().fold(0.0, f64::max), first)
    };
    let (theirs, ours) = (crowd(&them.crowd), crowd(&us.crowd));
    for (name, theirs, ours) in [
        ("all episodes, wall", theirs.0, ours.0),
        ("all episodes, CPU", theirs.1, ours.1),
        ("median gap", theirs.2, ours.2),
        ("longest gap", theirs.3, ours.3),
        ("longest wait for the first model call", theirs.4, ours.4),
    ] {
        writeln!(page, "| {name} | {theirs:.2} s | {ours:.2} s |")?;
    }

    writeln!(
        page,
        "\n## A workspace kept after a turn\n\nAfter each of {CHECKPOINTS} turns that change a file. The repository has 100 \
         small files; of an overlay only what was changed is copied.\n\n\
         | files of the workspace | keep it: wall | CPU | start from there: wall | CPU |\n|---|---|---|---|---|"
    )?;
    for (name, kept) in ["a copy", "an overlay"].iter().zip(kept) {
        let (keep, start) = (kept.checkpoint, kept.resume);
        let [a, b, c, d] = [keep.wall, keep.cpu, start.wall, start.cpu].map(|seconds| seconds * 1e3);
        writeln!(page, "| {name} | {a:.1} ms | {b:.1} ms | {c:.1} ms | {d:.1} ms |")?;
    }

    let [copy, overlay] = idle;
    writeln!(
        page,
        "\n## An episode that waits for its policy\n\n{IDLE} episodes after one command each; the goal is {:.0} KiB.\n\n\
         | files of the workspace | this process, for each | processes of workspaces | memory of those, for each | met |\n\
         |---|---|---|---|---|",
        IDLE_GOAL_KIB
    )?;
    for (name, idle) in [("a copy", copy), ("an overlay", overlay)] {
        let all = idle.ours + idle.others;
        writeln!(
            page,
            "| {name} | {:.0} KiB | {} | {:.0} KiB | {} |",
            idle.ours,
            idle.processes,
            idle.others,
            met(all <= IDLE_GOAL_KIB)
        )?;
    }
    writeln!(
        page,
        "\nMedians of {ROUNDS} rounds by turns, each of {EPISODES} episodes of one turn, {EPISODES} of {TURNS}, and {COMMANDS} \
         commands. A turn is the difference of long and short episodes, by turns. CPU counts the program and its children."
    )?;
    Ok(page)
}
