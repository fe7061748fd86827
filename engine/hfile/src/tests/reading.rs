//! Tests of how blocks are read: ahead of a scan, and compressed in the cache.

use std::sync::atomic::{AtomicU64, Ordering};

use cache::{Bucket, BucketOptions, Options, Switches};
use env::{WallTime, World};
use storage::{DeviceFault, FileReader, Scratch};

use super::*;

/// A file that counts its reads and their bytes.
struct Counted {
    file: Arc<dyn FileReader>,
    reads: AtomicU64,
    bytes: AtomicU64,
    longest: AtomicU64,
}

impl FileReader for Counted {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> storage::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.longest.fetch_max(buffer.len() as u64, Ordering::Relaxed);
        self.file.read_at(offset, buffer)
    }
}

/// Returns a file of many blocks, opened through a cache with these options, and the counter of its reads.
fn counted(writing: WriterOptions, options: Options) -> (Arc<Reader>, Arc<Counted>) {
    let (files, name) = (Memory::new(), FileName::new("f"));
    write(&files, &name, &sample(8_000, 100), writing);
    let file = files.open(&name).expect("there");
    let (reads, bytes, longest) = Default::default();
    let counted = Arc::new(Counted { file, reads, bytes, longest });
    let cache = Arc::new(Cache::new(options));
    let reader = Reader::open(Arc::clone(&counted) as _, name, cache, Caching::default()).expect("sound");
    (Arc::new(reader), counted)
}

/// Returns the number of reads of a scan over all cells, and the size of the largest of them.
fn scan(reader: &Arc<Reader>, counted: &Counted, read_type: ReadType) -> (u64, u64) {
    let before = counted.reads.load(Ordering::Relaxed);
    counted.longest.store(0, Ordering::Relaxed);
    let mut cursor = reader.cursor(ReadOptions { cache_blocks: false, read_type, ..ReadOptions::default() });
    cursor.seek_first().expect("sound");
    let cells = std::iter::from_fn(|| {
        let row = cursor.peek().map(|cell| cell.row().to_vec());
        cursor.advance().expect("sound");
        row
    });
    assert_eq!(cells.count(), 24_000);
    (counted.reads.load(Ordering::Relaxed) - before, counted.longest.load(Ordering::Relaxed))
}

#[test]
fn a_scan_reads_ahead_as_requested_and_returns_the_same_cells() {
    let writing = || WriterOptions { block_size: 8 << 10, ..WriterOptions::default() };
    let (reader, counted) = self::counted(writing(), Options { bytes_max: 0, ..Options::default() });
    let blocks = reader.size() / (9 << 10);
    let (single, longest) = scan(&reader, &counted, ReadType::Pread);
    assert!(single > blocks && longest < 10 << 10, "{single} reads, the longest of {longest}");
    let (ahead, longest) = scan(&reader, &counted, ReadType::Default);
    assert!(ahead < single / 10 && longest == 1 << 20, "{ahead} reads, the longest of {longest}");
    let (stream, _) = scan(&reader, &counted, ReadType::Stream);
    assert!(stream <= ahead, "{stream} reads");
    let none = Options { bytes_max: 0, read_ahead_bytes_max: 0, ..Options::default() };
    let (reader, counted) = self::counted(writing(), none);
    assert_eq!(scan(&reader, &counted, ReadType::Stream).0, single, "it can be switched off");
}

