//! Errors of the log.

use storage::{FileName, Outcome};

/// The result of an operation on the log.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on the log failed, and what the caller must do.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log failed earlier and accepts no more writes. Nobody knows whether the writes that were waiting are
    /// durable. The server must end, and recover the log at its next start.
    #[error("the log has failed: {cause}; {}, then start the server again", check_of(place, file))]
    Dead {
        /// The folder or URL of the log's storage.
        place: String,
        /// The file that was being written.
        file: FileName,
        /// The first failure; since then the log has refused all writes.
        cause: String,
    },
    /// The disk has no room for the log. The log keeps waiting writes, and writes them when there is room; no restart
    /// is needed.
    #[error(
        "no space is left in {place} for the write-ahead log ({cause}); free some space there: writes are accepted again \
         without a restart"
    )]
    Full {
        /// The folder or device of the log.
        place: String,
        /// The system's error.
        cause: String,
        /// Whether the refused write may become durable later.
        outcome: Outcome,
    },
    /// Another process has taken or sealed the log.
    #[error(
        "the log was taken over by {by} (epoch {epoch}): this server no longer owns its regions and must stop"
    )]
    Fenced {
        /// The new owner's epoch.
        epoch: u64,
        /// The new owner's name.
        by: String,
    },
    /// The log was closed cleanly.
    #[error("the log is closed")]
    Closed,
    /// The record is longer than the limit; nothing was written.
    #[error(
        "a log record of {found} bytes is over the limit of {limit} bytes, and nothing of it was written: send these changes in \
         several smaller requests"
    )]
    TooLarge {
        /// Size of the record in bytes.
        found: usize,
        /// Maximum size of a record in bytes.
        limit: usize,
    },
    /// Bytes that were durable are damaged.
    #[error("log corrupt file={file} offset={offset}: {what}, expected {expected}, found {found}")]
    Corrupt {
        /// The file.
        file: FileName,
        /// The offset of the damage, in bytes.
        offset: u64,
        /// What is wrong with the bytes.
        what: &'static str,
        /// The content that is expected at the offset.
        expected: String,
        /// The content that the file has at the offset.
        found: String,
    },
    /// The file was written by a newer version.
    #[error(
        "log file {file} has format {found}, this version reads up to {known}: start the newer version again"
    )]
    Newer {
        /// The file.
        file: FileName,
        /// The version of the file's format.
        found: u32,
        /// The newest version that is supported.
        known: u32,
    },
    /// A file was deleted before it was read.
    #[error(
        "file {number} of the log {folder} was deleted before it was read to its end: register a holder of the log to follow \
         it, and begin again from a copy of the data"
    )]
    Gone {
        /// The log's folder.
        folder: FileName,
        /// The number of the deleted file.
        number: u64,
    },
    /// The storage could not read or create a file. No write was acknowledged because of the failed call.
    #[error("{0}")]
    Storage(String),
}

impl Error {
    /// Whether only this write failed, and the log accepts further writes.
    pub fn passes(&self) -> bool {
        matches!(self, Error::Full { .. } | Error::TooLarge { .. })
    }

    /// Whether the write certainly did not happen, or may be durable although the call failed.
    pub fn outcome(&self) -> Outcome {
        match self {
            Error::Dead { .. } | Error::Fenced { .. } => Outcome::MayHaveHappened,
            Error::Full { outcome, .. } => *outcome,
            _ => Outcome::DidNotHappen,
        }
    }
}

/// Returns what the operator checks after the log could not be written to `file` in `place`.
fn check_of(place: &str, file: &FileName) -> String {
    // The place of a disk is a folder. That of an object store or HDFS is a URL.
    match place.contains("://") {
        true => format!("check that {place} can be reached and takes writes"),
        false => format!("check the disk of {place}/{file}"),
    }
}

impl From<storage::Error> for Error {
    fn from(error: storage::Error) -> Error {
        Error::Storage(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_log_names_the_storage_that_it_is_in() {
        let of = |place: &str| {
            let (file, cause) = (FileName::new("WALs/1.wal"), "no answer".to_owned());
            Error::Dead { place: place.to_owned(), file, cause }.to_string()
        };
        let disk = of("/srv/bellows");
        assert!(disk.contains("no answer; check the disk of /srv/bellows/WALs/1.wal, then start"), "{disk}");
        for store in ["s3://bucket/folder", "hdfs://namenode:8020/folder"] {
            let text = of(store);
            assert!(text.contains(&format!("check that {store} can be reached")), "{text}");
            assert!(!text.contains("disk"), "{text}");
        }
    }
}
