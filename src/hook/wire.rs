//! What do a hook's process and the daemon say to each other? One question and one answer for each
//! connection: a line of JSON, then as many bytes as it says.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use super::agent::{Agent, AgentEvent};

/// What the hook's process writes and ends with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    pub exit: u8,
    pub stdout: String,
}

/// Most bytes that an agent may say at once.
pub const INPUT_BYTES: u64 = 16 << 20;
/// Most bytes of the line before them.
const LINE_BYTES: u64 = 64 << 10;

/// The line before the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask")]
pub enum Question {
    /// What do the hooks want? The agent's JSON follows.
    Event {
        agent: Agent,
        event: AgentEvent,
        /// The project's folder, if the agent told it beside the JSON.
        folder: Option<String>,
        bytes: u64,
    },
    Status,
    Stop,
}

/// What a daemon says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub process: u32,
    pub harness: String,
    pub sessions: usize,
    pub calls: u64,
}

/// The daemon's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum Answered {
    Reply(Reply),
    Status(Status),
    Stopping,
}

/// Writes a line of JSON.
pub fn line<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// Asks over an open connection.
pub fn ask(mut connection: impl Read + Write, question: &Question, input: &[u8]) -> io::Result<Answered> {
    connection.write_all(&[line(question)?.as_slice(), input].concat())?;
    let mut text = Vec::new();
    connection.take(2 * INPUT_BYTES).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Reads a question and what follows it.
///
/// # Errors
/// What is no question, and more bytes than are allowed.
pub async fn read(connection: impl AsyncBufRead + Unpin) -> io::Result<(Question, Vec<u8>)> {
    let mut line = Vec::new();
    let mut connection = connection.take(LINE_BYTES);
    connection.read_until(b'\n', &mut line).await?;
    let question: Question = serde_json::from_slice(&line)?;
    let wanted = match &question {
        Question::Event { bytes, .. } => *bytes,
        Question::Status | Question::Stop => 0,
    };
    if wanted > INPUT_BYTES {
        let what = format!("the agent said {wanted} bytes, and the limit is {INPUT_BYTES}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    connection.set_limit(wanted);
    let mut input = Vec::new();
    connection.read_to_end(&mut input).await?;
    if input.len() as u64 != wanted {
        let what = format!("{wanted} bytes were announced and {} came", input.len());
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
    }
    Ok((question, input))
}
