//! Checks that the policy selects what HBase does, in the cases of HBase's own tests of its policy and its file
//! manager.

use std::ops::Range;

use bytes::Bytes;
use cell::Timestamp;
use hfile::TimeSpan;

use super::*;

const MIB: u64 = 1 << 20;

/// A store as HBase's tests describe it: the files of each stripe and of level 0, newest first. A file has as many
/// cells as bytes. The stripes end at the rows a, b, c …
struct Case {
    level0: Vec<FileFacts>,
    stripes: Vec<Vec<FileFacts>>,
    options: RegionOptions,
    request: SelectionRequest,
}

/// The selected files: for each stripe the positions of files in it, and the positions of files in level 0.
type Picked<'a> = (&'a [(usize, Range<usize>)], Range<usize>);

fn of_size(size: u64) -> FileFacts {
    FileFacts { size, entries: size, ..FileFacts::default() }
}

/// The settings of HBase's tests: stripes of 18 bytes are split into 1.8 parts.
fn options(stripe: StripeOptions) -> RegionOptions {
    RegionOptions {
        compaction_policy: crate::CompactionPolicy::Stripe,
        compaction_size_min: Some(0),
        stripe: StripeOptions { split_size: stripe.split_size.or(Some(18)), split_parts: 1.8, ..stripe },
        ..RegionOptions::default()
    }
}

fn case(level0: &[u64], stripes: &[&[u64]], stripe: StripeOptions) -> Case {
    let files = |sizes: &&[u64]| sizes.iter().map(|size| of_size(*size)).collect();
    Case {
        level0: files(&level0),
        stripes: stripes.iter().map(files).collect(),
        options: options(stripe),
        request: SelectionRequest::default(),
    }
}

impl Case {
    fn range(&self, first: usize, last: usize) -> StripeRange {
        let row = |index: usize| Bytes::from(vec![b'a' + index as u8]);
        let open = Bytes::new;
        StripeRange {
            start: if first == 0 { open() } else { row(first - 1) },
            end: if last + 1 == self.stripes.len() { open() } else { row(last) },
        }
    }

    fn ranges(&self) -> Vec<StripeRange> {
        (0..self.stripes.len()).map(|index| self.range(index, index)).collect()
    }

    /// Returns the indices of a group's files, newest first, in the store's list, which has each group oldest first.
    fn group(&self, group: usize) -> Vec<usize> {
        let sizes: Vec<usize> = self.stripes.iter().map(Vec::len).chain([self.level0.len()]).collect();
        let start: usize = sizes[..group].iter().sum();
        (start..start + sizes[group]).rev().collect()
    }

    fn facts(&self) -> Vec<FileFacts> {
        let groups = self.stripes.iter().chain([&self.level0]);
        groups.flat_map(|files| files.iter().rev().copied()).collect()
    }

    fn layout(&self) -> Stripes {
        let ranges = self.ranges();
        let mut said: Vec<Option<&StripeRange>> = Vec::new();
        for (range, files) in ranges.iter().zip(&self.stripes) {
            said.extend(std::iter::repeat_n(Some(range), files.len()));
        }
        said.extend(std::iter::repeat_n(None, self.level0.len()));
        Stripes::of(said)
    }

    fn indexes(&self, picked: &Picked<'_>) -> Vec<usize> {
        let of_stripes =
            picked.0.iter().flat_map(|(stripe, range)| self.group(*stripe)[range.clone()].to_vec());
        let level0 = self.group(self.stripes.len())[picked.1.clone()].to_vec();
        let mut all: Vec<usize> = of_stripes.chain(level0).collect();
        all.sort_unstable();
        all
    }

    fn select(&self) -> Selection {
        select_of_stripes(&self.facts(), &self.layout(), &self.options, &self.request)
    }

    fn check(&self, picked: Picked<'_>, output: OutputLayout, purges: Option<StripeRange>) {
        let expected = Selection { files: self.indexes(&picked), major: false, output, purges };
        let sizes = |files: &[FileFacts]| files.iter().map(|file| file.size).collect::<Vec<_>>();
        let stripes: Vec<_> = self.stripes.iter().map(|files| sizes(files)).collect();
        assert_eq!(self.select(), expected, "level 0 {:?}, stripes {stripes:?}", sizes(&self.level0));
    }

    fn check_none(&self) {
        self.check((&[], 0..0), OutputLayout::One, None);
    }

    /// Checks that one whole stripe is compacted, alone, into one file.
    fn check_stripe(&self, stripe: usize, purges: bool) {
        let range = self.range(stripe, stripe);
        let all = 0..self.stripes[stripe].len();
        self.check((&[(stripe, all)], 0..0), split(&range, 1, u64::MAX), purges.then_some(range.clone()));
    }

