//! How does a change become the current harness? Built and admitted first, then one entry.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde_json::json;
use tandem_host::harness::{
    Base, Generation, HarnessDiff, HarnessHome, HarnessManifest, HomeError, LedgerEntry, NewEntry,
    PublicationKind, Side,
};
use tandem_host::plugin::Step;

use super::edit::Edit;
use super::place::{Bench, Place, check_texts, is_refusal};
use super::{Actor, ChangeArguments};
use crate::cli::Exit;

/// Times that a change is made again on what another publisher made current meanwhile.
const TRIES: u32 = 20;

/// `add`, `remove` and `set`.
pub async fn change(edit: Edit, arguments: ChangeArguments) -> Result<Exit> {
    let bench = Bench::new()?;
    if let Edit::Add(add) = &edit {
        bench.blobs().put(&add.component)?;
    }
    match &arguments.file {
        Some(file) => change_file(&bench, &edit, file, &arguments).await,
        None => change_home(&bench, &edit, &arguments).await,
    }
}

async fn change_home(bench: &Bench, edit: &Edit, arguments: &ChangeArguments) -> Result<Exit> {
    let (place, reason) = (&arguments.place, arguments.reason.as_deref().unwrap_or_default());
    if reason.trim().is_empty() {
        bail!(
            "a publication needs a reason\nhelp: say why with `--reason TEXT`; `tandem harness log` shows it"
        );
    }
    for _ in 0..TRIES {
        let (last, before) = current(place)?;
        let after = edit.apply(before.clone())?;
        if last.is_some() && after.digest() == before.digest() {
            return nothing_to_do(&after, arguments.json);
        }
        let Some(generation) = admitted(bench, place, &after).await? else { return Ok(Exit::No) };
        let home = HarnessHome::create(place.dir())?;
        keep(bench, &home, &after)?;
        let mut sources = BTreeMap::new();
        if let Some((name, source)) = edit.source() {
            sources.insert(name.to_owned(), home.blobs().put(source)?);
        }
        let new = NewEntry {
            kind: PublicationKind::Publish,
            actor: arguments.by.name(),
            reason: reason.to_owned(),
            harness: after.digest(),
            sources,
            key: None,
        };
        let base = Base::Entry(last.as_ref().map_or(0, |entry| entry.number));
        match home.publish(new, base) {
            Ok(appended) => {
                let diff = diff(bench, place, &before, &after, &generation).await;
                return told(&appended.entry, &diff, arguments.json);
            }
            Err(HomeError::Moved { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    bail!("others published {TRIES} times while this change was being made\nhelp: do it again when fewer do")
}

async fn change_file(bench: &Bench, edit: &Edit, file: &Path, arguments: &ChangeArguments) -> Result<Exit> {
    let place = &arguments.place;
    let before = HarnessManifest::read(file)?;
    let after = edit.apply(before.clone())?;
    if after.digest() == before.digest() {
        return nothing_to_do(&after, arguments.json);
    }
    let Some(generation) = admitted(bench, place, &after).await? else { return Ok(Exit::No) };
    let home = HarnessHome::create(place.dir())?;
    keep(bench, &home, &after)?;
    write(file, &after)?;
    let diff = diff(bench, place, &before, &after, &generation).await;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&json!({"file": file, "diff": diff}))?);
    } else {
        println!("{} holds the harness {}", file.display(), after.digest().short());
        print!("{diff}");
    }
    Ok(Exit::Done)
}

/// Replaces the file by the whole new manifest, or leaves it.
fn write(file: &Path, manifest: &HarnessManifest) -> Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let what =
        || format!("{} cannot be written\nhelp: check its folder and the room on the disk", file.display());
    let mut new = tempfile::NamedTempFile::new_in(folder).with_context(what)?;
    new.write_all(manifest.to_toml()?.as_bytes()).with_context(what)?;
    if let Ok(metadata) = std::fs::metadata(file) {
        new.as_file().set_permissions(metadata.permissions()).with_context(what)?;
    }
    new.as_file().sync_all().with_context(what)?;
    new.persist(file).with_context(what)?;
    Ok(())
}

