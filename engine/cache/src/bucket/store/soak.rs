//! A long random test: blocks are added and removed on devices that fail, recover, fill up and are given up, across
//! restarts.
//!
//! Checks that no read returns a wrong byte, and that index, buckets and counters agree whenever nothing is in
//! progress.

use std::sync::atomic::{AtomicBool, AtomicU64};

use env::WallTime;
use storage::{DeviceFault, Outcome, Scratch};

use super::*;
use crate::BlockKind;
use crate::memory::Cause;

const SIZES: [u32; 4] = [1_024, 2_048, 3_072, 4_096];
const BUCKET: u64 = 4 * 4_096;
const FILES: u64 = 3;
const BLOCKS: u64 = 1_000;
const SEEDS: u64 = 12;
const MARK: Mark = Mark { tag: 7, offset: 0 };

/// A device for tests that can be told to return errors and wrong bytes, and to be slow.
struct Ill {
    inner: Scratch,
    world: World,
    /// One operation in this many fails; 0 for none.
    fails: AtomicU64,
    is_slow: AtomicBool,
}

impl Ill {
    fn is_met(&self) -> bool {
        let fails = self.fails.load(Ordering::Relaxed);
        if self.is_slow.load(Ordering::Relaxed) {
            (0..self.world.random() % 50).for_each(|_| std::thread::yield_now());
        }
        fails > 0 && self.world.random().is_multiple_of(fails)
    }

    fn failed(&self, act: &'static str) -> storage::Error {
        let name = storage::FileName::new("ill");
        storage::Error::new(storage::Kind::Failed, Outcome::MayHaveHappened, &name, act).because("it is ill")
    }
}

impl Device for Ill {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> storage::Result<()> {
        if self.is_met() { Err(self.failed("read")) } else { self.inner.read_at(offset, buffer) }
    }

