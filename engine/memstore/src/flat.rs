//! The index of a sealed segment: sorted arrays of heads and places.
//!
//! ```text
//!   heads   8 B each ──► searched without looking at a cell        one piece if all fit into it (HBase's
//!   places  4 B each ──► the cells, which are not moved            CellArrayMap), else several (CellChunkMap)
//!   marks   1 bit each   which cells were rewritten; none if no cell was
//! ```
//!
//! A *rewritten* cell had an older version in memory when the segment was last examined.
//!
//! Chunks may contain more than the index names: dropped cells among cells that are still needed. The number of dropped
//! bytes in each chunk is recorded here. So memory accounting is exact, and a compaction knows where it can free memory
//! cheaply.
//!
//! Heads and places are separate arrays, so that a search touches few cache lines; only between equal heads the cells
//! are compared. The arrays are divided into pieces, so that an index of millions of cells needs no allocation of that
//! size.
//!
//! A binary search over a million heads would wait for memory a dozen times. Therefore every 32nd head is copied to a
//! guide, and every 32nd head of the guide to another guide, until one is short: 0.26 bytes a cell. All but the last
//! step of a search then stay in the processor's caches. The last step reads four adjacent cache lines of heads, which
//! are prefetched together with the places. It counts the smaller heads instead of halving the range. So a search waits
//! for memory once, and once more for the cell.

use std::cmp::Ordering;

use cell::{Cell, Position};

use crate::head::{Heads, TOGETHER};
use crate::place::{Fill, LINE, Place};
use crate::records::Records;

/// Number of entries in a piece of the index; a piece has 1.5 MB.
const PIECE: usize = 1 << 17;

/// A guide contains the first of each group of this many heads.
const STEP: usize = 32;
const _: () = assert!(PIECE.is_multiple_of(STEP), "the candidates that a guide leaves are in one piece");

/// Size of an entry of the index, in bytes.
const ENTRY_BYTES: usize = size_of::<u64>() + size_of::<Place>();

struct Piece {
    heads: Box<[u64]>,
    places: Box<[Place]>,
    /// One bit for each entry: whether its cell was rewritten. Trailing zeros are omitted.
    rewritten: Box<[u64]>,
}

impl Piece {
    /// Prefetches those places that a search in the group of entries from `at` on will need.
    #[inline]
    fn fetch(&self, at: usize) {
        let last = (at + STEP).min(self.places.len()) - 1;
        std::hint::black_box((self.places[at], self.places[last]));
    }

    /// Prefetches the heads and the places of the group of entries from `at` on.
    #[inline]
    fn prefetch(&self, at: usize) {
        let end = (at + STEP).min(self.heads.len());
        let heads = self.heads[at..end].chunks(LINE / size_of::<u64>()).map(|line| line.as_ptr().cast());
        let places = self.places[at..end].chunks(LINE / size_of::<Place>()).map(|line| line.as_ptr().cast());
        heads.chain(places).for_each(cell::fetch_line);
    }
}

/// A flat segment: cells in chunks, and a sorted index over them that does not change.
pub(crate) struct Flat {
    records: Records,
    heads: Heads,
    pieces: Vec<Piece>,
    /// The guides to the heads. The first one contains the most heads.
    guides: Vec<Box<[u64]>>,
    length: usize,
    /// Number of bytes in each chunk, by number; trailing empty chunks are omitted.
    fills: Box<[Fill]>,
}

/// Builds a flat index from entries in order.
pub(crate) struct Builder {
    heads: Heads,
    pieces: Vec<Piece>,
    open: (Vec<u64>, Vec<Place>, Vec<u64>),
}

impl Builder {
    /// Creates a builder for about `expected` entries whose heads are made by `heads`.
    pub(crate) fn new(heads: Heads, expected: usize) -> Builder {
        let room = expected.min(PIECE);
        let open = (Vec::with_capacity(room), Vec::with_capacity(room), Vec::new());
        Builder { heads, pieces: Vec::new(), open }
    }

