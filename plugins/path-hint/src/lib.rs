//! Names the nearest paths that exist when a command names one that does not.
//!
//! Watches failed results of `bash` and of plugins' tools. Fires when the output says that a path
//! does not exist, the call itself named that path, it lies in the work tree, and the tree has a
//! file or folder of the same name elsewhere or of a similar name beside it; the policy then
//! reads at most `MAX_HINTS` of them. Silent when nothing is alike, when the path is outside the
//! work tree, when a program looked for the path and not the policy, and on success. The tree is
//! only looked through when all this holds, and never past `MAX_FOLDERS` folders.
//!
//! Point: `on-tool-result`. Grants: `workspace-read`.

use tandem_plugin::*;

/// Paths that are named.
const MAX_HINTS: usize = 3; // parameter
/// Folders that are looked into for a file of the same name.
const MAX_FOLDERS: usize = 300; // parameter
/// How alike names must be, in percent.
const ALIKE: usize = 60; // parameter

pub struct Plugin;

impl OnToolResult for Plugin {
    fn on_tool_result(_context: Context, call: ToolCall, outcome: ToolResult) -> Option<ToolResultEffect> {
        if outcome.exit_code == Some(0) || outcome.status == ToolStatus::Refused {
            return None;
        }
        let asked = call.command().or_else(|| call.text("path"))?;
        let path = missing(&outcome.text)
            .into_iter()
            .filter_map(|path| in_tree(&path))
            .find(|path| asked.contains(path.as_str()))?;
        if workspace::stat(&path).is_ok() {
            return None;
        }
        let hints = nearest(&path);
        if hints.is_empty() {
            return None;
        }
        Some(ToolResultEffect::Annotate(format!("[{path} does not exist; there is: {}]", hints.join(", "))))
    }
}

export_on_tool_result!(Plugin);

/// The paths that an output says do not exist, in its order.
fn missing(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        // Python: `FileNotFoundError: [Errno 2] No such file or directory: 'x'`.
        if let Some((_, rest)) = line.split_once("No such file or directory: ") {
            found.push(unquoted(rest));
        } else if let Some((_, rest)) = line.split_once("can't open file ") {
            found.push(unquoted(rest));
        } else if let Some((before, _)) = line.split_once(": No such file or directory") {
            // `cat: x`, `ls: cannot access 'x'`, `sed: can't read x`, `bash: line 1: cd: x`.
            let last = before.rsplit(": ").next().unwrap_or(before);
            let path = ["cannot access ", "can't read ", "cannot open ", "cannot stat "]
                .iter()
                .find_map(|start| last.strip_prefix(start))
                .unwrap_or(last);
            found.push(unquoted(path));
        } else if let Some((before, _)) = line.split_once(" does not exist") {
            found.push(unquoted(before.rsplit(' ').next().unwrap_or(before)));
        } else if let Some((_, rest)) = line.split_once("file or directory not found: ") {
            // pytest
            found.push(unquoted(rest.split("::").next().unwrap_or(rest)));
        }
    }
    found.retain(|path| !path.is_empty());
    found
}

/// The text in quotation marks, or the text itself.
fn unquoted(text: &str) -> String {
    let text = text.trim();
    let quoted = text.chars().next().filter(|c| matches!(c, '\'' | '"' | '‘'));
    let inside = quoted.and_then(|open| {
        let close = if open == '‘' { '’' } else { open };
        text[open.len_utf8()..].split(close).next()
    });
    inside.unwrap_or(text.trim_end_matches(['.', ':', ';'])).to_owned()
}

/// The path relative to the work tree; none outside it.
fn in_tree(path: &str) -> Option<String> {
    let path = path.strip_prefix("/workspace/").unwrap_or(path);
    let path = path.trim_start_matches("./").trim_end_matches('/');
    let inside = !path.is_empty()
        && !path.starts_with(['/', '~', '-'])
        && !path.contains("..")
        && !path.contains(['*', '?']);
    inside.then(|| path.to_owned())
}

