//! Tests of bulk loads: all files become files of the stores, or none does.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use cell::SequenceId;
use env::sync::Mutex;
use hfile::{StoreFileInfo, Writer, WriterOptions};
use storage::memory::Fault;
use storage::{Capabilities, Capability, FileReader, Kind, Outcome};

use super::file_life::{Server, rows};
use super::*;
use crate::commit::Commit;
use crate::view::View;

/// Writes a file as a job does: rows with one column each, whose cells have no sequence id. `column` is
/// `family:qualifier`.
pub(super) fn write_file(files: &Memory, name: &str, column: &str, timestamp: i64, rows: &[&str]) {
    let name = FileName::new(name);
    let file = files.create(&name).expect("new");
    let mut writer = Writer::create(file, name, WriterOptions::default());
    for row in rows {
        let (family, qualifier) = column.split_once(':').expect("family:qualifier");
        let cell = CellParts {
            row: row.as_bytes(),
            family: family.as_bytes(),
            qualifier: qualifier.as_bytes(),
            timestamp: Timestamp(timestamp),
            cell_type: CellType::Put,
            value: b"loaded",
            tags: b"",
        };
        let cell = cell.to_vec().expect("within limits");
        writer.append(Cell::trusted(&cell, SequenceId::ZERO)).expect("in order");
    }
    writer.finish(StoreFileInfo::default()).expect("durable");
}

/// Returns a load of files from `from`; files in the region's own storage are linked.
fn load(bench: &Bench, from: &Memory, paths: &[(&'static str, &str)]) -> BulkLoad {
    let file = |&(family, path): &(&'static str, &str)| {
        let name = FileName::new(path);
        let is_own = bench.files.open(&name).is_ok();
        BulkFile {
            family: family.into(),
            path: path.to_owned(),
            file: from.open(&name),
            within: is_own.then_some(name),
        }
    };
    let files = paths.iter().map(file).collect();
    BulkLoad { files, assign_sequence: true, copy: false, token: Some("token".to_owned()) }
}

fn own(bench: &Bench, paths: &[(&'static str, &str)]) -> BulkLoad {
    load(bench, &bench.files, paths)
}

fn is_loaded(outcome: &Result<BulkLoadOutcome>) -> bool {
    matches!(outcome, Ok(BulkLoadOutcome::Loaded { bytes }) if *bytes > 0)
}

#[test]
fn loaded_cells_are_newer_than_earlier_writes_and_older_than_later_ones() {
    let bench = Bench::new();
    bench.put("a", "f:q", 5, "before");
    bench.put("b", "f:q", 5, "before");
    write_file(&bench.files, "job/f/one", "f:q", 5, &["a", "b", "c"]);
    assert!(is_loaded(&bench.region.bulk_load(&own(&bench, &[("f", "job/f/one")]))));
    bench.put("b", "f:q", 5, "after");
    let expected = "a/f:q@5=loaded b/f:q@5=after c/f:q@5=loaded";
    assert_eq!(bench.all(), expected);
    let bench = bench.kill();
    assert_eq!(bench.all(), expected);
    bench.region.flush(FlushReason::Requested).expect("flushed");
    bench.region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    assert_eq!(bench.all(), expected);
    let bench = bench.crash(5);
    assert_eq!(bench.all(), expected);
}

#[test]
fn a_load_without_sequence_id_is_older_than_all_writes() {
    let bench = Bench::new();
    bench.put("a", "f:q", 5, "before");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    for family in ["f", "g"] {
        write_file(&bench.files, &format!("job/{family}/one"), &format!("{family}:q"), 5, &["a", "b"]);
    }
    let files = own(&bench, &[("f", "job/f/one"), ("g", "job/g/one")]);
    assert!(is_loaded(&bench.region.bulk_load(&BulkLoad { assign_sequence: false, ..files })));
    let expected = "a/f:q@5=before a/g:q@5=loaded b/f:q@5=loaded b/g:q@5=loaded";
    assert_eq!(bench.all(), expected);
    let bench = bench.kill();
    assert_eq!(bench.all(), expected);
    bench.region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    assert_eq!(bench.all(), expected);
}

#[test]
fn writes_that_run_meanwhile_are_kept() {
    for round in 0..20 {
        let bench = Bench::new();
        write_file(&bench.files, "job/f/one", "f:q", 5, &["a"]);
        write_file(&bench.files, "job/g/two", "g:q", 5, &["a"]);
        let files = own(&bench, &[("f", "job/f/one"), ("g", "job/g/two")]);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for n in 0..50 {
                    bench.put(&format!("w{n:02}"), "f:q", 1, "v");
                }
            });
            assert!(is_loaded(&bench.region.bulk_load(&files)));
            writer.join().expect("no panic");
        });
        let bench = bench.crash(round);
        let rows = bench.all();
        assert_eq!(rows.matches("/f:q@1=v").count(), 50, "round {round}: {rows}");
        assert_eq!(rows.matches("=loaded").count(), 2, "round {round}: {rows}");
    }
}

