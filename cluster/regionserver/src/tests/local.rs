//! Tests of the in-process region server behind the master's contract.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use contract::{
    CatalogEdit, CatalogRow, InheritOrder, OnFullDisk, OpenOrder, RegionServers, ServerFuture,
    SnapshotContent, SnapshotOrder, SplitRow, Stamp, Term,
};
use proto::catalog::Column;
use proto::pb::mutation_proto::MutationType;
use proto::{
    EncodedName, FamilyDescriptor, RegionId, RegionInfo, ServerName, TableDescriptor, TableName, pb,
};
use rpc::Exception;
use storage::memory::Fault;
use storage::{Files, Kind, Outcome};

use super::bench::{Bench, class, increment, mutation, region, table};
use crate::LocalServers;

fn row(key: &'static str, value: &'static str) -> CatalogRow {
    let column = Column { family: "f".into(), qualifier: "q".into(), value: value.into() };
    CatalogRow { key: key.into(), columns: vec![column] }
}

fn put(key: &'static str, value: &'static str) -> CatalogEdit {
    CatalogEdit::Put(row(key, value))
}

/// Returns the servers of a bench, and the name of its only server.
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
    write(12, vec![put("b", "4"), put("c", "5")]);
    assert_eq!(rows(), [row("a", "3"), row("b", "4"), row("c", "5")]);
    write(13, vec![CatalogEdit::DeleteColumns("c".into(), vec![("f".into(), "q".into())])]);
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
fn a_family_that_is_about_to_be_deleted_takes_no_puts_and_is_read() {
    let bench = Bench::with(crate::Options::default(), &[]);
    let (servers, name) = servers(&bench);
    done(servers.open(&name, order(3))).expect("opened");
    let region = region("", "").encoded_name().clone();
    let refuse = |term, families: &[&'static str]| {
        let families = families.iter().map(|family| Bytes::from(*family)).collect();
        done(servers.refuse_puts(&name, &region, Term(term), families))
    };
    let put = |value: &str| bench.mutate(mutation(MutationType::Put, "r", "f:q", value));
    put("1").expect("it takes puts");
    refuse(3, &["f"]).expect("it is open");
    for refused in [put("2"), bench.mutate(increment("r", "f:n", 1))] {
        let refused = refused.expect_err("no puts");
        assert_eq!(refused.class, rpc::class::NO_SUCH_COLUMN_FAMILY);
        assert!(refused.message.contains("Column family f in region") && refused.do_not_retry, "{refused}");
    }
    assert_eq!(done(servers.rows(&name, &region)).expect("reads go on"), [row("r", "1")]);
    let row =
        pb::MutationProto { column_value: Vec::new(), ..mutation(MutationType::Delete, "r", "f:q", "") };
    bench.mutate(row).expect("the delete of a row names all families");
    assert_eq!(done(servers.rows(&name, &region)).expect("reads go on"), []);
    refuse(3, &["g"]).expect("it is open");
    put("3").expect("the other family is meant");
    refuse(3, &["f"]).expect("it is open");
    done(servers.close(&name, &region, Term(3), OnFullDisk::ServesOn)).expect("closed");
    refuse(3, &[]).expect_err("it is closed");
    done(servers.open(&name, order(4))).expect("opened");
    put("4").expect("an opening ends it");
    let late = refuse(3, &["f"]).expect_err("the term is over");
    assert!(late.message.contains("term 3, which ended"), "{late}");
}

