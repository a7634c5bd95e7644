//! Asks to check names in added Python lines that exist nowhere in the work tree.
//!
//! Point: `on-submit`. Grants: `workspace-read`. It reads text, not Python, and so
//! it says nothing wherever it is not sure: a false alarm costs the policy a turn.

use tandem_plugin::*;

/// How often a submission is held back in one episode; the host allows 2.
const MAX_DEFERRALS: u32 = 1; // parameter
/// How many findings are told.
const MAX_FINDINGS: usize = 3; // parameter
/// Look at calls of functions that are not defined.
const CHECK_CALLS: bool = true; // parameter
/// Look at `from module import name`, and at `module.name(…)`.
const CHECK_MODULES: bool = true; // parameter
/// Look at keyword arguments of functions of the work tree.
const CHECK_KEYWORDS: bool = true; // parameter
/// Changed files that are looked at.
const MAX_FILES: usize = 20; // parameter

/// Builtins that are called like functions.
const BUILTINS: &str = " abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod \
    compile complex delattr dict dir divmod enumerate eval exec filter float format frozenset getattr globals \
    hasattr hash help hex id input int isinstance issubclass iter len list locals map max memoryview min next \
    object oct open ord pow print property range repr reversed round set setattr slice sorted staticmethod str \
    sum super tuple type vars zip __import__ _ unicode xrange raw_input get_ipython ";
/// Words that stand before a parenthesis without being called.
const KEYWORDS: &str = " and as assert async await case class def del elif else except finally for from global if \
    import in is lambda match nonlocal not or pass raise return try while with yield print exec ";

pub struct Plugin;

impl OnSubmit for Plugin {
    fn on_submit(_context: Context, submission: Submission) -> Option<String> {
        if submission.deferrals >= MAX_DEFERRALS {
            return None;
        }
        let diff = workspace::diff().ok()?;
        message(&findings(&Workspace, &String::from_utf8_lossy(&diff)))
    }
}

export_on_submit!(Plugin);

/// The files of the work tree; a trait, so that the check is tested without a host.
trait Tree {
    fn read(&self, path: &str) -> Option<String>;
}

struct Workspace;

impl Tree for Workspace {
    fn read(&self, path: &str) -> Option<String> {
        workspace::read_text(path).ok()
    }
}

fn message(findings: &[String]) -> Option<String> {
    if findings.is_empty() {
        return None;
    }
    let list: Vec<String> =
        findings.iter().take(MAX_FINDINGS).map(|finding| format!("- {finding}")).collect();
    Some(format!(
        "Check these names; they are not in the work tree:\n{}\nCorrect them, or hand in again if they are right.",
        list.join("\n")
    ))
}

/// Everything that looks wrong in the added lines of a difference, in its order.
fn findings(tree: &impl Tree, diff: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (path, added) in
        added_lines(diff).into_iter().filter(|(path, _)| path.ends_with(".py")).take(MAX_FILES)
    {
        let Some(text) = tree.read(&path) else { continue };
        let file = File { path: &path, code: blank(&text) };
        for number in added {
            let Some(line) = file.code.lines().nth(number - 1) else { continue };
            let mut wrong = Vec::new();
            if CHECK_MODULES {
                wrong.extend(wrong_import(tree, &file, line));
                wrong.extend(wrong_attributes(tree, &file, line));
            }
            if CHECK_CALLS {
                wrong.extend(wrong_calls(&file, line));
            }
            if CHECK_KEYWORDS {
                wrong.extend(wrong_keywords(tree, &file, line));
            }
            for what in wrong {
                let finding = format!("{path} line {number}: {what}");
                let is_new = !found.iter().any(|other| other.ends_with(&what));
                if is_new {
                    found.push(finding);
                }
            }
        }
    }
    found
}

/// A Python file whose strings and comments are blanked out.
struct File<'a> {
    path: &'a str,
    code: String,
}

