//! Numbers that are counted while the server works, and the text in which they are shown.
//!
//! A [`Counter`] only grows, a [`Gauge`] goes up and down, a [`Histogram`] says how values are spread. All are updated
//! without a lock. Whoever owns some of them is a [`Source`]: it writes them, with their names, into an [`Exposition`] in
//! the Prometheus text format. Names follow HBase's metrics: its JMX name in snake case behind `hbase_` and the part of
//! the server (`totalRequestCount` of `RegionServer` is `hbase_regionserver_total_request_count`); times are in seconds.
//!
//! Events are `tracing`'s: a level, a target, fields. What each level promises: `error` wakes someone, `warn` is read
//! tomorrow, `info` tells the story of a node's day, `debug` that of a request.
//!
//! What this crate does not know: what is counted, clocks, HTTP.

mod bean;
mod exposition;
mod histogram;

pub use bean::{Attribute, Bean, JmxQuery, jmx, json_text, prometheus, prometheus_name};
pub use exposition::{Exposition, MetricFamily, MetricKind, MetricValue, Sample};
pub use histogram::{Histogram, Spread};

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Somebody who has numbers to show.
pub trait Source: Send + Sync {
    /// Writes all of them.
    fn show(&self, out: &mut Exposition);
}

/// A number that only grows while the process lives.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn count(&self) {
        self.add(1);
    }

    /// Adds several.
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Makes it this.
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Changes it by this.
    pub fn add(&self, by: i64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// What it is.
    pub fn value(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow_and_gauges_follow() {
        let (counter, gauge) = (Counter::default(), Gauge::default());
        counter.count();
        counter.add(4);
        gauge.set(7);
        gauge.add(-9);
        assert_eq!((counter.value(), gauge.value()), (5, -2));
    }
}
