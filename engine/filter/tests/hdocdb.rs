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
