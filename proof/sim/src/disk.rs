//! A machine's disk: `storage::Memory` with call times and temporary faults.
//!
//! `Memory` itself loses unsynced bytes in a crash. Here calls take the time of a disk, fail while faults are on, and
//! may fail after they happened. There are two classes of other faults:
//!
//! - *Transient read faults*, which the server must survive: a read has a wrong bit or ends early, and the same read a
//!   moment later is right. No acknowledged write may be lost by them.
//! - *Misdirected writes*, which the server must detect: the bytes of a write land at another offset or in another
//!   file. So the disk destroys acknowledged bytes in two places. They may become unreadable, but must not be taken for
//!   data, and must not be missing without an error. [`Medium`] records the undetectable case: the newest bytes of the
//!   log, while none follow them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use storage::{
    Capabilities, Capability, Entry, Error, FileName, FileReader, FileWriter, Files, Kind, Memory, Object,
    Outcome, ReserveState, Result, Settled, Version,
};

use crate::scheduler::scheduler;

/// How a disk behaves now.
#[derive(Clone, Copy, Debug)]
pub struct Conduct {
    /// Duration of a sync, in µs: the minimum, and the maximum random addition.
    pub sync_us: (u64, u64),
    /// Duration of a read or write, in µs: the minimum, and the maximum random addition.
    pub access_us: (u64, u64),
    /// Number of failing calls in 10,000.
    pub failing_of_10_000: u64,
    /// Number of failing calls in 10 that happen and report failure.
    pub ambiguous_of_10: u64,
    /// Number of reads in 10,000 with a wrong bit.
    pub flipped_of_10_000: u64,
    /// Number of reads in 10,000 that end early: half of them with an error, half with zeros for the missing bytes.
    pub short_of_10_000: u64,
    /// Number of misdirected writes in 10,000.
    pub misdirected_of_10_000: u64,
}

impl Conduct {
    /// Whether a process may end because of this behaviour.
    pub fn is_faulty(&self) -> bool {
        self.failing_of_10_000 + self.flipped_of_10_000 + self.short_of_10_000 + self.misdirected_of_10_000
            > 0
    }
}

/// What is known of the acknowledged bytes that a disk has destroyed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Medium {
    /// Number of misdirected writes.
    pub misdirected: u64,
    /// Number of log syncs that must still follow before later batches prove that the destroyed bytes were durable.
    log_syncs_to_proof: u32,
    /// Whether a process ended before that proof. Then the log's end cannot be told from a torn one.
    pub is_log_unproved: bool,
}

/// The kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// A local file system, with all capabilities.
    Local,
    /// HDFS. Files can only be appended to; they cannot be cut and their space cannot be reused. Readers see only whole
    /// blocks of a file that is being written, although more may be durable, until [`Files::seal`] or [`Files::sync`]
    /// recovers its lease, which takes seconds. A deleted file cannot be read any more. The bytes that a process had not
    /// synced are lost when it is killed, and no lock keeps other processes away: the process that
    /// [took](Disk::for_process) the disk last owns it. Swaps and deletions of an earlier one fail, and so do its syncs,
    /// although the bytes are there: that is how `base/hdfs` behaves with its owner's folder.
    Hdfs,
}

impl Profile {
    /// Returns the capabilities of the file system. Those of HDFS are the ones that `base/hdfs` declares.
    pub fn capabilities(self) -> Capabilities {
        match self {
            Profile::Local => Capabilities::ALL,
            Profile::Hdfs => Capabilities::NONE.with(Capability::SyncPrefix).with(Capability::ListsAll),
        }
    }
}

/// Size of a simulated HDFS block, in bytes: small, so that files have several.
const BLOCK: u64 = 16 << 10;
/// Duration of a lease recovery, in µs: the minimum, and the maximum random addition.
const RECOVERY_US: (u64, u64) = (200_000, 8_000_000);

/// Number of syncs after which a batch follows that proves that destroyed bytes of the log were durable. It is in the
/// same file or, after a roll, in the next one but one.
const SYNCS_TO_PROOF: u32 = 4;

