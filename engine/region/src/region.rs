//! The region itself: its stores, its state, its counters.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use cache::Cache;
use cell::{Comparator, SequenceId, string_binary};
use env::sync::{Mutex, RwLock};
use env::{WallTime, World};
use proto::descriptor::Durability as TableDurability;
use proto::{RegionInfo, TableDescriptor};
use storage::{FileName, Files};

use crate::accordion::{InMemory, MemoryLoad};
use crate::bulk_load_note::KnownNote;
use crate::compaction_policy::stripe::{StripeSplit, split_between};
use crate::ledger::Account;
use crate::locks::RowLocks;
use crate::mvcc::Mvcc;
use crate::options::Access;
use crate::recent_loads::RecentLoads;
use crate::store::Store;
use crate::store_file::StoreFile;
use crate::stripes::{Stripe, Stripes};
use crate::{Error, RegionOptions, Result};

/// Maximum number of families of a region whose rows are prefetched.
const PREFETCH_FAMILIES_MAX: usize = 2;

/// State that only the holder of the write lock may touch.
pub(crate) struct WriteState {
    pub(crate) last_sequence: SequenceId,
    /// The log ticket of the last logged write; `None` if there was none.
    pub(crate) last_ticket: Option<wal::Ticket>,
    /// The sequence id of the last write without a log record.
    pub(crate) last_unlogged: SequenceId,
    pub(crate) closing: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    reads: AtomicU64,
    filtered: AtomicU64,
    writes: AtomicU64,
    pub(crate) compacting_cells: AtomicU64,
    pub(crate) compacted_cells: AtomicU64,
}

impl Counters {
    pub(crate) fn rows_read(&self, rows: u64) {
        self.reads.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn rows_written(&self, rows: u64) {
        self.writes.fetch_add(rows, Ordering::Relaxed);
    }
}

/// An open region, shared by all its users.
pub struct Region {
    pub(crate) info: RegionInfo,
    pub(crate) table: ArcSwap<TableDescriptor>,
    pub(crate) access: Access,
    /// Whether the region refuses writes: its table is read-only, or it was opened for reading.
    pub(crate) read_only: bool,
    pub(crate) durability: TableDurability,
    /// Whether writes use the reserve of the log on a full disk: those of the catalog, without which no table is dropped.
    pub(crate) uses_reserve: bool,
    pub(crate) flush_size: u64,
    pub(crate) comparator: Comparator,
    pub(crate) stores: Vec<Store>,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) log: Arc<wal::Log>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) world: World,
    pub(crate) options: RegionOptions,
    pub(crate) mvcc: Mvcc,
    pub(crate) locks: RowLocks,
    pub(crate) write: Mutex<WriteState>,
    /// Locked by the running flush.
    pub(crate) flushing: Mutex<()>,
    /// Locked by the running bulk load.
    pub(crate) bulk_loads: Mutex<RecentLoads>,
    /// Locked exclusively while a bulk load changes the lists of several stores, and shared while a compaction changes
    /// one.
    pub(crate) listing: RwLock<()>,
    /// The note of bulk loads as this opening knows it. Locked only while `listing` is locked exclusively.
    pub(crate) bulk_load_note: Mutex<KnownNote>,
    /// Whether the end of the last bulk load could not be recorded yet. Changed only while `listing` is locked
    /// exclusively.
    pub(crate) is_note_left: AtomicBool,
    /// The files of a bulk load that has aborted the region. They stay in use, because the next opening needs them.
    pub(crate) unfinished_load: Mutex<Vec<Arc<StoreFile>>>,
    pub(crate) open_sequence: SequenceId,
    /// Number of log records that were replayed into memory when the region was opened.
    pub(crate) replayed: AtomicU64,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) counters: Counters,
    /// The account of bytes written for the region's table.
    pub(crate) account: Arc<Account>,
    pub(crate) memstore: MemstoreState,
    /// The latest time of a write, in ms since 1970. Changes only under the write lock.
    pub(crate) clock: AtomicI64,
    /// Nonces that replay has found, until [`Region::take_recovered_nonces`] takes them.
    pub(crate) recovered_nonces: Mutex<Vec<RecoveredNonce>>,
}

