//! Tests of awaited blocks: one read for all callers that miss a block, progress without a cache, errors that reach
//! every caller.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use cache::Options;
use storage::memory::ReadDelay;
use storage::{Capabilities, Kind};

use super::*;

const MEMORY_ONLY: ReadOptions =
    ReadOptions { cache_blocks: true, memory_only: true, read_type: ReadType::Default };

/// Returns a file of many blocks whose reads wait until the test completes them.
fn delayed(place: &Memory, bytes_max: usize, at_once_max: usize) -> Arc<Reader> {
    let name = FileName::new("f");
    let options = WriterOptions { block_size: 8 << 10, bloom: BloomType::None, ..Default::default() };
    write(place, &name, &sample(8_000, 100), options);
    place.delay_reads(ReadDelay::UntilCompleted, at_once_max);
    let cache = Arc::new(Cache::new(Options { bytes_max, ..Options::default() }));
    let file = place.open(&name).expect("there");
    Arc::new(Reader::open(file, name, cache, Caching::default()).expect("sound"))
}

fn row(number: usize) -> KeyBuf {
    KeyBuf::first_on_row(format!("row-{number:06}").as_bytes())
}

/// Seeks the row with this number, and returns the row at which the cursor then is: the first one at or after it.
fn seek(reader: &Arc<Reader>, number: usize) -> Result<Option<String>> {
    let mut cursor = reader.cursor(MEMORY_ONLY);
    cursor.seek_row(row(number).position())?;
    Ok(cursor.peek().map(|cell| String::from_utf8_lossy(cell.row()).into_owned()))
}

fn missing<T: std::fmt::Debug>(outcome: Result<T>) -> MissingBlock {
    match outcome {
        Err(Error::Missing(block)) => block,
        outcome => panic!("{outcome:?}"),
    }
}

fn poll(block: &mut MissingBlock) -> Poll<Result<ArrivedBlock>> {
    Pin::new(block).poll(&mut Context::from_waker(Waker::noop()))
}

fn arrive(place: &Memory, mut block: MissingBlock) -> ArrivedBlock {
    assert!(poll(&mut block).is_pending());
    place.complete_reads(1);
    match poll(&mut block) {
        Poll::Ready(arrived) => arrived.expect("read"),
        Poll::Pending => panic!("it was completed"),
    }
}

#[test]
fn concurrent_readers_of_a_missing_block_share_one_read_even_if_it_is_not_cached() {
    for bytes_max in [0, 64 << 20] {
        let place = Memory::new();
        let reader = delayed(&place, bytes_max, 8);
        let mut first = missing(seek(&reader, 4_000));
        assert_eq!(first.file().as_str(), "f");
        let mut second = missing(seek(&reader, 4_000));
        assert_eq!((first.offset(), place.read_counts().begun), (second.offset(), 0), "nobody waits yet");
        assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
        assert_eq!(place.read_counts().begun, 1);
        // The caller that began the read is dropped; the other caller still gets the block.
        drop(first);
        place.complete_reads(1);
        let Poll::Ready(Ok(arrived)) = poll(&mut second) else { panic!("it was completed") };
        assert_eq!(seek(&reader, 4_000).expect("it has arrived").as_deref(), Some("row-004000"));
        assert_eq!(place.read_counts().begun, 1);
        drop((arrived, second));
        assert_eq!(seek(&reader, 4_000).is_ok(), bytes_max > 0, "the block is in the cache, or in no tier");
    }
}

#[test]
fn a_read_that_needs_many_blocks_gets_further_each_time_and_a_scan_reads_ahead() {
    let place = Memory::new();
    let reader = delayed(&place, 0, 8);
    let blocks = reader.size() / (9 << 10);
    let mut cursor = reader.cursor(MEMORY_ONLY);
    let (mut rows, mut arrived) = (0, Vec::new());
    arrived.push(arrive(&place, missing(cursor.seek_first().map(drop))));
    cursor.seek_first().expect("it has arrived");
    while cursor.peek().is_some() {
        rows += 1;
        let position = KeyBuf::of(cursor.peek().expect("there"));
        while let Err(error) = cursor.advance() {
            arrived.push(arrive(&place, missing(Err::<(), _>(error))));
            // The caller starts again at the first block, as a scanner does after each wait.
            cursor.seek(position.position()).expect("what has arrived is kept");
        }
    }
    assert_eq!(rows, 24_000);
    let reads = place.read_counts().begun;
    assert!(reads > 3 && reads < blocks / 10, "{reads} reads for {blocks} blocks");
}

#[test]
fn concurrent_reads_stay_within_the_limit() {
    let place = Memory::new();
    let reader = delayed(&place, 64 << 20, 2);
    let mut waiting: Vec<_> = (0..6).map(|at| missing(seek(&reader, at * 1_000))).collect();
    let mut arrived = Vec::new();
    for _ in 0..6 {
        waiting.iter_mut().for_each(|block| assert!(poll(block).is_pending()));
        assert!(place.read_counts().running <= 2);
        place.complete_reads(1);
        waiting.retain_mut(|block| match poll(block) {
            Poll::Ready(block) => {
                arrived.push(block.expect("read"));
                false
            }
            Poll::Pending => true,
        });
    }
    assert_eq!((arrived.len(), place.read_counts().running_most), (6, 2));
}

#[test]
fn a_failed_read_fails_for_all_that_wait_and_the_next_request_reads_again() {
    let place = Memory::with(Capabilities::NONE);
    let reader = delayed(&place, 0, 8);
    let copy = place.read(&FileName::new("f"), 64 << 20).expect("there");
    let (mut first, mut second) = (missing(seek(&reader, 10)), missing(seek(&reader, 10)));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    place.delete(&FileName::new("f")).expect("deleted");
    place.complete_reads(1);
    for block in [&mut first, &mut second] {
        match poll(block) {
            Poll::Ready(Err(Error::Storage(error))) => assert_eq!(error.kind(), Kind::NotFound),
            outcome => panic!("{outcome:?}"),
        }
    }
    assert_eq!(place.read_counts().begun, 1);
    let mut third = missing(seek(&reader, 10));
    drop((first, second));
    let mut writer = place.create(&FileName::new("f")).expect("new");
    writer.write(&copy).expect("written");
    writer.finish().expect("durable");
    assert!(poll(&mut third).is_pending());
    assert_eq!(place.read_counts().begun, 2, "a read of its own");
}

#[test]
fn a_damaged_block_that_was_awaited_is_an_error() {
    let place = Memory::new();
    let reader = delayed(&place, 0, 8);
    let at = missing(seek(&reader, 4_000)).offset() as usize;
    for (offset, what) in [(at + 2_000, "block checksum"), (at + 9, "")] {
        let healthy = place.read(&FileName::new("f"), 64 << 20).expect("there");
        place.damage(&FileName::new("f"), |bytes| bytes[offset] ^= 0x40);
        let _arrived = arrive(&place, missing(seek(&reader, 4_000)));
        let error = seek(&reader, 4_000).expect_err("damaged");
        assert!(matches!(error, Error::Corrupt { .. }) && error.to_string().contains(what), "{error}");
        place.damage(&FileName::new("f"), |bytes| *bytes = healthy);
    }
}

#[test]
fn the_local_disk_has_no_awaited_reads() {
    let (files, name) = (Memory::new(), FileName::new("f"));
    write(&files, &name, &sample(100, 10), WriterOptions::default());
    let reader = open(&files, &name).expect("sound");
    assert!(matches!(seek(&reader, 5), Err(Error::NotCached)));
}
