//! Reading rows: the families of a row side by side, in order, judged and given to the caller.
//!
//! A scanner stands at a row, or inside one of which a part was given; there it goes on, so that a row is read once in
//! however many parts. Should a block be missing that the caller must not wait for, the row is begun anew at the next call:
//! what was given of it before is counted, judged again, and not given twice.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use cell::{Cell, CellSink, Comparator, KeyBuf, SequenceId, is_same_row};
use filter::Filter;
use hfile::ReadOptions;
use smallvec::SmallVec;

use crate::heap::{Aim, Heap};
use crate::matcher::{Matcher, Wanted};
use crate::query::{Isolation, Limits, ReadMode, Scan};
use crate::region::Region;
use crate::store::View;
use crate::{Error, Result};

mod patience;
mod row;
mod state;

pub use patience::INLINE_TIME;
use state::{FilterTraits, Progress, Reach, WholeRows};

/// Cells of a row under way that may be judged twice because a block is missing. Behind so many it is gone on with only by
/// who may wait.
const JUDGED_TWICE_MAX: u64 = 1000;

/// What one step of a scanner gave, besides cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Whether there may be more in the region.
    pub more: bool,
    /// Whether the row may go on in the next step.
    pub partial: bool,
    /// Whether the step ended because of [`Limits::bytes`].
    pub size_limit: bool,
    /// Whether it ended because of [`Limits::deadline`], with cells or without.
    pub time_limit: bool,
    /// Rows that were looked at to their end, as HBase counts them: not the one at which the filter ends the scan, and
    /// twice the one for which families were read on demand.
    pub rows_scanned: u64,
    /// Rows that the filter took away, or of which nothing was left to give.
    pub rows_filtered: u64,
}

/// One family of a scan.
struct StoreScanner {
    heap: Heap,
    matcher: Matcher,
    /// Which of the scan's families it is; `None` when the scan names none.
    query: Option<usize>,
    /// Whether its cells are read only in rows that the filter has let through: it does not say which rows there are.
    on_demand: bool,
    /// Whether it has come to its end because the filter wanted nothing more, be it only of a row.
    closed: bool,
    /// Where the filter has sent it, out of the rows that are over: it has nothing before that place, or in a reversed
    /// scan from the place's row on. Few are sent anywhere, and a key is long.
    sent: Option<Box<KeyBuf>>,
    /// What the row under way adds to these two. It counts when the row is over: should the row be begun anew, the filter
    /// says it again.
    of_row: OfRow,
}

/// See [`StoreScanner::of_row`].
#[derive(Default)]
struct OfRow {
    closed: bool,
    sent: Option<Box<KeyBuf>>,
}

impl StoreScanner {
    fn wanted<'s>(&self, scan: &'s Scan) -> Wanted<'s> {
        self.query.and_then(|query| scan.families[query].qualifiers.as_deref())
    }

    /// Whether it is over, of this row at least.
    fn is_closed(&self) -> bool {
        self.closed || self.of_row.closed
    }

    /// The row is over.
    fn end_row(&mut self) {
        self.closed |= self.of_row.closed;
        self.of_row.closed = false;
        if self.of_row.sent.is_some() {
            self.sent = self.of_row.sent.take();
        }
    }

    /// Goes to `key`, or farther if the filter has sent it farther.
    fn seek(&mut self, key: &KeyBuf, comparator: Comparator) -> Result<()> {
        self.heap.seek(key.position())?;
        match &self.sent {
            Some(sent) => self.heap.pass(|cell| sent.is_after(comparator, cell), |_| KeyBuf::clone(sent)),
            None => Ok(()),
        }
    }

    /// Goes back to the last row before `row`, or before the one that the filter has sent it behind.
    fn seek_row_before(&mut self, row: Option<&[u8]>, comparator: Comparator) -> Result<()> {
        let sent = self.sent.as_ref().map(|sent| sent.key().row());
        let bound = match (row, sent) {
            (Some(row), Some(sent)) if comparator.compare_rows(sent, row).is_lt() => Some(sent),
            (None, sent) => sent,
            (row, _) => row,
        };
        self.heap.seek_row_before(bound).map(drop)
    }
}

