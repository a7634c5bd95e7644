//! What do plugins cost? Counts what the host's meters say, in memory, and keeps it beside a
//! run, where `tandem harness stats` reads it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use serde::{Deserialize, Serialize};
use tandem_host::store::write_whole;

/// The file in a run's folder.
const FILE: &str = "stats.json";

/// A recorder of the `metrics` facade that keeps everything in memory.
#[derive(Clone, Default)]
pub struct Stats(Arc<Registry>);

#[derive(Default)]
struct Registry {
    counters: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    /// Bits of an f64, as the facade hands them on.
    gauges: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    histograms: Mutex<BTreeMap<String, Arc<Buckets>>>,
}

/// What was counted so far, as it is written to disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    pub counters: BTreeMap<String, u64>,
    pub gauges: BTreeMap<String, f64>,
    pub histograms: BTreeMap<String, Distribution>,
}

/// Values by size: how many are in each bucket. A bucket is 9 % wide.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    pub sum: f64,
    pub buckets: BTreeMap<u64, u64>,
}

impl Stats {
    /// Takes all metrics of this process from now on, on top of those of earlier processes of
    /// the same run.
    pub fn install(run: &Path) -> Result<Self> {
        let stats = Self::default();
        if let Some(before) = Snapshot::read(run)? {
            stats.add(&before);
        }
        // Only a test has another one already, and that one counts as well.
        let _ = metrics::set_global_recorder(stats.clone());
        Ok(stats)
    }

    fn add(&self, before: &Snapshot) {
        for (name, count) in &before.counters {
            entry(&self.0.counters, name).fetch_add(*count, Relaxed);
        }
        for (name, distribution) in &before.histograms {
            let buckets = entry(&self.0.histograms, name);
            buckets.add_sum(distribution.sum);
            for (bucket, count) in &distribution.buckets {
                buckets.count(*bucket, *count);
            }
        }
    }

    /// What was counted so far.
    pub fn snapshot(&self) -> Snapshot {
        fn all<T, U>(of: &Mutex<BTreeMap<String, Arc<T>>>, read: impl Fn(&T) -> U) -> BTreeMap<String, U> {
            let map = of.lock().unwrap_or_else(PoisonError::into_inner);
            map.iter().map(|(name, value)| (name.clone(), read(value))).collect()
        }
        Snapshot {
            counters: all(&self.0.counters, |count| count.load(Relaxed)),
            gauges: all(&self.0.gauges, |bits| f64::from_bits(bits.load(Relaxed))),
            histograms: all(&self.0.histograms, Buckets::read),
        }
    }
}

fn entry<T: Default>(of: &Mutex<BTreeMap<String, Arc<T>>>, name: &str) -> Arc<T> {
    let mut map = of.lock().unwrap_or_else(PoisonError::into_inner);
    map.entry(name.to_owned()).or_default().clone()
}

/// `name{point="on-submit"}`, as Prometheus writes it.
fn name(key: &Key) -> String {
    let labels: Vec<_> = key.labels().map(|label| format!("{}=\"{}\"", label.key(), label.value())).collect();
    match labels.is_empty() {
        true => key.name().to_owned(),
        false => format!("{}{{{}}}", key.name(), labels.join(",")),
    }
}

impl Recorder for Stats {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(entry(&self.0.counters, &name(key)))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(entry(&self.0.gauges, &name(key)))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(entry(&self.0.histograms, &name(key)))
    }
}

/// Eight buckets for each power of two, from 2^-32 to 2^64.
struct Buckets {
    sum: AtomicU64,
    counts: Vec<AtomicU64>,
}

const LOWEST: i64 = -32;
const POWERS: u64 = 96;

impl Default for Buckets {
    fn default() -> Self {
        let counts = (0..POWERS * 8).map(|_| AtomicU64::new(0)).collect();
        Self { sum: AtomicU64::new(0), counts }
    }
}

impl Buckets {
    fn count(&self, bucket: u64, times: u64) {
        let last = self.counts.len() - 1;
        let index = usize::try_from(bucket).unwrap_or(last).min(last);
        self.counts[index].fetch_add(times, Relaxed);
    }

    fn add_sum(&self, value: f64) {
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        let _ = self.sum.fetch_update(Relaxed, Relaxed, add);
    }

    fn read(&self) -> Distribution {
        let counts = self.counts.iter().map(|count| count.load(Relaxed)).enumerate();
        let buckets = counts.filter(|(_, count)| *count > 0).map(|(index, count)| (index as u64, count));
        Distribution { sum: f64::from_bits(self.sum.load(Relaxed)), buckets: buckets.collect() }
    }
}

