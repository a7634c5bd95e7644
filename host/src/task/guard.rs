//! Which files decide what the tests of a graded task say, so that they come from the
//! task and never from a patch?
//!
//! Test files, the settings of test runners, and modules that would stand in for a runner
//! or for Python's own. A file that the reference patch changes is the policy's to change.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::load::{Reference, Task};

/// Folders of tests, wherever they lie.
const TEST_FOLDERS: [&str; 2] = ["tests", "__tests__"];
/// Folders of tests at the top of a repository; deeper ones may be source.
const TOP_FOLDERS: [&str; 2] = ["test", "spec"];
/// Files that runners read or run, by name.
const NAMES: [&str; 13] = [
    "conftest.py",
    "sitecustomize.py",
    "usercustomize.py",
    "pytest.ini",
    ".pytest.ini",
    "tox.ini",
    "setup.cfg",
    "pyproject.toml",
    "runtests.py",
    ".rspec",
    ".coveragerc",
    "phpunit.xml",
    "phpunit.xml.dist",
];
const PREFIXES: [&str; 5] = ["test_", "jest.config.", "vitest.config.", "karma.conf.", ".mocharc"];
const SUFFIXES: [&str; 6] = ["_test.py", "_test.go", ".pth", "_spec.rb", "_test.rb", "Test.php"];
const INFIXES: [&str; 2] = [".test.", ".spec."];
/// What a new module at the top of a repository may not be called: parts of pytest, and
/// the modules of Python itself (3.8 to 3.13).
const MODULES: &str = "\
    pytest _pytest pluggy iniconfig exceptiongroup tomli py xdist nose \
    abc aifc argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb binascii bisect builtins bz2 \
    cProfile calendar cgi cgitb chunk cmath cmd code codecs codeop collections colorsys compileall concurrent \
    configparser contextlib contextvars copy copyreg crypt csv ctypes curses dataclasses datetime dbm decimal \
    difflib dis distutils doctest email encodings ensurepip enum errno faulthandler fcntl filecmp fileinput \
    fnmatch fractions ftplib functools gc genericpath getopt getpass gettext glob graphlib grp gzip hashlib heapq \
    hmac html http idlelib imaplib imghdr imp importlib inspect io ipaddress itertools json keyword lib2to3 \
    linecache locale logging lzma mailbox mailcap marshal math mimetypes mmap modulefinder multiprocessing netrc \
    nntplib ntpath nturl2path numbers opcode operator optparse os ossaudiodev pathlib pdb pickle pickletools pipes \
    pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc \
    pydoc_data pyexpat queue quopri random re readline reprlib resource rlcompleter runpy sched secrets select \
    selectors shelve shlex shutil signal site smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre_compile \
    sre_constants sre_parse ssl stat statistics string stringprep struct subprocess sunau symtable sys sysconfig \
    syslog tabnanny tarfile telnetlib tempfile termios textwrap threading time timeit tkinter token tokenize \
    tomllib trace traceback tracemalloc tty types typing unicodedata unittest urllib uu uuid venv warnings wave \
    weakref webbrowser wsgiref xdrlib xml xmlrpc zipapp zipfile zipimport zlib zoneinfo";

/// The files of one task that a patch does not change for the tests.
pub(super) struct Guard {
    /// What the reference patch names.
    free: BTreeSet<PathBuf>,
}

impl Guard {
    /// The guard of a task.
    pub(super) fn of(task: &Task) -> Self {
        let free = match task.reference() {
            Ok(Some(Reference::Patch(patch))) => named(&String::from_utf8_lossy(&patch)),
            _ => BTreeSet::new(),
        };
        Self { free }
    }

    /// Whether a file comes from the task; `known` when the task has it.
    pub(super) fn holds(&self, path: &Path, known: bool) -> bool {
        !self.free.contains(path) && (is_of_tests(path) || (!known && stands_in(path)))
    }
}

fn is_of_tests(path: &Path) -> bool {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    let Some(name) = parts.last() else { return false };
    parts.iter().any(|part| TEST_FOLDERS.contains(&&**part))
        || TOP_FOLDERS.contains(&&*parts[0])
        || parts.windows(2).any(|pair| pair[0] == "src" && pair[1] == "test")
        || NAMES.contains(&&**name)
        || PREFIXES.iter().any(|start| name.starts_with(start))
        || SUFFIXES.iter().any(|end| name.ends_with(end))
        || INFIXES.iter().any(|inside| name.contains(inside))
}

/// Whether a file is or belongs to a module at the top that has the name of another.
fn stands_in(path: &Path) -> bool {
    let code = path.extension().is_some_and(|end| ["py", "pyc", "so"].iter().any(|known| end == *known));
    // A link may name a folder of anything.
    let Some(top) = path.iter().next().map(|top| top.to_string_lossy()) else { return false };
    let stem = top.split('.').next().unwrap_or_default();
    (code || path.extension().is_none()) && MODULES.split_whitespace().any(|name| name == stem)
}

/// The files that a patch names in its headers.
fn named(patch: &str) -> BTreeSet<PathBuf> {
    let side = |line: &str, mark: &str| {
        let rest = line.strip_prefix(mark)?.split('\t').next()?.trim_end();
        let rest = rest.strip_prefix("a/").or(rest.strip_prefix("b/")).unwrap_or(rest);
        (rest != "/dev/null").then(|| PathBuf::from(rest))
    };
    let marks = ["--- ", "+++ ", "rename from ", "rename to "];
    patch.lines().flat_map(|line| marks.iter().filter_map(move |mark| side(line, mark))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_comes_from_the_task() {
        let check = |path: &str, known: bool, expected: bool| {
            let guard = Guard { free: BTreeSet::from([PathBuf::from("free/conftest.py")]) };
            assert_eq!(guard.holds(Path::new(path), known), expected, "{path}");
        };
        for path in [
            "conftest.py",
            "deep/down/conftest.py",
            "pkg/tests/helper.py",
            "tests",
            "test/runner.rb",
            "setup.cfg",
            "x.pth",
            "pkg/test_a.py",
            "pkg/a_test.go",
            "src/a.test.ts",
            "core/src/test/java/A.java",
            "jest.config.mjs",
        ] {
            check(path, true, true);
            check(path, false, true);
        }
        for path in
            ["json.py", "pytest/__init__.py", "_pytest/runner.py", "unittest.py", "random.cpython-311.so"]
        {
            check(path, false, true);
            check(path, true, false);
        }
        for path in [
            "pkg/json.py",
            "pkg/testing/tools.py",
            "django/test/client.py",
            "latest.py",
            "http/server.go",
            "free/conftest.py",
            "contest.py",
        ] {
            check(path, false, false);
        }
    }

    #[test]
    fn headers_of_the_reference_name_its_files() {
        let patch = "diff --git a/setup.cfg b/setup.cfg\n--- a/setup.cfg\n+++ b/setup.cfg\n@@ -1 +1 @@\n-a\n+b\n\
                     diff --git a/x b/new\nrename from x\nrename to new\n--- /dev/null\n+++ b/made.py\t2020\n";
        let found = named(patch);
        for path in ["setup.cfg", "x", "new", "made.py"] {
            assert!(found.contains(Path::new(path)), "{path}");
        }
        assert!(!found.contains(Path::new("/dev/null")));
    }
}
