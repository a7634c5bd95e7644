//! What is one problem of a data set, whatever its format?

use std::collections::BTreeMap;

use crate::task::Grading;

/// One problem.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instance {
    /// The data set's own name.
    pub id: String,
    /// What the agent is asked to do.
    pub instruction: String,
    /// The container image with the files, and the folder in it.
    pub image: Option<(String, String)>,
    /// The files, by path, of a problem that needs no container.
    pub files: BTreeMap<String, Vec<u8>>,
    /// A script that makes the agent's files from those of the image.
    pub setup: Option<String>,
    /// What the setup script reads, by name.
    pub setup_files: BTreeMap<String, Vec<u8>>,
    /// Runs the tests.
    pub test_script: String,
    /// What the tests read, by name.
    pub test_files: BTreeMap<String, Vec<u8>>,
    /// How the output of the tests is judged; without it they leave a reward.
    pub grading: Option<Grading>,
    pub solution: Option<Solution>,
    /// What the solution's script reads, by name.
    pub solution_files: BTreeMap<String, Vec<u8>>,
    /// Seconds that the tests may take.
    pub test_seconds: f64,
    /// Memory of a container, megabytes.
    pub memory_mb: Option<u64>,
    /// Facts for people: repository, version, language, difficulty.
    pub facts: BTreeMap<String, String>,
}

/// The known solution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Solution {
    Patch(Vec<u8>),
    /// A script, run where the agent works.
    Script(String),
}

impl Instance {
    /// The name of its folder: the id, with what does not belong in a file name as `-`.
    pub fn folder_name(&self) -> String {
        let good = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
        let name: String = self.id.chars().map(|c| if good(c) { c } else { '-' }).collect();
        name.trim_start_matches(['.', '-']).to_owned()
    }
}
