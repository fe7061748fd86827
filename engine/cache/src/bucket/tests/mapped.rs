//! Tests of the bucket cache over a memory-mapped file.
//!
//! Whatever happens to the file, no wrong byte is returned, no request fails, and the process does not end.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a real file is the point")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use env::sync::Mutex;
use storage::LocalDevice;

use super::*;

/// The path of a file on this machine that is deleted when the test ends.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Place(std::env::temp_dir().join(format!("bellows-mapped-{}-{count}", std::process::id())))
    }

    /// Opens the file a second time, as another process would.
    fn behind(&self) -> File {
        File::options().read(true).write(true).open(&self.0).expect("opened")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The file may have been deleted already.
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// A mapped file whose reads and writes can be made to fail.
struct Failing {
    file: LocalDevice,
    fault: Arc<Mutex<DeviceFault>>,
}

impl Failing {
    fn check(&self, faults: &[DeviceFault]) -> storage::Result<()> {
        let fails = faults.contains(&self.fault.lock());
        if fails { self.file.read_at(u64::MAX / 2, &mut [0]) } else { Ok(()) }
    }
}

impl Device for Failing {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> storage::Result<()> {
        self.check(&[DeviceFault::ReadFails, DeviceFault::Gone])?;
        self.file.read_at(offset, buffer)
    }

    fn read_now(&self, offset: u64, buffer: &mut [u8]) -> storage::Result<bool> {
        self.file.read_now(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> storage::Result<()> {
        self.check(&[DeviceFault::Full, DeviceFault::Gone])?;
        self.file.write_at(offset, bytes)
    }

    fn place(&self) -> String {
        self.file.place()
    }

    fn is_mapped(&self) -> bool {
        self.file.is_mapped()
    }
}

/// Opens a mapped device whose clock stands still. So pages that were once in memory are assumed to be in memory still,
/// and are read directly.
fn open(place: &Place, buckets: u64) -> LocalDevice {
    LocalDevice::open_mapped(&place.0, buckets * BUCKET, World::simulated(1, WallTime(0))).expect("opened")
}

fn bench(place: &Place, buckets: u64, options: &BucketOptions) -> (Bench, Arc<Mutex<DeviceFault>>) {
    with_memory(0, place, buckets, options)
}

fn with_memory(
    memory: usize,
    place: &Place,
    buckets: u64,
    options: &BucketOptions,
) -> (Bench, Arc<Mutex<DeviceFault>>) {
    let file = open(place, buckets);
    let fault = Arc::new(Mutex::new(DeviceFault::None));
    let device = Failing { file, fault: Arc::clone(&fault) };
    (Bench::on(vec![Arc::new(device)], memory, options), fault)
}

fn held(bench: &Bench, offset: u64) -> Arc<Block> {
    let ask = Ask { keep: true, memory_only: true };
    let Ok(found) = bench
        .file
        .block::<std::convert::Infallible>(offset, BlockKind::Data, ask, || unreachable!("no wait"));
    found.expect("in memory")
}

#[test]
fn blocks_come_out_of_the_map_and_bits_that_flip_in_it_are_found() {
    let place = Place::new();
    let (bench, fault) = bench(&place, 40, &options());
    assert_eq!(bench.hits(0..100), 0);
    bench.settle();
    // Reads by system calls would fail, so all hits come from the map.
    *fault.lock() = DeviceFault::ReadFails;
    assert_eq!(bench.hits(0..100), 100);
    assert_eq!(bench.counts().failed, 0);
    assert!(bench.cache.bucket().expect("there is one").engine().starts_with("mmap:"));
    let slot = bench.cache.bucket().expect("there is one").placed();
    let slot = slot.iter().find(|placed| placed.offset == 17).expect("placed");
    let file = place.behind();
    let flip = |at: u64| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("read");
        file.write_all_at(&[byte[0] ^ 1], at).expect("written");
    };
    // The cells of this part are in the block's first 512 bytes. A bit that flips after these does not affect the part,
    // but is found by a read of the whole block.
    flip(slot.at + u64::from(slot.head) + 512);
    assert!(bench.part(17));
    assert_eq!(bench.counts().corrupt, 0);
    assert!(!bench.read(17), "it comes from storage");
    assert_eq!(bench.counts().corrupt, 1);
    for (offset, at) in [(10, 20), (11, 70), (26, 500)] {
        let placed = bench.cache.bucket().expect("there is one").placed();
        let slot = placed.iter().find(|placed| placed.offset == offset).expect("placed");
        assert!(bench.part(offset));
        flip(slot.at + at);
        assert!(!bench.part(offset) && !bench.read(offset), "byte {at} of {offset}");
    }
    assert_eq!(bench.counts().corrupt, 4);
}

#[test]
fn memory_keeps_no_data_before_a_map_and_some_when_the_map_is_lost() {
    let place = Place::new();
    let (bench, _) = with_memory(1 << 20, &place, 40, &options());
    bench.hits(0..100);
    bench.settle();
    assert_eq!(bench.hits(0..100), 100);
    assert_eq!(bench.cache.counts().lookups.hits_in(Tier::Memory), 0);
    place.behind().set_len(0).expect("cut");
    bench.hits(0..100);
    bench.hits(0..100);
    assert!(bench.cache.counts().lookups.hits_in(Tier::Memory) > 0);
}

#[test]
fn a_held_block_outlives_any_change_of_its_file() {
    let place = Place::new();
    let (bench, _) = bench(&place, 8, &BucketOptions { fill: 1.0, ..options() });
    (0..20).for_each(|offset| assert!(!bench.read(offset)));
    bench.settle();
    let held: Vec<Arc<Block>> = (0..20).map(|offset| held(&bench, offset)).collect();
    let part = bench.file.part(17, true, |_| 0..2).expect("in memory");
    let Cells::Part(part) = part else { unreachable!("it is on the device") };
    let all_are_right = || {
        for (offset, block) in held.iter().enumerate() {
            assert_eq!(format!("{block:?}"), format!("{:?}", Bench::content(offset as u64)));
        }
        assert_eq!(part.bytes(), &Bench::content(17).bytes[..512]);
    };
    assert_eq!(bench.file.evict(), 20);
    for round in 1..6 {
        bench.hits(round * 1_000..round * 1_000 + 60);
        bench.settle();
        all_are_right();
    }
    place.behind().set_len(0).expect("cut");
    all_are_right();
    std::fs::remove_file(&place.0).expect("removed");
    drop(bench);
    all_are_right();
}

#[test]
fn a_file_that_is_cut_under_readers_is_read_by_calls_from_then_on() {
    for cut_to in [0, BUCKET, 3 * BUCKET + 777] {
        let place = Place::new();
        let (bench, _) = bench(&place, 40, &options());
        bench.hits(0..100);
        bench.settle();
        assert_eq!(bench.hits(0..100), 100);
        let turn = AtomicU64::new(0);
        env::together("reader", 4, || {
            for _ in 0..20 {
                if turn.fetch_add(1, Ordering::SeqCst) == 30 {
                    place.behind().set_len(cut_to).expect("cut");
                }
                // The bench compares each block and each part with its expected content.
                bench.parts(0..100);
                bench.hits(0..100);
            }
        });
        let counts = bench.counts();
        assert!(counts.failed > 0 && !counts.disabled, "{cut_to}: {counts:?}");
        // All slots that system calls can read are used again.
        place.behind().set_len(40 * BUCKET).expect("longer again");
        bench.hits(0..100);
        bench.settle();
        bench.hits(0..100);
        bench.settle();
        assert_eq!(bench.hits(0..100), 100);
    }
}

#[test]
fn no_fault_of_the_file_costs_more_than_a_hit() {
    for fault in [DeviceFault::ReadFails, DeviceFault::Full, DeviceFault::Gone] {
        let place = Place::new();
        let (bench, fault_now) = bench(&place, 40, &options());
        bench.hits(0..50);
        bench.settle();
        *fault_now.lock() = fault;
        // The part that was cut off is read from the map, then by a system call, which fails.
        let size = 40 * BUCKET;
        place.behind().set_len(BUCKET).expect("cut");
        for round in 0..3 {
            bench.parts(0..80);
            bench.hits(0..80 + 20 * round);
            bench.settle();
        }
        let counts = bench.counts();
        assert!(!counts.disabled && counts.failed > 0, "{fault:?} was met: {counts:?}");
        *fault_now.lock() = DeviceFault::None;
        place.behind().set_len(size).expect("longer again");
        bench.hits(0..80);
        bench.settle();
        bench.hits(0..80);
        bench.settle();
        assert_eq!(bench.hits(0..80), 80, "{fault:?} has passed");
        let counts = bench.counts();
        assert_eq!(counts.blocks, counts.slots.iter().map(|slots| slots.used).sum::<u64>(), "{fault:?}");
    }
}

#[test]
fn a_file_that_is_cut_and_scribbled_on_under_load_gives_no_wrong_byte() {
    let place = Place::new();
    let (bench, fault) = bench(&place, 20, &options());
    let (file, turn) = (place.behind(), std::sync::atomic::AtomicU64::new(0));
    env::together("reader", 4, || {
        for _ in 0..6 {
            let turn = turn.fetch_add(1, Ordering::SeqCst);
            match turn % 4 {
                0 => file.write_all_at(&[0x55; 700], turn * 1_000).expect("written"),
                1 => *fault.lock() = DeviceFault::Gone,
                2 => *fault.lock() = DeviceFault::None,
                _ => *fault.lock() = DeviceFault::Full,
            }
            for offset in 0..150 {
                let ask = Ask { keep: true, memory_only: false };
                let Ok(found) =
                    bench.file.block::<std::convert::Infallible>(offset, BlockKind::Data, ask, || {
                        Ok(Bench::content(offset))
                    });
                assert_eq!(found.expect("may wait").disk_length, offset as u32);
                bench.part(offset);
            }
        }
    });
    *fault.lock() = DeviceFault::None;
    bench.settle();
    bench.hits(0..150);
    bench.settle();
    bench.hits(0..150);
}

#[test]
fn the_next_process_finds_what_the_last_one_had_kept() {
    let place = Place::new();
    let index = Scratch::new(Persistence::bytes_for(40 * BUCKET, &SIZES));
    // The writers of one cache may end after the next cache was opened: both share the open file.
    let file = Arc::new(open(&place, 40));
    let life = || {
        let file = Arc::clone(&file) as Arc<dyn Device>;
        let bucket = Bucket::on(vec![file], &options(), World::simulated(1, WallTime(0)));
        let cache = Cache::with_bytes(1 << 20).with_bucket(bucket);
        let cache = Arc::new(cache.with_persistence(Persistence::on(Arc::new(index.clone()))));
        let file = cache.open_file("data/default/t/r/f/1", 1 << 40, Caching::default());
        let world = World::simulated(1, WallTime(0));
        Bench { devices: Vec::new(), world, cache, file }
    };
    let bench = life();
    bench.hits(0..100);
    bench.settle();
    bench.cache.persist().expect("kept");
    drop(bench);
    let bench = life();
    assert_eq!(bench.hits(0..100), 100);
    let counts = bench.counts();
    assert_eq!(counts.blocks, counts.slots.iter().map(|slots| slots.used).sum::<u64>());
}

/// An operator removes the file and another file takes its name: the cache continues with the open file.
#[test]
fn a_new_file_in_place_of_a_removed_one_is_not_touched() {
    for mapped in [true, false] {
        let place = Place::new();
        let device =
            if mapped { open(&place, 40) } else { LocalDevice::open(&place.0, 40 * BUCKET).expect("opened") };
        let bench = Bench::on(vec![Arc::new(device)], 0, &options());
        bench.hits(0..100);
        bench.settle();
        std::fs::remove_file(&place.0).expect("removed");
        std::fs::write(&place.0, vec![0x55; 40 * BUCKET as usize]).expect("written");
        assert_eq!(bench.hits(0..100), 100, "mapped: {mapped}");
        bench.parts(0..100);
        bench.hits(1_000..1_050);
        bench.settle();
        assert_eq!(bench.hits(1_000..1_050), 50);
        let counts = bench.counts();
        assert_eq!((counts.corrupt, counts.failed), (0, 0));
        let stands = std::fs::read(&place.0).expect("read");
        assert!(stands.iter().all(|byte| *byte == 0x55), "nothing is written to the other file");
    }
}
