//! Runs the conformance suite on every implementation of this crate, and tests what each implementation adds.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::conformance::check;
use crate::memory::Fault;
use crate::{
    Capabilities, Capability, FileName, FileReader, FileWriter, Files, Kind, Local, Memory, Outcome,
    ReserveState, Settled,
};

fn name(text: &str) -> FileName {
    FileName::new(text)
}

fn write(files: &dyn Files, at: &str, bytes: &[u8]) {
    let mut writer = files.create(&name(at)).expect("new");
    writer.write(bytes).expect("written");
    writer.finish().expect("durable");
}

/// A temporary folder of one test, which is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let unique = env::World::real().random();
        Folder(std::env::temp_dir().join(format!("bellows-storage-{test}-{unique:x}")))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("the test's own folder");
    }
}

#[test]
fn local_keeps_the_rules() {
    let folder = Folder::new("rules");
    check(&Local::open(folder.0.join("made/on/the/way")).expect("new"));
}

#[test]
fn memory_keeps_the_rules_with_every_set_of_capabilities() {
    for capabilities in Capabilities::combinations() {
        let place = Memory::with(capabilities);
        assert_eq!(place.capabilities(), capabilities);
        check(&place);
    }
}

#[test]
fn an_unfinished_file_of_a_place_without_synced_prefixes_is_lost_by_a_crash() {
    for seed in 0..10 {
        let place = Memory::with(Capabilities::NONE);
        write(&place, "whole", b"durable");
        let mut writer = place.create(&name("part")).expect("new");
        writer.write(b"written").expect("written");
        let after = place.crash(seed);
        assert_eq!(after.read(&name("whole"), 100).expect("finished"), b"durable");
        assert_eq!(after.open(&name("part")).err().expect("never published").kind(), Kind::NotFound);
        assert_eq!(after.capabilities(), Capabilities::NONE);
    }
}

#[test]
fn a_swap_that_may_have_happened_is_undone_by_a_crash_or_not_until_it_is_settled() {
    let survives = |settled: bool, seed: u64| {
        let (place, object) = (Memory::new(), name("o/list"));
        let first = place.swap(&object, None, b"first").expect("new");
        place.set_fault(Some(Fault {
            act: 2,
            kind: Kind::Failed,
            outcome: Outcome::MayHaveHappened,
            last: false,
        }));
        let error = place.swap(&object, Some(&first), b"second").expect_err("the fault");
        assert_eq!(error.outcome(), Outcome::MayHaveHappened);
        if settled {
            let found = place.settle(&object, Some(&first), b"second").expect("decided");
            assert!(matches!(found, Settled::Happened(_)));
        }
        place.crash(seed).read(&object, 100).expect("one of the two") == b"second"
    };
    let count = |settled| (0..40).filter(|&seed| survives(settled, seed)).count();
    assert!((1..40).contains(&count(false)), "{}", count(false));
    assert_eq!(count(true), 40);
}

#[test]
fn a_folder_is_held_by_one_at_a_time() {
    let folder = Folder::new("lock");
    let first = Local::open(&folder.0).expect("new");
    let error = Local::open(&folder.0).expect_err("held");
    assert_eq!(error.kind(), Kind::InUse);
    let words = error.to_string();
    assert!(
        words.contains(&std::process::id().to_string()) && words.contains(&*folder.0.to_string_lossy()),
        "{words}"
    );
    assert!(words.contains(&format!(": process {} has the folder", std::process::id())), "{words}");
    drop(first);
    Local::open(&folder.0).expect("free again");
}

#[test]
fn a_crash_keeps_what_was_synced_and_no_more_than_was_written() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let place = Memory::new();
        let mut writer = place.create(&name("log")).expect("new");
        writer.write(b"durable").expect("written");
        writer.sync().expect("durable");
        writer.write(&[b'n'; 2_000]).expect("written");
        let mut unnamed = place.create(&name("new")).expect("new");
        unnamed.write(b"x").expect("written");
        let after = place.crash(seed);
        let found = after.read(&name("log"), 10_000).expect("its name was synced");
        let rest = found.strip_prefix(b"durable").unwrap_or_else(|| panic!("seed {seed}"));
        assert!(rest.len() <= 2_000 && rest.iter().all(|byte| [b'n', 0].contains(byte)), "seed {seed}");
        seen.insert(found);
        assert!(writer.write(b"more").is_err(), "the old place is gone");
    }
    assert!(seen.iter().any(|found| found.len() < 2_007), "some are cut");
    assert!(seen.iter().any(|found| found.len() == 2_007 && found.ends_with(&[0])), "some end in zeros");
    assert!(seen.iter().any(|found| found.contains(&0) && found.ends_with(b"n")), "some have a hole");
}

