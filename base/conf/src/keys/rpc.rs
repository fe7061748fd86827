//! Requests and connections.

keys! {
    /// The longest request that is read.
    MAX_REQUEST_SIZE: Size = "hbase.ipc.max.request.size", "268435456";
    /// The shortest time a call is given, whatever its client says.
    MIN_CLIENT_REQUEST_TIMEOUT: Millis = "hbase.ipc.min.client.request.timeout", "20";
    /// How many bytes of requests may be in the server at the same time.
    MAX_CALL_QUEUE_SIZE: Size = "hbase.ipc.server.max.callqueue.size", "1073741824";
    /// A call that takes longer is told in the log; -1 tells of none.
    WARN_RESPONSE_TIME: Number = "hbase.ipc.warn.response.time", "10000";
    /// An answer of more bytes is told in the log; -1 tells of none.
    WARN_RESPONSE_SIZE: Number = "hbase.ipc.warn.response.size", "104857600";
    /// How many threads serve requests. HBase needs one for each request in flight; here one for each core is right, so
    /// that 0, the default, means the number of cores.
    SERVING_THREADS: Count = "bellows.serving.threads", "0";
}
