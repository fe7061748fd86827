//! Measures the server once a second and fills the history.
//!
//! With many regions it measures less often, so that measuring costs less than 1/200 of a core, but at least once in
//! [`PERIOD_MAX`].

use std::sync::Arc;
use std::time::Duration;

use regionserver::{CallKind, CallObserver, CallSample};
use storage::FileName;
use telemetry::Spread;

use crate::client_table::ClientTable;
use crate::heat::HeatMaps;
use crate::history::{Fold, History};
use crate::node::{Console, Node, Snapshot, table_sums};
use crate::table_times::TableTimes;

/// Minimum time between two measurements.
const PERIOD: Duration = Duration::from_secs(1);
/// Maximum time between two measurements, whatever they cost.
const PERIOD_MAX: Duration = Duration::from_secs(10);
/// Measuring takes at most 1/`COST_PART` of the time, unless one measurement takes longer than that part of
/// [`PERIOD_MAX`].
const COST_PART: u32 = 200;
/// Time between two writes of the history file, each of which reads the previous one.
pub const HISTORY_PERIOD: Duration = Duration::from_secs(600);
/// Maximum size of the history file, in bytes.
const FILE_MAX: usize = 16 << 20;
/// Maximum number of tables that have series.
const TABLES_MAX: usize = 10;

/// The methods whose call times have series, each with the name of its series.
pub(crate) const METHODS: [(&str, &str); 4] =
    [("Get", "get"), ("Scan", "scan"), ("Mutate", "mutate"), ("Multi", "multi")];
/// The quantiles that have series.
pub(crate) const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)];

/// Passes samples of calls to the heat maps, the times of tables and the table of clients.
pub(crate) struct Watcher {
    heat: Arc<HeatMaps>,
    times: Arc<TableTimes>,
    clients: Arc<ClientTable>,
}

impl Watcher {
    pub(crate) fn new(console: &Console) -> Watcher {
        let (heat, times) = (Arc::clone(&console.heat), Arc::clone(&console.table_times));
        Watcher { heat, times, clients: Arc::clone(&console.clients) }
    }
}

impl CallObserver for Watcher {
    fn sampled(&self, sample: &CallSample<'_>) {
        // A region's name begins with the name of its table, which ends before the first comma.
        let Some(comma) = sample.region.iter().position(|byte| *byte == b',') else { return };
        let table = &sample.region[..comma];
        self.clients.add(sample);
        if sample.is_first {
            self.times.record(table, sample.kind.is_write(), sample.took);
        }
        if sample.kind != CallKind::Scan || !sample.row.is_empty() {
            self.heat.add(table, sample.row, sample.kind.is_write(), sample.weight);
        }
    }
}

/// Returns the name of the file with the history, which survives a restart.
fn file() -> FileName {
    FileName::new("bellows/web-history")
}

impl Console {
    /// Measures until the task is aborted.
    pub(crate) async fn keep_measuring(self: Arc<Self>) {
        let mut before: Option<Arc<Snapshot>> = None;
        let mut kept = self.world.moment();
        loop {
            let began = self.world.moment();
            if let Some(snapshot) = self.measure() {
                let snapshot = Arc::new(snapshot);
                if let Some(before) = &before {
                    self.note(before, &snapshot);
                }
                self.cost.lock().note(snapshot.time.0, &snapshot.metrics);
                self.snapshots.write().add(Arc::clone(&snapshot));
                before = Some(snapshot);
            }
            let took = self.world.moment().since(began);
            if self.world.moment().since(kept) >= HISTORY_PERIOD {
                kept = self.world.moment();
                let console = Arc::clone(&self);
                env::blocking(move || console.keep_history()).await;
            }
            env::sleep((took * COST_PART).clamp(PERIOD, PERIOD_MAX)).await;
        }
    }

    fn note(&self, before: &Snapshot, now: &Snapshot) {
        let seconds = now.moment.since(before.moment).as_secs_f64().max(0.001);
        let mut values = series(before, now, seconds);
        values.extend(self.series_of_tables(before, now, seconds));
        let second = u64::try_from(now.time.0).unwrap_or(0) / 1_000;
        self.history().push(second, values.iter().map(|(name, fold, value)| (&name[..], *fold, *value)));
    }

