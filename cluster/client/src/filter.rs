//! Filters that the server applies to a read.

use bytes::Bytes;
use prost::Message;
use proto::pb;

/// The operator of a comparison `value op expected` in a filter.
pub use proto::pb::CompareType as Comparison;

/// A filter. The most common filters have a constructor; any other is built from its Java class and its encoded
/// message.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter(pub(crate) pb::Filter);

const PACKAGE: &str = "org.apache.hadoop.hbase.filter";

impl Filter {
    /// Builds a filter from its Java class name and its protobuf message.
    pub fn of_class(class: impl Into<String>, message: impl Into<Bytes>) -> Filter {
        Filter(pb::Filter { name: class.into(), serialized_filter: Some(message.into()) })
    }

    fn new(name: &str, message: &impl Message) -> Filter {
        Filter::of_class(format!("{PACKAGE}.{name}"), message.encode_to_vec())
    }

    /// Builds a filter that keeps rows whose key begins with this prefix.
    pub fn prefix(prefix: impl Into<Bytes>) -> Filter {
        Filter::new("PrefixFilter", &pb::PrefixFilter { prefix: Some(prefix.into()) })
    }

    /// Builds a filter that keeps at most this many rows in each region.
    pub fn page(rows: i64) -> Filter {
        Filter::new("PageFilter", &pb::PageFilter { page_size: rows })
    }

    /// Builds a filter that removes the values from cells.
    pub fn key_only() -> Filter {
        Filter::new("KeyOnlyFilter", &pb::KeyOnlyFilter { len_as_val: false })
    }

    /// Builds a filter that keeps the first cell of each row.
    pub fn first_key_only() -> Filter {
        Filter::new("FirstKeyOnlyFilter", &pb::FirstKeyOnlyFilter {})
    }

    /// Builds a filter that keeps columns whose qualifier begins with this prefix.
    pub fn column_prefix(prefix: impl Into<Bytes>) -> Filter {
        Filter::new("ColumnPrefixFilter", &pb::ColumnPrefixFilter { prefix: prefix.into() })
    }

    /// Builds a filter that keeps cells whose value compares with `expected` by `op`.
    pub fn value(op: Comparison, expected: impl Into<Bytes>) -> Filter {
        let compare_filter = compare(op, expected.into());
        Filter::new("ValueFilter", &pb::ValueFilter { compare_filter })
    }

    /// Builds a filter that keeps rows whose key compares with `expected` by `op`.
    pub fn row(op: Comparison, expected: impl Into<Bytes>) -> Filter {
        let compare_filter = compare(op, expected.into());
        Filter::new("RowFilter", &pb::RowFilter { compare_filter })
    }

    /// Builds a filter that keeps columns whose qualifier compares with `expected` by `op`.
    pub fn qualifier(op: Comparison, expected: impl Into<Bytes>) -> Filter {
        let compare_filter = compare(op, expected.into());
        Filter::new("QualifierFilter", &pb::QualifierFilter { compare_filter })
    }

    /// Builds a filter that keeps whole rows in which a column's newest value compares with `expected` by `op`. Rows
    /// without the column are dropped.
    pub fn column_value(
        family: impl Into<Bytes>,
        qualifier: impl Into<Bytes>,
        op: Comparison,
        expected: impl Into<Bytes>,
    ) -> Filter {
        Filter::new(
            "SingleColumnValueFilter",
            &pb::SingleColumnValueFilter {
                column_family: Some(family.into()),
                column_qualifier: Some(qualifier.into()),
                compare_op: op as i32,
                comparator: binary(expected.into()),
                filter_if_missing: Some(true),
                latest_version_only: Some(true),
            },
        )
    }

    /// Builds a filter that keeps cells that pass all of `filters`.
    pub fn all(filters: impl IntoIterator<Item = Filter>) -> Filter {
        Filter::list(pb::filter_list::Operator::MustPassAll, filters)
    }

    /// Builds a filter that keeps cells that pass at least one of `filters`.
    pub fn any(filters: impl IntoIterator<Item = Filter>) -> Filter {
        Filter::list(pb::filter_list::Operator::MustPassOne, filters)
    }

    fn list(operator: pb::filter_list::Operator, filters: impl IntoIterator<Item = Filter>) -> Filter {
        let filters = filters.into_iter().map(|filter| filter.0).collect();
        Filter::new("FilterList", &pb::FilterList { operator: operator as i32, filters })
    }
}

pub(crate) fn binary(value: Bytes) -> pb::Comparator {
    let comparable = pb::ByteArrayComparable { value: Some(value) };
    pb::Comparator {
        name: format!("{PACKAGE}.BinaryComparator"),
        serialized_comparator: Some(pb::BinaryComparator { comparable }.encode_to_vec().into()),
    }
}

fn compare(op: Comparison, expected: Bytes) -> pb::CompareFilter {
    pb::CompareFilter { compare_op: op as i32, comparator: Some(binary(expected)) }
}