/// Where a row goes on of which a part was given.
struct RowPosition {
    /// The place of the store among the scan's.
    store: usize,
    /// Cells of this row and store that were let through, before limit and offset.
    included: u32,
}

/// A store that a scan asks.
struct ScannedStore {
    /// Its place among the region's stores.
    store: usize,
    /// Its place among the scan's families; `None` when the scan names none.
    query: Option<usize>,
    view: Arc<View>,
}

/// A walk over the rows of a region.
pub struct RegionScanner<'q> {
    region: Arc<Region>,
    scan: Cow<'q, Scan>,
    reach: Reach,
    filter: Option<Filter>,
    traits: FilterTraits,
    /// Whether whole rows can be handled without judging each cell.
    whole_rows: WholeRows,
    read_point: SequenceId,
    /// The stores that are asked, as they were when the scanner was opened.
    asked: SmallVec<[ScannedStore; 1]>,
    stores: SmallVec<[StoreScanner; 1]>,
    /// Whether the heaps stand where they should.
    positioned: bool,
    /// The row that comes next or is under way; empty before the first.
    row: SmallVec<[u8; 64]>,
    has_row: bool,
    /// Cells of the row that were given in earlier steps, and those that were judged.
    given: usize,
    judged: u64,
    /// Where the row goes on, if earlier steps began it and nothing came between.
    standing: Option<RowPosition>,
    /// Room for a row that the filter judges as a whole.
    buffer: row::RowBuffer,
    progress: Progress,
    counted: u64,
}

