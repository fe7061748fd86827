//! Builds cells and keys in KeyValue layout.

use smallvec::SmallVec;

use crate::{
    Cell, CellType, Comparator, FAMILY_LENGTH_MAX, KEY_LENGTH_MIN, Key, Malformed, ROW_LENGTH_MAX, Result,
    SequenceId, TAGS_LENGTH_MAX, Timestamp,
};

/// The borrowed parts of a cell, to be written in KeyValue layout.
#[derive(Clone, Copy, Debug)]
pub struct CellParts<'a> {
    /// The row, 1 to 32,767 bytes for a stored cell.
    pub row: &'a [u8],
    /// The family, at most 127 bytes.
    pub family: &'a [u8],
    /// The qualifier, of any length; may be empty.
    pub qualifier: &'a [u8],
    /// The timestamp in ms since 1970.
    pub timestamp: Timestamp,
    /// Whether the cell is a value or which kind of delete marker it is.
    pub cell_type: CellType,
    /// The value, of any length; may be empty.
    pub value: &'a [u8],
    /// Encoded tags (see [`crate::Tags`]), at most 65,535 bytes; empty for none.
    pub tags: &'a [u8],
}

impl CellParts<'_> {
    /// Returns the size of the cell in KeyValue layout, in bytes.
    pub fn size(&self) -> usize {
        let tags = if self.tags.is_empty() { 0 } else { 2 + self.tags.len() };
        8 + KEY_LENGTH_MIN
            + self.row.len()
            + self.family.len()
            + self.qualifier.len()
            + self.value.len()
            + tags
    }

    /// Appends the cell to `out`. Fails when a part is too long for the layout.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        let limit = |what, max: usize, length: usize| {
            if length > max {
                Err(Malformed { what, offset: out.len(), expected: max as u64, found: length as u64 })
            } else {
                Ok(())
            }
        };
        limit("row length", ROW_LENGTH_MAX, self.row.len())?;
        limit("family length", FAMILY_LENGTH_MAX, self.family.len())?;
        limit("tags length", TAGS_LENGTH_MAX, self.tags.len())?;
        limit("cell length", i32::MAX as usize, self.size())?;
        let key_length = KEY_LENGTH_MIN + self.row.len() + self.family.len() + self.qualifier.len();
        out.reserve(self.size());
        out.extend_from_slice(&(key_length as u32).to_be_bytes());
        out.extend_from_slice(&(self.value.len() as u32).to_be_bytes());
        write_key(self.row, self.family, self.qualifier, self.timestamp, self.cell_type, |part| {
            out.extend_from_slice(part);
        });
        out.extend_from_slice(self.value);
        if !self.tags.is_empty() {
            out.extend_from_slice(&(self.tags.len() as u16).to_be_bytes());
            out.extend_from_slice(self.tags);
        }
        Ok(())
    }

    /// Returns the cell in KeyValue layout, in a new buffer. Fails when a part is too long for the layout.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        self.write(&mut out)?;
        Ok(out)
    }
}

/// Passes the key to `out`, part by part.
#[inline]
fn write_key(
    row: &[u8],
    family: &[u8],
    qualifier: &[u8],
    timestamp: Timestamp,
    kind: CellType,
    mut out: impl FnMut(&[u8]),
) {
    out(&(row.len() as u16).to_be_bytes());
    out(row);
    out(&[family.len() as u8]);
    out(family);
    out(qualifier);
    let mut tail = [0; 9];
    tail[..8].copy_from_slice(&timestamp.0.to_be_bytes());
    tail[8] = kind.code();
    out(&tail);
}

/// Buffer size in bytes; a [`KeyBuf`] for a key up to this length, as most keys are, allocates nothing.
const INLINE: usize = 96;

/// An owned key, to which a reader seeks. Its buffer can be reused.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KeyBuf {
    bytes: SmallVec<[u8; INLINE]>,
    sequence: SequenceId,
}

