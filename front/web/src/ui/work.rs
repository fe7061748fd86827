//! The page of the server's background work: flushes, compactions, the log.

use maud::{Markup, html};
use regionserver::{Task, TaskFilter, TaskState};
use serde_json::{Value, json};

use super::chart::{self, Chart, Unit};
use super::{Frame, page, parts};
use crate::history::{History, Range};
use crate::node::{Console, RegionFacts, Snapshots};
use crate::query::{Query, encode};

/// A running compaction.
#[derive(Clone, Debug)]
struct Running<'a> {
    region: &'a RegionFacts,
    /// Number of cells that were compacted.
    done: u64,
    /// Number of cells in total.
    of: u64,
    /// Estimated time until the end at the recent speed, in seconds.
    left: Option<f64>,
}

fn running<'a>(snapshots: &'a Snapshots) -> Vec<Running<'a>> {
    let Some(latest) = &snapshots.latest else { return Vec::new() };
    let base = snapshots.base();
    let mut running: Vec<Running<'a>> = latest
        .regions
        .iter()
        .filter(|region| region.compacted_cells < region.compacting_cells)
        .map(|region| {
            let before = base.and_then(|(base, seconds)| {
                let before = base.regions.iter().find(|other| other.encoded == region.encoded)?;
                Some((region.compacted_cells.saturating_sub(before.compacted_cells), seconds))
            });
            let left = region.compacting_cells - region.compacted_cells;
            Running {
                region,
                done: region.compacted_cells,
                of: region.compacting_cells,
                left: before
                    .filter(|(cells, _)| *cells > 0)
                    .map(|(cells, seconds)| left as f64 / (cells as f64 / seconds)),
            }
        })
        .collect();
    running.sort_by_key(|running| std::cmp::Reverse(running.of - running.done));
    running
}

