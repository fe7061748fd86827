//! Tests of log files that reuse the space of older ones.
//!
//! Records of the new file are found, records of the old one never are, and the space is freed in the end.

use std::time::Duration;

use env::World;
use storage::Memory;

use super::back::{file_name, void_header};
use super::tests::{edit, in_memory, replayed};
use super::*;

/// Size of a file in bytes, which has room for some twenty batches and several pages.
const FILE_BYTES: u64 = 9_000;

fn options() -> Options {
    Options {
        file_bytes_max: FILE_BYTES,
        idle_write: Duration::from_secs(3_600),
        full_retry: Duration::from_millis(1),
        ..Options::default()
    }
}

fn folder() -> FileName {
    FileName::new("WALs")
}

fn write(log: &Log, sequence: u64, level: Level) -> Result<()> {
    let ticket = log.append(&edit("a", sequence, &[sequence as u8; 400]))?;
    log.sync_blocking(ticket, level)
}

/// Writes records until the log has reused the space of `files` files, and flushes all records after every 50 writes.
/// Returns the sequence id of the last write.
fn reach(log: &Log, files: u64) -> u64 {
    let mut last = 0;
    while log.shared.counts.reused.value() < files {
        last += 1;
        write(log, last, Level::Os).expect("alive");
        if last.is_multiple_of(50) {
            log.flushed(b"a", SequenceId(last));
        }
    }
    last
}

/// Returns the names of the log's files and their sizes.
fn listed(place: &Memory) -> Vec<(FileName, u64)> {
    let entries = place.list(&folder()).expect("readable").into_iter();
    entries
        .filter(|entry| entry.name.last().ends_with(".wal"))
        .map(|entry| (entry.name, entry.size))
        .collect()
}

#[test]
fn a_reused_file_shows_new_records_and_no_old_ones() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    let last = reach(&log, 4);
    log.flushed(b"a", SequenceId(last));
    for more in 1..=5 {
        write(&log, last + more, Level::Os).expect("alive");
        let after = place.copy();
        assert!(listed(&after).len() > 1 && listed(&after).iter().all(|(_, size)| *size >= FILE_BYTES / 2));
        let (again, recovered) = in_memory(&after, options());
        let replay = replayed(&recovered, "a");
        let expected: Vec<_> = (last + 1..=last + more).map(|n| (n, vec![n as u8; 400])).collect();
        assert!(replay.ends_with(&expected), "write {more}");
        assert!(replay.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0), "no gap");
        assert_eq!(recovered.torn_tails(), [], "nothing was torn");
        again.flushed(b"a", SequenceId(last + more));
        again.close().expect("alive");
        assert_eq!(listed(&after).len(), 1, "spare files are deleted with the log: {:?}", listed(&after));
    }
    log.close().expect("alive");
    let left = listed(&place);
    assert!(left.len() == 1 && left[0].1 < FILE_BYTES, "what the older file had is cut off: {left:?}");
    assert_eq!(in_memory(&place, options()).1.torn_tails(), []);
}

/// Returns storage with a log, and the name of the log's newest file. That file reuses the space of another one. Its
/// five batches were acknowledged at `level`.
fn five_batches(level: Level) -> (Memory, FileName, u64) {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    let last = reach(&log, 4);
    log.flushed(b"a", SequenceId(last));
    (1..=5).for_each(|more| write(&log, last + more, level).expect("alive"));
    let name = file_name(&folder(), log.file_number());
    (place.kill(), name, last)
}

/// Size of each of these batches in bytes. The first one also has a record of the log itself.
const BATCH: usize = BATCH_HEADER_LENGTH + 400 + 43;

