//! Tests which store file trackers a table may name, and how they change. The messages are those of HBase 2.6.4.

use proto::descriptor::tracker::{MIGRATION_SOURCE, MIGRATION_TARGET, TRACKER};
use proto::pb;

use super::fake::{Life, name, pb_name, schema};
use super::snapshots::{clone, request, take};

/// Returns a schema with these attributes of the table and this configuration of the family `f`.
fn saying(table: &str, of_table: &[(&str, &str)], of_family: &[(&str, &str)]) -> pb::TableSchema {
    let mut schema = schema(table, &["f"]);
    schema.attributes = of_table
        .iter()
        .map(|(key, value)| pb::BytesBytesPair {
            first: (*key).to_owned().into(),
            second: (*value).to_owned().into(),
        })
        .collect();
    schema.column_families[0].configuration = of_family
        .iter()
        .map(|(key, value)| pb::NameStringPair { name: (*key).into(), value: (*value).into() })
        .collect();
    schema
}

fn create(life: &Life, schema: &pb::TableSchema) -> String {
    said(life.done(life.master.create_table(schema, &[], None)))
}

fn alter(life: &Life, schema: &pb::TableSchema) -> String {
    let table = schema.table_name.clone().expect("a name");
    said(life.done(life.master.modify_table(&table, schema, None)))
}

fn change(life: &Life, table: &str, family: Option<&'static str>, tracker: &str) -> String {
    let family = family.map(bytes::Bytes::from);
    said(life.done(life.master.change_tracker(&pb_name(table), family.as_ref(), tracker, None)))
}

fn said(outcome: Result<(), rpc::Exception>) -> String {
    outcome.map_or_else(|refusal| refusal.to_string(), |()| "done".to_owned())
}

