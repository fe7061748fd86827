//! The replacement policy: W-TinyLFU with clocks in place of lists.
//!
//! 1. A new entry enters a small window, first in, first out.
//! 2. An entry that leaves the window is a candidate for the main part. It is admitted while there is room. Otherwise
//!    it is compared with the next victim, and the one that was used [more often lately](super::sketch) stays. An entry
//!    that was used only once never replaces another, so a scan, which uses each block once, evicts nothing there.
//! 3. The main part is a clock: a hit only increments the entry's marks, so a lookup writes to that entry and not to
//!    its neighbours. The hand skips marked entries and decrements their marks.
//! 4. Entries of in-memory families have a clock of their own, from which no other family evicts. When they exceed
//!    their share, they evict each other.
//!
//! The traces in `engine/cache/src/memory/traces.rs` led to this choice. On skewed reads (exponent 0.99, a tenth of the
//! blocks in memory) this policy has 75.7 % hits. W-TinyLFU as published has 74.7 %; it moves a list entry on each hit,
//! which touches three cache lines more. S3-FIFO has 74.6 %, and HBase's LruBlockCache 72.5 %. Under scans, too, it has
//! more hits than W-TinyLFU and S3-FIFO. On loops S3-FIFO is far worse. When the whole working set moves, S3-FIFO and
//! LRU adapt faster, by two points.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;

use hashbrown::HashTable;

use super::sketch::{FREQUENCY_MAX, Sketch};
use super::{Mix, hash_of};
use crate::{BlockKey, FileId};

/// The window's size is the capacity divided by this number.
const WINDOW_PART: usize = 100;
/// Maximum marks of an entry: how often the hand skips it.
const MARKS_MAX: u8 = 3;
/// An entry that is offered because the other tier has it must have been used this many times as often as the victim.
/// Copying an entry costs more than a few lookups in the other tier, and under uniform use entries must not move back
/// and forth.
const OFFER_FACTOR: u64 = 2;
/// Maximum number of victims in the main part with which a [`Cause::Wanted`] entry is compared.
const CONTESTS_MAX: usize = 8;
/// Maximum number of a file's entries that are visited at a time, since every lookup needs the same lock.
const OF_FILE_MAX: usize = 1024;
/// The index that means "no entry".
const NONE: u32 = u32::MAX;

/// The list that contains an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Window,
    Main,
    InMemory,
}

/// The circumstances under which a value is admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    /// Weight of the value, in bytes.
    pub(crate) weight: usize,
    /// Whether the value belongs to an in-memory family.
    pub(crate) in_memory: bool,
    /// Why the value is admitted.
    pub(crate) cause: Cause,
}

/// Why a value is admitted to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A request reads the value.
    Request,
    /// The value is of a file that was just written or opened, and may be read. It is admitted only where there is
    /// [room](Shelf::has_room).
    Ahead,
    /// Like [`Ahead`](Cause::Ahead), but the value should be cached in any case: its family's settings ask for that, or
    /// it replaces a cached block.
    Wanted,
}

/// The fields of an entry that a lookup reads. They are apart so that two entries fit a cache line, if values are
/// blocks.
#[derive(Debug)]
struct LookupEntry<V> {
    key: BlockKey,
    /// The cached value; `None` for a free entry.
    value: Option<V>,
    marks: u8,
}

/// The fields of an entry that a lookup does not read.
#[derive(Debug)]
struct Entry {
    hash: u64,
    weight: usize,
    place: Place,
    cause: Cause,
    newer: u32,
    older: u32,
    /// The neighbours in the list of all entries of the same file.
    file_next: u32,
    file_before: u32,
}

/// A list from newest to oldest, linked through the entries.
#[derive(Clone, Copy, Debug)]
struct List {
    newest: u32,
    oldest: u32,
    bytes: usize,
}

impl Default for List {
    fn default() -> List {
        List { newest: NONE, oldest: NONE, bytes: 0 }
    }
}

/// The index of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryIndex(u32);

