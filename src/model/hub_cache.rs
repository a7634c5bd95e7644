//! Where does a model of the hub lie on this machine? In the cache that `huggingface_hub` keeps:
//! `models--OWNER--NAME/` with `blobs/` named by checksum, `snapshots/COMMIT/` of links to them,
//! and `refs/REVISION` with the commit that a branch or tag stood for.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tandem_host::store::write_whole;

/// `owner/name[@revision]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubId {
    pub owner: String,
    pub name: String,
    /// A branch, a tag or a commit.
    pub revision: String,
}

impl HubId {
    /// None for a text that cannot be a hub id, such as a path.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, revision) = text.split_once('@').unwrap_or((text, "main"));
        let (owner, name) = id.split_once('/')?;
        let word = |text: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !text.is_empty()
                && text.chars().all(plain)
                && !text.starts_with(['.', '-'])
                && !text.contains("..")
        };
        let is_id = word(owner) && word(name) && revision.split('/').all(word);
        is_id.then(|| Self { owner: owner.into(), name: name.into(), revision: revision.into() })
    }

    /// Whether the revision is a whole commit id, which no branch can move.
    fn is_commit(&self) -> bool {
        self.revision.len() == 40 && self.revision.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
}

impl std::fmt::Display for HubId {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}/{}@{}", self.owner, self.name, self.revision)
    }
}

/// The hub's cache folder.
#[derive(Clone, Debug)]
pub struct HubCache {
    root: PathBuf,
}

impl HubCache {
    /// `HF_HUB_CACHE`, else `HF_HOME/hub`, else `huggingface/hub` in the user's cache folder.
    pub fn from_environment() -> Result<Self> {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        let root = variable("HF_HUB_CACHE")
            .or_else(|| Some(variable("HF_HOME")?.join("hub")))
            .or_else(|| Some(cache()?.join("huggingface/hub")));
        let root = root.context("neither HF_HOME nor HOME is set\nhelp: set HF_HOME to a folder")?;
        Ok(Self { root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a model.
    pub fn of(&self, id: &HubId) -> PathBuf {
        self.root.join(format!("models--{}--{}", id.owner, id.name))
    }

    /// The snapshot that a revision stands for, if its files are all here.
    pub fn snapshot(&self, id: &HubId) -> Option<PathBuf> {
        let model = self.of(id);
        let commit = match id.is_commit() {
            true => id.revision.clone(),
            false => fs::read_to_string(model.join("refs").join(&id.revision)).ok()?.trim().to_owned(),
        };
        let is_name = !commit.is_empty() && commit.bytes().all(|byte| byte.is_ascii_alphanumeric());
        Some(model.join("snapshots").join(commit)).filter(|folder| is_name && is_complete(folder))
    }

    /// Makes the file `name` of a snapshot a link to a blob.
    pub fn link(&self, id: &HubId, commit: &str, name: &str, blob: &str) -> Result<()> {
        let folder = self.of(id).join("snapshots").join(commit);
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let link = folder.join(name);
        let target = Path::new("../../blobs").join(blob);
        if fs::read_link(&link).is_ok_and(|found| found == target) {
            return Ok(());
        }
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link).with_context(|| format!("{} cannot be replaced", link.display()))?;
        }
        std::os::unix::fs::symlink(&target, &link)
            .with_context(|| format!("{} cannot be made", link.display()))
    }

    /// Notes which commit a branch or tag stands for. A commit needs no note.
    pub fn set_revision(&self, id: &HubId, commit: &str) -> Result<()> {
        if id.is_commit() {
            return Ok(());
        }
        let path = self.of(id).join("refs").join(&id.revision);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        }
        write_whole(&path, commit.as_bytes()).with_context(|| format!("{} cannot be written", path.display()))
    }
}

/// Whether a folder has a configuration and all weights that it names: another program may have
/// fetched only some files.
fn is_complete(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).exists();
    if has("adapter_config.json") && has("adapter_model.safetensors") {
        return true;
    }
    if !has("config.json") || !has("tokenizer.json") {
        return false;
    }
    let index = fs::read_to_string(folder.join("model.safetensors.index.json"))
        .ok()
        .and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    let shards = index.as_ref().and_then(|index| index["weight_map"].as_object());
    has("model.safetensors")
        || shards.is_some_and(|shards| shards.values().all(|shard| shard.as_str().is_some_and(has)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_from_paths() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(HubId::parse(text).map(|id| id.to_string()).as_deref(), expected, "{text}");
        };
        check("owner/name", Some("owner/name@main"));
        check("owner/na-me_1.5@v2", Some("owner/na-me_1.5@v2"));
        check("owner/name@refs/pr/1", Some("owner/name@refs/pr/1"));
        for path in
            ["name", "./a/b", "../a", "/a/b", "a/b/c", "a/..", "a/b@../x", "a/b@", "a/", "a b/c", "-a/b"]
        {
            check(path, None);
        }
    }

    #[test]
    fn a_snapshot_counts_only_with_all_its_shards() {
        let root = tempfile::tempdir().unwrap();
        let cache = HubCache { root: root.path().to_owned() };
        let id = HubId::parse("o/n").unwrap();
        let folder = cache.of(&id).join("snapshots/abc");
        fs::create_dir_all(&folder).unwrap();
        cache.set_revision(&id, "abc").unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("config.json", "{}");
        write("tokenizer.json", "{}");
        write(
            "model.safetensors.index.json",
            r#"{"weight_map": {"a": "s-1.safetensors", "b": "s-2.safetensors"}}"#,
        );
        write("s-1.safetensors", "");
        assert_eq!(cache.snapshot(&id), None);
        write("s-2.safetensors", "");
        assert_eq!(cache.snapshot(&id), Some(folder));
        assert_eq!(cache.snapshot(&HubId::parse("o/n@other").unwrap()), None);
    }
}
