//! Tests that a follower of a region sees what the region's owner has made durable, through all changes of its files
//! and its log.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use storage::{Capabilities, Capability, Segmented};
use wal::{LogReader, LogTail};

use super::*;

/// An owner and a follower of one region over the same storage, like two processes on one bucket.
struct Pair {
    base: Memory,
    world: World,
    table: Arc<TableDescriptor>,
    options: RegionOptions,
    log: Arc<wal::Log>,
    owner: Arc<Region>,
}

/// Returns storage for a log whose files grow part by part.
fn growing(base: &Memory, world: &World) -> Arc<dyn Files> {
    Arc::new(Segmented::new(Arc::new(base.clone()), world.clone(), Duration::from_secs(1)))
}

fn folder() -> FileName {
    FileName::new("WALs")
}

impl Pair {
    fn new(seed: u64, options: RegionOptions) -> Pair {
        let base = Memory::with(Capabilities::NONE.with(Capability::ListsAll));
        let world = World::simulated(seed, WallTime(1_000_000));
        let family = |name| FamilyDescriptor::new(name).expect("a name");
        let table = table(family("f").with("VERSIONS", 2).with("IN_MEMORY_COMPACTION", "ADAPTIVE"));
        let (log, owner) = Pair::own(&base, &world, &table, &options);
        Pair { base, world, table, options, log, owner }
    }

    /// Takes over the log, and opens the region as its owner.
    fn own(
        base: &Memory,
        world: &World,
        table: &Arc<TableDescriptor>,
        options: &RegionOptions,
    ) -> (Arc<wal::Log>, Arc<Region>) {
        let log_options = wal::Options { file_bytes_max: 3_000, ..wal::Options::default() };
        let (log, recovered) =
            wal::Log::open(world.clone(), growing(base, world), folder(), log_options).expect("a log");
        let log = Arc::new(log);
        let opening = Pair::opening(base, world, table, options, &log);
        let owner =
            Region::open(Opening { recovered: Some(Arc::new(recovered)), ..opening }).expect("opened");
        (log, owner)
    }

    fn opening(
        base: &Memory,
        world: &World,
        table: &Arc<TableDescriptor>,
        options: &RegionOptions,
        log: &Arc<wal::Log>,
    ) -> Opening {
        let info = RegionInfo::new("t".parse().expect("a name"), Bytes::new(), Bytes::new(), RegionId(1));
        Opening {
            info: info.expect("a region"),
            table: Arc::clone(table),
            files: Arc::new(base.clone()),
            folder: FileName::new("data/default/t/r"),
            log: Arc::clone(log),
            cache: Arc::new(Cache::with_bytes(1 << 20)),
            world: world.clone(),
            options: options.clone(),
            recovered: None,
        }
    }

    /// Makes another process take over the region. The previous owner writes no more.
    fn take_over(&mut self) {
        (self.log, self.owner) = Pair::own(&self.base, &self.world, &self.table, &self.options);
    }

    fn put(&self, row: &str, cells: &[(&str, i64, CellType, &[u8])]) {
        let applied =
            self.owner.apply(&[mutation(MutationKind::Put, row, cells)], ReadMode::Any).expect("serving");
        applied.pending.wait_blocking().expect("durable");
    }

    /// Makes sure that the markers of the last change are in the log, too.
    fn settle(&self) {
        self.log.roll().expect("alive");
    }

    fn janitor(&self) -> Janitor {
        Janitor::new(Arc::new(self.base.clone()), Arc::clone(&self.options.open_files))
    }
}

/// A follower, and its position in the log.
struct Replica {
    follower: RegionFollower,
    tail: LogTail,
    reader: Arc<LogReader>,
    opened: usize,
}

impl Replica {
    fn new(pair: &Pair) -> Replica {
        let (reader, tail) = Replica::look(pair);
        let follower =
            RegionFollower::open(Replica::opening(pair), &reader, tail.position()).expect("opened");
        let mut replica = Replica { follower, tail, reader, opened: 1 };
        replica.advance(pair);
        replica
    }