/// Kills the process, or fails the power, at each operation of the storage during a load into two families.
#[test]
fn a_load_is_whole_or_not_there_after_a_death_at_any_step() {
    let paths = [("f", "job/f/one"), ("f", "job/f/two"), ("g", "job/g/three")];
    let (mut whole, mut none, mut act, mut ended) = (0, 0, 0, false);
    while !ended {
        act += 1;
        for (power, outcome) in [
            (false, Outcome::DidNotHappen),
            (false, Outcome::MayHaveHappened),
            (true, Outcome::MayHaveHappened),
        ] {
            let bench = Bench::new();
            bench.put("a", "f:q", 5, "before");
            bench.put("a", "g:q", 5, "before");
            let other = Memory::new();
            write_file(&other, paths[0].1, "f:q", 5, &["a", "c"]);
            write_file(&bench.files, paths[1].1, "f:r", 5, &["b"]);
            write_file(&bench.files, paths[2].1, "g:q", 5, &["a"]);
            // The first file is in other storage, and is copied.
            let mut files = own(&bench, &paths);
            files.files[0].file = other.open(&FileName::new(paths[0].1));
            bench.files.set_fault(Some(Fault {
                act: bench.files.acts() + act,
                kind: Kind::Failed,
                outcome,
                last: true,
            }));
            let answer = bench.region.bulk_load(&files);
            ended |= is_loaded(&answer) && !power;
            let seed = act * 7;
            let bench = if power { bench.crash(seed) } else { bench.kill() };
            let rows = bench.all();
            let expected = "a/f:q@5=loaded a/g:q@5=loaded b/f:r@5=loaded c/f:q@5=loaded";
            match rows.as_str() {
                "a/f:q@5=before a/g:q@5=before" => {
                    none += 1;
                    assert!(!is_loaded(&answer), "act {act}: an acknowledged load is lost");
                }
                rows => {
                    whole += 1;
                    assert_eq!(rows, expected, "act {act}");
                }
            }
            // The caller repeats its call.
            let mut again = own(&bench, &paths);
            again.files[0].file = other.open(&FileName::new(paths[0].1));
            let repeated = bench.region.bulk_load(&again).expect("the storage works again");
            assert_eq!(
                repeated == BulkLoadOutcome::LoadedBefore,
                rows == expected,
                "act {act}: {repeated:?}"
            );
            assert_eq!(bench.all(), expected, "act {act}");
            clean(&bench.region).expect("cleaned");
            let entries = bench.files.list(&FileName::new("data/default/t/r")).expect("listed");
            let names = entries.iter().map(|entry| entry.name.as_str());
            let files: Vec<_> = names.filter(|name| !name.contains("/.")).collect();
            assert_eq!(files.len(), bench.region.load().files, "act {act}: leftovers in {files:?}");
        }
    }
    assert!(whole > 3 && none > 10, "{whole} whole and {none} not there");
}

#[test]
fn a_repeated_call_loads_nothing_and_another_load_of_the_same_file_does() {
    let bench = Bench::new();
    write_file(&bench.files, "job/f/one", "f:q", 5, &["a"]);
    let files = own(&bench, &[("f", "job/f/one")]);
    assert!(is_loaded(&bench.region.bulk_load(&files)));
    assert_eq!(bench.region.bulk_load(&files).expect("repeated"), BulkLoadOutcome::LoadedBefore);
    // The job's file may be deleted already, and the loaded file compacted.
    bench.region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    bench.files.delete(&FileName::new("job/f/one")).expect("deleted");
    let gone = own(&bench, &[("f", "job/f/one")]);
    assert_eq!(bench.region.bulk_load(&gone).expect("repeated"), BulkLoadOutcome::LoadedBefore);
    let other = BulkLoad { token: Some("other".to_owned()), ..gone };
    assert!(
        matches!(bench.region.bulk_load(&other), Err(Error::Storage(error)) if error.kind() == Kind::NotFound)
    );
    write_file(&bench.files, "job/f/one", "f:q", 6, &["a"]);
    let other = BulkLoad { token: None, ..own(&bench, &[("f", "job/f/one")]) };
    assert!(is_loaded(&bench.region.bulk_load(&other)));
    assert!(is_loaded(&bench.region.bulk_load(&other)), "without a token each call is a load");
    assert_eq!(bench.all(), "a/f:q@6=loaded");
}

