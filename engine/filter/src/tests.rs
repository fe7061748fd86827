//! Tests the decisions of each filter on a small table, with the calls that a region makes.

use bytes::Bytes;
use cell::{Cell, CellParts, CellType, Comparator, SequenceId, Timestamp};

use crate::list::{merge_all, merge_one};
use crate::{
    BitOperator, Charset, ColumnRange, Comparable, CompareOperator, Failure, Filter, Operator, Pattern,
    ReturnCode, RowRange,
};

/// The cells of the table, `row/qualifier=value` in order; the timestamp is the number of the cell in its row.
const TABLE: &str = "a/p=1 a/q=2 a/r=3 b/p=4 b/q=2 c/q=9 c/s=1 d/p=1";

fn cells() -> Vec<Vec<u8>> {
    let mut timestamp = 0;
    let mut last = "";
    let parse = |text: &'static str| {
        let (row, rest) = text.split_once('/').expect("row");
        let (qualifier, value) = rest.split_once('=').expect("value");
        (row, qualifier, value)
    };
    TABLE
        .split(' ')
        .map(|text| {
            let (row, qualifier, value) = parse(text);
            timestamp = if row == last { timestamp + 1 } else { 1 };
            last = row;
            CellParts {
                row: row.as_bytes(),
                family: b"f",
                qualifier: qualifier.as_bytes(),
                timestamp: Timestamp(timestamp),
                cell_type: CellType::Put,
                value: value.as_bytes(),
                tags: b"",
            }
            .to_vec()
            .expect("within limits")
        })
        .collect()
}

/// Returns the cells of the table that a filter keeps, in the form of `TABLE`.
fn kept(mut filter: Filter) -> String {
    let cells = cells();
    let cells: Vec<Cell<'_>> = cells.iter().map(|bytes| Cell::trusted(bytes, SequenceId::ZERO)).collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < cells.len() && !filter.filter_all_remaining() {
        let row = cells[at].row();
        let end = at + cells[at..].iter().take_while(|cell| cell.row() == row).count();
        filter.reset();
        let mut included: Vec<Cell<'_>> = Vec::new();
        let mut next = at;
        if !filter.filter_row_key(row) {
            while next < end {
                let cell = cells[next];
                let code = filter.filter_cell(cell);
                if code.includes() {
                    included.push(cell);
                }
                next = match code {
                    ReturnCode::NextRow | ReturnCode::IncludeAndSeekNextRow => end,
                    ReturnCode::SeekNextUsingHint => match filter.next_hint(cell) {
                        Some(hint) => {
                            let later = |cell: &&Cell<'_>| hint.is_after(Comparator::Table, **cell);
                            next + cells[next..].iter().take_while(later).count().max(1)
                        }
                        None => next + 1,
                    },
                    _ => next + 1,
                };
            }
        }
        let mut keep = vec![true; included.len()];
        filter.filter_row_cells(&included, &mut keep);
        let dropped = !included.is_empty() && filter.filter_row();
        if !dropped {
            for (cell, _) in included.iter().zip(keep).filter(|(_, keep)| *keep) {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                out.push(format!("{}/{}={}", text(cell.row()), text(cell.qualifier()), text(cell.value())));
            }
        }
        at = next.max(end);
    }
    out.join(" ")
}

fn check(filter: Filter, expected: &str) {
    let shown = format!("{filter:?}");
    assert_eq!(kept(filter), expected, "{shown}");
}

