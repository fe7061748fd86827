//! The page of one table: its schema, its regions, and its actions.

use maud::{Markup, html};
use proto::{TableDescriptor, TableName, pb};
use serde_json::{Value, json};

use super::chart::{self, Chart, Unit};
use super::{Frame, page, parts};
use crate::actions::{Action, Choice, Input};
use crate::guard::Guard;
use crate::history::Range;
use crate::node::{Console, RegionFacts, Snapshots};
use crate::query::{Query, encode};
use crate::shell::{self, quoted};

/// Maximum number of regions on a page.
const REGIONS: usize = 200;

/// Default values of a family's attributes.
const DEFAULTS: [(&str, &str); 16] = [
    ("VERSIONS", "1"),
    ("MIN_VERSIONS", "0"),
    ("TTL", "2147483647"),
    ("BLOCKSIZE", "65536"),
    ("BLOCKCACHE", "true"),
    ("BLOOMFILTER", "ROW"),
    ("COMPRESSION", "NONE"),
    ("DATA_BLOCK_ENCODING", "NONE"),
    ("IN_MEMORY", "false"),
    ("KEEP_DELETED_CELLS", "FALSE"),
    ("REPLICATION_SCOPE", "0"),
    ("CACHE_DATA_ON_WRITE", "false"),
    ("CACHE_INDEX_ON_WRITE", "false"),
    ("CACHE_BLOOMS_ON_WRITE", "false"),
    ("EVICT_BLOCKS_ON_CLOSE", "false"),
    ("PREFETCH_BLOCKS_ON_OPEN", "false"),
];

fn text(bytes: &[u8]) -> String {
    shell::escape(bytes)
}

fn is_default(name: &str, value: &str) -> bool {
    DEFAULTS.iter().any(|(own, default)| *own == name && default.eq_ignore_ascii_case(value))
}

/// Returns the line of HBase's shell that creates such a table, with the attributes that are not the default.
pub(crate) fn create_line(table: &TableDescriptor) -> String {
    let mut line = format!("create {}", quoted(&table.name().to_string()));
    for family in table.families() {
        let mut attributes: Vec<String> = vec![format!("NAME => {}", quoted(&text(family.name())))];
        for (key, value) in family.attributes().iter() {
            let (key, value) = (text(key), text(value));
            if !is_default(&key, &value) {
                attributes.push(format!("{key} => {}", quoted(&value)));
            }
        }
        if !family.configuration().is_empty() {
            let pairs: Vec<String> = family
                .configuration()
                .iter()
                .map(|(key, value)| format!("{} => {}", quoted(key), quoted(value)))
                .collect();
            attributes.push(format!("CONFIGURATION => {{{}}}", pairs.join(", ")));
        }
        match &attributes[..] {
            [_] => line.push_str(&format!(", {}", quoted(&text(family.name())))),
            _ => line.push_str(&format!(", {{{}}}", attributes.join(", "))),
        }
    }
    line
}

fn schema(table: &TableDescriptor) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Families" {
            table.dense {
                thead { tr { th scope="col" { "Family" } th scope="col" { "Not the default" } th scope="col" { "At the default" } } }
                tbody {
                    @for family in table.families() {
                        @let attributes: Vec<(String, String)> = family.attributes().iter().map(|(key, value)| (text(key), text(value))).collect();
                        tr {
                            th scope="row" { (text(family.name())) }
                            td.words {
                                @for (key, value) in attributes.iter().filter(|(key, value)| !is_default(key, value)) { b { (key) " " (value) } " " }
                                @for (key, value) in family.configuration() { b { (key) " " (value) } " " }
                            }
                            td.words.note {
                                @for (key, value) in attributes.iter().filter(|(key, value)| is_default(key, value)) { (key) " " (value) " · " }
                            }
                        }
                    }
                }
            }
        }
        p { "The line that makes such a table in HBase's shell:" }
        pre.copy tabindex="0" { code { (create_line(table)) } }
    }
}

