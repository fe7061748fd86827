//! Tests of a read replica beside its primary, over one storage in memory, and of failures of that storage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use env::World;
use env::sync::Mutex;
use proto::{ServerName, pb};
use region::{CompactionRequest, FlushReason, Region, RegionOptions, Search};
use storage::{Capabilities, Capability, FileName, Files, Kind, Memory, Object, Outcome, Overlay, Segmented};

use super::bench::{Bench, class, get, mutation, region, table};
use crate::{Foundation, LogPlace, Options, Primary, RegionServer, Replica, ReplicaOptions};

use pb::mutation_proto::MutationType;

/// Maximum time for something that a replica usually does within a few ms.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn an_idle_replica_reads_more_often_than_its_maximum_lag() {
    let idle = |max_lag: &str| {
        let conf = conf::Conf::new().with(&conf::keys::cluster::REPLICA_MAX_LAG, max_lag);
        ReplicaOptions::from_conf(&conf).expect("good values").poll_idle.as_millis()
    };
    assert_eq!([idle("0"), idle("5000"), idle("1000"), idle("50")], [1_250, 1_250, 500, 100]);
}

/// The primary's storage as the replica reaches it. A test can make it fail for a while.
struct Reach {
    place: Memory,
    is_cut: Arc<AtomicBool>,
}

impl Overlay for Reach {
    fn below(&self) -> &dyn Files {
        &self.place
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> storage::Result<Object> {
        if self.is_cut.load(Ordering::Acquire) {
            return Err(storage::Error::new(Kind::Failed, Outcome::DidNotHappen, name, "read"));
        }
        self.place.load(name, bytes_max)
    }
}

/// What is recorded about the place of the primary's log, and its storage; `None` if the replica cannot reach that, such as a
/// folder of the primary's machine.
struct Recorded(Mutex<(String, Option<Arc<dyn Files>>)>);

impl LogPlace for Recorded {
    fn recorded(&self) -> Result<String, String> {
        Ok(self.0.lock().0.clone())
    }

    fn open(&self) -> Result<Arc<dyn Files>, String> {
        self.0.lock().1.clone().ok_or_else(|| "it is on another machine".to_owned())
    }
}

/// A primary and its replica.
struct Pair {
    /// The storage of the files, and of the log until it is begun elsewhere.
    place: Memory,
    log_place: Arc<Recorded>,
    primary: Bench,
    replica: Bench,
    is_cut: Arc<AtomicBool>,
}

fn growing(files: Arc<dyn Files>) -> Arc<dyn Files> {
    Arc::new(Segmented::new(files, World::real(), Duration::from_millis(10)))
}

fn server(
    port: u16,
    memstore_bytes_max: u64,
    files: Arc<dyn Files>,
    log: Arc<dyn Files>,
) -> Arc<RegionServer> {
    let world = World::real();
    let log_options = wal::Options { file_bytes_max: 2_000, ..wal::Options::default() };
    let (log, _) = wal::Log::open(world.clone(), log, FileName::new("WALs"), log_options).expect("a log");
    let foundation = Foundation {
        world,
        files,
        log: Arc::new(log),
        // Without a cache every read is a read of the storage.
        cache: Arc::new(cache::Cache::with_bytes(0)),
        region_options: RegionOptions { compaction_size_min: Some(0), ..RegionOptions::default() },
        recovered: None,
    };
    RegionServer::new(
        ServerName { host: "localhost".into(), port, start_code: 1 },
        foundation,
        // Replaced files are deleted at once, so that a test can have a file deleted while a replica uses it.
        Options {
            unnamed_files_grace: Duration::ZERO,
            unnamed_files_period: Duration::from_nanos(1),
            memstore_bytes_max,
            ..Options::default()
        },
    )
}

impl Pair {
    fn new(lag_max: Option<Duration>) -> Pair {
        let place = Memory::with(Capabilities::NONE.with(Capability::ListsAll));
        let files: Arc<dyn Files> = Arc::new(place.clone());
        let memory = Options::default().memstore_bytes_max;
        let primary = server(1, memory, Arc::clone(&files), growing(Arc::clone(&files)));
        primary.open_region(region("", ""), Arc::new(table())).expect("a new region");
        let is_cut = Arc::new(AtomicBool::new(false));
        let log = growing(Arc::new(Reach { place: place.clone(), is_cut: Arc::clone(&is_cut) }));
        let own: Arc<dyn Files> = Arc::new(Memory::new());
        // A replica may have less memory than its primary.
        let replica = server(2, 1_000, Arc::clone(&own), own);
        let options =
            ReplicaOptions { poll: Duration::from_millis(2), poll_idle: Duration::from_millis(10), lag_max };
        let log_place = Arc::new(Recorded(Mutex::new((String::new(), Some(log)))));
        let of = Primary {
            files,
            log: Arc::clone(&log_place) as Arc<dyn LogPlace>,
            folder: FileName::new("WALs"),
        };
        replica.follow(Replica::new(World::real(), of, options).expect("readable")).expect("a thread");
        replica.open_region(region("", ""), Arc::new(table())).expect("of the primary");
        let bench = |server: Arc<RegionServer>| Bench::before(server, place.clone(), World::real());
        let (primary, replica) = (bench(primary), bench(replica));
        Pair { place, log_place, primary, replica, is_cut }
    }

