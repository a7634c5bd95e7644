//! Real components for tests, small enough to read: core modules in the text format that speak
//! the canonical ABI by hand, made into components in process.

use std::fmt::Write as _;
use std::time::Duration;

use async_trait::async_trait;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::abi::{AbiVariant, WasmType};
use wit_parser::{Resolve, WorldItem};

use super::no_workspace::NoWorkspace;
use super::points::HookPoint;
use super::workspace_access::{ExecOutput, SearchHit, WorkspaceAccess, WorkspaceEntry, WorkspaceError};

/// Returns nothing: `none` at an address that is all zeros.
pub(crate) const NOTHING: &str = "(i32.const 16)";
/// The result of a point with an effect, written by [`say`].
const RESULT: u32 = 64;

/// A guest under construction. Bodies are what a function does; its parameters are `local.get`
/// 0, 1, ... in the flattened form of the canonical ABI.
pub(crate) struct Guest {
    world: String,
    packages: String,
    imports: String,
    functions: Vec<(String, String)>,
    data: String,
    next: u32,
    pages: u32,
    start: String,
    /// Bodies of `cabi_post_`, by the name of the function that they belong to.
    post_returns: Vec<(String, String)>,
    /// Put before the allocation in `cabi_realloc`; the size is `local.get 3`.
    realloc: String,
    /// More items of the module.
    items: String,
}

impl Guest {
    pub fn new() -> Self {
        Self {
            world: String::new(),
            packages: String::new(),
            imports: String::new(),
            functions: Vec::new(),
            data: String::new(),
            next: 4096,
            pages: 32,
            start: String::new(),
            post_returns: Vec::new(),
            realloc: String::new(),
            items: String::new(),
        }
    }

    /// Exports `point`. For `tools` see [`Guest::tools`].
    pub fn on(mut self, point: HookPoint, body: &str) -> Self {
        let name = point.name();
        writeln!(self.world, "export tandem:harness/{name}@0.1.0;").unwrap();
        self.functions.push((name.to_owned(), body.to_owned()));
        self
    }

    /// Exports `tools` with these definitions (name, description, schema) and a body for `call`.
    pub fn tools(mut self, definitions: &[(&str, &str, &str)], call: &str) -> Self {
        let mut list = Vec::new();
        for (name, description, schema) in definitions {
            for text in [name, description, schema] {
                let (at, length) = self.text(text);
                list.extend([at, length]);
            }
        }
        let list_at = self.words(&list);
        let result = self.words(&[list_at, definitions.len() as u32]);
        self.tools_with(&format!("(i32.const {result})"), call)
    }

    /// The same with a body for `definitions`.
    pub fn tools_with(mut self, definitions: &str, call: &str) -> Self {
        self.world.push_str("export tandem:harness/tools@0.1.0;\n");
        self.functions.push(("definitions".to_owned(), definitions.to_owned()));
        self.functions.push(("call".to_owned(), call.to_owned()));
        self
    }

    /// Exports anything else, as the world says it.
    pub fn export(mut self, item: &str, function: &str, body: &str) -> Self {
        writeln!(self.world, "export {item};").unwrap();
        self.functions.push((function.to_owned(), body.to_owned()));
        self
    }

    /// Imports one function `$name` of a capability; `ty` are its flattened types.
    pub fn import(self, capability: &str, function: &str, ty: &str) -> Self {
        self.import_from(&format!("tandem:harness/{capability}@0.1.0"), function, ty)
    }

    /// Imports one function of any interface; see [`Guest::package`].
    pub fn import_from(mut self, interface: &str, function: &str, ty: &str) -> Self {
        let line = format!("import {interface};\n");
        if !self.world.contains(&line) {
            self.world.push_str(&line);
        }
        writeln!(self.imports, "(import \"{interface}\" \"{function}\" (func ${function} {ty}))").unwrap();
        self
    }

    /// Declares a package in WIT that an import names.
    pub fn package(mut self, wit: &str) -> Self {
        self.packages.push_str(wit);
        self
    }

    /// Size of the memory in pages of 64 KiB.
    pub fn pages(mut self, pages: u32) -> Self {
        self.pages = pages;
        self
    }

    /// What runs at instantiation.
    pub fn start(mut self, body: &str) -> Self {
        self.start = format!("(func $start {body})\n(start $start)");
        self
    }

    /// What runs after the host has read the result of `point`, whose address is `local.get 0`.
    pub fn post_return(mut self, point: HookPoint, body: &str) -> Self {
        self.post_returns.push((point.name().to_owned(), body.to_owned()));
        self
    }

    /// What runs first when the host asks for room; the size is `local.get 3`.
    pub fn realloc(mut self, body: &str) -> Self {
        self.realloc = body.to_owned();
        self
    }

