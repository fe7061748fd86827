//! Cells: a key with its value and its sequence id.

use crate::{CellType, Key, Malformed, Result, SequenceId, Tags, Timestamp};

/// A borrowed cell in KeyValue layout, with its sequence id.
#[derive(Clone, Copy)]
pub struct Cell<'a> {
    bytes: &'a [u8],
    sequence: SequenceId,
}

#[inline]
fn length_at(bytes: &[u8], at: usize) -> usize {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
}

impl<'a> Cell<'a> {
    /// Validates that `bytes` are one complete cell, with or without tags, and nothing else.
    pub fn parse(bytes: &'a [u8], sequence: SequenceId) -> Result<Cell<'a>> {
        let malformed = |what, offset, expected: u64, found: u64| Malformed { what, offset, expected, found };
        if bytes.len() < 8 {
            return Err(malformed("cell length", 0, 8, bytes.len() as u64));
        }
        let (key, value) = (length_at(bytes, 0) as u64, length_at(bytes, 4) as u64);
        let body = bytes.len() as u64 - 8;
        if key > body {
            return Err(malformed("key length", 0, body, key));
        }
        if value > body - key {
            return Err(malformed("value length", 4, body - key, value));
        }
        let key_end = 8 + key as usize;
        Key::parse(&bytes[8..key_end]).map_err(|error| Malformed { offset: error.offset + 8, ..error })?;
        let tags_at = key_end + value as usize;
        match bytes.len() - tags_at {
            0 => {}
            1 => return Err(malformed("tags length", tags_at, 2, 1)),
            rest => {
                let tags = usize::from(u16::from_be_bytes([bytes[tags_at], bytes[tags_at + 1]]));
                if tags != rest - 2 {
                    return Err(malformed("tags length", tags_at, rest as u64 - 2, tags as u64));
                }
                Tags::parse(&bytes[tags_at + 2..])
                    .map_err(|error| Malformed { offset: error.offset + tags_at + 2, ..error })?;
            }
        }
        Ok(Cell { bytes, sequence })
    }

    /// Wraps bytes that were validated before. Other bytes may cause a panic here or later, and nothing worse.
    #[inline]
    pub fn trusted(bytes: &'a [u8], sequence: SequenceId) -> Cell<'a> {
        debug_assert!(Cell::parse(bytes, sequence).is_ok(), "an unchecked cell was trusted");
        Cell { bytes, sequence }
    }

    /// Returns the key of the cell at the start of `bytes`. The cell must have been validated before.
    #[inline]
    pub fn key_within(bytes: &'a [u8]) -> Key<'a> {
        Key::trusted(&bytes[8..8 + length_at(bytes, 0)])
    }

    /// Returns the whole cell with its tags.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the cell without its tags, as `KeyValueCodec` sends it to clients.
    #[inline]
    pub fn bytes_without_tags(self) -> &'a [u8] {
        &self.bytes[..8 + length_at(self.bytes, 0) + length_at(self.bytes, 4)]
    }

    /// Returns the sequence id of the write.
    #[inline]
    pub fn sequence(self) -> SequenceId {
        self.sequence
    }

    /// Returns the same cell with another sequence id.
    #[inline]
    #[must_use]
    pub fn with_sequence(self, sequence: SequenceId) -> Cell<'a> {
        Cell { sequence, ..self }
    }

    /// Returns the cell's key.
    #[inline]
    pub fn key(self) -> Key<'a> {
        Key::trusted(&self.bytes[8..8 + length_at(self.bytes, 0)])
    }

    /// Returns the row.
    #[inline]
    pub fn row(self) -> &'a [u8] {
        self.key().row()
    }

    /// Returns the family.
    #[inline]
    pub fn family(self) -> &'a [u8] {
        self.key().family()
    }

    /// Returns the qualifier.
    #[inline]
    pub fn qualifier(self) -> &'a [u8] {
        self.key().qualifier()
    }

    /// Returns the timestamp.
    #[inline]
    pub fn timestamp(self) -> Timestamp {
        self.key().timestamp()
    }

    /// Returns the type; `None` for a code that HBase does not know.
    #[inline]
    pub fn cell_type(self) -> Option<CellType> {
        self.key().cell_type()
    }

    /// Returns the value.
    #[inline]
    pub fn value(self) -> &'a [u8] {
        let at = 8 + length_at(self.bytes, 0);
        &self.bytes[at..at + length_at(self.bytes, 4)]
    }

    /// Returns the tags; empty for a cell that ends after its value.
    #[inline]
    pub fn tags(self) -> Tags<'a> {
        let at = 8 + length_at(self.bytes, 0) + length_at(self.bytes, 4);
        Tags::trusted(self.bytes.get(at + 2..).unwrap_or(&[]))
    }

    /// Returns the size that HBase counts in size limits for this cell in a memstore chunk, in bytes: 32 for the Java
    /// object plus the cell's bytes, rounded up to 8. For a cell without tags, the cell's bytes do not include a tag
    /// length.
    ///
    /// HBase counts other sizes for cells that it reads from files; `hfile::Reader::heap_size` returns those.
    #[inline]
    pub fn heap_size(self) -> usize {
        let tags_at = 8 + length_at(self.bytes, 0) + length_at(self.bytes, 4);
        let has_tags = self.bytes.len() > tags_at + 2;
        32 + if has_tags { self.bytes.len() } else { tags_at }.next_multiple_of(8)
    }
}

impl std::fmt::Debug for Cell<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}/vlen={}/seqid={}", self.key(), self.value().len(), self.sequence)
    }
}
