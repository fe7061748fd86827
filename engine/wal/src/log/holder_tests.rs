//! Tests which files are kept: for regions, for named holders, and for a time.

use std::time::Duration;

use env::WallTime;
use storage::Memory;

use super::back::file_name;
use super::tests::{edit, in_memory, replayed};
use super::*;

fn folder() -> FileName {
    FileName::new("WALs")
}

fn options() -> Options {
    Options { file_bytes_max: 2_000, idle_write: Duration::from_secs(3_600), ..Options::default() }
}

/// Writes `count` records after `last`, flushes them, and returns the sequence id of the last one.
fn write_and_flush(log: &Log, last: u64, count: u64) -> u64 {
    for sequence in last + 1..=last + count {
        let ticket = log.append(&edit("a", sequence, &[sequence as u8; 400])).expect("alive");
        log.sync_blocking(ticket, Level::Os).expect("alive");
    }
    log.flushed(b"a", SequenceId(last + count));
    last + count
}

fn numbers(place: &Memory) -> Vec<u64> {
    let listed = place.list(&folder()).expect("readable");
    let number = |entry: storage::Entry| entry.name.last().strip_suffix(".wal")?.parse().ok();
    let begun = |number: &u64| {
        let bytes = place.read(&file_name(&folder(), *number), 1 << 20).expect("there");
        bytes[20..28] == number.to_be_bytes()
    };
    listed.into_iter().filter_map(number).filter(begun).collect()
}

#[test]
fn a_file_that_backup_holds_is_neither_deleted_nor_reused_after_flushes() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    let backup = log.hold("backup").expect("durable");
    assert_eq!((backup.lowest(), backup.name()), (1, "backup"));
    let last = write_and_flush(&log, 0, 60);
    let now = log.file_number();
    assert!(now > 8);
    assert_eq!(numbers(&place), (1..=now).collect::<Vec<_>>(), "all are there");
    assert_eq!(log.shared.counts.reused.value(), 0, "and none is written over");
    assert_eq!(log.regions_holding_back(0), Vec::<Box<[u8]>>::new(), "no flush would help");
    // The holder has released nothing so far. So a reader finds even the files that no region needs any more.
    let files: Arc<dyn Files> = Arc::new(place.clone());
    let reader = LogReader::open(&files, &folder()).expect("sound");
    assert_eq!(replayed(&reader, "a").len() as u64, last);
    drop(reader);
    backup.advance(5).expect("durable");
    backup.advance(3).expect("what is smaller changes nothing");
    assert_eq!((backup.lowest(), log.holders()), (5, vec![("backup".into(), 5)]));
    assert_eq!(numbers(&place).first(), Some(&5));
    // One holder's release does not release the files of another holder.
    let replica = log.hold("replica").expect("durable");
    backup.release().expect("durable");
    assert_eq!(numbers(&place).first(), Some(&5), "{:?}", log.holders());
    replica.advance(log.file_number()).expect("durable");
    assert_eq!(numbers(&place).len(), 1);
    let last = write_and_flush(&log, last, 60);
    assert_eq!(replica.lowest(), now);
    replica.release().expect("durable");
    write_and_flush(&log, last, 60);
    assert!(log.shared.counts.reused.value() > 0, "once nobody holds files they are written over");
}

#[test]
fn a_holder_outlives_the_process_and_the_power() {
    for seed in 0..20 {
        let place = Memory::new();
        let (log, _) = in_memory(&place, options());
        write_and_flush(&log, 0, 20);
        let backup = log.hold("backup").expect("durable");
        let lowest = backup.lowest();
        write_and_flush(&log, 20, 20);
        drop((backup, log));
        let place = place.crash(seed);
        let (log, _) = in_memory(&place, options());
        assert_eq!(log.holders(), [("backup".into(), lowest)], "it is found, not begun");
        write_and_flush(&log, 40, 20);
        assert_eq!(numbers(&place)[0], lowest);
        let backup = log.hold("backup").expect("taken up");
        assert_eq!(backup.lowest(), lowest);
        backup.release().expect("durable");
        assert_eq!(numbers(&place).len(), 1);
        drop(log);
        let (log, _) = in_memory(&place.crash(seed), options());
        assert_eq!(log.holders(), [], "seed {seed}: what was released is not there again");
    }
}

#[test]
fn a_damaged_holder_holds_everything_until_it_begins_again() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    let last = write_and_flush(&log, 0, 40);
    let backup = log.hold("backup").expect("durable");
    let lowest = backup.lowest();
    drop((backup, log));
    place.damage(&folder().join("holders/backup"), |bytes| bytes[8] ^= 1);
    let (log, _) = in_memory(&place, options());
    assert_eq!(log.holders(), [("backup".into(), 0)]);
    write_and_flush(&log, last, 40);
    assert_eq!(numbers(&place)[0], lowest);
    let backup = log.hold("backup").expect("taken up");
    backup.advance(log.file_number()).expect("durable");
    assert_eq!(numbers(&place).len(), 1);
}

