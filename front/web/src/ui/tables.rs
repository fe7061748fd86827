//! The page of all tables, sortable by load and cost.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::{Frame, chart, page, parts};
use crate::history::{History, Range};
use crate::node::{Console, Snapshots, TableFacts, TableSums, table_sums};
use crate::query::{Query, encode};

/// Maximum number of tables on a page.
const ROWS_MAX: usize = 200;

/// A table as the page shows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableRow {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) sums: TableSums,
    pub(crate) reads: f64,
    pub(crate) writes: f64,
    /// The p99 of call times in the last half minute, in ms.
    pub(crate) p99: f64,
    /// Number of bytes written to files for each byte that clients wrote.
    pub(crate) amplification: Option<f64>,
    /// Number of hits in a hundred lookups of blocks.
    pub(crate) hit: Option<f64>,
}

/// Returns the rows for all tables.
pub(crate) fn rows(
    tables: &[TableFacts],
    snapshots: &Snapshots,
    history: &History,
    amplification: &dyn Fn(&str) -> Option<f64>,
) -> Vec<TableRow> {
    let rates = snapshots.region_rates();
    let latest = snapshots.latest.as_deref();
    let regions = latest.map_or(&[][..], |latest| &latest.regions);
    let mut of_tables: std::collections::HashMap<&str, (f64, f64)> = std::collections::HashMap::new();
    for region in regions {
        if let Some((reads, writes)) = rates.get(&region.encoded[..]) {
            let sum = of_tables.entry(&region.table).or_default();
            *sum = (sum.0 + reads, sum.1 + writes);
        }
    }
    let mut lookups: std::collections::HashMap<&str, (f64, f64)> = std::collections::HashMap::new();
    for sample in latest.map_or(&[][..], |latest| latest.metrics.samples("bellows_block_cache_lookups_total"))
    {
        let Some(table) = sample.label("table") else { continue };
        let of_table = lookups.entry(table).or_default();
        match sample.label("outcome") {
            Some("miss") => of_table.1 += sample.value.as_f64(),
            _ => of_table.0 += sample.value.as_f64(),
        }
    }
    let sums = table_sums(regions);
    tables
        .iter()
        .map(|table| {
            let (reads, writes) = of_tables.get(&table.name[..]).copied().unwrap_or_default();
            let hit = lookups.get(&table.name[..]).filter(|(hits, misses)| hits + misses > 0.0);
            TableRow {
                name: table.name.clone(),
                state: table.state.clone(),
                sums: sums.get(&table.name[..]).cloned().unwrap_or_default(),
                reads,
                writes,
                p99: history.max(&format!("table.{}.p99", table.name), 30),
                amplification: amplification(&table.name),
                hit: hit.map(|(hits, misses)| 100.0 * hits / (hits + misses)),
            }
        })
        .collect()
}

fn sort(rows: &mut [TableRow], query: &Query) {
    match query.get("sort") {
        "regions" => rows.sort_by_key(|row| std::cmp::Reverse(row.sums.regions)),
        "size" => rows.sort_by_key(|row| std::cmp::Reverse(row.sums.file_bytes)),
        "files" => rows.sort_by_key(|row| std::cmp::Reverse(row.sums.files_max)),
        "reads" => rows.sort_by(|a, b| b.reads.total_cmp(&a.reads)),
        "writes" => rows.sort_by(|a, b| b.writes.total_cmp(&a.writes)),
        "p99" => rows.sort_by(|a, b| b.p99.total_cmp(&a.p99)),
        "memory" => rows.sort_by_key(|row| std::cmp::Reverse(row.sums.memstore_bytes)),
        "name" => rows.sort_by(|a, b| b.name.cmp(&a.name)),
        _ => rows.sort_by(|a, b| a.name.cmp(&b.name)),
    }
    if query.get("order") == "up" {
        rows.reverse();
    }
}