/// Whether the region still serves requests.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    /// Whether the region was closed.
    pub(crate) closed: AtomicBool,
    /// Whether the closed region has writes that are in no file, because the disk was full.
    pub(crate) unflushed: AtomicBool,
    /// Why the region was aborted; it acknowledges nothing afterwards.
    pub(crate) aborted: OnceLock<String>,
    /// Whether the region closes soon, so that no compaction begins and a large one ends.
    pub(crate) closes_soon: AtomicBool,
}

/// Facts about the region's memory that decide when it is flushed.
#[derive(Debug)]
pub(crate) struct MemstoreState {
    /// Bytes in memory when [`Region::memory_change`] was last called.
    pub(crate) accounted: AtomicU64,
    /// When the oldest edit in memory was made, in ms since 1970; 0 for none.
    pub(crate) oldest_edit: AtomicI64,
    /// Whether a flush waits until memory was compacted.
    pub(crate) awaits_room: AtomicBool,
    /// When the last successful flush of all families began, or the region was opened, in ms since 1970.
    pub(crate) flushed_at: AtomicI64,
}

impl MemstoreState {
    /// Returns the state of a region without edits in memory that is opened at `now`, in ms since 1970.
    pub(crate) fn opened(now: i64) -> MemstoreState {
        MemstoreState {
            accounted: AtomicU64::new(0),
            oldest_edit: AtomicI64::new(0),
            awaits_room: AtomicBool::new(false),
            flushed_at: AtomicI64::new(now),
        }
    }
}

/// A write with a nonce that replay has found in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredNonce {
    /// The client's nonce group.
    pub group: u64,
    /// The client's nonce.
    pub nonce: u64,
    /// When the write was made.
    pub time: WallTime,
    /// The write's sequence id: a reader at this read point sees its result.
    pub sequence: SequenceId,
}

/// Sizes and counters of a region.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// The sizes and counters of each store.
    pub stores: Vec<StoreLoad>,
    /// Bytes in memory.
    pub memstore_bytes: u64,
    /// Bytes in files.
    pub file_bytes: u64,
    /// Sizes of the files' indexes and filters.
    pub sizes: hfile::Sizes,
    /// Number of store files.
    pub files: usize,
    /// Number of rows that filters have dropped since the region was opened.
    pub filtered: u64,
    /// Number of rows read since the region was opened.
    pub reads: u64,
    /// Number of rows written since the region was opened.
    pub writes: u64,
    /// Number of cells in the files of all compactions that began since the region was opened, without those that
    /// failed.
    pub compacting_cells: u64,
    /// Number of cells that compactions have read since the region was opened, without those that failed.
    pub compacted_cells: u64,
    /// When the oldest edit in memory was written.
    pub oldest_edit: Option<WallTime>,
    /// Creation time of the oldest file that a major compaction wrote; `None` if there is none.
    pub last_major_compaction: Option<WallTime>,
    /// The sequence id up to which all writes are in files.
    pub flushed_sequence: SequenceId,
}

/// Sizes and counters of a store.
#[derive(Clone, Debug)]
pub struct StoreLoad {
    /// The name of the store's family.
    pub family: Bytes,
    /// Number of files.
    pub files: usize,
    /// Bytes in files.
    pub file_bytes: u64,
    /// Bytes in memory.
    pub memstore_bytes: u64,
    /// The store's segments, and counters of its memory.
    pub memory: MemoryLoad,
    /// The sequence id up to which all writes of the store are in files.
    pub flushed_sequence: SequenceId,
}

impl Region {
    /// Returns the region's name, keys and id.
    pub fn info(&self) -> &RegionInfo {
        &self.info
    }

