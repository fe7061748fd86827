//! Key heads: eight bytes of a row that stand for it in most comparisons.
//!
//! Rows of a table often begin alike, so the head is taken after a prefix that the rows of a segment were seen to
//! share. A row without the prefix gets the least or the greatest head. That keeps order: of two rows the smaller never
//! has the greater head, and where heads are equal the cells themselves are compared. A prefix that fits badly costs
//! time, never order.

use cell::Comparator;

/// How the heads of one index are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heads {
    prefix: Box<[u8]>,
    /// The catalog's order is not that of its rows' bytes: all heads are equal there.
    catalog: bool,
}

impl Heads {
    /// Heads after `prefix`.
    pub(crate) fn new(comparator: Comparator, prefix: &[u8]) -> Heads {
        let catalog = comparator == Comparator::Meta;
        Heads { prefix: if catalog { Box::default() } else { prefix.into() }, catalog }
    }

    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The head of a row.
    #[inline]
    pub(crate) fn of(&self, row: &[u8]) -> u64 {
        if self.catalog {
            return 0;
        }
        match row.strip_prefix(&*self.prefix) {
            Some(rest) => first_eight(rest),
            None if *row < *self.prefix => 0,
            None => u64::MAX,
        }
    }
}

#[inline]
fn first_eight(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(whole) => u64::from_be_bytes(*whole),
        None => {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(padded)
        }
    }
}

/// What two rows begin with, both.
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
    fn after_the_prefix_heads_tell_rows_apart() {
        assert_eq!(common_prefix(b"user123", b"user145"), b"user1");
        let heads = Heads::new(Comparator::Table, b"user");
        assert!(heads.of(b"user00000001") < heads.of(b"user00000002"));
    }
}
