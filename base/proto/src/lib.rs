//! HBase's protobuf messages, written for this project, and the identities and descriptors made of them.
//!
//! [`pb`] holds the messages of the package `hbase.pb`. Their names, numbers, labels, types and defaults are facts of the
//! wire and the same as HBase's; the schemas in `proto/` state them in a grouping of our own, and `tests/hbase/` holds
//! them against the descriptors inside HBase's own jars (run it with `proof/java/descriptors/check`). Services have no generated code: a method is its name, a string,
//! and the server matches on it.
//!
//! The Rust code is made by the test `tests/schemas/generated.rs` and committed, so that building the server needs no compiler
//! of schemas. All `bytes` are [`bytes::Bytes`]: a message decoded from a frame borrows it.
//!
//! Beside them stand the things the messages talk about, as types that keep their own rules: [`TableName`], [`ServerName`],
//! [`RegionInfo`], the [`descriptor`]s of tables and families, and the rows of the [`catalog`]. The engine uses these and
//! never a message.
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

pub mod catalog;
pub mod descriptor;
mod error;
pub mod pbuf;
pub mod region_info;
mod server_name;
pub mod table_name;

pub use descriptor::{FamilyDescriptor, FamilyOptions, TableDescriptor, TableOptions};
pub use error::Error;
pub use region_info::{EncodedName, RegionId, RegionInfo, ReplicaId};
pub use server_name::ServerName;
pub use table_name::TableName;
