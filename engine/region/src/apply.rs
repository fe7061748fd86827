//! Applies mutations to the log and the memstore.
//!
//! 1. Each mutation is checked: row, families, sizes, timestamps. A mutation that fails does not affect the others.
//! 2. The row locks of all remaining mutations are taken.
//! 3. "Latest" timestamps become the clock's time. A delete of the newest version looks that version up.
//! 4. Under the region's write lock, all of them get the next sequence id. Those that are logged go into the log's
//!    buffer, then all go into the memstore.
//! 5. The locks are released. The caller waits for the log by [`Pending`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use cell::block::split_cell;
use cell::{Cell, CellBlock, CellSink, CellType, SequenceId, Timestamp, string_binary};
use env::WallTime;
use proto::descriptor::Durability as TableDurability;

use crate::mvcc::Awaits;
use crate::pending::Pending;
use crate::query::{FamilyQuery, Isolation, ReadMode, Scan, TimeRange};
use crate::region::{Region, WriteState};
use crate::repeats::without_repeats;
use crate::{Busy, Error, Result};

/// The kind of a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MutationKind {
    /// Sets the values of columns.
    Put,
    /// Deletes cells, by writing delete markers.
    Delete,
    /// Adds to the 64-bit numbers in columns.
    Increment,
    /// Appends to the values in columns.
    Append,
}

/// How durable a write must be before it is acknowledged. Apart from `UseDefault`, the variants are ordered from weak
/// to strong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// The durability of the table; [`Durability::Sync`] if the table sets none.
    #[default]
    UseDefault,
    /// The write is not logged, so a crash loses it unless it was flushed.
    Skip,
    /// The write is acknowledged when it is in the log's buffer. It is written and synced later, so a crash may lose
    /// it.
    Async,
    /// The write is acknowledged when the log has passed it to the operating system, or has synced it if the server is
    /// configured to sync (`hbase.wal.hsync`).
    Sync,
    /// The write is acknowledged when the log has synced it to the disk.
    Fsync,
}

/// Changes to one row.
#[derive(Clone, Debug)]
pub struct Mutation {
    /// The kind of the mutation.
    pub kind: MutationKind,
    /// The row that the mutation changes.
    pub row: Bytes,
    /// The cells of the mutation, all of its row. [`Timestamp::LATEST`] stands for the server's time. In a delete of
    /// one version it stands for the timestamp of the newest version, or for the server's time if the column has no
    /// version.
    pub cells: CellBlock,
    /// How durable the mutation must be.
    pub durability: Durability,
    /// The versions that an increment or append reads; `None` for all.
    pub time_range: Option<TimeRange>,
    /// Whether an increment or append returns the new cells.
    pub return_results: bool,
    /// The nonce group and the nonce of the client, which the log records.
    pub nonce: Option<(u64, u64)>,
}

/// The result of a batch.
#[derive(Debug)]
pub struct BatchOutcome {
    /// The result of each mutation, in order.
    pub outcomes: Vec<Result<()>>,
    /// Resolves when the successful mutations are durable and visible.
    pub pending: Pending,
}

/// A list of edits: atomic writes with final timestamps, in the form in which they go into the log and the memstore. An
/// edit has the cells of one row, or of several rows that are written together. All edits share one buffer.
#[derive(Default)]
pub(crate) struct Edits {
    /// The cells, each as `length 4B · cell`.
    bytes: Vec<u8>,
    edits: Vec<Edit>,
}

struct Edit {
    /// Where the edit's cells end in the buffer; they begin where the previous edit ends.
    end: usize,
    durability: Durability,
    nonce: Option<(u64, u64)>,
}

impl Edits {
    pub(crate) fn with_capacity(bytes: usize, edits: usize) -> Edits {
        Edits { bytes: Vec::with_capacity(bytes), edits: Vec::with_capacity(edits) }
    }

    fn end(&self) -> usize {
        self.edits.last().map_or(0, |edit| edit.end)
    }

    /// Returns the buffer, to which the caller appends the cells of the next edit.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Drops the cells that were appended since the last edit was made.
    fn undo(&mut self) {
        self.bytes.truncate(self.end());
    }

    /// Makes the cells that were appended since the last edit into an edit, if there are any.
    pub(crate) fn make(
        &mut self,
        durability: Durability,
        nonce: Option<(u64, u64)>,
        comparator: cell::Comparator,
    ) {
        let from = self.end();
        if from == self.bytes.len() {
            return;
        }
        if let Some(once) = without_repeats(&self.bytes[from..], comparator) {
            self.bytes.truncate(from);
            self.bytes.extend_from_slice(&once);
        }
        self.edits.push(Edit { end: self.bytes.len(), durability, nonce });
    }

