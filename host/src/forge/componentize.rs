//! Which world does a core module really have, and what component does it make?
//!
//! What a module exports is what it subscribes to, what it imports is what it
//! asks for. A world that the module brings along is stripped: it could ask for
//! more than the contract has.

use std::collections::BTreeSet;

use wasm_encoder::{Module, RawSection};
use wasmparser::{Encoding, Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldItem, WorldKey};

use super::error::ForgeError;
use super::preview1;

/// The contract.
pub(super) const CONTRACT: &str = include_str!("../../../wit/harness.wit");
/// The import that every plugin may have.
const WITHOUT_GRANT: &str = "failure";
/// Its package, with what stands between the package's name and its version.
const PACKAGE: (&str, &str) = ("tandem:harness/", "@0.1.0");
/// WASI 0.2, in the order of their dependencies. `@0.2.0` stands for the version that a module names.
pub(super) const WASI: [(&str, &str); 4] = [
    ("io", include_str!("wasi/io.wit")),
    ("clocks", include_str!("wasi/clocks.wit")),
    ("random", include_str!("wasi/random.wit")),
    ("cli", include_str!("wasi/cli.wit")),
];

/// A component made from a core module.
#[derive(Clone, Debug)]
pub struct Componentized {
    pub component: Vec<u8>,
    /// Interfaces of the contract that it exports, sorted.
    pub exports: Vec<String>,
    /// Capabilities of the contract that it imports, sorted: the grants that it needs.
    pub grants: Vec<String>,
}

/// Makes a component of a core module in any language that follows the
/// canonical ABI: embeds the part of the contract that the module has.
///
/// # Errors
/// An import or export outside the contract, no export at all, or a module
/// whose functions do not have the contract's types.
pub fn componentize(core: &[u8]) -> Result<Componentized, ForgeError> {
    let module = read(core)?;
    let mut resolve = Resolve::default();
    let known = Known::read(&mut resolve)?;

    let exports = known.check_exports(&module.exports)?;
    let (capabilities, wasi) = known.check_imports(&module.imports)?;
    let adapted = module.imports.iter().any(|(module, _)| module == preview1::MODULE);

    let versions: BTreeSet<&str> = wasi.iter().map(|import| import.version.as_str()).collect();
    for version in versions {
        for (name, text) in WASI {
            let text = text.replace("@0.2.0", &format!("@{version}"));
            resolve.push_source(&format!("{name}.wit"), &text).map_err(broken)?;
        }
    }
    let text = world_text(&exports, &capabilities, &wasi);
    let package = resolve.push_source("component.wit", &text).map_err(broken)?;
    let world = resolve.select_world(&[package], None).map_err(broken)?;

    let mut bytes = module.stripped;
    embed_component_metadata(&mut bytes, &resolve, world, StringEncoding::UTF8).map_err(broken)?;
    let misfit =
        "export each interface with all of its functions, with the types of the contract; the SDK does that";
    let mut encoder = ComponentEncoder::default()
        .validate(true)
        .module(&bytes)
        .map_err(|error| encode_error(error, misfit))?;
    if adapted {
        encoder = encoder.adapter(preview1::MODULE, &preview1::adapter()?).map_err(broken)?;
    }
    let component = encoder.encode().map_err(|error| encode_error(error, misfit))?;
    Ok(Componentized {
        component,
        exports: exports.into_iter().collect(),
        grants: capabilities.into_iter().filter(|name| name != WITHOUT_GRANT).collect(),
    })
}

/// What a core module has.
struct CoreModule {
    /// Module and function name of each import.
    imports: Vec<(String, String)>,
    exports: Vec<String>,
    /// Its bytes without `component-type` sections.
    stripped: Vec<u8>,
}

fn read(core: &[u8]) -> Result<CoreModule, ForgeError> {
    let not_wasm = |error: wasmparser::BinaryReaderError| ForgeError::Encode {
        reason: format!("it is not a WebAssembly module: {} at byte {}", error.message(), error.offset()),
        help: "build for the target wasm32-wasip2".into(),
    };
    if !core.starts_with(b"\0asm") {
        return Err(ForgeError::Encode {
            reason: "it does not start as a WebAssembly module does".into(),
            help: "build for the target wasm32-wasip2".into(),
        });
    }
    let mut module = Module::new();
    let mut read = CoreModule { imports: Vec::new(), exports: Vec::new(), stripped: Vec::new() };
    for payload in Parser::new(0).parse_all(core) {
        let payload = payload.map_err(not_wasm)?;
        match &payload {
            Payload::Version { encoding: Encoding::Component, .. } => {
                return Err(ForgeError::Encode {
                    reason: "it is a component already".into(),
                    help: "give the core module, or use the component as it is".into(),
                });
            }
            Payload::ImportSection(section) => {
                for import in section.clone().into_imports() {
                    let import = import.map_err(not_wasm)?;
                    read.imports.push((import.module.to_owned(), import.name.to_owned()));
                }
            }
            Payload::ExportSection(section) => {
                for export in section.clone() {
                    read.exports.push(export.map_err(not_wasm)?.name.to_owned());
                }
            }
            Payload::CustomSection(section) if section.name().starts_with("component-type") => continue,
            _ => {}
        }
        if let Some((id, range)) = payload.as_section() {
            module.section(&RawSection { id, data: &core[range] });
        }
    }
    read.stripped = module.finish();
    Ok(read)
}

/// The interfaces of the contract's world.
pub(super) struct Known {
    imports: BTreeSet<String>,
    exports: BTreeSet<String>,
}

/// An import of WASI.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WasiImport {
    /// Such as `cli/stderr`.
    interface: String,
    version: String,
}

impl Known {
    pub(super) fn contract() -> Result<Self, ForgeError> {
        Self::read(&mut Resolve::default())
    }

