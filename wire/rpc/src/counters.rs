//! Counters of a server.
//!
//! Every serving thread has its own counters, so that cores do not contend for a cache line. A reader adds the counters
//! of all threads.

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

        /// The counters of a server since its start.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)*
            /// Number of connections that are open now.
            pub connections_open: u64,
            /// Number of calls that wait for their answer now.
            pub calls_in_flight: u64,
            /// Bytes of the requests of the calls that wait for their answer now.
            pub calls_in_flight_size: u64,
            /// Bytes of answers that are being created or wait to be written.
            pub answers_size: u64,
            /// Bytes of large requests and answers that the server works on now.
            pub large_size: u64,
            /// Large requests and answers that wait for memory now.
            pub large_waiting: u64,
            /// Number of exceptions sent to clients, by class.
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
    /// Number of connections accepted.
    connections_accepted,
    /// Number of connections refused because too many were open.
    connections_refused,
    /// Number of connections closed because the client made no progress: in the handshake, within a request, in reading
    /// answers, or because it sent no call.
    connections_expired,
    /// Number of requests passed to a service.
    calls,
    /// Number of requests that the service answered immediately.
    calls_inline,
    /// Number of requests dropped without an answer because the client no longer waited.
    calls_expired,
    /// Number of requests refused because too many were being answered.
    calls_refused,
    /// Number of panics inside services.
    panics,
    /// Number of bytes read.
    bytes_received,
    /// Number of bytes written.
    bytes_sent,
    /// Number of reads from sockets. The number of calls for each read shows how well clients batch.
    reads,
    /// Number of writes to sockets.
    writes,
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// Gauges of the whole server, and counts of the exceptions, which are rare.
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
