//! JSON in and out: tool arguments, schemas and settings, without a dependency.

use std::fmt;

/// Deepest nesting that [`parse`] follows.
const MAX_DEPTH: usize = 64;

/// A JSON value. Objects keep the order of their keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Number(f64),
    String(String),
    Array(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// The value under `key`, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Object(fields) => fields.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The whole number, if this is one that is not negative. Small models write
    /// numbers as text, so `"12"` counts too.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Number(number) if *number >= 0.0 && number.fract() == 0.0 => Some(*number as u64),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        }
    }
}

/// Reads one JSON value. The error says what is wrong and at which byte.
pub fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.space();
    if reader.at < text.len() { Err(reader.error("text after the value")) } else { Ok(value) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn error(&self, what: &str) -> String {
        format!("not JSON at byte {}: {what}", self.at)
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start_matches([' ', '\t', '\r', '\n']).len();
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(self.error("nested too deep"));
        }
        self.space();
        match self.rest().bytes().next() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.eat("true") => Ok(Value::Bool(true)),
            _ if self.eat("false") => Ok(Value::Bool(false)),
            _ if self.eat("null") => Ok(Value::Null),
            _ => Err(self.error("expected a value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        let mut fields = Vec::new();
        self.eat("{");
        self.space();
        if self.eat("}") {
            return Ok(Value::Object(fields));
        }
        loop {
            self.space();
            let key = self.string()?;
            self.space();
            if !self.eat(":") {
                return Err(self.error("expected `:`"));
            }
            fields.push((key, self.value(depth + 1)?));
            self.space();
            if self.eat("}") {
                return Ok(Value::Object(fields));
            }
            if !self.eat(",") {
                return Err(self.error("expected `,` or `}`"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, String> {
        let mut items = Vec::new();
        self.eat("[");
        self.space();
        if self.eat("]") {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            if self.eat("]") {
                return Ok(Value::Array(items));
            }
            if !self.eat(",") {
                return Err(self.error("expected `,` or `]`"));
            }
        }
    }

    fn number(&mut self) -> Result<Value, String> {
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let length = self.rest().find(|c| !is_part(c)).unwrap_or(self.rest().len());
        let number = self.rest()[..length].parse().map_err(|_| self.error("not a number"))?;
        self.at += length;
        Ok(Value::Number(number))
    }

    fn string(&mut self) -> Result<String, String> {
        if !self.eat("\"") {
            return Err(self.error("expected a text in quotation marks"));
        }
        let mut text = String::new();
        loop {
            let Some(c) = self.rest().chars().next() else {
                return Err(self.error("a text without its closing quotation mark"));
            };
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(text),
                '\\' => text.push(self.escape()?),
                // Raw line ends are not JSON, yet models write them and mean them.
                c => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let Some(c) = self.rest().chars().next() else {
            return Err(self.error("an escape without an end"));
        };
        self.at += c.len_utf8();
        Ok(match c {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            '"' | '\\' | '/' => c,
            'u' => {
                let mut code = self.hex4()?;
                if (0xD800..0xDC00).contains(&code) && self.eat("\\u") {
                    let low = self.hex4()?;
                    code = 0x10000 + ((code - 0xD800) << 10) + (low.wrapping_sub(0xDC00) & 0x3FF);
                }
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => return Err(self.error("an unknown escape")),
        })
    }

    fn hex4(&mut self) -> Result<u32, String> {
        let digits = self.rest().get(..4).ok_or_else(|| self.error("`\\u` needs 4 digits"))?;
        let code = u32::from_str_radix(digits, 16).map_err(|_| self.error("`\\u` needs 4 digits"))?;
        self.at += 4;
        Ok(code)
    }
}

impl fmt::Display for Value {
    /// Compact JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Number(value) => write!(f, "{value}"),
            Value::String(text) => f.write_str(&quote(text)),
            Value::Array(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Value::Object(fields) => {
                f.write_str("{")?;
                for (index, (key, value)) in fields.iter().enumerate() {
                    write!(f, "{}{}:{value}", if index > 0 { "," } else { "" }, quote(key))?;
                }
                f.write_str("}")
            }
        }
    }
}

/// The text as a JSON string, with its quotation marks.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c < ' ' => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = match parse(text) {
            Ok(value) => value.to_string(),
            Err(error) => error,
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn values_survive_reading_and_writing() {
        check(" { \"a\" : [1, -2.5e1, true, null], \"b\":{} } ", r#"{"a":[1,-25,true,null],"b":{}}"#);
        check(r#""a\n\"\\\u00e9\ud83d\ude00""#, "\"a\\n\\\"\\\\é😀\"");
        check("\"two\nlines\"", "\"two\\nlines\"");
        check("[]", "[]");
    }

    #[test]
    fn broken_text_is_an_error_with_its_place() {
        check("", "not JSON at byte 0: expected a value");
        check("{\"a\":1", "not JSON at byte 6: expected `,` or `}`");
        check("{a:1}", "not JSON at byte 1: expected a text in quotation marks");
        check("[1 2]", "not JSON at byte 3: expected `,` or `]`");
        check("\"abc", "not JSON at byte 4: a text without its closing quotation mark");
        check("1 1", "not JSON at byte 2: text after the value");
        check("\"\\ud800\\u12\"", "not JSON at byte 9: `\\u` needs 4 digits");
        check(&"[".repeat(100), "not JSON at byte 65: nested too deep");
    }

    #[test]
    fn numbers_in_quotation_marks_count() {
        let value = parse(r#"{"line":"12","n":3,"half":0.5}"#).unwrap();
        assert_eq!(value.get("line").and_then(Value::as_u64), Some(12));
        assert_eq!(value.get("n").and_then(Value::as_u64), Some(3));
        assert_eq!(value.get("half").and_then(Value::as_u64), None);
    }
}
