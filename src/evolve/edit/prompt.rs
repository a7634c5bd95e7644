//! Is a text that a model wrote a base prompt that an episode can be given?
//!
//! It is hostile until shown otherwise. Of the template language it may use what cannot grow: values,
//! `if`, comparisons and filters that give no more than they take. Loops, assignments, macros and operators
//! that join text are refused, since a few of them make gigabytes of a word.

use std::collections::BTreeSet;
use std::fmt;

use minijinja::Environment;
use serde::{Deserialize, Serialize};
use tandem_host::agent::{
    PromptLanguage, PromptTag, RenderedPrompts, SENTINEL, TemplateError, render_prompts,
};
use tandem_host::harness::{FINISH, HandIn, HarnessManifest, Limits, Prompts};

use super::listed;

/// A base prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptName {
    System,
    Instance,
    Observation,
    FormatError,
}

impl PromptName {
    pub const ALL: [Self; 4] = [Self::System, Self::Instance, Self::Observation, Self::FormatError];

    /// The name in replies and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Instance => "instance",
            Self::Observation => "observation",
            Self::FormatError => "format-error",
        }
    }

    /// The values that it sees.
    pub fn values(self) -> &'static [&'static str] {
        match self {
            Self::System => &["limits"],
            Self::Instance => &["limits", "instruction"],
            Self::Observation => &["limits", "text", "exit_code", "status"],
            Self::FormatError => &["limits", "error", "kind", "actions", "max_tokens"],
        }
    }

    /// Its text.
    pub fn of(self, prompts: &Prompts) -> &String {
        match self {
            Self::System => &prompts.system,
            Self::Instance => &prompts.instance,
            Self::Observation => &prompts.observation,
            Self::FormatError => &prompts.format_error,
        }
    }

    pub(super) fn of_mut(self, prompts: &mut Prompts) -> &mut String {
        match self {
            Self::System => &mut prompts.system,
            Self::Instance => &mut prompts.instance,
            Self::Observation => &mut prompts.observation,
            Self::FormatError => &mut prompts.format_error,
        }
    }
}

impl fmt::Display for PromptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Most bytes of a prompt.
const MOST_BYTES: usize = 8 << 10;
/// The part of the language of prompts that a candidate may use. Filters take any value: none can fail in
/// a branch that no trial takes. Without comments, which could part a word that must not be there.
const LANGUAGE: PromptLanguage = PromptLanguage {
    statements: &["if", "elif", "else", "endif"],
    filters: &["capitalize", "default", "lower", "trim", "upper"],
    operators: &["==", "!=", "<=", ">=", "<", ">", "|", ".", ",", "(", ")"],
    calls: &[],
    comments: false,
};
/// Words that may follow `is`, and those that may follow `in`: of others, some fail when they are asked.
const TESTS: [&str; 4] = ["defined", "undefined", "none", "not"];
const TEXTS: [&str; 3] = ["error", "kind", "status"];
/// Values of which a prompt decides nothing: what it says must not depend on which task it is.
const WHOLE: [&str; 2] = ["instruction", "text"];

/// The text of a task and the output of a call, for trials: what keeps them whole keeps all their lines.
const INSTRUCTION: &str = "The total is wrong.\n\nIt should count the first day too.\n- see `total()`";
const OUTPUT: &str = "first line\n\n  second line: 12 of 13\nlast line";

