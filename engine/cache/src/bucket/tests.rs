//! Tests of the bucket cache over devices with every kind of fault: no wrong byte is returned, and no request fails.

use std::sync::atomic::{AtomicU64, Ordering};

mod mapped;

use env::WallTime;
use storage::{DeviceFault, Scratch};

use super::*;
use crate::tests::block;
use crate::{Ask, BlockKind, Cache, Caching, File, Options, Persistence, Tier};

const SIZES: [u32; 2] = [1_024, 4_096];
const BUCKET: u64 = 4 * 4_096;

fn options() -> BucketOptions {
    BucketOptions { slot_sizes: SIZES.to_vec(), queue_length: 10_000, ..BucketOptions::default() }
}

/// A cache with a small memory tier, and a bucket cache on devices.
struct Bench {
    devices: Vec<Scratch>,
    world: World,
    cache: Arc<Cache>,
    file: File,
}

impl Bench {
    fn new(devices: usize, buckets: u64, options: &BucketOptions) -> Bench {
        Bench::with_memory(0, devices, buckets, options)
    }

    fn with_memory(bytes_max: usize, devices: usize, buckets: u64, options: &BucketOptions) -> Bench {
        let devices: Vec<Scratch> = (0..devices).map(|_| Scratch::new(buckets * BUCKET)).collect();
        let shared = devices.iter().map(|device| Arc::new(device.clone()) as Arc<dyn Device>).collect();
        Bench { devices, ..Bench::on(shared, bytes_max, options) }
    }

    fn on(shared: Vec<Arc<dyn Device>>, bytes_max: usize, options: &BucketOptions) -> Bench {
        let world = World::simulated(1, WallTime(0));
        let bucket = Bucket::on(shared, options, world.clone());
        let cache = Arc::new(Cache::new(Options { bytes_max, ..Options::default() }).with_bucket(bucket));
        let file = cache.open_file("data/default/t/r/f/1", 1 << 40, Caching::default());
        Bench { devices: Vec::new(), world, cache, file }
    }

    /// Returns the block at `offset`, as it should be.
    fn content(offset: u64) -> Block {
        let bytes: Vec<u8> = (0..500 + (offset % 7) * 400).map(|at| (at * 31 + offset * 7) as u8).collect();
        let block = block(BlockKind::Data, 0);
        Block {
            bytes: bytes.into(),
            offsets: (0..offset as u32 % 9).map(|cell| cell * 50).collect(),
            row_starts: (0..(offset as u32 % 9).min(1)).collect(),
            disk_length: offset as u32,
            ..block
        }
    }

    /// Reads a block, checks its content, and returns whether it was in the cache.
    fn read(&self, offset: u64) -> bool {
        let mut hit = true;
        let ask = Ask { keep: true, memory_only: false };
        let Ok(found) = self.file.block::<std::convert::Infallible>(offset, BlockKind::Data, ask, || {
            hit = false;
            Ok(Bench::content(offset))
        });
        let found = found.expect("the caller may wait");
        assert_eq!(format!("{found:?}"), format!("{:?}", Bench::content(offset)), "the block at {offset}");
        hit
    }

    /// Asks for two cells of a block, checks the answer, and returns whether they came from the device.
    fn part(&self, offset: u64) -> bool {
        let right = Bench::content(offset);
        let wanted = offset as usize / 2 % right.offsets.len().max(1);
        match self.file.part(offset, true, |_| wanted..wanted + 2) {
            None => false,
            Some(Cells::Whole(block)) => {
                assert_eq!(format!("{block:?}"), format!("{right:?}"), "the block at {offset}");
                false
            }
            Some(Cells::Part(part)) => {
                let offsets: Vec<u32> = part.offsets().iter().map(|word| u32::from_le_bytes(*word)).collect();
                assert_eq!(offsets, right.offsets.to_vec(), "the block at {offset}");
                assert_eq!(part.here(), wanted..(wanted + 2).min(offsets.len()));
                let (from, bytes) = (part.from(), part.bytes());
                assert_eq!(
                    bytes,
                    &right.bytes[from..from + bytes.len()],
                    "from {from} of the block at {offset}"
                );
                true
            }
        }
    }

    fn parts(&self, offsets: std::ops::Range<u64>) -> usize {
        offsets.filter(|&offset| self.part(offset)).count()
    }

    fn settle(&self) {
        self.cache.bucket().expect("there is one").settle();
    }

    fn counts(&self) -> BucketCounts {
        self.cache.bucket().expect("there is one").counts()
    }

    fn hits(&self, offsets: std::ops::Range<u64>) -> usize {
        offsets.filter(|&offset| self.read(offset)).count()
    }
}

