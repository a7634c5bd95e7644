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
    check(
        "a.js",
        "export function onToolCall(context, call) {\n  if (x { return 3 }\n}\n",
        expect![[r#"
        1 compile error:
        a.js:2:9: error[TS1005]: ')' expected.
          | if (x { return 3 }"#]],
    );
    check(
        "a.js",
        "import { comand } from \"tandem\";\nimport { x } from \"./b.js\";\nexport function onToolCall(context, call) {\n  console.log(new TextDecoder());\n}\nexport function onsubmit() {}\n",
        expect![[r#"
            5 compile errors:
            a.js:1:10: error[TS2724]: '"tandem"' has no exported member named 'comand'. Did you mean 'command'?
              | import { comand } from "tandem";
            a.js:2:19: error: there is no module `./b.js`
              | import { x } from "./b.js";
              help: a plugin imports "tandem", "tandem/log", "tandem/clock", "tandem/random", "tandem/state", "tandem/settings", "tandem/workspace-read", "tandem/workspace-write", "tandem/exec", and is one file otherwise
            a.js:4:3: error[TS2584]: a plugin has no `console`
              | console.log(new TextDecoder());
              help: import { info } from "tandem/log"; info("…")
            a.js:4:19: error[TS2304]: a plugin has no `TextDecoder`
              | console.log(new TextDecoder());
              help: import { toText } from "tandem"; toText(bytes)
            a.js:6:17: error: `onsubmit` is no export of the contract
              | export function onsubmit() {}
              help: the contract spells it `onSubmit`"#]],
    );
    check(
        "a.js",
        "const a = 1;\n",
        expect![[r#"
        1 compile error:
        a.js:1:1: error: the file exports no hook point and no tools
          help: export a function such as `onToolCall`; there are tools, settingsSchema, onEpisodeStart, onModelCall, onFormatError, onToolCall, onToolResult, onLoop, onSubmit, onChoosePatch, onLimit, observe"#]],
    );
    check(
        "a.js",
        "import { info } from \"tandem/log\";\nfunction say() { info(\"x\"); }\nsay();\nexport function observe() {}\n",
        expect![[r#"
            1 compile error:
            a.js:2:18: error: the file fails while it is loaded: `log` can be used only inside a hook or a tool, not while the file is loaded
              | function say() { info("x"); }
              help: code outside of functions runs once, when the component is built; keep it to constants"#]],
    );
    check(
        "a.js",
        "import(\"tandem/log\");\nexport default 3;\n",
        expect![[r#"
        2 compile errors:
        a.js:1:1: error: `import(…)` at run time is not possible in a plugin
          | import("tandem/log");
          help: write `import … from "tandem/GRANT"` at the head of the file
        a.js:2:1: error: there is no default export in the contract
          | export default 3;
          help: export each point by its name: `export function onToolCall(context, call) { … }`"#]],
    );
}

#[test]
fn a_type_error_in_typescript_is_shown_with_its_place() {
    check(
        "a.ts",
        "import { refuse, Context, ToolCall } from \"tandem\";\nexport function onToolCall(context: Context, call: ToolCall) {\n  if (call.nam === \"x\") return refuse(3);\n}\nexport function onSubmit(context: string) { return 3; }\nenum A { b }\n",
        expect![[r#"
            4 compile errors:
            a.ts:3:12: error[TS2551]: Property 'nam' does not exist on type 'ToolCall'. Did you mean 'name'?
              | if (call.nam === "x") return refuse(3);
            a.ts:3:39: error[TS2345]: Argument of type 'number' is not assignable to parameter of type 'string'.
              | if (call.nam === "x") return refuse(3);
            a.ts:5:17: error[TS1360]: Type '(context: string) => number' does not satisfy the expected type 'OnSubmit'. Type 'Context' is not assignable to type 'string'.
              | export function onSubmit(context: string) { return 3; }
            a.ts:6:6: error[TS1294]: the types of a plugin are only taken out, so enums, namespaces and parameter properties cannot be built
              | enum A { b }
              help: use a union of texts, or a constant object"#]],
    );
}

#[test]
fn a_mistake_in_python_is_shown_with_its_place() {
    check(
        "a.py",
        "def on_tool_call(context, call:\n    return None\n",
        expect![[r#"
        1 compile error:
        a.py:1:17: error[SyntaxError]: '(' was never closed
          | def on_tool_call(context, call:"#]],
    );
    check(
        "a.py",
        "import numpy, socket\nfrom tandem import workspace_read\nfrom .other import x\n\ndef on_toolcall(context, call):\n    print(open(\"x\"))\n\nif True:\n    def on_submit(context, submission):\n        return None\n",
        expect![[r#"
            7 compile errors:
            a.py:1:1: error: there is no module `numpy`
              | import numpy, socket
              help: a plugin has the standard library and `tandem`
            a.py:1:1: error: a plugin cannot use `socket`
              | import numpy, socket
              help: a plugin has no network
            a.py:3:1: error: a plugin is one file, so there is nothing beside it to import
              | from .other import x
              help: put the rest into this file
            a.py:5:1: error: `on_toolcall` is no hook point of the contract
              | def on_toolcall(context, call):
              help: did you mean `on_tool_call`?
            a.py:6:5: error: a plugin has no `print`
              | print(open("x"))
              help: say it with `tandem.log`
            a.py:6:11: error: a plugin has no `open`
              | print(open("x"))
              help: files are read with `tandem.workspace_read` and written with `tandem.workspace_write`
            a.py:9:5: error: `on_submit` is not at the top of the file, so it is no hook
              | def on_submit(context, submission):
              help: define it outside of everything else"#]],
    );
    check(
        "a.py",
        "A = 1\n",
        expect![[r#"
        1 compile error:
        error: the file defines no hook point and no tools
          help: define a function such as `on_tool_call`; there are settings_schema, on_episode_start, on_model_call, on_format_error, on_tool_call, on_tool_result, on_loop, on_submit, on_choose_patch, on_limit, observe and `@tool(...)`"#]],
    );
    check(
        "a.py",
        "async def on_submit(context, submission):\n    return None\n",
        expect![[r#"
        1 compile error:
        a.py:1:1: error: `on_submit` is `async`; a plugin answers at once
          | async def on_submit(context, submission):
          help: write `def`"#]],
    );
}

/// An exception in a call is a plugin fault with the author's line in it.
#[tokio::test]
async fn an_exception_reaches_the_author_as_text() {
    let at = |text: &str| text[text.find("uncaught").unwrap_or(0)..].to_owned();
    let built = build("a.js", "function deep(call) {\n  return call.nothing.x;\n}\nexport function onToolCall(context, call) {\n  if (context.turn > 90) deep(call);\n}\n").unwrap();
    let input = json!({ "context": { "turn": 99 } });
    expect![[r#"
        uncaught TypeError: cannot read property 'x' of undefined
            at deep (plugin.js:2:10)
            at onToolCall (plugin.js:5:31)
        help: handle every input, an empty workspace and missing files too, and return instead of panicking"#]].assert_eq(&at(&answer(&built.component, HookPoint::OnToolCall, &input).await));
    let built = build("a.py", "def deep(call):\n    return call.nothing.x\n\ndef on_tool_call(context, call):\n    if context.turn > 90:\n        deep(call)\n").unwrap();
    expect![[r#"
        uncaught AttributeError: 'ToolCall' object has no attribute 'nothing'
            at deep (plugin.py:2)
            at on_tool_call (plugin.py:6)
        help: handle every input, an empty workspace and missing files too, and return instead of panicking"#]].assert_eq(&at(&answer(&built.component, HookPoint::OnToolCall, &input).await));
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
        expect![[r#"
            1 compile error:
            a.js:2:38: error: the file fails while it is loaded: out of memory
              | for (;;) all.push(new Array(1 << 24).fill(1));
              help: code outside of functions runs once, when the component is built; keep it to constants"#]],
    );
    check(
        "a.js",
        "function f() { return f() + 1; }\nf();\nexport function observe() {}\n",
        expect![[r#"
        1 compile error:
        error: the file fails while it is loaded: call stack exhausted
          help: code outside of functions runs once, when the component is built; keep it to constants"#]],
    );
    let tried = "[\"process\", \"require\", \"fetch\", \"std\", \"os\"].filter((name) => name in globalThis)";
    check(
        "a.js",
        &format!("throw new Error(JSON.stringify({tried}));\nexport function observe() {{}}\n"),
        expect![[r#"
            1 compile error:
            a.js:1:76: error: the file fails while it is loaded: []
              | throw new Error(JSON.stringify(["process", "require", "fetch", "std", "os"].filter((name) => name in globalThis)));
              help: code outside of functions runs once, when the component is built; keep it to constants"#]],
    );
    check(
        "a.js",
        &format!("export function observe() {{ return {}1; }}\n", "-(".repeat(100_000)),
        expect![[r#"
        1 compile error:
        error: the source is nested too deep
          help: simplify it"#]],
    );
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
    check(
        "a.py",
        &text,
        expect![[r#"
        1 compile error:
        a.py:26:1: error: the file fails while it is loaded: ValueError: system: AttributeError | passwd: FileNotFoundError | secret: FileNotFoundError | connect: gaierror | environment: ['PYTHONHOME', 'PYTHONPATH', 'PYTHONUNBUFFERED'] | processes: FileNotFoundError | root: FileNotFoundError
          | raise ValueError(" | ".join(tried))
          help: code outside of functions runs once, when the component is built; keep it to constants"#]],
    );
    assert!(listener.accept().is_err());
}
