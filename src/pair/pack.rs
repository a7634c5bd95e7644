//! How does a run become a pair? The newest policy and the newest harness, with what the record
//! tells of both. The same run gives the same bytes.

use std::path::Path;

use anyhow::{Context, Result};
use tandem_host::harness::CONTRACT;
use tandem_host::store::Digest;

use super::commands::{self, Commands};
use super::error::PairError;
use super::evaluation::evaluation;
use super::files::{Existing, listing, write_file, write_folder};
use super::manifest::{LAYOUT, Licences, PairManifest, PairPlugin, PairSource, PolicyForm};
use super::open::component_file;
use super::policy::{licence_of, write_policy};
use super::provenance::{AuthorKind, edits, provenance};
use crate::campaign::{CampaignConfig, RunRecord, UpdateReport};

/// Packs what a finished or stopped run has into the folder `out`.
///
/// # Errors
/// A run that has published nothing, parts of it that cannot be read, a folder that is there, a
/// plugin that runs a command unless those may be shipped.
pub fn pack(
    record: &RunRecord,
    config: &CampaignConfig,
    form: PolicyForm,
    out: &Path,
    existing: Existing,
    commands: Commands,
) -> Result<PairManifest> {
    let newest = record.publications()?.last().map(|newest| record.harness(&newest.digest)).transpose()?;
    if let Some((plugin, runs)) =
        newest.as_ref().and_then(commands::first).filter(|_| commands == Commands::Refuse)
    {
        let (plugin, runs) = (plugin.to_owned(), runs.to_owned());
        return Err(PairError::RunsCommand { plugin, runs }.into());
    }
    write_folder(out, existing, |root| fill(record, config, form, root))
}

fn fill(record: &RunRecord, config: &CampaignConfig, form: PolicyForm, root: &Path) -> Result<PairManifest> {
    let publications = record.publications()?;
    let (first, newest) = (publications.first(), publications.last());
    let (first, digest) = first
        .zip(newest)
        .map(|(first, newest)| (first.digest, newest.digest))
        .context("the run has no harness yet\nhelp: let it begin with `tandem train --resume`")?;
    let harness = record.harness(&digest)?;
    write_file(&root.join("harness.json"), harness.canonical_json().as_bytes())?;
    let mut plugins = Vec::new();
    for plugin in &harness.plugins {
        let component = record.blobs().get(&plugin.digest)?;
        write_file(&root.join(component_file(&plugin.digest)), &component)?;
        plugins.push(PairPlugin {
            name: plugin.name.clone(),
            component: plugin.digest,
            source: source(record, &plugin.digest, root)?,
            provenance: provenance(record, config, &plugin.digest)?,
        });
    }
    let updates = record.phases::<UpdateReport>("update")?;
    let version = updates.iter().map(|(_, _, update)| update.version).max().unwrap_or(0);
    let policy = write_policy(record.folder(), config, version, form, &digest, root)?;
    let rows = record.episodes()?;
    let table = rows.iter().filter(|row| row.arm == "evaluate");
    let licence = |plugin: &PairPlugin| {
        let own = plugin.provenance.author.kind == AuthorKind::Catalog;
        (plugin.name.clone(), own.then(|| env!("CARGO_PKG_LICENSE").to_owned()))
    };
    let licences = Licences {
        base_policy: licence_of(&config.policy.base),
        plugins: plugins.iter().map(licence).collect(),
    };
    let mut manifest = PairManifest {
        layout: LAYOUT,
        // Set when it is sealed.
        digest,
        name: config.name.clone(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        contract: CONTRACT.to_owned(),
        harness: digest,
        evaluation: evaluation(table, first, (version, digest)),
        policy,
        plugins,
        edits: edits(record, config, &harness)?,
        licences,
        files: listing(root)?,
    };
    manifest.seal(root)?;
    Ok(manifest)
}

fn source(record: &RunRecord, component: &Digest, root: &Path) -> Result<Option<PairSource>> {
    let Some(source) = record.source_of(component)? else { return Ok(None) };
    let file = format!("sources/{}.{}", source.digest.hex(), source.language.extension());
    write_file(&root.join(&file), &record.blobs().get(&source.digest)?)?;
    Ok(Some(PairSource { digest: source.digest, language: source.language.name().to_owned(), file }))
}
