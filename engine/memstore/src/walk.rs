//! A walk over segments in the order of their cells, which looks at no more cells than it must.
//!
//! 1. The heads of the indexes are merged. They lie side by side, in order, so nothing is waited for. It comes out in
//!    which segments a head is and how many neighbours have it there: *runs*, those of one head a *group*.
//! 2. Entries of one head are told apart by their cells. One whose head nobody else has stands where it stands: its
//!    cell is looked at only if who walks wants to see it.
//! 3. Heads are merged some way ahead of the cells. So it is known which cells will be looked at, and nearly in which order, and
//!    memory is asked for them in time: they lie anywhere.
//!
//! A segment may have made its heads after a longer prefix than all have in common. What its rows have beyond that is the
//! same in all of them, so the head after the shorter prefix follows from the other.

use std::cmp::Ordering;
use std::sync::Arc;

use cell::{Cell, Comparator};

use crate::arena::{KEY_LINES, Place, cell_among, fetch_key};
use crate::flat::Builder;
use crate::head::{Heads, common_prefix};
use crate::records::Records;
use crate::segment::{Index, Segment};

/// How many cells the memory has been asked for before the first of them is looked at: cells lie in no order, and a walk that
/// waits for each takes twice as long.
const AHEAD: usize = 16;
/// For so many more it is asked at once. To ask waits for nothing but where the page is, and if others are asked for side by side
/// they find that at the same time: one by one a walk took a quarter longer.
const TOGETHER: usize = 32;
/// So many runs are found at a time, when there are no more than so many left: more than hold the cells that are asked for.
const RUNS: usize = 1_024;
const RUNS_LEFT: usize = 128;

/// Neighbours of one head in the index of one segment.
#[derive(Clone, Copy, Debug)]
struct Run {
    head: u64,
    segment: u32,
    first: u32,
    count: u32,
    /// Whether the next run is of another head.
    ends_group: bool,
    /// Of how many cells the memory is asked for beforehand: none where none is looked at.
    asked: u8,
}

/// One of the segments.
struct Feed<'a> {
    index: Index<'a>,
    /// The chunks by number, as far as they are filled.
    chunks: Vec<&'a [u8]>,
    shorter: Shorter,
    /// So many neighbours of one head need not be looked at, where no other segment has that head.
    unseen_max: u32,
}

impl<'a> Feed<'a> {
    fn new(segment: &'a Segment, heads: &Heads, unseen_max: u32) -> Feed<'a> {
        let mut index = segment.index();
        let shorter = Shorter::of(index.heads(), heads).unwrap_or_else(|| {
            // What is in common is more than was known when the heads were made.
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

/// How heads after a prefix become those after the beginning of it.
#[derive(Clone, Copy, Debug)]
struct Shorter {
    /// What comes before, and by how many bits the rest moves: all but one at most,
    lead: u64,
    bits: u32,
    /// and whether anything of the rest is left.
    left: u64,
}

impl Shorter {
    const SAME: Shorter = Shorter { lead: 0, bits: 0, left: u64::MAX };

    /// `None` where the one is not the beginning of the other.
    fn of(longer: &Heads, shorter: &Heads) -> Option<Shorter> {
        let lead = longer.prefix().strip_prefix(shorter.prefix())?;
        let bits = 8 * lead.len().min(8) as u32;
        // As if the row ended there.
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

/// Where the merge of the heads is in one segment.
struct Scout {
    segment: u32,
    at: u32,
    /// The head there; `None` at the end.
    head: Option<u64>,
}

impl Scout {
    #[inline]
    fn look(&mut self, feed: &Feed<'_>) {
        self.head = feed.index.head(self.at as usize).map(|head| feed.shorter.head(head));
    }
}

/// A run whose cells are looked at, and where the walk is in it.
struct Front<'a> {
    segment: u32,
    at: u32,
    end: u32,
    place: Place,
    cell: Cell<'a>,
}

/// What a walk comes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    /// The number of its segment.
    pub(crate) segment: usize,
    pub(crate) head: u64,
    /// Among the chunks of its segment.
    pub(crate) place: Place,
    pub(crate) is_rewritten: bool,
    /// `None` where it was not looked at.
    pub(crate) cell: Option<Cell<'a>>,
}

/// See above. Of cells that are the same in every respect the first segment's counts.
pub(crate) struct Walk<'a> {
    comparator: Comparator,
    heads: Heads,
    feeds: Vec<Feed<'a>>,
    /// Of the segments that have not ended, in their order.
    scouts: Vec<Scout>,
    /// From `run` on they are still to come; for those before `asked` the memory has been asked, `waiting` cells of them.
    runs: Vec<Run>,
    run: usize,
    asked: usize,
    waiting: usize,
    /// Of the group that the walk is in, in the order of the segments.
    fronts: Vec<Front<'a>>,
    head: u64,
    /// What did not count, by segment.
    same: Vec<(usize, Place, Cell<'a>)>,
}

impl<'a> Walk<'a> {
    /// Over `segments`, which take no more writes. `unseen_max` says of each how many neighbours of one head need not be
    /// looked at where no other segment has it.
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

    /// How the heads of the steps are made.
    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    /// What comes next.
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

    /// What did not count so far, by segment.
    pub(crate) fn take_same(&mut self) -> Vec<(usize, Place, Cell<'a>)> {
        std::mem::take(&mut self.same)
    }

    /// Merges heads.
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

    /// Asks the memory for the first cells of the next run that it was not asked for.
    #[inline]
    fn ask(&mut self) {
        let run = self.runs[self.asked];
        let feed = &self.feeds[run.segment as usize];
        (run.first..run.first + u32::from(run.asked)).for_each(|at| feed.fetch(at));
        self.waiting += usize::from(run.asked);
        self.asked += 1;
    }

    /// The same until so many more cells are waited for.
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

    /// The front that has the least cell. Those that have it, too, go on.
    fn least(&mut self) -> usize {
        let (mut best, mut index) = (0, 1);
        while index < self.fronts.len() {
            let front = &self.fronts[index];
            match self.comparator.compare(front.cell.into(), self.fronts[best].cell.into()) {
                Ordering::Less => best = index,
                Ordering::Equal => {
                    self.same.push((front.segment as usize, front.place, front.cell));
                    // The next there comes after this one, so it is looked at in time.
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

    /// Goes on in a run. Says whether there is something, or else it is not among the fronts any more.
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

/// What the rows of all of them begin with.
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
