//! Tests of changes of tables, namespaces and schemas: those that succeed, and those that the master refuses.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::{WallTime, World};
use proto::catalog::{RegionRow, RegionState, TableState};
use proto::{RegionInfo, TableName, pb};
use rpc::{Exception, class};
use storage::memory::Fault;
use storage::{Files, Kind, Memory, Outcome};

use super::fake::{Durable, Life, name, pb_name, schema};
use crate::descriptors;
use crate::intents::{Intent, Intents};
use crate::procedure::{NonceKey, ProcedureKind};
use crate::reopen::Reopening;
use crate::view::covers_all_rows;
use crate::{Inconsistency, Selection, status};

fn class_of(outcome: Result<(), Exception>) -> String {
    outcome.expect_err("refused").class.into_owned()
}

#[test]
fn an_empty_root_is_founded_and_found_again() {
    let life = Life::first();
    assert_eq!(life.servers.open_count(), 2, "hbase:meta and hbase:namespace");
    assert_eq!(
        life.master.namespaces().iter().map(|one| one.name.clone()).collect::<Vec<_>>(),
        ["default", "hbase"]
    );
    assert!(life.master.table_names(&Selection::of_users()).unwrap().is_empty());
    assert_eq!(life.state("hbase:namespace"), TableState::Enabled);
    let id = life.master.cluster_id().to_owned();
    assert_eq!((id.len(), id.as_bytes()[14]), (36, b'4'));
    let next = life.next();
    assert_eq!(next.master.cluster_id(), id);
    assert_eq!(next.master.namespaces().len(), 2);
}

#[test]
fn a_table_lives_through_all_its_states_and_a_restart() {
    let life = Life::first();
    life.create("t", &["f"], &["m", "c"]).unwrap();
    let rows = life.master.read_view(|view| view.tables[&name("t")].regions.clone());
    assert!(
        covers_all_rows(rows.iter())
            && rows.len() == 3
            && rows.iter().all(|row| row.state == RegionState::Open)
    );
    let described =
        life.master.descriptors(&Selection { names: &[pb_name("t")], ..Selection::of_users() }).unwrap();
    assert!(described[0].attributes.iter().any(|pair| pair.first == "hbase.store.file-tracker.impl"));

    let life = life.next();
    assert_eq!((life.state("t"), life.servers.open_count()), (TableState::Enabled, 5));
    life.done(life.master.disable_table(&pb_name("t"), None)).unwrap();
    assert_eq!((life.state("t"), life.servers.open_count()), (TableState::Disabled, 2));

    let life = life.next();
    assert_eq!((life.state("t"), life.servers.open_count()), (TableState::Disabled, 2));
    life.done(life.master.enable_table(&pb_name("t"), None)).unwrap();
    assert_eq!((life.state("t"), life.servers.open_count()), (TableState::Enabled, 5));
    life.done(life.master.disable_table(&pb_name("t"), None)).unwrap();
    assert!(rows.iter().all(|row| !life.servers.was_discarded(row.region.encoded_name())));
    life.done(life.master.delete_table(&pb_name("t"), None)).unwrap();
    assert!(!life.has("t") && life.files_of("t").is_empty());
    assert!(rows.iter().all(|row| life.servers.was_discarded(row.region.encoded_name())));

    let life = life.next();
    assert!(!life.has("t"));
    life.create("t", &["f"], &[]).unwrap();
}

#[test]
fn a_table_whose_deletion_was_interrupted_can_be_created_at_once() {
    let life = Life::first();
    life.create("t", &["f"], &["m"]).expect("made");
    life.done(life.master.disable_table(&pb_name("t"), None)).expect("disabled");
    // The deletion has failed after it had begun.
    let delete = Intent::Delete { table: name("t") };
    life.master.intents.begin(delete).expect("stored");
    life.create("t", &["g"], &[]).expect("made after the deletion");
    let families = life.master.read_view(|view| {
        let table = &view.tables[&name("t")];
        (table.descriptor.families().len(), table.descriptor.family(b"g").is_some(), table.regions.len())
    });
    assert_eq!(families, (1, true, 1));
    assert_eq!(class_of(life.create("t", &["f"], &[])), class::TABLE_EXISTS);
}

#[test]
fn the_state_of_each_table_is_mirrored_until_the_table_is_removed() {
    let life = Life::first();
    assert_eq!(life.mirrored.tables(), ["hbase:meta", "hbase:namespace"]);
    life.create("t", &["f"], &[]).unwrap();
    assert_eq!(life.mirrored.of("t"), Some(TableState::Enabled));
    life.done(life.master.disable_table(&pb_name("t"), None)).unwrap();
    assert_eq!(life.mirrored.of("t"), Some(TableState::Disabled));

    let life = life.next();
    assert_eq!(life.mirrored.of("t"), Some(TableState::Disabled), "a new master mirrors what it finds");
    assert_eq!(life.mirrored.of("hbase:meta"), Some(TableState::Enabled));
    life.done(life.master.truncate_table(&pb_name("t"), false, None)).unwrap();
    assert_eq!(life.mirrored.of("t"), Some(TableState::Enabled));
    life.done(life.master.disable_table(&pb_name("t"), None)).unwrap();
    life.done(life.master.delete_table(&pb_name("t"), None)).unwrap();
    assert_eq!(life.mirrored.tables(), ["hbase:meta", "hbase:namespace"]);

    life.servers.refuse(Some(""));
    life.create("t", &["f"], &[]).unwrap_err();
    assert_eq!(life.mirrored.of("t"), None, "a creation that failed leaves no node");
}

