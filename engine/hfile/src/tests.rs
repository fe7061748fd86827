//! Tests of whole files: written cells are read, and damage is detected.

use std::sync::Arc;

use cache::{BlockKind, Cache, Caching};
use cell::{Cell, CellParts, CellType, Comparator, KeyBuf, SequenceId, Timestamp};
use storage::{FileName, Files, Memory};

use crate::index::Ordered;
use crate::*;

mod awaited;
mod hostile;
mod on_write;
mod reading;
mod rows;

fn sample(count: usize, value: usize) -> Vec<(Vec<u8>, SequenceId)> {
    let mut cells = Vec::new();
    for row in 0..count {
        for qualifier in 0..3 {
            let kind = match (row % 11, qualifier) {
                (3, 0) => CellType::DeleteFamily,
                (5, 1) => CellType::DeleteColumn,
                _ => CellType::Put,
            };
            let (name, content) = (format!("row-{row:06}"), vec![(row % 251) as u8; value]);
            let parts = CellParts {
                row: name.as_bytes(),
                family: b"f",
                qualifier: if kind == CellType::DeleteFamily { b"" } else { [b"a", b"b", b"c"][qualifier] },
                timestamp: Timestamp(1_000 + row as i64),
                cell_type: kind,
                value: &content,
                tags: if row % 7 == 0 { b"\x00\x03\x40hi" } else { b"" },
            };
            cells.push((parts.to_vec().expect("within limits"), SequenceId((row * 3 + qualifier) as u64)));
        }
    }
    cells
}

fn write(
    files: &dyn Files,
    name: &FileName,
    cells: &[(Vec<u8>, SequenceId)],
    options: WriterOptions,
) -> Written {
    let mut writer = Writer::create(files.create(name).expect("new"), name.clone(), options);
    for (bytes, sequence) in cells {
        writer.append(Cell::parse(bytes, *sequence).expect("whole")).expect("in order");
    }
    writer
        .finish(StoreFileInfo { max_sequence: SequenceId(77), major: true, more: Vec::new() })
        .expect("written")
}

fn open(files: &dyn Files, name: &FileName) -> Result<Arc<Reader>> {
    let cache = Arc::new(Cache::with_bytes(64 << 20));
    Reader::open(files.open(name)?, name.clone(), cache, Caching::default()).map(Arc::new)
}

/// A cell's bytes, its tags, and its sequence id.
type Parts = (Vec<u8>, Vec<u8>, SequenceId);

fn read_all(reader: &Arc<Reader>) -> Result<Vec<Parts>> {
    let mut cursor = reader.cursor(ReadOptions::default());
    cursor.seek_first()?;
    let mut cells = Vec::new();
    while let Some(cell) = cursor.peek() {
        cells.push((cell.bytes_without_tags().to_vec(), cell.tags().bytes().to_vec(), cell.sequence()));
        cursor.advance()?;
    }
    Ok(cells)
}

fn expected(cells: &[(Vec<u8>, SequenceId)]) -> Vec<Parts> {
    let parts = |(bytes, sequence): &(Vec<u8>, SequenceId)| {
        let cell = Cell::parse(bytes, *sequence).expect("whole");
        (cell.bytes_without_tags().to_vec(), cell.tags().bytes().to_vec(), *sequence)
    };
    cells.iter().map(parts).collect()
}

#[test]
fn files_round_trip_in_every_codec_and_encoding() {
    let cells = sample(3_000, 40);
    for compression in ["NONE", "GZ", "SNAPPY", "LZ4", "ZSTD"] {
        for encoding in
            [Encoding::None, Encoding::RowIndexV1, Encoding::Prefix, Encoding::Diff, Encoding::FastDiff]
        {
            for bloom in [BloomType::None, BloomType::Row, BloomType::RowColumn] {
                let (files, name) = (Memory::new(), FileName::new("f"));
                let compression = Compression::of_name(compression).expect("known");
                let options =
                    WriterOptions { compression, encoding, bloom, block_size: 4 << 10, ..Default::default() };
                let written = write(&files, &name, &cells, options);
                assert_eq!(written.entries, cells.len() as u64);
                let reader = open(&files, &name).expect("sound");
                assert_eq!(read_all(&reader).expect("sound"), expected(&cells));
                assert_eq!((reader.max_sequence(), reader.is_major()), (Some(SequenceId(77)), true));
                assert_eq!(reader.span(), written.span);
                assert_eq!(reader.last_key().expect("has cells").row(), b"row-002999");
            }
        }
    }
}

