//! How is the output of a command kept in bounded memory?

use std::collections::VecDeque;

/// The head and the tail of an output, and how long it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    head_cap: usize,
    tail_cap: usize,
}

impl Captured {
    /// Keeps at most `head_cap` bytes from the start and `tail_cap` from the end.
    pub fn new(head_cap: usize, tail_cap: usize) -> Self {
        Self { head_cap, tail_cap, ..Self::default() }
    }

    /// Appends what came next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_cap.saturating_sub(self.head.len()).min(bytes.len());
        let (to_head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(to_head);
        let rest = &rest[rest.len().saturating_sub(self.tail_cap)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_cap);
        self.tail.drain(..surplus.min(self.tail.len()));
        self.tail.extend(rest);
    }

    /// Bytes that came, kept or not.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Bytes that came and were not kept.
    pub fn dropped(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// What is kept. Where bytes were dropped, a line between head and tail says how many.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.head.clone();
        if self.dropped() > 0 {
            out.extend_from_slice(
                format!("\n[{} of {} bytes not kept]\n", self.dropped(), self.total).as_bytes(),
            );
        }
        out.extend(&self.tail);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks: &[&str], head: usize, tail: usize, expected: &str) {
        let mut captured = Captured::new(head, tail);
        for chunk in chunks {
            captured.push(chunk.as_bytes());
        }
        assert_eq!(String::from_utf8(captured.bytes()).unwrap(), expected, "{chunks:?} {head} {tail}");
        let total: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        assert_eq!(captured.total(), total as u64);
    }

    #[test]
    fn short_output_is_kept_whole() {
        check(&[], 3, 3, "");
        check(&["abc"], 3, 3, "abc");
        check(&["abc", "def"], 3, 3, "abcdef");
        check(&["a", "b", "c", "d"], 2, 2, "abcd");
    }

    #[test]
    fn long_output_keeps_head_and_tail() {
        check(&["abcdefg"], 3, 3, "abc\n[1 of 7 bytes not kept]\nefg");
        check(&["abcd", "efgh", "ijkl"], 2, 3, "ab\n[7 of 12 bytes not kept]\njkl");
        check(&["abcd", "e", "f", "g"], 2, 1, "ab\n[4 of 7 bytes not kept]\ng");
        check(&["abcdef"], 0, 0, "\n[6 of 6 bytes not kept]\n");
    }
}
