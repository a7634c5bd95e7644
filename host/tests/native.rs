//! C, C++ and Zig: do their examples do what their cases say, what does hostile source get at build
//! time, and what does an author read?

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use expect_test::{Expect, expect};
use serde_json::json;
use tandem_host::cases::{Cases, run_cases};
use tandem_host::forge::{Built, Forge, ForgeConfig, ForgeError, Source};
use tandem_host::plugin::{
    AdmissionOptions, Admitted, Budget, Context, Engine, Grants, Instance, InstanceConfig, NoWorkspace,
    PluginFault, PluginLimits, ToolResult, ToolStatus, Usage, admit,
};
use tandem_host::workspace::WorkspaceConfig;

static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(PluginLimits::default()).unwrap());

fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("forge")
}

static FORGE: LazyLock<Forge> =
    LazyLock::new(|| Forge::new(ForgeConfig::new(cache())).unwrap_or_else(|error| panic!("{error}")));

fn source(file: &str, text: &str) -> Source {
    Source::File { name: file.into(), text: text.into() }
}

fn example(language: &str) -> (PathBuf, Source) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/plugins").join(language);
    let file = format!("plugin.{language}");
    let text = std::fs::read_to_string(folder.join(&file)).unwrap();
    (folder, source(&file, &text))
}

fn built(source: &Source) -> Built {
    FORGE.build(source).unwrap_or_else(|error| panic!("{error}"))
}

async fn admitted(built: &Built) -> Arc<Admitted> {
    let grants = Grants::parse(&built.grants).unwrap();
    let admitted = admit(&ENGINE, &built.component, &grants, &AdmissionOptions::default()).await;
    admitted.unwrap_or_else(|error| panic!("{error}"))
}

const LANGUAGES: [&str; 3] = ["c", "cpp", "zig"];

#[tokio::test]
async fn the_examples_do_what_their_cases_say() {
    for language in LANGUAGES {
        let (folder, source) = example(language);
        let built = built(&source);
        println!("{language}: {} bytes in {:.2} s", built.component.len(), built.seconds);
        assert_eq!(built.exports, ["on-tool-call", "on-tool-result", "tools"], "{language}");
        assert_eq!(built.grants, ["workspace-read"], "{language}");
        let cases = Cases::read(folder.parent().unwrap()).unwrap_or_else(|error| panic!("{error}"));
        let report = run_cases(&admitted(&built).await, &cases, &WorkspaceConfig::default()).await.unwrap();
        assert_eq!(report.failed(), 0, "{language}:\n{report}");
    }
}

fn context() -> Context {
    let usage = Usage { used: 1, limit: Some(50) };
    Context { turn: 1, budget: Budget { turns: usage, tokens: usage, seconds: usage }, now_ms: 0 }
}

fn config() -> InstanceConfig {
    InstanceConfig { settings: "{}".into(), seed: 1, workspace: Arc::new(NoWorkspace) }
}

/// One instance with 64 MiB of memory answers 2,000 calls with a text of 50 kB each: kept, that would be too much.
#[tokio::test]
async fn what_a_call_used_is_free_for_the_next() {
    let text = format!("{}FAILED t.py::a - x\nFAILED t.py::b\n", "a line of a long log\n".repeat(2_500));
    let raw_bytes = text.len() as u64;
    let outcome = ToolResult { status: ToolStatus::Finished, exit_code: Some(1), text, raw_bytes };
    for language in LANGUAGES {
        let admitted = admitted(&built(&example(language).1)).await;
        let mut instance = Instance::new(&admitted, config());
        for number in 0..2_000 {
            let call = tandem_host::policy::ToolCall {
                id: number.to_string(),
                name: "bash".into(),
                arguments: json!({ "command": "pytest" }),
            };
            let effect = instance.on_tool_result(&context(), &call, &outcome).await;
            let effect = effect.unwrap_or_else(|fault| panic!("{language}, call {number}: {fault}"));
            assert!(effect.is_some(), "{language}");
        }
    }
}

