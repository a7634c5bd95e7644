//! Do the capabilities work in a whole episode, through the forge, admission and the agent loop?

use std::sync::Arc;

use expect_test::expect;
use serde_json::{Map, Value, json};
use tandem_host::agent::{Cancel, EpisodeRecord, EpisodeSpec, run_episode};
use tandem_host::harness::{EffectKind, Generation, HarnessManifest, Lease, Limits, PluginEntry};
use tandem_host::plugin::Capability;
use tandem_host::policy::{Sampling, ScriptedPolicy};
use tandem_host::store::BlobStore;
use tandem_host::workspace::WorkspaceConfig;

use super::examples::{ENGINE, build, task};

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff";

/// A lease on a harness of these plugins: name, source, settings.
async fn lease(plugins: &[(&str, &str, Value)]) -> Lease {
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(folder.path()).unwrap();
    let entry = |(name, source, settings): &(&str, &str, Value)| PluginEntry {
        name: (*name).to_owned(),
        digest: blobs.put(&build(name, source)).unwrap(),
        grants: Capability::ALL.map(|capability| capability.name().to_owned()).to_vec(),
        settings: settings.as_object().cloned().unwrap_or_default(),
    };
    let plugins = plugins.iter().map(entry).collect();
    let limits = Limits { turns: 6, ..Limits::default() };
    let manifest = HarnessManifest { plugins, limits, ..HarnessManifest::bare() };
    Generation::build(&ENGINE, manifest, &blobs).await.unwrap_or_else(|error| panic!("{error}")).lease()
}

async fn play(lease: &Lease, seed: u64, commands: &[&str]) -> EpisodeRecord {
    play_in(&WorkspaceConfig::default(), lease, seed, commands).await
}

async fn play_in(config: &WorkspaceConfig, lease: &Lease, seed: u64, commands: &[&str]) -> EpisodeRecord {
    let spec = EpisodeSpec {
        id: "e".into(),
        group: "g".into(),
        task: Arc::new(task()),
        seed,
        sampling: Sampling::default(),
        skill: None,
    };
    let replies: Vec<_> = commands.iter().map(|command| format!("```bash\n{command}\n```")).collect();
    let policy = ScriptedPolicy::new(move |_| replies.clone());
    run_episode(&spec, &policy, lease, config, &Cancel::new()).await.unwrap()
}

/// The notes of one plugin, in order.
fn notes<'a>(record: &'a EpisodeRecord, plugin: &str) -> Vec<&'a str> {
    let of = record.effects.iter().filter(|effect| effect.name == plugin && effect.kind == EffectKind::Note);
    of.map(|effect| effect.text.as_str()).collect()
}

/// Tries every function of `workspace-read`, `workspace-write` and `exec`, and what they refuse.
const REACHES: &str = r#"
use tandem_plugin::*;
use workspace::WorkspaceError;

pub struct Plugin;

fn told<T>(what: &str, result: Result<T, WorkspaceError>, show: impl Fn(T) -> String) -> String {
    match result {
        Ok(value) => format!("{what}: {}", show(value).trim_end()),
        Err(error) => format!("{what}: error: {}", workspace::explain(&error)),
    }
}

fn run(what: &str, argv: &[&str], timeout_ms: u32) -> String {
    let argv: Vec<String> = argv.iter().map(|word| word.to_string()).collect();
    told(what, exec::run(&argv, timeout_ms), |output| {
        let text = String::from_utf8_lossy(&output.text).into_owned();
        let cut = text.lines().find(|line| line.contains("left out")).unwrap_or_default();
        let text = if cut.is_empty() { text.as_str() } else { cut };
        format!("{:?} {text}", output.exit_code)
    })
}

