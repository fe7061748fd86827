//! HBase's stripe policy (`StripeCompactionPolicy`): each [stripe](crate::stripes) is compacted alone.
//!
//! For tables whose regions are large, or whose writes are in order of their rows: a compaction rewrites one range of
//! rows, and ranges that get no writes are left alone.
//!
//! 1. If there are references, all files become new stripes.
//! 2. If level 0 has enough files, or all of them have expired, its cells are written into the stripes. If all files of
//!    a stripe would be compacted next, without a split, they take part too, so that the stripe's delete markers can be
//!    dropped. If there are no stripes yet, the first ones are made.
//! 3. Neighbouring stripes whose cells have all expired become one.
//! 4. Otherwise the exploring policy chooses within each stripe, and the best choice is taken. If it takes a whole
//!    stripe above a certain size, the stripe is split.
//!
//! Delete markers are dropped only in rows for which all files take part: those of a stripe and all of level 0. There
//! is no major compaction, as in HBase: a client that asks for one gets what the policy chooses.

use super::{FileFacts, Measure, OutputLayout, Selection, SelectionRequest, exploring};
use crate::RegionOptions;
use crate::stripes::{Stripe, StripeRange, Stripes};

/// A configured ratio below this counts as unset. A number of parts that differs from 1 by less than this becomes 2.
const NEARLY_ZERO: f32 = 0.001;
/// The flush size in bytes that counts if the region's flush size is 0.
const FLUSH_SIZE_DEFAULT: u64 = 128 << 20;
/// HBase's priority of a client's request (`Store.PRIORITY_USER`).
const USER_PRIORITY: i64 = 1;

/// The numbers of the stripe policy (`hbase.store.stripe.*`).
#[derive(Clone, Debug, PartialEq)]
pub struct StripeOptions {
    /// Number of stripes that a store gets at first (`…initialStripeCount`).
    pub initial_count: usize,
    /// Size in bytes from which a stripe is split (`…sizeToSplit`). `None` for the size of 4 compactions of level 0,
    /// times `split_parts`.
    pub split_size: Option<u64>,
    /// Number of stripes into which a stripe of `split_size` bytes is split (`…splitPartCount`).
    pub split_parts: f32,
    /// Whether flushes write to level 0 instead of the stripes (`…compaction.flushToL0`).
    pub flush_to_level0: bool,
    /// Least number of files in a compaction of level 0 (`…compaction.minFilesL0`).
    pub level0_files_min: usize,
    /// Least number of files in a compaction of a stripe (`…compaction.minFiles`). `None` for the same number as in
    /// stores without stripes, but at least 3 with level 0 and 4 without.
    pub files_min: Option<usize>,
    /// Largest number of files in a compaction of a stripe (`…compaction.maxFiles`). `None` for the same number as
    /// in stores without stripes.
    pub files_max: Option<usize>,
    /// A region is split at the border of a stripe if the larger side is less than this many times as large as the
    /// smaller side (`…region.split.max.imbalance`).
    pub split_imbalance_max: f32,
}

impl Default for StripeOptions {
    fn default() -> StripeOptions {
        StripeOptions {
            initial_count: 1,
            split_size: None,
            split_parts: 2.0,
            flush_to_level0: false,
            level0_files_min: 4,
            files_min: None,
            files_max: None,
            split_imbalance_max: 1.5,
        }
    }
}

impl StripeOptions {
    fn level0_files_min(&self) -> usize {
        self.level0_files_min.max(1)
    }

    fn files_min(&self, options: &RegionOptions) -> usize {
        let least = if self.flush_to_level0 { 3 } else { 4 };
        // With one file as the minimum, a compaction of that file would be repeated for ever.
        self.files_min.unwrap_or_else(|| least.max(options.compaction_files_min)).max(2)
    }

    fn files_max(&self, options: &RegionOptions) -> usize {
        self.files_max.unwrap_or(options.compaction_files_max)
    }

    fn initial_count(&self) -> usize {
        self.initial_count.max(1)
    }

    fn split_parts(&self) -> f32 {
        let parts = above_one(self.split_parts, 2.0);
        if (parts - 1.0).abs() < NEARLY_ZERO { 2.0 } else { parts }
    }

    fn split_size(&self, flush_size: u64) -> u64 {
        let flush_size = if flush_size == 0 { FLUSH_SIZE_DEFAULT } else { flush_size };
        let of_level0 = flush_size as f64 * self.level0_files_min() as f64;
        self.split_size.unwrap_or((of_level0 * 4.0 * f64::from(self.split_parts())) as u64).max(1)
    }

    /// Returns the size in bytes that a stripe should have after a split.
    fn part_size(&self, flush_size: u64) -> u64 {
        ((self.split_size(flush_size) as f32 / self.split_parts()) as u64).max(1)
    }

