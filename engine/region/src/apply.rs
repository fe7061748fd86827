//! Writing: from mutations to the log and the memstore.
//!
//! 1. Each mutation is checked on its own: row, families, sizes, timestamps. One that fails fails alone.
//! 2. The row locks of all that are left are taken.
//! 3. "Latest" becomes the clock's time; a delete of the newest version looks for it.
//! 4. Under the region's write lock all of them get the next sequence id; all go into the log's buffer, then into the
//!    memstore.
//! 5. The locks are released. What is left is waiting for the log: see [`Pending`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use cell::block::split_cell;
use cell::{Cell, CellBlock, CellSink, CellType, SequenceId, Timestamp};
use env::WallTime;
use proto::descriptor::Durability as TableDurability;

use crate::mvcc::Awaits;
use crate::pending::Pending;
use crate::query::{FamilyQuery, Isolation, ReadMode, Scan, TimeRange};
use crate::region::{Region, WriteState};
use crate::repeats::without_repeats;
use crate::{Error, Result};

/// What a mutation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MutationKind {
    /// Sets values.
    Put,
    /// Sets markers.
    Delete,
    /// Adds to numbers.
    Increment,
    /// Adds to the end of values.
    Append,
}

/// How safe a write must be before it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// As the table says, and if it does not, [`Durability::Sync`].
    #[default]
    UseDefault,
    /// Not in the log at all.
    Skip,
    /// In the log, some time later.
    Async,
    /// In the log; how far is the server's setting.
    Sync,
    /// On the disk.
    Fsync,
}

/// Changes of one row.
#[derive(Clone, Debug)]
pub struct Mutation {
    /// What it does.
    pub kind: MutationKind,
    /// The row.
    pub row: Bytes,
    /// The cells, all of that row. [`Timestamp::LATEST`] stands for the server's time; for a delete of one version it
    /// stands for the newest one.
    pub cells: CellBlock,
    /// How safe it must be.
    pub durability: Durability,
    /// Which versions an increment or append looks at.
    pub time_range: Option<TimeRange>,
    /// Whether an increment or append gives back what it made.
    pub return_results: bool,
    /// Nonce group and nonce, for the log.
    pub nonce: Option<(u64, u64)>,
}

/// What became of a batch: what each mutation came to, and what is to be waited for.
#[derive(Debug)]
pub struct Applied {
    /// For each mutation, in order.
    pub outcomes: Vec<Result<()>>,
    /// Resolves when those that succeeded are durable and visible.
    pub pending: Pending,
}

/// Atomic writes, each of the cells of a row, or of rows that are written together, with their final timestamps, as they
/// go into log and memstore. All lie in one run of bytes.
#[derive(Default)]
pub(crate) struct Edits {
    /// `length 4B · cell` again and again.
    bytes: Vec<u8>,
    edits: Vec<Edit>,
}

struct Edit {
    /// Where its cells end; they begin where those of the one before end.
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

    /// Where the cells of the next one go.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Forgets what came after the last one.
    fn undo(&mut self) {
        self.bytes.truncate(self.end());
    }

    /// Makes one of the cells that came after the last one, if there are any.
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

    /// Those of one row as one: of two cells of theirs with one key the later must win, which one sequence id does not
    /// say.
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

    /// All of them, with their cells.
    fn iter(&self) -> impl Iterator<Item = (&Edit, &[u8])> {
        let mut from = 0;
        self.edits.iter().map(move |edit| {
            let cells = &self.bytes[std::mem::replace(&mut from, edit.end)..edit.end];
            (edit, cells)
        })
    }
}

impl Region {
    /// Resolves when everything that was written before this call is durable and visible.
    pub fn settled(self: &Arc<Self>) -> Pending {
        Pending::for_reading(self)
    }

