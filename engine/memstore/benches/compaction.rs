//! Measures what it costs to compact segments in memory: `cargo bench -p memstore --bench compaction`.
//!
//! The planned costs for four entries: one has a head that no other entry has, and is moved from one index to another
//! (10 ns). The other three share their heads: their keys are loaded from memory, two or three cache lines each (20
//! ns), and compared (20 ns). One cell of six is copied; for 1 KB this reads 17 cache lines and writes as many (100
//! ns).

use std::cell::RefCell;
use std::sync::Arc;

use cell::{Cell, CellParts, CellType, Comparator, SequenceId, Timestamp};
use memstore::{Cleaning, Pool, Segment};
use micro::Sheet;

fn cell(number: u64, value: &[u8]) -> Vec<u8> {
    let row = format!("{number:026}");
    let parts = CellParts {
        row: row.as_bytes(),
        family: b"info0",
        qualifier: b"0",
        timestamp: Timestamp(1),
        cell_type: CellType::Put,
        value,
        tags: b"",
    };
    parts.to_vec().expect("within limits")
}

/// A memstore whose rows are overwritten, each once in a round, in random order.
struct Store {
    pool: Arc<Pool>,
    active: Segment,
    pipeline: Vec<Arc<Segment>>,
    rows: u64,
    written: u64,
    value: Vec<u8>,
}

impl Store {
    fn new(rows: u64, value: usize) -> Store {
        let pool = Pool::new(memstore::CHUNK_SIZE_MAX, 128);
        let active = Segment::new(Comparator::Table, &pool);
        let mut store = Store { pool, active, pipeline: Vec::new(), rows, written: 0, value: vec![7; value] };
        store.write(rows);
        store
    }

    fn write(&mut self, count: u64) {
        for _ in 0..count {
            // The factor and the number of rows have no common divisor, so each row occurs once in a round.
            let row = self.written.wrapping_mul(48_271 + 20 * (self.written / self.rows)) % self.rows;
            self.written += 1;
            self.active.insert([&cell(row, &self.value)[..]], SequenceId(self.written));
        }
        let next = self.active.successor(&self.pool);
        self.pipeline.insert(0, Arc::new(std::mem::replace(&mut self.active, next).flattened()));
    }

    fn compact(&mut self) {
        let cleaning = Cleaning { free_min: 0, dead_min: 0.5 };
        let mut row = Vec::new();
        let newest = |cell: Cell<'_>| {
            let is_new = row != cell.row();
            if is_new {
                row.clear();
                row.extend_from_slice(cell.row());
            }
            is_new
        };
        let (all, since) = (&self.pipeline, Timestamp(i64::MIN));
        let made = Segment::compacted_keeping_lone(all, &self.pool, cleaning, since, newest);
        self.pipeline = vec![Arc::new(made.expect("few chunks").segment)];
    }
}

fn main() {
    let sheet = Sheet::new("a compaction of a segment and two more, half of whose rows it has");
    for (name, rows, value) in [("an entry of 1 KB", 100_000, 1_000), ("an entry of 100 bytes", 400_000, 30)]
    {
        let rows = if sheet.is_trial() { 1_000 } else { rows };
        let part = rows * 31 / 100;
        let store = RefCell::new(Store::new(rows, value));
        let write = || (0..2).for_each(|_| store.borrow_mut().write(part));
        sheet.time(name, 50.0, rows + 2 * part, write, |()| store.borrow_mut().compact());
        assert!(sheet.is_trial() || store.borrow().pipeline[0].cells() <= rows);
    }
}