/// Existing paths: those with the same name first, then those of similar names in the folder.
fn nearest(path: &str) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let mut hints = same_name(name);
    // The deepest folder of the path that exists.
    let mut beside = folder;
    let entries = loop {
        match workspace::list(beside) {
            Ok(entries) => break entries,
            Err(_) if beside.is_empty() => break Vec::new(),
            Err(_) => beside = beside.rsplit_once('/').map_or("", |(above, _)| above),
        }
    };
    // Below a folder that does not exist, it is that folder's name that is wrong.
    let wanted = match path.get(beside.len()..).map(|rest| rest.trim_start_matches('/')) {
        Some(rest) => rest.split('/').next().unwrap_or(name),
        None => name,
    };
    let mut alike: Vec<(usize, String)> = entries
        .into_iter()
        .filter(|entry| !entry.path.starts_with(".git"))
        .map(|entry| (likeness(wanted, entry.path.rsplit('/').next().unwrap_or(&entry.path)), entry.path))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    alike.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    for (_, path) in alike {
        if !hints.contains(&path) {
            hints.push(path);
        }
    }
    hints.truncate(MAX_HINTS);
    hints
}

/// Files and folders called `name`, nearest to the top first.
fn same_name(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = std::collections::VecDeque::from([String::new()]);
    let mut looked = 0;
    while let Some(folder) = folders.pop_front() {
        looked += 1;
        if looked > MAX_FOLDERS || found.len() >= MAX_HINTS {
            break;
        }
        for entry in workspace::list(&folder).unwrap_or_default() {
            let own = entry.path.rsplit('/').next().unwrap_or(&entry.path);
            if own == name {
                found.push(entry.path.clone());
            }
            if entry.is_folder && !matches!(own, ".git" | "node_modules" | "__pycache__" | ".venv" | "target")
            {
                folders.push_back(entry.path);
            }
        }
    }
    found
}

/// How alike two names are, in percent: the Dice coefficient of their pairs of characters.
fn likeness(one: &str, other: &str) -> usize {
    let pairs = |text: &str| -> Vec<(char, char)> {
        let text = text.to_ascii_lowercase();
        text.chars().zip(text.chars().skip(1)).collect()
    };
    let (one, mut other) = (pairs(one), pairs(other));
    let total = one.len() + other.len();
    let mut shared = 0;
    for pair in one {
        if let Some(at) = other.iter().position(|found| *found == pair) {
            other.swap_remove(at);
            shared += 1;
        }
    }
    if total == 0 { 0 } else { 200 * shared / total }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_paths_are_read_from_messages() {
        let check = |text: &str, expected: &[&str]| assert_eq!(missing(text), expected, "{text}");
        check("exit code 1\ncat: src/a.py: No such file or directory", &["src/a.py"]);
        check("ls: cannot access 'a b': No such file or directory", &["a b"]);
        check("sed: can't read x.py: No such file or directory", &["x.py"]);
        check("bash: line 1: cd: pkg: No such file or directory", &["pkg"]);
        check(
            "python3: can't open file '/workspace/x.py': [Errno 2] No such file or directory",
            &["/workspace/x.py"],
        );
        check("FileNotFoundError: [Errno 2] No such file or directory: 'data.json'", &["data.json"]);
        check("ERROR: file or directory not found: tests/test_a.py::test_x", &["tests/test_a.py"]);
        check("none.py does not exist. `ls` shows what is there.", &["none.py"]);
        check("bash: frob: command not found", &[]);
    }

    #[test]
    fn paths_outside_the_work_tree_are_left_alone() {
        let check =
            |path: &str, expected: Option<&str>| assert_eq!(in_tree(path).as_deref(), expected, "{path}");
        check("/workspace/a/b.py", Some("a/b.py"));
        check("./a.py", Some("a.py"));
        check("pkg/", Some("pkg"));
        check("/etc/x", None);
        check("../x", None);
        check("*.py", None);
        check("", None);
    }

    #[test]
    fn likeness_tells_slips_from_other_names() {
        assert!(likeness("utils.py", "util.py") >= ALIKE);
        assert!(likeness("Parser.py", "parser.py") == 100);
        assert!(likeness("parser.py", "main.py") < ALIKE);
        assert_eq!(likeness("", ""), 0);
    }
}
