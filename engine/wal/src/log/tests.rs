//! Tests of the log over real files: acknowledged records are found again, and damage is reported.
#![expect(clippy::disallowed_methods, reason = "damage is done to real files behind the log's back")]

use std::path::PathBuf;
use std::time::Duration;

use env::{WallTime, World};
use storage::memory::Fault;
use storage::{Capabilities, Capability, FileWriter, Memory, Outcome};

use super::back::file_name;
use super::*;
use crate::commit::Durable;
use crate::format::{Header, Kind, VERSION_OVER};

/// A folder for one test, which is removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Place {
        let unique = World::real().random();
        Place(std::env::temp_dir().join(format!("bellows-wal-{test}-{unique:x}")))
    }

    fn open(&self, options: Options) -> Result<(Log, LogReader)> {
        let files: Arc<dyn Files> = Arc::new(storage::Local::open(&self.0).expect("free"));
        Log::open(World::real(), files, FileName::new("WALs"), options)
    }

    fn file(&self, number: u64) -> PathBuf {
        self.0.join(file_name(&FileName::new("WALs"), number).as_str())
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(self.file(number)).expect("readable");
        change(&mut bytes);
        std::fs::write(self.file(number), bytes).expect("writable");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("the test's own folder");
    }
}

pub(super) fn edit<'a>(region: &'a str, sequence: u64, cells: &'a [u8]) -> Record<'a> {
    Record {
        kind: Kind::Edit,
        region: region.as_bytes(),
        table: b"t",
        sequence: SequenceId(sequence),
        time: WallTime(5),
        nonce: None,
        cells,
    }
}

pub(super) fn replayed(recovered: &LogReader, region: &str) -> Vec<(u64, Vec<u8>)> {
    let mut seen = Vec::new();
    recovered
        .replay::<Error>(region.as_bytes(), |record| {
            seen.push((record.sequence.0, record.cells.to_vec()));
            Ok(())
        })
        .expect("readable");
    seen
}

#[test]
fn synced_records_are_replayed_by_region_in_order() {
    let place = Place::new("replay");
    {
        let (log, recovered) = place.open(Options::default()).expect("new");
        assert!(recovered.is_empty());
        for sequence in 1..=100 {
            log.append(&edit("a", sequence, b"for a")).expect("alive");
            let ticket = log.append(&edit("b", sequence, &[7; 300])).expect("alive");
            let level = if sequence % 2 == 0 { Level::Disk } else { Level::Os };
            log.sync_blocking(ticket, level).expect("alive");
        }
    }
    let (log, recovered) = place.open(Options::default()).expect("again");
    assert_eq!(log.epoch(), 2);
    assert_eq!(recovered.torn_tails(), [], "nothing was torn");
    assert_eq!(replayed(&recovered, "a"), (1..=100).map(|n| (n, b"for a".to_vec())).collect::<Vec<_>>());
    assert_eq!(replayed(&recovered, "b").len(), 100);
    assert_eq!(replayed(&recovered, "c"), []);
}

#[test]
fn a_torn_tail_is_cut_wherever_it_is_torn() {
    let place = Place::new("torn");
    let (first, whole) = {
        let (log, _) = place.open(Options::default()).expect("new");
        let ticket = log.append(&edit("a", 1, b"one")).expect("alive");
        log.sync_blocking(ticket, Level::Disk).expect("alive");
        let first = std::fs::read(place.file(1)).expect("readable").len();
        let ticket = log.append(&edit("a", 2, b"two")).expect("alive");
        log.sync_blocking(ticket, Level::Os).expect("alive");
        (first, std::fs::read(place.file(1)).expect("readable"))
    };
    for cut in first..whole.len() {
        for rubbish in [0usize, 40] {
            place.change(1, |bytes| {
                *bytes = whole[..cut].to_vec();
                bytes.resize(cut + rubbish, 0);
            });
            let (log, recovered) = place.open(Options::default()).expect("a tail may be torn");
            assert_eq!(replayed(&recovered, "a"), [(1, b"one".to_vec())], "cut at {cut}");
            assert_eq!(
                recovered.torn_tails().len(),
                usize::from(cut + rubbish > first),
                "the cut at {cut} is reported"
            );
            drop(log);
            // `open` has created an empty file. Remove it, so that the next round finds the same files.
            for number in 2..=3 {
                let _absent = std::fs::remove_file(place.file(number));
            }
        }
    }
}

#[test]
fn a_damaged_middle_is_an_error_that_names_file_and_offset() {
    let place = Place::new("middle");
    {
        let (log, _) = place.open(Options::default()).expect("new");
        for sequence in 1..=3 {
            let ticket = log.append(&edit("a", sequence, b"some cells")).expect("alive");
            log.sync_blocking(ticket, Level::Disk).expect("alive");
        }
    }
    let whole = std::fs::read(place.file(1)).expect("readable");
    let batch = (whole.len() - HEADER_LENGTH) / 3;
    for at in HEADER_LENGTH..HEADER_LENGTH + 2 * batch {
        place.change(1, |bytes| {
            bytes.clone_from(&whole);
            bytes[at] ^= 0x10;
        });
        let error = place.open(Options::default()).expect_err("damage is no data");
        let Error::Corrupt { file, offset, .. } = &error else { panic!("byte {at}: {error}") };
        assert_eq!(file.last(), "00000000000000000001.wal");
        let batch_at = HEADER_LENGTH + (at - HEADER_LENGTH) / batch * batch;
        assert_eq!(*offset, batch_at as u64, "byte {at}: {error}");
    }
}