/// Each changed file with the numbers of its added lines.
fn added_lines(diff: &str) -> Vec<(String, Vec<usize>)> {
    let mut files: Vec<(String, Vec<usize>)> = Vec::new();
    let (mut next, mut in_hunk) = (0, false);
    for line in diff.lines() {
        if line.starts_with("diff --git ") {
            in_hunk = false;
        } else if let Some(path) = line.strip_prefix("+++ ").filter(|_| !in_hunk) {
            files.push((path.strip_prefix("b/").unwrap_or(path).trim().to_owned(), Vec::new()));
        } else if let Some(rest) = line.strip_prefix("@@ ") {
            let start = rest.split('+').nth(1).and_then(|rest| rest.split([',', ' ']).next());
            next = start.and_then(|start| start.parse().ok()).unwrap_or(1);
            in_hunk = true;
        } else if in_hunk && line.starts_with('+') {
            if let Some((_, added)) = files.last_mut() {
                added.push(next);
            }
            next += 1;
        } else if in_hunk && !line.starts_with('-') && !line.starts_with('\\') {
            next += 1;
        }
    }
    files
}

/// Python with strings and comments as spaces. F-strings keep nothing, which loses
/// names rather than invents them; but their names count as bindings nowhere.
fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let starts = |at: usize, quote: &[char]| chars[at..].starts_with(quote);
    while at < chars.len() {
        let c = chars[at];
        if c == '#' {
            while at < chars.len() && chars[at] != '\n' {
                at += 1;
            }
        } else if c == '"' || c == '\'' {
            let quote: &[char] = if starts(at, &[c; 3]) { &[c; 3] } else { &[c] };
            out.push_str(" ");
            at += quote.len();
            while at < chars.len() && !starts(at, quote) && !(quote.len() == 1 && chars[at] == '\n') {
                if chars[at] == '\\' && at + 1 < chars.len() {
                    at += 1;
                }
                if chars[at] == '\n' {
                    out.push('\n');
                }
                at += 1;
            }
            if at < chars.len() && starts(at, quote) {
                at += quote.len();
            }
        } else {
            out.push(c);
            at += 1;
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Byte ranges in which `word` stands as a whole word.
fn places<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        !text[..*at].chars().next_back().is_some_and(is_word)
            && !text[at + word.len()..].chars().next().is_some_and(is_word)
    })
}

fn has_word(text: &str, word: &str) -> bool {
    places(text, word).next().is_some()
}

/// A call `name(`, with what stands before the name and the text after the parenthesis.
struct Call<'a> {
    before: &'a str,
    name: &'a str,
    after: &'a str,
}

/// All calls in a line.
fn calls(line: &str) -> Vec<Call<'_>> {
    let mut calls = Vec::new();
    for (at, _) in line.match_indices('(') {
        let head = &line[..at];
        let start = head.char_indices().rev().take_while(|(_, c)| is_word(*c)).last().map(|(start, _)| start);
        let Some(start) = start else { continue };
        let name = &head[start..];
        let listed = |list: &str| list.contains(&format!(" {name} "));
        if name.starts_with(|c: char| c.is_ascii_digit()) || listed(KEYWORDS) {
            continue;
        }
        calls.push(Call { before: &head[..start], name, after: &line[at + 1..] });
    }
    calls
}

/// Functions that are called and that nothing in the file could have defined.
fn wrong_calls(file: &File, line: &str) -> Vec<String> {
    // With `import *` or `exec` any name may be there.
    if file.code.contains("import *") || has_word(&file.code, "globals") {
        return Vec::new();
    }
    let undefined = |call: &Call| {
        let before = call.before.trim_end();
        !before.ends_with('.')
            && !["def", "class", "@"].iter().any(|word| before.ends_with(word))
            && !BUILTINS.contains(&format!(" {} ", call.name))
            // Exceptions and warnings are builtins too.
            && ![ "Error", "Exception", "Warning", "Exit", "Interrupt", "Iteration", "Group"].iter().any(|end| call.name.ends_with(end))
            && never_bound(&file.code, call.name)
    };
    calls(line)
        .iter()
        .filter(|call| undefined(call))
        .map(|call| {
            format!("`{}(...)` is called, but nothing defines or imports `{}` here", call.name, call.name)
        })
        .collect()
}

/// Whether every place of the name is a call or an attribute, and one is a call
/// of the bare name: then nothing in the file binds it.
fn never_bound(code: &str, name: &str) -> bool {
    let mut is_called = false;
    for at in places(code, name) {
        let before = code[..at].trim_end_matches(|c: char| c.is_whitespace() || c == '\\');
        if before.ends_with('.') {
            continue;
        }
        let is_defined = ["def", "class"].iter().any(|word| ends_with_word(before, word));
        if is_defined || !code[at + name.len()..].starts_with('(') {
            return false;
        }
        is_called = true;
    }
    is_called
}

