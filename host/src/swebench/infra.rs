//! Did the machine break, rather than the patch? Signs in a log, as swebench 5.0.2
//! reads them. They explain; they never change a resolution.

use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

use super::text::python;

/// How sure a sign is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// A patch of source code cannot cause it.
    Environment,
    /// A bad patch may cause it too.
    Ambiguous,
}

/// A sign of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Infra {
    /// The official name of the reason.
    pub reason: &'static str,
    pub tier: Tier,
}

const SIGNS: [(&str, Tier, &str); 8] = [
    ("browser_launch_failed", Tier::Environment, r"Failed to launch|Failed to connect to the bus"),
    (
        "display_unavailable",
        Tier::Environment,
        r"cannot open display|Missing X server|unable to open X display",
    ),
    ("out_of_memory", Tier::Environment, r"(?m)Cannot allocate memory|OutOfMemoryError|^Killed$"),
    (
        "container_unavailable",
        Tier::Environment,
        r"Error response from daemon|Cannot connect to the Docker daemon",
    ),
    (
        "network_unreachable",
        Tier::Environment,
        r"Could not resolve host|Temporary failure in name resolution",
    ),
    ("missing_module", Tier::Ambiguous, r"Cannot find module|MODULE_NOT_FOUND|ModuleNotFoundError"),
    ("no_tests_collected", Tier::Ambiguous, r"no tests ran|collected 0 items"),
    ("tests_timed_out", Tier::Ambiguous, r"Timeout error: \d+ seconds exceeded"),
];

/// The first sign of trouble in a log.
pub fn classify(log: &str) -> Option<Infra> {
    static PATTERNS: LazyLock<Vec<(Infra, Regex)>> = LazyLock::new(|| {
        let sign = |(reason, tier, pattern)| (Infra { reason, tier }, python(pattern));
        SIGNS.into_iter().map(sign).collect()
    });
    PATTERNS.iter().find(|(_, pattern)| pattern.is_match(log)).map(|(infra, _)| *infra)
}
