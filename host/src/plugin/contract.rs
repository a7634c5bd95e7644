//! Do the bytes of a component keep to the contract: what do they export, what do they import?

use tokio::sync::oneshot;
use wasmparser::{Encoding, Parser, Payload, Validator, WasmFeatures};

use super::admission::{AdmissionError, Step};
use super::fault::spelled;
use super::grants::{Capability, Grants};
use super::points::HookPoint;
use super::wasi;
use crate::store::Digest;

/// Version of the package `tandem:harness` that this host speaks.
const VERSION: &str = "0.1.0";
/// The export that is no point: admission asks it once for a schema.
pub(super) const SETTINGS_SCHEMA: &str = "settings-schema";
/// Interfaces of the contract that every plugin may import: types, and the text of a fault.
const WITHOUT_GRANT: [&str; 3] = ["types", "workspace-types", "failure"];

/// What a component exports and imports, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Surface {
    /// Points of the contract, in its order.
    pub exports: Vec<HookPoint>,
    /// Whether it exports [`SETTINGS_SCHEMA`].
    pub settings_schema: bool,
    /// Capabilities of the contract.
    pub capabilities: Vec<Capability>,
    /// All imports as they are written.
    pub imports: Vec<String>,
}

/// Levels of components in components.
const NESTING: usize = 32;
/// Everything but code, data and custom sections, in bytes. The validator keeps what it reads of
/// these in memory, many times as large; a Python in a component has some hundred kilobytes.
const DECLARATIONS: usize = 4 << 20;
/// Characters of a name or message that an error repeats.
const SHOWN: usize = 200;

/// Parses and validates, then checks every import and export against the contract. Off the
/// threads that drive episodes, since megabytes take a while.
pub(super) async fn surface(digest: Digest, bytes: &[u8]) -> Result<Surface, AdmissionError> {
    let (surface, reasons) = surface_and_reasons(digest, bytes).await?;
    reasons.into_iter().next().map_or(Ok(surface), Err)
}

/// The same with everything that is not as in the contract; without that, the surface is not
/// whole. The error is about what comes before: bytes that cannot be read.
pub(super) async fn surface_and_reasons(
    digest: Digest,
    bytes: &[u8],
) -> Result<(Surface, Vec<AdmissionError>), AdmissionError> {
    let (bytes, (answer, answered)) = (bytes.to_vec(), oneshot::channel());
    let reader = std::thread::Builder::new().name("plugin-reader".to_owned());
    // Nobody may wait any more: then the answer is for nobody.
    let spawned = reader.spawn(move || drop(answer.send(read_surface(digest, &bytes))));
    let broke = |why: String| AdmissionError {
        step: Step::Parse,
        plugin: digest,
        what: format!("cannot be read: {why}"),
        help: "build it again".to_owned(),
    };
    spawned.map_err(|error| broke(format!("no thread for the parser: {error}")))?;
    answered.await.unwrap_or_else(|_| Err(broke("the parser broke down".to_owned())))
}

fn read_surface(digest: Digest, bytes: &[u8]) -> Result<(Surface, Vec<AdmissionError>), AdmissionError> {
    let fail = |step, what: String, help: String| AdmissionError { step, plugin: digest, what, help };
    kind(bytes).map_err(|(what, help)| fail(Step::Parse, what.to_owned(), help.to_owned()))?;
    shape(bytes).map_err(|(what, help)| fail(Step::Parse, what, help.to_owned()))?;
    Validator::new_with_features(features()).validate_all(bytes).map_err(|error| {
        let what = format!(
            "is not a valid component: {} (at byte {})",
            spelled(error.message(), SHOWN),
            error.offset()
        );
        fail(Step::Parse, what, "build it again; the file may be cut or use a feature that is off".into())
    })?;
    let (imports, exports) = names(bytes).map_err(|error| {
        fail(Step::Parse, format!("cannot be read: {error}"), "build it again".to_owned())
    })?;

    let mut surface = Surface { imports, ..Surface::default() };
    let mut reasons = Vec::new();
    for export in &exports {
        match harness_interface(export) {
            None => continue,
            Some((SETTINGS_SCHEMA, VERSION)) => surface.settings_schema = true,
            Some((name, version)) => match HookPoint::named(name) {
                Some(point) if version == VERSION => surface.exports.push(point),
                Some(_) => {
                    let export = spelled(export, SHOWN);
                    let what = format!("exports `{export}`, but the contract is version {VERSION}");
                    reasons.push(fail(Step::Contract, what, other_version()));
                }
                None => {
                    let export = spelled(export, SHOWN);
                    let what = format!("exports `{export}`, which is no point of the contract");
                    reasons.push(fail(Step::Contract, what, format!("the points are {}", points())));
                }
            },
        }
    }
    surface.exports.sort();
    if surface.exports.is_empty() && reasons.is_empty() {
        let what = "exports no point of the contract".to_owned();
        reasons.push(fail(Step::Contract, what, format!("export at least one of {}", points())));
    }
    for import in &surface.imports {
        let Some((name, version)) = harness_interface(import) else {
            if is_linked_wasi(import) {
                continue;
            }
            let shown = spelled(import, SHOWN);
            let what = format!("imports `{shown}`, which no plugin gets");
            reasons.push(fail(Step::Contract, what, instead_of(import)));
            continue;
        };
        if version != VERSION {
            let import = spelled(import, SHOWN);
            let what = format!("imports `{import}`, but the contract is version {VERSION}");
            reasons.push(fail(Step::Contract, what, other_version()));
            continue;
        }
        match name.parse::<Capability>() {
            Ok(capability) => surface.capabilities.push(capability),
            Err(_) if WITHOUT_GRANT.contains(&name) => {}
            Err(_) => {
                let import = spelled(import, SHOWN);
                let what = format!("imports `{import}`, which is no capability of the contract");
                let help = format!("the capabilities are {}", Grants::all());
                reasons.push(fail(Step::Contract, what, help));
            }
        }
    }
    surface.capabilities.sort();
    Ok((surface, reasons))
}

