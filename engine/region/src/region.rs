//! The region itself: its stores, its state, its counters.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use cache::Cache;
use cell::{CellSink, Comparator, SequenceId};
use env::sync::Mutex;
use env::{WallTime, World};
use proto::descriptor::Durability as TableDurability;
use proto::{RegionInfo, TableDescriptor};
use storage::{FileName, Files};

use crate::ledger::Account;
use crate::locks::RowLocks;
use crate::memory::{InMemory, MemoryLoad};
use crate::mvcc::Mvcc;
use crate::open::Access;
use crate::query::{ReadMode, Scan};
use crate::scanner::{RegionScanner, RowReader};
use crate::store::Store;
use crate::{Error, RegionOptions, Result};

/// In a region of more families nothing is prefetched.
const PREFETCH_FAMILIES_MAX: usize = 2;

/// What only one write at a time may touch.
pub(crate) struct WriteState {
    pub(crate) last_sequence: SequenceId,
    /// The log's ticket of the last write that is in the log.
    pub(crate) last_ticket: Option<wal::Ticket>,
    /// The last write that is not in the log.
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

/// A region that is open. Shared by everybody who uses it.
pub struct Region {
    pub(crate) info: RegionInfo,
    pub(crate) table: Arc<TableDescriptor>,
    pub(crate) access: Access,
    /// Whether it takes no writes: its table says so, or it was opened for reading.
    pub(crate) read_only: bool,
    pub(crate) durability: TableDurability,
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
    /// One flush at a time.
    pub(crate) flushing: Mutex<()>,
    pub(crate) open_sequence: SequenceId,
    /// Records of the log that were put into memory when it was opened.
    pub(crate) replayed: AtomicU64,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) counters: Counters,
    /// What its table costs in bytes written.
    pub(crate) account: Arc<Account>,
    pub(crate) memstore: MemstoreState,
    /// The latest moment of a write, in ms since 1970. It changes under the write lock alone.
    pub(crate) clock: AtomicI64,
    /// Nonces that replay met and nobody has asked for yet.
    pub(crate) recovered_nonces: Mutex<Vec<RecoveredNonce>>,
}

/// Whether the region still serves.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    /// Whether it was closed.
    pub(crate) closed: AtomicBool,
    /// Why it acknowledges nothing any more, once it was aborted.
    pub(crate) aborted: OnceLock<String>,
}

/// Facts about the region's memory that decide when it is flushed.
#[derive(Debug)]
pub(crate) struct MemstoreState {
    /// Bytes in memory when [`Region::memory_change`] was last called.
    pub(crate) accounted: AtomicU64,
    /// When the oldest edit in memory was made, in ms since 1970; 0 for none.
    pub(crate) oldest_edit: AtomicI64,
    /// Whether a flush waits for memory to be compacted.
    pub(crate) awaits_room: AtomicBool,
    /// When the last successful flush of all families began, or the region was opened, in ms since 1970.
    pub(crate) flushed_at: AtomicI64,
}

impl MemstoreState {
    /// The empty memory of a region that is opened at `now`, in ms since 1970.
    pub(crate) fn opened(now: i64) -> MemstoreState {
        MemstoreState {
            accounted: AtomicU64::new(0),
            oldest_edit: AtomicI64::new(0),
            awaits_room: AtomicBool::new(false),
            flushed_at: AtomicI64::new(now),
        }
    }
}

/// A write that an earlier life made under a nonce, as the log tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredNonce {
    /// The client's nonce group.
    pub group: u64,
    /// The client's nonce.
    pub nonce: u64,
    /// When it was written.
    pub time: WallTime,
    /// The write's own sequence id: who reads at it sees what the write made.
    pub sequence: SequenceId,
}

/// What a region is and has done, for whoever shows it.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Per family.
    pub stores: Vec<StoreLoad>,
    /// Bytes in memory.
    pub memstore_bytes: u64,
    /// Bytes in files.
    pub file_bytes: u64,
    /// Sizes of the files' parts.
    pub sizes: hfile::Sizes,
    /// Files.
    pub files: usize,
    /// Rows that a filter has dropped since it was opened.
    pub filtered: u64,
    /// Rows read since it was opened.
    pub reads: u64,
    /// Rows written since it was opened.
    pub writes: u64,
    /// Cells that compactions since it was opened had before them.
    pub compacting_cells: u64,
    /// Cells of those that they have gone over.
    pub compacted_cells: u64,
    /// When the oldest edit in memory was made.
    pub oldest_edit: Option<WallTime>,
    /// When the oldest of the files that major compactions have made was made; `None` if there is none.
    pub last_major_compaction: Option<WallTime>,
    /// Everything up to and with this one is in files.
    pub flushed_sequence: SequenceId,
}

