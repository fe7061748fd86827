//! Tests of snapshots: taken, listed, deleted, refused, and interrupted by a crash.

use std::sync::Arc;

use bytes::Bytes;
use proto::catalog::TableState;
use proto::pb::snapshot_description::Type;
use proto::{RegionInfo, pb};
use rpc::{Exception, class};
use storage::memory::Fault;
use storage::{Files, Kind, Outcome};

use super::fake::{Life, name, pb_name, schema};
use crate::clones::{CopyKind, RestorationStep};
use crate::intents::Intent;
use crate::procedure::locks::{Holders, LockSet, Mode};
use crate::procedure::{ProcedureKind, Submission};
use crate::switches::Switch;
use crate::view::covers_all_rows;
use crate::{FollowedPrimary, Mirror};

pub(super) fn request(name: &str, table: &str) -> pb::SnapshotDescription {
    pb::SnapshotDescription { name: name.into(), table: Some(table.into()), ..Default::default() }
}

pub(super) fn take(life: &Life, name: &str, table: &str) -> Result<(), Exception> {
    life.done(life.master.snapshot(request(name, table), None))
}

/// Clones a snapshot to `table`. If the table exists, restores it to the snapshot.
pub(super) fn clone(life: &Life, snapshot: &str, table: &str) -> Result<(), Exception> {
    let request = pb::RestoreSnapshotRequest { snapshot: request(snapshot, table), ..Default::default() };
    life.done(life.master.restore_snapshot(&request))
}

pub(super) fn names(life: &Life) -> Vec<String> {
    let found = life.master.completed_snapshots().expect("the disk works");
    found.into_iter().map(|snapshot| snapshot.name).collect()
}

/// Returns the names of all stored objects of snapshots.
fn objects(life: &Life) -> Vec<String> {
    let found = life.files.list(&layout::snapshots()).expect("the disk works");
    found.into_iter().map(|entry| entry.name.to_string()).collect()
}

fn life_with_table() -> Life {
    let life = Life::first();
    life.create("t", &["f", "g"], &["m"]).expect("created");
    life
}

/// The janitor of a region server knows the manifest of a snapshot by the bytes of its `.snapshotinfo`.
#[test]
fn a_snapshot_taken_again_with_its_own_description_has_another_info() {
    let life = life_with_table();
    take(&life, "s", "t").expect("taken");
    let info = || life.files.read(&layout::snapshot_info("s"), 1 << 20).expect("complete");
    let described = || life.master.completed_snapshots().expect("the disk works").remove(0);
    let (first, description) = (info(), described());
    life.master.delete_snapshot("s").expect("deleted");
    life.done(life.master.snapshot(description.clone(), None)).expect("taken again");
    assert_eq!(described(), description);
    assert_ne!(info(), first);
}

/// The schema and the regions of a copy come from the snapshot that was read first, and the files from the one that is kept.
#[test]
fn no_table_is_made_of_two_snapshots_of_one_name() {
    let life = life_with_table();
    life.create("other", &["f"], &["c"]).expect("created");
    for kind in [CopyKind::Clone, CopyKind::Restoration(RestorationStep::Fill)] {
        take(&life, "s", "t").expect("taken");
        let made = if kind == CopyKind::Clone { name("c") } else { name("t") };
        let plan = || life.master.plan("s", &made, kind, None).expect("a plan");
        let (copy, version) = plan();
        life.master.delete_snapshot("s").expect("deleted");
        take(&life, "s", "other").expect("taken");
        let refused = life.master.begin_copy(&copy, &version).expect_err("another snapshot");
        assert!(refused.message.contains("another one of this name taken while it was read"), "{refused}");
        assert!(life.master.intents.all().is_empty());
        life.master.delete_snapshot("s").expect("nobody needs it");
        take(&life, "s", "t").expect("taken");
        let (copy, version) = plan();
        life.master.begin_copy(&copy, &version).expect("the same snapshot");
        life.master.intents.end(&Intent::Copy(copy).key()).expect("the disk works");
        life.master.delete_snapshot("s").expect("nobody needs it");
    }
}

