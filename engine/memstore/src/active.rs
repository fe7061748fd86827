//! The segment that takes writes: cells copied into chunks, and the index over them.
//!
//! One writer at a time holds `writing`; readers never do. A cell is in its chunk before its place is in the index, and
//! a chunk is among the records before a place names it.
//!
//! The heads of the first index are made after a prefix that the segment before was seen to have, or after none. When
//! the segment has a few cells, and once more when it has many, the index is made anew if their rows begin otherwise:
//! rows such as `user8517…` or `0000000123` are told apart by what comes later. Readers of the older index go on in it:
//! it has all that was there when they began.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use cell::{Cell, Comparator, Position, SequenceId};
use parking_lot::Mutex;

use crate::Pool;
use crate::arena::{Filler, Place};
use crate::chunk::Appender;
use crate::flat::{Builder, Flat};
use crate::head::{Heads, common_prefix};
use crate::records::Records;
use crate::tree::{Growing, Run, Tree};

/// How many cells there are when the rows' prefix is looked at. Few enough that nobody waits long for it.
const LEARN_AT: [u64; 2] = [32, 1_024];

/// Where a cursor stands in an active segment.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    /// Which of the indexes it walks over.
    index: u32,
    run: Run,
}

/// Cells in chunks, and indexes over them of which the last is in use.
pub(crate) struct Active {
    records: Records,
    indexes: [OnceLock<Tree>; 1 + LEARN_AT.len()],
    current: AtomicU32,
    writing: Mutex<Writing>,
}

struct Writing {
    filler: Filler,
    growing: Growing,
    cells: u64,
    /// Whether it takes no more writes.
    sealed: bool,
}

/// What an insert has added.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Added {
    pub(crate) cells: u64,
    pub(crate) record_bytes: u64,
    pub(crate) index_bytes: u64,
    /// Whether there may be no room for another cell.
    pub(crate) is_full: bool,
}

impl Active {
    /// An empty segment that expects rows to begin with `prefix` and goes on in the chunk `open`.
    pub(crate) fn new(
        comparator: Comparator,
        pool: &Arc<Pool>,
        prefix: &[u8],
        open: Option<Appender>,
    ) -> Active {
        let (tree, growing) = Tree::new(Heads::new(comparator, prefix));
        let active = Active {
            records: Records::new(comparator),
            indexes: Default::default(),
            current: AtomicU32::new(0),
            writing: Mutex::new(Writing {
                filler: Filler::new(Arc::clone(pool), open),
                growing,
                cells: 0,
                sealed: false,
            }),
        };
        active.put_index(0, tree);
        active
    }

    fn put_index(&self, number: u32, tree: Tree) {
        assert!(self.indexes[number as usize].set(tree).is_ok(), "index {number} of a segment is made once");
        self.current.store(number, Ordering::Release);
    }

    #[inline]
    fn index(&self, number: u32) -> &Tree {
        self.indexes[number as usize].get().expect("an index is made before it is named")
    }

    #[inline]
    fn current(&self) -> u32 {
        self.current.load(Ordering::Acquire)
    }

    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    /// Copies cells, which were checked before, and enters them under `sequence`. One that is there already is passed
    /// over. Where chunks run out the cells that are left are not asked for.
    pub(crate) fn insert<'a>(
        &self,
        cells: impl IntoIterator<Item = &'a [u8]>,
        sequence: SequenceId,
        mut each: impl FnMut(Cell<'a>),
    ) -> Added {
        let mut added = Added::default();
        let mut writing = self.writing.lock();
        let Writing { filler, growing, cells: count, sealed } = &mut *writing;
        assert!(!*sealed, "a sealed segment of {count} cells takes no writes");
        let mut tree = self.index(self.current());
        let mut cells = cells.into_iter();
        while filler.has_room()
            && let Some(bytes) = cells.next()
        {
            let cell = Cell::trusted(bytes, sequence);
            let probe = tree.probe(cell.into());
            let found = tree.find(growing, &probe, &self.records);
            if found.exact {
                continue;
            }
            each(cell);
            let (place, taken) =
                filler.copy(bytes, sequence, |number, chunk| self.records.add(number, chunk));
            let grown = tree.add(growing, found, probe.head, place);
            *count += 1;
            added.cells += 1;
            added.record_bytes += taken as u64;
            added.index_bytes += grown as u64;
            if LEARN_AT.contains(count) {
                added.index_bytes += self.learn(growing);
                tree = self.index(self.current());
            }
        }
        added.is_full = !filler.has_room();
        added
    }