    /// Adds an entry, which must sort after all earlier entries.
    #[inline]
    pub(crate) fn push(&mut self, head: u64, place: Place) {
        if self.open.0.len() == PIECE {
            self.close();
        }
        self.open.0.push(head);
        self.open.1.push(place);
    }

    /// Marks the last added entry's cell as rewritten.
    #[inline]
    pub(crate) fn mark_last(&mut self) {
        let Some(at) = self.open.0.len().checked_sub(1) else { return };
        let (word, bit) = (at / u64::BITS as usize, at % u64::BITS as usize);
        let marks = &mut self.open.2;
        if marks.len() <= word {
            marks.resize(word + 1, 0);
        }
        marks[word] |= 1 << bit;
    }

    fn close(&mut self) {
        let (heads, places, rewritten) = std::mem::take(&mut self.open);
        self.pieces.push(Piece { heads: heads.into(), places: places.into(), rewritten: rewritten.into() });
    }

    /// Gives each entry a new place. `stays` returns the new place, or `None` if the cell must be moved. For such
    /// cells, `moved` is called in the order of the entries, and returns the new place. It also gets the place of the
    /// cell that will be moved `ahead` cells later, for prefetching, as long as both are in one piece.
    pub(crate) fn move_all(
        &mut self,
        ahead: usize,
        mut stays: impl FnMut(Place) -> Option<Place>,
        mut moved: impl FnMut(Place, Option<Place>) -> Place,
    ) {
        let closed = self.pieces.iter_mut().map(|piece| &mut piece.places[..]);
        let mut rest = Vec::new();
        for places in closed.chain([&mut self.open.1[..]]) {
            rest.clear();
            for (index, place) in places.iter_mut().enumerate() {
                match stays(*place) {
                    Some(there) => *place = there,
                    None => rest.push(index as u32),
                }
            }
            for (order, &index) in rest.iter().enumerate() {
                let later = rest.get(order + ahead).map(|&later| places[later as usize]);
                places[index as usize] = moved(places[index as usize], later);
            }
        }
    }

    /// Builds the index over `records`, whose chunks contain `fills`.
    pub(crate) fn finish(mut self, records: Records, fills: Vec<Fill>) -> Flat {
        if !self.open.0.is_empty() {
            self.close();
        }
        let length = self.pieces.iter().map(|piece| piece.heads.len()).sum();
        let mut guides: Vec<Box<[u64]>> = Vec::new();
        if length > STEP {
            let every = self.pieces.iter().flat_map(|piece| piece.heads.iter().step_by(STEP));
            guides.push(every.copied().collect());
        }
        while let Some(finer) = guides.last().filter(|guide| guide.len() > STEP) {
            guides.push(finer.iter().step_by(STEP).copied().collect());
        }
        Flat { records, heads: self.heads, pieces: self.pieces, guides, length, fills: fills.into() }
    }
}

