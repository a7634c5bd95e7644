//! What does a fresh instance of an admitted plugin cost, and what its first call?

use std::sync::Arc;

use anyhow::Result;
use measure::{Figure, Unit, nanoseconds, tell};
use tandem_host::plugin::{Admitted, Instance, InstanceConfig, NoWorkspace};

use crate::calls::context;
use crate::guests::{self, Guests, LANGUAGES, now};

const ME: &str = "tandem";

/// A plugin for an episode, not started.
pub fn instance(admitted: &Admitted) -> Instance {
    let config = InstanceConfig { settings: "{}".into(), seed: 1, workspace: Arc::new(NoWorkspace) };
    Instance::new(admitted, config)
}

pub fn run(guests: &Guests) -> Result<()> {
    let engine = guests::engine()?;
    let context = context();
    for language in LANGUAGES {
        let Some(component) = guests.hook(language) else { continue };
        let admitted = guests::admitted(&engine, &component)?;
        let count = if language == "rust" { 5000 } else { 1000 };
        let (mut starts, mut firsts) = (Vec::new(), Vec::new());
        for round in 0..count + count / 5 {
            let mut fresh = instance(&admitted);
            let (started, start) = nanoseconds(|| now(fresh.prepare()));
            started?;
            let (answer, first) = nanoseconds(|| now(fresh.on_model_call(&context)));
            answer?;
            if round >= count / 5 {
                starts.push(start);
                firsts.push(first);
            }
        }
        let figure = |id: String, samples| {
            Figure::of(&id, ME, Unit::Nanoseconds, samples, &format!("{count} instances"))
        };
        tell(&figure(format!("start/{language}"), starts));
        tell(&figure(format!("first-call/{language}"), firsts));
    }
    Ok(())
}
