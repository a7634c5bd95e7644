//! What is the evaluation script of a row that does not carry one? The table beside
//! this file holds the test commands of swebench 4.1.0 by repository and version;
//! `scripts/classic_specs.py` writes it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::swebench::{END_TEST_OUTPUT, EvalType, START_TEST_OUTPUT};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Repository {
    language: String,
    parser: String,
    #[serde(default)]
    fail_only: bool,
    specs: Vec<Spec>,
    versions: BTreeMap<String, usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Spec {
    test: Vec<String>,
    /// Python only: run before everything else.
    before: Vec<String>,
    /// Python only: installs the work tree.
    install: Vec<String>,
    /// Other languages: run after the test patch.
    build: Vec<String>,
}

static TABLE: LazyLock<BTreeMap<String, Repository>> =
    LazyLock::new(|| serde_json::from_str(include_str!("classic_specs.json")).unwrap_or_default());

/// How a classic row is evaluated.
#[derive(Debug)]
pub(super) struct Classic {
    pub(super) language: &'static str,
    pub(super) log_parser: &'static str,
    pub(super) eval_type: EvalType,
    pub(super) script: String,
}

/// Whether the table has a repository.
pub(super) fn knows(repository: &str) -> bool {
    TABLE.contains_key(repository)
}

/// The versions of a repository that the table has, for people.
pub(super) fn versions(repository: &str) -> String {
    let known = TABLE.get(repository).map(|found| found.versions.keys().cloned().collect::<Vec<_>>());
    known.unwrap_or_default().join(", ")
}

/// The script and the parser of a repository at a version.
pub(super) fn of(repository: &str, version: &str, base_commit: &str, test_patch: &str) -> Option<Classic> {
    let found = TABLE.get(repository)?;
    let spec = found.specs.get(*found.versions.get(version)?)?;
    let lines = if found.language == "py" {
        python(repository, spec, base_commit, test_patch)
    } else {
        other(spec, base_commit, test_patch)
    };
    Some(Classic {
        language: &found.language,
        log_parser: &found.parser,
        eval_type: if found.fail_only { EvalType::FailOnly } else { EvalType::PassAndFail },
        script: format!("#!/bin/bash\nset -uxo pipefail\n{}\n", lines.join("\n")),
    })
}

const PLACE: &str = "/testbed";
const ACTIVATE: [&str; 2] = ["source /opt/miniconda3/bin/activate", "conda activate testbed"];
const HEREDOC: &str = "EOF_114329324912";

fn python(repository: &str, spec: &Spec, base_commit: &str, test_patch: &str) -> Vec<String> {
    let reset = format!("git checkout {base_commit} {}", changed_files(test_patch).join(" "));
    let mut lines: Vec<String> = ACTIVATE.map(String::from).into();
    lines.push(format!("cd {PLACE}"));
    lines.extend(spec.before.iter().cloned());
    lines.push(format!("git config --global --add safe.directory {PLACE}"));
    lines.push(format!("cd {PLACE}"));
    lines.extend(["git status".into(), "git show".into()]);
    lines.push(format!("git -c core.fileMode=false diff {base_commit}"));
    lines.extend(ACTIVATE.map(String::from));
    lines.extend(spec.install.iter().cloned());
    lines.push(reset.clone());
    lines.push(format!("git apply -v - <<'{HEREDOC}'\n{test_patch}\n{HEREDOC}"));
    lines.push(format!(": '{START_TEST_OUTPUT}'"));
    let mut test = spec.test.clone();
    test.extend(directives(repository, test_patch));
    lines.push(test.join(" "));
    lines.push(format!(": '{END_TEST_OUTPUT}'"));
    lines.push(reset);
    lines
}

fn other(spec: &Spec, base_commit: &str, test_patch: &str) -> Vec<String> {
    let files = changed_files(test_patch);
    let reset = if files.is_empty() {
        "echo \"No test files to reset\"".to_owned()
    } else {
        format!("git checkout {base_commit} {}", files.join(" "))
    };
    let mut lines = vec![
        format!("cd {PLACE}"),
        format!("git config --global --add safe.directory {PLACE}"),
        format!("cd {PLACE}"),
        reset.clone(),
        format!("git apply --verbose --reject - <<'{HEREDOC}'\n{test_patch}\n{HEREDOC}"),
    ];
    lines.extend(spec.build.iter().cloned());
    lines.push(format!(": '{START_TEST_OUTPUT}'"));
    lines.extend(spec.test.iter().cloned());
    lines.push(format!(": '{END_TEST_OUTPUT}'"));
    lines.push(reset);
    lines
}