#[test]
fn blocks_are_read_back_unchanged_from_several_devices() {
    let bench = Bench::new(2, 20, &options());
    assert_eq!(bench.hits(0..100), 0);
    bench.settle();
    assert_eq!(bench.hits(0..100), 100);
    assert!(bench.devices.iter().all(|device| device.acts().1 > 10), "both are written");
    assert!(bench.devices.iter().all(|device| device.acts().0 > 10), "both are read");
    let lookups = bench.cache.counts().lookups;
    assert_eq!((lookups.hits_in(Tier::Bucket), lookups.misses()), (100, 100));
    let counts = bench.counts();
    assert_eq!((counts.blocks, counts.bytes_max), (100, 2 * 20 * BUCKET));
    assert_eq!(counts.slots.iter().map(|slots| slots.used).sum::<u64>(), 100);
    assert_eq!(bench.file.remove(), 100);
    assert!(bench.counts().slots.iter().all(|slots| (slots.used, slots.buckets) == (0, 0)));
}

#[test]
fn a_reader_of_few_cells_copies_only_these() {
    let bench = Bench::new(2, 40, &options());
    assert_eq!((bench.parts(0..200), bench.hits(0..200)), (0, 0));
    bench.settle();
    // Every ninth block has no cells, and so no parts.
    assert_eq!(bench.parts(0..200), 200 - 23);
    let lookups = bench.cache.counts().lookups;
    assert_eq!((lookups.hits_in(Tier::Bucket), lookups.misses()), (200 - 23, 200));
    bench.devices.iter().for_each(|device| device.set_waits(true));
    assert_eq!(bench.parts(0..200), 0, "nobody waits for a part");
    // A block for which memory has room is read whole.
    let bench = Bench::with_memory(100_000, 1, 40, &options());
    bench.hits(0..20);
    bench.settle();
    bench.file.cache().memory.as_ref().expect("there is one").evict_file(bench.file.id());
    assert_eq!((bench.parts(1..9), bench.hits(1..9), bench.parts(1..9)), (0, 8, 0));
    assert_eq!(bench.cache.counts().lookups.hits_in(Tier::Bucket), 8);
    assert_eq!(bench.cache.counts().lookups.hits_in(Tier::Memory), 8);
    // When memory is full, only parts are read.
    bench.hits(1_000..1_200);
    bench.hits(1_000..1_200);
    bench.settle();
    assert!(bench.parts(1_000..1_200) > 50);
}

#[test]
fn the_cell_offsets_of_a_block_are_read_once_and_dropped_with_the_block() {
    let reads = |bench: &Bench| bench.devices.iter().map(|device| device.acts().0).sum::<u64>();
    let fails = |bench: &Bench, fault| bench.devices.iter().for_each(|device| device.set_fault(fault));
    let reads_of = |head_bytes_max: u64| {
        let bench = Bench::new(2, 40, &BucketOptions { head_bytes_max, ..options() });
        bench.hits(0..200);
        bench.settle();
        let rounds: Vec<u64> = (0..3)
            .map(|_| {
                let before = reads(&bench);
                assert_eq!(bench.parts(0..200), 200 - 23);
                reads(&bench) - before
            })
            .collect();
        (bench, rounds)
    };
    // For the 23 blocks without cells only the head is read, each time.
    let twice = 2 * (200 - 23) + 23;
    let once = 200;
    let (bench, rounds) = reads_of(0);
    assert_eq!((rounds, bench.counts().head_bytes), (vec![twice; 3], 0));
    let (bench, rounds) = reads_of(1 << 20);
    assert_eq!(rounds, [twice, once, once]);
    let whole = bench.counts().head_bytes;
    assert!(whole > 0);
    // A bit that flips in the bytes is noticed, although the head is not read again.
    fails(&bench, DeviceFault::ReadFlips);
    assert_eq!(bench.parts(1..2), 0);
    fails(&bench, DeviceFault::None);
    assert_eq!(bench.counts().corrupt, 1);
    assert!(bench.counts().head_bytes < whole, "the block is gone, and its head");
    // Where there is room for some heads, these stay.
    let (some, rounds) = reads_of(whole / 2);
    assert!(rounds[1] < twice && rounds[1] > once && rounds[2] == rounds[1], "{rounds:?}");
    let kept = some.counts().head_bytes;
    assert!(kept <= whole / 2 && kept > whole / 4, "{kept} of {whole}");
    // Other heads take their place when their blocks are removed, by eviction or with their file.
    for _ in 0..3 {
        some.hits(1_000..1_800);
        some.settle();
        some.parts(1_000..1_800);
    }
    assert!(some.counts().evicted > 0 && some.counts().head_bytes <= whole / 2);
    for bench in [bench, some] {
        bench.file.remove();
        assert_eq!((bench.counts().blocks, bench.counts().head_bytes), (0, 0));
    }
}

