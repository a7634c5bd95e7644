//! Which cells of the matrix apply to a run, and with which policy and harness?

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use tandem_host::harness::HarnessManifest;
use tandem_host::store::Digest;

use crate::campaign::{CampaignConfig, Publication, RunRecord, UpdateReport};

/// Which tasks an arm is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Tasks that nothing in the campaign has seen.
    HeldOut,
    /// Training tasks that the first round's episodes never solved: fixed before anything was learnt.
    HardSet,
    /// Training tasks for which the run has skills.
    Skilled,
}

impl Part {
    pub const ALL: [Self; 3] = [Self::HeldOut, Self::HardSet, Self::Skilled];

    /// As a heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::HeldOut => "Held-out tasks",
            Self::HardSet => "Fixed hard set: training tasks without a success in the first round",
            Self::Skilled => "Training tasks with skills",
        }
    }
}

/// A cell of the matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    pub name: String,
    /// What it shows, in a few words.
    pub told: String,
    pub part: Part,
    /// Whose policy: the place of a run among the sources.
    pub source: usize,
    pub policy_version: u64,
    pub harness: Digest,
    pub skills: bool,
}

/// All names of arms with what they show, in the order of reports.
pub const ARMS: [(&str, &str); 15] = [
    ("base", "first policy, first harness"),
    ("policy-only", "a policy that was trained under the first harness alone"),
    ("harness-only", "first policy, a harness that was evolved for it alone"),
    ("human", "first policy, the given human-designed harness"),
    ("human-joint", "trained policy, the given human-designed harness"),
    ("joint", "trained policy, evolved harness: the pair"),
    ("bare", "trained policy, first harness: what is left without the evolved plugins"),
    ("cross", "first policy, evolved harness: what the plugins bring alone"),
    ("no-tools", "the pair without the plugins that bring tools"),
    ("no-hooks", "the pair without the plugins that bring no tool"),
    ("frozen", "trained policy, the harness as it was after an early round"),
    ("hard-base", "first policy, first harness"),
    ("hard-joint", "the pair"),
    ("skills-off", "the pair, no skill"),
    ("skills-on", "the pair, each task with its newest skill"),
];

/// What the user chose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Names of arms; all that apply, if empty.
    pub arms: BTreeSet<String>,
    pub human: Option<Digest>,
    /// Whether the second and third source are runs that trained a policy, or evolved a harness, alone.
    pub policy_only: Option<usize>,
    pub harness_only: Option<usize>,
    /// The round after which the harness of `frozen` was in force.
    pub frozen_after: u32,
}

/// What a run came to.
struct Ends {
    first: Digest,
    last: Digest,
    version: u64,
}

impl Ends {
    fn of(record: &RunRecord) -> Result<Self> {
        let publications = record.publications()?;
        let (Some(first), Some(last)) = (publications.first(), publications.last()) else {
            bail!(
                "the run {} has no harness yet\nhelp: let it begin with `tandem train`",
                record.folder().display()
            );
        };
        let updates = record.phases::<UpdateReport>("update")?;
        let version = updates.iter().map(|(.., update)| update.version).max().unwrap_or(0);
        Ok(Self { first: first.digest, last: last.digest, version })
    }
}

/// The tools and hooks of the last harness, as its plugins were found.
pub struct Kinds<'a> {
    /// Names of plugins that bring tools.
    pub with_tools: &'a BTreeSet<String>,
}

