//! Tests of the cache through its public interface.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

pub(crate) fn block(kind: BlockKind, size: usize) -> Block {
    Block {
        kind,
        bytes: vec![0; size].into(),
        offsets: [].into(),
        heads: [].into(),
        shared: 0,
        row_starts: [].into(),
        disk_length: 0,
        previous: None,
        packed: false,
    }
}

const KEEP: Ask = Ask { keep: true, memory_only: false };

type Never = std::convert::Infallible;

fn read(file: &File, offset: u64, ask: Ask) -> (Arc<Block>, bool) {
    let mut read = false;
    let found = file.block::<Never>(offset, BlockKind::Data, ask, || {
        read = true;
        Ok(block(BlockKind::Data, 100))
    });
    let Ok(found) = found;
    (found.expect("the caller may wait"), read)
}

fn is_hit(file: &File, offset: u64) -> bool {
    !read(file, offset, KEEP).1
}

fn of_table(table: &str) -> Caching {
    Caching { table: table.into(), ..Caching::default() }
}

#[test]
fn a_cached_block_is_found_until_its_file_is_removed() {
    let cache = Arc::new(Cache::with_bytes(1 << 20));
    let file = cache.open_file("a", 9, of_table("t"));
    let other = cache.open_file("b", 9, of_table("u"));
    (0..10).for_each(|offset| assert!(!is_hit(&file, offset)));
    assert!(!is_hit(&other, 0));
    (0..10).for_each(|offset| assert!(is_hit(&file, offset)));
    // A file that is closed and opened again finds its blocks; a file of another size is another file.
    let again = cache.open_file("a", 9, of_table("t"));
    assert!(again.has(3));
    assert_eq!(file.remove(), 10);
    assert!(!is_hit(&again, 3) && !is_hit(&again, 3), "blocks of a removed file are not cached");
    assert!(is_hit(&other, 0));
    assert!(!cache.open_file("b", 10, of_table("u")).has(0));
    let tables = cache.tables();
    let of = |table: &str| tables.iter().find(|counts| counts.table == table).expect("known").lookups;
    assert_eq!((of("t").hits(), of("t").misses()), (10, 12));
    assert_eq!((of("u").hits(), of("u").misses()), (1, 1));
    assert_eq!(cache.counts().blocks, 0);
}

#[test]
fn a_file_that_another_user_has_open_is_not_removed() {
    let cache = Arc::new(Cache::with_bytes(1 << 20));
    let file = cache.open_file("a", 9, of_table("t"));
    let clone = cache.open_file("a", 9, of_table("u"));
    assert!(!is_hit(&clone, 3));
    assert_eq!(file.remove_unless_shared(), 1);
    assert!(!is_hit(&clone, 3) && is_hit(&clone, 3), "it is read into the cache again");
    drop(file);
    assert_eq!(clone.remove_unless_shared(), 1);
    assert!(clone.is_gone() && !is_hit(&clone, 3) && !is_hit(&clone, 3));
}

#[test]
fn a_peek_returns_the_cached_block_and_is_not_counted() {
    for of_bucket in [false, true] {
        let cache = Cache::with_bytes(1 << 20);
        let bucket = Bucket::offheap(1 << 20, &BucketOptions::default());
        let cache = Arc::new(if of_bucket { cache.with_bucket(bucket) } else { cache });
        let file = cache.open_file("a", 9, of_table("t"));
        assert!(file.has_data_in_memory());
        let kept: Vec<_> = (0..40).step_by(2).map(|offset| read(&file, offset, KEEP).0).collect();
        let before = cache.tables();
        let peeked = file.peek(BlockKind::Data, 0..40);
        assert_eq!(peeked.len(), 40, "one for each, beyond what is mostly looked for, too");
        for (offset, block) in peeked.iter().enumerate() {
            let expected = (offset % 2 == 0).then(|| &kept[offset / 2]);
            assert_eq!(block.as_ref().map(Arc::as_ptr), expected.map(Arc::as_ptr), "at {offset}");
        }
        let of_index = file.peek(BlockKind::Index, 0..40);
        assert_eq!(of_index.iter().flatten().count(), if of_bucket { 0 } else { 20 }, "beside a bucket");
        assert_eq!(format!("{:?}", cache.tables()), format!("{before:?}"));
    }
}

#[test]
fn lookups_are_counted_by_kind_of_block_and_by_whether_it_is_cached() {
    let cache = Arc::new(Cache::with_bytes(1 << 20));
    let file = cache.open_file("a", 9, of_table("t"));
    for (offset, kind) in BlockKind::ALL.into_iter().enumerate() {
        for keep in [false, true, true] {
            let ask = Ask { keep, memory_only: false };
            let Ok(_) = file.block::<Never>(offset as u64, kind, ask, || Ok(block(kind, 10)));
        }
    }
    let counts = cache.counts();
    let lookups = counts.lookups;
    assert_eq!(BlockKind::ALL.map(|kind| lookups.misses_of(kind)), [2, 1, 1], "data was not kept at first");
    assert_eq!(BlockKind::ALL.map(|kind| lookups.hits_of(kind)), [1, 2, 2]);
    assert_eq!((lookups.caching_hits(), lookups.caching_misses()), (5, 1));
    assert_eq!((lookups.hits_in(Tier::Memory), lookups.hits_in(Tier::Bucket)), (5, 0));
    assert_eq!(counts.blocks_of, [1, 1, 1]);
}

