//! How are the rows of SWE-smith, SWE-rebench V2, SWE-Gym and R2E-Gym read?

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::classic::{changed_files, directives};
use super::error::DatasetError;
use super::instance::{Instance, Solution};
use super::row::Row;
use super::swebench::{common, expected};
use crate::swebench::{END_TEST_OUTPUT, EvalType, Expected, START_TEST_OUTPUT, has_parser};
use crate::task::{Apply, Grading, Rule};

const ACTIVATE: &str = "source /opt/miniconda3/bin/activate\nconda activate testbed";
/// The line at which a test patch ends in a script.
const HEREDOC: &str = "EOF_114329324912";

/// A script that applies the row's test patch and runs `test` between the markers.
fn marked_script(row: &Row, place: &str, test: &str) -> Result<String, DatasetError> {
    let patch = row.filled("test_patch")?;
    let commit = row.filled("base_commit")?;
    let files = changed_files(patch).join(" ");
    let reset = if files.is_empty() { String::new() } else { format!("git checkout {commit} {files}\n") };
    Ok(format!(
        "#!/bin/bash\nset -uxo pipefail\n{ACTIVATE}\ncd {place}\n{reset}git apply -v - <<'{HEREDOC}'\n{patch}\n{HEREDOC}\n\
         : '{START_TEST_OUTPUT}'\n{test}\n: '{END_TEST_OUTPUT}'\n{reset}"
    ))
}

/// SWE-Gym: rows as SWE-bench's, of other repositories, all of which use pytest.
pub(super) fn gym(row: &Row) -> Result<Instance, DatasetError> {
    let mut instance = common(row, "swe-gym")?;
    let named = row.text_if("image_name")?.or(row.text_if("docker_image")?);
    let tag = instance.id.to_lowercase().replace("__", "_s_");
    let image = named.map_or_else(|| format!("xingyaoww/sweb.eval.x86_64.{tag}:latest"), str::to_owned);
    let files = directives("", row.filled("test_patch")?).join(" ");
    instance.image = Some((image, "/testbed".into()));
    let script = marked_script(row, "/testbed", &format!("pytest -rA --color=no {files}"))?;
    instance.test_script = crate::swebench::record_exit_code(&script);
    instance.grading = Some(Grading {
        instance_id: instance.id.clone(),
        apply: Apply::Ladder,
        rule: Rule::SwebenchLog {
            version: row.text_if("version")?.unwrap_or_default().to_owned(),
            log_parser: "parse_log_pytest".into(),
            eval_type: EvalType::PassAndFail,
            expected: expected(row)?,
        },
    });
    Ok(instance)
}

/// SWE-smith: the row's patch puts the fault in; taking it back is the solution. Tests
/// come from the image, since the fault does not touch them.
pub(super) fn smith(row: &Row) -> Result<Instance, DatasetError> {
    let mut instance = common(row, "swe-smith")?;
    let fault = row.filled("patch")?.as_bytes().to_vec();
    let expected = expected(row)?;
    let files = test_files(&expected);
    if files.is_empty() || files.iter().any(|file| !file.ends_with(".py")) {
        return Err(row.unsupported(
            "its tests are not named `file.py::test`: the test commands of other languages are not in its row",
            "leave it out; the other rows are imported with `--keep-going`",
        ));
    }
    let files = files.into_iter().collect::<Vec<_>>().join(" ");
    instance.image = Some((row.filled("image_name")?.to_owned(), "/testbed".into()));
    instance.setup = Some(
        "#!/bin/bash\n# Puts the fault in; the agent sees the result as the base commit.\nset -e\n\
         [ \"${TANDEM_FOR:-files}\" = files ] || exit 0\n\
         cd /testbed\ngit apply --verbose \"$(dirname \"$0\")/fault.patch\"\n"
            .into(),
    );
    instance.setup_files.insert("fault.patch".into(), fault.clone());
    instance.solution_files.insert("fault.patch".into(), fault);
    instance.solution = Some(Solution::Script(
        "#!/bin/bash\nset -e\ngit apply -R \"$(dirname \"$0\")/fault.patch\"\n".into(),
    ));
    instance.test_script = format!(
        "#!/bin/bash\nset -uxo pipefail\n{ACTIVATE}\ncd /testbed\ngit checkout -- {files}\n\
         : '{START_TEST_OUTPUT}'\npytest --disable-warnings --color=no --tb=no --verbose {files}\n: '{END_TEST_OUTPUT}'\n"
    );
    instance.memory_mb = Some(10 * 1024);
    instance.grading = Some(Grading {
        instance_id: instance.id.clone(),
        apply: Apply::Ladder,
        rule: Rule::SwebenchLog {
            version: String::new(),
            log_parser: "swesmith_python".into(),
            eval_type: EvalType::PassAndFail,
            expected,
        },
    });
    Ok(instance)
}