#[test]
fn what_hbase_refuses_is_refused_with_its_class() {
    let life = Life::first();
    life.create("t", &["f"], &[]).unwrap();
    let table = pb_name("t");
    let absent = pb_name("absent");
    assert_eq!(class_of(life.create("t", &["f"], &[])), class::TABLE_EXISTS);
    assert_eq!(class_of(life.create("nowhere:t", &["f"], &[])), class::NAMESPACE_NOT_FOUND);
    assert_eq!(class_of(life.create("u", &[], &[])), class::DO_NOT_RETRY_IO);
    assert_eq!(class_of(life.create("u", &["f"], &["a", "a"])), class::DO_NOT_RETRY_IO);
    assert_eq!(class_of(life.done(life.master.enable_table(&table, None))), class::TABLE_NOT_DISABLED);
    assert_eq!(class_of(life.done(life.master.delete_table(&table, None))), class::TABLE_NOT_DISABLED);
    assert_eq!(
        class_of(life.done(life.master.truncate_table(&table, true, None))),
        class::TABLE_NOT_DISABLED
    );
    for refused in [
        life.done(life.master.enable_table(&absent, None)),
        life.done(life.master.disable_table(&absent, None)),
        life.done(life.master.delete_table(&absent, None)),
        life.done(life.master.truncate_table(&absent, false, None)),
        life.done(life.master.modify_table(&absent, &schema("absent", &["f"]), None)),
        life.done(life.master.flush_table(&absent, &[], None)),
        life.master.alter_status(&absent).map(|_| ()),
        life.master.table_state(&absent).map(|_| ()),
    ] {
        assert_eq!(class_of(refused), class::TABLE_NOT_FOUND);
    }
    assert_eq!(
        class_of(life.done(life.master.disable_table(&pb_name("hbase:meta"), None))),
        class::CONSTRAINT
    );
    life.done(life.master.disable_table(&table, None)).unwrap();
    let twice = life.done(life.master.disable_table(&table, None)).unwrap_err();
    assert_eq!((&*twice.class, &*twice.message), (class::TABLE_NOT_ENABLED, "t"));
    assert_eq!(class_of(life.done(life.master.flush_table(&table, &[], None))), class::TABLE_NOT_ENABLED);
    let tracker = life.done(life.master.change_tracker(&table, None, "FILE", None)).unwrap_err();
    assert_eq!((&*tracker.class, &*tracker.message), (class::TABLE_NOT_ENABLED, "t"));
    life.done(life.master.enable_table(&table, None)).unwrap();
    let told = |outcome: Result<(), Exception>| outcome.unwrap_err().message;
    // HBase 2.6.4 has these messages in the same places.
    assert_eq!(told(life.done(life.master.enable_table(&table, None))), "tableName=t, state=ENABLED");
    assert_eq!(
        told(life.done(life.master.delete_table(&table, None))),
        "Not DISABLED; tableName=t, state=ENABLED"
    );
    assert_eq!(told(life.done(life.master.truncate_table(&table, true, None))), "t");
    let unknown = life.done(life.master.flush_table(&table, &["zz".into()], None));
    assert_eq!(told(unknown), "Column families [zz] don't exist in table t");
}

#[test]
fn a_repeated_nonce_changes_nothing_twice() {
    let life = Life::first();
    life.create("t", &["f"], &[]).unwrap();
    let nonce = NonceKey::of(Some(1), Some(2));
    let family = pb::ColumnFamilySchema { name: "g".into(), ..Default::default() };
    let first = life.master.add_family(&pb_name("t"), &family, nonce).unwrap();
    life.done(Ok(first)).unwrap();
    assert_eq!(life.master.add_family(&pb_name("t"), &family, nonce).unwrap(), first);
    assert_eq!(
        class_of(life.done(life.master.add_family(&pb_name("t"), &family, None))),
        class::INVALID_FAMILY_OPERATION
    );
}

#[test]
fn truncating_empties_the_table_and_keeps_the_splits_if_asked() {
    let life = Life::first();
    life.create("t", &["f"], &["m"]).unwrap();
    let before = life.put_store_file("t", "f");
    life.done(life.master.disable_table(&pb_name("t"), None)).unwrap();
    life.done(life.master.truncate_table(&pb_name("t"), true, None)).unwrap();
    assert!(!life.files_of("t").contains(&before));
    assert_eq!((life.state("t"), life.servers.open_count()), (TableState::Enabled, 4));
    life.done(life.master.disable_table(&pb_name("t"), None)).unwrap();
    life.done(life.master.truncate_table(&pb_name("t"), false, None)).unwrap();
    assert_eq!((life.state("t"), life.servers.open_count()), (TableState::Enabled, 3));
}

