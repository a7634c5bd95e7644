//! Pairs: what does the program pack, refuse, compare, unpack, export and run?
//!
//! One campaign of a policy with two layers is run once; an evolved plugin is then put into its
//! record as a gate would, so that a pair has everything in it that one can have.

mod program;
#[path = "program/tiny.rs"]
mod tiny;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use expect_test::{Expect, expect};
use program::{Output, Program, root, tandem_home};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const SKILL: &str = "A skill that must never be shipped: look at the last line first.";

/// Runs of the campaign and what was packed from them.
struct Fixture {
    folder: tempfile::TempDir,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(Fixture::new);

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fixture = Self { folder };
        tiny::write(&fixture.path("base"));
        // Room for whole episodes; the checksum of the smaller configuration goes with it.
        let config = fixture.path("base/config.json");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(
            &config,
            text.replace("\"max_position_embeddings\": 256", "\"max_position_embeddings\": 8192"),
        )
        .unwrap();
        std::fs::remove_file(fixture.path("base/tandem.json")).unwrap();
        std::fs::write(fixture.path("campaign.toml"), fixture.campaign()).unwrap();
        let train = ["train", "DIR/campaign.toml", "--run", "DIR/run"];
        fixture.done(&train);
        fixture.done(&["pair", "pack", "DIR/run", "-o", "DIR/early"]);
        fixture.evolve();
        fixture.done(&["pair", "pack", "DIR/run", "-o", "DIR/pair"]);
        fixture
    }

    fn campaign(&self) -> String {
        format!(
            "name = \"tiny\"\nmethod = \"grpo\"\nseed = 3\n[policy]\nbase = \"{}\"\ncontext = 8192\nslots = 2\n\
             lora = {{ rank = 2, alpha = 4.0 }}\n[tasks]\ntrain = \"{}\"\n[rollout]\ngroup_size = 2\ngroups = 1\n\
             sampling = {{ max_tokens = 8 }}\n[evaluation]\nepisodes = 1\ntasks = 3\n",
            self.path("base").display(),
            root().join("examples/tasks/first-steps").display()
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program, with `DIR` for the folder of the fixture.
    fn run(&self, words: &[&str]) -> Output {
        let dir = self.folder.path().to_string_lossy().into_owned();
        let words: Vec<_> = words.iter().map(|word| word.replace("DIR", &dir)).collect();
        Program::new(&words).env("TANDEM_HOME", &tandem_home()).run()
    }

    /// Runs it, which must end with 0.
    fn done(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.code, Some(0), "{words:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    }

    fn check(&self, words: &[&str], code: i32, expected: Expect) {
        let output = self.run(words);
        let text = format!("{}{}", output.stdout, output.stderr);
        let text = text.replace(&self.folder.path().to_string_lossy().into_owned(), "DIR");
        expected.assert_eq(&settled(&text));
        assert_eq!(output.code, Some(code), "{text}");
    }

    /// Puts a plugin that the catalog wrote and a gate let in into the record of the run, with a
    /// skill that a teacher wrote, as a campaign would have left them.
    fn evolve(&self) {
        let source = root().join("plugins/budget-warning/src/lib.rs");
        let wasm = self.path("warning.wasm");
        self.done(&["plugin", "build", &source.to_string_lossy(), "-o", &wasm.to_string_lossy()]);
        let plugin = self.blob(&std::fs::read(&wasm).unwrap());
        let beside = format!("run/blobs/{}.provenance.json", &plugin["sha256:".len()..]);
        std::fs::copy(self.path("warning.provenance.json"), self.path(&beside)).unwrap();
        let source = self.blob(&std::fs::read(&source).unwrap());
        let skill = self.blob(SKILL.as_bytes());

        let connection = rusqlite::Connection::open(self.path("run/run.sqlite")).unwrap();
        let first: String =
            connection.query_row("SELECT digest FROM publication", [], |row| row.get(0)).unwrap();
        let manifest = std::fs::read(self.path("run/blobs").join(&first["sha256:".len()..])).unwrap();
        let mut manifest: Value = serde_json::from_slice(&manifest).unwrap();
        manifest["limits"]["turns"] = json!(40);
        manifest["plugins"] =
            json!([{"name": "budget-warning", "digest": plugin, "grants": [], "settings": {}}]);
        let harness = self.blob(manifest.to_string().as_bytes());
        let arm = |solved: usize| json!({"solved": solved, "rollouts": 2});
        let report = json!({
            "proposal": {
                "name": "budget-warning", "signal": "limit-without-edits", "source": source, "language": "rust",
                "grants": [], "rationale": "A warning before the last turns lets the policy hand in what it has.",
            },
            "plugin": plugin, "incumbent": first, "harness": harness, "build_seconds": 0.4, "refused": null,
            "gate": {
                "config": {"group_size": 2},
                "tasks": [
                    {"task": "a", "incumbent": arm(0), "candidate": arm(2)},
                    {"task": "b", "incumbent": arm(1), "candidate": arm(2)},
                ],
                "verdict": "accept", "paired": "accept",
                "paper": {
                    "verdict": "reject", "pass_incumbent": 0.25, "pass_candidate": 1.0,
                    "trainable_incumbent": 0.5, "trainable_candidate": 0.0,
                },
                "superiority": 12.5, "level_pass": 11.0, "level_trainable": 10.25, "reason": "better on the pass rate",
            },
        });
        let diagnosis = json!({
            "episodes": 8, "failed": 6, "strategy": 1,
            "signals": {"limit-without-edits": {"a": 2, "b": 1}},
        });
        let phase = "INSERT OR REPLACE INTO phase (round, name, report) VALUES (1, ?1, ?2)";
        connection.execute(phase, ["candidate-0", &report.to_string()]).unwrap();
        connection.execute(phase, ["diagnosis", &diagnosis.to_string()]).unwrap();
        let publication = "INSERT INTO publication (round, digest, reason) VALUES (1, ?1, 'added')";
        connection.execute(publication, [&harness]).unwrap();
        connection
            .execute("INSERT INTO source VALUES (?1, ?2, 'rust', 'budget-warning')", [&plugin, &source])
            .unwrap();
        connection.execute("INSERT INTO skill VALUES (?1, 'a', 'r1/skill/0', ?2)", [&skill, SKILL]).unwrap();
        // The evolved cell of the table: all but one task solved.
        let cell = "INSERT INTO episode SELECT 'evolved/' || id, round, arm, task, group_key, policy_version, ?1,
            iif(task = (SELECT min(task) FROM episode WHERE arm = 'evaluate'), 'unsolved', 'solved'), exit, turns,
            sampled_tokens, effects, faults, seconds, record FROM episode WHERE arm = 'evaluate'";
        connection.execute(cell, [&harness]).unwrap();
    }

    /// Keeps bytes among the blobs of the run.
    fn blob(&self, bytes: &[u8]) -> String {
        let hex = hex::encode(Sha256::digest(bytes));
        std::fs::write(self.path("run/blobs").join(&hex), bytes).unwrap();
        format!("sha256:{hex}")
    }

    /// A copy of the pair that a test may break.
    fn copy(&self) -> Scratch {
        let scratch = Scratch { folder: tempfile::tempdir().unwrap() };
        copy(&self.path("pair"), &scratch.pair());
        scratch
    }
}

struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    fn pair(&self) -> PathBuf {
        self.folder.path().join("pair")
    }

    fn manifest(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.pair().join("pair.json")).unwrap()).unwrap()
    }

    /// Changes pair.json as somebody would who knows how its digest is made.
    fn reseal(&self, change: impl FnOnce(&mut Value)) {
        let mut manifest = self.manifest();
        change(&mut manifest);
        let zeros = format!("sha256:{}", "0".repeat(64));
        manifest["digest"] = json!(zeros);
        let text = format!("{}\n", serde_json::to_string_pretty(&manifest).unwrap());
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(&text)));
        std::fs::write(self.pair().join("pair.json"), text.replacen(&zeros, &digest, 1)).unwrap();
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.pair().join(name), text).unwrap();
    }

    fn component(&self) -> PathBuf {
        std::fs::read_dir(self.pair().join("components")).unwrap().next().unwrap().unwrap().path()
    }

    fn run(&self, words: &[&str]) -> Output {
        let dir = self.folder.path().to_string_lossy().into_owned();
        let words: Vec<_> = words.iter().map(|word| word.replace("PAIR", &format!("{dir}/pair"))).collect();
        let words: Vec<_> = words.iter().map(|word| word.replace("DIR", &dir)).collect();
        let mut output = Program::new(&words).env("TANDEM_HOME", &tandem_home()).run();
        output.stderr = output.stderr.replace(&dir, "DIR");
        output
    }

    fn refused(&self, expected: Expect) {
        let output = self.run(&["pair", "verify", "PAIR"]);
        expected.assert_eq(&settled(&output.stderr));
        assert_eq!((output.code, output.stdout.as_str()), (Some(3), ""));
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// Every file below a folder with its bytes.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(below) = folders.pop() {
        for entry in std::fs::read_dir(below).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Text without the digits that depend on compilers: each whole digest is `sha256:A`, `sha256:B` and
/// so on in the order in which it appears, and so is its short form.
fn settled(text: &str) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut name = |hex: &str| {
        let short = hex[..12].to_owned();
        let at = names.iter().position(|known| *known == short).unwrap_or_else(|| {
            names.push(short);
            names.len() - 1
        });
        char::from(b'A' + at as u8).to_string()
    };
    let (mut out, mut word) = (String::new(), String::new());
    for c in text.chars().chain(['\n']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        let is_hex = word.len() == 12 || word.len() == 64;
        match is_hex && word.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')) {
            true => out.push_str(&name(&word)),
            false => out.push_str(&word),
        }
        word.clear();
        out.push(c);
    }
    out.pop();
    out
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let fixture = &*FIXTURE;
    // What the end of the campaign wrote, and what was packed from its run before it changed.
    assert_eq!(tree(&fixture.path("run/pair")), tree(&fixture.path("early")));
    for form in [&[][..], &["--adapter-only"]] {
        let out = ["DIR/again-1", "DIR/again-2"];
        for out in out {
            fixture.done(&[&["pair", "pack", "DIR/run", "-o", out], form].concat());
        }
        let [one, two] = out.map(|out| tree(&fixture.path(&out["DIR/".len()..])));
        assert!(one == two, "{form:?}: two packings differ");
        assert_eq!(one.contains_key("policy/adapter_model.safetensors"), !form.is_empty());
        assert_eq!(one.contains_key("policy/model.safetensors"), form.is_empty());
        for out in out {
            std::fs::remove_dir_all(fixture.path(&out["DIR/".len()..])).unwrap();
        }
    }
}

