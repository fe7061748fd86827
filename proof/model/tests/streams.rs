//! Tests streams of operations on a region and on the reference: random ones, and those that once showed a difference.

use model::random::Random;
use model::shrink;
use model::stream::Keep::{Deleted, Nothing, UntilTtl};
use model::stream::Operation::{
    Alter, Batch, CheckThen, Crash, Flush, Get, Kill, Major, Minor, Pass, Reopen, Row, Scan, Shrink,
};
use model::stream::What::{Column, Value as Set, Version};
use model::stream::{
    self, Act, Change, Family, FamilyRequest, Operation, Part, Query, Setup, Source, Value, Walk,
};
use model::subject;

fn check(setup: &Setup, stream: &[Operation]) {
    if let Err(difference) = subject::run(setup, stream) {
        let found = shrink::shorter(setup, stream, difference);
        panic!("{}", found.as_test());
    }
}

/// Returns the number of random streams; `MODEL_STREAMS` overrides it.
fn streams() -> u64 {
    std::env::var("MODEL_STREAMS").ok().and_then(|count| count.parse().ok()).unwrap_or(60)
}

#[test]
fn drawn_streams_show_no_difference() {
    for seed in 1..=streams() {
        let mut random = Random(seed);
        let setup = stream::setup(&mut random);
        let mut source = Source::new(random.word(), &setup);
        let acts: Vec<Operation> = (0..300).map(|_| source.draw()).collect();
        check(&setup, &acts);
    }
}

fn part(qualifier: &'static str, at: i64, what: stream::What) -> Part {
    Part { family: "f", qualifier, at: Some(at), what, value: Value::Text("x"), ttl: None }
}

fn change(act: Act, parts: &[Part]) -> Change {
    Change { act, row: "a", parts: parts.to_vec(), range: None, skip_log: false }
}

fn put(qualifier: &'static str, at: i64) -> Change {
    change(Act::Put, &[part(qualifier, at, Set)])
}

fn delete(qualifier: &'static str, at: i64, what: stream::What) -> Change {
    change(Act::Delete, &[part(qualifier, at, what)])
}

fn all_versions() -> Operation {
    Get("a", Query { versions: 10, ..Query::all() })
}

/// The version that displaced an older one is deleted; the next flush must still keep its put.
#[test]
fn with_new_version_behavior_a_displaced_version_stays_displaced_after_a_flush() {
    let setup = Setup::of(|family| family.new_versions = true);
    check(
        &setup,
        &[
            Batch(vec![put("q", 1)]),
            Flush(None),
            Batch(vec![put("q", 2)]),
            Batch(vec![delete("q", 9, Version)]),
            Batch(vec![delete("q", 2, Version)]),
            Flush(None),
            all_versions(),
            Minor,
            all_versions(),
            Major,
            all_versions(),
        ],
    );
}

#[test]
fn with_new_version_behavior_a_dropped_version_displaces_no_other() {
    let setup = Setup::of(|family| (family.new_versions, family.versions) = (true, 2));
    check(
        &setup,
        &[
            Batch(vec![put("q", 10)]),
            Batch(vec![put("q", 11)]),
            Batch(vec![put("q", 13)]),
            Batch(vec![delete("q", 11, Version)]),
            Batch(vec![put("q", 1)]),
            all_versions(),
        ],
    );
}

#[test]
fn with_new_version_behavior_versions_are_counted_outside_of_the_time_range_too() {
    let setup = Setup::of(|family| (family.new_versions, family.versions) = (true, 2));
    let past = Query { versions: 10, range: Some((0, 3)), ..Query::all() };
    check(
        &setup,
        &[Batch(vec![put("q", 1)]), Batch(vec![put("q", 2)]), Batch(vec![put("q", 3)]), Get("a", past)],
    );
}

