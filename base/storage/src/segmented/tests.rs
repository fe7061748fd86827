//! Runs the conformance suite on growing files, and tests races between a writer and the process that seals its file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use env::sync::Condvar;

use super::*;
use crate::conformance::check;
use crate::memory::Fault;
use crate::{Memory, SyncDone};

fn over(base: &Memory) -> Segmented {
    Segmented::new(Arc::new(base.clone()), World::real(), Duration::from_millis(100))
}

fn whole() -> Memory {
    Memory::with(Capabilities::NONE)
}

fn file(text: &str) -> FileName {
    FileName::new(text)
}

#[test]
fn growing_files_keep_the_rules_over_every_set_of_capabilities() {
    for capabilities in Capabilities::combinations() {
        check(&over(&Memory::with(capabilities)));
    }
}

#[test]
fn what_was_synced_is_found_after_a_crash_and_what_was_not_is_gone() {
    let base = whole();
    let mut writer = over(&base).create(&file("log/1")).expect("new");
    for part in [&b"one "[..], b"two ", b""] {
        writer.write(part).expect("kept");
        writer.sync().expect("durable");
    }
    writer.write(b"three").expect("kept");
    assert_eq!(writer.size(), 13);
    let after = over(&base.crash(1));
    assert_eq!(after.read(&file("log/1"), 100).expect("there"), b"one two ");
    assert_eq!(after.list(&file("log")).expect("listed"), [Entry { name: file("log/1"), size: 8 }]);
    let reader = after.open(&file("log/1")).expect("there");
    let mut middle = [0; 4];
    reader.read_at(2, &mut middle).expect("over the border of two parts");
    assert_eq!(&middle, b"e tw");
}

#[test]
fn a_put_that_reports_failure_but_happened_succeeds_at_any_part() {
    for act in 1..8 {
        for outcome in [Outcome::MayHaveHappened, Outcome::DidNotHappen] {
            let base = whole();
            base.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last: false }));
            let mut writer = over(&base).create(&file("log/1")).expect("repeated");
            for part in [b"one ", b"two "] {
                writer.write(part).expect("kept");
                writer.sync().expect("repeated");
            }
            writer.finish().expect("repeated");
            assert_eq!(
                over(&base).read(&file("log/1"), 100).expect("there"),
                b"one two ",
                "{act} {outcome:?}"
            );
        }
    }
}

#[test]
fn a_place_that_is_gone_fails_the_writer_for_good() {
    let base = whole();
    let mut writer = over(&base).create(&file("log/1")).expect("new");
    writer.write(b"one").expect("kept");
    let fault =
        Fault { act: base.acts() + 1, kind: Kind::Failed, outcome: Outcome::DidNotHappen, last: true };
    base.set_fault(Some(fault));
    let first = writer.sync().expect_err("nothing answers").to_string();
    assert_eq!(writer.write(b"two").expect_err("final").to_string(), first);
    assert_eq!(writer.finish().expect_err("final").to_string(), first);
}

/// A store that is down: each call takes [`REQUEST`], and is repeated until `deadline`, or for [`SETTLE`].
#[derive(Clone)]
struct Down {
    empty: Memory,
    world: World,
    deadline: Option<env::Moment>,
}

const REQUEST: Duration = Duration::from_secs(7);
const SETTLE: Duration = Duration::from_secs(30);

impl Down {
    fn repeat<T>(&self, name: &FileName) -> Result<T> {
        let deadline = self.deadline.unwrap_or_else(|| self.world.moment().plus(SETTLE));
        while deadline.since(self.world.moment()) > Duration::ZERO {
            self.world.pause(REQUEST.min(deadline.since(self.world.moment())));
        }
        Err(Error::new(Kind::Failed, Outcome::MayHaveHappened, name, "swap"))
    }
}

impl crate::Overlay for Down {
    fn below(&self) -> &dyn Files {
        &self.empty
    }

