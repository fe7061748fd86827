#![expect(clippy::disallowed_methods, reason = "the tests remove their files")]

use super::*;

const CONTENT: Content = Content { seed: 11 };

/// Returns the first version after `from` that is of this kind.
fn next(kind: Kind, from: u64) -> u64 {
    (from + 1..).find(|version| CONTENT.kind(0, *version) == kind).expect("there is one")
}

fn file(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("fire-expected-{name}-{}", std::process::id()));
    let _absent = std::fs::remove_file(&path);
    path
}

#[test]
fn a_lost_write_is_found() {
    let old = next(Kind::Put, 0);
    let new = next(Kind::Put, old);
    let why = judge(CONTENT, 0, new, new, Some(old)).unwrap_err();
    assert!(why.contains("a write is lost"), "{why}");
    assert_eq!(judge(CONTENT, 0, old, new, Some(old)), Ok(old));
    assert_eq!(judge(CONTENT, 0, old, new, Some(new)), Ok(new));
}

#[test]
fn a_deleted_value_that_returns_is_found() {
    let put = next(Kind::Put, 0);
    let delete = next(Kind::Delete, put);
    let why = judge(CONTENT, 0, delete, delete, Some(put)).unwrap_err();
    assert!(why.contains("is there again"), "{why}");
    assert_eq!(judge(CONTENT, 0, delete, delete, None), Ok(delete));
}

#[test]
fn a_missing_row_needs_a_delete_that_may_have_happened() {
    let put = next(Kind::Put, 0);
    let delete = next(Kind::Delete, put);
    assert!(judge(CONTENT, 0, put, delete - 1, None).is_err());
    assert_eq!(judge(CONTENT, 0, put, delete, None), Ok(delete));
    assert_eq!(judge(CONTENT, 0, 0, 0, None), Ok(0), "a key that was never written");
}

#[test]
fn a_value_that_was_never_sent_is_found() {
    let put = next(Kind::Put, 0);
    assert!(judge(CONTENT, 0, 0, put - 1, Some(put)).is_err());
    let delete = next(Kind::Delete, 0);
    assert!(judge(CONTENT, 0, 0, delete, Some(delete)).is_err());
}

#[test]
fn a_sum_stays_between_what_was_acknowledged_and_sent() {
    assert_eq!(judge_sum(5, 9, 7), Ok(7));
    assert!(judge_sum(5, 9, 4).unwrap_err().contains("lost"));
    assert!(judge_sum(5, 9, 10).unwrap_err().contains("twice"));
}

