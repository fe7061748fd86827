//! Many sorted sources as one.
//!
//! Sources are few (a segment or two, some files), so the smallest head is found by looking at all of them, and only
//! when the current source's head has moved past that of the runner-up: runs of cells from one source cost one
//! comparison each. Cells newer than the read point are passed over where they lie.

use std::cmp::Ordering;

use cell::{Cell, Comparator, KeyBuf, Position, SequenceId};
use smallvec::SmallVec;

use crate::Result;

/// Steps before a seek is worth its price. Where steps have not been enough, the next place will not be near either, and
/// fewer are tried: a row with thousands of versions of each column is passed by seeks.
const STEPS_MAX: usize = 8;

/// Sources of a store that has nothing to compact: more make a buffer on the heap.
const SOURCES: usize = 4;

/// What a heap merges.
pub(crate) type Sources = SmallVec<[Source; SOURCES]>;

/// One source.
pub(crate) enum Source {
    Memory(memstore::Cursor),
    File(hfile::Cursor),
}

impl Source {
    #[inline]
    fn peek(&self) -> Option<Cell<'_>> {
        match self {
            Source::Memory(cursor) => cursor.peek(),
            Source::File(cursor) => cursor.peek(),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        match self {
            Source::Memory(cursor) => cursor.advance(),
            Source::File(cursor) => cursor.advance()?,
        }
        Ok(())
    }

    fn seek(&mut self, position: Position<'_>) -> Result<()> {
        match self {
            Source::Memory(cursor) => cursor.seek(position),
            Source::File(cursor) => cursor.seek(position)?,
        }
        Ok(())
    }

    fn seek_row_before(&mut self, row: Option<&[u8]>) -> Result<bool> {
        Ok(match self {
            Source::Memory(cursor) => cursor.seek_row_before(row),
            Source::File(cursor) => cursor.seek_row_before(row)?,
        })
    }
}

/// The sources of one store, merged.
pub(crate) struct Heap {
    comparator: Comparator,
    read_point: SequenceId,
    sources: Sources,
    /// Reversed: which sources stand on the current row. Forward: all of them.
    active: SmallVec<[bool; SOURCES]>,
    current: Option<usize>,
    runner_up: Option<usize>,
    /// Steps that are tried before the next seek.
    steps: usize,
}

impl Heap {
    /// `sources` come newest first: of two cells that are the same in every respect the first source's counts.
    pub(crate) fn new(comparator: Comparator, read_point: SequenceId, sources: Sources) -> Heap {
        let active = SmallVec::from_elem(true, sources.len());
        Heap { comparator, read_point, sources, active, current: None, runner_up: None, steps: STEPS_MAX }
    }

    pub(crate) fn set_memory_only(&mut self, memory_only: bool, cache_blocks: bool) {
        for source in &mut self.sources {
            if let Source::File(cursor) = source {
                cursor.set_options(hfile::ReadOptions { cache_blocks, memory_only });
            }
        }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<Cell<'_>> {
        self.sources[self.current?].peek()
    }

    /// Stands on the first cell at or after `position`, wherever it stood before.
    pub(crate) fn seek(&mut self, position: Position<'_>) -> Result<()> {
        for (source, active) in self.sources.iter_mut().zip(&mut self.active) {
            source.seek(position)?;
            *active = true;
        }
        self.skip_invisible_heads()?;
        self.settle();
        Ok(())
    }

