//! How does a run's policy get into a pair, and out of it into memory?

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use tandem_host::policy::Policy;
use tandem_host::store::Digest;
use tandem_trainer::Device;
use tandem_trainer::checkpoint::{self, CheckpointInfo, load_policy, save_adapter, save_policy};
use tandem_trainer::generate::{Generator, GeneratorConfig};
use tandem_trainer::learner::Learner;
use tandem_trainer::tokenizer::Tokenizer;
use tandem_trainer::weights::StoredType;

use super::error::{Mismatch, PairError};
use super::files::{below, digest_of, folder_digest, listing};
use super::manifest::{BasePolicy, PairPolicy, PolicyForm};
use super::open::{Halves, Pair};
use crate::campaign::{CampaignConfig, LocalPolicy};

/// Files of an adapter.
const ADAPTER: [&str; 3] = ["adapter_config.json", "adapter_model.safetensors", "tandem.json"];
/// Files of a base policy beside its weights that decide what it says.
const DECIDING: [&str; 4] = ["config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"];

/// Writes version `version` of a run's policy below `root`, always from the CPU, so that the same
/// run gives the same bytes on every machine.
pub fn write_policy(
    run: &Path,
    config: &CampaignConfig,
    version: u64,
    form: PolicyForm,
    harness: &Digest,
    root: &Path,
) -> Result<PairPolicy> {
    let device = Device::flex();
    let path = crate::model::resolve(&config.policy.base)?;
    let start = config.policy.adapter.as_deref();
    let loaded = load_policy(&path, start, &device)?;
    let folder = run.join("checkpoints").join(format!("v{version}"));
    let settings = config.update.learner(config.rollout.sampling.temperature);
    let learner = Learner::load_state(loaded.model.merged(), settings, &folder).with_context(|| {
        format!("checkpoint {} of the run cannot be read\nhelp: restore it from a backup", folder.display())
    })?;
    let name = base_name(&config.policy.base);
    let info = CheckpointInfo {
        policy_version: version,
        harness_digest: Some(harness.to_string()),
        parent: None,
        base: name.clone(),
    };
    let out = root.join("policy");
    match form {
        PolicyForm::Full => {
            save_policy(&out, &learner.model(), &loaded.tokenizer, StoredType::BF16, &info)?;
        }
        PolicyForm::Adapter => {
            // In full: rounding would make it another policy than the one that was evaluated.
            save_adapter(&out, &learner.model(), StoredType::F32, &info)?;
            if let Some(start) = start {
                copy_adapter(start, &root.join("start"))?;
            }
        }
    }
    let written = listing(root)?;
    let digest = folder_digest(below(&written, "policy"));
    let start = start.map(adapter_digest).transpose()?;
    Ok(PairPolicy {
        form,
        digest,
        version,
        base: BasePolicy { name, digest: base_digest(&path)?, start },
        chat_template: chat_template(&loaded.tokenizer)?,
        context: config.policy.context,
        sampling: config.rollout.sampling.clone(),
    })
}

/// A name that means the same on another machine, or at least tells nothing of this one.
fn base_name(base: &str) -> String {
    let path = Path::new(base);
    match path.file_name() {
        Some(name) if path.exists() => name.to_string_lossy().into_owned(),
        _ => base.to_owned(),
    }
}

fn copy_adapter(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(PairError::io("made", to))?;
    for name in ADAPTER.iter().filter(|name| from.join(name).exists()) {
        let source = from.join(name);
        super::files::write_file(
            &to.join(name),
            &fs::read(&source).map_err(PairError::io("read", &source))?,
        )?;
    }
    Ok(())
}

/// The digest of an adapter's files.
pub fn adapter_digest(folder: &Path) -> Result<Digest, PairError> {
    named_digest(folder, |name| ADAPTER.contains(&name))
}

/// The digest of what a base policy is: its file, or the files of its folder that decide what it says.
pub fn base_digest(path: &Path) -> Result<Digest, PairError> {
    match path.is_dir() {
        false => digest_of(path),
        true => named_digest(path, |name| name.ends_with(".safetensors") || DECIDING.contains(&name)),
    }
}

