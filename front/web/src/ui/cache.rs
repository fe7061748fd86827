//! The block cache: its tiers, hits and misses by table, and its devices.

use cache::{BlockKind, BucketCounts, Cache, Tier};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::chart::{self, Chart, Unit};
use super::{Frame, page, parts};
use crate::history::Range;
use crate::node::Console;
use crate::query::Query;

fn kind_name(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Data => "data",
        BlockKind::Index => "index",
        BlockKind::Bloom => "bloom",
    }
}

fn hit(hits: u64, misses: u64) -> String {
    if hits + misses == 0 {
        return "–".to_owned();
    }
    format!("{:.1} %", 100.0 * hits as f64 / (hits + misses) as f64)
}

fn bucket_tier(engine: &str, bucket: &BucketCounts) -> Markup {
    let part = bucket.bytes as f64 / bucket.bytes_max.max(1) as f64;
    html! {
        article.store {
            h3 { "Second tier" span.tag { (engine) } }
            @if bucket.disabled { p.failure role="alert" { strong { "Not used any more." } " Its devices failed for too long. Nothing is lost; reads go to the files." } }
            @else if bucket.read_only { p.failure role="alert" { strong { "Read-only." } " Writes to its devices failed for too long." } }
            (parts::bar(&[(part, "s0")], "Filled part of the second tier"))
            p.note { (parts::size(bucket.bytes as f64)) " of " (parts::size(bucket.bytes_max as f64)) " in " (parts::count(bucket.blocks as f64)) " blocks." }
            dl.facts {
                dt { "Evicted" } dd { (parts::count(bucket.evicted as f64)) }
                dt { "Refused" } dd { (parts::count(bucket.refused as f64)) " blocks that are used less than those there" }
                dt { "Dropped" } dd { (parts::count(bucket.dropped as f64)) " blocks, because too many waited to be written" }
                dt { "Corrupt" } dd { (parts::count(bucket.corrupt as f64)) }
                dt { "Failed" } dd { (parts::count(bucket.failed as f64)) " reads and writes of its devices" }
            }
            @for device in &bucket.devices {
                @if device.failed > 0 || device.disabled || device.read_only {
                    p.note { code { (device.place) } ": " (parts::count(device.failed as f64)) " failures"
                        @if device.disabled { ", not used any more" } @else if device.read_only { ", read-only" } }
                }
            }
            @let slots: Vec<_> = bucket.slots.iter().filter(|slots| slots.buckets > 0).collect();
            @if !slots.is_empty() {
                details {
                    summary { "Slots by size" }
                    table.dense {
                        thead { tr { th.n scope="col" { "Slot" } th.n scope="col" { "Used" } th.n scope="col" { "Of" } th scope="col" { "Filled" } th.n scope="col" { "Evicted" } } }
                        tbody {
                            @for slot in slots {
                                tr {
                                    td.n { (parts::size(f64::from(slot.size))) } td.n { (slot.used) } td.n { (slot.slots) }
                                    td { (parts::bar(&[(slot.used as f64 / slot.slots.max(1) as f64, "s0")], "Used slots")) }
                                    td.n { (slot.evicted) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn body(cache: &Cache) -> Markup {
    let (counts, bytes_max) = (cache.counts(), cache.bytes_max() as f64);
    let mut tables = cache.tables();
    tables.sort_by_key(|table| std::cmp::Reverse(table.lookups.hits() + table.lookups.misses()));
    html! {
        h2 { "Tiers" }
        div.stores {
            article.store {
                h3 { "Memory" }
                (parts::bar(&[(counts.bytes as f64 / bytes_max.max(1.0), "s0")], "Filled part of the cache in memory"))
                p.note { (parts::size(counts.bytes as f64)) " of " (parts::size(bytes_max)) " in " (parts::count(counts.blocks as f64)) " blocks." }
                dl.facts {
                    @for kind in BlockKind::ALL {
                        dt { (kind_name(kind)) } dd { (parts::count(counts.blocks_of[kind as usize] as f64)) " blocks, " (hit(counts.lookups.hits_of(kind), counts.lookups.misses_of(kind))) " hits" }
                    }
                    dt { "Evicted" } dd { (parts::count(counts.evicted as f64)) }
                    dt { "Refused" } dd { (parts::count(counts.refused as f64)) " blocks that are used less than those there" }
                }
            }
            @if let Some(bucket) = cache.bucket() { (bucket_tier(&bucket.engine(), &bucket.counts())) }
        }
        section aria-labelledby="by-table" {
            h2 #by-table { "By table, since the start" }
            @if tables.is_empty() { (parts::empty("No block was looked for yet.")) }
            @else {
                div.scroll tabindex="0" role="region" aria-label="Lookups of blocks by table" {
                    table.dense {
                        thead { tr { th scope="col" { "Table" } th scope="col" { "Kind" } th.n scope="col" { "In memory" } th.n scope="col" { "Second tier" } th.n scope="col" { "Missed" } th.n scope="col" { "Hits" } } }
                        tbody {
                            @for table in tables.iter().take(50) {
                                @for kind in BlockKind::ALL {
                                    @let (hits, misses) = (table.lookups.hits_of(kind), table.lookups.misses_of(kind));
                                    @if hits + misses > 0 {
                                        tr {
                                            th scope="row" { (table.table) } td { (kind_name(kind)) }
                                            td.n { (parts::count(table.lookups.hits_of_in(kind, Tier::Memory) as f64)) }
                                            td.n { (parts::count(table.lookups.hits_of_in(kind, Tier::Bucket) as f64)) }
                                            td.n { (parts::count(misses as f64)) } td.n { (hit(hits, misses)) }
                                        }
                                    }
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
    let live = match console.node.get() {
        None => parts::empty("The server is starting."),
        Some(node) => body(&node.server.foundation().cache),
    };
    let hits =
        Chart { title: "Hits", unit: Unit::Percent, series: &[("cache.hit", "of lookups")], stacked: false };
    let lookups = Chart {
        title: "Lookups of blocks",
        unit: Unit::PerSecond,
        series: &[("cache.hits", "hits"), ("cache.misses", "misses")],
        stacked: true,
    };
    let range = Range::of_name(query.get("range"));
    let still = html! {
        div.charts { @for one in [&hits, &lookups] { (chart::draw(&history, one, range, &[])) } }
    };
    let frame =
        Frame { title: "Cache", menu: "/cache", path: "/cache", query, has_range: true, is_live: true };
    page(console, &frame, &live, &still)
}

/// Returns the content of the page as JSON.
pub(crate) fn json(console: &Console) -> Value {
    let Some(node) = console.node.get() else { return json!({ "error": "the server is starting" }) };
    let cache = &node.server.foundation().cache;
    let counts = cache.counts();
    json!({
        "memory": {
            "bytes": counts.bytes, "bytesMax": cache.bytes_max(), "blocks": counts.blocks,
            "hits": counts.lookups.hits(), "misses": counts.lookups.misses(), "evicted": counts.evicted,
        },
        "secondTier": cache.bucket().map(|bucket| {
            let counts = bucket.counts();
            json!({
                "engine": bucket.engine(), "bytes": counts.bytes, "bytesMax": counts.bytes_max,
                "blocks": counts.blocks, "disabled": counts.disabled, "readOnly": counts.read_only,
                "failed": counts.failed, "corrupt": counts.corrupt,
            })
        }),
        "tables": cache.tables().iter().map(|table| json!({
            "table": table.table.to_string(), "hits": table.lookups.hits(), "misses": table.lookups.misses(),
        })).collect::<Vec<_>>(),
    })
}