#[test]
fn a_crash_leaves_old_bytes_where_new_ones_were_not_synced() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let place = Memory::new();
        write(&place, "old", &[b'o'; 20_000]);
        let mut writer = place.reuse_space(&name("log"), &name("old"), b"mark").expect("there");
        let marked = place.copy().crash(seed).read(&name("log"), 20_000).expect("its name is durable");
        assert!(marked.starts_with(b"marko") && marked.len() == 20_000);
        writer.write(b"durable").expect("written");
        writer.sync().expect("durable");
        writer.write(&[b'n'; 10_000]).expect("written");
        let after = place.crash(seed);
        assert_eq!(after.open(&name("old")).err().expect("gone for good").kind(), Kind::NotFound);
        let found = after.read(&name("log"), 20_000).expect("its name is durable");
        let rest = found.strip_prefix(b"durable").unwrap_or_else(|| panic!("seed {seed}"));
        assert!(rest[10_000..].iter().all(|byte| b"o\0".contains(byte)), "seed {seed}");
        // The rest of the first page was written as zeros with `durable`, and became durable together with it.
        assert!(rest[..4_089].iter().all(|byte| b"n\0".contains(byte)), "seed {seed}");
        assert!(rest[4_089..10_000].iter().all(|byte| b"no".contains(byte)), "seed {seed}");
        seen.insert(found);
    }
    let is = |found: &[u8], at: usize, byte: u8| found[at] == byte;
    assert!(
        seen.iter().any(|found| is(found, 10_006, b'n') && is(found, 5_000, b'o')),
        "some have a hole of the old"
    );
    assert!(
        seen.iter().any(|found| is(found, 100, b'n') && is(found, 10_006, b'o')),
        "some have a front alone"
    );
    assert!(
        seen.iter().any(|found| is(found, 100, 0) && is(found, 10_006, b'o')),
        "some have nothing of the new"
    );
}

#[test]
fn what_was_deleted_may_come_back_until_its_folder_is_synced() {
    let came_back = |sync_between: bool| {
        (0..40)
            .filter(|seed| {
                let place = Memory::new();
                write(&place, "folder/old", b"content");
                place.delete(&name("folder/old")).expect("there");
                if sync_between {
                    write(&place, "folder/new", b"");
                }
                place.crash(*seed).open(&name("folder/old")).is_ok()
            })
            .count()
    };
    assert!((1..40).contains(&came_back(false)), "{}", came_back(false));
    assert_eq!(came_back(true), 0);
}

#[test]
fn many_threads_create_and_delete_files_in_one_folder() {
    let folder = Folder::new("folders");
    let local = Local::open(&folder.0).expect("new");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let local = &local;
            scope.spawn(move || {
                for round in 0..1_000 {
                    let file = name(&format!("deep/down/{thread}-{round}"));
                    drop(local.create(&file).expect("its folder is made again"));
                    local.delete(&file).expect("there");
                }
            });
        }
    });
    assert_eq!(local.list(&FileName::root()).expect("listed"), []);
}

#[test]
fn each_act_can_be_made_to_fail() {
    let place = Arc::new(Memory::new());
    place.set_fault(Some(Fault {
        act: 2,
        kind: Kind::Failed,
        outcome: Outcome::MayHaveHappened,
        last: false,
    }));
    let mut writer = place.create(&name("f")).expect("the first act");
    let error = writer.write(b"abc").expect_err("the second");
    assert_eq!(error.outcome(), Outcome::MayHaveHappened);
    assert_eq!(writer.size(), 3, "it happened");
    writer.sync().expect("the third");
    place.set_bytes_max(Some(4));
    assert_eq!(writer.write(b"de").expect_err("full").kind(), Kind::Full);
    assert_eq!(place.bytes_free().expect("known"), 0);
}

#[test]
fn what_a_killed_process_wrote_is_durable_once_the_next_one_syncs_it() {
    for seed in 0..40 {
        let place = Memory::new();
        place.create(&name("log")).expect("new").write(b"never synced").expect("written");
        let place = place.kill();
        place.sync(&name("log")).expect("there");
        assert_eq!(place.crash(seed).read(&name("log"), 100).expect("named"), b"never synced", "seed {seed}");
    }
}

