//! Does the hook chain keep the rules of the contract, and does an episode keep its harness?

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::plugin::testkit::*;
use crate::plugin::{Engine, NoWorkspace, PluginLimits, Step};
use crate::policy::{Origin, Piece, ToolCall};
use crate::store::{BlobStore, Digest};

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(PluginLimits::default()).unwrap())
}

fn blobs() -> (tempfile::TempDir, BlobStore) {
    let dir = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(dir.path()).unwrap();
    (dir, blobs)
}

/// A manifest of these plugins, each granted everything.
fn manifest(blobs: &BlobStore, plugins: &[(&str, &[u8])]) -> HarnessManifest {
    let grants: Vec<_> = crate::plugin::Capability::ALL.map(|c| c.name().to_owned()).to_vec();
    let entry = |(name, bytes): &(&str, &[u8])| PluginEntry {
        name: (*name).to_owned(),
        digest: blobs.put(bytes).unwrap(),
        grants: grants.clone(),
        settings: serde_json::Map::new(),
    };
    HarnessManifest { plugins: plugins.iter().map(entry).collect(), ..HarnessManifest::bare() }
}

/// The hooks of one episode with these plugins.
async fn hooks(plugins: &[(&str, &[u8])]) -> EpisodeHooks {
    let (_dir, blobs) = blobs();
    let generation = Generation::build(engine(), manifest(&blobs, plugins), &blobs).await.unwrap();
    Generations::new(generation).lease().open(1, Arc::new(NoWorkspace))
}

fn at(turn: u32) -> Context {
    Context { turn, ..Context::default() }
}

fn bash(command: &str) -> ToolCall {
    ToolCall { id: "1".into(), name: "bash".into(), arguments: json!({ "command": command }) }
}

fn result(text: &str) -> ToolResult {
    let raw_bytes = text.len() as u64;
    ToolResult { status: ToolStatus::Finished, exit_code: Some(0), text: text.into(), raw_bytes }
}

fn patch(source: PatchSource, bytes: u64) -> PatchCandidate {
    PatchCandidate { source, bytes, files: vec!["a.py".into()], applies: bytes > 0 }
}

fn texts(pieces: &[Piece]) -> Vec<&str> {
    pieces.iter().map(|piece| piece.text.as_str()).collect()
}

/// One line for each effect and fault.
fn record(hooks: EpisodeHooks) -> String {
    let (effects, faults) = hooks.finish();
    let effects = effects.iter().map(|effect| {
        let Effect { name, point, turn, kind, text, .. } = effect;
        format!("{name} {} turn {turn} {}: {text}", point.name(), kind.name())
    });
    let faults = faults.iter().map(|fault| {
        let out = if fault.barred { ", out" } else { "" };
        format!("{} {} turn {} fault: {}{out}", fault.name, fault.point.name(), fault.turn, fault.reason)
    });
    effects.chain(faults).collect::<Vec<_>>().join("\n")
}

fn on(point: HookPoint, case: u32, text: &str) -> Vec<u8> {
    let mut guest = Guest::new();
    let body = guest.effect(case, text);
    guest.on(point, &body).build()
}

/// Logs the names of the events that it observes.
fn observer() -> Vec<u8> {
    let body = "(call $log (i32.const 1) (local.get 10) (local.get 11))";
    Guest::new().import("log", "log", "(param i32 i32 i32)").on(HookPoint::Observe, body).build()
}

/// Refuses every call with the arguments that it sees as the reason.
fn tells_arguments() -> Vec<u8> {
    let (at, length) = CALL_ARGUMENTS;
    Guest::new().on(HookPoint::OnToolCall, &say(1, at, length)).build()
}

#[tokio::test]
async fn rule_1_order_is_the_order_of_the_manifest() {
    let (one, two, three) = (notes("one"), notes("two"), notes("three"));
    let mut hooks = hooks(&[("c", &two), ("a", &three), ("b", &one)]).await;
    let ModelCallEffect::Proceed(pieces) = hooks.on_model_call(&at(1)).await else { panic!() };
    assert_eq!(texts(&pieces), ["two", "three", "one"]);
}

