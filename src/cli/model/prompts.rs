//! What does a line of input hold, and which token ids is it?

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use tandem_trainer::checkpoint::Policy;
use tandem_trainer::tokenizer::ChatMessage;

/// A line of a JSONL file: exactly one of these.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// A text that stands for itself.
    #[serde(alias = "prompt")]
    text: Option<String>,
    /// A conversation.
    messages: Option<Vec<ChatMessage>>,
    /// Token ids.
    ids: Option<Vec<u32>>,
}

/// What a conversation's ids end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The head of the reply that is to be sampled.
    Reply,
    /// The conversation's own last token.
    None,
}

impl Line {
    /// The token ids, checked against the policy's vocabulary and context.
    pub fn ids(self, policy: &Policy, ending: Ending) -> Result<Vec<u32>> {
        let ids = match self {
            Line { text: Some(text), messages: None, ids: None } => {
                policy.tokenizer.encode_document(&text)?
            }
            Line { text: None, messages: Some(messages), ids: None } => match ending {
                Ending::Reply => policy.chat.first(&messages)?,
                Ending::None => policy.chat.conversation(&messages)?.ids,
            },
            Line { text: None, messages: None, ids: Some(ids) } => ids,
            _ => bail!(
                "it has not exactly one of `text`, `messages` and `ids`\nhelp: give a text, a conversation or token ids on each line"
            ),
        };
        let config = policy.model.config();
        if let Some(id) = ids.iter().find(|id| **id as usize >= config.vocab_size) {
            bail!(
                "token {id} is not in the vocabulary of {}\nhelp: tokenise with the tokenizer of this policy",
                config.vocab_size
            );
        }
        let (found, context) = (ids.len(), config.max_position_embeddings);
        if found > context {
            bail!(
                "it has {found} tokens and the policy's context holds {context}\nhelp: shorten it, or split it"
            );
        }
        Ok(ids)
    }
}

/// The lines of a JSONL file with their numbers, read one by one; `-` is the standard input.
pub fn lines(path: &Path) -> Result<impl Iterator<Item = Result<(usize, Line)>>> {
    let name = path.display().to_string();
    let reader: Box<dyn BufRead> = match name.as_str() {
        "-" => Box::new(std::io::stdin().lock()),
        _ => Box::new(BufReader::new(
            File::open(path).with_context(|| format!("{name} cannot be opened\nhelp: check the path"))?,
        )),
    };
    Ok(reader.lines().enumerate().filter_map(move |(index, line)| {
        let number = index + 1;
        let line = match line.with_context(|| format!("line {number} of {name} cannot be read")) {
            Ok(line) if line.trim().is_empty() => return None,
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        let parsed = serde_json::from_str::<Line>(&line).with_context(|| {
            format!(
                "line {number} of {name} is not right\nhelp: each line is a JSON object such as {{\"text\": \"…\"}}, {{\"messages\": [{{\"role\": \"user\", \"content\": \"…\"}}]}} or {{\"ids\": [1, 2, 3]}}"
            )
        });
        Some(parsed.map(|line| (number, line)))
    }))
}

/// The conversation in a JSON file: a list of messages, or an object that has one as `messages`.
pub fn chat(path: &Path) -> Result<Line> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read\nhelp: check the path", path.display()))?;
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Chat {
        List(Vec<ChatMessage>),
        Object { messages: Vec<ChatMessage> },
    }
    // What serde says of a choice names our own types.
    let chat: Chat = serde_json::from_str(&text).map_err(|error| {
        let why = if error.is_data() { String::new() } else { format!(": {error}") };
        anyhow!(
            "{} is no conversation{why}\nhelp: give a JSON list such as [{{\"role\": \"user\", \"content\": \"…\"}}]; roles are system, user, assistant and tool",
            path.display()
        )
    })?;
    let (Chat::List(messages) | Chat::Object { messages }) = chat;
    Ok(Line { text: None, messages: Some(messages), ids: None })
}

/// A plain text.
pub fn text(text: String) -> Line {
    Line { text: Some(text), messages: None, ids: None }
}