/// A file that can be read some times, and then fails.
struct FailingFile {
    file: Arc<dyn FileReader>,
    reads_left: AtomicUsize,
    kind: Kind,
}

impl FileReader for FailingFile {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> storage::Result<()> {
        let left =
            self.reads_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        match left {
            Ok(_) => self.file.read_at(offset, buffer),
            Err(_) => {
                Err(storage::Error::new(self.kind, Outcome::DidNotHappen, &FileName::new("source"), "read"))
            }
        }
    }
}

/// Returns the files in the region's folder, without those of the region itself.
fn store_files(bench: &Bench) -> Vec<FileName> {
    let entries = bench.files.list(&FileName::new("data/default/t/r")).expect("listed");
    entries.into_iter().map(|entry| entry.name).filter(|name| !name.as_str().contains("/.")).collect()
}

#[test]
fn a_source_that_fails_leaves_nothing_and_the_call_can_be_repeated() {
    let other = Memory::new();
    write_file(&other, "job/f", "f:q", 0, &["a", "b"]);
    write_file(&other, "job/g", "g:q", 1, &["a", "b"]);
    let paths = [("f", "job/f"), ("g", "job/g")];
    for kind in [Kind::NotFound, Kind::TooShort, Kind::ReadOnly, Kind::Failed] {
        let mut failed = 0;
        for reads in 0.. {
            let bench = Bench::new();
            let mut files = load(&bench, &other, &paths);
            let file = other.open(&FileName::new("job/g")).expect("there");
            files.files[1].file =
                Ok(Arc::new(FailingFile { file, reads_left: AtomicUsize::new(reads), kind }));
            let answer = bench.region.bulk_load(&files);
            if is_loaded(&answer) {
                break;
            }
            failed += 1;
            assert_eq!(store_files(&bench), [], "{kind:?} after {reads} reads: {answer:?}");
            assert_eq!(bench.all(), "", "{kind:?} after {reads} reads");
            assert!(is_loaded(&bench.region.bulk_load(&load(&bench, &other, &paths))));
            assert_eq!(bench.all(), "a/f:q@0=loaded a/g:q@1=loaded b/f:q@0=loaded b/g:q@1=loaded");
        }
        // The check of the file, its copy, and the comparison of both read the file.
        assert!(failed > 2, "{kind:?}: {failed}");
    }
    assert!(paths.iter().all(|(_, path)| other.open(&FileName::new(*path)).is_ok()), "the sources stay");
}

#[test]
fn a_copy_without_room_says_how_much_is_needed_and_leaves_nothing() {
    let other = Memory::new();
    write_file(&other, "job/f", "f:q", 5, &["a"]);
    let size = other.open(&FileName::new("job/f")).expect("there").size();
    for act in 1..=3 {
        let bench = Bench::new();
        bench.files.set_fault(Some(Fault {
            act: bench.files.acts() + act,
            kind: Kind::Full,
            outcome: Outcome::DidNotHappen,
            last: false,
        }));
        let failed = bench.region.bulk_load(&load(&bench, &other, &[("f", "job/f")]));
        let failed = failed.expect_err("no room").to_string();
        assert!(
            failed.ends_with(&format!("free {size} bytes for the copy of job/f and load it again")),
            "{failed}"
        );
        assert_eq!(store_files(&bench), [], "act {act}");
        assert!(is_loaded(&bench.region.bulk_load(&load(&bench, &other, &[("f", "job/f")]))));
    }
}

#[test]
fn a_path_may_be_a_url() {
    let bench = Bench::new();
    let other = Memory::new();
    write_file(&other, "job/f", "f:q", 5, &["a"]);
    let mut files = load(&bench, &other, &[("f", "job/f")]);
    files.files[0].path = "s3a://bucket//job/f".to_owned();
    assert!(is_loaded(&bench.region.bulk_load(&files)));
}

