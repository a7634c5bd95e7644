//! How is text cut that is too long for the policy to see? (contract rule 10)

use std::borrow::Cow;

/// `text` if it has at most `limit` characters, else its head and tail around a line with both
/// numbers. The line comes on top of `limit`.
pub fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    let all = text.chars().count();
    if all <= limit {
        return Cow::Borrowed(text);
    }
    let tail = limit / 2;
    let head = limit - tail;
    let at = |chars| text.char_indices().nth(chars).map_or(text.len(), |(byte, _)| byte);
    let (head, tail) = (&text[..at(head)], &text[at(all - tail)..]);
    Cow::Owned(format!("{head}\n[cut: {limit} of {all} characters are shown]\n{tail}"))
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn rule_10_text_over_the_cap_is_cut_head_and_tail_with_both_numbers() {
        let check = |text: &str, limit, expected: &str| assert_eq!(cut(text, limit), expected);
        check("", 0, "");
        check("abc", 3, "abc");
        check("abcd", 3, "ab\n[cut: 3 of 4 characters are shown]\nd");
        check("abcdefgh", 4, "ab\n[cut: 4 of 8 characters are shown]\ngh");
        check("a\u{e9}\u{1f980}d", 2, "a\n[cut: 2 of 4 characters are shown]\nd");
        check("abc", 0, "\n[cut: 0 of 3 characters are shown]\n");
    }
}