    /// Stops the primary in order.
    fn stop_primary(&self) {
        self.primary.server.close_all().expect("flushed");
        self.primary.server.foundation().log.close().expect("alive");
    }

    /// Starts the primary after [`stop_primary`](Pair::stop_primary), with its log in `log`.
    fn start_primary(&mut self, log: Arc<dyn Files>) {
        let memory = Options::default().memstore_bytes_max;
        let primary = server(3, memory, Arc::new(self.place.clone()), log);
        primary.open_region(region("", ""), Arc::new(table())).expect("flushed");
        self.primary = Bench::before(primary, self.place.clone(), World::real());
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Release);
    }

    fn region(&self) -> Arc<Region> {
        self.primary.server.regions().all()[0].clone()
    }

    /// Returns the cells that a get on the replica finds once the replica has all writes.
    fn seen(&self, row: &'static str) -> Vec<String> {
        assert!(self.replica.server.replica().expect("it is one").wait_current(SOON), "it becomes current");
        self.replica.row(row)
    }

    /// Returns the exception with which a get on the replica finally fails.
    fn refused(&self, row: &'static str) -> rpc::Exception {
        // Moments of different worlds cannot be compared.
        let world = World::real();
        let began = world.moment();
        loop {
            let request = pb::GetRequest { region: self.replica.region_of(row.as_bytes()), get: get(row) };
            if let Err(exception) = self.replica.client("Get", &request, Bytes::new()) {
                return exception;
            }
            assert!(world.moment().since(began) < SOON, "it is answered all the time");
        }
    }
}

#[test]
fn a_replica_whose_memory_is_full_flushes_nothing() {
    let pair = Pair::new(None);
    pair.primary.put("r", "f:x", &"v".repeat(2_000));
    assert_eq!(pair.seen("r").len(), 1);
    let replica = &pair.replica.server;
    assert!(replica.memory_pressure() > 1.0, "{}", replica.memory_pressure());
    replica.run_chore();
    assert_eq!(replica.background.waiting().flushes, 0, "a flush would fail, and be repeated");
}

/// Counts the warnings of the thread that has it as its subscriber.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// It may delete nothing there, so each search failed with a warning.
#[test]
fn a_replica_does_not_search_for_unneeded_files_of_its_primary() {
    let pair = Pair::new(None);
    pair.primary.put("r", "f:x", "1");
    pair.region().flush(FlushReason::Requested).expect("flushes");
    assert_eq!(pair.seen("r").len(), 1);
    let warnings = Warnings::default();
    // The first search is due one period after the first call.
    let search = || (0..3).for_each(|_| pair.replica.server.run_chore());
    tracing::subscriber::with_default(warnings.clone(), search);
    assert_eq!(warnings.0.load(Ordering::Relaxed), 0);
}

