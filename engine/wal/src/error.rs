//! What can go wrong with the log.

use storage::{FileName, Outcome};

/// The result of an act on the log.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the log could not do it, and what that means for the caller.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log failed earlier and accepts nothing more; whether what waited is durable is not known. The server must
    /// end and recover.
    #[error("the log has failed: {cause}; check the disk of {file}, then start the server again")]
    Dead {
        /// The file that was being written.
        file: FileName,
        /// What happened first.
        cause: String,
    },
    /// There is no room for the log. What waits is written when there is; nothing needs to be started again.
    #[error(
        "no space is left in {place} for the write-ahead log ({cause}); free some space there: writes are taken again \
         without a restart"
    )]
    Full {
        /// The folder or device.
        place: String,
        /// What the system said.
        cause: String,
        /// Whether the write that is answered with this may become durable all the same.
        outcome: Outcome,
    },
    /// Somebody else has taken or sealed the log.
    #[error(
        "the log was taken over by {by} (epoch {epoch}): this server no longer owns its regions and must stop"
    )]
    Fenced {
        /// The new owner's epoch.
        epoch: u64,
        /// The new owner's name.
        by: String,
    },
    /// The log was closed in order before.
    #[error("the log is closed")]
    Closed,
    /// The record is longer than the limit; nothing was written.
    #[error(
        "a log record of {found} bytes is over the limit of {limit} bytes (bellows.wal.record.max.bytes)"
    )]
    TooLarge {
        /// Its size.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// Bytes that were durable are damaged.
    #[error("log corrupt file={file} offset={offset}: {what}, expected {expected}, found {found}")]
    Corrupt {
        /// The file.
        file: FileName,
        /// Where in it, in bytes.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The file was written by a newer version.
    #[error(
        "log file {file} has format {found}, this version reads up to {known}: start the newer version again"
    )]
    Newer {
        /// The file.
        file: FileName,
        /// Its format.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// A file that was to be read was removed.
    #[error(
        "file {number} of the log {folder} is gone before it was read to its end: hold the log by name to follow it, and \
         begin again from a copy of the data"
    )]
    Gone {
        /// The log's folder.
        folder: FileName,
        /// The file's number.
        number: u64,
    },
    /// A file could not be read or made; nothing was acknowledged by it.
    #[error("{0}")]
    Storage(String),
}

impl Error {
    /// Whether the log goes on by itself: the error is this write's alone.
    pub fn passes(&self) -> bool {
        matches!(self, Error::Full { .. } | Error::TooLarge { .. })
    }

    /// Whether the write may be durable all the same.
    pub fn outcome(&self) -> Outcome {
        match self {
            Error::Dead { .. } | Error::Fenced { .. } => Outcome::MayHaveHappened,
            Error::Full { outcome, .. } => *outcome,
            _ => Outcome::DidNotHappen,
        }
    }
}

impl From<storage::Error> for Error {
    fn from(error: storage::Error) -> Error {
        Error::Storage(error.to_string())
    }
}