/// A deletion of the undoing may arrive late, so folders that it deletes are not filled again.
#[test]
fn a_restoration_that_was_to_be_undone_is_not_carried_on() {
    let life = life_with_table();
    take(&life, "s", "t").expect("taken");
    life.done(life.master.disable_table(&pb_name("t"), None)).expect("disabled");
    let kind = CopyKind::Restoration(RestorationStep::Undo);
    let (copy, version) = life.master.plan("s", &name("t"), kind, None).expect("a plan");
    life.master.begin_copy(&copy, &version).expect("stored");
    life.master.write_copies(&copy).expect("written");
    let before = life.master.read_view(|view| view.tables[&name("t")].regions.clone());
    let next = life.next();
    assert!(next.master.intents.all().is_empty());
    let after = next.master.read_view(|view| view.tables[&name("t")].regions.clone());
    let regions = |rows: &[proto::catalog::RegionRow]| -> Vec<_> {
        rows.iter().map(|row| row.region.clone()).collect()
    };
    assert_eq!(regions(&after), regions(&before));
    let files = next.files_of("t");
    assert!(
        files
            .iter()
            .all(|file| copy.regions.iter().all(|new| { file.below(&layout::region_folder(new)).is_none() }))
    );
    next.done(next.master.enable_table(&pb_name("t"), None)).expect("it is as before");
}

/// A primary with which a replica is always up to date.
pub(super) struct NeverAhead;

impl FollowedPrimary for NeverAhead {
    fn refresh(&self) -> Result<(), String> {
        Ok(())
    }

