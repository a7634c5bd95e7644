//! How much do plugins cost? Metrics through the `metrics` facade; without a recorder they
//! cost next to nothing.

use std::sync::LazyLock;
use std::time::Instant;

use metrics::{Counter, Gauge, Histogram};

use super::fault::PluginFault;
use super::points::HookPoint;

/// Gauge: plugin instances that live.
pub const INSTANCES: &str = "tandem_plugin_instances";
/// Counter: instances that found no prepared place and started on demand.
pub const OVERFLOWS: &str = "tandem_plugin_overflows_total";
/// Histogram, seconds, label `point`: wall-clock time of a call, host calls included.
pub const CALL_SECONDS: &str = "tandem_plugin_call_seconds";
/// Histogram, units of fuel, label `point`: what a call used.
pub const CALL_FUEL: &str = "tandem_plugin_call_fuel";
/// Counter, label `fault`: calls that ended in a fault.
pub const FAULTS: &str = "tandem_plugin_faults_total";

pub(super) fn instances() -> &'static Gauge {
    static GAUGE: LazyLock<Gauge> = LazyLock::new(|| metrics::gauge!(INSTANCES));
    &GAUGE
}

pub(super) fn overflows() -> &'static Counter {
    static COUNTER: LazyLock<Counter> = LazyLock::new(|| metrics::counter!(OVERFLOWS));
    &COUNTER
}

/// The meters of the points, looked up once for each plugin: a look-up would cost as much as a
/// call.
pub(super) struct Meters(Vec<Meter>);

struct Meter {
    seconds: Histogram,
    fuel: Histogram,
}

impl Meters {
    pub fn new() -> Self {
        let meter = |point: HookPoint| Meter {
            seconds: metrics::histogram!(CALL_SECONDS, "point" => point.name()),
            fuel: metrics::histogram!(CALL_FUEL, "point" => point.name()),
        };
        Self(HookPoint::ALL.into_iter().map(meter).collect())
    }

    pub fn called(&self, point: HookPoint, begun: Instant, fuel: u64) {
        if let Some(meter) = self.0.get(point as usize) {
            meter.seconds.record(begun.elapsed().as_secs_f64());
            meter.fuel.record(fuel as f64);
        }
    }
}

pub(super) fn fault(fault: &PluginFault) {
    metrics::counter!(FAULTS, "fault" => fault.kind()).increment(1);
}
