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
    /// How many requests may be in the server at the same time. In HBase ten for each handler; a call that waits holds no
    /// thread here.
    MAX_CALL_QUEUE_LENGTH: Count = "hbase.ipc.server.max.callqueue.length", "30000";
    /// The longest connection header.
    MAX_HEADER_SIZE: Size = "bellows.ipc.connection.header.size.max", "1048576";
    /// The longest cell block after unpacking.
    MAX_CELL_BLOCK_SIZE: Size = "bellows.ipc.cellblock.size.max", "268435456";
    /// How many connections may be open.
    MAX_CONNECTIONS: Count = "bellows.ipc.server.connections.max", "10000";
    /// Above so many connections, idle ones are closed.
    IDLE_THRESHOLD: Count = "hbase.ipc.client.idlethreshold", "4000";
    /// How long a connection is idle before it may be closed; twice this counts, as in HBase.
    MAX_IDLE_TIME: Millis = "hbase.ipc.client.connection.maxidletime", "10000";
    /// How long a client may take from connecting to the end of its connection header.
    HANDSHAKE_TIMEOUT: Millis = "bellows.ipc.server.handshake.timeout", "60000";
    /// How long a client may stand still in the middle of a request.
    READ_TIMEOUT: Millis = "bellows.ipc.server.read.timeout", "300000";
    /// How long a client may leave answers unread.
    WRITE_TIMEOUT: Millis = "bellows.ipc.server.write.timeout", "60000";
    /// How many bytes of answers wait to be written before no more requests of their connection are read.
    OUTPUT_HIGH: Size = "hbase.server.netty.writable.watermark.high", "4194304";
    /// How many bytes answers may take together, from their making until they are written.
    MAX_ANSWERS_SIZE: Size = "bellows.ipc.server.answers.size.max", "268435456";
    /// How long a client may leave answers unread while they take more than half of that.
    WRITE_TIMEOUT_SHORT: Millis = "bellows.ipc.server.write.timeout.short", "5000";
    /// How long a refused request is read and thrown away so that the refusal is seen.
    DRAIN_TIMEOUT: Millis = "bellows.ipc.server.drain.timeout", "30000";
    /// How long a stop waits for calls that are being answered.
    STOP_TIMEOUT: Millis = "bellows.ipc.server.stop.timeout", "10000";
    /// How many threads each serving thread may have for work that blocks.
    BLOCKING_THREADS: Count = "bellows.ipc.server.blocking.threads", "32";
    /// How many threads serve requests. HBase needs one for each request in flight; here one for each core is right, so
    /// that 0, the default, means the number of cores.
    SERVING_THREADS: Count = "bellows.serving.threads", "0";
    /// How many browsers and scrapers may be connected; who comes after them waits.
    WEB_CONNECTIONS_MAX: Count = "bellows.web.connections.max", "200";
    /// How long one of them may take from a connection or an answer to the end of its next request, and to read an answer.
    WEB_REQUEST_TIMEOUT: Millis = "bellows.web.request.timeout", "30000";
}
