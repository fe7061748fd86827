//! Tests with the selections that HBase makes in the cases of its own tests.

use cell::Timestamp;

use super::*;

const SIZE_MAX: u64 = 2_100;
const TOO_BIG: u64 = SIZE_MAX + 1;

/// Returns the settings in HBase's tests of its default engine.
fn options() -> RegionOptions {
    RegionOptions {
        compaction_files_min: 3,
        compaction_files_max: 5,
        compaction_size_min: Some(10),
        compaction_size_max: SIZE_MAX,
        compaction_ratio: 1.0,
        blocking_files: 10,
        ..RegionOptions::default()
    }
}

fn files(sizes: &[u64]) -> Vec<FileFacts> {
    sizes.iter().map(|&size| FileFacts { size, written_at: Some(1_000), ..FileFacts::default() }).collect()
}

fn references(sizes: &[u64]) -> Vec<FileFacts> {
    files(sizes).into_iter().map(|file| FileFacts { is_reference: true, ..file }).collect()
}

fn sizes(files: &[FileFacts], selection: &Selection) -> Vec<u64> {
    selection.files.iter().map(|index| files[*index].size).collect()
}

fn check(options: &RegionOptions, files: &[FileFacts], request: SelectionRequest, expected: &[u64]) {
    let request = SelectionRequest { now: 1_002, jitter: 0.5, ..request };
    let selection = select(files, options, &request);
    let all: Vec<u64> = files.iter().map(|file| file.size).collect();
    assert_eq!(sizes(files, &selection), expected, "of {all:?}, {request:?}");
}

fn minor(of: &[u64], expected: &[u64]) {
    check(&options(), &files(of), SelectionRequest::default(), expected);
}

const MAJOR: SelectionRequest = SelectionRequest {
    major: true,
    now: 0,
    is_user: false,
    off_peak: false,
    flush_size: 0,
    ttl: None,
    jitter: 0.0,
};

#[test]
fn exploring_prefers_many_files_and_few_bytes() {
    minor(&[100, 50, 23, 12, 12], &[23, 12, 12]);
    minor(&[100, 50, 25, 12, 12], &[]);
    minor(&[TOO_BIG, TOO_BIG, 700, 700, 700], &[700, 700, 700]);
    minor(&[TOO_BIG, TOO_BIG, 700, 700], &[]);
    minor(&[7, 1, 1], &[7, 1, 1]);
    minor(&[7, 6, 5, 4, 3, 2, 1], &[5, 4, 3, 2, 1]);
    minor(&[50, 10, 10, 10, 10], &[10, 10, 10, 10]);
    minor(&[10, 10, 10, 10, 50], &[10, 10, 10, 10]);
    minor(&[251, 253, 251, SIZE_MAX - 1], &[251, 253, 251]);
    minor(&[SIZE_MAX - 1, SIZE_MAX - 1, SIZE_MAX - 1], &[]);
    minor(&[], &[]);
    minor(&[TOO_BIG, TOO_BIG], &[]);
    minor(&[0], &[]);
}

#[test]
fn a_store_that_blocks_flushes_compacts_something() {
    let one = RegionOptions { compaction_size_min: Some(1), ..options() };
    check(&one, &files(&[512, 256, 128, 64, 32, 16, 8, 4, 2, 1]), SelectionRequest::default(), &[4, 2, 1]);
    minor(&[99, 99, 99, 99, 99, 99, 30, 30, 30, 30], &[30, 30, 30]);
    minor(&[99, 99, 99, 99, 99, 30, 30, 30, 30], &[99, 30, 30, 30, 30]);
    minor(&[99, 99, 99, 99, 99, 99, 30, 30, 30, 15], &[30, 30, 30, 15]);
    minor(&[99, 99, 99, 99, 30, 26, 26, 29, 25, 25], &[30, 26, 26]);
    minor(&[99, 99, 99, 99, 27, 27, 27, 20, 20, 20], &[20, 20, 20]);
}

#[test]
fn a_major_compaction_takes_all_files_unless_there_are_too_many() {
    let major = |of: &[u64], expected: &[u64]| check(&options(), &files(of), MAJOR, expected);
    major(&[50, 25, 12, 12], &[50, 25, 12, 12]);
    major(&[12, 12], &[12, 12]);
    major(&[TOO_BIG, 12, 12], &[TOO_BIG, 12, 12]);
    major(&[100, 50, 23, 12, 12], &[23, 12, 12]);
    // A compaction that a client requests is not cut.
    let of_user = SelectionRequest { is_user: true, ..MAJOR };
    check(&options(), &files(&[7, 6, 5, 4, 3, 2, 1]), of_user, &[7, 6, 5, 4, 3, 2, 1]);
    let selection = select(&files(&[9]), &options(), &of_user);
    assert_eq!(selection, Selection { files: vec![0], major: true, ..Selection::default() });
}

