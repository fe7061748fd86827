//! The small numbers of a cell, each a type of its own.

use std::fmt;

/// Milliseconds since 1970, signed as HBase's are. Newer sorts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// "Whatever the server's clock says": replaced when the cell is written, never stored.
    pub const LATEST: Timestamp = Timestamp(i64::MAX);
    /// Before everything.
    pub const OLDEST: Timestamp = Timestamp(i64::MIN);
}

/// The number of a write within its region: given by the log's order, kept across restarts. Newer sorts first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(pub u64);

impl SequenceId {
    /// Older than every write; cells whose order no reader can ask for any more carry it.
    pub const ZERO: SequenceId = SequenceId(0);
    /// Newer than every write.
    pub const MAX: SequenceId = SequenceId(u64::MAX);

    /// The one after this.
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

/// What a cell says: a value, or one of the four ways to delete. The codes are HBase's (`KeyValue.Type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CellType {
    /// Only in keys made for seeking: after every real type at the same timestamp.
    Minimum = 0,
    /// A value.
    Put = 4,
    /// Masks the version of its column with exactly its timestamp.
    Delete = 8,
    /// Masks the versions of every column of its family with exactly its timestamp.
    DeleteFamilyVersion = 10,
    /// Masks the versions of its column up to its timestamp.
    DeleteColumn = 12,
    /// Masks the versions of every column of its family up to its timestamp.
    DeleteFamily = 14,
    /// Only in keys made for seeking: before every real type at the same timestamp.
    Maximum = 255,
}

impl CellType {
    /// The type with this code, if there is one.
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

    /// The code on disk and on the wire.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Whether this is one of the four markers.
    pub fn is_delete(self) -> bool {
        matches!(
            self,
            CellType::Delete
                | CellType::DeleteFamilyVersion
                | CellType::DeleteColumn
                | CellType::DeleteFamily
        )
    }

    /// Whether a marker of this type concerns all columns of its family.
    pub fn is_family_delete(self) -> bool {
        matches!(self, CellType::DeleteFamilyVersion | CellType::DeleteFamily)
    }
}