#[test]
fn a_reversed_scan_without_a_cache_reads_each_block_once() {
    let writing = WriterOptions { block_size: 8 << 10, ..WriterOptions::default() };
    let (reader, counted) = counted(writing, Options { bytes_max: 0, ..Options::default() });
    let reads = || counted.reads.load(Ordering::Relaxed);
    let mut forward = reader.cursor(ReadOptions { read_type: ReadType::Pread, ..ReadOptions::default() });
    let before = reads();
    forward.seek_first().expect("sound");
    while forward.peek().is_some() {
        forward.advance().expect("sound");
    }
    let blocks = reads() - before;
    let before = reads();
    let mut cursor = reader.cursor(ReadOptions::default());
    let (mut row, mut rows) = (None::<Vec<u8>>, 0);
    while cursor.seek_row_before(row.as_deref()).expect("sound") {
        row = cursor.peek().map(|cell| cell.row().to_vec());
        rows += 1;
    }
    assert_eq!(rows, 8_000);
    // At a border of two blocks the later one may be read a second time.
    let (read, allowed) = (reads() - before, 2 * blocks + 2);
    assert!(read <= allowed, "{read} reads of {blocks} blocks");
    // A scan over many files asks this one again after its first row.
    let before = reads();
    (0..10).for_each(|_| assert!(!cursor.seek_row_before(Some(b"row-000000")).expect("sound")));
    assert_eq!(reads() - before, 0, "nothing is before the first row");
}

#[test]
fn a_seek_behind_the_last_cell_reads_nothing() {
    let (reader, counted) = counted(WriterOptions::default(), Options { bytes_max: 0, ..Options::default() });
    let reads = || counted.reads.load(Ordering::Relaxed);
    let mut cursor = reader.cursor(ReadOptions::default());
    let last = reader.last_key().expect("recorded").row().to_vec();
    cursor.seek(KeyBuf::first_on_row(&last).position()).expect("sound");
    assert!(cursor.peek().is_some_and(|cell| cell.row() == last));
    let before = reads();
    // A scan over many files asks this of each that it has passed, as often as it looks for its position.
    for _ in 0..10 {
        cursor.seek(KeyBuf::last_on_row(&last).position()).expect("sound");
        assert!(cursor.peek().is_none());
    }
    assert_eq!(reads() - before, 0);
}

#[test]
fn scattered_gets_read_only_their_own_blocks() {
    let writing = WriterOptions { block_size: 8 << 10, ..WriterOptions::default() };
    let (reader, counted) = counted(writing, Options { bytes_max: 0, ..Options::default() });
    let before = counted.bytes.load(Ordering::Relaxed);
    let mut cursor = reader.cursor(ReadOptions::default());
    for row in (0..8_000).map(|at| at * 2_531 % 8_000).take(100) {
        let key = KeyBuf::first_on_row(format!("row-{row:06}").as_bytes());
        cursor.seek(key.position()).expect("sound");
        assert!(cursor.peek().is_some());
    }
    let each = (counted.bytes.load(Ordering::Relaxed) - before) / 100;
    assert!(each < 20 << 10, "{each} bytes for a row");
}

#[test]
fn blocks_cached_in_compressed_form_take_less_memory_and_have_the_same_cells() {
    for (compression, encoding) in [
        (Compression::Snappy, Encoding::None),
        (Compression::Zstd, Encoding::FastDiff),
        (Compression::None, Encoding::RowIndexV1),
        (Compression::None, Encoding::Prefix),
        (Compression::None, Encoding::None),
    ] {
        let writing =
            || WriterOptions { compression, encoding, block_size: 8 << 10, ..WriterOptions::default() };
        let switches = |data_compressed| Switches { data_compressed, ..Switches::default() };
        let with = |packed| Options { switches: switches(packed), ..Options::default() };
        let read = |packed: bool| {
            let (reader, counted) = counted(writing(), with(packed));
            let cells = read_all(&reader).expect("sound");
            let reads = counted.reads.load(Ordering::Relaxed);
            assert_eq!(read_all(&reader).expect("cached"), cells);
            assert_eq!(counted.reads.load(Ordering::Relaxed), reads, "all is in the cache");
            let memory = ReadOptions { memory_only: true, ..ReadOptions::default() };
            let mut cursor = reader.cursor(memory);
            cursor.seek(KeyBuf::first_on_row(b"row-004711").position()).expect("cached");
            assert_eq!(cursor.peek().expect("there").row(), b"row-004711");
            let warm = reader.warm().expect("sound");
            assert!(warm < 20, "no data that is not there: {warm}");
            (cells, reader.cached().cache().counts().bytes)
        };
        let ((plain, whole), (packed, less)) = (read(false), read(true));
        assert!(plain == packed, "{compression:?} {encoding:?}");
        let wanted = match (compression, encoding) {
            (Compression::None, Encoding::Prefix) => whole * 9 / 10,
            (Compression::None, _) => whole,
            _ => whole * 3 / 4,
        };
        assert!(less <= wanted, "{compression:?} {encoding:?}: {less} of {whole} bytes");
    }
}

