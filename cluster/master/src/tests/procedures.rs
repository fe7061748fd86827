//! Tests that kill the master at every step of every kind of procedure. The next master must find the change complete
//! or not begun, must know the procedure by its id and its nonce, and must carry out a repeated submission once.

use proto::catalog::{RegionState, TableState};
use proto::descriptor::tracker::TrackerChoice;
use proto::{RegionInfo, pb};
use rpc::Exception;
use storage::memory::Fault;
use storage::{Kind, Outcome};

use super::fake::{Life, name, pb_name, schema};
use super::snapshots::{names, request, take};
use crate::procedure::{NonceKey, ProcedureId, ProcedureKind};
use crate::view::covers_all_rows;

/// A kind of procedure.
struct Case {
    /// Prepares the first master.
    before: fn(&Life) -> Result<(), Exception>,
    /// Submits the procedure.
    submit: fn(&Life, Option<NonceKey>) -> Result<ProcedureId, Exception>,
    /// Whether the change was made.
    is_made: fn(&Life) -> bool,
    /// Whether the procedure has a record.
    is_recorded: bool,
    /// Whether the outcome may be unknown after a crash.
    may_be_unknown: bool,
}

const RECORDED: Case = Case {
    before: table,
    submit: |_, _| unreachable!(),
    is_made: |_| true,
    is_recorded: true,
    may_be_unknown: false,
};

/// Where the master is killed.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// At this call that changes the disk, which then happens or not.
    Disk(u64, Outcome),
    /// At this write to hbase:meta or hbase:namespace.
    Catalog(u64),
}

impl Case {
    /// Kills the master one step later each time, until the procedure completes. Returns the number of kills.
    fn at_every_step(&self) -> usize {
        let mut cuts = 0;
        for has_power in [true, false] {
            for outcome in [Outcome::DidNotHappen, Outcome::MayHaveHappened] {
                cuts += (1..).take_while(|act| self.cut(Cut::Disk(*act, outcome), has_power)).count();
            }
            cuts += (0..).take_while(|writes| self.cut(Cut::Catalog(*writes), has_power)).count();
        }
        cuts
    }

    /// Kills the master there. Without power, changes of the disk that are not synced may be lost. Returns whether the
    /// master was killed before it reported success.
    fn cut(&self, cut: Cut, has_power: bool) -> bool {
        let nonce = NonceKey::of(Some(7), Some(9));
        let life = Life::first();
        (self.before)(&life).expect("the preparation works");
        match cut {
            Cut::Disk(act, outcome) => {
                let fault = Fault { act: life.files.acts() + act, kind: Kind::Failed, outcome, last: true };
                life.files.set_fault(Some(fault));
            }
            Cut::Catalog(writes) => life.servers.kill_after(writes),
        }
        let id = (self.submit)(&life, nonce);
        let told = life.done(id.clone());
        life.files.set_fault(None);
        let next = if has_power { life.next() } else { life.after_power_loss(1) };
        let made = (self.is_made)(&next);
        assert!(made || told.is_err(), "{cut:?}: it was reported as done");
        assert_whole(&next, has_power);
        if let (Ok(id), true) = (&id, self.is_recorded) {
            let found =
                next.master.procedures.wait(*id).unwrap_or_else(|| panic!("{cut:?}: {id:?} is forgotten"));
            match &found {
                Err(cause) if cause.message.contains("is unknown") => {
                    assert!(
                        self.may_be_unknown,
                        "{cut:?}: {:?}, made: {made}",
                        next.master.procedures.list()
                    );
                }
                found => assert_eq!(found.is_ok(), made, "{cut:?}: {found:?}"),
            }
            // If the outcome could not be stored, the client got it nevertheless.
            assert!(found.is_ok() || told.is_err() || self.may_be_unknown, "{cut:?}: {found:?}");
        }
        let again = (self.submit)(&next, nonce);
        if let (Ok(id), true) = (&id, self.is_recorded) {
            assert_eq!(again.as_ref().ok(), Some(id), "{cut:?}: {again:?}");
        }
        match next.done(again) {
            Err(cause) if cause.message.contains("is unknown") => assert!(self.may_be_unknown, "{cut:?}"),
            Err(cause) => assert!(!self.is_recorded && made, "{cut:?}: {cause}"),
            Ok(()) => assert!((self.is_made)(&next), "{cut:?}"),
        }
        // A region that was unassigned stays closed, which the self-check reports.
        if self.is_recorded {
            assert_whole(&next, has_power);
        }
        told.is_err()
    }
}

