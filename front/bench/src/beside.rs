//! Compares the results of several servers.
//!
//! A figure measured several times is its median. Ratios relate the first label to each other label, always so that
//! more than 1 is better for the first.

use crate::outcome::{Outcome, Outcomes};
use crate::report::{lined_up, short};

/// The targets, by workload: the other server's CPU time per operation or row should be at least this many times that
/// of the first server. Scans are compared in PerformanceEvaluation's form, for which HBase's figures are known.
const BARS: [(&str, f64); 9] = [
    ("random-read", 8.0),
    ("multi-get", 6.0),
    ("scan by 30", 6.0),
    ("filter-scan", 15.0),
    ("random-write", 10.0),
    ("random-write fsync", 5.0),
    ("batch-write", 8.0),
    ("increment", 10.0),
    ("check-and-put", 10.0),
];

/// Target for runs at an offered rate: the other server's p99.9 latency should be at least this many times that of the
/// first server.
const TAIL_BAR: f64 = 4.0;
/// The text before the rate in the name of a result whose rate was given by `--rate`.
const OFFERED: &str = " at ";

/// From this number of rows per operation on, costs are given per row and not per operation.
const MANY_ROWS: f64 = 2.0;

/// Returns all results as Markdown.
pub(crate) fn beside(outcomes: &Outcomes) -> String {
    let labels = labels(outcomes);
    let mut parts = Vec::new();
    let medians: Vec<Outcome> = medians(outcomes);
    let of = |label: &str, workload: &str| {
        medians.iter().find(|outcome| outcome.label == label && outcome.workload == workload)
    };
    let mut workloads: Vec<&str> = Vec::new();
    for outcome in &medians {
        if !workloads.contains(&outcome.workload.as_str()) {
            workloads.push(&outcome.workload);
        }
    }
    if let Some((first, others)) = labels.split_first() {
        for other in others {
            let head = [
                "workload", "CPU µs", other, "ratio", "bar", "ops/s", "p50", "p99", "p99.9", "memory", "disk",
            ];
            let mut lines = vec![head.map(str::to_owned).to_vec()];
            for workload in &workloads {
                if let (Some(ours), Some(theirs)) = (of(first, workload), of(other, workload)) {
                    lines.push(ratios(ours, theirs));
                }
            }
            if lines.len() > 1 {
                parts.push(format!(
                    "{first} beside {other}: CPU time of the server for an operation, or for a row where an operation \
                     has several; then {other}'s figure for each of {first}'s (operations a second: the other way \
                     round), more than 1 is better for {first}.\n\n{}",
                    lined_up(&lines)
                ));
            }
        }
    }
    for label in &labels {
        let head = [
            "workload",
            "ops/s",
            "p50 µs",
            "p99 µs",
            "p99.9 µs",
            "CPU µs/op",
            "CPU µs/row",
            "generator µs/op",
            "memory MiB",
            "disk bytes/byte",
            "calls/op",
        ];
        let mut lines = vec![head.map(str::to_owned).to_vec()];
        lines.extend(workloads.iter().filter_map(|workload| of(label, workload)).map(plain));
        if lines.len() > 1 {
            parts.push(format!("{label}\n\n{}", lined_up(&lines)));
        }
    }
    if !outcomes.firsts.is_empty() {
        parts.push(firsts(outcomes, &labels));
    }
    if !outcomes.limits.is_empty() {
        parts.push(limits(outcomes, &labels, &medians));
    }
    parts.join("\n\n")
}

/// Returns each label once: those of workloads in the order of their lines, then those that only first answers have.
pub(crate) fn labels(outcomes: &Outcomes) -> Vec<&str> {
    let mut labels: Vec<&str> = Vec::new();
    let all = outcomes.workloads.iter().map(|outcome| &outcome.label);
    for label in all.chain(outcomes.firsts.iter().map(|first| &first.label)) {
        if !labels.contains(&label.as_str()) {
            labels.push(label);
        }
    }
    labels
}

