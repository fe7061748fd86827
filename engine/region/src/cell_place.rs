//! What a store holds, as it lies: every cell of every segment and file, whoever may still see it.
//!
//! Readers ask by [`Scan`](crate::Scan), and learn nothing of where a cell is. This is for those who must know what a
//! flush or a compaction has kept: proofs and tools.

use cell::{Cell, KeyBuf, SequenceId};
use hfile::ReadOptions;

use crate::Result;
use crate::heap::{Heap, Source, Sources};
use crate::region::Region;

/// Where a cell lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellPlace<'a> {
    /// In the segment that takes the writes.
    Active,
    /// In one that takes none any more.
    Sealed,
    /// In the file of this name.
    File(&'a str),
}

impl Region {
    /// Gives each cell of a family's store to `visit`, and where it lies. The cells of one segment or file come in order.
    pub fn visit_stored(&self, family: &[u8], visit: &mut dyn FnMut(CellPlace<'_>, Cell<'_>)) -> Result<()> {
        let store = self.store(family)?;
        let view = store.view.load_full();
        let options = ReadOptions { cache_blocks: false, ..ReadOptions::default() };
        let place = |index| if index == 0 { CellPlace::Active } else { CellPlace::Sealed };
        let memory =
            view.segments().enumerate().filter(|(_, segment)| !segment.is_empty()).map(|(index, segment)| {
                (place(index), Source::Memory(memstore::Cursor::new(segment.clone())))
            });
        let files = view
            .files
            .iter()
            .map(|file| (CellPlace::File(&file.listed.name), Source::File(file.cursor(options))));
        for (place, source) in memory.chain(files) {
            let mut heap = Heap::new(store.comparator, SequenceId::MAX, Sources::from_iter([source]));
            heap.seek(KeyBuf::first_on_row(b"").position())?;
            while let Some(cell) = heap.peek() {
                visit(place, cell);
                heap.advance()?;
            }
        }
        Ok(())
    }
}
