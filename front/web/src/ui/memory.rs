//! The page of the memstores: what each store has in memory, and what in-memory compaction has saved.

use maud::{Markup, html};
use region::{Balance, MemoryEvent, MemoryLoad, SegmentLoad};
use serde_json::{Value, json};

use super::chart::{self, Chart, Unit};
use super::{Frame, page, parts};
use crate::history::Range;
use crate::node::{Console, Node};
use crate::query::{Query, encode};

/// Maximum number of stores, those with the most bytes in memory first.
const STORES: usize = 40;
/// Maximum number of in-memory compactions that are shown of a store.
const EVENTS: usize = 6;

/// A store as the page shows it.
pub(crate) struct Store {
    pub(crate) table: String,
    pub(crate) region: String,
    pub(crate) family: String,
    pub(crate) flush_size: u64,
    pub(crate) memory: MemoryLoad,
    pub(crate) events: Vec<MemoryEvent>,
}

impl Store {
    fn bytes(&self) -> u64 {
        let memory = &self.memory;
        memory.active.bytes + sum(&memory.pipeline) + sum(&memory.snapshot)
    }
}

fn sum(segments: &[SegmentLoad]) -> u64 {
    segments.iter().map(|segment| segment.bytes).sum()
}

fn stores(node: &Node) -> Vec<Store> {
    let mut stores = Vec::new();
    for region in node.server.regions().all() {
        for store in region.load().stores {
            stores.push(Store {
                table: region.info().table().to_string(),
                region: region.info().encoded_name().to_string(),
                family: store.family.escape_ascii().to_string(),
                flush_size: region.flush_size(),
                // The region has all families of its own load, so this does not fail.
                events: region.memory_events(&store.family).unwrap_or_default(),
                memory: store.memory,
            });
        }
    }
    stores.sort_by_key(|store| std::cmp::Reverse(store.bytes()));
    stores
}

fn balances(node: &Node) -> Vec<(String, Balance)> {
    let balances = node.server.foundation().region_options.ledger.balances();
    balances.into_iter().map(|(table, balance)| (table.to_string(), balance)).collect()
}

fn told(event: &MemoryEvent) -> String {
    let dropped = 1.0 - event.cells_after as f64 / event.cells_before.max(1) as f64;
    let mut text = format!(
        "{} {} segments in {}: {} → {}",
        event.act.name(),
        event.segments,
        parts::ms(event.took.as_secs_f64() * 1_000.0),
        parts::size(event.bytes_before as f64),
        parts::size(event.bytes_after as f64),
    );
    if let Some(expected) = event.expected {
        text.push_str(&format!(", {:.0} % expected to go", expected * 100.0));
    }
    if dropped > 0.0 {
        text.push_str(&format!(", {:.0} % of the cells went", dropped * 100.0));
    }
    text
}

fn accordion(store: &Store) -> Markup {
    let memory = &store.memory;
    let part = |bytes: u64| bytes as f64 / store.flush_size.max(1) as f64;
    let mut segments: Vec<(f64, &str)> = vec![(part(memory.active.bytes), "active")];
    segments.extend(memory.pipeline.iter().map(|segment| (part(segment.bytes), "pipeline")));
    segments.extend(memory.snapshot.iter().map(|segment| (part(segment.bytes), "flushing")));
    let title = format!(
        "{} of {}: {} active, {} in the pipeline, {} being flushed",
        parts::size(store.bytes() as f64),
        parts::size(store.flush_size as f64),
        parts::size(memory.active.bytes as f64),
        parts::size(sum(&memory.pipeline) as f64),
        parts::size(sum(&memory.snapshot) as f64),
    );
    let counts = memory.counts;
    html! {
        article.store {
            h3 {
                a href={ "/table/" (encode(store.table.as_bytes())) } { (store.table) } " · " (store.family)
                span.tag { (memory.level.name().to_lowercase()) }
                code.note { (parts::short(&store.region, 8)) }
            }
            (parts::bar(&segments, &title))
            p.note { (title) "." }
            @if counts.cells_compacted > 0 {
                p.note {
                    "Compacting in memory has dropped " b { (format!("{:.0} %", 100.0 * counts.cells_dropped as f64 / counts.cells_compacted as f64)) }
                    " of " (parts::count(counts.cells_compacted as f64)) " cells; "
                    (parts::size(counts.bytes_copied as f64)) " were copied for it."
                }
            }
            @if !store.events.is_empty() {
                details {
                    summary { "Decisions" }
                    ul.events {
                        @for event in store.events.iter().rev().take(EVENTS) {
                            li { time { (parts::clock(event.time.0)) } span { (told(event)) } }
                        }
                    }
                }
            }
        }
    }
}

