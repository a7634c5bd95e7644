//! `tandem gc`: what did runs leave behind that were ended from outside?

use std::path::PathBuf;

use anyhow::Result;
use tandem_host::workspace::{Act, Swept, in_force, sweep};

use super::{Exit, setup};

#[derive(clap::Args)]
pub struct GcArguments {
    /// A folder in which workspaces were made; that of the configuration when not given.
    #[arg(long = "root")]
    roots: Vec<PathBuf>,
    /// Tell what would go, and remove nothing.
    #[arg(long)]
    dry_run: bool,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: GcArguments) -> Result<Exit> {
    let act = if arguments.dry_run { Act::Tell } else { Act::Remove };
    let config = setup::workspaces()?;
    let caps = in_force(&config);
    let roots = match arguments.roots.is_empty() {
        true => vec![config.root()],
        false => arguments.roots,
    };
    let mut whole = true;
    let mut all = Vec::new();
    for root in roots {
        let swept = sweep(&root, act)?;
        whole &= swept.failures.is_empty();
        if !arguments.json {
            print(&root.display().to_string(), &swept, act);
        }
        all.push(serde_json::json!({"root": root, "swept": swept}));
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({"roots": all, "caps": caps}))?);
    } else {
        println!("caps of commands: {caps}");
    }
    Ok(if whole { Exit::Done } else { Exit::Failed })
}

fn print(root: &str, swept: &Swept, act: Act) {
    let verb = if act == Act::Remove { "removed" } else { "would remove" };
    match swept.is_empty() {
        true => println!("{root}: nothing to remove; {} sessions are in use", swept.living.len()),
        false => println!("{root}: {verb} {swept}"),
    }
    for owner in &swept.living {
        println!("  in use by process {}: {}", owner.process.pid, owner.command);
    }
    for failure in &swept.failures {
        println!("  failed: {failure}");
    }
}