    fn all_level0(&self) -> Range<usize> {
        0..self.level0.len()
    }
}

fn split(range: &StripeRange, count_max: usize, cells: u64) -> OutputLayout {
    OutputLayout::Split { range: range.clone(), count_max, cells }
}

const ALL: StripeRange = StripeRange::ALL;

#[test]
fn the_best_compaction_of_one_stripe_is_taken() {
    let check = |stripes: &[&[u64]], expected: Option<(usize, Range<usize>)>| {
        let numbers = StripeOptions {
            files_min: Some(3),
            files_max: Some(4),
            split_size: Some(1000),
            ..StripeOptions::default()
        };
        let mut case = case(&[], stripes, numbers);
        case.options.compaction_ratio = 1.0;
        let Some((stripe, files)) = expected else { return case.check_none() };
        let range = case.range(stripe, stripe);
        let purges = (files == (0..stripes[stripe].len())).then(|| range.clone());
        case.check((&[(stripe, files)], 0..0), split(&range, 1, u64::MAX), purges);
    };
    check(&[&[2], &[3, 3], &[5, 1]], None);
    check(&[&[2], &[3, 3], &[5, 1, 1]], None);
    check(&[&[2], &[3, 3], &[5, 4, 3]], Some((2, 0..3)));
    // The stripe with the most files is taken; among equals, the one with the fewest bytes.
    check(&[&[3, 2, 2], &[2, 2, 1], &[3, 2, 2, 1]], Some((2, 0..4)));
    check(&[&[5], &[3, 2, 2, 1], &[3, 2, 2]], Some((1, 0..4)));
    check(&[&[3, 3, 3], &[3, 1, 2], &[3, 2, 2]], Some((1, 0..3)));
    // Only as many files as allowed, and only files in ratio.
    check(&[&[5], &[5, 4, 4, 4, 4]], Some((1, 1..5)));
    check(&[&[5], &[50, 4, 4, 4, 4]], Some((1, 1..5)));
}

#[test]
fn references_make_all_files_new_stripes() {
    let mut case = case(&[5], &[&[4], &[4]], StripeOptions::default());
    case.level0[0].is_reference = true;
    case.check((&[(0, 0..1), (1, 0..1)], 0..1), split(&ALL, usize::MAX, 13), Some(ALL));
}

#[test]
fn level_0_becomes_the_first_stripes() {
    let numbers =
        |initial_count| StripeOptions { initial_count, level0_files_min: 2, ..StripeOptions::default() };
    let check = |sizes: &[u64], initial, count, cells| {
        let case = case(sizes, &[], numbers(initial));
        case.check((&[], case.all_level0()), split(&ALL, count, cells), Some(ALL));
    };
    check(&[8, 8, 8], 2, 2, 12);
    // There are more parts if the parts would be too large.
    check(&[10, 10, 10], 2, 3, 10);
    check(&[10, 10, 10], 6, 6, 5);
    case(&[10, 10, 10], &[], StripeOptions::default()).check_none();
    case(&[5, 5, 5], &[&[5], &[5]], StripeOptions::default()).check_none();
}

#[test]
fn level_0_is_spread_over_the_stripes() {
    let numbers = StripeOptions { level0_files_min: 3, ..StripeOptions::default() };
    let few = case(&[5, 5, 5], &[&[5], &[5]], numbers);
    few.check((&[], 0..3), OutputLayout::Stripes(few.ranges()), None);
    let stripes: [&[u64]; 3] = [&[5, 1, 1], &[3, 2, 2], &[3, 2, 2]];
    let many = case(&[10; 10], &stripes, StripeOptions::default());
    many.check((&[], 0..10), OutputLayout::Stripes(many.ranges()), None);
    // If the bytes are too many for one compaction, the newest files are taken.
    let mut large = case(&[50; 5], &stripes, StripeOptions::default());
    large.options.compaction_size_max = 100;
    large.check((&[], 0..2), OutputLayout::Stripes(large.ranges()), None);
    large.options.compaction_size_max = 0;
    large.check((&[], 0..1), OutputLayout::Stripes(large.ranges()), None);
    // If the files are too many, only the newest are taken.
    let cut = StripeOptions { files_max: Some(6), ..StripeOptions::default() };
    let case = case(&[10; 10], &stripes, cut);
    case.check((&[], 0..6), OutputLayout::Stripes(case.ranges()), None);
}

