//! Segments that take no more writes become one.
//!
//! Either only their indexes are merged and the cells stay where they are, or the cells that are to be kept are copied
//! into new chunks, and the old ones go when their last reader does. A single segment is flattened the same way.

use std::sync::Arc;

use cell::{Cell, CellType, Comparator};

use crate::Pool;
use crate::arena::{CHUNKS_FILLED_MAX, CHUNKS_MAX, Filler, Place};
use crate::chunk::Chunk;
use crate::flat::Builder;
use crate::head::{Heads, common_prefix};
use crate::records::Records;
use crate::segment::{Segment, Span, Spot};

/// One of the segments that are merged, and where its walk is.
struct Feed<'a> {
    segment: &'a Segment,
    spot: Spot,
    /// The entry it stands at, with its head in the merged index; `None` at the end.
    entry: Option<(u64, Place)>,
    /// Whether its own heads are those of the merged index.
    same_heads: bool,
}

impl<'a> Feed<'a> {
    fn new(segment: &'a Segment, heads: &Heads) -> Feed<'a> {
        let same_heads = segment.heads() == Some(heads);
        let mut feed = Feed { segment, spot: segment.first(), entry: None, same_heads };
        feed.look(heads);
        feed
    }

    #[inline]
    fn look(&mut self, heads: &Heads) {
        self.entry = self.segment.entry_at(&self.spot).map(|(head, place)| match head {
            Some(head) if self.same_heads => (head, place),
            _ => (heads.of(self.segment.records().cell(place).row()), place),
        });
    }

    #[inline]
    fn advance(&mut self, heads: &Heads) {
        self.segment.advance(&mut self.spot);
        self.look(heads);
    }
}

/// Walks over segments in the order of their cells. Of cells that are the same in every respect the first segment's
/// counts.
struct Merge<'a> {
    comparator: Comparator,
    heads: Heads,
    feeds: Vec<Feed<'a>>,
}

impl<'a> Merge<'a> {
    fn new(segments: &'a [Arc<Segment>]) -> Merge<'a> {
        let comparator = segments.first().map_or(Comparator::Table, |first| first.comparator());
        let heads = Heads::new(comparator, &prefix(segments));
        let feeds = segments.iter().map(|segment| Feed::new(segment, &heads)).collect();
        Merge { comparator, heads, feeds }
    }

    fn cell(&self, feed: usize, place: Place) -> Cell<'a> {
        let segment: &'a Segment = self.feeds[feed].segment;
        segment.records().cell(place)
    }

    fn is_rewritten(&self, feed: usize, place: Place) -> bool {
        self.feeds[feed].segment.records().is_rewritten(place)
    }

