//! Tests that take over a log while its owner still writes. The owner must acknowledge no record that the new owner
//! does not find.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use storage::{Capabilities, Local, Memory};

use super::tests::{edit, in_memory, replayed};
use super::*;
use crate::seal;

fn folder() -> FileName {
    FileName::new("WALs")
}

fn options(owner: u64) -> Options {
    // Small files, so that most takeovers happen near a roll, and space is reused.
    Options {
        owner: format!("owner-{owner}"),
        file_bytes_max: 600,
        idle_write: Duration::from_secs(3_600),
        ..Options::default()
    }
}

/// Appends records until another owner takes the log, and returns the error of the write that failed. Stores the
/// largest acknowledged sequence id in `acknowledged`, and the largest flushed one in `flushed`.
fn write_until_taken(log: &Log, first: u64, acknowledged: &AtomicU64, flushed: &AtomicU64) -> Error {
    let mut sequence = first;
    loop {
        let level = if sequence.is_multiple_of(3) { Level::Disk } else { Level::Os };
        let written = log
            .append(&edit("a", sequence, &[sequence as u8; 60]))
            .and_then(|ticket| log.sync_blocking(ticket, level));
        match written {
            Ok(()) => acknowledged.store(sequence, Ordering::SeqCst),
            Err(error) => return error,
        }
        if sequence.is_multiple_of(16) {
            // Files are removed and reused while the next owner takes over.
            flushed.store(sequence - 8, Ordering::SeqCst);
            log.flushed(b"a", SequenceId(sequence - 8));
        }
        sequence += 1;
    }
}

/// Each owner takes the log from the previous one, which continues to write until it gets an error.
fn race(files: &Arc<dyn Files>, rounds: u64) {
    let world = World::real();
    let open = |owner| Log::open(world.clone(), Arc::clone(files), folder(), options(owner));
    let (mut log, _) = open(0).expect("new");
    let mut last = 0;
    let mut ends = [0; 2];
    for round in 1..=rounds {
        let (acknowledged, flushed) = (AtomicU64::new(last), AtomicU64::new(last));
        let (next, recovered) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_until_taken(&log, last + 1, &acknowledged, &flushed));
            // The takeover happens after a random number of writes.
            let begun = world.random() % 30;
            while acknowledged.load(Ordering::SeqCst) < last + begun && !writer.is_finished() {
                std::thread::yield_now();
            }
            let before = acknowledged.load(Ordering::SeqCst);
            let next = open(round).expect("taken");
            let error = writer.join().expect("no panic");
            let is_told = matches!(&error, Error::Fenced { epoch, by } if *epoch == round + 1 && *by == format!("owner-{round}"));
            assert!(is_told, "round {round}: {error}");
            ends[usize::from(acknowledged.load(Ordering::SeqCst) > before)] += 1;
            next
        });
        let mut found: Vec<u64> =
            replayed(&recovered, "a").into_iter().map(|(sequence, _)| sequence).collect();
        let (acknowledged, flushed) = (acknowledged.into_inner(), flushed.into_inner().max(last));
        // Files that have only flushed records may be removed in any order, so these records are not compared.
        found.retain(|sequence| *sequence > flushed);
        let newest = flushed + found.len() as u64;
        assert_eq!(found, (flushed + 1..=newest).collect::<Vec<_>>(), "round {round}: a gap");
        assert!(newest >= acknowledged, "round {round}: {acknowledged} acknowledged, {newest} found");
        assert!(newest <= acknowledged + 1, "round {round}: {newest} was never written");
        // The old owner cannot write any more.
        assert!(matches!(log.append(&edit("a", 1, b"late")), Err(Error::Fenced { .. })));
        log = next;
        log.flushed(b"a", SequenceId(newest));
        log.tidy();
        last = newest;
    }
    assert!(ends[1] > rounds / 100, "the two did meet: {ends:?}");
}

