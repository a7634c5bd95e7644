//! Does an author of plugins come from an idea to a tested component with the real program?

mod program;

use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use program::{Output, Program, root, tandem_home};
use serde_json::Value;

/// A folder in which an author works.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// The program for `tandem plugin` with these words; `DIR` is the scratch folder and `ROOT`
    /// the repository.
    fn program(&self, words: &[&str]) -> Program {
        let dir = self.0.path().to_string_lossy().into_owned();
        let root = root().to_string_lossy().into_owned();
        let words = words.iter().map(|word| word.replace("DIR", &dir).replace("ROOT", &root));
        let words: Vec<_> = std::iter::once("plugin".to_owned()).chain(words).collect();
        Program::new(&words).env("TANDEM_HOME", &tandem_home())
    }

    fn run(&self, words: &[&str]) -> Output {
        self.program(words).run()
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
        let text = text.replace(&self.0.path().to_string_lossy().into_owned(), "DIR");
        expected.assert_eq(&settled(&text));
        assert_eq!(output.code, Some(code));
    }
}

/// The text without digests, sizes and times, which differ from toolchain to toolchain.
fn settled(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        // The compiler of the machine.
        let line = match (line.find("(rustc 1."), line.rfind(", sha256:")) {
            (Some(from), Some(to)) => format!("{}(rustc V{}", &line[..from], &line[to..]),
            _ => line.to_owned(),
        };
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        for at in 0..words.len() {
            let word = words[at].trim_end_matches([',', ':', ')']).to_owned();
            let digits = word.trim_start_matches('(').trim_start_matches("sha256:");
            let is_hex = digits.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
            let next = words.get(at + 1).map(|next| next.trim_end_matches(',').to_owned());
            let is_size = next.as_deref() == Some("bytes") && word.parse::<u64>().is_ok();
            let is_time = next.as_deref() == Some("s") && word.parse::<f64>().is_ok();
            if is_hex && matches!(digits.len(), 12 | 64) {
                words[at] = words[at].replace(digits, "D");
            } else if is_size || is_time {
                words[at] = words[at].replace(&word, "N");
            }
        }
        lines.push(words.join(" "));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

const HOOK: &str = r#"use tandem_plugin::*;

pub struct Plugin;

impl OnSubmit for Plugin {
    fn on_submit(_context: Context, submission: Submission) -> Option<String> {
        submission.patch.is_empty().then(|| "Your patch is empty.".into())
    }
}

export_on_submit!(Plugin);
"#;

const CASES: &str = r#"grants = []

[[case]]
name = "an empty patch goes back"
point = "on-submit"
input.submission.patch.bytes = 0
expect = "Your patch is empty."

[[case]]
name = "a patch is accepted"
point = "on-submit"
expect = "nothing"
"#;

#[test]
fn a_folder_is_built_and_its_cases_are_run() {
    let scratch = Scratch::new();
    scratch.write("hook/any-name.rs", HOOK);
    scratch.write("hook/cases.toml", CASES);
    scratch.check(
        &["test", "DIR/hook"],
        0,
        expect![[r#"
            ok       an empty patch goes back
            ok       a patch is accepted
            2 passed, 0 failed, 0 skipped
        "#]],
    );
    for file in ["DIR/hook/cases.toml", "DIR/hook/any-name.rs"] {
        assert!(scratch.done(&["test", file]).contains("2 passed, 0 failed"));
    }
    // A folder of a crate, with its own form of manifest.
    scratch.done(&["test", "ROOT/plugins/hold-empty-patch"]);
}

#[test]
fn a_case_that_fails_ends_with_3() {
    let scratch = Scratch::new();
    scratch.write("hook/plugin.rs", HOOK);
    scratch.write("hook/cases/a.toml", CASES);
    scratch.write("hook/cases/b.toml", &CASES.replace("expect = \"nothing\"", "expect = \"x\""));
    scratch.check(
        &["test", "DIR/hook"],
        3,
        expect![[r#"
            ok       an empty patch goes back
            ok       a patch is accepted
            ok       an empty patch goes back
            FAILED   a patch is accepted: the answer is nothing, expected "x"
            3 passed, 1 failed, 0 skipped
        "#]],
    );
    let output = scratch.run(&["test", "DIR/hook/cases/b.toml", "--json"]);
    assert_eq!(output.code, Some(3));
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let case = &report["cases"][1];
    assert_eq!(case["verdict"]["failed"], "the answer is nothing, expected \"x\"");
    assert_eq!((&case["fires"], &report["cases"][0]["verdict"]), (&true.into(), &"passed".into()));
}

#[test]
fn a_component_of_another_language_is_tested_in_place_of_the_source() {
    let scratch = Scratch::new();
    scratch.write("hook/plugin.rs", HOOK);
    scratch.done(&["build", "DIR/hook", "-o", "DIR/hook.wasm"]);
    scratch.write("other/cases.toml", CASES);
    scratch.done(&["test", "DIR/other", "--component", "DIR/hook.wasm"]);
    scratch.check(
        &["test", "DIR/other"],
        1,
        expect![[r#"
            error: DIR/other has no source of a plugin
            help: write `plugin.rs` there (`tandem plugin new` does), or hand over a component with `--component FILE.wasm`
        "#]],
    );
    scratch.write("other/one.rs", HOOK);
    scratch.write("other/two.rs", HOOK);
    scratch.check(
        &["test", "DIR/other"],
        1,
        expect![[r#"
            error: DIR/other has more than one source file (one.rs and two.rs), so which one is the plugin?
            help: call it `plugin` with the ending of its language, or make a Rust crate with `Cargo.toml` and `src/lib.rs`
        "#]],
    );
}

#[test]
fn the_grants_of_the_cases_are_the_grants_of_the_test() {
    let scratch = Scratch::new();
    let logs = HOOK.replace("submission.patch", "log::info(\"seen\");\n        submission.patch");
    scratch.write("hook/plugin.rs", &logs);
    scratch.write("hook/cases.toml", CASES);
    scratch.check(
        &["test", "DIR/hook"],
        3,
        expect![[r#"
            error: the plugin D imports `tandem:harness/log@0.1.0` without the grant `log` (admission step: grants)
            help: put `grants = ["log"]` into the plugin's entry in the harness manifest, or build the plugin without it
        "#]],
    );
    let output = scratch.run(&["test", "DIR/hook", "--json"]);
    assert_eq!(output.code, Some(3));
    let refused: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(refused["reasons"][0]["step"], "grants");
    // What was logged can be asked for.
    let seen = |log: &str| format!("{CASES}log = {log}\n").replace("grants = []", "grants = [\"log\"]");
    scratch.write("hook/cases.toml", &seen("\"seen\""));
    scratch.done(&["test", "DIR/hook"]);
    scratch.write("hook/cases.toml", &seen("\"nothing\""));
    scratch.check(
        &["test", "DIR/hook"],
        3,
        expect![[r#"
            ok       an empty patch goes back
            FAILED   a patch is accepted: the log is "seen", and nothing was expected
            1 passed, 1 failed, 0 skipped
        "#]],
    );
}

#[test]
fn source_that_does_not_compile_is_refused_with_the_place() {
    let scratch = Scratch::new();
    scratch.write("hook/plugin.rs", &HOOK.replace("is_empty()", "is_empti()"));
    scratch.write("hook/cases.toml", CASES);
    let output = scratch.run(&["test", "DIR/hook"]);
    assert_eq!(output.code, Some(3));
    assert!(output.stderr.contains("plugin.rs:7:26"), "{}", output.stderr);
    let output = scratch.run(&["test", "DIR/hook", "--json"]);
    let refused: Value = serde_json::from_str(&output.stdout).unwrap();
    let reason = &refused["reasons"][0];
    assert_eq!(reason["step"], "build");
    assert!(reason["what"].as_str().unwrap().contains("is_empti"), "{refused}");
}

/// Makes, builds, checks and tests a plugin with these exports; gives what `check` reports.
fn made(points: &str) -> Value {
    let scratch = Scratch::new();
    scratch.done(&["new", "hook", "--lang", "rust", "--points", points, "--dir", "DIR/hook"]);
    scratch.done(&["build", "DIR/hook", "-o", "DIR/hook.wasm"]);
    let report: Value = serde_json::from_str(&scratch.done(&["check", "DIR/hook.wasm", "--json"])).unwrap();
    let tested: Value = serde_json::from_str(&scratch.done(&["test", "DIR/hook", "--json"])).unwrap();
    let cases = tested["cases"].as_array().unwrap();
    for point in points.split(',').filter(|point| *point != "settings-schema") {
        assert!(report["exports"].as_array().unwrap().contains(&point.into()), "{report}");
        for fires in [true, false] {
            let found = cases.iter().any(|case| case["point"] == point && case["fires"] == fires);
            assert!(found, "{points}: no case of `{point}` that fires: {fires}");
        }
    }
    report
}

/// The exports of the contract beside `settings-schema`.
const POINTS: [&str; 11] = [
    "tools",
    "on-episode-start",
    "on-model-call",
    "on-format-error",
    "on-tool-call",
    "on-tool-result",
    "on-loop",
    "on-submit",
    "on-choose-patch",
    "on-limit",
    "observe",
];

#[test]
fn a_new_plugin_of_any_one_point_passes_at_once() {
    for point in POINTS {
        let report = made(point);
        assert_eq!(report["exports"], serde_json::json!([point]));
        let grants = if point == "observe" { serde_json::json!(["log"]) } else { serde_json::json!([]) };
        assert_eq!(report["grants"], grants, "{point}");
    }
}

#[test]
fn a_new_plugin_with_all_exports_and_settings_passes_at_once() {
    let report = made(&format!("settings-schema,{}", POINTS.join(",")));
    assert_eq!(report["exports"], serde_json::json!(POINTS));
    assert_eq!(report["grants"], serde_json::json!(["log", "settings"]));
}

#[test]
fn a_new_plugin_with_settings_is_silenced_by_them_at_every_point() {
    for point in ["tools", "on-limit", "observe", "on-submit"] {
        made(&format!("{point},settings-schema"));
    }
}

/// A new plugin in another language than Rust passes its cases, with what an editor needs beside it. Left out,
/// and said so, where its compiler is missing.
fn check_language(lang: &str, wrote: Expect) {
    let scratch = Scratch::new();
    let tools: Value = serde_json::from_str(&scratch.done(&["tools", "--json"])).unwrap();
    let row = tools.as_array().unwrap().iter().find(|row| row["language"] == lang);
    let row = row.unwrap_or_else(|| panic!("{lang} is not in {tools}"));
    if row.get("missing").is_some() {
        assert!(std::env::var_os("TANDEM_REQUIRE_LANGUAGES").is_none(), "{row}");
        println!("{lang} is left out: {}", row["missing"]);
        return;
    }
    let new = ["new", "hook", "--lang", lang, "--points", "on-submit,tools", "--dir", "DIR/hook"];
    scratch.check(&new, 0, wrote);
    let report = scratch.done(&["test", "DIR/hook"]);
    assert!(report.contains(" 0 failed"), "{report}");
}

#[test]
fn a_new_plugin_in_another_language_passes_at_once() {
    check_language(
        "javascript",
        expect![[r#"
            wrote DIR/hook/plugin.js
            wrote DIR/hook/cases.toml
            wrote DIR/hook/README.md
            wrote DIR/hook/tandem.d.ts
            wrote DIR/hook/tsconfig.json
            next: tandem plugin test DIR/hook
        "#]],
    );
    check_language(
        "python",
        expect![[r#"
            wrote DIR/hook/plugin.py
            wrote DIR/hook/cases.toml
            wrote DIR/hook/README.md
            wrote DIR/hook/tandem, for editors
            next: tandem plugin test DIR/hook
        "#]],
    );
    check_language(
        "c",
        expect![[r#"
            wrote DIR/hook/plugin.c
            wrote DIR/hook/cases.toml
            wrote DIR/hook/README.md
            wrote DIR/hook/tandem.h
            next: tandem plugin test DIR/hook
        "#]],
    );
}

#[test]
fn tools_says_what_builds_each_language_and_which_are_none() {
    let scratch = Scratch::new();
    let shown = scratch.done(&["tools"]);
    for language in ["rust", "javascript", "typescript", "python", "c", "cpp", "zig", "go"] {
        let line = shown.lines().find(|line| line.starts_with(&format!("{language}: ")));
        assert!(line.is_some(), "{language} is not in\n{shown}");
    }
    assert!(!shown.contains("rustc rustc"), "{shown}");
    scratch.check(
        &["tools", "cobol"],
        1,
        expect![[r#"
            error: `cobol` is no language that the forge builds
            help: they are rust, javascript, typescript, python, c, cpp, zig, go
        "#]],
    );
    let home = scratch.path("home").to_string_lossy().into_owned();
    // Where nothing can be found, each missing compiler comes with the command that installs it.
    let output =
        scratch.program(&["tools", "rust", "python"]).env("PATH", "/nowhere").env("TANDEM_HOME", &home).run();
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("help: "), "{}", output.stderr);
}

#[test]
fn new_overwrites_nothing_and_says_what_it_cannot_do() {
    fn new<'a>(words: &[&'a str]) -> Vec<&'a str> {
        [&["new"], words, &["--dir", "DIR/hook"]].concat()
    }
    let scratch = Scratch::new();
    scratch.check(
        &new(&["hook", "--points", "on-submit"]),
        0,
        expect![[r#"
            wrote DIR/hook/plugin.rs
            wrote DIR/hook/cases.toml
            wrote DIR/hook/README.md
            next: tandem plugin test DIR/hook
        "#]],
    );
    std::fs::remove_file(scratch.path("hook/plugin.rs")).unwrap();
    scratch.check(
        &new(&["hook", "--points", "on-submit"]),
        1,
        expect![[r#"
            error: DIR/hook/cases.toml is there already, and nothing was written
            help: name another folder with `--dir`
        "#]],
    );
    assert!(!scratch.path("hook/plugin.rs").exists());
    scratch.check(
        &new(&["hook", "--lang", "cobol", "--points", "on-submit"]),
        1,
        expect![[r#"
            error: the forge builds rust, javascript, typescript, python, c, cpp, zig, go, not `cobol`
            help: build a component for the contract in `wit/` with that language's own tools, then hand it over: `tandem plugin check FILE.wasm`, `tandem plugin test FOLDER --component FILE.wasm`, `tandem harness add NAME FILE.wasm`
        "#]],
    );
    scratch.check(
        &new(&["hook", "--points", "on-lunch"]),
        1,
        expect![[r#"
            error: `on-lunch` is no export of the contract
            help: the exports are tools, on-episode-start, on-model-call, on-format-error, on-tool-call, on-tool-result, on-loop, on-submit, on-choose-patch, on-limit, observe, settings-schema
        "#]],
    );
    scratch.check(
        &new(&["hook", "--points", "settings-schema"]),
        1,
        expect![[r#"
            error: a plugin with nothing but `settings-schema` would never be called
            help: add a hook point or `tools`, such as `--points settings-schema,on-submit`
        "#]],
    );
    scratch.check(
        &new(&["../hook", "--points", "on-submit"]),
        1,
        expect![[r#"
            error: `../hook` cannot be the name of a plugin
            help: use 1 to 64 letters a to z, digits and `-`, not `-` first
        "#]],
    );
}

const LOUD: &str = r#"use tandem_plugin::*;

pub struct Plugin;

impl OnSubmit for Plugin {
    fn on_submit(_context: Context, submission: Submission) -> Option<String> {
        log::info("seen");
        let files = workspace::untracked().unwrap_or_default();
        (submission.patch.is_empty() && files.is_empty()).then(|| "Your patch is empty.".into())
    }
}

impl Observe for Plugin {
    fn observe(_context: Context, _name: String, _payload: String) {}
}

impl Tools for Plugin {
    fn definitions() -> Vec<ToolDefinition> {
        let input_schema: String = "{\"type\": \"object\"}".into();
        vec![ToolDefinition { name: "wait".into(), description: "Waits.".into(), input_schema }]
    }

    fn call(_context: Context, _name: String, _arguments: String) -> ToolOutput {
        ToolOutput::text("done")
    }
}

export_on_submit!(Plugin);
export_observe!(Plugin);
export_tools!(Plugin);
"#;

#[test]
fn inspect_says_what_a_component_is_called_for_and_allowed() {
    let scratch = Scratch::new();
    scratch.write("loud.rs", LOUD);
    scratch.done(&["build", "DIR/loud.rs", "-o", "DIR/loud.wasm"]);
    let output = scratch.done(&["inspect", "DIR/loud.wasm"]);
    // Which interfaces of WASI the standard library imports is not ours to say.
    let text: String = output.lines().filter(|l| !l.contains("wasi:")).map(|l| format!("{l}\n")).collect();
    expect![[r#"
        loud has N bytes
        sha256:D
        It is called at:
          tools
          on-submit
          observe
        It asks for:
          `log`: write messages into the record of the episode
          `workspace-read`: read every file of the workspace
        It imports:
          tandem:harness/log@0.1.0
          tandem:harness/workspace-types@0.1.0
          tandem:harness/workspace-read@0.1.0
          tandem:harness/types@0.1.0
        It offers the tools:
          `wait`: Waits.
            {"type":"object"}
        Its settings fit:
          any JSON object; it declares no schema
        It was made from:
          rust source sha256:D
          the contract sha256:D
          rustc (rustc V, sha256:D)
          tandem-plugin (0.1.0, sha256:D)
    "#]]
    .assert_eq(&settled(&text));
    let json: Value = serde_json::from_str(&scratch.done(&["inspect", "DIR/loud.wasm", "--json"])).unwrap();
    assert_eq!(json["allows"]["workspace-read"], "read every file of the workspace");
    assert_eq!(json["size"], std::fs::metadata(scratch.path("loud.wasm")).unwrap().len());
    scratch.write("no.wasm", "hello");
    scratch.check(
        &["inspect", "DIR/no.wasm"],
        3,
        expect![[r#"
            error: the plugin D is not WebAssembly (admission step: parse)
            help: build it for the target `wasm32-wasip2`, which makes a component
        "#]],
    );
}

#[test]
fn diff_says_what_a_new_component_newly_asks_for_and_hooks() {
    let scratch = Scratch::new();
    for (name, source) in [("a", HOOK), ("b", LOUD), ("c", &HOOK.replace("is empty.", "has nothing."))] {
        scratch.write(&format!("{name}.rs"), source);
        let out = format!("DIR/{name}.wasm");
        scratch.done(&["build", &format!("DIR/{name}.rs"), "-o", &out]);
    }
    scratch.check(
        &["diff", "DIR/a.wasm", "DIR/b.wasm"],
        0,
        expect![[r#"
            from D to D
            It newly asks for:
              `b` may use `log`: write messages into the record of the episode
              `b` may use `workspace-read`: read every file of the workspace
              `b` imports `tandem:harness/log@0.1.0`, `tandem:harness/workspace-read@0.1.0`
            It newly hooks:
              `b` is called at `observe`
              `b` offers the tool `wait`: Waits.
        "#]],
    );
    scratch.check(
        &["diff", "DIR/a.wasm", "DIR/c.wasm"],
        0,
        expect![[r#"
            from D to D
            It asks for, hooks and offers the same; code or data differ.
        "#]],
    );
    let json = scratch.done(&["diff", "DIR/b.wasm", "DIR/a.wasm", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let kinds: Vec<_> =
        json["changes"].as_array().unwrap().iter().map(|change| change["change"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"grant-removed") && kinds.contains(&"tool-removed"), "{kinds:?}");
}

#[test]
fn check_tells_every_reason_at_once_each_with_a_fix() {
    let scratch = Scratch::new();
    let wrong = LOUD.replace(
        "vec![ToolDefinition {",
        "vec![ToolDefinition { name: \"bash\".into(), description: \" \".into(), input_schema: \"{}\".into() }, ToolDefinition {",
    );
    scratch.write("loud.rs", &wrong);
    scratch.done(&["build", "DIR/loud.rs", "-o", "DIR/loud.wasm"]);
    scratch.check(
        &["check", "DIR/loud.wasm", "--grant", "exec"],
        3,
        expect![[r#"
            error: the plugin D imports `tandem:harness/log@0.1.0` without the grant `log` (admission step: grants)
            help: put `grants = ["log", "workspace-read", "exec"]` into the plugin's entry in the harness manifest, or build the plugin without it
            error: the plugin D imports `tandem:harness/workspace-read@0.1.0` without the grant `workspace-read` (admission step: grants)
            help: put `grants = ["log", "workspace-read", "exec"]` into the plugin's entry in the harness manifest, or build the plugin without it
            error: the plugin D has a tool with the name `bash`, which the agent loop has already (admission step: tools)
            help: give the tool another name
            error: the plugin D has a tool `bash` without a description (admission step: tools)
            help: say in one or two sentences what the tool does and when to use it
            error: the plugin D has a tool `bash` whose input schema is not of type `object` (admission step: tools)
            help: use a JSON Schema with `"type": "object"` at the top
            5 reasons
        "#]],
    );
    let output = scratch.run(&["check", "DIR/loud.wasm", "--no-grants", "--json"]);
    assert_eq!(output.code, Some(3));
    let json: Value = serde_json::from_str(&output.stdout).unwrap();
    let steps: Vec<_> =
        json["reasons"].as_array().unwrap().iter().map(|reason| reason["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["grants", "grants", "tools", "tools", "tools"]);
    // What needs the step before it stays one reason.
    scratch.write("cut.wasm", "\0asm");
    let output = scratch.run(&["check", "DIR/cut.wasm", "--json"]);
    let json: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(json["reasons"].as_array().unwrap().len(), 1, "{json}");
}

#[test]
fn a_panic_asks_for_no_variable_that_a_plugin_cannot_have() {
    let scratch = Scratch::new();
    let source = "use tandem_plugin::*;\n\npub struct Plugin;\n\nimpl OnToolCall for Plugin {\n    \
        fn on_tool_call(_context: Context, _call: ToolCall) -> Option<ToolCallEffect> {\n        \
        panic!(\"out of luck\")\n    }\n}\n\nexport_on_tool_call!(Plugin);\n";
    scratch.write("panics.rs", source);
    scratch.done(&["build", "DIR/panics.rs", "-o", "DIR/panics.wasm"]);
    scratch.check(
        &["check", "DIR/panics.wasm"],
        3,
        expect![[r#"
            error: the plugin D failed a trial call of `on-tool-call`: it trapped: wasm `unreachable` instruction executed; it wrote: thread '<unnamed>' (1) panicked at src/lib.rs:7:9:
            out of luck (admission step: canary)
            help: handle every input, an empty workspace and missing files too, and return instead of panicking
        "#]],
    );
}

/// What a started `watch` has written, once it has come to rest `rounds` times.
fn after_rounds(output: &Path, rounds: usize) -> String {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(300);
    loop {
        let text = std::fs::read_to_string(output).unwrap();
        if text.matches("Ctrl-C ends").count() >= rounds {
            return text;
        }
        assert!(std::time::Instant::now() < end, "round {rounds} did not come:\n{text}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn watch_tests_again_at_every_save_until_it_is_interrupted() {
    let scratch = Scratch::new();
    scratch.write("hook/plugin.rs", HOOK);
    scratch.write("hook/cases.toml", CASES);
    let output = scratch.path("output.txt");
    let mut watching = std::process::Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args(["plugin", "watch"])
        .arg(scratch.path("hook"))
        .env("TANDEM_HOME", tandem_home())
        .stdin(std::process::Stdio::null())
        .stdout(std::fs::File::create(&output).unwrap())
        .spawn()
        .unwrap();
    let first = after_rounds(&output, 1);
    assert!(first.contains("2 passed, 0 failed"), "{first}");
    scratch.write("hook/plugin.rs", &HOOK.replace("Your patch", "The whole patch"));
    let second = after_rounds(&output, 2);
    assert!(second.contains("FAILED   an empty patch goes back"), "{second}");
    scratch.write("hook/plugin.rs", "fn");
    let third = after_rounds(&output, 3);
    assert!(third.contains("compile error"), "{third}");
    let mended = CASES.replace("Your patch", "A patch");
    scratch.write("hook/plugin.rs", &HOOK.replace("Your patch", "A patch"));
    scratch.write("hook/cases.toml", &mended);
    // The two saves may be seen one after the other.
    let last = after_rounds(&output, 4);
    let last = if last.matches("2 passed, 0 failed").count() < 2 { after_rounds(&output, 5) } else { last };
    assert_eq!(last.matches("2 passed, 0 failed").count(), 2, "{last}");
    let interrupt = std::process::Command::new("kill").args(["-INT", &watching.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    assert_eq!(watching.wait().unwrap().code(), Some(0));
}

/// The commands of the page and what they print, in the order of the page. A block whose first
/// line names a file is written there. `UPDATE_EXPECT=1` writes into the page what they print.
#[test]
fn the_page_on_writing_a_hook_shows_what_the_commands_print() {
    let scratch = tempfile::tempdir().unwrap();
    let place = root().join("docs/write-a-hook.md");
    let page = std::fs::read_to_string(&place).unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_tandem")).parent().unwrap().to_string_lossy().into_owned();
    let run = |command: &str| {
        let output = std::process::Command::new("bash")
            .args(["-c", command])
            .current_dir(scratch.path())
            .env("PATH", format!("{bin}:{}", std::env::var("PATH").unwrap()))
            .env("TANDEM_HOME", tandem_home())
            .env("TANDEM_ACTOR", "ada")
            .env_remove("TANDEM_HARNESS_HOME")
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let (mut commands, mut written) = (0, page.clone());
    for block in page.split("```").skip(1).step_by(2) {
        let (info, block) = block.split_once('\n').unwrap();
        match info.split_once(' ').unwrap_or((info, "")) {
            ("sh", "") => {
                for command in block.lines() {
                    let (code, text) = run(command);
                    assert_eq!(code, Some(0), "$ {command}\n{text}");
                }
            }
            ("console", "") => {
                for step in block.split("$ ").skip(1) {
                    let (command, expected) = step.split_once('\n').unwrap();
                    let (_, text) = run(command);
                    match update {
                        true => {
                            let (from, to) = (format!("$ {step}"), format!("$ {command}\n{text}"));
                            // The same command may stand on the page twice, in this order.
                            let at = written.find(&from).unwrap();
                            written.replace_range(at..at + from.len(), &to);
                        }
                        false => assert_eq!(settled(&text), settled(expected), "$ {command}"),
                    }
                    commands += 1;
                }
            }
            (_, file) => {
                assert!(!file.is_empty(), "a block of `{info}` is not tested");
                std::fs::write(scratch.path().join(file), block).unwrap();
            }
        }
    }
    assert!(commands >= 8, "the page has only {commands} commands");
    if update && written != page {
        std::fs::write(place, written).unwrap();
    }
}
