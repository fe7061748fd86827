//! Tests that copied and skipped rows equal those of a cell-by-cell walk.

use bytes::Bytes;
use cell::{CellSink, is_same_row};
use env::{WallTime, World};

use super::*;

/// The bytes and the sequence id of a cell.
type Shown = (Vec<u8>, SequenceId);

#[derive(Default)]
struct Given {
    cells: Vec<Shown>,
    rows: usize,
    heap_size: u64,
}

impl CellSink for Given {
    fn cell(&mut self, cell: Cell<'_>) {
        self.cells.push((cell.bytes().to_vec(), cell.sequence()));
    }

    fn sized_cell(&mut self, cell: Cell<'_>, heap_size: usize) {
        self.heap_size += heap_size as u64;
        self.cell(cell);
    }

    fn row_ends(&mut self) {
        self.rows += 1;
    }
}

/// Returns random rows: mostly with the same columns, some with other columns, with many, with a marker or with two
/// versions.
fn some_rows(any: &dyn Fn(u64) -> u64) -> Vec<Shown> {
    let columns = ["", "0", "a", "counter", "n", "qualifier-of-20-bytes"];
    let mine: Vec<&str> = columns.into_iter().filter(|_| any(2) == 0).collect();
    let (family, value) = (["f", "info0"][any(2) as usize], [3, 100, 1_000][any(3) as usize]);
    let mut cells = Vec::new();
    for row in 0..300 {
        let name = match any(20) {
            0 => format!("row-{row:05},x,y"),
            1 => format!("row-{row:05}-whose-name-is-a-good-deal-longer-than-others"),
            _ => format!("row-{row:05}"),
        };
        let own: Vec<String> = match any(20) {
            0 => columns.into_iter().filter(|_| any(2) == 0).map(str::to_owned).collect(),
            1 => (0..any(80)).map(|column| format!("c{column:02}")).collect(),
            _ => mine.iter().copied().map(str::to_owned).collect(),
        };
        for qualifier in own {
            let versions = if any(50) == 0 { 2 } else { 1 };
            for version in 0..versions {
                let content = vec![row as u8; any(value) as usize];
                let parts = CellParts {
                    row: name.as_bytes(),
                    family: family.as_bytes(),
                    qualifier: qualifier.as_bytes(),
                    timestamp: Timestamp(1_000 - version),
                    cell_type: if any(100) == 0 { CellType::DeleteColumn } else { CellType::Put },
                    value: &content,
                    tags: b"",
                };
                cells.push((parts.to_vec().expect("within limits"), SequenceId(any(1 << 40) >> any(40))));
            }
        }
    }
    cells
}

/// Returns the cells of the cursor's row from its position to the row's end.
fn walk_row(cursor: &mut Cursor) -> Vec<Shown> {
    let row = cursor.peek().map(|cell| cell.row().to_vec()).unwrap_or_default();
    let mut cells = Vec::new();
    while let Some(cell) = cursor.peek().filter(|cell| is_same_row(cell.row(), &row)) {
        cells.push((cell.bytes().to_vec(), cell.sequence()));
        cursor.advance().expect("sound");
    }
    cells
}

fn shown(cell: &Shown) -> Cell<'_> {
    Cell::trusted(&cell.0, cell.1)
}

