//! What did the model write? A text with fenced blocks, or a reason why the reply
//! cannot be used, in words that go back to the model. What a change of the harness
//! looks like in them is read by `draft`.

use super::request::{Finish, TeacherReply};

/// Longest sentence.
const MAX_SENTENCE: usize = 300;

/// Why a reply cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyFault {
    #[error("the reply is empty\nhelp: write the manifest and the source")]
    Empty,
    #[error(
        "the reply declines: \"{said}\"\nhelp: if the evidence is too thin for a sure cure, propose the smallest hook that could help"
    )]
    Refusal { said: String },
    #[error(
        "the reply was cut off at its limit of tokens\nhelp: write less around the two blocks, and a shorter source"
    )]
    CutOff,
    #[error(
        "the last fenced block is not closed\nhelp: end each block with a line of as many backticks as it began with"
    )]
    OpenBlock,
    #[error("there is no fenced {wanted} block\nhelp: {help}")]
    Missing { wanted: &'static str, help: String },
    #[error(
        "there are {count} fenced {wanted} blocks, and exactly 1 is taken\nhelp: leave out drafts and examples; one mechanism, one source"
    )]
    Several { wanted: &'static str, count: usize },
    #[error("a fenced block is in `{language}`, which is not asked for\nhelp: write it in {known}")]
    Language { language: String, known: String },
    #[error(
        "a fenced block does not name its language\nhelp: begin the manifest with ```toml and the source with ```{known}"
    )]
    Unnamed { known: String },
    #[error(
        "a manifest of kind `{kind}` says it all, and there is a fenced {found} block beside it\nhelp: write the manifest alone"
    )]
    Needless { kind: &'static str, found: String },
    #[error("the manifest is not right: {reason}\nhelp: {help}")]
    Manifest { reason: String, help: String },
    #[error("the {what} has {size} {unit}, and the limit is {limit}\nhelp: write less")]
    TooLong { what: &'static str, size: usize, unit: &'static str, limit: usize },
}

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The first word after the fence, lower case.
    pub language: String,
    pub text: String,
}

/// The fenced blocks of a text, by CommonMark's rules for fences: three or more
/// backticks or tildes after at most three blanks, closed by at least as many.
/// Reasoning between `<think>` and `</think>` is left out.
pub fn blocks(text: &str) -> Result<Vec<Block>, ReplyFault> {
    let text = without_thoughts(text)?;
    let mut blocks = Vec::new();
    let mut open: Option<(char, usize, Block)> = None;
    for line in text.lines() {
        let fence = fence(line);
        match (&mut open, fence) {
            (None, Some((mark, length, info))) => {
                let language = info.split([' ', ',', '{', '\t']).next().unwrap_or_default();
                let block = Block { language: language.to_ascii_lowercase(), text: String::new() };
                open = Some((mark, length, block));
            }
            (Some((mark, length, _)), Some((found, as_many, ""))) if *mark == found && as_many >= *length => {
                blocks.extend(open.take().map(|(_, _, block)| block));
            }
            (Some((_, _, block)), _) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    if open.is_some() { Err(ReplyFault::OpenBlock) } else { Ok(blocks) }
}

fn without_thoughts(text: &str) -> Result<&str, ReplyFault> {
    match text.rsplit_once("</think>") {
        Some((_, after)) => Ok(after),
        None if text.trim_start().starts_with("<think>") => Err(ReplyFault::CutOff),
        None => Ok(text),
    }
}

/// The mark, how many there are, and what follows.
fn fence(line: &str) -> Option<(char, usize, &str)> {
    let rest = line.trim_start_matches(' ');
    let mark = rest.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let info = rest.trim_start_matches(mark);
    let count = rest.len() - info.len();
    let indent = line.len() - rest.len();
    let info = info.trim();
    // An inline code span of three backticks is no fence.
    (count >= 3 && indent <= 3 && !(mark == '`' && info.contains('`'))).then_some((mark, count, info))
}

/// What an answer without a block says, if it declines.
fn refusal(text: &str) -> Option<String> {
    const MARKS: [&str; 12] = [
        "i can't",
        "i cannot",
        "i can’t",
        "i'm sorry",
        "i’m sorry",
        "i am sorry",
        "i won't",
        "i’m unable",
        "i'm unable",
        "i am unable",
        "i'm not able",
        "i must decline",
    ];
    let start: String = text.trim_start().chars().take(200).collect();
    let lower = start.to_lowercase();
    MARKS.iter().any(|mark| lower.contains(mark)).then_some(start)
}

/// The blocks of a reply that was not cut off, does not decline and has some.
pub fn usable_blocks(reply: &TeacherReply) -> Result<Vec<Block>, ReplyFault> {
    let said = || reply.text.trim().chars().take(200).collect();
    match reply.finish {
        Finish::Refusal => return Err(ReplyFault::Refusal { said: said() }),
        Finish::Length => return Err(ReplyFault::CutOff),
        Finish::End => {}
    }
    if reply.text.trim().is_empty() {
        return Err(ReplyFault::Empty);
    }
    let blocks = blocks(&reply.text)?;
    if blocks.is_empty()
        && let Some(said) = refusal(&reply.text)
    {
        return Err(ReplyFault::Refusal { said });
    }
    Ok(blocks)
}

/// The one block of `blocks` that `wanted` takes.
pub fn only<'a>(
    blocks: &'a [Block],
    wanted: &'static str,
    help: &str,
    takes: impl Fn(&Block) -> bool,
) -> Result<&'a Block, ReplyFault> {
    let found: Vec<_> = blocks.iter().filter(|block| takes(block)).collect();
    match found[..] {
        [block] => Ok(block),
        [] => Err(ReplyFault::Missing { wanted, help: help.to_owned() }),
        _ => Err(ReplyFault::Several { wanted, count: found.len() }),
    }
}

/// Whether a block holds the manifest.
pub fn is_manifest(block: &Block) -> bool {
    matches!(block.language.as_str(), "toml" | "json")
}

/// A block's manifest, in TOML or JSON.
pub fn manifest<T: serde::de::DeserializeOwned>(block: &Block, help: &str) -> Result<T, ReplyFault> {
    let parsed = match block.language.as_str() {
        "json" => serde_json::from_str(&block.text).map_err(|error| error.to_string()),
        _ => toml::from_str(&block.text).map_err(|error| error.message().trim().to_owned()),
    };
    parsed.map_err(|reason| ReplyFault::Manifest { reason, help: help.to_owned() })
}

/// One sentence of a manifest.
pub fn sentence(key: &'static str, text: &str) -> Result<(), ReplyFault> {
    let characters = text.chars().count();
    if characters > MAX_SENTENCE {
        return Err(ReplyFault::TooLong {
            what: key,
            size: characters,
            unit: "characters",
            limit: MAX_SENTENCE,
        });
    }
    if text.trim().is_empty() || text.contains('\n') {
        let reason = format!("`{key}` is not one line of text");
        return Err(ReplyFault::Manifest { reason, help: "write one plain sentence".into() });
    }
    Ok(())
}

/// Model text that goes into a message.
pub(super) fn brief(text: &str) -> String {
    text.chars().take(60).collect()
}
