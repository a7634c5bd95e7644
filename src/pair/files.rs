//! Which files are in a folder, what are their digests, and how does a folder appear whole?

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

use tandem_host::store::Digest;

use super::error::PairError;

/// What happens to a folder that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and nothing is written.
    Refuse,
    /// The new one takes its place.
    Replace,
}

/// The digest of a file of any size.
pub fn digest_of(path: &Path) -> Result<Digest, PairError> {
    Digest::of_file(path).map_err(PairError::io("opened", path))
}

/// Path (with `/`) and digest of every file below `folder`.
///
/// # Errors
/// A link or a special file: what it leads to is not part of the folder.
pub fn listing(folder: &Path) -> Result<BTreeMap<String, Digest>, PairError> {
    let mut found = BTreeMap::new();
    let mut folders = vec![String::new()];
    while let Some(below) = folders.pop() {
        let dir = folder.join(&below);
        for entry in fs::read_dir(&dir).map_err(PairError::io("read", &dir))? {
            let entry = entry.map_err(PairError::io("read", &dir))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let file = if below.is_empty() { name } else { format!("{below}/{name}") };
            let kind = entry.file_type().map_err(PairError::io("read", &entry.path()))?;
            if kind.is_dir() {
                folders.push(file);
            } else if kind.is_file() {
                found.insert(file, digest_of(&entry.path())?);
            } else {
                return Err(PairError::NotPlain { file });
            }
        }
    }
    Ok(found)
}

/// One digest for a folder: SHA-256 over a line `HEX  NAME` for each file, by name, which is what
/// `sha256sum` prints.
pub fn folder_digest<'a>(files: impl IntoIterator<Item = (&'a str, &'a Digest)>) -> Digest {
    let ordered: BTreeMap<_, _> = files.into_iter().collect();
    let lines: String = ordered.iter().map(|(name, digest)| format!("{}  {name}\n", digest.hex())).collect();
    Digest::of(lines.as_bytes())
}

/// The files of a listing below `folder/`, by their name in it.
pub fn below<'a>(
    files: &'a BTreeMap<String, Digest>,
    folder: &str,
) -> impl Iterator<Item = (&'a str, &'a Digest)> {
    let prefix = format!("{folder}/");
    files.iter().filter_map(move |(name, digest)| Some((name.strip_prefix(&prefix)?, digest)))
}

/// Whether a name of a manifest is a place inside the pair.
pub fn is_inside(name: &str) -> bool {
    let path = Path::new(name);
    !name.is_empty()
        // Names are shown on terminals, which control characters steer.
        && !name.contains(|letter: char| letter == '\\' || letter.is_control())
        && path.components().all(|part| matches!(part, Component::Normal(_)))
        && path.components().count() == name.split('/').count()
}

/// Writes a file and makes the folders that it lies in.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), PairError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(PairError::io("made", folder))?;
    }
    let mut file = fs::File::create(path).map_err(PairError::io("made", path))?;
    std::io::Write::write_all(&mut file, bytes)
        .and_then(|()| file.sync_all())
        .map_err(PairError::io("written", path))
}

