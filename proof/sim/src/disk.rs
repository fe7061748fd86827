//! A machine's disk: `storage::Memory` with time, and with faults that come and go.
//!
//! What a crash does to unsynced bytes is `Memory`'s own; here a call takes as long as a disk would, fails when faults are
//! on, and may fail after it took place.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use storage::{
    Capabilities, Entry, Error, FileName, FileReader, FileWriter, Files, Kind, Memory, Object, Outcome,
    Result, Settled, Version,
};

use crate::scheduler::scheduler;

/// How a disk is now.
#[derive(Clone, Copy, Debug)]
pub struct Conduct {
    /// How long a sync takes, in µs: at least, and on top at random.
    pub sync_us: (u64, u64),
    /// The same of a read or write.
    pub access_us: (u64, u64),
    /// Calls that fail, of 10,000.
    pub failing_of_10_000: u64,
    /// Of the calls that fail, those that took place all the same, of 10.
    pub ambiguous_of_10: u64,
    /// Reads that give a wrong bit, of 10,000.
    pub flipped_of_10_000: u64,
}

impl Default for Conduct {
    fn default() -> Conduct {
        Conduct {
            sync_us: (300, 2_000),
            access_us: (1, 30),
            failing_of_10_000: 0,
            ambiguous_of_10: 3,
            flipped_of_10_000: 0,
        }
    }
}

/// See the file. Clones are the same disk.
#[derive(Clone)]
pub struct Disk {
    place: Memory,
    conduct: Arc<Mutex<Conduct>>,
}

impl Disk {
    /// A disk with this content.
    pub fn new(place: Memory, conduct: Arc<Mutex<Conduct>>) -> Disk {
        Disk { place, conduct }
    }

    /// What lies on it.
    pub fn memory(&self) -> &Memory {
        &self.place
    }

    /// Takes the time of a call, and says whether it shall fail: before it takes place or after.
    fn call(&self, act: &'static str, name: &FileName, is_sync: bool) -> Result<Option<Error>> {
        let conduct = *self.conduct.lock();
        let scheduler = scheduler();
        let (least, more) = if is_sync { conduct.sync_us } else { conduct.access_us };
        let us = least + scheduler.below(more + 1);
        scheduler.note(|| format!("disk   {act} {name}"));
        env::simulation::hold(Duration::from_micros(us));
        if scheduler.below(10_000) >= conduct.failing_of_10_000 {
            return Ok(None);
        }
        let took_place = !matches!(act, "read" | "load" | "open" | "list")
            && scheduler.below(10) < conduct.ambiguous_of_10;
        let outcome = if took_place { Outcome::MayHaveHappened } else { Outcome::DidNotHappen };
        scheduler.count("fault: disk call failed");
        scheduler.note(|| format!("fault  disk {act} {name} fails, {outcome:?}"));
        let error = Error::new(Kind::Failed, outcome, name, act).because("the simulated disk failed");
        if took_place { Ok(Some(error)) } else { Err(error) }
    }
}

/// What lies on the disk changes at one moment: no other thread runs meanwhile, and no death leaves it half changed.
fn calm<T>(act: impl FnOnce() -> T) -> T {
    scheduler().without_interruption(act)
}

fn after<T>(failure: Option<Error>, done: T) -> Result<T> {
    failure.map_or(Ok(done), Err)
}

impl Files for Disk {
    fn capabilities(&self) -> Capabilities {
        self.place.capabilities()
    }

    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        let failure = self.call("create", name, false)?;
        let inner = calm(|| self.place.create(name))?;
        after(
            failure,
            Box::new(Writer { inner, disk: self.clone(), name: name.clone() }) as Box<dyn FileWriter>,
        )
    }

    fn reuse_space(
        &self,
        name: &FileName,
        given_up: &FileName,
        marker: &[u8],
    ) -> Result<Box<dyn FileWriter>> {
        let failure = self.call("reuse", name, true)?;
        let inner = calm(|| self.place.reuse_space(name, given_up, marker))?;
        after(
            failure,
            Box::new(Writer { inner, disk: self.clone(), name: name.clone() }) as Box<dyn FileWriter>,
        )
    }

    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>> {
        let failure = self.call("open", name, false)?;
        let inner = calm(|| self.place.open(name))?;
        after(
            failure,
            Arc::new(Reader { inner, disk: self.clone(), name: name.clone() }) as Arc<dyn FileReader>,
        )
    }

    fn sync(&self, name: &FileName) -> Result<()> {
        let failure = self.call("sync", name, true)?;
        after(failure, calm(|| self.place.sync(name))?)
    }

    fn seal(&self, name: &FileName) -> Result<()> {
        let failure = self.call("seal", name, true)?;
        after(failure, calm(|| self.place.seal(name))?)
    }

    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        let failure = self.call("list", folder, false)?;
        after(failure, calm(|| self.place.list(folder))?)
    }

    fn delete(&self, name: &FileName) -> Result<()> {
        let failure = self.call("delete", name, false)?;
        after(failure, calm(|| self.place.delete(name))?)
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        let failure = self.call("load", name, false)?;
        after(failure, calm(|| self.place.load(name, bytes_max))?)
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        let failure = self.call("swap", name, true)?;
        after(failure, calm(|| self.place.swap(name, expected, new))?)
    }

    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled> {
        let failure = self.call("settle", name, true)?;
        after(failure, calm(|| self.place.settle(name, expected, new))?)
    }

    fn place(&self) -> String {
        "simulated disk".to_owned()
    }

    fn bytes_free(&self) -> Result<u64> {
        calm(|| self.place.bytes_free())
    }
}

struct Writer {
    inner: Box<dyn FileWriter>,
    disk: Disk,
    name: FileName,
}

impl FileWriter for Writer {
    fn name(&self) -> &FileName {
        &self.name
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let failure = self.disk.call("write", &self.name, false)?;
        after(failure, calm(|| self.inner.write(bytes))?)
    }

    fn cut(&mut self, size: u64) -> Result<()> {
        let failure = self.disk.call("cut", &self.name, false)?;
        after(failure, calm(|| self.inner.cut(size))?)
    }

    fn sync(&mut self) -> Result<()> {
        let failure = self.disk.call("sync", &self.name, true)?;
        after(failure, calm(|| self.inner.sync())?)
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn finish(self: Box<Self>) -> Result<u64> {
        let failure = self.disk.call("finish", &self.name, true)?;
        after(failure, calm(|| self.inner.finish())?)
    }

    fn abandon(self: Box<Self>) {
        calm(|| self.inner.abandon());
    }
}

struct Reader {
    inner: Arc<dyn FileReader>,
    disk: Disk,
    name: FileName,
}

impl FileReader for Reader {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.disk.call("read", &self.name, false)?;
        calm(|| self.inner.read_at(offset, buffer))?;
        let flipped = self.disk.conduct.lock().flipped_of_10_000;
        let scheduler = scheduler();
        if flipped > 0 && scheduler.below(10_000) < flipped && !buffer.is_empty() {
            let at = scheduler.below(buffer.len() as u64 * 8) as usize;
            buffer[at / 8] ^= 1 << (at % 8);
            scheduler.count("fault: disk read with a wrong bit");
            scheduler.note(|| {
                format!("fault  disk bit {at} of {} bytes at {offset} of {} flips", buffer.len(), self.name)
            });
        }
        Ok(())
    }
}
