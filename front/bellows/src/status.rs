//! Content of `/healthz` and `/metrics`.

use std::sync::{Arc, OnceLock};

use regionserver::RegionServer;
use telemetry::Source;
use web::{CacheWindow, Exposition, Status};

/// The server as the web pages see it. Empty until clients are served.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) running: OnceLock<Running>,
    /// The counts of the previous dashboard, for its rates.
    pub(crate) cache: CacheWindow,
}

/// The running server.
pub(crate) struct Running {
    pub(crate) server: Arc<RegionServer>,
    pub(crate) log: Arc<wal::Log>,
    /// Counters of RPC.
    pub(crate) rpc: Box<dyn Fn() -> rpc::Snapshot + Send + Sync>,
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
        let Some(Running { server, log, rpc }) = self.running.get() else { return };
        server.show(out);
        log.show(out);
        let counted = rpc();
        for (name, help, value) in [
            ("received_bytes", "Bytes read from clients.", counted.bytes_received),
            ("sent_bytes", "Bytes written to clients.", counted.bytes_sent),
            ("call_count", "Calls that were served.", counted.calls),
            ("inline_call_count", "Calls that were answered at once.", counted.calls_inline),
            ("expired_call_count", "Calls whose client had given up.", counted.calls_expired),
            ("refused_call_count", "Calls refused because too many were served.", counted.calls_refused),
            ("accepted_connection_count", "Connections accepted.", counted.connections_accepted),
            ("refused_connection_count", "Connections refused: too many.", counted.connections_refused),
            (
                "expired_connection_count",
                "Connections closed: the client stood still.",
                counted.connections_expired,
            ),
            ("panic_count", "Calls that broke an invariant of ours.", counted.panics),
        ] {
            out.counter(&format!("hbase_ipc_{name}"), help, &[], value);
        }
        for (name, help, value) in [
            ("num_open_connections", "Connections open.", counted.connections_open),
            ("num_calls_in_general_queue", "Calls that wait for their answer.", counted.calls_in_flight),
            ("queue_size", "Bytes of the requests of those.", counted.calls_in_flight_size),
            ("answers_size", "Bytes of answers that are made or wait to be written.", counted.answers_size),
        ] {
            out.gauge(&format!("hbase_ipc_{name}"), help, &[], value as f64);
        }
        for (class, count) in &counted.exceptions {
            let help = "Exceptions given to clients, by class.";
            out.counter("hbase_ipc_exception_count", help, &[("class", class)], *count);
        }
    }

    fn memstores(&self) -> String {
        self.running.get().map_or_else(String::new, |running| web::memory_dashboard(&running.server))
    }

    fn cache(&self) -> String {
        self.running.get().map_or_else(String::new, |running| {
            let foundation = running.server.foundation();
            self.cache.picture_of(&foundation.cache, foundation.world.moment())
        })
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
