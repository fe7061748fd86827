//! Reads rows: merges the families of a row in order, judges each cell, and passes accepted cells to the caller.
//!
//! A scanner is before a row, or inside a row of which it has returned a part. It continues inside that row, so each
//! row is read once, in however many parts. If a block is missing and the caller must not wait for it, the next call
//! begins the row again: it reads and judges the cells already returned, but does not return them twice.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use cell::{Cell, CellSink, Comparator, KeyBuf, SequenceId, is_same_row, string_binary};
use filter::Filter;
use hfile::ReadOptions;
use smallvec::SmallVec;

use crate::heap::{Heap, RowTarget};
use crate::matcher::{Matcher, Wanted};
use crate::mob::values::MobValues;
use crate::query::{Isolation, Limits, ReadMode, Scan};
use crate::region::Region;
use crate::view::View;
use crate::{Error, Result};

mod open;
mod row;
mod state;
mod step_timer;

use state::{FilterTraits, Progress, RowLimit, WholeRows};
pub use step_timer::INLINE_TIME;

/// Maximum number of cells of a row that may be judged again because a block is missing. After this many, the row is
/// continued only for a caller that may wait.
const JUDGED_TWICE_MAX: u64 = 1000;

/// The result of one step of a scanner, besides the cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Whether the region may have more rows for the scan.
    pub more: bool,
    /// Whether the next step may return more cells of the same row.
    pub partial: bool,
    /// Whether the step ended because of [`Limits::bytes`].
    pub size_limit: bool,
    /// Whether the step ended because of [`Limits::deadline`], with cells or without.
    pub time_limit: bool,
    /// Number of rows that were read to their end, as HBase counts them. The row at which the filter ends the scan does
    /// not count; a row with families that were read on demand counts twice.
    pub rows_scanned: u64,
    /// Number of rows that the filter dropped, or that had no cell left to return.
    pub rows_filtered: u64,
}

/// One family of a scan.
struct StoreScanner {
    heap: Heap,
    matcher: Matcher,
    /// Reads values in MOB files; `None` if the store has none, or references are wanted.
    mob: Option<Box<MobValues>>,
    /// The index of the store's family among the scan's families; `None` when the scan names none.
    query: Option<usize>,
    /// Whether the store's cells are read only in rows that the filter has accepted. Such a store does not decide which
    /// rows exist.
    on_demand: bool,
    /// Whether the filter wants no more cells of this store, in the whole scan or in the rest of a row.
    closed: bool,
    /// The key to which the filter's seek hint in an earlier row has sent this store. The filter wants none of the
    /// store's cells before that key; in a reversed scan, none from the key's row on. Boxed because hints are rare and
    /// a key is large.
    sent: Option<Box<KeyBuf>>,
    /// Changes to `closed` and `sent` by the current row. They take effect when the row ends; if the row is begun
    /// again, they are discarded, and the filter makes them again.
    of_row: OfRow,
}

/// Changes that the current row makes to a store; see [`StoreScanner::of_row`].
#[derive(Default)]
struct OfRow {
    closed: bool,
    sent: Option<Box<KeyBuf>>,
}

impl StoreScanner {
    fn wanted<'s>(&self, scan: &'s Scan) -> Wanted<'s> {
        self.query.and_then(|query| scan.families[query].qualifiers.as_deref())
    }

    /// Whether the store is closed, at least for this row.
    fn is_closed(&self) -> bool {
        self.closed || self.of_row.closed
    }

    /// Applies the changes of the finished row to the store.
    fn end_row(&mut self) {
        self.closed |= self.of_row.closed;
        self.of_row.closed = false;
        if self.of_row.sent.is_some() {
            self.sent = self.of_row.sent.take();
        }
    }

    /// Moves to `key`, or to the filter's hint if that is later.
    fn seek(&mut self, key: &KeyBuf, comparator: Comparator) -> Result<()> {
        self.heap.seek(key.position())?;
        match &self.sent {
            Some(sent) => {
                self.heap.skip_while(|cell| sent.is_after(comparator, cell), |_| KeyBuf::clone(sent))
            }
            None => Ok(()),
        }
    }

    /// Moves to the last row before `row`, or before the filter's hint if that is earlier.
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