    /// Merges all edits of each row into one. Needed because all edits get the same sequence id, which does not say
    /// which of two cells with one key is the later one; the later one must win.
    fn with_each_row_once(&self, region: &Region) -> Edits {
        fn row(cells: &[u8]) -> &[u8] {
            split_cell(cells).map_or(&[], |(cell, _)| Cell::trusted(cell, SequenceId::ZERO).row())
        }
        let mut ordered: Vec<(&Edit, &[u8])> = self.iter().collect();
        ordered.sort_by(|(_, left), (_, right)| row(left).cmp(row(right)));
        let mut once = Edits::with_capacity(self.bytes.len(), self.edits.len());
        for same in ordered.chunk_by(|(_, left), (_, right)| row(left) == row(right)) {
            let mut durability = Durability::Skip;
            for (edit, cells) in same {
                durability = durability.max(region.strength(edit.durability));
                once.bytes.extend_from_slice(cells);
            }
            once.make(durability, same.iter().find_map(|(edit, _)| edit.nonce), region.comparator);
        }
        once
    }

    /// Iterates over the edits with their cells.
    fn iter(&self) -> impl Iterator<Item = (&Edit, &[u8])> {
        let mut from = 0;
        self.edits.iter().map(move |edit| {
            let cells = &self.bytes[std::mem::replace(&mut from, edit.end)..edit.end];
            (edit, cells)
        })
    }
}

impl Region {
    /// Returns a future that resolves when all earlier writes are durable and visible.
    pub fn settled(self: &Arc<Self>) -> Pending {
        Pending::for_reading(self)
    }

    /// Applies puts and deletes, each row atomically, but not all rows together. After [`Error::WouldBlock`] none was
    /// applied.
    pub fn apply(self: &Arc<Self>, mutations: &[Mutation], mode: ReadMode) -> Result<BatchOutcome> {
        self.check_writable()?;
        let mut outcomes: Vec<Result<()>> =
            mutations.iter().map(|mutation| self.check_mutation(mutation)).collect();
        let good = |outcomes: &[Result<()>]| -> Vec<usize> {
            outcomes
                .iter()
                .enumerate()
                .filter(|(_, outcome)| outcome.is_ok())
                .map(|(index, _)| index)
                .collect()
        };
        let accepted = good(&outcomes);
        let chosen = accepted.iter().map(|&index| &mutations[index]);
        let locks = self.lock_rows(chosen.clone(), std::iter::empty(), mode)?;
        let now = self.world.now();
        let bytes = accepted.iter().map(|&index| mutations[index].cells.bytes().len()).sum();
        let mut edits = Edits::with_capacity(bytes, accepted.len());
        for &index in &accepted {
            let mutation = &mutations[index];
            match self.prepare(mutation, self.stamp_of(mutation, now), mode, edits.bytes()) {
                Ok(()) => edits.make(mutation.durability, mutation.nonce, self.comparator),
                Err(error) if error.would_block() => return Err(error),
                Err(error) => {
                    edits.undo();
                    outcomes[index] = Err(error);
                }
            }
        }
        self.note_deletes(chosen, now);
        if !locks.is_each_row_once {
            edits = edits.with_each_row_once(self);
        }
        let pending = self.write(&edits, now)?;
        drop(locks);
        Ok(BatchOutcome { outcomes, pending })
    }

    /// Applies a put whose cells are all values, like [`Region::mutate_row`]. If nothing else owns the memory of its
    /// cells, the timestamps are written into that memory, and the put is not copied before it goes into the log. For a
    /// large value this halves the memory. May block.
    pub fn put_in_place(self: &Arc<Self>, mutation: Mutation) -> Result<Pending> {
        self.check_writable()?;
        self.check_mutation(&mutation)?;
        let one = std::iter::once(&mutation);
        let locks = self.lock_rows(one, std::iter::empty(), ReadMode::Any)?;
        let clock = self.world.now();
        let stamp = Timestamp(self.stamp_of(&mutation, clock).0);
        self.note_stamp(&mutation.row, stamp, clock);
        let Mutation { row, cells, durability, nonce, .. } = mutation;
        // `row` may share the memory of `cells`. It is dropped, because cells can be changed in place only if their
        // memory has one owner.
        drop(row);
        let mut edits = Edits { bytes: Vec::from(cells.into_bytes()), edits: Vec::with_capacity(1) };
        stamp_in_place(&mut edits.bytes, stamp);
        edits.make(durability, nonce, self.comparator);
        let pending = self.write(&edits, clock)?;
        drop(locks);
        Ok(pending)
    }