#[test]
fn a_bad_batch_is_damage_if_a_later_one_says_it_was_durable_and_a_torn_tail_if_none_does() {
    let (place, name, last) = five_batches(Level::Disk);
    let whole = place.read(&name, 1 << 20).expect("there");
    let open = |change: &dyn Fn(&mut Vec<u8>)| {
        let after = place.copy();
        after.damage(&name, |bytes| change(bytes));
        Log::open(World::real(), Arc::new(after), folder(), options()).map(|(_log, recovered)| {
            (replayed(&recovered, "a").last().map_or(0, |(n, _)| *n), recovered.torn_tails().len())
        })
    };
    assert_eq!(open(&|_| ()).expect("sound"), (last + 5, 0));
    let end = whole.windows(64).position(|bytes| bytes == [0; 64]).expect("zeros behind what was written");
    for at in (HEADER_LENGTH..end - BATCH).step_by(13) {
        let opened = open(&|bytes| bytes[at] ^= 0x10);
        let Err(error) = opened else { panic!("{at} of {end}: {opened:?}") };
        assert!(matches!(&error, Error::Corrupt { file, .. } if *file == name), "{at}: {error}");
        let sector = at / 512 * 512..(at / 512 + 1) * 512;
        if (HEADER_LENGTH..end - BATCH).contains(&sector.start) && sector.end <= end - BATCH {
            assert!(open(&|bytes| bytes[sector.clone()].fill(0)).is_err(), "a sector of zeros is no end");
        }
    }
    for at in (end - BATCH + 4..end).step_by(13) {
        assert_eq!(open(&|bytes| bytes[at] ^= 0x10).expect("the last may be torn"), (last + 4, 1), "{at}");
    }
    // In reused space, a sector that was not written has the bytes of the older file instead of zeros.
    let (place, name, last) = five_batches(Level::Os);
    let after = place.copy();
    after.damage(&name, |bytes| bytes[1_024..1_536].fill(last as u8));
    let (_, recovered) = in_memory(&after, options());
    assert!(
        replayed(&recovered, "a").last().is_some_and(|(n, _)| *n < last + 5)
            && recovered.torn_tails().len() == 1
    );
}

#[test]
fn a_spare_file_without_a_batch_is_ignored_under_either_name() {
    let (place, name, last) = five_batches(Level::Os);
    let number = |name: &FileName| -> u64 { name.last()[..20].parse().expect("a number") };
    // First a crash before the spare was renamed, then one after it.
    for (from, to) in [(number(&name) + 50, number(&name) + 50), (number(&name) + 50, number(&name) + 60)] {
        let after = place.copy();
        let mut writer = after.create(&file_name(&folder(), from)).expect("new");
        writer.write(&place.read(&name, 1 << 20).expect("there")).expect("written");
        writer.finish().expect("durable");
        drop(after.reuse_space(
            &file_name(&folder(), 999),
            &file_name(&folder(), from),
            &void_header(1).to_bytes(),
        ));
        drop(after.reuse_space(
            &file_name(&folder(), to),
            &file_name(&folder(), 999),
            &void_header(1).to_bytes(),
        ));
        let (log, recovered) = in_memory(&after, options());
        assert_eq!(replayed(&recovered, "a").last().expect("there").0, last + 5);
        assert_eq!(recovered.torn_tails(), []);
        log.close().expect("alive");
        assert!(!listed(&after).iter().any(|(name, _)| *name == file_name(&folder(), to)));
    }
    // A file with a header of another number is an error.
    let after = place.copy();
    let mut writer = after.create(&file_name(&folder(), 500)).expect("new");
    writer.write(&place.read(&name, 1 << 20).expect("there")).expect("written");
    writer.finish().expect("durable");
    let error = Log::open(World::real(), Arc::new(after), folder(), options()).expect_err("refused");
    assert!(matches!(error, Error::Corrupt { what: "file number", .. }), "{error}");
}

#[test]
fn a_spare_file_that_is_ready_is_deleted_on_a_full_disk() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    let mut last = reach(&log, 2);
    log.flushed(b"a", SequenceId(last));
    let ready = |log: &Log| log.shared.back().spares.len();
    assert!(ready(&log) > 1);
    let used: u64 = listed(&place).iter().map(|(_, size)| size).sum();
    place.set_bytes_max(Some(used + 100));
    // Spares are used. When a file grows beyond the size of a spare, removing the other spares makes room.
    while ready(&log) > 0 {
        last += 1;
        write(&log, last, Level::Os).expect("there is room if what is ready goes");
        log.admits().expect("no write is refused");
    }
    assert_eq!(log.shared.counts.full.value(), 0);
}

