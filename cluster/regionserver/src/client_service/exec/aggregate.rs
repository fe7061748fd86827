//! AggregateService: computes sums, extremes and counts over the rows of a region, for tables that name the endpoint
//! `org.apache.hadoop.hbase.coprocessor.AggregateImplementation`.
//!
//! A client calls every region and combines the answers. The client also names an interpreter, which says how a value
//! is read as a number. As in HBase, an interpreter ignores columns: every cell that the scan returns counts, unless
//! its value does not have the length of a number.
//!
//! | method | first part | second part |
//! |---|---|---|
//! | GetMax, GetMin, GetSum | the number | |
//! | GetRowNum | number of rows, 8 B | |
//! | GetAvg | sum | number of rows, 8 B |
//! | GetStd | sum of the rows' sums, sum of their squares | number of rows, 8 B |
//! | GetMedian | sum, sum of the weights | |
//!
//! If the scan finds no number, the answer has no part. Only GetRowNum needs no numbers.

use std::sync::Arc;

use bytes::Bytes;
use cell::{Cell, string_binary};
use prost::Message;
use proto::pb;
use region::{CellSink, Limits, ReadMode, Region};
use rpc::Exception;

use super::decimal::Decimal;
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
    Decimal,
}

impl Interpreter {
    fn of(class: &str) -> Result<Interpreter, Exception> {
        match class.strip_prefix("org.apache.hadoop.hbase.client.coprocessor.") {
            Some("LongColumnInterpreter") => Ok(Interpreter::Long),
            Some("DoubleColumnInterpreter") => Ok(Interpreter::Double),
            Some("BigDecimalColumnInterpreter") => Ok(Interpreter::Decimal),
            // HBase's exception lets the client retry. A retry cannot help, so this one forbids it.
            _ => Err(Exception::do_not_retry(format!(
                "java.lang.ClassNotFoundException: {class}; this server has LongColumnInterpreter, \
                 DoubleColumnInterpreter and BigDecimalColumnInterpreter"
            ))),
        }
    }

    /// Returns the number that a value contains; `None` if it contains none. Fails for the same values as HBase, with
    /// the reason.
    fn number(self, value: &[u8]) -> Result<Option<Number>, &'static str> {
        let word = value.try_into().ok();
        Ok(match self {
            Interpreter::Long => word.map(|word| Number::Long(i64::from_be_bytes(word))),
            Interpreter::Double => word.map(|word| Number::Double(f64::from_be_bytes(word))),
            Interpreter::Decimal => Some(Number::Decimal(Decimal::read(value)?)),
        })
    }

    /// Returns the weight of a median if no weights are given: Java's `MIN_VALUE`.
    fn min_value(self) -> Number {
        match self {
            Interpreter::Long => Number::Long(i64::MIN),
            Interpreter::Double => Number::Double(f64::from_bits(1)),
            Interpreter::Decimal => Number::Decimal(Decimal::TINY),
        }
    }
}

/// A number with Java's arithmetic. All numbers of a request have the same kind.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Long(i64),
    Double(f64),
    Decimal(Decimal),
}

impl Number {
    /// Returns the sum; `None` when it is too large for this server.
    fn plus(self, other: Number) -> Option<Number> {
        Some(match (self, other) {
            (Number::Long(one), Number::Long(two)) => Number::Long(one.wrapping_add(two)),
            (Number::Double(one), Number::Double(two)) => Number::Double(one + two),
            (Number::Decimal(one), Number::Decimal(two)) => Number::Decimal(one.plus(two)?),
            (one, _) => one,
        })
    }

    /// Returns the square; `None` when it is too large for this server.
    fn square(self) -> Option<Number> {
        Some(match self {
            Number::Long(number) => Number::Long(number.wrapping_mul(number)),
            Number::Double(number) => Number::Double(number * number),
            Number::Decimal(number) => Number::Decimal(number.square()?),
        })
    }

    fn is_greater(self, other: Number) -> bool {
        match (self, other) {
            (Number::Long(one), Number::Long(two)) => one > two,
            (Number::Double(one), Number::Double(two)) => {
                // As in Java, every NaN is greater than all other numbers, also one with the bit of the sign.
                let canonical = |number: f64| if number.is_nan() { f64::NAN } else { number };
                canonical(one).total_cmp(&canonical(two)).is_gt()
            }
            (Number::Decimal(one), Number::Decimal(two)) => one.is_greater(two),
            _ => false,
        }
    }

    fn encode(self) -> Bytes {
        match self {
            Number::Long(long_msg) => pb::LongMsg { long_msg }.encode_to_vec().into(),
            Number::Double(double_msg) => pb::DoubleMsg { double_msg }.encode_to_vec().into(),
            Number::Decimal(number) => {
                pb::BigDecimalMsg { bigdecimal_msg: number.encode().into() }.encode_to_vec().into()
            }
        }
    }
}

