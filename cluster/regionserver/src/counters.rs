//! Counters of the server, named after HBase's metrics.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident;)*) => {
        /// Counters of one server, counting from its start.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub(crate) $name: AtomicU64,)*
        }

        /// The counters at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Snapshot {
            $($(#[doc = $doc])+ pub $name: u64,)*
        }

        impl Counters {
            /// Returns the present values. Each counter is read separately.
            pub fn snapshot(&self) -> Snapshot {
                Snapshot { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Number of requests of clients; a batch counts once (`totalRequestCount`).
    requests;
    /// Number of rows that requests acted on; each action of a batch counts (`totalRowActionRequestCount`).
    row_actions;
    /// Number of calls of Get (`rpcGetRequestCount`).
    gets;
    /// Number of calls of Scan (`rpcScanRequestCount`).
    scans;
    /// Number of scans opened without a start and without an end (`rpcFullScanRequestCount`).
    full_scans;
    /// Number of calls of Multi (`rpcMultiRequestCount`).
    multis;
    /// Number of calls of Mutate (`rpcMutateRequestCount`).
    mutates;
    /// Number of conditions that held (`checkMutatePassedCount`).
    checks_passed;
    /// Number of conditions that did not hold (`checkMutateFailedCount`).
    checks_failed;
    /// Number of scanners whose lease expired (`scannerLeaseExpiredCount`).
    scanner_leases_expired;
    /// Number of reads that left the serving thread: because a block was not in memory, or because a scan took long.
    reads_from_disk;
    /// Number of bytes that openings of regions replayed from the log into memory.
    replayed_bytes;
    /// Number of flushes that succeeded (`flushTime_num_ops`).
    flushes;
    /// Number of flushes that failed.
    flushes_failed;
    /// Number of compactions that succeeded (`compactionTime_num_ops`).
    compactions;
    /// Number of compactions that failed.
    compactions_failed;
    /// Number of bytes that flushes have written (`flushedOutputBytes`).
    flushed_bytes;
    /// Number of calls that took longer than `hbase.ipc.warn.response.time`.
    slow_calls;
    /// Number of gets that took longer than a second (`slowGetCount`).
    slow_gets;
    /// Number of single puts that took longer than a second (`slowPutCount`).
    slow_puts;
    /// Number of single deletes that took longer than a second (`slowDeleteCount`).
    slow_deletes;
    /// Number of increments that took longer than a second (`slowIncrementCount`).
    slow_increments;
    /// Number of appends that took longer than a second (`slowAppendCount`).
    slow_appends;
    /// Number of responses larger than `hbase.ipc.warn.response.size`.
    large_answers;
    /// Number of batches with more rows than `hbase.rpc.rows.warning.threshold`.
    large_batches;
}

/// Adds 1 to a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Adds `many` to a counter.
pub(crate) fn count_many(counter: &AtomicU64, many: usize) {
    counter.fetch_add(many as u64, Ordering::Relaxed);
}
