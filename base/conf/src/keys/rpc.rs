//! Requests and connections.

keys! {
    /// Longest request that is read.
    MAX_REQUEST_SIZE: Size = "hbase.ipc.max.request.size", "268435456";
    /// Shortest time that a call is given, however little its client allows.
    MIN_CLIENT_REQUEST_TIMEOUT: Millis = "hbase.ipc.min.client.request.timeout", "20";
    /// Most bytes of requests in the server at the same time.
    MAX_CALL_QUEUE_SIZE: Size = "hbase.ipc.server.max.callqueue.size", "1073741824";
    /// Duration above which a call is reported in the log; -1 reports none.
    WARN_RESPONSE_TIME: Number = "hbase.ipc.warn.response.time", "10000";
    /// Size above which an answer is reported in the log; -1 reports none.
    WARN_RESPONSE_SIZE: Number = "hbase.ipc.warn.response.size", "104857600";
    /// The same of scans. Where nobody sets it `hbase.ipc.warn.response.time` counts.
    WARN_SCAN_RESPONSE_TIME: Number = "hbase.ipc.warn.response.time.scan", "10000";
    /// The same of the answers of scans. Where nobody sets it `hbase.ipc.warn.response.size` counts.
    WARN_SCAN_RESPONSE_SIZE: Number = "hbase.ipc.warn.response.size.scan", "104857600";
    /// URL of an OpenTelemetry collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`. Empty: that of
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`, or no spans are sent. Calls whose client records a trace have spans.
    OTLP_ENDPOINT: Text = "bellows.otlp.endpoint", "";
    /// Most requests in the server at the same time. HBase allows ten for each handler thread; calls that wait hold no
    /// thread here.
    MAX_CALL_QUEUE_LENGTH: Count = "hbase.ipc.server.max.callqueue.length", "30000";
    /// Longest connection header.
    MAX_HEADER_SIZE: Size = "bellows.ipc.connection.header.size.max", "1048576";
    /// Largest cell block after decompression.
    MAX_CELL_BLOCK_SIZE: Size = "bellows.ipc.cellblock.size.max", "268435456";
    /// Most open connections.
    MAX_CONNECTIONS: Count = "bellows.ipc.server.connections.max", "10000";
    /// Number of connections above which idle ones are closed.
    IDLE_THRESHOLD: Count = "hbase.ipc.client.idlethreshold", "4000";
    /// Half of the time after which a connection counts as idle, as in HBase.
    MAX_IDLE_TIME: Millis = "hbase.ipc.client.connection.maxidletime", "10000";
    /// Longest time from connecting to the end of the connection header.
    HANDSHAKE_TIMEOUT: Millis = "bellows.ipc.server.handshake.timeout", "60000";
    /// Longest pause of a client in the middle of a request.
    READ_TIMEOUT: Millis = "bellows.ipc.server.read.timeout", "300000";
    /// How long a client may leave answers unread.
    WRITE_TIMEOUT: Millis = "bellows.ipc.server.write.timeout", "60000";
    /// Bytes of unwritten answers at which no further requests of their connection are read.
    OUTPUT_HIGH: Size = "hbase.server.netty.writable.watermark.high", "4194304";
    /// Most bytes of all answers together, from when they are made until they are written.
    MAX_ANSWERS_SIZE: Size = "bellows.ipc.server.answers.size.max", "268435456";
    /// Requests and answers above this size wait until the server has memory for them.
    LARGE_SIZE_MIN: Size = "bellows.ipc.server.large.size.min", "16777216";
    /// Most bytes of all large requests and answers together; a single one may have more. Each takes about three times its
    /// size of memory, for example in the log's buffer and the memstore.
    LARGE_SIZE_MAX: Size = "bellows.ipc.server.large.size.max", "117440512";
    /// Longest time for the rest of a large request to arrive once there is memory for it.
    LARGE_READ_TIMEOUT: Millis = "bellows.ipc.server.large.read.timeout", "60000";
    /// How long a client may leave answers unread while all answers take more than half of that.
    WRITE_TIMEOUT_SHORT: Millis = "bellows.ipc.server.write.timeout.short", "5000";
    /// How long a refused request is read and discarded so that its client sees the refusal.
    DRAIN_TIMEOUT: Millis = "bellows.ipc.server.drain.timeout", "30000";
    /// How long a server that stops waits for calls under way.
    STOP_TIMEOUT: Millis = "bellows.ipc.server.stop.timeout", "10000";
    /// Most threads for blocking work of each serving thread.
    BLOCKING_THREADS: Count = "bellows.ipc.server.blocking.threads", "32";
    /// Number of threads that serve requests. 0: one for each core. HBase needs one for each request under way.
    SERVING_THREADS: Count = "bellows.serving.threads", "0";
    /// Most connections of browsers and scrapers. Further ones wait.
    WEB_CONNECTIONS_MAX: Count = "bellows.web.connections.max", "200";
    /// Longest time of a web client from connecting, or from an answer, to the end of its next request, and to read an answer.
    WEB_REQUEST_TIMEOUT: Millis = "bellows.web.request.timeout", "30000";
}
