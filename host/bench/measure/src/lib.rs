//! How is a figure taken, and how does it travel from a contender's process to the report?

use std::time::Instant;

use serde::{Deserialize, Serialize};

/// One figure of one contender. Contenders print them as lines of JSON on standard output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// What was measured, such as `call/on-model-call`.
    pub id: String,
    /// Whose figure it is, such as `tandem` or `extism`.
    pub contender: String,
    /// Unit of the numbers.
    pub unit: Unit,
    pub median: f64,
    pub p90: f64,
    pub max: f64,
    /// How many samples the numbers come from, in words.
    pub samples: String,
}

/// What the numbers of a figure count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    Nanoseconds,
    Kibibytes,
    PerSecond,
    Percent,
}

/// Sends a figure to the report.
pub fn tell(figure: &Figure) {
    // Numbers and strings always have a JSON form.
    println!("{}", serde_json::to_string(figure).unwrap_or_default());
}

impl Figure {
    /// From samples in any order; there has to be one at least.
    pub fn of(id: &str, contender: &str, unit: Unit, mut samples: Vec<f64>, how: &str) -> Self {
        samples.sort_by(f64::total_cmp);
        let at = |share: f64| samples[((samples.len() - 1) as f64 * share).round() as usize];
        Self {
            id: id.to_owned(),
            contender: contender.to_owned(),
            unit,
            median: at(0.5),
            p90: at(0.9),
            max: at(1.0),
            samples: how.to_owned(),
        }
    }

    /// A single number.
    pub fn one(id: &str, contender: &str, unit: Unit, value: f64, how: &str) -> Self {
        Self::of(id, contender, unit, vec![value], how)
    }
}

/// Nanoseconds that one run of `work` takes.
pub fn nanoseconds<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let value = work();
    (value, start.elapsed().as_nanos() as f64)
}

/// Nanoseconds that this thread ran so far.
pub fn thread_nanoseconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a plain system call on a local value.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Seconds of processors that this process used so far, and those of its ended children.
pub fn processor_seconds() -> (f64, f64) {
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let of = |who| {
        // SAFETY: zeros are a value of this plain struct.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: a plain system call on a local value.
        unsafe { libc::getrusage(who, &mut usage) };
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    (of(libc::RUSAGE_SELF), of(libc::RUSAGE_CHILDREN))
}

/// Short work, `batch` times between two looks at the clock; a sample is the mean of a batch.
/// A fifth as many batches go before, unmeasured.
pub fn batches(id: &str, contender: &str, count: usize, batch: usize, mut work: impl FnMut()) -> Figure {
    let mut sample = || {
        let ((), time) = nanoseconds(|| (0..batch).for_each(|_| work()));
        time / batch as f64
    };
    (0..count / 5).for_each(|_| {
        sample();
    });
    let samples = (0..count).map(|_| sample()).collect();
    Figure::of(id, contender, Unit::Nanoseconds, samples, &format!("{count} batches of {batch}"))
}

/// Memory that is this process's alone and was written to, in KiB: what it really costs. From
/// `/proc/self/smaps_rollup`; none on a system without it.
pub fn dirty_kib() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Private_Dirty:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// What one of `count` things costs that `make` leaves alive, in KiB of dirty memory.
pub fn memory<T>(
    id: &str,
    contender: &str,
    count: usize,
    mut make: impl FnMut(usize) -> T,
) -> Option<Figure> {
    // The first ones pay for what all share.
    let mut alive: Vec<T> = (0..4).map(&mut make).collect();
    let before = dirty_kib()?;
    alive.extend((0..count).map(|index| make(index + 4)));
    let each = (dirty_kib()? - before) / count as f64;
    drop(alive);
    Some(Figure::one(id, contender, Unit::Kibibytes, each, &format!("{count} alive at once")))
}
