//! `bellows top`: shows the load of namespaces, tables, regions, servers, users or clients, the busiest first, and
//! repeats this at an interval.
//!
//! ```text
//!   cluster status ──▶ counters of regions, servers, users (load) ── minus the previous ones ──▶ lines (field) ──▶ screen
//! ```
//!
//! The command asks the master for the cluster's status, as HBase's hbtop does, so it works with Apache HBase, too. The
//! letters of modes and the names of fields are those of hbtop. A rate is the difference of two statuses. So the first
//! output appears after one interval (`--delay`).

mod field;
mod filter;
mod load;

use std::time::Duration;

use client::{Cluster, Registry};
use env::{Runtime, World};
use proto::pb;
use serde_json::{Map, Value, json};

use field::{Field, Line, Mode};
use filter::Filter;
use load::Rates;

use crate::args::Top;
use crate::failure::Failure;
use crate::output;

/// Clears the screen and moves to its upper left corner.
const CLEAR: &str = "\x1b[2J\x1b[H";
/// Maximum time that a cluster status may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the output shows.
struct View {
    mode: Mode,
    fields: Vec<Field>,
    sort: Field,
    is_upwards: bool,
    filters: Vec<Filter>,
    lines_max: usize,
}

impl View {
    fn of(options: &Top) -> Result<View, Failure> {
        let mode = mode(options)?;
        let field = |name: &str| {
            Field::of_name(mode, name).ok_or_else(|| {
                Failure::new(format!(
                    "{name:?} is no field of mode {}, expected one of {}; --outputs explains them",
                    mode.letter(),
                    names(&mode.all())
                ))
            })
        };
        let fields = if options.fields.is_empty() {
            mode.shown()
        } else {
            options.fields.iter().map(|name| field(name)).collect::<Result<_, _>>()?
        };
        let (sort, is_upwards) = match &options.sort {
            None => (mode.sorted_by(), false),
            Some(name) => (field(name.trim_start_matches('+'))?, name.starts_with('+')),
        };
        let filters = options
            .filter
            .iter()
            .map(|text| Filter::parse(mode, text).map_err(Failure::new))
            .collect::<Result<_, _>>()?;
        Ok(View { mode, fields, sort, is_upwards, filters, lines_max: options.lines })
    }

    /// Returns the lines to show, in order.
    fn choose(&self, mut lines: Vec<Line>) -> Vec<Line> {
        lines.retain(|line| self.filters.iter().all(|filter| filter.is_match(line)));
        lines.sort_by(|a, b| {
            let order = a.cell(self.sort).cmp(b.cell(self.sort));
            let order = if self.is_upwards { order } else { order.reverse() };
            // Lines with equal values have the same order in every output.
            order.then_with(|| a.name().cmp(b.name()))
        });
        lines.truncate(self.lines_max);
        lines
    }

    fn render(&self, summary: &str, lines: &[Line]) -> String {
        let rows: Vec<Vec<String>> =
            std::iter::once(self.fields.iter().map(|field| field.name().to_owned()).collect())
                .chain(
                    lines
                        .iter()
                        .map(|line| self.fields.iter().map(|field| line.cell(*field).to_string()).collect()),
                )
                .collect();
        let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.fields.len()).map(width).collect();
        let mut out = format!("{summary}\n\n");
        for row in rows {
            let mut text = String::new();
            for ((cell, width), field) in row.iter().zip(&widths).zip(&self.fields) {
                let padding = " ".repeat(width - cell.chars().count());
                let (before, after) = if field.is_text() { ("", &padding[..]) } else { (&padding[..], "") };
                text.push_str(&format!("{before}{cell}{after}  "));
            }
            out.push_str(text.trim_end());
            out.push('\n');
        }
        out
    }

    fn json(&self, world: &World, status: &pb::ClusterStatus, lines: &[Line]) -> Value {
        let of_line = |line: &Line| {
            let pairs =
                self.fields.iter().map(|field| (field.name().to_owned(), line.cell(*field).to_json()));
            Value::Object(pairs.collect::<Map<_, _>>())
        };
        json!({
            "time": world.now().0,
            "mode": self.mode.name(),
            "servers": status.live_servers.len(),
            "deadServers": status.dead_servers.len(),
            "regionsInTransition": status.regions_in_transition.len(),
            "lines": lines.iter().map(of_line).collect::<Vec<_>>(),
        })
    }
}

/// Returns the mode that `--mode` names; fails if there is none of that name.
fn mode(options: &Top) -> Result<Mode, Failure> {
    Mode::of_text(&options.mode)
        .map_err(|expected| Failure::new(format!("--mode is {:?}, {expected}", options.mode)))
}

fn names(fields: &[Field]) -> String {
    fields.iter().map(|field| field.name()).collect::<Vec<_>>().join(", ")
}

/// Returns the first lines of the output, which describe the cluster as a whole.
fn summary(status: &pb::ClusterStatus, rates: &Rates) -> String {
    let (live, dead) = (status.live_servers.len(), status.dead_servers.len());
    let regions: usize = status.live_servers.iter().map(|server| server.server_load.region_loads.len()).sum();
    let average = regions as f64 / live.max(1) as f64;
    let version = status.hbase_version.as_ref().map_or("unknown", |version| &version.version);
    let total = rates.total();
    format!(
        "Version: {version}\nCluster ID: {}\nRegionServer(s): {} total, {live} live, {dead} dead\n\
         RegionCount: {regions} total, {} rit\nAverage Cluster Load: {average:.2}\n\
         Aggregate Request/s: {:.0}, reads {:.0}, writes {:.0}",
        status.cluster_id.as_ref().map_or("unknown", |id| &id.cluster_id),
        live + dead,
        status.regions_in_transition.len(),
        total.reads + total.writes,
        total.reads,
        total.writes,
    )
}

