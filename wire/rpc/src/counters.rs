//! Counters of a server.
//!
//! Every serving thread has its own counters, so that counting moves no cache line between cores. A reader adds them
//! up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use env::sync::Mutex;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one thread.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Shard {
            $(pub(crate) $name: AtomicU64,)*
        }

        /// The counters since the server's start.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)*
            /// Connections that are open now.
            pub connections_open: u64,
            /// Calls that wait for their answer now.
            pub calls_in_flight: u64,
            /// Bytes of the requests of those calls.
            pub calls_in_flight_size: u64,
            /// Bytes of answers that are being created or wait to be written.
            pub answers_size: u64,
            /// Bytes of large requests and answers that the server works on now.
            pub large_size: u64,
            /// Large requests and answers that wait for memory now.
            pub large_waiting: u64,
            /// Exceptions sent to clients, by class.
            pub exceptions: BTreeMap<String, u64>,
        }

        impl Snapshot {
            pub(crate) fn add(&mut self, shard: &Shard) {
                $(self.$name += shard.$name.load(Ordering::Relaxed);)*
            }
        }
    };
}

counters! {
    /// Connections accepted.
    connections_accepted,
    /// Connections refused because too many were open.
    connections_refused,
    /// Connections closed because the client made no progress: in the handshake, in a request, in reading, or idle.
    connections_expired,
    /// Requests passed to a service.
    calls,
    /// Requests among them that were answered immediately.
    calls_inline,
    /// Requests dropped without an answer because the client had given up.
    calls_expired,
    /// Requests refused because too many were being answered.
    calls_refused,
    /// Panics inside services.
    panics,
    /// Bytes read.
    bytes_received,
    /// Bytes written.
    bytes_sent,
    /// Number of reads; calls divided by reads shows how well clients batch.
    reads,
    /// Number of writes.
    writes,
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// Gauges of the whole server, and the exceptions, which are rare.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) connections_open: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) calls_size: AtomicU64,
    exceptions: Mutex<BTreeMap<String, u64>>,
}

impl Gauges {
    pub(crate) fn exception(&self, class: &str) {
        let mut exceptions = self.exceptions.lock();
        match exceptions.get_mut(class) {
            Some(count) => *count += 1,
            None => {
                exceptions.insert(class.to_owned(), 1);
            }
        }
    }

    pub(crate) fn snapshot<'a>(&self, shards: impl Iterator<Item = &'a Shard>) -> Snapshot {
        let mut snapshot = Snapshot {
            connections_open: self.connections_open.load(Ordering::Relaxed),
            calls_in_flight: self.calls.load(Ordering::Relaxed),
            calls_in_flight_size: self.calls_size.load(Ordering::Relaxed),
            exceptions: self.exceptions.lock().clone(),
            ..Snapshot::default()
        };
        shards.for_each(|shard| snapshot.add(shard));
        snapshot
    }
}