#[test]
fn no_skill_is_in_a_pair() {
    let fixture = &*FIXTURE;
    let holds = |bytes: &[u8]| bytes.windows(SKILL.len()).any(|window| window == SKILL.as_bytes());
    let digest = hex::encode(Sha256::digest(SKILL));
    let run: Vec<_> = tree(&fixture.path("run")).into_iter().filter(|(_, bytes)| holds(bytes)).collect();
    assert!(run.iter().any(|(name, _)| name.ends_with(&digest)), "the run has the skill as a blob");
    fixture.done(&["pair", "pack", "DIR/run", "-o", "DIR/lean", "--adapter-only"]);
    for pair in ["pair", "lean"] {
        for (name, bytes) in tree(&fixture.path(pair)) {
            assert!(!holds(&bytes) && !name.contains(&digest), "{pair}/{name} holds a skill");
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(&digest), "{pair}/{name} names a skill");
        }
    }
}

#[test]
fn a_page_tells_what_is_in_a_pair() {
    FIXTURE.check(
        &["pair", "verify", "DIR/pair"],
        0,
        expect![[r#"
        pair is whole: sha256:A, 9 files
          policy   sha256:B
          harness  sha256:C
          budget-warning  sha256:D
    "#]],
    );
    FIXTURE.check(&["pair", "inspect", "DIR/pair"], 0, expect![[r#"
        pair `tiny`: sha256:A
        9 files, 119.4 kB; packed by tandem 0.1.0; needs tandem:harness@0.1.0

        Policy sha256:B
          version 0 of `base`: all weights
          base sha256:C
          chat template sha256:D
          conversations of 8192 tokens; replies of 8, temperature 1

        Harness sha256:E
          budget-warning (F): asks for nothing; from the catalog, rust
              A warning before the last turns lets the policy hand in what it has.
              answers `limit-without-edits`, seen in 3 episodes of 2 tasks in round 1, where 6 failed
              gate of round 1: accept by `paired`; pass 25.0 % to 100.0 %, trainable 50.0 % to 0.0 % on 2 tasks, 2 rollouts in each arm
          limits: command_seconds 60, deferrals 2, format_errors 3, observation_chars 10000, protocol text, seconds 0, tokens 0, turns 40
          prompts, in characters: system 213, instance 685, observation 205, format error 613

        Evaluation
          policy   harness       tasks  episodes  pass rate
          v0       G      3         3  0.0 % [0.0 %, 70.8 %]
          v0       E      3         3  66.7 % [0.0 %, 100.0 %]  <- this pair
          over what the run began with: 66.7 % [0.0 %, 100.0 %] on 3 tasks
          mean over tasks of the share of solved episodes; 95 % percentile bootstrap over tasks, and where all tasks agree the exact binomial interval

        Licences
          base policy: not known
          budget-warning: Apache-2.0
    "#]]);
}

#[test]
fn the_record_of_a_plugin_goes_with_it() {
    let text = FIXTURE.done(&["pair", "inspect", "DIR/pair", "--json"]);
    let pair: Value = serde_json::from_str(&text).unwrap();
    let told = &pair["plugins"][0]["provenance"];
    assert_eq!(told["author"]["kind"], "catalog");
    assert_eq!(
        told["evidence"],
        json!({"round": 1, "signal": "limit-without-edits", "episodes": 3, "tasks": 2, "failed": 6})
    );
    assert_eq!((&told["gate"]["verdict"], &told["gate"]["paper"]), (&json!("accept"), &json!("reject")));
    assert!(told["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "rustc"), "{told}");
    assert_eq!(pair["plugins"][0]["source"]["language"], "rust");
    assert_eq!(pair["harness_manifest"]["limits"]["turns"], 40);
    let cells = pair["evaluation"]["cells"].as_array().unwrap();
    let solved: Vec<_> =
        cells.iter().map(|cell| (&cell["of_pair"], &cell["solved"], &cell["tasks"])).collect();
    assert!(solved.contains(&(&json!(true), &json!(2), &json!(3))), "{solved:?}");
}

#[test]
fn a_diff_tells_what_a_pair_newly_asks_for() {
    FIXTURE.check(
        &["pair", "diff", "DIR/early", "DIR/pair"],
        0,
        expect![[r#"
            from sha256:A to sha256:B
            Policy
              digest: C -> D
            Harness
              from E to F
              It newly asks for:
                `budget-warning` imports 13 interfaces of WASI, which any plugin gets
              It newly hooks:
                `budget-warning` is called at `on-model-call`
              Plugins:
                `budget-warning` is new, in place 1 of 1 (component G)
              Limits:
                `turns`: 250 before, 40 now
            Evaluation
              pass rate: 0.0 % [0.0 %, 70.8 %] -> 66.7 % [0.0 %, 100.0 %]
        "#]],
    );
    FIXTURE.check(
        &["pair", "diff", "DIR/pair", "DIR/pair"],
        0,
        expect![[r#"
        the same pair: sha256:A
    "#]],
    );
}

#[test]
fn another_policy_is_refused() {
    let scratch = FIXTURE.copy();
    scratch.write("policy/config.json", "{}");
    scratch.refused(expect![[r#"
        error: the policy is sha256:A, and the harness of this pair was evaluated with the policy sha256:B
        help: copy the pair again, or take the halves that belong together; `--allow-mismatch` uses these: the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves
    "#]]);
}

#[test]
fn a_policy_of_another_harness_is_refused() {
    let scratch = FIXTURE.copy();
    // Whole in itself: only what the policy says of its harness tells that it is another one.
    let path = scratch.pair().join("policy/tandem.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let harness = scratch.manifest()["harness"].as_str().unwrap().to_owned();
    std::fs::write(&path, text.replace(&harness, &format!("sha256:{}", "1".repeat(64)))).unwrap();
    scratch.reseal(|manifest| {
        let digest = hex::encode(Sha256::digest(std::fs::read(&path).unwrap()));
        manifest["files"]["policy/tandem.json"] = json!(format!("sha256:{digest}"));
        let files = manifest["files"].as_object().unwrap();
        let lines: String = files
            .iter()
            .filter_map(|(name, digest)| Some((name.strip_prefix("policy/")?, digest.as_str()?)))
            .map(|(name, digest)| format!("{}  {name}\n", &digest["sha256:".len()..]))
            .collect();
        manifest["policy"]["digest"] = json!(format!("sha256:{}", hex::encode(Sha256::digest(lines))));
    });
    scratch.refused(expect![[r#"
        error: the policy says that its harness is sha256:A, and this pair has the harness sha256:B
        help: copy the pair again, or take the halves that belong together; `--allow-mismatch` uses these: the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves
    "#]]);
}

#[test]
fn a_changed_component_is_refused() {
    let scratch = FIXTURE.copy();
    std::fs::write(scratch.component(), "another").unwrap();
    scratch.refused(expect![[r#"
        error: the component of the plugin `budget-warning` was changed: it is sha256:A, and sha256:B was evaluated
        help: copy the pair again, or take the halves that belong together; `--allow-mismatch` uses these: the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves
    "#]]);
}

#[test]
fn a_changed_harness_is_refused() {
    let scratch = FIXTURE.copy();
    let text = std::fs::read_to_string(scratch.pair().join("harness.json")).unwrap();
    scratch.write("harness.json", &text.replace("\"turns\":40", "\"turns\":41"));
    scratch.refused(expect![[r#"
        error: the harness is sha256:A, and the policy of this pair was evaluated with the harness sha256:B
        help: copy the pair again, or take the halves that belong together; `--allow-mismatch` uses these: the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves
    "#]]);
}

#[test]
fn a_missing_component_is_refused() {
    let scratch = FIXTURE.copy();
    std::fs::remove_file(scratch.component()).unwrap();
    scratch.refused(expect![[r#"
        error: the pair lacks its file components/A.wasm
        help: copy the pair again
    "#]]);
}

#[test]
fn a_changed_source_is_refused() {
    let scratch = FIXTURE.copy();
    let source = std::fs::read_dir(scratch.pair().join("sources")).unwrap().next().unwrap().unwrap();
    std::fs::write(source.path(), "fn other() {}").unwrap();
    scratch.refused(expect![[r#"
        error: file sources/A.rs of the pair was changed: its digest is sha256:B, and sha256:A is expected
        help: copy the pair again
    "#]]);
}

#[test]
fn a_changed_number_of_the_evaluation_is_refused() {
    let scratch = FIXTURE.copy();
    let text = std::fs::read_to_string(scratch.pair().join("pair.json")).unwrap();
    scratch.write("pair.json", &text.replace("\"solved\": 2", "\"solved\": 3"));
    scratch.refused(expect![[r#"
        error: pair.json was changed: its digest is sha256:A, and it says sha256:B
        help: copy the pair again
    "#]]);
}

#[test]
fn a_file_that_nobody_named_is_refused() {
    let scratch = FIXTURE.copy();
    scratch.write("notes.txt", "x");
    scratch.refused(expect![[r#"
        error: the pair holds notes.txt, which its manifest does not name
        help: delete that file, or copy the pair again
    "#]]);
}

#[test]
fn a_link_is_refused() {
    let scratch = FIXTURE.copy();
    std::os::unix::fs::symlink("/etc/hostname", scratch.pair().join("sources/link")).unwrap();
    scratch.refused(expect![[r#"
        error: the pair holds sources/link, which is a link or a special file
        help: a pair has plain files alone; copy it again, and do not use this one
    "#]]);
}

#[test]
fn a_place_outside_the_pair_is_refused() {
    let scratch = FIXTURE.copy();
    scratch.reseal(|manifest| {
        manifest["files"]["../../etc/hostname"] = manifest["harness"].clone();
    });
    scratch.refused(expect![[r#"
        error: the pair names the file `../../etc/hostname`, which is no place inside a pair
        help: do not use this pair: whoever made it tried to reach other files
    "#]]);
}

#[test]
fn an_unknown_contract_is_refused() {
    let scratch = FIXTURE.copy();
    scratch.reseal(|manifest| manifest["contract"] = json!("tandem:harness@9.0.0"));
    scratch.refused(expect![[r#"
        error: the pair needs the contract `tandem:harness@9.0.0`, and this program speaks `tandem:harness@0.1.0`
        help: use a program version that speaks it; nothing of the pair can run here
    "#]]);
}

#[test]
fn an_unknown_layout_is_refused() {
    let scratch = FIXTURE.copy();
    scratch.reseal(|manifest| manifest["layout"] = json!(7));
    scratch.refused(expect![[r#"
        error: the pair has layout 7, and this program reads layout 2
        help: use the program version that wrote it, or one that is newer than this
    "#]]);
}

#[test]
fn a_manifest_that_cannot_be_read_is_told() {
    let scratch = FIXTURE.copy();
    scratch.write("pair.json", "{\"layout\": 2}");
    scratch.refused(expect![[r#"
        error: DIR/pair/pair.json is not a pair manifest: missing field `digest` at line 1 column 13
        help: copy the pair again
    "#]]);
    scratch.write("pair.json", "hello");
    scratch.refused(expect![[r#"
        error: DIR/pair/pair.json is not a pair manifest: expected value at line 1 column 1
        help: copy the pair again
    "#]]);
}

#[test]
fn a_pair_that_does_not_agree_with_itself_is_refused() {
    let check = |change: fn(&mut Value), expected: Expect| {
        let scratch = FIXTURE.copy();
        scratch.reseal(change);
        scratch.refused(expected);
    };
    check(
        |manifest| manifest["plugins"] = json!([]),
        expect![[r#"
        error: the pair does not agree with itself: pair.json and harness.json name different plugins
        help: copy the pair again, or pack it again from its run
    "#]],
    );
    check(
        |manifest| manifest["plugins"][0]["source"]["digest"] = manifest["harness"].clone(),
        expect![[r#"
        error: the pair does not agree with itself: the source of the plugin `budget-warning` is not in it
        help: copy the pair again, or pack it again from its run
    "#]],
    );
    check(
        |manifest| manifest["policy"]["digest"] = manifest["harness"].clone(),
        expect![[r#"
        error: the pair does not agree with itself: the policy's digest is not that of its files
        help: copy the pair again, or pack it again from its run
    "#]],
    );
    check(
        |manifest| manifest["harness"] = manifest["policy"]["digest"].clone(),
        expect![[r#"
            error: the pair does not agree with itself: harness.json is not the harness that it names
            help: copy the pair again, or pack it again from its run
        "#]],
    );
}

#[test]
fn another_pair_than_was_meant_is_refused() {
    let scratch = FIXTURE.copy();
    let digest = scratch.manifest()["digest"].as_str().unwrap().to_owned();
    let output = scratch.run(&["pair", "verify", "PAIR", "--digest", &digest]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let other = format!("sha256:{}", "2".repeat(64));
    let output = scratch.run(&["pair", "verify", "PAIR", "--digest", &other]);
    expect![[r#"
        error: the pair is sha256:A, and sha256:B was asked for
        help: get the pair that you mean, or leave out `--digest`
    "#]]
    .assert_eq(&settled(&output.stderr));
    assert_eq!(output.code, Some(3));
}

#[test]
fn a_folder_that_is_no_pair_and_a_folder_that_is_there_are_told() {
    FIXTURE.check(&["pair", "inspect", "DIR"], 1, expect![[r#"
        error: DIR is not a pair: it has no pair.json
        help: `tandem pair pack RUN -o DIR` makes a pair from a run; a finished run has one in its folder `pair`
    "#]]);
    FIXTURE.check(
        &["pair", "pack", "DIR/run", "-o", "DIR/base"],
        1,
        expect![[r#"
        error: DIR/base exists already, and nothing is overwritten
        help: give a new folder
    "#]],
    );
    FIXTURE.check(
        &["pair", "pack", "DIR/base", "-o", "DIR/none"],
        1,
        expect![[r#"
        error: DIR/base is not the folder of a run: it has no run.sqlite
        help: `tandem train CAMPAIGN --run DIR` makes one
    "#]],
    );
}

#[test]
fn a_pair_of_layout_1_is_verified_and_told_to_be_packed_again() {
    let scratch = FIXTURE.copy();
    let manifest = scratch.manifest();
    let old = json!({
        "layout": 1, "contract": manifest["contract"], "harness": manifest["harness"], "files": manifest["files"],
        "plugins": [{"name": "budget-warning", "component": manifest["plugins"][0]["component"], "source": null}],
    });
    scratch.write("pair.json", &old.to_string());
    let output = scratch.run(&["pair", "verify", "PAIR"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    expect![[r#"
        pair is whole: harness sha256:A, 9 files, layout 1
          budget-warning  sha256:B
        help: to use it, pack it again with `tandem pair pack RUN -o DIR` from its run
    "#]]
    .assert_eq(&settled(&output.stdout));
    let output = scratch.run(&["pair", "inspect", "PAIR"]);
    expect![[r#"
        error: the pair in DIR/pair has layout 1, which does not say what its policy is, who wrote its plugins or how it was evaluated
        help: pack it again with `tandem pair pack RUN -o DIR` from its run; `tandem pair verify` still checks it
    "#]].assert_eq(&output.stderr);
    assert_eq!(output.code, Some(3));
    std::fs::write(scratch.component(), "another").unwrap();
    scratch.refused(expect![[r#"
        error: file components/A.wasm of the pair was changed: its digest is sha256:B, and sha256:A is expected
        help: copy the pair again
    "#]]);
}

/// The words of a line of a page, as a shell takes them.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars().chain([' ']) {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted && word.is_empty() => break,
            ' ' if !quoted && !word.is_empty() => words.push(std::mem::take(&mut word)),
            ' ' if !quoted => {}
            other => word.push(other),
        }
    }
    words
}

#[test]
fn the_commands_of_the_page_work_in_their_order() {
    let scratch = FIXTURE.copy();
    let folder = scratch.folder.path();
    std::fs::rename(scratch.pair(), folder.join("made")).unwrap();
    copy(&FIXTURE.path("early"), &folder.join("other-pair"));
    copy(&root().join(TASK).join("environment/workspace"), &folder.join("repo"));
    std::fs::write(folder.join("issue.md"), "Mend the sum.").unwrap();
    let text = std::fs::read_to_string(folder.join("made/pair.json")).unwrap();
    let digest = serde_json::from_str::<Value>(&text).unwrap()["digest"].as_str().unwrap().to_owned();
    let run = FIXTURE.path("run").to_string_lossy().into_owned();
    let page = std::fs::read_to_string(root().join("docs/pair.md")).unwrap();
    let mut seen = 0;
    // What needs a server is left out.
    for line in page.lines().filter(|line| line.starts_with("tandem ") && !line.contains("--endpoint")) {
        let place = |word: String| match word.as_str() {
            "runs/quickstart" => run.clone(),
            "sha256:..." => digest.clone(),
            "." => "DIR/repo".to_owned(),
            _ if folder.join(word.split('/').next().unwrap_or_default()).exists() => format!("DIR/{word}"),
            "my-pair" | "my-adapter" | "my-model" | "parts" | "team" | "team.pem" | "team.pub" => {
                format!("DIR/{word}")
            }
            _ => word,
        };
        let words: Vec<_> = words(line).into_iter().skip(1).map(place).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let output = scratch.run(&words);
        // The policy of two layers makes no patch.
        let expected = if words[0] == "run" { 3 } else { 0 };
        assert_eq!(output.code, Some(expected), "{line}: {}", output.stderr);
        seen += 1;
    }
    assert!(seen >= 14, "the page has only {seen} commands");
    assert!(tree(&folder.join("my-pair")).contains_key("pair.json.sig"));
}

mod signatures {
    use super::*;

    fn signed() -> Scratch {
        let scratch = FIXTURE.copy();
        for words in
            [&["pair", "new-key", "DIR/ours"][..], &["pair", "sign", "PAIR", "--key", "DIR/ours.pem"]]
        {
            let output = scratch.run(words);
            assert_eq!(output.code, Some(0), "{}", output.stderr);
        }
        scratch
    }

    fn check(scratch: &Scratch, key: &str, code: i32, expected: Expect) {
        let output = scratch.run(&["pair", "verify", "PAIR", "--key", key]);
        expected.assert_eq(&output.stderr);
        assert_eq!(output.code, Some(code));
    }

    #[test]
    fn the_key_that_signed_is_told_from_others() {
        let scratch = signed();
        let output = scratch.run(&["pair", "verify", "PAIR", "--key", "DIR/ours.pub"]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let last = output.stdout.lines().last().unwrap();
        assert!(last.starts_with("  signed by the key ") && last.ends_with("ours.pub"), "{last}");
        let unchecked = scratch.run(&["pair", "verify", "PAIR"]);
        assert!(
            unchecked.stdout.ends_with("  signed; `--key FILE` checks by whom\n"),
            "{}",
            unchecked.stdout
        );
        scratch.run(&["pair", "new-key", "DIR/theirs"]);
        check(
            &scratch,
            "DIR/theirs.pub",
            3,
            expect![[r#"
            error: the signature of the pair is not one of the key DIR/theirs.pub
            help: use no pair that you do not know who vouches for; ask its owner for the right key or pair
        "#]],
        );
        check(
            &scratch,
            "DIR/ours.pem",
            1,
            expect![[r#"
            error: DIR/ours.pem is no key that can be used: it has no `-----BEGIN PUBLIC KEY-----` in it
            help: `tandem pair new-key NAME` makes one; `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256` does too
        "#]],
        );
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(scratch.folder.path().join("ours.pem")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "only its owner reads a private key");
    }

    #[test]
    fn a_signature_does_not_outlive_a_change() {
        let scratch = signed();
        scratch.reseal(|manifest| manifest["name"] = json!("other"));
        assert_eq!(scratch.run(&["pair", "verify", "PAIR"]).code, Some(0));
        check(
            &scratch,
            "DIR/ours.pub",
            3,
            expect![[r#"
            error: the signature of the pair is not one of the key DIR/ours.pub
            help: use no pair that you do not know who vouches for; ask its owner for the right key or pair
        "#]],
        );
    }

    #[test]
    fn a_pair_without_a_signature_is_refused_when_a_key_is_named() {
        let scratch = FIXTURE.copy();
        scratch.run(&["pair", "new-key", "DIR/ours"]);
        check(
            &scratch,
            "DIR/ours.pub",
            3,
            expect![[r#"
            error: the pair is not signed
            help: ask for a signed one; its owner signs it with `tandem pair sign PAIR --key KEY`
        "#]],
        );
    }

    /// What others make of key and signature: cosign's are those of OpenSSL.
    #[test]
    fn openssl_agrees_in_both_directions() {
        let scratch = signed();
        let path = |name: &str| scratch.folder.path().join(name).to_string_lossy().into_owned();
        let openssl = |words: &[&str]| std::process::Command::new("openssl").args(words).output();
        let (raw, pair) = (path("raw.sig"), path("pair/pair.json"));
        let decoded = openssl(&["base64", "-d", "-A", "-in", &path("pair/pair.json.sig"), "-out", &raw]);
        let Ok(decoded) = decoded else { return eprintln!("left out: there is no openssl here") };
        assert!(decoded.status.success());
        let checked =
            openssl(&["dgst", "-sha256", "-verify", &path("ours.pub"), "-signature", &raw, &pair]).unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        let (key, public) = (path("made.pem"), path("made.pub"));
        let made = ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", &key];
        assert!(openssl(&made).unwrap().status.success());
        assert!(openssl(&["pkey", "-in", &key, "-pubout", "-out", &public]).unwrap().status.success());
        assert_eq!(scratch.run(&["pair", "sign", "PAIR", "--key", "DIR/made.pem"]).code, Some(0));
        assert_eq!(scratch.run(&["pair", "verify", "PAIR", "--key", "DIR/made.pub"]).code, Some(0));
    }
}

/// A task, a script that solves it, and another policy than the pair's.
const TASK: &str = "host/tests/data/tasks/add";

#[test]
fn another_policy_beside_the_harness_needs_to_be_allowed() {
    let scratch = FIXTURE.copy();
    let other = scratch.folder.path().join("other");
    copy(&FIXTURE.path("base"), &other);
    let episode = ["episode", TASK, "--pair", "PAIR", "--policy", "DIR/other"];
    let output = scratch.run(&episode);
    expect![[r#"
        error: the policy is sha256:A, and the harness of this pair was evaluated with the policy sha256:B
        help: copy the pair again, or take the halves that belong together; `--allow-mismatch` uses these: the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves
    "#]].assert_eq(&settled(&output.stderr));
    assert_eq!(output.code, Some(1));
    let output = scratch.run(&[&episode[..], &["--allow-mismatch"]].concat());
    expect![[r#"
        warning: the policy is sha256:A, and the harness of this pair was evaluated with the policy sha256:B
        warning: the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves
    "#]].assert_eq(&settled(&output.stderr));
    // It ran, and solved nothing.
    assert_eq!(output.code, Some(3), "{}", output.stderr);
}

#[test]
fn a_changed_component_can_be_allowed_and_is_another_harness() {
    let scratch = FIXTURE.copy();
    let component = scratch.component();
    let mut bytes = std::fs::read(&component).unwrap();
    // An empty custom section: another component that does the same.
    bytes.extend([0, 2, 1, b'x']);
    std::fs::write(&component, bytes).unwrap();
    let script = format!("{TASK}/solution/demo.json");
    let episode = ["episode", TASK, "--pair", "PAIR", "--script", &script];
    assert_eq!(scratch.run(&episode).code, Some(1));
    let output = scratch.run(&[&episode[..], &["--allow-mismatch"]].concat());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(
        output.stderr.starts_with("warning: the component of the plugin `budget-warning` was changed"),
        "{}",
        output.stderr
    );
    let harness = scratch.manifest()["harness"].as_str().unwrap()["sha256:".len()..][..12].to_owned();
    assert!(
        output.stdout.contains("solved after 3 turns") && !output.stdout.contains(&harness),
        "{}",
        output.stdout
    );
}

#[test]
fn unpacked_halves_work_with_other_commands() {
    let scratch = FIXTURE.copy();
    let output = scratch.run(&["pair", "unpack", "PAIR", "-o", "DIR/out"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let script = format!("{TASK}/solution/demo.json");
    let output = scratch.run(&["episode", TASK, "--home", "DIR/out/harness", "--script", &script]);
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    let manifest = scratch.manifest();
    let harness = manifest["harness"].as_str().unwrap();
    assert!(output.stdout.contains(&harness["sha256:".len()..][..12]), "{}", output.stdout);
    let log = scratch.run(&["harness", "log", "--home", "DIR/out/harness", "--json"]);
    let entry: Value = serde_json::from_str(log.stdout.trim()).unwrap();
    assert_eq!(entry["sources"]["budget-warning"], manifest["plugins"][0]["source"]["digest"]);
    let info = scratch.run(&["model", "info", "DIR/out/policy"]);
    assert_eq!(info.code, Some(0), "{}", info.stderr);
}

#[test]
fn an_exported_pair_is_a_model_folder_with_the_harness_beside_the_weights() {
    let scratch = FIXTURE.copy();
    let output = scratch.run(&["pair", "export", "--hf", "PAIR", "-o", "DIR/out"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let out = scratch.folder.path().join("out");
    let files = tree(&out);
    let names: Vec<_> = files.keys().filter(|name| !name.contains("tandem/")).map(String::as_str).collect();
    expect![[r#"
        README.md
        config.json
        generation_config.json
        model.safetensors
        tandem.json
        tokenizer.json
        tokenizer_config.json"#]]
    .assert_eq(&names.join("\n"));
    for name in ["tandem/harness.json", "tandem/harness.toml", "tandem/pair.json"] {
        assert!(files.contains_key(name), "{name} is missing");
    }
    expect![[r#"
        ---
        library_name: transformers
        pipeline_tag: text-generation
        base_model: "base"
        license: other
        tags: [tandem, code-agent]
        ---

        # tiny

        Version 0 of a coding agent's policy, trained from `base`, and the harness that it was trained with. The two are a pair: without its harness a policy solves less (in the published experiments up to 7.7 points), and the numbers below hold for both together.

        | | digest |
        |---|---|
        | pair | `sha256:A` |
        | policy | `sha256:B` |
        | harness | `sha256:C` |

        ## Evaluation

        | policy | harness | tasks | episodes | pass rate, 95 % |
        |---|---|---|---|---|
        | v0 | `D` | 3 | 3 | 0.0 % [0.0 %, 70.8 %] |
        | **v0** | `C` | 3 | 3 | **66.7 % [0.0 %, 100.0 %]** |

        The bold row is this pair. Mean over tasks of the share of solved episodes; 95 % percentile bootstrap over tasks, and where all tasks agree the exact binomial interval.
        Over what the run began with: 66.7 % [0.0 %, 100.0 %].

        ## Harness

        - `budget-warning`: from the catalog, rust; A warning before the last turns lets the policy hand in what it has.

        Manifest, components and sources lie in `tandem/`.

        ## Use

        With Tandem, from the pair that this folder was made from:

        ```sh
        tandem pair verify PAIR --digest sha256:A
        tandem run --pair PAIR --repo . --task "what to do"
        ```

        With an inference server that serves this folder, the harness around it:

        ```sh
        tandem run --pair PAIR --repo . --task "what to do" --endpoint http://localhost:8000/v1 --model NAME
        ```

        The weights alone, without what the harness gives them:

        ```python
        from transformers import AutoModelForCausalLM, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained("FOLDER")
        model = AutoModelForCausalLM.from_pretrained("FOLDER")
        ```
    "#]].assert_eq(&settled(&String::from_utf8_lossy(&files["README.md"])));
    let info = scratch.run(&["model", "info", "DIR/out"]);
    assert_eq!(info.code, Some(0), "{}", info.stderr);
}

#[test]
fn an_adapter_needs_its_base_and_no_other() {
    let scratch = Scratch { folder: tempfile::tempdir().unwrap() };
    let run = FIXTURE.path("run").to_string_lossy().into_owned();
    let output = scratch.run(&["pair", "pack", &run, "-o", "PAIR", "--adapter-only"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let base = FIXTURE.path("base").to_string_lossy().into_owned();
    let export = ["pair", "export", "--hf", "PAIR", "-o", "DIR/out"];
    let output = scratch.run(&export);
    expect![[r#"
        error: the base policy of the pair, `base` (sha256:A), is not here
        cause: there is no model `base`: it is no file or folder, no known name and no hub id
        help: name its folder or file with `--base`
        help: known names are smollm2-135m, gemma3-270m; hub ids are `owner/name` or `owner/name@revision`
    "#]]
    .assert_eq(&settled(&output.stderr));
    let output = scratch.run(&[&export[..], &["--base", &base]].concat());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    // Folded together they are the weights of the whole pair.
    let folded = std::fs::read(scratch.folder.path().join("out/model.safetensors")).unwrap();
    assert!(folded == std::fs::read(FIXTURE.path("pair/policy/model.safetensors")).unwrap());
    let other = scratch.folder.path().join("base");
    copy(Path::new(&base), &other);
    std::fs::write(other.join("config.json"), "{}").unwrap();
    let output = scratch.run(&["pair", "export", "--hf", "PAIR", "-o", "DIR/two", "--base", "DIR/base"]);
    expect![[r#"
        error: the base policy `DIR/base` is sha256:A, and the adapter of this pair belongs on sha256:B
        help: copy the pair again, or take the halves that belong together; `--allow-mismatch` uses these: the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves
    "#]].assert_eq(&settled(&output.stderr));
    assert_eq!(output.code, Some(3));
}

mod run {
    use super::*;

    /// A repository with a fault, beside a copy of the pair.
    fn repository() -> Scratch {
        let scratch = FIXTURE.copy();
        let repo = scratch.folder.path().join("repo");
        copy(&root().join(TASK).join("environment/workspace"), &repo);
        let git = |words: &[&str]| {
            let done = std::process::Command::new("git").args(words).current_dir(&repo).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        git(&["init", "--quiet"]);
        git(&["add", "."]);
        git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "first"]);
        scratch
    }

    fn repair(scratch: &Scratch, words: &[&str]) -> Output {
        let script = root().join(TASK).join("solution/demo.json").to_string_lossy().into_owned();
        let base =
            ["run", "--pair", "PAIR", "--repo", "DIR/repo", "--task", "Mend the sum.", "--script", &script];
        scratch.run(&[&base[..], words].concat())
    }

    /// Progress without its clock.
    fn told(output: &Output) -> String {
        output
            .stderr
            .lines()
            .map(|line| format!("{}\n", line.split_once("] ").map_or(line, |(_, rest)| rest)))
            .collect()
    }

    #[test]
    fn a_patch_comes_out_and_the_repository_stays() {
        let scratch = repository();
        let before = tree(&scratch.folder.path().join("repo"));
        let output = repair(&scratch, &[]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        assert!(output.stdout.starts_with("diff --git a/calc.py b/calc.py\n"), "{}", output.stdout);
        assert!(output.stdout.contains("\n+    return left + right\n"), "{}", output.stdout);
        expect![[r#"
            turn 1: cat -n calc.py
            turn 2: sed -i '2c\    return left + right' calc.py
            turn 3: echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff
            a patch of 178 bytes after 3 turns; the repository was not touched
        "#]]
        .assert_eq(&told(&output));
        let to_file = repair(&scratch, &["--out", "DIR/fix.diff"]);
        assert_eq!(to_file.stdout, "");
        let written = std::fs::read_to_string(scratch.folder.path().join("fix.diff")).unwrap();
        assert_eq!(written, output.stdout);
        assert!(before == tree(&scratch.folder.path().join("repo")), "the repository was touched");
    }

    #[test]
    fn a_patch_is_applied_when_asked_for_and_the_check_succeeds() {
        let scratch = repository();
        let calc = scratch.folder.path().join("repo/calc.py");
        let before = std::fs::read_to_string(&calc).unwrap();
        let fails = repair(&scratch, &["--apply", "--check", "grep -q 'no such line' calc.py"]);
        assert_eq!(fails.code, Some(3), "{}", fails.stderr);
        expect!["the patch does not apply to a fresh copy, or the check fails with it; the repository was not touched"].assert_eq(told(&fails).lines().last().unwrap());
        assert_eq!(std::fs::read_to_string(&calc).unwrap(), before);
        let holds = repair(&scratch, &["--apply", "--check", "grep -q 'left + right' calc.py"]);
        assert_eq!((holds.code, holds.stdout.as_str()), (Some(0), ""), "{}", holds.stderr);
        assert!(std::fs::read_to_string(&calc).unwrap().contains("left + right"));
    }

    #[test]
    fn the_policy_of_the_pair_is_the_one_that_runs() {
        let scratch = repository();
        let output = scratch.run(&["run", "--pair", "PAIR", "--repo", "DIR/repo", "--task", "Mend the sum."]);
        // Two layers of noise write no command: three format errors end it.
        assert_eq!((output.code, output.stdout.as_str()), (Some(3), ""), "{}", output.stderr);
        let told = told(&output);
        assert!(told.contains("turn 3: ") && !told.contains("turn 4: "), "{told}");
        expect!["no patch after 3 turns: the limit of format errors was reached: 3 of 3 replies in a row could not be acted on"].assert_eq(told.lines().last().unwrap());
    }

    #[test]
    fn what_cannot_be_begun_is_told() {
        let scratch = repository();
        let check = |words: &[&str], expected: Expect| {
            let output = scratch.run(&[&["run", "--pair", "PAIR"], words].concat());
            expected.assert_eq(&output.stderr);
            assert_eq!(output.code, Some(1));
        };
        check(
            &["--repo", "DIR/none", "--task", "x"],
            expect![[r#"
            error: the repository DIR/none cannot be opened
            cause: No such file or directory (os error 2)
            help: check `--repo`
        "#]],
        );
        check(
            &["--repo", "DIR/repo", "--task", " "],
            expect![[r#"
            error: the task is empty
            help: say with `--task` what to do, or name a file that says it
        "#]],
        );
    }
}
