//! How blocks come: ahead of a scan, and packed in the cache.

use std::sync::atomic::{AtomicU64, Ordering};

use cache::{Options, Switches};
use storage::FileReader;

use super::*;

/// Counts reads and their bytes.
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

/// A file of many blocks, opened through a cache of these options, and what counts its reads.
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

/// The reads of a scan over all cells, and the longest.
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
fn a_scan_reads_ahead_as_it_was_asked_to_and_gets_the_same() {
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
fn who_gets_rows_here_and_there_reads_their_blocks_and_no_more() {
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
fn blocks_that_are_kept_packed_take_less_and_are_the_same() {
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
            let warm = reader.warm(Kinds::ALL, true).expect("sound");
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
fn rows_are_passed_up_to_the_end_of_a_block_but_not_where_cells_have_tags() {
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
        // Up to a row whose second column is wanted.
        let rows = cursor.pass_rows(None, |cell| match (cell.row(), cell.qualifier()) {
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
        // Up to the end that is asked for.
        assert_eq!(cursor.pass_rows(Some(b"row-000006"), |_| Refused::Row), 2);
        assert_eq!(row(&cursor), Some(b"row-000006".to_vec()));
        // Up to the last row of the block, which may go on in the next.
        let passed = cursor.pass_rows(None, |_| Refused::Row);
        assert!(passed > 0 && passed < 494, "{passed}");
        assert_eq!(row(&cursor), Some(format!("row-{:06}", 6 + passed).into_bytes()));
        assert_eq!(cursor.pass_rows(None, |_| Refused::Row), 0);
        // And the same in the next one.
        while row(&cursor) == Some(format!("row-{:06}", 6 + passed).into_bytes()) {
            cursor.advance().expect("sound");
        }
        assert!(cursor.pass_rows(None, |_| Refused::Cell) > 0);
    }
}
