//! Tests what `HbckService` finds and repairs.

use std::sync::Arc;

use bytes::Bytes;
use contract::CatalogEdit;
use env::Runtime;
use prost::Message;
use proto::catalog::{RegionRow, RegionState, TableState};
use proto::region_info::RegionId;
use proto::{RegionInfo, pb};
use rpc::{Answer, Exception, Service, class};
use storage::Files;

use super::fake::{Life, name, pb_name};
use super::service::{call, end_of};
use super::snapshots::{clone, request, take};
use crate::{HbckService, Inconsistency};

struct Bench {
    life: Life,
    service: HbckService,
    runtime: Runtime,
}

impl Bench {
    fn new() -> Bench {
        let life = Life::first();
        life.create("t", &["f"], &["g", "n"]).expect("made");
        let service = HbckService::new(Arc::clone(&life.master));
        Bench { life, service, runtime: Runtime::start("test", 2).expect("a thread can be started") }
    }

    fn call<M: Message + Default>(&self, method: &str, request: &impl Message) -> Result<M, Exception> {
        let call = call(&self.life, None, method, request.encode_to_vec().into());
        let reply = end_of(&self.runtime, self.service.call(call))?;
        Ok(M::decode(reply.message).expect("the answer is the message it should be"))
    }

    fn rows(&self) -> Vec<RegionRow> {
        self.life.master.read_view(|view| view.tables[&name("t")].regions.clone())
    }

    fn check(&self) -> Vec<Inconsistency> {
        let ran: pb::RunHbckChoreResponse =
            self.call("RunHbckChore", &pb::RunHbckChoreRequest {}).expect("it runs");
        assert!(ran.ran);
        self.life.master.hbck_report().expect("it has just run").inconsistencies
    }

    /// Adds a store file to the folder of a region.
    fn add_store_file(&self, region: &RegionInfo) {
        let name = layout::region_folder(region).join("f/fa9c9d3b587c22c5c83ca6e8090f6614");
        let mut file = self.life.files.create(&name).expect("new");
        file.write(b"rows").expect("written");
        file.finish().expect("finished");
    }

    /// Deletes a row of hbase:meta, as an operator would with the shell.
    fn delete_row_of_meta(&self, key: Bytes) {
        let master = &self.life.master;
        let meta = RegionInfo::meta();
        let stamp = master.clock.next();
        master.regions.write(meta.encoded_name(), stamp, vec![CatalogEdit::Delete(key)]).expect("written");
    }
}

/// Changes the master's row of a region, but not that of hbase:meta.
fn change_view(bench: &Bench, row: RegionRow) {
    bench.life.master.update_view(|view| view.tables.get_mut(&name("t")).expect("it is there").update(row));
}

