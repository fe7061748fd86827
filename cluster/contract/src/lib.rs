//! The contract between the master and the region servers of a cluster. Both sides use this crate, and neither knows
//! the other's code. So the other side may be in the same process, in another process, or a replacement in a test.
//!
//! ```text
//!   master ── open, close, flush, rows, write … ──▶ RegionServers ──▶ region server A
//!          ◀────────── answers, reports ──────────               └──▶ region server B
//!          ◀── MasterRequests: split this region ──────────────────── region server A
//! ```
//!
//! The rules of the contract:
//!
//! * **Every order names a server.** A region is open on one server at most, and the master knows on which.
//! * **Every opening has a [`Term`]**, greater than all earlier terms of that region. Orders can be repeated: an order
//!   to open a region that is open under the same term changes nothing, and neither does an order to close a closed
//!   region.
//! * **Only its server ends a term.** After a server has closed a region under a term, it refuses to open the region
//!   under that term or an earlier one ([`TermLedger`]). So an order that arrives late does no harm. If a server
//!   answers an order to open a region with an error, the region is not open there.
//! * **A report confirms** which server has a region open, **and never changes it**.
//! * **Each server has a log of its own.** The master tells every server when a region's records are no longer needed.

mod catalog;
mod servers;
mod tenure;
mod term;

pub use catalog::{CatalogEdit, CatalogRow, OpenSequence, Stamp};
pub use servers::{
    CloneOrder, InheritOrder, MasterRequests, OnFullDisk, OpenOrder, RegionReport, RegionServers,
    RegionShape, ServerFuture, SnapshotContent, SnapshotOrder, SplitRow,
};
pub use tenure::Tenure;
pub use term::{StaleTerm, Term, TermLedger};