#[test]
fn an_open_region_takes_over_a_schema_under_its_own_term_alone() {
    let bench = Bench::with(crate::Options::default(), &[]);
    let (servers, name) = servers(&bench);
    done(servers.open(&name, order(3))).expect("opened");
    let with = |term, versions: &str, family: &'static str| {
        let mut table = table();
        table.set_family(FamilyDescriptor::new(family).expect("a name").with("VERSIONS", versions));
        done(servers.alter(&name, OpenOrder { table: Arc::new(table), ..order(term) }))
    };
    let versions = || {
        let table = bench.server.regions().all().remove(0).table().clone();
        table.family(b"f").map(|family| family.options().expect("good").versions_max)
    };
    assert!(with(3, "4", "f").expect("it is open"));
    assert_eq!(versions(), Some(4));
    assert!(
        !with(3, "5", "h").expect("it is open"),
        "a family was added, so the region has to be opened again"
    );
    let late = with(2, "6", "f").expect_err("the term is over");
    assert!(late.message.contains("term 2, which ended: this server knows term 3"), "{late}");
    assert_eq!(versions(), Some(4));
    done(servers.close(&name, region("", "").encoded_name(), Term(3), OnFullDisk::ServesOn)).expect("closed");
    with(3, "7", "f").expect_err("it is closed");
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
        done(servers.close(&name, region, Term(1), OnFullDisk::ServesOn)).expect("closes");
        assert!(done(servers.report(&name)).expect("a report").is_empty());
    }
    let closed = done(servers.rows(&name, region)).expect_err("closed");
    assert_eq!(class(&closed), "NotServingRegionException");
    let late = open(1).expect_err("an order of a term that ended");
    assert!(late.message.contains("term 1"), "{late}");
    let again = open(2).expect("opens again");
    assert!(again > first, "{again:?} after {first:?}");
    assert_eq!(done(servers.rows(&name, region)).expect("rows"), [row("a", "1")]);
    done(servers.close(&name, region, Term(1), OnFullDisk::ServesOn))
        .expect_err("a close that comes late closes nothing");
    done(servers.close(&name, region, Term(2), OnFullDisk::ServesOn)).expect("closes");
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
        done(servers.close(&name, region, Term(1), OnFullDisk::ServesOn)).expect_err("the disk is full");
        assert_eq!(done(servers.rows(&name, region)).expect("it serves on"), [row("a", "1")]);
        let report = done(servers.report(&name)).expect("a report");
        assert_eq!((report.len(), report[0].term, &report[0].region), (1, Term(1), region));
    }
    bench.place.set_fault(None);
    let folder = layout::region_folder(&info);
    for used in [&folder.join("f"), &folder, &folder.parent().expect("the table's")] {
        let refused = done(servers.drop_folder(&name, used.clone())).expect_err("the region uses it");
        assert!(refused.message.contains("is open"), "{refused}");
    }
    done(servers.drop_folder(&name, folder.join("gone"))).expect("the table has no such family");
    done(servers.close(&name, region, Term(1), OnFullDisk::ServesOn)).expect("there is room again");
    done(servers.open(&name, order(2))).expect("opens again");
    assert_eq!(done(servers.rows(&name, region)).expect("rows"), [row("a", "1")]);
}

/// Closes the region of a bench whose disk is full, as a master that disables its table does.
fn close_on_full_disk(servers: &LocalServers, name: &ServerName, term: u64) {
    let closed = servers.close(name, region("", "").encoded_name(), Term(term), OnFullDisk::KeepsMemory);
    done(closed).expect("closed without a flush");
}

#[test]
fn a_region_that_is_closed_on_a_full_disk_has_its_rows_when_it_is_opened_again() {
    for is_killed in [false, true] {
        let bench = Bench::with(crate::Options::default(), &[]);
        let (servers, name) = servers(&bench);
        let region = region("", "").encoded_name().clone();
        done(servers.open(&name, order(1))).expect("opens");
        bench.put("a", "f:q", "1");
        bench.place.set_bytes_max(Some(0));
        close_on_full_disk(&servers, &name, 1);
        assert!(done(servers.report(&name)).expect("a report").is_empty());
        let closed = done(servers.rows(&name, &region)).expect_err("closed");
        assert_eq!(class(&closed), "NotServingRegionException");
        close_on_full_disk(&servers, &name, 1);
        // As long as there is no room, its memory is the only place in this process that has the row.
        let refused = done(servers.open(&name, order(2))).expect_err("the disk is full");
        assert!(refused.message.contains("no space left"), "{refused}");
        assert!(bench.server.background.memory() > 0);
        bench.place.set_bytes_max(None);
        let (bench, servers) = if is_killed {
            drop(servers);
            let bench = bench.kill_and_open(&[]);
            let servers = self::servers(&bench).0;
            (bench, servers)
        } else {
            (bench, servers)
        };
        done(servers.open(&name, order(3))).expect("opens");
        assert_eq!(done(servers.rows(&name, &region)).expect("rows"), [row("a", "1")], "{is_killed}");
        bench.put("a", "f:q", "2");
        assert_eq!(done(servers.rows(&name, &region)).expect("rows"), [row("a", "2")], "{is_killed}");
    }
}