/// What a store has.
#[derive(Clone, Debug)]
pub struct StoreLoad {
    /// The family.
    pub family: Bytes,
    /// Files.
    pub files: usize,
    /// Bytes in files.
    pub file_bytes: u64,
    /// Bytes in memory.
    pub memstore_bytes: u64,
    /// What it has in memory, and what it did there.
    pub memory: MemoryLoad,
    /// Everything up to and with this one is in files.
    pub flushed_sequence: SequenceId,
}

impl Region {
    /// Who it is.
    pub fn info(&self) -> &RegionInfo {
        &self.info
    }

    /// Its table, as it was when the region was opened.
    pub fn table(&self) -> &Arc<TableDescriptor> {
        &self.table
    }

    /// The sequence id it was opened with: greater than that of every earlier write.
    pub fn open_sequence(&self) -> SequenceId {
        self.open_sequence
    }

    /// How many records of the log its opening has put into memory.
    pub fn replayed(&self) -> u64 {
        self.replayed.load(Ordering::Relaxed)
    }

    /// The nonces of the writes that replay has met, also of those that were in files already. They are given once.
    pub fn take_recovered_nonces(&self) -> Vec<RecoveredNonce> {
        std::mem::take(&mut self.recovered_nonces.lock())
    }

    /// Everything up to and with this is complete.
    pub fn read_point(&self) -> SequenceId {
        self.mvcc.read_point()
    }

    pub(crate) fn store(&self, family: &[u8]) -> Result<&Store> {
        self.store_index(family).map(|index| &self.stores[index])
    }

    /// Where the store of a family is among the others, which are in the order of their families.
    pub(crate) fn store_index(&self, family: &[u8]) -> Result<usize> {
        self.stores.iter().position(|store| store.family == family).ok_or_else(|| Error::NoSuchFamily {
            family: family.escape_ascii().to_string(),
            region: self.info.name().escape_ascii().to_string(),
            table: self.table.name().to_string(),
        })
    }

    pub(crate) fn check_serving(&self) -> Result<()> {
        if self.lifecycle.closed.load(Ordering::Acquire) {
            return Err(Error::NotServing(self.info.name().escape_ascii().to_string()));
        }
        match self.lifecycle.aborted.get() {
            Some(cause) => Err(Error::Aborted(cause.clone())),
            None => Ok(()),
        }
    }

    /// Refuses a row that is too long for a cell, or that lies outside the region; `what` names the operation.
    pub(crate) fn check_row(&self, row: &[u8], what: &'static str) -> Result<()> {
        check_row_length(row)?;
        if self.info.is_meta() || self.info.contains_row(row) {
            return Ok(());
        }
        Err(Error::WrongRegion {
            what,
            region: self.info.name().escape_ascii().to_string(),
            start: self.info.start_key().escape_ascii().to_string(),
            end: self.info.end_key().escape_ascii().to_string(),
            row: row.escape_ascii().to_string(),
        })
    }

    /// The region acknowledges nothing any more; `cause` says why.
    pub(crate) fn abort(&self, cause: String) -> Error {
        let cause = self.lifecycle.aborted.get_or_init(|| cause).clone();
        self.mvcc.wake_all();
        Error::Aborted(cause)
    }

    /// Reads one row. Says how many cells were given.
    pub fn get(self: &Arc<Self>, scan: &Scan, mode: ReadMode, sink: &mut dyn CellSink) -> Result<usize> {
        self.check_get(&scan.start)?;
        RegionScanner::open(Arc::clone(self), Cow::Borrowed(scan))?.read_only_row(mode, sink)
    }

    /// Is told of rows that are read soon, at best some ten of them: what they need is asked of memory for all at once. Where it is
    /// not likely known what that is, nothing is done.
    pub fn prefetch_rows(&self, rows: &[&[u8]]) {
        // Of many families a reader mostly wants one. Rows that no cell has are refused by who asks for them, and nothing tells
        // those of the catalog apart without a look at them.
        let are_rows = rows.iter().all(|row| (1..=cell::ROW_LENGTH_MAX).contains(&row.len()));
        let is_worth_it =
            rows.len() > 1 && self.stores.len() <= PREFETCH_FAMILIES_MAX && !self.info.is_meta();
        if is_worth_it && are_rows {
            self.stores.iter().for_each(|store| store.prefetch_rows(rows));
        }
    }

