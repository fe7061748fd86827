//! A walk over several segments in the order of their cells that reads as few cells as possible.
//!
//! 1. The heads of the indexes are merged. They are stored in order, so this does not wait for memory. The result is a
//!    list of *runs*. A run has neighbouring entries of one segment with the same head. The runs of one head form a
//!    *group*.
//! 2. Entries with the same head are ordered by their cells. An entry whose head is unique has its position already;
//!    its cell is read only if the caller wants it.
//! 3. The merge of heads is ahead of the cells. So the cells to read are known in advance, nearly in order, and are
//!    prefetched; they may be anywhere in memory.
//!
//! A segment may have made its heads after a longer prefix than the one common to all segments. All its rows share the
//! rest of the longer prefix, so the heads after the shorter prefix can be computed from its own.

use std::cmp::Ordering;
use std::sync::Arc;

use cell::{Cell, Comparator};

use crate::flat::Builder;
use crate::head::{Heads, common_prefix};
use crate::place::{KEY_LINES, Place, cell_among, fetch_key};
use crate::records::Records;
use crate::segment::{Index, Segment};

/// Number of cells prefetched before the first one is read. Cells are in no order in memory; without this a walk would
/// wait for each, and take twice as long.
const AHEAD: usize = 16;
/// Number of further cells that are prefetched together. A prefetch waits only for the translation of its address.
/// Issued together, prefetches overlap these waits; issued one by one, they made a walk a quarter slower.
const TOGETHER: usize = 32;
/// Number of runs that are found at a time. The next ones are found when only [`RUNS_LEFT`] are left, which still have
/// more cells than are prefetched.
const RUNS: usize = 1_024;
const RUNS_LEFT: usize = 128;

/// Neighbouring entries with one head in the index of one segment.
#[derive(Clone, Copy, Debug)]
struct Run {
    head: u64,
    segment: u32,
    first: u32,
    count: u32,
    /// Whether the next run has another head.
    ends_group: bool,
    /// Number of cells of the run that are prefetched; zero if none is read.
    asked: u8,
}

/// A segment that the walk visits.
struct Feed<'a> {
    index: Index<'a>,
    /// The filled part of each chunk, by number.
    chunks: Vec<&'a [u8]>,
    shorter: Shorter,
    /// Maximum number of entries of a run that need not be read, if no other segment has the run's head.
    unseen_max: u32,
}

impl<'a> Feed<'a> {
    fn new(segment: &'a Segment, heads: &Heads, unseen_max: u32) -> Feed<'a> {
        let mut index = segment.index();
        let shorter = Shorter::of(index.heads(), heads).unwrap_or_else(|| {
            // The common prefix of all segments is not the one of this segment's heads, and they cannot be converted.
            // So they are computed again from the rows.
            let mut builder = Builder::new(heads.clone(), index.len());
            for at in 0..index.len() {
                if let Some(later) = index.place(at + AHEAD) {
                    segment.records().fetch(later, KEY_LINES);
                }
                let Some(place) = index.place(at) else { break };
                builder.push(heads.of(segment.records().cell(place).row()), place);
                if index.is_rewritten(at) {
                    builder.mark_last();
                }
            }
            index = Index::Made(Box::new(builder.finish(Records::new(segment.comparator()), Vec::new())));
            Shorter::SAME
        });
        let chunks = segment.records().chunks().map(|chunk| chunk.bytes()).collect();
        Feed { index, chunks, shorter, unseen_max }
    }

    #[inline]
    fn place(&self, at: u32) -> Place {
        self.index.place(at as usize).expect("a run is of the index")
    }

    #[inline]
    fn cell(&self, place: Place) -> Cell<'a> {
        cell_among(self.chunks[place.chunk() as usize], place)
    }

    #[inline]
    fn fetch(&self, at: u32) {
        let place = self.place(at);
        fetch_key(self.chunks[place.chunk() as usize], place);
    }
}

/// Computes heads after a shorter prefix from heads after a longer prefix, which begins with the shorter one.
#[derive(Clone, Copy, Debug)]
struct Shorter {
    /// The part of the longer prefix after the shorter one, as the first bytes of the new head.
    lead: u64,
    /// Number of bits by which the old head is shifted.
    bits: u32,
    /// A mask for the bits of the old head that remain.
    left: u64,
}

impl Shorter {
    const SAME: Shorter = Shorter { lead: 0, bits: 0, left: u64::MAX };

    /// Creates the conversion from the first heads to the second ones; `None` if the longer prefix does not begin with
    /// the shorter one.
    fn of(longer: &Heads, shorter: &Heads) -> Option<Shorter> {
        let lead = longer.prefix().strip_prefix(shorter.prefix())?;
        let bits = 8 * lead.len().min(8) as u32;
        // The head that a row has if it ends with the longer prefix.
        let of_lead = shorter.of(longer.prefix());
        match bits {
            0 => Some(Shorter::SAME),
            u64::BITS => Some(Shorter { lead: of_lead, bits: 0, left: 0 }),
            _ => Some(Shorter { lead: of_lead, bits, left: u64::MAX }),
        }
    }