    fn look(pair: &Pair) -> (Arc<LogReader>, LogTail) {
        let place = growing(&pair.base, &pair.world);
        let reader = Arc::new(LogReader::open(&place, &folder()).expect("readable"));
        let tail = LogTail::after(&reader, folder());
        (reader, tail)
    }

    /// Returns the inputs for opening the region, with its own cache and its own list of open files.
    fn opening(pair: &Pair) -> Opening {
        let options = RegionOptions { open_files: Arc::default(), ..pair.options.clone() };
        // This process's own log gets no record.
        let files: Arc<dyn Files> = Arc::new(Memory::new());
        let (log, _) =
            wal::Log::open(pair.world.clone(), files, folder(), wal::Options::default()).expect("new");
        let opening = Pair::opening(&pair.base, &pair.world, &pair.table, &options, &Arc::new(log));
        Opening { files: Arc::new(super::read_only::WriteProtected::new(&pair.base)), ..opening }
    }

    fn step(&mut self) -> wal::Result<u64> {
        let region = self.follower.region().info().encoded_name().clone();
        let follower = &mut self.follower;
        self.tail.advance::<wal::Error>(|record| {
            if record.region == region.as_str().as_bytes() {
                follower.apply(record).expect("readable");
            }
            Ok(())
        })
    }

    /// Reads to the end of the log. Opens the region again whenever that is needed.
    fn advance(&mut self, pair: &Pair) {
        for _ in 0..20 {
            let stepped = self.step();
            if stepped.is_ok() && !self.follower.is_outdated() {
                self.follower.show();
                return;
            }
            if stepped.is_err() {
                (self.reader, self.tail) = Replica::look(pair);
            }
            let opening = self.follower.opening().clone();
            // The records that the tail has added to the reader are enough, unless a file of the log was deleted.
            let opened = RegionFollower::open(opening.clone(), &self.reader, self.tail.position());
            self.follower = opened.unwrap_or_else(|_| {
                let place = growing(&pair.base, &pair.world);
                self.reader = Arc::new(LogReader::open(&place, &folder()).expect("readable"));
                self.tail.note_in(Arc::clone(&self.reader));
                let position = self.tail.position();
                RegionFollower::open(opening, &self.reader, position).expect("nobody writes meanwhile")
            });
            self.opened += 1;
        }
        panic!("outdated each time");
    }

    fn all(&self) -> Vec<String> {
        all(self.follower.region())
    }
}

fn all(region: &Arc<Region>) -> Vec<String> {
    let mut scanner = region.scanner(Scan { max_versions: 10, ..Scan::default() }).expect("serving");
    let mut shown = Shown::default();
    while scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read").more {}
    shown.0
}

const Q: (&str, CellType) = ("f:q", CellType::Put);

#[test]
fn a_follower_sees_every_write_flush_and_compaction_without_being_opened_again() {
    let pair = Pair::new(1, RegionOptions { compaction_size_min: Some(0), ..RegionOptions::default() });
    // Without this holder, files of the log would be deleted before they were read.
    let _holder = pair.log.hold("replica").expect("durable");
    let mut replica = Replica::new(&pair);
    assert_eq!(replica.all(), [""; 0]);
    for round in 1..=4 {
        for row in ["a", "b", "c"] {
            pair.put(row, &[(Q.0, round, Q.1, b"v"), ("g:q", round, Q.1, b"w")]);
        }
        assert_ne!(replica.all(), all(&pair.owner), "the follower has not learned of it yet");
        replica.advance(&pair);
        assert_eq!(replica.all(), all(&pair.owner));
        let before = replica.follower.region().memstore_bytes();
        pair.owner.flush(FlushReason::Requested).expect("flushed");
        pair.settle();
        replica.advance(&pair);
        assert!(
            before > 0 && replica.follower.region().memstore_bytes() == 0,
            "what is in files left memory"
        );
        assert_eq!(replica.all(), all(&pair.owner));
    }
    pair.owner.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    pair.settle();
    replica.advance(&pair);
    assert_eq!(replica.all(), all(&pair.owner));
    let files = |region: &Region| region.file_names(&[]).expect("its families");
    assert_eq!(files(replica.follower.region()), files(&pair.owner));
    assert_eq!(replica.opened, 1);
}