#[test]
fn a_small_block_does_not_hold_the_memory_that_a_large_one_was_read_into() {
    let bench = Bench::new(1, 20, &options());
    let (small, large) = (7, 6);
    assert!(!bench.read(small) && !bench.read(large));
    bench.settle();
    let place_of = |offset: u64| {
        let ask = Ask { keep: true, memory_only: true };
        let Ok(found) = bench
            .file
            .block::<std::convert::Infallible>(offset, BlockKind::Data, ask, || unreachable!("kept"));
        found.expect("kept").bytes.as_ptr_range()
    };
    let before = place_of(large);
    assert!(
        !before.contains(&place_of(small).end),
        "it may be kept in memory, where its own length is counted"
    );
    assert_eq!(place_of(large), before, "one that is as long is used again");
}

#[test]
fn a_queue_of_the_greatest_configurable_length_is_accepted() {
    let queue_length = usize::MAX / 2 + 1;
    let bench = Bench::new(1, 20, &BucketOptions { queue_length, writer_threads: 2, ..options() });
    bench.hits(0..5);
    bench.settle();
    assert_eq!(bench.hits(0..5), 5);
}

#[test]
fn a_full_cache_evicts_and_stays_within_its_size() {
    let bench = Bench::new(1, 10, &options());
    for round in 0..4 {
        for offset in round * 1_000..round * 1_000 + 300 {
            bench.read(offset);
            bench.read(offset);
        }
        bench.settle();
        let counts = bench.counts();
        assert!(counts.bytes <= counts.bytes_max && counts.blocks > 20, "{counts:?}");
        assert_eq!(counts.blocks, counts.slots.iter().map(|slots| slots.used).sum::<u64>());
        assert_eq!((counts.corrupt, counts.failed), (0, 0));
    }
}

#[test]
fn prefetched_blocks_use_free_room_and_evict_nothing() {
    let bench = Bench::new(1, 10, &options());
    (0..5).for_each(|at| assert!(!bench.read(7 * at)));
    let put = |at: u64, asked_for: bool| bench.file.put(7 * at, Bench::content(7 * at), asked_for);
    let kept = (5..1_000).filter(|at| put(*at, false)).count() as u64;
    bench.settle();
    let counts = bench.counts();
    assert_eq!((counts.evicted, counts.refused, counts.dropped), (0, 0, 0), "{counts:?}");
    assert!(counts.bytes > counts.bytes_max * 9 / 10 && counts.blocks == kept + 5, "{kept}, {counts:?}");
    assert!((0..5).all(|at| bench.read(7 * at)), "what was there is there");
    // Blocks that the family wants cached compete with the cached ones.
    assert!((1_000..2_000).all(|at| put(at, true)));
    bench.settle();
    assert!(bench.counts().evicted > 0, "{:?}", bench.counts());
}

#[test]
fn with_a_second_tier_prefetched_blocks_evict_nothing_from_memory() {
    // A queue of length one is always full: blocks that no writer takes are dropped, and later requests still offer
    // them.
    let options = BucketOptions { queue_length: 1, writer_threads: 1, ..options() };
    let bench = Bench::with_memory(20_000, 1, 100, &options);
    let hot = 0..20;
    for _ in 0..4 {
        hot.clone().for_each(|at| _ = bench.read(7 * at));
        bench.settle();
    }
    let before = bench.cache.counts();
    assert!(before.blocks > 10, "{before:?}");
    for in_memory in [false, true] {
        let caching = Caching { in_memory, ..Caching::default() };
        let file = bench.cache.open_file("data/default/t/r/f/2", 1 << 40, caching);
        let tried = (0..500).filter(|at| file.put(7 * at, Bench::content(7 * at), false)).count();
        assert!(tried > 400, "{tried}");
        bench.settle();
        let counts = bench.cache.counts();
        assert_eq!((counts.evicted, counts.refused), (before.evicted, before.refused), "{counts:?}");
        file.remove();
    }
    assert!(bench.counts().dropped > 0 && bench.counts().evicted == 0, "{:?}", bench.counts());
}

