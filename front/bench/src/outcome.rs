//! The file format of results: one JSON object on each line.
//!
//! There are three kinds of lines: a limit of the machine (field `limit`), the first answers of a server after its
//! start (field `first`), and the results of a workload (field `workload`). This module reads back what comparisons
//! and pictures need; the other fields are for people.

use std::path::Path;

use serde_json::{Value, json};

use crate::first::First;
use crate::recorder::SLOT;
use crate::watch::Event;
use crate::{Error, Limit, Recorded, Report, Result};

/// The minimum fraction of operations without a stall nearby for which a tail is reported.
const CALM_PART_MIN: f64 = 0.25;

/// Number of points of a latency curve for each nine of the quantile, and number of nines.
const POINTS_PER_NINE: u32 = 8;
const NINES: u32 = 5;

/// The part of a workload's results that is compared and drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) label: String,
    pub(crate) workload: String,
    pub(crate) rows_per_operation: f64,
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// The p99.9 latency in µs; infinite if more than one in a thousand operations never began, and NaN if processors
    /// were stalled for too long to measure it.
    pub(crate) p999_us: f64,
    pub(crate) server_us: Option<f64>,
    pub(crate) generator_us: f64,
    pub(crate) memory_mib: Option<f64>,
    pub(crate) amplification: Option<f64>,
    pub(crate) calls: Option<f64>,
    /// The latency curve: quantiles in nines, and latencies in µs.
    pub(crate) curve: Vec<(f64, f64)>,
    /// The throughput: times in seconds, and operations per second.
    pub(crate) progress: Vec<(f64, f64)>,
    /// The longest latencies: times in seconds, and latencies in µs.
    pub(crate) longest: Vec<(f64, f64)>,
    /// Times of flushes and compactions, in seconds.
    pub(crate) flushes: Vec<f64>,
    pub(crate) compactions: Vec<f64>,
}

/// The first answers of one server after one kind of start.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FirstOutcome {
    pub(crate) label: String,
    pub(crate) after: String,
    pub(crate) read_ms: f64,
    pub(crate) write_ms: f64,
}

/// The content of one or several files of results.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcomes {
    pub(crate) workloads: Vec<Outcome>,
    pub(crate) firsts: Vec<FirstOutcome>,
    pub(crate) limits: Vec<Limit>,
}

/// Returns the line for a workload.
pub(crate) fn line(label: &str, report: &Report) -> String {
    let recorded = &report.recorded;
    let kinds = report.workload.kinds().iter().zip(&report.kinds);
    let kinds: Vec<Value> = kinds
        .filter(|(_, recorded)| recorded.operations > 0)
        .map(|(name, recorded)| json!({ "kind": name, "seen": seen(recorded) }))
        .collect();
    let curve: Vec<[f64; 2]> = (0..=NINES * POINTS_PER_NINE)
        .map(|point| {
            let nines = f64::from(point) / f64::from(POINTS_PER_NINE);
            [nines, recorded.latency_us(1.0 - 10f64.powf(-nines))]
        })
        .collect();
    let at = |event: Event| {
        let marks = report.marks.iter().filter(|mark| mark.event == event);
        marks.map(|mark| mark.at.as_secs_f64()).collect::<Vec<f64>>()
    };
    json!({
        "label": label,
        "workload": report.name,
        "seconds": report.elapsed.as_secs_f64(),
        "operations_per_second": report.operations_per_second(),
        "rows_per_second": report.rows_per_second(),
        "seen": seen(recorded),
        "kinds": kinds,
        "not_begun": report.not_begun,
        "calm": report.calm.as_ref().map(|calm| json!({
            "calm_part": calm.part,
            "calm_p50_us": calm.latency_us(0.5),
            "calm_p99_us": calm.latency_us(0.99),
            "calm_p999_us": calm.latency_us(0.999),
            "calm_max_us": calm.latency_us(1.0),
            "stood_still": calm.stood_still,
        })),
        "server": report.server.map(|cost| json!({
            "cpu_us_per_operation": report.server_us(),
            "system_us_per_operation": report.server_system_us(),
            "cpu_us_per_row": report.server_us_per_row(),
            "memory_bytes": cost.resident,
            "disk_bytes_written": cost.disk_written,
            "disk_bytes_per_byte_written": report.write_amplification(),
            "calls_per_operation": report.calls_per_operation(),
            "all_calls_counted": report.server_calls.is_some(),
        })),
        "generator_cpu_us_per_operation": report.generator_us(),
        "curve_nines_us": curve,
        "slot_seconds": SLOT.as_secs_f64(),
        "slot_operations": recorded.slots.iter().map(|slot| slot.operations).collect::<Vec<_>>(),
        "slot_latency_max_us":
            recorded.slots.iter().map(|slot| slot.latency_max_ns as f64 / 1e3).collect::<Vec<_>>(),
        "flushes_at_seconds": at(Event::Flush),
        "compactions_at_seconds": at(Event::Compaction),
    })
    .to_string()
}