#[test]
fn rows_are_passed_to_their_end_in_the_next_block_but_not_where_cells_have_tags() {
    let untagged = |(bytes, sequence): (Vec<u8>, SequenceId)| {
        (Cell::parse(&bytes, sequence).expect("whole").bytes_without_tags().to_vec(), sequence)
    };
    let plain: Vec<_> = sample(500, 20).into_iter().map(untagged).collect();
    for (with_tags, cells) in [(false, plain.clone()), (true, plain), (true, sample(500, 20))] {
        let has_tags = cells
            .iter()
            .any(|(bytes, _)| !Cell::parse(bytes, SequenceId::ZERO).expect("whole").tags().is_empty());
        let (files, name) = (Memory::new(), FileName::new("f"));
        let writing = WriterOptions { block_size: 4 << 10, with_tags, ..WriterOptions::default() };
        write(&files, &name, &cells, writing);
        let reader = open(&files, &name).expect("sound");
        let mut cursor = reader.cursor(ReadOptions::default());
        cursor.seek_first().expect("sound");
        let row = |cursor: &Cursor| cursor.peek().map(|cell| cell.row().to_vec());
        // The cells that `skip_rows` refuses: all up to a row whose second column is wanted.
        let rows = cursor.skip_rows(None, |cell| match (cell.row(), cell.qualifier()) {
            (b"row-000004", b"b") => Refused::No,
            _ => Refused::Cell,
        });
        if has_tags {
            assert_eq!((rows, row(&cursor)), (0, Some(b"row-000000".to_vec())));
            continue;
        }
        assert_eq!((rows, row(&cursor)), (4, Some(b"row-000004".to_vec())));
        assert_eq!(
            cursor.peek().map(|cell| cell.qualifier().to_vec()),
            Some(b"a".to_vec()),
            "its first cell"
        );
        // Skips up to `end`.
        assert_eq!(cursor.skip_rows(Some(b"row-000006"), |_| Refused::Row), 2);
        assert_eq!(row(&cursor), Some(b"row-000006".to_vec()));
        // Each call skips up to the first row that begins in the next block, whether or not a row continues across the
        // boundary. The last row of the file is not skipped, and is read cell by cell.
        let (mut passed, mut ran_out, mut walked) = (6, 0, 0);
        while let Some(name) = row(&cursor) {
            assert_eq!(name, format!("row-{passed:06}").into_bytes());
            let rows = cursor.skip_rows(None, |_| Refused::Row);
            ran_out += u64::from(rows > 0 && cursor.ran_out());
            if rows == 0 {
                assert!(!cursor.ran_out());
                while row(&cursor).as_ref() == Some(&name) {
                    cursor.advance().expect("sound");
                }
                walked += 1;
            }
            passed += rows.max(1);
        }
        assert_eq!(passed, 500);
        assert!(ran_out > 3 && walked == 1, "{ran_out} {walked}");
    }
}

/// Returns the number of rows to the end of the file that a cursor skips, or reads cell by cell where it can skip none.
fn pass_all(cursor: &mut Cursor) -> u64 {
    let mut rows = 0;
    while let Some(name) = cursor.peek().map(|cell| cell.row().to_vec()) {
        let passed = cursor.skip_rows(None, |_| Refused::Row);
        if passed == 0 {
            while cursor.peek().is_some_and(|cell| cell.row() == name) {
                cursor.advance().expect("sound");
            }
        }
        rows += passed.max(1);
    }
    rows
}