/// The arms that apply to the run `records[0]`, of those that were chosen. Harnesses without some plugins
/// are kept in `own`.
///
/// # Errors
/// A chosen arm that does not apply: why.
pub fn arms(
    records: &[&RunRecord],
    config: &CampaignConfig,
    choice: &Choice,
    kinds: &Kinds<'_>,
    own: &RunRecord,
) -> Result<Vec<Arm>> {
    let record = records[0];
    let Ends { first, last, version } = Ends::of(record)?;
    let manifest = record.harness(&last)?;
    let mut found: Vec<Arm> = Vec::new();
    let mut not: Vec<(&str, &str)> = Vec::new();
    let mut add = |name: &'static str, cell: Result<(usize, u64, Digest), &'static str>| {
        let told = ARMS.iter().find(|(other, _)| *other == name).map_or("", |(_, told)| told);
        let part = match name {
            "hard-base" | "hard-joint" => Part::HardSet,
            "skills-off" | "skills-on" => Part::Skilled,
            _ => Part::HeldOut,
        };
        match cell {
            Ok((source, policy_version, harness)) => found.push(Arm {
                name: name.into(),
                told: told.into(),
                part,
                source,
                policy_version,
                harness,
                skills: name == "skills-on",
            }),
            Err(why) => not.push((name, why)),
        }
    };
    let when = |applies: bool, why: &'static str, cell: (usize, u64, Digest)| {
        if applies { Ok(cell) } else { Err(why) }
    };
    let (trained, evolved) = (version > 0, first != last);
    add("base", Ok((0, 0, first)));
    add(
        "policy-only",
        match choice.policy_only {
            Some(at) => Ends::of(records[at])
                .map(|ends| (at, ends.version, ends.first))
                .map_err(|_| "that run has no harness"),
            None => when(
                trained && !config.method.evolves(),
                "it needs a run that trained the policy alone: `--policy-only RUN`",
                (0, version, first),
            ),
        },
    );
    add(
        "harness-only",
        match choice.harness_only {
            Some(at) => {
                Ends::of(records[at]).map(|ends| (at, 0, ends.last)).map_err(|_| "that run has no harness")
            }
            None => when(
                evolved && !config.method.trains(),
                "it needs a run that evolved the harness alone: `--harness-only RUN`",
                (0, 0, last),
            ),
        },
    );
    let human = choice.human.unwrap_or(first);
    let given = "it needs a harness manifest: `--human FILE`";
    add("human", when(choice.human.is_some(), given, (0, 0, human)));
    add(
        "human-joint",
        if trained {
            when(choice.human.is_some(), given, (0, version, human))
        } else {
            Err("the policy was not trained")
        },
    );
    let both = "the run changed policy and harness not both";
    add("joint", when(trained && evolved, both, (0, version, last)));
    add("bare", when(trained && evolved, both, (0, version, first)));
    add("cross", when(trained && evolved, both, (0, 0, last)));
    let without = |keep: &dyn Fn(&str) -> bool| -> Result<Option<Digest>> {
        let mut less: HarnessManifest = manifest.clone();
        less.plugins.retain(|plugin| keep(&plugin.name));
        let fewer = less.plugins.len() < manifest.plugins.len() && !less.plugins.is_empty();
        fewer.then(|| own.add_harness(&less)).transpose()
    };
    let mixed = "the last harness has not both plugins with tools and plugins without";
    let no_tools = without(&|name| !kinds.with_tools.contains(name))?;
    add("no-tools", no_tools.map(|digest| (0, version, digest)).ok_or(mixed));
    let no_hooks = without(&|name| kinds.with_tools.contains(name))?;
    add("no-hooks", no_hooks.map(|digest| (0, version, digest)).ok_or(mixed));
    let early = early_harness(&record.publications()?, choice.frozen_after);
    let frozen = early.filter(|early| *early != last).map(|early| (0, version, early));
    add("frozen", frozen.ok_or("the harness did not change after that round"));
    let changed = trained || evolved;
    let hard = !hard_set(record)?.is_empty();
    let same = "every task of the first round was solved once, or the run has changed nothing";
    add("hard-base", when(hard && changed, same, (0, 0, first)));
    add("hard-joint", when(hard && changed, same, (0, version, last)));
    let skilled = !skilled(record)?.is_empty();
    add("skills-off", when(skilled, "the run has no skills", (0, version, last)));
    add("skills-on", when(skilled, "the run has no skills", (0, version, last)));
    for name in &choice.arms {
        if let Some((name, why)) = not.iter().find(|(other, _)| other == name) {
            bail!("the arm `{name}` does not apply: {why}\nhelp: leave it out of `--arms`");
        }
        if found.iter().all(|arm| arm.name != *name) {
            let names: Vec<_> = ARMS.iter().map(|(name, _)| *name).collect();
            bail!("there is no arm `{name}`\nhelp: arms are {}", names.join(", "));
        }
    }
    found.retain(|arm| choice.arms.is_empty() || choice.arms.contains(&arm.name));
    Ok(found)
}

/// The harness that was in force after round `round`.
fn early_harness(publications: &[Publication], round: u32) -> Option<Digest> {
    publications.iter().rev().find(|publication| publication.round <= round).map(|found| found.digest)
}

/// Training tasks of the first round that no episode of it solved.
pub fn hard_set(record: &RunRecord) -> Result<BTreeSet<String>> {
    let rows = record.episodes()?;
    let first = || {
        rows.iter()
            .filter(|row| row.round == 1 && ["collect", "probe"].contains(&row.arm.as_str()) && row.valid())
    };
    let solved: BTreeSet<&str> = first().filter(|row| row.solved()).map(|row| row.task.as_str()).collect();
    let hard = first().filter(|row| !solved.contains(row.task.as_str()));
    Ok(hard.map(|row| row.task.clone()).collect())
}

/// Tasks for which the run has a skill.
pub fn skilled(record: &RunRecord) -> Result<BTreeSet<String>> {
    let tasks: BTreeSet<String> = record.episodes()?.into_iter().map(|row| row.task).collect();
    let mut found = BTreeSet::new();
    for task in tasks {
        if !record.skills(&task)?.is_empty() {
            found.insert(task);
        }
    }
    Ok(found)
}