    /// Returns the table's descriptor, as of the opening or the last [alteration](Region::alter).
    pub fn table(&self) -> Guard<Arc<TableDescriptor>> {
        self.table.load()
    }

    /// Returns the sequence id with which the region was opened. It is greater than the sequence id of every earlier
    /// write.
    pub fn open_sequence(&self) -> SequenceId {
        self.open_sequence
    }

    /// Returns the number of log records that the opening of the region replayed into memory.
    pub fn replayed(&self) -> u64 {
        self.replayed.load(Ordering::Relaxed)
    }

    /// Returns the nonces of all writes that replay has found, including writes that were already in files. A second
    /// call returns none.
    pub fn take_recovered_nonces(&self) -> Vec<RecoveredNonce> {
        std::mem::take(&mut self.recovered_nonces.lock())
    }

    /// Returns the sequence id up to which all writes are complete.
    pub fn read_point(&self) -> SequenceId {
        self.mvcc.read_point()
    }

    pub(crate) fn store(&self, family: &[u8]) -> Result<&Store> {
        self.store_index(family).map(|index| &self.stores[index])
    }

    /// Returns the index of a family's store; stores are in the order of their families.
    pub(crate) fn store_index(&self, family: &[u8]) -> Result<usize> {
        self.stores.iter().position(|store| store.family == family).ok_or_else(|| Error::NoSuchFamily {
            family: string_binary(family).to_string(),
            region: string_binary(self.info.name()).to_string(),
            table: self.info.table().to_string(),
        })
    }

    /// Returns the store of a family that takes puts.
    pub(crate) fn store_for_puts(&self, family: &[u8]) -> Result<&Store> {
        let store = self.store(family)?;
        if store.refuses_puts.load(Ordering::Relaxed) {
            return Err(Error::FamilyIsDeleted {
                family: string_binary(family).to_string(),
                region: string_binary(self.info.name()).to_string(),
                table: self.info.table().to_string(),
            });
        }
        Ok(store)
    }

    pub(crate) fn check_serving(&self) -> Result<()> {
        if self.lifecycle.closed.load(Ordering::Acquire) {
            return Err(Error::NotServing(string_binary(self.info.name()).to_string()));
        }
        self.check_not_aborted()
    }

    /// Fails if the region was [aborted](Region::abort).
    pub(crate) fn check_not_aborted(&self) -> Result<()> {
        match self.lifecycle.aborted.get() {
            Some(cause) => Err(Error::Aborted(cause.clone())),
            None => Ok(()),
        }
    }

    /// Refuses a row that is too long for a cell, or that lies outside the region; `what` names the operation. A region
    /// of `hbase:meta` accepts any row.
    pub(crate) fn check_row(&self, row: &[u8], what: &'static str) -> Result<()> {
        check_row_length(row)?;
        if self.info.is_meta() || self.info.contains_row(row) {
            return Ok(());
        }
        Err(Error::WrongRegion {
            what,
            region: string_binary(self.info.name()).to_string(),
            start: string_binary(self.info.start_key()).to_string(),
            end: string_binary(self.info.end_key()).to_string(),
            row: string_binary(row).to_string(),
        })
    }

    /// Aborts the region for `cause`: it acknowledges nothing afterwards. Returns the error for the caller.
    pub(crate) fn abort(&self, cause: String) -> Error {
        let cause = self.lifecycle.aborted.get_or_init(|| cause).clone();
        self.mvcc.wake_all();
        // If the log has failed, the server ends for that reason, and need not be told of this region.
        if self.log.failure().is_none() {
            let region = string_binary(self.info.name());
            self.options.first_abort.record(|| format!("region {region} was aborted: {cause}"));
        }
        Error::Aborted(cause)
    }