#[test]
fn a_region_that_was_closed_on_a_full_disk_is_flushed_when_there_is_room() {
    let bench = Bench::with(crate::Options::default(), &[]);
    let (servers, name) = servers(&bench);
    done(servers.open(&name, order(1))).expect("opens");
    bench.put("a", "f:q", "1");
    bench.place.set_bytes_max(Some(0));
    close_on_full_disk(&servers, &name, 1);
    let order_of_closed =
        SnapshotOrder { region: region("", ""), table: Arc::new(table()), content: SnapshotContent::Closed };
    let snapshot = || done(servers.snapshot(&name, order_of_closed.clone()));
    bench.server.run_chore();
    snapshot().expect_err("the row is in no file");
    let family = layout::region_folder(&region("", "")).join("f");
    done(servers.drop_folder(&name, family.clone())).expect_err("the family would come back");
    bench.place.set_bytes_max(None);
    bench.server.run_chore();
    assert_eq!(bench.server.background.memory(), 0);
    let files = |manifests: Vec<pb::SnapshotRegionManifest>| -> usize {
        manifests.iter().flat_map(|it| &it.family_files).map(|family| family.store_files.len()).sum()
    };
    assert_eq!(files(snapshot().expect("listed")), 1);
    done(servers.drop_folder(&name, family)).expect("dropped");
}

#[test]
fn the_catalog_is_written_on_a_full_disk_by_the_reserve() {
    let bench = Bench::new();
    let (servers, name) = servers(&bench);
    let mut schema = TableDescriptor::new(TableName::meta());
    schema.set_family(FamilyDescriptor::new("f").expect("a name"));
    bench.server.open_region(RegionInfo::meta(), Arc::new(schema)).expect("opens");
    let (meta, user) = (RegionInfo::meta(), region("", ""));
    let write = |region: &RegionInfo, value| {
        done(servers.write(&name, region.encoded_name(), Stamp(1), vec![put("a", value)]))
    };
    bench.place.set_reserve(10_000);
    bench.place.set_bytes_max(Some(bench.place.bytes() + 10_000));
    write(&user, "1").expect_err("no room");
    write(&meta, "2").expect("the reserve has room");
    write(&user, "3").expect_err("the reserve is not for it");
    write(&meta, "4").expect("the reserve has more");
    assert_eq!(done(servers.rows(&name, meta.encoded_name())).expect("rows").len(), 1);
    bench.place.set_bytes_max(None);
    bench.server.run_chore();
    while bench.server.foundation().log.admits().is_err() {
        std::thread::yield_now();
    }
    write(&user, "5").expect("there is room");
}

#[test]
fn a_table_is_dropped_on_a_full_disk_and_its_records_are_forgotten() {
    let bench = Bench::with(crate::Options::default(), &[]);
    let (servers, name) = servers(&bench);
    let info = region("", "");
    done(servers.open(&name, order(1))).expect("opens");
    bench.put("a", "f:q", "1");
    bench.place.set_bytes_max(Some(0));
    close_on_full_disk(&servers, &name, 1);
    done(servers.forget(&name, info.encoded_name())).expect("forgotten");
    let folder = layout::region_folder(&info).parent().expect("the table's");
    done(servers.drop_folder(&name, folder)).expect("dropped");
    assert_eq!(bench.server.background.memory(), 0);
    bench.place.set_bytes_max(None);
    bench.server.run_chore();
    let left = bench.place.list(&layout::region_folder(&info)).expect("listed");
    assert!(left.is_empty(), "nothing is flushed later: {left:?}");
}

