//! Allocation of slots on a device: HBase's buckets.
//!
//! The device is divided into buckets of equal size, four times the largest slot size. A bucket is unassigned, or
//! assigned to one slot size and divided into as many slots as fit. A block takes a slot of the smallest size that
//! holds it: from a bucket of that size with a free slot, or else from an unassigned bucket. Freeing a bucket's last
//! used slot makes the bucket unassigned.
//!
//! Buckets are distributed over the devices round robin. The buckets of a read-only device are closed: their blocks
//! stay until they are evicted, and their slots are not used again.
//!
//! A bucket records the block in each slot, at 16 bytes a slot, so that emptying a bucket does not search the whole
//! index. A device of 400 GB has 200,000 buckets, so the bucket to empty must be found without a search of all of them.
//! For this, buckets are listed by fill level, and move to another list when a slot is allocated or freed.

use std::collections::VecDeque;

use crate::{BlockKey, FileId};

/// HBase's slot sizes: block sizes with room for HBase's metadata. They are used only when they are configured.
///
/// Bellows' metadata are larger (cell offsets and row prefixes: 6 KB for 64 KB of cells of 80 bytes), and a block ends
/// with the cell that fills it. Of these sizes such a block needs 97 KB, which wastes a third.
pub const HBASE_SLOT_SIZES: [u32; 14] = {
    let kilobytes = [4, 8, 16, 32, 40, 48, 56, 64, 96, 128, 192, 256, 384, 512];
    let mut sizes = [0; 14];
    let mut at = 0;
    while at < sizes.len() {
        sizes[at] = kilobytes[at] * 1024 + 1024;
        at += 1;
    }
    sizes
};

/// The default slot sizes. They begin at 4 KB and grow in steps of a sixteenth of a power of two, so that no block of
/// more than 4 KB wastes more than 6 % of its slot; the last one is HBase's largest size. A size that is used costs the
/// free slots of at most one bucket, and an unused size costs nothing.
pub const SLOT_SIZES: [u32; 113] = {
    let mut sizes = [513 * 1024; 113];
    let mut at = 0;
    while at < sizes.len() - 1 {
        let power = 4096 << (at / 16);
        sizes[at] = power + power / 16 * (at as u32 % 16);
        at += 1;
    }
    sizes
};

/// The key of a slot without a block.
const NOBODY: BlockKey = BlockKey { file: FileId(u64::MAX), offset: u64::MAX };

/// Minimum number of slots in a bucket, at the largest slot size.
const SLOTS_MIN: u64 = 4;

/// Number of fill levels between an empty and a full bucket.
const FILL_STEPS: u32 = 32;

/// Maximum number of buckets compared in the lowest fill level.
const COMPARED_MAX: usize = 64;

/// The buckets of one device.
#[derive(Clone, Copy, Debug, Default)]
struct DeviceBuckets {
    buckets: u64,
    /// Number of used slots of the device.
    used: u64,
    /// Size of the used slots of the device, in bytes.
    bytes: u64,
    is_closed: bool,
}

/// Statistics of one slot size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// Slot size, in bytes.
    pub size: u32,
    /// Number of buckets divided into such slots.
    pub buckets: u64,
    /// Number of slots of this size; on devices that receive no more blocks, only used slots count.
    pub slots: u64,
    /// Number of used slots of this size.
    pub used: u64,
    /// Bytes of the blocks in used slots; the difference to `used * size` is lost by rounding up.
    pub bytes: u64,
    /// Number of blocks evicted to make room in slots of this size.
    pub evicted: u64,
}

#[derive(Debug, Default)]
struct Bucket {
    /// Index of the bucket's slot size; `None` for an unassigned bucket.
    size: Option<usize>,
    /// The free slots of the bucket.
    free: Vec<u32>,
    used: u32,
    /// The block in each slot.
    blocks: Box<[BlockKey]>,
    /// Position of the bucket in the list of its fill level.
    place: u32,
}

impl Bucket {
    /// The bucket's fill level.
    fn fill(&self) -> usize {
        (self.used * FILL_STEPS / (self.blocks.len() as u32).max(1)) as usize
    }
}

