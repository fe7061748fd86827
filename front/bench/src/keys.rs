//! Distributions of the rows, as in YCSB.
//!
//! Zipfian numbers follow Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD 1994), with the
//! constant 0.99. The most popular numbers are the lowest. [`Keys::Zipfian`] spreads them over the whole table, like
//! real popularity, and [`Keys::Latest`] counts them back from the newest row.

use std::fmt;
use std::str::FromStr;

use crate::random::{Random, spread};

/// Skew of the Zipfian distribution.
const THETA: f64 = 0.99;
/// The hot fraction of a table, and the fraction of operations that goes there.
const HOT_SET: f64 = 0.2;
const HOT_OPERATIONS: f64 = 0.8;

/// The distribution by which rows are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// All rows are equally likely.
    Uniform,
    /// Few rows are very likely, most are unlikely; popular rows are anywhere.
    Zipfian,
    /// Newer rows are more likely.
    Latest,
    /// Four of five operations go to one contiguous fifth of the rows.
    Hotspot,
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Keys::Uniform => "uniform",
            Keys::Zipfian => "zipfian",
            Keys::Latest => "latest",
            Keys::Hotspot => "hotspot",
        })
    }
}

impl FromStr for Keys {
    type Err = String;

    fn from_str(text: &str) -> Result<Keys, String> {
        [Keys::Uniform, Keys::Zipfian, Keys::Latest, Keys::Hotspot]
            .into_iter()
            .find(|keys| keys.to_string() == text)
            .ok_or_else(|| "one of uniform, zipfian, latest, hotspot".to_owned())
    }
}

/// Chooses rows.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    keys: Keys,
    zipf: Zipf,
}

impl Chooser {
    /// Creates a chooser among `count` rows.
    pub(crate) fn new(keys: Keys, count: u64) -> Chooser {
        let ranks = if matches!(keys, Keys::Zipfian | Keys::Latest) { count } else { 1 };
        Chooser { keys, zipf: Zipf::new(ranks) }
    }

    /// Returns one of the first `count` rows; `count` must not be 0.
    pub(crate) fn pick(&mut self, random: &mut Random, count: u64) -> u64 {
        match self.keys {
            Keys::Uniform => random.below(count),
            Keys::Zipfian => spread(self.zipf.rank(random)) % count,
            Keys::Latest => {
                self.zipf.grow(count);
                count - 1 - self.zipf.rank(random).min(count - 1)
            }
            Keys::Hotspot => {
                let hot = ((count as f64 * HOT_SET) as u64).clamp(1, count);
                if hot == count || random.part() < HOT_OPERATIONS {
                    random.below(hot)
                } else {
                    hot + random.below(count - hot)
                }
            }
        }
    }
}

/// Ranks from 0; rank `r` has a probability proportional to 1 / (r + 1)^[`THETA`].
#[derive(Clone, Debug)]
struct Zipf {
    count: u64,
    /// The sum of 1 / i^[`THETA`] for i from 1 to `count`.
    zeta: f64,
}

impl Zipf {
    fn new(count: u64) -> Zipf {
        let mut zipf = Zipf { count: 0, zeta: 0.0 };
        zipf.grow(count);
        zipf
    }

    fn grow(&mut self, count: u64) {
        for rank in self.count + 1..=count {
            self.zeta += (rank as f64).powf(-THETA);
        }
        self.count = self.count.max(count);
    }

    fn rank(&self, random: &mut Random) -> u64 {
        let part = random.part();
        let at = part * self.zeta;
        let two = 1.0 + 0.5f64.powf(THETA);
        if at < 1.0 {
            return 0;
        }
        if at < two {
            return 1;
        }
        let count = self.count as f64;
        let eta = (1.0 - (2.0 / count).powf(1.0 - THETA)) / (1.0 - two / self.zeta);
        let rank = count * (eta * part - eta + 1.0).powf(1.0 / (1.0 - THETA));
        (rank as u64).min(self.count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(keys: Keys, rows: u64) -> Vec<u32> {
        let (mut chooser, mut random) = (Chooser::new(keys, rows), Random::new(1, 0));
        let mut counts = vec![0; rows as usize];
        for _ in 0..100_000 {
            counts[chooser.pick(&mut random, rows) as usize] += 1;
        }
        counts
    }

    #[test]
    fn zipfian_ranks_come_as_often_as_they_should() {
        let (zipf, mut random) = (Zipf::new(1_000), Random::new(1, 0));
        let mut seen = [0u32; 1_000];
        for _ in 0..1_000_000 {
            seen[zipf.rank(&mut random) as usize] += 1;
        }
        for rank in [0usize, 1, 10, 100] {
            let expected = 1e6 / zipf.zeta * ((rank + 1) as f64).powf(-THETA);
            let found = f64::from(seen[rank]);
            // The method is exact for the first two ranks only, and approximate for the others.
            assert!((found / expected - 1.0).abs() < 0.25, "rank {rank}: {found}, not {expected}");
        }
    }

    #[test]
    fn popular_rows_lie_anywhere_or_at_the_end() {
        let zipfian = counts(Keys::Zipfian, 1_000);
        let popular = zipfian.iter().enumerate().max_by_key(|(_, count)| **count).expect("some").0;
        assert_eq!(popular as u64, spread(0) % 1_000);
        let latest = counts(Keys::Latest, 1_000);
        assert!(latest[999] > latest[998] && latest[998] > 10 * latest[100], "{:?}", &latest[990..]);
    }

    #[test]
    fn a_fifth_is_hot() {
        let hot: u32 = counts(Keys::Hotspot, 1_000)[..200].iter().sum();
        assert!((79_000..81_000).contains(&hot), "{hot}");
    }

    #[test]
    fn one_row_is_enough_for_every_choice() {
        for keys in ["uniform", "zipfian", "latest", "hotspot"] {
            let keys: Keys = keys.parse().expect("there is one of this name");
            assert_eq!(Chooser::new(keys, 1).pick(&mut Random::new(1, 0), 1), 0, "{keys}");
        }
    }

    #[test]
    fn added_rows_are_the_latest() {
        let (mut chooser, mut random) = (Chooser::new(Keys::Latest, 10), Random::new(1, 0));
        let newest = (0..1_000).filter(|_| chooser.pick(&mut random, 20) == 19).count();
        assert!(newest > 200, "{newest}");
    }
}
