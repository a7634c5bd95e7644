//! JavaScript, TypeScript and Python: what comes out of the forge, what an author reads when nothing
//! does, and what hostile source gets.

use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tandem_host::forge::{Built, Forge, ForgeConfig, ForgeError, Language, Source};
use tandem_host::plugin::{
    AdmissionOptions, Engine, HookPoint, NoWorkspace, PluginLimits, RunPoint, run_point,
};

static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(PluginLimits::default()).unwrap());

/// Installs the pinned packages on a machine that has none yet.
static FORGE: LazyLock<Forge> = LazyLock::new(|| {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("forge");
    let forge = Forge::new(ForgeConfig::new(cache)).unwrap_or_else(|error| panic!("{error}"));
    for language in [Language::JavaScript, Language::Python] {
        if forge.tools(language).is_err() {
            forge.install(language).unwrap_or_else(|error| panic!("{error}"));
        }
    }
    forge
});

fn build(name: &str, text: &str) -> Result<Built, ForgeError> {
    FORGE.build(&Source::File { name: name.into(), text: text.into() })
}

/// What an author sees of a build.
fn check(name: &str, text: &str, expected: Expect) {
    match build(name, text) {
        Ok(built) => expected.assert_eq(&format!("exports {:?}, grants {:?}", built.exports, built.grants)),
        Err(error) => expected.assert_eq(&error.to_string()),
    }
}

async fn answer(component: &[u8], point: HookPoint, input: &Value) -> String {
    let how =
        RunPoint { grants: None, settings: Default::default(), seed: 1, workspace: Arc::new(NoWorkspace) };
    match run_point(&ENGINE, component, point, input, how, &AdmissionOptions::default()).await {
        Ok(output) => output.output.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_same_javascript_gives_the_same_bytes() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/plugins/javascript/plugin.js");
    let text = std::fs::read_to_string(file).unwrap();
    let first = build("plugin.js", &text).unwrap_or_else(|error| panic!("{error}"));
    // Also when everything is prepared anew.
    let fresh = tempfile::tempdir().unwrap();
    let other = Forge::new(ForgeConfig::new(fresh.path())).unwrap();
    let anew = other.build(&Source::File { name: "x.js".into(), text }).unwrap();
    assert!(!anew.reused && anew.provenance == first.provenance && anew.component == first.component);
}

#[test]
fn a_mistake_in_javascript_is_shown_with_its_place() {
    check("a.js", "export function onToolCall(context, call) {\n  if (x { return 3 }\n}\n", expect![]);
    check(
        "a.js",
        "import { comand } from \"tandem\";\nimport { x } from \"./b.js\";\nexport function onToolCall(context, call) {\n  console.log(new TextDecoder());\n}\nexport function onsubmit() {}\n",
        expect![],
    );
    check("a.js", "const a = 1;\n", expect![]);
    check(
        "a.js",
        "import { info } from \"tandem/log\";\nfunction say() { info(\"x\"); }\nsay();\nexport function observe() {}\n",
        expect![],
    );
    check("a.js", "import(\"tandem/log\");\nexport default 3;\n", expect![]);
}

#[test]
fn a_type_error_in_typescript_is_shown_with_its_place() {
    check(
        "a.ts",
        "import { refuse, Context, ToolCall } from \"tandem\";\nexport function onToolCall(context: Context, call: ToolCall) {\n  if (call.nam === \"x\") return refuse(3);\n}\nexport function onSubmit(context: string) { return 3; }\nenum A { b }\n",
        expect![],
    );
}

#[test]
fn a_mistake_in_python_is_shown_with_its_place() {
    check("a.py", "def on_tool_call(context, call:\n    return None\n", expect![]);
    check(
        "a.py",
        "import numpy, socket\nfrom tandem import workspace_read\nfrom .other import x\n\ndef on_toolcall(context, call):\n    print(open(\"x\"))\n\nif True:\n    def on_submit(context, submission):\n        return None\n",
        expect![],
    );
    check("a.py", "A = 1\n", expect![]);
    check("a.py", "async def on_submit(context, submission):\n    return None\n", expect![]);
}

/// An exception in a call is a plugin fault with the author's line in it.
#[tokio::test]
async fn an_exception_reaches_the_author_as_text() {
    let at = |text: &str| text[text.find("uncaught").unwrap_or(0)..].to_owned();
    let built = build("a.js", "function deep(call) {\n  return call.nothing.x;\n}\nexport function onToolCall(context, call) {\n  if (context.turn > 90) deep(call);\n}\n").unwrap();
    let input = json!({ "context": { "turn": 99 } });
    expect![].assert_eq(&at(&answer(&built.component, HookPoint::OnToolCall, &input).await));
    let built = build("a.py", "def deep(call):\n    return call.nothing.x\n\ndef on_tool_call(context, call):\n    if context.turn > 90:\n        deep(call)\n").unwrap();
    expect![].assert_eq(&at(&answer(&built.component, HookPoint::OnToolCall, &input).await));
}

/// Code outside of functions runs in the component's own interpreter, with no machine behind it.
#[test]
fn javascript_that_runs_at_build_time_gets_nothing() {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("forge");
    let config = ForgeConfig { timeout: Duration::from_secs(5), ..ForgeConfig::new(cache) };
    LazyLock::force(&FORGE);
    let text = "while (true);\nexport function observe() {}\n".into();
    let result = Forge::new(config).unwrap().build(&Source::File { name: "a.js".into(), text });
    assert!(matches!(result, Err(ForgeError::TimedOut { .. })), "{result:?}");

    check(
        "a.js",
        "const all = [];\nfor (;;) all.push(new Array(1 << 24).fill(1));\nexport function observe() {}\n",
        expect![],
    );
    check("a.js", "function f() { return f() + 1; }\nf();\nexport function observe() {}\n", expect![]);
    let tried = "[\"process\", \"require\", \"fetch\", \"std\", \"os\"].filter((name) => name in globalThis)";
    check(
        "a.js",
        &format!("throw new Error(JSON.stringify({tried}));\nexport function observe() {{}}\n"),
        expect![],
    );
    check("a.js", &format!("export function observe() {{ return {}1; }}\n", "-(".repeat(100_000)), expect![]);
}

#[test]
fn python_that_runs_at_build_time_gets_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "the secret").unwrap();
    let text = format!(
        r#"
import builtins
import importlib
import io
import os

tried = []

def attempt(name, run):
    try:
        tried.append(name + ": " + str(run())[:60])
    except BaseException as error:
        tried.append(name + ": " + type(error).__name__)

def connect():
    socket = importlib.import_module("socket")
    return socket.create_connection(("127.0.0.1", {port}), 1)

attempt("system", lambda: os.system("touch /out/made"))
attempt("passwd", lambda: io.open("/etc/passwd").read())
attempt("secret", lambda: io.open("{secret}").read())
attempt("connect", connect)
attempt("environment", lambda: sorted(os.environ))
attempt("processes", lambda: os.listdir("/proc"))
attempt("root", lambda: sorted(os.listdir("/")))
raise ValueError(" | ".join(tried))

def observe(context, name, payload):
    return None
"#,
        secret = secret.path().display(),
    );
    check("a.py", &text, expect![]);
    assert!(listener.accept().is_err());
}
