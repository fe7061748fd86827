//! Cells in HBase's KeyValue layout, and their order.
//!
//! A cell is one run of bytes from the socket to the log, the memstore, the HFile block, the cache and back:
//!
//! ```text
//!  0        4          8
//!  ┌────────┬──────────┬───────────────────────────┬───────┬───────────────────────┐
//!  │ keyLen │ valueLen │ key (see below)           │ value │ [tagsLen 2B · tags]   │   all integers big endian
//!  └────────┴──────────┴───────────────────────────┴───────┴───────────────────────┘
//!  key:  rowLen 2B · row · familyLen 1B · family · qualifier · timestamp 8B · type 1B
//! ```
//!
//! The length of the qualifier is what remains of the key. Tags are there or not; a cell without them may end after the
//! value. The sequence id travels beside the bytes: in the log's record, in the memstore's index, after the cell in an
//! HFile block.
//!
//! [`Key`] and [`Cell`] are borrowed views over such bytes. They are made either by `parse`, which checks bytes that
//! came from outside, or by `trusted`, for bytes that were checked when they entered the process. Nothing here
//! allocates but the [builders](build).

pub mod block;
pub mod build;
mod fetch;
mod key;
mod kind;
mod order;
mod sink;
pub mod tags;
mod view;

pub use block::CellBlock;
pub use build::{CellParts, KeyBuf};
pub use fetch::{fetch, fetch_key, fetch_line, fetch_whole};
pub use key::Key;
pub use kind::{CellType, SequenceId, Timestamp};
pub use order::{Comparator, Position, compare_bytes, compare_within_row, is_same, is_same_row};
pub use sink::CellSink;
pub use tags::{Tag, TagType, Tags};
pub use view::Cell;

/// The longest row, in bytes.
pub const ROW_LENGTH_MAX: usize = i16::MAX as usize;
/// The longest family name, in bytes.
pub const FAMILY_LENGTH_MAX: usize = i8::MAX as usize;
/// The longest tags part, in bytes.
pub const TAGS_LENGTH_MAX: usize = u16::MAX as usize;
/// What the shortest key measures: lengths of row and family, timestamp, type.
pub const KEY_LENGTH_MIN: usize = 2 + 1 + 8 + 1;

/// Bytes that are not a cell, or a cell beyond a limit. Says what was expected and what was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed cell: {what} at byte {offset}: expected {expected}, found {found}")]
pub struct Malformed {
    /// The part that is wrong.
    pub what: &'static str,
    /// Where, from the start of the bytes given.
    pub offset: usize,
    /// What should have been there: a bound or a value.
    pub expected: u64,
    /// What was there.
    pub found: u64,
}

/// The result of looking at bytes from outside.
pub type Result<T> = std::result::Result<T, Malformed>;