#[test]
fn in_batches_that_were_not_synced_a_gap_is_a_torn_tail_and_a_flipped_bit_is_damage() {
    let place = Memory::new();
    {
        let (log, _) = in_memory(&place, Options::default());
        for sequence in 1..=3 {
            let ticket = log.append(&edit("a", sequence, &[7; 1_500])).expect("alive");
            log.sync_blocking(ticket, Level::Os).expect("alive");
        }
    }
    let name = file_name(&FileName::new("WALs"), 1);
    let whole = place.read(&name, 10_000).expect("there");
    let batch = (whole.len() - HEADER_LENGTH) / 3;
    let open = |change: &dyn Fn(&mut Vec<u8>)| {
        let after = place.kill();
        after.damage(&name, |bytes| {
            bytes.clone_from(&whole);
            change(bytes);
        });
        Log::open(World::real(), Arc::new(after), FileName::new("WALs"), Options::default())
            .map(|(_log, recovered)| (replayed(&recovered, "a").len(), recovered.torn_tails().len()))
    };
    for at in (HEADER_LENGTH..HEADER_LENGTH + 2 * batch).step_by(7) {
        let error = open(&|bytes| bytes[at] ^= 0x10).expect_err("damage is no data");
        let Error::Corrupt { offset, .. } = &error else { panic!("byte {at}: {error}") };
        assert_eq!(*offset as usize, HEADER_LENGTH + (at - HEADER_LENGTH) / batch * batch, "{error}");
    }
    // A sector of the second batch was not written when the power failed.
    let hole = (HEADER_LENGTH + batch).next_multiple_of(512);
    assert_eq!(open(&|bytes| bytes[hole..hole + 512].fill(0)).expect("a torn tail"), (1, 1));
    // No batch follows the last one, so its damage cannot be told from a torn tail.
    assert_eq!(open(&|bytes| *bytes.last_mut().expect("long") ^= 1).expect("a torn tail"), (2, 1));
}

#[test]
fn damage_in_a_finished_file_is_not_taken_for_a_torn_tail() {
    let place = Place::new("finished");
    {
        let (log, _) = place.open(Options::default()).expect("new");
        log.append(&edit("a", 1, b"one")).expect("alive");
        log.close().expect("alive");
        assert!(
            log.append(&edit("a", 2, b"two"))
                .and_then(|ticket| log.sync_blocking(ticket, Level::Os))
                .is_err()
        );
    }
    place.change(1, |bytes| bytes[HEADER_LENGTH + 20] ^= 1);
    // The index of the file is intact. So other regions can be replayed, and the region with damaged records cannot.
    let (_log, recovered) = place.open(Options::default()).expect("the index is sound");
    let replay = recovered.replay::<Error>(b"a", |_| Ok(()));
    assert!(matches!(replay, Err(Error::Corrupt { offset: 32, .. })), "{replay:?}");
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let place = Place::new("newer");
    drop(place.open(Options::default()).expect("new"));
    place.change(1, |bytes| {
        bytes.clear();
        bytes.extend_from_slice(&Header { version: VERSION_OVER + 1, epoch: 1, number: 1 }.to_bytes());
    });
    let error = place.open(Options::default()).expect_err("refused");
    assert!(matches!(error, Error::Newer { found: 6, known: 5, .. }), "{error}");
}

#[test]
fn files_are_deleted_when_no_region_needs_them() {
    let place = Place::new("forget");
    let options = Options { file_bytes_max: 1_000, files_min: 3, ..Options::default() };
    let (log, _) = place.open(options).expect("new");
    for sequence in 1..=20 {
        let region = if sequence == 1 { "slow" } else { "a" };
        let ticket = log.append(&edit(region, sequence, &[1; 400])).expect("alive");
        log.sync_blocking(ticket, Level::Os).expect("alive");
    }
    let (before, _) = log.size();
    assert!(before > 4, "{before} files");
    assert!(log.has_grown() && !log.has_grown());
    let mut holding = log.regions_holding_back(0);
    holding.sort();
    assert_eq!(holding, [Box::from(&b"a"[..]), Box::from(&b"slow"[..])]);
    // The log is allowed twice the bytes of the memstores; here it has more.
    assert_eq!(log.regions_holding_back(500 * before as u64).len(), 2);
    assert_eq!(log.regions_holding_back(500 * before as u64 + 500).len(), 0);
    assert_eq!(log.regions_holding_back(u64::MAX).len(), 0, "fewer than the greatest number");
    log.flushed(b"a", SequenceId(20));
    assert_eq!(log.size().0, 2, "the oldest is kept by the slow region");
    assert_eq!(log.regions_holding_back(0), Vec::<Box<[u8]>>::new(), "few enough files");
    log.flushed(b"slow", SequenceId(1));
    assert_eq!(log.size().0, 1, "the current one");
    drop(log);
    let (_, recovered) = place.open(Options::default()).expect("again");
    assert!(replayed(&recovered, "slow").is_empty());
}

#[test]
fn files_are_kept_for_a_region_that_is_opened_after_it_was_forgotten() {
    let place = Place::new("remembered");
    let options = Options { file_bytes_max: 1_000, ..Options::default() };
    let (log, _) = place.open(options).expect("new");
    let append = |sequence| {
        let ticket = log.append(&edit("a", sequence, &[1; 400])).expect("alive");
        log.sync_blocking(ticket, Level::Os).expect("alive");
    };
    append(7);
    log.forget_region(b"a");
    assert_eq!(log.newest_edit(b"a"), Some(SequenceId(7)));
    log.remember_region(b"a");
    (8..=12).for_each(append);
    log.tidy();
    let (files, _) = log.size();
    assert!(files > 2, "{files} files");
    log.flushed(b"a", SequenceId(12));
    assert_eq!(log.size().0, 1, "the current one");
    log.forget_region(b"a");
    (13..=20).for_each(append);
    assert!(log.size().0 <= 2, "none is kept for a forgotten region");
    log.remember_region(b"never known");
    log.forget_region(b"never known");
    log.remember_region(b"never known");
    assert_eq!(log.newest_edit(b"never known"), None);
}

