//! The trait [`Files`], so that the engine runs on a local disk, an object store, or a file system for tests.
//!
//! The operations are create → write → finish, `read_at`, list, delete and [`swap`](Files::swap). There is **no
//! rename**. A finished file does not change and does not move; the one exception is [`Files::reuse_space`], which only
//! the log uses. Readers find it after a swap of the small object that names it; no caller lists a folder to decide
//! which files count.
//!
//! Some implementations can do more: sync or cut an unfinished file, reuse a file's space, read a deleted file, report
//! free space. These are [capabilities](Capability). A caller that needs one asks [`Files::capabilities`].
//!
//! This crate has two implementations: [`Local`], the disk of this machine, and [`Memory`], a file system for tests.
//! [`Memory`] loses unsynced bytes, tears the last write, fills up and fails on request, with any set of capabilities.
//!
//! [`Segmented`] adds files that can grow, such as a log, to storage whose files appear only when they are whole.
//!
//! Calls block; a caller that must not wait uses a blocking thread pool. Reads of slow storage can be
//! [awaited](FileReader::read_awaited) instead.
//!
//! An error says whether the call [did not happen or may have happened](Outcome). If it did not happen, the caller may
//! repeat it. If it may have happened, the caller must look at the file to find out; for a swap, [`Files::settle`] does
//! that.

// This crate may use what `clippy.toml` bans elsewhere, because the bans point to it.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the other crates open files through this one"
)]

mod capability;
mod confirm;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod copy;
mod device;
mod disk;
mod error;
mod false_alarm;
mod local;
mod machine_memory;
mod map;
pub mod memory;
mod name;
mod object;
mod outside;
mod overlay;
mod reserve;
mod segmented;

pub use capability::{Capabilities, Capability};
pub use confirm::{make_deletions_durable, swap_confirmed};
pub use copy::{copy, copy_unless_there, is_copy};
pub use device::{Device, DeviceFault, LocalDevice, Scratch};
pub use disk::{Disk, FileSystem, time_syncs, write_outside};
pub use error::{Error, Kind, Outcome, Result};
pub use false_alarm::at_every_false_alarm;
pub use local::{Local, read_text};
pub use machine_memory::MachineMemory;
pub use memory::Memory;
pub use name::FileName;
pub use object::{Object, Settled, Version};
pub use outside::{LocatedFile, delete_outside, open_outside};
pub use overlay::Overlay;
pub use reserve::{RESERVE, ReserveState, with_reserve};
pub use segmented::{RequestBudget, Segmented};

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

