//! Pairs: what does the program pack, refuse, show, compare and sign?

#[path = "program/pairs.rs"]
mod pairs;
mod program;
#[path = "program/tiny.rs"]
mod tiny;

use expect_test::{Expect, expect};
use pairs::{FIXTURE, SKILL, Scratch, TASK, copy, settled, tree};
use program::root;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

#[test]
fn the_same_run_gives_the_same_bytes() {
    let fixture = &*FIXTURE;
    // What the end of the campaign wrote, and what was packed from its run before it changed.
    assert_eq!(tree(&fixture.path("run/pair")), tree(&fixture.path("early")));
    for form in [&[][..], &["--adapter-only"]] {
        let out = ["DIR/again-1", "DIR/again-2"];
        for out in out {
            fixture.done(&[&["pair", "pack", "DIR/run", "-o", out], form].concat());
        }
        let [one, two] = out.map(|out| tree(&fixture.path(&out["DIR/".len()..])));
        assert!(one == two, "{form:?}: two packings differ");
        assert_eq!(one.contains_key("policy/adapter_model.safetensors"), !form.is_empty());
        assert_eq!(one.contains_key("policy/model.safetensors"), form.is_empty());
        for out in out {
            std::fs::remove_dir_all(fixture.path(&out["DIR/".len()..])).unwrap();
        }
    }
}

#[test]
fn no_skill_is_in_a_pair() {
    let fixture = &*FIXTURE;
    let holds = |bytes: &[u8]| bytes.windows(SKILL.len()).any(|window| window == SKILL.as_bytes());
    let digest = hex::encode(Sha256::digest(SKILL));
    let run: Vec<_> = tree(&fixture.path("run")).into_iter().filter(|(_, bytes)| holds(bytes)).collect();
    assert!(run.iter().any(|(name, _)| name.ends_with(&digest)), "the run has the skill as a blob");
    fixture.done(&["pair", "pack", "DIR/run", "-o", "DIR/lean", "--adapter-only"]);
    for pair in ["pair", "lean"] {
        for (name, bytes) in tree(&fixture.path(pair)) {
            assert!(!holds(&bytes) && !name.contains(&digest), "{pair}/{name} holds a skill");
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(&digest), "{pair}/{name} names a skill");
        }
    }
}

