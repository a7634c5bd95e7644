//! Replies as models write them: what is taken, and what goes back with which reason.

use expect_test::{Expect, expect};

use super::super::draft::harness;
use super::super::reply::blocks;
use super::super::request::{Finish, TeacherReply};
use crate::evolve::{Edit, Signal};
use tandem_host::forge::Language;

const MANIFEST: &str = r#"```toml
name = "say-it"
mechanism = "Says it in time."
points = ["on-model-call"]
grants = ["state"]
fixes = ["limit-with-edits"]
risks = ["Longer prompts."]
```"#;
const SOURCE: &str = "```rust\nfn x() {}\n```";

fn read(text: &str, finish: Finish) -> String {
    let reply = TeacherReply { text: text.into(), finish, ..TeacherReply::default() };
    match harness(&reply, Language::Rust, &[Signal::LimitWithEdits, Signal::EmptyPatch]) {
        Ok(draft) => {
            let made = match draft.edit {
                Edit::Plugin { language: Language::Rust, source, .. } => format!("{source:?}"),
                Edit::Plugin { language, .. } => panic!("{language}"),
                edit => serde_json::to_string(&edit).unwrap(),
            };
            format!("{} for {}: {made}", draft.manifest.name, draft.signal.name())
        }
        Err(fault) => fault.to_string(),
    }
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&read(text, Finish::End));
}

#[test]
fn a_manifest_and_a_source_are_taken_in_every_form_that_is_clear() {
    let taken = "say-it for limit-with-edits: \"fn x() {}\\n\"";
    let json = r#"```json
{"name": "say-it", "mechanism": "Says it in time.", "points": ["on-model-call"], "fixes": ["limit-with-edits"]}
```"#;
    for text in [
        format!("A reason.\n\n{MANIFEST}\n\nThen:\n\n{SOURCE}\n"),
        format!("{SOURCE}\n{MANIFEST}"),
        format!("{json}\n{SOURCE}"),
        format!("{MANIFEST}\n````rs\nfn x() {{}}\n````"),
        format!("{MANIFEST}\n~~~Rust title=\"lib.rs\"\nfn x() {{}}\n~~~"),
        format!("<think>First ```python\nno\n``` then.</think>\n{MANIFEST}\n{SOURCE}"),
        format!("{MANIFEST}\r\n```rust\r\nfn x() {{}}\r\n```\r\n"),
    ] {
        assert_eq!(read(&text, Finish::End), taken, "{text}");
    }
}

#[test]
fn a_fence_inside_a_longer_fence_is_text() {
    let found = blocks("````rust\n/// ```\n```\nx\n```\n````\n").unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].text, "/// ```\n```\nx\n```\n");
    let found = blocks("```rust\n//! ```\n//! x\n//! ```\n```\n").unwrap();
    assert_eq!(found[0].text, "//! ```\n//! x\n//! ```\n");
    assert_eq!(blocks("a ```b``` c\n```x``` y\n").unwrap(), []);
}