    /// Returns the series of the tables with the most requests, at most [`TABLES_MAX`].
    fn series_of_tables(&self, before: &Snapshot, now: &Snapshot, seconds: f64) -> Vec<(String, Fold, f64)> {
        let (sums_before, sums) = (table_sums(&before.regions), table_sums(&now.regions));
        let mut tables: Vec<(&str, f64, f64)> = sums
            .iter()
            .filter_map(|(table, sum)| {
                let before = sums_before.get(table)?;
                let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
                Some((*table, rate(sum.reads, before.reads), rate(sum.writes, before.writes)))
            })
            .filter(|(table, ..)| !table.starts_with("hbase:"))
            .collect();
        tables.sort_by(|a, b| (b.1 + b.2).total_cmp(&(a.1 + a.2)));
        let spreads = self.table_times.spreads();
        let mut last = self.table_spreads.lock();
        let mut out = Vec::new();
        for (table, reads, writes) in tables.into_iter().take(TABLES_MAX) {
            out.push((format!("table.{table}.reads"), Fold::Mean, reads));
            out.push((format!("table.{table}.writes"), Fold::Mean, writes));
            let sum = &sums[table];
            out.push((format!("table.{table}.memstore"), Fold::Mean, sum.memstore_bytes as f64));
            let Some((reads, writes)) = spreads.get(table) else { continue };
            let both = reads.clone().with(writes.clone());
            let recent = last.get(table).map(|earlier| both.since(earlier));
            for (quantile, part) in QUANTILES {
                let value = recent.as_ref().map_or(0.0, |recent| milliseconds(recent, part));
                out.push((format!("table.{table}.{quantile}"), Fold::Max, value));
            }
        }
        *last = spreads.into_iter().map(|(table, (reads, writes))| (table, reads.with(writes))).collect();
        out
    }

    /// Reads the history file that the previous process of this server has written.
    pub(crate) fn load_history(&self, node: &Node) {
        let files = &node.server.foundation().files;
        // If the file is missing or cannot be read, the history begins again. That is no failure worth a message.
        if let Some(history) =
            files.read(&file(), FILE_MAX).ok().and_then(|bytes| History::from_bytes(&bytes))
        {
            *self.history.write() = Arc::new(history);
        }
    }

    /// Writes the history file for the next process.
    pub fn keep_history(&self) {
        let Some(node) = self.node.get() else { return };
        let files = &node.server.foundation().files;
        let (before, content) =
            (files.load(&file(), FILE_MAX).ok().map(|object| object.version), self.history().to_bytes());
        // A swap may use the reserve of a full disk, and that is for what frees room.
        if files.bytes_free().is_ok_and(|free| free < 2 * content.len() as u64) {
            tracing::debug!("the disk has no room for the history of the web pages");
            return;
        }
        if let Err(error) = files.swap(&file(), before.as_ref(), &content) {
            tracing::warn!(%error, "the history of the web pages cannot be kept; after a restart it begins anew");
        }
    }
}

fn milliseconds(spread: &Spread, part: f64) -> f64 {
    spread.quantile(part) as f64 / 1e6
}