#[test]
fn a_period_brings_major_compactions() {
    let often = RegionOptions { major_period: Duration::from_millis(1), major_jitter: 0.0, ..options() };
    check(&often, &files(&[50, 25, 12, 12]), SelectionRequest::default(), &[50, 25, 12, 12]);
    check(&often, &files(&[100, 50, 23, 12, 12]), SelectionRequest::default(), &[23, 12, 12]);
    let done = FileFacts { is_major: true, ..files(&[50])[0] };
    check(&often, &[done], SelectionRequest::default(), &[]);
    let span = TimeSpan { oldest: Timestamp(900), newest: Timestamp(1_000) };
    let expiring = FileFacts { span: Some(span), ..done };
    check(&often, &[expiring], SelectionRequest { ttl: Some(102), ..SelectionRequest::default() }, &[50]);
    check(&often, &[expiring], SelectionRequest { ttl: Some(103), ..SelectionRequest::default() }, &[]);
    let never = RegionOptions { major_period: Duration::ZERO, ..often };
    check(&never, &files(&[50, 25]), SelectionRequest::default(), &[]);
}

#[test]
fn references_are_taken_whatever_their_size() {
    let of = |sizes: &[u64], expected: &[u64]| {
        check(&options(), &references(sizes), SelectionRequest::default(), expected);
        let fifo = RegionOptions { compaction_policy: CompactionPolicy::Fifo, ..options() };
        check(&fifo, &references(sizes), SelectionRequest::default(), expected);
    };
    of(&[100, 50, 25, 12, 12], &[100, 50, 25, 12, 12]);
    of(&[TOO_BIG, 12, 12], &[TOO_BIG, 12, 12]);
    of(&[7, 6, 5, 4, 3, 2, 1], &[7, 6, 5, 4, 3]);
    let fifo = RegionOptions { compaction_policy: CompactionPolicy::Fifo, ..options() };
    check(&fifo, &files(&[1, 1, 1, 1]), MAJOR, &[]);
}

#[test]
fn quiet_hours_have_numbers_of_their_own() {
    let quiet = SelectionRequest { off_peak: true, ..SelectionRequest::default() };
    check(&options(), &files(&[999, 50, 12, 12, 1]), quiet, &[50, 12, 12, 1]);
    minor(&[999, 50, 12, 12, 1], &[12, 12, 1]);
    let small = RegionOptions { compaction_size_max_off_peak: Some(49), ..options() };
    check(&small, &files(&[50, 12, 12, 1]), quiet, &[12, 12, 1]);
}

#[test]
fn the_ratio_based_policy_takes_all_from_the_first_in_ratio() {
    let ratio = RegionOptions { compaction_policy: CompactionPolicy::RatioBased, ..options() };
    let check = |of: &[u64], expected: &[u64]| {
        check(&ratio, &files(of), SelectionRequest::default(), expected);
    };
    check(&[100, 50, 23, 12, 12], &[23, 12, 12]);
    check(&[100, 50, 25, 12, 12], &[]);
    // Takes the oldest five of seven files, from the first file in ratio on.
    check(&[7, 6, 5, 4, 3, 2, 1], &[7, 6, 5, 4, 3]);
    // Files after the first one in ratio are taken, whatever their size.
    check(&[10, 10, 10, 10, 50], &[10, 10, 10, 10, 50]);
}

#[test]
fn the_throttle_point_is_twice_the_largest_minor_compaction() {
    assert_eq!(throttle_point(&RegionOptions::default(), 128 << 20), 2_684_354_560);
    let said = RegionOptions { compaction_throttle: Some(7), ..RegionOptions::default() };
    assert_eq!(throttle_point(&said, 128 << 20), 7);
}

