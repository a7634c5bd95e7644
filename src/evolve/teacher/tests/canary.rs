//! What a task hides appears in no request: canaries in its tests, its solution and
//! its verifier's output, and an agent that looks for them.

use std::path::Path;
use std::sync::Arc;

use tandem_host::agent::{EpisodeRecord, Outcome};
use tandem_host::harness::{Generation, HarnessManifest};
use tandem_host::plugin::{Engine, PluginLimits};
use tandem_host::policy::{Sampling, ScriptedPolicy};
use tandem_host::rollout::{Cancel, EpisodeSpec, RolloutConfig, run_many};
use tandem_host::store::BlobStore;
use tandem_host::task::Task;
use tandem_host::workspace::WorkspaceConfig;

use super::super::{Evidence, HarnessBrief, HarnessTeacher, SkillBrief, SkillTeacher, TeacherConfig};
use crate::evolve::diagnose;

const CANARY: &str = "kestrel";

fn task(folder: &Path) -> Task {
    let test = format!(
        "#!/bin/sh\necho {CANARY}-output\necho {CANARY}-error >&2\necho {CANARY}-log > /logs/verifier/log.txt\necho 0 > /logs/verifier/reward.txt\n"
    );
    let files = [
        (
            "task.toml",
            format!(
                "schema_version = \"1.4\"\n[verifier]\ntimeout_sec = 60.0\nenv = {{ A = \"{CANARY}-env\" }}\n"
            ),
        ),
        ("instruction.md", "Mend it.\n".into()),
        ("environment/workspace/m.py", "x = 1\n".into()),
        ("tests/test.sh", test),
        (&format!("tests/test_{CANARY}_name.py"), format!("def test_{CANARY}(): assert '{CANARY}-test'\n")),
        (
            "solution/patch.diff",
            format!("--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-x = 1\n+x = '{CANARY}-patch'\n"),
        ),
        ("solution/solve.sh", format!("echo {CANARY}-solve\n")),
    ];
    for (path, text) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    Task::load(folder).unwrap()
}

/// The agent looks everywhere, and for the tests by name, and hands in what it has.
fn looks() -> Vec<String> {
    let bash = |command: &str| format!("I look.\n\n```bash\n{command}\n```");
    vec![
        bash("env; ls -la / /tests /logs /logs/verifier ../ 2>&1; cat /tests/* /logs/verifier/* 2>&1"),
        bash(
            "ls -R . ; find / -name 'test*.py' -newer m.py -not -path '/proc/*' 2>/dev/null | head -50; git log -p | head -50",
        ),
        bash("echo y >> m.py; echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"),
    ]
}

async fn episode(task: Arc<Task>) -> EpisodeRecord {
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(folder.path()).unwrap();
    let generation =
        Generation::build(&Engine::new(PluginLimits::default()).unwrap(), HarnessManifest::bare(), &blobs)
            .await
            .unwrap();
    let spec = EpisodeSpec {
        id: "e".into(),
        group: "g".into(),
        task,
        seed: 0,
        sampling: Sampling::default(),
        skill: None,
    };
    let mut records = Vec::new();
    let config = RolloutConfig { concurrency: 1, retries: 0, workspaces: WorkspaceConfig::default() };
    let policy = Arc::new(ScriptedPolicy::new(|_| looks()));
    let keep = |record| {
        records.push(record);
        Ok::<_, anyhow::Error>(())
    };
    run_many(vec![spec], policy, |_| generation.lease(), &config, &Cancel::new(), keep).await.unwrap();
    records.pop().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn teachers_never_see_hidden_tests_reference_patches_or_verifier_logs() {
    let folder = tempfile::tempdir().unwrap();
    let task = Arc::new(task(folder.path()));
    // The canaries are really there: the verifier prints them.
    let verdict = task.verify(b"", &WorkspaceConfig::default()).await.unwrap();
    assert!(verdict.output.contains(&format!("{CANARY}-output")), "{}", verdict.output);
    let record = episode(task.clone()).await;
    assert_eq!(record.outcome, Outcome::Unsolved);
    assert_eq!(record.turns.len(), 3);
    let records = [record];
    let diagnosis = diagnose(&records);
    let evidence = Evidence::of(&records);
    let config = TeacherConfig { evidence_tokens: 100_000, ..TeacherConfig::default() };
    let brief = HarnessBrief {
        evidence: &evidence,
        diagnosis: &diagnosis,
        recurring: &[(crate::evolve::Signal::EmptyPatch, 1)],
        harness: &HarnessManifest::bare(),
        plugins: vec![],
        kept: vec![],
        rejected: vec![],
    };
    let harness = HarnessTeacher::open(&config).unwrap().request(&brief).unwrap();
    let brief = SkillBrief {
        task: task.name(),
        instruction: task.instruction(),
        evidence: &evidence,
        episodes: 1,
        failed: 1,
    };
    let skill = SkillTeacher::open(&config).unwrap().request(&brief).unwrap();
    for request in [harness, skill] {
        let json = request.to_json();
        // The agent's own moves are in it, so the evidence is not empty.
        assert!(json.contains("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"), "{json}");
        let at = json.to_lowercase().find(CANARY);
        assert_eq!(at, None, "{}", &json[at.unwrap_or(0).saturating_sub(200)..]);
    }
}
