//! Compares a segment with other ordered sets, with a million cells of 100 bytes: `cargo bench -p memstore --bench
//! compared`.
//!
//! All of them copy each cell and keep it in the order of its key. The other sets compare keys as bytes, which is less
//! work than a segment does. The figures are elapsed times, the least of some rounds, because some benchmarks use two
//! threads. So they are valid only on a quiet machine with two free processors.

#![allow(clippy::print_stdout, reason = "it is a program that prints")]

use std::collections::BTreeMap;
use std::sync::Arc;

use cell::{Cell, CellParts, CellType, Comparator, KeyBuf, SequenceId, Timestamp};
use crossbeam_skiplist::SkipMap;
use env::World;
use env::sync::Mutex;
use memstore::{Cursor, Pool, Segment};

const ROUNDS: usize = 3;

fn cell(number: u64) -> Vec<u8> {
    let row = format!("user{number:016}");
    let parts = CellParts {
        row: row.as_bytes(),
        family: b"f",
        qualifier: b"q",
        timestamp: Timestamp(1),
        cell_type: CellType::Put,
        value: &[7; 46],
        tags: b"",
    };
    parts.to_vec().expect("within limits")
}

fn key(cell: &[u8]) -> &[u8] {
    Cell::parse(cell, SequenceId::ZERO).expect("whole").key().bytes()
}

/// An ordered set of cells, with the operations that are measured.
trait Set: Sync {
    fn insert(&self, cell: &[u8], sequence: u64);
    /// Returns the number of value bytes of the cells of the wanted rows, all of which are present.
    fn look(&self, wanted: &[KeyBuf], cells: &[&[u8]]) -> usize;
}

struct Segments(Arc<Segment>);

impl Set for Segments {
    fn insert(&self, cell: &[u8], sequence: u64) {
        self.0.insert([cell], SequenceId(sequence));
    }

    fn look(&self, wanted: &[KeyBuf], _: &[&[u8]]) -> usize {
        let mut cursor = Cursor::new(Arc::clone(&self.0));
        let found = wanted.iter().map(|key| {
            cursor.seek(key.position());
            cursor.peek().expect("all are there").value().len()
        });
        found.sum()
    }
}

impl Set for Mutex<BTreeMap<Box<[u8]>, Box<[u8]>>> {
    fn insert(&self, cell: &[u8], _: u64) {
        self.lock().insert(key(cell).into(), cell.into());
    }

    fn look(&self, _: &[KeyBuf], cells: &[&[u8]]) -> usize {
        let map = self.lock();
        cells.iter().map(|cell| map.get(key(cell)).expect("all are there").len()).sum()
    }
}

impl Set for SkipMap<Box<[u8]>, Box<[u8]>> {
    fn insert(&self, cell: &[u8], _: u64) {
        SkipMap::insert(self, key(cell).into(), cell.into());
    }

    fn look(&self, _: &[KeyBuf], cells: &[&[u8]]) -> usize {
        cells.iter().map(|cell| self.get(key(cell)).expect("all are there").value().len()).sum()
    }
}

/// Returns the least time of several rounds for each of `count` operations, in nanoseconds.
fn time(world: &World, count: usize, mut round: impl FnMut()) -> f64 {
    let mut once = || {
        let began = world.moment();
        round();
        world.moment().since(began).as_nanos() as f64 / count as f64
    };
    (0..ROUNDS).map(|_| once()).fold(f64::INFINITY, f64::min)
}

fn main() {
    // Cargo passes `--bench` for benchmarks and nothing for tests.
    let trial = !std::env::args().any(|word| word == "--bench");
    let count: usize = if trial { 2_000 } else { 1_000_000 };
    let world = World::real();
    // Multiplying by an odd factor modulo a power of two gives a permutation.
    let all = (count as u64).next_power_of_two();
    let numbers = (0..all).map(|number| number.wrapping_mul(0x9e37_79b1) % all);
    let cells: Vec<Vec<u8>> = numbers.filter(|number| *number < count as u64).map(cell).collect();
    let asked: Vec<&[u8]> = cells.iter().step_by(3).map(|cell| &cell[..]).collect();
    let rows = asked.iter().map(|bytes| Cell::parse(bytes, SequenceId::ZERO).expect("whole").row());
    let wanted: Vec<KeyBuf> = rows.map(KeyBuf::first_on_row).collect();
    let pool = Pool::new(memstore::CHUNK_SIZE_MAX, 128);

    let fill = |set: &dyn Set, threads: usize| {
        std::thread::scope(|scope| {
            for part in cells.chunks(count.div_ceil(threads)) {
                scope.spawn(move || {
                    part.iter().enumerate().for_each(|(at, cell)| set.insert(cell, at as u64 + 1));
                });
            }
        });
    };
    let tell = |name: &str, fresh: &dyn Fn() -> Box<dyn Set>, flat: Option<f64>| {
        let [one, two] = [1, 2].map(|threads| {
            let mut sets: Vec<Box<dyn Set>> = (0..ROUNDS).map(|_| fresh()).collect();
            time(&world, count, || fill(&*sets.pop().expect("one for each round"), threads))
        });
        let full = fresh();
        fill(&*full, 1);
        let look = time(&world, wanted.len(), || assert!(full.look(&wanted, &asked) > 0));
        let flat = flat.map_or_else(String::new, |flat| format!("{flat:.0}"));
        println!("{name:20} {:10.2} {:10.2} {look:10.0} {flat:>10}", 1e3 / one, 1e3 / two);
    };

    println!("{count} cells of {} bytes; million inserts in a second, ns for a lookup", cells[0].len());
    println!("{:20} {:>10} {:>10} {:>10} {:>10}", "", "1 thread", "2 threads", "lookup", "flat");
    let segment = Segment::new(Comparator::Table, &pool);
    let active = Segments(Arc::new(segment));
    fill(&active, 1);
    drop(active.0.successor(&pool));
    let flat = Segments(Arc::new(active.0.flattened()));
    let of_flat = time(&world, wanted.len(), || assert!(flat.look(&wanted, &asked) > 0));
    drop((flat, active));
    let fresh = || -> Box<dyn Set> { Box::new(Segments(Arc::new(Segment::new(Comparator::Table, &pool)))) };
    tell("segment", &fresh, Some(of_flat));
    tell("BTreeMap, a lock", &|| Box::new(Mutex::new(BTreeMap::<Box<[u8]>, Box<[u8]>>::new())), None);
    tell("crossbeam-skiplist", &|| Box::new(SkipMap::<Box<[u8]>, Box<[u8]>>::new()), None);
}