#[test]
fn files_that_do_not_belong_are_refused_before_anything_changes() {
    let bench = Bench::new();
    let info = RegionInfo::new("t".parse().expect("a name"), "b".into(), "d".into(), RegionId(2));
    let region = Region::open(Opening {
        info: info.expect("a region"),
        table: Arc::clone(&bench.table),
        files: Arc::new(bench.files.clone()),
        folder: FileName::new("data/default/t/s"),
        log: Arc::clone(&bench.log),
        cache: Arc::new(Cache::with_bytes(1 << 20)),
        world: bench.world.clone(),
        options: RegionOptions::default(),
        recovered: None,
    })
    .expect("opened");
    write_file(&bench.files, "job/f/in", "f:q", 5, &["b", "c"]);
    write_file(&bench.files, "job/f/across", "f:q", 5, &["c", "d"]);
    write_file(&bench.files, "job/f/empty", "f:q", 5, &[]);
    let acts = bench.files.acts();
    let refused =
        |family, path: &'static str| region.bulk_load(&own(&bench, &[("f", "job/f/in"), (family, path)]));
    let misfits = BulkLoadOutcome::DoesNotFit(vec!["job/f/across".to_owned()]);
    assert_eq!(refused("f", "job/f/across").expect("an outcome"), misfits);
    let message = |outcome: Result<BulkLoadOutcome>| outcome.expect_err("refused").to_string();
    assert_eq!(message(refused("x", "job/f/in")), "No such column family x");
    assert!(
        message(refused("g", "job/f/in")).contains("its cells are of f; move it to the folder of its family")
    );
    assert!(message(refused("f", "job/f/empty")).contains("has no cells"));
    assert!(message(refused("f", "job/f/none")).contains("job/f/none"));
    assert_eq!(bench.files.acts(), acts, "nothing was written");
    bench.files.damage(&FileName::new("job/f/across"), |bytes| {
        let end = bytes.len();
        bytes[end - 1] ^= 1;
    });
    assert!(message(refused("f", "job/f/across")).contains("major version"));
    assert!(is_loaded(&region.bulk_load(&own(&bench, &[("f", "job/f/in")]))));
}

#[test]
fn nothing_overtakes_a_load_that_is_in_some_families_only() {
    let paths = [("f", "job/f/one"), ("g", "job/g/one")];
    let intent = FileName::new("data/default/t/r/.bulkload");
    let (mut half, mut begun) = (0, 0);
    for act in 1.. {
        let bench = Bench::new();
        write_file(&bench.files, paths[0].1, "f:q", 5, &["a"]);
        write_file(&bench.files, paths[1].1, "g:q", 5, &["a"]);
        bench.files.set_fault(Some(Fault {
            act: bench.files.acts() + act,
            kind: Kind::Failed,
            outcome: Outcome::DidNotHappen,
            last: false,
        }));
        let answer = bench.region.bulk_load(&own(&bench, &paths));
        if is_loaded(&answer) {
            break;
        }
        let Ok(noted) = bench.files.load(&intent, 1 << 20) else { continue };
        // Skip operations at which the intent has no load: before it is written, and after the load has ended.
        if noted.content.len() < 20 {
            continue;
        }
        half += 1;
        assert!(matches!(answer, Err(Error::Aborted(_))), "act {act}: {answer:?}");
        // The server learns of the abort, and ends.
        let told = pin!(bench.region.options.first_abort.happened());
        let told = told.poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(&told, Poll::Ready(why) if why.contains("restart the server")), "{told:?}");
        let lists =
            || bench.region.stores.iter().map(|store| store.view.load().files.len()).collect::<Vec<_>>();
        let before = lists();
        // A commit that began before the abort changes no list any more.
        let commit = Commit {
            remove: &bench.region.stores[0].view.load().files.clone(),
            add: Vec::new(),
            are_oldest: false,
            view: &View::clone,
            while_closing: true,
            marker: None,
        };
        let committed = bench.region.commit(&bench.region.stores[0], commit);
        assert!(matches!(committed, Err(Error::Aborted(_))), "act {act}: {committed:?}");
        assert_eq!(lists(), before, "act {act}");
        // A search for unlisted files that began before the abort deletes none that the next opening needs.
        let stored = bench.files.list(&FileName::new("data/default/t/r")).expect("listed").into_iter();
        let stored: Vec<FileName> =
            stored.map(|entry| entry.name).filter(|name| name.last().contains("_SeqId_")).collect();
        let open_files = Arc::clone(&bench.region.options.open_files);
        let janitor = Janitor::new(Arc::new(bench.files.clone()), open_files);
        assert_eq!(janitor.collect(&stored).expect("asked"), [], "act {act}");
        // A load that finds the intent of another one does not overwrite it.
        let other = Bench::new();
        write_file(&other.files, paths[0].1, "f:q", 5, &["b"]);
        write_file(&other.files, paths[1].1, "g:q", 5, &["b"]);
        other.files.swap(&intent, None, &noted.content).expect("noted");
        let refused = other.region.bulk_load(&own(&other, &paths));
        assert!(matches!(refused, Err(Error::Aborted(_))), "act {act}: {refused:?}");
        assert_eq!(other.files.load(&intent, 1 << 20).expect("kept").content, noted.content, "act {act}");

        // The load is completed if a list has one of its files.
        let has_begun = before.iter().any(|files| *files > 0);
        let expected = if has_begun { "a/f:q@5=loaded a/g:q@5=loaded" } else { "" };
        begun += usize::from(has_begun);
        assert_eq!(bench.kill().all(), expected, "act {act}");
    }
    assert!(begun > 0 && half > begun, "{half} loads stopped, {begun} of them half-way");
}

