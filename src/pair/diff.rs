//! How does one pair differ from another, beside its harness?

use std::fmt;

use serde::Serialize;
use tandem_host::harness::HarnessDiff;
use tandem_host::store::Digest;

use super::inspect::{rate, written_by};
use super::manifest::{PairManifest, PolicyForm};

/// The differences of two pairs. Shown, it is text for people.
#[derive(Debug, Serialize)]
pub struct PairDiff {
    pub from: Digest,
    pub to: Digest,
    pub policy: Vec<FieldChange>,
    /// Plugins (grants and hook points newly asked for first), order, settings, prompts, limits.
    pub harness: HarnessDiff,
    /// Who wrote the plugins that both have.
    pub authors: Vec<FieldChange>,
    pub evaluation: Vec<FieldChange>,
    pub licences: Vec<FieldChange>,
}

/// One value that differs.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    pub what: String,
    pub from: String,
    pub to: String,
}

impl PairDiff {
    /// How `to` differs from `from`, given how their harnesses differ.
    pub fn of(from: &PairManifest, to: &PairManifest, harness: HarnessDiff) -> Self {
        let mut authors = Vec::new();
        for new in &to.plugins {
            if let Some(old) = from.plugins.iter().find(|old| old.name == new.name) {
                push(&mut authors, &new.name, written_by(old), written_by(new));
            }
        }
        Self {
            from: from.digest,
            to: to.digest,
            policy: policy(from, to),
            harness,
            authors,
            evaluation: evaluation(from, to),
            licences: licences(from, to),
        }
    }

    fn is_empty(&self) -> bool {
        let lists = [&self.policy, &self.authors, &self.evaluation, &self.licences];
        lists.iter().all(|list| list.is_empty()) && self.harness.changes.is_empty()
    }
}

fn push(changes: &mut Vec<FieldChange>, what: &str, from: impl ToString, to: impl ToString) {
    let (from, to) = (from.to_string(), to.to_string());
    if from != to {
        changes.push(FieldChange { what: what.to_owned(), from, to });
    }
}

fn policy(from: &PairManifest, to: &PairManifest) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    let (old, new) = (&from.policy, &to.policy);
    let form = |form| match form {
        PolicyForm::Full => "all weights",
        PolicyForm::Adapter => "adapter",
    };
    let none = |digest: &Option<Digest>| digest.map_or_else(|| "none".into(), |digest| digest.short());
    push(&mut changes, "digest", old.digest.short(), new.digest.short());
    push(&mut changes, "version", old.version, new.version);
    push(&mut changes, "form", form(old.form), form(new.form));
    push(&mut changes, "base", &old.base.name, &new.base.name);
    push(&mut changes, "base digest", old.base.digest.short(), new.base.digest.short());
    push(&mut changes, "adapter that the run began with", none(&old.base.start), none(&new.base.start));
    push(&mut changes, "chat template", none(&old.chat_template), none(&new.chat_template));
    push(&mut changes, "tokens of a conversation", old.context, new.context);
    push(&mut changes, "tokens of a reply", old.sampling.max_tokens, new.sampling.max_tokens);
    push(&mut changes, "temperature", old.sampling.temperature, new.sampling.temperature);
    changes
}

fn evaluation(from: &PairManifest, to: &PairManifest) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    let cell = |pair: &PairManifest| {
        let table = pair.evaluation.as_ref();
        table.and_then(|table| table.cells.iter().find(|cell| cell.of_pair).cloned())
    };
    let (old, new) = (cell(from), cell(to));
    let none = || "not evaluated".to_owned();
    push(
        &mut changes,
        "pass rate",
        old.as_ref().map_or_else(none, rate),
        new.as_ref().map_or_else(none, rate),
    );
    let tasks = |cell: &Option<super::evaluation::Cell>| cell.as_ref().map_or(0, |cell| cell.tasks);
    push(&mut changes, "tasks", tasks(&old), tasks(&new));
    changes
}

fn licences(from: &PairManifest, to: &PairManifest) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    let told = |licence: Option<&String>| licence.cloned().unwrap_or_else(|| "not known".into());
    let of = |pair: &PairManifest| told(pair.licences.base_policy.as_ref());
    push(&mut changes, "base policy", of(from), of(to));
    for (name, new) in &to.licences.plugins {
        if let Some(old) = from.licences.plugins.get(name) {
            push(&mut changes, name, told(old.as_ref()), told(new.as_ref()));
        }
    }
    changes
}

impl fmt::Display for PairDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return match self.from == self.to {
                true => writeln!(f, "the same pair: {}", self.from),
                false => writeln!(
                    f,
                    "policy, harness and evaluation are the same; {} and {} differ in other files",
                    self.from, self.to
                ),
            };
        }
        writeln!(f, "from {} to {}", self.from, self.to)?;
        section(f, "Policy", &self.policy)?;
        if !self.harness.changes.is_empty() {
            writeln!(f, "Harness")?;
            for line in self.harness.to_string().lines() {
                writeln!(f, "  {line}")?;
            }
        }
        section(f, "Who wrote it", &self.authors)?;
        section(f, "Evaluation", &self.evaluation)?;
        section(f, "Licences", &self.licences)
    }
}

fn section(f: &mut fmt::Formatter<'_>, title: &str, changes: &[FieldChange]) -> fmt::Result {
    if !changes.is_empty() {
        writeln!(f, "{title}")?;
    }
    for FieldChange { what, from, to } in changes {
        writeln!(f, "  {what}: {from} -> {to}")?;
    }
    Ok(())
}
