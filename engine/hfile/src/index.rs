//! The block index. It finds the block whose first key is the last one at or before a position.
//!
//! ```text
//! root          entry, entry, …            entry: offset 8B · size on disk 4B · vint key length · key
//! leaf, middle  n 4B · (n+1) × offset of the entry 4B, from the end of these · entry, entry, …
//!                                          entry: offset 8B · size on disk 4B · key
//! ```
//!
//! If the entries fit one leaf they are stored in the root. Otherwise full leaves are written between the data blocks,
//! and the root has an entry for each leaf or, if it would become too large, for each middle block. A root with levels
//! below ends with the offset and size of the middle leaf of the file, and the index of the middle entry in that leaf
//! (8 + 4 + 4 bytes). A reader gets the middle key of the file from there.

use std::ops::Range;

use cell::{Comparator, Key};

use crate::format::write_vlong;
use crate::heads;

/// Number of bytes after the entries of a root with levels below.
pub(crate) const MIDDLE_LENGTH: usize = 16;

/// Size of the entries at which an index block is full, in bytes: HBase's default of `hfile.index.block.max.size`.
pub(crate) const BLOCK_SIZE_MAX: usize = 128 << 10;

/// An index entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) offset: u64,
    pub(crate) disk_length: u32,
    pub(crate) key: &'a [u8],
}

impl Entry<'_> {
    pub(crate) fn write_root(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_be_bytes());
        out.extend_from_slice(&self.disk_length.to_be_bytes());
        write_vlong(out, self.key.len() as i64);
        out.extend_from_slice(self.key);
    }
}

/// Index entries in order, with their keys in one buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    places: Vec<(u64, u32)>,
    /// The end of each entry's key in `keys`.
    ends: Vec<u32>,
    keys: Vec<u8>,
    /// Row heads of the keys, for searching, and the length of the common prefix; empty before [`Entries::make_heads`].
    heads: (Box<[u32]>, u16),
}

impl Entries {
    pub(crate) fn push(&mut self, entry: Entry<'_>) {
        self.places.push((entry.offset, entry.disk_length));
        self.keys.extend_from_slice(entry.key);
        self.ends.push(self.keys.len() as u32);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Makes the row heads, after the keys were validated and the last entry was added.
    pub(crate) fn make_heads(&mut self, comparator: Comparator) {
        // A single entry needs no search. Rows of the catalog are not ordered by their bytes, so heads would not help.
        if comparator == Comparator::Table && self.len() > 1 {
            let rows = (0..self.len()).map(|index| self.row(index));
            self.heads = heads::build(self.row(0), self.row(self.len() - 1), rows);
        }
    }

    fn row(&self, index: usize) -> &[u8] {
        Key::trusted(self.at(index).key).row()
    }

    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.ends.clear();
        self.keys.clear();
    }

    /// Returns the size of a block with these entries, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.keys.len() + 16 * self.len() + 8
    }

    pub(crate) fn write_leaf(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.len() as u32).to_be_bytes());
        for index in 0..=self.len() {
            let keys = index.checked_sub(1).map_or(0, |before| self.ends[before]);
            out.extend_from_slice(&(keys + 12 * index as u32).to_be_bytes());
        }
        for entry in self.iter() {
            out.extend_from_slice(&entry.offset.to_be_bytes());
            out.extend_from_slice(&entry.disk_length.to_be_bytes());
            out.extend_from_slice(entry.key);
        }
    }

    /// Parses `count` entries in the format of the root; returns them and the remaining bytes. `None` if the bytes are
    /// malformed or too few.
    pub(crate) fn parse_root(mut bytes: &[u8], count: u32) -> Option<(Entries, &[u8])> {
        let mut entries = Entries::default();
        for _ in 0..count {
            let (offset, rest) = bytes.split_first_chunk::<8>()?;
            let (length, rest) = rest.split_first_chunk::<4>()?;
            let (key, used) = crate::format::read_vlong(rest)?;
            let (key, rest) = rest.get(used..)?.split_at_checked(usize::try_from(key).ok()?)?;
            entries.push(Entry {
                offset: u64::from_be_bytes(*offset),
                disk_length: u32::from_be_bytes(*length),
                key,
            });
            bytes = rest;
        }
        Some((entries, bytes))
    }
}

impl Ordered for Entries {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn of_row(&self, row: &[u8]) -> Range<usize> {
        match &self.heads {
            (heads, _) if heads.is_empty() => 0..self.len(),
            (heads, shared) => {
                let candidates = heads::candidates(heads, *shared, row);
                heads::narrow(candidates, heads.len(), *shared, row, |index| self.row(index))
            }
        }
    }

    fn at(&self, index: usize) -> Entry<'_> {
        let from = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        let (offset, disk_length) = self.places[index];
        Entry { offset, disk_length, key: &self.keys[from..self.ends[index] as usize] }
    }
}

/// A leaf or middle block, parsed in place: a lookup reads only the entries that it compares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf<'a> {
    /// The offset in `body` of the start of each entry, and of the end of the last one; 4 bytes each.
    offsets: &'a [u8],
    body: &'a [u8],
}

impl<'a> Leaf<'a> {
    /// Parses a block of the file and checks every entry except its key. Returns `None` if an entry is invalid.
    pub(crate) fn check(bytes: &'a [u8]) -> Option<Leaf<'a>> {
        let leaf = Leaf::checked(bytes)?;
        (0..leaf.len()).all(|index| leaf.entry(index).is_some()).then_some(leaf)
    }

    /// Parses a block whose entries were [checked](Leaf::check) before. Returns `None` if the block is too short.
    pub(crate) fn checked(bytes: &'a [u8]) -> Option<Leaf<'a>> {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let count = u32::from_be_bytes(*count) as usize;
        let (offsets, body) = rest.split_at_checked(count.checked_add(1)?.checked_mul(4)?)?;
        Some(Leaf { offsets, body })
    }

    fn offset(&self, index: usize) -> Option<usize> {
        let word = self.offsets.get(4 * index..)?.first_chunk::<4>()?;
        Some(u32::from_be_bytes(*word) as usize)
    }

    fn entry(&self, index: usize) -> Option<Entry<'a>> {
        let entry = self.body.get(self.offset(index)?..self.offset(index + 1)?)?;
        let (place, rest) = entry.split_first_chunk::<8>()?;
        let (length, key) = rest.split_first_chunk::<4>()?;
        Some(Entry { offset: u64::from_be_bytes(*place), disk_length: u32::from_be_bytes(*length), key })
    }
}

impl Ordered for Leaf<'_> {
    fn len(&self) -> usize {
        self.offsets.len() / 4 - 1
    }

    fn at(&self, index: usize) -> Entry<'_> {
        self.entry(index).expect("the block was checked")
    }
}

/// Index entries in the order of their keys.
pub(crate) trait Ordered {
    fn len(&self) -> usize;

    /// Returns the entry at `index`, which must be less than [`len`](Ordered::len).
    fn at(&self, index: usize) -> Entry<'_>;

    fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        (0..self.len()).map(|index| self.at(index))
    }

    /// Returns the range of entries that can have `row`: entries before the range sort before the row, entries after it
    /// sort after the row.
    fn of_row(&self, _row: &[u8]) -> Range<usize> {
        0..self.len()
    }

    /// Returns the first index in `range` for which `before` is false.
    fn partition(&self, range: Range<usize>, mut before: impl FnMut(Entry<'_>) -> bool) -> usize {
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.at(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }
}