/// Asserts that no change is left to carry on, and that the self-check finds nothing. After a loss of power, deleted
/// folders may exist again.
fn assert_whole(life: &Life, has_power: bool) {
    assert_eq!(life.master.intents.all(), []);
    if has_power {
        let report = life.master.run_hbck().expect("checked");
        assert!(report.inconsistencies.is_empty(), "{:?}", report.inconsistencies);
    }
    let tables = life.master.read_view(|view| view.tables.clone());
    for (name, table) in tables.iter().filter(|(name, _)| !name.is_system()) {
        let serving: Vec<_> = table.serving().cloned().collect();
        assert!(covers_all_rows(serving.iter()), "{name}: {serving:?}");
        let is_open = |region: &RegionInfo| life.servers.server_of(region.encoded_name()).is_some();
        for row in &serving {
            let is_served = row.state == RegionState::Open && is_open(&row.region);
            let is_closed = row.state == RegionState::Closed && !is_open(&row.region);
            assert!(
                if table.state == TableState::Enabled { is_served || is_closed } else { is_closed },
                "{row:?}"
            );
        }
    }
}

fn table(life: &Life) -> Result<(), Exception> {
    life.create("t", &["f", "g"], &["m"])
}

fn disabled(life: &Life) -> Result<(), Exception> {
    table(life)?;
    life.done(life.master.disable_table(&pb_name("t"), None))
}

fn namespace(value: &'static str) -> pb::NamespaceDescriptor {
    let configuration = vec![pb::NameStringPair { name: "key".into(), value: value.into() }];
    pb::NamespaceDescriptor { name: "ns".into(), configuration }
}

fn with_namespace(life: &Life) -> Result<(), Exception> {
    life.done(life.master.create_namespace(&namespace("old"), None))
}

fn has_namespace(life: &Life, value: &'static str) -> bool {
    life.master.namespace("ns").is_ok_and(|found| found == namespace(value))
}

fn family(name: &'static str, versions: &'static str) -> pb::ColumnFamilySchema {
    let versions = pb::BytesBytesPair { first: "VERSIONS".into(), second: versions.into() };
    pb::ColumnFamilySchema { name: name.into(), attributes: vec![versions], ..Default::default() }
}

/// Returns the number of versions of a family of t; `None` if t has no such family.
fn versions(life: &Life, family: &str) -> Option<u32> {
    let table = life.master.read_view(|view| view.tables[&name("t")].descriptor.clone());
    Some(table.family(family.as_bytes())?.options().expect("a good schema").versions_max)
}

fn attribute(life: &Life, key: &str) -> Option<String> {
    let table = life.master.read_view(|view| view.tables[&name("t")].descriptor.clone());
    table.attributes().text(key).map(str::to_owned)
}

/// Returns the first region of t.
fn first_region(life: &Life) -> RegionInfo {
    life.master.read_view(|view| view.tables[&name("t")].regions[0].region.clone())
}