fn seen(recorded: &Recorded) -> Value {
    json!({
        "operations": recorded.operations,
        "rows": recorded.rows,
        "wrong": recorded.wrong,
        "bytes_written": recorded.written,
        "failures": recorded.failures,
        "p50_us": recorded.latency_us(0.5),
        "p95_us": recorded.latency_us(0.95),
        "p99_us": recorded.latency_us(0.99),
        "p999_us": recorded.latency_us(0.999),
        "max_us": recorded.latency_us(1.0),
    })
}

/// Returns the line for first answers. `after` names the kind of start, for example `start`.
pub(crate) fn first_line(label: &str, after: &str, first: First) -> String {
    json!({
        "label": label,
        "first": after,
        "read_ms": first.read.as_secs_f64() * 1e3,
        "write_ms": first.write.as_secs_f64() * 1e3,
    })
    .to_string()
}

impl Outcomes {
    /// Reads lines that [`line`], [`first_line`] and [`Limit::line`] wrote. Returns an error text at the first other
    /// line; the lines before it have been added.
    pub(crate) fn add(&mut self, text: &str) -> std::result::Result<(), String> {
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let line: Value =
                serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))?;
            let missing = || format!("line {} is no result of `bellows bench --json`", number + 1);
            if let Some(name) = line["limit"].as_str() {
                self.limits.push(Limit {
                    name: name.to_owned(),
                    workload: line["workload"].as_str().map(str::to_owned),
                    cpu_us: line["cpu_us"].as_f64().ok_or_else(missing)?,
                    wall_us: line["wall_us"].as_f64().ok_or_else(missing)?,
                });
                continue;
            }
            let label = line["label"].as_str().ok_or_else(missing)?.to_owned();
            if let Some(after) = line["first"].as_str() {
                self.firsts.push(FirstOutcome {
                    label,
                    after: after.to_owned(),
                    read_ms: line["read_ms"].as_f64().ok_or_else(missing)?,
                    write_ms: line["write_ms"].as_f64().ok_or_else(missing)?,
                });
            } else {
                self.workloads.push(workload(label, &line).ok_or_else(missing)?);
            }
        }
        Ok(())
    }

    /// Reads a file of results. Fails as [`add`](Outcomes::add) does, and if the file cannot be read.
    pub(crate) fn add_file(&mut self, file: &Path) -> Result<()> {
        let failed = |reason: String| Error::File { file: file.display().to_string(), reason };
        let text = storage::read_text(file).map_err(|error| failed(error.to_string()))?;
        self.add(&text).map_err(failed)
    }
}

