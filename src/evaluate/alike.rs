//! Did two runs begin alike? A run that trained the policy alone, or evolved the harness alone, says what
//! that brings only where everything else was the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tandem_host::policy::Sampling;
use tandem_host::store::Digest;

use super::bench::Source;
use crate::campaign::script_of;
use crate::pair::{adapter_digest, named_digest};

/// One thing that two runs began with differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    what: &'static str,
    expected: String,
    found: String,
}

impl Difference {
    /// A sentence, where `option` named the other run.
    pub fn told(&self, option: &str) -> String {
        let Self { what, expected, found } = self;
        format!("the {what} of the run of `{option}` is {found}, and that of the evaluated run is {expected}")
    }
}

/// What `other` began with otherwise than `run`: base policy with tokenizer and chat template, by content;
/// the adapter of the warm-up; sampling; the first harness.
///
/// # Errors
/// A base policy or adapter that cannot be read any more; a run without a harness.
pub fn differences(run: &Source, other: &Source) -> Result<Vec<Difference>> {
    let mut all = Vec::new();
    let mut compare = |what: &'static str, expected: String, found: String| {
        if expected != found {
            all.push(Difference { what, expected, found });
        }
    };
    let places = [place(run)?, place(other)?];
    // Weights of many gigabytes are read only where they may differ.
    if places[0] != places[1] {
        let [expected, found] = [parts(&places[0])?, parts(&places[1])?];
        for what in [BASE, TOKENIZER, TEMPLATE] {
            let [expected, found] = [expected.get(what), found.get(what)];
            if expected != found {
                let told = |source: &Source, digest: Option<&Digest>| {
                    let digest = digest.map_or("none".into(), Digest::short);
                    if what == BASE { format!("`{}` ({digest})", source.config.policy.base) } else { digest }
                };
                compare(what, told(run, expected), told(other, found));
            }
        }
    }
    let adapter = |source: &Source| -> Result<String> {
        let digest = source.config.policy.adapter.as_deref().map(adapter_digest).transpose()?;
        Ok(digest.map_or("none".into(), |digest| digest.short()))
    };
    if run.config.policy.adapter != other.config.policy.adapter {
        compare("adapter of the warm-up", adapter(run)?, adapter(other)?);
    }
    let context = |source: &Source| format!("{} tokens", source.config.policy.context);
    compare("context", context(run), context(other));
    let format = |source: &Source| source.config.policy.compute.clone().unwrap_or("by device".into());
    compare("number format", format(run), format(other));
    let sampling = |source: &Source| {
        let Sampling { temperature, max_tokens, stop } = &source.config.rollout.sampling;
        let stop = serde_json::to_string(stop)?;
        anyhow::Ok(format!("temperature {temperature}, {max_tokens} tokens at most, stop {stop}"))
    };
    compare("sampling", sampling(run)?, sampling(other)?);
    compare("first harness", first_harness(run)?.short(), first_harness(other)?.short());
    Ok(all)
}

const BASE: &str = "base policy";
const TOKENIZER: &str = "tokenizer";
const TEMPLATE: &str = "chat template";

fn place(source: &Source) -> Result<PathBuf> {
    let base = &source.config.policy.base;
    let path = match script_of(base) {
        Some(file) => file.to_owned(),
        None => crate::model::resolve(base)?,
    };
    path.canonicalize().with_context(|| format!("{} cannot be read", path.display()))
}

/// The digests of what a base policy consists of; a file holds all of it.
fn parts(path: &Path) -> Result<BTreeMap<&'static str, Digest>> {
    if !path.is_dir() {
        let digest = Digest::of_file(path).with_context(|| format!("{} cannot be read", path.display()))?;
        return Ok(BTreeMap::from([(BASE, digest)]));
    }
    let weights = named_digest(path, |name| name.ends_with(".safetensors") || name == "config.json")?;
    let tokenizer = named_digest(path, |name| name == "tokenizer.json")?;
    let template =
        named_digest(path, |name| ["tokenizer_config.json", "chat_template.jinja"].contains(&name))?;
    Ok(BTreeMap::from([(BASE, weights), (TOKENIZER, tokenizer), (TEMPLATE, template)]))
}

