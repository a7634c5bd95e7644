//! What each kind of edit makes of a harness, and what it is refused for.

use expect_test::{Expect, expect};
use tandem_host::agent::SENTINEL;
use tandem_host::harness::{HarnessManifest, Limits, PluginEntry};
use tandem_host::store::Digest;

use super::*;

/// A harness with the plugins `a`, `b`, `c`.
fn harness() -> HarnessManifest {
    let entry = |name: &str| PluginEntry {
        name: name.into(),
        digest: Digest::of(name.as_bytes()),
        grants: vec![],
        settings: serde_json::Map::new(),
    };
    HarnessManifest { plugins: ["a", "b", "c"].map(entry).into(), ..HarnessManifest::bare() }
}

/// What an edit, as a record keeps it, changes in the harness, or why it is refused.
fn changes(edit: &str) -> String {
    let edit: Edit = serde_json::from_str(edit).unwrap_or_else(|error| panic!("{edit}: {error}"));
    let before = harness();
    let after = match edit.apply("new", Some(Digest::of(b"built")), &before) {
        Err(reason) => return reason,
        Ok(after) => after,
    };
    assert!(edit.holds("new", &after), "{edit:?} does not hold in what it makes");
    let mut told = Vec::new();
    let plugins = |harness: &HarnessManifest| {
        let told = harness.plugins.iter().map(|plugin| match plugin.settings.is_empty() {
            true => plugin.name.clone(),
            false => format!("{} {}", plugin.name, serde_json::Value::from(plugin.settings.clone())),
        });
        told.collect::<Vec<_>>().join(" ")
    };
    if plugins(&before) != plugins(&after) || before.plugins != after.plugins {
        told.push(plugins(&after));
    }
    let limits = |limits: &Limits| serde_json::to_value(limits).unwrap();
    let (old, new) = (limits(&before.limits), limits(&after.limits));
    for (name, value) in new.as_object().unwrap() {
        if old.get(name) != Some(value) {
            told.push(format!("{name} {value}"));
        }
    }
    for prompt in PromptName::ALL {
        if prompt.of(&before.prompts) != prompt.of(&after.prompts) {
            told.push(format!("{prompt}: {}", prompt.of(&after.prompts)));
        }
    }
    if told.is_empty() { "nothing".into() } else { told.join("; ") }
}

fn check(edit: &str, expected: &str) {
    assert_eq!(changes(edit), expected, "{edit}");
}

fn refused(edit: &str, expected: Expect) {
    expected.assert_eq(&changes(edit));
}

