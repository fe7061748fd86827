//! Loads blocks of a file into the cache, after it was opened, or where its [writer](crate::CacheOnWrite) found no room for
//! them.

use cache::{Block, BlockKind};

use crate::ahead::{ReadAhead, ReadType};
use crate::index::{Entry, Leaf, Ordered};
use crate::prefetch::LEVELS_MAX;
use crate::{Reader, Result};

/// Number of consecutive blocks without room in the cache after which loading stops. More than one, because parts of
/// the cache fill up at different times.
const WITHOUT_ROOM_MAX: u32 = 64;

/// The progress of loading a file.
#[derive(Default)]
struct Loading {
    /// Number of blocks loaded.
    blocks: u64,
    /// Number of consecutive blocks without room.
    without_room: u32,
    ahead: Option<Box<ReadAhead>>,
}

impl Reader {
    /// Loads all blocks that are not cached and for which there is free space: the Bloom filters first, then the index
    /// with the data blocks. Returns the number of loaded blocks. Stops early when the file is deleted or the cache has no
    /// room.
    ///
    /// The index says where the blocks are, so nothing is read for a cached block. Neighbouring blocks are read together.
    pub fn warm(&self) -> Result<u64> {
        // A damaged file may claim any number of levels.
        if self.levels() > LEVELS_MAX {
            return Ok(0);
        }
        let mut loading = Loading::default();
        for entry in self.filters().flat_map(|filter| filter.entries.iter()) {
            self.load_one(entry, BlockKind::Bloom, &mut loading)?;
        }
        loading.without_room = 0;
        self.load_below(self.root(), self.levels(), &mut loading)?;
        Ok(loading.blocks)
    }

    /// Loads the blocks that `entries` name: data blocks if `levels` is 1, otherwise index blocks and all blocks below
    /// them.
    fn load_below(&self, entries: &impl Ordered, levels: u32, loading: &mut Loading) -> Result<()> {
        for entry in entries.iter() {
            if loading.without_room >= WITHOUT_ROOM_MAX || self.cached.is_gone() {
                break;
            }
            if levels <= 1 {
                self.load_one(entry, BlockKind::Data, loading)?;
                continue;
            }
            let at = entry.offset;
            let cached = self.cached.peek(BlockKind::Index, std::iter::once(at)).pop().flatten();
            let (kind, bytes) = match cached {
                Some(block) => (block.kind, block.bytes.clone()),
                None => {
                    let block = self.read_block(at, Some(entry.disk_length))?;
                    let found = (block.kind, block.bytes.clone());
                    self.keep(at, block, loading);
                    found
                }
            };
            let leaf = Leaf::checked(&bytes).filter(|_| kind == BlockKind::Index);
            let leaf = leaf.ok_or_else(|| self.corrupt(at, "block kind", "Index", format!("{kind:?}")))?;
            self.load_below(&leaf, levels - 1, loading)?;
        }
        Ok(())
    }

    /// Loads one block, if it is not cached and there is room. `kind` is the kind that it should have.
    fn load_one(&self, entry: Entry<'_>, kind: BlockKind, loading: &mut Loading) -> Result<()> {
        let (at, length) = (entry.offset, entry.disk_length as usize);
        if self.cached.is_gone() || self.cached.has(at) {
            return Ok(());
        }
        // The decompressed block is larger than `length`. So without room for that many bytes the block is not read at
        // all.
        if !self.cached.has_room(at, kind, length) {
            loading.without_room += 1;
            return Ok(());
        }
        let block = match kind {
            BlockKind::Data => self.read_block_ahead(at, ReadType::Stream, &mut loading.ahead)?,
            // These are far from each other.
            BlockKind::Index | BlockKind::Bloom => self.read_block(at, Some(entry.disk_length))?,
        };
        self.keep(at, block, loading);
        Ok(())
    }

    fn keep(&self, at: u64, block: Block, loading: &mut Loading) {
        let is_kept = self.cached.put(at, block, false);
        loading.without_room = if is_kept { 0 } else { loading.without_room + 1 };
        loading.blocks += u64::from(is_kept);
    }

    /// Loads those of the given blocks that are not cached and for which there is free space; `blocks` are the offsets and
    /// lengths from [`Written::warm`](crate::Written::warm). Returns the number of loaded blocks. Stops early when the file
    /// is deleted.
    pub fn warm_blocks(&self, blocks: &[(u64, u32)]) -> Result<u64> {
        let mut read = 0;
        for &(at, length) in blocks {
            if self.cached.is_gone() {
                break;
            }
            // The kind of a block is known only after it was read, so room in the part of any kind is enough.
            let has_room =
                || BlockKind::ALL.into_iter().any(|kind| self.cached.has_room(at, kind, length as usize));
            if !self.cached.has(at) && has_room() {
                let block = self.read_block(at, Some(length))?;
                read += u64::from(self.cached.put(at, block, false));
            }
        }
        Ok(read)
    }
}