#[test]
fn a_size_without_slots_takes_them_from_others() {
    let bench = Bench::new(1, 3, &BucketOptions { fill: 1.0, ..options() });
    // Blocks of 500 bytes fill all buckets with small slots …
    (0..48).for_each(|at| assert!(!bench.read(7 * at)));
    bench.settle();
    assert_eq!(bench.counts().slots[0].used, 48);
    // … then larger ones are asked for more often.
    for _ in 0..5 {
        (0..8).for_each(|at| {
            bench.read(7 * at + 6);
        });
        bench.settle();
    }
    let counts = bench.counts();
    assert!(counts.slots[1].used > 0, "{counts:?}");
    assert_eq!(counts.evicted, counts.slots.iter().map(|slots| slots.evicted).sum::<u64>(), "{counts:?}");
    assert!(counts.evicted > 0);
}

#[test]
fn with_a_second_tier_memory_keeps_frequently_used_blocks() {
    let bench = Bench::with_memory(1 << 20, 1, 20, &options());
    bench.read(3);
    bench.settle();
    assert!(bench.read(3));
    assert_eq!(bench.cache.counts().lookups.hits_in(Tier::Memory), 1);
    assert_eq!(bench.counts().blocks, 1);
}

#[test]
fn a_read_in_memory_never_waits_for_a_device() {
    let bench = Bench::new(1, 20, &options());
    bench.read(3);
    bench.settle();
    let now = || {
        let ask = Ask { keep: true, memory_only: true };
        let Ok(found) = bench
            .file
            .block::<std::convert::Infallible>(3, BlockKind::Data, ask, || unreachable!("it would wait"));
        found.is_some()
    };
    assert!(now());
    bench.devices[0].set_waits(true);
    assert!(!now());
    assert!(bench.read(3), "who may wait gets it from there");
}

#[test]
fn no_fault_of_a_device_costs_more_than_a_hit() {
    for fault in [
        DeviceFault::ReadFails,
        DeviceFault::ReadShort,
        DeviceFault::ReadFlips,
        DeviceFault::Full,
        DeviceFault::WriteLost,
        DeviceFault::Gone,
    ] {
        let bench = Bench::new(1, 40, &options());
        bench.hits(0..50);
        bench.settle();
        bench.devices[0].set_fault(fault);
        for round in 0..3 {
            // Old blocks and new ones: the bench checks each byte.
            bench.parts(0..80);
            bench.hits(0..80 + 20 * round);
            bench.settle();
        }
        let counts = bench.counts();
        assert!(!counts.disabled, "{fault:?}: it may pass");
        let harm = counts.corrupt + counts.failed;
        assert!(harm > 0, "{fault:?} was met: {counts:?}");
        bench.devices[0].set_fault(DeviceFault::None);
        bench.hits(0..80);
        bench.settle();
        assert_eq!(bench.hits(0..80), 80, "{fault:?} has passed");
        let counts = bench.counts();
        assert_eq!(counts.blocks, counts.slots.iter().map(|slots| slots.used).sum::<u64>(), "{fault:?}");
    }
}

#[test]
fn bits_that_flip_where_blocks_lie_are_found() {
    let bench = Bench::new(1, 40, &options());
    bench.hits(0..50);
    bench.settle();
    bench.devices[0].damage(|bytes| bytes.iter_mut().step_by(2_503).for_each(|byte| *byte ^= 4));
    // Damage in bytes that were not copied is found when the whole block is read.
    let parts = bench.parts(0..50);
    let met = bench.counts().corrupt;
    assert!(parts > 10 && met > 5, "{parts} were sound, {met} were not");
    let hits = bench.hits(0..50);
    let counts = bench.counts();
    assert!(counts.corrupt > met);
    assert_eq!(hits as u64 + counts.corrupt, 50);
    assert!(counts.corrupt > 10 && !counts.disabled);
}

#[test]
fn a_device_that_fails_for_too_long_is_used_no_more() {
    let tolerated = Duration::from_secs(60);
    let bench = Bench::new(1, 40, &BucketOptions { errors_tolerated: tolerated, ..options() });
    bench.hits(0..50);
    bench.settle();
    bench.devices[0].set_fault(DeviceFault::Gone);
    bench.hits(0..10);
    bench.settle();
    bench.world.advance(tolerated / 2);
    bench.hits(10..20);
    bench.settle();
    assert!(!bench.counts().disabled);
    bench.devices[0].set_fault(DeviceFault::None);
    assert!(bench.read(40), "a success in between");
    bench.devices[0].set_fault(DeviceFault::Gone);
    bench.world.advance(tolerated / 2);
    bench.hits(20..30);
    bench.settle();
    assert!(!bench.counts().disabled, "the time counts from the first failure after a success");
    bench.world.advance(tolerated);
    bench.hits(30..40);
    bench.settle();
    let counts = bench.counts();
    assert!(counts.disabled && counts.blocks == 0);
    let acts = bench.devices[0].acts();
    assert_eq!(bench.hits(0..50), 0);
    bench.settle();
    assert_eq!(bench.devices[0].acts(), acts, "it is left alone");
}

