//! Tests that follow a log while it is written.

use std::time::Duration;

use storage::Memory;

use super::tests::{edit, in_memory};
use super::*;
use crate::format::BatchHeader;
use crate::reader::LogTail;

fn folder() -> FileName {
    FileName::new("WALs")
}

fn options() -> Options {
    Options { file_bytes_max: 2_000, idle_write: Duration::from_secs(3_600), ..Options::default() }
}

/// Returns the sequence ids of the records that the tail returns next. Fails if there is a gap.
fn more(tail: &mut LogTail) -> Vec<u64> {
    let mut found = Vec::new();
    let advanced = tail.advance::<Error>(|record| {
        found.push(record.sequence.0);
        Ok(())
    });
    assert_eq!(advanced.expect("sound"), found.len() as u64);
    found
}

fn write(log: &Log, sequence: u64, level: Level) {
    let ticket = log.append(&edit("a", sequence, &[sequence as u8; 400])).expect("alive");
    log.sync_blocking(ticket, level).expect("alive");
}

#[test]
fn a_tail_sees_what_is_durable_and_no_more() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, Options { file_bytes_max: 1 << 20, ..options() });
    let mut tail = log.follow(LogPosition::default());
    let mut stranger = LogTail::open(Arc::new(place.clone()), folder(), LogPosition::default());
    assert_eq!(more(&mut tail), []);
    (1..=3).for_each(|sequence| write(&log, sequence, Level::Os));
    assert_eq!((more(&mut tail), more(&mut stranger)), (vec![], vec![]), "the power may still take it");
    write(&log, 4, Level::Disk);
    assert_eq!(more(&mut tail), [1, 2, 3, 4]);
    assert_eq!(more(&mut stranger), [], "no bytes say yet that it is durable");
    write(&log, 5, Level::Os);
    assert_eq!((more(&mut tail), more(&mut stranger)), (vec![], vec![1, 2, 3, 4]));
    log.close().expect("alive");
    assert_eq!((more(&mut tail), more(&mut stranger)), (vec![5], vec![5]));
    assert_eq!((more(&mut tail), more(&mut stranger)), (vec![], vec![]));
}

#[test]
fn a_tail_reads_file_after_file_while_earlier_files_are_reused() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    let holder = log.hold("tail").expect("durable");
    let mut tail = log.follow(LogPosition::default());
    let mut stranger = LogTail::open(Arc::new(place.clone()), folder(), LogPosition::default());
    let (mut seen, mut seen_by_stranger) = (Vec::new(), Vec::new());
    for sequence in 1..=300 {
        write(&log, sequence, if sequence % 3 == 0 { Level::Disk } else { Level::Os });
        if sequence % 7 == 0 {
            seen.extend(more(&mut tail));
            seen_by_stranger.extend(more(&mut stranger));
            assert!(*seen.last().expect("some") >= sequence / 3 * 3);
            let position = tail.position().min(stranger.position());
            holder.advance(position.file).expect("durable");
            log.flushed(b"a", SequenceId(sequence));
        }
    }
    assert!(log.shared.counts.reused.value() > 10, "{}", log.shared.counts.reused.value());
    log.close().expect("alive");
    seen.extend(more(&mut tail));
    seen_by_stranger.extend(more(&mut stranger));
    assert_eq!(seen, (1..=300).collect::<Vec<_>>());
    assert_eq!(seen_by_stranger, seen);
}

#[test]
fn a_tail_continues_where_it_was_after_a_restart() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    (1..=20).for_each(|sequence| write(&log, sequence, Level::Os));
    let mut tail = log.follow(LogPosition::default());
    let before = more(&mut tail);
    let position = tail.position();
    drop((tail, log));
    let place = place.kill();
    let (log, _) = in_memory(&place, options());
    (21..=40).for_each(|sequence| write(&log, sequence, Level::Os));
    let ticket = log.append(&edit("a", 41, b"the last")).expect("alive");
    log.sync_blocking(ticket, Level::Disk).expect("alive");
    // The first owner's last records were not known to be durable. The next owner has found them and made them durable.
    let mut tail = LogTail::open(Arc::new(place.clone()), folder(), position);
    let mut seen = before;
    seen.extend(more(&mut tail));
    let mut own = log.follow(tail.position());
    seen.extend(more(&mut own));
    assert_eq!(seen, (1..=41).collect::<Vec<_>>());
}

