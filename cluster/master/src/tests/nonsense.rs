//! Tests that damaged or missing catalog rows and files make only their own table unavailable. All other tables must be
//! served.

use std::sync::Arc;

use bytes::Bytes;
use contract::{CatalogEdit, CatalogRow, Stamp};
use env::{WallTime, World};
use proto::catalog::{self, Column, RegionRow, TableState};
use proto::region_info::regions_between;
use proto::{RegionId, RegionInfo, TableDescriptor, pb};
use rpc::class;
use storage::memory::Fault;
use storage::{Files, Kind, Memory, Outcome};

use super::fake::{Life, name, pb_name, schema};
use crate::descriptors;
use crate::intents::{Intent, Intents};

fn put(
    life: &Life,
    row: &'static str,
    family: &'static [u8],
    qualifier: &'static [u8],
    value: &'static [u8],
) {
    let column = Column {
        family: Bytes::from_static(family),
        qualifier: Bytes::from_static(qualifier),
        value: Bytes::from_static(value),
    };
    let edit =
        CatalogEdit::Put(CatalogRow { key: Bytes::from_static(row.as_bytes()), columns: vec![column] });
    life.servers
        .write(RegionInfo::meta().encoded_name(), Stamp(1_900_000_000_000), vec![edit])
        .expect("hbase:meta takes anything");
}

#[test]
fn rows_of_meta_that_make_no_sense_are_left_alone() {
    let region_info: [&[u8]; 2] = [b"xyz", b"PBUF\xff\xff\xff"];
    for value in region_info {
        let life = Life::first();
        life.create("t", &["f"], &["m"]).unwrap();
        put(&life, "garbage", catalog::INFO, catalog::REGION_INFO, value);
        life.create("u", &["f"], &[]).unwrap();
        assert_eq!(life.next().state("t"), TableState::Enabled, "{}", value.escape_ascii());
    }
    for (row, value) in [("t", &[8, 99][..]), ("nosuch", &[8, 0]), ("no such table", &[8, 0])] {
        let life = Life::first();
        life.create("t", &["f"], &["m"]).unwrap();
        put(&life, row, catalog::TABLE, catalog::STATE, value);
        let next = life.next();
        assert_eq!((next.state("t"), next.servers.open_count()), (TableState::Enabled, 4), "{row}");
        next.create("u", &["f"], &[]).unwrap();
    }
}

#[test]
fn a_region_whose_state_makes_no_sense_is_opened() {
    for (qualifier, value) in
        [(&b"state"[..], &b"NOTASTATE"[..]), (b"seqnumDuringOpen", b"1"), (b"server", b"nowhere")]
    {
        let life = Life::first();
        life.create("t", &["f"], &[]).unwrap();
        let region = life.master.read_view(|view| view.tables[&name("t")].regions[0].key());
        let column = Column {
            family: Bytes::from_static(catalog::INFO),
            qualifier: Bytes::from_static(qualifier),
            value: Bytes::from_static(value),
        };
        let edit = CatalogEdit::Put(CatalogRow { key: region, columns: vec![column] });
        let meta = RegionInfo::meta();
        life.servers.write(meta.encoded_name(), Stamp(1_900_000_000_000), vec![edit]).unwrap();
        let next = life.next();
        assert_eq!((next.state("t"), next.servers.open_count()), (TableState::Enabled, 3));
    }
}