/// Storage for files: a folder on a disk, or a prefix in an object store.
///
/// | call | needs | outcome of an error |
/// |---|---|---|
/// | `create`, `open`, `load`, `list`, `bytes_free` | | did not happen |
/// | `swap` | | did not happen with [`Kind::Conflict`]; else as the error says, and [`Files::settle`] decides |
/// | `delete`, `delete_all` | | as the error says; repeating it does no harm |
/// | `reuse_space` | [`Capability::ReuseSpace`] | may have happened: the file may have the old name, or the new one |
/// | `sync` | | may have happened; the bytes must not be called durable |
///
/// Without the capability a call fails with [`Kind::Unsupported`] and changes nothing.
pub trait Files: Send + Sync + 'static {
    /// Returns what this implementation can do beyond the calls that every implementation has. The set never changes.
    fn capabilities(&self) -> Capabilities;

    /// Begins a new file under its final name, and creates its parent folders. Readers open it after it is finished and
    /// another object names it.
    ///
    /// Fails with [`Kind::Exists`] when the name is taken. An implementation that notices this only when it publishes
    /// the file returns the error from [`FileWriter::finish`].
    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>>;

    /// Like [`create`](Files::create), for a file that may use the [reserve](Files::keep_reserve) while that is spent: one
    /// that the server needs to free room, and the log's.
    fn create_reserved(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        self.create(name)
    }

    /// Begins the file `name` in the space of the finished file `given_up`, which then no longer exists. So the system
    /// need not allocate blocks or pages. Needs [`Capability::ReuseSpace`].
    ///
    /// The caller promises that nobody needs `given_up` any more: a reader that has it open reads the new file's bytes.
    /// Only the log uses this, the one exception to the rule that a finished file never changes.
    ///
    /// The implementation first overwrites the beginning of the old file with `marker`, durably; then it replaces the
    /// old name by the new one, durably. So a file found under either name begins with the marker. Until new bytes are
    /// written, the rest of the file has the old file's bytes, but at least [`ZEROS_MIN`] zeros follow the last byte
    /// written. What is left of the old bytes is cut off when the file is [finished](FileWriter::finish) or
    /// [cut](FileWriter::cut).
    ///
    /// Fails with [`Kind::Exists`] when `name` is taken, and with [`Kind::NotFound`] when there is no file `given_up`.
    fn reuse_space(
        &self,
        name: &FileName,
        given_up: &FileName,
        marker: &[u8],
    ) -> Result<Box<dyn FileWriter>> {
        let _unused = (given_up, marker);
        Err(Error::unsupported(name, "create", Capability::ReuseSpace))
    }

    /// Makes the finished file `from` available under a second name, durably. Both files can be read and deleted on
    /// their own; they may share their bytes.
    ///
    /// Fails with [`Kind::Exists`] when the name is taken, and with [`Kind::NotFound`] when there is no file `from`.
    /// After any other error `to` may exist and be incomplete. No object names it yet, so the caller deletes it. The
    /// default implementation copies the bytes.
    fn link(&self, from: &FileName, to: &FileName) -> Result<()> {
        copy(&*self.open(from)?, self, to).map(drop)
    }

    /// Opens a finished file for reading; with [`Capability::SyncPrefix`] also an unfinished one, after a crash. A
    /// reader that needs every synced byte [seals](Files::seal) the file first.
    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>>;

    /// Opens files like [`open`](Files::open), one after the other in the order of `names`, and returns the results in
    /// the same order. The caller reads the files soon, so an implementation may read their bytes beforehand, with
    /// several requests at the same time. Bytes that were read beforehand are never older than the call.
    fn open_all(&self, names: &[FileName]) -> Vec<Result<Arc<dyn FileReader>>> {
        names.iter().map(|name| self.open(name)).collect()
    }

    /// Makes an existing file and its name durable after its writer died. Until then its bytes may be in the system's
    /// memory only, where they can be read until the power fails.
    ///
    /// Without [`Capability::SyncPrefix`] every file that can be read is durable, and this does nothing.
    fn sync(&self, name: &FileName) -> Result<()> {
        let _durable = name;
        Ok(())
    }

    /// Drops the bytes of a file from the system's memory, so that the next read gets what is in storage. Called after a sync
    /// of the file failed: Linux then calls the bytes clean that it could not write. They can be read until memory is needed or
    /// power fails, and a later sync reports success, so whoever reads them would rely on bytes that do not exist. Does nothing
    /// where a file that can be read is durable, and if there is no such file.
    fn forget(&self, name: &FileName) {
        let _durable = name;
    }

    /// Stops the writer of a file. After this returns, every write, cut, sync and finish of that writer fails with
    /// [`Kind::Sealed`] and changes nothing, and readers find all writes that succeeded before. A finished file may be
    /// sealed, too. Needs [`Capability::SyncPrefix`]: without it no unfinished file can be seen.
    ///
    /// Fails with [`Kind::NotFound`] when there is no such file. After an error the seal may have happened; the caller
    /// may repeat it.
    fn seal(&self, name: &FileName) -> Result<()> {
        Err(Error::unsupported(name, "seal", Capability::SyncPrefix))
    }

    /// Seals files in any order as [`seal`](Files::seal) does, and leaves out files that do not exist.
    fn seal_all(&self, names: &[FileName]) -> Result<()> {
        names.iter().try_for_each(|name| match self.seal(name) {
            Err(error) if error.kind() != Kind::NotFound => Err(error),
            _ => Ok(()),
        })
    }

    /// Lists all files below `folder`, at any depth, in order of name; empty for a folder that does not exist. Without
    /// [`Capability::ListsAll`] the listing may be stale. Callers that find small objects (file lists, schemas, links,
    /// snapshots) by listing need storage whose listings contain every object that was written before.
    fn list(&self, folder: &FileName) -> Result<Vec<Entry>>;

    /// Deletes a file, and folders that become empty. Deleting an absent file succeeds.
    ///
    /// After a loss of power the file may exist again, so its existence alone proves nothing.
    fn delete(&self, name: &FileName) -> Result<()>;

    /// Deletes files in any order, as [`delete`](Files::delete) does; some stores take them in one request. After an
    /// error some may be deleted.
    fn delete_all(&self, names: &[FileName]) -> Result<()> {
        names.iter().try_for_each(|name| self.delete(name))
    }

    /// Reads a small object whole, with the version that [`swap`](Files::swap) expects.
    ///
    /// Fails with [`Kind::NotFound`], or with [`Kind::TooLarge`] above `bytes_max` bytes.
    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object>;

    /// Replaces the whole content of a small object if it still has the version `expected`; with `None` it must not
    /// exist. Returns the new version, which is durable. Readers see the old content or the new, whole, also after a
    /// crash.
    ///
    /// Fails with [`Kind::Conflict`] and changes nothing when another writer was first. After
    /// [`Outcome::MayHaveHappened`] readers may see the old or the new content, and a crash may change which. The
    /// caller calls [`settle`](Files::settle) with the same arguments before it deletes anything that either content
    /// names; [`swap_confirmed`] does both.
    ///
    /// An implementation may resolve a lost reply or a refusal by reading the object and comparing its bytes. So where it
    /// matters which writer won, `new` contains bytes that no other writer writes: the owner and its term, or a nonce.
    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version>;

    /// Decides whether a [`swap`](Files::swap) with the same arguments that may have happened did happen. If necessary,
    /// it swaps again. The returned result stays true after a crash.
    ///
    /// Fails when it cannot be decided now; the caller may call it again.
    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled>;

    /// Returns this storage for the calls of [`load`](Files::load), [`swap`](Files::swap) and [`settle`](Files::settle) that
    /// together decide one write. If requests fail, all these calls end by the time at which one call that begins now
    /// would give up. Without this, each of them repeats its requests for that long. `None` if the calls of this storage
    /// repeat nothing, or if it has such a deadline already.
    fn under_one_deadline(&self) -> Option<Arc<dyn Files>> {
        None
    }

    /// Reads the content of a small object as [`load`](Files::load) does, with the same errors.
    fn read(&self, name: &FileName, bytes_max: usize) -> Result<Vec<u8>> {
        Ok(self.load(name, bytes_max)?.content)
    }

    /// Returns how long a [later sync](FileWriter::sync_later), for which a caller has waited for `waited`, should still
    /// wait, so that the requests of syncs stay within a budget. Zero without a budget.
    fn sync_pause(&self, waited: Duration) -> Duration {
        let _unlimited = waited;
        Duration::ZERO
    }

    /// Whether another process has become the owner of the storage, so that this one can change nothing any more. Storage
    /// that knows no owners returns `false`.
    fn is_taken_over(&self) -> Result<bool> {
        Ok(false)
    }

    /// Returns the folder or URL of the storage, for messages to operators.
    fn place(&self) -> String;

    /// Returns the number of bytes that can still be written. Needs [`Capability::FreeSpace`].
    fn bytes_free(&self) -> Result<u64> {
        Err(Error::unsupported(&FileName::root(), "measure the space of", Capability::FreeSpace))
    }

    /// Reserves room for the writes by which an operator frees room on a full disk, if that is not done and there is room for
    /// twice the size. Returns the state after that.
    ///
    /// A swap or a link that finds the disk full uses the reserve by itself. While the reserve is spent, a write to a file
    /// that is not [created for that](Files::create_reserved) fails with [`Kind::Full`] unless half of the reserve stays
    /// free, and whoever spends it or finds it spent must take no further data from clients. The server calls
    /// this from time to time, so that the reserve is kept again once there is room. The default implementation reserves
    /// nothing.
    fn keep_reserve(&self) -> Result<ReserveState> {
        Ok(ReserveState::None)
    }

    /// Gives up the reserve, because the disk is full and the caller must write. Returns whether that made room.
    fn spend_reserve(&self) -> bool {
        false
    }

    /// Returns whether the storage has its reserve. Takes no lock.
    fn reserve_state(&self) -> ReserveState {
        ReserveState::None
    }
}

