//! What can go wrong with an HFile.

use std::fmt::Display;

use storage::FileName;

use crate::MissingBlock;

/// The result of an act on an HFile.
pub type Result<T> = std::result::Result<T, Error>;

/// Why it could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not what was written. Never answered with data.
    #[error("hfile corrupt file={file} offset={offset}: {what}, expected {expected}, found {found}")]
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
    /// The file is sound but uses something that is not read here.
    #[error("hfile {file} uses {what}, which this version does not read")]
    Unsupported {
        /// The file.
        file: FileName,
        /// What it uses.
        what: String,
    },
    /// The block is not in memory, and the caller must not wait for the disk. The read is repeated where it may.
    #[error("block not cached")]
    NotCached,
    /// The block is not in memory, and can be awaited. Then the read is repeated.
    #[error("{} bytes at offset {} of {} are not in memory", .0.length(), .0.offset(), .0.file())]
    Missing(MissingBlock),
    /// Cells came out of order: the file is not written.
    #[error("cell out of order: {next} after {last}")]
    OutOfOrder {
        /// The last one.
        last: String,
        /// The one that came after it.
        next: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    Storage(#[from] storage::Error),
}

impl Error {
    /// Whether the read would succeed if it could wait.
    pub fn would_block(&self) -> bool {
        matches!(self, Error::NotCached | Error::Missing(_))
    }

    pub(crate) fn corrupt(
        file: &FileName,
        offset: u64,
        what: &'static str,
        expected: impl Display,
        found: impl Display,
    ) -> Error {
        Error::Corrupt {
            file: file.clone(),
            offset,
            what,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }
}
