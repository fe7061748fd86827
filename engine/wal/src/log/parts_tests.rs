//! Tests of a log whose files grow part by part: how many parts there are, and how often a start reads each.

use std::time::Duration;

use env::HashMap;
use storage::{Capabilities, Entry, Memory, Object, Overlay, Segmented};

use super::tests::{edit, replayed};
use super::*;

fn folder() -> FileName {
    FileName::new("WALs")
}

fn growing(below: Arc<dyn Files>) -> Arc<dyn Files> {
    Arc::new(Segmented::new(below, World::real(), Duration::from_secs(1)))
}

fn open(below: Arc<dyn Files>, parts_max: usize) -> (Log, LogReader) {
    let options = Options { parts_max, ..Options::default() };
    Log::open(World::real(), growing(below), folder(), options).expect("taken")
}

fn write(log: &Log, region: &str, sequence: u64) {
    let ticket = log.append(&edit(region, sequence, b"x")).expect("alive");
    log.sync_blocking(ticket, Level::Disk).expect("durable");
}

/// Returns the number of parts in the store.
fn stored_parts(base: &Memory) -> usize {
    base.list(&folder())
        .expect("listed")
        .iter()
        .filter(|entry| entry.name.as_str().ends_with(".part"))
        .count()
}

/// Flushes the regions that the log asks for, as a server does. Returns their names.
fn flush_asked(log: &Log, through: u64) -> Vec<String> {
    let asked = log.regions_holding_back(0);
    asked.iter().for_each(|region| log.flushed(region, SequenceId(through)));
    log.tidy();
    asked.iter().map(|region| String::from_utf8_lossy(region).into_owned()).collect()
}

#[test]
fn under_single_puts_the_parts_of_the_log_are_bounded_and_each_region_flushes_once_a_file() {
    const LIMIT: usize = 100;
    let base = Memory::with(Capabilities::NONE);
    let (log, _) = open(Arc::new(base.clone()), LIMIT);
    let (mut most, mut flushes) = (0, HashMap::<String, u64>::default());
    for sequence in 1..=1_000 {
        write(&log, "busy", sequence);
        // This region has only one write in each file.
        if sequence % 40 == 0 {
            write(&log, "rare", sequence);
        }
        if log.has_grown() {
            flush_asked(&log, sequence)
                .into_iter()
                .for_each(|region| *flushes.entry(region).or_default() += 1);
        }
        most = most.max(log.parts());
    }
    let rolls = log.file_number() - 1;
    // Beside the writes a file has parts for its header and its end. A seal stays for each file of an earlier owner.
    assert!((20..=25).contains(&rolls), "{rolls} files ended");
    assert!(most <= LIMIT + 5, "{most} parts, at most {LIMIT} expected");
    assert!(stored_parts(&base) <= LIMIT + 5, "{} parts in the store", stored_parts(&base));
    for (region, count) in flushes {
        assert!(count <= rolls, "{region} was flushed {count} times for {rolls} files");
    }
}

#[test]
fn parts_that_a_killed_owner_has_left_count_and_without_a_limit_no_region_is_asked() {
    let base = Memory::with(Capabilities::NONE);
    let (log, _) = open(Arc::new(base.clone()), 0);
    for sequence in 1..=300 {
        write(&log, "a", sequence);
    }
    assert_eq!(log.file_number(), 1);
    assert!(log.parts() > 300);
    let killed = base.kill();
    let (unlimited, _) = open(Arc::new(killed.clone()), 0);
    assert!(unlimited.regions_holding_back(0).is_empty());
    let (log, recovered) = open(Arc::new(killed.kill()), 300);
    assert_eq!(replayed(&recovered, "a").len(), 300);
    assert!(log.parts() > 300);
    assert_eq!(flush_asked(&log, 300), ["a"]);
    assert!(log.parts() < 10, "{} parts", log.parts());
}

/// Storage that counts how often each object is loaded.
struct CountedLoads {
    below: Memory,
    loads: Mutex<HashMap<FileName, u32>>,
}

impl Overlay for CountedLoads {
    fn below(&self) -> &dyn Files {
        &self.below
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> storage::Result<Object> {
        *self.loads.lock().entry(name.clone()).or_default() += 1;
        self.below.load(name, bytes_max)
    }
}

#[test]
fn a_start_and_the_replay_read_each_part_once() {
    let base = Memory::with(Capabilities::NONE);
    let (log, _) = open(Arc::new(base.clone()), 100);
    for sequence in 1..=240 {
        write(&log, "a", sequence);
    }
    assert!(log.file_number() > 3);
    let killed = base.kill();
    let parts: Vec<Entry> = killed.list(&folder()).expect("listed");
    let counted = Arc::new(CountedLoads { below: killed, loads: Mutex::default() });
    let (_log, recovered) = open(Arc::clone(&counted) as Arc<dyn Files>, 100);
    assert_eq!(replayed(&recovered, "a").len(), 240);
    let loads = counted.loads.lock();
    let again = parts.iter().map(|entry| &entry.name).filter(|name| loads.get(name).is_some_and(|&n| n > 1));
    let again: Vec<&FileName> = again.collect();
    // The first part and the last are also read to seal a file; of the newest file the second part, too, which shows that
    // the owner has not given up the file; and the owner's object.
    let expected = 2 * log.file_number() as usize + 2;
    assert!(again.len() <= expected, "{} objects were read again: {again:?}", again.len());
}

#[test]
fn a_log_that_is_closed_after_all_flushes_leaves_few_parts_for_the_next_start() {
    let base = Memory::with(Capabilities::NONE);
    let (log, first) = open(Arc::new(base.clone()), 0);
    assert!(first.was_closed(), "nobody had it");
    (1..=50).for_each(|sequence| write(&log, "a", sequence));
    log.flushed(b"a", SequenceId(50));
    log.close().expect("sound");
    let counted = Arc::new(CountedLoads { below: base.clone(), loads: Mutex::default() });
    let (log, recovered) = open(Arc::clone(&counted) as Arc<dyn Files>, 0);
    assert!(recovered.was_closed() && recovered.is_empty());
    let loads = counted.loads.lock().values().sum::<u32>();
    assert!(loads < 20, "{loads} loads");
    // What a region still needs stays.
    (51..=100).for_each(|sequence| write(&log, "a", sequence));
    log.close().expect("sound");
    let (log, recovered) = open(Arc::new(base.clone()), 0);
    assert!(recovered.was_closed() && replayed(&recovered, "a").len() == 50);
    write(&log, "a", 101);
    let (_log, recovered) = open(Arc::new(base.kill()), 0);
    assert!(!recovered.was_closed());
}
