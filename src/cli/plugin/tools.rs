//! `tandem plugin tools`: what builds each language here, and what installs it?

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use tandem_host::forge::{Forge, ForgeError, Language};

use crate::cli::{Exit, setup};

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
    for language in languages {
        if let Err(missing) = forge.tools(*language) {
            match forge.install(*language)? {
                Some(folder) => eprintln!("{language}: installed into {}", folder.display()),
                None => return Err(missing.into()),
            }
        }
        let tools = forge.tools(*language)?;
        let names: Vec<_> = tools.iter().map(|tool| format!("{} {}", tool.name, tool.version)).collect();
        println!("{language}: {}", names.join(", "));
    }
    Ok(Exit::Done)
}

fn show(forge: &Forge, as_json: bool) -> Result<Exit> {
    let mut rows = Vec::new();
    for language in Language::ALL {
        let row = match forge.tools(language) {
            Ok(tools) => {
                if !as_json {
                    let names: Vec<_> =
                        tools.iter().map(|tool| format!("{} {}", tool.name, tool.version)).collect();
                    println!("{language}: {}", names.join(", "));
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