/// Tests the checksums of a large uncompressed block, which the writer writes from its own buffer, without a copy.
#[test]
fn large_uncompressed_blocks_are_read_as_written() {
    for value in [(1 << 20) + 17, 3 << 20] {
        let cells = sample(2, value);
        let (files, name) = (Memory::new(), FileName::new("f"));
        write(&files, &name, &cells, WriterOptions::default());
        let reader = open(&files, &name).expect("sound");
        assert!(read_all(&reader).expect("sound") == expected(&cells), "{value}");
    }
}

#[test]
fn rows_in_cached_blocks_are_prefetched_and_no_lookup_is_counted() {
    for (block_size, comparator) in
        [(16 << 10, Comparator::Table), (64, Comparator::Table), (64, Comparator::Meta)]
    {
        let cells = sample(4_000, 10);
        let (files, name) = (Memory::new(), FileName::new("f"));
        write(
            &files,
            &name,
            &cells,
            WriterOptions { block_size, comparator, bloom: BloomType::None, ..Default::default() },
        );
        let cache = Arc::new(Cache::with_bytes(64 << 20));
        let file = files.open(&name).expect("written");
        let reader =
            Reader::open(file, name, Arc::clone(&cache), Caching::default()).map(Arc::new).expect("sound");
        let rows: Vec<String> = (0..40).map(|row| format!("row-{:06}", row * 97)).collect();
        let mut all: Vec<&[u8]> = rows.iter().map(|row| row.as_bytes()).collect();
        all.extend([&b""[..], b"a", b"row-", b"row-001000-and-more", b"z", &[0xff; 300]]);
        assert_eq!(reader.prefetch_rows(&all), 0, "nothing was read yet");
        read_all(&reader).expect("sound");
        let mut cursor = reader.cursor(ReadOptions::default());
        all.iter().for_each(|row| cursor.seek(KeyBuf::first_on_row(row).position()).expect("sound"));
        let before = format!("{:?}", cache.tables());
        // In the catalog, rows are not ordered by their bytes, so nothing is prefetched there.
        let expected = if comparator == Comparator::Table { all.len() } else { 0 };
        assert_eq!(reader.prefetch_rows(&all), expected, "{block_size} {comparator:?}");
        assert_eq!(format!("{:?}", cache.tables()), before);
        reader.cached().evict();
        assert_eq!(reader.prefetch_rows(&all), 0);
        // Replaces a leaf or a data block in the cache by a block of another kind.
        for index in 0..reader.root().len() {
            let block = || cache::Block {
                kind: BlockKind::Bloom,
                bytes: [&[0, 0, 0, 1][..], &[0xff; 8]].concat().into(),
                offsets: [].into(),
                heads: [].into(),
                shared: 0,
                row_starts: [].into(),
                disk_length: 4,
                previous: None,
                packed: false,
            };
            let (at, ask) = (reader.root().at(index).offset, cache::Ask { keep: true, memory_only: false });
            let kept = reader.cached().block::<Error>(at, BlockKind::Bloom, ask, || Ok(block()));
            assert_eq!(kept.expect("made").expect("kept").kind, BlockKind::Bloom);
        }
        assert_eq!(reader.prefetch_rows(&all), 0);
    }
}

#[test]
fn every_place_is_found_over_several_index_levels() {
    let cells = sample(6_000, 10);
    let (files, name) = (Memory::new(), FileName::new("f"));
    // Small blocks of one or two cells, so that index leaves are between data blocks.
    write(&files, &name, &cells, WriterOptions { block_size: 64, ..Default::default() });
    let reader = open(&files, &name).expect("sound");
    assert_eq!(read_all(&reader).expect("sound").len(), cells.len());
    let mut cursor = reader.cursor(ReadOptions::default());
    for row in (0..6_000).step_by(7).chain([5_999]) {
        let wanted = format!("row-{row:06}");
        cursor.seek(KeyBuf::first_on_row(wanted.as_bytes()).position()).expect("sound");
        assert_eq!(cursor.peek().expect("there").row(), wanted.as_bytes());
        assert_eq!(cursor.peek().expect("there").sequence(), SequenceId(row * 3), "the row's first cell");
        cursor.seek(KeyBuf::last_on_row(wanted.as_bytes()).position()).expect("sound");
        let after = (row < 5_999).then(|| format!("row-{:06}", row + 1).into_bytes());
        assert_eq!(cursor.peek().map(|cell| cell.row().to_vec()), after);
        let before = cursor.seek_row_before(Some(wanted.as_bytes())).expect("sound");
        assert_eq!(before, row > 0);
        if before {
            assert_eq!(cursor.peek().expect("there").row(), format!("row-{:06}", row - 1).as_bytes());
            assert_eq!(cursor.peek().expect("there").sequence(), SequenceId(row * 3 - 3));
        }
    }
    assert!(cursor.seek_row_before(None).expect("sound"));
    assert_eq!(cursor.peek().expect("there").row(), b"row-005999");
}

