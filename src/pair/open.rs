//! Is a pair whole, and do its halves belong together?

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tandem_host::harness::HarnessManifest;
use tandem_host::store::{BlobStore, Digest};

use super::error::{Mismatch, PairError};
use super::files::{below, folder_digest, listing};
use super::layout1::{self, Layout1};
use super::manifest::{FILE, PairManifest};
use super::signature::SIGNATURE;

/// Whether halves that were not evaluated together may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halves {
    MustMatch,
    MayDiffer,
}

/// A pair whose files were all checked.
#[derive(Debug)]
pub struct Pair {
    pub folder: PathBuf,
    pub manifest: PairManifest,
    pub harness: HarnessManifest,
    /// Empty unless [`Halves::MayDiffer`] was asked for.
    pub mismatches: Vec<Mismatch>,
}

/// A pair that is whole.
pub enum Verified {
    Pair(Box<Pair>),
    Layout1(Layout1),
}

/// Checks a pair of any known layout, and that it is the one of a digest, if one is given.
///
/// # Errors
/// The first file that is missing, changed or not named, and halves that do not match.
pub fn verify(folder: &Path, digest: Option<&Digest>) -> Result<Verified, PairError> {
    let pair = match open(folder, Halves::MustMatch) {
        Err(PairError::Layout1 { path }) => {
            return match digest {
                // It has no digest of the whole: whether it is the one that was meant cannot be told.
                Some(expected) => Err(PairError::NoDigest { path, expected: *expected }),
                None => Ok(Verified::Layout1(layout1::verify(folder)?)),
            };
        }
        opened => opened?,
    };
    match digest {
        Some(expected) if *expected != pair.manifest.digest => {
            Err(PairError::OtherPair { expected: *expected, found: pair.manifest.digest })
        }
        _ => Ok(Verified::Pair(Box::new(pair))),
    }
}

/// Opens a pair to use it: every digest is checked. Halves that do not match are an error, or a
/// finding in [`Pair::mismatches`].
pub fn open(folder: &Path, halves: Halves) -> Result<Pair, PairError> {
    let manifest = PairManifest::read(folder)?;
    let mut found = listing(folder)?;
    found.remove(FILE);
    found.remove(SIGNATURE);
    let mut mismatches = Vec::new();
    if folder_digest(below(&manifest.files, "policy")) != manifest.policy.digest {
        return Err(PairError::Torn { what: "the policy's digest is not that of its files".into() });
    }
    if manifest.files.get("harness.json") != Some(&manifest.harness) {
        return Err(PairError::Torn { what: "harness.json is not the harness that it names".into() });
    }
    let policy = folder_digest(below(&found, "policy"));
    if policy != manifest.policy.digest {
        let why = first_change(&manifest, &found);
        mismatches.push(Mismatch::Policy { expected: manifest.policy.digest, found: policy, why });
    }
    let outside_policy = |name: &&String| !name.starts_with("policy/");
    for (file, expected) in &manifest.files {
        match found.get(file) {
            _ if !outside_policy(&file) => {}
            None => return Err(PairError::Missing { file: file.clone() }),
            Some(digest) if digest == expected => {}
            Some(digest) => mismatches.push(changed(&manifest, file, *expected, *digest)?),
        }
    }
    if let Some(file) = found.keys().filter(outside_policy).find(|file| !manifest.files.contains_key(*file)) {
        return Err(PairError::Unnamed { file: file.clone() });
    }
    // A harness that was changed may be none any more, which would be told of in its place.
    if let (Halves::MustMatch, Some(mismatch)) = (halves, mismatches.first()) {
        return Err(PairError::Mismatch { mismatch: mismatch.clone() });
    }
    let path = folder.join("harness.json");
    let json = fs::read(&path).map_err(PairError::io("read", &path))?;
    let harness = HarnessManifest::from_json("harness.json of the pair", &json)?;
    if harness.contract != manifest.contract {
        return Err(PairError::Contract { found: harness.contract });
    }
    if Digest::of(&json) == manifest.harness {
        agree(&manifest, &harness)?;
    }
    mismatches.extend(trained_with(folder, &manifest)?);
    match (halves, mismatches.first()) {
        (Halves::MustMatch, Some(mismatch)) => Err(PairError::Mismatch { mismatch: mismatch.clone() }),
        _ => Ok(Pair { folder: folder.to_owned(), manifest, harness, mismatches }),
    }
}

