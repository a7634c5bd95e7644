//! How does a pair become a model folder that `transformers` loads, with the harness beside the
//! weights and a card that says how to use both?

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Result;
use tandem_trainer::checkpoint::{CheckpointInfo, save_policy};
use tandem_trainer::weights::StoredType;

use super::error::PairError;
use super::files::{Existing, copy_folder, write_file, write_folder};
use super::inspect::{proposed_by, rate, with_interval, written_by};
use super::manifest::{FILE, PairManifest, PolicyForm};
use super::open::Pair;
use super::policy::{Chosen, load};

/// Writes the folder `out`: weights, configuration, tokenizer and chat template as `transformers`
/// reads them, `README.md`, and `tandem/` with the harness, its components and sources. The base of
/// an adapter is loaded as `chosen` says, and both become one.
///
/// # Errors
/// If the folder exists, the base is not here, or something cannot be written.
pub fn export(pair: &Pair, chosen: &Chosen, out: &Path) -> Result<()> {
    write_folder(out, Existing::Refuse, |root| {
        let manifest = &pair.manifest;
        match manifest.policy.form {
            PolicyForm::Full => copy_folder(&pair.folder.join("policy"), root)?,
            PolicyForm::Adapter => {
                let (policy, _) = load(pair, chosen)?;
                let info = CheckpointInfo {
                    policy_version: manifest.policy.version,
                    harness_digest: Some(manifest.harness.to_string()),
                    parent: None,
                    base: manifest.policy.base.name.clone(),
                };
                let whole = root.join("whole");
                save_policy(&whole, &policy.model, &policy.tokenizer, StoredType::BF16, &info)?;
                copy_folder(&whole, root)?;
                fs::remove_dir_all(&whole).map_err(PairError::io("removed", &whole))?;
            }
        }
        let beside = root.join("tandem");
        for folder in ["components", "sources"].iter().filter(|name| pair.folder.join(name).exists()) {
            copy_folder(&pair.folder.join(folder), &beside.join(folder))?;
        }
        for file in [FILE, "harness.json"] {
            let path = pair.folder.join(file);
            write_file(&beside.join(file), &fs::read(&path).map_err(PairError::io("read", &path))?)?;
        }
        pair.harness.write(&beside.join("harness.toml"))?;
        write_file(&root.join("README.md"), card(manifest)?.as_bytes())?;
        Ok(())
    })
}

/// The model card.
fn card(pair: &PairManifest) -> Result<String> {
    let mut text = String::new();
    let licence = pair.licences.base_policy.as_deref();
    writeln!(text, "---\nlibrary_name: transformers\npipeline_tag: text-generation")?;
    writeln!(text, "base_model: {}", serde_json::to_string(&pair.policy.base.name)?)?;
    writeln!(text, "license: {}", licence_id(licence))?;
    if let ("other", Some(licence)) = (licence_id(licence), licence) {
        writeln!(text, "license_name: {}", serde_json::to_string(licence)?)?;
    }
    writeln!(text, "tags: [tandem, code-agent]\n---\n\n# {}\n", pair.name)?;
    writeln!(
        text,
        "Version {} of a coding agent's policy, trained from `{}`, and the harness that it was trained with. The two \
         are a pair: without its harness a policy solves less (in the published experiments up to 7.7 points), and \
         the numbers below hold for both together.\n",
        pair.policy.version, pair.policy.base.name
    )?;
    writeln!(text, "| | digest |\n|---|---|\n| pair | `{}` |", pair.digest)?;
    writeln!(text, "| policy | `{}` |\n| harness | `{}` |\n", pair.policy.digest, pair.harness)?;
    writeln!(text, "## Evaluation\n")?;
    match &pair.evaluation {
        None => writeln!(text, "It was packed before its run came to an evaluation.\n")?,
        Some(table) => {
            writeln!(
                text,
                "| policy | harness | tasks | episodes | pass rate, 95 % |\n|---|---|---|---|---|"
            )?;
            for cell in &table.cells {
                let mark = if cell.of_pair { "**" } else { "" };
                writeln!(
                    text,
                    "| {mark}v{}{mark} | `{}` | {} | {} | {mark}{}{mark} |",
                    cell.policy_version,
                    cell.harness.short(),
                    cell.tasks,
                    cell.episodes,
                    rate(cell)
                )?;
            }
            writeln!(text, "\nThe bold row is this pair. {}.", capital(&table.method))?;
            if let Some(gain) = &table.gain {
                let gain = with_interval(gain.pass_rate, gain.interval);
                writeln!(text, "Over what the run began with: {gain}.")?;
            }
            writeln!(text)?;
        }
    }
    writeln!(text, "## Harness\n")?;
    if pair.plugins.is_empty() {
        writeln!(text, "Prompts and limits alone; no plugins.")?;
    }
    for plugin in &pair.plugins {
        let why = plugin.provenance.mechanism.as_deref().unwrap_or("no reason was noted");
        writeln!(text, "- `{}`: {}; {why}", plugin.name, written_by(plugin))?;
    }
    for edit in &pair.edits {
        let why = edit.provenance.mechanism.as_deref().unwrap_or("no reason was noted");
        writeln!(text, "- `{}` changes {}; {}; {why}", edit.name, edit.changes, proposed_by(edit))?;
    }
    writeln!(
        text,
        "\nManifest, components and sources lie in `tandem/`.\n\n## Use\n\nWith Tandem, from \
         the pair that this folder was made from:\n\n```sh\ntandem pair verify PAIR --digest {}\ntandem run --pair \
         PAIR --repo . --task \"what to do\"\n```\n\nWith an inference server that serves this folder, the harness \
         around it:\n\n```sh\ntandem run --pair PAIR --repo . --task \"what to do\" --endpoint \
         http://localhost:8000/v1 --model NAME\n```\n\nThe weights alone, without what the harness gives them:\n\n\
         ```python\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n\ntokenizer = \
         AutoTokenizer.from_pretrained(\"FOLDER\")\nmodel = AutoModelForCausalLM.from_pretrained(\"FOLDER\")\n```",
        pair.digest
    )?;
    Ok(text)
}

/// The hub's word for a licence.
fn licence_id(licence: Option<&str>) -> &'static str {
    match licence {
        Some("Apache-2.0" | "apache-2.0") => "apache-2.0",
        Some("MIT" | "mit") => "mit",
        Some(text) if text.to_lowercase().starts_with("gemma") => "gemma",
        Some(text) if text.to_lowercase().starts_with("llama3") => "llama3",
        _ => "other",
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