#[test]
fn a_table_without_a_descriptor_is_out_of_reach_and_keeps_its_files() {
    let life = Life::first();
    life.create("t", &["f"], &[]).unwrap();
    life.create("u", &["f"], &[]).unwrap();
    let kept = life.put_store_file("t", "f");
    let region = life.master.read_view(|view| view.tables[&name("t")].regions[0].region.clone());
    for entry in life.files.list(&layout::descriptors(&name("t"))).unwrap() {
        life.files.delete(&entry.name).unwrap();
    }
    let next = life.next();
    assert_eq!((next.has("t"), next.state("u")), (false, TableState::Enabled));
    assert!(next.servers.was_kept(region.encoded_name()), "the log may hold what is not in its files");
    let refused = next.create("t", &["f"], &[]).unwrap_err();
    assert!(refused.message.contains(".tableinfo"), "{refused}");
    assert!(next.files_of("t").contains(&kept));
    // With its descriptor the table is served again.
    let table = TableDescriptor::try_from(schema("t", &["f"])).unwrap();
    descriptors::write(&next.files, &table, WallTime(1)).unwrap();
    assert_eq!(next.next().state("t"), TableState::Enabled);
}

/// Starts the next master on `files`, and fails the storage call number `act`; returns `None` if the start fails.
fn start_with_fault(life: &Life, files: Memory, act: u64) -> Option<Life> {
    let (act, outcome) = (files.acts() + act, Outcome::DidNotHappen);
    files.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last: false }));
    Life::on(files, life.durable.clone()).ok()
}

#[test]
fn a_change_that_cannot_be_finished_keeps_only_its_table_from_serving() {
    let life = Life::first();
    life.create("t", &["f"], &[]).unwrap();
    let table = Arc::new(TableDescriptor::try_from(schema("u", &["f"])).unwrap());
    let regions = regions_between(table.name(), &[], RegionId(7)).unwrap();
    let world = World::simulated(1, WallTime(1));
    let intents = Intents::open(Arc::new(life.files.clone()), &world, Arc::default()).unwrap();
    intents.begin(Intent::Create { table, regions }).unwrap();
    let mut out_of_reach = 0;
    for act in 1..20 {
        let Some(next) = start_with_fault(&life, life.files.kill(), act) else { continue };
        assert_eq!(next.state("t"), TableState::Enabled);
        if !next.has("u") {
            out_of_reach += 1;
            assert_eq!(next.next().state("u"), TableState::Enabled, "the next start finishes it");
        }
    }
    assert!(out_of_reach > 0, "no act of a start was one of the unfinished change");
}

#[test]
fn a_table_that_a_start_left_out_is_in_reach_once_its_change_is_finished() {
    let life = Life::first();
    life.create("t", &["f"], &["m"]).unwrap();
    let created = Arc::new(TableDescriptor::try_from(schema("u", &["f"])).unwrap());
    let regions = regions_between(created.name(), &[], RegionId(7)).unwrap();
    let altered = Arc::new(TableDescriptor::try_from(schema("t", &["f", "g"])).unwrap());
    let intents = [
        ("u", Intent::Create { table: created, regions }, 1),
        ("t", Intent::Alter { table: Arc::clone(&altered) }, 2),
        ("t", Intent::DeleteFamilies { table: altered, families: vec!["h".into()] }, 2),
    ];
    for (table, intent, regions) in intents {
        let mut left_out = 0;
        for act in 1..40 {
            let files = life.files.kill();
            let world = World::simulated(1, WallTime(1));
            let before = Intents::open(Arc::new(files.clone()), &world, Arc::default()).unwrap();
            before.begin(intent.clone()).unwrap();
            let Some(next) = start_with_fault(&life, files, act) else { continue };
            let was_left_out = next.master.is_left_out(&name(table));
            left_out += usize::from(was_left_out);
            // What the chore does every ten seconds.
            next.master.carry_on_what_waits();
            next.master.wait_idle();
            assert_eq!(next.state(table), TableState::Enabled, "act {act} of {intent:?}");
            let rows = next.master.read_view(|view| view.tables[&name(table)].regions.clone());
            let open = |row: &RegionRow| next.servers.server_of(row.region.encoded_name()).is_some();
            assert_eq!(rows.iter().filter(|row| open(row)).count(), regions, "act {act} of {intent:?}");
            assert!(!next.master.is_left_out(&name(table)));
        }
        assert!(left_out > 0, "no act of a start was one of {intent:?}");
    }
}

