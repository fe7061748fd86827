//! The page of the heat map: which keys were read and written when, and what the pattern means.

use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};

use super::{Frame, page, parts};
use crate::heat::{Heat, HeatRange, HeatView};
use crate::node::Console;
use crate::query::{Query, encode};
use crate::shell;

/// Maximum number of columns of the map that the server draws. The page's script draws every bucket.
const COLUMNS: usize = 120;
/// Maximum number of rows of squares in the map that the server draws.
const ROWS: usize = 64;
/// Maximum number of hot rows in the list.
const HOT_ROWS: usize = 50;

/// Returns the first key of a bucket; empty for the first bucket.
fn first_key(view: &HeatView, bucket: usize) -> &[u8] {
    if bucket == 0 { b"" } else { &view.bounds[bucket - 1] }
}

/// Returns the map in fewer and larger squares: the mean heat of each, from 0 to 1 on a logarithmic scale.
fn squares(view: &HeatView, columns: usize, rows: usize) -> (Vec<Vec<f32>>, f32) {
    let buckets = view.bounds.len() + 1;
    let (columns, rows) = (columns.min(view.times.len().max(1)), rows.min(buckets));
    let mut sums = vec![vec![0.0_f32; rows]; columns];
    for (at, column) in view.counts.iter().enumerate() {
        let x = at * columns / view.counts.len();
        for (bucket, count) in column.iter().enumerate() {
            sums[x][bucket * rows / buckets] += count;
        }
    }
    let most = sums.iter().flatten().copied().fold(0.0, f32::max);
    let scale = (1.0 + most).ln().max(1e-6);
    for value in sums.iter_mut().flatten() {
        *value = (1.0 + *value).ln() / scale;
    }
    (sums, most)
}

/// Returns the map as drawn by the server: squares in nine shades.
fn drawing(view: &HeatView) -> Markup {
    let (squares, _) = squares(view, COLUMNS, ROWS);
    let rows = squares.first().map_or(1, Vec::len);
    // Draws one path for each shade, made of vertical lines. One rectangle for each square would take five times as
    // many bytes.
    let mut paths = vec![String::new(); 10];
    for (x, column) in squares.iter().enumerate() {
        let shade = |y: usize| (column[y] * 9.0).round() as usize;
        let mut y = 0;
        while y < rows {
            let end = (y + 1..rows).find(|other| shade(*other) != shade(y)).unwrap_or(rows);
            if shade(y) > 0 {
                let (length, bottom) = (end - y, rows - y);
                paths[shade(y)].push_str(&format!("M{x} {bottom}v-{length}h1v{length}z"));
            }
            y = end;
        }
    }
    let out: String = paths
        .iter()
        .enumerate()
        .filter(|(_, path)| !path.is_empty())
        .map(|(shade, path)| format!("<path class=\"h{shade}\" d=\"{path}\"/>"))
        .collect();
    html! {
        svg.heat viewBox={ "0 0 " (squares.len()) " " (rows) } preserveAspectRatio="none" role="img"
            aria-label="Heat by key, from the lowest key at the bottom to the highest at the top, over time from left to right" {
            (PreEscaped(out))
        }
    }
}