#[test]
fn families_come_change_and_go_with_their_files() {
    let life = Life::first();
    life.create("t", &["f"], &[]).unwrap();
    let family = |versions: &'static str| pb::ColumnFamilySchema {
        name: "g".into(),
        attributes: vec![pb::BytesBytesPair { first: "VERSIONS".into(), second: versions.into() }],
        ..Default::default()
    };
    let versions = |life: &Life| {
        let table = life.master.read_view(|view| view.tables[&name("t")].descriptor.clone());
        table.family(b"g").map(|family| family.options().unwrap().versions_max)
    };
    life.done(life.master.add_family(&pb_name("t"), &family("2"), None)).unwrap();
    assert_eq!(versions(&life), Some(2));
    life.done(life.master.modify_family(&pb_name("t"), &family("3"), None)).unwrap();
    assert_eq!(versions(&life), Some(3));
    assert_eq!(
        class_of(life.done(life.master.modify_family(&pb_name("t"), &family("x"), None))),
        class::DO_NOT_RETRY_IO
    );
    let (kept, gone) = (life.put_store_file("t", "f"), life.put_store_file("t", "g"));
    life.done(life.master.delete_family(&pb_name("t"), &"g".into(), None)).unwrap();
    assert_eq!(versions(&life), None);
    assert!(life.files_of("t").contains(&kept) && !life.files_of("t").contains(&gone));
    assert_eq!(life.master.alter_status(&pb_name("t")).unwrap(), (0, 1));
    let last = life.done(life.master.delete_family(&pb_name("t"), &"f".into(), None));
    assert_eq!(class_of(last), class::INVALID_FAMILY_OPERATION);
    assert_eq!(versions(&life.next()), None);
}

#[test]
fn a_region_that_takes_over_a_schema_stays_open_and_one_that_loses_a_family_does_not() {
    let life = Life::first();
    life.create("t", &["f", "g"], &["m"]).unwrap();
    life.servers.take_over();
    let regions: Vec<RegionInfo> = life
        .master
        .read_view(|view| view.tables[&name("t")].regions.iter().map(|row| row.region.clone()).collect());
    let terms =
        || regions.iter().map(|region| life.servers.term_of(region.encoded_name())).collect::<Vec<_>>();
    let before = terms();
    let versions = pb::BytesBytesPair { first: "VERSIONS".into(), second: "7".into() };
    let family =
        pb::ColumnFamilySchema { name: "g".into(), attributes: vec![versions], ..Default::default() };
    life.done(life.master.modify_family(&pb_name("t"), &family, None)).unwrap();
    assert_eq!(terms(), before, "they were not opened again");
    for region in &regions {
        let schema = life.servers.schema_of(region.encoded_name());
        assert_eq!(schema.family(b"g").unwrap().options().unwrap().versions_max, 7);
    }
    assert_eq!(life.master.alter_status(&pb_name("t")).unwrap(), (0, 2));
    life.done(life.master.delete_family(&pb_name("t"), &"g".into(), None)).unwrap();
    assert!(terms().iter().zip(&before).all(|(new, old)| new > old), "its files go while it is closed");
}

#[test]
fn namespaces_come_and_go_when_empty() {
    let life = Life::first();
    let namespace = |name: &'static str| pb::NamespaceDescriptor { name: name.into(), configuration: vec![] };
    life.done(life.master.create_namespace(&namespace("ns"), None)).unwrap();
    assert_eq!(
        class_of(life.done(life.master.create_namespace(&namespace("ns"), None))),
        class::NAMESPACE_EXISTS
    );
    assert!(life.master.create_namespace(&namespace("n s"), None).is_err());
    life.create("ns:t", &["f"], &[]).unwrap();
    assert_eq!(class_of(life.done(life.master.delete_namespace("ns", None))), class::CONSTRAINT);
    assert_eq!(class_of(life.done(life.master.delete_namespace("default", None))), class::CONSTRAINT);
    assert_eq!(class_of(life.done(life.master.delete_namespace("none", None))), class::NAMESPACE_NOT_FOUND);
    let life = life.next();
    assert!(life.master.namespace("ns").is_ok());
    life.done(life.master.disable_table(&pb_name("ns:t"), None)).unwrap();
    life.done(life.master.delete_table(&pb_name("ns:t"), None)).unwrap();
    life.done(life.master.delete_namespace("ns", None)).unwrap();
    assert!(life.next().master.namespace("ns").is_err());
}

/// A table that cannot be served is in no list, but its rows are there, and they need their namespace.
#[test]
fn a_namespace_with_a_table_out_of_reach_stays() {
    let life = Life::first();
    let namespace = pb::NamespaceDescriptor { name: "ns".into(), configuration: vec![] };
    life.done(life.master.create_namespace(&namespace, None)).unwrap();
    life.create("ns:t", &["f"], &[]).unwrap();
    let file = life.files.list(&layout::descriptors(&name("ns:t"))).unwrap().remove(0).name;
    let descriptor = life.files.read(&file, 10_000).unwrap();
    life.files.delete(&file).unwrap();
    let next = life.next();
    let refused = next.done(next.master.delete_namespace("ns", None)).unwrap_err();
    assert_eq!(refused.class, class::CONSTRAINT);
    assert!(
        refused.message.ends_with("ns has 1 tables, of which this server cannot serve 1; ns:t is one"),
        "{refused}"
    );
    next.files.swap(&file, None, &descriptor).unwrap();
    let next = next.next();
    assert!(next.master.namespace("ns").is_ok());
    next.done(next.master.disable_table(&pb_name("ns:t"), None)).unwrap();
    next.done(next.master.delete_table(&pb_name("ns:t"), None)).unwrap();
    next.master.left_out.lock().insert(name("ns:u"));
    next.done(next.master.delete_namespace("ns", None)).expect_err("a start has left ns:u out");
    next.master.left_out.lock().clear();
    next.done(next.master.delete_namespace("ns", None)).unwrap();
}

