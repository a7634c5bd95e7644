//! Do the programs that people have work with `tandem serve`? The official clients of OpenAI's API and of
//! MCP, and mini-SWE-agent; where they lie in the cache (`scripts/client_packages.sh` puts them there).

mod program;
#[path = "program/served.rs"]
mod served;
#[path = "program/tiny.rs"]
mod tiny;

use std::path::{Path, PathBuf};
use std::process::Command;

use program::{Program, root, tandem_home, weights_are_here};
use serde_json::Value;
use served::{Served, policy};

const KEY: &str = "a-key-that-nobody-guesses";

/// Folders of the cache, or none with a word about it.
fn cached(names: &[&str]) -> Option<Vec<String>> {
    let home = std::env::var("HOME").unwrap_or_default();
    let cache =
        std::env::var("XDG_CACHE_HOME").map_or_else(|_| Path::new(&home).join(".cache"), PathBuf::from);
    let folders: Vec<PathBuf> = names.iter().map(|name| cache.join("tandem").join(name)).collect();
    if let Some(missing) = folders.iter().find(|folder| !folder.is_dir()) {
        eprintln!(
            "left out: {} is not there; `scripts/client_packages.sh` and `scripts/agent_packages.sh` put it there",
            missing.display()
        );
        return None;
    }
    Some(folders.iter().map(|folder| folder.to_string_lossy().into_owned()).collect())
}

/// Runs a client and gives what it said.
fn client(mut command: Command, script: &str, arguments: &[&str]) -> String {
    let output = command.arg(root().join("tests/clients").join(script)).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {said}\n{errors}");
    said
}

fn python(folders: &[String]) -> Command {
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", folders.join(":")).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

#[test]
fn the_openai_client_is_answered() {
    let Some(folders) = cached(&["clients-python-1"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = policy(folder.path()).to_string_lossy().into_owned();
    let words = ["serve", "policy", &path, "--listen", "127.0.0.1:0"];
    let served = Served::start(&words, &[("TANDEM_SERVE_TOKEN", KEY)]);
    let url = format!("http://{}/v1", served.address);
    let said = client(python(&folders), "openai_client.py", &[&url, KEY, "tiny"]);
    assert_eq!(said, "ok\n");
}

#[test]
fn mini_swe_agent_does_a_whole_task() {
    let Some(folders) = cached(&["mini-swe-agent-2.4.6", "clients-python-1"]) else { return };
    if !weights_are_here() {
        return;
    }
    let adapter = root().join("examples/quickstart/adapter").to_string_lossy().into_owned();
    let words = [
        "serve",
        "policy",
        "smollm2-135m",
        "--adapter",
        &adapter,
        "--listen",
        "127.0.0.1:0",
        "--name",
        "warm",
        "--context",
        "2048",
        "--slots",
        "1",
    ];
    let served = Served::start(&words, &[]);
    let task = root().join("examples/tasks/first-steps/power-of-zero");
    let work = tempfile::tempdir().unwrap();
    copy(&task.join("environment/workspace"), work.path());
    let url = format!("http://{}/v1", served.address);
    let (task, folder) = (task.to_string_lossy(), work.path().to_string_lossy());
    let said = client(python(&folders), "mini_swe_agent.py", &[&url, "warm", &task, &folder]);
    let told: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(told["exit"], "Submitted", "{said}");
    assert!(told["commands"].as_array().unwrap().len() >= 2, "{said}");
    assert!(told["patch"].as_str().unwrap().contains("diff --git"), "{said}");
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").arg(from.join(".")).arg(to).status().unwrap();
    assert!(status.success());
}

/// Both ways to a server of the test harness: `stdio COMMAND…` and `http URL KEY`.
fn both_ways(run: impl Fn(&[&str]) -> String) {
    let home = tempfile::tempdir().unwrap();
    let word = |name: &str| home.path().join(name).to_string_lossy().into_owned();
    let done = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let output = Program::new(&words).env("TANDEM_HOME", &tandem_home()).run();
        assert_eq!(output.code, Some(0), "{}", output.stderr);
    };
    std::fs::create_dir(word("repo")).unwrap();
    std::fs::write(word("repo/given.txt"), "given\n").unwrap();
    done(&["plugin", "build", "tests/data/count.rs", "-o", &word("count.wasm")]);
    done(&["harness", "add", "count", &word("count.wasm"), "--reason", "r", "--home", &word("home")]);
    let (harness, repo) = (word("home"), word("repo"));
    let words = ["serve", "mcp", "--home", &harness, "--repo", &repo, "--bash"];
    let stdio = [&["stdio", env!("CARGO_BIN_EXE_tandem")], &words[..]].concat();
    assert!(run(&stdio).ends_with("ok\n"));
    let variables = [("TANDEM_SERVE_TOKEN", KEY), ("TANDEM_HOME", &tandem_home())];
    let served = Served::start(&[&words[..], &["--http", "127.0.0.1:0"]].concat(), &variables);
    let url = format!("http://{}/mcp", served.address);
    assert!(run(&["http", &url, KEY]).ends_with("ok\n"));
}

#[test]
fn the_mcp_client_for_python_uses_the_tools() {
    let Some(folders) = cached(&["clients-python-1"]) else { return };
    both_ways(|words| client(python(&folders), "mcp_client.py", words));
}

#[test]
fn the_mcp_client_for_typescript_uses_the_tools() {
    let Some(folders) = cached(&["clients-node-1"]) else { return };
    both_ways(|words| {
        let words = [&[folders[0].as_str()], words].concat();
        client(Command::new("node"), "mcp_client.mjs", &words)
    });
}
