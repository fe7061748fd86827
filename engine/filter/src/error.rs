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
        reason: crate::regex::Syntax,
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

/// Why a part of a cell could not be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A number is asked for, and the part is not eight bytes long.
    #[error("Wrong length: {0}, expected 8")]
    NotALong(usize),
    /// A decimal number is asked for, and the part is none.
    #[error(
        "a part of {0} bytes is no decimal number: four bytes of scale and the unscaled value are expected"
    )]
    NotADecimal(usize),
    /// The operator compares nothing.
    #[error("Unknown Compare op NO_OP")]
    NoOperator,
    /// The filter came without a comparator.
    #[error("the filter has no comparator to compare a cell with")]
    NoComparator,
    /// A pattern went too many steps back.
    #[error(
        "the pattern {pattern:?} took more than {steps} steps on one value; write it so that less can match twice"
    )]
    TooManySteps {
        /// The pattern.
        pattern: String,
        /// How many it may take.
        steps: u64,
    },
}
