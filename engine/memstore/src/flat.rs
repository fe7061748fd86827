//! The index of a segment that takes no more writes: sorted arrays of heads and places.
//!
//! ```text
//!   heads   8 B each ──► searched without looking at a cell        one piece where all fit into it (HBase's
//!   places  4 B each ──► the cells, where they have always been    CellArrayMap), else several (its CellChunkMap)
//!   marks   1 bit each   which were rewritten; none where none was
//! ```
//!
//! *Rewritten* is a cell of which an older version was in memory, too, when it was looked for the last time.
//!
//! Chunks may hold more than what the index names: cells that were dropped and lie among others that were not. How many bytes
//! of each are such is known here, so that what holds the memory says so, and who makes room knows where it is had cheaply.
//!
//! Heads and places lie apart, so that a search touches few cache lines; between entries whose heads are equal the cells
//! decide. Pieces keep an index of millions of cells from asking for one run of memory of that size.
//!
//! A binary search over a million heads waits for memory a dozen times. So every 32nd head stands in a guide, every 32nd of
//! the guide in another, until one is short: 0.26 bytes a cell, of which all but the last search is in the processor's caches,
//! and that one looks at four lines that lie side by side. It asks for all four and for those of the places at once, by
//! counting instead of halving: what is far away is waited for once, and then once more for the cell.

use std::cmp::Ordering;

use cell::{Cell, Position};

use crate::arena::{Fill, LINE, Place};
use crate::head::Heads;
use crate::records::Records;
use crate::segment::TOGETHER;

/// Entries of a piece: 1.5 MB.
const PIECE: usize = 1 << 17;

/// Of so many heads a guide has the first.
const STEP: usize = 32;
const _: () = assert!(PIECE.is_multiple_of(STEP), "what a guide leaves open lies in one piece");

/// What one entry takes.
const ENTRY_BYTES: usize = size_of::<u64>() + size_of::<Place>();

struct Piece {
    heads: Box<[u64]>,
    places: Box<[Place]>,
    /// As far as one is set.
    rewritten: Box<[u64]>,
}

impl Piece {
    /// Asks the memory for the places of the step that begins at `at`: one of them is wanted next, whichever.
    #[inline]
    fn fetch(&self, at: usize) {
        let last = (at + STEP).min(self.places.len()) - 1;
        std::hint::black_box((self.places[at], self.places[last]));
    }

    /// Asks the memory for the step that begins at `at`, its heads and its places, and waits for nothing.
    #[inline]
    fn foresee(&self, at: usize) {
        let end = (at + STEP).min(self.heads.len());
        let heads = self.heads[at..end].chunks(LINE / size_of::<u64>()).map(|line| line.as_ptr().cast());
        let places = self.places[at..end].chunks(LINE / size_of::<Place>()).map(|line| line.as_ptr().cast());
        heads.chain(places).for_each(cell::fetch_line);
    }
}

/// Cells in chunks, and a sorted index over them that does not change.
pub(crate) struct Flat {
    records: Records,
    heads: Heads,
    pieces: Vec<Piece>,
    /// The finest first.
    guides: Vec<Box<[u64]>>,
    length: usize,
    /// What lies in the chunks, by number; nothing beyond the end.
    fills: Box<[Fill]>,
}

/// Takes entries in order.
pub(crate) struct Builder {
    heads: Heads,
    pieces: Vec<Piece>,
    open: (Vec<u64>, Vec<Place>, Vec<u64>),
}

impl Builder {
    /// For about `expected` entries whose heads are made as given.
    pub(crate) fn new(heads: Heads, expected: usize) -> Builder {
        let room = expected.min(PIECE);
        let open = (Vec::with_capacity(room), Vec::with_capacity(room), Vec::new());
        Builder { heads, pieces: Vec::new(), open }
    }

    /// Adds an entry that comes after all others.
    #[inline]
    pub(crate) fn push(&mut self, head: u64, place: Place) {
        if self.open.0.len() == PIECE {
            self.close();
        }
        self.open.0.push(head);
        self.open.1.push(place);
    }

