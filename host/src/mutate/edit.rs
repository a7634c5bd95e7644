//! How is source changed at one place, and how is that written as a patch?

use std::ops::Range;

/// Lines of context around a change, as git has them.
const CONTEXT: usize = 3;

/// One replacement of a range of bytes; every other byte stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub range: Range<usize>,
    pub text: String,
}

impl Edit {
    /// Puts `text` in the place of `range`.
    pub fn new(range: Range<usize>, text: impl Into<String>) -> Self {
        Self { range, text: text.into() }
    }

    /// The source after the edit.
    pub fn apply(&self, source: &str) -> String {
        [&source[..self.range.start], &self.text, &source[self.range.end..]].concat()
    }
}

/// The lines that differ between two texts of which one is the other with one edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change<'a> {
    /// Lines before the change, equal in both.
    before: usize,
    pub(super) removed: Vec<&'a str>,
    pub(super) added: Vec<&'a str>,
}

impl<'a> Change<'a> {
    pub(super) fn between(from: &'a str, to: &'a str) -> Self {
        let (old, new): (Vec<&str>, Vec<&str>) =
            (from.split_inclusive('\n').collect(), to.split_inclusive('\n').collect());
        let before = old.iter().zip(&new).take_while(|(left, right)| left == right).count();
        let most = old.len().min(new.len()) - before;
        let after = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(l, r)| l == r).count();
        Self {
            before,
            removed: old[before..old.len() - after].to_vec(),
            added: new[before..new.len() - after].to_vec(),
        }
    }

    /// Both sides without white space that means nothing: equal for equal changes elsewhere.
    pub(super) fn normalised(&self) -> String {
        let side = |lines: &[&str]| {
            let words = lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
            words.collect::<Vec<_>>().join("\n")
        };
        format!("{}\n=>\n{}", side(&self.removed), side(&self.added))
    }
}

/// A patch in git's format that turns `from` into `to`.
pub(super) fn patch(path: &str, from: &str, to: &str) -> String {
    let old: Vec<&str> = from.split_inclusive('\n').collect();
    let change = Change::between(from, to);
    let start = change.before.saturating_sub(CONTEXT);
    let after = change.before + change.removed.len();
    let end = (after + CONTEXT).min(old.len());
    let (head, tail) = (&old[start..change.before], &old[after..end]);
    let count = |middle: usize| head.len() + middle + tail.len();
    // A side without lines is counted from the line before it.
    let first = |count: usize| if count == 0 { start } else { start + 1 };
    let (removed, added) = (count(change.removed.len()), count(change.added.len()));
    let mut out = format!(
        "diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -{},{removed} +{},{added} @@\n",
        first(removed),
        first(added)
    );
    let sides = [(' ', head), ('-', &change.removed[..]), ('+', &change.added[..]), (' ', tail)];
    for (sign, lines) in sides {
        for line in lines {
            out.push(sign);
            out.push_str(line);
            if !line.ends_with('\n') {
                out.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(from: &str, to: &str, expected: Expect) {
        expected.assert_eq(&patch("a.py", from, to));
    }

    #[test]
    fn a_patch_has_three_lines_around_the_change() {
        check(
            "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
            "1\n2\n3\n4\nfive\n6\n7\n8\n9\n",
            expect![[r#"
                diff --git a/a.py b/a.py
                --- a/a.py
                +++ b/a.py
                @@ -2,7 +2,7 @@
                 2
                 3
                 4
                -5
                +five
                 6
                 7
                 8
            "#]],
        );
    }

    #[test]
    fn lines_may_go_and_come_where_equal_lines_stand() {
        check(
            "a\na\n",
            "a\na\na\n",
            expect![[r#"
                diff --git a/a.py b/a.py
                --- a/a.py
                +++ b/a.py
                @@ -1,2 +1,3 @@
                 a
                 a
                +a
            "#]],
        );
    }

    #[test]
    fn a_missing_newline_at_the_end_is_said() {
        check(
            "a\nb",
            "a\nc",
            expect![[r#"
                diff --git a/a.py b/a.py
                --- a/a.py
                +++ b/a.py
                @@ -1,2 +1,2 @@
                 a
                -b
                \ No newline at end of file
                +c
                \ No newline at end of file
            "#]],
        );
    }
}
