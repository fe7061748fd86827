//! Limits of a region.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use memstore::{Level, Pool};

use crate::{Ledger, OpenFiles};

/// What a region is opened with. Attributes of its table go before these.
#[derive(Clone, Debug)]
pub struct RegionOptions {
    /// Bytes in memory after which a region flushes (`hbase.hregion.memstore.flush.size`).
    pub flush_size: u64,
    /// At this many flush sizes it takes no writes (`hbase.hregion.memstore.block.multiplier`).
    pub block_multiplier: u64,
    /// Where memstores get their memory (`hbase.hregion.memstore.mslab.chunksize`, `…chunkpool.maxsize`). The regions
    /// of a server share it.
    pub memory: Arc<Pool>,
    /// What tables cost in bytes written. The regions of a server share it.
    pub ledger: Arc<Ledger>,
    /// The store files that somebody has in hand. The regions of a server share it.
    pub open_files: Arc<OpenFiles>,
    /// How stores compact in memory whose family does not say (`hbase.hregion.compacting.memstore.type`).
    pub in_memory_compaction: Level,
    /// How stores of the system's tables do (`hbase.systemtables.compacting.memstore.type`).
    pub in_memory_compaction_of_system: Level,
    /// At which part of the flush size, divided among a region's stores, an active segment is sealed; 0 for a quarter
    /// (`hbase.memstore.inmemoryflush.threshold.factor`).
    pub in_memory_flush_factor: f64,
    /// Sealed segments that a read visits before they are merged (`hbase.hregion.compacting.pipeline.segments.limit`).
    pub pipeline_segments_max: usize,
    /// At [`Level::Adaptive`], the share of cells that must stay at most for dropping the others to pay
    /// (`hbase.memstore.adaptive.compaction.threshold`).
    pub adaptive_unique_max: f64,
    /// How many flush sizes a region may hold in memory whose stores compact there, while the server's memory has room
    /// (`bellows.memstore.stretch`); 1 for one. Never more than half of `block_multiplier`.
    pub stretch: f64,
    /// Of what a store at [`Level::Adaptive`] has in memory, the part that a flush may leave there which is for the sake of
    /// memory: what was rewritten since the last one (`bellows.memstore.flush.keep`); 0 for nothing.
    pub flush_keeps: f64,
    /// Of the bytes that would stay, the share that must be expected to be replaced before the next flush
    /// (`bellows.memstore.flush.keep.gain.min`).
    pub flush_keeps_gain_min: f64,
    /// Whether delete markers go from memory with what they mask, where nothing else can have the row, and are
    /// remembered (`bellows.memstore.drop.markers`).
    pub drop_markers: bool,
    /// Whether a put that the server stamps waits for the next millisecond after a delete of its row in this one
    /// (`bellows.put.waits.for.delete`).
    pub put_waits_for_delete: bool,
    /// How long a write waits for its row (`hbase.rowlock.wait.duration`).
    pub row_lock_wait: Duration,
    /// How far in the future a timestamp may lie, in ms; `None` for any
    /// (`hbase.hregion.keyvalue.timestamp.slop.millisecs`).
    pub timestamp_slop: Option<i64>,
    /// Bytes of one cell (`hbase.server.keyvalue.maxsize`); `None` for no limit.
    pub cell_size_max: Option<usize>,
    /// Bytes of a row that is read whole (`hbase.table.max.rowsize`).
    pub row_size_max: u64,
    /// Whether an acknowledged write is on the disk (true) or handed to the system (`hbase.wal.hsync`).
    pub sync_to_disk: bool,
    /// Files of a store from which on a minor compaction is looked for (`hbase.hstore.compaction.min`).
    pub compaction_files_min: usize,
    /// Files that one minor compaction takes at most (`hbase.hstore.compaction.max`).
    pub compaction_files_max: usize,
    /// How much larger than the others together a file of a selection may be (`hbase.hstore.compaction.ratio`).
    pub compaction_ratio: f64,
    /// Files that measure less together are taken whatever the ratio (`hbase.hstore.compaction.min.size`), in bytes. As much
    /// as the table's flushes unless it is said.
    pub compaction_size_min: Option<u64>,
    /// Files above this size are not taken by minor compactions (`hbase.hstore.compaction.max.size`), in bytes.
    pub compaction_size_max: u64,
    /// Files of a store from which on a region that must flush waits (`hbase.hstore.blockingStoreFiles`).
    pub blocking_files: usize,
    /// How long markers are kept by major compactions, in ms (`hbase.hstore.time.to.purge.deletes`).
    pub purge_deletes_after: i64,
    /// How often every store is rewritten whole; zero for never (`hbase.hregion.majorcompaction`).
    pub major_period: Duration,
    /// The share of the period by which that moment varies from store to store (`hbase.hregion.majorcompaction.jitter`).
    pub major_jitter: f64,
    /// What families override of the above, as far as it is about stores: compactions, files, markers.
    pub families: BTreeMap<Bytes, RegionOptions>,
}

impl RegionOptions {
    /// Chunks that the pool of default options keeps for later.
    pub const CHUNKS_KEPT: usize = 64;
}

impl Default for RegionOptions {
    fn default() -> RegionOptions {
        RegionOptions {
            flush_size: 128 << 20,
            block_multiplier: 4,
            memory: Pool::new(memstore::CHUNK_SIZE_MAX, RegionOptions::CHUNKS_KEPT),
            ledger: Arc::default(),
            open_files: Arc::default(),
            in_memory_compaction: Level::Adaptive,
            in_memory_compaction_of_system: Level::None,
            in_memory_flush_factor: 0.0,
            pipeline_segments_max: 2,
            adaptive_unique_max: 0.5,
            stretch: 2.0,
            flush_keeps: 0.5,
            flush_keeps_gain_min: 0.25,
            drop_markers: true,
            put_waits_for_delete: false,
            row_lock_wait: Duration::from_secs(30),
            timestamp_slop: None,
            cell_size_max: Some(10 << 20),
            row_size_max: 1 << 30,
            sync_to_disk: true,
            compaction_files_min: 3,
            compaction_files_max: 10,
            compaction_ratio: 1.2,
            compaction_size_min: None,
            compaction_size_max: u64::MAX,
            blocking_files: 16,
            purge_deletes_after: 0,
            major_period: Duration::from_secs(7 * 24 * 3600),
            major_jitter: 0.5,
            families: BTreeMap::new(),
        }
    }
}
