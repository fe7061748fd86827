//! The results of a workload, and a table of several results.

use std::time::Duration;

use crate::watch::Mark;
use crate::{Calm, Cost, Recorded, Workload};

/// The result of one workload.
#[derive(Clone, Debug)]
pub struct Report {
    /// The workload.
    pub workload: Workload,
    /// The workload's name, and the settings that make its results incomparable with those of default settings.
    pub name: String,
    /// The measured time.
    pub elapsed: Duration,
    /// All recorded operations.
    pub recorded: Recorded,
    /// The recorded operations of each of [`Workload::kinds`].
    pub kinds: Vec<Recorded>,
    /// Operations without a stall nearby, if the processors were watched.
    pub calm: Option<Calm>,
    /// Number of operations that were due at the [rate](crate::Plan::rate) and never began.
    pub not_begun: u64,
    /// The cost of the server's process, if that is known.
    pub server: Option<Cost>,
    /// Number of all system calls of the server, if they were counted.
    pub server_calls: Option<u64>,
    /// The cost of the generator's process.
    pub generator: Cost,
    /// Flushes and compactions of the server during the measured time.
    pub marks: Vec<Mark>,
}

impl Report {
    /// Returns the number of operations per second.
    pub fn operations_per_second(&self) -> f64 {
        self.recorded.operations as f64 / self.elapsed.as_secs_f64()
    }

    /// Returns the number of rows per second.
    pub fn rows_per_second(&self) -> f64 {
        self.recorded.rows as f64 / self.elapsed.as_secs_f64()
    }

    /// Returns the server's CPU time per operation, in µs; `None` if it was not measured, or if no operation succeeded.
    pub fn server_us(&self) -> Option<f64> {
        self.per_operation(self.server?.cpu_us)
    }

    /// Returns the server's CPU time per row, in µs; `None` if it was not measured, or if there was no row.
    pub fn server_us_per_row(&self) -> Option<f64> {
        per(self.server?.cpu_us, self.recorded.rows)
    }

    /// Returns the server's CPU time per operation in system mode, in µs; `None` if it was not measured, or if no
    /// operation succeeded.
    pub fn server_system_us(&self) -> Option<f64> {
        self.per_operation(self.server?.system_us)
    }

    /// Returns the generator's CPU time per operation, in µs; `None` if no operation succeeded.
    pub fn generator_us(&self) -> Option<f64> {
        self.per_operation(self.generator.cpu_us)
    }

    /// Returns the number of the server's system calls per operation: all if they were counted, otherwise those that
    /// read or wrote. `None` if neither is known, or if no operation succeeded.
    pub fn calls_per_operation(&self) -> Option<f64> {
        self.per_operation(self.server_calls.or(self.server?.io_calls)?)
    }

    /// Returns the number of bytes that the server wrote to the disk for each byte of keys and values written; `None`
    /// if it is not known, or if nothing was written.
    pub fn write_amplification(&self) -> Option<f64> {
        per(self.server?.disk_written?, self.recorded.written)
    }

    fn per_operation(&self, total: u64) -> Option<f64> {
        per(total, self.recorded.operations)
    }
}

fn per(total: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| total as f64 / count as f64)
}

const HEAD: [&str; 17] = [
    "workload",
    "ops/s",
    "rows/s",
    "p50 us",
    "p95 us",
    "p99 us",
    "p99.9 us",
    "max us",
    "server us/op",
    "of it system",
    "server us/row",
    "generator us/op",
    "memory MiB",
    "disk bytes/byte",
    "calls/op",
    "failed",
    "wrong",
];

