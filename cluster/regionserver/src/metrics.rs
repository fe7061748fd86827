//! What a region server shows of itself, under HBase's names.

use telemetry::{Exposition, Source};

use crate::RegionServer;

impl Source for RegionServer {
    fn show(&self, out: &mut Exposition) {
        let counted = self.counters().snapshot();
        for (name, help, value) in [
            ("total_request_count", "Requests of clients, a batch counting once.", counted.requests),
            ("total_row_action_request_count", "Rows that requests acted on.", counted.row_actions),
            ("rpc_get_request_count", "Calls of Get.", counted.gets),
            ("rpc_scan_request_count", "Calls of Scan.", counted.scans),
            ("rpc_multi_request_count", "Calls of Multi.", counted.multis),
            ("rpc_mutate_request_count", "Calls of Mutate.", counted.mutates),
            ("check_mutate_passed_count", "Conditions that held.", counted.checks_passed),
            ("check_mutate_failed_count", "Conditions that did not hold.", counted.checks_failed),
            ("scanner_lease_expired_count", "Scanners that nobody called.", counted.scanner_leases_expired),
            ("reads_from_disk_count", "Reads that had to wait for the disk.", counted.reads_from_disk),
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
            ("large_answer_count", "Answers over hbase.ipc.warn.response.size.", counted.large_answers),
            ("large_batch_count", "Batches over hbase.rpc.rows.warning.threshold.", counted.large_batches),
            ("blocked_request_count", "Writes refused because memstores were full.", counted.writes_refused),
        ] {
            out.counter(&format!("hbase_regionserver_{name}"), help, &[], value);
        }
        let help = "Bytes taken from the log into memory by opening.";
        out.counter("bellows_replayed_bytes_total", help, &[], counted.replayed_bytes);
        let regions = self.regions().all();
        let (mut reads, mut writes, mut stores) = (0, 0, 0);
        let (mut memory, mut files, mut bytes) = (0, 0, 0);
        for region in &regions {
            let load = region.load();
            reads += load.reads;
            writes += load.writes;
            stores += load.stores.len();
            memory += load.memstore_bytes;
            files += load.files;
            bytes += load.file_bytes;
        }
        out.counter("hbase_regionserver_read_request_count", "Rows read in open regions.", &[], reads);
        out.counter("hbase_regionserver_write_request_count", "Rows written in open regions.", &[], writes);
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
            ("flush_queue_length", "Flushes that wait or run.", waiting.flushes as f64),
            ("compaction_queue_length", "Compactions that wait or run.", waiting.compactions as f64),
            ("active_scanners", "Scanners open.", self.open_scanners() as f64),
        ] {
            out.gauge(&format!("hbase_regionserver_{name}"), help, &[], value);
        }
        self.times.show(out);
        crate::cache_metrics::show(&self.foundation().cache, out);
    }
}