impl Flat {
    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns the size of the index, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let guides: usize = self.guides.iter().map(|guide| guide.len()).sum();
        let marks: usize = self.pieces.iter().map(|piece| piece.rewritten.len()).sum();
        (self.length * ENTRY_BYTES + (guides + marks) * size_of::<u64>()) as u64
    }

    /// Returns the number of bytes in each chunk, by number; trailing empty chunks are omitted.
    pub(crate) fn fills(&self) -> &[Fill] {
        &self.fills
    }

    /// Returns the number of bytes in chunks that the index does not name any more.
    pub(crate) fn dead_bytes(&self) -> u64 {
        self.fills.iter().map(|fill| fill.dead).sum()
    }

    /// Whether the cell of an entry was rewritten.
    #[inline]
    pub(crate) fn is_rewritten(&self, index: usize) -> bool {
        let at = index % PIECE;
        let marks = self.pieces.get(index / PIECE).map(|piece| &piece.rewritten);
        let word = marks.and_then(|marks| marks.get(at / u64::BITS as usize));
        word.is_some_and(|word| word >> (at % u64::BITS as usize) & 1 != 0)
    }

    /// Returns the head of an entry; `None` after the last one.
    #[inline]
    pub(crate) fn head(&self, index: usize) -> Option<u64> {
        self.pieces.get(index / PIECE)?.heads.get(index % PIECE).copied()
    }

    /// Returns the place of an entry's cell; `None` after the last entry.
    #[inline]
    pub(crate) fn place(&self, index: usize) -> Option<Place> {
        self.pieces.get(index / PIECE)?.places.get(index % PIECE).copied()
    }

    #[inline]
    pub(crate) fn entry(&self, index: usize) -> Option<(u64, Place)> {
        let piece = self.pieces.get(index / PIECE)?;
        let at = index % PIECE;
        Some((*piece.heads.get(at)?, piece.places[at]))
    }

    #[inline]
    pub(crate) fn cell(&self, index: usize) -> Option<Cell<'_>> {
        self.place(index).map(|place| self.records.cell(place))
    }

    /// Prefetches the memory that a search for each of these rows reads, step by step for all rows, and this many cache
    /// `lines` of the cells found. Calls `is_there` with the index of each row that is present.
    pub(crate) fn prefetch_rows(&self, rows: &[&[u8]], lines: usize, mut is_there: impl FnMut(usize)) {
        let mut steps = [(0, None); TOGETHER];
        let steps = &mut steps[..rows.len()];
        for (step, row) in steps.iter_mut().zip(rows) {
            let head = self.heads.of(row);
            let count = self.step(|found| found < head);
            *step = (head, count);
            if let Some(at) = count.unwrap_or(0).checked_sub(1).map(|last| last * STEP)
                && let Some(piece) = self.pieces.get(at / PIECE)
            {
                piece.prefetch(at % PIECE);
            }
        }
        for (index, &(head, count)) in steps.iter().enumerate() {
            if let Some((found, place)) = self.entry(self.within_step(count, |found| found < head))
                && found == head
            {
                self.records.fetch(place, lines);
                is_there(index);
            }
        }
    }

    /// Returns the index of the first entry at or after `position`.
    pub(crate) fn lower_bound(&self, position: Position<'_>) -> usize {
        self.search(position, self.heads.of(position.key.row())).unwrap_or_else(|low| low)
    }

    /// Returns the index of the first entry at or after `position`, if its head equals the position's.
    pub(crate) fn find_in_row(&self, position: Position<'_>) -> Option<usize> {
        let head = self.heads.of(position.key.row());
        let found = self.search(position, head).ok()?;
        (self.entry(found)?.0 == head).then_some(found)
    }

    /// Returns the index of the first entry at or after `position`. Returns it as `Err` if no entry has the position's
    /// head, because the row is then absent.
    #[inline]
    fn search(&self, position: Position<'_>, head: u64) -> Result<usize, usize> {
        let low = self.first_head(|found| found < head);
        // Most heads are unique. Then comparing the next entry's head is enough, and no search among equal heads is
        // needed.
        match self.entry(low) {
            Some((found, _)) if found == head => {}
            _ => return Err(low),
        }
        let end = match self.entry(low + 1) {
            Some((found, _)) if found == head => self.first_head(|found| found <= head),
            _ => low + 1,
        };
        let (mut low, mut size) = (low, end - low);
        while size > 0 {
            let half = size / 2;
            let cell = self.cell(low + half).expect("within the index");
            match self.records.comparator().compare(cell.into(), position) {
                Ordering::Less => {
                    low += half + 1;
                    size -= half + 1;
                }
                Ordering::Equal => return Ok(low + half),
                Ordering::Greater => size = half,
            }
        }
        Ok(low)
    }

    /// Returns the index of the first entry for whose head `before` is false. `before` must be true for the heads up to
    /// some entry, and false for all later ones.
    #[inline]
    fn first_head(&self, before: impl Fn(u64) -> bool) -> usize {
        let count = self.step(&before);
        self.within_step(count, before)
    }

    /// Returns the number of groups of entries ([`STEP`]) whose first head satisfies `before`; `None` if the index has
    /// no guides.
    #[inline]
    fn step(&self, before: impl Fn(u64) -> bool) -> Option<usize> {
        // The guides are searched from the shortest to the longest. The shortest is searched as a whole, each other one
        // only in the group that the previous one has found.
        let guides = self.guides.iter().rev();
        guides.fold(None, |count, guide| Some(narrowed(guide, 0, guide.len(), count, &before)))
    }

    /// Returns the index of the first entry for whose head `before` is false, given the number of [steps](Flat::step)
    /// for whose first head it is true.
    #[inline]
    fn within_step(&self, count: Option<usize>, before: impl Fn(u64) -> bool) -> usize {
        let (first, piece) = match count {
            Some(0) => return 0,
            // The search continues in the last group whose first head satisfies `before`.
            Some(count) => {
                let (number, at) = ((count - 1) * STEP / PIECE, (count - 1) * STEP % PIECE);
                let piece = &self.pieces[number];
                piece.fetch(at);
                (number * PIECE, &piece.heads)
            }
            None => match self.pieces.first() {
                Some(piece) => (0, &piece.heads),
                None => return 0,
            },
        };
        narrowed(piece, first, first + piece.len(), count, &before)
    }
}

