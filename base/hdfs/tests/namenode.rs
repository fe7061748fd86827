//! Tests against a real HDFS. `cargo xtask test --only hdfs` starts one and passes its address.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdfs::{Continued, Hdfs, Options, PartLimits};
use storage::{FileName, Files, Kind, Outcome, Version};

/// Returns the options for a folder that no other test and no earlier run uses.
fn options(test: &str) -> Options {
    static RUN: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let run = RUN.get_or_init(|| env::World::real().random());
    let url = std::env::var("BELLOWS_HDFS_URL")
        .expect("BELLOWS_HDFS_URL, as `cargo xtask test --only hdfs` sets it");
    let folder = format!("/tests/{run:x}/{test}");
    Options { owner: "the test".to_owned(), sync_max: Duration::from_secs(4), ..Options::new(url, folder) }
}

fn opened(test: &str, owner: &str) -> Hdfs {
    let hdfs = Hdfs::open(Options { owner: owner.to_owned(), ..options(test) }).expect("an address");
    hdfs.take().expect("HDFS answers");
    hdfs
}

fn name(text: &str) -> FileName {
    FileName::new(text)
}

#[test]
fn it_keeps_the_rules_of_storage() {
    storage::conformance::check(&opened("rules", "the test"));
}

#[test]
fn a_large_file_is_read_in_ranges() {
    let hdfs = opened("large", "the test");
    let content: Vec<u8> = (0..5_000_000_usize).map(|at| (at / 1_000 % 251) as u8).collect();
    let mut writer = hdfs.create(&name("large")).expect("new");
    content.chunks(100_000).for_each(|chunk| writer.write(chunk).expect("written"));
    assert_eq!(writer.finish().expect("durable"), content.len() as u64);
    let reader = hdfs.open(&name("large")).expect("there");
    let runtime = env::Runtime::start("reader", 1).expect("a runtime");
    for (offset, length) in [(0, 10), (999_995, 10), (1_234_567, 2_000_000), (4_999_990, 10)] {
        let mut found = vec![0; length];
        reader.read_at(offset as u64, &mut found).expect("inside");
        assert_eq!(found, content[offset..offset + length]);
        let read = reader.read_awaited(offset as u64, length).expect("reads can be awaited");
        let (done, awaited) = std::sync::mpsc::channel();
        drop(runtime.spawn(async move { done.send(read.await) }));
        assert_eq!(awaited.recv().expect("it ends").expect("inside"), content[offset..offset + length]);
    }
}

/// The previous owner continues after another process has taken the folder: none of its swaps and deletions takes
/// effect, and its errors name the new owner.
#[test]
fn of_two_owners_the_later_one_changes_the_folder_and_the_earlier_ones_error_names_it() {
    let first = opened("owners", "old:16020");
    let list = name("data/list");
    let one = first.swap(&list, None, b"one").expect("its own");
    let mut writer = first.create(&name("data/file")).expect("new");
    writer.write(b"bytes").expect("kept");
    writer.finish().expect("durable");
    let second = opened("owners", "new:16020");
    for late in [
        first.swap(&list, Some(&one), b"late").map(drop),
        first.swap(&name("data/other"), None, b"late").map(drop),
        first.settle(&list, Some(&one), b"late").map(drop),
        first.delete(&name("data/file")),
    ] {
        let error = late.expect_err("it has lost the folder");
        assert_eq!((error.kind(), error.outcome()), (Kind::InUse, Outcome::DidNotHappen), "{error}");
        assert!(error.to_string().contains("taken over by new:16020"), "{error}");
    }
    assert_eq!(second.read(&list, 100).expect("there"), b"one");
    assert_eq!(second.read(&name("data/file"), 100).expect("there"), b"bytes");
    second.swap(&list, Some(&one), b"two").expect("its own");
    let names: Vec<String> =
        second.list(&FileName::root()).expect("listed").iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(names, ["data/file", "data/list"], "owners are no files");
}

/// Many processes take the folder at once, and each that believes to own it swaps. No version may be swapped twice.
#[test]
fn owners_that_come_at_once_never_swap_from_one_version_twice() {
    let list = name("list");
    let start = opened("race", "start").swap(&list, None, &0_u64.to_be_bytes()).expect("new");
    let number = |version: &Version| u64::from_be_bytes(version.as_bytes().try_into().expect("eight bytes"));
    assert_eq!(number(&start), 0);
    let (swaps, owners) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for owner in 0..4 {
            let (list, swaps, owners) = (&list, &swaps, &owners);
            scope.spawn(move || {
                for _ in 0..3 {
                    let hdfs = Hdfs::open(Options { owner: owner.to_string(), ..options("race") });
                    let hdfs = hdfs.expect("an address");
                    if let Err(error) = hdfs.take() {
                        assert_eq!(error.kind(), Kind::InUse, "{error}");
                        continue;
                    }
                    owners.fetch_add(1, Ordering::Relaxed);
                    for _ in 0..5 {
                        let found = hdfs.load(list, 100).expect("there").version;
                        let next = (number(&found) + 1).to_be_bytes();
                        match hdfs.swap(list, Some(&found), &next) {
                            Ok(_) => swaps.fetch_add(1, Ordering::Relaxed),
                            Err(error) => {
                                assert!(matches!(error.kind(), Kind::InUse | Kind::Conflict), "{error}");
                                break;
                            }
                        };
                    }
                }
            });
        }
    });
    let last = opened("race", "end").load(&list, 100).expect("there").version;
    assert_eq!(number(&last), swaps.load(Ordering::Relaxed), "each swap counted once");
    assert!(owners.load(Ordering::Relaxed) > 0 && number(&last) > 0);
}