#[test]
fn a_page_tells_what_is_in_a_pair() {
    FIXTURE.check(
        &["pair", "verify", "DIR/pair"],
        0,
        expect![[r#"
        pair is whole: sha256:A, 9 files
          policy   sha256:B
          harness  sha256:C
          budget-warning  sha256:D
    "#]],
    );
    FIXTURE.check(&["pair", "inspect", "DIR/pair"], 0, expect![[r#"
        pair `tiny`: sha256:A
        9 files, 119.4 kB; packed by tandem 0.1.0; needs tandem:harness@0.1.0

        Policy sha256:B
          version 0 of `base`: all weights
          base sha256:C
          chat template sha256:D
          conversations of 8192 tokens; replies of 8, temperature 1

        Harness sha256:E
          budget-warning (F): asks for nothing; from the catalog, rust
              A warning before the last turns lets the policy hand in what it has.
              answers `limit-without-edits`, seen in 3 episodes of 2 tasks in round 1, where 6 failed
              gate of round 1: accept by `paired`; pass 25.0 % to 100.0 %, trainable 50.0 % to 0.0 % on 2 tasks, 2 rollouts in each arm
          limits: command_seconds 60, deferrals 2, format_errors 3, observation_chars 10000, protocol text, seconds 0, tokens 0, turns 40
          prompts, in characters: system 213, instance 685, observation 205, format error 613

        Evaluation
          policy   harness       tasks  episodes  pass rate
          v0       G      3         3  0.0 % [0.0 %, 70.8 %]
          v0       E      3         3  66.7 % [0.0 %, 100.0 %]  <- this pair
          over what the run began with: 66.7 % [0.0 %, 100.0 %] on 3 tasks
          mean over tasks of the share of solved episodes; 95 % percentile bootstrap over tasks, and where all tasks agree the exact binomial interval

        Licences
          base policy: not known
          budget-warning: Apache-2.0
    "#]]);
}

#[test]
fn the_record_of_a_plugin_goes_with_it() {
    let text = FIXTURE.done(&["pair", "inspect", "DIR/pair", "--json"]);
    let pair: Value = serde_json::from_str(&text).unwrap();
    let told = &pair["plugins"][0]["provenance"];
    assert_eq!(told["author"]["kind"], "catalog");
    assert_eq!(
        told["evidence"],
        json!({"round": 1, "signal": "limit-without-edits", "episodes": 3, "tasks": 2, "failed": 6})
    );
    assert_eq!((&told["gate"]["verdict"], &told["gate"]["paper"]), (&json!("accept"), &json!("reject")));
    assert!(told["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "rustc"), "{told}");
    assert_eq!(pair["plugins"][0]["source"]["language"], "rust");
    assert_eq!(pair["harness_manifest"]["limits"]["turns"], 40);
    let cells = pair["evaluation"]["cells"].as_array().unwrap();
    let solved: Vec<_> =
        cells.iter().map(|cell| (&cell["of_pair"], &cell["solved"], &cell["tasks"])).collect();
    assert!(solved.contains(&(&json!(true), &json!(2), &json!(3))), "{solved:?}");
}

#[test]
fn an_edit_of_a_prompt_goes_with_the_pair_as_long_as_the_harness_shows_it() {
    let scratch = FIXTURE.copy();
    let run = scratch.folder.path().join("run");
    copy(&FIXTURE.path("run"), &run);
    let blob = |bytes: &[u8]| {
        let hex = hex::encode(Sha256::digest(bytes));
        std::fs::write(run.join("blobs").join(&hex), bytes).unwrap();
        format!("sha256:{hex}")
    };
    let connection = rusqlite::Connection::open(run.join("run.sqlite")).unwrap();
    let sql = "SELECT digest FROM publication ORDER BY seq DESC LIMIT 1";
    let last: String = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    let manifest = std::fs::read(run.join("blobs").join(&last["sha256:".len()..])).unwrap();
    let mut manifest: Value = serde_json::from_slice(&manifest).unwrap();
    manifest["prompts"]["system"] = json!("Be careful.");
    let harness = blob(manifest.to_string().as_bytes());
    let report = |signal: &str, edit: Value| {
        let gate: String = connection
            .query_row("SELECT report FROM phase WHERE name = 'candidate-0'", [], |row| row.get(0))
            .unwrap();
        let gate: Value = serde_json::from_str(&gate).unwrap();
        let source = blob(edit.to_string().as_bytes());
        let report = json!({
            "proposal": {
                "name": "be-careful", "signal": signal, "kind": edit["kind"], "source": source,
                "rationale": "The policy takes care.",
            },
            "plugin": null, "incumbent": last, "harness": harness, "build_seconds": 0.0, "refused": null,
            "gate": gate["gate"],
        });
        report.to_string()
    };
    let phase = "INSERT OR REPLACE INTO phase (round, name, report) VALUES (1, ?1, ?2)";
    let prompt = |text: &str| json!({"kind": "prompt", "prompt": "system", "text": text});
    // Two were accepted one after the other; the later one is what the harness says.
    for (name, edit) in [("candidate-1", prompt("Be quick.")), ("candidate-2", prompt("Be careful."))] {
        connection.execute(phase, [name, &report("limit-without-edits", edit)]).unwrap();
    }
    connection
        .execute("INSERT INTO publication (round, digest, reason) VALUES (1, ?1, 'changed')", [&harness])
        .unwrap();
    drop(connection);
    let done = |words: &[&str]| {
        let output = scratch.run(words);
        assert_eq!(output.code, Some(0), "{words:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    };
    done(&["pair", "pack", "DIR/run", "-o", "DIR/edited"]);
    done(&["pair", "verify", "DIR/edited"]);
    let told: Value = serde_json::from_str(&done(&["pair", "inspect", "DIR/edited", "--json"])).unwrap();
    let [edit] = told["edits"].as_array().unwrap().as_slice() else { panic!("{}", told["edits"]) };
    assert_eq!(edit["edit"], prompt("Be careful."));
    assert_eq!(edit["provenance"]["author"]["kind"], "catalog");
    assert_eq!(edit["provenance"]["evidence"]["episodes"], 3);
    assert_eq!(edit["provenance"]["gate"]["verdict"], "accept");
    assert_eq!(told["harness_manifest"]["prompts"]["system"], "Be careful.");
    let page = done(&["pair", "inspect", "DIR/edited"]);
    let line = "  be-careful changes the prompt `system`; from the catalog\n      The policy takes care.\n";
    assert!(page.contains(line), "{page}");
    // A pair without edits says nothing of them, as pairs of earlier programs do.
    assert!(scratch.manifest().get("edits").is_none());
}

#[test]
fn a_diff_tells_what_a_pair_newly_asks_for() {
    FIXTURE.check(
        &["pair", "diff", "DIR/early", "DIR/pair"],
        0,
        expect![[r#"
            from sha256:A to sha256:B
            Policy
              digest: C -> D
            Harness
              from E to F
              It newly asks for:
                `budget-warning` imports 13 interfaces of WASI, which any plugin gets
              It newly hooks:
                `budget-warning` is called at `on-model-call`
              Plugins:
                `budget-warning` is new, in place 1 of 1 (component G)
              Limits:
                `turns`: 250 before, 40 now
            Evaluation
              pass rate: 0.0 % [0.0 %, 70.8 %] -> 66.7 % [0.0 %, 100.0 %]
        "#]],
    );
    FIXTURE.check(
        &["pair", "diff", "DIR/pair", "DIR/pair"],
        0,
        expect![[r#"
        the same pair: sha256:A
    "#]],
    );
}

#[test]
fn another_policy_is_refused() {
    let scratch = FIXTURE.copy();
    scratch.write("policy/config.json", "{}");
    scratch.refused(expect![[r#"
        error: the policy is sha256:A (policy/config.json was changed), and the harness of this pair was evaluated with the policy sha256:B
        help: copy the pair again, or take the halves that belong together; `--allow-mismatch` uses these: the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves
    "#]]);
}

#[test]
fn a_missing_file_of_the_policy_is_named() {
    let scratch = FIXTURE.copy();
    std::fs::remove_file(scratch.pair().join("policy/tokenizer.json")).unwrap();
    scratch.refused(expect![[r#"
        error: the policy is sha256:A (policy/tokenizer.json is missing), and the harness of this pair was evaluated with the policy sha256:B
        help: copy the pair again, or take the halves that belong together; `--allow-mismatch` uses these: the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves
    "#]]);
}

#[test]
fn a_harness_that_was_changed_into_none_is_told_as_changed() {
    let scratch = FIXTURE.copy();
    scratch.write("harness.json", "{} and more");
    scratch.refused(expect![[r#"
        error: the harness is sha256:A, and the policy of this pair was evaluated with the harness sha256:B
        help: copy the pair again, or take the halves that belong together; `--allow-mismatch` uses these: the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves
    "#]]);
}

#[test]
fn a_policy_of_another_harness_is_refused() {
    let scratch = FIXTURE.copy();
    // Whole in itself: only what the policy says of its harness tells that it is another one.
    let path = scratch.pair().join("policy/tandem.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let harness = scratch.manifest()["harness"].as_str().unwrap().to_owned();
    std::fs::write(&path, text.replace(&harness, &format!("sha256:{}", "1".repeat(64)))).unwrap();
    scratch.reseal(|manifest| {
        let digest = hex::encode(Sha256::digest(std::fs::read(&path).unwrap()));
        manifest["files"]["policy/tandem.json"] = json!(format!("sha256:{digest}"));
        let files = manifest["files"].as_object().unwrap();
        let lines: String = files
            .iter()
            .filter_map(|(name, digest)| Some((name.strip_prefix("policy/")?, digest.as_str()?)))
            .map(|(name, digest)| format!("{}  {name}\n", &digest["sha256:".len()..]))
            .collect();
        manifest["policy"]["digest"] = json!(format!("sha256:{}", hex::encode(Sha256::digest(lines))));
    });
    scratch.refused(expect![[r#"
        error: the policy says that its harness is sha256:A, and this pair has the harness sha256:B
        help: copy the pair again, or take the halves that belong together; `--allow-mismatch` uses these: the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves
    "#]]);
}

#[test]
fn a_changed_component_is_refused() {
    let scratch = FIXTURE.copy();
    std::fs::write(scratch.component(), "another").unwrap();
    scratch.refused(expect![[r#"
        error: the component of the plugin `budget-warning` was changed: it is sha256:A, and sha256:B was evaluated
        help: copy the pair again, or take the halves that belong together; `--allow-mismatch` uses these: the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves
    "#]]);
}

#[test]
fn a_changed_harness_is_refused() {
    let scratch = FIXTURE.copy();
    let text = std::fs::read_to_string(scratch.pair().join("harness.json")).unwrap();
    scratch.write("harness.json", &text.replace("\"turns\":40", "\"turns\":41"));
    scratch.refused(expect![[r#"
        error: the harness is sha256:A, and the policy of this pair was evaluated with the harness sha256:B
        help: copy the pair again, or take the halves that belong together; `--allow-mismatch` uses these: the halves of a pair are fitted to each other: in the published experiments a policy lost up to 7.7 points of its pass rate without its harness, and no number of the pair's evaluation holds for other halves
    "#]]);
}

#[test]
fn a_missing_component_is_refused() {
    let scratch = FIXTURE.copy();
    std::fs::remove_file(scratch.component()).unwrap();
    scratch.refused(expect![[r#"
        error: the pair lacks its file components/A.wasm
        help: copy the pair again
    "#]]);
}

#[test]
fn a_changed_source_is_refused() {
    let scratch = FIXTURE.copy();
    let source = std::fs::read_dir(scratch.pair().join("sources")).unwrap().next().unwrap().unwrap();
    std::fs::write(source.path(), "fn other() {}").unwrap();
    scratch.refused(expect![[r#"
        error: file sources/A.rs of the pair was changed: its digest is sha256:B, and sha256:A is expected
        help: copy the pair again
    "#]]);
}

#[test]
fn a_changed_number_of_the_evaluation_is_refused() {
    let scratch = FIXTURE.copy();
    let text = std::fs::read_to_string(scratch.pair().join("pair.json")).unwrap();
    scratch.write("pair.json", &text.replace("\"solved\": 2", "\"solved\": 3"));
    scratch.refused(expect![[r#"
        error: pair.json was changed: its digest is sha256:A, and it says sha256:B
        help: copy the pair again
    "#]]);
}

#[test]
fn a_file_that_nobody_named_is_refused() {
    let scratch = FIXTURE.copy();
    scratch.write("notes.txt", "x");
    scratch.refused(expect![[r#"
        error: the pair holds notes.txt, which its manifest does not name
        help: delete that file, or copy the pair again
    "#]]);
}

#[test]
fn a_link_is_refused() {
    let scratch = FIXTURE.copy();
    std::os::unix::fs::symlink("/etc/hostname", scratch.pair().join("sources/link")).unwrap();
    scratch.refused(expect![[r#"
        error: the pair holds sources/link, which is a link or a special file
        help: a pair has plain files alone; copy it again, and do not use this one
    "#]]);
}

#[test]
fn a_place_outside_the_pair_is_refused() {
    let scratch = FIXTURE.copy();
    scratch.reseal(|manifest| {
        manifest["files"]["../../etc/hostname"] = manifest["harness"].clone();
    });
    scratch.refused(expect![[r#"
        error: the pair names the file `../../etc/hostname`, which is no place inside a pair
        help: do not use this pair: whoever made it tried to reach other files
    "#]]);
}

#[test]
fn an_unknown_contract_is_refused() {
    let scratch = FIXTURE.copy();
    scratch.reseal(|manifest| manifest["contract"] = json!("tandem:harness@9.0.0"));
    scratch.refused(expect![[r#"
        error: the pair needs the contract `tandem:harness@9.0.0`, and this program speaks `tandem:harness@0.1.0`
        help: use a program version that speaks it; nothing of the pair can run here
    "#]]);
}

#[test]
fn an_unknown_layout_is_refused() {
    let scratch = FIXTURE.copy();
    scratch.reseal(|manifest| manifest["layout"] = json!(7));
    scratch.refused(expect![[r#"
        error: the pair has layout 7, and this program reads layout 2
        help: use the program version that wrote it, or one that is newer than this
    "#]]);
}

#[test]
fn a_manifest_that_cannot_be_read_is_told() {
    let scratch = FIXTURE.copy();
    scratch.write("pair.json", "{\"layout\": 2}");
    scratch.refused(expect![[r#"
        error: DIR/pair/pair.json is not a pair manifest: missing field `digest` at line 1 column 13
        help: copy the pair again
    "#]]);
    scratch.write("pair.json", "hello");
    scratch.refused(expect![[r#"
        error: DIR/pair/pair.json is not a pair manifest: expected value at line 1 column 1
        help: copy the pair again
    "#]]);
}

#[test]
fn a_pair_that_does_not_agree_with_itself_is_refused() {
    let check = |change: fn(&mut Value), expected: Expect| {
        let scratch = FIXTURE.copy();
        scratch.reseal(change);
        scratch.refused(expected);
    };
    check(
        |manifest| manifest["plugins"] = json!([]),
        expect![[r#"
        error: the pair does not agree with itself: pair.json and harness.json name different plugins
        help: copy the pair again, or pack it again from its run
    "#]],
    );
    check(
        |manifest| manifest["plugins"][0]["source"]["digest"] = manifest["harness"].clone(),
        expect![[r#"
        error: the pair does not agree with itself: the source of the plugin `budget-warning` is not in it
        help: copy the pair again, or pack it again from its run
    "#]],
    );
    check(
        |manifest| manifest["policy"]["digest"] = manifest["harness"].clone(),
        expect![[r#"
        error: the pair does not agree with itself: the policy's digest is not that of its files
        help: copy the pair again, or pack it again from its run
    "#]],
    );
    check(
        |manifest| manifest["harness"] = manifest["policy"]["digest"].clone(),
        expect![[r#"
            error: the pair does not agree with itself: harness.json is not the harness that it names
            help: copy the pair again, or pack it again from its run
        "#]],
    );
}

#[test]
fn another_pair_than_was_meant_is_refused() {
    let scratch = FIXTURE.copy();
    let digest = scratch.manifest()["digest"].as_str().unwrap().to_owned();
    let output = scratch.run(&["pair", "verify", "PAIR", "--digest", &digest]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let other = format!("sha256:{}", "2".repeat(64));
    let output = scratch.run(&["pair", "verify", "PAIR", "--digest", &other]);
    expect![[r#"
        error: the pair is sha256:A, and sha256:B was asked for
        help: get the pair that you mean, or leave out `--digest`
    "#]]
    .assert_eq(&settled(&output.stderr));
    assert_eq!(output.code, Some(3));
}

#[test]
fn a_folder_that_is_no_pair_and_a_folder_that_is_there_are_told() {
    FIXTURE.check(&["pair", "inspect", "DIR"], 1, expect![[r#"
        error: DIR is not a pair: it has no pair.json
        help: `tandem pair pack RUN -o DIR` makes a pair from a run; a finished run has one in its folder `pair`
    "#]]);
    FIXTURE.check(
        &["pair", "pack", "DIR/run", "-o", "DIR/base"],
        1,
        expect![[r#"
        error: DIR/base exists already, and nothing is overwritten
        help: give another name
    "#]],
    );
    FIXTURE.check(
        &["pair", "pack", "DIR/base", "-o", "DIR/none"],
        1,
        expect![[r#"
        error: DIR/base is not the folder of a run: it has no run.sqlite
        help: `tandem train CAMPAIGN --run DIR` makes one
    "#]],
    );
}

#[test]
fn a_pair_of_layout_1_is_verified_and_told_to_be_packed_again() {
    let scratch = FIXTURE.copy();
    let manifest = scratch.manifest();
    let old = json!({
        "layout": 1, "contract": manifest["contract"], "harness": manifest["harness"], "files": manifest["files"],
        "plugins": [{"name": "budget-warning", "component": manifest["plugins"][0]["component"], "source": null}],
    });
    scratch.write("pair.json", &old.to_string());
    let output = scratch.run(&["pair", "verify", "PAIR"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    expect![[r#"
        pair is whole: harness sha256:A, 9 files, layout 1
          budget-warning  sha256:B
        help: to use it, pack it again with `tandem pair pack RUN -o DIR` from its run
    "#]]
    .assert_eq(&settled(&output.stdout));
    let digest = format!("sha256:{}", "2".repeat(64));
    let output = scratch.run(&["pair", "verify", "PAIR", "--digest", &digest]);
    assert_eq!(output.code, Some(3));
    assert!(output.stderr.contains("which has no digest of the whole"), "{}", output.stderr);
    let output = scratch.run(&["pair", "inspect", "PAIR"]);
    expect![[r#"
        error: the pair in DIR/pair has layout 1, which does not say what its policy is, who wrote its plugins or how it was evaluated
        help: pack it again with `tandem pair pack RUN -o DIR` from its run; `tandem pair verify` still checks it
    "#]].assert_eq(&output.stderr);
    assert_eq!(output.code, Some(3));
    std::fs::write(scratch.component(), "another").unwrap();
    scratch.refused(expect![[r#"
        error: file components/A.wasm of the pair was changed: its digest is sha256:B, and sha256:A is expected
        help: copy the pair again
    "#]]);
}

/// The words of a line of a page, as a shell takes them.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars().chain([' ']) {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted && word.is_empty() => break,
            ' ' if !quoted && !word.is_empty() => words.push(std::mem::take(&mut word)),
            ' ' if !quoted => {}
            other => word.push(other),
        }
    }
    words
}

#[test]
fn the_commands_of_the_page_work_in_their_order() {
    let scratch = FIXTURE.copy();
    let folder = scratch.folder.path();
    std::fs::rename(scratch.pair(), folder.join("made")).unwrap();
    copy(&FIXTURE.path("early"), &folder.join("other-pair"));
    copy(&root().join(TASK).join("environment/workspace"), &folder.join("repo"));
    std::fs::write(folder.join("issue.md"), "Mend the sum.").unwrap();
    let text = std::fs::read_to_string(folder.join("made/pair.json")).unwrap();
    let digest = serde_json::from_str::<Value>(&text).unwrap()["digest"].as_str().unwrap().to_owned();
    let run = FIXTURE.path("run").to_string_lossy().into_owned();
    let page = std::fs::read_to_string(root().join("docs/pair.md")).unwrap();
    let mut seen = 0;
    // What needs a server is left out.
    let server = |line: &str| line.contains("--endpoint") || line.contains("registry.example.com");
    for line in page.lines().filter(|line| line.starts_with("tandem ") && !server(line)) {
        let place = |word: String| match word.as_str() {
            "runs/quickstart" => run.clone(),
            "sha256:..." => digest.clone(),
            "." => "DIR/repo".to_owned(),
            _ if folder.join(word.split('/').next().unwrap_or_default()).exists() => format!("DIR/{word}"),
            _ if word.starts_with("oci:") => word.replacen("oci:", "oci:DIR/", 1),
            "my-pair" | "my-adapter" | "my-model" | "my-copy" | "parts" | "team" | "team.pem"
            | "team.pub" => {
                format!("DIR/{word}")
            }
            _ => word,
        };
        let words: Vec<_> = words(line).into_iter().skip(1).map(place).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let output = scratch.run(&words);
        // The policy of two layers makes no patch.
        let expected = if words[0] == "run" { 3 } else { 0 };
        assert_eq!(output.code, Some(expected), "{line}: {}", output.stderr);
        seen += 1;
    }
    assert!(seen >= 14, "the page has only {seen} commands");
    assert!(tree(&folder.join("my-pair")).contains_key("pair.json.sig"));
}

mod signatures {
    use super::*;

    fn signed() -> Scratch {
        let scratch = FIXTURE.copy();
        for words in
            [&["pair", "new-key", "DIR/ours"][..], &["pair", "sign", "PAIR", "--key", "DIR/ours.pem"]]
        {
            let output = scratch.run(words);
            assert_eq!(output.code, Some(0), "{}", output.stderr);
        }
        scratch
    }

    fn check(scratch: &Scratch, key: &str, code: i32, expected: Expect) {
        let output = scratch.run(&["pair", "verify", "PAIR", "--key", key]);
        expected.assert_eq(&output.stderr);
        assert_eq!(output.code, Some(code));
    }

    #[test]
    fn the_key_that_signed_is_told_from_others() {
        let scratch = signed();
        let output = scratch.run(&["pair", "verify", "PAIR", "--key", "DIR/ours.pub"]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let last = output.stdout.lines().last().unwrap();
        assert!(last.starts_with("  signed by the key ") && last.ends_with("ours.pub"), "{last}");
        let unchecked = scratch.run(&["pair", "verify", "PAIR"]);
        assert!(
            unchecked.stdout.ends_with("  signed; `--key FILE` checks by whom\n"),
            "{}",
            unchecked.stdout
        );
        scratch.run(&["pair", "new-key", "DIR/theirs"]);
        check(
            &scratch,
            "DIR/theirs.pub",
            3,
            expect![[r#"
            error: the signature of the pair is not one of the key DIR/theirs.pub
            help: use no pair that you do not know who vouches for; ask its owner for the right key or pair
        "#]],
        );
        check(
            &scratch,
            "DIR/ours.pem",
            1,
            expect![[r#"
            error: DIR/ours.pem is no key that can be used: it has no `-----BEGIN PUBLIC KEY-----` in it
            help: `tandem pair new-key NAME` makes one; `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256` does too
        "#]],
        );
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(scratch.folder.path().join("ours.pem")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "only its owner reads a private key");
    }

    #[test]
    fn a_signature_does_not_outlive_a_change() {
        let scratch = signed();
        scratch.reseal(|manifest| manifest["name"] = json!("other"));
        assert_eq!(scratch.run(&["pair", "verify", "PAIR"]).code, Some(0));
        check(
            &scratch,
            "DIR/ours.pub",
            3,
            expect![[r#"
            error: the signature of the pair is not one of the key DIR/ours.pub
            help: use no pair that you do not know who vouches for; ask its owner for the right key or pair
        "#]],
        );
    }

    #[test]
    fn a_pair_without_a_signature_is_refused_when_a_key_is_named() {
        let scratch = FIXTURE.copy();
        scratch.run(&["pair", "new-key", "DIR/ours"]);
        check(
            &scratch,
            "DIR/ours.pub",
            3,
            expect![[r#"
            error: the pair is not signed
            help: ask for a signed one; its owner signs it with `tandem pair sign PAIR --key KEY`
        "#]],
        );
    }

    /// What others make of key and signature: cosign's are those of OpenSSL.
    #[test]
    fn openssl_agrees_in_both_directions() {
        let scratch = signed();
        let path = |name: &str| scratch.folder.path().join(name).to_string_lossy().into_owned();
        let openssl = |words: &[&str]| std::process::Command::new("openssl").args(words).output();
        let (raw, pair) = (path("raw.sig"), path("pair/pair.json"));
        let decoded = openssl(&["base64", "-d", "-A", "-in", &path("pair/pair.json.sig"), "-out", &raw]);
        let Ok(decoded) = decoded else { return eprintln!("left out: there is no openssl here") };
        assert!(decoded.status.success());
        let checked =
            openssl(&["dgst", "-sha256", "-verify", &path("ours.pub"), "-signature", &raw, &pair]).unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        let (key, public) = (path("made.pem"), path("made.pub"));
        let made = ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", &key];
        assert!(openssl(&made).unwrap().status.success());
        assert!(openssl(&["pkey", "-in", &key, "-pubout", "-out", &public]).unwrap().status.success());
        assert_eq!(scratch.run(&["pair", "sign", "PAIR", "--key", "DIR/made.pem"]).code, Some(0));
        assert_eq!(scratch.run(&["pair", "verify", "PAIR", "--key", "DIR/made.pub"]).code, Some(0));
    }
}
