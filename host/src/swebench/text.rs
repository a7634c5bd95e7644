//! How does Python cut text? Its rules, where they differ from Rust's.
//!
//! Python counts U+001C to U+001F as white space, in `str.split`, `str.strip` and
//! `\s` alike; its `\w` is a letter, a number or `_`, without marks.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// `str.isspace` of one character.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `str.strip()`.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// `str.lstrip()`.
pub(super) fn lstrip(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

/// `str.rstrip()`.
pub(super) fn rstrip(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// `str.split()`: runs of white space, no empty parts.
pub(super) fn words(text: &str) -> Vec<&str> {
    text.split(is_space).filter(|word| !word.is_empty()).collect()
}

/// Characters of leading white space: `len(line) - len(line.lstrip())`.
pub(super) fn indent(line: &str) -> usize {
    line.chars().take_while(|c| is_space(*c)).count()
}

/// `text.split(separator)[0]`.
pub(super) fn before<'a>(text: &'a str, separator: &str) -> &'a str {
    text.split_once(separator).map_or(text, |(before, _)| before)
}

/// A pattern in Python's syntax. The patterns are constants, each used by a test.
pub(super) fn python(pattern: &str) -> Regex {
    let translated = pattern
        .replace(r"\s", r"[\s\x1c-\x1f]")
        .replace(r"\S", r"[^\s\x1c-\x1f]")
        .replace(r"\w", r"[\p{L}\p{N}_]");
    Regex::new(&translated).unwrap_or_else(|error| unreachable!("`{pattern}`: {error}"))
}

/// Removes ANSI escape sequences.
pub(super) fn without_ansi(text: &str) -> Cow<'_, str> {
    static ESCAPE: LazyLock<Regex> = LazyLock::new(|| python(r"\x1B(?:[@-Z\\-_]|\[[0-?]*[ -/]*[@-~])"));
    ESCAPE.replace_all(text, "")
}

/// Reads `\r\n` and a lone `\r` as `\n`, as Python does when it opens a text file.
pub(super) fn universal_newlines(text: &str) -> Cow<'_, str> {
    if !text.contains('\r') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_sees_the_white_space_that_python_sees() {
        let check = |pattern: &str, text: &str, expected: bool| {
            assert_eq!(python(pattern).is_match(text), expected, "{pattern} {text:?}");
        };
        check(r"^a\sb$", "a\u{1c}b", true);
        check(r"^a\Sb$", "a\u{1c}b", false);
        check(r"^a[^\S\r\n]b$", "a\u{1f}b", true);
        check(r"^a[^\S\r\n]b$", "a\nb", false);
        check(r"^[\d\.\_\S]+$", "1._x\u{e9}", true);
        check(r"^\w+$", "e\u{301}", false);
        check(r"^\w+$", "x²½_", true);
    }

    #[test]
    fn words_are_cut_at_every_separator() {
        assert_eq!(words(" a\u{1d}b\u{85}c\u{a0}d  "), ["a", "b", "c", "d"]);
        assert_eq!(strip("\u{1f} a b\u{2028}"), "a b");
        assert_eq!(indent("\u{3000} x"), 2);
    }

    #[test]
    fn every_kind_of_line_end_becomes_one() {
        assert_eq!(universal_newlines("a\r\nb\rc\r\r\nd"), "a\nb\nc\n\nd");
    }
}
