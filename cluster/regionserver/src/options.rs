//! The options of a region server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use conf::{Conf, Key, Kind, keys};
use memstore::Pool;
use proto::TableDescriptor;
use proto::descriptor::Attributes;
use region::{CompactionPolicy, DateTieredOptions, Level, OpenFiles, RegionOptions, StripeOptions};

use crate::call_sample::CallKind;
use crate::split_policy::{SplitOptions, SplitRestriction};
use crate::throughput::{OffPeakHours, ThroughputOptions};

/// The options of a region server. Most fields are the values of the configuration keys that they name.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Lease of a scanner: time without a call after which it is closed (`hbase.client.scanner.timeout.period`).
    pub scanner_timeout: Duration,
    /// Minimum time limit of one scanner call (`hbase.region.server.rpc.minimum.scan.time.limit.delta`).
    pub scan_time_min: Duration,
    /// Maximum number of bytes of cells in one reply (`hbase.server.scanner.max.result.size`).
    pub result_bytes_max: u64,
    /// A scan whose replies are limited to less than this size in bytes gets an empty heartbeat first when it starts at
    /// the boundary of a region; 0 for none (`bellows.scanner.edge.heartbeat.below`).
    pub edge_heartbeat_below: u64,
    /// Maximum size of a cell in bytes; 0 for no limit (`hbase.server.keyvalue.maxsize`).
    pub cell_bytes_max: u64,
    /// Number of rows in a batch above which a warning is logged (`hbase.rpc.rows.warning.threshold`).
    pub batch_rows_warning: u64,
    /// Whether a batch with more rows than `batch_rows_warning` is refused (`hbase.rpc.rows.size.threshold.reject`).
    pub batch_rows_reject: bool,
    /// How long nonces are remembered (`hbase.server.hashNonce.gracePeriod`).
    pub nonce_grace_period: Duration,
    /// Whether nonces are checked (`hbase.regionserver.nonces.enabled`).
    pub nonces_enabled: bool,
    /// Period of the checks of all regions (`hbase.server.thread.wakefrequency`).
    pub wake_period: Duration,
    /// Age of an edit in memory after which its region is flushed; zero for no limit
    /// (`hbase.regionserver.optionalcacheflushinterval`).
    pub flush_period: Duration,
    /// Number of flush threads (`hbase.hstore.flusher.count`).
    pub flushers: u64,
    /// Number of threads for compactions below the throttle point (`hbase.regionserver.thread.compaction.small`).
    pub compactors: u64,
    /// Number of threads for compactions above the throttle point (`hbase.regionserver.thread.compaction.large`).
    pub large_compactors: u64,
    /// The limits of the rate at which compactions write.
    pub throughput: ThroughputOptions,
    /// The limits of the rate at which flushes write.
    pub flush_throughput: ThroughputOptions,
    /// The off-peak hours (`hbase.offpeak.start.hour`, `hbase.offpeak.end.hour`).
    pub off_peak: OffPeakHours,
    /// Number of threads that compact memstores in memory (`hbase.regionserver.inmemory.compaction.pool.size`), at most
    /// one for each core.
    pub memory_compactors: u64,
    /// Whether compactions are on at the start (`hbase.regionserver.compaction.enabled`).
    pub compaction_enabled: bool,
    /// Maximum number of bytes of all memstores together; writes are refused above it. `front` computes it from the
    /// machine's memory and `hbase.regionserver.global.memstore.size`.
    pub memstore_bytes_max: u64,
    /// Fraction of `memstore_bytes_max`, 0 to 1, above which regions are flushed to free memory
    /// (`hbase.regionserver.global.memstore.size.lower.limit`).
    pub memstore_lower: f64,
    /// Maximum delay of the response to a write while memory fills (`bellows.memstore.slowing.max`).
    pub slowing_max: Duration,
    /// Maximum time that a flush waits for a store with too many files (`hbase.hstore.blockingWaitTime`).
    pub blocking_wait: Duration,
    /// Pause after a failed flush or compaction (`bellows.background.retry.min`); doubled by each further failure.
    pub retry_min: Duration,
    /// Maximum pause after a failed flush or compaction (`bellows.background.retry.max`).
    pub retry_max: Duration,
    /// Nice level of the flush and compaction threads while they are not urgent, 0 to 19 (`bellows.background.nice`).
    pub background_nice: u8,
    /// Running time after which a flush or compaction becomes urgent (`bellows.background.patience`).
    pub background_patience: Duration,
    /// Duration of a call above which it is logged as slow; `None` for never (`hbase.ipc.warn.response.time`).
    pub warn_time: Option<Duration>,
    /// Size of a response in bytes above which it is logged; `None` for never (`hbase.ipc.warn.response.size`).
    pub warn_bytes: Option<u64>,
    /// Like `warn_time`, for scans (`hbase.ipc.warn.response.time.scan`).
    pub warn_scan_time: Option<Duration>,
    /// Like `warn_bytes`, for scans (`hbase.ipc.warn.response.size.scan`).
    pub warn_scan_bytes: Option<u64>,
    /// Number of slow calls and large responses kept for the operator; 0 for none
    /// (`hbase.regionserver.slowlog.ringbuffer.size`, unless `hbase.regionserver.slowlog.buffer.enabled` is false).
    pub slow_calls_max: usize,
    /// Period of the search for unlisted files in the stores' folders and the archive; zero for never
    /// (`hbase.master.cleaner.interval`).
    pub unnamed_files_period: Duration,
    /// How long a store file is kept after nobody needs it any more, where other processes may read it
    /// (`hbase.master.hfilecleaner.ttl`).
    pub unnamed_files_grace: Duration,
    /// Age after which a log file is rolled whatever its size; zero for never (`hbase.regionserver.logroll.period`).
    pub log_roll_period: Duration,
    /// Maximum number of addresses given to a client that asks for servers (`hbase.client.bootstrap.node.limit`).
    pub bootstrap_nodes_max: u64,
    /// When regions are split.
    pub split: SplitOptions,
    /// Port of the web pages; `None` if there are none (`hbase.regionserver.info.port`).
    pub info_port: Option<u16>,
}

