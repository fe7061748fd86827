//! Tests of truncation: no row comes back, neither from files nor from the log.

use super::*;

#[test]
fn a_truncated_region_is_empty_and_stays_so_after_a_crash() {
    for seed in 0..16 {
        let bench = Bench::new();
        bench.put("in-a-file", "f:q", 1, "1");
        bench.region.flush(FlushReason::Requested).expect("flushed");
        bench.put("in-memory", "f:q", 1, "2");
        bench.region.truncate().expect("truncated");
        assert_eq!(bench.all(), "");
        // The log still has both rows.
        let bench = bench.crash(seed);
        assert_eq!(bench.all(), "");
        bench.put("after", "f:q", 1, "3");
        let bench = bench.crash(seed);
        assert_eq!(bench.all(), "after/f:q@1=3", "what is written after a truncation is not lost");
    }
}

#[test]
fn a_truncation_of_a_region_without_rows_changes_nothing() {
    let bench = Bench::new();
    bench.region.truncate().expect("truncated");
    bench.put("a", "f:q", 1, "1");
    assert_eq!(bench.all(), "a/f:q@1=1");
}

#[test]
fn a_truncation_covers_log_records_that_memory_lacks() {
    let bench = Bench::new();
    bench.put("a", "f:q", 1, "1");
    // The log has the row, and neither the region's memory nor its files have it.
    let region = bench.reopen_over(Arc::clone(&bench.log));
    region.truncate().expect("truncated");
    region.close().expect("closed");
    let written = bench.region.write.lock().last_sequence;
    for store in &region.stores {
        let covered: Vec<_> = store.view.load().files.iter().map(|file| file.max_sequence()).collect();
        assert!(covered.len() == 1 && covered[0] >= written, "{covered:?} {written:?}");
    }
}

#[test]
fn last_major_compaction_is_the_age_of_its_oldest_file() {
    let bench = Bench::new();
    assert_eq!(bench.region.load().last_major_compaction, None);
    bench.put("a", "f:q", 1, "1");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    assert_eq!(bench.region.load().last_major_compaction, None, "a flush is no compaction");
    let request = CompactionRequest { major: true, families: Vec::new() };
    bench.region.compact(&request).expect("compacted");
    let time = bench.region.load().last_major_compaction.expect("a file of a major compaction");
    assert_eq!(time, bench.world.now());
    bench.put("b", "f:q", 1, "1");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    assert_eq!(bench.region.load().last_major_compaction, Some(time), "files of flushes do not count");
}
