//! What does a call cost an agent, from starting the hook's process to its answer?

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;

use super::agent::{Agent, AgentEvent};
use super::client::{SMALL, event_of};
use super::place::Place;
use super::target::Target;

/// Times `count` calls of a warm daemon, each before a tool of Claude Code runs: as a process, as an
/// agent starts it, and over the socket alone.
pub fn bench(target: &Target, count: usize) -> Result<String> {
    let folder = tempfile::tempdir().context("a scratch folder cannot be made")?;
    let place = Place::of(target)?;
    let say = |number: usize| {
        let said = json!({
            "session_id": "bench", "cwd": folder.path(), "hook_event_name": "PreToolUse",
            "tool_name": "Bash", "tool_input": {"command": format!("ls {number}")}, "tool_use_id": format!("t{number}"),
        });
        said.to_string().into_bytes()
    };
    // The first starts the daemon and opens the session.
    event_of(&place, target, Agent::Claude, AgentEvent::PreToolUse, &say(0))?;
    let program = std::env::current_exe().context("this program cannot find its own file")?;
    let program = program.with_file_name(SMALL);
    let mut processes = Vec::with_capacity(count);
    for number in 0..count {
        let start = Instant::now();
        let mut child = Command::new(&program)
            .args(["claude", "PreToolUse", "--harness", &target.harness, "--home"])
            .arg(&target.home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the hook's process does not start")?;
        child.stdin.take().context("it has no input")?.write_all(&say(number))?;
        child.wait_with_output()?;
        processes.push(start.elapsed());
    }
    let mut calls = Vec::with_capacity(count);
    for number in 0..count {
        let start = Instant::now();
        event_of(&place, target, Agent::Claude, AgentEvent::PreToolUse, &say(number))?;
        calls.push(start.elapsed());
    }
    let line = |name: &str, times: &mut Vec<Duration>| {
        times.sort();
        let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
        format!("{name:<24} {:>8.2} {:>8.2} {:>8.2}", at(50), at(95), at(99))
    };
    Ok(format!(
        "{count} calls, milliseconds         50 %     95 %     99 %\n{}\n{}",
        line("process, start to end", &mut processes),
        line("question over the socket", &mut calls),
    ))
}
