//! Command lines of `bash`, as far as a hook has to understand them: which programs run, with
//! which words, and what they read and write. It is no shell: nothing is expanded.

/// One program that a command line runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments, quotation marks taken off. Variables before the program
    /// and wrappers such as `env` or `timeout 9` are left out.
    pub words: Vec<String>,
    /// Files that its output goes to, `/dev/null` not counted.
    pub writes: Vec<String>,
    /// Whether its standard input comes from a pipe, a file or a here-document.
    pub fed: bool,
    /// Whether its output goes into another program.
    pub piped: bool,
}

impl Command {
    /// The program without its folder; an empty text if there is none.
    pub fn program(&self) -> &str {
        let first = self.words.first().map_or("", String::as_str);
        first.rsplit('/').next().unwrap_or(first)
    }

    /// The words after the program.
    pub fn arguments(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    /// Whether one of the arguments is one of `words`.
    pub fn has(&self, words: &[&str]) -> bool {
        self.arguments().iter().any(|argument| words.contains(&argument.as_str()))
    }

    /// The arguments that are no options.
    pub fn operands(&self) -> impl Iterator<Item = &str> {
        self.arguments().iter().map(String::as_str).filter(|word| !word.starts_with('-'))
    }
}

/// Programs that run the program after them.
const WRAPPERS: [&str; 7] = ["env", "time", "nohup", "exec", "command", "timeout", "nice"];

/// The programs of a command line, in order. Bodies of here-documents, comments and what stands
/// in `$(...)` are not looked into.
pub fn commands(line: &str) -> Vec<Command> {
    let mut reader = Reader { rest: line, found: Vec::new(), now: Command::default(), documents: Vec::new() };
    reader.read();
    reader.found
}

struct Reader<'a> {
    rest: &'a str,
    found: Vec<Command>,
    now: Command,
    /// Ends of here-documents whose bodies come after this line.
    documents: Vec<String>,
}

