//! The memstore of one column family.
//!
//! A [`Segment`] is an ordered set of cells. The bytes of a cell are copied once, into chunks of usually 2 MB that come
//! from a [`Pool`] and return to it (HBase's MemStoreLAB). A cell of more than an eighth of a chunk gets a chunk of its
//! own; for any other cell nothing is allocated. The index over them is a B+tree. Its entries contain eight bytes of
//! the row, so most comparisons read no cell. Concurrent writers share little more than the leaf that both change.
//! Readers take no lock and never wait: a [`Cursor`] sees every cell that existed when it was positioned, and possibly
//! later ones, which the read point excludes.
//!
//! A segment that accepts no more writes becomes flat: a sorted array of the same entries. Several segments are merged
//! into one. A merge combines only their indexes; a compaction drops cells that no reader can see, and copies cells out
//! of chunks with many dropped ones. A [`Policy`] decides between these from numbers.
//!
//! The lock-free parts are tested under Miri with many seeds. Miri interrupts threads anywhere, lets loads return every
//! value that the memory model allows, also old ones, and reports each data race:
//!
//! ```sh
//! MIRIFLAGS="-Zmiri-many-seeds=0..64 -Zmiri-preemption-rate=0.1" cargo +nightly miri test -p memstore --lib interleavings
//! ```
//!
//! They are also tested under a scheduler (`shuttle`, sequentially consistent) that interrupts them at each load and
//! store. It runs tens of thousands of random interleavings, and as many with one to three switches at chosen places.
//! `INTERLEAVINGS` sets the number:
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" cargo test --release -p memstore --lib --target-dir target/shuttle interleavings
//! ```
//!
//! This crate does not know read points, deletes or versions. It keeps all cells that it receives, in order, unless the
//! caller's function tells a compaction to drop them.

mod active;
mod arena;
mod chunk;
mod cursor;
mod flat;
mod free_list;
mod head;
mod merge;
mod nodes;
mod pinned;
mod place;
mod policy;
mod pool;
mod records;
mod segment;
mod span;
mod sync;
mod table;
mod tree;
mod walk;

pub use cursor::Cursor;
pub use free_list::{CHUNK_SIZE_MAX, CHUNK_SIZE_MIN};
pub use merge::{Cleaning, Compacted};
pub use policy::{Action, EstimateTrust, Level, Policy};
pub use pool::{Pool, PoolUse};
pub use segment::Segment;

#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;