#[test]
fn bytes_after_a_block_are_read_and_counted_once() {
    let untagged = |(bytes, sequence): (Vec<u8>, SequenceId)| {
        (Cell::parse(&bytes, sequence).expect("whole").bytes_without_tags().to_vec(), sequence)
    };
    let (files, name) = (Memory::new(), FileName::new("f"));
    let plain: Vec<_> = sample(2_000, 100).into_iter().map(untagged).collect();
    write(&files, &name, &plain, WriterOptions { block_size: 2 << 10, ..WriterOptions::default() });
    let open = || {
        let options = Options { bytes_max: 64 << 20, read_ahead_bytes_max: 0, ..Options::default() };
        let (reads, bytes, longest) = Default::default();
        let file = files.open(&name).expect("there");
        let counted = Arc::new(Counted { file, reads, bytes, longest });
        let cache = Arc::new(Cache::new(options));
        let reader =
            Reader::open(Arc::clone(&counted) as _, name.clone(), cache, Caching::default()).expect("sound");
        (Arc::new(reader), counted)
    };
    for cache_blocks in [false, true] {
        let cost = |passes: bool| {
            let (reader, counted) = open();
            let (reads, looked_into) = (counted.reads.load(Ordering::Relaxed), crate::data_bytes_of_thread());
            let mut cursor = reader.cursor(ReadOptions { cache_blocks, ..ReadOptions::default() });
            cursor.seek_first().expect("sound");
            if passes {
                assert_eq!(pass_all(&mut cursor), 2_000);
            } else {
                while cursor.peek().is_some() {
                    cursor.advance().expect("sound");
                }
            }
            let reads = counted.reads.load(Ordering::Relaxed) - reads;
            (reads, crate::data_bytes_of_thread() - looked_into)
        };
        let (walked, passed) = (cost(false), cost(true));
        assert!(walked.0 > 100 && walked == passed, "{walked:?} {passed:?}");
    }
    // In memory-only mode, skipping stops before the row that may continue in a block that is not in memory. The error
    // is reported when the cursor moves there.
    let (reader, _) = open();
    let mut cursor = reader.cursor(ReadOptions::default());
    cursor.seek_first().expect("sound");
    cursor.set_options(ReadOptions { memory_only: true, ..ReadOptions::default() });
    let passed = cursor.skip_rows(None, |_| Refused::Row);
    assert!(passed > 0 && !cursor.ran_out());
    assert_eq!(cursor.skip_rows(None, |_| Refused::Row), 0);
    let stops = std::iter::from_fn(|| cursor.peek().map(|_| ()).map(|()| cursor.advance()));
    assert!(stops.into_iter().any(|stop| matches!(stop, Err(crate::Error::NotCached))));
}

/// Returns a file whose data blocks are all on a device of the cache, and a reader of the same file without a device.
fn on_a_device(writing: &dyn Fn() -> WriterOptions) -> (Arc<Reader>, Scratch, Arc<Reader>) {
    // The memory tier has room for index and Bloom blocks only: a data block is larger than the whole tier.
    on_a_device_behind(2_048, writing)
}