/// The end of a load cannot be recorded, for example because the disk is full. The load succeeds nevertheless, and the
/// region continues.
#[test]
fn an_intent_left_by_a_complete_load_is_replaced_before_files_are_added() {
    let paths = [("f", "job/f/one"), ("g", "job/g/one")];
    let intent = FileName::new("data/default/t/r/.bulkload");
    let mut stayed = 0;
    for act in 1.. {
        let bench = Bench::new();
        for (family, path) in paths {
            write_file(&bench.files, path, &format!("{family}:q"), 5, &["a"]);
        }
        let fault = Fault {
            act: bench.files.acts() + act,
            kind: Kind::Full,
            outcome: Outcome::DidNotHappen,
            last: false,
        };
        bench.files.set_fault(Some(fault));
        let answer = bench.region.bulk_load(&own(&bench, &paths));
        if bench.files.acts() < fault.act {
            break;
        }
        if !is_loaded(&answer) {
            continue;
        }
        let note = bench.files.load(&intent, 1 << 20).expect("noted").content;
        if note.len() < 20 {
            continue;
        }
        stayed += 1;
        // A compaction replaces files of the load. Before that it records the load's end; otherwise the next opening
        // would miss these files.
        bench.put("b", "f:q", 5, "later");
        bench.region.flush(FlushReason::Requested).expect("flushed");
        bench.files.set_fault(None);
        bench.region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
        assert!(
            bench.files.load(&intent, 1 << 20).expect("noted").content.len() < 20,
            "the intent is replaced"
        );
        clean(&bench.region).expect("cleaned");
        assert_eq!(bench.kill().all(), "a/f:q@5=loaded a/g:q@5=loaded b/f:q@5=later", "act {act}");
    }
    assert!(stayed > 0, "no intent stayed");
}

#[test]
fn a_damaged_intent_is_an_error() {
    let bench = Bench::new();
    let intent = FileName::new("data/default/t/r/.bulkload");
    bench.files.swap(&intent, None, b"torn").expect("written");
    let opening = Opening {
        info: bench.region.info().clone(),
        table: Arc::clone(&bench.table),
        files: Arc::new(bench.files.clone()),
        folder: FileName::new("data/default/t/r"),
        log: Arc::clone(&bench.log),
        cache: Arc::new(Cache::with_bytes(1 << 20)),
        world: bench.world.clone(),
        options: RegionOptions::default(),
        recovered: None,
    };
    let error = Region::open(opening.clone()).expect_err("damaged");
    assert!(matches!(error, Error::Corrupt { what: "checksum", .. }), "{error}");
    bench.files.delete(&intent).expect("deleted");
    Region::open(opening).expect("opened");
}

#[test]
fn a_replaced_server_does_not_delete_the_file_that_its_successor_loaded() {
    let store = Capabilities::NONE.with(Capability::ListsAll);
    load_beside_a_successor(store);
    // HDFS.
    load_beside_a_successor(store.with(Capability::SyncPrefix));
}