/// Returns all series of the server.
fn series(before: &Snapshot, now: &Snapshot, seconds: f64) -> Vec<(String, Fold, f64)> {
    let (earlier, metrics) = (&before.metrics, &now.metrics);
    let mut out: Vec<(String, Fold, f64)> = Vec::new();
    let rate = |name: &str, label: Option<(&str, &str)>| {
        ((metrics.sum(name, label) - earlier.sum(name, label)) / seconds).max(0.0)
    };
    for (method, name) in METHODS {
        const TIMES: &str = "hbase_regionserver_call_seconds";
        let label = Some(("method", method));
        out.push((format!("calls.{name}"), Fold::Mean, rate(TIMES, label)));
        if let (Some(then), Some(times)) = (earlier.spread(TIMES, label), metrics.spread(TIMES, label)) {
            let recent = times.since(then);
            for (quantile, part) in QUANTILES {
                out.push((format!("{name}.{quantile}"), Fold::Max, milliseconds(&recent, part)));
            }
        }
    }
    const SYNCS: &str = "hbase_wal_sync_seconds";
    if let (Some(then), Some(times)) = (earlier.spread(SYNCS, None), metrics.spread(SYNCS, None)) {
        let recent = times.since(then);
        for (quantile, part) in QUANTILES {
            out.push((format!("sync.{quantile}"), Fold::Max, milliseconds(&recent, part)));
        }
    }
    for (series, name) in [
        ("requests", "hbase_regionserver_total_request_count"),
        ("rows.read", "hbase_regionserver_read_request_count"),
        ("rows.written", "hbase_regionserver_write_request_count"),
        ("rows.filtered", "hbase_regionserver_filtered_read_request_count"),
        ("bytes.in", "hbase_ipc_received_bytes"),
        ("bytes.out", "hbase_ipc_sent_bytes"),
        ("exceptions", "hbase_ipc_exception_count"),
        ("calls.slow", "hbase_regionserver_slow_call_count"),
        ("calls.blocked", "hbase_regionserver_blocked_request_count"),
        ("calls.disk", "hbase_regionserver_reads_from_disk_count"),
        ("scans.full", "hbase_regionserver_rpc_full_scan_request_count"),
        ("cache.hits", "hbase_regionserver_block_cache_hit_count"),
        ("cache.misses", "hbase_regionserver_block_cache_miss_count"),
        ("cache.evicted", "hbase_regionserver_block_cache_eviction_count"),
        ("flushes", "hbase_regionserver_flush_count"),
        ("flushes.failed", "hbase_regionserver_flush_failed_count"),
        ("compactions", "hbase_regionserver_compaction_count"),
        ("compactions.failed", "hbase_regionserver_compaction_failed_count"),
        ("log.appends", "hbase_wal_append_count"),
        ("log.slow", "hbase_wal_slow_sync_count"),
        ("log.full", "hbase_wal_disk_full_count"),
        ("cpu", "bellows_process_cpu_ms"),
    ] {
        out.push((series.to_owned(), Fold::Mean, rate(name, None)));
    }
    for (series, what) in [
        ("stage.client", "written"),
        ("stage.log", "logged"),
        ("stage.flush", "flushed"),
        ("stage.compaction", "compacted"),
    ] {
        out.push((series.to_owned(), Fold::Mean, rate("bellows_table_bytes_total", Some(("what", what)))));
    }
    for (series, kind) in [
        ("store.put", "put"),
        ("store.multipart", "multipart"),
        ("store.get", "get"),
        ("store.list", "list"),
        ("store.delete", "delete"),
    ] {
        // A server whose files are not in a store has no such metrics.
        if !metrics.samples("bellows_store_requests_total").is_empty() {
            out.push((
                series.to_owned(),
                Fold::Mean,
                rate("bellows_store_requests_total", Some(("kind", kind))),
            ));
        }
    }
    let (hits, misses) = (
        rate("hbase_regionserver_block_cache_hit_count", None),
        rate("hbase_regionserver_block_cache_miss_count", None),
    );
    let hit = if hits + misses > 0.0 { 100.0 * hits / (hits + misses) } else { 100.0 };
    out.push(("cache.hit".to_owned(), Fold::Mean, hit));
    for (series, fold, name) in [
        ("memory.memstore", Fold::Mean, "hbase_regionserver_mem_store_size"),
        ("memory.cache", Fold::Mean, "hbase_regionserver_block_cache_size"),
        ("memory.resident", Fold::Mean, "bellows_process_resident_bytes"),
        ("cache.device", Fold::Mean, "hbase_regionserver_l2_cache_size"),
        ("threads", Fold::Max, "bellows_process_threads"),
        ("files", Fold::Max, "hbase_regionserver_store_file_count"),
        ("files.bytes", Fold::Mean, "hbase_regionserver_store_file_size"),
        ("files.max", Fold::Max, "hbase_regionserver_max_store_file_count"),
        ("regions", Fold::Max, "hbase_regionserver_region_count"),
        ("scanners", Fold::Max, "hbase_regionserver_active_scanners"),
        ("queue.flush", Fold::Max, "hbase_regionserver_flush_queue_length"),
        ("queue.compaction", Fold::Max, "hbase_regionserver_compaction_queue_length"),
        ("connections", Fold::Max, "hbase_ipc_num_open_connections"),
        ("calls.waiting", Fold::Max, "hbase_ipc_num_calls_in_general_queue"),
        ("log.files", Fold::Max, "hbase_wal_file_count"),
        ("log.bytes", Fold::Mean, "hbase_wal_file_size"),
        ("disk.free", Fold::Mean, "bellows_disk_free_bytes"),
    ] {
        out.push((series.to_owned(), fold, metrics.sum(name, None)));
    }
    out
}
