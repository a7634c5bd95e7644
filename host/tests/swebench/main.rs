//! Do our parsers and our grading answer as the official package `swebench` does?
//!
//! `answers.json` holds its answers, so that this runs without Python; where the
//! package lies in the cache (`scripts/swebench_package.sh` puts it there), it is
//! asked again. `TANDEM_WRITE_ANSWERS=1` writes its answers down.

mod logs;
mod questions;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use questions::{ALIASES, Question, graded, maps, mutated, ours, short};
use serde_json::Value;

/// Answers by log, then by parser: the whole answer for the log as it is, one
/// digest over the answers for its changed copies and one over its gradings.
type Answers = BTreeMap<String, BTreeMap<String, (Value, String, String)>>;

fn package() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
    let folder = cache.join("tandem/swebench-5.0.2");
    let python = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    (folder.join("swebench").is_dir() && python.is_ok_and(|status| status.success())).then_some(folder)
}

/// What the official package answers.
fn official(package: &PathBuf, questions: &[Question]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("questions.jsonl");
    let mut file = File::create(&path).unwrap();
    for question in questions {
        writeln!(file, "{}", question.to_json()).unwrap();
    }
    let output = Command::new("python3")
        .arg(logs::here().join("official.py"))
        .arg(package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(File::open(&path).unwrap())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "official.py failed");
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), questions.len());
    answers
}

fn stored() -> Answers {
    let text = fs::read_to_string(logs::here().join("answers.json")).unwrap_or_else(|_| "{}".into());
    serde_json::from_str(&text).unwrap()
}

/// The table of answers, with `answer` answering.
fn table(mut answer: impl FnMut(&[Question]) -> Vec<Value>) -> Answers {
    let mut table = Answers::new();
    let first = maps();
    for (question, found) in first.iter().zip(answer(&first)) {
        // Silent parsers are left out: most parsers say nothing about most logs.
        if found.get("map").and_then(Value::as_array).is_none_or(|map| !map.is_empty()) {
            let row = table.entry(question.name.clone()).or_default();
            row.insert(question.parser.clone(), (found, String::new(), String::new()));
        }
    }
    for (ask, place) in [(mutated as fn(&str, &str) -> Vec<Question>, 0), (graded, 1)] {
        let mut asked = Vec::new();
        let mut owners = Vec::new();
        for (log, row) in &table {
            for parser in row.keys().filter(|parser| !ALIASES.contains(&parser.as_str())) {
                let questions = ask(log, parser);
                owners.push((log.clone(), parser.clone(), questions.len()));
                asked.extend(questions);
            }
        }
        let mut answers = answer(&asked).into_iter();
        for (log, parser, count) in owners {
            let text: Vec<String> = answers.by_ref().take(count).map(|answer| answer.to_string()).collect();
            let cell = table.get_mut(&log).and_then(|row| row.get_mut(&parser)).unwrap();
            let digest = if place == 0 { &mut cell.1 } else { &mut cell.2 };
            *digest = short(&text.join("\n"));
        }
    }
    table
}

#[test]
fn our_answers_are_those_that_the_official_package_gave() {
    if std::env::var_os("TANDEM_WRITE_ANSWERS").is_some() {
        let package = package().expect("scripts/swebench_package.sh puts the package into the cache");
        let answers = table(|questions| official(&package, questions));
        let mut text = String::from("{\n");
        for (at, (log, row)) in answers.iter().enumerate() {
            text.push_str(if at == 0 { "" } else { ",\n" });
            text.push_str(&format!("{}: {{", Value::from(log.as_str())));
            for (at, (parser, cell)) in row.iter().enumerate() {
                text.push_str(if at == 0 { "\n" } else { ",\n" });
                text.push_str(&format!(
                    "  {}: {}",
                    Value::from(parser.as_str()),
                    serde_json::to_string(cell).unwrap()
                ));
            }
            text.push_str("\n}");
        }
        fs::write(logs::here().join("answers.json"), text + "\n}\n").unwrap();
    }
    let (stored, ours) = (stored(), table(|questions| questions.iter().map(ours).collect()));
    assert!(stored.len() > 60, "answers.json holds {} logs", stored.len());
    let mut wrong = Vec::new();
    for (log, row) in &stored {
        for (parser, official) in row {
            match ours.get(log).and_then(|row| row.get(parser)) {
                Some(found) if found == official => {}
                Some(found) if found.0 == official.0 => {
                    wrong.push(format!("{log}, {parser}: changed copies"))
                }
                found => wrong.push(format!("{log}, {parser}:\n  {}\n  {found:?}", official.0)),
            }
        }
    }
    for (log, row) in &ours {
        let known = stored.get(log);
        wrong.extend(
            row.keys()
                .filter(|parser| !known.is_some_and(|row| row.contains_key(*parser)))
                .map(|parser| format!("{log}, {parser}: the official parser says nothing")),
        );
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_parser_is_asked_about_a_log_that_it_can_read() {
    let stored = stored();
    for parser in tandem_host::swebench::parser_names() {
        let speaks = stored.values().filter_map(|row| row.get(parser));
        let most = speaks.filter_map(|cell| cell.0["map"].as_array()).map(Vec::len).max();
        assert!(most.is_some_and(|most| most > 0), "no log has a test that `{parser}` reads");
    }
}

#[test]
fn the_official_package_answers_the_same_today() {
    let Some(package) = package() else {
        assert!(
            std::env::var_os("TANDEM_REQUIRE_SWEBENCH").is_none(),
            "scripts/swebench_package.sh has not put the package into the cache"
        );
        eprintln!("left out: the package swebench 5.0.2 is not in the cache");
        return;
    };
    let mut questions = maps();
    for (log, row) in stored() {
        for parser in row.keys().filter(|parser| !ALIASES.contains(&parser.as_str())) {
            questions.extend(mutated(&log, parser));
            questions.extend(graded(&log, parser));
        }
    }
    let answers = official(&package, &questions);
    let mut wrong = Vec::new();
    for (question, official) in questions.iter().zip(answers) {
        let ours = ours(question);
        if ours != official {
            wrong.push(format!(
                "{} {} {}\n  official {official}\n  ours     {ours}",
                question.name, question.what, question.parser
            ));
        }
    }
    eprintln!("{} questions, {} answered otherwise", questions.len(), wrong.len());
    assert!(
        wrong.is_empty(),
        "{} of {} differ, such as:\n{}",
        wrong.len(),
        questions.len(),
        wrong[..wrong.len().min(12)].join("\n")
    );
}
