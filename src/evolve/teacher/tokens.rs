//! How many tokens does a text have at most, as far as one can say without the model's tokenizer?

/// Sixths of a token for one letter: words are in the vocabulary, constants less often.
const LOWER: usize = 2;
const UPPER: usize = 3;
/// Of a letter that is likely part of a digest, a key or other noise.
const NOISE: usize = 6;
/// Letters in a row from which on they are no word.
const LONGEST_WORD: usize = 14;

/// An upper estimate for byte-pair tokenizers: a token for every three letters of a word
/// and every two of a constant, for every letter of long runs and after a digit, for every
/// digit and other visible ASCII character, for every run of white space that is more than
/// one blank, and for every byte beyond ASCII.
pub fn estimate(text: &str) -> usize {
    let (mut tokens, mut letters, mut sixths, mut blanks) = (0, 0usize, 0usize, 0usize);
    let mut noise = false;
    for c in text.chars() {
        if c.is_ascii_alphabetic() {
            letters += 1;
            sixths += match c {
                _ if noise || letters > LONGEST_WORD => NOISE,
                'A'..='Z' => UPPER,
                _ => LOWER,
            };
        } else {
            tokens += sixths.div_ceil(6);
            (letters, sixths) = (0, 0);
            noise = c.is_ascii_digit();
        }
        let space = c.is_ascii_whitespace();
        tokens += match c {
            // A single blank is part of the word after it.
            ' ' => usize::from(blanks == 1),
            _ if space => usize::from(blanks < 2),
            _ if c.is_ascii_alphabetic() => 0,
            _ => c.len_utf8(),
        };
        blanks = match c {
            ' ' => blanks + 1,
            // Any other white space starts a run that counts as one.
            _ if space => blanks + 2,
            _ => 0,
        };
    }
    tokens + sixths.div_ceil(6)
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
        check("0x9e3779b", 9);
        check("CONSTANT_NAME", 7);
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
    #[test]
    fn the_estimate_is_not_below_a_real_tokenizer() {
        let path = crate::model::home().unwrap().join("models/smollm2-135m.gguf");
        if !path.exists() {
            eprintln!("left out: the weights are not here; `tandem model fetch smollm2-135m` gets them");
            return;
        }
        let gguf = tandem_trainer::weights::Gguf::open(&path).unwrap();
        let tokenizer = tandem_trainer::tokenizer::Tokenizer::from_gguf(gguf.metadata()).unwrap();
        let hex: String = (0..2_000u32).map(|n| format!("{:08x}", n.wrapping_mul(2_654_435_761))).collect();
        let letters: String = (0..4_000u32)
            .map(|n| char::from(b'a' + (n.wrapping_mul(2_654_435_761) >> 20) as u8 % 26))
            .collect();
        let texts = [
            include_str!("../../../wit/harness.wit"),
            include_str!("../../../plugins/sdk/src/lib.rs"),
            include_str!("../../../plugins/check-names/src/lib.rs"),
            include_str!("../../../docs/campaign.md"),
            include_str!("../../../Cargo.lock"),
            &hex,
            &letters,
            "日本語のテキスト、中文文本，한국어 텍스트 🦀🚀 Ελληνικά кириллица עברית",
            "if x == 1:\n        return [0.5, -3e10]\n\n\n\t\tpass  # ------------------------\n",
        ];
        let counts: Vec<_> = texts
            .iter()
            .map(|text| {
                let head: String = text.chars().take(30).collect();
                (estimate(text), tokenizer.encode(text).unwrap().len(), head)
            })
            .collect();
        assert!(counts.iter().all(|(about, real, _)| about >= real), "{counts:#?}");
    }
}
