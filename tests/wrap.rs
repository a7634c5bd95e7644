//! Does a command hook that a team has already run as a plugin, in a sandbox, and is it marked as such?

#[path = "program/pairs.rs"]
mod pairs;
mod program;
#[path = "program/tiny.rs"]
mod tiny;

use std::fs;
use std::path::PathBuf;

use expect_test::{Expect, expect};
use pairs::Fixture;
use program::{Output, Program, tandem_home};
use serde_json::{Value, json};

/// A hook as teams have them: JSON in, JSON or exit code 2 out.
const HOOK: &str = r#"#!/usr/bin/env python3
import json, os, sys
said = json.load(sys.stdin)
event = said["hook_event_name"]
if event == "PreToolUse":
    command = said["tool_input"].get("command", "")
    if said["tool_name"] == "Bash" and "rm -rf" in command:
        print("Not here: " + command, file=sys.stderr)
        sys.exit(2)
    if command == "pytest":
        print(json.dumps({"hookSpecificOutput": {"hookEventName": event, "updatedInput": {"command": "pytest -q"}}}))
    if command == "odd":
        print("{ not json")
    if command == "home":
        inside = os.path.exists("notes.txt") and os.environ["CLAUDE_PROJECT_DIR"] == "/workspace"
        outside = os.path.exists("HOST")
        print(json.dumps({"decision": "block", "reason": f"inside {inside}, outside {outside}"}))
if event == "PostToolUse":
    print(json.dumps({"hookSpecificOutput": {"additionalContext": "saw " + said["tool_response"]["stdout"]}}))
if event == "Stop" and not said["stop_hook_active"]:
    print(json.dumps({"decision": "block", "reason": "Run the tests."}))
"#;

const CASES: &str = r##"grants = ["exec"]

[files]
"notes.txt" = "a\n"

[[case]]
name = "exit code 2 refuses, with standard error as the reason"
point = "on-tool-call"
settings = SETTINGS
input.call.arguments.command = "rm -rf x"
expect.refuse = "Not here: rm -rf x"

[[case]]
name = "new input rewrites"
point = "on-tool-call"
settings = SETTINGS
input.call.arguments.command = "pytest"
expect.rewrite.command = "pytest -q"

[[case]]
name = "no output is nothing"
point = "on-tool-call"
settings = SETTINGS
input.call.arguments.command = "ls"
expect = "nothing"

[[case]]
name = "output that is no answer is nothing"
point = "on-tool-call"
settings = SETTINGS
input.call.arguments.command = "odd"
expect = "nothing"

[[case]]
name = "it runs in the workspace and sees nothing of this machine"
point = "on-tool-call"
settings = SETTINGS
input.call.arguments.command = "home"
expect.refuse = "inside True, outside False"

[[case]]
name = "text comes beside a result"
point = "on-tool-result"
settings = SETTINGS
input.result = { text = "out", exit_code = 0 }
expect.annotate = "saw out"

[[case]]
name = "a hand-in goes back once"
point = "on-submit"
settings = SETTINGS
input.submission.deferrals = 0
expect = "Run the tests."

[[case]]
name = "and is taken then"
point = "on-submit"
settings = SETTINGS
input.submission.deferrals = 1
expect = "nothing"
"##;

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Output {
        let dir = self.0.path().to_string_lossy().into_owned();
        let words: Vec<_> = words.iter().map(|word| word.replace("DIR", &dir)).collect();
        Program::new(&words)
            .env("TANDEM_HOME", &tandem_home())
            .env("TANDEM_HARNESS_HOME", &self.path("home").to_string_lossy())
            .run()
    }

    fn check(&self, words: &[&str], code: i32, expected: Expect) {
        let output = self.run(words);
        let text = (output.stdout + &output.stderr).replace(&*self.0.path().to_string_lossy(), "DIR");
        let text: String = text
            .split_inclusive(|letter: char| !letter.is_ascii_alphanumeric())
            .map(|word| {
                let bare = word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
                let hex = bare.len() == 64 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
                let size = bare.len() >= 5 && bare.bytes().all(|byte| byte.is_ascii_digit());
                if hex || size { word.replace(bare, "N") } else { word.to_owned() }
            })
            .collect();
        expected.assert_eq(&text);
        assert_eq!(output.code, Some(code), "{text}");
    }
}

