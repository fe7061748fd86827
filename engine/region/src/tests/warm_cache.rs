//! Tests that blocks that were in the cache before a flush or a compaction are replaced there by the new file's blocks.

use super::*;

const ROWS: usize = 400;

/// Returns a region whose files have many blocks, over a cache with these options.
fn bench(options: cache::Options) -> Bench {
    bench_of(&[], options)
}

/// As [`bench`], with these attributes of the family.
fn bench_of(attributes: &[(&'static str, &'static str)], options: cache::Options) -> Bench {
    let bench = Bench::with(family(attributes));
    let region = bench.open_over(Arc::clone(&bench.table), Arc::new(Cache::new(options)));
    Bench { region, ..bench }
}

fn family(attributes: &[(&'static str, &'static str)]) -> FamilyDescriptor {
    let family = FamilyDescriptor::new("f").expect("a name").with("BLOCKSIZE", "1024");
    attributes.iter().fold(family, |family, (key, value)| family.with(key, value))
}

fn row(index: usize) -> String {
    format!("row{index:04}")
}

impl Bench {
    fn open_over(&self, table: Arc<TableDescriptor>, cache: Arc<Cache>) -> Arc<Region> {
        // Compactions are requested by the tests.
        let tuning = RegionOptions { compaction_files_min: 100, ..RegionOptions::default() };
        let region = Region::open(Opening {
            info: self.region.info().clone(),
            table,
            files: Arc::new(self.files.clone()),
            folder: FileName::new("data/default/t/s"),
            log: Arc::clone(&self.log),
            cache,
            world: self.world.clone(),
            options: tuning,
            recovered: None,
        });
        region.expect("opened")
    }

    /// Writes a file with the rows `from`, `from + step` and so on.
    fn flush_rows(&self, from: usize, step: usize) {
        let value = "v".repeat(100);
        (from..ROWS).step_by(step).for_each(|index| self.put(&row(index), "f:x", 1, &value));
        self.region.flush(FlushReason::Requested).expect("flushed");
    }

    fn read(&self, index: usize, mode: ReadMode) -> bool {
        match self.region.get(&Scan::get(row(index).into()), mode, &mut Shown::default()) {
            Ok(cells) => cells == 1,
            Err(Error::WouldBlock) => false,
            Err(other) => panic!("{other}"),
        }
    }

    /// Returns the rows that can be read without waiting.
    fn in_memory(&self) -> Vec<usize> {
        (0..ROWS).filter(|&index| self.read(index, ReadMode::MemoryOnly)).collect()
    }

    fn compact(&self, major: bool) {
        let taken = self.region.compact(&CompactionRequest { major, families: Vec::new() });
        assert!(taken.expect("compacted") > 1);
    }
}

#[test]
fn a_compaction_leaves_the_cache_as_warm_as_it_was() {
    for stays_warm in [true, false] {
        let switches = cache::Switches { stays_warm, ..cache::Switches::default() };
        let bench = bench(cache::Options { switches, ..cache::Options::default() });
        (0..3).for_each(|from| bench.flush_rows(from, 3));
        assert_eq!(bench.in_memory(), []);
        let some = 100..200;
        some.clone().for_each(|index| assert!(bench.read(index, ReadMode::Any)));
        let before = bench.in_memory();
        assert!(some.clone().all(|index| before.contains(&index)) && before.len() < 160, "{before:?}");
        bench.compact(true);
        let after = bench.in_memory();
        if !stays_warm {
            assert_eq!(after, []);
            continue;
        }
        assert!(some.clone().all(|index| after.contains(&index)), "{after:?}");
        // The blocks at both ends of the new file's cached part have rows of cached and of uncached blocks.
        assert!(after.len() < before.len() + 30, "{} {}", before.len(), after.len());
        // Again, with a file that is compacted together with two others that were not read.
        (0..2).for_each(|from| bench.flush_rows(from, 2));
        bench.compact(true);
        assert!(some.clone().all(|index| bench.read(index, ReadMode::MemoryOnly)));
    }
}