#[test]
fn after_a_kill_a_crash_still_brings_back_a_deleted_file_whose_folder_was_not_synced() {
    let is_back = |seed: u64| {
        let place = Memory::new();
        let mut writer = place.create(&name("f")).expect("new");
        writer.write(b"abc").expect("written");
        writer.finish().expect("durable");
        place.delete(&name("f")).expect("deleted");
        place.kill().crash(seed).read(&name("f"), 100).is_ok()
    };
    assert!((0..40).any(is_back));
    assert!(!(0..40).all(is_back));
}

#[test]
fn bytes_that_a_failed_sync_has_lost_never_become_durable() {
    for seed in 0..40 {
        let place = Memory::new();
        let mut writer = place.create(&name("f")).expect("new");
        writer.write(b"abc").expect("written");
        writer.sync().expect("durable");
        writer.write(b"def").expect("written");
        place.lose_unsynced(&name("f"));
        writer.write(b"ghi").expect("written");
        writer.sync().expect("it reports success");
        assert_eq!(place.read(&name("f"), 100).expect("there"), b"abcdefghi", "the system still has them");
        let kept = place.copy().crash(seed).read(&name("f"), 100).expect("there");
        assert!(kept.starts_with(b"abc") && kept != b"abcdefghi", "seed {seed}: {kept:?}");
        writer.cut(3).expect("cut");
        writer.write(b"jkl").expect("written");
        writer.sync().expect("durable");
        assert_eq!(place.crash(seed).read(&name("f"), 100).expect("there"), b"abcjkl", "seed {seed}");
    }
}

#[test]
fn bytes_that_were_lost_and_forgotten_are_read_as_a_crash_leaves_them() {
    let mut read = std::collections::BTreeSet::new();
    for length in 1..3_000 {
        let place = Memory::new();
        let mut writer = place.create(&name("f")).expect("new");
        writer.write(b"abc").expect("written");
        writer.sync().expect("durable");
        writer.write(&vec![b'd'; length]).expect("written");
        place.forget(&name("f"));
        let all = place.read(&name("f"), 4_000).expect("there");
        assert_eq!(all.len(), 3 + length, "no sync has failed: the system will write them");
        let fault =
            Fault { act: place.acts() + 1, kind: Kind::Failed, outcome: Outcome::DidNotHappen, last: false };
        place.set_fault(Some(fault));
        assert!(writer.sync().is_err());
        assert_eq!(place.read(&name("f"), 4_000).expect("there"), all, "the system still has them");
        place.forget(&name("f"));
        let left = place.read(&name("f"), 4_000).expect("there");
        assert!(left.starts_with(b"abc"));
        assert_eq!(place.crash(length as u64).read(&name("f"), 4_000).expect("there"), left, "durable");
        read.insert(left == all);
    }
    assert!(read.contains(&false), "some are lost");
}

#[test]
fn a_file_on_disk_is_forgotten_without_harm() {
    let folder = Folder::new("forget");
    let place = Local::open(&folder.0).expect("new");
    let mut writer = place.create(&name("f")).expect("new");
    writer.write(b"abc").expect("written");
    place.forget(&name("f"));
    writer.write(b"def").expect("written");
    writer.sync().expect("durable");
    place.forget(&name("f"));
    place.forget(&name("absent"));
    assert_eq!(place.read(&name("f"), 100).expect("there"), b"abcdef");
}

#[test]
fn the_reserve_is_for_small_objects_and_files_that_are_created_for_it() {
    let place = Memory::new();
    place.set_reserve(1_000);
    place.set_bytes_max(Some(1_000));
    let mut ordinary = place.create(&name("data")).expect("a name takes no room");
    assert_eq!(ordinary.write(b"x").expect_err("full").kind(), Kind::Full);
    assert_eq!(place.reserve_state(), ReserveState::Kept);
    let mut needed = place.create_reserved(&name("log")).expect("a name takes no room");
    assert_eq!(
        needed.write(b"x").expect_err("full").kind(),
        Kind::Full,
        "the caller decides about the reserve"
    );
    place.swap(&name("object"), None, &[0; 600]).expect("written by the reserve");
    assert_eq!(place.reserve_state(), ReserveState::Spent);
    let refused = ordinary.write(b"x").expect_err("the rest is not for it");
    assert_eq!((refused.kind(), refused.outcome()), (Kind::Full, Outcome::DidNotHappen));
    needed.write(b"x").expect("the rest is for it");
    let mut attempts = 0;
    let failed = crate::with_reserve(&place, || {
        attempts += 1;
        needed.write(&[0; 1_000]).inspect_err(|_| needed.cut(1).expect("cut"))
    });
    assert_eq!((failed.expect_err("full").kind(), attempts), (Kind::Full, 1), "it is spent already");
    place.set_bytes_max(Some(1_200));
    ordinary.write(b"x").expect("half of the reserve stays free");
    ordinary.write(&[0; 100]).expect_err("it would not");
    place.set_bytes_max(Some(2_500));
    assert_eq!(
        place.keep_reserve().expect("the state"),
        ReserveState::Spent,
        "less than twice its size is free"
    );
    place.set_bytes_max(Some(4_000));
    assert_eq!(place.keep_reserve().expect("the state"), ReserveState::Kept);
    ordinary.write(b"x").expect("there is room");
}

