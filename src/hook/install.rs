//! How do our hooks come into an agent's settings, and out of them again?
//!
//! What is there stays as it is, in its order. What we wrote is known by its command, so that writing
//! it twice is writing it once.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tandem_host::store::write_whole;

use super::agent::{Agent, AgentEvent};
use super::client::SMALL;
use super::ordered::Json;
use super::target::Target;

/// Seconds that an agent waits for a hook: more than a daemon takes to start.
const SECONDS: u64 = 60;

/// What happens to a settings file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Nothing,
    Write,
    Remove,
}

/// A change of a settings file that was not made yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub path: PathBuf,
    pub change: Change,
    /// The whole file afterwards.
    pub text: String,
}

impl Plan {
    /// Makes the change: the file is whole or as before.
    pub fn carry_out(&self) -> Result<()> {
        // A link, such as that of a keeper of settings, stays one.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        match self.change {
            Change::Nothing => Ok(()),
            Change::Remove => {
                fs::remove_file(&path).with_context(|| format!("{} cannot be removed", path.display()))
            }
            Change::Write => {
                if let Some(folder) = path.parent() {
                    fs::create_dir_all(folder)
                        .with_context(|| format!("{} cannot be made", folder.display()))?;
                }
                let mode = fs::metadata(&path).ok().map(|meta| meta.permissions());
                write_whole(&path, self.text.as_bytes())
                    .with_context(|| format!("{} cannot be written", path.display()))?;
                match mode {
                    Some(mode) => fs::set_permissions(&path, mode)
                        .with_context(|| format!("{} cannot be opened as before", path.display())),
                    None => Ok(()),
                }
            }
        }
    }
}

/// What installing the hooks of a harness changes: in a project's folder, or for the user.
///
/// # Errors
/// Settings that are no JSON of the agent's shape: they stay as they are.
pub fn install(agent: Agent, target: &Target, project: Option<&Path>) -> Result<Plan> {
    let program = std::env::current_exe().context("this program cannot find its own file")?;
    // The small program beside it, if it is there, is started sooner.
    let small = program.with_file_name(SMALL);
    let program = match small.is_file() {
        true => vec![small.display().to_string()],
        false => vec![program.display().to_string(), "hook".to_owned()],
    };
    let commands: Vec<_> = agent
        .events()
        .iter()
        .map(|event| {
            let home = target.home.display().to_string();
            let words = [
                agent.word().to_owned(),
                event.name().into(),
                "--harness".into(),
                target.harness.clone(),
                "--home".into(),
                home,
            ];
            (*event, program.iter().chain(&words).map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
        })
        .collect();
    plan(agent, project, &commands)
}

/// What taking our hooks out changes, whichever harness they are of.
///
/// # Errors
/// As [`install`].
pub fn uninstall(agent: Agent, project: Option<&Path>) -> Result<Plan> {
    plan(agent, project, &[])
}

fn plan(agent: Agent, project: Option<&Path>, commands: &[(AgentEvent, String)]) -> Result<Plan> {
    let path = settings_of(agent, project)?;
    let before = match fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", path.display())),
    };
    let blank = before.as_ref().is_none_or(|text| text.trim().is_empty());
    let mut settings: Json = match &before {
        Some(text) if !blank => serde_json::from_str(text).with_context(|| {
            format!("{} is not JSON\nhelp: mend it first; nothing was written", path.display())
        })?,
        _ => Json::Object(Vec::new()),
    };
    let old = settings.clone();
    let shaped = change(agent, &mut settings, commands);
    shaped.with_context(|| {
        format!(
            "{} has not the shape of settings of {}\nhelp: mend it first; nothing was written",
            path.display(),
            agent.title()
        )
    })?;
    let text = format!("{}\n", serde_json::to_string_pretty(&settings)?);
    let change = match () {
        () if settings == old && (before.is_some() || commands.is_empty()) => Change::Nothing,
        () if commands.is_empty() && settings == Json::Object(Vec::new()) => Change::Remove,
        () => Change::Write,
    };
    Ok(Plan { path, change, text })
}

/// The settings file of a project, or of the user.
fn settings_of(agent: Agent, project: Option<&Path>) -> Result<PathBuf> {
    if let Some(project) = project {
        let project = fs::canonicalize(project).with_context(|| {
            format!("the project {} cannot be opened\nhelp: check `--project`", project.display())
        })?;
        return Ok(agent.settings(&project));
    }
    let (variable, file) = match agent {
        Agent::Claude => ("CLAUDE_CONFIG_DIR", "settings.json"),
        Agent::Codex => ("CODEX_HOME", "hooks.json"),
        Agent::OpenHands => ("OH_PERSISTENCE_DIR", "hooks.json"),
    };
    if let Some(folder) = std::env::var_os(variable).filter(|folder| !folder.is_empty()) {
        return Ok(PathBuf::from(folder).join(file));
    }
    match std::env::var_os("HOME") {
        Some(home) => Ok(agent.settings(Path::new(&home))),
        None => bail!("the user has no home folder\nhelp: set HOME, or give `--project DIR`"),
    }
}

