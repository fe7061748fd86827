//! Translates `Condition` messages of checkAndMutate.

use ::filter::Comparable;
use cell::string_binary;
use env::World;
use proto::pb;
use region::{Check, Mutation, Test};
use rpc::Exception;

use super::{comparator, filter, time_range};

/// Returns the condition: a comparison with one column, or a filter that accepts some cell of the row.
pub(crate) fn condition(condition: &pb::Condition, world: &World) -> Result<Check, Exception> {
    let test = match &condition.filter {
        Some(filter) => Test::Filter(filter::filter(filter, world)?),
        None => {
            // As in HBase, a condition without a family or comparator is decoded as one with an empty name. Then the
            // region reports that the family does not exist. The exception for an unknown comparator class allows a
            // retry.
            let comparator = condition.comparator.clone().unwrap_or_default();
            let value = comparator::value_of(&comparator).map_err(|error| Exception::io(error.message))?;
            Test::Value {
                family: condition.family.clone().unwrap_or_default(),
                qualifier: condition.qualifier.clone().unwrap_or_default(),
                operator: comparator::operator(condition.compare_type.unwrap_or_default())?,
                comparable: Comparable::Binary(value),
            }
        }
    };
    Ok(Check { row: condition.row.clone(), test, time_range: time_range(condition.time_range.as_ref())? })
}

/// Refuses mutations of several rows, or of a row that is not the checked one. As in HBase, nothing is written then.
pub(crate) fn check_rows(check: Option<&Check>, mutations: &[&Mutation]) -> Result<(), Exception> {
    let Some(first) = mutations.first() else { return Ok(()) };
    if let Some(other) = mutations.iter().find(|other| other.row != first.row) {
        return Err(Exception::new(
            "org.apache.hadoop.hbase.client.WrongRowIOException",
            format!(
                "The row in the recently added Mutation <{}> doesn't match the original one <{}>",
                string_binary(&other.row),
                string_binary(&first.row)
            ),
        ));
    }
    match check.filter(|check| check.row != first.row) {
        Some(check) => Err(Exception::do_not_retry(format!(
            "The row of the action <{}> doesn't match the original one <{}>",
            string_binary(&first.row),
            string_binary(&check.row)
        ))),
        None => Ok(()),
    }
}