/// Like [`on_a_device`], with `bytes` bytes of memory in the first tier.
fn on_a_device_behind(
    bytes_max: usize,
    writing: &dyn Fn() -> WriterOptions,
) -> (Arc<Reader>, Scratch, Arc<Reader>) {
    // Rows with many columns, rows with one column, rows with a common prefix, and cells with equal keys that only
    // their sequence ids tell apart, also across the ends of blocks.
    let mut cells = Vec::new();
    for row in 0..2_000 {
        let name = match row % 5 {
            0 => format!("row-{:06}-and-more", row / 5),
            _ => format!("row-{:06}", row / 5),
        };
        let columns = if row % 97 == 0 { 40 } else { 1 + row % 3 };
        let times = if row % 41 == 0 { 25 } else { 1 };
        let of_column = |column| (0..times).map(move |time| (column, time));
        cells.extend((0..columns).flat_map(of_column).map(|(column, time)| (name.clone(), column, time)));
    }
    cells.sort();
    cells.dedup();
    let count = cells.len();
    let to_cell = |(at, (row, column, _)): (usize, (String, i32, i32))| {
        let qualifier = format!("{column:03}");
        let parts = CellParts {
            row: row.as_bytes(),
            family: b"f",
            qualifier: qualifier.as_bytes(),
            timestamp: Timestamp(7),
            cell_type: CellType::Put,
            value: &[at as u8; 20],
            tags: b"",
        };
        // Cells with equal keys come newest first.
        (parts.to_vec().expect("within limits"), SequenceId((count - at) as u64))
    };
    let cells: Vec<_> = cells.into_iter().enumerate().map(to_cell).collect();
    let (files, name) = (Memory::new(), FileName::new("f"));
    write(&files, &name, &cells, writing());
    let plain = open(&files, &name).expect("sound");
    let device = Scratch::new(16 << 20);
    let options = BucketOptions { queue_length: 10_000, ..BucketOptions::default() };
    let bucket = Bucket::on(vec![Arc::new(device.clone())], &options, World::simulated(1, WallTime(0)));
    let cache = Arc::new(Cache::with_bytes(bytes_max).with_bucket(bucket));
    let file = files.open(&name).expect("there");
    let reader = Reader::open(file, name, cache, Caching::default()).map(Arc::new).expect("sound");
    assert_eq!(read_all(&reader).expect("sound"), expected(&cells));
    reader.cached().cache().bucket().expect("there is one").settle();
    (reader, device, plain)
}

/// Returns the row and the sequence id of the cursor's current cell.
fn stands(cursor: &Cursor) -> Option<(Vec<u8>, SequenceId)> {
    cursor.peek().map(|cell| (cell.bytes_without_tags().to_vec(), cell.sequence()))
}

/// Returns positions of cells, positions between cells, and positions before and after all cells.
fn places(reader: &Arc<Reader>) -> Vec<KeyBuf> {
    let mut keys = vec![KeyBuf::first_on_row(b""), KeyBuf::first_on_row(b"row"), KeyBuf::first_on_row(b"s")];
    let mut cursor = reader.cursor(ReadOptions::default());
    cursor.seek_first().expect("sound");
    let mut at = 0;
    while let Some(cell) = cursor.peek() {
        if at % 7 == 0 {
            keys.push(KeyBuf::of(cell));
        }
        if at % 11 == 0 {
            keys.push(KeyBuf::first_on_row(cell.row()));
            keys.push(KeyBuf::first_on_row(&[cell.row(), b"-no"].concat()));
        }
        if at % 13 == 0 {
            keys.push(KeyBuf::last_on_row(cell.row()));
        }
        at += 1;
        cursor.advance().expect("sound");
    }
    keys
}