impl Default for Options {
    fn default() -> Options {
        Options::from_conf(&Conf::new()).expect("the defaults are values of their kinds")
    }
}

impl Options {
    /// Returns the options in `conf`. `memstore_bytes_max` is not in `conf`: it is unlimited until the caller sets it.
    pub fn from_conf(conf: &Conf) -> conf::Result<Options> {
        use keys::{cluster, master, region, regionserver as key, rpc, split, store};
        // A negative number means that there is no limit.
        let millis = |ms: i64| u64::try_from(ms).ok().map(Duration::from_millis);
        let warn_time = conf.value(&rpc::WARN_RESPONSE_TIME)?;
        let warn_bytes = conf.value(&rpc::WARN_RESPONSE_SIZE)?;
        Ok(Options {
            scanner_timeout: conf.value(&key::SCANNER_TIMEOUT)?,
            scan_time_min: conf.value(&key::SCAN_TIME_LIMIT_MIN)?,
            result_bytes_max: conf.value(&key::MAX_RESULT_SIZE)?,
            edge_heartbeat_below: conf.value(&key::SCANNER_EDGE_HEARTBEAT)?,
            cell_bytes_max: conf.value(&key::MAX_CELL_SIZE)?,
            batch_rows_warning: conf.value(&key::ROWS_WARNING_THRESHOLD)?,
            batch_rows_reject: conf.value(&key::ROWS_THRESHOLD_REJECT)?,
            nonce_grace_period: conf.value(&key::NONCE_GRACE_PERIOD)?,
            nonces_enabled: conf.value(&key::NONCES_ENABLED)?,
            wake_period: conf.value(&key::WAKE_FREQUENCY)?,
            flush_period: conf.value(&region::PERIODIC_FLUSH_INTERVAL)?,
            flushers: conf.value(&key::FLUSHERS)?.max(1),
            compactors: conf.value(&key::SMALL_COMPACTION_THREADS)?.max(1),
            large_compactors: conf.value(&key::LARGE_COMPACTION_THREADS)?.max(1),
            throughput: ThroughputOptions {
                is_limited: conf.value(&store::THROUGHPUT_CONTROLLER)? != NO_LIMIT,
                lower: conf.value(&store::THROUGHPUT_LOWER)?,
                higher: conf.value(&store::THROUGHPUT_HIGHER)?,
                off_peak: conf.value(&store::THROUGHPUT_OFF_PEAK)?,
            },
            flush_throughput: ThroughputOptions {
                is_limited: conf.value(&store::FLUSH_THROUGHPUT_CONTROLLER)? != NO_LIMIT,
                lower: conf.value(&store::FLUSH_THROUGHPUT_LOWER)?,
                higher: conf.value(&store::FLUSH_THROUGHPUT_UPPER)?,
                off_peak: u64::MAX,
            },
            off_peak: OffPeakHours::new(
                conf.value(&store::OFF_PEAK_START)?,
                conf.value(&store::OFF_PEAK_END)?,
            ),
            memory_compactors: conf.value(&region::IN_MEMORY_COMPACTION_THREADS)?,
            compaction_enabled: conf.value(&key::COMPACTION_ENABLED)?,
            memstore_bytes_max: u64::MAX,
            memstore_lower: conf.value(&key::GLOBAL_MEMSTORE_LOWER)?.min(1.0),
            slowing_max: conf.value(&region::MEMSTORE_SLOWING)?,
            blocking_wait: conf.value(&store::BLOCKING_WAIT_TIME)?,
            retry_min: conf.value(&key::BACKGROUND_RETRY_MIN)?,
            retry_max: conf.value(&key::BACKGROUND_RETRY_MAX)?,
            background_nice: conf.value(&key::BACKGROUND_NICE)?.min(19) as u8,
            background_patience: conf.value(&key::BACKGROUND_PATIENCE)?,
            warn_time: millis(warn_time),
            warn_bytes: u64::try_from(warn_bytes).ok(),
            warn_scan_time: millis(conf.value_if_set(&rpc::WARN_SCAN_RESPONSE_TIME)?.unwrap_or(warn_time)),
            warn_scan_bytes: u64::try_from(
                conf.value_if_set(&rpc::WARN_SCAN_RESPONSE_SIZE)?.unwrap_or(warn_bytes),
            )
            .ok(),
            slow_calls_max: match conf.value(&key::SLOW_LOG_ENABLED)? {
                true => usize::try_from(conf.value(&key::SLOW_LOG_SIZE)?).unwrap_or(usize::MAX),
                false => 0,
            },
            unnamed_files_period: conf.value(&master::CLEANER_INTERVAL)?,
            unnamed_files_grace: conf.value(&master::HFILE_CLEANER_TTL)?,
            log_roll_period: conf.value(&region::LOG_ROLL_PERIOD)?,
            bootstrap_nodes_max: conf.value(&cluster::BOOTSTRAP_NODE_LIMIT)?,
            split: SplitOptions {
                policy: conf.value(&split::POLICY)?,
                file_bytes_max: conf.value(&split::MAX_FILE_SIZE)?,
                jitter: conf.value(&split::MAX_FILE_SIZE_JITTER)?.min(1.0),
                all_stores: conf.value(&split::ALL_STORES)?,
                initial_bytes: conf.value_if_set(&split::INITIAL_SIZE)?,
                regions_max: conf.value(&split::REGIONS_MAX)?,
                restriction: SplitRestriction {
                    kind: conf.value(&split::RESTRICTION)?,
                    prefix_length: conf.value(&split::RESTRICTION_PREFIX)?,
                    delimiter: conf.value(&split::RESTRICTION_DELIMITER)?,
                },
            },
            info_port: u16::try_from(conf.value(&key::INFO_PORT)?).ok(),
        })
    }