#[test]
fn rows_are_copied_and_skipped_as_a_scan_cell_by_cell_finds_them() {
    let world = World::simulated(41, WallTime(0));
    let any = |below: u64| world.random() % below;
    let (mut given_rows, mut passed_rows, mut limited) = (0, 0, 0);
    for round in 0..150 {
        let cells = some_rows(&any);
        let (files, name) = (Memory::new(), FileName::new("f"));
        let comparator = [Comparator::Table, Comparator::Meta][usize::from(any(5) == 0)];
        let writing = WriterOptions {
            block_size: [200, 4 << 10, 64 << 10][any(3) as usize],
            with_tags: any(3) == 0,
            comparator,
            bloom: BloomType::None,
            ..Default::default()
        };
        write(&files, &name, &cells, writing);
        let cache = Arc::new(Cache::with_bytes(64 << 20));
        let file = files.open(&name).expect("written");
        let reader = Arc::new(Reader::open(file, name, cache, Caching::default()).expect("sound"));
        let (mut fast, mut slow) =
            (reader.cursor(ReadOptions::default()), reader.cursor(ReadOptions::default()));
        fast.seek_first().expect("sound");
        slow.seek_first().expect("sound");
        let names = ["", "0", "a", "c05", "counter", "n", "o"];
        let wanted: Vec<Bytes> = names.into_iter().filter(|_| any(2) == 0).map(Bytes::from).collect();
        let wanted = Some(&wanted[..]).filter(|_| any(3) > 0);
        let is_wanted = |cell: &Cell<'_>| {
            wanted.is_none_or(|wanted| wanted.iter().any(|qualifier| *qualifier == cell.qualifier()))
        };
        while let Some(at) = fast.peek().map(|cell| cell.row().to_vec()) {
            let end = (any(3) == 0).then(|| format!("row-{:05}", any(320)).into_bytes());
            let is_behind =
                |row: &[u8]| end.as_ref().is_some_and(|end| comparator.compare_rows(row, end).is_ge());
            let what = format!("round {round}, at {:?}, {wanted:?}, to {end:?}", at.escape_ascii());
            if any(2) == 0 {
                let heap_size = [u64::MAX, 1 + any(9_000)][any(2) as usize];
                let most = CopyLimits { rows: 1 + any(40) as usize, heap_size };
                let mut given = Given::default();
                let rows = fast.copy_rows(end.as_deref(), most, wanted, &mut given);
                assert!(rows <= most.rows && given.rows == rows, "{what}");
                let (mut found, mut heap_size) = (Vec::new(), 0);
                for _ in 0..rows {
                    let row = walk_row(&mut slow);
                    let all = || row.iter().map(shown);
                    assert!(all().all(|cell| cell.cell_type() == Some(CellType::Put)), "{what}");
                    assert!(!is_behind(shown(&row[0]).row()), "{what}");
                    heap_size +=
                        all().filter(is_wanted).map(|cell| reader.heap_size(cell) as u64).sum::<u64>();
                    found.extend(row.iter().filter(|cell| is_wanted(&shown(cell))).cloned());
                }
                assert!(given.cells == found && given.heap_size == heap_size, "{what}");
                assert!(rows == 0 || heap_size < most.heap_size, "{what}");
                limited += usize::from(rows > 0 && most.heap_size < u64::MAX);
                given_rows += rows;
            } else {
                let refused = |cell: Cell<'_>| match (cell.qualifier(), cell.value().len()) {
                    (b"0", length) if length > 990 => Refused::No,
                    (b"0", _) => Refused::Row,
                    (b"c05", _) => Refused::No,
                    (b"a", _) => Refused::Undecided,
                    _ => Refused::Cell,
                };
                let rows = fast.skip_rows(end.as_deref(), refused);
                for _ in 0..rows {
                    let row = walk_row(&mut slow);
                    let verdicts: Vec<Refused> = row.iter().map(|cell| refused(shown(cell))).collect();
                    let with_the_row = verdicts.iter().position(|verdict| *verdict == Refused::Row);
                    let judged = &verdicts[..with_the_row.unwrap_or(verdicts.len())];
                    assert!(!judged.contains(&Refused::No), "{what}");
                    assert!(with_the_row.is_some() || !judged.contains(&Refused::Undecided), "{what}");
                    assert!(!is_behind(shown(&row[0]).row()), "{what}");
                }
                passed_rows += rows;
            }
            // The next row is read cell by cell, whether or not it could be skipped.
            assert_eq!(walk_row(&mut fast), walk_row(&mut slow), "{what}");
        }
        assert!(slow.peek().is_none(), "round {round}");
    }
    assert!(
        given_rows > 4_000 && passed_rows > 4_000 && limited > 100,
        "{given_rows} {passed_rows} {limited}"
    );
}

#[test]
fn a_row_that_continues_in_the_next_block_is_copied_and_skipped_with_the_others() {
    let cell = |row: usize, qualifier: &str, length: usize| {
        let (row, value) = (format!("row-{row:05}"), vec![b'v'; length]);
        let parts = CellParts {
            row: row.as_bytes(),
            family: b"f",
            qualifier: qualifier.as_bytes(),
            timestamp: Timestamp(1),
            cell_type: CellType::Put,
            value: &value,
            tags: b"",
        };
        (parts.to_vec().expect("within limits"), SequenceId::ZERO)
    };
    // The large cell fills a block, so that nearly every block begins with a counter.
    let cells: Vec<Shown> =
        (0..300).flat_map(|row| [cell(row, "0", 1_000), cell(row, "counter", 8)]).collect();
    let (files, name) = (Memory::new(), FileName::new("f"));
    write(&files, &name, &cells, WriterOptions { block_size: 4 << 10, ..Default::default() });
    let reader = open(&files, &name).expect("sound");
    for gives in [true, false] {
        let mut cursor = reader.cursor(ReadOptions::default());
        cursor.seek_first().expect("sound");
        let (mut given, mut rows) = (Given::default(), 0);
        while cursor.peek().is_some() {
            let most = CopyLimits { rows: 7, heap_size: u64::MAX };
            let found = match gives {
                true => cursor.copy_rows(None, most, None, &mut given),
                false => cursor.skip_rows(None, |_| Refused::Row) as usize,
            };
            rows += found;
            if found == 0 {
                assert_eq!(walk_row(&mut cursor).len(), 2);
                assert!(cursor.peek().is_none(), "only the last of all is walked, not the one behind {rows}");
            }
        }
        assert_eq!(rows, 299);
        let mut walking = reader.cursor(ReadOptions::default());
        walking.seek_first().expect("sound");
        let walked: Vec<Shown> = (0..299).flat_map(|_| walk_row(&mut walking)).collect();
        assert!(!gives || given.cells == walked);
    }
}