/// The sum of the numbers read so far.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sum {
    /// No number was read.
    Nothing,
    Number(Number),
    /// The sum is too large for this server.
    TooLarge,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        *self = match (*self, other) {
            (Sum::Nothing, other) => other,
            (sum, Sum::Nothing) => sum,
            (Sum::Number(one), Sum::Number(two)) => one.plus(two).map_or(Sum::TooLarge, Sum::Number),
            (Sum::TooLarge, _) | (_, Sum::TooLarge) => Sum::TooLarge,
        };
    }

    fn square(self) -> Sum {
        match self {
            Sum::Number(number) => number.square().map_or(Sum::TooLarge, Sum::Number),
            sum => sum,
        }
    }
}

/// The results over the rows read so far.
struct Totals {
    interpreter: Interpreter,
    max: Option<Number>,
    min: Option<Number>,
    sum: Sum,
    squares: Sum,
    /// The sum of the row that is being read.
    row_sum: Sum,
    /// The first row with a value that makes the call fail, and the reason.
    failed: Option<(Vec<u8>, &'static str)>,
    row_has_cells: bool,
    rows: u64,
}

impl CellSink for Totals {
    fn cell(&mut self, cell: Cell<'_>) {
        self.row_has_cells = true;
        let number = match self.interpreter.number(cell.value()) {
            Ok(Some(number)) => number,
            Ok(None) => return,
            Err(why) => {
                self.failed.get_or_insert_with(|| (cell.row().to_vec(), why));
                return;
            }
        };
        if self.max.is_none_or(|max| number.is_greater(max)) {
            self.max = Some(number);
        }
        if self.min.is_none_or(|min| min.is_greater(number)) {
            self.min = Some(number);
        }
        self.row_sum.add(Sum::Number(number));
    }
}

impl Totals {
    fn end_row(&mut self) {
        self.rows += u64::from(std::mem::take(&mut self.row_has_cells));
        let row = std::mem::replace(&mut self.row_sum, Sum::Nothing);
        self.sum.add(row);
        self.squares.add(row.square());
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
        sum: Sum::Nothing,
        squares: Sum::Nothing,
        row_sum: Sum::Nothing,
        failed: None,
        row_has_cells: false,
        rows: 0,
    };
    totals.read(region, scan).map_err(|error| server.exception(&error))?;
    let rows = || Bytes::copy_from_slice(&totals.rows.to_be_bytes());
    if let Some((row, why)) = totals.failed.as_ref().filter(|_| method != "GetRowNum") {
        return Err(Exception::do_not_retry(format!(
            "the value in row {} is refused: {why}",
            string_binary(row)
        )));
    }
    let weights = if has_weights { totals.sum } else { Sum::Number(interpreter.min_value()) };
    let one = |number: Option<Number>| vec![number.map_or(Sum::Nothing, Sum::Number)];
    let (numbers, second_part): (Vec<Sum>, _) = match method {
        "GetMax" => (one(totals.max), None),
        "GetMin" => (one(totals.min), None),
        "GetSum" => (vec![totals.sum], None),
        "GetAvg" => (vec![totals.sum], Some(rows())),
        "GetStd" => (vec![totals.sum, totals.squares], Some(rows())),
        "GetMedian" => (vec![totals.sum, weights], None),
        "GetRowNum" => {
            return Ok(pb::AggregateResponse { first_part: vec![rows()], ..Default::default() });
        }
        _ => return Err(unknown_method("AggregateService", method, region)),
    };
    if totals.sum == Sum::Nothing {
        return Ok(pb::AggregateResponse::default());
    }
    let mut first_part = Vec::with_capacity(numbers.len());
    for number in numbers {
        match number {
            Sum::Nothing => {}
            Sum::Number(number) => first_part.push(number.encode()),
            Sum::TooLarge => {
                return Err(Exception::do_not_retry(format!(
                    "{method} of region {} has more digits than this server computes with, which is some 36",
                    region.info()
                )));
            }
        }
    }
    Ok(pb::AggregateResponse { first_part, second_part, ..Default::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_javas_arithmetic() {
        let of = |kind: Interpreter, bytes: [u8; 8]| kind.number(&bytes).expect("no error").expect("8 bytes");
        let long = |number: i64| of(Interpreter::Long, number.to_be_bytes());
        assert_eq!(long(i64::MAX).plus(long(1)), Some(Number::Long(i64::MIN)));
        assert!(long(1).is_greater(long(-1)) && !long(1).is_greater(long(1)));
        assert_eq!(Interpreter::Long.number(b"7 bytes"), Ok(None));
        let double = |number: f64| of(Interpreter::Double, number.to_be_bytes());
        assert_eq!(
            double(1.5).square().and_then(|square| square.plus(double(0.25))),
            Some(Number::Double(2.5))
        );
        assert!(double(0.0).is_greater(double(-0.0)));
        let nans = [f64::NAN, f64::from_bits(0xfff8_0000_0000_0000)];
        for nan in nans.map(double) {
            assert!(nan.is_greater(double(f64::INFINITY)) && !double(f64::NEG_INFINITY).is_greater(nan));
            assert!(nans.into_iter().all(|other| !nan.is_greater(double(other))), "all are equal");
        }
        assert!(Interpreter::of("com.example.MyInterpreter").is_err());
    }
}