/// Whether `text` can be the prompt `prompt` of `harness`.
pub(super) fn check(prompt: PromptName, text: &str, harness: &HarnessManifest) -> Result<(), String> {
    if text.len() > MOST_BYTES {
        let size = text.len();
        return Err(format!("the prompt has {size} bytes, and the limit is {MOST_BYTES}\nhelp: write less"));
    }
    if text.trim().is_empty() {
        return Err("the prompt is empty\nhelp: write its whole text".into());
    }
    let now = prompt.of(&harness.prompts).len();
    if now > MOST_BYTES {
        return Err(format!(
            "the prompt `{prompt}` has {now} bytes now, and whoever edits one writes all of it, {MOST_BYTES} at most\nhelp: leave it as it is"
        ));
    }
    check_language(text)?;
    check_values(prompt, text)?;
    let render = |prompts: &Prompts| render_prompts(prompts, &harness.limits, INSTRUCTION, OUTPUT);
    let mut prompts = harness.prompts.clone();
    text.clone_into(prompt.of_mut(&mut prompts));
    let now = render(&prompts).map_err(|TemplateError { reason, .. }| {
        format!(
            "the prompt `{prompt}` cannot be used: {reason}\nhelp: it is a minijinja template and sees {}",
            listed(prompt.values().iter().copied())
        )
    })?;
    if prompt == PromptName::Instance && !now.instance.contains(INSTRUCTION) {
        return Err(
            "the prompt `instance` does not hold the task\nhelp: keep `{{ instruction }}` in it, as it is"
                .into(),
        );
    }
    if prompt == PromptName::Observation && !now.observations.iter().all(|text| text.contains(OUTPUT)) {
        return Err("the prompt `observation` does not hold the output of every call\nhelp: keep `{{ text }}` in it, whatever the status".into());
    }
    // A harness whose prompts cannot be rendered has other troubles than this edit.
    let Ok(before) = render(&harness.prompts) else { return Ok(()) };
    let hands_in = match harness.limits.hand_in {
        HandIn::Sentinel => SENTINEL,
        HandIn::Finish => FINISH,
    };
    if said(prompt, &before).contains(hands_in) && !said(prompt, &now).contains(hands_in) {
        return Err(format!(
            "the prompt `{prompt}` does not say any more how the policy hands in\nhelp: keep what it says of `{hands_in}`"
        ));
    }
    Ok(())
}

fn said(prompt: PromptName, rendered: &RenderedPrompts) -> String {
    match prompt {
        PromptName::System => rendered.system.clone(),
        PromptName::Instance => rendered.instance.clone(),
        PromptName::Observation => rendered.observations.concat(),
        PromptName::FormatError => rendered.format_errors.concat(),
    }
}

/// Whether it reads only what it sees, in branches that no trial takes too.
fn check_values(prompt: PromptName, text: &str) -> Result<(), String> {
    let mut environment = Environment::empty();
    let broken = |error: minijinja::Error| {
        let line = error.line().map_or_else(String::new, |line| format!(" in line {line}"));
        format!(
            "the prompt `{prompt}` is no template{line}: {error}\nhelp: write braces only around values and `if`"
        )
    };
    environment.add_template("prompt", text).map_err(broken)?;
    let found = environment.get_template("prompt").map_err(broken)?.undeclared_variables(true);
    // Limits that are written down only where they differ from the usual are there for some harnesses only.
    let limits = serde_json::to_value(Limits::default()).unwrap_or_default();
    let is_limit = |name: &str| name.strip_prefix("limits.").is_some_and(|name| limits.get(name).is_some());
    let is_known = |name: &String| prompt.values().contains(&name.as_str()) || is_limit(name);
    // Sorted, so that the same text always has the same reason.
    let unknown: BTreeSet<String> = found.into_iter().filter(|name| !is_known(name)).collect();
    match unknown.first() {
        None => Ok(()),
        Some(name) => {
            let shown: String = name.chars().take(60).collect();
            let values = listed(prompt.values().iter().copied());
            Err(format!("the prompt `{prompt}` reads `{shown}`, which is not there\nhelp: it sees {values}"))
        }
    }
}

