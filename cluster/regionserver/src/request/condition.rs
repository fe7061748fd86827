//! `Condition` messages: what must hold for a checkAndMutate.

use ::filter::Comparable;
use env::World;
use proto::pb;
use region::{Check, Test};
use rpc::Exception;

use super::{comparator, filter, time_range};

/// What a condition asks: a comparison on one column, or a filter that lets something of the row through.
pub(crate) fn condition(condition: &pb::Condition, world: &World) -> Result<Check, Exception> {
    let test = match &condition.filter {
        Some(filter) => Test::Filter(filter::filter(filter, world)?),
        None => {
            let missing = |what: &str| Exception::do_not_retry(format!("a condition without {what}"));
            Test::Value {
                family: condition.family.clone().ok_or_else(|| missing("a family"))?,
                qualifier: condition.qualifier.clone().unwrap_or_default(),
                operator: comparator::operator(condition.compare_type.unwrap_or_default())?,
                comparable: Comparable::Binary(comparator::value_of(
                    condition.comparator.as_ref().ok_or_else(|| missing("a comparator"))?,
                )?),
            }
        }
    };
    Ok(Check { row: condition.row.clone(), test, time_range: time_range(condition.time_range.as_ref())? })
}