/// Ends the replaced server at each of its changes of the store.
fn load_beside_a_successor(capabilities: Capabilities) {
    let info = Server::info("t", 1);
    let family = || FamilyDescriptor::new("f").expect("a name");
    let mut act = 0;
    loop {
        act += 1;
        let store = Memory::with(capabilities);
        let open = || {
            // Each server has a log of its own, so both give the load the same sequence id.
            let server = Server::new();
            let files = Arc::new(store.clone());
            Region::open(Opening { files, ..server.opening(&info, family()) }).expect("opened")
        };
        write_file(&store, "job/f/one", "f:q", 5, &["a"]);
        let name = FileName::new("job/f/one");
        let load = || BulkLoad {
            files: vec![BulkFile {
                family: "f".into(),
                path: name.to_string(),
                file: store.open(&name),
                within: Some(name.clone()),
            }],
            assign_sequence: true,
            copy: false,
            token: Some("token".to_owned()),
        };
        let replaced = open();
        let successor = open();
        assert!(is_loaded(&successor.bulk_load(&load())));
        let loaded = successor.file_names(&[]).expect("a family");
        assert_eq!(loaded.len(), 1);
        let act = store.acts() + act;
        store.set_fault(Some(Fault { act, kind: Kind::Failed, outcome: Outcome::DidNotHappen, last: true }));
        let outcome = replaced.bulk_load(&load());
        store.set_fault(None);
        assert!(store.open(&loaded[0]).is_ok(), "ended at act {act}: {outcome:?}");
        if outcome.is_ok() {
            break;
        }
    }
    assert!(act > 1);
}

/// Storage that other processes reach, in which something else happens just before a step of a bulk load or an opening.
struct Interrupted {
    below: Memory,
    step: Step,
    act: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// The step before which something else happens.
#[derive(PartialEq)]
enum Step {
    /// A file of a bulk load gets its final name.
    Name,
    /// A bulk load is noted.
    Note,
    /// The lists of a store are looked for.
    Lists,
    /// A list of family `g` with a bulk-loaded file is written.
    ListOfG,
}

impl Interrupted {
    fn files(below: &Memory, step: Step, act: impl FnOnce() + Send + 'static) -> Arc<dyn Files> {
        Arc::new(Interrupted { below: below.clone(), step, act: Mutex::new(Some(Box::new(act))) })
    }

    fn interrupt(&self, step: &Step) {
        if self.step == *step
            && let Some(act) = self.act.lock().take()
        {
            act();
        }
    }
}

impl storage::Overlay for Interrupted {
    fn below(&self) -> &dyn Files {
        &self.below
    }

    fn list(&self, folder: &FileName) -> storage::Result<Vec<storage::Entry>> {
        if folder.last() == ".filelist" {
            self.interrupt(&Step::Lists);
        }
        self.below.list(folder)
    }

    fn link(&self, from: &FileName, to: &FileName) -> storage::Result<()> {
        self.interrupt(&Step::Name);
        self.below.link(from, to)
    }

    fn swap(
        &self,
        name: &FileName,
        expected: Option<&storage::Version>,
        new: &[u8],
    ) -> storage::Result<storage::Version> {
        if name.last() == crate::BULK_LOAD_NOTE && new.len() > 20 {
            self.interrupt(&Step::Note);
        }
        let lists_a_load = new.windows(7).any(|part| part == b"_SeqId_");
        if lists_a_load && name.as_str().contains("/g/.filelist/") {
            self.interrupt(&Step::ListOfG);
        }
        self.below.swap(name, expected, new)
    }
}

/// Returns storage that several processes reach, with the files of two loads.
fn shared() -> Memory {
    let files = Memory::with(Capabilities::ALL.without(Capability::OneProcess));
    for (load, row) in [("one", "a"), ("two", "b")] {
        for family in ["f", "g"] {
            write_file(&files, &format!("job/{family}/{load}"), &format!("{family}:q"), 5, &[row]);
        }
    }
    files
}

/// Returns the opening of a region with two families by a server that takes over the log.
fn two_families(below: &Memory, files: Arc<dyn Files>) -> Opening {
    let server = Server::over(below.clone());
    let mut table = TableDescriptor::new("t".parse().expect("a name"));
    for family in ["f", "g"] {
        table.set_family(FamilyDescriptor::new(family).expect("a name"));
    }
    let opening = server.opening(&Server::info("t", 1), FamilyDescriptor::new("f").expect("a name"));
    // Servers have different random numbers.
    let world = World::simulated(World::real().random(), WallTime(1_000_000));
    Opening { files, table: Arc::new(table), world, ..opening }
}

/// Opens a region with two families by a server that takes over the log.
fn open_next(files: &Memory) -> Arc<Region> {
    Region::open(two_families(files, Arc::new(files.clone()))).expect("opened")
}

/// Loads files of the region's own storage into both families.
fn load_both(region: &Region, files: &Memory, name: &str) -> Result<BulkLoadOutcome> {
    load_both_as(region, files, name, true)
}

fn load_both_as(
    region: &Region,
    files: &Memory,
    name: &str,
    assign_sequence: bool,
) -> Result<BulkLoadOutcome> {
    let file = |family: &'static str| {
        let name = FileName::new(format!("job/{family}/{name}"));
        let (path, file) = (name.to_string(), files.open(&name));
        BulkFile { family: family.into(), path, file, within: Some(name) }
    };
    let files = vec![file("f"), file("g")];
    region.bulk_load(&BulkLoad { files, assign_sequence, copy: false, token: Some("token".to_owned()) })
}

