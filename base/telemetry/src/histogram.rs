//! Histograms of values, updated without a lock.
//!
//! ```text
//!   value    0 … 15   one bucket each
//!            16 …     eight buckets for each power of two: a bucket is at most an eighth of its values wide
//! ```
//!
//! So a quantile is exact to within 6 %, over all of 64 bits, in 4 KB for each copy. Recording a value adds to two
//! numbers. Each thread uses one of [`STRIPES`] copies of the numbers, so few threads write to the same memory; a
//! reader adds the copies up. Rejected: a lock (cost), a reservoir (loses rare values), and more buckets (a latency
//! needs no exact percent).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Number of copies of the buckets. If there are more threads, they share copies.
const STRIPES: usize = 4;
/// Values below this have buckets of their own.
const EXACT: u64 = 16;
/// Base-2 logarithm of the number of buckets for each power of two: 3 stands for 8 buckets.
const PART_BITS: u32 = 3;
const BUCKETS: usize = EXACT as usize + (64 - EXACT.trailing_zeros() as usize) * (1 << PART_BITS);

/// A histogram: counts of values by bucket, updated without a lock.
pub struct Histogram {
    stripes: Box<[Stripe]>,
}

#[repr(align(128))]
struct Stripe {
    sum: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Histogram {
        let stripe =
            || Stripe { sum: AtomicU64::new(0), buckets: std::array::from_fn(|_| AtomicU64::new(0)) };
        Histogram { stripes: (0..STRIPES).map(|_| stripe()).collect() }
    }
}

/// Returns the index of the copy that this thread uses.
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
    }
    MINE.with(|mine| *mine)
}

fn bucket(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let power = 63 - value.leading_zeros();
    let part = (value >> (power - PART_BITS)) as usize & ((1 << PART_BITS) - 1);
    EXACT as usize + ((power - EXACT.trailing_zeros()) as usize) * (1 << PART_BITS) + part
}

/// Returns the middle of a bucket's values.
fn middle(bucket: usize) -> u64 {
    if bucket < EXACT as usize {
        return bucket as u64;
    }
    let above = bucket - EXACT as usize;
    let power = EXACT.trailing_zeros() + (above >> PART_BITS) as u32;
    let width = 1u64 << (power - PART_BITS);
    let part = (above & ((1 << PART_BITS) - 1)) as u64;
    (1u64 << power) + part * width + width / 2
}

impl Histogram {
    /// Records one value.
    pub fn record(&self, value: u64) {
        let stripe = &self.stripes[stripe()];
        stripe.buckets[bucket(value)].fetch_add(1, Ordering::Relaxed);
        stripe.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Records a time, in ns.
    pub fn record_time(&self, time: Duration) {
        self.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns all values so far. The copies are read one after the other.
    pub fn spread(&self) -> Spread {
        let mut spread = Spread { counts: vec![0; BUCKETS], count: 0, sum: 0 };
        for stripe in &self.stripes {
            spread.sum = spread.sum.wrapping_add(stripe.sum.load(Ordering::Relaxed));
            for (total, bucket) in spread.counts.iter_mut().zip(&stripe.buckets) {
                *total += bucket.load(Ordering::Relaxed);
            }
        }
        spread.count = spread.counts.iter().sum();
        spread
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let spread = self.spread();
        f.debug_struct("Histogram")
            .field("count", &spread.count())
            .field("median", &spread.quantile(0.5))
            .finish_non_exhaustive()
    }
}

/// The distribution of a histogram's values at one moment.
#[derive(Clone, Debug)]
pub struct Spread {
    counts: Vec<u64>,
    count: u64,
    sum: u64,
}

impl Spread {
    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of the values, modulo 2^64.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the lowest and the highest value, to within 6 %; 0 without values.
    pub fn range(&self) -> (u64, u64) {
        let first = self.counts.iter().position(|count| *count > 0).map_or(0, middle);
        let last = self.counts.iter().rposition(|count| *count > 0).map_or(0, middle);
        (first, last)
    }

    /// Returns the mean of the values; 0 without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Returns the distribution of these values and those of `other` together.
    #[must_use]
    pub fn with(mut self, other: Spread) -> Spread {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, others)| *mine += others);
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self
    }

    /// Returns the distribution of the values that were recorded since `earlier`, an earlier result of the same
    /// histogram.
    #[must_use]
    pub fn since(&self, earlier: &Spread) -> Spread {
        let counts = self.counts.iter().zip(&earlier.counts).map(|(now, then)| now.saturating_sub(*then));
        let counts: Vec<u64> = counts.collect();
        Spread { count: counts.iter().sum(), counts, sum: self.sum.wrapping_sub(earlier.sum) }
    }

    /// Returns the quantile `part` (0 to 1), to within 6 %; 0 without values.
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = ((self.count as f64 * part).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return middle(bucket);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_a_bucket_near_it() {
        let mut values: Vec<u64> = (0..5_000).collect();
        values.extend((0..64).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + 1]));
        values.push(u64::MAX);
        values.sort_unstable();
        let mut before = 0;
        for value in values {
            let bucket = bucket(value);
            assert!(bucket < BUCKETS && bucket >= before, "{value} in {bucket}");
            before = bucket;
            let error = middle(bucket).abs_diff(value) as f64 / value.max(1) as f64;
            assert!(error <= 0.0626, "{value} is reported as {}", middle(bucket));
        }
    }

    #[test]
    fn values_since_an_earlier_moment_have_their_own_range_and_mean() {
        let histogram = Histogram::default();
        (0..10).for_each(|_| histogram.record(1_000_000));
        let earlier = histogram.spread();
        [3, 5, 10].into_iter().for_each(|value| histogram.record(value));
        let recent = histogram.spread().since(&earlier);
        assert_eq!((recent.count(), recent.sum(), recent.range()), (3, 18, (3, 10)));
        assert_eq!(recent.mean(), 6.0);
        assert_eq!(recent.clone().with(recent).sum(), 36);
        let none = histogram.spread().since(&histogram.spread());
        assert_eq!((none.count(), none.range(), none.mean(), none.quantile(0.5)), (0, (0, 0), 0.0, 0));
    }

    #[test]
    fn quantiles_of_all_threads_together() {
        let histogram = Histogram::default();
        assert_eq!(histogram.spread().quantile(0.99), 0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (1..=1_000).for_each(|value| histogram.record(value * 1_000)));
            }
        });
        let spread = histogram.spread();
        assert_eq!((spread.count(), spread.sum()), (8_000, 8 * 500_500_000));
        for (part, expected) in [(0.0, 1_000.0), (0.5, 500_000.0), (0.99, 990_000.0), (1.0, 1_000_000.0)] {
            let found = spread.quantile(part) as f64;
            assert!((found / expected - 1.0f64).abs() < 0.07, "{part}: {found}, expected {expected}");
        }
    }
}
