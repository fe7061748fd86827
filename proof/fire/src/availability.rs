//! How long each operation of a client took, from its first attempt to its answer, retries included.
//!
//! Operations that are slow at the same time have one cause, so they count as one outage. The machine itself may be too
//! busy to let this process work: a task that only sleeps measures how late it is woken up ([`Availability::lag`]).

use std::collections::VecDeque;
use std::time::Duration;

use env::sync::Mutex;
use env::{Moment, World};

/// Time above which an operation shows that its key was not available.
const OUTAGE_MIN: Duration = Duration::from_millis(100);
/// Maximum number of outages that are kept and shown: the longest ones.
const OUTAGES_MAX: usize = 12;
/// Width of a bucket of the histogram, in µs.
const BUCKET_US: u64 = 100;
/// Number of buckets; the last one has everything above.
const BUCKETS: usize = 200_000;
/// Time between two measurements of the machine's lag.
const LAG_INTERVAL: Duration = Duration::from_millis(5);
/// Minimum lag that is remembered.
const LAG_MIN: Duration = Duration::from_millis(10);
/// Number of lags that are remembered.
const LAGS_MAX: usize = 1_000;

/// Slow operations that overlap in time.
struct Outage {
    from: Moment,
    to: Moment,
    /// The duration of the slowest operation.
    time: Duration,
    what: String,
    /// What the administrators did at that time.
    doing: String,
    /// The longest delay with which the machine woke up a sleeping task during the outage.
    lag: Duration,
}

struct Inner {
    /// Number of operations by their time.
    histogram: Vec<u64>,
    count: u64,
    /// Number of operations above [`OUTAGE_MIN`].
    slow: u64,
    max: Duration,
    /// The longest outages, in no order.
    outages: Vec<Outage>,
    /// Number of outages above [`OUTAGE_MIN`], and the end of the last one.
    long: u64,
    long_until: Moment,
    /// When a task should have been woken up, and when it was.
    lags: VecDeque<(Moment, Moment)>,
    lag_max: Duration,
}

/// The times of all operations of clients.
pub(crate) struct Availability {
    began: Moment,
    inner: Mutex<Inner>,
}

impl Availability {
    pub(crate) fn new(began: Moment) -> Availability {
        let inner = Inner {
            histogram: vec![0; BUCKETS],
            count: 0,
            slow: 0,
            max: Duration::ZERO,
            outages: Vec::new(),
            long: 0,
            long_until: began,
            lags: VecDeque::new(),
            lag_max: Duration::ZERO,
        };
        Availability { began, inner: Mutex::new(inner) }
    }

    /// Records an operation on `row`. `doing` describes the work of the administrators at that time.
    pub(crate) fn record(
        &self,
        from: Moment,
        to: Moment,
        what: &'static str,
        row: &[u8],
        doing: impl FnOnce() -> String,
    ) {
        let time = to.since(from);
        let mut inner = self.inner.lock();
        let bucket = (time.as_micros() as u64 / BUCKET_US).min(BUCKETS as u64 - 1);
        inner.histogram[bucket as usize] += 1;
        inner.count += 1;
        inner.max = inner.max.max(time);
        if time > OUTAGE_MIN {
            inner.slow += 1;
            if from > inner.long_until {
                inner.long += 1;
            }
            inner.long_until = inner.long_until.max(to);
        }
        if time > LAG_MIN {
            inner.keep(from, to, format!("{what} of row {}", row.escape_ascii()), doing);
        }
    }

    /// Measures the machine's lag until the process ends.
    pub(crate) async fn lag(&self, world: &World) {
        loop {
            let due = world.moment().plus(LAG_INTERVAL);
            env::sleep(LAG_INTERVAL).await;
            let now = world.moment();
            let late = now.since(due);
            if late > LAG_MIN {
                let mut inner = self.inner.lock();
                inner.lag_max = inner.lag_max.max(late);
                inner.lags.push_back((due, now));
                if inner.lags.len() > LAGS_MAX {
                    inner.lags.pop_front();
                }
            }
        }
    }