    #[inline]
    fn head(self, head: u64) -> u64 {
        self.lead | head >> self.bits & self.left
    }
}

/// The position in one segment up to which heads are merged.
struct Scout {
    segment: u32,
    at: u32,
    /// The current head; `None` at the end of the segment.
    head: Option<u64>,
}

impl Scout {
    #[inline]
    fn look(&mut self, feed: &Feed<'_>) {
        self.head = feed.index.head(self.at as usize).map(|head| feed.shorter.head(head));
    }
}

/// A run whose cells are being read, and the walk's position in it.
struct Front<'a> {
    segment: u32,
    at: u32,
    end: u32,
    place: Place,
    cell: Cell<'a>,
}

/// One step of a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    /// The index of the segment.
    pub(crate) segment: usize,
    pub(crate) head: u64,
    /// The place in that segment.
    pub(crate) place: Place,
    pub(crate) is_rewritten: bool,
    /// The cell; `None` if it was not read.
    pub(crate) cell: Option<Cell<'a>>,
}

/// The walk; see the module documentation. If several segments have a cell that is equal in all parts, only the cell of
/// the first of these segments is returned.
pub(crate) struct Walk<'a> {
    comparator: Comparator,
    heads: Heads,
    feeds: Vec<Feed<'a>>,
    /// The segments that have not ended, in the order of their segments.
    scouts: Vec<Scout>,
    /// The runs found so far. Those from index `run` on are still to be walked. Those before index `asked` have been
    /// prefetched; they have `waiting` cells in total.
    runs: Vec<Run>,
    run: usize,
    asked: usize,
    waiting: usize,
    /// The runs of the current group, in the order of the segments.
    fronts: Vec<Front<'a>>,
    head: u64,
    /// Equal cells that were skipped, with their segment.
    same: Vec<(usize, Place, Cell<'a>)>,
}

impl<'a> Walk<'a> {
    /// Creates a walk over sealed `segments`. `unseen_max` returns, for each segment, the maximum number of entries of
    /// a run that need not be read if no other segment has the run's head.
    pub(crate) fn new(segments: &'a [Arc<Segment>], unseen_max: impl Fn(&Segment) -> u32) -> Walk<'a> {
        let comparator = segments.first().map_or(Comparator::Table, |first| first.comparator());
        let heads = Heads::new(comparator, &prefix(segments));
        let feed = |segment: &'a Arc<Segment>| Feed::new(segment, &heads, unseen_max(segment));
        let feeds: Vec<Feed<'a>> = segments.iter().map(feed).collect();
        let scouts = (0..).zip(&feeds).map(|(segment, feed)| {
            let mut scout = Scout { segment, at: 0, head: None };
            scout.look(feed);
            scout
        });
        let scouts = scouts.filter(|scout| scout.head.is_some()).collect();
        Walk {
            comparator,
            heads,
            feeds,
            scouts,
            runs: Vec::with_capacity(RUNS + segments.len()),
            run: 0,
            asked: 0,
            waiting: 0,
            fronts: Vec::new(),
            head: 0,
            same: Vec::new(),
        }
    }

    /// Returns the function that computes the heads of this walk.
    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    /// Returns the next step; `None` at the end of the walk.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Step<'a>> {
        if self.fronts.is_empty() {
            if self.runs.len() - self.run <= RUNS_LEFT && !self.scouts.is_empty() {
                self.find_runs();
            }
            let run = self.runs.get_mut(self.run)?;
            if run.asked == 0 {
                let (segment, head, at) = (run.segment as usize, run.head, run.first);
                run.first += 1;
                run.count -= 1;
                self.run += usize::from(run.count == 0);
                let feed = &self.feeds[segment];
                let (place, is_rewritten) = (feed.place(at), feed.index.is_rewritten(at as usize));
                return Some(Step { segment, head, place, is_rewritten, cell: None });
            }
            self.begin_group();
        }
        let best = if self.fronts.len() == 1 { 0 } else { self.least() };
        let front = &self.fronts[best];
        let segment = front.segment as usize;
        let is_rewritten = self.feeds[segment].index.is_rewritten(front.at as usize);
        let step =
            Step { segment, head: self.head, place: front.place, is_rewritten, cell: Some(front.cell) };
        self.advance(best);
        Some(step)
    }

    /// Returns the equal cells that were skipped so far, with their segment, and forgets them.
    pub(crate) fn take_same(&mut self) -> Vec<(usize, Place, Cell<'a>)> {
        std::mem::take(&mut self.same)
    }