#[tokio::test]
async fn rule_1_each_hook_sees_the_effects_of_those_before() {
    let rewrite = on(HookPoint::OnToolCall, 0, "{\"command\": \"ls -a\"}");
    let mut hooks_ = hooks(&[("rewrite", &rewrite), ("tell", &tells_arguments())]).await;
    let ToolCallEffect::Refuse(piece) = hooks_.on_tool_call(&at(1), &bash("ls")).await else { panic!() };
    assert_eq!(piece.text, "{\"command\":\"ls -a\"}");

    let (text, length) = RESULT_TEXT;
    let echo = Guest::new().on(HookPoint::OnToolResult, &say(1, text, length)).build();
    let annotate = on(HookPoint::OnToolResult, 0, "look again");
    let mut hooks_ = hooks(&[("annotate", &annotate), ("echo", &echo)]).await;
    let pieces = hooks_.on_tool_result(&at(1), &bash("ls"), &result("a.py")).await;
    assert_eq!(texts(&pieces), ["a.py\nlook again"]);

    // The choice of the first plugin is what the second is shown first.
    let second =
        "(i32.store8 (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) (i32.const 1)) (i32.const 64)";
    let choose = Guest::new().on(HookPoint::OnChoosePatch, second).build();
    let silent = Guest::new().on(HookPoint::OnChoosePatch, NOTHING).build();
    let candidates = [patch(PatchSource::Submitted, 0), patch(PatchSource::WorkTree, 9)];
    let mut hooks_ = hooks(&[("choose", &choose), ("silent", &silent)]).await;
    assert_eq!(hooks_.on_choose_patch(&at(1), &candidates).await, 1);
    let mut hooks_ = hooks(&[("choose", &choose), ("back", &choose)]).await;
    assert_eq!(hooks_.on_choose_patch(&at(1), &candidates).await, 0);
}