fn ends_with_word(text: &str, word: &str) -> bool {
    text.ends_with(word) && !text[..text.len() - word.len()].chars().next_back().is_some_and(is_word)
}

/// The file of a module of the work tree, as seen from `path`.
fn module_file(tree: &impl Tree, path: &str, module: &str) -> Option<(String, String)> {
    let dots = module.len() - module.trim_start_matches('.').len();
    let tail = module.trim_start_matches('.').replace('.', "/");
    let mut folder: Vec<&str> = path.split('/').collect();
    folder.pop();
    let bases: Vec<String> = if dots > 0 {
        folder.truncate((folder.len() + 1).checked_sub(dots)?);
        vec![folder.join("/")]
    } else {
        // The repository and a `src` folder may be on the path, and the file's own
        // folder if it is no package: in a package `import abc` means another one.
        let own = folder.join("/");
        let is_package = tree.read(&format!("{own}/__init__.py")).is_some();
        [Some(String::new()), (!is_package).then_some(own), Some("src".into())]
            .into_iter()
            .flatten()
            .collect()
    };
    let join = |base: &str, name: &str| match (base.is_empty(), name.is_empty()) {
        (true, _) => name.to_owned(),
        (false, true) => base.to_owned(),
        (false, false) => format!("{base}/{name}"),
    };
    bases
        .iter()
        .flat_map(|base| {
            let stem = join(base, &tail);
            let init = join(&stem, "__init__.py");
            [(!tail.is_empty()).then(|| format!("{stem}.py")), Some(init)]
        })
        .flatten()
        .find_map(|file| tree.read(&file).map(|text| (file, text)))
}

/// Whether a module may give `name`: it has the word, is a folder with such a
/// module, or makes its names while it runs.
fn module_gives(tree: &impl Tree, file: &str, text: &str, name: &str) -> bool {
    let code = blank(text);
    let makers = ["import *", "__getattr__", "globals(", "sys.modules", "sys.meta_path", "importlib"];
    let dynamic = makers.iter().any(|maker| code.contains(maker));
    let folder = file.strip_suffix("/__init__.py").unwrap_or("");
    dynamic
        || has_word(&code, name)
        || file.ends_with("__init__.py")
            && ["{}.py", "{}/__init__.py"].iter().any(|form| {
                let inner = form.replace("{}", name);
                tree.read(&if folder.is_empty() { inner } else { format!("{folder}/{inner}") }).is_some()
            })
}

/// `from module import name` of a module of the work tree that has no such name,
/// or of a module that its package does not have.
fn wrong_import(tree: &impl Tree, file: &File, line: &str) -> Option<String> {
    let (module, names) = line.trim().strip_prefix("from ")?.split_once(" import ")?;
    let module = module.trim();
    let Some((module_path, text)) = module_file(tree, file.path, module) else {
        return is_missing(tree, file.path, module).then(|| format!("there is no module `{module}`"));
    };
    let names = names.trim().trim_start_matches('(').trim_end_matches([')', '\\']);
    let missing = names.split(',').filter_map(|name| name.split_whitespace().next()).find(|name| {
        let is_plain = name.chars().all(is_word) && !name.starts_with("__");
        is_plain && !module_gives(tree, &module_path, &text, name)
    })?;
    Some(format!("`{missing}` is imported from `{module}`, but {module_path} has no such name"))
}

/// Whether a module that has no file is really missing: its package is in the work
/// tree, and the name is not one that a build step makes, such as `_version`.
fn is_missing(tree: &impl Tree, path: &str, module: &str) -> bool {
    let (package, name) = match module.rsplit_once('.') {
        Some(("", name)) => (".", name),
        Some((package, name)) => (package, name),
        None => return false,
    };
    if name.is_empty() || name.starts_with('_') || module.starts_with("..") {
        return false;
    }
    let found = module_file(tree, path, package);
    found.is_some_and(|(file, text)| file.ends_with("__init__.py") && !module_gives(tree, &file, &text, name))
}

