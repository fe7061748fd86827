//! Measures what the active segment costs, in CPU time of one thread:
//!
//! `cargo run --release -p memstore --example segment -- 600000`
//!
//! The planned costs: an insert of 100 bytes copies them (60 ns) and descends six levels, of which the lower two are
//! cache misses (100 ns each), so about 0.35 µs. Measured on 2 busy cores in three rounds, the first of them with new
//! memory. For comparison: a `BTreeMap` under a lock, whose keys had the same heads but no learnt prefix (elapsed
//! time):
//!
//! | | segment, CPU time | segment, elapsed | `BTreeMap`, elapsed |
//! |---|---|---|---|
//! | insert, 100 bytes, random rows | 367–427 ns | 369–595 | 1,132–1,858 |
//! | … by two threads | | 351–389 | 1,269–2,665 |
//! | … ten cells a row | 155–176 | 177–192 | 379–839 |
//! | … rows in order | 70–105 | 71–130 | 435–917 |
//! | insert, 1 KB, random rows | 353–391 (1,473 into new memory) | 370–403 | 616–1,292 |
//! | lookup in 600,000, new cursor each | 619–728 | 658–823 | 2,470–4,866 |
//! | walk, a cell | 52 | 54–57 | 76–239 |
//! | bytes beside a cell | 32 | | 96 |
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::sync::Arc;

use bytes::Bytes;
use cell::{CellParts, CellType, Comparator, KeyBuf, SequenceId, Timestamp};
use env::World;
use memstore::{Cleaning, Cursor, Pool, Segment};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

fn cell(row: u64, qualifier: u64, value: usize) -> Bytes {
    let row = format!("user{:019}", row % 1_000_000_000_000_000_000);
    let (value, qualifier) = (vec![b'v'; value], format!("q{qualifier}"));
    let parts = CellParts {
        row: row.as_bytes(),
        family: b"f",
        qualifier: qualifier.as_bytes(),
        timestamp: Timestamp(1_700_000_000_000),
        cell_type: CellType::Put,
        value: &value,
        tags: b"",
    };
    parts.to_vec().expect("within limits").into()
}

/// Returns the nanoseconds that this thread was on a CPU, without the time in which it waited for one.
#[expect(clippy::disallowed_methods, reason = "the system's own account of a thread")]
fn cpu_time() -> u64 {
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux keeps account");
    account.split(' ').next().and_then(|time| time.parse().ok()).expect("a number comes first")
}

fn figure(world: &World, what: &str, count: u64, work: impl FnOnce()) {
    let before = (cpu_time(), world.moment());
    work();
    let took = (cpu_time() - before.0, world.moment().since(before.1).as_nanos() as u64);
    println!("{what:<40} {:>7} ns of CPU, {:>7} ns by the clock", took.0 / count, took.1 / count);
}

