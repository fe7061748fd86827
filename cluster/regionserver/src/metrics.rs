//! Metrics of a region server, under HBase's names.

use std::collections::BTreeMap;
use std::sync::Arc;

use region::{MemoryLoad, Region, SegmentLoad};
use telemetry::{Exposition, Source};

use crate::RegionServer;

/// The memory of a family's stores, summed over all regions.
#[derive(Default)]
struct FamilyMemory {
    segments: u64,
    cells: u64,
    bytes: u64,
    index_bytes: u64,
    sealed: u64,
    flattened: u64,
    merged: u64,
    compacted: u64,
    cells_compacted: u64,
    cells_dropped: u64,
    bytes_copied: u64,
    kept: u64,
    bytes_kept: u64,
    bytes_spared: u64,
}

impl FamilyMemory {
    fn add(&mut self, memory: &MemoryLoad) {
        let mut add = |segment: &SegmentLoad| {
            self.segments += 1;
            self.cells += segment.cells;
            self.bytes += segment.bytes;
            self.index_bytes += segment.index_bytes;
        };
        add(&memory.active);
        memory.pipeline.iter().for_each(&mut add);
        memory.snapshot.iter().for_each(&mut add);
        self.sealed += memory.counts.sealed;
        self.flattened += memory.counts.flattened;
        self.merged += memory.counts.merged;
        self.compacted += memory.counts.compacted;
        self.cells_compacted += memory.counts.cells_compacted;
        self.cells_dropped += memory.counts.cells_dropped;
        self.bytes_copied += memory.counts.bytes_copied;
        self.kept += memory.counts.kept;
        self.bytes_kept += memory.counts.bytes_kept;
        self.bytes_spared += memory.counts.bytes_spared;
    }
}

/// Writes the memstore metrics by table and family. Metrics for each region would be too many.
fn show_memory(regions: &[Arc<Region>], out: &mut Exposition) {
    let mut families: BTreeMap<(String, String), FamilyMemory> = BTreeMap::new();
    for region in regions {
        for store in region.load().stores {
            let family = String::from_utf8_lossy(&store.family).into_owned();
            families.entry((region.info().table().to_string(), family)).or_default().add(&store.memory);
        }
    }
    type Value = fn(&FamilyMemory) -> u64;
    let gauges: [(&str, &str, Value); 4] = [
        ("segments", "Segments in memory.", |memory| memory.segments),
        ("cells", "Cells in memory.", |memory| memory.cells),
        ("bytes", "Bytes of cells in memory and of the index over them.", |memory| memory.bytes),
        ("index_bytes", "Bytes of the index alone.", |memory| memory.index_bytes),
    ];
    for (name, help, value) in gauges {
        for ((table, family), memory) in &families {
            let labels = [("table", &table[..]), ("family", &family[..])];
            out.gauge(&format!("bellows_memstore_{name}"), help, &labels, value(memory) as f64);
        }
    }
    // These counters begin at 0 when a region is opened.
    let counters: [(&str, &str, Value); 10] = [
        ("sealed", "Segments that were full.", |memory| memory.sealed),
        ("flattened", "Segments that became flat.", |memory| memory.flattened),
        ("merged", "Merges of flat segments.", |memory| memory.merged),
        ("compacted", "Compactions in memory.", |memory| memory.compacted),
        ("cells_compacted", "Cells that compactions in memory had before them.", |memory| {
            memory.cells_compacted
        }),
        ("cells_dropped", "Cells of those that were redundant.", |memory| memory.cells_dropped),
        ("bytes_copied", "Bytes that compactions in memory have copied.", |memory| memory.bytes_copied),
        ("kept", "Flushes that left rewritten rows in memory.", |memory| memory.kept),
        ("bytes_kept", "Bytes that they left.", |memory| memory.bytes_kept),
        (
            "bytes_spared",
            "Bytes of those that were replaced by the next flush, and never written.",
            |memory| memory.bytes_spared,
        ),
    ];
    for (name, help, value) in counters {
        for ((table, family), memory) in &families {
            let labels = [("table", &table[..]), ("family", &family[..])];
            out.counter(&format!("bellows_memstore_{name}_total"), help, &labels, value(memory));
        }
    }
}