#[test]
fn a_tail_without_a_holder_reports_which_records_are_missing() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    (1..=20).for_each(|sequence| write(&log, sequence, Level::Disk));
    let mut tail = log.follow(LogPosition { file: 1, offset: 0 });
    log.flushed(b"a", SequenceId(20));
    let gone = tail.advance::<Error>(|_| Ok(())).expect_err("file 1 was removed");
    assert!(matches!(gone, Error::Gone { number: 1, .. }), "{gone}");
}

#[test]
fn a_record_that_was_refused_is_given_again() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    (1..=3).for_each(|sequence| write(&log, sequence, Level::Disk));
    let mut tail = log.follow(LogPosition::default());
    let refused = tail.advance::<Error>(|record| match record.sequence.0 {
        2 => Err(Error::Closed),
        _ => Ok(()),
    });
    refused.expect_err("as asked for");
    assert_eq!(more(&mut tail), [2, 3]);
}

#[test]
fn a_tail_beside_writers_loses_nothing_and_repeats_nothing() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    let holder = log.hold("tail").expect("durable");
    let mut tail = log.follow(LogPosition::default());
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for sequence in 1..=600 {
                write(&log, sequence, if sequence % 2 == 0 { Level::Disk } else { Level::Os });
                log.flushed(b"a", SequenceId(sequence));
            }
        });
        while !writer.is_finished() {
            seen.extend(more(&mut tail));
            holder.advance(tail.position().file).expect("durable");
        }
    });
    log.close().expect("alive");
    seen.extend(more(&mut tail));
    assert_eq!(seen, (1..=600).collect::<Vec<_>>());
}

/// Returns a log whose files grow part by part, as in an object store, and its storage.
fn growing(base: &Memory) -> (Log, Arc<dyn Files>) {
    let patience = Duration::from_secs(1);
    let place: Arc<dyn Files> =
        Arc::new(storage::Segmented::new(Arc::new(base.clone()), World::real(), patience));
    let (log, _) = Log::open(World::real(), Arc::clone(&place), folder(), options()).expect("taken");
    (log, place)
}

#[test]
fn a_tail_of_growing_files_sees_each_synced_record_at_once_also_under_the_next_owner() {
    let base = Memory::with(storage::Capabilities::NONE);
    let (first, place) = growing(&base);
    let mut tail = LogTail::open(Arc::clone(&place), folder(), LogPosition::default());
    for sequence in 1..=20 {
        write(&first, sequence, Level::Os);
        assert_eq!(more(&mut tail), [sequence]);
        assert_eq!(more(&mut tail), []);
    }
    assert!(tail.position().file > 1, "it went from file to file");
    // A tail that begins at the end of a reader returns exactly the records that the reader lacks.
    let reader = LogReader::open(&place, &folder()).expect("readable");
    assert!(reader.end() <= tail.position());
    assert_eq!(more(&mut LogTail::open(Arc::clone(&place), folder(), reader.end())), [0; 0]);
    // Another owner takes the log between two writes. Later writes of the first owner are not in the log.
    write(&first, 21, Level::Os);
    let (second, _) = growing(&base);
    let ticket = first.append(&edit("a", 99, b"late"));
    ticket.and_then(|ticket| first.sync_blocking(ticket, Level::Os)).expect_err("fenced");
    write(&second, 22, Level::Os);
    assert_eq!(more(&mut tail), [21, 22]);
    let from = |until| {
        let mut found = Vec::new();
        let read = reader.read_until::<Error>(b"a", until, true, |record| {
            found.push(record.sequence.0);
            Ok(())
        });
        read.map(|()| found)
    };
    assert_eq!(from(reader.end()).expect("there").last(), Some(&20));
    assert_eq!(from(LogPosition::default()).expect("there"), [0; 0]);
}

