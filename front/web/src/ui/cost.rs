//! The page of what the object store costs: requests, bytes and money for each table and the log, and their cost per
//! day.

use conf::keys::cluster as key;
use maud::{Markup, html};
use serde_json::{Value, json};
use telemetry::Exposition;

use super::chart::{self, Chart, Unit};
use super::{Frame, page, parts};
use crate::cost::{self, Costs, HOURS, money};
use crate::history::Range;
use crate::node::Console;
use crate::query::{Query, encode};

/// Number of days in a month, as providers count.
const DAYS: f64 = 30.4;
const GIGABYTE: f64 = (1_u64 << 30) as f64;
const KINDS: [(&str, &str); 5] =
    [("put", "PUT"), ("multipart", "Multipart"), ("get", "GET"), ("list", "LIST"), ("delete", "DELETE")];

/// The requests that a table, the log, or something else has made to the store since the start, and their cost.
struct Account {
    name: String,
    requests: [f64; KINDS.len()],
    sent: f64,
    received: f64,
    hour: f64,
    before: f64,
    day: f64,
    start: f64,
}

struct Bill {
    accounts: Vec<Account>,
    /// Time since the server's start, in seconds.
    uptime: f64,
    stored_bytes: f64,
    /// What storing the present data costs in a day.
    stored: f64,
}

impl Bill {
    fn of(console: &Console, metrics: &Exposition) -> Bill {
        let hours = console.cost.lock();
        let (running, spent) = (hours.running(metrics), cost::spent(metrics));
        let past: Vec<&Costs> = hours.past().collect();
        let of = |costs: &Costs, name: &str| costs.get(name).copied().unwrap_or(0.0);
        let mut accounts: Vec<Account> = spent
            .iter()
            .map(|(name, start)| {
                let sum = |metric: &str, label: &str, value: &str| -> f64 {
                    let samples = metrics.samples(metric).iter();
                    let matching = samples.filter(|sample| {
                        sample.label("account") == Some(name) && sample.label(label) == Some(value)
                    });
                    matching.map(|sample| sample.value.as_f64()).sum::<f64>() + 0.0
                };
                let hour = of(&running, name);
                Account {
                    name: name.clone(),
                    requests: KINDS
                        .map(|(kind, _)| sum("bellows_store_account_requests_total", "kind", kind)),
                    sent: sum("bellows_store_account_bytes_total", "way", "sent"),
                    received: sum("bellows_store_account_bytes_total", "way", "received"),
                    hour,
                    before: past.first().map_or(0.0, |costs| of(costs, name)),
                    day: hour + past.iter().take(HOURS - 1).map(|costs| of(costs, name)).sum::<f64>(),
                    start: *start,
                }
            })
            .collect();
        accounts.sort_by(|a, b| b.start.total_cmp(&a.start).then_with(|| a.name.cmp(&b.name)));
        let stored_bytes = metrics.sum("hbase_regionserver_store_file_size", None);
        let price = console.conf.value(&key::PRICE_STORED).unwrap_or(0.0);
        Bill {
            accounts,
            uptime: (console.world.now().0 - console.about.started.0) as f64 / 1_000.0,
            stored_bytes,
            stored: stored_bytes / GIGABYTE * price / DAYS,
        }
    }

    fn sum(&self, amount: impl Fn(&Account) -> f64) -> f64 {
        self.accounts.iter().map(amount).sum::<f64>() + 0.0
    }

    /// Returns what a day costs at the mean rate since the start.
    fn a_day(&self) -> f64 {
        self.sum(|account| account.start) / self.uptime.max(1.0) * 86_400.0
    }
}