impl Source for RegionServer {
    fn show(&self, out: &mut Exposition) {
        let counted = self.counters().snapshot();
        for (name, help, value) in [
            ("total_request_count", "Requests of clients, a batch counting once.", counted.requests),
            ("total_row_action_request_count", "Rows that requests acted on.", counted.row_actions),
            ("rpc_get_request_count", "Calls of Get.", counted.gets),
            ("rpc_scan_request_count", "Calls of Scan.", counted.scans),
            (
                "rpc_full_scan_request_count",
                "Scans opened without a start and without an end.",
                counted.full_scans,
            ),
            ("rpc_multi_request_count", "Calls of Multi.", counted.multis),
            ("rpc_mutate_request_count", "Calls of Mutate.", counted.mutates),
            ("check_mutate_passed_count", "Conditions that held.", counted.checks_passed),
            ("check_mutate_failed_count", "Conditions that did not hold.", counted.checks_failed),
            (
                "scanner_lease_expired_count",
                "Scanners closed because their lease expired.",
                counted.scanner_leases_expired,
            ),
            (
                "reads_from_disk_count",
                "Reads that went on where they may wait: for the disk, for a dear filter, or because a row takes long.",
                counted.reads_from_disk,
            ),
            ("flush_count", "Flushes done.", counted.flushes),
            ("flush_failed_count", "Flushes that failed; they are tried again.", counted.flushes_failed),
            ("flushed_output_bytes", "Bytes that flushes have written.", counted.flushed_bytes),
            ("compaction_count", "Compactions done.", counted.compactions),
            (
                "compaction_failed_count",
                "Compactions that failed; they are tried again.",
                counted.compactions_failed,
            ),
            ("slow_call_count", "Calls over hbase.ipc.warn.response.time.", counted.slow_calls),
            ("slow_get_count", "Gets that took longer than a second.", counted.slow_gets),
            ("slow_put_count", "Single puts that took longer than a second.", counted.slow_puts),
            ("slow_delete_count", "Single deletes that took longer than a second.", counted.slow_deletes),
            ("slow_increment_count", "Increments that took longer than a second.", counted.slow_increments),
            ("slow_append_count", "Appends that took longer than a second.", counted.slow_appends),
            ("large_answer_count", "Answers over hbase.ipc.warn.response.size.", counted.large_answers),
            ("large_batch_count", "Batches over hbase.rpc.rows.warning.threshold.", counted.large_batches),
            (
                "blocked_request_count",
                "Writes refused because the memstores of a region or of the server were full.",
                self.refused_writes(),
            ),
        ] {
            out.counter(&format!("hbase_regionserver_{name}"), help, &[], value);
        }
        let help = "Bytes taken from the log into memory by opening.";
        out.counter("bellows_replayed_bytes_total", help, &[], counted.replayed_bytes);
        let regions = self.regions().all();
        let (mut reads, mut writes, mut stores) = (0, 0, 0);
        let (mut memory, mut files, mut bytes, mut filtered) = (0, 0, 0, 0);
        let (mut index, mut root_index, mut bloom, mut files_max) = (0, 0, 0, 0);
        for region in &regions {
            let load = region.load();
            reads += load.reads;
            writes += load.writes;
            filtered += load.filtered;
            index += load.sizes.index;
            root_index += load.sizes.root_index;
            bloom += load.sizes.bloom;
            files_max = load.stores.iter().map(|store| store.files).fold(files_max, usize::max);
            stores += load.stores.len();
            memory += load.memstore_bytes;
            files += load.files;
            bytes += load.file_bytes;
        }
        show_memory(&regions, out);
        let pool = self.foundation().region_options.memory.usage();
        let help = "Chunks of memory that memstores use, and that wait to be used again.";
        for (state, chunks) in [("used", pool.used), ("waiting", pool.waiting)] {
            out.gauge("bellows_memstore_chunks", help, &[("state", state)], chunks as f64);
        }
        out.gauge("bellows_memstore_chunk_size", "Bytes of such a chunk.", &[], pool.chunk_size as f64);
        for (table, balance) in self.foundation().region_options.ledger.balances() {
            let table = table.to_string();
            for (what, bytes) in [
                ("written", balance.user),
                ("logged", balance.log),
                ("flushed", balance.flushed),
                ("compacted", balance.compacted),
            ] {
                let help = "Bytes that clients wrote to a table, and what they became: log, flushed and compacted files.";
                out.counter("bellows_table_bytes_total", help, &[("table", &table), ("what", what)], bytes);
            }
        }
        out.counter("hbase_regionserver_read_request_count", "Rows read in open regions.", &[], reads);
        out.counter("hbase_regionserver_write_request_count", "Rows written in open regions.", &[], writes);
        let help = "Rows read that a filter dropped.";
        out.counter("hbase_regionserver_filtered_read_request_count", help, &[], filtered);
        let waiting = self.background.waiting();
        for (name, help, value) in [
            ("region_count", "Regions open here.", regions.len() as f64),
            ("store_count", "Stores of those.", stores as f64),
            ("mem_store_size", "Bytes in memstores.", memory as f64),
            (
                "mem_store_size_limit",
                "Bytes that memstores may take together.",
                self.options().memstore_bytes_max as f64,
            ),
            ("store_file_count", "Store files.", files as f64),
            ("store_file_size", "Bytes of store files.", bytes as f64),
            ("max_store_file_count", "Files of the store that has the most.", files_max as f64),
            ("static_index_size", "Bytes of block indexes in store files.", index as f64),
            ("store_file_index_size", "Bytes of root indexes, which are in memory.", root_index as f64),
            ("static_bloom_size", "Bytes of bloom filters in store files.", bloom as f64),
            ("flush_queue_length", "Flushes that wait or run.", waiting.flushes as f64),
            (
                "compaction_queue_length",
                "Compactions that wait or run.",
                (waiting.compactions.small + waiting.compactions.large + waiting.compactions.running) as f64,
            ),
            (
                "small_compaction_queue_length",
                "Compactions below the throttle point that wait.",
                waiting.compactions.small as f64,
            ),
            (
                "large_compaction_queue_length",
                "Compactions above the throttle point that wait.",
                waiting.compactions.large as f64,
            ),
            ("active_scanners", "Scanners open.", self.open_scanners() as f64),
        ] {
            out.gauge(&format!("hbase_regionserver_{name}"), help, &[], value);
        }
        let limit = self.background.compaction_budget.limit();
        if limit != u64::MAX {
            let help = "Bytes a second that compactions may write together; absent without a limit.";
            out.gauge("bellows_compaction_throughput_limit", help, &[], limit as f64);
        }
        if let Some(replica) = self.replica() {
            let help = "Time since which everything that the primary had acknowledged is seen here.";
            out.gauge("bellows_replica_lag_seconds", help, &[], replica.lag().as_secs_f64());
            let help = "Regions that follow the primary, two of its catalog among them.";
            out.gauge("bellows_replica_regions", help, &[], replica.count() as f64);
        }
        self.times.show(out);
        crate::cache_metrics::show(&self.foundation().cache, out);
    }
}
