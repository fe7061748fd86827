//! The index while a writer and a reader are interrupted anywhere: what was there when the reader began it sees, once and
//! in order, and nothing that was never there.
//!
//! Made for miri and for shuttle, for which nodes have three slots: a few entries split leaves and inner nodes, give up slots
//! and fill them again. Each seed is another interleaving; see the crate's page.

#[cfg(shuttle)]
use shuttle::{sync::Barrier, thread};
use std::sync::Arc;
#[cfg(not(shuttle))]
use std::{sync::Barrier, thread};

use cell::{CellParts, CellType, Comparator, KeyBuf, SequenceId, Timestamp};

use crate::Pool;
use crate::arena::{Filler, Place};
use crate::head::Heads;
use crate::records::Records;
use crate::tree::{Growing, Tree};

/// Numbers that may be in the index, each with the place of its cell.
struct Cells {
    records: Records,
    places: Vec<(u8, Place)>,
}

impl Cells {
    fn new(numbers: &[u8]) -> Cells {
        let records = Records::new(Comparator::Table);
        let mut filler = Filler::new(Pool::new(4 << 10, 1), None);
        let mut places = Vec::new();
        for &number in numbers {
            let parts = CellParts {
                row: &[number],
                family: b"f",
                qualifier: b"",
                timestamp: Timestamp(1),
                cell_type: CellType::Put,
                value: b"",
                tags: b"",
            };
            let bytes = parts.to_vec().expect("within limits");
            let (place, _) = filler.copy(&bytes, SequenceId(1), |number, chunk| records.add(number, chunk));
            places.push((number, place));
        }
        Cells { records, places }
    }

    fn number(&self, place: Place) -> u8 {
        self.places.iter().find(|(_, known)| *known == place).expect("a place that was given out").0
    }
}

struct Index {
    cells: Cells,
    tree: Tree,
}

impl Index {
    fn insert(&self, growing: &mut Growing, number: u8) {
        let key = KeyBuf::first_on_row(&[number]);
        let probe = self.tree.probe(key.position());
        let place = self.cells.places.iter().find(|(known, _)| *known == number).expect("known").1;
        let found = self.tree.find(growing, &probe, &self.cells.records);
        self.tree.add(growing, found, probe.head, place);
    }

    /// All from the first at or after `from` on.
    fn walk(&self, from: u8) -> Vec<u8> {
        let key = KeyBuf::first_on_row(&[from]);
        let mut run = self.tree.seek(&self.tree.probe(key.position()), false, &self.cells.records);
        let mut seen = Vec::new();
        while let Some(place) = run.place() {
            seen.push(self.cells.number(place));
            self.tree.advance(&mut run, &self.cells.records);
        }
        seen
    }

    fn last_before(&self, end: u8) -> Option<u8> {
        let key = KeyBuf::first_on_row(&[end]);
        let probe = self.tree.probe(key.position());
        self.tree.last_before(Some(&probe), &self.cells.records).map(|place| self.cells.number(place))
    }
}

/// A writer adds `added` to an index that has `before`; beside it somebody reads.
#[allow(clippy::disallowed_methods, reason = "a thread that a scheduler may start has no scope and no world")]
fn check(before: &'static [u8], added: &'static [u8], read: impl Fn(&Index) + Copy + Send + Sync + 'static) {
    many_times(move || {
        let (tree, mut growing) = Tree::new(Heads::new(Comparator::Table, b""));
        let index = Arc::new(Index { cells: Cells::new(&[before, added].concat()), tree });
        before.iter().for_each(|number| index.insert(&mut growing, *number));
        let begin = Arc::new(Barrier::new(2));
        let writer = thread::spawn({
            let (index, begin) = (Arc::clone(&index), Arc::clone(&begin));
            move || {
                begin.wait();
                added.iter().for_each(|number| index.insert(&mut growing, *number));
            }
        });
        begin.wait();
        (0..3).for_each(|_| read(&index));
        writer.join().expect("nothing stops a writer");
        let mut all = [before, added].concat();
        all.sort_unstable();
        assert_eq!(index.walk(0), all, "when nobody writes any more");
    });
}

#[cfg(not(shuttle))]
fn many_times(once: impl Fn()) {
    (0..if cfg!(miri) { 1 } else { 200 }).for_each(|_| once());
}

/// At random, and then with so few changes of threads that each is at its worst place some time.
#[cfg(shuttle)]
fn many_times(once: impl Fn() + Copy + Send + Sync + 'static) {
    let times = std::env::var("INTERLEAVINGS").map_or(20_000, |times| times.parse().expect("a number"));
    shuttle::check_random(once, times);
    (1..=3).for_each(|changes| shuttle::check_pct(once, times, changes));
}

/// Whoever walks sees in order, each once, all that was `there`.
fn walks(from: u8, there: &'static [u8]) -> impl Fn(&Index) + Copy + Send + Sync {
    move |index| {
        let seen = index.walk(from);
        assert!(seen.is_sorted_by(|left, right| left < right), "{seen:?}");
        assert!(there.iter().all(|number| seen.contains(number)), "{seen:?}");
    }
}

#[test]
fn a_leaf_is_split_and_its_slots_are_filled_again() {
    check(&[10, 20, 30], &[15, 12], walks(0, &[10, 20, 30]));
    check(&[10, 20, 30], &[25, 5], walks(20, &[20, 30]));
    check(&[10, 20, 30], &[40, 50], walks(30, &[30]));
}

#[test]
fn the_root_and_inner_nodes_are_split() {
    // Four leaves under a root of three keys: the next split is also that of the root.
    const BEFORE: &[u8] = &[10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110];
    check(BEFORE, &[75, 76], walks(70, &[70, 80, 90, 100, 110]));
    check(BEFORE, &[15, 16, 17], walks(90, &[90, 100, 110]));
    check(BEFORE, &[120, 130], walks(100, &[100, 110]));
}

#[test]
fn the_last_before_a_place_is_found() {
    check(&[10, 20, 30], &[25, 15], |index| {
        let found = index.last_before(30).expect("there are some");
        assert!([20, 25].contains(&found), "{found}");
    });
}