#[test]
fn a_follower_goes_on_under_the_next_owner_and_sees_no_write_that_was_not_acknowledged() {
    let mut pair = Pair::new(2, RegionOptions::default());
    let mut replica = Replica::new(&pair);
    pair.put("a", &[(Q.0, 1, Q.1, b"v")]);
    replica.advance(&pair);
    let before = Arc::clone(&pair.owner);
    let _holder = pair.log.hold("replica").expect("durable");
    // The owner dies before the log has the marker of this flush. The next owner's marker names the files that it has
    // found.
    before.flush(FlushReason::Requested).expect("flushed");
    pair.take_over();
    let late = before.apply(&[mutation(MutationKind::Put, "z", &[(Q.0, 1, Q.1, b"v")])], ReadMode::Any);
    let refused = late.and_then(|applied| applied.pending.wait_blocking());
    assert!(matches!(refused, Err(Error::Aborted(_))), "{refused:?}");
    pair.put("b", &[(Q.0, 1, Q.1, b"v")]);
    replica.advance(&pair);
    assert_eq!(replica.all(), ["a/f:q@1=v", "b/f:q@1=v"]);
    assert_eq!(replica.opened, 1, "nothing has to be read again");
    let files = |region: &Region| region.file_names(&[]).expect("its families");
    assert_eq!(files(replica.follower.region()), files(&pair.owner));
    assert_eq!(files(&pair.owner).len(), 1);
}

#[test]
fn a_write_of_two_families_is_seen_whole_when_the_files_are_ahead_of_the_log() {
    let pair = Pair::new(3, RegionOptions::default());
    let (reader, tail) = Replica::look(&pair);
    // The follower has read the log up to here; the files below are newer.
    pair.put("a", &[("f:q", 1, Q.1, b"v"), ("g:q", 1, Q.1, b"v")]);
    pair.owner.flush_families(&["g".into()]).expect("flushed");
    pair.put("a", &[("f:q", 2, Q.1, b"w"), ("g:q", 2, Q.1, b"w")]);
    pair.settle();
    let follower = RegionFollower::open(Replica::opening(&pair), &reader, tail.position()).expect("opened");
    assert_eq!(all(follower.region()), ["a/g:q@1=v"], "half a row: it must not be served yet");
    let mut replica = Replica { follower, tail, reader, opened: 1 };
    replica.advance(&pair);
    assert_eq!(replica.all(), all(&pair.owner));
}

#[test]
fn a_file_that_was_deleted_before_it_was_opened_is_no_missing_row() {
    let pair = Pair::new(4, RegionOptions { compaction_size_min: Some(0), ..RegionOptions::default() });
    let mut replica = Replica::new(&pair);
    for round in 1..=3 {
        pair.put("a", &[(Q.0, round, Q.1, b"v")]);
        pair.put(&format!("row{round}"), &[(Q.0, round, Q.1, b"v")]);
        pair.owner.flush(FlushReason::Requested).expect("flushed");
    }
    pair.owner.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    pair.owner.clean(&pair.janitor(), Search::Folders).expect("collected");
    pair.settle();
    replica.advance(&pair);
    assert_eq!(replica.all(), all(&pair.owner));
    assert_eq!(replica.opened, 2, "the first file named by the log is gone");
}

