//! Settings of a client: where the cluster is, and when to retry or give up.

use std::time::Duration;

use crate::lookup::Registry;

/// A client's settings. [`Options::new`] takes the registry and sets HBase's defaults for the rest.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the cluster is located.
    pub registry: Registry,
    /// The user name that is sent with each connection. Default `bellows`.
    pub user: String,
    /// Maximum number of retries of an operation. Default 15. Key: `hbase.client.retries.number`.
    pub retries: u32,
    /// The unit of the pauses between attempts. Default 100 ms. Key: `hbase.client.pause`.
    pub pause: Duration,
    /// The unit of the pauses after a server reported overload. Default 100 ms. Key:
    /// `hbase.client.pause.server.overloaded`.
    pub pause_overloaded: Duration,
    /// Time limit of one call. Default 60 s. Key: `hbase.rpc.timeout`.
    pub call_max: Duration,
    /// Time limit of an operation with all its attempts. Default 20 min. Key: `hbase.client.operation.timeout`.
    pub operation_max: Duration,
    /// Maximum number of rows in one answer of a scan. Default: no limit other than [`Options::scan_size_max`]. Key:
    /// `hbase.client.scanner.caching`.
    pub scan_rows_max: u32,
    /// Maximum size of one answer of a scan, in bytes. Default 2 MB. Key: `hbase.client.scanner.max.result.size`.
    pub scan_size_max: u64,
    /// Maximum size of the cells in one request of a batch, in bytes; longer batches are split. Default 4 MB. Key:
    /// `hbase.client.max.perrequest.heapsize`.
    pub batch_size_max: usize,
    /// Number of regions that one lookup in hbase:meta caches. Default 10. Key: `hbase.client.locate.prefetch.limit`.
    pub prefetch: u32,
    /// Settings of the connections.
    pub connection: rpc::client::Options,
}

impl Options {
    /// Creates the settings with HBase's defaults.
    pub fn new(registry: Registry) -> Options {
        Options {
            registry,
            user: "bellows".to_owned(),
            retries: 15,
            pause: Duration::from_millis(100),
            pause_overloaded: Duration::from_millis(100),
            call_max: Duration::from_secs(60),
            operation_max: Duration::from_secs(20 * 60),
            scan_rows_max: i32::MAX as u32,
            scan_size_max: 2 << 20,
            batch_size_max: 4 << 20,
            prefetch: 10,
            connection: rpc::client::Options::default(),
        }
    }
}
