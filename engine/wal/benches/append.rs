//! Measures the cost of appending to the log: `cargo bench -p wal`.
//!
//! The planned costs: an append copies a record of a kilobyte into the log's buffer (60 ns), computes its checksum (20
//! ns) and takes one lock (20 ns). Writing the buffer is work of the log's own thread, and not part of an append. But a
//! caller that is the only one to wait writes the buffer itself, here to memory (300 ns), and wakes no thread.

use std::sync::Arc;

use cell::SequenceId;
use env::WallTime;
use micro::Sheet;
use storage::{FileName, Files, Memory};
use wal::{Kind, Level, Log, Options, Record};

fn record(cells: &[u8], sequence: u64) -> Record<'_> {
    Record {
        kind: Kind::Edit,
        region: b"0123456789abcdef0123456789abcdef",
        table: b"t",
        sequence: SequenceId(sequence),
        time: WallTime(1),
        nonce: None,
        cells,
    }
}

fn main() {
    let sheet = Sheet::new("log over memory");
    let count: u64 = if sheet.is_trial() { 100 } else { 5_000 };
    for size in [100usize, 1_000] {
        // One cell, with its length before it.
        let mut cells = ((size - 4) as u32).to_be_bytes().to_vec();
        cells.resize(size, 7);
        let open = || {
            let files: Arc<dyn Files> = Arc::new(Memory::new());
            Log::open(env::World::real(), files, FileName::new("WALs"), Options::default()).expect("a log").0
        };
        let paper = 45.0 + size as f64 * 0.06;
        sheet.time(&format!("append, {size} bytes"), paper, count, open, |log| {
            for sequence in 1..=count {
                log.append(&record(&cells, sequence)).expect("it is open");
            }
        });
        let few = count / 50;
        sheet.time(&format!("append and wait, {size} bytes"), 300.0 + paper, few, open, |log| {
            for sequence in 1..=few {
                let ticket = log.append(&record(&cells, sequence)).expect("it is open");
                log.sync_blocking(ticket, Level::Os).expect("written");
            }
        });
    }
}