fn body(view: &HeatView, table: &str, query: &Query) -> Markup {
    let (name, meaning, remedy) = view.pattern().explained();
    let (first, last) = (
        view.times.first().copied().unwrap_or(0) as i64 * 1_000,
        view.times.last().copied().unwrap_or(0) as i64 * 1_000,
    );
    let buckets = view.bounds.len() + 1;
    let data = query.with("table", table).address("/keys.json");
    let hottest = hottest(view);
    html! {
        div.map {
            figure.keys data-heat=(data) tabindex="0" aria-describedby="map-cursor" {
                div.plot {
                    (drawing(view))
                    span.top-label { (parts::short(&shell::escape(first_key(view, buckets - 1)), 40)) }
                    span.bottom-label { (parts::short(&shell::escape(first_key(view, 1.min(buckets - 1))), 40)) }
                    span.from-label { (parts::clock(first)) }
                    span.to-label { (parts::clock(last)) " UTC" }
                }
                figcaption #map-cursor aria-live="polite" {
                    span.scale aria-hidden="true" { "cold " @for shade in 1..=9 { i.{ "h" (shade) } {} } " hot" }
                    output { "Point at the map, or move with the arrow keys, to see a key." }
                }
            }
            aside aria-labelledby="pattern" {
                h2 #pattern { (name) }
                p { (meaning) }
                p.remedy { (remedy) }
                details {
                    summary { "How to read the map" }
                    dl {
                        dt { "Even" } dd { "The same shade everywhere: a good key." }
                        dt { "A thin bright line" } dd { "One hot row." }
                        dt { "A bright band" } dd { "A hot range. Split its region." }
                        dt { "A diagonal" } dd { "Growing keys: time stamps, counters. Salt or reverse them." }
                        dt { "Vertical stripes" } dd { "Bursts: a batch job." }
                    }
                    p { "Each row of the map is a bucket of about as many keys. One call in 16 is counted." }
                }
            }
        }
        section aria-labelledby="hot" {
            h2 #hot { "Hot rows" }
            @if view.hot_rows.is_empty() {
                (parts::empty("No row stands out."))
            } @else {
                div.scroll tabindex="0" role="region" aria-label="Table of hot rows" {
                    table.dense {
                        thead { tr { th scope="col" { "Row" } th.n scope="col" { "Of the table's traffic" } th scope="col" { "Share" } th.n scope="col" { "Writes" } } }
                        tbody {
                            @for row in view.hot_rows.iter().take(HOT_ROWS) {
                                tr {
                                    th scope="row" { a href={ "/data/" (encode(table.as_bytes())) "?q=" (encode(shell::escape(&row.row).as_bytes())) } { code { (parts::short(&shell::escape(&row.row), 80)) } } }
                                    td.n { (format!("{:.1} %", row.share * 100.0)) }
                                    td { (parts::bar(&[(row.share, "s0")], "Share of the table's traffic")) }
                                    td.n { (format!("{:.0} %", row.writes * 100.0)) }
                                }
                            }
                        }
                    }
                }
            }
        }
        section aria-labelledby="ranges" {
            h2 #ranges { "Hottest ranges" }
            div.scroll tabindex="0" role="region" aria-label="Table of the hottest ranges" {
                table.dense {
                    thead { tr { th scope="col" { "From" } th scope="col" { "To" } th.n scope="col" { "Rows" } th scope="col" { "Share" } } }
                    tbody {
                        @for (bucket, count, share) in hottest {
                            tr {
                                td { code { (parts::short(&shell::escape(first_key(view, bucket)), 60)) } @if bucket == 0 { span.note { "the start" } } }
                                td { @if bucket + 1 < buckets { code { (parts::short(&shell::escape(first_key(view, bucket + 1)), 60)) } } @else { span.note { "the end" } } }
                                td.n { (parts::count(f64::from(count))) }
                                td { (parts::bar(&[(f64::from(share), "s0")], "Share of the table's traffic")) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the ten hottest buckets, each with its number, the number of rows read or written in it, and the fraction of
/// the table's rows that this is. Buckets without any are left out.
fn hottest(view: &HeatView) -> Vec<(usize, f32, f32)> {
    let mut sums = vec![0.0_f32; view.bounds.len() + 1];
    for column in &view.counts {
        sums.iter_mut().zip(column).for_each(|(sum, count)| *sum += count);
    }
    let total: f32 = sums.iter().sum::<f32>().max(1.0);
    let mut ranked: Vec<(usize, f32, f32)> =
        sums.into_iter().enumerate().map(|(bucket, sum)| (bucket, sum, sum / total)).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked.truncate(10);
    ranked.retain(|(_, sum, _)| *sum > 0.0);
    ranked
}

/// Returns the table to show: the one that the query names, or the one with the most traffic in the last minute; empty
/// if no table has a heat map.
fn table_of(console: &Console, query: &Query) -> String {
    if !query.get("table").is_empty() {
        return query.get("table").to_owned();
    }
    let tables: Vec<String> =
        console.heat.tables().into_iter().filter(|table| !table.starts_with("hbase:")).collect();
    let history = console.history();
    let heat = |table: &String| {
        history.mean(&format!("table.{table}.reads"), 60) + history.mean(&format!("table.{table}.writes"), 60)
    };
    tables.into_iter().max_by(|a, b| heat(a).total_cmp(&heat(b))).unwrap_or_default()
}

fn choices(console: &Console, query: &Query, table: &str) -> Markup {
    let (heat, range) = (Heat::of_name(query.get("heat")), HeatRange::of_name(query.get("span")));
    html! {
        form.choices action="/keys" {
            label { "Table "
                select name="table" {
                    @for name in console.heat.tables() {
                        option value=(name) selected[name == table] { (name) }
                    }
                }
            }
            label { "Show "
                select name="heat" {
                    @for one in Heat::ALL {
                        option value=(one.name()) selected[one == heat] { (one.name()) }
                    }
                }
            }
            label { "Time "
                select name="span" {
                    @for one in HeatRange::ALL {
                        option value=(one.name()) selected[one == range] { (one.name()) }
                    }
                }
            }
            button type="submit" { "Show" }
        }
    }
}

/// Returns the page.
pub(crate) fn show(console: &Console, query: &Query) -> String {
    let table = table_of(console, query);
    let (heat, range) = (Heat::of_name(query.get("heat")), HeatRange::of_name(query.get("span")));
    let still = html! {
        (choices(console, query, &table))
        @match console.heat.view(&table, heat, range) {
            Some(view) => (body(&view, &table, query)),
            None => (parts::empty("No call to a table has been sampled yet. One call in 16 is; come back when there is traffic.")),
        }
    };
    let frame = Frame { title: "Keys", menu: "/keys", path: "/keys", query, has_range: false, is_live: true };
    page(console, &frame, &html! {}, &still)
}

/// Returns the map as JSON: bounds, times, and counts by column.
pub(crate) fn json(console: &Console, query: &Query) -> Value {
    let table = table_of(console, query);
    let (heat, range) = (Heat::of_name(query.get("heat")), HeatRange::of_name(query.get("span")));
    match console.heat.view(&table, heat, range) {
        None => json!({ "table": table, "error": "no call to this table has been sampled" }),
        Some(view) => json!({
            "table": table,
            "pattern": view.pattern().explained().0,
            "stepSeconds": range.step(),
            "bounds": view.bounds.iter().map(|bound| shell::escape(bound)).collect::<Vec<_>>(),
            "times": view.times,
            "counts": view.counts.iter()
                .map(|column| column.iter().map(|count| count.round()).collect::<Vec<_>>())
                .collect::<Vec<_>>(),
            "hotRows": view.hot_rows.iter().map(|row| json!({
                "row": shell::escape(&row.row), "share": row.share, "writes": row.writes,
            })).collect::<Vec<_>>(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heat::HotRow;

    fn view() -> HeatView {
        let bounds = (1..=255_u8).map(|byte| Box::from(&[byte][..])).collect();
        let mut counts = vec![vec![16.0; 256]; 360];
        counts[100][7] = 1e6;
        let hot = HotRow { row: Box::from(&b"<script>alert(1)</script>"[..]), share: 0.4, writes: 1.0 };
        HeatView {
            bounds,
            times: (0..360).map(|at| at * 10).collect(),
            counts,
            hot_rows: vec![hot],
            growing: 0.0,
        }
    }

    #[test]
    fn the_map_names_the_row_and_runs_no_script_of_it() {
        let drawn = body(&view(), "t", &Query::default()).into_string();
        assert!(drawn.contains("One hot row") && drawn.contains("&lt;script&gt;"), "{drawn}");
        assert!(!drawn.contains("<script"), "{drawn}");
        assert!(drawn.contains("class=\"h9\""));
        assert!(drawn.len() < 120_000, "{}", drawn.len());
        assert_eq!(hottest(&view())[0].0, 7);
    }
}
