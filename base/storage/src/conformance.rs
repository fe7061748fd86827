//! What every place must do: one suite, run against each.

use std::path::PathBuf;
use std::sync::Arc;

use crate::memory::Fault;
use crate::{FileName, Files, Kind, Local, Memory, Outcome, ZEROS_MIN};

fn name(text: &str) -> FileName {
    FileName::new(text)
}

fn write(files: &dyn Files, at: &str, bytes: &[u8]) {
    let mut writer = files.create(&name(at)).expect("new");
    writer.write(bytes).expect("written");
    assert_eq!(writer.finish().expect("durable"), bytes.len() as u64);
}

fn check(files: &dyn Files) {
    write(files, "a/b/one", b"0123456789");
    write(files, "a/two", b"");
    write(files, "ab", b"x");

    // A finished file is read by place; its end is an error, not silence.
    let reader = files.open(&name("a/b/one")).expect("there");
    let mut buffer = [0; 4];
    reader.read_at(3, &mut buffer).expect("inside");
    assert_eq!((&buffer, reader.size()), (b"3456", 10));
    assert_eq!(reader.read_at(7, &mut buffer).expect_err("past the end").kind(), Kind::TooShort);
    assert_eq!(files.read(&name("a/b/one"), 9).expect_err("over the limit").kind(), Kind::TooLarge);

    // Names are given once.
    assert_eq!(files.create(&name("a/b/one")).err().expect("taken").kind(), Kind::Exists);
    assert_eq!(files.open(&name("a/none")).err().expect("absent").kind(), Kind::NotFound);
    assert_eq!(files.open(&name("a/b")).err().expect("a folder").kind(), Kind::NotFound);

    // A folder is more than a prefix.
    let listed = |folder: &str| -> Vec<String> {
        let folder = if folder.is_empty() { FileName::root() } else { name(folder) };
        files.list(&folder).expect("listed").into_iter().map(|entry| entry.name.as_str().to_owned()).collect()
    };
    assert_eq!(listed("a"), ["a/b/one", "a/two"]);
    assert_eq!(listed(""), ["a/b/one", "a/two", "ab"]);
    assert_eq!(listed("nowhere"), Vec::<String>::new());

    // An open file outlives its name.
    files.delete(&name("a/b/one")).expect("deleted");
    files.delete(&name("a/b/one")).expect("what is gone may be deleted");
    reader.read_at(0, &mut buffer).expect("still open");
    assert_eq!(listed("a"), ["a/two"]);

    // Swaps see what they replace.
    let object = name("o/list");
    files.swap(&object, None, b"first").expect("absent as expected");
    assert_eq!(files.swap(&object, None, b"again").expect_err("it is there").kind(), Kind::Conflict);
    assert_eq!(files.swap(&object, Some(b"other"), b"x").expect_err("changed").kind(), Kind::Conflict);
    files.swap(&object, Some(b"first"), b"second").expect("as expected");
    assert_eq!(files.read(&object, 100).expect("there"), b"second");

    // What was taken back is gone, and writing goes on there.
    let mut writer = files.create(&name("c/cut")).expect("new");
    writer.write(b"kept and taken back").expect("written");
    writer.cut(5).expect("cut");
    assert_eq!(writer.size(), 5);
    writer.write(b"too").expect("written");
    assert_eq!(writer.finish().expect("durable"), 8);
    assert_eq!(files.read(&name("c/cut"), 100).expect("there"), b"kept too");

    // What is abandoned leaves no name.
    let mut writer = files.create(&name("a/gone")).expect("new");
    writer.write(b"half").expect("written");
    assert_eq!(writer.size(), 4);
    writer.sync().expect("durable");
    writer.abandon();
    assert_eq!(listed("a"), ["a/two"]);

    // A file in the space of another has what was written, and of the other what was not, behind zeros, until it is finished.
    write(files, "d/old", &[b'o'; 10_000]);
    let missing = files.create_over(&name("d/new"), &name("d/none"), b"mark");
    assert_eq!(missing.err().expect("absent").kind(), Kind::NotFound);
    let taken = files.create_over(&name("a/two"), &name("d/old"), b"mark");
    assert_eq!(taken.err().expect("taken").kind(), Kind::Exists);
    for (at, written) in [(1, 3_000), (2, 4_085), (3, 4_096), (4, 9_990)] {
        let (new, old) =
            (format!("d/{at}"), if at == 1 { "d/old".to_owned() } else { format!("d/{}", at - 1) });
        let mut writer = files.create_over(&name(&new), &name(&old), b"mark").expect("there");
        assert_eq!(writer.size(), 0);
        assert_eq!(listed("d"), [new.as_str()]);
        assert!(files.read(&name(&new), 10_000).expect("there").starts_with(b"markoooo"));
        writer.write(b"first").expect("written");
        writer.write(&vec![b'n'; written - 5]).expect("written");
        writer.sync().expect("durable");
        assert_eq!(writer.size(), written as u64);
        let found = files.read(&name(&new), 10_000).expect("there");
        let (front, rest) = found.split_at(written);
        assert_eq!((front.starts_with(b"firstnn"), found.len()), (true, 10_000));
        let zeros = rest.iter().take_while(|&&byte| byte == 0).count();
        assert!(
            zeros >= ZEROS_MIN.min(rest.len()) && (written + zeros).is_multiple_of(4_096)
                || zeros == rest.len()
        );
        assert!(rest[zeros..].iter().all(|&byte| byte == b'o'));
        writer.write(&[b'n'; 20_000][written..]).expect("beyond the old end");
        assert_eq!(writer.finish().expect("durable"), 20_000);
        let found = files.read(&name(&new), 20_000).expect("there");
        assert_eq!(&found[..7], b"firstnn");
        assert!(found[7..].iter().all(|&byte| byte == b'n'));
        files.delete(&name(&new)).expect("there");
        write(files, &new, &[b'o'; 10_000]);
    }
    let over = |new: &str, old: &str| files.create_over(&name(new), &name(old), b"mark").expect("there");
    let mut writer = over("d/5", "d/4");
    writer.write(b"short").expect("written");
    assert_eq!(writer.finish().expect("durable"), 5);
    assert_eq!(files.read(&name("d/5"), 100).expect("there"), b"short", "nothing of the old is left");
    let mut writer = over("d/6", "d/5");
    writer.write(b"no more").expect("written");
    writer.cut(2).expect("cut");
    writer.write(b"w").expect("written");
    assert_eq!((files.read(&name("d/6"), 100).expect("there"), writer.size()), (b"now".to_vec(), 3));
    writer.abandon();
    assert_eq!(listed("d"), Vec::<String>::new());

    // What another life left is made durable by name.
    files.sync(&name("a/two")).expect("there");
    assert_eq!(files.sync(&name("a/gone")).expect_err("absent").kind(), Kind::NotFound);
}

/// A folder of its own for a test, removed at the end.
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
fn memory_keeps_the_rules() {
    check(&Memory::new());
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
        let mut writer = place.create_over(&name("log"), &name("old"), b"mark").expect("there");
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
        // Zeros of the page that was begun first are durable with it.
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
fn files_come_and_go_in_one_folder_from_many_threads() {
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
    assert_eq!(place.bytes_free().expect("known"), Some(0));
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
