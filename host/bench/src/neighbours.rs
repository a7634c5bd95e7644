//! While one plugin loops, how long do others on the same thread wait?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use measure::{Figure, Unit, tell, thread_nanoseconds};
use tandem_host::plugin::{Admitted, Context, Engine, PluginLimits};

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
    let before = runtime.block_on(call_times(&hook));
    let calling = hook.clone();
    let (waits, stopped) = runtime.block_on(async {
        let done = Arc::new(AtomicBool::new(false));
        let seen = done.clone();
        // The neighbour: a hook call, then its turn ends, over and over.
        let neighbour = tokio::spawn(async move {
            let (mut instance, context, mut waits) = (instance(&calling), context(), Vec::new());
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
    // Once the loops are over, nothing of them may be left: the same calls before and after.
    let after = runtime.block_on(call_times(&hook));
    let waits = waits?;
    if waits.is_empty() || stopped != LOOPS {
        bail!("{stopped} of {LOOPS} loops were stopped, and a neighbour waited {} times", waits.len());
    }
    let how = format!("{} waits during {LOOPS} loops of 1 s", waits.len());
    let (wall, own): (Vec<f64>, Vec<f64>) = waits.into_iter().unzip();
    tell(&Figure::of("neighbour/wait", "tandem", Unit::Nanoseconds, wall, &how));
    // What the thread itself ran in between: without the time that other processes took from it.
    tell(&Figure::of("neighbour/wait-of-the-thread", "tandem", Unit::Nanoseconds, own, &how));
    tell(&Figure::of("neighbour/call-before", "tandem", Unit::Nanoseconds, before, "batches of 100 calls"));
    tell(&Figure::of("neighbour/call-after", "tandem", Unit::Nanoseconds, after, "batches of 100 calls"));
    Ok(())
}

/// How long a call takes, batch by batch.
async fn call_times(hook: &Admitted) -> Vec<f64> {
    let (mut instance, context, mut times) = (instance(hook), context(), Vec::new());
    for _ in 0..2000 {
        let begun = Instant::now();
        for _ in 0..100 {
            if instance.on_model_call(&context).await.is_err() {
                return Vec::new();
            }
        }
        times.push(begun.elapsed().as_nanos() as f64 / 100.0);
    }
    times
}