/// Minimum number of zero bytes after the last byte written in [reused space](Files::reuse_space), unless the old file
/// ends before.
pub const ZEROS_MIN: usize = 16;

/// The size of a page of the system's memory for files, in bytes: 4 KB.
const PAGE: u64 = 4 << 10;

/// Returns the offset up to which a write in reused space that ends at `end` is followed by zeros: the end of a page.
///
/// So the first write to a page covers it whole. Otherwise the system would have to read a page that is not in memory.
fn zeros_to(end: u64) -> u64 {
    (end + ZEROS_MIN as u64).next_multiple_of(PAGE)
}

/// Called with the outcome of a [later sync](FileWriter::sync_later).
pub type SyncDone = Box<dyn FnOnce(Result<()>) + Send>;

/// A file that is being written, front to back.
pub trait FileWriter: Send {
    /// Returns the file's name.
    fn name(&self) -> &FileName;

    /// Appends `bytes`. After an error the content that follows the last sync is undefined.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Truncates the file to `size` bytes, including the remains of a failed write; the next write continues there.
    /// Until the next sync a loss of power may bring the truncated bytes back. Needs [`Capability::Cut`].
    fn cut(&mut self, size: u64) -> Result<()> {
        let _unused = size;
        Err(Error::unsupported(self.name(), "cut", Capability::Cut))
    }