    fn read_now(&self, offset: u64, buffer: &mut [u8]) -> storage::Result<bool> {
        if self.world.random().is_multiple_of(16) {
            return Ok(false);
        }
        self.read_at(offset, buffer).map(|()| true)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> storage::Result<()> {
        if self.is_met() {
            // A write that fails has written half of its bytes.
            let half = bytes.len() / 2;
            let _part = self.inner.write_at(offset, &bytes[..half]);
            return Err(self.failed("write"));
        }
        self.inner.write_at(offset, bytes)
    }

    fn place(&self) -> String {
        "ill".to_owned()
    }
}

fn key(number: u64) -> BlockKey {
    BlockKey { file: FileId(number % FILES), offset: number }
}

fn mark(number: u64) -> Mark {
    Mark { offset: number, ..MARK }
}

/// Returns the correct content of the block with this number; no two blocks share bytes.
fn content(number: u64) -> Block {
    let length = 100 + number * 37 % 3_700;
    let bytes: Vec<u8> =
        (0..length).map(|at| (at * 31 + at / 256 + number * 7 + number / 37) as u8).collect();
    Block {
        kind: BlockKind::Data,
        bytes: bytes.into(),
        offsets: (0..length as u32).step_by(90).collect(),
        heads: [].into(),
        shared: 0,
        row_starts: (0..length.div_ceil(90).div_ceil(32) as u32).collect(),
        disk_length: number as u32,
        previous: None,
        packed: false,
    }
}

fn open(devices: &[Arc<Ill>], world: &World) -> Store {
    let options = BucketOptions {
        slot_sizes: SIZES.to_vec(),
        queue_length: 20,
        head_bytes_max: 6_000,
        ..BucketOptions::default()
    };
    let shared = devices.iter().map(|device| Arc::clone(device) as Arc<dyn Device>).collect();
    Store::new(shared, &options, world.clone())
}

/// Performs one random operation on the store.
fn act(store: &Store, world: &World) {
    // Some blocks are used much more often than others.
    let number = if world.random().is_multiple_of(2) { world.random() % 40 } else { world.random() % BLOCKS };
    match world.random() % 1_000 {
        0..500 => {
            let now = world.random().is_multiple_of(2);
            match store.get(key(number), mark(number), now) {
                Some(found) => assert_eq!(format!("{found:?}"), format!("{:?}", content(number)), "{number}"),
                None => {
                    let admission =
                        Admission { weight: 0, in_memory: number.is_multiple_of(5), cause: Cause::Request };
                    store.insert(key(number), mark(number), &Arc::new(content(number)), admission);
                }
            }
        }
        500..990 => {
            let right = content(number);
            let wanted = world.random() as usize % right.offsets.len();
            if let Some(Cells::Part(part)) = store.part(key(number), mark(number), |_| wanted..wanted + 2) {
                let (from, bytes) = (part.from(), part.bytes());
                assert_eq!(bytes, &right.bytes[from..from + bytes.len()], "{number} from {from}");
                assert_eq!(part.here().start, wanted);
            }
        }
        990 => _ = store.evict_file(FileId(world.random() % FILES)),
        _ => drop(store.placed()),
    }
}

/// Checks that index, buckets and counters agree while nothing is in progress.
fn check(store: &Store, what: &str) {
    store.settle();
    let (counts, state) = (store.counts(), store.0.state.lock());
    state.slots.check();
    assert!(state.is_whole(), "{what}");
    let slots: Vec<Slot> = state.index.values().filter_map(Entry::slot).collect();
    assert_eq!(slots.len(), state.index.len(), "{what}: all are written");
    let used: u64 = counts.slots.iter().map(|slots| slots.used).sum();
    assert_eq!(used, slots.len() as u64, "{what}: each slot is somebody's");
    let bytes: u64 = counts.slots.iter().map(|slots| slots.used * u64::from(slots.size)).sum();
    assert_eq!(bytes, counts.bytes, "{what}");
    assert_eq!(state.index.values().map(Entry::head_bytes).sum::<u64>(), counts.head_bytes, "{what}");
    assert!(counts.head_bytes <= 6_000 && counts.bytes <= counts.bytes_max, "{what}: {counts:?}");
    let open = store.0.disks.iter().filter(|disk| disk.takes()).count() as u64;
    let lane = store.0.disks.iter().map(|disk| disk.device.size()).min().unwrap_or(0) / BUCKET * BUCKET;
    let closed = slots.iter().filter(|slot| !store.0.disk_of(slot.at).takes());
    let closed: u64 = closed.map(|slot| u64::from(class_size(slot.length))).sum();
    assert_eq!(counts.bytes_max, open * lane + closed, "{what}");
    assert!(
        slots.iter().all(|slot| !store.0.disk_of(slot.at).is_disabled()),
        "{what}: what is given up is empty"
    );
    for (disk, counts) in store.0.disks.iter().zip(&counts.devices) {
        assert!(!(counts.disabled && counts.read_only), "{what}");
        assert_eq!(disk.is_disabled(), counts.disabled, "{what}");
    }
    assert_eq!(counts.disabled, counts.devices.iter().all(|device| device.disabled), "{what}");
    assert_eq!(store.0.read_only.load(Ordering::Relaxed), open == 0, "{what}");
}

fn class_size(length: u32) -> u32 {
    SIZES.into_iter().find(|size| *size >= length).expect("it has a slot")
}

#[test]
fn index_buckets_and_counters_agree_under_device_faults() {
    // The numbers of pauses at which a block had been evicted for room, a device was read-only, the cache was disabled,
    // and only some devices were.
    let (mut full, mut read_only, mut disabled, mut partly) = (0, 0, 0, 0);
    for seed in 0..SEEDS {
        let world = World::simulated(seed, WallTime(0));
        let devices: Vec<Arc<Ill>> = (0..1 + seed % 4)
            .map(|_| {
                let inner = Scratch::new((8 + world.random() % 8) * BUCKET + 100);
                let (fails, is_slow) = (AtomicU64::new(0), AtomicBool::new(false));
                Arc::new(Ill { inner, world: world.clone(), fails, is_slow })
            })
            .collect();
        let mut store = open(&devices, &world);
        for round in 0..20 {
            let what = format!("seed {seed}, round {round}");
            env::together("asker", 3, || (0..600).for_each(|_| act(&store, &world)));
            check(&store, &what);
            let counts = store.counts();
            full += u64::from(counts.evicted > 0);
            read_only += counts.devices.iter().filter(|device| device.read_only && counts.blocks > 0).count();
            disabled += counts.devices.iter().filter(|device| device.disabled).count();
            partly += usize::from(!counts.disabled && counts.devices.iter().any(|device| device.disabled));
            let device = &devices[(world.random() % devices.len() as u64) as usize];
            match world.random() % 20 {
                0 => device.fails.store(1 + world.random() % 4, Ordering::Relaxed),
                1 => device.fails.store(1, Ordering::Relaxed),
                2 => device.is_slow.store(false, Ordering::Relaxed),
                3 => device.inner.set_fault(DeviceFault::Gone),
                4 => device.inner.set_fault(DeviceFault::ReadFlips),
                5 => device.inner.set_fault(DeviceFault::WriteLost),
                6 => device.inner.set_fault(DeviceFault::ReadFails),
                7 => device.is_slow.store(true, Ordering::Relaxed),
                8..11 => {
                    device.inner.set_fault(DeviceFault::None);
                    device.fails.store(0, Ordering::Relaxed);
                }
                11 => {
                    let placed = store.placed();
                    let next = open(&devices, &world);
                    let restored = next.restore(placed.into_iter());
                    assert!(restored <= store.counts().blocks as usize, "{what}");
                    store = next;
                    check(&store, &what);
                }
                12..15 => device.inner.set_fault(DeviceFault::Full),
                _ => world.advance(Duration::from_secs(100)),
            }
        }
        // All room can be used again: after everything was evicted, new blocks fit.
        (0..FILES).for_each(|file| _ = store.evict_file(FileId(file)));
        check(&store, "the end");
        let counts = store.counts();
        assert!(counts.slots.iter().all(|slots| (slots.used, slots.buckets, slots.slots) == (0, 0, 0)));
        let state = store.0.state.lock();
        assert_eq!(state.slots.unassigned_there() * BUCKET, counts.bytes_max, "seed {seed}");
    }
    let met = format!("{full} full, {read_only} read only, {disabled} given up, {partly} partly");
    assert!(
        full > 50 && disabled > 10 && read_only + partly > 20,
        "nothing is tested if nothing happens: {met}"
    );
}
