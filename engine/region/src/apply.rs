//! Writing: from mutations to the log and the memstore.
//!
//! 1. Each mutation is checked on its own: row, families, sizes, timestamps. One that fails fails alone.
//! 2. The row locks of all that are left are taken.
//! 3. "Latest" becomes the clock's time; a delete of the newest version looks for it.
//! 4. Under the region's write lock all of them get the next sequence id, and each row goes into the log's buffer and the
//!    memstore.
//! 5. The locks are released. What is left is waiting for the log: see [`Pending`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use cell::{Cell, CellBlock, CellType, SequenceId, Timestamp};
use env::WallTime;
use proto::descriptor::Durability as TableDurability;

use crate::mvcc::Awaits;
use crate::pending::Pending;
use crate::query::{CellSink, FamilyQuery, Isolation, ReadMode, Scan, TimeRange};
use crate::region::Region;
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

/// The cells of one atomic write, with their final timestamps, as they go into log and memstore.
pub(crate) struct Edit {
    /// `length 4B · cell` again and again.
    pub(crate) block: Vec<u8>,
    pub(crate) durability: Durability,
    pub(crate) nonce: Option<(u64, u64)>,
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
        let locks = self.locks.lock(accepted.iter().map(|&index| &mutations[index].row[..]), mode)?;
        let now = self.world.now();
        let mut edits = Vec::with_capacity(accepted.len());
        for index in accepted {
            match self.prepare(&mutations[index], now, mode) {
                Ok(edit) => edits.push(edit),
                Err(Error::WouldBlock) => return Err(Error::WouldBlock),
                Err(error) => outcomes[index] = Err(error),
            }
        }
        let pending = self.write(edits)?;
        drop(locks);
        Ok(Applied { outcomes, pending })
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
        let now = self.world.now().0;
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
                && timestamp.0 > now.saturating_add(slop)
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

