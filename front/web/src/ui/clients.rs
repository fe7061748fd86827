//! The page of the clients, with their calls and rates.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::chart::{self, Chart, Unit};
use super::{Frame, page, parts};
use crate::client_table::ClientRow;
use crate::history::Range;
use crate::node::Console;
use crate::query::Query;

fn table(rows: &[ClientRow], now: i64) -> Markup {
    let most = rows.iter().map(|row| row.reads + row.writes).fold(1e-9, f64::max);
    html! {
        @if rows.is_empty() { (parts::empty("No call has been sampled yet. One in 16 is.")) }
        @else {
            div.scroll tabindex="0" role="region" aria-label="Clients" {
                table.dense {
                    thead { tr { th scope="col" { "User" } th scope="col" { "Address" } th scope="col" { "Client" } th scope="col" { "Share" } th.n scope="col" { "Rows read/s" } th.n scope="col" { "Rows written/s" } th.n scope="col" { "Whole-table scans/min" } th.n scope="col" { "Longest call" } th.n scope="col" { "Last seen" } } }
                    tbody {
                        @for row in rows {
                            tr {
                                th scope="row" { (row.user) }
                                td { code { (row.address) } } td { (row.version) }
                                td { (parts::bar(&[(row.reads / most, "s0"), (row.writes / most, "s3")], "Reads and writes, beside the busiest client's")) }
                                td.n { (parts::count(row.reads)) } td.n { (parts::count(row.writes)) }
                                td.n { @if row.full_scans * 60.0 >= 0.5 { b { (parts::count(row.full_scans * 60.0)) } } @else { "–" } }
                                td.n { (parts::ms(row.longest.as_secs_f64() * 1_000.0)) }
                                td.n { (parts::span((now - row.last.0) as f64 / 1_000.0)) " ago" }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the number of exceptions that clients received since the start, by class.
fn exceptions(console: &Console) -> Vec<(String, f64)> {
    let snapshots = console.snapshots.read();
    let samples = snapshots
        .latest
        .as_ref()
        .map_or(&[][..], |latest| latest.metrics.samples("hbase_ipc_exception_count"));
    let mut exceptions: Vec<(String, f64)> = samples
        .iter()
        .map(|sample| (sample.label("class").unwrap_or_default().to_owned(), sample.value.as_f64()))
        .collect();
    exceptions.sort_by(|a, b| b.1.total_cmp(&a.1));
    exceptions
}

/// Returns the page.
pub(crate) fn show(console: &Console, query: &Query) -> String {
    let exceptions = exceptions(console);
    let live = html! {
        p.lead { "One call in 16 is looked at; the rates are estimates of the last half minute." }
        (table(&console.clients.rows(), console.world.now().0))
        section aria-labelledby="exceptions" {
            h2 #exceptions { "Exceptions that clients were given" }
            @if exceptions.is_empty() { (parts::empty("None since the start.")) }
            @else {
                table.dense { tbody { @for (class, count) in &exceptions { tr { th scope="row" { code { (class) } } td.n { (parts::count(*count)) } } } } }
                p.note { "NotServingRegion, RegionMoved and RegionTooBusy are a part of a client's normal life: it tries again." }
            }
        }
    };
    let history = console.history();
    let bytes = Chart {
        title: "Bytes",
        unit: Unit::BytesPerSecond,
        series: &[("bytes.in", "received"), ("bytes.out", "sent")],
        stacked: false,
    };
    let range = Range::of_name(query.get("range"));
    let still = html! { div.charts { (chart::draw(&history, &bytes, range, &[])) } };
    let frame =
        Frame { title: "Clients", menu: "/clients", path: "/clients", query, has_range: true, is_live: true };
    page(console, &frame, &live, &still)
}

/// Returns the content of the page as JSON.
pub(crate) fn json(console: &Console) -> Value {
    json!({
        "clients": console.clients.rows().iter().map(|row| json!({
            "user": row.user, "address": row.address.to_string(), "version": row.version,
            "rowsReadPerSecond": row.reads, "rowsWrittenPerSecond": row.writes,
            "fullScansPerSecond": row.full_scans, "longestMs": row.longest.as_secs_f64() * 1_000.0,
            "firstSeen": row.first.0, "lastSeen": row.last.0,
        })).collect::<Vec<_>>(),
        "exceptions": exceptions(console).iter().map(|(class, count)| json!({ "class": class, "count": count })).collect::<Vec<_>>(),
    })
}
