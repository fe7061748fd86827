//! Decodes requests: messages and cell blocks become the engine's queries, mutations and filters.
//!
//! This module calls no region. It refuses invalid requests, with HBase's messages where clients may depend on them.

mod cells;
mod comparator;
mod condition;
mod filter;
mod foreign;
mod get;
pub(crate) mod multi;
mod mutation;
mod prefetch;
mod query;
#[cfg(test)]
mod samples;
pub(crate) mod size_limit;
mod specifier;

pub(crate) use cells::RequestCells;
pub(crate) use condition::{check_rows, condition};
pub use filter::filter_of;
pub(crate) use get::{GetQuery, GetRequest, query as get};
pub(crate) use mutation::{RequestedMutation, mutation};
pub(crate) use prefetch::{region_named, row_that_is_read};
pub(crate) use query::scan;

use proto::pb;
use region::TimeRange;
use rpc::Exception;

/// Decodes a time range. A missing bound is unlimited, and `None` means all timestamps. As in HBase, the exception for
/// an invalid range allows a retry.
fn time_range(range: Option<&pb::TimeRange>) -> Result<Option<TimeRange>, Exception> {
    let Some(range) = range else { return Ok(None) };
    let from = range.from.unwrap_or(0) as i64;
    let until = range.to.unwrap_or(i64::MAX as u64) as i64;
    if from < 0 || until < 0 {
        return Err(Exception::io(format!(
            "Timestamp cannot be negative. minStamp:{from}, maxStamp:{until}"
        )));
    }
    if until < from {
        return Err(Exception::io(format!("maxStamp is smaller than minStamp: {until} < {from}")));
    }
    if from == 0 && until == i64::MAX {
        return Ok(None);
    }
    Ok(Some(TimeRange { from: cell::Timestamp(from), until: cell::Timestamp(until) }))
}

/// Refuses an empty row, and a row that is too long for any cell. As in HBase, the exception allows a retry.
pub(crate) fn check_row(row: &[u8]) -> Result<(), Exception> {
    match row.len() {
        0 => Err(Exception::io("Row length is 0")),
        1..=cell::ROW_LENGTH_MAX => Ok(()),
        length => Err(Exception::io(format!("Row length {length} is > {}", cell::ROW_LENGTH_MAX))),
    }
}

/// Returns the value of the last attribute `name`; `None` if there is none.
fn attribute<'a>(attributes: &'a [pb::NameBytesPair], name: &str) -> Option<&'a [u8]> {
    attributes.iter().rfind(|pair| pair.name == name).map(|pair| pair.value.as_deref().unwrap_or_default())
}

/// Decodes a Java boolean, which is one byte. Any other length means `false`.
fn flag(value: &[u8]) -> bool {
    matches!(value, [byte] if *byte != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_time_range_bounds_are_open() {
        let range = |from, to| time_range(Some(&pb::TimeRange { from, to }));
        assert_eq!(time_range(None).expect("all"), None);
        assert_eq!(range(None, None).expect("all"), None);
        assert_eq!(range(Some(0), Some(i64::MAX as u64)).expect("all"), None);
        let some = range(Some(5), None).expect("from five").expect("not all");
        assert_eq!((some.from.0, some.until.0), (5, i64::MAX));
        assert!(range(Some(7), Some(6)).is_err() && range(Some(u64::MAX), None).is_err());
    }
}