#[test]
fn a_device_that_is_full_for_too_long_is_still_read_and_no_longer_written() {
    let tolerated = Duration::from_secs(60);
    let bench = Bench::new(1, 40, &BucketOptions { errors_tolerated: tolerated, ..options() });
    bench.hits(0..50);
    bench.settle();
    bench.devices[0].set_fault(DeviceFault::Full);
    // Reads succeed between the writes that fail.
    for second in 0..59 {
        assert_eq!((bench.hits(0..50), bench.hits(1_000 + second..1_001 + second)), (50, 0));
        bench.settle();
        assert!(!bench.counts().read_only, "it may pass");
        bench.world.advance(Duration::from_secs(1));
    }
    // One write succeeds, and the time is measured anew.
    bench.devices[0].set_fault(DeviceFault::None);
    assert!(!bench.read(2_000));
    bench.settle();
    bench.devices[0].set_fault(DeviceFault::Full);
    bench.hits(3_000..3_001);
    bench.settle();
    bench.world.advance(tolerated);
    assert!(!bench.counts().read_only);
    bench.hits(3_001..3_020);
    bench.settle();
    let counts = bench.counts();
    assert!(counts.read_only && !counts.disabled, "{counts:?}");
    assert_eq!(counts.blocks, 51, "nothing waits for a writer any more");
    assert_eq!(counts.slots.iter().map(|slots| slots.used).sum::<u64>(), 51);
    let (_, writes) = bench.devices[0].acts();
    bench.devices[0].set_fault(DeviceFault::None);
    assert_eq!((bench.hits(4_000..4_100), bench.hits(0..50)), (0, 50));
    bench.settle();
    assert_eq!(bench.devices[0].acts().1, writes, "it is given nothing more");
    // When reads fail too, the device is no longer used.
    bench.devices[0].set_fault(DeviceFault::Gone);
    bench.hits(0..10);
    bench.world.advance(tolerated);
    bench.hits(10..20);
    let counts = bench.counts();
    assert!(counts.disabled && !counts.read_only && counts.blocks == 0, "{counts:?}");
}

/// Returns the state of each device in one word.
fn states(counts: &BucketCounts) -> Vec<&'static str> {
    let state = |device: &DeviceCounts| match (device.disabled, device.read_only) {
        (true, _) => "disabled",
        (false, true) => "read only",
        (false, false) => "sound",
    };
    counts.devices.iter().map(state).collect()
}

#[test]
fn a_full_device_is_no_longer_written_and_the_others_stay_in_use() {
    let tolerated = Duration::from_secs(60);
    let bench = Bench::new(3, 10, &BucketOptions { errors_tolerated: tolerated, ..options() });
    bench.hits(0..60);
    bench.settle();
    let (before, there) = (bench.counts(), bench.counts().blocks);
    assert_eq!((before.bytes_max, there), (30 * BUCKET, 60));
    bench.devices[1].set_fault(DeviceFault::Full);
    // The other devices accept blocks between the failing writes.
    for round in 0..30 {
        if round < 3 {
            assert_eq!(states(&bench.counts()), ["sound"; 3], "it may pass");
        }
        bench.hits(0..60);
        bench.hits(1_000 + 10 * round..1_010 + 10 * round);
        bench.settle();
        bench.world.advance(tolerated / 3);
    }
    let counts = bench.counts();
    assert_eq!(states(&counts), ["sound", "read only", "sound"]);
    assert!(!counts.read_only && !counts.disabled, "{counts:?}");
    assert!(counts.devices[1].failed == counts.failed && counts.failed > 0);
    let (reads, _) = bench.devices[1].acts();
    assert!(bench.hits(0..60) > 30 && bench.devices[1].acts().0 > reads, "what is there is read");
    // Twice as many blocks as there is room for: the old blocks are evicted, and their slots are not used again.
    let (_, writes) = bench.devices[1].acts();
    bench.devices[1].set_fault(DeviceFault::None);
    for round in 0..30 {
        let from = 2_000 + round / 10 * 1_000;
        bench.hits(from..from + 60);
        bench.settle();
    }
    assert_eq!(bench.devices[1].acts().1, writes, "it is given nothing more");
    let counts = bench.counts();
    assert!(counts.bytes_max >= 20 * BUCKET && counts.bytes_max < 30 * BUCKET, "{counts:?}");
    assert!(counts.bytes <= counts.bytes_max && counts.blocks > 60, "{counts:?}");
    assert_eq!(counts.blocks, counts.slots.iter().map(|slots| slots.used).sum::<u64>());
    assert!(counts.slots.iter().map(|one| one.slots * u64::from(one.size)).sum::<u64>() <= counts.bytes_max);
    let hits = bench.hits(4_000..4_060);
    assert!(hits > 30, "{hits}: the others go on");
    // When the last device is full too, no block is admitted any more, and the cached blocks stay.
    bench.devices.iter().for_each(|device| device.set_fault(DeviceFault::Full));
    for round in 0..100 {
        let from = 5_000 + 100 * round;
        bench.hits(from..from + 40);
        bench.hits(from..from + 40);
        bench.settle();
        bench.world.advance(tolerated / 2);
    }
    let counts = bench.counts();
    assert!(counts.read_only && !counts.disabled, "{counts:?}");
    assert_eq!(states(&counts), ["read only"; 3]);
    let hits = bench.hits(4_000..4_060);
    assert!(hits > 10, "{hits}: what is there is read");
    assert_eq!(bench.hits(4_000..4_060), hits, "no further block is written or evicted");
}