#[test]
fn bloom_filters_admit_every_stored_key_and_few_others() {
    let cells = sample(20_000, 1);
    for bloom in [BloomType::Row, BloomType::RowColumn] {
        let (files, name) = (Memory::new(), FileName::new("f"));
        write(&files, &name, &cells, WriterOptions { bloom, ..Default::default() });
        let reader = open(&files, &name).expect("sound");
        let options = ReadOptions::default();
        for (bytes, sequence) in cells.iter().step_by(13) {
            let cell = Cell::parse(bytes, *sequence).expect("whole");
            assert!(reader.may_contain_column(cell.row(), cell.qualifier(), options).expect("sound"));
            assert!(reader.may_contain_row(cell.row(), options).expect("sound"));
            if cell.cell_type() == Some(CellType::DeleteFamily) {
                assert!(reader.may_delete_families_of(cell.row(), options).expect("sound"));
            }
        }
        let absent = |n: usize| format!("row-{:06}x", n % 20_000);
        let passed = (0..10_000)
            .filter(|n| reader.may_contain_column(absent(*n).as_bytes(), b"a", options).expect("sound"))
            .count();
        assert!(passed < 200, "{passed} of 10,000 absent keys pass a filter of 1 %");
    }
}

#[test]
fn a_prefix_bloom_filter_decides_about_rows_and_ranges_by_their_prefix() {
    // Rows `row-000000` to `row-019999`, with 200 prefixes of eight bytes.
    let cells = sample(20_000, 1);
    let (files, name) = (Memory::new(), FileName::new("f"));
    let bloom = BloomType::RowPrefix(8);
    write(&files, &name, &cells, WriterOptions { bloom, ..Default::default() });
    let reader = open(&files, &name).expect("sound");
    assert_eq!(reader.bloom(), bloom);
    assert_eq!(&reader.info()[&b"BLOOM_FILTER_PARAM"[..]][..], [0, 0, 0, 8]);
    assert_eq!(&reader.info()[&b"BLOOM_FILTER_TYPE"[..]][..], b"ROWPREFIX_FIXED_LENGTH");
    assert_eq!(&reader.info()[&b"LAST_BLOOM_KEY"[..]][..], b"row-0199");
    let options = ReadOptions::default();
    let may = |row: &[u8]| reader.may_contain_row(row, options).expect("sound");
    for (bytes, sequence) in cells.iter().step_by(13) {
        let row = Cell::parse(bytes, *sequence).expect("whole").row().to_vec();
        assert!(
            may(&row) && may(&[&row[..8], &b"of no row"[..]].concat()),
            "what begins like a row may be one"
        );
        assert!(reader.may_contain_column(&row, b"any", options).expect("sound"));
        let rows = |stop: &[u8]| reader.may_contain_rows(&row, stop, options).expect("sound");
        assert!(rows(&[&row[..8], &b"z"[..]].concat()) && rows(b"") && rows(b"row") && rows(b"s"));
    }
    let absent = |n: usize| format!("row-{:04}", 200 + n);
    let passed = (0..9_000).filter(|n| may(absent(*n).as_bytes())).count();
    assert!(passed < 200, "{passed} of 9,000 absent prefixes pass a filter of 1 %");
    let ranges = (0..9_000).filter(|n| {
        let (start, stop) = (format!("{}00", absent(*n)), format!("{}99", absent(*n)));
        reader.may_contain_rows(start.as_bytes(), stop.as_bytes(), options).expect("sound")
    });
    assert!(ranges.count() < 200);
    // Ranges over several prefixes, or without an end, are not filtered.
    assert!(reader.may_contain_rows(b"row-0900", b"row-0901", options).expect("sound"));
    assert!(reader.may_contain_rows(b"row-0900", b"", options).expect("sound"));
    // Rows shorter than the prefix are in the filter as they are.
    let short = WriterOptions { bloom: BloomType::RowPrefix(100), ..Default::default() };
    let name = FileName::new("g");
    write(&files, &name, &cells, short);
    let reader = open(&files, &name).expect("sound");
    assert!(reader.may_contain_row(b"row-000001", options).expect("sound"));
    assert!(!reader.may_contain_row(b"row-00000", options).expect("sound"));
    assert_eq!(BloomType::of_name("ROWPREFIX_FIXED_LENGTH", None), None);
}