/// Assigned buckets, listed by fill level.
#[derive(Debug)]
struct ByFill([Vec<u32>; FILL_STEPS as usize + 1]);

impl ByFill {
    fn enter(&mut self, buckets: &mut [Bucket], at: u32) {
        let bucket = &mut buckets[at as usize];
        let row = &mut self.0[bucket.fill()];
        bucket.place = row.len() as u32;
        row.push(at);
    }

    /// Removes a bucket from the list of this fill level.
    fn leave(&mut self, buckets: &mut [Bucket], at: u32, row: usize) {
        let place = buckets[at as usize].place;
        let row = &mut self.0[row];
        debug_assert_eq!(row[place as usize], at, "a bucket is at the position that it has recorded");
        row.swap_remove(place as usize);
        if let Some(&last) = row.get(place as usize) {
            buckets[last as usize].place = place;
        }
    }

    /// Moves a bucket to the list of its new fill level, after its number of used slots has changed. `row` is the old
    /// level.
    fn moved(&mut self, buckets: &mut [Bucket], at: u32, row: usize) {
        if buckets[at as usize].fill() != row {
            self.leave(buckets, at, row);
            self.enter(buckets, at);
        }
    }
}

#[derive(Debug)]
pub(super) struct Allocator {
    bucket_size: u64,
    buckets: Vec<Bucket>,
    lanes: Vec<DeviceBuckets>,
    /// Unassigned buckets, and some stale entries. An entry becomes stale when its bucket is assigned by
    /// [`Allocator::take`] after a start; removing it then would search the whole list.
    unassigned: VecDeque<u32>,
    /// Number of list entries examined. Tests limit it.
    #[cfg(test)]
    looked_at: u64,
    /// For each slot size: the buckets with a free slot, and some stale entries of buckets that were emptied, or filled
    /// by [`Allocator::take`]. Slots are allocated from the last bucket.
    open: Vec<VecDeque<u32>>,
    by_fill: ByFill,
    counts: Vec<SlotCounts>,
}

impl Allocator {
    /// Creates an allocator over `bytes` of one device.
    #[cfg(test)]
    pub(super) fn new(bytes: u64, sizes: &[u32]) -> Allocator {
        Allocator::over(1, bytes, sizes)
    }

    /// Creates an allocator over several devices of `bytes` each.
    pub(super) fn over(devices: usize, bytes: u64, sizes: &[u32]) -> Allocator {
        let mut sizes: Vec<u32> = sizes.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        let bucket_size = bucket_size(&sizes);
        let each = bytes.checked_div(bucket_size).unwrap_or(0);
        let each = each.min(u64::from(u32::MAX) / devices.max(1) as u64);
        let buckets = each as u32 * devices as u32;
        Allocator {
            bucket_size,
            lanes: vec![DeviceBuckets { buckets: each, ..DeviceBuckets::default() }; devices],
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            unassigned: (0..buckets).rev().collect(),
            #[cfg(test)]
            looked_at: 0,
            open: vec![VecDeque::new(); sizes.len()],
            by_fill: ByFill(std::array::from_fn(|_| Vec::new())),
            counts: sizes.into_iter().map(|size| SlotCounts { size, ..SlotCounts::default() }).collect(),
        }
    }

    /// Returns the number of bytes that slots can use on devices that receive blocks.
    pub(super) fn bytes_open(&self) -> u64 {
        let open = self.lanes.iter().filter(|lane| !lane.is_closed);
        open.map(|lane| lane.buckets * self.bucket_size).sum()
    }

    /// Returns the number of bytes of used slots on devices that receive no more blocks.
    pub(super) fn bytes_closed(&self) -> u64 {
        self.lanes.iter().filter(|lane| lane.is_closed).map(|lane| lane.bytes).sum()
    }

    /// Returns the device that contains the byte at `offset`, and the offset on that device.
    pub(super) fn device_of(bucket_size: u64, devices: usize, offset: u64) -> (usize, u64) {
        if devices == 1 {
            return (0, offset);
        }
        let (bucket, within) = (offset / bucket_size, offset % bucket_size);
        ((bucket % devices as u64) as usize, bucket / devices as u64 * bucket_size + within)
    }