    /// Applies puts and deletes of several rows atomically, also across a crash: they are one log record with one
    /// sequence id, and no reader sees only a part of them. If one mutation is invalid, or after [`Error::WouldBlock`],
    /// none was applied.
    pub fn apply_together(self: &Arc<Self>, mutations: &[Mutation], mode: ReadMode) -> Result<Pending> {
        self.check_writable()?;
        mutations.iter().try_for_each(|mutation| self.check_mutation(mutation))?;
        let locks = self.lock_rows(mutations.iter(), std::iter::empty(), mode)?;
        let now = self.world.now();
        let bytes = mutations.iter().map(|mutation| mutation.cells.bytes().len()).sum();
        let mut edits = Edits::with_capacity(bytes, 1);
        for mutation in mutations {
            self.prepare(mutation, self.stamp_of(mutation, now), mode, edits.bytes())?;
        }
        self.note_deletes(mutations.iter(), now);
        let strictest = mutations.iter().map(|mutation| self.strength(mutation.durability)).max();
        let nonce = mutations.iter().find_map(|mutation| mutation.nonce);
        edits.make(strictest.unwrap_or_default(), nonce, self.comparator);
        let pending = self.write(&edits, now)?;
        drop(locks);
        Ok(pending)
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_serving()?;
        if self.read_only {
            return Err(Error::ReadOnly(string_binary(self.info.name()).to_string()));
        }
        // A write that begins while the disk is full would take memory and wait, so it is refused.
        match self.log.admits() {
            Err(_) if self.uses_reserve => self.log.admits_by_reserve()?,
            admitted => admitted?,
        }
        let (bytes, limit) =
            (self.memstore_bytes(), self.flush_size.saturating_mul(self.options.block_multiplier));
        if bytes > limit && !self.info.is_meta() {
            self.options.refused_writes.fetch_add(1, Ordering::Relaxed);
            let region = self.info.encoded_name().clone();
            return Err(Busy::MemstoreFull { limit, region, size: bytes }.into());
        }
        Ok(())
    }

    /// Checks a mutation without reading its row.
    pub(crate) fn check_mutation(&self, mutation: &Mutation) -> Result<()> {
        if mutation.row.is_empty() {
            return Err(Error::EmptyRow);
        }
        self.check_row(&mutation.row, "row lock")?;
        for cell in mutation.cells.cells() {
            match cell.cell_type() {
                Some(CellType::Put) => self.store_for_puts(cell.family())?,
                _ => self.store(cell.family())?,
            };
            if cell.row() != mutation.row {
                return Err(Error::CellOfOtherRow {
                    cell_row: string_binary(cell.row()).to_string(),
                    row: string_binary(&mutation.row).to_string(),
                });
            }
            self.check_size(cell.bytes().len())?;
            let timestamp = cell.timestamp();
            if timestamp != Timestamp::LATEST && timestamp.0 < 0 {
                return Err(Error::NegativeTimestamp(timestamp.0));
            }
            if let Some(slop) = self.options.timestamp_slop
                && timestamp != Timestamp::LATEST
                && timestamp.0 > self.world.now().0.saturating_add(slop)
            {
                return Err(Error::BadTimestamp { cell: format!("{:?}", cell.key()), slop });
            }
        }
        Ok(())
    }

    pub(crate) fn check_size(&self, size: usize) -> Result<()> {
        match self.options.cell_size_max {
            Some(limit) if size > limit => Err(Error::CellTooLarge { size, limit }),
            _ => Ok(()),
        }
    }