/// The files of a patch that were there before it, in order.
pub(super) fn changed_files(patch: &str) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    let mut in_hunk = (0_usize, 0_usize);
    let mut fresh = false;
    for line in patch.split('\n') {
        if in_hunk != (0, 0) {
            match line.as_bytes().first() {
                Some(b'-') => in_hunk.0 = in_hunk.0.saturating_sub(1),
                Some(b'+') => in_hunk.1 = in_hunk.1.saturating_sub(1),
                Some(b'\\') => {}
                _ => in_hunk = (in_hunk.0.saturating_sub(1), in_hunk.1.saturating_sub(1)),
            }
        } else if let Some(rest) = line.strip_prefix("diff --git a/") {
            if let Some((name, _)) = rest.split_once(" b/") {
                files.push(name.to_owned());
                fresh = true;
            }
        } else if line.starts_with("new file mode") && fresh {
            files.pop();
            fresh = false;
        } else if let Some(name) = line.strip_prefix("--- a/") {
            let name = name.split('\t').next().unwrap_or(name).to_owned();
            if fresh {
                files.pop();
            }
            files.push(name);
            fresh = false;
        } else if line.starts_with("@@ ") {
            in_hunk = hunk(line).unwrap_or_default();
        }
    }
    files
}

/// Lines before and after of a hunk, from its head.
fn hunk(line: &str) -> Option<(usize, usize)> {
    let mut parts = line.split(' ').skip(1);
    let mut count = |sign: char| {
        let part = parts.next()?.strip_prefix(sign)?;
        part.split_once(',').map_or(Some(1), |(_, count)| count.parse().ok())
    };
    Some((count('-')?, count('+')?))
}

/// What the test command is told to run: the files of the test patch.
pub(super) fn directives(repository: &str, test_patch: &str) -> Vec<String> {
    const NOT_TESTS: [&str; 11] =
        [".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml"];
    if repository == "swe-bench/humaneval" {
        return vec!["test.py".into()];
    }
    let mut found = Vec::new();
    for line in test_patch.split('\n') {
        let Some(at) = line.find("diff --git a/") else { continue };
        let Some((_, name)) = line[at..].rsplit_once(" b/") else { continue };
        if NOT_TESTS.iter().any(|end| name.ends_with(end)) {
            continue;
        }
        if repository == "django/django" {
            let name = name.strip_suffix(".py").unwrap_or(name);
            found.push(name.strip_prefix("tests/").unwrap_or(name).replace('/', "."));
        } else {
            found.push(name.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "diff --git a/tests/a/test_x.py b/tests/a/test_x.py\n--- a/tests/a/test_x.py\n+++ b/tests/a/test_x.py\n@@ -1,2 +1,2 @@\n--- a/no_file.py\n+++ b/no_file.py\n x\ndiff --git a/tests/new.py b/tests/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/tests/new.py\n@@ -0,0 +1 @@\n+x\ndiff --git a/tests/d.json b/tests/d.json\n--- a/tests/d.json\n+++ b/tests/d.json\n@@ -1 +1 @@\n-x\n+y\n";

    #[test]
    fn the_table_is_read_whole() {
        assert!(TABLE.len() > 55, "{}", TABLE.len());
        for (name, repository) in TABLE.iter() {
            assert!(crate::swebench::has_parser(&repository.parser), "{name}: {}", repository.parser);
            assert!(repository.versions.values().all(|place| *place < repository.specs.len()), "{name}");
        }
        assert!(TABLE["processing/p5.js"].fail_only && !TABLE["babel/babel"].fail_only);
    }

    #[test]
    fn only_files_that_were_there_are_reset() {
        assert_eq!(changed_files(PATCH), ["tests/a/test_x.py", "tests/d.json"]);
        assert_eq!(directives("django/django", PATCH), ["a.test_x", "new"]);
        assert_eq!(directives("psf/requests", PATCH), ["tests/a/test_x.py", "tests/new.py"]);
    }

    #[test]
    fn a_script_is_that_of_the_official_package() {
        let classic = of("django/django", "3.0", "abc", "PATCH").unwrap();
        assert_eq!(classic.log_parser, "parse_log_django");
        expect_test::expect![[r#"
            #!/bin/bash
            set -uxo pipefail
            source /opt/miniconda3/bin/activate
            conda activate testbed
            cd /testbed
            sed -i '/en_US.UTF-8/s/^# //g' /etc/locale.gen && locale-gen
            export LANG=en_US.UTF-8
            export LANGUAGE=en_US:en
            export LC_ALL=en_US.UTF-8
            git config --global --add safe.directory /testbed
            cd /testbed
            git status
            git show
            git -c core.fileMode=false diff abc
            source /opt/miniconda3/bin/activate
            conda activate testbed
            python -m pip install -e .
            git checkout abc 
            git apply -v - <<'EOF_114329324912'
            PATCH
            EOF_114329324912
            : '>>>>> Start Test Output'
            ./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1
            : '>>>>> End Test Output'
            git checkout abc 
        "#]]
        .assert_eq(&classic.script);
        assert!(of("django/django", "99", "abc", "").is_none());
    }
}
