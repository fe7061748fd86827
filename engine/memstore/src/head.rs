//! Key heads: eight bytes of a row that represent it in most comparisons.
//!
//! Rows of a table often share a prefix, so the head is taken after the prefix that the rows of a segment were found to
//! share. A row without that prefix gets the least or the greatest head. This preserves order: the smaller of two rows
//! never has the greater head, and where heads are equal the cells are compared. A badly chosen prefix costs time but
//! never changes the order.

use cell::Comparator;

/// Number of rows that are prefetched together.
pub(crate) const TOGETHER: usize = 16;

/// Computes the heads of one index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heads {
    prefix: Box<[u8]>,
    /// Whether the rows are those of the catalog. They are not sorted by their bytes, so all their heads are made
    /// equal.
    catalog: bool,
}

impl Heads {
    /// Creates heads that follow `prefix`.
    pub(crate) fn new(comparator: Comparator, prefix: &[u8]) -> Heads {
        let catalog = comparator == Comparator::Meta;
        Heads { prefix: if catalog { Box::default() } else { prefix.into() }, catalog }
    }

    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Returns the head of a row.
    #[inline]
    pub(crate) fn of(&self, row: &[u8]) -> u64 {
        if self.catalog {
            return 0;
        }
        match row.strip_prefix(&*self.prefix) {
            Some(rest) => first_eight(rest, row),
            None if *row < *self.prefix => 0,
            None => u64::MAX,
        }
    }
}

/// Returns the first eight bytes of `rest`, the end of `row`, padded with zeros.
#[inline]
fn first_eight(rest: &[u8], row: &[u8]) -> u64 {
    if let Some(whole) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*whole);
    }
    // For a short rest, a load of the row's last eight bytes includes bytes before the rest, which are shifted out.
    // Copying the rest into a zeroed buffer and loading it from there cost 4 % of a batch of puts.
    match row.last_chunk::<8>() {
        Some(last) if !rest.is_empty() => u64::from_be_bytes(*last) << (64 - 8 * rest.len()),
        Some(_) => 0,
        None => rest.iter().rev().fold(0, |head, &byte| head >> 8 | u64::from(byte) << 56),
    }
}

/// Returns the common prefix of two rows.
pub(crate) fn common_prefix<'a>(left: &'a [u8], right: &[u8]) -> &'a [u8] {
    let length = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    &left[..length]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_never_turn_the_order_of_rows_around() {
        let mut rows: Vec<Vec<u8>> = Vec::new();
        for middle in [&b""[..], b"a", b"us", b"user", b"user0001", b"userzzzzzzzzz", b"usfr", b"z\xff\xff"] {
            for end in [&b""[..], b"\0", b"0", b"12345678", b"123456789", b"\xff\xff\xff\xff\xff\xff\xff\xff"]
            {
                rows.push([middle, end].concat());
            }
        }
        rows.sort();
        for prefix in [&b""[..], b"user", b"user0001", b"b"] {
            let heads = Heads::new(Comparator::Table, prefix);
            let of: Vec<u64> = rows.iter().map(|row| heads.of(row)).collect();
            assert!(of.is_sorted(), "prefix {}", prefix.escape_ascii());
        }
        assert!(rows.iter().all(|row| Heads::new(Comparator::Meta, b"user").of(row) == 0));
    }

    #[test]
    fn a_head_is_what_follows_the_prefix_with_zeros_behind_it() {
        for row in
            [&b""[..], b"p", b"pq", b"pr1", b"prefix", b"prefix\xff", b"prefix1234567", b"prefix123456789"]
        {
            for length in 0..=row.len() {
                let mut padded = [0; 8];
                let rest = &row[length..];
                padded[..rest.len().min(8)].copy_from_slice(&rest[..rest.len().min(8)]);
                let heads = Heads::new(Comparator::Table, &row[..length]);
                assert_eq!(heads.of(row), u64::from_be_bytes(padded), "{} at {length}", row.escape_ascii());
            }
        }
    }

    #[test]
    fn after_the_prefix_heads_tell_rows_apart() {
        assert_eq!(common_prefix(b"user123", b"user145"), b"user1");
        let heads = Heads::new(Comparator::Table, b"user");
        assert!(heads.of(b"user00000001") < heads.of(b"user00000002"));
    }
}
