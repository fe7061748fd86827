//! Small objects that are replaced as a whole, by compare and swap.

use std::fmt;
use std::sync::Arc;

/// Which state of a small object a caller has seen: what [`Files::swap`](crate::Files::swap) compares.
///
/// Opaque. The local disk uses the content itself, an object store its entity tag. Two states with equal content may have
/// equal versions, so whoever must tell a later state from an equal earlier one puts a term or a nonce into the content.
#[derive(Clone, PartialEq, Eq)]
pub struct Version(Arc<[u8]>);

impl Version {
    /// For implementations of [`Files`](crate::Files).
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Version {
        Version(bytes.into())
    }

    /// What the implementation made it of.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({})", self.0.escape_ascii())
    }
}

/// A small object as it was read: its whole content, and the version to name it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// All bytes.
    pub content: Vec<u8>,
    /// What to expect in the next swap.
    pub version: Version,
}

/// What became of a swap that may have happened. See [`Files::settle`](crate::Files::settle).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The object has the new content, and keeps it after the loss of power.
    Happened(Version),
    /// The object is as it was before, and the swap can no longer take effect.
    DidNotHappen,
    /// Somebody else has replaced the object. Whether the swap had happened before that is not known.
    Replaced,
}

impl Settled {
    /// For implementations whose version is the content.
    pub(crate) fn of(current: Option<&[u8]>, expected: Option<&Version>, new: &[u8]) -> Settled {
        if current == Some(new) {
            Settled::Happened(Version::new(new))
        } else if current == expected.map(Version::as_bytes) {
            Settled::DidNotHappen
        } else {
            Settled::Replaced
        }
    }
}