    /// What reads rows as `scan` asks, a get without a filter, one after the other. They see what is complete now.
    pub fn row_reader(self: &Arc<Self>, scan: Scan) -> Result<RowReader> {
        RowReader::open(Arc::clone(self), scan)
    }

    /// Whether `row` may be read here.
    pub(crate) fn check_get(&self, row: &[u8]) -> Result<()> {
        if row.is_empty() {
            return Err(Error::BadRequest("Row length can't be 0".to_owned()));
        }
        self.check_row(row, "get")
    }

    /// Opens a scanner, which sees what is complete now.
    ///
    /// The scan's rows may lie outside the region, as in HBase: the scanner returns what the region has of them.
    pub fn scanner(self: &Arc<Self>, scan: Scan) -> Result<RegionScanner<'static>> {
        self.check_serving()?;
        check_row_length(&scan.start)?;
        check_row_length(&scan.stop)?;
        RegionScanner::open(Arc::clone(self), Cow::Owned(scan))
    }

    /// Counts rows that a scanner has passed over because of its filter.
    pub fn count_filtered(&self, rows: u64) {
        if rows > 0 {
            self.counters.filtered.fetch_add(rows, Ordering::Relaxed);
        }
    }

    /// Bytes in memory, of all stores.
    pub fn memstore_bytes(&self) -> u64 {
        self.stores.iter().map(Store::memstore_bytes).sum()
    }

    /// By how many bytes its memory has grown, or shrunk, since this was last asked: for whoever adds regions up.
    pub fn memory_change(&self, memory: InMemory) -> i64 {
        let bytes = memory.bytes;
        bytes.wrapping_sub(self.memstore.accounted.swap(bytes, Ordering::Relaxed)) as i64
    }

    /// Whether some store has more files than a region that flushes should add to (`hbase.hstore.blockingStoreFiles`).
    pub fn has_too_many_files(&self) -> bool {
        self.stores.iter().any(|store| store.view.load().files.len() > store.tuning.load().blocking_files)
    }

    /// From now on stores follow `options`: what is about compactions, in memory and of
    /// files, and about markers. The rest needs another opening.
    pub fn tune(&self, options: &RegionOptions) {
        for store in &self.stores {
            let tuning = options.families.get(&store.family).unwrap_or(options);
            store.accordion.tune(tuning);
            store.tuning.store(Arc::new(tuning.clone()));
        }
    }

    /// Bytes in memory at which it is time to flush.
    pub fn flush_size(&self) -> u64 {
        self.flush_size
    }

    /// What it is and has done.
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

    /// The names of the files of some families, oldest first within each; of all when none is named.
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

    /// A row at which the region would best be cut in two: the middle of the largest file of its largest store. `None`
    /// when there is none: no files, or all lies in one row, or files are halves of others and must be compacted first. May
    /// touch the disk.
    pub fn best_split_row(&self) -> Result<Option<Bytes>> {
        let size = |store: &&Store| store.view.load().files.iter().map(|file| file.size()).sum::<u64>();
        let Some(largest) = self.stores.iter().max_by_key(size) else { return Ok(None) };
        let file = largest.view.load().files.iter().max_by_key(|file| file.size()).cloned();
        let Some(file) = file.filter(|_| !self.info.is_meta() && !self.has_references()) else {
            return Ok(None);
        };
        let middle = file.reader.middle_row()?.map(Bytes::from);
        // The region's own start would leave nothing on one side.
        Ok(middle.filter(|row| row != self.info.start_key()))
    }

    /// Drops the blocks of its files from the cache. Returns how many there were.
    pub fn evict_blocks(&self) -> usize {
        let files = |store: &Store| store.view.load().files.clone();
        self.stores.iter().flat_map(files).map(|file| file.reader.cached().evict()).sum()
    }

    /// The folder of one of its stores.
    pub(crate) fn store_folder(folder: &FileName, family: &[u8]) -> FileName {
        folder.join(&String::from_utf8_lossy(family))
    }
}

/// Refuses a row that is too long for a cell.
fn check_row_length(row: &[u8]) -> Result<()> {
    match row.len() {
        0..=cell::ROW_LENGTH_MAX => Ok(()),
        length => Err(Error::BadRequest(format!("Row length {length} is > {}", cell::ROW_LENGTH_MAX))),
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region")
            .field("name", &self.info.name().escape_ascii().to_string())
            .finish_non_exhaustive()
    }
}
