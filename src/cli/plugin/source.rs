//! Where does the source of a plugin lie, and what does the forge make of it?

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use tandem_host::forge::{Built, ForgeError, Language, Provenance, Source};

use crate::cli::{Exit, setup};
use crate::view::Progress;

/// The name, without its ending, of the source that `tandem plugin new` writes.
pub const STEM: &str = "plugin";

#[derive(Args)]
pub struct BuildArguments {
    /// One source file, the folder of a Rust crate, or a folder with one source file.
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
            let beside = Provenance::path_beside(output);
            let provenance = serde_json::to_string_pretty(&built.provenance)? + "\n";
            for (path, bytes) in [(output, built.component.as_slice()), (&beside, provenance.as_bytes())] {
                fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))?;
            }
            let took = match built.reused {
                true => "from an earlier build of the same source".to_owned(),
                false => format!("built in {:.2} s", built.seconds),
            };
            println!(
                "{}: {} bytes, {}, {took}",
                output.display(),
                built.component.len(),
                built.provenance.component
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
    let _life = Progress::new().sign_of_life("building");
    Ok(tokio::task::spawn_blocking(move || forge.build(&source)).await?)
}

/// The source that lies at `place`: a file of a language that the forge knows, or what a folder has:
/// a Rust crate, `plugin.` with the ending of a language, `src/lib.rs` or one source file of another name.
pub fn source_at(place: &Path) -> Result<Source> {
    if !place.is_dir() {
        return file(place);
    }
    if place.join("Cargo.toml").is_file() {
        return Ok(Source::Crate { dir: place.to_owned() });
    }
    let named: Vec<PathBuf> = Language::ALL
        .map(|language| place.join(language.file_name(STEM)))
        .into_iter()
        .filter(|path| path.is_file())
        .collect();
    if !named.is_empty() {
        return one_of(place, named);
    }
    if place.join("src/lib.rs").is_file() {
        return file(&place.join("src/lib.rs"));
    }
    let entries = fs::read_dir(place).with_context(|| format!("{} cannot be read", place.display()))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file() && is_source(path))
        .collect();
    found.sort();
    one_of(place, found)
}

/// Whether a file is source of a plugin, by its ending. Declarations for an editor are none.
pub fn is_source(path: &Path) -> bool {
    Language::of_file(path).is_some() && !path.to_string_lossy().ends_with(".d.ts")
}

fn one_of(place: &Path, found: Vec<PathBuf>) -> Result<Source> {
    match found.as_slice() {
        [one] => file(one),
        [] => bail!(
            "{} has no source of a plugin\nhelp: write `{}` there (`tandem plugin new` does), or hand over a component with `--component FILE.wasm`",
            place.display(),
            Language::Rust.file_name(STEM)
        ),
        [first, second, ..] => bail!(
            "{} has more than one source file ({} and {}), so which one is the plugin?\nhelp: call it `{STEM}` with the ending of its language, or make a Rust crate with `Cargo.toml` and `src/lib.rs`",
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
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
