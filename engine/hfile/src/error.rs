//! Errors of HFiles.

use std::fmt::Display;

use storage::FileName;

use crate::MissingBlock;

/// The result of an operation on an HFile.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on an HFile failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes of the file differ from those that were written. No data is returned.
    #[error("hfile corrupt file={file} offset={offset}: {what}, expected {expected}, found {found}")]
    Corrupt {
        /// The name of the file.
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
    /// The file is intact but uses a feature that is not supported.
    #[error("hfile {file} uses {what}, which this version does not read")]
    Unsupported {
        /// The name of the file.
        file: FileName,
        /// The feature that is not supported.
        what: String,
    },
    /// The block is not in memory, and the caller must not wait for the disk. The caller should repeat the read on a
    /// thread that may block.
    #[error("block not cached")]
    NotCached,
    /// The block is not in memory, and can be awaited. Afterwards the caller repeats the read.
    #[error("{} bytes at offset {} of {} are not in memory", .0.length(), .0.offset(), .0.file())]
    Missing(MissingBlock),
    /// A cell was appended out of order, and was refused. The caller should abandon the file.
    #[error("cell out of order: {next} after {last}")]
    OutOfOrder {
        /// The cell that was appended last.
        last: String,
        /// The refused cell, which sorts before the last one.
        next: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    Storage(#[from] storage::Error),
}

impl Error {
    /// Whether the read failed only because it may not wait.
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
