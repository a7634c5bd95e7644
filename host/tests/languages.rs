//! Is a plugin the same in every language? The example of each is asked the same hundred questions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use expect_test::expect;
use serde_json::{Value, json};
use tandem_host::forge::{Built, Forge, ForgeConfig, ForgeError, Language, Source};
use tandem_host::plugin::{
    AdmissionOptions, Engine, ExecOutput, Grants, HookPoint, Instance, InstanceConfig, PluginLimits,
    SearchHit, WorkspaceAccess, WorkspaceEntry, WorkspaceError, admit, call_json,
};

/// Set where every language has to be there, as in the project's own runs.
const REQUIRE: &str = "TANDEM_REQUIRE_LANGUAGES";

static FORGE: LazyLock<Forge> = LazyLock::new(|| {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("forge");
    Forge::new(ForgeConfig::new(cache)).unwrap_or_else(|error| panic!("{error}"))
});

/// The example of a language; none, said aloud, where its compiler is missing.
fn example(language: Language) -> Option<Built> {
    let file = language.file_name("plugin");
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/plugins").join(language.name()).join(&file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    match FORGE.build(&Source::File { name: file, text }) {
        Ok(built) => Some(built),
        Err(ForgeError::Toolchain { what, help }) => {
            assert!(std::env::var_os(REQUIRE).is_none(), "{language}: {what}\n{help}");
            println!("{language} is left out: {what}\nhelp: {help}");
            None
        }
        Err(error) => panic!("{language}: {error}"),
    }
}

/// A workspace of a few files.
struct Files(BTreeMap<&'static str, &'static [u8]>);

impl Files {
    fn new() -> Self {
        const MANY: &[u8] = b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
        Self(BTreeMap::from([
            ("a.py", &b"one\ntwo\nthree\n"[..]),
            ("open.txt", b"no newline\nat the end"),
            ("dos.txt", b"a\r\nb\r\n"),
            ("blank.txt", b"\n\n\n"),
            ("empty.txt", b""),
            ("caf\u{e9}.txt", "gr\u{fc}n \u{2713} \u{1f600}\n".as_bytes()),
            ("latin.txt", b"gr\xfcn\n"),
            ("many.txt", MANY),
            ("quote\".txt", b"x\ty\n"),
        ]))
    }
}

#[async_trait]
impl WorkspaceAccess for Files {
    async fn read(&self, path: &str) -> Result<Vec<u8>, WorkspaceError> {
        match path {
            "secret" => Err(WorkspaceError::Denied(path.into())),
            "huge" => Err(WorkspaceError::TooLarge("`huge` has 9 bytes, limit 8 bytes".into())),
            "broken" => Err(WorkspaceError::Failed("it broke".into())),
            _ => self
                .0
                .get(path)
                .map(|bytes| bytes.to_vec())
                .ok_or_else(|| WorkspaceError::NotFound(path.into())),
        }
    }
    async fn list(&self, _: &str) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
        Ok(Vec::new())
    }
    async fn stat(&self, path: &str) -> Result<WorkspaceEntry, WorkspaceError> {
        Err(WorkspaceError::NotFound(path.into()))
    }
    async fn search(&self, _: &str, _: &str, _: u32) -> Result<Vec<SearchHit>, WorkspaceError> {
        Ok(Vec::new())
    }
    async fn diff(&self) -> Result<Vec<u8>, WorkspaceError> {
        Ok(Vec::new())
    }
    async fn untracked(&self) -> Result<Vec<String>, WorkspaceError> {
        Ok(Vec::new())
    }
    async fn write(&self, path: &str, _: &[u8]) -> Result<(), WorkspaceError> {
        Err(WorkspaceError::Denied(path.into()))
    }
    async fn exec(&self, _: &[String], _: Duration) -> Result<ExecOutput, WorkspaceError> {
        Err(WorkspaceError::Denied("exec".into()))
    }
}

