//! In what may an episode differ from one of mini-SWE-agent? Each rule is told with its reason in
//! `docs/agent.md`.

use super::Played;

/// A rule: brings both to what they have in common.
type Rule = fn(official: &mut Played, ours: &mut Played);

pub const RULES: [(&str, Rule); 12] = [
    ("final-newlines", final_newlines),
    ("malformed-replies-stay", |official, _| official.replies_kept = official.shown.len()),
    ("malformed-calls-are-answered", malformed_calls),
    ("open-blocks-count", |official, _| official.texts(|text| text.replace("actions 0", "actions 1"))),
    ("whole-at-the-cap", whole),
    ("cut-line", cut_line),
    ("time-limit", time_limit),
    ("background-ends", background),
    ("signals", signals),
    ("not-started", not_started),
    ("bytes", bytes),
    // Shown by a snapshot, since other commands run.
    ("fences", |_, _| {}),
];

fn final_newlines(official: &mut Played, _: &mut Played) {
    official.texts(|text| match text.strip_suffix("</output>") {
        Some(output) => format!("{}</output>", output.trim_end_matches('\n')),
        None => text,
    });
}

/// One corrective message for all calls of a reply, from the user.
fn malformed_calls(_: &mut Played, ours: &mut Played) {
    for shown in &mut ours.shown {
        let corrective = |(role, text): &(String, String)| role == "tool" && !text.starts_with('<');
        if !shown.is_empty() && shown.iter().all(corrective) {
            shown.truncate(1);
            shown[0].0 = "user".into();
        }
    }
}

fn whole(official: &mut Played, _: &mut Played) {
    official.texts(|text| cut(&text, |head, elided, tail| (elided == 0).then(|| format!("{head}{tail}"))));
}

fn cut_line(official: &mut Played, _: &mut Played) {
    official.texts(|text| {
        cut(&text, |head, elided, tail| {
            let all = elided + 10_000;
            Some(format!("{head}\n[cut: 10000 of {all} characters are shown]\n{tail}"))
        })
    });
}

/// An observation that was cut, written anew from head, number of characters left out, and tail.
fn cut(text: &str, write: impl Fn(&str, usize, &str) -> Option<String>) -> String {
    let written = || {
        let (before, rest) = text.split_once("<head>")?;
        let (head, rest) = rest.split_once("</head><elided>")?;
        let (elided, rest) = rest.split_once("</elided><tail>")?;
        let output = write(head, elided.parse().ok()?, rest.strip_suffix("</tail>")?)?;
        Some(format!("{before}<output>{output}</output>"))
    };
    written().unwrap_or_else(|| text.to_owned())
}

fn time_limit(official: &mut Played, _: &mut Played) {
    official.texts(|text| exception(&text, "timed out after", |_, rest| format!("<time>1</time>{rest}")));
    official.codes(|code| code.filter(|code| *code != -1));
}

fn background(official: &mut Played, _: &mut Played) {
    official.texts(|text| exception(&text, "timed out after", |_, rest| format!("<code>0</code>{rest}")));
    official.codes(|code| code.map(|code| code.max(0)));
}

fn signals(official: &mut Played, _: &mut Played) {
    official.texts(|text| text.replace("<code>-9<", "<code>137<").replace("<code>-15<", "<code>143<"));
    official.codes(|code| code.map(|code| if code < 0 { 128 - code } else { code }));
}

fn not_started(official: &mut Played, ours: &mut Played) {
    official.texts(|text| exception(&text, "null byte", |_, _| "<failed>".into()));
    official.codes(|code| code.filter(|code| *code != -1));
    ours.texts(|text| if text.starts_with("<failed>") { "<failed>".into() } else { text });
}

/// Theirs are characters with one kind of line end.
fn bytes(_: &mut Played, ours: &mut Played) {
    let plain = |text: &str| text.replace("\r\n", "\n").replace('\r', "\n");
    ours.texts(|text| plain(&text));
    ours.patch = plain(&ours.patch);
}

/// An observation that tells an exception of this kind, written anew from it and what follows.
fn exception(text: &str, kind: &str, write: impl Fn(&str, &str) -> String) -> String {
    let parts =
        text.strip_prefix("<exception>").and_then(|text| text.split_once("</exception><code>-1</code>"));
    match parts {
        Some((told, rest)) if told.contains(kind) => write(told, rest),
        _ => text.to_owned(),
    }
}