    fn load(&self, name: &FileName, _bytes_max: usize) -> Result<Object> {
        self.repeat(name)
    }

    fn swap(&self, name: &FileName, _expected: Option<&Version>, _new: &[u8]) -> Result<Version> {
        self.repeat(name)
    }

    fn settle(&self, name: &FileName, _expected: Option<&Version>, _new: &[u8]) -> Result<Settled> {
        self.repeat(name)
    }

    fn under_one_deadline(&self) -> Option<Arc<dyn Files>> {
        let deadline = Some(self.world.moment().plus(SETTLE));
        self.deadline.is_none().then(|| Arc::new(Down { deadline, ..self.clone() }) as _)
    }
}

#[test]
fn a_put_fails_after_its_patience_although_the_storage_below_repeats_requests_too() {
    let world = World::simulated(1, env::WallTime(0));
    let down = Down { empty: whole(), world: world.clone(), deadline: None };
    let began = world.moment();
    let failed = Segmented::new(Arc::new(down.clone()), world.clone(), SETTLE).create(&file("log/1"));
    assert_eq!(failed.err().expect("it is down").outcome(), Outcome::MayHaveHappened);
    assert_eq!(world.moment().since(began), SETTLE);
    let began = world.moment();
    swap_confirmed(&down, &file("list"), None, b"one").expect_err("it is down");
    assert_eq!(world.moment().since(began), SETTLE);
}

/// A request of the writer arrives after its file was sealed, read and deleted.
#[test]
fn a_seal_outlives_its_file() {
    let base = whole();
    let files = over(&base);
    let mut late = files.create(&file("log/1")).expect("new");
    late.write(b"acknowledged").expect("kept");
    late.sync().expect("durable");
    late.write(b"under way").expect("kept");
    files.seal(&file("log/1")).expect("sealed");
    files.delete(&file("log/1")).expect("deleted");
    assert!(files.list(&file("log")).expect("listed").is_empty(), "a seal is no file");
    assert_eq!(late.sync().expect_err("the seal is still there").kind(), Kind::Sealed);
    assert_eq!(files.open(&file("log/1")).err().expect("deleted").kind(), Kind::NotFound);
}

#[test]
fn parts_left_by_an_interrupted_deletion_are_deleted_and_nothing_else() {
    let base = whole();
    let files = over(&base);
    for name in ["log/1", "log/2", "log/3"] {
        let mut writer = files.create(&file(name)).expect("new");
        writer.write(b"bytes").expect("kept");
        writer.sync().expect("durable");
        files.seal(&file(name)).expect("sealed");
    }
    base.delete(&part::name(&file("log/2"), 0)).expect("the beginning of a deletion");
    files.delete(&file("log/3")).expect("deleted");
    assert_eq!(files.collect(&file("log")).expect("collected"), 1);
    assert_eq!(files.collect(&file("log")).expect("collected"), 0, "seals are left alone");
    let left: Vec<String> =
        base.list(&file("log")).expect("listed").iter().map(|entry| entry.name.to_string()).collect();
    let expected = ["1/00000000", "1/00000001", "1/00000002", "2/00000002", "3/00000002"];
    assert_eq!(left, expected.map(|name| format!("log/{name}.part")));
}

#[test]
fn a_gap_ends_a_file_and_damage_is_an_error() {
    let base = whole();
    let files = over(&base);
    let mut writer = files.create(&file("log/1")).expect("new");
    for part in [b"one ", b"two ", b"six "] {
        writer.write(part).expect("kept");
        writer.sync().expect("durable");
    }
    drop(writer);
    base.damage(&part::name(&file("log/1"), 2), |bytes| *bytes.last_mut().expect("not empty") ^= 1);
    let error = files.read(&file("log/1"), 100).expect_err("damaged").to_string();
    assert!(error.contains("log/1/00000002.part") && error.contains("checksum"), "{error}");
    base.delete(&part::name(&file("log/1"), 2)).expect("deleted");
    assert_eq!(files.read(&file("log/1"), 100).expect("up to the gap"), b"one ");
    files.seal(&file("log/1")).expect("sealed");
    assert_eq!(files.read(&file("log/1"), 100).expect("up to the seal"), b"one ");
}

