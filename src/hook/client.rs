//! How does a hook's process get its answer in time? It asks the daemon, and starts one if none is
//! there. No async runtime and no command-line parser stand in between: an agent waits for this.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::agent::{Agent, AgentEvent};
use super::journal::Journal;
use super::place::Place;
use super::target::Target;
use super::wire::{Answered, INPUT_BYTES, Question, Reply, ask};

/// How long a daemon that is there may take for an answer.
const ANSWER: Duration = Duration::from_secs(20);
/// How long a daemon may take to start: it compiles plugins at the first time.
const START: Duration = Duration::from_secs(40);
/// How long nobody tries again after a daemon could not start.
const RETRY: Duration = Duration::from_secs(60);
/// The program that an agent starts.
pub const SMALL: &str = "tandem-hook";
const STEP: Duration = Duration::from_millis(5);

/// Answers `tandem hook AGENT EVENT --harness H [--home DIR]`, the words that `install` writes; none
/// for all other words.
pub fn quick(words: impl Iterator<Item = OsString>) -> Option<u8> {
    let words: Vec<String> = words.skip(1).map(|word| word.into_string().ok()).collect::<Option<_>>()?;
    let [hook, agent, event, rest @ ..] = words.as_slice() else { return None };
    if hook != "hook" {
        return None;
    }
    let (agent, event) = (Agent::named(agent)?, AgentEvent::named(event)?);
    let (mut harness, mut home) = (None, None);
    for pair in rest.chunks(2) {
        match pair {
            [name, value] if name == "--harness" => harness = Some(value),
            [name, value] if name == "--home" => home = Some(value),
            _ => return None,
        }
    }
    Some(answer(agent, event, harness?, home.map_or(".tandem", String::as_str)))
}

/// Reads what the agent says, asks, and writes the answer. Trouble is no answer, and exit code 0.
fn answer(agent: Agent, event: AgentEvent, harness: &str, home: &str) -> u8 {
    let Ok(target) = Target::new(harness, Path::new(home)) else { return 0 };
    let Ok(place) = Place::of(&target) else { return 0 };
    let journal = Journal::new(place.journal());
    let asked = || -> io::Result<Reply> {
        let mut input = Vec::new();
        io::stdin().take(INPUT_BYTES + 1).read_to_end(&mut input)?;
        event_of(&place, &target, agent, event, &input)
    };
    match asked() {
        Ok(reply) => {
            let mut out = io::stdout().lock();
            let _ = out.write_all(reply.stdout.as_bytes()).and_then(|()| out.flush());
            reply.exit
        }
        Err(error) => {
            journal.trouble(&format!("{} {}: {error}", agent.title(), event.name()));
            0
        }
    }
}

/// Asks the daemon about one event.
pub fn event_of(
    place: &Place,
    target: &Target,
    agent: Agent,
    event: AgentEvent,
    input: &[u8],
) -> io::Result<Reply> {
    let folder = agent.project_variable().and_then(|name| std::env::var(name).ok());
    let question = Question::Event { agent, event, folder, bytes: input.len() as u64 };
    match ask(connect(place, target)?, &question, input)? {
        Answered::Reply(reply) => Ok(reply),
        Answered::Status(_) | Answered::Stopping => Err(other("the daemon gave no answer")),
    }
}

/// Asks a daemon that is there about itself; none where there is none.
pub fn control(place: &Place, question: &Question) -> io::Result<Option<Answered>> {
    match try_connect(&place.socket()) {
        Ok(connection) => Ok(Some(ask(connection, question, &[])?)),
        Err(error) if is_nobody(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn try_connect(socket: &Path) -> io::Result<UnixStream> {
    let connection = UnixStream::connect(socket)?;
    connection.set_read_timeout(Some(ANSWER))?;
    connection.set_write_timeout(Some(ANSWER))?;
    Ok(connection)
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn other(what: &str) -> io::Error {
    io::Error::other(what.to_owned())
}

/// Connects to the daemon. Where there is none, one process starts it and the others wait for that.
fn connect(place: &Place, target: &Target) -> io::Result<UnixStream> {
    match try_connect(&place.socket()) {
        Err(error) if is_nobody(&error) => {}
        connected => return connected,
    }
    let until = Instant::now() + START;
    let lock = open_lock(&place.start_lock())?;
    while lock.try_lock().is_err() {
        if Instant::now() > until {
            return Err(other("another process is starting the daemon and does not come to an end"));
        }
        sleep(STEP);
    }
    match try_connect(&place.socket()) {
        Err(error) if is_nobody(&error) => {}
        connected => return connected,
    }
    let failed = fs::metadata(place.failed()).and_then(|meta| meta.modified()).ok();
    if failed.and_then(|when| when.elapsed().ok()).is_some_and(|ago| ago < RETRY) {
        return Err(other("the daemon could not start a moment ago; the journal says why"));
    }
    let mut daemon = start(target)?;
    loop {
        match try_connect(&place.socket()) {
            Err(error) if is_nobody(&error) => {}
            connected => return connected,
        }
        if daemon.try_wait()?.is_some() {
            return Err(other("the daemon ended before it answered; the journal says why"));
        }
        if Instant::now() > until {
            return Err(other("the daemon does not answer"));
        }
        sleep(STEP);
    }
}

/// The program that the daemon is: beside the small one that an agent starts.
pub fn program() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(match own.file_name() {
        Some(name) if name == SMALL => own.with_file_name("tandem"),
        _ => own,
    })
}

/// A file to lock, which says nothing.
pub fn open_lock(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Starts the daemon in a group of its own, holding nothing of the agent's open.
fn start(target: &Target) -> io::Result<std::process::Child> {
    Command::new(program()?)
        .args(["hook", "daemon", "--harness", &target.harness, "--home"])
        .arg(&target.home)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}
