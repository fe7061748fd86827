//! Visits every stored cell of a store, in each segment and file, including cells that no reader can see any more.
//!
//! A [`Scan`](crate::Scan) does not show where a cell is stored. Tests and tools use this to check which cells a flush
//! or a compaction has kept.

use cell::{Cell, KeyBuf, SequenceId};
use hfile::ReadOptions;

use crate::Result;
use crate::heap::{Heap, Source, Sources};
use crate::region::Region;

/// Where a cell is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellPlace<'a> {
    /// The cell is in the active segment, which takes writes.
    Active,
    /// The cell is in a sealed segment.
    Sealed,
    /// The cell is in the file of this name.
    File(&'a str),
}

impl Region {
    /// Passes each cell of a family's store, and where it is stored, to `visit`. The cells of one segment or file come
    /// in order.
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
