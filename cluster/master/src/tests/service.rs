//! Tests of the master's service: methods are called by name, with encoded requests and replies.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Runtime;
use prost::Message;
use proto::pb;
use rpc::{Answer, Call, Codec, Compressor, ConnectionInfo, Exception, Reply, Service, User, class};

use super::fake::{Life, pb_name, schema};
use crate::procedure::ProcedureKind;
use crate::{HbckService, MasterService};

/// Returns a call of a client that waits for `timeout`.
pub(super) fn call(life: &Life, timeout: Option<Duration>, method: &str, param: Bytes) -> Call {
    let received = life.master.world.moment();
    let connection = ConnectionInfo {
        user: User::default(),
        service: "MasterService".into(),
        codec: Codec::None,
        compressor: Compressor::None,
        version: None,
        remote: ([127, 0, 0, 1], 1).into(),
        attributes: Vec::new(),
        answers: rpc::Answers::new(u64::MAX),
    };
    Call {
        method: method.into(),
        size: param.len(),
        param,
        cells: Bytes::new(),
        connection: Arc::new(connection),
        priority: None,
        timeout,
        deadline: timeout.map(|timeout| received.plus(timeout)),
        received,
        attributes: Vec::new(),
        traceparent: None,
        permit: None,
    }
}

/// Returns the reply or exception to which an answer resolves.
pub(super) fn end_of(runtime: &Runtime, answer: Answer) -> Result<Reply, Exception> {
    match answer {
        Answer::Now(outcome) => outcome,
        Answer::Later(future) => {
            let (told, wait) = std::sync::mpsc::channel();
            runtime.spawn(async move { told.send(future.await).expect("the test waits") });
            wait.recv().expect("the answer comes")
        }
    }
}

struct Client {
    life: Life,
    service: MasterService,
    runtime: Runtime,
}

impl Client {
    fn new() -> Client {
        let life = Life::first();
        let service = MasterService::new(Arc::clone(&life.master));
        Client { life, service, runtime: Runtime::start("test", 2).expect("a thread can be started") }
    }

    fn raw(&self, method: &str, param: Bytes) -> Result<Reply, Exception> {
        self.raw_within(None, method, param)
    }

    /// Calls a method as a client that waits for `timeout`.
    fn raw_within(&self, timeout: Option<Duration>, method: &str, param: Bytes) -> Result<Reply, Exception> {
        let call = call(&self.life, timeout, method, param);
        end_of(&self.runtime, self.service.call(call))
    }

    fn call<M: Message + Default>(&self, method: &str, request: &impl Message) -> Result<M, Exception> {
        let reply = self.raw(method, request.encode_to_vec().into())?;
        Ok(M::decode(reply.message).expect("the answer is the message it should be"))
    }

    /// Asks for the result of a procedure until it has ended, as clients do.
    fn poll(&self, proc_id: Option<u64>) -> pb::GetProcedureResultResponse {
        let request = pb::GetProcedureResultRequest { proc_id: proc_id.expect("an id to poll") };
        loop {
            let found: pb::GetProcedureResultResponse =
                self.call("getProcedureResult", &request).expect("answered");
            if found.state() != pb::get_procedure_result_response::State::Running {
                return found;
            }
            std::thread::yield_now();
        }
    }

    fn create(&self, table: &str) -> pb::GetProcedureResultResponse {
        let request = pb::CreateTableRequest { table_schema: schema(table, &["f"]), ..Default::default() };
        let response: pb::CreateTableResponse = self.call("CreateTable", &request).expect("accepted");
        self.poll(response.proc_id)
    }
}

#[test]
fn a_client_is_asked_to_wait_until_the_start_has_opened_the_tables() {
    let first = Life::first();
    first.create("t", &["f"], &["m"]).expect("made");
    let files = first.files.kill();
    let below = Arc::new(files.clone());
    let (life, tables) = Life::unopened(files, below, first.durable.clone(), 9_000, |_| {}).expect("sound");
    let master = Arc::clone(&life.master);
    let service = MasterService::new(Arc::clone(&master));
    let client =
        Client { life, service, runtime: Runtime::start("test", 2).expect("a thread can be started") };
    let open = || master.regions.open_regions().expect("known").len();
    assert_eq!(open(), 2, "hbase:meta and hbase:namespace");
    let names = || client.raw("GetTableNames", Bytes::new());
    let disable = pb::DisableTableRequest { table_name: pb_name("t"), ..Default::default() };
    let disable = Bytes::from(disable.encode_to_vec());
    for refused in [names().map(drop), client.raw("DisableTable", disable).map(drop)] {
        assert_eq!(&*refused.expect_err("not yet").class, class::PLEASE_HOLD);
    }
    let check = call(&client.life, None, "RunHbckChore", Bytes::new());
    let refused = end_of(&client.runtime, HbckService::new(Arc::clone(&master)).call(check));
    assert_eq!(&*refused.expect_err("not yet").class, class::PLEASE_HOLD);
    client.raw("IsMasterRunning", Bytes::new()).expect("it runs");
    master.open_tables(tables).expect("sound");
    assert_eq!(open(), 4);
    names().expect("answered now");
}

