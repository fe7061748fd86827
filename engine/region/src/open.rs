//! Opens a region: its files from their lists, and newer writes from the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use cell::{Cell, CellBlock, Comparator, SequenceId, string_binary};
use env::sync::{Mutex, RwLock};
use hfile::{ReadOptions, Reader};
use memstore::Level;
use proto::{FamilyDescriptor, RegionInfo, TableName};
use storage::Capability;
use wal::LogPosition;

use crate::accordion::LevelChoice;
use crate::bulk_load;
use crate::bulk_load_note::KnownNote;
use crate::locks::RowLocks;
use crate::mvcc::Mvcc;
use crate::opening::Opening;
use crate::options::Access;
use crate::region::{Counters, Lifecycle, MemstoreState, RecoveredNonce, Region, WriteState};
use crate::side_by_side::side_by_side;
use crate::store::Store;
use crate::store_file::{FileCursor, FileOpener, Listed, StoreFile};
use crate::tracker::Tracker;
use crate::{Error, FlushReason, Result};

/// Maximum number of requests that the opening of a region sends at the same time, in storage that several machines
/// reach. There a request takes milliseconds.
const REQUESTS_AT_ONCE: usize = 16;

impl Region {
    /// Opens a region. When this returns, all writes that are in the log but were not in the region's files are in
    /// memory, or were flushed to files while the log was replayed.
    ///
    /// The [reader](Opening::recovered) keeps the region's records. The caller lets it [forget](wal::LogReader::taken) them when
    /// the region serves or was flushed, and not before: a region that is dropped with unflushed memory is opened again, and
    /// must find them.
    pub fn open(opening: Opening) -> Result<Arc<Region>> {
        Region::open_as(opening, Access::Owner, None)
    }

    /// Opens a region for reading only, with the content of its files and the recovered log. The region writes and
    /// deletes nothing: writes, flushes, and compactions that would replace files fail with [`Error::ReadOnly`].
    pub fn open_for_reading(opening: Opening) -> Result<Arc<Region>> {
        Region::open_as(opening, Access::Reader, None)
    }

    /// Like [`open_for_reading`](Region::open_for_reading), with the log's records before `until`, all of which must be
    /// readable.
    pub(crate) fn open_to_follow(opening: Opening, until: LogPosition) -> Result<Arc<Region>> {
        Region::open_as(opening, Access::Reader, Some(until))
    }

