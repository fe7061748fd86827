//! Measures what a segment costs: `cargo bench -p memstore`.
//!
//! The planned costs: an insert is a descent of four levels of a tree, a binary search of some 32 heads in each level
//! (60 ns when its lines are in the cache, 120 when they are not), and the copy of a hundred bytes into a chunk (20
//! ns). Rows in order reuse the path of the previous row. A lookup costs the descent, and the comparison of one whole
//! key at its end. A step of a cursor reads one cache line of an entry and two of a cell, which the previous step has
//! prefetched (10 ns).

use std::sync::Arc;

use cell::{CellParts, CellType, Comparator, KeyBuf, SequenceId, Timestamp};
use memstore::{Cursor, Pool, Segment};
use micro::{Sheet, keep};

fn cell(number: u64, value: &[u8]) -> Vec<u8> {
    let row = format!("user{number:016}");
    let parts = CellParts {
        row: row.as_bytes(),
        family: b"f",
        qualifier: b"q",
        timestamp: Timestamp(1),
        cell_type: CellType::Put,
        value,
        tags: b"",
    };
    parts.to_vec().expect("within limits")
}

/// Returns the numbers below `count` in random order, each once.
fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    // Multiplying by an odd factor modulo a power of two gives a permutation.
    let all = count.next_power_of_two();
    (0..all).map(move |number| number.wrapping_mul(0x9e37_79b1) % all).filter(move |number| *number < count)
}

fn main() {
    let sheet = Sheet::new("segment of 100-byte cells");
    let count: u64 = if sheet.is_trial() { 2_000 } else { 200_000 };
    let value = [7; 50];
    let pool = Pool::new(memstore::CHUNK_SIZE_MAX, 64);
    let fresh = || Segment::new(Comparator::Table, &pool);
    let random: Vec<Vec<u8>> = shuffled(count).map(|number| cell(number, &value)).collect();
    let ordered: Vec<Vec<u8>> = (0..count).map(|number| cell(number, &value)).collect();
    let fill = |segment: &mut Segment, cells: &[Vec<u8>]| {
        for (sequence, cell) in cells.iter().enumerate() {
            segment.insert([&cell[..]], SequenceId(sequence as u64 + 1));
        }
    };
    sheet.time("insert, rows in no order", 300.0, count, fresh, |segment| fill(segment, &random));
    sheet.time("insert, rows in order", 120.0, count, fresh, |segment| fill(segment, &ordered));
    sheet.time("insert, ten rows in order at a time", 100.0, count, fresh, |segment| {
        for (sequence, cells) in ordered.chunks(10).enumerate() {
            segment.insert(cells.iter().map(|cell| &cell[..]), SequenceId(sequence as u64 + 1));
        }
    });
    sheet.time("insert, a hundred rows in no order at a time", 250.0, count, fresh, |segment| {
        for (sequence, cells) in random.chunks(100).enumerate() {
            segment.insert(cells.iter().map(|cell| &cell[..]), SequenceId(sequence as u64 + 1));
        }
    });

    let mut full = fresh();
    fill(&mut full, &random);
    let full = Arc::new(full);
    let wanted: Vec<KeyBuf> = shuffled(count)
        .take(count as usize / 4)
        .map(|number| KeyBuf::first_on_row(format!("user{number:016}").as_bytes()))
        .collect();
    sheet.time(
        "lookup, rows in no order",
        300.0,
        wanted.len() as u64,
        || Cursor::new(Arc::clone(&full)),
        |cursor| {
            for key in &wanted {
                cursor.seek(key.position());
                assert!(keep(cursor.peek()).is_some());
            }
        },
    );
    sheet.time(
        "step of a cursor",
        10.0,
        count,
        || Cursor::new(Arc::clone(&full)),
        |cursor| {
            cursor.seek(KeyBuf::first_on_row(b"").position());
            let mut seen = 0u64;
            while keep(cursor.peek()).is_some() {
                seen += 1;
                cursor.advance();
            }
            assert_eq!(seen, count);
        },
    );
}
