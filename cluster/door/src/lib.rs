//! The door between root folders of Apache HBase 2.x and this project.
//!
//! ```text
//!   HBase's root ── look ──▶ Inventory ── adopt ──▶ a root that this project serves
//!                              │
//!                              └─ Report: what blocks, what is left behind, what is worth knowing
//! ```
//!
//! [`look`] reads everything that the adoption rests on, and writes nothing: descriptors, hbase:meta, the master's
//! procedures, the head of every store file, and the logs of servers that were killed. [`adopt`] changes, in this order:
//!
//! 1. Each store whose files are those in its folder gets a file list, and each table's descriptor names the FILE tracker.
//! 2. Writes that are in HBase's logs alone are copied to a log of this project, from which the next start recovers.
//! 3. The caller writes the version file of this project. From then on the root is no longer HBase's.
//! 4. [`put_logs_away`] moves HBase's logs to where HBase keeps those that it no longer needs.
//!
//! After each single write before the last HBase can still open the root: a list beside files that no tracker of FILE
//! reads says nothing, and a descriptor names FILE only when all lists of its table are there. So a crash needs no repair;
//! the adoption is repeated, and lists of stores that HBase still keeps by folder are written anew.
//!
//! [`hand_back`] is the way back, for a root that was closed in order.
//!
//! The crate does not know processes: whoever calls it has made sure that neither program runs on the root.

mod adopt;
mod catalog;
mod error;
mod found;
mod hand_back;
mod inventory;
mod losses;
mod peek;
mod procedures;
mod replay;

pub use adopt::adopt;
pub use error::{Error, Result};
pub use found::{Ended, FoundRegion, FoundTable};
pub use hand_back::hand_back;
pub use inventory::{Inventory, look};
pub use losses::Report;
pub use replay::put_logs_away;