    /// Appends the cells of a put or delete, with their final timestamps, to `block`. The caller holds the row lock.
    /// After an error `block` may have some of the cells.
    pub(crate) fn prepare(
        self: &Arc<Self>,
        mutation: &Mutation,
        now: WallTime,
        mode: ReadMode,
        block: &mut Vec<u8>,
    ) -> Result<()> {
        // Several deletes of a column's newest version in one mutation take successive versions.
        let mut newest_taken: Vec<(&[u8], &[u8], usize)> = Vec::new();
        for cell in mutation.cells.cells() {
            let latest = cell.timestamp() == Timestamp::LATEST;
            let mut timestamp = if latest { Timestamp(now.0) } else { cell.timestamp() };
            if latest && cell.cell_type() == Some(CellType::Delete) {
                let column = (cell.family(), cell.qualifier());
                let skip = match newest_taken.iter_mut().find(|(family, name, _)| (*family, *name) == column)
                {
                    Some((.., taken)) => {
                        *taken += 1;
                        *taken
                    }
                    None => {
                        newest_taken.push((column.0, column.1, 0));
                        0
                    }
                };
                // If the column has no such version, the marker gets the present time and masks nothing.
                if let Some(found) = self.nth_version(&mutation.row, column, skip, mode)? {
                    timestamp = found;
                }
            }
            write_stamped(block, cell, timestamp);
        }
        Ok(())
    }

    /// Returns the timestamp of the version of a column that has `skip` newer versions; `None` if there is no such
    /// version.
    fn nth_version(
        self: &Arc<Self>,
        row: &Bytes,
        column: (&[u8], &[u8]),
        skip: usize,
        mode: ReadMode,
    ) -> Result<Option<Timestamp>> {
        let scan = Scan {
            families: vec![FamilyQuery {
                family: Bytes::copy_from_slice(column.0),
                qualifiers: Some(vec![Bytes::copy_from_slice(column.1)]),
                time_range: None,
            }],
            max_versions: u32::try_from(skip + 1).unwrap_or(u32::MAX),
            isolation: Isolation::ReadUncommitted,
            ..Scan::get(row.clone())
        };
        let mut found = Timestamps::default();
        self.get(&scan, mode, &mut found)?;
        Ok(found.0.get(skip).copied())
    }

    /// Writes edits under one sequence id. HBase does the same for writes that are made together, and
    /// NEW_VERSION_BEHAVIOR depends on it. Each edit is a log record of its own, so after a crash either all or none of
    /// it exists. The caller holds the row locks, and no two edits have the same row. `now` is the time at which the
    /// rows were locked.
    pub(crate) fn write(self: &Arc<Self>, edits: &Edits, now: WallTime) -> Result<Pending> {
        let strength = |edit: &Edit| self.strength(edit.durability);
        // All edits wait for the strictest durability among them.
        let Some(strictest) = edits.edits.iter().map(strength).max() else {
            return Ok(Pending::nothing(self));
        };
        let awaits = match strictest {
            Durability::Skip | Durability::Async | Durability::UseDefault => Awaits::Nothing,
            Durability::Sync if !self.options.sync_to_disk => Awaits::Log(wal::Level::Os),
            Durability::Sync | Durability::Fsync => Awaits::Log(wal::Level::Disk),
        };
        let is_logged = |edit: &Edit| strength(edit) != Durability::Skip;
        // Checks all records before a sequence id is assigned. Afterwards no single edit can be refused.
        let mut log_bytes = 0;
        for (edit, cells) in edits.iter().filter(|(edit, _)| is_logged(edit)) {
            let record = self.record(edit, cells, SequenceId::ZERO, now);
            self.log.check(&record)?;
            log_bytes += record.size();
        }
        let (sequence, ticket) = {
            let mut state = self.write.lock();
            if state.closing {
                return Err(Error::NotServing(string_binary(self.info.name()).to_string()));
            }
            let sequence = state.last_sequence.next();
            let logged = edits.iter().filter(|(edit, _)| is_logged(edit));
            let records = logged.map(|(edit, cells)| self.record(edit, cells, sequence, now));
            let ticket = self.log.append_all(records).map_err(|error| self.abort(error.to_string()))?;
            state.last_sequence = sequence;
            if !edits.edits.iter().all(is_logged) {
                state.last_unlogged = sequence;
            }
            self.mvcc.begin(sequence, awaits);
            self.insert(&edits.bytes, sequence, now);
            if ticket.is_some() {
                state.last_ticket = ticket;
            }
            (sequence, ticket)
        };
        self.counters.rows_written(edits.edits.len() as u64);
        self.account.wrote(edits.bytes.len() as u64, log_bytes as u64);
        let _set = self.memstore.oldest_edit.compare_exchange(0, now.0, Ordering::Relaxed, Ordering::Relaxed);
        let own = match (awaits, ticket) {
            (Awaits::Log(level), Some(ticket)) => Some((ticket, level)),
            (awaits, _) => {
                self.mvcc.complete_through(sequence, awaits);
                None
            }
        };
        Ok(Pending::for_writing(self, sequence, awaits, own))
    }

