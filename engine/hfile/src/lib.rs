//! HFile v3: the file that stores the cells of a store, sorted, in blocks.
//!
//! ```text
//! ┌─────────────────────────────────────────────┬───────────────────────────────┬─────────┐
//! │ data blocks; between them leaf index blocks │ root index · meta index ·     │ trailer │
//! │ and chunks of the Bloom filter as they fill │ file info · bloom metas       │ 4096 B  │
//! └─────────────────────────────────────────────┴───────────────────────────────┴─────────┘
//!                                                └ read when the file is opened
//! ```
//!
//! [`Writer`] takes cells in order and writes from front to back. A [`Reader`] is opened once for all readers of the
//! file. Each scan has its own [`Cursor`], which borrows cells from blocks that the cache shares. A block's checksum is
//! verified when it is read from storage. The cells of a cached block were validated then, so they are not checked
//! again.
//!
//! The format is described in `docs/formats/hfile.md` and beside the code that writes it ([`format`]). Files are
//! exchangeable with Apache HBase 2.x in both directions, except encrypted files, which are refused. This crate does
//! not know which files a store has, what a delete means, or who may see a write.

mod ahead;
mod awaited;
mod bloom;
mod cached_block;
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
mod on_write;
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
pub use cursor::{CopyLimits, Cursor, ReadOptions, Refused};
pub use error::{Error, Result};
pub use facts::{Sizes, data_bytes_of_thread};
pub use format::Encoding;
pub use info::{FileInfo, StoreFileInfo, TimeSpan};
pub use on_write::CacheOnWrite;
pub use reader::Reader;
pub use writer::{Writer, WriterOptions, Written};

#[cfg(test)]
mod tests;
