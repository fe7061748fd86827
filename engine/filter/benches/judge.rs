//! Measures what each filter costs for a cell: `cargo bench -p filter`.
//!
//! The planned costs: a call and a match on the kind of filter 2 ns, finding the wanted part of the cell 3 ns (its
//! lengths are in the processor's cache), and comparing some bytes 5 ns. A list adds a call for each of its filters,
//! and its bookkeeping. No filter may cost more than 50 ns a cell.

use cell::{Cell, SequenceId};
use filter::{Filter, ReturnCode};
use micro::{Sheet, keep};

#[path = "every/filters.rs"]
mod every;

use every::{COLUMNS, cells, filters};

/// Passes rows to a filter as a scan does, and returns the number of cells about which the filter was asked.
fn judge(filter: &mut Filter, rows: &[Vec<Cell<'_>>]) -> u64 {
    let mut judged = 0;
    for row in rows {
        filter.reset();
        if filter.filter_row_key(row[0].row()) {
            continue;
        }
        for cell in row {
            if filter.filter_all_remaining() {
                return judged;
            }
            judged += 1;
            let code = filter.filter_cell(*cell);
            if code.includes() {
                keep(filter.transform());
            } else if matches!(code, ReturnCode::NextRow | ReturnCode::SeekNextUsingHint) {
                // After a seek hint the filter is not asked about the rest of the row.
                break;
            }
        }
        keep(filter.filter_row());
    }
    judged
}

fn main() {
    let sheet = Sheet::new("a cell that a filter judges");
    let cells = cells();
    let cells: Vec<Cell<'_>> = cells.iter().map(|cell| Cell::trusted(cell, SequenceId::ZERO)).collect();
    let rows: Vec<Vec<Cell<'_>>> = cells.chunks(COLUMNS).map(<[Cell<'_>]>::to_vec).collect();
    for (name, on_paper, filter) in filters() {
        // The times include the filter's work for whole rows.
        let judged = judge(&mut filter.clone(), &rows);
        let times = if sheet.is_trial() { 1 } else { 20 };
        let work = |fresh: &mut Filter| {
            for _ in 0..times {
                assert_eq!(judge(&mut fresh.clone(), &rows), judged, "{name}");
            }
        };
        sheet.time(name, on_paper, judged * times, || filter.clone(), work);
    }
}
