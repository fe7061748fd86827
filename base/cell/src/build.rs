//! Making cells and keys.

use smallvec::SmallVec;

use crate::{
    Cell, CellType, Comparator, FAMILY_LENGTH_MAX, KEY_LENGTH_MIN, Key, Malformed, ROW_LENGTH_MAX, Result,
    SequenceId, TAGS_LENGTH_MAX, Timestamp,
};

/// The parts of a cell, borrowed, ready to be written in KeyValue layout.
#[derive(Clone, Copy, Debug)]
pub struct CellParts<'a> {
    /// 1 to 32,767 bytes for a cell that is stored.
    pub row: &'a [u8],
    /// At most 127 bytes.
    pub family: &'a [u8],
    /// Any length, also none.
    pub qualifier: &'a [u8],
    /// When.
    pub timestamp: Timestamp,
    /// What.
    pub cell_type: CellType,
    /// Any length, also none.
    pub value: &'a [u8],
    /// Whole tags (see [`crate::Tags`]), at most 65,535 bytes; empty for none.
    pub tags: &'a [u8],
}

impl CellParts<'_> {
    /// What the cell will measure in bytes.
    pub fn size(&self) -> usize {
        let tags = if self.tags.is_empty() { 0 } else { 2 + self.tags.len() };
        8 + KEY_LENGTH_MIN
            + self.row.len()
            + self.family.len()
            + self.qualifier.len()
            + self.value.len()
            + tags
    }

    /// Appends the cell to `out`; refuses parts longer than the layout can say.
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

    /// The cell in a buffer of its own.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        self.write(&mut out)?;
        Ok(out)
    }
}

/// Gives the key, part by part, to `out`.
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

/// Keys up to this length are kept without a buffer on the heap; most are.
const INLINE: usize = 96;

/// A key of one's own, made for seeking. Its buffer can be filled again and again.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KeyBuf {
    bytes: SmallVec<[u8; INLINE]>,
    sequence: SequenceId,
}

impl KeyBuf {
    /// A key at exactly this place.
    ///
    /// # Panics
    /// When row or family are longer than a key can say: callers have checked what came from outside.
    pub fn new(row: &[u8], family: &[u8], qualifier: &[u8], timestamp: Timestamp, kind: CellType) -> KeyBuf {
        let mut key = KeyBuf::default();
        key.set(row, family, qualifier, timestamp, kind, SequenceId::MAX);
        key
    }

    /// Before every cell of `row`.
    pub fn first_on_row(row: &[u8]) -> KeyBuf {
        KeyBuf::new(row, b"", b"", Timestamp::LATEST, CellType::Maximum)
    }

    /// Before every cell of the column, family markers excepted.
    pub fn first_on_column(row: &[u8], family: &[u8], qualifier: &[u8]) -> KeyBuf {
        KeyBuf::new(row, family, qualifier, Timestamp::LATEST, CellType::Maximum)
    }

    /// After every cell of the column.
    pub fn last_on_column(row: &[u8], family: &[u8], qualifier: &[u8]) -> KeyBuf {
        let mut key = KeyBuf::default();
        key.set(row, family, qualifier, Timestamp::OLDEST, CellType::Minimum, SequenceId::ZERO);
        key
    }

    /// After every cell of `row`: the empty family and qualifier of type Minimum sorts last
    /// (see [`Comparator`]).
    pub fn last_on_row(row: &[u8]) -> KeyBuf {
        let mut key = KeyBuf::default();
        key.set(row, b"", b"", Timestamp::OLDEST, CellType::Minimum, SequenceId::ZERO);
        key
    }

    /// A copy of a cell's key.
    pub fn of(cell: Cell<'_>) -> KeyBuf {
        let mut key = KeyBuf::default();
        key.copy_from(cell);
        key
    }

    /// Fills the buffer anew.
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

    /// Fills the buffer with the key of `other`, but for the timestamp.
    #[inline]
    pub fn copy_at(&mut self, other: &KeyBuf, timestamp: Timestamp) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&other.bytes);
        let end = self.bytes.len();
        // Type and timestamp stand at the end.
        self.bytes[end - 9..end - 1].copy_from_slice(&timestamp.0.to_be_bytes());
        self.sequence = other.sequence;
    }

    /// Fills the buffer with a cell's key.
    pub fn copy_from(&mut self, cell: Cell<'_>) {
        self.bytes.clear();
        self.bytes.extend_from_slice(cell.key().bytes());
        self.sequence = cell.sequence();
    }

    /// The key.
    ///
    /// # Panics
    /// When it was never filled.
    #[inline]
    pub fn key(&self) -> Key<'_> {
        Key::trusted(&self.bytes)
    }

    /// Which of the cells with this very key it stands before: those of this sequence id and older.
    #[inline]
    pub fn sequence(&self) -> SequenceId {
        self.sequence
    }

    /// The place, for comparing.
    #[inline]
    pub fn position(&self) -> crate::Position<'_> {
        crate::Position { key: self.key(), sequence: self.sequence }
    }

    /// Whether `cell` stands before this key.
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
