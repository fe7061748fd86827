//! Tests of the in-process region server behind the master's contract.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use contract::{CatalogEdit, CatalogRow, OpenOrder, RegionServers, ServerFuture, Stamp, Term};
use proto::catalog::Column;
use proto::{EncodedName, FamilyDescriptor, RegionId, RegionInfo, ServerName, TableDescriptor};
use rpc::Exception;
use storage::memory::Fault;
use storage::{Kind, Outcome};

use super::bench::{Bench, class, region, table};
use crate::LocalServers;

fn row(key: &'static str, value: &'static str) -> CatalogRow {
    let column = Column { family: "f".into(), qualifier: "q".into(), value: value.into() };
    CatalogRow { key: key.into(), columns: vec![column] }
}

fn put(key: &'static str, value: &'static str) -> CatalogEdit {
    CatalogEdit::Put(row(key, value))
}

/// The servers of a bench, and the name of its only server.
fn servers(bench: &Bench) -> (LocalServers, ServerName) {
    let servers = LocalServers::new(bench.server.clone()).expect("a thread can be started");
    (servers, bench.server.name().clone())
}

fn done<T>(future: ServerFuture<T>) -> Result<T, Exception> {
    env::block_on(future)
}

fn order(term: u64) -> OpenOrder {
    OpenOrder { region: region("", ""), table: Arc::new(table()), term: Term(term) }
}

#[test]
fn catalog_rows_are_put_replaced_and_deleted() {
    let bench = Bench::new();
    let (servers, name) = servers(&bench);
    let region: EncodedName = bench.server.regions().all()[0].info().encoded_name().clone();
    let write = |stamp, edits| done(servers.write(&name, &region, Stamp(stamp), edits)).expect("written");
    let rows = || done(servers.rows(&name, &region)).expect("rows");
    write(10, vec![put("a", "1"), put("b", "2")]);
    write(11, vec![put("a", "3"), CatalogEdit::Delete(Bytes::from("b"))]);
    assert_eq!(rows(), [row("a", "3")]);
    write(12, vec![put("b", "4")]);
    assert_eq!(rows(), [row("a", "3"), row("b", "4")]);
    done(servers.flush(&name, &region, Vec::new())).expect("flushed");
    assert_eq!(rows().len(), 2);
    assert_eq!(done(servers.last_major_compaction(&name, &region)).expect("none"), 0);
    assert_eq!(done(servers.load(&name)).expect("a load").region_loads.len(), 1);
}

#[test]
fn the_newest_timestamp_includes_delete_markers() {
    let bench = Bench::new();
    let (servers, name) = servers(&bench);
    let region = bench.server.regions().all().remove(0).info().encoded_name().clone();
    let newest = || done(servers.newest(&name, &region)).expect("open");
    assert_eq!(newest(), Stamp(0));
    done(servers.write(&name, &region, Stamp(70), vec![CatalogEdit::Delete("r".into())])).expect("written");
    done(servers.write(&name, &region, Stamp(60), vec![CatalogEdit::Delete("s".into())])).expect("written");
    assert_eq!(newest(), Stamp(70));
}

#[test]
fn repeated_opens_and_closes_succeed() {
    let bench = Bench::with(crate::Options::default(), &[]);
    let (servers, name) = servers(&bench);
    let info = region("", "");
    let region = info.encoded_name();
    let open = |term| done(servers.open(&name, order(term)));
    let first = open(1).expect("opens");
    assert_eq!(open(1).expect("is open"), first, "the same order again");
    done(servers.write(&name, region, Stamp(1), vec![put("a", "1")])).expect("written");
    let report = done(servers.report(&name)).expect("a report");
    assert_eq!((report.len(), report[0].term, &report[0].region), (1, Term(1), region));
    for _ in 0..2 {
        done(servers.close(&name, region, Term(1))).expect("closes");
        assert!(done(servers.report(&name)).expect("a report").is_empty());
    }
    let closed = done(servers.rows(&name, region)).expect_err("closed");
    assert_eq!(class(&closed), "NotServingRegionException");
    let late = open(1).expect_err("an order of a term that ended");
    assert!(late.message.contains("term 1"), "{late}");
    let again = open(2).expect("opens again");
    assert!(again > first, "{again:?} after {first:?}");
    assert_eq!(done(servers.rows(&name, region)).expect("rows"), [row("a", "1")]);
    done(servers.close(&name, region, Term(1))).expect_err("a close that comes late closes nothing");
    done(servers.close(&name, region, Term(2))).expect("closes");
    done(servers.forget(&name, region)).expect("forgotten");
    done(servers.forget_others(&name, BTreeSet::new())).expect("forgotten");
}

