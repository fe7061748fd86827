//! The page of a table's rows, found by key or prefix. Types of values are guessed.

use std::time::Duration;

use client::{Cluster, Row, Scan};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{Frame, page, parts};
use crate::node::Console;
use crate::query::{Query, encode};
use crate::shell;

/// Maximum number of rows on a page.
const ROWS: usize = 25;
const ROWS_MAX: usize = 500;
/// Maximum number of cells of a row.
const CELLS_MAX: usize = 100;
/// Maximum number of bytes of a value on the page.
const VALUE_MAX: usize = 2_048;
/// Maximum number of bytes of a value that are kept, and that the JSON has.
const VALUE_KEPT_MAX: usize = 64 << 10;
/// Number of bytes of keys, columns and values after which a search ends, so that one request cannot take all memory.
const FOUND_MAX: usize = 4 << 20;
const ANSWER_MAX: u64 = 1 << 20;
/// Time limit of a search. A filter, or a table with many empty regions, may let it take minutes.
const SEARCH_MAX: Duration = Duration::from_secs(2);

/// A cell as the page shows it.
#[derive(Clone, Debug)]
struct ShownCell {
    column: String,
    timestamp: i64,
    /// The beginning of the value.
    value: Vec<u8>,
    /// Length of the whole value, in bytes.
    size: usize,
}

#[derive(Clone, Debug)]
struct ShownRow {
    key: Vec<u8>,
    cells: Vec<ShownCell>,
}

/// The rows that a search found within its limits.
#[derive(Clone, Debug, Default)]
struct Found {
    rows: Vec<ShownRow>,
    /// Number of bytes in `rows`.
    bytes: usize,
    /// Whether the last row may continue.
    is_partial: bool,
    /// Whether the search reached its end or the maximum number of rows.
    is_complete: bool,
}

impl Found {
    /// Adds a row, or a part of a row that may continue. Cells after the first [`CELLS_MAX`] of a row are left out.
    fn add(&mut self, key: &[u8], cells: impl Iterator<Item = ShownCell>, is_partial: bool) {
        let continues = self.is_partial && self.rows.last().is_some_and(|row| row.key == key);
        self.is_partial = is_partial;
        if !continues {
            self.bytes += key.len();
            self.rows.push(ShownRow { key: key.to_vec(), cells: Vec::new() });
        }
        let Some(row) = self.rows.last_mut() else { return };
        let before = row.cells.len();
        row.cells.extend(cells.take(CELLS_MAX.saturating_sub(before)));
        self.bytes +=
            row.cells[before..].iter().map(|cell| cell.column.len() + cell.value.len()).sum::<usize>();
    }

    /// Whether the search ends because it has found so many bytes.
    fn is_full(&self) -> bool {
        self.bytes >= FOUND_MAX
    }
}

/// The rows that a search asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    All,
    Row(Vec<u8>),
    Prefix(Vec<u8>),
    /// From the first key (inclusive) to the second (exclusive).
    Range(Vec<u8>, Vec<u8>),
}

/// Parses `row`, `prefix*` or `from..to`; an empty text means all rows. Bytes are in the shell's notation.
fn wanted(text: &str) -> Wanted {
    if text.is_empty() {
        Wanted::All
    } else if let Some(prefix) = text.strip_suffix('*') {
        if prefix.is_empty() { Wanted::All } else { Wanted::Prefix(shell::unescape(prefix)) }
    } else if let Some((from, to)) = text.split_once("..") {
        Wanted::Range(shell::unescape(from), shell::unescape(to))
    } else {
        Wanted::Row(shell::unescape(text))
    }
}

