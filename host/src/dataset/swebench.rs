//! How is a row of SWE-bench read: version 5, classic, and Pro?

use std::collections::BTreeMap;
use std::path::Path;

use super::classic;
use super::error::DatasetError;
use super::instance::{Instance, Solution};
use super::row::Row;
use crate::swebench::{EvalType, Expected, has_parser, record_exit_code};
use crate::task::{Apply, Grading, Rule};

/// Seconds that the official evaluators allow.
const TEST_SECONDS: f64 = 1800.0;
const PRO_SECONDS: f64 = 3600.0;

/// The two lists of tests.
pub(super) fn expected(row: &Row) -> Result<Expected, DatasetError> {
    Ok(Expected { fail_to_pass: row.list("FAIL_TO_PASS")?, pass_to_pass: row.list("PASS_TO_PASS")? })
}

/// What all such rows have: name, instruction, reference patch, facts.
pub(super) fn common(row: &Row, dataset: &str) -> Result<Instance, DatasetError> {
    let mut facts = BTreeMap::from([("dataset".to_owned(), dataset.to_owned())]);
    for field in ["repo", "version", "base_commit", "difficulty", "language", "created_at"] {
        if let Some(text) = row.fields.get(field).and_then(|value| value.as_str()) {
            facts.insert(field.to_owned(), text.to_owned());
        }
    }
    Ok(Instance {
        id: row.filled("instance_id")?.to_owned(),
        instruction: row.filled("problem_statement")?.to_owned(),
        solution: row.text_if("patch")?.map(|patch| Solution::Patch(patch.as_bytes().to_vec())),
        test_seconds: TEST_SECONDS,
        facts,
        ..Instance::default()
    })
}

fn swebench_log(
    row: &Row,
    log_parser: &str,
    eval_type: EvalType,
    version: &str,
) -> Result<Grading, DatasetError> {
    let rule = Rule::SwebenchLog {
        version: version.to_owned(),
        log_parser: log_parser.to_owned(),
        eval_type,
        expected: expected(row)?,
    };
    Ok(Grading { instance_id: row.filled("instance_id")?.to_owned(), apply: Apply::Ladder, rule })
}

/// The official image of an instance.
fn image_of(id: &str) -> String {
    format!("swebench/sweb.eval.x86_64.{}:latest", id.to_lowercase().replace("__", "_1776_"))
}

/// A row of version 5.
pub(super) fn version_5(row: &Row) -> Result<Instance, DatasetError> {
    let parser = row.filled("log_parser")?;
    if !has_parser(parser) {
        return Err(DatasetError::UnknownParser { row: row.number, id: row.id(), parser: parser.to_owned() });
    }
    let eval_type = match row.filled("eval_type")? {
        "pass_and_fail" => EvalType::PassAndFail,
        "fail_only" => EvalType::FailOnly,
        other => return Err(row.wrong("eval_type", "`pass_and_fail` or `fail_only`", &other.into())),
    };
    let assets = if row.has("image_assets") && row.text("image_assets").map_or(true, |text| !text.is_empty())
    {
        row.object("image_assets")?
    } else {
        serde_json::Map::new()
    };
    if assets.values().any(|list| list.as_array().is_some_and(|list| !list.is_empty())) {
        return Err(row.unsupported(
            "its tests need binary files that a row cannot carry (`image_assets`)",
            "leave it out; the other rows are imported with `--keep-going`",
        ));
    }
    let mut instance = common(row, "swe-bench")?;
    instance.image = Some((row.filled("image")?.to_owned(), "/testbed".into()));
    instance.test_script = record_exit_code(row.filled("eval_script")?);
    instance.grading = Some(swebench_log(row, parser, eval_type, row.text("version")?)?);
    Ok(instance)
}

/// A row from before version 5.
pub(super) fn classic_row(row: &Row) -> Result<Instance, DatasetError> {
    let (repository, version) = (row.filled("repo")?, row.text("version")?);
    let commit = row.filled("base_commit")?;
    let Some(found) = classic::of(repository, version, commit, row.filled("test_patch")?) else {
        let what = if classic::knows(repository) {
            format!(
                "version `{version}` of `{repository}` is not known; known are {}",
                classic::versions(repository)
            )
        } else {
            format!("the test command of `{repository}` is not known")
        };
        return Err(row.unsupported(what, "take a row of version 5, which carries its own script"));
    };
    let mut instance = common(row, "swe-bench-classic")?;
    let named = row.text_if("image_name")?.or(row.text_if("docker_image")?);
    let image = named.map_or_else(|| image_of(&instance.id), str::to_owned);
    instance.image = Some((image, "/testbed".into()));
    instance.facts.insert("language".into(), found.language.to_owned());
    instance.test_script = record_exit_code(&found.script);
    instance.grading = Some(swebench_log(row, found.log_parser, found.eval_type, version)?);
    Ok(instance)
}