#[test]
fn nothing_is_acknowledged_after_a_seal_that_its_reader_does_not_find() {
    for round in 0..300 {
        let base = whole();
        let files = over(&base);
        let name = file("log/1");
        let mut writer = files.create(&name).expect("new");
        let (acknowledged, is_sealed) = (AtomicU64::new(0), AtomicBool::new(false));
        let found = std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                loop {
                    let next = acknowledged.load(Ordering::SeqCst) + 1;
                    // For each part the writer makes one call and the sealer two, so the sealer might never catch up
                    // without this.
                    while next > 200 && !is_sealed.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                    writer.write(&next.to_be_bytes()).expect("kept");
                    match writer.sync() {
                        Ok(()) => acknowledged.store(next, Ordering::SeqCst),
                        Err(error) => return error.kind(),
                    }
                }
            });
            while acknowledged.load(Ordering::SeqCst) < round % 17 {
                std::thread::yield_now();
            }
            files.seal(&name).expect("sealed");
            is_sealed.store(true, Ordering::SeqCst);
            let found = files.read(&name, 1 << 20).expect("there").len() as u64 / 8;
            assert_eq!(writing.join().expect("no panic"), Kind::Sealed);
            found
        });
        assert_eq!(found, acknowledged.load(Ordering::SeqCst), "round {round}");
    }
}

#[test]
fn a_reader_that_follows_a_file_sees_each_part_the_end_and_the_deletion() {
    let base = whole();
    let files = over(&base);
    let mut writer = files.create(&file("log/1")).expect("new");
    let text = |reader: &Arc<dyn FileReader>| {
        let mut content = vec![0; reader.size() as usize];
        reader.read_at(0, &mut content).expect("there");
        String::from_utf8(content).expect("text")
    };
    let again = |reader: &Arc<dyn FileReader>| reader.as_growing().expect("it grows").grown();
    let mut reader = files.open(&file("log/1")).expect("there");
    for (part, seen) in [("one ", "one "), ("two ", "one two ")] {
        writer.write(part.as_bytes()).expect("kept");
        assert!(!again(&reader).expect("nothing new").as_growing().expect("it grows").is_ended());
        writer.sync().expect("durable");
        reader = again(&reader).expect("more");
        assert_eq!(text(&reader), seen);
    }
    // After a deletion there is no next part. The reader must report the deletion, and not that nothing was written.
    let paused = Arc::clone(&reader);
    writer.finish().expect("ended");
    reader = again(&reader).expect("the end");
    assert!(reader.as_growing().expect("it grows").is_ended());
    files.delete(&file("log/1")).expect("deleted");
    assert_eq!(again(&paused).map(drop).expect_err("gone").kind(), Kind::NotFound);
    // A seal ends a file, too.
    let mut writer = files.create(&file("log/2")).expect("new");
    let reader = files.open(&file("log/2")).expect("there");
    files.seal(&file("log/2")).expect("sealed");
    writer.write(b"late").expect("kept");
    writer.sync().expect_err("sealed");
    let reader = again(&reader).expect("there");
    assert!(reader.as_growing().expect("it grows").is_ended() && text(&reader).is_empty());
}

/// Storage that delays each `swap` by up to 1 ms at random, so that a later part may be stored before an earlier one.
struct Shuffling(Memory);

impl crate::Overlay for Shuffling {
    fn below(&self) -> &dyn Files {
        &self.0
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        World::real().pause(Duration::from_micros(World::real().random() % 1_000));
        self.0.swap(name, expected, new)
    }
}

