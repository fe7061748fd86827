//! The form in which the cache keeps a block, made by the reader that has read it or by the writer that has written it.

use bytes::Bytes;
use cache::{Block, BlockKind};
use cell::{Cell, Comparator};

use crate::compress::Compression;
use crate::format::Encoding;
use crate::heads;
use crate::starts::Builder;

/// The start of each cell of a block, and which cells begin a row.
#[derive(Default)]
pub(crate) struct CellPlaces {
    pub(crate) offsets: Vec<u32>,
    pub(crate) row_starts: Builder,
}

/// What the header of a block says about the blocks around it.
#[derive(Clone, Copy)]
pub(crate) struct Neighbours {
    pub(crate) disk_length: u32,
    /// Offset of the previous block of the kind.
    pub(crate) previous: Option<u64>,
}

/// Whether the cache keeps data blocks of a file with this compression and encoding as they are in the file.
pub(crate) fn is_packed(cached: &cache::File, compression: Compression, encoding: Encoding) -> bool {
    let differs = compression != Compression::None || encoding != Encoding::None;
    differs && cached.cache().options().switches.data_compressed
}

/// Returns the form of a block that readers use. `bytes` are the block's content, unpacked and decoded; `cells` are empty
/// unless it is a data block.
pub(crate) fn ready(
    kind: BlockKind,
    bytes: Bytes,
    cells: CellPlaces,
    Neighbours { disk_length, previous }: Neighbours,
    comparator: Comparator,
) -> Block {
    let CellPlaces { offsets, row_starts } = cells;
    let row = |place: u32| Cell::key_within(&bytes[place as usize..]).row();
    let (heads, shared) = match (comparator, &offsets[..]) {
        (Comparator::Table, [first, .., last]) => {
            heads::build(row(*first), row(*last), offsets.iter().map(|&place| row(place)))
        }
        _ => ([].into(), 0),
    };
    let (offsets, heads) = (offsets.into_boxed_slice().into(), heads.into());
    let row_starts = row_starts.finish().into();
    Block { kind, bytes, offsets, heads, shared, row_starts, disk_length, previous, packed: false }
}

/// Returns the form of a data block that the cache keeps packed. `bytes` are those of the file, from the block's header up
/// to its checksums.
pub(crate) fn packed(bytes: Bytes, Neighbours { disk_length, previous }: Neighbours) -> Block {
    Block {
        kind: BlockKind::Data,
        bytes,
        offsets: [].into(),
        heads: [].into(),
        shared: 0,
        row_starts: [].into(),
        disk_length,
        previous,
        packed: true,
    }
}