    /// Whether a call of this duration is slow.
    pub(crate) fn is_slow(&self, kind: CallKind, took: Duration) -> bool {
        let limit = if kind == CallKind::Scan { self.warn_scan_time } else { self.warn_time };
        limit.is_some_and(|limit| took > limit)
    }

    /// Whether an answer of this size is large.
    pub(crate) fn is_large(&self, kind: CallKind, bytes: u64) -> bool {
        let limit = if kind == CallKind::Scan { self.warn_scan_bytes } else { self.warn_bytes };
        limit.is_some_and(|limit| bytes > limit)
    }

    /// Returns the number of bytes in memstores above which regions are flushed to free memory.
    pub fn memstore_bytes_low(&self) -> u64 {
        // Above 2^53 the product is not exact, but such a number means "no limit" anyway.
        (self.memstore_bytes_max as f64 * self.memstore_lower) as u64
    }

    /// Returns the options that `conf` gives to each region. The number of chunks kept for reuse is not final, because
    /// it also depends on the memory for memstores.
    pub fn of_regions(conf: &Conf) -> conf::Result<RegionOptions> {
        use keys::{region, regionserver, store};
        let many = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let count = |key| conf.value(key).map(many);
        let slop = i64::try_from(conf.value(&region::TIMESTAMP_SLOP)?.as_millis()).unwrap_or(i64::MAX);
        let cell = conf.value(&regionserver::MAX_CELL_SIZE)?;
        let purge = conf.value(&store::PURGE_DELETES_AFTER)?.as_millis();
        let level = |key| conf.value(key).map(|name: String| Level::of_name(&name).unwrap_or_default());
        let chunk_size = conf.value(&region::MEMSTORE_CHUNK_SIZE)?;
        Ok(RegionOptions {
            flush_size: conf.value(&region::MEMSTORE_FLUSH_SIZE)?,
            block_multiplier: conf.value(&region::MEMSTORE_BLOCK_MULTIPLIER)?,
            ledger: Arc::default(),
            flush_budget: Arc::default(),
            open_files: Arc::new(OpenFiles::keeping(count(&store::MOB_FILE_CACHE_SIZE)?)),
            first_abort: Arc::default(),
            is_fenced: Arc::default(),
            refused_writes: Arc::default(),
            in_memory_compaction: level(&region::IN_MEMORY_COMPACTION)?,
            in_memory_compaction_of_system: level(&region::SYSTEM_IN_MEMORY_COMPACTION)?,
            in_memory_flush_factor: conf.value(&region::IN_MEMORY_FLUSH_FACTOR)?,
            pipeline_segments_max: count(&region::PIPELINE_SEGMENTS)?,
            adaptive_unique_max: conf.value(&region::ADAPTIVE_COMPACTION_THRESHOLD)?,
            memory: Pool::new(usize::try_from(chunk_size).unwrap_or(usize::MAX), RegionOptions::CHUNKS_KEPT),
            stretch: conf.value(&region::MEMSTORE_STRETCH)?,
            flush_keeps: conf.value(&region::MEMSTORE_FLUSH_KEEP)?,
            flush_keeps_gain_min: conf.value(&region::MEMSTORE_FLUSH_KEEP_GAIN)?,
            drop_markers: conf.value(&region::MEMSTORE_DROP_MARKERS)?,
            put_waits_for_delete: conf.value(&region::PUT_WAITS_FOR_DELETE)?,
            row_lock_wait: conf.value(&region::ROW_LOCK_WAIT)?,
            timestamp_slop: (slop < i64::MAX).then_some(slop),
            cell_size_max: (cell > 0).then(|| usize::try_from(cell).unwrap_or(usize::MAX)),
            row_size_max: conf.value(&region::MAX_ROW_SIZE)?,
            sync_to_disk: conf.value(&region::WAL_HSYNC)?,
            compaction_files_min: match conf.value_if_set(&store::COMPACTION_MIN)? {
                Some(_) => count(&store::COMPACTION_MIN)?,
                None => count(&store::COMPACTION_THRESHOLD)?,
            },
            compaction_files_max: count(&store::COMPACTION_MAX)?,
            compaction_ratio: conf.value(&store::COMPACTION_RATIO)?,
            compaction_size_min: conf.value_if_set(&store::COMPACTION_MIN_SIZE)?,
            compaction_size_max: conf.value(&store::COMPACTION_MAX_SIZE)?,
            compaction_policy: policy_of(
                &conf.value(&store::ENGINE)?,
                &conf.value(&store::COMPACTION_POLICY)?,
            ),
            compaction_ratio_off_peak: conf.value(&store::COMPACTION_RATIO_OFF_PEAK)?,
            compaction_size_max_off_peak: conf.value_if_set(&store::COMPACTION_MAX_SIZE_OFF_PEAK)?,
            compaction_throttle: conf.value_if_set(&regionserver::COMPACTION_THROTTLE)?,
            date_tiered: DateTieredOptions {
                age_max_ms: ms(conf.value(&store::TIERED_MAX_AGE)?),
                incoming_files_min: count(&store::TIERED_INCOMING_MIN)?,
                base_window_ms: ms(conf.value(&store::TIERED_BASE_WINDOW)?),
                windows_per_tier: i64::try_from(conf.value(&store::TIERED_WINDOWS)?).unwrap_or(i64::MAX),
                tier_age_max_ms: conf.value_if_set(&store::TIERED_MAX_TIER_AGE)?.map(ms),
                single_output: conf.value(&store::TIERED_SINGLE_OUTPUT)?,
                window_policy: CompactionPolicy::of_class(&conf.value(&store::TIERED_WINDOW_POLICY)?)
                    .unwrap_or_default(),
            },
            stripe: StripeOptions {
                initial_count: count(&store::STRIPE_INITIAL_COUNT)?,
                split_size: conf.value_if_set(&store::STRIPE_SPLIT_SIZE)?,
                split_parts: conf.value(&store::STRIPE_SPLIT_PARTS)? as f32,
                flush_to_level0: conf.value(&store::STRIPE_FLUSH_TO_LEVEL0)?,
                level0_files_min: count(&store::STRIPE_LEVEL0_MIN)?,
                files_min: conf.value_if_set(&store::STRIPE_MIN)?.map(many),
                files_max: conf.value_if_set(&store::STRIPE_MAX)?.map(many),
                split_imbalance_max: conf.value(&store::STRIPE_SPLIT_IMBALANCE)? as f32,
            },
            delete_expired_files: conf.value(&store::DELETE_EXPIRED_FILES)?,
            mob_optimized: is_mob_optimized(&conf.value(&store::MOB_COMPACTION_TYPE)?),
            mob_file_bytes_max: conf.value(&store::MOB_FILE_SIZE_MAX)?,
            blocking_files: count(&store::BLOCKING_STORE_FILES)?,
            purge_deletes_after: i64::try_from(purge).unwrap_or(i64::MAX),
            major_period: conf.value(&store::MAJOR_COMPACTION_PERIOD)?,
            major_jitter: conf.value(&store::MAJOR_COMPACTION_JITTER)?,
            families: BTreeMap::new(),
        })
    }