#[test]
fn a_replica_sees_what_is_written_and_refuses_to_write() {
    let pair = Pair::new(None);
    pair.primary.put("a", "f:q", "in memory");
    assert_eq!(pair.seen("a"), ["f:q=in memory"]);
    pair.region().flush(FlushReason::Requested).expect("flushed");
    pair.primary.put("b", "f:q", "later");
    assert_eq!(
        (pair.seen("a"), pair.seen("b")),
        (vec!["f:q=in memory".to_owned()], vec!["f:q=later".to_owned()])
    );
    let refused = pair.replica.mutate(mutation(MutationType::Put, "a", "f:q", "x")).expect_err("read only");
    assert_eq!((class(&refused), refused.do_not_retry), ("DoNotRetryIOException", true));
    assert!(refused.message.contains("Read-Only Mode") && refused.message.contains("primary"), "{refused:?}");
    let region = pair.replica.region_of(b"a");
    let flush = pb::FlushRegionRequest { region, ..Default::default() };
    let refused =
        pair.replica.admin::<pb::FlushRegionResponse>("FlushRegion", &flush).expect_err("read only");
    assert!(refused.do_not_retry && refused.message.contains("Read-Only Mode"), "{refused:?}");
}

#[test]
fn a_replica_does_not_begin_to_follow_another_primary() {
    let pair = Pair::new(None);
    let first = Arc::clone(pair.replica.server.replica().expect("it is one"));
    let files = Arc::clone(first.files());
    let of = Primary { log: Arc::new(growing(Arc::clone(&files))), files, folder: FileName::new("WALs") };
    let options = ReplicaOptions { poll: SOON, poll_idle: SOON, lag_max: None };
    let other = Replica::new(World::real(), of, options).expect("readable");
    pair.replica.server.follow(Arc::clone(&other)).expect("ignored");
    assert_eq!(Arc::strong_count(&other), 1, "no thread follows it");
    assert!(Arc::ptr_eq(pair.replica.server.replica().expect("it is one"), &first));
}

#[test]
fn reads_are_refused_while_the_replica_is_too_far_behind() {
    let pair = Pair::new(Some(Duration::from_millis(400)));
    pair.primary.put("a", "f:q", "v");
    assert_eq!(pair.seen("a"), ["f:q=v"]);
    pair.cut(true);
    let refused = pair.refused("a");
    assert!(
        !refused.do_not_retry && refused.message.contains("bellows.replica.max.lag = 400 ms"),
        "{refused:?}"
    );
    pair.primary.put("a", "f:q", "w");
    pair.cut(false);
    assert_eq!(pair.seen("a"), ["f:q=w"]);
}

#[test]
fn a_file_that_is_deleted_under_a_replica_is_no_missing_row() {
    let pair = Pair::new(None);
    for value in ["1", "2", "3"] {
        pair.primary.put("a", "f:q", value);
        pair.region().flush(FlushReason::Requested).expect("flushed");
    }
    // A write makes the log write its markers, too.
    pair.primary.put("z", "f:q", "v");
    assert_eq!(pair.seen("a"), ["f:q=3"]);
    pair.cut(true);
    pair.region().compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    pair.region().clean(&pair.primary.server.janitor, Search::Folders).expect("collected");
    let refused = pair.refused("a");
    assert_eq!(class(&refused), "NotServingRegionException", "clients look again, and scans go on");
    assert!(refused.message.contains("compacted away"), "{refused:?}");
    // Java clients pause before they open a scanner again only if the exception is this one.
    let scan = pb::ScanRequest {
        region: Some(pair.replica.region_of(b"a")),
        scan: Some(pb::Scan::default()),
        number_of_rows: Some(1),
        ..Default::default()
    };
    let refused = pair.replica.client("Scan", &scan, Bytes::new()).expect_err("the file is gone");
    assert_eq!(class(&refused), "NotServingRegionException");
    assert_eq!(pair.replica.server.open_scanners(), 0);
    pair.primary.put("z", "f:q", "w");
    pair.cut(false);
    assert_eq!((pair.seen("a"), pair.seen("z")), (vec!["f:q=3".to_owned()], vec!["f:q=w".to_owned()]));
}