#[test]
fn a_full_disk_gives_spare_files_back() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    let last = reach(&log, 2);
    log.flushed(b"a", SequenceId(last));
    let space = || listed(&place).iter().map(|(_, size)| size).sum::<u64>();
    let before = space();
    place.set_bytes_max(Some(before));
    log.remove_spares();
    assert!(space() < before / 2, "{:?}", listed(&place));
    write(&log, last + 1, Level::Disk).expect("alive");
    assert_eq!(replayed(&in_memory(&place.kill(), options()).1, "a").last().expect("there").0, last + 1);
}

#[test]
fn slow_writers_and_disabled_reuse_keep_no_spare_file() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    let last = reach(&log, 1);
    log.flushed(b"a", SequenceId(last));
    log.roll().expect("alive");
    log.roll().expect("time may end a file");
    assert_eq!((log.shared.back().spares.len(), listed(&place).len()), (0, 1), "{:?}", listed(&place));

    let place = Memory::new();
    let (log, _) = in_memory(&place, Options { reuse: false, ..options() });
    for sequence in 1..=100 {
        write(&log, sequence, Level::Os).expect("alive");
        log.flushed(b"a", SequenceId(sequence));
    }
    assert_eq!((listed(&place).len(), log.shared.counts.reused.value()), (1, 0));
}

#[test]
fn there_are_no_more_files_than_the_log_may_have_and_less_when_less_is_written() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, Options { files_min: 3, files_max: 6, ..options() });
    let mut last = 0;
    let mut most = 0;
    for _ in 0..30 {
        for _ in 0..20 * 10 {
            last += 1;
            write(&log, last, Level::Os).expect("alive");
        }
        log.flushed(b"a", SequenceId(last));
        most = most.max(listed(&place).len());
        assert!(listed(&place).len() <= 6, "{:?}", listed(&place));
    }
    assert!(most > 3);
    while log.shared.back().spares.len() > 3 {
        last += 1;
        write(&log, last, Level::Os).expect("alive");
        log.flushed(b"a", SequenceId(last));
    }
}

#[test]
fn files_of_an_earlier_run_are_not_reused_while_they_are_read() {
    let place = Memory::new();
    let last = {
        let (log, _) = in_memory(&place, options());
        (1..=60).for_each(|sequence| write(&log, sequence, Level::Os).expect("alive"));
        60
    };
    let (log, recovered) = in_memory(&place, options());
    log.flushed(b"a", SequenceId(last));
    (1..=200).for_each(|more| write(&log, last + more, Level::Os).expect("alive"));
    assert_eq!(replayed(&recovered, "a").len(), 60, "a slow reader still reads its records");
    assert_eq!(log.shared.back().spares.len(), 0);
}

#[test]
fn a_spare_file_that_could_not_be_made_is_deleted_under_either_name() {
    use storage::memory::Fault;
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    (1..=60).for_each(|sequence| write(&log, sequence, Level::Os).expect("alive"));
    // The spare is renamed, but the sync of the folder fails.
    let (kind, outcome) = (storage::Kind::Failed, Outcome::MayHaveHappened);
    place.set_fault(Some(Fault { act: place.acts() + 2, kind, outcome, last: false }));
    log.flushed(b"a", SequenceId(60));
    assert_eq!(listed(&place).len(), 1 + log.shared.back().spares.len(), "{:?}", listed(&place));
    // After that failure the log no longer reuses space.
    assert!(!log.shared.back().reuses());
    let reused = log.shared.counts.reused.value();
    for sequence in 61..=200 {
        write(&log, sequence, Level::Os).expect("alive");
        log.flushed(b"a", SequenceId(sequence));
    }
    assert_eq!(log.shared.back().spares.len(), 0);
    assert!(log.shared.counts.reused.value() <= reused + 1 && listed(&place).len() < 3);
}