#[test]
fn in_memory_nothing_is_acknowledged_after_the_seal_that_its_reader_does_not_find() {
    race(&(Arc::new(Memory::new()) as Arc<dyn Files>), 10_000);
}

/// Runs the race on storage like an object store, where a file grows by parts that appear whole.
#[test]
fn in_growing_files_nothing_is_acknowledged_after_the_seal_that_its_reader_does_not_find() {
    let store = Arc::new(Memory::with(Capabilities::NONE));
    let files = storage::Segmented::new(store, World::real(), Duration::from_secs(1));
    race(&(Arc::new(files) as Arc<dyn Files>), 400);
}

/// A store whose conditional puts take random time, so that later ones happen before earlier ones.
struct Shuffling(Memory);

impl storage::Overlay for Shuffling {
    fn below(&self) -> &dyn Files {
        &self.0
    }

    fn swap(
        &self,
        name: &FileName,
        expected: Option<&storage::Version>,
        new: &[u8],
    ) -> storage::Result<storage::Version> {
        World::real().pause(Duration::from_micros(World::real().random() % 40_000));
        self.0.swap(name, expected, new)
    }
}

/// Many writers wait at the same time, so the owner has several parts of its file under way when it loses the log.
#[test]
fn with_syncs_side_by_side_the_next_owner_finds_everything_that_was_acknowledged() {
    let world = World::real();
    let mut most_at_once = 0;
    for round in 0..25 {
        let store = Arc::new(Shuffling(Memory::with(Capabilities::NONE)));
        let files: Arc<dyn Files> =
            Arc::new(storage::Segmented::new(store, world.clone(), Duration::from_secs(1)));
        let open = |owner| {
            let options = Options { file_bytes_max: 8_000, ..options(owner) };
            Log::open(world.clone(), Arc::clone(&files), folder(), options)
        };
        let (log, _) = open(0).expect("new");
        let (next, acknowledged) = (Mutex::new(0), AtomicU64::new(0));
        let recovered = std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| {
                    loop {
                        let appended = {
                            let mut sequence = next.lock();
                            *sequence += 1;
                            log.append(&edit("a", *sequence, &[1; 60])).map(|ticket| (*sequence, ticket))
                        };
                        let Ok((sequence, ticket)) = appended else { return };
                        let Ok(()) = log.sync_blocking(ticket, Level::Disk) else { return };
                        acknowledged.fetch_max(sequence, Ordering::SeqCst);
                    }
                });
            }
            while acknowledged.load(Ordering::SeqCst) < round * 4 {
                most_at_once = most_at_once.max(log.shared.front.lock().syncs.count());
                std::thread::yield_now();
            }
            open(1).expect("taken").1
        });
        let found: Vec<u64> = replayed(&recovered, "a").into_iter().map(|(sequence, _)| sequence).collect();
        assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>(), "round {round}: a gap");
        let acknowledged = acknowledged.into_inner();
        assert!(found.len() as u64 >= acknowledged, "round {round}: {acknowledged} acknowledged, {found:?}");
    }
    assert!(most_at_once > 2, "{most_at_once} syncs at most were under way");
}

/// Storage in which another process deletes a file of the log when the second part of the file is read for the first
/// time.
struct Vanishing {
    store: Memory,
    armed: AtomicBool,
}

