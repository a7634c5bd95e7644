//! What did a command of the policy do? Simple rules on its text, for counting.

/// A program that a command line runs, with its words; text in quotation marks is one word.
type Words = Vec<String>;

/// The programs of a command line, in order. Bodies of here-documents are left out, and so are
/// variables before a program.
fn programs(line: &str) -> Vec<Words> {
    let mut found = Vec::new();
    let mut words = Words::new();
    let mut word = String::new();
    let mut quote: Option<char> = None;
    let mut documents: Vec<String> = Vec::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => quote = Some(c),
            (None, ' ' | '\t') => next(&mut word, &mut words, &mut documents),
            (None, '\n' | ';' | '|' | '&') if !(c == '&' && word.ends_with('>')) => {
                next(&mut word, &mut words, &mut documents);
                end(&mut words, &mut found);
                if c == '\n' {
                    for document in documents.drain(..) {
                        rest = after_document(rest, &document);
                    }
                }
            }
            (None, c) => word.push(c),
        }
    }
    next(&mut word, &mut words, &mut documents);
    end(&mut words, &mut found);
    found
}

/// Ends a word, and notes the here-document that it may open.
fn next(word: &mut String, words: &mut Words, documents: &mut Vec<String>) {
    let done = std::mem::take(word);
    if let Some(name) = done.strip_prefix("<<").filter(|name| !name.is_empty() && !name.starts_with('<')) {
        documents.push(name.trim_start_matches('-').to_owned());
    } else if words.last().is_some_and(|last| last == "<<") && !done.is_empty() {
        documents.push(done.clone());
    }
    if !done.is_empty() {
        words.push(done);
    }
}

fn end(words: &mut Words, found: &mut Vec<Words>) {
    let mut done = std::mem::take(words);
    let variable = |word: &String| word.split_once('=').is_some_and(|(name, _)| is_name(name));
    let start = done.iter().position(|word| !variable(word)).unwrap_or(done.len());
    done.drain(..start);
    if !done.is_empty() {
        found.push(done);
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn after_document<'a>(rest: &'a str, name: &str) -> &'a str {
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        at += line.len();
        if line.trim() == name {
            break;
        }
    }
    &rest[at..]
}

fn any(line: &str, is: impl Fn(&str, &[String]) -> bool) -> bool {
    programs(line).iter().any(|words| {
        let (first, rest) = words.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        is(first.rsplit('/').next().unwrap_or(first), rest)
    })
}

fn has(words: &[String], wanted: &[&str]) -> bool {
    words.iter().any(|word| wanted.contains(&word.as_str()))
}

/// Whether it changes files of the work tree.
pub(super) fn edits(line: &str) -> bool {
    let by_program = any(line, |program, words| match program {
        "patch" | "ed" | "ex" => true,
        "sed" | "perl" => words.iter().any(|word| word.starts_with("-i") || word.starts_with("-pi")),
        "git" => has(words, &["apply", "checkout", "restore"]),
        _ => writes(program, words),
    });
    by_program || ["write_text(", ", 'w')", ", \"w\")"].iter().any(|mark| line.contains(mark))
}

/// Whether its output goes to a file of the work tree.
fn writes(program: &str, words: &[String]) -> bool {
    let mut targets = words.iter().enumerate().filter_map(|(at, word)| {
        let rest = word.strip_prefix(">>").or_else(|| word.strip_prefix('>'))?;
        if rest.is_empty() { words.get(at + 1).map(String::as_str) } else { Some(rest) }
    });
    let in_tree =
        |path: &str| !path.starts_with(['/', '&']) && !path.ends_with(".patch") && !path.ends_with(".diff");
    targets.any(in_tree) || (program == "tee" && words.first().is_some_and(|path| in_tree(path)))
}

/// Whether it runs tests.
pub(super) fn runs_tests(line: &str) -> bool {
    let named = |word: &str| word.rsplit('/').next().unwrap_or(word).starts_with("test_");
    any(line, |program, words| match program {
        "pytest" | "tox" | "nox" | "jest" | "vitest" | "ctest" => true,
        "cargo" | "go" | "npm" | "yarn" | "make" | "mvn" | "gradle" => has(words, &["test", "nextest"]),
        "npx" => has(words, &["jest", "vitest", "mocha"]),
        "node" => has(words, &["--test"]),
        _ if program.starts_with("python") => {
            has(words, &["pytest", "unittest", "doctest"]) || words.first().is_some_and(|word| named(word))
        }
        _ => false,
    })
}