    /// Functions, tables and globals of the core module, in the text format.
    pub fn items(mut self, items: &str) -> Self {
        self.items.push_str(items);
        self
    }

    /// Puts a text into memory: address and length.
    pub fn text(&mut self, text: &str) -> (u32, u32) {
        (self.place(text.as_bytes()), text.len() as u32)
    }

    /// A body that returns a fixed string.
    pub fn pair(&mut self, text: &str) -> String {
        let (at, length) = self.text(text);
        let result = self.words(&[at, length]);
        format!("(i32.const {result})")
    }

    fn words(&mut self, words: &[u32]) -> u32 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.place(&bytes)
    }

    fn place(&mut self, bytes: &[u8]) -> u32 {
        let at = self.next;
        let escaped: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
        writeln!(self.data, "(data (i32.const {at}) \"{escaped}\")").unwrap();
        self.next = (at + bytes.len() as u32).next_multiple_of(8);
        at
    }

    /// A body with the effect `case` (0 is the first of the variant) and a fixed text.
    pub fn effect(&mut self, case: u32, text: &str) -> String {
        let (at, length) = self.text(text);
        say(case, &format!("(i32.const {at})"), &format!("(i32.const {length})"))
    }

    /// A body that returns a fixed `option<string>`.
    pub fn some(&mut self, text: &str) -> String {
        let (at, length) = self.text(text);
        let result = self.words(&[1, at, length]);
        format!("(i32.const {result})")
    }

    /// The core module.
    pub fn core(&self) -> Vec<u8> {
        wat::parse_str(self.wat(&self.resolve())).unwrap()
    }

    /// The component.
    pub fn build(&self) -> Vec<u8> {
        let (resolve, world) = self.resolve();
        let mut module = self.core();
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
        ComponentEncoder::default().module(&module).unwrap().encode().unwrap()
    }

    fn resolve(&self) -> (Resolve, wit_parser::WorldId) {
        let mut resolve = Resolve::default();
        resolve.push_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit")).unwrap();
        let text = format!("package test:guest;\nworld guest {{\n{}}}\n{}", self.world, self.packages);
        let package = resolve.push_str("guest.wit", &text).unwrap();
        let world = resolve.select_world(&[package], Some("guest")).unwrap();
        (resolve, world)
    }

    fn wat(&self, (resolve, world): &(Resolve, wit_parser::WorldId)) -> String {
        let mut functions = String::new();
        for (key, item) in &resolve.worlds[*world].exports {
            let WorldItem::Interface { id, .. } = item else { panic!("only interfaces") };
            for (name, function) in &resolve.interfaces[*id].functions {
                let interface = resolve.name_world_key(key);
                let signature = resolve.wasm_signature(AbiVariant::GuestExport, function);
                let (_, body) = self.functions.iter().find(|(of, _)| of == name).unwrap();
                writeln!(
                    functions,
                    "(func (export \"{interface}#{name}\") (param{}) (result{}) (local $n i32) {body})",
                    types(&signature.params),
                    types(&signature.results),
                )
                .unwrap();
                if let Some((_, body)) = self.post_returns.iter().find(|(of, _)| of == name) {
                    writeln!(
                        functions,
                        "(func (export \"cabi_post_{interface}#{name}\") (param{}) {body})",
                        types(&signature.results)
                    )
                    .unwrap();
                }
            }
        }
        format!(
            r#"(module
            {imports}
            (memory (export "memory") {pages})
            (global $heap (mut i32) (i32.const {heap}))
            (global $count (mut i32) (i32.const 0))
            {data}
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
                {realloc}
                (local.set $at (i32.and
                    (i32.add (global.get $heap) (i32.sub (local.get 2) (i32.const 1)))
                    (i32.sub (i32.const 0) (local.get 2))))
                (global.set $heap (i32.add (local.get $at) (local.get 3)))
                (local.get $at))
            {start}
            {items}
            {functions})"#,
            imports = self.imports,
            pages = self.pages,
            heap = self.next.max(131_072),
            data = self.data,
            start = self.start,
            realloc = self.realloc,
            items = self.items,
        )
    }
}

fn types(types: &[WasmType]) -> String {
    let name = |ty: &WasmType| match ty {
        WasmType::I64 | WasmType::PointerOrI64 => " i64",
        WasmType::F32 => " f32",
        WasmType::F64 => " f64",
        WasmType::I32 | WasmType::Pointer | WasmType::Length => " i32",
    };
    types.iter().map(name).collect()
}

/// A body with the effect `case` and the text at `at`, `length` (expressions).
pub(crate) fn say(case: u32, at: &str, length: &str) -> String {
    format!(
        "(i32.store8 (i32.const {RESULT}) (i32.const 1))
         (i32.store8 (i32.const {}) (i32.const {case}))
         (i32.store (i32.const {}) {at})
         (i32.store (i32.const {}) {length})
         (i32.const {RESULT})",
        RESULT + 4,
        RESULT + 8,
        RESULT + 12,
    )
}