    fn open_as(opening: Opening, access: Access, until: Option<LogPosition>) -> Result<Arc<Region>> {
        let table_options = opening.table.options().map_err(Error::Schema)?;
        let flush_size = table_options.flush_bytes.unwrap_or(opening.options.flush_size);
        // On a local disk several threads would not be faster than one.
        let is_local = opening.files.capabilities().has(Capability::OneProcess);
        let families = opening.table.families();
        let stores_at_once = if is_local { 1 } else { families.len().clamp(1, REQUESTS_AT_ONCE) };
        let files_at_once = if is_local { 1 } else { REQUESTS_AT_ONCE / stores_at_once };
        let open_stores = || {
            side_by_side("open-store", stores_at_once, families, |family| {
                open_store(&opening, access, family, flush_size, files_at_once)
            })
        };
        let keep_info = || layout::keep_region_info(&*opening.files, &opening.folder, &opening.info);
        let mut stores = match access {
            Access::Owner => {
                let at_once = if is_local { 1 } else { 2 };
                let opened =
                    side_by_side("open-region", at_once, &[false, true], |is_stores| match is_stores {
                        true => open_stores().map(Some),
                        false => keep_info().map(|()| None).map_err(Error::from),
                    });
                opened?.into_iter().flatten().next().expect("one call opens the stores")
            }
            Access::Reader => open_stores()?,
        };
        let mut bulk_load_note = KnownNote::default();
        if access == Access::Owner {
            // Only now is no list changed by a previous owner any more.
            let are_changed;
            (bulk_load_note, are_changed) = bulk_load::roll_forward(&opening)?;
            if are_changed {
                drop(stores);
                stores = open_stores()?;
            }
        }
        stores.sort_by(|left, right| left.family.cmp(&right.family));
        // The sequence ids of writes in files must not be used again, even if the log no longer has these writes.
        let in_files = stores.iter().map(|store| store.view.load().horizon).max().unwrap_or_default();
        let Opening { info, table, files, log, cache, world, options, recovered, folder: _ } = opening;
        let mut region = Region {
            access,
            read_only: table_options.read_only || access == Access::Reader,
            durability: table_options.durability,
            uses_reserve: info.is_meta() || *info.table() == TableName::namespaces(),
            flush_size,
            comparator: comparator_of(&info),
            stores,
            files,
            log,
            cache,
            mvcc: Mvcc::default(),
            locks: RowLocks::new(options.row_lock_wait, options.put_waits_for_delete),
            write: Mutex::new(WriteState {
                last_sequence: in_files,
                last_ticket: None,
                last_unlogged: SequenceId::ZERO,
                closing: false,
            }),
            flushing: Mutex::default(),
            bulk_loads: Mutex::default(),
            listing: RwLock::default(),
            bulk_load_note: Mutex::new(bulk_load_note),
            is_note_left: AtomicBool::new(false),
            unfinished_load: Mutex::default(),
            open_sequence: SequenceId::ZERO,
            replayed: AtomicU64::new(0),
            lifecycle: Lifecycle::default(),
            account: options.ledger.of(table.name()),
            counters: Counters::default(),
            memstore: MemstoreState::opened(world.now().0),
            clock: AtomicI64::new(i64::MIN),
            recovered_nonces: Mutex::default(),
            options,
            world,
            info,
            table: arc_swap::ArcSwap::new(table),
        };
        let mut last = in_files;
        if access == Access::Owner {
            // The newest sequence id may be that of a family that was deleted. It must not be used again: the log would take
            // the new write for one that is in files.
            let name = region.info.encoded_name().as_str().as_bytes();
            region.log.remember_region(name);
            last = last.max(region.log.newest_edit(name).unwrap_or_default());
        }
        if let Some(recovered) = &recovered {
            last = last.max(region.replay(recovered, in_files, until)?);
            region.stores.iter().for_each(Store::replayed);
        }
        let open_sequence = last.next();
        region.write.get_mut().last_sequence = open_sequence;
        // A region opened for reading does not let its readers see `open_sequence`, because the owner's next write may
        // have that sequence id.
        let shown = if access == Access::Reader { last } else { open_sequence };
        (region.mvcc, region.open_sequence) = (Mvcc::new(shown), open_sequence);
        if region.memstore_bytes() > 0 {
            region.memstore.oldest_edit.store(region.world.now().0, Ordering::Relaxed);
        } else if access == Access::Owner {
            // All records of the region are in store files, so the log need not keep any file for it.
            region.log.flushed(region.info.encoded_name().as_str().as_bytes(), last);
        }
        let _nobody_waits = region.mark(wal::Kind::RegionOpen, open_sequence, region.all_files());
        Ok(Arc::new(region))
    }

    /// Fails if the region was opened for reading only.
    pub(crate) fn check_owner(&self) -> Result<()> {
        match self.access {
            Access::Owner => Ok(()),
            Access::Reader => Err(Error::ReadOnly(string_binary(self.info.name()).to_string())),
        }
    }

    /// Replays writes that are in the log, before `until`, but not in a store's files. Returns the last sequence id in
    /// the log.
    fn replay(
        &self,
        recovered: &wal::LogReader,
        in_files: SequenceId,
        until: Option<LogPosition>,
    ) -> Result<SequenceId> {
        let mut covered = CoveredWrites::of(self);
        let mut last = in_files;
        let name = self.info.encoded_name().as_str().as_bytes();
        let end = until.unwrap_or(LogPosition { file: u64::MAX, offset: 0 });
        let (mut flush_at, memory_max) =
            (self.flush_size, self.flush_size.saturating_mul(2 * self.options.block_multiplier));
        recovered.read_until::<Error>(name, end, until.is_some(), |record| {
            if record.kind != wal::Kind::Edit {
                return Ok(());
            }
            last = last.max(record.sequence);
            if let Some((group, nonce)) = record.nonce
                && until.is_none()
            {
                let (time, sequence) = (record.time, record.sequence);
                self.recovered_nonces.lock().push(RecoveredNonce { group, nonce, time, sequence });
            }
            if self.insert_logged(record, &mut covered)? {
                self.replayed.fetch_add(1, Ordering::Relaxed);
            }
            // The log may have more records than fit into memory, because the earlier process has flushed. So this
            // process flushes, too, while it replays.
            if self.memstore_bytes() >= flush_at && self.access == Access::Owner {
                // All writes before this record are in memory now, but the log may have more records with the same
                // sequence id. So the flush covers only smaller ids. [`LaterWrites`] in single files do not matter,
                // because other stores may lack those writes.
                self.write.lock().last_sequence = SequenceId(record.sequence.0.saturating_sub(1));
                match self.flush_stores(&[], FlushReason::Requested) {
                    // On a full disk the region takes what it had in memory when its writes were refused: the limit, and the
                    // writes that had begun. So its table can be read, and be disabled and dropped.
                    Err(error) if error.is_disk_full() && flush_at < memory_max => {
                        flush_at += self.flush_size
                    }
                    flushed => drop(flushed?),
                }
            }
            Ok(())
        })?;
        Ok(last)
    }