/// `module.name(…)` of an imported module of the work tree that has no such name.
fn wrong_attributes(tree: &impl Tree, file: &File, line: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for call in calls(line) {
        let Some(owner) = call.before.strip_suffix('.') else { continue };
        let start = owner.rfind(|c| !is_word(c)).map_or(0, |at| at + 1);
        // `a.b.name(`: `b` is an attribute, not a module that was imported here.
        if owner[..start].ends_with('.') || owner[start..].is_empty() {
            continue;
        }
        let owner = &owner[start..];
        let Some(module) = imported_as(&file.code, owner) else { continue };
        let Some((module_path, text)) = module_file(tree, file.path, &module) else { continue };
        if !module_gives(tree, &module_path, &text, call.name) {
            wrong.push(format!("`{owner}.{}(...)` is called, but {module_path} has no such name", call.name));
        }
    }
    wrong
}

/// The module that `name` stands for, if an import says so and nothing else in the file binds it.
fn imported_as(code: &str, name: &str) -> Option<String> {
    let mut module = None;
    for line in code.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("import ") {
            for part in rest.split(',') {
                let words: Vec<&str> = part.split_whitespace().collect();
                match words.as_slice() {
                    [found] if *found == name => module = Some(name.to_owned()),
                    [found, "as", alias] if *alias == name => module = Some((*found).to_owned()),
                    _ => {}
                }
            }
        } else if let Some((from, names)) =
            line.strip_prefix("from ").and_then(|rest| rest.split_once(" import "))
        {
            if names.split(',').any(|part| part.trim() == name) {
                let from = from.trim();
                let dot = if from.ends_with('.') { "" } else { "." };
                module = Some(format!("{from}{dot}{name}"));
            }
        }
        // A variable or parameter of the same name hides the module.
        let rebinds = |at: usize| {
            let after = line[at + name.len()..].trim_start();
            let before = line[..at].trim_end();
            (after.starts_with('=') && !after.starts_with("=="))
                || before.ends_with("for")
                || line.starts_with("def ")
        };
        if places(line, name).any(rebinds) {
            return None;
        }
    }
    module
}

/// Keyword arguments that a function of the work tree does not take.
fn wrong_keywords(tree: &impl Tree, file: &File, line: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for call in calls(line) {
        if call.before.trim_end().ends_with("def") || call.before.trim_end().ends_with("class") {
            continue;
        }
        let keywords = keywords(call.after);
        if keywords.is_empty() {
            continue;
        }
        let Some((place, parameters)) = the_definition(tree, file, &call) else { continue };
        if let Some(keyword) = keywords.iter().find(|keyword| !parameters.iter().any(|name| name == *keyword))
        {
            wrong.push(format!(
                "`{}(...)` takes no `{keyword}`; it takes ({}), see {place}",
                call.name,
                parameters.join(", ")
            ));
        }
    }
    wrong
}

/// The names before `=` at the top level of a call that ends in this line; empty
/// when it does not end here or unpacks a dictionary.
fn keywords(after: &str) -> Vec<&str> {
    let Some(arguments) = split_arguments(after) else { return Vec::new() };
    if arguments.iter().any(|argument| argument.trim_start().starts_with("**")) {
        return Vec::new();
    }
    let keyword = |argument: &&str| -> Option<usize> {
        let at = argument.find('=')?;
        let name = argument[..at].trim();
        let plain = !argument[at + 1..].starts_with('=') && !name.is_empty() && name.chars().all(is_word);
        plain.then_some(at)
    };
    arguments.iter().filter_map(|argument| keyword(argument).map(|at| argument[..at].trim())).collect()
}