    fn lane_of(&self, bucket: u32) -> usize {
        bucket as usize % self.lanes.len()
    }

    /// Whether the slot at `offset` is on a device that receives no more blocks.
    pub(super) fn is_closed(&self, offset: u64) -> bool {
        self.lanes[self.lane_of((offset / self.bucket_size) as u32)].is_closed
    }

    /// Whether any device receives no more blocks.
    pub(super) fn has_closed(&self) -> bool {
        self.lanes.iter().any(|lane| lane.is_closed)
    }

    /// Returns the number of used slots on a device.
    pub(super) fn used_on(&self, device: usize) -> u64 {
        self.lanes[device].used
    }

    /// Stops allocating slots on a device.
    pub(super) fn close(&mut self, device: usize) {
        if std::mem::replace(&mut self.lanes[device].is_closed, true) {
            return;
        }
        let lanes = self.lanes.len();
        let stays = |at: &u32| *at as usize % lanes != device;
        self.unassigned.retain(stays);
        self.open.iter_mut().for_each(|open| open.retain(stays));
        for at in (device..self.buckets.len()).step_by(lanes) {
            let bucket = &self.buckets[at];
            if let Some(class) = bucket.size {
                self.counts[class].slots -= bucket.free.len() as u64;
                let row = bucket.fill();
                self.by_fill.leave(&mut self.buckets, at as u32, row);
            }
        }
    }

    /// Returns the index of the smallest slot size that holds this many bytes; `None` if none does.
    pub(super) fn class_of(&self, length: usize) -> Option<usize> {
        let class = self.counts.partition_point(|counts| (counts.size as usize) < length);
        (class < self.counts.len()).then_some(class)
    }

    pub(super) fn slot_size(&self, class: usize) -> u32 {
        self.counts[class].size
    }

    /// Allocates a slot for a block of this many bytes; `None` when no slot is free or the block exceeds the largest
    /// size.
    pub(super) fn allocate(&mut self, block: BlockKey, length: usize) -> Option<u64> {
        let class = self.class_of(length)?;
        let at = loop {
            match self.open[class].back() {
                Some(&at) => {
                    let bucket = &self.buckets[at as usize];
                    if bucket.size == Some(class) && !bucket.free.is_empty() {
                        break at;
                    }
                    self.open[class].pop_back();
                }
                None => break self.open_bucket(class)?,
            }
        };
        let bucket = &mut self.buckets[at as usize];
        let slot = bucket.free.pop().expect("it has a free one");
        if bucket.free.is_empty() {
            // The full bucket is removed from the list now. Freeing a slot adds it again, so without this the list
            // would grow with each allocation that follows a free.
            self.open[class].pop_back();
        }
        self.give(at, slot, block, length);
        Some(u64::from(at) * self.bucket_size + u64::from(slot) * u64::from(self.counts[class].size))
    }

    /// Assigns a slot, already removed from the free lists, to a block.
    fn give(&mut self, at: u32, slot: u32, block: BlockKey, length: usize) {
        let bucket = &mut self.buckets[at as usize];
        let class = bucket.size.expect("it is cut");
        let row = bucket.fill();
        bucket.used += 1;
        bucket.blocks[slot as usize] = block;
        self.by_fill.moved(&mut self.buckets, at, row);
        let counts = &mut self.counts[class];
        counts.used += 1;
        counts.bytes += length as u64;
        let size = u64::from(counts.size);
        let lane = self.lane_of(at);
        self.lanes[lane].used += 1;
        self.lanes[lane].bytes += size;
    }

    /// Divides an unassigned bucket into slots and returns its index; `None` if no bucket is unassigned.
    fn open_bucket(&mut self, class: usize) -> Option<u32> {
        loop {
            let at = self.unassigned.pop_back()?;
            #[cfg(test)]
            {
                self.looked_at += 1;
            }
            if self.buckets[at as usize].size.is_none() {
                self.cut(at, class);
                return Some(at);
            }
        }
    }

