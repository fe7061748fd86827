//! Errors of names, encoded forms and schemas.

/// Why a name, a message or a schema is refused. A retry with the same bytes fails in the same way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value is refused, with the message of HBase's `IllegalArgumentException`.
    #[error("{0}")]
    IllegalArgument(String),
    /// An encoded message does not begin with the magic `PBUF`.
    #[error("{what} does not begin with PBUF")]
    NoMagic {
        /// What the message was expected to be.
        what: &'static str,
    },
    /// The bytes are not a message of the expected type.
    #[error("{what} does not decode: {cause}")]
    Decode {
        /// The name of the message type.
        what: &'static str,
        /// The error of the protobuf decoder.
        cause: prost::DecodeError,
    },
    /// A message can be decoded, but its content is invalid.
    #[error("{what} is malformed: {found}")]
    Malformed {
        /// The name of the invalid value.
        what: &'static str,
        /// The value found, and what was expected.
        found: String,
    },
    /// An attribute of a schema has a value that is invalid for its type.
    #[error("{key} of {owner} is {value}, expected {expected}")]
    Attribute {
        /// The name of the attribute.
        key: String,
        /// The table or family to which the attribute belongs.
        owner: String,
        /// The value of the attribute, as text.
        value: String,
        /// Which values the attribute accepts.
        expected: &'static str,
    },
    /// HBase's sanity check refuses the schema with this message.
    #[error("{0}")]
    Sanity(String),
}

impl Error {
    pub(crate) fn malformed(what: &'static str, found: impl Into<String>) -> Self {
        Self::Malformed { what, found: found.into() }
    }
}
