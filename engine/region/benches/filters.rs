//! Measures the cost that a filter adds to a scan: `cargo bench -p region --bench filters`.
//!
//! Rows of fifty cells are read from cached blocks, once without a filter and once with each filter. Most of these
//! filters keep every cell, so they save nothing by dropping cells; filters that drop cells cost less. A filter adds
//! the cost of judging a cell (`cargo bench -p filter`) and of a call. A filter that judges whole rows also adds a copy
//! of each cell into the row buffer. No filter may add more than 50 ns to a cell.

#![allow(clippy::print_stdout, reason = "a line below the sheet")]

use std::sync::Arc;

use cell::{Cell, SequenceId};
use env::World;
use filter::Filter;
use micro::Sheet;
use region::{FlushReason, Mutation, ReadMode, Region, Scan};

#[path = "../../filter/benches/every/filters.rs"]
mod every;
#[path = "region/served.rs"]
mod served;

/// Maximum cost that a filter may add to a cell, in ns.
const ADDED_MAX: f64 = 50.0;

fn write(region: &Arc<Region>, cells: &[Vec<u8>]) {
    let of_row = |cells: &[Vec<u8>]| {
        let row = Cell::trusted(&cells[0], SequenceId::ZERO).row().to_vec().into();
        served::put(row, cells)
    };
    let rows: Vec<Mutation> = cells.chunks(every::COLUMNS).map(of_row).collect();
    region.apply(&rows, ReadMode::Any).expect("serving").pending.wait_blocking().expect("written");
    region.flush(FlushReason::Requested).expect("written");
}

fn main() {
    let sheet = Sheet::new("a cell of a scan");
    let region = served::open(&World::real(), "f");
    let cells = every::cells();
    write(&region, &cells);
    let times = if sheet.is_trial() { 1 } else { 20 };
    let cost = |name: &str, on_paper: f64, filter: Option<Filter>| {
        let work = |(): &mut ()| {
            for _ in 0..times {
                assert!(
                    served::scan(&region, Scan { filter: filter.clone(), ..Scan::default() }) > 0,
                    "{name} lets something through"
                );
            }
        };
        sheet.time(name, on_paper, times * cells.len() as u64, || (), work)
    };
    let Some(plain) = cost("without a filter", 50.0, None) else { return };
    let mut dearest = ("none", 0.0_f64);
    for (name, on_paper, filter) in every::filters() {
        if let Some(with) = cost(name, 50.0 + on_paper, Some(filter)) {
            let added = with.middle - plain.middle;
            if added > dearest.1 {
                dearest = (name, added);
            }
        }
    }
    println!("{} adds {:.1} ns to a cell, the most; {ADDED_MAX} are allowed", dearest.0, dearest.1);
}
