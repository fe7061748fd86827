//! HBase's metrics: the attributes of each bean, and how their values are computed.
//!
//! `catalogue.txt` is the table: beans, their attributes, and for each attribute an expression over the server's own
//! metrics (those of `/metrics`). Beans of tables and regions are computed from the measured regions.
//! `differences.txt` has the attributes that Bellows lacks, with the reason. A test compares both files with what
//! HBase 2.6.4 shows.

use std::collections::BTreeSet;

use telemetry::{Bean, Exposition, Spread};

use crate::history::History;
use crate::node::{Console, Node, RegionFacts, Snapshot, Snapshots, table_sums};

const CATALOGUE: &str = include_str!("metrics/catalogue.txt");
const CALLS: &str = "hbase_regionserver_call_seconds";

/// The kind of an attribute in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttributeKind {
    Counter,
    Gauge,
    Histogram,
}

/// A line of the catalogue.
#[derive(Clone, Copy, Debug)]
struct Entry {
    name: &'static str,
    kind: AttributeKind,
    expression: &'static str,
}

/// Returns the beans of the catalogue, in its order: name, sub, attributes.
fn catalogue() -> Vec<(&'static str, &'static str, Vec<Entry>)> {
    let mut beans: Vec<(&str, &str, Vec<Entry>)> = Vec::new();
    for line in CATALOGUE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(bean) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let (name, sub) = bean.split_once(' ').unwrap_or((bean, ""));
            beans.push((name, sub, Vec::new()));
            continue;
        }
        let mut parts = line.splitn(3, ' ');
        let (Some(name), Some(kind), Some(expression)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let kind = match kind {
            "counter" => AttributeKind::Counter,
            "gauge" => AttributeKind::Gauge,
            _ => AttributeKind::Histogram,
        };
        if let Some((.., entries)) = beans.last_mut() {
            entries.push(Entry { name, kind, expression });
        }
    }
    beans
}

/// The input of expressions.
struct Evaluation<'a> {
    metrics: &'a Exposition,
    snapshots: &'a Snapshots,
    history: &'a History,
    /// Time since the server's start, in seconds.
    uptime: f64,
}

impl Evaluation<'_> {
    /// Evaluates an expression, which is a sum of terms.
    fn value(&self, expression: &str) -> f64 {
        if let Some((function, argument)) =
            expression.strip_suffix(')').and_then(|expression| expression.split_once('('))
        {
            return self.function(function, argument);
        }
        expression.split('+').map(|term| self.term(term)).sum::<f64>() + 0.0
    }

    fn function(&self, function: &str, argument: &str) -> f64 {
        let series = match argument {
            "hbase_regionserver_read_request_count" => "rows.read",
            _ => "rows.written",
        };
        match function {
            "div" => {
                let (top, bottom) = argument.split_once(',').unwrap_or((argument, "1"));
                let bottom = self.term(bottom);
                if bottom == 0.0 { 0.0 } else { self.term(top) / bottom }
            }
            "rate" => self.history.mean(series, 10),
            "rate1" => self.history.mean(series, 60),
            "rate5" => self.history.mean(series, 300),
            "rate15" => self.history.mean_of_minutes(series, 15),
            "mean" => self.term(argument) / self.uptime.max(1.0),
            _ => 0.0,
        }
    }

    /// Evaluates a term: a number, a metric, or a metric with a label (`name{label=value}`, or `{label~part}` for a
    /// part of the value).
    fn term(&self, term: &str) -> f64 {
        if let Ok(number) = term.parse() {
            return number;
        }
        match term.strip_suffix('}').and_then(|term| term.split_once('{')) {
            None => self.metrics.sum(term, None),
            Some((name, label)) => match (label.split_once('='), label.split_once('~')) {
                (Some(label), _) => self.metrics.sum(name, Some(label)),
                (None, Some((label, part))) => {
                    let samples = self.metrics.samples(name).iter();
                    let matching = samples
                        .filter(|sample| sample.label(label).is_some_and(|value| value.ends_with(part)));
                    matching.map(|sample| sample.value.as_f64()).sum::<f64>() + 0.0
                }
                (None, None) => 0.0,
            },
        }
    }

    /// Evaluates an expression `ms name{label=value}` to a histogram: the number of values since the start, and the
    /// values of the last ten to twenty seconds. Without a label, all labels count.
    fn histogram(&self, expression: &str) -> (u64, Option<Spread>) {
        let Some(source) = expression.strip_prefix("ms ") else { return (0, None) };
        let spread =
            |metrics: &Exposition| match source.strip_suffix('}').and_then(|name| name.split_once('{')) {
                Some((name, label)) => metrics.spread(name, label.split_once('=')).cloned(),
                None => ["Get", "Mutate", "Multi", "Scan", "other"]
                    .iter()
                    .filter_map(|method| metrics.spread(source, Some(("method", method))).cloned())
                    .reduce(Spread::with)
                    .filter(|_| source == CALLS)
                    .or_else(|| metrics.spread(source, None).cloned()),
            };
        let Some(now) = spread(self.metrics) else { return (0, None) };
        let earlier = self.snapshots.base().and_then(|(base, _)| spread(&base.metrics));
        let recent = match &earlier {
            Some(earlier) => now.since(earlier),
            None => now.clone(),
        };
        (now.count(), Some(recent))
    }
}