/// The replacement policy and its entries; see the module documentation. A `hash` argument is the [`hash_of`] of the
/// key argument.
#[derive(Debug)]
pub(crate) struct Shelf<V> {
    kept: Vec<LookupEntry<V>>,
    /// All entries, used or free.
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// Indices of used entries by the hash of their keys. The keys are stored with the entries only, so that this table
    /// stays in the processor's cache.
    places: HashTable<u32>,
    /// One entry of each file. The file's other entries are linked from it.
    files: HashMap<FileId, u32, BuildHasherDefault<Mix>>,
    lists: [List; 3],
    sketch: Sketch,
    bytes_max: usize,
    window_max: usize,
    in_memory_max: usize,
    /// Number of entries evicted to make room.
    pub(crate) evicted: u64,
    /// Number of entries not admitted, because the entries that they would have replaced are used more often.
    pub(crate) refused: u64,
}

impl<V> Shelf<V> {
    /// Creates a shelf of `bytes_max` bytes. In-memory families can hold `in_memory_max` of these, from which other
    /// families evict nothing.
    pub(crate) fn new(bytes_max: usize, in_memory_max: usize) -> Shelf<V> {
        Shelf {
            kept: Vec::new(),
            entries: Vec::new(),
            free: Vec::new(),
            places: HashTable::new(),
            files: HashMap::default(),
            lists: [List::default(); 3],
            sketch: Sketch::new(),
            bytes_max,
            window_max: bytes_max / WINDOW_PART,
            in_memory_max: in_memory_max.min(bytes_max),
            evicted: 0,
            refused: 0,
        }
    }

    /// Changes the capacity, and evicts entries that exceed it.
    pub(crate) fn limit(&mut self, bytes_max: usize, in_memory_max: usize, gone: &mut Vec<V>) {
        self.bytes_max = bytes_max;
        self.window_max = bytes_max / WINDOW_PART;
        self.in_memory_max = in_memory_max.min(bytes_max);
        self.make_room(gone);
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lists.iter().map(|list| list.bytes).sum()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.kept.iter().filter_map(|kept| kept.value.as_ref())
    }

    /// Returns the number of entries, used or free: the end of the range of indices. An entry keeps its index.
    pub(crate) fn places(&self) -> usize {
        self.entries.len()
    }

    /// Returns the used entries in this range of indices, and whether they belong to an in-memory family.
    pub(crate) fn entries(&self, places: Range<usize>) -> impl Iterator<Item = (BlockKey, &V, bool)> {
        let end = places.end.min(self.entries.len());
        let places = places.start.min(end)..end;
        self.kept[places.clone()].iter().zip(&self.entries[places]).filter_map(|(kept, entry)| {
            kept.value.as_ref().map(|value| (kept.key, value, entry.place == Place::InMemory))
        })
    }

    #[inline]
    fn find(&self, key: BlockKey, hash: u64) -> Option<u32> {
        self.places.find(hash, |&at| self.kept[at as usize].key == key).copied()
    }

    pub(crate) fn has(&self, key: BlockKey) -> bool {
        self.find(key, hash_of(key)).is_some()
    }

    pub(crate) fn has_file(&self, file: FileId) -> bool {
        self.files.contains_key(&file)
    }

    /// Returns those values of a file that requests have read, among its [newest entries](OF_FILE_MAX).
    pub(crate) fn read_of(&self, file: FileId) -> impl Iterator<Item = &V> {
        let first = self.files.get(&file).copied();
        let next = |&at: &u32| Some(self.entries[at as usize].file_next).filter(|next| *next != NONE);
        let all = std::iter::successors(first, next).take(OF_FILE_MAX).map(|at| at as usize);
        let read = all.filter(|&at| self.entries[at].cause == Cause::Request || self.kept[at].marks > 0);
        read.filter_map(|at| self.kept[at].value.as_ref())
    }

    /// Returns the value of `key`, which counts as a hit; `None` if it is not here.
    #[inline]
    pub(crate) fn get(&mut self, key: BlockKey, hash: u64) -> Option<&V> {
        let at = self.find(key, hash)?;
        self.sketch.count(hash);
        let kept = &mut self.kept[at as usize];
        kept.marks = (kept.marks + 1).min(MARKS_MAX);
        kept.value.as_ref()
    }

