//! The findings of the overview: what is wrong and what to do, the worst first.

use std::time::Duration;

use conf::keys;

use super::parts;
use crate::heat::HeatMaps;
use crate::history::History;
use crate::node::{Console, Snapshot, Snapshots, table_sums};
use crate::query::encode;
use crate::shell;

/// Maximum number of findings on the overview.
const FINDINGS_MAX: usize = 10;

/// Lag of a read replica above which it is reported, in seconds.
const REPLICA_LAG_MAX: f64 = 10.0;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Clients are refused, or data is in danger.
    Bad,
    /// Clients notice the problem, or will.
    Warn,
    /// The finding is no problem, but worth knowing.
    Note,
    /// Nothing is wrong.
    Good,
}

impl Severity {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Severity::Bad => "bad",
            Severity::Warn => "warn",
            Severity::Note => "note",
            Severity::Good => "good",
        }
    }
}

/// Something that the advisor has noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// What is wrong, as a sentence.
    pub(crate) what: String,
    /// The remedy.
    pub(crate) remedy: String,
    /// The page with details.
    pub(crate) page: String,
}

/// The facts from which the rules derive findings.
pub(crate) struct Evidence<'a> {
    /// `Ok` if clients can be served; the error says why not.
    pub(crate) health: Result<(), String>,
    pub(crate) history: &'a History,
    pub(crate) snapshots: &'a Snapshots,
    pub(crate) heat: &'a HeatMaps,
    /// Time since the server's start, in seconds.
    pub(crate) uptime: f64,
    /// Number of files in a store above which flushes wait.
    pub(crate) blocking_files: u64,
    /// The inconsistencies that the last check of the catalog found.
    pub(crate) inconsistencies: Vec<String>,
    /// The regions whose opening failed, a sentence each.
    pub(crate) failed_regions: Vec<String>,
}

fn finding(
    severity: Severity,
    what: impl Into<String>,
    remedy: impl Into<String>,
    page: impl Into<String>,
) -> Finding {
    Finding { severity, what: what.into(), remedy: remedy.into(), page: page.into() }
}

/// Returns the worst findings, at most [`FINDINGS_MAX`], the worst first.
pub(crate) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Err(why) = &evidence.health {
        found.push(finding(
            Severity::Bad,
            format!("Clients cannot be served: {why}."),
            "Read the last lines of the log; they name the file and the cause.",
            "/log",
        ));
    }
    let and_more = |all: &[String]| match all.len() - 1 {
        0 => String::new(),
        1 => " There is one more.".to_owned(),
        more => format!(" There are {more} more."),
    };
    if let Some(first) = evidence.failed_regions.first() {
        let more = and_more(&evidence.failed_regions);
        found.push(finding(
            Severity::Bad,
            format!("Rows are out of reach: {first}.{more}"),
            "Do what the sentence says; the server then opens the region by itself. /api/check lists all such regions.",
            "/log?level=ERROR",
        ));
    }
    if let Some(first) = evidence.inconsistencies.first() {
        let more = and_more(&evidence.inconsistencies);
        found.push(finding(
            Severity::Bad,
            format!("The catalog contradicts the regions: {first}.{more}"),
            "Do what the sentence says; hbck_chore_run in the shell checks again. If nobody has edited hbase:meta or files, please report it.",
            "/api/check",
        ));
    }
    if let Some(latest) = &evidence.snapshots.latest {
        of_replica(latest, &mut found);
        of_disk(evidence, latest, &mut found);
        of_writes(evidence, latest, &mut found);
        of_keys(evidence, latest, &mut found);
        of_reads(evidence, latest, &mut found);
        of_clock(evidence, latest, &mut found);
    }
    found.sort_by_key(|finding| finding.severity);
    found.truncate(FINDINGS_MAX);
    found
}

fn of_replica(latest: &Snapshot, found: &mut Vec<Finding>) {
    let lag = latest.metrics.sum("bellows_replica_lag_seconds", None);
    if lag > REPLICA_LAG_MAX {
        found.push(finding(
            Severity::Warn,
            format!("This read replica is {} behind its primary.", parts::span(lag)),
            "The log says whether the store cannot be read or regions are opened again. Clients that need the latest ask the primary.",
            "/log?level=WARN",
        ));
    }
}