/// The digest of the files of a folder, not below it, that have a name which is `wanted`.
pub fn named_digest(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<Digest, PairError> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(PairError::io("read", folder))? {
        let entry = entry.map_err(PairError::io("read", folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if wanted(&name) {
            files.insert(name, digest_of(&entry.path())?);
        }
    }
    Ok(folder_digest(files.iter().map(|(name, digest)| (name.as_str(), digest))))
}

fn chat_template(tokenizer: &Tokenizer) -> Result<Option<Digest>> {
    let folder = tempfile::tempdir().context("a scratch folder cannot be made")?;
    tokenizer.save(folder.path())?;
    let text = fs::read_to_string(folder.path().join("tokenizer_config.json"))?;
    let config: serde_json::Value = serde_json::from_str(&text)?;
    Ok(config["chat_template"].as_str().map(|template| Digest::of(template.as_bytes())))
}

/// The licence of a base policy, where the program or the policy's own card tells it.
pub fn licence_of(base: &str) -> Option<String> {
    let known = crate::model::KNOWN.iter().find(|model| model.name == base);
    if let Some(known) = known {
        return Some(known.licence.to_owned());
    }
    let card = fs::read_to_string(crate::model::resolve(base).ok()?.join("README.md")).ok()?;
    let (front, _) = card.strip_prefix("---\n")?.split_once("\n---")?;
    let licence = front.lines().find_map(|line| line.strip_prefix("license:"))?.trim();
    (!licence.is_empty()).then(|| licence.trim_matches(['"', '\'']).to_owned())
}

/// Which policy is put beside the harness of a pair.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Another policy than the pair's: a folder or a GGUF file.
    pub policy: Option<PathBuf>,
    /// Where the base of an adapter lies, if it is not found by its name.
    pub base: Option<String>,
    pub device: String,
    pub halves: Halves,
}

/// Loads the policy of a pair, or the one that stands in for it, and says what does not match.
///
/// # Errors
/// When a half is another one than was evaluated and [`Halves::MustMatch`] is asked for.
pub fn load(pair: &Pair, chosen: &Chosen) -> Result<(checkpoint::Policy, Vec<Mismatch>)> {
    let told = &pair.manifest.policy;
    let own = pair.folder.join("policy");
    let mut mismatches = Vec::new();
    let mut note = |mismatch: Mismatch| match chosen.halves {
        Halves::MustMatch => Err(PairError::Mismatch { mismatch }),
        Halves::MayDiffer => {
            mismatches.push(mismatch);
            Ok(())
        }
    };
    let folder = match &chosen.policy {
        None => own,
        Some(other) => {
            let found = match other.is_dir() {
                true => folder_digest(listing(other)?.iter().map(|(name, digest)| (name.as_str(), digest))),
                false => digest_of(other)?,
            };
            if found != told.digest {
                note(Mismatch::Policy { expected: told.digest, found, why: String::new() })?;
            }
            other.clone()
        }
    };
    let device = crate::model::parse_device(&chosen.device)?;
    let is_adapter = folder.join(ADAPTER[0]).exists() && !folder.join("config.json").exists();
    if !is_adapter {
        return Ok((load_policy(&folder, None, &device)?, mismatches));
    }
    let base = chosen.base.as_deref().unwrap_or(&told.base.name);
    let path = crate::model::resolve(base).with_context(|| {
        format!(
            "the base policy of the pair, `{}` ({}), is not here\nhelp: name its folder or file with `--base`",
            told.base.name, told.base.digest
        )
    })?;
    let found = base_digest(&path)?;
    if found != told.base.digest {
        note(Mismatch::Base { name: base.to_owned(), expected: told.base.digest, found })?;
    }
    let start = Some(pair.folder.join("start")).filter(|start| start.exists());
    let policy = load_policy(&path, start.as_deref(), &device)?;
    Ok((policy.with_adapter(&folder)?, mismatches))
}

/// The policy of a pair as episodes talk to it.
pub fn policy(pair: &Pair, chosen: &Chosen) -> Result<(Arc<dyn Policy>, Vec<Mismatch>)> {
    let (loaded, mismatches) = load(pair, chosen)?;
    let told = &pair.manifest.policy;
    let config = GeneratorConfig { slots: 1, context: told.context };
    let generator = Generator::spawn(loaded.model, told.version, config);
    let (tokenizer, chat) = (Arc::new(loaded.tokenizer), Arc::new(loaded.chat));
    let name = pair.manifest.name.clone();
    Ok((Arc::new(LocalPolicy::new(name, generator, tokenizer, chat, told.version, 1)), mismatches))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_with_another_chat_template_is_another_base() {
        let folder = tempfile::tempdir().unwrap();
        let digest_with = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).unwrap();
            base_digest(folder.path()).unwrap()
        };
        let bare = digest_with("config.json", "{}");
        let check = |name: &str, counts: bool| {
            let with = digest_with(name, "x");
            assert_eq!(with != bare, counts, "{name}");
            fs::remove_file(folder.path().join(name)).unwrap();
        };
        check("model.safetensors", true);
        check("tokenizer.json", true);
        check("tokenizer_config.json", true);
        check("chat_template.jinja", true);
        check("README.md", false);
    }
}
