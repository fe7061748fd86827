//! Tests that HDocDB's filter decides as HDocDB's own classes do.
//!
//! `golden/hdocdb.txt` has random conditions and documents with the answers of `io.hdocdb.store.HDocumentFilter`,
//! version 2.0.1, one case in a line:
//!
//! ```text
//! kept|error  filter  row  {qualifier:timestamp:value}…        all bytes in hexadecimal, - for none
//! ```
//!
//! `kept` has a 1 for each cell that is returned. `golden/HDocDbGolden.java` wrote these cases. If `HDOCDB_CASES` names
//! a file, its cases are tested, too.

use cell::{Cell, CellParts, CellType, SequenceId, Timestamp};
use filter::Filter;

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.trim_matches('-').as_bytes().chunks(2);
    pairs
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("text");
            u8::from_str_radix(pair, 16).expect("hexadecimal digits")
        })
        .collect()
}

/// Returns the filter's decisions about a row: one digit for each cell, or `error`.
fn judged(filter: &[u8], row: &[u8], columns: &[&str]) -> String {
    let Ok(mut filter) = Filter::documents(filter) else { return "refused".to_owned() };
    let cells: Vec<Vec<u8>> = columns
        .iter()
        .map(|column| {
            let [qualifier, time, value] = column.split(':').collect::<Vec<_>>()[..] else {
                panic!("{column}")
            };
            let (qualifier, value) = (bytes(qualifier), bytes(value));
            let parts = CellParts {
                row,
                family: b"f",
                qualifier: &qualifier,
                timestamp: Timestamp(time.parse().expect("a time")),
                cell_type: CellType::Put,
                value: &value,
                tags: b"",
            };
            parts.to_vec().expect("a cell")
        })
        .collect();
    let cells: Vec<Cell<'_>> =
        cells.iter().map(|cell| Cell::parse(cell, SequenceId::ZERO).expect("a cell")).collect();
    let mut keep = vec![true; cells.len()];
    filter.reset();
    assert!(!filter.filter_row_key(row));
    assert!(cells.iter().all(|cell| filter.filter_cell(*cell).includes()));
    filter.filter_row_cells(&cells, &mut keep);
    match filter.failure() {
        Some(_) => "error".to_owned(),
        None => keep.iter().map(|keep| if *keep { '1' } else { '0' }).collect(),
    }
}

#[test]
fn documents_are_judged_as_by_the_java_class() {
    let more = std::env::var("HDOCDB_CASES").ok();
    #[expect(clippy::disallowed_methods, reason = "a file of more cases, named by hand")]
    let more = more.map(|path| std::fs::read_to_string(path).expect("a file"));
    let cases = more.as_deref().unwrap_or(include_str!("golden/hdocdb.txt"));
    let (mut wrong, mut kept) = (Vec::new(), 0);
    for (number, case) in cases.lines().enumerate() {
        let [expected, filter, row, columns @ ..] = &case.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{case}")
        };
        let found = judged(&bytes(filter), &bytes(row), columns);
        kept += usize::from(expected.contains('1'));
        if found != *expected {
            wrong.push(format!("line {}: {expected} by Java, {found} here", number + 1));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    assert!(kept > cases.lines().count() / 10, "enough rows are kept");
}

#[test]
fn rows_beyond_a_prefix_end_the_scan() {
    let stream = bytes("aced00057706000000026162");
    let mut filter = Filter::inclusive_stop_prefix(&stream).expect("a filter");
    for (row, dropped) in [("aa", false), ("ab", false), ("abz", false), ("ac", true)] {
        assert_eq!(filter.filter_row_key(row.as_bytes()), dropped, "{row}");
    }
    assert!(filter.filter_all_remaining());
    assert!(Filter::inclusive_stop_prefix(&stream[..8]).is_err());
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

/// Returns a filter with a condition on `value`, a path that equals it, and these paths of columns to return.
fn on_value(value: &[u8], wanted: &[&str]) -> Vec<u8> {
    let (leaf, equal, has_value) = ([1], 3u32.to_be_bytes(), [1]);
    let wanted_count = (wanted.len() as u32).to_be_bytes();
    let wanted: Vec<u8> = wanted.iter().flat_map(|path| text(path)).collect();
    let data = [&leaf[..], &text("a"), &equal, &has_value, value, &wanted_count, &wanted].concat();
    [&[0xac, 0xed, 0, 5, 0x7a][..], &(data.len() as u32).to_be_bytes(), &data].concat()
}

/// A null, a map with one member, and an array, in the bytes of the stream.
const NULL: [u8; 5] = [1, 0, 0, 0, 0];
const MAP_OF_ONE: [u8; 5] = [16, 0, 0, 0, 1];
const ARRAY: u8 = 17;

/// A filter is cloned and dropped level by level. A value of 10,000 levels would exceed the stack and end the process.
#[test]
fn values_are_nested_no_deeper_than_the_stack_allows() {
    let nested = |maps: usize, steps: usize| {
        let path = text(&vec!["a"; steps].join("."));
        let map = [&MAP_OF_ONE[..], &path].concat();
        Filter::documents(&on_value(&[map.repeat(maps), NULL.to_vec()].concat(), &[]))
    };
    for (maps, steps) in [(1, 1), (100, 1), (1, 100), (10, 10)] {
        drop(nested(maps, steps).expect("a filter").clone());
    }
    for (maps, steps) in [(100, 100), (11, 10), (101, 1)] {
        let error = nested(maps, steps).expect_err("too deep").to_string();
        assert!(error.contains("nested deeper than 100"), "{error}");
    }
}

/// Each of these filters has less than 4 MB, and would take some hundred MB of memory.
#[test]
fn a_filter_takes_no_more_memory_than_its_limit() {
    let array = |count: usize, element: &[u8]| {
        [&[ARRAY][..], &(count as u32).to_be_bytes(), &element.repeat(count)].concat()
    };
    let map = [&MAP_OF_ONE[..], &text("a"), &NULL].concat();
    let deep = [&MAP_OF_ONE[..], &text(&["a"; 90].join(".")), &NULL].concat();
    let (few, many) = (vec!["a[].b"; 1_000], vec!["a[].b"; 100_000]);
    for (name, value, wanted) in [
        ("maps", array(250_000, &map), &[][..]),
        ("arrays", array(250_000, &array(1, &NULL)), &[]),
        ("paths", array(5_000, &deep), &[]),
        ("patterns", NULL.to_vec(), &many),
    ] {
        let refused = Filter::documents(&on_value(&value, wanted)).expect_err(name).to_string();
        assert!(refused.contains("of memory"), "{name}: {refused}");
    }
    Filter::documents(&on_value(&array(20_000, &map), &few)).expect("a large filter");
}

#[test]
fn a_filter_that_decodes_whole_rows_is_dear() {
    assert!(Filter::documents(&on_value(&NULL, &[])).expect("a filter").is_dear());
}