async fn rows(cluster: &Cluster, table: &str, query: &Query) -> Result<Found, String> {
    let limit = query.number("limit", ROWS, ROWS_MAX);
    // Long rows come in parts, so that the client does not keep a whole one.
    let mut scan = Scan::new().limit(limit as u64).size_max(ANSWER_MAX).cache_blocks(false).allow_partial();
    scan = match wanted(query.get("q")) {
        Wanted::All => scan,
        Wanted::Row(row) => scan.from(row.clone()).through(row),
        Wanted::Prefix(prefix) => scan.prefix(prefix),
        Wanted::Range(from, to) => {
            let scan = scan.from(from);
            if to.is_empty() { scan } else { scan.to(to) }
        }
    };
    scan = scan.versions(u32::try_from(query.number("versions", 1, 100)).unwrap_or(1));
    let column = query.get("column");
    if !column.is_empty() {
        scan = match column.split_once(':') {
            Some((family, qualifier)) if !qualifier.is_empty() => {
                scan.column(shell::unescape(family), shell::unescape(qualifier))
            }
            _ => scan.family(shell::unescape(column.trim_end_matches(':'))),
        };
    }
    let table = cluster.table(table).map_err(|error| error.to_string())?;
    let (mut scanner, mut found) = (table.scan(scan), Found::default());
    let searched = env::timeout(SEARCH_MAX, async {
        while let Some(row) = scanner.next().await? {
            found.add(row.key(), shown_cells(&row), row.is_partial());
            if found.is_full() {
                return Ok(false);
            }
        }
        Ok::<_, client::Error>(true)
    });
    let is_complete = searched.await.transpose().map_err(|error| error.to_string())?;
    Ok(Found { is_complete: is_complete.unwrap_or(false), ..found })
}

fn shown_cells(row: &Row) -> impl Iterator<Item = ShownCell> {
    row.cells().iter().map(|cell| ShownCell {
        column: format!("{}:{}", shell::escape(cell.family()), shell::escape(cell.qualifier())),
        timestamp: cell.timestamp(),
        value: cell.value()[..cell.value().len().min(VALUE_KEPT_MAX)].to_vec(),
        size: cell.value().len(),
    })
}

/// Returns possible readings of a value, the likeliest first: the type and the text.
fn decodings(value: &[u8]) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    let cut = &value[..value.len().min(VALUE_MAX)];
    if let Ok(text) = std::str::from_utf8(cut)
        && !text.chars().any(|letter| letter.is_control() && !matches!(letter, '\n' | '\t' | '\r'))
    {
        let is_json =
            serde_json::from_slice::<Value>(value).is_ok_and(|json| json.is_object() || json.is_array());
        out.push((if is_json { "JSON" } else { "text" }, text.to_owned()));
    }
    if let Ok(eight) = <[u8; 8]>::try_from(value) {
        out.push(("number", i64::from_be_bytes(eight).to_string()));
        let double = f64::from_be_bytes(eight);
        if double.is_finite() && double.abs() > 1e-9 && double.abs() < 1e15 {
            out.push(("double", double.to_string()));
        }
    }
    if let Ok(four) = <[u8; 4]>::try_from(value) {
        out.push(("int", i32::from_be_bytes(four).to_string()));
    }
    out.push(("bytes", shell::escape(cut)));
    out
}

fn value(bytes: &[u8], size: usize) -> Markup {
    let readings = decodings(bytes);
    let (how, first) = &readings[0];
    html! {
        @if bytes.is_empty() { span.note { "empty" } } @else {
            details.value {
                summary { code { (parts::short(first, 72)) } " " span.tag { (how) } }
                dl.facts {
                    dt { "size" } dd { (parts::size(size as f64)) @if size > VALUE_MAX { ", the first " (parts::size(VALUE_MAX as f64)) " are shown" } }
                    @for (how, reading) in &readings { dt { (how) } dd { code { (reading) } } }
                }
            }
        }
    }
}

fn body(found: &Found, table: &str, query: &Query) -> Markup {
    let rows = &found.rows;
    let path = format!("/data/{}", encode(table.as_bytes()));
    let limit = query.number("limit", ROWS, ROWS_MAX);
    html! {
        @if found.is_full() {
            p.note { "The search ended after " (parts::size(FOUND_MAX as f64)) ". Give a column to see more rows." }
        } @else if !found.is_complete {
            p.note { "The search ended after " (SEARCH_MAX.as_secs()) " s. Give a row, a prefix or a range to search less." }
        }
        @if rows.is_empty() { (parts::empty(if found.is_complete { "No row fits." } else { "No row was found in this time." })) } @else {
            div.scroll tabindex="0" role="region" aria-label="Rows" {
                table.dense.data {
                    thead { tr { th scope="col" { "Row" } th scope="col" { "Column" } th scope="col" { "Value" } th scope="col" { "Written, UTC" } } }
                    tbody {
                        @for row in rows {
                            @for (at, cell) in row.cells.iter().enumerate() {
                                tr class=[(at == 0).then_some("first")] {
                                    @if at == 0 {
                                        th scope="rowgroup" rowspan=(row.cells.len()) { a href=(query.with("q", &shell::escape(&row.key)).with("versions", "10").address(&path)) { code { (parts::short(&shell::escape(&row.key), 60)) } } }
                                    }
                                    td { code { (cell.column) } }
                                    td { (value(&cell.value, cell.size)) }
                                    td.note { time title=(cell.timestamp) { (written(cell.timestamp)) } }
                                }
                            }
                        }
                    }
                }
            }
            p.note {
                @let last = shell::escape(&rows[rows.len() - 1].key);
                @if rows.len() == limit || found.is_full() { a href=(query.with("q", &format!("{last}\\x00..")).address(&path)) { "Next rows" } " · " }
                (rows.len()) " rows. In HBase's shell: " code { (shell_line(table, query)) }
            }
        }
    }
}

