//! Tests that kill the master at every write that a change makes to the disk and to hbase:meta. The next master must
//! find the change complete or not begun, and must be able to continue.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use contract::CatalogEdit;
use proto::catalog::{RegionRow, RegionState, TableState};
use proto::{RegionInfo, pb};
use rpc::Exception;
use storage::memory::Fault;
use storage::{Files, Kind, Outcome};

use super::fake::{Life, name, pb_name, schema};
use super::snapshots::{clone, names, take};
use crate::procedure::ProcedureKind;
use crate::view::covers_all_rows;

type Change = fn(&Life) -> Result<(), Exception>;

/// Runs `before` and then `change` again and again, and kills the master one step later each time, until `change`
/// completes. `check` gets the next master, and whether the change was reported as done.
fn at_every_act(before: Change, change: Change, check: impl Fn(&Life, bool)) {
    let prepared = || {
        let life = Life::first();
        before(&life).expect("the preparation works");
        life
    };
    // First the writes to the disk: the write fails, or takes effect but reports failure; afterwards no call works.
    let mut cut = 0;
    for outcome in [Outcome::DidNotHappen, Outcome::MayHaveHappened] {
        for act in 1.. {
            let life = prepared();
            let fault = Fault { act: life.files.acts() + act, kind: Kind::Failed, outcome, last: true };
            life.files.set_fault(Some(fault));
            let told = change(&life).is_ok();
            cut += usize::from(!told);
            life.files.set_fault(None);
            // Alternately the process is killed and the machine loses its power.
            let next = if act % 2 == 0 { life.next() } else { life.after_power_loss(act) };
            check(&next, told);
            if told {
                break;
            }
        }
    }
    // Then the writes to the catalog.
    for writes in 0.. {
        let life = prepared();
        life.servers.die_after(Some(writes));
        let told = change(&life).is_ok();
        cut += usize::from(!told);
        check(&life.next(), told);
        if told {
            break;
        }
    }
    assert!(cut > 2, "the change was cut short {cut} times only");
}

fn assert_serves(life: &Life, table: &str, regions: usize) {
    assert_eq!(life.state(table), TableState::Enabled);
    let rows = life.master.read_view(|view| view.tables[&name(table)].regions.clone());
    assert!(covers_all_rows(rows.iter()) && rows.len() == regions, "{rows:?}");
    assert_eq!(life.servers.open_count(), 2 + regions);
}

fn nothing(_life: &Life) -> Result<(), Exception> {
    Ok(())
}

fn table(life: &Life) -> Result<(), Exception> {
    life.create("t", &["f", "g"], &["m"])
}

fn disabled(life: &Life) -> Result<(), Exception> {
    table(life)?;
    life.done(life.master.disable_table(&pb_name("t"), None))
}

#[test]
fn a_creation() {
    at_every_act(nothing, table, |life, told| {
        if life.has("t") {
            assert_serves(life, "t", 2);
        } else {
            assert!(!told);
            life.create("t", &["f"], &[]).expect("nothing is in the way");
        }
    });
}

#[test]
fn a_deletion() {
    let delete: Change = |life| life.done(life.master.delete_table(&pb_name("t"), None));
    at_every_act(disabled, delete, |life, told| {
        if life.has("t") {
            assert!(!told);
            life.done(life.master.enable_table(&pb_name("t"), None)).expect("the table is whole");
            assert_serves(life, "t", 2);
        } else {
            // After a loss of power deleted files may exist again. No table uses them, and they must not prevent a
            // creation.
            life.create("t", &["f"], &[]).expect("nothing is in the way");
        }
    });
}

#[test]
fn an_enabling_and_a_disabling() {
    let enable: Change = |life| life.done(life.master.enable_table(&pb_name("t"), None));
    let either = |life: &Life, _told: bool| {
        if life.state("t") == TableState::Disabled {
            assert_eq!(life.servers.open_count(), 2);
            life.done(life.master.enable_table(&pb_name("t"), None)).expect("the table is whole");
        }
        assert_serves(life, "t", 2);
    };
    // The following changes write only to the catalog.
    for writes in 0..4 {
        for (before, change) in [
            (disabled as Change, enable),
            (table as Change, |life: &Life| life.done(life.master.disable_table(&pb_name("t"), None))),
        ] {
            let life = Life::first();
            before(&life).expect("the preparation works");
            life.servers.die_after(Some(writes));
            let told = change(&life);
            assert!(told.is_err(), "four writes are needed");
            either(&life.next(), false);
        }
    }
}

