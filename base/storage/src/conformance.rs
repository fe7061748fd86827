//! The conformance suite: every implementation of [`Files`] passes it, with any set of capabilities.
//!
//! The suite tests the calls that the implementation's capabilities allow. It also tests that every other call is
//! refused and changes nothing.

use crate::{Capability, FileName, Files, Kind, Outcome, Settled, Version, ZEROS_MIN};

fn name(text: &str) -> FileName {
    FileName::new(text)
}

fn write(files: &dyn Files, at: &str, bytes: &[u8]) {
    let mut writer = files.create(&name(at)).expect("new");
    writer.write(bytes).expect("written");
    assert_eq!(writer.finish().expect("durable"), bytes.len() as u64);
}

fn listed(files: &dyn Files, folder: &str) -> Vec<String> {
    let folder = if folder.is_empty() { FileName::root() } else { name(folder) };
    files.list(&folder).expect("listed").into_iter().map(|entry| entry.name.as_str().to_owned()).collect()
}

/// Runs the suite on `files`, which must be empty.
///
/// # Panics
/// When a promise of [`Files`] is not kept.
pub fn check(files: &dyn Files) {
    finished_files(files);
    reading_after_deletion(files);
    swaps(files);
    settling(files);
    cutting(files);
    syncing(files);
    sealing(files);
    reusing_space(files);
    measuring(files);
    linking(files);
}

fn linking(files: &dyn Files) {
    let (one, two) = (name("linked/one"), name("linked/folder/two"));
    write(files, "linked/one", b"0123456789");
    files.link(&one, &two).expect("linked");
    assert_eq!(files.link(&one, &two).expect_err("taken").kind(), Kind::Exists);
    assert_eq!(
        files.link(&name("linked/three"), &name("linked/four")).expect_err("nothing").kind(),
        Kind::NotFound
    );
    files.delete(&one).expect("deleted");
    assert_eq!(files.read(&two, 10).expect("on its own"), b"0123456789");
    assert_eq!(listed(files, "linked"), ["linked/folder/two"]);
    files.delete(&two).expect("deleted");
}

fn refused<T>(result: crate::Result<T>, what: &str) {
    let error = result.err().unwrap_or_else(|| panic!("{what} without the capability"));
    assert_eq!((error.kind(), error.outcome()), (Kind::Unsupported, Outcome::DidNotHappen), "{what}");
}

fn finished_files(files: &dyn Files) {
    write(files, "a/b/one", b"0123456789");
    write(files, "a/two", b"");
    write(files, "ab", b"x");

    // A finished file is read at offsets. A read past its end fails.
    let reader = files.open(&name("a/b/one")).expect("there");
    let mut buffer = [0; 4];
    reader.read_at(3, &mut buffer).expect("inside");
    assert_eq!((&buffer, reader.size()), (b"3456", 10));
    reader.read_at(6, &mut buffer).expect("the last bytes");
    assert_eq!(&buffer, b"6789");
    reader.read_at(10, &mut []).expect("nothing at the end");
    assert_eq!(reader.read_at(7, &mut buffer).expect_err("past the end").kind(), Kind::TooShort);
    assert_eq!(reader.read_at(70, &mut buffer).expect_err("past the end").kind(), Kind::TooShort);
    assert_eq!(files.read(&name("a/b/one"), 9).expect_err("over the limit").kind(), Kind::TooLarge);
    assert_eq!(files.open(&name("a/two")).expect("an empty file").size(), 0);

    // If two writers use one name, the second fails: when it creates the file, or when it finishes it.
    let second = files.create(&name("a/b/one")).and_then(|mut writer| {
        writer.write(b"other")?;
        writer.finish()
    });
    assert_eq!(second.expect_err("taken").kind(), Kind::Exists);
    assert_eq!(files.read(&name("a/b/one"), 100).expect("there"), b"0123456789");
    assert_eq!(files.open(&name("a/none")).err().expect("absent").kind(), Kind::NotFound);
    assert_eq!(files.open(&name("a/b")).err().expect("a folder").kind(), Kind::NotFound);

    // A listing of a folder does not contain names that only begin with the folder's name.
    assert_eq!(listed(files, "a"), ["a/b/one", "a/two"]);
    assert_eq!(listed(files, ""), ["a/b/one", "a/two", "ab"]);
    assert_eq!(listed(files, "nowhere"), Vec::<String>::new());

    // A file that was abandoned is not listed.
    let mut writer = files.create(&name("a/gone")).expect("new");
    writer.write(b"half").expect("written");
    assert_eq!((writer.size(), writer.name()), (4, &name("a/gone")));
    writer.abandon();
    assert_eq!(listed(files, "a"), ["a/b/one", "a/two"]);
    assert_eq!(files.open(&name("a/gone")).err().expect("given up").kind(), Kind::NotFound);

    // A file can be written by many calls.
    let mut writer = files.create(&name("a/many")).expect("new");
    (0..1_000_u32).for_each(|part| writer.write(&part.to_be_bytes()).expect("written"));
    assert_eq!(writer.finish().expect("durable"), 4_000);
    let all: Vec<u8> = (0..1_000_u32).flat_map(u32::to_be_bytes).collect();
    assert_eq!(files.read(&name("a/many"), 4_000).expect("there"), all);
    files.delete(&name("a/many")).expect("deleted");
}

