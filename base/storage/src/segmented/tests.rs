//! Runs the conformance suite on growing files, and tests races between a writer and the process that seals its file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::Memory;
use crate::conformance::check;
use crate::memory::Fault;

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
fn a_put_that_happened_and_failed_is_no_failure_at_any_part() {
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
fn what_a_deletion_that_was_cut_short_has_left_is_collected_and_nothing_else() {
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
