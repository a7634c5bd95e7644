//! Which lines of a text were taken out, and which put in?

use serde::Serialize;

/// Texts whose table of common lines would be larger are shown as wholly replaced.
const CELLS: usize = 4_000_000;

/// One line of a line difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineChange {
    Removed(String),
    Added(String),
}

/// The fewest removed and added lines that make `new` of `old`, in the order of the texts.
pub(super) fn line_changes(old: &str, new: &str) -> Vec<LineChange> {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let removed = |line: &str| LineChange::Removed(line.to_owned());
    let added = |line: &str| LineChange::Added(line.to_owned());
    if old.len().saturating_mul(new.len()) > CELLS {
        return old.into_iter().map(removed).chain(new.into_iter().map(added)).collect();
    }
    // common[i][j]: the longest common subsequence of old[i..] and new[j..].
    let mut common = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = match old[i] == new[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut changes = Vec::new();
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            changes.push(removed(old[i]));
            i += 1;
        } else {
            changes.push(added(new[j]));
            j += 1;
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_differ_are_shown_in_order() {
        let check = |old: &str, new: &str, expected: &str| {
            let shown = line_changes(old, new).into_iter().map(|change| match change {
                LineChange::Removed(line) => format!("-{line}"),
                LineChange::Added(line) => format!("+{line}"),
            });
            assert_eq!(shown.collect::<Vec<_>>().join(" "), expected);
        };
        check("", "", "");
        check("a\nb", "a\nb", "");
        check("", "a\nb", "+a +b");
        check("a\nb", "", "-a -b");
        check("a\nb\nc", "a\nc", "-b");
        check("a\nc", "a\nb\nc", "+b");
        check("a\nb\nc", "a\nx\nc", "-b +x");
        check("a\nb\nc\nd", "b\nx\nd\ne", "-a -c +x +e");
        check("a", "a\n", "");
    }

    #[test]
    fn a_huge_text_is_shown_as_replaced_and_not_computed_for_minutes() {
        let (old, new) = ("a\n".repeat(3000), "b\n".repeat(3000));
        assert_eq!(line_changes(&old, &new).len(), 6000);
    }
}
