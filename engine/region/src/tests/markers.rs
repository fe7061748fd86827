//! Tests of the markers that a region writes to the log.

use storage::memory::Fault;
use storage::{Kind as StorageKind, Outcome};
use wal::{Kind, ListState, LogPosition, Marker, StoreChange};

use super::*;

/// Returns the markers in the log, oldest first.
fn markers(bench: &Bench) -> Vec<(u64, Marker)> {
    bench.log.roll().expect("alive");
    let mut found = Vec::new();
    let read = bench.log.follow(LogPosition::default()).advance::<wal::Error>(|record| {
        let is_ours = record.region == bench.region.info().encoded_name().as_str().as_bytes();
        assert!(is_ours && record.table == b"t");
        found.extend(Marker::decode(record).map(|marker| (record.sequence.0, marker)));
        Ok(())
    });
    read.expect("sound");
    found
}

fn names(bench: &Bench, family: usize) -> Vec<Box<str>> {
    let files = bench.region.stores[family].view.load().files.clone();
    files.iter().map(|file| file.listed.name.as_str().into()).collect()
}

#[test]
fn the_log_has_markers_of_opens_flushes_compactions_and_closes() {
    let bench = Bench::new();
    // Keep all files of the log, whatever is flushed.
    let _holder = bench.log.hold("test").expect("durable");
    for round in 1..=2 {
        bench.put("a", "f:q", round, "v");
        bench.region.flush(FlushReason::Requested).expect("flushed");
    }
    let before = names(&bench, 0);
    let request = CompactionRequest { major: true, families: Vec::new() };
    bench.region.compact(&request).expect("compacted");
    let after = names(&bench, 0);
    bench.put("a", "f:q", 3, "v");
    let (kind, outcome) = (StorageKind::Failed, Outcome::DidNotHappen);
    // Creating the store's new file fails.
    bench.files.set_fault(Some(Fault { act: bench.files.acts() + 3, kind, outcome, last: false }));
    bench.region.flush(FlushReason::Requested).expect_err("as asked for");
    bench.files.set_fault(None);
    bench.region.close().expect("closed");
    let found = markers(&bench);
    let kinds: Vec<Kind> = found.iter().map(|(_, marker)| marker.kind).collect();
    let flush = [Kind::FlushStart, Kind::FlushCommit];
    let expected = [
        &[Kind::RegionOpen],
        &flush[..],
        &flush,
        &[Kind::Compaction, Kind::FlushStart, Kind::FlushAbort],
        &flush,
        &[Kind::RegionClose],
    ];
    assert_eq!(kinds, expected.concat());
    let stamp = |marker: &Marker| marker.stores[0].list.map(|list| list.timestamp);
    let stamps: Vec<u64> = found.iter().filter_map(|(_, marker)| stamp(marker)).collect();
    assert!(stamps.is_sorted(), "{stamps:?}");
    let f = |at: usize, added: &[Box<str>], removed: &[Box<str>], listed: &[Box<str>]| {
        let list = found[at].1.stores[0]
            .list
            .map(|list| ListState { digest: ListState::digest(listed.iter().map(|name| &**name)), ..list });
        let list = list.filter(|_| !listed.is_empty());
        vec![StoreChange { family: b"f"[..].into(), added: added.to_vec(), removed: removed.to_vec(), list }]
    };
    assert_eq!(found[2].1.stores, f(2, &before[..1], &[], &before[..1]));
    assert_eq!(found[4].1.stores, f(4, &before[1..], &[], &before));
    assert_eq!(found[5].1.stores, f(5, &after, &before, &after));
    assert_eq!(found[6].1.stores, f(6, &[], &[], &[]));
    let last = &found.last().expect("closed").1.stores;
    assert_eq!(last.iter().map(|store| store.added.len()).collect::<Vec<_>>(), [2, 0], "both families");
    assert!(found.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{found:?}");
    // The next opening replays edits only.
    let again = bench.kill();
    assert_eq!(again.all(), "a/f:q@3=v");
}