#[test]
fn a_record_over_the_limit_is_refused_whole() {
    let place = Place::new("limit");
    let (log, _) = place.open(Options { record_bytes_max: 100, ..Options::default() }).expect("new");
    let error = log.append(&edit("a", 1, &[0; 100])).expect_err("refused");
    assert!(matches!(error, Error::TooLarge { limit: 100, .. }), "{error}");
    let words = error.to_string();
    assert!(words.contains("smaller requests") && !words.contains("bellows."), "{words}");
    let ticket = log.append(&edit("a", 1, b"small")).expect("the log lives on");
    log.sync_blocking(ticket, Level::Disk).expect("alive");
}

#[test]
fn many_writers_at_both_levels_lose_nothing() {
    let place = Place::new("many");
    let options = Options { file_bytes_max: 20_000, buffer_bytes_max: 2_000, ..Options::default() };
    {
        let (log, _) = place.open(options.clone()).expect("new");
        std::thread::scope(|scope| {
            for writer in 0..8u64 {
                let log = &log;
                scope.spawn(move || {
                    for sequence in 1..=200 {
                        let ticket =
                            log.append(&edit(&format!("r{writer}"), sequence, &[9; 50])).expect("alive");
                        let level = if writer % 2 == 0 { Level::Os } else { Level::Disk };
                        log.sync_blocking(ticket, level).expect("alive");
                    }
                });
            }
        });
    }
    let (_, recovered) = place.open(options).expect("again");
    for writer in 0..8 {
        let sequences: Vec<_> =
            replayed(&recovered, &format!("r{writer}")).into_iter().map(|(n, _)| n).collect();
        assert_eq!(sequences, (1..=200).collect::<Vec<_>>());
    }
}

pub(super) fn in_memory(place: &Memory, options: Options) -> (Log, LogReader) {
    Log::open(World::real(), Arc::new(place.clone()), FileName::new("WALs"), options).expect("readable")
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_again() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, Options::default());
    // The failing operation is the second from here: after the write of the batch, its sync.
    let (act, kind) = (place.acts() + 2, storage::Kind::Failed);
    place.set_fault(Some(Fault { act, kind, outcome: Outcome::MayHaveHappened, last: false }));
    let ticket = log.append(&edit("a", 1, b"one")).expect("alive");
    let error = log.sync_blocking(ticket, Level::Disk).expect_err("the sync failed");
    assert_eq!(error.outcome(), Outcome::MayHaveHappened);
    assert!(error.to_string().contains("00000000000000000001.wal"), "{error}");
    // The fault strikes one sync only. But a later sync that succeeds would prove nothing about the failed one, so the
    // log must not acknowledge.
    assert!(log.sync_blocking(ticket, Level::Disk).is_err());
    assert!(log.append(&edit("a", 2, b"two")).is_err());
    assert_eq!(env::block_on(log.failed()).to_string(), error.to_string(), "known already");
    assert!(log.roll().is_err() && log.close().is_err());
}

#[test]
fn waiters_for_the_end_of_the_log_are_woken() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, Options::default());
    let (failed, sequence) = (log.failed(), SequenceId(1));
    let waiting = std::thread::spawn(move || env::block_on(failed));
    let fault = Fault {
        act: place.acts() + 1,
        kind: storage::Kind::Failed,
        outcome: Outcome::MayHaveHappened,
        last: false,
    };
    place.set_fault(Some(fault));
    let ticket = log.append(&edit("a", sequence.0, b"one")).expect("alive");
    assert!(log.sync_blocking(ticket, Level::Os).is_err());
    let error = waiting.join().expect("no panic");
    assert!(matches!(error, Error::Dead { .. }), "{error}");
}

#[test]
fn a_full_disk_refuses_puts_until_there_is_room_and_loses_nothing_acknowledged() {
    for level in [Level::Disk, Level::Os] {
        let place = Memory::new();
        place.set_bytes_max(Some(3_000));
        let options = Options { full_retry: Duration::from_millis(1), ..Options::default() };
        let (log, _) = in_memory(&place, options.clone());
        let (mut last, mut acknowledged) = (SequenceId(0), 0);
        let mut fill = |log: &Log| loop {
            log.admits()?;
            last = last.next();
            let ticket = log.append(&edit("a", last.0, &[1; 100])).expect("the buffer has room");
            match log.sync_blocking(ticket, level) {
                Ok(()) => acknowledged = last.0,
                Err(error) => return Ok::<_, Error>((ticket, error, last.0, acknowledged)),
            }
        };
        let (waiting, error, sequence, before) = fill(&log).expect("room at first");
        assert!(before > 10 && sequence == before + 1);
        assert_eq!(error.outcome(), Outcome::MayHaveHappened, "the batch is kept");
        let refused = log.admits().expect_err("no room");
        assert_eq!(refused.outcome(), Outcome::DidNotHappen);
        for text in [error.to_string(), refused.to_string()] {
            assert!(
                text.contains("no space is left in memory") && text.contains("free some space"),
                "{text}"
            );
        }
        assert!(log.failure().is_none(), "a full disk is no failure");
        assert!(log.roll().is_err(), "no new file either");
        // The disk has room again: the log's thread writes the batch that waited, and the log accepts new writes.
        place.set_bytes_max(Some(6_000));
        log.sync_patiently(waiting, Level::Disk).expect("written when there was room");
        log.admits().expect("room again");
        let (_, _, _, acknowledged) = fill(&log).expect("room for some");
        assert!(acknowledged > sequence);
        drop(log);
        let after = place.crash(3);
        after.set_bytes_max(None);
        let (_log, recovered) = in_memory(&after, options);
        let found: Vec<_> = replayed(&recovered, "a").into_iter().map(|(sequence, _)| sequence).collect();
        let durable = if level == Level::Disk { acknowledged } else { sequence };
        assert!(found.len() as u64 >= durable, "{found:?} of {durable}");
        assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>());
    }
}

