//! Builds cells for tests.

use cell::{CellParts, CellType, Timestamp};

/// Returns the parts of a put in the family `f`.
pub(crate) fn parts<'a>(
    row: &'a [u8],
    qualifier: &'a [u8],
    timestamp: i64,
    value: &'a [u8],
) -> CellParts<'a> {
    CellParts {
        row,
        family: b"f",
        qualifier,
        timestamp: Timestamp(timestamp),
        cell_type: CellType::Put,
        value,
        tags: b"",
    }
}

/// Returns the bytes of a put in the form that a segment takes.
pub(crate) fn cell(row: &[u8], qualifier: &[u8], timestamp: i64, value: &[u8]) -> Vec<u8> {
    parts(row, qualifier, timestamp, value).to_vec().expect("within limits")
}
