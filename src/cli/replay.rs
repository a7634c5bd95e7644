//! `tandem replay`: what would recorded episodes have been under another harness?

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args;
use tandem_host::agent::Changes;
use tandem_host::harness::{Generation, HarnessHome, HarnessManifest, PluginEntry};
use tandem_host::plugin::Admitted;
use tandem_host::store::BlobStore;

use super::{Exit, setup};
use crate::campaign::{Machine, Replays};

#[derive(Args)]
pub struct ReplayArguments {
    /// The folder of the run.
    run: PathBuf,
    /// Ids of episodes; without them the newest valid ones.
    episodes: Vec<String>,
    /// A harness manifest in TOML; its plugins lie in `--blobs`, or in the run.
    #[arg(long, group = "to")]
    harness: Option<PathBuf>,
    /// Folder of blobs in which the manifest's plugins lie.
    #[arg(long, requires = "harness")]
    blobs: Option<PathBuf>,
    /// The current harness of this harness home.
    #[arg(long, group = "to")]
    home: Option<PathBuf>,
    /// A harness of the run, by its digest or the beginning of it.
    #[arg(long, group = "to")]
    digest: Option<String>,
    /// The harness that the episode had: does it happen again?
    #[arg(long, group = "to")]
    same: bool,
    /// Most episodes, when none is named.
    #[arg(long, default_value_t = 8)]
    most: usize,
    /// The folder of the tasks, if it is not that of the campaign.
    #[arg(long)]
    tasks: Option<PathBuf>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// `tandem replay`.
pub async fn run(arguments: ReplayArguments) -> Result<Exit> {
    let replays = Replays::open(&arguments.run, arguments.tasks.as_deref())?;
    let recorded = replays.pick(&arguments.episodes, arguments.most)?;
    let machine = machine()?;
    let (engine, admission) = (&machine.engine, &machine.admission);
    let fixed = match fixed(&arguments, &replays)? {
        Some((manifest, blobs)) => Some(Generation::build_with(engine, manifest, &blobs, admission).await?),
        None => None,
    };
    let mut all = Vec::new();
    for record in &recorded {
        let generation: Arc<Generation> = match &fixed {
            Some(generation) => generation.clone(),
            None => {
                let manifest = replays.harness(&record.harness)?;
                Generation::build_with(engine, manifest, replays.blobs(), admission).await?
            }
        };
        let replayed = replays.under(record, &generation, &machine).await?;
        let changes = Changes::between(record, &replayed);
        if !arguments.json {
            println!("{changes}");
        }
        all.push(changes);
    }
    finish(&all, arguments.json)
}

/// The harness for all episodes; none means each its own.
fn fixed(arguments: &ReplayArguments, replays: &Replays) -> Result<Option<(HarnessManifest, BlobStore)>> {
    if let Some(path) = &arguments.harness {
        if !path.exists() {
            bail!(
                "there is no harness manifest {}\nhelp: check the path; a harness of the run itself is named with `--digest`",
                path.display()
            );
        }
        let blobs = match &arguments.blobs {
            Some(folder) => BlobStore::open(folder)?,
            None => replays.blobs().clone(),
        };
        return Ok(Some((HarnessManifest::read(path)?, blobs)));
    }
    if let Some(home) = &arguments.home {
        let home = HarnessHome::open(home)?;
        return Ok(Some((home.manifest(&home.resolve("current")?)?, home.blobs().clone())));
    }
    if let Some(prefix) = &arguments.digest {
        return Ok(Some((replays.harness(&replays.harness_named(prefix)?)?, replays.blobs().clone())));
    }
    if !arguments.same {
        bail!(
            "no harness was named\nhelp: give `--harness FILE`, `--home DIR`, `--digest DIGEST` of the run, or `--same`"
        );
    }
    Ok(None)
}

/// What replays need of this machine.
pub fn machine() -> Result<Machine> {
    Ok(Machine { engine: setup::engine()?, admission: setup::admission()?, workspaces: setup::workspaces()? })
}

/// Prints what came of it; 3 when something changes.
fn finish(all: &[Changes], json: bool) -> Result<Exit> {
    let changed = all.iter().filter(|changes| !changes.none()).count();
    match json {
        true => println!("{}", serde_json::to_string_pretty(all)?),
        false => println!("{} of {} episodes would change", changed, all.len()),
    }
    Ok(if changed == 0 { Exit::Done } else { Exit::No })
}

/// Which recorded episodes a command of an author replays.
#[derive(Args)]
pub struct ReplayOptions {
    /// Also replay recorded episodes of this run, and show what would change.
    #[arg(long, value_name = "RUN")]
    pub replay: Option<PathBuf>,
    /// Most episodes to replay.
    #[arg(long, default_value_t = 8, requires = "replay")]
    episodes: usize,
    /// The plugin's name in the harness; a plugin of that name is replaced.
    #[arg(long = "as", value_name = "NAME", requires = "replay")]
    name: Option<String>,
    /// The folder of the tasks, if it is not that of the run's campaign.
    #[arg(long, requires = "replay")]
    tasks: Option<PathBuf>,
}

impl ReplayOptions {
    /// Replays under `new` in the place of its name, against `old` or against the records. `default`
    /// is the name unless one was given. Nothing when no run was named.
    pub async fn changes(
        &self,
        default: &str,
        new: (&Admitted, &[u8]),
        old: Option<(&Admitted, &[u8])>,
        shown: bool,
    ) -> Result<Option<Vec<Changes>>> {
        let Some(run) = &self.replay else { return Ok(None) };
        let replays = Replays::open(run, self.tasks.as_deref())?;
        let recorded = replays.pick(&[], self.episodes)?;
        let entry = |(admitted, bytes): (&Admitted, &[u8])| -> Result<PluginEntry> {
            Ok(PluginEntry {
                name: self.name.clone().unwrap_or_else(|| default.to_owned()),
                digest: replays.blobs().put(bytes)?,
                grants: admitted.capabilities().iter().map(|one| one.name().to_owned()).collect(),
                settings: serde_json::Map::new(),
            })
        };
        let (new, old) = (entry(new)?, old.map(entry).transpose()?);
        let show = |changes: &Changes| {
            if shown {
                println!("{changes}");
            }
        };
        let all = replays.with_plugin(&recorded, &new, old.as_ref(), &machine()?, show).await?;
        if shown {
            let changed = all.iter().filter(|changes| !changes.none()).count();
            println!("{} of {} episodes would change", changed, all.len());
        }
        Ok(Some(all))
    }
}