impl storage::Overlay for Vanishing {
    fn below(&self) -> &dyn Files {
        &self.store
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> storage::Result<storage::Object> {
        if name.as_str().ends_with("/00000001.part") && self.armed.swap(false, Ordering::SeqCst) {
            let file = name.parent().expect("a folder");
            for entry in self.store.list(&file)? {
                self.store.delete(&entry.name)?;
            }
        }
        self.store.load(name, bytes_max)
    }
}

/// A takeover's swap of the object `OWNER` takes effect and reports failure, and the process ends. The same is tried
/// for its other calls.
#[test]
fn a_takeover_whose_calls_happen_and_report_failure_loses_nothing() {
    let world = World::real();
    let open =
        |place: &Memory, owner| Log::open(world.clone(), Arc::new(place.clone()), folder(), options(owner));
    let write = |log: &Log, sequence| {
        let ticket = log.append(&edit("a", sequence, &[1; 60]))?;
        log.sync_blocking(ticket, Level::Disk)
    };
    let overcome = storage::at_every_false_alarm(
        |place| {
            let (log, _) = open(place, 0).expect("new");
            (1..=3).for_each(|sequence| write(&log, sequence).expect("durable"));
        },
        |place| open(place, 1).and_then(|(log, _)| write(&log, 4)).is_ok(),
        |place, succeeded| {
            let (log, recovered) = open(place, 2).expect("the log is there");
            let found: Vec<u64> =
                replayed(&recovered, "a").into_iter().map(|(sequence, _)| sequence).collect();
            let acknowledged = if succeeded { 4 } else { 3 };
            assert!(found.len() >= acknowledged, "{acknowledged} were acknowledged, {found:?} found");
            assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>());
            write(&log, 5).expect("it goes on");
        },
    );
    assert!(overcome > 0, "a takeover survives some of them");
}

#[test]
fn a_file_that_its_owner_gives_up_while_the_next_one_reads_it_is_passed_over() {
    let (world, store) = (World::real(), Memory::with(Capabilities::NONE));
    let open = |store: Arc<dyn Files>, owner| {
        let files = storage::Segmented::new(store, world.clone(), Duration::ZERO);
        Log::open(world.clone(), Arc::new(files), folder(), options(owner))
    };
    let (log, _) = open(Arc::new(store.clone()), 0).expect("new");
    for sequence in 1..=3 {
        let ticket = log.append(&edit("a", sequence, &[1; 60])).expect("alive");
        log.sync_blocking(ticket, Level::Disk).expect("durable");
    }
    let vanishing = Arc::new(Vanishing { store, armed: AtomicBool::new(true) });
    let (_next, recovered) = open(Arc::clone(&vanishing) as Arc<dyn Files>, 1).expect("taken");
    assert!(!vanishing.armed.load(Ordering::SeqCst), "a second part was read");
    assert!(recovered.is_empty());
}

/// Storage whose listings show the state before the log was begun.
struct OldListings(Memory);

impl storage::Overlay for OldListings {
    fn below(&self) -> &dyn Files {
        &self.0
    }

    fn list(&self, _folder: &FileName) -> storage::Result<Vec<storage::Entry>> {
        Ok(Vec::new())
    }
}

#[test]
fn a_log_is_found_whole_where_no_listing_has_its_files() {
    let (world, store) = (World::real(), Memory::with(Capabilities::NONE));
    let open = |store: Memory, owner| {
        let files = storage::Segmented::new(Arc::new(OldListings(store)), world.clone(), Duration::ZERO);
        Log::open(world.clone(), Arc::new(files), folder(), options(owner)).expect("taken")
    };
    let (log, _) = open(store.clone(), 0);
    for sequence in 1..=60 {
        let ticket = log.append(&edit("a", sequence, &[1; 60])).expect("alive");
        log.sync_blocking(ticket, Level::Disk).expect("durable");
    }
    assert!(log.file_number() > 5, "files were begun: {}", log.file_number());
    let (_next, recovered) = open(store.kill(), 1);
    let found: Vec<u64> = replayed(&recovered, "a").into_iter().map(|(sequence, _)| sequence).collect();
    assert_eq!(found, (1..=60).collect::<Vec<_>>());
}