#[test]
fn a_large_stripe_is_split() {
    let two = StripeOptions { files_min: Some(2), ..StripeOptions::default() };
    let of = |stripes: &[&[u64]], numbers: &StripeOptions, ratio| {
        let mut case = case(&[], stripes, numbers.clone());
        case.options.compaction_ratio = ratio;
        case
    };
    of(&[&[16, 2]], &two, 1.2).check_none();
    let check = |stripes: &[&[u64]], stripe: usize, cells| {
        let case = of(stripes, &two, 500.0);
        let (range, all) = (case.range(stripe, stripe), 0..stripes[stripe].len());
        case.check((&[(stripe, all)], 0..0), split(&range, 2, cells), Some(range.clone()));
    };
    let (small, large): (&[u64], &[u64]) = (&[16, 1], &[16, 1, 1]);
    check(&[&[16, 2]], 0, 10);
    check(&[small, small, large], 2, 10);
    check(&[small, large, small], 1, 10);
    let larger = StripeOptions { split_size: Some(19), ..two.clone() };
    of(&[small, large, small], &larger, 500.0).check_stripe(1, true);
    // During off-peak hours a larger file is in ratio.
    let mut quiet = of(&[large], &two, 1.2);
    assert_eq!(quiet.select().files.len(), 2);
    quiet.request.off_peak = true;
    quiet.options.compaction_ratio_off_peak = 500.0;
    assert_eq!(quiet.select().files.len(), 3);
    // Delete markers are dropped only if level 0 has no files.
    let check = |level0: &[u64]| {
        let case = case(level0, &[&[1], &[9, 9]], two.clone());
        let (range, purges) = (case.range(1, 1), level0.is_empty());
        case.check((&[(1, 0..2)], 0..0), split(&range, 2, 10), purges.then_some(range.clone()));
    };
    check(&[]);
    check(&[2, 2]);
}

#[test]
fn markers_go_when_level_0_takes_part() {
    let stripes: [&[u64]; 2] = [&[3, 2, 2, 2], &[6]];
    let of = |level0: &[u64], stripes: &[&[u64]]| case(level0, stripes, StripeOptions::default());
    of(&[], &stripes).check_stripe(0, true);
    of(&[2, 2], &stripes).check_stripe(0, false);
    let due = of(&[2; 6], &stripes);
    let both: Picked<'_> = (&[(0, 0..4)], 0..6);
    due.check(both, OutputLayout::Stripes(due.ranges()), Some(due.range(0, 0)));
    // If only some files of a stripe are due, level 0 is compacted without them.
    let not_all = of(&[2; 6], &[&[10, 1, 1, 1, 1], &[12]]);
    not_all.check((&[], 0..6), OutputLayout::Stripes(not_all.ranges()), None);
    // A stripe that is to be split is not compacted together with level 0.
    let large = of(&[2; 6], &[&[5, 5, 5, 5], &[6]]);
    large.check((&[], 0..6), OutputLayout::Stripes(large.ranges()), None);
    let part = of(&[], &[&[100, 3, 2, 2, 2], &[6]]);
    let range = part.range(0, 0);
    part.check((&[(0, 1..5)], 0..0), split(&range, 1, u64::MAX), None);
}

const TTL: i64 = 1_000_000;

/// Returns a store whose stripes have two files each. Both have expired (`e`), none has (`n`), or one has (`m`).
fn aged(stripes: &str, level0: &str) -> Case {
    let file = |newest: i64| FileFacts {
        span: Some(TimeSpan { oldest: Timestamp(0), newest: Timestamp(newest) }),
        ..of_size(1)
    };
    let (old, young) = (file(1), file(3));
    let of = |letter: char| match letter {
        'e' => vec![old, old],
        'n' => vec![young, young],
        _ => vec![old, young],
    };
    Case {
        level0: level0.chars().flat_map(of).collect(),
        stripes: stripes.chars().map(of).collect(),
        options: options(StripeOptions::default()),
        request: SelectionRequest { now: TTL + 2, ttl: Some(TTL), ..SelectionRequest::default() },
    }
}