#[test]
fn a_cursor_over_parts_of_blocks_finds_the_same_cells_as_over_whole_blocks() {
    for block_size in [200, 2 << 10, 16 << 10] {
        for encoding in [Encoding::None, Encoding::FastDiff] {
            let (reader, device, plain) =
                on_a_device(&|| WriterOptions { block_size, encoding, ..WriterOptions::default() });
            let keys = places(&plain);
            let read = |reader: &Arc<Reader>, holds: bool, out: &mut Vec<_>| {
                let mut cursor = reader.cursor(ReadOptions::default());
                if holds {
                    cursor.hold_blocks();
                }
                for (at, key) in keys.iter().enumerate() {
                    cursor.seek_far(key.position()).expect("sound");
                    out.push(stands(&cursor));
                    // Then some steps forward, before the next seek to a near or far position.
                    for _ in 0..[0, 1, 2, 60][at % 4] {
                        cursor.advance().expect("sound");
                        out.push(stands(&cursor));
                    }
                    for ahead in [1, 2, 40].iter().take(at % 5) {
                        let Some(next) = keys.get(at + ahead) else { continue };
                        cursor.seek(next.position()).expect("sound");
                        out.push(stands(&cursor));
                    }
                    if at % 6 == 1 {
                        cursor.seek_row_before(Some(key.key().row())).expect("sound");
                        out.push(stands(&cursor));
                    }
                    if at % 10 == 0 {
                        cursor.leave();
                    }
                }
            };
            for holds in [false, true] {
                let (mut found, mut wanted) = (Vec::new(), Vec::new());
                read(&plain, holds, &mut wanted);
                let before = device.acts().0;
                read(&reader, holds, &mut found);
                assert!(found == wanted, "blocks of {block_size}, {encoding:?}, held: {holds}");
                assert!(found.len() > 1_000 && device.acts().0 > before + 20, "the device was read");
            }
        }
    }
}

#[test]
fn after_a_part_of_a_block_the_next_block_is_looked_up_once() {
    // The memory tier has room for some of the blocks.
    let (reader, device, _) =
        on_a_device_behind(64 << 10, &|| WriterOptions { block_size: 2 << 10, ..Default::default() });
    let cache = reader.cached().cache();
    let options = ReadOptions::default();
    let mut starts = Vec::new();
    let mut place = (reader.first_data().expect("there is one"), 0);
    while let Some((at, block)) = reader.block_after(place.0, place.1, options, &mut None).expect("sound") {
        place = (at, block.disk_length);
        starts.push(place);
    }
    let lookups = || {
        let lookups = cache.counts().lookups;
        lookups.hits() + lookups.misses()
    };
    let mut whole = 0;
    for (at, disk_length) in starts {
        let before = lookups();
        let cells = reader.part_after(at, disk_length, options.into());
        whole += u64::from(matches!(cells, Some((_, cache::Cells::Whole(_)))));
        assert!(lookups() <= before + 1);
    }
    assert!(whole > 5 && device.acts().0 > 5, "{whole} lay in memory");
}

#[test]
fn a_get_finds_its_row_whatever_faults_the_device_has() {
    let (reader, device, plain) =
        on_a_device(&|| WriterOptions { block_size: 8 << 10, ..Default::default() });
    let keys = places(&plain);
    for fault in [DeviceFault::ReadFails, DeviceFault::ReadShort, DeviceFault::ReadFlips, DeviceFault::Gone] {
        let bucket = reader.cached().cache().bucket().expect("there is one");
        bucket.settle();
        let met = |counts: cache::BucketCounts| counts.failed + counts.corrupt;
        let before = met(bucket.counts());
        for (at, key) in keys.iter().enumerate() {
            // The device fails in some rounds and works in others, also between the read of a record's head and the
            // read of its bytes.
            device.set_fault(if at % 3 == 0 { fault } else { DeviceFault::None });
            let (mut cursor, mut other) =
                (reader.cursor(ReadOptions::default()), plain.cursor(ReadOptions::default()));
            cursor.seek_far(key.position()).expect("storage is sound");
            other.seek_far(key.position()).expect("sound");
            assert_eq!(stands(&cursor), stands(&other));
            device.set_fault(if at % 4 == 0 { fault } else { DeviceFault::None });
            cursor.advance().expect("storage is sound");
            other.advance().expect("sound");
            assert_eq!(stands(&cursor), stands(&other));
        }
        device.set_fault(DeviceFault::None);
        assert!(met(bucket.counts()) > before, "{fault:?} was met");
    }
}