fn body(stores: &[Store], balances: &[(String, Balance)], used: f64, limit: f64) -> Markup {
    let some: Vec<&Store> =
        stores.iter().filter(|store| store.bytes() > 0 || !store.events.is_empty()).collect();
    html! {
        p.lead {
            b { (parts::size(used)) } " of " (parts::size(limit)) " hold edits that are not in files yet. "
            "All of them are in the log too."
        }
        (parts::bar(&[(used / limit.max(1.0), "s0")], "Memory of all tables, of what they may take together"))
        section aria-labelledby="stores" {
            h2 #stores { "Stores" }
            p.keys-of-bar { i.active {} " takes writes " i.pipeline {} " waits for the flush, compacted meanwhile " i.flushing {} " is being flushed" }
            @if some.is_empty() { (parts::empty("No store has anything in memory.")) }
            div.stores { @for store in some.iter().take(STORES) { (accordion(store)) } }
            @if some.len() > STORES { p.note { "The fullest " (STORES) " of " (some.len()) " stores." } }
        }
        section aria-labelledby="balance" {
            h2 #balance { "What a written byte becomes" }
            @if balances.iter().all(|(_, balance)| *balance == Balance::default()) {
                (parts::empty("Nothing was written since the start."))
            } @else {
                div.scroll tabindex="0" role="region" aria-label="Bytes since the start" {
                    table.dense {
                        thead { tr { th scope="col" { "Table" } th.n scope="col" { "Written by clients" } th.n scope="col" { "To the log" } th.n scope="col" { "By flushes" } th.n scope="col" { "By compactions" } th.n scope="col" { "Files for each byte" } } }
                        tbody {
                            @for (table, balance) in balances.iter().filter(|(_, balance)| *balance != Balance::default()) {
                                tr {
                                    th scope="row" { (table) }
                                    td.n { (parts::size(balance.user as f64)) }
                                    td.n { (parts::size(balance.log as f64)) }
                                    td.n { (parts::size(balance.flushed as f64)) }
                                    td.n { (parts::size(balance.compacted as f64)) }
                                    td.n { @if let Some(times) = balance.amplification() { (format!("{times:.2}")) } @else { "–" } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the page.
pub(crate) fn show(console: &Console, query: &Query) -> String {
    let history = console.history();
    let metric = |name: &str| {
        console.snapshots.read().latest.as_ref().map_or(0.0, |latest| latest.metrics.sum(name, None))
    };
    let live = match console.node.get() {
        None => parts::empty("The server is starting."),
        Some(node) => body(
            &stores(node),
            &balances(node),
            metric("hbase_regionserver_mem_store_size"),
            metric("hbase_regionserver_mem_store_size_limit"),
        ),
    };
    let chart = Chart {
        title: "Edits in memory",
        unit: Unit::Bytes,
        series: &[("memory.memstore", "edits")],
        stacked: true,
    };
    let written = Chart {
        title: "Bytes written",
        unit: Unit::BytesPerSecond,
        series: &[
            ("stage.client", "by clients"),
            ("stage.flush", "by flushes"),
            ("stage.compaction", "by compactions"),
        ],
        stacked: false,
    };
    let range = Range::of_name(query.get("range"));
    let still = html! {
        div.charts { @for one in [&chart, &written] { (chart::draw(&history, one, range, &[])) } }
    };
    let frame =
        Frame { title: "Memory", menu: "/memory", path: "/memory", query, has_range: true, is_live: true };
    page(console, &frame, &live, &still)
}

/// Returns the content of the page as JSON.
pub(crate) fn json(console: &Console) -> Value {
    let Some(node) = console.node.get() else { return json!({ "error": "the server is starting" }) };
    json!({
        "stores": stores(node).iter().map(|store| json!({
            "table": store.table,
            "region": store.region,
            "family": store.family,
            "level": store.memory.level.name(),
            "flushSize": store.flush_size,
            "activeBytes": store.memory.active.bytes,
            "pipelineBytes": store.memory.pipeline.iter().map(|segment| segment.bytes).collect::<Vec<_>>(),
            "flushingBytes": sum(&store.memory.snapshot),
            "cellsCompacted": store.memory.counts.cells_compacted,
            "cellsDropped": store.memory.counts.cells_dropped,
        })).collect::<Vec<_>>(),
        "tables": balances(node).iter().map(|(table, balance)| json!({
            "table": table, "written": balance.user, "logged": balance.log,
            "flushed": balance.flushed, "compacted": balance.compacted,
        })).collect::<Vec<_>>(),
    })
}
