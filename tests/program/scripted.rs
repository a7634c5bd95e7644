//! A small campaign without a model, for tests of runs: every phase of it takes a moment.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::program::{Output, Program};

/// As in `tandem_host::store`.
pub const DIE_AT: &str = "TANDEM_DIE_AT_MOMENT";

/// Two rounds of harness evolution: on the tasks `a`, `c` and `e` the script never hands in, so the candidate
/// that rescues its work is accepted; on `b` and `d` it hands in nothing half of the time, and no candidate
/// helps.
pub const CAMPAIGN: &str = r#"
name = "killed"
method = "harness-only"
seed = 11
rounds = 2
policy.base = "script:script.toml"
tasks.train = "tasks"
tasks.evaluation = "held-out"
harness.manifest = "harness.toml"
[rollout]
group_size = 2
groups = 3
diagnosed = 0.6
concurrency = 4
[evolve]
min_tasks = 1
candidates = 2
[evolve.gate]
rule = "paper"
tasks = 2
batch = 1
group_size = 1
[evaluation]
episodes = 1
[retention]
transcripts = 1
"#;

const SCRIPT: &str = r#"
[[rules]]
tasks = ["a", "c", "e"]
otherwise = ["```bash\necho right > answer.txt\n```"]
[[rules]]
tasks = ["b", "d"]
chance = 0.5
"#;

const HARNESS: &str = "contract = \"tandem:harness@0.1.0\"\n[limits]\nturns = 2\ncommand_seconds = 10\n";

const PATCH: &str = "\
diff --git a/answer.txt b/answer.txt
--- a/answer.txt
+++ b/answer.txt
@@ -1 +1 @@
-wrong
+right
";

const TEST: &str = "\
if [ \"$(cat answer.txt)\" = right ]; then reward=1; else reward=0; fi
echo $reward > /logs/verifier/reward.txt
";

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A campaign with its tasks in a folder of its own.
pub struct Site(pub tempfile::TempDir);

impl Site {
    pub fn new() -> Self {
        let site = Self(tempfile::tempdir().unwrap());
        let folder = site.0.path();
        write(folder, "campaign.toml", CAMPAIGN);
        write(folder, "script.toml", SCRIPT);
        write(folder, "harness.toml", HARNESS);
        for (set, task) in
            [("tasks", "a"), ("tasks", "b"), ("tasks", "e"), ("held-out", "c"), ("held-out", "d")]
        {
            let file = |name: &str| format!("{set}/{task}/{name}");
            write(
                folder,
                &file("task.toml"),
                &format!("schema_version = \"1.4\"\n[task]\nname = \"{task}\"\n"),
            );
            write(folder, &file("instruction.md"), "Make it right.\n");
            write(folder, &file("environment/workspace/answer.txt"), "wrong\n");
            write(folder, &file("solution/patch.diff"), PATCH);
            write(folder, &file("tests/test.sh"), TEST);
        }
        site
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_string_lossy().into_owned()
    }

    /// A start or a further start of run `run`.
    pub fn train(&self, run: &str) -> Program {
        let mut arguments =
            vec!["train".to_owned(), self.path("campaign.toml"), "--run".into(), self.path(run)];
        if PathBuf::from(self.path(run)).join("campaign.json").exists() {
            arguments.push("--resume".into());
        }
        Program::new(&arguments)
    }

    pub fn tell(&self, arguments: &[&str]) -> Output {
        let arguments: Vec<_> = arguments
            .iter()
            .map(|argument| argument.strip_prefix("RUN:").map_or((*argument).into(), |run| self.path(run)))
            .collect();
        Program::new(&arguments).run()
    }

    /// What must not depend on kills.
    pub fn ending(&self, run: &str) -> Ending {
        let run = format!("RUN:{run}");
        let told = |arguments: &[&str]| {
            let output = self.tell(arguments);
            assert_eq!(output.code, Some(0), "{arguments:?}\n{}{}", output.stdout, output.stderr);
            output.stdout
        };
        let gates = told(&["gate", "list", &run, "--json"]);
        let list: serde_json::Value = serde_json::from_str(&gates).unwrap();
        for gate in list.as_array().unwrap() {
            told(&["gate", "explain", &run, gate["gate"].as_str().unwrap(), "--records"]);
        }
        let audit = told(&["run", "verify", &run, "--blobs"]);
        assert!(audit.contains("no fault"), "{audit}");
        let log = told(&["harness", "log", "--json", "--home", &run]);
        let entry = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        let ledger: Vec<_> =
            log.lines().map(|line| entry(line)["harness"].as_str().unwrap().to_owned()).collect();
        let file = PathBuf::from(self.path(run.strip_prefix("RUN:").unwrap())).join("run.sqlite");
        let connection = rusqlite::Connection::open(file).unwrap();
        let mut statement = connection
            .prepare("SELECT arm, round, COUNT(*), COUNT(DISTINCT id) FROM episode GROUP BY 1, 2")
            .unwrap();
        let counts = statement
            .query_map([], |row| {
                let key: (String, u32) = (row.get(0)?, row.get(1)?);
                let (all, ids): (u32, u32) = (row.get(2)?, row.get(3)?);
                assert_eq!(all, ids);
                Ok((key, all))
            })
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        Ending { ledger, gates, counts }
    }
}

#[derive(Debug, PartialEq)]
pub struct Ending {
    /// Published harnesses, the last one is in force.
    pub ledger: Vec<String>,
    pub gates: String,
    pub counts: BTreeMap<(String, u32), u32>,
}
