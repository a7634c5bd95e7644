//! Progress with rate and time left; silent bars when the output is not a terminal.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tandem_host::agent::{EpisodeRecord, Outcome};

/// Where progress goes: standard error.
#[derive(Clone)]
pub struct Progress {
    bars: Option<MultiProgress>,
    started: Instant,
}

impl Progress {
    /// Bars on a terminal; elsewhere only one line for each finished part.
    pub fn new() -> Self {
        let bars = std::io::stderr().is_terminal().then(MultiProgress::new);
        Self { bars, started: Instant::now() }
    }

    /// A line that stays, with the time since the start.
    pub fn say(&self, line: &str) {
        let line = printable(line);
        let stamped = format!("[{}] {line}", clock(self.started.elapsed().as_secs()));
        match &self.bars {
            // A bar that is being drawn would overwrite a plain line.
            Some(bars) => drop(bars.println(stamped)),
            // A log that nobody reads any more must not end the work.
            None => drop(writeln!(std::io::stderr(), "{stamped}")),
        }
    }

    /// A bar over `total` items.
    pub fn start(&self, label: &str, total: usize) -> Bar {
        self.styled(label, total, "{prefix} {wide_bar} {pos}/{len} {per_sec} {msg} {eta} left")
    }

    fn styled(&self, label: &str, total: usize, template: &str) -> Bar {
        let hidden = ProgressDrawTarget::hidden();
        let mut bar = ProgressBar::with_draw_target(Some(total as u64), hidden).with_prefix(label.to_owned());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar = bar.with_style(style);
        }
        // Last, since it draws.
        if let Some(bars) = &self.bars {
            bar = bars.add(bar);
        }
        Bar {
            bar,
            label: label.to_owned(),
            progress: self.clone(),
            solved: AtomicUsize::new(0),
            invalid: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            skipped: AtomicUsize::new(0),
            started: Instant::now(),
        }
    }

    /// A sign of life for work without items.
    pub fn spin(&self, label: &str) -> Bar {
        let bar = self.styled(label, 0, "{prefix} {spinner} {elapsed}");
        bar.bar.enable_steady_tick(std::time::Duration::from_millis(200));
        bar
    }

    /// A sign of life for one short wait, which leaves nothing.
    pub fn sign_of_life(&self, label: &str) -> SignOfLife {
        SignOfLife(self.spin(label).bar)
    }
}

/// A sign of life that goes without a line when it is dropped.
pub struct SignOfLife(ProgressBar);

impl Drop for SignOfLife {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Progress of one part.
pub struct Bar {
    bar: ProgressBar,
    label: String,
    progress: Progress,
    solved: AtomicUsize,
    invalid: AtomicUsize,
    done: AtomicUsize,
    skipped: AtomicUsize,
    started: Instant,
}

impl Bar {
    /// Items that an earlier start of the run did already.
    pub fn skip(&self, count: usize) {
        self.skipped.store(count, Ordering::Relaxed);
        self.bar.inc(count as u64);
        self.bar.reset_eta();
    }

    /// One episode more.
    pub fn advance(&self, episode: &EpisodeRecord) {
        match episode.outcome {
            Outcome::Solved => self.solved.fetch_add(1, Ordering::Relaxed),
            Outcome::Invalid(_) => self.invalid.fetch_add(1, Ordering::Relaxed),
            Outcome::Unsolved => 0,
        };
        self.step(&format!("{} solved,", self.solved.load(Ordering::Relaxed)));
    }

    /// One item more.
    pub fn step(&self, message: &str) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.bar.set_message(message.to_owned());
        self.bar.inc(1);
    }

    /// Takes the bar away and leaves one line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
        let done = self.done.load(Ordering::Relaxed);
        let seconds = self.started.elapsed().as_secs_f64();
        if done == 0 && self.skipped.load(Ordering::Relaxed) > 0 {
            return;
        }
        let mut line = format!("{}: {done} in {}", self.label, clock(seconds as u64));
        let (solved, invalid) = (self.solved.load(Ordering::Relaxed), self.invalid.load(Ordering::Relaxed));
        if solved + invalid > 0 {
            line.push_str(&format!(", {solved} solved"));
        }
        if invalid > 0 {
            line.push_str(&format!(", {invalid} invalid"));
        }
        if done > 0 && seconds > 0.0 {
            line.push_str(&format!(" ({:.1} a minute)", 60.0 * done as f64 / seconds));
        } else {
            line = format!("{}: {}", self.label, clock(seconds as u64));
        }
        self.progress.say(&line);
    }
}

/// A text without what could steer a terminal: another's words can be in it.
pub fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t')).collect()
}

fn clock(seconds: u64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