    /// Aborts the region if a commit failed because another server has taken a store's list: this server does not own its
    /// files any more, and nothing that it acknowledged from now on could be flushed. Returns the error.
    pub(crate) fn abort_if_fenced(&self, error: Error) -> Error {
        if let Error::Fenced { .. } = error {
            self.options.is_fenced.store(true, Ordering::Release);
            drop(self.abort(error.to_string()));
        }
        error
    }

    /// Prefetches into the CPU's caches the memory that reads of `rows` will need, for all of them at once; about ten
    /// rows are best. Does nothing where that is not likely to help.
    pub fn prefetch_rows(&self, rows: &[&[u8]]) {
        // Prefetches only where it helps. With many families, a reader mostly wants one of them. Invalid rows are
        // refused later, by the read. Rows of the catalog have an order of their own.
        let are_rows = rows.iter().all(|row| (1..=cell::ROW_LENGTH_MAX).contains(&row.len()));
        let is_worth_it =
            rows.len() > 1 && self.stores.len() <= PREFETCH_FAMILIES_MAX && !self.info.is_meta();
        if is_worth_it && are_rows {
            self.stores.iter().for_each(|store| store.prefetch_rows(rows));
        }
    }

    /// Counts rows that a scanner has skipped because of its filter.
    pub fn count_filtered(&self, rows: u64) {
        if rows > 0 {
            self.counters.filtered.fetch_add(rows, Ordering::Relaxed);
        }
    }

    /// Returns the number of bytes in memory, of all stores.
    pub fn memstore_bytes(&self) -> u64 {
        self.stores.iter().map(Store::memstore_bytes).sum()
    }

    /// Returns by how many bytes the region's memory has changed since the last call. The caller adds this to the total
    /// of all regions.
    pub fn memory_change(&self, memory: InMemory) -> i64 {
        let bytes = memory.bytes;
        bytes.wrapping_sub(self.memstore.accounted.swap(bytes, Ordering::Relaxed)) as i64
    }

    /// Whether some store has so many files that a flush should wait (`hbase.hstore.blockingStoreFiles`).
    pub fn has_too_many_files(&self) -> bool {
        self.stores.iter().any(|store| store.view.load().files.len() > store.tuning.load().blocking_files)
    }

    /// Applies `options` to all stores, as far as they concern compactions (in memory and of files) and delete markers.
    /// Other options take effect when the region is opened again.
    pub fn tune(&self, options: &RegionOptions) {
        for store in &self.stores {
            let tuning = Store::tuning_of(options, &store.family, store.comparator);
            store.accordion.tune(&tuning);
            store.tuning.store(Arc::new(tuning));
        }
    }

    /// Returns the region's flush size in bytes. A region that compacts in memory may flush only at more bytes.
    pub fn flush_size(&self) -> u64 {
        self.flush_size
    }

    /// Returns the region's current sizes and counters.
    pub fn load(&self) -> Load {
        let mut load = Load {
            reads: self.counters.reads.load(Ordering::Relaxed),
            filtered: self.counters.filtered.load(Ordering::Relaxed),
            writes: self.counters.writes.load(Ordering::Relaxed),
            compacting_cells: self.counters.compacting_cells.load(Ordering::Relaxed),
            compacted_cells: self.counters.compacted_cells.load(Ordering::Relaxed),
            flushed_sequence: SequenceId::MAX,
            ..Load::default()
        };
        let mut oldest_major = None;
        for store in &self.stores {
            let view = store.view.load();
            let file_bytes = view.files.iter().map(|file| file.size()).sum();
            let flushed = view.files.iter().map(|file| file.max_sequence()).max().unwrap_or_default();
            let memstore_bytes = view.memory_bytes();
            for file in &view.files {
                let sizes = file.reader.sizes();
                load.sizes.uncompressed += sizes.uncompressed;
                load.sizes.index += sizes.index;
                load.sizes.root_index += sizes.root_index;
                load.sizes.bloom += sizes.bloom;
                if let Some(created) = file.reader.created().filter(|_| file.reader.is_major()) {
                    oldest_major = Some(oldest_major.unwrap_or(created).min(created));
                }
            }
            load.files += view.files.len();
            load.file_bytes += file_bytes;
            load.memstore_bytes += memstore_bytes;
            load.flushed_sequence = load.flushed_sequence.min(flushed);
            load.stores.push(StoreLoad {
                family: store.family.clone(),
                files: view.files.len(),
                file_bytes,
                memstore_bytes,
                memory: store.memory_load(&view),
                flushed_sequence: flushed,
            });
        }
        let edit = self.memstore.oldest_edit.load(Ordering::Relaxed);
        load.oldest_edit = (edit != 0 && load.memstore_bytes > 0).then_some(WallTime(edit));
        load.last_major_compaction = oldest_major.map(WallTime);
        load
    }

