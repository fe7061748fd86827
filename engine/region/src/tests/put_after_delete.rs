//! Tests of a put in the millisecond of a delete of its row.

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