#[test]
fn a_log_with_a_new_owner_makes_no_spare_file_and_deletes_nothing() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    (1..=60).for_each(|sequence| write(&log, sequence, Level::Os).expect("alive"));
    let files: Arc<dyn Files> = Arc::new(place.clone());
    crate::seal(&World::real(), &files, &folder(), "another").expect("sealed");
    let before = listed(&place);
    log.flushed(b"a", SequenceId(60));
    assert_eq!((log.shared.back().spares.len(), listed(&place)), (0, before));
    assert!(matches!(log.failure(), Some(Error::Fenced { .. })));
}

#[test]
fn a_spare_file_that_is_ready_too_late_is_deleted() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    let reserve = || {
        let number = log.shared.back().reserve();
        let name = file_name(&folder(), number);
        (number, place.create(&name).expect("new"), name)
    };
    let is_gone = |name: &FileName| {
        log.shared.back().spares.is_empty() && !listed(&place).iter().any(|(other, _)| other == name)
    };
    // A spare is removed at once if a file with a greater number was begun before the spare was added,
    let (number, writer, name) = reserve();
    log.roll().expect("alive");
    log.shared.back().add_spare(number, writer);
    assert!(is_gone(&name));
    // and it is removed later if such a file is begun after it was added.
    let ((number, writer, name), (next, next_writer, _)) = (reserve(), reserve());
    log.shared.back().add_spare(number, writer);
    assert!(!is_gone(&name));
    log.shared.back().begin(&folder(), next, next_writer);
    assert!(is_gone(&name));
}

#[test]
fn a_finished_file_whose_first_batch_is_damaged_is_not_taken_for_one_that_was_never_begun() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    let mut last = reach(&log, 4);
    log.flushed(b"a", SequenceId(last));
    // This region becomes idle, so the log keeps this file for it; all later files can be removed.
    let needed = log.file_number();
    let ticket = log.append(&edit("idle", 1, b"needed")).expect("alive");
    log.sync_blocking(ticket, Level::Os).expect("alive");
    while log.file_number() < needed + 4 {
        last += 1;
        write(&log, last, Level::Os).expect("alive");
        log.flushed(b"a", SequenceId(last));
    }
    log.sync_blocking(log.append(&edit("a", last + 1, b"durable")).expect("alive"), Level::Disk)
        .expect("alive");
    let after = place.kill();
    assert_eq!(replayed(&in_memory(&after.copy(), options()).1, "idle").len(), 1);
    for change in [|bytes: &mut Vec<u8>| bytes[60] ^= 1, |bytes: &mut Vec<u8>| bytes[32..512].fill(0)] {
        let after = after.copy();
        after.damage(&file_name(&folder(), needed), change);
        let (_log, recovered) = in_memory(&after, options());
        let replay = recovered.replay::<Error>(b"idle", |_| Ok(()));
        let Err(Error::Corrupt { file, .. }) = &replay else { panic!("{replay:?}") };
        assert_eq!(*file, file_name(&folder(), needed));
    }
}

#[test]
fn old_bytes_of_a_reused_file_are_scanned_once() {
    // The file is full of numbers of eight bytes, two of which look like the header of a batch.
    let numbers: Vec<u8> = std::iter::repeat_n(1_000_000_u64.to_be_bytes(), 500).flatten().collect();
    let place = Memory::new();
    let (log, _) = in_memory(&place, Options { file_bytes_max: 4 << 20, ..options() });
    let mut last = 0;
    // The counter grows before the file is removed from the list of files, so wait for both.
    while log.shared.counts.reused.value() < 1 || log.shared.back().live.len() > 1 {
        last += 1;
        let ticket = log.append(&edit("a", last, &numbers)).expect("alive");
        log.sync_blocking(ticket, Level::Os).expect("alive");
        log.flushed(b"a", SequenceId(last));
    }
    let after = place.kill();
    let world = World::real();
    let began = world.moment();
    let (_log, recovered) = in_memory(&after, options());
    assert!(replayed(&recovered, "a").len() < 10);
    let took = world.moment().since(began);
    assert!(took < Duration::from_secs(2), "{took:?}");
}