/// Copies the files of one folder, and of those in it, into another.
pub fn copy_folder(from: &Path, to: &Path) -> Result<(), PairError> {
    fs::create_dir_all(to).map_err(PairError::io("made", to))?;
    for entry in fs::read_dir(from).map_err(PairError::io("read", from))? {
        let entry = entry.map_err(PairError::io("read", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_folder(&source, &target)?;
            continue;
        }
        fs::copy(&source, &target).map_err(PairError::io("copied", &source))?;
        set_mode(&target, 0o644)?;
    }
    Ok(())
}

/// Makes the folder `out` with what `fill` writes into the folder that it is given: it appears whole
/// or not at all.
pub fn write_folder<T, E: From<PairError>>(
    out: &Path,
    existing: Existing,
    fill: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, E> {
    if existing == Existing::Refuse && out.exists() {
        return Err(PairError::Exists { path: out.to_owned() }.into());
    }
    let parent = out.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(PairError::io("made", parent))?;
    let scratch = |prefix| {
        tempfile::Builder::new().prefix(prefix).tempdir_in(parent).map_err(PairError::io("made", parent))
    };
    let staging = scratch(".new-")?;
    let written = fill(staging.path())?;
    set_mode(staging.path(), 0o755)?;
    let aside = scratch(".old-")?;
    if out.exists() {
        // It may have appeared while the new one was filled.
        if existing == Existing::Refuse {
            return Err(PairError::Exists { path: out.to_owned() }.into());
        }
        fs::rename(out, aside.path().join("old")).map_err(PairError::io("moved aside", out))?;
    }
    fs::rename(staging.path(), out).map_err(PairError::io("put in place", out))?;
    // It has another name now: there is nothing left to remove.
    let _ = staging.keep();
    Ok(written)
}

/// Makes a folder, or checks that the one that is there is this user's alone.
pub fn own_folder(path: &Path) -> Result<(), PairError> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(PairError::io("made", parent))?;
    }
    match tandem_host::store::own_folder(path).map_err(PairError::io("made", path))? {
        true => Ok(()),
        false => Err(PairError::NotOwn { path: path.to_owned() }),
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<(), PairError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(PairError::io("opened to all", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leads_out_of_the_pair_is_told_apart() {
        for name in ["pair.json", "policy/model.safetensors", "a/b/c", "..a/b"] {
            assert!(is_inside(name), "{name}");
        }
        for name in [
            "",
            "/etc/passwd",
            "../x",
            "a/../../x",
            "./a",
            "a//b",
            "a/",
            "a\\..\\b",
            "a/.",
            "a\u{1b}]0;b",
            "a\nb",
        ] {
            assert!(!is_inside(name), "{name}");
        }
    }

    #[test]
    fn a_folder_has_the_digest_that_sha256sum_gives_it() {
        let digest = Digest::of(b"x\n");
        // printf 'x\n' > a; cp a b; sha256sum a b | sha256sum
        let found = folder_digest([("b", &digest), ("a", &digest)]);
        let lines = format!("{0}  a\n{0}  b\n", digest.hex());
        assert_eq!(found, Digest::of(lines.as_bytes()));
    }

    #[test]
    fn a_folder_that_others_can_enter_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let ours = dir.path().join("ours");
        own_folder(&ours).unwrap();
        own_folder(&ours).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&ours, &link).unwrap();
        assert!(matches!(own_folder(&link), Err(PairError::NotOwn { .. })));
        set_mode(&ours, 0o755).unwrap();
        assert!(matches!(own_folder(&ours), Err(PairError::NotOwn { .. })));
    }

    #[test]
    fn a_failed_write_leaves_the_old_folder() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let write = |existing, text: &'static str, fails: bool| {
            write_folder(&out, existing, |folder| {
                write_file(&folder.join("f"), text.as_bytes())?;
                if fails { Err(PairError::Missing { file: "f".into() }) } else { Ok(()) }
            })
        };
        write(Existing::Refuse, "one", false).unwrap();
        assert!(matches!(write(Existing::Refuse, "two", false), Err(PairError::Exists { .. })));
        assert!(write(Existing::Replace, "three", true).is_err());
        assert_eq!(fs::read_to_string(out.join("f")).unwrap(), "one");
        write(Existing::Replace, "four", false).unwrap();
        assert_eq!(fs::read_to_string(out.join("f")).unwrap(), "four");
        // One that appears meanwhile stays too.
        let late = dir.path().join("late");
        let refused = write_folder(&late, Existing::Refuse, |_| write_file(&late.join("f"), b"another's"));
        assert!(matches!(refused, Err(PairError::Exists { .. })));
        assert_eq!(fs::read_to_string(late.join("f")).unwrap(), "another's");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
