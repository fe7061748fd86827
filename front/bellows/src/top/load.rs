//! Computes rates from the counters in two statuses of a cluster.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cell::string_binary;
use env::Moment;
use proto::pb;

use super::field::{Cell, Field, Line, Mode};

/// Numbers of rows, since a server started or in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rows {
    pub(super) reads: f64,
    pub(super) filtered: f64,
    pub(super) writes: f64,
}

impl Rows {
    fn plus(self, other: Rows) -> Rows {
        Rows {
            reads: self.reads + other.reads,
            filtered: self.filtered + other.filtered,
            writes: self.writes + other.writes,
        }
    }

    /// Returns the rows a second since `earlier`. A counter that has become less was reset, and counts from 0.
    fn since(self, earlier: Rows, seconds: f64) -> Rows {
        let grown = |now: f64, then: f64| (if now >= then { now - then } else { now }) / seconds;
        Rows {
            reads: grown(self.reads, earlier.reads),
            filtered: grown(self.filtered, earlier.filtered),
            writes: grown(self.writes, earlier.writes),
        }
    }
}

/// Something with counters: a region of a server, or a client of a user at a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Subject {
    Region { server: String, name: Vec<u8> },
    Client { server: String, user: String, host: String },
}

impl Subject {
    fn server(&self) -> &str {
        match self {
            Subject::Region { server, .. } | Subject::Client { server, .. } => server,
        }
    }
}

/// The sizes of a region.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    files: u64,
    file_mb: u64,
    uncompressed_mb: u64,
    memstore_mb: u64,
    regions: u64,
    compacting: u64,
    compacted: u64,
    last_major: u64,
    locality: f64,
}

/// The last cluster status, with rates.
#[derive(Debug)]
pub(super) struct Rates {
    moment: Moment,
    /// When each server made its last report, in ms by its own clock.
    reported: HashMap<String, u64>,
    counted: HashMap<Subject, Rows>,
    rates: HashMap<Subject, Rows>,
    sizes: HashMap<Subject, Sizes>,
    /// Used and maximum heap of each server, in MB.
    heaps: BTreeMap<String, (u64, u64)>,
}

impl Rates {
    /// Takes the first status; nothing has a rate yet.
    pub(super) fn new(moment: Moment, status: &pb::ClusterStatus) -> Rates {
        let mut rates = Rates {
            moment,
            reported: HashMap::new(),
            counted: HashMap::new(),
            rates: HashMap::new(),
            sizes: HashMap::new(),
            heaps: BTreeMap::new(),
        };
        rates.advance(moment, status);
        rates
    }

    /// Takes the next status, and computes rates from the difference to the last one.
    pub(super) fn advance(&mut self, moment: Moment, status: &pb::ClusterStatus) {
        let passed = moment.since(self.moment).as_secs_f64();
        let (mut reported, mut counted, mut rates) = (HashMap::new(), HashMap::new(), HashMap::new());
        self.sizes.clear();
        self.heaps.clear();
        for live in &status.live_servers {
            let load = &live.server_load;
            let server = server_name(&live.server);
            self.heaps.insert(server.clone(), (load.used_heap_mb().into(), load.max_heap_mb().into()));
            // A server of HBase reports every few seconds. Between two reports its counters do not change, and then no
            // rate is computed.
            let report = load.report_end_time();
            let seconds = match self.reported.get(&server) {
                Some(before) if *before == report && report != 0 => None,
                Some(before) if report > *before && *before != 0 => Some((report - before) as f64 / 1_000.0),
                _ => Some(passed).filter(|passed| *passed > 0.0),
            };
            reported.insert(server.clone(), report);
            for (subject, rows, sizes) in subjects(&server, load) {
                let before = self.counted.get(&subject);
                let rate = match (seconds, before) {
                    (Some(seconds), Some(before)) => rows.since(*before, seconds),
                    (None, _) => self.rates.get(&subject).copied().unwrap_or_default(),
                    (Some(_), None) => Rows::default(),
                };
                rates.insert(subject.clone(), rate);
                counted.insert(subject.clone(), rows);
                self.sizes.insert(subject, sizes);
            }
        }
        (self.moment, self.reported, self.counted, self.rates) = (moment, reported, counted, rates);
    }

