//! Tests of the master with two region servers, which it knows only through the contract.

use std::collections::BTreeSet;

use contract::OnFullDisk;
use proto::catalog::TableState;
use proto::{RegionInfo, pb};

use super::fake::{Life, SERVERS, name, pb_name};

fn regions(life: &Life) -> Vec<RegionInfo> {
    life.master
        .read_view(|view| view.tables[&name("t")].regions.iter().map(|row| row.region.clone()).collect())
}

/// Asserts that hbase:meta names for each region of t the server that has it open, and returns the servers.
fn assert_meta_is_true(life: &Life) -> BTreeSet<String> {
    let rows = life.master.read_view(|view| view.tables[&name("t")].regions.clone());
    let server = |row: &proto::catalog::RegionRow| {
        let open = life.servers.server_of(row.region.encoded_name()).expect("it is open");
        assert_eq!(row.server.as_ref(), Some(&open), "{}", row.region);
        open.host
    };
    rows.iter().map(server).collect()
}

#[test]
fn regions_are_spread_over_the_servers_and_meta_says_where_they_are() {
    let life = Life::first();
    life.create("t", &["f"], &["d", "h", "p"]).unwrap();
    assert_eq!(assert_meta_is_true(&life).len(), 2, "both servers have some");
    let counts: Vec<usize> = SERVERS
        .iter()
        .map(|server| {
            let on = |region: &&RegionInfo| {
                life.servers.server_of(region.encoded_name()).is_some_and(|open| open.to_string() == *server)
            };
            regions(&life).iter().filter(on).count()
        })
        .collect();
    assert_eq!(counts.iter().sum::<usize>(), 4);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn a_region_that_refused_to_close_takes_over_a_schema_while_it_serves() {
    let life = Life::first();
    life.create("t", &["f"], &[]).unwrap();
    life.servers.take_over();
    let region = regions(&life).remove(0);
    let term = life.servers.term_of(region.encoded_name());
    life.servers.refuse_closes(1);
    let unassign = pb::RegionSpecifier { r#type: 1, value: region.name().clone() };
    let failure = life.done(life.master.unassign_region(&unassign)).unwrap_err();
    assert!(failure.message.contains("refused by the test"), "{failure}");
    let family =
        pb::ColumnFamilySchema::from(&proto::FamilyDescriptor::new("f").unwrap().with("VERSIONS", 7));
    life.done(life.master.modify_family(&pb_name("t"), &family, None)).unwrap();
    let schema = life.servers.schema_of(region.encoded_name());
    assert_eq!(schema.families()[0].options().unwrap().versions_max, 7);
    assert_eq!(life.servers.term_of(region.encoded_name()), term, "it was not opened again");
}

#[test]
fn only_a_region_whose_table_is_disabled_may_be_closed_without_a_flush() {
    let life = Life::first();
    life.create("t", &["f"], &[]).unwrap();
    let closings = || std::mem::take(&mut *life.servers.on_full_disk.lock());
    let region = pb::RegionSpecifier { r#type: 1, value: regions(&life).remove(0).name().clone() };
    life.done(life.master.unassign_region(&region)).unwrap();
    life.done(life.master.assign_region(&region)).unwrap();
    assert_eq!(closings(), [OnFullDisk::ServesOn], "it is opened soon, perhaps by another server");
    life.done(life.master.disable_table(&pb_name("t"), None)).unwrap();
    assert_eq!(closings(), [OnFullDisk::KeepsMemory]);
}

#[test]
fn a_reopened_region_goes_back_to_the_server_that_had_it() {
    let life = Life::first();
    life.create("t", &["f"], &["d", "h", "p"]).unwrap();
    let before: Vec<_> =
        regions(&life).iter().map(|region| life.servers.server_of(region.encoded_name())).collect();
    let family = pb::ColumnFamilySchema { name: "g".into(), ..Default::default() };
    life.done(life.master.add_family(&pb_name("t"), &family, None)).unwrap();
    let after: Vec<_> =
        regions(&life).iter().map(|region| life.servers.server_of(region.encoded_name())).collect();
    assert_eq!(before, after);
    assert_meta_is_true(&life);
    let next = life.next();
    let restarted: Vec<_> =
        regions(&next).iter().map(|region| next.servers.server_of(region.encoded_name())).collect();
    assert_eq!(before, restarted, "also after a restart of all");
}

#[test]
fn a_region_moves_to_the_server_that_is_named_and_to_no_dead_one() {
    let life = Life::first();
    life.create("t", &["f"], &[]).unwrap();
    let region = regions(&life).remove(0);
    let specifier = pb::RegionSpecifier { r#type: 1, value: region.name().clone() };
    let from = life.servers.server_of(region.encoded_name()).expect("open");
    let other = SERVERS.iter().find(|server| **server != from.to_string()).expect("there are two");
    let other: proto::ServerName = other.parse().expect("a server's name");
    life.done(life.master.move_region(&specifier, Some(&(&other).into()))).unwrap();
    assert_eq!(life.servers.server_of(region.encoded_name()), Some(other));
    assert_meta_is_true(&life);
    let dead: proto::ServerName = "three,16020,1".parse().expect("a server's name");
    life.done(life.master.move_region(&specifier, Some(&(&dead).into()))).unwrap();
    assert!(life.servers.server_of(region.encoded_name()).is_some(), "it stays where it is");
    life.done(life.master.move_region(&specifier, None)).unwrap();
    assert_eq!(life.servers.server_of(region.encoded_name()), Some(from), "to the other one");
}

#[test]
fn without_a_living_server_a_table_is_not_made_and_nothing_of_it_stays() {
    let life = Life::first();
    life.create("u", &["f"], &[]).unwrap();
    let live = SERVERS;
    let meta = life.servers.server_of(RegionInfo::meta().encoded_name()).expect("open");
    life.servers.set_live(&[]);
    let refused = life.create("t", &["f"], &[]).unwrap_err();
    assert!(refused.message.contains("no region server lives"), "{refused}");
    life.servers.set_live(&live);
    assert!(!life.has("t"));
    assert_eq!(life.servers.server_of(RegionInfo::meta().encoded_name()), Some(meta));
    life.create("t", &["f"], &[]).unwrap();
    assert_eq!(life.state("t"), TableState::Enabled);
}

#[test]
fn a_region_whose_closing_failed_is_closed_again_before_it_opens_under_a_new_term() {
    let life = Life::first();
    life.create("t", &["f"], &[]).unwrap();
    let region = regions(&life).remove(0);
    let specifier = pb::RegionSpecifier { r#type: 1, value: region.name().clone() };
    life.servers.fail_closes(1);
    life.done(life.master.unassign_region(&specifier)).unwrap_err();
    assert_eq!(life.servers.server_of(region.encoded_name()), None);
    life.done(life.master.assign_region(&specifier)).unwrap();
    assert_meta_is_true(&life);
}