const COMMANDS: [&str; 42] = [
    "ls",
    "",
    " ",
    "rm",
    "rm -rf",
    "rm -rf /",
    "rm -rf / ",
    "rm -fr /",
    "rm -r -f /",
    "rm -R /*",
    "rm --recursive ~",
    "rm --force /",
    "rm -f /",
    "rm /",
    "rm -rf build",
    "rm -rf build /",
    "rm -rf ./",
    "rm -rf .",
    "rm -rf ..",
    "rm -rf *",
    "rm -rf $HOME",
    "rm -rf $HOME/",
    "rm -rf ~/",
    "rm -rf ~/x",
    "rm -rf /tmp",
    "sudo rm -rf /",
    "sudo",
    "sudo sudo rm -rf /",
    "/bin/rm -rf /",
    "./rm -rf .",
    "xrm -rf /",
    "cd x; rm -rf .",
    "cd x && rm -rf .",
    "true||rm -rf .",
    "a|b|rm -rf .",
    "ls\nrm -rf .",
    "ls\trm -rf .",
    "rm\t-rf\t/",
    "echo 'rm -rf /'",
    "rm -rf '/'",
    "rm -rf -- /",
    "rm -rf gr\u{fc}n/ / \u{1f600}",
];

const OUTPUTS: [&str; 16] = [
    "",
    "3 passed",
    "FAILED ",
    "FAILED a",
    "FAILED a - b",
    "FAILED a -b",
    "FAILED  a  - b",
    "FAILED a\nFAILED b\nFAILED c",
    "x\nFAILED a\r\ny",
    " FAILED a",
    "failed a",
    "FAILED - reason",
    "FAILED  - reason\nFAILED t.py::b",
    "FAILED gr\u{fc}n::\u{2713} - \u{1f600}",
    "FAILED a - b - c\n",
    "FAILED\ta",
];

/// At least a hundred: point and input of each.
fn questions() -> Vec<(HookPoint, Value)> {
    let mut all = Vec::new();
    for command in COMMANDS {
        all.push((
            HookPoint::OnToolCall,
            json!({"call": {"name": "bash", "arguments": {"command": command}}}),
        ));
    }
    for arguments in [json!({}), json!({"command": 3}), json!({"command": null}), json!({"cmd": "rm -rf /"})]
    {
        all.push((HookPoint::OnToolCall, json!({"call": {"name": "bash", "arguments": arguments}})));
    }
    let other = json!({"name": "edit", "arguments": {"command": "rm -rf /"}});
    all.push((HookPoint::OnToolCall, json!({"call": other})));

    for text in OUTPUTS {
        all.push((HookPoint::OnToolResult, json!({"result": {"exit_code": 1, "text": text}})));
    }
    for result in [
        json!({"exit_code": 0, "text": "FAILED a"}),
        json!({"exit_code": null, "text": "FAILED a"}),
        json!({"exit_code": -9, "text": "FAILED a"}),
        json!({"status": "timed-out", "exit_code": 1, "text": "FAILED a"}),
        json!({"status": "refused", "exit_code": 1, "text": "FAILED a"}),
    ] {
        all.push((HookPoint::OnToolResult, json!({"result": result})));
    }
    let edit = json!({"call": {"name": "edit"}, "result": {"exit_code": 1, "text": "FAILED a"}});
    all.push((HookPoint::OnToolResult, edit));

    let mut head =
        |arguments: Value| all.push((HookPoint::Tools, json!({"name": "head", "arguments": arguments})));
    for path in [
        "a.py",
        "open.txt",
        "dos.txt",
        "blank.txt",
        "empty.txt",
        "caf\u{e9}.txt",
        "latin.txt",
        "many.txt",
        "quote\".txt",
        "missing",
        "",
        "secret",
        "huge",
        "broken",
        "gr\u{fc}n/\u{1f600}",
    ] {
        head(json!({"path": path}));
    }
    for lines in [
        json!(1),
        json!(2),
        json!(3),
        json!(4),
        json!(200),
        json!(0),
        json!(-1),
        json!(201),
        json!(2.0),
        json!(2.5),
        json!(1e1),
        json!(1e300),
        json!("2"),
        json!(null),
        json!(true),
        json!([1]),
    ] {
        head(json!({"path": "a.py", "lines": lines}));
    }
    for arguments in [json!({}), json!({"path": 3}), json!({"path": null}), json!({"lines": 1})] {
        head(arguments);
    }
    all.push((HookPoint::Tools, json!({"name": "tail", "arguments": {"path": "a.py"}})));
    all
}

