//! Does a text give away the answer or a hidden test?

use std::collections::BTreeSet;

use super::edit::Change;

/// Tokens in a row that make a piece of the patch.
const WINDOW: usize = 5;
/// Tokens that a shorter line needs to count as a whole.
const SHORTEST: usize = 3;

/// Names that no text may hold: files, classes and functions of tests.
pub(super) fn names<'a>(tests: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let mut names = BTreeSet::from(["tests".to_owned(), "conftest".to_owned(), "pytest".to_owned()]);
    for test in tests {
        let plain = test.split('[').next().unwrap_or(test);
        for (at, part) in plain.split("::").enumerate() {
            let part =
                if at == 0 { part.rsplit('/').next().unwrap_or(part).trim_end_matches(".py") } else { part };
            names.insert(part.to_owned());
        }
    }
    names
}

/// What a text gives away, if anything.
pub(super) fn found(text: &str, change: &Change, test_names: &BTreeSet<String>) -> Option<String> {
    let tokens = tokens(text);
    if let Some(name) = tokens.iter().find(|token| test_names.contains(**token)) {
        return Some((*name).to_owned());
    }
    for line in change.removed.iter().chain(&change.added) {
        let line = self::tokens(line);
        let window = WINDOW.min(line.len());
        if window < SHORTEST {
            continue;
        }
        for piece in line.windows(window) {
            let words = piece.iter().filter(|token| is_word(token)).count();
            if words >= 2 && tokens.windows(window).any(|part| part == piece) {
                return Some(piece.join(" "));
            }
        }
    }
    None
}

fn is_word(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphanumeric() || first == '_')
}

/// Names and numbers whole, everything else letter by letter, no white space.
fn tokens(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let inside = |letter: char| letter.is_alphanumeric() || letter == '_';
        let length = if inside(first) {
            rest.find(|letter| !inside(letter)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        found.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    found
}