#[test]
fn what_was_read_must_stay() {
    let path = file("read");
    let expected = Expected::open(&path, CONTENT.seed, 1, 0).unwrap();
    let put = next(Kind::Put, 0);
    while expected.begin_write(0).1 < put {}
    let (begun, least) = expected.begin_read(0);
    assert_eq!(least, 0);
    expected.saw(begun, 0, least, Ok(Some(put)), "a get");
    assert_eq!(expected.complaint(), None);
    let (begun, least) = expected.begin_read(0);
    expected.saw(begun, 0, least, Ok(None), "a get");
    assert!(expected.complaint().unwrap().contains("key 0 by a get"));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn an_addition_that_is_read_before_its_answer_counts_once() {
    let path = file("addition");
    let expected = Expected::open(&path, 1, 0, 1).unwrap();
    let first = expected.begin_addition(0, 4);
    let (begun, least) = expected.begin_sum(0);
    expected.saw_sum(begun, 0, least, 4);
    assert_eq!(expected.begin_sum(0).1, 4);
    expected.acknowledge_addition(first, 0);
    assert_eq!(expected.begin_sum(0).1, 4);
    let second = expected.begin_addition(0, 3);
    expected.acknowledge_addition(second, 0);
    assert_eq!(expected.begin_sum(0).1, 7);
    std::fs::remove_file(path).unwrap();
}

/// Reads the counter 0, and judges the value.
fn read_sum(expected: &Expected, seen: u64) {
    let (begun, least) = expected.begin_sum(0);
    expected.saw_sum(begun, 0, least, seen);
}

#[test]
fn an_acknowledged_addition_that_never_happened_is_found() {
    let path = file("never");
    let expected = Expected::open(&path, 1, 0, 1).unwrap();
    // The answers to these two additions are ignored and failed, and both happened.
    let ignored = expected.begin_addition(0, 4);
    expected.set_breaking(true);
    expected.set_breaking(false);
    expected.acknowledge_addition(ignored, 0);
    let failed = expected.begin_addition(0, 5);
    expected.failed_addition(failed, 0);
    read_sum(&expected, 9);
    let never_happened = expected.begin_addition(0, 3);
    expected.acknowledge_addition(never_happened, 0);
    assert_eq!(expected.complaint(), None);
    read_sum(&expected, 9);
    assert!(expected.complaint().unwrap().contains("an addition is lost"));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn an_addition_under_way_during_a_read_counts_when_it_is_acknowledged() {
    let path = file("under-way");
    let expected = Expected::open(&path, 1, 0, 1).unwrap();
    let slow = expected.begin_addition(0, 9);
    let fast = expected.begin_addition(0, 1);
    expected.acknowledge_addition(fast, 0);
    // The read does not show the slow addition. Another begins afterwards.
    read_sum(&expected, 1);
    let later = expected.begin_addition(0, 2);
    expected.acknowledge_addition(later, 0);
    assert_eq!(expected.begin_sum(0).1, 3);
    expected.acknowledge_addition(slow, 0);
    assert_eq!(expected.begin_sum(0).1, 12);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn the_minimum_of_a_counter_is_never_too_great_and_forgets_useless_bounds() {
    let world = env::World::simulated(5, env::WallTime(0));
    let below = |limit: usize| (world.random() % limit as u64) as usize;
    let mut minimum = Minimum::new(0);
    let (mut value, mut next) = (0, 1);
    // The additions under way: number, amount, and whether each has happened.
    let mut under_way: Vec<(u64, u64, bool)> = Vec::new();
    for _ in 0..20_000 {
        match below(4) {
            0 if under_way.len() < 5 => {
                let amount = 1 + below(9) as u64;
                minimum.begin(next, amount);
                under_way.push((next, amount, false));
                next += 1;
            }
            1 if !under_way.is_empty() => {
                let at = below(under_way.len());
                let (_, amount, has_happened) = &mut under_way[at];
                value += if *has_happened { 0 } else { *amount };
                *has_happened = true;
            }
            2 if under_way.iter().any(|one| one.2) => {
                let at = under_way.iter().position(|one| one.2).unwrap();
                minimum.end(under_way.swap_remove(at).0, below(10) > 0);
            }
            _ => minimum.read(value, next),
        }
        assert!(minimum.value() <= value);
        assert!(minimum.bounds.len() <= under_way.len() + 1);
    }
    assert!(value > 10_000);
}

#[test]
fn an_answer_over_a_breaking_disk_does_not_count() {
    let path = file("breaking");
    let expected = Expected::open(&path, 1, 1, 0).unwrap();
    let (before, version) = expected.begin_write(0);
    expected.set_breaking(true);
    let (during, next) = expected.begin_write(0);
    expected.acknowledge(before, 0, version);
    expected.acknowledge(during, 0, next);
    expected.set_breaking(false);
    expected.acknowledge(during, 0, next);
    assert_eq!(expected.begin_read(0).1, 0);
    let (after, last) = expected.begin_write(0);
    expected.acknowledge(after, 0, last);
    assert_eq!(expected.begin_read(0).1, 3);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn an_acknowledgment_of_a_write_that_began_on_a_dead_disk_is_found() {
    for is_addition in [false, true] {
        let path = file("down");
        let expected = Expected::open(&path, 1, 1, 1).unwrap();
        let begin = || match is_addition {
            true => (expected.begin_addition(0, 1), 0),
            false => expected.begin_write(0),
        };
        let acknowledge = |(operation, version)| match is_addition {
            true => expected.acknowledge_addition(operation, 0),
            false => expected.acknowledge(operation, 0, version),
        };
        let before = begin();
        expected.set_breaking(true);
        let breaking = begin();
        expected.set_down();
        let (down, repeated) = (begin(), begin());
        acknowledge(before);
        acknowledge(breaking);
        assert_eq!(expected.complaint(), None, "a sync that began before may report success");
        acknowledge(down);
        assert!(expected.complaint().unwrap().contains("after the disk had lost its power"));
        expected.inner.lock().complaints.clear();
        expected.set_breaking(false);
        acknowledge(repeated);
        acknowledge(begin());
        assert_eq!(expected.complaint(), None, "the server runs again");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn the_file_outlives_its_process() {
    let path = file("outlives");
    {
        let expected = Expected::open(&path, 1, 4, 2).unwrap();
        let (begun, version) = expected.begin_write(3);
        expected.acknowledge(begun, 3, version);
        expected.begin_write(3);
        let begun = expected.begin_addition(1, 7);
        expected.acknowledge_addition(begun, 1);
    }
    let expected = Expected::open(&path, 1, 4, 2).unwrap();
    assert_eq!(expected.begin_read(3).1, 1);
    assert_eq!(expected.begin_write(3).1, 3);
    assert_eq!(expected.begin_sum(1).1, 7);
    let Err(why) = Expected::open(&path, 2, 4, 2) else { panic!("another seed") };
    assert!(why.contains("another run"), "{why}");
    std::fs::remove_file(path).unwrap();
}