/// Loads a file with one row into family `f`.
fn load(pair: &Pair, number: i64, row: &str) {
    let name = FileName::new(format!("job/f/{number}"));
    super::bulk_load::write_file(&pair.base, name.as_str(), Q.0, number, &[row]);
    let (path, file) = (name.to_string(), pair.base.open(&name));
    let file = BulkFile { family: "f".into(), path, file, within: Some(name) };
    let load = BulkLoad { files: vec![file], assign_sequence: true, copy: false, token: None };
    let loaded = pair.owner.bulk_load(&load).expect("loaded");
    assert!(matches!(loaded, BulkLoadOutcome::Loaded { .. }), "{loaded:?}");
}

#[test]
fn a_follower_sees_a_bulk_load_that_was_acknowledged_before_it_looked() {
    let pair = Pair::new(3, RegionOptions::default());
    let mut replica = Replica::new(&pair);
    for (number, row) in [(1, "a"), (2, "b")] {
        load(&pair, number, row);
        replica.advance(&pair);
        assert_eq!(replica.all(), all(&pair.owner));
        assert_eq!(replica.all().len(), number as usize);
    }
}

#[test]
fn followers_agree_with_their_owner_after_any_acts() {
    let reopened = AtomicUsize::new(0);
    for seed in 0..60 {
        let options = RegionOptions {
            compaction_size_min: Some(0),
            in_memory_flush_factor: 2.0 * 1_000.0 / RegionOptions::default().flush_size as f64,
            flush_keeps: 1.0,
            flush_keeps_gain_min: 0.0,
            ..RegionOptions::default()
        };
        let mut pair = Pair::new(seed, options);
        let random = World::simulated(seed ^ 0x5eed, WallTime(0));
        let one_in = |count: u64| random.random().is_multiple_of(count);
        let mut replica = Replica::new(&pair);
        for number in 0..150_i64 {
            let row = format!("row{}", random.random() % 12);
            let mut cells = vec![(Q.0, number, Q.1, &b"value"[..])];
            if one_in(2) {
                cells.push(("g:q", number, Q.1, b"of another family"));
            }
            match random.random() % 40 {
                0..=24 => pair.put(&row, &cells),
                25..=28 => {
                    let marker = [(Q.0, number, CellType::DeleteColumn, &b""[..])];
                    let delete = mutation(MutationKind::Delete, &row, &marker);
                    let applied = pair.owner.apply(&[delete], ReadMode::Any).expect("serving");
                    applied.pending.wait_blocking().expect("durable");
                }
                29 => drop(pair.owner.flush(FlushReason::Requested).expect("flushed")),
                30 => drop(pair.owner.flush(FlushReason::MemstoreSize).expect("flushed")),
                31 => drop(pair.owner.flush_families(&["g".into()]).expect("flushed")),
                32 => pair.owner.compact_memory(1.0),
                33 => {
                    let request = CompactionRequest { major: one_in(2), families: Vec::new() };
                    pair.owner.compact(&request).expect("compacted");
                }
                34 => drop(pair.owner.clean(&pair.janitor(), Search::Folders).expect("collected")),
                35 => pair.settle(),
                38 if one_in(4) => load(&pair, number, &row),
                36 if one_in(4) => pair.take_over(),
                37 if one_in(4) => {
                    pair.owner.truncate().expect("truncated");
                    // In a server, the master's next write to its catalog syncs the marker.
                    pair.settle();
                }
                _ => {
                    if one_in(3) {
                        pair.settle();
                    }
                    replica.advance(&pair);
                    let (theirs, own) = (all(&pair.owner), replica.all());
                    assert_eq!(own, theirs, "seed {seed}, act {number}");
                }
            }
            if one_in(50) {
                replica = Replica::new(&pair);
            }
            if one_in(30) {
                replica.follower.give_up();
            }
        }
        pair.settle();
        replica.advance(&pair);
        assert_eq!(replica.all(), all(&pair.owner), "seed {seed}");
        reopened.fetch_add(replica.opened - 1, Ordering::Relaxed);
    }
    assert!(reopened.into_inner() > 0, "some had to be opened again");
}
