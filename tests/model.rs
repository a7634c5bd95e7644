//! What a user does with a policy at the command line: look, sample, score, export.

mod program;
#[path = "program/tiny.rs"]
mod tiny;

use std::path::Path;

use expect_test::{Expect, expect};
use program::{Output, Program, weights_are_here};
use serde_json::Value;

/// A scratch folder with the small policy in `tiny`.
fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(&folder.path().join("tiny"));
    folder
}

/// Runs the program; `DIR` in an argument is the scratch folder.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let name = folder.to_string_lossy();
    let arguments: Vec<_> = arguments.iter().map(|argument| argument.replace("DIR", &name)).collect();
    Program::new(&arguments).env("HF_HUB_OFFLINE", "1").env("HF_HOME", &format!("{name}/hf")).run()
}

/// What it writes when all is well.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    output.stdout
}

fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn fails(folder: &Path, arguments: &[&str], expected: Expect) {
    let output = run(folder, arguments);
    let text = format!("{}{}", output.stdout, output.stderr);
    expected.assert_eq(&text.replace(&*folder.to_string_lossy(), "DIR"));
    assert_eq!(output.code, Some(1));
}

#[test]
fn info_tells_shape_sizes_and_tokens() {
    let folder = scratch();
    let text = done(folder.path(), &["model", "info", "DIR/tiny"]);
    expect![[r#"
        model          DIR/tiny
        path           DIR/tiny
        architecture   llama: 2 layers, 32 wide, feed-forward 64
        attention      4 heads of 8, 2 for keys and values; RoPE base 10,000
        parameters     26,880; the embedding serves as head
        on disk        107.5 kB: F32 26,880 in 20 tensors
        context        256 tokens
        KV cache       1,000 tokens take 128.0 kB in bf16, 256.0 kB in f32
        tokenizer      259 tokens; 257 begins a text, 258 ends it
        chat template  usable; token 258 ends a turn
        checkpoint     policy v4 of `tiny`, harness none
    "#]]
    .assert_eq(&text.replace(&*folder.path().to_string_lossy(), "DIR"));

    let json: Value =
        serde_json::from_str(&done(folder.path(), &["model", "info", "DIR/tiny", "--json"])).unwrap();
    // Keys and values of 2 layers, 2 heads, 8 wide.
    assert_eq!(json["kv_cache_bytes_per_1000_tokens"]["bf16"], 1000 * 2 * 2 * 2 * 8 * 2);
    let layer = 32 * 32 + 2 * 32 * 16 + 32 * 32 + 3 * 32 * 64 + 2 * 32;
    assert_eq!(json["parameters"], 259 * 32 + 2 * layer + 32);
    assert_eq!(json["bytes_on_disk"], 4 * (259 * 32 + 2 * layer + 32));
}

#[test]
fn a_model_that_is_nowhere_is_named_with_what_was_tried() {
    let folder = scratch();
    fails(
        folder.path(),
        &["model", "info", "nothing"],
        expect![[r#"
            error: there is no model `nothing`: it is no file or folder, no known name and no hub id
            help: known names are smollm2-135m, gemma3-270m; hub ids are `owner/name` or `owner/name@revision`
        "#]],
    );
    fails(
        folder.path(),
        &["model", "info", "some/thing"],
        expect![[r#"
            error: `some/thing@main` is not in the cache DIR/hf/hub, and HF_HUB_OFFLINE forbids asking the hub; nor is there a file or folder of that name
            help: unset HF_HUB_OFFLINE, fetch the model on a machine with a network and copy its cache folder, or give the path of its files
        "#]],
    );
}

#[test]
fn the_same_seed_gives_the_same_replies_alone_and_beside_others() {
    let folder = scratch();
    let folder = folder.path();
    let limits = ["--max-tokens", "12", "--top-k", "40", "--top-p", "0.9", "--seed", "5", "--json"];
    let generate = |more: &[&str]| {
        rows(&done(folder, &[&["model", "generate", "DIR/tiny", "Once"], &limits[..], more].concat()))
    };
    let one = generate(&[]);
    let three = generate(&["--samples", "3"]);
    let one_by_one = generate(&["--samples", "3", "--slots", "1"]);
    assert_eq!((one.len(), three.len()), (1, 3));
    assert_eq!((&one[0]["ids"], &one[0]["text"]), (&three[0]["ids"], &three[0]["text"]));
    for (together, apart) in three.iter().zip(&one_by_one) {
        assert_eq!(together["ids"], apart["ids"]);
    }
    assert_ne!(three[0]["ids"], three[1]["ids"], "each reply has a seed of its own");
}

#[test]
fn the_likeliest_token_alone_is_what_top_k_of_one_draws() {
    let folder = scratch();
    let ids = |more: &[&str]| {
        let common = ["model", "generate", "DIR/tiny", "abc", "--max-tokens", "9", "--json"];
        rows(&done(folder.path(), &[&common[..], more].concat()))[0].clone()
    };
    let (greedy, one) = (ids(&["--temperature", "0"]), ids(&["--top-k", "1"]));
    assert_eq!(greedy["ids"], one["ids"]);
    // Of the distribution that it was drawn from: nothing else could come.
    assert!(numbers(&one["logprobs"]).iter().all(|logprob| *logprob == 0.0));
}

#[test]
fn log_probabilities_of_sampling_and_of_scoring_agree() {
    let folder = scratch();
    let prompts = [
        r#"{"text": "Hello there"}"#,
        r#"{"messages": [{"role": "system", "content": "Be."}, {"role": "user", "content": "Hi"}]}"#,
        r#"{"ids": [72, 105]}"#,
    ];
    std::fs::write(folder.path().join("prompts.jsonl"), prompts.join("\n\n")).unwrap();
    let sampled = rows(&done(
        folder.path(),
        &["model", "generate", "DIR/tiny", "--prompts", "DIR/prompts.jsonl", "--max-tokens", "20", "--json"],
    ));
    assert_eq!(sampled.iter().map(|row| row["prompt"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    let whole = |row: &Value, prompt: &[u8]| {
        let ids = row["ids"].as_array().unwrap().iter().cloned();
        prompt.iter().map(|byte| Value::from(*byte)).chain(ids).collect::<Vec<_>>()
    };
    let lines = [whole(&sampled[0], b"Hello there"), whole(&sampled[2], b"Hi"), vec![Value::from(5)]]
        .map(|ids| serde_json::json!({ "ids": ids }).to_string());
    std::fs::write(folder.path().join("ids.jsonl"), lines.join("\n")).unwrap();
    let scored = |more: &[&str]| {
        rows(&done(folder.path(), &[&["model", "logprobs", "DIR/tiny", "DIR/ids.jsonl"], more].concat()))
    };
    let scores = scored(&[]);
    for (row, sampled) in scores.iter().zip([&sampled[0], &sampled[2]]) {
        let all = row["logprobs"].as_array().unwrap();
        assert!(all[0].is_null());
        let own = numbers(&sampled["logprobs"]);
        let scored: Vec<f64> =
            all[all.len() - own.len()..].iter().map(|number| number.as_f64().unwrap()).collect();
        assert!(own.iter().zip(&scored).all(|(a, b)| (a - b).abs() < 1e-3), "{own:?} {scored:?}");
    }
    assert_eq!(scores[2]["logprobs"], serde_json::json!([null]));
    // In pieces of a few tokens, the same numbers come.
    for (whole, pieces) in scores.iter().zip(scored(&["--batch-tokens", "8"])) {
        assert!((whole["sum"].as_f64().unwrap() - pieces["sum"].as_f64().unwrap()).abs() < 1e-3);
    }
}

#[test]
fn a_stream_shows_the_same_reply_and_hides_the_stop_text() {
    let folder = scratch();
    let generate = |more: &[&str]| {
        let common = ["model", "generate", "DIR/tiny", "stream", "--max-tokens", "30", "--seed", "2"];
        done(folder.path(), &[&common[..], more].concat())
    };
    let reply = rows(&generate(&["--json"])).remove(0);
    let text = reply["text"].as_str().unwrap();
    assert_eq!(generate(&[]), format!("{text}\n"));
    assert_eq!(generate(&["--stream"]), format!("{text}\n"));

    let mut tokens = rows(&generate(&["--stream", "--json"]));
    assert_eq!(tokens.pop().unwrap(), reply);
    assert_eq!(
        tokens.iter().map(|token| token["id"].clone()).collect::<Vec<_>>(),
        *reply["ids"].as_array().unwrap()
    );

    // Any ASCII pair of the reply as a stop text: the text ends before it, the ids with it.
    let at = text.as_bytes().windows(2).position(|pair| pair.iter().all(u8::is_ascii_graphic));
    let at = at.expect("thirty random bytes have two printable ones in a row");
    let stop = &text[at..at + 2];
    let stopped = rows(&generate(&["--json", "--stop", stop])).remove(0);
    let before = &text[..text.find(stop).unwrap()];
    assert_eq!((stopped["text"].as_str(), &stopped["finish"]), (Some(before), &Value::from("stop")));
    assert!(stopped["ids"].as_array().unwrap().len() < 30);
    assert_eq!(generate(&["--stream", "--stop", stop]), format!("{before}\n"));
}

#[test]
fn wrong_input_is_named_by_its_line() {
    let folder = scratch();
    std::fs::write(folder.path().join("a.jsonl"), "{\"ids\": [1]}\n{\"ids\": [1, 400]}\n").unwrap();
    fails(
        folder.path(),
        &["model", "logprobs", "DIR/tiny", "DIR/a.jsonl"],
        expect![[r#"
            error: line 2 of DIR/a.jsonl cannot be used
            cause: token 400 is not in the vocabulary of 259
            help: tokenise with the tokenizer of this policy
        "#]],
    );
    std::fs::write(folder.path().join("b.jsonl"), "{\"text\": \"a\", \"ids\": [1]}\n").unwrap();
    fails(
        folder.path(),
        &["model", "generate", "DIR/tiny", "--prompts", "DIR/b.jsonl"],
        expect![[r#"
            error: line 1 of DIR/b.jsonl cannot be used
            cause: it has not exactly one of `text`, `messages` and `ids`
            help: give a text, a conversation or token ids on each line
        "#]],
    );
    fails(
        folder.path(),
        &["model", "generate", "DIR/tiny", "x", "--top-p", "0"],
        expect![[r#"
            error: prompt 0 got no reply
            cause: generate: `top_p` is 0, wanted a number over 0 and at most 1
            help: change it in the request
        "#]],
    );
    fails(
        folder.path(),
        &["model", "generate", "DIR/tiny", "x", "--temperature", "-1"],
        expect![[r#"
            error: prompt 0 got no reply
            cause: generate: `temperature` is -1, wanted 0 or a positive number
            help: change it in the request
        "#]],
    );
    fails(
        folder.path(),
        &["model", "generate", "DIR/tiny", ""],
        expect![[r#"
            error: prompt 0 has no token to go on from
            help: give a text of at least one letter
        "#]],
    );
    std::fs::write(folder.path().join("c.json"), "{\"a\": 1}").unwrap();
    fails(
        folder.path(),
        &["model", "generate", "DIR/tiny", "--chat", "DIR/c.json"],
        expect![[r#"
            error: DIR/c.json is no conversation
            help: give a JSON list such as [{"role": "user", "content": "…"}]; roles are system, user, assistant and tool
        "#]],
    );
    // Nothing at all would come out, as if all were well.
    let none = run(folder.path(), &["model", "generate", "DIR/tiny", "x", "--samples", "0"]);
    assert!(none.code == Some(2) && none.stderr.contains("from 1 on"), "{}", none.stderr);
    fails(
        folder.path(),
        &["model", "generate", "DIR/tiny", &"long ".repeat(60)],
        expect![[r#"
            error: the prompt cannot be used
            cause: it has 300 tokens and the policy's context holds 256
            help: shorten it, or split it
        "#]],
    );
}

#[test]
fn an_export_is_read_back_and_nothing_is_overwritten() {
    let folder = scratch();
    let folder = folder.path();
    let score = |model: &[&str]| {
        std::fs::write(folder.join("t.jsonl"), "{\"text\": \"score this text\"}").unwrap();
        let head = ["model", "logprobs", model[0], "DIR/t.jsonl"];
        rows(&done(folder, &[&head[..], &model[1..]].concat()))[0]["sum"].as_f64().unwrap()
    };
    let copy = ["model", "export", "DIR/tiny", "--out", "DIR/copy", "--dtype", "f32"];
    assert_eq!(
        done(folder, &copy).replace(&*folder.to_string_lossy(), "DIR"),
        "DIR/copy: a policy in the layout of Hugging Face\n"
    );
    assert_eq!(score(&["DIR/copy"]), score(&["DIR/tiny"]));
    fails(
        folder,
        &copy,
        expect![[r#"
            error: DIR/copy exists already, and nothing is overwritten
            help: give a new folder
        "#]],
    );

    // An adapter that does something.
    let lines = "{\"prompt\": \"score this\", \"completion\": \" text\"}\n";
    std::fs::write(folder.join("d.jsonl"), lines).unwrap();
    let sft = ["sft", "--base", "DIR/tiny", "--data", "DIR/d.jsonl", "--out", "DIR/sft", "--epochs", "8"];
    done(folder, &[&sft[..], &["--learning-rate", "1e-2", "--warm-steps", "1"]].concat());
    let (plain, adapted) = (score(&["DIR/tiny"]), score(&["DIR/tiny", "--adapter", "DIR/sft/adapter"]));
    assert!(adapted > plain + 1.0, "{plain} {adapted}");

    let export = |out: &str, more: &[&str]| {
        let head = ["model", "export", "DIR/tiny", "--adapter", "DIR/sft/adapter", "--dtype", "f32"];
        done(folder, &[&head[..], &["--out", out], more].concat())
    };
    export("DIR/merged", &["--merge"]);
    export("DIR/peft", &[]);
    assert!((score(&["DIR/merged"]) - adapted).abs() < 1e-3);
    assert!((score(&["DIR/tiny", "--adapter", "DIR/peft"]) - adapted).abs() < 1e-3);
    let mut files: Vec<String> = std::fs::read_dir(folder.join("peft"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["adapter_config.json", "adapter_model.safetensors", "tandem.json"]);
    // The state of a run is an adapter too.
    let state = std::fs::read_dir(folder.join("sft/state")).unwrap().next().unwrap().unwrap().path();
    assert!((score(&["DIR/tiny", "--adapter", &state.to_string_lossy()]) - adapted).abs() < 0.05);

    let two = ["model", "export", "DIR/tiny", "--adapter", "DIR/peft", "--adapter", "DIR/peft"];
    fails(
        folder,
        &[&two[..], &["--out", "DIR/two"]].concat(),
        expect![[r#"
            error: 2 adapters were given, and only one can be written as an adapter of `DIR/tiny`
            help: add `--merge`, which writes the whole policy
        "#]],
    );
}

#[test]
fn the_real_policy_answers() {
    if !weights_are_here() {
        return;
    }
    let output = Program::new(&["model", "info", "smollm2-135m"].map(String::from)).run();
    let facts: Vec<&str> = output.stdout.lines().filter(|line| !line.starts_with("path")).collect();
    expect![[r#"
        model          smollm2-135m
        architecture   llama: 30 layers, 576 wide, feed-forward 1,536
        attention      9 heads of 64, 3 for keys and values; RoPE base 100,000
        parameters     134,515,008; the embedding serves as head
        on disk        96.6 MB: F32 35,136 in 61 tensors, Q4_1 106,168,320 in 210 tensors, Q8_0 28,311,552 in 1 tensor
        context        8,192 tokens
        KV cache       1,000 tokens take 23.0 MB in bf16, 46.1 MB in f32
        tokenizer      49,152 tokens; 1 begins a text, 2 ends it
        chat template  usable; token 2 ends a turn"#]]
    .assert_eq(&facts.join("\n"));
    let prompt = ["model", "generate", "smollm2-135m", "The capital of France is", "--max-tokens", "3"];
    let output = Program::new(
        &[&prompt[..], &["--temperature", "0"]]
            .concat()
            .iter()
            .map(|word| word.to_string())
            .collect::<Vec<_>>(),
    )
    .run();
    assert!(output.stdout.contains("Paris"), "{}{}", output.stdout, output.stderr);
}

/// Each command of the page has arguments that the program takes: `--help` behind them says so.
#[test]
fn the_commands_of_the_page_are_commands() {
    let page = std::fs::read_to_string(program::root().join("docs/models.md")).unwrap();
    let commands: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("    tandem ")).collect();
    assert!(commands.len() >= 8, "{commands:?}");
    for command in commands {
        let words = command.split(" > ").next().unwrap();
        let script = format!("\"$TANDEM\" {words} --help");
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .env("TANDEM", env!("CARGO_BIN_EXE_tandem"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
