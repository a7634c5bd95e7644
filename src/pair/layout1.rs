//! Is a pair of layout 1 whole? Such pairs are verified, and packed again to be used.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use tandem_host::store::Digest;

use super::error::PairError;
use super::files::{digest_of, is_inside, listing};

/// `pair.json` of layout 1.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout1 {
    #[allow(dead_code)]
    layout: u32,
    #[allow(dead_code)]
    contract: String,
    pub harness: Digest,
    pub plugins: Vec<Layout1Plugin>,
    pub files: BTreeMap<String, Digest>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout1Plugin {
    pub name: String,
    pub component: Digest,
    #[allow(dead_code)]
    source: Option<Digest>,
}

/// Checks every digest of a pair of layout 1.
pub fn verify(pair: &Path) -> Result<Layout1, PairError> {
    let path = pair.join("pair.json");
    let text = fs::read_to_string(&path).map_err(PairError::io("read", &path))?;
    let manifest: Layout1 = serde_json::from_str(&text)
        .map_err(|error| PairError::BadManifest { path, reason: error.to_string() })?;
    for (name, expected) in &manifest.files {
        if !is_inside(name) {
            return Err(PairError::Outside { file: name.clone() });
        }
        let file = pair.join(name);
        if !file.is_file() {
            return Err(PairError::Missing { file: name.clone() });
        }
        let found = digest_of(&file)?;
        if found != *expected {
            return Err(PairError::Changed { file: name.clone(), expected: *expected, found });
        }
    }
    for name in listing(pair)?.into_keys() {
        if name != "pair.json" && !manifest.files.contains_key(&name) {
            return Err(PairError::Unnamed { file: name });
        }
    }
    if manifest.files.get("harness.json") != Some(&manifest.harness) {
        return Err(PairError::Torn { what: "harness.json is not the harness that it names".into() });
    }
    for plugin in &manifest.plugins {
        let name = format!("components/{}.wasm", plugin.component.hex());
        if manifest.files.get(&name) != Some(&plugin.component) {
            let what = format!("the component of plugin `{}` is not what its name says", plugin.name);
            return Err(PairError::Torn { what });
        }
    }
    Ok(manifest)
}