/// Whether it uses only the part of the template language that cannot grow or fail, and takes the task
/// and the output of a call as they are.
fn check_language(text: &str) -> Result<(), String> {
    let mut depth = 0_usize;
    let tags = LANGUAGE.tags(text).map_err(|what| not_allowed(&what))?;
    for tag in &tags {
        match tag.statement {
            Some("if") => depth += 1,
            Some("endif") => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_value = tag.statement.is_none();
        if let Some(whole) = tag.tokens.iter().find(|token| WHOLE.contains(token))
            && (!is_value || tag.tokens.len() > 1 || depth > 0)
        {
            return Err(format!(
                "the template does something with `{whole}`, which a prompt of a candidate must give as it is\nhelp: write `{{{{ {whole} }}}}` outside of every `if`, and `{whole}` nowhere else"
            ));
        }
        if is_value && tag.tokens.iter().any(|token| token.starts_with(['"', '\''])) {
            return Err(not_allowed("a quoted text as a value"));
        }
        let is_literal = |token: &&str| {
            token.starts_with(|c: char| c.is_ascii_digit()) || ["true", "false", "none"].contains(token)
        };
        if is_value && tag.tokens.first().is_some_and(is_literal) {
            return Err(not_allowed(&format!("`{}` as a value", tag.tokens[0])));
        }
        check_tag(&tag.tokens)?;
    }
    check_words(text, &tags)
}

/// How what was said so far can end: within a word, or not.
#[derive(Clone, Copy, Default)]
struct Ends {
    in_word: bool,
    elsewhere: bool,
}

impl Ends {
    fn or(self, other: Self) -> Self {
        Self { in_word: self.in_word || other.in_word, elsewhere: self.elsewhere || other.elsewhere }
    }
}

/// Whether no tag parts a word: with a value that is empty or says the rest of it, or a branch that is left out,
/// the word would be said whole, and whoever looks for it in the text would not find it. Words may begin right
/// behind a value.
fn check_words(text: &str, tags: &[PromptTag<'_>]) -> Result<(), String> {
    let is_word = |c: char| c.is_alphanumeric() || "_-/".contains(c);
    // A dot within a name is a part of it, one at the end of a sentence is not.
    let is_sign = |c: char| !is_word(c) && !c.is_whitespace();
    let parted = |rest: &str| {
        let rest: String = rest.chars().take_while(|c| !c.is_whitespace()).take(60).collect();
        format!(
            "a tag of the template parts a word, and `{rest}` is the rest of it\nhelp: put a space between tags and words"
        )
    };
    let mut ends = Ends { in_word: false, elsewhere: true };
    // Of each `if` that is open: how it began, how its branches so far can end, and whether one is always said.
    let mut open: Vec<(Ends, Ends, bool)> = Vec::new();
    let (mut at, mut is_cut) = (0, false);
    for number in 0..=tags.len() {
        let next = tags.get(number);
        let mut said = &text[at..next.map_or(text.len(), |tag| tag.span.start)];
        let tag = next.map_or("", |tag| &text[tag.span.clone()]);
        // A sign at its brace makes a tag take the space beside it away.
        if is_cut {
            said = said.trim_start();
        }
        if tag[tag.len().min(2)..].starts_with('-') {
            said = said.trim_end();
        }
        // Signs alone may be the middle of a word as well as no part of one: what was so stays so.
        if !said.chars().all(is_sign) {
            if ends.in_word && said.trim_start_matches(is_sign).starts_with(is_word) {
                return Err(parted(said));
            }
            let in_word = said.trim_end_matches(is_sign).ends_with(is_word);
            ends = Ends { in_word, elsewhere: !in_word };
        }
        let Some(tag) = next else { break };
        (at, is_cut) = (tag.span.end, text[..tag.span.end - 2].ends_with('-'));
        match tag.statement {
            None if ends.in_word => return Err(parted(&text[tag.span.clone()])),
            None => {}
            Some("if") => open.push((ends, Ends::default(), false)),
            Some(other) => {
                let Some((began, branches, always)) = open.last_mut() else { continue };
                *branches = branches.or(ends);
                *always |= other == "else";
                ends = *began;
                if other == "endif" {
                    ends = if *always { *branches } else { began.or(*branches) };
                    open.pop();
                }
            }
        }
    }
    Ok(())
}

fn not_allowed(what: &str) -> String {
    format!(
        "the template has {what}, which a prompt of a candidate must not have\nhelp: use values, `{{% if %}}` with comparisons, and the filters {}",
        listed(LANGUAGE.filters.iter().copied())
    )
}

fn check_tag(tokens: &[&str]) -> Result<(), String> {
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |at| tokens[at]);
        let twice = at.checked_sub(2).map_or("", |at| tokens[at]);
        if before == "in" && !TEXTS.contains(token) {
            return Err(not_allowed(&format!("`in {token}`")));
        }
        let asked = before == "is" || before == "not" && twice == "is";
        if asked && !TESTS.contains(token) {
            return Err(not_allowed(&format!("the test `is {token}`")));
        }
        if *token == "." && before != "limits" {
            return Err(not_allowed(&format!("`.` after `{before}`")));
        }
    }
    Ok(())
}
