//! Tests of recovery snapshots: which changes take one, with which time to live, and that nothing is destroyed without it.

use proto::pb;
use proto::pb::snapshot_description::Type;
use rpc::Exception;
use storage::Files;

use super::fake::{Life, name, pb_name, schema};
use super::snapshots::names;

fn life_with_table(changes: fn(&mut crate::Options)) -> Life {
    let life = Life::first_with(|options| {
        options.recovery_snapshots = true;
        changes(options);
    });
    life.create("t", &["f", "g"], &["m"]).expect("created");
    life
}

/// Returns the table, type and time to live of the newest snapshot, and forgets it.
fn newest(life: &Life) -> Option<(String, Type, i64)> {
    let mut found = life.master.completed_snapshots().expect("the disk works");
    assert!(found.len() <= 1, "{found:?}");
    let snapshot = found.pop()?;
    let prefix = format!("auto_{}_", snapshot.table().replace(':', "_"));
    let time = snapshot.name.strip_prefix(&prefix).and_then(|time| time.parse::<i64>().ok());
    assert!(time.is_some_and(|time| time > 1_000_000_000_000), "{}", snapshot.name);
    life.master.delete_snapshot(&snapshot.name).expect("deleted");
    Some((snapshot.table().to_owned(), snapshot.r#type(), snapshot.ttl()))
}

fn delete_family(life: &Life) -> Result<(), Exception> {
    life.done(life.master.delete_family(&pb_name("t"), &"g".into(), None))
}

fn truncate_region(life: &Life) -> Result<(), Exception> {
    let region = life.master.read_view(|view| view.tables[&name("t")].regions[0].region.clone());
    life.done(life.master.truncate_region(&(&region).into(), None))
}

fn disable(life: &Life, table: &str) {
    life.done(life.master.disable_table(&pb_name(table), None)).expect("disabled");
}

fn truncate(life: &Life) -> Result<(), Exception> {
    life.done(life.master.truncate_table(&pb_name("t"), true, None))
}

fn delete(life: &Life, table: &str) -> Result<(), Exception> {
    life.done(life.master.delete_table(&pb_name(table), None))
}

/// Gives the table these families and this time to live of its recovery snapshots.
fn set_ttl(life: &Life, table: &str, families: &[&str], ttl: &'static str) {
    let ttl = pb::BytesBytesPair { first: "RECOVERY_SNAPSHOT_TTL".into(), second: ttl.into() };
    let schema = pb::TableSchema { attributes: vec![ttl], ..schema(table, families) };
    life.done(life.master.modify_table(&pb_name(table), &schema, None)).expect("altered");
}

#[test]
fn each_change_that_destroys_rows_takes_a_snapshot_first() {
    let life = life_with_table(|_| ());
    let taken = |kind, ttl| Some(("t".to_owned(), kind, ttl));
    delete_family(&life).expect("deleted");
    assert_eq!(newest(&life), taken(Type::Flush, 86_400));
    truncate_region(&life).expect("truncated");
    assert_eq!(newest(&life), taken(Type::Flush, 86_400));
    set_ttl(&life, "t", &["f"], "77");
    assert_eq!(newest(&life), None, "nothing was destroyed");
    disable(&life, "t");
    truncate(&life).expect("truncated");
    assert_eq!(newest(&life), taken(Type::Disabled, 77));
    set_ttl(&life, "t", &["f"], "soon");
    disable(&life, "t");
    delete(&life, "t").expect("deleted");
    assert_eq!(newest(&life), taken(Type::Disabled, 86_400), "the site's value counts");
}

#[test]
fn the_snapshot_has_what_the_change_destroys() {
    let life = life_with_table(|options| options.recovery_snapshot_ttl = 0);
    delete_family(&life).expect("deleted");
    let manifest = life.master.snapshot_manifest(&names(&life)[0]).expect("readable");
    let families: Vec<_> =
        manifest.table_schema.column_families.iter().map(|family| family.name.clone()).collect();
    assert_eq!(families, ["f", "g"]);
    let lists_g = |region: &&pb::SnapshotRegionManifest| {
        region.family_files.iter().any(|family| family.family_name == "g")
    };
    assert!(manifest.region_manifests.iter().filter(lists_g).count() >= 2, "{manifest:?}");
    assert_eq!(life.master.completed_snapshots().expect("the disk works")[0].ttl(), 0, "it stays");
}

/// HBase gives such a snapshot a name with a colon, fails, and cannot delete the table.
#[test]
fn a_table_of_another_namespace_has_recovery_snapshots_too() {
    let life = life_with_table(|_| ());
    let namespace = pb::NamespaceDescriptor { name: "n".into(), ..Default::default() };
    life.done(life.master.create_namespace(&namespace, None)).expect("created");
    life.create("n:u", &["f"], &[]).expect("created");
    set_ttl(&life, "n:u", &["f"], "-5");
    disable(&life, "n:u");
    delete(&life, "n:u").expect("deleted");
    assert_eq!(newest(&life), Some(("n:u".to_owned(), Type::Disabled, -5)));
}

#[test]
fn nothing_is_destroyed_if_the_snapshot_cannot_be_taken() {
    let life = life_with_table(|_| ());
    let refused = |done: Result<(), Exception>| {
        let refusal = done.expect_err("no snapshot can be taken");
        assert!(
            refusal.message.starts_with("nothing was changed, because the recovery snapshot auto_t_"),
            "{refusal}"
        );
        assert!(refusal.message.ends_with("the list is refused by the test"), "{refusal}");
        assert!(life.master.intents.of(&name("t")).is_empty());
        assert_eq!(names(&life), Vec::<String>::new());
    };
    life.servers.refuse(Some("m"));
    refused(delete_family(&life));
    refused(truncate_region(&life));
    disable(&life, "t");
    refused(truncate(&life));
    refused(delete(&life, "t"));
    life.servers.refuse(None);
    let families = life.master.read_view(|view| view.tables[&name("t")].descriptor.families().len());
    assert_eq!(families, 2);
}

#[test]
fn no_snapshot_is_taken_unless_both_keys_are_true() {
    for (recovery, snapshots) in [(false, true), (true, false)] {
        let life = Life::first_with(|options| {
            (options.recovery_snapshots, options.snapshots_enabled) = (recovery, snapshots);
        });
        life.create("t", &["f", "g"], &["m"]).expect("created");
        delete_family(&life).expect("deleted");
        truncate_region(&life).expect("truncated");
        disable(&life, "t");
        delete(&life, "t").expect("deleted");
        let objects = life.files.list(&layout::snapshots()).expect("listed");
        assert!(objects.is_empty(), "{objects:?}");
    }
}