/// Formats a key for people; an empty key is an end of the table.
fn key(bytes: &[u8], empty: &str) -> Markup {
    html! {
        @if bytes.is_empty() { span.note { (empty) } } @else { code { (parts::short(&text(bytes), 48)) } }
    }
}

fn sort(regions: &mut [(&RegionFacts, f64, f64)], query: &Query) {
    match query.get("sort") {
        "reads" => regions.sort_by(|a, b| b.1.total_cmp(&a.1)),
        "writes" => regions.sort_by(|a, b| b.2.total_cmp(&a.2)),
        "size" => regions.sort_by_key(|(region, ..)| std::cmp::Reverse(region.file_bytes)),
        "memory" => regions.sort_by_key(|(region, ..)| std::cmp::Reverse(region.memstore_bytes)),
        "files" => regions.sort_by_key(|(region, ..)| std::cmp::Reverse(region.files)),
        _ => regions.sort_by(|a, b| a.0.start.cmp(&b.0.start)),
    }
    if query.get("order") == "up" {
        regions.reverse();
    }
}

/// Returns the regions of a table as the page shows them.
pub(crate) fn regions(name: &str, snapshots: &Snapshots, query: &Query) -> Markup {
    let path = format!("/table/{}", encode(name.as_bytes()));
    let rates = snapshots.region_rates();
    let all = snapshots.latest.as_ref().map_or(&[][..], |latest| &latest.regions);
    let mut regions: Vec<(&RegionFacts, f64, f64)> = all
        .iter()
        .filter(|region| region.table == name)
        .map(|region| {
            let (reads, writes) = rates.get(&region.encoded[..]).copied().unwrap_or_default();
            (region, reads, writes)
        })
        .collect();
    sort(&mut regions, query);
    let hottest = regions.iter().map(|(_, reads, writes)| reads + writes).fold(0.0, f64::max);
    let head = |by: &str, title: &str| parts::sorting(&path, query, by, title, true);
    let first = query.number("from", 1, regions.len().max(1)) - 1;
    html! {
        @if regions.is_empty() { (parts::empty("No region of this table is open on this server.")) }
        @else {
            div.scroll tabindex="0" role="region" aria-label="Table of regions" {
                table.dense {
                    thead {
                        tr {
                            (parts::sorting(&path, query, "", "From", false))
                            th scope="col" { "To" } th scope="col" { "Region" } th scope="col" { "Heat" }
                            (head("reads", "Reads/s")) (head("writes", "Writes/s")) (head("size", "Size"))
                            (head("files", "Files")) (head("memory", "In memory"))
                        }
                    }
                    tbody {
                        @for (region, reads, writes) in regions.iter().skip(first).take(REGIONS) {
                            tr id=(region.encoded) {
                                td { (key(&region.start, "the start")) } td { (key(&region.end, "the end")) }
                                td { code { (parts::short(&region.encoded, 8)) } }
                                td { (parts::bar(&[(reads / hottest.max(1e-9), "s0"), (writes / hottest.max(1e-9), "s3")], "Reads and writes, beside the hottest region's")) }
                                td.n { (parts::count(*reads)) } td.n { (parts::count(*writes)) }
                                td.n { (parts::size(region.file_bytes as f64)) } td.n { (region.files) }
                                td.n { (parts::size(region.memstore_bytes as f64)) }
                            }
                        }
                    }
                }
            }
            @if regions.len() > REGIONS {
                p.note {
                    "Regions " (first + 1) " to " ((first + REGIONS).min(regions.len())) " of " (regions.len()) ". "
                    @if first > 0 { a href=(query.with("from", &first.saturating_sub(REGIONS).max(1).to_string()).address(&path)) { "Back" } " " }
                    @if first + REGIONS < regions.len() { a href=(query.with("from", &(first + REGIONS + 1).to_string()).address(&path)) { "Next" } }
                }
            }
        }
    }
}

