//! What came of the cases of a plugin?

use std::fmt;

use serde::Serialize;

use crate::plugin::{HookPoint, LogLine};
use crate::store::Digest;

/// What came of one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Passed,
    /// What did not hold, as a sentence.
    Failed(String),
    /// A program that the case needs is not in the sandbox.
    Skipped(String),
}

/// One case and its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseReport {
    pub name: String,
    pub point: HookPoint,
    /// Whether the plugin had to do something, or to stay silent.
    pub fires: bool,
    pub verdict: Verdict,
    /// What the plugin logged.
    pub log: Vec<LogLine>,
}

/// All cases of a plugin, in their order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CasesReport {
    pub plugin: Digest,
    pub cases: Vec<CaseReport>,
}

impl CasesReport {
    /// Cases that did not hold.
    pub fn failed(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Failed(_)))
    }

    /// Cases that were passed over.
    pub fn skipped(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Skipped(_)))
    }

    fn count(&self, is: impl Fn(&Verdict) -> bool) -> usize {
        self.cases.iter().filter(|case| is(&case.verdict)).count()
    }
}

impl fmt::Display for CasesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in &self.cases {
            match &case.verdict {
                Verdict::Passed => writeln!(f, "ok       {}", case.name)?,
                Verdict::Failed(what) => writeln!(f, "FAILED   {}: {what}", case.name)?,
                Verdict::Skipped(program) => writeln!(f, "skipped  {}: `{program}` is missing", case.name)?,
            }
        }
        let passed = self.cases.len() - self.failed() - self.skipped();
        write!(f, "{passed} passed, {} failed, {} skipped", self.failed(), self.skipped())
    }
}
