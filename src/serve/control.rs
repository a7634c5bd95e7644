//! How is a running server told to swap, and how does it say that it did? Over a Unix socket that only its
//! owner reaches: one line of JSON each way.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// Most bytes of a line.
const LINE: u64 = 64 << 10;
/// How long a question may take to arrive.
const ASKING: Duration = Duration::from_secs(5);
/// How long a server may take to build a harness.
const BUILDING: Duration = Duration::from_secs(300);

/// What a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Ask {
    /// What it serves, and from which home.
    Status,
    /// To serve the current harness of its home from now on.
    Follow,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    Serving {
        home: PathBuf,
        /// The harness digest that new sessions get.
        harness: String,
        /// Sessions that are open.
        sessions: usize,
    },
    /// It serves what it served before, for this reason.
    Refused { reason: String },
}

/// The socket of a server; removed when this is dropped.
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl ControlSocket {
    /// Makes the socket; one that a server left behind that is no more is replaced.
    ///
    /// # Errors
    /// When another server listens there, or something else than a socket is there.
    pub fn bind(path: &Path) -> Result<Self> {
        if let Ok(found) = std::fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                bail!(
                    "{} is there already and no socket\nhelp: name another path with `--control`",
                    path.display()
                );
            }
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                bail!(
                    "another server listens at {}\nhelp: name another path with `--control`",
                    path.display()
                );
            }
            std::fs::remove_file(path).with_context(|| format!("{} cannot be replaced", path.display()))?;
        }
        // In a folder of its own until its mode is set: nobody connects before.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let what = || {
            format!(
                "no socket can be made at {}\nhelp: name a short path in a folder of yours with `--control`",
                path.display()
            )
        };
        let scratch =
            tempfile::Builder::new().prefix(".c").rand_bytes(4).tempdir_in(parent).with_context(what)?;
        let made = scratch.path().join("s");
        let listener = UnixListener::bind(&made).with_context(what)?;
        std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o600)).with_context(what)?;
        std::fs::rename(&made, path).with_context(what)?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Answers questions, one after the other.
    pub async fn serve(&self, answer: impl AsyncFn(Ask) -> Told) {
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            if let Err(error) = one(stream, &answer).await {
                tracing::debug!("a question on the control socket was not answered: {error}");
            }
        }
    }
}

async fn one(mut stream: UnixStream, answer: &impl AsyncFn(Ask) -> Told) -> Result<()> {
    // The mode of the socket keeps others out; who got in otherwise is not heard.
    let (theirs, own) = (stream.peer_cred()?.uid(), own_user());
    if theirs != own && theirs != 0 {
        bail!("user {theirs} asks, and the server is user {own}'s");
    }
    let asked = tokio::time::timeout(ASKING, line(&mut stream)).await.context("it took too long")??;
    let told = match serde_json::from_slice(&asked) {
        Ok(ask) => answer(ask).await,
        Err(error) => Told::Refused { reason: format!("this is no question that is known: {error}") },
    };
    let text = format!("{}\n", serde_json::to_string(&told)?);
    tokio::time::timeout(ASKING, stream.write_all(text.as_bytes())).await.context("nobody reads")??;
    Ok(())
}

fn own_user() -> u32 {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

async fn line(stream: &mut UnixStream) -> Result<Vec<u8>> {
    let mut line = Vec::new();
    BufReader::new(stream.take(LINE)).read_until(b'\n', &mut line).await?;
    Ok(line)
}

/// Asks the server at `socket`.
///
/// # Errors
/// When no server answers, or it refuses.
pub async fn ask(socket: &Path, ask: Ask) -> Result<(PathBuf, String, usize)> {
    let whom = socket.display();
    let mut stream = UnixStream::connect(socket).await.with_context(|| {
        format!("no server listens at {whom}\nhelp: start one with `tandem serve mcp --control {whom}`")
    })?;
    let text = format!("{}\n", serde_json::to_string(&ask)?);
    stream.write_all(text.as_bytes()).await.with_context(|| format!("the server at {whom} hung up"))?;
    let answer = tokio::time::timeout(BUILDING, line(&mut stream)).await;
    let answer = answer.with_context(|| format!("the server at {whom} does not answer"))??;
    let told = serde_json::from_slice(&answer)
        .with_context(|| format!("what answers at {whom} is no server of this version"))?;
    match told {
        Told::Serving { home, harness, sessions } => Ok((home, harness, sessions)),
        Told::Refused { reason } => bail!("the server at {whom} goes on with what it served: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serving() -> Told {
        Told::Serving { home: "/home".into(), harness: "sha256:a".into(), sessions: 2 }
    }

    #[tokio::test]
    async fn a_question_is_answered_and_nonsense_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let socket = ControlSocket::bind(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = ControlSocket::bind(&path).err().unwrap().to_string();
        assert!(again.contains("another server listens"), "{again}");
        let answer = async |ask| match ask {
            Ask::Status => serving(),
            Ask::Follow => Told::Refused { reason: "it does not build".into() },
        };
        let asking = async {
            assert_eq!(ask(&path, Ask::Status).await.unwrap(), ("/home".into(), "sha256:a".into(), 2));
            let refused = ask(&path, Ask::Follow).await.unwrap_err().to_string();
            assert!(refused.ends_with("goes on with what it served: it does not build"), "{refused}");
            let mut stream = UnixStream::connect(&path).await.unwrap();
            stream.write_all(b"{\"ask\": \"dance\"}\n").await.unwrap();
            let answer = line(&mut stream).await.unwrap();
            assert!(String::from_utf8(answer).unwrap().starts_with("{\"refused\":"));
        };
        tokio::select! {
            () = socket.serve(answer) => {}
            () = asking => {}
        }
        drop(socket);
        let gone = ask(&path, Ask::Status).await.unwrap_err().to_string();
        assert!(gone.contains("no server listens"), "{gone}");
    }

    #[tokio::test]
    async fn a_socket_that_was_left_behind_is_replaced_and_a_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(ControlSocket::bind(&path).unwrap());
        assert!(!path.exists());
        std::fs::write(&path, "precious").unwrap();
        assert!(ControlSocket::bind(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