#[test]
fn a_start_that_cannot_read_the_table_of_namespaces_fails_and_deletes_none() {
    let life = Life::first();
    let namespace = pb::NamespaceDescriptor { name: "ns".into(), configuration: vec![] };
    life.done(life.master.create_namespace(&namespace, None)).unwrap();
    let folder = layout::descriptors(&TableName::namespaces());
    let file = life.files.list(&folder).unwrap().remove(0).name;
    let whole = life.files.read(&file, 10_000).unwrap();
    let start = |change: &dyn Fn(&Memory)| {
        let files = life.files.kill();
        change(&files);
        let failure =
            Life::on(files.clone(), life.durable.clone()).err().expect("it does not start").to_string();
        assert!(failure.starts_with("table hbase:namespace exists and cannot be opened: "), "{failure}");
        assert!(failure.contains("start again"), "{failure}");
        (failure, files)
    };

    let (failure, files) = start(&|files| files.damage(&file, |bytes| bytes[7] ^= 0xff));
    assert!(failure.contains(file.as_str()), "{failure}");
    files.damage(&file, |bytes| *bytes = whole.clone());
    let next = Life::on(files, life.durable.clone()).unwrap();
    assert!(next.master.namespace("ns").is_ok());

    let (failure, files) = start(&|files| files.delete(&file).unwrap());
    assert!(failure.contains(folder.as_str()), "{failure}");
    let table = proto::catalog::namespaces_descriptor();
    descriptors::write(&files, &table, WallTime(1)).unwrap();
    let next = Life::on(files, life.durable.clone()).unwrap();
    assert!(next.master.namespace("ns").is_ok());
}

#[test]
fn a_start_that_cannot_finish_a_change_of_the_table_of_namespaces_fails_and_deletes_none() {
    let life = Life::first();
    let namespace = pb::NamespaceDescriptor { name: "ns".into(), configuration: vec![] };
    life.done(life.master.create_namespace(&namespace, None)).unwrap();
    let table = Arc::new(proto::catalog::namespaces_descriptor());
    let mut failures = 0;
    for act in 1..20 {
        let files = life.files.kill();
        let world = World::simulated(1, WallTime(1));
        let intents = Intents::open(Arc::new(files.clone()), &world, Arc::default()).unwrap();
        intents.begin(Intent::Alter { table: Arc::clone(&table) }).unwrap();
        let (act, outcome) = (files.acts() + act, Outcome::DidNotHappen);
        files.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last: false }));
        let next = match Life::on(files.clone(), life.durable.clone()) {
            Ok(next) => next,
            Err(failure) => {
                failures += usize::from(failure.to_string().contains("change of it cannot be finished"));
                files.set_fault(None);
                Life::on(files, life.durable.clone()).expect("the next start finishes the change")
            }
        };
        assert!(next.master.namespace("ns").is_ok(), "act {act}");
    }
    assert!(failures > 0, "no act of a start was one of the unfinished change");
}

#[test]
fn a_first_start_that_fails_at_any_act_is_completed_by_the_next() {
    let mut failures = 0;
    for act in 1..60 {
        let (files, durable) = (Memory::new(), Durable::default());
        files.set_fault(Some(Fault { act, kind: Kind::Failed, outcome: Outcome::DidNotHappen, last: true }));
        failures += usize::from(Life::on(files.clone(), durable.clone()).is_err());
        let next = Life::on(files.kill(), durable).expect("nothing is in the way");
        assert_eq!(next.master.namespaces().len(), 2, "act {act}");
    }
    assert!(failures > 5, "{failures}");
}

