//! Cells for tests.

use cell::{CellParts, CellType, Timestamp};

/// The parts of a put in the family `f`.
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

/// The bytes of a put, as a segment takes them.
pub(crate) fn cell(row: &[u8], qualifier: &[u8], timestamp: i64, value: &[u8]) -> Vec<u8> {
    parts(row, qualifier, timestamp, value).to_vec().expect("within limits")
}
