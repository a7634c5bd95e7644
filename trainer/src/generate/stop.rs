//! When does a reply end because of what it says?

use std::sync::Arc;

use super::job::StopWhen;
use crate::tokenizer::Tokenizer;

/// A condition that is met by the token with which one of `texts` is complete; none without texts.
///
/// Only the last tokens are decoded each time: a token is at least one byte of the text, so the
/// `n` bytes of a stop text end within `n` tokens, and some more keep a character whole that
/// begins before them.
pub fn stop_at_texts(texts: &[String], tokenizer: &Tokenizer) -> Option<StopWhen> {
    let texts: Vec<String> = texts.iter().filter(|text| !text.is_empty()).cloned().collect();
    let longest = texts.iter().map(String::len).max()?;
    let tokenizer = tokenizer.clone();
    Some(Arc::new(move |ids: &[u32]| {
        let tail = &ids[ids.len().saturating_sub(longest + SLACK)..];
        // Ids that do not decode cannot hold a stop text.
        let text = tokenizer.decode(tail).unwrap_or_default();
        texts.iter().any(|stop| text.contains(stop.as_str()))
    }))
}

/// Tokens decoded beyond the length of the longest stop text.
const SLACK: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many tokens a reply ends, if it does.
    fn check(texts: &[&str], reply: &str, expected: Option<usize>) {
        let tokenizer = Tokenizer::of_bytes();
        let texts: Vec<String> = texts.iter().map(|text| text.to_string()).collect();
        let ids = tokenizer.encode(reply).unwrap();
        let met = |stop: StopWhen| (1..=ids.len()).find(|length| stop(&ids[..*length]));
        assert_eq!(stop_at_texts(&texts, &tokenizer).and_then(met), expected, "{texts:?} in {reply:?}");
    }

    #[test]
    fn the_token_that_completes_a_stop_text_is_the_last() {
        check(&["STOP"], "a STOP b", Some(6));
        check(&["STOP", "a "], "a STOP b", Some(2));
        check(&["STOP"], "a STO P", None);
        check(&["é"], "caf\u{e9}s", Some(5));
        check(&["🦀🦀"], "x🦀🦀", Some(9));
        check(&[], "anything", None);
        check(&[""], "anything", None);
    }

    #[test]
    fn a_long_reply_before_does_not_hide_it() {
        let reply = format!("{}STOP", "🦀 ".repeat(300));
        check(&["STOP"], &reply, Some(reply.len()));
    }
}