#[test]
fn a_table_is_made_found_and_removed_over_the_wire() {
    use pb::get_procedure_result_response::State;
    let client = Client::new();
    let done = client.create("t");
    assert_eq!((done.state(), done.exception), (State::Finished, None));
    let request = pb::CreateTableRequest { table_schema: schema("t", &["f"]), ..Default::default() };
    let twice = client.call::<pb::CreateTableResponse>("CreateTable", &request).unwrap_err();
    assert_eq!((&*twice.class, &*twice.message), (class::TABLE_EXISTS, "t"));
    // A failure that is found only when the procedure runs is in the procedure's result.
    let request = pb::EnableTableRequest { table_name: pb_name("t"), ..Default::default() };
    let response: pb::EnableTableResponse = client.call("EnableTable", &request).unwrap();
    let told =
        client.poll(response.proc_id).exception.expect("it is enabled").generic_exception.expect("told");
    assert_eq!(
        (told.class_name(), told.message()),
        (class::TABLE_NOT_DISABLED, "tableName=t, state=ENABLED")
    );

    let names: pb::GetTableNamesResponse =
        client.call("GetTableNames", &pb::GetTableNamesRequest::default()).unwrap();
    assert_eq!(names.table_names, [pb_name("t")]);
    let request =
        pb::GetTableDescriptorsRequest { table_names: vec![pb_name("absent")], ..Default::default() };
    let none: pb::GetTableDescriptorsResponse = client.call("GetTableDescriptors", &request).unwrap();
    assert!(none.table_schema.is_empty());

    let request = pb::DisableTableRequest { table_name: pb_name("t"), ..Default::default() };
    let response: pb::DisableTableResponse = client.call("DisableTable", &request).unwrap();
    assert!(client.poll(response.proc_id).exception.is_none());
    let request = pb::DeleteTableRequest { table_name: pb_name("t"), ..Default::default() };
    let response: pb::DeleteTableResponse = client.call("DeleteTable", &request).unwrap();
    assert!(client.poll(response.proc_id).exception.is_none());
}

#[test]
fn an_unknown_procedure_has_an_exception_so_that_no_client_takes_it_for_done() {
    use pb::get_procedure_result_response::State;
    let client = Client::new();
    let unknown = client.poll(Some(1));
    assert_eq!(unknown.state(), State::NotFound);
    let exception = unknown.exception.and_then(|message| message.generic_exception).expect("an exception");
    assert_eq!(exception.class_name(), class::DO_NOT_RETRY_IO);
    assert!(exception.message().starts_with("the outcome of procedure 1 is unknown"), "{exception:?}");
}

fn add_family(family: &str) -> pb::AddColumnRequest {
    let column_families =
        pb::ColumnFamilySchema { name: Bytes::copy_from_slice(family.as_bytes()), ..Default::default() };
    pb::AddColumnRequest { table_name: pb_name("t"), column_families, ..Default::default() }
}