/// The outcomes of later syncs with the numbers of the syncs, in the order in which they are reported.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<NumberedOutcome>>>);

/// The number of a sync and its outcome.
type NumberedOutcome = (u64, std::result::Result<(), Kind>);

impl Told {
    fn of(&self, number: u64) -> SyncDone {
        let told = self.clone();
        Box::new(move |outcome| told.0.lock().push((number, outcome.map_err(|error| error.kind()))))
    }

    /// Waits until the outcomes of `count` syncs were reported, because a thread reports them after the file's end is
    /// decided.
    fn wait_for(&self, count: usize) {
        for _ in 0..10_000 {
            if self.0.lock().len() >= count {
                return;
            }
            World::real().pause(Duration::from_millis(1));
        }
        panic!("{} of {count} syncs were reported", self.0.lock().len());
    }

    fn successes(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> =
            self.0.lock().iter().filter(|(_, outcome)| outcome.is_ok()).map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers
    }
}

#[test]
fn parts_that_are_sent_together_are_all_found_and_a_failure_ends_the_file_behind_it() {
    let base = whole();
    let mut writer = over(&base).create(&file("log/1")).expect("new");
    assert!(writer.syncs_at_once() > 1);
    let told = Told::default();
    for number in 0..40 {
        writer.write(&[number as u8]).expect("kept");
        writer.sync_later(told.of(number));
    }
    writer.sync_later(told.of(40));
    writer.sync().expect("durable");
    let expected: Vec<u8> = (0..40).collect();
    assert_eq!(over(&base).read(&file("log/1"), 100).expect("there"), expected);
    writer.finish().expect("ended");
    told.wait_for(41);
    assert_eq!(told.successes(), (0..=40).collect::<Vec<_>>(), "each is reported once");

    let mut writer = over(&base).create(&file("log/2")).expect("new");
    base.swap(&part::name(&file("log/2"), 3), None, &[0; part::HEADER_LENGTH]).expect("in the way");
    let told = Told::default();
    for number in 1..=8 {
        let _failed_by_then = writer.write(b"x");
        writer.sync_later(told.of(number));
    }
    writer.sync().expect_err("a part is in the way");
    assert_eq!(writer.finish().map(drop).expect_err("final").kind(), Kind::Failed);
    told.wait_for(8);
    assert_eq!(told.successes(), [1, 2]);
    assert_eq!(told.0.lock().len(), 8, "each is reported once");
}

/// The sync of a part succeeds only when a reader of the sealed file finds the part, whatever is stored out of order.
#[test]
fn with_parts_side_by_side_nothing_is_acknowledged_that_the_sealer_does_not_find() {
    let mut gaps = 0;
    for round in 0..200 {
        let base = whole();
        let files =
            Segmented::new(Arc::new(Shuffling(base.clone())), World::real(), Duration::from_millis(100));
        let name = file("log/1");
        let mut writer = files.create(&name).expect("new");
        let told = Told::default();
        let (found, again) = std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                for number in 1..=60_u64 {
                    let Ok(()) = writer.write(&number.to_be_bytes()) else { break };
                    writer.sync_later(told.of(number));
                }
                let _failed = writer.sync();
                writer
            });
            while (told.successes().len() as u64) < round % 23 {
                std::thread::yield_now();
            }
            files.seal(&name).expect("sealed");
            let found = files.read(&name, 1 << 20).expect("there");
            drop(writing.join().expect("no panic"));
            // Requests under way may arrive late.
            World::real().pause(Duration::from_millis(3));
            (found, files.read(&name, 1 << 20).expect("there"))
        });
        assert_eq!(found, again, "round {round}: parts after the seal do not belong to the file");
        let listed = over(&base).list(&file("log")).expect("listed");
        assert_eq!(listed[0].size, found.len() as u64, "round {round}: nor is it listed");
        let found = found.len() as u64 / 8;
        let stored = base.list(&name).expect("listed").len() as u64;
        // There are more objects than the parts found, the first part and the seal: so parts were stored after the
        // seal.
        gaps += u64::from(stored > found + 2);
        let acknowledged = told.successes();
        assert!(
            acknowledged.iter().all(|number| *number <= found),
            "round {round}: {acknowledged:?}, {found}"
        );
        files.seal(&name).expect("it is sealed");
        assert_eq!(files.read(&name, 1 << 20).expect("there"), again, "round {round}: sealed again");
    }
    assert!(gaps > 0, "parts were stored after the seal in {gaps} rounds");
}