#[test]
fn the_options_of_family_and_server_decide_what_is_cached() {
    let keeps = |switches: Switches, caching: Caching| {
        let cache = Arc::new(Cache::new(Options { switches, ..Options::default() }));
        let file = cache.open_file("a", 9, caching);
        is_hit(&file, 0);
        is_hit(&file, 0)
    };
    let (on, family) = (Switches::default(), Caching::default());
    let off = Switches { data_on_read: false, ..on };
    let not_here = Caching { data_on_read: false, ..family.clone() };
    assert!(keeps(on, family.clone()));
    assert!(!keeps(on, not_here.clone()) && !keeps(off, family.clone()));
    assert!(keeps(off, Caching { prefetch_on_open: true, ..not_here }), "what is prefetched is kept");

    let kinds = |switches: Switches, caching: Caching| {
        let cache = Arc::new(Cache::new(Options { switches, ..Options::default() }));
        let file = cache.open_file("a", 9, caching);
        (file.kept_of_flush(), file.kept_of_compaction(1_000))
    };
    let index = Kinds { index: true, ..Kinds::default() };
    assert_eq!(kinds(on, family.clone()), (Kinds::default(), Kinds::default()));
    assert_eq!(kinds(on, Caching { index_on_write: true, ..family.clone() }), (index, index));
    assert_eq!(kinds(on, Caching { data_on_write: true, ..family.clone() }), (Kinds::ALL, Kinds::default()));
    let blooms = Kinds { blooms: true, ..Kinds::default() };
    assert_eq!(kinds(Switches { blooms_on_write: true, ..on }, family.clone()), (blooms, blooms));
    let compacted = Switches { compacted_on_write: true, compacted_bytes_max: 1_000, ..on };
    assert_eq!(kinds(compacted, family.clone()).1, Kinds::ALL);
    let less = Switches { compacted_bytes_max: 999, ..compacted };
    assert_eq!(kinds(less, family.clone()).1, Kinds::default());
    // The server's switches do not cache data blocks of a family with BLOCKCACHE=false; the family's own attribute does.
    let all_on = Switches { data_on_write: true, index_on_write: true, prefetch_on_open: true, ..compacted };
    let not_here = Caching { data_on_read: false, ..family.clone() };
    assert_eq!(kinds(all_on, family.clone()), (Kinds::ALL, Kinds::ALL));
    assert_eq!(kinds(all_on, not_here.clone()), (index, index));
    assert_eq!(kinds(on, Caching { data_on_write: true, ..not_here.clone() }).0, Kinds::ALL);
    let prefetches = |caching: Caching| {
        let cache = Arc::new(Cache::new(Options { switches: all_on, ..Options::default() }));
        cache.open_file("a", 9, caching).prefetches()
    };
    assert!(prefetches(family.clone()) && !prefetches(not_here.clone()));
    assert!(prefetches(Caching { prefetch_on_open: true, ..not_here }));

    for (evicts, switches, caching) in [
        (false, on, family.clone()),
        (true, Switches { evict_on_close: true, ..on }, family.clone()),
        (true, on, Caching { evict_on_close: true, ..family }),
    ] {
        let cache = Arc::new(Cache::new(Options { switches, ..Options::default() }));
        let file = cache.open_file("a", 9, caching);
        is_hit(&file, 0);
        file.close();
        assert_eq!(file.has(0), !evicts);
    }
}

#[test]
fn a_file_is_being_read_when_requests_have_a_quarter_of_it() {
    let stays_warm = |stays_warm| Switches { stays_warm, ..Switches::default() };
    for (of_bucket, switch) in [(false, true), (true, true), (false, false)] {
        let cache = Cache::new(Options { switches: stays_warm(switch), ..Options::default() });
        let bucket = Bucket::offheap(1 << 20, &BucketOptions::default());
        let cache = Arc::new(if of_bucket { cache.with_bucket(bucket) } else { cache });
        let (file, other) =
            (cache.open_file("a", 4_000, of_table("t")), cache.open_file("b", 1, of_table("t")));
        let of_100 = || Block { disk_length: 100, ..block(BlockKind::Data, 90) };
        let ask = |offset| file.block::<Never>(offset, BlockKind::Data, KEEP, || Ok(of_100()));
        assert!((0..20).all(|offset| file.put(offset, of_100(), offset % 2 == 0)));
        assert!(!file.is_being_read() && !other.is_being_read(), "what nobody has asked for");
        for offset in 0..9 {
            let Ok(_hit) = ask(offset);
        }
        assert!(!file.is_being_read(), "900 of 4,000 bytes");
        let Ok(_miss) = ask(30);
        assert_eq!((file.is_being_read(), other.is_being_read()), (switch, false), "a miss counts, too");
        file.evict();
        assert!(!file.is_being_read());
    }
    let nothing = Arc::new(Cache::with_bytes(0)).open_file("a", 0, of_table("t"));
    assert!(!nothing.is_being_read());
}

