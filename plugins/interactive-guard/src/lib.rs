//! Refuses commands that wait for a person, and names the form that does not.
//!
//! Watches commands of `bash` before they run. Fires for editors, pagers, interpreters without a
//! script, `git commit` without a message, `git rebase -i`, `git add -p`, `rm -i` and programs
//! that draw on a terminal: there is no terminal and no input, so such a command hangs to its
//! time limit or does nothing. Silent for the same words inside quotation marks, file names and
//! here-documents, and for the same programs when they are given a script or input.
//!
//! Point: `on-tool-call`. Grants: none.

use tandem_plugin::*;

/// Refuse pagers too; without a terminal most of them only print.
const PAGERS: bool = true; // parameter
/// Refuse interpreters without a script.
const INTERPRETERS: bool = true; // parameter
/// Refuse `git` commands that open an editor or ask.
const GIT: bool = true; // parameter

pub struct Plugin;

impl OnToolCall for Plugin {
    fn on_tool_call(_context: Context, call: ToolCall) -> Option<ToolCallEffect> {
        let command = call.command()?;
        let (what, instead) = shell::commands(&command).iter().find_map(waits)?;
        Some(ToolCallEffect::Refuse(format!(
            "Not run: {what} waits for a person, and nobody is there. Instead: {instead}"
        )))
    }
}

export_on_tool_call!(Plugin);

/// What waits in a command, and what to do instead.
fn waits(command: &shell::Command) -> Option<(String, String)> {
    let program = command.program();
    let file = command.operands().next().unwrap_or("FILE");
    let found = |instead: &str| Some((format!("`{program}`"), instead.to_owned()));
    if command.has(&["--version", "--help"]) {
        return None;
    }
    match program {
        "vi" | "vim" | "nvim" | "view" | "nano" | "pico" | "emacs" | "joe" | "micro"
            if !command.has(&["-es", "-Es", "--batch", "-batch", "-s"]) =>
        {
            found(&format!(
                "see the file with `sed -n '1,80p' {file}`, change it with `sed -i 's/OLD/NEW/' {file}` or write it with `cat > {file} <<'EOF'`."
            ))
        }
        "less" | "more" | "most" if PAGERS && command.fed => {
            found(&format!("leave `| {program}` out, or use `| head -n 80`."))
        }
        "less" | "more" | "most" if PAGERS => found(&format!("`sed -n '1,80p' {file}`.")),
        "man" if PAGERS && !command.piped => found("`PROGRAM --help | head -n 60`."),
        "top" | "htop" => found("`ps aux | head -n 20`."),
        "watch" => found("run the command once."),
        "python" | "python3" | "ipython" | "node" | "irb" | "ruby" | "php" | "lua" | "psql" | "mysql"
        | "sqlite3" | "gdb" | "pdb"
            if INTERPRETERS && !command.fed && no_script(program, command) =>
        {
            found(match program {
                "psql" | "mysql" | "sqlite3" => "give the query as an argument or through `<<'EOF'`.",
                "gdb" => "`gdb -batch -ex run -ex bt --args PROGRAM`.",
                "node" => "`node -e 'CODE'`, or a script: `node - <<'EOF'`.",
                _ => "`python3 -c 'CODE'`, or a script: `python3 - <<'EOF'`.",
            })
        }
        _ if program.starts_with("python")
            && command.has(&["pdb"])
            && command.has(&["-m"])
            && !command.fed =>
        {
            found(
                "print what you want to know, or feed commands: `printf 'b 10\\nc\\np x\\n' | python3 -m pdb FILE`.",
            )
        }
        "git" if GIT => git(command),
        "rm" | "mv" | "cp" if command.has(&["-i", "-ri", "-ir", "--interactive"]) => {
            found(&format!("`{program}` without `-i`."))
        }
        "ssh" | "ftp" | "telnet" | "passwd" | "su" => {
            found("work in this repository; there is no other machine and no other user.")
        }
        _ => None,
    }
}