/// Whether it runs tests, or a program of the repository.
pub(super) fn runs_something(line: &str) -> bool {
    let interpreter = |program: &str, words: &[String]| {
        (program.starts_with("python") || program == "node") && words.first().is_some_and(|word| word != "-")
    };
    runs_tests(line) || (any(line, interpreter) && !edits(line))
}

/// Whether it searches the work tree.
pub(super) fn searches(line: &str) -> bool {
    any(line, |program, words| match program {
        "find" | "rg" | "ag" => true,
        "grep" => words
            .iter()
            .any(|word| word == "--recursive" || (word.starts_with('-') && word.contains(['r', 'R']))),
        "git" => has(words, &["grep"]),
        _ => false,
    })
}

/// Whether it only looks at files.
pub(super) fn looks(line: &str) -> bool {
    let looks = |program: &str| {
        matches!(
            program,
            "cat" | "ls" | "head" | "tail" | "grep" | "find" | "rg" | "wc" | "nl" | "sed" | "cd" | "tree"
        )
    };
    !edits(line) && !programs(line).is_empty() && !any(line, |program, _| !looks(program))
}

/// Whether it waits for a person.
pub(super) fn waits_for_a_person(line: &str) -> bool {
    any(line, |program, words| match program {
        "vi" | "vim" | "nvim" | "nano" | "emacs" | "less" | "more" | "top" | "htop" => true,
        "git" => {
            let message = words.iter().any(|word| {
                matches!(word.as_str(), "-F" | "-C" | "--no-edit")
                    || word.starts_with("--message")
                    || (word.starts_with('-') && !word.starts_with("--") && word.contains('m'))
            });
            (words.first().is_some_and(|verb| verb == "commit") && !message)
                || (has(words, &["rebase", "add"]) && has(words, &["-i", "-p", "--interactive", "--patch"]))
        }
        "rm" => has(words, &["-i"]),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(is: fn(&str) -> bool, yes: &[&str], no: &[&str]) {
        for line in yes {
            assert!(is(line), "{line}");
        }
        for line in no {
            assert!(!is(line), "{line}");
        }
    }

    #[test]
    fn edits_are_told_from_looks() {
        let writes = [
            "sed -i 's/a/b/' a.py",
            "cat > a.py <<'E'\nx\nE",
            "echo x >> a.py",
            "git apply fix.patch",
            "ls | tee out.txt",
            "python3 -c \"open('a', 'w').write('x')\"",
        ];
        let reads = ["cat a.py", "sed -n 1,9p a.py", "ls -la", "cd src && grep -rn x .", "find . | head"];
        check(edits, &writes, &reads);
        check(looks, &reads, &writes);
        check(
            edits,
            &[],
            &["git diff > fix.patch", "make > /tmp/x 2>&1", "echo 'a > b'", "cat <<E\na > b.py\nE"],
        );
        check(looks, &[], &["", "python3 a.py", "make"]);
    }

    #[test]
    fn runs_of_tests_are_told_from_talk_about_them() {
        check(
            runs_tests,
            &[
                "pytest -q",
                "cd a && python3 -m pytest",
                "python3 tests/test_a.py",
                "cargo test",
                "A=1 go test ./...",
            ],
            &["cat test_a.py", "grep pytest a.py", "echo 'pytest'", "cargo build", "python3 a.py"],
        );
        check(
            runs_something,
            &["python3 a.py", "python3 -c 'import a'"],
            &["python3 - <<E\nx\nE", "cat a.py"],
        );
    }

    #[test]
    fn searches_and_waits_are_seen() {
        check(searches, &["grep -rn x src", "find . -name a", "git grep x"], &["grep x a.py", "cat find"]);
        check(
            waits_for_a_person,
            &[
                "vim a.py",
                "git log | less",
                "git commit",
                "git commit -a",
                "git add -p",
                "rm -i a",
                "cd a; nano b",
            ],
            &[
                "git commit -m x",
                "git commit -qam x",
                "echo 'vim a'",
                "cat > r.sh <<'E'\nvim a\nE",
                "rm -rf a",
                "git add a",
            ],
        );
    }
}
