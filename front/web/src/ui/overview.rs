//! The first page: the state of the server, findings with remedies, and charts of the last minutes.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::advisor::{self, Finding, Severity};
use super::chart::{self, Chart, Event, Unit};
use super::{Frame, page, parts};
use crate::history::{History, Range};
use crate::node::{Console, Snapshots};
use crate::query::Query;

/// Maximum number of events marked on a chart. Every chart repeats them, and the page is fetched every few seconds.
const EVENTS_MAX: usize = 30;

/// Maximum number of events in the list.
const EVENTS: usize = 8;

const CHARTS: [Chart<'_>; 6] = [
    Chart {
        title: "Calls",
        unit: Unit::PerSecond,
        series: &[
            ("calls.get", "get"),
            ("calls.scan", "scan"),
            ("calls.mutate", "mutate"),
            ("calls.multi", "batch"),
        ],
        stacked: true,
    },
    Chart {
        title: "Time of a get",
        unit: Unit::Milliseconds,
        series: &[("get.p50", "p50"), ("get.p99", "p99"), ("get.p999", "p99.9")],
        stacked: false,
    },
    Chart {
        title: "Time of a batch",
        unit: Unit::Milliseconds,
        series: &[("multi.p50", "p50"), ("multi.p99", "p99"), ("multi.p999", "p99.9")],
        stacked: false,
    },
    Chart {
        title: "Time to make a write durable",
        unit: Unit::Milliseconds,
        series: &[("sync.p50", "p50"), ("sync.p99", "p99"), ("sync.p999", "p99.9")],
        stacked: false,
    },
    Chart {
        title: "Bytes written",
        unit: Unit::BytesPerSecond,
        series: &[
            ("stage.client", "by clients"),
            ("stage.log", "to the log"),
            ("stage.flush", "by flushes"),
            ("stage.compaction", "by compactions"),
        ],
        stacked: false,
    },
    Chart {
        title: "Memory",
        unit: Unit::Bytes,
        series: &[
            ("memory.resident", "process"),
            ("memory.cache", "block cache"),
            ("memory.memstore", "edits"),
        ],
        stacked: false,
    },
];

/// A tile of the page: its title, its value, the series behind it, and its link.
struct Tile {
    name: &'static str,
    value: String,
    beside: String,
    series: &'static str,
    page: &'static str,
}

fn tiles(history: &History, snapshots: &Snapshots) -> [Tile; 6] {
    let now = |series: &str| history.mean(series, 5);
    let metric = |name: &str| snapshots.latest.as_ref().map_or(0.0, |latest| latest.metrics.sum(name, None));
    let reads = history.max("get.p99", 10).max(history.max("scan.p99", 10));
    let writes = history.max("mutate.p99", 10).max(history.max("multi.p99", 10));
    [
        Tile {
            name: "Calls",
            value: format!("{}/s", parts::count(now("requests"))),
            beside: format!("{} open connections", parts::count(metric("hbase_ipc_num_open_connections"))),
            series: "requests",
            page: "/clients",
        },
        Tile {
            name: "Reads, p99",
            value: parts::ms(reads),
            beside: format!("{} rows/s", parts::count(now("rows.read"))),
            series: "get.p99",
            page: "/slow",
        },
        Tile {
            name: "Writes, p99",
            value: parts::ms(writes),
            beside: format!("{} rows/s", parts::count(now("rows.written"))),
            series: "multi.p99",
            page: "/slow",
        },
        Tile {
            name: "Edits in memory",
            value: parts::size(metric("hbase_regionserver_mem_store_size")),
            beside: format!("of {}", parts::size(metric("hbase_regionserver_mem_store_size_limit"))),
            series: "memory.memstore",
            page: "/memory",
        },
        Tile {
            name: "Cache hits",
            value: if now("cache.hits") + now("cache.misses") > 0.0 {
                format!("{:.1} %", now("cache.hit"))
            } else {
                "–".to_owned()
            },
            beside: format!("{} cached", parts::size(metric("hbase_regionserver_block_cache_size"))),
            series: "cache.hit",
            page: "/cache",
        },
        disk_tile(
            snapshots.latest.as_ref().and_then(|latest| {
                latest.metrics.samples(DISK_FREE).first().map(|_| latest.metrics.sum(DISK_FREE, None))
            }),
            metric("hbase_regionserver_store_file_size"),
        ),
    ]
}

/// The metric of the free space; a server whose files are on no disk of its machine has none.
const DISK_FREE: &str = "bellows_disk_free_bytes";

