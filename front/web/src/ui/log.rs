//! The page of the latest lines of the log.

use maud::html;
use serde_json::{Value, json};

use super::{Frame, page, parts};
use crate::log_ring::LogLine;
use crate::node::Console;
use crate::query::Query;

const LEVELS: [&str; 4] = ["ERROR", "WARN", "INFO", "DEBUG"];

/// Whether a line has at least the wanted level, and the wanted words.
fn wanted(line: &LogLine, query: &Query) -> bool {
    let rank = |level: &str| LEVELS.iter().position(|other| *other == level).unwrap_or(LEVELS.len());
    let level = query.get("level");
    (level.is_empty() || rank(line.level) <= rank(level))
        && line.text.to_lowercase().contains(&query.get("q").to_lowercase())
}

/// Returns the page.
pub(crate) fn show(console: &Console, query: &Query) -> String {
    let limit = query.number("limit", 200, 2_000);
    let lines = console.log.lines(limit, |line| wanted(line, query));
    let still = html! {
        form.choices action="/log" {
            label { "Level "
                select name="level" {
                    option value="" { "all" }
                    @for level in LEVELS { option value=(level) selected[level == query.get("level")] { (level.to_lowercase()) " and worse" } }
                }
            }
            label { "Words " input type="search" name="q" value=(query.get("q")); }
            button type="submit" { "Show" }
        }
    };
    let live = html! {
        (still)
        @if lines.is_empty() { (parts::empty("No line of the log fits.")) }
        ol.log {
            @for line in &lines {
                li.{ "is-" (line.level) } {
                    time { (parts::date(line.time.0)) }
                    span.level { (line.level) }
                    code { (line.text) }
                }
            }
        }
        @if lines.len() == limit { p.note { "The latest " (limit) " lines. " a href=(query.with("limit", "2000").address("/log")) { "All that are kept" } } }
    };
    let frame = Frame { title: "Log", menu: "/log", path: "/log", query, has_range: false, is_live: false };
    page(console, &frame, &live, &html! {})
}

/// Returns the content of the page as JSON.
pub(crate) fn json(console: &Console, query: &Query) -> Value {
    let lines = console.log.lines(query.number("limit", 200, 2_000), |line| wanted(line, query));
    json!({
        "lines": lines.iter().map(|line| json!({
            "time": line.time.0, "level": line.level, "text": line.text,
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::WallTime;

    #[test]
    fn lines_are_chosen_by_level_and_words() {
        let line = LogLine { time: WallTime(0), level: "WARN", text: "Slow sync".to_owned() };
        for (query, expected) in
            [("", true), ("level=ERROR", false), ("level=INFO", true), ("q=slow", true), ("q=fast", false)]
        {
            assert_eq!(wanted(&line, &Query::parse(query)), expected, "{query}");
        }
    }
}