/// Returns the number of files in each family.
fn counts(region: &Region) -> Vec<usize> {
    region.stores.iter().map(|store| store.view.load().files.len()).collect()
}

/// Suspends a server in a bulk load, just before `step`, while the next server opens the region and `act` runs. Returns
/// the storage and the next server's region.
fn suspend_a_load(step: Step, act: fn(&Region, &Memory)) -> (Memory, Arc<Region>) {
    let files = shared();
    let next = Arc::new(Mutex::new(None));
    let opened = Arc::clone(&next);
    let below = files.clone();
    let interrupted = Interrupted::files(&files, step, move || {
        let region = open_next(&below);
        act(&region, &below);
        *opened.lock() = Some(region);
    });
    let suspended = Region::open(two_families(&files, interrupted)).expect("opened");
    load_both(&suspended, &files, "one").expect_err("another server has the region");
    let next = next.lock().take().expect("opened meanwhile");
    (files, next)
}

/// Loads files into both families, and lets `act` run just before the first file gets its final name. Returns the outcome, the
/// region and its storage.
fn load_beside(
    act: impl FnOnce(&Arc<Region>) + Send + 'static,
) -> (Result<BulkLoadOutcome>, Arc<Region>, Memory) {
    let files = shared();
    let opened = Arc::new(Mutex::new(None::<Arc<Region>>));
    let shown = Arc::clone(&opened);
    let interrupted =
        Interrupted::files(&files, Step::Name, move || act(&opened.lock().take().expect("opened")));
    let region = Region::open(two_families(&files, interrupted)).expect("opened");
    *shown.lock() = Some(Arc::clone(&region));
    (load_both(&region, &files, "one"), region, files)
}

/// In an object store a file gets its final name by a copy of all its bytes.
#[test]
fn writes_are_acknowledged_while_the_files_of_a_load_are_copied() {
    let (outcome, region, files) = load_beside(|region| {
        let write = mutation(MutationKind::Put, "a", &[("f:q", 5, CellType::Put, b"meanwhile")]);
        let applied = region.apply(&[write], ReadMode::Any).expect("serving");
        let (done, ended) = std::sync::mpsc::channel();
        let wait = move || done.send(applied.pending.wait_blocking().is_ok());
        env::spawn_thread("writer", env::Priority::Foreground, wait).expect("a thread");
        assert_eq!(
            ended.recv_timeout(std::time::Duration::from_secs(20)),
            Ok(true),
            "it does not wait for the load"
        );
    });
    assert!(is_loaded(&outcome), "{outcome:?}");
    let all = |region: &Arc<Region>| {
        let (mut scanner, mut shown) = (region.scanner(Scan::default()).expect("serving"), Shown::default());
        while scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read").more {}
        shown.0.join(" ")
    };
    let expected = "a/f:q@5=loaded a/g:q@5=loaded";
    assert_eq!(all(&region), expected, "the load is newer than a write before its end");
    drop(region);
    assert_eq!(all(&open_next(&files)), expected);
}

#[test]
fn a_load_that_writes_overtake_is_refused_and_may_be_repeated() {
    let (outcome, region, files) = load_beside(|region| region.write.lock().last_sequence.0 += 1 << 30);
    let refused = outcome.expect_err("its sequence id was taken");
    assert!(refused.to_string().ends_with("load again"), "{refused}");
    assert_eq!(counts(&region), [0, 0]);
    assert!(is_loaded(&load_both(&region, &files, "one")));
    clean(&region).expect("cleaned");
    assert_eq!((rows(&region), counts(&region)), ("a a".to_owned(), vec![1, 1]));
}

