//! Supervised fine-tuning as a user runs it: it learns, it can be stopped at any time, and what it
//! did can be read afterwards.

mod program;
#[path = "program/tiny.rs"]
mod tiny;

use std::path::Path;
use std::time::Duration;

use expect_test::expect;
use program::Program;
use serde_json::Value;

fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(&folder.path().join("tiny"));
    let mut lines = String::new();
    for letter in "abcdefghijkl".chars() {
        lines.push_str(&format!(
            r#"{{"messages": [{{"role": "user", "content": "say {letter}"}}, {{"role": "assistant", "content": "{letter}{letter}"}}]}}"#
        ));
        lines.push('\n');
    }
    std::fs::write(folder.path().join("data.jsonl"), lines).unwrap();
    folder
}

fn program(folder: &Path, arguments: &[&str]) -> Program {
    let name = folder.to_string_lossy();
    Program::new(&arguments.iter().map(|argument| argument.replace("DIR", &name)).collect::<Vec<_>>())
}

const SFT: &[&str] = &[
    "sft",
    "--base",
    "DIR/tiny",
    "--data",
    "DIR/data.jsonl",
    "--batch",
    "4",
    "--learning-rate",
    "1e-2",
    "--seed",
    "3",
];

fn rows(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn full_fine_tuning_learns_and_its_policy_is_one() {
    let folder = scratch();
    let dir = folder.path();
    let more =
        ["--out", "DIR/run", "--full", "--epochs", "40", "--validation", "0.2", "--schedule", "cosine"];
    let output = program(dir, &[SFT, &more].concat()).run();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(output.stdout.contains("policy written to"), "{}", output.stdout);
    assert!(
        output.stderr.contains("10 examples to train on, 2 to validate with, 0 left out"),
        "{}",
        output.stderr
    );

    let rows = rows(&dir.join("run/steps.jsonl"));
    assert_eq!(rows.len(), 40 * 3);
    let loss = |row: &Value| row["loss"].as_f64().unwrap();
    assert!(loss(&rows[119]) < 0.5 * loss(&rows[0]), "{} {}", loss(&rows[0]), loss(&rows[119]));
    let validated: Vec<u64> = rows
        .iter()
        .filter(|row| row["validation_loss"].is_number())
        .map(|row| row["step"].as_u64().unwrap())
        .collect();
    assert_eq!(validated, (1..=40).map(|epoch| 3 * epoch).collect::<Vec<_>>());

    check_events(&dir.join("run/tensorboard"), &rows);
    let output = program(dir, &["model", "info", "DIR/run/policy"]).run();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
}

#[test]
fn a_run_that_was_killed_goes_on_to_the_same_bits() {
    let folder = scratch();
    let dir = folder.path();
    let settings = ["--epochs", "60", "--save-every", "7", "--validation-data", "DIR/data.jsonl"];
    let sft = |out: &str, more: &[&str]| program(dir, &[SFT, &settings, &["--out", out], more].concat());
    let whole = sft("DIR/whole", &[]).run();
    assert_eq!(whole.code, Some(0), "{}", whole.stderr);

    let mut running = sft("DIR/killed", &[]).spawn();
    while !dir.join("killed/state").exists() && !running.wait_at_most(Duration::from_millis(1)) {}
    running.kill();
    // On a slow day it may have come to its end.
    if !dir.join("killed/adapter").exists() {
        let refused = sft("DIR/killed", &[]).run();
        assert!(refused.stderr.contains("add `--resume`"), "{}", refused.stderr);
        let other = sft("DIR/killed", &["--resume", "--warm-steps", "3"]).run();
        let why = format!(
            "not those that the run in {} began with: `config.warmup_steps` was 10, and is 3 now",
            dir.join("killed").display()
        );
        assert!(other.stderr.contains(&why), "{}", other.stderr);
        let resumed = sft("DIR/killed", &["--resume"]).run();
        assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    }
    let adapter = |run: &str| std::fs::read(dir.join(run).join("adapter/adapter_model.safetensors")).unwrap();
    assert!(adapter("whole") == adapter("killed"), "the adapters differ");
    let losses = |run: &str| -> Vec<(u64, String)> {
        let rows = rows(&dir.join(run).join("steps.jsonl"));
        rows.iter().map(|row| (row["step"].as_u64().unwrap(), row["loss"].to_string())).collect()
    };
    assert_eq!(losses("whole"), losses("killed"));
    assert_eq!(std::fs::read_dir(dir.join("killed/state")).unwrap().count(), 1);

    let again = sft("DIR/whole", &["--resume"]).run();
    let text = format!("{}{}", again.stdout, again.stderr).replace(&*dir.to_string_lossy(), "DIR");
    expect![[r#"
        error: the run in DIR/whole is done: DIR/whole/adapter is there
        help: give another folder to train again
    "#]]
    .assert_eq(&text);
}

#[test]
fn ctrl_c_keeps_the_state_after_the_step_under_way() {
    let folder = scratch();
    let dir = folder.path();
    // By itself it would keep state after every epoch of three steps.
    let sft = |more: &[&str]| program(dir, &[SFT, &["--epochs", "3000", "--out", "DIR/run"], more].concat());
    let mut running = sft(&["--save-every", "9000"]).spawn();
    let steps = dir.join("run/steps.jsonl");
    while std::fs::read_to_string(&steps).unwrap_or_default().is_empty()
        && !running.wait_at_most(Duration::from_millis(1))
    {}
    running.interrupt();
    let output = running.output();
    assert_eq!(output.code, Some(130), "{}", output.stderr);
    let taken = rows(&steps).len();
    let said = format!(
        "error: fine-tuning stopped after step {taken} of 9000, and its state is kept\n\
         cause: stopped before the end, as asked\n\
         help: go on with the same command and `--resume`\n"
    );
    assert!(output.stderr.ends_with(&said), "{}", output.stderr);
    assert!(dir.join(format!("run/state/step-{taken:06}")).exists());
}

#[test]
fn three_steps_without_finite_numbers_end_the_run_with_its_state() {
    let folder = scratch();
    let dir = folder.path();
    let run = |more: &[&str]| {
        let arguments = ["--out", "DIR/run", "--full", "--epochs", "9", "--warm-steps", "0"];
        let data = ["sft", "--base", "DIR/tiny", "--data", "DIR/data.jsonl", "--batch", "4"];
        program(dir, &[&data[..], &arguments, &["--learning-rate", "1e30"], more].concat()).run()
    };
    for more in [&[][..], &["--resume"]] {
        let output = run(more);
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        assert!(output.stderr.contains("3 steps in a row were skipped"), "{}", output.stderr);
    }
    // One step was taken and three were skipped; the second start skips the next, and knows of the three.
    let skipped: Vec<bool> =
        rows(&dir.join("run/steps.jsonl")).iter().map(|row| row["skipped"].is_string()).collect();
    assert_eq!(skipped, [false, true, true, true, true]);
    assert!(dir.join("run/state/step-000005").exists());
}

#[test]
fn an_adapter_is_trained_further() {
    let folder = scratch();
    let dir = folder.path();
    let sft = |out: &str, more: &[&str]| {
        let output = program(dir, &[SFT, &["--out", out, "--epochs", "20"], more].concat()).run();
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let rows = rows(&dir.join(out.trim_start_matches("DIR/")).join("steps.jsonl"));
        (rows[0]["loss"].as_f64().unwrap(), rows[rows.len() - 1]["loss"].as_f64().unwrap())
    };
    let first = sft("DIR/first", &[]);
    let second = sft("DIR/second", &["--adapter", "DIR/first/adapter"]);
    assert!(second.0 < 0.7 * first.0, "it begins where the first ended: {first:?} {second:?}");
}

#[test]
fn two_devices_and_layers_computed_again_learn_what_one_learns() {
    let folder = scratch();
    let dir = folder.path();
    let targets = ["--targets", "q_proj,v_proj"];
    let sft = |out: &str, more: &[&str]| {
        let output = program(dir, &[SFT, &["--out", out], &targets, more].concat()).run();
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        rows(&dir.join(out.replace("DIR/", "")).join("steps.jsonl"))
    };
    let one = sft("DIR/one", &[]);
    let two = sft("DIR/two", &["--device", "cpu,cpu", "--recompute", "layer"]);
    assert_eq!((one.len(), two.len()), (3, 3));
    for (one, two) in one.iter().zip(&two) {
        for key in ["loss", "grad_norm", "update_norm"] {
            let (one, two) = (one[key].as_f64().unwrap(), two[key].as_f64().unwrap());
            assert!((one - two).abs() <= 1e-4 * one, "{key}: {one} {two}");
        }
        assert!((0.0..1.0).contains(&one["padding"].as_f64().unwrap()));
    }
    let config = std::fs::read_to_string(dir.join("two/adapter/adapter_config.json")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["target_modules"], serde_json::json!(["q_proj", "v_proj"]));
    // And it is trained further as it is.
    sft("DIR/three", &["--adapter", "DIR/two/adapter"]);

    let refused = |more: &[&str]| program(dir, &[SFT, &["--out", "DIR/no"], more].concat()).run().stderr;
    // After the line that counts the examples.
    let said = refused(&["--targets", "gate"]);
    expect![[r#"
        error: `gate` is no linear map that an adapter goes on
        help: those are `q_proj`, `k_proj`, `v_proj`, `o_proj`, `gate_proj`, `up_proj`, `down_proj`, or `all-linear`
    "#]]
    .assert_eq(said.split_once('\n').unwrap_or_default().1);
    let said = refused(&["--device", "cpu,cpu", "--exchange", "nccl"]);
    assert!(said.contains("NCCL, which adds up gradients between GPUs, cannot be used"), "{said}");
    assert!(said.contains("`--exchange host`"), "{said}");
    assert!(!dir.join("no").exists());
}

#[test]
fn wrong_data_leaves_no_run_behind() {
    let folder = scratch();
    let dir = folder.path();
    std::fs::write(dir.join("bad.jsonl"), "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"text\": \"c\"}\n")
        .unwrap();
    let output =
        program(dir, &["sft", "--base", "DIR/tiny", "--data", "DIR/bad.jsonl", "--out", "DIR/run"]).run();
    expect![[r#"
        error: line 2 of DIR/bad.jsonl is no example
        cause: it has neither `messages` alone nor `prompt` and `completion`
        help: a line is {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]} or {"prompt": "…", "completion": "…"}
    "#]]
    .assert_eq(&output.stderr.replace(&*dir.to_string_lossy(), "DIR"));
    assert!(!dir.join("run").exists());
}

/// Reads an event file by the specification and compares it with the steps.
fn check_events(folder: &Path, steps: &[Value]) {
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("{} event files", files.len()) };
    let bytes = std::fs::read(file).unwrap();
    let mut events = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
        let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
        assert_eq!(unmasked(word(8)), crc32c(&rest[..8]));
        let data = &rest[12..12 + length];
        assert_eq!(unmasked(word(12 + length)), crc32c(data));
        events.push(fields(data));
        rest = &rest[16 + length..];
    }
    assert_eq!(events[0][1], (3, Field::Bytes(b"brain.Event:2")).clone());
    assert_eq!(events.len(), 2 + steps.len());
    for (event, step) in events[2..].iter().zip(steps) {
        let Some((_, Field::Varint(number))) = event.iter().find(|(field, _)| *field == 2) else { panic!() };
        assert_eq!(Value::from(*number), step["step"]);
        let Some((_, Field::Bytes(summary))) = event.iter().find(|(field, _)| *field == 5) else { panic!() };
        let mut found = std::collections::BTreeMap::new();
        for (field, value) in fields(summary) {
            let Field::Bytes(value) = value else { panic!() };
            assert_eq!(field, 1);
            let [(1, Field::Bytes(tag)), (2, Field::Fixed32(value))] = fields(value)[..] else { panic!() };
            found.insert(std::str::from_utf8(tag).unwrap(), f32::from_bits(value));
        }
        let near = |tag: &str, key: &str| {
            let expected = step[key].as_f64().unwrap();
            assert!((f64::from(found[tag]) - expected).abs() <= 1e-6 * expected.abs(), "{tag}");
        };
        near("train/loss", "loss");
        near("train/gradient_norm", "grad_norm");
        near("train/learning_rate", "learning_rate");
        near("train/entropy", "entropy");
        assert!(found["train/tokens_per_second"] > 0.0);
        assert_eq!(found.contains_key("validation/loss"), step["validation_loss"].is_number());
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Field<'a> {
    Varint(u64),
    Fixed64,
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// The fields of a protocol buffer message in their order. The version event leaves out step 0,
/// or not: the list is sorted by neither.
fn fields(mut data: &[u8]) -> Vec<(u64, Field<'_>)> {
    fn varint(data: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = data[0];
            *data = &data[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    let mut all = Vec::new();
    while !data.is_empty() {
        let key = varint(&mut data);
        let (field, length) = match key & 7 {
            0 => (Field::Varint(varint(&mut data)), 0),
            1 => (Field::Fixed64, 8),
            2 => {
                let length = varint(&mut data) as usize;
                (Field::Bytes(&data[..length]), length)
            }
            5 => (Field::Fixed32(u32::from_le_bytes(data[..4].try_into().unwrap())), 4),
            wire => panic!("wire type {wire}"),
        };
        data = &data[length..];
        if field != Field::Fixed64 {
            all.push((key >> 3, field));
        }
    }
    all
}

fn unmasked(masked: u32) -> u32 {
    masked.wrapping_sub(0xa282_ead8).rotate_left(15)
}

/// From the definition: division of polynomials with reflected bits.
fn crc32c(data: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256u32)
        .map(|byte| {
            (0..8).fold(byte, |rest, _| if rest & 1 == 1 { rest >> 1 ^ 0x82f6_3b78 } else { rest >> 1 })
        })
        .collect();
    !data.iter().fold(!0, |crc, byte| table[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ crc >> 8)
}