/// Whether an interpreter has nothing to run.
fn no_script(program: &str, command: &shell::Command) -> bool {
    if command.has(&["-i"]) {
        return true;
    }
    match program {
        // A database without a query.
        "psql" | "mysql" | "sqlite3" => {
            !command.has(&["-c", "-e", "-f", "--command", "--execute", "--file", "-l"])
                && command.operands().count() < 2
        }
        "gdb" => !command.has(&["-batch", "--batch", "-x"]),
        _ => command.arguments().iter().all(|word| {
            word.starts_with('-')
                && word.len() == 2
                && !matches!(word.as_str(), "-c" | "-m" | "-e" | "-p" | "-V" | "-v" | "-r" | "-h")
        }),
    }
}

fn git(command: &shell::Command) -> Option<(String, String)> {
    let arguments = command.arguments();
    let has = |words: &[&str]| command.has(words);
    let starts =
        |starts: &[&str]| arguments.iter().any(|word| starts.iter().any(|start| word.starts_with(start)));
    let verb = command.operands().next()?;
    let found = |what: &str, instead: &str| Some((format!("`{what}`"), instead.to_owned()));
    let message = has(&["-m", "-F", "-C", "-t", "--no-edit", "-am", "--dry-run", "-a -m"])
        || starts(&["--message", "--file", "--fixup", "--reuse-message", "-m"])
        || arguments
            .iter()
            .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('m'));
    match verb {
        "commit" if has(&["-p", "--patch", "--interactive"]) => {
            found("git commit -p", "`git add FILE` and `git commit -m 'TEXT'`.")
        }
        "commit" if !message => found("git commit", "`git commit -m 'TEXT'`; the patch needs no commit."),
        "rebase" if has(&["-i", "--interactive"]) => {
            found("git rebase -i", "leave the history as it is; the patch needs no commit.")
        }
        "add" | "checkout" | "reset" | "stash" | "restore"
            if has(&["-p", "-i", "--patch", "--interactive"]) =>
        {
            found(&format!("git {verb} -p"), &format!("`git {verb} FILE`."))
        }
        "mergetool" | "difftool" | "citool" | "gui" => found(&format!("git {verb}"), "`git diff`."),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(command: &str) -> Option<String> {
        shell::commands(command).iter().find_map(waits).map(|(what, _)| what)
    }

    #[test]
    fn what_waits_is_refused() {
        let check = |command: &str, expected: &str| {
            assert_eq!(refused(command).as_deref(), Some(expected), "{command}")
        };
        check("vim a.py", "`vim`");
        check("cd src && nano a.py", "`nano`");
        check("git log | less", "`less`");
        check("less README.md", "`less`");
        check("python3", "`python3`");
        check("python3 -i a.py", "`python3`");
        check("python3 -m pdb a.py", "`python3`");
        check("node", "`node`");
        check("git commit", "`git commit`");
        check("git commit -a", "`git commit`");
        check("git commit --amend", "`git commit`");
        check("git add -p", "`git add -p`");
        check("git rebase -i HEAD~2", "`git rebase -i`");
        check("rm -i a.py", "`rm`");
        check("top", "`top`");
        check("sqlite3 a.db", "`sqlite3`");
    }

    #[test]
    fn what_does_not_wait_runs() {
        for command in [
            "python3 a.py",
            "python3 -c 'print(1)'",
            "python3 -m pytest",
            "python3 - <<'E'\nprint(1)\nE",
            "echo 'print(1)' | python3",
            "python3 -V",
            "node -e 1",
            "node --version",
            "git commit -m 'x'",
            "git commit -am x",
            "git commit --amend --no-edit",
            "git commit -qm x",
            "git commit --message=x",
            "git add a.py",
            "git rebase main",
            "rm -rf build",
            "echo 'vim a.py'",
            "grep -rn less src",
            "cat > a.sh <<'E'\nvim x\nE",
            "sqlite3 a.db 'select 1'",
            "which vim",
            "man ls | head",
            "sed -i 's/a/b/' a.py",
            "",
        ] {
            assert_eq!(refused(command), None, "{command}");
        }
    }
}
