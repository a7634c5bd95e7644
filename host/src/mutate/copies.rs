//! Does another place of the package hold the lines that a fault is put into?

use std::collections::HashMap;

use super::edit::Edit;
use super::package::Package;

/// Lines before and after the first one of an edit, as a patch shows them.
const AROUND: usize = 3;
const WINDOW: usize = 2 * AROUND + 1;

/// How often each stretch of seven lines stands in a package, indentation aside. Where a
/// stretch stands twice, the right lines lie in the workspace for anybody to find.
pub(super) struct Copies(HashMap<Vec<u8>, usize>);

impl Copies {
    pub(super) fn of(package: &Package) -> Self {
        let mut counts = HashMap::new();
        for text in package.files.values().filter_map(|bytes| std::str::from_utf8(bytes).ok()) {
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            for window in lines.windows(WINDOW) {
                *counts.entry(key(window)).or_default() += 1;
            }
        }
        Self(counts)
    }

    /// Whether the lines around an edit of `source` stand somewhere else too.
    pub(super) fn hold(&self, source: &str, edit: &Edit) -> bool {
        let lines: Vec<&str> = source.lines().map(str::trim).collect();
        let at = source[..edit.range.start].matches('\n').count();
        let first = at.saturating_sub(AROUND).min(lines.len().saturating_sub(WINDOW));
        let window = &lines[first..(first + WINDOW).min(lines.len())];
        self.0.get(&key(window)).is_some_and(|count| *count > 1)
    }
}

fn key(lines: &[&str]) -> Vec<u8> {
    use sha2::{Digest, Sha256};
    Sha256::digest(lines.join("\n"))[..16].to_vec()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;

    const FUNCTION: &str = "def f(a):\n    b = a\n    c = b\n    return b + c\n\n\nX = 1\nY = 2\n";

    /// Whether the `+` of the first file is found to stand somewhere else.
    fn check(files: &[&str], expected: bool) {
        let named = files.iter().enumerate().map(|(at, text)| (format!("{at}.py"), text.as_bytes().to_vec()));
        let package = Package {
            name: "p".into(),
            folder: PathBuf::new(),
            root: ".",
            files: named.collect(),
            modules: BTreeMap::new(),
            tests: Vec::new(),
        };
        let at = files[0].find('+').unwrap();
        let edit = Edit::new(at..at + 1, "-");
        assert_eq!(Copies::of(&package).hold(files[0], &edit), expected, "{files:?}");
    }

    #[test]
    fn a_function_that_was_copied_holds_the_answer() {
        let indented = FUNCTION.replace('\n', "\n    ");
        let other = FUNCTION.replace("c = b", "c = a");
        check(&[FUNCTION], false);
        check(&[FUNCTION, "Z = 3\n"], false);
        check(&[FUNCTION, FUNCTION], true);
        check(&[FUNCTION, &format!("class A:\n    {indented}")], true);
        check(&[FUNCTION, &other], false);
        check(&[&format!("{FUNCTION}{FUNCTION}")], true);
        check(&["x = 1 + 2\n", "y = 1\n"], false);
    }
}