/// Prints the load repeatedly, until the wanted number is reached or `show` fails because nobody reads its output any
/// more. With `--outputs` it prints only the fields of the mode. Fails if the master does not return the status.
pub(crate) fn run(options: &Top, mut show: impl FnMut(&str) -> std::io::Result<()>) -> Result<(), Failure> {
    if options.outputs {
        let described = |field: &Field| format!("{:12} {}\n", field.name(), field.meaning());
        return output::ignoring_closed_pipe(show(
            &mode(options)?.all().iter().map(described).collect::<String>(),
        ));
    }
    let view = View::of(options)?;
    let world = World::real();
    let runtime =
        Runtime::start("top", 1).map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    runtime.handle().block_on(async {
        let servers = |text: &str| text.split(',').map(|server| server.trim().to_owned()).collect::<Vec<_>>();
        let (registry, place) = match &options.zookeeper {
            Some(quorum) => (Registry::zookeeper(servers(quorum)), format!("--zookeeper {quorum}")),
            None => (Registry::rpc(servers(&options.at)), format!("--at {}", options.at)),
        };
        let options_of_client = client::Options {
            retries: 2,
            call_max: PATIENCE,
            operation_max: PATIENCE,
            ..client::Options::new(registry)
        };
        let cluster = Cluster::connect(world.clone(), options_of_client);
        let status = || async {
            cluster.admin().cluster_status().await.map_err(|error| {
                Failure::new(format!(
                    "{place}: {error}; is the cluster up, and is this the address of one of its servers?"
                ))
            })
        };
        let mut rates = Rates::new(world.moment(), &status().await?);
        for shown in 1_u64.. {
            env::sleep(Duration::from_secs_f64(options.delay)).await;
            let status = status().await?;
            rates.advance(world.moment(), &status);
            let lines = view.choose(rates.lines(view.mode));
            let text = if options.json {
                format!("{}\n", view.json(&world, &status, &lines))
            } else {
                view.render(&summary(&status, &rates), &lines)
            };
            let before = if options.batch || options.json { "" } else { CLEAR };
            let after = if options.batch { "\n" } else { "" };
            let written = show(&format!("{before}{text}{after}"));
            if written.is_err() || shown == options.number {
                return output::ignoring_closed_pipe(written);
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::field::Cell;
    use super::*;
    use clap::Parser;

    fn options(line: &str) -> Top {
        let args = crate::args::Args::try_parse_from(line.split_whitespace()).expect(line);
        let crate::args::Command::Top(top) = args.command else { panic!("top was asked for") };
        top
    }

    fn line(table: &str, reads: f64, writes: f64) -> Line {
        Line::default()
            .with(Field::Table, Cell::text(table))
            .with(Field::Reads, Cell::number(reads, 0))
            .with(Field::Requests, Cell::number(reads + writes, 0))
    }

    #[test]
    fn the_busiest_line_comes_first_and_columns_are_straight() {
        let view = View::of(&options("bellows top -m t -f TABLE,#REQ/S,#READ/S")).expect("good");
        let lines =
            view.choose(vec![line("quiet", 1.0, 2.0), line("busy", 100.0, 1_000.0), line("alike", 2.0, 1.0)]);
        let text = view.render("summary", &lines);
        assert_eq!(
            text,
            "summary\n\nTABLE  #REQ/S  #READ/S\nbusy     1100      100\nalike       3        2\nquiet       3        1\n"
        );
    }

    #[test]
    fn lines_are_filtered_sorted_and_cut_as_asked() {
        let names = |words: &str| {
            let view = View::of(&options(&format!("bellows top -m t {words}"))).expect("good");
            let lines = view.choose(vec![line("a1", 1.0, 0.0), line("a2", 5.0, 0.0), line("b", 3.0, 9.0)]);
            lines.iter().map(|line| line.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(""), ["b", "a2", "a1"]);
        assert_eq!(names("-s +#READ/S"), ["a1", "b", "a2"]);
        assert_eq!(names("-i TABLE=a -i #READ/S>=2"), ["a2"]);
        assert_eq!(names("-i !TABLE=a"), ["b"]);
        assert_eq!(names("--lines 1"), ["b"]);
    }

    #[test]
    fn an_unknown_field_is_refused_with_the_list_of_fields() {
        for words in ["-f TABLE,SPEED", "-s SPEED", "-i SPEED>1"] {
            let refused =
                View::of(&options(&format!("bellows top -m t {words}"))).err().expect(words).to_string();
            assert!(refused.contains("SPEED") && refused.contains("#READ/S"), "{refused}");
        }
    }

    #[test]
    fn an_unknown_mode_is_refused_with_the_list_of_modes() {
        let refused = View::of(&options("bellows top -m x")).err().expect("no mode").to_string();
        assert!(refused.starts_with("--mode is \"x\", expected n, t, r"), "{refused}");
    }

    #[test]
    fn an_unreachable_cluster_is_named_in_the_error() {
        let refused = run(&options("bellows top --at 127.0.0.1:1 -b -n 1 -d 0.1"), |_| Ok(()));
        let refused = refused.expect_err("nobody listens").to_string();
        assert!(
            refused.starts_with("--at 127.0.0.1:1: ") && refused.contains("is the cluster up"),
            "{refused}"
        );
    }
}