/// Returns a description of the attribute, derived from its name: `storeFileCount` becomes `store file count`.
fn description(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(if matches!(letter, '_' | '.') { ' ' } else { letter.to_ascii_lowercase() });
    }
    words
}

impl Console {
    /// Returns HBase's beans with their present values; none before clients can be served.
    pub(crate) fn beans(&self) -> Vec<Bean> {
        let Some(node) = self.node.get() else { return Vec::new() };
        let snapshots = self.snapshots.read().clone();
        let (mut metrics, history) = (self.metrics(), self.history());
        let fresh = self.measure();
        let regions = fresh.as_ref().map_or(&[][..], |snapshot: &Snapshot| &snapshot.regions);
        let tables: BTreeSet<&str> = regions.iter().map(|region| &region.table[..]).collect();
        for (name, value) in [
            ("bellows_tables", tables.len() as f64),
            ("hbase_master_num_region_servers", 1.0),
            ("hbase_master_average_load", regions.len() as f64),
        ] {
            metrics.gauge(name, "Of the whole cluster.", &[], value);
        }
        let uptime = (self.world.now().0 - self.about.started.0) as f64 / 1_000.0;
        let evaluation = Evaluation { metrics: &metrics, snapshots: &snapshots, history: &history, uptime };
        let mut beans: Vec<Bean> = catalogue()
            .into_iter()
            .map(|(name, sub, entries)| {
                let mut bean = Bean::new(name, sub);
                self.tag(node, &mut bean);
                for Entry { name, kind, expression } in entries {
                    let text = description(name);
                    match kind {
                        AttributeKind::Counter => bean.counter(name, &text, evaluation.value(expression)),
                        AttributeKind::Gauge => bean.gauge(name, &text, evaluation.value(expression)),
                        AttributeKind::Histogram => {
                            let (count, recent) = evaluation.histogram(expression);
                            bean.histogram(name, &text, count, recent.as_ref(), 1e6);
                        }
                    }
                }
                if (name, sub) == ("RegionServer", "Tables") {
                    add_tables(&mut bean, regions);
                }
                bean
            })
            .collect();
        let mut of_regions = Bean::new("RegionServer", "Regions");
        self.tag(node, &mut of_regions);
        add_regions(&mut of_regions, regions, self.world.now().0);
        beans.push(of_regions);
        if metrics.sum("bellows_replica_regions", None) > 0.0 {
            let mut bean = Bean::new("RegionServer", "ReadReplica");
            self.tag(node, &mut bean);
            add_replica(&mut bean, &metrics);
            beans.push(bean);
        }
        beans
    }

    /// Adds the tags of a bean, in HBase's order.
    fn tag(&self, node: &Node, bean: &mut Bean) {
        let context = match &bean.name[..] {
            "Master" => "master",
            "JvmMetrics" => "jvm",
            _ => "regionserver",
        };
        let server = node.server.name().to_string();
        match (&bean.name[..], &bean.sub[..]) {
            ("Master", "Server") => {
                bean.tag("liveRegionServers", server);
                bean.tag("deadRegionServers", "");
                bean.tag("drainingRegionServers", "");
                bean.tag("zookeeperQuorum", node.quorum.clone());
                bean.tag("serverName", node.master.to_string());
                bean.tag("clusterId", node.cluster_id.clone());
                bean.tag("isActiveMaster", "true");
            }
            ("RegionServer", "Server") => {
                bean.tag("zookeeperQuorum", node.quorum.clone());
                bean.tag("serverName", server);
                bean.tag("clusterId", node.cluster_id.clone());
            }
            _ => {}
        }
        bean.tag("Context", context);
        if bean.name == "JvmMetrics" {
            bean.tag("ProcessName", "Master");
            bean.tag("SessionId", "");
        }
        if (&bean.name[..], &bean.sub[..]) == ("Master", "Balancer") {
            bean.tag("isBalancerActive", "false");
        }
        if (&bean.name[..], &bean.sub[..]) == ("Master", "Quotas") {
            bean.tags.insert(0, ("namespaceSpaceQuotaOverview".to_owned(), "[]".to_owned()));
            bean.tags.insert(0, ("tableSpaceQuotaOverview".to_owned(), "[]".to_owned()));
        }
        bean.tag("Hostname", env::host_name().unwrap_or_default());
    }
}