    /// Returns how many stripes `files` become, and the number of cells in each.
    ///
    /// The result is at least `parts`. It is greater if the stripes would otherwise be so large that they are soon
    /// split again.
    fn parts_of<'a>(
        &self,
        files: impl Iterator<Item = &'a FileFacts>,
        flush_size: u64,
        mut parts: f64,
    ) -> (usize, u64) {
        let (mut bytes, mut cells) = (0u64, 0u64);
        for file in files {
            bytes += file.size;
            cells += file.entries;
        }
        let part_size = self.part_size(flush_size) as f64;
        let ratio = |parts: f64| bytes as f64 / (parts * part_size);
        // A shortcut: until it comes near its end, the loop below would add one part per step.
        parts += (bytes as f64 / part_size - parts - 2.0).floor().max(0.0);
        while ratio(parts) > 1.0 && 1.0 / ratio(parts + 1.0) < ratio(parts) {
            parts += 1.0;
        }
        (parts.ceil() as usize, ((cells as f64 / parts) as u64).max(1))
    }
}

/// Returns a configured ratio as a number of at least 1: a ratio below 1 is inverted, and one below [`NEARLY_ZERO`] is
/// replaced by `default`.
fn above_one(number: f32, default: f32) -> f32 {
    match number {
        number if number < NEARLY_ZERO => default,
        number if number <= 1.0 => 1.0 / number,
        number => number,
    }
}

/// What a selection depends on: the files, the stripes, the options and the request.
struct Facts<'a> {
    files: &'a [FileFacts],
    stripes: &'a Stripes,
    options: &'a RegionOptions,
    request: &'a SelectionRequest,
}

