//! The write-ahead log: what is acknowledged is in it first.
//!
//! One log serves all regions of a server. Its vocabulary is small:
//!
//! 1. [`append`](Log::append) copies a record into a buffer and gives a [`Ticket`]. The order of appending is the order
//!    on disk; it waits only when the buffer is over its limit.
//! 2. [`sync`](Log::sync) waits until a ticket, and with it everything before, is handed to the operating system
//!    ([`Level::Os`]) or is on the disk ([`Level::Disk`]).
//! 3. [`roll`](Log::roll) ends the file and begins another; [`flushed`](Log::flushed) says what a region no longer
//!    needs, so that old files can go.
//! 4. [`seal`] ends a log, whoever owns it: nothing is accepted or acknowledged afterwards.
//! 5. [`Log::open`] reads what an earlier life left and gives it, region by region, through a [`LogReader`], which reads any
//!    log without owning it.
//!
//! **Group commit.** For the disk, one thread takes all that was appended, writes it as one [batch](format), syncs, and
//! wakes every waiter in one pass. For the operating system there is no thread: the first who waits writes for all
//! (leader), and those who come meanwhile wait for it (followers).
//!
//! **A failure is final.** When a write or sync fails nobody knows what the device kept, and a second sync that succeeds
//! would say nothing about the first. So the log is dead from then on, and everybody who waits or comes is told so. A disk
//! that is full is no failure: what was not written is kept and tried again, see [`Error::Full`].
//!
//! What it does not know: regions' contents, cells, memstores. Bytes are drawn in [`format`].

mod commit;
mod error;
pub mod format;
mod holder;
mod index;
mod log;
mod marker;
mod owner;
mod reader;
mod register;
mod seal;

pub use commit::Durable;
pub use error::{Error, Result};
pub use format::{Kind, Record};
pub use holder::LogHolder;
pub use index::Sequences;
pub use log::{Log, Options};
pub use marker::{Marker, StoreChange};
/// Until all callers use the new name.
pub use reader::LogReader as Recovered;
pub use reader::{Cut, LogPosition, LogReader, LogTail};
pub use seal::{SealedLog, seal};

/// A place in the log's stream: everything up to and with one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// How safe is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Handed to the operating system: survives the death of the process, not of the machine.
    Os,
    /// On the disk: survives the loss of power.
    Disk,
}