impl Reader<'_> {
    fn read(&mut self) {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            if let Some(rest) = self.rest.strip_prefix("\\\n") {
                self.rest = rest;
                continue;
            }
            let Some(c) = self.rest.chars().next() else { break };
            match c {
                '\n' => {
                    self.skip(1);
                    self.end(false);
                    self.skip_documents();
                }
                '#' => self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]),
                '|' if self.rest.starts_with("||") => self.operator(2),
                '|' => {
                    self.skip(if self.rest.starts_with("|&") { 2 } else { 1 });
                    self.end(true);
                }
                '&' if self.rest.starts_with("&>") => self.redirection(),
                ';' | '&' | '(' | ')' => self.operator(1),
                '<' | '>' => self.redirection(),
                '0'..='9' if self.rest[1..].starts_with(['>', '<']) => {
                    self.skip(1);
                    self.redirection();
                }
                _ => {
                    let word = self.word();
                    self.now.words.push(word);
                }
            }
        }
        self.end(false);
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn operator(&mut self, bytes: usize) {
        self.skip(bytes);
        self.end(false);
    }

    /// Ends a command; the next one is fed by it if `piped`.
    fn end(&mut self, piped: bool) {
        let mut done = std::mem::take(&mut self.now);
        self.now.fed = piped;
        done.piped = piped;
        done.words.drain(..start_of(&done.words));
        if !done.words.is_empty() || !done.writes.is_empty() {
            self.found.push(done);
        }
    }

    fn redirection(&mut self) {
        let sign_end = self.rest.find(|c| !matches!(c, '<' | '>' | '&' | '|')).unwrap_or(self.rest.len());
        let sign = &self.rest[..sign_end];
        let dash = sign == "<<" && self.rest[sign_end..].starts_with('-');
        let (reads, document) = (sign.starts_with('<'), sign == "<<");
        self.skip(sign_end + usize::from(dash));
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        let target = self.word();
        if reads {
            self.now.fed = true;
        } else if !target.is_empty() && target != "/dev/null" && !(sign.ends_with('&') && is_number(&target))
        {
            self.now.writes.push(target.clone());
        }
        if document {
            self.documents.push(target);
        }
    }

    fn skip_documents(&mut self) {
        for end in std::mem::take(&mut self.documents) {
            while !self.rest.is_empty() {
                let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
                self.rest = rest;
                if line.trim_start_matches('\t').trim_end_matches('\r') == end {
                    break;
                }
            }
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.rest.chars().next() {
            if c.is_ascii_whitespace() || matches!(c, ';' | '|' | '&' | '<' | '>' | '(' | ')') {
                break;
            }
            self.skip(c.len_utf8());
            match c {
                '\'' => {
                    let (inside, rest) = self.rest.split_once('\'').unwrap_or((self.rest, ""));
                    word.push_str(inside);
                    self.rest = rest;
                }
                '"' => self.double_quoted(&mut word),
                '\\' => {
                    if let Some(next) = self.rest.chars().next() {
                        self.skip(next.len_utf8());
                        word.push(next);
                    }
                }
                '$' if self.rest.starts_with('(') => self.substitution(&mut word),
                c => word.push(c),
            }
        }
        word
    }

    fn double_quoted(&mut self, word: &mut String) {
        while let Some(c) = self.rest.chars().next() {
            self.skip(c.len_utf8());
            match c {
                '"' => return,
                '\\' => {
                    if let Some(next) = self.rest.chars().next() {
                        self.skip(next.len_utf8());
                        if !matches!(next, '"' | '\\' | '$' | '`') {
                            word.push('\\');
                        }
                        word.push(next);
                    }
                }
                c => word.push(c),
            }
        }
    }

    /// Takes `$(...)` as it is, to its closing bracket.
    fn substitution(&mut self, word: &mut String) {
        word.push('$');
        let mut depth = 0;
        while let Some(c) = self.rest.chars().next() {
            self.skip(c.len_utf8());
            word.push(c);
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }
}

/// Where the program stands, after variables, wrappers and words of the shell's grammar.
fn start_of(words: &[String]) -> usize {
    let mut at = 0;
    let mut wrapped = false;
    while let Some(word) = words.get(at) {
        let variable = word.split_once('=').is_some_and(|(name, _)| is_name(name));
        let grammar =
            matches!(word.as_str(), "{" | "}" | "!" | "if" | "then" | "else" | "do" | "while" | "until");
        let of_wrapper = wrapped && (word.starts_with('-') || is_number(word.trim_end_matches(['s', 'm'])));
        if WRAPPERS.contains(&word.as_str()) {
            wrapped = true;
        } else if !variable && !grammar && !of_wrapper {
            break;
        }
        at += 1;
    }
    at
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

/// Whether a command runs tests: pytest, unittest, cargo, go, npm and what is like them.
pub fn runs_tests(command: &Command) -> bool {
    let program = command.program();
    let arguments = command.arguments();
    let first = arguments.first().map_or("", String::as_str);
    let named = |word: &str| {
        let name = word.rsplit('/').next().unwrap_or(word);
        name.starts_with("test_")
            || name.starts_with("run_test")
            || name.starts_with("runtest")
            || name == "test.sh"
    };
    match program {
        "pytest" | "py.test" | "tox" | "nox" | "jest" | "vitest" | "mocha" | "ctest" | "rspec"
        | "phpunit" => true,
        "cargo" | "go" | "npm" | "yarn" | "pnpm" | "mvn" | "gradle" | "gradlew" | "make" | "dotnet"
        | "mix" => {
            arguments.iter().any(|word| matches!(word.as_str(), "test" | "t" | "check" | "nextest" | "tests"))
                && !(program == "cargo" && first == "check")
        }
        "npx" | "bunx" => matches!(first, "jest" | "vitest" | "mocha"),
        "node" | "bun" | "deno" => {
            command.has(&["--test", "test"]) || arguments.iter().any(|word| named(word))
        }
        _ if program.starts_with("python") || matches!(program, "bash" | "sh") => {
            command.has(&["pytest", "unittest", "doctest", "tox", "nose"])
                || arguments.first().is_some_and(|word| named(word) || word.ends_with("manage.py"))
                    && (named(first) || command.has(&["test"]))
        }
        _ => named(command.words.first().map_or("", String::as_str)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each command as `program arguments`, with `<` if it is fed, `|` if it is piped, `>FILE` for writes.
    fn check(line: &str, expected: &[&str]) {
        let shown: Vec<String> = commands(line)
            .iter()
            .map(|command| {
                let mut text = command.words.join(" ");
                text.push_str(if command.fed { " <" } else { "" });
                text.push_str(if command.piped { " |" } else { "" });
                command.writes.iter().for_each(|file| text.push_str(&format!(" >{file}")));
                text
            })
            .collect();
        assert_eq!(shown, expected, "{line}");
    }

    #[test]
    fn programs_are_found_behind_operators() {
        check("", &[]);
        check("ls -la", &["ls -la"]);
        check("cd a && make; ls || true", &["cd a", "make", "ls", "true"]);
        check("cat a.py | head -n 3", &["cat a.py |", "head -n 3 <"]);
        check("sleep 5 & echo ok", &["sleep 5", "echo ok"]);
        check("(cd a; ls)", &["cd a", "ls"]);
        check("if true; then vim a; fi", &["true", "vim a", "fi"]);
        check("a \\\n  b\nc", &["a b", "c"]);
        check("ls # vim\npwd", &["ls", "pwd"]);
    }

    #[test]
    fn variables_and_wrappers_are_not_the_program() {
        check("A=1 B=x timeout 9 python3 x.py", &["python3 x.py"]);
        check("env -i A=1 node x.js", &["node x.js"]);
        check("time nice -n 10 make", &["make"]);
        check("A=1", &[]);
    }

    #[test]
    fn quoted_text_is_one_word_and_no_program() {
        check("echo 'a; vim b' \"c | less\"", &["echo a; vim b c | less"]);
        check("echo \"a \\\"b\\\"\" \\;", &["echo a \"b\" ;"]);
        check("git commit -m \"$(cat x; ls)\"", &["git commit -m $(cat x; ls)"]);
        check("echo $(vim a) b", &["echo $(vim a) b"]);
        check("echo 'open", &["echo open"]);
        check("echo é | wc", &["echo é |", "wc <"]);
    }

    #[test]
    fn redirections_say_what_is_read_and_written() {
        check("python3 < a.py", &["python3 <"]);
        check("echo a > b.txt 2>&1", &["echo a >b.txt"]);
        check("make > /dev/null 2> err.log", &["make >err.log"]);
        check("cmd &> all.log", &["cmd >all.log"]);
        check("echo x >>a", &["echo x >a"]);
        check("cat > a.py <<'EOF'\nvim x\nEOF\nls", &["cat < >a.py", "ls"]);
        check("python3 - <<-E\n\tx\n\tE\nls", &["python3 - <", "ls"]);
        check("cat <<A <<B\n1\nA\n2\nB\nls", &["cat <", "ls"]);
        check("cat <<E", &["cat <"]);
    }

    #[test]
    fn runs_of_tests_are_told_from_talk_about_tests() {
        let check = |line: &str, expected: bool| {
            assert_eq!(commands(line).iter().any(runs_tests), expected, "{line}");
        };
        for line in [
            "pytest -q",
            "python3 -m pytest tests/test_a.py",
            "python -m unittest",
            "cd x && cargo test --lib",
            "go test ./...",
            "npm test",
            "npm run test",
            "npx jest",
            "node --test",
            "make check",
            "python3 test_a.py",
            "python3 tests/test_a.py",
            "python3 manage.py test app",
            "./run_tests.sh",
            "bash run_tests.sh",
        ] {
            check(line, true);
        }
        for line in [
            "cat tests/test_a.py",
            "grep -r pytest .",
            "cargo build",
            "cargo check",
            "python3 a.py",
            "python3 manage.py migrate",
            "echo 'pytest -q'",
            "ls test",
            "git add test_a.py",
        ] {
            check(line, false);
        }
    }
}