#[test]
fn stripes_whose_cells_have_expired_become_one() {
    let check = |stripes: &str, first: usize, last: usize| {
        let case = aged(stripes, "");
        let range = case.range(first, last);
        let all: Vec<(usize, Range<usize>)> = (first..=last).map(|stripe| (stripe, 0..2)).collect();
        case.check((&all, 0..0), split(&range, 1, u64::MAX), Some(range.clone()));
    };
    check("eee", 0, 2);
    check("nen", 1, 2);
    check("neneen", 3, 4);
    check("eenem", 0, 1);
    for none in ["nnn", "mmm", "nne", "e"] {
        aged(none, "").check_none();
    }
    // If level 0 has files, delete markers stay.
    let case = aged("eee", "n");
    let all = [(0, 0..2), (1, 0..2), (2, 0..2)];
    case.check((&all, 0..0), split(&ALL, 1, u64::MAX), None);
    // A family whose cells do not expire.
    let mut kept = aged("eee", "");
    kept.request.ttl = None;
    kept.check_none();
    // The result of such a compaction has no cells and is not compacted again.
    let mut done = aged("nen", "");
    done.stripes[1] = vec![FileFacts { entries: 0, ..done.stripes[1][0] }];
    done.check_none();
}

#[test]
fn level_0_is_compacted_when_its_cells_have_expired() {
    aged("", "m").check_none();
    let case = aged("", "e");
    case.check((&[], 0..2), split(&ALL, 1, 2), Some(ALL));
    let case = aged("nn", "e");
    case.check((&[], 0..2), OutputLayout::Stripes(case.ranges()), None);
}

#[test]
fn flushes_write_to_level_0_or_to_the_stripes() {
    let none = Stripes::default();
    let level0 = StripeOptions { flush_to_level0: true, ..StripeOptions::default() };
    let stripes = case(&[], &[&[5], &[5], &[5]], StripeOptions::default());
    assert_eq!(layout_of_flush(&none, &level0, 5), OutputLayout::One);
    assert_eq!(layout_of_flush(&stripes.layout(), &level0, 5), OutputLayout::One);
    let direct = StripeOptions::default();
    assert_eq!(layout_of_flush(&stripes.layout(), &direct, 5), OutputLayout::Stripes(stripes.ranges()));
    assert_eq!(layout_of_flush(&none, &direct, 5), split(&ALL, 1, 5));
    let three = StripeOptions { initial_count: 3, ..direct };
    assert_eq!(layout_of_flush(&none, &three, 10), split(&ALL, 3, 3));
}

#[test]
fn a_region_is_split_between_stripes_unless_the_sides_differ() {
    let check = |imbalance: f32, sizes: &[u64], expected| {
        let options = StripeOptions { split_imbalance_max: imbalance, ..StripeOptions::default() };
        assert_eq!(split_between(sizes, &options), expected, "{sizes:?}, {imbalance}");
    };
    use StripeSplit::{After, AnyFile, Within};
    check(0.0, &[2, 1, 1, 1, 1, 1, 10], After(5));
    check(0.0, &[6, 3, 1, 1, 2], After(0));
    check(0.0, &[1, 1, 1, 1, 2], After(2));
    check(0.0, &[5, 4], After(0));
    check(0.0, &[5, 2, 5, 5, 5], After(2));
    check(2.1, &[4, 4, 4], After(0));
    check(1.5, &[4, 4, 4], Within(1));
    check(1.1, &[3, 4, 1, 1, 2, 2], After(1));
    check(1.1, &[3, 6, 1, 1, 2, 2], After(1));
    check(1.1, &[3, 8, 1, 1, 2, 2], Within(1));
    check(1.1, &[2, 2, 1, 1, 4, 3], After(3));
    check(1.1, &[2, 2, 1, 1, 8, 3], Within(4));
    check(1.5, &[], AnyFile);
    check(1.5, &[7], AnyFile);
    check(1.5, &[7, 0], AnyFile);
}

#[test]
fn defaults_are_hbases() {
    let mut region = RegionOptions::default();
    let numbers = StripeOptions::default();
    assert_eq!((numbers.files_min(&region), numbers.files_max(&region)), (4, 10));
    assert_eq!(numbers.split_size(128 * MIB), 4_096 * MIB);
    assert_eq!(numbers.split_size(0), 4_096 * MIB);
    assert_eq!(numbers.part_size(128 * MIB), 2_048 * MIB);
    let level0 = StripeOptions { flush_to_level0: true, ..numbers.clone() };
    assert_eq!(level0.files_min(&region), 3);
    (region.compaction_files_min, region.compaction_files_max) = (6, 20);
    assert_eq!((level0.files_min(&region), numbers.files_max(&region)), (6, 20));
    // A number of parts below one is inverted; one part would be no split.
    let parts = |split_parts| StripeOptions { split_parts, ..StripeOptions::default() }.split_parts();
    assert_eq!((parts(0.25), parts(1.0), parts(0.0), parts(-3.0), parts(2.5)), (4.0, 2.0, 2.0, 2.0, 2.5));
}