#[test]
fn a_region_that_cannot_be_flushed_serves_on_and_loses_nothing() {
    let bench = Bench::with(crate::Options::default(), &[]);
    let (servers, name) = servers(&bench);
    let info = region("", "");
    let region = info.encoded_name();
    done(servers.open(&name, order(1))).expect("opens");
    done(servers.write(&name, region, Stamp(1), vec![put("a", "1")])).expect("written");
    for _ in 0..2 {
        let (act, outcome) = (bench.place.acts() + 1, Outcome::DidNotHappen);
        bench.place.set_fault(Some(Fault { act, kind: Kind::Full, outcome, last: false }));
        done(servers.close(&name, region, Term(1))).expect_err("the disk is full");
        assert_eq!(done(servers.rows(&name, region)).expect("it serves on"), [row("a", "1")]);
    }
    bench.place.set_fault(None);
    done(servers.close(&name, region, Term(1))).expect("there is room again");
    done(servers.open(&name, order(2))).expect("opens again");
    assert_eq!(done(servers.rows(&name, region)).expect("rows"), [row("a", "1")]);
}

#[test]
fn a_truncated_region_opens_without_rows() {
    let bench = Bench::with(crate::Options::default(), &[]);
    let (servers, name) = servers(&bench);
    let info = region("", "");
    let region = info.encoded_name();
    let first = done(servers.open(&name, order(1))).expect("opens");
    done(servers.write(&name, region, Stamp(1), vec![put("a", "1")])).expect("written");
    done(servers.flush(&name, region, Vec::new())).expect("flushed");
    done(servers.write(&name, region, Stamp(2), vec![put("b", "2")])).expect("written");
    done(servers.close(&name, region, Term(1))).expect("closes");
    for term in [2, 3] {
        done(servers.truncate(&name, order(term))).expect("truncated");
        assert!(done(servers.report(&name)).expect("a report").is_empty(), "it stays closed");
    }
    assert!(done(servers.open(&name, order(4))).expect("opens again") > first);
    assert_eq!(done(servers.rows(&name, region)).expect("rows"), []);
}

#[test]
fn a_dropped_folder_leaves_only_what_somebody_holds() {
    let bench = Bench::with(crate::Options::default(), &[]);
    let (servers, name) = servers(&bench);
    let info = region("", "");
    done(servers.open(&name, order(1))).expect("opens");
    done(servers.write(&name, info.encoded_name(), Stamp(1), vec![put("a", "1")])).expect("written");
    done(servers.flush(&name, info.encoded_name(), Vec::new())).expect("flushed");
    let clone = RegionInfo::new("clone".parse().expect("a name"), "".into(), "".into(), RegionId(9))
        .expect("a region");
    let opened = bench.server.regions().by_encoded_name(info.encoded_name()).expect("open");
    let links = region::Inherits::Links;
    opened.write_heir(&layout::region_folder(&clone), &links).expect("written");
    drop(opened);
    done(servers.close(&name, info.encoded_name(), Term(1))).expect("closes");
    let files = &bench.server.foundation().files;
    for _ in 0..2 {
        done(servers.drop_folder(&name, layout::table(info.table()))).expect("dropped");
        assert!(files.list(&layout::table(info.table())).expect("listed").is_empty());
    }
    let mut schema = TableDescriptor::new(clone.table().clone());
    schema.set_family(FamilyDescriptor::new("f").expect("a name"));
    let order = OpenOrder { region: clone.clone(), table: Arc::new(schema), term: Term(2) };
    done(servers.open(&name, order)).expect("opens");
    assert_eq!(done(servers.rows(&name, clone.encoded_name())).expect("rows"), [row("a", "1")]);
}

#[test]
fn an_order_for_another_server_is_refused() {
    let bench = Bench::with(crate::Options::default(), &[]);
    let (servers, name) = servers(&bench);
    let other = "elsewhere,16020,1".parse().expect("a server's name");
    let refused = done(servers.open(&other, order(1))).expect_err("not here");
    assert!(refused.message.contains("elsewhere,16020,1"), "{refused}");
    servers.stop(&other);
    assert!(!bench.server.is_stopping());
    assert_eq!(servers.live(), [name]);
}
