//! What source does the forge take, and what is its digest?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::store::Digest;

use super::error::ForgeError;
use super::language::Language;

/// Caps of a crate; a plugin is small.
const MAX_FILES: usize = 256;
const MAX_BYTES: usize = 4 << 20;
const MAX_DEPTH: usize = 16;

/// Where the root module of Rust lies in the sandbox, for a file and a crate alike, so that the
/// same code gives the same bytes. The one file of another language is `plugin.` and its ending.
pub(super) const ROOT: &str = "src/lib.rs";

/// Source of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// One file that uses the SDK of its language. The ending of `name` says which language that is;
    /// beside that it only names the file in messages.
    File { name: String, text: String },
    /// A Rust crate: a folder with `Cargo.toml` and `src/`; its only dependency is the SDK.
    Crate { dir: PathBuf },
}

/// Source as it goes to the compiler.
pub(super) struct Loaded {
    /// Relative path and content.
    pub files: BTreeMap<String, Vec<u8>>,
    pub language: Language,
    /// Of Rust; empty for other languages.
    pub edition: String,
    /// What messages call the one file, or [`ROOT`].
    pub root_name: String,
}

impl Loaded {
    /// SHA-256 over language, edition, paths and contents, lengths before each.
    pub fn digest(&self) -> Digest {
        let mut bytes = format!("{} {}\n", self.language, self.edition).into_bytes();
        for (path, content) in &self.files {
            bytes.extend(format!("{} {path} {}\n", path.len(), content.len()).into_bytes());
            bytes.extend(content);
        }
        Digest::of(&bytes)
    }
}

impl Source {
    pub(super) fn load(&self) -> Result<Loaded, ForgeError> {
        match self {
            Source::File { name, text } => {
                if text.len() > MAX_BYTES {
                    return Err(too_large(text.len()));
                }
                let Some(language) = Language::of_file(Path::new(name)) else {
                    return Err(ForgeError::Source {
                        what: format!("`{name}` has no ending of a language that the forge builds"),
                        help: format!(
                            "the endings are {}",
                            Language::ALL.map(Language::extension).join(", ")
                        ),
                    });
                };
                let (root, edition) = match language {
                    Language::Rust => (ROOT.to_owned(), "2024"),
                    other => (other.file_name("plugin"), ""),
                };
                Ok(Loaded {
                    files: BTreeMap::from([(root, text.clone().into_bytes())]),
                    language,
                    edition: edition.into(),
                    root_name: name.clone(),
                })
            }
            Source::Crate { dir } => load_crate(dir),
        }
    }
}

fn load_crate(dir: &Path) -> Result<Loaded, ForgeError> {
    let edition = read_manifest(&dir.join("Cargo.toml"))?;
    if dir.join("build.rs").exists() {
        return Err(refused(dir, "has a build script (`build.rs`), which the forge never runs"));
    }
    let mut files = BTreeMap::new();
    let mut bytes = 0;
    collect(&dir.join("src"), "src", 0, &mut files, &mut bytes)?;
    if !files.contains_key(ROOT) {
        return Err(refused(dir, "has no `src/lib.rs`"));
    }
    Ok(Loaded { files, language: Language::Rust, edition, root_name: ROOT.to_owned() })
}

/// Checks that nothing in the manifest asks for more than the SDK; returns the edition.
fn read_manifest(path: &Path) -> Result<String, ForgeError> {
    let text = std::fs::read_to_string(path).map_err(|error| io("read", path, error))?;
    let manifest: toml::Table = text.parse().map_err(|error: toml::de::Error| ForgeError::Source {
        what: format!("`{}` is not valid TOML: {}", path.display(), error.message()),
        help: "correct the manifest".into(),
    })?;

    for section in ["build-dependencies", "target", "patch", "features", "replace"] {
        if manifest.contains_key(section) {
            return Err(refused(path, &format!("has a section `[{section}]`, which the forge does not use")));
        }
    }
    let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
    if let Some(other) =
        dependencies.into_iter().flat_map(toml::Table::keys).find(|key| *key != "tandem-plugin")
    {
        return Err(refused(
            path,
            &format!("depends on `{other}`; the only dependency of a plugin is `tandem-plugin`"),
        ));
    }

    let package = manifest.get("package").and_then(toml::Value::as_table);
    if package.is_some_and(|package| package.contains_key("build")) {
        return Err(refused(path, "names a build script (`package.build`), which the forge never runs"));
    }
    let library = manifest.get("lib").and_then(toml::Value::as_table);
    if library.is_some_and(|library| library.get("proc-macro") == Some(&toml::Value::Boolean(true))) {
        return Err(refused(path, "is a procedural macro, which the forge never runs"));
    }
    let root = library.and_then(|library| library.get("path"));
    if root.is_some_and(|root| root.as_str() != Some(ROOT)) {
        return Err(refused(path, "sets `lib.path`; the root of a plugin is `src/lib.rs`"));
    }
    match package.and_then(|package| package.get("edition")) {
        None | Some(toml::Value::Table(_)) => Ok("2024".into()),
        Some(toml::Value::String(edition)) if ["2018", "2021", "2024"].contains(&edition.as_str()) => {
            Ok(edition.clone())
        }
        Some(other) => Err(refused(path, &format!("has the edition {other}; known are 2018, 2021 and 2024"))),
    }
}

/// Takes in every file of a folder. Links are refused, since they lead anywhere.
fn collect(
    dir: &Path,
    name: &str,
    depth: usize,
    files: &mut BTreeMap<String, Vec<u8>>,
    bytes: &mut usize,
) -> Result<(), ForgeError> {
    if depth > MAX_DEPTH {
        return Err(refused(dir, &format!("is nested deeper than {MAX_DEPTH} folders")));
    }
    for entry in std::fs::read_dir(dir).map_err(|error| io("read", dir, error))? {
        let path = entry.map_err(|error| io("read", dir, error))?.path();
        let Some(file_name) = path.file_name().and_then(|name| name.to_str()) else {
            return Err(refused(&path, "has a name that is not UTF-8"));
        };
        let name = format!("{name}/{file_name}");
        let kind = std::fs::symlink_metadata(&path).map_err(|error| io("read", &path, error))?;
        if kind.is_dir() {
            collect(&path, &name, depth + 1, files, bytes)?;
            continue;
        }
        if !kind.is_file() {
            return Err(refused(&path, "is neither a plain file nor a folder"));
        }
        *bytes += usize::try_from(kind.len()).unwrap_or(usize::MAX);
        if *bytes > MAX_BYTES {
            return Err(too_large(*bytes));
        }
        if files.len() == MAX_FILES {
            return Err(refused(dir, &format!("has more than {MAX_FILES} files")));
        }
        files.insert(name, std::fs::read(&path).map_err(|error| io("read", &path, error))?);
    }
    Ok(())
}

pub(super) fn io(action: &'static str, path: &Path, error: std::io::Error) -> ForgeError {
    ForgeError::Io { action, path: path.to_owned(), error }
}

fn refused(path: &Path, why: &str) -> ForgeError {
    ForgeError::Source {
        what: format!("`{}` {why}", path.display()),
        help: "a plugin is plain Rust over the SDK: a Cargo.toml with `tandem-plugin` and a `src/lib.rs`"
            .into(),
    }
}

fn too_large(bytes: usize) -> ForgeError {
    ForgeError::Source {
        what: format!("the source has {bytes} bytes; the limit is {MAX_BYTES}"),
        help: "leave out embedded data".into(),
    }
}
