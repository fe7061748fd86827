//! The in-memory store of one column family.
//!
//! A [`Segment`] is an ordered set of cells. The bytes of a cell are copied once, into chunks of 2 MB that come from a
//! [`Pool`] and return to it; nothing is allocated for a cell. The index over them is a B+tree whose entries carry eight
//! bytes of their row, so that most comparisons touch no cell. Writers that meet share little more than the leaf that both
//! want; readers take no lock and wait for nobody: a [`Cursor`] sees every cell that was there when it was put to its
//! place, and perhaps later ones, which the read point tells apart.
//!
//! A segment that takes no more writes becomes flat: a sorted array of the same entries. Several become one, by merging
//! their indexes, or by dropping cells that nobody can ask for any more and copying those that lie among many such. Which of it
//! is done is decided by a [`Policy`] from numbers.
//!
//! What rests on the order of stores and loads is tried under miri, which interrupts threads anywhere, lets them see every
//! value that the memory model allows, old ones included, and reports each race; with many seeds:
//!
//! ```sh
//! MIRIFLAGS="-Zmiri-many-seeds=0..64 -Zmiri-preemption-rate=0.1" cargo +nightly miri test -p memstore --lib interleavings
//! ```
//!
//! and under a scheduler that interrupts them at each load and store, tens of thousands of times, and as often with one to
//! three changes at chosen places (`INTERLEAVINGS` says how often; `shuttle`, sequentially consistent):
//!
//! ```sh
//! RUSTFLAGS="--cfg shuttle" cargo test --release -p memstore --lib --target-dir target/shuttle interleavings
//! ```
//!
//! What it does not know: read points, deletes, versions. It keeps what it is given, in order.

mod active;
mod arena;
mod chunk;
mod cursor;
mod flat;
mod head;
mod merge;
mod nodes;
mod policy;
mod pool;
mod records;
mod segment;
mod standing;
mod sync;
mod table;
mod tree;
mod walk;

pub use cursor::Cursor;
pub use policy::{Action, Level, Policy, Trust};
pub use pool::{CHUNK_SIZE_MAX, CHUNK_SIZE_MIN, Pool, PoolUse};
pub use segment::{Cleaning, Compacted, Segment};

#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;
