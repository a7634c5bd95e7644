//! Which logs are asked about? Those beside this file, and changed copies of them.

use std::fs;
use std::path::{Path, PathBuf};

/// Changed copies of each log.
pub const COPIES: u64 = 12;

pub fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/swebench")
}

/// Name and text of every log, sorted by name.
pub fn all() -> Vec<(String, String)> {
    let mut logs = Vec::new();
    for folder in ["real", "written"] {
        for entry in fs::read_dir(here().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{folder}/{}", path.file_name().unwrap().to_string_lossy());
            logs.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    logs.sort();
    assert!(logs.len() > 70, "only {} logs", logs.len());
    logs
}

/// The same numbers for the same seed, everywhere.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(name: &str, copy: u64) -> Self {
        let seed = name.bytes().fold(copy.wrapping_add(0x9e37_79b9), |seed, byte| {
            (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(seed | 1)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end.max(1)
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const STATUS_WORDS: [&str; 18] = [
    "PASSED", "FAILED", "SKIPPED", "ERROR", "XFAIL", "PASS", "FAIL", "SKIP", "ok", "not ok", "✓", "✕", "✔",
    "✘", "×", "↓", "SUCCESS", "FAILURE",
];
const SPACES: [&str; 9] =
    ["\t", "  ", "\u{a0}", "\u{1c}", "\u{1f}", "\u{b}", "\u{85}", "\u{2003}", "\u{3000}"];
const MARKS: [&str; 8] = ["é", "e\u{301}", "½", "²", "\u{0}", "\u{200b}", "𝔘", "_"];

/// A changed copy of a log; equal arguments give equal copies.
pub fn changed(name: &str, log: &str, copy: u64) -> String {
    let mut numbers = Numbers::new(name, copy);
    let lines: Vec<&str> = log.split('\n').collect();
    let each_line = |change: &mut dyn FnMut(&str) -> String| {
        lines.iter().map(|line| change(line)).collect::<Vec<_>>().join("\n")
    };
    match copy % 12 {
        0 => log.replace('\n', "\r\n"),
        1 => each_line(&mut |line| match numbers.below(4) {
            0 => format!("{line}\r"),
            1 => format!("\r{line}"),
            _ => line.to_owned(),
        }),
        2 => each_line(&mut |line| {
            let word = numbers.pick(&STATUS_WORDS);
            line.replace(word, &format!("\u{1b}[3{}m{word}\u{1b}[0m", numbers.below(8)))
        }),
        3 => {
            let kept = lines.iter().filter(|_| numbers.below(6) != 0);
            kept.copied().collect::<Vec<_>>().join("\n")
        }
        4 => each_line(&mut |line| {
            let (from, to) = (numbers.pick(&STATUS_WORDS), numbers.pick(&STATUS_WORDS));
            line.replace(from, to)
        }),
        5 => {
            let mut twice = lines.clone();
            for line in &lines {
                twice.insert(numbers.below(twice.len() + 1), line);
            }
            twice.join("\n")
        }
        6 => {
            let chars: Vec<char> = log.chars().collect();
            chars[..numbers.below(chars.len() + 1)].iter().collect()
        }
        7 => each_line(&mut |line| {
            let mut parts = line.split(' ');
            let mut text = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                text.push_str(if numbers.below(5) == 0 { numbers.pick(&SPACES) } else { " " });
                text.push_str(part);
            }
            text
        }),
        8 => each_line(&mut |line| match numbers.below(5) {
            0 => format!("{}{line}", numbers.pick(&SPACES)),
            1 => line.trim_start().to_owned(),
            2 => format!("{line}{}", numbers.pick(&SPACES)),
            _ => line.to_owned(),
        }),
        9 => {
            let mut text = String::new();
            for line in &lines {
                text.push_str(line);
                text.push_str(if numbers.below(8) == 0 { "" } else { "\n" });
            }
            text
        }
        10 => insert(&mut numbers, log, &MARKS),
        _ => {
            let dropped = 1 + numbers.below(8);
            let kept = log.chars().filter(|_| numbers.below(100 * dropped) >= dropped);
            kept.collect()
        }
    }
}

fn insert(numbers: &mut Numbers, log: &str, what: &[&str]) -> String {
    let mut text = String::new();
    for c in log.chars() {
        if numbers.below(60) == 0 {
            text.push_str(numbers.pick(what));
        }
        text.push(c);
    }
    text
}
