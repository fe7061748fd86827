//! Tests swaps of small objects that happen but report failure: no write is lost, and the region opens again.

use super::*;
use storage::{Kind, Object, Outcome, Settled, Version};

/// Files whose swaps can be made to happen and yet report failure. Small objects then cannot be read.
struct Doubtful {
    files: Memory,
    told: env::sync::Mutex<Told>,
}

#[derive(Default)]
struct Told {
    /// Number of the next swaps that report failure.
    swaps: usize,
    cannot_read: bool,
}

impl Doubtful {
    fn check_readable(&self, name: &FileName, outcome: Outcome) -> storage::Result<()> {
        let cannot_read = self.told.lock().cannot_read && name.as_str().contains(".filelist");
        if cannot_read { Err(Doubtful::error(name, "read", outcome)) } else { Ok(()) }
    }

    fn error(name: &FileName, act: &'static str, outcome: Outcome) -> storage::Error {
        storage::Error::new(Kind::Failed, outcome, name, act).because("the test asked for it")
    }
}

impl storage::Overlay for Doubtful {
    fn below(&self) -> &dyn Files {
        &self.files
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> storage::Result<Object> {
        self.check_readable(name, Outcome::DidNotHappen)?;
        self.files.load(name, bytes_max)
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> storage::Result<Version> {
        let version = self.files.swap(name, expected, new)?;
        let mut told = self.told.lock();
        let fails = told.swaps > 0;
        told.swaps -= usize::from(fails);
        if fails { Err(Doubtful::error(name, "swap", Outcome::MayHaveHappened)) } else { Ok(version) }
    }

    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> storage::Result<Settled> {
        self.check_readable(name, Outcome::MayHaveHappened)?;
        self.files.settle(name, expected, new)
    }
}

/// Opens a region over such files, and returns both.
fn open(files: &Memory) -> (Arc<Doubtful>, Arc<Region>, Arc<wal::Log>) {
    let doubtful = Arc::new(Doubtful { files: files.clone(), told: env::sync::Mutex::default() });
    let (log, region) = open_over(&doubtful).expect("opened");
    (doubtful, region, log)
}

fn open_over(doubtful: &Arc<Doubtful>) -> Result<(Arc<wal::Log>, Arc<Region>)> {
    let shared: Arc<dyn Files> = Arc::<Doubtful>::clone(doubtful);
    let log_options = wal::Options::default();
    let world = World::simulated(1, WallTime(1_000_000));
    let (log, recovered) =
        wal::Log::open(world.clone(), Arc::new(doubtful.files.clone()), FileName::new("WALs"), log_options)
            .expect("a log");
    let log = Arc::new(log);
    let info = RegionInfo::new("t".parse().expect("a name"), Bytes::new(), Bytes::new(), RegionId(1));
    let region = Region::open(Opening {
        info: info.expect("a region"),
        table: table(FamilyDescriptor::new("f").expect("a name")),
        files: shared,
        folder: FileName::new("data/default/t/r"),
        log: Arc::clone(&log),
        cache: Arc::new(Cache::with_bytes(1 << 20)),
        world,
        options: RegionOptions { compaction_size_min: Some(0), ..RegionOptions::default() },
        recovered: Some(Arc::new(recovered)),
    })?;
    Ok((log, region))
}

fn put(region: &Arc<Region>, row: &str) {
    let put = mutation(MutationKind::Put, row, &[("f:q", 1, CellType::Put, b"v")]);
    let applied = region.apply(&[put], ReadMode::Any).expect("serving");
    applied.pending.wait_blocking().expect("durable");
}

fn rows(region: &Arc<Region>) -> String {
    let mut scanner = region.scanner(Scan::default()).expect("serving");
    let mut shown = Shown::default();
    while scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read").more {}
    shown.0.iter().map(|cell| &cell[..1]).collect()
}

/// Checks the content after the process was killed, and after a power failure.
fn assert_restarts(files: &Memory, expected: &str) {
    for seed in 0..8 {
        let files = if seed == 0 { files.copy() } else { files.copy().crash(seed) };
        let (_, region, _log) = open(&files);
        assert_eq!(rows(&region), expected);
    }
}

#[test]
fn a_flush_succeeds_if_its_list_was_written_despite_an_error() {
    let files = Memory::new();
    let (doubtful, region, _log) = open(&files);
    put(&region, "a");
    doubtful.told.lock().swaps = 1;
    region.flush(FlushReason::Requested).expect("the list is read again");
    put(&region, "b");
    assert_eq!((rows(&region), region.load().files), ("ab".to_owned(), 1));
    clean(&region).expect("removed");
    assert_restarts(&files, "ab");
}

#[test]
fn a_store_in_doubt_keeps_files_and_commits_nothing() {
    let files = Memory::new();
    let (doubtful, region, _log) = open(&files);
    put(&region, "a");
    *doubtful.told.lock() = Told { swaps: 1, cannot_read: true };
    let error = region.flush(FlushReason::Requested).expect_err("nobody knows what the list is");
    assert!(matches!(error, Error::InDoubt { .. }), "{error}");
    let error = region.flush(FlushReason::Requested).expect_err("it cannot be read");
    assert!(matches!(error, Error::InDoubt { .. }), "{error}");
    // No file is deleted; writes are read from memory.
    assert_eq!((clean(&region).expect("asked"), rows(&region)), (0, "a".to_owned()));
    assert_restarts(&files, "a");
    put(&region, "b");
    doubtful.told.lock().cannot_read = false;
    region.flush(FlushReason::Requested).expect("it is decided");
    assert!(clean(&region).expect("asked") > 0, "the files of the attempts");
    assert_eq!((rows(&region), region.load().files), ("ab".to_owned(), 1));
    assert_restarts(&files, "ab");
}

#[test]
fn a_repeated_load_keeps_the_file_that_a_list_in_doubt_may_name() {
    let name = FileName::new("job/f/one");
    let load = |files: &Memory| BulkLoad {
        files: vec![BulkFile {
            family: "f".into(),
            path: name.to_string(),
            file: files.open(&name),
            within: Some(name.clone()),
        }],
        assign_sequence: false,
        copy: false,
        token: Some("token".to_owned()),
    };
    let in_doubt = || {
        let files = Memory::new();
        super::bulk_load::write_file(&files, name.as_str(), "f:q", 5, &["a"]);
        let (doubtful, region, log) = open(&files);
        *doubtful.told.lock() = Told { swaps: 1, cannot_read: true };
        let error = region.bulk_load(&load(&files)).expect_err("nobody knows what the list is");
        assert!(matches!(error, Error::InDoubt { .. }), "{error}");
        (files, doubtful, region, log)
    };
    // The process dies at each act of the repeated load.
    for act in 1..=10 {
        let (files, _doubtful, region, _log) = in_doubt();
        files.set_fault(Some(storage::memory::Fault {
            act: files.acts() + act,
            kind: Kind::Failed,
            outcome: Outcome::DidNotHappen,
            last: true,
        }));
        region.bulk_load(&load(&files)).expect_err("dead, or still in doubt");
        files.set_fault(None);
        assert_restarts(&files, "a");
    }
    let (files, doubtful, region, _log) = in_doubt();
    doubtful.told.lock().cannot_read = false;
    assert!(matches!(region.bulk_load(&load(&files)), Ok(BulkLoadOutcome::Loaded { .. })));
    assert_restarts(&files, "a");
    // A file with other bytes does not replace the one that may be listed.
    let (files, _doubtful, region, _log) = in_doubt();
    files.delete(&name).expect("deleted");
    super::bulk_load::write_file(&files, name.as_str(), "f:q", 5, &["b"]);
    let error = region.bulk_load(&load(&files)).expect_err("another file").to_string();
    assert!(error.contains("flush the region"), "{error}");
    assert_restarts(&files, "a");
}

#[test]
fn a_compaction_with_an_uncertain_list_is_complete_or_without_effect() {
    for is_decided in [true, false] {
        let files = Memory::new();
        let (doubtful, region, _log) = open(&files);
        for row in ["a", "b", "c"] {
            put(&region, row);
            region.flush(FlushReason::Requested).expect("flushed");
        }
        *doubtful.told.lock() = Told { swaps: 1, cannot_read: !is_decided };
        let request = CompactionRequest { major: true, families: vec!["f".into()] };
        let compacted = region.compact(&request);
        assert_eq!(compacted.is_ok(), is_decided, "{compacted:?}");
        clean(&region).expect("asked");
        assert_eq!((rows(&region), region.load().files), ("abc".to_owned(), if is_decided { 1 } else { 3 }));
        assert_restarts(&files, "abc");
        doubtful.told.lock().cannot_read = false;
        put(&region, "d");
        region.flush(FlushReason::Requested).expect("flushed");
        clean(&region).expect("asked");
        assert_restarts(&files, "abcd");
    }
}

#[test]
fn an_opening_succeeds_if_its_objects_were_written_despite_errors() {
    let files = Memory::new();
    let doubtful = Arc::new(Doubtful {
        files: files.clone(),
        told: env::sync::Mutex::new(Told { swaps: 1, cannot_read: false }),
    });
    let (_log, region) = open_over(&doubtful).expect("the file is read again");
    assert_eq!(doubtful.told.lock().swaps, 0, "one was written");
    put(&region, "a");
    assert_restarts(&files, "a");
}

#[test]
fn an_unreadable_list_fails_the_opening() {
    let files = Memory::new();
    let (doubtful, region, log) = open(&files);
    put(&region, "a");
    region.flush(FlushReason::Requested).expect("flushed");
    drop((region, log));
    doubtful.told.lock().cannot_read = true;
    let lists = || files.list(&FileName::new("data/default/t/r/f/.filelist")).expect("listed");
    let before = lists();
    let error = open_over(&doubtful).expect_err("the list cannot be read");
    assert!(matches!(error, Error::Storage(_)), "{error}");
    assert_eq!(lists(), before, "nothing was removed");
}
