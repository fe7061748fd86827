//! One region on one machine: its stores, reads, writes, flush, compaction, recovery.
//!
//! ```text
//!  write   row lock → timestamp → [ sequence id → log's buffer → memstore ] → lock released → log durable → read point
//!  read    view of each store (active segment, pipeline, snapshot, files) → one merge → matcher → filter → the caller's sink
//!  memory  segment full → sealed, flat → merged, or redundant cells dropped
//!  flush   segments taken → their writes complete → one merge to a new file → file list replaced → log may delete records
//! ```
//!
//! A reader takes the stores' views when it begins, and keeps them. Flushes and compactions make new views and never
//! change an old one. So an open scanner continues in its own view, and no cell that it needs disappears.
//!
//! This crate does not know sockets, clients or the protobuf messages of calls. It works on cells. Of other regions it
//! knows only files, to which a region may have links and references.

mod accordion;
mod alter;
mod apply;
mod bulk_load;
mod bulk_load_note;
mod catalog_rows;
mod cell_place;
mod clean;
mod commit;
mod compact;
mod compaction_matcher;
mod compaction_policy;
mod dropped_markers;
mod error;
mod flush;
mod flush_decision;
mod follow;
mod found_store;
mod heap;
mod janitor;
mod ledger;
mod locks;
mod markers;
mod matcher;
mod memory;
mod mob;
mod mob_format;
mod mvcc;
mod named_store;
mod new_file;
mod new_versions;
mod open;
mod open_files;
mod opening;
mod options;
mod pending;
mod query;
mod read_modify_write;
mod recent_loads;
mod refer;
mod region;
mod repeats;
mod retained_rows;
mod row_stamps;
mod scanner;
mod sealed_store;
mod side_by_side;
mod snapshot;
mod store;
mod store_file;
mod stripes;
mod tracker;
mod view;
mod write_budget;
mod write_times;

pub use accordion::{InMemory, MemoryAct, MemoryCounts, MemoryEvent, MemoryLoad, MemoryUse, SegmentLoad};
pub use apply::{BatchOutcome, Durability, Mutation, MutationKind};
pub use bulk_load::{BulkFile, BulkLoad, BulkLoadOutcome};
pub use bulk_load_note::{NAME as BULK_LOAD_NOTE, is_unfinished as is_bulk_load_unfinished};
pub use catalog_rows::catalog_rows;
pub use cell::CellSink;
pub use cell_place::CellPlace;
pub use clean::Search;
pub use compact::{CompactionMonitor, CompactionPlan, CompactionRequest, StoreCompaction};
pub use compaction_policy::{CompactionPolicy, DateTieredOptions, StripeOptions};
pub use error::{BulkLoadRefusal, Busy, Error, HeirRefusal, Result};
pub use flush::Flushed;
pub use flush_decision::{FlushDecision, FlushFacts, FlushReason, FlushUrgency, decide_flush};
pub use follow::{FollowOutcome, RegionFollower};
pub use found_store::{FoundBy, FoundStore, MissingMobFile};
pub use janitor::{CatalogRegions, FileHolder, Janitor};
pub use ledger::{Account, Balance, Ledger};
pub use memstore::{Level, Pool};
pub use named_store::{NamedStore, UnnamedFile};
pub use open_files::{OpenFiles, PinnedFile};
pub use opening::Opening;
pub use options::RegionOptions;
pub use pending::Pending;
pub use query::{FamilyQuery, Isolation, Limits, MobRead, ReadMode, Scan, TimeRange};
pub use read_modify_write::{ChangeOutcome, Check, CheckOutcome, Test};
pub use refer::InheritedFiles;
pub use region::{Load, RecoveredNonce, Region, StoreLoad};
pub use scanner::{INLINE_TIME, RegionScanner, RowReader, Step};
pub use sealed_store::seal_store;
pub use side_by_side::side_by_side;
pub use snapshot::SnapshotMobFiles;
pub use store_file::{Half, Reference};
pub use write_budget::WriteBudget;

#[cfg(test)]
mod tests;