#[test]
fn a_device_that_cannot_be_read_is_no_longer_used_and_the_others_stay_in_use() {
    let tolerated = Duration::from_secs(60);
    let bench = Bench::new(3, 10, &BucketOptions { errors_tolerated: tolerated, ..options() });
    bench.hits(0..60);
    bench.settle();
    bench.devices[2].set_fault(DeviceFault::ReadFails);
    // Blocks whose reads fail are removed and written again, some of them to the same slots.
    for _ in 0..4 {
        assert_eq!(states(&bench.counts()), ["sound"; 3], "it may pass");
        bench.hits(0..60);
        bench.settle();
        bench.world.advance(tolerated / 3);
    }
    bench.hits(0..60);
    bench.settle();
    let counts = bench.counts();
    assert_eq!(states(&counts), ["sound", "sound", "disabled"]);
    assert!(!counts.read_only && !counts.disabled && counts.bytes_max == 20 * BUCKET, "{counts:?}");
    assert_eq!(counts.blocks, counts.slots.iter().map(|slots| slots.used).sum::<u64>());
    let acts = bench.devices[2].acts();
    bench.hits(0..60);
    bench.settle();
    assert_eq!(bench.hits(0..60), 60, "all of it is with the others");
    assert_eq!(bench.devices[2].acts(), acts, "it is left alone");
    // When the last device fails, the cache is disabled.
    bench.devices.iter().for_each(|device| device.set_fault(DeviceFault::Gone));
    for _ in 0..3 {
        bench.hits(0..60);
        bench.settle();
        bench.world.advance(tolerated);
    }
    let counts = bench.counts();
    assert!(counts.disabled && counts.blocks == 0 && counts.bytes_max == 0, "{counts:?}");
    assert_eq!(states(&counts), ["disabled"; 3]);
}

#[test]
fn an_empty_device_that_cannot_be_written_is_no_longer_used() {
    let bench = Bench::new(1, 40, &options());
    bench.hits(0..5);
    bench.settle();
    bench.devices[0].set_fault(DeviceFault::Gone);
    for _ in 0..2 {
        bench.hits(0..5);
        bench.settle();
        bench.world.advance(Duration::from_secs(60));
    }
    assert!(bench.counts().disabled);
}

#[test]
fn blocks_are_added_and_evicted_while_the_index_is_written() {
    let buckets = 600;
    let index = Scratch::new(Persistence::bytes_for(buckets * BUCKET, &SIZES));
    let bench = next_life(Bench::new(1, buckets, &options()), &index);
    bench.hits(0..2_000);
    bench.settle();
    let all = |bench: &Bench| {
        let mut offsets: Vec<u64> =
            bench.cache.bucket().expect("there is one").placed().iter().map(|it| it.offset).collect();
        offsets.sort_unstable();
        offsets
    };
    assert_eq!(all(&bench), (0..2_000).collect::<Vec<_>>(), "more than are looked through at a time");
    let turn = AtomicU64::new(0);
    env::together("reader", 3, || {
        let mine = turn.fetch_add(1, Ordering::SeqCst);
        for round in 0..6 {
            if mine == 0 {
                bench.cache.persist().expect("kept");
                continue;
            }
            let from = 10_000 * (mine + 2 * round);
            bench.hits(from..from + 1_000);
            bench.hits(from..from + 1_000);
        }
    });
    // The last saved index of the device is usable.
    let bench = next_life(bench, &index);
    let restored = bench.counts().blocks;
    assert!(restored > 500, "{restored}");
    for from in (0..15).map(|part| part * 10_000) {
        bench.hits(from..from + 1_000);
    }
    assert_eq!(bench.counts().corrupt, 0);
}

