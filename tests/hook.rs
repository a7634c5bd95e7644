//! Do the hooks of a harness run in other agents? The real program, called as the agents call it.

mod program;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use expect_test::{Expect, expect};
use program::{Output, Program, root, tandem_home};
use serde_json::{Value, json};

static COMPONENT: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/data/in-agents.rs");
    let out = folder.path().join("in-agents.wasm");
    let words = ["plugin", "build", &source.to_string_lossy(), "-o", &out.to_string_lossy()];
    let output = Program::new(&words.map(String::from)).env("TANDEM_HOME", &tandem_home()).run();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    folder
});

/// A project, a harness home with the plugin, and a place for daemons of this test alone.
struct Agent {
    folder: tempfile::TempDir,
}

impl Agent {
    fn new() -> Self {
        let agent = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(agent.path("project")).unwrap();
        fs::write(agent.path("project/notes.txt"), "what was noted\n").unwrap();
        fs::write(agent.path("project/code.py"), "x = 1\n").unwrap();
        let wasm = COMPONENT.path().join("in-agents.wasm");
        let add = ["harness", "add", "in-agents", &wasm.to_string_lossy(), "--grant", "state"];
        let add = [&add[..], &["--grant", "workspace-read", "--reason", "to be tried"]].concat();
        let output = agent.run(&add);
        assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
        agent
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Output {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        Program::new(&words)
            .env("TANDEM_HOME", &tandem_home())
            .env("TANDEM_HARNESS_HOME", &self.path("home").to_string_lossy())
            .env("TANDEM_HOOK_DIR", &self.path("run").to_string_lossy())
            .env("HOME", &self.path("user").to_string_lossy())
            .run()
    }

    /// Starts the hook's process as an agent does, and gives back its code and what it wrote.
    fn call(&self, agent: &str, event: &str, said: &Value) -> (Option<i32>, String) {
        self.call_with(agent, event, &said.to_string(), "current")
    }

    fn call_with(&self, agent: &str, event: &str, said: &str, harness: &str) -> (Option<i32>, String) {
        let home = self.path("home");
        let mut child = Command::new(env!("CARGO_BIN_EXE_tandem"))
            .args(["hook", agent, event, "--harness", harness, "--home", &home.to_string_lossy()])
            .env("TANDEM_HOME", tandem_home())
            .env("TANDEM_HOOK_DIR", self.path("run"))
            .current_dir(self.path("project"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(said.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "an agent may show this to its model");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// An event of Claude Code in a session.
    fn claude(&self, session: &str, event: &str, more: Value) -> String {
        let mut said = json!({"session_id": session, "cwd": self.path("project"), "hook_event_name": event});
        for (name, value) in more.as_object().unwrap() {
            said[name] = value.clone();
        }
        let (code, output) = self.call("claude", event, &said);
        assert_eq!(code, Some(0));
        output
    }

    fn bash(&self, session: &str, command: &str) -> String {
        let call = json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": command});
        self.claude(session, "PreToolUse", call)
    }

    fn bash_ran(&self, session: &str, command: &str) -> String {
        let call = json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": command,
            "tool_response": {"stdout": "out", "stderr": "", "interrupted": false}});
        self.claude(session, "PostToolUse", call)
    }

    fn journal(&self) -> Vec<Value> {
        let output = self.run(&["hook", "status", "--harness", "current", "--json"]);
        let status: Value = serde_json::from_str(&output.stdout).unwrap();
        let text = fs::read_to_string(status["journal"].as_str().unwrap()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn status(&self) -> Value {
        let output = self.run(&["hook", "status", "--harness", "current", "--json"]);
        serde_json::from_str::<Value>(&output.stdout).unwrap()["daemon"].clone()
    }

    fn check(&self, words: &[&str], code: i32, expected: Expect) {
        let output = self.run(words);
        let text = format!("{}{}", output.stdout, output.stderr);
        let text = text.replace(&self.folder.path().to_string_lossy().into_owned(), "DIR");
        expected.assert_eq(&text.replace(env!("CARGO_BIN_EXE_tandem"), "TANDEM"));
        assert_eq!(output.code, Some(code));
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.run(&["hook", "stop", "--harness", "current"]);
    }
}

#[test]
fn the_hooks_of_a_harness_run_in_a_session_of_claude_code() {
    let agent = Agent::new();
    assert_eq!(agent.claude("s", "SessionStart", json!({"source": "startup"})), "");
    let check = |output: String, expected: Expect| expected.assert_eq(&output);
    check(
        agent.claude("s", "UserPromptSubmit", json!({"prompt": "repair it"})),
        expect![[
            r#"{"hookSpecificOutput":{"additionalContext":"Task of 9 letters.","hookEventName":"UserPromptSubmit"}}"#
        ]],
    );
    check(agent.bash("s", "ls"), expect![""]);
    check(agent.bash_ran("s", "ls"), expect![""]);
    check(
        agent.bash("s", "vim"),
        expect![[
            r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"Nobody is there to type.\n(refused)"}}"#
        ]],
    );
    check(
        agent.bash("s", "pytest"),
        expect![[
            r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"command":"pytest -q"}}}"#
        ]],
    );
    check(agent.bash("s", "count"), expect![""]);
    check(
        agent.bash_ran("s", "count"),
        expect![[r#"{"hookSpecificOutput":{"additionalContext":"4 calls.","hookEventName":"PostToolUse"}}"#]],
    );
    // The project's own files, as they are now.
    check(agent.bash("s", "read"), expect![""]);
    check(
        agent.bash_ran("s", "read"),
        expect![[
            r#"{"hookSpecificOutput":{"hookEventName":"PostToolUse","updatedToolOutput":{"interrupted":false,"stderr":"","stdout":"what was noted\n"}}}"#
        ]],
    );
    // Another session has other plugins.
    check(agent.bash("other", "count"), expect![""]);
    check(
        agent.bash_ran("other", "count"),
        expect![[r#"{"hookSpecificOutput":{"additionalContext":"1 calls.","hookEventName":"PostToolUse"}}"#]],
    );
    fs::write(agent.path("project/code.py"), "x = 2\n").unwrap();
    fs::write(agent.path("project/new.py"), "").unwrap();
    check(
        agent.claude("s", "Stop", json!({"stop_hook_active": false})),
        expect![[r#"{"decision":"block","reason":"changed [\"code.py\"], new [\"new.py\"]: look again"}"#]],
    );
    check(agent.claude("s", "Stop", json!({"stop_hook_active": true})), expect![""]);
    check(agent.claude("s", "SessionEnd", json!({"reason": "other"})), expect![""]);
    let status = agent.status();
    assert_eq!(status["sessions"], 1, "the session that ended is gone: {status}");
    let journal = agent.journal();
    let refused = journal.iter().find(|line| line["effects"][0]["kind"] == "refuse").unwrap();
    assert_eq!((&refused["agent"], &refused["session"]), (&json!("claude"), &json!("s")));
    assert!(refused["effects"][0]["plugin"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(refused["harness"], status["harness"]);
    // Only this user reaches the daemon.
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(agent.path("run")), 0o700);
    let sockets = fs::read_dir(agent.path("run")).unwrap().map(|entry| entry.unwrap().path());
    let socket = sockets.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "sock"));
    assert_eq!(mode(socket.unwrap()), 0o600);
}

#[test]
fn codex_and_openhands_are_answered_in_their_formats() {
    let agent = Agent::new();
    let folder = agent.path("project");
    let codex = json!({"session_id": "c", "turn_id": "1", "transcript_path": null, "cwd": folder, "model": "m",
        "permission_mode": "default", "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": {"command": "pytest"}, "tool_use_id": "t"});
    let (_, output) = agent.call("codex", "PreToolUse", &codex);
    expect![[r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"pytest -q"}}}"#]].assert_eq(&output);
    let openhands = json!({"event_type": "PreToolUse", "tool_name": "terminal", "tool_input": {"command": "vim"},
        "session_id": null, "working_dir": folder, "metadata": {}});
    let (_, output) = agent.call("openhands", "PreToolUse", &openhands);
    expect![[r#"{"decision":"deny","reason":"Nobody is there to type.\n(refused)"}"#]].assert_eq(&output);
    let lost = json!({"event_type": "PreToolUse", "tool_name": "terminal", "tool_input": {"command": "pytest"},
        "session_id": null, "working_dir": folder, "metadata": {}});
    assert_eq!(agent.call("openhands", "PreToolUse", &lost), (Some(0), String::new()));
    let journal = agent.journal();
    let line = journal.iter().find(|line| line["not_expressed"] != json!([])).unwrap();
    assert_eq!(
        line["not_expressed"],
        json!(["rewritten arguments: OpenHands runs a tool with those of the model"])
    );
}

#[test]
fn a_fault_and_a_broken_daemon_mean_that_nothing_happens() {
    let agent = Agent::new();
    assert_eq!(agent.bash("s", "crash"), "");
    let journal = agent.journal();
    let fault = journal.iter().find(|line| line["faults"] != json!([])).unwrap();
    assert!(fault["faults"][0]["reason"].as_str().unwrap().contains("this plugin breaks"), "{fault}");
    // A harness that cannot be built, one that is not there, and JSON that is none.
    fs::write(agent.path("bad.toml"), "contract = \"tandem:harness@9.9.9\"\n").unwrap();
    let bad = agent.path("bad.toml").to_string_lossy().into_owned();
    let said = json!({"session_id": "s", "cwd": "/", "hook_event_name": "Stop"}).to_string();
    for harness in [bad.as_str(), "/nowhere/harness.toml"] {
        assert_eq!(agent.call_with("claude", "Stop", &said, harness), (Some(0), String::new()), "{harness}");
    }
    let output = agent.run(&["hook", "status", "--harness", &bad]);
    assert!(
        output.stdout.contains("could not start") && output.stdout.contains("9.9.9"),
        "{}",
        output.stdout
    );
    assert_eq!(agent.call_with("claude", "Stop", "{", "current"), (Some(0), String::new()));
    // A daemon that was killed is started again by the next call; its sessions begin anew.
    let process = agent.status()["process"].to_string();
    assert!(Command::new("kill").args(["-KILL", &process]).status().unwrap().success());
    assert_eq!(agent.bash("s", "ls"), "");
    assert_ne!(agent.status()["process"].to_string(), process);
}

#[test]
fn many_calls_at_once_start_one_daemon() {
    let agent = Agent::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let agent = &agent;
            scope.spawn(move || assert_eq!(agent.bash(&format!("s{number}"), "ls"), ""));
        }
    });
    let status = agent.status();
    assert_eq!((&status["calls"], &status["sessions"]), (&json!(8), &json!(8)));
}

#[test]
fn an_open_session_keeps_its_harness_when_another_is_published() {
    let agent = Agent::new();
    agent.bash("old", "ls");
    let before = agent.status()["harness"].clone();
    let output = agent.run(&["harness", "remove", "in-agents", "--reason", "to see who notices"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(agent.bash("old", "vim").contains("deny"), "the session began before");
    assert_eq!(agent.bash("new", "vim"), "", "this one did not");
    assert_ne!(agent.status()["harness"], before);
}

#[test]
fn a_daemon_that_nobody_calls_ends() {
    let agent = Agent::new();
    let home = agent.path("home").to_string_lossy().into_owned();
    let words = ["hook", "daemon", "--harness", "current", "--home", &home, "--idle-seconds", "0.2"];
    let mut daemon = Program::new(&words.map(String::from))
        .env("TANDEM_HOME", &tandem_home())
        .env("TANDEM_HOOK_DIR", &agent.path("run").to_string_lossy())
        .spawn();
    assert!(daemon.wait_at_most(std::time::Duration::from_secs(60)));
    assert_eq!(daemon.output().code, Some(0));
    assert!(
        !fs::read_dir(agent.path("run"))
            .unwrap()
            .any(|entry| { entry.unwrap().path().extension().is_some_and(|ending| ending == "sock") })
    );
}

#[test]
fn what_an_agent_cannot_express_is_listed() {
    let agent = Agent::new();
    agent.check(
        &["hook", "capabilities", "openhands", "--harness", "current"],
        0,
        expect![[r#"
        In OpenHands (written against SDK 1.58.2):
          yes   in-agents  on-episode-start note: text beside the first message of the user (UserPromptSubmit)
          no    in-agents  on-tool-call rewrite: OpenHands runs a tool with the arguments of the model
          yes   in-agents  on-tool-call refuse: the call is not run, and the model reads why
          no    in-agents  on-tool-result annotate: OpenHands takes nothing back after a tool has run
          no    in-agents  on-tool-result replace: OpenHands takes nothing back after a tool has run
          yes   in-agents  on-submit defer: the agent goes on when it wants to stop, and reads why
        Of the harness itself, this is not used:
          its prompts: the agent has its own
          its limits of turns, tokens, time and money: the agent has its own, and plugins see no limit
    "#]],
    );
    agent.check(
        &[
            "hook",
            "install",
            "openhands",
            "--harness",
            "current",
            "--project",
            &agent.path("project").to_string_lossy(),
        ],
        0,
        expect![[r#"
            DIR/project/.openhands/hooks.json is written
            note: OpenHands does not express what `in-agents` does at `on-tool-call` (rewrite): OpenHands runs a tool with the arguments of the model
            note: OpenHands does not express what `in-agents` does at `on-tool-result` (annotate): OpenHands takes nothing back after a tool has run
            note: OpenHands does not express what `in-agents` does at `on-tool-result` (replace): OpenHands takes nothing back after a tool has run
        "#]],
    );
}

#[test]
fn settings_are_written_once_and_taken_out_again() {
    let agent = Agent::new();
    let project = agent.path("project").to_string_lossy().into_owned();
    let settings = agent.path("project/.claude/settings.json");
    fs::create_dir(settings.parent().unwrap()).unwrap();
    let own = "{\n  \"model\": \"m\",\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"hooks\": [\n          {\n            \"type\": \"command\",\n            \"command\": \"mine.sh\"\n          }\n        ]\n      }\n    ]\n  },\n  \"env\": {}\n}\n";
    fs::write(&settings, own).unwrap();
    let install = ["hook", "install", "claude", "--harness", "current", "--project", &project];
    let dry = agent.run(&[&install[..], &["--dry-run"]].concat());
    assert!(dry.stdout.contains("settings.json would be:"), "{}", dry.stdout);
    assert_eq!(fs::read_to_string(&settings).unwrap(), own);
    assert_eq!(agent.run(&install).code, Some(0));
    let written = fs::read_to_string(&settings).unwrap();
    let again = agent.run(&install);
    assert!(again.stdout.contains("as it should be already"), "{}", again.stdout);
    assert_eq!(fs::read_to_string(&settings).unwrap(), written);
    // What is written is what the agent runs: through a shell, with its JSON.
    let value: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(value["hooks"].as_object().unwrap().len(), 8);
    let command = value["hooks"]["PreToolUse"][0]["hooks"][0]["command"].as_str().unwrap();
    assert_eq!(through_a_shell(&agent, command), "Nobody is there to type.\n(refused)");
    let uninstall = ["hook", "uninstall", "claude", "--project", &project];
    assert_eq!(agent.run(&uninstall).code, Some(0));
    assert_eq!(fs::read_to_string(&settings).unwrap(), own);
    // For the user, where nothing is yet.
    let user = ["hook", "install", "codex", "--harness", "current"];
    assert_eq!(agent.run(&user).code, Some(0));
    assert!(agent.path("user/.codex/hooks.json").exists());
    assert_eq!(agent.run(&["hook", "uninstall", "codex"]).code, Some(0));
    assert!(!agent.path("user/.codex/hooks.json").exists());
}

fn through_a_shell(agent: &Agent, command: &str) -> String {
    let said = json!({"session_id": "sh", "cwd": agent.path("project"), "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": {"command": "vim"}, "tool_use_id": "t"});
    let mut shell = Command::new("sh")
        .args(["-c", command])
        .env("TANDEM_HOME", tandem_home())
        .env("TANDEM_HOOK_DIR", agent.path("run"))
        .current_dir(Path::new("/"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(said.to_string().as_bytes()).unwrap();
    let output = shell.wait_with_output().unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    value["hookSpecificOutput"]["permissionDecisionReason"].as_str().unwrap().to_owned()
}
