//! The write-ahead log: a write is acknowledged after its record is in the log.
//!
//! One log serves all regions of a server.
//!
//! | call | what it does |
//! |---|---|
//! | [`Log::open`] | takes the log from its owner, reads the existing files, begins a new file |
//! | [`append`](Log::append) | copies a record into a buffer, in the order of the log, and returns a [`Ticket`] |
//! | [`sync`](Log::sync) | waits until records up to a ticket are written ([`Level::Os`]) or synced ([`Level::Disk`]) |
//! | [`roll`](Log::roll) | ends the file and begins another |
//! | [`flushed`](Log::flushed) | reports what a region no longer needs, so that files can be removed |
//! | [`hold`](Log::hold) | registers another holder of files, such as a backup; read replicas hold no files |
//! | [`LogReader`], [`LogTail`] | read a log, and follow one, without owning it |
//! | [`seal`] | ends a log, regardless of its owner |
//!
//! **Group commit.** For [`Level::Disk`] one thread takes all records that were appended, writes them as one
//! [batch](format), syncs the file, and wakes every waiter in one pass. For [`Level::Os`] there is no such thread: the
//! first waiter writes for all (the leader), and waiters that come meanwhile wait for it (the followers).
//!
//! **A failure is final.** After a failed write or sync nobody knows what the device kept, and a later sync that
//! succeeds proves nothing about the failed one. So the log is dead from then on, and every waiter and caller gets the
//! error. A full disk is no failure: the log keeps what it could not write, and tries again; see [`Error::Full`].
//!
//! The log does not know regions' contents, cells or memstores. [`format`] describes the bytes.

mod commit;
mod error;
pub mod format;
mod holder;
mod index;
mod log;
mod marker;
mod options;
mod owner;
mod reader;
mod register;
mod seal;
mod sums;

pub use commit::Durable;
pub use error::{Error, Result};
pub use format::{Kind, Record};
pub use holder::LogHolder;
pub use index::Sequences;
pub use log::{Log, sync_interval};
pub use marker::{ListState, Marker, StoreChange};
pub use options::Options;
pub use reader::{LogPosition, LogReader, LogTail, TornTail};
pub use seal::{SealedLog, seal};

/// A position in the stream of appended records: the end of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// How durable a write must be before its caller continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Written to the operating system: the write survives the death of the process, but not a loss of power.
    Os,
    /// Synced to the disk: the write survives a loss of power.
    Disk,
}
