//! HBase's protobuf messages, written for this project, and the identities and descriptors built on them.
//!
//! [`pb`] contains the messages of the package `hbase.pb`. The names, numbers, labels, types and defaults of their
//! fields are HBase's; the schemas in `proto/` group them in our own way. `tests/hbase/` compares them with the
//! descriptors in HBase's own jars (run `proof/java/descriptors/check`). Services have no generated code: the server
//! dispatches on the method's name.
//!
//! The test `tests/schemas/generated.rs` generates the Rust code from the schemas. The generated code is committed, so
//! that building the server needs no schema compiler. All `bytes` fields are [`bytes::Bytes`], so a decoded message
//! shares the bytes of its frame.
//!
//! The crate also has types for the things that messages name: [`TableName`], [`ServerName`], [`RegionInfo`], the
//! [`descriptor`]s of tables and families, and the rows of the [`catalog`]. Each type enforces HBase's rules for its
//! values. The engine uses these types and never a message.
//!
//! [`wire`] reads and writes single fields, for callers that cannot afford to decode a whole message.
//!
//! This crate does not know servers, files or calls.

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
pub mod wire;

pub use descriptor::{FamilyDescriptor, FamilyOptions, TableDescriptor, TableOptions};
pub use error::Error;
pub use region_info::{EncodedName, RegionId, RegionInfo, ReplicaId};
pub use server_name::ServerName;
pub use table_name::TableName;