#[test]
fn a_full_disk_takes_the_records_that_may_use_its_reserve() {
    for level in [Level::Disk, Level::Os] {
        let place = Memory::new();
        place.set_bytes_max(Some(8_000));
        place.set_reserve(3_000);
        let options = Options { full_retry: Duration::from_millis(1), ..Options::default() };
        let (log, _) = in_memory(&place, options.clone());
        let mut sequence = 0;
        let mut append = |region: &str, length: usize| {
            sequence += 1;
            log.append(&edit(region, sequence, &vec![1; length])).expect("the buffer has room")
        };
        let by_reserve = |ticket| log.sync(ticket, level).by_reserve().wait();
        by_reserve(append("meta", 100)).expect("there is room");
        assert_eq!(place.reserve_state(), ReserveState::Kept);
        let refused = loop {
            let ticket = append("user", 700);
            if log.sync_blocking(ticket, level).is_err() {
                break ticket;
            }
        };
        assert_eq!(place.reserve_state(), ReserveState::Kept, "it is not for this record");
        log.admits().expect_err("the disk is full");
        log.admits_by_reserve().expect("the reserve is there");
        by_reserve(append("meta", 100)).expect("written with the batch that waits");
        log.sync_patiently(refused, level).expect("written before it");
        assert_eq!(place.reserve_state(), ReserveState::Spent);
        // The rest of the reserve is not for clients.
        let refusal = log.admits().expect_err("the reserve is spent").to_string();
        assert!(refusal.contains("free some space"), "{refusal}");
        by_reserve(append("meta", 100)).expect("it has more");
        // It has an end, too.
        let exhausted = loop {
            if let Err(error) = by_reserve(append("meta", 500)) {
                break error;
            }
        };
        assert!(matches!(exhausted, Error::Full { .. }), "{exhausted}");
        log.admits_by_reserve().expect_err("it has no room");
        assert!(log.failure().is_none());
        // Room for all records, but not for the reserve, too.
        place.set_bytes_max(Some(9_500));
        let last = append("meta", 1);
        by_reserve(last).expect("there is room for it");
        log.admits_by_reserve().expect("there is room for it");
        log.admits().expect_err("the reserve is spent");
        place.set_bytes_max(Some(30_000));
        while log.admits().is_err() {
            std::thread::yield_now();
        }
        assert_eq!(place.reserve_state(), ReserveState::Kept);
        log.sync_blocking(append("user", 700), level).expect("clients write again");
        let appended = sequence;
        drop(log);
        let (_log, recovered) = in_memory(&place.kill(), options);
        let found = replayed(&recovered, "meta").len() + replayed(&recovered, "user").len();
        assert_eq!(found as u64, appended);
    }
}

#[test]
fn without_a_reserve_every_record_is_refused_on_a_full_disk() {
    let place = Memory::new();
    place.set_bytes_max(Some(2_000));
    let (log, _) = in_memory(&place, Options { full_retry: Duration::from_secs(600), ..Options::default() });
    let ticket = log.append(&edit("meta", 1, &[1; 4_000])).expect("the buffer has room");
    let error = log.sync(ticket, Level::Disk).by_reserve().wait().expect_err("there is no room");
    assert_eq!(error.outcome(), Outcome::MayHaveHappened);
    let refused = log.admits_by_reserve().expect_err("there is no room");
    assert_eq!(refused.outcome(), Outcome::DidNotHappen);
    place.set_bytes_max(None);
}

#[test]
fn a_log_is_closed_on_a_full_disk_by_its_reserve() {
    let place = Memory::new();
    place.set_reserve(500);
    let (log, _) = in_memory(&place, Options::default());
    let ticket = log.append(&edit("a", 1, &[1; 100])).expect("alive");
    log.sync_blocking(ticket, Level::Disk).expect("durable");
    place.set_bytes_max(Some(place.bytes() + 500));
    log.close().expect("closed");
    assert_eq!(place.reserve_state(), ReserveState::Spent);
    let (_log, recovered) = in_memory(&place.kill(), Options::default());
    assert!(recovered.was_closed());
}

#[test]
fn when_the_next_file_cannot_be_created_the_old_one_stays_in_use() {
    let options = Options { file_bytes_max: 1_000, ..Options::default() };
    for (failing, outcome) in [
        (1, Outcome::DidNotHappen),
        (1, Outcome::MayHaveHappened),
        (2, Outcome::MayHaveHappened),
        (3, Outcome::MayHaveHappened),
    ] {
        let place = Memory::new();
        let (log, _) = in_memory(&place, options.clone());
        let ticket = log.append(&edit("a", 1, &[1; 100])).expect("alive");
        log.sync_blocking(ticket, Level::Os).expect("alive");
        // The creation of a file takes three operations: the creation, the write of the header, the sync of the header.
        // Each fails once.
        let act = place.acts() + failing;
        place.set_fault(Some(Fault { act, kind: storage::Kind::Failed, outcome, last: false }));
        let error = log.roll().expect_err("the next file cannot be made").to_string();
        assert!(error.contains("00000000000000000002.wal"), "{error}");
        assert!(log.failure().is_none());
        for sequence in 2..=30 {
            let ticket = log.append(&edit("a", sequence, &[1; 100])).expect("alive");
            log.sync_blocking(ticket, Level::Disk).expect("alive");
        }
        assert!(log.size().0 >= 3, "it rolled when the file had grown");
        drop(log);
        let (_log, recovered) = in_memory(&place.crash(failing), options.clone());
        assert_eq!(replayed(&recovered, "a").len(), 30);
    }
}

/// Storage that delays the second step of finishing a file until the test releases it.
#[derive(Clone)]
struct SlowToFinish {
    place: Memory,
    gate: Arc<(Mutex<(bool, bool)>, Condvar)>,
}

struct SlowWriter(Box<dyn FileWriter>, SlowToFinish);

impl FileWriter for SlowWriter {
    fn name(&self) -> &FileName {
        self.0.name()
    }

    fn write(&mut self, bytes: &[u8]) -> storage::Result<()> {
        self.0.write(bytes)
    }

    fn cut(&mut self, size: u64) -> storage::Result<()> {
        self.0.cut(size)
    }

