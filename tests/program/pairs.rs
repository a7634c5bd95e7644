//! A finished run and its pairs, made once for a test program.
//!
//! One campaign of a policy with two layers is run once; an evolved plugin is then put into its
//! record as a gate would, so that a pair has everything in it that one can have.
// Each test program uses a part of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use expect_test::Expect;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::program::{Output, Program, root, tandem_home};
use crate::tiny;

/// A task that a pair may work on, with a demonstration.
pub const TASK: &str = "host/tests/data/tasks/add";

pub const SKILL: &str = "A skill that must never be shipped: look at the last line first.";

/// Runs of the campaign and what was packed from them.
pub struct Fixture {
    pub folder: tempfile::TempDir,
}

pub static FIXTURE: LazyLock<Fixture> = LazyLock::new(Fixture::new);

impl Fixture {
    pub fn new() -> Self {
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

    pub fn campaign(&self) -> String {
        format!(
            "name = \"tiny\"\nmethod = \"grpo\"\nseed = 3\n[policy]\nbase = \"{}\"\ncontext = 8192\nslots = 2\n\
             lora = {{ rank = 2, alpha = 4.0 }}\n[tasks]\ntrain = \"{}\"\n[rollout]\ngroup_size = 2\ngroups = 1\n\
             sampling = {{ max_tokens = 8 }}\n[evaluation]\nepisodes = 1\ntasks = 3\n",
            self.path("base").display(),
            root().join("examples/tasks/first-steps").display()
        )
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program, with `DIR` for the folder of the fixture.
    pub fn run(&self, words: &[&str]) -> Output {
        let dir = self.folder.path().to_string_lossy().into_owned();
        let words: Vec<_> = words.iter().map(|word| word.replace("DIR", &dir)).collect();
        Program::new(&words).env("TANDEM_HOME", &tandem_home()).run()
    }

    /// Runs it, which must end with 0.
    pub fn done(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.code, Some(0), "{words:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    }

    pub fn check(&self, words: &[&str], code: i32, expected: Expect) {
        let output = self.run(words);
        let text = format!("{}{}", output.stdout, output.stderr);
        let text = text.replace(&self.folder.path().to_string_lossy().into_owned(), "DIR");
        expected.assert_eq(&settled(&text));
        assert_eq!(output.code, Some(code), "{text}");
    }

    /// Puts a plugin that the catalog wrote and a gate let in into the record of the run, with a
    /// skill that a teacher wrote, as a campaign would have left them.
    pub fn evolve(&self) {
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
        let cell = "INSERT INTO episode SELECT 'evolved/' || id, round, arm, task, group_key, policy_version, ?1, NULL,
            iif(task = (SELECT min(task) FROM episode WHERE arm = 'evaluate'), 'unsolved', 'solved'), exit, turns,
            sampled_tokens, effects, faults, seconds, record, 0 FROM episode WHERE arm = 'evaluate'";
        connection.execute(cell, [&harness]).unwrap();
    }

    /// Keeps bytes among the blobs of the run.
    pub fn blob(&self, bytes: &[u8]) -> String {
        let hex = hex::encode(Sha256::digest(bytes));
        std::fs::write(self.path("run/blobs").join(&hex), bytes).unwrap();
        format!("sha256:{hex}")
    }

    /// A copy of the pair that a test may break.
    pub fn copy(&self) -> Scratch {
        let scratch = Scratch { folder: tempfile::tempdir().unwrap() };
        copy(&self.path("pair"), &scratch.pair());
        scratch
    }
}

pub struct Scratch {
    pub folder: tempfile::TempDir,
}

impl Scratch {
    pub fn pair(&self) -> PathBuf {
        self.folder.path().join("pair")
    }

    pub fn manifest(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.pair().join("pair.json")).unwrap()).unwrap()
    }

    /// Changes pair.json as somebody would who knows how its digest is made.
    pub fn reseal(&self, change: impl FnOnce(&mut Value)) {
        let mut manifest = self.manifest();
        change(&mut manifest);
        let zeros = format!("sha256:{}", "0".repeat(64));
        manifest["digest"] = json!(zeros);
        let text = format!("{}\n", serde_json::to_string_pretty(&manifest).unwrap());
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(&text)));
        std::fs::write(self.pair().join("pair.json"), text.replacen(&zeros, &digest, 1)).unwrap();
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.pair().join(name), text).unwrap();
    }

    pub fn component(&self) -> PathBuf {
        std::fs::read_dir(self.pair().join("components")).unwrap().next().unwrap().unwrap().path()
    }

    pub fn run(&self, words: &[&str]) -> Output {
        let dir = self.folder.path().to_string_lossy().into_owned();
        let words: Vec<_> = words.iter().map(|word| word.replace("PAIR", &format!("{dir}/pair"))).collect();
        let words: Vec<_> = words.iter().map(|word| word.replace("DIR", &dir)).collect();
        let mut output = Program::new(&words).env("TANDEM_HOME", &tandem_home()).run();
        output.stderr = output.stderr.replace(&dir, "DIR");
        output
    }

    pub fn refused(&self, expected: Expect) {
        let output = self.run(&["pair", "verify", "PAIR"]);
        expected.assert_eq(&settled(&output.stderr));
        assert_eq!((output.code, output.stdout.as_str()), (Some(3), ""));
    }
}

pub fn copy(from: &Path, to: &Path) {
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
pub fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
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
pub fn settled(text: &str) -> String {
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