    /// Makes all bytes written so far durable: after success they survive the loss of power. Needs
    /// [`Capability::SyncPrefix`].
    ///
    /// After an error any part of the bytes may be durable. A second sync that succeeds proves nothing about them.
    fn sync(&mut self) -> Result<()> {
        Err(Error::unsupported(self.name(), "sync", Capability::SyncPrefix))
    }

    /// Maximum number of syncs by [`sync_later`](FileWriter::sync_later) that run at the same time; 1 where that call
    /// waits for the sync.
    fn syncs_at_once(&self) -> usize {
        1
    }

    /// Begins a sync, and may return before it ends. `done` is called once, by any thread: with success when all bytes
    /// written before this call are durable. So it is never called with success while an earlier sync is undecided.
    ///
    /// Waits while as many syncs run as may. After a failure all later syncs fail. `done` must not call the writer.
    fn sync_later(&mut self, done: SyncDone) {
        done(self.sync());
    }

    /// Returns the number of bytes written so far.
    fn size(&self) -> u64;

    /// Returns the number of objects that store the file so far; 0 where a file is one object.
    fn parts(&self) -> usize {
        0
    }

    /// Makes the whole file and its name durable. From now on it does not change, unless its space is
    /// [reused](Files::reuse_space). Returns its size in bytes.
    ///
    /// Fails with [`Kind::Exists`] when another writer has published the name first. After [`Outcome::MayHaveHappened`]
    /// the file may exist; no object names it yet, so the caller writes the content again under another name.
    fn finish(self: Box<Self>) -> Result<u64>;

    /// Abandons the file and deletes it if possible.
    fn abandon(self: Box<Self>);
}

/// A file open for reading.
///
/// After the file was deleted, reads still succeed if the storage has [`Capability::ReadAfterDelete`]. Otherwise they
/// may fail with [`Kind::NotFound`].
pub trait FileReader: Send + Sync {
    /// Returns the size that the file had when it was opened, in bytes.
    fn size(&self) -> u64;

    /// Fills `buffer` from the byte at `offset`. Fails with [`Kind::TooShort`] when the file ends before.
    ///
    /// Blocks the thread until the bytes are there.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Returns a future of the `length` bytes at `offset`, which reads without blocking a thread once it is polled.
    ///
    /// `None` where reads cannot be awaited, as on the local disk: the caller uses [`read_at`](FileReader::read_at) on
    /// a blocking thread pool. A file always returns a future or never does. The implementation limits how many reads
    /// run at once; it does not combine equal reads.
    fn read_awaited(&self, offset: u64, length: usize) -> Option<AwaitedRead> {
        let _unused = (offset, length);
        None
    }

    /// Begins to read the `length` bytes at `offset`, for a caller that has other work until it needs them. The
    /// returned function waits for the bytes. The caller may drop the function instead; the read may then continue in
    /// vain.
    ///
    /// `None` where that gains nothing, as on the local disk, whose system reads ahead by itself.
    fn read_early(&self, offset: u64, length: usize) -> Option<EarlyRead> {
        let _unused = (offset, length);
        None
    }

    /// Returns the file as one that grows part by part; `None` for any other file.
    fn as_growing(&self) -> Option<&dyn GrowingFile> {
        None
    }
}

/// A file that readers see grow. Every byte that a reader finds is durable.
pub trait GrowingFile {
    /// Whether the file was finished or sealed, so that it grows no more.
    fn is_ended(&self) -> bool;

    /// Returns the number of objects that store the file.
    fn parts(&self) -> usize;

    /// Opens the file again, with the parts that were written since. Takes one request if the file has ended, two if it
    /// still grows, and one more for each new part.
    ///
    /// Fails with [`Kind::NotFound`] when the file was deleted.
    fn grown(&self) -> Result<Arc<dyn FileReader>>;
}

/// The future of [`FileReader::read_awaited`].
pub type AwaitedRead = Pin<Box<dyn Future<Output = Result<Bytes>> + Send>>;

/// The function of [`FileReader::read_early`], which waits for the bytes.
pub type EarlyRead = Box<dyn FnOnce() -> Result<Bytes> + Send + Sync>;

/// A file in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file's name, from the root.
    pub name: FileName,
    /// The file's size in bytes.
    pub size: u64,
}

#[cfg(test)]
mod tests;
