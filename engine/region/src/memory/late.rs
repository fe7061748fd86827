//! Late puts: puts whose timestamp is older than the time of their arrival. A dropped delete marker that masks such a
//! put is inserted again.

use cell::block::split_cell;
use cell::{Cell, CellType, SequenceId};

use crate::region::Region;
use crate::store::Store;

/// Clock skew tolerated before a put counts as late, in ms.
const GRACE_MS: i64 = 20;

impl Region {
    /// Returns the time before which a put that arrives at `clock` is late; both in ms since 1970. A put that the
    /// server stamps is late only if a write that was stamped more than [`GRACE_MS`] later was inserted before it.
    pub(crate) fn late_before(clock: i64) -> i64 {
        clock.saturating_sub(GRACE_MS)
    }

    /// Records the late puts among the cells of `run`, which were just inserted, so that markers of their rows are not
    /// dropped. Inserts again the dropped markers that mask these puts. The caller holds the write lock.
    pub(crate) fn note_late_puts(&self, store: &Store, run: &[u8], sequence: SequenceId, late_before: i64) {
        let mut rest = run;
        let cells = std::iter::from_fn(|| {
            let (bytes, after) = split_cell(rest)?;
            rest = after;
            Some(Cell::trusted(bytes, sequence))
        });
        let is_late = |cell: &Cell<'_>| {
            cell.timestamp().0 < late_before && !cell.cell_type().is_some_and(CellType::is_delete)
        };
        let late: Vec<Cell<'_>> = cells.filter(is_late).collect();
        // The late puts are recorded before the lists are read. A compaction that drops a marker at the same time then
        // either finds the row of the put, or has already published its list.
        {
            let mut noted = store.accordion.late.lock();
            late.iter().for_each(|cell| noted.add(cell.row()));
        }
        // With NEW_VERSION_BEHAVIOR an earlier marker never masks a later put.
        if store.scan_info().new_versions {
            return;
        }
        let view = store.view.load();
        for cell in late {
            let markers = view.dropped_markers_of(cell);
            self.insert_into(store, markers.iter().map(|marker| &marker[..]), sequence);
        }
    }

    /// Inserts dropped markers again that mask puts of `cells`, which were just replayed. The log may keep a put longer
    /// than the marker that masks it: after a flush that retained rows, the marker may be only in a file's list.
    pub(crate) fn restore_markers(&self, cells: &[u8], sequence: SequenceId) {
        let mut rest = cells;
        while let Some((bytes, after)) = split_cell(rest) {
            rest = after;
            let cell = Cell::trusted(bytes, sequence);
            let Some(store) = self.stores.iter().find(|store| store.family == cell.family()) else {
                continue;
            };
            let view = store.view.load();
            if !store.scan_info().new_versions && cell.cell_type() == Some(CellType::Put) {
                let markers = view.dropped_markers_of(cell);
                self.insert_into(store, markers.iter().map(|marker| &marker[..]), sequence);
            }
        }
    }
}
