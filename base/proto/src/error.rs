//! What can be wrong with a name, a stored form or a schema.

/// Why a name, a message or a schema was refused. Nothing here is worth a retry: the same bytes fail the same way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// HBase would raise an `IllegalArgumentException` with these words.
    #[error("{0}")]
    IllegalArgument(String),
    /// A stored form does not begin with the magic.
    #[error("{what} does not begin with PBUF")]
    NoMagic {
        /// Which stored form.
        what: &'static str,
    },
    /// The bytes are no message of the expected type.
    #[error("{what} does not decode: {cause}")]
    Decode {
        /// Which message.
        what: &'static str,
        /// What the decoder found.
        cause: prost::DecodeError,
    },
    /// The form is readable and its content is impossible.
    #[error("{what} is malformed: {found}")]
    Malformed {
        /// Which value.
        what: &'static str,
        /// What stands there, and what was expected.
        found: String,
    },
    /// An attribute of a schema has a value that its kind does not allow.
    #[error("{key} of {owner} is {value}, expected {expected}")]
    Attribute {
        /// The attribute.
        key: String,
        /// The table or family it belongs to.
        owner: String,
        /// The value found, as text.
        value: String,
        /// What would be allowed.
        expected: &'static str,
    },
    /// HBase's sanity check refuses the schema, in these words.
    #[error("{0}")]
    Sanity(String),
}

impl Error {
    pub(crate) fn malformed(what: &'static str, found: impl Into<String>) -> Self {
        Self::Malformed { what, found: found.into() }
    }
}
