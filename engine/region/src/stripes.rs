//! Stripes: the ranges of rows into which a store with HBase's stripe engine divides its files.
//!
//! ```text
//! level 0     [ rows of the whole region ] [ rows of the whole region ]
//! stripes     [ …, c ) [ …, c ) | [ c, m ) | [ m, … ) [ m, … ) [ m, … )
//! ```
//!
//! A file names its stripe in its info ([`START_KEY`], [`END_KEY`]; an empty value is an open end). A file without
//! these entries belongs to level 0. Nothing else records the stripes: like HBase, a store derives them from its files
//! when it is opened ([`Stripes::of`]; HBase: `StripeStoreFileManager`).
//!
//! Readers do not depend on stripes. They skip files whose first and last keys exclude their rows.

use std::collections::BTreeMap;

use bytes::Bytes;

/// The file-info entry with the first row of a file's stripe.
pub(crate) const START_KEY: &str = "STRIPE_START_KEY";
/// The file-info entry with the row that ends a file's stripe.
pub(crate) const END_KEY: &str = "STRIPE_END_KEY";

/// Rows from `start`, inclusive, to `end`, exclusive. An empty row is an open end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StripeRange {
    pub(crate) start: Bytes,
    pub(crate) end: Bytes,
}

impl StripeRange {
    /// The range of all rows.
    pub(crate) const ALL: StripeRange = StripeRange { start: Bytes::new(), end: Bytes::new() };

    /// Whether the row is before the end of the range.
    pub(crate) fn ends_after(&self, row: &[u8]) -> bool {
        self.end.is_empty() || *row < *self.end
    }

    /// Whether the range contains the row.
    pub(crate) fn has_row(&self, row: &[u8]) -> bool {
        *row >= *self.start && self.ends_after(row)
    }

    /// Whether the range contains all rows of another one.
    pub(crate) fn contains(&self, other: &StripeRange) -> bool {
        let ends_before = self.end.is_empty() || (!other.end.is_empty() && other.end <= self.end);
        self.start <= other.start && ends_before
    }

    /// Whether the range contains a row from `first` to `last`, both inclusive.
    pub(crate) fn overlaps(&self, first: &[u8], last: &[u8]) -> bool {
        *last >= *self.start && self.ends_after(first)
    }

    /// Returns the file-info entries that put a file into this stripe.
    pub(crate) fn facts(&self) -> [(&'static str, Bytes); 2] {
        [(START_KEY, self.start.clone()), (END_KEY, self.end.clone())]
    }

    fn is_valid(&self) -> bool {
        self.start.is_empty() || self.end.is_empty() || self.start < self.end
    }
}

/// A stripe and its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stripe {
    pub(crate) range: StripeRange,
    /// Indices of the stripe's files, oldest first. At least one.
    pub(crate) files: Vec<usize>,
}

/// The stripes of a store: contiguous ranges that cover all rows, and the files of level 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stripes {
    /// Indices of the files that are in no stripe, oldest first.
    pub(crate) level0: Vec<usize>,
    /// The stripes in the order of their rows; none if all files are of level 0.
    pub(crate) stripes: Vec<Stripe>,
}

