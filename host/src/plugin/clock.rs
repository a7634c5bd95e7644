//! Who stops a guest that does not come back? One thread ticks for all guests of an engine and
//! wakes calls whose time is over. No async runtime is needed for either.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use wasmtime::EngineWeak;

use super::state::lock;

/// Length of one tick. A guest gives way to others after each, and its own time is counted in
/// them.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// The clock of an engine; its thread ends with it.
pub(super) struct Clock(Arc<Shared>);

struct Shared {
    engines: Vec<EngineWeak>,
    timers: Mutex<BTreeMap<(Instant, u64), Waker>>,
    next: AtomicU64,
    /// Whether the thread runs.
    ticking: AtomicBool,
    stop: AtomicBool,
}

impl Clock {
    /// A clock that ticks for `engines`.
    pub fn start(engines: Vec<EngineWeak>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            engines,
            timers: Mutex::default(),
            next: AtomicU64::new(0),
            ticking: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let clock = Self(shared);
        clock.spawn()?;
        Ok(clock)
    }

    /// Starts the thread again if it died. Without ticks a looping guest is stopped by fuel
    /// alone and lets nobody else run until then.
    pub fn check(&self) {
        if !self.0.ticking.load(Ordering::Relaxed)
            && let Err(error) = self.spawn()
        {
            tracing::warn!("the clock of the plugin engine cannot be started again: {error}");
        }
    }

    fn spawn(&self) -> std::io::Result<()> {
        if self.0.ticking.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let shared = self.0.clone();
        let spawned = std::thread::Builder::new().name("plugin-clock".to_owned()).spawn(move || {
            // Said however the thread ends, by a panic of a foreign waker too.
            let _dead = OnDrop(&shared.ticking);
            while !shared.stop.load(Ordering::Relaxed) {
                for engine in &shared.engines {
                    if let Some(engine) = engine.upgrade() {
                        engine.increment_epoch();
                    }
                }
                shared.wake();
                std::thread::sleep(TICK);
            }
        });
        if spawned.is_err() {
            self.0.ticking.store(false, Ordering::Release);
        }
        spawned.map(|_| ())
    }

    /// The answer of `work`, or none when it is not there `limit` after the first wait.
    pub async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let mut timer = None;
        poll_fn(|context| {
            if let Poll::Ready(answer) = work.as_mut().poll(context) {
                return Poll::Ready(Some(answer));
            }
            // Most work never waits and never needs a timer.
            let timer = timer.get_or_insert_with(|| Timer::new(&self.0, limit));
            match timer.is_over(context.waker()) {
                true => Poll::Ready(None),
                false => Poll::Pending,
            }
        })
        .await
    }

    /// Ends the thread as a panic would.
    #[cfg(test)]
    pub fn kill(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
        while self.0.ticking.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        self.0.stop.store(false, Ordering::Relaxed);
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    /// Wakes every timer that is over.
    fn wake(&self) {
        let now = Instant::now();
        let later = {
            let mut timers = lock(&self.timers);
            match timers.first_key_value() {
                Some(((at, _), _)) if *at <= now => {}
                _ => return,
            }
            let later = timers.split_off(&(now, u64::MAX));
            std::mem::replace(&mut *timers, later)
        };
        for waker in later.into_values() {
            waker.wake();
        }
    }
}

struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

struct Timer<'a> {
    shared: &'a Shared,
    key: (Instant, u64),
}

impl<'a> Timer<'a> {
    fn new(shared: &'a Shared, limit: Duration) -> Self {
        let id = shared.next.fetch_add(1, Ordering::Relaxed);
        Self { shared, key: (Instant::now() + limit, id) }
    }

    /// Whether it is over; if not, `waker` is woken when it is.
    fn is_over(&self, waker: &Waker) -> bool {
        if Instant::now() >= self.key.0 {
            return true;
        }
        lock(&self.shared.timers).insert(self.key, waker.clone());
        false
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        lock(&self.shared.timers).remove(&self.key);
    }
}
