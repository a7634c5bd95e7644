//! Go plugins: what comes out of the forge, what an author reads when nothing does, what hostile
//! source gets, and how the language's own runtime behaves in a plugin.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tandem_host::forge::{Built, Forge, ForgeConfig, ForgeError, Language, Source};
use tandem_host::plugin::{
    AdmissionOptions, Admitted, CallError, Engine, Grants, HookPoint, Instance, InstanceConfig, NoWorkspace,
    PluginLimits, admit, call_json,
};

/// What was compiled of Go itself is kept between test runs, as in use.
fn config() -> ForgeConfig {
    ForgeConfig::new(Path::new(env!("CARGO_TARGET_TMPDIR")).join("forge"))
}

fn forge() -> &'static Forge {
    static FORGE: LazyLock<Forge> = LazyLock::new(|| {
        let forge = Forge::new(config()).unwrap_or_else(|error| panic!("{error}"));
        if forge.tools(Language::Go).is_err() {
            forge.install(Language::Go).unwrap_or_else(|error| panic!("{error}"));
        }
        forge
    });
    &FORGE
}

const GOOD: &str = r#"package plugin

import (
	"fmt"

	"tandem"
)

func OnModelCall(ctx tandem.Context) tandem.NoteOrStop {
	if ctx.Turn != 3 {
		return nil
	}
	return tandem.Note(fmt.Sprintf("turn %d", ctx.Turn))
}
"#;

fn build(text: &str) -> Result<Built, ForgeError> {
    forge().build(&Source::File { name: "guard.go".into(), text: text.into() })
}

fn built(text: &str) -> Built {
    build(text).unwrap_or_else(|error| panic!("{error}"))
}

/// What an author sees of a build.
fn check(text: &str, expected: Expect) {
    match build(text) {
        Ok(built) => expected.assert_eq(&format!("exports {:?}, grants {:?}", built.exports, built.grants)),
        Err(error) => expected.assert_eq(&error.to_string()),
    }
}

