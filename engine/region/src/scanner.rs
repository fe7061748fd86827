//! Reading rows: the families of a row side by side, in order, judged and given to the caller.
//!
//! A scanner stands at a row, or inside one of which a part was given. Should a block be missing that the caller must
//! not wait for, the row is begun anew at the next call: what was given of it before is counted, judged again, and not
//! given twice.

use std::sync::Arc;

use bytes::Bytes;
use cell::{Cell, KeyBuf, SequenceId};
use filter::{Filter, Transform};
use hfile::ReadOptions;

use crate::heap::Heap;
use crate::matcher::{Matcher, Next, Verdict};
use crate::query::{CellSink, Isolation, Limits, ReadMode, Scan};
use crate::region::Region;
use crate::{Error, Result};

/// What one step of a scanner gave, besides cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Whether there may be more in the region.
    pub more: bool,
    /// Whether the row may go on in the next step.
    pub partial: bool,
    /// Whether the step ended because of [`Limits::bytes`].
    pub size_limit: bool,
    /// Rows that were looked at.
    pub rows_scanned: u64,
    /// Rows that the filter took away.
    pub rows_filtered: u64,
}

/// One family of a scan.
struct StoreScanner {
    family: Bytes,
    heap: Heap,
    matcher: Matcher,
    only: Option<Vec<Bytes>>,
}

/// A walk over the rows of a region.
pub struct RegionScanner {
    region: Arc<Region>,
    scan: Scan,
    filter: Option<Filter>,
    read_point: SequenceId,
    stores: Vec<StoreScanner>,
    /// Whether the heaps stand where they should.
    positioned: bool,
    /// The row that comes next or is under way; empty before the first.
    row: Vec<u8>,
    has_row: bool,
    /// Cells of the row that were given in earlier steps.
    given: usize,
    done: bool,
    filter_done: bool,
    counted: u64,
}

/// Collects the cells of a row until it is certain that they are given.
#[derive(Default)]
struct RowBuffer {
    bytes: Vec<u8>,
    cells: Vec<(usize, usize, SequenceId)>,
}

impl RowBuffer {
    fn push(&mut self, cell: Cell<'_>) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(cell.bytes());
        self.cells.push((at, self.bytes.len(), cell.sequence()));
    }

    fn cells(&self) -> Vec<Cell<'_>> {
        self.cells
            .iter()
            .map(|&(from, to, sequence)| Cell::trusted(&self.bytes[from..to], sequence))
            .collect()
    }
}

impl RegionScanner {
    pub(crate) fn open(region: Arc<Region>, scan: Scan) -> Result<RegionScanner> {
        let read_point = match (scan.isolation, scan.read_point) {
            (Isolation::ReadUncommitted, _) => SequenceId::MAX,
            (Isolation::ReadCommitted, Some(earlier)) => earlier.min(region.mvcc.read_point()),
            (Isolation::ReadCommitted, None) => region.mvcc.read_point(),
        };
        let mut filter = scan.filter.clone();
        if let Some(filter) = &mut filter {
            filter.set_reversed(scan.reversed);
        }
        let scanner = RegionScanner {
            region,
            filter,
            read_point,
            stores: Vec::new(),
            positioned: false,
            row: Vec::new(),
            has_row: false,
            given: 0,
            done: false,
            filter_done: false,
            counted: 0,
            scan,
        };
        scanner.check_families()?;
        Ok(scanner)
    }

    fn check_families(&self) -> Result<()> {
        self.scan.families.iter().try_for_each(|query| self.region.store(&query.family).map(drop))
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
        self.filter_done
    }

    /// Gives the next row, or a part of it, to `sink`. A row of which the filter leaves nothing is a step without cells.
    ///
    /// After [`Error::WouldBlock`] the same step may be tried again in [`ReadMode::Any`]; what `sink` took in the failed
    /// one must be forgotten.
    pub fn next_row(&mut self, limits: &Limits, sink: &mut dyn CellSink, mode: ReadMode) -> Result<Step> {
        if self.done {
            return Ok(Step::default());
        }
        self.region.check_serving()?;
        if self.filter.as_ref().is_some_and(Filter::filter_all_remaining) {
            self.filter_done = true;
            return Ok(self.finish());
        }
        let outcome = self.step(limits, sink, mode);
        if outcome.is_err() {
            // The heaps may stand anywhere: the row is begun anew.
            self.positioned = false;
        }
        outcome
    }

    fn finish(&mut self) -> Step {
        self.done = true;
        self.has_row = false;
        self.stores.clear();
        Step::default()
    }

    fn step(&mut self, limits: &Limits, sink: &mut dyn CellSink, mode: ReadMode) -> Result<Step> {
        let options =
            ReadOptions { cache_blocks: self.scan.cache_blocks, memory_only: mode == ReadMode::MemoryOnly };
        if self.stores.is_empty() {
            self.stores = self.open_stores(options)?;
        }
        for store in &mut self.stores {
            store.heap.set_memory_only(options.memory_only, options.cache_blocks);
        }
        if !self.positioned {
            self.position()?;
            self.positioned = true;
        }
        if !self.has_row {
            if !self.find_row() {
                return Ok(self.finish());
            }
            self.given = 0;
        }
        self.read_row(limits, sink)
    }

