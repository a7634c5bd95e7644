//! Which points does a Go source define, and what has to be compiled around it?

/// A point, as an author of Go writes it.
pub(super) struct Point {
    /// The function that a plugin defines.
    pub function: &'static str,
    /// The file of `points/` in the SDK that calls it, without its ending.
    pub file: &'static str,
    /// What follows the function's name.
    signature: &'static str,
}

impl Point {
    /// The head of the function.
    pub fn head(&self) -> String {
        format!("func {}{}", self.function, self.signature)
    }
}

const fn point(function: &'static str, file: &'static str, signature: &'static str) -> Point {
    Point { function, file, signature }
}

/// In the order of the contract.
pub(super) const POINTS: [Point; 12] = [
    point("Tools", "tools", "() []tandem.Tool"),
    point("SettingsSchema", "settings_schema", "() string"),
    point("OnEpisodeStart", "on_episode_start", "(ctx tandem.Context, instruction string) string"),
    point("OnModelCall", "on_model_call", "(ctx tandem.Context) tandem.NoteOrStop"),
    point(
        "OnFormatError",
        "on_format_error",
        "(ctx tandem.Context, problem tandem.FormatError, output string) string",
    ),
    point("OnToolCall", "on_tool_call", "(ctx tandem.Context, call tandem.ToolCall) tandem.RewriteOrRefuse"),
    point(
        "OnToolResult",
        "on_tool_result",
        "(ctx tandem.Context, call tandem.ToolCall, result tandem.ToolResult) tandem.AnnotateOrReplace",
    ),
    point("OnLoop", "on_loop", "(ctx tandem.Context, repetition tandem.Repetition) tandem.NoteOrStop"),
    point("OnSubmit", "on_submit", "(ctx tandem.Context, submission tandem.Submission) string"),
    point(
        "OnChoosePatch",
        "on_choose_patch",
        "(ctx tandem.Context, candidates []tandem.PatchCandidate) (index int, ok bool)",
    ),
    point(
        "OnLimit",
        "on_limit",
        "(ctx tandem.Context, limit tandem.Limit, workTree tandem.PatchCandidate) bool",
    ),
    point("Observe", "observe", "(ctx tandem.Context, name, payload string)"),
];

/// A function at the top of a file, no method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function<'a> {
    pub name: &'a str,
    /// Counts from 1.
    pub line: u32,
}

/// The functions that a file defines, in order. Follows only what Go calls tokens; whether the text
/// is correct is for the compiler to say.
pub(super) fn functions(text: &str) -> Vec<Function<'_>> {
    let bytes = text.as_bytes();
    let (mut found, mut depth, mut after_func, mut line, mut at) = (Vec::new(), 0_i32, false, 1, 0);
    while let Some(&byte) = bytes.get(at) {
        let rest = &text[at..];
        let length = match byte {
            b'/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            b'`' => rest[1..].find('`').map_or(rest.len(), |end| end + 2),
            b'"' | b'\'' => quoted(rest.as_bytes()),
            b'(' | b'[' | b'{' => {
                depth += 1;
                1
            }
            b')' | b']' | b'}' => {
                depth -= 1;
                1
            }
            _ if is_letter(byte) => {
                rest.bytes().position(|byte| !is_letter(byte) && !byte.is_ascii_digit()).unwrap_or(rest.len())
            }
            // A character of another alphabet is a letter too, and outside of a text nothing else.
            _ => 1,
        };
        let token = &bytes[at..at + length];
        if is_letter(byte) {
            if after_func {
                found.push(Function { name: &rest[..length], line });
            }
            after_func = depth == 0 && token == b"func";
        } else if !byte.is_ascii_whitespace() && !rest.starts_with("/*") {
            after_func = false;
        }
        line += token.iter().filter(|byte| **byte == b'\n').count() as u32;
        at += length;
    }
    found
}

/// Bytes above ASCII belong to letters.
fn is_letter(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphabetic() || byte >= 0x80
}

/// The length of a text or character in quotation marks; at most to the end of the line.
fn quoted(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\n' => return at,
            _ if byte == text[0] => return at + 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown: Vec<String> =
            functions(text).iter().map(|found| format!("{}:{}", found.name, found.line)).collect();
        assert_eq!(shown.join(" "), expected, "{text}");
    }

    #[test]
    fn only_functions_of_the_file_are_points() {
        check(
            "package p\n\nfunc OnLimit(a int) bool {\n}\nfunc  Tools () []T { return nil }",
            "OnLimit:3 Tools:5",
        );
        check("func (p P) OnLimit() {}\ntype F func()\nvar g = func() { x() }\nfunc OnLoop() {}", "OnLoop:4");
        check("/* func OnLimit() {}\n*/ // func OnSubmit() {}\nfunc /* a */ OnLoop() {}", "OnLoop:3");
        check("var a = `\nfunc OnLimit() {}\n`\nvar b = \"func OnLoop\"\nfunc C() {}", "C:5");
        check("var a = '\"'\nvar b = '\\''\nvar c = \"\\\"\"\nfunc D() {}", "D:4");
        check("func Größe() {}\nfunc Map[K any](f func(K)) {}", "Größe:1 Map:2");
        check("func f() {\n\tfunc OnLimit() {}\n}", "f:1");
    }

    #[test]
    fn broken_text_has_an_end() {
        for text in ["", "func", "func (", "\"", "'\\", "`", "/*", "/", "func \"a", "}}}func A(", "é"] {
            functions(text);
        }
        check("func", "");
        check("func A", "A:1");
    }
}
