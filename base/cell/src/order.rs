//! The sort order of cells.
//!
//! Row ascending, family ascending, qualifier ascending, timestamp **descending**, type code **descending**, sequence
//! id **descending**. So a delete marker precedes puts of the same timestamp, and of two writes with equal keys the
//! newer one comes first and hides the other. A key with an empty family and qualifier sorts after its row with type
//! Minimum, and before its row with type Maximum.
//!
//! `hbase:meta` compares its rows in three parts, `table,startKey,regionId`, since a start key may contain commas and
//! bytes less than a comma, and the regions of a table must still sort by start key.

use std::cmp::Ordering;

use crate::{Cell, CellType, Key, SequenceId};

/// A position in the sort order of cells: a key and a sequence id.
#[derive(Clone, Copy, Debug)]
pub struct Position<'a> {
    /// The key.
    pub key: Key<'a>,
    /// Orders cells with equal keys, newer first.
    pub sequence: SequenceId,
}

impl<'a> From<Cell<'a>> for Position<'a> {
    #[inline]
    fn from(cell: Cell<'a>) -> Position<'a> {
        Position { key: cell.key(), sequence: cell.sequence() }
    }
}

/// How rows are compared: as in user tables, or as in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparator {
    /// Compares rows as unsigned bytes.
    Table,
    /// Compares rows of `hbase:meta` as `table,startKey,regionId`.
    Meta,
}

impl Comparator {
    /// Compares two rows.
    #[inline]
    pub fn compare_rows(self, left: &[u8], right: &[u8]) -> Ordering {
        match self {
            Comparator::Table => left.cmp(right),
            Comparator::Meta => compare_meta_rows(left, right),
        }
    }

    /// Compares two keys without sequence ids.
    #[inline]
    pub fn compare_keys(self, left: Key<'_>, right: Key<'_>) -> Ordering {
        self.compare_rows(left.row(), right.row()).then_with(|| compare_within_row(left, right))
    }

    /// Compares two positions.
    #[inline]
    pub fn compare(self, left: Position<'_>, right: Position<'_>) -> Ordering {
        self.compare_keys(left.key, right.key).then_with(|| right.sequence.cmp(&left.sequence))
    }
}

/// Whether two rows are equal. The ends are compared first, because neighbouring rows mostly differ there. A scan
/// compares rows at every cell, so the comparison is inlined.
#[inline]
pub fn is_same_row(left: &[u8], right: &[u8]) -> bool {
    is_same(left, right)
}

/// Whether two names (rows, families, qualifiers) are equal. Up to four words are compared inline, the last one first,
/// since a call to a general comparison costs more.
#[inline]
pub fn is_same(left: &[u8], right: &[u8]) -> bool {
    let length = left.len();
    if length != right.len() {
        return false;
    }
    match length {
        8.. => {
            let (Some(left_end), Some(right_end)) = (left.last_chunk::<8>(), right.last_chunk::<8>()) else {
                return false;
            };
            if left_end != right_end {
                return false;
            }
            if length > 4 * 8 {
                return left == right;
            }
            // Compares whole words, and then the end, which overlaps them.
            let (left, right) = (left.as_chunks::<8>().0, right.as_chunks::<8>().0);
            left.iter().zip(right).all(|(left, right)| left == right)
        }
        4.. => left.first_chunk::<4>() == right.first_chunk() && left.last_chunk::<4>() == right.last_chunk(),
        // The first, the middle and the last word cover everything.
        1.. => {
            let middle = length / 2;
            (left[0], left[middle], left[length - 1]) == (right[0], right[middle], right[length - 1])
        }
        0 => true,
    }
}

/// Compares two names or values. If their first bytes differ, no call is needed. No byte of an empty slice is read.
#[inline]
pub fn compare_bytes(left: &[u8], right: &[u8]) -> Ordering {
    match (left.first(), right.first()) {
        (Some(left_first), Some(right_first)) if left_first == right_first => left.cmp(right),
        // An empty slice sorts first.
        (left_first, right_first) => left_first.cmp(&right_first),
    }
}

/// Compares two keys without their rows.
#[inline]
pub fn compare_within_row(left: Key<'_>, right: Key<'_>) -> Ordering {
    let ((left_family, left_qualifier), (right_family, right_qualifier)) = (left.column(), right.column());
    // Type Minimum with an empty column sorts after the whole row.
    let last = |family: &[u8], qualifier: &[u8], key: Key<'_>| {
        key.type_code() == CellType::Minimum.code() && family.is_empty() && qualifier.is_empty()
    };
    match (last(left_family, left_qualifier, left), last(right_family, right_qualifier, right)) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    left_family
        .cmp(right_family)
        .then_with(|| left_qualifier.cmp(right_qualifier))
        .then_with(|| right.timestamp().cmp(&left.timestamp()))
        .then_with(|| right.type_code().cmp(&left.type_code()))
}