#[test]
fn a_truncation() {
    let truncate: Change = |life| life.done(life.master.truncate_table(&pb_name("t"), true, None));
    at_every_act(disabled, truncate, |life, told| {
        if life.state("t") == TableState::Disabled {
            assert!(!told);
            life.done(life.master.enable_table(&pb_name("t"), None)).expect("the table is whole");
        }
        assert_serves(life, "t", 2);
    });
}

#[test]
fn a_truncation_of_a_region() {
    let prepare: Change = |life| {
        table(life)?;
        life.put_store_file("t", "f");
        life.put_store_file("t", "g");
        Ok(())
    };
    let truncate: Change = |life| {
        let region = life.master.read_view(|view| view.tables[&name("t")].regions[0].region.clone());
        life.done(life.master.truncate_region(&(&region).into(), None))
    };
    at_every_act(prepare, truncate, |life, told| {
        assert_serves(life, "t", 2);
        let files = life.files_of("t").iter().filter(|file| file.last() == "0123").count();
        assert!(files == 0 || (!told && files == 2), "{files} of 2 families have rows");
    });
}

/// Returns the region of t that begins at `start`.
fn region_at(life: &Life, start: &str) -> RegionInfo {
    let table = life.master.read_view(|view| view.tables[&name("t")].clone());
    let row = table.serving().find(|row| row.region.start_key() == start.as_bytes());
    row.expect("a region begins there").region.clone()
}

fn split(life: &Life) -> Result<(), Exception> {
    let region = region_at(life, "m");
    life.done(life.master.split_region(&(&region).into(), Some("s".into()), None))
}

/// Returns the folders of t's regions, by their encoded names.
fn folders(life: &Life) -> BTreeSet<String> {
    let regions = life.files_of("t").into_iter().filter(|file| file.last() == ".regioninfo");
    regions.map(|file| file.parent().expect("a folder").last().to_owned()).collect()
}

/// Asserts that hbase:meta, the folders and the open regions of t agree, and that the regions begin at these keys.
fn assert_agree(life: &Life, starts: &[&str]) {
    assert_eq!(life.state("t"), TableState::Enabled);
    let (table, content) =
        (life.master.read_view(|view| view.tables[&name("t")].clone()), life.master.catalog.read());
    let serving: Vec<_> = table.serving().cloned().collect();
    let found: Vec<_> = serving.iter().map(|row| row.region.start_key().clone()).collect();
    assert_eq!(
        found,
        starts.iter().map(|start| Bytes::copy_from_slice(start.as_bytes())).collect::<Vec<_>>()
    );
    assert!(covers_all_rows(serving.iter()), "{serving:?}");
    for row in &serving {
        assert_eq!(row.state, RegionState::Open, "{}", row.region);
        assert!(life.servers.server_of(row.region.encoded_name()).is_some(), "{} is not open", row.region);
    }
    assert_eq!(life.servers.open_count(), 2 + serving.len(), "no other region is open");
    let names = |rows: &[RegionRow]| {
        rows.iter().map(|row| row.region.encoded_name().to_string()).collect::<BTreeSet<_>>()
    };
    let meta = content.expect("readable").regions.remove(&name("t")).unwrap_or_default();
    assert_eq!(names(&meta), names(&table.regions), "the view is as hbase:meta");
    let mut known = names(&meta);
    known.extend(meta.iter().flat_map(|row| &row.merged_from).map(|info| info.encoded_name().to_string()));
    assert_eq!(folders(life), known, "every region has a folder, and every folder a region");
    assert_eq!(life.master.intents.all(), [], "nothing is left to be carried on");
    let report = life.master.run_hbck().expect("checked");
    assert!(report.inconsistencies.is_empty(), "{:?}", report.inconsistencies);
}

#[test]
fn a_split() {
    let (mut rolled_back, mut finished) = (0, 0);
    let counts = std::cell::RefCell::new((&mut rolled_back, &mut finished));
    at_every_act(table, split, |life, told| {
        let is_split = life.master.read_view(|view| view.tables[&name("t")].serving().count()) == 3;
        let mut counts = counts.borrow_mut();
        *(if is_split { &mut *counts.1 } else { &mut *counts.0 }) += 1;
        assert!(is_split || !told);
        if is_split {
            assert_agree(life, &["", "m", "s"]);
            let parent = life.master.read_view(|view| {
                view.tables[&name("t")].regions.iter().find(|row| row.region.is_split()).cloned()
            });
            let parent = parent.expect("the parent stays until nobody refers to its files");
            let daughters = parent.daughters.expect("they are named");
            assert_eq!(daughters.each_ref().map(|region| &**region.start_key()), [b"m", b"s"]);
        } else {
            assert_agree(life, &["", "m"]);
            split(life).expect("nothing is in the way");
            assert_agree(life, &["", "m", "s"]);
        }
    });
    assert!(rolled_back > 3 && finished > 3, "{rolled_back} were rolled back and {finished} finished");
}