    /// Returns the distribution of the times, then each of the longest outages.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut inner = self.inner.lock();
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1_000.0);
        let quantiles =
            [0.5, 0.99, 0.999, 0.9999].map(|part| format!("p{} {}", part * 100.0, ms(inner.quantile(part))));
        let mut lines = vec![
            format!(
                "unavailability of a key in calm times: {} operations, {}, max {}",
                inner.count,
                quantiles.join(", "),
                ms(inner.max)
            ),
            format!(
                "{} operations in {} outages took more than {}; a sleeping task was woken up at most {} late",
                inner.slow,
                inner.long,
                ms(OUTAGE_MIN),
                ms(inner.lag_max)
            ),
        ];
        inner.outages.sort_by_key(|outage| std::cmp::Reverse(outage.time));
        lines.extend(inner.outages.iter().map(|outage| {
            format!(
                "{} by {} {:.3} s after the begin, lag {}, administrators: {}",
                ms(outage.time),
                outage.what,
                outage.from.since(self.began).as_secs_f64(),
                ms(outage.lag),
                outage.doing
            )
        }));
        lines
    }
}

impl Inner {
    /// Keeps an operation if it belongs to a longest outage.
    fn keep(&mut self, from: Moment, to: Moment, what: String, doing: impl FnOnce() -> String) {
        let time = to.since(from);
        let overlaps = |outage: &Outage| outage.from <= to && outage.to >= from;
        let same = self.outages.iter().position(overlaps);
        let shortest = || (0..self.outages.len()).min_by_key(|at| self.outages[*at].time);
        let replaced = match same {
            Some(at) => Some(at),
            None if self.outages.len() < OUTAGES_MAX => None,
            None => shortest(),
        };
        if replaced.is_some_and(|at| self.outages[at].time >= time) {
            return;
        }
        // A lag that goes on is recorded later: its task has not been woken up either.
        let lags = self.lags.iter().filter(|(due, woken)| *due <= to && *woken >= from);
        let lag = lags.map(|(due, woken)| woken.since(*due)).max().unwrap_or_default();
        let outage = Outage { from, to, time, what, doing: doing(), lag };
        match replaced {
            Some(at) => self.outages[at] = outage,
            None => self.outages.push(outage),
        }
    }

    /// Returns the time that this part of the operations did not exceed, to the width of a bucket.
    fn quantile(&self, part: f64) -> Duration {
        let mut left = (self.count as f64 * part).ceil() as u64;
        for (bucket, count) in self.histogram.iter().enumerate() {
            if *count >= left {
                return Duration::from_micros(BUCKET_US * (bucket as u64 + 1)).min(self.max);
            }
            left -= count;
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use env::WallTime;

    use super::*;

    fn at(world: &World, ms: u64) -> Moment {
        world.moment().plus(Duration::from_millis(ms))
    }

    #[test]
    fn a_distribution_has_quantiles_and_the_longest_time() {
        let world = World::simulated(1, WallTime(0));
        let availability = Availability::new(world.moment());
        for ms in 1..=100 {
            availability.record(at(&world, 1_000 * ms), at(&world, 1_001 * ms), "a get", b"r", String::new);
        }
        let line = &availability.lines()[0];
        assert!(line.contains("100 operations, p50 50.1 ms, p99 99.1 ms"), "{line}");
        assert!(line.ends_with("max 100.0 ms"), "{line}");
    }

    #[test]
    fn operations_that_wait_at_the_same_time_are_one_outage() {
        let world = World::simulated(1, WallTime(0));
        let availability = Availability::new(world.moment());
        let record = |from, to, what| {
            availability.record(at(&world, from), at(&world, to), what, b"r", || "split".to_owned());
        };
        record(1_000, 1_150, "a get");
        record(1_020, 1_400, "a put");
        record(1_100, 1_300, "a scan");
        record(5_000, 5_200, "a get");
        record(6_000, 6_050, "a get");
        let lines = availability.lines();
        assert!(lines[1].starts_with("4 operations in 2 outages took more than 100.0 ms"), "{}", lines[1]);
        assert_eq!(lines.len(), 5);
        assert!(lines[2].starts_with("380.0 ms by a put of row r 1.020 s after"), "{}", lines[2]);
        assert!(lines[2].ends_with("administrators: split"), "{}", lines[2]);
        assert!(lines[3].starts_with("200.0 ms by a get"), "{}", lines[3]);
    }
}