impl Stripes {
    /// Returns the stripes of a store whose files, oldest first, name these ranges.
    ///
    /// 1. Files with the same end form a stripe. The start of a stripe must be the end of the previous stripe. Files
    ///    with another start go to level 0; such files come from a flush during which a compaction changed the
    ///    boundaries.
    /// 2. If no file had a wrong start, but the first or the last stripe has no open end, the region was split since.
    ///    These ends then count as open. If some file had a wrong start, all files go to level 0 instead.
    pub(crate) fn of<'a>(files: impl IntoIterator<Item = Option<&'a StripeRange>>) -> Stripes {
        // The key begins with whether the end is open. `false` sorts first, so the open end comes last.
        let mut by_end: BTreeMap<(bool, &Bytes), Vec<(usize, &Bytes)>> = BTreeMap::new();
        let (mut level0, mut count) = (Vec::new(), 0);
        for (index, range) in files.into_iter().enumerate() {
            count += 1;
            match range.filter(|range| range.is_valid()) {
                Some(StripeRange { start, end }) => {
                    by_end.entry((end.is_empty(), end)).or_default().push((index, start));
                }
                None => level0.push(index),
            }
        }
        let (mut expected, mut is_torn): (Option<&Bytes>, bool) = (None, false);
        let mut stripes: Vec<Stripe> = Vec::new();
        for ((_, end), files) in by_end {
            // The stripe begins where its newest file begins, if no stripe before it says so.
            let start = *expected.get_or_insert_with(|| files.last().expect("it has a file").1);
            let (fit, unfit): (Vec<_>, Vec<_>) = files.into_iter().partition(|(_, other)| *other == start);
            is_torn |= !unfit.is_empty();
            level0.extend(unfit.into_iter().map(|(index, _)| index));
            if !fit.is_empty() {
                let range = StripeRange { start: start.clone(), end: end.clone() };
                stripes.push(Stripe { range, files: fit.into_iter().map(|(index, _)| index).collect() });
                expected = Some(end);
            }
        }
        level0.sort_unstable();
        if let [first, ..] = &mut stripes[..] {
            let has_open_start = first.range.start.is_empty();
            first.range.start = Bytes::new();
            let last = stripes.last_mut().expect("there is a first");
            let has_open_end = last.range.end.is_empty();
            last.range.end = Bytes::new();
            if is_torn && !(has_open_start && has_open_end) {
                return Stripes { level0: (0..count).collect(), stripes: Vec::new() };
            }
        }
        Stripes { level0, stripes }
    }

    /// Returns the ranges of all stripes.
    pub(crate) fn ranges(&self) -> Vec<StripeRange> {
        self.stripes.iter().map(|stripe| stripe.range.clone()).collect()
    }

    /// Returns the files of each stripe, and of level 0 if it has any.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &[usize]> {
        let level0 = (!self.level0.is_empty()).then_some(&self.level0[..]);
        self.stripes.iter().map(|stripe| &stripe.files[..]).chain(level0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Option<StripeRange> {
        let (start, end) = text.split_once("..")?;
        let row = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        Some(StripeRange { start: row(start), end: row(end) })
    }

    /// Checks the stripes of files that name the ranges `said`, oldest first: level 0, then each stripe as range and
    /// files.
    fn check(said: &[&str], level0: &[usize], expected: &[(&str, &[usize])]) {
        let ranges: Vec<Option<StripeRange>> = said.iter().map(|text| range(text)).collect();
        let found = Stripes::of(ranges.iter().map(Option::as_ref));
        let stripes: Vec<Stripe> = expected
            .iter()
            .map(|(text, files)| Stripe { range: range(text).expect("a range"), files: files.to_vec() })
            .collect();
        assert_eq!(found, Stripes { level0: level0.to_vec(), stripes }, "of {said:?}");
    }

    #[test]
    fn files_are_in_the_stripes_that_they_say() {
        check(&[], &[], &[]);
        check(&["", ""], &[0, 1], &[]);
        check(&[".."], &[], &[("..", &[0])]);
        check(
            &["", "..c", "c..m", "m..", "", "c..m"],
            &[0, 4],
            &[("..c", &[1]), ("c..m", &[2, 5]), ("m..", &[3])],
        );
    }

    #[test]
    fn files_that_do_not_fit_are_of_level_0() {
        // A stripe was split at d while a flush wrote with the earlier boundaries.
        check(&["..c", "c..d", "d..", "c.."], &[3], &[("..c", &[0]), ("c..d", &[1]), ("d..", &[2])]);
        // A file whose range begins at a wrong row.
        check(&["..c", "m..d", "c.."], &[1], &[("..c", &[0]), ("c..", &[2])]);
        check(&["..c", "c..c", "c.."], &[1], &[("..c", &[0]), ("c..", &[2])]);
        // A flush into stripes that were merged meanwhile.
        check(&["..c", "c.."], &[], &[("..c", &[0]), ("c..", &[1])]);
        check(&["..", "c.."], &[0, 1], &[]);
        check(&["..", "..c", "c.."], &[0], &[("..c", &[1]), ("c..", &[2])]);
    }

    #[test]
    fn a_region_that_was_split_has_no_open_ends() {
        check(&["..c", "c..m"], &[], &[("..c", &[0]), ("c..", &[1])]);
        check(&["c..m", "m..", ""], &[2], &[("..m", &[0]), ("m..", &[1])]);
        check(&["c..m"], &[], &[("..", &[0])]);
        // There is a gap between the ranges, so no file can be placed.
        check(&["..c", "d..m"], &[0, 1], &[]);
    }

    #[test]
    fn ranges_contain_their_start_and_not_their_end() {
        let [all, low, middle] = ["..", "..c", "c..m"].map(|text| range(text).expect("a range"));
        assert!(all.has_row(b"") && all.has_row(b"zzz") && all.overlaps(b"a", b"b"));
        assert!(low.has_row(b"b") && !low.has_row(b"c"));
        assert!(middle.has_row(b"c") && !middle.has_row(b"m") && !middle.has_row(b"b"));
        assert!(middle.overlaps(b"a", b"c") && middle.overlaps(b"lll", b"z") && middle.overlaps(b"a", b"z"));
        assert!(!middle.overlaps(b"a", b"b") && !middle.overlaps(b"m", b"z"));
        assert!(all.contains(&low) && all.contains(&all) && low.contains(&low));
        assert!(!low.contains(&all) && !low.contains(&middle) && !middle.contains(&all));
    }
}
