//! Results, as a table.

use std::time::Duration;

use crate::{Cost, Recorded, Workload};

/// The result of one workload.
#[derive(Clone, Debug)]
pub struct Report {
    /// The workload.
    pub workload: Workload,
    /// How long was measured.
    pub elapsed: Duration,
    /// All operations.
    pub recorded: Recorded,
    /// The same for each of [`Workload::kinds`].
    pub kinds: Vec<Recorded>,
    /// What the server paid, if its process is known.
    pub server: Option<Cost>,
    /// What the generator paid.
    pub generator: Cost,
    /// Bytes of a value.
    pub value_size: usize,
}

impl Report {
    /// Operations in a second.
    pub fn operations_per_second(&self) -> f64 {
        self.recorded.operations as f64 / self.elapsed.as_secs_f64()
    }

    /// Rows in a second.
    pub fn rows_per_second(&self) -> f64 {
        self.recorded.rows as f64 / self.elapsed.as_secs_f64()
    }

    /// The server's CPU time for one operation, in µs.
    pub fn server_us(&self) -> Option<f64> {
        self.per_operation(self.server?.cpu_us)
    }

    /// The server's CPU time for one row, in µs.
    pub fn server_us_per_row(&self) -> Option<f64> {
        per(self.server?.cpu_us, self.recorded.rows)
    }

    /// Of the server's CPU time for one operation, that spent in the system, in µs.
    pub fn server_system_us(&self) -> Option<f64> {
        self.per_operation(self.server?.system_us)
    }

    /// The generator's CPU time for one operation, in µs.
    pub fn generator_us(&self) -> Option<f64> {
        self.per_operation(self.generator.cpu_us)
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
    "RSS MiB",
    "disk MB",
    "io calls/op",
    "failed",
    "wrong",
];

/// A table in Markdown, a line for each report; below it what failed.
pub fn table(reports: &[Report]) -> String {
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(reports.iter().map(line));
    let widths: Vec<usize> =
        (0..HEAD.len()).map(|at| lines.iter().map(|line| line[at].len()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let width = *width;
            text += &if at == 0 { format!("| {cell:width$} ") } else { format!("| {cell:>width$} ") };
        }
        text += "|\n";
        if number == 0 {
            for (at, width) in widths.iter().enumerate() {
                text += &if at == 0 {
                    format!("|{:-<1$}", "", width + 2)
                } else {
                    format!("|{:->1$}:", "", width + 1)
                };
            }
            text += "|\n";
        }
    }
    for report in reports {
        for (words, count) in &report.recorded.failures {
            text += &format!("{}: {count} times: {words}\n", report.workload);
        }
    }
    text.truncate(text.trim_end().len());
    text
}

fn line(report: &Report) -> [String; HEAD.len()] {
    let recorded = &report.recorded;
    let whole = |number: f64| grouped(number.round() as u64);
    let maybe = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), short);
    let latency = |part| whole(recorded.latency_us(part));
    let server = report.server;
    [
        report.workload.to_string(),
        whole(report.operations_per_second()),
        whole(report.rows_per_second()),
        latency(0.5),
        latency(0.95),
        latency(0.99),
        latency(0.999),
        latency(1.0),
        maybe(report.server_us()),
        maybe(report.server_system_us()),
        maybe(report.server_us_per_row()),
        maybe(report.generator_us()),
        server.map_or_else(|| "-".to_owned(), |cost| grouped(cost.resident >> 20)),
        maybe(server.and_then(|cost| cost.disk_written).map(|bytes| bytes as f64 / 1e6)),
        maybe(server.and_then(|cost| cost.io_calls).and_then(|calls| per(calls, recorded.operations))),
        recorded.failed().to_string(),
        recorded.wrong.to_string(),
    ]
}

/// Three digits that matter, at least.
fn short(number: f64) -> String {
    match number {
        number if number >= 100.0 => grouped(number.round() as u64),
        number if number >= 10.0 => format!("{number:.1}"),
        number => format!("{number:.2}"),
    }
}

/// With a comma between thousands.
fn grouped(number: u64) -> String {
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
            (short(0.123), short(12.34), short(1_234.5)),
            ("0.12".into(), "12.3".into(), "1,235".into())
        );
    }
}