impl<'q> RegionScanner<'q> {
    pub(crate) fn open(region: Arc<Region>, scan: Cow<'q, Scan>) -> Result<RegionScanner<'q>> {
        let mut earlier = scan.read_point;
        let (read_point, asked) = loop {
            // First the read point, then the views: they have all that it covers.
            let read_point = match (scan.isolation, earlier) {
                (Isolation::ReadUncommitted, _) => SequenceId::MAX,
                (Isolation::ReadCommitted, Some(earlier)) => earlier.min(region.mvcc.read_point()),
                (Isolation::ReadCommitted, None) => region.mvcc.read_point(),
            };
            let asked = Self::ask(&region, &scan)?;
            if asked.iter().all(|asked| asked.view.horizon <= read_point) {
                break (read_point, asked);
            }
            // Versions that this read point needs were dropped, perhaps of one family of a row and not of another. A scan that
            // resumes at an earlier read point sees whole rows of a later one instead.
            earlier = None;
            region.check_serving()?;
            std::hint::spin_loop();
        };
        let mut filter = scan.filter.clone();
        if let Some(filter) = &mut filter {
            filter.set_reversed(scan.reversed);
        }
        let scanner = RegionScanner {
            region,
            traits: FilterTraits::of(filter.as_ref()),
            filter,
            read_point,
            asked,
            stores: SmallVec::new(),
            positioned: false,
            row: SmallVec::new(),
            has_row: false,
            given: 0,
            judged: 0,
            standing: None,
            whole_rows: WholeRows::Judged,
            buffer: row::RowBuffer::default(),
            progress: Progress::Reading,
            counted: 0,
            reach: Reach::of(&scan),
            scan,
        };
        let stores = &scanner.region.stores;
        let on_demand = |asked: &ScannedStore| is_on_demand(&scanner.scan, &stores[asked.store].family);
        if scanner.scan.reversed && scanner.asked.iter().any(on_demand) {
            return Err(Error::BadRequest(
                "Reverse scan with loading CFs on demand is not supported".to_owned(),
            ));
        }
        Ok(scanner)
    }

    /// The stores that `scan` asks, in the order of their families, as they are now.
    fn ask(region: &Region, scan: &Scan) -> Result<SmallVec<[ScannedStore; 1]>> {
        let ask =
            |store: usize, query| ScannedStore { store, query, view: region.stores[store].view.load_full() };
        if scan.families.is_empty() {
            return Ok((0..region.stores.len()).map(|store| ask(store, None)).collect());
        }
        let mut asked: SmallVec<[ScannedStore; 1]> = SmallVec::new();
        for (query, family) in scan.families.iter().enumerate() {
            asked.push(ask(region.store_index(&family.family)?, Some(query)));
        }
        asked.sort_by_key(|asked| asked.store);
        Ok(asked)
    }

    /// Which writes it sees.
    pub fn read_point(&self) -> SequenceId {
        self.read_point
    }

    /// The row that it reads next or is within.
    pub fn row(&self) -> Option<&[u8]> {
        self.has_row.then_some(&self.row[..])
    }

    /// Whether the filter wants nothing more of this region.
    pub fn is_filter_done(&self) -> bool {
        self.progress == Progress::EndedByFilter
    }

    /// Gives the next row, or a part of it, to `sink`. A row of which the filter leaves nothing is a step without cells.
    ///
    /// After an error that [would block](Error::would_block) the same step may be repeated in [`ReadMode::Any`], or in memory
    /// when the block was awaited. What `sink` took in the failed step must be dropped.
    pub fn next_row(&mut self, limits: &Limits, sink: &mut dyn CellSink, mode: ReadMode) -> Result<Step> {
        if self.progress != Progress::Reading {
            return Ok(Step::default());
        }
        self.region.check_serving()?;
        let may_not_begin_anew = self.traits.remembers_rows || self.judged > JUDGED_TWICE_MAX;
        if mode == ReadMode::MemoryOnly
            && (self.traits.is_dear || self.standing.is_some() && may_not_begin_anew)
        {
            return Err(Error::WouldBlock);
        }
        // One that wants nothing from the first is told of the first row all the same, as in HBase.
        let is_begun = !self.row.is_empty();
        if is_begun && self.traits.may_end && self.filter.as_ref().is_some_and(Filter::filter_all_remaining) {
            self.finish();
            self.progress = Progress::EndedByFilter;
            return Ok(Step::default());
        }
        // Only here can a step fail and be done again.
        let as_it_was = if mode == ReadMode::MemoryOnly && self.traits.remembers_rows {
            self.filter.clone()
        } else {
            None
        };
        let mut outcome = self.step(limits, sink, mode);
        if let (Some(filter), Ok(step @ Step { partial: false, .. })) = (&mut self.filter, &mut outcome) {
            // Before it is asked whether it is done: what it counts of a row is of that row.
            filter.reset();
            // Also after the region's last row: of a filter that is done no further region need be asked.
            if self.traits.may_end && filter.filter_all_remaining() {
                // Behind a row that it took away HBase still shows it the next one.
                let is_next = step.more && self.positioned;
                step.rows_filtered += u64::from(is_next && step.rows_filtered > 0 && step.rows_scanned > 0);
                self.finish();
                self.progress = Progress::EndedByFilter;
                step.more = false;
            }
        }
        if outcome.is_err() {
            // The heaps may stand anywhere: the row is begun anew.
            (self.positioned, self.standing, self.judged) = (false, None, 0);
            self.stores.iter_mut().for_each(|store| store.of_row = OfRow::default());
            if as_it_was.is_some() {
                self.filter = as_it_was;
            }
            self.filter.iter_mut().for_each(Filter::reset);
        }
        outcome
    }

    /// The row of a get. Says how many cells were given.
    pub(crate) fn read_only_row(&mut self, mode: ReadMode, sink: &mut dyn CellSink) -> Result<usize> {
        self.reach = Reach::Get;
        let mut counting = CountingSink { count: 0, sink };
        self.next_row(&Limits::NONE, &mut counting, mode)?;
        Ok(counting.count)
    }

    fn finish(&mut self) -> Step {
        self.progress = Progress::Ended;
        self.has_row = false;
        if !self.reach.is_one_row() {
            // Nobody may come back to it for long, and files that are gone shall be gone.
            self.stores.clear();
            self.asked.clear();
        }
        Step::default()
    }

    fn step(&mut self, limits: &Limits, sink: &mut dyn CellSink, mode: ReadMode) -> Result<Step> {
        let options = ReadOptions {
            cache_blocks: self.scan.cache_blocks,
            memory_only: mode == ReadMode::MemoryOnly,
            read_type: self.scan.read_type,
        };
        if self.stores.is_empty() {
            // All or none: which were opened is not asked again.
            self.open_stores(options).inspect_err(|_| self.stores.clear())?;
            let is_plain = self.is_plain();
            self.whole_rows = match &self.filter {
                Some(filter) if is_plain && filter.is_plain() => {
                    WholeRows::Refused { likely: true, passed: false }
                }
                None if is_plain && self.scan.batch.is_none() => WholeRows::Raw,
                _ => WholeRows::Judged,
            };
        }
        for store in &mut self.stores {
            store.heap.set_options(options);
        }
        if !self.positioned {
            self.position()?;
            self.positioned = true;
        }
        if !self.has_row && !self.find_row() {
            return Ok(self.finish());
        }
        match self.whole_rows {
            WholeRows::Judged => {}
            WholeRows::Refused { likely: false, .. } => {}
            WholeRows::Refused { likely: true, passed } => {
                self.whole_rows = WholeRows::Refused { likely: false, passed };
                let rows = self.pass_refused()?;
                let likely = rows > 0 && self.stores.iter().any(|store| store.heap.ran_out());
                self.whole_rows = WholeRows::Refused { likely, passed: rows > 0 };
                if rows > 0 {
                    return Ok(self.run_is_over(rows, rows));
                }
            }
            WholeRows::Raw => {
                let rows = self.give_as_they_lie(limits, sink)?;
                if rows > 0 {
                    return Ok(self.run_is_over(rows, 0));
                }
            }
        }
        let step = self.read_row(limits, sink, mode)?;
        if step.partial {
            return Ok(step);
        }
        // A row that is let through among many that are not: those behind it are likely no others than those before it.
        if let WholeRows::Refused { likely, passed } = &mut self.whole_rows {
            *likely = step.rows_filtered > 0 || std::mem::take(passed);
        }
        (self.has_row, self.given, self.judged) = (false, 0, 0);
        // Nobody needs to ask again only to hear that there is nothing.
        let more = !self.reach.is_one_row()
            && self.leave_row().map(|()| self.find_row()).unwrap_or_else(|_| {
                // The row is judged and given, and stays so; what stands behind it is for the next step to find out.
                self.positioned = false;
                true
            });
        if !more {
            self.finish();
        }
        Ok(Step { more, ..step })
    }

    /// So many rows were passed or given as a whole; the heaps stand behind them.
    fn run_is_over(&mut self, rows: u64, filtered: u64) -> Step {
        self.counted += rows;
        self.has_row = false;
        let more = self.find_row();
        if !more {
            self.finish();
        }
        Step { more, rows_scanned: rows, rows_filtered: filtered, ..Step::default() }
    }

    /// Opens the stores that are asked.
    fn open_stores(&mut self, options: ReadOptions) -> Result<()> {
        let scan = &*self.scan;
        for ScannedStore { store, query, view } in &self.asked {
            let (store, query) = (&self.region.stores[*store], *query);
            let asked = query.map(|query| &scan.families[query]);
            let range = asked.and_then(|asked| asked.time_range).unwrap_or(scan.time_range);
            let heap = store.heap(view, scan, range, self.read_point, options)?;
            let (versions, now) = (scan.max_versions.max(1), self.region.world.now().0);
            // Where it stays: it is long, and a get opens one for every row.
            self.stores.push(StoreScanner {
                heap,
                matcher: Matcher::new(store.scan_info, range, versions, scan.raw, now),
                query,
                closed: false,
                sent: None,
                of_row: OfRow::default(),
                on_demand: is_on_demand(scan, &store.family),
            });
        }
        Ok(())
    }

    /// Stands every heap at the row under way, or at the first one.
    fn position(&mut self) -> Result<()> {
        let fresh = !self.has_row && self.row.is_empty();
        if self.reach.is_one_row() {
            let (scan, region, is_get) = (&*self.scan, &*self.region, self.reach == Reach::Get);
            return self.stores.iter_mut().zip(&self.asked).try_for_each(|(store, asked)| {
                let of = &region.stores[asked.store];
                let qualifiers = store.wanted(scan).filter(|_| !scan.raw);
                let newest_counts = !of.scan_info.new_versions;
                let (row, family) = (&scan.start, &of.family);
                store.heap.seek_row(&Aim { row, family, qualifiers, newest_counts, is_get })
            });
        }
        if self.scan.reversed {
            // The row itself, if it belongs, is the last one before its successor.
            let bound: Option<Vec<u8>> = if fresh {
                match (self.scan.start.is_empty(), self.scan.include_start) {
                    (true, _) => None,
                    (false, true) => successor(&self.scan.start),
                    (false, false) => Some(self.scan.start.to_vec()),
                }
            } else if self.has_row {
                successor(&self.row)
            } else {
                Some(self.row.to_vec())
            };
            let comparator = self.region.comparator;
            let mut stores = self.stores.iter_mut();
            return stores.try_for_each(|store| store.seek_row_before(bound.as_deref(), comparator));
        }
        let key = if fresh {
            if self.scan.include_start {
                KeyBuf::first_on_row(&self.scan.start)
            } else {
                KeyBuf::last_on_row(&self.scan.start)
            }
        } else if self.has_row {
            KeyBuf::first_on_row(&self.row)
        } else {
            KeyBuf::last_on_row(&self.row)
        };
        let comparator = self.region.comparator;
        self.stores.iter_mut().try_for_each(|store| store.seek(&key, comparator))
    }

    /// Finds the next row among the heads; `false` when there is none that belongs.
    fn find_row(&mut self) -> bool {
        let comparator = self.region.comparator;
        let mut next: Option<&[u8]> = None;
        let says_rows = self.stores.iter().filter(|store| !store.on_demand && !store.is_closed());
        for row in says_rows.filter_map(|store| store.heap.peek()).map(Cell::row) {
            let better = next.is_none_or(|best| {
                let order = comparator.compare_rows(row, best);
                if self.scan.reversed { order.is_gt() } else { order.is_lt() }
            });
            if better {
                next = Some(row);
            }
        }
        let Some(next) = next else { return false };
        if !self.scan.stop.is_empty() {
            let order = comparator.compare_rows(next, &self.scan.stop);
            let past = if self.scan.reversed { order.is_lt() } else { order.is_gt() };
            if past || (order.is_eq() && !self.scan.include_stop) {
                return false;
            }
        }
        self.row.clear();
        self.row.extend_from_slice(next);
        self.has_row = true;
        self.given = 0;
        true
    }

    /// Goes behind the row.
    fn leave_row(&mut self) -> Result<()> {
        if self.scan.reversed {
            let comparator = self.region.comparator;
            // A store without the row stands before it already.
            let is_behind = |cell: Cell<'_>| comparator.compare_rows(cell.row(), &self.row).is_ge();
            let moves =
                |store: &StoreScanner| store.of_row.sent.is_some() || store.heap.peek().is_none_or(is_behind);
            let moves: SmallVec<[bool; 4]> = self.stores.iter().map(moves).collect();
            // Of all of them, also when one cannot move.
            self.stores.iter_mut().for_each(StoreScanner::end_row);
            let moving = self.stores.iter_mut().zip(moves).filter(|(_, moves)| *moves);
            return moving
                .map(|(store, _)| store)
                .try_for_each(|store| store.seek_row_before(Some(&self.row), comparator));
        }
        self.stores.iter_mut().for_each(StoreScanner::end_row);
        let row = &self.row[..];
        self.stores.iter_mut().try_for_each(|store| {
            store.heap.pass(|cell| is_same_row(cell.row(), row), |_| KeyBuf::last_on_row(row))
        })
    }
}

/// Reads single rows one after the other, of which the same is asked: what a read costs besides its row is paid once.
///
/// All of them see what was complete when it was made. A block in which several of them lie is looked up once, in whatever
/// order they come: from the second row on, blocks that were looked at are held.
#[derive(Debug)]
pub struct RowReader {
    scanner: RegionScanner<'static>,
    holds_blocks: bool,
}

impl RowReader {
    /// A reader of rows of which `scan`, a get of any row, asks.
    ///
    /// # Panics
    /// When `scan` is no get, or has a filter, which would remember the rows before.
    pub(crate) fn open(region: Arc<Region>, scan: Scan) -> Result<RowReader> {
        let scanner = RegionScanner::open(region, Cow::Owned(scan))?;
        assert!(scanner.reach.is_one_row() && scanner.filter.is_none(), "no plain get: {:?}", scanner.scan);
        Ok(RowReader { scanner, holds_blocks: false })
    }

