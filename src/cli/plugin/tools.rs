//! `tandem plugin tools`: what builds each language here, and what installs it?

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use tandem_host::forge::{Forge, ForgeError, Language, Tool};

use crate::cli::{Exit, setup};
use crate::view::Progress;

#[derive(Args)]
pub struct ToolsArguments {
    /// Languages whose compilers to install, or `all`; without it, what is there is shown.
    languages: Vec<String>,
    /// JSON instead of text, for what is there.
    #[arg(long, conflicts_with = "languages")]
    json: bool,
}

pub async fn run(arguments: ToolsArguments) -> Result<Exit> {
    let languages = wanted(&arguments.languages)?;
    let forge = setup::forge()?;
    tokio::task::spawn_blocking(move || match languages.is_empty() {
        true => show(&forge, arguments.json),
        false => install(&forge, &languages),
    })
    .await?
}

fn wanted(words: &[String]) -> Result<BTreeSet<Language>> {
    let mut languages = BTreeSet::new();
    for word in words {
        match Language::named(word) {
            Some(language) => _ = languages.insert(language),
            None if word == "all" => languages.extend(Language::ALL),
            None => {
                bail!("`{word}` is no language that the forge builds\nhelp: they are {}", Language::names())
            }
        }
    }
    Ok(languages)
}

/// Installs what is missing.
fn install(forge: &Forge, languages: &BTreeSet<Language>) -> Result<Exit> {
    let progress = Progress::new();
    for language in languages {
        let _life = progress.sign_of_life(&format!("getting what builds {language}"));
        if let Err(missing) = forge.tools(*language) {
            match forge.install(*language)? {
                Some(folder) => eprintln!("{language}: installed into {}", folder.display()),
                None => return Err(missing.into()),
            }
        }
        let tools = forge.tools(*language)?;
        println!("{}", told(*language, &tools));
    }
    Ok(Exit::Done)
}

fn show(forge: &Forge, as_json: bool) -> Result<Exit> {
    let (mut rows, progress) = (Vec::new(), Progress::new());
    for language in Language::ALL {
        // The first time on a machine, what a language needs is prepared: libraries are compiled.
        let life = progress.sign_of_life(&format!("looking at what builds {language}"));
        let tools = forge.tools(language);
        drop(life);
        let row = match tools {
            Ok(tools) => {
                if !as_json {
                    println!("{}", told(language, &tools));
                }
                json!({"language": language, "tools": tools})
            }
            Err(ForgeError::Toolchain { what, help }) => {
                if !as_json {
                    println!("{language}: {what}\n  help: {help}");
                }
                json!({"language": language, "missing": what, "help": help})
            }
            Err(error) => return Err(error.into()),
        };
        rows.push(row);
    }
    if as_json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    }
    Ok(Exit::Done)
}

/// A language with its tools. Many a tool begins its version with its own name.
fn told(language: Language, tools: &[Tool]) -> String {
    let one = |tool: &Tool| {
        let version = tool.version.strip_prefix(tool.name.as_str()).unwrap_or(&tool.version);
        format!("{} {}", tool.name, version.trim_start())
    };
    format!("{language}: {}", tools.iter().map(one).collect::<Vec<_>>().join(", "))
}
