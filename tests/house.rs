//! The rules of the house: who may depend on whom, and what every file owes its reader.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has no Rust file");
    found.sort();
    found
}

/// Fails for every line of `folder` that mentions one of `words`.
fn check_absent(folder: &str, words: &[&str], why: &str) {
    for (path, text) in rust_files(folder) {
        for (number, line) in text.lines().enumerate() {
            for word in words {
                assert!(!line.contains(word), "{}:{}: `{word}`: {why}", path.display(), number + 1);
            }
        }
    }
}

#[test]
fn host_knows_nothing_of_gradients() {
    check_absent("host/src", &["tandem_trainer", "burn::"], "host must not depend on the trainer or on Burn");
    let manifest = fs::read_to_string(root().join("host/Cargo.toml")).unwrap();
    assert!(!manifest.contains("tandem-trainer") && !manifest.contains("\nburn"));
}

#[test]
fn trainer_knows_nothing_of_plugins_tasks_or_runs() {
    check_absent(
        "trainer/src",
        &["tandem_host", "wasmtime", "rusqlite"],
        "trainer must not depend on the host",
    );
    let manifest = fs::read_to_string(root().join("trainer/Cargo.toml")).unwrap();
    assert!(!manifest.contains("tandem-host") && !manifest.contains("wasm"));
}

#[test]
fn plugins_share_nothing_with_the_host_but_the_contract() {
    check_absent("plugins", &["tandem_host", "tandem_trainer"], "a plugin sees only the contract");
}

/// Which rooms of the host a room may use. Data rooms use no acting rooms.
#[test]
fn dependencies_between_the_rooms_of_the_host_point_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("store", &[][..]),
        ("policy", &["store"]),
        ("plugin", &["store", "policy"]),
        ("harness", &["store", "policy", "plugin"]),
        ("forge", &["store", "plugin"]),
        ("workspace", &["store", "plugin", "harness"]),
        ("cases", &["store", "plugin", "workspace"]),
        ("swebench", &[]),
        ("task", &["store", "harness", "workspace", "swebench"]),
        ("dataset", &["store", "swebench", "task"]),
        ("mutate", &["store", "workspace", "task"]),
        ("agent", &["store", "policy", "plugin", "harness", "workspace", "task"]),
        ("rollout", &["store", "policy", "plugin", "harness", "workspace", "task", "agent"]),
    ]);
    for (room, uses) in &allowed {
        for (path, text) in rust_files(&format!("host/src/{room}")) {
            for other in allowed.keys().filter(|other| *other != room && !uses.contains(other)) {
                let mention = format!("crate::{other}::");
                assert!(
                    !text.contains(&mention),
                    "{}: room {room} must not use room {other}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn every_file_says_which_question_it_answers() {
    for folder in ["src", "host/src", "host/bench/src", "trainer/src", "tests"] {
        for (path, text) in rust_files(folder) {
            assert!(text.starts_with("//!"), "{} does not begin with a `//!` line", path.display());
        }
    }
}

#[test]
fn every_room_has_a_paragraph_in_the_architecture() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for folder in ["src", "host/src", "trainer/src"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                let room = format!("`{folder}/{}`", path.file_name().unwrap().to_string_lossy());
                assert!(text.contains(&room), "ARCHITECTURE.md has no paragraph on {room}");
            }
        }
    }
}

/// Errors reach people as sentences, never as Debug output.
#[test]
fn no_error_is_shown_as_debug_output() {
    for folder in ["src", "host/src", "trainer/src"] {
        for (path, text) in rust_files(folder) {
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for (number, line) in code.lines().enumerate() {
                let shown = line.contains("#[error(") && line.contains(":?}");
                assert!(!shown, "{}:{} shows Debug output in an error", path.display(), number + 1);
            }
        }
    }
}
