//! A harness changed, compared and rolled back by the real program, with real components.

mod program;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use expect_test::{Expect, expect};
use program::{Output, Program, root, tandem_home};
use serde_json::Value;

/// The components of first-party plugins, built by the program once.
static COMPONENTS: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    for name in ["budget-warning", "check-names", "edit", "hold-empty-patch", "rescue-patch"] {
        let source = root().join("plugins").join(name).join("src/lib.rs");
        let out = folder.path().join(format!("{name}.wasm"));
        let arguments = ["plugin", "build", &source.to_string_lossy(), "-o", &out.to_string_lossy()];
        let output = Program::new(&arguments.map(String::from)).env("TANDEM_HOME", &tandem_home()).run();
        assert_eq!(output.code, Some(0), "{}", output.stderr);
    }
    folder
});

/// A scratch folder with a harness home.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn home(&self) -> String {
        self.0.path().join("home").to_string_lossy().into_owned()
    }

    /// The program for `tandem harness` with these words; `WASM/` is the folder of components,
    /// `DIR` the scratch folder.
    fn program(&self, words: &[&str]) -> Program {
        let wasm = COMPONENTS.path().to_string_lossy().into_owned();
        let dir = self.0.path().to_string_lossy().into_owned();
        let words = words.iter().map(|word| word.replace("WASM", &wasm).replace("DIR", &dir));
        let words: Vec<_> = std::iter::once("harness".to_owned()).chain(words).collect();
        Program::new(&words)
            .env("TANDEM_HARNESS_HOME", &self.home())
            .env("TANDEM_ACTOR", "ada")
            .env("TANDEM_HOME", &tandem_home())
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

    fn log(&self) -> Vec<Value> {
        let text = self.done(&["log", "--json"]);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// A home whose harness warns early and checks names.
    fn with_two_plugins() -> Self {
        let scratch = Self::new();
        scratch.done(&["add", "budget-warning", "WASM/budget-warning.wasm", "--reason", "warns in time"]);
        let add = ["add", "check-names", "WASM/check-names.wasm", "--grant", "workspace-read"];
        scratch.done(&[&add[..], &["--at", "1", "--reason", "finds wrong names"]].concat());
        scratch
    }
}

/// The text without what differs from run to run and from toolchain to toolchain: digests and
/// times. Words are runs of letters, digits, `:` and `-`.
fn settled(text: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\0']) {
        if c.is_ascii_alphanumeric() || matches!(c, ':' | '-') {
            word.push(c);
            continue;
        }
        let colon = word.ends_with(':');
        let bare = word.trim_end_matches(':');
        let digits = bare.strip_prefix("sha256:").unwrap_or(bare);
        let hex = digits.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
        match (hex, digits.len()) {
            (true, 64) => out.push_str("sha256:D"),
            (true, 12) if colon => out.push_str("D12:"),
            (true, 12) => out.push_str("D12"),
            _ if word.len() == 20 && word.starts_with("20") && word.ends_with('Z') => out.push_str("TIME"),
            _ => out.push_str(&word),
        }
        word.clear();
        if c != '\0' {
            out.push(c);
        }
    }
    out
}

