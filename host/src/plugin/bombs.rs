//! What does the host do with bytes that want to harm it before they run? Each is refused with
//! a reason, within its caps.

use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use serde_json::json;
use wasm_encoder::{
    CodeSection, Component, ComponentSection, ConstExpr, DataSection, ExportKind, ExportSection, Function,
    FunctionSection, InstanceSection, Instruction, MemorySection, MemoryType, Module, ModuleSection,
    NestedComponentSection, RawSection, TypeSection,
};

use super::hostile::{engine, neighbour_answers, took};
use super::testkit::*;
use super::*;
use crate::store::Digest;

/// Admits `bytes` with every grant: the refusal, with the digest left out.
async fn admission(name: &str, bytes: &[u8], options: &AdmissionOptions) -> String {
    let start = Instant::now();
    let admitted = admit(engine(), bytes, &Grants::all(), options).await;
    took(name, start);
    neighbour_answers(engine()).await;
    match admitted {
        Ok(_) => "admitted".to_owned(),
        Err(error) => {
            assert!(
                error.what.len() < 1_000 && error.help.len() < 1_000,
                "{name}: {} bytes",
                error.what.len()
            );
            error.to_string().replace(&Digest::of(bytes).short(), "DIGEST")
        }
    }
}

async fn refused(name: &str, bytes: &[u8], expected: Expect) {
    expected.assert_eq(&admission(name, bytes, &AdmissionOptions::default()).await);
}

/// The same, compiled where the program compiles.
async fn refused_in_child(name: &str, bytes: &[u8], time: Duration, expected: Expect) {
    expected.assert_eq(&admission(name, bytes, &in_child(time, 4 << 30)).await);
}

/// Not a test of its own: the child process that the next tests start.
#[test]
fn compile_child_process() {
    let paths: Vec<_> = std::env::args().skip(1).filter(|arg| arg.starts_with('/')).collect();
    if let [input, output, functions @ ..] = &paths[..]
        && let Err(message) =
            compile_child(input.as_ref(), output.as_ref(), functions.first().map(AsRef::as_ref))
    {
        eprintln!("{message}");
        std::process::exit(1);
    }
}

fn in_child(time: Duration, memory_bytes: u64) -> AdmissionOptions {
    let args = ["--exact", "plugin::bombs::compile_child_process", "--nocapture"];
    let program = std::env::current_exe().unwrap();
    let compile_in = CompileIn::Child { program, args: args.map(Into::into).to_vec() };
    let compile_caps = CompileCaps { time, memory_bytes };
    AdmissionOptions { compile_in, compile_caps, ..Default::default() }
}

/// A component that is fine, with more sections at its end.
fn with(sections: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    sections.into_iter().fold(notes("fine"), |mut bytes, section| {
        bytes.extend(section);
        bytes
    })
}

fn section(section: &impl ComponentSection) -> Vec<u8> {
    let mut bytes = Vec::new();
    section.append_to_component(&mut bytes);
    bytes
}

/// A module with these memories, in pages.
fn memories(count: usize, pages: u64) -> Module {
    let mut memories = MemorySection::new();
    for _ in 0..count {
        let (maximum, page_size_log2) = (None, None);
        memories.memory(MemoryType {
            minimum: pages,
            maximum,
            memory64: false,
            shared: false,
            page_size_log2,
        });
    }
    let mut module = Module::new();
    module.section(&memories);
    module
}

/// Core modules of [`notes`], after which those of [`with`] count on.
const MODULES_BEFORE: u32 = 1;

/// `count` copies of `module`, each instantiated.
fn instances(count: u32, module: &Module) -> Vec<u8> {
    let module = section(&ModuleSection(module));
    with((0..count).flat_map(|n| {
        let mut instance = InstanceSection::new();
        instance.instantiate::<[(&str, wasm_encoder::ModuleArg); 0], &str>(MODULES_BEFORE + n, []);
        [module.clone(), section(&instance)]
    }))
}

#[tokio::test]
async fn component_compiled_in_a_child_runs_here() {
    let engine = Engine::new(PluginLimits::default()).unwrap();
    let options = in_child(Duration::from_secs(60), 4 << 30);
    let admitted = admit(&engine, &notes("from a child"), &Grants::none(), &options).await.unwrap();
    assert_eq!(admitted.canary()[0].output, json!({"note": "from a child"}));
}