#[test]
fn every_flipped_byte_and_every_cut_is_an_error_or_the_same_cells() {
    let cells = sample(12, 5);
    for compression in [Compression::None, Compression::Snappy] {
        let (files, name) = (Memory::new(), FileName::new("f"));
        let options = WriterOptions { compression, block_size: 300, ..Default::default() };
        write(&files, &name, &cells, options);
        let whole = files.read(&name, 1 << 20).expect("there");
        let good = expected(&cells);
        let mut told = 0;
        for at in 0..whole.len() {
            files.damage(&name, |bytes| {
                bytes.clone_from(&whole);
                bytes[at] ^= 0x04;
            });
            let options = ReadOptions::default();
            let read = open(&files, &name).and_then(|reader| {
                assert!(
                    reader.may_contain_row(b"row-000001", options)?,
                    "byte {at} was changed and a row denied"
                );
                reader.may_delete_families_of(b"row-000003", options)?;
                read_all(&reader)
            });
            match read {
                Ok(read) => {
                    assert!(at >= whole.len() - 4096, "byte {at} was changed unseen, before the trailer");
                    assert_eq!(read, good, "byte {at} was changed and other cells were read");
                }
                Err(_) => told += 1,
            }
        }
        assert!(told > whole.len() - 4096, "changes of the fields of the trailer are detected, too");
        for cut in (0..whole.len()).step_by(11) {
            files.damage(&name, |bytes| *bytes = whole[..cut].to_vec());
            assert!(open(&files, &name).and_then(|reader| read_all(&reader)).is_err(), "cut at {cut}");
        }
    }
}

/// HBase's encoder for ROW_INDEX_V1 does not compress tags, although the file info says that they are compressed.
#[test]
fn tags_of_a_row_index_are_not_compressed_whatever_the_file_info_says() {
    let cells = sample(40, 5);
    let (files, name) = (Memory::new(), FileName::new("f"));
    let options = WriterOptions { encoding: Encoding::RowIndexV1, ..Default::default() };
    let mut writer = Writer::create(files.create(&name).expect("new"), name.clone(), options);
    for (bytes, sequence) in &cells {
        writer.append(Cell::parse(bytes, *sequence).expect("whole")).expect("in order");
    }
    let says = vec![(crate::info::name::TAGS_COMPRESSED, vec![1].into())];
    let info = StoreFileInfo { max_sequence: SequenceId(77), major: true, more: says };
    writer.finish(info).expect("written");
    let reader = open(&files, &name).expect("readable");
    assert_eq!(reader.info()[&b"hfile.TAGS_COMPRESSED"[..]][..], [1]);
    assert_eq!(read_all(&reader).expect("sound"), expected(&cells));
}

/// The trailer has no checksum, so the reader compares it with the rest of the file.
#[test]
fn every_flipped_bit_of_the_trailer_is_an_error_or_the_same_cells() {
    // Files with one block, with one level of the index, and with two levels.
    for (rows, block_size, levels) in [(1, 300, 1), (12, 300, 1), (1_200, 1, 2)] {
        for compression in [Compression::None, Compression::Snappy].into_iter().take(3 - levels) {
            let cells = sample(rows, 5);
            let (files, name) = (Memory::new(), FileName::new("f"));
            let options = WriterOptions { compression, block_size, ..Default::default() };
            write(&files, &name, &cells, options);
            assert_eq!(open(&files, &name).expect("whole").levels() as usize, levels);
            let whole = files.read(&name, 1 << 20).expect("there");
            let (good, trailer) = (expected(&cells), whole.len() - 4096);
            let used =
                trailer + whole[trailer..whole.len() - 4].iter().rposition(|byte| *byte != 0).expect("used");
            for bit in 0..8 * (used + 1 - trailer) {
                let at = trailer + bit / 8;
                files.damage(&name, |bytes| {
                    bytes.clone_from(&whole);
                    bytes[at] ^= 1 << (bit % 8);
                });
                let read = open(&files, &name).and_then(|reader| {
                    let mut cursor = reader.cursor(ReadOptions::default());
                    assert!(cursor.seek_row_before(None)?, "bit {bit} of {rows} rows hides the last row");
                    let last = cursor.peek().expect("a cell").row().to_vec();
                    Ok((read_all(&reader)?, last))
                });
                if let Ok((read, last)) = read {
                    assert_eq!(read.len(), good.len(), "bit {bit} of {rows} rows hides cells");
                    assert_eq!(read, good, "bit {bit} of {rows} rows");
                    assert_eq!(last, format!("row-{:06}", rows - 1).into_bytes(), "bit {bit} of {rows} rows");
                }
            }
        }
    }
}

