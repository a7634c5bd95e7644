//! Which part of the template language may a prompt use?
//!
//! A harness may come from a stranger, and a template that joins or repeats text makes gigabytes of a word
//! in a few lines, long before fuel or the size of what is written can stop it. So prompts have what cannot
//! grow: values, `if`, loops over what is given, comparisons, and filters that give no more than they take.

use std::ops::Range;

/// What tags may hold.
#[derive(Clone, Copy, Debug)]
pub struct PromptLanguage {
    pub statements: &'static [&'static str],
    pub filters: &'static [&'static str],
    /// A longer one goes before a shorter one that it begins with.
    pub operators: &'static [&'static str],
    /// Functions that may be called.
    pub calls: &'static [&'static str],
    pub comments: bool,
}

/// A tag of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptTag<'a> {
    /// The statement; none for a value.
    pub statement: Option<&'a str>,
    /// Its words, quoted texts and operators, the statement's own word among them.
    pub tokens: Vec<&'a str>,
    /// Its bytes in the template, braces included.
    pub span: Range<usize>,
}

/// What prompts of any harness may use.
pub const HARNESS_LANGUAGE: PromptLanguage = PromptLanguage {
    statements: &["if", "elif", "else", "endif", "for", "endfor"],
    filters: &[
        "abs",
        "capitalize",
        "count",
        "default",
        "float",
        "first",
        "int",
        "last",
        "length",
        "lower",
        "round",
        "title",
        "trim",
        "upper",
    ],
    operators: &[
        "==", "!=", "<=", ">=", "//", "<", ">", "|", ".", ",", "(", ")", "[", "]", ":", "-", "/", "%",
    ],
    calls: &["range"],
    comments: true,
};

/// Words before a bracket that is no call.
const BEFORE_BRACKET: [&str; 8] = ["if", "elif", "else", "and", "or", "not", "in", "is"];

impl PromptLanguage {
    /// The tags of a template.
    ///
    /// # Errors
    /// What it has and must not have, in words that go on after "has".
    pub fn tags<'a>(&self, text: &'a str) -> Result<Vec<PromptTag<'a>>, String> {
        let (mut rest, mut found) = (text, Vec::new());
        while let Some(at) = ["{{", "{%", "{#"].iter().filter_map(|mark| rest.find(mark)).min() {
            let (open, inside) = rest[at..].split_at(2);
            if open == "{#" {
                if !self.comments {
                    return Err("a comment".into());
                }
                rest = inside.split_once("#}").ok_or("a comment that is not closed")?.1;
                continue;
            }
            let is_value = open == "{{";
            let word = inside.trim_start_matches(['-', '+']).trim_start();
            let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(word.len());
            let statement = (!is_value).then_some(&word[..end]);
            if let Some(word) = statement.filter(|word| !self.statements.contains(word)) {
                return Err(format!("the statement `{word}`"));
            }
            let (tokens, after) = self.tokens(inside, if is_value { "}}" } else { "%}" })?;
            self.check_words(&tokens)?;
            let start = text.len() - rest.len() + at;
            found.push(PromptTag { statement, tokens, span: start..text.len() - after.len() });
            rest = after;
        }
        Ok(found)
    }

    /// The words, texts and operators of a tag up to `close`, and what follows. A brace inside a tag is
    /// refused, so that where a tag ends here is where the template engine ends it.
    fn tokens<'a>(&self, text: &'a str, close: &str) -> Result<(Vec<&'a str>, &'a str), String> {
        let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        let mut found = Vec::new();
        loop {
            rest = rest.trim_start();
            for trimmed in [rest, rest.strip_prefix(['-', '+']).unwrap_or(rest)] {
                if let Some(after) = trimmed.strip_prefix(close) {
                    return Ok((found, after));
                }
            }
            let Some(first) = rest.chars().next() else { return Err("a tag that is not closed".into()) };
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let length = match first {
                '"' | '\'' => end_of_text(rest, first)?,
                c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                _ => match self.operators.iter().find(|operator| rest.starts_with(**operator)) {
                    Some(operator) => operator.len(),
                    None => return Err(format!("`{first}` in a tag")),
                },
            };
            let (token, after) = rest.split_at(length);
            found.push(token);
            rest = after;
        }
    }

    fn check_words(&self, tokens: &[&str]) -> Result<(), String> {
        for (at, token) in tokens.iter().enumerate() {
            let before = at.checked_sub(1).map_or("", |at| tokens[at]);
            let twice = at.checked_sub(2).map_or("", |at| tokens[at]);
            if before == "|" && !self.filters.contains(token) {
                return Err(format!("the filter `{token}`"));
            }
            // A bracket behind a word calls it, unless the word is one of the language or a filter.
            let ends_a_value = before.ends_with(|c: char| c.is_ascii_alphanumeric() || "_)]\"'".contains(c));
            let is_call = *token == "(" && ends_a_value && !BEFORE_BRACKET.contains(&before) && twice != "|";
            if is_call && (!self.calls.contains(&before) || twice == ".") {
                return Err(format!("the call `{before}(`"));
            }
        }
        Ok(())
    }
}

/// Where the quoted text at the start of `text` ends.
fn end_of_text(text: &str, quote: char) -> Result<usize, String> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Ok(at + 1),
            _ => {}
        }
    }
    Err("a quoted text that is not closed".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_knows_where_it_stands() {
        let text = "a {% if x == '%}' -%} b {# c #}{{ y }}{%- endif %} d";
        let tags = HARNESS_LANGUAGE.tags(text).unwrap();
        let found: Vec<_> = tags.iter().map(|tag| &text[tag.span.clone()]).collect();
        assert_eq!(found, ["{% if x == '%}' -%}", "{{ y }}", "{%- endif %}"]);
    }

    #[test]
    fn what_makes_text_grow_is_found_wherever_it_hides() {
        let check = |text: &str, expected: &str| {
            let found = HARNESS_LANGUAGE.tags(text).map(|tags| format!("{} tags", tags.len()));
            assert_eq!(found.unwrap_or_else(|what| what), expected, "{text}");
        };
        check("plain } text { with * and ~", "0 tags");
        check("{% for a in range(3) %}{{ a - 1 }}{% endfor %}", "3 tags");
        check("{# {{ 'x' ~ 'y' }} #}{{ text[:3] | upper }}", "1 tags");
        check("{{ text ~ text }}", "`~` in a tag");
        check("{{ text + text }}", "`+` in a tag");
        check("{{ 'x' * 999999999 }}", "`*` in a tag");
        check("{% set a = text %}", "the statement `set`");
        check("{% set a %}{{ text }}{{ text }}{% endset %}", "the statement `set`");
        check("{% macro a() %}{% endmacro %}", "the statement `macro`");
        check("{%- filter indent(9999) %}{% endfilter %}", "the statement `filter`");
        check("{{ text | indent(999999999) }}", "the filter `indent`");
        check("{{ text | replace('', text) }}", "the filter `replace`");
        check("{{ '%999999999d' | format(1) }}", "the filter `format`");
        check("{{ [text, text] | join(text) }}", "the filter `join`");
        check("{{ namespace(text) }}", "the call `namespace(`");
        check("{{ text.a = 1 }}", "`=` in a tag");
        check("{{ limits.range(3) }}", "the call `range(`");
        check("{{ text.format(1) }}", "the call `format(`");
        check("{{ \"}}\" ~ text }}", "`~` in a tag");
        check("{{ 'x", "a quoted text that is not closed");
        check("{# x", "a comment that is not closed");
    }
}
