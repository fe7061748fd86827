//! Records the events of a run, one per line, and a hash over all of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

/// The events of a run, one per line, and their hash.
#[derive(Debug, Default)]
pub struct Transcript {
    hash: u64,
    /// Whether the transcript keeps its lines.
    keeps: bool,
    /// Whether the transcript prints its lines at once.
    shows: bool,
    shows_steps: bool,
    lines: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
}

impl Transcript {
    /// Creates a transcript that keeps lines, or only their hash.
    pub fn new(keeps: bool) -> Transcript {
        Transcript { hash: 0xcbf2_9ce4_8422_2325, keeps, ..Transcript::default() }
    }

    /// Creates a transcript that prints lines at once.
    pub fn shown(shows_steps: bool) -> Transcript {
        Transcript { shows: true, shows_steps, ..Transcript::new(true) }
    }

    /// Adds numbers to the hash.
    pub fn hash(&mut self, words: &[u64]) {
        for word in words {
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
    }

    /// Adds a step of the scheduler, which is printed only on request because there are many.
    pub fn step(&mut self, now_ns: u64, words: &[u64], line: impl FnOnce() -> String) {
        self.hash(words);
        if self.shows_steps {
            let _gone =
                writeln!(std::io::stdout().lock(), "{:>14.9}  step   {}", now_ns as f64 / 1e9, line());
        }
    }

    /// Adds a line.
    pub fn line(&mut self, now_ns: u64, line: impl FnOnce() -> String) {
        let line = line();
        self.hash(&[now_ns]);
        for chunk in line.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.hash(&[u64::from_le_bytes(word)]);
        }
        if self.keeps {
            let mut text = String::with_capacity(line.len() + 16);
            let _ = write!(text, "{:>12.6}  {line}", now_ns as f64 / 1e9);
            if self.shows {
                let _gone = writeln!(std::io::stdout().lock(), "{text}");
            } else {
                self.lines.push(text);
            }
        }
    }

    /// Counts an event of a kind.
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Returns the hash of all events so far.
    pub fn digest(&self) -> u64 {
        self.hash
    }

    /// Returns the lines; none if only their hash is kept.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Returns the count of each kind of event.
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }
}