    /// Returns the names of the files of some families, oldest first within each family; of all families if none is
    /// named.
    pub fn file_names(&self, families: &[Bytes]) -> Result<Vec<FileName>> {
        for family in families {
            self.store(family)?;
        }
        let asked = |store: &&Store| families.is_empty() || families.contains(&store.family);
        let names = |store: &Store| {
            store.view.load().files.iter().map(|file| file.reader.name().clone()).collect::<Vec<_>>()
        };
        Ok(self.stores.iter().filter(asked).flat_map(names).collect())
    }

    /// Returns the best row for a split: the middle of the largest file of the largest store, or the border of two of
    /// its stripes. Returns `None` if there are no files, if the file has only one row, if its middle is the region's
    /// first row, or if some files are references, which must be compacted first. Also returns `None` for `hbase:meta`.
    /// May read from storage.
    pub fn best_split_row(&self) -> Result<Option<Bytes>> {
        let size = |store: &&Store| store.view.load().files.iter().map(|file| file.size()).sum::<u64>();
        let Some(largest) = self.stores.iter().max_by_key(size) else { return Ok(None) };
        if self.info.is_meta() || self.has_references() {
            return Ok(None);
        }
        let mut files = largest.view.load().files.clone();
        if let Some(Stripes { stripes, .. }) = largest.stripes(&files) {
            let size = |stripe: &Stripe| stripe.files.iter().map(|index| files[*index].size()).sum();
            let sizes: Vec<u64> = stripes.iter().map(size).collect();
            match split_between(&sizes, &largest.tuning.load().stripe) {
                StripeSplit::AnyFile => {}
                StripeSplit::After(stripe) => return Ok(Some(stripes[stripe].range.end.clone())),
                StripeSplit::Within(stripe) => {
                    files = stripes[stripe].files.iter().map(|index| Arc::clone(&files[*index])).collect();
                }
            }
        }
        let Some(file) = files.iter().max_by_key(|file| file.size()) else { return Ok(None) };
        let middle = file.reader.middle_row()?.map(Bytes::from);
        // If the middle row is the region's first row, a split there would leave one side empty.
        Ok(middle.filter(|row| row != self.info.start_key()))
    }

    /// Drops the blocks of the region's files from the cache, and returns their number.
    pub fn evict_blocks(&self) -> usize {
        let files = |store: &Store| store.view.load().files.clone();
        self.stores.iter().flat_map(files).map(|file| file.reader.cached().evict()).sum()
    }

    /// Returns the folder of one of the region's stores.
    pub(crate) fn store_folder(folder: &FileName, family: &[u8]) -> FileName {
        folder.join(&String::from_utf8_lossy(family))
    }
}

/// Refuses a row that is too long for a cell.
pub(crate) fn check_row_length(row: &[u8]) -> Result<()> {
    match row.len() {
        0..=cell::ROW_LENGTH_MAX => Ok(()),
        length => Err(Error::RowTooLong(length)),
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region")
            .field("name", &string_binary(self.info.name()).to_string())
            .finish_non_exhaustive()
    }
}
