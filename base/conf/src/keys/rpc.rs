//! Requests and connections.

keys! {
    /// Maximum size of a request that the server reads.
    MAX_REQUEST_SIZE: Size = "hbase.ipc.max.request.size", "268435456";
    /// Minimum time that a call is given, even if its client allows less.
    MIN_CLIENT_REQUEST_TIMEOUT: Millis = "hbase.ipc.min.client.request.timeout", "20";
    /// Maximum number of bytes of all requests in the server at the same time.
    MAX_CALL_QUEUE_SIZE: Size = "hbase.ipc.server.max.callqueue.size", "1073741824";
    /// Duration in ms above which a call is reported in the log; -1 reports none.
    WARN_RESPONSE_TIME: Number = "hbase.ipc.warn.response.time", "10000";
    /// Size in bytes above which an answer is reported in the log; -1 reports none.
    WARN_RESPONSE_SIZE: Number = "hbase.ipc.warn.response.size", "104857600";
    /// Duration in ms above which a scan is reported in the log. If unset, `hbase.ipc.warn.response.time` is used.
    WARN_SCAN_RESPONSE_TIME: Number = "hbase.ipc.warn.response.time.scan", "10000";
    /// Size in bytes above which the answer to a scan is reported in the log. If unset, `hbase.ipc.warn.response.size`
    /// is used.
    WARN_SCAN_RESPONSE_SIZE: Number = "hbase.ipc.warn.response.size.scan", "104857600";
    /// URL of an OpenTelemetry collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`. Empty: the value
    /// of `OTEL_EXPORTER_OTLP_ENDPOINT`, or no spans are sent. The server sends spans of calls whose client records a
    /// trace.
    OTLP_ENDPOINT: Text = "bellows.otlp.endpoint", "";
    /// Maximum number of requests in the server at the same time. HBase allows ten for each handler thread; here a
    /// waiting call holds no thread.
    MAX_CALL_QUEUE_LENGTH: Count = "hbase.ipc.server.max.callqueue.length", "30000";
    /// Maximum size of a connection header.
    MAX_HEADER_SIZE: Size = "bellows.ipc.connection.header.size.max", "1048576";
    /// Maximum size of a cell block after decompression.
    MAX_CELL_BLOCK_SIZE: Size = "bellows.ipc.cellblock.size.max", "268435456";
    /// Maximum number of open connections.
    MAX_CONNECTIONS: Count = "bellows.ipc.server.connections.max", "10000";
    /// Number of connections above which idle ones are closed.
    IDLE_THRESHOLD: Count = "hbase.ipc.client.idlethreshold", "4000";
    /// Half of the time after which a connection without requests counts as idle, as in HBase. Idle connections are
    /// closed only above `hbase.ipc.client.idlethreshold`.
    MAX_IDLE_TIME: Millis = "hbase.ipc.client.connection.maxidletime", "10000";
    /// Maximum time from connecting to the end of the connection header.
    HANDSHAKE_TIMEOUT: Millis = "bellows.ipc.server.handshake.timeout", "60000";
    /// Maximum time for a request to arrive, or pause in the middle of a large one, after which the connection is closed.
    READ_TIMEOUT: Millis = "bellows.ipc.server.read.timeout", "300000";
    /// How long a client may leave answers unread before its connection is closed.
    WRITE_TIMEOUT: Millis = "bellows.ipc.server.write.timeout", "60000";
    /// Number of bytes of unwritten answers at which the server stops reading requests of their connection.
    OUTPUT_HIGH: Size = "hbase.server.netty.writable.watermark.high", "4194304";
    /// Maximum number of bytes of all answers together, from when they are made until they are written.
    MAX_ANSWERS_SIZE: Size = "bellows.ipc.server.answers.size.max", "268435456";
    /// Requests and answers above this size wait until the server has memory for them.
    LARGE_SIZE_MIN: Size = "bellows.ipc.server.large.size.min", "16777216";
    /// Maximum number of bytes of all large requests and answers together; a single one may have more. Each takes about
    /// three times its size of memory, for example in the log's buffer and the memstore.
    LARGE_SIZE_MAX: Size = "bellows.ipc.server.large.size.max", "117440512";
    /// Maximum time for the rest of a large request to arrive once there is memory for it.
    LARGE_READ_TIMEOUT: Millis = "bellows.ipc.server.large.read.timeout", "60000";
    /// How long a client may leave answers unread before its connection is closed, while all answers together take more
    /// than half of `bellows.ipc.server.answers.size.max`.
    WRITE_TIMEOUT_SHORT: Millis = "bellows.ipc.server.write.timeout.short", "5000";
    /// How long the server reads and discards the rest of a refused request, so that its client sees the refusal.
    DRAIN_TIMEOUT: Millis = "bellows.ipc.server.drain.timeout", "30000";
    /// How long a server that stops waits for the calls that it is executing.
    STOP_TIMEOUT: Millis = "bellows.ipc.server.stop.timeout", "10000";
    /// Maximum number of threads for the blocking work of each serving thread.
    BLOCKING_THREADS: Count = "bellows.ipc.server.blocking.threads", "32";
    /// Number of threads that serve requests. 0: one for each core. HBase needs one for each request under way.
    SERVING_THREADS: Count = "bellows.serving.threads", "0";
    /// Maximum number of connections of browsers and metrics scrapers. Further ones wait.
    WEB_CONNECTIONS_MAX: Count = "bellows.web.connections.max", "200";
    /// Maximum time from connecting, or from the last bytes of the previous answer, until the server begins to send the
    /// next answer. While it sends an answer, the maximum time in which the client reads no bytes.
    WEB_REQUEST_TIMEOUT: Millis = "bellows.web.request.timeout", "30000";
}