fn firsts(outcomes: &Outcomes, labels: &[&str]) -> String {
    let mut afters: Vec<&str> = Vec::new();
    for first in &outcomes.firsts {
        if !afters.contains(&first.after.as_str()) {
            afters.push(&first.after);
        }
    }
    let mut head = vec!["first answer, s".to_owned()];
    head.extend(labels.iter().map(|label| (*label).to_owned()));
    let mut lines = vec![head];
    for after in afters {
        for (what, is_read) in [("read", true), ("write", false)] {
            let mut line = vec![format!("{what} after {after}")];
            for label in labels {
                let of = outcomes.firsts.iter().filter(|first| first.label == *label && first.after == after);
                let seconds =
                    median(of.map(|first| if is_read { first.read_ms } else { first.write_ms } / 1e3));
                line.push(seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.3}")));
            }
            lines.push(line);
        }
    }
    lined_up(&lines)
}

/// Returns the machine's limits, and their share of each server's cost.
fn limits(outcomes: &Outcomes, labels: &[&str], medians: &[Outcome]) -> String {
    let mut head: Vec<String> =
        ["limit of this machine", "CPU µs", "µs", "workload"].map(str::to_owned).to_vec();
    let labels: Vec<&&str> =
        labels.iter().filter(|label| medians.iter().any(|one| one.label == **label)).collect();
    head.extend(labels.iter().map(|label| format!("share of {label}")));
    let mut lines = vec![head];
    for limit in &outcomes.limits {
        let workload = limit.workload.clone().unwrap_or_default();
        let mut line = vec![limit.name.clone(), short(limit.cpu_us), short(limit.wall_us), workload.clone()];
        for label in &labels {
            let one = medians.iter().find(|one| one.label == **label && one.workload == workload);
            let share = one.and_then(cost).map(|cost| format!("{:.0} %", 100.0 * limit.cpu_us / cost));
            line.push(share.unwrap_or_default());
        }
        lines.push(line);
    }
    lined_up(&lines)
}

/// Returns one outcome for each label and workload: the median of each figure, and the curves of the first line.
pub(crate) fn medians(outcomes: &Outcomes) -> Vec<Outcome> {
    let mut medians: Vec<Outcome> = Vec::new();
    for outcome in &outcomes.workloads {
        let is_same = |other: &Outcome| other.label == outcome.label && other.workload == outcome.workload;
        if medians.iter().any(is_same) {
            continue;
        }
        let all: Vec<&Outcome> = outcomes.workloads.iter().filter(|other| is_same(other)).collect();
        // Rounds in which the figure is missing do not count.
        let of = |figure: fn(&Outcome) -> f64| {
            median(all.iter().map(|one| figure(one)).filter(|figure| !figure.is_nan())).unwrap_or(f64::NAN)
        };
        let maybe = |figure: fn(&Outcome) -> Option<f64>| median(all.iter().filter_map(|one| figure(one)));
        medians.push(Outcome {
            rows_per_operation: of(|one| one.rows_per_operation),
            per_second: of(|one| one.per_second),
            p50_us: of(|one| one.p50_us),
            p99_us: of(|one| one.p99_us),
            p999_us: of(|one| one.p999_us),
            server_us: maybe(|one| one.server_us),
            generator_us: of(|one| one.generator_us),
            memory_mib: maybe(|one| one.memory_mib),
            amplification: maybe(|one| one.amplification),
            calls: maybe(|one| one.calls),
            ..outcome.clone()
        });
    }
    medians
}

fn median(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => None,
        count if count % 2 == 1 => Some(figures[middle]),
        _ => Some((figures[middle - 1] + figures[middle]) / 2.0),
    }
}

/// Returns the server's CPU time in µs for one operation, or for one row if operations have [`MANY_ROWS`] or more;
/// `None` if it was not measured.
fn cost(outcome: &Outcome) -> Option<f64> {
    let rows = outcome.rows_per_operation;
    outcome.server_us.map(|cost| if rows >= MANY_ROWS { cost / rows } else { cost })
}

