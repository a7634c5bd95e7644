//! How long does admission take, with compilation and without?

use std::ffi::OsString;

use anyhow::{Result, ensure};
use measure::{Figure, Unit, nanoseconds, tell};
use pollster::block_on;
use tandem_host::plugin::{AdmissionOptions, CodeCache, CompileIn, Engine, EngineConfig, Grants, admit};

use crate::guests::{self, Guests};

const ROUNDS: usize = 30;

pub fn run(guests: &Guests) -> Result<()> {
    // The first-party plugin that is nearest to 50 kB.
    let component = guests.component("budget-warning")?;
    let grants = Grants::none();
    let program = std::env::current_exe()?;
    let child = CompileIn::Child { program, args: vec![OsString::from("compile")] };
    for (id, place) in [("child", child), ("in-process", CompileIn::ThisProcess)] {
        let options = AdmissionOptions { compile_in: place, ..AdmissionOptions::default() };
        let mut samples = Vec::new();
        for _ in 0..ROUNDS {
            // A new engine knows no component.
            let engine = guests::engine()?;
            let (admitted, time) = nanoseconds(|| block_on(admit(&engine, &component, &grants, &options)));
            admitted?;
            samples.push(time);
        }
        let how = format!("{ROUNDS} admissions, {} bytes", component.len());
        tell(&Figure::of(&format!("admission/cold-{id}"), "tandem", Unit::Nanoseconds, samples, &how));
    }

    // A program that starts again finds the native code of its last run.
    let dir = tempfile::tempdir()?;
    let mut samples = Vec::new();
    for round in 0..=ROUNDS {
        let code_cache = Some(CodeCache::open(dir.path())?);
        let engine = Engine::with(EngineConfig { code_cache, ..EngineConfig::default() })?;
        let options = AdmissionOptions::default();
        let (admitted, time) = nanoseconds(|| block_on(admit(&engine, &component, &grants, &options)));
        admitted?;
        if round > 0 {
            ensure!(engine.compiled() == 0, "the code cache did not have the component");
            samples.push(time);
        }
    }
    let how = format!("{ROUNDS} admissions, {} bytes", component.len());
    tell(&Figure::of("admission/code-cache", "tandem", Unit::Nanoseconds, samples, &how));
    Ok(())
}