    /// Applies puts and deletes, each row atomically, not all of them together. With [`Error::WouldBlock`] none of them.
    pub fn apply(self: &Arc<Self>, mutations: &[Mutation], mode: ReadMode) -> Result<Applied> {
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
        self.note_deletes(chosen, now);
        let bytes = accepted.iter().map(|&index| mutations[index].cells.bytes().len()).sum();
        let mut edits = Edits::with_capacity(bytes, accepted.len());
        for index in accepted {
            let mutation = &mutations[index];
            match self.prepare(mutation, now, mode, edits.bytes()) {
                Ok(()) => edits.make(mutation.durability, mutation.nonce, self.comparator),
                Err(error) if error.would_block() => return Err(error),
                Err(error) => {
                    edits.undo();
                    outcomes[index] = Err(error);
                }
            }
        }
        if !locks.is_each_row_once {
            edits = edits.with_each_row_once(self);
        }
        let pending = self.write(&edits, now)?;
        drop(locks);
        Ok(Applied { outcomes, pending })
    }

    /// Applies puts and deletes of several rows, all of them or none, also through a crash: they are one record of the log
    /// under one sequence id, and no reader sees a part of them. With [`Error::WouldBlock`] none of them.
    pub fn apply_together(self: &Arc<Self>, mutations: &[Mutation], mode: ReadMode) -> Result<Pending> {
        self.check_writable()?;
        mutations.iter().try_for_each(|mutation| self.check_mutation(mutation))?;
        let locks = self.lock_rows(mutations.iter(), std::iter::empty(), mode)?;
        let now = self.world.now();
        self.note_deletes(mutations.iter(), now);
        let bytes = mutations.iter().map(|mutation| mutation.cells.bytes().len()).sum();
        let mut edits = Edits::with_capacity(bytes, 1);
        for mutation in mutations {
            self.prepare(mutation, now, mode, edits.bytes())?;
        }
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
            return Err(Error::ReadOnly(self.info.name().escape_ascii().to_string()));
        }
        // While the disk is full a new write would only wait, in memory, for the room that it needs.
        self.log.admits()?;
        let (bytes, limit) =
            (self.memstore_bytes(), self.flush_size.saturating_mul(self.options.block_multiplier));
        if bytes > limit && !self.info.is_meta() {
            return Err(Error::TooBusy(format!(
                "Over memstore limit={limit}, regionName={}, memstoreSize={bytes}; wait for a flush",
                self.info.encoded_name()
            )));
        }
        Ok(())
    }

    /// What can be said of a mutation without looking at the row.
    pub(crate) fn check_mutation(&self, mutation: &Mutation) -> Result<()> {
        if mutation.row.is_empty() {
            return Err(Error::BadRequest("Row length can't be 0".to_owned()));
        }
        self.check_row(&mutation.row, "row lock")?;
        for cell in mutation.cells.cells() {
            self.store(cell.family())?;
            if cell.row() != mutation.row {
                return Err(Error::BadRequest(format!(
                    "the row of a cell, {}, is not that of its mutation, {}",
                    cell.row().escape_ascii(),
                    mutation.row.escape_ascii()
                )));
            }
            self.check_size(cell.bytes().len())?;
            let timestamp = cell.timestamp();
            if timestamp != Timestamp::LATEST && timestamp.0 < 0 {
                return Err(Error::BadRequest(format!("Timestamp cannot be negative. ts={}", timestamp.0)));
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

    /// Appends a put's or delete's cells, with their timestamps, to `block`. The row is locked.
    pub(crate) fn prepare(
        self: &Arc<Self>,
        mutation: &Mutation,
        now: WallTime,
        mode: ReadMode,
        block: &mut Vec<u8>,
    ) -> Result<()> {
        // Several deletes of the newest version of one column take one version after the other.
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
                // Where there is none the marker is of now, and masks nothing.
                if let Some(found) = self.nth_version(&mutation.row, column, skip, mode)? {
                    timestamp = found;
                }
            }
            write_stamped(block, cell, timestamp);
        }
        Ok(())
    }

    /// The timestamp of the version of a column with `skip` newer ones before it.
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

    /// Writes edits under one sequence id: what is written together is of one moment, in HBase too, and shows where that
    /// decides (`NEW_VERSION_BEHAVIOR`). Each is a record of its own, so that a death takes or leaves it whole. Their rows
    /// are locked, and none has two. It is `now`, or was when the rows had been locked.
    pub(crate) fn write(self: &Arc<Self>, edits: &Edits, now: WallTime) -> Result<Pending> {
        let strength = |edit: &Edit| self.strength(edit.durability);
        // All of them wait for what the strictest asks.
        let Some(strictest) = edits.edits.iter().map(strength).max() else {
            return Ok(Pending::nothing(self));
        };
        let awaits = match strictest {
            Durability::Skip | Durability::Async | Durability::UseDefault => Awaits::Nothing,
            Durability::Sync if !self.options.sync_to_disk => Awaits::Log(wal::Level::Os),
            Durability::Sync | Durability::Fsync => Awaits::Log(wal::Level::Disk),
        };
        let is_logged = |edit: &Edit| strength(edit) != Durability::Skip;
        // Before the first of them has a sequence id: what comes after cannot be refused by itself.
        let mut log_bytes = 0;
        for (edit, cells) in edits.iter().filter(|(edit, _)| is_logged(edit)) {
            let record = self.record(edit, cells, SequenceId::ZERO, now);
            self.log.check(&record)?;
            log_bytes += record.size();
        }
        let (sequence, ticket) = {
            let mut state = self.write.lock();
            if state.closing {
                return Err(Error::NotServing(self.info.name().escape_ascii().to_string()));
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
        let durable = match (awaits, ticket) {
            (Awaits::Log(level), Some(ticket)) => Some(self.log.sync(ticket, level)),
            (awaits, _) => {
                self.mvcc.complete_through(sequence, awaits);
                None
            }
        };
        Ok(Pending::for_writing(self, sequence, awaits, durable))
    }

    /// What a durability comes to that a client asked for: the weakest is the least. Never [`Durability::UseDefault`].
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

    /// How far the log must be synced before every write so far is complete: as far as the server's setting says, or to
    /// the disk when an incomplete write awaits that. The caller holds the write lock.
    pub(crate) fn level_awaited(&self, _state: &WriteState) -> wal::Level {
        if self.options.sync_to_disk {
            return wal::Level::Disk;
        }
        match self.mvcc.strongest_awaited() {
            Awaits::Log(level) => level,
            Awaits::Nothing => wal::Level::Os,
        }
    }

    /// What the log gets of an edit.
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
            table: self.table.name().as_bytes(),
            sequence,
            time,
            nonce: edit.nonce,
            cells,
        }
    }

    /// Copies the cells of a block, which are written at `now`, into the memstores of their families, a run of cells of
    /// one family at a time. The write lock is held.
    pub(crate) fn insert(&self, block: &[u8], sequence: SequenceId, now: WallTime) {
        let clock = self.clock.load(Ordering::Relaxed).max(now.0);
        self.clock.store(clock, Ordering::Relaxed);
        let moment = Region::before(clock);
        let mut rest = block;
        while let Some((first, _)) = split_cell(rest) {
            let family = Cell::trusted(first, sequence).family();
            let (run, mut has_late) = (rest, false);
            let cells = std::iter::from_fn(|| {
                let (bytes, after) = split_cell(rest)?;
                let cell = Cell::trusted(bytes, sequence);
                (cell.family() == family).then(|| {
                    has_late |= cell.timestamp().0 < moment;
                    rest = after;
                    bytes
                })
            });
            match self.stores.iter().find(|store| store.family == family) {
                Some(store) => {
                    self.insert_into(store, cells, sequence);
                    if has_late {
                        self.mask_late(store, &run[..run.len() - rest.len()], sequence, moment);
                    }
                    if store.is_full() {
                        store.seal(&self.options.memory, self.sealed(sequence));
                    }
                }
                // Only a record of a family that was deleted since can say so.
                None => cells.for_each(drop),
            }
        }
    }
}

/// Appends `cell` under `timestamp` to a block of cells with tags.
pub(crate) fn write_stamped(block: &mut Vec<u8>, cell: Cell<'_>, timestamp: Timestamp) {
    let at = block.len() + 4;
    let bytes = cell.bytes();
    block.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    block.extend_from_slice(bytes);
    // The timestamp stands before the type, at the end of the key.
    let end = at + 8 + cell.key().bytes().len();
    block[end - 9..end - 1].copy_from_slice(&timestamp.0.to_be_bytes());
}

#[derive(Default)]
struct Timestamps(Vec<Timestamp>);

impl CellSink for Timestamps {
    fn cell(&mut self, cell: Cell<'_>) {
        self.0.push(cell.timestamp());
    }
}
