//! A cell: a key with its value, and the number of the write that made it.

use crate::{CellType, Key, Malformed, Result, SequenceId, Tags, Timestamp};

/// A borrowed cell in KeyValue layout, with its sequence id beside it.
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
    /// Checks that `bytes` are one whole cell, with or without tags, and nothing more.
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

    /// A cell over bytes that were checked before. Bytes that were not may panic here or later, never worse.
    #[inline]
    pub fn trusted(bytes: &'a [u8], sequence: SequenceId) -> Cell<'a> {
        debug_assert!(Cell::parse(bytes, sequence).is_ok(), "an unchecked cell was trusted");
        Cell { bytes, sequence }
    }

    /// The key of the cell with which `bytes` begin; they were checked before.
    #[inline]
    pub fn key_within(bytes: &'a [u8]) -> Key<'a> {
        Key::trusted(&bytes[8..8 + length_at(bytes, 0)])
    }

    /// The whole cell, with its tags if it has any.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The whole cell but its tags: what `KeyValueCodec` sends to clients.
    #[inline]
    pub fn bytes_without_tags(self) -> &'a [u8] {
        &self.bytes[..8 + length_at(self.bytes, 0) + length_at(self.bytes, 4)]
    }

    /// The number of the write that made it.
    #[inline]
    pub fn sequence(self) -> SequenceId {
        self.sequence
    }

    /// The same cell under another number.
    #[inline]
    #[must_use]
    pub fn with_sequence(self, sequence: SequenceId) -> Cell<'a> {
        Cell { sequence, ..self }
    }

    /// Where it stands.
    #[inline]
    pub fn key(self) -> Key<'a> {
        Key::trusted(&self.bytes[8..8 + length_at(self.bytes, 0)])
    }

    /// The row.
    #[inline]
    pub fn row(self) -> &'a [u8] {
        self.key().row()
    }

    /// The family.
    #[inline]
    pub fn family(self) -> &'a [u8] {
        self.key().family()
    }

    /// The qualifier.
    #[inline]
    pub fn qualifier(self) -> &'a [u8] {
        self.key().qualifier()
    }

    /// The timestamp.
    #[inline]
    pub fn timestamp(self) -> Timestamp {
        self.key().timestamp()
    }

    /// The type; `None` for a code that HBase does not know.
    #[inline]
    pub fn cell_type(self) -> Option<CellType> {
        self.key().cell_type()
    }

    /// The value.
    #[inline]
    pub fn value(self) -> &'a [u8] {
        let at = 8 + length_at(self.bytes, 0);
        &self.bytes[at..at + length_at(self.bytes, 4)]
    }

    /// The tags; none for a cell that ends after its value.
    #[inline]
    pub fn tags(self) -> Tags<'a> {
        let at = 8 + length_at(self.bytes, 0) + length_at(self.bytes, 4);
        Tags::trusted(self.bytes.get(at + 2..).unwrap_or(&[]))
    }

    /// Bytes that HBase counts for this cell in its size limits: `heapSize` of a cell in a memstore chunk, which is 32
    /// for the object and its bytes rounded up to 8.
    ///
    /// For a cell out of an HFile block HBase counts 38 and the bytes, not rounded: at most 6 bytes more, or 1 less.
    #[inline]
    pub fn heap_size(self) -> usize {
        Cell::heap_size_of(self.bytes.len())
    }

    /// The same for a cell of so many bytes.
    #[inline]
    pub fn heap_size_of(length: usize) -> usize {
        32 + length.next_multiple_of(8)
    }
}

impl std::fmt::Debug for Cell<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}/vlen={}/seqid={}", self.key(), self.value().len(), self.sequence)
    }
}
