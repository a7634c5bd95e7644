//! Do the formats say what the record says, and do their own programs read them?

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::super::testkit::*;
use super::super::{EpisodeRecord, Exit, InvalidCause, Outcome};
use super::{atif, chat, traj};
use crate::harness::{Condense, HookPoint, Limits, Protocol};
use crate::policy::{FinishReason, Price, Reply, Role, ScriptedPolicy, ToolCall};

/// Records of many kinds, by name.
async fn records() -> Vec<(&'static str, EpisodeRecord)> {
    let turns = |turns| Limits { turns, ..Limits::default() };
    let note = || on(HookPoint::OnToolResult, 0, "Run the tests.");
    let start = says(HookPoint::OnEpisodeStart, "Tests lie in `tests/`.");
    let hold = says(HookPoint::OnSubmit, "Look again.");
    let refuse = on(HookPoint::OnToolCall, 1, "Not this.");
    let rewrite = on(HookPoint::OnToolCall, 0, r#"{"command": "echo rewritten"}"#);
    let stop = on(HookPoint::OnModelCall, 1, "Enough.");
    let native = ScriptedPolicy::answering(|_, turn, _| {
        let call = |id: &str, name: &str, arguments| ToolCall { id: id.into(), name: name.into(), arguments };
        let tool_calls = match turn {
            1 => vec![
                call("a", "bash", json!({"command": "ls"})),
                call("b", "bash", json!({"command": "false"})),
            ],
            2 => vec![call("c", "bash", json!("{\"comm")), call("d", "shell", json!({}))],
            3 => vec![],
            _ => vec![
                call("e", "bash", json!({ "command": SUBMIT })),
                call("f", "bash", json!({"command": "ls"})),
            ],
        };
        let finish = if turn == 3 { FinishReason::Length } else { FinishReason::Stop };
        let text = if turn == 1 { "I look.".to_owned() } else { String::new() };
        Some(Reply { text, tool_calls, finish, ..Reply::default() })
    });
    let tools = Limits { protocol: Protocol::Tools, ..Limits::default() };
    let (_, mut failed) = ("", play(&[], turns(1), &["ls"]).await);
    failed.exit = Exit::Failed { cause: InvalidCause::Policy, reason: "It went away.".into() };
    failed.outcome = Outcome::Invalid(InvalidCause::Policy);
    failed.patch = b"\xe9\xff".to_vec();
    let price = Price { prompt: 3.0, reply: 15.0 };
    let paid = scripted(&["ls", "ls", "ls", "ls", SUBMIT]).with_price(price);
    let condense = Condense { after: 3, first: 1, last: 1 };
    let shortened = Limits { condense, ..Limits::default() };
    vec![
        ("condensed", play_on(engine(), &[], shortened, &paid).await),
        ("text", play(&[], Limits::default(), &["ls", ".", FIX, SUBMIT]).await),
        (
            "hooks",
            play(
                &[("start", start), ("note", note()), ("hold", hold)],
                turns(4),
                &["ls", SUBMIT, "ls", "ls"],
            )
            .await,
        ),
        ("refused", play(&[("refuse", refuse), ("note", note())], turns(2), &["ls", "ls"]).await),
        ("rewritten", play(&[("rewrite", rewrite)], turns(2), &["ls", "ls"]).await),
        ("stopped", play(&[("stop", stop)], turns(2), &["ls"]).await),
        ("native", play_on(engine(), &[("note", note())], tools, &native).await),
        ("failed", failed),
    ]
}

/// Every text that the policy read or wrote, in order.
fn read(record: &EpisodeRecord) -> Vec<String> {
    let messages = record.turns.iter().flat_map(|turn| turn.input.iter().chain([&turn.reply]));
    messages.map(|message| message.text()).collect()
}

/// Texts of a trajectory in the order in which the policy met them.
fn told(trajectory: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    for step in trajectory["steps"].as_array().unwrap() {
        texts.push(step["message"].as_str().unwrap().to_owned());
        let results = step["observation"]["results"].as_array().into_iter().flatten();
        let shown = results.filter(|result| result["extra"]["shown"] != false);
        texts.extend(shown.map(|result| result["content"].as_str().unwrap().to_owned()));
    }
    texts
}

/// The stretches of text that hooks put in, cut out by the places that an export names.
fn cut_out(text: &str, spans: &Value) -> Vec<(String, Value)> {
    let span = |span: &Value| {
        let at = |key: &str| span[key].as_u64().unwrap() as usize;
        let text = text.chars().skip(at("from")).take(at("to") - at("from")).collect();
        (text, span["by"].clone())
    };
    spans.as_array().into_iter().flatten().map(span).collect()
}

#[tokio::test]
async fn a_trajectory_holds_what_the_policy_read_and_names_who_put_it_in() {
    for (name, record) in records().await {
        let trajectory = atif(&record);
        if !record.turns.is_empty() {
            assert_eq!(told(&trajectory), read(&record), "{name}");
        }
        let steps = trajectory["steps"].as_array().unwrap();
        let mut spans = Vec::new();
        let mut effects = trajectory["extra"]["effects"].as_array().cloned().unwrap_or_default();
        for step in steps {
            effects.extend(step["extra"]["effects"].as_array().cloned().unwrap_or_default());
            spans.extend(cut_out(step["message"].as_str().unwrap(), &step["extra"]["origins"]));
            for result in step["observation"]["results"].as_array().into_iter().flatten() {
                spans.extend(cut_out(result["content"].as_str().unwrap(), &result["extra"]["origins"]));
            }
        }
        assert_eq!(json!(effects), json!(record.effects), "{name}");
        let lines = chat(&record);
        let mut from_chat = Vec::new();
        for origin in lines["tandem"]["origins"].as_array().unwrap() {
            let message = &lines["messages"][origin["message"].as_u64().unwrap() as usize];
            from_chat.extend(cut_out(message["content"].as_str().unwrap(), &origin["spans"]));
        }
        assert_eq!(spans, from_chat, "{name}");
        let hooked = record.turns.iter().flat_map(|turn| &turn.input).flat_map(|message| &message.pieces);
        let hooked: Vec<_> = hooked
            .filter(|piece| matches!(piece.origin, crate::policy::Origin::Hook { .. }))
            .map(|piece| (piece.text.clone(), json!(piece.origin)))
            .collect();
        assert_eq!(spans, hooked, "{name}");
        assert_eq!(name == "hooks" || name == "refused" || name == "native", !hooked.is_empty(), "{name}");
    }
}

#[tokio::test]
async fn ids_of_all_turns_together_are_the_segment() {
    for (name, record) in records().await {
        let trajectory = atif(&record);
        let numbers = |value: &Value| -> Vec<u64> {
            value.as_array().into_iter().flatten().map(|id| id.as_u64().unwrap()).collect()
        };
        let (mut ids, mut start) = (Vec::new(), 0);
        for step in trajectory["steps"].as_array().unwrap() {
            // A prompt that was written anew stands for everything before it.
            if !step["extra"]["condensed"].is_null() {
                start = ids.len();
            }
            ids.extend(numbers(&step["metrics"]["extra"]["new_prompt_token_ids"]));
            if step["source"] == "agent" && !record.segments.is_empty() {
                assert_eq!(step["metrics"]["prompt_tokens"], ids.len() - start, "{name}");
            }
            ids.extend(numbers(&step["metrics"]["completion_token_ids"]));
        }
        let segment: Vec<u64> =
            record.segments.iter().flat_map(|one| &one.ids).map(|id| u64::from(*id)).collect();
        assert_eq!(ids, segment, "{name}");
    }
}

#[tokio::test]
async fn money_is_told_of_each_turn_and_of_the_whole() {
    let records = records().await;
    let record = |name: &str| &records.iter().find(|(one, _)| *one == name).unwrap().1;
    let paid = record("condensed");
    let costs: Vec<f64> = paid.turns.iter().map(|turn| turn.cost).collect();
    let total = costs.iter().sum::<f64>();
    assert!(costs.iter().all(|cost| *cost > 0.0));
    let steps = atif(paid);
    let told =
        steps["steps"].as_array().unwrap().iter().filter_map(|step| step["metrics"]["cost_usd"].as_f64());
    assert_eq!(told.collect::<Vec<_>>(), costs);
    assert_eq!(steps["final_metrics"]["total_cost_usd"], total);
    assert_eq!(traj(paid)["info"]["model_stats"]["instance_cost"], total);
    assert_eq!(chat(paid)["tandem"]["condensed"][0]["turn"], 5);
    // What costs nothing is not said to cost 0.
    let free = atif(record("text"));
    assert_eq!(free["final_metrics"].get("total_cost_usd"), None);
    assert_eq!(free["steps"][2]["metrics"].get("cost_usd"), None);
}

#[tokio::test]
async fn what_a_hook_rewrote_stands_beside_what_the_policy_wrote() {
    let records = records().await;
    let record = |name: &str| &records.iter().find(|(one, _)| *one == name).unwrap().1;
    let call = &atif(record("rewritten"))["steps"][2]["tool_calls"][0];
    assert_eq!(call["arguments"]["command"], "ls");
    assert_eq!(call["extra"]["rewritten_arguments"]["command"], "echo rewritten");
    let message = &traj(record("rewritten"))["messages"][2];
    assert_eq!(message["extra"]["actions"][0]["command"], "ls");
    assert_eq!(message["extra"]["tandem"]["rewritten_arguments"][0]["command"], "echo rewritten");
    // Arguments that were no JSON are kept as they were, and the call is answered.
    let step = &atif(record("native"))["steps"][3];
    assert_eq!(step["tool_calls"][0]["extra"]["unreadable_arguments"], "{\"comm");
    assert_eq!(step["observation"]["results"][1]["source_call_id"], "d");
    assert_eq!(step["observation"]["results"][1]["extra"]["format_error"], true);
}

#[tokio::test]
async fn a_chat_is_one_that_endpoints_accept() {
    for (name, record) in records().await {
        let mut open: Vec<String> = Vec::new();
        for message in chat(&record)["messages"].as_array().unwrap() {
            let text = |key: &str| message[key].as_str().map(str::to_owned);
            match text("role").unwrap().as_str() {
                "tool" => {
                    let id = text("tool_call_id").unwrap();
                    assert_eq!(open.remove(0), id, "{name}: answered out of order");
                }
                "assistant" => {
                    assert!(open.is_empty(), "{name}: calls without an answer");
                    for call in message["tool_calls"].as_array().into_iter().flatten() {
                        assert!(call["function"]["arguments"].is_string(), "{name}");
                        open.push(call["id"].as_str().unwrap().to_owned());
                    }
                    assert!(message["content"].is_string() || !open.is_empty(), "{name}");
                }
                _ => assert!(open.is_empty() && message["content"].is_string(), "{name}"),
            }
        }
    }
}

#[tokio::test]
async fn a_traj_file_ends_as_mini_swe_agent_ends_it() {
    let ends = |record: &EpisodeRecord| {
        let file = traj(record);
        let last = file["messages"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(
            (&last["role"], &last["extra"]["exit_status"]),
            (&json!("exit"), &file["info"]["exit_status"])
        );
        assert_eq!(last["extra"]["submission"], file["info"]["submission"]);
        assert_eq!(file["info"]["model_stats"]["api_calls"], record.turns.len());
        let assistants = file["messages"].as_array().unwrap().iter().filter(|one| one["role"] == "assistant");
        assert_eq!(assistants.count(), record.turns.len());
        file["info"]["exit_status"].as_str().unwrap().to_owned()
    };
    let all: Vec<_> = records().await.iter().map(|(name, record)| (*name, ends(record))).collect();
    let all: Vec<_> = all.iter().map(|(name, end)| (*name, end.as_str())).collect();
    assert_eq!(
        all,
        [
            ("condensed", "Submitted"),
            ("text", "Submitted"),
            ("hooks", "LimitsExceeded"),
            ("refused", "LimitsExceeded"),
            ("rewritten", "LimitsExceeded"),
            ("stopped", "Stopped"),
            ("native", "Submitted"),
            ("failed", "Failed")
        ]
    );
}

/// Harbor's models read one trajectory a line and say `ok`, or what is wrong.
const HARBOR: &str = "
import sys, json
sys.path.insert(0, sys.argv[1])
from harbor.models.trajectories import Trajectory
for line in sys.stdin:
    try:
        again = Trajectory.model_validate_json(line).to_json_dict()
        print('ok' if again['schema_version'] == 'ATIF-v1.8' else again['schema_version'])
    except ValueError as error:
        print(str(error).replace('\\n', ' '))
";

fn cached(package: &str) -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
    let folder = cache.join("tandem").join(package);
    if !folder.is_dir() {
        eprintln!("left out: {package} is not in the cache; `scripts/agent_packages.sh` puts it there");
        return None;
    }
    Some(folder)
}

#[tokio::test]
async fn harbor_reads_every_trajectory() {
    let Some(harbor) = cached("harbor-0.25.0") else { return };
    let mut trajectories: Vec<_> = records().await.iter().map(|(_, record)| atif(record)).collect();
    let good = trajectories.len();
    // What Harbor must refuse, or it looks at nothing.
    for (pointer, value) in [
        ("/steps/0/step_id", json!(2)),
        ("/steps/2/observation/results/0/source_call_id", json!("other")),
        ("/steps/0/unknown", json!(1)),
        ("/steps/0/tool_calls", json!([])),
    ] {
        let mut bad = trajectories[0].clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        bad.pointer_mut(parent).unwrap()[key] = value;
        trajectories.push(bad);
    }
    let mut child = Command::new("python3")
        .args(["-c", HARBOR])
        .arg(harbor)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = trajectories.iter().map(|one| format!("{one}\n")).collect();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let verdicts: Vec<_> = text.lines().collect();
    assert_eq!(verdicts[..good], vec!["ok"; good]);
    assert_eq!(verdicts.len(), trajectories.len());
    assert!(verdicts[good..].iter().all(|verdict| verdict.contains("validation error")), "{verdicts:?}");
}

#[test]
fn roles_are_those_of_chat_endpoints() {
    for (role, name) in
        [(Role::System, "system"), (Role::User, "user"), (Role::Assistant, "assistant"), (Role::Tool, "tool")]
    {
        assert_eq!(chat::message(&crate::policy::Message::new(role, "x"))["role"], name);
    }
}
