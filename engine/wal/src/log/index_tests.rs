//! Tests of the index of a file, of markers, and of files of earlier versions.

use env::WallTime;
use storage::{Capabilities, Capability, Memory};

use super::back::{file_name, own_record};
use super::tests::{edit, in_memory, replayed};
use super::*;
use crate::format::{BatchHeader, Header, Kind};
use crate::{Marker, StoreChange};

const REGIONS: u64 = 5;

fn folder() -> FileName {
    FileName::new("WALs")
}

fn region(number: u64) -> String {
    format!("region-{number}")
}

/// Returns a log whose first file is complete and durable. The file has 200 batches of 5 regions in turn, and is longer
/// than a reader reads at once.
fn five_regions(options: &Options) -> Memory {
    let place = Memory::new();
    let (log, _) = in_memory(&place, options.clone());
    for sequence in 1..=200 {
        let ticket = log.append(&edit(&region(sequence % REGIONS), sequence, &[1; 2_000])).expect("alive");
        log.sync_blocking(ticket, Level::Os).expect("alive");
    }
    log.roll().expect("alive");
    let ticket = log.append(&edit("later", 1, b"in the next file")).expect("alive");
    log.sync_blocking(ticket, Level::Disk).expect("alive");
    place.kill()
}

#[test]
fn a_region_is_replayed_from_its_own_spans_and_nothing_else_is_read() {
    // The file has one index record, then several, then many.
    for index_every in [u64::MAX, 50_000, 3_000] {
        let options = Options { index_every, ..Options::default() };
        let place = five_regions(&options);
        let name = file_name(&folder(), 1);
        let files: Arc<dyn Files> = Arc::new(place.clone());
        let reader = LogReader::open(&files, &folder()).expect("sound");
        for number in 0..REGIONS {
            assert_eq!(replayed(&reader, &region(number)).len(), 40);
            let size = 40 * (2_000 + 100);
            assert!((40 * 2_000..size).contains(&reader.bytes_of(region(number).as_bytes())));
            let sequences = reader.sequences(region(number).as_bytes()).expect("it has edits");
            assert_eq!(sequences.newest.0 - sequences.oldest.0, 39 * REGIONS);
        }
        // Damages the records of all other regions. The replay does not notice, because it does not read them.
        let after = place.copy();
        after.damage(&name, |bytes| {
            let mut at = HEADER_LENGTH;
            let mut number = 0;
            while number < 200 {
                let length = u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four")) as usize;
                if length > 2_000 {
                    number += 1;
                    if !(number as u64).is_multiple_of(REGIONS) {
                        bytes[at + 100] ^= 1;
                    }
                }
                at += BATCH_HEADER_LENGTH + length;
            }
        });
        let (_log, recovered) = in_memory(&after, options);
        assert_eq!(replayed(&recovered, &region(0)).len(), 40);
        let replay = recovered.replay::<Error>(region(1).as_bytes(), |_| Ok(()));
        assert!(matches!(replay, Err(Error::Corrupt { .. })), "{replay:?}");
    }
}

#[test]
fn a_file_without_its_index_is_scanned_and_gives_the_same() {
    let place = five_regions(&Options { index_every: 30_000, ..Options::default() });
    let (name, files) = (file_name(&folder(), 1), Arc::new(place.clone()) as Arc<dyn Files>);
    let by_index = LogReader::open(&files, &folder()).expect("sound");
    // Only a `Whole` record in the next file says that this file is durable. Without the next file the index is not
    // trusted.
    let alone = Memory::new();
    let mut writer = alone.create(&name).expect("new");
    writer.write(&place.read(&name, 1 << 20).expect("there")).expect("written");
    writer.finish().expect("durable");
    alone.damage(&name, |bytes| {
        let length = bytes.len();
        bytes.truncate(length - 1);
    });
    let files: Arc<dyn Files> = Arc::new(alone);
    let by_scan = LogReader::open(&files, &folder()).expect("sound");
    assert_eq!(by_scan.torn_tails().len(), 1, "the index and the end are torn");
    for number in 0..REGIONS {
        let name = region(number);
        assert_eq!(replayed(&by_index, &name), replayed(&by_scan, &name));
        assert_eq!(by_index.bytes_of(name.as_bytes()), by_scan.bytes_of(name.as_bytes()));
        assert_eq!(by_index.sequences(name.as_bytes()), by_scan.sequences(name.as_bytes()));
    }
}

#[test]
fn a_gap_in_bytes_that_no_batch_calls_durable_is_found_although_the_index_is_complete() {
    let place = Memory::new();
    let (log, _) = in_memory(&place, Options::default());
    for sequence in 1..=20 {
        let ticket = log.append(&edit("a", sequence, &[7; 1_500])).expect("alive");
        log.sync_blocking(ticket, Level::Os).expect("alive");
    }
    log.roll().expect("alive");
    let place = place.kill();
    // As if the power had failed while the roll waited for the disk: the file has its end record, and the next file has
    // no `Whole` record.
    place.damage(&file_name(&folder(), 1), |bytes| bytes[10 * 1_024..11 * 1_024].fill(0));
    let (_log, recovered) = in_memory(&place, Options::default());
    let found = replayed(&recovered, "a");
    assert!(!found.is_empty() && found.len() < 10, "{}", found.len());
    assert_eq!(recovered.torn_tails().len(), 1);
}