#[test]
fn regions_are_assigned_and_unassigned_by_either_name() {
    let life = Life::first();
    life.create("t", &["f"], &[]).unwrap();
    let region = life.master.read_view(|view| view.tables[&name("t")].regions[0].region.clone());
    let full = pb::RegionSpecifier { r#type: 1, value: region.name().clone() };
    let short = pb::RegionSpecifier { r#type: 2, value: region.encoded_name().as_str().to_owned().into() };
    life.done(life.master.unassign_region(&short)).unwrap();
    assert_eq!(life.servers.open_count(), 2);
    life.done(life.master.assign_region(&full)).unwrap();
    assert_eq!(life.servers.open_count(), 3);
    life.done(life.master.move_region(&short, None)).unwrap();
    let unknown = pb::RegionSpecifier { r#type: 2, value: "f".repeat(32).into() };
    assert_eq!(class_of(life.done(life.master.move_region(&unknown, None))), class::UNKNOWN_REGION);
    let garbage = pb::RegionSpecifier { r#type: 1, value: "x".into() };
    assert_eq!(class_of(life.done(life.master.assign_region(&garbage))), class::UNKNOWN_REGION);
}

#[test]
fn a_flush_succeeds_although_a_split_closes_a_region_meanwhile() {
    let life = Life::first();
    life.create("t", &["f"], &["m"]).unwrap();
    life.servers.close_before_flushes(1);
    life.done(life.master.flush_table(&pb_name("t"), &[], None)).unwrap();
    assert_eq!(life.servers.flushed(), 1, "the other region");
}

#[test]
fn flushing_reaches_every_region_by_both_ways() {
    let life = Life::first();
    life.create("t", &["f"], &["m"]).unwrap();
    life.done(life.master.flush_table(&pb_name("t"), &["f".into()], None)).unwrap();
    assert_eq!(life.servers.flushed(), 2);
    let no_family = life.done(life.master.flush_table(&pb_name("t"), &["g".into()], None));
    assert_eq!(class_of(no_family), class::NO_SUCH_COLUMN_FAMILY);
    let procedure = |signature: &str, table: &str| pb::ProcedureDescription {
        signature: signature.into(),
        instance: Some(table.into()),
        ..Default::default()
    };
    let mut flush = procedure("flush-table-proc", "t");
    assert!(!life.master.is_done(&flush).unwrap(), "it was never begun");
    life.done(life.master.execute(&flush)).unwrap();
    assert_eq!(life.servers.flushed(), 4);
    assert!(life.master.is_done(&flush).unwrap());
    // As in HBase, the flush of a table that does not exist does nothing.
    let absent = procedure("flush-table-proc", "absent");
    life.done(life.master.execute(&absent)).unwrap();
    assert!(life.master.is_done(&absent).unwrap());
    flush.configuration = vec![pb::NameStringPair { name: "families".into(), value: "g, h".into() }];
    life.done(life.master.execute(&flush)).unwrap();
    assert_eq!(life.servers.flushed(), 4);
    flush.configuration[0].value = "g,f".into();
    life.done(life.master.execute(&flush)).unwrap();
    assert_eq!(life.servers.flushed(), 6);
    let unknown = life.master.execute(&procedure("other-proc", "t")).unwrap_err();
    assert_eq!(unknown.message, "The procedure is not registered: other-proc");
    assert!(unknown.do_not_retry);
    let unknown = life.master.is_done(&procedure("other-proc", "t")).unwrap_err();
    assert_eq!((&*unknown.class, unknown.do_not_retry), ("java.io.IOException", false));
}

#[test]
fn a_region_is_truncated_and_the_others_keep_their_rows() {
    let life = Life::first();
    life.create("t", &["f"], &["m"]).unwrap();
    let regions = life.master.read_view(|view| view.tables[&name("t")].regions.clone());
    let first: pb::RegionInfo = (&regions[0].region).into();
    let file = life.put_store_file("t", "f");
    let of_other = life.put_store_file_of(&regions[1].region, "f");
    life.done(life.master.truncate_region(&first, None)).unwrap();
    assert!(!life.files_of("t").contains(&file));
    assert!(life.files_of("t").contains(&of_other));
    assert_eq!(life.servers.open_count(), 4);
    let after = life.master.read_view(|view| view.tables[&name("t")].regions.clone());
    assert_eq!(after[0].region, regions[0].region, "it keeps its name");

    let mut unknown = first.clone();
    unknown.region_id += 1;
    assert_eq!(class_of(life.done(life.master.truncate_region(&unknown, None))), class::UNKNOWN_REGION);
    let meta: pb::RegionInfo = (&proto::RegionInfo::meta()).into();
    life.master.truncate_region(&meta, None).unwrap_err();
    life.done(life.master.disable_table(&pb_name("t"), None)).unwrap();
    assert_eq!(class_of(life.done(life.master.truncate_region(&first, None))), class::TABLE_NOT_ENABLED);
}

#[test]
fn a_region_whose_truncation_failed_is_opened_when_the_truncation_is_carried_on() {
    let mut waited = 0;
    for act in 1..20 {
        let life = Life::first();
        life.create("t", &["f"], &["m"]).unwrap();
        let regions = life.master.read_view(|view| view.tables[&name("t")].regions.clone());
        let [first, second] = [0, 1].map(|at| pb::RegionInfo::from(&regions[at].region));
        let file = life.put_store_file("t", "f");
        let (act, outcome) = (life.files.acts() + act, Outcome::DidNotHappen);
        life.files.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last: false }));
        let truncated = life.done(life.master.truncate_region(&first, None));
        life.files.set_fault(None);
        if life.master.intents.of(&name("t")).is_empty() {
            continue;
        }
        assert!(truncated.is_err());
        waited += 1;
        assert_eq!(life.servers.open_count(), 3);
        // The next change of the table first completes the interrupted one.
        life.done(life.master.truncate_region(&second, None)).unwrap();
        assert!(!life.files_of("t").contains(&file));
        assert_eq!(life.servers.open_count(), 4);
    }
    assert!(waited > 0, "no act was one of the truncation");
}

#[test]
fn a_region_that_cannot_be_closed_for_its_truncation_keeps_its_rows() {
    for stays_open in [true, false] {
        let life = Life::first();
        life.create("t", &["f"], &["m"]).unwrap();
        let region = life.master.read_view(|view| view.tables[&name("t")].regions[0].region.clone());
        if stays_open {
            life.servers.refuse_closes(1);
        } else {
            life.servers.fail_closes(1);
        }
        let failure = life.done(life.master.truncate_region(&(&region).into(), None)).unwrap_err();
        assert!(failure.message.contains("by the test"), "{failure}");
        assert_eq!(life.servers.open_count(), 4, "the region serves");
        // The rows of this file are acknowledged after the failure.
        let file = life.put_store_file("t", "f");
        life.master.carry_on_what_waits();
        life.master.procedures.wait_idle();
        assert!(life.files_of("t").contains(&file), "stays open: {stays_open}");
        let next = life.next();
        assert!(next.files_of("t").contains(&file), "stays open: {stays_open}");
        assert_eq!(next.servers.open_count(), 4);
        next.done(next.master.truncate_region(&(&region).into(), None)).unwrap();
        assert!(!next.files_of("t").contains(&file));
    }
}

#[test]
fn a_truncation_whose_intent_may_be_stored_leaves_its_region_closed_until_it_is_not() {
    let life = Life::first();
    life.create("t", &["f"], &["m"]).unwrap();
    let region = life.master.read_view(|view| view.tables[&name("t")].regions[0].region.clone());
    let file = life.put_store_file("t", "f");
    let is_open = || life.servers.server_of(region.encoded_name()).is_some();
    // What the chore does every ten seconds.
    let carry_on = || {
        life.master.carry_on_what_waits();
        life.master.reopen_failed(&mut Reopening::default());
        life.master.procedures.wait_idle();
    };
    life.servers.fill_at_close();
    let failure = life.done(life.master.truncate_region(&(&region).into(), None)).unwrap_err();
    assert!(
        failure.message.contains("stays closed until the order to truncate it can be withdrawn"),
        "{failure}"
    );
    let failed = life.master.failed_regions();
    assert!(failed[0].to_string().contains("can be withdrawn"), "{failed:?}");
    carry_on();
    assert!(!is_open(), "the disk is still full");
    life.files.set_bytes_max(None);
    carry_on();
    assert!(is_open() && life.master.failed_regions().is_empty());
    assert!(life.files_of("t").contains(&file) && life.next().files_of("t").contains(&file));
}

#[test]
fn a_region_that_serves_after_a_failed_truncation_keeps_its_rows_in_the_next_life() {
    let (mut served, mut stayed_closed) = (0, 0);
    let outcomes = [Outcome::DidNotHappen, Outcome::MayHaveHappened];
    for (outcome, last) in outcomes.into_iter().flat_map(|outcome| [(outcome, false), (outcome, true)]) {
        for act in 1..20 {
            let life = Life::first();
            life.create("t", &["f"], &["m"]).unwrap();
            let region = life.master.read_view(|view| view.tables[&name("t")].regions[0].region.clone());
            let file = life.put_store_file("t", "f");
            let act = life.files.acts() + act;
            life.files.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last }));
            let truncated = life.done(life.master.truncate_region(&(&region).into(), None));
            life.files.set_fault(None);
            if truncated.is_ok() {
                continue;
            }
            if life.servers.server_of(region.encoded_name()).is_some() {
                served += 1;
                let next = life.next();
                let is_there = next.files_of("t").contains(&file);
                assert!(is_there, "act {act}, {outcome:?}, last {last}: {truncated:?}");
            } else {
                stayed_closed += 1;
            }
        }
    }
    assert!(served > 0 && stayed_closed > 0, "{served} {stayed_closed}");
}

