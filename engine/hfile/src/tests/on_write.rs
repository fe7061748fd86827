//! Tests of blocks that are cached while their file is written.

use cache::{Ask, Kinds, Options, Switches};

use super::*;

const MEMORY_ONLY: Ask = Ask { keep: true, memory_only: true };

/// Begins the file `f`, whose writer caches blocks of the kinds `wanted`, and others if `into_room`.
fn begin(
    files: &Memory,
    cache: &Arc<Cache>,
    options: WriterOptions,
    (wanted, into_room): (Kinds, bool),
) -> Writer {
    let name = FileName::new("f");
    let cached = cache.open_file(name.as_str(), 0, Caching::default());
    Writer::create(files.create(&name).expect("new"), name, options)
        .with_cache(CacheOnWrite::new(cached, wanted, into_room))
}

fn append(writer: &mut Writer, cells: &[(Vec<u8>, SequenceId)]) {
    for (bytes, sequence) in cells {
        writer.append(Cell::trusted(bytes, *sequence)).expect("in order");
    }
}

/// Opens the file `f` through a cache.
fn open_with(files: &Memory, cache: &Arc<Cache>) -> Arc<Reader> {
    let name = FileName::new("f");
    let file = files.open(&name).expect("there");
    Arc::new(Reader::open(file, name, Arc::clone(cache), Caching::default()).expect("sound"))
}

/// Asserts that the cache has each block of a file as it is when it is read from the file. Returns their number.
fn all_are_cached(reader: &Reader, case: &str) -> usize {
    let (mut at, mut count) = (0, 0);
    while at < reader.data_end {
        let cached = reader.cached.block::<Error>(at, BlockKind::Data, MEMORY_ONLY, || panic!("not read"));
        let cached = cached.expect("no read").unwrap_or_else(|| panic!("no block at {at}; {case}"));
        let read = reader.read_block(at, None).expect("sound");
        let is_same = cached.bytes == read.bytes
            && (cached.kind, cached.shared, cached.packed) == (read.kind, read.shared, read.packed)
            && (cached.disk_length, cached.previous) == (read.disk_length, read.previous)
            && cached.offsets[..] == read.offsets[..]
            && cached.heads[..] == read.heads[..]
            && cached.row_starts[..] == read.row_starts[..];
        assert!(is_same, "block at {at}: {cached:?} {read:?}; {case}");
        at += u64::from(read.disk_length);
        count += 1;
    }
    count
}

#[test]
fn a_writer_caches_the_blocks_that_a_reader_would_make() {
    for compression in [Compression::None, Compression::Zstd] {
        for encoding in
            [Encoding::None, Encoding::RowIndexV1, Encoding::Prefix, Encoding::Diff, Encoding::FastDiff]
        {
            for (data_compressed, with_tags, comparator) in [
                (false, true, Comparator::Table),
                (true, true, Comparator::Table),
                (false, false, Comparator::Table),
                (false, true, Comparator::Meta),
            ] {
                let files = Memory::new();
                let switches = Switches { data_compressed, ..Switches::default() };
                let cache = Arc::new(Cache::new(Options { switches, ..Options::default() }));
                let options = WriterOptions {
                    compression,
                    encoding,
                    with_tags,
                    comparator,
                    block_size: 256,
                    bloom: BloomType::RowColumn,
                    ..WriterOptions::default()
                };
                let mut writer = begin(&files, &cache, options, (Kinds::ALL, false));
                append(&mut writer, &sample(6_000, 20));
                writer.finish(StoreFileInfo::default()).expect("written");
                let case =
                    format!("{compression:?} {encoding:?} {data_compressed} {with_tags} {comparator:?}");
                let [data, index, blooms] = cache.counts().blocks_of;
                assert!(data > 1_000 && index > 1 && blooms > 1, "{data} {index} {blooms}: {case}");
                let reader = open_with(&files, &cache);
                assert_eq!(all_are_cached(&reader, &case) as u64, data + index + blooms);
                assert_eq!(cache.counts().lookups.misses(), 0);
            }
        }
    }
}