#[test]
fn many_stripes_are_no_hurry() {
    let of = |level0: usize, stripes: &[usize]| {
        let sizes: Vec<Vec<u64>> = stripes.iter().map(|files| vec![1; *files]).collect();
        let sizes: Vec<&[u64]> = sizes.iter().map(|sizes| &sizes[..]).collect();
        let case = case(&vec![1; level0], &sizes, StripeOptions::default());
        (case.layout(), level0 + stripes.iter().sum::<usize>())
    };
    let left = |level0, stripes: &[usize]| {
        let (layout, files) = of(level0, stripes);
        files_left(&layout, files, 16)
    };
    assert_eq!(left(10, &[]), 6);
    // (16 - 6 files + 2 of level 0) / 2 stripes - 2 of level 0.
    assert_eq!(left(2, &[2, 2]), 4);
    assert_eq!(left(4, &[1; 8]), 2, "not as urgent as a client's request");
    assert_eq!(left(0, &[10, 10]), -4);
    let pressure = |level0, stripes: &[usize]| {
        let (layout, files) = of(level0, stripes);
        super::pressure(&layout, files, &RegionOptions { blocking_files: 16, ..RegionOptions::default() })
    };
    assert_eq!((pressure(17, &[]), pressure(10, &[]), pressure(0, &[4, 2])), (2.0, 0.0, 0.0));
    // There is room for 8 files in each stripe; 4 of them are enough for a compaction.
    assert_eq!((pressure(0, &[6, 2]), pressure(1, &[6, 2]), pressure(0, &[12, 1])), (0.5, 0.75, 1.0));
}

/// For random numbers, a selection consists of the store's files, and repeated compactions come to an end.
#[test]
fn compactions_come_to_an_end() {
    let mut word = 7u64;
    let mut random = |below: u64| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 33) % below
    };
    for _ in 0..2_000 {
        let numbers = StripeOptions {
            initial_count: random(4) as usize,
            split_size: Some(random(60)),
            split_parts: random(50) as f32 / 10.0,
            flush_to_level0: false,
            level0_files_min: random(5) as usize,
            files_min: Some(random(5) as usize),
            files_max: Some(random(6) as usize),
            split_imbalance_max: 1.5,
        };
        let mut sizes = |count: u64| (0..count).map(|_| random(30)).collect::<Vec<u64>>();
        let level0 = sizes(6);
        let stripes = [sizes(5), sizes(2), sizes(1), sizes(7)];
        let stripes: Vec<&[u64]> = stripes.iter().map(|sizes| &sizes[..]).collect();
        let mut case = case(&level0, &stripes, numbers.clone());
        case.options.stripe = numbers;
        let mut layout = case.layout();
        let mut files = case.facts();
        let mut ranges: Vec<Option<StripeRange>> = vec![None; files.len()];
        for stripe in &layout.stripes {
            stripe.files.iter().for_each(|index| ranges[*index] = Some(stripe.range.clone()));
        }
        for step in 0.. {
            assert!(step < 60, "{:?} goes on and on", case.options.stripe);
            let selection = select_of_stripes(&files, &layout, &case.options, &case.request);
            if selection.is_empty() {
                break;
            }
            assert!(selection.files.is_sorted() && selection.files.iter().all(|index| *index < files.len()));
            let (mut size, mut entries) = (0, 0);
            for index in selection.files.iter().rev() {
                size += files[*index].size;
                entries += files[*index].entries;
                files.remove(*index);
                ranges.remove(*index);
            }
            let made = match selection.output {
                OutputLayout::Stripes(ranges) => ranges,
                OutputLayout::Split { range, count_max, .. } => {
                    let parts = count_max.clamp(1, 3);
                    let row = |part: usize| {
                        let mut row = range.start.to_vec();
                        row.extend([b'0', b'a' + part as u8]);
                        Bytes::from(row)
                    };
                    let start = |part| if part == 0 { range.start.clone() } else { row(part) };
                    let end = |part| if part + 1 == parts { range.end.clone() } else { row(part + 1) };
                    (0..parts).map(|part| StripeRange { start: start(part), end: end(part) }).collect()
                }
                other => unreachable!("{other:?}"),
            };
            for range in &made {
                let count = made.len() as u64;
                files.push(FileFacts {
                    size: size / count,
                    entries: entries / count,
                    ..FileFacts::default()
                });
                ranges.push(Some(range.clone()));
            }
            layout = Stripes::of(ranges.iter().map(Option::as_ref));
            assert!(layout.stripes.len() > 1 || layout.level0.is_empty(), "{layout:?}");
        }
    }
}