    fn cut(&mut self, at: u32, class: usize) {
        let slots = (self.bucket_size / u64::from(self.counts[class].size)) as u32;
        self.buckets[at as usize] = Bucket {
            size: Some(class),
            free: (0..slots).rev().collect(),
            used: 0,
            blocks: vec![NOBODY; slots as usize].into(),
            place: 0,
        };
        self.by_fill.enter(&mut self.buckets, at);
        self.open[class].push_back(at);
        self.counts[class].buckets += 1;
        self.counts[class].slots += u64::from(slots);
    }

    /// Frees the slot at `offset`, which held this many bytes.
    pub(super) fn free(&mut self, offset: u64, length: usize) {
        let at = (offset / self.bucket_size) as u32;
        let lane = self.lane_of(at);
        let bucket = &mut self.buckets[at as usize];
        let class = bucket.size.expect("a slot in use is in a bucket of its size");
        let counts = &mut self.counts[class];
        let slot = ((offset % self.bucket_size) / u64::from(counts.size)) as u32;
        debug_assert!(!bucket.free.contains(&slot), "slot {slot} of bucket {at} is given back twice");
        let DeviceBuckets { is_closed, used, bytes, .. } = &mut self.lanes[lane];
        *used -= 1;
        *bytes -= u64::from(counts.size);
        if bucket.free.is_empty() && !*is_closed {
            self.open[class].push_back(at);
        }
        let row = bucket.fill();
        bucket.free.push(slot);
        bucket.blocks[slot as usize] = NOBODY;
        bucket.used -= 1;
        counts.used -= 1;
        counts.bytes -= length as u64;
        if *is_closed {
            counts.slots -= 1;
            if bucket.used == 0 {
                counts.buckets -= 1;
                *bucket = Bucket::default();
            }
            return;
        }
        if bucket.used > 0 {
            return self.by_fill.moved(&mut self.buckets, at, row);
        }
        counts.buckets -= 1;
        counts.slots -= bucket.free.len() as u64;
        self.by_fill.leave(&mut self.buckets, at, row);
        self.buckets[at as usize] = Bucket::default();
        self.unassigned.push_back(at);
    }

    /// Frees a slot that could not be written. Its bucket is used last from now on, because another bucket may be on a
    /// device that works.
    pub(super) fn free_failed(&mut self, offset: u64, length: usize) {
        self.free(offset, length);
        let at = (offset / self.bucket_size) as u32;
        let list = match self.buckets[at as usize].size {
            Some(class) => &mut self.open[class],
            None => &mut self.unassigned,
        };
        if list.back() == Some(&at) {
            list.rotate_right(1);
        }
    }

    /// Counts an evicted block of this many bytes.
    pub(super) fn note_evicted(&mut self, length: usize) {
        if let Some(class) = self.class_of(length) {
            self.counts[class].evicted += 1;
        }
    }

    /// Assigns the slot at `offset` to a block that is stored there already. Returns `false` when the slot is used or
    /// does not exist.
    pub(super) fn take(&mut self, block: BlockKey, offset: u64, length: usize) -> bool {
        let Some(class) = self.class_of(length) else { return false };
        let (at, within) = (offset / self.bucket_size, offset % self.bucket_size);
        let size = u64::from(self.counts[class].size);
        let slot = (within / size) as u32;
        let Some(bucket) = usize::try_from(at).ok().and_then(|at| self.buckets.get(at)) else { return false };
        let is_slot = within.is_multiple_of(size) && (u64::from(slot) + 1) * size <= self.bucket_size;
        if !is_slot || bucket.size.is_some_and(|other| other != class) || self.is_closed(offset) {
            return false;
        }
        if bucket.size.is_none() {
            self.cut(at as u32, class);
        }
        let bucket = &mut self.buckets[at as usize];
        // The free slots at the start of the bucket are at the end of the list, so the search begins there.
        let Some(place) = bucket.free.iter().rposition(|free| *free == slot) else { return false };
        bucket.free.remove(place);
        self.give(at as u32, slot, block, length);
        true
    }

