//! Facts about an open file: the sizes of its parts, for region loads, and its middle row, for splits. Also counts the
//! bytes that the current thread has read from all files, for scan metrics.

use std::cell::Cell as Slot;

use cell::Key;

use crate::cursor::ReadOptions;
use crate::index::{Leaf, Ordered};
use crate::reader::Reader;
use crate::{Error, Result};

/// Sizes of the parts of a file, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Size of all blocks before compression.
    pub uncompressed: u64,
    /// Size of all levels of the data block index.
    pub index: u64,
    /// Size of the part of the index that is always in memory.
    pub root_index: u64,
    /// Size of the Bloom filters.
    pub bloom: u64,
}

thread_local! {
    static DATA_BYTES: Slot<u64> = const { Slot::new(0) };
}

/// Returns the number of bytes of data blocks that this thread has read since it started, from the cache or not. For
/// the bytes of one operation, subtract the results of two calls.
pub fn data_bytes_of_thread() -> u64 {
    DATA_BYTES.get()
}

/// Records that this thread reads a data block of this size.
pub(crate) fn note_data(bytes: usize) {
    DATA_BYTES.set(DATA_BYTES.get().wrapping_add(bytes as u64));
}

impl Reader {
    /// Returns the sizes of the file's parts.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Returns a row near the middle of the file at which a region may be split: the first row of a block in the middle
    /// of the index. `None` if it equals the file's first or last row, which would leave one side empty, and for a file
    /// without cells. May read an index block.
    pub fn middle_row(&self) -> Result<Option<Vec<u8>>> {
        let (root, levels) = self.root_index();
        if root.is_empty() {
            return Ok(None);
        }
        let row_of = |key: &[u8]| Key::parse(key).map(|key| key.row().to_vec());
        let entry = root.at(root.len() / 2);
        let mut middle = row_of(entry.key);
        // If the number of top-level entries is odd, the middle is inside one of them.
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