/// Takes our hooks out of the settings and puts `commands` in.
fn change(agent: Agent, settings: &mut Json, commands: &[(AgentEvent, String)]) -> Result<()> {
    let Json::Object(fields) = settings else { bail!("it is no JSON object") };
    // OpenHands also takes the events without `hooks` around them.
    let bare =
        agent == Agent::OpenHands && !fields.is_empty() && !fields.iter().any(|(name, _)| name == "hooks");
    let new = !bare && !fields.iter().any(|(name, _)| name == "hooks");
    if new {
        if commands.is_empty() {
            return Ok(());
        }
        fields.push(("hooks".into(), Json::Object(Vec::new())));
    }
    let events = match bare {
        true => &mut *fields,
        false => match fields.iter_mut().find(|(name, _)| name == "hooks").map(|(_, value)| value) {
            Some(Json::Object(events)) => events,
            _ => bail!("`hooks` is no JSON object"),
        },
    };
    for (name, groups) in events.iter_mut() {
        let Json::List(groups) = groups else { bail!("`{name}` is no list") };
        take_out(agent, groups);
    }
    let emptied = |groups: &Json| *groups == Json::List(Vec::new());
    events.retain(|(_, groups)| !emptied(groups));
    for (event, command) in commands {
        let spellings = [event.name().to_owned(), snake(event.name())];
        let group = group(agent, *event, command);
        let found = events
            .iter_mut()
            .find(|(name, _)| *name == spellings[0] || bare_name(agent, name, &spellings[1]));
        match found.map(|(_, groups)| groups) {
            Some(Json::List(groups)) => groups.push(group),
            Some(_) => bail!("`{}` is no list", event.name()),
            None => events.push((event.name().to_owned(), Json::List(vec![group]))),
        }
    }
    if commands.is_empty() && !bare {
        fields.retain(|(name, value)| name != "hooks" || *value != Json::Object(Vec::new()));
    }
    Ok(())
}

/// OpenHands spells its events in two ways, and takes each in one of them only.
fn bare_name(agent: Agent, name: &str, snake: &str) -> bool {
    agent == Agent::OpenHands && name == snake
}

fn group(agent: Agent, event: AgentEvent, command: &str) -> Json {
    let handler = vec![
        ("type".to_owned(), Json::text("command")),
        ("command".to_owned(), Json::text(command)),
        ("timeout".to_owned(), Json::Other(SECONDS.into())),
    ];
    let mut group = Vec::new();
    if event.is_of_a_tool() && agent != Agent::Codex {
        group.push(("matcher".to_owned(), Json::text("*")));
    }
    group.push(("hooks".to_owned(), Json::List(vec![Json::Object(handler)])));
    Json::Object(group)
}

/// Takes our handlers out; a group that held nothing else goes with them.
fn take_out(agent: Agent, groups: &mut Vec<Json>) {
    for group in groups.iter_mut() {
        let Json::Object(fields) = group else { continue };
        let ours = |handler: &Json| {
            handler.get("command").and_then(Json::as_str).is_some_and(|command| is_ours(agent, command))
        };
        let mut emptied = false;
        for (name, value) in fields.iter_mut() {
            if let ("hooks", Json::List(handlers)) = (name.as_str(), value) {
                let before = handlers.len();
                handlers.retain(|handler| !ours(handler));
                emptied = before > 0 && handlers.is_empty();
            }
        }
        if emptied {
            *group = Json::Other(serde_json::Value::Null);
        }
    }
    groups.retain(|group| *group != Json::Other(serde_json::Value::Null));
}

