//! Which cells of the matrix apply to a run, and with which policy and harness?

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use tandem_host::harness::HarnessManifest;
use tandem_host::store::Digest;

use super::pinned::Pinned;
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

/// The arms that apply to the run `records[0]`, whose tasks and skills are `pinned`, of those that were chosen.
/// Harnesses without some plugins are kept in `own`.
///
/// # Errors
/// A chosen arm that does not apply: why.
pub fn arms(
    records: &[&RunRecord],
    config: &CampaignConfig,
    choice: &Choice,
    kinds: &Kinds<'_>,
    pinned: &Pinned,
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
    // A run of a method that changes both ends with a pair, also where no candidate or no update came of it.
    let joint = (trained || evolved) && config.method.trains() && config.method.evolves();
    let one = "the run changed nothing, or its method changes only one of policy and harness";
    add("joint", when(joint, one, (0, version, last)));
    let both = "the run changed policy and harness not both";
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
    let hard = !pinned.hard_set.is_empty();
    let same = "every task of the first round was solved once, or the run has changed nothing";
    add("hard-base", when(hard && changed, same, (0, 0, first)));
    add("hard-joint", when(hard && changed, same, (0, version, last)));
    let skilled = !pinned.skills.is_empty();
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::{Expect, expect};
    use serde_json::json;
    use tandem_host::agent::Outcome;
    use tandem_host::harness::PluginEntry;

    use super::*;
    use crate::campaign::{Arm as Use, Place};
    use crate::evolve::teacher::Skill;
    use crate::evolve::testkit;

    fn harness(record: &RunRecord, plugins: &[&str]) -> Digest {
        let entry = |name: &&str| PluginEntry {
            name: (*name).to_owned(),
            digest: Digest::of(name.as_bytes()),
            grants: Vec::new(),
            settings: serde_json::Map::new(),
        };
        let plugins = plugins.iter().map(entry).collect();
        record.add_harness(&HarnessManifest { plugins, ..HarnessManifest::bare() }).unwrap()
    }

    /// A run of `method` that began bare, published one harness in each round, and trained to `version`.
    fn run(
        method: &str,
        harnesses: &[&[&str]],
        version: u64,
    ) -> (tempfile::TempDir, RunRecord, CampaignConfig) {
        let folder = tempfile::tempdir().unwrap();
        let record = RunRecord::open(folder.path()).unwrap();
        let mut all: Vec<&[&str]> = vec![&[]];
        all.extend_from_slice(harnesses);
        for (round, plugins) in all.iter().enumerate() {
            let digest = harness(&record, plugins);
            record.publish(&Publication { round: round as u32, digest, reason: "x".into() }).unwrap();
        }
        let report = json!({
            "version": version, "groups": 1, "mixed_groups": 1, "left_out": 0, "episodes": 8, "tokens": 9,
            "steps": [], "skipped": null,
        });
        record.end_phase(1, "update", &report).unwrap();
        let text = format!("name = \"c\"\nmethod = \"{method}\"\npolicy.base = \"m\"\ntasks.train = \"t\"");
        let config = CampaignConfig::parse(&text, Path::new("/here")).unwrap();
        (folder, record, config)
    }

    fn told(records: &[&RunRecord], config: &CampaignConfig, choice: &Choice) -> String {
        let with_tools = BTreeSet::from(["edit".to_owned()]);
        let kinds = Kinds { with_tools: &with_tools };
        let pinned = Pinned::of(records[0], records[0]).unwrap();
        let found = match arms(records, config, choice, &kinds, &pinned, records[0]) {
            Ok(found) => found,
            Err(error) => return error.to_string(),
        };
        let names = |arm: &Arm| {
            let manifest = records[arm.source].harness(&arm.harness).unwrap();
            let plugins: Vec<_> = manifest.plugins.into_iter().map(|plugin| plugin.name).collect();
            let skills = if arm.skills { " with skills" } else { "" };
            format!(
                "{}: run {} v{} [{}]{skills}",
                arm.name,
                arm.source,
                arm.policy_version,
                plugins.join(" ")
            )
        };
        found.iter().map(names).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_run_that_changed_both_has_all_crossings() {
        let check = |method: &str, harnesses: &[&[&str]], version: u64, expected: Expect| {
            let (_folder, record, config) = run(method, harnesses, version);
            expected.assert_eq(&told(&[&record], &config, &Choice { frozen_after: 1, ..Choice::default() }));
        };
        check("harness-adapt", &[], 0, expect!["base: run 0 v0 []"]);
        check(
            "harness-adapt",
            &[],
            2,
            expect![[r#"
                base: run 0 v0 []
                joint: run 0 v2 []"#]],
        );
        check(
            "grpo",
            &[],
            3,
            expect![[r#"
                base: run 0 v0 []
                policy-only: run 0 v3 []"#]],
        );
        check(
            "harness-only",
            &[&["hold"]],
            0,
            expect![[r#"
                base: run 0 v0 []
                harness-only: run 0 v0 [hold]"#]],
        );
        check(
            "harness-adapt",
            &[&["hold"], &["hold", "edit"]],
            2,
            expect![[r#"
                base: run 0 v0 []
                joint: run 0 v2 [hold edit]
                bare: run 0 v2 []
                cross: run 0 v0 [hold edit]
                no-tools: run 0 v2 [hold]
                no-hooks: run 0 v2 [edit]
                frozen: run 0 v2 [hold]"#]],
        );
    }

    #[test]
    fn other_runs_a_human_harness_hard_tasks_and_skills_add_their_arms() {
        let (_folder, record, config) = run("harness-adapt", &[&["hold"]], 2);
        let (_one, policy, _) = run("grpo", &[], 5);
        let (_two, evolved, _) = run("harness-only", &[&["search"]], 0);
        let place = Place { round: 1, arm: Use::Collect, group: "g".into() };
        for (number, (task, solved)) in [("a", false), ("b", false), ("b", true)].into_iter().enumerate() {
            let mut episode = testkit::episode(task);
            episode.id = number.to_string();
            episode.outcome = if solved { Outcome::Solved } else { Outcome::Unsolved };
            record.add_episode(&place, &episode).unwrap();
        }
        let skill = Skill { task: "b".into(), mechanism: "m".into(), check: "c".into(), text: "t".into() };
        record.add_skill("p", &skill).unwrap();
        let choice = Choice {
            arms: BTreeSet::new(),
            human: Some(harness(&record, &["by-hand"])),
            policy_only: Some(1),
            harness_only: Some(2),
            frozen_after: 1,
        };
        let records = [&record, &policy, &evolved];
        expect![[r#"
            base: run 0 v0 []
            policy-only: run 1 v5 []
            harness-only: run 2 v0 [search]
            human: run 0 v0 [by-hand]
            human-joint: run 0 v2 [by-hand]
            joint: run 0 v2 [hold]
            bare: run 0 v2 []
            cross: run 0 v0 [hold]
            hard-base: run 0 v0 []
            hard-joint: run 0 v2 [hold]
            skills-off: run 0 v2 [hold]
            skills-on: run 0 v2 [hold] with skills"#]]
        .assert_eq(&told(&records, &config, &choice));
        let one = |name: &str| Choice { arms: BTreeSet::from([name.to_owned()]), ..choice.clone() };
        expect!["joint: run 0 v2 [hold]"].assert_eq(&told(&records, &config, &one("joint")));
        expect![[r#"
            the arm `frozen` does not apply: the harness did not change after that round
            help: leave it out of `--arms`"#]]
        .assert_eq(&told(&records, &config, &one("frozen")));
        let unknown = told(&records, &config, &one("both"));
        assert!(unknown.starts_with("there is no arm `both`\nhelp: arms are base, policy-only"), "{unknown}");
    }
}