#[test]
fn reading_changes_nothing() {
    let place = five_regions(&Options::default());
    let acts = place.acts();
    let files: Arc<dyn Files> = Arc::new(place.clone());
    let reader = LogReader::open(&files, &folder()).expect("sound");
    assert_eq!(replayed(&reader, "later").len(), 1);
    assert_eq!(place.acts(), acts, "nothing is written, synced or removed");
}

#[test]
fn markers_are_read_back_and_keep_no_file() {
    let place = Memory::new();
    let options = Options::default();
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.is_marker()).collect();
    let marker = |kind| {
        let store =
            StoreChange { family: b"f"[..].into(), added: vec!["x".into()], removed: Vec::new(), list: None };
        Marker { kind, stores: vec![store] }
    };
    {
        let (log, _) = in_memory(&place, options.clone());
        for kind in &kinds {
            log.append(&edit("a", 1, b"cells")).expect("alive");
            log.mark(b"a", b"t", SequenceId(9), &marker(*kind)).expect("alive");
        }
        log.close().expect("alive");
    }
    let (log, recovered) = in_memory(&place, options);
    assert_eq!(replayed(&recovered, "a").len(), kinds.len(), "replay gives edits alone");
    let mut found = Vec::new();
    let read = recovered.read::<Error>(b"a", |record| {
        found.extend(Marker::decode(record));
        Ok(())
    });
    read.expect("sound");
    assert_eq!(found, kinds.iter().map(|kind| marker(*kind)).collect::<Vec<_>>());
    log.flushed(b"a", SequenceId(1));
    assert_eq!(log.size().0, 1, "no region needs a marker");
}

#[test]
fn a_removed_file_that_cannot_be_read_had_only_markers() {
    let place = Memory::with(Capabilities::ALL.without(Capability::ReadAfterDelete));
    {
        let (log, _) = in_memory(&place, Options::default());
        log.append(&edit("a", 1, b"cells")).expect("alive");
        log.mark(b"b", b"t", SequenceId(9), &Marker { kind: Kind::RegionOpen, stores: Vec::new() })
            .expect("alive");
        log.close().expect("alive");
    }
    let (log, recovered) = in_memory(&place, Options::default());
    log.flushed(b"a", SequenceId(1));
    assert_eq!(log.size().0, 1, "region b has no edit there");
    recovered.read::<Error>(b"b", |_| Ok(())).expect("nothing of b is lost");
}

/// Returns a file as an earlier version wrote it.
fn earlier(version: u32, number: u64, sequences: std::ops::RangeInclusive<u64>, ends: bool) -> Vec<u8> {
    let mut file = Header { version, epoch: 3, number }.to_bytes().to_vec();
    let mut put = |record: Record<'_>, synced: bool| {
        let mut payload = Vec::new();
        record.write(&mut payload);
        let offset = file.len() as u64;
        let synced = if synced { offset } else { HEADER_LENGTH as u64 };
        file.extend_from_slice(&BatchHeader::of(number, offset, synced, &payload).to_bytes());
        file.extend_from_slice(&payload);
    };
    for sequence in sequences {
        put(Record { time: WallTime(1), ..edit("a", sequence, b"of an earlier version") }, false);
    }
    if ends {
        put(own_record(Kind::End, 0), true);
    } else if version == 3 {
        file.resize(9_000, 0);
    }
    file
}

#[test]
fn files_of_earlier_versions_are_read_and_followed_by_files_of_this_one() {
    let place = Memory::new();
    let put = |number, bytes: &[u8]| {
        let mut writer = place.create(&file_name(&folder(), number)).expect("new");
        writer.write(bytes).expect("written");
        writer.finish().expect("durable");
    };
    put(1, &earlier(2, 1, 1..=5, true));
    put(2, &earlier(3, 2, 6..=9, true));
    put(3, &earlier(2, 3, 10..=12, true));
    put(4, &earlier(3, 4, 13..=20, false));
    // A spare: a file with the number 0 in its header, which waits to be overwritten.
    put(5, &[&Header { version: 3, epoch: 3, number: 0 }.to_bytes()[..], &[7; 500]].concat());
    let (log, recovered) = in_memory(&place, Options::default());
    assert_eq!((log.epoch(), recovered.torn_tails()), (4, &[][..]));
    let found: Vec<_> = replayed(&recovered, "a").into_iter().map(|(sequence, _)| sequence).collect();
    assert_eq!(found, (1..=20).collect::<Vec<_>>());
    log.close().expect("alive");
    let header = place.read(&file_name(&folder(), 6), 1 << 20).expect("begun");
    assert_eq!(header[8..12], 4u32.to_be_bytes(), "which earlier versions refuse by name");
    let (_log, recovered) = in_memory(&place, Options::default());
    assert_eq!(replayed(&recovered, "a").len(), 20);
}