impl Facts<'_> {
    fn numbers(&self) -> &StripeOptions {
        &self.options.stripe
    }

    fn bytes(&self, files: &[usize]) -> u64 {
        files.iter().map(|index| self.files[*index].size).sum()
    }

    /// Returns how many stripes these files become, at least `parts`, and the number of cells in each.
    fn parts_of(&self, files: &[usize], parts: f64) -> (usize, u64) {
        let files = files.iter().map(|index| &self.files[*index]);
        self.numbers().parts_of(files, self.request.flush_size, parts)
    }

    /// Returns the timestamp before which cells have expired; `None` if cells never expire.
    fn expired_before(&self) -> Option<i64> {
        self.request.ttl.map(|ttl| self.request.now.saturating_sub(ttl))
    }

    /// Whether there is at least one of these files, and all of their cells have expired.
    fn have_expired(&self, files: &[usize]) -> bool {
        let Some(before) = self.expired_before() else { return false };
        let is_over = |index: &usize| {
            let file = &self.files[*index];
            file.entries == 0 || file.newest().is_some_and(|newest| newest < before)
        };
        !files.is_empty() && files.iter().all(is_over)
    }

    /// Returns the files that the exploring policy selects among those of one stripe or of level 0. The policy gets
    /// them newest first, as in HBase.
    fn explore(&self, files: &[usize], takes_all_or_none: bool, request: &SelectionRequest) -> Vec<usize> {
        let files: Vec<usize> = files.iter().rev().copied().collect();
        let facts: Vec<FileFacts> = files.iter().map(|index| self.files[*index]).collect();
        let all = if takes_all_or_none { files.len() } else { 0 };
        let files_min = self.numbers().files_min(self.options).max(all);
        let files_max = self.numbers().files_max(self.options).max(files_min);
        let measure = Measure { files_min, files_max, ..Measure::of(self.options, request, false) };
        files[exploring::run(&facts, measure)].to_vec()
    }

    /// Whether level 0 is too large for one compaction.
    fn is_level0_cut(&self) -> bool {
        let level0 = &self.stripes.level0;
        level0.len() > self.numbers().files_max(self.options)
            || self.bytes(level0) > self.options.compaction_size_max
    }

    fn level0(&self) -> Selection {
        let level0 = &self.stripes.level0;
        let mut files = level0.clone();
        if self.is_level0_cut() {
            // As in HBase, the ratio for off-peak hours does not apply to level 0.
            files = self.explore(level0, false, &SelectionRequest { off_peak: false, ..*self.request });
            if files.is_empty() {
                files = self.newest_of_level0();
            }
        }
        if !self.stripes.stripes.is_empty() {
            return selection(files, OutputLayout::Stripes(self.stripes.ranges()), None);
        }
        let (count_max, cells) = self.parts_of(&files, self.numbers().initial_count() as f64);
        let purges = (files.len() == level0.len()).then_some(StripeRange::ALL);
        selection(files, OutputLayout::Split { range: StripeRange::ALL, count_max, cells }, purges)
    }

    /// Returns the newest files of level 0. Stops at the largest number of files of a compaction, or with the file that
    /// reaches the largest size.
    fn newest_of_level0(&self) -> Vec<usize> {
        let files_max = self.numbers().files_max(self.options).max(self.numbers().files_min(self.options));
        let (mut files, mut bytes) = (Vec::new(), 0);
        for index in self.stripes.level0.iter().rev().take(files_max) {
            if bytes >= self.options.compaction_size_max && !files.is_empty() {
                break;
            }
            files.push(*index);
            bytes += self.files[*index].size;
        }
        files
    }

    /// Returns the best compaction of one stripe, together with all files of level 0 if `with_level0`. Delete markers
    /// are dropped only if the compaction takes the whole stripe and leaves no file in level 0. Returns `None` if no
    /// stripe has files to compact, or if `with_level0` and the stripe is due for a split.
    fn one_stripe(&self, with_level0: bool) -> Option<Selection> {
        let has_level0 = !self.stripes.level0.is_empty();
        let mut best: Option<(&Stripe, Vec<usize>, u64)> = None;
        for stripe in &self.stripes.stripes {
            let files = self.explore(&stripe.files, has_level0 && with_level0, self.request);
            let bytes = self.bytes(&files);
            let is_better = best.as_ref().is_none_or(|(_, known, known_bytes)| {
                files.len() > known.len() || (files.len() == known.len() && bytes < *known_bytes)
            });
            if !files.is_empty() && is_better {
                best = Some((stripe, files, bytes));
            }
        }
        let (stripe, mut files, bytes) = best?;
        let is_whole = files.len() == stripe.files.len();
        let is_split = is_whole && bytes >= self.numbers().split_size(self.request.flush_size);
        if with_level0 && is_split {
            // The stripe will be split by its next compaction. So it is not compacted together with level 0 now.
            return None;
        }
        let purges = (is_whole && (with_level0 || !has_level0)).then(|| stripe.range.clone());
        if with_level0 {
            files.extend(&self.stripes.level0);
            return Some(selection(files, OutputLayout::Stripes(self.stripes.ranges()), purges));
        }
        let (count_max, cells) = match is_split {
            true => self.parts_of(&files, f64::from(self.numbers().split_parts())),
            false => (1, u64::MAX),
        };
        Some(selection(files, OutputLayout::Split { range: stripe.range.clone(), count_max, cells }, purges))
    }

    /// Returns a compaction that makes one stripe of the longest run of stripes whose cells have all expired; `None` if
    /// there is none. A run of one stripe is joined with the next stripe; if it is the last stripe, nothing is
    /// compacted.
    fn expired_stripes(&self) -> Option<Selection> {
        let before = self.expired_before()?;
        let stripes = &self.stripes.stripes;
        // A stripe with a single file without cells does not count, because an earlier compaction of this kind has left
        // that file.
        let is_over = |stripe: &Stripe| {
            let is_old =
                |file: &FileFacts| file.entries > 0 && file.newest().is_some_and(|newest| newest < before);
            stripe.files.iter().all(|index| is_old(&self.files[*index]))
        };
        let (mut best, mut start) = (0..0, 0);
        for (index, stripe) in stripes.iter().enumerate() {
            if !is_over(stripe) {
                start = index + 1;
            } else if index + 1 - start > best.len() {
                best = start..index + 1;
            }
        }
        match best.len() {
            0 => return None,
            // A single expired stripe is merged with the next one, because some file must keep its range.
            1 if best.end == stripes.len() => return None,
            1 => best.end += 1,
            _ => {}
        }
        let merged = &stripes[best];
        let (first, last) = (merged.first()?, merged.last()?);
        let range = StripeRange { start: first.range.start.clone(), end: last.range.end.clone() };
        let files = merged.iter().flat_map(|stripe| &stripe.files).copied().collect();
        let purges = self.stripes.level0.is_empty().then(|| range.clone());
        Some(selection(files, OutputLayout::Split { range, count_max: 1, cells: u64::MAX }, purges))
    }
}

fn selection(mut files: Vec<usize>, output: OutputLayout, purges: Option<StripeRange>) -> Selection {
    files.sort_unstable();
    Selection { files, major: false, output, purges }
}

