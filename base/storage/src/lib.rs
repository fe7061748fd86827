//! Files, behind one trait, so that a local disk, an object store and a file system for tests can stand below the engine.
//!
//! The whole vocabulary is: create → write → finish, `read_at`, list, delete, [`swap`](Files::swap). There is **no
//! rename**. A finished file never changes and never moves. It exists for readers when the one small object that names it
//! has been swapped in; no caller lists a folder to learn what is true.
//!
//! Some implementations can do more: make a part of an unfinished file durable, cut it, reuse a file's space, read what was
//! deleted, tell what space is free. These are [capabilities](Capability). A caller that needs one asks
//! [`Files::capabilities`].
//!
//! Two implementations are here: [`Local`], the disk of this machine, and [`Memory`], a file system for tests. [`Memory`]
//! loses what was not synced, tears the last write, fills up and fails as told, with any set of capabilities.
//!
//! [`Segmented`] makes files that grow of a place whose files appear whole: a log in an object store.
//!
//! Calls block; a caller that must not wait uses a blocking thread pool. Reads of slow storage can be
//! [awaited](FileReader::read_awaited) instead.
//!
//! An error says whether the call [did not happen or may have happened](Outcome). After the first it is safe to repeat the
//! call. After the second only the file itself can tell; for a swap, [`Files::settle`] finds out.

// The bans of `clippy.toml` point to this crate.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "files are handed out here")]

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
mod map;
pub mod memory;
mod name;
mod object;
mod outside;
mod overlay;
mod segmented;

pub use capability::{Capabilities, Capability};
pub use confirm::{make_deletions_durable, swap_confirmed};
pub use copy::copy;
pub use device::{Device, DeviceFault, LocalDevice, Scratch};
pub use disk::{Disk, FileSystem, time_syncs, write_outside};
pub use error::{Error, Kind, Outcome, Result};
pub use false_alarm::at_every_false_alarm;
pub use local::{Local, memory_bytes, read_text};
pub use memory::Memory;
pub use name::FileName;
pub use object::{Object, Settled, Version};
pub use outside::{delete_outside, open_outside};
pub use overlay::Overlay;
pub use segmented::Segmented;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

