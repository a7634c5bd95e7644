//! What came of a pool, in numbers?

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::split::Split;
use super::state::Verdict;

/// What came of a package.
#[derive(Clone, Debug, Serialize)]
pub struct PackageReport {
    pub package: String,
    /// Modules with mutations that a test runs.
    pub modules: usize,
    /// Tests that can be relied on.
    pub tests: usize,
    pub flaky: usize,
    pub candidates: usize,
    /// Mutations by what became of them.
    pub verdicts: BTreeMap<&'static str, usize>,
    /// Tasks by kind of fault.
    pub kinds: BTreeMap<&'static str, usize>,
    /// Tasks by split.
    pub splits: BTreeMap<&'static str, usize>,
    /// Wall-clock seconds of this start.
    pub seconds: f64,
}

impl PackageReport {
    /// Its tasks.
    pub fn kept(&self) -> usize {
        self.verdicts.get(Verdict::Kept.name()).copied().unwrap_or(0)
    }
}

/// What came of a pool. Its `Display` is a table.
#[derive(Clone, Debug, Serialize)]
pub struct PoolReport {
    pub packages: Vec<PackageReport>,
    /// The modules of each split.
    pub modules: BTreeMap<&'static str, Vec<String>>,
}

impl PoolReport {
    /// All tasks.
    pub fn kept(&self) -> usize {
        self.packages.iter().map(PackageReport::kept).sum()
    }
}

impl fmt::Display for PoolReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.packages.iter().map(|one| one.package.len()).max().unwrap_or(0).max(8);
        write!(f, "{:width$}  {:>7}  {:>6}  {:>10}", "package", "modules", "tests", "candidates")?;
        for verdict in Verdict::ALL {
            write!(f, "  {:>10}", verdict.name())?;
        }
        writeln!(f, "  {:>7}", "seconds")?;
        for one in &self.packages {
            write!(
                f,
                "{:width$}  {:>7}  {:>6}  {:>10}",
                one.package, one.modules, one.tests, one.candidates
            )?;
            for verdict in Verdict::ALL {
                write!(f, "  {:>10}", one.verdicts.get(verdict.name()).copied().unwrap_or(0))?;
            }
            writeln!(f, "  {:>7.0}", one.seconds)?;
        }
        write!(f, "\n{} tasks:", self.kept())?;
        for split in Split::ALL {
            let tasks: usize = self.packages.iter().filter_map(|one| one.splits.get(split.name())).sum();
            let modules = self.modules.get(split.name()).map_or(0, Vec::len);
            write!(f, " {} {tasks} (of {modules} modules)", split.name())?;
        }
        Ok(())
    }
}
