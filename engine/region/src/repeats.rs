//! Drops cells of an edit whose key occurs again later in the edit: the last one wins.
//!
//! A caller may set a column twice in one write, with the same timestamp: in a Put, as two parts of an Append, or in
//! two Puts of one RowMutations. All cells of a write have one sequence id, so in HBase's memstore the later cell
//! replaces the earlier one. Here the earlier cell is dropped before the log and memory get it, so replay has the same
//! result.
//!
//! Cells in ascending order, as most clients send them, cost one comparison each and no memory.

use cell::block::split_cell;
use cell::{Cell, Comparator, SequenceId};
use smallvec::SmallVec;

/// Returns the block without cells whose key occurs again later in it; `None` when there are none.
pub(crate) fn without_repeats(block: &[u8], comparator: Comparator) -> Option<Vec<u8>> {
    let cells = || {
        let mut rest = block;
        std::iter::from_fn(move || {
            let (cell, after) = split_cell(rest)?;
            let whole = &rest[..rest.len() - after.len()];
            rest = after;
            Some((Cell::trusted(cell, SequenceId::ZERO), whole))
        })
    };
    let compare = |left: Cell<'_>, right: Cell<'_>| comparator.compare(left.into(), right.into());
    let mut following = cells();
    following.next();
    if cells().zip(following).all(|((left, _), (right, _))| compare(left, right).is_lt()) {
        return None;
    }
    let mut sorted: SmallVec<[(Cell<'_>, usize); 16]> =
        cells().enumerate().map(|(index, (cell, _))| (cell, index)).collect();
    sorted.sort_unstable_by(|left, right| compare(left.0, right.0).then(left.1.cmp(&right.1)));
    let mut repeated: SmallVec<[usize; 16]> = sorted
        .windows(2)
        .filter(|pair| compare(pair[0].0, pair[1].0).is_eq())
        .map(|pair| pair[0].1)
        .collect();
    if repeated.is_empty() {
        return None;
    }
    repeated.sort_unstable();
    let mut kept = Vec::with_capacity(block.len());
    for (index, (_, whole)) in cells().enumerate() {
        if repeated.binary_search(&index).is_err() {
            kept.extend_from_slice(whole);
        }
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use cell::{CellBlock, CellParts, CellType, Timestamp};

    use super::*;

    fn block(cells: &[(&str, i64, CellType, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        for (qualifier, timestamp, cell_type, value) in cells {
            let parts = CellParts {
                row: b"r",
                family: b"f",
                qualifier: qualifier.as_bytes(),
                timestamp: Timestamp(*timestamp),
                cell_type: *cell_type,
                value: value.as_bytes(),
                tags: b"",
            };
            let bytes = parts.to_vec().expect("a cell");
            cell::block::write_with_tags(&mut block, Cell::trusted(&bytes, SequenceId::ZERO));
        }
        block
    }

    #[test]
    fn the_last_cell_of_each_key_is_kept_in_place() {
        use CellType::{Delete, Put};
        for unlike in [
            &[][..],
            &[("a", 1, Put, "x")],
            &[("a", 2, Put, "x"), ("a", 1, Put, "x"), ("b", 1, Put, "x")],
            &[("b", 1, Put, "x"), ("a", 1, Put, "x")],
            &[("a", 1, Put, "x"), ("a", 1, Delete, "")],
        ] {
            assert_eq!(without_repeats(&block(unlike), Comparator::Table), None, "{unlike:?}");
        }
        let repeating = [
            ("b", 1, Put, "1"),
            ("a", 1, Put, "2"),
            ("b", 1, Put, "3"),
            ("b", 2, Put, "4"),
            ("b", 1, Put, "5"),
        ];
        let kept = without_repeats(&block(&repeating), Comparator::Table).expect("b comes again");
        let kept = CellBlock::parse(kept.into()).expect("whole cells");
        let values: Vec<_> = kept.cells().map(|cell| cell.value().to_vec()).collect();
        assert_eq!(values, [b"2", b"4", b"5"]);
    }
}