#[test]
fn the_reserve_of_a_disk_outlives_the_process_that_spends_it() {
    let folder = Folder::new("reserve");
    let file = folder.0.join(crate::RESERVE);
    let size = || std::fs::metadata(&file).map(|found| found.len()).ok();
    let place = Local::open(&folder.0).expect("new");
    assert_eq!((place.reserve_state(), size()), (ReserveState::None, None), "nobody has asked for it");
    assert!(!place.spend_reserve());
    assert_eq!(place.keep_reserve().expect("there is room"), ReserveState::Kept);
    assert!(size().is_some_and(|size| size >= 1 << 20), "{:?}", size());
    assert!(place.list(&FileName::root()).expect("listed").is_empty(), "it is no file of the caller");
    assert!(place.spend_reserve() && !place.spend_reserve());
    assert_eq!((place.reserve_state(), size()), (ReserveState::Spent, Some(0)));
    drop(place);
    let place = Local::open(&folder.0).expect("free");
    assert_eq!(place.reserve_state(), ReserveState::Spent);
    let mut ordinary = place.create(&name("data")).expect("new");
    ordinary.write(b"x").expect("half of the reserve stays free");
    place.create_reserved(&name("log")).and_then(|mut file| file.write(b"x")).expect("it may use the rest");
    assert_eq!(place.keep_reserve().expect("there is room"), ReserveState::Kept);
    ordinary.write(b"x").expect("there is room");
    drop(place);
    assert_eq!(Local::open(&folder.0).expect("free").reserve_state(), ReserveState::Kept);
}

/// Storage for tests: the first `wrong` reads or writes, as the test chooses, change one byte and report success.
struct Lying {
    below: Memory,
    wrong: Arc<AtomicUsize>,
    lies: Lies,
}