impl KeyBuf {
    /// Creates a key with exactly these parts.
    ///
    /// # Panics
    /// When row or family are too long for a key; callers validate input from outside.
    pub fn new(row: &[u8], family: &[u8], qualifier: &[u8], timestamp: Timestamp, kind: CellType) -> KeyBuf {
        let mut key = KeyBuf::default();
        key.set(row, family, qualifier, timestamp, kind, SequenceId::MAX);
        key
    }

    /// Creates the key before every cell of `row`.
    pub fn first_on_row(row: &[u8]) -> KeyBuf {
        KeyBuf::new(row, b"", b"", Timestamp::LATEST, CellType::Maximum)
    }

    /// Creates the key before every cell of the column, except family delete markers.
    pub fn first_on_column(row: &[u8], family: &[u8], qualifier: &[u8]) -> KeyBuf {
        KeyBuf::new(row, family, qualifier, Timestamp::LATEST, CellType::Maximum)
    }

    /// Creates the key after every cell of the column.
    pub fn last_on_column(row: &[u8], family: &[u8], qualifier: &[u8]) -> KeyBuf {
        let mut key = KeyBuf::default();
        key.set(row, family, qualifier, Timestamp::OLDEST, CellType::Minimum, SequenceId::ZERO);
        key
    }

    /// Creates the key after every cell of `row`: an empty family and qualifier with type Minimum sorts last (see
    /// [`Comparator`]).
    pub fn last_on_row(row: &[u8]) -> KeyBuf {
        let mut key = KeyBuf::default();
        key.set(row, b"", b"", Timestamp::OLDEST, CellType::Minimum, SequenceId::ZERO);
        key
    }

    /// Copies a cell's key.
    pub fn of(cell: Cell<'_>) -> KeyBuf {
        let mut key = KeyBuf::default();
        key.copy_from(cell);
        key
    }

    /// Replaces the contents of the buffer.
    ///
    /// # Panics
    /// See [`KeyBuf::new`].
    pub fn set(
        &mut self,
        row: &[u8],
        family: &[u8],
        qualifier: &[u8],
        timestamp: Timestamp,
        kind: CellType,
        sequence: SequenceId,
    ) {
        assert!(row.len() <= ROW_LENGTH_MAX && family.len() <= FAMILY_LENGTH_MAX, "a key beyond its layout");
        self.bytes.clear();
        write_key(row, family, qualifier, timestamp, kind, |part| self.bytes.extend_from_slice(part));
        self.sequence = sequence;
    }

    /// Replaces the contents with the key of `other`, but with `timestamp`.
    #[inline]
    pub fn copy_at(&mut self, other: &KeyBuf, timestamp: Timestamp) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&other.bytes);
        let end = self.bytes.len();
        // The type and the timestamp are at the end.
        self.bytes[end - 9..end - 1].copy_from_slice(&timestamp.0.to_be_bytes());
        self.sequence = other.sequence;
    }

    /// Replaces the contents with a cell's key.
    pub fn copy_from(&mut self, cell: Cell<'_>) {
        self.bytes.clear();
        self.bytes.extend_from_slice(cell.key().bytes());
        self.sequence = cell.sequence();
    }

    /// Returns the key.
    ///
    /// # Panics
    /// When the buffer was never filled.
    #[inline]
    pub fn key(&self) -> Key<'_> {
        Key::trusted(&self.bytes)
    }

    /// Returns the key's sequence id. Among cells with an equal key, this key sorts after those with a greater sequence
    /// id and before the others.
    #[inline]
    pub fn sequence(&self) -> SequenceId {
        self.sequence
    }

    /// Returns the key with its sequence id, for comparisons.
    #[inline]
    pub fn position(&self) -> crate::Position<'_> {
        crate::Position { key: self.key(), sequence: self.sequence }
    }

    /// Whether `cell` sorts before this key.
    #[inline]
    pub fn is_after(&self, comparator: Comparator, cell: Cell<'_>) -> bool {
        comparator.compare(cell.into(), self.position()).is_lt()
    }
}

impl std::fmt::Debug for KeyBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}/seqid={}", self.key(), self.sequence)
    }
}
