//! Does a comparison of two harnesses say everything that a person must know before a swap?

use std::sync::OnceLock;

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::plugin::testkit::*;
use crate::plugin::{Engine, PluginLimits};
use crate::store::BlobStore;

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(PluginLimits::default()).unwrap())
}

/// Name, component, grants, settings.
type Plugin<'a> = (&'a str, &'a [u8], &'a [&'a str], serde_json::Value);

struct Bench {
    _dir: tempfile::TempDir,
    blobs: BlobStore,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let blobs = BlobStore::open(dir.path()).unwrap();
        Self { _dir: dir, blobs }
    }

    fn manifest(&self, plugins: &[Plugin]) -> HarnessManifest {
        let entry = |(name, bytes, grants, settings): &Plugin| PluginEntry {
            name: (*name).to_owned(),
            digest: self.blobs.put(bytes).unwrap(),
            grants: grants.iter().map(|grant| (*grant).to_owned()).collect(),
            settings: settings.as_object().cloned().unwrap_or_default(),
        };
        HarnessManifest { plugins: plugins.iter().map(entry).collect(), ..HarnessManifest::bare() }
    }

    async fn facts(&self, manifest: &HarnessManifest) -> Vec<PluginFacts> {
        Generation::build(engine(), manifest.clone(), &self.blobs).await.unwrap().facts()
    }

    async fn diff(&self, from: &HarnessManifest, to: &HarnessManifest) -> HarnessDiff {
        let (old, new) = (self.facts(from).await, self.facts(to).await);
        HarnessDiff::of(Side { manifest: from, facts: Ok(&old) }, Side { manifest: to, facts: Ok(&new) })
    }

    async fn check(&self, from: &HarnessManifest, to: &HarnessManifest, expected: Expect) {
        let text = self.diff(from, to).await.to_string();
        // The first line has the digests of both.
        expected.assert_eq(text.split_once('\n').unwrap().1);
    }

    async fn lint(&self, plugins: &[Plugin<'_>], expected: Expect) {
        let manifest = self.manifest(plugins);
        let warnings = lint(&manifest, &self.facts(&manifest).await);
        let text: Vec<_> = warnings.iter().map(ToString::to_string).collect();
        expected.assert_eq(&text.join("\n"));
    }
}

/// Logs what it observes.
fn logs() -> Vec<u8> {
    let body = "(call $log (i32.const 1) (local.get 10) (local.get 11))";
    Guest::new().import("log", "log", "(param i32 i32 i32)").on(HookPoint::Observe, body).build()
}

/// A plugin with a tool.
fn tool(name: &str, description: &str) -> Vec<u8> {
    let call = tool_says("(i32.const 0)", "(i32.const 0)", false);
    Guest::new().tools(&[(name, description, "{\"type\": \"object\"}")], &call).build()
}

fn nothing_at(points: &[HookPoint]) -> Vec<u8> {
    points.iter().fold(Guest::new(), |guest, point| guest.on(*point, NOTHING)).build()
}

#[tokio::test]
async fn what_an_update_newly_asks_for_and_hooks_is_said_in_words() {
    let bench = Bench::new();
    let note = notes("hello");
    let from = bench.manifest(&[("warn", &note, &[], json!({}))]);
    let (logs, edit) = (logs(), tool("edit", "Replaces one text.\nMore about it."));
    let to = bench.manifest(&[
        ("warn", &note, &[], json!({})),
        ("watch", &logs, &["log", "exec"], json!({})),
        ("edit", &edit, &[], json!({})),
    ]);
    bench
        .check(
            &from,
            &to,
            expect![[r#"
        It newly asks for:
          `watch` may use `exec`: run programs in the sandbox of the workspace
          `watch` may use `log`: write messages into the record of the episode
          `watch` imports `tandem:harness/log@0.1.0`
        It newly hooks:
          `watch` is called at `observe`
          `edit` offers the tool `edit`: Replaces one text.
        Plugins:
          `watch` is new, in place 2 of 3 (component 2387a7fb1d6f)
          `edit` is new, in place 3 of 3 (component 97f338a5c07f)
    "#]],
        )
        .await;
    bench
        .check(
            &to,
            &from,
            expect![[r#"
        No longer:
          `watch` may use `exec`
          `watch` may use `log`
          `watch` imports `tandem:harness/log@0.1.0`
          `watch` is called at `observe`
          `edit` offers the tool `edit`
        Plugins:
          `watch` is gone (component 2387a7fb1d6f)
          `edit` is gone (component 97f338a5c07f)
    "#]],
        )
        .await;
    bench
        .check(
            &from,
            &from,
            expect![[r#"
                Nothing differs.
            "#]],
        )
        .await;
}

#[tokio::test]
async fn a_replaced_component_that_asks_for_more_under_the_old_name_shows() {
    let bench = Bench::new();
    let quiet = Guest::new().on(HookPoint::Observe, "").build();
    let logs = logs();
    // It was granted more than it used, so the manifest alone shows nothing.
    let from = bench.manifest(&[("watch", &quiet, &["log"], json!({}))]);
    let to = bench.manifest(&[("watch", &logs, &["log"], json!({}))]);
    bench
        .check(
            &from,
            &to,
            expect![[r#"
        It newly asks for:
          `watch` imports `tandem:harness/log@0.1.0`
        Plugins:
          `watch` has another component: 42b685838a47 before, 2387a7fb1d6f now
    "#]],
        )
        .await;

    let (one, two) = (tool("edit", "Replaces one text."), tool("edit", "Replaces many texts."));
    let from = bench.manifest(&[("edit", &one, &[], json!({}))]);
    let to = bench.manifest(&[("edit", &two, &[], json!({}))]);
    bench
        .check(
            &from,
            &to,
            expect![[r#"
        Plugins:
          `edit` describes its tool `edit` in another way
          `edit` has another component: ca7b0f373440 before, 5fe466126d85 now
    "#]],
        )
        .await;
}

#[tokio::test]
async fn settings_order_limits_and_prompts_show_with_both_values() {
    let bench = Bench::new();
    let (a, b, c) = (notes("a"), notes("b"), notes("c"));
    let mut from = bench.manifest(&[
        ("a", &a, &[], json!({"turns": 3, "old": true})),
        ("b", &b, &[], json!({})),
        ("c", &c, &[], json!({})),
    ]);
    let mut to =
        bench.manifest(&[("b", &b, &[], json!({})), ("a", &a, &[], json!({"turns": 4, "new": "x"}))]);
    from.prompts.system = "You repair code.\nBe brief.\nHand in.".into();
    to.prompts.system = "You repair code.\nThink first.\nHand in.".into();
    to.prompts.observation.push('\n');
    to.limits.turns = 40;
    to.limits.protocol = Protocol::Tools;
    bench
        .check(
            &from,
            &to,
            expect![[r#"
        No longer:
          `c` is called at `on-model-call`
        Plugins:
          `c` is gone (component 462daedd2e98)
        Order:
          `a`, `b` before; `b`, `a` now
        Settings:
          `a`: `new` was not set, is "x"
          `a`: `old` was true, is not set
          `a`: `turns` was 3, is 4
        Limits:
          `protocol`: "text" before, "tools" now
          `turns`: 250 before, 40 now
        Prompts:
          `observation`:
            + 
          `system`:
            - Be brief.
            + Think first.
    "#]],
        )
        .await;
}

#[test]
fn without_the_components_the_rest_is_still_compared() {
    let (from, mut to) = (HarnessManifest::bare(), HarnessManifest::bare());
    to.limits.turns = 1;
    let reason = "the component of the plugin `a` is not at hand";
    let diff =
        HarnessDiff::of(Side { manifest: &from, facts: Ok(&[]) }, Side { manifest: &to, facts: Err(reason) });
    let text = diff.to_string().replace(&to.digest().short(), "TO");
    expect![[r#"
        What plugins import and hook is left out:
          harness TO: the component of the plugin `a` is not at hand
        Limits:
          `turns`: 250 before, 1 now
    "#]]
    .assert_eq(text.split_once('\n').unwrap().1);
}

#[tokio::test]
async fn a_script_reads_the_changes_by_kind() {
    let bench = Bench::new();
    let logs = logs();
    let from = bench.manifest(&[]);
    let to = bench.manifest(&[("watch", &logs, &["log"], json!({}))]);
    let diff = bench.diff(&from, &to).await;
    let kinds: Vec<_> = serde_json::to_value(&diff).unwrap()["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["change"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["grant-added", "imports-added", "point-added", "plugin-added"]);
}

#[tokio::test]
async fn a_good_harness_has_no_warning() {
    let (note, logs, edit) = (notes("a"), logs(), tool("edit", "Edits."));
    let plugins: [Plugin; 3] = [
        ("a", &note, &[], json!({})),
        ("watch", &logs, &["log"], json!({})),
        ("edit", &edit, &[], json!({})),
    ];
    Bench::new().lint(&plugins, expect![""]).await;
}

#[tokio::test]
async fn grants_that_are_never_used_are_named() {
    let (note, logs) = (notes("a"), logs());
    let plugins: [Plugin; 2] =
        [("a", &note, &["exec"], json!({})), ("watch", &logs, &["log", "workspace-write"], json!({}))];
    Bench::new()
        .lint(
            &plugins,
            expect![[r#"
        the plugin `a` is granted `exec` and never imports it
        help: `tandem harness set a --no-grants` takes it away
        the plugin `watch` is granted `workspace-write` and never imports it
        help: `tandem harness set watch --grant log` takes it away"#]],
        )
        .await;
}

#[tokio::test]
async fn an_earlier_plugin_that_may_shadow_a_later_one_is_named() {
    let one = nothing_at(&[HookPoint::OnToolCall, HookPoint::OnModelCall]);
    let two = nothing_at(&[HookPoint::OnToolCall, HookPoint::OnModelCall, HookPoint::OnSubmit]);
    let three = nothing_at(&[HookPoint::OnSubmit]);
    let plugins: [Plugin; 3] =
        [("one", &one, &[], json!({})), ("two", &two, &[], json!({})), ("three", &three, &[], json!({}))];
    Bench::new()
        .lint(
            &plugins,
            expect![[r#"
        `one` and `two` both decide at `on-tool-call`; when `one` answers, `two` is not asked
        help: put the stricter one first with `tandem harness set two --at INDEX`, or keep one of them
        `two` and `three` both decide at `on-submit`; when `two` answers, `three` is not asked
        help: put the stricter one first with `tandem harness set three --at INDEX`, or keep one of them"#]],
        )
        .await;
}

#[tokio::test]
async fn doubles_look_alikes_and_settings_that_nothing_reads_are_named() {
    let note = notes("a");
    let (one, two) = (tool("read_file", "Reads."), tool("ReadFile", "Reads too."));
    let plugins: [Plugin; 4] = [
        ("a", &note, &[], json!({"turns": 3})),
        ("b", &note, &[], json!({})),
        ("read", &one, &[], json!({})),
        ("read-2", &two, &[], json!({})),
    ];
    Bench::new()
        .lint(
            &plugins,
            expect![[r#"
        the plugin `a` has settings (`turns`) and never reads any
        help: `tandem harness set a --settings '{}'` takes them out
        `a` and `b` are the same component b68410444034
        help: `tandem harness remove b`, unless it is meant to act twice
        the tools `read_file` of `read` and `ReadFile` of `read-2` have names that a policy mixes up
        help: rename one of them in its source"#]],
        )
        .await;
}

#[tokio::test]
async fn a_misspelt_setting_that_the_schema_lets_pass_is_named() {
    let schema = r#"{"type": "object", "properties": {"turns": {"type": "integer"}, "text": {}}}"#;
    let mut guest = Guest::new().import("settings", "get", "(param i32)");
    let text = guest.pair(schema);
    let bytes = guest
        .export("tandem:harness/settings-schema@0.1.0", "settings-schema", &text)
        .on(HookPoint::OnModelCall, NOTHING)
        .build();
    let plugins: [Plugin; 2] = [
        ("good", &bytes, &["settings"], json!({"turns": 3})),
        ("bad", &bytes, &["settings"], json!({"turns": 3, "tunrs": 4})),
    ];
    Bench::new()
        .lint(
            &plugins,
            expect![[r#"
        the plugin `bad` has settings that it does not know: `tunrs`
        help: it knows `text`, `turns`; `tandem harness set bad --settings JSON` sets them anew
        `good` and `bad` are the same component d510cfa0a3b0
        help: `tandem harness remove bad`, unless it is meant to act twice"#]],
        )
        .await;
}