#[test]
fn in_a_full_cache_a_compacted_file_replaces_the_old_ones() {
    // The read blocks take more than half of the cache.
    let bench = bench(cache::Options { bytes_max: 40 << 10, ..cache::Options::default() });
    (0..3).for_each(|from| bench.flush_rows(from, 3));
    let hot = 100..250;
    for _ in 0..6 {
        hot.clone().for_each(|index| assert!(bench.read(index, ReadMode::Any)));
    }
    let held = |bench: &Bench| bench.in_memory().into_iter().filter(|index| hot.contains(index)).count();
    let before = held(&bench);
    assert!(before > 120, "{before}");
    bench.compact(true);
    let after = held(&bench);
    assert!(after + 15 > before, "{after} of {before}");
    assert!(bench.region.cache.counts().bytes <= 40 << 10);
}

#[test]
fn flushed_blocks_are_cached_if_the_previous_file_is_read() {
    for (stays_warm, bytes_max, reads) in
        [(true, 1 << 20, true), (true, 1 << 20, false), (false, 1 << 20, true), (true, 0, true)]
    {
        let switches = cache::Switches { stays_warm, ..cache::Switches::default() };
        let bench = bench(cache::Options { bytes_max, switches, ..cache::Options::default() });
        let blocks = || bench.region.cache.counts().blocks_of[0];
        bench.flush_rows(0, 2);
        assert_eq!(blocks(), 0, "there is no file before the first");
        if reads {
            (0..ROWS / 3).step_by(2).for_each(|index| assert!(bench.read(index, ReadMode::Any)));
        }
        let before = blocks();
        bench.flush_rows(1, 2);
        let kept = blocks() - before;
        let expected = stays_warm && bytes_max > 0 && reads;
        let case = format!("stays warm: {stays_warm}, of {bytes_max} bytes, read: {reads}");
        assert!(if expected { kept > 15 } else { kept == 0 }, "{kept} blocks; {case}");
        // Nobody has read the blocks cached this way, so the next compaction does not cache them.
        let before = blocks();
        bench.flush_rows(0, 4);
        assert_eq!(blocks(), before, "{case}");
    }
}

#[test]
fn flushed_blocks_use_free_cache_space_only() {
    // An IN_MEMORY family has a share of the cache. When it exceeds that share, it replaces its own blocks.
    for (in_memory, bytes_max) in [("false", 40 << 10), ("true", 160 << 10)] {
        let options = cache::Options { bytes_max, ..cache::Options::default() };
        let bench = bench_of(&[("IN_MEMORY", in_memory)], options);
        bench.flush_rows(0, 2);
        (0..ROWS).step_by(2).for_each(|index| assert!(bench.read(index, ReadMode::Any)));
        let before = bench.region.cache.counts();
        assert_eq!(before.evicted, 0);
        bench.flush_rows(1, 2);
        let after = bench.region.cache.counts();
        assert_eq!((after.evicted, after.refused), (0, before.refused), "{in_memory}: {after:?}");
        let added = after.blocks - before.blocks;
        assert!((1..15).contains(&added) && after.bytes <= bytes_max as u64, "{in_memory}: {after:?}");
    }
}

#[test]
fn blocks_flushed_by_a_close_are_not_cached() {
    let bench = bench(cache::Options::default());
    bench.flush_rows(0, 2);
    (0..ROWS).step_by(2).for_each(|index| assert!(bench.read(index, ReadMode::Any)));
    let before = bench.region.cache.counts().blocks;
    (1..ROWS).step_by(2).for_each(|index| bench.put(&row(index), "f:x", 1, "v"));
    assert!(bench.region.close().expect("closed").files > 0);
    assert_eq!(bench.region.cache.counts().blocks, before);
}

#[test]
fn a_compaction_does_not_cache_for_a_family_that_stopped_caching() {
    for block_cache in ["true", "false"] {
        let bench = bench(cache::Options::default());
        (0..3).for_each(|from| bench.flush_rows(from, 3));
        (100..200).for_each(|index| assert!(bench.read(index, ReadMode::Any)));
        bench.region.close().expect("closed");
        // The table was altered meanwhile. Cached blocks stay until their files are deleted.
        let cache = Arc::clone(&bench.region.cache);
        let region = bench.open_over(table(family(&[("BLOCKCACHE", block_cache)])), cache);
        let bench = Bench { region, ..bench };
        assert!(bench.read(150, ReadMode::MemoryOnly));
        bench.compact(true);
        let data = bench.region.cache.counts().blocks_of[0];
        assert_eq!(data > 0, block_cache == "true", "{data} blocks");
    }
}