/// Splits at top-level commas up to the closing parenthesis; none if it is not there.
fn split_arguments(text: &str) -> Option<Vec<&str>> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => {
                parts.push(&text[start..at]);
                return Some(parts);
            }
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// Where the function that a call means is defined, and its parameters: a
/// function of this file, one that is imported by name, or one of an imported
/// module. None for methods, and where the function is decorated, defined more than
/// once, assigned too, or takes any keyword.
fn the_definition(tree: &impl Tree, file: &File, call: &Call) -> Option<(String, Vec<String>)> {
    let name = call.name;
    let header = format!("def {name}(");
    let (path, code) = if let Some(owner) = call.before.strip_suffix('.') {
        let start = owner.rfind(|c| !is_word(c)).map_or(0, |at| at + 1);
        if owner[..start].ends_with('.') {
            return None;
        }
        let module = imported_as(&file.code, &owner[start..])?;
        module_file(tree, file.path, &module).map(|(path, text)| (path, blank(&text)))?
    } else if file.code.contains(&header) {
        (file.path.to_owned(), file.code.clone())
    } else {
        let imported = imported_as(&file.code, name)?;
        let module = imported.strip_suffix(name)?;
        let module = if module.trim_matches('.').is_empty() { module } else { module.strip_suffix('.')? };
        module_file(tree, file.path, module).map(|(path, text)| (path, blank(&text)))?
    };
    let is_assigned = |at: usize| code[at + name.len()..].trim_start_matches(' ').starts_with("= ");
    if code.matches(&header).count() != 1 || places(&code, name).any(is_assigned) {
        return None;
    }
    // Only at the top level: a method would be another function.
    let index = code.lines().position(|line| line.trim_start_matches("async ").starts_with(&header))?;
    let before = index.checked_sub(1).and_then(|before| code.lines().nth(before)).unwrap_or_default();
    if before.trim_start().starts_with('@') || before.trim_end().ends_with([')', ',']) {
        return None;
    }
    let start: usize = code.split_inclusive('\n').take(index).map(str::len).sum();
    let (_, after) = code[start..].split_once('(')?;
    let parts = split_arguments(after)?;
    if parts.iter().any(|part| part.trim_start().starts_with("**")) {
        return None;
    }
    let names = parts
        .iter()
        .map(|part| part.trim_start_matches(|c: char| c.is_whitespace() || c == '*' || c == '\\'));
    let names = names.map(|part| part.split([':', '=']).next().unwrap_or_default().trim().to_owned());
    Some((
        format!("{path} line {}", index + 1),
        names.filter(|name| !name.is_empty() && name != "/" && name != "self").collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A work tree in memory.
    struct Memory(Vec<(&'static str, String)>);

    impl Tree for Memory {
        fn read(&self, path: &str) -> Option<String> {
            self.0.iter().find(|(name, _)| *name == path).map(|(_, text)| text.clone())
        }
    }

    const SHAPES: &str = "import math\nSCALE = 2\n\ndef area(width, height, *, unit=1):\n    return width * height * unit\n\n\
        def join(*parts, **options):\n    return parts\n\nclass Box:\n    def grow(self, by):\n        return self\n";

    /// Appends `added` to `pkg/main.py`, which has some lines before, and checks what is found.
    fn check(added: &str, expected: &[&str]) {
        let before = "import json\nimport shapes\nfrom pkg import util\n\n";
        let count = added.lines().count();
        let lines: Vec<String> = added.lines().map(|line| format!("+{line}\n")).collect();
        let diff = format!(
            "diff --git a/pkg/main.py b/pkg/main.py\n--- a/pkg/main.py\n+++ b/pkg/main.py\n@@ -1,4 +1,{} @@\n import json\n import shapes\n from pkg import util\n \n{}",
            4 + count,
            lines.concat()
        );
        let tree = Memory(vec![
            ("pkg/main.py", format!("{before}{added}\n")),
            ("pkg/__init__.py", String::new()),
            ("pkg/util.py", "def clean(text):\n    return text.strip()\n".into()),
            ("shapes.py", SHAPES.into()),
        ]);
        let found: Vec<String> =
            findings(&tree, &diff).iter().map(|text| text.replace("pkg/main.py line ", "")).collect();
        assert_eq!(found, expected, "{added}");
    }

    #[test]
    fn a_function_that_nothing_defines_is_found() {
        check(
            "x = compute_area(3)",
            &["5: `compute_area(...)` is called, but nothing defines or imports `compute_area` here"],
        );
        check(
            "def f(a):\n    return helper(a) + helper(1)",
            &["6: `helper(...)` is called, but nothing defines or imports `helper` here"],
        );
    }

    #[test]
    fn names_that_are_bound_anywhere_pass() {
        check("def helper(a):\n    return a\n\nx = helper(1)", &[]);
        check("class Thing:\n    pass\n\nx = Thing()", &[]);
        check("def f(call, *args):\n    return call(*args)", &[]);
        check("g = lambda x: x\ny = g(1)", &[]);
        check("for make in (int, str):\n    make(1)", &[]);
        check("from os import path as where\nwhere(1)", &[]);
        check("with open('x') as f, lock() as g:\n    pass\nlock = 1", &[]);
        check("from somewhere import *\nanything(1)", &[]);
    }

    #[test]
    fn builtins_keywords_and_methods_pass() {
        check("x = len(sorted(set([1]))) if (True) else int('1')", &[]);
        check("raise ValueError('x') from StopIteration()", &[]);
        check("assert(x in (1, 2)) and not (3)", &[]);
        check("x.whatever(1)", &[]);
        check("y = x.\\\n    whatever(1)", &[]);
        check("print('call_me(1)')  # and call_me(2)", &[]);
        check("\"\"\"\nDocs: call_me(1)\n\"\"\"", &[]);
        check("return f'{call_me(1)}'", &[]);
    }

    #[test]
    fn an_import_that_a_module_does_not_have_is_found() {
        check(
            "from shapes import area, volume",
            &["5: `volume` is imported from `shapes`, but shapes.py has no such name"],
        );
        check(
            "from .util import tidy",
            &["5: `tidy` is imported from `.util`, but pkg/util.py has no such name"],
        );
        check(
            "from . import missing",
            &["5: `missing` is imported from `.`, but pkg/__init__.py has no such name"],
        );
    }

    #[test]
    fn imports_that_are_there_or_not_ours_pass() {
        check("from shapes import area as a, SCALE", &[]);
        check("from .util import clean", &[]);
        check("from pkg.util import (clean)", &[]);
        check("from . import util", &[]);
        check("from numpy import whatever", &[]);
        check("from numpy.linalg import whatever", &[]);
        check("from ._version import version", &[]);
        check("from ..other import thing", &[]);
        check("from shapes import *", &[]);
        // In a package an absolute import is not the neighbour of the same name.
        check("from util import other", &[]);
        check("from shapes import __version__", &[]);
    }

    #[test]
    fn a_function_that_a_module_does_not_have_is_found() {
        check("x = shapes.volume(1)", &["5: `shapes.volume(...)` is called, but shapes.py has no such name"]);
        check("x = util.tidy('a')", &["5: `util.tidy(...)` is called, but pkg/util.py has no such name"]);
        check("x = shapes.area(1, 2)\ny = json.dumps(x)\nz = util.clean('a')", &[]);
        check("def f(shapes):\n    return shapes.volume()", &[]);
        check("x = thing.shapes.volume()", &[]);
    }

    #[test]
    fn a_keyword_that_a_function_does_not_take_is_found() {
        check(
            "x = shapes.area(1, 2, depth=3)",
            &["5: `area(...)` takes no `depth`; it takes (width, height, unit), see shapes.py line 4"],
        );
        check(
            "from shapes import area\nx = area(width=1, hight=2)",
            &["6: `area(...)` takes no `hight`; it takes (width, height, unit), see shapes.py line 4"],
        );
        check("x = shapes.area(1, height=2, unit=3)", &[]);
        check("x = shapes.area(1, 2, **{'a': 1})", &[]);
        check("def own(a, \\\n        b): return a\nx = own(1, b=2)", &[]);
        check("x = shapes.join(1, sep=2)", &[]);
        check("x = box.grow(much=2)", &[]);
        check("from warnings import area\nx = area(1, depth=2)", &[]);
        check(
            "def own(a, b=1): return a\nx = own(1, c=2)",
            &["6: `own(...)` takes no `c`; it takes (a, b), see 5"],
        );
        check("@wraps(len)\ndef own(a): return a\nx = own(1, c=2)\nwraps = 1", &[]);
        check("x = dict(depth=1)", &[]);
        check("x = shapes.area(1, height=f(a=1) == 2)\ndef f(a): pass", &[]);
    }

    #[test]
    fn only_added_lines_of_python_files_count() {
        let diff = "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -0,0 +1 @@\n+call_me(1)\n\
            diff --git a/b.py b/b.py\n--- a/b.py\n+++ b/b.py\n@@ -1,2 +1,2 @@\n old(1)\n-gone(1)\n+new(1)\n\\ No newline at end of file\n";
        assert_eq!(added_lines(diff), [("a.txt".to_owned(), vec![1]), ("b.py".to_owned(), vec![2])]);
        let tree = Memory(vec![("a.txt", "call_me(1)".into()), ("b.py", "old(1)\nnew(1)".into())]);
        assert_eq!(findings(&tree, diff).len(), 1);
        assert_eq!(findings(&tree, "").len(), 0);
    }

    #[test]
    fn the_message_is_short() {
        assert_eq!(message(&[]), None);
        let many: Vec<String> = (1..9).map(|n| format!("finding {n}")).collect();
        assert_eq!(
            message(&many).unwrap(),
            "Check these names; they are not in the work tree:\n- finding 1\n- finding 2\n- finding 3\n\
             Correct them, or hand in again if they are right."
        );
    }
}