#[test]
fn the_answer_to_a_change_of_a_schema_and_to_a_truncation_comes_with_its_end() {
    let client = Client::new();
    client.create("t");
    let families = || {
        let all: pb::GetTableDescriptorsResponse =
            client.call("GetTableDescriptors", &pb::GetTableDescriptorsRequest::default()).unwrap();
        all.table_schema[0].column_families.iter().map(|family| family.name.clone()).collect::<Vec<_>>()
    };
    let _: pb::AddColumnResponse = client.call("AddColumn", &add_family("g")).unwrap();
    assert_eq!(families(), ["f", "g"]);
    let request =
        pb::DeleteColumnRequest { table_name: pb_name("t"), column_name: "g".into(), ..Default::default() };
    let _: pb::DeleteColumnResponse = client.call("DeleteColumn", &request).unwrap();
    assert_eq!(families(), ["f"]);
    let request = pb::ModifyTableRequest {
        table_name: pb_name("t"),
        table_schema: schema("t", &["f", "h"]),
        ..Default::default()
    };
    let _: pb::ModifyTableResponse = client.call("ModifyTable", &request).unwrap();
    assert_eq!(families(), ["f", "h"]);
    let request =
        pb::ModifyTableRequest { table_schema: schema("t", &["f"]), reopen_regions: Some(false), ..request };
    let refused = client.call::<pb::ModifyTableResponse>("ModifyTable", &request).unwrap_err();
    assert!(refused.message.starts_with("Cannot add or remove column families"), "{refused}");
    assert_eq!(families(), ["f", "h"]);

    client.life.done(client.life.master.disable_table(&pb_name("t"), None)).unwrap();
    let request = pb::TruncateTableRequest { table_name: pb_name("t"), ..Default::default() };
    let _: pb::TruncateTableResponse = client.call("truncateTable", &request).unwrap();
    assert_eq!(client.life.state("t"), pb::table_state::State::Enabled);

    client.life.servers.refuse(Some(""));
    let failed = client.call::<pb::AddColumnResponse>("AddColumn", &add_family("i")).unwrap_err();
    assert!(failed.message.contains("refused by the test"), "the procedure's own exception: {failed}");
}

#[test]
fn a_held_answer_goes_out_before_the_client_gives_up() {
    let client = Client::new();
    client.create("t");
    client.life.servers.pause(true);
    let param = Bytes::from(add_family("g").encode_to_vec());
    let (world, limit) = (env::World::real(), Duration::from_millis(100));
    let began = world.moment();
    let reply = client.raw_within(Some(limit), "AddColumn", param).unwrap();
    assert!(world.moment().since(began) > limit / 4, "the answer was held");
    let id = pb::AddColumnResponse::decode(reply.message).unwrap().proc_id;
    client.life.servers.pause(false);
    assert!(client.poll(id).exception.is_none(), "the procedure went on, and can be polled");
}

#[test]
fn switches_return_their_previous_value_and_survive_a_restart() {
    let client = Client::new();
    let off = pb::SetBalancerRunningRequest { on: false, synchronous: None };
    let before: pb::SetBalancerRunningResponse = client.call("SetBalancerRunning", &off).unwrap();
    assert!(before.prev_balance_value());
    let before: pb::SetBalancerRunningResponse = client.call("SetBalancerRunning", &off).unwrap();
    assert!(!before.prev_balance_value());
    let both =
        pb::SetSplitOrMergeEnabledRequest { enabled: false, synchronous: None, switch_types: vec![0, 1] };
    let before: pb::SetSplitOrMergeEnabledResponse = client.call("SetSplitOrMergeEnabled", &both).unwrap();
    assert_eq!(before.prev_value, [true, true]);
    let next = client.life.next();
    assert!(!next.master.switches.is_on(crate::switches::Switch::Balancer));
    assert!(!next.master.switches.is_on(crate::switches::Switch::Merge));
    assert!(next.master.switches.is_on(crate::switches::Switch::Normalizer));
}

#[test]
fn an_unknown_method_is_refused_as_by_old_servers() {
    let client = Client::new();
    let refused = client.raw("MakeCoffee", Bytes::new()).unwrap_err();
    assert!(refused.do_not_retry && refused.message.contains("UnsupportedOperationException"), "{refused}");
}

#[test]
fn bytes_that_are_no_message_are_refused_whatever_the_method() {
    let client = Client::new();
    for method in ["CreateTable", "GetClusterStatus", "getProcedureResult", "ModifyTable", "MoveRegion"] {
        let refused = client.raw(method, Bytes::from_static(&[0xff; 9])).unwrap_err();
        assert_eq!(refused.class, class::DO_NOT_RETRY_IO, "{method}");
    }
    // A message without its required parts decodes to empty parts, which must be refused.
    for method in ["CreateTable", "DeleteTable", "DisableTable", "ModifyTable", "AddColumn", "GetTableState"]
    {
        let refused = client.raw(method, Bytes::new());
        let refused = match (refused, method) {
            (Err(refused), _) => refused,
            (Ok(reply), _) => panic!("{method} accepted nothing: {reply:?}"),
        };
        assert!(refused.do_not_retry, "{method}: {refused}");
    }
}

