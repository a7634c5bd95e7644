//! The example campaigns end to end: small, with a script for the policy and scripts for the teachers.

mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use program::{Program, root};
use serde_json::Value;

const TRAINED: [&str; 8] = [
    "celsius-module",
    "clock-text",
    "double-discount",
    "initials",
    "label-width",
    "leap-years",
    "rain-total",
    "slug-helper",
];
const HELD_OUT: [&str; 3] = ["even-numbers", "page-count", "tax-added"];
/// A note of the example skill, which the script answers to.
const SKILL: &str = "Rules with exceptions are easy to join";

/// Replies that hand in a patch that applies and repairs nothing.
const WRONG: &str = r#"["""```bash
echo '# seen' >> $(git ls-files '*.py' | head -n 1)
```""", """```bash
echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff
```"""]"#;

/// A folder for one campaign: some tasks, some others, a script.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (set, names) in [("tasks", &TRAINED[..]), ("held-out", &HELD_OUT[..])] {
            for name in names {
                let from = root().join("examples/tasks/first-steps").join(name);
                copy(&from, &folder.path().join(set).join(name));
            }
        }
        std::fs::write(folder.path().join("policy.toml"), script).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// An example with the script for its policy, made small by `smaller`: `section.key` and the value.
    fn example(&self, name: &str, smaller: &[(&str, &str)]) -> PathBuf {
        let file = root().join("examples/campaigns").join(name);
        let mut campaign: toml::Table = std::fs::read_to_string(file).unwrap().parse().unwrap();
        campaign.insert("policy".into(), toml::from_str("base = 'script:policy.toml'").unwrap());
        campaign.remove("harness");
        let always = [("tasks.train", "'tasks'"), ("rollout.concurrency", "8"), ("evaluation.tasks", "2")];
        for (key, value) in always.iter().chain(smaller) {
            let value: toml::Table = format!("v = {value}").parse().unwrap();
            let mut table = &mut campaign;
            let parts: Vec<&str> = key.split('.').collect();
            for part in &parts[..parts.len() - 1] {
                let inner = table.entry(*part).or_insert_with(|| toml::Table::new().into());
                table = inner.as_table_mut().unwrap();
            }
            table.insert(parts[parts.len() - 1].into(), value["v"].clone());
        }
        let path = self.path("campaign.toml");
        std::fs::write(&path, toml::to_string(&campaign).unwrap()).unwrap();
        path
    }

    fn train(&self, campaign: &Path) -> Run {
        self.train_into(campaign, "run")
    }

    fn train_into(&self, campaign: &Path, folder: &str) -> Run {
        let run = self.path(folder);
        let arguments = ["train".into(), text(campaign), "--run".into(), text(&run)];
        let output = Program::new(&arguments).run();
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        // A second start finds everything done.
        let before = Run { folder: run.clone() }.episodes().len();
        let output = Program::new(&[&arguments[..], &["--resume".into()]].concat()).run();
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let run = Run { folder: run };
        assert_eq!(run.episodes().len(), before, "a finished run has run episodes again");
        run
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A finished run, as an outsider reads it.
struct Run {
    folder: PathBuf,
}

#[derive(Debug)]
struct Episode {
    id: String,
    round: u32,
    arm: String,
    task: String,
    version: u64,
    harness: String,
    outcome: String,
    record: String,
}

impl Run {
    fn rows<T>(&self, sql: &str, read: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>) -> Vec<T> {
        let connection = rusqlite::Connection::open(self.folder.join("run.sqlite")).unwrap();
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| read(row)).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    }

    fn episodes(&self) -> Vec<Episode> {
        let sql = "SELECT id, round, arm, task, policy_version, harness, outcome, record FROM episode";
        self.rows(sql, |row| {
            Ok(Episode {
                id: row.get(0)?,
                round: row.get(1)?,
                arm: row.get(2)?,
                task: row.get(3)?,
                version: row.get(4)?,
                harness: row.get(5)?,
                outcome: row.get(6)?,
                record: row.get(7)?,
            })
        })
    }

    fn of_arm(&self, arm: &str) -> Vec<Episode> {
        self.episodes().into_iter().filter(|episode| episode.arm == arm).collect()
    }

    fn phases(&self, name: &str) -> BTreeMap<u32, Value> {
        let sql = format!("SELECT round, report FROM phase WHERE name = '{name}'");
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, String>(1)?));
        let rows = self.rows(&sql, read).into_iter();
        rows.map(|(round, report)| (round, serde_json::from_str(&report).unwrap())).collect()
    }

    fn published(&self) -> Vec<(u32, String)> {
        self.rows("SELECT round, reason FROM publication ORDER BY seq", |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// The record of an episode as text.
    fn record(&self, episode: &Episode) -> String {
        let hex = episode.record.trim_start_matches("sha256:");
        let mut folders = vec![self.folder.join("blobs")];
        while let Some(folder) = folders.pop() {
            for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                let tail: String = path.to_string_lossy().chars().filter(|c| *c != '/').collect();
                if path.is_file() && tail.ends_with(hex) {
                    return std::fs::read_to_string(path).unwrap();
                }
                if path.is_dir() {
                    folders.push(path);
                }
            }
        }
        panic!("there is no record of {}", episode.id)
    }

    fn report(&self) -> String {
        Program::new(&["report".into(), text(&self.folder)]).run().stdout
    }
}

fn solved(episodes: &[Episode]) -> usize {
    episodes.iter().filter(|episode| episode.outcome == "solved").count()
}

#[test]
fn grpo_trains_under_one_harness_and_tops_up_what_teaches_nothing() {
    let scratch = Scratch::new(
        "[[rules]]\ntasks = ['tandem/initials']\nchance = 0.0\n[[rules]]\nfrom_version = 1\nchance = 0.9\n[[rules]]\nchance = 0.3\n",
    );
    let campaign = scratch.example(
        "grpo.toml",
        &[
            ("rounds", "2"),
            ("rollout.group_size", "2"),
            ("rollout.groups", "8"),
            ("rollout.top_up.cap", "6"),
            ("rollout.top_up.stage", "2"),
            ("evaluation.episodes", "1"),
        ],
    );
    let run = scratch.train(&campaign);
    assert_eq!(run.published().len(), 1);
    let episodes = run.episodes();
    assert_eq!(episodes.iter().map(|e| &e.harness).collect::<BTreeSet<_>>().len(), 1);
    // Rates are those of the first episodes: two a group, whatever was added.
    assert_eq!(run.of_arm("collect").len(), 2 * 8 * 2);
    let added = run.of_arm("top-up");
    // What is never solved is given up at the cap; nothing spins.
    let never = |round| added.iter().filter(|e| e.task == "tandem/initials" && e.round == round).count();
    assert_eq!((never(1), never(2)), (4, 4));
    let told = &run.phases("top-up")[&1];
    assert_eq!(told["episodes"], added.iter().filter(|e| e.round == 1).count());
    assert!(told["given_up"].as_u64() >= Some(1) && told["rescued"].as_u64() >= Some(1), "{told}");
    let updates = run.phases("update");
    assert_eq!((updates[&1]["version"].as_u64(), updates[&2]["version"].as_u64()), (Some(1), Some(2)));
    // A group that was rescued is in the gradient, with no more episodes than a group has.
    assert!(updates[&1]["mixed_groups"].as_u64() > Some(0), "{}", updates[&1]);
    assert!(updates[&1]["episodes"].as_u64() <= Some(2 * updates[&1]["mixed_groups"].as_u64().unwrap()));
    assert!(solved(&run.of_arm("evaluate")) > 0);
}

#[test]
fn harness_only_keeps_what_helps_and_leaves_the_policy() {
    let script = "[[rules]]\nwhen = 'The patch is empty.'\nchance = 1.0\n[[rules]]\nchance = 0.4\n";
    let scratch = Scratch::new(script);
    let teacher = format!("['cat', '{}']", text(&root().join("examples/teachers/hold-back.md")));
    let campaign = scratch.example(
        "harness-only.toml",
        &[
            ("rounds", "1"),
            ("rollout.group_size", "2"),
            ("rollout.groups", "4"),
            ("evolve.candidates", "1"),
            ("evolve.gate.tasks", "8"),
            ("evolve.gate.batch", "2"),
            ("evolve.gate.group_size", "3"),
            ("evolve.gate.margin_pass", "0.3"),
            ("evolve.gate.margin_trainable", "0.3"),
            ("evolve.gate.spending", "'gate'"),
            ("teacher.harness.kind", "'command'"),
            ("teacher.harness.command", &teacher),
            ("evaluation.episodes", "1"),
        ],
    );
    let run = scratch.train(&campaign);
    let published = run.published();
    assert_eq!(published.len(), 2, "{}", run.report());
    assert!(published[1].1.starts_with("added hold-back: "), "{published:?}");
    assert!(run.phases("update").is_empty());
    assert!(run.episodes().iter().all(|episode| episode.version == 0));
    // Where the incumbent solved the task the hook has nothing to say: an exact tie, replayed and checked.
    let saved = &run.phases("candidate-0")[&1]["saved"];
    assert!(saved["audited"].as_u64() > Some(0), "{saved}");
    assert_eq!(saved["differed"], 0);
    let explained = Program::new(&[
        "gate".into(),
        "explain".into(),
        text(&run.folder),
        "r1/gate0".into(),
        "--records".into(),
    ])
    .run();
    assert_eq!(explained.code, Some(0), "{}", explained.stdout);
    assert!(explained.stdout.contains("The record agrees with its episodes."), "{}", explained.stdout);

    // Its harness, by digest, is the fixed one of a campaign that only trains.
    let home = format!("'{}'", text(&run.folder));
    let campaign = scratch.example(
        "grpo.toml",
        &[
            ("rounds", "1"),
            ("rollout.group_size", "2"),
            ("rollout.groups", "2"),
            ("rollout.top_up.cap", "0"),
            ("harness.home", &home),
            ("harness.digest", "'current'"),
            ("evaluation.episodes", "0"),
        ],
    );
    let fixed = scratch.train_into(&campaign, "fixed");
    let newest: BTreeSet<_> = run.of_arm("gate-candidate").into_iter().map(|e| e.harness).collect();
    let used: BTreeSet<_> = fixed.episodes().into_iter().map(|e| e.harness).collect();
    assert_eq!(used, newest);
}

#[test]
fn harness_adapt_writes_skills_screens_gates_and_tests_removal() {
    // Two tasks fail by their idea; the others hand in nothing in most cases.
    let script = format!(
        "proposals = ['one.md', 'two.md']\n[[rules]]\nwhen = '{SKILL}'\nchance = 0.7\n[[rules]]\ntasks = ['tandem/leap-years', 'tandem/rain-total']\nchance = 0.0\notherwise = {WRONG}\n[[rules]]\nfrom_version = 1\nchance = 1.0\n[[rules]]\nwhen = 'Think of the rule.'\nchance = 1.0\n[[rules]]\nchance = 0.3\n"
    );
    let scratch = Scratch::new(&script);
    std::fs::write(scratch.path("one.md"), variant("say-nothing", "Nothing to say.")).unwrap();
    std::fs::write(scratch.path("two.md"), variant("think-of-the-rule", "Think of the rule.")).unwrap();
    let skill = format!("['cat', '{}']", text(&root().join("examples/teachers/century-skill.md")));
    let campaign = scratch.example(
        "harness-adapt.toml",
        &[
            ("rounds", "2"),
            ("rollout.group_size", "2"),
            ("rollout.groups", "8"),
            ("rollout.diagnosed", "1.0"),
            ("teacher.harness.kind", "'policy'"),
            ("teacher.skill.command", &skill),
            ("skills.fade", "0"),
            ("evolve.min_tasks", "1"),
            ("evolve.candidates", "2"),
            ("evolve.screen.tasks", "3"),
            ("evolve.gate.tasks", "8"),
            ("evolve.gate.batch", "4"),
            ("evolve.gate.group_size", "2"),
            ("evolve.gate.margin_pass", "0.4"),
            ("evolve.gate.margin_trainable", "0.4"),
            ("evolve.gate.spending", "'gate'"),
            ("evolve.removal.every", "1"),
            ("evolve.holdout.tasks", "'held-out'"),
            ("evolve.holdout.every", "1"),
            ("evolve.holdout.group_size", "2"),
            ("evaluation.episodes", "1"),
        ],
    );
    let run = scratch.train(&campaign);
    let report = run.report();

    // Skills: for the tasks that failed by their idea, with evidence, used in training groups and nowhere else.
    let skills = &run.phases("skills")[&1];
    let tasks: BTreeSet<_> =
        skills["skills"].as_array().unwrap().iter().map(|row| row["task"].as_str().unwrap()).collect();
    assert_eq!(tasks, BTreeSet::from(["tandem/leap-years", "tandem/rain-total"]), "{skills}");
    for row in skills["skills"].as_array().unwrap() {
        assert_eq!(row["evidence"].as_array().unwrap().len(), 2);
    }
    let skilled = run.of_arm("skill");
    assert!(!skilled.is_empty());
    for episode in run.episodes() {
        assert_eq!(run.record(&episode).contains(SKILL), episode.arm == "skill", "{}", episode.id);
    }
    assert!(skilled.iter().all(|episode| tasks.contains(episode.task.as_str())));
    // In the second round their groups begin with the skill.
    assert!(skilled.iter().any(|episode| episode.round == 2));
    assert!(solved(&skilled) > 0 && report.contains("Training episodes with a skill"), "{report}");

    // The screen let one of two candidates through; the gate published it.
    let screen = &run.phases("screen")[&1];
    assert_eq!(screen["looks"][0]["arms"].as_array().unwrap().len(), 2, "{screen}");
    let published = run.published();
    assert!(published.iter().any(|(_, reason)| reason.starts_with("added think-of-the-rule: ")), "{report}");
    assert!(report.contains("not the best of the round's screen"), "{report}");

    // From version 1 on nothing is empty any more: the plugin is needless, and its removal is not lower.
    assert!(
        published
            .iter()
            .any(|(round, reason)| *round == 2 && reason.starts_with("removed think-of-the-rule: ")),
        "{published:?}\n{report}"
    );
    let lines = Program::new(&["gate".into(), "list".into(), text(&run.folder)]).run().stdout;
    assert!(lines.contains("without think-of-the-rule"), "{lines}");

    // The hold-out was asked once a candidate was in, and its answer is shown.
    let looks = run.phases("holdout");
    assert_eq!(looks[&1]["word"], "better", "{report}");
    assert!(report.contains("the hold-out says of"), "{report}");
    for episode in run.of_arm("holdout") {
        assert!(HELD_OUT.iter().any(|name| episode.task.ends_with(name)), "{}", episode.task);
    }
    for episode in run.episodes().iter().filter(|episode| episode.arm != "holdout") {
        assert!(!HELD_OUT.iter().any(|name| episode.task.ends_with(name)), "{}", episode.id);
    }
}

#[test]
fn skills_only_where_all_failed_go_to_no_other_task() {
    let script = format!(
        "[[rules]]\nwhen = '{SKILL}'\nchance = 0.6\n[[rules]]\ntasks = ['tandem/leap-years', 'tandem/rain-total']\nchance = 0.0\notherwise = {WRONG}\n[[rules]]\nchance = 0.6\notherwise = {WRONG}\n"
    );
    let scratch = Scratch::new(&script);
    let skill = format!("['cat', '{}']", text(&root().join("examples/teachers/century-skill.md")));
    let campaign = scratch.example(
        "grpo.toml",
        &[
            ("rounds", "2"),
            ("rollout.group_size", "3"),
            ("rollout.groups", "8"),
            ("rollout.diagnosed", "1.0"),
            ("rollout.top_up.cap", "0"),
            ("teacher.skill.kind", "'command'"),
            ("teacher.skill.command", &skill),
            ("skills.mode", "'only-if-all-fail'"),
            ("skills.per_round", "1"),
            ("evaluation.episodes", "1"),
        ],
    );
    let run = scratch.train(&campaign);
    let skilled = run.of_arm("skill");
    assert!(!skilled.is_empty(), "{}", run.report());
    for round in 1..=2 {
        let mut failed: BTreeMap<String, bool> = BTreeMap::new();
        for episode in run.of_arm("collect").into_iter().filter(|e| e.round == round) {
            *failed.entry(episode.task).or_insert(true) &= episode.outcome != "solved";
        }
        for episode in skilled.iter().filter(|e| e.round == round) {
            assert!(failed[&episode.task], "{}", episode.id);
        }
    }
    // One skill is asked for in a round; the first is used again in the second.
    let written = |round| run.phases("skills")[&round]["skills"].as_array().unwrap().len();
    assert_eq!((written(1), written(2)), (1, 1));
    let tasks = |round| skilled.iter().filter(|e| e.round == round).map(|e| &e.task).collect::<BTreeSet<_>>();
    assert_eq!((tasks(1).len(), tasks(2).is_superset(&tasks(1))), (1, true));
    // The prompt of every other episode is without.
    for episode in run.episodes() {
        assert_eq!(run.record(&episode).contains(SKILL), episode.arm == "skill", "{}", episode.id);
    }
}

#[test]
fn no_round_begins_past_the_budget_and_the_table_is_made_all_the_same() {
    let scratch = Scratch::new("[[rules]]\nchance = 0.5\n");
    let campaign = scratch.example(
        "grpo.toml",
        &[
            ("rounds", "9"),
            ("rollout.group_size", "2"),
            ("rollout.groups", "4"),
            ("rollout.budget", "9"),
            ("rollout.top_up.cap", "0"),
            ("evaluation.episodes", "1"),
        ],
    );
    // A round has 8 episodes, and a budget that is spent within a round does not cut it.
    let run = scratch.train(&campaign);
    assert_eq!(
        run.of_arm("collect").iter().map(|e| e.round).collect::<BTreeSet<_>>(),
        BTreeSet::from([1, 2])
    );
    assert_eq!(run.of_arm("collect").len(), 16);
    assert!(!run.of_arm("evaluate").is_empty());

    // Another seed of the same file, which has to be given again.
    let other = scratch.path("other");
    let begin = ["train".into(), text(&campaign), "--run".into(), text(&other)];
    let seed = ["--seed".into(), "9".into()];
    let resume = ["--resume".into()];
    let start = |more: &[&[String]]| Program::new(&[&[&begin[..]], more].concat().concat()).run();
    assert_eq!(start(&[&seed]).code, Some(0));
    let episodes = |run: &Run| run.episodes().into_iter().map(|e| (e.id, e.outcome)).collect::<Vec<_>>();
    let other = Run { folder: other };
    assert_ne!(episodes(&run), episodes(&other));
    let refused = start(&[&resume]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("a `--seed` has to be given again"), "{}", refused.stderr);
    assert_eq!(start(&[&seed, &resume]).code, Some(0));
}

/// A variant whose hook says `text` to an empty patch.
fn variant(name: &str, text: &str) -> String {
    let file = root().join("examples/teachers/hold-back.md");
    let reply = std::fs::read_to_string(file).unwrap();
    reply.replace("hold-back", name).replace("The patch is empty. Change", &format!("{text} Change"))
}

#[test]
fn self_hpo_confirms_the_best_variant_and_freezes_the_harness_while_it_trains() {
    // The policy proposes: one of its variants makes the hard tasks solvable, the others do nothing for it.
    let script = "proposals = ['one.md', 'two.md', 'three.md']\n[[rules]]\nwhen = 'Think of the rule.'\nchance = 1.0\n[[rules]]\nwhen = 'Nothing to say.'\nchance = 0.0\n[[rules]]\ntasks = ['tandem/clock-text', 'tandem/initials', 'tandem/leap-years', 'tandem/rain-total', 'tandem/slug-helper']\nchance = 0.0\n[[rules]]\nchance = 0.8\n";
    let scratch = Scratch::new(script);
    for (file, name, said) in [
        ("one.md", "say-nothing", "Nothing to say."),
        ("two.md", "think-of-the-rule", "Think of the rule."),
        ("three.md", "say-less", "Nothing to say. Less."),
    ] {
        std::fs::write(scratch.path(file), variant(name, said)).unwrap();
    }
    let campaign = scratch.example(
        "self-hpo.toml",
        &[
            ("self_hpo.cycles", "2"),
            ("self_hpo.variants", "3"),
            ("self_hpo.attempts", "1"),
            ("self_hpo.updates", "2"),
            ("rollout.group_size", "2"),
            ("rollout.groups", "6"),
            ("rollout.top_up.cap", "4"),
            ("teacher.harness.kind", "'policy'"),
            ("self_hpo.guard", "8"),
            ("evolve.gate.tasks", "16"),
            ("evolve.gate.group_size", "2"),
            ("evolve.gate.margin_pass", "0.3"),
            ("evolve.gate.margin_trainable", "0.3"),
            ("evolve.gate.spending", "'gate'"),
            ("evaluation.episodes", "1"),
        ],
    );
    let run = scratch.train(&campaign);
    let report = run.report();

    // The first hard set is what the probe never solved.
    let hard = &run.phases("hard-set")[&1];
    let tasks = |hard: &Value| -> BTreeSet<String> {
        let names = hard["tasks"].as_array().unwrap().iter();
        names.map(|task| task.as_str().unwrap().to_owned()).collect()
    };
    let never = |episodes: &[Episode]| -> BTreeSet<String> {
        let all: BTreeSet<_> = episodes.iter().map(|e| e.task.clone()).collect();
        let some: BTreeSet<_> =
            episodes.iter().filter(|e| e.outcome == "solved").map(|e| e.task.clone()).collect();
        all.difference(&some).cloned().collect()
    };
    let probe = run.of_arm("probe");
    assert_eq!(tasks(hard), never(&probe));
    // Its guard is what the probe solved, then what nobody tried: here the rest of the pool of eight tasks.
    let tried: BTreeSet<_> = probe.iter().map(|episode| episode.task.as_str()).collect();
    let guard: Vec<_> = hard["guard"].as_array().unwrap().iter().map(|task| task.as_str().unwrap()).collect();
    let solved = tried.len() - tasks(hard).len();
    assert_eq!((tried.len(), guard.len()), (6, 8 - tasks(hard).len()));
    for (at, task) in guard.iter().enumerate() {
        assert_eq!(tried.contains(task) && !tasks(hard).contains(*task), at < solved, "{guard:?}");
    }

    // K variants and the incumbent on the very same tasks, numbers and seeds.
    let arms = &run.phases("screen")[&1]["looks"][0]["arms"];
    assert_eq!(arms.as_array().unwrap().len(), 4, "{arms}");
    let mut by_arm: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for episode in run.of_arm("screen").into_iter().filter(|e| e.round == 1) {
        let rest = episode.id.strip_prefix("r1/screen/").unwrap();
        let (arm, place) = rest.split_once('/').unwrap();
        by_arm.entry(arm.into()).or_default().insert(place.into());
    }
    assert_eq!(by_arm.len(), 4);
    assert_eq!(by_arm.values().collect::<BTreeSet<_>>().len(), 1, "{by_arm:?}");

    // The best was confirmed on fresh episodes and published; nothing else was.
    let published = run.published();
    assert_eq!(published.len(), 2, "{published:?}\n{report}");
    assert!(published[1].0 == 1 && published[1].1.starts_with("added think-of-the-rule: "), "{published:?}");

    // The harness stays as it is while the policy is trained.
    for rounds in [1..=2, 3..=4] {
        let collected = run.of_arm("collect");
        let harnesses: BTreeSet<_> =
            collected.iter().filter(|e| rounds.contains(&e.round)).map(|e| &e.harness).collect();
        assert_eq!(harnesses.len(), 1);
    }
    // The next hard set is what the policy step never solved.
    let step: Vec<_> = run
        .episodes()
        .into_iter()
        .filter(|e| e.round <= 2 && ["collect", "top-up"].contains(&e.arm.as_str()))
        .collect();
    assert_eq!(tasks(&run.phases("hard-set")[&3]), never(&step));
    assert_eq!(run.phases("update").len(), 4);
}

#[test]
fn a_harness_that_is_worse_on_the_hold_out_is_rolled_back() {
    // It helps where gates look, and breaks what the hold-out has.
    let held: Vec<String> = HELD_OUT.iter().map(|name| format!("'tandem/{name}'")).collect();
    let held = held.join(", ");
    let script = format!(
        "[[rules]]\nwhen = 'Think of the rule.'\ntasks = [{held}]\nchance = 0.0\n[[rules]]\ntasks = [{held}]\nchance = 1.0\n[[rules]]\nwhen = 'Think of the rule.'\nchance = 1.0\n[[rules]]\nchance = 0.3\n"
    );
    let scratch = Scratch::new(&script);
    let reply = "```toml\nname = \"think\"\nmechanism = \"Says at the start what to think of.\"\npoints = [\"on-episode-start\"]\nfixes = [\"empty-patch\"]\n```\n```rust\nuse tandem_plugin::*;\npub struct Plugin;\nimpl OnEpisodeStart for Plugin {\n    fn on_episode_start(_context: Context, _instruction: String) -> Option<String> {\n        Some(\"Think of the rule.\".into())\n    }\n}\nexport_on_episode_start!(Plugin);\n```\n";
    std::fs::write(scratch.path("reply.md"), reply).unwrap();
    let teacher = format!("['cat', '{}']", text(&scratch.path("reply.md")));
    let campaign = scratch.example(
        "harness-only.toml",
        &[
            ("rounds", "2"),
            ("rollout.group_size", "2"),
            ("rollout.groups", "4"),
            ("evolve.candidates", "1"),
            ("evolve.gate.tasks", "8"),
            ("evolve.gate.batch", "8"),
            ("evolve.gate.group_size", "2"),
            ("evolve.gate.margin_pass", "0.4"),
            ("evolve.gate.margin_trainable", "0.4"),
            ("evolve.gate.spending", "'gate'"),
            ("evolve.holdout.tasks", "'held-out'"),
            ("evolve.holdout.every", "1"),
            ("evolve.holdout.group_size", "2"),
            ("evolve.holdout.rollback", "true"),
            ("teacher.harness.kind", "'command'"),
            ("teacher.harness.command", &teacher),
            ("teacher.harness.repairs", "0"),
            ("evaluation.episodes", "0"),
        ],
    );
    let run = scratch.train(&campaign);
    let reasons: Vec<_> = run.published().into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(reasons.len(), 3, "{}", run.report());
    assert!(reasons[1].starts_with("added think: "), "{reasons:?}");
    assert_eq!(reasons[2], "the hold-out says that the harness got worse");
    let look = &run.phases("holdout")[&1];
    assert_eq!((&look["word"], &look["rolled_back"]), (&Value::from("worse"), &Value::Bool(true)), "{look}");
    // The next round runs under the first harness again, and the ledger says so.
    let first: BTreeSet<_> = run.of_arm("collect").into_iter().map(|episode| episode.harness).collect();
    assert_eq!(first.len(), 1);
    let log = Program::new(&["harness".into(), "log".into(), "--home".into(), text(&run.folder)]).run();
    assert!(log.stdout.contains("r1/holdout"), "{}", log.stdout);
    assert!(run.report().contains("worse, rolled back"), "{}", run.report());
}

#[test]
fn a_hold_out_that_is_trained_on_is_refused() {
    let scratch = Scratch::new("");
    let campaign = scratch.example("harness-only.toml", &[("evolve.holdout.tasks", "'tasks'")]);
    let run = text(&scratch.path("run"));
    let output = Program::new(&["train".into(), text(&campaign), "--run".into(), run]).run();
    assert_eq!(output.code, Some(1));
    let said = output.stderr.replace(&text(&scratch.path("")), "");
    expect_test::expect![[r#"
        error: task `tandem/celsius-module` is in the hold-out tasks and in `tasks.train`
        help: what is trained on cannot say whether a gate was right; keep the folders apart
    "#]]
    .assert_eq(&said);
}