#[test]
fn the_status_has_the_parts_that_were_asked_for() {
    let life = Life::first();
    life.create("t", &["f"], &["m"]).unwrap();
    let all = status::of(&life.master, &[]);
    assert_eq!(all.live_servers[0].server_load.number_of_requests, Some(3));
    assert_eq!(all.hbase_version.unwrap().version, "2.6.4");
    assert!(all.balancer_on.unwrap() && all.regions_in_transition.is_empty());
    let counts = all.table_region_states_count.iter().find(|one| one.table_name == pb_name("t")).unwrap();
    assert_eq!((counts.region_states_count.open_regions, counts.region_states_count.total_regions), (2, 2));
    let part = status::of(&life.master, &[pb::Option::Master as i32]);
    assert!(part.master.is_some() && part.live_servers.is_empty() && part.cluster_id.is_none());
    assert_eq!(life.master.last_major_compaction(&pb_name("t")).unwrap(), 7);
}

#[test]
fn a_region_that_is_absent_or_closed_was_never_compacted() {
    let life = Life::first();
    life.create("t", &["f"], &[]).unwrap();
    let region = life.master.read_view(|view| view.tables[&name("t")].regions[0].region.clone());
    let time = |value: &Bytes| {
        let by_name = pb::RegionSpecifier { r#type: 1, value: value.clone() };
        life.master.last_major_compaction_of_region(&by_name)
    };
    assert_eq!(time(region.name()), Ok(7));
    let encoded = Bytes::copy_from_slice(region.encoded_name().as_str().as_bytes());
    for unknown in [encoded, "t,,1.0123456789abcdef0123456789abcdef.".into(), "nonsense".into()] {
        assert_eq!(time(&unknown), Ok(0), "{unknown:?}");
    }
    life.done(life.master.disable_table(&pb_name("t"), None)).unwrap();
    assert_eq!(time(region.name()), Ok(0));
}

#[test]
fn a_region_that_will_not_open_does_not_keep_the_others() {
    let life = Life::first();
    life.create("t", &["f"], &["m"]).unwrap();
    life.files.damage(
        &life.files_of("t").into_iter().find(|file| file.last() == ".regioninfo").expect("there are two"),
        |bytes| bytes.truncate(2),
    );
    let next = life.next();
    assert_eq!(next.servers.open_count(), 3);
    let rows = next.master.read_view(|view| view.tables[&name("t")].regions.clone());
    assert_eq!(rows.iter().filter(|row| row.state == RegionState::FailedOpen).count(), 1);
    assert!(rows.iter().all(|row| next.servers.was_kept(row.region.encoded_name())));
    assert_eq!(status::of(&next.master, &[]).regions_in_transition.len(), 1);
}

#[test]
fn a_region_that_would_not_open_is_opened_when_it_can_be() {
    let life = Life::first();
    life.create("t", &["f"], &["m"]).unwrap();
    let files = life.files_of("t");
    let broken = files.into_iter().find(|file| file.last() == ".regioninfo").expect("there are two");
    let whole = life.files.read(&broken, 10_000).unwrap();
    life.files.damage(&broken, |bytes| bytes.truncate(2));
    let next = life.next();
    let mut reopening = Reopening::default();
    let mut attempt = || {
        next.master.reopen_failed(&mut reopening);
        next.master.procedures.wait_idle();
        next.servers.open_count()
    };
    assert_eq!(attempt(), 3, "it cannot be opened yet");
    next.files.damage(&broken, |bytes| *bytes = whole.clone());
    assert_eq!(attempt(), 3, "the pause is not over");
    next.master.world.advance(Duration::from_secs(60));
    assert_eq!(attempt(), 4);
    assert!(status::of(&next.master, &[]).regions_in_transition.is_empty());
    assert_eq!(attempt(), 4);
}

#[test]
fn a_region_that_an_alter_could_not_open_again_is_opened_later() {
    let life = Life::first();
    life.create("t", &["f"], &["m"]).unwrap();
    let before = life.servers.open_count();
    life.servers.refuse(Some("m"));
    let family =
        pb::ColumnFamilySchema::from(&proto::FamilyDescriptor::new("f").unwrap().with("VERSIONS", 7));
    let failure = life.done(life.master.modify_family(&pb_name("t"), &family, None)).unwrap_err();
    assert!(failure.message.contains("refused by the test"), "{failure}");
    assert_eq!(life.servers.open_count(), before - 1);
    life.servers.refuse(None);
    let mut reopening = Reopening::default();
    let (end, ended) = std::sync::mpsc::channel();
    let waiting = life.master.submit(ProcedureKind::Reopen, &name("t"), None, move |_, _| {
        let _ended = ended.recv();
        Ok(())
    });
    waiting.expect("submitted");
    life.master.reopen_failed(&mut reopening);
    end.send(()).expect("it waits");
    life.master.procedures.wait_idle();
    assert_eq!(life.servers.open_count(), before - 1, "another procedure had the table");
    life.master.reopen_failed(&mut reopening);
    life.master.procedures.wait_idle();
    assert_eq!(life.servers.open_count(), before, "the chore opens what the change has closed");
    assert!(status::of(&life.master, &[]).regions_in_transition.is_empty());
}

/// Returns the versions that each region of table t keeps of its family f, by the schema with which it serves.
fn served_versions(life: &Life) -> Vec<u32> {
    let rows = life.master.read_view(|view| view.tables[&name("t")].regions.clone());
    let versions = |row: &RegionRow| {
        let schema = life.servers.schema_of(row.region.encoded_name());
        schema.family(b"f").unwrap().options().unwrap().versions_max
    };
    rows.iter().map(versions).collect()
}

fn alter_versions(life: &Life, versions: &str) -> Result<(), Exception> {
    let family =
        pb::ColumnFamilySchema::from(&proto::FamilyDescriptor::new("f").unwrap().with("VERSIONS", versions));
    life.done(life.master.modify_family(&pb_name("t"), &family, None))
}

#[test]
fn an_alter_that_fails_at_one_region_goes_on_with_the_others() {
    let life = Life::first();
    life.create("t", &["f"], &["g", "m", "s"]).unwrap();
    let status = || life.master.alter_status(&pb_name("t")).unwrap();
    life.servers.refuse(Some("g"));
    let failure = alter_versions(&life, "7").unwrap_err();
    let is_said =
        failure.message.contains("the new schema of table t is stored, and 1 of its 4 open regions");
    assert!(is_said && failure.message.contains("refused by the test"), "{failure}");
    assert_eq!(served_versions(&life), [7, 1, 7, 7]);
    assert_eq!(status(), (1, 4));
    life.servers.refuse(None);
    life.master.reopen_failed(&mut Reopening::default());
    life.master.procedures.wait_idle();
    assert_eq!((served_versions(&life), status()), (vec![7; 4], (0, 4)));
}

/// A region whose closing fails serves on with the old schema: it is reported and brought to the new one later.
#[test]
fn a_region_that_kept_its_schema_is_reported_and_gets_the_new_one_later() {
    let life = Life::first();
    life.create("t", &["f"], &["g", "m"]).unwrap();
    life.servers.refuse_closes(1);
    alter_versions(&life, "7").unwrap_err();
    assert_eq!(served_versions(&life), [1, 7, 7]);
    assert_eq!(life.master.alter_status(&pb_name("t")).unwrap(), (1, 3));
    let row = life.master.read_view(|view| view.tables[&name("t")].regions[0].clone());
    let found = life.master.run_hbck().unwrap().inconsistencies;
    let expected = [Inconsistency::EarlierSchema(Box::new(row.region.clone()))];
    assert_eq!(found, expected);
    // An order to open the region finds it open, and changes nothing.
    let region = pb::RegionSpecifier { r#type: 1, value: row.region.name().clone() };
    life.done(life.master.assign_region(&region)).unwrap();
    assert_eq!(served_versions(&life), [1, 7, 7]);
    assert_eq!(life.master.run_hbck().unwrap().inconsistencies, expected);
    life.master.reopen_failed(&mut Reopening::default());
    life.master.procedures.wait_idle();
    assert_eq!(served_versions(&life), [7, 7, 7]);
    assert_eq!(life.master.alter_status(&pb_name("t")).unwrap(), (0, 3));
    assert!(life.master.run_hbck().unwrap().inconsistencies.is_empty());
}

#[test]
fn a_table_that_is_disabled_and_enabled_serves_with_its_newest_schema() {
    let life = Life::first();
    life.create("t", &["f"], &["g", "m"]).unwrap();
    life.servers.refuse_closes(1);
    alter_versions(&life, "7").unwrap_err();
    life.done(life.master.disable_table(&pb_name("t"), None)).unwrap();
    life.done(life.master.enable_table(&pb_name("t"), None)).unwrap();
    assert_eq!(served_versions(&life), [7, 7, 7]);
    assert_eq!(life.master.alter_status(&pb_name("t")).unwrap(), (0, 3), "nothing is left to be altered");
    assert!(life.master.run_hbck().unwrap().inconsistencies.is_empty());
}

/// If no region can be opened with a schema, most of the table serves on with the old one.
#[test]
fn a_schema_with_which_no_region_opens_leaves_the_others_as_they_are() {
    let life = Life::first();
    life.create("t", &["f"], &["g", "m", "s"]).unwrap();
    let mut reopening = Reopening::default();
    life.servers.refuse_all(true);
    let failure = alter_versions(&life, "7").unwrap_err();
    assert!(failure.message.contains("and 4 of its 4 open regions do not have it yet"), "{failure}");
    let open = life.servers.open_count();
    for _ in 0..2 {
        life.master.reopen_failed(&mut reopening);
        life.master.procedures.wait_idle();
        life.master.world.advance(Duration::from_secs(60));
    }
    assert_eq!(life.servers.open_count(), open, "the chore closes no further region");
    assert_eq!(life.master.alter_status(&pb_name("t")).unwrap(), (4, 4));
    life.servers.refuse_all(false);
    for _ in 0..2 {
        life.master.reopen_failed(&mut reopening);
        life.master.procedures.wait_idle();
        life.master.world.advance(Duration::from_secs(60));
    }
    assert_eq!(served_versions(&life), [7; 4]);
    assert_eq!(life.master.alter_status(&pb_name("t")).unwrap(), (0, 4));
}

#[test]
fn a_clock_that_was_set_back_hides_nothing_that_is_made_anew() {
    let life = Life::first();
    life.create("t", &["f"], &["m"]).unwrap();
    life.done(life.master.disable_table(&pb_name("t"), None)).unwrap();
    life.done(life.master.delete_table(&pb_name("t"), None)).unwrap();
    // The clock is set back by a year before the next start. The fake server refuses a row that an earlier deletion of
    // this row would hide.
    let life = Life::at(life.files.kill(), life.durable.clone(), 1_660_000_000_000).unwrap();
    life.create("t", &["f"], &["m"]).unwrap();
    life.done(life.master.disable_table(&pb_name("t"), None)).unwrap();
    let life = Life::at(life.files.kill(), life.durable.clone(), 1_650_000_000_000).unwrap();
    assert_eq!(life.state("t"), TableState::Disabled);
    life.done(life.master.enable_table(&pb_name("t"), None)).unwrap();
    assert_eq!(life.state("t"), TableState::Enabled);
}

#[test]
fn meta_runs_with_its_new_schema_and_keeps_its_families() {
    let life = Life::first();
    let meta = proto::RegionInfo::meta();
    let name = pb_name("hbase:meta");
    let versions = |life: &Life| {
        let schema = life.servers.schema_of(meta.encoded_name());
        schema.family(b"info").expect("it has it").options().unwrap().versions_max
    };
    assert_eq!(versions(&life), 3);
    let family = pb::ColumnFamilySchema {
        name: "info".into(),
        attributes: vec![pb::BytesBytesPair { first: "VERSIONS".into(), second: "5".into() }],
        ..Default::default()
    };
    life.done(life.master.modify_family(&name, &family, None)).unwrap();
    assert_eq!(versions(&life), 5, "it was opened again with it");
    assert_eq!(life.servers.open_count(), 2);
    let refused = life.done(life.master.delete_family(&name, &"info".into(), None)).unwrap_err();
    assert!(refused.message.contains("hbase:meta column family info"), "{refused}");
    life.create("t", &["f"], &[]).unwrap();
    assert_eq!(versions(&life.next()), 5);
}