#[test]
fn features_that_are_not_here_are_answered_as_where_they_are_switched_off() {
    let client = Client::new();
    for (method, class_or_words) in [
        ("SetQuota", "quota support disabled"),
        ("Grant", "AccessController is not loaded"),
        ("GetReplicationPeerConfig", "ReplicationPeerNotFoundException"),
    ] {
        let refused = client.raw(method, Bytes::new()).unwrap_err();
        assert!(refused.do_not_retry && refused.text().contains(class_or_words), "{method}: {refused}");
    }
    let empty: pb::GetQuotaStatesResponse = client.call("GetQuotaStates", &pb::EmptyMsg {}).unwrap();
    assert!(empty.table_snapshots.is_empty());
}

#[test]
fn replication_peers_are_refused_as_hbase_refuses_them_also_while_their_modification_is_off() {
    let client = Client::new();
    const CHANGES: [&str; 5] = [
        "AddReplicationPeer",
        "UpdateReplicationPeerConfig",
        "RemoveReplicationPeer",
        "EnableReplicationPeer",
        "DisableReplicationPeer",
    ];
    let switch = |on| {
        let request = pb::ReplicationPeerModificationSwitchRequest { on };
        let before: pb::ReplicationPeerModificationSwitchResponse =
            client.call("ReplicationPeerModificationSwitch", &request).expect("switched");
        let now: pb::IsReplicationPeerModificationEnabledResponse =
            client.call("IsReplicationPeerModificationEnabled", &pb::EmptyMsg {}).expect("answered");
        assert_eq!(now.enabled, on);
        before.previous_value
    };
    for change in CHANGES {
        assert!(client.raw(change, Bytes::new()).unwrap_err().do_not_retry, "{change}");
    }
    assert!(switch(false), "it is on at first");
    assert!(!switch(false));
    for change in CHANGES {
        let refused = client.raw(change, Bytes::new()).unwrap_err();
        assert_eq!((&*refused.class, refused.do_not_retry), (class::IO, false), "{change}");
        assert_eq!(refused.message, "Replication peer modification disabled", "{change}");
    }
    let running: pb::GetReplicationPeerModificationProceduresResponse =
        client.call("GetReplicationPeerModificationProcedures", &pb::EmptyMsg {}).expect("a list");
    assert!(running.procedure.is_empty());
    assert!(!switch(true));

    let request = pb::GetReplicationPeerStateRequest { peer_id: "p".into() };
    let unknown = client
        .call::<pb::GetReplicationPeerStateResponse>("IsReplicationPeerEnabled", &request)
        .expect_err("there is none");
    assert_eq!((&*unknown.class, unknown.do_not_retry), (class::IO, false));
    assert_eq!(unknown.message, "Replication Peer of p does not exist.");
    assert!(switch(false));
    assert!(!client.life.next().master.switches.is_on(crate::switches::Switch::PeerModification));
}

#[test]
fn only_the_own_server_is_not_decommissioned() {
    let client = Client::new();
    let decommission = |names: &[&proto::ServerName]| {
        let server_name = names.iter().map(|name| (*name).into()).collect();
        let request = pb::DecommissionRegionServersRequest { server_name, offload: true };
        client.call::<pb::DecommissionRegionServersResponse>("DecommissionRegionServers", &request)
    };
    let own = client.life.master.name.clone();
    let before = proto::ServerName { start_code: own.start_code + 1, ..own.clone() };
    decommission(&[]).expect("there is nothing to do");
    decommission(&[&before]).expect("it is not in the cluster");
    let refused = decommission(&[&before, &own]).expect_err("it has all regions");
    assert!(refused.do_not_retry && refused.message.contains("cannot be decommissioned"), "{refused}");
}

