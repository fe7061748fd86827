//! What can be wrong with a configuration.

/// The result of reading a configuration.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a configuration was refused. Each names the thing to correct.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value that is not of its key's kind.
    #[error("{name} is {found:?} ({origin}), expected {expected}")]
    Value {
        /// The key.
        name: String,
        /// The text, with variables replaced.
        found: String,
        /// Where it was said.
        origin: String,
        /// What would do.
        expected: &'static str,
    },
    /// `-D` without a name or an equals sign.
    #[error("-D {found:?}: expected name=value")]
    Definition {
        /// What was given.
        found: String,
    },
    /// A file that is not in the form of `hbase-site.xml`.
    #[error("{file} at byte {offset}: {problem}")]
    File {
        /// The file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        problem: String,
    },
    /// Variables that refer to each other without end.
    #[error("{name}: more than {limit} variables to replace, the last in {text:?}; does it refer to itself?")]
    Variables {
        /// The key.
        name: String,
        /// How many are replaced at most.
        limit: usize,
        /// What it had become.
        text: String,
    },
}
