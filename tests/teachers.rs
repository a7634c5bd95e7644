//! Teachers as a user meets them: the commands of the page, keys, and a campaign
//! that is killed while it waits for an endpoint.

mod openai_server;
mod program;

use std::path::Path;
use std::process::Command;

use expect_test::{Expect, expect};
use openai_server::{Answer, Server, error, stream};
use program::{Program, root};

/// A scratch folder that looks like the clone to commands of the documentation.
fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("examples"), folder.path().join("examples")).unwrap();
    folder
}

fn shell(folder: &Path, script: &str) -> (Option<i32>, String) {
    let program = Path::new(env!("CARGO_BIN_EXE_tandem"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(folder)
        .env("PATH", path)
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code(), said.concat())
}

#[test]
fn every_command_of_the_page_works() {
    let page = std::fs::read_to_string(root().join("docs/teachers.md")).unwrap();
    let blocks: Vec<&str> =
        page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 4, "{} blocks", blocks.len());
    let folder = scratch();
    let mut said = String::new();
    for block in blocks {
        let (code, text) = shell(folder.path(), block);
        assert_eq!(code, Some(0), "{block}\n{text}");
        said.push_str(&text);
    }
    for part in [
        "=== system\nYou improve the harness",
        "- `empty-patch` in 1 episodes on 1 tasks",
        "hold-back: An empty patch goes back once",
        "built and admitted",
        "idea.wasm: ",
        "\"mechanism\": \"A rule with an exception",
        "1 tries, ",
    ] {
        assert!(said.contains(part), "the commands do not print `{part}`:\n{said}");
    }
}

const CAMPAIGN: &str = "name = 't'\nmethod = 'harness-only'\n[policy]\nbase = 'smollm2-135m'\n[tasks]\ntrain = 'examples/tasks/first-steps'\n[evolve]\nmin_tasks = 1\n";

/// Asks once, for an episode that handed in nothing; DIR and PORT stand for what differs from run to run.
fn ask(folder: &Path, section: &str, options: &str) -> (Option<i32>, String) {
    std::fs::write(folder.join("c.toml"), format!("{CAMPAIGN}{section}")).unwrap();
    let episode = "tandem episode examples/tasks/first-steps/leap-years --script examples/teachers/hand-in-nothing.json --json > failed.json || true";
    shell(
        folder,
        &format!(
            "[ -f failed.json ] || {{ {episode}; }}\n{options} tandem teacher ask c.toml --role harness --evidence failed.json"
        ),
    )
}

#[test]
fn a_key_is_neither_printed_nor_logged_nor_written() {
    let key = "tandem-test-key-0123456789";
    let server = Server::start(move |number, asked| {
        assert!(asked.head.contains(&format!("Bearer {key}")), "{}", asked.head);
        match number {
            0 => error("500 Internal Server Error", "", &format!("{key} broke it")),
            _ => stream(&format!("I was asked with {key}.")),
        }
    });
    let folder = scratch();
    let section = format!(
        "[teacher.harness]\nkind = 'openai'\nurl = '{}'\nmodel = 'm'\nkey_env = 'TEST_KEY'\nrecord = 'kept.jsonl'\nbudget = {{ backoff_ms = 1 }}\n",
        server.url
    );
    let (code, said) = ask(folder.path(), &section, &format!("TEST_KEY={key} TANDEM_LOG=trace"));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("I was asked with [key]."), "{said}");
    assert!(said.contains("TRACE") || said.contains("DEBUG"), "the log is on:\n{said}");
    assert!(!said.contains(key), "{said}");
    for entry in std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()) {
        let text = if entry.is_file() { std::fs::read_to_string(&entry).unwrap() } else { String::new() };
        assert!(!text.contains(key), "{}", entry.display());
    }
    assert!(folder.path().join("kept.jsonl").exists());
}