#[tokio::test]
async fn compile_bomb_is_stopped() {
    // Every local is alive through every loop: the work of the compiler is their product.
    const LOCALS: usize = 3_000;
    let locals = " i64".repeat(LOCALS);
    let set: String = (0..LOCALS).map(|n| format!("(local.set {n} (i64.const {n}))")).collect();
    let loops = "(loop $l (br_if $l (i64.eqz (local.get 0))))".repeat(2_000);
    let sum: String =
        (1..LOCALS).map(|n| format!("(local.set 0 (i64.add (local.get 0) (local.get {n})))")).collect();
    let guest = Guest::new().on(HookPoint::OnModelCall, NOTHING);
    let bytes = guest.start(&format!("(local{locals}) {set} {loops} {sum}")).build();
    println!("a compile bomb of {} bytes", bytes.len());
    assert!(bytes.len() < 100_000);
    let cap = Duration::from_secs(4);
    refused_in_child(
        "locals through loops",
        &bytes,
        cap,
        expect![[r#"
        the plugin DIGEST could not be compiled: it took more than 4 s of processor time (admission step: compile)
        help: make functions smaller and fewer; generated code is the usual cause"#]],
    )
    .await;
}

#[tokio::test]
async fn little_code_that_becomes_much_is_stopped() {
    // Two bytes, almost 16 MiB apart: native code holds the zeros between them.
    let mut module = memories(1, 256);
    let mut data = DataSection::new();
    data.active(0, &ConstExpr::i32_const(0), [1]);
    data.active(0, &ConstExpr::i32_const((16 << 20) - 70_000), [1]);
    module.section(&data);
    let bytes = instances(24, &module);
    assert!(bytes.len() < 10_000);
    let cap = Duration::from_secs(60);
    refused_in_child("24 sparse memories of 16 MiB", &bytes, cap, expect![[r#"
        the plugin DIGEST could not be compiled: it became more than 256 MiB of native code (admission step: compile)
        help: make functions smaller and fewer; generated code is the usual cause"#]]).await;
}

#[tokio::test]
async fn components_that_are_much_too_deep_or_too_many_are_refused() {
    let mut deep = Component::HEADER.to_vec();
    for _ in 0..3_000 {
        let mut outer = Component::new();
        outer.section(&RawSection { id: 4, data: &deep });
        deep = outer.finish();
    }
    refused(
        "3,000 components in one another",
        &deep,
        expect![[r#"
        the plugin DIGEST has components in components, more than 32 deep (admission step: parse)
        help: a plugin is one component with its modules in it"#]],
    )
    .await;

    let empty = Component::new();
    let empty = section(&NestedComponentSection(&empty));
    let many = with((0..5_000).map(|_| empty.clone()));
    refused("5,000 components", &many, expect![[r#"
        the plugin DIGEST is not a valid component: components count exceeds limit of 1000 (at byte 11722) (admission step: parse)
        help: build it again; the file may be cut or use a feature that is off"#]]).await;

    // Types name other types: a list of lists, and pairs of pairs that double at each step.
    let chain: String = (1..200).map(|n| format!("(type $t{n} (list $t{}))", n - 1)).collect();
    let chain = wat::parse_str(format!("(component (type $t0 (list u8)) {chain})")).unwrap();
    refused("types 200 deep", &chain, expect![[r#"
        the plugin DIGEST is not a valid component: type nesting is too deep (at byte 245) (admission step: parse)
        help: build it again; the file may be cut or use a feature that is off"#]]).await;
    let pairs: String = (1..60).map(|n| format!("(type $t{n} (tuple $t{0} $t{0}))", n - 1)).collect();
    let pairs = wat::parse_str(format!("(component (type $t0 (list u8)) {pairs})")).unwrap();
    refused("a type of two to the 60", &pairs, expect![[r#"
        the plugin DIGEST is not a valid component: effective type size exceeds the limit of 1000000 (at byte 86) (admission step: parse)
        help: build it again; the file may be cut or use a feature that is off"#]]).await;

    // Each export is a few bytes here and a hundred in the validator.
    let exports = |count: u32| {
        let mut module = Module::new();
        let mut types = TypeSection::new();
        types.ty().function([], []);
        module.section(&types);
        module.section(FunctionSection::new().function(0));
        let mut exports = ExportSection::new();
        for n in 0..count {
            exports.export(&format!("e{n}"), ExportKind::Func, 0);
        }
        module.section(&exports);
        let mut body = Function::new([]);
        body.instruction(&Instruction::End);
        module.section(CodeSection::new().function(&body));
        with([section(&ModuleSection(&module))])
    };
    refused("500,000 exports", &exports(500_000), expect![[r#"
        the plugin DIGEST has more than 4194304 bytes of types, imports, exports and other declarations (admission step: parse)
        help: strip debug information; generated declarations are the usual cause"#]]).await;
    refused("400,000 exports", &exports(400_000), expect!["admitted"]).await;
}

#[tokio::test]
async fn memories_and_tables_that_are_too_many_or_too_large_are_refused() {
    let module = section(&ModuleSection(&memories(5_000, 1)));
    refused(
        "5,000 memories in a module",
        &with([module]),
        expect![[r#"
        the plugin DIGEST is not a valid component: multiple memories (at byte 1744) (admission step: parse)
        help: build it again; the file may be cut or use a feature that is off"#]],
    )
    .await;
    refused("900 instances with a memory each", &instances(900, &memories(1, 1)), expect![[r#"
        the plugin DIGEST failed a trial call of `on-model-call`: it could not be started: resource limit exceeded: memory count too high at 17 (admission step: canary)
        help: build the plugin against the contract in `wit/` again"#]]).await;
    refused("16 memories of 256 MiB", &instances(16, &memories(1, 4096)), expect![[r#"
        the plugin DIGEST failed a trial call of `on-model-call`: it asked for too much memory: 270532608 bytes, limit 67108864 bytes (admission step: canary)
        help: keep less in memory; look for a buffer that only grows"#]]).await;
    let guest = |items: &str| Guest::new().items(items).on(HookPoint::OnModelCall, NOTHING).build();
    refused("a table of 4 billion elements", &guest("(table 4000000000 funcref)"), expect![[r#"
        the plugin DIGEST failed a trial call of `on-model-call`: it asked for too large a table: 4000000000 elements, limit 100000 elements (admission step: canary)
        help: keep less in memory; look for a buffer that only grows"#]]).await;
    refused("90 tables of 10,000 elements", &guest(&"(table 10000 funcref)".repeat(90)), expect![[r#"
        the plugin DIGEST failed a trial call of `on-model-call`: it could not be started: resource limit exceeded: table count too high at 90 (admission step: canary)
        help: build the plugin against the contract in `wit/` again"#]]).await;
}

#[tokio::test]
async fn large_data_is_no_fault_by_itself() {
    let data = |at: usize, length: usize| format!("(data (i32.const {at}) \"{}\")", "x".repeat(length));
    let guest =
        |items: &str| Guest::new().pages(100).items(items).on(HookPoint::OnModelCall, NOTHING).build();
    refused("5 MB of data", &guest(&data(200_000, 5_000_000)), expect!["admitted"]).await;
    let many: String = (0..5_000).map(|n| data(200_000 + 1_000 * n, 1_000)).collect();
    refused("5 MB of data in 5,000 sections", &guest(&many), expect!["admitted"]).await;
    refused("data past the end of memory", &guest(&data(6_553_599, 2)), expect![[r#"
        the plugin DIGEST failed a trial call of `on-model-call`: it trapped: out of bounds memory access (admission step: canary)
        help: handle every input, an empty workspace and missing files too, and return instead of panicking"#]]).await;
    let guest = Guest::new().on(HookPoint::OnModelCall, NOTHING).start("(loop $l (br $l))").build();
    refused("an endless loop in the start function", &guest, expect![[r#"
        the plugin DIGEST failed a trial call of `on-model-call`: it ran out of fuel: it used all of its 500000000 units in one call (admission step: canary)
        help: do less in one call; look for a loop that does not end"#]]).await;
}

#[tokio::test]
async fn names_that_only_look_right_are_refused() {
    let exports = |name: &str| {
        wat::parse_str(format!("(component (instance $i) (export \"{name}\" (instance $i)))")).unwrap()
    };
    refused(
        "an interface with a Cyrillic letter",
        &exports("tandem:harness/on-mod\u{435}l-call@0.1.0"),
        expect![[r#"
            the plugin DIGEST is not a valid component: export name `tandem:harness/on-mod\u{435}l-call@0.1.0` is not a valid extern name trailing characters found: `\u{435}l-call@0.1.0` (at byte 16) (admission step: parse)
            help: build it again; the file may be cut or use a feature that is off"#]],
    )
    .await;
    refused(
        "an interface with an invisible letter",
        &exports("tandem:harness/on-limit\u{200b}@0.1.0"),
        expect![[r#"
            the plugin DIGEST is not a valid component: export name `tandem:harness/on-limit\u{200b}@0.1.0` is not a valid extern name trailing characters found: `\u{200b}@0.1.0` (at byte 16) (admission step: parse)
            help: build it again; the file may be cut or use a feature that is off"#]],
    )
    .await;
    refused("an interface in capitals", &exports("tandem:harness/ON-LIMIT@0.1.0"), expect![[r#"
        the plugin DIGEST exports `tandem:harness/ON-LIMIT@0.1.0`, which is no point of the contract (admission step: contract)
        help: the points are `tools`, `on-episode-start`, `on-model-call`, `on-format-error`, `on-tool-call`, `on-tool-result`, `on-loop`, `on-submit`, `on-choose-patch`, `on-limit`, `observe`"#]]).await;
    refused(
        "an interface of a look-alike package",
        &exports("tandern:harness/on-limit@0.1.0"),
        expect![[r#"
            the plugin DIGEST exports no point of the contract (admission step: contract)
            help: export at least one of `tools`, `on-episode-start`, `on-model-call`, `on-format-error`, `on-tool-call`, `on-tool-result`, `on-loop`, `on-submit`, `on-choose-patch`, `on-limit`, `observe`"#]],
    )
    .await;
    refused("an interface with a build number", &exports("tandem:harness/on-limit@0.1.0+1"), expect![[r#"
        the plugin DIGEST exports `tandem:harness/on-limit@0.1.0+1`, but the contract is version 0.1.0 (admission step: contract)
        help: build the plugin against `tandem:harness@0.1.0`"#]])
        .await;
    refused("a point without functions", &exports("tandem:harness/on-limit@0.1.0"), expect![[r#"
        the plugin DIGEST does not fit the contract: instance export `tandem:harness/on-limit@0.1.0` does not have export `on-limit` (admission step: contract)
        help: build it against the contract in `wit/` again"#]]).await;
    let long = format!("tandem:{}/log@0.1.0", "x".repeat(90_000));
    let imports = format!(
        "(component (import \"{long}\" (instance)) (instance $i) (export \"tandem:harness/on-limit@0.1.0\" (instance $i)))"
    );
    refused("an import with a name of 90 kB", &wat::parse_str(imports).unwrap(), expect![[r#"
        the plugin DIGEST imports `tandem:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`, which no plugin gets (admission step: contract)
        help: a plugin may import the capabilities of `tandem:harness` and WASI 0.2 cli, io, clocks and random"#]]).await;

    let schema = "{\"type\": \"object\"}";
    let call = tool_says("(i32.const 0)", "(i32.const 0)", false);
    let tools = |tools: &[(&str, &str, &str)]| Guest::new().tools(tools, &call).build();
    refused(
        "a tool with a Cyrillic letter",
        &tools(&[("b\u{430}sh", "Runs.", schema)]),
        expect![[r#"
            the plugin DIGEST has a tool with the name `b\u{430}sh` (admission step: tools)
            help: name tools with 1 to 64 letters, digits, `_` and `-`"#]],
    )
    .await;
    refused(
        "a tool that clears the terminal",
        &tools(&[("\u{1b}[2J", "Runs.", schema)]),
        expect![[r#"
            the plugin DIGEST has a tool with the name `\u{1b}[2J` (admission step: tools)
            help: name tools with 1 to 64 letters, digits, `_` and `-`"#]],
    )
    .await;
    let names: Vec<String> = (0..1_000).map(|n| format!("t{n}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), "A tool.", schema)).collect();
    refused(
        "1,000 tools",
        &tools(&many),
        expect![[r#"
        the plugin DIGEST has 1000 tools, limit 64 (admission step: tools)
        help: put what belongs together into one tool"#]],
    )
    .await;
    // Each of these becomes megabytes when it is compiled.
    let bombs: Vec<_> = (0..90).map(|n| format!("\"\\\\w{{{}}}\": {{}}", 300 + n)).collect();
    let bombs =
        format!("{{\"type\": \"object\", \"anyOf\": [{{\"patternProperties\": {{{}}}}}]}}", bombs.join(", "));
    refused("a schema of 90 regular expressions", &tools(&[("t", "A tool.", &bombs)]), expect![[r#"
        the plugin DIGEST has a tool `t` with a wrong input schema: it has 90 regular expressions, limit 8 (admission step: tools)
        help: write a JSON Schema; models read it before they call the tool"#]]).await;
    let long = "x".repeat(70_000);
    refused(
        "a description of 70 kB",
        &tools(&[("t", &long, schema)]),
        expect![[r#"
        the plugin DIGEST has 70018 bytes of tool definitions, limit 65536 bytes (admission step: tools)
        help: describe tools in a few sentences; the policy reads them at every turn"#]],
    )
    .await;
}

#[tokio::test]
async fn every_cut_of_a_component_is_refused() {
    let whole = notes("whole");
    let start = Instant::now();
    for length in (0..whole.len()).step_by(7) {
        let error = admit(engine(), &whole[..length], &Grants::all(), &AdmissionOptions::default()).await;
        let step = error.err().map(|error| error.step);
        assert!(matches!(step, Some(Step::Parse | Step::Contract)), "{length} bytes: {step:?}");
    }
    took("every cut of a component", start);
}