/// Returns a cell's timestamp as date and time if it can be one (in ms since 1970, from 2001 to 2286), otherwise as a
/// number.
fn written(timestamp: i64) -> String {
    if (1_000_000_000_000..10_000_000_000_000).contains(&timestamp) {
        parts::date(timestamp)
    } else {
        timestamp.to_string()
    }
}

/// Returns the equivalent line of HBase's shell.
fn shell_line(table: &str, query: &Query) -> String {
    let limit = query.number("limit", ROWS, ROWS_MAX);
    let quoted = |bytes: &[u8]| format!("\"{}\"", shell::escape(bytes).replace('"', "\\\""));
    match wanted(query.get("q")) {
        Wanted::All => format!("scan '{table}', {{LIMIT => {limit}}}"),
        Wanted::Row(row) => format!("get '{table}', {}", quoted(&row)),
        Wanted::Prefix(prefix) => {
            format!("scan '{table}', {{ROWPREFIXFILTER => {}, LIMIT => {limit}}}", quoted(&prefix))
        }
        Wanted::Range(from, to) if to.is_empty() => {
            format!("scan '{table}', {{STARTROW => {}, LIMIT => {limit}}}", quoted(&from))
        }
        Wanted::Range(from, to) => {
            format!(
                "scan '{table}', {{STARTROW => {}, STOPROW => {}, LIMIT => {limit}}}",
                quoted(&from),
                quoted(&to)
            )
        }
    }
}

fn search(tables: &[String], table: &str, query: &Query) -> Markup {
    html! {
        form.choices action="/data" {
            label { "Table "
                select name="table" { @for name in tables { option value=(name) selected[name == table] { (name) } } }
            }
            label.wide { "Rows " input type="search" name="q" value=(query.get("q")) placeholder="row, prefix*, from..to" spellcheck="false"; }
            label { "Column " input name="column" value=(query.get("column")) placeholder="family or family:qualifier" spellcheck="false"; }
            label { "Versions " input.short type="number" name="versions" min="1" max="100" value=(query.number("versions", 1, 100)); }
            label { "Limit " input.short type="number" name="limit" min="1" max=(ROWS_MAX) value=(query.number("limit", ROWS, ROWS_MAX)); }
            button type="submit" { "Find" }
        }
    }
}

/// Returns the page for `table`; if it is empty, the choice of tables.
pub(crate) async fn show(console: &Console, table: &str, query: &Query) -> String {
    let tables: Vec<String> = console
        .tables()
        .await
        .map_or_else(|_| Vec::new(), |tables| tables.iter().map(|table| table.name.clone()).collect());
    let found = match console.node.get() {
        None => Err("the server is starting".to_owned()),
        Some(_) if table.is_empty() => Ok(Found::default()),
        Some(node) => rows(&node.cluster, table, query).await,
    };
    let live = html! {
        (search(&tables, table, query))
        @match found {
            Err(why) => { (parts::failure("The rows cannot be shown:", &why)) },
            Ok(_) if table.is_empty() => { (parts::empty("Choose a table. Bytes that are no letters are written \\xHH, as in HBase's shell.")) },
            Ok(found) => { (body(&found, table, query)) },
        }
    };
    let path =
        if table.is_empty() { "/data".to_owned() } else { format!("/data/{}", encode(table.as_bytes())) };
    let title = if table.is_empty() { "Data".to_owned() } else { format!("Data of {table}") };
    let frame = Frame { title: &title, menu: "/data", path: &path, query, has_range: false, is_live: false };
    page(console, &frame, &live, &html! {})
}

