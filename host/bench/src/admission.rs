//! How long does admission take, with compilation and without?

use std::ffi::OsString;

use anyhow::Result;
use measure::{Figure, Unit, nanoseconds, tell};
use tandem_host::plugin::{AdmissionOptions, CompileIn, Grants, admit};

use crate::guests::{self, Guests};

const ROUNDS: usize = 30;

pub fn run(guests: &Guests) -> Result<()> {
    let runtime = guests::runtime()?;
    // The first-party plugin that is nearest to 50 kB.
    let component = guests.component("budget-warning")?;
    let grants = Grants::default();
    let program = std::env::current_exe()?;
    let child = CompileIn::Child { program, args: vec![OsString::from("compile")] };
    for (id, place) in [("child", child), ("in-process", CompileIn::ThisProcess)] {
        let options = AdmissionOptions { compile_in: place, ..AdmissionOptions::default() };
        let mut samples = Vec::new();
        for _ in 0..ROUNDS {
            // A new engine knows no component.
            let engine = guests::engine()?;
            let (admitted, time) =
                nanoseconds(|| runtime.block_on(admit(&engine, &component, &grants, &options)));
            admitted?;
            samples.push(time);
        }
        let how = format!("{ROUNDS} admissions, {} bytes", component.len());
        tell(&Figure::of(&format!("admission/cold-{id}"), "tandem", Unit::Nanoseconds, samples, &how));
    }
    Ok(())
}
