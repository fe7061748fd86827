//! How patient a client is, and where it looks.

use std::time::Duration;

use crate::lookup::Registry;

/// What a client needs to know. [`Options::new`] has HBase's values for all but the registry.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the cluster is looked up.
    pub registry: Registry,
    /// In whose name calls are made. Default `bellows`.
    pub user: String,
    /// How often an operation is tried again. Default 15. Key: `hbase.client.retries.number`.
    pub retries: u32,
    /// The unit of the waits between tries. Default 100 ms. Key: `hbase.client.pause`.
    pub pause: Duration,
    /// The same when a server says that it is overloaded. Default 100 ms. Key: `hbase.client.pause.server.overloaded`.
    pub pause_overloaded: Duration,
    /// How long one call may take. Default 60 s. Key: `hbase.rpc.timeout`.
    pub call_max: Duration,
    /// How long an operation may take with all its tries. Default 20 min. Key: `hbase.client.operation.timeout`.
    pub operation_max: Duration,
    /// Rows that a scan asks for at once, at most. Default: as many as fit into [`Options::scan_size_max`]. Key:
    /// `hbase.client.scanner.caching`.
    pub scan_rows_max: u32,
    /// Bytes that a scan asks for at once. Default 2 MB. Key: `hbase.client.scanner.max.result.size`.
    pub scan_size_max: u64,
    /// Bytes of cells in one request of a batch; a longer one is sent in parts. Default 4 MB. Key:
    /// `hbase.client.max.perrequest.heapsize`.
    pub batch_size_max: usize,
    /// Regions that one look into hbase:meta learns. Default 10. Key: `hbase.client.locate.prefetch.limit`.
    pub prefetch: u32,
    /// How the connections behave.
    pub connection: rpc::client::Options,
}

impl Options {
    /// HBase's values.
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