#[test]
fn a_replica_that_missed_a_part_of_the_log_begins_again() {
    let pair = Pair::new(None);
    pair.primary.put("a", "f:q", "0");
    assert_eq!(pair.seen("a"), ["f:q=0"]);
    pair.cut(true);
    // The log begins several files and deletes old ones.
    let log = &pair.primary.server.foundation().log;
    for _ in 0..5 {
        pair.primary.put("a", "f:q", &"x".repeat(3_000));
        pair.region().flush(FlushReason::Requested).expect("flushed");
        log.roll().expect("alive");
    }
    pair.primary.put("b", "f:q", "new");
    pair.cut(false);
    assert_eq!(pair.seen("b"), ["f:q=new"]);
    assert_eq!(pair.seen("a"), [format!("f:q={}", "x".repeat(3_000))]);
}

#[test]
fn a_replica_follows_the_log_of_its_primary_to_another_place() {
    let mut pair = Pair::new(None);
    pair.primary.put("a", "f:q", "0");
    assert_eq!(pair.seen("a"), ["f:q=0"]);
    pair.stop_primary();
    let elsewhere = growing(Arc::new(Memory::with(Capabilities::NONE.with(Capability::ListsAll))));
    *pair.log_place.0.lock() = ("elsewhere".to_owned(), Some(Arc::clone(&elsewhere)));
    pair.start_primary(elsewhere);
    pair.primary.put("b", "f:q", "1");
    assert_eq!((pair.seen("a"), pair.seen("b")), (vec!["f:q=0".to_owned()], vec!["f:q=1".to_owned()]));
    pair.primary.put("b", "f:q", "2");
    assert_eq!(pair.seen("b"), ["f:q=2"]);
}

/// After an orderly stop the folder of the log may be deleted.
#[test]
fn a_replica_follows_a_log_that_was_begun_anew() {
    let mut pair = Pair::new(None);
    pair.primary.put("a", "f:q", "0");
    assert_eq!(pair.seen("a"), ["f:q=0"]);
    pair.stop_primary();
    for entry in pair.place.list(&FileName::new("WALs")).expect("listed") {
        pair.place.delete(&entry.name).expect("deleted");
    }
    pair.start_primary(growing(Arc::new(pair.place.clone())));
    pair.primary.put("b", "f:q", "1");
    assert_eq!((pair.seen("a"), pair.seen("b")), (vec!["f:q=0".to_owned()], vec!["f:q=1".to_owned()]));
    pair.primary.put("b", "f:q", "2");
    assert_eq!(pair.seen("b"), ["f:q=2"]);
}

#[test]
fn a_replica_that_cannot_reach_the_log_of_its_primary_falls_behind() {
    let pair = Pair::new(None);
    pair.primary.put("a", "f:q", "0");
    assert_eq!(pair.seen("a"), ["f:q=0"]);
    pair.stop_primary();
    let log = std::mem::replace(&mut *pair.log_place.0.lock(), ("/srv/log".to_owned(), None));
    let replica = pair.replica.server.replica().expect("it is one");
    assert!(!replica.wait_current(Duration::from_millis(100)), "it does not know what is acknowledged there");
    assert!(replica.lag() >= Duration::from_millis(50), "{:?}", replica.lag());
    *pair.log_place.0.lock() = log;
    assert_eq!(pair.seen("a"), ["f:q=0"]);
}

/// A start is refused then, as long as an operator has not said that the log's writes are lost for good.
#[test]
fn a_replica_whose_primary_has_lost_its_log_serves_what_it_has_read() {
    let pair = Pair::new(None);
    pair.primary.put("a", "f:q", "0");
    assert_eq!(pair.seen("a"), ["f:q=0"]);
    pair.log_place.0.lock().1 = None;
    for entry in pair.place.list(&FileName::new("WALs")).expect("listed") {
        pair.place.delete(&entry.name).expect("deleted");
    }
    let replica = pair.replica.server.replica().expect("it is one");
    assert!(
        !replica.wait_current(Duration::from_millis(200)),
        "it does not know what was acknowledged since"
    );
    assert_eq!(pair.replica.row("a"), ["f:q=0"], "no store file has it yet");
}
