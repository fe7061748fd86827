//! Why a log file cannot be read.

use storage::FileName;

/// The result of reading a log file.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a log file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is encrypted. Its key is in HBase's key store, which this crate does not read.
    #[error("log {0} is encrypted: start HBase with its keys once more, and stop it in order")]
    Encrypted(FileName),
    /// The file uses an unsupported codec or value.
    #[error("log {file} has {what}, which is not read here: start HBase once more, and stop it in order")]
    Unsupported {
        /// The name of the file.
        file: FileName,
        /// The unsupported codec or value.
        what: String,
    },
    /// The file is damaged.
    #[error("log corrupt file={file} offset={offset}: {what}, expected {expected}, found {found}")]
    Corrupt {
        /// The name of the file.
        file: FileName,
        /// The offset of the entry, in bytes.
        offset: u64,
        /// What is wrong with the entry.
        what: &'static str,
        /// The content that is expected at the offset.
        expected: String,
        /// The content that the file has at the offset.
        found: String,
    },
    /// Storage failed.
    #[error(transparent)]
    Storage(#[from] storage::Error),
}
