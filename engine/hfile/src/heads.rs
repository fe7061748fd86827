//! The heads of a block's rows: most of a search without a look at the cells.
//!
//! Cells of a kilobyte lie in cache lines of their own, and each that a binary search touches is a wait for memory.
//! Rows of one block mostly share their first bytes. What follows these, four bytes of each row, stands in one array;
//! the search narrows the cells down there and looks at the few whose heads are the same.

use std::ops::Range;

/// The head of a row whose first `prefix` bytes are passed over. Shorter rows are filled up with zeros, so that heads
/// are never in another order than rows.
fn head(row: &[u8], prefix: usize) -> u32 {
    let mut head = [0; 4];
    let rest = &row[prefix..];
    let length = rest.len().min(4);
    head[..length].copy_from_slice(&rest[..length]);
    u32::from_be_bytes(head)
}

fn shared(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

/// The heads of rows in the order of their bytes.
pub(crate) fn build<'a>(first: &[u8], last: &[u8], rows: impl Iterator<Item = &'a [u8]>) -> Box<[u32]> {
    let prefix = shared(first, last);
    rows.map(|row| head(row, prefix)).collect()
}

/// Where cells of `row` can be, among those with these heads: all before the range stand before the row, all after it
/// behind. `first` and `last` are the rows that the heads were built with.
pub(crate) fn narrow(heads: &[u32], first: &[u8], last: &[u8], row: &[u8]) -> Range<usize> {
    let prefix = shared(first, last);
    let common = row.len().min(prefix);
    match row[..common].cmp(&first[..common]) {
        std::cmp::Ordering::Less => 0..0,
        std::cmp::Ordering::Greater => heads.len()..heads.len(),
        std::cmp::Ordering::Equal if row.len() < prefix => 0..0,
        std::cmp::Ordering::Equal => {
            let wanted = head(row, prefix);
            let from = heads.partition_point(|&head| head < wanted);
            let same = heads[from..].iter().take(8).take_while(|&&head| head == wanted).count();
            let until = if same < 8 { from + same } else { heads.partition_point(|&head| head <= wanted) };
            from..until
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowed_place_is_where_plain_comparing_finds_it() {
        let mut rows: Vec<Vec<u8>> = Vec::new();
        for stem in [&b"row"[..], b"row\0", b"row-long", b"row-long-and-shared-00", b"row-long-and-shared-01"]
        {
            for tail in
                [&b""[..], b"\0", b"\0\0\0\0\0", b"a", b"abcd", b"abcde", b"abcdf", b"\xff\xff\xff\xff\xff"]
            {
                rows.extend(std::iter::repeat_n([stem, tail].concat(), 1 + tail.len()));
            }
        }
        rows.sort();
        let probes: Vec<Vec<u8>> =
            rows.iter().cloned().chain([vec![], b"r".to_vec(), b"s".to_vec(), b"row-m".to_vec()]).collect();
        for from in (0..rows.len()).step_by(7) {
            for until in (from + 1..=rows.len()).step_by(5) {
                let block = &rows[from..until];
                let (first, last) = (&block[0], &block[block.len() - 1]);
                let heads = build(first, last, block.iter().map(|row| &row[..]));
                for probe in &probes {
                    let place = narrow(&heads, first, last, probe);
                    let before = block.partition_point(|row| row < probe);
                    let through = block.partition_point(|row| row <= probe);
                    assert!(
                        place.start <= before && through <= place.end,
                        "{probe:?} in {block:?}: {place:?}"
                    );
                }
            }
        }
    }
}
