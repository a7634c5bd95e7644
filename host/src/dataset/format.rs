//! Which published formats are there, and which one is a row of?

use super::row::Row;

/// A published format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// SWE-bench of version 5: the row names image, script and parser.
    SweBench,
    /// SWE-bench before: script and parser follow from repository and version.
    SweBenchClassic,
    SweBenchPro,
    SweSmith,
    SweRebenchV2,
    SweGym,
    R2eGym,
    HumanEvalFix,
    QuixBugs,
    Polyglot,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 10] = [
        Self::SweBench,
        Self::SweBenchClassic,
        Self::SweBenchPro,
        Self::SweSmith,
        Self::SweRebenchV2,
        Self::SweGym,
        Self::R2eGym,
        Self::HumanEvalFix,
        Self::QuixBugs,
        Self::Polyglot,
    ];

    /// The name that the command line takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::SweBench => "swe-bench",
            Self::SweBenchClassic => "swe-bench-classic",
            Self::SweBenchPro => "swe-bench-pro",
            Self::SweSmith => "swe-smith",
            Self::SweRebenchV2 => "swe-rebench-v2",
            Self::SweGym => "swe-gym",
            Self::R2eGym => "r2e-gym",
            Self::HumanEvalFix => "humanevalfix",
            Self::QuixBugs => "quixbugs",
            Self::Polyglot => "polyglot",
        }
    }

    /// The format of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The format that a row looks like.
    pub(super) fn of_row(row: &Row, knows_repository: impl Fn(&str) -> bool) -> Option<Self> {
        let id = row.id();
        let all = |fields: &[&str]| fields.iter().all(|field| row.has(field));
        let from_smith = row.fields.get("repo").and_then(|repo| repo.as_str());
        if all(&["eval_script", "log_parser", "image"]) {
            Some(Self::SweBench)
        } else if row.has("install_config") {
            Some(Self::SweRebenchV2)
        } else if row.has("expected_output_json") {
            Some(Self::R2eGym)
        } else if row.has("before_repo_set_cmd") || row.has("selected_test_files_to_run") {
            Some(Self::SweBenchPro)
        } else if row.has("image_name") && from_smith.is_some_and(|repo| repo.starts_with("swesmith/")) {
            Some(Self::SweSmith)
        } else if row.has("buggy_solution") {
            Some(Self::HumanEvalFix)
        } else if all(&["instance_id", "repo", "test_patch", "FAIL_TO_PASS"]) {
            let known = row.fields.get("repo").and_then(|repo| repo.as_str()).is_some_and(knows_repository);
            Some(if known { Self::SweBenchClassic } else { Self::SweGym })
        } else if row.has("image_name") && id.split('.').count() >= 3 {
            Some(Self::SweSmith)
        } else {
            None
        }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