#[test]
fn a_creation_that_failed_and_could_not_be_taken_back_is_taken_back_later() {
    for writes in 0..2 {
        let life = Life::first();
        life.servers.die_after(Some(writes));
        life.create("t", &["f"], &["m"]).unwrap_err();
        assert!(life.create("u", &["f"], &[]).is_err(), "it is as it was");
        life.master.wait_idle();
        life.servers.die_after(None);
        life.create("v", &["f"], &[]).unwrap();
        life.master.wait_idle();
        for table in ["t", "u"] {
            assert!(life.master.intents.of(&name(table)).is_empty() && life.files_of(table).is_empty());
        }
        let next = life.next();
        assert_eq!((next.has("t"), next.has("u"), next.state("v")), (false, false, TableState::Enabled));
    }
}

#[test]
fn a_creation_whose_rows_are_written_after_its_failure_leaves_nothing() {
    for writes in 0..5 {
        let life = Life::first();
        life.servers.stick();
        life.servers.die_after(Some(writes));
        life.create("t", &["f"], &["m"]).unwrap_err();
        life.servers.die_after(None);
        // What the chore does every ten seconds.
        life.master.carry_on_what_waits();
        life.master.procedures.wait_idle();
        life.servers.release_stuck();
        let content = life.master.catalog.read().unwrap();
        let is_there = content.regions.contains_key(&name("t")) || content.states.contains_key(&name("t"));
        assert!(!is_there, "{writes} writes: {:?}", content.regions);
        assert!(!life.has("t") && life.files_of("t").is_empty(), "{writes} writes");
        assert_eq!(life.servers.open_count(), 2, "{writes} writes: hbase:meta and hbase:namespace");
        assert!(!life.next().has("t"), "{writes} writes");
    }
}

#[test]
fn a_creation_whose_undoing_fails_at_any_act_leaves_nothing() {
    for act in 1..40 {
        let life = Life::first();
        life.servers.refuse(Some("m"));
        let fault = Fault {
            act: life.files.acts() + act,
            kind: Kind::Failed,
            outcome: Outcome::DidNotHappen,
            last: false,
        };
        life.files.set_fault(Some(fault));
        life.create("t", &["f"], &["m"]).unwrap_err();
        life.files.set_fault(None);
        life.servers.refuse(None);
        // What the chore does every ten seconds.
        life.master.carry_on_what_waits();
        life.master.wait_idle();
        let content = life.master.catalog.read().unwrap();
        assert!(!content.states.contains_key(&name("t")), "act {act}: {:?}", content.states);
        assert!(!content.regions.contains_key(&name("t")), "act {act}");
        assert!(life.files_of("t").is_empty() && !life.has("t"), "act {act}");
        assert_eq!(life.servers.open_count(), 2, "act {act}: hbase:meta and hbase:namespace");
    }
}

#[test]
fn names_that_no_folder_can_have_and_ciphers_are_refused() {
    let life = Life::first();
    let long = "x".repeat(256);
    let refused = life.create(&long, &["f"], &[]).unwrap_err();
    assert!(refused.message.contains("256 bytes"), "{refused}");
    life.create(&long[1..], &["f"], &[]).unwrap();
    let namespace = pb::NamespaceDescriptor { name: Bytes::from(long), configuration: Vec::new() };
    assert!(life.done(life.master.create_namespace(&namespace, None)).is_err());
    let mut ciphered = schema("t", &["f"]);
    ciphered.column_families[0].attributes =
        vec![pb::BytesBytesPair { first: "ENCRYPTION".into(), second: "AES".into() }];
    let refused = life.done(life.master.create_table(&ciphered, &[], None)).unwrap_err();
    assert!(refused.message.contains("Cipher AES of family f"), "{refused}");
    let refused = life.done(life.master.disable_table(&pb_name("hbase:namespace"), None)).unwrap_err();
    assert_eq!(refused.class, class::CONSTRAINT);
    assert_eq!(life.next().master.namespaces().len(), 2);
}