/// Returns the number of heads for which `before` is true, given that number for every [`STEP`]th head. `heads`
/// contains the heads from `first` to `end`.
#[inline]
fn narrowed(
    heads: &[u64],
    first: usize,
    end: usize,
    coarser: Option<usize>,
    before: &impl Fn(u64) -> bool,
) -> usize {
    let (low, high) = match coarser {
        Some(0) => return 0,
        Some(coarser) => ((coarser - 1) * STEP + 1, (coarser * STEP).min(end)),
        None => (first, end),
    };
    let step = &heads[low - first..high - first];
    match coarser {
        // All heads of the group are compared, without branches, so that no comparison waits for the result of another.
        Some(_) => low + step.iter().map(|&head| usize::from(before(head))).sum::<usize>(),
        None => low + step.partition_point(|&head| before(head)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cell::Comparator;

    #[test]
    fn an_index_of_several_pieces_is_searched_as_one() {
        let count = if cfg!(miri) { 10 } else { 2 * PIECE + 10 };
        let mut builder = Builder::new(Heads::new(Comparator::Table, b""), count);
        for index in 0..count {
            builder.push(index as u64 / 3, Place(index as u32));
        }
        let flat = builder.finish(Records::new(Comparator::Table), Vec::new());
        assert_eq!(flat.len(), count);
        for index in (0..count).step_by(if cfg!(miri) { 1 } else { 911 }) {
            assert_eq!(flat.entry(index), Some((index as u64 / 3, Place(index as u32))));
            assert_eq!(flat.first_head(|head| head < index as u64 / 3), index / 3 * 3);
        }
        assert_eq!((flat.entry(count), flat.first_head(|_| true)), (None, count));
        assert_eq!(flat.first_head(|_| false), 0);
    }

    #[test]
    fn guides_lead_to_the_first_of_any_heads() {
        let mut word = 7u64;
        for count in
            (0..if cfg!(miri) { 70 } else { 3 * STEP * STEP + 2 }).step_by(if cfg!(miri) { 33 } else { 97 })
        {
            let mut heads: Vec<u64> = (0..count)
                .map(|_| {
                    word =
                        word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (word >> 33) % (count as u64 / 3 + 1)
                })
                .collect();
            heads.sort_unstable();
            let mut builder = Builder::new(Heads::new(Comparator::Table, b""), count);
            heads.iter().enumerate().for_each(|(index, &head)| builder.push(head, Place(index as u32)));
            let flat = builder.finish(Records::new(Comparator::Table), Vec::new());
            for wanted in 0..count as u64 / 3 + 3 {
                let expected = heads.partition_point(|&head| head < wanted);
                assert_eq!(flat.first_head(|head| head < wanted), expected, "{wanted} of {count}");
            }
        }
    }
}