/// The answers of a component, one line each, and its definitions.
async fn answers(engine: &Engine, built: &Built) -> Vec<String> {
    let grants = Grants::parse(&built.grants).unwrap();
    let admitted = admit(engine, &built.component, &grants, &AdmissionOptions::default()).await;
    let admitted = admitted.unwrap_or_else(|error| panic!("{}: {error}", built.provenance.language));
    let workspace = Arc::new(Files::new());
    let config = InstanceConfig { settings: "{}".into(), seed: 7, workspace };
    let mut instance = Instance::new(&admitted, config);
    let mut lines = vec![serde_json::to_string(admitted.tools()).unwrap()];
    for (point, input) in questions() {
        let answer = call_json(&mut instance, point, &input).await;
        let answer = answer.map_or_else(|error| format!("fault: {error}"), |answer| answer.to_string());
        lines.push(format!("{} {input} -> {answer}", point.name()));
    }
    lines
}

#[tokio::test]
async fn the_same_questions_have_the_same_answers_in_every_language() {
    assert!(questions().len() >= 100, "{} questions", questions().len());
    let engine = Engine::new(PluginLimits::default()).unwrap();
    let reference = answers(&engine, &example(Language::Rust).unwrap()).await;
    assert!(reference.iter().all(|line| !line.contains("fault: ")), "{reference:#?}");
    // The reference itself says something: refusals, annotations and texts are all there.
    let count = |mark: &str| reference.iter().filter(|line| line.contains(mark)).count();
    let counts = format!(
        "{} refused, {} annotated, {} shown, {} errors, {} silent",
        count("-> {\"refuse\""),
        count("-> {\"annotate\""),
        count("\"is_error\":false"),
        count("\"is_error\":true"),
        count("-> null")
    );
    expect!["25 refused, 11 annotated, 15 shown, 21 errors, 33 silent"].assert_eq(&counts);

    for language in Language::ALL.into_iter().filter(|language| *language != Language::Rust) {
        let Some(built) = example(language) else { continue };
        assert_eq!(built.exports, ["on-tool-call", "on-tool-result", "tools"], "{language}");
        assert_eq!(built.grants, ["workspace-read"], "{language}");
        let found = answers(&engine, &built).await;
        for (found, expected) in found.iter().zip(&reference) {
            assert_eq!(found, expected, "{language}");
        }
        println!("{language}: {} bytes, built in {:.2} s", built.component.len(), built.seconds);
    }
}

#[test]
fn every_language_has_its_record() {
    for language in Language::ALL {
        let Some(built) = example(language) else { continue };
        let made = &built.provenance;
        assert_eq!(made.language, language);
        assert!(
            !made.tools.is_empty() && made.tools.iter().all(|tool| !tool.version.is_empty()),
            "{language}"
        );
        assert_eq!(made.tools, FORGE.tools(language).unwrap());
    }
}

#[tokio::test]
async fn a_component_of_a_language_that_the_forge_does_not_know_is_admitted() {
    // By hand, after the canonical ABI: `on-model-call` notes "Run the tests." in every turn.
    let core = wat::parse_str(
        r#"(module
            (memory (export "memory") 1)
            (data (i32.const 64) "Run the tests.")
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
            (func (export "tandem:harness/on-model-call@0.1.0#on-model-call")
                (param i32 i64 i32 i64 i64 i32 i64 i64 i32 i64) (result i32)
                (i32.store8 (i32.const 0) (i32.const 1))    ;; some(
                (i32.store8 (i32.const 4) (i32.const 0))    ;;   note(
                (i32.store (i32.const 8) (i32.const 64))    ;;     text
                (i32.store (i32.const 12) (i32.const 14))   ;;     and its length))
                (i32.const 0)))"#,
    );
    let made = tandem_host::forge::componentize(&core.unwrap()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        (made.exports.as_slice(), made.grants.as_slice()),
        (&["on-model-call".to_owned()][..], &[][..])
    );
    let engine = Engine::new(PluginLimits::default()).unwrap();
    let admitted =
        admit(&engine, &made.component, &Grants::none(), &AdmissionOptions::default()).await.unwrap();
    let config = InstanceConfig { settings: "{}".into(), seed: 0, workspace: Arc::new(Files::new()) };
    let answer = call_json(&mut Instance::new(&admitted, config), HookPoint::OnModelCall, &json!({})).await;
    assert_eq!(answer.unwrap(), json!({"note": "Run the tests."}));
}
