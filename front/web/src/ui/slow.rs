//! The page of slow and large calls, the latest first.

use std::collections::BTreeMap;

use maud::{Markup, html};
use proto::pb;
use proto::pb::slow_log_payload::Type;
use serde_json::{Value, json};

use super::chart::{self, Chart, Unit};
use super::{Frame, page, parts};
use crate::history::Range;
use crate::node::Console;
use crate::query::Query;

/// Maximum number of calls in the list.
const CALLS_MAX: usize = 500;

/// A slow call, or one with a large answer.
#[derive(Clone, Debug, Default, PartialEq)]
struct SlowCall {
    time: i64,
    kind: &'static str,
    method: String,
    table: String,
    region: String,
    ms: f64,
    queue_ms: f64,
    disk_ms: Option<f64>,
    answer_bytes: f64,
    rows: i32,
    user: String,
    client: String,
    details: String,
    /// The client's span in the form of `traceparent`; empty if the call was not traced.
    traceparent: String,
}

fn call_of(entry: pb::SlowLogPayload) -> SlowCall {
    let traceparent = entry.request_attribute.iter().find(|pair| pair.name == rpc::TRACEPARENT);
    let traceparent = traceparent.and_then(|pair| pair.value.as_deref()).unwrap_or_default();
    let region = entry.region_name.clone().unwrap_or_default();
    let rows = [entry.multi_gets, entry.multi_mutations, entry.multi_service_calls];
    SlowCall {
        time: entry.start_time,
        kind: match entry.r#type() {
            Type::SlowLog => "slow",
            Type::LargeLog => "large",
            Type::All => "slow, large",
        },
        table: region.split(',').next().unwrap_or_default().to_owned(),
        region,
        ms: f64::from(entry.processing_time),
        queue_ms: f64::from(entry.queue_time),
        disk_ms: entry.fs_read_time.map(|time| time as f64),
        answer_bytes: entry.response_size as f64,
        rows: rows.into_iter().flatten().sum(),
        method: entry.method_name,
        user: entry.user_name,
        client: entry.client_address,
        traceparent: String::from_utf8_lossy(traceparent).into_owned(),
        details: entry.param.filter(|param| !param.is_empty()).unwrap_or(entry.call_details),
    }
}

fn calls(console: &Console) -> Vec<SlowCall> {
    let entries = console.node.get().map_or_else(Vec::new, |node| node.server.slow_calls(CALLS_MAX));
    entries.into_iter().map(call_of).collect()
}

/// The properties by which calls can be grouped.
const GROUPS: [&str; 4] = ["method", "table", "user", "client"];

fn group_of<'a>(call: &'a SlowCall, by: &str) -> &'a str {
    match by {
        "method" => &call.method,
        "table" => &call.table,
        "user" => &call.user,
        // The port is left out, because it is another one for each connection.
        _ => call.client.rsplit_once(':').map_or(&call.client, |(host, _)| host),
    }
}

/// Returns the number of calls and the longest call of each group, the largest group first.
fn groups<'a>(calls: &'a [SlowCall], by: &str) -> Vec<(&'a str, usize, f64)> {
    let mut groups: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for call in calls {
        let (count, longest) = groups.entry(group_of(call, by)).or_default();
        *count += 1;
        *longest = longest.max(call.ms);
    }
    let mut groups: Vec<_> =
        groups.into_iter().map(|(name, (count, longest))| (name, count, longest)).collect();
    groups.sort_by_key(|(_, count, _)| std::cmp::Reverse(*count));
    groups
}