#[test]
fn expired_files_go_but_the_newest_stays() {
    let of_age = |newest: i64| FileFacts {
        span: Some(TimeSpan { oldest: Timestamp(0), newest: Timestamp(newest) }),
        ..FileFacts::default()
    };
    let all = [of_age(10), of_age(99), of_age(100), of_age(20), of_age(30)];
    let info = crate::matcher::ScanInfo {
        max_versions: 1,
        min_versions: 0,
        ttl: Some(100),
        keep_deleted: proto::descriptor::KeepDeletedCells::False,
        new_versions: false,
    };
    let options = RegionOptions::default();
    assert_eq!(expired_files(&all, None, &options, &info, 200), [0, 1, 3]);
    assert!(expired_files(&all[4..], None, &options, &info, 200).is_empty(), "it names the last sequence id");
    for info in [
        crate::matcher::ScanInfo { ttl: None, ..info },
        crate::matcher::ScanInfo { min_versions: 1, ..info },
        crate::matcher::ScanInfo { new_versions: true, ..info },
    ] {
        assert!(expired_files(&all, None, &options, &info, 200).is_empty(), "{info:?}");
    }
    let off = RegionOptions { delete_expired_files: false, ..options };
    assert!(expired_files(&all, None, &off, &info, 200).is_empty());
    let fifo = RegionOptions { compaction_policy: CompactionPolicy::Fifo, ..off };
    assert_eq!(expired_files(&all, None, &fifo, &info, 200), [0, 1, 3], "that is the whole policy");
}

#[test]
fn classes_have_hbases_names() {
    let of = CompactionPolicy::of_class;
    let class = |name: &str| format!("org.apache.hadoop.hbase.regionserver.compactions.{name}");
    assert_eq!(of(&class("FIFOCompactionPolicy")), Some(CompactionPolicy::Fifo));
    assert_eq!(of(&class("ExploringCompactionPolicy")), Some(CompactionPolicy::Exploring));
    assert_eq!(of("RatioBasedCompactionPolicy"), Some(CompactionPolicy::RatioBased));
    assert_eq!(of("com.example.Policy"), None);
    let engine =
        |name: &str| CompactionPolicy::of_engine(&format!("org.apache.hadoop.hbase.regionserver.{name}"));
    assert_eq!(engine("DateTieredStoreEngine"), Some(Some(CompactionPolicy::DateTiered)));
    assert_eq!(engine("DefaultStoreEngine"), Some(None));
    assert_eq!(engine("PersistedStoreEngine"), Some(None), "of Amazon EMR");
    assert_eq!(engine("SomeEngine"), None);
}

/// One case of the date-tiered policy, with the settings of HBase's tests.
struct Tiered<'a> {
    now: i64,
    oldest: i64,
    newest: &'a [i64],
    sizes: &'a [u64],
    request: SelectionRequest,
}

impl Tiered<'_> {
    fn check(&self, expected: &[u64], boundaries: &[i64]) {
        let options = RegionOptions {
            compaction_policy: CompactionPolicy::DateTiered,
            compaction_files_min: 2,
            compaction_files_max: 12,
            compaction_ratio: 1.2,
            blocking_files: 20,
            major_period: Duration::from_millis(5),
            date_tiered: DateTieredOptions {
                age_max_ms: 100,
                incoming_files_min: 3,
                base_window_ms: 6,
                windows_per_tier: 4,
                single_output: false,
                ..DateTieredOptions::default()
            },
            ..options()
        };
        let of = |(&newest, &size): (&i64, &u64)| FileFacts {
            size,
            // The files are too young for a major compaction that nobody requests.
            written_at: Some(self.now),
            span: Some(TimeSpan { oldest: Timestamp(self.oldest), newest: Timestamp(newest) }),
            ..FileFacts::default()
        };
        let files: Vec<FileFacts> = self.newest.iter().zip(self.sizes).map(of).collect();
        let request = SelectionRequest { now: self.now, ..self.request };
        let selection = select(&files, &options, &request);
        assert_eq!(sizes(&files, &selection), expected, "now {}, newest {:?}", self.now, self.newest);
        let expected = match boundaries {
            [] => OutputLayout::One,
            boundaries => OutputLayout::Windows(boundaries.to_vec()),
        };
        assert_eq!(selection.output, expected, "now {}, newest {:?}", self.now, self.newest);
    }
}

fn tiered<'a>(now: i64, newest: &'a [i64], sizes: &'a [u64]) -> Tiered<'a> {
    Tiered { now, oldest: 0, newest, sizes, request: SelectionRequest::default() }
}

const UP_TO_15: [i64; 15] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const OF_15: [u64; 15] = [30, 31, 32, 33, 34, 20, 21, 22, 23, 24, 25, 10, 11, 12, 13];

#[test]
fn the_window_of_the_present_comes_first() {
    tiered(16, &UP_TO_15, &OF_15).check(&[10, 11, 12, 13], &[i64::MIN, 12]);
    // Two files are too few in that window, so the earlier window is taken.
    tiered(16, &UP_TO_15[..13], &OF_15[..13]).check(&[20, 21, 22, 23, 24, 25], &[i64::MIN, 6]);
    // Timestamps at the end of the newest window, and after it, belong to it.
    for newest in [18, 19] {
        let mut ends: Vec<i64> = UP_TO_15[..14].to_vec();
        ends.push(newest);
        tiered(16, &ends, &OF_15).check(&[10, 11, 12, 13], &[i64::MIN, 12]);
    }
}

