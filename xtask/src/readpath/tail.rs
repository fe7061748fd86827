//! Compares the 99th percentile of get latencies with the median, at a fixed offered rate.
//!
//! The greatest rate that is sustained is found first, with the same open-loop generator. Callers that wait for answers
//! reach another rate, and 70 % of that may be more than generator and server can do together.
//!
//! If the processors are stalled for 1 % of the time, these stalls alone determine the 99th percentile. So the generator
//! watches all processors (`bellows bench --calm`). Gets that were due from 1 ms before a stall until its backlog is
//! worked off are left out of the judged percentile; the percentile of all gets is printed beside it. A try in which
//! some gets never began counts as the worst.

use super::is_within;
use crate::compare::figure_of;
use crate::generator::median;

/// The fraction of the greatest rate at which the tail is measured.
const RATE: f64 = 0.7;
/// Maximum ratio of p99 to the median.
const BAR: f64 = 4.0;
/// Number of callers at an offered rate: more than operations under way, so that none waits for a caller.
const CALLERS: &str = "200";
/// Arguments of the generator for callers in the closed loop.
pub(super) const CLOSED: &[&str] =
    &["random-read", "--threads", "50", "--connections", "5", "--warm-up", "1", "--seconds", "2"];
/// Arguments of the generator for an offered rate.
pub(super) const LOAD: &[&str] =
    &["random-read", "--threads", CALLERS, "--connections", "5", "--warm-up", "1", "--calm"];
/// A rate is sustained if this fraction of the offered operations was answered in the measured time, and if no queue
/// builds up: the median is at most this multiple of the median at a very low rate. If generator and server share the
/// processors, higher rates are possible with a queue, because a thread then finds more work each time it wakes up.
const KEPT: f64 = 0.98;
const KEPT_P50: f64 = 2.0;
/// Number of tries at a rate that is not sustained, because the machine may have stood still.
const KEPT_TRIES: usize = 3;
/// Fractions of the closed-loop rate: the very low rate, and the rate of the first try.
const IDLE_RATE: f64 = 0.05;
const FIRST_RATE: f64 = 0.25;
/// The search for the greatest sustained rate ends when the least rate that is not sustained is at most this many times
/// the greatest that is. The next constant is the maximum number of tries.
const BETWEEN: f64 = 1.06;
const PEAK_TRIES: u32 = 10;
const PEAK_SECONDS: f64 = 2.0;
/// Number of tries at the measured rate.
const TRIES: u32 = 5;
/// Maximum fraction of operations that may never begin: a tenth of the measured hundredth.
const LEFT_MAX: f64 = 0.001;
/// Minimum fraction of gets that were due without a stall nearby.
const CALM_MIN: f64 = 0.25;

/// Offers gets at a rate for this many seconds. Returns the generator's output.
pub(super) type Offer<'a> = dyn Fn(f64, &str) -> Result<String, String> + 'a;

/// The result of one measurement of gets at 70 % of the greatest sustained rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Try {
    /// p99 divided by the median, of gets without a stall nearby. Operations that never began count as infinitely
    /// late if there are more than a few.
    tail: f64,
    /// The fraction of gets that had no stall nearby.
    calm: f64,
}

/// Measures the tail of gets; `closed` is the rate of the closed loop per second.
pub(super) fn tries(engine: &str, closed: f64, seconds: &str, offer: &Offer<'_>) -> Result<Vec<Try>, String> {
    let peak = peak(closed, offer)?;
    say!("{engine}: {peak:.0} gets a second are kept; callers who wait have {closed:.0}");
    let mut tries = Vec::new();
    for _ in 0..TRIES {
        let said = offer(RATE * peak, seconds)?;
        let figure = |name| figure_of(said.as_bytes(), name);
        let offered = RATE * peak;
        let left = figure("not_begun")? / (offered * seconds.parse::<f64>().unwrap_or(1.0));
        let (p50_us, p99_us) = (figure("calm_p50_us")?, figure("calm_p99_us")?);
        let one = Try {
            tail: if is_within(left, LEFT_MAX) { p99_us / p50_us } else { f64::INFINITY },
            calm: figure("calm_part")?,
        };
        say!(
            "{engine}: {offered:.0} offered, {:.2} % of them not begun; {:.0} % due in calm, p50 {p50_us:.0} µs, p99 {p99_us:.0} µs, \
             {:.2} times; all: p50 {:.0} µs, p99 {:.0} µs; a processor stood still for {:.2} % of the time",
            100.0 * left,
            100.0 * one.calm,
            one.tail,
            figure("p50_us")?,
            figure("p99_us")?,
            100.0 * figure("stood_still")?
        );
        tries.push(one);
    }
    Ok(tries)
}

