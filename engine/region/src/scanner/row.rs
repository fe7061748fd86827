//! Reads one row: for each family in turn, judges and returns cells, until the row or the step ends.

use std::cell::Cell as Slot;
use std::ops::ControlFlow;

use cell::{Cell, CellSink, CellType, Comparator, KeyBuf, SequenceId, is_same, is_same_row, string_binary};
use filter::{Filter, Refusal, Transform};
use hfile::{CopyLimits, Refused};

use super::state::FilterTraits;
use super::step_timer::StepTimer;
use super::{RegionScanner, RowPosition, Step};
use crate::matcher::{MatchCode, Next};
use crate::mob_format::reference::is_reference;
use crate::query::{Limits, ReadMode};
use crate::{Error, Result};

/// Collects the cells of a row until it is certain that they are returned. It is reused for all rows of a scan.
#[derive(Default)]
pub(super) struct RowBuffer {
    bytes: Vec<u8>,
    cells: Vec<BufferedCell>,
    /// Scratch space for a cell that is returned with a changed value.
    changed: Vec<u8>,
}

/// A cell of a [`RowBuffer`], which has its bytes from `start` to `end`.
struct BufferedCell {
    start: usize,
    end: usize,
    sequence: SequenceId,
    /// The size of the cell that counts in size limits, in bytes.
    heap_size: usize,
}

impl BufferedCell {
    fn view<'a>(&self, bytes: &'a [u8]) -> Cell<'a> {
        Cell::trusted(&bytes[self.start..self.end], self.sequence)
    }
}

/// Maximum size in bytes of a buffer that is kept for the next row.
const KEPT_BYTES_MAX: usize = 1 << 20;

impl RowBuffer {
    /// Removes the row's cells, and frees the memory if the row was large.
    fn clear(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            *self = RowBuffer::default();
        }
        self.bytes.clear();
        self.cells.clear();
    }

    fn cells(&self) -> Vec<Cell<'_>> {
        self.cells.iter().map(|cell| cell.view(&self.bytes)).collect()
    }

    fn sort(&mut self, comparator: Comparator) {
        let RowBuffer { bytes, cells, .. } = self;
        cells.sort_by(|left, right| comparator.compare(left.view(bytes).into(), right.view(bytes).into()));
    }
}

impl CellSink for RowBuffer {
    fn cell(&mut self, cell: Cell<'_>) {
        self.sized_cell(cell, cell.heap_size());
    }

    fn sized_cell(&mut self, cell: Cell<'_>, heap_size: usize) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(cell.bytes());
        self.cells.push(BufferedCell { start, end: self.bytes.len(), sequence: cell.sequence(), heap_size });
    }
}

/// Maximum number of wanted columns with which a skipped cell is compared. With more, rows are not skipped: the matcher
/// goes through the columns of a row only once.
const SKIPPED_COLUMNS_MAX: usize = 64;

/// The limits of a step within one row, and the number of cells returned so far.
struct RowPart<'a> {
    sink: &'a mut dyn CellSink,
    /// Whether cells are buffered because the filter may still drop the whole row.
    buffered: bool,
    buffer: RowBuffer,
    limits: &'a Limits,
    timer: StepTimer,
    batch: usize,
    row_bytes_max: u64,
    /// Number of cells that earlier steps have returned, if the row is read again from its start. They are not returned
    /// again.
    resumed: usize,
    /// Number of cells of the row that have passed the matcher since the row was begun.
    seen: usize,
    given: usize,
    heap_size: u64,
    is_cut_by_size: bool,
    is_cut_by_time: bool,
}