    fn promote(&self) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn a_read_replica_lists_the_snapshots_of_its_primary() {
    let primary = life_with_table();
    take(&primary, "s", "t").expect("taken");
    let replica = Life::first();
    let files = Arc::new(primary.files.clone());
    let _mirror = Mirror::new(Arc::clone(&replica.master), files, Arc::new(NeverAhead));
    assert_eq!(names(&replica), ["s"]);
    let (is_done, info) = replica.master.is_snapshot_done(Some(request("s", "t"))).expect("known");
    assert_eq!((is_done, info.table.as_deref()), (true, Some("t")));
    primary.master.delete_snapshot("s").expect("deleted");
    assert!(names(&replica).is_empty());
}

#[test]
fn an_enabled_table_is_flushed_unless_told_otherwise_and_a_disabled_one_is_not() {
    let life = life_with_table();
    take(&life, "flushed", "t").expect("taken");
    assert_eq!(life.servers.flushed(), 2);
    let skip = pb::SnapshotDescription { r#type: Some(Type::Skipflush as i32), ..request("skipped", "t") };
    life.done(life.master.snapshot(skip, None)).expect("taken");
    assert_eq!(life.servers.flushed(), 2);
    life.done(life.master.disable_table(&pb_name("t"), None)).expect("disabled");
    take(&life, "disabled", "t").expect("taken");
    let kinds: Vec<Type> =
        life.master.completed_snapshots().expect("listed").iter().map(|snapshot| snapshot.r#type()).collect();
    assert_eq!(
        (names(&life).join(" "), kinds),
        ("disabled flushed skipped".to_owned(), vec![Type::Disabled, Type::Flush, Type::Skipflush])
    );
    assert!(!objects(&life).iter().any(|name| name.contains(".tmp")), "{:?}", objects(&life));

    life.master.delete_snapshot("flushed").expect("deleted");
    assert_eq!(names(&life), ["disabled", "skipped"]);
    assert_eq!(objects(&life).len(), 4, "{:?}", objects(&life));
}

#[test]
fn a_snapshot_has_the_max_filesize_of_its_request_if_the_table_has_none() {
    let life = life_with_table();
    let take_with = |name: &str, table: &str| {
        let request = pb::SnapshotDescription { max_file_size: Some(123_456_789), ..request(name, table) };
        life.done(life.master.snapshot(request, None)).expect("taken");
        clone(&life, name, &format!("of-{name}")).expect("cloned");
        let cloned = format!("of-{name}").parse().expect("a name");
        let table = life.master.read_view(|view| Arc::clone(&view.tables[&cloned].descriptor));
        table.attributes().text("MAX_FILESIZE").map(ToOwned::to_owned)
    };
    assert_eq!(take_with("without", "t").as_deref(), Some("123456789"));
    let mut schema = schema("t", &["f", "g"]);
    schema.attributes.push(pb::BytesBytesPair { first: "MAX_FILESIZE".into(), second: "987654321".into() });
    life.done(life.master.modify_table(&pb_name("t"), &schema, None)).expect("altered");
    assert_eq!(take_with("with", "t").as_deref(), Some("987654321"));
}

#[test]
fn refusals_have_hbases_classes_and_words() {
    let life = life_with_table();
    let refused = |outcome: Result<(), Exception>| {
        let cause = outcome.expect_err("refused");
        assert!(cause.do_not_retry, "{cause}");
        cause.text()
    };
    let package = "org.apache.hadoop.hbase.snapshot.";
    assert_eq!(
        refused(take(&life, "s", "absent")),
        format!("{package}SnapshotCreationException: Table 'absent' doesn't exist, can't take snapshot.")
    );
    take(&life, "s", "t").expect("taken");
    assert_eq!(
        refused(take(&life, "s", "t")),
        format!("{package}SnapshotExistsException: Snapshot 's' already stored on the filesystem.")
    );
    assert_eq!(
        refused(life.master.delete_snapshot("other")),
        format!("{package}SnapshotDoesNotExistException: Snapshot 'other' doesn't exist on the filesystem")
    );
    assert!(refused(take(&life, "s/../t", "t")).contains("IllegalArgumentException"));
    assert!(refused(life.master.delete_snapshot("..")).contains("IllegalArgumentException"));
    assert!(refused(take(&life, "m", "hbase:meta")).contains("System table snapshots are not allowed"));
    let done = |name| life.master.is_snapshot_done(Some(request(name, "t")));
    assert!(done("s").expect("known").0);
    assert_eq!(done("other").expect_err("unknown").class, class::UNKNOWN_SNAPSHOT);
}

#[test]
fn a_region_that_does_not_answer_fails_the_snapshot_and_nothing_is_left() {
    let life = life_with_table();
    life.servers.refuse(Some("m"));
    let cause = take(&life, "s", "t").expect_err("refused");
    assert_eq!(cause.class, class::SNAPSHOT_CREATION);
    assert!(cause.message.contains("{ ss=s table=t type=FLUSH ttl=0 } was not taken"), "{cause}");
    assert_eq!(objects(&life), Vec::<String>::new());
    let done = life.master.is_snapshot_done(Some(request("s", "t")));
    assert_eq!(done.expect_err("it failed").class, class::SNAPSHOT_CREATION);
    life.servers.refuse(None);
    take(&life, "s", "t").expect("taken");
}

#[test]
fn snapshots_of_a_table_are_taken_together_and_a_split_and_an_alter_wait() {
    let life = life_with_table();
    life.servers.pause(true);
    let snapshots = ["a", "b"].map(|name| life.master.snapshot(request(name, "t"), None).expect("accepted"));
    let status = |resource: &str| {
        let locks = life.master.procedures.locks();
        locks.into_iter().find(|status| status.resource.to_string() == resource)
    };
    let both = Holders::Shared(snapshots.into());
    let regions: Vec<RegionInfo> = life.master.read_view(|view| {
        view.tables[&"t".parse().expect("a name")].regions.iter().map(|row| row.region.clone()).collect()
    });
    let low = regions[0].encoded_name().to_string();
    let is_held =
        |resource: &str| status(resource).is_some_and(|status| status.holders == Some(both.clone()));
    let are_taken_together = || (std::thread::yield_now(), is_held("t") && is_held(&low)).1;
    assert!((0..1_000_000).any(|_| are_taken_together()), "{:?}", life.master.procedures.locks());
    let split = life.master.split_region(&(&regions[0]).into(), Some("c".into()), None).expect("accepted");
    let disable = life.master.disable_table(&pb_name("t"), None).expect("accepted");
    let waits = |resource: &str, id| {
        status(resource).is_some_and(|status| status.waiting.contains(&(id, Mode::Exclusive)))
    };
    assert!(waits(&low, split) && waits("t", disable));
    life.servers.pause(false);
    for id in snapshots {
        life.done(Ok(id)).expect("taken");
    }
    for id in [split, disable] {
        life.done(Ok(id)).expect("done");
    }
    assert_eq!(names(&life), ["a", "b"]);
}

#[test]
fn snapshots_end_with_their_time() {
    let life = life_with_table();
    let short = pb::SnapshotDescription { ttl: Some(60), creation_time: Some(1), ..request("short", "t") };
    life.done(life.master.snapshot(short, None)).expect("taken");
    take(&life, "long", "t").expect("taken");
    life.master.switch(Switch::SnapshotCleanup, false).expect("switched");
    assert_eq!(life.master.delete_expired_snapshots().expect("looked"), 0);
    life.master.switch(Switch::SnapshotCleanup, true).expect("switched");
    assert_eq!(life.master.delete_expired_snapshots().expect("looked"), 1);
    assert_eq!(names(&life), ["long"]);
}

#[test]
fn clones_and_restorations_are_refused_as_in_hbase() {
    let life = life_with_table();
    take(&life, "s", "t").expect("taken");
    let old = pb::SnapshotDescription { ttl: Some(1), creation_time: Some(1), ..request("old", "t") };
    life.done(life.master.snapshot(old, None)).expect("taken");
    life.create("u", &["f"], &[]).expect("created");
    life.done(life.master.disable_table(&pb_name("u"), None)).expect("disabled");
    for (snapshot, table, class_of, words) in [
        ("none", "c", class::SNAPSHOT_DOES_NOT_EXIST, "Snapshot 'none' doesn't exist on the filesystem"),
        ("old", "c", class::SNAPSHOT_TTL_EXPIRED, "TTL for snapshot 'old' has already expired."),
        (
            "s",
            "t",
            class::UNSUPPORTED_OPERATION,
            "Table 't' must be disabled in order to perform a restore operation.",
        ),
        ("s", "none:c", class::NAMESPACE_NOT_FOUND, "none"),
        ("s", "u", class::RESTORE_SNAPSHOT, "snapshot 's' is of table t; table u cannot be restored from it"),
    ] {
        let refused = clone(&life, snapshot, table).expect_err("refused");
        assert_eq!((&*refused.class, &*refused.message), (class_of, words));
        assert!(refused.do_not_retry);
    }
    assert!(!life.has("c"));
}

#[test]
fn a_restoration_that_fails_leaves_the_table_as_it_was() {
    let life = life_with_table();
    take(&life, "s", "t").expect("taken");
    life.done(life.master.disable_table(&pb_name("t"), None)).expect("disabled");
    let before = (
        life.files_of("t"),
        life.master.read_view(|view| view.tables[&"t".parse().unwrap()].regions.clone()),
    );
    life.servers.refuse(Some("m"));
    let refused = clone(&life, "s", "t").expect_err("refused");
    assert_eq!(refused.class, class::RESTORE_SNAPSHOT);
    assert!(clone(&life, "s", "c").is_err() && !life.has("c"));
    let after = (
        life.files_of("t"),
        life.master.read_view(|view| view.tables[&"t".parse().unwrap()].regions.clone()),
    );
    assert_eq!(before, after);
    life.servers.refuse(None);
    life.master.delete_snapshot("s").expect("nobody needs it any more");
    life.done(life.master.enable_table(&pb_name("t"), None)).expect("the table is whole");
}

/// Checks that all regions of the disabled table t have their folders and open, and that the snapshot s is not needed.
fn assert_whole(life: &Life, words: &str) {
    assert_eq!(life.state("t"), TableState::Disabled, "{words}");
    let rows = life.master.read_view(|view| view.tables[&"t".parse().unwrap()].regions.clone());
    let files = life.files_of("t");
    for region in rows.iter().map(|row| &row.region) {
        let info = layout::region_info(region.table(), region.encoded_name());
        assert!(files.contains(&info), "{words}: {region} has no folder");
    }
    assert!(covers_all_rows(rows.iter()) && rows.len() == 2, "{words}: {rows:?}");
    life.master.delete_snapshot("s").expect("nobody needs it any more");
    life.done(life.master.enable_table(&pb_name("t"), None)).expect("the table is whole");
    assert_eq!(life.servers.open_count(), 4, "{words}");
}

#[test]
fn a_restoration_that_hbase_meta_has_late_is_not_undone() {
    for is_late in [true, false] {
        let life = life_with_table();
        take(&life, "s", "t").expect("taken");
        life.done(life.master.disable_table(&pb_name("t"), None)).expect("disabled");
        life.servers.stick();
        life.servers.die_after(Some(0));
        clone(&life, "s", "t").expect_err("hbase:meta is not written");
        // The chore carries the restoration on, and no links can be written.
        life.servers.refuse(Some("m"));
        life.master.carry_on_what_waits();
        life.master.procedures.wait_idle();
        if is_late {
            life.servers.release_stuck();
        }
        assert_whole(&life.next(), &format!("late: {is_late}"));
    }
}

#[test]
fn a_restoration_that_fails_at_any_act_leaves_a_whole_table() {
    let mut failures = 0;
    for outcome in [Outcome::DidNotHappen, Outcome::MayHaveHappened] {
        for act in 1..40 {
            let life = life_with_table();
            take(&life, "s", "t").expect("taken");
            life.done(life.master.disable_table(&pb_name("t"), None)).expect("disabled");
            let fault = Fault { act: life.files.acts() + act, kind: Kind::Failed, outcome, last: false };
            life.files.set_fault(Some(fault));
            failures += usize::from(clone(&life, "s", "t").is_err());
            life.files.set_fault(None);
            life.master.carry_on_what_waits();
            life.master.procedures.wait_idle();
            let words = format!("act {act}, {outcome:?}");
            assert!(life.master.intents.all().is_empty(), "{words}");
            assert_whole(&life.next(), &words);
        }
    }
    assert!(failures > 0);
}

/// A deletion may come between the two times at which a snapshot takes its locks, and fail.
#[test]
fn no_snapshot_is_taken_of_a_table_with_an_unfinished_change() {
    let life = life_with_table();
    life.done(life.master.disable_table(&pb_name("t"), None)).expect("disabled");
    let take_with_locks = || {
        let (master, table) = (Arc::clone(&life.master), name("t"));
        let regions: Vec<RegionInfo> = master
            .read_view(|view| view.tables[&table].regions.iter().map(|row| row.region.clone()).collect());
        let submission = Submission {
            kind: ProcedureKind::Snapshot,
            locks: LockSet::snapshot(&table, &regions),
            nonce: None,
            target: None,
        };
        let id = life.master.procedures.submit(submission, move |context| {
            master.take_snapshot(request("s", "t"), &table, context)?;
            Ok(Bytes::new())
        });
        life.done(id)
    };
    let delete = Intent::Delete { table: name("t") };
    life.master.intents.begin(delete.clone()).expect("stored");
    let refused = take_with_locks().expect_err("it may be deleted in part");
    assert!(refused.message.contains("a change of table t is not finished"), "{refused}");
    life.master.intents.end(&delete.key()).expect("removed");
    life.master.note_doubt(&name("t"), Exception::io("a failure of the test"));
    take_with_locks().expect_err("its state may differ from hbase:meta");
    assert_eq!(objects(&life), Vec::<String>::new());
    life.master.settle_doubt(&name("t")).expect("settled");
    take_with_locks().expect("nothing is in the way");
    assert_eq!(names(&life), ["s"]);
}

#[test]
fn snapshots_can_be_switched_off() {
    let life = Life::first_with(|options| options.snapshots_enabled = false);
    life.create("t", &["f"], &[]).expect("created");
    let refusals = [
        take(&life, "s", "t").expect_err("refused"),
        clone(&life, "s", "t").expect_err("refused"),
        life.master.delete_snapshot("s").expect_err("refused"),
        life.master.completed_snapshots().expect_err("refused"),
    ];
    for refused in refusals {
        assert_eq!(refused.class, class::UNSUPPORTED_OPERATION);
        assert!(refused.message.contains("'hbase.snapshot.enabled' property with value 'true'"), "{refused}");
    }
}
