//! Translates the filters of programs that install a jar on HBase's servers: HDocDB, and HBase's Spark connector.

use bytes::Bytes;
use filter::{Filter, SparkColumn};
use prost::Message;
use rpc::Exception;

use super::comparator::read;

/// The Java class of the only encoder that the Spark connector has.
const ENCODER: &str = "org.apache.hadoop.hbase.spark.datasources.NaiveEncoder";

/// The message of the connector's `SQLPredicatePushDownFilter`.
#[derive(Clone, PartialEq, Message)]
struct PushDown {
    #[prost(string, required, tag = "1")]
    expression: String,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    values: Vec<Bytes>,
    #[prost(message, repeated, tag = "3")]
    columns: Vec<ColumnMapping>,
    #[prost(string, optional, tag = "4")]
    encoder: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ColumnMapping {
    #[prost(bytes = "bytes", required, tag = "1")]
    family: Bytes,
    #[prost(bytes = "bytes", required, tag = "2")]
    qualifier: Bytes,
    #[prost(string, required, tag = "3")]
    name: String,
}

/// Builds the filter of a Java class that is not HBase's own. Returns `None` for an unknown class.
pub(super) fn filter(class: &str, bytes: Bytes) -> Option<Result<Filter, Exception>> {
    let made = match class {
        "io.hdocdb.store.HDocumentFilter" => Filter::documents(&bytes),
        "io.hdocdb.util.InclusiveStopPrefixFilter" => Filter::inclusive_stop_prefix(&bytes),
        "org.apache.hadoop.hbase.spark.SparkSQLPushDownFilter" => return Some(spark(class, bytes)),
        _ => return None,
    };
    Some(made.map_err(|error| Exception::do_not_retry(error.to_string())))
}

fn spark(class: &str, bytes: Bytes) -> Result<Filter, Exception> {
    let read: PushDown = read(class, bytes)?;
    let encoder = read.encoder.unwrap_or_default();
    if !encoder.is_empty() && encoder != ENCODER {
        return Err(Exception::do_not_retry(format!(
            "{class} with the encoder {encoder} is not known here, expected {ENCODER}: set the option \
             hbase.spark.query.encoder to it, or hbase.spark.pushdown.columnfilter to false"
        )));
    }
    let column = |column: ColumnMapping| SparkColumn {
        family: column.family,
        qualifier: column.qualifier,
        name: column.name,
    };
    let columns = read.columns.into_iter().map(column).collect();
    Filter::spark(&read.expression, read.values, columns)
        .map_err(|error| Exception::do_not_retry(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spark_filter_is_known_by_its_class_and_a_foreign_encoder_is_refused() {
        const CLASS: &str = "org.apache.hadoop.hbase.spark.SparkSQLPushDownFilter";
        let mut push_down = PushDown {
            expression: "KEY == 0".to_owned(),
            values: vec![Bytes::from_static(b"r")],
            columns: vec![ColumnMapping {
                family: Bytes::new(),
                qualifier: Bytes::from_static(b"key"),
                name: "KEY".to_owned(),
            }],
            encoder: Some(ENCODER.to_owned()),
        };
        let made = |push_down: &PushDown| filter(CLASS, push_down.encode_to_vec().into()).expect("known");
        assert!(made(&push_down).is_ok());
        push_down.encoder = Some("com.example.Encoder".to_owned());
        let error = made(&push_down).expect_err("unknown");
        assert!(error.message.contains("com.example.Encoder"), "{}", error.message);
        push_down.encoder = None;
        push_down.expression = "KEY ~ 0".to_owned();
        assert!(made(&push_down).expect_err("no expression").message.contains("is no operator"));
        assert!(filter("com.example.Filter", Bytes::new()).is_none());
    }

    /// Compares with `tests/golden/spark.txt`. The file has random expressions and rows, with the answers of the class
    /// in hbase-spark 1.0.0: `kept|dropped  filter  row  {family:qualifier:value}…`, all bytes in hexadecimal.
    /// `SparkGolden.java` in the same folder wrote it.
    #[test]
    fn rows_are_judged_as_by_the_java_class() {
        use cell::{Cell, CellParts, CellType, SequenceId, Timestamp};
        let bytes = |hex: &str| -> Vec<u8> {
            let pairs = hex.trim_matches('-').as_bytes().chunks(2);
            pairs
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16).expect("hex"))
                .collect()
        };
        let mut kept = 0;
        for (number, case) in include_str!("../../tests/golden/spark.txt").lines().enumerate() {
            let [expected, filter, row, columns @ ..] = &case.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{case}")
            };
            let class = "org.apache.hadoop.hbase.spark.SparkSQLPushDownFilter";
            let mut filter = super::filter(class, bytes(filter).into()).expect("known").expect("a filter");
            filter.reset();
            assert!(!filter.filter_row_key(&bytes(row)));
            for column in columns {
                let [family, qualifier, value] =
                    column.split(':').map(bytes).collect::<Vec<_>>().try_into().expect("three");
                let parts = CellParts {
                    row: &bytes(row),
                    family: &family,
                    qualifier: &qualifier,
                    timestamp: Timestamp(1),
                    cell_type: CellType::Put,
                    value: &value,
                    tags: b"",
                };
                let cell = parts.to_vec().expect("a cell");
                assert!(filter.filter_cell(Cell::parse(&cell, SequenceId::ZERO).expect("a cell")).includes());
            }
            let found = if filter.filter_row() { "dropped" } else { "kept" };
            kept += usize::from(found == "kept");
            assert_eq!(found, *expected, "line {}", number + 1);
        }
        assert!(kept > 100, "enough rows are kept: {kept}");
    }
}