#[test]
fn a_reader_sees_no_part_of_a_load_that_is_in_some_families_only() {
    for assign_sequence in [true, false] {
        let files = shared();
        let opened = Arc::new(Mutex::new(None::<Arc<Region>>));
        let meanwhile = Arc::new(Mutex::new(None));
        let interrupted = {
            let (opened, meanwhile) = (Arc::clone(&opened), Arc::clone(&meanwhile));
            Interrupted::files(&files, Step::ListOfG, move || {
                let region = opened.lock().take().expect("opened");
                assert_eq!((rows(&region), counts(&region)), (String::new(), vec![1, 0]));
                *meanwhile.lock() = Some(region.scanner(Scan::default()).expect("serving"));
            })
        };
        let region = Region::open(two_families(&files, interrupted)).expect("opened");
        *opened.lock() = Some(Arc::clone(&region));
        assert!(is_loaded(&load_both_as(&region, &files, "one", assign_sequence)));
        assert_eq!(rows(&region), "a a");
        region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
        assert_eq!(rows(&region), "a a");
        let (mut scanner, mut shown) = (meanwhile.lock().take().expect("opened"), Shown::default());
        while scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read").more {}
        assert_eq!(shown.0, Vec::<String>::new());
    }
}

#[test]
fn a_load_that_a_replaced_server_notes_does_not_stop_its_successor() {
    let (files, next) = suspend_a_load(Step::Note, |_, _| {});
    assert!(is_loaded(&load_both(&next, &files, "two")));
    assert_eq!(counts(&next), [1, 1]);
    drop(next);
    assert_eq!(counts(&open_next(&files)), [1, 1]);
}

#[test]
fn a_load_that_a_replaced_server_notes_is_not_completed_by_a_later_start() {
    let (files, next) = suspend_a_load(Step::Note, |_, _| {});
    assert_eq!(counts(&next), [0, 0]);
    // The successor deletes the files of the load, which no list names.
    clean(&next).expect("cleaned");
    drop(next);
    assert_eq!(counts(&open_next(&files)), [0, 0]);
}

#[test]
fn a_replaced_server_does_not_note_a_load_after_one_of_its_successor() {
    for step in [Step::Name, Step::Note] {
        let (files, next) = suspend_a_load(step, |next, files| {
            assert!(is_loaded(&load_both(next, files, "two")), "the region is its own");
        });
        let note = Server::folder(next.info()).join(crate::BULK_LOAD_NOTE);
        assert!(!crate::is_bulk_load_unfinished(&files, &note).expect("readable"), "the last load has ended");
        drop(next);
        assert_eq!(counts(&open_next(&files)), [1, 1]);
    }
}

/// A server begins a load while its successor opens the region, and changes one list before the successor has claimed it.
#[test]
fn an_opening_completes_a_load_that_began_before_the_lists_were_claimed() {
    let mut half = 0;
    for act in 1.. {
        let files = shared();
        let replaced = open_next(&files);
        let (below, region) = (files.clone(), Arc::clone(&replaced));
        let interrupted = Interrupted::files(&files, Step::Lists, move || {
            let act = below.acts() + act;
            below.set_fault(Some(Fault {
                act,
                kind: Kind::Failed,
                outcome: Outcome::DidNotHappen,
                last: false,
            }));
            let _interrupted = load_both(&region, &below, "one");
            below.set_fault(None);
        });
        // The replaced server keeps its log: its successor has another one.
        let opened = counts(&Region::open(two_families(&Memory::new(), interrupted)).expect("opened"));
        let begun = counts(&replaced);
        let expected = if begun == [0, 0] { [0, 0] } else { [1, 1] };
        assert_eq!(opened, expected, "act {act}");
        half += usize::from(begun == [1, 0]);
        if begun == [1, 1] {
            break;
        }
    }
    assert!(half > 0, "no load was half-way");
}

#[test]
fn a_region_is_opened_without_a_file_of_an_interrupted_load_that_is_missing() {
    let mut lost = 0;
    for act in 1.. {
        let files = shared();
        let region = open_next(&files);
        let last = files.acts() + act;
        let fault = Fault { act: last, kind: Kind::Failed, outcome: Outcome::DidNotHappen, last: false };
        files.set_fault(Some(fault));
        let outcome = load_both(&region, &files, "one");
        files.set_fault(None);
        if outcome.is_ok() {
            break;
        }
        if counts(&region) != [1, 0] {
            continue;
        }
        lost += 1;
        drop(region);
        let folder = Server::folder(&Server::info("t", 1)).join("g");
        for entry in files.list(&folder).expect("listed") {
            if entry.name.last().contains("_SeqId_") {
                files.delete(&entry.name).expect("deleted");
            }
        }
        assert_eq!(counts(&open_next(&files)), [1, 0], "act {act}");
        // The note is gone, so the next opening reports nothing.
        let note = Server::folder(&Server::info("t", 1)).join(crate::BULK_LOAD_NOTE);
        assert!(!crate::is_bulk_load_unfinished(&files, &note).expect("readable"));
    }
    assert!(lost > 0);
}