    fn open_stores(&self, options: ReadOptions) -> Result<Vec<StoreScanner>> {
        let open = |family: &Bytes, only: Option<Vec<Bytes>>, range: Option<crate::TimeRange>| {
            let store = self.region.store(family)?;
            let range = range.unwrap_or(self.scan.time_range);
            let qualifiers = only.as_deref().filter(|_| !self.scan.raw);
            Ok(StoreScanner {
                family: family.clone(),
                heap: store.heap(&self.scan, range, self.read_point, qualifiers, options)?,
                matcher: Matcher::new(
                    store.keeping.clone(),
                    only.clone(),
                    range,
                    self.scan.max_versions.max(1),
                    self.scan.raw,
                    self.region.world.now().0,
                ),
                only,
            })
        };
        if self.scan.families.is_empty() {
            return self.region.stores().map(|store| open(&store.family, None, None)).collect();
        }
        let mut families: Vec<_> = self.scan.families.iter().collect();
        families.sort_by(|left, right| left.family.cmp(&right.family));
        families
            .into_iter()
            .map(|query| open(&query.family, query.qualifiers.clone(), query.time_range))
            .collect()
    }

    /// Stands every heap at the row under way, or at the first one.
    fn position(&mut self) -> Result<()> {
        let fresh = !self.has_row && self.row.is_empty();
        if self.scan.reversed {
            // The row itself, if it belongs, is the last one before its successor.
            let bound: Option<Vec<u8>> = if fresh {
                match (self.scan.start.is_empty(), self.scan.include_start) {
                    (true, _) => None,
                    (false, true) => Some(successor(&self.scan.start)),
                    (false, false) => Some(self.scan.start.to_vec()),
                }
            } else if self.has_row {
                Some(successor(&self.row))
            } else {
                Some(self.row.clone())
            };
            for store in &mut self.stores {
                store.heap.seek_row_before(bound.as_deref())?;
            }
            return Ok(());
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
        self.stores.iter_mut().try_for_each(|store| store.heap.seek(key.position()))
    }

    /// Finds the next row among the heads; `false` when there is none that belongs.
    fn find_row(&mut self) -> bool {
        let comparator = self.region.comparator;
        let mut next: Option<&[u8]> = None;
        for row in self.stores.iter().filter_map(|store| store.heap.peek()).map(Cell::row) {
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
        let next = next.to_vec();
        self.row = next;
        self.has_row = true;
        true
    }

    fn read_row(&mut self, limits: &Limits, sink: &mut dyn CellSink) -> Result<Step> {
        let mut step = Step { more: true, ..Step::default() };
        let resumed = self.given;
        // Judging begins at the row's start: the heaps are put there when a part was given before.
        if resumed > 0 {
            self.position()?;
        } else {
            step.rows_scanned = 1;
        }
        if let Some(filter) = &mut self.filter {
            filter.reset();
            if filter.filter_row_key(&self.row) {
                step.rows_filtered = 1;
                self.leave_row()?;
                return Ok(step);
            }
        }
        let buffered = self.filter.as_ref().is_some_and(Filter::has_filter_row);
        let mut buffer = RowBuffer::default();
        let batch = self.scan.batch.map_or(usize::MAX, |batch| batch as usize);
        let (mut seen, mut out, mut heap_size) = (0usize, 0usize, 0u64);
        let row_limit = self.region.options.row_size_max;
        let mut cut = false;
        'families: for index in 0..self.stores.len() {
            let (store_limit, store_offset) = (self.scan.store_limit, self.scan.store_offset);
            let mut in_store = 0u32;
            let store = &mut self.stores[index];
            store.matcher.begin_row();
            let mut hint: Option<KeyBuf> = None;
            while let Some(cell) = store.heap.peek().filter(|cell| cell.row() == self.row) {
                let verdict = store.matcher.judge(cell, &mut self.filter);
                let (included, next) = match verdict {
                    Verdict::Include(next) => (true, next),
                    Verdict::Skip(next) => (false, next),
                };
                if included {
                    in_store += 1;
                    let in_window = in_store > store_offset
                        && store_limit.is_none_or(|limit| in_store <= store_offset + limit);
                    if in_window {
                        if seen >= resumed {
                            if out == batch
                                || (heap_size >= limits.bytes && limits.allow_partial && !buffered && out > 0)
                            {
                                step.size_limit = out != batch;
                                cut = true;
                                break 'families;
                            }
                            heap_size += cell.heap_size() as u64;
                            if heap_size > row_limit {
                                return Err(Error::RowTooBig {
                                    limit: row_limit,
                                    row: self.row.escape_ascii().to_string(),
                                });
                            }
                            out += 1;
                            if buffered {
                                give(cell, &self.filter, &mut |cell| buffer.push(cell));
                            } else {
                                give(cell, &self.filter, &mut |cell| sink.cell(cell));
                            }
                        }
                        seen += 1;
                    }
                    if store_limit.is_some_and(|limit| in_store >= store_offset + limit) {
                        let end = KeyBuf::last_on_row(&self.row);
                        store.heap.forward(end.position())?;
                        break;
                    }
                }
                match next {
                    Next::Cell => store.heap.advance()?,
                    Next::Row => {
                        let end = KeyBuf::last_on_row(&self.row);
                        store.heap.forward(end.position())?;
                        break;
                    }
                    Next::Column => {
                        let target = match store.matcher.next_wanted() {
                            Some(qualifier) => KeyBuf::first_on_column(&self.row, &store.family, qualifier),
                            None => KeyBuf::last_on_column(&self.row, &store.family, cell.qualifier()),
                        };
                        if cell_is_before(self.region.comparator, cell, &target) {
                            store.heap.forward(target.position())?;
                        } else {
                            store.heap.advance()?;
                        }
                    }
                    Next::Hint => {
                        hint = self.filter.as_ref().and_then(|filter| filter.next_hint(cell));
                        match &hint {
                            Some(target) if cell_is_before(self.region.comparator, cell, target) => {
                                let target = target.clone();
                                store.heap.forward(target.position())?;
                            }
                            _ => store.heap.advance()?,
                        }
                    }
                }
            }
            // A hint into a later row is one for every family.
            if let Some(target) = hint.filter(|target| target.key().row() != self.row && !self.scan.reversed)
            {
                for store in &mut self.stores {
                    if store
                        .heap
                        .peek()
                        .is_some_and(|cell| cell_is_before(self.region.comparator, cell, &target))
                    {
                        store.heap.forward(target.position())?;
                    }
                }
                break;
            }
        }
        if cut {
            self.given = resumed + out;
            self.positioned = false;
            step.partial = true;
            return Ok(step);
        }
        if let Some(filter) = &mut self.filter {
            if buffered {
                let cells = buffer.cells();
                let mut keep = vec![true; cells.len()];
                filter.filter_row_cells(&cells, &mut keep);
                let dropped = (out > 0 || resumed > 0) && filter.filter_row();
                if dropped {
                    step.rows_filtered = 1;
                } else {
                    for (cell, _) in cells.into_iter().zip(keep).filter(|(_, keep)| *keep) {
                        sink.cell(cell);
                    }
                }
            } else if out == 0 && resumed == 0 {
                step.rows_filtered = 1;
            }
        }
        self.counted += 1;
        self.leave_row()?;
        Ok(step)
    }

    /// Goes behind the row.
    fn leave_row(&mut self) -> Result<()> {
        self.has_row = false;
        self.given = 0;
        if self.scan.reversed {
            for store in &mut self.stores {
                // A store without the row stands before it already.
                if store
                    .heap
                    .peek()
                    .is_none_or(|cell| self.region.comparator.compare_rows(cell.row(), &self.row).is_ge())
                {
                    store.heap.seek_row_before(Some(&self.row))?;
                }
            }
            return Ok(());
        }
        let end = KeyBuf::last_on_row(&self.row);
        for store in &mut self.stores {
            if store.heap.peek().is_some_and(|cell| cell.row() == self.row) {
                store.heap.forward(end.position())?;
            }
        }
        Ok(())
    }
}

impl Drop for RegionScanner {
    fn drop(&mut self) {
        self.region.counters.rows_read(self.counted);
    }
}

impl std::fmt::Debug for RegionScanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegionScanner")
            .field("region", &self.region)
            .field("row", &self.row.escape_ascii().to_string())
            .field("stores", &self.stores.iter().map(|store| &store.only).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

fn cell_is_before(comparator: cell::Comparator, cell: Cell<'_>, target: &KeyBuf) -> bool {
    comparator.compare(cell.into(), target.position()).is_lt()
}

/// The row right after `row`.
fn successor(row: &[u8]) -> Vec<u8> {
    let mut next = row.to_vec();
    next.push(0);
    next
}

/// Gives a cell as the filter wants it shown.
fn give(cell: Cell<'_>, filter: &Option<Filter>, out: &mut dyn FnMut(Cell<'_>)) {
    let value: Option<Vec<u8>> =
        match filter.as_ref().map_or(Transform::Keep, |filter| filter.transform(cell)) {
            Transform::Keep => None,
            Transform::EmptyValue => Some(Vec::new()),
            Transform::LengthValue => Some((cell.value().len() as u32).to_be_bytes().to_vec()),
        };
    let Some(value) = value else { return out(cell) };
    let key = cell.key().bytes();
    let mut bytes = Vec::with_capacity(8 + key.len() + value.len());
    bytes.extend_from_slice(&(key.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&(value.len() as u32).to_be_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(&value);
    out(Cell::trusted(&bytes, cell.sequence()));
}
