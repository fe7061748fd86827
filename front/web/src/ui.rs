//! The pages: plain HTML from the server, which also works without script.
//!
//! The whole state of a page is in its address, and every page is also available as JSON, under its name with
//! `.json`. Texts from outside (row keys, values, names of users) reach a page through [`maud`], which escapes them.
//! No page has inline script.

pub(crate) mod advisor;
pub(crate) mod cache;
pub(crate) mod chart;
pub(crate) mod clients;
pub(crate) mod cost;
pub(crate) mod data;
pub(crate) mod keys;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod overview;
pub(crate) mod parts;
pub(crate) mod settings;
pub(crate) mod slow;
pub(crate) mod table;
pub(crate) mod tables;
pub(crate) mod work;

use maud::{DOCTYPE, Markup, html};

use crate::assets;
use crate::history::Range;
use crate::node::Console;
use crate::query::Query;

/// The pages in the menu.
const PAGES: [(&str, &str); 12] = [
    ("/", "Overview"),
    ("/tables", "Tables"),
    ("/keys", "Keys"),
    ("/memory", "Memory"),
    ("/cache", "Cache"),
    ("/cost", "Cost"),
    ("/slow", "Slow calls"),
    ("/work", "Work"),
    ("/data", "Data"),
    ("/clients", "Clients"),
    ("/log", "Log"),
    ("/settings", "Settings"),
];

/// What a page needs besides its content.
pub(crate) struct Frame<'a> {
    pub(crate) title: &'a str,
    /// The path of the page's entry in the menu.
    pub(crate) menu: &'a str,
    /// The path of the page itself.
    pub(crate) path: &'a str,
    pub(crate) query: &'a Query,
    /// Whether the page has charts, and therefore a choice of ranges.
    pub(crate) has_range: bool,
    /// Whether the first part of the page is fetched again every few seconds.
    pub(crate) is_live: bool,
}

/// Returns a whole page with two parts. If `frame.is_live`, the browser fetches `live` again every few seconds. It never
/// fetches `still` again. Charts update themselves.
pub(crate) fn page(console: &Console, frame: &Frame<'_>, live: &Markup, still: &Markup) -> String {
    let (level, sentence) = advisor::sentence(console);
    let range = Range::of_name(frame.query.get("range"));
    let here = frame.query.address(frame.path);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="htmx-config"
                    content=r#"{"allowEval":false,"includeIndicatorStyles":false,"historyCacheSize":0}"#;
                title { (frame.title) " · Bellows" }
                link rel="icon" href=(assets::address("icon.svg"));
                link rel="stylesheet" href=(assets::address("uplot.css"));
                link rel="stylesheet" href=(assets::address("bellows.css"));
                script defer src=(assets::address("uplot.js")) {}
                script defer src=(assets::address("htmx.js")) {}
                script defer src=(assets::address("idiomorph.js")) {}
                script defer src=(assets::address("bellows.js")) {}
            }
            body hx-ext="morph" {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    a.brand href="/" aria-label="Bellows, overview" { (mark()) span { "Bellows" } }
                    nav aria-label="Pages" {
                        ul {
                            @for (path, title) in PAGES {
                                li {
                                    a href=(path) aria-current=[(path == frame.menu).then_some("page")] { (title) }
                                }
                            }
                        }
                    }
                    form.find action="/find" role="search" {
                        input type="search" name="q" placeholder="Table, region or row" aria-label="Find a table, a region or a row";
                    }
                    button #theme type="button" hidden aria-label="Light or dark" { "◐" }
                }
                p.state.{ "is-" (level.name()) } #state role="status"
                    hx-get=[frame.is_live.then_some(&here)] hx-select="#state" hx-trigger="every 3s" hx-swap="morph:outerHTML" {
                    span.dot aria-hidden="true" {}
                    (sentence)
                }
                main #main tabindex="-1" {
                    div.head {
                        h1 { (frame.title) }
                        @if frame.has_range {
                            ul.range aria-label="Time range" {
                                @for other in Range::ALL {
                                    li {
                                        a href=(frame.query.with("range", other.name()).address(frame.path))
                                            aria-current=[(other == range).then_some("true")] { (other.title()) }
                                    }
                                }
                            }
                        }
                    }
                    div #live hx-get=[frame.is_live.then_some(&here)] hx-select="#live"
                        hx-trigger="every 3s" hx-swap="morph:outerHTML" { (live) }
                    (still)
                }
                footer {
                    span { "Bellows " (console.about.version) }
                    a href=(frame.query.address(&twin(frame.path))) { "This page as JSON" }
                    a href="/prometheus" { "Prometheus" }
                    a href="/jmx" { "JMX" }
                    a href="/metrics" { "Metrics" }
                    a href="/stacks" { "Threads" }
                    a href="/dump" { "Dump" }
                    a href="/healthz" { "Health" }
                }
            }
        }
    }
    .into_string()
}

/// Returns the address of a page's JSON form.
fn twin(path: &str) -> String {
    if path == "/" { "/overview.json".to_owned() } else { format!("{path}.json") }
}

/// Returns the logo.
fn mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 24 24" width="22" height="22" aria-hidden="true" {
            path d="M3 5 21 2v20L3 19Z" {}
            path d="M8 4.3v15.4M12.5 3.5v17M17 2.8v18.4" {}
        }
    }
}