#[test]
fn an_offline_call_checks_the_region_and_changes_nothing() {
    let client = Client::new();
    client.create("t");
    let table = "t".parse().expect("a name");
    let row = || client.life.master.read_view(|view| view.tables[&table].regions[0].clone());
    let offline = |value: Bytes| {
        let request = pb::OfflineRegionRequest { region: pb::RegionSpecifier { r#type: 1, value } };
        client.call::<pb::OfflineRegionResponse>("OfflineRegion", &request)
    };
    let before = row();
    offline(before.region.name().clone()).expect("it is known");
    assert_eq!(row(), before);
    for unknown in ["nosuch", "t,x,5.00000000000000000000000000000000."] {
        let refused = offline(unknown.into()).expect_err("there is none");
        assert_eq!((&*refused.class, &*refused.message), (class::UNKNOWN_REGION, unknown));
    }
    let flushed: pb::FlushMasterStoreResponse =
        client.call("FlushMasterStore", &pb::FlushMasterStoreRequest {}).expect("nothing to do");
    assert_eq!(flushed, pb::FlushMasterStoreResponse {});
}

#[test]
fn an_open_region_is_not_assigned_and_a_closed_one_not_unassigned() {
    let client = Client::new();
    client.create("t");
    let name = "t".parse().expect("a name");
    let region = client.life.master.read_view(|view| view.tables[&name].regions[0].region.name().clone());
    let region = pb::RegionSpecifier { r#type: 1, value: region };
    let assign = |forced| {
        let request = pb::AssignRegionRequest { region: region.clone(), r#override: Some(forced) };
        client.call::<pb::AssignRegionResponse>("AssignRegion", &request)
    };
    let unassign = || {
        let request = pb::UnassignRegionRequest { region: region.clone(), ..Default::default() };
        client.call::<pb::UnassignRegionResponse>("UnassignRegion", &request)
    };
    let refused = assign(false).expect_err("it is open");
    assert!(refused.do_not_retry && refused.class.ends_with(".DoNotRetryRegionException"), "{refused}");
    assert!(refused.message.starts_with("Unexpected state for state=OPEN, location="), "{refused}");
    assign(true).expect("whatever its state is");
    unassign().expect("it is open");
    let refused = unassign().expect_err("it is closed");
    assert!(
        refused.message.starts_with("Unexpected state for state=CLOSED, location=null, table=t"),
        "{refused}"
    );
    assign(false).expect("it is closed");
}

#[test]
fn the_answer_names_a_refused_namespace_and_has_tables_in_the_order_of_namespaces() {
    let client = Client::new();
    let namespace = pb::NamespaceDescriptor { name: "n".into(), configuration: Vec::new() };
    let request = pb::CreateNamespaceRequest { namespace_descriptor: namespace, ..Default::default() };
    client.call::<pb::CreateNamespaceResponse>("CreateNamespace", &request).expect("it is new");
    let refused = client.call::<pb::CreateNamespaceResponse>("CreateNamespace", &request).unwrap_err();
    assert_eq!(refused.class, class::NAMESPACE_EXISTS);
    for table in ["n:t", "z", "b"] {
        client.create(table);
    }
    let names: pb::GetTableNamesResponse =
        client.call("GetTableNames", &pb::GetTableNamesRequest::default()).unwrap();
    assert_eq!(names.table_names, ["b", "z", "n:t"].map(pb_name), "by namespace, then by name");
}

#[test]
fn whoever_shuts_the_cluster_down_gets_an_answer_and_the_process_ends() {
    for method in ["Shutdown", "StopMaster"] {
        let client = Client::new();
        assert!(!client.life.servers.is_stopped());
        client.raw(method, Bytes::new()).expect("answered first");
        assert!(client.life.servers.is_stopped());
    }
}

/// HBase's client lists no procedures if it cannot read one of their messages.
#[test]
fn procedures_show_their_parameters_in_hbases_messages() {
    let client = Client::new();
    client.life.create("t", &["f"], &["m"]).expect("created");
    client.life.done(client.life.master.disable_table(&pb_name("t"), None)).expect("disabled");
    let namespace = pb::NamespaceDescriptor { name: "ns".into(), configuration: Vec::new() };
    client.life.done(client.life.master.create_namespace(&namespace, None)).expect("created");
    let all: pb::GetProceduresResponse =
        client.call("GetProcedures", &pb::GetProceduresRequest {}).expect("listed");
    let message = |class: &str| {
        let found = all.procedure.iter().find(|procedure| procedure.class_name.ends_with(class));
        let [message] = &found.expect("listed").state_message[..] else { panic!("one message: {found:?}") };
        let name =
            message.type_url.strip_prefix("type.googleapis.com/hbase.pb.").expect("a message of HBase");
        (name.to_owned(), message.value.clone())
    };
    // The numbers of the fields, and the values of those that are bytes.
    let fields = |value: &[u8]| {
        let mut fields = proto::wire::Fields::of(value);
        let mut found = Vec::new();
        while let Some((number, at, field)) = fields.next().expect("well formed") {
            found.push((number, field.range(at).map(|range| value[range].to_vec()).unwrap_or_default()));
        }
        found
    };
    let (name, create) = message("CreateTableProcedure");
    let create = fields(&create);
    assert_eq!(name, "CreateTableStateData");
    assert_eq!(create.iter().map(|field| field.0).collect::<Vec<_>>(), [1, 2, 3, 3], "user, schema, regions");
    let user = pb::UserInformation::decode(&create[0].1[..]).expect("a user");
    assert_eq!(user.effective_user, "bellows", "the test's calls have none");
    let schema = pb::TableSchema::decode(&create[1].1[..]).expect("a schema");
    assert_eq!(schema.column_families.len(), 1);
    let (name, disable) = message("DisableTableProcedure");
    let numbers: Vec<u64> = fields(&disable).iter().map(|field| field.0).collect();
    assert_eq!((name.as_str(), numbers), ("DisableTableStateData", vec![1, 2, 3]), "all are required");
    let (name, created) = message("CreateNamespaceProcedure");
    assert_eq!(name, "CreateNamespaceStateData");
    assert_eq!(pb::NamespaceDescriptor::decode(&fields(&created)[0].1[..]).expect("whole"), namespace);
}

#[test]
fn procedures_and_locks_are_listed_and_a_waiting_procedure_is_aborted() {
    let client = Client::new();
    client.life.create("t", &["f"], &[]).expect("created");
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (say, began) = std::sync::mpsc::channel();
    let table = "t".parse().expect("a table's name");
    let runs = client.life.master.submit(ProcedureKind::Alter, &table, None, move |_, _| {
        say.send(()).expect("heard");
        wait.recv().expect("told");
        Ok(())
    });
    began.recv().expect("it begins");
    let (runs, waits) = (runs.expect("accepted").0, client.life.master.disable_table(&pb_name("t"), None));
    let waits = waits.expect("accepted").0;
    let list = |method: &str| -> pb::GetProceduresResponse {
        client.call(method, &pb::GetProceduresRequest {}).expect("listed")
    };
    let described = |id: u64| {
        let all = list("GetProcedures").procedure;
        let found = all.into_iter().find(|procedure| procedure.proc_id == id).expect("listed");
        (found.class_name.clone(), found.state(), found.locked())
    };
    let class = |name: &str| format!("org.apache.hadoop.hbase.master.procedure.{name}");
    assert_eq!(described(runs), (class("ModifyTableProcedure"), pb::ProcedureState::Runnable, true));
    assert_eq!(described(waits), (class("DisableTableProcedure"), pb::ProcedureState::Runnable, false));
    let locks: pb::GetLocksResponse = client.call("GetLocks", &pb::GetLocksRequest {}).expect("listed");
    let [namespace, of_table] = &locks.lock[..] else { panic!("two locks: {locks:?}") };
    assert_eq!((namespace.resource_name(), namespace.shared_lock_count()), ("default", 1));
    assert_eq!(
        (namespace.lock_type(), of_table.lock_type()),
        (pb::LockType::Shared, pb::LockType::Exclusive)
    );
    assert_eq!(of_table.resource_type(), pb::LockedResourceType::Table);
    assert_eq!(of_table.exclusive_lock_owner_procedure.as_ref().map(|owner| owner.proc_id), Some(runs));
    assert_eq!(of_table.waiting_procedures.iter().map(|next| next.proc_id).collect::<Vec<_>>(), [waits]);
    let abort = |id: u64| {
        let request = pb::AbortProcedureRequest { proc_id: id, may_interrupt_if_running: Some(true) };
        let answer: pb::AbortProcedureResponse = client.call("AbortProcedure", &request).expect("answered");
        answer.is_procedure_aborted
    };
    assert!(abort(waits) && !abort(runs), "what changes the schema has no way back");
    assert_eq!(described(waits).1, pb::ProcedureState::Rolledback);
    go.send(()).expect("it waits");
    client.life.master.procedures.wait_idle();
    assert_eq!(described(runs), (class("ModifyTableProcedure"), pb::ProcedureState::Success, false));
    let locks: pb::GetLocksResponse = client.call("GetLocks", &pb::GetLocksRequest {}).expect("listed");
    assert_eq!(locks.lock, []);
}