fn reading_after_deletion(files: &dyn Files) {
    let reader = files.open(&name("a/b/one")).expect("there");
    files.delete(&name("a/b/one")).expect("deleted");
    files.delete(&name("a/b/one")).expect("a file that is gone may be deleted");
    match reader.read_at(0, &mut [0; 4]) {
        Ok(()) => {}
        Err(error) if files.capabilities().has(Capability::ReadAfterDelete) => panic!("still open: {error}"),
        Err(error) => assert_eq!(error.kind(), Kind::NotFound),
    }
    assert_eq!(listed(files, "a"), ["a/two"]);
}

fn swaps(files: &dyn Files) {
    let object = name("o/list");
    assert_eq!(files.load(&object, 100).expect_err("absent").kind(), Kind::NotFound);
    let none = Version::new(*b"of nothing");
    let absent = files.swap(&object, Some(&none), b"x").expect_err("there is no object");
    assert_eq!((absent.kind(), absent.outcome()), (Kind::Conflict, Outcome::DidNotHappen));
    let first = files.swap(&object, None, b"first").expect("absent as expected");
    assert_eq!(files.swap(&object, None, b"again").expect_err("it is there").kind(), Kind::Conflict);
    let found = files.load(&object, 100).expect("there");
    assert_eq!((found.content.as_slice(), &found.version), (&b"first"[..], &first));
    assert_eq!(files.load(&object, 4).expect_err("over the limit").kind(), Kind::TooLarge);
    let second = files.swap(&object, Some(&first), b"second").expect("as expected");
    let late = files.swap(&object, Some(&first), b"x").expect_err("changed meanwhile");
    assert_eq!((late.kind(), late.outcome()), (Kind::Conflict, Outcome::DidNotHappen));
    assert_eq!(files.read(&object, 100).expect("there"), b"second");
    let third = files.swap(&object, Some(&second), b"").expect("an object may be empty");
    assert_eq!(files.load(&object, 100).expect("there").version, third);
    files.delete(&object).expect("deleted");
    assert_eq!(files.swap(&object, Some(&third), b"x").expect_err("it is gone").kind(), Kind::Conflict);
}

fn settling(files: &dyn Files) {
    let object = name("o/settled");
    let settle =
        |expected: Option<&Version>, new: &[u8]| files.settle(&object, expected, new).expect("decided");
    // Settling a swap that has not happened may carry it out.
    let happens = |expected: Option<&Version>, new: &[u8]| match settle(expected, new) {
        Settled::DidNotHappen => files.swap(&object, expected, new).expect("as expected"),
        Settled::Happened(version) => version,
        Settled::Replaced => panic!("nobody else writes"),
    };
    let first = happens(None, b"first");
    assert_eq!(settle(None, b"first"), Settled::Happened(first.clone()));
    let second = happens(Some(&first), b"second");
    assert_eq!(settle(Some(&first), b"second"), Settled::Happened(second.clone()));
    files.swap(&object, Some(&second), b"third").expect("as expected");
    assert_eq!(settle(Some(&first), b"second"), Settled::Replaced);
    files.delete(&object).expect("deleted");
}

fn cutting(files: &dyn Files) {
    let mut writer = files.create(&name("c/cut")).expect("new");
    writer.write(b"kept and taken back").expect("written");
    if !files.capabilities().has(Capability::Cut) {
        refused(writer.cut(5), "cut");
        assert_eq!(writer.finish().expect("as if nothing had been asked"), 19);
        files.delete(&name("c/cut")).expect("deleted");
        return;
    }
    writer.cut(5).expect("cut");
    assert_eq!(writer.size(), 5);
    writer.write(b"too").expect("written");
    assert_eq!(writer.finish().expect("durable"), 8);
    assert_eq!(files.read(&name("c/cut"), 100).expect("there"), b"kept too");
    files.delete(&name("c/cut")).expect("deleted");
}

fn syncing(files: &dyn Files) {
    let mut writer = files.create(&name("s/log")).expect("new");
    writer.write(b"a part").expect("written");
    if !files.capabilities().has(Capability::SyncPrefix) {
        refused(writer.sync(), "sync");
        files.sync(&name("a/two")).expect("what can be read is durable");
        assert_eq!(listed(files, "s"), Vec::<String>::new(), "a file appears when it is finished");
        assert_eq!(files.open(&name("s/log")).err().expect("not finished").kind(), Kind::NotFound);
        assert_eq!(writer.finish().expect("durable"), 6);
        files.delete(&name("s/log")).expect("deleted");
        return;
    }
    assert_eq!(files.create(&name("s/log")).err().expect("taken").kind(), Kind::Exists);
    writer.sync().expect("durable");
    assert_eq!(listed(files, "s"), ["s/log"]);
    // A reader that opens the file before it is sealed may find fewer bytes, but never other ones.
    assert!(b"a part".starts_with(&files.read(&name("s/log"), 100).expect("there")));
    drop(writer);
    files.seal(&name("s/log")).expect("sealed");
    assert_eq!(files.read(&name("s/log"), 100).expect("there"), b"a part");
    files.sync(&name("s/log")).expect("there");
    assert_eq!(files.sync(&name("s/none")).expect_err("absent").kind(), Kind::NotFound);
    files.delete(&name("s/log")).expect("deleted");
}