    /// Returns `options` for the regions of `table`, with the overrides in its CONFIGURATION and in that of its
    /// families. HBase reads a table's keys from its values, and a family's from both its values and its configuration.
    /// An invalid value is logged and ignored, because the table exists and must open.
    pub fn of_table(options: &RegionOptions, table: &TableDescriptor) -> RegionOptions {
        let told = |error: conf::Error| {
            tracing::warn!(table = %table.name(), %error, "a key of the table's CONFIGURATION does not count");
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let values = |attributes: &Attributes| -> Vec<(String, String)> {
            attributes.iter().map(|(key, value)| (text(key), text(value))).collect()
        };
        let override_with = |options: &RegionOptions, said: Vec<(String, String)>| -> RegionOptions {
            let mut options = options.clone();
            // Each key is read on its own, so that an invalid value does not hide the others. A later value replaces an
            // earlier one. So of two names of a key the newer one comes last, and an engine comes after the policy that
            // it replaces. The default engine comes before the policy.
            let mut said = said;
            let place = |key: &str, value: &str| {
                let is_engine = key == keys::store::ENGINE.name();
                match CompactionPolicy::of_engine(value) {
                    Some(None) if is_engine => 0,
                    _ if key == keys::store::COMPACTION_THRESHOLD.name() => 1,
                    _ if key == keys::store::COMPACTION_POLICY.name() => 1,
                    _ => 2,
                }
            };
            said.sort_by_key(|(key, value)| place(key, value));
            for (key, value) in said {
                let outcome = Conf::new()
                    .with_definition(&format!("{key}={value}"))
                    .and_then(|conf| override_by(&mut options, &conf));
                outcome.unwrap_or_else(told);
            }
            options
        };
        let mut of_table = override_with(options, values(table.attributes()));
        for family in table.families() {
            let mut said = values(family.attributes());
            said.extend(family.configuration().iter().cloned());
            said.retain(|(key, _)| key.starts_with("hbase."));
            if !said.is_empty() {
                let of_family = override_with(&of_table, said);
                of_table.families.insert(family.name().clone(), of_family);
            }
        }
        of_table
    }

    /// Returns the options in `conf` for the log of a server whose memstores take `memstore_bytes` together.
    pub fn of_log(conf: &Conf, memstore_bytes: u64) -> conf::Result<wal::Options> {
        use keys::region;
        let file_bytes_max: u64 = conf.value(&region::WAL_ROLL_SIZE)?;
        // As HBase's rule (`AbstractFSWAL.calculateMaxLogFiles`), the log may be twice as large as the memory. HBase
        // takes the heap, this server the memory of the memstores. With fewer files, regions would be flushed although
        // there is room in memory.
        let twice = memstore_bytes.saturating_mul(2) / file_bytes_max.max(1);
        let files_min = conf.value(&region::MAX_LOGS)?;
        let files_max = match conf.value_if_set(&region::MAX_LOGS)? {
            Some(said) => said,
            None => files_min.max(twice),
        };
        let number = |files: u64| usize::try_from(files).unwrap_or(usize::MAX);
        let keep_nonces = match conf.value(&keys::regionserver::NONCES_ENABLED)? {
            true => {
                wal::Options::default().keep_nonces.min(conf.value(&keys::regionserver::NONCE_GRACE_PERIOD)?)
            }
            false => Duration::ZERO,
        };
        Ok(wal::Options {
            file_bytes_max,
            files_max: number(files_max),
            files_min: number(files_min),
            parts_max: number(conf.value(&keys::cluster::WAL_STORE_PARTS_MAX)?),
            idle_write: conf.value(&region::LOG_IDLE_WRITE)?,
            full_retry: conf.value(&region::LOG_FULL_RETRY)?,
            slow_sync: conf.value(&region::SLOW_SYNC)?,
            keep_unneeded: conf.value(&keys::master::LOG_CLEANER_TTL)?,
            keep_nonces,
            reuse: conf.value(&region::LOG_REUSE)?,
            ..wal::Options::default()
        })
    }
}

/// The value of `hbase.regionserver.throughput.controller` without a limit.
const NO_LIMIT: &str = "NoLimitThroughputController";

fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Whether a type of MOB compactions leaves large MOB files as they are. As in HBase, any unknown type means `full`.
fn is_mob_optimized(kind: &str) -> bool {
    kind == "optimized"
}

/// Returns the compaction policy that belongs to an engine; if the engine has none, the policy of the class `policy`.
fn policy_of(engine: &str, policy: &str) -> CompactionPolicy {
    let of_engine = CompactionPolicy::of_engine(engine).flatten();
    of_engine.or_else(|| CompactionPolicy::of_class(policy)).unwrap_or_default()
}

/// Replaces the values in `options` that `conf` sets; the others stay.
fn override_by(options: &mut RegionOptions, conf: &Conf) -> conf::Result<()> {
    use keys::{region, regionserver, store};
    fn set<K: Kind, T>(
        conf: &Conf,
        key: &Key<K>,
        field: &mut T,
        convert: impl FnOnce(K::Value) -> T,
    ) -> conf::Result<()> {
        if let Some(value) = conf.value_if_set(key)? {
            *field = convert(value);
        }
        Ok(())
    }
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    set(conf, &region::MEMSTORE_FLUSH_SIZE, &mut options.flush_size, |size| size)?;
    set(conf, &region::MEMSTORE_BLOCK_MULTIPLIER, &mut options.block_multiplier, |many| many)?;
    set(conf, &region::PUT_WAITS_FOR_DELETE, &mut options.put_waits_for_delete, |waits| waits)?;
    set(conf, &region::ROW_LOCK_WAIT, &mut options.row_lock_wait, |time| time)?;
    set(conf, &region::MAX_ROW_SIZE, &mut options.row_size_max, |size| size)?;
    set(conf, &region::TIMESTAMP_SLOP, &mut options.timestamp_slop, |slop| {
        Some(ms(slop)).filter(|slop| *slop < i64::MAX)
    })?;
    set(conf, &regionserver::MAX_CELL_SIZE, &mut options.cell_size_max, |size| {
        (size > 0).then(|| count(size))
    })?;
    let level = |name: String| Level::of_name(&name).unwrap_or_default();
    set(conf, &region::IN_MEMORY_COMPACTION, &mut options.in_memory_compaction, level)?;
    set(conf, &region::IN_MEMORY_FLUSH_FACTOR, &mut options.in_memory_flush_factor, |factor| factor)?;
    set(conf, &region::PIPELINE_SEGMENTS, &mut options.pipeline_segments_max, count)?;
    set(conf, &region::ADAPTIVE_COMPACTION_THRESHOLD, &mut options.adaptive_unique_max, |share| share)?;
    set(conf, &store::COMPACTION_THRESHOLD, &mut options.compaction_files_min, count)?;
    set(conf, &store::COMPACTION_MIN, &mut options.compaction_files_min, count)?;
    set(conf, &store::COMPACTION_MAX, &mut options.compaction_files_max, count)?;
    set(conf, &store::COMPACTION_RATIO, &mut options.compaction_ratio, |ratio| ratio)?;
    set(conf, &store::COMPACTION_MIN_SIZE, &mut options.compaction_size_min, Some)?;
    set(conf, &store::COMPACTION_MAX_SIZE, &mut options.compaction_size_max, |size| size)?;
    if let Some(engine) = conf.value_if_set(&store::ENGINE)? {
        match CompactionPolicy::of_engine(&engine) {
            Some(Some(policy)) => options.compaction_policy = policy,
            // With HBase's default engine, the other key chooses the policy.
            Some(None) if options.compaction_policy == CompactionPolicy::Stripe => {
                options.compaction_policy = CompactionPolicy::default();
            }
            _ => {}
        }
    }
    // The stripe policy has no class of its own. Its engine chooses it, and then this key is not read.
    if options.compaction_policy != CompactionPolicy::Stripe {
        set(conf, &store::COMPACTION_POLICY, &mut options.compaction_policy, |name| {
            CompactionPolicy::of_class(&name).unwrap_or_default()
        })?;
    }
    set(conf, &store::COMPACTION_RATIO_OFF_PEAK, &mut options.compaction_ratio_off_peak, |ratio| ratio)?;
    set(conf, &store::COMPACTION_MAX_SIZE_OFF_PEAK, &mut options.compaction_size_max_off_peak, Some)?;
    set(conf, &regionserver::COMPACTION_THROTTLE, &mut options.compaction_throttle, Some)?;
    set(conf, &store::DELETE_EXPIRED_FILES, &mut options.delete_expired_files, |goes| goes)?;
    set(conf, &store::MOB_COMPACTION_TYPE, &mut options.mob_optimized, |kind| is_mob_optimized(&kind))?;
    set(conf, &store::MOB_FILE_SIZE_MAX, &mut options.mob_file_bytes_max, |size| size)?;
    let tiered = &mut options.date_tiered;
    set(conf, &store::TIERED_MAX_AGE, &mut tiered.age_max_ms, ms)?;
    set(conf, &store::TIERED_INCOMING_MIN, &mut tiered.incoming_files_min, count)?;
    set(conf, &store::TIERED_BASE_WINDOW, &mut tiered.base_window_ms, ms)?;
    set(conf, &store::TIERED_WINDOWS, &mut tiered.windows_per_tier, |many| {
        i64::try_from(many).unwrap_or(i64::MAX)
    })?;
    set(conf, &store::TIERED_MAX_TIER_AGE, &mut tiered.tier_age_max_ms, |age| Some(ms(age)))?;
    set(conf, &store::TIERED_SINGLE_OUTPUT, &mut tiered.single_output, |one| one)?;
    set(conf, &store::TIERED_WINDOW_POLICY, &mut tiered.window_policy, |name| {
        CompactionPolicy::of_class(&name).unwrap_or_default()
    })?;
    let stripe = &mut options.stripe;
    set(conf, &store::STRIPE_INITIAL_COUNT, &mut stripe.initial_count, count)?;
    set(conf, &store::STRIPE_SPLIT_SIZE, &mut stripe.split_size, Some)?;
    set(conf, &store::STRIPE_SPLIT_PARTS, &mut stripe.split_parts, |parts| parts as f32)?;
    set(conf, &store::STRIPE_FLUSH_TO_LEVEL0, &mut stripe.flush_to_level0, |is_asked| is_asked)?;
    set(conf, &store::STRIPE_LEVEL0_MIN, &mut stripe.level0_files_min, count)?;
    set(conf, &store::STRIPE_MIN, &mut stripe.files_min, |files| Some(count(files)))?;
    set(conf, &store::STRIPE_MAX, &mut stripe.files_max, |files| Some(count(files)))?;
    set(conf, &store::STRIPE_SPLIT_IMBALANCE, &mut stripe.split_imbalance_max, |ratio| ratio as f32)?;
    set(conf, &store::BLOCKING_STORE_FILES, &mut options.blocking_files, count)?;
    set(conf, &store::PURGE_DELETES_AFTER, &mut options.purge_deletes_after, ms)?;
    set(conf, &store::MAJOR_COMPACTION_PERIOD, &mut options.major_period, |time| time)?;
    set(conf, &store::MAJOR_COMPACTION_JITTER, &mut options.major_jitter, |share| share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_hbases_and_settings_override_them() {
        let options = Options::default();
        assert_eq!(options.scanner_timeout, Duration::from_secs(60));
        assert_eq!(options.result_bytes_max, 100 << 20);
        assert_eq!(options.cell_bytes_max, 10 << 20);
        assert_eq!(options.edge_heartbeat_below, 64 << 10);
        assert_eq!(
            (options.warn_time, options.warn_scan_time),
            (Some(Duration::from_secs(10)), options.warn_time)
        );
        assert_eq!((options.slow_calls_max, options.warn_scan_bytes), (256, Some(100 << 20)));
        let said = |key, value| Options::from_conf(&Conf::new().with(key, value)).expect("good values");
        let scan_time = said(&keys::rpc::WARN_SCAN_RESPONSE_TIME, "50").warn_scan_time;
        assert_eq!(scan_time, Some(Duration::from_millis(50)));
        let none = Conf::new().with(&keys::regionserver::SLOW_LOG_ENABLED, "false");
        assert_eq!(Options::from_conf(&none).expect("good values").slow_calls_max, 0);
        assert_eq!(options.nonce_grace_period, Duration::from_secs(30 * 60));
        let conf = Conf::new()
            .with(&keys::regionserver::MAX_CELL_SIZE, "0")
            .with(&keys::regionserver::INFO_PORT, "-1")
            .with(&keys::regionserver::SMALL_COMPACTION_THREADS, "3");
        let options = Options::from_conf(&conf).expect("good values");
        assert_eq!((options.cell_bytes_max, options.info_port, options.compactors), (0, None, 3));
        assert_eq!(Options::of_regions(&conf).expect("good values").cell_size_max, None);
        let conf = conf
            .with(&keys::region::IN_MEMORY_COMPACTION, "eager")
            .with(&keys::region::SYSTEM_IN_MEMORY_COMPACTION, "BASIC")
            .with(&keys::region::IN_MEMORY_FLUSH_FACTOR, "0.1")
            .with(&keys::region::PIPELINE_SEGMENTS, "5");
        let regions = Options::of_regions(&conf).expect("good values");
        let levels = (regions.in_memory_compaction, regions.in_memory_compaction_of_system);
        assert_eq!(levels, (Level::Eager, Level::Basic));
        assert_eq!((regions.in_memory_flush_factor, regions.pipeline_segments_max), (0.1, 5));
        let unknown = conf.clone().with(&keys::region::IN_MEMORY_COMPACTION, "sometimes");
        let error = Options::of_regions(&unknown).expect_err("no level").to_string();
        assert!(
            error.contains("hbase.hregion.compacting.memstore.type") && error.contains("ADAPTIVE"),
            "{error}"
        );
        let conf = conf.with(&keys::region::MAX_LOGS, "many");
        let error = Options::of_log(&conf, 0).expect_err("no number").to_string();
        assert!(error.contains("hbase.regionserver.maxlogs") && error.contains("many"), "{error}");
    }

    #[test]
    fn tables_and_families_override_the_site_file() {
        let mut table = TableDescriptor::new("t".parse().expect("a name"));
        let set = |key: &str, value: &str, attributes: &mut Attributes| {
            attributes.set(key.to_owned().into(), value.to_owned().into());
        };
        set("hbase.hstore.compaction.min", "7", table.attributes_mut());
        set("hbase.hregion.majorcompaction", "1d", table.attributes_mut());
        set("hbase.hstore.blockingStoreFiles", "many", table.attributes_mut());
        set("note", "no key of ours", table.attributes_mut());
        set("hbase.hstore.compactionThreshold", "5", table.attributes_mut());
        let family = |name: &'static str| proto::FamilyDescriptor::new(name).expect("a name");
        table.set_family(family("f").with("hbase.hstore.compaction.min", "9"));
        table.set_family(family("g"));
        let site = RegionOptions { compaction_ratio: 2.0, ..RegionOptions::default() };
        let options = Options::of_table(&site, &table);
        assert_eq!((options.compaction_files_min, options.compaction_ratio), (7, 2.0));
        assert_eq!(options.blocking_files, site.blocking_files, "what is no number does not count");
        let of_f = options.families.get(&b"f"[..]).expect("it overrides");
        assert_eq!((of_f.compaction_files_min, of_f.compaction_ratio), (9, 2.0));
        assert_eq!(
            of_f.major_period,
            Duration::from_secs(24 * 3600),
            "what the family does not set the table sets"
        );
        assert!(!options.families.contains_key(&b"g"[..]));
        assert_eq!(options.compaction_policy, region::CompactionPolicy::Exploring);
        let class = |name: &str| format!("org.apache.hadoop.hbase.regionserver.{name}");
        set(
            "hbase.hstore.defaultengine.compactionpolicy.class",
            &class("compactions.FIFOCompactionPolicy"),
            table.attributes_mut(),
        );
        set("hbase.hstore.compaction.date.tiered.base.window.millis", "1h", table.attributes_mut());
        let engine = family("g").with("hbase.hstore.engine.class", class("DateTieredStoreEngine"));
        let engine = engine.with("hbase.mob.compaction.type", "optimized");
        let engine = engine.with("hbase.mob.compactions.max.file.size", "4096");
        table.set_family(engine.with("hbase.hstore.compaction.date.tiered.windows.per.tier", "7"));
        let options = Options::of_table(&site, &table);
        assert_eq!(options.compaction_policy, region::CompactionPolicy::Fifo);
        let of_g = options.families.get(&b"g"[..]).expect("it overrides");
        assert_eq!(of_g.compaction_policy, region::CompactionPolicy::DateTiered);
        assert_eq!((of_g.mob_optimized, of_g.mob_file_bytes_max), (true, 4096));
        assert_eq!((options.mob_optimized, options.mob_file_bytes_max), (false, 1 << 30));
        assert_eq!((of_g.date_tiered.base_window_ms, of_g.date_tiered.windows_per_tier), (3_600_000, 7));
        let none = family("g").with("hbase.hstore.engine.class", "com.example.Engine");
        table.set_family(none);
        let of_g = &Options::of_table(&site, &table).families[&b"g"[..]];
        assert_eq!(
            of_g.compaction_policy,
            region::CompactionPolicy::Fifo,
            "an unknown engine does not count"
        );
        let stripes = family("g")
            .with("hbase.hstore.engine.class", class("StripeStoreEngine"))
            .with("hbase.store.stripe.initialStripeCount", "5")
            .with("hbase.store.stripe.sizeToSplit", "1m")
            .with("hbase.store.stripe.splitPartCount", "3")
            .with("hbase.store.stripe.compaction.flushToL0", "true")
            .with("hbase.store.stripe.compaction.minFilesL0", "2")
            .with("hbase.store.stripe.compaction.minFiles", "7")
            .with("hbase.store.stripe.compaction.maxFiles", "8")
            .with("hbase.store.stripe.region.split.max.imbalance", "4");
        table.set_family(stripes);
        let of_g = &Options::of_table(&site, &table).families[&b"g"[..]];
        assert_eq!(of_g.compaction_policy, region::CompactionPolicy::Stripe, "not the table's class");
        let expected = StripeOptions {
            initial_count: 5,
            split_size: Some(1 << 20),
            split_parts: 3.0,
            flush_to_level0: true,
            level0_files_min: 2,
            files_min: Some(7),
            files_max: Some(8),
            split_imbalance_max: 4.0,
        };
        assert_eq!(of_g.stripe, expected);
        let in_stripes =
            RegionOptions { compaction_policy: region::CompactionPolicy::Stripe, ..RegionOptions::default() };
        let policy = |table: &TableDescriptor| Options::of_table(&in_stripes, table).compaction_policy;
        assert_eq!(policy(&table), region::CompactionPolicy::Stripe, "its engine is the site's");
        set("hbase.hstore.engine.class", &class("DefaultStoreEngine"), table.attributes_mut());
        assert_eq!(policy(&table), region::CompactionPolicy::Fifo);
        let site = Conf::new().with(&keys::store::COMPACTION_THRESHOLD, "6");
        assert_eq!(Options::of_regions(&site).expect("good values").compaction_files_min, 6);
    }

    #[test]
    fn default_options_equal_the_keys_defaults() {
        let conf = Conf::new();
        let regions = Options::of_regions(&conf).expect("defaults");
        // `i64::MAX` is HBase's default of this size. Only in a server do puts wait by default, because only there the
        // clock advances by itself.
        let expected = RegionOptions {
            compaction_size_max: i64::MAX as u64,
            put_waits_for_delete: true,
            ..RegionOptions::default()
        };
        assert_eq!(format!("{regions:?}"), format!("{expected:?}"));
        let log = Options::of_log(&conf, 1 << 30).expect("defaults");
        assert_eq!(format!("{log:?}"), format!("{:?}", wal::Options::default()));
    }

    #[test]
    fn the_log_holds_twice_the_memory_unless_configured() {
        let files = |conf: &Conf, memory| {
            let options = Options::of_log(conf, memory).expect("good values");
            assert!(options.files_min <= 32);
            options.files_max
        };
        let conf = Conf::new();
        assert_eq!([1 << 30, 2 << 30, 8 << 30].map(|memory| files(&conf, memory)), [32, 64, 256]);
        let conf = conf.with(&keys::region::WAL_ROLL_SIZE, "134217728");
        assert_eq!(files(&conf, 8 << 30), 128);
        assert_eq!(files(&conf.with(&keys::region::MAX_LOGS, "8"), 8 << 30), 8);
    }
}
