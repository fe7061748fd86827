//! Translates `Filter` messages into the engine's filters.
//!
//! A message has the name of the filter's Java class and the encoded message that has the class's short name. A filter
//! can contain other filters as encoded bytes, so a short message could nest thousands of them. The depth is limited
//! here.

use cell::Timestamp;
use env::World;
use filter::{ColumnRange, Comparable, CompareOperator, Filter, Operator, RowRange};
use proto::pb;
use rpc::Exception;

use super::comparator::{self, PACKAGE, read, unknown};
use super::foreign;

/// Maximum number of levels of nested filters.
const DEPTH_MAX: usize = 64;

/// Decodes the filter in the bytes of a `Filter` message, for tests of filters without a server. `world` provides
/// random numbers.
pub fn filter_of(bytes: bytes::Bytes, world: &World) -> Result<Filter, Exception> {
    let proto = <pb::Filter as prost::Message>::decode(bytes)
        .map_err(|error| Exception::do_not_retry(format!("unable to read a filter: {error}")))?;
    filter(&proto, world)
}

/// Builds the filter that a message describes. `world` provides random numbers.
pub(crate) fn filter(proto: &pb::Filter, world: &World) -> Result<Filter, Exception> {
    nested(proto, world, 0)
}

fn nested(proto: &pb::Filter, world: &World, depth: usize) -> Result<Filter, Exception> {
    if depth > DEPTH_MAX {
        return Err(Exception::do_not_retry(format!("filters are nested deeper than {DEPTH_MAX}")));
    }
    let bytes = proto.serialized_filter.clone().unwrap_or_default();
    let name = proto.name.as_str();
    // As in HBase, an error in an inner filter is wrapped in an exception of the outer one.
    let inner = |proto: &pb::Filter| {
        nested(proto, world, depth + 1)
            .map_err(|error| undeserialized("org.apache.hadoop.hbase.DoNotRetryIOException", &error))
    };
    Ok(match name.strip_prefix(PACKAGE).unwrap_or_default() {
        "RowFilter" => {
            let (operator, with) = compared(&read::<pb::RowFilter>(name, bytes)?.compare_filter)?;
            Filter::row(operator, with)
        }
        "FamilyFilter" => {
            let (operator, with) = compared(&read::<pb::FamilyFilter>(name, bytes)?.compare_filter)?;
            Filter::family(operator, with)
        }
        "QualifierFilter" => {
            let (operator, with) = compared(&read::<pb::QualifierFilter>(name, bytes)?.compare_filter)?;
            Filter::qualifier(operator, with)
        }
        "ValueFilter" => {
            let (operator, with) = compared(&read::<pb::ValueFilter>(name, bytes)?.compare_filter)?;
            Filter::value(operator, with)
        }
        "DependentColumnFilter" => {
            let read: pb::DependentColumnFilter = read(name, bytes)?;
            let compare = match &read.compare_filter.comparator {
                Some(_) => Some(compared(&read.compare_filter)?),
                None => None,
            };
            let drop = read.drop_dependent_column();
            let (family, qualifier) = (read.column_family, read.column_qualifier);
            Filter::dependent_column(family.unwrap_or_default(), qualifier.unwrap_or_default(), drop, compare)
        }
        "SingleColumnValueFilter" => single(read(name, bytes)?, false)?,
        "SingleColumnValueExcludeFilter" => {
            single(read::<pb::SingleColumnValueExcludeFilter>(name, bytes)?.single_column_value_filter, true)?
        }
        "ColumnValueFilter" => {
            let read: pb::ColumnValueFilter = read(name, bytes)?;
            let operator = comparator::operator(read.compare_op)?;
            Filter::column_value(read.family, read.qualifier, operator, comparable(&read.comparator)?)
        }
        "PrefixFilter" => Filter::prefix(read::<pb::PrefixFilter>(name, bytes)?.prefix.unwrap_or_default()),
        "ColumnPrefixFilter" => Filter::column_prefix(read::<pb::ColumnPrefixFilter>(name, bytes)?.prefix),
        "MultipleColumnPrefixFilter" => Filter::multiple_column_prefix(
            read::<pb::MultipleColumnPrefixFilter>(name, bytes)?.sorted_prefixes,
        ),
        "ColumnRangeFilter" => {
            let read: pb::ColumnRangeFilter = read(name, bytes)?;
            Filter::column_range(ColumnRange {
                include_min: read.min_column_inclusive(),
                include_max: read.max_column_inclusive(),
                min: read.min_column,
                max: read.max_column,
            })
        }
        "ColumnPaginationFilter" => {
            let read: pb::ColumnPaginationFilter = read(name, bytes)?;
            let count = |value: i32, what| count(name, value.into(), what);
            Filter::column_pagination(
                count(read.limit, "limit")?,
                count(read.offset(), "offset")?,
                read.column_offset,
            )
        }
        "ColumnCountGetFilter" => {
            let limit = read::<pb::ColumnCountGetFilter>(name, bytes)?.limit;
            Filter::column_count_get(count(name, limit.into(), "limit")?)
        }
        "PageFilter" => {
            let size = read::<pb::PageFilter>(name, bytes)?.page_size;
            Filter::page(u64::try_from(size).map_err(|_| negative(name, size, "page size"))?)
        }
        "KeyOnlyFilter" => Filter::key_only(read::<pb::KeyOnlyFilter>(name, bytes)?.len_as_val),
        "FilterAllFilter" => Filter::all(),
        "FirstKeyOnlyFilter" => Filter::first_key_only(),
        "FirstKeyValueMatchingQualifiersFilter" => {
            let read: pb::FirstKeyValueMatchingQualifiersFilter = read(name, bytes)?;
            Filter::first_key_value_matching_qualifiers(read.qualifiers)
        }
        "InclusiveStopFilter" => Filter::inclusive_stop(
            read::<pb::InclusiveStopFilter>(name, bytes)?.stop_row_key.unwrap_or_default(),
        ),
        "FuzzyRowFilter" => fuzzy(read(name, bytes)?)?,
        "MultiRowRangeFilter" => {
            let read: pb::MultiRowRangeFilter = read(name, bytes)?;
            let range = |range: pb::RowRange| RowRange {
                include_start: range.start_row_inclusive(),
                include_stop: range.stop_row_inclusive(),
                start: range.start_row.unwrap_or_default(),
                stop: range.stop_row.unwrap_or_default(),
            };
            Filter::multi_row_range(read.row_range_list.into_iter().map(range).collect())
                .map_err(|error| Exception::do_not_retry(error.to_string()))?
        }
        "TimestampsFilter" => {
            let read: pb::TimestampsFilter = read(name, bytes)?;
            let can_hint = read.can_hint();
            Filter::timestamps(read.timestamps.into_iter().map(Timestamp).collect(), can_hint)
        }
        "RandomRowFilter" => {
            Filter::random_row(read::<pb::RandomRowFilter>(name, bytes)?.chance, world.random())
        }
        "SkipFilter" => Filter::skip(inner(&read::<pb::SkipFilter>(name, bytes)?.filter)?),
        "WhileMatchFilter" => Filter::while_match(inner(&read::<pb::WhileMatchFilter>(name, bytes)?.filter)?),
        "FilterWrapper" => inner(&read::<pb::FilterWrapper>(name, bytes)?.filter)?,
        "FilterList" => {
            let read: pb::FilterList = read(name, bytes)?;
            let operator = match read.operator() {
                pb::filter_list::Operator::MustPassAll => Operator::MustPassAll,
                pb::filter_list::Operator::MustPassOne => Operator::MustPassOne,
            };
            // The vector gets exactly the needed size. So a list of many filters takes no more memory than its filters.
            let mut filters = Vec::with_capacity(read.filters.len());
            for proto in &read.filters {
                filters.push(inner(proto)?);
            }
            Filter::list(operator, filters)
        }
        _ => match foreign::filter(name, bytes) {
            Some(filter) => filter?,
            None => return Err(unknown(name)),
        },
    })
}

