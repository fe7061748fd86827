//! The second tier over a file that is read in place: whatever happens to the file, never a wrong byte, never an error,
//! and never a signal.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a real file is the point")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use storage::{LocalDevice, Map};

use super::*;

/// A file of this machine that goes when the test ends.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Place(std::env::temp_dir().join(format!("bellows-mapped-{}-{count}", std::process::id())))
    }

    /// The file as somebody else has it open.
    fn behind(&self) -> File {
        File::options().read(true).write(true).open(&self.0).expect("opened")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // It may be gone already.
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// A mapped file whose reads and writes fail as told.
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

    fn map(&self) -> Option<&Arc<Map>> {
        self.file.map()
    }
}

fn bench(place: &Place, buckets: u64, options: &BucketOptions) -> (Bench, Arc<Mutex<DeviceFault>>) {
    let file = LocalDevice::open_mapped(&place.0, buckets * BUCKET).expect("opened");
    let fault = Arc::new(Mutex::new(DeviceFault::None));
    let device = Failing { file, fault: Arc::clone(&fault) };
    (Bench::on(vec![Arc::new(device)], 1 << 20, options), fault)
}

fn held(bench: &Bench, offset: u64) -> Arc<Block> {
    let ask = Ask { keep: true, memory_only: true };
    let Ok(found) = bench
        .file
        .block::<std::convert::Infallible>(offset, BlockKind::Data, ask, || unreachable!("no wait"));
    found.expect("in memory, in place")
}

#[test]
fn a_block_is_the_bytes_of_the_file_and_the_same_for_all() {
    let place = Place::new();
    let (bench, _) = bench(&place, 40, &options());
    assert_eq!(bench.hits(0..100), 0);
    bench.settle();
    assert_eq!(bench.hits(0..100), 100);
    let (one, other) = (held(&bench, 3), held(&bench, 3));
    assert!(Arc::ptr_eq(&one, &other));
    assert_eq!(format!("{one:?}"), format!("{:?}", Bench::content(3)));
    let counts = bench.cache.counts();
    assert_eq!((counts.blocks, counts.looks.hits_in(Tier::Memory)), (0, 0), "memory has no copies of data");
    // A bit that flips in the file is seen: it is the same memory, and it is checked at each look.
    let slot = bench.cache.bucket().expect("there is one").placed();
    let slot = slot.iter().find(|placed| placed.offset == 3).expect("placed");
    let file = place.behind();
    let mut byte = [0];
    file.read_exact_at(&mut byte, slot.at + 100).expect("read");
    file.write_all_at(&[byte[0] ^ 1], slot.at + 100).expect("written");
    assert!(!bench.read(3), "it comes from storage");
    assert_eq!(bench.counts().corrupt, 1);
}

#[test]
fn a_slot_is_nobody_elses_as_long_as_a_block_in_it_is_held() {
    let place = Place::new();
    let (bench, _) = bench(&place, 8, &BucketOptions { fill: 1.0, ..options() });
    (0..20).for_each(|offset| assert!(!bench.read(offset)));
    bench.settle();
    let held: Vec<Arc<Block>> = (0..20).map(|offset| held(&bench, offset)).collect();
    assert_eq!(bench.file.evict(), 20);
    assert_eq!(bench.counts().blocks, 0);
    let used = |bench: &Bench| bench.counts().slots.iter().map(|slots| slots.used).sum::<u64>();
    assert_eq!(used(&bench), 20, "their slots are taken though the cache has forgotten them");
    for round in 1..6 {
        bench.hits(round * 1_000..round * 1_000 + 60);
        bench.settle();
        for (offset, block) in held.iter().enumerate() {
            assert_eq!(format!("{block:?}"), format!("{:?}", Bench::content(offset as u64)));
        }
    }
    // The bytes alone are a hold as well, and who reads may live longer than the cache.
    let bytes: Vec<bytes::Bytes> = held.iter().map(|block| block.bytes.clone()).collect();
    drop(held);
    assert!(used(&bench) >= 20);
    let counts = bench.counts();
    assert_eq!(counts.blocks + 20, used(&bench), "{counts:?}");
    drop(bytes);
    assert_eq!(bench.counts().blocks, used(&bench));
    bench.hits(0..5);
    bench.settle();
    let last = bench.cache.bucket().expect("there is one").placed().first().expect("one").offset;
    let last = self::held(&bench, last);
    let content = format!("{:?}", Bench::content(u64::from(last.disk_length)));
    drop(bench);
    assert_eq!(format!("{last:?}"), content);
}

#[test]
fn no_fault_of_the_file_costs_more_than_a_hit() {
    for fault in [DeviceFault::ReadFails, DeviceFault::Full, DeviceFault::Gone] {
        let place = Place::new();
        let (bench, fault_now) = bench(&place, 40, &options());
        bench.hits(0..50);
        bench.settle();
        *fault_now.lock() = fault;
        // What is cut off is not in memory any more, so that it is read, and the read fails.
        let size = 40 * BUCKET;
        place.behind().set_len(BUCKET).expect("cut");
        for round in 0..3 {
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
            // Each block is checked as it is handed out; who holds one while somebody scribbles on it sees the scribble.
            for offset in 0..150 {
                let ask = Ask { keep: true, memory_only: false };
                let Ok(found) =
                    bench.file.block::<std::convert::Infallible>(offset, BlockKind::Data, ask, || {
                        Ok(Bench::content(offset))
                    });
                assert_eq!(found.expect("may wait").disk_length, offset as u32);
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
fn the_next_process_reads_in_place_what_the_last_one_had_kept() {
    let place = Place::new();
    let index = Scratch::new(Persistence::bytes_for(40 * BUCKET, &SIZES));
    // The writers of a life end behind it: both share the hold on the file.
    let file = Arc::new(LocalDevice::open_mapped(&place.0, 40 * BUCKET).expect("opened"));
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
    assert!(Arc::ptr_eq(&held(&bench, 5), &held(&bench, 5)));
    let counts = bench.counts();
    assert_eq!(counts.blocks, counts.slots.iter().map(|slots| slots.used).sum::<u64>());
}