#[test]
fn a_bloom_filter_is_used_where_it_saves_lookups_and_before_a_wait() {
    let writing = WriterOptions { block_size: 4 << 10, bloom: BloomType::Row, ..WriterOptions::default() };
    let (reader, counted) = counted(writing, Options { bytes_max: 64 << 20, ..Options::default() });
    let cache = reader.cached().cache().clone();
    let asked = || cache.counts().lookups.hits_of(BlockKind::Bloom);
    let reads = || counted.reads.load(Ordering::Relaxed);
    let mut cursor = reader.cursor(ReadOptions::default());
    // Seeks a row and returns whether it exists.
    let mut seek = |row: &[u8]| {
        cursor.seek_row(KeyBuf::first_on_row(row).position()).expect("sound");
        cursor.peek().is_some_and(|cell| cell.row() == row)
    };
    let (there, absent) = (|at: u64| format!("row-{at:06}"), |at: u64| format!("row-{at:06}+"));
    (0..8_000).for_each(|at| assert!(seek(there(at).as_bytes())));
    let first = asked();
    (0..8_000).for_each(|at| assert!(seek(there(at).as_bytes())));
    assert_eq!(asked(), first, "all are there");
    // Lookups of missing rows do not check the filter at first. After enough of them the reader decides to check it.
    (0..8_000).for_each(|at| assert!(!seek(absent(at).as_bytes())));
    assert!(asked() - first > 5_000, "{} times", asked() - first);
    let looked = bytes_looked_into(|| (0..8_000).for_each(|at| assert!(!seek(absent(at).as_bytes()))));
    assert!(looked < 8_000 * 4_096 / 20, "{looked} bytes were looked into");
    (0..4_000).for_each(|at| assert!(seek(there(at).as_bytes())));
    let last = asked();
    assert!(seek(b"row-000007") && asked() == last, "it is not asked again");
    // The filter excludes this row, so no data block is read.
    reader.cached().evict();
    let before = reads();
    assert!(!seek(b"row-005000+"));
    assert_eq!(reads() - before, 1, "the filter's chunk");
    assert!(seek(b"row-005000"));
    assert_eq!(reads() - before, 2, "and the block");
}

#[test]
fn a_read_in_memory_looks_up_a_missing_block_once() {
    let writing = WriterOptions { block_size: 256, bloom: BloomType::Row, ..WriterOptions::default() };
    let (reader, counted) = counted(writing, Options { bytes_max: 64 << 20, ..Options::default() });
    let cache = reader.cached().cache().clone();
    let hits = || BlockKind::ALL.map(|kind| cache.counts().lookups.hits_of(kind));
    let seek = |row: u64, memory_only: bool| {
        let row = format!("row-{row:06}");
        let mut cursor = reader.cursor(ReadOptions { memory_only, ..ReadOptions::default() });
        cursor.seek_row(KeyBuf::first_on_row(row.as_bytes()).position())?;
        assert!(cursor.peek().is_some_and(|cell| cell.row() == row.as_bytes()));
        assert_eq!(cursor.options().memory_only, memory_only);
        Ok(())
    };
    (0..8_000).for_each(|row| seek(row, false).expect("sound"));
    reader.cached().evict();
    seek(5_000, false).expect("sound");
    let (before, reads) = (hits(), counted.reads.load(Ordering::Relaxed));
    assert!(matches!(seek(5_010, true), Err(Error::NotCached)));
    let found: Vec<u64> = hits().iter().zip(before).map(|(hits, before)| hits - before).collect();
    // The lookups use one index leaf and one chunk of the filter.
    assert_eq!(found.iter().sum::<u64>(), 2, "{found:?} of {:?}", BlockKind::ALL);
    assert_eq!(counted.reads.load(Ordering::Relaxed), reads);
    seek(5_010, false).expect("sound");
}

/// Runs `work`, and returns the number of bytes of data blocks in which cursors of this thread looked for cells.
fn bytes_looked_into(work: impl FnOnce()) -> u64 {
    let before = data_bytes_of_thread();
    work();
    data_bytes_of_thread() - before
}