#[test]
fn a_lookup_that_would_block_is_not_counted() {
    let cache = Arc::new(Cache::with_bytes(1 << 20));
    let file = cache.open_file("a", 9, Caching::default());
    let look = || {
        let ask = Ask { keep: true, memory_only: true };
        let Ok(found) = file.block::<Never>(7, BlockKind::Data, ask, || unreachable!("it would wait"));
        found.is_some()
    };
    assert!(!look());
    assert_eq!(cache.counts().lookups.misses(), 0);
    assert!(!is_hit(&file, 7) && look());
}

#[test]
fn one_of_several_readers_of_a_missing_block_reads_it() {
    let cache = Arc::new(Cache::with_bytes(1 << 20));
    for keep in [true, false] {
        let file = cache.open_file(if keep { "kept" } else { "not kept" }, 9, Caching::default());
        let reads = AtomicUsize::new(0);
        let arrived = AtomicUsize::new(0);
        let key = BlockKey { file: file.id(), offset: 5 };
        env::together("misser", 6, || {
            arrived.fetch_add(1, Ordering::SeqCst);
            let ask = Ask { keep, memory_only: false };
            let Ok(found) = file.block::<Never>(5, BlockKind::Data, ask, || {
                reads.fetch_add(1, Ordering::SeqCst);
                // The read ends only when all other threads wait for it.
                while cache.flights.followers(key) + 1 < 6 && arrived.load(Ordering::SeqCst) <= 6 {
                    std::thread::yield_now();
                }
                Ok(block(BlockKind::Data, 100))
            });
            assert_eq!(found.expect("read").bytes.len(), 100);
        });
        assert_eq!(reads.load(Ordering::SeqCst), 1);
        assert_eq!(file.has(5), keep);
        assert_eq!(cache.flights.followers(key), 0, "nothing is left of the read");
    }
}

#[test]
fn a_waiter_of_a_failed_read_reads_for_itself() {
    let cache = Arc::new(Cache::with_bytes(1 << 20));
    let file = cache.open_file("a", 9, Caching::default());
    let (reads, failures) = (AtomicUsize::new(0), AtomicUsize::new(0));
    env::together("misser", 4, || {
        let found = file.block(5, BlockKind::Data, KEEP, || match reads.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Err("a bad disk"),
            _ => Ok(block(BlockKind::Data, 100)),
        });
        failures.fetch_add(usize::from(found.is_err()), Ordering::SeqCst);
    });
    assert_eq!((reads.load(Ordering::SeqCst), failures.load(Ordering::SeqCst)), (3, 2));
    assert!(file.has(5));
}

#[test]
fn the_limit_is_kept_and_what_is_used_stays() {
    let cache = Arc::new(Cache::with_bytes(100_000));
    let file = cache.open_file("a", 9, Caching::default());
    is_hit(&file, 0);
    for offset in 1..2_000 {
        is_hit(&file, offset);
        assert!(is_hit(&file, 0), "the block in use went at {offset}");
        assert!(cache.counts().bytes <= 100_000);
    }
    let counts = cache.counts();
    assert!(counts.evicted + counts.refused > 1_000, "{counts:?}");
    let never = Arc::new(Cache::with_bytes(0));
    let file = never.open_file("a", 9, Caching::default());
    assert!(!is_hit(&file, 0) && !is_hit(&file, 0));
}

#[test]
fn a_block_outlives_its_eviction() {
    let cache = Arc::new(Cache::with_bytes(1 << 20));
    let file = cache.open_file("a", 9, Caching::default());
    let (held, _) = read(&file, 0, KEEP);
    assert_eq!(file.evict(), 1);
    assert_eq!((held.bytes.len(), Arc::strong_count(&held)), (100, 1));
}

#[test]
fn files_without_blocks_and_readers_are_forgotten() {
    let cache = Arc::new(Cache::with_bytes(1 << 20));
    let open = cache.open_file("open", 9, Caching::default());
    is_hit(&cache.open_file("kept", 9, Caching::default()), 0);
    (0..5_000).for_each(|name| drop(cache.open_file(&format!("{name}"), 9, Caching::default())));
    assert!(cache.files.lock().len() < 2_100);
    assert!(cache.open_file("kept", 9, Caching::default()).has(0));
    is_hit(&open, 1);
    assert!(cache.open_file("open", 9, Caching::default()).has(1));
}