impl metrics::HistogramFn for Buckets {
    fn record(&self, value: f64) {
        self.count(bucket(value), 1);
        self.add_sum(value);
    }
}

/// The exponent and the first three bits behind the point of the binary number.
fn bucket(value: f64) -> u64 {
    if value.is_nan() || value <= 0.0 {
        return 0;
    }
    let eighths = (value.to_bits() >> 49) as i64;
    u64::try_from(eighths - ((1023 + LOWEST) << 3)).unwrap_or(0).min(POWERS * 8 - 1)
}

/// The upper end of a bucket.
fn upper(bucket: u64) -> f64 {
    let eighths = bucket + (((1023 + LOWEST) as u64) << 3) + 1;
    f64::from_bits(eighths << 49)
}

impl Distribution {
    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.buckets.values().sum()
    }

    /// The value that a share `q` of all is at or under, to the width of a bucket.
    pub fn quantile(&self, q: f64) -> f64 {
        let wanted = (q * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in &self.buckets {
            seen += count;
            if seen >= wanted {
                return upper(*bucket);
            }
        }
        0.0
    }
}

impl Snapshot {
    /// What a run has kept; none if it has not yet.
    ///
    /// # Errors
    /// The file cannot be read or is not of this form.
    pub fn read(run: &Path) -> Result<Option<Self>> {
        let path = run.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).with_context(|| {
                format!(
                    "{} is damaged\nhelp: delete it; only counts of plugin calls are lost",
                    path.display()
                )
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
        }
    }

    /// Keeps it in a run's folder, whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, run: &Path) -> Result<()> {
        let path = run.join(FILE);
        write_whole(&path, &serde_json::to_vec(self)?)
            .with_context(|| format!("{} cannot be written", path.display()))
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<52} {:>10} {:>10} {:>10} {:>10}", "", "count", "median", "p99", "mean")?;
        for (name, values) in &self.histograms {
            let (count, sum) = (values.count(), values.sum);
            let shown = |value: f64| match name.contains("_seconds") {
                true => format!("{:.1} us", value * 1e6),
                false => format!("{value:.0}"),
            };
            let mean = if count == 0 { 0.0 } else { sum / count as f64 };
            let (median, p99) = (shown(values.quantile(0.5)), shown(values.quantile(0.99)));
            if count > 0 {
                writeln!(f, "{name:<52} {count:>10} {median:>10} {p99:>10} {:>10}", shown(mean))?;
            }
        }
        for (name, count) in &self.counters {
            writeln!(f, "{name:<52} {count:>10}")?;
        }
        for (name, value) in &self.gauges {
            writeln!(f, "{name:<52} {value:>10}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use metrics::HistogramFn;

    #[test]
    fn a_bucket_is_never_more_than_an_eighth_off() {
        for value in [1e-9, 3.3e-7, 0.001, 0.5, 1.0, 1.124, 7.0, 123_456.0, 9e15] {
            let end = upper(bucket(value));
            assert!(end > value && end <= value * 1.126, "{value}: {end}");
        }
        for value in [0.0, -1.0, f64::NAN, 1e-300] {
            assert_eq!(bucket(value), 0, "{value}");
        }
        assert_eq!(bucket(f64::INFINITY), POWERS * 8 - 1);
    }

    #[test]
    fn a_run_that_goes_on_adds_to_what_was_counted() {
        let run = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let stats = Stats::default();
            if let Some(before) = Snapshot::read(run.path()).unwrap() {
                stats.add(&before);
            }
            entry(&stats.0.counters, "faults{fault=\"fuel\"}").fetch_add(2, Relaxed);
            let calls = entry(&stats.0.histograms, "call_seconds{point=\"on-submit\"}");
            for millis in 1..=100 {
                calls.record(f64::from(millis) / 1e3);
            }
            stats.snapshot().write(run.path()).unwrap();
        }
        let kept = Snapshot::read(run.path()).unwrap().unwrap();
        expect![[r#"
                                                                      count     median        p99       mean
            call_seconds{point="on-submit"}                             200 50781.2 us 101562.5 us 50500.0 us
            faults{fault="fuel"}                                          4
        "#]]
        .assert_eq(&kept.to_string());
    }

    #[test]
    fn a_damaged_file_is_named() {
        let run = tempfile::tempdir().unwrap();
        fs::write(run.path().join(FILE), "{").unwrap();
        let error = format!("{:#}", Snapshot::read(run.path()).unwrap_err());
        assert!(error.contains("stats.json is damaged\nhelp: delete it"), "{error}");
    }
}
