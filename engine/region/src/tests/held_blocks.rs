//! Tests that rows of one batch in the same block need one cache lookup.

use super::*;

fn lookups(bench: &Bench) -> u64 {
    bench.region.cache.counts().lookups.hits()
}

#[test]
fn a_batch_looks_up_each_block_once_in_any_order() {
    let bench = Bench::new();
    let row = |number: usize| format!("row{number:04}");
    (0..400).for_each(|number| bench.put(&row(number), "f:x", 1, &"v".repeat(number)));
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let read = |order: &[usize]| {
        let mut reader = bench.region.row_reader(Scan::get("any".into())).expect("serving");
        for &number in order {
            let mut shown = Shown::default();
            let found = reader.read(&row(number).into(), ReadMode::Any, &mut shown).expect("read");
            assert_eq!(
                (found, shown.0.join(" ")),
                (1, format!("{}/f:x@1={}", row(number), "v".repeat(number)))
            );
        }
    };
    let there_and_back: Vec<usize> = (0..200).flat_map(|at| [at, 399 - at]).collect();
    read(&there_and_back);
    let before = lookups(&bench);
    read(&there_and_back);
    let together = lookups(&bench) - before;
    // Two data blocks, a bloom chunk, and the lookups of the first row, before blocks were kept.
    assert!((3..=10).contains(&together), "{together} lookups for four hundred rows");
    let before = lookups(&bench);
    there_and_back.iter().for_each(|&number| read(&[number]));
    assert!(lookups(&bench) - before >= 400, "one by one each lookups for itself");
}
