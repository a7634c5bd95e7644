//! Was this source built before? Components are kept by source and tools, up to a size.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::store::{Digest, write_whole};

use super::build::Built;
use super::error::ForgeError;
use super::provenance::Provenance;
use super::source::io;

/// Bytes of kept components; the ones that were built first go first.
const CAP: u64 = 2 << 30;

/// The components that this forge built.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    dir: PathBuf,
}

/// What is known of a component beside its bytes.
#[derive(Serialize, Deserialize)]
struct Entry {
    provenance: Provenance,
    exports: Vec<String>,
    grants: Vec<String>,
}

impl Kept {
    pub fn at(cache: &Path) -> Self {
        Self { dir: cache.join("built") }
    }

    fn paths(&self, key: Digest) -> (PathBuf, PathBuf) {
        (self.dir.join(format!("{}.json", key.hex())), self.dir.join(format!("{}.wasm", key.hex())))
    }

    /// The component under `key`, if it is there whole.
    pub fn get(&self, key: Digest) -> Option<Built> {
        let (entry, component) = self.paths(key);
        let entry: Entry = serde_json::from_slice(&fs::read(entry).ok()?).ok()?;
        let component = fs::read(component).ok()?;
        if Digest::of(&component) != entry.provenance.component {
            return None;
        }
        let Entry { provenance, exports, grants } = entry;
        Some(Built { component, provenance, exports, grants, seconds: 0.0, reused: true })
    }

    /// Keeps a component, and drops the oldest past the cap.
    pub fn put(&self, key: Digest, built: &Built) -> Result<(), ForgeError> {
        fs::create_dir_all(&self.dir).map_err(|error| io("make", &self.dir, error))?;
        let entry = Entry {
            provenance: built.provenance.clone(),
            exports: built.exports.clone(),
            grants: built.grants.clone(),
        };
        let (entry_path, component) = self.paths(key);
        // The entry comes last: with it the component is there.
        write_whole(&component, &built.component).map_err(|error| io("write", &component, error))?;
        let text = serde_json::to_vec(&entry)
            .map_err(|error| io("write", &entry_path, std::io::Error::other(error)))?;
        write_whole(&entry_path, &text).map_err(|error| io("write", &entry_path, error))?;
        self.prune(CAP);
        Ok(())
    }

    /// What cannot be dropped stays; the next build tries again.
    fn prune(&self, cap: u64) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let meta = entry.metadata().ok()?;
                Some((meta.modified().ok()?, meta.len(), entry.path()))
            })
            .collect();
        files.sort();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in files {
            if total <= cap {
                return;
            }
            if fs::remove_file(&path).is_ok() {
                total -= bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forge::Language;

    fn built(component: &[u8]) -> Built {
        let digest = Digest::of(component);
        let provenance = Provenance {
            component: digest,
            language: Language::Rust,
            source: digest,
            contract: digest,
            forge: "0".into(),
            tools: Vec::new(),
        };
        Built {
            component: component.to_vec(),
            provenance,
            exports: vec!["tools".into()],
            grants: Vec::new(),
            seconds: 1.0,
            reused: false,
        }
    }

    #[test]
    fn what_is_not_whole_is_built_again() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::at(dir.path());
        let key = Digest::of(b"key");
        assert!(kept.get(key).is_none());
        kept.put(key, &built(b"component")).unwrap();
        let found = kept.get(key).unwrap();
        assert!(found.reused && found.component == b"component" && found.exports == ["tools"]);

        let (entry, component) = kept.paths(key);
        fs::write(&component, b"compon").unwrap();
        assert!(kept.get(key).is_none());
        fs::remove_file(&component).unwrap();
        assert!(kept.get(key).is_none());
        kept.put(key, &built(b"component")).unwrap();
        fs::write(&entry, "{").unwrap();
        assert!(kept.get(key).is_none());
    }

    #[test]
    fn the_oldest_go_first_past_the_cap() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::at(dir.path());
        let (old, new) = (Digest::of(b"old"), Digest::of(b"new"));
        kept.put(old, &built(&[1; 1_000])).unwrap();
        let (entry, component) = kept.paths(old);
        for path in [entry, component] {
            fs::File::open(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        kept.put(new, &built(&[2; 1_000])).unwrap();
        kept.prune(2_000);
        assert!(kept.get(old).is_none() && kept.get(new).is_some());
    }
}