impl Lying {
    /// Returns the counter of the calls of this kind that are still to go wrong.
    fn wrong_calls_of(&self, kind: Lies) -> Arc<AtomicUsize> {
        if self.lies == kind { Arc::clone(&self.wrong) } else { Arc::default() }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Lies {
    Reads,
    Writes,
}

impl crate::Overlay for Lying {
    fn below(&self) -> &dyn Files {
        &self.below
    }

    fn create(&self, name: &FileName) -> crate::Result<Box<dyn FileWriter>> {
        let writer = self.below.create(name)?;
        let wrong = self.wrong_calls_of(Lies::Writes);
        Ok(Box::new(LyingWriter { writer, wrong }))
    }

    fn open(&self, name: &FileName) -> crate::Result<Arc<dyn FileReader>> {
        let reader = self.below.open(name)?;
        let wrong = self.wrong_calls_of(Lies::Reads);
        Ok(Arc::new(LyingReader { reader, wrong }))
    }
}

/// Whether this call goes wrong; counts the call.
fn is_wrong(wrong: &AtomicUsize) -> bool {
    wrong.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

struct LyingWriter {
    writer: Box<dyn FileWriter>,
    wrong: Arc<AtomicUsize>,
}

impl FileWriter for LyingWriter {
    fn name(&self) -> &FileName {
        self.writer.name()
    }

    fn size(&self) -> u64 {
        self.writer.size()
    }

    fn write(&mut self, bytes: &[u8]) -> crate::Result<()> {
        let mut bytes = bytes.to_vec();
        if is_wrong(&self.wrong) {
            bytes[0] ^= 1;
        }
        self.writer.write(&bytes)
    }

    fn finish(self: Box<Self>) -> crate::Result<u64> {
        self.writer.finish()
    }

    fn abandon(self: Box<Self>) {
        self.writer.abandon();
    }
}

struct LyingReader {
    reader: Arc<dyn FileReader>,
    wrong: Arc<AtomicUsize>,
}

impl FileReader for LyingReader {
    fn size(&self) -> u64 {
        self.reader.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> crate::Result<()> {
        self.reader.read_at(offset, buffer)?;
        if is_wrong(&self.wrong) {
            buffer[0] ^= 1;
        }
        Ok(())
    }
}

#[test]
fn a_copy_with_a_wrong_byte_is_written_again() {
    let content: Vec<u8> = (0..(2 << 20) + 5_u32).map(|at| (at % 251) as u8).collect();
    for lies in [Lies::Reads, Lies::Writes] {
        for wrong in 0..4 {
            let files = Lying { below: Memory::new(), wrong: Arc::new(AtomicUsize::new(0)), lies };
            write(&files, "source", &content);
            files.wrong.store(wrong, Ordering::Relaxed);
            let source = files.open(&name("source")).expect("there");
            assert_eq!(crate::copy(&*source, &files, &name("copy")).expect("copied"), content.len() as u64);
            assert_eq!(files.read(&name("copy"), 4 << 20).expect("there"), content, "{wrong} wrong calls");
        }
    }
}

/// A source of a copy. Instead of its read number `reads`, from 0, `then` runs.
struct Interrupted<F> {
    inner: Arc<dyn FileReader>,
    reads: AtomicUsize,
    then: F,
}

impl<F: Fn() -> crate::Result<()> + Send + Sync> FileReader for Interrupted<F> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> crate::Result<()> {
        if self.reads.fetch_sub(1, Ordering::SeqCst) == 0 {
            (self.then)()?;
        }
        self.inner.read_at(offset, buffer)
    }
}

#[test]
fn a_copy_whose_source_another_process_has_deleted_stays() {
    for was_there in [false, true] {
        let files = Memory::with(Capabilities::NONE);
        let (source, copy) = (name("source"), name("copy"));
        write(&files, "source", b"content");
        if was_there {
            write(&files, "copy", b"content");
        }
        let inner = files.open(&source).expect("there");
        let then = || files.delete(&source);
        let from = Interrupted { inner, reads: AtomicUsize::new(1), then };
        let error = crate::copy_unless_there(&from, &files, &copy).expect_err("the source is gone");
        assert_eq!(error.kind(), Kind::NotFound);
        assert_eq!(files.read(&copy, 100).expect("the only copy"), b"content", "{was_there}");
    }
}

/// A process is replaced while it copies a file. Its successor copies the file, too, and deletes the source. Then a read
/// of the process fails, first in the comparison, then before its copy is complete.
#[test]
fn a_failed_copy_does_not_delete_the_copy_of_another_process() {
    let of_hdfs = Capabilities::ALL.without(Capability::OneProcess);
    for (capabilities, reads) in [(Capabilities::NONE, 1), (of_hdfs, 1), (of_hdfs, 0)] {
        let files = Memory::with(capabilities);
        let (source, copy) = (name("source"), name("copy"));
        write(&files, "source", b"content");
        let inner = files.open(&source).expect("there");
        let then = || {
            let successor = files.open(&source)?;
            crate::copy_unless_there(&*successor, &files, &copy)?;
            files.delete(&source)?;
            Err(crate::Error::new(Kind::Failed, Outcome::DidNotHappen, &source, "read"))
        };
        let from = Interrupted { inner, reads: AtomicUsize::new(reads), then };
        let error = crate::copy(&from, &files, &copy).expect_err("a read failed");
        assert_eq!(error.kind(), Kind::Failed, "{error}");
        assert_eq!(files.read(&copy, 100).expect("the only copy"), b"content", "{reads}");
    }
}

#[test]
fn an_existing_file_counts_as_the_copy_if_it_has_the_same_bytes() {
    let files = Memory::with(Capabilities::NONE);
    write(&files, "source", b"content");
    let source = files.open(&name("source")).expect("there");
    for existing in [&b"content"[..], b"another"] {
        files.delete(&name("copy")).expect("deleted");
        write(&files, "copy", existing);
        let size = crate::copy_unless_there(&*source, &files, &name("copy")).expect("copied");
        assert_eq!((size, files.read(&name("copy"), 100).expect("there")), (7, b"content".to_vec()));
    }
}

#[test]
fn a_copy_that_stays_wrong_is_an_error_and_leaves_nothing() {
    let files = Lying { below: Memory::new(), wrong: Arc::new(AtomicUsize::new(0)), lies: Lies::Writes };
    write(&files, "source", b"0123456789");
    files.wrong.store(usize::MAX, Ordering::Relaxed);
    let source = files.open(&name("source")).expect("there");
    let error = crate::copy(&*source, &files, &name("copy")).expect_err("always wrong");
    assert_eq!((error.kind(), error.outcome()), (Kind::Failed, Outcome::DidNotHappen));
    assert!(error.to_string().contains("differed from its source 3 times"), "{error}");
    assert_eq!(files.open(&name("copy")).err().expect("deleted").kind(), Kind::NotFound);
}