#[tokio::test]
async fn rule_1_first_refusal_ends_the_chain_and_observers_still_run() {
    let refuse = on(HookPoint::OnToolCall, 1, "not this");
    let rewrite = on(HookPoint::OnToolCall, 0, "{}");
    let mut hooks_ = hooks(&[("refuse", &refuse), ("rewrite", &rewrite), ("watch", &observer())]).await;
    hooks_.on_tool_call(&at(3), &bash("rm -rf /")).await;
    expect![[r#"
        refuse on-tool-call turn 3 refuse: not this
        watch observe turn 3 log: info: refused"#]]
    .assert_eq(&record(hooks_));

    let mut guest = Guest::new();
    let defer = guest.some("test it first");
    let defer = guest.on(HookPoint::OnSubmit, &defer).build();
    let stop = on(HookPoint::OnModelCall, 1, "no hope");
    let mut hooks_ =
        hooks(&[("watch", &observer()), ("stop", &stop), ("defer", &defer), ("stop-2", &stop)]).await;
    let submission =
        Submission { patch: patch(PatchSource::Submitted, 9), work_tree: WorkTree::default(), deferrals: 1 };
    let effect = hooks_.on_submit(&at(4), &submission).await;
    assert!(matches!(effect, SubmitEffect::Defer(piece) if piece.text == "test it first"));
    let spent = Submission { deferrals: 2, ..submission };
    assert_eq!(hooks_.on_submit(&at(5), &spent).await, SubmitEffect::Accept);
    let effect = hooks_.on_model_call(&at(6)).await;
    assert!(matches!(effect, ModelCallEffect::Stop { reason, .. } if reason == "no hope"));
    expect![[r#"
        defer on-submit turn 4 defer: test it first
        watch observe turn 4 log: info: deferred
        stop on-model-call turn 6 stop: no hope
        watch observe turn 6 log: info: stopped"#]]
    .assert_eq(&record(hooks_));
}

#[tokio::test]
async fn rule_2_every_tool_call_has_one_result() {
    let schema = "{\"type\": \"object\"}";
    let (at_, length) = TOOL_ARGUMENTS;
    let echo = tool_says(at_, length, false);
    let echo = Guest::new().tools(&[("echo", "Says its arguments.", schema)], &echo).build();
    let trap = tool_says("(i32.const 0)", "(i32.const 0)", false);
    let trap = format!("(if (i32.ge_u (local.get 0) (i32.const 100)) (then (unreachable))) {trap}");
    let trap = Guest::new().tools(&[("trap", "Breaks.", schema)], &trap).build();
    let mut hooks = hooks(&[("echo", &echo), ("trap", &trap)]).await;
    let names: Vec<_> = hooks.tools().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["echo", "trap"]);

    let mut said = Vec::new();
    let mut say = async |turn: u32, name: &str, arguments: Value| {
        let call = ToolCall { id: turn.to_string(), name: name.into(), arguments };
        let result = hooks.call_tool(&at(turn), &call).await;
        said.push(match result {
            Some(result) => format!("{:?}: {}", result.status, result.text),
            None => "no such tool".into(),
        });
    };
    say(1, "echo", json!({"a": 1})).await;
    say(2, "echo", json!("a")).await;
    say(3, "bash", json!({})).await;
    say(99, "trap", json!({})).await;
    for turn in 100..104 {
        say(turn, "trap", json!({})).await;
    }
    expect![[r#"
        Finished: {"a":1}
        Failed: The arguments of `echo` are not a JSON object.
        no such tool
        Finished: 
        Failed: The tool `trap` broke down.
        Failed: The tool `trap` broke down.
        Failed: The tool `trap` broke down.
        Failed: The tool `trap` is out of order in this task."#]]
    .assert_eq(&said.join("\n"));
    expect![[r#"
        echo tools turn 1 tool-call: {"a":1}
        trap tools turn 99 tool-call: 
        trap tools turn 100 fault: it trapped: wasm `unreachable` instruction executed
        trap tools turn 101 fault: it trapped: wasm `unreachable` instruction executed
        trap tools turn 102 fault: it trapped: wasm `unreachable` instruction executed, out"#]]
    .assert_eq(&record(hooks));
}

#[tokio::test]
async fn rule_3_nothing_returned_means_nothing_happens() {
    let mut guest = Guest::new();
    for point in HookPoint::ALL {
        guest = match point {
            HookPoint::Tools => guest,
            HookPoint::OnLimit => guest.on(point, "(i32.const 0)"),
            HookPoint::Observe => guest.on(point, ""),
            _ => guest.on(point, NOTHING),
        };
    }
    let mut hooks = hooks(&[("silent", &guest.build())]).await;
    // In a task of its own: an episode may move between threads at every call.
    let episode = tokio::spawn(async move {
        unchanged(&mut hooks, 1).await;
        record(hooks)
    });
    assert_eq!(episode.await.unwrap(), "");
}

/// Calls every point and sees that the original value stands.
async fn unchanged(hooks: &mut EpisodeHooks, turn: u32) {
    let at = at(turn);
    assert!(hooks.on_episode_start(&at, "repair").await.is_empty());
    assert_eq!(hooks.on_model_call(&at).await, ModelCallEffect::Proceed(vec![]));
    assert_eq!(hooks.on_format_error(&at, FormatError::NoAction, "hm").await, None);
    let call = bash("ls");
    let effect = hooks.on_tool_call(&at, &call).await;
    assert_eq!(effect, ToolCallEffect::Proceed(call.arguments.clone()));
    let pieces = hooks.on_tool_result(&at, &call, &result("a.py")).await;
    assert_eq!(pieces, [Piece { origin: Origin::Host, text: "a.py".into() }]);
    let effect = hooks.on_loop(&at, Repetition::SameCall).await;
    assert_eq!(effect, ModelCallEffect::Proceed(vec![]));
    let submission =
        Submission { patch: patch(PatchSource::Submitted, 9), work_tree: WorkTree::default(), deferrals: 0 };
    assert_eq!(hooks.on_submit(&at, &submission).await, SubmitEffect::Accept);
    let candidates = [patch(PatchSource::Submitted, 9), patch(PatchSource::WorkTree, 9)];
    assert_eq!(hooks.on_choose_patch(&at, &candidates).await, 0);
    assert!(!hooks.on_limit(&at, LimitKind::Turns, &candidates[1]).await);
    hooks.observe(&at, "turn", &json!({})).await;
}

#[tokio::test]
async fn rule_3_a_fault_is_never_a_decision_and_the_third_bars() {
    let mut guest = Guest::new();
    let list = guest.effect(0, "[]");
    let faulty = |point, body: &str| match point {
        // Its parameters are in memory.
        HookPoint::OnToolResult => {
            let body = late(body).replace("(local.get 0)", "(i32.load (local.get 0))");
            Guest::new().on(point, &body)
        }
        _ => Guest::new().on(point, &late(body)),
    };
    let trap = faulty(HookPoint::OnModelCall, "(unreachable)").build();
    let fuel = faulty(HookPoint::OnToolResult, LOOP).build();
    let memory = faulty(HookPoint::OnLoop, GROW).build();
    let huge = "(i32.store8 (i32.const 64) (i32.const 1)) (i32.store (i32.const 72) (i32.const 50000000)) (i32.const 64)";
    let output = faulty(HookPoint::OnEpisodeStart, huge).pages(800).build();
    let wrong = guest.on(HookPoint::OnToolCall, &late(&list)).build();
    let index =
        "(i32.store8 (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) (i32.const 2)) (i32.const 64)";
    let index = faulty(HookPoint::OnChoosePatch, index).build();
    let plugins: [(&str, &[u8]); 6] = [
        ("trap", &trap),
        ("fuel", &fuel),
        ("memory", &memory),
        ("output", &output),
        ("wrong", &wrong),
        ("index", &index),
    ];
    let mut hooks_ = hooks(&plugins).await;
    unchanged(&mut hooks_, 100).await;
    expect![[r#"
        output on-episode-start turn 100 fault: it handed over too much at once: more than 8388608 bytes
        trap on-model-call turn 100 fault: it trapped: wasm `unreachable` instruction executed
        wrong on-tool-call turn 100 fault: it returned a wrong value: the rewritten arguments should be a JSON object: it is another JSON value
        fuel on-tool-result turn 100 fault: it ran out of fuel: it used all of its 100000000 units in one call
        memory on-loop turn 100 fault: it asked for too much memory: 68157440 bytes, limit 67108864 bytes
        index on-choose-patch turn 100 fault: it returned a wrong value: it chose candidate 2 of 2, counted from 0"#]].assert_eq(&record(hooks_));

    let fine = notes("still here");
    let mut hooks_ = hooks(&[("trap", &trap), ("fine", &fine)]).await;
    for turn in [100, 1, 101, 102, 103] {
        let ModelCallEffect::Proceed(pieces) = hooks_.on_model_call(&at(turn)).await else { panic!() };
        assert_eq!(texts(&pieces), ["still here"]);
    }
    let (_, faults) = hooks_.finish();
    let barred: Vec<_> = faults.iter().map(|fault| (fault.turn, fault.barred)).collect();
    assert_eq!(barred, [(100, false), (101, false), (102, true)]);
}

#[tokio::test]
async fn rule_6_text_names_plugin_point_and_effect() {
    let bytes = on(HookPoint::OnToolResult, 0, "look again");
    let mut hooks = hooks(&[("annotate", &bytes)]).await;
    let pieces = hooks.on_tool_result(&at(1), &bash("ls"), &result("a.py\n")).await;
    let origin = Origin::Hook {
        plugin: Digest::of(&bytes),
        point: "on-tool-result".into(),
        effect: "annotate".into(),
    };
    assert_eq!(pieces[0], Piece { origin: Origin::Host, text: "a.py\n".into() });
    assert_eq!(pieces[1], Piece { origin, text: "look again".into() });
}

#[tokio::test]
async fn rule_6_text_of_a_plugins_tool_names_the_plugin() {
    let call = tool_says(TOOL_ARGUMENTS.0, TOOL_ARGUMENTS.1, false);
    let tool = [("echo", "Says its arguments.", "{\"type\": \"object\"}")];
    let bytes = Guest::new().tools(&tool, &call).build();
    let mut hooks = hooks(&[("echo", &bytes)]).await;
    let call = ToolCall { id: "7".into(), name: "echo".into(), arguments: json!({}) };
    let answer = hooks.call_tool(&at(1), &call).await.unwrap();
    let pieces = hooks.on_tool_result(&at(1), &call, &answer).await;
    let Origin::Hook { plugin, point, .. } = &pieces[0].origin else { panic!() };
    assert_eq!((*plugin, point.as_str()), (Digest::of(&bytes), "tools"));
    let pieces = hooks.on_tool_result(&at(2), &bash("ls"), &result("a.py")).await;
    assert_eq!(pieces[0].origin, Origin::Host);
}

#[tokio::test]
async fn rule_10_long_text_is_cut() {
    let mut guest = Guest::new();
    let body = guest.effect(0, &"x".repeat(10_001));
    let bytes = guest.on(HookPoint::OnModelCall, &body).build();
    let mut hooks = hooks(&[("long", &bytes)]).await;
    let ModelCallEffect::Proceed(pieces) = hooks.on_model_call(&at(1)).await else { panic!() };
    assert!(pieces[0].text.contains("[cut: 10000 of 10001 characters are shown]"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rule_7_every_episode_sees_one_harness_under_constant_swaps() {
    const EPISODES: usize = 400;
    let (_dir, blobs) = blobs();
    let mut generations = Vec::new();
    for name in ["one", "two", "three"] {
        let bytes = notes(name);
        let manifest = manifest(&blobs, &[(name, bytes.as_slice())]);
        generations.push((name, Generation::build(engine(), manifest, &blobs).await.unwrap()));
    }
    let current = Generations::new(generations[0].1.clone());
    let done = Arc::new(AtomicBool::new(false));
    let publisher = {
        let (current, done) = (current.clone(), done.clone());
        let next: Vec<_> = generations.iter().map(|(_, next)| next.clone()).collect();
        std::thread::spawn(move || {
            let mut swaps = 0;
            while !done.load(Ordering::Relaxed) {
                current.publish(next[swaps % 3].clone());
                swaps += 1;
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
            swaps
        })
    };
    let mut episodes = Vec::new();
    for seed in 0..EPISODES {
        if seed % 20 == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let lease = current.lease();
        episodes.push(tokio::spawn(async move {
            let mut hooks = lease.open(seed as u64, Arc::new(NoWorkspace));
            for turn in 1..=5 {
                hooks.on_model_call(&at(turn)).await;
                tokio::task::yield_now().await;
            }
            let digest = hooks.lease().digest();
            (digest, hooks.finish().0)
        }));
    }
    let mut seen = std::collections::BTreeSet::new();
    for episode in episodes {
        let (digest, effects) = episode.await.unwrap();
        let (name, _) = generations.iter().find(|(_, g)| g.digest() == digest).unwrap();
        assert_eq!(effects.len(), 5);
        assert!(effects.iter().all(|effect| effect.text == *name), "{name}: {effects:?}");
        seen.insert(digest);
    }
    done.store(true, Ordering::Relaxed);
    let swaps = publisher.join().unwrap();
    assert!(swaps > 3 && seen.len() == 3, "{swaps} swaps, {} harnesses seen", seen.len());
}

#[tokio::test]
async fn drained_generation_is_dropped_with_its_last_lease() {
    let generations = Generations::new(Generation::bare(HarnessManifest::bare()));
    let lease = generations.lease();
    let mut other = HarnessManifest::bare();
    other.limits.turns = 1;
    let first = generations.current();
    generations.publish(Arc::new(Generation::bare(other)));
    assert_ne!(generations.current(), first);
    assert_eq!(lease.digest(), first);
    let watch = lease.watch();
    assert!(watch.upgrade().is_some());
    drop(lease);
    assert!(watch.upgrade().is_none());
}

#[tokio::test]
async fn next_generation_compiles_only_what_is_new_and_an_earlier_one_comes_back() {
    let engine = Engine::new(PluginLimits::default()).unwrap();
    let (_dir, blobs) = blobs();
    let components: Vec<_> = (0..6).map(|n| notes(&format!("note {n}"))).collect();
    let plugins: Vec<(String, &[u8])> =
        components.iter().enumerate().map(|(n, bytes)| (format!("p{n}"), &bytes[..])).collect();
    let named: Vec<_> = plugins.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
    let five = Generation::build(&engine, manifest(&blobs, &named[..5]), &blobs).await.unwrap();
    assert_eq!(engine.compiled(), 5);
    let generations = Generations::new(five.clone());
    let six = Generation::build(&engine, manifest(&blobs, &named), &blobs).await.unwrap();
    assert_eq!(engine.compiled(), 6);
    generations.publish(six);

    generations.activate(&engine, five.digest(), &blobs).await.unwrap();
    assert_eq!(generations.current(), five.digest());
    assert_eq!(generations.lease().manifest(), five.manifest());
    let unknown = Digest::of(b"no such harness");
    let error = generations.activate(&engine, unknown, &blobs).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("the harness {unknown} cannot be activated: ")), "{error}");
    assert_eq!(generations.current(), five.digest());
}

/// The error of building this manifest, with what differs from run to run left out.
async fn refused(blobs: &BlobStore, manifest: HarnessManifest, expected: Expect) {
    let error = Generation::build(engine(), manifest, blobs).await.err().unwrap();
    let text = error.to_string().replace(&blobs.dir().display().to_string(), "BLOBS");
    expected.assert_eq(&text);
}

#[tokio::test]
async fn harness_that_cannot_be_built_says_why() {
    let (_dir, blobs) = blobs();
    let note = notes("hello");

    let mut other = manifest(&blobs, &[]);
    other.contract = "tandem:harness@0.9.0".into();
    refused(&blobs, other, expect![[r#"
        the harness is written for `tandem:harness@0.9.0`, this host speaks `tandem:harness@0.1.0`
        help: use a host of that version, or build the plugins against `tandem:harness@0.1.0` and say so in `contract`"#]]).await;
    refused(
        &blobs,
        manifest(&blobs, &[("a", &note), ("a", &note)]),
        expect![[r#"
        two plugins of the harness are named `a`
        help: give every plugin a name of its own"#]],
    )
    .await;

    // Latin "rescue" and the same with a Cyrillic letter in it.
    refused(
        &blobs,
        manifest(&blobs, &[("rescue", &note), ("r\u{435}scue", &note)]),
        expect![[r#"
        a plugin of the harness is named `r\u{435}scue`
        help: name plugins with 1 to 64 of the letters a to z, digits and `-`"#]],
    )
    .await;

    let mut grant = manifest(&blobs, &[("a", &note)]);
    grant.plugins[0].grants.push("network".into());
    refused(&blobs, grant, expect![[r#"
        the plugin `a` of the harness has an unknown grant `network`
        help: the grants are `log`, `clock`, `random`, `state`, `settings`, `workspace-read`, `workspace-write`, `exec`"#]]).await;

    let mut missing = manifest(&blobs, &[("a", &note)]);
    missing.plugins[0].digest = Digest::of(b"nowhere");
    refused(&blobs, missing, expect![[r#"
        the component of the plugin `a` is not at hand: the blob sha256:20aeff0494e828d188c704e1f488a589b15ae01d11f6cb129f62129caa6cc543 is not in `BLOBS`
        help: put the file with these exact bytes into the store, or name another digest"#]]).await;

    let mut ungranted = manifest(&blobs, &[("watch", &observer())]);
    ungranted.plugins[0].grants = vec!["state".into()];
    refused(&blobs, ungranted, expect![[r#"
        the plugin `watch` was not admitted: it imports `tandem:harness/log@0.1.0` without the grant `log` (admission step: grants, sha256:2387a7fb1d6fc06ff68cef1c8c823c3a3f457c86749e068fb01367b4d4059ddb)
        help: put `grants = ["log", "state"]` into the plugin's entry in the harness manifest, or build the plugin without it"#]]).await;

    let text = b"not a component".as_slice();
    refused(&blobs, manifest(&blobs, &[("text", text)]), expect![[r#"
        the plugin `text` was not admitted: it is not WebAssembly (admission step: parse, sha256:a8a79aba8d88c7df8dcc2623d7b21b4815fe2ca50bc5a52d489303563437de31)
        help: build it for the target `wasm32-wasip2`, which makes a component"#]]).await;

    let call = tool_says("(i32.const 0)", "(i32.const 0)", false);
    let tool = [("view", "Shows a file.", "{\"type\": \"object\"}")];
    let one = Guest::new().tools(&tool, &call).build();
    let two = Guest::new().tools(&tool, &call).pages(33).build();
    refused(
        &blobs,
        manifest(&blobs, &[("one", &one), ("two", &two)]),
        expect![[r#"
        the plugins `one` and `two` both have a tool `view`
        help: take one of them out, or rename the tool in its source"#]],
    )
    .await;
}

#[tokio::test]
async fn settings_that_break_a_plugin_are_found_before_publishing() {
    // Traps when the settings are longer than `{}`.
    let body = format!(
        "(call $get (i32.const 128))
         (if (i32.gt_u (i32.load (i32.const 132)) (i32.const 2)) (then (unreachable))) {NOTHING}"
    );
    let guest = Guest::new().import("settings", "get", "(param i32)");
    let bytes = guest.on(HookPoint::OnModelCall, &body).build();
    let (_dir, blobs) = blobs();
    let mut manifest = manifest(&blobs, &[("picky", &bytes)]);
    assert!(Generation::build(engine(), manifest.clone(), &blobs).await.is_ok());
    manifest.plugins[0].settings.insert("limit".into(), json!(3));
    let error = Generation::build(engine(), manifest, &blobs).await.err().unwrap();
    assert_eq!(error.admission_step(), Some(Step::Canary));
}

#[test]
fn manifest_survives_toml_and_its_digest_does_not_depend_on_the_form() {
    let (_dir, blobs) = blobs();
    let mut manifest = manifest(&blobs, &[("a", b"x"), ("b", b"y")]);
    manifest.plugins[0].settings.insert("turns".into(), json!([1, 2]));
    manifest.plugins[0].settings.insert("deep".into(), json!({"z": 1.5, "a": "text"}));
    let toml = manifest.to_toml().unwrap();
    let read = HarnessManifest::from_toml("harness", &toml).unwrap();
    assert_eq!(read, manifest);
    assert_eq!(read.digest(), manifest.digest());
    let json = HarnessManifest::from_json("harness", manifest.canonical_json().as_bytes()).unwrap();
    assert_eq!(json.digest(), manifest.digest());
}

#[test]
fn manifest_that_cannot_be_read_names_file_and_line() {
    let check = |text: &str, expected: Expect| {
        let error = HarnessManifest::from_toml("`harness.toml`", text).unwrap_err();
        expected.assert_eq(&error.to_string());
    };
    check(
        "contract = \"tandem:harness@0.1.0\"\n[limits]\nturnz = 3\n",
        expect![[r#"
        `harness.toml` line 3: unknown field `turnz`, expected one of `protocol`, `turns`, `tokens`, `seconds`, `command_seconds`, `observation_chars`, `format_errors`, `deferrals`
        help: a harness manifest has `contract`, `[[plugins]]` (name, digest, grants, settings), `[prompts]` and `[limits]`"#]],
    );
    check(
        "[limits]\nturns = 3\n",
        expect![[r#"
        `harness.toml` line 1: missing field `contract`
        help: a harness manifest has `contract`, `[[plugins]]` (name, digest, grants, settings), `[prompts]` and `[limits]`"#]],
    );
    check(
        "contract = \"tandem:harness@0.1.0\"\n\n[limits]\nturns = \"many\"\n",
        expect![[r#"
        `harness.toml` line 4: invalid type: string "many", expected u64
        help: a harness manifest has `contract`, `[[plugins]]` (name, digest, grants, settings), `[prompts]` and `[limits]`"#]],
    );
    check(
        "contract = \"tandem:harness@0.1.0\"\n[[plugins]]\nname = \"a\"\ndigest = \"md5:1\"\n",
        expect![[r#"
            `harness.toml` line 4: `md5:1` is not a digest
            help: a harness manifest has `contract`, `[[plugins]]` (name, digest, grants, settings), `[prompts]` and `[limits]`"#]],
    );
    let missing = HarnessManifest::read("no/such/harness.toml".as_ref()).unwrap_err();
    expect![[r#"
        cannot read `no/such/harness.toml`: No such file or directory (os error 2)
        help: check the path and its permissions"#]]
    .assert_eq(&missing.to_string());
}
