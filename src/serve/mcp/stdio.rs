//! How does a client that started the server talk to it? One message a line, over standard input and output.

use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc::{UnboundedSender, channel, unbounded_channel};
use tokio::task::JoinSet;

use super::message::{Failure, INVALID_REQUEST, Incoming, notification, read, response};
use super::server::Server;
use super::session::Session;
use crate::serve::drain::Drain;

/// What came in.
enum Line {
    Whole(Vec<u8>),
    /// It went past the limit and was passed over.
    TooLong,
}

/// Answers until standard input ends, and then what is under way; when `drain` begins, nothing more.
///
/// # Errors
/// When no session can be opened or a message cannot be written.
pub async fn serve(server: &Arc<Server>, drain: &Drain, limit: usize) -> Result<()> {
    let session = Arc::new(server.open(usize::MAX).await?.context("there is no room for a session")?);
    let (lines, mut incoming) = channel(64);
    // On its own, since a line that was half read must not be lost when something else happens.
    tokio::spawn(async move {
        let mut input = BufReader::new(tokio::io::stdin());
        while let Ok(Some(line)) = next_line(&mut input, limit).await {
            if lines.send(line).await.is_err() {
                return;
            }
        }
    });
    let (out, mut outgoing) = unbounded_channel::<Value>();
    let writer = tokio::spawn(async move {
        let mut output = tokio::io::stdout();
        while let Some(message) = outgoing.recv().await {
            let line = format!("{message}\n");
            output.write_all(line.as_bytes()).await?;
            output.flush().await?;
        }
        std::io::Result::Ok(())
    });
    let mut swaps = server.swaps();
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            line = incoming.recv() => match line {
                None => break,
                Some(Line::TooLong) => {
                    let said = format!("the message has more than {limit} bytes");
                    let _ = out.send(Failure::new(INVALID_REQUEST, said).response(&Value::Null));
                }
                Some(Line::Whole(bytes)) => take(&session, &bytes, &out, &mut tasks),
            },
            Ok(()) = swaps.changed(), if server.follows() => {
                let _ = out.send(notification("notifications/tools/list_changed", json!({})));
            }
            () = drain.begun() => break,
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
        }
    }
    tokio::select! {
        () = async { while tasks.join_next().await.is_some() {} } => {}
        () = drain.begun() => session.cancel_all(),
    }
    drop(out);
    tasks.shutdown().await;
    writer.await.context("the writer of messages broke")?.context("a message could not be written")
}

/// Takes the messages of a line: requests are answered beside each other.
fn take(session: &Arc<Session>, bytes: &[u8], out: &UnboundedSender<Value>, tasks: &mut JoinSet<()>) {
    let messages = match read(bytes) {
        Ok(messages) => messages,
        Err(failure) => {
            let _ = out.send(failure.response(&Value::Null));
            return;
        }
    };
    session.prune();
    for message in messages {
        start(session, message, out, tasks);
    }
}

/// Begins to answer a message; what is said goes to `out`.
pub fn start(
    session: &Arc<Session>,
    message: Incoming,
    out: &UnboundedSender<Value>,
    tasks: &mut JoinSet<()>,
) {
    match message {
        Incoming::Response => {}
        Incoming::Notification { method, params } => session.notified(&method, &params),
        Incoming::Request { id, method, params } => {
            let (session, out, named) = (session.clone(), out.clone(), id.clone());
            let noted = session.clone();
            let task = tasks.spawn(async move {
                let answer = session.answer(&method, &params, &out).await;
                let _ = out.send(response(&id, answer));
            });
            noted.note(&named, task);
        }
    }
}

/// The next line that is not blank; none at the end.
async fn next_line(input: &mut (impl AsyncBufRead + Unpin), limit: usize) -> std::io::Result<Option<Line>> {
    let (mut line, mut too_long) = (Vec::new(), false);
    loop {
        let piece = input.fill_buf().await?;
        if piece.is_empty() {
            let whole = !line.trim_ascii().is_empty();
            return Ok((whole && !too_long).then_some(Line::Whole(line)));
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(piece.len());
        too_long |= line.len() + taken > limit;
        if !too_long {
            line.extend_from_slice(&piece[..taken]);
        }
        input.consume(taken + usize::from(end.is_some()));
        match end {
            Some(_) if too_long => return Ok(Some(Line::TooLong)),
            Some(_) if line.trim_ascii().is_empty() => line.clear(),
            Some(_) => return Ok(Some(Line::Whole(line))),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_read_within_their_limit() {
        let check = |text: &'static str, expected: &'static [Option<&'static str>]| async move {
            let mut input = BufReader::with_capacity(3, text.as_bytes());
            let mut found = Vec::new();
            while let Some(line) = next_line(&mut input, 5).await.unwrap() {
                found.push(match line {
                    Line::Whole(bytes) => Some(String::from_utf8(bytes).unwrap()),
                    Line::TooLong => None,
                });
            }
            let found: Vec<_> = found.iter().map(|line| line.as_deref()).collect();
            assert_eq!(found, expected, "{text:?}");
        };
        check("", &[]).await;
        check("\n \nab\r\n\n", &[Some("ab\r")]).await;
        check("abcde\nf", &[Some("abcde"), Some("f")]).await;
        check("abcdef\ng\n", &[None, Some("g")]).await;
        check("abcdef", &[]).await;
    }
}