#[test]
fn a_file_is_kept_for_as_long_as_the_cleaner_waits() {
    let place = Memory::new();
    let world = World::simulated(1, WallTime(0));
    let options = Options { keep_unneeded: Duration::from_secs(600), ..options() };
    let (log, _) = Log::open(world.clone(), Arc::new(place.clone()), folder(), options).expect("new");
    let last = write_and_flush(&log, 0, 40);
    let now = log.file_number();
    assert_eq!(numbers(&place).len() as u64, now);
    world.advance(Duration::from_secs(599));
    log.tidy();
    assert_eq!(numbers(&place).len() as u64, now);
    world.advance(Duration::from_secs(1));
    log.tidy();
    assert_eq!(numbers(&place), [now]);
    write_and_flush(&log, last, 1);
}

#[test]
fn a_file_is_kept_while_a_client_may_repeat_a_call_whose_nonce_is_in_it() {
    let place = Memory::new();
    let world = World::simulated(1, WallTime(1_000_000));
    let options = Options { keep_nonces: Duration::from_secs(300), ..options() };
    let open =
        || Log::open(world.clone(), Arc::new(place.clone()), folder(), options.clone()).expect("sound");
    let nonces = |reader: &LogReader| {
        let mut found = Vec::new();
        let note = |record: &Record<'_>| {
            found.extend(record.nonce);
            Ok::<_, Error>(())
        };
        reader.replay(b"a", note).expect("sound");
        found
    };
    let (log, _) = open();
    let last = write_and_flush(&log, 0, 20);
    assert_eq!(numbers(&place).len(), 1, "no file is kept without a nonce");
    let with_nonce = log.file_number();
    log.append(&Record { nonce: Some((7, 8)), time: world.now(), ..edit("a", last + 1, b"sum") })
        .expect("alive");
    let last = write_and_flush(&log, last + 1, 20);
    assert_eq!(
        numbers(&place),
        [with_nonce, log.file_number()],
        "only the files with a young nonce are kept"
    );
    log.close().expect("sound");
    drop(log);
    // The file has its end and its index. A process that starts finds the nonce, and keeps the file, too.
    world.advance(Duration::from_secs(200));
    let (log, reader) = open();
    assert_eq!(nonces(&reader), [(7, 8)]);
    drop(reader);
    let last = write_and_flush(&log, last, 20);
    assert_eq!(numbers(&place), [with_nonce, log.file_number()]);
    // A process that was killed leaves a file without an index.
    log.append(&Record { nonce: Some((7, 9)), time: world.now(), ..edit("a", last + 1, b"sum") })
        .and_then(|ticket| log.sync_blocking(ticket, Level::Os))
        .expect("alive");
    log.flushed(b"a", SequenceId(last + 1));
    drop(log);
    let (log, reader) = open();
    let last = write_and_flush(&log, last + 1, 20);
    assert_eq!(nonces(&reader), [(7, 8), (7, 9)]);
    world.advance(Duration::from_secs(100));
    log.tidy();
    assert_eq!(numbers(&place).len(), 2, "the second nonce is young");
    world.advance(Duration::from_secs(200));
    log.tidy();
    assert_eq!(numbers(&place), [log.file_number()]);
    write_and_flush(&log, last, 1);
}

#[test]
fn files_that_are_kept_for_nonces_have_a_limited_size() {
    let place = Memory::new();
    let world = World::simulated(1, WallTime(1_000_000));
    let options = Options { keep_nonces: Duration::from_secs(300), ..options() };
    let (log, _) = Log::open(world.clone(), Arc::new(place.clone()), folder(), options).expect("new");
    log.shared.back().nonce_keeping.bytes_max = 7_000;
    for sequence in 1..=60 {
        let cells = [sequence as u8; 400];
        log.append(&Record { nonce: Some((1, sequence)), time: world.now(), ..edit("a", sequence, &cells) })
            .and_then(|ticket| log.sync_blocking(ticket, Level::Os))
            .expect("alive");
    }
    log.flushed(b"a", SequenceId(60));
    let now = log.file_number();
    assert_eq!(numbers(&place), [now - 2, now - 1, now], "the newest ones");
}

#[test]
fn a_holder_whose_object_could_not_be_written_holds_nothing() {
    use storage::memory::Fault;
    let place = Memory::new();
    let (log, _) = in_memory(&place, options());
    let (kind, outcome) = (storage::Kind::Failed, Outcome::DidNotHappen);
    place.set_fault(Some(Fault { act: place.acts() + 1, kind, outcome, last: false }));
    log.hold("backup").expect_err("the object could not be written");
    assert_eq!(log.holders(), []);
    place.set_fault(None);
    log.hold("no/name").expect_err("not the name of a file");
    log.hold("backup").expect("durable");
    // A swap takes effect but reports failure. The log must find out that it happened.
    let fault = Fault { act: place.acts() + 1, kind, outcome: Outcome::MayHaveHappened, last: false };
    place.set_fault(Some(fault));
    log.hold("replica").expect("it is there");
    let names: Vec<_> = log.holders().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["backup".into(), "replica".into()]);
    drop(log);
    assert_eq!(in_memory(&place, options()).0.holders().len(), 2);
}