#[test]
fn the_requests_of_a_log_count_against_its_budget() {
    let (world, second) = (World::simulated(1, env::WallTime(0)), Duration::from_secs(1));
    let within = |owner: u64| {
        let budget = RequestBudget::new(world.beside(owner), second, Duration::from_secs(100));
        over(&whole()).within(budget)
    };
    let owed = |files: &Segmented| files.sync_pause(Duration::ZERO);
    let files = within(1);
    assert_eq!(owed(&files), Duration::ZERO);
    let mut writer = files.create(&file("log/1")).expect("new");
    assert_eq!(owed(&files), second, "the first part");
    for requests in 2..5 {
        writer.write(b"x").expect("kept");
        writer.sync_later(Box::new(drop));
        assert_eq!(owed(&files), second * requests, "before the part is stored");
    }
    writer.sync().expect("durable");
    assert_eq!(owed(&files), second * 4, "nothing was left to write");
    files.swap(&file("log/OWNER"), None, b"x").expect("new");
    writer.finish().expect("whole");
    assert_eq!(owed(&files), second * 6);
    // A put that did not happen is sent again.
    let base = whole();
    base.set_fault(Some(Fault { act: 1, kind: Kind::Failed, outcome: Outcome::DidNotHappen, last: false }));
    let budget = RequestBudget::new(world.beside(2), second, Duration::from_secs(100));
    let failing = over(&base).within(budget);
    failing.create(&file("log/1")).expect("repeated");
    assert_eq!(owed(&failing), second * 2);
    // Storage without a budget never asks for a pause.
    let free = over(&whole());
    free.create(&file("log/1")).expect("new");
    assert_eq!(owed(&free), Duration::ZERO);
}

/// Storage that counts listings and loads. The first `gathered` loads wait for each other.
struct Gathering {
    below: Memory,
    gathered: usize,
    lists: AtomicU64,
    loads: Mutex<Vec<FileName>>,
    loaded: Condvar,
}

impl crate::Overlay for Gathering {
    fn below(&self) -> &dyn Files {
        &self.below
    }

    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        self.below.list(folder)
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        let mut loads = self.loads.lock();
        loads.push(name.clone());
        self.loaded.notify_all();
        while loads.len() < self.gathered {
            let waited = self.loaded.wait_for(&mut loads, Duration::from_secs(20));
            assert!(!waited.timed_out(), "{} loads at once, expected {}", loads.len(), self.gathered);
        }
        drop(loads);
        self.below.load(name, bytes_max)
    }
}

#[test]
fn files_opened_together_take_one_listing_and_one_request_for_each_part_many_at_once() {
    const PARTS: usize = 30;
    let base = whole();
    let names = [file("log/3"), file("log/2"), file("log/1")];
    for (index, name) in names.iter().enumerate() {
        let mut writer = over(&base).create(name).expect("new");
        for number in 0..PARTS as u64 {
            writer.write(&number.to_be_bytes()).expect("kept");
            writer.sync().expect("durable");
        }
        // The newest file is still written.
        if index > 0 {
            writer.finish().expect("ended");
        }
    }
    let counting = Arc::new(Gathering {
        below: base,
        gathered: 64,
        lists: AtomicU64::new(0),
        loads: Mutex::default(),
        loaded: Condvar::new(),
    });
    let below = Arc::clone(&counting) as Arc<dyn Files>;
    let files = Segmented::new(below, World::real(), Duration::ZERO).reading(64);
    let opened = files.open_all(&names);
    for reader in opened {
        let reader = reader.expect("there");
        let mut content = vec![0; PARTS * 8];
        reader.read_at(0, &mut content).expect("whole");
        let expected: Vec<u8> = (0..PARTS as u64).flat_map(u64::to_be_bytes).collect();
        assert_eq!(content, expected);
    }
    assert_eq!(counting.lists.load(Ordering::SeqCst), 1);
    let loads = counting.loads.lock().len();
    // The first part, and the end of an ended file. The other file takes two requests: for the next part, which does not
    // exist, and for the first part, which shows that the file was not deleted.
    assert_eq!(loads, 3 * (PARTS + 1) + 2 + 2);
}

