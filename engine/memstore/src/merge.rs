//! Segments that take no more writes become one.
//!
//! Either only their indexes are merged and the cells stay where they are, or what is not to be kept is dropped from the index
//! and memory is made of it: the cells that live in chunks where much is dead are copied into new ones, and the old chunks
//! go when their last reader does. Other chunks stay, dead bytes and all, which are remembered: the next time there will be more
//! of them. So a byte that lives on is copied when little lives beside it, as a file system that writes only to its end cleans
//! (Rosenblum and Ousterhout, 1991): of a memstore that is rewritten in no order, 0.57 bytes for each that was written and not
//! 1.28. A single segment is cleaned the same way.

use std::collections::HashMap;
use std::sync::Arc;

use cell::{Cell, CellType, Comparator};

use crate::Pool;
use crate::arena::{
    CHUNKS_FILLED_MAX, CHUNKS_MAX, Filler, KEY_LINES, Place, Source, cell_in, fetch_in, record_bytes,
};
use crate::chunk::Chunk;
use crate::flat::Builder;
use crate::head::{Heads, common_prefix};
use crate::records::Records;
use crate::segment::{Cleaning, Compacted, Segment, Span, Spot};

/// How many entries before it is looked at the memory is asked for a cell: cells lie in no order, and a walk that waits for each
/// takes twice as long.
const AHEAD: usize = 8;

/// An entry of a merged index.
#[derive(Clone, Copy, Debug)]
struct Entry {
    head: u64,
    /// Among the chunks of its segment.
    place: Place,
    is_rewritten: bool,
}

/// One of the segments that are merged, and where its walk is.
struct Feed<'a> {
    segment: &'a Segment,
    spot: Spot,
    /// The entry it stands at, with its head in the merged index; `None` at the end.
    entry: Option<Entry>,
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
        self.entry = self.segment.entry_at(&self.spot).map(|(head, place)| {
            let head = match head {
                Some(head) if self.same_heads => head,
                _ => heads.of(self.segment.records().cell(place).row()),
            };
            Entry { head, place, is_rewritten: self.segment.is_rewritten_at(&self.spot) }
        });
    }

    #[inline]
    fn advance(&mut self, heads: &Heads) {
        self.segment.advance(&mut self.spot);
        self.segment.fetch_behind(&self.spot, AHEAD);
        self.look(heads);
    }
}

/// Walks over segments in the order of their cells. Of cells that are the same in every respect the first segment's
/// counts.
struct Merge<'a> {
    comparator: Comparator,
    heads: Heads,
    feeds: Vec<Feed<'a>>,
    /// What did not count, by segment.
    same: Vec<(usize, Place)>,
}

impl<'a> Merge<'a> {
    fn new(segments: &'a [Arc<Segment>]) -> Merge<'a> {
        let comparator = segments.first().map_or(Comparator::Table, |first| first.comparator());
        let heads = Heads::new(comparator, &prefix(segments));
        let feeds = segments.iter().map(|segment| Feed::new(segment, &heads)).collect();
        Merge { comparator, heads, feeds, same: Vec::new() }
    }

    fn cell(&self, feed: usize, place: Place) -> Cell<'a> {
        let segment: &'a Segment = self.feeds[feed].segment;
        segment.records().cell(place)
    }

    /// The next entry, and the number of the segment that has it.
    #[inline]
    fn next(&mut self) -> Option<(usize, Entry)> {
        let mut best: Option<(usize, Entry)> = None;
        for index in 0..self.feeds.len() {
            let Some(entry) = self.feeds[index].entry else { continue };
            let order = match best {
                None => std::cmp::Ordering::Less,
                Some((other, theirs)) => entry.head.cmp(&theirs.head).then_with(|| {
                    let (mine, theirs) = (self.cell(index, entry.place), self.cell(other, theirs.place));
                    self.comparator.compare(mine.into(), theirs.into())
                }),
            };
            match order {
                std::cmp::Ordering::Less => best = Some((index, entry)),
                // The next there comes after this one, so it is looked at in time.
                std::cmp::Ordering::Equal => {
                    self.same.push((index, entry.place));
                    self.feeds[index].advance(&self.heads);
                }
                std::cmp::Ordering::Greater => {}
            }
        }
        let (index, entry) = best?;
        self.feeds[index].advance(&self.heads);
        Some((index, entry))
    }

