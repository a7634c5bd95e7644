//! `tandem plugin inspect`: what is in a component, and what would it be allowed?

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use tandem_host::forge::Provenance;
use tandem_host::harness::PluginFacts;
use tandem_host::plugin::{Admitted, Capability, admit_as_asked};

use super::read;
use crate::cli::{Exit, setup};

#[derive(Args)]
pub struct InspectArguments {
    /// The component.
    file: PathBuf,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: InspectArguments) -> Result<Exit> {
    let bytes = read(&arguments.file)?;
    let admitted = match admit_as_asked(&setup::engine()?, &bytes, &setup::admission()?).await {
        Ok(admitted) => admitted,
        Err(refused) => {
            match arguments.json {
                true => println!("{}", serde_json::to_string_pretty(&json!({"reasons": [refused]}))?),
                false => eprintln!("error: {refused}"),
            }
            return Ok(Exit::No);
        }
    };
    let facts = facts(&arguments.file, &admitted);
    let provenance = provenance(&arguments.file, &admitted)?;
    if arguments.json {
        let mut value = serde_json::to_value(&facts)?;
        value["provenance"] = json!(provenance);
        value["size"] = json!(admitted.size());
        let allows = facts.capabilities.iter().map(|one| (one.name().to_owned(), json!(one.allows())));
        value["allows"] = serde_json::Value::Object(allows.collect());
        println!("{}", serde_json::to_string_pretty(&value)?);
    } else {
        print!("{}", text(&facts, admitted.size(), provenance.as_ref()));
    }
    Ok(Exit::Done)
}

/// What admission found, under the file's name.
pub fn facts(file: &std::path::Path, admitted: &Admitted) -> PluginFacts {
    let name = file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    PluginFacts::of(name, admitted)
}

/// What the file beside the component says of its making; none where there is no such file.
fn provenance(component: &Path, admitted: &Admitted) -> Result<Option<Provenance>> {
    let file = Provenance::path_beside(component);
    if !file.exists() {
        return Ok(None);
    }
    let text = std::fs::read(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    let found: Provenance = serde_json::from_slice(&text).with_context(|| {
        format!(
            "{} is no provenance record\nhelp: build the plugin again, or delete the file",
            file.display()
        )
    })?;
    if found.component != admitted.digest() {
        bail!(
            "{} is about the component {}, and {} is {}\nhelp: build the plugin again, or delete the file",
            file.display(),
            found.component,
            component.display(),
            admitted.digest()
        );
    }
    Ok(Some(found))
}

fn text(facts: &PluginFacts, size: usize, provenance: Option<&Provenance>) -> String {
    let mut text = format!("{} has {size} bytes\n{}\n", facts.name, facts.digest);
    let mut section = |heading: &str, lines: Vec<String>| {
        text += &format!("{heading}:\n");
        let none = lines.is_empty().then(|| "nothing".to_owned());
        for line in lines.into_iter().chain(none) {
            text += &format!("  {line}\n");
        }
    };
    section("It is called at", facts.points.iter().map(|point| point.name().to_owned()).collect());
    let asks = |capability: &Capability| format!("`{capability}`: {}", capability.allows());
    section("It asks for", facts.capabilities.iter().map(asks).collect());
    section("It imports", facts.imports.clone());
    if !facts.tools.is_empty() {
        let tools = facts.tools.iter();
        section(
            "It offers the tools",
            tools
                .map(|tool| format!("`{}`: {}\n    {}", tool.name, tool.description, tool.input_schema))
                .collect(),
        );
    }
    match &facts.settings_schema {
        Some(schema) => section("Its settings fit", vec![schema.to_string()]),
        None => section("Its settings fit", vec!["any JSON object; it declares no schema".to_owned()]),
    }
    let made = match provenance {
        Some(made) => {
            let source = format!("{} source {}", made.language, made.source);
            let tools =
                made.tools.iter().map(|tool| format!("{} ({}, {})", tool.name, tool.version, tool.digest));
            [source, format!("the contract {}", made.contract)].into_iter().chain(tools).collect()
        }
        None => vec!["no record beside it; `tandem plugin build` writes one".to_owned()],
    };
    section("It was made from", made);
    text
}