/// Selects what the next compaction takes of `files`, which are all files of a store with these stripes, oldest
/// first. The selection is empty if there is nothing to do.
pub(crate) fn select_of_stripes(
    files: &[FileFacts],
    stripes: &Stripes,
    options: &RegionOptions,
    request: &SelectionRequest,
) -> Selection {
    let facts = Facts { files, stripes, options, request };
    if files.iter().any(|file| file.is_reference) {
        let all: Vec<usize> = (0..files.len()).collect();
        let (_, cells) = facts.parts_of(&all, facts.numbers().initial_count() as f64);
        let output = OutputLayout::Split { range: StripeRange::ALL, count_max: usize::MAX, cells };
        return selection(all, output, Some(StripeRange::ALL));
    }
    let level0 = &stripes.level0;
    let is_level0_due = level0.len() >= facts.numbers().level0_files_min() || facts.have_expired(level0);
    match (is_level0_due, stripes.stripes.is_empty()) {
        (true, true) => facts.level0(),
        (true, false) => facts.one_stripe(!facts.is_level0_cut()).unwrap_or_else(|| facts.level0()),
        (false, true) => Selection::default(),
        (false, false) => facts.expired_stripes().or_else(|| facts.one_stripe(false)).unwrap_or_default(),
    }
}

/// Returns how a flush of `cells` cells divides its files in a store with these stripes.
pub(crate) fn layout_of_flush(stripes: &Stripes, options: &StripeOptions, cells: u64) -> OutputLayout {
    if options.flush_to_level0 {
        return OutputLayout::One;
    }
    if !stripes.stripes.is_empty() {
        return OutputLayout::Stripes(stripes.ranges());
    }
    let count_max = options.initial_count();
    OutputLayout::Split { range: StripeRange::ALL, count_max, cells: (cells / count_max as u64).max(1) }
}

/// Returns the number of files that a store with these stripes may still get before its flushes wait; negative if it
/// has too many. While it may still get files, the result is an estimate for its average stripe, and at least 2.
pub(crate) fn files_left(stripes: &Stripes, files: usize, blocking_files: usize) -> i64 {
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let left = count(blocking_files).saturating_sub(count(files));
    if stripes.stripes.is_empty() || left <= 0 {
        return left;
    }
    // The number of files of an average stripe counts, so that a store is not compacted first only because it has many
    // stripes. Level 0 counts once for each stripe.
    let level0 = count(stripes.level0.len());
    let of_stripe = (left.saturating_add(level0) as f64 / stripes.stripes.len() as f64) - level0 as f64;
    (of_stripe.ceil() as i64).max(USER_PRIORITY + 1)
}

/// Returns how close a store with these stripes is to making its flushes wait: from 0 to 1, and 2 if they wait.
pub(crate) fn pressure(stripes: &Stripes, files: usize, options: &RegionOptions) -> f64 {
    if files > options.blocking_files {
        return 2.0;
    }
    let files_min = options.stripe.files_min(options);
    let of_stripe = |stripe: &Stripe| {
        let level0 = usize::from(!stripes.level0.is_empty());
        let above = (stripe.files.len() + level0).saturating_sub(files_min) as f64;
        let room = (options.blocking_files / stripes.stripes.len()).saturating_sub(files_min).max(1);
        (above / room as f64).min(1.0)
    };
    stripes.stripes.iter().map(of_stripe).fold(0.0, f64::max)
}

/// Where to split a region whose largest store has stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StripeSplit {
    /// In the middle of the largest of all files.
    AnyFile,
    /// At the end of the stripe with this index.
    After(usize),
    /// In the middle of the largest file of the stripe with this index.
    Within(usize),
}

/// Chooses where to split a region whose largest store has stripes of these sizes, in bytes: between two stripes, or
/// within one if the two sides then differ much less in size. With fewer than two stripes, or if one side has no bytes,
/// the stripes are disregarded.
pub(crate) fn split_between(sizes: &[u64], options: &StripeOptions) -> StripeSplit {
    if sizes.len() <= 1 {
        return StripeSplit::AnyFile;
    }
    // The two sides grow from both ends of the region, the smaller one first, until they meet.
    let (mut left, mut right, mut left_end, mut right_start) = (0u64, 0u64, 0, sizes.len());
    while left_end < right_start {
        if left >= right {
            right_start -= 1;
            right += sizes[right_start];
        } else {
            left += sizes[left_end];
            left_end += 1;
        }
    }
    if left == 0 || right == 0 {
        return StripeSplit::AnyFile;
    }
    let imbalance = |one: f64, other: f64| (one / other).max(other / one);
    let ratio = imbalance(left as f64, right as f64);
    let (larger, smaller, last) = match right >= left {
        true => (right, left, right_start),
        false => (left, right, left_end - 1),
    };
    let half = sizes[last] as f64 / 2.0;
    let of_halves = imbalance(larger as f64 - half, smaller as f64 + half);
    let maximum = f64::from(above_one(options.split_imbalance_max, 1.5));
    if ratio < maximum || of_halves >= ratio {
        StripeSplit::After(left_end - 1)
    } else {
        StripeSplit::Within(last)
    }
}

#[cfg(test)]
mod tests;
