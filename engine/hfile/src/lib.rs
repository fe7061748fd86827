//! HFile v3: the file in which a store's cells lie, sorted, in blocks.
//!
//! ```text
//! ┌────────────────────────────────────────────┬───────────────────────────────┬─────────┐
//! │ data blocks; between them leaf index blocks │ root index · meta index ·     │ trailer │
//! │ and chunks of the bloom filter as they fill │ file info · bloom metas       │ 4096 B  │
//! └────────────────────────────────────────────┴───────────────────────────────┴─────────┘
//!                                               └ read when the file is opened
//! ```
//!
//! [`Writer`] takes cells in order and writes front to back, never back again. [`Reader`] is opened once for all who
//! read; each walks with a [`Cursor`] of its own, which borrows cells from blocks that the cache and it share. Every
//! block's checksum is verified when it is read from storage; a block in the cache is one whose cells were all checked
//! to be whole, so walking over them checks nothing again.
//!
//! The bytes are drawn in `docs/formats/hfile.md` and beside the code that writes them ([`format`]). Files written here
//! are read by Apache HBase 2.x and the other way round. What this crate does not know: which files a store has, what a
//! delete means, who may see which write.

mod ahead;
mod awaited;
mod bloom;
mod compress;
mod cursor;
mod encode;
mod error;
mod facts;
pub mod format;
mod heads;
mod held;
mod index;
mod info;
mod prefetch;
mod reader;
mod starts;
mod warm;
mod worth;
mod writer;

pub use ahead::ReadType;
pub use awaited::{ArrivedBlock, MissingBlock};
pub use bloom::BloomType;
pub use compress::Compression;
pub use cursor::{Cursor, Most, ReadOptions, Refused};
pub use error::{Error, Result};
pub use facts::{Sizes, data_bytes_of_thread};
pub use format::Encoding;
pub use info::{FileInfo, StoreFileInfo, TimeSpan};
pub use reader::Reader;
pub use writer::{Writer, WriterOptions, Written};

#[cfg(test)]
mod tests;