    /// Returns the rates of all regions together.
    pub(super) fn total(&self) -> Rows {
        let of_regions = self.rates.iter().filter(|(subject, _)| matches!(subject, Subject::Region { .. }));
        of_regions.fold(Rows::default(), |sum, (_, rate)| sum.plus(*rate))
    }

    /// Returns the load of the cluster, by the kind of thing that `mode` asks for.
    pub(super) fn lines(&self, mode: Mode) -> Vec<Line> {
        let mut groups: BTreeMap<String, Group<'_>> = BTreeMap::new();
        for (subject, rate) in &self.rates {
            let key = match (mode, subject) {
                (Mode::Namespace, Subject::Region { name, .. }) => {
                    RegionName::parse(name).namespace().to_owned()
                }
                (Mode::Table, Subject::Region { name, .. }) => RegionName::parse(name).table,
                (Mode::Region, Subject::Region { name, .. }) => string_binary(name).to_string(),
                (Mode::Server, Subject::Region { server, .. }) => server.clone(),
                (Mode::User, Subject::Client { user, .. }) => user.clone(),
                (Mode::Client, Subject::Client { host, .. }) => host.clone(),
                _ => continue,
            };
            let group = groups.entry(key).or_insert_with(|| Group::new(subject));
            group.add(subject, *rate, self.sizes.get(subject).copied().unwrap_or_default());
        }
        if mode == Mode::Server {
            // A server without regions gets a line, too.
            let absent: Vec<&String> =
                self.heaps.keys().filter(|server| !groups.contains_key(*server)).collect();
            let mut lines: Vec<Line> =
                absent.into_iter().map(|server| self.of_server(server, None)).collect();
            lines.extend(groups.iter().map(|(server, group)| self.of_server(server, Some(group))));
            return lines;
        }
        groups.into_iter().map(|(key, group)| group.line(mode, &key)).collect()
    }

    fn of_server(&self, server: &str, group: Option<&Group<'_>>) -> Line {
        let (used, max) = self.heaps.get(server).copied().unwrap_or_default();
        let line = group.map_or_else(
            || with_load(Line::default(), Rows::default(), &Sizes::default()),
            |group| group.line(Mode::Server, server),
        );
        line.with(Field::Server, Cell::text(short(server)))
            .with(Field::LongServer, Cell::text(server))
            .with(Field::Regions, Cell::number(group.map_or(0.0, |group| group.sizes.regions as f64), 0))
            .with(Field::UsedHeap, Cell::megabytes(used))
            .with(Field::MaxHeap, Cell::megabytes(max))
    }
}

/// The subjects that one line combines.
struct Group<'a> {
    first: &'a Subject,
    rate: Rows,
    sizes: Sizes,
    users: BTreeSet<&'a str>,
    hosts: BTreeSet<&'a str>,
}