#[test]
fn a_plugin_exports_what_it_defines_and_imports_what_it_uses() {
    check(GOOD, expect![[r#"exports ["on-model-call"], grants []"#]]);
    let text = r#"package main

import (
	"tandem"
	"tandem/log"
	"tandem/workspace"
)

func main() {}

func OnLimit(ctx tandem.Context, limit tandem.Limit, workTree tandem.PatchCandidate) bool {
	log.Info("x")
	_, err := workspace.Diff()
	return err == nil
}

func Observe(ctx tandem.Context, name, payload string) {}
"#;
    check(text, expect![[r#"exports ["observe", "on-limit"], grants ["log", "workspace-read"]"#]]);
    check(
        &std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/plugins/go/plugin.go"))
            .unwrap(),
        expect![[r#"exports ["on-tool-call", "on-tool-result", "tools"], grants ["workspace-read"]"#]],
    );
}

#[test]
fn the_same_source_gives_the_same_bytes() {
    let first = built(GOOD);
    let names: Vec<_> = first.provenance.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["go", "go packages", "tandem for Go"]);
    assert!(first.provenance.tools[0].version.starts_with("go1."), "{}", first.provenance.tools[0].version);

    // The same compiled packages, without the components that were kept.
    let fresh = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(config().cache_dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_owned();
        if name.to_string_lossy().starts_with("go-") {
            std::os::unix::fs::symlink(&path, fresh.path().join(name)).unwrap();
        }
    }
    let other = Forge::new(ForgeConfig::new(fresh.path())).unwrap_or_else(|error| panic!("{error}"));
    let source = Source::File { name: "other.go".into(), text: GOOD.into() };
    let anew = other.build(&source).unwrap_or_else(|error| panic!("{error}"));
    assert!(!anew.reused && anew.component == first.component);
}

#[test]
fn an_error_is_shown_with_its_place() {
    check(
        &GOOD.replace("ctx.Turn != 3", "ctx.Turns != \"3\""),
        expect![[r#"
        1 compile error:
        guard.go:10:9: error: ctx.Turns undefined (type tandem.Context has no field or method Turns)
          | if ctx.Turns != "3" {"#]],
    );
    check(
        &GOOD.replace("\t\treturn nil\n", "\t\tx := 1\n\t\treturn nul\n"),
        expect![[r#"
        2 compile errors:
        guard.go:11:3: error: declared and not used: x
          | x := 1
          help: use it, or assign to `_`
        guard.go:12:10: error: undefined: nul
          | return nul"#]],
    );
    check(
        &GOOD.replace("func OnModelCall", "func OnModelCall("),
        expect![[r#"
        1 compile error:
        guard.go:9:23: error: syntax error: unexpected name tandem, expected )
          | func OnModelCall((ctx tandem.Context) tandem.NoteOrStop {"#]],
    );
    check(
        "",
        expect![[r#"
        1 compile error:
        guard.go:1:1: error: syntax error: package statement must be first"#]],
    );
}

#[test]
fn a_function_that_is_no_point_or_has_another_type_is_named() {
    check(
        &GOOD.replace("tandem.NoteOrStop {", "tandem.RewriteOrRefuse {"),
        expect![[r#"
        1 compile error:
        guard.go:13:9: error: cannot use tandem.Note(fmt.Sprintf("turn %d", ctx.Turn)) (value of string type tandem.Note) as tandem.RewriteOrRefuse value in return statement: tandem.Note does not implement tandem.RewriteOrRefuse (missing method rewriteOrRefuse)
          | return tandem.Note(fmt.Sprintf("turn %d", ctx.Turn))"#]],
    );
    check(
        &GOOD.replace("(ctx tandem.Context) tandem.NoteOrStop", "(ctx *tandem.Context) tandem.NoteOrStop"),
        expect![[r#"
            1 compile error:
            guard.go:9:1: error: `OnModelCall` has the type `func(ctx *tandem.Context) tandem.NoteOrStop`, not that of its point
              | func OnModelCall(ctx *tandem.Context) tandem.NoteOrStop {
              help: write `func OnModelCall(ctx tandem.Context) tandem.NoteOrStop`"#]],
    );
    check(
        &GOOD.replace("OnModelCall", "OnModelcall"),
        expect![[r#"
        1 compile error:
        guard.go:9:1: error: there is no point `OnModelcall`
          | func OnModelcall(ctx tandem.Context) tandem.NoteOrStop {
          help: the points are Tools, SettingsSchema, OnEpisodeStart, OnModelCall, OnFormatError, OnToolCall, OnToolResult, OnLoop, OnSubmit, OnChoosePatch, OnLimit, Observe"#]],
    );
    check(
        &GOOD.replace("OnModelCall", "onModelCall"),
        expect![[r#"
        the plugin exports no hook point and no tools
        help: define a function such as `func OnModelCall(ctx tandem.Context) tandem.NoteOrStop`"#]],
    );
}

#[test]
fn what_a_plugin_does_not_have_is_named() {
    check(
        "package plugin\n\nimport \"net/http\"\n\nvar _ = http.Get\n",
        expect![[r#"
        1 compile error:
        guard.go:3:8: error: a plugin cannot import `net/http`
          | import "net/http"
          help: a plugin has no network"#]],
    );
    check(
        "package plugin\n\nimport \"os/exec\"\n\nvar _ = exec.Command\n",
        expect![[r#"
        1 compile error:
        guard.go:3:8: error: a plugin cannot import `os/exec`
          | import "os/exec"
          help: use `tandem/exec`"#]],
    );
    check(
        "package plugin\n\nimport \"github.com/pkg/errors\"\n\nvar _ = errors.New\n",
        expect![[r#"
        1 compile error:
        guard.go:3:8: error: a plugin cannot import `github.com/pkg/errors`
          | import "github.com/pkg/errors"
          help: there are the packages of `tandem/` and of the standard library: bufio bytes cmp compress/flate compress/gzip compress/zlib container/heap container/list container/ring context crypto/hmac crypto/md5 crypto/sha1 crypto/sha256 crypto/sha512 encoding/base32 encoding/base64 encoding/binary encoding/csv encoding/hex encoding/json encoding/xml errors fmt go/ast go/format go/parser go/token hash/adler32 hash/crc32 hash/crc64 hash/fnv hash/maphash html io io/fs iter log maps math math/big math/bits math/cmplx math/rand math/rand/v2 net/url os path path/filepath reflect regexp regexp/syntax runtime runtime/debug slices sort strconv strings sync sync/atomic text/scanner text/tabwriter text/template time unicode unicode/utf16 unicode/utf8 unique unsafe"#]],
    );
}

#[test]
fn hostile_source_gets_nothing_of_this_machine() {
    // C, and what it would tell the linker.
    check(
        "package plugin\n\n// #cgo LDFLAGS: -L/etc\n// #include \"/etc/passwd\"\nimport \"C\"\n",
        expect![[r#"
            1 compile error:
            guard.go:5:8: error: a plugin cannot import `C`
              | import "C"
              help: a plugin has no C; write it in Go, or write the plugin in C"#]],
    );
    check(
        "package plugin\n\n//go:cgo_ldflag \"/etc/passwd\"\nfunc f() {}\n",
        expect![[r#"
        1 compile error:
        guard.go:3:3: error: //go:cgo_ldflag "/etc/passwd" only allowed in cgo-generated code
          | //go:cgo_ldflag "/etc/passwd""#]],
    );
    // A file of the machine in the component, or in a message.
    check(
        "package plugin\n\nimport _ \"embed\"\n\n//go:embed /etc/passwd\nvar text string\n",
        expect![[r#"
        1 compile error:
        guard.go:3:10: error: a plugin cannot import `embed`
          | import _ "embed"
          help: there are the packages of `tandem/` and of the standard library: bufio bytes cmp compress/flate compress/gzip compress/zlib container/heap container/list container/ring context crypto/hmac crypto/md5 crypto/sha1 crypto/sha256 crypto/sha512 encoding/base32 encoding/base64 encoding/binary encoding/csv encoding/hex encoding/json encoding/xml errors fmt go/ast go/format go/parser go/token hash/adler32 hash/crc32 hash/crc64 hash/fnv hash/maphash html io io/fs iter log maps math math/big math/bits math/cmplx math/rand math/rand/v2 net/url os path path/filepath reflect regexp regexp/syntax runtime runtime/debug slices sort strconv strings sync sync/atomic text/scanner text/tabwriter text/template time unicode unicode/utf16 unicode/utf8 unique unsafe"#]],
    );
    check(
        "package plugin\n\n//line /etc/passwd:1\nfunc f() int { return \"a\" }\n",
        expect![[r#"
        1 compile error:
        /etc/passwd:1:0: error: cannot use "a" (untyped string constant) as int value in return statement"#]],
    );
    check(
        "package plugin\n\nimport \"../../etc\"\n",
        expect![[r#"
        1 compile error:
        guard.go:3:8: error: a plugin cannot import `../../etc`
          | import "../../etc"
          help: there are the packages of `tandem/` and of the standard library: bufio bytes cmp compress/flate compress/gzip compress/zlib container/heap container/list container/ring context crypto/hmac crypto/md5 crypto/sha1 crypto/sha256 crypto/sha512 encoding/base32 encoding/base64 encoding/binary encoding/csv encoding/hex encoding/json encoding/xml errors fmt go/ast go/format go/parser go/token hash/adler32 hash/crc32 hash/crc64 hash/fnv hash/maphash html io io/fs iter log maps math math/big math/bits math/cmplx math/rand math/rand/v2 net/url os path path/filepath reflect regexp regexp/syntax runtime runtime/debug slices sort strconv strings sync sync/atomic text/scanner text/tabwriter text/template time unicode unicode/utf16 unicode/utf8 unique unsafe"#]],
    );
    // Functions of the runtime, and imports that the host does not have.
    check(
        &format!("{GOOD}\n//go:linkname grow runtime.sbrk\nfunc grow(n uintptr) uintptr\n")
            .replace("\"fmt\"", "\"fmt\"\n\t_ \"unsafe\"")
            .replace("return nil", "grow(0)\n\t\treturn nil"),
        expect![[r#"
            1 compile error:
            error: plugin: invalid reference to runtime.sbrk"#]],
    );
    check(
        &format!(
            "{GOOD}\n//go:wasmimport wasi:filesystem/preopens@0.2.0 get-directories\nfunc all(at uint32)\n"
        )
        .replace("return nil", "all(0)\n\t\treturn nil"),
        expect![[r#"
            the plugin imports `get-directories` of `wasi:filesystem/preopens@0.2.0`, which is not part of the contract
            help: import only tandem:harness capabilities; of WASI only cli, io, clocks and random are linked; use `workspace::read` and `workspace::write` instead of `std::fs`"#]],
    );
    check(
        &format!("{GOOD}\n//go:wasmexport tandem:harness/steal@0.1.0#all\nfunc steal() {{}}\n"),
        expect![[r#"
            the plugin exports `tandem:harness/steal@0.1.0#all`, which is not part of the contract
            help: export interfaces of tandem:harness/…@0.1.0: observe, on-choose-patch, on-episode-start, on-format-error, on-limit, on-loop, on-model-call, on-submit, on-tool-call, on-tool-result, settings-schema, tools"#]],
    );
    check(
        &format!("{GOOD}\n//go:wasmexport cabi_realloc\nfunc steal() {{}}\n"),
        expect![[r#"
        1 compile error:
        error: duplicated definition of symbol cabi_realloc, from plugin (type STEXT size 1) and tandem/internal/abi (type STEXT size 2)"#]],
    );
}

#[test]
fn a_source_that_is_too_much_for_the_compiler_is_refused() {
    // Which limit is met first depends on the machine.
    let (deep, long) = (2_000_000, 5 << 20);
    let error = build(&format!("package plugin\nvar x = {}1{}\n", "(".repeat(deep), ")".repeat(deep)));
    let error = error.expect_err("a component came out");
    assert!(
        matches!(
            error,
            ForgeError::Compiler { .. } | ForgeError::OutOfMemory { .. } | ForgeError::TimedOut { .. }
        ),
        "{error}"
    );
    check(
        "package plugin\nvar a [1 << 40]byte\nvar b = [1 << 33]byte{}\n",
        expect![[r#"
        2 compile errors:
        guard.go:2:5: error: plugin.a: symbol too large (1099511627776 bytes > 2000000000 bytes)
          | var a [1 << 40]byte
        guard.go:2:5: error: plugin.b: symbol too large (8589934592 bytes > 2000000000 bytes)
          | var a [1 << 40]byte"#]],
    );
    check(
        "package plugin\nconst c = 1 << 100000\n",
        expect![[r#"
        1 compile error:
        guard.go:2:16: error: invalid operation: invalid shift count 100000 (untyped int constant)
          | const c = 1 << 100000"#]],
    );
    check(
        "package plugin\ntype T[A any] struct{ a *T[T[A]] }\nvar x T[int]\n",
        expect![[r#"
        1 compile error:
        guard.go:2:8: error: instantiation cycle: plugin.go:2:28: A instantiated as T[A]
          | type T[A any] struct{ a *T[T[A]] }"#]],
    );
    check(
        &format!("package plugin\nvar x = `{}`\n", "a".repeat(long)),
        expect![[r#"
        the source has 5242906 bytes; the limit is 4194304
        help: leave out embedded data"#]],
    );
}

/// A plugin with one behaviour a command.
const BEHAVIOURS: &str = r#"package plugin

import (
	"errors"
	"fmt"
	"time"

	"tandem"
	"tandem/json"
)

var kept [][]byte

func OnToolCall(ctx tandem.Context, call tandem.ToolCall) tandem.RewriteOrRefuse {
	command, _ := call.Command()
	switch command {
	case "index":
		return tandem.Refuse(call.Name[len(command):])
	case "error":
		panic(errors.New("a reason"))
	case "goroutine":
		done := make(chan bool)
		go func() { panic("beside the call") }()
		<-done
	case "deadlock":
		<-make(chan bool)
	case "recursion":
		return tandem.Refuse(fmt.Sprint(recurse(1)))
	case "sleep":
		before := time.Now()
		done := make(chan string)
		go func() { time.Sleep(3 * time.Second); done <- "slept" }()
		word := <-done
		return tandem.Refuse(fmt.Sprint(word, " ", time.Since(before).Round(time.Second), " ", before.UTC().Format(time.DateTime)))
	}
	return nil
}

func recurse(n int) int { return recurse(n+1) + 1 }

func Tools() []tandem.Tool {
	return []tandem.Tool{
		{Name: "grow", Description: "Grows.", InputSchema: `{"type":"object"}`, Call: grow},
		{Name: "json", Description: "Reads and writes JSON.", InputSchema: `{"type":"object"}`, Call: parse},
		{Name: "show", Description: "Shows a picture.", InputSchema: `{"type":"object"}`, Call: show},
	}
}

func parse(ctx tandem.Context, arguments string) tandem.ToolOutput {
	given, _ := json.ParseObject(arguments)
	text, _ := given.Text("text")
	value, err := json.Parse(text)
	if err != nil {
		return tandem.Fail(err.Error())
	}
	return tandem.Say(json.Write(value))
}

func show(ctx tandem.Context, arguments string) tandem.ToolOutput {
	picture := tandem.Image{MediaType: "image/png", Data: []byte{1, 2, 3}}
	structured := json.Object{"size": 3, "names": []string{"a", "\"b\""}}.String()
	return tandem.ToolOutput{Content: []tandem.Content{tandem.Text("here"), picture}, Structured: structured}
}

// grow keeps 64 KiB blocks, looks at the clock and writes in between, and counts damaged bytes.
func grow(ctx tandem.Context, arguments string) tandem.ToolOutput {
	given, _ := json.ParseObject(arguments)
	count, _ := given.Whole("blocks")
	for i := range count {
		block := make([]byte, 64<<10)
		for j := 0; j < len(block); j += 64 {
			block[j] = byte(i)
		}
		kept = append(kept, block)
		if i%100 == 0 {
			time.Now()
			print("block ", i, "\n")
		}
	}
	damaged := 0
	for i, block := range kept {
		for j := 0; j < len(block); j += 64 {
			if block[j] != byte(i) {
				damaged++
			}
		}
	}
	return tandem.Say(fmt.Sprint(len(kept), " blocks, ", damaged, " damaged"))
}
"#;

/// The plugin under a limit of memory.
async fn behaviours(memory_bytes: usize) -> Arc<Admitted> {
    static BUILT: LazyLock<Built> = LazyLock::new(|| built(BEHAVIOURS));
    let engine = Engine::new(PluginLimits { memory_bytes, ..PluginLimits::default() }).unwrap();
    let options = AdmissionOptions::default();
    admit(&engine, &BUILT.component, &Grants::none(), &options)
        .await
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The same under the default limit, compiled once.
async fn usual() -> &'static Admitted {
    static USUAL: tokio::sync::OnceCell<Arc<Admitted>> = tokio::sync::OnceCell::const_new();
    USUAL.get_or_init(|| behaviours(64 << 20)).await
}

fn instance(admitted: &Admitted) -> Instance {
    Instance::new(
        admitted,
        InstanceConfig { settings: "{}".into(), seed: 7, workspace: Arc::new(NoWorkspace) },
    )
}

async fn answer(admitted: &Admitted, point: HookPoint, input: Value) -> String {
    match call_json(&mut instance(admitted), point, &input).await {
        Ok(output) => output.to_string(),
        Err(CallError::Fault(fault)) => format!("it {fault}"),
        Err(error) => panic!("{error}"),
    }
}

/// What a command gets for an answer.
async fn command(command: &str) -> String {
    let input = json!({"call": {"name": "bash", "arguments": {"command": command}}});
    answer(usual().await, HookPoint::OnToolCall, input).await
}

#[tokio::test]
async fn a_panic_is_a_fault_with_its_message_and_place() {
    expect![[r#"
        it trapped: wasm `unreachable` instruction executed; it wrote: panic: runtime error: slice bounds out of range [5:4]
          at plugin.OnToolCall, plugin.go:18"#]].assert_eq(&command("index").await);
    expect![[r#"
        it trapped: wasm `unreachable` instruction executed; it wrote: panic: a reason
          at plugin.OnToolCall, plugin.go:20"#]]
    .assert_eq(&command("error").await);
    expect!["it trapped: call stack exhausted"].assert_eq(&command("recursion").await);
    // What the runtime itself ends also shows goroutines, in words of the version.
    for (word, expected) in [
        ("goroutine", "it wrote: panic: beside the call"),
        ("deadlock", "it wrote: fatal error: all goroutines are asleep - deadlock!"),
    ] {
        let shown = command(word).await;
        assert!(shown.contains(expected), "{shown}");
    }
}

#[tokio::test]
async fn goroutines_sleep_in_virtual_time() {
    expect![[r#"{"refuse":"slept 3s 2026-01-01 00:00:00"}"#]].assert_eq(&command("sleep").await);
}

#[tokio::test]
async fn json_is_read_and_written_as_the_other_languages_do() {
    let deep = "[".repeat(100);
    for (text, expected) in [
        (" { \"b\" : [1, -2.5e1, true, null], \"a\":{} } ", r#"{"a":{},"b":[1,-25,true,null]}"#),
        (r#""a\n\"\\\u00e9\ud83d\ude00""#, r#""a\n\"\\é😀""#),
        ("1e21", "1000000000000000000000"),
        ("", "not JSON at byte 0: expected a value"),
        ("{\"a\":1", "not JSON at byte 6: expected `,` or `}`"),
        ("{a:1}", "not JSON at byte 1: expected a text in quotation marks"),
        ("[1 2]", "not JSON at byte 3: expected `,` or `]`"),
        ("\"abc", "not JSON at byte 4: a text without its closing quotation mark"),
        ("1 1", "not JSON at byte 2: text after the value"),
        ("01", "not JSON at byte 0: not a number"),
        ("\"\\ud800\\u12\"", "not JSON at byte 9: `\\u` needs 4 digits"),
        (deep.as_str(), "not JSON at byte 65: nested too deep"),
    ] {
        let input = json!({"name": "json", "arguments": {"text": text}});
        let shown: Value =
            serde_json::from_str(&answer(usual().await, HookPoint::Tools, input).await).unwrap();
        assert_eq!(shown["content"][0]["text"], *expected, "{text}");
    }
}

#[tokio::test]
async fn every_kind_of_content_reaches_the_host() {
    let shown = answer(usual().await, HookPoint::Tools, json!({"name": "show", "arguments": {}})).await;
    expect![[r#"{"content":[{"text":"here"},{"image":{"data":"3 bytes, sha256:039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81","media_type":"image/png"}}],"is_error":false,"structured":{"names":["a","\"b\""],"size":3}}"#]].assert_eq(&shown);
    let unknown = answer(usual().await, HookPoint::Tools, json!({"name": "other", "arguments": {}})).await;
    expect![[r#"{"content":[{"text":"there is no tool other"}],"is_error":true,"structured":null}"#]]
        .assert_eq(&unknown);
}

/// An adapter that grew the memory would lie in what Go takes for its own.
#[tokio::test]
async fn a_heap_that_grows_to_the_limit_is_not_damaged() {
    let admitted = behaviours(256 << 20).await;
    let whole =
        answer(&admitted, HookPoint::Tools, json!({"name": "grow", "arguments": {"blocks": 3000}})).await;
    assert!(whole.contains("3000 blocks, 0 damaged"), "{whole}");
    let endless =
        answer(&admitted, HookPoint::Tools, json!({"name": "grow", "arguments": {"blocks": 9000}})).await;
    assert!(endless.contains("asked for too much memory"), "{endless}");
}

/// Arguments are written through `cabi_realloc`, where the collector runs too.
#[tokio::test]
async fn thousands_of_calls_leave_nothing_behind() {
    let mut instance = instance(usual().await);
    let long = "x".repeat(64 << 10);
    let input = json!({"call": {"name": "bash", "arguments": {"command": long}}});
    for call in 0..3_000 {
        let answer = call_json(&mut instance, HookPoint::OnToolCall, &input).await;
        assert!(matches!(answer, Ok(Value::Null)), "call {call}: {}", answer.unwrap_err());
    }
}
