//! How long from source to an admitted component, in each language? `make bench-forge` writes
//! `docs/benchmarks-forge.md`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use pollster::block_on;
use tandem_host::forge::{Forge, ForgeConfig, ForgeError, Language, Source};
use tandem_host::plugin::{AdmissionOptions, CodeCache, CompileIn, Engine, EngineConfig, Grants, admit};

use crate::machine;

/// Builds of each language that are measured, each of a text of its own.
const ROUNDS: usize = 7;

/// Seconds from text to admitted component that a language may take.
fn goal(language: Language) -> Option<f64> {
    match language {
        Language::Rust => Some(0.8),
        Language::JavaScript => Some(3.0),
        Language::Python => Some(10.0),
        _ => None,
    }
}

pub fn run(examples: &Path, cache: &Path, out: &Path) -> Result<()> {
    let machine = machine::lines();
    // A cache that knows nothing, so that the first build of each language is the first.
    let scratch = tempfile::Builder::new().prefix("forge-").tempdir_in(cache)?;
    let forge = Forge::new(ForgeConfig::new(scratch.path()))?;
    let program = std::env::current_exe()?;
    let compile_in = CompileIn::Child { program, args: vec![OsString::from("compile")] };
    let admission = AdmissionOptions { compile_in, ..AdmissionOptions::default() };

    let mut rows = String::new();
    for language in Language::ALL {
        let file = language.file_name("plugin");
        let path = examples.join(language.name()).join(&file);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let mark = if language == Language::Python { "#" } else { "//" };
        let source =
            |round: usize| Source::File { name: file.clone(), text: format!("{text}\n{mark} {round}\n") };
        let start = Instant::now();
        match forge.build(&source(0)) {
            Ok(_) => {}
            Err(ForgeError::Toolchain { what, .. }) => {
                eprintln!("{language} is left out: {what}");
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        let first = start.elapsed().as_secs_f64();
        let (mut builds, mut totals, mut size, mut admitted_first) = (Vec::new(), Vec::new(), 0, 0.0);
        // The first one has to compile everything; it is no part of the medians.
        for round in 0..=ROUNDS {
            // A new engine knows no component, and the cache none of this text.
            let code_cache = Some(CodeCache::open(scratch.path().join("code"))?);
            let engine = Engine::with(EngineConfig { code_cache, ..EngineConfig::default() })?;
            let start = Instant::now();
            let built = forge.build(&source(round))?;
            ensure!(built.reused == (round == 0), "the build of another text was reused");
            let build = start.elapsed().as_secs_f64();
            let grants = Grants::parse(&built.grants)?;
            block_on(admit(&engine, &built.component, &grants, &admission))?;
            let total = start.elapsed().as_secs_f64();
            match round {
                0 => admitted_first = total,
                _ => {
                    builds.push(build);
                    totals.push(total);
                }
            }
            size = built.component.len();
        }
        let start = Instant::now();
        ensure!(forge.build(&source(1))?.reused, "the same text was built twice");
        let again = start.elapsed().as_secs_f64();
        let (build, total) = (median(&mut builds), median(&mut totals));
        let (wanted, met) = match goal(language) {
            Some(goal) => (format!("≤ {goal} s"), if total <= goal { "yes" } else { "**no**" }),
            None => (String::new(), ""),
        };
        writeln!(
            rows,
            "| {language} | {wanted} | {total:.2} s | {met} | {build:.2} s | {first:.1} s | {admitted_first:.1} s | {:.1} ms | {} kB |",
            again * 1e3,
            size.div_ceil(1000)
        )?;
        eprintln!("{language}: {total:.2} s from text to admitted component");
    }
    std::fs::write(out, page(&machine, &rows))?;
    Ok(())
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn page(machine: &[(&'static str, String)], rows: &str) -> String {
    let mut page = String::from(
        "# From source to component\n\nWritten by `make bench-forge`, in one run. Each language builds its example of \
         [`examples/plugins`](../examples/plugins) in the sandbox of the forge; admission compiles in a process of its \
         own, which has the functions that the builds before it had.\n\n|  |  |\n|---|---|\n",
    );
    for (what, which) in machine.iter().filter(|(what, _)| !["extism", "python3"].contains(what)) {
        page += &format!("| {what} | {which} |\n");
    }
    page += "\n| language | goal | text to admitted component | met | of that the build | first build | first admission | the same text again | component |\n";
    page += "|---|---|---|---|---|---|---|---|---|\n";
    page += rows;
    page += &format!(
        "\nMedians of {ROUNDS} builds, each of a text of its own. The first build of a language also prepares what it \
         needs once: the SDK, the standard library, a digest of the compiler. \
         The first admission compiles all of a component; those after it take the functions that did not \
         change, such as the interpreter's, from the code cache.\n"
    );
    page
}
