//! A teacher that is a program: the request as JSON on its standard input, the
//! reply as text on its standard output. It has a time limit, and everything it
//! started in its process group is gone when the exchange is over.

use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::backend::{Backend, Secrets, Trouble, variable};
use super::config::TeacherConfig;
use super::request::{Finish, TeacherReply, TeacherRequest};

/// More than any model writes.
const MAX_ANSWER: u64 = 8 << 20;
/// Of its standard error, for the message.
const MAX_ERRORS: usize = 16 << 10;
/// What every program sees of the environment.
const PLAIN: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// A program that answers.
pub struct Program {
    command: Vec<String>,
    env: Vec<(String, String)>,
    limit: Duration,
    secrets: Secrets,
}

impl Program {
    /// # Errors
    /// A variable of `env` that is not set.
    pub fn new(config: &TeacherConfig) -> Result<Self, String> {
        let given = config
            .env
            .iter()
            .map(|name| Ok((name.clone(), variable(name)?)))
            .collect::<Result<Vec<_>, String>>()?;
        let secrets = Secrets::new(given.iter().map(|(_, value)| value.trim().to_owned()));
        let plain = PLAIN.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
        let env = plain.chain(given).collect();
        let limit = Duration::from_secs(config.timeout_seconds);
        Ok(Self { command: config.command.clone(), env, limit, secrets })
    }

    async fn exchange(&self, request: &TeacherRequest) -> Result<TeacherReply, Trouble> {
        let name = self.model();
        let mut group = self.start()?;
        let failed = |what: String| Trouble::passing(format!("the teacher program `{name}` {what}"));
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (group.child.stdin.take(), group.child.stdout.take(), group.child.stderr.take())
        else {
            return Err(failed("has no pipes".into()));
        };
        let json = request.to_json();
        let write = async {
            // A program that answers without reading its input to the end is free to.
            let _ = stdin.write_all(json.as_bytes()).await;
            let _ = stdin.write_all(b"\n").await;
            drop(stdin);
            Ok::<(), std::io::Error>(())
        };
        let (mut text, mut errors) = (Vec::new(), Vec::new());
        let mut stdout = stdout.take(MAX_ANSWER + 1);
        let read = async {
            stdout.read_to_end(&mut text).await?;
            // Who reads no further must not wait either: the program would write for ever.
            match text.len() as u64 > MAX_ANSWER {
                true => Err(std::io::ErrorKind::FileTooLarge.into()),
                false => Ok(()),
            }
        };
        let work = async {
            tokio::try_join!(write, read, tail(stderr, &mut errors))?;
            group.child.wait().await
        };
        let seconds = self.limit.as_secs();
        let ended = tokio::time::timeout(self.limit, work).await;
        let status = match ended {
            Err(_) => return Err(failed(format!("was not done after {seconds} seconds")).after("")),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                let what = format!("the teacher program `{name}` wrote more than {MAX_ANSWER} bytes");
                return Err(Trouble::lasting(what, "let it write the reply alone"));
            }
            Ok(Err(error)) => return Err(failed(format!("cannot be read: {error}"))),
            Ok(Ok(status)) => status,
        };
        if !status.success() {
            let errors = String::from_utf8_lossy(&errors);
            let last = errors.trim().lines().last().unwrap_or("it said nothing").to_owned();
            let how = status.code().map_or_else(|| "by a signal".into(), |code| format!("with {code}"));
            return Err(failed(format!("ended {how}: {last}")));
        }
        match String::from_utf8(text) {
            Ok(text) => Ok(TeacherReply::estimated(request, text, Finish::End)),
            Err(_) => Err(failed("wrote something else than UTF-8 text".into())),
        }
    }

    fn start(&self) -> Result<Group, Trouble> {
        let (program, arguments) = self.command.split_first().map_or(("", &[][..]), |(p, a)| (p.as_str(), a));
        let child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        child.map(Group::of).map_err(|error| {
            Trouble::lasting(
                format!("the teacher program `{program}` cannot be started: {error}"),
                "check `command`; the program is looked up in `PATH`",
            )
        })
    }
}

/// Reads to the end and keeps the last part.
async fn tail(mut from: impl AsyncRead + Unpin, kept: &mut Vec<u8>) -> std::io::Result<()> {
    while from.read_buf(kept).await? > 0 {
        let over = kept.len().saturating_sub(MAX_ERRORS);
        kept.drain(..over);
    }
    Ok(())
}

/// A child with its process group, which ends with it.
struct Group {
    child: Child,
    id: Option<i32>,
}

impl Group {
    fn of(child: Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self { child, id }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What the program left running keeps the group's number in use. An empty group's
        // number was freed a moment ago, and the kernel gives numbers out in turn.
        if let Some(id) = self.id {
            // SAFETY: `kill` takes no pointers; a negative number names the process group.
            unsafe { libc::kill(-id, libc::SIGKILL) };
        }
    }
}

#[async_trait]
impl Backend for Program {
    async fn answer(&self, request: &TeacherRequest) -> Result<TeacherReply, Trouble> {
        self.secrets.blot_result(self.exchange(request).await)
    }

    fn model(&self) -> String {
        let program = self.command.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or_default().to_owned()
    }
}
