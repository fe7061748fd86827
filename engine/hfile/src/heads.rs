//! Row heads of a block. With them, most of a search needs to read no cells.
//!
//! The rows of one block mostly share a prefix. The *head* of a row is the four bytes after that prefix; the heads of
//! all cells are kept in one array. A search in it leaves only the few cells with equal heads. Without heads, a binary
//! search would wait for memory at each cell that it reads, because cells of a kilobyte are in cache lines of their
//! own.

use std::cmp::Ordering;
use std::ops::Range;

use cache::Block;

/// Returns the head of a row, after its first `shared` bytes. A shorter row is padded with zeros, so that heads are
/// ordered like rows. A row shorter than the shared prefix exists only in a damaged file.
fn head(row: &[u8], shared: usize) -> u32 {
    let mut head = [0; 4];
    let rest = row.get(shared..).unwrap_or_default();
    let length = rest.len().min(4);
    head[..length].copy_from_slice(&rest[..length]);
    u32::from_be_bytes(head)
}

/// Returns the heads of rows that are sorted bytewise, and the length of their common prefix.
pub(crate) fn build<'a>(
    first: &[u8],
    last: &[u8],
    rows: impl Iterator<Item = &'a [u8]>,
) -> (Box<[u32]>, u16) {
    let shared = first.iter().zip(last).take_while(|(first, last)| first == last).count();
    (rows.map(|row| head(row, shared)).collect(), shared as u16)
}

/// Number of heads in a cache line.
const LINE: usize = 16;

/// Prefetches all heads and cell offsets of a block. Otherwise a search right after a lookup would wait for their cache
/// lines one after the other.
#[inline]
pub(crate) fn fetch(block: &Block) {
    let lines = block.heads.chunks(LINE).chain(block.offsets.chunks(LINE));
    if cfg!(target_arch = "x86_64") {
        lines.for_each(|line| cell::fetch_line(line.as_ptr().cast()));
    } else {
        std::hint::black_box(lines.fold(0, |sum, line| sum ^ line[0]));
    }
}

/// A number that belongs to a block: in the machine's format, or encoded in a cached record.
pub(crate) trait Number: Copy {
    /// Returns the number.
    fn value(self) -> u32;
}

impl Number for u32 {
    #[inline]
    fn value(self) -> u32 {
        self
    }
}

impl Number for [u8; 4] {
    #[inline]
    fn value(self) -> u32 {
        u32::from_le_bytes(self)
    }
}

/// Returns the range of cells whose head equals the head of `row`; an empty range if there are none.
#[inline]
pub(crate) fn candidates<N: Number>(heads: &[N], shared: u16, row: &[u8]) -> Range<usize> {
    let shared = usize::from(shared);
    if row.len() < shared {
        return 0..0;
    }
    let wanted = head(row, shared);
    let from = heads.partition_point(|head| head.value() < wanted);
    let same = heads[from..].iter().take(8).take_while(|head| head.value() == wanted).count();
    let until = if same < 8 { from + same } else { heads.partition_point(|head| head.value() <= wanted) };
    from..until
}

/// Returns the range that can contain cells of `row` among `count` cells, given its [`candidates`]. Cells before the
/// range sort before the row, cells after it sort after the row. To verify that `row` has the common prefix, this calls
/// `at` for one cell and reads its row: for the first candidate, or the last cell if there is none.
#[inline]
pub(crate) fn narrow<'a>(
    candidates: Range<usize>,
    count: usize,
    shared: u16,
    row: &[u8],
    at: impl Fn(usize) -> &'a [u8],
) -> Range<usize> {
    let common = row.len().min(usize::from(shared));
    let other = at(candidates.start.min(count - 1));
    match row[..common].cmp(&other[..other.len().min(common)]) {
        Ordering::Less => 0..0,
        Ordering::Equal => candidates,
        Ordering::Greater => count..count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_out_of_order_cause_no_panic() {
        let rows = [&b"row-1"[..], b"", b"x", b"row-", b"row-2"];
        let (heads, shared) = build(rows[0], rows[4], rows.into_iter());
        for probe in rows.into_iter().chain([&b"row-3"[..], b"row-10", b"a", b"z"]) {
            let range = candidates(&heads, shared, probe);
            let range = narrow(range, heads.len(), shared, probe, |index| rows[index]);
            assert!(range.start <= range.end && range.end <= rows.len());
        }
    }

    #[test]
    fn a_search_by_row_heads_finds_what_a_search_by_keys_finds() {
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
                let (heads, shared) = build(first, last, block.iter().map(|row| &row[..]));
                for probe in &probes {
                    let place = candidates(&heads, shared, probe);
                    let lying: Vec<[u8; 4]> = heads.iter().map(|head| head.to_le_bytes()).collect();
                    assert_eq!(candidates(&lying, shared, probe), place);
                    let place = narrow(place, heads.len(), shared, probe, |at| &block[at][..]);
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