fn of_disk(evidence: &Evidence<'_>, latest: &Snapshot, found: &mut Vec<Finding>) {
    let history = evidence.history;
    let free = latest.metrics.sum("bellows_disk_free_bytes", None);
    let is_full = latest.metrics.sum("hbase_wal_disk_full", None) > 0.0 || history.max("log.full", 60) > 0.0;
    if is_full {
        found.push(finding(
            Severity::Bad,
            format!("The disk is full: {} are free, and writes are refused until there is room.", parts::size(free)),
            "Delete or move other files from this disk, or drop tables that nobody needs. Writes go on by themselves.",
            "/tables?sort=size",
        ));
    } else if latest.metrics.sum("bellows_disk_reserve_spent", None) > 0.0 {
        found.push(finding(
            Severity::Bad,
            format!("The disk was full and has not enough room yet: {} are free.", parts::size(free)),
            "The reserve with which tables can be dropped on a full disk is spent. Make room: the server then reserves it again by \
             itself.",
            "/tables?sort=size",
        ));
    } else if free > 0.0 && free < 2.0 * f64::from(1 << 30) {
        found.push(finding(
            Severity::Warn,
            format!("The disk is nearly full: {} are free.", parts::size(free)),
            "Make room before it is full: a compaction needs as much as the files it reads.",
            "/tables?sort=size",
        ));
    } else {
        let then = history.mean_of_minutes("disk.free", 360);
        let (lost, hours) = (then - free, (evidence.uptime / 3_600.0).min(6.0) / 2.0);
        if hours > 0.5 && lost > 0.0 {
            let days = free / (lost / hours) / 24.0;
            if days < 7.0 {
                found.push(finding(
                    Severity::Warn,
                    format!("At this pace the disk is full in {}.", parts::span(days * 86_400.0)),
                    "Add space, or set a time to live on what grows.",
                    "/tables?sort=size",
                ));
            }
        }
    }
    let sync = history.max("sync.p99", 30);
    if sync > 100.0 {
        found.push(finding(
            Severity::Warn,
            format!("The disk is slow: making the log durable takes {} for one write in a hundred.", parts::ms(sync)),
            "Look for others who use this disk, and for a failing device (dmesg, smartctl). Put the data folder on a disk of its own.",
            "/work",
        ));
    }
    let metrics = &latest.metrics;
    if metrics.sum("bellows_bucket_cache_disabled", None) > 0.0
        || metrics.sum("bellows_bucket_cache_device_disabled", None) > 0.0
    {
        found.push(finding(
            Severity::Warn,
            "A device of the block cache has failed and is not used any more.",
            "Nothing is lost. Replace the device or take it out of hbase.bucketcache.ioengine, and start again.",
            "/cache",
        ));
    } else if metrics.sum("bellows_bucket_cache_read_only", None) > 0.0
        || metrics.sum("bellows_bucket_cache_device_read_only", None) > 0.0
        || metrics.sum("bellows_bucket_cache_failed_total", None) > 0.0
    {
        found.push(finding(
            Severity::Warn,
            "A device of the block cache fails: reads or writes of it go wrong.",
            "Nothing is lost, but reads become slower. Look at the device (dmesg), and whether its disk is full.",
            "/cache",
        ));
    }
    for (series, what) in [("flushes.failed", "A flush"), ("compactions.failed", "A compaction")] {
        if history.max(series, 600) > 0.0 {
            found.push(finding(
                Severity::Warn,
                format!("{what} failed in the last ten minutes; it is tried again."),
                "The log names the file and the cause. Until it succeeds, edits stay in memory and in the log.",
                "/log?level=WARN",
            ));
        }
    }
}