#[test]
fn under_load_and_faults_every_block_is_right() {
    let bench = Bench::new(2, 10, &options());
    let faults = [DeviceFault::None, DeviceFault::ReadFlips, DeviceFault::Gone, DeviceFault::WriteLost];
    let turn = std::sync::atomic::AtomicUsize::new(0);
    env::together("reader", 4, || {
        for _ in 0..4 {
            let turn = turn.fetch_add(1, Ordering::SeqCst);
            bench.devices[turn % 2].set_fault(faults[turn % 4]);
            bench.parts(0..150);
            bench.hits(0..150);
        }
    });
    bench.devices.iter().for_each(|device| device.set_fault(DeviceFault::None));
    bench.settle();
    bench.hits(0..150);
}

#[test]
fn in_memory_data_is_in_the_bucket_cache_and_the_rest_is_not() {
    let bucket = Bucket::offheap(1 << 20, &BucketOptions::default());
    let cache = Arc::new(Cache::with_bytes(1 << 20).with_bucket(bucket));
    let file = cache.open_file("f", 9, Caching::default());
    for (offset, kind) in BlockKind::ALL.into_iter().enumerate() {
        for _ in 0..3 {
            let ask = Ask { keep: true, memory_only: false };
            let Ok(_) =
                file.block::<std::convert::Infallible>(offset as u64, kind, ask, || Ok(block(kind, 10)));
        }
    }
    let (counts, bucket) = (cache.counts(), cache.bucket().expect("there is one").counts());
    assert_eq!((counts.blocks_of, bucket.blocks), ([0, 1, 1], 1));
    assert_eq!((counts.lookups.hits_in(Tier::Bucket), counts.lookups.hits_in(Tier::Memory)), (2, 4));
    let all = Bucket::offheap(1 << 20, &BucketOptions::default()).with_combined(false);
    let cache = Arc::new(Cache::with_bytes(1 << 20).with_bucket(all));
    let file = cache.open_file("f", 9, Caching::default());
    file.put(0, block(BlockKind::Data, 10), false);
    file.put(1, block(BlockKind::Index, 10), false);
    assert_eq!((cache.counts().blocks, cache.bucket().expect("there is one").counts().blocks), (2, 2));
}

/// Starts the next process with the devices and the saved index of the last one.
fn next_life(bench: Bench, index: &Scratch) -> Bench {
    let shared = bench.devices.iter().map(|device| Arc::new(device.clone()) as Arc<dyn Device>).collect();
    let bucket = Bucket::on(shared, &options(), bench.world.clone());
    let cache = Cache::new(Options { bytes_max: 0, ..Options::default() }).with_bucket(bucket);
    let cache = Arc::new(cache.with_persistence(Persistence::on(Arc::new(index.clone()))));
    let file = cache.open_file("data/default/t/r/f/1", 1 << 40, Caching::default());
    Bench { cache, file, ..bench }
}

#[test]
fn the_next_process_finds_what_the_last_one_had_kept() {
    let index = Scratch::new(Persistence::bytes_for(80 * BUCKET, &SIZES));
    let bench = next_life(Bench::new(2, 40, &options()), &index);
    assert_eq!(bench.hits(0..100), 0);
    bench.settle();
    bench.cache.persist().expect("kept");
    // Blocks that are written after the last snapshot are lost with the process.
    bench.hits(100..120);
    bench.settle();
    let bench = next_life(bench, &index);
    assert_eq!(bench.counts().blocks, 100);
    assert_eq!((bench.hits(0..100), bench.hits(100..120)), (100, 0));
    bench.settle();
    let counts = bench.counts();
    assert_eq!((counts.corrupt, counts.slots.iter().map(|slots| slots.used).sum::<u64>()), (0, 120));
    // A file of another size counts as another file.
    assert!(!bench.cache.open_file("data/default/t/r/f/1", 7, Caching::default()).has(3));
}

#[test]
fn an_index_of_a_version_with_another_record_format_is_ignored() {
    let index = Scratch::new(Persistence::bytes_for(20 * BUCKET, &SIZES));
    let bench = next_life(Bench::new(1, 20, &options()), &index);
    bench.hits(0..10);
    bench.settle();
    bench.cache.persist().expect("kept");
    let half = index.size() as usize / 2;
    // Changes only the magic of the records.
    index.damage(|bytes| {
        for half in bytes.chunks_exact_mut(half).filter(|half| half.starts_with(b"BKI")) {
            let length = u64::from_le_bytes(*half[16..].first_chunk().expect("a length")) as usize;
            let kind =
                half.windows(4).position(|word| word == RECORD_MAGIC).expect("it says what records are");
            half[kind + 3] -= 1;
            let sum = checksum(&half[8..24 + length]);
            half[4..8].copy_from_slice(&sum.to_le_bytes());
        }
    });
    let bench = next_life(bench, &index);
    assert_eq!((bench.counts().blocks, bench.hits(0..10)), (0, 0));
    bench.settle();
    assert_eq!((bench.hits(0..10), bench.counts().corrupt), (10, 0));
}