/// Tests that a file in reused space has the written bytes, then zeros, then the old file's bytes, until it is
/// finished.
fn sealing(files: &dyn Files) {
    let object = name("s/sealed");
    if !files.capabilities().has(Capability::SyncPrefix) {
        refused(files.seal(&object), "a seal");
        return;
    }
    assert_eq!(files.seal(&object).expect_err("absent").kind(), Kind::NotFound);
    let mut writer = files.create(&object).expect("new");
    writer.write(b"before").expect("written");
    let writes_through = files.capabilities().has(Capability::WriteThrough);
    if !writes_through {
        writer.sync().expect("durable");
    }
    files.seal(&object).expect("sealed");
    files.seal(&object).expect("sealed again");
    let written = writer.write(b"after");
    assert!(written.is_err() || !writes_through, "what is written through is refused at once");
    let told = [writer.sync().expect_err("sealed").kind(), writer.finish().expect_err("sealed").kind()];
    assert_eq!(told, [Kind::Sealed; 2]);
    assert!(written.is_ok() || written.is_err_and(|error| error.kind() == Kind::Sealed));
    assert_eq!(files.read(&object, 100).expect("there"), b"before");
    files.delete(&object).expect("deleted");
    assert_eq!(files.open(&object).err().expect("deleted").kind(), Kind::NotFound);
    // A file of the same name that is created later is a new file.
    if writes_through {
        write(files, "s/sealed", b"another");
    }
    write(files, "s/finished", b"another");
    files.seal(&name("s/finished")).expect("a finished file may be sealed");
    if files.capabilities().has(Capability::Cut) {
        let mut writer = files.create(&name("s/cut")).expect("new");
        writer.write(b"stays").expect("written");
        files.seal(&name("s/cut")).expect("sealed");
        assert_eq!(writer.cut(1).expect_err("sealed").kind(), Kind::Sealed);
        assert_eq!(files.read(&name("s/cut"), 100).expect("there"), b"stays");
    }
}

fn reusing_space(files: &dyn Files) {
    write(files, "d/old", &[b'o'; 10_000]);
    if !files.capabilities().has(Capability::ReuseSpace) {
        refused(files.reuse_space(&name("d/new"), &name("d/old"), b"mark"), "reuse");
        assert_eq!(files.read(&name("d/old"), 10_000).expect("as it was"), [b'o'; 10_000]);
        files.delete(&name("d/old")).expect("deleted");
        return;
    }
    let (syncs, cuts) =
        (files.capabilities().has(Capability::SyncPrefix), files.capabilities().has(Capability::Cut));
    let missing = files.reuse_space(&name("d/new"), &name("d/none"), b"mark");
    assert_eq!(missing.err().expect("absent").kind(), Kind::NotFound);
    let taken = files.reuse_space(&name("a/two"), &name("d/old"), b"mark");
    assert_eq!(taken.err().expect("taken").kind(), Kind::Exists);
    for (at, written) in [(1, 3_000), (2, 4_085), (3, 4_096), (4, 9_990)] {
        let (new, old) =
            (format!("d/{at}"), if at == 1 { "d/old".to_owned() } else { format!("d/{}", at - 1) });
        let mut writer = files.reuse_space(&name(&new), &name(&old), b"mark").expect("there");
        assert_eq!(writer.size(), 0);
        assert_eq!(listed(files, "d"), [new.as_str()]);
        assert!(files.read(&name(&new), 10_000).expect("there").starts_with(b"markoooo"));
        writer.write(b"first").expect("written");
        writer.write(&vec![b'n'; written - 5]).expect("written");
        if syncs {
            writer.sync().expect("durable");
        }
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
    let over = |new: &str, old: &str| files.reuse_space(&name(new), &name(old), b"mark").expect("there");
    let mut writer = over("d/5", "d/4");
    writer.write(b"short").expect("written");
    assert_eq!(writer.finish().expect("durable"), 5);
    assert_eq!(files.read(&name("d/5"), 100).expect("there"), b"short", "nothing of the old is left");
    let mut writer = over("d/6", "d/5");
    writer.write(b"no more").expect("written");
    if cuts {
        writer.cut(2).expect("cut");
        writer.write(b"w").expect("written");
        assert_eq!((files.read(&name("d/6"), 100).expect("there"), writer.size()), (b"now".to_vec(), 3));
    }
    writer.abandon();
    assert_eq!(listed(files, "d"), Vec::<String>::new());
}

fn measuring(files: &dyn Files) {
    if files.capabilities().has(Capability::FreeSpace) {
        assert!(files.bytes_free().expect("known") > 0);
    } else {
        refused(files.bytes_free(), "free space");
    }
    assert!(!files.place().is_empty());
}
