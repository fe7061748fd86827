//! The chore that requests compactions of MOB families.

use proto::pb;

use super::fake::{Life, name, pb_name, schema};

/// Returns the schema of the table `large`, whose second family is a MOB family.
fn schema_with_mob() -> pb::TableSchema {
    let mut large = schema("large", &["plain", "mob"]);
    let is_mob = pb::BytesBytesPair { first: "IS_MOB".into(), second: "true".into() };
    large.column_families[1].attributes.push(is_mob);
    large
}

#[test]
fn every_open_region_of_an_enabled_table_is_asked_to_compact_its_mob_families() {
    let life = Life::first();
    let mut large = schema_with_mob();
    let splits = ["m".into()];
    life.done(life.master.create_table(&large, &splits, None)).expect("created");
    large.table_name = Some(pb_name("disabled"));
    life.done(life.master.create_table(&large, &splits, None)).expect("created");
    life.done(life.master.disable_table(&pb_name("disabled"), None)).expect("disabled");
    life.create("plain", &["f"], &[]).expect("created");

    life.master.compact_mob_families();
    let expected: Vec<_> = life.master.read_view(|view| {
        let regions = view.tables[&name("large")].serving();
        regions.map(|row| (row.region.encoded_name().clone(), vec!["mob".into()])).collect()
    });
    assert_eq!(expected.len(), 2);
    assert_eq!(*life.servers.compacted.lock(), expected);
}