impl<'a> Group<'a> {
    fn new(first: &'a Subject) -> Group<'a> {
        Group {
            first,
            rate: Rows::default(),
            sizes: Sizes::default(),
            users: BTreeSet::new(),
            hosts: BTreeSet::new(),
        }
    }

    fn add(&mut self, subject: &'a Subject, rate: Rows, sizes: Sizes) {
        self.rate = self.rate.plus(rate);
        let sum = &mut self.sizes;
        sum.files += sizes.files;
        sum.file_mb += sizes.file_mb;
        sum.uncompressed_mb += sizes.uncompressed_mb;
        sum.memstore_mb += sizes.memstore_mb;
        sum.regions += sizes.regions;
        sum.compacting += sizes.compacting;
        sum.compacted += sizes.compacted;
        sum.last_major = sum.last_major.max(sizes.last_major);
        sum.locality = sizes.locality;
        if let Subject::Client { user, host, .. } = subject {
            self.users.insert(user);
            self.hosts.insert(host);
        }
    }

    fn line(&self, mode: Mode, key: &str) -> Line {
        let line = with_load(Line::default(), self.rate, &self.sizes);
        match (mode, self.first) {
            (Mode::User, _) => line
                .with(Field::User, Cell::text(key))
                .with(Field::Clients, Cell::number(self.hosts.len() as f64, 0)),
            (Mode::Client, _) => line
                .with(Field::Client, Cell::text(key))
                .with(Field::Users, Cell::number(self.users.len() as f64, 0)),
            (Mode::Namespace, _) => line.with(Field::Namespace, Cell::text(key)),
            (Mode::Table, Subject::Region { name, .. }) => {
                let name = RegionName::parse(name);
                line.with(Field::Namespace, Cell::text(name.namespace()))
                    .with(Field::Table, Cell::text(name.qualifier()))
            }
            (Mode::Region, Subject::Region { name, .. }) => self.of_region(line, name),
            _ => line,
        }
    }

    fn of_region(&self, line: Line, name: &[u8]) -> Line {
        let parsed = RegionName::parse(name);
        let server = self.first.server();
        let progress = match self.sizes.compacting {
            0 => 100.0,
            compacting => 100.0 * self.sizes.compacted as f64 / compacting as f64,
        };
        line.with(Field::RegionName, Cell::text(string_binary(name).to_string()))
            .with(Field::Namespace, Cell::text(parsed.namespace()))
            .with(Field::Table, Cell::text(parsed.qualifier()))
            .with(Field::StartCode, Cell::text(&parsed.start_code[..]))
            .with(Field::ReplicaId, Cell::text(&parsed.replica[..]))
            .with(Field::Region, Cell::text(&parsed.encoded[..]))
            .with(Field::StartKey, Cell::text(&parsed.start_key[..]))
            .with(Field::Server, Cell::text(short(server)))
            .with(Field::LongServer, Cell::text(server))
            .with(Field::Locality, Cell::number(self.sizes.locality, 2))
            .with(Field::CompactingCells, Cell::number(self.sizes.compacting as f64, 0))
            .with(Field::CompactedCells, Cell::number(self.sizes.compacted as f64, 0))
            .with(Field::CompactionProgress, Cell::number(progress, 1))
            .with(Field::LastMajorCompaction, Cell::number(self.sizes.last_major as f64, 0))
    }
}

fn with_load(line: Line, rate: Rows, sizes: &Sizes) -> Line {
    line.with(Field::Requests, Cell::number(rate.reads + rate.writes, 0))
        .with(Field::Reads, Cell::number(rate.reads, 0))
        .with(Field::FilteredReads, Cell::number(rate.filtered, 0))
        .with(Field::Writes, Cell::number(rate.writes, 0))
        .with(Field::FileSize, Cell::megabytes(sizes.file_mb))
        .with(Field::UncompressedSize, Cell::megabytes(sizes.uncompressed_mb))
        .with(Field::Files, Cell::number(sizes.files as f64, 0))
        .with(Field::Memstore, Cell::megabytes(sizes.memstore_mb))
        .with(Field::Regions, Cell::number(sizes.regions as f64, 0))
}

/// Returns each region of a server, and each client of a user, with its counts of rows and its sizes, from the load
/// that the server has reported.
fn subjects(server: &str, load: &pb::ServerLoad) -> Vec<(Subject, Rows, Sizes)> {
    let regions = load.region_loads.iter().map(|region| {
        let rows = Rows {
            reads: region.read_requests_count() as f64,
            filtered: region.filtered_read_requests_count() as f64,
            writes: region.write_requests_count() as f64,
        };
        let sizes = Sizes {
            files: region.storefiles().into(),
            file_mb: region.storefile_size_mb().into(),
            uncompressed_mb: region.store_uncompressed_size_mb().into(),
            memstore_mb: region.mem_store_size_mb().into(),
            regions: 1,
            compacting: region.total_compacting_k_vs(),
            compacted: region.current_compacted_k_vs(),
            last_major: region.last_major_compaction_ts(),
            locality: region.data_locality().into(),
        };
        let name = region.region_specifier.value.to_vec();
        (Subject::Region { server: server.to_owned(), name }, rows, sizes)
    });
    let clients = load.user_loads.iter().flat_map(|user| {
        user.client_metrics.iter().map(|client| {
            let rows = Rows {
                reads: client.read_requests_count() as f64,
                filtered: client.filtered_requests_count() as f64,
                writes: client.write_requests_count() as f64,
            };
            let subject = Subject::Client {
                server: server.to_owned(),
                user: user.user_name.clone(),
                host: client.host_name.clone(),
            };
            (subject, rows, Sizes::default())
        })
    });
    regions.chain(clients).collect()
}

fn server_name(server: &pb::ServerName) -> String {
    format!("{},{},{}", server.host_name, server.port(), server.start_code())
}

/// Returns the first part of the host name and the port, as hbtop shows a server.
fn short(server: &str) -> String {
    let mut parts = server.split(',');
    let (host, port) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    let host = if is_address { host } else { host.split('.').next().unwrap_or(host) };
    format!("{host}:{port}")
}

/// The parts of a region's name, `TABLE,STARTKEY,CODE[_REPLICA].ENCODED.`; the name of hbase:meta's region has no
/// encoded name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RegionName {
    table: String,
    start_key: String,
    start_code: String,
    replica: String,
    encoded: String,
}

