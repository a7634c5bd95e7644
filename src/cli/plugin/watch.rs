//! `tandem plugin watch`: is the plugin still good after this save?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, bail};
use clap::Args;
use tandem_host::cases;
use tandem_host::plugin::check;

use super::check::told;
use super::{source, test};
use crate::cli::{Exit, setup};

/// Time between two looks at the folder.
const LOOK: Duration = Duration::from_millis(300);
/// Levels of folders that are looked at; links are not followed.
const DEPTH: usize = 8;

#[derive(Args)]
pub struct WatchArguments {
    /// The plugin's folder.
    folder: PathBuf,
}

pub async fn run(arguments: WatchArguments) -> Result<Exit> {
    let folder = arguments.folder;
    if !folder.is_dir() {
        bail!("{} is no folder\nhelp: name the folder with the plugin's source and cases", folder.display());
    }
    let work = async {
        let mut seen = None;
        loop {
            let now = files(&folder);
            if seen.as_ref() != Some(&now) {
                seen = Some(now);
                round(&folder).await;
                println!("watching {}; Ctrl-C ends", folder.display());
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        never = work => never,
        asked = tokio::signal::ctrl_c() => {
            asked?;
            Ok(Exit::Done)
        }
    }
}

/// Builds, checks and tests once, and says what came of it. Whatever goes wrong, the next save
/// may mend it.
async fn round(folder: &Path) {
    let start = Instant::now();
    match once(folder).await {
        Ok(text) => println!("{text}\n{:.1} s", start.elapsed().as_secs_f64()),
        Err(error) => println!("{}", crate::cli::error::render(&error)),
    }
}

async fn once(folder: &Path) -> Result<String> {
    let component = match source::build(source::source_at(folder)?).await? {
        Ok(built) => built.component,
        Err(refused) => return Ok(format!("error: {refused}")),
    };
    // A new engine each time: it would keep every component that was ever saved.
    let (engine, admission) = (setup::engine()?, setup::admission()?);
    if !folder.join(cases::FILE).exists() && !folder.join("cases").is_dir() {
        return Ok(match check(&engine, &component, None, &admission).await {
            Ok(_) => format!("admitted; no `{}` to run", cases::FILE),
            Err(reasons) => told(&reasons),
        });
    }
    Ok(match test::test(folder, Some(component), &engine, &admission).await? {
        test::Tested::Refused(refusal) => refusal.text(),
        test::Tested::Ran(ran) => ran.report.to_string(),
    })
}

/// When the files that make up a plugin were last written, and how large they are.
fn files(folder: &Path) -> BTreeMap<PathBuf, (Option<SystemTime>, u64)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            if kind.is_dir() && depth < DEPTH {
                folders.push((path, depth + 1));
            } else if (source::is_source(&path)
                || path.extension().is_some_and(|extension| extension == "toml"))
                && let Ok(known) = entry.metadata()
            {
                found.insert(path, (known.modified().ok(), known.len()));
            }
        }
    }
    found
}