fn main() {
    let world = World::real();
    let count: u64 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(600_000);
    let pool = Pool::new(2 << 20, 512);
    let mut random = Random(7);
    let small: Vec<Bytes> = (0..count).map(|_| cell(random.next(), 0, 48)).collect();
    for round in 0..3 {
        let segment = Arc::new(Segment::new(Comparator::Table, &pool));
        figure(&world, "insert, 100 bytes, random rows", count, || {
            for (sequence, cell) in small.iter().enumerate() {
                segment.insert([&cell[..]], SequenceId(sequence as u64 + 1));
            }
        });
        println!("    bytes beyond the cells: {}", segment.bytes() / count - small[0].len() as u64);
        let mut keys = Vec::new();
        for index in 0..200_000 {
            let at = (index * 7919) % count as usize;
            keys.push(KeyBuf::first_on_row(cell::Cell::trusted(&small[at], SequenceId(0)).row()));
        }
        figure(&world, "lookup, new cursor each", keys.len() as u64, || {
            for key in &keys {
                let mut cursor = Cursor::new(Arc::clone(&segment));
                cursor.seek(key.position());
                assert!(cursor.peek().is_some_and(|cell| cell.row() == key.key().row()));
            }
        });
        figure(&world, "walk", count, || {
            let mut cursor = Cursor::new(Arc::clone(&segment));
            cursor.seek(KeyBuf::first_on_row(b"").position());
            let mut length = 0;
            while let Some(cell) = cursor.peek() {
                length += cell.bytes().len();
                cursor.advance();
            }
            assert_eq!(length, small.iter().map(|cell| cell.len()).sum::<usize>());
        });
        let next = segment.successor(&pool);
        let mut flat = None;
        figure(&world, "flatten", count, || flat = Some(Arc::new(segment.flattened())));
        let flat = flat.expect("made");
        println!("    bytes of the flat index a cell: {}", flat.index_bytes() / count);
        figure(&world, "lookup in the flat one, new cursor each", keys.len() as u64, || {
            for key in &keys {
                let mut cursor = Cursor::new(Arc::clone(&flat));
                cursor.seek(key.position());
                assert!(cursor.peek().is_some_and(|cell| cell.row() == key.key().row()));
            }
        });
        figure(&world, "walk over the flat one", count, || {
            let mut cursor = Cursor::new(Arc::clone(&flat));
            cursor.seek(KeyBuf::first_on_row(b"").position());
            let mut cells = 0;
            while cursor.peek().is_some() {
                cells += 1;
                cursor.advance();
            }
            assert_eq!(cells, count);
        });
        let halves: Vec<Arc<Segment>> = small
            .chunks(small.len().div_ceil(2))
            .map(|half| {
                let segment = Segment::new(Comparator::Table, &pool);
                for (sequence, cell) in half.iter().enumerate() {
                    segment.insert([&cell[..]], SequenceId(sequence as u64 + 1));
                }
                let _next = segment.successor(&pool);
                Arc::new(segment.flattened())
            })
            .collect();
        figure(&world, "merge the indexes of two, a cell", count, || {
            assert_eq!(Segment::merged(&halves).expect("few chunks").cells(), count);
        });
        figure(&world, "copy two into one, a cell", count, || {
            // Live cells in a chunk with dead ones are copied.
            let mut cells = 0;
            let keeps = |_: cell::Cell<'_>| {
                cells += 1;
                cells % 10 > 0
            };
            let copied = Segment::compacted(&halves, &pool, Cleaning::ALL, keeps).expect("few chunks");
            assert_eq!(copied.segment.cells(), count - count / 10);
        });
        drop((next, halves, flat));
        figure(&world, "drop", count, || drop(segment));
        let segment = Arc::new(Segment::new(Comparator::Table, &pool));
        figure(&world, "insert, 100 bytes, two threads", count, || {
            env::together("insert", 2, {
                let next = std::sync::atomic::AtomicUsize::new(0);
                let (segment, small) = (&segment, &small);
                move || {
                    loop {
                        let from = next.fetch_add(64, std::sync::atomic::Ordering::Relaxed);
                        if from >= small.len() {
                            return;
                        }
                        for (at, cell) in small[from..(from + 64).min(small.len())].iter().enumerate() {
                            segment.insert([&cell[..]], SequenceId((from + at) as u64 + 1));
                        }
                    }
                }
            });
        });
        drop(segment);
        let rows: Vec<Vec<Bytes>> = (0..count / 10)
            .map(|_| {
                let row = random.next();
                (0..10).map(|qualifier| cell(row, qualifier, 48)).collect()
            })
            .collect();
        let segment = Segment::new(Comparator::Table, &pool);
        figure(&world, "insert, 100 bytes, ten cells a row", count, || {
            for (sequence, cells) in rows.iter().enumerate() {
                segment.insert(cells.iter().map(|cell| &cell[..]), SequenceId(sequence as u64 + 1));
            }
        });
        let segment = Segment::new(Comparator::Table, &pool);
        let ordered: Vec<Bytes> = (0..count).map(|row| cell(row, 0, 48)).collect();
        figure(&world, "insert, 100 bytes, rows in order", count, || {
            for (sequence, cell) in ordered.iter().enumerate() {
                segment.insert([&cell[..]], SequenceId(sequence as u64 + 1));
            }
        });
        let large: Vec<Bytes> = (0..count / 6).map(|_| cell(random.next(), 0, 1_000)).collect();
        let segment = Segment::new(Comparator::Table, &pool);
        figure(&world, "insert, 1 KB, random rows", count / 6, || {
            for (sequence, cell) in large.iter().enumerate() {
                segment.insert([&cell[..]], SequenceId(sequence as u64 + 1));
            }
        });
        println!("  -- round {round}");
    }
}
