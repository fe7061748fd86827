//! HBase's protobuf messages, written for this project, and the identities and descriptors made of them.
//!
//! [`pb`] holds the messages of the package `hbase.pb`. Their names, numbers, labels, types and defaults are facts of the
//! wire and the same as HBase's; the schemas in `proto/` state them in a grouping of our own, and `tests/schemas/hbase.rs` holds
//! them against the descriptors inside HBase's own jar. Services have no generated code: a method is its name, a string,
//! and the server matches on it.
//!
//! The Rust code is made by the test `tests/schemas/generated.rs` and committed, so that building the server needs no compiler
//! of schemas. All `bytes` are [`bytes::Bytes`]: a message decoded from a frame borrows it.
//!
//! What this crate does not know: servers, files, calls.

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    rustdoc::all,
    reason = "written by the compiler of schemas; the comments are those of proto/"
)]
#[rustfmt::skip]
#[path = "generated.rs"]
pub mod pb;