/// A place where files are kept: a folder on a disk, or a prefix in an object store.
///
/// | call | needs | after an error |
/// |---|---|---|
/// | `create`, `open`, `load`, `list`, `bytes_free` | | did not happen |
/// | `swap` | | did not happen with [`Kind::Conflict`]; else as the error says, and [`Files::settle`] decides |
/// | `delete` | | as the error says; repeating it does no harm |
/// | `reuse_space` | [`Capability::ReuseSpace`] | may have happened: either name, or both of them in turn, may be there |
/// | `sync` | | may have happened; the bytes must not be called durable |
///
/// Without the capability a call fails with [`Kind::Unsupported`] and did not happen.
pub trait Files: Send + Sync + 'static {
    /// What this implementation can do beyond the calls that every implementation has. It never changes.
    fn capabilities(&self) -> Capabilities;

    /// Begins a new file under its final name, and makes the folders on the way. Nobody should read the file before it is
    /// finished and named by another object.
    ///
    /// Fails with [`Kind::Exists`] when the name is taken. An implementation that learns this only when it publishes the
    /// file says so in [`FileWriter::finish`].
    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>>;

    /// Begins the file `name` in the space of the finished file `given_up`, which ceases to exist: the system needs neither
    /// new blocks nor new pages for what is written. Needs [`Capability::ReuseSpace`].
    ///
    /// The caller promises that nobody needs `given_up` any more: a reader that has it open reads the new file's bytes. This
    /// is the one exception to the rule that a finished file never changes, and only a log that drops a file makes use of it.
    ///
    /// Order of effects: `marker` is written over the front of the old file and made durable; then the new name takes the
    /// place of the old one, durably. So a file that is found under either name before anything else was written begins with
    /// the marker. Bytes that were not written yet are those of the old file, except at least [`ZEROS_MIN`] zeros after the
    /// last byte written. They go when the file is [finished](FileWriter::finish) or [cut](FileWriter::cut).
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

    /// Makes the finished file `from` available under a second name, durably. Both files can be read and deleted on their
    /// own; they may share their bytes.
    ///
    /// Fails with [`Kind::Exists`] when the name is taken, and with [`Kind::NotFound`] when there is no file `from`.
    /// After any other error it may have happened, and `to` may be incomplete: nobody names it yet, so the caller deletes
    /// it. This implementation copies the bytes.
    fn link(&self, from: &FileName, to: &FileName) -> Result<()> {
        copy(&*self.open(from)?, self, to).map(drop)
    }

    /// Opens a finished file for reading; with [`Capability::SyncPrefix`] also an unfinished one, after a crash.
    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>>;

    /// Makes an existing file durable with its name, when its writer died: the bytes may be in the system's memory only, where
    /// everybody can read them until the power fails.
    ///
    /// Without [`Capability::SyncPrefix`] every file that can be read is durable, and this does nothing.
    fn sync(&self, name: &FileName) -> Result<()> {
        let _durable = name;
        Ok(())
    }

    /// Ends the writing of a file, whoever writes it. After this returns, every write, cut, sync and finish of its writer fails
    /// with [`Kind::Sealed`] and changes nothing; a write that succeeded before can be read. A finished file may be sealed, too.
    /// Needs [`Capability::SyncPrefix`]: without it nobody sees a file before it is finished.
    ///
    /// Fails with [`Kind::NotFound`] when there is no such file. After an error it may have happened; it may be repeated.
    fn seal(&self, name: &FileName) -> Result<()> {
        Err(Error::unsupported(name, "seal", Capability::SyncPrefix))
    }

    /// All files below the folder `folder`, at any depth, in order of name. Without [`Capability::ListsAll`] it may be stale. Callers
    /// that find small objects by it (file lists, schemas, links, snapshots) rely on a store that lists what was written before.
    fn list(&self, folder: &FileName) -> Result<Vec<Entry>>;

    /// Removes a file, and folders that become empty by it. Removing what is not there succeeds.
    ///
    /// After a loss of power the file may be there again, so nobody may conclude anything from a file that exists.
    fn delete(&self, name: &FileName) -> Result<()>;

    /// Reads a small object whole, with the version that [`swap`](Files::swap) expects.
    ///
    /// Fails with [`Kind::NotFound`], or with [`Kind::TooLarge`] above `bytes_max` bytes.
    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object>;

    /// Replaces the whole content of a small object if it still has the version `expected`; with `None` it must not exist.
    /// Returns the new version, which is durable. Readers see the old content or the new, whole, also after a crash.
    ///
    /// Fails with [`Kind::Conflict`] when another writer was first; nothing has changed then. After
    /// [`Outcome::MayHaveHappened`] readers may see the old or the new content, and a crash may change which. The caller
    /// calls [`settle`](Files::settle) with the same arguments before it deletes anything that either content names;
    /// [`swap_confirmed`] does both.
    ///
    /// An implementation may resolve a lost reply by reading the object and comparing its bytes. So where it matters who won,
    /// `new` holds something that no other writer writes: the owner and its term, or a nonce.
    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version>;

    /// Decides what became of a [`swap`](Files::swap) with the same arguments that may have happened, if need be by swapping
    /// again. What it returns stays true after a crash.
    ///
    /// Fails when it cannot be decided now; it may be called again.
    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled>;

    /// The content of a small object, as [`load`](Files::load) reads it.
    fn read(&self, name: &FileName, bytes_max: usize) -> Result<Vec<u8>> {
        Ok(self.load(name, bytes_max)?.content)
    }

    /// Where this is, for people: the folder or URL that an operator looks at.
    fn place(&self) -> String;

    /// How many bytes can still be written. Needs [`Capability::FreeSpace`].
    fn bytes_free(&self) -> Result<u64> {
        Err(Error::unsupported(&FileName::root(), "measure the space of", Capability::FreeSpace))
    }
}