fn first_harness(source: &Source) -> Result<Digest> {
    let publications = source.record.publications()?;
    let first = publications.first().with_context(|| {
        format!(
            "the run {} has no harness yet\nhelp: let it begin with `tandem train`",
            source.record.folder().display()
        )
    })?;
    Ok(first.digest)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use expect_test::{Expect, expect};
    use tandem_host::harness::{HarnessManifest, Limits};

    use super::*;
    use crate::campaign::{CampaignConfig, Publication, RunRecord};

    /// A run in `folder/name` whose policy is the folder `folder/base`; `more` goes into its campaign.
    fn run(folder: &Path, name: &str, base: &str, turns: u64, more: &str) -> Source {
        let run = folder.join(name);
        fs::create_dir_all(&run).unwrap();
        let record = RunRecord::open(&run).unwrap();
        let limits = Limits { turns, ..Limits::default() };
        let digest = record.add_harness(&HarnessManifest { limits, ..HarnessManifest::bare() }).unwrap();
        record.publish(&Publication { round: 0, digest, reason: "x".into() }).unwrap();
        let text = format!("name = \"c\"\npolicy.base = \"./{base}\"\ntasks.train = \"t\"\n{more}");
        Source { record, config: CampaignConfig::parse(&text, folder).unwrap() }
    }

    fn base(folder: &Path, name: &str, changed: &str) {
        fs::create_dir_all(folder.join(name)).unwrap();
        for file in ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"] {
            let text = if file == changed { "other" } else { file };
            fs::write(folder.join(name).join(file), text).unwrap();
        }
    }

    #[test]
    fn runs_that_began_otherwise_are_told_apart_by_what_differs() {
        let check = |changed: &str, turns: u64, more: &str, expected: Expect| {
            let folder = tempfile::tempdir().unwrap();
            base(folder.path(), "one", "");
            base(folder.path(), "two", changed);
            let evaluated = run(folder.path(), "run", "one", 9, "");
            let other = run(folder.path(), "other", "two", turns, more);
            let told = differences(&evaluated, &other).unwrap();
            let told: Vec<_> = told.iter().map(|found| found.told("--policy-only")).collect();
            let place = folder.path().display().to_string();
            expected.assert_eq(&told.join("\n").replace(&place, "DIR"));
        };
        // The same content in another folder is the same policy.
        check("", 9, "", expect![""]);
        check(
            "model.safetensors",
            9,
            "",
            expect![
                "the base policy of the run of `--policy-only` is `DIR/./two` (8db188504d2c), and that of the evaluated run is `DIR/./one` (11c7315541e7)"
            ],
        );
        check(
            "tokenizer.json",
            9,
            "",
            expect![
                "the tokenizer of the run of `--policy-only` is 1ee4d2554a28, and that of the evaluated run is 704cbb6fefff"
            ],
        );
        check(
            "tokenizer_config.json",
            9,
            "",
            expect![
                "the chat template of the run of `--policy-only` is c9039a5e7ec6, and that of the evaluated run is d8ba3ccfcd0c"
            ],
        );
        check(
            "",
            9,
            "rollout.sampling.temperature = 0.5",
            expect![
                "the sampling of the run of `--policy-only` is temperature 0.5, 256 tokens at most, stop [], and that of the evaluated run is temperature 1, 256 tokens at most, stop []"
            ],
        );
        check(
            "",
            8,
            "[policy.lora]\nrank = 4",
            expect![
                "the first harness of the run of `--policy-only` is 2dc999f2be10, and that of the evaluated run is 38a1bf42d019"
            ],
        );
    }
}
