//! Sets of code points: sorted runs while a class is built, and a bitmap of the first 256 afterwards.

/// The highest code point of Unicode.
pub(super) const LAST: u32 = 0x10ffff;

/// The first and the last code point of each run, sorted; runs do not touch each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs(Vec<(u32, u32)>);

impl Runs {
    /// The empty set.
    pub(super) fn none() -> Runs {
        Runs::default()
    }

    /// All code points.
    pub(super) fn all() -> Runs {
        Runs(vec![(0, LAST)])
    }

    /// All code points from `first` to `last`, both included.
    pub(super) fn range(first: u32, last: u32) -> Runs {
        if first > last { Runs::none() } else { Runs(vec![(first, last)]) }
    }

    /// Builds a set from runs in any order. Empty runs (first after last) are dropped.
    pub(super) fn of(runs: impl IntoIterator<Item = (u32, u32)>) -> Runs {
        let mut runs: Vec<(u32, u32)> = runs.into_iter().filter(|(first, last)| first <= last).collect();
        runs.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(runs.len());
        for (first, last) in runs {
            match joined.last_mut() {
                Some(open) if first <= open.1.saturating_add(1) => open.1 = open.1.max(last),
                _ => joined.push((first, last)),
            }
        }
        Runs(joined)
    }

    /// Returns the number of runs.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.0.iter().copied()
    }

    pub(super) fn union(&self, other: &Runs) -> Runs {
        Runs::of(self.iter().chain(other.iter()))
    }

    pub(super) fn intersection(&self, other: &Runs) -> Runs {
        let (mut left, mut right) = (self.iter().peekable(), other.iter().peekable());
        let mut both = Vec::new();
        while let (Some(&mine), Some(&theirs)) = (left.peek(), right.peek()) {
            if mine.0.max(theirs.0) <= mine.1.min(theirs.1) {
                both.push((mine.0.max(theirs.0), mine.1.min(theirs.1)));
            }
            if mine.1 < theirs.1 {
                left.next();
            } else {
                right.next();
            }
        }
        Runs(both)
    }

    pub(super) fn complement(&self) -> Runs {
        let mut out = Vec::with_capacity(self.0.len() + 1);
        let mut from = 0;
        for (first, last) in self.iter() {
            if from < first {
                out.push((from, first - 1));
            }
            from = last + 1;
        }
        if from <= LAST {
            out.push((from, LAST));
        }
        Runs(out)
    }

    pub(super) fn contains(&self, point: u32) -> bool {
        contains(&self.0, point)
    }
}

fn contains(runs: &[(u32, u32)], point: u32) -> bool {
    let after = runs.partition_point(|(first, _)| *first <= point);
    after > 0 && point <= runs[after - 1].1
}

/// A set of code points for many lookups.
#[derive(Clone, Debug)]
pub(super) struct Set {
    low: [u64; 4],
    runs: Box<[(u32, u32)]>,
}

impl Set {
    pub(super) fn new(runs: Runs) -> Set {
        let mut low = [0; 4];
        for point in (0..256u32).filter(|point| runs.contains(*point)) {
            low[point as usize / 64] |= 1 << (point % 64);
        }
        Set { low, runs: runs.0.into() }
    }

    #[inline]
    pub(super) fn contains(&self, point: u32) -> bool {
        if point < 256 {
            self.low[point as usize / 64] >> (point % 64) & 1 != 0
        } else {
            contains(&self.runs, point)
        }
    }

    /// Returns a bitmap of the set's code points below 256, and whether it has any above.
    pub(super) fn low(&self) -> ([u64; 4], bool) {
        (self.low, self.runs.last().is_some_and(|(_, last)| *last > 255))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_unions_intersections_and_complements() {
        let left = Runs::of([(5, 9), (1, 2), (3, 4), (20, 30), (8, 7)]);
        assert_eq!(left, Runs::of([(1, 9), (20, 30)]));
        let right = Runs::of([(0, 1), (9, 21), (30, LAST)]);
        assert_eq!(left.intersection(&right), Runs::of([(1, 1), (9, 9), (20, 21), (30, 30)]));
        assert_eq!(left.union(&right), Runs::all());
        assert_eq!(left.complement().complement(), left);
        assert_eq!(Runs::all().complement(), Runs::none());
        let set = Set::new(right.clone());
        for point in (0..40).chain([255, 256, LAST]) {
            assert_eq!(set.contains(point), right.contains(point), "{point}");
        }
    }
}