    /// Goes to the next cell.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<()> {
        let Some(current) = self.current else { return Ok(()) };
        self.sources[current].advance()?;
        self.skip_invisible(current)?;
        let still =
            match (self.sources[current].peek(), self.runner_up.and_then(|next| self.sources[next].peek())) {
                (Some(_), None) => true,
                (Some(cell), Some(next)) => self.comparator.compare(cell.into(), next.into()).is_lt(),
                (None, _) => false,
            };
        if !still {
            self.settle();
        }
        Ok(())
    }

    /// Goes on to the first cell that is not `behind`: by steps if it is near, else by seeking `target`, which must be
    /// the place that `behind` means; it is told the cell that is still behind.
    #[inline]
    pub(crate) fn pass(
        &mut self,
        behind: impl Fn(Cell<'_>) -> bool,
        target: impl FnOnce(Cell<'_>) -> KeyBuf,
    ) -> Result<()> {
        for step in 0..self.steps {
            if !self.peek().is_some_and(&behind) {
                if step > 0 {
                    self.steps = STEPS_MAX.min(self.steps + 1);
                }
                return Ok(());
            }
            self.advance()?;
        }
        match self.peek().filter(|cell| behind(*cell)).map(target) {
            Some(target) => {
                self.steps = (self.steps / 2).max(1);
                self.forward(target.position())
            }
            None => Ok(()),
        }
    }

    /// Goes forward to the first cell at or after `position` by seeking, unless it stands there.
    pub(crate) fn forward(&mut self, position: Position<'_>) -> Result<()> {
        for index in 0..self.sources.len() {
            let behind = self.active[index]
                && self.sources[index]
                    .peek()
                    .is_some_and(|cell| self.comparator.compare(cell.into(), position).is_lt());
            if behind {
                self.sources[index].seek(position)?;
                self.skip_invisible(index)?;
            }
        }
        self.settle();
        Ok(())
    }

    /// Stands on the first cell of the last row before `row` (of the last row of all without one). In that state only
    /// the sources that have the row take part. `false` when there is none.
    pub(crate) fn seek_row_before(&mut self, row: Option<&[u8]>) -> Result<bool> {
        let mut wanted = row.map(<[u8]>::to_vec);
        loop {
            let mut last: Option<Vec<u8>> = None;
            for source in &mut self.sources {
                if source.seek_row_before(wanted.as_deref())?
                    && let Some(cell) = source.peek()
                    && last.as_ref().is_none_or(|last| self.comparator.compare_rows(last, cell.row()).is_lt())
                {
                    last = Some(cell.row().to_vec());
                }
            }
            let Some(last) = last else {
                self.current = None;
                return Ok(false);
            };
            for (source, active) in self.sources.iter().zip(&mut self.active) {
                *active = source.peek().is_some_and(|cell| cell.row() == last);
            }
            self.skip_invisible_heads()?;
            for (source, active) in self.sources.iter().zip(&mut self.active) {
                *active = *active && source.peek().is_some_and(|cell| cell.row() == last);
            }
            self.settle();
            if self.current.is_some() {
                return Ok(true);
            }
            // Nothing of the row is visible to this reader.
            wanted = Some(last);
        }
    }

    fn skip_invisible_heads(&mut self) -> Result<()> {
        (0..self.sources.len()).try_for_each(|index| self.skip_invisible(index))
    }

    #[inline]
    fn skip_invisible(&mut self, index: usize) -> Result<()> {
        while self.sources[index].peek().is_some_and(|cell| cell.sequence() > self.read_point) {
            self.sources[index].advance()?;
        }
        Ok(())
    }

    /// Finds the source with the smallest head, and the one after it.
    fn settle(&mut self) {
        (self.current, self.runner_up) = (None, None);
        if let [only] = &self.sources[..] {
            self.current = only.peek().map(|_| 0).filter(|_| self.active[0]);
            return;
        }
        for index in 0..self.sources.len() {
            let Some(cell) = self.sources[index].peek().filter(|_| self.active[index]) else { continue };
            let order = |other: Option<usize>| -> Ordering {
                match other.and_then(|other| self.sources[other].peek()) {
                    Some(other) => self.comparator.compare(cell.into(), other.into()),
                    None => Ordering::Less,
                }
            };
            if order(self.current).is_lt() {
                self.runner_up = self.current;
                self.current = Some(index);
            } else if order(self.runner_up).is_lt() {
                self.runner_up = Some(index);
            }
        }
    }
}
