//! How long does the host need to stop a hostile guest? Five that stand for the rest; the tests
//! of `host/src/plugin` have all of them.

use anyhow::{Result, bail};
use measure::{Figure, Unit, nanoseconds, tell};
use tandem_host::plugin::Context;

use crate::calls::context;
use crate::guests::{self, Guests, now};
use crate::starts::instance;

/// The turn in which `guests/hostile.rs` loops for ever.
pub const LOOP: u32 = 1001;
/// What it does in the turns from [`LOOP`] on, as in its source.
const DEEDS: [&str; 6] = ["endless-loop", "recursion", "memory", "long-answer", "log-flood", "panic"];
const ROUNDS: usize = 20;

pub fn run(guests: &Guests) -> Result<()> {
    let engine = guests::engine()?;
    let hostile = guests::admitted(&engine, &guests.component("hostile")?)?;
    for (turn, deed) in (LOOP..).zip(DEEDS) {
        let context = Context { turn, ..context() };
        let mut samples = Vec::new();
        for _ in 0..ROUNDS {
            let mut instance = instance(&hostile);
            now(instance.prepare())?;
            let (answer, time) = nanoseconds(|| now(instance.on_model_call(&context)));
            match (answer, deed) {
                // Lines past the cap are dropped; the guest is not stopped for them.
                (Ok(_), "log-flood") | (Err(_), _) => samples.push(time),
                (Ok(answer), _) => bail!("the hostile guest was not stopped at {deed}: {answer:?}"),
            }
        }
        let id = format!("hostile/{deed}");
        tell(&Figure::of(&id, "tandem", Unit::Nanoseconds, samples, &format!("{ROUNDS} times")));
    }
    Ok(())
}
