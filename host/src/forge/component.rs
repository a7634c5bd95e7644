//! What does a component have that a language's own tool made?

use std::collections::BTreeSet;

use wasmparser::{Parser, Payload};

use super::componentize::{Componentized, Known};
use super::error::ForgeError;

/// Interfaces of the contract that hold types and no functions.
const TYPES: [&str; 2] = ["types", "workspace-types"];

/// Reads exports and grants of a component. Exports outside the contract are leftovers of
/// pre-initialisers, which no host calls; imports outside of it are refused.
///
/// # Errors
/// An import outside the contract, no export of the contract, or bytes that are no component.
pub(super) fn inspect(component: Vec<u8>) -> Result<Componentized, ForgeError> {
    let (mut imports, mut exports) = (Vec::new(), BTreeSet::new());
    let known = Known::contract()?;
    // Modules and components inside have imports and exports of their own.
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(&component) {
        match payload.map_err(broken)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let name = import.map_err(broken)?.name.name.to_owned();
                    imports.push((name, String::new()));
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    let name = export.map_err(broken)?.name.name;
                    exports.extend(known.exported(name).map(str::to_owned));
                }
            }
            _ => {}
        }
    }
    imports.retain(|(name, _)| !known.is_one_of(name, &TYPES));
    let grants = known.grants(&imports)?;
    if exports.is_empty() {
        return Err(ForgeError::NoExports { help: "export an interface of the contract" });
    }
    Ok(Componentized { component, exports: exports.into_iter().collect(), grants })
}

fn broken(error: wasmparser::BinaryReaderError) -> ForgeError {
    ForgeError::Encode {
        reason: format!("it is not a component: {} at byte {}", error.message(), error.offset()),
        help: "this is a fault of the forge, not of the plugin".into(),
    }
}