    fn sync(&mut self) -> storage::Result<()> {
        self.0.sync()
    }

    fn size(&self) -> u64 {
        self.0.size()
    }

    fn finish(self: Box<Self>) -> storage::Result<u64> {
        let SlowWriter(writer, slow) = *self;
        let (state, changed) = &*slow.gate;
        let mut state = state.lock();
        state.0 = true;
        changed.notify_all();
        changed.wait_while(&mut state, |(_, free)| !*free);
        drop(state);
        writer.finish()
    }

    fn abandon(self: Box<Self>) {
        self.0.abandon();
    }
}

impl storage::Overlay for SlowToFinish {
    fn below(&self) -> &dyn Files {
        &self.place
    }

    fn create(&self, name: &FileName) -> storage::Result<Box<dyn FileWriter>> {
        Ok(Box::new(SlowWriter(self.place.create(name)?, self.clone())))
    }

    fn reuse_space(
        &self,
        name: &FileName,
        given_up: &FileName,
        marker: &[u8],
    ) -> storage::Result<Box<dyn FileWriter>> {
        Ok(Box::new(SlowWriter(self.place.reuse_space(name, given_up, marker)?, self.clone())))
    }
}

#[test]
fn others_write_while_a_roll_waits_for_the_disk_and_power_lost_there_leaves_no_gap() {
    for seed in 0..40 {
        let slow = SlowToFinish { place: Memory::new(), gate: Arc::default() };
        let files: Arc<dyn Files> = Arc::new(slow.clone());
        let (log, _) =
            Log::open(World::real(), files, FileName::new("WALs"), Options::default()).expect("new");
        let ticket = log.append(&edit("a", 1, b"durable")).expect("alive");
        log.sync_blocking(ticket, Level::Disk).expect("alive");
        let ticket = log.append(&edit("a", 2, &[2; 50])).expect("alive");
        log.sync_blocking(ticket, Level::Os).expect("alive");
        std::thread::scope(|scope| {
            let rolling = scope.spawn(|| log.roll());
            let (state, changed) = &*slow.gate;
            changed.wait_while(&mut state.lock(), |(begun, _)| !*begun);
            // The old file waits for the disk; this record goes into the new file.
            let ticket = log.append(&edit("a", 3, b"meanwhile")).expect("alive");
            log.sync_blocking(ticket, Level::Os).expect("nobody is in the way");
            // A kill at this moment loses no record.
            let copy = slow.place.copy();
            let (_log, recovered) = in_memory(&copy.kill(), Options::default());
            assert_eq!(replayed(&recovered, "a").len(), 3);
            // A loss of power at this moment may destroy the end of the old file. Then the records of the new file do
            // not count.
            let (_log, recovered) = in_memory(&slow.place.copy().crash(seed), Options::default());
            let found: Vec<_> = replayed(&recovered, "a").into_iter().map(|(n, _)| n).collect();
            assert!([&[1][..], &[1, 2], &[1, 2, 3]].contains(&&found[..]), "{found:?}");
            state.lock().1 = true;
            changed.notify_all();
            rolling.join().expect("no panic").expect("rolled");
        });
        let ticket = log.append(&edit("a", 4, b"after")).expect("alive");
        log.sync_blocking(ticket, Level::Disk).expect("alive");
        drop(log);
        let (_log, recovered) = in_memory(&slow.place.crash(seed), Options::default());
        assert_eq!(replayed(&recovered, "a").len(), 4, "all of it was durable");
    }
}

#[test]
fn power_lost_while_a_file_over_an_older_one_waits_for_the_disk_leaves_no_gap() {
    let slow = SlowToFinish { place: Memory::new(), gate: Arc::default() };
    slow.gate.0.lock().1 = true;
    let files: Arc<dyn Files> = Arc::new(slow.clone());
    let options =
        Options { file_bytes_max: 9_000, idle_write: Duration::from_secs(3_600), ..Options::default() };
    let (log, _) = Log::open(World::real(), files, FileName::new("WALs"), options.clone()).expect("new");
    let mut last = 0;
    let mut write = || {
        last += 1;
        let ticket = log.append(&edit("a", last, &[last as u8; 1_000])).expect("alive");
        log.sync_blocking(ticket, Level::Os).expect("alive");
        last
    };
    while log.shared.counts.reused.value() < 4 {
        let last = write();
        if last.is_multiple_of(20) {
            log.flushed(b"a", SequenceId(last));
        }
    }
    log.flushed(b"a", SequenceId(write()));
    let began = log.file_number();
    while log.shared.back().writer.as_ref().expect("alive").size() < 7_000 {
        write();
    }
    assert_eq!(log.file_number(), began);
    *slow.gate.0.lock() = (false, false);
    std::thread::scope(|scope| {
        let rolling = scope.spawn(|| log.roll());
        let (state, changed) = &*slow.gate;
        changed.wait_while(&mut state.lock(), |(begun, _)| !*begun);
        let last = write();
        let places: Vec<_> = (0..200).map(|seed| slow.place.copy().crash(seed)).collect();
        state.lock().1 = true;
        changed.notify_all();
        rolling.join().expect("no panic").expect("rolled");
        for (seed, place) in places.iter().enumerate() {
            let (_log, recovered) = in_memory(place, options.clone());
            let found: Vec<_> = replayed(&recovered, "a").into_iter().map(|(n, _)| n).collect();
            let has_gap = found.windows(2).any(|pair| pair[0] + 1 != pair[1]);
            // The old file is not synced yet. A record of the new file must not be found without the records before it
            // in the old file.
            let lacks_it = found.last() == Some(&last) && !found.contains(&(last - 1));
            assert!(!has_gap && !lacks_it, "{seed}: {found:?}");
        }
    });
}

