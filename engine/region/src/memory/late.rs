//! Puts whose timestamps are older than the time of their arrival: delete markers that were dropped from memory come back
//! for them.

use cell::block::split_cell;
use cell::{Cell, CellType, SequenceId};

use crate::region::Region;
use crate::store::Store;

/// How far the past is that nobody writes to who has the right time, in ms.
const GRACE_MS: i64 = 20;

impl Region {
    /// The moment before which, at this one, a put is late: in ms since 1970. Who leaves the timestamp to the server, or
    /// has a clock that is as right, is not late.
    pub(crate) fn before(clock: i64) -> i64 {
        clock.saturating_sub(GRACE_MS)
    }

    /// Puts of `run`, which were just inserted, came later than their timestamps say: the markers that they are masked by
    /// stay, and come back if they have gone. The write lock is held.
    pub(crate) fn mask_late(&self, store: &Store, run: &[u8], sequence: SequenceId, moment: i64) {
        let mut rest = run;
        let cells = std::iter::from_fn(|| {
            let (bytes, after) = split_cell(rest)?;
            rest = after;
            Some(Cell::trusted(bytes, sequence))
        });
        let is_late = |cell: &Cell<'_>| {
            cell.timestamp().0 < moment && !cell.cell_type().is_some_and(CellType::is_delete)
        };
        let late: Vec<Cell<'_>> = cells.filter(is_late).collect();
        // Before the lists are looked at: who lets a marker go meanwhile sees the row, or is seen.
        {
            let mut noted = store.accordion.late.lock();
            late.iter().for_each(|cell| noted.note(cell.row()));
        }
        // There the put is what was written later.
        if store.scan_info.new_versions {
            return;
        }
        let view = store.view.load();
        for cell in late {
            let markers = view.dropped_markers_of(cell);
            self.insert_into(store, markers.iter().map(|marker| &marker[..]), sequence);
        }
    }

    /// Puts of `cells`, which were just replayed, may be in the log longer than the markers that they are masked by: those
    /// that have gone from memory before a flush which left something there. They come back.
    pub(crate) fn mask_replayed(&self, cells: &[u8], sequence: SequenceId) {
        let mut rest = cells;
        while let Some((bytes, after)) = split_cell(rest) {
            rest = after;
            let cell = Cell::trusted(bytes, sequence);
            let Some(store) = self.stores.iter().find(|store| store.family == cell.family()) else {
                continue;
            };
            let view = store.view.load();
            if !store.scan_info.new_versions && cell.cell_type() == Some(CellType::Put) {
                let markers = view.dropped_markers_of(cell);
                self.insert_into(store, markers.iter().map(|marker| &marker[..]), sequence);
            }
        }
    }
}