impl Medium {
    /// Records that the process that uses the disk has ended.
    pub fn end_life(&mut self) {
        self.is_log_unproved |= self.log_syncs_to_proof > 0;
    }
}

impl Default for Conduct {
    fn default() -> Conduct {
        Conduct {
            sync_us: (300, 2_000),
            access_us: (1, 30),
            failing_of_10_000: 0,
            ambiguous_of_10: 3,
            flipped_of_10_000: 0,
            short_of_10_000: 0,
            misdirected_of_10_000: 0,
        }
    }
}

/// A machine's disk; see the module documentation. Clones share it.
#[derive(Clone)]
pub struct Disk {
    /// The content, which a kill or loss of power replaces. On HDFS a process may outlive that: another one was killed.
    place: Arc<Mutex<Memory>>,
    conduct: Arc<Mutex<Conduct>>,
    medium: Arc<Mutex<Medium>>,
    /// Ranges whose last read had a transient fault: the next read is right.
    misread: Arc<Mutex<BTreeSet<(FileName, u64)>>>,
    profile: Profile,
    leases: Leases,
    /// The number of the process that took the disk last.
    owner: Arc<AtomicU64>,
    /// The number of the process that uses this object.
    number: u64,
}

/// HDFS files with a lease, of a living or dead writer.
type Leases = Arc<Mutex<BTreeSet<FileName>>>;

/// The folder of the log.
pub(crate) const LOG_FOLDER: &str = "WALs";

/// Size of a sector in bytes; misdirected writes land at multiples of it.
const SECTOR: u64 = 512;

impl Disk {
    /// Creates an empty disk.
    pub fn new(profile: Profile, conduct: Arc<Mutex<Conduct>>) -> Disk {
        Disk {
            place: Arc::new(Mutex::new(Memory::with(profile.capabilities()))),
            conduct,
            medium: Arc::default(),
            misread: Arc::default(),
            profile,
            leases: Arc::default(),
            owner: Arc::default(),
            number: 0,
        }
    }

    /// Returns the disk for a new process, which takes it: on HDFS earlier processes own it no more.
    #[must_use]
    pub fn for_process(&self) -> Disk {
        let number = self.owner.fetch_add(1, Ordering::AcqRel) + 1;
        Disk { number, misread: Arc::default(), ..self.clone() }
    }

    /// Returns the content of the disk.
    pub fn content(&self) -> Memory {
        self.place.lock().clone()
    }

    /// Replaces the content of the disk by what the next process finds.
    pub fn become_content(&self, next: Memory) {
        *self.place.lock() = next;
    }

    /// Returns what is known of the acknowledged bytes that the disk has destroyed.
    pub fn medium(&self) -> Medium {
        *self.medium.lock()
    }

    /// Records that the process that uses the disk has ended.
    pub fn end_life(&self) {
        self.medium.lock().end_life();
    }

    /// Fails if another process has taken the disk since, and no lock keeps it away.
    fn check_owner(&self, act: &'static str, name: &FileName, outcome: Outcome) -> Result<()> {
        if self.profile == Profile::Local || self.owner.load(Ordering::Acquire) == self.number {
            return Ok(());
        }
        env::sometimes("hdfs: a process that no longer owns the disk was refused");
        scheduler().note(|| format!("disk   refuses {act} {name} by an earlier owner"));
        Err(Error::new(Kind::InUse, outcome, name, act)
            .because("the simulated disk was taken over by another"))
    }

