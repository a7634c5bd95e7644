//! How are server-sent events taken apart? The event stream format of the HTML
//! standard ("Server-sent events", section "Interpreting an event stream"), fed
//! with bytes as they arrive.

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The field `event`; empty if it was not given.
    pub name: String,
    /// The fields `data`, joined by line breaks.
    pub data: String,
}

/// A line or an event that is longer than any that a model sends.
const MAX_EVENT: usize = 4 << 20;

/// The reader's state between two pieces.
#[derive(Default)]
pub struct Reader {
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed after it belongs to the same end of line.
    after_return: bool,
    first_line_read: bool,
    name: String,
    data: Vec<String>,
    bytes: usize,
}

impl Reader {
    /// Takes the next bytes and gives the events that they complete.
    ///
    /// # Errors
    /// An event over the cap, in one sentence.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, String> {
        let mut events = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    events.extend(self.end_of_line());
                }
                _ => {
                    self.after_return = false;
                    self.bytes += 1;
                    if self.bytes > MAX_EVENT {
                        return Err(format!("an event of the stream has more than {MAX_EVENT} bytes"));
                    }
                    self.line.push(*byte);
                }
            }
        }
        Ok(events)
    }

    fn end_of_line(&mut self) -> Option<Event> {
        let bytes = std::mem::take(&mut self.line);
        let mut line = String::from_utf8_lossy(&bytes);
        if !std::mem::replace(&mut self.first_line_read, true)
            && let Some(rest) = line.strip_prefix('\u{feff}')
        {
            line = rest.to_owned().into();
        }
        if line.is_empty() {
            self.bytes = 0;
            let name = std::mem::take(&mut self.name);
            let data = std::mem::take(&mut self.data);
            // An event without data is none, whatever it is called.
            return (!data.is_empty()).then(|| Event { name, data: data.join("\n") });
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => self.data.push(value.to_owned()),
            "event" => self.name = value.to_owned(),
            // Comments begin with a colon; `id` and `retry` are for reconnecting.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `text` in pieces of every size; the events must not depend on it.
    fn check(text: &str, expected: &[(&str, &str)]) {
        for size in 1..=text.len().max(1) {
            let mut reader = Reader::default();
            let mut events = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                events.extend(reader.push(piece).unwrap());
            }
            let found: Vec<_> = events.iter().map(|e| (e.name.as_str(), e.data.as_str())).collect();
            assert_eq!(found, expected, "pieces of {size} bytes of {text:?}");
        }
    }

    #[test]
    fn events_are_the_same_however_the_bytes_arrive() {
        check("data: one\n\ndata: two\n\n", &[("", "one"), ("", "two")]);
        check("data: one\r\n\r\ndata: two\r\n\r\n", &[("", "one"), ("", "two")]);
        check("data: one\r\rdata: two\r\r", &[("", "one"), ("", "two")]);
        check("event: ping\ndata: {}\n\n", &[("ping", "{}")]);
        check("data: a\ndata: b\n\n", &[("", "a\nb")]);
        check("data:a\ndata\n\n", &[("", "a\n")]);
        check("\u{feff}data: x\n\n", &[("", "x")]);
        check("data: é🦀\n\n", &[("", "é🦀")]);
        check("data:  two blanks\n\n", &[("", " two blanks")]);
    }

    #[test]
    fn comments_and_unfinished_events_are_no_events() {
        check(": keep alive\n\n", &[]);
        check("id: 3\nretry: 10\n\n", &[]);
        check("event: ping\n\ndata: x\n\n", &[("", "x")]);
        check("data: never ended\n", &[]);
        check("data: never ended", &[]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut reader = Reader::default();
        let piece = vec![b'x'; 1 << 20];
        let found = (0..8).find_map(|_| reader.push(&piece).err());
        assert_eq!(found.as_deref(), Some("an event of the stream has more than 4194304 bytes"));
    }
}
