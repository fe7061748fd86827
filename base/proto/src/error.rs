//! Errors of names, encoded forms and schemas.

/// Why a name, a message or a schema is refused. Retrying cannot help: the same bytes fail in the same way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// HBase would throw an `IllegalArgumentException` with this message.
    #[error("{0}")]
    IllegalArgument(String),
    /// An encoded form does not begin with the magic.
    #[error("{what} does not begin with PBUF")]
    NoMagic {
        /// The name of the form.
        what: &'static str,
    },
    /// The bytes are not a message of the expected type.
    #[error("{what} does not decode: {cause}")]
    Decode {
        /// The message type.
        what: &'static str,
        /// The error of the decoder.
        cause: prost::DecodeError,
    },
    /// The form can be decoded, but its content is invalid.
    #[error("{what} is malformed: {found}")]
    Malformed {
        /// The name of the value.
        what: &'static str,
        /// The value found, and what was expected.
        found: String,
    },
    /// An attribute of a schema has a value that is invalid for its type.
    #[error("{key} of {owner} is {value}, expected {expected}")]
    Attribute {
        /// The attribute.
        key: String,
        /// The table or family that it belongs to.
        owner: String,
        /// The value found, as text.
        value: String,
        /// What would be accepted.
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