    /// Returns the index of an entry whose key has this hash, and prefetches the entry. It may be the entry of another
    /// key with a similar hash.
    #[inline]
    pub(crate) fn spot(&self, hash: u64) -> Option<EntryIndex> {
        let &at = self.places.iter_hash(hash).next()?;
        cell::fetch_line(std::ptr::from_ref(&self.kept[at as usize]).cast());
        Some(EntryIndex(at))
    }

    /// Returns the value at an index if its key matches; does not count as a hit.
    #[inline]
    pub(crate) fn at(&self, spot: EntryIndex, key: BlockKey) -> Option<&V> {
        self.kept.get(spot.0 as usize).filter(|kept| kept.key == key)?.value.as_ref()
    }

    /// Whether a value of this weight would be admitted without an eviction.
    pub(crate) fn has_room(&self, weight: usize, in_memory: bool) -> bool {
        let of_its_own = self.lists[Place::InMemory as usize].bytes + weight <= self.in_memory_max;
        self.bytes() + weight <= self.bytes_max && (of_its_own || !in_memory)
    }

    /// Admits `value`, if the policy permits it. Evicted values, and `value` itself if it is refused, are moved to
    /// `gone`, since dropping them under a lock may be expensive.
    pub(crate) fn insert(
        &mut self,
        key: BlockKey,
        hash: u64,
        value: V,
        admission: Admission,
        gone: &mut Vec<V>,
    ) {
        let Admission { weight, in_memory, cause } = admission;
        let limit = if in_memory { self.in_memory_max } else { self.bytes_max };
        if cause == Cause::Ahead && !self.has_room(weight, in_memory) {
            gone.push(value);
            return;
        }
        gone.extend(self.find(key, hash).and_then(|at| self.remove(at)));
        // An entry that the family's settings want in the cache counts as used twice.
        (0..if cause == Cause::Wanted { 2 } else { 1 }).for_each(|_| self.sketch.count(hash));
        if weight > limit {
            self.refused += 1;
            gone.push(value);
            return;
        }
        let place = if in_memory { Place::InMemory } else { Place::Window };
        let kept = LookupEntry { key, value: Some(value), marks: 0 };
        let entry = Entry {
            hash,
            weight,
            place,
            cause,
            newer: NONE,
            older: NONE,
            file_next: NONE,
            file_before: NONE,
        };
        let at = match self.free.pop() {
            Some(at) => {
                (self.kept[at as usize], self.entries[at as usize]) = (kept, entry);
                at
            }
            None => {
                self.kept.push(kept);
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.places.insert_unique(hash, at, |&at| self.entries[at as usize].hash);
        self.enter_file(at);
        self.push(at, place);
        self.sketch.fit(self.places.len());
        self.make_room(gone);
    }

    /// Admits `value` like [`insert`](Shelf::insert), for values that the other tier has too: only if there is room, or
    /// if it was used much more often lately than the victim. The call counts as a lookup.
    pub(crate) fn offer(
        &mut self,
        key: BlockKey,
        hash: u64,
        value: impl FnOnce() -> V,
        admission: Admission,
        gone: &mut Vec<V>,
    ) {
        if self.wants(hash, admission) {
            self.insert(key, hash, value(), admission, gone);
        }
    }

    /// Whether [`offer`](Shelf::offer) would admit the value. A refusal counts as a lookup.
    pub(crate) fn wants(&mut self, hash: u64, admission: Admission) -> bool {
        let Admission { weight, in_memory, .. } = admission;
        let (place, bytes, limit) = if in_memory {
            (Place::InMemory, self.lists[Place::InMemory as usize].bytes, self.in_memory_max)
        } else {
            (Place::Main, self.bytes(), self.bytes_max)
        };
        let is_worth_it = weight <= limit
            && (bytes + weight <= limit
                || match self.victim(place) {
                    Some(victim) => {
                        let other = self.sketch.frequency(self.entries[victim as usize].hash);
                        // At most the greatest count. Otherwise an entry that has the greatest count could not replace
                        // a victim that has half of it.
                        let enough = (OFFER_FACTOR * other.max(1)).min(FREQUENCY_MAX);
                        // This lookup counts as one more use, which `insert` would also count.
                        other < FREQUENCY_MAX && self.sketch.frequency(hash) + 1 > enough
                    }
                    None => true,
                });
        if !is_worth_it {
            self.sketch.count(hash);
            self.refused += 1;
        }
        is_worth_it
    }

    fn make_room(&mut self, gone: &mut Vec<V>) {
        while self.lists[Place::InMemory as usize].bytes > self.in_memory_max {
            let Some(victim) = self.victim(Place::InMemory) else { break };
            self.evict(victim, gone);
        }
        while self.lists[Place::Window as usize].bytes > self.window_max {
            let candidate = self.lists[Place::Window as usize].oldest;
            if self.bytes() <= self.bytes_max {
                self.unlink(candidate);
                self.push(candidate, Place::Main);
                continue;
            }
            match self.contest(candidate) {
                Some(victim) => self.evict(victim, gone),
                None => {
                    self.refused += 1;
                    gone.extend(self.remove(candidate));
                }
            }
        }
        while self.bytes() > self.bytes_max {
            let places = [Place::Main, Place::Window, Place::InMemory];
            let Some(victim) = places.into_iter().find_map(|place| self.victim(place)) else { break };
            self.evict(victim, gone);
        }
    }

    /// Returns the entry to evict for the candidate; `None` when the candidate is evicted.
    fn contest(&mut self, candidate: u32) -> Option<u32> {
        let frequency = |shelf: &Self, at: u32| shelf.sketch.frequency(shelf.entries[at as usize].hash);
        // An entry that was used only once may belong to a scan, so it replaces no other entry.
        let mine = frequency(self, candidate);
        // A wanted entry is compared with several victims. Otherwise one that is used often would protect all others.
        let contests = if self.entries[candidate as usize].cause == Cause::Wanted { CONTESTS_MAX } else { 1 };
        for _ in 0..contests {
            let victim = self.victim(Place::Main)?;
            if mine > frequency(self, victim).max(1) {
                return Some(victim);
            }
            if contests > 1 {
                self.unlink(victim);
                self.push(victim, Place::Main);
            }
        }
        None
    }

    /// Returns the next victim of a list; `None` if the list is empty.
    fn victim(&mut self, place: Place) -> Option<u32> {
        loop {
            let oldest = self.lists[place as usize].oldest;
            let kept = self.kept.get_mut(oldest as usize)?;
            if kept.marks == 0 {
                return Some(oldest);
            }
            kept.marks -= 1;
            self.unlink(oldest);
            self.push(oldest, place);
        }
    }

    fn evict(&mut self, at: u32, gone: &mut Vec<V>) {
        self.evicted += 1;
        gone.extend(self.remove(at));
    }

    /// Returns the value of `key`, or `None`; does not count as a hit.
    pub(crate) fn peek(&self, key: BlockKey) -> Option<&V> {
        self.find(key, hash_of(key)).and_then(|at| self.kept[at as usize].value.as_ref())
    }

    /// Replaces the value of `key`; the entry keeps its weight and position.
    pub(crate) fn replace(&mut self, key: BlockKey, value: V) {
        if let Some(at) = self.find(key, hash_of(key)) {
            self.kept[at as usize].value = Some(value);
        }
    }

    /// Removes and returns the next victim; `None` if the shelf is empty.
    pub(crate) fn pop(&mut self) -> Option<V> {
        let places = [Place::Main, Place::Window, Place::InMemory];
        let victim = places.into_iter().find_map(|place| self.victim(place))?;
        self.evicted += 1;
        self.remove(victim)
    }

    /// Removes and returns all values for which `wanted` returns true.
    pub(crate) fn remove_where(&mut self, wanted: impl Fn(&V) -> bool) -> Vec<V> {
        let found: Vec<u32> = (0..self.kept.len() as u32)
            .filter(|&at| self.kept[at as usize].value.as_ref().is_some_and(&wanted))
            .collect();
        found.into_iter().filter_map(|at| self.remove(at)).collect()
    }

    /// Removes and returns the value of a key; `None` if it is not here.
    pub(crate) fn remove_key(&mut self, key: BlockKey) -> Option<V> {
        let at = self.find(key, hash_of(key))?;
        self.remove(at)
    }

    /// Removes and returns all values of a file.
    pub(crate) fn remove_file(&mut self, file: FileId) -> Vec<V> {
        let mut gone = Vec::new();
        while let Some(&at) = self.files.get(&file) {
            gone.extend(self.remove(at));
        }
        gone
    }

    fn remove(&mut self, at: u32) -> Option<V> {
        self.unlink(at);
        self.leave_file(at);
        let hash = self.entries[at as usize].hash;
        let place = self.places.find_entry(hash, |&other| other == at);
        place.expect("what is kept has its place").remove();
        self.free.push(at);
        self.kept[at as usize].value.take()
    }

    fn push(&mut self, at: u32, place: Place) {
        let list = &mut self.lists[place as usize];
        let newest = std::mem::replace(&mut list.newest, at);
        if newest == NONE {
            list.oldest = at;
        } else {
            self.entries[newest as usize].newer = at;
        }
        let entry = &mut self.entries[at as usize];
        (entry.place, entry.newer, entry.older) = (place, NONE, newest);
        list.bytes += entry.weight;
    }

    fn unlink(&mut self, at: u32) {
        let Entry { place, newer, older, weight, .. } = self.entries[at as usize];
        let list = &mut self.lists[place as usize];
        list.bytes -= weight;
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => list.newest = older,
        }
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => list.oldest = newer,
        }
    }

