//! What the master and the region servers of a cluster promise each other. Each of them uses this crate and does not
//! know the other. So the other side may be in the same process, in another one, or a test's replacement.
//!
//! ```text
//!   master ── open, close, flush, rows, write … ──▶ RegionServers ──▶ region server A
//!          ◀────────── answers, reports ──────────               └──▶ region server B
//!          ◀── MasterRequests: split this region ──────────────────── region server A
//! ```
//!
//! The terms of the contract:
//!
//! * **Every order names a server.** A region is open on one server at most, and the master knows on which.
//! * **Every opening has a [`Term`]**, greater than all earlier ones of that region. Orders can be repeated: opening a
//!   region that is open under the same term changes nothing, and neither does closing a closed region.
//! * **A term ends by its owner's word.** A server that has closed a region under a term refuses every opening under
//!   this term or an earlier one ([`TermLedger`]), so an order that arrives late does no harm. An error as the answer
//!   to an opening is the server's word, too, that the region is not open there.
//! * **A report confirms and never changes** who owns a region.
//! * **Each server has a log of its own.** The master tells every server when a region's records are no longer needed.

mod catalog;
mod servers;
mod term;

pub use catalog::{CatalogEdit, CatalogRow, OpenSequence, Stamp};
pub use servers::{
    CloneOrder, InheritOrder, MasterRequests, OpenOrder, RegionReport, RegionServers, RegionShape,
    ServerFuture, SnapshotContent, SnapshotOrder,
};
pub use term::{StaleTerm, Term, TermLedger};