    /// Inserts the cells of a logged edit that are not in files. Returns whether there were any.
    pub(crate) fn insert_logged(
        &self,
        record: &wal::Record<'_>,
        covered: &mut CoveredWrites,
    ) -> Result<bool> {
        let block = CellBlock::parse(bytes::Bytes::copy_from_slice(record.cells)).map_err(|error| {
            Error::Corrupt {
                file: format!("log record {} of {}", record.sequence, self.info.encoded_name()),
                what: "cells",
                expected: "whole cells".to_owned(),
                found: error.to_string(),
            }
        })?;
        let mut kept = Vec::with_capacity(record.cells.len());
        for cell in block.cells() {
            let Some(store) = self.stores.iter().position(|store| store.family == cell.family()) else {
                continue;
            };
            let cell = Cell::trusted(cell.bytes(), record.sequence);
            if !covered.0[store].has(cell)? {
                cell::block::write_with_tags(&mut kept, cell);
            }
        }
        self.insert(&kept, record.sequence, record.time);
        self.restore_markers(&kept, record.sequence);
        Ok(!kept.is_empty())
    }
}

fn comparator_of(info: &RegionInfo) -> Comparator {
    if info.is_meta() { Comparator::Meta } else { Comparator::Table }
}

/// Opens the store of a family with the files that its list names.
///
/// While this server takes over from another one, a commit that the other had begun may replace the list after it was read here
/// and before it is claimed. Then the list is read again, as long as this server owns the log: a store has one commit at a time,
/// and the other server begins no further one.
fn open_store(
    opening: &Opening,
    access: Access,
    family: &FamilyDescriptor,
    flush_size: u64,
    files_at_once: usize,
) -> Result<Store> {
    let open = || try_open_store(opening, access, family, flush_size, files_at_once);
    match open() {
        Err(Error::Fenced { .. }) if access == Access::Owner => {
            opening.log.check_owner()?;
            env::sometimes("region: a commit of the previous owner replaced a list before it was claimed");
            open()
        }
        outcome => outcome,
    }
}

fn try_open_store(
    opening: &Opening,
    access: Access,
    family: &FamilyDescriptor,
    flush_size: u64,
    files_at_once: usize,
) -> Result<Store> {
    let Opening { info, table, files, cache, world, options, .. } = opening;
    let folder = Region::store_folder(&opening.folder, family.name());
    let (tracker, listed) = Tracker::open(Arc::clone(files), &folder, world.clone(), access)?;
    let family_options = family.options().map_err(Error::Schema)?;
    let caching = Store::caching(info, &family_options);
    let opener = FileOpener { files: &**files, cache, caching: &caching, open_files: &options.open_files };
    // `None` stands for claiming the list. It is the first step, so that its error is the one that is returned: if
    // another owner has taken the list, files may be missing as a consequence.
    let claim = (access == Access::Owner).then_some(None);
    let steps: Vec<Option<&Listed>> = claim.into_iter().chain(listed.iter().map(Some)).collect();
    let tracker = Mutex::new(tracker);
    let opened = side_by_side("open-file", files_at_once, &steps, |step| {
        let Some(listed) = *step else {
            tracker.lock().claim(&opening.log, &listed)?;
            return Ok::<_, Error>(None);
        };
        let file = Arc::new(StoreFile::open(&opener, &folder, listed.clone())?);
        prefetch(&file.reader);
        Ok(Some(file))
    })?;
    let (tracker, mut open) = (tracker.into_inner(), opened.into_iter().flatten().collect::<Vec<_>>());
    open.sort_by_key(|file| file.max_sequence());
    let level = family_options.in_memory_compaction.and_then(|level| Level::of_name(level.as_str()));
    // A reader drops cells from memory when the owner has written them to files. So its memory is not compacted.
    let level = if access == Access::Reader { Some(Level::None) } else { level };
    let asked = LevelChoice { is_system: table.name().is_system(), family: level };
    let share = flush_size / table.families().len().max(1) as u64;
    Store::new(family, comparator_of(info), folder, open, tracker, options, (asked, share))
}

