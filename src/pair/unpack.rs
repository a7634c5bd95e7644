//! How do the halves of a pair become folders that other commands take?

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use tandem_host::harness::{Base, HarnessHome, NewEntry, PublicationKind};
use tandem_host::store::Digest;

use super::error::PairError;
use super::files::{Existing, copy_folder, write_folder};
use super::open::Pair;

/// Writes `harness/` (a harness home whose current harness is the pair's), `harness.toml` and
/// `policy/` into the new folder `out`; beside an adapter, `start/` too if the run began with one.
///
/// # Errors
/// If the folder exists, or something cannot be written.
pub fn unpack(pair: &Pair, out: &Path) -> Result<()> {
    write_folder(out, Existing::Refuse, |root| {
        let home = HarnessHome::create(&root.join("harness"))?;
        let harness = pair.harness_in(home.blobs())?;
        let digest = home.blobs().put(harness.canonical_json().as_bytes())?;
        let sources = sources(pair, &home)?;
        let entry = NewEntry {
            kind: PublicationKind::Publish,
            actor: "pair unpack".into(),
            reason: format!("the harness of the pair `{}`, {}", pair.manifest.name, pair.manifest.digest),
            harness: digest,
            sources,
            key: None,
        };
        home.publish(entry, Base::Any)?;
        harness.write(&root.join("harness.toml"))?;
        for folder in ["policy", "start"].iter().filter(|folder| pair.folder.join(folder).exists()) {
            copy_folder(&pair.folder.join(folder), &root.join(folder))?;
        }
        Ok(())
    })
}

fn sources(pair: &Pair, home: &HarnessHome) -> Result<BTreeMap<String, Digest>> {
    let mut sources = BTreeMap::new();
    for plugin in &pair.manifest.plugins {
        let Some(source) = &plugin.source else { continue };
        let path = pair.folder.join(&source.file);
        let bytes = fs::read(&path).map_err(PairError::io("read", &path))?;
        let digest = home.blobs().put(&bytes).context("a source cannot be kept")?;
        sources.insert(plugin.name.clone(), digest);
    }
    Ok(sources)
}
