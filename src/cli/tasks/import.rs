//! `tandem tasks import`: a published data set to task folders.

use std::path::PathBuf;

use anyhow::Result;
use tandem_host::dataset::{Format, ImportOptions, import};

use crate::cli::Exit;

#[derive(clap::Args)]
pub struct ImportArguments {
    /// A file of rows (`.jsonl`, `.json`, `.parquet`), or the folder of QuixBugs or of
    /// the polyglot exercises.
    data: PathBuf,
    /// The folder that task folders are written into.
    #[arg(long)]
    out: PathBuf,
    /// The format of the rows; found from their fields when not given.
    #[arg(long, value_parser = parse_format)]
    format: Option<Format>,
    /// SWE-bench Pro: its folder `run_scripts`.
    #[arg(long)]
    scripts: Option<PathBuf>,
    /// Take only the row of this name; may be given several times.
    #[arg(long = "only", value_name = "NAME")]
    only: Vec<String>,
    /// Take at most so many rows.
    #[arg(long)]
    limit: Option<usize>,
    /// Leave out rows that cannot be used, instead of writing nothing.
    #[arg(long)]
    keep_going: bool,
}

fn parse_format(name: &str) -> Result<Format, String> {
    Format::of_name(name)
        .ok_or_else(|| format!("the formats are {}", Format::ALL.map(Format::name).join(", ")))
}

pub fn run(arguments: &ImportArguments) -> Result<Exit> {
    let options = ImportOptions {
        format: arguments.format,
        scripts: arguments.scripts.clone(),
        only: arguments.only.clone(),
        limit: arguments.limit,
        keep_going: arguments.keep_going,
    };
    let imported = import(&arguments.data, &arguments.out, &options)?;
    let format = imported.format.map_or("no format", Format::name);
    println!("{} tasks of {format} in `{}`", imported.folders.len(), arguments.out.display());
    if imported.in_containers > 0 {
        println!(
            "{} of them run in container images; without a container back-end they are listed and cannot be run",
            imported.in_containers
        );
    }
    if imported.other_languages > 0 {
        println!("{} exercises are in languages that need a container", imported.other_languages);
    }
    for error in &imported.left_out {
        let text = error.to_string();
        println!("left out: {}", text.lines().next().unwrap_or_default());
    }
    Ok(if imported.left_out.is_empty() { Exit::Done } else { Exit::No })
}
