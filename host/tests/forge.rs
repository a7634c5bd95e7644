//! The forge on real source: what comes out, and what an author reads when nothing does.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use expect_test::{Expect, expect};
use tandem_host::forge::{Built, Forge, ForgeConfig, ForgeError, Source, componentize};

/// The compiled SDK is kept between test runs, as in use.
fn config() -> ForgeConfig {
    ForgeConfig::new(Path::new(env!("CARGO_TARGET_TMPDIR")).join("forge"))
}

fn forge() -> &'static Forge {
    static FORGE: LazyLock<Forge> = LazyLock::new(|| Forge::new(config()).unwrap_or_else(|e| panic!("{e}")));
    &FORGE
}

const GOOD: &str = r#"
use tandem_plugin::*;

pub struct Plugin;

impl OnModelCall for Plugin {
    fn on_model_call(context: Context) -> Option<ModelCallEffect> {
        (context.turn == 3).then(|| ModelCallEffect::Note(format!("turn {}", context.turn)))
    }
}

export_on_model_call!(Plugin);
"#;

fn file(text: &str) -> Source {
    Source::File { name: "plugin.rs".into(), text: text.into() }
}

fn build(text: &str) -> Result<Built, ForgeError> {
    forge().build(&file(text))
}

fn built(text: &str) -> Built {
    build(text).unwrap_or_else(|error| panic!("{error}"))
}

const MANIFEST: &str = r#"[package]
name = "p"
version = "0.1.0"
edition = "2024"

[dependencies]
tandem-plugin = { path = "../sdk" }
"#;

/// A crate in a folder of its own.
fn crate_of(files: &[(&str, &str)]) -> (tempfile::TempDir, Source) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let source = Source::Crate { dir: dir.path().to_owned() };
    (dir, source)
}

/// What an author sees of a build.
fn check(result: Result<Built, ForgeError>, expected: Expect) {
    match result {
        Ok(built) => expected.assert_eq(&format!("exports {:?}, grants {:?}", built.exports, built.grants)),
        Err(error) => expected.assert_eq(&error.to_string()),
    }
}

