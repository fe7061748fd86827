//! Counters, gauges and histograms, and the text that shows them.
//!
//! A [`Counter`] only grows, a [`Gauge`] goes up and down, a [`Histogram`] has the distribution of values. All are
//! updated without a lock. A [`Source`] owns some of them, and writes them with their names into an [`Exposition`],
//! which renders the Prometheus text format. Names follow HBase's metrics: the JMX name in snake case after `hbase_`
//! and the component (`totalRequestCount` of `RegionServer` is `hbase_regionserver_total_request_count`). Metrics that
//! HBase does not have begin with `bellows_`. Times are in seconds.
//!
//! Events are `tracing`'s, with a level, a target and fields. `error` must wake an operator, `warn` is read the next
//! day, `info` describes a node's day, and `debug` a request.
//!
//! This crate knows neither the meaning of the metrics nor clocks nor HTTP.

mod bean;
mod exposition;
mod histogram;

pub use bean::{Attribute, Bean, JmxQuery, jmx, json_text, prometheus, prometheus_name};
pub use exposition::{Exposition, MetricFamily, MetricKind, MetricValue, Sample};
pub use histogram::{Histogram, Spread};

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// An owner of metrics.
pub trait Source: Send + Sync {
    /// Writes all metrics of this owner to `out`.
    fn show(&self, out: &mut Exposition);
}

/// A number that only grows while the process lives.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds 1.
    pub fn count(&self) {
        self.add(1);
    }

    /// Adds `by`.
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// Returns the present value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Sets the value.
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds `by`, which may be negative.
    pub fn add(&self, by: i64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// Returns the present value.
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
