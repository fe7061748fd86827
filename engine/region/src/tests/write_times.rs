//! Tests of writes to a row that was written a moment ago: no earlier write hides them.

use super::*;

const LATEST: i64 = -1;

fn bench(put_waits_for_delete: bool) -> Bench {
    let options = RegionOptions { put_waits_for_delete, ..RegionOptions::default() };
    let table = table(FamilyDescriptor::new("f").expect("a name"));
    Bench::open_with(Memory::new(), World::simulated(1, WallTime(1_000_000)), table, options)
}

#[test]
fn a_put_waits_for_the_millisecond_after_a_delete_of_its_row() {
    for kind in [CellType::DeleteColumn, CellType::DeleteFamily, CellType::Delete] {
        let bench = bench(true);
        bench.put("r", "f:q", LATEST, "one");
        bench.delete("r", "f:q", LATEST, kind);
        assert_eq!((bench.world.now().0, &bench.all()[..]), (1_000_000, ""), "a delete waits for nothing");
        bench.put("r", "f:q", LATEST, "two");
        assert_eq!(bench.all(), "r/f:q@1000001=two", "{kind:?}");
        bench.put("r", "f:q", LATEST, "three");
        assert_eq!(bench.world.now().0, 1_000_001, "a put after a put waits for nothing");
    }
}

#[test]
fn without_the_option_the_delete_hides_the_put_as_in_hbase() {
    let bench = bench(false);
    bench.put("r", "f:q", LATEST, "one");
    bench.delete("r", "f:q", LATEST, CellType::DeleteColumn);
    bench.put("r", "f:q", LATEST, "two");
    assert_eq!((bench.world.now().0, &bench.all()[..]), (1_000_000, ""));
}

#[test]
fn other_rows_and_client_timestamps_do_not_wait() {
    let bench = bench(true);
    bench.delete("r", "f:q", LATEST, CellType::DeleteColumn);
    bench.put("other", "f:q", LATEST, "v");
    bench.put("r", "f:q", 1_000_001, "given");
    assert_eq!(bench.world.now().0, 1_000_000);
    assert_eq!(bench.all(), "other/f:q@1000000=v r/f:q@1000001=given");
}

#[test]
fn every_kind_of_write_waits() {
    let bench = bench(true);
    let number = 5_i64.to_be_bytes();
    bench.delete("r", "f:n", LATEST, CellType::DeleteColumn);
    let increment = mutation(MutationKind::Increment, "r", &[("f:n", LATEST, CellType::Put, &number)]);
    let changed = bench.region.increment(&increment, ReadMode::Any).expect("serving");
    changed.pending.wait_blocking().expect("durable");
    assert!(bench.all().starts_with("r/f:n@1000001="), "{}", bench.all());

    bench.delete("r", "f:q", LATEST, CellType::DeleteColumn);
    let put = mutation(MutationKind::Put, "r", &[("f:q", LATEST, CellType::Put, b"v")]);
    let check = Check {
        row: put.row.clone(),
        test: Test::Value {
            family: Bytes::from_static(b"f"),
            qualifier: Bytes::from_static(b"q"),
            operator: CompareOperator::Equal,
            comparable: Comparable::Null,
        },
        time_range: None,
    };
    let checked = bench.region.check_and_mutate(&check, &[put], ReadMode::Any).expect("serving");
    assert!(checked.passed);
    checked.pending.wait_blocking().expect("durable");
    assert!(bench.all().ends_with("r/f:q@1000002=v"), "{}", bench.all());

    bench.delete("r", "f:z", LATEST, CellType::DeleteColumn);
    let append = mutation(MutationKind::Append, "r", &[("f:z", LATEST, CellType::Put, b"v")]);
    let changed = bench.region.append(&append, ReadMode::Any).expect("serving");
    changed.pending.wait_blocking().expect("durable");
    assert!(bench.all().ends_with("r/f:z@1000003=v"), "{}", bench.all());
}

#[test]
fn a_put_that_may_not_wait_would_block_without_effect() {
    let bench = bench(true);
    bench.delete("r", "f:q", LATEST, CellType::DeleteColumn);
    let put = mutation(MutationKind::Put, "r", &[("f:q", LATEST, CellType::Put, b"v")]);
    let refused = bench.region.apply(std::slice::from_ref(&put), ReadMode::MemoryOnly);
    assert!(matches!(refused, Err(Error::WouldBlock)));
    assert_eq!(bench.all(), "");
    bench.apply(put);
    assert_eq!(bench.all(), "r/f:q@1000001=v");
}

#[test]
fn what_follows_a_cell_ahead_of_the_clock_is_not_hidden_by_it() {
    let bench = bench(true);
    let number = 1_i64.to_be_bytes();
    let change = || mutation(MutationKind::Increment, "r", &[("f:n", LATEST, CellType::Put, &number)]);
    let increment = || {
        let changed = bench.region.increment(&change(), ReadMode::MemoryOnly).expect("serving");
        changed.pending.wait_blocking().expect("durable");
    };
    for _ in 0..3 {
        increment();
    }
    assert!(bench.all().starts_with("r/f:n@1000002="), "each is later than the one before: {}", bench.all());
    bench.put("r", "f:n", LATEST, "put");
    bench.put("other", "f:n", LATEST, "put");
    assert_eq!(bench.all(), "other/f:n@1000000=put r/f:n@1000002=put");
    bench.delete("r", "f:n", LATEST, CellType::DeleteColumn);
    assert_eq!(bench.all(), "other/f:n@1000000=put");
    bench.put("r", "f:n", LATEST, "again");
    assert_eq!(bench.all(), "other/f:n@1000000=put r/f:n@1000003=again");
    bench.delete("r", "f:n", LATEST, CellType::DeleteFamily);
    increment();
    assert!(bench.all().contains("r/f:n@1000004="), "{}", bench.all());
    assert_eq!(bench.world.now().0, 1_000_000, "nothing waits");
}

#[test]
fn a_timestamp_that_a_client_has_chosen_in_the_future_moves_no_other_column() {
    let bench = bench(true);
    bench.put("r", "f:n", 2_000_000, "\0\0\0\0\0\0\0\x01");
    let number = 1_i64.to_be_bytes();
    let change = mutation(MutationKind::Increment, "r", &[("f:n", LATEST, CellType::Put, &number)]);
    let changed = bench.region.increment(&change, ReadMode::Any).expect("serving");
    changed.pending.wait_blocking().expect("durable");
    bench.put("r", "f:q", LATEST, "v");
    assert!(bench.all().ends_with("r/f:q@1000000=v"), "{}", bench.all());
}