/// Returns the input field of an action, with its choices.
fn input(input: &Input, form: &str, choices: &Choices) -> Markup {
    let list = format!("{form}-{}", input.name);
    let options = match input.choice {
        Choice::Regions => &choices.regions[..],
        Choice::Snapshots => &choices.snapshots[..],
        Choice::Nothing => &[],
    };
    html! {
        label { (input.title) " "
            input name=(input.name) autocomplete="off" spellcheck="false" required[input.is_required]
                list=[(!options.is_empty()).then_some(&list)]; }
        @if !options.is_empty() {
            datalist id=(list) { @for (value, title) in options { option value=(value) { (title) } } }
        }
    }
}

/// The choices of inputs: values and descriptions.
#[derive(Default)]
struct Choices {
    regions: Vec<(String, String)>,
    snapshots: Vec<(String, String)>,
}

impl Choices {
    fn of(name: &str, snapshots: &Snapshots, taken: &[pb::SnapshotDescription]) -> Choices {
        let all = snapshots.latest.as_ref().map_or(&[][..], |latest| &latest.regions);
        let key = |bytes: &[u8], empty: &str| {
            if bytes.is_empty() { empty.to_owned() } else { parts::short(&text(bytes), 24) }
        };
        let regions = all.iter().filter(|region| region.table == name).take(REGIONS).map(|region| {
            let title = format!("{} to {}", key(&region.start, "the start"), key(&region.end, "the end"));
            (region.encoded.clone(), title)
        });
        let taken = taken.iter().map(|one| (one.name.clone(), parts::date(one.creation_time.unwrap_or(0))));
        Choices { regions: regions.collect(), snapshots: taken.collect() }
    }
}

fn actions(console: &Console, name: &str, guard: &Guard, choices: &Choices) -> Markup {
    html! {
        @if !console.may_change() {
            p.note { "Actions are off: this page is open to other machines, and there is no authentication yet. Use HBase's shell." }
        } @else {
            p.note { "Each action does what the shell's line beside it does. A name that you type confirms it." }
            div.actions {
                @for action in Action::ALL {
                    details {
                        summary { (action.title()) }
                        form method="post" action={ "/table/" (encode(name.as_bytes())) "/" (action.name()) } {
                            p { (action.explained()) }
                            pre { code { (action.shell_line(name, &Query::default())) } }
                            input type="hidden" name="token" value=(guard.token());
                            @for one in action.inputs() { (input(one, action.name(), choices)) }
                            @if action == Action::DeleteSnapshot {
                                label { "Type its name again "
                                    input name="confirm" autocomplete="off" spellcheck="false" required; }
                            } @else {
                                label { "Type " b { (name) } " "
                                    input name="confirm" autocomplete="off" spellcheck="false" required pattern=(regex_of(name)); }
                            }
                            button type="submit" class=[action.is_dangerous().then_some("danger")] { (action.title()) }
                        }
                    }
                }
            }
        }
    }
}