/// In brackets, the first file of the policy that is not as it was packed.
fn first_change(manifest: &PairManifest, found: &BTreeMap<String, Digest>) -> String {
    let told: BTreeMap<_, _> = below(&manifest.files, "policy").collect();
    let found: BTreeMap<_, _> = below(found, "policy").collect();
    for (file, digest) in &told {
        match found.get(file) {
            None => return format!(" (policy/{file} is missing)"),
            Some(other) if other != digest => return format!(" (policy/{file} was changed)"),
            Some(_) => {}
        }
    }
    let added = found.keys().find(|file| !told.contains_key(*file));
    added.map_or_else(String::new, |file| format!(" (policy/{file} was added)"))
}

/// What a changed file means: a half of the pair is another one, or a file is damaged.
fn changed(
    manifest: &PairManifest,
    file: &str,
    expected: Digest,
    found: Digest,
) -> Result<Mismatch, PairError> {
    if file == "harness.json" {
        return Ok(Mismatch::Harness { expected, found });
    }
    let plugin = manifest.plugins.iter().find(|plugin| component_file(&plugin.component) == file);
    match plugin {
        Some(plugin) => Ok(Mismatch::Component { plugin: plugin.name.clone(), expected, found }),
        None => Err(PairError::Changed { file: file.to_owned(), expected, found }),
    }
}

/// Whether manifest and harness name the same plugins.
fn agree(manifest: &PairManifest, harness: &HarnessManifest) -> Result<(), PairError> {
    let torn = |what: String| Err(PairError::Torn { what });
    let named = manifest.plugins.iter().map(|plugin| (&plugin.name, plugin.component));
    if !named.eq(harness.plugins.iter().map(|plugin| (&plugin.name, plugin.digest))) {
        return torn("pair.json and harness.json name different plugins".into());
    }
    for plugin in &manifest.plugins {
        if manifest.files.get(&component_file(&plugin.component)) != Some(&plugin.component) {
            return torn(format!("the component of the plugin `{}` is not in it", plugin.name));
        }
        if let Some(source) = &plugin.source
            && manifest.files.get(&source.file) != Some(&source.digest)
        {
            return torn(format!("the source of the plugin `{}` is not in it", plugin.name));
        }
    }
    Ok(())
}

/// Whether the policy's own record names another harness.
fn trained_with(folder: &Path, manifest: &PairManifest) -> Result<Option<Mismatch>, PairError> {
    let path = folder.join("policy/tandem.json");
    let Ok(text) = fs::read_to_string(&path) else { return Ok(None) };
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| PairError::BadManifest { path, reason: error.to_string() })?;
    let named = value["harness_digest"].as_str();
    let other = named.filter(|named| *named != manifest.harness.to_string());
    Ok(other.map(|found| Mismatch::TrainedWith { expected: manifest.harness, found: found.to_owned() }))
}

/// Where a component lies in a pair.
pub fn component_file(component: &Digest) -> String {
    format!("components/{}.wasm", component.hex())
}

impl Pair {
    /// The harness with its components in `blobs`. A component that was changed is named by what it
    /// is now, which makes it another harness.
    pub fn harness_in(&self, blobs: &BlobStore) -> Result<HarnessManifest, PairError> {
        let mut harness = self.harness.clone();
        for plugin in &mut harness.plugins {
            let file = component_file(&plugin.digest);
            let path = self.folder.join(&file);
            let bytes = fs::read(&path).map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => PairError::Missing { file },
                _ => PairError::io("read", &path)(error),
            })?;
            plugin.digest = blobs.put(&bytes).map_err(|error| PairError::Torn { what: error.to_string() })?;
        }
        Ok(harness)
    }
}
