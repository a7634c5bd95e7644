//! Does an episode go as one of mini-SWE-agent 2.4.6 does, but for what we mean to do otherwise?
//!
//! Both play the scripted replies of `cases.toml` over the same files with templates that say the
//! same. `official.json` holds what mini-SWE-agent did, so that this runs without Python; where the
//! package lies in the cache (`scripts/agent_packages.sh` puts it there), it is asked again.
//! `TANDEM_WRITE_ANSWERS=1` writes its answers down.

mod differences;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use differences::RULES;
use expect_test::expect;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tandem_host::agent::{Cancel, EpisodeRecord, EpisodeSpec, Exit, run_episode};
use tandem_host::harness::{
    Generation, Generations, HarnessManifest, LimitKind, Limits, Prompts, Protocol, ToolStatus,
};
use tandem_host::policy::{FinishReason, Reply, Role, Sampling, ScriptedPolicy, ToolCall};
use tandem_host::task::Task;
use tandem_host::workspace::WorkspaceConfig;

/// The files of every case, beside a letter of another alphabet in a name.
const FILES: [(&str, &str); 4] = [
    ("calc.py", "def add(left, right):\n    return left - right\n"),
    ("pkg/__init__.py", ""),
    ("pkg/ümlaut.txt", "schön\n"),
    ("README.md", "no newline at the end"),
];

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    replies: Vec<Scripted>,
    #[serde(default)]
    tools: bool,
    #[serde(default = "fifty")]
    turns: u64,
    #[serde(default)]
    seconds: u64,
    #[serde(default = "fifty")]
    command_seconds: u64,
    #[serde(default = "three")]
    format_errors: u32,
    #[serde(default)]
    differences: Vec<String>,
    /// The rule by which something else runs.
    apart: Option<String>,
}

fn fifty() -> u64 {
    50
}

fn three() -> u32 {
    3
}

/// A reply in `cases.toml`.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Scripted {
    Text(String),
    Whole {
        #[serde(default)]
        text: String,
        #[serde(default)]
        finish: FinishReason,
        #[serde(default)]
        calls: Vec<(String, String)>,
    },
}

impl Scripted {
    fn parts(&self) -> (String, FinishReason, &[(String, String)]) {
        match self {
            Self::Text(text) => match text.strip_prefix("$ ") {
                Some(command) => (format!("```bash\n{command}\n```"), FinishReason::Stop, &[]),
                None => (text.clone(), FinishReason::Stop, &[]),
            },
            Self::Whole { text, finish, calls } => (text.clone(), *finish, calls),
        }
    }
}

impl Case {
    fn protocol(&self) -> Protocol {
        let calls = self.replies.iter().any(|reply| !reply.parts().2.is_empty());
        if self.tools || calls { Protocol::Tools } else { Protocol::Text }
    }

    /// What the official program is given.
    fn to_json(&self) -> Value {
        let replies = self.replies.iter().enumerate().map(|(turn, reply)| {
            let (text, finish, calls) = reply.parts();
            let calls = calls.iter().enumerate().map(|(at, (name, arguments))| {
                serde_json::json!({"id": format!("{turn}-{at}"), "name": name, "arguments": arguments})
            });
            serde_json::json!({"text": text, "finish": finish, "calls": calls.collect::<Vec<_>>()})
        });
        serde_json::json!({
            "name": self.name,
            "files": BTreeMap::from(FILES),
            "protocol": self.protocol(),
            "replies": replies.collect::<Vec<_>>(),
            "turns": self.turns,
            "seconds": self.seconds,
            "command_seconds": self.command_seconds,
            "format_errors": self.format_errors,
        })
    }
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Played {
    /// For each model call, the messages that the model had not seen: role and text.
    shown: Vec<Vec<(String, String)>>,
    /// Commands in order, with the exit code if there is one.
    ran: Vec<(String, Option<i64>)>,
    exit: String,
    patch: String,
    /// Replies that later calls are shown.
    replies_kept: usize,
}

impl Played {
    fn texts(&mut self, change: impl Fn(String) -> String) {
        for (_, text) in self.shown.iter_mut().flatten() {
            *text = change(std::mem::take(text));
        }
    }

    fn codes(&mut self, change: impl Fn(Option<i64>) -> Option<i64>) {
        for (_, code) in &mut self.ran {
            *code = change(*code);
        }
    }

