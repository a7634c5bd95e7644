//! What can be done with a pair: unpack it, export it, run it, and what of another half?

#[path = "program/pairs.rs"]
mod pairs;
mod program;
#[path = "program/served.rs"]
mod served;
#[path = "program/tiny.rs"]
mod tiny;

use std::path::Path;

use expect_test::{Expect, expect};
use pairs::{FIXTURE, Scratch, TASK, copy, settled, tree};
use program::{Output, root, tandem_home};
use serde_json::{Value, json};
use served::Served;

/// A task, a script that solves it, and another policy than the pair's.

#[test]
fn another_policy_beside_the_harness_needs_to_be_allowed() {
    let scratch = FIXTURE.copy();
    let other = scratch.folder.path().join("other");
    copy(&FIXTURE.path("base"), &other);
    let episode = ["episode", TASK, "--pair", "PAIR", "--policy", "DIR/other"];
    let output = scratch.run(&episode);
    expect![[r#"
        error: the policy is sha256:A, and the harness of this pair was evaluated with the policy sha256:B
        help: copy the pair again, or take the halves that belong together; `--allow-mismatch` uses these: the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves
    "#]].assert_eq(&settled(&output.stderr));
    assert_eq!(output.code, Some(1));
    let output = scratch.run(&[&episode[..], &["--allow-mismatch"]].concat());
    expect![[r#"
        warning: the policy is sha256:A, and the harness of this pair was evaluated with the policy sha256:B
        warning: the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves
    "#]].assert_eq(&settled(&output.stderr));
    // It ran, and solved nothing.
    assert_eq!(output.code, Some(3), "{}", output.stderr);
}

#[test]
fn a_changed_component_can_be_allowed_and_is_another_harness() {
    let scratch = FIXTURE.copy();
    let component = scratch.component();
    let mut bytes = std::fs::read(&component).unwrap();
    // An empty custom section: another component that does the same.
    bytes.extend([0, 2, 1, b'x']);
    std::fs::write(&component, bytes).unwrap();
    let script = format!("{TASK}/solution/demo.json");
    let episode = ["episode", TASK, "--pair", "PAIR", "--script", &script];
    assert_eq!(scratch.run(&episode).code, Some(1));
    let output = scratch.run(&[&episode[..], &["--allow-mismatch"]].concat());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(
        output.stderr.starts_with("warning: the component of the plugin `budget-warning` was changed"),
        "{}",
        output.stderr
    );
    let harness = scratch.manifest()["harness"].as_str().unwrap()["sha256:".len()..][..12].to_owned();
    assert!(
        output.stdout.contains("solved after 3 turns") && !output.stdout.contains(&harness),
        "{}",
        output.stdout
    );
}

#[test]
fn unpacked_halves_work_with_other_commands() {
    let scratch = FIXTURE.copy();
    let output = scratch.run(&["pair", "unpack", "PAIR", "-o", "DIR/out"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let script = format!("{TASK}/solution/demo.json");
    let output = scratch.run(&["episode", TASK, "--home", "DIR/out/harness", "--script", &script]);
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    let manifest = scratch.manifest();
    let harness = manifest["harness"].as_str().unwrap();
    assert!(output.stdout.contains(&harness["sha256:".len()..][..12]), "{}", output.stdout);
    let log = scratch.run(&["harness", "log", "--home", "DIR/out/harness", "--json"]);
    let entry: Value = serde_json::from_str(log.stdout.trim()).unwrap();
    assert_eq!(entry["sources"]["budget-warning"], manifest["plugins"][0]["source"]["digest"]);
    let info = scratch.run(&["model", "info", "DIR/out/policy"]);
    assert_eq!(info.code, Some(0), "{}", info.stderr);
}

#[test]
fn an_exported_pair_is_a_model_folder_with_the_harness_beside_the_weights() {
    let scratch = FIXTURE.copy();
    let output = scratch.run(&["pair", "export", "--hf", "PAIR", "-o", "DIR/out"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let out = scratch.folder.path().join("out");
    let files = tree(&out);
    let names: Vec<_> = files.keys().filter(|name| !name.contains("tandem/")).map(String::as_str).collect();
    expect![[r#"
        README.md
        config.json
        generation_config.json
        model.safetensors
        tandem.json
        tokenizer.json
        tokenizer_config.json"#]]
    .assert_eq(&names.join("\n"));
    for name in ["tandem/harness.json", "tandem/harness.toml", "tandem/pair.json"] {
        assert!(files.contains_key(name), "{name} is missing");
    }
    expect![[r#"
        ---
        library_name: transformers
        pipeline_tag: text-generation
        base_model: "base"
        license: other
        tags: [tandem, code-agent]
        ---

        # tiny

        Version 0 of a coding agent's policy, trained from `base`, and the harness that it was trained with. The two are a pair: without its harness a policy solves less (in the published experiments up to 7.7 points), and the numbers below hold for both together.

        | | digest |
        |---|---|
        | pair | `sha256:A` |
        | policy | `sha256:B` |
        | harness | `sha256:C` |

        ## Evaluation

        | policy | harness | tasks | episodes | pass rate, 95 % |
        |---|---|---|---|---|
        | v0 | `D` | 3 | 3 | 0.0 % [0.0 %, 70.8 %] |
        | **v0** | `C` | 3 | 3 | **66.7 % [0.0 %, 100.0 %]** |

        The bold row is this pair. Mean over tasks of the share of solved episodes; 95 % percentile bootstrap over tasks, and where all tasks agree the exact binomial interval.
        Over what the run began with: 66.7 % [0.0 %, 100.0 %].

        ## Harness

        - `budget-warning`: from the catalog, rust; A warning before the last turns lets the policy hand in what it has.

        Manifest, components and sources lie in `tandem/`.

        ## Use

        With Tandem, from the pair that this folder was made from:

        ```sh
        tandem pair verify PAIR --digest sha256:A
        tandem run --pair PAIR --repo . --task "what to do"
        ```

        With an inference server that serves this folder, the harness around it:

        ```sh
        tandem run --pair PAIR --repo . --task "what to do" --endpoint http://localhost:8000/v1 --model NAME
        ```

        The weights alone, without what the harness gives them:

        ```python
        from transformers import AutoModelForCausalLM, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained("FOLDER")
        model = AutoModelForCausalLM.from_pretrained("FOLDER")
        ```
    "#]].assert_eq(&settled(&String::from_utf8_lossy(&files["README.md"])));
    let info = scratch.run(&["model", "info", "DIR/out"]);
    assert_eq!(info.code, Some(0), "{}", info.stderr);
}

#[test]
fn an_adapter_needs_its_base_and_no_other() {
    let scratch = Scratch { folder: tempfile::tempdir().unwrap() };
    let run = FIXTURE.path("run").to_string_lossy().into_owned();
    let output = scratch.run(&["pair", "pack", &run, "-o", "PAIR", "--adapter-only"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let base = FIXTURE.path("base").to_string_lossy().into_owned();
    let export = ["pair", "export", "--hf", "PAIR", "-o", "DIR/out"];
    let output = scratch.run(&export);
    expect![[r#"
        error: the base policy of the pair, `base` (sha256:A), is not here
        cause: there is no model `base`: it is no file or folder, no known name and no hub id
        help: name its folder or file with `--base`
        help: known names are smollm2-135m, gemma3-270m; hub ids are `owner/name` or `owner/name@revision`
    "#]]
    .assert_eq(&settled(&output.stderr));
    let output = scratch.run(&[&export[..], &["--base", &base]].concat());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    // Folded together they are the weights of the whole pair.
    let folded = std::fs::read(scratch.folder.path().join("out/model.safetensors")).unwrap();
    assert!(folded == std::fs::read(FIXTURE.path("pair/policy/model.safetensors")).unwrap());
    let other = scratch.folder.path().join("base");
    copy(Path::new(&base), &other);
    std::fs::write(other.join("config.json"), "{}").unwrap();
    let output = scratch.run(&["pair", "export", "--hf", "PAIR", "-o", "DIR/two", "--base", "DIR/base"]);
    expect![[r#"
        error: the base policy `DIR/base` is sha256:A, and the adapter of this pair belongs on sha256:B
        help: copy the pair again, or take the halves that belong together; `--allow-mismatch` uses these: the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves
    "#]].assert_eq(&settled(&output.stderr));
    assert_eq!(output.code, Some(3));
}

#[test]
fn the_policy_of_a_pair_is_served_as_it_was_evaluated() {
    let pair = FIXTURE.path("pair").to_string_lossy().into_owned();
    let words = ["serve", "policy", "--pair", &pair, "--listen", "127.0.0.1:0"];
    let served = Served::start(&words, &[("TANDEM_HOME", &tandem_home())]);
    let model = served.get("/v1/models").json()["data"][0].clone();
    assert_eq!((&model["id"], &model["max_model_len"]), (&json!("tiny"), &json!(8192)));
    let asked = json!({"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "ignore_eos": true});
    let answer = served.post("/v1/chat/completions", &asked).json();
    assert_eq!(answer["usage"]["completion_tokens"], 8, "the limit of the pair: {answer}");

    let scratch = FIXTURE.copy();
    copy(&FIXTURE.path("base"), &scratch.folder.path().join("other"));
    let other = scratch.run(&[
        "serve",
        "policy",
        "--pair",
        "PAIR",
        "--policy",
        "DIR/other",
        "--listen",
        "127.0.0.1:0",
    ]);
    assert!(other.stderr.starts_with("error: the policy is sha256:"), "{}", other.stderr);
    assert_eq!(other.code, Some(1));
}

mod run {
    use super::*;

    /// A repository with a fault, beside a copy of the pair.
    fn repository() -> Scratch {
        let scratch = FIXTURE.copy();
        let repo = scratch.folder.path().join("repo");
        copy(&root().join(TASK).join("environment/workspace"), &repo);
        let git = |words: &[&str]| {
            let done = std::process::Command::new("git").args(words).current_dir(&repo).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        git(&["init", "--quiet"]);
        git(&["add", "."]);
        git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "first"]);
        scratch
    }

    fn repair(scratch: &Scratch, words: &[&str]) -> Output {
        let script = root().join(TASK).join("solution/demo.json").to_string_lossy().into_owned();
        let base =
            ["run", "--pair", "PAIR", "--repo", "DIR/repo", "--task", "Mend the sum.", "--script", &script];
        scratch.run(&[&base[..], words].concat())
    }

    /// Progress without its clock.
    fn told(output: &Output) -> String {
        output
            .stderr
            .lines()
            .map(|line| format!("{}\n", line.split_once("] ").map_or(line, |(_, rest)| rest)))
            .collect()
    }

    #[test]
    fn a_patch_comes_out_and_the_repository_stays() {
        let scratch = repository();
        let before = tree(&scratch.folder.path().join("repo"));
        let output = repair(&scratch, &[]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        assert!(output.stdout.starts_with("diff --git a/calc.py b/calc.py\n"), "{}", output.stdout);
        assert!(output.stdout.contains("\n+    return left + right\n"), "{}", output.stdout);
        expect![[r#"
            turn 1: cat -n calc.py
            turn 2: sed -i '2c\    return left + right' calc.py
            turn 3: echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff
            a patch of 178 bytes after 3 turns; the repository was not touched
        "#]]
        .assert_eq(&told(&output));
        let to_file = repair(&scratch, &["--out", "DIR/fix.diff"]);
        assert_eq!(to_file.stdout, "");
        let written = std::fs::read_to_string(scratch.folder.path().join("fix.diff")).unwrap();
        assert_eq!(written, output.stdout);
        assert!(before == tree(&scratch.folder.path().join("repo")), "the repository was touched");
    }

    #[test]
    fn a_patch_is_applied_when_asked_for_and_the_check_succeeds() {
        let scratch = repository();
        let calc = scratch.folder.path().join("repo/calc.py");
        let before = std::fs::read_to_string(&calc).unwrap();
        let fails = repair(&scratch, &["--apply", "--check", "grep -q 'no such line' calc.py"]);
        assert_eq!(fails.code, Some(3), "{}", fails.stderr);
        expect!["the patch does not apply to a fresh copy, or the check fails with it; the repository was not touched"].assert_eq(told(&fails).lines().last().unwrap());
        assert_eq!(std::fs::read_to_string(&calc).unwrap(), before);
        let holds = repair(&scratch, &["--apply", "--check", "grep -q 'left + right' calc.py"]);
        assert_eq!((holds.code, holds.stdout.as_str()), (Some(0), ""), "{}", holds.stderr);
        assert!(std::fs::read_to_string(&calc).unwrap().contains("left + right"));
    }

    #[test]
    fn the_policy_of_the_pair_is_the_one_that_runs() {
        let scratch = repository();
        let output = scratch.run(&["run", "--pair", "PAIR", "--repo", "DIR/repo", "--task", "Mend the sum."]);
        // Two layers of noise write no command: three format errors end it.
        assert_eq!((output.code, output.stdout.as_str()), (Some(3), ""), "{}", output.stderr);
        let told = told(&output);
        assert!(told.contains("turn 3: ") && !told.contains("turn 4: "), "{told}");
        expect!["no patch after 3 turns: the limit of format errors was reached: 3 of 3 replies in a row could not be acted on"].assert_eq(told.lines().last().unwrap());
    }

    #[test]
    fn no_patch_leaves_no_empty_file_that_looks_like_one() {
        let scratch = repository();
        let script = scratch.folder.path().join("nothing.json");
        std::fs::write(
            &script,
            r#"{"replies": ["```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"]}"#,
        )
        .unwrap();
        let output = scratch.run(&[
            "run",
            "--pair",
            "PAIR",
            "--repo",
            "DIR/repo",
            "--task",
            "Mend the sum.",
            "--script",
            "DIR/nothing.json",
            "--out",
            "DIR/fix.diff",
        ]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(3), ""), "{}", output.stderr);
        let told = told(&output);
        let said = told.lines().last().unwrap();
        assert!(said.starts_with("no patch after 1 turns; DIR/fix.diff was not written"), "{said}");
        assert!(!scratch.folder.path().join("fix.diff").exists());
    }

    #[test]
    fn what_cannot_be_begun_is_told() {
        let scratch = repository();
        let check = |words: &[&str], expected: Expect| {
            let output = scratch.run(&[&["run", "--pair", "PAIR"], words].concat());
            expected.assert_eq(&output.stderr);
            assert_eq!(output.code, Some(1));
        };
        check(
            &["--repo", "DIR/none", "--task", "x"],
            expect![[r#"
            error: the repository DIR/none cannot be opened
            cause: No such file or directory (os error 2)
            help: check `--repo`
        "#]],
        );
        check(
            &["--repo", "DIR/repo", "--task", " "],
            expect![[r#"
            error: the task is empty
            help: say with `--task` what to do, or name a file that says it
        "#]],
        );
        // The agent would be given the name of the file as its task.
        check(
            &["--repo", "DIR/repo", "--task", "isue.md"],
            expect![[r#"
            error: there is no file `isue.md` with a task
            help: check the path; a task in words has spaces in it
        "#]],
        );
    }
}