fn snapshots_taken(taken: &Result<Vec<pb::SnapshotDescription>, String>) -> Markup {
    html! {
        @match taken {
            Err(why) => { (parts::failure("The snapshots are not known just now:", why)) }
            Ok(taken) if taken.is_empty() => { (parts::empty("There is no snapshot of this table.")) }
            Ok(taken) => {
                div.scroll tabindex="0" role="region" aria-label="Table of snapshots" {
                    table.dense {
                        thead { tr { th scope="col" { "Snapshot" } th scope="col" { "Taken (UTC)" } th scope="col" { "Expires" } } }
                        tbody {
                            @for one in taken {
                                tr {
                                    th scope="row" { code { (one.name) } }
                                    td { (parts::date(one.creation_time.unwrap_or(0))) }
                                    td { @match one.ttl.unwrap_or(0) { 0 => "never", seconds => { "after " (parts::span(seconds as f64)) } } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the snapshots of a table, the newest first.
async fn snapshots_of(console: &Console, table: &TableName) -> Result<Vec<pb::SnapshotDescription>, String> {
    let node = console.node.get().ok_or("the server is starting")?;
    let mut all = node.cluster.admin().snapshots().await.map_err(|error| error.to_string())?;
    all.retain(|one| one.table.as_deref().and_then(|name| name.parse().ok()).as_ref() == Some(table));
    all.sort_by_key(|one| std::cmp::Reverse(one.creation_time));
    Ok(all)
}

/// Returns a pattern that matches only `name`.
fn regex_of(name: &str) -> String {
    name.replace('.', "\\.").replace('-', "\\-")
}

/// Returns the page; `said` is the result of an action.
pub(crate) async fn show(
    console: &Console,
    name: &str,
    query: &Query,
    guard: &Guard,
    said: Option<Result<String, String>>,
) -> Option<String> {
    let table: TableName = name.parse().ok()?;
    let described = match console.node.get() {
        None => Err("the server is starting".to_owned()),
        Some(node) => node.cluster.admin().describe_table(&table).await.map_err(|error| error.to_string()),
    };
    let descriptor = match described {
        Ok(None) => return None,
        Ok(Some(descriptor)) => Ok(descriptor),
        Err(why) => Err(why),
    };
    let state = console.tables().await.ok().and_then(|tables| {
        tables.iter().find(|table| table.name == name).map(|table| table.state.to_lowercase())
    });
    let (history, snapshots) = (console.history(), console.snapshots.read().clone());
    let taken = snapshots_of(console, &table).await;
    let choices = Choices::of(name, &snapshots, taken.as_deref().unwrap_or_default());
    let live = html! {
        @match said {
            Some(Ok(done)) => p.done role="status" { (done) },
            Some(Err(why)) => { (parts::failure("That did not work:", &why)) },
            None => {},
        }
        p.lead {
            @if let Some(state) = &state { span.tag.{ "is-" (state) } { (state) } " " }
            a href={ "/data/" (encode(name.as_bytes())) } { "See its rows" } " · "
            a href={ "/keys?table=" (encode(name.as_bytes())) } { "See where its heat is" }
        }
        section aria-labelledby="regions" { h2 #regions { "Regions" } (regions(name, &snapshots, query)) }
    };
    let named = |suffix: &str| format!("table.{name}.{suffix}");
    let (reads, writes) = (named("reads"), named("writes"));
    let quantiles = [named("p50"), named("p99"), named("p999")];
    let load = [(&reads[..], "reads"), (&writes[..], "writes")];
    let times = [(&quantiles[0][..], "p50"), (&quantiles[1][..], "p99"), (&quantiles[2][..], "p99.9")];
    let range = Range::of_name(query.get("range"));
    let charts = [
        Chart { title: "Rows", unit: Unit::PerSecond, series: &load, stacked: true },
        Chart {
            title: "Time of a call (one in 16)",
            unit: Unit::Milliseconds,
            series: &times,
            stacked: false,
        },
    ];
    let still = html! {
        div.charts { @for one in &charts { (chart::draw(&history, one, range, &[])) } }
        section aria-labelledby="schema" {
            h2 #schema { "Schema" }
            @match &descriptor { Ok(descriptor) => { (schema(descriptor)) }, Err(why) => { (parts::failure("The schema is not known just now:", why)) } }
        }
        section aria-labelledby="snapshots" { h2 #snapshots { "Snapshots" } (snapshots_taken(&taken)) }
        section aria-labelledby="actions" { h2 #actions { "Actions" } (actions(console, name, guard, &choices)) }
    };
    let path = format!("/table/{}", encode(name.as_bytes()));
    let frame = Frame { title: name, menu: "/tables", path: &path, query, has_range: true, is_live: true };
    Some(page(console, &frame, &live, &still))
}

/// Returns the content of the page as JSON; `None` if the table does not exist.
pub(crate) async fn json(console: &Console, name: &str) -> Option<Value> {
    let table: TableName = name.parse().ok()?;
    let node = console.node.get()?;
    let descriptor = node.cluster.admin().describe_table(&table).await.ok()??;
    let snapshots = console.snapshots.read().clone();
    let rates = snapshots.region_rates();
    let regions = snapshots.latest.as_ref().map_or(&[][..], |latest| &latest.regions);
    Some(json!({
        "name": name,
        "create": create_line(&descriptor),
        "families": descriptor.families().iter().map(|family| text(family.name())).collect::<Vec<_>>(),
        "regions": regions.iter().filter(|region| region.table == name).map(|region| {
            let (reads, writes) = rates.get(&region.encoded[..]).copied().unwrap_or_default();
            json!({
                "encodedName": region.encoded,
                "startKey": text(&region.start),
                "endKey": text(&region.end),
                "readsPerSecond": reads,
                "writesPerSecond": writes,
                "files": region.files,
                "fileBytes": region.file_bytes,
                "memstoreBytes": region.memstore_bytes,
                "families": region.stores.iter().map(|store| json!({
                    "name": store.family, "files": store.files, "fileBytes": store.file_bytes,
                    "memstoreBytes": store.memstore_bytes,
                })).collect::<Vec<_>>(),
            })
        }).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Snapshot;
    use env::{WallTime, World};
    use proto::FamilyDescriptor;
    use std::sync::Arc;
    use telemetry::Exposition;

    #[test]
    fn the_create_line_has_what_is_not_the_default() {
        let mut table =
            TableDescriptor::new("ns:it's".parse().unwrap_or_else(|_| "ns:t".parse().expect("a name")));
        table.set_family(FamilyDescriptor::new("a").expect("a name").with("VERSIONS", "1"));
        table.set_family(
            FamilyDescriptor::new("b").expect("a name").with("VERSIONS", "3").with("COMPRESSION", "ZSTD"),
        );
        assert_eq!(
            create_line(&table),
            "create 'ns:t', 'a', {NAME => 'b', VERSIONS => '3', COMPRESSION => 'ZSTD'}"
        );
        assert_eq!(quoted("it's"), "'it\\'s'");
        assert!(!schema(&table).into_string().contains("<script"));
    }

    fn many(count: usize) -> Snapshots {
        let world = World::simulated(1, WallTime(0));
        let regions = (0..count)
            .map(|number| RegionFacts {
                table: "t".to_owned(),
                encoded: format!("{number:032x}"),
                start: format!("<script>{number:08}").into_bytes().into(),
                end: format!("<script>{:08}", number + 1).into_bytes().into(),
                reads: number as u64,
                ..RegionFacts::default()
            })
            .collect();
        let mut snapshots = Snapshots::default();
        let (moment, time) = (world.moment(), world.now());
        snapshots.add(Arc::new(Snapshot { moment, time, metrics: Exposition::default(), regions }));
        snapshots
    }

    #[test]
    fn ten_thousand_regions_are_a_page_at_a_time_and_quick() {
        let (snapshots, world) = (many(10_000), World::real());
        let began = world.moment();
        let drawn = regions("t", &snapshots, &Query::parse("sort=reads")).into_string();
        let took = world.moment().since(began);
        assert_eq!(drawn.matches("<tr id=").count(), REGIONS);
        assert!(drawn.contains("Regions 1 to 200 of 10000") && drawn.contains("from=201"), "{drawn}");
        assert!(!drawn.contains("<script>"));
        assert!(took.as_millis() < 250, "{took:?}, expected below 50 ms on a quiet machine");
        let last = regions("t", &snapshots, &Query::parse("from=9999")).into_string();
        assert_eq!(last.matches("<tr id=").count(), 2);
    }
}
