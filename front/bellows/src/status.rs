//! What `/healthz` and `/metrics` show.

use std::sync::{Arc, OnceLock};

use cache::Cache;
use regionserver::RegionServer;
use web::{Exposition, Status};

/// The server as the web page sees it: empty until clients can be served.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) running: OnceLock<Running>,
}

/// What there is to show once clients can be served.
pub(crate) struct Running {
    pub(crate) server: Arc<RegionServer>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) log: Arc<wal::Log>,
}

impl Status for Shown {
    fn health(&self) -> Result<(), String> {
        let running = self.running.get().ok_or("regions are being opened")?;
        if running.server.is_stopping() {
            return Err("the server is stopping".to_owned());
        }
        match running.log.failure() {
            Some(failure) => Err(failure.to_string()),
            None => Ok(()),
        }
    }

    fn metrics(&self, out: &mut Exposition) {
        let Some(Running { server, cache, log }) = self.running.get() else { return };
        let counted = server.counters().snapshot();
        for (name, help, value) in [
            ("requests_total", "Requests of clients, a batch counting once.", counted.requests),
            ("row_actions_total", "Rows that requests acted on.", counted.row_actions),
            ("gets_total", "Calls of Get.", counted.gets),
            ("scans_total", "Calls of Scan.", counted.scans),
            ("multis_total", "Calls of Multi.", counted.multis),
            ("mutates_total", "Calls of Mutate.", counted.mutates),
            ("reads_from_disk_total", "Reads that had to wait for the disk.", counted.reads_from_disk),
            (
                "replayed_bytes_total",
                "Bytes taken from the log into memory by opening.",
                counted.replayed_bytes,
            ),
            ("flushes_total", "Flushes done.", counted.flushes),
            ("flushes_failed_total", "Flushes that failed.", counted.flushes_failed),
            ("compactions_total", "Compactions done.", counted.compactions),
            ("compactions_failed_total", "Compactions that failed.", counted.compactions_failed),
        ] {
            out.counter(&format!("bellows_{name}"), help, &[], value);
        }
        let (mut memory, mut files, mut bytes) = (0u64, 0usize, 0u64);
        let regions = server.regions().all();
        for region in &regions {
            let load = region.load();
            memory += load.memstore_bytes;
            files += load.files;
            bytes += load.file_bytes;
        }
        let blocks = cache.counts();
        let (logs, log_bytes) = log.size();
        for (name, help, value) in [
            ("regions", "Regions open here.", regions.len() as f64),
            ("memstore_bytes", "Bytes in memstores.", memory as f64),
            ("store_files", "Store files.", files as f64),
            ("store_file_bytes", "Bytes of store files.", bytes as f64),
            ("log_files", "Log files kept.", logs as f64),
            ("log_bytes", "Bytes of log files kept.", log_bytes as f64),
            ("block_cache_bytes", "Bytes of blocks in memory.", blocks.bytes as f64),
            ("block_cache_blocks", "Blocks in memory.", blocks.blocks as f64),
            ("open_scanners", "Scanners open.", server.open_scanners() as f64),
        ] {
            out.gauge(&format!("bellows_{name}"), help, &[], value);
        }
        out.counter("bellows_block_cache_hits_total", "Blocks found in memory.", &[], blocks.hits);
        out.counter("bellows_block_cache_misses_total", "Blocks not found in memory.", &[], blocks.misses);
    }

    fn summary(&self) -> String {
        match self.running.get() {
            None => "starting".to_owned(),
            Some(running) => {
                format!(
                    "region server {}\nregions {}",
                    running.server.name(),
                    running.server.regions().count()
                )
            }
        }
    }
}