impl OnToolResult for Plugin {
    fn on_tool_result(context: Context, _call: ToolCall, _outcome: ToolResult) -> Option<ToolResultEffect> {
        if context.budget.turns.limit != Some(6) {
            return None; // a trial call
        }
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let size = |bytes: Vec<u8>| bytes.len().to_string();
        let paths = |entries: Vec<workspace::Entry>| {
            entries.iter().map(|entry| entry.path.clone()).collect::<Vec<_>>().join(" ")
        };
        let entry = |entry: workspace::Entry| format!("{} folder={} {}", entry.path, entry.is_folder, entry.bytes);
        let hits = |hits: Vec<workspace::SearchHit>| {
            let hits: Vec<_> = hits.iter().map(|hit| format!("{}:{}:{}", hit.path, hit.line, hit.text)).collect();
            hits.join(" | ")
        };
        let done = |()| "done".to_string();
        let lines = [
            told("read", workspace::read("calc.py"), text),
            told("read what is not there", workspace::read("none.py"), text),
            told("read outside", workspace::read("../calc.py"), text),
            told("read a link out", workspace::read("link"), text),
            told("read too much", workspace::read("big"), size),
            told("list", workspace::list(""), paths),
            told("list what is not there", workspace::list("none"), paths),
            told("stat", workspace::stat("calc.py"), entry),
            told("search", workspace::search("return", ".py", 9), hits),
            told("search for one", workspace::search("l", "", 1), hits),
            told("search for nothing", workspace::search("", "", 9), hits),
            told("diff", workspace::diff(), |bytes| {
                let diff = String::from_utf8_lossy(&bytes).into_owned();
                diff.lines().filter(|line| line.contains("return left")).collect::<Vec<_>>().join(" ")
            }),
            told("untracked", workspace::untracked(), |paths| paths.join(" ")),
            told("write", workspace::write("notes/a.txt", b"kept"), done),
            told("read what was written", workspace::read("notes/a.txt"), text),
            told("write the repository", workspace::write(".git/config", b"x"), done),
            told("write outside", workspace::write("../x", b"x"), done),
            told("write too much", workspace::write("more", &vec![0; 2_000_000]), done),
            run("exec", &["cat", "notes/a.txt"], 9_000),
            run("exec that fails", &["sh", "-c", "exit 7"], 9_000),
            run("exec too long", &["sleep", "30"], 300),
            run("exec with much output", &["seq", "100000"], 9_000),
            run("exec no program", &[], 9_000),
        ];
        Some(ToolResultEffect::Replace(lines.join("\n")))
    }
}

export_on_tool_result!(Plugin);
"#;