/// How many zero bytes at least follow the last byte written in [reused space](Files::reuse_space), unless the old file ended
/// before.
pub const ZEROS_MIN: usize = 16;

/// The size of a page of the system's memory for files, in bytes: 4 KB.
const PAGE: u64 = 4 << 10;

/// The offset until which zeros are written after a write in reused space that ends at `end`: the end of a page.
///
/// So every page is written whole at its first write. Otherwise the system would read it first if it is not in memory.
fn zeros_to(end: u64) -> u64 {
    (end + ZEROS_MIN as u64).next_multiple_of(PAGE)
}

/// A file that is being written, front to back.
pub trait FileWriter: Send {
    /// The file's name.
    fn name(&self) -> &FileName;

    /// Appends `bytes`. After an error the file's content after the last sync is not known.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Takes back all bytes after the first `size`, also what a failed write has left there: the next write goes there. Bytes
    /// that were taken back may be there again after the loss of power, until the next sync. Needs [`Capability::Cut`].
    fn cut(&mut self, size: u64) -> Result<()> {
        let _unused = size;
        Err(Error::unsupported(self.name(), "cut", Capability::Cut))
    }

    /// Makes all bytes written so far durable: after success they survive the loss of power. Needs
    /// [`Capability::SyncPrefix`].
    ///
    /// After an error it may have happened, for any part of the bytes. A second sync that succeeds proves nothing about them.
    fn sync(&mut self) -> Result<()> {
        Err(Error::unsupported(self.name(), "sync", Capability::SyncPrefix))
    }

    /// Bytes written so far.
    fn size(&self) -> u64;

    /// Makes the whole file and its name durable. From now on it never changes. Returns its size in bytes.
    ///
    /// Fails with [`Kind::Exists`] when another writer has published the name first. After [`Outcome::MayHaveHappened`] the
    /// file may exist; nobody names it yet, so the caller writes it again under another name.
    fn finish(self: Box<Self>) -> Result<u64>;

    /// Gives up: the file is removed as far as that is possible.
    fn abandon(self: Box<Self>);
}

/// A file open for reading.
///
/// After the file was deleted, reads go on with [`Capability::ReadAfterDelete`]; without it they may fail with
/// [`Kind::NotFound`].
pub trait FileReader: Send + Sync {
    /// Size in bytes at the time when the file was opened.
    fn size(&self) -> u64;

    /// Fills `buffer` from the byte at `offset`. Fails with [`Kind::TooShort`] when the file ends before.
    ///
    /// Blocks the thread until the bytes are there.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// The same read without blocking a thread: a future of the `length` bytes at `offset`, which begins when it is polled.
    ///
    /// `None` where reads cannot be awaited, as on the local disk: the caller uses [`read_at`](FileReader::read_at) on a
    /// blocking thread pool. A file always returns a future or never does. How many reads run at once is limited by the
    /// implementation; equal reads are not combined here.
    fn read_awaited(&self, offset: u64, length: usize) -> Option<AwaitedRead> {
        let _unused = (offset, length);
        None
    }

    /// The file as one that grows part by part, each durable when it can be read; `None` for any other file.
    fn as_growing(&self) -> Option<&dyn GrowingFile> {
        None
    }
}

/// A file that others see growing. Whatever a reader finds in it is durable.
pub trait GrowingFile {
    /// Whether nothing will follow: the file was finished or sealed.
    fn is_ended(&self) -> bool;

    /// The file with what was written since it was opened. One request if there is nothing new but an ended file, two if it still
    /// grows, and one more for each new part.
    ///
    /// Fails with [`Kind::NotFound`] when the file was deleted.
    fn grown(&self) -> Result<Arc<dyn FileReader>>;
}

/// See [`FileReader::read_awaited`].
pub type AwaitedRead = Pin<Box<dyn Future<Output = Result<Bytes>> + Send>>;

/// One row of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file's name from the root of the place.
    pub name: FileName,
    /// Size in bytes.
    pub size: u64,
}

#[cfg(test)]
mod tests;
