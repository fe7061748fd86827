//! Computes latencies without the effect of processor stalls.
//!
//! On a virtual machine a processor stall of 5 ms adds up to 5 ms to latencies, whatever the server does. A few such
//! stalls per second determine the slowest hundredth of all operations. So the processors are [watched](env::Stalls)
//! during a workload. Operations due in a stall, shortly before it, or while its backlog was worked off are counted
//! separately.
//!
//! Operations are selected by the time at which they were due, not by their latency. So slow and fast operations of the
//! server are left out equally often.

use std::time::Duration;

use env::{Moment, Stall, Stalls};
use hdrhistogram::Histogram;

use crate::recorder::latencies;

/// Operations that were due within this time before a stall are disturbed, because they may still run when it begins.
const BEFORE: Duration = Duration::from_millis(1);
/// Operations due after a stall count as disturbed for this many times the stall's length, because the backlog is
/// worked off then. At 70 % load that takes 2.4 times the length.
const BEHIND: u32 = 3;

/// Maximum number of operations for which memory is reserved: 1.6 GB.
const ROOM_MAX: usize = 100_000_000;

/// An operation: when it was due, and its latency in ns.
pub(crate) type Timed = (Moment, u64);

/// Returns an empty list with memory reserved for `operations` operations, at most [`ROOM_MAX`]. The memory was written
/// once: on a virtual machine the first use of a memory page may stall for up to 5 ms.
pub(crate) fn room(operations: usize) -> Vec<Timed> {
    let mut room = vec![(Moment::default(), 1); operations.min(ROOM_MAX)];
    room.clear();
    room
}

/// The operations that had no stall nearby.
#[derive(Clone, Debug)]
pub struct Calm {
    /// The latencies of the operations that had no stall nearby, in ns.
    pub latencies: Histogram<u64>,
    /// The fraction of all operations that had no stall nearby.
    pub part: f64,
    /// The largest fraction of time that a processor stood still.
    pub stood_still: f64,
}

impl Calm {
    /// Returns the latencies of those operations that had no stall nearby. `stalls` has a list for each processor. `from`
    /// and `to` are the begin and end of the workload; only stalls between them count in `stood_still`.
    pub(crate) fn of<'a>(
        operations: impl IntoIterator<Item = &'a Timed>,
        stalls: &[Vec<Stall>],
        from: Moment,
        to: Moment,
    ) -> Calm {
        let time = |stall: &Stall| stall.to.min(to).since(stall.from.max(from));
        let still = stalls.iter().map(|stalls| stalls.iter().map(time).sum::<Duration>());
        let longest = still.max().unwrap_or(Duration::ZERO);
        let disturbed = disturbed(stalls);
        let (mut seen, mut all) = (latencies(), 0);
        for (due, latency) in operations {
            all += 1;
            let next = disturbed.partition_point(|(_, to)| to <= due);
            if disturbed.get(next).is_none_or(|(from, _)| due < from) {
                seen.saturating_record(*latency);
            }
        }
        Calm {
            part: seen.len() as f64 / all.max(1) as f64,
            latencies: seen,
            stood_still: longest.as_secs_f64() / to.since(from).as_secs_f64(),
        }
    }

    /// Returns the latency quantile in µs, 0 without operations. `part` is from 0 to 1.
    pub fn latency_us(&self, part: f64) -> f64 {
        self.latencies.value_at_quantile(part) as f64 / 1_000.0
    }
}

/// Returns the times that stalls disturbed, in order and without overlaps.
fn disturbed(stalls: &[Vec<Stall>]) -> Vec<(Moment, Moment)> {
    let time = |stall: &Stall| {
        let longest = stall.to.since(stall.from) + Stalls::STEP;
        (stall.from.before(BEFORE), stall.to.plus(longest * BEHIND))
    };
    let mut times: Vec<_> = stalls.iter().flatten().map(time).collect();
    times.sort();
    let mut apart: Vec<(Moment, Moment)> = Vec::new();
    for (from, to) in times {
        match apart.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => apart.push((from, to)),
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::{WallTime, World};

    #[test]
    fn operations_due_near_a_standstill_and_no_others_are_left_out() {
        let start = World::simulated(1, WallTime(0)).moment();
        let at = |ms| start.plus(Duration::from_millis(ms));
        let stall = |from, to| Stall { from: at(from), to: at(to) };
        // Expected: on two processors, from 9 on to 12 + 3 × 2.5 for the first two stalls, and from 49 to 51 + 3 × 1.5
        // for the third.
        let stalls = [vec![stall(10, 12), stall(50, 51)], vec![stall(11, 12)]];
        let due = [0, 8, 9, 10, 11, 15, 19, 20, 30, 48, 49, 55, 56, 99];
        let operations: Vec<Timed> = due.iter().map(|ms| (at(*ms), 1_000 * ms)).collect();
        let calm = Calm::of(&operations, &stalls, at(0), at(100));
        let kept: Vec<u64> = calm.latencies.iter_recorded().map(|value| value.value_iterated_to()).collect();
        let near = |latency: &u64| due.iter().copied().find(|ms| latency.abs_diff(1_000 * ms) <= 100);
        assert_eq!(kept.iter().filter_map(near).collect::<Vec<_>>(), [0, 8, 20, 30, 48, 56, 99]);
        assert!((calm.part - 0.5).abs() < 1e-9);
        assert!((calm.stood_still - 0.03).abs() < 1e-9, "the first one for 3 of 100 ms");
    }

    #[test]
    fn without_standstills_all_is_calm() {
        let start = World::simulated(1, WallTime(0)).moment();
        let calm = Calm::of(&[(start, 5), (start, 7)], &[vec![], vec![]], start, start.plus(BEFORE));
        assert_eq!((calm.latencies.len(), calm.part, calm.stood_still), (2, 1.0, 0.0));
    }
}