#[test]
fn damage_names_file_and_offset() {
    let (files, name) = (Memory::new(), FileName::new("data/f"));
    write(&files, &name, &sample(100, 50), WriterOptions::default());
    files.damage(&name, |bytes| bytes[500] ^= 1);
    let error = open(&files, &name).and_then(|reader| read_all(&reader)).expect_err("damaged");
    let words = error.to_string();
    assert!(words.starts_with("hfile corrupt file=data/f offset=0: block checksum"), "{words}");
}

#[test]
fn a_read_in_memory_would_block_until_the_block_is_cached() {
    let (files, name) = (Memory::new(), FileName::new("f"));
    write(&files, &name, &sample(100, 50), WriterOptions::default());
    let reader = open(&files, &name).expect("sound");
    let key = KeyBuf::first_on_row(b"row-000050");
    let memory = ReadOptions { memory_only: true, ..Default::default() };
    assert!(matches!(reader.cursor(memory).seek(key.position()), Err(Error::NotCached)));
    reader.cursor(ReadOptions::default()).seek(key.position()).expect("sound");
    let mut cursor = reader.cursor(memory);
    cursor.seek(key.position()).expect("cached");
    assert_eq!(cursor.peek().expect("there").row(), b"row-000050");
    reader.cached().evict();
    assert!(matches!(reader.cursor(memory).seek(key.position()), Err(Error::NotCached)));
}

#[test]
fn cells_out_of_order_are_refused_and_an_empty_file_is_a_file() {
    let (files, name) = (Memory::new(), FileName::new("f"));
    let mut writer =
        Writer::create(files.create(&name).expect("new"), name.clone(), WriterOptions::default());
    let cells = sample(2, 1);
    writer.append(Cell::parse(&cells[4].0, cells[4].1).expect("whole")).expect("first");
    let error = writer.append(Cell::parse(&cells[0].0, cells[0].1).expect("whole")).expect_err("before");
    assert!(matches!(error, Error::OutOfOrder { .. }));
    writer.abandon();
    let options = WriterOptions { comparator: Comparator::Meta, ..Default::default() };
    write(&files, &name, &[], options);
    let reader = open(&files, &name).expect("sound");
    assert_eq!(reader.comparator(), Comparator::Meta);
    assert!(read_all(&reader).expect("sound").is_empty());
    assert!(!reader.cursor(ReadOptions::default()).seek_row_before(None).expect("sound"));
}

#[test]
fn a_file_reports_its_sizes_its_middle_row_and_its_lookups() {
    let cells = sample(4_000, 40);
    for (block_size, levels) in [(16 << 10, "one"), (64, "several")] {
        let (files, name) = (Memory::new(), FileName::new("f"));
        write(
            &files,
            &name,
            &cells,
            WriterOptions { block_size, bloom: BloomType::Row, ..Default::default() },
        );
        let reader = open(&files, &name).expect("sound");
        let sizes = reader.sizes();
        assert!(sizes.uncompressed > 4_000 * 60 && sizes.uncompressed <= 2 * reader.size(), "{sizes:?}");
        assert!(sizes.root_index > 0 && sizes.index > 0 && sizes.bloom >= 4_000, "{sizes:?}");
        let middle = reader.middle_row().expect("sound").expect("many rows");
        let row: u32 = String::from_utf8_lossy(&middle)[4..].parse().expect("a number");
        assert!((1_000..=3_000).contains(&row), "{levels} levels: {row} of 4,000");
        let before = crate::data_bytes_of_thread();
        read_all(&reader).expect("sound");
        let looked_into = crate::data_bytes_of_thread() - before;
        assert!((4_000 * 60..=sizes.uncompressed).contains(&looked_into), "{looked_into} of {sizes:?}");
    }
    let (files, name) = (Memory::new(), FileName::new("f"));
    write(&files, &name, &cells[..1], WriterOptions::default());
    assert_eq!(open(&files, &name).expect("sound").middle_row().expect("sound"), None, "it cannot be cut");
}

