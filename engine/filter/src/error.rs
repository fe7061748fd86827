//! Errors of filters.

/// The result of creating a filter.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a filter cannot be created.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pattern is not a valid regular expression.
    #[error("the pattern {pattern:?} is not a regular expression: {reason}")]
    Pattern {
        /// The pattern as the client sent it.
        pattern: String,
        /// The syntax error in the pattern.
        reason: javaregex::Syntax,
    },
    /// An argument violates a rule of the filter.
    #[error("{filter}: {rule}")]
    Argument {
        /// The name of the filter.
        filter: &'static str,
        /// The rule that the argument violates.
        rule: &'static str,
    },
    /// The encoded filter of another program (HDocDB, Spark) cannot be decoded.
    #[error("{filter}: {reason}")]
    Unreadable {
        /// The name of the filter.
        filter: &'static str,
        /// What is wrong with the bytes.
        reason: String,
    },
}

/// Why a part of a cell cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The comparator compares eight-byte numbers, and the part has another length.
    #[error("Wrong length: {0}, expected 8")]
    NotALong(usize),
    /// The comparator compares decimal numbers, and the part is not one.
    #[error(
        "a part of {0} bytes is no decimal number: four bytes of scale and the unscaled value are expected"
    )]
    NotADecimal(usize),
    /// The operator is NO_OP, which compares nothing.
    #[error("Unknown Compare op NO_OP")]
    NoOperator,
    /// The filter has no comparator.
    #[error("the filter has no comparator to compare a cell with")]
    NoComparator,
    /// A row is no HDocDB document, or a condition on the document cannot be decided.
    #[error("the document cannot be judged: {0}")]
    Document(String),
    /// A search exceeded the step limit.
    #[error(
        "the pattern {pattern:?} took more than {steps} steps on one value; write it so that less can match twice"
    )]
    TooManySteps {
        /// The pattern that was searched.
        pattern: String,
        /// The maximum number of steps of a search.
        steps: u64,
    },
}