#[test]
fn a_compaction_that_fails_leaves_nothing_of_its_file_in_the_cache() {
    let bench = bench(cache::Options::default());
    (0..3).for_each(|from| bench.flush_rows(from, 3));
    (100..200).for_each(|index| assert!(bench.read(index, ReadMode::Any)));
    let before = bench.region.cache.counts().blocks;
    for act in 1.. {
        bench.files.set_fault(Some(storage::memory::Fault {
            act: bench.files.acts() + act,
            kind: storage::Kind::Failed,
            outcome: storage::Outcome::DidNotHappen,
            last: false,
        }));
        let compacted = bench.region.compact(&CompactionRequest { major: true, families: Vec::new() });
        bench.files.set_fault(None);
        if compacted.is_ok() {
            assert!(act > 2, "none has failed");
            break;
        }
        assert_eq!(bench.region.cache.counts().blocks, before, "act {act}");
        assert!(bench.read(150, ReadMode::MemoryOnly), "act {act}");
    }
}

/// Returns a region of which every kind of block is cached when it is written, except those of compactions.
fn caching_on_write(attributes: &[(&'static str, &'static str)]) -> Bench {
    let switches = cache::Switches {
        data_on_write: true,
        index_on_write: true,
        blooms_on_write: true,
        ..cache::Switches::default()
    };
    bench_of(attributes, cache::Options { switches, ..cache::Options::default() })
}

/// Returns the number of reads that a bench's storage gets while `act` runs.
fn reads_of(bench: &Bench, act: impl FnOnce()) -> u64 {
    let before = bench.files.reads();
    act();
    bench.files.reads() - before
}

#[test]
fn a_flush_reads_nothing_and_a_compaction_reads_nothing_that_is_cached() {
    let bench = caching_on_write(&[]);
    for from in 0..2 {
        assert_eq!(reads_of(&bench, || bench.flush_rows(from, 2)), 0);
    }
    assert_eq!(bench.in_memory().len(), ROWS);
    // All blocks that the compaction reads are cached, and so are those that replace them.
    assert_eq!(reads_of(&bench, || bench.compact(true)), 0);
    assert_eq!(bench.in_memory().len(), ROWS);

    // The next file of a store that is being read is cached by its writer, too.
    let bench = self::bench(cache::Options::default());
    bench.flush_rows(0, 2);
    (0..ROWS).step_by(2).for_each(|index| assert!(bench.read(index, ReadMode::Any)));
    assert_eq!(reads_of(&bench, || bench.flush_rows(1, 2)), 0);
    assert_eq!(bench.in_memory().len(), ROWS);
}

#[test]
fn the_attributes_of_the_family_decide_which_blocks_are_cached_on_write() {
    let counts = |bench: &Bench| {
        bench.flush_rows(0, 1);
        bench.region.cache.counts().blocks_of.map(|count| count > 0)
    };
    let none = |attributes: &[(&'static str, &'static str)]| bench_of(attributes, cache::Options::default());
    assert_eq!(counts(&none(&[])), [false, false, false]);
    assert!(counts(&none(&[("CACHE_DATA_ON_WRITE", "true")]))[0]);
    assert_eq!(counts(&none(&[("CACHE_BLOOMS_ON_WRITE", "true")])), [false, false, true]);
    assert!(counts(&caching_on_write(&[]))[0]);
    assert_eq!(counts(&caching_on_write(&[("BLOCKCACHE", "false")])), [false, false, true]);
}

#[test]
fn a_flush_that_fails_leaves_nothing_of_its_file_in_the_cache() {
    let bench = caching_on_write(&[]);
    bench.flush_rows(0, 2);
    let before = bench.region.cache.counts().blocks;
    (1..ROWS).step_by(2).for_each(|index| bench.put(&row(index), "f:x", 1, "v"));
    for act in 1.. {
        bench.files.set_fault(Some(storage::memory::Fault {
            act: bench.files.acts() + act,
            kind: storage::Kind::Failed,
            outcome: storage::Outcome::DidNotHappen,
            last: false,
        }));
        let flushed = bench.region.flush(FlushReason::Requested);
        bench.files.set_fault(None);
        if flushed.is_ok() {
            assert!(act > 2, "none has failed");
            break;
        }
        assert_eq!(bench.region.cache.counts().blocks, before, "act {act}");
    }
    assert!(bench.region.cache.counts().blocks > before);
    assert_eq!(bench.in_memory().len(), ROWS);
}
