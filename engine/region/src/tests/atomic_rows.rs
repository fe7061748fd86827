//! Tests of rows that are written atomically.

use super::*;

fn put_of(row: &str, value: &str) -> Mutation {
    mutation(MutationKind::Put, row, &[("f:q", 1, CellType::Put, value.as_bytes())])
}

#[test]
fn atomic_rows_survive_a_crash_together_or_not_at_all() {
    let mut seen = [false; 2];
    for seed in 0..64 {
        let bench = Bench::new();
        bench.put("old", "f:q", 1, "0");
        let delete = mutation(MutationKind::Delete, "old", &[("f:q", 1, CellType::DeleteColumn, b"")]);
        let rows = [put_of("a", "1"), delete, put_of("z", "2")];
        let pending = bench.region.apply_together(&rows, ReadMode::Any).expect("good rows");
        // In half of the runs the power fails before the writes are known to be durable.
        let told = seed % 2 == 0;
        if told {
            pending.wait_blocking().expect("durable");
        }
        let after = bench.crash(seed).all();
        assert!(after == "a/f:q@1=1 z/f:q@1=2" || (!told && after == "old/f:q@1=0"), "seed {seed}: {after}");
        seen[usize::from(after.starts_with("old"))] = true;
    }
    assert_eq!(seen, [true, true], "both outcomes were met");
}

#[test]
fn one_invalid_row_refuses_the_atomic_write() {
    let bench = Bench::new();
    let bad = mutation(MutationKind::Put, "b", &[("nosuch:q", 1, CellType::Put, b"2")]);
    bench
        .region
        .apply_together(&[put_of("a", "1"), bad], ReadMode::Any)
        .expect_err("a family that is not there");
    assert_eq!(bench.all(), "");
}
