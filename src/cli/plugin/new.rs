//! `tandem plugin new`: how does an author begin?

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use tandem_host::cases;
use tandem_host::forge::Language;
use tandem_host::plugin::HookPoint;

use super::source;
use super::template::Wanted;
use super::templates;
use crate::cli::Exit;

/// The export that is no point: admission asks it for the schema of the settings.
const SETTINGS_SCHEMA: &str = "settings-schema";

#[derive(Args)]
pub struct NewArguments {
    /// The plugin's name: letters a to z, digits and `-`.
    name: String,
    /// The language of its source: rust, javascript, typescript, python, c, cpp, zig or go.
    #[arg(long, default_value = "rust")]
    lang: String,
    /// What it exports: hook points, `tools`, `settings-schema`.
    #[arg(long, value_delimiter = ',', required = true, value_name = "POINT,POINT")]
    points: Vec<String>,
    /// The folder to make; without it, one of the plugin's name.
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub fn run(arguments: NewArguments) -> Result<Exit> {
    let Some(language) = Language::named(&arguments.lang) else {
        bail!(
            "the forge builds {}, not `{}`\nhelp: build a component for the contract in `wit/` with that language's own tools, then hand it over: `tandem plugin check FILE.wasm`, `tandem plugin test FOLDER --component FILE.wasm`, `tandem harness add NAME FILE.wasm`",
            Language::names(),
            arguments.lang
        );
    };
    let wanted = wanted(&arguments)?;
    let dir = arguments.dir.unwrap_or_else(|| PathBuf::from(&wanted.name));
    let file = language.file_name(source::STEM);
    let mut files = vec![
        (file.as_str(), templates::source(&wanted, language)),
        (cases::FILE, wanted.cases()),
        ("README.md", wanted.readme(&file)),
    ];
    let beside = templates::for_the_editor(language);
    files.extend(beside.iter().map(|(name, text)| (*name, (*text).to_owned())));
    make(&dir, &files)?;
    for (name, _) in files.iter().filter(|(name, _)| !name.contains('/')) {
        println!("wrote {}", dir.join(name).display());
    }
    if let Some((name, _)) = files.iter().find_map(|(name, _)| name.split_once('/')) {
        println!("wrote {}, for editors", dir.join(name).display());
    }
    println!("next: tandem plugin test {}", dir.display());
    Ok(Exit::Done)
}

fn wanted(arguments: &NewArguments) -> Result<Wanted> {
    let name = arguments.name.clone();
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 64 || name.starts_with('-') || !name.chars().all(good) {
        bail!(
            "`{name}` cannot be the name of a plugin\nhelp: use 1 to 64 letters a to z, digits and `-`, not `-` first"
        );
    }
    let (mut points, mut settings_schema) = (Vec::new(), false);
    for word in &arguments.points {
        match HookPoint::named(word.trim()) {
            Some(point) => points.push(point),
            None if word.trim() == SETTINGS_SCHEMA => settings_schema = true,
            None => {
                let names: Vec<_> = HookPoint::ALL.into_iter().map(HookPoint::name).collect();
                bail!(
                    "`{word}` is no export of the contract\nhelp: the exports are {}, {SETTINGS_SCHEMA}",
                    names.join(", ")
                )
            }
        }
    }
    points.sort();
    points.dedup();
    if points.is_empty() {
        bail!(
            "a plugin with nothing but `{SETTINGS_SCHEMA}` would never be called\nhelp: add a hook point or `tools`, such as `--points {SETTINGS_SCHEMA},on-submit`"
        );
    }
    Ok(Wanted { name, points, settings_schema })
}

/// Writes all files or none that is there already.
fn make(dir: &Path, files: &[(&str, String)]) -> Result<()> {
    if let Some((name, _)) = files.iter().find(|(name, _)| fs::symlink_metadata(dir.join(name)).is_ok()) {
        bail!(
            "{} is there already, and nothing was written\nhelp: name another folder with `--dir`",
            dir.join(name).display()
        );
    }
    for (name, text) in files {
        let path = dir.join(name);
        let folder = path.parent().unwrap_or(dir);
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let written = fs::File::create_new(&path)
            .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
        written.with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}
