//! Measures the cost of reading a file with cached blocks, and of writing one: `cargo bench -p hfile`.
//!
//! Estimates: a seek is a binary search in the index (14 steps for a thousand blocks, the first few in the processor's
//! cache: 100 ns), a block cache lookup (80 ns), and a search in the block's heads with one key comparison (100 ns). A
//! step of a cursor reads two lengths and a sequence id from prefetched memory (4 ns for 100 bytes). Writing copies a
//! cell, adds its row to the filter, and computes a checksum for every 64 KB (60 ns).

use std::sync::Arc;

use cache::Cache;
use cell::{Cell, CellParts, CellType, KeyBuf, SequenceId, Timestamp};
use hfile::{ReadOptions, Reader, StoreFileInfo, Writer, WriterOptions};
use micro::{Sheet, keep};
use storage::{FileName, Files, Memory};

fn cells(count: u64, value: &[u8]) -> Vec<Vec<u8>> {
    (0..count)
        .map(|number| {
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
        })
        .collect()
}

fn write(files: &Memory, name: &str, cells: &[Vec<u8>]) {
    let name = FileName::new(name);
    let mut writer =
        Writer::create(files.create(&name).expect("a file"), name.clone(), WriterOptions::default());
    for bytes in cells {
        writer.append(Cell::trusted(bytes, SequenceId(1))).expect("in order");
    }
    writer.finish(StoreFileInfo::default()).expect("written");
}

fn main() {
    let sheet = Sheet::new("file of 64 KB blocks, all cached");
    let count: u64 = if sheet.is_trial() { 2_000 } else { 200_000 };
    for size in [50, 1_000] {
        let count = if size > 100 { count / 4 } else { count };
        let cells = cells(count, &vec![7; size]);
        let paper = |nanoseconds: f64, copied: f64| nanoseconds + size as f64 * copied;
        sheet.time(
            &format!("write, a cell, {size}-byte values"),
            paper(60.0, 0.1),
            count,
            Memory::new,
            |files| write(files, "written", &cells),
        );
        let files = Memory::new();
        write(&files, "read", &cells);
        let name = FileName::new("read");
        let cache = Arc::new(Cache::with_bytes(1 << 30));
        let file = files.open(&name).expect("it is there");
        let reader =
            Arc::new(Reader::open(file, name, cache, cache::Caching::default()).expect("it is whole"));
        sheet.time(
            &format!("step of a scan, {size}-byte values"),
            paper(4.0, 0.02),
            count,
            || reader.cursor(ReadOptions::default()),
            |cursor| {
                cursor.seek_first().expect("read");
                let mut seen = 0u64;
                while keep(cursor.peek()).is_some() {
                    seen += 1;
                    cursor.advance().expect("read");
                }
                assert_eq!(seen, count);
            },
        );
        let wanted: Vec<KeyBuf> = (0..count / 4)
            .map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count)
            .map(|number| KeyBuf::first_on_row(format!("user{number:016}").as_bytes()))
            .collect();
        sheet.time(
            &format!("seek, rows in no order, {size}-byte values"),
            280.0,
            wanted.len() as u64,
            || reader.cursor(ReadOptions::default()),
            |cursor| {
                for key in &wanted {
                    cursor.seek(key.position()).expect("read");
                    assert!(keep(cursor.peek()).is_some());
                }
            },
        );
        sheet.time(
            &format!("filter that says yes, {size}-byte values"),
            60.0,
            wanted.len() as u64,
            || (),
            |()| {
                for key in &wanted {
                    let row = key.key().row();
                    assert!(reader.may_contain_row(row, ReadOptions::default()).expect("read"));
                }
            },
        );
    }
}