#[test]
fn older_windows_are_longer() {
    tiered(194, &[44, 60, 61, 97, 100, 193], &[0, 20, 21, 22, 23, 1]).check(&[22, 23], &[i64::MIN, 96]);
    let newest = [44, 60, 61, 96, 100, 104, 120, 124, 143, 145, 157];
    tiered(161, &newest, &[0, 50, 51, 40, 41, 42, 30, 31, 32, 2, 1]).check(&[30, 31, 32], &[i64::MIN, 120]);
    // Windows that are older than the greatest age are left alone.
    let newest = [44, 60, 61, 96, 100, 104, 105, 106, 113, 145, 157];
    let sizes = [0, 50, 51, 40, 41, 42, 33, 30, 31, 2, 1];
    tiered(161, &newest, &sizes).check(&[40, 41, 42, 33, 30, 31], &[i64::MIN, 96]);
}

#[test]
fn a_part_of_a_window_becomes_one_file() {
    let sizes = [30, 31, 32, 33, 34, 20, 21, 22, 280, 23, 24, 1];
    tiered(16, &UP_TO_15[..12], &sizes).check(&[20, 21, 22], &[]);
    let newest = [44, 60, 61, 96, 100, 104, 120, 124, 143, 145, 157];
    tiered(161, &newest, &[0, 50, 51, 40, 41, 42, 350, 30, 31, 2, 1]).check(&[30, 31], &[]);
    let newest = [1, 2, 3, 4, 5, 8, 9, 10, 11, 12];
    tiered(16, &newest, &[30, 31, 32, 33, 34, 22, 280, 23, 24, 1]).check(&[23, 24], &[]);
}

#[test]
fn files_out_of_order_count_with_the_newest_timestamp_before_them() {
    let sizes = [30, 31, 32, 33, 34, 22, 28, 23, 24, 1];
    let expected = [31, 32, 33, 34, 22, 28, 23, 24, 1];
    tiered(16, &[0, 13, 3, 10, 11, 1, 2, 12, 14, 15], &sizes).check(&expected, &[i64::MIN, 12]);
    let sizes = [30, 31, 32, 33, 34, 22, 25, 23, 24, 1];
    let expected = [31, 32, 33, 34, 22, 25, 23, 24, 1];
    let before_1970 =
        Tiered { oldest: -1000, ..tiered(1, &[-28, -11, -10, -9, -8, -7, -6, -5, -4, -3], &sizes) };
    before_1970.check(&expected, &[i64::MIN, -24]);
}

#[test]
fn a_major_compaction_writes_one_file_for_each_window() {
    let sizes = [0, 50, 51, 40, 41, 42, 33, 30, 31, 2, 1];
    let newest = [44, 60, 61, 96, 100, 104, 105, 106, 113, 145, 157];
    let major = Tiered { request: MAJOR, ..tiered(161, &newest, &sizes) };
    major.check(&sizes, &[i64::MIN, 24, 48, 72, 96, 120, 144, 150, 156]);
    let newest = [-8, -7, -6, -5, -4, -3, -2, -1, 0, 6, 13];
    let before_1970 = Tiered { oldest: -155, request: MAJOR, ..tiered(16, &newest, &sizes) };
    before_1970.check(&sizes, &[i64::MIN, -144, -120, -96, -72, -48, -24, 0, 6, 12]);
}

#[test]
fn windows_with_one_file_each_are_done() {
    let tiers = DateTieredOptions { base_window_ms: 6, ..DateTieredOptions::default() };
    let options = RegionOptions {
        compaction_policy: CompactionPolicy::DateTiered,
        major_period: Duration::from_millis(5),
        major_jitter: 0.0,
        date_tiered: tiers,
        ..options()
    };
    let of = |oldest, newest, is_major| FileFacts {
        size: 1,
        written_at: Some(1),
        is_major,
        span: Some(TimeSpan { oldest: Timestamp(oldest), newest: Timestamp(newest) }),
        ..FileFacts::default()
    };
    let is_major = |files: &[FileFacts]| {
        select(files, &options, &SelectionRequest { now: 16, ..Default::default() }).major
    };
    assert!(!is_major(&[of(1, 5, true), of(6, 11, true)]));
    assert!(is_major(&[of(1, 5, true), of(6, 11, false)]), "a flush wrote one");
    assert!(is_major(&[of(1, 6, true), of(7, 11, true)]), "one reaches over the border");
    assert!(is_major(&[of(1, 2, true), of(3, 5, true)]), "two are in one window");
}
