//! Tests the index and the active segment while writers and a reader are interrupted at arbitrary points.
//!
//! A reader sees every cell that existed when it began, once and in order, and no cell that was never added. Afterwards
//! all cells of all writers are present. The tests run under Miri and shuttle. Nodes have three slots, so that a few
//! cells split leaves and inner nodes, and free and reuse slots. Each seed gives another interleaving.

#[cfg(shuttle)]
use shuttle::{sync::Barrier, thread};
use std::sync::Arc;
#[cfg(not(shuttle))]
use std::{sync::Barrier, thread};

use cell::{Comparator, KeyBuf, SequenceId, Timestamp};

use crate::Pool;
use crate::active::Active;
use crate::arena::{Filler, Source};
use crate::head::Heads;
use crate::place::Place;
use crate::records::Records;
use crate::sample;
use crate::tree::{Tree, WriterPath};

/// Numbers that a test adds to an index, each as a cell with its place.
struct Cells {
    records: Records,
    places: Vec<(u8, Place)>,
}

impl Cells {
    fn new(numbers: &[u8]) -> Cells {
        let records = Records::new(Comparator::Table);
        let (source, mut filler) = (Source::new(Pool::new(4 << 10, 1), Vec::new()), Filler::default());
        let mut places = Vec::new();
        for &number in numbers {
            let bytes = sample::cell(&[number], b"", 1, b"");
            let (place, _) = filler.copy(&bytes, SequenceId(1), &source, &records);
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
    fn insert(&self, path: &mut WriterPath, number: u8) {
        let place = self.cells.places.iter().find(|(known, _)| *known == number).expect("known").1;
        let probe = self.tree.probe(self.cells.records.cell(place).into());
        let found = self.tree.find::<false>(path, &probe, &self.cells.records);
        if !found.exact {
            self.tree.add(path, found, probe.head, place, &self.cells.records);
        }
    }

    /// Returns all numbers of the index that are at least `from`.
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

/// Checks an index that has `before`, while one writer adds `added` and a reader runs `read`.
fn check(before: &'static [u8], added: &'static [u8], read: impl Fn(&Index) + Copy + Send + Sync + 'static) {
    check_writers(before, [added], read);
}

/// Like [`check`], but several writers add their parts of `added`.
#[allow(clippy::disallowed_methods, reason = "a thread that a scheduler may start has no scope and no world")]
fn check_writers<const WRITERS: usize>(
    before: &'static [u8],
    added: [&'static [u8]; WRITERS],
    read: impl Fn(&Index) + Copy + Send + Sync + 'static,
) {
    many_times(move || {
        let mut all = [before, &added.concat()].concat();
        all.sort_unstable();
        all.dedup();
        let tree = Tree::new(Heads::new(Comparator::Table, b""));
        let index = Arc::new(Index { cells: Cells::new(&all), tree });
        // One writer continues with the path of the writer that has added `before`. The others begin with new paths.
        let mut trails = std::array::from_fn::<_, WRITERS, _>(|_| WriterPath::new()).into_iter();
        let mut first = trails.next().expect("there is one");
        before.iter().for_each(|number| index.insert(&mut first, *number));
        let begin = Arc::new(Barrier::new(1 + WRITERS));
        let writers: Vec<_> = std::iter::once(first)
            .chain(trails)
            .zip(added)
            .map(|(mut path, added)| {
                let (index, begin) = (Arc::clone(&index), Arc::clone(&begin));
                thread::spawn(move || {
                    begin.wait();
                    added.iter().for_each(|number| index.insert(&mut path, *number));
                })
            })
            .collect();
        begin.wait();
        (0..3).for_each(|_| read(&index));
        writers.into_iter().for_each(|writer| writer.join().expect("nothing stops a writer"));
        assert_eq!(index.walk(0), all, "when nobody writes any more");
        // Each number is also found by a search from the root. So every node is named by its parent.
        assert!(all.iter().all(|number| index.walk(*number).first() == Some(number)), "of {all:?}");
    });
}

#[cfg(not(shuttle))]
fn many_times(once: impl Fn()) {
    (0..if cfg!(miri) { 1 } else { 200 }).for_each(|_| once());
}

/// Runs `once` with random interleavings. Then runs it with so few thread switches that each of them occurs at every
/// place.
#[cfg(shuttle)]
fn many_times(once: impl Fn() + Copy + Send + Sync + 'static) {
    let times = std::env::var("INTERLEAVINGS").map_or(20_000, |times| times.parse().expect("a number"));
    shuttle::check_random(once, times);
    (1..=3).for_each(|changes| shuttle::check_pct(once, times, changes));
}

/// Returns a reader's check: a walk returns all entries of `there`, in order, each once.
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
    // These entries make four leaves under a root with three keys, so that the next split of a leaf splits the root,
    // too.
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

/// A prefetch during splits returns only entries that were added, and visits only nodes that exist.
#[test]
fn rows_are_prefetched_while_nodes_are_split() {
    const BEFORE: &[u8] = &[10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110];
    let prefetches = |index: &Index| {
        let rows = [5, 10, 12, 55, 75, 76, 105, 110, 125, 200];
        let heads = rows.map(|row| index.tree.heads().of(&[row]));
        index.tree.prefetch_rows(&heads, 1, &index.cells.records, |at| {
            assert!(index.cells.places.iter().any(|(number, _)| *number == rows[at]), "{}", rows[at]);
        });
    };
    check(&[10, 20, 30], &[15, 12], prefetches);
    check(BEFORE, &[75, 76], prefetches);
    check_writers(BEFORE, [&[15, 16, 17], &[125, 105]], prefetches);
}

#[test]
fn two_writers_split_a_leaf_that_the_other_waits_for() {
    check_writers(&[10, 20, 30], [&[15, 12], &[25]], walks(0, &[10, 20, 30]));
    check_writers(&[10, 20, 30], [&[25, 26], &[27]], walks(20, &[20, 30]));
    check_writers(&[10, 20, 30], [&[40, 50], &[45, 35]], walks(30, &[30]));
    check_writers(&[], [&[10, 30], &[20, 40]], walks(0, &[]));
}

#[test]
fn one_writer_splits_inner_nodes_while_another_descends() {
    const BEFORE: &[u8] = &[10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110];
    check_writers(BEFORE, [&[75, 76], &[77, 105]], walks(70, &[70, 80, 90, 100, 110]));
    check_writers(BEFORE, [&[15, 16, 17], &[95, 96]], walks(90, &[90, 100, 110]));
    check_writers(BEFORE, [&[120, 130], &[125, 115]], walks(100, &[100, 110]));
}

#[test]
fn a_cell_added_by_both_writers_is_there_once() {
    check_writers(&[10, 20], [&[15, 16], &[16, 15]], walks(0, &[10, 20]));
    check_writers(&[10, 20, 30], [&[40], &[40]], walks(30, &[30]));
}

/// A reader that sees an entry of one writer sees all entries added before that writer began.
#[test]
fn cells_added_in_order_are_seen_in_order() {
    check_writers(&[10, 20, 30], [&[25], &[22, 21]], |index| {
        let (first, second) = (index.walk(0), index.walk(0));
        assert!(first.iter().all(|number| second.contains(number)), "{first:?}, {second:?}");
        assert!(!second.contains(&21) || second.contains(&22), "{second:?}");
        let behind = index.last_before(30).expect("there are some");
        assert!([20, 21, 22, 25].contains(&behind), "{behind}");
    });
}

fn cell_of(number: u8) -> Vec<u8> {
    sample::cell(&[b'r', number], b"", i64::from(number), b"")
}

fn walk(active: &Active) -> Vec<u8> {
    let mut spot = active.first();
    let mut seen = Vec::new();
    while let Some(place) = active.place_at(&spot) {
        seen.push(active.records().cell(place).row()[1]);
        active.advance(&mut spot);
    }
    seen
}

/// Rows have a common prefix, so the writer that adds the fourth cell rebuilds the index while another one writes.
#[test]
#[allow(clippy::disallowed_methods, reason = "a thread that a scheduler may start has no scope and no world")]
fn the_index_is_rebuilt_while_two_write() {
    many_times(|| {
        let pool = Pool::new(4 << 10, 4);
        let active = Arc::new(Active::new(Comparator::Table, &pool, b"", Vec::new()));
        let writers = [[1, 3, 5], [2, 3, 6]].map(|numbers| {
            let active = Arc::clone(&active);
            thread::spawn(move || {
                for number in numbers {
                    active.insert([&cell_of(number)[..]], SequenceId(1));
                    assert!(walk(&active).contains(&number));
                }
            })
        });
        let seen = walk(&active);
        assert!(seen.is_sorted_by(|left, right| left < right), "{seen:?}");
        assert!(walk(&active).len() >= seen.len());
        writers.into_iter().for_each(|writer| writer.join().expect("nothing stops a writer"));
        assert_eq!((walk(&active), active.cells()), (vec![1, 2, 3, 5, 6], 5));
        let span = active.span().ends();
        assert_eq!(span, Some((Timestamp(1), Timestamp(6))));
        #[cfg(any(miri, shuttle))]
        assert_eq!(active.learnt(), 1);
    });
}

/// Sealing a segment waits for running writers, and the next segment continues their open chunks.
#[test]
#[allow(clippy::disallowed_methods, reason = "a thread that a scheduler may start has no scope and no world")]
fn a_segment_is_sealed_while_two_write() {
    many_times(|| {
        let pool = Pool::new(4 << 10, 4);
        let active = Arc::new(Active::new(Comparator::Table, &pool, b"", Vec::new()));
        active.share();
        let begun = Arc::new(Barrier::new(3));
        let writers = [[1, 3, 5], [2, 4, 6]].map(|numbers| {
            let (active, begun) = (Arc::clone(&active), Arc::clone(&begun));
            thread::spawn(move || {
                let cells = numbers.map(cell_of);
                let cells = cells.iter().enumerate().map(|(turn, cell)| {
                    if turn == 0 {
                        begun.wait();
                    }
                    &cell[..]
                });
                active.insert(cells, SequenceId(1));
            })
        });
        begun.wait();
        let left_open = active.seal();
        assert_eq!((active.cells(), left_open.len(), pool.usage().used), (6, 2, 2));
        assert_eq!(walk(&active), [1, 2, 3, 4, 5, 6]);
        assert_eq!(active.flattened(6).len(), 6);
        let next = Active::new(Comparator::Table, &pool, b"", left_open);
        next.insert([&cell_of(7)[..]], SequenceId(2));
        assert_eq!((walk(&next), next.seal().len(), pool.usage().used), (vec![7], 2, 2));
        writers.into_iter().for_each(|writer| writer.join().expect("nothing stops a writer"));
    });
}

/// Returns the cell of a column of one row. All these cells have equal heads, so searches must read the cells.
fn column(number: u8) -> Vec<u8> {
    sample::cell(b"r", &[number], 1, b"")
}

/// Checks that cells are copied and added while a reader searches among cells of the same row.
#[allow(clippy::disallowed_methods, reason = "a thread that a scheduler may start has no scope and no world")]
fn columns(added: &'static [&'static [u8]]) {
    many_times(move || {
        let active = Arc::new(Active::new(Comparator::Table, &Pool::new(4 << 10, 4), b"", Vec::new()));
        let insert = |active: &Active, number: u8| active.insert([&column(number)[..]], SequenceId(1));
        [10, 20, 30].into_iter().for_each(|number| _ = insert(&active, number));
        if added.len() > 1 {
            active.share();
        }
        let start = |numbers: &'static [u8]| {
            let active = Arc::clone(&active);
            thread::spawn(move || numbers.iter().for_each(|&number| _ = insert(&active, number)))
        };
        let writers: Vec<_> = added.iter().copied().map(start).collect();
        for wanted in [20, 30, 20, 30, 20, 30] {
            let key = KeyBuf::first_on_column(b"r", b"f", &[wanted]);
            let place = active.place_at(&active.seek(key.position())).expect("it was there before");
            assert_eq!(active.records().cell(place).qualifier(), [wanted]);
        }
        writers.into_iter().for_each(|writer| writer.join().expect("nothing stops a writer"));
    });
}

#[test]
fn columns_of_a_row_are_found_while_one_adds_others() {
    columns(&[&[15, 12, 11, 13, 17]]);
}

#[test]
fn columns_of_a_row_are_found_while_two_add_others() {
    columns(&[&[15, 12, 11], &[13, 17, 14]]);
}
