//! How does text come out of tokens one by one?

use super::{Tokenizer, TokenizerError};

/// The text of a growing list of tokens, in pieces that can be shown at once.
///
/// A character whose bytes are not all there waits for the rest, and what may be the beginning of
/// a stop text waits until it is clear that it is none. All pieces together are
/// [`decode`](Tokenizer::decode) of all tokens, cut before the first stop text.
pub struct TextStream {
    tokenizer: Tokenizer,
    stops: Vec<String>,
    ids: Vec<u32>,
    /// Tokens before this one are decoded no more; those from here to `shown` are decoded again
    /// each time, since some decoders join tokens by what stands before.
    start: usize,
    shown: usize,
    /// Decoded and not yet given out.
    held: String,
    over: bool,
}

impl TextStream {
    /// An empty text that ends before the first of `stops`.
    pub fn new(tokenizer: &Tokenizer, stops: &[String]) -> Self {
        let stops = stops.iter().filter(|stop| !stop.is_empty()).cloned().collect();
        let tokenizer = tokenizer.clone();
        Self { tokenizer, stops, ids: Vec::new(), start: 0, shown: 0, held: String::new(), over: false }
    }

    /// Adds a token; gives the text that is certain by it.
    pub fn push(&mut self, id: u32) -> Result<String, TokenizerError> {
        self.ids.push(id);
        let before = self.tokenizer.decode(&self.ids[self.start..self.shown])?;
        let now = self.tokenizer.decode(&self.ids[self.start..])?;
        if now.ends_with('\u{fffd}') {
            return Ok(String::new());
        }
        self.take(&before, &now);
        Ok(self.release(false))
    }

    /// The rest of the text.
    pub fn finish(&mut self) -> Result<String, TokenizerError> {
        let before = self.tokenizer.decode(&self.ids[self.start..self.shown])?;
        let now = self.tokenizer.decode(&self.ids[self.start..])?;
        self.take(&before, &now);
        Ok(self.release(true))
    }

    fn take(&mut self, before: &str, now: &str) {
        // Not a slice by length: a decoder may write what stood before in another way.
        self.held.push_str(now.strip_prefix(before).unwrap_or(now));
        self.start = self.shown;
        self.shown = self.ids.len();
    }

    fn release(&mut self, at_end: bool) -> String {
        if self.over {
            self.held.clear();
            return String::new();
        }
        let found = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min();
        if let Some(at) = found {
            self.over = true;
            self.held.truncate(at);
            return std::mem::take(&mut self.held);
        }
        let begun = self.stops.iter().map(|stop| overlap(&self.held, stop)).max();
        let keep = begun.filter(|_| !at_end).unwrap_or(0);
        self.held.drain(..self.held.len() - keep).collect()
    }
}

/// The length of the longest end of `text` that is a beginning of `stop`.
fn overlap(text: &str, stop: &str) -> usize {
    let lengths = stop.char_indices().map(|(at, _)| at).filter(|at| *at > 0 && *at <= text.len());
    lengths.filter(|length| text.ends_with(&stop[..*length])).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SMOLLM2, weights};
    use crate::weights::Gguf;

    fn pieces(tokenizer: &Tokenizer, stops: &[&str], ids: &[u32]) -> Vec<String> {
        let stops: Vec<String> = stops.iter().map(|stop| stop.to_string()).collect();
        let mut stream = TextStream::new(tokenizer, &stops);
        let mut pieces: Vec<String> = ids.iter().map(|id| stream.push(*id).unwrap()).collect();
        pieces.push(stream.finish().unwrap());
        pieces
    }

    fn check(stops: &[&str], text: &str, expected: &[&str]) {
        let tokenizer = Tokenizer::of_bytes();
        assert_eq!(pieces(&tokenizer, stops, &tokenizer.encode(text).unwrap()), expected);
    }

    #[test]
    fn a_character_is_given_whole() {
        check(&[], "aé", &["a", "", "é", ""]);
        check(&[], "🦀", &["", "", "", "🦀", ""]);
    }

    #[test]
    fn a_stop_text_is_never_shown_in_part() {
        check(&["END"], "aEbEND", &["a", "", "Eb", "", "", "", ""]);
        check(&["END"], "aEN", &["a", "", "", "EN"]);
        check(&["END"], "aENDb", &["a", "", "", "", "", ""]);
        check(&["é!"], "xé!", &["x", "", "", "", ""]);
    }

    #[test]
    fn bytes_that_are_no_character_come_at_the_end() {
        let tokenizer = Tokenizer::of_bytes();
        assert_eq!(pieces(&tokenizer, &[], &[97, 0xc3]).concat(), "a\u{fffd}");
    }

    #[test]
    fn the_pieces_are_the_whole_text() {
        let mut tokenizers = vec![Tokenizer::of_bytes()];
        if let Some(path) = weights(SMOLLM2) {
            tokenizers.push(Tokenizer::from_gguf(Gguf::open(&path).unwrap().metadata()).unwrap());
        }
        for tokenizer in tokenizers {
            for text in ["", "naïve café — ½\n", "日本語 🦀🦀 \r\n\t x", "  two  spaces ", "<|im_end|> 1 2 3"]
            {
                let ids = tokenizer.encode(text).unwrap();
                assert_eq!(pieces(&tokenizer, &["never said"], &ids).concat(), text);
            }
        }
    }
}