fn body(snapshots: &Snapshots, history: &History, tasks: &[Task], now: i64) -> Markup {
    let metric = |name: &str| snapshots.latest.as_ref().map_or(0.0, |latest| latest.metrics.sum(name, None));
    let running = running(snapshots);
    let oldest = snapshots.latest.as_ref().and_then(|latest| {
        let edits = latest.regions.iter().filter_map(|region| Some((region.oldest_edit?, region)));
        edits.min_by_key(|(edit, _)| edit.0).map(|(edit, region)| (latest.time.0 - edit.0, region))
    });
    html! {
        ul.tiles {
            li { span.name { "Flushes, waiting or running" } b { (parts::count(metric("hbase_regionserver_flush_queue_length"))) } (chart::spark(history, "queue.flush", Range::Minutes)) span.beside { (parts::count(metric("hbase_regionserver_flush_count"))) " since the start" } }
            li { span.name { "Compactions, waiting or running" } b { (parts::count(metric("hbase_regionserver_compaction_queue_length"))) } (chart::spark(history, "queue.compaction", Range::Minutes)) span.beside { (parts::count(metric("hbase_regionserver_compaction_count"))) " since the start" } }
            li { span.name { "Log files" } b { (parts::count(metric("hbase_wal_file_count"))) } (chart::spark(history, "log.bytes", Range::Minutes)) span.beside { (parts::size(metric("hbase_wal_file_size"))) " to replay after a crash" } }
            li { span.name { "Failed" } b { (parts::count(metric("hbase_regionserver_flush_failed_count") + metric("hbase_regionserver_compaction_failed_count"))) } (chart::spark(history, "flushes.failed", Range::Minutes)) span.beside { "flushes and compactions; tried again" } }
        }
        section aria-labelledby="tasks" {
            h2 #tasks { "Tasks" }
            (task_table(tasks, now))
        }
        section aria-labelledby="running" {
            h2 #running { "How far compactions are" }
            @if running.is_empty() { (parts::empty("None runs just now.")) }
            @else {
                div.scroll tabindex="0" role="region" aria-label="Table of compactions that run" {
                    table.dense {
                        thead { tr { th scope="col" { "Table" } th scope="col" { "Region" } th scope="col" { "Progress" } th.n scope="col" { "Done" } th.n scope="col" { "Cells" } th.n scope="col" { "Time left" } } }
                        tbody {
                            @for one in running.iter().take(100) {
                                tr {
                                    th scope="row" { a href={ "/table/" (encode(one.region.table.as_bytes())) } { (one.region.table) } }
                                    td { code { (parts::short(&one.region.encoded, 8)) } }
                                    td { (parts::bar(&[(one.done as f64 / one.of.max(1) as f64, "s0")], "Cells that were gone over")) }
                                    td.n { (format!("{:.0} %", 100.0 * one.done as f64 / one.of.max(1) as f64)) }
                                    td.n { (parts::count(one.of as f64)) }
                                    td.n { @if let Some(left) = one.left { (parts::span(left)) } @else { "–" } }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if let Some((age, region)) = oldest {
            p.note {
                "The oldest edit that is in no file yet is " b { (parts::span(age as f64 / 1_000.0)) } " old, in "
                a href={ "/table/" (encode(region.table.as_bytes())) } { (region.table) } ". It is in the log."
            }
        }
    }
}

/// Returns the page.
pub(crate) fn show(console: &Console, query: &Query) -> String {
    let (history, snapshots) = (console.history(), console.snapshots.read().clone());
    let mut tasks = console.node.get().map_or_else(Vec::new, |node| node.server.tasks(TaskFilter::General));
    tasks.sort_by_key(|task| (task.state != TaskState::Running, std::cmp::Reverse(task.started.0)));
    let live = body(&snapshots, &history, &tasks, console.world.now().0);
    let charts = [
        Chart {
            title: "Bytes written",
            unit: Unit::BytesPerSecond,
            series: &[("stage.flush", "by flushes"), ("stage.compaction", "by compactions")],
            stacked: true,
        },
        Chart {
            title: "Time to make a write durable",
            unit: Unit::Milliseconds,
            series: &[("sync.p50", "p50"), ("sync.p99", "p99"), ("sync.p999", "p99.9")],
            stacked: false,
        },
    ];
    let range = Range::of_name(query.get("range"));
    let still = html! {
        div.charts { @for one in &charts { (chart::draw(&history, one, range, &[])) } }
    };
    let frame = Frame {
        title: "Work in progress",
        menu: "/work",
        path: "/work",
        query,
        has_range: true,
        is_live: true,
    };
    page(console, &frame, &live, &still)
}

/// Returns the content of the page as JSON.
pub(crate) fn json(console: &Console) -> Value {
    let snapshots = console.snapshots.read().clone();
    let metric = |name: &str| snapshots.latest.as_ref().map_or(0.0, |latest| latest.metrics.sum(name, None));
    json!({
        "flushes": metric("hbase_regionserver_flush_queue_length"),
        "compactions": metric("hbase_regionserver_compaction_queue_length"),
        "logFiles": metric("hbase_wal_file_count"),
        "logBytes": metric("hbase_wal_file_size"),
        "running": running(&snapshots).iter().map(|one| json!({
            "table": one.region.table, "region": one.region.encoded, "cellsDone": one.done,
            "cells": one.of, "secondsLeft": one.left,
        })).collect::<Vec<_>>(),
    })
}

/// Returns the running tasks in the format of HBase's `/rs-status?format=json`; `filter` is HBase's parameter.
pub(crate) fn tasks(console: &Console, filter: &str) -> Value {
    let filter = TaskFilter::of_name(filter).unwrap_or_default();
    let tasks = console.node.get().map_or_else(Vec::new, |node| node.server.tasks(filter));
    let tasks = tasks.into_iter().map(|task| {
        let mut shown = json!({
            "description": task.description,
            "status": task.status,
            "state": task.state.name(),
            "starttimems": task.started.0,
            "statustimems": task.changed.0,
        });
        if let Some(call) = task.call {
            shown["clientaddress"] = json!(call.client.ip().to_string());
            shown["remoteport"] = json!(call.client.port());
            shown["methodname"] = json!(call.method);
            shown["regionname"] = json!(call.region);
            shown["packetlength"] = json!(call.request_bytes);
        }
        shown
    });
    Value::Array(tasks.collect())
}

/// Returns background tasks for a page: the running ones first, then those of the last minute.
fn task_table(tasks: &[Task], now: i64) -> Markup {
    html! {
        @if tasks.is_empty() { (parts::empty("Nothing runs, and nothing ended in the last minute.")) }
        @else {
            div.scroll tabindex="0" role="region" aria-label="Table of tasks" {
                table.dense {
                    thead { tr { th scope="col" { "Task" } th scope="col" { "State" } th scope="col" { "How far" } th.n scope="col" { "Since" } } }
                    tbody {
                        @for task in tasks {
                            tr {
                                th.words scope="row" { (parts::short(&task.description, 120)) }
                                td { span.tag { (task.state.name().to_lowercase()) } }
                                td.words { (task.status) }
                                td.n { (parts::span((now - task.started.0) as f64 / 1_000.0)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
