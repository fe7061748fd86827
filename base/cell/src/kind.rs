//! The numbers in a cell, each with a type of its own.

use std::fmt;

/// A timestamp in milliseconds since 1970, signed as in HBase. Newer timestamps sort first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Stands for the server's current time (HBase's `LATEST_TIMESTAMP`); the server replaces it when it writes the
    /// cell.
    pub const LATEST: Timestamp = Timestamp(i64::MAX);
    /// The smallest timestamp, which sorts after all others.
    pub const OLDEST: Timestamp = Timestamp(i64::MIN);
}

/// The number of a write within its region, in the order of the log, kept across restarts. Newer numbers sort first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(pub u64);

impl SequenceId {
    /// Less than the sequence id of every write. A cell gets this id when the order of its write no longer matters to
    /// any reader.
    pub const ZERO: SequenceId = SequenceId(0);
    /// Greater than the sequence id of every write.
    pub const MAX: SequenceId = SequenceId(u64::MAX);

    /// Returns the next sequence id.
    #[must_use]
    pub fn next(self) -> SequenceId {
        SequenceId(self.0 + 1)
    }
}

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The type of a cell: a value, or one of four delete markers. The codes are HBase's (`KeyValue.Type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CellType {
    /// For seeking only: sorts after every real type at the same timestamp.
    Minimum = 0,
    /// A value.
    Put = 4,
    /// Deletes the version of its column with exactly its timestamp.
    Delete = 8,
    /// Deletes the versions of all columns of its family with exactly its timestamp.
    DeleteFamilyVersion = 10,
    /// Deletes the versions of its column up to its timestamp.
    DeleteColumn = 12,
    /// Deletes the versions of all columns of its family up to its timestamp.
    DeleteFamily = 14,
    /// For seeking only: sorts before every real type at the same timestamp.
    Maximum = 255,
}

impl CellType {
    /// Returns the type with this code; `None` for an unknown code.
    pub fn from_code(code: u8) -> Option<CellType> {
        Some(match code {
            0 => CellType::Minimum,
            4 => CellType::Put,
            8 => CellType::Delete,
            10 => CellType::DeleteFamilyVersion,
            12 => CellType::DeleteColumn,
            14 => CellType::DeleteFamily,
            255 => CellType::Maximum,
            _ => return None,
        })
    }

    /// Returns the code on disk and on the wire.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Whether this is one of the four delete markers.
    pub fn is_delete(self) -> bool {
        matches!(
            self,
            CellType::Delete
                | CellType::DeleteFamilyVersion
                | CellType::DeleteColumn
                | CellType::DeleteFamily
        )
    }

    /// Whether this type deletes from all columns of its family.
    pub fn is_family_delete(self) -> bool {
        matches!(self, CellType::DeleteFamilyVersion | CellType::DeleteFamily)
    }
}
