//! Filters of programs that put a jar on HBase's servers, known by the names of their Java classes.
//!
//! Whoever uses these programs needs no jar here. What arrives is what the Java class writes: a protobuf message, or a
//! stream of Java objects ([`java_stream`]). Each decides as the Java class does.

mod documents;
mod java_stream;
mod spark;

pub(crate) use documents::{Documents, read_stop_prefix};
pub(crate) use spark::Spark;
pub use spark::SparkColumn;

use crate::Error;

/// An error in what arrived.
fn unreadable(filter: &'static str, reason: impl Into<String>) -> Error {
    Error::Unreadable { filter, reason: reason.into() }
}
