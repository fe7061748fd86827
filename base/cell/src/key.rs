//! Keys: the position of a cell in the sort order.

use crate::{CellType, FAMILY_LENGTH_MAX, KEY_LENGTH_MIN, Malformed, ROW_LENGTH_MAX, Result, Timestamp};

/// A borrowed key in KeyValue layout: `rowLen 2B · row · familyLen 1B · family · qualifier · timestamp 8B · type 1B`.
#[derive(Clone, Copy)]
pub struct Key<'a>(&'a [u8]);

impl<'a> Key<'a> {
    /// Validates that `bytes` are one complete key. Any type code is accepted, since HFiles may contain every code.
    pub fn parse(bytes: &'a [u8]) -> Result<Key<'a>> {
        let malformed = |what, offset, expected: usize, found: usize| Malformed {
            what,
            offset,
            expected: expected as u64,
            found: found as u64,
        };
        if bytes.len() < KEY_LENGTH_MIN {
            return Err(malformed("key length", 0, KEY_LENGTH_MIN, bytes.len()));
        }
        let row = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
        let room = bytes.len() - KEY_LENGTH_MIN;
        if row > room.min(ROW_LENGTH_MAX) {
            return Err(malformed("row length", 0, room.min(ROW_LENGTH_MAX), row));
        }
        let family = usize::from(bytes[2 + row]);
        if family > (room - row).min(FAMILY_LENGTH_MAX) {
            return Err(malformed("family length", 2 + row, (room - row).min(FAMILY_LENGTH_MAX), family));
        }
        Ok(Key(bytes))
    }

    /// Wraps bytes that were validated before. Other bytes may cause a panic here or later, and nothing worse.
    #[inline]
    pub fn trusted(bytes: &'a [u8]) -> Key<'a> {
        debug_assert!(Key::parse(bytes).is_ok(), "an unchecked key was trusted: {bytes:?}");
        Key(bytes)
    }

    /// Returns the whole key.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    #[inline]
    fn row_length(self) -> usize {
        usize::from(u16::from_be_bytes([self.0[0], self.0[1]]))
    }

    /// Returns the row.
    #[inline]
    pub fn row(self) -> &'a [u8] {
        &self.0[2..2 + self.row_length()]
    }

    /// Returns the family; empty only in keys made for seeking and in index keys of files.
    #[inline]
    pub fn family(self) -> &'a [u8] {
        let at = 2 + self.row_length();
        &self.0[at + 1..at + 1 + usize::from(self.0[at])]
    }

    /// Returns the qualifier; may be empty.
    #[inline]
    pub fn qualifier(self) -> &'a [u8] {
        let at = 2 + self.row_length();
        &self.0[at + 1 + usize::from(self.0[at])..self.0.len() - 9]
    }

    /// Returns family and qualifier.
    #[inline]
    pub fn column(self) -> (&'a [u8], &'a [u8]) {
        let at = 2 + self.row_length();
        self.0[at + 1..self.0.len() - 9].split_at(usize::from(self.0[at]))
    }

    /// Returns the timestamp.
    #[inline]
    pub fn timestamp(self) -> Timestamp {
        let tail = &self.0[self.0.len() - 9..];
        Timestamp(i64::from_be_bytes([
            tail[0], tail[1], tail[2], tail[3], tail[4], tail[5], tail[6], tail[7],
        ]))
    }

    /// Returns the type code, which may be one that HBase does not know.
    #[inline]
    pub fn type_code(self) -> u8 {
        self.0[self.0.len() - 1]
    }

    /// Returns the type; `None` for a code that HBase does not know.
    #[inline]
    pub fn cell_type(self) -> Option<CellType> {
        CellType::from_code(self.type_code())
    }
}

impl std::fmt::Debug for Key<'_> {
    /// Formats the key as HBase does: `row/family:qualifier/timestamp/type`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}/{}:{}/{}/",
            crate::string_binary(self.row()),
            crate::string_binary(self.family()),
            crate::string_binary(self.qualifier()),
            self.timestamp().0
        )?;
        match self.cell_type() {
            Some(kind) => write!(f, "{kind:?}"),
            None => write!(f, "type {}", self.type_code()),
        }
    }
}
