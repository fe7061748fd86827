//! Small objects. A compare-and-swap replaces the whole content of one.

use std::fmt;
use std::sync::Arc;

/// The version of a small object, which [`Files::swap`](crate::Files::swap) compares.
///
/// The bytes are opaque: the local disk uses the content itself, an object store its entity tag. If an object gets
/// equal content twice, the two versions may be equal. A caller that must distinguish them puts a term or a nonce into
/// the content.
#[derive(Clone, PartialEq, Eq)]
pub struct Version(Arc<[u8]>);

impl Version {
    /// Creates a version, for implementations of [`Files`](crate::Files).
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Version {
        Version(bytes.into())
    }

    /// Returns the bytes that the implementation passed to [`new`](Version::new).
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({})", self.0.escape_ascii())
    }
}

/// The content and version of a small object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The whole content.
    pub content: Vec<u8>,
    /// The version that the next swap expects.
    pub version: Version,
}

/// The outcome of a swap that may have happened. See [`Files::settle`](crate::Files::settle).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The object has the new content, and keeps it after a loss of power.
    Happened(Version),
    /// The object has its old content, and the swap can no longer take effect.
    DidNotHappen,
    /// Another writer replaced the object. Whether the swap had happened before is unknown.
    Replaced,
}

impl Settled {
    /// Decides the outcome from the content, for implementations whose version is the content.
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
