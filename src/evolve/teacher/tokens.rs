//! How many tokens does a text have at most, as far as one can say without the model's tokenizer?

/// An upper estimate for byte-pair tokenizers: a token for every three letters, for
/// every digit and every other visible ASCII character, for every run of white space
/// that is more than one blank, and for every byte beyond ASCII.
pub fn estimate(text: &str) -> usize {
    let (mut tokens, mut letters, mut blanks) = (0, 0usize, 0usize);
    for c in text.chars() {
        letters = if c.is_ascii_alphabetic() { letters + 1 } else { 0 };
        let space = c.is_ascii_whitespace();
        tokens += match c {
            // A single blank is part of the word after it.
            ' ' => usize::from(blanks == 1),
            _ if space => usize::from(blanks < 2),
            _ if c.is_ascii_alphabetic() => usize::from(letters % 3 == 1),
            _ => c.len_utf8(),
        };
        blanks = match c {
            ' ' => blanks + 1,
            // Any other white space starts a run that counts as one.
            _ if space => blanks + 2,
            _ => 0,
        };
    }
    tokens
}

/// The head and the tail of `text`, so that the estimate is at most `limit`, around
/// a line that says what is missing. Text that fits stays as it is.
pub fn shorten(text: &str, limit: usize) -> String {
    let all = estimate(text);
    if all <= limit {
        return text.to_owned();
    }
    let mark = "\n[… cut …]\n";
    let mut keep = text.len().saturating_mul(limit) / all.max(1);
    loop {
        let half = keep / 2;
        let head = floor(text, half);
        let tail = ceil(text, text.len() - half);
        let cut = format!("{}{mark}{}", &text[..head], &text[tail..]);
        if estimate(&cut) <= limit {
            return cut;
        }
        if keep == 0 {
            return String::new();
        }
        keep = keep * 9 / 10;
    }
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_digits_blanks_and_wide_characters_count() {
        let check = |text: &str, expected| assert_eq!(estimate(text), expected, "{text:?}");
        check("", 0);
        check("the cat", 2);
        check("function", 3);
        check("2026", 4);
        check("a\n\n\n    b", 3);
        check("a    b", 3);
        check("é", 2);
        check("{}();", 5);
    }

    #[test]
    fn a_shortened_text_keeps_its_limit_its_head_and_its_tail() {
        let text = "word ".repeat(4_000) + "🦀 end";
        for limit in [0, 5, 20, 100, 3_000] {
            let cut = shorten(&text, limit);
            assert!(estimate(&cut) <= limit, "{} > {limit}", estimate(&cut));
        }
        let cut = shorten(&text, 100);
        assert!(cut.starts_with("word word") && cut.ends_with("🦀 end"), "{cut}");
        assert_eq!(shorten("short", 10), "short");
    }
}