#[test]
fn the_same_source_gives_the_same_bytes() {
    // Another cache with the same libraries, which take long to build.
    let other = tempfile::tempdir_in(cache().parent().unwrap()).unwrap();
    for language in LANGUAGES {
        let first = built(&example(language).1);
        for entry in std::fs::read_dir(cache()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with(&format!("{language}-")) {
                let status = std::process::Command::new("cp").arg("-a").arg(&path).arg(other.path()).status();
                assert!(status.unwrap().success());
            }
        }
        let forge = Forge::new(ForgeConfig::new(other.path())).unwrap();
        let second = forge.build(&example(language).1).unwrap_or_else(|error| panic!("{error}"));
        assert!(!second.reused && second.provenance == first.provenance, "{language}");
        assert!(second.component == first.component, "{language}");
    }
}

/// What an author sees of a build.
fn check(file: &str, text: &str, expected: Expect) {
    match FORGE.build(&source(file, text)) {
        Ok(built) => expected.assert_eq(&format!("exports {:?}, grants {:?}", built.exports, built.grants)),
        Err(error) => expected.assert_eq(&error.to_string()),
    }
}

const C: &str = "#include \"tandem.h\"
const tandem_text *tandem_on_submit(const tandem_context *context, const tandem_submission *submission) {
    return HERE;
}
TANDEM_EXPORT(on_submit);
";
const CPP: &str = "#include \"tandem.hpp\"
std::optional<std::string> on_submit(const tandem::Context &context, const tandem::Submission &submission) {
    return HERE;
}
TANDEM_EXPORT(on_submit);
";
const ZIG: &str = "const tandem = @import(\"tandem\");
pub fn onSubmit(context: tandem.Context, submission: tandem.Submission) ?[]const u8 {
    _ = .{ context, submission };
    return HERE;
}
";

fn check_c(here: &str, expected: Expect) {
    check("guard.c", &C.replace("HERE", here), expected);
}

fn check_cpp(here: &str, expected: Expect) {
    check("guard.cpp", &CPP.replace("HERE", here), expected);
}

fn check_zig(here: &str, expected: Expect) {
    check("guard.zig", &ZIG.replace("HERE", here), expected);
}

/// A plugin in which one text stands for another.
fn check_c_with((from, to): (&str, &str), expected: Expect) {
    check("guard.c", &C.replace("HERE", "NULL").replace(from, to), expected);
}

fn check_cpp_with((from, to): (&str, &str), expected: Expect) {
    check("guard.cpp", &CPP.replace("HERE", "std::nullopt").replace(from, to), expected);
}

fn check_zig_with((from, to): (&str, &str), expected: Expect) {
    check("guard.zig", &ZIG.replace("HERE", "null").replace(from, to), expected);
}