#[test]
fn a_family_that_is_added_again_has_no_cells_of_its_predecessor_after_a_crash() {
    let bench = Bench::with(crate::Options::default(), &[]);
    let (servers, name) = servers(&bench);
    let info = region("", "");
    let mut without = table();
    without.remove_family(b"g").expect("it was there");
    let open = |term, table: &proto::TableDescriptor| {
        let order = OpenOrder { region: info.clone(), table: Arc::new(table.clone()), term: Term(term) };
        done(servers.open(&name, order)).expect("opens");
    };
    let close = |term| {
        done(servers.close(&name, info.encoded_name(), Term(term), OnFullDisk::ServesOn)).expect("closes")
    };
    open(1, &table());
    bench.put("r", "f:x", "1");
    bench.put("r", "g:x", "2");
    close(1);
    let folder = layout::region_folder(&info).join("g");
    for _ in 0..2 {
        done(servers.drop_folder(&name, folder.clone())).expect("dropped, also a second time");
    }
    open(2, &without);
    bench.put("r", "f:x", "3");
    close(2);
    open(3, &table());
    assert_eq!(bench.row("r"), ["f:x=3"]);
    bench.put("s", "g:x", "4");
    let bench = bench.kill();
    assert_eq!((bench.row("r"), bench.row("s")), (vec!["f:x=3".to_owned()], vec!["g:x=4".to_owned()]));
}

#[test]
fn a_write_after_the_deletion_of_the_family_with_the_newest_write_survives() {
    let bench = Bench::with(crate::Options::default(), &[]);
    let (servers, name) = servers(&bench);
    let info = region("", "");
    let order = |term| OpenOrder { region: info.clone(), ..order(term) };
    done(servers.open(&name, order(1))).expect("opens");
    (0..3).for_each(|_| bench.put("r", "g:x", "1"));
    done(servers.close(&name, info.encoded_name(), Term(1), OnFullDisk::ServesOn)).expect("closes");
    done(servers.drop_folder(&name, layout::region_folder(&info).join("g"))).expect("dropped");
    let mut table = table();
    table.remove_family(b"g").expect("it was there");
    done(servers.open(&name, OpenOrder { table: Arc::new(table), ..order(2) })).expect("opens");
    bench.put("r", "f:x", "2");
    let log = &bench.server.foundation().log;
    log.roll().expect("another file");
    log.tidy();
    let bench = bench.kill();
    assert_eq!(bench.row("r"), ["f:x=2"]);
}

/// An interrupted creation is carried out again with the same regions, after what it had made is deleted.
#[test]
fn a_write_to_a_region_that_is_made_again_survives() {
    let bench = Bench::with(crate::Options::default(), &[]);
    let (servers, name) = servers(&bench);
    let info = region("", "");
    done(servers.forget(&name, info.encoded_name())).expect("forgotten");
    done(servers.open(&name, order(1))).expect("opens");
    bench.put("r", "f:x", "1");
    let log = &bench.server.foundation().log;
    log.roll().expect("another file");
    log.tidy();
    let bench = bench.kill();
    assert_eq!(bench.row("r"), ["f:x=1"]);
}

#[test]
fn a_given_split_row_is_restricted_and_a_policy_may_forbid_splits() {
    let bench = Bench::with(crate::Options::default(), &[]);
    let (servers, name) = servers(&bench);
    let parent = region("", "");
    let shape = |term, attributes: &[(&'static str, &'static str)]| {
        let mut table = table();
        for (key, value) in attributes {
            table.attributes_mut().set((*key).into(), (*value).into());
        }
        done(servers.open(&name, OpenOrder { table: Arc::new(table), ..order(term) })).expect("opens");
        let shape = servers.shape(&name, parent.encoded_name(), SplitRow::Given("user1/x".into()));
        let shape = done(shape).expect("open");
        done(servers.close(&name, parent.encoded_name(), Term(term), OnFullDisk::ServesOn)).expect("closes");
        (shape.can_split, shape.split_row)
    };
    assert_eq!(shape(1, &[]), (true, Some("user1/x".into())));
    let restricted = [
        ("hbase.regionserver.region.split_restriction.type", "DelimitedKeyPrefix"),
        ("hbase.regionserver.region.split_restriction.delimiter", "/"),
    ];
    assert_eq!(shape(2, &restricted), (true, Some("user1".into())));
    assert!(!shape(3, &[("SPLIT_POLICY", "DisabledRegionSplitPolicy")]).0);
}