#[test]
fn a_start_does_not_look_for_the_files_of_all_earlier_owners() {
    let store = Memory::with(Capabilities::NONE);
    let files: Arc<dyn Files> =
        Arc::new(storage::Segmented::new(Arc::new(store), World::real(), Duration::ZERO));
    for owner in 0..6 {
        let (log, _) = Log::open(World::real(), Arc::clone(&files), folder(), options(owner)).expect("taken");
        let ticket = log.append(&edit("a", owner + 1, &[1; 60])).expect("alive");
        log.sync_blocking(ticket, Level::Disk).expect("durable");
        log.flushed(b"a", SequenceId(owner + 1));
        log.close().expect("alive");
    }
    let noted = crate::owner::noted_files(&*files, &folder()).expect("read").expect("listings may be stale");
    assert_eq!(noted, crate::owner::NotedFiles { first: 5, last: 6 });
}

/// Storage of which another process takes over the log before the first listing by its first owner.
struct Overtaken {
    store: Memory,
    takeover: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl storage::Overlay for Overtaken {
    fn below(&self) -> &dyn Files {
        &self.store
    }

    fn list(&self, listed: &FileName) -> storage::Result<Vec<storage::Entry>> {
        if self.store.load(&folder().join(crate::owner::OWNER), 1 << 10).is_ok()
            && let Some(takeover) = self.takeover.lock().take()
        {
            takeover();
        }
        self.store.list(listed)
    }
}

/// A process hangs after it has replaced the object `OWNER` and before it lists the files to seal.
#[test]
fn an_owner_that_was_replaced_before_it_seals_the_files_does_not_seal_those_of_its_successor() {
    let (world, store) = (World::real(), Memory::with(Capabilities::NONE));
    let later = Arc::new(Mutex::new(None));
    let takeover = {
        let (world, store, later) = (world.clone(), store.clone(), Arc::clone(&later));
        move || {
            let files = storage::Segmented::new(Arc::new(store), world.clone(), Duration::ZERO);
            let opened = Log::open(world, Arc::new(files), folder(), options(1));
            *later.lock() = Some(opened.expect("taken").0);
        }
    };
    let overtaken = Overtaken { store, takeover: Mutex::new(Some(Box::new(takeover))) };
    let files = storage::Segmented::new(Arc::new(overtaken), world.clone(), Duration::ZERO);
    let error = Log::open(world, Arc::new(files), folder(), options(0)).expect_err("it was replaced");
    assert!(matches!(&error, Error::Fenced { epoch: 2, by } if by == "owner-1"), "{error}");
    let later = later.lock().take().expect("the other process has it");
    let ticket = later.append(&edit("a", 1, &[1; 60])).expect("alive");
    later.sync_blocking(ticket, Level::Disk).expect("its file is not sealed");
}

/// Returns the number of rounds for storage on a disk. `BELLOWS_WAL_RACES=10000` sets it to the number used in memory,
/// which takes minutes because of the syncs.
fn rounds_on_disk() -> u64 {
    std::env::var("BELLOWS_WAL_RACES").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test's own folder")]
fn on_a_disk_nothing_is_acknowledged_after_the_seal_that_its_reader_does_not_find() {
    let root = std::env::temp_dir().join(format!("bellows-wal-seal-{:x}", World::real().random()));
    race(&(Arc::new(Local::open(&root).expect("free")) as Arc<dyn Files>), rounds_on_disk());
    std::fs::remove_dir_all(root).expect("the test's own folder");
}

#[test]
fn a_sealed_log_is_readable_and_its_owner_fails_at_its_next_operation() {
    let acts: [fn(&Log) -> Result<()>; 5] = [
        |log| log.taken_over().map_or(Ok(()), Err),
        |log| log.append(&edit("a", 3, b"late")).and_then(|ticket| log.sync_blocking(ticket, Level::Os)),
        |log| log.append(&edit("a", 3, b"late")).and_then(|ticket| log.sync_blocking(ticket, Level::Disk)),
        |log| log.roll(),
        |log| log.close(),
    ];
    for act in acts {
        let place = Memory::new();
        let files: Arc<dyn Files> = Arc::new(place.clone());
        let (log, _) = in_memory(&place, Options::default());
        let ticket = log.append(&edit("a", 1, b"one")).expect("alive");
        log.sync_blocking(ticket, Level::Os).expect("alive");
        let waiting = log.append(&edit("a", 2, b"not handed over")).expect("alive");
        let sealed = seal(&World::real(), &files, &folder(), "the master").expect("sealed");
        assert_eq!(replayed(&sealed.reader, "a"), [(1, b"one".to_vec())]);
        assert_eq!(sealed.epoch, 2);
        // The write happened before the seal, so the log may still acknowledge it: the seal's reader finds it.
        log.sync_blocking(ticket, Level::Os).expect("it was written before");
        let error = act(&log).expect_err("sealed");
        assert!(matches!(&error, Error::Fenced { epoch: 2, by } if by == "the master"), "{error}");
        log.sync_blocking(waiting, Level::Os).expect_err("it is not found");
        assert!(matches!(log.failure(), Some(Error::Fenced { .. })));
        // Sealing the log again changes nothing, and the next owner finds the same records.
        let again = seal(&World::real(), &files, &folder(), "the next master").expect("sealed");
        assert_eq!((replayed(&again.reader, "a").len(), again.epoch), (1, 3));
        let (log, recovered) = in_memory(&place, Options::default());
        assert_eq!((replayed(&recovered, "a").len(), log.epoch()), (1, 4));
        assert_eq!(log.previous_owner(), Some("the next master"));
    }
}

#[test]
fn an_owner_that_loses_its_log_while_it_makes_a_spare_removes_no_file_of_the_next() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options(0));
    for sequence in 1..=40 {
        let ticket = log.append(&edit("a", sequence, &[1; 60])).expect("alive");
        log.sync_blocking(ticket, Level::Os).expect("alive");
    }
    // The next owner takes over after this log has checked its ownership and before it makes a spare, and removes the
    // old file.
    let (next, recovered) = in_memory(&place, options(1));
    let number = next.file_number();
    log.shared.back().number_tried = number - 1;
    assert!(!log.shared.make_spare(&super::back::file_name(&folder(), 999)), "the old file is gone");
    let ticket = next.append(&edit("a", 41, b"in the file of that number")).expect("alive");
    next.sync_blocking(ticket, Level::Disk).expect("alive");
    drop((log, next, recovered));
    let (_log, recovered) = in_memory(&place, options(2));
    assert_eq!(replayed(&recovered, "a").len(), 41);
}

