//! The file seam.
//!
//! The whole vocabulary is: create → write → (sync) → finish, `read_at`, list, delete, [`swap`](Files::swap). There is
//! **no rename**. A finished file never changes and never moves; it exists for readers when the one small object that
//! names it has been swapped in. No caller lists a directory to learn what is true. A log, which writes as much again as soon
//! as the old is not needed, may [begin a file in the space](Files::create_over) of one that it gives up.
//!
//! Two furnishings: [`Local`], the disk of this machine, and [`Memory`], a file system for tests that can lose what was
//! not synced, tear the last write, fill up, fail and lie still. Calls block; whoever must not wait leaves its thread.
//!
//! An error says whether the act [did not happen or may have happened](Outcome): after the first it is safe to try
//! again, after the second only the thing itself can tell.

// The bans of `clippy.toml` point to this crate.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "files are handed out here")]

mod confirm;
mod device;
mod error;
mod local;
mod map;
pub mod memory;
mod name;

pub use confirm::swap_confirmed;
pub use device::{Device, DeviceFault, LocalDevice, Scratch};
pub use error::{Error, Kind, Outcome, Result};
pub use local::{Local, memory_bytes, read_text};
pub use memory::Memory;
pub use name::FileName;

use std::sync::Arc;

/// A place where files are kept.
pub trait Files: Send + Sync + 'static {
    /// Begins a new file under its final name. Nobody should read it before it is finished and named by something.
    ///
    /// Fails with [`Kind::Exists`] when the name is taken. Folders on the way are made.
    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>>;

    /// Begins the file `name` in the space of the file `old`, which is given up: the system needs neither new blocks nor new
    /// pages for what is written. Unlike after a [`delete`](Files::delete), who still reads the old file reads other bytes.
    ///
    /// First `mark` is written over the front of the old file and made durable, then the name, which is durable, too, when
    /// this returns: so whoever finds a file under either name before anything else was written finds the mark. What was not
    /// written yet is as it was in the old file, but for at least [`ZEROS_MIN`] zeros behind what was written last; all of it
    /// goes when the file is [finished](FileWriter::finish) or [cut](FileWriter::cut).
    ///
    /// Fails with [`Kind::Exists`] when the name is taken, and with [`Kind::NotFound`] when there is no old file.
    fn create_over(&self, name: &FileName, old: &FileName, mark: &[u8]) -> Result<Box<dyn FileWriter>>;

    /// Opens a finished (or, after a crash, an unfinished) file for reading.
    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>>;

    /// Makes a file that is there durable, its name included: a process that died may have left it in the system's memory
    /// alone, where everybody can read it and the loss of power ends it.
    fn sync(&self, name: &FileName) -> Result<()>;

    /// All files whose names begin with the folder `folder`, at any depth, in order of name.
    fn list(&self, folder: &FileName) -> Result<Vec<Entry>>;

    /// Removes a file, and folders that become empty by it. Removing what is not there succeeds.
    ///
    /// The loss of power may bring the file back: nobody may conclude anything from a file that is there.
    fn delete(&self, name: &FileName) -> Result<()>;

    /// Replaces the whole content of a small object, if its content still is what the caller saw (`None`: it must not
    /// exist). Readers see the old content or the new, whole, also after a crash; after success the new is durable.
    ///
    /// Fails with [`Kind::Conflict`] when somebody else was there first.
    fn swap(&self, name: &FileName, expected: Option<&[u8]>, new: &[u8]) -> Result<()>;

    /// The content of a small object. Fails with [`Kind::NotFound`], or [`Kind::TooLarge`] above `bytes_max`.
    fn read(&self, name: &FileName, bytes_max: usize) -> Result<Vec<u8>> {
        let file = self.open(name)?;
        let size = file.size();
        if size > bytes_max as u64 {
            return Err(Error::new(Kind::TooLarge, Outcome::DidNotHappen, name, "read")
                .because(format!("{size} bytes, at most {bytes_max} expected")));
        }
        let mut content = vec![0; size as usize];
        file.read_at(0, &mut content)?;
        Ok(content)
    }

    /// Where this is, for people: the folder that an operator looks at.
    fn place(&self) -> String;

    /// Bytes that can still be written, where the place can tell.
    fn bytes_free(&self) -> Result<Option<u64>>;
}

/// So many zeros stand behind what was written last in the space of another file, where that was not at an end.
pub const ZEROS_MIN: usize = 16;

/// What the system keeps in memory of a file, and writes, at a time: 4 KB.
const PAGE: u64 = 4 << 10;

/// Up to where the rest of a page is written with zeros when something was written up to `end`. So a page is written whole
/// when it is begun: the system would have to read it otherwise, if it is not in memory.
fn zeros_to(end: u64) -> u64 {
    (end + ZEROS_MIN as u64).next_multiple_of(PAGE)
}

/// A file that is being written, front to back.
pub trait FileWriter: Send {
    /// Appends `bytes`. When it fails, what is in the file past the last sync is not known.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Takes back what was written past `size`, also what a failed write has left: the next write goes there. What was
    /// taken back may be there again after the loss of power, until the next sync.
    fn cut(&mut self, size: u64) -> Result<()>;

    /// Makes all that was written so far durable: after success it survives the loss of power.
    fn sync(&mut self) -> Result<()>;

    /// Bytes written so far.
    fn size(&self) -> u64;

    /// Makes the whole file and its name durable. From now on it never changes. Returns its size in bytes.
    fn finish(self: Box<Self>) -> Result<u64>;

    /// Gives up: the file is removed as far as that is possible.
    fn abandon(self: Box<Self>);
}

/// A file open for reading. It can still be read after it was deleted.
pub trait FileReader: Send + Sync {
    /// Size in bytes at the time it was opened.
    fn size(&self) -> u64;

    /// Fills `buffer` from `offset`. Fails with [`Kind::TooShort`] when the file ends before.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;
}

/// One row of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file's name from the root of the place.
    pub name: FileName,
    /// Size in bytes.
    pub size: u64,
}

#[cfg(test)]
mod conformance;