/// A large block is not copied before it is written, and large blocks may be cached in encoded form.
#[test]
fn a_writer_caches_large_blocks() {
    for data_compressed in [false, true] {
        for encoding in [Encoding::None, Encoding::RowIndexV1] {
            let files = Memory::new();
            let switches = Switches { data_compressed, ..Switches::default() };
            let cache = Arc::new(Cache::new(Options { switches, ..Options::default() }));
            let options = WriterOptions { encoding, ..WriterOptions::default() };
            let mut writer = begin(&files, &cache, options, (Kinds::ALL, false));
            append(&mut writer, &sample(2, (1 << 20) + 17));
            writer.finish(StoreFileInfo::default()).expect("written");
            let case = format!("{encoding:?} {data_compressed}");
            assert!(all_are_cached(&open_with(&files, &cache), &case) > 3);
        }
    }
}

#[test]
fn a_writer_caches_wanted_kinds_marked_blocks_and_what_has_room() {
    let cells = sample(6_000, 10);
    let options = || WriterOptions { block_size: 64, ..WriterOptions::default() };
    let of = |wanted: Kinds, into_room: bool, bytes_max: usize, is_marked: &dyn Fn(usize) -> bool| {
        let (files, cache) = (Memory::new(), Arc::new(Cache::with_bytes(bytes_max)));
        let mut writer = begin(&files, &cache, options(), (wanted, into_room));
        for (index, cell) in cells.iter().enumerate() {
            append(&mut writer, std::slice::from_ref(cell));
            if is_marked(index) {
                writer.mark_warm();
            }
        }
        writer.finish(StoreFileInfo::default()).expect("written");
        let counts = cache.counts();
        assert!(counts.bytes <= bytes_max as u64);
        (counts.blocks_of, counts.evicted + counts.refused)
    };
    let (none, large) = (Kinds::default(), 64 << 20);
    assert_eq!(of(none, false, large, &|_| false).0, [0; 3]);
    let ([data, index, blooms], _) = of(Kinds { index: true, ..none }, false, large, &|_| false);
    assert!(data == 0 && index > 1 && blooms == 0, "{data} {index} {blooms}");
    let ([data, index, blooms], _) = of(Kinds { blooms: true, ..none }, false, large, &|_| false);
    assert!(data == 0 && index == 0 && blooms > 0, "{data} {index} {blooms}");
    let marked = |index: usize| (1_000..1_010).contains(&index);
    let ([data, index, blooms], _) = of(none, false, large, &marked);
    assert!((2..12).contains(&data) && index > 1 && blooms > 0, "{data} {index} {blooms}");
    let (all, lost) = of(none, true, large, &|_| false);
    assert!(
        (all, lost) == of(Kinds::ALL, false, large, &|_| false) && all[0] > 1_000 && lost == 0,
        "{all:?}"
    );
    let ([data, ..], lost) = of(none, true, 64 << 10, &|_| false);
    assert!(data > 10 && data < all[0] && lost == 0, "{data} blocks, {lost} lost");
    let (_, lost) = of(Kinds::ALL, false, 64 << 10, &|_| false);
    assert!(lost > 0, "wanted blocks compete");
}

#[test]
fn a_file_that_is_not_finished_leaves_nothing_in_the_cache() {
    let fault = |act| storage::memory::Fault {
        act,
        kind: storage::Kind::Failed,
        outcome: storage::Outcome::MayHaveHappened,
        last: false,
    };
    for ending in ["abandoned", "dropped", "failed", "not opened with its size"] {
        let (files, cache) = (Memory::new(), Arc::new(Cache::with_bytes(64 << 20)));
        let mut writer = begin(&files, &cache, WriterOptions::default(), (Kinds::ALL, false));
        append(&mut writer, &sample(6_000, 20));
        assert!(cache.counts().blocks > 5, "blocks are cached while the file is written");
        match ending {
            "abandoned" => writer.abandon(),
            "dropped" => drop(writer),
            "failed" => {
                let cells = sample(6_001, 20);
                append(&mut writer, &cells[18_000..]);
                // The last act is the one that makes the file durable.
                files.set_fault(Some(fault(files.acts() + 1)));
                writer.finish(StoreFileInfo::default()).expect_err("it fails");
            }
            _ => {
                writer.finish(StoreFileInfo::default()).expect("written");
                cache.open_file("f", 1, Caching::default());
            }
        }
        assert_eq!(cache.counts().blocks, 0, "{ending}");
    }
}