    /// What did not count since this was asked last, by segment.
    fn take_same(&mut self) -> impl Iterator<Item = (usize, Place, Cell<'a>)> {
        let same = std::mem::take(&mut self.same);
        same.into_iter().map(|(index, place)| (index, place, self.cell(index, place)))
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

/// The chunks of several segments under one numbering.
struct Union {
    chunks: Vec<Arc<Chunk>>,
    /// Of each segment, by its own numbers.
    numbers: Vec<Vec<u32>>,
    /// Bytes of each that no index names any more.
    dead: Vec<u64>,
}

impl Union {
    fn of(segments: &[Arc<Segment>]) -> Union {
        let mut union = Union { chunks: Vec::new(), numbers: Vec::new(), dead: Vec::new() };
        // Segments that follow each other share a chunk: the one that the older did not fill.
        let mut known: HashMap<*const Chunk, u32> = HashMap::new();
        for segment in segments {
            let mut numbers = Vec::new();
            for (own, chunk) in (0..).zip(segment.records().chunks()) {
                let number = *known.entry(Arc::as_ptr(chunk)).or_insert_with(|| {
                    union.chunks.push(Arc::clone(chunk));
                    union.dead.push(0);
                    union.chunks.len() as u32 - 1
                });
                union.dead[number as usize] += segment.dead_in(own);
                numbers.push(number);
            }
            union.numbers.push(numbers);
        }
        union
    }

    /// A place of the segment with this number, under the common numbering.
    #[inline]
    fn place(&self, segment: usize, place: Place) -> Place {
        place.in_chunk(self.numbers[segment][place.chunk() as usize])
    }
}

/// See [`Segment::merged`].
pub(crate) fn merged(segments: &[Arc<Segment>]) -> Option<Segment> {
    let comparator = segments.first().map_or(Comparator::Table, |first| first.comparator());
    let mut union = Union::of(segments);
    if union.chunks.len() > CHUNKS_MAX as usize {
        return None;
    }
    let expected: u64 = segments.iter().map(|segment| segment.cells()).sum();
    let mut merge = Merge::new(segments);
    let mut builder = Builder::new(merge.heads.clone(), expected as usize);
    while let Some((index, entry)) = merge.next() {
        builder.push(entry.head, union.place(index, entry.place));
        if entry.is_rewritten {
            builder.mark_last();
        }
    }
    for (index, place, cell) in merge.take_same() {
        let chunk = union.place(index, place).chunk();
        union.dead[chunk as usize] += record_bytes(cell);
    }
    let flat = builder.finish(Records::of(comparator, union.chunks), union.dead);
    let record_bytes = segments.iter().map(|segment| segment.record_bytes()).sum();
    let mut span = Span::default();
    segments.iter().for_each(|segment| span.join(segment.span()));
    Some(Segment::flat(flat, record_bytes, span))
}

/// See [`Segment::visit`].
pub(crate) fn visit<'a>(segments: &'a [Arc<Segment>], mut each: impl FnMut(Cell<'a>, bool)) {
    let mut merge = Merge::new(segments);
    while let Some((index, entry)) = merge.next() {
        each(merge.cell(index, entry.place), entry.is_rewritten);
    }
}

/// See [`Segment::fit_one`].
pub(crate) fn fit_one(segments: &[Arc<Segment>]) -> bool {
    // Copied in another order cells may take some chunks more.
    let chunks: usize = segments.iter().map(|segment| segment.records().chunks().count()).sum();
    chunks <= CHUNKS_FILLED_MAX as usize
}

/// Bytes of a chunk, those of segments that are compacted, and of all of it.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    live: u64,
    dead: u64,
    size: u64,
}

impl Load {
    /// The share that is dead of what is in the chunk.
    fn dead_share(self) -> f64 {
        self.dead as f64 / (self.live + self.dead).max(1) as f64
    }

