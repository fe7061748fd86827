//! The recent history of the process, in memory: every series at three resolutions.
//!
//! ```text
//!   1 s for 10 min   ·   10 s for 6 h   ·   1 min for 7 d        12,840 values of 4 bytes for each series
//! ```
//!
//! A slot belongs to a moment of wall time, so the time in which the process was down shows as a gap. A slot of a
//! coarser resolution has the mean of the finer values in it, or their maximum if the series asks for it, because a
//! mean of quantiles has no meaning. Series about the whole server exist from the start. A table gets series when it
//! has traffic.

use std::collections::HashMap;

use parking_lot::RwLock;

/// Maximum number of series: 150 of 51 KB stay below 8 MB.
pub(crate) const SERIES_MAX: usize = 150;

/// Longest pause between two measurements, in seconds, that is filled with the values of the later one. A busy machine
/// is measured less often. A longer pause shows as a gap.
const MISSED_MAX: u64 = 15;

/// A resolution and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// Ten minutes in steps of a second.
    Minutes,
    /// Six hours in steps of ten seconds.
    Hours,
    /// Seven days in steps of a minute.
    Days,
}

impl Range {
    /// All ranges, the finest first.
    pub(crate) const ALL: [Range; 3] = [Range::Minutes, Range::Hours, Range::Days];

    /// Returns the length of a slot in seconds.
    pub(crate) fn step(self) -> u64 {
        match self {
            Range::Minutes => 1,
            Range::Hours => 10,
            Range::Days => 60,
        }
    }

    /// Returns the number of slots.
    pub(crate) fn slots(self) -> usize {
        match self {
            Range::Minutes => 600,
            Range::Hours => 2_160,
            Range::Days => 10_080,
        }
    }

    /// Returns the name of the range in addresses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Range::Minutes => "10m",
            Range::Hours => "6h",
            Range::Days => "7d",
        }
    }

    /// Returns the name of the range for people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Range::Minutes => "10 minutes",
            Range::Hours => "6 hours",
            Range::Days => "7 days",
        }
    }

    /// Returns the range with this name; ten minutes for any other name.
    pub(crate) fn of_name(name: &str) -> Range {
        Range::ALL.into_iter().find(|range| range.name() == name).unwrap_or(Range::Minutes)
    }
}

/// How finer values are combined to a coarser value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// By their mean: rates and sizes.
    Mean,
    /// By their maximum: quantiles, queues.
    Max,
}

#[derive(Debug)]
struct Series {
    fold: Fold,
    rings: [Vec<f32>; 3],
    /// The coarser slots in progress: index, sum or maximum, and number of values.
    filling: [(u64, f32, u32); 2],
    /// When the series last had a value other than 0, in seconds since 1970.
    active: u64,
}

impl Series {
    fn new(fold: Fold) -> Series {
        Series {
            fold,
            rings: Range::ALL.map(|range| vec![f32::NAN; range.slots()]),
            filling: [(0, 0.0, 0); 2],
            active: 0,
        }
    }

    fn push(&mut self, second: u64, value: f32) {
        if value != 0.0 {
            self.active = second;
        }
        set(&mut self.rings[0], second, value);
        for (at, range) in [Range::Hours, Range::Days].into_iter().enumerate() {
            let slot = second / range.step();
            let (filled, sum, count) = &mut self.filling[at];
            if *filled != slot {
                (*filled, *sum, *count) = (slot, 0.0, 0);
            }
            *sum = match self.fold {
                Fold::Mean => *sum + value,
                Fold::Max if *count == 0 => value,
                Fold::Max => sum.max(value),
            };
            *count += 1;
            let folded = if self.fold == Fold::Mean { *sum / *count as f32 } else { *sum };
            set(&mut self.rings[at + 1], slot, folded);
        }
    }
}

fn set(ring: &mut [f32], slot: u64, value: f32) {
    let at = (slot % ring.len() as u64) as usize;
    ring[at] = value;
}

#[derive(Debug, Default)]
struct Rings {
    series: HashMap<String, Series>,
    /// The latest second with values.
    latest: u64,
}

impl Rings {
    /// Clears the slots between the latest second and this one, in which nothing was measured.
    fn clear_until(&mut self, second: u64) {
        for (at, range) in Range::ALL.into_iter().enumerate() {
            let (from, to) = (self.latest / range.step() + 1, second / range.step());
            let gap = to.saturating_add(1).saturating_sub(from).min(range.slots() as u64);
            for slot in (to + 1).saturating_sub(gap)..=to {
                self.series.values_mut().for_each(|series| set(&mut series.rings[at], slot, f32::NAN));
            }
        }
        self.latest = second;
    }
}

/// The values of some series over one range, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Values {
    /// The moments, in seconds since 1970.
    pub(crate) times: Vec<u64>,
    /// The values of each series, one for each moment; NaN if nothing was measured.
    pub(crate) series: Vec<Vec<f32>>,
}

/// The history of one process.
#[derive(Debug, Default)]
pub(crate) struct History {
    rings: RwLock<Rings>,
}