/// Where a row continues after a part of it was returned.
struct RowPosition {
    /// The index of the store among the scan's stores.
    store: usize,
    /// Cells of this row and store that passed the matcher, before limit and offset.
    included: u32,
}

/// A store that a scan reads.
struct ScannedStore {
    /// The index of the store among the region's stores.
    store: usize,
    /// The index of the store's family among the scan's families; `None` when the scan names none.
    query: Option<usize>,
    view: Arc<View>,
}

/// A read over a range of rows of a region, or over one row.
pub struct RegionScanner<'q> {
    region: Arc<Region>,
    scan: Cow<'q, Scan>,
    row_limit: RowLimit,
    filter: Option<Filter>,
    traits: FilterTraits,
    /// Whether whole rows can be handled without judging each cell.
    whole_rows: WholeRows,
    read_point: SequenceId,
    /// The stores to read, with their views from when the scanner was opened.
    asked: SmallVec<[ScannedStore; 1]>,
    stores: SmallVec<[StoreScanner; 1]>,
    /// Whether the heaps are positioned at the current row.
    positioned: bool,
    /// The next or current row; empty before the first row.
    row: SmallVec<[u8; 64]>,
    has_row: bool,
    /// Number of cells of the row that earlier steps have returned.
    given: usize,
    /// Number of cells of the row that earlier steps have judged.
    judged: u64,
    /// Where the row continues; `None` unless the previous step stopped inside it.
    resume_at: Option<RowPosition>,
    /// The cells of a row that the filter judges as a whole.
    buffer: row::RowBuffer,
    progress: Progress,
    rows_read: u64,
}