    /// Waits as long as the disk takes for this call, and decides whether the call fails. `Err` means that it fails and
    /// does not happen. `Some` means that it happens and then reports this failure.
    fn call(&self, act: &'static str, name: &FileName, is_sync: bool) -> Result<Option<Error>> {
        let conduct = *self.conduct.lock();
        let scheduler = scheduler();
        let (least, more) = if is_sync { conduct.sync_us } else { conduct.access_us };
        let us = least + scheduler.below(more + 1);
        scheduler.note(|| format!("disk   {act} {name}"));
        env::simulation::suspend(Duration::from_micros(us));
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

impl Disk {
    /// Linux calls the written pages clean when a sync fails, and the next sync does not report that again.
    fn lose_unsynced(&self, name: &FileName) {
        calm(|| self.content().lose_unsynced(name));
    }

    /// Waits for the duration of a lease recovery, after which the whole file can be read.
    fn recover_lease(&self, name: &FileName) {
        if self.leases.lock().contains(name) {
            let us = RECOVERY_US.0 + scheduler().below(RECOVERY_US.1);
            scheduler().note(|| format!("disk   recovers the lease of {name} in {us} µs"));
            env::simulation::suspend(Duration::from_micros(us));
            env::sometimes("hdfs: a lease was recovered");
            self.leases.lock().remove(name);
            // From now on the writer, which another process may be, cannot write. The file may have been deleted meanwhile.
            let _sealed = calm(|| self.content().seal(name));
        }
    }

    fn begin_lease(&self, name: &FileName) {
        if self.profile == Profile::Hdfs {
            self.leases.lock().insert(name.clone());
        }
    }

    /// Moves the bytes that were just written at `offset` of `name` to another offset or another file. Restores the
    /// previous bytes in their place, which `old` has, and zeros after those.
    fn misdirect(&self, name: &FileName, offset: u64, bytes: &[u8], old: &[u8]) {
        let scheduler = scheduler();
        let files = self.content().list(&FileName::root()).unwrap_or_default();
        let is_same = scheduler.below(2) == 0;
        let victim = match files.get(scheduler.below(files.len() as u64) as usize) {
            Some(file) if !is_same => file.name.clone(),
            _ => name.clone(),
        };
        self.content().damage(name, |all| {
            let here = &mut all[offset as usize..][..bytes.len()];
            here.fill(0);
            here[..old.len()].copy_from_slice(old);
        });
        let mut lands_at = 0;
        self.content().damage(&victim, |all| {
            let sectors = (all.len() as u64).div_ceil(SECTOR);
            lands_at = scheduler.below(sectors) * SECTOR;
            let there = all.get_mut(lands_at as usize..).unwrap_or_default();
            let most = bytes.len().min(there.len());
            there[..most].copy_from_slice(&bytes[..most]);
        });
        scheduler.count("fault: misdirected write");
        scheduler.note(|| {
            format!(
                "fault  disk {} bytes for offset {offset} of {name} land at {lands_at} of {victim}",
                bytes.len()
            )
        });
        let mut medium = self.medium.lock();
        medium.misdirected += 1;
        if [name, &victim].into_iter().any(is_of_log) {
            medium.log_syncs_to_proof = SYNCS_TO_PROOF;
        }
    }

    /// Injects a transient fault into some reads.
    fn misread(&self, name: &FileName, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let Conduct { flipped_of_10_000, short_of_10_000, .. } = *self.conduct.lock();
        if flipped_of_10_000 + short_of_10_000 == 0 || buffer.is_empty() {
            return Ok(());
        }
        let scheduler = scheduler();
        let draw = scheduler.below(10_000);
        let place = (name.clone(), offset);
        if draw >= flipped_of_10_000 + short_of_10_000 || self.misread.lock().contains(&place) {
            self.misread.lock().remove(&place);
            return Ok(());
        }
        self.misread.lock().insert(place);
        let length = buffer.len();
        if draw < flipped_of_10_000 {
            let at = scheduler.below(length as u64 * 8) as usize;
            buffer[at / 8] ^= 1 << (at % 8);
            scheduler.count("fault: disk read with a wrong bit");
            scheduler.note(|| format!("fault  disk bit {at} of {length} bytes at {offset} of {name} flips"));
            return Ok(());
        }
        let read = scheduler.below(length as u64) as usize;
        scheduler.count("fault: disk read that ends early");
        scheduler
            .note(|| format!("fault  disk read of {length} bytes at {offset} of {name} ends after {read}"));
        if scheduler.below(2) == 0 {
            return Err(Error::new(Kind::TooShort, Outcome::DidNotHappen, name, "read").because(format!(
                "{length} bytes at offset {offset} expected, the simulated disk gave {read}"
            )));
        }
        buffer[read..].fill(0);
        Ok(())
    }
}

/// Whether the file belongs to the log.
fn is_of_log(name: &FileName) -> bool {
    name.below(&FileName::new(LOG_FOLDER)).is_some()
}

/// Changes the content atomically: no other thread runs during `act`, and no crash interrupts it.
fn calm<T>(act: impl FnOnce() -> T) -> T {
    scheduler().without_interruption(act)
}

fn after<T>(failure: Option<Error>, done: T) -> Result<T> {
    failure.map_or(Ok(done), Err)
}

impl Disk {
    fn create_by(
        &self,
        name: &FileName,
        create: impl FnOnce(&Memory) -> Result<Box<dyn FileWriter>>,
    ) -> Result<Box<dyn FileWriter>> {
        let failure = self.call("create", name, false)?;
        let inner = calm(|| create(&self.content()))?;
        self.begin_lease(name);
        let writer = Writer { inner, disk: self.clone(), name: name.clone() };
        after(failure, Box::new(writer) as Box<dyn FileWriter>)
    }
}

impl Files for Disk {
    fn capabilities(&self) -> Capabilities {
        self.profile.capabilities()
    }

    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        self.create_by(name, |place| place.create(name))
    }

    fn create_reserved(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        self.create_by(name, |place| place.create_reserved(name))
    }

    fn reuse_space(
        &self,
        name: &FileName,
        given_up: &FileName,
        marker: &[u8],
    ) -> Result<Box<dyn FileWriter>> {
        let failure = self.call("reuse", name, true)?;
        let inner = calm(|| self.content().reuse_space(name, given_up, marker))?;
        after(
            failure,
            Box::new(Writer { inner, disk: self.clone(), name: name.clone() }) as Box<dyn FileWriter>,
        )
    }

    /// Makes a hard link, or on HDFS a copy by HDFS itself: the bytes do not pass through the server.
    fn link(&self, from: &FileName, to: &FileName) -> Result<()> {
        let failure = self.call("link", to, true)?;
        after(failure, calm(|| self.content().link(from, to))?)
    }

    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>> {
        let failure = self.call("open", name, false)?;
        let inner = calm(|| self.content().open(name))?;
        let size = if self.leases.lock().contains(name) {
            env::sometimes("hdfs: a file was opened whose last block is invisible");
            inner.size() / BLOCK * BLOCK
        } else {
            inner.size()
        };
        after(
            failure,
            Arc::new(Reader { inner, disk: self.clone(), name: name.clone(), size }) as Arc<dyn FileReader>,
        )
    }

    fn sync(&self, name: &FileName) -> Result<()> {
        let failure = self.call("sync", name, true).inspect_err(|_| self.lose_unsynced(name))?;
        self.recover_lease(name);
        after(failure, calm(|| self.content().sync(name))?)
    }

    fn forget(&self, name: &FileName) {
        calm(|| self.content().forget(name));
    }

    fn seal(&self, name: &FileName) -> Result<()> {
        let failure = self.call("seal", name, true)?;
        self.recover_lease(name);
        after(failure, calm(|| self.content().seal(name))?)
    }

    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        let failure = self.call("list", folder, false)?;
        after(failure, calm(|| self.content().list(folder))?)
    }