    /// Merges heads, and so finds the next runs.
    #[inline(never)]
    fn find_runs(&mut self) {
        self.runs.drain(..self.run);
        self.asked = self.asked.saturating_sub(self.run);
        self.run = 0;
        while self.runs.len() < RUNS
            && let Some(head) = self.scouts.iter().filter_map(|scout| scout.head).min()
        {
            let (group, mut any_ends) = (self.runs.len(), false);
            for scout in self.scouts.iter_mut().filter(|scout| scout.head == Some(head)) {
                let (feed, first) = (&self.feeds[scout.segment as usize], scout.at);
                while scout.head == Some(head) {
                    scout.at += 1;
                    scout.look(feed);
                }
                any_ends |= scout.head.is_none();
                let (segment, count) = (scout.segment, scout.at - first);
                let asked = (count as usize).min(AHEAD) as u8;
                self.runs.push(Run { head, segment, first, count, ends_group: false, asked });
            }
            if let [.., last] = &mut self.runs[..] {
                last.ends_group = true;
            }
            if let [alone] = &mut self.runs[group..]
                && alone.count <= self.feeds[alone.segment as usize].unseen_max
            {
                alone.asked = 0;
            }
            if any_ends {
                self.scouts.retain(|scout| scout.head.is_some());
            }
        }
    }

    /// Prefetches the first cells of the next run, if the walk will read them.
    #[inline]
    fn ask(&mut self) {
        let run = self.runs[self.asked];
        let feed = &self.feeds[run.segment as usize];
        (run.first..run.first + u32::from(run.asked)).for_each(|at| feed.fetch(at));
        self.waiting += usize::from(run.asked);
        self.asked += 1;
    }

    /// Prefetches until `more` more cells are prefetched.
    #[inline(never)]
    fn ask_for(&mut self, more: usize) {
        let waiting = self.waiting + more;
        while self.waiting < waiting && self.asked < self.runs.len() {
            self.ask();
        }
    }

    #[inline]
    fn begin_group(&mut self) {
        loop {
            if self.asked <= self.run {
                self.asked = self.run;
                self.ask();
            }
            let run = self.runs[self.run];
            self.waiting -= usize::from(run.asked);
            if self.waiting < AHEAD && self.asked < self.runs.len() {
                self.ask_for(TOGETHER);
            }
            self.run += 1;
            self.head = run.head;
            let feed = &self.feeds[run.segment as usize];
            let place = feed.place(run.first);
            let (at, end, cell) = (run.first, run.first + run.count, feed.cell(place));
            debug_assert_eq!(self.heads.of(cell.row()), run.head, "heads are those of the rows");
            self.fronts.push(Front { segment: run.segment, at, end, place, cell });
            if run.ends_group {
                return;
            }
        }
    }

    /// Returns the index of the front with the smallest cell. Advances other fronts with an equal cell.
    fn least(&mut self) -> usize {
        let (mut best, mut index) = (0, 1);
        while index < self.fronts.len() {
            let front = &self.fronts[index];
            match self.comparator.compare(front.cell.into(), self.fronts[best].cell.into()) {
                Ordering::Less => best = index,
                Ordering::Equal => {
                    self.same.push((front.segment as usize, front.place, front.cell));
                    // The next cell of this front sorts after the equal one, so the next step compares it early enough.
                    if !self.advance(index) {
                        continue;
                    }
                }
                Ordering::Greater => {}
            }
            index += 1;
        }
        best
    }

    /// Advances in the run of a front. Returns whether it has another cell; otherwise the front is removed.
    #[inline]
    fn advance(&mut self, index: usize) -> bool {
        let front = &mut self.fronts[index];
        let feed = &self.feeds[front.segment as usize];
        front.at += 1;
        if front.at == front.end {
            self.fronts.remove(index);
            return false;
        }
        let later = front.at + AHEAD as u32 - 1;
        if later < front.end {
            feed.fetch(later);
        }
        front.place = feed.place(front.at);
        front.cell = feed.cell(front.place);
        true
    }
}

/// Returns the common prefix of all rows of the segments.
fn prefix(segments: &[Arc<Segment>]) -> Vec<u8> {
    let mut prefix: Option<Vec<u8>> = None;
    for segment in segments {
        let (Some(first), Some(last)) = (segment.cell_at(&segment.first()), segment.last_before(None)) else {
            continue;
        };
        for row in [first.row(), last.row()] {
            prefix = Some(match prefix {
                None => row.to_vec(),
                Some(known) => common_prefix(&known, row).to_vec(),
            });
        }
    }
    prefix.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_after_a_shorter_prefix_follow_from_those_after_a_longer_one() {
        let longer = b"user-of-table";
        for rest in [
            &b""[..],
            b"\0",
            b"1",
            b"1234567",
            b"12345678",
            b"123456789",
            b"\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            let row = [longer, rest].concat();
            let known = Heads::new(Comparator::Table, longer);
            for length in 0..=longer.len() {
                let wanted = Heads::new(Comparator::Table, &longer[..length]);
                let shorter = Shorter::of(&known, &wanted).expect("it begins like that");
                assert_eq!(
                    shorter.head(known.of(&row)),
                    wanted.of(&row),
                    "{} at {length}",
                    row.escape_ascii()
                );
            }
        }
        let heads = |prefix: &[u8]| Heads::new(Comparator::Table, prefix);
        assert!(Shorter::of(&heads(b"use"), &heads(b"user")).is_none());
        assert!(Shorter::of(&heads(b"user"), &heads(b"usr")).is_none());
    }
}