fn body(rows: &[TableRow], query: &Query, history: &History, shows_system: bool) -> Markup {
    let head =
        |name: &str, title: &str, is_number: bool| parts::sorting("/tables", query, name, title, is_number);
    let shown: Vec<&TableRow> =
        rows.iter().filter(|row| shows_system || !row.name.starts_with("hbase:")).collect();
    html! {
        @if shown.is_empty() {
            p.empty {
                "There is no table yet. Make one in HBase's shell: " code { "create 't', 'f'" }
            }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Tables" {
                table.dense {
                    thead {
                        tr {
                            (head("name", "Table", false))
                            th scope="col" { "State" }
                            (head("regions", "Regions", true))
                            (head("size", "Size", true))
                            (head("memory", "In memory", true))
                            (head("files", "Files, most in a store", true))
                            (head("reads", "Reads/s", true))
                            (head("writes", "Writes/s", true))
                            (head("p99", "p99", true))
                            th.n scope="col" { "Cache hits" }
                            th.n scope="col" { abbr title="Bytes written to files for each byte that clients wrote" { "Amplification" } }
                            th scope="col" { "Last 10 minutes" }
                        }
                    }
                    tbody {
                        @for row in shown.iter().take(ROWS_MAX) {
                            tr {
                                th scope="row" { a href={ "/table/" (encode(row.name.as_bytes())) } { (row.name) } }
                                td { span.tag.{ "is-" (row.state.to_lowercase()) } { (row.state.to_lowercase()) } }
                                td.n { (parts::count(row.sums.regions as f64)) }
                                td.n { (parts::size(row.sums.file_bytes as f64)) }
                                td.n { (parts::size(row.sums.memstore_bytes as f64)) }
                                td.n { (row.sums.files_max) }
                                td.n { (parts::count(row.reads)) }
                                td.n { (parts::count(row.writes)) }
                                td.n { (parts::ms(row.p99)) }
                                td.n { @if let Some(hit) = row.hit { (format!("{hit:.1} %")) } @else { "–" } }
                                td.n { @if let Some(times) = row.amplification { (format!("{times:.1}")) } @else { "–" } }
                                td { (chart::spark(history, &format!("table.{}.reads", row.name), Range::Minutes)) }
                            }
                        }
                    }
                }
            }
            @if shown.len() > ROWS_MAX {
                p.note { "The first " (ROWS_MAX) " of " (shown.len()) " tables; the JSON has them all." }
            }
        }
        p.note {
            @if shows_system { a href=(query.with("system", "").address("/tables")) { "Hide the server's own tables" } }
            @else { a href=(query.with("system", "1").address("/tables")) { "Show the server's own tables" } }
        }
    }
}

/// Returns the present rows.
pub(crate) async fn gather(console: &Console) -> Result<Vec<TableRow>, String> {
    let tables = console.tables().await?;
    let snapshots = console.snapshots.read().clone();
    let balances = console
        .node
        .get()
        .map_or_else(Vec::new, |node| node.server.foundation().region_options.ledger.balances());
    let balances: std::collections::HashMap<String, Option<f64>> =
        balances.into_iter().map(|(table, balance)| (table.to_string(), balance.amplification())).collect();
    let amplification = |table: &str| balances.get(table).copied().flatten();
    Ok(rows(&tables, &snapshots, &console.history(), &amplification))
}

/// Returns the page.
pub(crate) async fn show(console: &Console, query: &Query) -> String {
    let live = match gather(console).await {
        Ok(mut rows) => {
            sort(&mut rows, query);
            body(&rows, query, &console.history(), query.get("system") == "1")
        }
        Err(why) => parts::failure("The tables are not known just now:", &why),
    };
    let frame =
        Frame { title: "Tables", menu: "/tables", path: "/tables", query, has_range: false, is_live: true };
    page(console, &frame, &live, &html! {})
}

/// Returns the content of the page as JSON.
pub(crate) async fn json(console: &Console) -> Value {
    match gather(console).await {
        Err(why) => json!({ "error": why }),
        Ok(rows) => json!({
            "tables": rows.iter().map(|row| json!({
                "name": row.name,
                "state": row.state,
                "regions": row.sums.regions,
                "files": row.sums.files,
                "filesOfFullestStore": row.sums.files_max,
                "fileBytes": row.sums.file_bytes,
                "memstoreBytes": row.sums.memstore_bytes,
                "readsPerSecond": row.reads,
                "writesPerSecond": row.writes,
                "p99Ms": row.p99,
                "cacheHitPercent": row.hit,
                "writeAmplification": row.amplification,
            })).collect::<Vec<_>>(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_with_problems_come_first_and_system_tables_are_hidden() {
        let row = |name: &str, files_max, p99| TableRow {
            name: name.to_owned(),
            state: "ENABLED".to_owned(),
            sums: TableSums { files_max, ..TableSums::default() },
            p99,
            ..TableRow::default()
        };
        let mut rows = vec![row("b", 1, 9.0), row("a", 7, 2.0), row("hbase:meta", 2, 1.0)];
        sort(&mut rows, &Query::parse("sort=files"));
        assert_eq!(rows[0].name, "a");
        sort(&mut rows, &Query::parse("sort=p99&order=up"));
        assert_eq!(rows[0].name, "hbase:meta");
        sort(&mut rows, &Query::default());
        let drawn = body(&rows, &Query::parse("sort=files"), &History::default(), false).into_string();
        assert!(drawn.contains("href=\"/table/a\"") && !drawn.contains("hbase:meta"), "{drawn}");
        assert!(drawn.contains("aria-sort=\"descending\""), "{drawn}");
        assert!(
            body(&[], &Query::default(), &History::default(), false).into_string().contains("no table yet")
        );
    }
}
