//! Every filter and comparator, for the benchmarks. Each keeps as many cells of some rows as it can.

#![allow(unreachable_pub, reason = "two benchmarks share it")]

use bytes::Bytes;
use cell::{CellParts, CellType, Timestamp};
use filter::{BitOperator, ColumnRange, Comparable, CompareOperator, Filter, Operator, Pattern, RowRange};

pub const ROWS: usize = 100;
pub const COLUMNS: usize = 50;

/// Returns the cells of rows with fifty columns each, as a scan passes them to a filter.
pub fn cells() -> Vec<Vec<u8>> {
    let mut cells = Vec::new();
    for row in 0..ROWS {
        for number in 0..COLUMNS {
            let value = format!("value {row} of {number}, and what makes it as long as values are");
            let (row, column) = (format!("row-{row:08}"), format!("column-{number:04}"));
            let parts = CellParts {
                row: row.as_bytes(),
                family: b"f",
                qualifier: column.as_bytes(),
                timestamp: Timestamp(1_000_000 + number as i64),
                cell_type: CellType::Put,
                value: value.as_bytes(),
                tags: b"",
            };
            cells.push(parts.to_vec().expect("within limits"));
        }
    }
    cells
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn binary(text: &str) -> Comparable {
    Comparable::Binary(bytes(text))
}

/// Returns the filters by name, with the planned cost of each in ns.
pub fn filters() -> Vec<(&'static str, f64, Filter)> {
    use CompareOperator::{Equal, GreaterOrEqual, NotEqual};
    let range = ColumnRange {
        min: Some(bytes("column-0000")),
        include_min: true,
        max: Some(bytes("column-9")),
        include_max: true,
    };
    let rows =
        RowRange { start: bytes("row-0"), include_start: true, stop: bytes("row-9"), include_stop: false };
    let fuzzy = (bytes("row-????0000"), b"row-????0000".iter().map(|byte| *byte != b'?').collect());
    let column = || (bytes("f"), bytes("column-0049"));
    let single = |latest_only| {
        let (family, qualifier) = column();
        Filter::single_column_value(family, qualifier, NotEqual, binary("no"), true, latest_only, false)
    };
    let of_column = {
        let (family, qualifier) = column();
        Filter::column_value(family, qualifier, NotEqual, binary("no"))
    };
    let stamps = (0..COLUMNS as i64).map(|at| Timestamp(1_000_000 + at)).collect();
    let pattern = |text: &str| Comparable::Regex(Pattern::new(text, 32).expect("a pattern"));
    let value = |with| Filter::value(Equal, with);
    let other = |text: &str| Filter::value(NotEqual, binary(text));
    let component = Comparable::BinaryComponent { value: bytes("e "), offset: 4 };
    let bits = Comparable::Bit { value: bytes("v"), operator: BitOperator::And };
    let prefixes = vec![bytes("column-"), bytes("other-"), bytes("x")];
    let all = vec![
        Filter::prefix(bytes("row-")),
        Filter::qualifier(GreaterOrEqual, binary("column-")),
        other("value 1"),
    ];
    let one = vec![Filter::prefix(bytes("no")), Filter::qualifier(Equal, binary("no")), other("value 1")];
    vec![
        ("PrefixFilter", 5.0, Filter::prefix(bytes("row-"))),
        ("RowFilter", 5.0, Filter::row(GreaterOrEqual, binary("row-"))),
        ("FamilyFilter", 10.0, Filter::family(Equal, binary("f"))),
        ("QualifierFilter", 10.0, Filter::qualifier(GreaterOrEqual, binary("column-"))),
        ("ValueFilter, binary", 10.0, other("value 1")),
        ("ValueFilter, prefix", 10.0, value(Comparable::BinaryPrefix(bytes("value ")))),
        ("ValueFilter, component", 10.0, value(component)),
        ("ValueFilter, bits", 15.0, Filter::value(NotEqual, bits)),
        ("ValueFilter, substring", 40.0, value(Comparable::substring("as long"))),
        ("ValueFilter, pattern", 50.0, value(pattern("^value [0-9]+ "))),
        ("ColumnValueFilter", 10.0, of_column),
        ("ColumnPrefixFilter", 8.0, Filter::column_prefix(bytes("column-"))),
        ("MultipleColumnPrefixFilter", 15.0, Filter::multiple_column_prefix(prefixes)),
        ("ColumnRangeFilter", 12.0, Filter::column_range(range)),
        ("ColumnPaginationFilter", 5.0, Filter::column_pagination(1_000, 0, None)),
        ("ColumnCountGetFilter", 5.0, Filter::column_count_get(1_000)),
        ("FirstKeyOnlyFilter", 4.0, Filter::first_key_only()),
        ("KeyOnlyFilter", 4.0, Filter::key_only(false)),
        ("PageFilter", 4.0, Filter::page(1_000_000)),
        ("InclusiveStopFilter", 4.0, Filter::inclusive_stop(bytes("row-9"))),
        ("TimestampsFilter of 50", 15.0, Filter::timestamps(stamps, true)),
        ("SingleColumnValueFilter", 10.0, single(true)),
        ("SingleColumnValueFilter, all versions", 10.0, single(false)),
        (
            "DependentColumnFilter",
            10.0,
            Filter::dependent_column(bytes("f"), bytes("column-0000"), false, None),
        ),
        ("FuzzyRowFilter", 12.0, Filter::fuzzy_row(vec![fuzzy]).expect("a mask")),
        ("MultiRowRangeFilter", 4.0, Filter::multi_row_range(vec![rows]).expect("a range")),
        ("RandomRowFilter", 4.0, Filter::random_row(1.1, 1)),
        ("SkipFilter of ValueFilter", 15.0, Filter::skip(other("value 1"))),
        ("WhileMatchFilter of PrefixFilter", 10.0, Filter::while_match(Filter::prefix(bytes("row-")))),
        ("FilterList, all of three", 35.0, Filter::list(Operator::MustPassAll, all)),
        ("FilterList, one of three", 45.0, Filter::list(Operator::MustPassOne, one)),
    ]
}