fn compared(compare: &pb::CompareFilter) -> Result<(CompareOperator, Comparable), Exception> {
    // As in HBase, a filter without a comparator fails only at its first comparison. With the operator that compares
    // nothing it never fails.
    let with = compare.comparator.as_ref().map_or(Ok(Comparable::Missing), comparable)?;
    Ok((comparator::operator(compare.compare_op)?, with))
}

fn comparable(comparator: &pb::Comparator) -> Result<Comparable, Exception> {
    comparator::comparable(comparator).map_err(|error| undeserialized("java.io.IOException", &error))
}

/// Returns the exception for a filter that cannot be built. Its text is that of a Java stack trace.
fn undeserialized(class: &str, error: &Exception) -> Exception {
    Exception::do_not_retry(format!(
        "org.apache.hadoop.hbase.exceptions.DeserializationException: {class}: {}",
        error.message
    ))
}

fn single(read: pb::SingleColumnValueFilter, exclude: bool) -> Result<Filter, Exception> {
    let operator = comparator::operator(read.compare_op)?;
    let with = comparable(&read.comparator)?;
    let (if_missing, latest_only) = (read.filter_if_missing(), read.latest_version_only());
    let (family, qualifier) =
        (read.column_family.unwrap_or_default(), read.column_qualifier.unwrap_or_default());
    Ok(Filter::single_column_value(family, qualifier, operator, with, if_missing, latest_only, exclude))
}

