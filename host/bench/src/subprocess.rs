//! What does the same hook cost as a program that reads JSON on standard input?

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use measure::{Figure, Unit, nanoseconds, tell};
use serde_json::{Value, json};

use crate::calls::context;

pub fn run() -> Result<()> {
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("guests");
    let (sh, python) = (guests.join("hook.sh"), guests.join("subprocess.py"));
    // By its path: a shim that chooses among versions costs several times as much.
    for (contender, program, script, count) in
        [("sh", "/bin/sh", sh, 500), ("python3", "/usr/bin/python3", python, 100)]
    {
        if !Path::new(program).exists() {
            eprintln!("skipped: there is no {program}");
            continue;
        }
        let mut samples = Vec::new();
        for round in 0..count + count / 10 {
            let (answer, time) = nanoseconds(|| call(program, &script));
            let answer = answer?;
            ensure!(answer == json!({"note": "3 of 50 turns are left."}), "{contender} answered {answer}");
            if round >= count / 10 {
                samples.push(time);
            }
        }
        let how = format!("{count} processes");
        tell(&Figure::of("call/on-model-call", contender, Unit::Nanoseconds, samples, &how));
    }
    Ok(())
}

fn call(program: &str, script: &Path) -> Result<Value> {
    let mut child = Command::new(program)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let mut input = serde_json::to_vec(&context())?;
    input.push(b'\n');
    child.stdin.take().context("its standard input")?.write_all(&input)?;
    let mut output = String::new();
    child.stdout.take().context("its standard output")?.read_to_string(&mut output)?;
    child.wait()?;
    Ok(serde_json::from_str(&output)?)
}