    /// Notes that the entry added last is of a cell that was rewritten.
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

    /// Gives each entry another place for its cell: `stays` says which, or that the cell is moved. Then `moved` says it, in order;
    /// it is told, too, which comes `ahead` cells later that are moved, as far as those lie in one piece.
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

    /// An index over `records`, in whose chunks so much lies.
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

    /// Bytes of the index.
    pub(crate) fn bytes(&self) -> u64 {
        let guides: usize = self.guides.iter().map(|guide| guide.len()).sum();
        let marks: usize = self.pieces.iter().map(|piece| piece.rewritten.len()).sum();
        (self.length * ENTRY_BYTES + (guides + marks) * size_of::<u64>()) as u64
    }

    /// What lies in the chunks, by number; nothing beyond the end.
    pub(crate) fn fills(&self) -> &[Fill] {
        &self.fills
    }

    /// Bytes in chunks that the index does not name any more.
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

    /// The head of an entry.
    #[inline]
    pub(crate) fn head(&self, index: usize) -> Option<u64> {
        self.pieces.get(index / PIECE)?.heads.get(index % PIECE).copied()
    }

    /// Where the cell of an entry is.
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

    /// Asks the memory for what a search for each of these rows looks at, step by step for all of them, and for so many `lines` of
    /// the cells that it comes to. Says which are there.
    pub(crate) fn foresee(&self, rows: &[&[u8]], lines: usize, mut is_there: impl FnMut(usize)) {
        let mut steps = [(0, None); TOGETHER];
        let steps = &mut steps[..rows.len()];
        for (step, row) in steps.iter_mut().zip(rows) {
            let head = self.heads.of(row);
            let count = self.step(|found| found < head);
            *step = (head, count);
            if let Some(at) = count.unwrap_or(0).checked_sub(1).map(|last| last * STEP)
                && let Some(piece) = self.pieces.get(at / PIECE)
            {
                piece.foresee(at % PIECE);
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

    /// The first entry at or after `position`.
    pub(crate) fn lower_bound(&self, position: Position<'_>) -> usize {
        self.search(position, self.heads.of(position.key.row())).unwrap_or_else(|low| low)
    }

    /// The first entry at or after `position`, if its head is the same.
    pub(crate) fn find_in_row(&self, position: Position<'_>) -> Option<usize> {
        let head = self.heads.of(position.key.row());
        let found = self.search(position, head).ok()?;
        (self.entry(found)?.0 == head).then_some(found)
    }

    /// The first entry at or after `position`; an error where no entry has the same head, so that the row is not here.
    #[inline]
    fn search(&self, position: Position<'_>, head: u64) -> Result<usize, usize> {
        let low = self.first_head(|found| found < head);
        // Most heads are different: the next one decides without a search.
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

    /// The first entry whose head is not `before`, as all after it are not.
    #[inline]
    fn first_head(&self, before: impl Fn(u64) -> bool) -> usize {
        let count = self.step(&before);
        self.within_step(count, before)
    }

    /// How many steps begin with a head that is `before`; `None` where there are no guides.
    #[inline]
    fn step(&self, before: impl Fn(u64) -> bool) -> Option<usize> {
        // How many of what was searched last are before: none yet, but the coarsest guide is searched whole.
        let guides = self.guides.iter().rev();
        guides.fold(None, |count, guide| Some(narrowed(guide, 0, guide.len(), count, &before)))
    }

    /// The first entry whose head is not `before`, when so many [steps](Flat::step) begin before.
    #[inline]
    fn within_step(&self, count: Option<usize>, before: impl Fn(u64) -> bool) -> usize {
        let (first, piece) = match count {
            Some(0) => return 0,
            // The last that is before is the first of its step.
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

/// How many heads are `before`, of those of which `heads` has the ones from `first` to `end`, when `coarser` of every
/// [`STEP`]th are.
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
        // Each is looked at: nothing hangs on what another was, so nothing waits for it.
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