fn ratios(ours: &Outcome, theirs: &Outcome) -> Vec<String> {
    let maybe = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), short);
    let ratio = |theirs: Option<f64>, ours: Option<f64>| match (theirs, ours) {
        (Some(theirs), Some(ours)) if ours > 0.0 => Some(theirs / ours),
        _ => None,
    };
    let reached = ratio(cost(theirs), cost(ours));
    let bar = BARS.iter().find(|(workload, _)| *workload == ours.workload).map(|(_, bar)| *bar);
    let bar = match (bar, reached) {
        (Some(bar), Some(reached)) if reached >= bar => format!("{bar} reached"),
        (Some(bar), _) => format!("{bar} short"),
        (None, _) => String::new(),
    };
    let latency = |figure: fn(&Outcome) -> f64| maybe(ratio(Some(figure(theirs)), Some(figure(ours))));
    let mut tail = latency(|one| one.p999_us);
    if ours.workload.contains(OFFERED) {
        let reached =
            ours.p999_us > 0.0 && ours.p999_us.is_finite() && theirs.p999_us >= TAIL_BAR * ours.p999_us;
        tail += &format!(" ({TAIL_BAR} {})", if reached { "reached" } else { "short" });
    }
    vec![
        ours.workload.clone(),
        maybe(cost(ours)),
        maybe(cost(theirs)),
        maybe(reached),
        bar,
        maybe(ratio(Some(ours.per_second), Some(theirs.per_second))),
        latency(|one| one.p50_us),
        latency(|one| one.p99_us),
        tail,
        maybe(ratio(theirs.memory_mib, ours.memory_mib)),
        maybe(ratio(theirs.amplification, ours.amplification)),
    ]
}

fn plain(outcome: &Outcome) -> Vec<String> {
    let maybe = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), short);
    vec![
        outcome.workload.clone(),
        short(outcome.per_second),
        short(outcome.p50_us),
        short(outcome.p99_us),
        short(outcome.p999_us),
        maybe(outcome.server_us),
        maybe(outcome.server_us.map(|cost| cost / outcome.rows_per_operation)),
        short(outcome.generator_us),
        maybe(outcome.memory_mib),
        maybe(outcome.amplification),
        maybe(outcome.calls),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(label: &str, server_us: f64, per_second: f64) -> Outcome {
        Outcome {
            label: label.to_owned(),
            workload: "random-read".to_owned(),
            rows_per_operation: 1.0,
            per_second,
            p50_us: 10.0,
            p99_us: 20.0,
            p999_us: 30.0,
            server_us: Some(server_us),
            ..Outcome::default()
        }
    }

    #[test]
    fn medians_are_compared_and_bars_are_judged() {
        let workloads = vec![
            outcome("a", 4.0, 9.0),
            outcome("b", 36.0, 3.0),
            outcome("a", 5.0, 7.0),
            outcome("a", 3.0, 8.0),
        ];
        let mut outcomes = Outcomes { workloads, ..Outcomes::default() };
        let text = beside(&outcomes);
        assert!(text.contains("| random-read |   4.00 | 36.0 |  9.00 | 8 reached |  2.67 |"), "{text}");
        outcomes.workloads[1].server_us = Some(31.0);
        assert!(beside(&outcomes).contains("8 short"));
        outcomes.workloads.iter_mut().for_each(|one| one.workload = "mixed at 5/s".to_owned());
        assert!(beside(&outcomes).contains("1.00 (4 short)"));
        let reached = |ours: f64, theirs: f64| {
            let mut outcomes = outcomes.clone();
            for one in &mut outcomes.workloads {
                one.p999_us = if one.label == "a" { ours } else { theirs };
            }
            beside(&outcomes).contains("(4 reached)")
        };
        assert!(reached(10.0, 40.0) && reached(10.0, f64::INFINITY));
        assert!(!reached(f64::INFINITY, f64::INFINITY) && !reached(0.0, 0.0) && !reached(f64::NAN, 40.0));
    }
}