fn compare_meta_rows(left: &[u8], right: &[u8]) -> Ordering {
    let comma = |row: &[u8]| row.iter().position(|&byte| byte == b',');
    let (left_comma, right_comma) = (comma(left), comma(right));
    let table = |row: &[u8], at: Option<usize>| -> usize { at.unwrap_or(row.len()) };
    let tables = left[..table(left, left_comma)].cmp(&right[..table(right, right_comma)]);
    if tables.is_ne() {
        return tables;
    }
    let (Some(left_comma), Some(right_comma)) = (left_comma, right_comma) else {
        // The row of the table itself, which has no comma, sorts before its regions.
        return left_comma.is_some().cmp(&right_comma.is_some());
    };
    let (left, right) = (&left[left_comma + 1..], &right[right_comma + 1..]);
    let last_comma = |rest: &[u8]| rest.iter().rposition(|&byte| byte == b',');
    let split = |rest: &[u8], at: Option<usize>| at.unwrap_or(rest.len());
    let (left_end, right_end) = (last_comma(left), last_comma(right));
    left[..split(left, left_end)].cmp(&right[..split(right, right_end)]).then_with(|| {
        match (left_end, right_end) {
            (Some(left_end), Some(right_end)) => left[left_end + 1..].cmp(&right[right_end + 1..]),
            (left_end, right_end) => left_end.is_some().cmp(&right_end.is_some()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyBuf, Timestamp};

    fn key(row: &str, family: &str, qualifier: &str, timestamp: i64, kind: CellType) -> KeyBuf {
        KeyBuf::new(row.as_bytes(), family.as_bytes(), qualifier.as_bytes(), Timestamp(timestamp), kind)
    }

    #[test]
    fn cells_sort_as_in_hbase() {
        let sorted = [
            KeyBuf::first_on_row(b"a"),
            key("a", "f", "", 9, CellType::DeleteFamily),
            key("a", "f", "", 9, CellType::DeleteFamilyVersion),
            key("a", "f", "", 9, CellType::Put),
            KeyBuf::first_on_column(b"a", b"f", b"q"),
            key("a", "f", "q", 9, CellType::DeleteColumn),
            key("a", "f", "q", 9, CellType::Delete),
            key("a", "f", "q", 9, CellType::Put),
            key("a", "f", "q", 8, CellType::DeleteColumn),
            key("a", "f", "q", -3, CellType::Put),
            KeyBuf::last_on_column(b"a", b"f", b"q"),
            key("a", "f", "q2", 100, CellType::Put),
            key("a", "g", "", 1, CellType::Put),
            KeyBuf::last_on_row(b"a"),
            key("a\0", "a", "a", 1, CellType::Put),
            key("b", "a", "a", 1, CellType::Put),
        ];
        for (at, left) in sorted.iter().enumerate() {
            for (other, right) in sorted.iter().enumerate() {
                assert_eq!(
                    Comparator::Table.compare(left.position(), right.position()),
                    at.cmp(&other),
                    "{left:?} against {right:?}"
                );
            }
        }
    }

    #[test]
    fn names_are_the_same_and_in_order_as_their_bytes_are() {
        let longest: Vec<u8> = (0..70).map(|at| at * 3).collect();
        let check = |left: &[u8], right: &[u8]| {
            assert_eq!(is_same(left, right), left == right, "{left:?} and {right:?}");
            assert_eq!(compare_bytes(left, right), left.cmp(right), "{left:?} and {right:?}");
        };
        let elsewhere = longest.clone();
        for length in 0..=longest.len() {
            let name = &longest[..length];
            (0..=longest.len()).for_each(|other| check(name, &elsewhere[..other]));
            for at in 0..length {
                let mut other = name.to_vec();
                other[at] ^= 1;
                check(name, &other);
            }
        }
    }

    #[test]
    fn rows_are_the_same_when_all_their_bytes_are() {
        let rows = [
            &b""[..],
            b"a",
            b"b",
            b"1234567",
            b"12345678",
            b"12345679",
            b"x12345678",
            b"y12345678",
            b"x12345679",
        ];
        for left in rows {
            for right in rows {
                assert_eq!(is_same_row(left, right), left == right, "{left:?} and {right:?}");
            }
        }
    }

    #[test]
    fn of_two_cells_with_equal_keys_the_newer_one_sorts_first() {
        let mut older = key("a", "f", "q", 1, CellType::Put);
        let mut newer = older.clone();
        older.set(b"a", b"f", b"q", Timestamp(1), CellType::Put, SequenceId(4));
        newer.set(b"a", b"f", b"q", Timestamp(1), CellType::Put, SequenceId(5));
        assert_eq!(Comparator::Table.compare(newer.position(), older.position()), Ordering::Less);
    }

    #[test]
    fn catalog_rows_sort_by_table_then_start_key_then_region_id() {
        let sorted = [
            "ns:t",
            "ns:t,,1.x.",
            "t",
            "t,,1.x.",
            "t,,9.x.",
            "t,a,1.x.",
            "t,a!,1.x.",
            "t,a,b,1.x.",
            "t,a-,0.x.",
            "t,b,1.x.",
            "t2,,1.x.",
        ];
        for (at, left) in sorted.iter().enumerate() {
            for (other, right) in sorted.iter().enumerate() {
                let order = Comparator::Meta.compare_rows(left.as_bytes(), right.as_bytes());
                assert_eq!(order, at.cmp(&other), "{left} against {right}");
            }
        }
        // In byte order the table name with a space would sort between a table and its regions.
        assert!(Comparator::Meta.compare_rows(b"t ,,", b"t,zzz,99.x.").is_gt());
    }
}