/// Returns the trackers that a table and its family `f` name.
fn shown(life: &Life, table: &str) -> String {
    let table = life.master.read_view(|view| view.tables[&name(table)].descriptor.clone());
    let short = |key: &str, value: &str| {
        let keys = [(TRACKER, "impl"), (MIGRATION_SOURCE, "src"), (MIGRATION_TARGET, "dst")];
        keys.iter().find(|(known, _)| *known == key).map(|(_, short)| format!("{short}={value}"))
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let of_table = table.attributes().iter().filter_map(|(key, value)| short(&text(key), &text(value)));
    let family = table.family(b"f").expect("there");
    let of_family = family.configuration().iter().filter_map(|(key, value)| short(key, value));
    format!("{} | {}", of_table.collect::<Vec<_>>().join(" "), of_family.collect::<Vec<_>>().join(" "))
}

const REFUSED: &str = "org.apache.hadoop.hbase.DoNotRetryIOException: ";
const UNKNOWN: &str = "java.lang.RuntimeException: java.lang.RuntimeException: java.lang.ClassNotFoundException: Class \
                       no.Such not found";

#[test]
fn a_new_table_names_default_or_file_as_its_user_wrote_it_or_the_sites_tracker() {
    let life = Life::first();
    for (table, of_table, of_family, names) in [
        ("t1", &[][..], &[][..], "impl=FILE | "),
        ("t2", &[(TRACKER, "DEFAULT")], &[], "impl=DEFAULT | "),
        ("t3", &[(TRACKER, "default")], &[(TRACKER, "FILE")], "impl=default | impl=FILE"),
        ("t4", &[(TRACKER, "")], &[(TRACKER, "DEFAULT")], "impl=FILE | impl=DEFAULT"),
    ] {
        assert_eq!(create(&life, &saying(table, of_table, of_family)), "done");
        assert_eq!(shown(&life, table), names);
    }
    let migration = "Should not use MIGRATION as store file tracker for new family f of table u";
    for (of_table, of_family, words) in [
        (&[(TRACKER, "MIGRATION")][..], &[][..], format!("{REFUSED}{migration}")),
        (&[], &[(TRACKER, "migration")], format!("{REFUSED}{migration}")),
        (&[(TRACKER, "no.Such")], &[], UNKNOWN.to_owned()),
        (&[], &[(TRACKER, "no.Such")], UNKNOWN.to_owned()),
    ] {
        assert_eq!(create(&life, &saying("u", of_table, of_family)), words);
        assert!(!life.has("u"));
    }
}

#[test]
fn a_schema_changes_its_tracker_by_a_migration_only() {
    let life = Life::first();
    let migrating = |source, target| {
        saying("t", &[(TRACKER, "MIGRATION"), (MIGRATION_SOURCE, source), (MIGRATION_TARGET, target)], &[])
    };
    assert_eq!(create(&life, &saying("t", &[(TRACKER, "DEFAULT")], &[])), "done");
    for (schema, words) in [
        (
            saying("t", &[(TRACKER, "FILE")], &[]),
            "Should change to MIGRATION first when migrating from DEFAULT",
        ),
        (
            migrating("FILE", "DEFAULT"),
            "Should use src tracker DEFAULT first but got FILE when migrating from DEFAULT",
        ),
        (migrating("DEFAULT", "default"), "The src tracker and dst tracker are both DEFAULT"),
    ] {
        assert_eq!(alter(&life, &schema), format!("{REFUSED}{words} for family f of table t"));
    }
    for (schema, words) in [
        (saying("t", &[(TRACKER, "no.Such")], &[]), UNKNOWN.to_owned()),
        (
            saying("t", &[(TRACKER, "MIGRATION"), (MIGRATION_SOURCE, "DEFAULT")], &[]),
            format!("java.lang.NullPointerException: config {MIGRATION_TARGET} is not set"),
        ),
        (
            migrating("DEFAULT", "no.Such"),
            "java.lang.RuntimeException: java.lang.ClassNotFoundException: no.Such".to_owned(),
        ),
        (
            migrating("DEFAULT", "MIGRATION"),
            format!(
                "java.lang.IllegalArgumentException: Should not specify {MIGRATION_TARGET} as MIGRATION because it can \
                 not be nested"
            ),
        ),
    ] {
        assert_eq!(alter(&life, &schema), words);
    }
    assert_eq!(shown(&life, "t"), "impl=DEFAULT | ");

    assert_eq!(alter(&life, &migrating("DEFAULT", "FILE")), "done");
    assert_eq!(shown(&life.next(), "t"), "impl=MIGRATION src=DEFAULT dst=FILE | ");
    let life = life.next();
    for (schema, words) in [
        (migrating("FILE", "FILE"), "The src tracker has been changed from DEFAULT to FILE"),
        (migrating("DEFAULT", "DEFAULT"), "The dst tracker has been changed from FILE to DEFAULT"),
        (saying("t", &[(TRACKER, "DEFAULT")], &[]), "Should migrate tracker to FILE but got DEFAULT"),
    ] {
        assert_eq!(alter(&life, &schema), format!("{REFUSED}{words} for family f of table t"));
    }
    life.done(life.master.disable_table(&pb_name("t"), None)).unwrap();
    let end = saying("t", &[(TRACKER, "FILE")], &[]);
    assert_eq!(
        alter(&life, &end),
        "org.apache.hadoop.hbase.TableNotEnabledException: Should not change store file tracker implementation from \
         MIGRATION while table t is disabled"
    );
    life.done(life.master.enable_table(&pb_name("t"), None)).unwrap();
    assert_eq!(alter(&life, &end), "done");
    assert_eq!(shown(&life, "t"), "impl=FILE | ");
    let mut added = saying("t", &[(TRACKER, "FILE")], &[]);
    added.column_families.push(saying("t", &[], &[(TRACKER, "MIGRATION")]).column_families.remove(0));
    added.column_families[1].name = "g".into();
    assert_eq!(
        alter(&life, &added),
        format!("{REFUSED}Should not use MIGRATION as store file tracker for new family g of table t")
    );
}

#[test]
fn change_sft_goes_from_any_tracker_to_default_or_file() {
    let life = Life::first();
    assert_eq!(create(&life, &saying("t", &[], &[])), "done");
    for (family, tracker, names) in [
        (None, "file", "impl=FILE | "),
        (None, "DEFAULT", "impl=DEFAULT | "),
        (Some("f"), "default", "impl=DEFAULT | "),
        (Some("f"), "FILE", "impl=DEFAULT | impl=FILE"),
        (None, "file", "impl=file | impl=FILE"),
        (None, "DEFAULT", "impl=DEFAULT | impl=FILE"),
        (Some("f"), "DEFAULT", "impl=DEFAULT | impl=DEFAULT"),
    ] {
        assert_eq!(change(&life, "t", family, tracker), "done");
        assert_eq!(shown(&life, "t"), names);
    }
    let migrating = [(TRACKER, "MIGRATION"), (MIGRATION_SOURCE, "DEFAULT"), (MIGRATION_TARGET, "FILE")];
    for tracker in ["FILE", "DEFAULT"] {
        let table = format!("of {tracker}").replace(' ', "-");
        assert_eq!(create(&life, &saying(&table, &[(TRACKER, "DEFAULT")], &[])), "done");
        assert_eq!(alter(&life, &saying(&table, &migrating, &[])), "done");
        assert_eq!(change(&life, &table, None, tracker), "done");
        assert_eq!(shown(&life, &table), format!("impl={tracker} | "));
    }
    let life = life.next();
    assert_eq!(shown(&life, "t"), "impl=DEFAULT | impl=DEFAULT");
    for (table, family, tracker, words) in [
        ("t", None, "MIGRATION", format!("{REFUSED}Do not need to transfer to MIGRATION")),
        ("t", None, "no.Such", "java.io.IOException: java.lang.ClassNotFoundException: no.Such".to_owned()),
        ("t", None, "TABLE", "java.io.IOException: java.lang.ClassNotFoundException: TABLE".to_owned()),
        (
            "t",
            Some("x"),
            "FILE",
            "org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException: x does not exist for table t"
                .to_owned(),
        ),
        ("absent", None, "FILE", "org.apache.hadoop.hbase.TableNotFoundException: absent".to_owned()),
    ] {
        assert_eq!(change(&life, table, family, tracker), words);
    }
    assert_eq!(change(&life, "hbase:meta", None, "DEFAULT"), "done");
    let meta = life.next().master.read_view(|view| view.tables[&name("hbase:meta")].descriptor.clone());
    assert_eq!(meta.attributes().text(TRACKER), Some("DEFAULT"));
}

#[test]
fn a_restoration_keeps_trackers_and_a_clone_may_have_another() {
    let life = Life::first();
    assert_eq!(create(&life, &saying("t", &[(TRACKER, "DEFAULT")], &[(TRACKER, "DEFAULT")])), "done");
    take(&life, "s", "t").expect("taken");
    assert_eq!(change(&life, "t", Some("f"), "FILE"), "done");
    life.done(life.master.disable_table(&pb_name("t"), None)).unwrap();
    let package = "org.apache.hadoop.hbase.regionserver.storefiletracker";
    assert_eq!(
        said(clone(&life, "s", "t")),
        format!(
            "org.apache.hadoop.hbase.snapshot.RestoreSnapshotException: Restoring Snapshot is not possible because  the \
             config for column family f has incompatible configuration. Current SFT: class \
             {package}.FileBasedStoreFileTracker SFT from snapshot: class {package}.DefaultStoreFileTracker"
        )
    );
    clone(&life, "s", "same").expect("cloned");
    assert_eq!(shown(&life, "same"), "impl=DEFAULT | impl=DEFAULT");
    let chosen = |table: &str, tracker: &str| {
        let request = pb::RestoreSnapshotRequest {
            snapshot: request("s", table),
            custom_sft: Some(tracker.into()),
            ..Default::default()
        };
        said(life.done(life.master.restore_snapshot(&request)))
    };
    assert_eq!(chosen("chosen", "file"), "done");
    assert_eq!(shown(&life, "chosen"), "impl=file | ");
    let migration = "Should not use MIGRATION as store file tracker for new family f of table none";
    assert_eq!(chosen("none", "MIGRATION"), format!("{REFUSED}{migration}"));
    assert_eq!(chosen("none", "no.Such"), UNKNOWN);
    assert!(!life.has("none"));
}