#[test]
fn marked_blocks_are_cached_with_their_index_blocks() {
    let cells = sample(6_000, 10);
    let write = |block_size: usize, is_marked: &dyn Fn(usize) -> bool| {
        let (files, name) = (Memory::new(), FileName::new("f"));
        let options = WriterOptions { block_size, bloom: BloomType::Row, ..Default::default() };
        let mut writer = Writer::create(files.create(&name).expect("new"), name.clone(), options);
        for (index, (bytes, sequence)) in cells.iter().enumerate() {
            writer.append(Cell::trusted(bytes, *sequence)).expect("in order");
            if is_marked(index) {
                writer.mark_warm();
            }
        }
        let written = writer.finish(StoreFileInfo::default()).expect("written");
        (open(&files, &name).expect("sound"), written.warm)
    };
    assert_eq!(write(64, &|_| false).1, [], "no block is marked");
    let blocks = |is_marked: &dyn Fn(usize) -> bool| write(2_048, is_marked).1.len();
    let most = blocks(&|index| !index.is_multiple_of(4));
    assert!(most > 10 && most == blocks(&|_| true), "three fourths of each: {most}");
    assert_eq!(blocks(&|index| index.is_multiple_of(4)), 0, "a fourth of each");
    let (reader, warm) = write(64, &|index| (1_000..1_010).contains(&index) || index == 5_999);
    assert!(warm.is_sorted());
    let held = || reader.cached().cache().counts().blocks_of;
    assert_eq!(reader.warm_blocks(&warm).expect("sound"), warm.len() as u64);
    let [data, index, blooms] = held();
    assert!((2..12).contains(&data) && index > 1 && blooms > 0, "{:?}", held());
    assert_eq!(reader.warm_blocks(&warm).expect("sound"), 0, "they are there");
    let memory_only = ReadOptions { memory_only: true, ..ReadOptions::default() };
    let is_in_memory = |index: usize| {
        let mut cursor = reader.cursor(memory_only);
        match cursor.seek(Cell::trusted(&cells[index].0, cells[index].1).into()) {
            Ok(()) => true,
            Err(Error::NotCached) => false,
            Err(other) => panic!("{other}"),
        }
    };
    // A seek to the first cell of a block also looks into the block before it.
    assert!((1_003..1_010).all(is_in_memory));
    assert!(!is_in_memory(900) && !is_in_memory(1_100) && !is_in_memory(0));
    assert_eq!(
        reader.cached().cache().counts().lookups.misses(),
        0,
        "prefetching is not counted as a lookup"
    );
    let wrong = [(warm[0].0, warm[0].1 + 1)];
    reader.cached().evict();
    assert!(matches!(reader.warm_blocks(&wrong), Err(Error::Corrupt { .. })), "a length that is not so");
    reader.cached().remove();
    assert_eq!(reader.warm_blocks(&warm).expect("sound"), 0, "no block of a removed file is cached");
}

#[test]
fn a_file_is_read_into_the_cache() {
    let (files, name) = (Memory::new(), FileName::new("f"));
    let cells = sample(6_000, 10);
    write(&files, &name, &cells, WriterOptions { block_size: 64, ..Default::default() });
    let reader = open(&files, &name).expect("sound");
    let held = || reader.cached().cache().counts().blocks_of;
    let read = reader.warm().expect("sound");
    assert_eq!((held().iter().sum::<u64>(), reader.warm().expect("sound")), (read, 0));
    let [data, index, blooms] = held();
    assert!(index > 1);
    assert!(data > 1_000 && blooms > 0);
    let memory_only = ReadOptions { memory_only: true, ..ReadOptions::default() };
    let mut cursor = reader.cursor(memory_only);
    cursor.seek_first().expect("in memory");
    while cursor.peek().is_some() {
        cursor.advance().expect("in memory");
    }
    assert!(reader.may_contain_row(b"row-000001", memory_only).expect("in memory"));
    let lookups = reader.cached().cache().counts().lookups;
    assert!(
        lookups.hits_of(BlockKind::Data) >= data && lookups.misses() == 0,
        "prefetching is not counted as a lookup"
    );
    reader.cached().remove();
    assert_eq!((held(), reader.warm().expect("sound")), ([0; 3], 0), "no block of a removed file is cached");
}