/// Returns the bar that was missed, or why there is no result; `None` if the bar was met.
pub(super) fn judged(engine: &str, tries: &[Try]) -> Option<String> {
    let calm: Vec<f64> = tries.iter().filter(|one| one.calm >= CALM_MIN).map(|one| one.tail).collect();
    say!("{engine}: {} of {} tries had {CALM_MIN} of the gets due in calm", calm.len(), tries.len());
    if calm.len() <= tries.len() / 2 {
        return Some(format!(
            "{engine}: the processors stood still too much beside all but {} of {} tries: try where others use them less",
            calm.len(),
            tries.len()
        ));
    }
    let tail = median(&calm);
    say!("{engine}: p99 is {tail:.2} of p50 in the middle of them");
    (!is_within(tail, BAR))
        .then(|| format!("p99 is {tail:.2} of p50 with {engine} at {RATE} of the peak, not {BAR}"))
}

/// Returns the greatest rate that is sustained.
fn peak(closed: f64, offer: &Offer<'_>) -> Result<f64, String> {
    let seen = |rate: f64| -> Result<(f64, f64), String> {
        let said = offer(rate, &PEAK_SECONDS.to_string())?;
        let left = figure_of(said.as_bytes(), "not_begun")? / (rate * PEAK_SECONDS);
        Ok((rate * (1.0 - left), figure_of(said.as_bytes(), "p50_us")?))
    };
    let p50_max = KEPT_P50 * seen(IDLE_RATE * closed)?.1;
    let is_kept = |rate: f64| -> Result<bool, String> {
        for _ in 0..KEPT_TRIES {
            let (answered, p50_us) = seen(rate)?;
            if answered >= KEPT * rate && p50_us <= p50_max {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let (mut kept, mut not_kept) = (0.0, f64::INFINITY);
    for _ in 0..PEAK_TRIES {
        let rate = match (kept, not_kept) {
            (0.0, f64::INFINITY) => FIRST_RATE * closed,
            (0.0, above) => 0.8 * above,
            (below, f64::INFINITY) => 1.25 * below,
            (below, above) if above <= BETWEEN * below => break,
            (below, above) => f64::midpoint(below, above),
        };
        if is_kept(rate)? { kept = rate } else { not_kept = rate }
    }
    match kept {
        0.0 => Err(format!("no rate is kept, not even {not_kept:.0} gets a second")),
        kept => Ok(kept),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_that_was_not_kept_is_the_worst() {
        let one = |tail, calm| Try { tail, calm };
        let (good, lost, noisy) = (one(2.0, 0.9), one(f64::INFINITY, 0.9), one(1.0, 0.1));
        assert_eq!(judged("mmap", &[good, good, lost]), None);
        assert!(judged("mmap", &[good, lost, lost]).is_some_and(|why| why.contains("inf")));
        assert!(
            judged("mmap", &[good, one(4.1, 1.0), one(5.0, 1.0)]).is_some_and(|why| why.contains("4.10"))
        );
        assert!(judged("mmap", &[good, noisy, noisy]).is_some_and(|why| why.contains("stood still")));
    }

    #[test]
    fn the_peak_is_what_is_answered_without_a_queue() {
        // In this test 100,000 operations a second are sustained. The median doubles above 80,000 and triples above
        // 90,000.
        let offer = |rate: f64, seconds: &str| {
            let seconds: f64 = seconds.parse().expect("a number");
            let left = (rate - 100_000.0).max(0.0) * seconds;
            let p50 = if rate > 90_000.0 {
                150
            } else if rate > 80_000.0 {
                100
            } else {
                50
            };
            Ok(format!("{{\"not_begun\":{left},\"p50_us\":{p50}}}"))
        };
        let peak = peak(120_000.0, &offer).expect("there is one");
        assert!((84_000.0..=90_000.0).contains(&peak), "{peak}");
    }
}