fn workload(label: String, line: &Value) -> Option<Outcome> {
    let (seen, server) = (&line["seen"], &line["server"]);
    let (rows, operations) = (seen["rows"].as_f64()?, seen["operations"].as_f64()?);
    let slot = line["slot_seconds"].as_f64()?;
    let numbers =
        |name: &str| -> Option<Vec<f64>> { line[name].as_array()?.iter().map(Value::as_f64).collect() };
    let over_time = |name: &str, factor: f64| -> Option<Vec<(f64, f64)>> {
        let numbers = numbers(name)?.into_iter().enumerate();
        Some(numbers.map(|(at, number)| ((at as f64 + 0.5) * slot, number * factor)).collect())
    };
    let curve = line["curve_nines_us"].as_array()?.iter();
    let name = line["workload"].as_str()?;
    // If the processors were watched, the quantiles are those of operations without a stall nearby, because the other
    // ones say nothing about the server.
    let (latencies, before, behind) =
        if line["calm"].is_object() { (&line["calm"], "calm_", ", calm") } else { (seen, "", "") };
    let latency = |quantile: &str| latencies[format!("{before}{quantile}_us")].as_f64();
    let never = line["not_begun"].as_f64().unwrap_or(0.0) > (1.0 - 0.999) * operations;
    let is_told = latencies["calm_part"].as_f64().is_none_or(|part| part >= CALM_PART_MIN);
    let tail = match (is_told, never) {
        (false, _) => f64::NAN,
        (true, true) => f64::INFINITY,
        (true, false) => latency("p999")?,
    };
    Some(Outcome {
        label,
        workload: format!("{name}{behind}"),
        rows_per_operation: if operations > 0.0 { rows / operations } else { 1.0 },
        per_second: line["operations_per_second"].as_f64()?,
        p50_us: latency("p50")?,
        p99_us: latency("p99")?,
        p999_us: tail,
        server_us: server["cpu_us_per_operation"].as_f64(),
        generator_us: line["generator_cpu_us_per_operation"].as_f64().unwrap_or(0.0),
        memory_mib: server["memory_bytes"].as_f64().map(|bytes| bytes / f64::from(1 << 20)),
        amplification: server["disk_bytes_per_byte_written"].as_f64(),
        calls: server["calls_per_operation"].as_f64(),
        curve: curve.map(|point| Some((point[0].as_f64()?, point[1].as_f64()?))).collect::<Option<_>>()?,
        progress: over_time("slot_operations", 1.0 / slot)?,
        longest: over_time("slot_latency_max_us", 1.0)?,
        flushes: numbers("flushes_at_seconds")?,
        compactions: numbers("compactions_at_seconds")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Outcome {
        let mut outcomes = Outcomes::default();
        outcomes.add(line).expect("a line of results");
        outcomes.workloads.remove(0)
    }

    fn line(calm: &str, not_begun: u64) -> String {
        format!(
            "{{\"label\":\"a\",\"workload\":\"mix at 4/s\",\"operations_per_second\":4.0,\"calm\":{calm},\
             \"not_begun\":{not_begun},\"seen\":{{\"operations\":5000,\"rows\":5000,\"p50_us\":1.0,\"p99_us\":2.0,\
             \"p999_us\":900.0}},\"curve_nines_us\":[],\"slot_seconds\":1.0,\"slot_operations\":[],\
             \"slot_latency_max_us\":[],\"flushes_at_seconds\":[],\"compactions_at_seconds\":[]}}"
        )
    }

    #[test]
    fn where_processors_were_watched_the_calm_part_is_compared() {
        let all = read(&line("null", 5));
        assert_eq!((all.workload.as_str(), all.p50_us, all.p999_us), ("mix at 4/s", 1.0, 900.0));
        let calm = |part: f64| {
            let latencies = "\"calm_p50_us\":3.0,\"calm_p99_us\":4.0,\"calm_p999_us\":5.0";
            read(&line(&format!("{{\"calm_part\":{part},{latencies}}}"), 0))
        };
        let most = calm(0.9);
        assert_eq!((most.workload.as_str(), most.p50_us, most.p999_us), ("mix at 4/s, calm", 3.0, 5.0));
        assert!(calm(0.1).p999_us.is_nan(), "too little of it");
    }

    #[test]
    fn operations_that_never_began_are_in_the_tail() {
        assert_eq!(read(&line("null", 6)).p999_us, f64::INFINITY);
    }
}
