//! The master's way to its regions.

use std::collections::BTreeSet;

use bytes::Bytes;
use master::regions::{Edit, Regions, Row, Stamp};
use proto::catalog::Column;

use super::bench::{Bench, class, region, table};
use crate::LocalRegions;

fn row(key: &'static str, value: &'static str) -> Row {
    let column = Column { family: "f".into(), qualifier: "q".into(), value: value.into() };
    Row { key: key.into(), columns: vec![column] }
}

#[test]
fn rows_are_written_replaced_deleted_and_written_anew() {
    let bench = Bench::new();
    let regions = LocalRegions::new(bench.server.clone());
    let name = bench.server.regions().all()[0].info().encoded_name().clone();
    let write = |stamp, edits| regions.write(&name, Stamp(stamp), edits).expect("written");
    write(10, vec![Edit::Put(row("a", "1")), Edit::Put(row("b", "2"))]);
    write(11, vec![Edit::Put(row("a", "3")), Edit::Delete(Bytes::from("b"))]);
    assert_eq!(regions.rows(&name).expect("rows"), [row("a", "3")]);
    write(12, vec![Edit::Put(row("b", "4"))]);
    assert_eq!(regions.rows(&name).expect("rows"), [row("a", "3"), row("b", "4")]);
    regions.flush(&name, &[]).expect("flushed");
    assert_eq!(regions.rows(&name).expect("rows").len(), 2);
    assert_eq!(regions.last_major_compaction(&name).expect("none"), 0);
    assert_eq!(regions.load().region_loads.len(), 1);
}

#[test]
fn regions_are_opened_once_and_closed_without_complaint() {
    let bench = Bench::with(crate::Options::default(), &[]);
    let regions = LocalRegions::new(bench.server.clone());
    let info = region("", "");
    let table = std::sync::Arc::new(table());
    let first = regions.open(&info, &table).expect("opens");
    assert_eq!(regions.open(&info, &table).expect("is open"), first);
    regions.write(info.encoded_name(), Stamp(1), vec![Edit::Put(row("a", "1"))]).expect("written");
    for _ in 0..2 {
        regions.close(info.encoded_name()).expect("closes");
        assert!(!regions.is_open(info.encoded_name()));
    }
    assert_eq!(class(&regions.rows(info.encoded_name()).expect_err("closed")), "NotServingRegionException");
    let again = regions.open(&info, &table).expect("opens again");
    assert!(again > first, "{again:?} after {first:?}");
    assert_eq!(regions.rows(info.encoded_name()).expect("rows"), [row("a", "1")]);
    regions.close(info.encoded_name()).expect("closes");
    regions.discard(info.encoded_name());
    regions.keep_only(&BTreeSet::new());
}

#[test]
fn a_truncated_region_opens_without_rows() {
    let bench = Bench::with(crate::Options::default(), &[]);
    let regions = LocalRegions::new(bench.server.clone());
    let info = region("", "");
    let table = std::sync::Arc::new(table());
    let first = regions.open(&info, &table).expect("opens");
    regions.write(info.encoded_name(), Stamp(1), vec![Edit::Put(row("a", "1"))]).expect("written");
    regions.flush(info.encoded_name(), &[]).expect("flushed");
    regions.write(info.encoded_name(), Stamp(2), vec![Edit::Put(row("b", "2"))]).expect("written");
    regions.close(info.encoded_name()).expect("closes");
    for _ in 0..2 {
        regions.truncate(&info, &table).expect("truncated");
        assert!(!regions.is_open(info.encoded_name()), "a truncation leaves the region closed");
    }
    assert!(regions.open(&info, &table).expect("opens again") > first);
    assert_eq!(regions.rows(info.encoded_name()).expect("rows"), []);
}
