//! Errors of a configuration.

/// The result of reading a configuration.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a configuration is refused. Each variant names the thing to correct.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value does not have its key's type.
    #[error("{name} is {found:?} ({origin}), expected {expected}")]
    Value {
        /// The name of the key.
        name: String,
        /// The value, with variables replaced.
        found: String,
        /// The source of the value.
        origin: String,
        /// Which values the key accepts.
        expected: &'static str,
    },
    /// A `-D` option has no name or no equals sign.
    #[error("-D {found:?}: expected name=value")]
    Definition {
        /// The option as it was given.
        found: String,
    },
    /// A file is not in the format of `hbase-site.xml`.
    #[error("{file} at byte {offset}: {problem}")]
    File {
        /// The name of the file.
        file: String,
        /// The offset of the fault in the file, in bytes.
        offset: u64,
        /// What is wrong there.
        problem: String,
    },
    /// Variables refer to each other without end.
    #[error("{name}: more than {limit} variables to replace, the last in {text:?}; does it refer to itself?")]
    Variables {
        /// The name of the key whose value refers to variables.
        name: String,
        /// Maximum number of replacements in one value.
        limit: usize,
        /// The value after that many replacements.
        text: String,
    },
}
