//! Tests that a region opened for reading changes nothing.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::file_life::{Server, put};
use super::*;
use storage::{FileReader, FileWriter, Kind, Object, Outcome, Settled, Version};

/// Files that refuse writes and deletes. Counts files opened or loaded.
pub(super) struct WriteProtected(Memory, AtomicUsize);

impl WriteProtected {
    pub(super) fn new(files: &Memory) -> WriteProtected {
        WriteProtected(files.clone(), AtomicUsize::new(0))
    }

    fn refuse<T>(name: &FileName, act: &'static str) -> storage::Result<T> {
        Err(storage::Error::new(Kind::ReadOnly, Outcome::DidNotHappen, name, act))
    }
}

impl storage::Overlay for WriteProtected {
    fn below(&self) -> &dyn Files {
        &self.0
    }

    fn create(&self, name: &FileName) -> storage::Result<Box<dyn FileWriter>> {
        WriteProtected::refuse(name, "create")
    }

    fn open(&self, name: &FileName) -> storage::Result<Arc<dyn FileReader>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.open(name)
    }

    fn sync(&self, name: &FileName) -> storage::Result<()> {
        WriteProtected::refuse(name, "sync")
    }

    fn delete(&self, name: &FileName) -> storage::Result<()> {
        WriteProtected::refuse(name, "delete")
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> storage::Result<Object> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.load(name, bytes_max)
    }

    fn swap(&self, name: &FileName, _: Option<&Version>, _: &[u8]) -> storage::Result<Version> {
        WriteProtected::refuse(name, "swap")
    }

    fn settle(&self, name: &FileName, _: Option<&Version>, _: &[u8]) -> storage::Result<Settled> {
        WriteProtected::refuse(name, "settle")
    }
}

fn family() -> FamilyDescriptor {
    FamilyDescriptor::new("f").expect("a name")
}

fn rows(region: &Arc<Region>) -> String {
    let mut scanner = region.scanner(Scan::default()).expect("serving");
    let mut shown = Shown::default();
    while scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read").more {}
    shown.0.iter().map(|cell| &cell[..1]).collect()
}

#[test]
fn a_region_opened_for_reading_writes_and_deletes_nothing() {
    let server = Server::new();
    let info = Server::info("t", 1);
    let owner = server.open(&info, family());
    for row in ["a", "b", "c"] {
        put(&owner, row);
        owner.flush(FlushReason::Requested).expect("flushed");
    }
    put(&owner, "d");
    // Adds what an owner would delete: an unlisted file, an unlisted list, and compacted files.
    let folder = Server::folder(&info).join("f");
    let left = server.files.create(&folder.join("0123456789abcdef")).expect("new");
    left.finish().expect("durable");
    let listed = || server.files.list(&FileName::root()).expect("listed");
    let before = listed();
    // The owner is killed, and the content of its memory is only in the log.
    let log_files: Arc<dyn Files> = Arc::new(server.files.copy());
    let (log, recovered) =
        wal::Log::open(server.world.clone(), log_files, FileName::new("WALs"), wal::Options::default())
            .expect("a log");
    let recovered = Arc::new(recovered);
    let opening = Opening {
        files: Arc::new(WriteProtected::new(&server.files)),
        log: Arc::new(log),
        recovered: Some(Arc::clone(&recovered)),
        // The replayed writes fill the memory.
        options: RegionOptions { flush_size: 1, ..server.options.clone() },
        ..server.opening(&info, family())
    };
    let reader = Region::open_for_reading(opening.clone()).expect("opened");
    assert_eq!(rows(&reader), "abcd");
    assert!(!reader.needs_flush(1.0) && !reader.needs_compaction());
    let refused = |outcome: Result<()>| {
        assert!(matches!(outcome, Err(Error::ReadOnly(_))), "{outcome:?}");
    };
    let write = mutation(MutationKind::Put, "e", &[("f:q", 1, CellType::Put, b"v")]);
    refused(reader.apply(&[write], ReadMode::Any).map(drop));
    refused(reader.flush(FlushReason::Requested).map(drop));
    refused(reader.compact(&CompactionRequest { major: true, families: Vec::new() }).map(drop));
    refused(clean(&reader).map(drop));
    refused(reader.write_heir(&FileName::new("data/default/u/r"), &InheritedFiles::Links));
    reader.close().expect("closed");
    assert_eq!(listed(), before);
    // Another reader, and the next owner, find the log's records unchanged.
    assert_eq!(rows(&Region::open_for_reading(opening.clone()).expect("opened")), "abcd");
    assert!(Region::open(opening).is_err(), "an owner writes");
}

#[test]
fn a_reader_of_a_missing_folder_is_empty_and_creates_nothing() {
    let server = Server::new();
    let opening = Opening {
        files: Arc::new(WriteProtected::new(&server.files)),
        ..server.opening(&Server::info("t", 1), family())
    };
    let reader = Region::open_for_reading(opening).expect("opened");
    assert_eq!(rows(&reader), "");
    assert!(server.files.list(&FileName::new("data")).expect("listed").is_empty());
}

#[test]
fn opening_with_halves_takes_no_more_reads_than_with_whole_files() {
    let server = Server::new();
    let parent = server.open(&Server::info("t", 1), family());
    for row in ["a", "m", "z"] {
        put(&parent, row);
        parent.flush(FlushReason::Requested).expect("flushed");
    }
    let daughter = Server::info("t", 2);
    let reference = Reference { half: Half::Top, split_row: "m".into() };
    parent.write_heir(&Server::folder(&daughter), &InheritedFiles::Half(reference)).expect("written");
    let reads = |info: &RegionInfo, expected: &str| {
        let files = Arc::new(WriteProtected::new(&server.files));
        let opening = Opening { files: files.clone(), ..server.opening(info, family()) };
        let reader = Region::open_for_reading(opening).expect("opened");
        let reads = files.1.load(Ordering::Relaxed);
        assert_eq!(rows(&reader), expected);
        reads
    };
    assert_eq!(reads(&daughter, "mz"), reads(parent.info(), "amz"));
}
