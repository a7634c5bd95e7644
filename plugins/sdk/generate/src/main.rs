//! Which Rust does the contract make? Reads a WIT file, writes the bindings.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator};
use wit_bindgen_rust::Opts;

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(wit), Some(output), None) = (arguments.next(), arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: generate-bindings WIT OUTPUT");
    };
    let text = std::fs::read_to_string(&wit).with_context(|| format!("reading {}", wit.display()))?;
    let bindings = generate(&wit, &text)?;
    std::fs::write(&output, bindings).with_context(|| format!("writing {}", output.display()))
}

fn generate(path: &Path, text: &str) -> Result<String> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str(path, text)?;
    let world = resolve.select_world(&[package], Some("plugin"))?;
    let options = Opts {
        format: true,
        runtime_path: Some("crate::rt".into()),
        pub_export_macro: true,
        default_bindings_module: Some("tandem_plugin::bindings".into()),
        additional_derive_attributes: vec!["PartialEq".into()],
        additional_type_attributes: ["usage", "budget", "context", "work-tree"]
            .map(|record| (format!("tandem:harness/types@0.1.0/{record}"), "#[derive(Default)]".into()))
            .into(),
        generate_unused_types: true,
        disable_custom_section_link_helpers: true,
        generate_all: true,
        ..Opts::default()
    };
    let mut files = Files::default();
    options.build().generate(&mut resolve, world, &mut files)?;
    let (_, bytes) = files.iter().next().context("nothing was generated")?;
    let code = std::str::from_utf8(bytes)?;
    // What follows serves plugins that export the whole world, and embeds that
    // world. No plugin does; the forge embeds what a plugin really exports.
    let end = code
        .find("/// Generates `#[unsafe(no_mangle)]` functions to export")
        .context("the world's `export!` macro is not where it was; adapt this cut to the new wit-bindgen")?;

    let digest: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let header = "// Generated from wit/harness.wit by plugins/sdk/generate.sh; do not edit.";
    Ok(format!("{header}\n// wit-sha256: {digest}\n{}", &code[..end]))
}