#[test]
fn a_command_hook_runs_as_a_plugin_and_is_marked() {
    let scratch = Scratch(tempfile::tempdir().unwrap());
    fs::write(scratch.path("host-file"), "of this machine").unwrap();
    let host = scratch.path("host-file").to_string_lossy().into_owned();
    fs::write(scratch.path("check.py"), HOOK.replace("HOST", &host)).unwrap();
    scratch.check(
        &[
            "plugin",
            "wrap",
            "DIR/check.py",
            "--event",
            "PreToolUse",
            "--event",
            "PostToolUse",
            "--event",
            "Stop",
            "-o",
            "DIR/check.wasm",
        ],
        0,
        expect![[r#"
            DIR/check.wasm: N bytes, sha256:N
            It runs `DIR/check.py` in the sandbox of the workspace. It is trusted: nobody checked what that does.
            A harness takes it only with these words:
              tandem harness add NAME DIR/check.wasm --grant exec --settings '{"runs":"DIR/check.py","trusted":true}' --reason TEXT
        "#]],
    );
    let settings = format!("{{ trusted = true, runs = \"{}\" }}", scratch.path("check.py").display());
    fs::write(scratch.path("cases.toml"), CASES.replace("SETTINGS", &settings)).unwrap();
    let tested = scratch.run(&["plugin", "test", "DIR/cases.toml", "--component", "DIR/check.wasm"]);
    assert_eq!(tested.code, Some(0), "{}{}", tested.stdout, tested.stderr);
    assert!(tested.stdout.contains("8 passed, 0 failed, 0 skipped"), "{}", tested.stdout);

    // A harness takes it with the opt-in alone, and says what it is.
    let add = ["harness", "add", "check", "DIR/check.wasm", "--grant", "exec", "--reason", "our rules"];
    let refused = scratch.run(&add);
    assert_eq!(refused.code, Some(3), "{}{}", refused.stdout, refused.stderr);
    let text = refused.stdout + &refused.stderr;
    assert!(text.contains("does not take its settings") && text.contains("trusted"), "{text}");
    let settings = format!("{{\"trusted\": true, \"runs\": \"{}\"}}", scratch.path("check.py").display());
    let added = scratch.run(&[&add[..], &["--settings", &settings]].concat());
    assert_eq!(added.code, Some(0), "{}{}", added.stdout, added.stderr);
    let shown = scratch.run(&["harness", "show", "current"]).stdout;
    assert!(
        shown.contains(&format!("trusted: it runs the command `{}`", scratch.path("check.py").display())),
        "{shown}"
    );
}

#[test]
fn a_command_that_is_no_script_is_not_carried_along() {
    let scratch = Scratch(tempfile::tempdir().unwrap());
    fs::write(scratch.path("program"), [0x7f, b'E', b'L', b'F', 0xff]).unwrap();
    scratch.check(
        &["plugin", "wrap", "DIR/program", "--event", "Stop", "-o", "DIR/x.wasm"],
        1,
        expect![[r#"
            error: DIR/program is no script that begins with `#!`
            help: wrap a script, or the command that calls it
        "#]],
    );
    scratch.check(
        &["plugin", "wrap", "true", "-o", "DIR/x.wasm"],
        2,
        expect![[r#"
        error: the following required arguments were not provided:
          --event <EVENT>

        Usage: tandem plugin wrap --event <EVENT> --output <OUTPUT> <COMMAND>

        For more information, try '--help'.
    "#]],
    );
}

#[test]
fn a_pair_ships_a_command_only_when_it_is_told_to() {
    let fixture = Fixture::new();
    fixture.done(&["plugin", "wrap", "exit 0", "--event", "Stop", "-o", "DIR/stop.wasm"]);
    let plugin = fixture.blob(&fs::read(fixture.path("stop.wasm")).unwrap());
    let connection = rusqlite::Connection::open(fixture.path("run/run.sqlite")).unwrap();
    let last = "SELECT digest FROM publication ORDER BY round DESC LIMIT 1";
    let last: String = connection.query_row(last, [], |row| row.get(0)).unwrap();
    let manifest = fs::read(fixture.path("run/blobs").join(&last["sha256:".len()..])).unwrap();
    let mut manifest: Value = serde_json::from_slice(&manifest).unwrap();
    manifest["plugins"] = json!([{"name": "stop", "digest": plugin, "grants": ["exec"],
        "settings": {"trusted": true, "runs": "exit 0"}}]);
    let harness = fixture.blob(manifest.to_string().as_bytes());
    let publication = "INSERT INTO publication (round, digest, reason) VALUES (2, ?1, 'by hand')";
    connection.execute(publication, [&harness]).unwrap();
    fixture.check(&["pair", "pack", "DIR/run", "-o", "DIR/refused"], 3, expect![[r#"
        error: the plugin `stop` of the harness runs the command `exit 0`, and a pair with a command in it is not packed by itself
        help: take the plugin out of the harness, or pack it with `--allow-commands`; whoever gets the pair is told of the command
    "#]]);
    assert!(!fixture.path("refused").exists());
    fixture.done(&["pair", "pack", "DIR/run", "-o", "DIR/told", "--allow-commands"]);
    let shown = fixture.done(&["pair", "inspect", "DIR/told"]);
    assert!(shown.contains("trusted: it runs the command `exit 0`"), "{shown}");
}