#[test]
fn a_rolled_file_that_lost_its_end_is_an_error() {
    let place = Place::new("end");
    {
        let (log, _) = place.open(Options::default()).expect("new");
        for sequence in 1..=2 {
            let ticket = log.append(&edit("a", sequence, b"cells")).expect("alive");
            log.sync_blocking(ticket, Level::Disk).expect("alive");
        }
        log.roll().expect("alive");
        let ticket = log.append(&edit("a", 3, b"cells")).expect("alive");
        log.sync_blocking(ticket, Level::Disk).expect("alive");
    }
    let whole = std::fs::read(place.file(1)).expect("readable");
    let batch = Record::size(&edit("a", 1, b"cells")) + BATCH_HEADER_LENGTH;
    for kept in HEADER_LENGTH..whole.len() {
        place.change(1, |bytes| *bytes = whole[..kept].to_vec());
        let error = place.open(Options::default()).expect_err("the next file says it was finished");
        let Error::Corrupt { file, offset, .. } = &error else { panic!("cut at {kept}: {error}") };
        assert_eq!(file.last(), "00000000000000000001.wal");
        let batches = ((kept - HEADER_LENGTH) / batch).min(2);
        assert_eq!(*offset, (HEADER_LENGTH + batches * batch) as u64, "cut at {kept}");
    }
}

#[test]
fn many_tasks_at_both_levels_lose_nothing() {
    let place = Memory::new();
    let options = Options { file_bytes_max: 4_000, ..Options::default() };
    let (log, _) = in_memory(&place, options.clone());
    let log = Arc::new(log);
    let runtime = env::Runtime::start("wal-tasks", 1).expect("a thread");
    let tasks: Vec<_> = (0..64u64)
        .map(|task| {
            let log = Arc::clone(&log);
            runtime.spawn(async move {
                for sequence in 1..=20 {
                    let ticket = log.append(&edit(&format!("r{task}"), sequence, &[3; 20])).expect("alive");
                    let level = if task % 4 == 0 { Level::Os } else { Level::Disk };
                    log.sync(ticket, level).await.expect("alive");
                }
            })
        })
        .collect();
    let (sender, receiver) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        for task in tasks {
            task.await.expect("no panic");
        }
        sender.send(()).expect("the test waits");
    });
    receiver.recv().expect("all tasks ended");
    drop(log);
    let (_log, recovered) = in_memory(&place.kill(), options);
    for task in 0..64 {
        assert_eq!(replayed(&recovered, &format!("r{task}")).len(), 20);
    }
    runtime.stop();
}

#[test]
fn replay_reads_near_records_in_one_go_and_far_ones_alone() {
    let place = Memory::new();
    {
        let (log, _) = in_memory(&place, Options::default());
        for sequence in 1..=300 {
            let (near, far) = (sequence % 7 != 0, [sequence as u8; 9_000]);
            log.append(&edit("a", sequence, &far[..sequence as usize])).expect("alive");
            if !near {
                log.append(&edit("b", sequence, &far)).expect("alive");
            }
        }
        log.close().expect("alive");
    }
    let (_log, recovered) = in_memory(&place, Options::default());
    for region in ["a", "b"] {
        for (sequence, cells) in replayed(&recovered, region) {
            let length = if region == "a" { sequence as usize } else { 9_000 };
            assert_eq!(cells, vec![sequence as u8; length]);
        }
    }
    assert_eq!((replayed(&recovered, "a").len(), replayed(&recovered, "b").len()), (300, 42));
}

#[test]
fn records_that_were_taken_out_release_their_files() {
    let place = Memory::new();
    {
        let (log, _) = in_memory(&place, Options { file_bytes_max: 300, ..Options::default() });
        for sequence in 1..=6 {
            let region = if sequence <= 3 { "a" } else { "b" };
            log.append(&edit(region, sequence, &[1; 200])).expect("alive");
            log.roll().expect("alive");
        }
        log.append(&edit("a", 7, b"in a file of its own")).expect("alive");
        log.close().expect("alive");
    }
    let (_log, recovered) = in_memory(&place, Options::default());
    let mut regions = recovered.regions();
    regions.sort();
    assert_eq!(regions, [Box::from(&b"a"[..]), Box::from(&b"b"[..])]);
    assert_eq!(recovered.open_files(), 7);
    recovered.taken(b"a");
    recovered.taken(b"a");
    recovered.taken(b"never heard of");
    assert_eq!((replayed(&recovered, "a"), replayed(&recovered, "b").len()), (vec![], 3));
    assert_eq!(recovered.open_files(), 3);
    recovered.taken(b"b");
    assert!(recovered.is_empty() && recovered.open_files() == 0);
}

#[test]
fn damaged_bytes_are_refused_or_cut_and_never_believed() {
    let place = Memory::new();
    {
        let (log, _) = in_memory(&place, Options::default());
        for sequence in 1..=8 {
            let ticket = log.append(&edit("a", sequence, &[sequence as u8; 30])).expect("alive");
            log.sync_blocking(ticket, Level::Disk).expect("alive");
        }
    }
    let (name, world) = (file_name(&FileName::new("WALs"), 1), World::simulated(5, WallTime(0)));
    let whole = place.read(&name, 10_000).expect("there");
    let mut refused = 0;
    for _ in 0..3_000 {
        let after = place.kill();
        after.damage(&name, |bytes| {
            bytes.clone_from(&whole);
            for _ in 0..1 + world.random() % 3 {
                let at = world.random() as usize % bytes.len();
                match world.random() % 4 {
                    0 => bytes[at] ^= 1 << (world.random() % 8),
                    1 => bytes[at] = 0xff,
                    2 => bytes.truncate(at.max(1)),
                    _ => bytes.extend_from_within(at..),
                }
            }
        });
        // `open` removes empty files, so every round opens a new copy.
        match Log::open(World::real(), Arc::new(after), FileName::new("WALs"), Options::default()) {
            Err(_) => refused += 1,
            Ok((_log, recovered)) => {
                let found = replayed(&recovered, "a");
                let written: Vec<_> = (1..=8).map(|n| (n, vec![n as u8; 30])).collect();
                assert!(written.starts_with(&found), "{found:?}");
            }
        }
    }
    assert!((100..2_900).contains(&refused), "{refused} were refused");
}

