//! What does the server count, and how is it told to Prometheus?

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts since the server started.
#[derive(Default)]
pub struct Meters {
    /// By route and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    pub prompt_tokens: AtomicU64,
    pub reply_tokens: AtomicU64,
    /// Requests whose client went away before the end.
    pub abandoned: AtomicU64,
    first_token: Histogram,
    whole: Histogram,
}

/// Bounds of the buckets, seconds.
const BUCKETS: [f64; 10] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0];

#[derive(Default)]
struct Histogram {
    buckets: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Histogram {
    fn add(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        for (bound, bucket) in BUCKETS.iter().zip(&self.buckets) {
            if seconds <= *bound {
                bucket.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn write(&self, name: &str, help: &str, out: &mut String) {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
        for (bound, bucket) in BUCKETS.iter().zip(&self.buckets) {
            let _ = writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {}", bucket.load(Ordering::Relaxed));
        }
        let count = self.count.load(Ordering::Relaxed);
        let sum = self.micros.load(Ordering::Relaxed) as f64 / 1e6;
        let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}");
    }
}

impl Meters {
    /// Counts a request by how it was answered.
    pub fn answered(&self, route: &'static str, status: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *requests.entry((route, status)).or_default() += 1;
    }

    /// Notes how long the first token of a request took.
    pub fn first_token(&self, took: Duration) {
        self.first_token.add(took);
    }

    /// Notes how long a whole request took.
    pub fn whole(&self, took: Duration) {
        self.whole.add(took);
    }

    /// Everything in the text format of Prometheus, with values that are read now.
    pub fn text(&self, now: &[(&str, &str, u64)]) -> String {
        let mut out = String::new();
        let name = "tandem_serve_requests_total";
        let _ = writeln!(out, "# HELP {name} Requests by route and status.\n# TYPE {name} counter");
        let requests = self.requests.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for ((route, status), count) in requests.iter() {
            let _ = writeln!(out, "{name}{{route=\"{route}\",status=\"{status}\"}} {count}");
        }
        drop(requests);
        let counters = [
            ("tandem_serve_prompt_tokens_total", "Tokens of prompts.", &self.prompt_tokens),
            ("tandem_serve_reply_tokens_total", "Tokens of replies.", &self.reply_tokens),
            (
                "tandem_serve_abandoned_total",
                "Requests whose client went away before the end.",
                &self.abandoned,
            ),
        ];
        for (name, help, count) in counters {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {count}");
        }
        for (name, help, value) in now {
            let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
        self.first_token.write(
            "tandem_serve_first_token_seconds",
            "From a request to its first token.",
            &mut out,
        );
        self.whole.write(
            "tandem_serve_request_seconds",
            "From a request to the end of its answer.",
            &mut out,
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_everything_up_to_its_bound() {
        let meters = Meters::default();
        meters.answered("/v1/models", 200);
        meters.answered("/v1/models", 200);
        meters.whole(Duration::from_millis(300));
        let text = meters.text(&[("tandem_serve_slots", "Slots.", 4)]);
        for line in [
            "tandem_serve_requests_total{route=\"/v1/models\",status=\"200\"} 2",
            "# TYPE tandem_serve_slots gauge\ntandem_serve_slots 4",
            "tandem_serve_request_seconds_bucket{le=\"0.25\"} 0",
            "tandem_serve_request_seconds_bucket{le=\"0.5\"} 1",
            "tandem_serve_request_seconds_bucket{le=\"+Inf\"} 1",
            "tandem_serve_request_seconds_sum 0.3",
            "tandem_serve_abandoned_total 0",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
