//! Tests that a get in a file whose blocks are in memory allocates nothing, because filter, index, block and cell are
//! borrowed.

use std::sync::Arc;

use cache::{Bucket, BucketOptions, Cache, Caching};
use cell::{Cell, CellParts, CellType, KeyBuf, SequenceId, Timestamp};
use env::World;
use hfile::{ReadOptions, Reader, StoreFileInfo, Writer, WriterOptions};
use storage::{FileName, Files, LocalDevice, Memory};

#[global_allocator]
static COUNTING: micro::Counting = micro::Counting;

const ROWS: usize = 20_000;

fn row(number: usize) -> [u8; 10] {
    let mut row = *b"0000000000";
    let (mut rest, mut at) = (number, row.len());
    while rest > 0 {
        at -= 1;
        row[at] += (rest % 10) as u8;
        rest /= 10;
    }
    row
}

fn file(block_size: usize) -> (Memory, FileName) {
    let (files, name) = (Memory::new(), FileName::new("f"));
    let options = WriterOptions { block_size, ..WriterOptions::default() };
    let mut writer = Writer::create(files.create(&name).expect("new"), name.clone(), options);
    for number in 0..ROWS {
        let parts = CellParts {
            row: &row(number),
            family: b"f",
            qualifier: b"q",
            timestamp: Timestamp(1),
            cell_type: CellType::Put,
            value: &[7; 40],
            tags: b"",
        };
        let bytes = parts.to_vec().expect("within limits");
        writer.append(Cell::parse(&bytes, SequenceId(1)).expect("whole")).expect("in order");
    }
    writer
        .finish(StoreFileInfo { max_sequence: SequenceId(1), major: false, more: Vec::new() })
        .expect("written");
    (files, name)
}

/// Gets every seventh row twice, and returns the number of allocations of the second round.
fn allocations(cache: Cache, block_size: usize) -> u64 {
    let (files, name) = file(block_size);
    let (opened, cache) = (files.open(&name).expect("there"), Arc::new(cache));
    let reader =
        Reader::open(opened, name, Arc::clone(&cache), Caching::default()).map(Arc::new).expect("sound");
    // Keys are allocated by the caller, so they are made before counting.
    let keys: Vec<KeyBuf> = (0..ROWS).step_by(7).map(|number| KeyBuf::first_on_row(&row(number))).collect();
    let get = |key: &KeyBuf| {
        let options = ReadOptions::default();
        let wanted = key.key().row();
        assert!(reader.may_contain_row(wanted, options).expect("sound"));
        let mut cursor = reader.cursor(options);
        cursor.seek_far(key.position()).expect("sound");
        let cell = cursor.peek().expect("there");
        assert!(cell.row() == wanted && cell.value().len() == 40);
        // A get also looks at the cell after the row, which may be in the next block.
        cursor.advance().expect("sound");
        assert!(cursor.peek().is_none_or(|next| next.row() > wanted));
    };
    keys.iter().for_each(get);
    // Writes the queued blocks to the device first; the first gets allocate the thread's buffers.
    cache.bucket().iter().for_each(|bucket| bucket.settle());
    keys.iter().for_each(get);
    let misses = cache.counts().lookups.misses();
    let allocations = micro::allocations_of(|| keys.iter().for_each(get)).0;
    assert_eq!(cache.counts().lookups.misses(), misses);
    allocations
}

#[test]
fn a_get_that_hits_memory_allocates_nothing() {
    assert_eq!(allocations(Cache::with_bytes(64 << 20), 16 << 10), 0);
    // With small blocks the index has several levels.
    assert_eq!(allocations(Cache::with_bytes(64 << 20), 128), 0);
    let bucket = Bucket::offheap(64 << 20, &BucketOptions::default());
    assert_eq!(allocations(Cache::with_bytes(16 << 20).with_bucket(bucket), 16 << 10), 0);
}

#[test]
fn nor_does_one_that_hits_a_map() {
    let path = std::env::temp_dir().join(format!("bellows-gets-{}", std::process::id()));
    for block_size in [16 << 10, 2 << 10] {
        let device = LocalDevice::open_mapped(&path, 64 << 20, World::real()).expect("opened");
        let options = BucketOptions { queue_length: 10_000, ..BucketOptions::default() };
        let bucket = Bucket::on(vec![Arc::new(device)], &options, World::real());
        assert_eq!(allocations(Cache::with_bytes(1 << 20).with_bucket(bucket), block_size), 0);
        #[expect(clippy::disallowed_methods, reason = "a real file is the point")]
        std::fs::remove_file(&path).expect("removed");
    }
}