    /// Reads one row. Says how many cells were given. After [`Error::WouldBlock`] what `sink` took must be forgotten.
    pub fn read(&mut self, row: &Bytes, mode: ReadMode, sink: &mut dyn CellSink) -> Result<usize> {
        let scanner = &mut self.scanner;
        scanner.region.check_get(row)?;
        if !self.holds_blocks && !scanner.stores.is_empty() {
            scanner.stores.iter_mut().for_each(|store| store.heap.hold_blocks());
            self.holds_blocks = true;
        }
        let scan = scanner.scan.to_mut();
        (scan.start, scan.stop) = (row.clone(), row.clone());
        scanner.row.clear();
        (scanner.has_row, scanner.positioned, scanner.progress) = (false, false, Progress::Reading);
        scanner.read_only_row(mode, sink)
    }
}

impl Drop for RegionScanner<'_> {
    fn drop(&mut self) {
        self.region.counters.rows_read(self.counted);
    }
}

impl std::fmt::Debug for RegionScanner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegionScanner")
            .field("region", &self.region)
            .field("row", &self.row.escape_ascii().to_string())
            .field("stores", &self.stores.len())
            .finish_non_exhaustive()
    }
}

struct CountingSink<'a> {
    count: usize,
    sink: &'a mut dyn CellSink,
}

impl CellSink for CountingSink<'_> {
    #[inline]
    fn cell(&mut self, cell: Cell<'_>) {
        self.count += 1;
        self.sink.cell(cell);
    }
}

/// Whether a family waits for what the filter says of the others. Results can show it: a row that has nothing in the
/// others is not met at all.
fn is_on_demand(scan: &Scan, family: &[u8]) -> bool {
    scan.load_families_on_demand != Some(false)
        && scan.filter.as_ref().is_some_and(|filter| !filter.is_family_essential(family))
}

/// The row right after `row`; `None` when there can be none.
fn successor(row: &[u8]) -> Option<Vec<u8>> {
    let mut next = row.to_vec();
    if row.len() < cell::ROW_LENGTH_MAX {
        next.push(0);
        return Some(next);
    }
    // Nothing fits behind a row that is as long as a row can be, so the next one is shorter.
    while next.last() == Some(&0xff) {
        next.pop();
    }
    *next.last_mut()? += 1;
    Some(next)
}
