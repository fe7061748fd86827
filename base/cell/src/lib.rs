//! Cells in HBase's KeyValue layout, and their sort order.
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
//! The rest of the key's length is the length of the qualifier. Tags are optional; a cell without tags may end after
//! the value.
//! The sequence id is stored outside the cell: in the log's record, in the memstore's index, and after the cell in an
//! HFile block.
//!
//! [`Key`] and [`Cell`] are borrowed views of such bytes. `parse` validates bytes from outside; `trusted` wraps bytes
//! that were validated when they entered the process. Only the [builders](build) allocate.

pub mod block;
pub mod build;
mod fetch;
mod key;
mod kind;
mod order;
mod sink;
pub mod tags;
mod text;
mod view;

pub use block::CellBlock;
pub use build::{CellParts, KeyBuf};
pub use fetch::{fetch, fetch_key, fetch_line, fetch_whole};
pub use key::Key;
pub use kind::{CellType, SequenceId, Timestamp};
pub use order::{Comparator, Position, compare_bytes, compare_within_row, is_same, is_same_row};
pub use sink::CellSink;
pub use tags::{Tag, TagType, Tags};
pub use text::{StringBinary, string_binary};
pub use view::Cell;

/// Maximum length of a row, in bytes.
pub const ROW_LENGTH_MAX: usize = i16::MAX as usize;
/// Maximum length of a family name, in bytes.
pub const FAMILY_LENGTH_MAX: usize = i8::MAX as usize;
/// Maximum length of the tags, in bytes.
pub const TAGS_LENGTH_MAX: usize = u16::MAX as usize;
/// Length of the shortest key: the lengths of row and family, the timestamp and the type.
pub const KEY_LENGTH_MIN: usize = 2 + 1 + 8 + 1;

/// The bytes are not a cell, or a part exceeds a limit. The fields say what was expected and what was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed cell: {what} at byte {offset}: expected {expected}, found {found}")]
pub struct Malformed {
    /// Which part of the cell is wrong.
    pub what: &'static str,
    /// The offset of that part in the given bytes.
    pub offset: usize,
    /// The value, or the bound of the value, that is expected there.
    pub expected: u64,
    /// The value that the bytes have there.
    pub found: u64,
}

/// The result of parsing bytes from outside.
pub type Result<T> = std::result::Result<T, Malformed>;
