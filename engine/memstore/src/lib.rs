//! The in-memory store of one column family.
//!
//! A [`Segment`] is an ordered set of cells. The bytes of a cell are copied once, into chunks of 2 MB that come from a
//! [`Pool`] and return to it; nothing is allocated for a cell. The index over them is a B+tree whose entries carry eight
//! bytes of their row, so that most comparisons touch no cell. One writer at a time inserts; readers take no lock and
//! wait for nobody: a [`Cursor`] sees every cell that was there when it was put to its place, and perhaps later ones,
//! which the read point tells apart.
//!
//! What it does not know: read points, deletes, versions. It keeps what it is given, in order.

mod active;
mod arena;
mod chunk;
mod cursor;
mod head;
mod nodes;
mod pool;
mod records;
mod segment;
mod standing;
mod table;
mod tree;

pub use cursor::Cursor;
pub use pool::{CHUNK_SIZE_MAX, CHUNK_SIZE_MIN, Pool, PoolUse};
pub use segment::Segment;

#[cfg(test)]
mod tests;