    /// Returns the durability that results from a client's choice and this table; never [`Durability::UseDefault`].
    pub(crate) fn strength(&self, asked: Durability) -> Durability {
        match (asked, self.durability) {
            (Durability::UseDefault, TableDurability::SkipWal) => Durability::Skip,
            (Durability::UseDefault, TableDurability::AsyncWal) => Durability::Async,
            (Durability::UseDefault, TableDurability::UseDefault | TableDurability::SyncWal) => {
                Durability::Sync
            }
            (Durability::UseDefault, TableDurability::FsyncWal) => Durability::Fsync,
            (asked, _) => asked,
        }
    }

    /// Returns the level to which the log must be synced to complete every write so far: the disk, if the server syncs
    /// to the disk or an incomplete write awaits that; otherwise the operating system. The caller holds the write lock.
    pub(crate) fn level_awaited(&self, _state: &WriteState) -> wal::Level {
        if self.options.sync_to_disk {
            return wal::Level::Disk;
        }
        match self.mvcc.strongest_awaited() {
            Awaits::Log(level) => level,
            Awaits::Nothing | Awaits::FileLists => wal::Level::Os,
        }
    }

    /// Returns the log record of an edit.
    fn record<'a>(
        &'a self,
        edit: &Edit,
        cells: &'a [u8],
        sequence: SequenceId,
        time: WallTime,
    ) -> wal::Record<'a> {
        wal::Record {
            kind: wal::Kind::Edit,
            region: self.info.encoded_name().as_str().as_bytes(),
            table: self.info.table().as_bytes(),
            sequence,
            time,
            nonce: edit.nonce,
            cells,
        }
    }

    /// Copies the cells of a block, written at `now`, into the memstores of their families. Consecutive cells of one
    /// family are copied together. The caller holds the write lock.
    pub(crate) fn insert(&self, block: &[u8], sequence: SequenceId, now: WallTime) {
        let clock = self.clock.load(Ordering::Relaxed).max(now.0);
        self.clock.store(clock, Ordering::Relaxed);
        let late_before = Region::late_before(clock);
        let mut rest = block;
        while let Some((first, _)) = split_cell(rest) {
            let family = Cell::trusted(first, sequence).family();
            let (run, mut has_late) = (rest, false);
            let cells = std::iter::from_fn(|| {
                let (bytes, after) = split_cell(rest)?;
                let cell = Cell::trusted(bytes, sequence);
                (cell.family() == family).then(|| {
                    has_late |= cell.timestamp().0 < late_before;
                    rest = after;
                    bytes
                })
            });
            match self.stores.iter().find(|store| store.family == family) {
                Some(store) => {
                    self.insert_into(store, cells, sequence);
                    if has_late {
                        self.note_late_puts(store, &run[..run.len() - rest.len()], sequence, late_before);
                    }
                    if store.is_full() {
                        store.seal(&self.options.memory, self.sealed(sequence));
                    }
                }
                // The log may have records of a family that was deleted later. Their cells are dropped.
                None => cells.for_each(drop),
            }
        }
    }
}

/// Appends `cell` with `timestamp` to a block of cells with tags.
pub(crate) fn write_stamped(block: &mut Vec<u8>, cell: Cell<'_>, timestamp: Timestamp) {
    let at = block.len() + 4;
    let bytes = cell.bytes();
    block.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    block.extend_from_slice(bytes);
    // The timestamp precedes the type byte at the end of the key.
    let end = at + 8 + cell.key().bytes().len();
    block[end - 9..end - 1].copy_from_slice(&timestamp.0.to_be_bytes());
}

/// Replaces [`Timestamp::LATEST`] in the cells of a block by `timestamp`.
fn stamp_in_place(block: &mut [u8], timestamp: Timestamp) {
    let mut at = 0;
    while let Some((bytes, _)) = split_cell(&block[at..]) {
        let (length, cell) = (bytes.len(), Cell::trusted(bytes, SequenceId::ZERO));
        let end = at + 4 + 8 + cell.key().bytes().len();
        if cell.timestamp() == Timestamp::LATEST {
            block[end - 9..end - 1].copy_from_slice(&timestamp.0.to_be_bytes());
        }
        at += 4 + length;
    }
}

#[derive(Default)]
struct Timestamps(Vec<Timestamp>);

impl CellSink for Timestamps {
    fn cell(&mut self, cell: Cell<'_>) {
        self.0.push(cell.timestamp());
    }
}