/// The files that pytest's names begin with.
fn test_files(expected: &Expected) -> BTreeSet<String> {
    let tests = expected.fail_to_pass.iter().chain(&expected.pass_to_pass);
    tests.map(|test| test.split("::").next().unwrap_or(test).to_owned()).collect()
}

/// SWE-rebench V2: the row names test command and parser; the work folder is that of
/// the repository's name.
pub(super) fn rebench(row: &Row) -> Result<Instance, DatasetError> {
    let config = row.object("install_config")?;
    let parser = config.get("log_parser").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !has_parser(&parser) {
        return Err(DatasetError::UnknownParser { row: row.number, id: row.id(), parser });
    }
    let commands: Vec<&str> = match config.get("test_cmd") {
        Some(Value::String(command)) => vec![command],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if commands.is_empty() {
        return Err(
            row.unsupported("`install_config` has no `test_cmd`", "leave it out; nothing runs its tests")
        );
    }
    let mut instance = common(row, "swe-rebench-v2")?;
    let image = match row.text_if("docker_image")?.or(row.text_if("image_name")?) {
        Some(image) if !image.trim().is_empty() => image.to_owned(),
        // An empty Dockerfile or image was published for some rows.
        _ => return Err(row.unsupported("it names no image", "leave it out; nothing can run its tests")),
    };
    let place = match row.text_if("workdir")? {
        Some(place) => place.to_owned(),
        None => format!("/{}", row.filled("repo")?.rsplit('/').next().unwrap_or_default()),
    };
    instance.image = Some((image, place.clone()));
    instance.test_files.insert("test.patch".into(), row.filled("test_patch")?.as_bytes().to_vec());
    instance.test_script = format!(
        "#!/bin/bash\nset -e\ncd {place}\n\
         git apply -v --3way --recount --ignore-space-change --whitespace=nowarn /tests/test.patch\nset +e\n{}\n",
        commands.join("\n")
    );
    instance.grading = Some(Grading {
        instance_id: instance.id.clone(),
        apply: Apply::ThreeWay,
        rule: Rule::AllPassed { log_parser: parser, expected: expected(row)? },
    });
    Ok(instance)
}

/// R2E-Gym: the image holds tests and script; they are put away before the agent works.
pub(super) fn r2e(row: &Row) -> Result<Instance, DatasetError> {
    let statuses = row.object("expected_output_json")?;
    let mut expected = BTreeMap::new();
    for (name, status) in &statuses {
        let status = status.as_str();
        let bad = || row.wrong("expected_output_json", "an object of texts", &Value::from(name.as_str()));
        expected.insert(name.clone(), status.ok_or_else(bad)?.to_owned());
    }
    if expected.is_empty() {
        return Err(row.unsupported(
            "it expects no test, so that any change would solve it",
            "leave it out; the other rows are imported with `--keep-going`",
        ));
    }
    let statement = row.filled("problem_statement")?;
    let inside = statement.split_once("[ISSUE]").and_then(|(_, rest)| rest.rsplit_once("[/ISSUE]"));
    let repository = row.text_if("repo_name")?.or(row.text_if("repo")?).unwrap_or_default();
    let id = match row.text_if("instance_id")? {
        Some(id) => id.to_owned(),
        None => format!("{repository}__{}", row.filled("commit_hash")?),
    };
    Ok(Instance {
        instruction: inside.map_or(statement, |(issue, _)| issue).trim().to_owned(),
        image: Some((row.filled("docker_image")?.to_owned(), "/testbed".into())),
        setup: Some(
            "#!/bin/bash\n# Takes tests and script out of the agent's sight; the verifier keeps them.\nset -e\n\
             case \"${TANDEM_FOR:-files}\" in\n\
             files)\n    for name in r2e_tests run_tests.sh; do\n        \
             [ ! -e \"/testbed/$name\" ] || cp -rL \"/testbed/$name\" \"$TANDEM_KEEP/$name\"\n        \
             rm -rf \"/testbed/$name\"\n    done ;;\n\
             agent) rm -rf /r2e_tests /run_tests.sh /root/run_tests.sh ;;\n\
             esac\n"
                .into(),
        ),
        test_script: "#!/bin/bash\ncd /testbed\nrm -rf r2e_tests run_tests.sh\n\
             if [ -e /kept/r2e_tests ]; then cp -r /kept/r2e_tests r2e_tests; else ln -s /r2e_tests r2e_tests; fi\n\
             if [ -e /kept/run_tests.sh ]; then cp /kept/run_tests.sh .; else cp /run_tests.sh /root/run_tests.sh . 2>/dev/null; fi\n\
             bash run_tests.sh\n"
            .into(),
        grading: Some(Grading {
            instance_id: id.clone(),
            apply: Apply::Ladder,
            rule: Rule::ExactSummary { expected },
        }),
        test_seconds: 300.0,
        facts: BTreeMap::from([
            ("dataset".into(), "r2e-gym".into()),
            ("repo".into(), repository.to_owned()),
        ]),
        id,
        ..Instance::default()
    })
}
