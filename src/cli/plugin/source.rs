//! Where does the source of a plugin lie, and what does the forge make of it?

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use tandem_host::forge::{Built, ForgeError, Source};

use crate::cli::{Exit, setup};

/// The source beside the cases of a plugin that `tandem plugin new` wrote.
pub const FILE: &str = "plugin.rs";

#[derive(Args)]
pub struct BuildArguments {
    /// One Rust file, the folder of a crate, or a folder with one Rust file.
    source: PathBuf,
    /// The component to write.
    #[arg(short, long)]
    output: PathBuf,
}

/// `tandem plugin build`.
pub async fn run(arguments: BuildArguments) -> Result<Exit> {
    let output = &arguments.output;
    match build(source_at(&arguments.source)?).await? {
        Ok(built) => {
            fs::write(output, &built.component)
                .with_context(|| format!("{} cannot be written", output.display()))?;
            println!(
                "{}: {} bytes, {}, built in {:.2} s",
                output.display(),
                built.component.len(),
                tandem_host::store::Digest::of(&built.component),
                built.seconds
            );
            Ok(Exit::Done)
        }
        Err(refused) => {
            eprintln!("error: {refused}");
            Ok(Exit::No)
        }
    }
}

/// Builds in the sandbox of the forge; the inner error is what the forge says of the source.
pub async fn build(source: Source) -> Result<Result<Built, ForgeError>> {
    let forge = setup::forge()?;
    Ok(tokio::task::spawn_blocking(move || forge.build(&source)).await?)
}

/// The source that lies at `place`: a Rust file, or what a folder has of a crate, `plugin.rs`,
/// `src/lib.rs` or one file of another name.
pub fn source_at(place: &Path) -> Result<Source> {
    if !place.is_dir() {
        return file(place);
    }
    if place.join("Cargo.toml").is_file() {
        return Ok(Source::Crate { dir: place.to_owned() });
    }
    for name in [FILE, "src/lib.rs"] {
        if place.join(name).is_file() {
            return file(&place.join(name));
        }
    }
    let entries = fs::read_dir(place).with_context(|| format!("{} cannot be read", place.display()))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file() && path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    found.sort();
    match found.as_slice() {
        [one] => file(one),
        [] => bail!(
            "{} has no Rust source\nhelp: write `{FILE}` there (`tandem plugin new` does), or hand over a component with `--component FILE.wasm`",
            place.display()
        ),
        [first, second, ..] => bail!(
            "{} has more than one Rust file ({} and {}), so which one is the plugin?\nhelp: call it `{FILE}`, or make a crate with `Cargo.toml` and `src/lib.rs`",
            place.display(),
            name_of(first),
            name_of(second)
        ),
    }
}

fn file(path: &Path) -> Result<Source> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read\nhelp: check the path", path.display()))?;
    Ok(Source::File { name: name_of(path), text })
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| FILE.to_owned(), |name| name.to_string_lossy().into_owned())
}