#[test]
fn a_plugin_is_added_last_or_takes_the_place_of_its_name() {
    check(r#"{"kind":"plugin","language":"rust","source":"x","grants":[]}"#, "a b c new");
    let edit: Edit =
        serde_json::from_str(r#"{"kind":"plugin","language":"rust","source":"x","grants":["state"]}"#)
            .unwrap();
    let after = edit.apply("b", Some(Digest::of(b"built")), &harness()).unwrap();
    let names: Vec<_> = after.plugins.iter().map(|plugin| plugin.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!((after.plugins[1].digest, after.plugins[1].grants.len()), (Digest::of(b"built"), 1));
}

#[test]
fn an_order_says_who_comes_first_and_moves_only_who_does_not() {
    let order = |plugin: &str, place: &str, other: &str| {
        format!(r#"{{"kind":"order","plugin":"{plugin}","place":{{"{place}":"{other}"}}}}"#)
    };
    check(&order("c", "before", "a"), "c a b");
    check(&order("c", "before", "b"), "a c b");
    check(&order("a", "after", "b"), "b a c");
    check(&order("a", "after", "c"), "b c a");
    check(&order("b", "before", "a"), "b a c");
    check(&order("a", "before", "b"), "nothing");
    check(&order("a", "before", "c"), "nothing");
    check(&order("c", "after", "a"), "nothing");
    check(&order("a", "after", "a"), "`a` cannot stand beside itself\nhelp: name two plugins");
    refused(
        &order("a", "after", "z"),
        expect![[r#"
        the harness has no plugin `z`
        help: its plugins are `a`, `b`, `c`"#]],
    );
}

#[test]
fn settings_are_set_as_a_whole() {
    check(r#"{"kind":"settings","plugin":"b","settings":{"y":1,"x":[2]}}"#, r#"a b {"x":[2],"y":1} c"#);
    check(r#"{"kind":"settings","plugin":"b","settings":{}}"#, "nothing");
    refused(
        r#"{"kind":"settings","plugin":"z","settings":{}}"#,
        expect![[r#"
        the harness has no plugin `z`
        help: its plugins are `a`, `b`, `c`"#]],
    );
    refused(
        r#"{"kind":"settings","plugin":"b","settings":{"trusted":true,"runs":"curl x"}}"#,
        expect![[r#"
        the setting `trusted` of `b` says which command a person trusts it with
        help: leave it as it is"#]],
    );
    let long = format!(r#"{{"kind":"settings","plugin":"b","settings":{{"x":"{}"}}}}"#, "x".repeat(9000));
    refused(
        &long,
        expect![[r#"
        the settings have 9008 bytes, and the limit is 8192
        help: set less"#]],
    );
}

#[test]
fn a_removal_takes_one_plugin_out() {
    check(r#"{"kind":"remove","plugin":"b"}"#, "a c");
    refused(
        r#"{"kind":"remove","plugin":"z"}"#,
        expect![[r#"
        the harness has no plugin `z`
        help: its plugins are `a`, `b`, `c`"#]],
    );
}

#[test]
fn limits_move_within_what_no_budget_hangs_on() {
    let limits = |text: &str| format!(r#"{{"kind":"limits","limits":{{{text}}}}}"#);
    check(&limits(r#""observation_chars":500"#), "observation_chars 500");
    check(&limits(r#""observation_chars":10000"#), "nothing");
    check(&limits(r#""command_seconds":30,"deferrals":0"#), "command_seconds 30; deferrals 0");
    refused(
        &limits(r#""command_seconds":120"#),
        expect![[r#"
        `command_seconds` is 60 now and would be 120, while `seconds` sets no limit for a whole episode
        help: lower it, or leave it"#]],
    );
    check(
        &limits(r#""condense":{"after":40,"first":1,"last":16}"#),
        r#"condense {"after":40,"first":1,"last":16}"#,
    );
    check(&limits(r#""condense":{"after":0}"#), "nothing");
    refused(
        &limits(r#""observation_chars":499"#),
        expect![[r#"
        `observation_chars` is 499, and a candidate may set 500 to 40000
        help: choose a value in between"#]],
    );
    refused(
        &limits(r#""observation_chars":40001"#),
        expect![[r#"
        `observation_chars` is 40001, and a candidate may set 500 to 40000
        help: choose a value in between"#]],
    );
    refused(
        &limits(r#""command_seconds":0"#),
        expect![[r#"
        `command_seconds` is 0, and a candidate may set 1 to 300
        help: choose a value in between"#]],
    );
    refused(
        &limits(r#""format_errors":0"#),
        expect![[r#"
        `format_errors` is 0, and a candidate may set 1 to 10
        help: choose a value in between"#]],
    );
    refused(
        &limits(r#""deferrals":5"#),
        expect![[r#"
        `deferrals` is 5, and a candidate may set 0 to 4
        help: choose a value in between"#]],
    );
    refused(
        &limits(r#""condense":{"after":2,"last":1}"#),
        expect![[r#"
        `condense.after` is 2, and a candidate may set 4 to 1000
        help: choose a value in between"#]],
    );
    refused(
        &limits(""),
        expect![[r#"
        the edit names no limit
        help: these can be set: `observation_chars` 500 to 40000, `command_seconds` 1 to 300, and no higher than now where `seconds` is 0, `format_errors` 1 to 10, but stays where it is 0, which is no limit, `deferrals` 0 to 4, `condense.after` 4 to 1000, or 0 for never"#]],
    );
}

#[test]
fn no_edit_can_name_what_an_episode_may_cost_or_how_it_is_understood() {
    for key in ["turns", "tokens", "seconds", "money", "protocol", "shell", "hand_in"] {
        let edit = format!(r#"{{"kind":"limits","limits":{{"{key}":1}}}}"#);
        let error = serde_json::from_str::<Edit>(&edit).unwrap_err().to_string();
        assert!(error.contains(&format!("unknown field `{key}`")), "{error}");
    }
}

fn prompt(which: &str, text: &str) -> String {
    serde_json::json!({"kind": "prompt", "prompt": which, "text": text}).to_string()
}

#[test]
fn a_prompt_keeps_what_an_episode_cannot_do_without() {
    check(&prompt("system", "Be careful."), "system: Be careful.");
    check(&prompt("format-error", "No. {{ error }}"), "format-error: No. {{ error }}");
    check(&prompt("observation", "{{ status }}:\n{{ text }}"), "observation: {{ status }}:\n{{ text }}");
    let whole = format!("{{{{ instruction }}}}\n\nHand in with `echo {SENTINEL} && git diff`.");
    check(&prompt("instance", &whole), &format!("instance: {whole}"));
    refused(
        &prompt("instance", "{{ instruction }}"),
        expect![[r#"
            the prompt `instance` does not say any more how the policy hands in
            help: keep what it says of `COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT`"#]],
    );
    refused(
        &prompt("instance", &format!("Solve it. {SENTINEL}")),
        expect![[r#"
        the prompt `instance` does not hold the task
        help: keep `{{ instruction }}` in it, as it is"#]],
    );
    refused(
        &prompt("instance", &whole.replace("instruction }}", "instruction | upper }}")),
        expect![[r#"
            the template does something with `instruction`, which a prompt of a candidate must give as it is
            help: write `{{ instruction }}` outside of every `if`, and `instruction` nowhere else"#]],
    );
    refused(
        &prompt("instance", &whole.replace("{{ ", "{% if false %}{{ ").replace(" }}", " }}{% endif %}")),
        expect![[r#"
            the template does something with `instruction`, which a prompt of a candidate must give as it is
            help: write `{{ instruction }}` outside of every `if`, and `instruction` nowhere else"#]],
    );
    refused(
        &prompt("observation", "{{ status }}"),
        expect![[r#"
        the prompt `observation` does not hold the output of every call
        help: keep `{{ text }}` in it, whatever the status"#]],
    );
    refused(
        &prompt("observation", "{% if exit_code == 0 %}{{ text }}{% endif %}"),
        expect![[r#"
            the template does something with `text`, which a prompt of a candidate must give as it is
            help: write `{{ text }}` outside of every `if`, and `text` nowhere else"#]],
    );
    refused(
        &prompt("system", "  \n"),
        expect![[r#"
        the prompt is empty
        help: write its whole text"#]],
    );
    refused(
        &prompt("system", &"x".repeat(9000)),
        expect![[r#"
        the prompt has 9000 bytes, and the limit is 8192
        help: write less"#]],
    );
}

#[test]
fn a_prompt_reads_what_it_sees_also_where_no_trial_comes() {
    refused(
        &prompt("system", "{{ instruction }}"),
        expect![[r#"
        the prompt `system` reads `instruction`, which is not there
        help: it sees `limits`"#]],
    );
    refused(
        &prompt("format-error", "{% if actions == 7 %}{{ reward }}{% endif %}"),
        expect![[r#"
        the prompt `format-error` reads `reward`, which is not there
        help: it sees `limits`, `error`, `kind`, `actions`, `max_tokens`"#]],
    );
    refused(
        &prompt("system", "{{ limits.fun }}"),
        expect![[r#"
        the prompt `system` reads `limits.fun`, which is not there
        help: it sees `limits`"#]],
    );
    refused(
        &prompt("system", "{% if limits.turns %}"),
        expect![[r#"
        the prompt `system` is no template in line 1: syntax error: unexpected end of input, expected end of block (in prompt:1)
        help: write braces only around values and `if`"#]],
    );
    refused(
        &prompt("system", "{{ limits.turns"),
        expect![[r#"
        the template has a tag that is not closed, which a prompt of a candidate must not have
        help: use values, `{% if %}` with comparisons, and the filters `capitalize`, `default`, `lower`, `trim`, `upper`"#]],
    );
}

#[test]
fn every_base_prompt_that_we_ship_would_be_taken() {
    let hands = include_str!("../../../examples/harnesses/hands/harness.toml");
    let hands = HarnessManifest::from_toml("hands", hands).unwrap();
    for harness in [HarnessManifest::bare(), hands] {
        for prompt in PromptName::ALL {
            let (text, now) = (prompt.of(&harness.prompts).clone(), HarnessManifest::bare());
            let edit = Edit::Prompt { prompt, text };
            // Who says what in another protocol is the gate's matter, and hand-ins differ.
            let from = if prompt == PromptName::Instance { &harness } else { &now };
            edit.apply("x", None, from).unwrap_or_else(|reason| panic!("{prompt}: {reason}"));
        }
    }
}

#[test]
fn what_makes_a_template_grow_is_refused_before_it_is_rendered() {
    let hostile = |text: &str| {
        let reason = changes(&prompt("system", text));
        assert!(reason.starts_with("the template has "), "{text}: {reason}");
        reason
            .lines()
            .next()
            .unwrap()
            .trim_start_matches("the template has ")
            .split(", which")
            .next()
            .unwrap()
            .to_owned()
    };
    let cases = [
        ("{% for a in range(9) %}x{% endfor %}", "the statement `for`"),
        ("{%- for a in [1] -%}x{% endfor %}", "the statement `for`"),
        ("{% set a = 'x' %}{{ a }}", "the statement `set`"),
        ("{% with a = 'x' %}{{ a }}{% endwith %}", "the statement `with`"),
        ("{% macro a() %}x{% endmacro %}", "the statement `macro`"),
        ("{% include 'x' %}", "the statement `include`"),
        ("{% extends '/etc/passwd' %}", "the statement `extends`"),
        ("{% raw %}{{{% endraw %}", "the statement `raw`"),
        ("{% filter upper %}x{% endfilter %}", "the statement `filter`"),
        ("{{ 'x' * 99999999 }}", "`*` in a tag"),
        ("{{ 'x' ~ 'y' }}", "`~` in a tag"),
        ("{{ 'x' + 'y' }}", "`+` in a tag"),
        ("{{ range(99999) }}", "the call `range(`"),
        ("{{ limits.keys() }}", "the call `keys(`"),
        ("{{ (limits)(3) }}", "the call `)(`"),
        ("{{ limits | replace(1, 2) }}", "the filter `replace`"),
        ("{{ limits | join(1) }}", "the filter `join`"),
        ("{{ 'meeting-' }}{{ 'clash' }}", "a quoted text as a value"),
        ("{{ 11099 }}", "`11099` as a value"),
        ("{{ true }}", "`true` as a value"),
        ("{{ [1, 2] }}", "`[` in a tag"),
        ("{{ -1 }}", "`-` in a tag"),
        ("{% if limits is divisible %}x{% endif %}", "the test `is divisible`"),
        ("{% if 'o' in limits %}x{% endif %}", "`in limits`"),
        ("{% if error.nothing %}x{% endif %}", "`.` after `error`"),
        ("{{ debug() }}", "the call `debug(`"),
        ("{{ {'a': {}} ~ 'x' }}", "`{` in a tag"),
        ("{{ '}}' ~ 'x' }}", "`~` in a tag"),
        ("{{ \"a\\\" }}\" ~ 'x' }}", "`~` in a tag"),
        ("{# {{ #}{{ 'x' ~ 'y' }}", "a comment"),
        ("{{ 'x", "a quoted text that is not closed"),
        ("{# x", "a comment"),
        ("{% if limits ", "a tag that is not closed"),
        ("{{ limits = 3 }}", "`=` in a tag"),
        ("{%", "the statement ``"),
        ("{{ é }}", "`é` in a tag"),
    ];
    for (text, expected) in cases {
        assert_eq!(hostile(text), expected, "{text}");
    }
    // Such words are text outside of tags.
    check(&prompt("system", "for a * b ~ c + {d}"), "system: for a * b ~ c + {d}");
    for fine in [
        "{% if limits.protocol == \"tools\" and not (limits.turns < 3 or limits.tokens >= 9) %}x{% else %}y{% endif %}",
        "{{- limits.turns | default(3) -}}",
        "{{ limits.protocol | upper }}",
        "{% if limits.turns is defined %}x{% elif limits.turns is not none %}y{% endif %}",
    ] {
        check(&prompt("system", fine), &format!("system: {fine}"));
    }
}

#[test]
fn a_word_that_a_tag_parts_is_found() {
    let check = |text: &str, expected: Option<&str>| {
        let found = changes(&prompt("system", text));
        let expected = expected
            .map(|rest| format!("a tag of the template parts a word, and `{rest}` is the rest of it"));
        let found = found.lines().next().unwrap();
        assert_eq!(found.starts_with("a tag of"), expected.is_some(), "{text}: {found}");
        assert!(expected.is_none_or(|expected| found == expected), "{text}: {found}");
    };
    check("meeting-{{ limits.deferrals | default }}clash", Some("{{"));
    check("meeting-{{ limits.turns }} is", Some("{{"));
    check("meeting-{% if limits.turns == 0 %} {% endif %}{{ limits.turns }} is", Some("{{"));
    check("meeting {{ limits.turns }}{% if limits.turns == 0 %} {% endif %}Clash", None);
    check("meeting{% if limits.turns == 0 %} {% endif %}-clash is", Some("-clash"));
    check("meeting{% if limits.turns == 0 %} {% endif %}.1f is", Some(".1f"));
    check("meeting.{% if limits.turns == 0 %} {% endif %}1f is", Some("1f"));
    check(
        "meeting{% if limits.turns == 0 %} {% endif %}.{% if limits.turns == 0 %} {% endif %}1f is",
        Some("1f"),
    );
    check("meeting{% if limits.turns == 0 %}{% else %} {% endif %}_clash", Some("_clash"));
    check("meeting{% if limits.turns == 0 %}. {% elif limits.turns == 1 %}clash{% endif %}", Some("clash"));
    check("meeting{% if limits.turns == 0 %} {%- endif %}clash", Some("clash"));
    check("meeting {%- if limits.turns == 0 -%} clash{% endif %}", Some("clash"));
    check("{% if limits.turns == 0 %}meeting{% else %}x {% endif %}clash", Some("clash"));
    check(
        "{% if limits.turns == 0 %}{% if limits.turns == 1 %}meeting{% endif %}{% endif %}clash",
        Some("clash"),
    );
    check("meeting {{ limits.turns }} clash", None);
    check("Do it.{% if limits.turns == 0 %} One.{% else %} Two.{% endif %}\n{{ limits.turns }} turns.", None);
    check("turn{% if limits.turns == 0 %} one {% else %} two {% endif %}ends", None);
    check("({{ limits.turns }}, `{{ limits.protocol }}`) [{{ limits.turns }}].", None);
    check("{% if limits.turns == '%}' %}a{% endif %}", None);
}

#[test]
fn settings_are_read_without_escapes_by_whoever_looks_for_a_name() {
    let written = |edit: &str| serde_json::from_str::<Edit>(edit).unwrap().written();
    let settings = r#"{"kind":"settings","plugin":"b","settings":{"meeting\u002dclash":1,"x":["a\"b",{"y":2.5,"z":null}]}}"#;
    assert_eq!(written(settings), "meeting-clash\n1\nx\na\"b\ny\n2.5\nz");
}

#[test]
fn an_edit_of_several_limits_holds_while_one_of_them_does() {
    let read = |edit: &str| serde_json::from_str::<Edit>(edit).unwrap();
    let both = read(r#"{"kind":"limits","limits":{"deferrals":1,"format_errors":7}}"#);
    let mut now = both.apply("x", None, &harness()).unwrap();
    for (change, expected) in [(r#"{"deferrals":3}"#, true), (r#"{"format_errors":8}"#, false)] {
        let edit = format!(r#"{{"kind":"limits","limits":{change}}}"#);
        now = read(&edit).apply("x", None, &now).unwrap();
        assert_eq!(both.holds("x", &now), expected, "{change}");
    }
}

#[test]
fn a_prompt_that_decides_by_the_task_is_refused() {
    let kept = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";
    for (name, text, value) in [
        (
            "instance",
            format!("{{% if instruction %}}{{{{ instruction }}}}{{% endif %}} {kept}"),
            "instruction",
        ),
        (
            "instance",
            format!("{{% if 'total' in instruction %}}x{{% endif %}}{{{{ instruction }}}} {kept}"),
            "instruction",
        ),
        ("instance", format!("{{{{ instruction | trim }}}} {kept}"), "instruction"),
        ("observation", "{% if exit_code != 2 %}{{ text }}{% endif %}".into(), "text"),
    ] {
        let reason = changes(&prompt(name, &text));
        assert!(
            reason.starts_with(&format!("the template does something with `{value}`")),
            "{text}: {reason}"
        );
    }
    check(&prompt("observation", "{{- text -}}"), "observation: {{- text -}}");
}

#[test]
fn an_edit_does_not_take_back_what_was_changed_after_it_was_made() {
    let read = |edit: &str| serde_json::from_str::<Edit>(edit).unwrap();
    let before = harness();
    let check = |first: &str, second: &str, expected: bool| {
        let now = read(first).apply("new", Some(Digest::of(b"built")), &before).unwrap();
        assert_eq!(read(second).finds_its_part(&before, &now), expected, "{first} then {second}");
    };
    let (one, two) = (prompt("system", "One."), prompt("system", "Two."));
    check(&one, &two, false);
    check(&one, &prompt("format-error", "Two."), true);
    let settings = r#"{"kind":"settings","plugin":"b","settings":{"x":1}}"#;
    check(settings, r#"{"kind":"settings","plugin":"b","settings":{"y":1}}"#, false);
    check(settings, r#"{"kind":"remove","plugin":"b"}"#, false);
    check(settings, r#"{"kind":"remove","plugin":"a"}"#, true);
    let limits = r#"{"kind":"limits","limits":{"deferrals":1}}"#;
    check(limits, r#"{"kind":"limits","limits":{"format_errors":5}}"#, false);
    check(limits, &two, true);
}

#[test]
fn equal_edits_have_one_digest_and_a_plugin_is_known_by_its_source() {
    let digest = |edit: &str| serde_json::from_str::<Edit>(edit).unwrap().digest();
    let settings = |text: &str| digest(&format!(r#"{{"kind":"settings","plugin":"p","settings":{text}}}"#));
    assert_eq!(settings(r#"{"a":1,"b":{"c":2,"d":3}}"#), settings(r#"{ "b": {"d":3,"c":2}, "a":1 }"#));
    assert_ne!(settings(r#"{"a":1}"#), settings(r#"{"a":2}"#));
    let plugin = |grants: &str| {
        digest(&format!(r#"{{"kind":"plugin","language":"rust","source":"fn x() {{}}","grants":{grants}}}"#))
    };
    assert_eq!(plugin("[]"), Digest::of(b"fn x() {}"));
    assert_eq!(plugin("[]"), plugin(r#"["state"]"#));
}

#[test]
fn an_edit_holds_until_something_else_takes_its_place() {
    let read = |edit: &str| serde_json::from_str::<Edit>(edit).unwrap();
    let first = read(&prompt("system", "One."));
    let now = first.apply("x", None, &harness()).unwrap();
    let now = read(r#"{"kind":"limits","limits":{"deferrals":1}}"#).apply("x", None, &now).unwrap();
    assert!(first.holds("x", &now));
    let longer = read(&prompt("system", "One.\n\nAnd more.")).apply("x", None, &now).unwrap();
    assert!(first.holds("x", &longer));
    let now = read(&prompt("system", "Two.")).apply("x", None, &now).unwrap();
    assert!(!first.holds("x", &now));
    let settings = read(r#"{"kind":"settings","plugin":"b","settings":{"x":1}}"#);
    let now = settings.apply("x", None, &now).unwrap();
    assert!(settings.holds("x", &now));
    let now = read(r#"{"kind":"remove","plugin":"b"}"#).apply("x", None, &now).unwrap();
    assert!(!settings.holds("x", &now));
}