#[test]
fn all_who_wait_share_one_write_and_one_sync() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, Options::default());
    let before = place.acts();
    let waits: Vec<_> = (1..=64)
        .map(|sequence| log.sync(log.append(&edit("a", sequence, b"cells")).expect("alive"), Level::Disk))
        .collect();
    for wait in waits.into_iter().rev() {
        wait.wait().expect("alive");
    }
    assert_eq!(place.acts() - before, 2);
}

#[test]
fn records_replayed_after_a_kill_survive_a_power_failure() {
    for seed in 0..50 {
        let place = Memory::new();
        let (log, _) = in_memory(&place, Options::default());
        for sequence in 1..=20 {
            let ticket = log.append(&edit("a", sequence, &[7; 90])).expect("alive");
            log.sync_blocking(ticket, Level::Os).expect("alive");
        }
        let place = place.kill();
        let (_log, recovered) = in_memory(&place, Options::default());
        let read = replayed(&recovered, "a");
        assert_eq!(read.len(), 20, "the system kept what it was given");
        let (_log, recovered) = in_memory(&place.crash(seed), Options::default());
        assert_eq!(replayed(&recovered, "a"), read, "seed {seed}");
    }
}

#[test]
fn no_record_is_replayed_that_a_failed_sync_has_lost() {
    let mut lost = 0;
    for seed in 0..100 {
        let place = Memory::new();
        let (log, _) = in_memory(&place, Options::default());
        let write = |from: u64, to: u64, level: Level| {
            (from..=to).try_for_each(|sequence| {
                let ticket = log.append(&edit("a", sequence, &[7; 90]))?;
                log.sync_blocking(ticket, level)
            })
        };
        write(1, 10, Level::Disk).expect("alive");
        write(11, 15 + seed, Level::Os).expect("alive");
        // After the write of this batch, its sync fails. In half of the runs it is that of the next process instead.
        let is_of_next = seed % 2 == 0;
        let fail = |place: &Memory, after: u64| {
            let act = place.acts() + after;
            let (kind, outcome) = (storage::Kind::Failed, Outcome::DidNotHappen);
            place.set_fault(Some(Fault { act, kind, outcome, last: false }));
        };
        if !is_of_next {
            fail(&place, 2);
            write(16 + seed, 16 + seed, Level::Disk).expect_err("the sync failed");
        }
        let place = place.kill();
        if is_of_next {
            let is_opened = |act| {
                fail(&place, act);
                Log::open(World::real(), Arc::new(place.clone()), FileName::new("WALs"), Options::default())
                    .is_ok()
            };
            // Some act of the opening is the sync of the file that was left.
            if (1..20).all(is_opened) {
                panic!("no act of the opening was struck");
            }
            place.set_fault(None);
        }
        let place = place.kill();
        let (_log, recovered) = in_memory(&place, Options::default());
        let read = replayed(&recovered, "a");
        assert!(read.len() >= 10, "acknowledged");
        lost += usize::from(read.len() < 15 + seed as usize);
        let (_log, recovered) = in_memory(&place.crash(seed), Options::default());
        assert_eq!(replayed(&recovered, "a"), read, "seed {seed}: what a process has replayed is durable");
    }
    assert!(lost > 20, "records were lost in {lost} of 100 runs");
}

/// A task that counts how often it was woken.
struct Woken {
    times: std::sync::atomic::AtomicUsize,
    /// The thread that created the task, and that may [wait](Waiting::until_woken).
    thread: std::thread::Thread,
}

impl Default for Woken {
    fn default() -> Woken {
        Woken { times: Default::default(), thread: std::thread::current() }
    }
}

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.times.fetch_add(1, Ordering::Relaxed);
        self.thread.unpark();
    }
}

/// A write that waits for [`Level::Os`], and its task.
struct Waiting {
    durable: Durable,
    woken: Arc<Woken>,
}

impl Waiting {
    fn begin(log: &Log, sequence: u64) -> Waiting {
        let ticket = log.append(&edit("a", sequence, b"cells")).expect("alive");
        Waiting { durable: log.sync(ticket, Level::Os), woken: Arc::default() }
    }

    fn is_done(&mut self) -> bool {
        let waker = std::task::Waker::from(Arc::clone(&self.woken));
        let outcome = std::pin::Pin::new(&mut self.durable).poll(&mut std::task::Context::from_waker(&waker));
        outcome.map(|outcome| outcome.expect("alive")).is_ready()
    }

    fn times_woken(&self) -> usize {
        self.woken.times.load(Ordering::Relaxed)
    }

    fn until_woken(&self) {
        let world = World::real();
        let began = world.moment();
        while self.times_woken() == 0 {
            std::thread::park_timeout(Duration::from_secs(1));
            assert!(world.moment().since(began) < Duration::from_secs(60), "nobody wakes it");
        }
    }
}

/// Returns a log in memory whose own thread writes nothing before `idle_write` is over. So waiters must write for
/// themselves.
fn without_help(idle_write: Duration) -> Log {
    let options = Options { idle_write, ..Options::default() };
    Log::open(World::real(), Arc::new(Memory::new()), FileName::new("WALs"), options).expect("new").0
}

#[test]
fn waiters_for_the_lock_of_the_files_are_woken_on_release() {
    let log = without_help(Duration::from_secs(3_600));
    let mut write = Waiting::begin(&log, 1);
    let look = log.shared.back();
    assert!(!write.is_done() && !write.is_done(), "somebody has the back");
    assert_eq!(log.shared.front.lock().waiters.len(), 1, "who asks twice waits once");
    drop(look);
    assert_eq!(write.times_woken(), 1);
    assert!(write.is_done());
    assert!(log.shared.front.lock().waiters.is_empty());
}