#[test]
fn a_seal_survives_the_loss_of_power() {
    for seed in 0..20 {
        let place = Memory::new();
        let files: Arc<dyn Files> = Arc::new(place.clone());
        let (log, _) = in_memory(&place, Options::default());
        let ticket = log.append(&edit("a", 1, b"one")).expect("alive");
        log.sync_blocking(ticket, Level::Os).expect("alive");
        let sealed = seal(&World::real(), &files, &folder(), "the master").expect("sealed");
        assert_eq!(replayed(&sealed.reader, "a").len(), 1);
        let (log, recovered) = in_memory(&place.crash(seed), Options::default());
        assert_eq!((replayed(&recovered, "a").len(), log.epoch()), (1, 3), "seed {seed}");
    }
}

#[test]
fn a_damaged_object_of_the_owner_is_replaced_and_the_previous_owner_fails() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, Options::default());
    let ticket = log.append(&edit("a", 1, b"one")).expect("alive");
    log.sync_blocking(ticket, Level::Disk).expect("alive");
    place.damage(&folder().join(crate::owner::OWNER), |bytes| bytes[3] ^= 1);
    let (next, recovered) = in_memory(&place, Options::default());
    assert_eq!(
        (replayed(&recovered, "a").len(), next.epoch()),
        (1, 2),
        "the files' headers have an epoch, too"
    );
    assert!(matches!(log.roll(), Err(Error::Fenced { epoch: 2, .. })));
    next.roll().expect("alive");
}