fn prices(console: &Console) -> [(&'static str, f64); 6] {
    [
        ("1,000 PUT or multipart requests", &key::PRICE_PUT),
        ("1,000 GET requests", &key::PRICE_GET),
        ("1,000 LIST requests", &key::PRICE_LIST),
        ("1,000 DELETE requests", &key::PRICE_DELETE),
        ("a gigabyte that is read", &key::PRICE_RECEIVED),
        ("a gigabyte that is kept for a month", &key::PRICE_STORED),
    ]
    .map(|(what, key)| (what, console.conf.value(key).unwrap_or(0.0)))
}

fn body(bill: &Bill, prices: &[(&str, f64)]) -> Markup {
    let amount = |account: &Account| [account.hour, account.before, account.day, account.start];
    html! {
        p.lead {
            "Requests have cost " b { (money(bill.sum(|account| account.start))) } " since the start " (parts::span(bill.uptime))
            " ago; at that pace a day costs " b { (money(bill.a_day())) } ". To keep the files of all tables, "
            (parts::size(bill.stored_bytes)) ", costs " b { (money(bill.stored)) } " a day."
        }
        section aria-labelledby="accounts" {
            h2 #accounts { "What asks the store" }
            div.scroll tabindex="0" role="region" aria-label="Requests and their price" {
                table.dense {
                    thead { tr {
                        th scope="col" { "Table" }
                        @for (_, title) in KINDS { th.n scope="col" { (title) } }
                        th.n scope="col" { "Sent" } th.n scope="col" { "Received" }
                        th.n scope="col" { "This hour" } th.n scope="col" { "Hour before" } th.n scope="col" { (HOURS) " hours" } th.n scope="col" { "Since the start" }
                    } }
                    tbody {
                        @for account in &bill.accounts {
                            tr {
                                th scope="row" {
                                    @if account.name.starts_with('(') { (account.name.trim_matches(['(', ')'])) }
                                    @else { a href={ "/table/" (encode(account.name.as_bytes())) } { (account.name) } }
                                }
                                @for requests in account.requests { td.n { (parts::count(requests)) } }
                                td.n { (parts::size(account.sent)) } td.n { (parts::size(account.received)) }
                                @for amount in amount(account) { td.n { (money(amount)) } }
                            }
                        }
                    }
                    tfoot { tr {
                        th scope="row" { "all" }
                        @for at in 0..KINDS.len() { td.n { (parts::count(bill.sum(|account| account.requests[at]))) } }
                        td.n { (parts::size(bill.sum(|account| account.sent))) } td.n { (parts::size(bill.sum(|account| account.received))) }
                        @for at in 0..4 { td.n { (money(bill.sum(|account| amount(account)[at]))) } }
                    } }
                }
            }
            p.note { "Repeated requests are counted. A log in a bucket of its own (hbase.wal.dir) is in the list, too." }
        }
        section aria-labelledby="prices" {
            h2 #prices { "Price list" }
            table.dense { tbody { @for (what, price) in prices { tr { th scope="row" { (what) } td.n { "$" (price) } } } } }
            p.note { "The keys bellows.store.price.* say what your provider charges; " a href="/settings?q=bellows.store.price" { "settings" } "." }
        }
    }
}

/// Returns the page.
pub(crate) fn show(console: &Console, query: &Query) -> String {
    let metrics = console.metrics();
    let live = match console.node.get() {
        None => parts::empty("The server is starting."),
        Some(_) if metrics.samples("bellows_store_requests_total").is_empty() => {
            parts::empty("The files are on a disk of this machine, which charges nothing for requests.")
        }
        Some(_) => body(&Bill::of(console, &metrics), &prices(console)),
    };
    let chart = Chart {
        title: "Requests to the store",
        unit: Unit::PerSecond,
        series: &[
            ("store.put", "PUT"),
            ("store.multipart", "multipart"),
            ("store.get", "GET"),
            ("store.list", "LIST"),
            ("store.delete", "DELETE"),
        ],
        stacked: true,
    };
    let still = html! {
        div.charts { (chart::draw(&console.history(), &chart, Range::of_name(query.get("range")), &[])) }
    };
    let frame = Frame { title: "Cost", menu: "/cost", path: "/cost", query, has_range: true, is_live: true };
    page(console, &frame, &live, &still)
}

/// Returns the content of the page as JSON.
pub(crate) fn json(console: &Console) -> Value {
    if console.node.get().is_none() {
        return json!({ "error": "the server is starting" });
    }
    let bill = Bill::of(console, &console.metrics());
    let account = |account: &Account| {
        let requests: serde_json::Map<String, Value> = KINDS
            .iter()
            .zip(account.requests)
            .map(|((kind, _), count)| ((*kind).to_owned(), json!(count)))
            .collect();
        json!({
            "account": account.name,
            "requests": requests,
            "sentBytes": account.sent,
            "receivedBytes": account.received,
            "cost": { "thisHour": account.hour, "hourBefore": account.before, "day": account.day, "sinceStart": account.start },
        })
    };
    json!({
        "accounts": bill.accounts.iter().map(account).collect::<Vec<_>>(),
        "costSinceStart": bill.sum(|account| account.start),
        "costOfDayAtThisPace": bill.a_day(),
        "storedBytes": bill.stored_bytes,
        "storedCostOfDay": bill.stored,
        "prices": prices(console).iter().map(|(what, price)| json!({ "of": what, "price": price })).collect::<Vec<_>>(),
    })
}
