//! Tests that of a region that a client describes only the name counts. A description may lack the end key, and have marks.

use proto::{RegionInfo, pb};

use super::fake::{Life, name};
use crate::view::covers_all_rows;

/// Returns the regions of t that serve rows.
fn serving(life: &Life) -> Vec<RegionInfo> {
    life.master.read_view(|view| view.tables[&name("t")].serving().map(|row| row.region.clone()).collect())
}

/// Asserts that each row of t belongs to one region that is open, before and after the next start.
fn assert_whole(life: &Life) {
    for life in [life, &life.next()] {
        let is_whole = life.master.read_view(|view| covers_all_rows(view.tables[&name("t")].serving()));
        assert!(is_whole, "{:?}", serving(life));
        assert!(serving(life).iter().all(|region| life.servers.server_of(region.encoded_name()).is_some()));
    }
}

fn life() -> Life {
    let life = Life::first();
    life.create("t", &["f"], &["b", "d"]).expect("created");
    life
}

#[test]
fn a_split_of_a_region_without_its_end_key_keeps_the_end_key() {
    let life = life();
    let described = pb::RegionInfo { end_key: None, ..(&serving(&life)[1]).into() };
    life.done(life.master.split_region(&described, Some("c".into()), None)).expect("split");
    let starts: Vec<_> = serving(&life).iter().map(|region| region.start_key().clone()).collect();
    assert_eq!(starts, ["", "b", "c", "d"]);
    assert_whole(&life);
    let described = pb::RegionInfo { end_key: Some("x".into()), ..(&serving(&life)[1]).into() };
    life.done(life.master.split_region(&described, Some("m".into()), None))
        .expect_err("not inside the region");
    assert_whole(&life);
}

#[test]
fn a_truncation_of_a_region_with_marks_leaves_it_without() {
    for (offline, split) in [(true, true), (false, true), (true, false)] {
        let life = life();
        let before = serving(&life);
        let (offline, split) = (Some(offline), Some(split));
        let described = pb::RegionInfo { end_key: None, offline, split, ..(&before[1]).into() };
        life.done(life.master.truncate_region(&described, None)).expect("truncated");
        assert_eq!(serving(&life), before);
        assert_whole(&life);
    }
}