fn of_writes(evidence: &Evidence<'_>, latest: &Snapshot, found: &mut Vec<Finding>) {
    let history = evidence.history;
    let (used, limit) = (
        latest.metrics.sum("hbase_regionserver_mem_store_size", None),
        latest.metrics.sum("hbase_regionserver_mem_store_size_limit", None),
    );
    if history.max("calls.blocked", 60) > 0.0 {
        found.push(finding(
            Severity::Bad,
            format!(
                "Writes are refused: the memory for edits of a region or of the server is full (in all {} of {}).",
                parts::size(used),
                parts::size(limit)
            ),
            "Wait for the flushes that run. If it does not end: the disk is too slow for this load, or a store has too many files. If the \
             server's memory has room, raise hbase.hregion.memstore.block.multiplier.",
            "/memory",
        ));
    } else if limit > 0.0 && used > 0.9 * limit {
        found.push(finding(
            Severity::Warn,
            format!("Memory for edits is nearly full: {} of {}.", parts::size(used), parts::size(limit)),
            "Writers are slowed until flushes have caught up. Raise hbase.regionserver.global.memstore.size if the machine has memory.",
            "/memory",
        ));
    }
    let most = latest
        .regions
        .iter()
        .flat_map(|region| region.stores.iter().map(move |store| (store.files, region, store)))
        .max_by_key(|(files, ..)| *files);
    if let Some((files, region, store)) = most {
        let page = format!("/table/{}", encode(region.table.as_bytes()));
        let blocking = evidence.blocking_files as usize;
        if files > blocking {
            found.push(finding(
                Severity::Bad,
                format!(
                    "Compactions cannot keep up: family {} of {} has {files} files in one region, and flushes wait from {blocking} on.",
                    store.family, region.table
                ),
                "Give compactions more threads (hbase.regionserver.thread.compaction.small), or load more slowly.",
                page,
            ));
        } else if files * 4 > blocking * 3 {
            found.push(finding(
                Severity::Warn,
                format!(
                    "Compactions fall behind: family {} of {} has {files} files in one region; from {blocking} on flushes wait.",
                    store.family, region.table
                ),
                "See whether compactions run, and whether the disk is the limit.",
                "/work",
            ));
        }
    }
    let waiting = history.mean("queue.compaction", 120);
    if waiting > 20.0 {
        found.push(finding(
            Severity::Note,
            format!("{} compactions wait for a thread.", parts::count(waiting)),
            "Reads look into more files until they have run.",
            "/work",
        ));
    }
}

fn of_keys(evidence: &Evidence<'_>, latest: &Snapshot, found: &mut Vec<Finding>) {
    let rates = evidence.snapshots.region_rates();
    let total: f64 = rates.values().map(|(reads, writes)| reads + writes).sum();
    if total < 50.0 {
        return;
    }
    for (table, sums) in table_sums(&latest.regions) {
        if table.starts_with("hbase:") {
            continue;
        }
        let of_table: Vec<(&str, f64)> = latest
            .regions
            .iter()
            .filter(|region| region.table == table)
            .filter_map(|region| rates.get(&region.encoded[..]).map(|(r, w)| (&region.encoded[..], r + w)))
            .collect();
        let sum: f64 = of_table.iter().map(|(_, rate)| rate).sum();
        if sum < 0.1 * total {
            continue;
        }
        let page = format!("/keys?table={}", encode(table.as_bytes()));
        if let Some(row) = evidence.heat.hot_rows(table).first()
            && row.share > 0.1
        {
            let kind = if row.writes > 0.5 { "written" } else { "read" };
            found.push(finding(
                Severity::Warn,
                format!(
                    "One row of {table} is hot: {:.0} % of its traffic goes to {}, mostly {kind}.",
                    row.share * 100.0,
                    parts::short(&shell::escape(&row.row), 60)
                ),
                "Spread it over several keys (a salt, a bucket number), or let clients cache it.",
                page,
            ));
            continue;
        }
        let hottest = of_table.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((encoded, rate)) = hottest
            && sums.regions >= 4
            && *rate > 0.6 * sum
        {
            found.push(finding(
                Severity::Warn,
                format!(
                    "One region of {table} is hot: {} has {:.0} % of the traffic of {} regions.",
                    parts::short(encoded, 8),
                    rate / sum * 100.0,
                    sums.regions
                ),
                "Look at the keys: a range can be split, growing keys need a salt.",
                page,
            ));
        }
    }
}