/// HBase gives the puts and deletes of a batch one sequence id, so none of them is later than another.
#[test]
fn with_new_version_behavior_a_batch_is_of_one_moment() {
    let setup = Setup::of(|family| (family.new_versions, family.versions) = (true, 3));
    check(
        &setup,
        &[
            Batch(vec![delete("q", 5, Column), put("q", 5), put("p", 1), put("p", 1)]),
            all_versions(),
            Kill,
            all_versions(),
        ],
    );
}

#[test]
fn with_new_version_behavior_min_versions_are_what_it_says() {
    let old = stream::BEGIN - 5_000;
    for new_versions in [false, true] {
        let setup = Setup::of(|family| {
            (family.new_versions, family.versions, family.min_versions, family.ttl) =
                (new_versions, 5, 1, Some(1));
        });
        let asked = FamilyRequest { family: "f", qualifiers: Some(vec!["q"]), range: None };
        let query = Query { versions: 5, families: vec![asked], ..Query::all() };
        let puts = [put("q", stream::BEGIN), put("q", old), put("q", old - 1)];
        let writes = puts.map(|put| Batch(vec![put]));
        check(&setup, &[&writes[..], &[Get("a", query), all_versions()]].concat());
    }
}

/// A mutation that skips the log does not keep other mutations of its row out of it.
#[test]
fn the_strictest_durability_of_a_row_counts() {
    let unlogged = |change: Change| Change { skip_log: true, ..change };
    for death in [Kill, Crash] {
        check(
            &Setup::of(|_| {}),
            &[
                Row(vec![unlogged(put("p", 1)), put("q", 1)]),
                Batch(vec![unlogged(put("r", 1)), put("s", 1)]),
                Batch(vec![unlogged(put("t", 1))]),
                death,
                all_versions(),
            ],
        );
    }
}

/// The comparison detects a reference that differs from the region.
#[test]
fn a_wrong_reference_shows_a_difference() {
    let mut reference = model::reference::Reference::new(vec![Family::plain("f")]);
    let cell = |sequence: u64, timestamp: i64, kind: cell::CellType| model::reference::Stored {
        qualifier: "q",
        timestamp,
        kind,
        sequence,
        value: (*b"x").into(),
        tags: [].into(),
        ttl: None,
        logged: true,
        place: model::reference::Place::Memory,
    };
    reference.insert("a", 0, cell(1, 5, cell::CellType::Put));
    let seen = |reference: &model::reference::Reference| reference.scan(&Walk::over(Query::all()), 10).len();
    assert_eq!(seen(&reference), 1);
    reference.insert("a", 0, cell(2, 6, cell::CellType::DeleteColumn));
    assert_eq!(seen(&reference), 0);
    reference.insert("a", 0, cell(3, 6, cell::CellType::Put));
    assert_eq!(seen(&reference), 0, "written later, but masked");
    reference.insert("a", 0, cell(4, 7, cell::CellType::Put));
    assert_eq!(seen(&reference), 1);
}

#[test]
fn a_stream_written_by_hand_runs_every_operation() {
    for keep in [Nothing, Deleted, UntilTtl] {
        let setup = Setup::of(|family| (family.keep, family.versions, family.ttl) = (keep, 3, Some(1)));
        let other = Family { versions: 1, ..setup.families[0].clone() };
        let check_first = stream::Check {
            row: "a",
            test: stream::Test::Value("f", "q", stream::Compare::Equal, Some(Value::Text("x"))),
            range: None,
        };
        let now = stream::BEGIN;
        let walk = || Scan(Walk::over(Query { versions: 5, raw: true, ..Query::all() }));
        check(
            &setup,
            &[
                Batch(vec![put("q", now), put("q", now + 1), put("q", now + 2)]),
                Flush(Some("f")),
                Batch(vec![delete("q", now + 1, Version)]),
                Shrink(100),
                walk(),
                Flush(None),
                Minor,
                walk(),
                CheckThen(check_first, vec![delete("q", now + 2, Column)]),
                walk(),
                Kill,
                Major,
                walk(),
                Reopen,
                Pass(1_500),
                Alter(vec![other]),
                Major,
                walk(),
            ],
        );
    }
}