/// A body that answers a tool call with the text at `at`, `length` (expressions).
pub(crate) fn tool_says(at: &str, length: &str, is_error: bool) -> String {
    let (result, block) = (RESULT, RESULT + 32);
    format!(
        "(i32.store (i32.const {result}) (i32.const {block}))
         (i32.store (i32.const {}) (i32.const 1))
         (i32.store8 (i32.const {}) (i32.const {}))
         (i32.store (i32.const {}) {at})
         (i32.store (i32.const {}) {length})
         (i32.const {result})",
        result + 4,
        result + 20,
        u32::from(is_error),
        block + 4,
        block + 8,
    )
}

/// `body` from turn 100 on, nothing before: what passes the trial calls of admission.
pub(crate) fn late(body: &str) -> String {
    format!(
        "(if (result i32) (i32.ge_u (local.get 0) (i32.const 100))
            (then {body}) (else {NOTHING}))"
    )
}

/// Address and length of the arguments that `on-tool-call` is given.
pub(crate) const CALL_ARGUMENTS: (&str, &str) = ("(local.get 14)", "(local.get 15)");
/// Address and length of the text that `on-tool-result` is given.
pub(crate) const RESULT_TEXT: (&str, &str) = (
    "(i32.load (i32.add (local.get 0) (i32.const 116)))",
    "(i32.load (i32.add (local.get 0) (i32.const 120)))",
);
/// Address and length of the arguments of `tools.call`.
pub(crate) const TOOL_ARGUMENTS: (&str, &str) = ("(local.get 12)", "(local.get 13)");

/// Runs for ever.
pub(crate) const LOOP: &str = "(loop $l (br $l)) (unreachable)";
/// Takes memory until there is no more.
pub(crate) const GROW: &str =
    "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (unreachable)";

/// How a property is tried: `cases` times, or as often as `PROPTEST_CASES` says. The cases kept
/// in `host/proptest-regressions/` come first. `file` is `file!()`.
pub(crate) fn tries(cases: u32, file: &'static str) -> proptest::test_runner::TestRunner {
    let mut config = proptest::test_runner::Config { source_file: Some(file), ..Default::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    proptest::test_runner::TestRunner::new(config)
}

/// A hook on model calls with a fixed note.
pub(crate) fn notes(text: &str) -> Vec<u8> {
    let mut guest = Guest::new();
    let body = guest.effect(0, text);
    guest.on(HookPoint::OnModelCall, &body).build()
}

/// A hook that reads `a.py` and notes what came, the bytes or the error's text.
pub(crate) fn reader() -> Guest {
    let mut guest = Guest::new().import("workspace-read", "read", "(param i32 i32 i32)");
    let (path, length) = guest.text("a.py");
    let body = format!(
        "(call $read (i32.const {path}) (i32.const {length}) (i32.const 160))
         (if (result i32) (i32.eqz (i32.load8_u (i32.const 160)))
            (then {}) (else {}))",
        say(0, "(i32.load (i32.const 164))", "(i32.load (i32.const 168))"),
        say(1, "(i32.load (i32.const 168))", "(i32.load (i32.const 172))")
    );
    guest.on(HookPoint::OnModelCall, &body)
}

/// A workspace with one file that takes its time.
pub(crate) struct SlowFile(pub Duration);

#[async_trait]
impl WorkspaceAccess for SlowFile {
    async fn read(&self, path: &str) -> Result<Vec<u8>, WorkspaceError> {
        tokio::time::sleep(self.0).await;
        Ok(format!("read {path}").into_bytes())
    }
    async fn list(&self, path: &str) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
        NoWorkspace.list(path).await
    }
    async fn stat(&self, path: &str) -> Result<WorkspaceEntry, WorkspaceError> {
        NoWorkspace.stat(path).await
    }
    async fn search(&self, t: &str, s: &str, m: u32) -> Result<Vec<SearchHit>, WorkspaceError> {
        NoWorkspace.search(t, s, m).await
    }
    async fn diff(&self) -> Result<Vec<u8>, WorkspaceError> {
        NoWorkspace.diff().await
    }
    async fn untracked(&self) -> Result<Vec<String>, WorkspaceError> {
        NoWorkspace.untracked().await
    }
    async fn write(&self, path: &str, content: &[u8]) -> Result<(), WorkspaceError> {
        NoWorkspace.write(path, content).await
    }
    async fn exec(&self, argv: &[String], time: Duration) -> Result<ExecOutput, WorkspaceError> {
        NoWorkspace.exec(argv, time).await
    }
}