#[test]
fn a_restored_slot_that_differs_is_stale_and_a_confirmed_one_corrupt() {
    let index = Scratch::new(Persistence::bytes_for(20 * BUCKET, &SIZES));
    let mut bench = next_life(Bench::new(1, 20, &options()), &index);
    bench.hits(0..60);
    bench.settle();
    bench.cache.persist().expect("kept");
    bench.file.evict();
    bench.hits(1_000..1_060);
    bench.settle();
    // The next process saves the restored index before it has verified it, and is killed, too.
    bench = next_life(bench, &index);
    assert_eq!(bench.counts().blocks, 60);
    bench.read(3_000);
    bench.settle();
    bench.cache.persist().expect("kept");
    bench = next_life(bench, &index);
    let hits = bench.hits(0..60) as u64;
    let counts = bench.counts();
    assert!(counts.stale > 10, "{counts:?}");
    assert_eq!((hits + counts.stale, counts.corrupt), (60, 0));
    assert!(bench.read(3_000));
    // Slots that this process has written, or has read in part or as a whole, are no longer unverified.
    bench.settle();
    bench.cache.persist().expect("kept");
    bench = next_life(bench, &index);
    let parts = bench.parts(0..30) as u64;
    assert!(parts > 20 && bench.hits(30..60) == 30);
    bench.devices[0].damage(|bytes| bytes.iter_mut().step_by(100).for_each(|byte| *byte ^= 4));
    assert_eq!(bench.hits(0..60), 0);
    let counts = bench.counts();
    assert_eq!((counts.corrupt, counts.stale), (30 + parts, 30 - parts), "all that was found is damaged now");
}

#[test]
fn an_index_that_is_old_or_damaged_costs_hits_and_gives_no_wrong_byte() {
    let index = Scratch::new(Persistence::bytes_for(20 * BUCKET, &SIZES));
    let mut bench = next_life(Bench::new(1, 20, &options()), &index);
    bench.hits(0..60);
    bench.settle();
    bench.cache.persist().expect("kept");
    // After the snapshot was saved, slots are given to other blocks.
    bench.file.evict();
    for _ in 0..3 {
        bench.hits(1_000..1_060);
        bench.settle();
    }
    bench = next_life(bench, &index);
    bench.parts(0..60);
    let hits = bench.hits(0..60);
    let counts = bench.counts();
    assert_eq!((hits as u64 + counts.stale, counts.corrupt), (60, 0));
    assert!(counts.stale > 0);
    bench.settle();
    bench.cache.persist().expect("kept");
    bench.read(2_000);
    bench.settle();
    bench.cache.persist().expect("kept");
    let writes = index.acts().1;
    bench.cache.persist().expect("kept already");
    assert_eq!(index.acts().1, writes);
    // If one half is damaged, the other is used. If both are, the cache begins empty.
    let half = index.size() as usize / 2;
    index.damage(|bytes| bytes[half + 100] ^= 1);
    bench = next_life(bench, &index);
    assert!(bench.hits(0..60) > 30);
    index.damage(|bytes| bytes[100] ^= 1);
    bench = next_life(bench, &index);
    assert_eq!((bench.counts().blocks, bench.hits(0..60)), (0, 0));
    index.set_fault(DeviceFault::Gone);
    bench.read(3);
    bench.settle();
    assert!(bench.cache.persist().is_err());
    assert_eq!(next_life(bench, &index).counts().blocks, 0);
}

#[test]
fn a_file_on_a_device_is_being_read_when_requests_have_a_quarter_of_it() {
    let bench = Bench::new(1, 4, &options());
    let file = bench.cache.open_file("data/default/t/r/f/2", 20_000, Caching::default());
    for offset in 0..20 {
        file.put(offset, Bench::content(offset), false);
        bench.settle();
    }
    assert!(!file.is_being_read());
    for offset in 0..20 {
        let ask = Ask { keep: true, memory_only: false };
        let Ok(_found) = file
            .block::<std::convert::Infallible>(offset, BlockKind::Data, ask, || Ok(Bench::content(offset)));
    }
    bench.settle();
    assert!(file.is_being_read());
    assert!(!bench.file.is_being_read());
}