#[test]
fn daughters_take_the_rows_of_their_side_and_a_merged_region_takes_all() {
    let bench = Bench::with(crate::Options::default(), &[]);
    let (servers, name) = servers(&bench);
    let table = Arc::new(table());
    let parent = region("", "");
    done(servers.open(&name, order(1))).expect("opens");
    for (stamp, key) in ["a", "c", "m", "z"].into_iter().enumerate() {
        let write = servers.write(&name, parent.encoded_name(), Stamp(stamp as u64), vec![put(key, "1")]);
        done(write).expect("written");
        done(servers.flush(&name, parent.encoded_name(), Vec::new())).expect("flushed");
    }
    let shape = |region: &RegionInfo| {
        done(servers.shape(&name, region.encoded_name(), SplitRow::Best)).expect("open")
    };
    assert!(!shape(&parent).has_references);
    let opened_at = bench.server.regions().all()[0].open_sequence();
    done(servers.close(&name, parent.encoded_name(), Term(1), OnFullDisk::ServesOn)).expect("closes");
    let new = |start: &'static str, end: &'static str, id| {
        RegionInfo::new(parent.table().clone(), start.into(), end.into(), RegionId(id)).expect("a region")
    };
    let inherit = |child: &RegionInfo, parents: &[&RegionInfo]| {
        let parents = parents.iter().copied().cloned().collect();
        let order = InheritOrder { child: child.clone(), parents, table: Arc::clone(&table) };
        done(servers.inherit(&name, order))
    };
    let open = |region: &RegionInfo| {
        let order = OpenOrder { region: region.clone(), table: Arc::clone(&table), term: Term(9) };
        done(servers.open(&name, order)).expect("opens");
        let rows = done(servers.rows(&name, region.encoded_name())).expect("open");
        rows.into_iter().map(|row| String::from_utf8(row.key.to_vec()).expect("text")).collect::<Vec<_>>()
    };
    let daughters = [new("", "d", 10), new("d", "", 10)];
    for daughter in &daughters {
        inherit(daughter, &[&parent]).expect("written");
        inherit(daughter, &[&parent]).expect("written again, as after a crash");
    }
    assert_eq!(daughters.each_ref().map(open), [vec!["a", "c"], vec!["m", "z"]]);
    // The parent has four files. Each daughter refers to the newest file, and to the files that have rows of its side.
    let files = bench.server.regions().all().iter().map(|region| region.load().files).collect::<Vec<_>>();
    assert_eq!(files, [3, 2]);
    assert!(bench.server.regions().all().iter().all(|region| region.open_sequence() > opened_at));
    let is_needed = |region: &RegionInfo| {
        done(servers.is_needed(&name, layout::region_folder(region))).expect("the lists can be read")
    };
    assert!(shape(&daughters[0]).has_references && is_needed(&parent));
    // Refused: a region that takes neither all rows of the parent nor those of one side.
    assert!(
        inherit(&new("b", "c", 11), &[&parent]).expect_err("refused").message.contains("neither all rows")
    );
    inherit(&new("", "b", 11), &[&daughters[0]]).expect_err("it has to be compacted first");
    for region in bench.server.regions().all() {
        region.compact(&region::CompactionRequest::default()).expect("compacted");
        region.clean(&bench.server.janitor, region::Search::GivenUp).expect("cleaned");
    }
    assert!(!shape(&daughters[0]).has_references && !is_needed(&parent));
    done(servers.drop_folder(&name, layout::region_folder(&parent))).expect("dropped");
    for daughter in &daughters {
        done(servers.close(&name, daughter.encoded_name(), Term(9), OnFullDisk::ServesOn)).expect("closes");
    }
    let merged = new("", "", 12);
    inherit(&merged, &[&daughters[0], &daughters[1]]).expect("written");
    assert_eq!(open(&merged), ["a", "c", "m", "z"]);
    assert!(is_needed(&daughters[0]) && is_needed(&daughters[1]));
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
    done(servers.close(&name, region, Term(1), OnFullDisk::ServesOn)).expect("closes");
    for term in [2, 3] {
        done(servers.truncate(&name, order(term))).expect("truncated");
        assert!(done(servers.report(&name)).expect("a report").is_empty(), "it stays closed");
    }
    assert!(done(servers.open(&name, order(4))).expect("opens again") > first);
    assert_eq!(done(servers.rows(&name, region)).expect("rows"), []);
}

