//! AggregateService: sums, extremes and counts over the rows of a region, for tables that name the endpoint
//! `org.apache.hadoop.hbase.coprocessor.AggregateImplementation`.
//!
//! A client asks every region and combines the answers. The interpreter that it names says which numbers the values are.
//! As in HBase an interpreter looks at no column: every cell that the scan returns counts, and a value of another length
//! is no number.
//!
//! | method | first part | second part |
//! |---|---|---|
//! | GetMax, GetMin, GetSum | the number | |
//! | GetRowNum | number of rows, 8 B | |
//! | GetAvg | sum | number of rows, 8 B |
//! | GetStd | sum of the rows' sums, sum of their squares | number of rows, 8 B |
//! | GetMedian | sum, sum of the weights | |
//!
//! Without a number there is no part.

use std::sync::Arc;

use bytes::Bytes;
use cell::Cell;
use prost::Message;
use proto::pb;
use region::{CellSink, Limits, ReadMode, Region};
use rpc::Exception;

use super::unknown_method;
use crate::RegionServer;
use crate::request;

/// The Java class that a table names to have this endpoint.
pub(super) const CLASS: &str = "org.apache.hadoop.hbase.coprocessor.AggregateImplementation";

/// How a cell's value is read as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interpreter {
    Long,
    Double,
}

impl Interpreter {
    fn of(class: &str) -> Result<Interpreter, Exception> {
        match class.strip_prefix("org.apache.hadoop.hbase.client.coprocessor.") {
            Some("LongColumnInterpreter") => Ok(Interpreter::Long),
            Some("DoubleColumnInterpreter") => Ok(Interpreter::Double),
            // HBase lets the client retry, which does not help.
            _ => Err(Exception::do_not_retry(format!(
                "java.lang.ClassNotFoundException: {class}; this server has LongColumnInterpreter and \
                 DoubleColumnInterpreter"
            ))),
        }
    }

    fn number(self, value: &[u8]) -> Option<Number> {
        let word = value.try_into().ok()?;
        Some(match self {
            Interpreter::Long => Number::Long(i64::from_be_bytes(word)),
            Interpreter::Double => Number::Double(f64::from_be_bytes(word)),
        })
    }

    /// The weight of a median without weights: Java's `MIN_VALUE`.
    fn min_value(self) -> Number {
        match self {
            Interpreter::Long => Number::Long(i64::MIN),
            Interpreter::Double => Number::Double(f64::from_bits(1)),
        }
    }
}

/// A number with Java's arithmetic. All numbers of a request are of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Long(i64),
    Double(f64),
}

impl Number {
    fn plus(self, other: Number) -> Number {
        match (self, other) {
            (Number::Long(one), Number::Long(two)) => Number::Long(one.wrapping_add(two)),
            (Number::Double(one), Number::Double(two)) => Number::Double(one + two),
            (one, _) => one,
        }
    }

    fn square(self) -> Number {
        match self {
            Number::Long(number) => Number::Long(number.wrapping_mul(number)),
            Number::Double(number) => Number::Double(number * number),
        }
    }

    fn is_greater(self, other: Number) -> bool {
        match (self, other) {
            (Number::Long(one), Number::Long(two)) => one > two,
            (Number::Double(one), Number::Double(two)) => one.total_cmp(&two).is_gt(),
            _ => false,
        }
    }

    fn encode(self) -> Bytes {
        match self {
            Number::Long(long_msg) => pb::LongMsg { long_msg }.encode_to_vec().into(),
            Number::Double(double_msg) => pb::DoubleMsg { double_msg }.encode_to_vec().into(),
        }
    }
}

fn add(sum: &mut Option<Number>, number: Option<Number>) {
    *sum = match (*sum, number) {
        (Some(sum), Some(number)) => Some(sum.plus(number)),
        (sum, number) => sum.or(number),
    };
}

/// The results over the rows read so far.
struct Totals {
    interpreter: Interpreter,
    max: Option<Number>,
    min: Option<Number>,
    sum: Option<Number>,
    squares: Option<Number>,
    /// The sum of the row that is being read.
    row_sum: Option<Number>,
    row_has_cells: bool,
    rows: u64,
}