impl RegionName {
    fn parse(name: &[u8]) -> RegionName {
        let text = |bytes: &[u8]| string_binary(bytes).to_string();
        let comma = |byte: &u8| *byte == b',';
        let (Some(first), Some(last)) = (name.iter().position(comma), name.iter().rposition(comma)) else {
            return RegionName { table: text(name), ..RegionName::default() };
        };
        let start_key = if last > first { text(&name[first + 1..last]) } else { String::new() };
        let rest = text(&name[last + 1..]);
        let mut parts = rest.split('.');
        let code = parts.next().unwrap_or_default();
        let (start_code, replica) = code.split_once('_').unwrap_or((code, ""));
        let encoded = parts.next().filter(|encoded| !encoded.is_empty());
        RegionName {
            table: text(&name[..first]),
            start_key,
            start_code: start_code.to_owned(),
            replica: replica.to_owned(),
            encoded: encoded
                .unwrap_or(if name.starts_with(b"hbase:meta,") { "1588230740" } else { "" })
                .to_owned(),
        }
    }

    fn namespace(&self) -> &str {
        self.table.split_once(':').map_or("default", |(namespace, _)| namespace)
    }

    fn qualifier(&self) -> &str {
        self.table.split_once(':').map_or(&self.table, |(_, qualifier)| qualifier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::World;
    use std::time::Duration;

    fn region(name: &str, reads: u64, writes: u64) -> pb::RegionLoad {
        pb::RegionLoad {
            region_specifier: pb::RegionSpecifier { r#type: 1, value: name.as_bytes().to_vec().into() },
            read_requests_count: Some(reads),
            write_requests_count: Some(writes),
            storefiles: Some(2),
            storefile_size_mb: Some(10),
            ..Default::default()
        }
    }

    fn status(report: u64, regions: Vec<pb::RegionLoad>, clients: &[(&str, &str, u64)]) -> pb::ClusterStatus {
        let user_loads = clients.iter().map(|(user, host, reads)| pb::UserLoad {
            user_name: (*user).to_owned(),
            client_metrics: vec![pb::ClientMetrics {
                host_name: (*host).to_owned(),
                read_requests_count: Some(*reads),
                write_requests_count: Some(0),
                filtered_requests_count: Some(0),
            }],
        });
        let server_load = pb::ServerLoad {
            report_end_time: Some(report),
            region_loads: regions,
            user_loads: user_loads.collect(),
            used_heap_mb: Some(100),
            max_heap_mb: Some(400),
            ..Default::default()
        };
        let server =
            pb::ServerName { host_name: "one.example".into(), port: Some(16020), start_code: Some(5) };
        pb::ClusterStatus {
            live_servers: vec![pb::LiveServerInfo { server, server_load }],
            ..Default::default()
        }
    }

    const A: &str = "t,,17.aaaa.";
    const B: &str = "ns:u,k\\x00,17.bbbb.";

    fn after(seconds: u64, before: &pb::ClusterStatus, now: &pb::ClusterStatus) -> Rates {
        let moment = World::real().moment();
        let mut rates = Rates::new(moment, before);
        rates.advance(moment.plus(Duration::from_secs(seconds)), now);
        rates
    }

    fn number(line: &Line, field: Field) -> f64 {
        match line.cell(field) {
            Cell::Number { value, .. } => *value,
            Cell::Text(text) => panic!("{text:?} is no number"),
        }
    }

    #[test]
    fn rates_are_measured_between_the_reports_of_a_server() {
        let before = status(1_000, vec![region(A, 100, 0), region(B, 0, 50)], &[]);
        let now = status(3_000, vec![region(A, 300, 20), region(B, 0, 50)], &[]);
        // The command's clock says that 5 s have passed, but the reports are 2 s apart.
        let rates = after(5, &before, &now);
        assert_eq!(rates.total(), Rows { reads: 100.0, filtered: 0.0, writes: 10.0 });
        let lines = rates.lines(Mode::Table);
        let busy = lines.iter().find(|line| line.cell(Field::Table) == &Cell::text("t")).expect("a line");
        assert_eq!((number(busy, Field::Requests), number(busy, Field::Reads)), (110.0, 100.0));
        let other = lines.iter().find(|line| line.cell(Field::Table) == &Cell::text("u")).expect("a line");
        assert_eq!(other.cell(Field::Namespace), &Cell::text("ns"));
    }

    #[test]
    fn a_server_that_has_not_reported_again_keeps_its_rates() {
        let moment = World::real().moment();
        let mut rates = Rates::new(moment, &status(1_000, vec![region(A, 0, 0)], &[]));
        let second = status(2_000, vec![region(A, 50, 0)], &[]);
        rates.advance(moment.plus(Duration::from_secs(1)), &second);
        rates.advance(moment.plus(Duration::from_secs(2)), &second);
        assert_eq!(rates.total().reads, 50.0);
        // The server was started again, so its counters begin at 0.
        rates.advance(moment.plus(Duration::from_secs(3)), &status(3_000, vec![region(A, 7, 0)], &[]));
        assert_eq!(rates.total().reads, 7.0);
        // A region that is new in the status has no rate yet.
        rates.advance(moment.plus(Duration::from_secs(4)), &status(4_000, vec![region(B, 1_000, 0)], &[]));
        assert_eq!(rates.total().reads, 0.0);
    }

    #[test]
    fn every_mode_sums_what_it_groups() {
        let before = status(1_000, vec![region(A, 0, 0), region(B, 0, 0)], &[("u", "h1", 0), ("u", "h2", 0)]);
        let now = status(2_000, vec![region(A, 10, 0), region(B, 0, 5)], &[("u", "h1", 4), ("u", "h2", 6)]);
        let rates = after(1, &before, &now);
        let all = |mode| rates.lines(mode);
        assert_eq!([all(Mode::Namespace).len(), all(Mode::Region).len(), all(Mode::Client).len()], [2, 2, 2]);
        let server = &all(Mode::Server)[0];
        assert_eq!(server.cell(Field::Server), &Cell::text("one:16020"));
        assert_eq!((number(server, Field::Requests), number(server, Field::Regions)), (15.0, 2.0));
        assert_eq!((number(server, Field::FileSize), number(server, Field::MaxHeap)), (20.0, 400.0));
        let user = &all(Mode::User)[0];
        assert_eq!((number(user, Field::Reads), number(user, Field::Clients)), (10.0, 2.0));
        let empty = after(1, &status(1_000, vec![], &[]), &status(2_000, vec![], &[]));
        assert_eq!(empty.lines(Mode::Server).len(), 1, "a server without regions is a line");
    }

    #[test]
    fn names_of_regions_are_taken_apart() {
        let name = RegionName::parse(b"ns:t,a,b\x00,1700000000000_0001.0123abcd.");
        assert_eq!((&name.table[..], name.namespace(), name.qualifier()), ("ns:t", "ns", "t"));
        assert_eq!((&name.start_key[..], &name.start_code[..]), ("a,b\\x00", "1700000000000"));
        assert_eq!((&name.replica[..], &name.encoded[..]), ("0001", "0123abcd"));
        assert_eq!(RegionName::parse(b"hbase:meta,,1").encoded, "1588230740");
        assert_eq!(RegionName::parse(b"broken").table, "broken");
        assert_eq!(RegionName::parse(b"t,5").start_key, "");
    }
}
