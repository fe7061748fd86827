use std::sync::atomic::{AtomicUsize, Ordering};

use storage::{Capability, Memory};

use super::*;

/// Storage whose syncs fail as often as a test says, and whose owner may lose it.
#[derive(Clone)]
struct Failing {
    memory: Memory,
    faults: Arc<Faults>,
}

#[derive(Default)]
struct Faults {
    /// Number of next syncs that fail.
    syncs: AtomicUsize,
    /// Number of next parts that cannot be begun.
    parts: AtomicUsize,
    /// Whether a failed sync makes its bytes durable, or a failed part appears all the same.
    happens: Mutex<bool>,
    /// Whether another process has the storage.
    is_lost: Mutex<bool>,
}

fn take_one(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok()
}

fn failed(name: &FileName) -> Error {
    Error::new(Kind::Failed, Outcome::MayHaveHappened, name, "sync").because("no DataNode answers")
}

struct FailingWriter {
    below: Box<dyn FileWriter>,
    faults: Arc<Faults>,
    /// Bytes that no sync has made durable.
    waiting: Vec<u8>,
}

impl FileWriter for FailingWriter {
    fn name(&self) -> &FileName {
        self.below.name()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.waiting.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let fails = take_one(&self.faults.syncs);
        if *self.faults.is_lost.lock() {
            return Err(Error::new(Kind::Sealed, Outcome::MayHaveHappened, self.name(), "sync"));
        }
        if !fails || *self.faults.happens.lock() {
            self.below.write(&std::mem::take(&mut self.waiting))?;
            self.below.sync()?;
        }
        if fails { Err(failed(self.name())) } else { Ok(()) }
    }

    fn size(&self) -> u64 {
        self.below.size() + self.waiting.len() as u64
    }

    fn finish(mut self: Box<Self>) -> Result<u64> {
        self.sync()?;
        self.below.finish()
    }

    fn abandon(self: Box<Self>) {
        self.below.abandon();
    }
}

impl Files for Failing {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        let below = self.memory.create(name)?;
        Ok(Box::new(FailingWriter { below, faults: Arc::clone(&self.faults), waiting: Vec::new() }))
    }

    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>> {
        self.memory.open(name)
    }

    fn sync(&self, name: &FileName) -> Result<()> {
        self.memory.sync(name)
    }

    fn seal(&self, name: &FileName) -> Result<()> {
        self.memory.seal(name)
    }

    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        self.memory.list(folder)
    }

    fn delete(&self, name: &FileName) -> Result<()> {
        self.memory.delete(name)
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        self.memory.load(name, bytes_max)
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        self.memory.swap(name, expected, new)
    }

    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled> {
        self.memory.settle(name, expected, new)
    }

    fn place(&self) -> String {
        self.memory.place()
    }
}

impl PartFiles for Failing {
    fn create_first(&self, name: &FileName, _limit: Duration) -> Result<Box<dyn FileWriter>> {
        self.create(name)
    }

    fn begin_part(
        &self,
        part: &FileName,
        _earlier: &FileName,
        bytes: &[u8],
        _limit: Duration,
    ) -> Result<Box<dyn FileWriter>> {
        if *self.faults.is_lost.lock() {
            return Err(Error::new(Kind::InUse, Outcome::DidNotHappen, part, "sync"));
        }
        let fails = take_one(&self.faults.parts);
        if fails && !*self.faults.happens.lock() {
            return Err(failed(part));
        }
        let mut writer = self.create(part)?;
        writer.write(bytes)?;
        writer.sync()?;
        if fails { Err(failed(part)) } else { Ok(writer) }
    }
}

fn is_log(name: &FileName) -> bool {
    name.as_str().ends_with(".wal")
}

fn log_name() -> FileName {
    FileName::new("WALs/00000000000000000007.wal")
}

/// Returns empty storage, and the faults that a test sets.
fn storage() -> (Continued<Failing>, Arc<Faults>, Memory) {
    let capabilities = Capabilities::NONE.with(Capability::SyncPrefix).with(Capability::ListsAll);
    let (memory, faults) = (Memory::with(capabilities), Arc::<Faults>::default());
    (over(&memory, &faults), faults, memory)
}

fn over(memory: &Memory, faults: &Arc<Faults>) -> Continued<Failing> {
    let limits = PartLimits {
        sync: Duration::from_millis(1),
        sync_max: Duration::from_millis(2),
        patience: Duration::from_millis(100),
    };
    let base = Failing { memory: memory.clone(), faults: Arc::clone(faults) };
    Continued::new(base, is_log, limits, World::real())
}

/// Returns what another process finds, which seals the file first.
fn found(memory: &Memory) -> Vec<u8> {
    let next = over(memory, &Arc::default());
    next.seal(&log_name()).expect("sealed");
    let reader = next.open(&log_name()).expect("there");
    let mut content = vec![0; reader.size() as usize];
    reader.read_at(0, &mut content).expect("whole");
    for (from, length) in [(0, 3), (7, 9), (content.len() / 2, content.len() / 3)] {
        let mut part = vec![0; length.min(content.len().saturating_sub(from))];
        reader.read_at(from as u64, &mut part).expect("inside");
        assert_eq!(part, content[from..from + part.len()]);
    }
    content
}

