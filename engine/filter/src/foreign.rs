//! Filters of programs that put a jar on HBase's servers. Each is found by the name of its Java class.
//!
//! Users of these programs need no jar here. A filter arrives in the form in which its Java class writes it: a protobuf
//! message, or a stream of Java objects ([`java_stream`]). Its decisions equal those of its Java class.

mod documents;
mod java_stream;
mod spark;

pub(crate) use documents::{Documents, read_stop_prefix};
pub(crate) use spark::Spark;
pub use spark::SparkColumn;

use crate::Error;

/// Returns the error for bytes that cannot be decoded; `reason` says why.
fn unreadable(filter: &'static str, reason: impl Into<String>) -> Error {
    Error::Unreadable { filter, reason: reason.into() }
}