fn of_reads(evidence: &Evidence<'_>, latest: &Snapshot, found: &mut Vec<Finding>) {
    let history = evidence.history;
    let (hit, disk) = (history.mean("cache.hit", 60), history.mean("calls.disk", 60));
    if hit > 0.0 && hit < 80.0 && disk > 20.0 {
        if evidence.uptime < 1_800.0 {
            found.push(finding(
                Severity::Note,
                format!(
                    "The block cache is cold: the server started {} ago, and {hit:.0} % of lookups find their block.",
                    parts::span(evidence.uptime)
                ),
                "It warms up with use. hbase.rs.prefetchblocksonopen, or a bucket cache that is kept over restarts, warms it at once.",
                "/cache",
            ));
        } else {
            found.push(finding(
                Severity::Warn,
                format!("The block cache is too small: {hit:.0} % of lookups find their block, {} reads a second go to the disk.", parts::count(disk)),
                "Give it more memory (hfile.block.cache.size), or a second tier on a fast disk (hbase.bucketcache.ioengine).",
                "/cache",
            ));
        }
    }
    let full = history.mean("scans.full", 60);
    if full > 0.05 {
        found.push(finding(
            Severity::Note,
            format!(
                "Somebody reads whole tables: {} scans a minute have neither a start nor an end.",
                parts::count(full * 60.0)
            ),
            "See who it is, and give the scan a range or a prefix. It pushes out blocks that others use.",
            "/clients",
        ));
    }
    let slow = history.mean("calls.slow", 600) * 600.0;
    if slow >= 1.0 {
        found.push(finding(
            Severity::Note,
            format!("{} slow calls in the last ten minutes.", parts::count(slow)),
            "The list says who made them and what they looked at.",
            "/slow",
        ));
    }
    let refused = latest.metrics.sum("hbase_ipc_panic_count", None);
    if refused > 0.0 {
        found.push(finding(
            Severity::Bad,
            format!("{} calls broke an invariant of the server.", parts::count(refused)),
            "This is a bug. The log has the details; please report it.",
            "/log?level=ERROR",
        ));
    }
}

/// For how long after a jump of the clock the finding is shown.
const CLOCK_JUMP_SHOWN: Duration = Duration::from_secs(3_600);

/// Adds a finding if the wall clock jumped during the last hour. The clock was wrong before the jump or is wrong since,
/// and cells got its time as timestamps.
fn of_clock(evidence: &Evidence<'_>, latest: &Snapshot, found: &mut Vec<Finding>) {
    let Some(jump) = evidence.snapshots.clock_jump else { return };
    let ago = latest.moment.since(jump.moment);
    if ago < CLOCK_JUMP_SHOWN {
        found.push(finding(
            Severity::Warn,
            format!(
                "The machine's clock jumped {} by {}, {} ago.",
                if jump.seconds > 0.0 { "forward" } else { "back" },
                parts::span(jump.seconds.abs().round()),
                parts::span(ago.as_secs_f64())
            ),
            "Cells written since then carry that time: newer ones may hide behind older ones. Let chrony or ntpd slew the clock.",
            "/log",
        ));
    }
}

/// Returns the findings of a running server.
pub(crate) fn of(console: &Console) -> Vec<Finding> {
    let (history, snapshots) = (console.history(), console.snapshots.read().clone());
    findings(&Evidence {
        health: console.health(),
        history: &history,
        snapshots: &snapshots,
        heat: &console.heat,
        uptime: (console.world.now().0 - console.about.started.0) as f64 / 1_000.0,
        blocking_files: console.conf.value(&keys::store::BLOCKING_STORE_FILES).unwrap_or(16),
        inconsistencies: console.self_check().map(|check| check.inconsistencies).unwrap_or_default(),
        failed_regions: console.failed_regions(),
    })
}