    /// Gives a put's or delete's cells their timestamps. The row is locked.
    pub(crate) fn prepare(
        self: &Arc<Self>,
        mutation: &Mutation,
        now: WallTime,
        mode: ReadMode,
    ) -> Result<Edit> {
        let mut block = Vec::with_capacity(mutation.cells.bytes().len() + 8);
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
            write_stamped(&mut block, cell, timestamp);
        }
        Ok(Edit { block, durability: mutation.durability, nonce: mutation.nonce })
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
    /// are locked.
    pub(crate) fn write(self: &Arc<Self>, edits: Vec<Edit>) -> Result<Pending> {
        let edits: Vec<(Edit, Durability)> = with_each_row_once(edits, |asked| self.strength(asked))
            .into_iter()
            .filter(|edit| !edit.block.is_empty())
            .map(|edit| {
                let durability = self.strength(edit.durability);
                let block = without_repeats(&edit.block, self.comparator).unwrap_or(edit.block);
                (Edit { block, ..edit }, durability)
            })
            .collect();
        if edits.is_empty() {
            return Ok(Pending::nothing(self));
        }
        // All of them wait for what the strictest asks.
        let strictest = edits.iter().map(|(_, durability)| *durability).max().expect("there is one");
        let awaits = match strictest {
            Durability::Skip | Durability::Async | Durability::UseDefault => Awaits::Nothing,
            Durability::Sync if !self.options.sync_to_disk => Awaits::Log(wal::Level::Os),
            Durability::Sync | Durability::Fsync => Awaits::Log(wal::Level::Disk),
        };
        let now = self.world.now();
        let rows = edits.len() as u64;
        // Before the first of them has a sequence id: what comes after cannot be refused by itself.
        let (mut user_bytes, mut log_bytes) = (0, 0);
        for (edit, durability) in &edits {
            user_bytes += edit.block.len();
            if *durability != Durability::Skip {
                let record = self.record(edit, SequenceId::ZERO, now);
                self.log.check(&record)?;
                log_bytes += record.size();
            }
        }
        let (last, ticket) = {
            let mut state = self.write.lock();
            if state.closing {
                return Err(Error::NotServing(self.info.name().escape_ascii().to_string()));
            }
            let mut ticket = None;
            let sequence = state.last_sequence.next();
            for (edit, durability) in edits {
                if durability != Durability::Skip {
                    let record = self.record(&edit, sequence, now);
                    ticket = Some(self.log.append(&record).map_err(|error| self.abort(error.to_string()))?);
                }
                if state.last_sequence != sequence {
                    state.last_sequence = sequence;
                    self.mvcc.begin(sequence, awaits);
                }
                self.insert(&edit.block, sequence);
            }
            if ticket.is_some() {
                state.last_ticket = ticket;
            }
            (state.last_sequence, ticket)
        };
        self.counters.rows_written(rows);
        self.account.wrote(user_bytes as u64, log_bytes as u64);
        let _set = self.oldest_edit.compare_exchange(0, now.0, Ordering::Relaxed, Ordering::Relaxed);
        let durable = match (awaits, ticket) {
            (Awaits::Log(level), Some(ticket)) => Some(self.log.sync(ticket, level)),
            _ => {
                self.mvcc.complete_through(last, Awaits::Nothing);
                None
            }
        };
        Ok(Pending::for_writing(self, last, awaits, durable))
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

    /// What the log gets of an edit.
    fn record<'a>(&'a self, edit: &'a Edit, sequence: SequenceId, time: WallTime) -> wal::Record<'a> {
        wal::Record {
            kind: wal::Kind::Edit,
            region: self.info.encoded_name().as_str().as_bytes(),
            table: self.table.name().as_bytes(),
            sequence,
            time,
            nonce: edit.nonce,
            cells: &edit.block,
        }
    }

    /// Copies the cells of a block into the memstores of their families, a run of cells of one family at a time. The
    /// write lock is held.
    pub(crate) fn insert(&self, block: &[u8], sequence: SequenceId) {
        let mut rest = block;
        while let Some((first, _)) = split_cell(rest) {
            let family = Cell::trusted(first, sequence).family();
            let cells = std::iter::from_fn(|| {
                let (cell, after) = split_cell(rest)?;
                (Cell::trusted(cell, sequence).family() == family).then(|| {
                    rest = after;
                    cell
                })
            });
            match self.stores.iter().find(|store| store.family == family) {
                Some(store) => {
                    let view = store.view.load();
                    view.active.insert(cells, sequence);
                    store.seal_if_full(&view.active, &self.options.memory);
                }
                // Only a record of a family that was deleted since can say so.
                None => cells.for_each(drop),
            }
        }
    }
}

/// The edits, those of one row as one: of two cells of theirs with one key the later must win, which one sequence id
/// does not say.
fn with_each_row_once(edits: Vec<Edit>, strength: impl Fn(Durability) -> Durability) -> Vec<Edit> {
    fn row(edit: &Edit) -> &[u8] {
        split_cell(&edit.block).map_or(&[], |(cell, _)| Cell::trusted(cell, SequenceId::ZERO).row())
    }
    if edits.windows(2).all(|pair| row(&pair[0]) < row(&pair[1])) {
        return edits;
    }
    let mut order: Vec<usize> = (0..edits.len()).collect();
    order.sort_by(|left, right| row(&edits[*left]).cmp(row(&edits[*right])).then(left.cmp(right)));
    if order.windows(2).all(|pair| row(&edits[pair[0]]) != row(&edits[pair[1]])) {
        return edits;
    }
    let mut once: Vec<Edit> = Vec::with_capacity(edits.len());
    let mut edits: Vec<Option<Edit>> = edits.into_iter().map(Some).collect();
    for index in order {
        let edit = edits[index].take().expect("each is taken once");
        match once.last_mut().filter(|last| row(last) == row(&edit)) {
            Some(last) => {
                last.block.extend_from_slice(&edit.block);
                last.durability = strength(last.durability).max(strength(edit.durability));
                last.nonce = last.nonce.or(edit.nonce);
            }
            None => once.push(edit),
        }
    }
    once
}

/// The first cell of a block of our own making, and what is after it.
#[inline]
pub(crate) fn split_cell(block: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = block.split_first_chunk::<4>()?;
    Some(rest.split_at(u32::from_be_bytes(*length) as usize))
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