    fn enter_file(&mut self, at: u32) {
        let file = self.kept[at as usize].key.file;
        let next = self.files.insert(file, at).unwrap_or(NONE);
        self.entries[at as usize].file_next = next;
        if let Some(next) = self.entries.get_mut(next as usize) {
            next.file_before = at;
        }
    }

    fn leave_file(&mut self, at: u32) {
        let Entry { file_next, file_before, .. } = self.entries[at as usize];
        let file = self.kept[at as usize].key.file;
        if let Some(next) = self.entries.get_mut(file_next as usize) {
            next.file_before = file_before;
        }
        match self.entries.get_mut(file_before as usize) {
            Some(before) => before.file_next = file_next,
            None if file_next == NONE => {
                self.files.remove(&file);
            }
            None => {
                self.files.insert(file, file_next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::hash_of;

    fn key(file: u64, offset: u64) -> BlockKey {
        BlockKey { file: FileId(file), offset }
    }

    fn put(shelf: &mut Shelf<u64>, key: BlockKey, weight: usize, in_memory: bool) {
        let admission = Admission { weight, in_memory, cause: Cause::Request };
        shelf.insert(key, hash_of(key), key.offset, admission, &mut Vec::new());
    }

    #[test]
    fn all_blocks_of_a_file_are_removed_and_their_entries_reused() {
        let mut shelf = Shelf::new(1 << 20, 0);
        for round in 0..3 {
            for file in 1..=3 {
                (0..100).for_each(|offset| put(&mut shelf, key(file, offset), 10, false));
            }
            assert_eq!(shelf.remove_key(key(2, 50)), Some(50));
            assert_eq!((shelf.remove_file(FileId(2)).len(), shelf.remove_file(FileId(2)).len()), (99, 0));
            assert!(!shelf.has_file(FileId(2)) && shelf.has_file(FileId(1)));
            assert_eq!((shelf.len(), shelf.bytes(), shelf.values().count()), (200, 2_000, 200));
            assert_eq!(shelf.entries.len(), 300, "in round {round}");
        }
    }

    #[test]
    fn in_memory_families_hold_their_share_and_no_more() {
        let mut shelf = Shelf::new(10_000, 2_500);
        (0..200).for_each(|offset| put(&mut shelf, key(1, offset), 100, true));
        assert_eq!((shelf.len(), shelf.bytes()), (25, 2_500));
        for offset in 0..10_000 {
            put(&mut shelf, key(2, offset), 100, false);
            shelf.get(key(2, offset), hash_of(key(2, offset)));
            assert!(shelf.bytes() <= 10_000);
        }
        assert_eq!(shelf.remove_file(FileId(1)).len(), 25, "the others took none of them");
        put(&mut shelf, key(3, 0), 2_501, true);
        assert!(!shelf.has_file(FileId(3)), "blocks beyond the share are not admitted");
    }

    #[test]
    fn blocks_wanted_from_the_start_outlast_blocks_used_once() {
        let mut shelf = Shelf::new(10_000, 0);
        (0..200).for_each(|offset| put(&mut shelf, key(1, offset), 100, false));
        for offset in 0..50 {
            let admission = Admission { weight: 100, in_memory: false, cause: Cause::Wanted };
            let key = key(2, offset);
            shelf.insert(key, hash_of(key), offset, admission, &mut Vec::new());
        }
        let kept = (0..50).filter(|&offset| shelf.has(key(2, offset))).count();
        assert!(kept >= 45, "{kept} of 50");
    }

    /// Offers a value that the other tier has, and returns whether it was admitted.
    fn look(shelf: &mut Shelf<u64>, offset: u64, in_memory: bool) -> bool {
        let (key, admission) = (key(1, offset), Admission { weight: 100, in_memory, cause: Cause::Request });
        let mut is_brought = false;
        if shelf.get(key, hash_of(key)).is_none() {
            let bring = || {
                is_brought = true;
                offset
            };
            shelf.offer(key, hash_of(key), bring, admission, &mut Vec::new());
        }
        is_brought
    }

    #[test]
    fn new_favourites_are_admitted_against_saturated_counters() {
        let follows = |rounds: u64, (room, old, new): (usize, u64, u64), in_memory: bool| {
            let mut shelf = Shelf::new(100 * room, 100 * room);
            for _ in 0..rounds {
                (0..old).for_each(|offset| _ = look(&mut shelf, offset, in_memory));
            }
            for _ in 0..200 {
                (1_000..1_000 + new).for_each(|offset| _ = look(&mut shelf, offset, in_memory));
            }
            let missing = (1_000..1_000 + new).filter(|&offset| !shelf.has(key(1, offset))).count();
            assert_eq!(
                missing, 0,
                "of {new} with room for {room}, after {rounds} rounds, in memory {in_memory}"
            );
        };
        for set in [(20, 24, 3), (20, 24, 12), (130, 140, 3), (130, 140, 40)] {
            // The counters may have been halved recently or not; the result must be the same.
            for rounds in 200..216 {
                [false, true].into_iter().for_each(|in_memory| follows(rounds, set, in_memory));
            }
        }
    }

    #[test]
    fn equally_used_blocks_do_not_evict_each_other() {
        let looks = 100_000;
        for in_memory in [false, true] {
            for (room, items) in [(1_000, 5_000), (1_000, 2_000), (130, 1_300), (130, 200), (10, 100)] {
                let mut shelf = Shelf::new(100 * room, 100 * room);
                let mut random = 1u64;
                let mut brought = 0;
                for at in 0..2 * looks {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let is_brought = look(&mut shelf, (random >> 33) % items, in_memory);
                    brought += u64::from(at >= looks && is_brought);
                }
                let share = brought as f64 / looks as f64;
                assert!(share < 0.04, "{share} with room for {room} of {items}, in memory {in_memory}");
            }
        }
    }

    #[test]
    fn too_large_blocks_are_not_wanted() {
        let mut shelf = Shelf::<u64>::new(1_000, 250);
        let of = |weight, in_memory| Admission { weight, in_memory, cause: Cause::Request };
        assert!(shelf.wants(7, of(1_000, false)) && shelf.wants(7, of(250, true)));
        assert!(!shelf.wants(7, of(1_001, false)) && !shelf.wants(7, of(251, true)));
    }

    #[test]
    fn a_key_that_comes_again_replaces_what_was() {
        let mut shelf = Shelf::new(1_000, 0);
        put(&mut shelf, key(1, 1), 100, false);
        let mut gone = Vec::new();
        let admission = Admission { weight: 200, in_memory: false, cause: Cause::Request };
        shelf.insert(key(1, 1), hash_of(key(1, 1)), 77, admission, &mut gone);
        assert_eq!((gone, shelf.bytes(), shelf.len()), (vec![1], 200, 1));
        assert_eq!(shelf.get(key(1, 1), hash_of(key(1, 1))), Some(&77));
    }
}