    /// What ran and how it ended, for a snapshot.
    fn summary(&self) -> String {
        let ran: Vec<_> = self.ran.iter().map(|(command, code)| format!("{command:?} -> {code:?}")).collect();
        format!("ran [{}], {} {:?}", ran.join(", "), self.exit, self.patch)
    }

    fn of(record: &EpisodeRecord) -> Self {
        let role = |role| match role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        };
        let shown = record.turns.iter().map(|turn| {
            turn.input.iter().map(|message| (role(message.role).to_owned(), message.text())).collect()
        });
        let calls = record.turns.iter().flat_map(|turn| &turn.calls);
        // A call behind the one that handed in is answered and does not run.
        let ran = calls.filter(|call| {
            call.result.status != ToolStatus::Failed || !call.result.text.contains("not run: the patch")
        });
        let exit = match &record.exit {
            Exit::Submitted => "Submitted",
            Exit::Limit { limit: LimitKind::FormatErrors, .. } => "RepeatedFormatError",
            Exit::Limit { limit: LimitKind::Seconds, .. } => "TimeExceeded",
            Exit::Limit { .. } => "LimitsExceeded",
            Exit::Stopped { .. } => "stopped",
            Exit::Failed { reason, .. } => panic!("{reason}"),
        };
        Self {
            shown: shown.collect(),
            ran: ran
                .map(|call| {
                    let command = call.arguments["command"].as_str().unwrap().to_owned();
                    (command, call.result.exit_code.map(i64::from))
                })
                .collect(),
            exit: exit.to_owned(),
            patch: String::from_utf8_lossy(&record.patch).into_owned(),
            replies_kept: record.turns.len(),
        }
    }
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mini_swe_agent")
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(here().join("cases.toml")).unwrap();
    toml::from_str::<Cases>(&text).unwrap().case
}