impl History {
    /// Adds the measurements of a second. A second that is not after the latest one is ignored, unless it is ten
    /// minutes or more before it: then the history begins again.
    pub(crate) fn push<'a>(&self, second: u64, values: impl Iterator<Item = (&'a str, Fold, f64)>) {
        let mut rings = self.rings.write();
        // If the clock was set back by more than the finest range, the history begins again. Otherwise it would stop
        // for that time.
        if second <= rings.latest && rings.latest - second < Range::Minutes.slots() as u64 {
            return;
        }
        if second <= rings.latest {
            rings.series.clear();
            rings.latest = second - 1;
        }
        let missed =
            if rings.latest == 0 || second - rings.latest > MISSED_MAX { second } else { rings.latest + 1 };
        rings.clear_until(second);
        for (name, fold, value) in values {
            if !rings.series.contains_key(name) {
                if rings.series.len() >= SERIES_MAX && !rings.make_room(second) {
                    continue;
                }
                rings.series.insert(name.to_owned(), Series::new(fold));
            }
            if let Some(series) = rings.series.get_mut(name) {
                (missed..=second).for_each(|second| series.push(second, value as f32));
            }
        }
    }

    /// Returns the values of `names` over a range that ends with the latest second. An unknown series has no values.
    pub(crate) fn values(&self, names: &[&str], range: Range) -> Values {
        let rings = self.rings.read();
        let at = Range::ALL.iter().position(|other| *other == range).unwrap_or(0);
        let end = rings.latest / range.step();
        let slots = (end + 1).saturating_sub(range.slots() as u64)..=end;
        let value_of = |name: &&str, slot: u64| {
            rings.series.get(*name).map_or(f32::NAN, |series| {
                let ring = &series.rings[at];
                ring[(slot % ring.len() as u64) as usize]
            })
        };
        // Slots before the first measurement are left out.
        let first = slots.clone().find(|slot| names.iter().any(|name| !value_of(name, *slot).is_nan()));
        let slots: Vec<u64> = slots.filter(|slot| first.is_some_and(|first| *slot >= first)).collect();
        Values {
            times: slots.iter().map(|slot| slot * range.step()).collect(),
            series: names
                .iter()
                .map(|name| slots.iter().map(|slot| value_of(name, *slot)).collect())
                .collect(),
        }
    }

    /// Returns the names of all series, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.rings.read().series.keys().cloned().collect();
        names.sort();
        names
    }

    /// Returns the mean of a series over the last `seconds`, at most ten minutes; 0 without values.
    pub(crate) fn mean(&self, name: &str, seconds: usize) -> f64 {
        fold_recent(&self.values(&[name], Range::Minutes), seconds, |values| {
            values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len() as f64
        })
    }

    /// Returns the maximum of a series over the last `seconds`, at most ten minutes; 0 without values.
    pub(crate) fn max(&self, name: &str, seconds: usize) -> f64 {
        fold_recent(&self.values(&[name], Range::Minutes), seconds, |values| {
            values.iter().fold(0.0, |max, value| f64::from(*value).max(max))
        })
    }

    /// Returns the mean of a series over the last `minutes`, from the coarser slots; 0 without values.
    pub(crate) fn mean_of_minutes(&self, name: &str, minutes: usize) -> f64 {
        fold_recent(&self.values(&[name], Range::Hours), minutes * 6, |values| {
            values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len() as f64
        })
    }

    /// Encodes the whole history, to keep it over a restart.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let rings = self.rings.read();
        let mut out = MAGIC.to_vec();
        out.extend(rings.latest.to_le_bytes());
        let mut names: Vec<&String> = rings.series.keys().collect();
        names.sort();
        for name in names {
            let series = &rings.series[name];
            out.extend((name.len() as u16).to_le_bytes());
            out.extend(name.as_bytes());
            out.push(u8::from(series.fold == Fold::Max));
            out.extend(series.active.to_le_bytes());
            for value in series.rings.iter().flatten() {
                out.extend(value.to_le_bytes());
            }
        }
        let sum = checksum(&out);
        out.extend(sum.to_le_bytes());
        out
    }

    /// Decodes the result of [`to_bytes`](History::to_bytes); returns `None` for other bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<History> {
        let (body, sum) = bytes.split_last_chunk::<8>()?;
        if checksum(body) != u64::from_le_bytes(*sum) {
            return None;
        }
        let mut left = body.strip_prefix(MAGIC)?;
        let (latest, rest) = left.split_first_chunk::<8>()?;
        left = rest;
        let mut rings = Rings { latest: u64::from_le_bytes(*latest), ..Rings::default() };
        while !left.is_empty() && rings.series.len() < SERIES_MAX {
            let (length, rest) = left.split_first_chunk::<2>()?;
            let (name, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
            let (fold, rest) = rest.split_first()?;
            let (active, mut rest) = rest.split_first_chunk::<8>()?;
            let mut series = Series::new(if *fold == 1 { Fold::Max } else { Fold::Mean });
            series.active = u64::from_le_bytes(*active);
            for value in series.rings.iter_mut().flatten() {
                let (four, after) = rest.split_first_chunk::<4>()?;
                *value = f32::from_le_bytes(*four);
                rest = after;
            }
            rings.series.insert(String::from_utf8(name.to_vec()).ok()?, series);
            left = rest;
        }
        Some(History { rings: RwLock::new(rings) })
    }
}