#[test]
fn a_tail_of_growing_files_reports_which_records_were_deleted_while_it_paused() {
    let base = Memory::with(storage::Capabilities::NONE);
    let (log, place) = growing(&base);
    write(&log, 1, Level::Os);
    let mut tail = LogTail::open(Arc::clone(&place), folder(), LogPosition::default());
    assert_eq!(more(&mut tail), [1]);
    (2..=20).for_each(|sequence| write(&log, sequence, Level::Os));
    log.flushed(b"a", SequenceId(20));
    // A flush does not wait for the removal of files in an object store.
    assert_eq!(more(&mut LogTail::open(Arc::clone(&place), folder(), LogPosition::default()))[0], 1);
    log.tidy();
    // The tail's file was deleted. The tail must report an error: a missing next part must not look like a log to which
    // nothing is written.
    let gone = tail.advance::<Error>(|_| Ok(())).expect_err("its file was removed");
    assert!(matches!(gone, Error::Gone { number: 1, .. }), "{gone}");
}

/// Storage in which something else happens just before the object `OWNER` is read.
struct Meanwhile {
    below: Memory,
    act: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl storage::Overlay for Meanwhile {
    fn below(&self) -> &dyn Files {
        &self.below
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> storage::Result<storage::Object> {
        if name.last() == "OWNER"
            && let Some(act) = self.act.lock().take()
        {
            act();
        }
        self.below.load(name, bytes_max)
    }
}

#[test]
fn a_file_that_is_deleted_when_the_tail_has_just_read_its_end_is_not_missed() {
    let base = Memory::with(storage::Capabilities::NONE);
    let (log, _) = growing(&base);
    let log = Arc::new(log);
    let meanwhile = Arc::new(Meanwhile { below: base, act: Mutex::default() });
    let place: Arc<dyn Files> = Arc::new(storage::Segmented::new(
        Arc::clone(&meanwhile) as Arc<dyn Files>,
        World::real(),
        Duration::ZERO,
    ));
    let mut tail = LogTail::open(place, folder(), LogPosition::default());
    for sequence in 1..=40 {
        write(&log, sequence, Level::Os);
        let log = Arc::clone(&log);
        // Everything is in store files, so each file that has ended is deleted.
        *meanwhile.act.lock() = Some(Box::new(move || {
            log.flushed(b"a", SequenceId(sequence));
            log.tidy();
        }));
        assert_eq!(more(&mut tail), [sequence]);
    }
    assert!(tail.position().file > 3, "it went from file to file");
    // What was deleted unread is still reported.
    for sequence in 41..=80 {
        write(&log, sequence, Level::Os);
        log.flushed(b"a", SequenceId(sequence));
        log.tidy();
    }
    let gone = tail.advance::<Error>(|_| Ok(())).expect_err("files were removed");
    assert!(matches!(gone, Error::Gone { .. }), "{gone}");
}

/// Writes a record of region `region` to the current file, begins the next file, and returns the number of the former.
fn write_and_roll(log: &Log, region: &str, sequence: u64) -> u64 {
    let number = log.file_number();
    let ticket = log.append(&edit(region, sequence, &[sequence as u8; 400])).expect("alive");
    log.sync_blocking(ticket, Level::Disk).expect("alive");
    log.roll().expect("the next file is begun");
    number
}

/// A file may be deleted while an earlier one stays, because the earlier one has edits of another region.
#[test]
fn a_tail_of_growing_files_reports_a_file_that_was_deleted_between_two_others() {
    let base = Memory::with(storage::Capabilities::NONE);
    let (log, place) = growing(&base);
    write(&log, 1, Level::Os);
    let mut slow = LogTail::open(Arc::clone(&place), folder(), LogPosition::default());
    assert_eq!(more(&mut slow), [1]);
    let kept = write_and_roll(&log, "b", 2);
    // This tail has not opened a file yet.
    let mut new = LogTail::open(Arc::clone(&place), folder(), slow.position());
    let deleted = write_and_roll(&log, "a", 3);
    log.flushed(b"a", SequenceId(3));
    log.tidy();
    // The current file has no batch yet, then the record that ended the deleted one, and then one of the region.
    for sequence in 4..=5 {
        for tail in [&mut slow, &mut new] {
            let gone = tail.advance::<Error>(|_| Ok(())).expect_err("a file is missing");
            assert!(matches!(gone, Error::Gone { number, .. } if number == deleted), "{gone}");
            assert_eq!(tail.position().file, kept);
        }
        // What a reader finds from now on lacks no record that a region needs.
        let reader = Arc::new(LogReader::open(&place, &folder()).expect("readable"));
        let mut tail = LogTail::after(&reader, folder());
        assert_eq!(more(&mut tail), [0; 0]);
        write(&log, sequence, Level::Os);
        assert_eq!(more(&mut tail), [sequence]);
    }
}

/// Storage in which the first part of one log file cannot be written.
struct Unwritable {
    below: Memory,
    name: FileName,
}

impl storage::Overlay for Unwritable {
    fn below(&self) -> &dyn Files {
        &self.below
    }

    fn swap(
        &self,
        name: &FileName,
        expected: Option<&storage::Version>,
        new: &[u8],
    ) -> storage::Result<storage::Version> {
        if *name == self.name {
            return Err(storage::Error::new(storage::Kind::Failed, Outcome::DidNotHappen, name, "write"));
        }
        self.below.swap(name, expected, new)
    }
}

#[test]
fn a_tail_of_growing_files_goes_past_the_number_of_a_file_that_could_not_be_made() {
    let below = Memory::with(storage::Capabilities::NONE);
    let skipped = file_name(&folder(), 3);
    let store = Unwritable { below, name: skipped.join("00000000.part") };
    let place: Arc<dyn Files> =
        Arc::new(storage::Segmented::new(Arc::new(store), World::real(), Duration::ZERO));
    let (log, _) = Log::open(World::real(), Arc::clone(&place), folder(), options()).expect("new");
    let mut slow = LogTail::open(Arc::clone(&place), folder(), LogPosition::default());
    let mut fast = LogTail::open(Arc::clone(&place), folder(), LogPosition::default());
    assert_eq!(write_and_roll(&log, "a", 1), 1);
    write(&log, 2, Level::Os);
    assert_eq!(more(&mut fast), [1, 2]);
    log.roll().expect_err("file 3 cannot be made");
    log.roll().expect("file 4 can");
    assert_eq!(log.file_number(), 4);
    write(&log, 3, Level::Os);
    assert_eq!((more(&mut slow), more(&mut fast)), (vec![1, 2, 3], vec![3]));
}

/// An owner is suspended after it has recorded the number of its next file. The next owner seals the log, in which this
/// file is absent. Then the first owner creates the file and dies.
#[test]
fn a_tail_leaves_a_file_that_a_former_owner_created_after_the_next_one_had_sealed_the_log() {
    let base = Memory::with(storage::Capabilities::NONE);
    let (first, place) = growing(&base);
    write(&first, 1, Level::Os);
    let (epoch, last) = (first.epoch(), first.file_number());
    let orphan = last + 1;
    first.shared.claim.note_files(NotedFiles { first: last, last: orphan }).expect("it is the owner");
    let Sealed { claim, found } = seal_for_owner(&World::real(), &place, &folder(), "next").expect("sealed");
    assert_eq!(found.number_max, orphan);
    drop(make_file(&*place, &folder(), epoch, orphan).expect("nothing refuses it"));
    let mut tail = LogTail::open(Arc::clone(&place), folder(), LogPosition { file: orphan, offset: 0 });
    // The tail looks for other files from time to time until the next owner has begun one.
    (0..100).for_each(|_| assert_eq!(more(&mut tail), [0; 0]));
    assert_eq!(tail.position().file, orphan);
    let mut asked = LogTail::open(Arc::clone(&place), folder(), LogPosition { file: orphan, offset: 0 });
    assert_eq!(more(&mut asked), [0; 0]);
    let (next, epoch, offset) = (orphan + 1, claim.owner.epoch, HEADER_LENGTH as u64);
    claim.note_files(NotedFiles { first: last, last: next }).expect("it is the owner");
    let mut writer = make_file(&*place, &folder(), epoch, next).expect("begun");
    let mut payload = Vec::new();
    edit("a", 2, b"v").write(&mut payload);
    let batch = BatchHeader::of(next, offset, offset, &payload).to_bytes();
    writer.write(&[&batch, &*payload].concat()).and_then(|()| writer.sync()).expect("durable");
    asked.look_at_owner();
    assert_eq!(more(&mut asked), [2], "a client waits for what is acknowledged");
    let found: Vec<u64> = (0..20).flat_map(|_| more(&mut tail)).collect();
    assert_eq!(found, [2]);
}

/// Storage that counts the objects which are read, and the listings.
struct Counted {
    below: Memory,
    loads: AtomicU64,
    lists: AtomicU64,
}

impl storage::Overlay for Counted {
    fn below(&self) -> &dyn Files {
        &self.below
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> storage::Result<storage::Object> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        self.below.load(name, bytes_max)
    }

    fn list(&self, name: &FileName) -> storage::Result<Vec<storage::Entry>> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.below.list(name)
    }
}

#[test]
fn following_a_closed_log_costs_one_request_a_call_until_it_is_taken_over() {
    let base = Memory::with(storage::Capabilities::NONE);
    let (log, _) = growing(&base);
    write(&log, 1, Level::Os);
    let (loads, lists) = (AtomicU64::new(0), AtomicU64::new(0));
    let store = Arc::new(Counted { below: base.clone(), loads, lists });
    let below: Arc<dyn Files> = Arc::clone(&store) as Arc<dyn Files>;
    let place = Arc::new(storage::Segmented::new(below, World::real(), Duration::ZERO));
    let mut tail = LogTail::open(place, folder(), LogPosition::default());
    assert_eq!(more(&mut tail), [1]);
    log.close().expect("alive");
    drop(log);
    (0..3).for_each(|_| assert_eq!(more(&mut tail), [0; 0]));
    assert!(tail.is_at_end());
    let counts = || [&store.loads, &store.lists].map(|count| count.load(Ordering::Relaxed));
    let [loads, lists] = counts();
    (0..40).for_each(|_| assert_eq!(more(&mut tail), [0; 0]));
    assert_eq!(counts(), [loads + 40, lists]);
    let (log, _) = growing(&base);
    write(&log, 2, Level::Os);
    assert_eq!(more(&mut tail), [2], "a new owner has recorded itself");
    log.close().expect("alive");
}

#[test]
fn following_an_idle_log_costs_two_requests_a_call_and_each_20th_time_one_more() {
    let base = Memory::with(storage::Capabilities::NONE);
    let (log, _) = growing(&base);
    write(&log, 1, Level::Os);
    let store = Arc::new(Counted { below: base, loads: AtomicU64::new(0), lists: AtomicU64::new(0) });
    let below: Arc<dyn Files> = Arc::clone(&store) as Arc<dyn Files>;
    let place = Arc::new(storage::Segmented::new(below, World::real(), Duration::ZERO));
    let mut tail = LogTail::open(place, folder(), LogPosition::default());
    assert_eq!(more(&mut tail), [1]);
    let before = store.loads.load(Ordering::Relaxed);
    (0..40).for_each(|_| assert_eq!(more(&mut tail), [0; 0]));
    assert_eq!(store.loads.load(Ordering::Relaxed) - before, 2 * 40 + 2);
}

/// After an orderly stop the log may be deleted. Then the next owner begins it anew, with file 1.
#[test]
fn a_tail_says_that_a_log_which_was_begun_anew_is_another_one() {
    for files in [1, 3] {
        for is_closed in [true, false] {
            let base = Memory::with(storage::Capabilities::NONE);
            let (log, place) = growing(&base);
            (1..files).for_each(|sequence| _ = write_and_roll(&log, "a", sequence));
            write(&log, files, Level::Os);
            let reader = Arc::new(LogReader::open(&place, &folder()).expect("readable"));
            let mut tail = LogTail::after(&reader, folder());
            assert_eq!(more(&mut tail), [0; 0]);
            if is_closed {
                log.close().expect("alive");
                assert_eq!(more(&mut tail), [0; 0]);
                assert!(tail.is_at_end());
            }
            drop(log);
            for entry in base.list(&folder()).expect("listed") {
                base.delete(&entry.name).expect("deleted");
            }
            let (log, place) = growing(&base);
            write(&log, 9, Level::Os);
            tail.look_at_owner();
            let gone = tail.advance::<Error>(|_| Ok(())).expect_err("it is another log");
            assert!(matches!(gone, Error::Gone { .. }), "{gone}");
            let reader = Arc::new(LogReader::open(&place, &folder()).expect("readable"));
            let mut tail = LogTail::after(&reader, folder());
            assert_eq!((reader.sequences(b"a").expect("it has one").newest.0, more(&mut tail)), (9, vec![]));
        }
    }
}