/// Returns a Markdown table with a line for each report and, if it has several, for each kind of operation. Failures
/// follow.
pub fn table(reports: &[Report]) -> String {
    let mut lines = vec![HEAD.map(str::to_owned).to_vec()];
    for report in reports {
        lines.push(whole(report));
        let kinds = report.workload.kinds().iter().zip(&report.kinds);
        let kinds: Vec<_> = kinds.filter(|(_, recorded)| recorded.operations > 0).collect();
        if kinds.len() > 1 {
            lines.extend(kinds.iter().map(|(name, recorded)| part(report, name, recorded)));
        }
    }
    let mut text = lined_up(&lines);
    for report in reports {
        if let Some(calm) = &report.calm {
            let latency = |part| grouped(calm.latency_us(part).round() as u64);
            text += &format!(
                "\n{}: a processor stood still for {:.2} % of the time; {:.0} % of the operations were due when none did: p50 {} \
                 us, p99 {} us, p99.9 {} us, max {} us",
                report.name,
                100.0 * calm.stood_still,
                100.0 * calm.part,
                latency(0.5),
                latency(0.99),
                latency(0.999),
                latency(1.0)
            );
        }
        if report.not_begun > 0 {
            text += &format!(
                "\n{}: {} operations were due and never began: the rate is too high for so many callers",
                report.name, report.not_begun
            );
        }
        for (words, count) in &report.recorded.failures {
            text += &format!("\n{}: {count} times: {words}", report.name);
        }
    }
    text
}

/// Returns a Markdown table. The first line is its head; the first column is aligned to the left.
pub(crate) fn lined_up(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0).max(1);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut rows = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
            0 => format!(" {cell:width$} "),
            _ => format!(" {cell:>width$} "),
        });
        rows.push(format!("|{}|", cells.collect::<Vec<_>>().join("|")));
        if number == 0 {
            let rules = widths.iter().enumerate().map(|(at, width)| match at {
                0 => "-".repeat(width + 2),
                _ => "-".repeat(width + 1) + ":",
            });
            rows.push(format!("|{}|", rules.collect::<Vec<_>>().join("|")));
        }
    }
    rows.join("\n")
}

fn whole(report: &Report) -> Vec<String> {
    let mut cells = vec![report.name.clone()];
    cells.extend(seen(report, &report.recorded));
    cells.extend([
        maybe(report.server_us()),
        maybe(report.server_system_us()),
        maybe(report.server_us_per_row()),
        maybe(report.generator_us()),
        report.server.map_or_else(|| "-".to_owned(), |cost| grouped(cost.resident >> 20)),
        maybe(report.write_amplification()),
        maybe(report.calls_per_operation()),
        report.recorded.failed().to_string(),
        report.recorded.wrong.to_string(),
    ]);
    cells
}

fn part(report: &Report, name: &str, recorded: &Recorded) -> Vec<String> {
    let mut cells = vec![format!("- {name}")];
    cells.extend(seen(report, recorded));
    cells.resize(HEAD.len() - 1, String::new());
    cells.push(recorded.wrong.to_string());
    cells
}

/// Returns the columns with what callers saw.
fn seen(report: &Report, recorded: &Recorded) -> Vec<String> {
    let rate = |count: u64| grouped((count as f64 / report.elapsed.as_secs_f64()).round() as u64);
    let latency = |part| grouped(recorded.latency_us(part).round() as u64);
    let mut cells = vec![rate(recorded.operations), rate(recorded.rows)];
    cells.extend([0.5, 0.95, 0.99, 0.999, 1.0].map(latency));
    cells
}

fn maybe(number: Option<f64>) -> String {
    number.map_or_else(|| "-".to_owned(), short)
}

/// Formats a number with at least three significant digits.
pub(crate) fn short(number: f64) -> String {
    match number {
        number if number >= 100.0 => grouped(number.round() as u64),
        number if number >= 10.0 => format!("{number:.1}"),
        number if number < 0.1 && number > 0.0 => format!("{number:.4}"),
        number => format!("{number:.2}"),
    }
}

/// Formats a number with commas between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_readable() {
        assert_eq!(
            (grouped(7), grouped(1_000), grouped(1_234_567)),
            ("7".into(), "1,000".into(), "1,234,567".into())
        );
        assert_eq!(
            (short(0.0123), short(0.123), short(12.34), short(1_234.5)),
            ("0.0123".into(), "0.12".into(), "12.3".into(), "1,235".into())
        );
    }

    #[test]
    fn columns_are_lined_up() {
        let line = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let text = lined_up(&[line(["name", "µs"]), line(["a", "1,000"])]);
        assert_eq!(text, "| name |    µs |\n|------|------:|\n| a    | 1,000 |");
    }
}