    /// Whether the slot at `offset` is free.
    #[cfg(test)]
    pub(super) fn is_free(&self, offset: u64) -> bool {
        let bucket = &self.buckets[(offset / self.bucket_size) as usize];
        bucket.size.is_none_or(|class| {
            let slot = (offset % self.bucket_size) / u64::from(self.counts[class].size);
            bucket.free.contains(&(slot as u32))
        })
    }

    /// Returns a bucket that is cheap to empty: from the lowest fill level that has buckets, the emptiest of the first
    /// [`COMPARED_MAX`] buckets. `None` if no bucket is assigned on a device that receives blocks.
    pub(super) fn emptiest(&self) -> Option<usize> {
        let row = self.by_fill.0.iter().find(|row| !row.is_empty())?;
        let share = |at: &u32| {
            let bucket = &self.buckets[*at as usize];
            (u64::from(bucket.used) * 1_000 / bucket.blocks.len() as u64, *at)
        };
        row.iter().take(COMPARED_MAX).copied().min_by_key(share).map(|at| at as usize)
    }

    /// Returns the used slots of a bucket and their blocks.
    pub(super) fn blocks_in(&self, bucket: usize) -> impl Iterator<Item = (u64, BlockKey)> {
        let start = bucket as u64 * self.bucket_size;
        let Bucket { size, blocks, .. } = &self.buckets[bucket];
        let size = size.map_or(0, |class| u64::from(self.counts[class].size));
        let slots = blocks.iter().zip(0..).filter(|(block, _)| **block != NOBODY);
        slots.map(move |(block, slot)| (start + slot * size, *block))
    }

    /// Returns the block in the slot that begins at `offset`; `None` if no block is there.
    pub(super) fn block_at(&self, offset: u64) -> Option<BlockKey> {
        let mut slots = self.blocks_in((offset / self.bucket_size) as usize);
        slots.find_map(|(at, block)| (at == offset).then_some(block))
    }

    /// Returns the number of unassigned buckets on devices that receive blocks.
    #[cfg(test)]
    pub(super) fn unassigned_there(&self) -> u64 {
        let is_there = |at: &u32| self.buckets[*at as usize].size.is_none();
        self.unassigned.iter().filter(|at| is_there(at)).collect::<std::collections::HashSet<_>>().len()
            as u64
    }

    /// Recomputes every counter.
    ///
    /// # Panics
    /// When a recomputed counter differs.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut counts: Vec<SlotCounts> = self.counts.clone();
        counts.iter_mut().for_each(|of| (of.buckets, of.slots, of.used) = (0, 0, 0));
        let mut lanes = vec![(0, 0); self.lanes.len()];
        for (at, bucket) in (0u32..).zip(&self.buckets) {
            let Some(class) = bucket.size else { continue };
            let lane = self.lane_of(at);
            let is_closed = self.lanes[lane].is_closed;
            let taken = bucket.blocks.iter().filter(|block| **block != NOBODY).count() as u32;
            assert_eq!((taken, taken > 0), (bucket.used, true), "bucket {at}");
            assert_eq!(bucket.blocks.len(), bucket.free.len() + bucket.used as usize, "bucket {at}");
            assert!(bucket.free.iter().all(|slot| bucket.blocks[*slot as usize] == NOBODY), "bucket {at}");
            let row = self.by_fill.0.iter().position(|row| row.contains(&at));
            assert_eq!(row, (!is_closed).then(|| bucket.fill()), "bucket {at}");
            let is_open = self.open[class].contains(&at);
            assert!(if is_closed { !is_open } else { is_open || bucket.free.is_empty() }, "bucket {at}");
            counts[class].buckets += 1;
            counts[class].used += u64::from(taken);
            counts[class].slots += u64::from(if is_closed { taken } else { bucket.blocks.len() as u32 });
            lanes[lane].0 += u64::from(taken);
            lanes[lane].1 += u64::from(taken) * u64::from(self.counts[class].size);
        }
        assert_eq!(counts, self.counts);
        assert_eq!(lanes, self.lanes.iter().map(|lane| (lane.used, lane.bytes)).collect::<Vec<_>>());
        let in_rows: usize = self.by_fill.0.iter().map(Vec::len).sum();
        let open = (0u32..).zip(&self.buckets).filter(|(_, bucket)| bucket.size.is_some());
        assert_eq!(in_rows, open.filter(|(at, _)| !self.lanes[self.lane_of(*at)].is_closed).count());
        let listed = self.open.iter().map(VecDeque::len).sum::<usize>() + self.unassigned.len();
        assert!(listed <= 4 * self.buckets.len() + 8, "{listed} in lists of {} buckets", self.buckets.len());
    }

    pub(super) fn counts(&self) -> &[SlotCounts] {
        &self.counts
    }
}

