//! How much memory is really an idle instance's own?

use anyhow::{Context as _, Result, bail};
use measure::{memory, tell};

use crate::calls::context;
use crate::guests::{self, Guests, now};
use crate::starts::instance;

/// Prints the figure of a language, measured in a process that did nothing else.
pub fn run(language: &str, guests: &Guests) -> Result<()> {
    let Some(component) = guests.hook(language) else { bail!("the {language} guest is not built") };
    let engine = guests::engine()?;
    let admitted = guests::admitted(&engine, &component)?;
    let context = context();
    let count = match language {
        "rust" => 5000,
        _ => 200,
    };
    // Started and called once: what an episode keeps while its policy thinks.
    let mut broken = None;
    let figure = memory(&format!("memory/{language}"), "tandem", count, |_| {
        let mut instance = instance(&admitted);
        if let Err(fault) = now(instance.on_model_call(&context)) {
            broken = Some(fault);
        }
        instance
    });
    if let Some(fault) = broken {
        bail!("an instance of the {language} guest failed: it {fault}");
    }
    tell(&figure.context("this system has no /proc/self/smaps_rollup")?);
    Ok(())
}