#[test]
fn what_is_missing_or_too_much_goes_back_with_its_reason() {
    check(
        "",
        expect![[r#"
        the reply is empty
        help: write the manifest and the source"#]],
    );
    check(
        "Here is an idea: warn the policy.",
        expect![[r#"
            there is no fenced manifest block
            help: write the manifest as ```toml: its keys are `name`, `mechanism`, `points`, `grants`, `fixes` and `risks`; another `kind` than `plugin` has keys of its own in the place of `points` and `grants`"#]],
    );
    check(
        SOURCE,
        expect![[r#"
            there is no fenced manifest block
            help: write the manifest as ```toml: its keys are `name`, `mechanism`, `points`, `grants`, `fixes` and `risks`; another `kind` than `plugin` has keys of its own in the place of `points` and `grants`"#]],
    );
    check(
        MANIFEST,
        expect![[r#"
        there is no fenced source block
        help: write the whole source of the plugin as ```rust"#]],
    );
    check(
        &format!("{MANIFEST}\n{SOURCE}\n{SOURCE}"),
        expect![[r#"
        there are 2 fenced source blocks, and exactly 1 is taken
        help: leave out drafts and examples; one mechanism, one source"#]],
    );
    check(
        &format!("{MANIFEST}\n{MANIFEST}\n{SOURCE}"),
        expect![[r#"
        there are 2 fenced manifest blocks, and exactly 1 is taken
        help: leave out drafts and examples; one mechanism, one source"#]],
    );
    check(
        &format!("{MANIFEST}\n```python\nx\n```"),
        expect![[r#"
        a fenced block is in `python`, which is not asked for
        help: write it in rust"#]],
    );
    check(
        &format!("{MANIFEST}\n```\nfn x() {{}}\n```"),
        expect![[r#"
        a fenced block does not name its language
        help: begin the manifest with ```toml and the source with ```rust"#]],
    );
    check(
        &format!("{MANIFEST}\n```rust\n\n```"),
        expect![[r#"
        there is no fenced source block
        help: write the whole source of the plugin as ```rust"#]],
    );
}

#[test]
fn truncated_and_declining_replies_are_told_apart() {
    check(
        &format!("{MANIFEST}\n```rust\nfn x() {{"),
        expect![[r#"
        the last fenced block is not closed
        help: end each block with a line of as many backticks as it began with"#]],
    );
    check(
        "<think>I could",
        expect![[r#"
        the reply was cut off at its limit of tokens
        help: write less around the two blocks, and a shorter source"#]],
    );
    check(
        "I'm sorry, but I can't help with that.",
        expect![[r#"
        the reply declines: "I'm sorry, but I can't help with that."
        help: if the evidence is too thin for a sure cure, propose the smallest hook that could help"#]],
    );
    let whole = format!("{MANIFEST}\n{SOURCE}");
    assert!(read(&whole, Finish::Length).starts_with("the reply was cut off"));
    assert!(read("No.", Finish::Refusal).starts_with("the reply declines: \"No.\""));
    // Words of regret around a good reply are no refusal.
    assert!(read(&format!("I'm sorry for the last one.\n{whole}"), Finish::End).starts_with("say-it"));
}

/// A manifest with one line changed.
fn with(key: &str, line: &str, expected: Expect) {
    let lines: Vec<String> = MANIFEST
        .lines()
        .map(|old| if old.starts_with(&format!("{key} =")) { line.to_owned() } else { old.to_owned() })
        .collect();
    check(&format!("{}\n{SOURCE}", lines.join("\n")), expected);
}

#[test]
fn a_wrong_manifest_goes_back_with_the_value_and_what_is_known() {
    with(
        "name",
        "name = \"Say It!\"",
        expect![[r#"
        the manifest is not right: `name` is `Say It!`
        help: a name has lower-case letters, digits and `-`, such as `hold-empty-patch`"#]],
    );
    with(
        "name",
        "name = \"../../etc\"",
        expect![[r#"
        the manifest is not right: `name` is `../../etc`
        help: a name has lower-case letters, digits and `-`, such as `hold-empty-patch`"#]],
    );
    with(
        "name",
        &format!("name = \"{}\"", "a".repeat(41)),
        expect![[r#"
        the name has 41 characters, and the limit is 40
        help: write less"#]],
    );
    with(
        "name",
        "",
        expect![[r#"
            the manifest is not right: missing field `name`
            help: its keys are `name`, `mechanism`, `points`, `grants`, `fixes` and `risks`; another `kind` than `plugin` has keys of its own in the place of `points` and `grants`"#]],
    );
    with(
        "mechanism",
        "mechanism = \"\"",
        expect![[r#"
        the manifest is not right: `mechanism` is not one line of text
        help: write one plain sentence"#]],
    );
    with(
        "mechanism",
        &format!("mechanism = \"{}\"", "x".repeat(301)),
        expect![[r#"
        the mechanism has 301 characters, and the limit is 300
        help: write less"#]],
    );
    with(
        "points",
        "points = [\"on-every-call\"]",
        expect![[r#"
        the manifest is not right: `on-every-call` is not a hook point
        help: the hook points are tools, on-episode-start, on-model-call, on-format-error, on-tool-call, on-tool-result, on-loop, on-submit, on-choose-patch, on-limit, observe"#]],
    );
    with(
        "points",
        "points = []",
        expect![[r#"
        the manifest is not right: `points` has 0 entries
        help: give 1 to 8"#]],
    );
    with(
        "grants",
        "grants = [\"network\"]",
        expect![[r#"
        the manifest is not right: `network` is not a grant
        help: the grants are log, clock, random, state, settings, workspace-read, workspace-write, exec"#]],
    );
    with(
        "fixes",
        "fixes = [\"world-hunger\"]",
        expect![[r#"
        the manifest is not right: `world-hunger` in `fixes` is not a signal of this request
        help: `fixes` names signals that should become rarer: limit-with-edits, empty-patch"#]],
    );
    with(
        "risks",
        "price = 3",
        expect![[r#"
            the manifest is not right: unknown field `price`, expected one of `kind`, `name`, `mechanism`, `points`, `grants`, `fixes`, `risks`, `plugin`, `settings`, `limits`, `before`, `after`, `prompt`
            help: its keys are `name`, `mechanism`, `points`, `grants`, `fixes` and `risks`; another `kind` than `plugin` has keys of its own in the place of `points` and `grants`"#]],
    );
}

#[test]
fn a_source_over_its_limit_goes_back() {
    let source = format!("```rust\n{}\n```", "// x\n".repeat(20_000));
    check(
        &format!("{MANIFEST}\n{source}"),
        expect![[r#"
        the source has 100001 bytes, and the limit is 65536
        help: write less"#]],
    );
}

/// A reply with these own keys of its kind, and what follows the manifest.
fn edit(own: &str, after: &str, expected: Expect) {
    let manifest = format!(
        "```toml\nname = \"an-edit\"\nmechanism = \"Says it.\"\nfixes = [\"empty-patch\"]\n{own}\n```\n{after}"
    );
    check(&manifest, expected);
}

#[test]
fn each_kind_of_edit_is_taken_in_the_form_of_its_kind() {
    edit(
        "kind = 'prompt'\nprompt = 'format-error'",
        "````text\nSay:\n\n```bash\nls\n```\n````",
        expect![[
            r#"an-edit for empty-patch: {"kind":"prompt","prompt":"format-error","text":"Say:\n\n```bash\nls\n```"}"#
        ]],
    );
    edit(
        "kind = 'prompt'\nprompt = 'system'",
        "```jinja\nBe careful.\n```",
        expect![[r#"an-edit for empty-patch: {"kind":"prompt","prompt":"system","text":"Be careful."}"#]],
    );
    edit(
        "kind = 'settings'\nplugin = 'p'\nsettings = { b = 1, a = ['x'] }",
        "",
        expect![[
            r#"an-edit for empty-patch: {"kind":"settings","plugin":"p","settings":{"a":["x"],"b":1}}"#
        ]],
    );
    edit(
        "kind = 'settings'\nplugin = 'p'\n[settings]\nb = 1",
        "",
        expect![[r#"an-edit for empty-patch: {"kind":"settings","plugin":"p","settings":{"b":1}}"#]],
    );
    edit(
        "kind = 'limits'\nlimits = { deferrals = 1, condense = { after = 40, first = 1, last = 16 } }",
        "",
        expect![[
            r#"an-edit for empty-patch: {"kind":"limits","limits":{"deferrals":1,"condense":{"after":40,"first":1,"last":16}}}"#
        ]],
    );
    edit(
        "kind = 'order'\nplugin = 'p'\nafter = 'q'",
        "",
        expect![[r#"an-edit for empty-patch: {"kind":"order","plugin":"p","place":{"after":"q"}}"#]],
    );
    edit(
        "kind = 'remove'\nplugin = 'p'\ngrants = []",
        "",
        expect![[r#"an-edit for empty-patch: {"kind":"remove","plugin":"p"}"#]],
    );
}

#[test]
fn an_edit_in_another_form_than_that_of_its_kind_goes_back() {
    edit(
        "kind = 'weights'",
        "",
        expect![[r#"
        the manifest is not right: unknown variant `weights`, expected one of `plugin`, `settings`, `limits`, `order`, `prompt`, `remove`
        help: its keys are `name`, `mechanism`, `points`, `grants`, `fixes` and `risks`; another `kind` than `plugin` has keys of its own in the place of `points` and `grants`"#]],
    );
    edit(
        "kind = 'prompt'\nprompt = 'reward'",
        "```text\nx\n```",
        expect![[r#"
        the manifest is not right: unknown variant `reward`, expected one of `system`, `instance`, `observation`, `format-error`
        help: its keys are `name`, `mechanism`, `points`, `grants`, `fixes` and `risks`; another `kind` than `plugin` has keys of its own in the place of `points` and `grants`"#]],
    );
    edit(
        "kind = 'prompt'\nprompt = 'system'",
        "",
        expect![[r#"
        there is no fenced text block
        help: write the whole text of the prompt as ````text"#]],
    );
    edit(
        "kind = 'prompt'\nprompt = 'system'",
        "```text\n\n```",
        expect![[r#"
        there is no fenced text block
        help: write the whole text of the prompt as ````text"#]],
    );
    edit(
        "kind = 'prompt'\nprompt = 'system'",
        SOURCE,
        expect![[r#"
        a fenced block is in `rust`, which is not asked for
        help: write it in text"#]],
    );
    edit(
        "kind = 'prompt'",
        "```text\nx\n```",
        expect![[r#"
        the manifest is not right: the kind `prompt` needs `prompt`
        help: write `prompt` as one of "system", "instance", "observation", "format-error""#]],
    );
    edit(
        "kind = 'prompt'\nprompt = 'system'\nplugin = 'p'",
        "```text\nx\n```",
        expect![[r#"
        the manifest is not right: `plugin` does not belong to the kind `prompt`
        help: its own keys are `prompt`; propose one change"#]],
    );
    edit(
        "kind = 'limits'\nlimits = { turns = 900 }",
        "",
        expect![[r#"
        the manifest is not right: unknown field `turns`, expected one of `observation_chars`, `command_seconds`, `format_errors`, `deferrals`, `condense`
        help: its keys are `name`, `mechanism`, `points`, `grants`, `fixes` and `risks`; another `kind` than `plugin` has keys of its own in the place of `points` and `grants`"#]],
    );
    edit(
        "kind = 'limits'\nlimits = { deferrals = -1 }",
        "",
        expect![[r#"
        the manifest is not right: invalid value: integer `-1`, expected u32
        help: its keys are `name`, `mechanism`, `points`, `grants`, `fixes` and `risks`; another `kind` than `plugin` has keys of its own in the place of `points` and `grants`"#]],
    );
    edit(
        "kind = 'limits'\nlimits = { deferrals = 1 }",
        SOURCE,
        expect![[r#"
        a manifest of kind `limits` says it all, and there is a fenced rust block beside it
        help: write the manifest alone"#]],
    );
    edit(
        "kind = 'limits'",
        "",
        expect![[r#"
        the manifest is not right: the kind `limits` needs `limits`
        help: write `limits = { observation_chars = 6000 }`"#]],
    );
    edit(
        "kind = 'order'\nplugin = 'p'",
        "",
        expect![[r#"
        the manifest is not right: the kind `order` needs `before`
        help: write `plugin = "its-name"`, and `before` or `after` with the name of another one"#]],
    );
    edit(
        "kind = 'order'\nplugin = 'p'\nbefore = 'q'\nafter = 'r'",
        "",
        expect![[r#"
        the manifest is not right: it has both `before` and `after`
        help: name one of them"#]],
    );
    edit(
        "kind = 'order'\nbefore = 'q'",
        "",
        expect![[r#"
        the manifest is not right: the kind `order` needs `plugin`
        help: write `plugin = "its-name"`, and `before` or `after` with the name of another one"#]],
    );
    edit(
        "kind = 'settings'\nplugin = 'p'",
        "",
        expect![[r#"
        the manifest is not right: the kind `settings` needs `settings`
        help: write `plugin = "its-name"` and `settings = { key = 3 }` with all of its settings"#]],
    );
    edit(
        "kind = 'settings'\nplugin = 'p'\nsettings = 3",
        "",
        expect![[r#"
        the manifest is not right: invalid type: integer `3`, expected a map
        help: its keys are `name`, `mechanism`, `points`, `grants`, `fixes` and `risks`; another `kind` than `plugin` has keys of its own in the place of `points` and `grants`"#]],
    );
    edit(
        "kind = 'remove'\nplugin = 'p'\ngrants = ['exec']",
        "",
        expect![[r#"
        the manifest is not right: `grants` does not belong to the kind `remove`
        help: its own keys are `plugin`; propose one change"#]],
    );
}
