//! Why a log file cannot be read.

use storage::FileName;

/// The result of reading a log file.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a log file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is encrypted, and the key is in HBase's key store.
    #[error("log {0} is encrypted: start HBase with its keys once more, and stop it in order")]
    Encrypted(FileName),
    /// The file uses an unsupported codec or value.
    #[error("log {file} has {what}, which is not read here: start HBase once more, and stop it in order")]
    Unsupported {
        /// The file.
        file: FileName,
        /// The unsupported codec or value.
        what: String,
    },
    /// The file is damaged.
    #[error("log corrupt file={file} offset={offset}: {what}, expected {expected}, found {found}")]
    Corrupt {
        /// The file.
        file: FileName,
        /// The offset of the entry, in bytes.
        offset: u64,
        /// What is wrong.
        what: &'static str,
        /// The expected content.
        expected: String,
        /// The content found.
        found: String,
    },
    /// Storage failed.
    #[error(transparent)]
    Storage(#[from] storage::Error),
}