/// Storage whose listings have only the first two parts of a file, as if the others were written just then. It counts how many
/// loads run at once.
struct Lagging {
    below: Memory,
    running: AtomicU64,
    most: AtomicU64,
}

impl crate::Overlay for Lagging {
    fn below(&self) -> &dyn Files {
        &self.below
    }

    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        let mut entries = self.below.list(folder)?;
        entries.truncate(2);
        Ok(entries)
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        World::real().pause(Duration::from_millis(5));
        let loaded = self.below.load(name, bytes_max);
        self.running.fetch_sub(1, Ordering::SeqCst);
        loaded
    }
}

#[test]
fn a_file_that_grows_while_it_is_opened_is_read_by_several_requests_at_once() {
    const PARTS: u64 = 40;
    let base = whole();
    let mut writer = over(&base).create(&file("log/1")).expect("new");
    for number in 0..PARTS {
        writer.write(&number.to_be_bytes()).expect("kept");
        writer.sync().expect("durable");
    }
    let lagging = Arc::new(Lagging { below: base, running: AtomicU64::new(0), most: AtomicU64::new(0) });
    let below = Arc::clone(&lagging) as Arc<dyn Files>;
    let opened = Segmented::new(below, World::real(), Duration::ZERO).open(&file("log/1")).expect("there");
    assert_eq!(opened.size(), PARTS * 8);
    assert!(lagging.most.load(Ordering::SeqCst) > 1, "one request after the other never reaches the end");
}

/// The readers of a log that is larger than the memory drop parts, and request them again when they are needed.
#[test]
fn readers_keep_no_more_parts_than_their_memory_permits() {
    const PART: usize = 1_000;
    let base = whole();
    for name in ["log/1", "log/2"] {
        let mut writer = over(&base).create(&file(name)).expect("new");
        for number in 0..20 {
            writer.write(&[number; PART]).expect("kept");
            writer.sync().expect("durable");
        }
        writer.finish().expect("ended");
    }
    let limit = 10 * PART as u64;
    let files = over(&base).keeping(limit);
    let names = [file("log/2"), file("log/1")];
    let opened: Vec<_> = files.open_all(&names).into_iter().map(|opened| opened.expect("there")).collect();
    assert!((1..=limit).contains(&files.kept.bytes()), "{} bytes", files.kept.bytes());
    for _ in 0..2 {
        for reader in &opened {
            for number in 0..20_u8 {
                let mut found = [0; PART];
                reader.read_at(u64::from(number) * PART as u64, &mut found).expect("there");
                assert!(found.iter().all(|byte| *byte == number), "part {number}");
                assert!((1..=limit).contains(&files.kept.bytes()), "{} bytes", files.kept.bytes());
            }
        }
    }
    drop(opened);
    assert_eq!(files.kept.bytes(), 0);
    let all = over(&base).keeping(100 * PART as u64);
    let reader = all.open(&file("log/1")).expect("there");
    reader.read_at(0, &mut [0; 20 * PART]).expect("there");
    assert!(all.kept.bytes() > 20 * PART as u64, "all parts are kept if there is room");
}
