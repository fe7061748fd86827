//! What an open file tells of itself to those who count and split: sizes, and the row in its middle. And how much of
//! all files this thread has read, for whoever measures a scan.

use std::cell::Cell as Slot;

use cell::Key;

use crate::cursor::ReadOptions;
use crate::index::{Leaf, Ordered};
use crate::reader::Reader;
use crate::{Error, Result};

/// Sizes of the parts of a file, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Everything before compression.
    pub uncompressed: u64,
    /// The index of data blocks, all levels.
    pub index: u64,
    /// The part of it that is always in memory.
    pub root_index: u64,
    /// Bloom filters.
    pub bloom: u64,
}

thread_local! {
    static DATA_BYTES: Slot<u64> = const { Slot::new(0) };
}

/// Bytes of the data blocks that this thread has looked into since it was started, cached or not. The difference of two
/// moments is what was done between them.
pub fn data_bytes_of_thread() -> u64 {
    DATA_BYTES.get()
}

/// Notes that this thread looks into a data block of so many bytes.
pub(crate) fn note_data(bytes: usize) {
    DATA_BYTES.set(DATA_BYTES.get().wrapping_add(bytes as u64));
}

impl Reader {
    /// Sizes of its parts.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// A row near the middle of the file, where a region may be cut in two: that of a block boundary in the middle of the
    /// index. `None` when the file's first or last row stands there, so that nothing would lie on one side. May read a
    /// block of the index.
    pub fn middle_row(&self) -> Result<Option<Vec<u8>>> {
        let (root, levels) = self.root_index();
        if root.is_empty() {
            return Ok(None);
        }
        let row_of = |key: &[u8]| Key::parse(key).map(|key| key.row().to_vec());
        let entry = root.at(root.len() / 2);
        let mut middle = row_of(entry.key);
        // An odd number of entries at the top has the middle inside of one of them.
        if root.len() % 2 == 1 {
            let options = ReadOptions::default();
            let mut place = (entry.offset, entry.disk_length);
            for _ in 1..levels {
                let block = self.block(place.0, Some(place.1), cache::BlockKind::Index, options.into())?;
                let leaf = Leaf::checked(&block.bytes).expect("the block was checked");
                let below = leaf.at(leaf.len() / 2);
                place = (below.offset, below.disk_length);
                middle = row_of(below.key);
            }
        }
        let middle = middle.map_err(|error| {
            Error::corrupt(self.name(), entry.offset, "index key", "a key".to_owned(), error.to_string())
        })?;
        let first = row_of(root.at(0).key).unwrap_or_default();
        let is_last = self.last_key().is_some_and(|key| key.row() == middle);
        Ok((middle != first && !is_last).then_some(middle))
    }
}