/// Returns the size of a bucket for these slot sizes, in bytes. A slot never crosses a bucket's end.
pub(super) fn bucket_size(sizes: &[u32]) -> u64 {
    SLOTS_MIN * u64::from(sizes.iter().copied().max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use env::{WallTime, World};

    use super::*;

    const BLOCK: BlockKey = BlockKey { file: FileId(1), offset: 7 };

    /// Returns the fraction of a full device that blocks use, for blocks of at least `block` bytes and cells of `cell`
    /// bytes.
    fn used(sizes: &[u32], block: usize, cell: usize) -> f64 {
        let mut slots = Allocator::new(256 << 20, sizes);
        for at in 0.. {
            // A block ends with the cell that fills it; sizes of cells vary by an eighth.
            let cell = cell + (at * 31 % 17) * cell / 8 / 17;
            let cells = block.div_ceil(cell);
            if slots.allocate(BLOCK, 48 + (cells * cell).next_multiple_of(4) + 8 * cells).is_none() {
                break;
            }
        }
        let bytes: u64 = slots.counts().iter().map(|counts| counts.bytes).sum();
        bytes as f64 / slots.bytes_open() as f64
    }

    #[test]
    fn allocating_and_freeing_in_turn_grows_no_list() {
        let mut slots = Allocator::over(2, 4 * 4_096, &[1_024]);
        let mut taken: Vec<u64> = std::iter::from_fn(|| slots.allocate(BLOCK, 1_000)).collect();
        assert_eq!(taken.len(), 32);
        for turn in 0..10_000 {
            let at = &mut taken[turn * 5 % 32];
            slots.free(*at, 1_000);
            *at = slots.allocate(BLOCK, 1_000).expect("the one that was given back");
        }
        slots.check();
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), 32);
    }

    #[test]
    fn blocks_of_all_usual_sizes_fill_their_slots() {
        for block in [8 << 10, 16 << 10, 64 << 10, 128 << 10] {
            for cell in [64, 80, 160, 1_100, 4_200] {
                let (hbase, ours) = (used(&HBASE_SLOT_SIZES, block, cell), used(&SLOT_SIZES, block, cell));
                let line = format!(
                    "{block:>7} bytes of cells of {cell:>5}: {hbase:.3} with HBase's sizes, {ours:.3}\n"
                );
                // Shown if the test runs with --nocapture.
                std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("shown");
                assert!(ours > 0.90, "{line}");
            }
        }
        assert!(used(&HBASE_SLOT_SIZES, 64 << 10, 80) < 0.8, "why there are others");
        let apart = SLOT_SIZES.windows(2).all(|pair| pair[0] < pair[1] && pair[1] - pair[0] <= pair[0] / 16);
        assert!(apart && SLOT_SIZES.iter().all(|size| size % 256 == 0));
    }

    #[test]
    fn restored_slots_are_taken_without_examining_other_buckets() {
        const BUCKETS: u64 = 10_000;
        let mut slots = Allocator::new(BUCKETS * 4 * 4_096, &[4_096, 1_024]);
        // Frees half of the slots, from the last bucket to the first; of each pair of buckets the later one first.
        for at in (0..BUCKETS / 2).rev() {
            let bucket = 2 * at * 4 * 4_096;
            let length = if at % 2 == 0 { 1_000 } else { 4_000 };
            let size = if at % 2 == 0 { 1_024 } else { 4_096 };
            assert!(slots.take(BLOCK, bucket + size, length) && slots.take(BLOCK, bucket, length));
            assert!(!slots.take(BLOCK, bucket, length), "it is somebody's");
        }
        assert_eq!(slots.looked_at, 0);
        assert_eq!((slots.counts()[0].buckets, slots.counts()[1].buckets), (BUCKETS / 4, BUCKETS / 4));
        // Every free slot is allocated once, and every bucket is examined once.
        let mut given: Vec<u64> = std::iter::from_fn(|| slots.allocate(BLOCK, 4_000)).collect();
        assert_eq!(given.len() as u64, BUCKETS / 2 * 4 + BUCKETS / 4 * 2);
        assert!(slots.looked_at <= BUCKETS, "{}", slots.looked_at);
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len() as u64, BUCKETS / 2 * 4 + BUCKETS / 4 * 2);
        // All slots that were freed can be allocated again.
        given.iter().for_each(|&offset| slots.free(offset, 4_000));
        let again = std::iter::from_fn(|| slots.allocate(BLOCK, 4_000)).count();
        assert_eq!(again, given.len());
    }

    #[test]
    fn a_closed_device_allocates_no_slots_and_reuses_none() {
        let mut slots = Allocator::over(3, 2 * 4 * 4_096, &[1_024, 4_096]);
        let mut taken: Vec<u64> = (0..12).map(|_| slots.allocate(BLOCK, 4_000).expect("room")).collect();
        taken.extend((0..5).map(|_| slots.allocate(BLOCK, 1_000).expect("room")));
        let length = |at: u64| if taken[..12].contains(&at) { 4_000 } else { 1_000 };
        let is_there = |at: u64| Allocator::device_of(4 * 4_096, 3, at).0 == 1;
        let there: Vec<u64> = taken.iter().copied().filter(|&at| is_there(at)).collect();
        assert_eq!((slots.used_on(1), slots.bytes_open()), (there.len() as u64, 6 * 16_384));
        slots.close(1);
        slots.close(1);
        assert_eq!(slots.bytes_open(), 4 * 16_384);
        let bytes =
            |slots: &Allocator| slots.counts().iter().map(|one| one.used * u64::from(one.size)).sum::<u64>();
        assert!(slots.bytes_closed() > 0 && slots.bytes_closed() < bytes(&slots));
        assert!(!slots.take(BLOCK, 16_384 * 4, 4_000), "no slot of the closed device is restored either");
        for &at in &there {
            assert!(slots.is_closed(at) && slots.block_at(at).is_some(), "it is read as before");
            slots.free(at, length(at));
        }
        assert_eq!((slots.used_on(1), slots.bytes_closed()), (0, 0));
        let mut more: Vec<u64> = std::iter::from_fn(|| slots.allocate(BLOCK, 4_000)).collect();
        more.extend(std::iter::from_fn(|| slots.allocate(BLOCK, 1_000)));
        assert!(!more.is_empty() && !more.iter().any(|&at| is_there(at)));
        assert!(slots.emptiest().is_some_and(|bucket| bucket % 3 != 1));
        let filled: u64 = slots.counts().iter().map(|one| one.slots * u64::from(one.size)).sum();
        assert_eq!((filled, bytes(&slots)), (4 * 16_384, 4 * 16_384), "all of the others is used");
    }

    #[test]
    fn after_a_failed_write_other_buckets_are_tried_first() {
        let mut slots = Allocator::over(2, 4 * 4 * 4_096, &[1_024, 4_096]);
        let is_sick = |at: u64| Allocator::device_of(4 * 4_096, 2, at).0 == 0;
        let mut failed = 0;
        for _ in 0..16 {
            let mut at = slots.allocate(BLOCK, 4_000).expect("room");
            while is_sick(at) {
                failed += 1;
                assert!(failed <= 16);
                slots.free_failed(at, 4_000);
                at = slots.allocate(BLOCK, 4_000).expect("room");
            }
        }
        assert_eq!((slots.used_on(0), slots.used_on(1)), (0, 16));
    }

    /// Returns every assigned bucket and how full it is, in thousandths.
    fn shares(slots: &Allocator) -> Vec<(usize, u32)> {
        let cut = slots.buckets.iter().enumerate().filter(|(_, bucket)| bucket.size.is_some());
        cut.map(|(at, bucket)| (at, bucket.used * 1_000 / bucket.blocks.len() as u32)).collect()
    }

    #[test]
    fn the_bucket_to_empty_is_nearly_the_emptiest() {
        let sizes = [256, 1_024, 1_500, 4_096];
        let mut slots = Allocator::new(300 * 4 * 4_096, &sizes);
        let random = World::simulated(5, WallTime(0));
        let mut taken: Vec<(u64, usize)> = Vec::new();
        for round in 0..20_000u32 {
            // The store is filled and emptied in turn.
            let is_filling = round / 4_000 % 2 == 0;
            let draw = random.random();
            if draw % 16 < if is_filling { 12 } else { 4 } {
                let length = sizes[(draw >> 8) as usize % sizes.len()] as usize;
                taken.extend(slots.allocate(BLOCK, length).map(|at| (at, length)));
            } else if !taken.is_empty() {
                let (at, length) = taken.swap_remove((draw >> 8) as usize % taken.len());
                slots.free(at, length);
            }
            if round % 97 == 0 {
                let shares = shares(&slots);
                let least = shares.iter().map(|(_, share)| *share).min();
                let found = slots.emptiest();
                assert_eq!(found.is_some(), least.is_some());
                let Some((found, least)) = found.zip(least) else { continue };
                let (_, share) = shares.iter().find(|(at, _)| *at == found).expect("it is cut");
                assert!(*share <= least + 1_000 / FILL_STEPS, "{share} of a thousand, there is {least}");
                let stand: usize = slots.by_fill.0.iter().map(Vec::len).sum();
                assert_eq!(stand, shares.len(), "each bucket is in one list");
            }
        }
        taken.drain(..).for_each(|(at, length)| slots.free(at, length));
        assert_eq!(slots.emptiest(), None);
    }

    #[test]
    fn slots_of_a_size_share_buckets_and_empty_buckets_change_hands() {
        let mut slots = Allocator::new(4 * 4 * 4_096 + 100, &[4_096, 1_024]);
        assert_eq!(slots.bytes_open(), 4 * 16_384);
        assert_eq!(
            (slots.class_of(1_024), slots.class_of(1_025), slots.class_of(4_097)),
            (Some(0), Some(1), None)
        );
        let small: Vec<u64> = (0..17).map(|_| slots.allocate(BLOCK, 1_000).expect("room")).collect();
        assert_eq!((slots.counts()[0].buckets, slots.counts()[0].used), (2, 17));
        let large: Vec<u64> = (0..8).map(|_| slots.allocate(BLOCK, 3_000).expect("room")).collect();
        assert_eq!(slots.allocate(BLOCK, 2_000), None, "all buckets are somebody's");
        let mut all: Vec<u64> = small.iter().chain(&large).copied().collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 25, "no slot is given twice");
        assert_eq!(slots.emptiest(), Some(1), "the one with one small slot");
        assert_eq!(slots.blocks_in(1).collect::<Vec<_>>(), [(16_384, BLOCK)]);
        assert_eq!((slots.block_at(15_360), slots.block_at(17_408)), (Some(BLOCK), None));
        slots.note_evicted(1_000);
        slots.free(small[16], 1_000);
        assert!(slots.is_free(small[16]) && !slots.is_free(small[0]));
        assert_eq!((slots.counts()[0].buckets, slots.counts()[0].evicted), (1, 1));
        slots.allocate(BLOCK, 2_000).expect("the bucket has changed hands");
        assert_eq!(slots.counts()[1].buckets, 3);
        small[..16].iter().for_each(|&offset| slots.free(offset, 1_000));
        large.iter().for_each(|&offset| slots.free(offset, 3_000));
        assert_eq!(slots.counts()[0], SlotCounts { size: 1_024, evicted: 1, ..SlotCounts::default() });
    }
}