/// Returns the rows as JSON.
pub(crate) async fn json(console: &Console, table: &str, query: &Query) -> Value {
    let Some(node) = console.node.get() else { return json!({ "error": "the server is starting" }) };
    match rows(&node.cluster, table, query).await {
        Err(why) => json!({ "error": why }),
        Ok(found) => json!({
            "table": table,
            "complete": found.is_complete,
            "rows": found.rows.iter().map(|row| json!({
                "row": shell::escape(&row.key),
                "cells": row.cells.iter().map(|cell| json!({
                    "column": cell.column, "timestamp": cell.timestamp, "value": shell::escape(&cell.value), "size": cell.size,
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_selected_by_key_prefix_and_range() {
        assert_eq!(wanted(""), Wanted::All);
        assert_eq!(wanted("a\\x00"), Wanted::Row(b"a\0".to_vec()));
        assert_eq!(wanted("user*"), Wanted::Prefix(b"user".to_vec()));
        assert_eq!(wanted("a..b"), Wanted::Range(b"a".to_vec(), b"b".to_vec()));
        assert_eq!(
            shell_line("t", &Query::parse("q=a%22*&limit=5")),
            "scan 't', {ROWPREFIXFILTER => \"a\\\"\", LIMIT => 5}"
        );
    }

    #[test]
    fn values_are_shown_in_the_likeliest_form() {
        let kinds = |value: &[u8]| decodings(value).into_iter().map(|(how, _)| how).collect::<Vec<_>>();
        assert_eq!(kinds(b"{\"a\": 1}")[0], "JSON");
        assert_eq!(kinds(&7_i64.to_be_bytes()), ["number", "bytes"]);
        assert_eq!(decodings(&1.5_f64.to_be_bytes())[1], ("double", "1.5".to_owned()));
        assert_eq!(kinds(b"\x00\x00\x00\x07")[0], "int");
        assert_eq!(decodings(b"\xff")[0], ("bytes", "\\xFF".to_owned()));
    }

    #[test]
    fn a_search_keeps_a_part_of_a_long_row_and_ends_when_it_has_enough() {
        let cells = |count: usize, size: usize| {
            let cell = ShownCell { column: "f:q".into(), timestamp: 5, value: vec![b'v'; size], size };
            std::iter::repeat_n(cell, count)
        };
        let mut found = Found::default();
        for part in 0..1_000 {
            found.add(b"wide", cells(60, VALUE_KEPT_MAX / 4), part < 999);
        }
        assert_eq!((found.rows.len(), found.rows[0].cells.len()), (1, CELLS_MAX));
        assert!(!found.is_full(), "{} bytes", found.bytes);
        found.add(b"x", cells(1, 1), true);
        found.add(b"y", cells(1, 1), false);
        found.add(b"y", cells(1, 1), false);
        let keys: Vec<_> = found.rows.iter().map(|row| (&row.key[..], row.cells.len())).collect();
        assert_eq!(
            keys[1..],
            [(&b"x"[..], 1), (b"y", 1), (b"y", 1)],
            "only a part that may continue is joined"
        );
        while !found.is_full() {
            found.add(b"z", cells(10, VALUE_KEPT_MAX), false);
        }
        assert!(found.bytes < FOUND_MAX + 11 * VALUE_KEPT_MAX);
        let drawn = body(&found, "t", &Query::default()).into_string();
        assert!(drawn.contains("The search ended after 4") && drawn.contains("Next rows"));
    }

    #[test]
    fn a_row_key_with_a_script_is_not_executed() {
        let script = b"<script>alert(1)</script>";
        let (column, size) = ("f:<img src=x>".to_owned(), script.len());
        let cell = ShownCell { column, timestamp: 5, value: script.to_vec(), size };
        let row = ShownRow { key: script.to_vec(), cells: vec![cell] };
        let query = Query::parse("q=%3Cscript%3E&limit=1");
        let found = Found { rows: vec![row], is_complete: true, ..Found::default() };
        let drawn = body(&found, "t", &query).into_string();
        assert!(!drawn.contains("The search ended"), "{drawn}");
        let cut = body(&Found::default(), "t", &query).into_string();
        assert!(cut.contains("The search ended after 2 s") && !cut.contains("No row fits"), "{cut}");
        assert!(!drawn.contains("<script") && !drawn.contains("<img"), "{drawn}");
        assert!(drawn.contains("&lt;script&gt;alert(1)"), "{drawn}");
        let form = search(&["<script>".into()], "t", &Query::parse("q=\"><script>")).into_string();
        assert!(!form.contains("<script"), "{form}");
    }
}
