//! Tests of changes of schemas that fail: what the client is told is what the next start finds.

use std::sync::Arc;

use proto::descriptor::tracker::TRACKER;
use proto::{RegionInfo, TableDescriptor, pb};
use rpc::{Exception, class};
use storage::memory::Fault;
use storage::{Files, Kind, Outcome};

use super::fake::{Life, name, pb_name, schema};
use crate::reopen::Reopening;

fn descriptor(life: &Life, table: &str) -> Arc<TableDescriptor> {
    life.master.read_view(|view| Arc::clone(&view.tables[&name(table)].descriptor))
}

fn with_versions(family: &'static str, count: &'static str) -> pb::ColumnFamilySchema {
    let versions = pb::BytesBytesPair { first: "VERSIONS".into(), second: count.into() };
    pb::ColumnFamilySchema { name: family.into(), attributes: vec![versions], ..Default::default() }
}

type Change = fn(&Life) -> Result<(), Exception>;
type Check = fn(&TableDescriptor) -> bool;

#[test]
fn a_change_that_is_reported_as_failed_is_not_found_by_the_next_start() {
    let changes: [(Change, Check); 2] = [
        (
            |life| life.done(life.master.modify_family(&pb_name("t"), &with_versions("f", "7"), None)),
            |table| {
                table.family(b"f").is_some_and(|family| family.options().expect("good").versions_max == 7)
            },
        ),
        (
            |life| life.done(life.master.change_tracker(&pb_name("t"), None, "DEFAULT", None)),
            |table| table.attributes().text(TRACKER) == Some("DEFAULT"),
        ),
    ];
    for (change, is_made) in changes {
        let (mut failed, mut kept_old) = (0, 0);
        for act in 1..15 {
            let life = Life::first();
            life.create("t", &["f"], &["m"]).expect("created");
            let (act, outcome) = (life.files.acts() + act, Outcome::DidNotHappen);
            life.files.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last: false }));
            let changed = change(&life);
            life.files.set_fault(None);
            let described = life.files.list(&layout::descriptors(&name("t"))).expect("listed").len();
            if changed.is_err() && !life.master.intents.of(&name("t")).is_empty() {
                // The chore carries the change out, as after any failure that leaves an intent.
                continue;
            }
            failed += usize::from(changed.is_err());
            kept_old += usize::from(changed.is_ok() && described == 2);
            assert_eq!(is_made(&descriptor(&life, "t")), changed.is_ok(), "act {act}: {changed:?}");
            assert_eq!(is_made(&descriptor(&life.next(), "t")), changed.is_ok(), "act {act}: {changed:?}");
        }
        assert!(failed > 0 && kept_old == 1, "{failed} failures, {kept_old} deletions that failed");
    }
}

#[test]
fn hbase_meta_that_cannot_be_opened_after_an_alter_is_opened_later() {
    for is_disk_full in [false, true] {
        let life = Life::first();
        life.create("t", &["f"], &[]).expect("created");
        let old = descriptor(&life, "hbase:meta");
        let meta = RegionInfo::meta();
        life.servers.refuse(Some(""));
        if is_disk_full {
            // The old schema cannot be stored again.
            life.servers.fill_at_close();
        }
        let changed = life.master.modify_family(&pb_name("hbase:meta"), &with_versions("info", "7"), None);
        let failure = life.done(changed).expect_err("hbase:meta cannot be opened");
        assert!(failure.message.contains("refused by the test"), "{failure}");
        assert_eq!(life.servers.server_of(meta.encoded_name()), None);
        let closed: Vec<_> = life.master.failed_regions().iter().map(ToString::to_string).collect();
        assert!(closed.len() == 1 && closed[0].contains("hbase:meta"), "{closed:?}");
        life.servers.refuse(None);
        life.files.set_bytes_max(None);
        // What the chore does every ten seconds.
        life.master.carry_on_what_waits();
        life.master.procedures.wait_idle();
        life.master.reopen_failed(&mut Reopening::default());
        life.master.procedures.wait_idle();
        assert!(life.servers.server_of(meta.encoded_name()).is_some(), "disk full: {is_disk_full}");
        assert_eq!(life.servers.schema_of(meta.encoded_name()), old);
        assert!(life.master.failed_regions().is_empty());
        life.create("u", &["f"], &[]).expect("hbase:meta is written");
        let content = life.master.catalog.read().expect("hbase:meta is read");
        assert!(!content.regions.contains_key(&name("hbase:meta")), "no catalog lists it");
        assert!(life.next().has("u"));
    }
}