/// Every third sync fails, with or without its bytes, some parts cannot be begun at once, and after each sync a process
/// that seals the file finds exactly the acknowledged bytes.
#[test]
fn a_log_file_goes_on_after_failed_syncs_and_readers_find_all_of_it() {
    for happens in [false, true] {
        let (files, faults, memory) = storage();
        *faults.happens.lock() = happens;
        let mut writer = files.create(&log_name()).expect("new");
        let mut acknowledged = Vec::new();
        for round in 0..40_u8 {
            faults.syncs.store(usize::from(round % 3 == 2), Ordering::Release);
            faults.parts.store(usize::from(round % 3), Ordering::Release);
            for _ in 0..round % 4 {
                writer.write(&[round; 11]).expect("kept");
                acknowledged.extend_from_slice(&[round; 11]);
            }
            writer.sync().expect("durable, in this part or in another");
            assert_eq!(writer.size(), acknowledged.len() as u64);
            if round > 5 {
                assert_eq!(found(&memory.copy()), acknowledged, "round {round}");
            }
        }
        assert_eq!(writer.finish().expect("ended"), acknowledged.len() as u64);
        assert_eq!(found(&memory), acknowledged);
        let entries = files.list(&FileName::root()).expect("listed");
        assert_eq!(entries.len(), 1, "the parts are one file: {entries:?}");
        assert!(memory.list(&FileName::root()).expect("listed").len() > 10, "it has many parts");
        files.delete(&log_name()).expect("deleted");
        assert_eq!(memory.list(&FileName::root()).expect("listed"), [], "nothing is left");
    }
}

#[test]
fn a_writer_that_lost_the_storage_begins_no_part() {
    for is_sealed_here in [false, true] {
        let (files, faults, memory) = storage();
        let mut writer = files.create(&log_name()).expect("new");
        writer.write(b"acknowledged").expect("kept");
        writer.sync().expect("durable");
        writer.write(b"late").expect("kept");
        faults.syncs.store(1, Ordering::Release);
        if is_sealed_here {
            files.seal(&log_name()).expect("sealed");
        } else {
            *faults.is_lost.lock() = true;
        }
        let error = writer.sync().expect_err("another process has the file");
        assert!(matches!(error.kind(), Kind::Sealed | Kind::InUse), "{error}");
        writer.sync().expect_err("nothing is acknowledged after a failure");
        writer.write(b"later").expect_err("nothing is written after a failure");
        assert_eq!(found(&memory), b"acknowledged");
    }
}

#[test]
fn a_log_fails_when_no_part_can_be_begun_for_too_long() {
    let (files, faults, memory) = storage();
    let mut writer = files.create(&log_name()).expect("new");
    writer.write(b"acknowledged").expect("kept");
    writer.sync().expect("durable");
    writer.write(b" and not").expect("kept");
    faults.syncs.store(1, Ordering::Release);
    faults.parts.store(usize::MAX, Ordering::Release);
    assert_eq!(writer.sync().expect_err("no DataNode is left").kind(), Kind::Failed);
    writer.sync().expect_err("nothing is acknowledged after a failure");
    assert_eq!(found(&memory), b"acknowledged");
}

/// A crash between the deletions of the parts leaves some, which a later file of the same name must not show.
#[test]
fn parts_of_a_deleted_file_do_not_come_back() {
    let (files, faults, memory) = storage();
    let mut writer = files.create(&log_name()).expect("new");
    writer.write(b"the old file's bytes").expect("kept");
    writer.sync().expect("durable");
    faults.syncs.store(1, Ordering::Release);
    writer.write(b" in two parts").expect("kept");
    writer.sync().expect("durable");
    drop(writer);
    assert_eq!(files.create(&log_name()).err().expect("taken").kind(), Kind::Exists);
    memory.delete(&log_name()).expect("deleted");
    assert_eq!(files.open(&log_name()).err().expect("deleted").kind(), Kind::NotFound);
    let mut writer = files.create(&log_name()).expect("new");
    writer.write(b"new").expect("kept");
    writer.finish().expect("durable");
    assert_eq!(files.read(&log_name(), 100).expect("there"), b"new");
    assert_eq!(memory.list(&FileName::root()).expect("listed").len(), 1);
}

/// Acknowledged bytes that a part lacks are an error, not the end of the log.
#[test]
fn a_part_that_lost_bytes_is_refused() {
    let (files, faults, memory) = storage();
    let mut writer = files.create(&log_name()).expect("new");
    writer.write(b"acknowledged").expect("kept");
    writer.sync().expect("durable");
    faults.syncs.store(1, Ordering::Release);
    writer.write(b" in two parts").expect("kept");
    writer.finish().expect("durable");
    memory.damage(&log_name(), |bytes| bytes.truncate(5));
    assert_eq!(files.open(&log_name()).err().expect("damaged").kind(), Kind::TooShort);
}

#[test]
fn it_keeps_the_rules_of_storage() {
    let (files, ..) = storage();
    storage::conformance::check(&files);
    let limits = files.shared.limits;
    let base = Failing { memory: storage().2, faults: Arc::default() };
    storage::conformance::check(&Continued::new(base, |_| true, limits, World::real()));
}