    /// Reads the contract into `resolve`.
    fn read(resolve: &mut Resolve) -> Result<Self, ForgeError> {
        let contract = resolve.push_source("harness.wit", CONTRACT).map_err(broken)?;
        let world = resolve.select_world(&[contract], Some("plugin")).map_err(broken)?;
        Ok(Self::new(resolve, world))
    }

    fn new(resolve: &Resolve, world: wit_parser::WorldId) -> Self {
        let world = &resolve.worlds[world];
        let names = |items: &mut dyn Iterator<Item = (&WorldKey, &WorldItem)>| {
            items
                .filter_map(|(_, item)| match item {
                    WorldItem::Interface { id, .. } => resolve.interfaces[*id].name.clone(),
                    _ => None,
                })
                .collect()
        };
        Self { imports: names(&mut world.imports.iter()), exports: names(&mut world.exports.iter()) }
    }

    /// The short name of `interface`, if the contract has it as an export.
    pub(super) fn exported<'a>(&self, interface: &'a str) -> Option<&'a str> {
        in_contract(interface).filter(|short| self.exports.contains(*short))
    }

    /// Whether `interface` is one of these of the contract.
    pub(super) fn is_one_of(&self, interface: &str, names: &[&str]) -> bool {
        in_contract(interface).is_some_and(|short| names.contains(&short))
    }

    /// The grants that these imports need, sorted.
    pub(super) fn grants(&self, imports: &[(String, String)]) -> Result<Vec<String>, ForgeError> {
        let (capabilities, _) = self.check_imports(imports)?;
        Ok(capabilities.into_iter().filter(|name| name != WITHOUT_GRANT).collect())
    }

    /// The exported interfaces; other exports than the canonical ABI's own are refused.
    fn check_exports(&self, exports: &[String]) -> Result<BTreeSet<String>, ForgeError> {
        let mut found = BTreeSet::new();
        for name in exports {
            let function = name.strip_prefix("cabi_post_").unwrap_or(name);
            // Names without a `#`, such as `memory` and `cabi_realloc`, belong to no interface.
            let Some((interface, _)) = function.split_once('#') else { continue };
            match in_contract(interface) {
                Some(short) if self.exports.contains(short) => _ = found.insert(short.to_owned()),
                _ => {
                    let points: Vec<&str> = self.exports.iter().map(String::as_str).collect();
                    let (before, after) = PACKAGE;
                    return Err(ForgeError::Export {
                        name: name.clone(),
                        help: format!("export interfaces of {before}…{after}: {}", points.join(", ")),
                    });
                }
            }
        }
        if found.is_empty() {
            Err(ForgeError::NoExports { help: "export an interface of the contract" })
        } else {
            Ok(found)
        }
    }

    /// The imported capabilities and the imports of WASI; anything else is refused.
    fn check_imports(
        &self,
        imports: &[(String, String)],
    ) -> Result<(BTreeSet<String>, BTreeSet<WasiImport>), ForgeError> {
        let (mut capabilities, mut wasi) = (BTreeSet::new(), BTreeSet::new());
        let adapter = read(preview1::ADAPTER)?;
        for (module, function) in imports {
            if let Some(short) = in_contract(module).filter(|short| self.imports.contains(*short)) {
                capabilities.insert(short.to_owned());
            } else if let Some(import) = in_wasi(module) {
                wasi.insert(import);
            } else if module == preview1::MODULE && adapter.exports.contains(function) {
                // The adapter brings what these need.
            } else {
                return Err(ForgeError::Import { module: module.clone(), function: function.clone() });
            }
        }
        Ok((capabilities, wasi))
    }
}

/// The interface's short name, if it is the contract's package at the contract's version.
fn in_contract(interface: &str) -> Option<&str> {
    interface.strip_prefix(PACKAGE.0)?.strip_suffix(PACKAGE.1)
}

fn in_wasi(module: &str) -> Option<WasiImport> {
    let (interface, version) = module.strip_prefix("wasi:")?.split_once('@')?;
    let (package, name) = interface.split_once('/')?;
    let text = WASI.iter().find(|(known, _)| *known == package)?.1;
    let known = text.lines().any(|line| line == format!("interface {name} {{"));
    let patch = version.strip_prefix("0.2.")?;
    let plain = !patch.is_empty() && patch.len() < 4 && patch.bytes().all(|byte| byte.is_ascii_digit());
    (known && plain).then(|| WasiImport { interface: interface.to_owned(), version: version.to_owned() })
}

fn world_text(
    exports: &BTreeSet<String>,
    capabilities: &BTreeSet<String>,
    wasi: &BTreeSet<WasiImport>,
) -> String {
    let (before, after) = PACKAGE;
    let mut text = String::from("package tandem:built;\nworld component {\n");
    for import in wasi {
        text.push_str(&format!("  import wasi:{}@{};\n", import.interface, import.version));
    }
    for name in capabilities {
        text.push_str(&format!("  import {before}{name}{after};\n"));
    }
    for name in exports {
        text.push_str(&format!("  export {before}{name}{after};\n"));
    }
    text.push_str("}\n");
    text
}

/// An error over what the forge itself has put together.
pub(super) fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ForgeError {
    encode_error(error, "this is a fault of the forge, not of the plugin")
}

/// The chain of causes without its general beginning.
fn encode_error(error: impl Into<Box<dyn std::error::Error + Send + Sync>>, help: &str) -> ForgeError {
    let error = error.into();
    let mut causes = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(inner) = cause {
        causes.push(inner.to_string());
        cause = inner.source();
    }
    causes.retain(|cause| cause != "failed to decode world from module" && cause != "module was not valid");
    ForgeError::Encode { reason: causes.join(": "), help: help.to_owned() }
}