/// The error that a campaign with this section gives.
fn refused(section: &str, code: i32, expected: Expect) {
    let folder = scratch();
    let (found, said) = ask(folder.path(), section, "");
    expected.assert_eq(said.trim_end());
    assert_eq!(found, Some(code));
}

#[test]
fn a_section_that_cannot_work_is_refused_with_the_next_step() {
    refused(
        "",
        1,
        expect![[r#"
            error: `teacher.harness.kind` is `catalog`, which cannot be asked
            help: name another kind; docs/teachers.md lists them"#]],
    );
    refused(
        "[teacher.harness]\nkind = 'openai'\nurl = 'http://127.0.0.1:9/v1'\nmodel = 'm'\nkey_env = 'NOT_SET_ANYWHERE'\n",
        1,
        expect![[r#"
            error: `[teacher.harness]` cannot be used: the environment variable `NOT_SET_ANYWHERE` is not set
            help: put the endpoint's key into it"#]],
    );
    refused(
        "[teacher.harness]\nkind = 'openai'\nurl = 'http://127.0.0.1:9/v1'\n",
        1,
        expect![[r#"
            error: campaign file c.toml is not right: `teacher.harness.model` is missing, and `kind = "openai"` needs it
            help: docs/campaign.md lists every key"#]],
    );
    refused(
        "[teacher.harness]\nkind = 'recorded'\nexchanges = 'none.jsonl'\n",
        1,
        expect![[r#"
            error: `[teacher.harness]` cannot be used: the recorded exchanges none.jsonl cannot be read: No such file or directory (os error 2)
            help: check `exchanges`"#]],
    );
}

mod train {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use program::weights_are_here;

    #[test]
    fn sections_that_training_would_leave_unused_are_refused() {
        let check = |method: &str, section: &str, expected: Expect| {
            let folder = scratch();
            let text = format!("{}{section}", CAMPAIGN.replace("harness-only", method));
            std::fs::write(folder.path().join("c.toml"), text).unwrap();
            let (code, said) = shell(folder.path(), "tandem train c.toml --run run");
            expected.assert_eq(said.trim_end());
            assert_eq!(code, Some(1));
            assert!(!folder.path().join("run").exists());
        };
        check(
            "harness-only",
            "[teacher.skill]\nkind = 'command'\ncommand = ['cat']\n",
            expect![[r#"
                error: the campaign sets `[teacher.skill]`, but the method `harness-only` trains no policy
                help: leave the section out; `tandem teacher ask` can use it"#]],
        );
        check(
            "grpo",
            "[teacher.harness]\nkind = 'command'\ncommand = ['cat']\n",
            expect![[r#"
                error: the campaign sets `[teacher.harness]`, but the method `grpo` leaves the harness as it is
                help: leave the section out; `tandem teacher ask` can use it"#]],
        );
    }

    /// (place, outcome) of each try.
    fn tries(run: &Path) -> Vec<(String, String)> {
        let connection = rusqlite::Connection::open(run.join("run.sqlite")).unwrap();
        let mut statement = connection.prepare("SELECT place, outcome FROM exchange ORDER BY seq").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    }

    const REPLY: &str = "```toml\nname = \"turn-two\"\nmechanism = \"Says in turn two what is left.\"\npoints = [\"on-model-call\"]\nfixes = [\"SIGNAL\"]\n```\n```rust\nuse tandem_plugin::*;\npub struct Plugin;\nimpl OnModelCall for Plugin {\n    fn on_model_call(context: Context) -> Option<ModelCallEffect> {\n        (context.turn == 2).then(|| ModelCallEffect::Note(\"Hand in soon.\".into()))\n    }\n}\nexport_on_model_call!(Plugin);\n```\n";

    #[test]
    fn a_killed_campaign_neither_loses_nor_repeats_a_paid_exchange() {
        if !weights_are_here() {
            return;
        }
        // The first reply is no use; the second request is never answered while `phase` is 0.
        let phase = Arc::new(AtomicUsize::new(0));
        let seen = phase.clone();
        let server = Server::start(move |number, asked| {
            let user = asked.body["messages"][1]["content"].as_str().unwrap().to_owned();
            match (number, seen.load(Ordering::SeqCst)) {
                (0, _) => stream("An idea without blocks."),
                (_, 0) => Answer::Silence,
                _ => {
                    let signal = user.split("\n- `").nth(1).and_then(|rest| rest.split('`').next());
                    stream(&REPLY.replace("SIGNAL", signal.unwrap()))
                }
            }
        });
        let folder = scratch();
        let examples = root().join("examples");
        let text = format!(
            "name = 't'\nmethod = 'harness-only'\nseed = 3\n[policy]\nbase = 'smollm2-135m'\nadapter = '{}'\nslots = 8\ncontext = 900\n[tasks]\ntrain = 'examples/tasks/first-steps'\n[harness]\nmanifest = '{}'\n[rollout]\ngroup_size = 2\ngroups = 2\ndiagnosed = 1.0\nconcurrency = 8\nsampling = {{ max_tokens = 24 }}\n[evolve]\nmin_tasks = 1\ncandidates = 1\n[evolve.gate]\ntasks = 1\nbatch = 1\ngroup_size = 1\n[evaluation]\nepisodes = 0\n[teacher.harness]\nkind = 'openai'\nurl = '{}'\nmodel = 'm'\n[teacher.harness.price]\nprompt = 1.0\nreply = 1.0\n",
            examples.join("quickstart/adapter").display(),
            examples.join("quickstart/harness.toml").display(),
            server.url,
        );
        std::fs::write(folder.path().join("c.toml"), text).unwrap();
        let run = folder.path().join("run");
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let mut arguments =
            vec!["train".to_owned(), path(&folder.path().join("c.toml")), "--run".into(), path(&run)];
        let mut child = Program::new(&arguments).spawn();
        while server.count() < 2 {
            assert!(!child.wait_at_most(Duration::from_millis(50)), "the campaign ended early");
        }
        child.kill();
        let place = |round: usize| format!("r1/harness/0/{round}");
        let row = |round: usize, outcome: &str| (place(round), outcome.to_owned());
        assert_eq!(tries(&run), [row(0, "answered"), row(1, "begun")]);

        phase.store(1, Ordering::SeqCst);
        arguments.push("--resume".into());
        let output = Program::new(&arguments).run();
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        assert_eq!(tries(&run), [row(0, "answered"), row(1, "cut-off"), row(1, "answered")]);
        // The first exchange was not held again, and the second request is the one that was cut off.
        let asked = server.asked.lock().unwrap().clone();
        assert_eq!(asked.len(), 3);
        assert_eq!(asked[1].body, asked[2].body);
        for part in [
            "Teachers",
            "m (openai)",
            "2/3",
            "turn-two, sent back: there is no fenced manifest block",
            "turn-two for ",
        ] {
            assert!(output.stdout.contains(part), "the report lacks `{part}`:\n{}", output.stdout);
        }

        // The run is evidence for the next request, and keeps a skill that it gave rise to.
        let (code, said) =
            shell(folder.path(), "tandem teacher ask c.toml --role harness --evidence run --dry-run");
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("`turn-two`") && said.contains("<evidence>\n### Episode 1"), "{said}");
        let skill =
            "[teacher.skill]\nkind = 'command'\ncommand = ['cat', 'examples/teachers/century-skill.md']\n";
        std::fs::write(folder.path().join("s.toml"), format!("{CAMPAIGN}{skill}")).unwrap();
        let (code, said) =
            shell(folder.path(), "tandem teacher ask s.toml --role skill --evidence run --keep");
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("kept: the run has 1 for this task"), "{said}");
        let connection = rusqlite::Connection::open(run.join("run.sqlite")).unwrap();
        let row = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
        let place = row("SELECT place FROM skill");
        assert_eq!(place, row("SELECT place FROM exchange WHERE role = 'skill' AND outcome = 'answered'"));
    }
}