/// Returns the state of the server in one sentence, and its severity: the worst finding, or that all is well.
pub(crate) fn sentence(console: &Console) -> (Severity, String) {
    if console.node.get().is_none() {
        return (Severity::Warn, "The server is starting: regions are being opened.".to_owned());
    }
    let findings = of(console);
    let serious: Vec<&Finding> =
        findings.iter().filter(|finding| finding.severity <= Severity::Warn).collect();
    if let Some(worst) = serious.first() {
        let more = match serious.len() - 1 {
            0 => String::new(),
            1 => " There is one more finding.".to_owned(),
            more => format!(" There are {more} more findings."),
        };
        return (worst.severity, format!("{}{more}", worst.what));
    }
    let snapshots = console.snapshots.read();
    let regions = snapshots.latest.as_ref().map_or(0, |latest| latest.regions.len());
    let rate = console.history().mean("requests", 10);
    let load = if rate < 1.0 {
        "no calls just now".to_owned()
    } else {
        format!("{} calls a second", parts::count(rate))
    };
    (Severity::Good, format!("All is well: {regions} regions are open, {load}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Fold;
    use crate::node::{RegionFacts, StoreFacts};
    use env::{WallTime, World};
    use std::sync::Arc;
    use telemetry::Exposition;

    struct Scene {
        world: World,
        history: History,
        heat: HeatMaps,
        snapshots: Snapshots,
        health: Result<(), String>,
        uptime: f64,
        inconsistencies: Vec<String>,
        failed_regions: Vec<String>,
    }

    impl Scene {
        fn new() -> Scene {
            let world = World::simulated(1, WallTime(1_700_000_000_000));
            Scene {
                heat: HeatMaps::new(world.clone()),
                world,
                history: History::default(),
                snapshots: Snapshots::default(),
                health: Ok(()),
                uptime: 86_400.0,
                inconsistencies: Vec::new(),
                failed_regions: Vec::new(),
            }
        }

        fn series(&self, values: &[(&str, f64)]) {
            let second = self.world.now().0 as u64 / 1_000;
            self.history.push(second, values.iter().map(|(name, value)| (*name, Fold::Mean, *value)));
        }

        fn snapshot(&mut self, gauges: &[(&str, f64)], regions: Vec<RegionFacts>) {
            let mut metrics = Exposition::default();
            metrics.gauge("bellows_disk_free_bytes", "", &[], 1e12);
            metrics.gauge("hbase_regionserver_mem_store_size_limit", "", &[], 100.0);
            gauges.iter().for_each(|(name, value)| metrics.gauge(name, "", &[], *value));
            let (moment, time) = (self.world.moment(), self.world.now());
            self.snapshots.add(Arc::new(Snapshot { moment, time, metrics, regions }));
        }

        fn found(&self) -> Vec<Finding> {
            findings(&Evidence {
                health: self.health.clone(),
                history: &self.history,
                snapshots: &self.snapshots,
                heat: &self.heat,
                uptime: self.uptime,
                blocking_files: 16,
                inconsistencies: self.inconsistencies.clone(),
                failed_regions: self.failed_regions.clone(),
            })
        }

        fn first(&self) -> String {
            self.found().first().map_or_else(String::new, |finding| finding.what.clone())
        }
    }

    fn regions(reads: [u64; 4], files: usize) -> Vec<RegionFacts> {
        reads
            .iter()
            .enumerate()
            .map(|(at, reads)| RegionFacts {
                table: "t".to_owned(),
                encoded: format!("{at:032}"),
                reads: *reads,
                stores: vec![StoreFacts { family: "f".to_owned(), files, ..StoreFacts::default() }],
                ..RegionFacts::default()
            })
            .collect()
    }

    #[test]
    fn a_jump_of_the_clock_is_shown_for_an_hour() {
        let mut scene = Scene::new();
        let mut ahead = 0;
        for minute in 0..62 {
            // The clock is set back by five minutes once.
            if minute == 1 {
                ahead = -300_000;
            }
            let (moment, time) = (scene.world.moment(), WallTime(scene.world.now().0 + ahead));
            let metrics = Exposition::default();
            scene.snapshots.add(Arc::new(Snapshot { moment, time, metrics, regions: Vec::new() }));
            let is_shown = scene.found().iter().any(|finding| finding.what.contains("jumped back by 5 min"));
            assert_eq!(is_shown, (1..61).contains(&minute), "minute {minute}: {:?}", scene.first());
            scene.world.advance(Duration::from_secs(60));
        }
    }

    #[test]
    fn a_quiet_server_has_nothing_to_say() {
        let mut scene = Scene::new();
        scene.snapshot(&[], regions([0; 4], 2));
        scene.series(&[("cache.hit", 100.0)]);
        assert_eq!(scene.found(), []);
    }

    #[test]
    fn each_planted_fault_is_named_first() {
        let mut scene = Scene::new();
        scene.snapshot(&[("hbase_wal_disk_full", 1.0)], regions([0; 4], 2));
        assert!(scene.first().starts_with("The disk is full"), "{}", scene.first());

        let mut scene = Scene::new();
        scene.snapshot(&[("bellows_disk_reserve_spent", 1.0)], regions([0; 4], 2));
        assert!(scene.first().starts_with("The disk was full"), "{}", scene.first());

        let mut scene = Scene::new();
        scene.snapshot(&[], regions([0; 4], 2));
        scene.series(&[("calls.blocked", 5.0)]);
        assert!(scene.first().starts_with("Writes are refused"), "{}", scene.first());

        scene.series(&[]);
        let mut scene = Scene::new();
        scene.snapshot(&[], regions([0; 4], 2));
        scene.series(&[("sync.p99", 400.0)]);
        assert!(scene.first().starts_with("The disk is slow"), "{}", scene.first());

        let mut scene = Scene::new();
        scene.snapshot(&[("bellows_replica_lag_seconds", 9.0)], regions([0; 4], 2));
        assert_eq!(scene.first(), "");
        scene.snapshot(&[("bellows_replica_lag_seconds", 90.0)], regions([0; 4], 2));
        assert!(scene.first().starts_with("This read replica is"), "{}", scene.first());

        let mut scene = Scene::new();
        scene.snapshot(&[], regions([0; 4], 20));
        assert!(scene.first().starts_with("Compactions cannot keep up"), "{}", scene.first());

        let mut scene = Scene::new();
        scene.uptime = 120.0;
        scene.snapshot(&[], regions([0; 4], 2));
        scene.series(&[("cache.hit", 20.0), ("calls.disk", 500.0)]);
        assert!(scene.first().starts_with("The block cache is cold"), "{}", scene.first());

        let mut scene = Scene::new();
        scene.snapshot(&[], regions([0; 4], 2));
        scene.series(&[("scans.full", 1.0), ("cache.hit", 100.0)]);
        assert!(scene.first().starts_with("Somebody reads whole tables"), "{}", scene.first());

        let mut scene = Scene::new();
        scene.snapshot(&[("bellows_bucket_cache_disabled", 1.0)], regions([0; 4], 2));
        assert!(scene.first().starts_with("A device of the block cache has failed"), "{}", scene.first());

        let mut scene = Scene::new();
        scene.inconsistencies = ["region a is open", "b", "c"].map(str::to_owned).to_vec();
        let expected = "The catalog contradicts the regions: region a is open. There are 2 more.";
        assert_eq!(scene.first(), expected);

        let mut scene = Scene::new();
        scene.failed_regions = vec!["region a could not be opened: b is damaged; restore it".to_owned()];
        let expected = "Rows are out of reach: region a could not be opened: b is damaged; restore it.";
        assert_eq!((scene.first().as_str(), scene.found()[0].severity), (expected, Severity::Bad));

        let mut scene = Scene::new();
        scene.health = Err("the log failed".to_owned());
        assert!(scene.first().starts_with("Clients cannot be served: the log failed"), "{}", scene.first());
    }

    #[test]
    fn a_hot_region_and_a_hot_row_are_named() {
        let mut scene = Scene::new();
        scene.snapshot(&[], regions([0; 4], 2));
        scene.world.advance(Duration::from_secs(10));
        scene.snapshot(&[], regions([90_000, 1_000, 1_000, 1_000], 2));
        assert!(scene.first().starts_with("One region of t is hot: 00000000"), "{}", scene.first());
        (0..1_000).for_each(|_| scene.heat.add(b"t", b"<script>", true, 1));
        assert!(
            scene.first().starts_with("One row of t is hot: 100 % of its traffic goes to <script>"),
            "{}",
            scene.first()
        );
    }

    #[test]
    fn at_most_ten_are_shown_the_worst_first() {
        let mut scene = Scene::new();
        scene.snapshot(&[("hbase_wal_disk_full", 1.0), ("hbase_ipc_panic_count", 1.0)], regions([0; 4], 20));
        scene.series(&[
            ("calls.blocked", 5.0),
            ("sync.p99", 400.0),
            ("scans.full", 1.0),
            ("calls.slow", 1.0),
        ]);
        let found = scene.found();
        assert!(found.len() >= 6 && found.len() <= 10);
        assert!(found.is_sorted_by_key(|finding| finding.severity));
        assert!(found.iter().all(|finding| !finding.remedy.is_empty() && finding.page.starts_with('/')));
    }
}