/// The logged writes that a region's files contain, by store. It describes the files at the time of its creation.
pub(crate) struct CoveredWrites(Vec<CoveredStore>);

/// The logged writes that the files of one store contain.
pub(crate) struct CoveredStore {
    /// The sequence id up to which the files have all writes.
    flushed: SequenceId,
    later: Vec<LaterWrites>,
}

impl CoveredStore {
    pub(crate) fn of(files: &[Arc<StoreFile>]) -> CoveredStore {
        let flushed = files.iter().map(|file| file.max_sequence()).max().unwrap_or_default();
        CoveredStore { flushed, later: LaterWrites::of(files, flushed) }
    }

    /// Returns the sequence id up to which the files have all writes.
    pub(crate) fn flushed(&self) -> SequenceId {
        self.flushed
    }

    /// Whether the files have this cell, which comes from the log.
    pub(crate) fn has(&mut self, cell: Cell<'_>) -> Result<bool> {
        if cell.sequence() <= self.flushed {
            return Ok(true);
        }
        for file in &mut self.later {
            if file.has(cell)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl CoveredWrites {
    pub(crate) fn of(region: &Region) -> CoveredWrites {
        let mut stores: Vec<CoveredStore> =
            region.stores.iter().map(|store| CoveredStore::of(&store.view.load().files)).collect();
        if env::planted(12) {
            let newest = stores.iter().map(|store| store.flushed).max().unwrap_or_default();
            stores.iter_mut().for_each(|store| store.flushed = newest);
        }
        CoveredWrites(stores)
    }

    /// Returns the sequence id up to which the files of the store at `index` have all writes.
    pub(crate) fn flushed(&self, index: usize) -> SequenceId {
        self.0[index].flushed
    }

    pub(crate) fn replace(&mut self, index: usize, store: CoveredStore) {
        self.0[index] = store;
    }
}

/// A file with some, but not all, writes after the store's flushed sequence id: the flush that wrote it retained the
/// other ones in memory.
struct LaterWrites {
    newest: SequenceId,
    cursor: FileCursor,
}

impl LaterWrites {
    /// Selects from `files` those with writes after `flushed`.
    fn of(files: &[Arc<StoreFile>], flushed: SequenceId) -> Vec<LaterWrites> {
        let beyond = |file: &Arc<StoreFile>| {
            let newest = file.reader.newest_sequence().filter(|newest| *newest > flushed)?;
            Some(LaterWrites { newest, cursor: file.cursor(ReadOptions::default()) })
        };
        files.iter().filter_map(beyond).collect()
    }

    /// Whether the file has this cell.
    fn has(&mut self, cell: Cell<'_>) -> Result<bool> {
        if cell.sequence() > self.newest || !self.cursor.may_contain_row(cell.row())? {
            return Ok(false);
        }
        self.cursor.seek_far(cell.into())?;
        let comparator = self.cursor.reader().comparator();
        Ok(self.cursor.peek().is_some_and(|found| comparator.compare(found.into(), cell.into()).is_eq()))
    }
}

/// Reads a file into the cache in the background, if its family asks for that. Ignores read errors; the next reader of
/// the block reports them. Does nothing if the file is closed meanwhile.
fn prefetch(reader: &Arc<Reader>) {
    if reader.cached().prefetches() {
        let file = Arc::downgrade(reader);
        reader.cached().cache().later(move || {
            if let Some(reader) = file.upgrade() {
                let _read = reader.warm();
            }
        });
    }
}