/// Returns the tile of the room for files, in bytes: what is free if they are on a disk, and what files have.
fn disk_tile(free: Option<f64>, files: f64) -> Tile {
    let (series, page) = ("files.bytes", "/tables?sort=size");
    match free {
        Some(free) => {
            let beside = format!("{} in files", parts::size(files));
            Tile { name: "Disk free", value: parts::size(free), beside, series, page }
        }
        None => {
            let beside = "in a store without a limit".to_owned();
            Tile { name: "Files", value: parts::size(files), beside, series, page }
        }
    }
}

/// Returns the findings as a list.
pub(crate) fn findings_list(findings: &[Finding]) -> Markup {
    html! {
        @if findings.is_empty() {
            p.calm { "Nothing needs your attention." }
        } @else {
            ol.findings {
                @for finding in findings {
                    li.{ "is-" (finding.severity.name()) } {
                        a href=(finding.page) {
                            b { span.dot aria-hidden="true" {} (finding.what) }
                            span.remedy { (finding.remedy) }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the content of the page without its frame.
fn bodies(
    history: &History,
    snapshots: &Snapshots,
    findings: &[Finding],
    events: &[Event],
    range: Range,
) -> (Markup, Markup) {
    let metric = |name: &str| snapshots.latest.as_ref().map_or(0.0, |latest| latest.metrics.sum(name, None));
    let is_replica = metric("bellows_replica_regions") > 0.0;
    let live = html! {
        @if is_replica {
            p { "This server is a read replica. It knows everything that its primary had acknowledged "
                (parts::ms(metric("bellows_replica_lag_seconds") * 1_000.0)) " ago." }
        }
        section aria-labelledby="advisor" {
            h2 #advisor { "What needs you" }
            (findings_list(findings))
        }
        ul.tiles {
            @for tile in tiles(history, snapshots) {
                li {
                    a href=(tile.page) {
                        span.name { (tile.name) }
                        b { (tile.value) }
                        (chart::spark(history, tile.series, Range::Minutes))
                        span.beside { (tile.beside) }
                    }
                }
            }
        }
    };
    let still = html! {
        div.charts {
            @for one in &CHARTS { (chart::draw(history, one, range, events)) }
        }
        section aria-labelledby="events" {
            h2 #events { "Events" }
            @if events.is_empty() { (parts::empty("Nothing happened that is worth a mark.")) }
            ul.events {
                @for event in events.iter().take(EVENTS) {
                    li.{ "is-" (event.level) } {
                        time { (parts::clock(event.time as i64 * 1_000)) }
                        span.level { (event.level) }
                        span { (event.text) }
                    }
                }
            }
            p { a href="/log" { "The whole log" } }
        }
    };
    (live, still)
}

fn events(console: &Console) -> Vec<Event> {
    console.log.lines(EVENTS_MAX, chart::is_event).iter().map(Event::of).collect()
}

/// Returns the page.
pub(crate) fn show(console: &Console, query: &Query) -> String {
    let (history, snapshots) = (console.history(), console.snapshots.read().clone());
    let range = Range::of_name(query.get("range"));
    let (live, still) = bodies(&history, &snapshots, &advisor::of(console), &events(console), range);
    let frame = Frame { title: "Overview", menu: "/", path: "/", query, has_range: true, is_live: true };
    page(console, &frame, &live, &still)
}

/// Returns the content of the page as JSON.
pub(crate) fn json(console: &Console) -> Value {
    let (level, sentence) = advisor::sentence(console);
    let (history, snapshots) = (console.history(), console.snapshots.read().clone());
    let tiles: Vec<Value> = tiles(&history, &snapshots)
        .into_iter()
        .map(|tile| json!({ "name": tile.name, "value": tile.value, "beside": tile.beside }))
        .collect();
    json!({
        "well": level == Severity::Good,
        "level": level.name(),
        "sentence": sentence,
        "findings": advisor::of(console).iter().map(|finding| json!({
            "severity": finding.severity.name(),
            "what": finding.what,
            "remedy": finding.remedy,
            "page": finding.page,
        })).collect::<Vec<_>>(),
        "tiles": tiles,
        "events": events(console).iter().take(EVENTS).map(|event| json!({
            "time": event.time, "level": event.level, "text": event.text,
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_disk_has_free_space() {
        let shown = |free| {
            let tile = disk_tile(free, 3.0 * 1_024.0);
            (tile.name, tile.value, tile.beside)
        };
        assert_eq!(shown(Some(0.0)), ("Disk free", "0 B".to_owned(), "3.0 KB in files".to_owned()));
        assert_eq!(shown(None), ("Files", "3.0 KB".to_owned(), "in a store without a limit".to_owned()));
    }
}