    fn delete(&self, name: &FileName) -> Result<()> {
        let failure = self.call("delete", name, false)?;
        self.check_owner("delete", name, Outcome::DidNotHappen)?;
        self.leases.lock().remove(name);
        after(failure, calm(|| self.content().delete(name))?)
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        let failure = self.call("load", name, false)?;
        after(failure, calm(|| self.content().load(name, bytes_max))?)
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        let failure = self.call("swap", name, true)?;
        self.check_owner("swap", name, Outcome::DidNotHappen)?;
        after(failure, calm(|| self.content().swap(name, expected, new))?)
    }

    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled> {
        let failure = self.call("settle", name, true)?;
        self.check_owner("settle", name, Outcome::MayHaveHappened)?;
        after(failure, calm(|| self.content().settle(name, expected, new))?)
    }

    fn place(&self) -> String {
        "simulated disk".to_owned()
    }

    fn bytes_free(&self) -> Result<u64> {
        calm(|| self.content().bytes_free())
    }

    fn keep_reserve(&self) -> Result<ReserveState> {
        calm(|| self.content().keep_reserve())
    }

    fn spend_reserve(&self) -> bool {
        calm(|| self.content().spend_reserve())
    }

    fn reserve_state(&self) -> ReserveState {
        calm(|| self.content().reserve_state())
    }
}