impl<'q> RegionScanner<'q> {
    pub(crate) fn open(region: Arc<Region>, scan: Cow<'q, Scan>) -> Result<RegionScanner<'q>> {
        let row_limit = RowLimit::of(&scan);
        RegionScanner::open_as(region, scan, row_limit)
    }

    /// Opens a scanner for the row of a get. If the scan has an earlier read point, the get returns the versions that
    /// are left.
    pub(crate) fn open_get(region: Arc<Region>, scan: &'q Scan) -> Result<RegionScanner<'q>> {
        RegionScanner::open_as(region, Cow::Borrowed(scan), RowLimit::Get)
    }

    fn open_as(region: Arc<Region>, scan: Cow<'q, Scan>, row_limit: RowLimit) -> Result<RegionScanner<'q>> {
        let accepts_gaps = row_limit == RowLimit::Get && scan.read_point.is_some();
        let mut earlier = scan.read_point;
        let (read_point, asked) = loop {
            // The read point is read before the views. So the views contain all writes up to it.
            let read_point = match (scan.isolation, earlier) {
                (Isolation::ReadUncommitted, _) => SequenceId::MAX,
                (Isolation::ReadCommitted, Some(earlier)) => earlier.min(region.mvcc.read_point()),
                (Isolation::ReadCommitted, None) => region.mvcc.read_point(),
            };
            let asked = Self::load_views(&region, &scan)?;
            if accepts_gaps || asked.iter().all(|asked| asked.view.horizon <= read_point) {
                break (read_point, asked);
            }
            // Versions that the earlier read point needs were dropped; perhaps in one family only, which would tear
            // rows apart. So the scan continues at the present read point, which returns whole rows.
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
            resume_at: None,
            whole_rows: WholeRows::Judged,
            buffer: row::RowBuffer::default(),
            progress: Progress::Reading,
            rows_read: 0,
            row_limit,
            scan,
        };
        let stores = &scanner.region.stores;
        let on_demand = |asked: &ScannedStore| is_on_demand(&scanner.scan, &stores[asked.store].family);
        if scanner.scan.reversed && scanner.asked.iter().any(on_demand) {
            return Err(Error::ReversedOnDemand);
        }
        Ok(scanner)
    }

    /// Returns the stores that `scan` reads, in the order of their families, with their current views.
    fn load_views(region: &Region, scan: &Scan) -> Result<SmallVec<[ScannedStore; 1]>> {
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

    /// Returns the sequence id up to which the scanner sees writes.
    pub fn read_point(&self) -> SequenceId {
        self.read_point
    }

    /// Returns the row that the scanner reads next or is inside; `None` before the first step and after the last row.
    pub fn row(&self) -> Option<&[u8]> {
        self.has_row.then_some(&self.row[..])
    }

    /// Whether the filter wants nothing more from this region.
    pub fn is_filter_done(&self) -> bool {
        self.progress == Progress::EndedByFilter
    }

    /// Passes the next row, or a part of it, to `sink`. If the filter drops the row, or after the last row, the step
    /// has no cells.
    ///
    /// After an error that [would block](Error::would_block), the caller must drop the cells that `sink` got in the
    /// failed step. The caller may then repeat the step in [`ReadMode::Any`], or in memory after it has awaited the
    /// block.
    pub fn next_row(&mut self, limits: &Limits, sink: &mut dyn CellSink, mode: ReadMode) -> Result<Step> {
        if self.progress != Progress::Reading {
            return Ok(Step::default());
        }
        self.region.check_serving()?;
        let must_not_restart = self.traits.remembers_rows || self.judged > JUDGED_TWICE_MAX;
        if mode == ReadMode::MemoryOnly
            && (self.traits.is_dear || self.resume_at.is_some() && must_not_restart)
        {
            return Err(Error::WouldBlock);
        }
        // As in HBase, the first row is passed to the filter even if the filter wants no rows from the start.
        let is_begun = !self.row.is_empty();
        if is_begun && self.traits.may_end && self.filter.as_ref().is_some_and(Filter::filter_all_remaining) {
            self.finish();
            self.progress = Progress::EndedByFilter;
            return Ok(Step::default());
        }
        // Only a step in [`ReadMode::MemoryOnly`] can fail because a block is missing, and then be repeated. For that
        // the filter's state is kept.
        let filter_before = if mode == ReadMode::MemoryOnly && self.traits.remembers_rows {
            self.filter.clone()
        } else {
            None
        };
        let mut outcome = self.step(limits, sink, mode);
        if let (Some(filter), Ok(step @ Step { partial: false, .. })) = (&mut self.filter, &mut outcome) {
            // The filter's state belongs to the finished row. It is reset before the filter is asked whether it is
            // done.
            filter.reset();
            // Asked even after the region's last row: if the filter is done, the client need not call the next region.
            if self.traits.may_end && filter.filter_all_remaining() {
                // If the filter has dropped the row, HBase passes it the next row before it asks whether the filter is
                // done. That row counts as filtered.
                let is_next = step.more && self.positioned;
                step.rows_filtered += u64::from(is_next && step.rows_filtered > 0 && step.rows_scanned > 0);
                self.finish();
                self.progress = Progress::EndedByFilter;
                step.more = false;
            }
        }
        if outcome.is_err() {
            // After an error nobody knows where the heaps are. So the row is read again from its start.
            (self.positioned, self.resume_at, self.judged) = (false, None, 0);
            self.stores.iter_mut().for_each(|store| store.of_row = OfRow::default());
            if filter_before.is_some() {
                self.filter = filter_before;
            }
            self.filter.iter_mut().for_each(Filter::reset);
        }
        outcome
    }

    /// Reads the row of a get. Returns the number of cells passed to `sink`.
    pub(crate) fn read_only_row(&mut self, mode: ReadMode, sink: &mut dyn CellSink) -> Result<usize> {
        self.row_limit = RowLimit::Get;
        let mut counting = CountingSink { count: 0, sink };
        self.next_row(&Limits::NONE, &mut counting, mode)?;
        Ok(counting.count)
    }

    fn finish(&mut self) -> Step {
        self.progress = Progress::Ended;
        self.has_row = false;
        if !self.row_limit.is_one_row() {
            // The client may not call again for a long time. The views are dropped, so that files that were replaced
            // meanwhile can be deleted.
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
            // If one store cannot be opened, all are closed, and the next step opens them again.
            self.open_stores(options).inspect_err(|_| self.stores.clear())?;
            let is_plain = self.is_plain();
            self.whole_rows = match &self.filter {
                Some(filter) if is_plain && filter.is_plain() && self.wants_few_columns() => {
                    WholeRows::Refused { likely: true, passed: false }
                }
                None if is_plain && self.scan.batch.is_none() => WholeRows::Raw,
                _ => WholeRows::Judged,
            };
        }
        for store in &mut self.stores {
            store.heap.set_options(options);
            if let Some(mob) = &mut store.mob {
                mob.set_memory_only(options.memory_only);
            }
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
                let rows = self.skip_refused_rows()?;
                let likely = rows > 0 && self.stores.iter().any(|store| store.heap.ran_out());
                self.whole_rows = WholeRows::Refused { likely, passed: rows > 0 };
                if rows > 0 {
                    return Ok(self.end_run(rows, rows));
                }
            }
            WholeRows::Raw => {
                let rows = self.copy_raw_rows(limits, sink)?;
                if rows > 0 {
                    return Ok(self.end_run(rows, 0));
                }
            }
        }
        let step = self.read_row(limits, sink, mode)?;
        if step.partial {
            return Ok(step);
        }
        // After one accepted row among many refused ones the next row is assumed to be refused.
        if let WholeRows::Refused { likely, passed } = &mut self.whole_rows {
            *likely = step.rows_filtered > 0 || std::mem::take(passed);
        }
        (self.has_row, self.given, self.judged) = (false, 0, 0);
        // The next row is searched now. If this was the last row, the client learns it at once, and saves a call.
        let more = !self.row_limit.is_one_row()
            && self.leave_row().map(|()| self.find_row()).unwrap_or_else(|_| {
                // The row was returned, so this step succeeds. The next step finds the error again and reports it.
                self.positioned = false;
                true
            });
        if !more {
            self.finish();
        }
        Ok(Step { more, ..step })
    }

    /// Ends a step that skipped or copied `rows` whole rows. The heaps are after these rows.
    fn end_run(&mut self, rows: u64, filtered: u64) -> Step {
        self.rows_read += rows;
        self.has_row = false;
        let more = self.find_row();
        if !more {
            self.finish();
        }
        Step { more, rows_scanned: rows, rows_filtered: filtered, ..Step::default() }
    }

    /// Opens the scan's stores.
    fn open_stores(&mut self, options: ReadOptions) -> Result<()> {
        let scan = &*self.scan;
        for ScannedStore { store, query, view } in &self.asked {
            let (store, query) = (&self.region.stores[*store], *query);
            let asked = query.map(|query| &scan.families[query]);
            let range = asked.and_then(|asked| asked.time_range).unwrap_or(scan.time_range);
            let (versions, now) = (scan.max_versions.max(1), self.region.world.now().0);
            let heap = store.heap(view, scan, (range, now), self.read_point, options)?;
            // The element is made in place: it is large, and a get makes one for every row.
            self.stores.push(StoreScanner {
                heap,
                matcher: Matcher::new(view.scan_info, range, versions, scan.raw, now),
                mob: (view.may_have_mob_references() && !scan.mob.raw)
                    .then(|| Box::new(MobValues::new(scan.mob, options))),
                query,
                closed: false,
                sent: None,
                of_row: OfRow::default(),
                on_demand: is_on_demand(scan, &store.family),
            });
        }
        Ok(())
    }

    /// Moves every heap to the current row, or to the first one.
    fn position(&mut self) -> Result<()> {
        let fresh = !self.has_row && self.row.is_empty();
        if self.row_limit.is_one_row() {
            let (scan, region, is_get) = (&*self.scan, &*self.region, self.row_limit == RowLimit::Get);
            return self.stores.iter_mut().zip(&self.asked).try_for_each(|(store, asked)| {
                let of = &region.stores[asked.store];
                let qualifiers = store.wanted(scan).filter(|_| !scan.raw);
                let newest_counts = !asked.view.scan_info.new_versions;
                let (row, family) = (&scan.start, &of.family);
                store.heap.seek_row(&RowTarget { row, family, qualifiers, newest_counts, is_get })
            });
        }
        if self.scan.reversed {
            // `seek_row_before` finds the last row before the bound. If the scan may return the start row or the
            // current row itself, the bound is the successor of that row.
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

    /// Finds the next row among the heads of the stores; returns `false` when none is within the scan.
    fn find_row(&mut self) -> bool {
        let comparator = self.region.comparator;
        let mut next: Option<&[u8]> = None;
        let row_sources = self.stores.iter().filter(|store| !store.on_demand && !store.is_closed());
        for row in row_sources.filter_map(|store| store.heap.peek()).map(Cell::row) {
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

    /// Moves the heaps past the current row.
    fn leave_row(&mut self) -> Result<()> {
        if self.scan.reversed {
            let comparator = self.region.comparator;
            // In a reversed scan a store without this row is at a smaller row already, so it is not moved.
            let is_behind = |cell: Cell<'_>| comparator.compare_rows(cell.row(), &self.row).is_ge();
            let moves =
                |store: &StoreScanner| store.of_row.sent.is_some() || store.heap.peek().is_none_or(is_behind);
            let moves: SmallVec<[bool; 4]> = self.stores.iter().map(moves).collect();
            // The row ends in all stores, even if moving one of them fails.
            self.stores.iter_mut().for_each(StoreScanner::end_row);
            let moving = self.stores.iter_mut().zip(moves).filter(|(_, moves)| *moves);
            return moving
                .map(|(store, _)| store)
                .try_for_each(|store| store.seek_row_before(Some(&self.row), comparator));
        }
        self.stores.iter_mut().for_each(StoreScanner::end_row);
        let row = &self.row[..];
        self.stores.iter_mut().try_for_each(|store| {
            store.heap.skip_while(|cell| is_same_row(cell.row(), row), |_| KeyBuf::last_on_row(row))
        })
    }
}

/// Reads single rows one after the other with the same query, so that the read is prepared only once.
///
/// All rows are read at the same read point, that of the reader's creation. From the second row on, the reader keeps
/// blocks that it has looked up, so several rows of one block cost one cache lookup, in any order.
#[derive(Debug)]
pub struct RowReader {
    scanner: RegionScanner<'static>,
    holds_blocks: bool,
}

impl RowReader {
    /// Creates a reader for rows with the query `scan`, which is a get of any row.
    ///
    /// # Panics
    /// If `scan` is not a get, or has a filter. A filter would remember earlier rows.
    pub(crate) fn open(region: Arc<Region>, scan: Scan) -> Result<RowReader> {
        let scanner = RegionScanner::open(region, Cow::Owned(scan))?;
        assert!(
            scanner.row_limit.is_one_row() && scanner.filter.is_none(),
            "a row reader needs a get without a filter: {:?}",
            scanner.scan
        );
        Ok(RowReader { scanner, holds_blocks: false })
    }

    /// Reads one row, and returns the number of cells passed to `sink`. After an error that [would
    /// block](Error::would_block) the caller drops what `sink` has received.
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
        self.region.counters.rows_read(self.rows_read);
    }
}

impl std::fmt::Debug for RegionScanner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegionScanner")
            .field("region", &self.region)
            .field("row", &string_binary(&self.row).to_string())
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
        self.sized_cell(cell, cell.heap_size());
    }

    #[inline]
    fn sized_cell(&mut self, cell: Cell<'_>, heap_size: usize) {
        self.count += 1;
        self.sink.sized_cell(cell, heap_size);
    }
}

/// Whether a family is read only in rows that the filter accepts by its essential families. This affects results: a row
/// without cells in the essential families is not returned.
fn is_on_demand(scan: &Scan, family: &[u8]) -> bool {
    scan.load_families_on_demand != Some(false)
        && scan.filter.as_ref().is_some_and(|filter| !filter.is_family_essential(family))
}

/// Returns the row right after `row` in order; `None` when `row` is the greatest possible.
fn successor(row: &[u8]) -> Option<Vec<u8>> {
    let mut next = row.to_vec();
    if row.len() < cell::ROW_LENGTH_MAX {
        next.push(0);
        return Some(next);
    }
    // `row` cannot be made longer, so its successor is shorter.
    while next.last() == Some(&0xff) {
        next.pop();
    }
    *next.last_mut()? += 1;
    Some(next)
}
