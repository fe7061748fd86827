//! Arguments that make no filter.

/// The result of making a filter.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the arguments make no filter.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pattern is not a regular expression.
    #[error("the pattern {pattern:?} is not a regular expression: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An argument contradicts a rule.
    #[error("{filter}: {rule}")]
    Argument {
        /// The filter.
        filter: &'static str,
        /// The rule.
        rule: &'static str,
    },
}