#[test]
fn a_capability_that_is_used_is_a_grant_that_is_needed() {
    check_c(
        "tandem_now_ms() > 3 ? tandem_say(\"late\") : NULL",
        expect![[r#"exports ["on-submit"], grants ["clock"]"#]],
    );
    check_c("NULL", expect![[r#"exports ["on-submit"], grants []"#]]);
    check_cpp(
        "tandem::now_ms() > 3 ? std::optional<std::string>(\"late\") : std::nullopt",
        expect![[r#"exports ["on-submit"], grants ["clock"]"#]],
    );
    check_cpp("std::nullopt", expect![[r#"exports ["on-submit"], grants []"#]]);
    check_zig(
        "if (tandem.nowMs() > 3) \"late\" else null",
        expect![[r#"exports ["on-submit"], grants ["clock"]"#]],
    );
    check_zig("null", expect![[r#"exports ["on-submit"], grants []"#]]);
}

#[test]
fn a_mistake_is_shown_with_its_place() {
    check_c(
        "tandem_say(\"%s\", submission)",
        expect![[r#"
        1 compile error:
        guard.c:3:29: error: format specifies type 'char *' but the argument has type 'const tandem_submission *'
          | return tandem_say("%s", submission);"#]],
    );
    check_c(
        "tandem_note(\"x\")",
        expect![[r#"
        1 compile error:
        guard.c:3:12: error: incompatible pointer types returning 'const tandem_model_call_effect *' (aka 'const struct tandem_model_call_effect *') from a function with result type 'const tandem_text *'
          | return tandem_note("x");"#]],
    );
    check_c(
        "submission->patches.bytes > 0 ? NULL : tandem_say(1)",
        expect![[r#"
            2 compile errors:
            guard.c:3:24: error: no member named 'patches' in 'tandem_submission'
              | return submission->patches.bytes > 0 ? NULL : tandem_say(1);
            guard.c:3:62: error: format string is not a string literal (potentially insecure)
              | return submission->patches.bytes > 0 ? NULL : tandem_say(1);
              help: treat the string as an argument to avoid this"#]],
    );
    check_c_with(
        ("const tandem_context *context, ", ""),
        expect![[r#"
            1 compile error:
            guard.c:2:20: error: conflicting types for 'tandem_on_submit'
              | const tandem_text *tandem_on_submit(const tandem_submission *submission) {
              help: the SDK has `const tandem_text *tandem_on_submit(const tandem_context *context, const tandem_submission *submission);`"#]],
    );
    check_c_with(
        ("EXPORT(on_submit)", "EXPORT(on_submitt)"),
        expect![[r#"
            2 compile errors:
            guard.c:5:1: error: unknown type name 'TANDEM_EXPORT_on_submitt'
              | TANDEM_EXPORT(on_submitt);
            guard.c:5:1: error: expected identifier or '('
              | TANDEM_EXPORT(on_submitt);"#]],
    );
    check_c_with(
        ("tandem_on_submit(", "tandem_on_hand_in("),
        expect![[r#"
            1 compile error:
            error: `tandem_on_submit` is used and not defined
              help: define it; the C library is that of WASI: no network, no processes, no threads"#]],
    );
    check_c_with(
        ("TANDEM_EXPORT(on_submit);", ""),
        expect![[r#"
            the plugin exports no hook point and no tools
            help: define a function such as `tandem_on_model_call`, and write `TANDEM_EXPORT(on_model_call);` after it"#]],
    );
    check(
        "guard.c",
        "int a = {",
        expect![[r#"
        3 compile errors:
        guard.c:1:10: error: expected expression
          | int a = {
        guard.c:1:10: error: expected '}'
          | int a = {
          help: to match this '{'
        guard.c:1:10: error: expected ';' after top level declarator
          | int a = {"#]],
    );

    check_cpp(
        "tandem::Note{\"x\"}",
        expect![[r#"
        1 compile error:
        guard.cpp:3:12: error: no viable conversion from returned value of type 'tandem::Note' to function return type 'std::optional<std::string>' (aka 'std::optional<basic_string<char>>')
          | return tandem::Note{"x"};"#]],
    );
    check_cpp(
        "std::vector<std::string>{}.at(submission)",
        expect![[r#"
        1 compile error:
        guard.cpp:3:39: error: no matching member function for call to 'at'
          | return std::vector<std::string>{}.at(submission);"#]],
    );
    check_cpp_with(
        ("EXPORT(on_submit)", "EXPORT(on_limit)"),
        expect![[r#"
            1 compile error:
            guard.cpp:5:1: error: `on_limit(tandem::Context const&, tandem::Limit, tandem::PatchCandidate const&)` is used and not defined
              | TANDEM_EXPORT(on_limit);
              help: define it; the C library is that of WASI: no network, no processes, no threads"#]],
    );
    check_cpp(
        "throw 1",
        expect![[r#"
        3 compile errors:
        guard.cpp:3:12: error: cannot use 'throw' with exceptions disabled
          | return throw 1;
        guard.cpp:3:12: error: cannot form a reference to 'void'
          | return throw 1;
          help: while substituting prior template arguments into non-type template parameter [with _Up = void]
          help: in `libcxx/include/optional`, line 841
          help: while substituting deduced template arguments into function template 'optional' [with _Up = void, $1 = (no value)]
        guard.cpp:3:12: error: no viable conversion from returned value of type 'void' to function return type 'std::optional<std::string>' (aka 'std::optional<basic_string<char>>')
          | return throw 1;"#]],
    );

    check_zig(
        ".{ .note = \"x\" }",
        expect![[r#"
        1 compile error:
        guard.zig:4:23: error: type '[]const u8' does not support struct initialization syntax
          | return .{ .note = "x" };"#]],
    );
    check_zig(
        "submission.patches",
        expect![[r#"
        1 compile error:
        guard.zig:4:23: error: no field named 'patches' in struct 'tandem.Submission'
          | return submission.patches;
          help: the SDK has `pub const Submission = struct { patch: PatchCandidate, work_tree: WorkTree, deferrals: u32 };`"#]],
    );
    check_zig_with(
        ("context: tandem.Context, ", ""),
        expect![[r#"
        1 compile error:
        guard.zig:3:12: error: use of undeclared identifier 'context'
          | _ = .{ context, submission };"#]],
    );
    check_zig_with(
        ("onSubmit", "onHandIn"),
        expect![[r#"
            1 compile error:
            guard.zig:2:1: error: `onHandIn` is no point; the points are: definitions call settingsSchema onEpisodeStart onModelCall onFormatError onToolCall onToolResult onLoop onSubmit onChoosePatch onLimit observe
              | pub fn onHandIn(context: tandem.Context, submission: tandem.Submission) ?[]const u8 {"#]],
    );
    check_zig_with(
        ("pub fn", "fn"),
        expect![[r#"
            the plugin exports no hook point and no tools
            help: define a `pub fn` with the name of a point, such as `onModelCall`"#]],
    );
    check(
        "guard.zig",
        "fn f( {",
        expect![[r#"
        1 compile error:
        guard.zig:1:7: error: expected type expression, found '{'
          | fn f( {"#]],
    );
}

#[test]
fn files_of_this_machine_are_not_there() {
    check_c(
        "NULL;\n#include \"/etc/passwd\"\n",
        expect![[r#"
        1 compile error:
        guard.c:4:10: error: '/etc/passwd' file not found
          | #include "/etc/passwd""#]],
    );
    check_c(
        "NULL;\n#include \"/proc/self/environ\"\n",
        expect![[r#"
        1 compile error:
        guard.c:4:10: error: '/proc/self/environ' file not found
          | #include "/proc/self/environ""#]],
    );
    check_c(
        "NULL;\nstatic const char secret[] = {\n#embed \"/etc/passwd\"\n}",
        expect![[r#"
            1 compile error:
            guard.c:5:8: error: '/etc/passwd' file not found
              | #embed "/etc/passwd""#]],
    );
    check_c(
        "NULL;\nstatic const unsigned char noise[] = {\n#embed \"/dev/urandom\" limit(8)\n}",
        expect![[r#"
            1 compile error:
            guard.c:5:8: error: device files are not yet supported by '#embed' directive
              | #embed "/dev/urandom" limit(8)"#]],
    );
    check_c(
        "NULL;\n}\n__asm__(\".incbin \\\"/etc/passwd\\\"\");\nvoid f(void) {",
        expect![[r#"
            1 compile error:
            <inline asm>:1:9: error: Could not find incbin file '/etc/passwd'"#]],
    );
    check_zig(
        "@embedFile(\"/etc/passwd\")",
        expect![[r#"
        1 compile error:
        guard.zig:4:23: error: embed of file outside package path: '/etc/passwd'
          | return @embedFile("/etc/passwd");"#]],
    );
    check_zig(
        "@embedFile(\"../zig/LICENSE\")",
        expect![[r#"
        1 compile error:
        guard.zig:4:23: error: embed of file outside package path: '../zig/LICENSE'
          | return @embedFile("../zig/LICENSE");"#]],
    );
    check_zig(
        "@embedFile(\"/proc/self/environ\")",
        expect![[r#"
        1 compile error:
        guard.zig:4:23: error: embed of file outside package path: '/proc/self/environ'
          | return @embedFile("/proc/self/environ");"#]],
    );
    check(
        "guard.zig",
        &format!("const other = @import(\"/out/x.zig\");\n{}", ZIG.replace("HERE", "other.x")),
        expect![[r#"
            1 compile error:
            guard.zig:1:23: error: import of file outside module path
              | const other = @import("/out/x.zig");"#]],
    );
}

#[test]
fn what_never_ends_is_stopped() {
    let impatient = ForgeConfig { timeout: std::time::Duration::from_secs(8), ..ForgeConfig::new(cache()) };
    let forge = Forge::new(impatient).unwrap();
    let endless = [
        ("guard.c", C.replace("HERE", "NULL;\n#include \"plugin.c\"\n")),
        ("guard.c", C.replace("HERE", "NULL;\n#define A(...) __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__\n#define B(...) A(A(A(A(A(A(__VA_ARGS__))))))\nstatic int a[] = { B(B(B(1,))) }")),
        ("guard.cpp", CPP.replace("HERE", "std::nullopt;\n}\ntemplate <int N> struct A { static constexpr int v = A<N + 1>::v; };\nint x = A<0>::v;\nint f() { return 1")),
        ("guard.cpp", CPP.replace("HERE", "std::nullopt;\n}\nconsteval int g() { for (;;) {} return 1; }\nint x = g();\nint f() { return 1")),
        ("guard.c", C.replace("HERE", &format!("{}NULL{}", "(".repeat(200_000), ")".repeat(200_000)))),
        ("guard.zig", ZIG.replace("HERE", "comptime blk: { @setEvalBranchQuota(4_000_000_000); while (true) {} break :blk null; }")),
        ("guard.zig", ZIG.replace("HERE", "comptime blk: { while (true) {} break :blk null; }")),
        ("guard.zig", ZIG.replace("HERE", &format!("{}null{}", "(".repeat(200_000), ")".repeat(200_000)))),
    ];
    for (file, text) in endless {
        let error = forge.build(&source(file, &text)).expect_err(file);
        println!("{}\n", error.to_string().chars().take(300).collect::<String>());
        assert!(
            matches!(
                error,
                ForgeError::Rejected { .. }
                    | ForgeError::TimedOut { .. }
                    | ForgeError::OutOfMemory { .. }
                    | ForgeError::Compiler { .. }
            ),
            "{error}"
        );
    }
}

#[test]
fn what_is_not_in_the_contract_is_refused() {
    check_c(
        "NULL;\n}\n__attribute__((import_module(\"env\"), import_name(\"steal\"))) void steal(void);\nvoid f(void);\n__attribute__((constructor)) void f(void) { steal()",
        expect![[r#"
            the plugin imports `steal` of `env`, which is not part of the contract
            help: import only tandem:harness capabilities; of WASI only cli, io, clocks and random are linked"#]],
    );
    check_c(
        "NULL;\n}\nint start_a_process(void);\n__attribute__((constructor)) void f(void) { start_a_process()",
        expect![[r#"
            1 compile error:
            guard.c:5:1: error: `start_a_process` is used and not defined
              | int start_a_process(void);
              help: define it; the C library is that of WASI: no network, no processes, no threads"#]],
    );
}

/// What the fault of a call says.
async fn fault(file: &str, text: &str) -> String {
    let built = built(&source(file, text));
    let admitted = match admit(
        &ENGINE,
        &built.component,
        &Grants::parse(&built.grants).unwrap(),
        &AdmissionOptions::default(),
    )
    .await
    {
        Ok(admitted) => admitted,
        Err(error) => return error.to_string(),
    };
    let mut instance = Instance::new(&admitted, config());
    let call = tandem_host::policy::ToolCall {
        id: "1".into(),
        name: "bash".into(),
        arguments: json!({ "command": "fail now" }),
    };
    let answer: Result<_, PluginFault> = instance.on_tool_call(&context(), &call).await;
    answer.expect_err("it fails").to_string()
}

#[tokio::test]
async fn a_failure_says_why() {
    let c = |body: &str| {
        format!(
            "#include \"tandem.h\"\n#include <assert.h>\n#include <stdlib.h>\n\
             const tandem_tool_call_effect *tandem_on_tool_call(const tandem_context *c, const tandem_tool_call *call) {{\n\
             tandem_text command;\nif (!tandem_command(call, &command) || !tandem_equals(command, \"fail now\")) return NULL;\n\
             {body}\nreturn NULL;\n}}\nTANDEM_EXPORT(on_tool_call);\n"
        )
    };
    let cpp = |body: &str| {
        format!(
            "#include \"tandem.hpp\"\n#include <vector>\n\
             std::optional<tandem::ToolCallEffect> on_tool_call(const tandem::Context &, const tandem::ToolCall &call) {{\n\
             if (call.command() != \"fail now\") return std::nullopt;\n\
             {body}\nreturn std::nullopt;\n}}\nTANDEM_EXPORT(on_tool_call);\n"
        )
    };
    let zig = |body: &str| {
        format!(
            "const std = @import(\"std\");\nconst tandem = @import(\"tandem\");\n\
             pub fn onToolCall(_: tandem.Context, call: tandem.ToolCall) !?tandem.ToolCallEffect {{\n\
             if (!tandem.equals(call.command() orelse \"\", \"fail now\")) return null;\n\
             {body}\nreturn null;\n}}\n"
        )
    };
    for (file, text, expected) in [
        (
            "a.c",
            c("tandem_fail(\"no %d\", 7);"),
            expect!["trapped: wasm `unreachable` instruction executed; it wrote: no 7"],
        ),
        (
            "a.c",
            c("assert(command.size == 3);"),
            expect![
                "trapped: wasm `unreachable` instruction executed; it wrote: plugin.c:7: tandem_on_tool_call: `command.size == 3` does not hold"
            ],
        ),
        (
            "a.c",
            c("abort();"),
            expect!["trapped: wasm `unreachable` instruction executed; it wrote: the plugin called abort()"],
        ),
        (
            "a.c",
            c("for (;;) tandem_alloc(1 << 20);"),
            expect!["asked for too much memory: 68354048 bytes, limit 67108864 bytes"],
        ),
        (
            "a.cpp",
            cpp("std::vector<int> v; v.at(call.name.size());"),
            expect![[
                r#"trapped: wasm `unreachable` instruction executed; it wrote: out_of_range was thrown in -fno-exceptions mode with message "vector""#
            ]],
        ),
        (
            "a.cpp",
            cpp("std::vector<int> v; if (v[call.name.size()] == 1) tandem::fail(\"x\");"),
            expect![
                "trapped: wasm `unreachable` instruction executed; it wrote: /zig/lib/libcxx/include/__vector/vector.h:412: libc++ Hardening assertion __n < size() failed: vector[] index out of bounds"
            ],
        ),
        (
            "a.cpp",
            cpp("for (;;) { static int *volatile kept; kept = new int[1 << 22]; }"),
            expect!["asked for too much memory: 68354048 bytes, limit 67108864 bytes"],
        ),
        (
            "a.zig",
            zig(
                "var list = [_]u8{1}; var at: usize = call.name.len; _ = .{ &at, &list }; if (list[at] == 1) return null;",
            ),
            expect![
                "trapped: wasm `unreachable` instruction executed; it wrote: index out of bounds: index 4, len 1"
            ],
        ),
        (
            "a.zig",
            zig("if (call.id.len > 0) return error.NoLuck;"),
            expect![
                "trapped: wasm `unreachable` instruction executed; it wrote: onToolCall returned error.NoLuck"
            ],
        ),
        (
            "a.zig",
            zig("while (call.id.len > 0) _ = try tandem.allocator.alloc(u8, 1 << 20);"),
            expect!["asked for too much memory: 133431296 bytes, limit 67108864 bytes"],
        ),
    ] {
        expected.assert_eq(&fault(file, &text).await);
    }
}

#[test]
fn a_missing_toolchain_is_named_with_the_command_that_installs_it() {
    let nowhere = ForgeConfig { tools_dir: "/nowhere".into(), ..ForgeConfig::new(cache()) };
    let error = Forge::new(nowhere).unwrap().build(&source("a.c", "")).unwrap_err();
    expect![[r#"
        the compiler of c (Zig 0.17.1, with its clang) is not in `/nowhere/zig/ziglang`
        help: tandem plugin tools c"#]]
    .assert_eq(&error.to_string());
}