/// A row of SWE-bench Pro. `scripts` holds a folder for each instance with its
/// `run_script.sh` and its `parser.py`.
pub(super) fn pro(row: &Row, scripts: Option<&Path>) -> Result<Instance, DatasetError> {
    let id = row.filled("instance_id")?.to_owned();
    let Some(scripts) = scripts else {
        return Err(row.unsupported(
            "its run script and parser lie beside the data set",
            "name the folder `run_scripts` of SWE-bench Pro with `--scripts`",
        ));
    };
    let mut instance = common(row, "swe-bench-pro")?;
    for name in ["run_script.sh", "parser.py"] {
        let path = scripts.join(&id).join(name);
        let bytes = std::fs::read(&path).map_err(|source| DatasetError::Unreadable { path, source })?;
        instance.test_files.insert(name.to_owned(), bytes);
    }
    // Of the commands that prepare the repository only the last one puts the tests in.
    let before = row.text("before_repo_set_cmd")?.trim().rsplit('\n').next().unwrap_or_default();
    let selected = row.list("selected_test_files_to_run")?.join(",");
    let mut script = String::from("#!/bin/bash\n");
    for field in ["base_dockerfile", "instance_dockerfile"] {
        let lines = row.text_if(field)?.unwrap_or_default().lines().map(str::trim);
        for line in lines.filter(|line| line.starts_with("ENV")) {
            script.push_str(&line.replacen("ENV", "export", 1));
            script.push('\n');
        }
    }
    let place = "/logs/verifier";
    script.push_str(&format!(
        "cd /app\n{before}\nbash /tests/run_script.sh {selected} > {place}/stdout.log 2> {place}/stderr.log\n\
         python /tests/parser.py {place}/stdout.log {place}/stderr.log {place}/output.json\n"
    ));
    let repository = row.filled("repo")?;
    let image = match row.text_if("dockerhub_tag")?.filter(|tag| !tag.is_empty()) {
        Some(tag) => format!("jefzda/sweap-images:{tag}"),
        None => format!("jefzda/sweap-images:{}", pro_tag(&id, repository)),
    };
    let commit = row.filled("base_commit")?;
    instance.setup = Some(format!(
        "#!/bin/bash\nset -e\n[ \"${{TANDEM_FOR:-files}}\" = files ] || exit 0\ncd /app\ngit reset --hard {commit}\ngit checkout {commit}\n"
    ));
    instance.image = Some((image, "/app".into()));
    instance.test_script = script;
    instance.test_seconds = PRO_SECONDS;
    instance.grading = Some(Grading {
        instance_id: id,
        apply: Apply::TextOnly,
        rule: Rule::ProOutput { expected: expected(row)? },
    });
    Ok(instance)
}

/// The tag of an instance's image, at most 128 characters.
fn pro_tag(id: &str, repository: &str) -> String {
    let (owner, name) = repository.split_once('/').unwrap_or((repository, repository));
    let (owner, mut name) = (owner.to_lowercase(), name.to_lowercase());
    let mut rest = id.replacen("instance_", "", 1);
    const WHOLE: &str = "element-hq__element-web-ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan";
    if rest != WHOLE {
        if owner == "element-hq" && name == "element-web" {
            name = "element".into();
        }
        rest = rest.strip_suffix("-vnan").unwrap_or(&rest).to_owned();
    }
    format!("{owner}.{name}-{rest}").chars().take(128).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_named_as_the_data_sets_name_them() {
        assert_eq!(
            image_of("Django__Django-11099"),
            "swebench/sweb.eval.x86_64.django_1776_django-11099:latest"
        );
        let check =
            |id: &str, repository: &str, expected: &str| assert_eq!(pro_tag(id, repository), expected);
        check("instance_NodeBB__NodeBB-7b8b-vf2c", "NodeBB/NodeBB", "nodebb.nodebb-NodeBB__NodeBB-7b8b-vf2c");
        check(
            "instance_element-hq__element-web-123-vnan",
            "element-hq/element-web",
            "element-hq.element-element-hq__element-web-123",
        );
    }
}