#[test]
fn a_harness_is_built_up_compared_and_taken_back() {
    let scratch = Scratch::new();
    let add = ["add", "budget-warning", "WASM/budget-warning.wasm", "--reason", "warns in time"];
    scratch.check(
        &add,
        0,
        expect![[r#"
        entry 1: the harness sha256:D is current
        from D12 to D12
        It newly asks for:
          `budget-warning` imports 13 interfaces of WASI, which any plugin gets
        It newly hooks:
          `budget-warning` is called at `on-model-call`
        Plugins:
          `budget-warning` is new, in place 1 of 1 (component D12)
    "#]],
    );
    let add = ["add", "check-names", "WASM/check-names.wasm", "--grant", "workspace-read", "--at", "1"];
    let source = root().join("plugins/check-names/src/lib.rs").to_string_lossy().into_owned();
    let more = ["--source", &source, "--reason", "finds names that do not exist"];
    scratch.check(&[&add[..], &more].concat(), 0, expect![[r#"
        entry 2: the harness sha256:D is current
        from D12 to D12
        It newly asks for:
          `check-names` may use `workspace-read`: read every file of the workspace
          `check-names` imports `tandem:harness/workspace-read@0.1.0` and 13 interfaces of WASI, which any plugin gets
        It newly hooks:
          `check-names` is called at `on-submit`
        Plugins:
          `check-names` is new, in place 1 of 2 (component D12)
    "#]]);
    scratch.check(
        &["set", "limits.turns=40", "--reason", "longer tasks"],
        0,
        expect![[r#"
        entry 3: the harness sha256:D is current
        from D12 to D12
        Limits:
          `turns`: 250 before, 40 now
    "#]],
    );
    scratch.check(
        &["show"],
        0,
        expect![[r#"
        sha256:D  contract tandem:harness@0.1.0
          check-names  sha256:D  workspace-read
          budget-warning  sha256:D  no grants
          40 turns, 60 s a command, 10000 characters an observation
    "#]],
    );
    scratch.check(
        &["remove", "budget-warning", "--reason", "it made things worse"],
        0,
        expect![[r#"
        entry 4: the harness sha256:D is current
        from D12 to D12
        No longer:
          `budget-warning` imports 13 interfaces of WASI, which any plugin gets
          `budget-warning` is called at `on-model-call`
        Plugins:
          `budget-warning` is gone (component D12)
    "#]],
    );
    scratch.check(
        &["rollback"],
        0,
        expect![[r#"
        entry 5: the harness sha256:D is current
        from D12 to D12
        It newly asks for:
          `budget-warning` imports 13 interfaces of WASI, which any plugin gets
        It newly hooks:
          `budget-warning` is called at `on-model-call`
        Plugins:
          `budget-warning` is new, in place 2 of 2 (component D12)
    "#]],
    );
    scratch.check(
        &["diff", "previous", "current"],
        0,
        expect![[r#"
        from D12 to D12
        Limits:
          `turns`: 250 before, 40 now
    "#]],
    );
    scratch.check(
        &["rollback", "--reason", "and the turns too"],
        0,
        expect![[r#"
        entry 6: the harness sha256:D is current
        from D12 to D12
        Limits:
          `turns`: 40 before, 250 now
    "#]],
    );
    scratch.check(
        &["log"],
        0,
        expect![[r#"
        1     TIME  publish   D12  by ada
              warns in time
        2     TIME  publish   D12  by ada
              finds names that do not exist
              check-names was built from the source D12
        3     TIME  publish   D12  by ada
              longer tasks
              check-names was built from the source D12
        4     TIME  publish   D12  by ada
              it made things worse
              check-names was built from the source D12
        5     TIME  rollback  D12  by ada
              back to D12
              check-names was built from the source D12
        6     TIME  rollback  D12  by ada  (current)
              and the turns too
              check-names was built from the source D12
    "#]],
    );
    let first = scratch.log()[0]["harness"].as_str().unwrap().to_owned();
    scratch.done(&["activate", &first[..16]]);
    let log = scratch.log();
    assert_eq!(log.last().unwrap()["harness"], first.as_str());
    assert_eq!(log.last().unwrap()["kind"], "activate");
}

#[test]
fn a_plugin_that_asks_for_more_than_it_is_granted_changes_nothing() {
    let scratch = Scratch::new();
    let add = ["add", "check-names", "WASM/check-names.wasm", "--reason", "finds wrong names"];
    scratch.check(&add, 3, expect![[r#"
        error: the plugin `check-names` was not admitted: it imports `tandem:harness/workspace-read@0.1.0` without the grant `workspace-read` (admission step: grants, sha256:D)
        help: put `grants = ["workspace-read"]` into the plugin's entry in the harness manifest, or build the plugin without it
        help: with this command: `--grant CAPABILITY`, once for each
    "#]]);
    assert!(!Path::new(&scratch.home()).exists(), "a refused plugin left a home behind");

    let scratch = Scratch::with_two_plugins();
    let before = scratch.log();
    scratch.check(&["set", "check-names", "--no-grants", "--reason", "less trust"], 3, expect![[r#"
        error: the plugin `check-names` was not admitted: it imports `tandem:harness/workspace-read@0.1.0` without the grant `workspace-read` (admission step: grants, sha256:D)
        help: put `grants = ["workspace-read"]` into the plugin's entry in the harness manifest, or build the plugin without it
        help: with this command: `--grant CAPABILITY`, once for each
    "#]]);
    assert_eq!(scratch.log(), before);
}

#[test]
fn a_change_that_cannot_be_says_what_can() {
    let scratch = Scratch::with_two_plugins();
    let before = scratch.log();
    std::fs::write(scratch.0.path().join("x.wasm"), "hello").unwrap();
    std::fs::write(scratch.0.path().join("p.txt"), "{{ instruction").unwrap();
    let refused = |words: &[&str], code, expected| {
        scratch.check(&[words, &["--reason", "try"]].concat(), code, expected);
    };
    refused(
        &["add", "x", "DIR/x.wasm"],
        3,
        expect![[r#"
        error: the plugin `x` was not admitted: it is not WebAssembly (admission step: parse, sha256:D)
        help: build it for the target `wasm32-wasip2`, which makes a component
    "#]],
    );
    refused(
        &["add", "x", "DIR/none.wasm"],
        1,
        expect![[r#"
        error: DIR/none.wasm cannot be read
        cause: No such file or directory (os error 2)
        help: check the path
    "#]],
    );
    refused(
        &["add", "Edit", "WASM/edit.wasm", "--grant", "workspace-read", "--grant", "workspace-write"],
        3,
        expect![[r#"
            error: a plugin of the harness is named `Edit`
            help: name plugins with 1 to 64 of the letters a to z, digits and `-`
        "#]],
    );
    refused(
        &["add", "edit", "WASM/edit.wasm", "--at", "9", "--grant", "workspace-read"],
        1,
        expect![[r#"
            error: the harness has no place 9 for `edit`
            help: its places are 1 to 3
        "#]],
    );
    refused(
        &["add", "check-names", "WASM/edit.wasm"],
        1,
        expect![[r#"
        error: the harness has a plugin `check-names` already
        help: `--replace` puts the new component in its place; another name adds a second plugin
    "#]],
    );
    refused(
        &["remove", "edit"],
        1,
        expect![[r#"
        error: the harness has no plugin `edit`
        help: its plugins are `check-names`, `budget-warning`
    "#]],
    );
    refused(
        &["set", "limits.turnz=3"],
        1,
        expect![[r#"
            error: `limits` has no value `turnz`
            help: its values are `protocol`, `shell`, `hand_in`, `condense`, `turns`, `tokens`, `seconds`, `money`, `command_seconds`, `observation_chars`, `format_errors`, `deferrals`
        "#]],
    );
    refused(
        &["set", "limits.turns=0"],
        1,
        expect![[r#"
        error: `limits.turns` is 0, so no episode could begin
        help: set it to 1 or more
    "#]],
    );
    refused(
        &["set", "prompts.instance=@DIR/p.txt"],
        1,
        expect![[r#"
        error: the prompt `instance` of the harness cannot be used: syntax error: unexpected end of input, expected end of variable block (in instance:1)
        help: prompts are minijinja templates
    "#]],
    );
    refused(
        &["set", "prompts.system={{ instruction }}"],
        1,
        expect![[r#"
        error: the prompt `system` of the harness cannot be used: undefined value (in system:1)
        help: prompts are minijinja templates
    "#]],
    );
    refused(
        &["activate", "abcdef"],
        1,
        expect![[r#"
        error: `abcdef` names no harness of `DIR/home`
        help: take a digest, or at least 4 of its digits, from `tandem harness log`; or `current`, `previous`, or a manifest file
    "#]],
    );
    scratch.check(
        &["add", "edit", "WASM/edit.wasm"],
        2,
        expect![[r#"
        error: the following required arguments were not provided:
          --reason <REASON>

        Usage: tandem harness add --by <NAME> --home <DIR> --reason <REASON> <NAME> <COMPONENT>

        For more information, try '--help'.
    "#]],
    );
    scratch.check(
        &["set", "limits.turns=1", "--reason", " "],
        1,
        expect![[r#"
        error: a publication needs a reason
        help: say why with `--reason TEXT`; `tandem harness log` shows it
    "#]],
    );
    scratch.check(
        &["set", "limits.turns=250", "--reason", "as it is"],
        0,
        expect![[r#"
        D12 is the current harness already; nothing was published
    "#]],
    );
    scratch.check(
        &["rollback", "--to", "current"],
        0,
        expect![[r#"
        D12 is the current harness already; nothing was published
    "#]],
    );
    assert_eq!(scratch.log(), before);
    let empty = Scratch::new();
    empty.check(
        &["log"],
        1,
        expect![[r#"
        error: `DIR/home` is not a harness home: it has no folder `ledger`
        help: `tandem harness add` makes one; `--home DIR` names another
    "#]],
    );
    empty.check(
        &["stats"],
        1,
        expect![[r#"
            error: no plugin was counted in DIR/home
            help: `tandem train` counts while it runs; name its folder with `--home RUN`
        "#]],
    );
    empty.check(
        &["rollback"],
        1,
        expect![[r#"
        error: `DIR/home` is not a harness home: it has no folder `ledger`
        help: `tandem harness add` makes one; `--home DIR` names another
    "#]],
    );
}

#[test]
fn lint_names_what_is_likely_a_mistake_and_ends_with_3() {
    let scratch = Scratch::with_two_plugins();
    scratch.check(
        &["lint"],
        0,
        expect![[r#"
        D12: no warnings
    "#]],
    );
    let add =
        ["add", "hold", "WASM/hold-empty-patch.wasm", "--grant", "exec", "--settings", "{\"times\": 1}"];
    scratch.done(&[&add[..], &["--reason", "no empty patches"]].concat());
    scratch.done(&["add", "warn-2", "WASM/budget-warning.wasm", "--reason", "twice is better"]);
    scratch.check(&["lint"], 3, expect![[r#"
        warning: the plugin `hold` is granted `exec` and never imports it
        help: `tandem harness set hold --no-grants` takes it away
        warning: the plugin `hold` has settings (`times`) and never reads any
        help: `tandem harness set hold --settings '{}'` takes them out
        warning: `check-names` and `hold` both decide at `on-submit`; when `check-names` answers, `hold` is not asked
        help: put the stricter one first with `tandem harness set hold --at INDEX`, or keep one of them
        warning: `budget-warning` and `warn-2` are the same component D12
        help: `tandem harness remove warn-2`, unless it is meant to act twice
        D12: 4 warnings
    "#]]);
    let warnings: Value = serde_json::from_str(&scratch.run(&["lint", "--json"]).stdout).unwrap();
    let kinds: BTreeSet<_> =
        warnings.as_array().unwrap().iter().map(|warning| warning["warning"].as_str().unwrap()).collect();
    assert!(kinds.contains("unused-grant") && kinds.contains("same-component"), "{kinds:?}");
}

#[test]
fn a_manifest_file_is_changed_compared_and_becomes_the_first_harness() {
    let scratch = Scratch::new();
    let file = scratch.0.path().join("harness.toml");
    std::fs::copy(root().join("examples/quickstart/harness.toml"), &file).unwrap();
    std::fs::copy(&file, scratch.0.path().join("before.toml")).unwrap();
    let add = ["add", "rescue-patch", "WASM/rescue-patch.wasm", "--file", "DIR/harness.toml"];
    scratch.check(
        &add,
        0,
        expect![[r#"
        DIR/harness.toml holds the harness D12
        from D12 to D12
        It newly asks for:
          `rescue-patch` imports 13 interfaces of WASI, which any plugin gets
        It newly hooks:
          `rescue-patch` is called at `on-choose-patch`
          `rescue-patch` is called at `on-limit`
        Plugins:
          `rescue-patch` is new, in place 1 of 1 (component D12)
    "#]],
    );
    scratch.check(
        &["set", "limits.turns=5", "--file", "DIR/harness.toml"],
        0,
        expect![[r#"
        DIR/harness.toml holds the harness D12
        from D12 to D12
        Limits:
          `turns`: 3 before, 5 now
    "#]],
    );
    scratch.check(
        &["diff", "DIR/before.toml", "DIR/harness.toml"],
        0,
        expect![[r#"
        from D12 to D12
        It newly asks for:
          `rescue-patch` imports 13 interfaces of WASI, which any plugin gets
        It newly hooks:
          `rescue-patch` is called at `on-choose-patch`
          `rescue-patch` is called at `on-limit`
        Plugins:
          `rescue-patch` is new, in place 1 of 1 (component D12)
        Limits:
          `turns`: 3 before, 5 now
    "#]],
    );
    scratch.check(
        &["activate", "DIR/harness.toml", "--reason", "the first"],
        0,
        expect![[r#"
        entry 1: the harness sha256:D is current
        from D12 to D12
        It newly asks for:
          `rescue-patch` imports 13 interfaces of WASI, which any plugin gets
        It newly hooks:
          `rescue-patch` is called at `on-choose-patch`
          `rescue-patch` is called at `on-limit`
        Plugins:
          `rescue-patch` is new, in place 1 of 1 (component D12)
    "#]],
    );
    let json: Value = serde_json::from_str(&scratch.done(&["show", "--json"])).unwrap();
    assert_eq!(json["manifest"]["limits"]["turns"], 5);
    let toml = scratch.done(&["show", "--toml"]);
    std::fs::write(scratch.0.path().join("shown.toml"), toml).unwrap();
    scratch.check(
        &["diff", "DIR/shown.toml", "current"],
        0,
        expect![[r#"
        from D12 to D12
        Nothing differs.
    "#]],
    );
}

/// What is current in a home is what an episode runs under.
#[test]
fn an_episode_runs_under_the_current_harness_of_a_home() {
    let scratch = Scratch::new();
    scratch.done(&["set", "limits.turns=2", "--reason", "short"]);
    let script = scratch.0.path().join("script.json");
    std::fs::write(&script, r#"{"replies": ["```bash\nls\n```", "```bash\nls\n```", "```bash\nls\n```"]}"#)
        .unwrap();
    let task = root().join("examples/tasks/first-steps/word-tally").to_string_lossy().into_owned();
    let script = script.to_string_lossy().into_owned();
    let words = ["episode", &task, "--script", &script, "--json", "--home", &scratch.home()];
    let output = Program::new(&words.map(String::from)).run();
    let record: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{}", output.stderr));
    assert_eq!(record["harness"], scratch.log()[0]["harness"]);
    assert_eq!(record["turns"].as_array().unwrap().len(), 2);
}

/// Publishers at once: each change is made on what the others published, so none is lost.
#[test]
fn four_programs_that_publish_at_once_lose_no_change() {
    let scratch = Scratch::new();
    let changes = ["limits.turns=11", "limits.tokens=12", "limits.seconds=13", "limits.deferrals=1"];
    let running: Vec<_> =
        changes.iter().map(|change| scratch.program(&["set", change, "--reason", change]).spawn()).collect();
    for program in running {
        let output = program.output();
        assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    }
    let shown: Value = serde_json::from_str(&scratch.done(&["show", "--json"])).unwrap();
    let limits = &shown["manifest"]["limits"];
    let found = ["turns", "tokens", "seconds", "deferrals"].map(|key| limits[key].as_u64().unwrap());
    assert_eq!(found, [11, 12, 13, 1]);
    let reasons: BTreeSet<_> =
        scratch.log().iter().map(|entry| entry["reason"].as_str().unwrap().to_owned()).collect();
    assert_eq!(reasons, changes.iter().map(|change| (*change).to_owned()).collect());
}

/// Killed at any instant, the ledger is whole and its last harness can be shown.
#[test]
fn a_publisher_killed_at_any_instant_leaves_a_whole_ledger() {
    let scratch = Scratch::new();
    scratch.done(&["set", "limits.turns=1", "--reason", "first"]);
    // How long one takes here, so that kills fall on all of it.
    let start = std::time::Instant::now();
    scratch.done(&["set", "limits.turns=2", "--reason", "timed"]);
    let whole = start.elapsed();
    let (mut published, mut killed) = (2, 0);
    for kill in 0..40_u32 {
        let change = format!("limits.turns={}", 100 + kill);
        let mut running = scratch.program(&["set", &change, "--reason", "killed"]).spawn();
        let finished = running.wait_at_most(whole * kill / 36);
        running.kill();
        killed += u32::from(!finished);
        let log = scratch.log();
        assert!(log.len() == published || log.len() == published + 1, "{} after {published}", log.len());
        assert!(!finished || log.len() == published + 1, "a publication that was done is lost");
        published = log.len();
        let shown: Value = serde_json::from_str(&scratch.done(&["show", "--json"])).unwrap();
        assert_eq!(shown["digest"], log.last().unwrap()["harness"]);
    }
    println!("{killed} of 40 killed before their end, {published} entries");
    assert!(killed > 0);
    scratch.done(&["set", "limits.turns=3", "--reason", "goes on"]);
}

/// The commands of the page and what they print, in the order of the page.
#[test]
fn the_page_on_harnesses_shows_what_the_commands_print() {
    let scratch = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("plugins"), scratch.path().join("plugins")).unwrap();
    std::fs::copy(root().join("examples/quickstart/harness.toml"), scratch.path().join("harness.toml"))
        .unwrap();
    let page = std::fs::read_to_string(root().join("docs/harness.md")).unwrap();
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
    let mut commands = 0;
    for block in page.split("```").skip(1).step_by(2) {
        let (language, block) = block.split_once('\n').unwrap();
        match language {
            // What it prints is not on the page.
            "sh" => {
                for command in block.lines() {
                    let (code, text) = run(command);
                    assert_eq!(code, Some(0), "$ {command}\n{text}");
                }
            }
            "console" => {
                for step in block.split("$ ").skip(1) {
                    let (command, expected) = step.split_once('\n').unwrap();
                    let (_, text) = run(command);
                    assert_eq!(settled(&text), settled(expected), "$ {command}");
                    commands += 1;
                }
            }
            other => panic!("a block of `{other}` is not tested"),
        }
    }
    assert!(commands >= 8, "the page has only {commands} commands");
}
