//! While one plugin loops, how long do others on the same thread wait?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use measure::{Figure, Unit, tell, thread_nanoseconds};
use tandem_host::plugin::{Context, Engine, PluginLimits};

use crate::calls::context;
use crate::guests::{self, Guests};
use crate::starts::instance;

const LOOPS: usize = 5;

pub fn run(guests: &Guests) -> Result<()> {
    // Fuel that lasts past the deadline, so that one loop is as long as it can be.
    let limits =
        PluginLimits { fuel_hook: 1 << 50, deadline_hook: Duration::from_secs(1), ..PluginLimits::default() };
    let engine = Engine::new(limits)?;
    let looping = guests::admitted(&engine, &guests.component("hostile")?)?;
    let hook = guests::admitted(&engine, &guests.component("rust-0")?)?;
    let runtime = guests::runtime()?;
    let (waits, stopped) = runtime.block_on(async {
        let done = Arc::new(AtomicBool::new(false));
        let seen = done.clone();
        // The neighbour: a hook call, then its turn ends, over and over.
        let neighbour = tokio::spawn(async move {
            let (mut instance, context, mut waits) = (instance(&hook), context(), Vec::new());
            while !seen.load(Ordering::Relaxed) {
                let (asked, ran) = (Instant::now(), thread_nanoseconds());
                tokio::task::yield_now().await;
                waits.push((asked.elapsed().as_nanos() as f64, thread_nanoseconds() - ran));
                if instance.on_model_call(&context).await.is_err() {
                    return Vec::new();
                }
            }
            waits
        });
        let mut stopped = 0;
        for _ in 0..LOOPS {
            let turn = Context { turn: crate::hostile::LOOP, ..context() };
            stopped += usize::from(instance(&looping).on_model_call(&turn).await.is_err());
        }
        done.store(true, Ordering::Relaxed);
        (neighbour.await, stopped)
    });
    let waits = waits?;
    if waits.is_empty() || stopped != LOOPS {
        bail!("{stopped} of {LOOPS} loops were stopped, and a neighbour waited {} times", waits.len());
    }
    let how = format!("{} waits during {LOOPS} loops of 1 s", waits.len());
    let (wall, own): (Vec<f64>, Vec<f64>) = waits.into_iter().unzip();
    tell(&Figure::of("neighbour/wait", "tandem", Unit::Nanoseconds, wall, &how));
    // What the thread itself ran in between: without the time that other processes took from it.
    tell(&Figure::of("neighbour/wait-of-the-thread", "tandem", Unit::Nanoseconds, own, &how));
    Ok(())
}