#[test]
fn a_folder_that_was_not_taken_is_read_and_not_changed() {
    opened("unowned", "the owner").swap(&name("list"), None, b"one").expect("its own");
    let reader = Hdfs::open(options("unowned")).expect("an address");
    let one = reader.load(&name("list"), 100).expect("there");
    let refused = [
        reader.swap(&name("list"), Some(&one.version), b"two").map(drop),
        reader.delete(&name("list")),
        reader.create(&name("file")).and_then(|mut writer| writer.sync()),
    ];
    for refused in refused {
        refused.expect_err("it is nobody's");
    }
    assert_eq!(reader.read(&name("list"), 100).expect("there"), b"one");
}

/// A writer is sealed in the middle of its syncs, by its own process or by the next owner. A reader must find exactly
/// the bytes whose sync was acknowledged.
#[test]
fn nothing_is_acknowledged_after_a_seal_that_its_reader_does_not_find() {
    for round in 0..4_u64 {
        let hdfs = opened(&format!("seal-{round}"), "the test");
        let file = name("log");
        let mut writer = hdfs.create(&file).expect("new");
        let acknowledged = Arc::new(AtomicU64::new(0));
        let found = std::thread::scope(|scope| {
            let told = Arc::clone(&acknowledged);
            let writing = scope.spawn(move || {
                loop {
                    let next = told.load(Ordering::SeqCst) + 1;
                    writer.write(&next.to_be_bytes()).expect("kept");
                    match writer.sync() {
                        Ok(()) => told.store(next, Ordering::SeqCst),
                        Err(error) => return error.kind(),
                    }
                }
            });
            while acknowledged.load(Ordering::SeqCst) < 3 * round {
                env::World::real().pause(Duration::from_millis(1));
            }
            let sealer =
                if round % 2 == 0 { hdfs.clone() } else { opened(&format!("seal-{round}"), "the next") };
            sealer.seal(&file).expect("sealed");
            let found = sealer.read(&file, 1 << 20).expect("there").len() as u64 / 8;
            assert_eq!(writing.join().expect("no panic"), Kind::Sealed, "round {round}");
            found
        });
        let acknowledged = acknowledged.load(Ordering::SeqCst);
        assert!(
            found == acknowledged || found == acknowledged + 1,
            "{found} found, {acknowledged} acknowledged"
        );
    }
}

/// Returns storage whose files all go on in other parts when a sync takes longer than `sync`.
fn continued(hdfs: Hdfs, sync: Duration) -> Continued<Hdfs> {
    let limits = PartLimits { sync, sync_max: Duration::from_secs(4), patience: Duration::from_secs(30) };
    Continued::new(hdfs, |_| true, limits, env::World::real())
}

#[test]
fn log_files_keep_the_rules_of_storage() {
    storage::conformance::check(&continued(opened("log-rules", "the test"), Duration::from_secs(4)));
}

/// The limit of a sync is too short for any DataNode, so the file goes on in parts until one has a limit that suffices.
/// The next owner finds all parts, and the writer begins no other one.
#[test]
fn a_log_file_in_parts_is_found_by_the_next_owner() {
    let (log, file) = (continued(opened("parts", "first"), Duration::from_micros(200)), name("log"));
    let mut writer = log.create(&file).expect("new");
    for number in 0..50_u64 {
        writer.write(&number.to_be_bytes()).expect("kept");
        writer.sync().expect("durable in some part");
    }
    let parts = log.base().list(&FileName::root()).expect("listed").len();
    assert!(parts > 1, "the file has no parts");
    let next = continued(opened("parts", "next"), Duration::from_secs(4));
    writer.write(b"late").expect("kept");
    let error = writer.sync().expect_err("it has lost the folder");
    assert!(matches!(error.kind(), Kind::Sealed | Kind::InUse), "{error}");
    next.seal(&file).expect("sealed");
    let reader = next.open(&file).expect("there");
    let mut found = vec![0; reader.size() as usize];
    reader.read_at(0, &mut found).expect("whole");
    let acknowledged: Vec<u8> = (0..50_u64).flat_map(u64::to_be_bytes).collect();
    assert!(found == acknowledged || found == [&acknowledged[..], b"late"].concat(), "{} bytes", found.len());
    next.delete(&file).expect("deleted");
    assert_eq!(next.base().list(&FileName::root()).expect("listed"), [], "no part is left");
}