impl CellSink for Totals {
    fn cell(&mut self, cell: Cell<'_>) {
        self.row_has_cells = true;
        let Some(number) = self.interpreter.number(cell.value()) else { return };
        if self.max.is_none_or(|max| number.is_greater(max)) {
            self.max = Some(number);
        }
        if self.min.is_none_or(|min| min.is_greater(number)) {
            self.min = Some(number);
        }
        add(&mut self.row_sum, Some(number));
    }
}

impl Totals {
    fn end_row(&mut self) {
        self.rows += u64::from(std::mem::take(&mut self.row_has_cells));
        let row = self.row_sum.take();
        add(&mut self.sum, row);
        add(&mut self.squares, row.map(Number::square));
    }

    /// Reads all rows of `scan` that the region has.
    fn read(&mut self, region: &Arc<Region>, scan: region::Scan) -> region::Result<()> {
        let mut scanner = region.scanner(scan)?;
        loop {
            let step = scanner.next_row(&Limits::NONE, self, ReadMode::Any)?;
            if !step.partial {
                self.end_row();
            }
            if !step.more {
                self.end_row();
                return Ok(());
            }
        }
    }
}

/// Answers a method of the service. Blocks until the rows are read.
pub(super) fn answer(
    server: &RegionServer,
    region: &Arc<Region>,
    method: &str,
    request: &pb::AggregateRequest,
) -> Result<pb::AggregateResponse, Exception> {
    let interpreter = Interpreter::of(&request.interpreter_class_name)?;
    let scan = request::scan(&region.table(), &request.scan, &server.foundation().world)?;
    let has_weights =
        scan.families.first().and_then(|family| family.qualifiers.as_ref()).map_or(0, Vec::len) > 1;
    if scan.families.is_empty() && method != "GetRowNum" {
        return Err(Exception::do_not_retry(format!("{method} needs a scan with a column family")));
    }
    let mut totals = Totals {
        interpreter,
        max: None,
        min: None,
        sum: None,
        squares: None,
        row_sum: None,
        row_has_cells: false,
        rows: 0,
    };
    totals.read(region, scan).map_err(|error| server.exception(&error))?;
    let rows = || Bytes::copy_from_slice(&totals.rows.to_be_bytes());
    let weights = if has_weights { totals.sum } else { Some(interpreter.min_value()) };
    let (numbers, second_part): (Vec<Option<Number>>, _) = match method {
        "GetMax" => (vec![totals.max], None),
        "GetMin" => (vec![totals.min], None),
        "GetSum" => (vec![totals.sum], None),
        "GetAvg" => (vec![totals.sum], Some(rows())),
        "GetStd" => (vec![totals.sum, totals.squares], Some(rows())),
        "GetMedian" => (vec![totals.sum, weights], None),
        "GetRowNum" => {
            return Ok(pb::AggregateResponse { first_part: vec![rows()], ..Default::default() });
        }
        _ => return Err(unknown_method("AggregateService", method, region)),
    };
    if totals.sum.is_none() {
        return Ok(pb::AggregateResponse::default());
    }
    let first_part = numbers.into_iter().flatten().map(Number::encode).collect();
    Ok(pb::AggregateResponse { first_part, second_part, ..Default::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_javas_arithmetic() {
        let long = |number: i64| Interpreter::Long.number(&number.to_be_bytes()).expect("8 bytes");
        assert_eq!(long(i64::MAX).plus(long(1)), Number::Long(i64::MIN));
        assert!(long(1).is_greater(long(-1)) && !long(1).is_greater(long(1)));
        assert_eq!(Interpreter::Long.number(b"7 bytes"), None);
        let double = |number: f64| Interpreter::Double.number(&number.to_be_bytes()).expect("8 bytes");
        assert_eq!(double(1.5).square().plus(double(0.25)), Number::Double(2.5));
        assert!(double(f64::NAN).is_greater(double(f64::INFINITY)) && double(0.0).is_greater(double(-0.0)));
        assert!(Interpreter::of("com.example.MyInterpreter").is_err());
    }
}