#[test]
fn a_cancelled_group_leader_hands_over_to_another_waiter() {
    let log = without_help(Duration::from_secs(3_600));
    let (mut first, mut second, mut third) =
        (Waiting::begin(&log, 1), Waiting::begin(&log, 2), Waiting::begin(&log, 3));
    let look = log.shared.back();
    assert!(!first.is_done() && !second.is_done() && !third.is_done());
    drop(second);
    drop(look);
    assert_eq!((first.times_woken(), third.times_woken()), (1, 0), "one is enough to write for all");
    drop(first);
    assert_eq!(third.times_woken(), 1);
    assert!(third.is_done());
}

#[test]
fn waiters_for_room_are_woken_only_when_there_is_room() {
    let place = Memory::new();
    let retry = Duration::from_millis(20);
    let (log, _) = in_memory(&place, Options { full_retry: retry, ..Options::default() });
    place.set_bytes_max(Some(1_000));
    let ticket = log.append(&edit("a", 1, &[1; 2_000])).expect("alive");
    log.sync_blocking(ticket, Level::Os).expect_err("there is no room");
    let durable = log.sync(ticket, Level::Os).patiently();
    let mut write = Waiting { durable, woken: Arc::default() };
    assert!(!write.is_done());
    let tried = log.shared.counts.full.value();
    while log.shared.counts.full.value() < tried + 3 {
        std::thread::yield_now();
    }
    assert_eq!(write.times_woken(), 0, "nothing can be done about it");
    assert!(log.shared.counts.full.value() < tried + 100, "it is tried now and then");
    place.set_bytes_max(None);
    write.until_woken();
    assert!(write.is_done());
    assert_eq!(write.times_woken(), 1);
}

#[test]
fn writes_continue_while_others_read_the_state_of_the_log() {
    const WRITES: u64 = 20_000;
    const HELP: Duration = Duration::from_secs(10);
    let log = without_help(HELP);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                log.flushed(b"a", SequenceId(1));
                assert!(log.size().0 > 0);
            }
        });
        let writers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let world = World::real();
                    let one = |sequence| {
                        let began = world.moment();
                        let ticket = log.append(&edit("a", sequence, b"cells")).expect("alive");
                        log.sync_blocking(ticket, Level::Os).expect("alive");
                        let took = world.moment().since(began);
                        // If nobody woke a waiter, it would wait for the log's own thread, which takes longer.
                        assert!(took < HELP / 2, "write {sequence} took {took:?}");
                    };
                    (1..=WRITES).for_each(one);
                })
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        for writer in ended {
            writer.expect("no write was slow");
        }
    });
}

#[test]
fn a_log_needs_synced_prefixes_and_works_without_the_other_capabilities() {
    for capabilities in Capabilities::combinations() {
        let place = Memory::with(capabilities);
        let options = Options { file_bytes_max: 9_000, ..Options::default() };
        if !capabilities.has(Capability::SyncPrefix) {
            let opened = Log::open(World::real(), Arc::new(place), FileName::new("WALs"), options);
            let error = opened.expect_err("refused");
            assert!(error.to_string().contains("hbase.wal.dir"), "{error}");
            continue;
        }
        let (log, _) = in_memory(&place, options.clone());
        for sequence in 1..=200 {
            let ticket = log.append(&edit("a", sequence, &[sequence as u8; 400])).expect("alive");
            log.sync_blocking(ticket, Level::Disk).expect("durable");
            if sequence % 50 == 0 {
                log.flushed(b"a", SequenceId(sequence - 5));
            }
        }
        let reused = log.shared.counts.reused.value();
        assert_eq!(reused > 0, capabilities.has(Capability::ReuseSpace), "{capabilities:?}");
        let (_again, recovered) = in_memory(&place.crash(7), options);
        let newest = replayed(&recovered, "a").last().map(|(sequence, _)| *sequence);
        assert_eq!(newest, Some(200), "{capabilities:?}");
    }
}

#[test]
fn where_only_a_sync_survives_the_process_every_write_waits_for_one() {
    let place = Memory::with(Capabilities::ALL.without(Capability::WriteThrough));
    let options = Options { idle_write: Duration::from_millis(5), ..Options::default() };
    let (log, _) = in_memory(&place, options.clone());
    let ticket = log.append(&edit("a", 1, b"waited for")).expect("alive");
    log.sync_blocking(ticket, Level::Os).expect("durable");
    let (again, recovered) = in_memory(&place.copy().kill(), options.clone());
    assert_eq!(replayed(&recovered, "a").len(), 1, "what was acknowledged is there");
    drop(again);
    // Nobody waits for this record. The log's thread writes it after `idle_write`.
    log.append(&edit("a", 2, b"not waited for")).expect("alive");
    let was_synced = || {
        let (_again, recovered) = in_memory(&place.copy().kill(), options.clone());
        replayed(&recovered, "a").len() == 2
    };
    while !was_synced() {
        World::real().pause(Duration::from_millis(5));
    }
}

#[test]
fn a_full_disk_ends_a_log_whose_file_cannot_be_cut_and_loses_nothing_acknowledged() {
    let place = Memory::with(Capabilities::ALL.without(Capability::Cut));
    place.set_bytes_max(Some(3_000));
    let (log, _) = in_memory(&place, Options::default());
    let mut acknowledged = 0;
    for sequence in 1.. {
        let Ok(ticket) = log.append(&edit("a", sequence, &[1; 100])) else { break };
        if log.sync_blocking(ticket, Level::Disk).is_ok() {
            assert_eq!(acknowledged + 1, sequence, "nothing is acknowledged after a failure");
            acknowledged = sequence;
        }
    }
    assert!(acknowledged > 5, "{acknowledged}");
    place.set_bytes_max(None);
    let (_again, recovered) = in_memory(&place.crash(3), Options::default());
    let found: Vec<u64> = replayed(&recovered, "a").into_iter().map(|(sequence, _)| sequence).collect();
    assert!(found.starts_with(&(1..=acknowledged).collect::<Vec<_>>()), "{found:?} {acknowledged}");
}