impl Rings {
    /// Drops the series that was idle for the longest time, if that is at least the finest range. Returns whether it
    /// did.
    fn make_room(&mut self, now: u64) -> bool {
        let idle = self.series.iter().min_by_key(|(_, series)| series.active);
        let idle = idle.filter(|(_, series)| now - series.active.min(now) >= Range::Minutes.slots() as u64);
        match idle.map(|(name, _)| name.clone()) {
            Some(name) => self.series.remove(&name).is_some(),
            None => false,
        }
    }
}

fn fold_recent(values: &Values, slots: usize, fold: impl FnOnce(&[f32]) -> f64) -> f64 {
    let recent = &values.series[0][values.series[0].len().saturating_sub(slots)..];
    let measured: Vec<f32> = recent.iter().copied().filter(|value| !value.is_nan()).collect();
    if measured.is_empty() { 0.0 } else { fold(&measured) }
}

const MAGIC: &[u8] = b"bellows history 1\n";

/// Computes a checksum (FNV-1a) that detects a torn file.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_700_000_040;

    fn push(history: &History, second: u64, value: f64) {
        history.push(second, [("calls", Fold::Mean, value), ("p99", Fold::Max, value)].into_iter());
    }

    #[test]
    fn a_minute_becomes_six_means_and_six_maxima() {
        let history = History::default();
        (0..60).for_each(|second| push(&history, START + second, second as f64));
        let hours = history.values(&["calls", "p99"], Range::Hours);
        assert_eq!(hours.series[0], [4.5, 14.5, 24.5, 34.5, 44.5, 54.5]);
        assert_eq!(hours.series[1], [9.0, 19.0, 29.0, 39.0, 49.0, 59.0]);
        assert_eq!(hours.times[0], START);
        assert_eq!(history.values(&["calls"], Range::Days).series[0], [29.5]);
        assert_eq!(history.mean("calls", 10), 54.5);
        assert_eq!(history.max("p99", 1_000), 59.0);
        assert_eq!(history.mean("absent", 10), 0.0);
        assert_eq!(history.names(), ["calls", "p99"]);
    }

    #[test]
    fn a_gap_stays_a_gap_and_old_values_do_not_come_back() {
        let history = History::default();
        (0..600).for_each(|second| push(&history, START + second, 1.0));
        push(&history, START + 700, 2.0);
        let minutes = history.values(&["calls"], Range::Minutes);
        assert_eq!(minutes.times.len(), 600);
        assert_eq!(minutes.series[0].iter().filter(|value| value.is_nan()).count(), 100);
        assert_eq!(minutes.series[0].last(), Some(&2.0));
        // A week later the value is in no range any more.
        push(&history, START + 8 * 86_400, 3.0);
        assert_eq!(history.values(&["calls"], Range::Days).series[0], [3.0]);
    }

    #[test]
    fn the_history_survives_a_restart_and_a_torn_file_is_ignored() {
        let history = History::default();
        (0..90).for_each(|second| push(&history, START + second, second as f64));
        let bytes = history.to_bytes();
        let again = History::from_bytes(&bytes).expect("its own bytes");
        for range in Range::ALL {
            let (before, after) = (history.values(&["p99"], range), again.values(&["p99"], range));
            assert_eq!(before, after);
        }
        push(&again, START + 100, 7.0);
        assert_eq!(again.mean("calls", 1), 7.0);
        assert!(History::from_bytes(&bytes[..bytes.len() - 5]).is_none());
        assert!(History::from_bytes(b"").is_none());
        let mut broken = bytes;
        broken[40] ^= 1;
        assert!(History::from_bytes(&broken).is_none());
    }

    #[test]
    fn the_history_stays_below_eight_megabytes_and_drops_idle_series_first() {
        let history = History::default();
        for second in 0..2 {
            let names: Vec<String> = (0..SERIES_MAX + 20).map(|number| format!("series {number}")).collect();
            history.push(START + second, names.iter().map(|name| (&name[..], Fold::Mean, 1.0)));
        }
        assert_eq!(history.rings.read().series.len(), SERIES_MAX);
        assert!(history.to_bytes().len() < 8_000_000);
        history.push(START + 10_000, [("new", Fold::Mean, 5.0)].into_iter());
        assert_eq!(history.mean("new", 5), 5.0);
        assert_eq!(history.rings.read().series.len(), SERIES_MAX);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_stop_the_history() {
        let history = History::default();
        push(&history, START + 100_000, 1.0);
        push(&history, START + 99_999, 9.0);
        assert_eq!(history.mean("calls", 10), 1.0);
        push(&history, START, 2.0);
        assert_eq!(history.mean("calls", 10), 2.0);
    }
}