#[tokio::test]
async fn workspace_and_exec_do_what_the_contract_says_within_their_caps() {
    let lease = lease(&[("reach", REACHES, json!({}))]).await;
    let command = "sed -i 's/left - right/left + right/' calc.py; head -c 2000000 /dev/zero > big; ln -s /etc/passwd link";
    let record = play(&lease, 1, &[command, SUBMIT]).await;
    assert_eq!(record.faults, []);
    expect![[r#"
        read: def add(left, right):
            return left + right
        read what is not there: error: none.py does not exist
        read outside: error: ../calc.py is outside the workspace or may not be used
        read a link out: error: link is outside the workspace or may not be used
        read too much: error: big: 2000000 and the limit is 1048576
        list: .git README.md big calc.py link
        list what is not there: error: none does not exist
        stat: calc.py folder=false 46
        search: calc.py:2:    return left + right
        search for one: README.md:1:# Calc
        search for nothing: error: the text to search for is empty
        diff: -    return left - right +    return left + right
        untracked: big link
        write: done
        read what was written: kept
        write the repository: error: .git/config is outside the workspace or may not be used
        write outside: error: ../x is outside the workspace or may not be used
        write too much: error: the content: 2000000 and the limit is 1048576
        exec: Some(0) kept
        exec that fails: Some(7)
        exec too long: None
        exec with much output: Some(0) [523359 of 588895 bytes left out]
        exec no program: error: `argv` is empty"#]]
    .assert_eq(&record.effects[0].text);
    // What a plugin wrote is part of the work tree.
    assert!(record.work_tree.untracked.contains(&"notes/a.txt".to_owned()), "{:?}", record.work_tree);
}

/// Counts its calls in `state` and in its own memory, breaks down in turn 3, and tries to keep
/// too much.
const COUNTS: &str = r#"
use std::sync::atomic::{AtomicU8, Ordering};
use tandem_plugin::*;

pub struct Plugin;

static OWN: AtomicU8 = AtomicU8::new(0);

impl OnModelCall for Plugin {
    fn on_model_call(context: Context) -> Option<ModelCallEffect> {
        let kept = state::get("calls").map_or(0, |bytes| bytes[0]) + 1;
        state::set("calls", &[kept]).ok()?;
        let own = OWN.fetch_add(1, Ordering::Relaxed) + 1;
        if context.turn == 3 {
            panic!("turn 3");
        }
        let full = state::set("much", &vec![0; 300_000]).unwrap_err();
        Some(ModelCallEffect::Note(format!("kept {kept}, own {own}, {full}")))
    }
}

export_on_model_call!(Plugin);
"#;

#[tokio::test]
async fn state_is_kept_over_a_fault_and_gone_in_the_next_episode() {
    let lease = lease(&[("count", COUNTS, json!({}))]).await;
    for episode in 0..2 {
        let record = play(&lease, episode, &["ls", "ls -a", "pwd", SUBMIT]).await;
        assert_eq!(record.faults.len(), 1);
        assert!(record.faults[0].reason.contains("turn 3"), "{}", record.faults[0].reason);
        expect![[r#"
            kept 1, own 1, the state would hold 300010 bytes, limit 262144 bytes
            kept 2, own 2, the state would hold 300010 bytes, limit 262144 bytes
            kept 4, own 1, the state would hold 300010 bytes, limit 262144 bytes"#]]
        .assert_eq(&notes(&record, "count").join("\n"));
    }
}

/// Tells time, two random numbers and a setting.
const TELLS: &str = r#"
use tandem_plugin::*;

pub struct Plugin;

impl OnModelCall for Plugin {
    fn on_model_call(_context: Context) -> Option<ModelCallEffect> {
        let who = settings::get("who").and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
        let (first, second) = (random::next_u64(), random::next_u64());
        Some(ModelCallEffect::Note(format!("{who}NAME {} {first:x} {second:x}", clock::now_ms())))
    }
}

export_on_model_call!(Plugin);
"#;

/// The words of a note that [`TELLS`] made.
fn words(note: &str) -> [&str; 4] {
    note.split(' ').collect::<Vec<_>>().try_into().unwrap()
}

#[tokio::test]
async fn clock_random_and_settings_come_from_the_record_and_the_manifest() {
    let (one, two) = (TELLS.replace("NAME", "-one"), TELLS.replace("NAME", "-two"));
    let lease = lease(&[("a", &one, json!({"who": "first"})), ("b", &two, json!({}))]).await;
    let commands = ["sleep 1", SUBMIT];
    let record = play(&lease, 1, &commands).await;
    let (a, b) = (notes(&record, "a"), notes(&record, "b"));
    let numbers = |note| words(note)[2..].to_vec();

    // Settings are each plugin's own.
    assert_eq!((words(a[0])[0], words(b[0])[0]), ("first-one", "-two"));
    // Time starts with the episode and is what the record says of its commands.
    let seconds = record.turns[0].calls[0].seconds as u64;
    assert!(seconds >= 1);
    assert_eq!((words(a[0])[1], words(a[1])[1]), ("0", (seconds * 1000).to_string().as_str()));
    // Every number is another one: in a call, from call to call, from plugin to plugin.
    let mut seen: Vec<_> = a.iter().chain(&b).flat_map(|note| numbers(note)).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 8);

    // The same seed gives the same numbers, another seed others.
    let again = play(&lease, 1, &commands).await;
    let other = play(&lease, 2, &commands).await;
    assert_eq!(numbers(notes(&again, "a")[0]), numbers(a[0]));
    assert_eq!(numbers(notes(&again, "b")[1]), numbers(b[1]));
    assert_ne!(numbers(notes(&other, "a")[0]), numbers(a[0]));
}

#[tokio::test]
async fn messages_of_a_plugin_are_in_the_record_up_to_their_cap() {
    const LOGS: &str = r#"
use tandem_plugin::*;

pub struct Plugin;

impl OnModelCall for Plugin {
    fn on_model_call(context: Context) -> Option<ModelCallEffect> {
        log::debug("small");
        for _ in 0..9 {
            log::warn(&"x".repeat(10_000));
        }
        log::info(&format!("turn {}", context.turn));
        None
    }
}

export_on_model_call!(Plugin);
"#;
    let lease = lease(&[("log", LOGS, Value::Object(Map::new()))]).await;
    let record = play(&lease, 1, &["ls", SUBMIT]).await;
    let short = |text: &str| if text.len() > 100 { format!("{} bytes", text.len()) } else { text.to_owned() };
    let log: Vec<_> =
        record.effects.iter().map(|effect| format!("{} {}", effect.turn, short(&effect.text))).collect();
    expect![[r#"
        1 debug: small
        1 10006 bytes
        1 10006 bytes
        1 10006 bytes
        1 10006 bytes
        1 10006 bytes
        1 10006 bytes
        1 info: turn 1
        1 warn: 3 messages had no room and were dropped
        2 debug: small
        2 info: turn 2
        2 warn: 9 messages had no room and were dropped"#]]
    .assert_eq(&log.join("\n"));
}

#[tokio::test]
async fn a_choice_is_asked_for_only_where_there_is_one() {
    const CHOICE: &str = r#"
use tandem_plugin::*;

pub struct Plugin;

impl OnChoosePatch for Plugin {
    fn on_choose_patch(_context: Context, candidates: Vec<PatchCandidate>) -> Option<u32> {
        log::info(&format!("{} candidates", candidates.len()));
        None
    }
}

export_on_choose_patch!(Plugin);
"#;
    let lease = lease(&[("choice", CHOICE, json!({}))]).await;
    let log =
        |record: EpisodeRecord| record.effects.into_iter().map(|effect| effect.text).collect::<Vec<_>>();
    assert_eq!(log(play(&lease, 1, &[SUBMIT]).await), ["info: 2 candidates"]);
    // A work tree that is too large to read is no candidate.
    let mut small = WorkspaceConfig::default();
    small.extract.patch_bytes = 10_000;
    let record = play_in(&small, &lease, 1, &["seq 5000 > numbers", SUBMIT]).await;
    assert_eq!(log(record), Vec::<String>::new());
}