/// A split fails at every storage call, without a crash. It must be undone or completed at once, or by the next change.
#[test]
fn a_split_that_fails_at_every_act_of_the_disk() {
    for outcome in [Outcome::DidNotHappen, Outcome::MayHaveHappened] {
        for act in 1.. {
            let life = Life::first();
            table(&life).expect("the preparation works");
            let fault = Fault { act: life.files.acts() + act, kind: Kind::Failed, outcome, last: false };
            life.files.set_fault(Some(fault));
            let told = split(&life);
            life.files.set_fault(None);
            if let Err(why) = &told {
                assert!(!why.message.contains("broke an invariant"), "it panicked: {why}");
            }
            let told = told.is_ok();
            let region = region_at(&life, "");
            let specifier = pb::RegionSpecifier { r#type: 1, value: region.name().clone() };
            life.done(life.master.assign_region(&specifier)).expect("whatever waits is carried on first");
            let is_split = life.master.read_view(|view| view.tables[&name("t")].serving().count()) == 3;
            assert_agree(&life, if is_split { &["", "m", "s"] } else { &["", "m"] });
            assert!(is_split || !told);
            if told {
                break;
            }
        }
    }
}

fn merge(life: &Life) -> Result<(), Exception> {
    let specifiers: Vec<pb::RegionSpecifier> = ["m", ""]
        .map(|start| pb::RegionSpecifier { r#type: 1, value: region_at(life, start).name().clone() })
        .into();
    life.done(life.master.merge_regions(&specifiers, false, None))
}

#[test]
fn a_merge() {
    let counts = std::cell::RefCell::new((0, 0));
    at_every_act(table, merge, |life, told| {
        let is_merged = life.master.read_view(|view| view.tables[&name("t")].serving().count()) == 1;
        let mut counts = counts.borrow_mut();
        *(if is_merged { &mut counts.1 } else { &mut counts.0 }) += 1;
        assert!(is_merged || !told);
        if !is_merged {
            assert_agree(life, &["", "m"]);
            merge(life).expect("nothing is in the way");
        }
        assert_agree(life, &[""]);
        let merged = life.master.read_view(|view| view.tables[&name("t")].regions.clone());
        assert_eq!(merged[0].merged_from.len(), 2, "the parents stay until nobody refers to their files");
        let again = merge_all(life).expect_err("not while it refers to them");
        assert!(again.message.contains("two Regions"), "{again}");
    });
    let (rolled_back, finished) = counts.into_inner();
    assert!(rolled_back > 3 && finished > 3, "{rolled_back} were rolled back and {finished} finished");
}

fn merge_all(life: &Life) -> Result<(), Exception> {
    let serving = life.master.read_view(|view| {
        let rows = view.tables[&name("t")].serving();
        rows.map(|row| row.region.encoded_name().clone()).collect::<Vec<_>>()
    });
    let specifier =
        |name: &proto::EncodedName| pb::RegionSpecifier { r#type: 2, value: name.as_str().to_owned().into() };
    life.done(life.master.merge_regions(&serving.iter().map(specifier).collect::<Vec<_>>(), true, None))
}

/// The chores have one thread. While one of them waits, no region is opened again, and no change is carried on.
#[test]
fn the_chore_that_collects_parents_waits_for_no_procedure() {
    let life = Life::first();
    table(&life).expect("created");
    merge(&life).expect("merged");
    life.servers.compact(&region_at(&life, ""));
    let (end, ended) = std::sync::mpsc::channel();
    let long = life.master.submit(ProcedureKind::Flush, &name("t"), None, move |_, _| {
        let _ended = ended.recv();
        Ok(())
    });
    long.expect("submitted");
    life.master.submit_collections().expect("submitted");
    assert_eq!(life.master.procedures.unfinished(), 1, "nothing waits behind the long procedure");
    end.send(()).expect("it waits");
    life.master.procedures.wait_idle();
    life.master.submit_collections().expect("submitted");
    life.master.procedures.wait_idle();
    let row = life.master.read_view(|view| view.tables[&name("t")].regions[0].clone());
    assert!(row.merged_from.is_empty(), "nothing is known of the parents");
}

#[test]
fn a_collection_of_merged_parents() {
    let prepare: Change = |life| {
        table(life)?;
        merge(life)?;
        assert_eq!(life.master.collect_parents()?, 0, "the merged region refers to their files");
        life.servers.compact(&region_at(life, ""));
        Ok(())
    };
    let collect: Change = |life| {
        assert_eq!(life.master.collect_parents()?, 2);
        Ok(())
    };
    at_every_act(prepare, collect, |life, told| {
        let left = life.master.collect_parents().expect("nothing is in the way");
        assert!(left == 0 || !told);
        let row = life.master.read_view(|view| view.tables[&name("t")].regions[0].clone());
        assert!(row.merged_from.is_empty(), "nothing is known of the parents");
        // The next split and merge must succeed.
        let region = region_at(life, "");
        life.done(life.master.split_region(&(&region).into(), Some("k".into()), None)).expect("split");
        life.servers.compact(&region_at(life, ""));
        life.servers.compact(&region_at(life, "k"));
        merge_all(life).expect("merged");
    });
}

#[test]
fn a_merged_region_that_is_split_leaves_nothing_of_its_parents() {
    let life = Life::first();
    table(&life).expect("created");
    merge(&life).expect("merged");
    let merged = region_at(&life, "");
    life.servers.compact(&merged);
    life.done(life.master.split_region(&(&merged).into(), Some("k".into()), None)).expect("split");
    life.servers.compact(&region_at(&life, ""));
    life.servers.compact(&region_at(&life, "k"));
    assert_eq!(
        life.master.collect_parents().expect("collected"),
        3,
        "both merged regions, and the one of both"
    );
    assert_eq!(folders(&life).len(), 2, "no folder is left of them");
    assert_agree(&life, &["", "k"]);
}

#[test]
fn splits_and_merges_are_refused_when_they_are_switched_off() {
    use crate::switches::Switch;
    let life = Life::first();
    life.create("t", &["f"], &["d", "m"]).expect("created");
    let apart = |forcible| {
        let ends = ["", "m"]
            .map(|start| pb::RegionSpecifier { r#type: 1, value: region_at(&life, start).name().clone() });
        life.done(life.master.merge_regions(&ends, forcible, None))
            .expect_err("a region lies between")
            .message
    };
    assert!(apart(false).contains("non-adjacent"));
    assert!(apart(true).contains("lies between"));
    life.master.switches.set(Switch::Split, false).expect("switched");
    assert!(split(&life).expect_err("refused").message.contains("split switch off"));
    life.master.switches.set(Switch::Merge, false).expect("switched");
    assert!(merge_all(&life).expect_err("refused").message.contains("merge switch is off"));
    life.master.switches.set(Switch::Split, true).expect("switched");
    life.master.switches.set(Switch::Merge, true).expect("switched");
    life.servers.forbids_splits.store(true, Ordering::Relaxed);
    assert!(
        split(&life).expect_err("refused").message.contains("NOT splittable: the split policy of table t")
    );
    life.servers.forbids_splits.store(false, Ordering::Relaxed);
    let mut schema = schema("t", &["f"]);
    for key in ["SPLIT_ENABLED", "MERGE_ENABLED"] {
        schema.attributes.push(pb::BytesBytesPair { first: key.into(), second: "false".into() });
    }
    life.done(life.master.modify_table(&pb_name("t"), &schema, None)).expect("altered");
    assert!(split(&life).expect_err("refused").message.contains("disabled for the table"));
    assert!(merge_all(&life).expect_err("refused").message.contains("disabled for the table"));
    let at = |row: Option<Bytes>| {
        let region = region_at(&life, "m");
        life.done(life.master.split_region(&(&region).into(), row, None)).expect_err("refused").message
    };
    for key in &mut schema.attributes {
        key.second = "true".into();
    }
    life.done(life.master.modify_table(&pb_name("t"), &schema, None)).expect("altered");
    assert!(at(None).contains("bestSplitPoint = null"));
    assert!(at(Some("m".into())).contains("equal to startkey"));
    assert!(at(Some("c".into())).contains("not inside region"));
    merge_all(&life).expect("three at once");
    assert_agree(&life, &[""]);
}

#[test]
fn a_collection_of_a_parent() {
    let prepare: Change = |life| {
        table(life)?;
        split(life)?;
        assert_eq!(life.master.collect_parents()?, 0, "daughters refer to its files");
        life.servers.compact(&region_at(life, "m"));
        assert_eq!(life.master.collect_parents()?, 0, "one of them still does");
        life.servers.compact(&region_at(life, "s"));
        Ok(())
    };
    let collect: Change = |life| {
        let parents = life.master.read_view(|view| {
            view.tables[&name("t")].regions.iter().filter(|row| row.region.is_split()).count()
        });
        assert_eq!((life.master.collect_parents()?, parents), (1, 1));
        Ok(())
    };
    at_every_act(prepare, collect, |life, told| {
        let left = life.master.collect_parents().expect("nothing is in the way");
        assert!(left == 0 || !told);
        let rows = life.master.read_view(|view| view.tables[&name("t")].regions.len());
        assert_eq!(rows, 3, "the parent has no row any more");
        // A loss of power may bring the parent's folder back. Then it belongs to no region.
        let parents = folders(life).len() - rows;
        assert!(parents <= 1);
        if told && parents == 0 {
            assert_agree(life, &["", "m", "s"]);
        }
    });
}

#[test]
fn a_split_whose_mutation_may_have_happened_is_never_rolled_back() {
    let life = Life::first();
    table(&life).expect("the preparation works");
    life.servers.die_after(Some(0));
    let waits = split(&life).expect_err("hbase:meta cannot be written");
    assert!(waits.message.contains("waits in step Record"), "{waits}");
    life.servers.die_after(None);
    let region = region_at(&life, "");
    let specifier = pb::RegionSpecifier { r#type: 1, value: region.name().clone() };
    let (act, outcome) = (life.files.acts() + 1, Outcome::DidNotHappen);
    life.files.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last: false }));
    let _either = life.done(life.master.assign_region(&specifier));
    life.files.set_fault(None);
    life.done(life.master.assign_region(&specifier)).expect("nothing is in the way");
    assert_agree(&life, &["", "m", "s"]);
}

/// The name of the upper daughter would be longer than a row of hbase:meta may be, so the split could not be recorded.
#[test]
fn a_split_whose_daughter_has_too_long_a_name_leaves_the_region_open() {
    let life = Life::first();
    table(&life).expect("the preparation works");
    let row = Bytes::from(vec![b'z'; cell::ROW_LENGTH_MAX]);
    let region = region_at(&life, "m");
    let refusal =
        life.done(life.master.split_region(&(&region).into(), Some(row), None)).expect_err("too long");
    assert!(refusal.message.contains("expected at most 32767"), "{refusal}");
    assert_agree(&life, &["", "m"]);
}

/// A panic ends the procedure, but the table must stay usable. If hbase:meta does not name the daughters yet, the split
/// is undone; otherwise it is completed.
#[test]
fn a_split_that_panics_is_undone_or_finished_by_the_next_change() {
    for is_recorded in [false, true] {
        let life = Life::first();
        table(&life).expect("the preparation works");
        life.servers.panic_instead(true);
        if is_recorded {
            life.servers.refuse(Some("s"));
        } else {
            life.servers.fail_closes(1);
        }
        let why = split(&life).expect_err("it panics");
        assert!(why.message.contains("broke an invariant"), "{why}");
        life.servers.panic_instead(false);
        life.servers.refuse(None);
        let first = region_at(&life, "");
        life.done(life.master.assign_region(&specifier_of(&first)))
            .expect("whatever waits is carried on first");
        assert_agree(&life, if is_recorded { &["", "m", "s"] } else { &["", "m"] });
    }
}

#[test]
fn a_daughter_that_does_not_open_is_reported_and_can_be_assigned() {
    let life = Life::first();
    table(&life).expect("the preparation works");
    life.servers.refuse(Some("s"));
    let failure = split(&life).expect_err("one daughter does not open");
    assert!(failure.message.contains("refused by the test"), "{failure}");
    life.servers.refuse(None);
    let daughter = region_at(&life, "s");
    let specifier = pb::RegionSpecifier { r#type: 1, value: daughter.name().clone() };
    life.done(life.master.assign_region(&specifier)).expect("assigned");
    assert_agree(&life, &["", "m", "s"]);
}

#[test]
fn a_daughter_is_not_split_before_its_sister_is_open() {
    let life = Life::first();
    table(&life).expect("the preparation works");
    life.servers.refuse(Some("s"));
    let parent = region_at(&life, "m");
    let first = life.master.split_region(&(&parent).into(), Some("s".into()), None).expect("submitted");
    let is_open = || {
        let daughter = region_at(&life, "m");
        daughter != parent && life.servers.server_of(daughter.encoded_name()).is_some()
    };
    while !is_open() {
        std::thread::yield_now();
    }
    let daughter = region_at(&life, "m");
    life.servers.compact(&daughter);
    let second = life.master.split_region(&(&daughter).into(), Some("p".into()), None).expect("submitted");
    let runs =
        |id| life.master.procedures.list().into_iter().any(|status| status.id == id && status.is_locked);
    if runs(second) {
        life.done(Ok(second)).expect("it is not waited for");
    }
    life.servers.refuse(None);
    let _either = life.done(Ok(first));
    life.done(Ok(second)).expect("the daughters are open");
    life.done(life.master.assign_region(&specifier_of(&region_at(&life, "s")))).expect("assigned");
    assert_agree(&life, &["", "m", "p", "s"]);
}

#[test]
fn a_daughter_that_was_split_while_its_sister_waits_is_not_opened_again() {
    let life = Life::first();
    table(&life).expect("the preparation works");
    life.servers.refuse(Some("s"));
    split(&life).expect_err("one daughter does not open");
    let daughter = region_at(&life, "m");
    life.servers.compact(&daughter);
    life.done(life.master.split_region(&(&daughter).into(), Some("p".into()), None)).expect("split");
    life.servers.refuse(None);
    life.done(life.master.assign_region(&specifier_of(&region_at(&life, "s")))).expect("assigned");
    assert_agree(&life, &["", "m", "p", "s"]);
}

fn specifier_of(region: &RegionInfo) -> pb::RegionSpecifier {
    pb::RegionSpecifier { r#type: 1, value: region.name().clone() }
}

#[test]
fn the_removal_of_a_family() {
    let prepare: Change = |life| {
        table(life)?;
        life.put_store_file("t", "g");
        Ok(())
    };
    let remove: Change = |life| life.done(life.master.delete_family(&pb_name("t"), &"g".into(), None));
    at_every_act(prepare, remove, |life, told| {
        assert_serves(life, "t", 2);
        let known = life.master.read_view(|view| view.tables[&name("t")].descriptor.family(b"g").is_some());
        let files = life.files_of("t").iter().filter(|file| file.as_str().contains("/g/")).count();
        assert_eq!(files, usize::from(known), "a family and its files go together");
        assert!(!(told && known));
    });
}

#[test]
fn an_alteration() {
    let alter: Change = |life| {
        let versions = pb::BytesBytesPair { first: "VERSIONS".into(), second: "7".into() };
        let family =
            pb::ColumnFamilySchema { name: "f".into(), attributes: vec![versions], ..Default::default() };
        life.done(life.master.modify_family(&pb_name("t"), &family, None))
    };
    at_every_act(table, alter, |life, told| {
        assert_serves(life, "t", 2);
        assert!(life.master.intents.all().is_empty());
        let table = life.master.read_view(|view| view.tables[&name("t")].descriptor.clone());
        let versions = table.family(b"f").expect("it has one").options().expect("a good schema").versions_max;
        assert!(versions == 7 || (!told && versions == 1), "{versions}");
        alter(life).expect("nothing is in the way");
    });
}

#[test]
fn changes_reported_as_done_survive_the_loss_of_power() {
    for seed in 0..32 {
        let life = Life::first();
        table(&life).expect("created");
        let life = life.after_power_loss(seed);
        assert_serves(&life, "t", 2);
        let file = life.put_store_file("t", "g");
        life.done(life.master.delete_family(&pb_name("t"), &"g".into(), None)).expect("removed");
        life.master.switches.set(crate::switches::Switch::Cleaner, false).expect("switched");
        let life = life.after_power_loss(seed);
        assert!(life.master.read_view(|view| view.tables[&name("t")].descriptor.family(b"g").is_none()));
        assert!(!life.files_of("t").contains(&file), "a family made anew would find it");
        assert!(!life.master.switches.is_on(crate::switches::Switch::Cleaner));
        life.done(life.master.disable_table(&pb_name("t"), None)).expect("disabled");
        life.done(life.master.delete_table(&pb_name("t"), None)).expect("deleted");
        let life = life.after_power_loss(seed);
        assert!(!life.has("t"));
        table(&life).expect("nothing is in the way");
    }
}

#[test]
fn a_failure_without_a_crash_leaves_nothing_behind() {
    let life = Life::first();
    life.servers.refuse(Some("m"));
    assert!(table(&life).is_err());
    assert!(!life.has("t") && life.files_of("t").is_empty());
    assert_eq!(life.servers.open_count(), 2);
    life.servers.refuse(None);
    table(&life).expect("nothing is in the way");

    // The disk fails once, at each write in turn. Then the table must be there completely, or its creation must succeed
    // at once.
    for act in 1.. {
        let life = Life::first();
        let fault = Fault {
            act: life.files.acts() + act,
            kind: Kind::Failed,
            outcome: Outcome::DidNotHappen,
            last: false,
        };
        life.files.set_fault(Some(fault));
        let told = table(&life).is_ok();
        life.files.set_fault(None);
        assert_eq!(life.has("t"), told);
        if told {
            break;
        }
        table(&life).expect("nothing is in the way");
        assert_serves(&life, "t", 2);
        assert_serves(&life.next(), "t", 2);
    }
}

#[test]
fn a_table_with_a_region_that_cannot_be_opened_is_enabled_and_can_be_disabled() {
    let life = Life::first();
    disabled(&life).expect("the preparation works");
    let enable = |life: &Life| life.done(life.master.enable_table(&pb_name("t"), None));
    let state = |life: &Life| life.master.read_view(|view| view.tables[&name("t")].state);
    life.servers.refuse(Some("m"));
    let failed = enable(&life).expect_err("a region cannot be opened");
    assert!(failed.message.contains("is enabled, but its region"), "{}", failed.message);
    assert_eq!(state(&life), TableState::Enabled);
    assert_eq!(life.master.failed_regions().len(), 1);
    life.done(life.master.disable_table(&pb_name("t"), None)).expect("disabled");
    life.servers.refuse(None);
    enable(&life).expect("nothing is in the way");
    assert_serves(&life, "t", 2);
}

#[test]
fn a_table_that_is_left_enabling_can_be_disabled() {
    let life = Life::first();
    disabled(&life).expect("the preparation works");
    life.master.set_state(&name("t"), TableState::Enabling).expect("written");
    life.done(life.master.disable_table(&pb_name("t"), None)).expect("disabled");
    life.done(life.master.delete_table(&pb_name("t"), None)).expect("deleted");
    assert!(!life.has("t"));
}

#[test]
fn a_namespace_that_is_being_deleted_takes_no_table() {
    let life = Life::first();
    let namespace = pb::NamespaceDescriptor { name: "ns".into(), configuration: Vec::new() };
    life.done(life.master.create_namespace(&namespace, None)).expect("created");
    let region = life.master.namespace_region().expect("there");
    // The state between the two steps of the deletion.
    life.master.update_view(|view| view.namespaces.remove("ns"));
    let table =
        std::sync::Arc::new(proto::TableDescriptor::try_from(schema("ns:t", &["f"])).expect("lawful"));
    let regions =
        proto::region_info::regions_between(&name("ns:t"), &[], proto::RegionId(5)).expect("lawful");
    let refused = life.master.create(&table, &regions).expect_err("refused");
    assert_eq!(refused.class, rpc::class::NAMESPACE_NOT_FOUND);
    life.master.catalog.remove_namespace(&region, "ns").expect("deleted");
    assert!(life.next().master.namespace("ns").is_err());
}

/// Asserts that each existing snapshot can be read, and that no objects of other snapshots are left.
fn assert_snapshots_are_whole(life: &Life) {
    for name in names(life) {
        let manifest = life.files.read(&layout::snapshot_manifest(&name), 1 << 20).expect("it is there");
        let manifest =
            <pb::SnapshotDataManifest as prost::Message>::decode(&manifest[..]).expect("it is whole");
        let files = |region: &pb::SnapshotRegionManifest| region.family_files[0].store_files.len();
        let files: Vec<usize> = manifest.region_manifests.iter().map(files).collect();
        assert_eq!(files, [1, 2, 1], "two regions, and between them the region of their MOB files");
    }
    let objects = layout::snapshot_objects(&life.files).expect("the disk works");
    assert_eq!(
        (objects.running, objects.incomplete, objects.manifests.len()),
        (vec![], vec![], names(life).len())
    );
}

#[test]
fn a_snapshot() {
    at_every_act(
        table,
        |life| take(life, "s", "t"),
        |life, told| {
            assert_snapshots_are_whole(life);
            if names(life).is_empty() {
                assert!(!told);
                take(life, "s", "t").expect("nothing is in the way");
            }
            assert_serves(life, "t", 2);
        },
    );
}

#[test]
fn a_deletion_of_a_snapshot() {
    let with_snapshot: Change = |life| table(life).and_then(|()| take(life, "s", "t"));
    at_every_act(
        with_snapshot,
        |life| life.master.delete_snapshot("s"),
        |life, told| {
            assert_snapshots_are_whole(life);
            if !names(life).is_empty() {
                assert!(!told);
                life.master.delete_snapshot("s").expect("it is whole");
            }
            take(life, "s", "t").expect("nothing is in the way");
        },
    );
}

/// Creates a table of two regions and takes a snapshot of it. Then changes and disables the table.
fn changed_since(life: &Life) -> Result<(), Exception> {
    table(life)?;
    take(life, "s", "t")?;
    life.done(life.master.disable_table(&pb_name("t"), None))?;
    life.done(life.master.delete_family(&pb_name("t"), &Bytes::from("g"), None))
}

#[test]
fn a_clone() {
    at_every_act(
        changed_since,
        |life| clone(life, "s", "c"),
        |life, told| {
            if !life.has("c") {
                assert!(!told);
                clone(life, "s", "c").expect("nothing is in the way");
            }
            let rows = life.master.read_view(|view| view.tables[&name("c")].regions.clone());
            assert!(covers_all_rows(rows.iter()) && rows.len() == 2, "{rows:?}");
            assert!(
                rows.iter().all(|row| life.servers.links(&row.region) == 2),
                "both families have their links"
            );
            assert_eq!((life.state("c"), life.servers.open_count()), (TableState::Enabled, 2 + 2));
            life.master.delete_snapshot("s").expect("nobody needs it any more");
        },
    );
}

#[test]
fn a_restoration() {
    at_every_act(
        changed_since,
        |life| clone(life, "s", "t"),
        |life, told| {
            assert_eq!(life.state("t"), TableState::Disabled);
            let families =
                || life.master.read_view(|view| view.tables[&name("t")].descriptor.families().len());
            let is_old = families() == 1;
            if is_old {
                assert!(!told);
                clone(life, "s", "t").expect("nothing is in the way");
            }
            assert_eq!(families(), 2);
            let rows = life.master.read_view(|view| view.tables[&name("t")].regions.clone());
            assert!(covers_all_rows(rows.iter()) && rows.len() == 2, "{rows:?}");
            assert!(
                rows.iter().all(|row| life.servers.links(&row.region) == 2),
                "both families have their links"
            );
            life.done(life.master.enable_table(&pb_name("t"), None)).expect("the table is whole");
            assert_serves(life, "t", 2);
            life.master.delete_snapshot("s").expect("nobody needs it any more");
        },
    );
}

#[test]
fn after_a_failed_catalog_write_view_rows_and_regions_agree_again() {
    let mut failures = 0;
    for (late, writes) in [false, true].into_iter().flat_map(|late| (0..6).map(move |writes| (late, writes)))
    {
        for is_disabled_first in [false, true] {
            let life = Life::first();
            life.create("t", &["f"], &["g", "n"]).expect("made");
            if is_disabled_first {
                life.done(life.master.disable_table(&pb_name("t"), None)).expect("disabled");
            }
            life.servers.fail_late(late);
            life.servers.die_after(Some(writes));
            let changed = match is_disabled_first {
                false => life.done(life.master.disable_table(&pb_name("t"), None)),
                true => life.done(life.master.enable_table(&pb_name("t"), None)),
            };
            life.servers.die_after(None);
            failures += usize::from(changed.is_err());
            // What the chore does every ten seconds.
            life.master.carry_on_what_waits();
            life.master.wait_idle();
            let what =
                format!("late {late}, {writes} writes, disabled first {is_disabled_first}, {changed:?}");
            let report = life.master.run_hbck().expect("checked");
            assert_eq!(report.inconsistencies, [], "{what}");
            let state = life.state("t");
            let open = life.master.read_view(|view| view.tables[&name("t")].regions.clone());
            let open = open.iter().filter(|row| life.servers.server_of(row.region.encoded_name()).is_some());
            let expected = match state {
                TableState::Enabled => 3,
                TableState::Disabled => 0,
                state => panic!("{state:?}: {what}"),
            };
            assert_eq!(open.count(), expected, "{state:?}: {what}");
        }
    }
    assert!(failures > 10, "{failures}");
}

/// Creates a table of three regions, and loses the second one from hbase:meta.
fn with_a_hole(life: &Life) -> Result<(), Exception> {
    life.create("t", &["f"], &["g", "n"])?;
    let lost = life.master.read_view(|view| view.tables[&name("t")].regions[1].clone());
    let region = pb::RegionSpecifier { r#type: 1, value: lost.region.name().clone() };
    life.done(life.master.unassign_region(&region))?;
    let master = &life.master;
    let edits = vec![CatalogEdit::Delete(lost.key())];
    master.regions.write(RegionInfo::meta().encoded_name(), master.clock.next(), edits).expect("written");
    master.update_view(|view| view.tables.get_mut(&name("t")).expect("it was made").regions.remove(1));
    Ok(())
}

#[test]
fn a_repair_of_a_hole() {
    let fix: Change = |life| life.master.fix_meta().map(drop);
    at_every_act(with_a_hole, fix, |life, told| {
        let starts = || -> Vec<Bytes> {
            let start = |row: &RegionRow| row.region.start_key().clone();
            life.master.read_view(|view| view.tables[&name("t")].regions.iter().map(start).collect())
        };
        if starts() == ["", "n"] {
            assert!(!told);
            fix(life).expect("nothing is in the way");
        }
        assert_eq!(starts(), ["", "g", "n"], "one region for the hole");
        assert_serves(life, "t", 3);
        assert_eq!(life.master.run_hbck().expect("it runs").inconsistencies, []);
    });
}
