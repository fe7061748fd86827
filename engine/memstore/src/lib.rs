//! The in-memory store of one column family.
//!
//! A [`Segment`] is an ordered index over cells whose bytes lie in the buffers in which the writes came: one buffer a
//! write, shared by its cells, nothing copied a second time. The index is a B-tree under a lock whose keys carry the
//! first eight bytes of their row, so that most comparisons touch no other memory. Writers of a region come one at a
//! time; a reader's [`Cursor`] takes the lock for as long as it copies a handful of references, and walks over them
//! without it. It can do so because what a reader may see (everything up to its read point) was all inserted before the
//! read point came to be.
//!
//! What it does not know: read points, deletes, versions. It keeps what it is given, in order.

mod cursor;
mod segment;

pub use cursor::Cursor;
pub use segment::Segment;
