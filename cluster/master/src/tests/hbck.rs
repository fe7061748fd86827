//! What `HbckService` finds and mends.

use std::sync::Arc;

use bytes::Bytes;
use contract::CatalogEdit;
use env::Runtime;
use prost::Message;
use proto::catalog::{RegionRow, RegionState, TableState};
use proto::{RegionInfo, pb};
use rpc::{Exception, Service, class};

use super::fake::{Life, name, pb_name};
use super::service::{call, end_of};
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

    /// As an operator would with the shell.
    fn delete_row_of_meta(&self, key: Bytes) {
        let master = &self.life.master;
        let meta = RegionInfo::meta();
        let stamp = master.clock.next();
        master.regions.write(meta.encoded_name(), stamp, vec![CatalogEdit::Delete(key)]).expect("written");
    }
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
fn what_was_deleted_from_meta_is_found_and_written_again() {
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
    bench.delete_row_of_meta(bench.rows()[1].key());
    bench.life = bench.life.next();
    bench.service = HbckService::new(Arc::clone(&bench.life.master));
    let hole = Inconsistency::Hole { table: name("t"), start: "g".into(), end: "n".into() };
    assert_eq!(bench.check(), [hole]);
    bench.call::<pb::FixMetaResponse>("FixMeta", &pb::FixMetaRequest {}).expect("mended");
    assert_eq!(bench.check(), []);
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
    assert_eq!(ids.pid[1], u64::MAX, "nobody knows it");
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
fn states_are_set_as_they_are_asked_for_and_the_ones_before_are_told() {
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
    assert_eq!(bench.rows()[0].state, RegionState::Closed);
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
    let bypassed: pb::BypassProcedureResponse = bench.call("BypassProcedure", &request).expect("answered");
    assert_eq!(bypassed.bypassed, [false, false]);
    let unknown: pb::ScheduleScPsForUnknownServersResponse = bench
        .call("ScheduleSCPsForUnknownServers", &pb::ScheduleScPsForUnknownServersRequest {})
        .expect("answered");
    assert!(unknown.pid.is_empty());
    bench.life.servers.pause(true);
    bench.life.done(bench.life.master.disable_table(&pb_name("t"), None)).expect("disabled");
    let running = bench.life.master.enable_table(&pb_name("t"), None).expect("submitted");
    let request = pb::BypassProcedureRequest { proc_id: vec![running.0], ..Default::default() };
    let refused = bench.call::<pb::BypassProcedureResponse>("BypassProcedure", &request);
    assert!(refused.expect_err("it runs").message.contains("cannot be bypassed"));
    assert_eq!(bench.check(), [], "a table that changes is left out");
    bench.life.servers.pause(false);
    bench.life.master.procedures.wait_idle();
}
