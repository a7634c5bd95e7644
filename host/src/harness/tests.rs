//! What does a person read when a harness cannot be built, and what is built only once? The
//! rules of the contract are in `rules`.

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::json;

use super::testkit::*;
use super::*;
use crate::plugin::testkit::*;
use crate::plugin::{Engine, PluginLimits, Step};
use crate::store::{BlobStore, Digest};

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
async fn a_tool_that_the_host_has_is_refused_and_not_shadowed() {
    let (_dir, blobs) = blobs();
    let call = tool_says("(i32.const 0)", "(i32.const 0)", false);
    let tool = [("finish", "Finishes a sentence.", "{\"type\": \"object\"}")];
    let bytes = Guest::new().tools(&tool, &call).build();
    let mut manifest = manifest(&blobs, &[("writer", &bytes)]);
    // The name is free where nothing of the host has it.
    assert!(Generation::build(engine(), manifest.clone(), &blobs).await.is_ok());
    manifest.limits.hand_in = HandIn::Finish;
    refused(&blobs, manifest, expect![[r#"
        the plugin `writer` has a tool `finish`, which the host has in this harness: `limits.hand_in` is `finish`
        help: rename the tool in its source, take the plugin out, or set `limits.hand_in` to `sentinel`"#]]).await;
}

#[tokio::test]
async fn limits_that_cannot_work_are_refused() {
    let (_dir, blobs) = blobs();
    let check = async |change: &dyn Fn(&mut Limits), expected: Expect| {
        let mut manifest = HarnessManifest::bare();
        change(&mut manifest.limits);
        refused(&blobs, manifest, expected).await;
    };
    check(
        &|limits| limits.money = -1.0,
        expect![[r#"
        `limits.money` is -1
        help: give a number from 0 on; 0 is no limit"#]],
    )
    .await;
    check(
        &|limits| limits.money = f64::NAN,
        expect![[r#"
        `limits.money` is NaN
        help: give a number from 0 on; 0 is no limit"#]],
    )
    .await;
    check(
        &|limits| limits.condense = Condense { after: 9, first: 4, last: 5 },
        expect![[r#"
        `limits.condense` keeps the first 4 and the last 5 turns of more than 9
        help: keep at least the last turn, and fewer in all than `after`"#]],
    )
    .await;
    check(
        &|limits| limits.condense = Condense { after: 9, first: 4, last: 0 },
        expect![[r#"
        `limits.condense` keeps the first 4 and the last 0 turns of more than 9
        help: keep at least the last turn, and fewer in all than `after`"#]],
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
        `harness.toml` line 3: unknown field `turnz`, expected one of `protocol`, `shell`, `hand_in`, `condense`, `turns`, `tokens`, `seconds`, `money`, `command_seconds`, `observation_chars`, `format_errors`, `deferrals`
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

#[test]
fn ways_of_the_loop_that_were_always_so_leave_the_digest_as_it_was() {
    let bare = HarnessManifest::bare();
    let json = bare.canonical_json();
    assert!(!json.contains(r#""shell":"#) && !json.contains(r#""hand_in":"#), "{json}");
    let mut kept = bare.clone();
    kept.limits.shell = Shell::Kept;
    kept.limits.hand_in = HandIn::Finish;
    assert_ne!(kept.digest(), bare.digest());
    let again = HarnessManifest::from_json("it", kept.canonical_json().as_bytes()).unwrap();
    assert_eq!((again.limits.shell, again.limits.hand_in), (Shell::Kept, HandIn::Finish));
    assert_eq!(HarnessManifest::from_toml("it", &kept.to_toml().unwrap()).unwrap(), kept);

    let side = |manifest| Side { manifest, facts: Ok(&[]) };
    let check = |from, to, expected: Expect| {
        let text = HarnessDiff::of(side(from), side(to)).to_string();
        expected.assert_eq(text.split_once('\n').unwrap().1);
    };
    check(
        &bare,
        &kept,
        expect![[r#"
            Limits:
              `hand_in`: "default" before, "finish" now
              `shell`: "default" before, "kept" now
        "#]],
    );
    check(
        &kept,
        &bare,
        expect![[r#"
            Limits:
              `hand_in`: "finish" before, "default" now
              `shell`: "kept" before, "default" now
        "#]],
    );
}