    /// Makes the index anew if rows begin otherwise than it expects. Says how many bytes that took.
    fn learn(&self, growing: &mut Growing) -> u64 {
        let number = self.current();
        let old = self.index(number);
        let heads = Heads::new(self.records.comparator(), &self.prefix());
        if *old.heads() == heads {
            return 0;
        }
        let (tree, mut grown) = Tree::new(heads);
        let mut run = old.first(&self.records);
        while let Some(place) = run.place() {
            let probe = tree.probe(self.records.cell(place).into());
            let found = tree.find(&mut grown, &probe, &self.records);
            tree.add(&mut grown, found, probe.head, place);
            old.advance(&mut run, &self.records);
        }
        let bytes = grown.bytes() as u64;
        *growing = grown;
        self.put_index(number + 1, tree);
        bytes
    }

    /// What all rows begin with.
    pub(crate) fn prefix(&self) -> Vec<u8> {
        let tree = self.index(self.current());
        let first = tree.first(&self.records).place();
        let last = tree.last_before(None, &self.records);
        match (first, last) {
            // Rows of the catalog do not lie between the least and the greatest as bytes do.
            (Some(first), Some(last)) if self.records.comparator() == Comparator::Table => {
                common_prefix(self.records.cell(first).row(), self.records.cell(last).row()).to_vec()
            }
            _ => tree.heads().prefix().to_vec(),
        }
    }

    /// Takes no writes from here on. Gives the chunk that is not full yet, for the segment that comes next.
    pub(crate) fn seal(&self) -> Option<Appender> {
        let mut writing = self.writing.lock();
        writing.sealed = true;
        writing.filler.take_open()
    }

    /// The same cells under a flat index. Where the rows' prefix was learnt no cell is looked at.
    ///
    /// # Panics
    /// When it still takes writes.
    pub(crate) fn flattened(&self, expected: usize) -> Flat {
        assert!(self.writing.lock().sealed, "a segment is flattened when it takes no more writes");
        let tree = self.index(self.current());
        let heads = Heads::new(self.records.comparator(), &self.prefix());
        let same_heads = heads == *tree.heads();
        let mut builder = Builder::new(heads.clone(), expected);
        tree.each(|head, place| {
            let head = if same_heads { head } else { heads.of(self.records.cell(place).row()) };
            builder.push(head, place);
        });
        builder.finish(Records::of(self.records.comparator(), self.records.chunks().cloned()), Vec::new())
    }

    /// Where the first cell is.
    pub(crate) fn first(&self) -> Spot {
        let index = self.current();
        Spot { index, run: self.index(index).first(&self.records) }
    }

    /// Stands at the first cell at or after `position`.
    #[inline]
    pub(crate) fn seek(&self, position: Position<'_>) -> Spot {
        let index = self.current();
        let tree = self.index(index);
        Spot { index, run: tree.seek(&tree.probe(position), false, &self.records) }
    }

    /// The same, unless the row's head says that the row is not here.
    #[inline]
    pub(crate) fn seek_in_row(&self, position: Position<'_>) -> Option<Spot> {
        let index = self.current();
        let tree = self.index(index);
        let run = tree.seek_in_row(&tree.probe(position), &self.records)?;
        Some(Spot { index, run })
    }

    #[inline]
    pub(crate) fn advance(&self, spot: &mut Spot) {
        self.index(spot.index).advance(&mut spot.run, &self.records);
    }

    #[inline]
    pub(crate) fn place_at(&self, spot: &Spot) -> Option<Place> {
        spot.run.place()
    }

    /// The last cell before `end`, or of all.
    pub(crate) fn last_before(&self, end: Option<Position<'_>>) -> Option<Cell<'_>> {
        let tree = self.index(self.current());
        let probe = end.map(|end| tree.probe(end));
        tree.last_before(probe.as_ref(), &self.records).map(|place| self.records.cell(place))
    }
}