/// Whether `install` wrote a command: `…/tandem-hook AGENT EVENT --harness …`, or `…/tandem hook …`.
fn is_ours(agent: Agent, command: &str) -> bool {
    let between = format!(" {} ", agent.word());
    let Some((program, rest)) = command.split_once(&between) else { return false };
    let program = program.strip_suffix(" hook").unwrap_or(program).trim_matches('\'');
    let named = program.rsplit('/').next().is_some_and(|name| name == "tandem" || name == SMALL);
    let mut words = rest.split(' ');
    named && words.next().and_then(AgentEvent::named).is_some() && words.next() == Some("--harness")
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:,=@%+".contains(&byte);
    match !word.is_empty() && word.bytes().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

fn snake(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const US: &str = "/opt/tandem hook claude Stop --harness /h.toml --home /x";

    fn check(agent: Agent, before: &str, commands: &[(AgentEvent, &str)], expected: Expect) {
        let mut settings: Json = serde_json::from_str(before).unwrap();
        let commands: Vec<_> =
            commands.iter().map(|(event, command)| (*event, (*command).to_owned())).collect();
        let answer = match change(agent, &mut settings, &commands) {
            Ok(()) => serde_json::to_string(&settings).unwrap(),
            Err(error) => format!("error: {error}"),
        };
        expected.assert_eq(&answer);
        let mut again: Json = settings.clone();
        let _ = change(agent, &mut again, &commands);
        assert_eq!(settings, again, "doing it twice is doing it once");
    }

    #[test]
    fn what_is_there_stays_in_its_order() {
        let stop = [(AgentEvent::Stop, US)];
        check(
            Agent::Claude,
            "{}",
            &stop,
            expect![[
                r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"/opt/tandem hook claude Stop --harness /h.toml --home /x","timeout":60}]}]}}"#
            ]],
        );
        check(
            Agent::Claude,
            r#"{"z":1,"hooks":{"Stop":[{"hooks":[{"type":"command","command":"mine.sh"}]}],"Other":[]},"a":[2.5]}"#,
            &stop,
            expect![[
                r#"{"z":1,"hooks":{"Stop":[{"hooks":[{"type":"command","command":"mine.sh"}]},{"hooks":[{"type":"command","command":"/opt/tandem hook claude Stop --harness /h.toml --home /x","timeout":60}]}]},"a":[2.5]}"#
            ]],
        );
    }

    #[test]
    fn an_older_harness_is_replaced_and_nothing_of_others() {
        let before = r#"{"hooks":{"Stop":[{"hooks":[{"command":"'/a b/tandem' hook claude Stop --harness old"},{"command":"x"}]},{"hooks":[{"command":"/x/tandem-hook claude Stop --harness older"}]}]}}"#;
        check(Agent::Claude, before, &[], expect![[r#"{"hooks":{"Stop":[{"hooks":[{"command":"x"}]}]}}"#]]);
        check(
            Agent::Claude,
            r#"{"hooks":{"Stop":[{"hooks":[{"command":"nottandem hook claude Stop --harness x"},{"command":"tandem hook codex Stop --harness x"}]}]}}"#,
            &[],
            expect![[
                r#"{"hooks":{"Stop":[{"hooks":[{"command":"nottandem hook claude Stop --harness x"},{"command":"tandem hook codex Stop --harness x"}]}]}}"#
            ]],
        );
    }

    #[test]
    fn taking_the_last_hook_out_leaves_no_trace() {
        let before = format!(r#"{{"model":"m","hooks":{{"Stop":[{{"hooks":[{{"command":"{US}"}}]}}]}}}}"#);
        check(Agent::Claude, &before, &[], expect![[r#"{"model":"m"}"#]]);
        check(Agent::Claude, r#"{"model":"m"}"#, &[], expect![[r#"{"model":"m"}"#]]);
    }

    #[test]
    fn openhands_takes_each_event_in_one_spelling() {
        let stop = [(AgentEvent::PreToolUse, "c")];
        check(
            Agent::OpenHands,
            r#"{"pre_tool_use":[{"matcher":"x","hooks":[]}]}"#,
            &stop[..0],
            expect![[r#"{"pre_tool_use":[{"matcher":"x","hooks":[]}]}"#]],
        );
        let ours = [(AgentEvent::PreToolUse, "tandem hook openhands PreToolUse --harness h")];
        check(
            Agent::OpenHands,
            r#"{"pre_tool_use":[{"matcher":"x","hooks":[]}]}"#,
            &ours,
            expect![[
                r#"{"pre_tool_use":[{"matcher":"x","hooks":[]},{"matcher":"*","hooks":[{"type":"command","command":"tandem hook openhands PreToolUse --harness h","timeout":60}]}]}"#
            ]],
        );
    }

    #[test]
    fn settings_of_another_shape_are_left_alone() {
        let stop = [(AgentEvent::Stop, US)];
        check(Agent::Claude, "[]", &stop, expect!["error: it is no JSON object"]);
        check(Agent::Claude, r#"{"hooks":1}"#, &stop, expect!["error: `hooks` is no JSON object"]);
        check(Agent::Claude, r#"{"hooks":{"Stop":{}}}"#, &stop, expect!["error: `Stop` is no list"]);
    }

    #[test]
    fn words_are_quoted_as_a_shell_reads_them() {
        let check = |word: &str, expected: &str| assert_eq!(quoted(word), expected);
        check("/opt/tandem", "/opt/tandem");
        check("/a b/$x", "'/a b/$x'");
        check("it's", "'it'\\''s'");
        check("", "''");
    }
}
