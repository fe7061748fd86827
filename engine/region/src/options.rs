//! The options of a region.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use bytes::Bytes;
use env::FirstFailure;
use memstore::{Level, Pool};

use crate::{CompactionPolicy, DateTieredOptions, Ledger, OpenFiles, StripeOptions, WriteBudget};

/// The rights that an opened region has on its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The region may flush, compact and have files deleted. Only one region in a cluster has this access.
    Owner,
    /// The region may only read. Any number of regions may have this access, beside the owner.
    Reader,
}

/// The options with which a region is opened. Attributes of its table take precedence.
#[derive(Clone, Debug)]
pub struct RegionOptions {
    /// Bytes in memory at which a region flushes (`hbase.hregion.memstore.flush.size`).
    pub flush_size: u64,
    /// Number of flush sizes in memory above which a region refuses writes (`hbase.hregion.memstore.block.multiplier`).
    pub block_multiplier: u64,
    /// The chunk pool of the memstores (`hbase.hregion.memstore.mslab.chunksize`, `…chunkpool.maxsize`), shared by all
    /// regions of a server.
    pub memory: Arc<Pool>,
    /// Write amplification of the tables, shared by all regions of a server.
    pub ledger: Arc<Ledger>,
    /// The rate at which flushes may write, shared by all regions of a server.
    pub flush_budget: Arc<WriteBudget>,
    /// The store files in use, shared by all regions of a server.
    pub open_files: Arc<OpenFiles>,
    /// Where regions report that they were aborted, shared by all regions of a server. A region aborts when it cannot
    /// know whether a change happened. It can be opened again only by a restart of the server, which replays the log.
    /// So the server ends, like a region server of HBase, and its supervisor starts it again.
    pub first_abort: Arc<FirstFailure>,
    /// Whether a region was aborted because another server had taken a store's list. All regions of a server share it. That
    /// server owns the files now, so this one must not be started again by its supervisor.
    pub is_fenced: Arc<AtomicBool>,
    /// Number of calls whose writes were refused because the memstores of a region, or of all regions, were full. All
    /// regions of a server share it.
    pub refused_writes: Arc<AtomicU64>,
    /// In-memory compaction of stores whose family does not set it (`hbase.hregion.compacting.memstore.type`).
    pub in_memory_compaction: Level,
    /// In-memory compaction of stores of system tables (`hbase.systemtables.compacting.memstore.type`).
    pub in_memory_compaction_of_system: Level,
    /// Fraction of the store's part of the flush size at which an active segment is sealed; 0 stands for a quarter
    /// (`hbase.memstore.inmemoryflush.threshold.factor`).
    pub in_memory_flush_factor: f64,
    /// Number of sealed segments above which they are merged (`hbase.hregion.compacting.pipeline.segments.limit`).
    pub pipeline_segments_max: usize,
    /// At [`Level::Adaptive`], redundant cells are dropped if at most this share of the cells remains
    /// (`hbase.memstore.adaptive.compaction.threshold`).
    pub adaptive_unique_max: f64,
    /// Number of flush sizes that a region may hold in memory while the server's memory has room, if its stores compact
    /// in memory (`bellows.memstore.stretch`). At least 1, at most half of `block_multiplier`.
    pub stretch: f64,
    /// At [`Level::Adaptive`], the fraction of a store's memory that a flush may retain if its purpose is to free
    /// memory. It retains rows that were rewritten since the last flush (`bellows.memstore.flush.keep`). 0 retains
    /// nothing.
    pub flush_keeps: f64,
    /// Rows are retained only if at least this share of their bytes is expected to be replaced before the next flush
    /// (`bellows.memstore.flush.keep.gain.min`).
    pub flush_keeps_gain_min: f64,
    /// Whether a memory compaction drops delete markers together with the cells that they mask
    /// (`bellows.memstore.drop.markers`). It does so only for rows that have cells nowhere else, and records the
    /// dropped markers.
    pub drop_markers: bool,
    /// Whether a put that the server stamps waits for the next millisecond if its row had a delete in the present one
    /// (`bellows.put.waits.for.delete`).
    pub put_waits_for_delete: bool,
    /// Maximum time that a write waits for a row lock (`hbase.rowlock.wait.duration`).
    pub row_lock_wait: Duration,
    /// How far in the future a timestamp may be, in ms; `None` for any
    /// (`hbase.hregion.keyvalue.timestamp.slop.millisecs`).
    pub timestamp_slop: Option<i64>,
    /// Maximum size of a cell in bytes (`hbase.server.keyvalue.maxsize`); `None` for no limit.
    pub cell_size_max: Option<usize>,
    /// Maximum size in bytes of a row that a read returns whole (`hbase.table.max.rowsize`).
    pub row_size_max: u64,
    /// Whether a write of durability SYNC_WAL is acknowledged when it is on the disk (true) or when it is in the
    /// operating system's buffers (`hbase.wal.hsync`).
    pub sync_to_disk: bool,
    /// Minimum number of files in a minor compaction (`hbase.hstore.compaction.min`).
    pub compaction_files_min: usize,
    /// Maximum number of files in a minor compaction (`hbase.hstore.compaction.max`).
    pub compaction_files_max: usize,
    /// A selected file may be at most this many times as large as the other selected files together
    /// (`hbase.hstore.compaction.ratio`).
    pub compaction_ratio: f64,
    /// Runs of files with fewer bytes than this are compacted at any ratio (`hbase.hstore.compaction.min.size`). `None`
    /// for the table's flush size.
    pub compaction_size_min: Option<u64>,
    /// Maximum size in bytes of a file that a minor compaction takes (`hbase.hstore.compaction.max.size`). With the
    /// exploring policy also the maximum size of all files that it takes together.
    pub compaction_size_max: u64,
    /// How the files of a minor compaction are chosen (`hbase.hstore.defaultengine.compactionpolicy.class`,
    /// `hbase.hstore.engine.class`).
    pub compaction_policy: CompactionPolicy,
    /// Whether compactions of MOB files leave large files as they are (`hbase.mob.compaction.type`).
    pub mob_optimized: bool,
    /// Maximum size of a MOB file in bytes, for compactions that leave large files as they are
    /// (`hbase.mob.compactions.max.file.size`).
    pub mob_file_bytes_max: u64,
    /// The compaction ratio during off-peak hours (`hbase.hstore.compaction.ratio.offpeak`).
    pub compaction_ratio_off_peak: f64,
    /// Maximum size in bytes of a file that a minor compaction takes during off-peak hours
    /// (`hbase.hstore.compaction.max.size.offpeak`); `None` for `compaction_size_max`.
    pub compaction_size_max_off_peak: Option<u64>,
    /// Bytes above which a compaction is a large one (`hbase.regionserver.thread.compaction.throttle`); `None` for
    /// twice the flush size times `compaction_files_max`.
    pub compaction_throttle: Option<u64>,
    /// The settings of the date-tiered policy.
    pub date_tiered: DateTieredOptions,
    /// The settings of the stripe policy.
    pub stripe: StripeOptions,
    /// Whether a file is deleted as a whole when all its cells have expired (`hbase.store.delete.expired.storefile`).
    pub delete_expired_files: bool,
    /// Number of files of a store above which the region's flushes wait (`hbase.hstore.blockingStoreFiles`).
    pub blocking_files: usize,
    /// How long major compactions keep delete markers, in ms (`hbase.hstore.time.to.purge.deletes`).
    pub purge_deletes_after: i64,
    /// Time between major compactions of a store; zero for never (`hbase.hregion.majorcompaction`).
    pub major_period: Duration,
    /// Fraction of `major_period` by which the period varies from store to store
    /// (`hbase.hregion.majorcompaction.jitter`).
    pub major_jitter: f64,
    /// The options that single families override, by family. Only options about compactions, files and markers count.
    pub families: BTreeMap<Bytes, RegionOptions>,
}

impl RegionOptions {
    /// Number of chunks that the pool of the default options keeps for reuse.
    pub const CHUNKS_KEPT: usize = 64;
}

impl Default for RegionOptions {
    fn default() -> RegionOptions {
        RegionOptions {
            flush_size: 128 << 20,
            block_multiplier: 4,
            memory: Pool::new(memstore::CHUNK_SIZE_MAX, RegionOptions::CHUNKS_KEPT),
            ledger: Arc::default(),
            flush_budget: Arc::default(),
            open_files: Arc::default(),
            first_abort: Arc::default(),
            is_fenced: Arc::default(),
            refused_writes: Arc::default(),
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
            compaction_policy: CompactionPolicy::Exploring,
            compaction_ratio_off_peak: 5.0,
            compaction_size_max_off_peak: None,
            compaction_throttle: None,
            date_tiered: DateTieredOptions::default(),
            stripe: StripeOptions::default(),
            delete_expired_files: true,
            mob_optimized: false,
            mob_file_bytes_max: 1 << 30,
            blocking_files: 16,
            purge_deletes_after: 0,
            major_period: Duration::from_secs(7 * 24 * 3600),
            major_jitter: 0.5,
            families: BTreeMap::new(),
        }
    }
}