/// Makes a harness that is there current: for `activate` and `rollback`.
pub async fn make_current(
    place: &Place,
    manifest: &HarnessManifest,
    kind: PublicationKind,
    reason: String,
    by: &Actor,
    base: Base,
    json: bool,
) -> Result<Exit> {
    let (last, mut before) = current(place)?;
    if last.as_ref().is_some_and(|entry| entry.harness == manifest.digest()) {
        return nothing_to_do(manifest, json);
    }
    if last.is_none() {
        // Nobody had other prompts and limits here: only what plugins ask for and hook is news.
        before.prompts.clone_from(&manifest.prompts);
        before.limits.clone_from(&manifest.limits);
    }
    let bench = Bench::new()?;
    let Some(generation) = admitted(&bench, place, manifest).await? else { return Ok(Exit::No) };
    let home = HarnessHome::create(place.dir())?;
    keep(&bench, &home, manifest)?;
    let (actor, harness, sources) = (by.name(), manifest.digest(), BTreeMap::new());
    let new = NewEntry { kind, actor, reason, harness, sources, key: None };
    let entry = home.publish(new, base)?.entry;
    let diff = diff(&bench, place, &before, manifest, &generation).await;
    told(&entry, &diff, json)
}

/// The last entry with its harness; a harness without plugins where nothing is published yet.
pub fn current(place: &Place) -> Result<(Option<LedgerEntry>, HarnessManifest)> {
    let home = match HarnessHome::open(place.dir()) {
        Ok(home) => home,
        Err(HomeError::NotAHome { .. }) => return Ok((None, HarnessManifest::bare())),
        Err(error) => return Err(error.into()),
    };
    match home.log()?.pop() {
        None => Ok((None, HarnessManifest::bare())),
        Some(last) => {
            let manifest = home.manifest(&last.harness)?;
            Ok((Some(last), manifest))
        }
    }
}

/// Builds and checks the harness; none when it was refused, which has been said then.
async fn admitted(
    bench: &Bench,
    place: &Place,
    manifest: &HarnessManifest,
) -> Result<Option<Arc<Generation>>> {
    check_texts(manifest)?;
    match bench.build(place, manifest).await {
        Ok(generation) => Ok(Some(generation)),
        Err(error) if is_refusal(&error) => {
            eprintln!("error: {error}");
            if error.admission_step() == Some(Step::Grants) {
                eprintln!("help: with this command: `--grant CAPABILITY`, once for each");
            }
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Brings what was built into the home.
fn keep(bench: &Bench, home: &HarnessHome, manifest: &HarnessManifest) -> Result<()> {
    for plugin in &manifest.plugins {
        home.blobs().put(&bench.blobs().get(&plugin.digest)?)?;
    }
    home.blobs().put(manifest.canonical_json().as_bytes())?;
    Ok(())
}

/// What the publication changed. That the harness of before cannot be built any more hinders
/// nobody from leaving it.
async fn diff(
    bench: &Bench,
    place: &Place,
    before: &HarnessManifest,
    after: &HarnessManifest,
    generation: &Generation,
) -> HarnessDiff {
    let old = bench.facts(place, before).await.map_err(|error| error.to_string());
    let new = generation.facts();
    let facts = old.as_deref().map_err(String::as_str);
    HarnessDiff::of(Side { manifest: before, facts }, Side { manifest: after, facts: Ok(&new) })
}

fn nothing_to_do(manifest: &HarnessManifest, json: bool) -> Result<Exit> {
    if json {
        println!("{}", serde_json::to_string_pretty(&json!({"entry": null, "harness": manifest.digest()}))?);
    } else {
        println!("{} is the current harness already; nothing was published", manifest.digest().short());
    }
    Ok(Exit::Done)
}

fn told(entry: &LedgerEntry, diff: &HarnessDiff, json: bool) -> Result<Exit> {
    if json {
        println!("{}", serde_json::to_string_pretty(&json!({"entry": entry, "diff": diff}))?);
    } else {
        println!("entry {}: the harness {} is current", entry.number, entry.harness);
        if !diff.changes.is_empty() {
            print!("{diff}");
        }
    }
    Ok(Exit::Done)
}
