//! The region server: the regions that are open here, and the services through which clients reach them.
//!
//! ```text
//!   ClientService ─┐                          ┌─ request   messages become queries, mutations, filters
//!   AdminService  ─┼─► RegionServer ─► region │
//!   ClientMeta…   ─┘     │                    └─ cells     cells become messages or a cell block
//!                        ├─ OnlineRegions    by name and by encoded name; moved and opening ones
//!                        ├─ Scanners   with leases
//!                        ├─ Nonces     increments and appends that were seen before
//!                        ├─ tasks      what runs at this moment; slow and large calls of the past
//!                        └─ background flushes and compactions
//! ```
//!
//! Protobuf ends here: the engine works on cells. Errors of the engine become HBase's exceptions in one place,
//! [`exceptions`].
//!
//! **Waiting.** A service is called on the thread that serves sockets, and answers from memory at once. If a read needs
//! the disk, it fails in the engine without effect, and is repeated on the blocking thread pool. A write is applied at
//! once. Its response waits for the log, without a thread.
//!
//! This crate does not know on which server a region should be (the master decides that) and has no sockets (`rpc` has
//! them).

mod admin_service;
mod awaited;
mod background;
mod bulk_source;
mod cache_metrics;
mod call_sample;
mod call_span;
mod cells;
mod client_meta;
mod client_service;
mod counters;
pub mod exceptions;
mod local;
mod memory;
mod metrics;
mod nonces;
mod options;
mod regions;
mod replica;
mod request;
mod scanners;
mod server;
mod services;
mod slow_calls;
mod split_policy;
mod split_requests;
mod tasks;
mod throughput;
mod urgency;
mod user_loads;
mod watch;

#[cfg(test)]
mod tests;

pub use admin_service::AdminService;
pub use bulk_source::{ForeignFile, ForeignStorage, SourcePlace};
pub use call_sample::{CallKind, CallObserver, CallSample, SAMPLED_ONE_IN};
pub use call_span::{CallSpan, SpanObserver};
pub use client_meta::{BootstrapNodeService, ClientMetaService, ClusterView, MetaLocation};
pub use client_service::ClientService;
pub use counters::{Counters, Snapshot};
pub use local::LocalServers;
pub use options::Options;
pub use regions::{MovedTo, OnlineRegions};
pub use replica::{LogPlace, PLACE_PERIOD, Primary, Replica, ReplicaOptions};
pub use request::filter_of;
pub use server::{Foundation, RegionServer};
pub use services::services;
pub use split_policy::{SplitOptions, SplitRestriction};
pub use tasks::{Task, TaskCall, TaskFilter, TaskState};
pub use throughput::{OffPeakHours, ThroughputOptions};