#[test]
fn prefetching_a_file_ends_when_the_cache_is_full_and_evicts_nothing() {
    let writing = WriterOptions { block_size: 2 << 10, bloom: BloomType::None, ..Default::default() };
    let options = Options { bytes_max: 64 << 10, ..Options::default() };
    let (reader, counted) = counted(writing, options);
    let counts = || reader.cached().cache().counts();
    let kept = reader.warm().expect("sound");
    assert!(kept > 10 && counts().blocks == kept, "{kept}, {:?}", counts());
    assert_eq!((counts().evicted, counts().refused), (0, 0));
    let (reads, bytes) = (&counted.reads, &counted.bytes);
    let of = |work: &dyn Fn() -> u64| {
        let before = (reads.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed));
        let kept = work();
        (kept, reads.load(Ordering::Relaxed) - before.0, bytes.load(Ordering::Relaxed) - before.1)
    };
    let (more, reads_more, read) = of(&|| reader.warm().expect("sound"));
    assert!(
        more == 0 && reads_more < 2 && read < 300_000,
        "{more} blocks, {reads_more} reads of {read} bytes"
    );
    // The same holds for the blocks of a compaction, although each was looked up once already.
    let (root, _) = reader.root_index();
    let blocks = (root.len() / 2..root.len()).map(|index| root.at(index));
    let late: Vec<(u64, u32)> = blocks.map(|block| (block.offset, block.disk_length)).collect();
    assert!(late.len() > 100, "{}", late.len());
    let (more, ..) = of(&|| reader.warm_blocks(&late).expect("sound"));
    assert!(more < 3 && counts().evicted == 0, "{more}: the last one is short, and fits");
}

#[test]
fn a_file_is_read_into_the_cache_with_few_reads_and_cached_blocks_are_not_read() {
    let writing = || WriterOptions { block_size: 256, ..WriterOptions::default() };
    let (reader, counted) = counted(writing(), Options::default());
    let (levels, size) = (reader.levels(), reader.size());
    assert!(levels > 1, "{levels} levels of the index");
    let reads = || counted.reads.load(Ordering::Relaxed);
    let before = reads();
    let blocks = reader.warm().expect("sound");
    let of_all = reads() - before;
    assert!(blocks > 5_000 && of_all < 40, "{of_all} reads of {blocks} blocks in {size} bytes");
    assert_eq!((reader.warm().expect("sound"), reads() - before), (0, of_all), "all blocks are cached");
    // Requests have evicted some of them.
    let cache = Options { bytes_max: 2 << 20, ..Options::default() };
    let (reader, counted) = self::counted(writing(), cache);
    let kept = reader.warm().expect("sound");
    assert!(kept > 1_000 && kept < blocks / 2, "{kept} of {blocks} blocks");
    assert!(counted.bytes.load(Ordering::Relaxed) < size, "no more is read than has room");
}

#[test]
fn a_file_that_was_just_written_is_opened_without_a_read() {
    for (block_size, value) in [(64, 10), (64 << 10, 2 << 20)] {
        let (files, name) = (Memory::new(), FileName::new("f"));
        let cells = sample(if value > 10 { 2 } else { 6_000 }, value);
        let written = write(&files, &name, &cells, WriterOptions { block_size, ..Default::default() });
        let before = files.reads();
        let (file, cache) = (files.open(&name).expect("there"), Arc::new(Cache::with_bytes(64 << 20)));
        let reader = Reader::open_written(file, written.end, name.clone(), cache, Caching::default());
        let reader = Arc::new(reader.expect("sound"));
        assert_eq!(files.reads(), before);
        assert!(read_all(&reader).expect("sound") == expected(&cells));
        let read = open(&files, &name).expect("sound");
        assert_eq!(
            (reader.info(), reader.sizes(), reader.levels()),
            (read.info(), read.sizes(), read.levels())
        );
    }
}