/// Builds a FuzzyRowFilter. Its masks mark fixed bytes in one of three ways. Most clients send prepared masks, in which
/// a fixed byte is 0xFF, and any other byte is 2 (or 0, before `is_mask_v2`). In masks written by hand a fixed byte is
/// 0, and any other byte is 1.
fn fuzzy(read: pb::FuzzyRowFilter) -> Result<Filter, Exception> {
    let any = if read.is_mask_v2() { 2 } else { 0 };
    let key = |pair: pb::BytesBytesPair| {
        let mask = &pair.second;
        let is_prepared = mask.iter().all(|byte| *byte == 0xff || *byte == any);
        let fixed = mask.iter().map(|byte| if is_prepared { *byte == 0xff } else { *byte == 0 }).collect();
        (pair.first, fixed)
    };
    Filter::fuzzy_row(read.fuzzy_keys_data.into_iter().map(key).collect())
        .map_err(|error| Exception::do_not_retry(error.to_string()))
}

fn count(name: &str, value: i64, what: &str) -> Result<u32, Exception> {
    u32::try_from(value).map_err(|_| negative(name, value, what))
}

fn negative(name: &str, value: i64, what: &str) -> Exception {
    Exception::do_not_retry(format!("the {what} of {name} is {value}, expected zero or more"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use cell::{Cell, CellParts, CellType, SequenceId};
    use env::WallTime;
    use prost::Message;

    use super::*;

    fn of(class: &str, message: &impl Message) -> pb::Filter {
        pb::Filter {
            name: format!("{PACKAGE}{class}"),
            serialized_filter: Some(message.encode_to_vec().into()),
        }
    }

    fn made(proto: &pb::Filter) -> Result<Filter, Exception> {
        filter(proto, &World::simulated(1, WallTime(0)))
    }

    fn compare(value: &'static str) -> pb::CompareFilter {
        let comparator =
            pb::BinaryComparator { comparable: pb::ByteArrayComparable { value: Some(value.into()) } };
        pb::CompareFilter {
            compare_op: pb::CompareType::Equal as i32,
            comparator: Some(pb::Comparator {
                name: format!("{PACKAGE}BinaryComparator"),
                serialized_comparator: Some(comparator.encode_to_vec().into()),
            }),
        }
    }

    /// Whether the filter keeps a cell `row f:qualifier=value` with timestamp 5.
    fn keeps(proto: &pb::Filter, row: &str, qualifier: &str, value: &str) -> bool {
        let mut filter = made(proto).expect("a filter");
        let parts = CellParts {
            row: row.as_bytes(),
            family: b"f",
            qualifier: qualifier.as_bytes(),
            timestamp: Timestamp(5),
            cell_type: CellType::Put,
            value: value.as_bytes(),
            tags: b"",
        };
        let bytes = parts.to_vec().expect("a cell");
        filter.reset();
        if filter.filter_all_remaining() || filter.filter_row_key(row.as_bytes()) {
            return false;
        }
        let kept = filter.filter_cell(Cell::parse(&bytes, SequenceId::ZERO).expect("a cell")).includes();
        kept && !filter.filter_row()
    }

    #[test]
    fn every_filter_is_known_by_its_class() {
        let value = || pb::SingleColumnValueFilter {
            column_family: Some("f".into()),
            column_qualifier: Some("q".into()),
            compare_op: pb::CompareType::Equal as i32,
            comparator: compare("v").comparator.expect("given"),
            filter_if_missing: Some(true),
            latest_version_only: Some(true),
        };
        let prefix = of("PrefixFilter", &pb::PrefixFilter { prefix: Some("r".into()) });
        let mask = |mask: &'static [u8], v2| pb::FuzzyRowFilter {
            fuzzy_keys_data: vec![pb::BytesBytesPair {
                first: "r?".into(),
                second: Bytes::from_static(mask),
            }],
            is_mask_v2: Some(v2),
        };
        let range = pb::RowRange {
            start_row: Some("r".into()),
            start_row_inclusive: Some(true),
            stop_row: Some("s".into()),
            stop_row_inclusive: Some(false),
        };
        // Each filter keeps the cell r1 f:q=v, and refuses the cell that is given beside it.
        for (filter, row, qualifier, cell_value) in [
            (of("RowFilter", &pb::RowFilter { compare_filter: compare("r1") }), "x1", "q", "v"),
            (of("QualifierFilter", &pb::QualifierFilter { compare_filter: compare("q") }), "r1", "x", "v"),
            (of("ValueFilter", &pb::ValueFilter { compare_filter: compare("v") }), "r1", "q", "x"),
            (of("SingleColumnValueFilter", &value()), "r1", "q", "x"),
            (
                of(
                    "ColumnValueFilter",
                    &pb::ColumnValueFilter {
                        family: "f".into(),
                        qualifier: "q".into(),
                        compare_op: pb::CompareType::Equal as i32,
                        comparator: compare("v").comparator.expect("given"),
                    },
                ),
                "r1",
                "q",
                "x",
            ),
            (prefix.clone(), "x1", "q", "v"),
            (of("ColumnPrefixFilter", &pb::ColumnPrefixFilter { prefix: "q".into() }), "r1", "x", "v"),
            (
                of(
                    "MultipleColumnPrefixFilter",
                    &pb::MultipleColumnPrefixFilter { sorted_prefixes: vec!["a".into(), "q".into()] },
                ),
                "r1",
                "x",
                "v",
            ),
            (
                of(
                    "ColumnRangeFilter",
                    &pb::ColumnRangeFilter {
                        min_column: Some("q".into()),
                        min_column_inclusive: Some(true),
                        max_column: None,
                        max_column_inclusive: None,
                    },
                ),
                "r1",
                "p",
                "v",
            ),
            (
                of("InclusiveStopFilter", &pb::InclusiveStopFilter { stop_row_key: Some("r1".into()) }),
                "r2",
                "q",
                "v",
            ),
            (of("FuzzyRowFilter", &mask(&[0xff, 2], true)), "x1", "q", "v"),
            (of("FuzzyRowFilter", &mask(&[0xff, 0], false)), "x1", "q", "v"),
            (of("FuzzyRowFilter", &mask(&[0, 1], false)), "x1", "q", "v"),
            (
                of("MultiRowRangeFilter", &pb::MultiRowRangeFilter { row_range_list: vec![range] }),
                "x1",
                "q",
                "v",
            ),
            (
                of(
                    "SkipFilter",
                    &pb::SkipFilter {
                        filter: of("ValueFilter", &pb::ValueFilter { compare_filter: compare("v") }),
                    },
                ),
                "r1",
                "q",
                "x",
            ),
            (of("WhileMatchFilter", &pb::WhileMatchFilter { filter: prefix.clone() }), "x1", "q", "v"),
            (of("FilterWrapper", &pb::FilterWrapper { filter: prefix.clone() }), "x1", "q", "v"),
            (
                of(
                    "FilterList",
                    &pb::FilterList {
                        operator: pb::filter_list::Operator::MustPassAll as i32,
                        filters: vec![
                            prefix.clone(),
                            of("ValueFilter", &pb::ValueFilter { compare_filter: compare("v") }),
                        ],
                    },
                ),
                "r1",
                "q",
                "x",
            ),
        ] {
            assert!(keeps(&filter, "r1", "q", "v"), "{}", filter.name);
            assert!(!keeps(&filter, row, qualifier, cell_value), "{}", filter.name);
        }
    }

    #[test]
    fn stateful_filters_are_decoded() {
        let exclude = pb::SingleColumnValueExcludeFilter {
            single_column_value_filter: pb::SingleColumnValueFilter {
                comparator: compare("v").comparator.expect("given"),
                ..Default::default()
            },
        };
        let dependent = pb::DependentColumnFilter {
            compare_filter: pb::CompareFilter { compare_op: 6, comparator: None },
            column_family: Some("f".into()),
            column_qualifier: Some("q".into()),
            drop_dependent_column: None,
        };
        for proto in [
            of("SingleColumnValueExcludeFilter", &exclude),
            of("DependentColumnFilter", &dependent),
            of("FamilyFilter", &pb::FamilyFilter { compare_filter: compare("f") }),
            of(
                "ColumnPaginationFilter",
                &pb::ColumnPaginationFilter { limit: 2, offset: Some(1), column_offset: None },
            ),
            of("ColumnCountGetFilter", &pb::ColumnCountGetFilter { limit: 2 }),
            of("PageFilter", &pb::PageFilter { page_size: 2 }),
            of("KeyOnlyFilter", &pb::KeyOnlyFilter { len_as_val: true }),
            of("FirstKeyOnlyFilter", &pb::FirstKeyOnlyFilter {}),
            of(
                "FirstKeyValueMatchingQualifiersFilter",
                &pb::FirstKeyValueMatchingQualifiersFilter::default(),
            ),
            of("TimestampsFilter", &pb::TimestampsFilter { timestamps: vec![5], can_hint: None }),
            of("RandomRowFilter", &pb::RandomRowFilter { chance: 0.5 }),
        ] {
            made(&proto).unwrap_or_else(|error| panic!("{}: {error}", proto.name));
        }
    }

    #[test]
    fn invalid_filters_are_refused_without_retry() {
        let unknown = pb::Filter { name: "com.example.Mine".into(), serialized_filter: None };
        let mut deep = of("PrefixFilter", &pb::PrefixFilter { prefix: None });
        for _ in 0..=DEPTH_MAX {
            deep = of("SkipFilter", &pb::SkipFilter { filter: deep });
        }
        let uneven = pb::BytesBytesPair { first: "abc".into(), second: Bytes::from_static(&[0]) };
        for (proto, word) in [
            (unknown, "com.example.Mine"),
            (deep, "nested deeper than 64"),
            (of("PageFilter", &pb::PageFilter { page_size: -1 }), "expected zero or more"),
            (of("ColumnCountGetFilter", &pb::ColumnCountGetFilter { limit: -1 }), "expected zero or more"),
            (
                of("FuzzyRowFilter", &pb::FuzzyRowFilter { fuzzy_keys_data: vec![uneven], is_mask_v2: None }),
                "lengths do not match",
            ),
            (of("FilterList", &pb::ColumnPrefixFilter { prefix: "no number".into() }), "unable to read"),
        ] {
            let error = made(&proto).expect_err(&proto.name);
            assert!(error.do_not_retry && error.message.contains(word), "{error}");
        }
    }

    #[test]
    fn a_missing_comparator_fails_at_the_first_comparison() {
        let row = |operator: pb::CompareType| {
            let compare_filter = pb::CompareFilter { compare_op: operator as i32, comparator: None };
            made(&of("RowFilter", &pb::RowFilter { compare_filter })).expect("a filter")
        };
        let mut equal = row(pb::CompareType::Equal);
        assert!(equal.filter_row_key(b"r"));
        assert_eq!(equal.failure(), Some(::filter::Failure::NoComparator));
        let mut none = row(pb::CompareType::NoOp);
        assert!(none.filter_row_key(b"r"));
        assert_eq!(none.failure(), None);
    }
}