/// Returns a schema with these attributes of the table.
fn with_attributes(schema: pb::TableSchema, attributes: &[(&'static str, &'static str)]) -> pb::TableSchema {
    let pair = |(first, second): &(&'static str, &'static str)| pb::BytesBytesPair {
        first: (*first).into(),
        second: (*second).into(),
    };
    pb::TableSchema { attributes: attributes.iter().map(pair).collect(), ..schema }
}

#[test]
fn a_change_that_reopens_no_region_is_stored_and_reaches_a_region_when_it_is_opened() {
    let life = Life::first();
    life.create("t", &["f"], &["m"]).expect("created");
    let schema = with_attributes(schema("t", &["f"]), &[("READONLY", "true")]);
    let regions = || {
        life.master.read_view(|view| {
            let rows = view.tables[&name("t")].serving();
            rows.map(|row| row.region.encoded_name().clone()).collect::<Vec<_>>()
        })
    };
    let is_read_only = |table: &TableDescriptor| table.attributes().text("READONLY") == Some("true");
    life.done(life.master.modify_table_without_reopening(&pb_name("t"), &schema, None)).expect("stored");
    assert!(is_read_only(&descriptor(&life, "t")), "clients see it");
    assert_eq!(life.master.alter_status(&pb_name("t")).expect("known"), (0, 2));
    let first = regions().remove(0);
    for region in regions() {
        assert!(!is_read_only(&life.servers.schema_of(&region)), "no region was altered or opened");
    }
    life.done(life.master.disable_table(&pb_name("t"), None)).expect("disabled");
    life.done(life.master.enable_table(&pb_name("t"), None)).expect("enabled");
    assert!(is_read_only(&life.servers.schema_of(&first)));
    assert!(is_read_only(&descriptor(&life.next(), "t")), "it is stored");
}

#[test]
fn a_change_that_needs_reopened_regions_is_refused_if_none_may_be_reopened() {
    type Case = (&'static [&'static str], &'static [(&'static str, &'static str)], String);
    const COPROCESSOR: (&str, &str) =
        ("coprocessor$1", "|org.apache.hadoop.hbase.coprocessor.AggregateImplementation|1|");
    let families = "Cannot add or remove column families when this modification won't reopen regions.";
    let property =
        |key: &str| format!("Can not modify {key} of a table when modification won't reopen regions");
    let refused: [Case; 7] = [
        (&["f"], &[], families.into()),
        (&["f", "g", "h"], &[], families.into()),
        // HBase allows this, because the number of families stays the same.
        (&["f", "h"], &[], families.into()),
        (
            &["f", "g"],
            &[COPROCESSOR],
            "Can not modify Coprocessor when table modification won't reopen regions".into(),
        ),
        (&["f", "g"], &[("REGION_REPLICATION", "3")], property("REGION_REPLICATION")),
        (&["f", "g"], &[("REGION_MEMSTORE_REPLICATION", "false")], property("REGION_MEMSTORE_REPLICATION")),
        (&["f", "g"], &[("hbase.rsgroup.name", "other")], property("hbase.rsgroup.name")),
    ];
    let life = Life::first();
    life.create("t", &["f", "g"], &[]).expect("created");
    let old = descriptor(&life, "t");
    for (names, attributes, words) in refused {
        let wanted = with_attributes(schema("t", names), attributes);
        let refusal = life.master.modify_table_without_reopening(&pb_name("t"), &wanted, None).unwrap_err();
        assert_eq!((refusal.class.as_ref(), refusal.message), (class::HBASE_IO, words));
        assert_eq!(descriptor(&life, "t"), old);
    }
    // With a coprocessor that stays, other attributes may change.
    let with_one = with_attributes(schema("t", &["f", "g"]), &[COPROCESSOR]);
    life.done(life.master.modify_table(&pb_name("t"), &with_one, None)).expect("reopened");
    let with_two = with_attributes(schema("t", &["f", "g"]), &[COPROCESSOR, ("READONLY", "true")]);
    life.done(life.master.modify_table_without_reopening(&pb_name("t"), &with_two, None)).expect("stored");
}
