//! The limits of an RPC server, each with its HBase key where HBase has one.

use std::time::Duration;

use crate::session::Limits;

/// The limits of an RPC server. [`Options::default`] has the defaults of the keys. Keys of HBase have HBase's defaults,
/// unless a field says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of threads that serve connections; a connection stays on one thread. Default: one for each core. Key:
    /// `bellows.serving.threads`.
    pub threads: usize,
    /// Maximum number of threads for blocking work, for each serving thread. Default 32. Key:
    /// `bellows.ipc.server.blocking.threads`.
    pub blocking_threads_max: usize,
    /// Maximum size of a request, in bytes. Default 256 MB. Key: `hbase.ipc.max.request.size`.
    pub request_size_max: usize,
    /// Maximum size of a connection header or SASL message, in bytes. Default 1 MB. Key:
    /// `bellows.ipc.connection.header.size.max`.
    pub header_size_max: usize,
    /// Maximum size of a cell block after decompression, in bytes. Default 256 MB. Key:
    /// `bellows.ipc.cellblock.size.max`.
    pub cells_size_max: usize,
    /// Maximum size of all requests that are being answered, in bytes. Default 1 GB. Key:
    /// `hbase.ipc.server.max.callqueue.size`.
    pub calls_size_max: usize,
    /// Maximum number of requests that are being answered. Key: `hbase.ipc.server.max.callqueue.length`, whose default
    /// in HBase is ten for each of 30 handlers. A call that waits here holds no thread, so the default is 30,000.
    pub calls_max: usize,
    /// Minimum for the time-out of a client's call, in ms. Default 20. Key: `hbase.ipc.min.client.request.timeout`.
    pub timeout_min: Duration,
    /// Maximum number of open connections. Default 10,000. Key: `bellows.ipc.server.connections.max`.
    pub connections_max: usize,
    /// Number of connections above which idle ones are closed. Default 4000. Key: `hbase.ipc.client.idlethreshold`.
    pub idle_threshold: usize,
    /// Time without input and without calls after which a connection is idle. Default 20 s: HBase waits for twice the
    /// value of its key `hbase.ipc.client.connection.maxidletime`.
    pub idle_max: Duration,
    /// Time limit from connecting to the end of the connection header. Default 60 s. Key:
    /// `bellows.ipc.server.handshake.timeout`.
    pub handshake_max: Duration,
    /// How long a client may take to send a request, or pause in the middle of a large one. Default 5 min. Key:
    /// `bellows.ipc.server.read.timeout`.
    pub read_stall_max: Duration,
    /// How long a client may leave answers unread. Default 60 s. Key: `bellows.ipc.server.write.timeout`.
    pub write_stall_max: Duration,
    /// Bytes of unsent answers above which no more requests of the connection are read. Default 4 MB. Key:
    /// `hbase.server.netty.writable.watermark.high`.
    pub output_high: usize,
    /// Limit for the total size of all answers that are being created or wait to be written, in bytes. Default 256 MB.
    /// Key: `bellows.ipc.server.answers.size.max`.
    pub answers_size_max: usize,
    /// Maximum size of a request or answer that needs no permit of the budget for large ones, in bytes. Default 16 MB.
    /// Key: `bellows.ipc.server.large.size.min`.
    pub large_size_min: usize,
    /// Limit for the sum of the large requests and answers that the server works on at the same time, in bytes. A
    /// single large request may exceed it. Each request takes memory of about three times its size. Default 112 MB.
    /// Key: `bellows.ipc.server.large.size.max`.
    pub large_size_max: usize,
    /// How long a client may take to send the rest of a large request once there is room for it. Default 60 s. Key:
    /// `bellows.ipc.server.large.read.timeout`.
    pub large_read_max: Duration,
    /// How long a client may leave answers unread while more than half of `answers_size_max` is in use. Default 5 s.
    /// Key: `bellows.ipc.server.write.timeout.short`.
    pub write_stall_short: Duration,
    /// How long the bytes of a refused request are read and discarded, so that the client sees the refusal. Default 30
    /// s. Key: `bellows.ipc.server.drain.timeout`.
    pub drain_max: Duration,
    /// How long a server that stops waits for calls that are being answered. Default 10 s. Key:
    /// `bellows.ipc.server.stop.timeout`.
    pub stop_max: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads: std::thread::available_parallelism().map_or(1, |count| count.get()),
            blocking_threads_max: 32,
            request_size_max: 256 << 20,
            header_size_max: 1 << 20,
            cells_size_max: 256 << 20,
            calls_size_max: 1 << 30,
            calls_max: 30_000,
            timeout_min: Duration::from_millis(20),
            connections_max: 10_000,
            idle_threshold: 4_000,
            idle_max: Duration::from_secs(20),
            handshake_max: Duration::from_secs(60),
            read_stall_max: Duration::from_secs(300),
            write_stall_max: Duration::from_secs(60),
            output_high: 4 << 20,
            answers_size_max: 256 << 20,
            large_size_min: 16 << 20,
            large_size_max: 112 << 20,
            large_read_max: Duration::from_secs(60),
            write_stall_short: Duration::from_secs(5),
            drain_max: Duration::from_secs(30),
            stop_max: Duration::from_secs(10),
        }
    }
}

impl Options {
    /// Returns why a server cannot run with these limits; the text names the keys.
    pub fn check(&self) -> Result<(), String> {
        if self.threads == 0 {
            return Err("bellows.serving.threads is 0: a server needs a thread".to_owned());
        }
        if self.request_size_max > i32::MAX as usize {
            return Err(format!(
                "hbase.ipc.max.request.size is {}: a frame's length has 31 bits, so at most {}",
                self.request_size_max,
                i32::MAX
            ));
        }
        if self.request_size_max > self.calls_size_max {
            return Err(format!(
                "hbase.ipc.max.request.size ({}) is more than hbase.ipc.server.max.callqueue.size ({}): \
                 the largest request could never be answered",
                self.request_size_max, self.calls_size_max
            ));
        }
        if self.large_size_min > self.large_size_max {
            return Err(format!(
                "bellows.ipc.server.large.size.min ({}) is more than bellows.ipc.server.large.size.max ({}): \
                 lower the first, or raise the second",
                self.large_size_min, self.large_size_max
            ));
        }
        Ok(())
    }

    /// Returns the limits of a single connection.
    pub fn limits(&self) -> Limits {
        Limits {
            request_size_max: self.request_size_max,
            header_size_max: self.header_size_max,
            cells_size_max: self.cells_size_max,
            timeout_min: self.timeout_min,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_cannot_work_are_refused_with_their_keys() {
        assert_eq!(Options::default().check(), Ok(()));
        let refused = Options { request_size_max: 2 << 20, calls_size_max: 1 << 20, ..Options::default() };
        let message = refused.check().expect_err("refused");
        assert!(message.contains("hbase.ipc.max.request.size"), "{message}");
        assert!(message.contains("hbase.ipc.server.max.callqueue.size"), "{message}");
        assert!(Options { threads: 0, ..Options::default() }.check().is_err());
        let refused = Options { large_size_max: 1 << 20, ..Options::default() }.check().expect_err("refused");
        assert!(refused.contains("bellows.ipc.server.large.size.max (1048576)"), "{refused}");
    }
}