fn specifier(row: &RegionRow) -> pb::RegionSpecifier {
    pb::RegionSpecifier { r#type: 1, value: row.region.name().clone() }
}

#[test]
fn a_sound_cluster_has_no_inconsistency_whatever_its_tables_states() {
    let bench = Bench::new();
    assert_eq!(bench.check(), []);
    bench.life.done(bench.life.master.disable_table(&pb_name("t"), None)).expect("disabled");
    assert_eq!(bench.check(), []);
    let fixed = bench.call::<pb::FixMetaResponse>("FixMeta", &pb::FixMetaRequest {});
    assert!(fixed.is_ok() && bench.check().is_empty());
}

#[test]
fn rows_deleted_from_meta_are_found_and_written_again() {
    let bench = Bench::new();
    let rows = bench.rows();
    bench.delete_row_of_meta(rows[1].key());
    bench.delete_row_of_meta(Bytes::from_static(b"t"));
    let found = bench.check();
    assert_eq!(
        found,
        [
            Inconsistency::TableState { table: name("t"), found: "none", expected: "ENABLED" },
            Inconsistency::NoRow(Box::new(rows[1].region.clone())),
        ]
    );
    bench.call::<pb::FixMetaResponse>("FixMeta", &pb::FixMetaRequest {}).expect("mended");
    assert_eq!(bench.check(), []);
    let next = bench.life.next();
    assert_eq!(next.state("t"), TableState::Enabled, "it is in hbase:meta");
}

#[test]
fn a_hole_is_found_after_a_start_and_filled_by_an_empty_region() {
    let mut bench = Bench::new();
    let lost = bench.rows().remove(1);
    bench.delete_row_of_meta(lost.key());
    bench.life = bench.life.next();
    bench.service = HbckService::new(Arc::clone(&bench.life.master));
    let hole = Inconsistency::Hole { table: name("t"), start: "g".into(), end: "n".into() };
    bench.add_store_file(&lost.region);
    // The rows of the lost region are still in its folder, but hbase:meta does not have the region any more.
    let orphan =
        Inconsistency::OrphanFolder { table: name("t"), folder: layout::region_folder(&lost.region) };
    assert_eq!(bench.check(), [hole, orphan.clone()]);
    bench.call::<pb::FixMetaResponse>("FixMeta", &pb::FixMetaRequest {}).expect("mended");
    assert_eq!(bench.check(), [orphan]);
    let starts: Vec<_> = bench.rows().iter().map(|row| row.region.start_key().clone()).collect();
    assert_eq!(starts, ["", "g", "n"]);
    assert!(bench.life.servers.server_of(bench.rows()[1].region.encoded_name()).is_some());
}

#[test]
fn regions_that_are_not_as_their_table_are_found_and_assigned() {
    let bench = Bench::new();
    let row = bench.rows().remove(0);
    let unknown = pb::RegionSpecifier { r#type: 1, value: "t,x,1.00000000000000000000000000000000.".into() };
    let request = pb::UnassignsRequest { region: vec![specifier(&row), unknown.clone()], r#override: None };
    let ids: pb::UnassignsResponse = bench.call("Unassigns", &request).expect("submitted");
    assert_eq!(ids.pid.len(), 1, "an unknown region is left out");
    bench.life.master.procedures.wait_idle();
    let found = bench.check();
    let region = Box::new(row.region.clone());
    assert_eq!(found, [Inconsistency::NotOpen { region, state: "not open" }]);
    assert!(found[0].to_string().contains("assign it"), "{}", found[0]);
    let request = pb::AssignsRequest { region: vec![specifier(&row)], r#override: None };
    let ids: pb::AssignsResponse = bench.call("Assigns", &request).expect("submitted");
    assert_eq!(ids.pid.len(), 1);
    bench.life.master.procedures.wait_idle();
    assert_eq!(bench.check(), []);
}

#[test]
fn a_region_that_could_not_be_opened_is_found_with_its_cause_also_while_its_table_is_changed() {
    let mut bench = Bench::new();
    let broken = bench.life.files_of("t").into_iter().find(|file| file.last() == ".regioninfo");
    let broken = broken.expect("each region has one");
    let whole = bench.life.files.read(&broken, 10_000).expect("there");
    bench.life.files.damage(&broken, |bytes| bytes.truncate(2));
    bench.life = bench.life.next();
    bench.service = HbckService::new(Arc::clone(&bench.life.master));
    let found = bench.check();
    assert_eq!(found, bench.life.master.failed_regions());
    let words = found.iter().map(ToString::to_string).collect::<Vec<_>>();
    let encoded = broken.parent().expect("in the region's folder").last().to_owned();
    assert!(words.len() == 1 && words[0].contains(&encoded), "{words:?}");
    assert!(words[0].contains(".regioninfo") && words[0].contains("from a backup"), "{words:?}");

    // The region keeps a change of the table from ending.
    let family =
        pb::ColumnFamilySchema::from(&proto::FamilyDescriptor::new("f").unwrap().with("VERSIONS", 7));
    let _fails = bench.life.done(bench.life.master.modify_family(&pb_name("t"), &family, None));
    assert_eq!(bench.check().len(), 1);

    bench.life.files.damage(&broken, |bytes| *bytes = whole.clone());
    bench.life.master.reopen_failed(&mut crate::reopen::Reopening::default());
    bench.life.master.procedures.wait_idle();
    assert_eq!(bench.check(), []);
}

#[test]
fn states_are_set_as_requested_and_the_previous_ones_returned() {
    let bench = Bench::new();
    let table_state = pb::TableState { state: TableState::Disabled as i32 };
    let request = pb::SetTableStateInMetaRequest { table_name: pb_name("t"), table_state };
    let before: pb::GetTableStateResponse = bench.call("SetTableStateInMeta", &request).expect("set");
    assert_eq!(before.table_state.state(), TableState::Enabled);
    assert_eq!(bench.life.state("t"), TableState::Disabled);
    assert_eq!(bench.check().len(), 3, "regions stay open");
    let absent = pb::SetTableStateInMetaRequest { table_name: pb_name("absent"), ..request };
    let refused = bench.call::<pb::GetTableStateResponse>("SetTableStateInMeta", &absent);
    assert_eq!(refused.expect_err("not there").class, class::TABLE_NOT_FOUND);

    let row = bench.rows().remove(0);
    let wanted = |region_specifier| pb::RegionSpecifierAndState {
        region_specifier,
        state: RegionState::Closed as i32,
    };
    let request = pb::SetRegionStateInMetaRequest { states: vec![wanted(specifier(&row))] };
    let before: pb::SetRegionStateInMetaResponse = bench.call("SetRegionStateInMeta", &request).expect("set");
    assert_eq!(before.states[0].state(), RegionState::Open);
    assert_eq!(bench.rows()[0], RegionRow { state: RegionState::Closed, ..row.clone() });
    let content = bench.life.master.catalog.read().expect("the disk works");
    assert_eq!(content.regions[&name("t")][0], RegionRow { state: RegionState::Closed, ..row });
}

/// Two calls may have found the same hole before the first one fills it.
#[test]
fn a_hole_that_was_filled_since_the_check_is_not_filled_again() {
    let mut bench = Bench::new();
    bench.delete_row_of_meta(bench.rows().remove(1).key());
    bench.life = bench.life.next();
    let hole = Inconsistency::Hole { table: name("t"), start: "g".into(), end: "n".into() };
    for _ in 0..2 {
        bench.life.master.mend(&hole).expect("filled");
    }
    let starts: Vec<_> = bench.rows().iter().map(|row| row.region.start_key().clone()).collect();
    assert_eq!(starts, ["", "g", "n"]);
}

/// A merge of a parent with its daughter takes the files of both, and so brings back what was deleted from the daughter.
#[test]
fn the_remedy_of_an_overlap_names_the_older_region_first() {
    let region = |end: &'static str, id| {
        RegionInfo::new(name("t"), Bytes::new(), end.into(), RegionId(id)).expect("lawful")
    };
    let (parent, daughter) = (region("", 1), region("c", 2));
    for pair in [[&parent, &daughter], [&daughter, &parent]] {
        let [one, other] = pair.map(|region| Box::new(region.clone()));
        let words = Inconsistency::Overlap(one, other).to_string();
        assert!(
            words.starts_with(&format!("regions {parent} and {daughter} cover the same rows; ")),
            "{words}"
        );
        assert!(words.contains("unassign the first, delete its row"), "{words}");
    }
}

fn set_state_of_table(bench: &Bench, state: TableState) {
    let table_state = pb::TableState { state: state as i32 };
    let request = pb::SetTableStateInMetaRequest { table_name: pb_name("t"), table_state };
    bench.call::<pb::GetTableStateResponse>("SetTableStateInMeta", &request).expect("set");
}

/// The state of a table may be set without closing its regions. Writes that these acknowledge after the restoration has replaced
/// them would be lost.
#[test]
fn a_restoration_closes_regions_that_are_open_although_their_table_is_disabled() {
    let bench = Bench::new();
    take(&bench.life, "s", "t").expect("taken");
    set_state_of_table(&bench, TableState::Disabled);
    let flushed = bench.life.servers.flushed();
    take(&bench.life, "also", "t").expect("taken");
    assert_eq!(bench.life.servers.flushed(), flushed + 3, "what is in memory is in the snapshot");

    let old = bench.rows();
    bench.life.servers.refuse_closes(1);
    clone(&bench.life, "s", "t").expect_err("a region is not closed");
    let regions = |rows: &[RegionRow]| rows.iter().map(|row| row.region.clone()).collect::<Vec<_>>();
    assert_eq!(regions(&bench.rows()), regions(&old), "the table is as before");
    clone(&bench.life, "s", "t").expect("restored");
    for RegionRow { region, .. } in &old {
        assert_eq!(bench.life.servers.server_of(region.encoded_name()), None, "{region}");
    }
    assert!(bench.life.master.intents.all().is_empty());
    assert_eq!(bench.check(), []);
    bench.life.done(bench.life.master.enable_table(&pb_name("t"), None)).expect("enabled");
    assert_eq!(bench.check(), []);
}

#[test]
fn regions_that_are_open_although_their_table_is_disabled_can_be_closed() {
    let bench = Bench::new();
    set_state_of_table(&bench, TableState::Disabled);
    let open: Vec<_> =
        bench.rows().into_iter().map(|row| Inconsistency::Open(Box::new(row.region))).collect();
    assert_eq!(bench.check(), open);
    let request =
        pb::UnassignsRequest { region: bench.rows().iter().map(specifier).collect(), r#override: None };
    let closing: pb::UnassignsResponse = bench.call("Unassigns", &request).expect("submitted");
    assert_eq!(closing.pid.len(), 3);
    bench.life.master.procedures.wait_idle();
    assert_eq!(bench.check(), []);
    bench.life.done(bench.life.master.enable_table(&pb_name("t"), None)).expect("enabled");
    set_state_of_table(&bench, TableState::Disabled);
    bench.life.done(bench.life.master.enable_table(&pb_name("t"), None)).expect("enabled");
    bench.life.done(bench.life.master.disable_table(&pb_name("t"), None)).expect("disabled");
    assert_eq!(bench.check(), []);
}

/// A request that has looked up its region waits for a split of it, and must not bring the parent back.
#[test]
fn the_state_of_a_region_that_was_split_meanwhile_stays() {
    let bench = Bench::new();
    *bench.life.servers.split_row.lock() = Some("c".into());
    let (master, parent) = (&bench.life.master, bench.rows().remove(0));
    bench.life.servers.pause(true);
    master.snapshot(request("s", "t"), None).expect("submitted");
    let is_running = || {
        master.procedures.locks().iter().any(|lock| {
            lock.resource.to_string() == parent.region.encoded_name().as_str() && lock.holders.is_some()
        })
    };
    while !is_running() {
        std::thread::yield_now();
    }
    master.split_region(&(&parent.region).into(), None, None).expect("submitted");
    let state = RegionState::Open as i32;
    let states = vec![pb::RegionSpecifierAndState { region_specifier: specifier(&parent), state }];
    let wanted = pb::SetRegionStateInMetaRequest { states }.encode_to_vec();
    let setting = bench.service.call(call(&bench.life, None, "SetRegionStateInMeta", wanted.into()));
    let Answer::Later(setting) = setting else { panic!("the call waits") };
    let (told, wait) = std::sync::mpsc::channel();
    bench.runtime.spawn(async move { told.send(setting.await).expect("the test waits") });
    while master.procedures.unfinished() < 3 && wait.try_recv().is_err() {
        std::thread::yield_now();
    }
    bench.life.servers.pause(false);
    let refused = wait.recv().expect("not answered yet").expect_err("it was split");
    assert!(refused.message.contains("was split, and its daughters have its rows"), "{refused}");
    master.procedures.wait_idle();
    let rows = bench.rows();
    let row = rows.iter().find(|row| row.region.name() == parent.region.name()).expect("it has children");
    assert!(row.region.is_split() && row.daughters.is_some(), "{row:?}");
    assert_eq!(bench.check(), []);
}

#[test]
fn no_state_is_written_to_a_row_that_is_not_there() {
    let bench = Bench::new();
    let row = bench.rows().remove(0);
    bench.delete_row_of_meta(row.key());
    let state = RegionState::Closed as i32;
    let states = vec![pb::RegionSpecifierAndState { region_specifier: specifier(&row), state }];
    let request = pb::SetRegionStateInMetaRequest { states };
    let refused = bench.call::<pb::SetRegionStateInMetaResponse>("SetRegionStateInMeta", &request);
    let refused = refused.expect_err("there is no row");
    assert!(refused.message.contains("run hbck_chore_run, and fixMeta"), "{refused}");
    assert_eq!(bench.check(), [Inconsistency::NoRow(Box::new(row.region))]);
}

#[test]
fn what_one_server_cannot_do_is_refused_with_the_reason() {
    let bench = Bench::new();
    let own = pb::ServerName::from(&bench.life.master.regions.live()[0]);
    let dead = pb::ServerName { start_code: Some(0), ..own.clone() };
    let schedule = |server_name| pb::ScheduleServerCrashProcedureRequest { server_name };
    let method = "ScheduleServerCrashProcedure";
    let none: pb::ScheduleServerCrashProcedureResponse =
        bench.call(method, &schedule(vec![dead])).expect("nothing is left to do");
    assert_eq!(none.pid, [u64::MAX]);
    let refused = bench
        .call::<pb::ScheduleServerCrashProcedureResponse>(method, &schedule(vec![own]))
        .expect_err("it serves");
    assert!(refused.do_not_retry && refused.message.contains("next start replays the log"), "{refused}");
    let request = pb::BypassProcedureRequest { proc_id: vec![1, 2], ..Default::default() };
    let refused = bench.call::<pb::BypassProcedureResponse>("BypassProcedure", &request);
    assert!(refused.expect_err("it waits for no time").message.contains("expected at least 1"));
    let request = pb::BypassProcedureRequest { wait_time: Some(1), ..request };
    let bypassed: pb::BypassProcedureResponse = bench.call("BypassProcedure", &request).expect("answered");
    assert_eq!(bypassed.bypassed, [false, false]);
    let unknown: pb::ScheduleScPsForUnknownServersResponse = bench
        .call("ScheduleSCPsForUnknownServers", &pb::ScheduleScPsForUnknownServersRequest {})
        .expect("answered");
    assert!(unknown.pid.is_empty());
    bench.life.servers.pause(true);
    bench.life.done(bench.life.master.disable_table(&pb_name("t"), None)).expect("disabled");
    let running = bench.life.master.enable_table(&pb_name("t"), None).expect("submitted");
    let request =
        pb::BypassProcedureRequest { proc_id: vec![running.0], wait_time: Some(1), ..Default::default() };
    let refused = bench.call::<pb::BypassProcedureResponse>("BypassProcedure", &request);
    assert!(refused.expect_err("it runs").message.contains("cannot be bypassed"));
    assert_eq!(bench.check(), [], "a table that changes is left out");
    bench.life.servers.pause(false);
    bench.life.master.procedures.wait_idle();
}

#[test]
fn a_table_whose_row_may_have_been_written_is_left_out_until_it_is_settled() {
    let bench = Bench::new();
    let master = &bench.life.master;
    // The row is written although the write was reported to have failed.
    let row = RegionRow { state: RegionState::Closed, ..bench.rows().remove(1) };
    master.catalog.put_regions([&row]).expect("written");
    let _cause = master.note_doubt(&name("t"), Exception::io("no space is left"));
    assert_eq!(bench.check(), []);
    master.carry_on_what_waits();
    master.procedures.wait_idle();
    assert!(!master.is_in_doubt(&name("t")) && bench.rows()[1].state == RegionState::Open);
    assert_eq!(bench.check(), []);
}

#[test]
fn a_row_that_was_changed_by_hand_is_found_and_written_again() {
    let bench = Bench::new();
    let row = bench.rows().remove(1);
    let other = RegionRow { server: "gone,16020,1".parse().ok(), ..row.clone() };
    bench.life.master.catalog.put_regions([&other]).expect("written");
    let found = bench.check();
    let expected = format!("OPEN on {}", row.server.as_ref().expect("it is open"));
    let region = Box::new(row.region);
    assert_eq!(found, [Inconsistency::Row { region, found: "OPEN on gone,16020,1".into(), expected }]);
    bench.call::<pb::FixMetaResponse>("FixMeta", &pb::FixMetaRequest {}).expect("mended");
    assert_eq!(bench.check(), []);
}

#[test]
fn a_region_on_a_server_that_is_gone_is_found() {
    let bench = Bench::new();
    // The check must read hbase:meta, so that region stays open.
    let stays = bench.life.servers.server_of(RegionInfo::meta().encoded_name()).expect("it is open");
    let lost: Vec<RegionRow> =
        bench.rows().into_iter().filter(|row| row.server.as_ref() != Some(&stays)).collect();
    assert!(!lost.is_empty(), "both servers have regions");
    bench.life.servers.set_live(&[&stays.to_string()]);
    let unknown = |row: RegionRow| Inconsistency::UnknownServer {
        server: row.server.expect("it is open"),
        region: Box::new(row.region),
    };
    let found: Vec<_> = bench.check().into_iter().filter(|one| one.table() == Some(&name("t"))).collect();
    assert_eq!(found, lost.into_iter().map(unknown).collect::<Vec<_>>());
}

#[test]
fn parents_that_are_open_or_have_rows_are_found() {
    let bench = Bench::new();
    let [first, second, third]: [RegionRow; 3] = bench.rows().try_into().expect("three regions");
    change_view(&bench, RegionRow { merged_from: vec![second.region.clone()], ..first.clone() });
    let (parent, child) = (Box::new(second.region), Box::new(first.region.clone()));
    assert_eq!(bench.check(), [Inconsistency::MergedParent { parent, child }]);
    bench.life.master.update_view(|view| {
        let table = view.tables.get_mut(&name("t")).expect("it is there");
        table.regions.iter_mut().for_each(|row| row.merged_from.clear());
        table.regions.iter_mut().filter(|row| row.region.name() == third.region.name()).for_each(|row| {
            row.region = row.region.clone().with_marks(true, true);
        });
    });
    let found = bench.check();
    assert!(
        found.iter().any(
            |one| matches!(one, Inconsistency::OpenParent(region) if region.name() == third.region.name())
        ),
        "{found:?}"
    );
}

#[test]
fn a_region_without_a_table_is_found_while_nothing_runs() {
    let bench = Bench::new();
    let row = bench.rows().remove(2);
    bench.delete_row_of_meta(row.key());
    bench.life.master.update_view(|view| {
        let table = view.tables.get_mut(&name("t")).expect("it is there");
        table.regions.retain(|known| known.region.name() != row.region.name());
    });
    bench.add_store_file(&row.region);
    let (region, folder) = (row.region.encoded_name().clone(), layout::region_folder(&row.region));
    assert_eq!(
        bench.check(),
        [
            Inconsistency::Hole { table: name("t"), start: "n".into(), end: Bytes::new() },
            Inconsistency::Stray(region),
            Inconsistency::OrphanFolder { table: name("t"), folder },
        ]
    );
}

#[test]
fn a_creation_that_is_not_undone_yet_is_no_inconsistency() {
    let mut left_open = 0;
    for writes in 0.. {
        let life = Life::first();
        let before = life.servers.open_count();
        life.servers.kill_after(writes);
        if life.create("t", &["f"], &["g", "n"]).is_ok() {
            assert!(left_open > 0, "no creation failed with open regions");
            return;
        }
        left_open += usize::from(life.servers.open_count() > before);
        let report = life.master.run_hbck().expect("the disk can be read");
        assert_eq!(report.inconsistencies, [], "{writes} writes");
    }
}

#[test]
fn folders_without_regions_and_regions_without_folders_are_found() {
    let bench = Bench::new();
    let region = bench.rows().remove(1).region;
    let info = layout::region_info(region.table(), region.encoded_name());
    bench.life.files.delete(&info).expect("deleted");
    assert_eq!(bench.check(), [Inconsistency::NoFolder(Box::new(region.clone()))]);
    layout::keep_region_info(&bench.life.files, &layout::region_folder(&region), &region).expect("written");
    assert_eq!(bench.check(), []);
    let lost = RegionInfo::new(name("gone"), Bytes::new(), Bytes::new(), region.id()).expect("lawful");
    let folder = layout::region_folder(&lost);
    layout::keep_region_info(&bench.life.files, &folder, &lost).expect("written");
    assert_eq!(bench.check(), [], "the folder has no rows");
    bench.add_store_file(&lost);
    assert_eq!(bench.check(), [Inconsistency::OrphanFolder { table: name("gone"), folder }]);
}

#[test]
fn what_a_split_and_a_merge_leave_behind_is_no_inconsistency() {
    let bench = Bench::new();
    *bench.life.servers.split_row.lock() = Some("c".into());
    let master = &bench.life.master;
    let region = pb::RegionInfo::from(&bench.rows()[0].region);
    bench.life.done(master.split_region(&region, None, None)).expect("split");
    assert_eq!(bench.check(), []);
    let two: Vec<_> =
        bench.rows().iter().filter(|row| !row.region.is_split()).skip(2).map(specifier).collect();
    bench.life.done(master.merge_regions(&two, false, None)).expect("merged");
    assert_eq!(bench.check(), []);
}
