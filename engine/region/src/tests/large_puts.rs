//! Tests of puts whose cells stay in the memory of their request until they are in the log.

use super::*;

const LATEST: i64 = -1;

fn write(bench: &Bench, put: Mutation) {
    let pending = bench.region.put_in_place(put).expect("serving");
    pending.wait_blocking().expect("durable");
}

#[test]
fn a_put_in_place_writes_what_another_put_writes() {
    let cells: [(&str, i64, CellType, &[u8]); 4] = [
        ("f:a", LATEST, CellType::Put, b"one"),
        ("f:b", 7, CellType::Put, b"two"),
        ("f:c", LATEST, CellType::Put, b"lost"),
        ("f:c", LATEST, CellType::Put, b"last"),
    ];
    let put = || mutation(MutationKind::Put, "r", &cells);
    let (plain, in_place) = (Bench::new(), Bench::new());
    let outcome = plain.region.mutate_row(&[put()], ReadMode::Any).expect("serving");
    outcome.pending.wait_blocking().expect("durable");
    write(&in_place, put());
    assert_eq!(in_place.all(), plain.all());
    assert!(in_place.all().contains("f:b@7=two") && !in_place.all().contains("lost"), "{}", in_place.all());
}

#[test]
fn cells_that_somebody_else_reads_are_not_changed() {
    let bench = Bench::new();
    let put = mutation(MutationKind::Put, "r", &[("f:a", LATEST, CellType::Put, b"one")]);
    let kept = put.cells.clone();
    write(&bench, put);
    let timestamps: Vec<Timestamp> = kept.cells().map(|cell| cell.timestamp()).collect();
    assert_eq!(timestamps, [Timestamp::LATEST]);
}

#[test]
fn a_put_in_place_that_is_refused_changes_nothing() {
    let bench = Bench::new();
    let put = mutation(MutationKind::Put, "r", &[("none:a", LATEST, CellType::Put, b"one")]);
    assert!(bench.region.put_in_place(put).is_err());
    assert_eq!(bench.all(), "");
}