fn text(text: &'static str) -> Comparable {
    Comparable::Binary(Bytes::from_static(text.as_bytes()))
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[test]
fn rows_are_chosen() {
    use CompareOperator::{Equal, GreaterOrEqual, NotEqual};
    check(Filter::prefix(bytes("b")), "b/p=4 b/q=2");
    check(Filter::page(2), "a/p=1 a/q=2 a/r=3 b/p=4 b/q=2");
    check(Filter::inclusive_stop(bytes("b")), "a/p=1 a/q=2 a/r=3 b/p=4 b/q=2");
    check(Filter::row(GreaterOrEqual, text("c")), "c/q=9 c/s=1 d/p=1");
    check(Filter::row(NotEqual, text("a")), "b/p=4 b/q=2 c/q=9 c/s=1 d/p=1");
    check(
        Filter::row(Equal, Comparable::Regex(Pattern::new("^[bd]$", 32).expect("valid"))),
        "b/p=4 b/q=2 d/p=1",
    );
    let range = |start, stop| RowRange {
        start: bytes(start),
        include_start: true,
        stop: bytes(stop),
        include_stop: false,
    };
    let ranges = Filter::multi_row_range(vec![range("d", ""), range("a", "b")]).expect("ranges");
    check(ranges, "a/p=1 a/q=2 a/r=3 d/p=1");
    assert!(Filter::multi_row_range(vec![range("b", "a")]).is_err());
    assert!(Filter::multi_row_range(vec![]).is_err());
    check(Filter::fuzzy_row(vec![(bytes("b"), vec![true])]).expect("valid"), "b/p=4 b/q=2");
    check(Filter::random_row(1.1, 7), TABLE);
    check(Filter::random_row(0.0, 7), "");
}

#[test]
fn all_takes_every_row_away() {
    check(Filter::all(), "");
}

#[test]
fn columns_are_chosen() {
    use CompareOperator::{Equal, Less, NoOp};
    check(Filter::column_prefix(bytes("q")), "a/q=2 b/q=2 c/q=9");
    check(Filter::multiple_column_prefix(vec![bytes("p"), bytes("s")]), "a/p=1 b/p=4 c/s=1 d/p=1");
    let range =
        ColumnRange { min: Some(bytes("p")), include_min: false, max: Some(bytes("r")), include_max: false };
    check(Filter::column_range(range), "a/q=2 b/q=2 c/q=9");
    check(Filter::column_pagination(1, 1, None), "a/q=2 b/q=2 c/s=1");
    check(Filter::column_pagination(1, 0, Some(bytes("q"))), "a/q=2 b/q=2 c/q=9");
    check(Filter::column_count_get(2), "a/p=1 a/q=2");
    check(Filter::qualifier(Less, text("q")), "a/p=1 b/p=4 d/p=1");
    check(Filter::family(Equal, text("g")), "");
    check(Filter::family(NoOp, text("f")), "");
    check(Filter::first_key_only(), "a/p=1 b/p=4 c/q=9 d/p=1");
    check(
        Filter::first_key_value_matching_qualifiers(vec![bytes("q")]),
        "a/p=1 a/q=2 b/p=4 b/q=2 c/q=9 d/p=1",
    );
}

#[test]
fn values_choose_cells_and_rows() {
    use CompareOperator::{Equal, Greater};
    check(Filter::value(Equal, text("1")), "a/p=1 c/s=1 d/p=1");
    check(Filter::column_value(bytes("f"), bytes("q"), Equal, text("2")), "a/q=2 b/q=2");
    let single = |missing, exclude| {
        Filter::single_column_value(bytes("f"), bytes("p"), Greater, text("1"), missing, true, exclude)
    };
    check(single(false, false), "b/p=4 b/q=2 c/q=9 c/s=1");
    check(single(true, false), "b/p=4 b/q=2");
    check(single(true, true), "b/q=2");
    check(Filter::timestamps(vec![Timestamp(2)], false), "a/q=2 b/q=2 c/s=1");
    check(Filter::timestamps(vec![Timestamp(3), Timestamp(1)], true), "a/p=1 a/r=3 b/p=4 c/q=9 d/p=1");
    check(Filter::dependent_column(bytes("f"), bytes("q"), false, None), "a/q=2 b/q=2 c/q=9");
    check(Filter::skip(Filter::value(Greater, text("1"))), "b/p=4 b/q=2");
    check(Filter::skip(Filter::value(Greater, text("0"))), TABLE);
    check(
        Filter::while_match(Filter::row(CompareOperator::Less, text("c"))),
        "a/p=1 a/q=2 a/r=3 b/p=4 b/q=2",
    );
}

/// With NO_OP, ValueFilter and ColumnValueFilter keep no cell. SingleColumnValueFilter fails with an error, as in HBase.
#[test]
fn no_op_fails_only_in_filters_of_a_single_column() {
    use CompareOperator::NoOp;
    let bytes_of_a_cell = CellParts {
        row: b"r",
        family: b"f",
        qualifier: b"p",
        timestamp: Timestamp(1),
        cell_type: CellType::Put,
        value: b"1",
        tags: b"",
    }
    .to_vec()
    .expect("a cell");
    let cell = Cell::parse(&bytes_of_a_cell, SequenceId::ZERO).expect("a cell");
    let mut single = Filter::single_column_value(bytes("f"), bytes("p"), NoOp, text("1"), true, true, false);
    single.filter_cell(cell);
    assert_eq!(single.failure(), Some(Failure::NoOperator));
    assert_eq!(Failure::NoOperator.to_string(), "Unknown Compare op NO_OP");
    for mut filter in [
        Filter::value(NoOp, text("1")),
        Filter::column_value(bytes("f"), bytes("p"), NoOp, text("1")),
        Filter::value(NoOp, Comparable::Missing),
    ] {
        assert!(!filter.filter_cell(cell).includes());
        assert_eq!(filter.failure(), None);
    }
    let mut missing = Filter::value(CompareOperator::Equal, Comparable::Missing);
    assert!(!missing.filter_cell(cell).includes());
    assert_eq!(missing.failure(), Some(Failure::NoComparator));
}

#[test]
fn lists_put_filters_together() {
    let all = |filters| Filter::list(Operator::MustPassAll, filters);
    let one = |filters| Filter::list(Operator::MustPassOne, filters);
    let (row_a, row_b) = (Filter::prefix(bytes("a")), Filter::prefix(bytes("b")));
    let (column_p, column_q) = (Filter::column_prefix(bytes("p")), Filter::column_prefix(bytes("q")));
    check(all(vec![row_a.clone(), column_q.clone()]), "a/q=2");
    check(one(vec![row_a.clone(), row_b.clone()]), "a/p=1 a/q=2 a/r=3 b/p=4 b/q=2");
    check(one(vec![column_p.clone(), column_q.clone()]), "a/p=1 a/q=2 b/p=4 b/q=2 c/q=9 d/p=1");
    check(all(vec![one(vec![column_p, column_q]), row_b]), "b/p=4 b/q=2");
    check(all(vec![]), TABLE);
    check(one(vec![]), TABLE);
    // A counting filter after one that refuses does not count rows that it never got.
    check(all(vec![Filter::value(CompareOperator::Equal, text("1")), Filter::page(2)]), "a/p=1 c/s=1");
    let shown =
        |lengths: &[bool]| all(lengths.iter().map(|length| Filter::key_only(*length)).collect()).transform();
    assert_eq!(shown(&[true]), crate::Transform::LengthValue);
    assert_eq!(shown(&[true, true]), crate::Transform::ThisLengthValue(4), "the length of a length");
    assert_eq!(shown(&[false, true]), crate::Transform::ThisLengthValue(0));
    assert_eq!(shown(&[true, false]), crate::Transform::EmptyValue);
}

#[test]
fn steps_merge_as_in_hbase() {
    use ReturnCode::{
        Include, IncludeAndNextColumn, IncludeAndSeekNextRow, NextColumn, NextRow, SeekNextUsingHint, Skip,
    };
    for (left, right, all, one) in [
        (Include, Include, Include, Include),
        (Include, Skip, Skip, Include),
        (IncludeAndNextColumn, Include, IncludeAndNextColumn, Include),
        (IncludeAndNextColumn, IncludeAndSeekNextRow, IncludeAndSeekNextRow, IncludeAndNextColumn),
        (IncludeAndNextColumn, Skip, NextColumn, Include),
        (IncludeAndNextColumn, NextRow, NextRow, IncludeAndNextColumn),
        (IncludeAndSeekNextRow, Skip, NextRow, Include),
        (IncludeAndSeekNextRow, NextColumn, NextRow, IncludeAndNextColumn),
        (IncludeAndSeekNextRow, NextRow, NextRow, IncludeAndSeekNextRow),
        (Skip, NextColumn, NextColumn, Skip),
        (NextColumn, NextRow, NextRow, NextColumn),
        (SeekNextUsingHint, SeekNextUsingHint, SeekNextUsingHint, SeekNextUsingHint),
        (SeekNextUsingHint, NextRow, SeekNextUsingHint, Skip),
    ] {
        assert_eq!(merge_all(left, right), all, "{left:?} and {right:?}");
        assert_eq!(merge_all(right, left), all, "{right:?} and {left:?}");
        assert_eq!(merge_one(Some(left), right), one, "{left:?} or {right:?}");
        assert_eq!(merge_one(Some(right), left), one, "{right:?} or {left:?}");
    }
}

#[test]
fn comparables_compare_mine_with_theirs() {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let bit = |operator| Comparable::Bit { value: Bytes::from_static(&[0b101]), operator };
    let decimal = |scale: i32, unscaled: i64| {
        let mut bytes = scale.to_be_bytes().to_vec();
        bytes.extend_from_slice(&unscaled.to_be_bytes());
        Bytes::from(bytes)
    };
    for (mine, theirs, expected) in [
        (text("b"), &b"a"[..], Greater),
        (Comparable::BinaryPrefix(bytes("ab")), b"abc", Equal),
        (Comparable::BinaryPrefix(bytes("ab")), b"a", Greater),
        (Comparable::BinaryComponent { value: bytes("b"), offset: 1 }, b"abc", Equal),
        (Comparable::Long(5), &5i64.to_be_bytes(), Equal),
        (Comparable::Long(-1), &0i64.to_be_bytes(), Less),
        (Comparable::BigDecimal(decimal(1, 15)), &decimal(2, 150), Equal),
        (Comparable::BigDecimal(decimal(0, -2)), &decimal(1, -15), Less),
        (Comparable::BigDecimal(decimal(0, 0)), &decimal(3, -1), Greater),
        (Comparable::Null, b"", Greater),
        (Comparable::Null, b"x", Greater),
        (bit(BitOperator::And), &[0b010], Greater),
        (bit(BitOperator::Or), &[0b010], Equal),
        (bit(BitOperator::Xor), &[0b101], Greater),
        (Comparable::substring("BcD"), b"aBCDe", Equal),
        (Comparable::substring("bcd"), b"aBCD", Equal),
        (Comparable::substring("abc"), b"ABCd", Equal),
        (Comparable::substring("e"), b"aBCDE", Equal),
        (Comparable::substring("abcde"), b"abcd", Greater),
        (Comparable::substring("axd"), b"abd", Greater),
        (Comparable::substring("a"), b"", Greater),
        (Comparable::substring(""), b"", Equal),
        (Comparable::Regex(Pattern::new("(?=.*x)a+", 32).expect("look-around")), b"aax", Equal),
        (Comparable::Regex(Pattern::new("A", 2).expect("no case")), b"bab", Equal),
    ] {
        assert_eq!(mine.compare(theirs), Ok(expected), "{mine:?} against {theirs:?}");
    }
    assert!(Pattern::new("(", 0).is_err());
    for (pattern, value, found) in [
        (r"^..\Qa.c\E$", &b"..a.c"[..], true),
        (r"^..\Qa.c\E$", b"..abc", false),
        (r"a\Q(b", b"a(b", true),
        (r"\\Q+", br"\QQ", true),
        (r"\QE\E\Q\\E+", br"E\\\", true),
    ] {
        let pattern = Pattern::new(pattern, 32).expect("Java quotes so");
        assert_eq!(
            Comparable::Regex(pattern.clone()).compare(value) == Ok(Equal),
            found,
            "{pattern:?} in {value:?}"
        );
    }
    let latin = Charset::by_name("iso-8859-1").expect("Java has it");
    for (charset, found) in [(latin, true), (Charset::Utf8, false), (Charset::Ascii, false)] {
        let pattern = Pattern::in_charset("^.\\Q\u{e9}\u{0}\\E.$", 32, charset).expect("valid");
        let compared = Comparable::Regex(pattern).compare(&[255, 0xe9, 0, 128]);
        assert_eq!(compared == Ok(Equal), found, "{charset:?}");
    }
    assert_eq!(Charset::by_name("EBCDIC"), None);
    let slow = Pattern::new("(a|a)*\\1b", 0).expect("valid");
    let given_up = Comparable::Regex(slow).compare(&[b'a'; 60]);
    assert!(matches!(given_up, Err(Failure::TooManySteps { .. })), "{given_up:?}");
    assert_eq!(Comparable::Long(5).compare(b"no"), Err(Failure::NotALong(2)));
    assert_eq!(Comparable::BigDecimal(decimal(0, 1)).compare(b"no"), Err(Failure::NotADecimal(2)));
    let mut failing = Filter::value(CompareOperator::Equal, Comparable::Long(5));
    let bytes = &cells()[0];
    assert_eq!(failing.filter_cell(Cell::trusted(bytes, SequenceId::ZERO)), ReturnCode::Skip);
    assert_eq!(failing.failure(), Some(Failure::NotALong(1)));
    assert_eq!(failing.failure(), None);
}

/// Runs `work`, and fails if it takes so long as if each part of a filter were compared with each cell.
fn in_linear_time(work: impl FnOnce()) {
    let clock = env::World::real();
    let before = clock.moment();
    work();
    let took = clock.moment().since(before);
    assert!(took < std::time::Duration::from_secs(60), "{took:?}");
}

/// With a comparison at each position, this would take minutes.
#[test]
fn a_long_text_is_found_in_time_that_grows_with_its_length() {
    use std::cmp::Ordering::{Equal, Greater};
    let (value, mut text) = (vec![b'A'; 2_000_000], "a".repeat(500_000));
    in_linear_time(|| {
        assert_eq!(Comparable::substring(&text).compare(&value), Ok(Equal));
        text.push('b');
        assert_eq!(Comparable::substring(&text).compare(&value), Ok(Greater));
    });
    let (ends, lacks) =
        (["xxA".repeat(40), "AB".repeat(40)].concat(), ["xxA".repeat(40), "AB".repeat(39)].concat());
    let text = Comparable::substring(&"aB".repeat(40));
    assert_eq!(text.compare(ends.as_bytes()), Ok(Equal));
    assert_eq!(text.compare(lacks.as_bytes()), Ok(Greater));
}

/// With a search from the first range on for each row, this would take minutes.
#[test]
fn rows_are_found_among_many_ranges_in_time_that_grows_with_their_number() {
    const RANGES: u32 = 400_000;
    let row = |number: u32| Bytes::copy_from_slice(&number.to_be_bytes());
    let range = |number| RowRange {
        start: row(2 * number),
        include_start: true,
        stop: row(2 * number),
        include_stop: true,
    };
    for reversed in [false, true] {
        let mut filter = Filter::multi_row_range((0..RANGES).map(range).collect()).expect("ranges");
        filter.set_reversed(reversed);
        in_linear_time(|| {
            for number in 0..2 * RANGES {
                let number = if reversed { 2 * RANGES - 1 - number } else { number };
                filter.reset();
                let is_done = filter.filter_row_key(&row(number)) || filter.filter_all_remaining();
                assert_eq!(is_done, !reversed && number == 2 * RANGES - 1);
                let bytes = CellParts {
                    row: &row(number),
                    family: b"f",
                    qualifier: b"q",
                    timestamp: Timestamp(1),
                    cell_type: CellType::Put,
                    value: b"",
                    tags: b"",
                };
                let code =
                    filter.filter_cell(Cell::trusted(&bytes.to_vec().expect("small"), SequenceId::ZERO));
                assert_eq!(code.includes(), number % 2 == 0, "row {number}, reversed {reversed}");
            }
        });
    }
}

/// With a comparison with each qualifier for each cell, this would take minutes.
#[test]
fn a_cell_is_compared_with_few_of_many_qualifiers() {
    let name = |number: u32| number.to_be_bytes();
    let qualifiers = (0..400_000).rev().map(|number| Bytes::copy_from_slice(&name(2 * number))).collect();
    let mut filter = Filter::first_key_value_matching_qualifiers(qualifiers);
    in_linear_time(|| {
        for number in 0..400_000 {
            let bytes = CellParts {
                row: b"r",
                family: b"f",
                qualifier: &name(2 * number + 1),
                timestamp: Timestamp(1),
                cell_type: CellType::Put,
                value: b"",
                tags: b"",
            };
            let bytes = bytes.to_vec().expect("small");
            assert_eq!(filter.filter_cell(Cell::trusted(&bytes, SequenceId::ZERO)), ReturnCode::Include);
        }
    });
}

#[test]
fn a_filter_of_many_parts_is_dear() {
    let prefixes = |count: usize| vec![Filter::prefix("a".into()); count];
    let list = |count| Filter::list(Operator::MustPassOne, prefixes(count));
    let nested = |count| Filter::list(Operator::MustPassAll, vec![Filter::skip(list(50)), list(count)]);
    let fuzzy = |count| {
        Filter::fuzzy_row(vec![("abc".into(), vec![true, false, true]); count]).expect("equal lengths")
    };
    for (filter, is_dear) in [
        (list(10), false),
        (list(1_000), true),
        (nested(50), false),
        (nested(100), true),
        (fuzzy(10), false),
        (fuzzy(1_000), true),
        (Filter::while_match(fuzzy(1_000)), true),
    ] {
        assert_eq!(filter.is_dear(), is_dear);
    }
}