#[test]
fn one_file_becomes_a_component() {
    let built = built(GOOD);
    assert!(wasmparser::Parser::is_component(&built.component));
    let provenance = &built.provenance;
    let names: Vec<_> = provenance.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["rustc", "tandem-plugin"]);
    assert!(provenance.tools[0].version.starts_with("rustc 1."), "{}", provenance.tools[0].version);
    assert_eq!(provenance.component, tandem_host::store::Digest::of(&built.component));
    check(Ok(built), expect![[r#"exports ["on-model-call"], grants []"#]]);
}

#[test]
fn the_same_source_gives_the_same_bytes() {
    let (first, second) = (built(GOOD), built(GOOD));
    assert_eq!(first.provenance, second.provenance);
    assert!(first.component == second.component && second.reused);

    // Also as a crate, and with an SDK that was compiled anew.
    let (_dir, source) = crate_of(&[("Cargo.toml", MANIFEST), ("src/lib.rs", GOOD)]);
    let as_crate = forge().build(&source).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(first.provenance.source, as_crate.provenance.source);
    assert!(first.component == as_crate.component);

    let fresh = tempfile::tempdir().unwrap();
    let other = Forge::new(ForgeConfig::new(fresh.path())).unwrap_or_else(|error| panic!("{error}"));
    let anew = other.build(&file(GOOD)).unwrap_or_else(|error| panic!("{error}"));
    assert!(!anew.reused && anew.provenance == first.provenance && anew.component == first.component);
}

#[test]
fn a_capability_that_is_used_is_a_grant_that_is_needed() {
    let uses = "{ log::info(\"x\"); workspace::diff().is_ok() && clock::now_ms() > 3 }";
    check(
        build(&GOOD.replace("context.turn == 3", uses)),
        expect![[r#"exports ["on-model-call"], grants ["clock", "log", "workspace-read"]"#]],
    );
}

#[test]
fn a_type_error_is_shown_with_its_place() {
    check(
        build(&GOOD.replace("context.turn == 3", "context.turn == \"3\"")),
        expect![[r#"
        1 compile error:
        plugin.rs:8:26: error[E0308]: mismatched types (expected `u32`, found `&str`)
          | (context.turn == "3").then(|| ModelCallEffect::Note(format!("turn {}", context.turn)))"#]],
    );
    check(
        build(&GOOD.replace("ModelCallEffect::Note", "ModelCallEffect::Remark")),
        expect![[r#"
            1 compile error:
            plugin.rs:8:54: error[E0599]: no variant or associated item named `Remark` found for enum `tandem_plugin::ModelCallEffect` in the current scope
              | (context.turn == 3).then(|| ModelCallEffect::Remark(format!("turn {}", context.turn)))"#]],
    );
    check(
        build(&GOOD.replace("-> Option<ModelCallEffect> {", "-> Option<String> {")),
        expect![[r#"
        2 compile errors:
        plugin.rs:7:43: error[E0053]: method `on_model_call` has an incompatible type for trait (expected `tandem_plugin::ModelCallEffect`, found `std::string::String`)
          | fn on_model_call(context: Context) -> Option<String> {
          help: expected signature `fn(tandem_plugin::Context) -> Option<tandem_plugin::ModelCallEffect>` found signature `fn(tandem_plugin::Context) -> Option<std::string::String>`
          help: change the output type to match the trait: `Option<tandem_plugin::ModelCallEffect>`
        plugin.rs:8:9: error[E0308]: mismatched types (expected `Option<String>`, found `Option<ModelCallEffect>`)
          | (context.turn == 3).then(|| ModelCallEffect::Note(format!("turn {}", context.turn)))
          help: expected enum `Option<std::string::String>` found enum `Option<tandem_plugin::ModelCallEffect>`"#]],
    );
    check(
        build(&GOOD.replace("context.turn == 3", "context.turns == 3")),
        expect![[r#"
            1 compile error:
            plugin.rs:8:18: error[E0609]: no field `turns` on type `tandem_plugin::Context`
              | (context.turns == 3).then(|| ModelCallEffect::Note(format!("turn {}", context.turn)))
              help: one of the expressions' fields has a field of the same name: `budget.`"#]],
    );
}

#[test]
fn missing_names_and_broken_syntax_are_shown() {
    let text = GOOD.replace("use tandem_plugin::*;", "use tandem_plugin::Nothing; use serde::Serialize;");
    check(
        build(&text),
        expect![[r#"
            7 compile errors:
            plugin.rs:2:5: error[E0432]: unresolved import `tandem_plugin::Nothing` (no `Nothing` in the root)
              | use tandem_plugin::Nothing; use serde::Serialize;
            plugin.rs:2:33: error[E0432]: unresolved import `serde` (use of unresolved module or unlinked crate `serde`)
              | use tandem_plugin::Nothing; use serde::Serialize;
              help: you might be missing a crate named `serde`
            plugin.rs:6:6: error[E0405]: cannot find trait `OnModelCall` in this scope
              | impl OnModelCall for Plugin {
            plugin.rs:7:31: error[E0425]: cannot find type `Context` in this scope
              | fn on_model_call(context: Context) -> Option<ModelCallEffect> {
              help: consider importing this struct: `use std::task::Context;`
            plugin.rs:7:50: error[E0425]: cannot find type `ModelCallEffect` in this scope
              | fn on_model_call(context: Context) -> Option<ModelCallEffect> {
              help: you might be missing a type parameter: `<ModelCallEffect>`
            plugin.rs:8:37: error[E0433]: cannot find type `ModelCallEffect` in this scope (use of undeclared type `ModelCallEffect`)
              | (context.turn == 3).then(|| ModelCallEffect::Note(format!("turn {}", context.turn)))
            plugin.rs:12:1: error: cannot find macro `export_on_model_call` in this scope
              | export_on_model_call!(Plugin);"#]],
    );
    check(
        build("fn f( {"),
        expect![[r#"
        1 compile error:
        plugin.rs:1:8: error: this file contains an unclosed delimiter
          | fn f( {"#]],
    );
    check(
        build(&GOOD.replace("export_on_model_call!", "export_on_model_cal!")),
        expect![[r#"
        1 compile error:
        plugin.rs:12:1: error: cannot find macro `export_on_model_cal` in this scope
          | export_on_model_cal!(Plugin);
          help: a macro with a similar name exists: `export_on_model_call`"#]],
    );
    check(
        build(&GOOD.replace("(Plugin)", "(Other)")),
        expect![[r#"
            1 compile error:
            plugin.rs:12:23: error[E0425]: cannot find type `Other` in this scope
              | export_on_model_call!(Other);
              help: there is an enum variant `std::io::ErrorKind::Other`; try using the variant's enum"#]],
    );
    check(
        build(&GOOD.replace("export_on_model_call!", "export_on_submit!")),
        expect![[r#"
            1 compile error:
            plugin.rs:12:1: error[E0277]: the trait bound `Plugin: OnSubmit` is not satisfied
              | export_on_submit!(Plugin);
              help: the trait `OnSubmit` is not implemented for `Plugin`
              help: `Plugin` implements similarly named trait `tandem_plugin::OnModelCall`, but not `OnSubmit`"#]],
    );
}

#[test]
fn only_the_first_ten_errors_are_shown() {
    let many: String = (0..30).map(|i| format!("fn f{i}() -> u32 {{ \"x\" }}\n")).collect();
    let Err(error) = build(&format!("{GOOD}{many}")) else { panic!("it compiled") };
    let text = error.to_string();
    assert!(
        text.starts_with("30 compile errors:\nplugin.rs:13:18: error[E0308]: mismatched types"),
        "{text}"
    );
    assert!(text.ends_with("\n… and 20 more"), "{text}");
}

#[test]
fn a_plugin_without_exports_is_refused() {
    check(
        build("pub fn nothing() {}"),
        expect![[r#"
        the plugin exports no hook point and no tools
        help: implement a trait such as `OnModelCall` and name the type in `export_on_model_call!(Plugin);`"#]],
    );
}

#[test]
fn files_and_environment_of_the_host_are_out_of_reach() {
    check(
        build(&format!("{GOOD}const _: &str = include_str!(\"/etc/passwd\");")),
        expect![[r#"
        1 compile error:
        plugin.rs:13:17: error: couldn't read `/etc/passwd`: No such file or directory (os error 2)
          | const _: &str = include_str!("/etc/passwd");"#]],
    );
    check(
        build(&format!("{GOOD}#[path = \"/etc/passwd\"] mod secret;")),
        expect![[r#"
        1 compile error:
        plugin.rs:13:25: error: couldn't read `/etc/passwd`: No such file or directory (os error 2)
          | #[path = "/etc/passwd"] mod secret;"#]],
    );
    check(
        build(&format!("{GOOD}const _: &str = include_str!(\"/proc/self/environ\");")),
        expect![[r#"
        1 compile error:
        plugin.rs:13:17: error: couldn't read `/proc/self/environ`: No such file or directory (os error 2)
          | const _: &str = include_str!("/proc/self/environ");"#]],
    );
    let none = ["HOME", "USER", "CARGO_MANIFEST_DIR"]
        .map(|name| format!("const _: () = assert!(option_env!(\"{name}\").is_none());\n"));
    check(build(&format!("{GOOD}{}", none.concat())), expect![[r#"exports ["on-model-call"], grants []"#]]);
}

#[test]
fn endless_constant_evaluation_hits_the_time_limit() {
    let endless = "const fn f() -> u32 { loop {} }\npub static X: u32 = f();";
    let text = format!("#![allow(long_running_const_eval)]\n{GOOD}{endless}");
    let quick = Forge::new(ForgeConfig { timeout: Duration::from_millis(1_500), ..config() }).unwrap();
    let error = quick.build(&file(&text)).unwrap_err();
    let ForgeError::TimedOut { seconds, limit_s } = error else { panic!("{error}") };
    assert!(limit_s == 1.5 && (0.9..5.0).contains(&seconds), "{error}");
    check(
        Err(ForgeError::TimedOut { seconds: 1.52, limit_s }),
        expect![[r#"
        the build was stopped after 1.5 s; the limit is 1.5 s
        help: leave out endless loops outside of functions, endless constant evaluation, endless macros and very large types"#]],
    );
    // Without the attribute the compiler says so itself.
    check(
        build(&format!("{GOOD}{endless}")),
        expect![[r#"
            1 compile error:
            plugin.rs:13:23: error[long_running_const_eval]: constant evaluation is taking a long time
              | const fn f() -> u32 { loop {} }
              help: this lint makes sure the compiler doesn't get stuck due to infinite loops in const eval. If your compilation actually takes a long time, you can safely allow the lint"#]],
    );
}

#[test]
fn a_memory_bomb_hits_the_memory_limit() {
    let small = Forge::new(ForgeConfig { memory: 1 << 30, ..config() }).unwrap();
    let text = format!("{GOOD}pub static BIG: [u8; (1 << 31) - 1] = [1; (1 << 31) - 1];");
    check(
        small.build(&file(&text)),
        expect![[r#"
            1 compile error:
            plugin.rs:13:1: error[E0080]: tried to allocate more memory than available to compiler (evaluation of `BIG` failed here)
              | pub static BIG: [u8; (1 << 31) - 1] = [1; (1 << 31) - 1];
              help: the compiler may use 1024 MiB"#]],
    );

    let bomb = "macro_rules! bomb { ($($t:tt)*) => { bomb!($($t)* $($t)*); } }\nbomb!(x);";
    let error = small.build(&file(&format!("{GOOD}{bomb}"))).unwrap_err();
    let ForgeError::OutOfMemory { limit, .. } = error else { panic!("{error}") };
    check(
        Err(ForgeError::OutOfMemory { asked: Some(805_306_368), limit }),
        expect![[r#"
        the compiler asked for 768 MiB of memory; the limit is 1024 MiB
        help: leave out large statics, large macros and large constants"#]],
    );
}

#[test]
fn source_that_speaks_of_memory_is_not_taken_for_a_memory_bomb() {
    let text = GOOD.replace("context.turn == 3", "\"out of memory\"");
    check(
        build(&text),
        expect![[r#"
        1 compile error:
        plugin.rs:8:27: error[E0599]: no method named `then` found for reference `&'static str` in the current scope
          | ("out of memory").then(|| ModelCallEffect::Note(format!("turn {}", context.turn)))"#]],
    );
}

#[test]
fn an_endless_device_hits_a_limit() {
    let small = Forge::new(ForgeConfig { memory: 1 << 30, ..config() }).unwrap();
    let text = format!("{GOOD}pub static ENDLESS: &[u8] = include_bytes!(\"/dev/zero\");");
    let error = small.build(&file(&text)).unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
}

#[test]
fn imports_outside_the_contract_are_refused() {
    let smuggle = |module: &str, function: &str| {
        let call = GOOD.replace("context.turn == 3", "unsafe { smuggled() } == 3");
        build(&format!(
            "{call}#[link(wasm_import_module = \"{module}\")]\n\
             unsafe extern \"C\" {{ #[link_name = \"{function}\"] fn smuggled() -> i32; }}"
        ))
    };
    check(
        smuggle("wasi:filesystem/preopens@0.2.0", "get-directories"),
        expect![[r#"
        the plugin imports `get-directories` of `wasi:filesystem/preopens@0.2.0`, which is not part of the contract
        help: import only tandem:harness capabilities; of WASI only cli, io, clocks and random are linked; use `workspace::read` and `workspace::write` instead of `std::fs`"#]],
    );
    check(
        smuggle("wasi:sockets/network@0.2.0", "x"),
        expect![[r#"
        the plugin imports `x` of `wasi:sockets/network@0.2.0`, which is not part of the contract
        help: import only tandem:harness capabilities; of WASI only cli, io, clocks and random are linked; a plugin has no network"#]],
    );
    check(
        smuggle("wasi:cli/secrets@0.2.0", "x"),
        expect![[r#"
        the plugin imports `x` of `wasi:cli/secrets@0.2.0`, which is not part of the contract
        help: import only tandem:harness capabilities; of WASI only cli, io, clocks and random are linked"#]],
    );
    check(
        smuggle("wasi:cli/stderr@0.3.0", "get-stderr"),
        expect![[r#"
        the plugin imports `get-stderr` of `wasi:cli/stderr@0.3.0`, which is not part of the contract
        help: import only tandem:harness capabilities; of WASI only cli, io, clocks and random are linked"#]],
    );
    check(
        smuggle("tandem:harness/verifier@0.1.0", "reward"),
        expect![[r#"
        the plugin imports `reward` of `tandem:harness/verifier@0.1.0`, which is not part of the contract
        help: import only tandem:harness capabilities; of WASI only cli, io, clocks and random are linked"#]],
    );
    check(
        smuggle("tandem:harness/clock@0.2.0", "now-ms"),
        expect![[r#"
        the plugin imports `now-ms` of `tandem:harness/clock@0.2.0`, which is not part of the contract
        help: import only tandem:harness capabilities; of WASI only cli, io, clocks and random are linked"#]],
    );
    check(
        smuggle("env", "x"),
        expect![[r#"
        the plugin imports `x` of `env`, which is not part of the contract
        help: import only tandem:harness capabilities; of WASI only cli, io, clocks and random are linked"#]],
    );
    // In the contract, but with a type or a function that is not.
    check(
        smuggle("tandem:harness/clock@0.1.0", "now-ms"),
        expect![[r#"
            the core module does not fit the contract: failed to resolve import `tandem:harness/clock@0.1.0::now-ms`: failed to validate import interface `tandem:harness/clock@0.1.0`: type mismatch for function `now-ms`: expected `[] -> [I64]` but found `[] -> [I32]`
            help: export each interface with all of its functions, with the types of the contract; the SDK does that"#]],
    );
    check(
        smuggle("tandem:harness/clock@0.1.0", "now-year"),
        expect![[r#"
            the core module does not fit the contract: failed to resolve import `tandem:harness/clock@0.1.0::now-year`: import interface `tandem:harness/clock@0.1.0` is missing function `now-year` that is required by the module
            help: export each interface with all of its functions, with the types of the contract; the SDK does that"#]],
    );
    check(
        build(&GOOD.replace("context.turn == 3", "std::fs::read(\"x\").is_ok()")),
        expect![[r#"
        the plugin imports `[resource-drop]descriptor` of `wasi:filesystem/types@0.2.0`, which is not part of the contract
        help: import only tandem:harness capabilities; of WASI only cli, io, clocks and random are linked; use `workspace::read` and `workspace::write` instead of `std::fs`"#]],
    );
}

#[test]
fn wasi_that_is_linked_may_be_used() {
    let uses = "{ let set = std::collections::HashSet::from([context.turn]); println!(\"{set:?}\"); \
                std::time::SystemTime::now() > std::time::UNIX_EPOCH }";
    check(
        build(&GOOD.replace("context.turn == 3", uses)),
        expect![[r#"exports ["on-model-call"], grants []"#]],
    );
}

#[test]
fn a_world_that_a_plugin_brings_is_stripped() {
    let section =
        "#[unsafe(link_section = \"component-type:mine\")]\npub static WORLD: [u8; 4] = *b\"evil\";";
    let with_world = built(&format!("{GOOD}{section}"));
    assert!(!String::from_utf8_lossy(&with_world.component).contains("evil"));
    check(Ok(with_world), expect![[r#"exports ["on-model-call"], grants []"#]]);
}

#[test]
fn exports_outside_the_contract_are_refused() {
    let export = |name: &str| {
        build(&format!("{GOOD}#[unsafe(export_name = \"{name}\")] pub extern \"C\" fn more() {{}}"))
    };
    check(
        export("wasi:cli/run@0.2.0#run"),
        expect![[r#"
        the plugin exports `wasi:cli/run@0.2.0#run`, which is not part of the contract
        help: export interfaces of tandem:harness/…@0.1.0: observe, on-choose-patch, on-episode-start, on-format-error, on-limit, on-loop, on-model-call, on-submit, on-tool-call, on-tool-result, settings-schema, tools"#]],
    );
    check(
        export("tandem:harness/on-submit@0.1.0#on-submit"),
        expect![[r#"
            the core module does not fit the contract: failed to classify export `tandem:harness/on-submit@0.1.0#on-submit`: failed to validate export for `tandem:harness/on-submit@0.1.0`: type mismatch for function `on-submit`: expected `[I32] -> [I32]` but found `[] -> []`
            help: export each interface with all of its functions, with the types of the contract; the SDK does that"#]],
    );
    check(
        export("tandem:harness/on-model-call@0.1.0#on-second-call"),
        expect![[r#"exports ["on-model-call"], grants []"#]],
    );
    check(export("harmless"), expect![[r#"exports ["on-model-call"], grants []"#]]);
}

#[test]
fn a_crate_of_several_files_is_built() {
    let root =
        format!("mod texts;\n{GOOD}").replace("format!(\"turn {}\", context.turn)", "texts::NOTE.into()");
    let (_dir, source) = crate_of(&[
        ("Cargo.toml", MANIFEST),
        ("src/lib.rs", &root),
        ("src/texts.rs", "pub const NOTE: &str = include_str!(\"note.txt\");"),
        ("src/note.txt", "Run the tests."),
    ]);
    check(forge().build(&source), expect![[r#"exports ["on-model-call"], grants []"#]]);

    let (_dir, source) = crate_of(&[
        ("Cargo.toml", MANIFEST),
        ("src/lib.rs", "mod texts;"),
        ("src/texts.rs", "pub const NOTE: u32 = \"x\";"),
    ]);
    check(
        forge().build(&source),
        expect![[r#"
        1 compile error:
        src/texts.rs:1:23: error[E0308]: mismatched types (expected `u32`, found `&str`)
          | pub const NOTE: u32 = "x";"#]],
    );
}

/// Builds a crate that must be refused; its folder is called DIR in the text.
fn check_refused(files: &[(&str, &str)], expected: Expect) {
    let (dir, source) = crate_of(files);
    let error = forge().build(&source).unwrap_err().to_string();
    expected.assert_eq(&error.replace(&dir.path().display().to_string(), "DIR"));
}

#[test]
fn a_build_script_never_runs() {
    let outside = tempfile::tempdir().unwrap();
    let marker = outside.path().join("ran");
    let script = format!("fn main() {{ std::fs::write({marker:?}, \"x\").unwrap(); }}");
    let good = ("src/lib.rs", GOOD);
    check_refused(
        &[("Cargo.toml", MANIFEST), good, ("build.rs", &script)],
        expect![[r#"
        `DIR` has a build script (`build.rs`), which the forge never runs
        help: a plugin is plain Rust over the SDK: a Cargo.toml with `tandem-plugin` and a `src/lib.rs`"#]],
    );
    let named = MANIFEST.replace("[package]", "[package]\nbuild = \"src/other.rs\"");
    check_refused(
        &[("Cargo.toml", &named), good, ("src/other.rs", &script)],
        expect![[r#"
        `DIR/Cargo.toml` names a build script (`package.build`), which the forge never runs
        help: a plugin is plain Rust over the SDK: a Cargo.toml with `tandem-plugin` and a `src/lib.rs`"#]],
    );

    // A cargo configuration that would run a program is not read, since cargo does not run.
    let config = format!("[build]\nrustc-wrapper = \"touch {}\"", marker.display());
    let (_dir, source) = crate_of(&[("Cargo.toml", MANIFEST), good, (".cargo/config.toml", &config)]);
    forge().build(&source).unwrap_or_else(|error| panic!("{error}"));
    assert!(!marker.exists());
}

#[test]
fn a_crate_that_asks_for_more_than_the_sdk_is_refused() {
    let good = ("src/lib.rs", GOOD);
    check_refused(
        &[("Cargo.toml", &format!("{MANIFEST}serde = \"1\"\n")), good],
        expect![[r#"
        `DIR/Cargo.toml` depends on `serde`; the only dependency of a plugin is `tandem-plugin`
        help: a plugin is plain Rust over the SDK: a Cargo.toml with `tandem-plugin` and a `src/lib.rs`"#]],
    );
    check_refused(
        &[("Cargo.toml", &format!("{MANIFEST}\n[lib]\nproc-macro = true\n")), good],
        expect![[r#"
        `DIR/Cargo.toml` is a procedural macro, which the forge never runs
        help: a plugin is plain Rust over the SDK: a Cargo.toml with `tandem-plugin` and a `src/lib.rs`"#]],
    );
    check_refused(
        &[("Cargo.toml", &format!("{MANIFEST}\n[build-dependencies]\ncc = \"1\"\n")), good],
        expect![[r#"
            `DIR/Cargo.toml` has a section `[build-dependencies]`, which the forge does not use
            help: a plugin is plain Rust over the SDK: a Cargo.toml with `tandem-plugin` and a `src/lib.rs`"#]],
    );
    check_refused(
        &[("Cargo.toml", &MANIFEST.replace("2024", "2027")), good],
        expect![[r#"
        `DIR/Cargo.toml` has the edition "2027"; known are 2018, 2021 and 2024
        help: a plugin is plain Rust over the SDK: a Cargo.toml with `tandem-plugin` and a `src/lib.rs`"#]],
    );
    check_refused(
        &[("Cargo.toml", "[package"), good],
        expect![[r#"
        `DIR/Cargo.toml` is not valid TOML: unclosed table, expected `]`
        help: correct the manifest"#]],
    );
    check_refused(
        &[("Cargo.toml", MANIFEST), ("src/main.rs", "")],
        expect![[r#"
        `DIR` has no `src/lib.rs`
        help: a plugin is plain Rust over the SDK: a Cargo.toml with `tandem-plugin` and a `src/lib.rs`"#]],
    );
    check_refused(
        &[good],
        expect![[r#"
        cannot read `DIR/Cargo.toml`: No such file or directory (os error 2)
        help: check the path"#]],
    );
}

#[test]
fn a_link_out_of_the_crate_is_refused() {
    let (dir, source) = crate_of(&[("Cargo.toml", MANIFEST), ("src/lib.rs", GOOD)]);
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("src/secret.txt")).unwrap();
    let error = forge().build(&source).unwrap_err().to_string();
    expect![[r#"
        `DIR/src/secret.txt` is neither a plain file nor a folder
        help: a plugin is plain Rust over the SDK: a Cargo.toml with `tandem-plugin` and a `src/lib.rs`"#]]
    .assert_eq(&error.replace(&dir.path().display().to_string(), "DIR"));
}

#[test]
fn a_missing_program_is_named_with_the_command_that_installs_it() {
    let check = |config: ForgeConfig, expected: Expect| {
        let refused = Forge::new(config).and_then(|forge| forge.build(&file(GOOD))).unwrap_err();
        expected.assert_eq(&refused.to_string());
    };
    check(
        ForgeConfig { rustc: "/nowhere/rustc".into(), ..config() },
        expect![[r#"
        the Rust compiler (`/nowhere/rustc`) cannot be run: No such file or directory (os error 2)
        help: install Rust with rustup, then: rustup target add wasm32-wasip2"#]],
    );
    check(
        ForgeConfig { bwrap: "/nowhere/bwrap".into(), ..config() },
        expect![[r#"
        bubblewrap (`/nowhere/bwrap`), the build sandbox, cannot be run
        help: apt-get install bubblewrap"#]],
    );

    // A toolchain without the target.
    let dir = tempfile::tempdir().unwrap();
    let sysroot = dir.path().canonicalize().unwrap();
    let rustc = sysroot.join("bin/rustc");
    std::fs::create_dir(sysroot.join("bin")).unwrap();
    std::fs::write(&rustc, format!("#!/bin/sh\necho {}\n", sysroot.display())).unwrap();
    std::fs::set_permissions(&rustc, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let forge = Forge::new(ForgeConfig { rustc, ..config() }).unwrap();
    let error = forge.build(&file(GOOD)).unwrap_err().to_string();
    expect![[r#"
        the Rust toolchain in `DIR` has no target wasm32-wasip2
        help: rustup target add wasm32-wasip2"#]]
    .assert_eq(&error.replace(&sysroot.display().to_string(), "DIR"));
}

#[test]
fn what_is_not_a_core_module_is_refused() {
    let check = |bytes: &[u8], expected: Expect| {
        expected.assert_eq(&componentize(bytes).unwrap_err().to_string());
    };
    check(
        b"not wasm",
        expect![[r#"
            the core module does not fit the contract: it does not start as a WebAssembly module does
            help: build for the target wasm32-wasip2"#]],
    );
    check(
        b"",
        expect![[r#"
            the core module does not fit the contract: it does not start as a WebAssembly module does
            help: build for the target wasm32-wasip2"#]],
    );
    check(
        &built(GOOD).component,
        expect![[r#"
        the core module does not fit the contract: it is a component already
        help: give the core module, or use the component as it is"#]],
    );
}