/// A truncation that a crash interrupts is repeated at the next start, until it succeeds.
#[test]
fn a_truncation_that_is_repeated_on_a_full_disk_brings_no_row_back() {
    let regions = [("", "m"), ("m", "")];
    let bench = Bench::with(crate::Options::default(), &regions);
    bench.put("a", "f:x", "1");
    bench.put("z", "f:x", "1");
    // The second region is not flushed, so the log's file stays.
    let bench = bench.kill_and_open(&regions[1..]);
    let (servers, name) = servers(&bench);
    let truncated = |room: u64| {
        bench.place.set_bytes_max(Some(bench.place.bytes() + room));
        let order = OpenOrder { region: region("", "m"), ..order(room) };
        done(servers.truncate(&name, order))
    };
    let failures = (1..).map(|step| truncated(step * 64)).take_while(Result::is_err).count();
    bench.place.set_bytes_max(None);
    let bench = bench.kill_and_open(&regions);
    assert_eq!((bench.row("a"), bench.row("z")), (vec![], vec!["f:x=1".to_owned()]));
    assert!(failures > 3, "the region can be opened long before it can be flushed: {failures}");
}

/// A table may be disabled after a crash although one of its regions could not be opened.
#[test]
fn a_snapshot_of_a_closed_region_has_writes_that_only_the_log_had() {
    let bench = Bench::new();
    let increment = || pb::MutationProto { nonce: Some(5), ..increment("r", "f:n", 1) };
    bench.put("r", "f:x", "1");
    bench.mutate(increment()).expect("written");
    let bench = bench.kill_and_open(&[]);
    let (servers, name) = servers(&bench);
    let files = || {
        let (region, table) = (region("", ""), Arc::new(table()));
        let order = SnapshotOrder { region, table, content: SnapshotContent::Closed };
        let listed = done(servers.snapshot(&name, order))?.remove(0);
        let counts = listed.family_files.iter().map(|family| family.store_files.len());
        Ok::<_, Exception>(counts.collect::<Vec<_>>())
    };
    for room in [0, 600] {
        bench.place.set_bytes_max(Some(bench.place.bytes() + room));
        files().expect_err("the region cannot be flushed");
    }
    bench.place.set_bytes_max(None);
    for _ in 0..2 {
        assert_eq!(files().expect("flushed"), [1, 0]);
    }
    assert!(done(servers.report(&name)).expect("a report").is_empty(), "it stays closed");
    done(servers.open(&name, order(1))).expect("opens");
    assert_eq!(bench.server.regions().all()[0].replayed(), 0);
    bench.mutate(increment()).expect("repeated");
    assert_eq!(bench.row("r"), [r"f:n=\x00\x00\x00\x00\x00\x00\x00\x01", "f:x=1"]);
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
    let links = region::InheritedFiles::Links;
    opened.write_heir(&layout::region_folder(&clone), &links).expect("written");
    drop(opened);
    done(servers.close(&name, info.encoded_name(), Term(1), OnFullDisk::ServesOn)).expect("closes");
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