impl<'a> RowPart<'a> {
    /// Creates the state for a whole row without limits, whose cells go to `sink`.
    fn new(sink: &'a mut dyn CellSink, limits: &'a Limits, timer: StepTimer) -> RowPart<'a> {
        RowPart {
            sink,
            buffered: false,
            buffer: RowBuffer::default(),
            limits,
            timer,
            batch: usize::MAX,
            row_bytes_max: u64::MAX,
            resumed: 0,
            seen: 0,
            given: 0,
            heap_size: 0,
            is_cut_by_size: false,
            is_cut_by_time: false,
        }
    }

    /// Whether the next cell is returned with its value.
    fn returns_value(&self, filter: &Option<Filter>) -> bool {
        self.seen >= self.resumed
            && filter.as_ref().is_none_or(|filter| matches!(filter.transform(), Transform::Keep))
    }

    /// Passes a cell of the row to the sink or the buffer, unless an earlier step has returned it. Breaks when this
    /// cell, of `heap_size` bytes, reaches a limit of the step.
    #[inline]
    fn add(&mut self, cell: Cell<'_>, heap_size: usize, filter: &Option<Filter>) -> Result<ControlFlow<()>> {
        self.seen += 1;
        if self.seen <= self.resumed {
            return Ok(ControlFlow::Continue(()));
        }
        self.heap_size += heap_size as u64;
        if self.heap_size > self.row_bytes_max {
            let row = string_binary(cell.row()).to_string();
            return Err(Error::RowTooBig { limit: self.row_bytes_max, row });
        }
        self.given += 1;
        match filter.as_ref().map_or(Transform::Keep, Filter::transform) {
            Transform::Keep if self.buffered => self.buffer.sized_cell(cell, heap_size),
            Transform::Keep => self.sink.sized_cell(cell, heap_size),
            Transform::EmptyValue => self.add_with_value(cell, b""),
            Transform::LengthValue => {
                self.add_with_value(cell, &(cell.value().len() as u32).to_be_bytes());
            }
            Transform::ThisLengthValue(length) => self.add_with_value(cell, &length.to_be_bytes()),
        }
        let is_full = self.given >= self.batch;
        self.is_cut_by_size =
            !is_full && self.heap_size >= self.limits.bytes && self.limits.allow_partial && !self.buffered;
        Ok(if is_full || self.is_cut_by_size { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// Adds `cell` to the row, with `value` in place of its own value.
    fn add_with_value(&mut self, cell: Cell<'_>, value: &[u8]) {
        let key = cell.key().bytes();
        let mut bytes = std::mem::take(&mut self.buffer.changed);
        bytes.clear();
        bytes.extend_from_slice(&(key.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&(value.len() as u32).to_be_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        let changed = Cell::trusted(&bytes, cell.sequence());
        if self.buffered {
            self.buffer.sized_cell(changed, changed.heap_size());
        } else {
            self.sink.sized_cell(changed, changed.heap_size());
        }
        self.buffer.changed = bytes;
    }
}

/// How reading one family ended.
enum FamilyEnd {
    /// The family has no more cells of the row.
    Family,
    /// The filter wants nothing more at all.
    Scan,
    /// The rest of the row is left to the next step. `included` cells of the family have passed the matcher.
    Cut { included: u32 },
}

impl RegionScanner<'_> {
    /// Reads the current row, or as much of its rest as the limits allow.
    pub(super) fn read_row(
        &mut self,
        limits: &Limits,
        sink: &mut dyn CellSink,
        mode: ReadMode,
    ) -> Result<Step> {
        let mut step = Step { more: true, ..Step::default() };
        let resume_at = self.resume_at.take();
        if resume_at.is_none()
            && let Some(filter) = &mut self.filter
            && filter.filter_row_key(&self.row)
        {
            step.rows_filtered = 1;
            if let Some(failure) = filter.failure() {
                return Err(Error::Filter(failure));
            }
            if !filter.filter_all_remaining() {
                step.rows_scanned = 1;
                if filter.remembers_cells() {
                    self.show_dropped_row()?;
                }
            }
            return Ok(step);
        }
        let mut part = RowPart {
            buffered: self.traits.judges_rows,
            buffer: std::mem::take(&mut self.buffer),
            batch: self.scan.batch.map_or(usize::MAX, |batch| batch as usize),
            row_bytes_max: self.region.options.row_size_max,
            resumed: if resume_at.is_none() { self.given } else { 0 },
            ..RowPart::new(
                sink,
                limits,
                StepTimer::new(limits, mode, self.traits.judges_rows, self.traits.is_dear),
            )
        };
        for index in resume_at.as_ref().map_or(0, |resume_at| resume_at.store)..self.stores.len() {
            if self.stores[index].on_demand || self.stores[index].is_closed() {
                continue;
            }
            let earlier = resume_at.as_ref().filter(|resume_at| resume_at.store == index);
            match self.read_family(index, earlier.map(|resume_at| resume_at.included), &mut part)? {
                FamilyEnd::Family => {}
                FamilyEnd::Scan => {
                    // As in HBase, this family and all later ones that have cells in this row are closed. The other
                    // families continue, if the filter does.
                    let row = &self.row[..];
                    self.stores[index].of_row.closed = true;
                    for store in &mut self.stores[index..] {
                        store.of_row.closed |= store.heap.peek().is_some_and(|cell| cell.row() == row);
                    }
                    break;
                }
                FamilyEnd::Cut { included } => {
                    self.check_filter()?;
                    self.given += part.given;
                    self.judged += part.timer.judged();
                    self.resume_at = Some(RowPosition { store: index, included });
                    (step.partial, step.size_limit) = (true, part.is_cut_by_size);
                    step.time_limit = part.is_cut_by_time;
                    self.buffer = part.buffer;
                    self.buffer.clear();
                    return Ok(step);
                }
            }
        }
        self.check_filter()?;
        let is_dropped = match &mut self.filter {
            Some(filter) if part.buffered => !judge_row(filter, &mut part.buffer),
            _ => self.given == 0 && part.given == 0,
        };
        if part.buffered {
            self.check_filter()?;
        }
        step.rows_scanned = 1;
        if !is_dropped && self.stores.iter().any(|store| store.on_demand) {
            step.rows_scanned += u64::from(self.read_families_on_demand(&mut part)?);
        }
        // The row is dropped, too, if the filter has dropped all cells of the essential families and the other families
        // have none in this row.
        let is_dropped = is_dropped || part.buffered && part.buffer.cells.is_empty();
        if part.buffered && !is_dropped {
            for cell in &part.buffer.cells {
                part.sink.sized_cell(cell.view(&part.buffer.bytes), cell.heap_size);
            }
        }
        // A row counts as filtered also if an earlier step has returned its last cell.
        step.rows_filtered = u64::from(is_dropped || !part.buffered && part.given == 0);
        self.rows_read += 1;
        self.buffer = part.buffer;
        self.buffer.clear();
        Ok(step)
    }

    /// Whether nothing but the filter, deletes and the number of versions decides about a cell. If so, rows may be
    /// [skipped](RegionScanner::skip_refused_rows) or [copied](RegionScanner::copy_raw_rows) whole.
    pub(super) fn is_plain(&self) -> bool {
        let (scan, [asked], [store]) = (&*self.scan, &self.asked[..], &self.stores[..]) else { return false };
        let scan_info = &asked.view.scan_info;
        let range = asked.query.and_then(|query| scan.families[query].time_range).unwrap_or(scan.time_range);
        !(self.row_limit.is_one_row() || scan.reversed || scan.raw || self.traits.is_dear || store.on_demand)
            && store.mob.is_none()
            && !scan.mob.references_only
            && (scan.store_limit, scan.store_offset) == (None, 0)
            && range.is_all()
            && scan_info.ttl.is_none()
            && !scan_info.new_versions
    }

    /// Whether the scan names so few columns that rows may be [skipped](RegionScanner::skip_refused_rows).
    pub(super) fn wants_few_columns(&self) -> bool {
        let wanted = |store: &super::StoreScanner| store.wanted(&self.scan).map_or(0, <[_]>::len);
        self.stores.iter().all(|store| wanted(store) <= SKIPPED_COLUMNS_MAX)
    }

    /// Copies the current row and following ones to `sink` while they are raw rows, which need no matcher. Most rows of
    /// most scans are raw. Stops before a row that would exceed a limit. Returns the number of copied rows.
    pub(super) fn copy_raw_rows(&mut self, limits: &Limits, sink: &mut dyn CellSink) -> Result<u64> {
        let (scan, [store]) = (&*self.scan, &mut self.stores[..]) else { return Ok(0) };
        if self.given > 0 || self.resume_at.is_some() || store.is_closed() {
            return Ok(0);
        }
        let wanted = store.wanted(scan);
        let most =
            CopyLimits { rows: limits.rows, heap_size: limits.bytes.min(self.region.options.row_size_max) };
        store.heap.copy_rows(scan.rows_end(), most, wanted, sink)
    }

    /// Skips the current row and following ones while the filter refuses them, which are most rows in a search with few
    /// hits. Returns their number. A skipped row of 1 KB costs 40 to 55 ns instead of 160 to 180.
    ///
    /// Stops at a delete marker, which must be judged together with the cells that it masks. Stops at a cell that the
    /// filter would accept, because it may be a version too many. Also tests cells that the matcher would hide from the
    /// filter; if the filter refuses one of those, no result changes.
    pub(super) fn skip_refused_rows(&mut self) -> Result<u64> {
        let (scan, Some(filter), [store]) = (&*self.scan, &self.filter, &mut self.stores[..]) else {
            return Ok(0);
        };
        if self.given > 0 || self.resume_at.is_some() || store.closed {
            return Ok(0);
        }
        let wanted = store.query.and_then(|query| scan.families[query].qualifiers.as_deref());
        let is_wanted = |cell: Cell<'_>| {
            wanted.is_none_or(|wanted| wanted.iter().any(|qualifier| is_same(qualifier, cell.qualifier())))
        };
        // A row that is too big must cause an error when it is judged, even if the filter would drop it by a later
        // cell. Sizes are summed over all rows of the block, which is stricter than per row, and simpler. 100 bytes are
        // the most by which the size that counts for a cell of a file exceeds the cell's own bytes.
        let (undecided, row_size_max) = (Slot::new(0), self.region.options.row_size_max);
        let may_be_too_big = |cell: Cell<'_>| {
            undecided.set(undecided.get() + cell.bytes().len() as u64 + 100);
            undecided.get() > row_size_max
        };
        store.heap.skip_rows(scan.rows_end(), |cell| match filter.refusal(cell) {
            _ if cell.key().type_code() != CellType::Put.code() => Refused::No,
            Refusal::Cell => Refused::Cell,
            // A filter does not see columns that the scan does not name.
            _ if !is_wanted(cell) => Refused::Cell,
            Refusal::Undecided if may_be_too_big(cell) => Refused::No,
            Refusal::Undecided => Refused::Undecided,
            Refusal::Row => Refused::Row,
            Refusal::None => Refused::No,
        })
    }

    /// Returns the error of a filter that could not judge a cell.
    fn check_filter(&mut self) -> Result<()> {
        match self.filter.as_mut().and_then(Filter::failure) {
            Some(failure) => Err(Error::Filter(failure)),
            None => Ok(()),
        }
    }

    /// Reads the families that the filter does not need, of a row that the filter accepted. Returns whether they have
    /// the row.
    fn read_families_on_demand(&mut self, part: &mut RowPart<'_>) -> Result<bool> {
        let mut any = false;
        for index in 0..self.stores.len() {
            if !self.stores[index].on_demand {
                continue;
            }
            let (comparator, row) = (self.region.comparator, &self.row[..]);
            let heap = &mut self.stores[index].heap;
            heap.skip_while(
                |cell| comparator.compare_rows(cell.row(), row).is_lt(),
                |_| KeyBuf::first_on_row(row),
            )?;
            any |= heap.peek().is_some_and(|cell| is_same_row(cell.row(), row));
            if !matches!(self.read_family(index, None, part)?, FamilyEnd::Family) {
                break;
            }
        }
        part.buffer.sort(self.region.comparator);
        Ok(any)
    }

    /// Passes the filter the cells of a row that it dropped by the row key, and returns none of them.
    fn show_dropped_row(&mut self) -> Result<()> {
        let mut discarded = RowBuffer::default();
        let timer = StepTimer::new(&Limits::NONE, ReadMode::Any, true, false);
        let mut part = RowPart { resumed: usize::MAX, ..RowPart::new(&mut discarded, &Limits::NONE, timer) };
        for index in 0..self.stores.len() {
            if !matches!(self.read_family(index, None, &mut part)?, FamilyEnd::Family) {
                break;
            }
        }
        Ok(())
    }

    /// Reads a family's cells of the row, or the cells after the `earlier` ones that have already passed the matcher.
    fn read_family(
        &mut self,
        index: usize,
        earlier: Option<u32>,
        part: &mut RowPart<'_>,
    ) -> Result<FamilyEnd> {
        let RegionScanner { region, scan, filter, traits, asked, stores, row, row_limit, .. } = self;
        let FilterTraits { may_end, gives_values, .. } = *traits;
        let is_one_row = row_limit.is_one_row();
        let (comparator, row) = (region.comparator, &row[..]);
        let (of, store) = (asked[index].store, &mut stores[index]);
        // As in HBase, families before the first one with MOB files return all their cells even if only references are
        // wanted.
        let references_only = scan.mob.references_only
            && asked[..=index].iter().any(|asked| asked.view.may_have_mob_references());
        let wanted = store.wanted(scan);
        let offset = scan.store_offset;
        // The limit is tested after a cell was returned, so a limit of 0 returns one cell, as in HBase.
        let last = scan.store_limit.map_or(u32::MAX, |limit| offset.saturating_add(limit.max(1)));
        let mut included = earlier.unwrap_or(0);
        if earlier.is_none() {
            store.matcher.begin_row();
        }
        while let Some(cell) = store.heap.peek().filter(|cell| is_same_row(cell.row(), row)) {
            if may_end && filter.as_ref().is_some_and(Filter::filter_all_remaining) {
                return Ok(FamilyEnd::Scan);
            }
            let mut is_full = false;
            let is_due = part.timer.count(cell);
            let next = match store.matcher.judge(cell, wanted, filter) {
                MatchCode::Skip(next) => next,
                MatchCode::Include(next) if references_only && !is_reference(cell) => next,
                MatchCode::Include(next) => {
                    included += 1;
                    if gives_values && !is_one_row {
                        store.heap.fetch_ahead();
                    }
                    is_full = included > offset
                        && included <= last
                        && match &mut store.mob {
                            Some(mob) if part.returns_value(filter) => {
                                // The filter has judged the reference and not the value, as in HBase.
                                let value = mob.value_of(region, &region.stores[of], cell)?;
                                part.add(value, value.heap_size(), filter)?.is_break()
                            }
                            _ => part.add(cell, store.heap.heap_size(cell), filter)?.is_break(),
                        };
                    if included >= last { Next::Row } else { next }
                }
            };
            match next {
                Next::Cell => store.heap.advance()?,
                // If no more cells fit, older versions of this column count as the rest of the row, so the scanner
                // stops at them.
                Next::Version if is_full => store.heap.advance()?,
                // A read of one row needs no more cells after these, so nothing is skipped.
                Next::Row if is_one_row && !is_full => {}
                Next::Row => {
                    store.heap.skip_on(|cell| is_same_row(cell.row(), row), |_| KeyBuf::last_on_row(row))?;
                }
                // Markers of the whole family lie among the versions of the column with the empty name, so none of its
                // cells can be skipped unseen.
                Next::Column | Next::Version if cell.qualifier().is_empty() => store.heap.advance()?,
                Next::Column | Next::Version => match store.matcher.next_wanted(wanted) {
                    Some(qualifier) => {
                        store.heap.skip_while(
                            |cell| is_same_row(cell.row(), row) && cell.qualifier() < qualifier,
                            |cell| KeyBuf::first_on_column(row, cell.family(), qualifier),
                        )?;
                    }
                    None => {
                        let column = store.matcher.column();
                        store.heap.skip_on(
                            |cell| is_same_row(cell.row(), row) && cell.qualifier() == column,
                            |cell| KeyBuf::last_on_column(row, cell.family(), column),
                        )?;
                    }
                },
                Next::Hint => match filter.as_mut().and_then(|filter| filter.next_hint(cell)) {
                    // The hint is used for this family only, even if it names a later row. A reversed scan does not use
                    // it here, because it does not move forward within a row.
                    Some(target) if target.is_after(comparator, cell) && !scan.reversed => {
                        if !is_one_row && target.key().row() != row {
                            store.of_row.sent = Some(Box::new(target.clone()));
                        }
                        store
                            .heap
                            .skip_while(|cell| target.is_after(comparator, cell), |_| target.clone())?;
                    }
                    // In a reversed scan the hint names a row. The scanner moves to that row or, if it does not exist,
                    // to the greatest smaller row.
                    Some(target)
                        if scan.reversed && comparator.compare_rows(target.key().row(), row).is_lt() =>
                    {
                        let bound = super::successor(target.key().row());
                        store.of_row.sent = bound.map(|row| Box::new(KeyBuf::first_on_row(&row)));
                        store.heap.skip_while(|cell| cell.row() == row, |_| KeyBuf::last_on_row(row))?;
                    }
                    _ => store.heap.advance()?,
                },
            }
            if is_full {
                let goes_on = stores[index..]
                    .iter()
                    .any(|store| store.heap.peek().is_some_and(|cell| is_same_row(cell.row(), row)));
                if goes_on && part.buffered {
                    return Err(Error::FilterNeedsWholeRows);
                }
                return Ok(if goes_on { FamilyEnd::Cut { included } } else { FamilyEnd::Family });
            }
            if next == Next::Row {
                break;
            }
            // The step does not end while it passes cells that an earlier step has returned, nor at a cell after which
            // the filter ends the row.
            if is_due
                && part.timer.is_expired(region.world.moment())?
                && part.seen >= part.resumed
                && !(may_end && filter.as_ref().is_some_and(Filter::filter_all_remaining))
            {
                part.is_cut_by_time = true;
                return Ok(FamilyEnd::Cut { included });
            }
        }
        // As in HBase, the filter is asked after the last cell of the row whether it is done, unless the family's limit
        // ended the row.
        let is_done = included < last && may_end && filter.as_ref().is_some_and(Filter::filter_all_remaining);
        Ok(if is_done { FamilyEnd::Scan } else { FamilyEnd::Family })
    }
}

/// Lets the filter judge the whole row, and keeps the cells that it accepts. Returns `false` when the row is dropped.
/// If only all of its cells are dropped, returns `true`: HBase still reads the families that the filter does not need.
fn judge_row(filter: &mut Filter, buffer: &mut RowBuffer) -> bool {
    if buffer.cells.is_empty() {
        return false;
    }
    let mut keep = vec![true; buffer.cells.len()];
    filter.filter_row_cells(&buffer.cells(), &mut keep);
    // As in HBase, `filter_row` is not called if no cell of the row is left.
    if keep.contains(&true) && filter.filter_row() {
        return false;
    }
    let mut keep = keep.into_iter();
    buffer.cells.retain(|_| keep.next().unwrap_or(true));
    true
}