    /// Whether most of the chunk has never been filled, nor will be: the end of what an earlier compaction has copied. Were it
    /// left, each compaction would leave another.
    fn is_remnant(self) -> bool {
        self.live + self.dead < self.size / 2
    }
}

/// Says of each chunk whether what lives there is copied: see [`Cleaning`].
fn emptied(loads: &[Load], cleaning: Cleaning) -> Vec<bool> {
    let mut order: Vec<(f64, usize)> = loads
        .iter()
        .enumerate()
        .filter(|(_, load)| load.dead > 0)
        .map(|(number, &load)| (load.dead_share(), number))
        .collect();
    order.sort_by(|left, right| right.0.total_cmp(&left.0));
    let (mut emptied, mut free) = (vec![false; loads.len()], 0u64);
    for (share, number) in order {
        if free >= cleaning.free_min && share < cleaning.dead_min {
            break;
        }
        emptied[number] = true;
        free = free.saturating_add(loads[number].dead);
    }
    // What is copied makes another remnant: so those that there are go with it.
    if emptied.iter().zip(loads).any(|(emptied, load)| *emptied && load.live > 0) {
        emptied.iter_mut().zip(loads).for_each(|(emptied, load)| *emptied |= load.is_remnant());
    }
    emptied
}

/// See [`Segment::compacted`].
pub(crate) fn compacted(
    segments: &[Arc<Segment>],
    pool: &Arc<Pool>,
    cleaning: Cleaning,
    mut keeps: impl FnMut(Cell<'_>) -> bool,
) -> Option<Compacted> {
    if !fit_one(segments) {
        return None;
    }
    let comparator = segments.first().map_or(Comparator::Table, |first| first.comparator());
    let union = Union::of(segments);
    let load = |(&dead, chunk): (&u64, &Arc<Chunk>)| Load { live: 0, dead, size: chunk.size() as u64 };
    let mut loads: Vec<Load> = union.dead.iter().zip(&union.chunks).map(load).collect();
    let mut merge = Merge::new(segments);
    let mut builder = Builder::new(merge.heads.clone(), 0);
    let mut span = Span::default();
    // The last that is kept: what comes behind it says whether it was rewritten.
    let mut last: Option<Cell<'_>> = None;
    while let Some((index, entry)) = merge.next() {
        let cell = merge.cell(index, entry.place);
        let place = union.place(index, entry.place);
        let load = &mut loads[place.chunk() as usize];
        if keeps(cell) {
            load.live += record_bytes(cell);
            builder.push(entry.head, place);
            if entry.is_rewritten {
                builder.mark_last();
            }
            span.take(cell);
            last = Some(cell);
        } else {
            load.dead += record_bytes(cell);
            if last.is_some_and(|kept| is_older_version(kept, cell)) {
                builder.mark_last();
            }
        }
    }
    for (index, place, cell) in merge.take_same() {
        loads[union.place(index, place).chunk() as usize].dead += record_bytes(cell);
    }
    let emptied = emptied(&loads, cleaning);
    // What stays comes first, then what is new.
    let mut staying = Vec::new();
    let mut numbers = vec![None; loads.len()];
    let (mut dead, mut held) = (Vec::new(), 0);
    for (number, load) in loads.iter().enumerate().filter(|(number, load)| load.live > 0 && !emptied[*number])
    {
        numbers[number] = Some(staying.len() as u32);
        staying.push(Arc::clone(&union.chunks[number]));
        dead.push(load.dead);
        held += load.live + load.dead;
    }
    let (source, mut filler) = (Source::new(Arc::clone(pool), Vec::new()), Filler::default());
    let records = Records::of(comparator, staying);
    let mut bytes_copied = 0;
    builder.move_all(AHEAD, |place, later| {
        if let Some(later) = later.filter(|later| numbers[later.chunk() as usize].is_none()) {
            fetch_in(&union.chunks[later.chunk() as usize], later, KEY_LINES);
        }
        if let Some(number) = numbers[place.chunk() as usize] {
            return place.in_chunk(number);
        }
        let cell = cell_in(&union.chunks[place.chunk() as usize], place);
        let (place, taken) = filler.copy(cell.bytes(), cell.sequence(), &source, &records);
        bytes_copied += taken as u64;
        place
    });
    let flat = builder.finish(records, dead);
    Some(Compacted { segment: Segment::flat(flat, held + bytes_copied, span), bytes_copied })
}

/// Whether `other`, which comes later, is a value of the same column.
pub(crate) fn is_older_version(cell: Cell<'_>, other: Cell<'_>) -> bool {
    let is_put = |cell: Cell<'_>| cell.cell_type() == Some(CellType::Put);
    is_put(cell) && is_put(other) && cell.qualifier() == other.qualifier() && cell.row() == other.row()
}
