//! A native HBase client.
//!
//! The client locates a cluster through ZooKeeper or through any of its servers, caches the locations of regions, keeps
//! one connection for each server and service, and retries retriable calls. It works against Bellows and Apache HBase.
//!
//! ```no_run
//! use client::{Cluster, Get, Options, Put, Registry, Scan};
//! use env::World;
//!
//! # async fn example() -> Result<(), client::Error> {
//! let options = Options::new(Registry::rpc(["127.0.0.1:16000"]));
//! let cluster = Cluster::connect(World::real(), options);
//! let table = cluster.table("users")?;
//!
//! table.put(Put::row("alice").set("info", "mail", "alice@example.org")).await?;
//! let row = table.get(Get::row("alice")).await?;
//! assert_eq!(row.value("info", "mail"), Some(&b"alice@example.org"[..]));
//!
//! let mut scanner = table.scan(Scan::new().prefix("al").limit(10));
//! while let Some(row) = scanner.next().await? {
//!     println!("{}", row.key().escape_ascii());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Cluster::admin`] creates and changes tables.
//!
//! [`Error::advice`] alone decides how a call is retried, from the class of the exception. Calls that must not be
//! applied twice (Increment, Append) carry a nonce by which the server recognizes a retry.
//!
//! This crate does not know how a server works.

mod admin;
mod batch;
mod cluster;
mod connections;
mod endpoint;
mod error;
mod filter;
mod location;
mod lookup;
mod operation;
mod options;
mod row;
mod scan;
mod snapshots;
mod table;

pub use admin::Admin;
pub use batch::{Action, Outcome};
pub use cluster::Cluster;
pub use error::{Advice, Error, Pause};
pub use filter::{Comparison, Filter};
pub use location::Location;
pub use lookup::Registry;
pub use operation::{
    Append, CheckAndMutate, Delete, Durability, Get, Increment, Mutation, Put, RowMutations, TimeRange,
};
pub use options::Options;
pub use row::{OwnedCell, Row};
pub use scan::{Scan, Scanner};
pub use table::Table;

/// The result of an operation.
pub type Result<T> = std::result::Result<T, Error>;