/// Returns `Namespace_<ns>_table_<table>`, with which the names of a table's attributes begin.
fn prefix(table: &str) -> String {
    let (namespace, qualifier) = table.split_once(':').unwrap_or(("default", table));
    format!("Namespace_{namespace}_table_{qualifier}")
}

fn add_tables(bean: &mut Bean, regions: &[RegionFacts]) {
    for (table, sum) in table_sums(regions) {
        let prefix = format!("{}_metric_", prefix(table));
        for (name, value) in [
            ("readRequestCount", sum.reads),
            ("filteredReadRequestCount", sum.filtered),
            ("writeRequestCount", sum.writes),
            ("totalRequestCount", sum.reads + sum.writes),
        ] {
            bean.counter(format!("{prefix}{name}"), &description(name), value as f64);
        }
        let average = sum.file_bytes / sum.regions.max(1) as u64;
        for (name, value) in [
            ("memStoreSize", sum.memstore_bytes),
            ("storeFileCount", sum.files as u64),
            ("maxStoreFileCount", sum.files_max as u64),
            ("storeFileSize", sum.file_bytes),
            ("tableSize", sum.file_bytes + sum.memstore_bytes),
            ("averageRegionSize", average),
            ("regionCount", sum.regions as u64),
            ("storeCount", sum.stores as u64),
            ("staticBloomSize", sum.bloom_bytes),
            ("staticIndexSize", sum.index_bytes),
            ("numReferenceFiles", 0),
        ] {
            bean.gauge(format!("{prefix}{name}"), &description(name), value as f64);
        }
    }
}

/// Adds the state of a read replica. HBase has no such attributes.
fn add_replica(bean: &mut Bean, metrics: &Exposition) {
    let lag = metrics.sum("bellows_replica_lag_seconds", None);
    bean.gauge(
        "lagMillis",
        "Time since which everything that the primary had acknowledged is seen here",
        lag * 1_000.0,
    );
    bean.gauge(
        "regionCount",
        "Regions that follow the primary",
        metrics.sum("bellows_replica_regions", None),
    );
}