fn body(calls: &[SlowCall], limit: &str, query: &Query) -> Markup {
    let by = GROUPS.into_iter().find(|group| *group == query.get("by"));
    html! {
        p.lead {
            "A call is slow when it takes more than " b { (limit) } " (hbase.ipc.warn.response.time), and large when its answer has more bytes than "
            code { "hbase.ipc.warn.response.size" } "."
        }
        @if calls.is_empty() {
            (parts::empty("No call was slow or large lately."))
        } @else {
            p.note {
                "Group by "
                @for group in GROUPS { a href=(query.with("by", group).address("/slow")) { (group) } " " }
                @if by.is_some() { "· " a href=(query.with("by", "").address("/slow")) { "each call" } }
            }
            div.scroll tabindex="0" role="region" aria-label="Table of slow and large calls" {
                @if let Some(by) = by {
                    table.dense {
                        thead { tr { th scope="col" { (by) } th.n scope="col" { "Calls" } th scope="col" { "Share" } th.n scope="col" { "Longest" } } }
                        tbody {
                            @for (name, count, longest) in groups(calls, by) {
                                tr {
                                    th scope="row" { (parts::short(name, 80)) } td.n { (count) }
                                    td { (parts::bar(&[(count as f64 / calls.len() as f64, "s0")], "Share of the calls that are listed")) }
                                    td.n { (parts::ms(longest)) }
                                }
                            }
                        }
                    }
                } @else {
                    table.dense {
                        thead { tr { th scope="col" { "UTC" } th scope="col" { "Why" } th scope="col" { "Method" } th scope="col" { "Table" } th.n scope="col" { "Took" } th.n scope="col" { "Queue" } th.n scope="col" { "Disk" } th.n scope="col" { "Answer" } th.n scope="col" { "Rows" } th scope="col" { "User" } th scope="col" { "Client" } th scope="col" { "What" } } }
                        tbody {
                            @for call in calls {
                                tr {
                                    th scope="row" { (parts::date(call.time)) }
                                    td { span.tag { (call.kind) } } td { (call.method) } td { (call.table) }
                                    td.n { (parts::ms(call.ms)) } td.n { (parts::ms(call.queue_ms)) }
                                    td.n { @if let Some(disk) = call.disk_ms { (parts::ms(disk)) } @else { "–" } }
                                    td.n { (parts::size(call.answer_bytes)) }
                                    td.n { @if call.rows > 0 { (call.rows) } @else { "–" } }
                                    td { (call.user) } td { code { (call.client) } }
                                    td.words { details { summary { (parts::short(&call.details, 40)) } code { (call.details) } p.note { (call.region) } @if !call.traceparent.is_empty() { p.note { "traceparent " code { (call.traceparent) } } } } }
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
    let limit = console.conf.value(&conf::keys::rpc::WARN_RESPONSE_TIME).unwrap_or(10_000);
    let live = body(&calls(console), &parts::ms(limit as f64), query);
    let charts: Vec<Chart<'_>> = [
        ("Get", &[("get.p50", "p50"), ("get.p99", "p99"), ("get.p999", "p99.9")]),
        ("Scan", &[("scan.p50", "p50"), ("scan.p99", "p99"), ("scan.p999", "p99.9")]),
        ("Mutate", &[("mutate.p50", "p50"), ("mutate.p99", "p99"), ("mutate.p999", "p99.9")]),
        ("Batch", &[("multi.p50", "p50"), ("multi.p99", "p99"), ("multi.p999", "p99.9")]),
    ]
    .into_iter()
    .map(|(title, series)| Chart { title, unit: Unit::Milliseconds, series, stacked: false })
    .collect();
    let range = Range::of_name(query.get("range"));
    let still = html! {
        h2 { "How long calls take" }
        div.charts { @for one in &charts { (chart::draw(&history, one, range, &[])) } }
    };
    let frame =
        Frame { title: "Slow calls", menu: "/slow", path: "/slow", query, has_range: true, is_live: true };
    page(console, &frame, &live, &still)
}

/// Returns the content of the page as JSON.
pub(crate) fn json(console: &Console) -> Value {
    json!({
        "calls": calls(console).iter().map(|call| json!({
            "time": call.time, "kind": call.kind, "method": call.method, "table": call.table,
            "region": call.region, "ms": call.ms, "queueMs": call.queue_ms, "diskMs": call.disk_ms,
            "answerBytes": call.answer_bytes, "rows": call.rows, "user": call.user, "client": call.client,
            "details": call.details, "traceparent": call.traceparent,
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_shown_grouped_and_run_nothing() {
        let entry = |method: &str, ms| pb::SlowLogPayload {
            start_time: 1_700_000_000_000,
            processing_time: ms,
            method_name: method.to_owned(),
            client_address: "10.0.0.7:5000".to_owned(),
            user_name: "<script>".to_owned(),
            region_name: Some("t,,1.e.".to_owned()),
            call_details: "scan over <script>".to_owned(),
            ..pb::SlowLogPayload::default()
        };
        let calls: Vec<SlowCall> =
            [entry("Scan", 12_000), entry("Scan", 400), entry("Get", 90)].into_iter().map(call_of).collect();
        assert_eq!((&calls[0].table[..], calls[0].kind), ("t", "slow"));
        assert_eq!(groups(&calls, "method")[0], ("Scan", 2, 12_000.0));
        assert_eq!(groups(&calls, "client"), [("10.0.0.7", 3, 12_000.0)]);
        let traced =
            pb::NameBytesPair { name: rpc::TRACEPARENT.to_owned(), value: Some("00-<script>".into()) };
        let traced = call_of(pb::SlowLogPayload { request_attribute: vec![traced], ..entry("Get", 50) });
        let drawn = body(&[traced], "10.0 s", &Query::parse("")).into_string();
        assert!(drawn.contains("traceparent <code>00-&lt;script&gt;"), "{drawn}");
        for query in ["", "by=user", "by=<script>"] {
            let drawn = body(&calls, "10.0 s", &Query::parse(query)).into_string();
            assert!(drawn.contains("12.0 s") && !drawn.contains("<script"), "{drawn}");
        }
    }
}
