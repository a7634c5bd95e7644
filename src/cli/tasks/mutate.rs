//! `tandem tasks mutate`: which repair tasks can be made from a package with tests?

use std::path::PathBuf;

use anyhow::{Result, bail};
use tandem_host::mutate::{Event, Options, build};

use super::super::{Exit, setup};
use crate::view::Progress;

#[derive(clap::Args)]
pub struct MutateArguments {
    /// Folders of Python packages with their tests, as source archives have them.
    #[arg(required = true)]
    packages: Vec<PathBuf>,
    /// The folder of the pool; one that was begun is gone on with.
    #[arg(long)]
    out: PathBuf,
    /// Tasks at most, over all packages.
    #[arg(long, default_value_t = 500)]
    limit: usize,
    /// Tasks at most with a fault in one function.
    #[arg(long, default_value_t = 4)]
    per_function: usize,
    /// Sandboxes at once; by default one for each processor.
    #[arg(long)]
    jobs: Option<usize>,
    /// Another seed tries the mutations in another order.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A zip archive with pytest and what the tests import beside it.
    #[arg(long)]
    python: Option<PathBuf>,
    /// Seconds that all tests of a package may take together.
    #[arg(long, default_value_t = 900)]
    suite_seconds: u64,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: MutateArguments) -> Result<Exit> {
    let archive = match arguments.python {
        Some(archive) => archive,
        None => {
            let archive = crate::model::home()?.join("python/pytest-8.3.5.zip");
            if !archive.is_file() {
                bail!(
                    "there is no archive with pytest at {}\nhelp: `scripts/pytest_zip.sh` makes it",
                    archive.display()
                );
            }
            archive
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options {
        out: arguments.out,
        archive,
        limit: arguments.limit,
        per_function: arguments.per_function.max(1),
        jobs: arguments.jobs.unwrap_or(cores).max(1),
        seed: arguments.seed,
        suite_seconds: arguments.suite_seconds,
    };
    let progress = Progress::new();
    let mut bar = None;
    let mut at = 0;
    let mut on_event = |event: Event| match event {
        Event::Suite { package, tests, flaky, left_out, seconds } => progress.say(&format!(
            "{package}: {tests} tests pass twice, {flaky} flaky, {left_out} left out ({seconds:.0} s)"
        )),
        Event::Begin { package, candidates, tried } => {
            let next = progress.start(&package, candidates);
            next.skip(tried);
            at = tried;
            bar = Some(next);
        }
        Event::Step { tried, kept, .. } => {
            if let Some(bar) = &bar {
                for _ in at..tried {
                    bar.step(&format!("{kept} tasks,"));
                }
            }
            at = tried;
        }
    };
    let config = setup::workspaces()?;
    let built = tokio::select! {
        built = build(&arguments.packages, &options, &config, &mut on_event) => Some(built),
        _ = tokio::signal::ctrl_c() => None,
    };
    let Some(built) = built else {
        eprintln!("interrupted; the same command goes on");
        return Ok(Exit::Interrupted);
    };
    let report = built?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("{report}");
    }
    Ok(if report.kept() > 0 { Exit::Done } else { Exit::No })
}