    /// The next entry, and the number of the segment that has it.
    #[inline]
    fn next(&mut self) -> Option<(usize, u64, Place)> {
        let mut best: Option<(usize, u64, Place)> = None;
        let mut again = None;
        for (index, feed) in self.feeds.iter().enumerate() {
            let Some((head, place)) = feed.entry else { continue };
            let order = match best {
                None => std::cmp::Ordering::Less,
                Some((other, other_head, other_place)) => head.cmp(&other_head).then_with(|| {
                    let (mine, theirs) = (self.cell(index, place), self.cell(other, other_place));
                    self.comparator.compare(mine.into(), theirs.into())
                }),
            };
            match order {
                std::cmp::Ordering::Less => (best, again) = (Some((index, head, place)), None),
                std::cmp::Ordering::Equal => again = Some(index),
                std::cmp::Ordering::Greater => {}
            }
        }
        let (index, head, place) = best?;
        self.feeds[index].advance(&self.heads);
        if let Some(again) = again {
            self.feeds[again].advance(&self.heads);
        }
        Some((index, head, place))
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

/// See [`Segment::merged`].
pub(crate) fn merged(segments: &[Arc<Segment>]) -> Option<Segment> {
    let comparator = segments.first().map_or(Comparator::Table, |first| first.comparator());
    let mut chunks: Vec<Arc<Chunk>> = Vec::new();
    // Segments that follow each other share a chunk: the one that the older did not fill.
    let numbers: Vec<Vec<u32>> = segments
        .iter()
        .map(|segment| {
            let number = |chunk: &Arc<Chunk>| {
                let known = chunks.iter().rposition(|known| Arc::ptr_eq(known, chunk));
                known.unwrap_or_else(|| {
                    chunks.push(Arc::clone(chunk));
                    chunks.len() - 1
                }) as u32
            };
            segment.records().chunks().map(number).collect()
        })
        .collect();
    if chunks.len() > CHUNKS_MAX as usize {
        return None;
    }
    let expected: u64 = segments.iter().map(|segment| segment.cells()).sum();
    let mut merge = Merge::new(segments);
    let mut builder = Builder::new(merge.heads.clone(), expected as usize);
    while let Some((index, head, place)) = merge.next() {
        builder.push(head, place.in_chunk(numbers[index][place.chunk() as usize]));
    }
    let flat = builder.finish(Records::of(comparator, chunks));
    let record_bytes = segments.iter().map(|segment| segment.record_bytes()).sum();
    let spans = segments.iter().filter_map(|segment| segment.timestamps());
    let span = spans.reduce(|left, right| (left.0.min(right.0), left.1.max(right.1)));
    Some(Segment::flat(flat, record_bytes, span))
}

/// See [`Segment::visit`].
pub(crate) fn visit<'a>(segments: &'a [Arc<Segment>], mut each: impl FnMut(Cell<'a>, bool)) {
    let mut merge = Merge::new(segments);
    while let Some((index, _, place)) = merge.next() {
        each(merge.cell(index, place), merge.is_rewritten(index, place));
    }
}

/// See [`Segment::fit_one`].
pub(crate) fn fit_one(segments: &[Arc<Segment>]) -> bool {
    // Copied in another order cells may take some chunks more.
    let chunks: usize = segments.iter().map(|segment| segment.records().chunks().count()).sum();
    chunks <= CHUNKS_FILLED_MAX as usize
}

/// See [`Segment::compacted`].
pub(crate) fn compacted(
    segments: &[Arc<Segment>],
    pool: &Arc<Pool>,
    mut keeps: impl FnMut(Cell<'_>) -> bool,
) -> Option<Segment> {
    if !fit_one(segments) {
        return None;
    }
    let comparator = segments.first().map_or(Comparator::Table, |first| first.comparator());
    let records = Records::new(comparator);
    let mut filler = Filler::new(Arc::clone(pool), None);
    let mut merge = Merge::new(segments);
    let mut builder = Builder::new(merge.heads.clone(), 0);
    let mut record_bytes = 0;
    let mut span = Span::default();
    let mut copy = |head: u64, cell: Cell<'_>, is_rewritten: bool| {
        let (place, taken) = filler
            .copy(cell.bytes(), cell.sequence(), is_rewritten, |number, chunk| records.add(number, chunk));
        builder.push(head, place);
        record_bytes += taken as u64;
        span.take(cell.timestamp());
    };
    // The last that is kept: what comes behind it says whether it was rewritten.
    let mut last: Option<(u64, Cell<'_>, bool)> = None;
    while let Some((index, head, place)) = merge.next() {
        let cell = merge.cell(index, place);
        if keeps(cell) {
            if let Some((head, cell, is_rewritten)) =
                last.replace((head, cell, merge.is_rewritten(index, place)))
            {
                copy(head, cell, is_rewritten);
            }
        } else if let Some((_, kept, is_rewritten)) = &mut last {
            *is_rewritten = *is_rewritten || is_older_version(*kept, cell);
        }
    }
    if let Some((head, cell, is_rewritten)) = last {
        copy(head, cell, is_rewritten);
    }
    Some(Segment::flat(builder.finish(records), record_bytes, span.ends()))
}

/// Whether `other`, which comes later, is a value of the same column.
pub(crate) fn is_older_version(cell: Cell<'_>, other: Cell<'_>) -> bool {
    let is_put = |cell: Cell<'_>| cell.cell_type() == Some(CellType::Put);
    is_put(cell) && is_put(other) && cell.qualifier() == other.qualifier() && cell.row() == other.row()
}
