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
            /// The counters now; each is read by itself.
            pub fn snapshot(&self) -> Snapshot {
                Snapshot { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Requests of clients; a batch counts once (`totalRequestCount`).
    requests;
    /// Rows that requests acted on; each action of a batch counts (`totalRowActionRequestCount`).
    row_actions;
    /// Calls of Get (`rpcGetRequestCount`).
    gets;
    /// Calls of Scan (`rpcScanRequestCount`).
    scans;
    /// Scans opened without a start and without an end (`rpcFullScanRequestCount`).
    full_scans;
    /// Calls of Multi (`rpcMultiRequestCount`).
    multis;
    /// Calls of Mutate (`rpcMutateRequestCount`).
    mutates;
    /// Conditions that held (`checkMutatePassedCount`).
    checks_passed;
    /// Conditions that did not hold (`checkMutateFailedCount`).
    checks_failed;
    /// Scanners whose lease ran out (`scannerLeaseExpiredCount`).
    scanner_leases_expired;
    /// Reads that left the serving thread because a block was not in memory.
    reads_from_disk;
    /// Bytes of memory that region openings replayed from the log.
    replayed_bytes;
    /// Flushes done (`flushTime_num_ops`).
    flushes;
    /// Flushes that failed.
    flushes_failed;
    /// Compactions done (`compactionTime_num_ops`).
    compactions;
    /// Compactions that failed.
    compactions_failed;
    /// Bytes that flushes have written (`flushedOutputBytes`).
    flushed_bytes;
    /// Calls that took longer than `hbase.ipc.warn.response.time`.
    slow_calls;
    /// Gets that took longer than a second (`slowGetCount`).
    slow_gets;
    /// Single puts that took longer than a second (`slowPutCount`).
    slow_puts;
    /// Single deletes that took longer than a second (`slowDeleteCount`).
    slow_deletes;
    /// Increments that took longer than a second (`slowIncrementCount`).
    slow_increments;
    /// Appends that took longer than a second (`slowAppendCount`).
    slow_appends;
    /// Responses larger than `hbase.ipc.warn.response.size`.
    large_answers;
    /// Batches with more rows than `hbase.rpc.rows.warning.threshold`.
    large_batches;
    /// Writes that were refused because memstores were full.
    writes_refused;
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Adds several.
pub(crate) fn count_many(counter: &AtomicU64, many: usize) {
    counter.fetch_add(many as u64, Ordering::Relaxed);
}