fn specifier(region: &RegionInfo) -> pb::RegionSpecifier {
    pb::RegionSpecifier { r#type: 1, value: region.name().clone() }
}

fn serving(life: &Life) -> usize {
    life.master.read_view(|view| view.tables[&name("t")].serving().count())
}

fn copy(life: &Life, table: &str, nonce: Option<NonceKey>) -> Result<ProcedureId, Exception> {
    life.master.restore_snapshot(&pb::RestoreSnapshotRequest {
        snapshot: request("s", table),
        nonce_group: nonce.map(|nonce| nonce.group),
        nonce: nonce.map(|nonce| nonce.nonce),
        ..Default::default()
    })
}

#[test]
fn tables_are_created_and_deleted() {
    let create = Case {
        before: |_| Ok(()),
        submit: |life, nonce| life.master.create_table(&schema("t", &["f", "g"]), &["m".into()], nonce),
        is_made: |life| life.has("t"),
        ..RECORDED
    };
    let delete = Case {
        before: disabled,
        submit: |life, nonce| life.master.delete_table(&pb_name("t"), nonce),
        is_made: |life| !life.has("t"),
        ..RECORDED
    };
    assert!(create.at_every_step() > 20 && delete.at_every_step() > 10);
}

#[test]
fn tables_are_enabled_disabled_and_truncated() {
    let enable = Case {
        before: disabled,
        submit: |life, nonce| life.master.enable_table(&pb_name("t"), nonce),
        is_made: |life| life.state("t") == TableState::Enabled,
        ..RECORDED
    };
    let disable = Case {
        submit: |life, nonce| life.master.disable_table(&pb_name("t"), nonce),
        is_made: |life| life.state("t") == TableState::Disabled,
        ..RECORDED
    };
    let truncate = Case {
        before: disabled,
        submit: |life, nonce| life.master.truncate_table(&pb_name("t"), true, nonce),
        is_made: |life| life.state("t") == TableState::Enabled,
        ..RECORDED
    };
    assert!(enable.at_every_step() > 8 && disable.at_every_step() > 8 && truncate.at_every_step() > 20);
}

#[test]
fn schemas_are_altered() {
    let alter = Case {
        submit: |life, nonce| {
            let mut wanted = schema("t", &["f", "g"]);
            wanted.attributes.push(pb::BytesBytesPair { first: "OWNER".into(), second: "ann".into() });
            life.master.modify_table(&pb_name("t"), &wanted, nonce)
        },
        is_made: |life| attribute(life, "OWNER").as_deref() == Some("ann"),
        ..RECORDED
    };
    let add = Case {
        submit: |life, nonce| life.master.add_family(&pb_name("t"), &family("h", "3"), nonce),
        is_made: |life| versions(life, "h") == Some(3),
        ..RECORDED
    };
    let modify = Case {
        submit: |life, nonce| life.master.modify_family(&pb_name("t"), &family("f", "7"), nonce),
        is_made: |life| versions(life, "f") == Some(7),
        ..RECORDED
    };
    let delete = Case {
        submit: |life, nonce| life.master.delete_family(&pb_name("t"), &"g".into(), nonce),
        is_made: |life| versions(life, "g").is_none(),
        ..RECORDED
    };
    for case in [alter, add, modify, delete] {
        assert!(case.at_every_step() > 10);
    }
}

#[test]
fn trackers_are_changed() {
    let is_made: fn(&Life) -> bool = |life| {
        let table = life.master.read_view(|view| view.tables[&name("t")].descriptor.clone());
        let family = table.family(b"f").expect("it has one");
        TrackerChoice::of_family(&table, family, "FILE").tracker == "DEFAULT"
    };
    let of_table = Case {
        submit: |life, nonce| life.master.change_tracker(&pb_name("t"), None, "DEFAULT", nonce),
        is_made,
        ..RECORDED
    };
    let of_family = Case {
        submit: |life, nonce| life.master.change_tracker(&pb_name("t"), Some(&"f".into()), "DEFAULT", nonce),
        is_made,
        ..RECORDED
    };
    assert!(of_table.at_every_step() > 10 && of_family.at_every_step() > 10);
}

#[test]
fn namespaces_are_created_modified_and_deleted() {
    let create = Case {
        before: |_| Ok(()),
        submit: |life, nonce| life.master.create_namespace(&namespace("old"), nonce),
        is_made: |life| has_namespace(life, "old"),
        ..RECORDED
    };
    let modify = Case {
        before: with_namespace,
        submit: |life, nonce| life.master.modify_namespace(&namespace("new"), nonce),
        is_made: |life| has_namespace(life, "new"),
        ..RECORDED
    };
    let delete = Case {
        before: with_namespace,
        submit: |life, nonce| life.master.delete_namespace("ns", nonce),
        is_made: |life| life.master.namespace("ns").is_err(),
        ..RECORDED
    };
    for case in [create, modify, delete] {
        assert!(case.at_every_step() >= 6);
    }
}

#[test]
fn regions_are_assigned_unassigned_and_moved() {
    let unassign: fn(&Life) -> Result<ProcedureId, Exception> =
        |life| life.master.unassign_region(&specifier(&first_region(life)));
    let is_open: fn(&Life) -> bool =
        |life| life.servers.server_of(first_region(life).encoded_name()).is_some();
    let assign = Case {
        before: |life| {
            table(life)?;
            life.done(life.master.unassign_region(&specifier(&first_region(life))))
        },
        submit: |life, _| life.master.assign_region(&specifier(&first_region(life))),
        is_made: is_open,
        is_recorded: false,
        ..RECORDED
    };
    assert!(assign.at_every_step() > 0);
    // A start opens every region of an enabled table, also a closed one.
    let life = Life::first();
    table(&life).expect("created");
    life.done(unassign(&life)).expect("closed");
    assert!(!is_open(&life) && is_open(&life.next()));
    let unassign = Case {
        submit: |life, _| life.master.unassign_region(&specifier(&first_region(life))),
        is_recorded: false,
        ..RECORDED
    };
    let move_away = Case {
        submit: |life, _| life.master.move_region(&specifier(&first_region(life)), None),
        is_made: is_open,
        is_recorded: false,
        ..RECORDED
    };
    assert!(unassign.at_every_step() > 0 && move_away.at_every_step() > 2);
}

#[test]
fn regions_are_split_merged_and_truncated() {
    let split = Case {
        submit: |life, nonce| {
            let region = first_region(life);
            life.master.split_region(&(&region).into(), Some("d".into()), nonce)
        },
        is_made: |life| serving(life) == 3,
        ..RECORDED
    };
    let merge = Case {
        submit: |life, nonce| {
            let regions = life.master.read_view(|view| view.tables[&name("t")].regions.clone());
            let both: Vec<_> = regions.iter().map(|row| specifier(&row.region)).collect();
            life.master.merge_regions(&both, false, nonce)
        },
        is_made: |life| serving(life) == 1,
        ..RECORDED
    };
    let truncate = Case {
        before: |life| {
            table(life)?;
            life.put_store_file("t", "f");
            Ok(())
        },
        submit: |life, nonce| life.master.truncate_region(&(&first_region(life)).into(), nonce),
        is_made: |life| life.files_of("t").iter().all(|file| file.last() != "0123"),
        may_be_unknown: true,
        ..RECORDED
    };
    for case in [split, merge, truncate] {
        assert!(case.at_every_step() > 10);
    }
}

/// Two splits or merges of the same region are accepted, and the master is killed after the first of them has ended. The
/// second was never carried out.
#[test]
fn a_split_or_merge_that_waited_for_another_is_not_reported_as_done() {
    for kinds in [["split", "merge"], ["merge", "split"], ["split", "split"], ["merge", "merge"]] {
        let mut killed_between = 0;
        for act in 1..80 {
            let life = Life::first();
            table(&life).expect("created");
            let regions: Vec<RegionInfo> = life.master.read_view(|view| {
                view.tables[&name("t")].regions.iter().map(|row| row.region.clone()).collect()
            });
            // Both are accepted while another procedure has the table, because a region that was split or merged is refused.
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let holder = life.master.submit(ProcedureKind::Reopen, &name("t"), None, move |_, _| {
                let _ended = ended.recv();
                Ok(())
            });
            holder.expect("submitted");
            let submit = |kind, number| {
                let nonce = NonceKey::of(Some(7), Some(number));
                if kind == "split" {
                    return life.master.split_region(&(&regions[0]).into(), Some("d".into()), nonce);
                }
                let both: Vec<_> = regions.iter().map(specifier).collect();
                life.master.merge_regions(&both, false, nonce)
            };
            let ids = [submit(kinds[0], 1), submit(kinds[1], 2)];
            let [first, second] = ids.map(|id| id.expect("accepted"));
            let (act, outcome) = (life.files.acts() + act, Outcome::DidNotHappen);
            life.files.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last: true }));
            drop(end);
            life.master.procedures.wait_idle();
            life.files.set_fault(None);
            let next = life.next();
            let told = [first, second].map(|id| next.master.procedures.wait(id));
            // Neither was stored yet if the master was killed at once. Then no client knows its id.
            let [Some(first), Some(second)] = told else { continue };
            assert!(second.is_err(), "act {act}, {kinds:?}: {first:?} {second:?}");
            let is_unknown = second.is_err_and(|cause| cause.message.contains("is unknown"));
            killed_between += usize::from(first.is_ok() && is_unknown);
        }
        assert!(killed_between > 0, "{kinds:?}");
    }
}

#[test]
fn snapshots_are_taken_cloned_and_restored() {
    let snapshot = Case {
        submit: |life, nonce| life.master.snapshot(request("s", "t"), nonce),
        is_made: |life| names(life) == ["s"],
        ..RECORDED
    };
    let clone_table = Case {
        before: |life| {
            table(life)?;
            take(life, "s", "t")
        },
        submit: |life, nonce| copy(life, "c", nonce),
        is_made: |life| life.has("c"),
        ..RECORDED
    };
    let restore = Case {
        before: |life| {
            table(life)?;
            take(life, "s", "t")?;
            life.done(life.master.delete_family(&pb_name("t"), &"g".into(), None))?;
            life.done(life.master.disable_table(&pb_name("t"), None))
        },
        submit: |life, nonce| copy(life, "t", nonce),
        is_made: |life| versions(life, "g").is_some(),
        ..RECORDED
    };
    for case in [snapshot, clone_table, restore] {
        assert!(case.at_every_step() > 10);
    }
}