/// What the real program does with all cases; none where it cannot be had.
fn official(cases: &[Case]) -> Option<BTreeMap<String, Played>> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
    let package = cache.join("tandem/mini-swe-agent-2.4.6");
    if !package.join("minisweagent").is_dir() {
        eprintln!("left out: mini-SWE-agent is not in the cache; `scripts/agent_packages.sh` puts it there");
        return None;
    }
    let mut child = Command::new("python3")
        .arg(here().join("official.py"))
        .arg(package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let cases: Vec<_> = cases.iter().map(Case::to_json).collect();
    child.stdin.take().unwrap().write_all(serde_json::to_string(&cases).unwrap().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "official.py failed");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn stored() -> BTreeMap<String, Played> {
    let text = std::fs::read_to_string(here().join("official.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

async fn ours(case: &Case) -> Played {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("task.toml", "schema_version = \"1.4\"\n");
    write("instruction.md", "repair it\n");
    write("tests/test.sh", "echo 1 > /logs/verifier/reward.txt\n");
    for (name, text) in FILES {
        write(&format!("environment/workspace/{name}"), text);
    }
    let replies = case.replies.clone();
    let policy = ScriptedPolicy::answering(move |_, turn, _| {
        let (text, finish, calls) = replies.get(turn - 1)?.parts();
        let call = |(at, (name, arguments)): (usize, &(String, String))| ToolCall {
            id: format!("{turn}-{at}"),
            name: name.clone(),
            // As from an endpoint: arguments that are no JSON stay a text.
            arguments: serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments.as_str())),
        };
        let tool_calls = calls.iter().enumerate().map(call).collect();
        Some(Reply { text, finish, tool_calls, ..Reply::default() })
    });
    let limits = Limits {
        protocol: case.protocol(),
        turns: case.turns,
        seconds: case.seconds,
        command_seconds: case.command_seconds,
        format_errors: case.format_errors,
        ..Limits::default()
    };
    let prompts = Prompts {
        system: "system".into(),
        instance: "task: {{ instruction }}".into(),
        observation: "{% if status == 'timed-out' %}<time>{{ limits.command_seconds }}</time>\
                      {% elif exit_code is none %}<{{ status }}>{% else %}<code>{{ exit_code }}</code>{% endif %}\
                      <output>{{ text }}</output>"
            .into(),
        format_error: "{% if kind == 'cut-off' %}cut off{% elif limits.protocol == 'tools' %}call a tool\
                       {% else %}actions {{ actions }}{% endif %}"
            .into(),
    };
    let manifest = HarnessManifest { limits, prompts, ..HarnessManifest::bare() };
    let generations = Generations::new(Generation::bare(manifest));
    let spec = EpisodeSpec {
        id: case.name.clone(),
        group: case.name.clone(),
        task: Arc::new(Task::load(folder.path()).unwrap()),
        seed: 0,
        sampling: Sampling::default(),
        skill: None,
    };
    let config = WorkspaceConfig::default();
    let record = run_episode(&spec, &policy, &generations.lease(), &config, &Cancel::new()).await.unwrap();
    Played::of(&record)
}

/// Whether both are equal under these rules.
fn equal(official: &Played, ours: &Played, rules: &[String]) -> Result<(), (Played, Played)> {
    let (mut official, mut ours) = (official.clone(), ours.clone());
    for name in rules {
        let rule = RULES.iter().find(|(rule, _)| rule == name);
        rule.unwrap_or_else(|| panic!("there is no rule `{name}`")).1(&mut official, &mut ours);
    }
    if official == ours { Ok(()) } else { Err((official, ours)) }
}

/// The first lines in which two differ.
fn lines_apart(official: &Played, ours: &Played) -> String {
    let lines = |played: &Played| -> Vec<String> {
        let text = serde_json::to_string_pretty(played).unwrap();
        text.lines().map(|line| line.trim().chars().take(200).collect()).collect()
    };
    let pairs = lines(official).into_iter().zip(lines(ours));
    let apart = pairs.filter(|(theirs, ours)| theirs != ours).take(3);
    apart.map(|(theirs, ours)| format!("  theirs {theirs}\n  ours   {ours}\n")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn episodes_go_as_in_mini_swe_agent() {
    let stored = stored();
    let (mut wrong, mut apart) = (Vec::new(), String::new());
    for case in cases() {
        let ours = ours(&case).await;
        let official = &stored[&case.name];
        if let Some(rule) = &case.apart {
            assert!(RULES.iter().any(|(name, _)| name == rule), "there is no rule `{rule}`");
            apart +=
                &format!("{}\n  theirs: {}\n  ours:   {}\n", case.name, official.summary(), ours.summary());
            continue;
        }
        if let Err((official, ours)) = equal(official, &ours, &case.differences) {
            wrong.push(format!("{}:\n{}", case.name, lines_apart(&official, &ours)));
        }
        for (at, name) in case.differences.iter().enumerate() {
            let mut others = case.differences.clone();
            others.remove(at);
            if equal(official, &ours, &others).is_ok() {
                wrong.push(format!("{}: the rule `{name}` is not needed", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    expect![[r#"
        a fence that begins inside a line
          theirs: ran ["printf a" -> Some(0)], LimitsExceeded ""
          ours:   ran [], LimitsExceeded ""
        a fence inside the command
          theirs: ran ["printf '%s\\n' 'a" -> Some(2)], LimitsExceeded ""
          ours:   ran ["printf '%s\\n' 'a\n```python' | tail -n 1" -> Some(0)], LimitsExceeded ""
        a block without a line
          theirs: ran [], LimitsExceeded ""
          ours:   ran ["" -> Some(0)], LimitsExceeded ""
        a carriage return behind the sentinel
          theirs: ran ["printf 'COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\\rpatch\\n'" -> Some(0)], Submitted "patch\n"
          ours:   ran ["printf 'COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\\rpatch\\n'" -> Some(0)], LimitsExceeded ""
        a space of Unicode before the sentinel
          theirs: ran ["printf '\\u00a0COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\\npatch\\n'" -> Some(0)], Submitted "patch\n"
          ours:   ran ["printf '\\u00a0COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\\npatch\\n'" -> Some(0)], LimitsExceeded ""
    "#]].assert_eq(&apart);
}

#[test]
fn the_stored_answers_are_those_of_mini_swe_agent() {
    let cases = cases();
    let Some(official) = official(&cases) else { return };
    if std::env::var_os("TANDEM_WRITE_ANSWERS").is_some() {
        let text = serde_json::to_string_pretty(&official).unwrap();
        std::fs::write(here().join("official.json"), text + "\n").unwrap();
        return;
    }
    assert_eq!(official, stored());
}

#[test]
fn every_difference_is_told_with_its_reason() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/agent.md")).unwrap();
    for (name, _) in RULES {
        assert!(page.contains(&format!("| `{name}` |")), "docs/agent.md does not tell of `{name}`");
        let used = |case: &Case| {
            case.apart.as_deref() == Some(name) || case.differences.iter().any(|rule| rule == name)
        };
        assert!(cases().iter().any(used), "no case needs `{name}`");
    }
}