/// Refuses an import that was not granted, with the line to add.
pub(super) fn check_grants(digest: Digest, surface: &Surface, grants: &Grants) -> Result<(), AdmissionError> {
    missing_grants(digest, surface, grants).into_iter().next().map_or(Ok(()), Err)
}

/// The same for every such import.
pub(super) fn missing_grants(digest: Digest, surface: &Surface, grants: &Grants) -> Vec<AdmissionError> {
    let needed = grants.iter().chain(surface.capabilities.iter().copied()).collect::<Grants>();
    let missing = surface.capabilities.iter().filter(|wanted| !grants.has(**wanted));
    let reasons = missing.map(|missing| AdmissionError {
        step: Step::Grants,
        plugin: digest,
        what: format!("imports `tandem:harness/{missing}@{VERSION}` without the grant `{missing}`"),
        help: format!(
            "put `grants = {}` into the plugin's entry in the harness manifest, or build the plugin without it",
            needed.to_toml()
        ),
    });
    reasons.collect()
}

/// What the bytes are when they are no component: what and help.
fn kind(bytes: &[u8]) -> Result<(), (&'static str, &'static str)> {
    const BUILD: &str = "build it for the target `wasm32-wasip2`, which makes a component";
    if bytes.is_empty() {
        return Err(("is empty", BUILD));
    }
    if wasmtime::Engine::detect_precompiled(bytes).is_some() {
        return Err((
            "is precompiled native code",
            "give the `.wasm` file; native code from outside is never loaded",
        ));
    }
    if !bytes.starts_with(b"\0asm") {
        return Err(("is not WebAssembly", BUILD));
    }
    if Parser::is_core_wasm(bytes) {
        return Err((
            "is a core module, not a component",
            "build it for the target `wasm32-wasip2`, or let the forge componentise it",
        ));
    }
    Ok(())
}

/// Refuses what no plugin needs and a validator would spend much memory on: what and help.
fn shape(bytes: &[u8]) -> Result<(), (String, &'static str)> {
    let (mut depth, mut declared) = (0_usize, 0_usize);
    for payload in Parser::new(0).parse_all(bytes) {
        // The validator says better what is wrong.
        let Ok(payload) = payload else { return Ok(()) };
        match &payload {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CodeSectionStart { .. } | Payload::DataSection(_) | Payload::CustomSection(_) => {}
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {}
            _ => declared += payload.as_section().map_or(0, |(_, range)| range.len()),
        }
        if depth > NESTING {
            let what = format!("has components in components, more than {NESTING} deep");
            return Err((what, "a plugin is one component with its modules in it"));
        }
        if declared > DECLARATIONS {
            let what = format!(
                "has more than {DECLARATIONS} bytes of types, imports, exports and other declarations"
            );
            return Err((what, "strip debug information; generated declarations are the usual cause"));
        }
    }
    Ok(())
}

/// What a guest may use. Kept in step with the settings in `engine`, which has more memories
/// than one on for code of its own.
fn features() -> WasmFeatures {
    let off = WasmFeatures::THREADS
        | WasmFeatures::SHARED_EVERYTHING_THREADS
        | WasmFeatures::MULTI_MEMORY
        | WasmFeatures::MEMORY64
        | WasmFeatures::EXCEPTIONS
        | WasmFeatures::GC
        | WasmFeatures::FUNCTION_REFERENCES
        | WasmFeatures::CM_ASYNC;
    WasmFeatures::default() & !off
}

/// Names of the imports and exports at the top of a component.
fn names(bytes: &[u8]) -> wasmparser::Result<(Vec<String>, Vec<String>)> {
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { encoding: Encoding::Component | Encoding::Module, .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    exports.push(export?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok((imports, exports))
}

/// `log` and `0.1.0` of `tandem:harness/log@0.1.0`.
fn harness_interface(name: &str) -> Option<(&str, &str)> {
    let rest = name.strip_prefix("tandem:harness/")?;
    Some(rest.split_once('@').unwrap_or((rest, "")))
}

fn is_linked_wasi(import: &str) -> bool {
    let (name, version) = import.split_once('@').unwrap_or((import, ""));
    wasi::INTERFACES.contains(&name) && version.starts_with("0.2.")
}

/// What to do instead of an import that no plugin gets.
fn instead_of(import: &str) -> String {
    let package = import.split('/').next().unwrap_or(import);
    match package {
        "wasi:filesystem" => {
            "files of the task are reached through `tandem:harness/workspace-read` and `tandem:harness/workspace-write`; remove what opens files itself"
        }
        "wasi:sockets" | "wasi:http" | "wasi:tls" => "a plugin has no network; remove what uses it",
        "wasi:cli" | "wasi:io" | "wasi:clocks" | "wasi:random" => {
            "of these WASI packages only version 0.2 is there; build for the target `wasm32-wasip2`"
        }
        _ => "a plugin may import the capabilities of `tandem:harness` and WASI 0.2 cli, io, clocks and random",
    }
    .to_owned()
}

fn other_version() -> String {
    format!("build the plugin against `tandem:harness@{VERSION}`")
}

fn points() -> String {
    let names: Vec<_> = HookPoint::ALL.iter().map(|point| format!("`{}`", point.name())).collect();
    names.join(", ")
}