fn add_regions(bean: &mut Bean, regions: &[RegionFacts], now: i64) {
    for region in regions {
        let prefix = format!("{}_region_{}_metric_", prefix(&region.table), region.encoded);
        let major = region.last_major.map_or(now, |time| now - time.0);
        for (name, value) in [
            ("readRequestCount", region.reads as f64),
            ("filteredReadRequestCount", region.filtered as f64),
            ("writeRequestCount", region.writes as f64),
            ("lastMajorCompactionAge", major as f64),
            ("replicaid", 0.0),
        ] {
            bean.counter(format!("{prefix}{name}"), &description(name), value);
        }
        for (name, value) in [
            ("storeCount", region.stores.len() as u64),
            ("storeFileCount", region.files as u64),
            ("memStoreSize", region.memstore_bytes),
            ("storeFileSize", region.file_bytes),
            ("numReferenceFiles", 0),
        ] {
            bean.gauge(format!("{prefix}{name}"), &description(name), value as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use telemetry::{Histogram, prometheus, prometheus_name};

    const HBASE: &str = include_str!("../tests/hbase-2.6.4-metrics.txt");
    const DIFFERENCES: &str = include_str!("metrics/differences.txt");
    const DASHBOARDS: &str = include_str!("../tests/dashboard-metrics.txt");

    /// Returns the attributes by bean, from a file in the catalogue's format.
    fn names(text: &'static str) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
        let mut beans: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut bean = "";
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                Some(name) => bean = name,
                None => {
                    let name = line.split(' ').next().expect("a name");
                    assert!(beans.entry(bean).or_default().insert(name), "[{bean}] {name} occurs twice");
                }
            }
        }
        beans
    }

    fn region(table: &str) -> RegionFacts {
        RegionFacts { table: table.to_owned(), encoded: "e".repeat(32), ..RegionFacts::default() }
    }

    /// Returns all attributes that Bellows has, in the format of the file of HBase's names.
    fn ours() -> BTreeMap<String, BTreeSet<String>> {
        let mut ours: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (bean, attributes) in names(CATALOGUE) {
            ours.insert(bean.to_owned(), attributes.into_iter().map(str::to_owned).collect());
        }
        let mut tables = Bean::new("RegionServer", "Tables");
        add_tables(&mut tables, &[region("t")]);
        let mut regions = Bean::new("RegionServer", "Regions");
        add_regions(&mut regions, &[region("t")], 0);
        for (bean, cut) in [
            (tables, "Namespace_default_table_t_".to_owned()),
            (regions, format!("Namespace_default_table_t_region_{}_", "e".repeat(32))),
        ] {
            let names = ours.entry(format!("{} {}", bean.name, bean.sub)).or_default();
            names.extend(bean.attributes.iter().map(|attribute| attribute.name.replace(&cut, "")));
        }
        ours
    }

    #[test]
    fn every_attribute_of_hbase_is_there_or_has_a_reason() {
        let (ours, differences) = (ours(), names(DIFFERENCES));
        let has = |bean: &str, name: &str| ours.get(bean).is_some_and(|names| names.contains(name));
        let excused = |bean: &str, name: &str| {
            differences.get(bean).is_some_and(|names| names.contains(name) || names.contains("*"))
        };
        for (bean, attributes) in names(HBASE) {
            for name in attributes {
                assert!(
                    has(bean, name) != excused(bean, name),
                    "[{bean}] {name}: {}",
                    if has(bean, name) {
                        "it is there; take it out of differences.txt"
                    } else {
                        "neither there nor in differences.txt"
                    }
                );
            }
        }
    }

    #[test]
    fn nothing_is_there_that_hbase_has_not_and_every_difference_has_a_reason() {
        let hbase = names(HBASE);
        let ours_alone = names(DASHBOARDS);
        for (bean, attributes) in ours() {
            for name in attributes {
                let known = hbase.get(&bean[..]).is_some_and(|names| names.contains(&name[..]));
                let asked = ours_alone.get("older").is_some_and(|names| names.contains(&name[..]));
                assert!(known || asked, "[{bean}] {name}: HBase 2.6.4 has none of that name");
            }
        }
        for line in DIFFERENCES.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '['])) {
            let reason = line.split_once(' ').map_or("", |(_, reason)| reason);
            assert!(reason.split(' ').count() >= 2, "{line}: say why");
        }
    }

    #[test]
    fn what_dashboards_ask_for_is_there() {
        let mut beans = Vec::new();
        for (name, sub, entries) in catalogue() {
            let mut bean = Bean::new(name, sub);
            for entry in entries {
                match entry.kind {
                    AttributeKind::Histogram => bean.histogram(entry.name, "", 0, None, 1.0),
                    _ => bean.gauge(entry.name, "", 0.0),
                }
            }
            beans.push(bean);
        }
        let text = prometheus(&beans, false);
        let wanted = names(DASHBOARDS);
        assert!(wanted["prometheus"].len() > 40);
        for name in &wanted["prometheus"] {
            assert!(text.contains(&format!("\n{name}{{")), "{name} is missing from /prometheus");
        }
    }

    #[test]
    fn two_attributes_never_become_one_name() {
        let mut seen = BTreeSet::new();
        for (name, sub, entries) in catalogue() {
            let record = if sub == "IPC" || sub.is_empty() { name } else { sub };
            for entry in entries {
                // Region servers and masters both use the group `Server`. Their labels tell them apart.
                let of = if sub == "Server" || sub == "Quotas" { name } else { "" };
                let made = format!("{of} {}", prometheus_name(record, entry.name));
                assert!(seen.insert(made.clone()), "{made}");
            }
        }
    }

    #[test]
    fn expressions_are_sums_quotients_and_labels() {
        let (mut metrics, times) = (Exposition::default(), Histogram::default());
        times.record(3_000_000);
        metrics.counter("a", "", &[("class", "x.NotServingRegionException")], 2);
        metrics.counter("a", "", &[("class", "x.RegionMovedException")], 3);
        metrics.gauge("b", "", &[], 10.0);
        metrics.times(CALLS, "", &[("method", "Get")], &times);
        let (snapshots, history) = (Snapshots::default(), History::default());
        let evaluation =
            Evaluation { metrics: &metrics, snapshots: &snapshots, history: &history, uptime: 5.0 };
        for (expression, value) in [
            ("7", 7.0),
            ("a", 5.0),
            ("a{class~RegionMovedException}", 3.0),
            ("a+b", 15.0),
            ("div(b,a)", 2.0),
            ("div(b,absent)", 0.0),
            ("mean(b)", 2.0),
            ("absent", 0.0),
            ("rate(hbase_regionserver_read_request_count)", 0.0),
        ] {
            assert_eq!(evaluation.value(expression), value, "{expression}");
        }
        let (count, recent) = evaluation.histogram(&format!("ms {CALLS}{{method=Get}}"));
        assert_eq!((count, recent.expect("recorded").count()), (1, 1));
        assert_eq!(evaluation.histogram(&format!("ms {CALLS}")).0, 1);
        assert_eq!(evaluation.histogram("0").0, 0);
    }
}
