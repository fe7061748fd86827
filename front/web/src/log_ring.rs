//! The latest lines of the log, for the page that shows them and for the marks on charts.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;

use env::{WallTime, World};
use parking_lot::Mutex;

/// Maximum number of lines in the ring.
const LINES_MAX: usize = 2_000;
/// Maximum size of a line, in bytes; the rest of a longer line is cut off.
const LINE_BYTES_MAX: usize = 2_000;

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When the line was written.
    pub time: WallTime,
    /// The level of the line: `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    pub level: &'static str,
    /// The message, without time and level.
    pub text: String,
}

/// The latest lines of the log.
#[derive(Debug)]
pub struct LogRing {
    world: World,
    lines: Mutex<VecDeque<LogLine>>,
}

impl LogRing {
    /// Creates an empty ring.
    pub fn new(world: World) -> Arc<LogRing> {
        Arc::new(LogRing { world, lines: Mutex::default() })
    }

    /// Returns a writer that adds whole lines to the ring, and also writes them to `out`.
    pub fn tee<W: Write>(self: &Arc<Self>, out: W) -> LogTee<W> {
        LogTee { ring: Arc::clone(self), out }
    }

    /// Adds a line as the log's formatter writes it: time, level, text. A line without a level counts as `INFO`.
    pub fn push(&self, line: &str) {
        let line = line.trim_end();
        let (_, rest) = line.split_once(char::is_whitespace).unwrap_or(("", line));
        let rest = rest.trim_start();
        let level = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"]
            .into_iter()
            .find(|level| rest.starts_with(level))
            .unwrap_or("INFO");
        let mut text = rest.strip_prefix(level).unwrap_or(rest).trim_start().to_owned();
        if text.len() > LINE_BYTES_MAX {
            let end = (0..=LINE_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
        }
        let mut lines = self.lines.lock();
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(LogLine { time: self.world.now(), level, text });
    }

    /// Returns the lines that `wanted` accepts, the latest first.
    pub fn lines(&self, limit: usize, wanted: impl Fn(&LogLine) -> bool) -> Vec<LogLine> {
        self.lines.lock().iter().rev().filter(|line| wanted(line)).take(limit).cloned().collect()
    }
}

/// Writes the log to a ring and to another writer.
#[derive(Debug)]
pub struct LogTee<W> {
    ring: Arc<LogRing>,
    out: W,
}

impl<W: Write> Write for LogTee<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        String::from_utf8_lossy(bytes).lines().for_each(|line| self.ring.push(line));
        self.out.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_by_level_and_go_on() {
        let ring = LogRing::new(World::simulated(1, WallTime(5)));
        let mut out = Vec::new();
        let mut tee = ring.tee(&mut out);
        writeln!(tee, "2026-11-24T22:00:00Z  WARN wal: slow sync ms=300").expect("memory");
        writeln!(tee, "2026-11-24T22:00:01Z  INFO bellows: started").expect("memory");
        assert!(String::from_utf8(out).expect("text").ends_with("bellows: started\n"));
        let lines = ring.lines(10, |_| true);
        assert_eq!((lines[0].level, &lines[0].text[..]), ("INFO", "bellows: started"));
        assert_eq!(ring.lines(10, |line| line.level == "WARN")[0].text, "wal: slow sync ms=300");
        (0..3_000).for_each(|_| ring.push("t INFO x"));
        assert_eq!(ring.lines(usize::MAX, |_| true).len(), LINES_MAX);
        ring.push(&format!("t INFO {}", "ü".repeat(5_000)));
        assert!(ring.lines(1, |_| true)[0].text.len() <= LINE_BYTES_MAX);
    }
}