struct Writer {
    inner: Box<dyn FileWriter>,
    disk: Disk,
    name: FileName,
}

impl Writer {
    /// Returns up to `length` bytes that the disk has at `offset`.
    fn old(&self, offset: u64, length: usize) -> Vec<u8> {
        let Ok(reader) = self.disk.content().open(&self.name) else { return Vec::new() };
        let there = reader.size().saturating_sub(offset).min(length as u64) as usize;
        let mut old = vec![0; there];
        reader.read_at(offset, &mut old).map(|()| old).unwrap_or_default()
    }
}

impl FileWriter for Writer {
    fn name(&self) -> &FileName {
        &self.name
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let failure = self.disk.call("write", &self.name, false)?;
        let offset = self.inner.size();
        if let Some(failure) = failure {
            // Only the first part of the bytes is written before the call fails.
            let part = scheduler().below(bytes.len() as u64 + 1) as usize;
            calm(|| self.inner.write(&bytes[..part]))?;
            return Err(failure);
        }
        let misdirected = self.disk.conduct.lock().misdirected_of_10_000;
        let is_misdirected = misdirected > 0 && !bytes.is_empty() && scheduler().below(10_000) < misdirected;
        let old = if is_misdirected { self.old(offset, bytes.len()) } else { Vec::new() };
        calm(|| self.inner.write(bytes))?;
        if is_misdirected {
            calm(|| self.disk.misdirect(&self.name, offset, bytes, &old));
        }
        Ok(())
    }

    fn cut(&mut self, size: u64) -> Result<()> {
        let failure = self.disk.call("cut", &self.name, false)?;
        after(failure, calm(|| self.inner.cut(size))?)
    }

    fn sync(&mut self) -> Result<()> {
        let lose = |_: &_| self.disk.lose_unsynced(&self.name);
        let failure = self.disk.call("sync", &self.name, true).inspect_err(lose)?;
        calm(|| self.inner.sync())?;
        if is_of_log(&self.name) {
            let mut medium = self.disk.medium.lock();
            medium.log_syncs_to_proof = medium.log_syncs_to_proof.saturating_sub(1);
        }
        self.disk.check_owner("sync", &self.name, Outcome::MayHaveHappened)?;
        after(failure, ())
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn finish(self: Box<Self>) -> Result<u64> {
        let lose = |_: &_| self.disk.lose_unsynced(&self.name);
        let failure = self.disk.call("finish", &self.name, true).inspect_err(lose)?;
        let Writer { inner, disk, name } = *self;
        let size = calm(|| inner.finish())?;
        disk.leases.lock().remove(&name);
        disk.check_owner("finish", &name, Outcome::MayHaveHappened)?;
        after(failure, size)
    }

    fn abandon(self: Box<Self>) {
        calm(|| self.inner.abandon());
    }
}

struct Reader {
    inner: Arc<dyn FileReader>,
    disk: Disk,
    name: FileName,
    /// Number of bytes of the file that a reader can see.
    size: u64,
}

impl FileReader for Reader {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.disk.call("read", &self.name, false)?;
        if offset.saturating_add(buffer.len() as u64) > self.size {
            return Err(Error::new(Kind::TooShort, Outcome::DidNotHappen, &self.name, "read").because(
                format!("{} bytes at offset {offset} expected, {} are visible", buffer.len(), self.size),
            ));
        }
        calm(|| self.inner.read_at(offset, buffer))?;
        self.disk.misread(&self.name, offset, buffer)
    }
}
