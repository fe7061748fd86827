//! Tests of AdminService, ClientMetaService and BootstrapNodeService.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use proto::{RegionId, RegionInfo, ServerName, pb};
use rpc::{Answer, Service};

use super::bench::{Bench, class};
use crate::{
    BootstrapNodeService, ClientMetaService, ClusterView, MetaLocation, Options, TaskFilter, TaskState,
};

#[test]
fn regions_and_loads_are_listed() {
    let bench = Bench::with(Options::default(), &[("", "m"), ("m", "")]);
    let online: pb::GetOnlineRegionResponse =
        bench.admin("GetOnlineRegion", &pb::GetOnlineRegionRequest {}).expect("a list");
    assert_eq!(online.region_info.len(), 2);
    let loads = |table: &str| {
        let name = pb::TableName {
            namespace: "default".into(),
            qualifier: Bytes::copy_from_slice(table.as_bytes()),
        };
        let request = pb::GetRegionLoadRequest { table_name: Some(name) };
        bench.admin::<pb::GetRegionLoadResponse>("GetRegionLoad", &request).expect("loads").region_loads
    };
    assert_eq!((loads("t").len(), loads("other").len()), (2, 0));
    assert_eq!(loads("t")[0].stores, Some(2));
    let info: pb::GetServerInfoResponse =
        bench.admin("GetServerInfo", &pb::GetServerInfoRequest {}).expect("info");
    assert_eq!((info.server_info.server_name.port(), info.server_info.webui_port), (16020, Some(16030)));
    assert_eq!(bench.server.server_load().region_loads.len(), 2);
}

#[test]
fn queued_compactions_are_reported() {
    let bench = Bench::new();
    let region = bench.region_of(b"a");
    let state = || {
        let request = pb::GetRegionInfoRequest {
            region: region.clone(),
            compaction_state: Some(true),
            best_split_row: Option::None,
        };
        bench.admin::<pb::GetRegionInfoResponse>("GetRegionInfo", &request).expect("info").compaction_state()
    };
    use pb::get_region_info_response::CompactionState::{MajorAndMinor, Minor, None};
    assert_eq!(state(), None);
    let compact = |major, family: Option<&'static str>| {
        let request = pb::CompactRegionRequest {
            region: region.clone(),
            major: Some(major),
            family: family.map(Bytes::from),
        };
        bench.admin::<pb::CompactRegionResponse>("CompactRegion", &request)
    };
    compact(false, Option::None).expect("there is nothing to compact");
    compact(true, Option::None).expect("there is nothing to compact");
    assert_eq!(state(), None);
    let open = bench.server.regions().all().remove(0);
    for row in ["a", "b", "c"] {
        bench.put(row, "f:x", "1");
        open.flush(region::FlushReason::Requested).expect("flushes");
    }
    compact(false, Option::None).expect("queued");
    assert_eq!(state(), Minor);
    compact(true, Some("f")).expect("queued");
    compact(true, Some("f")).expect("queued once");
    assert_eq!(state(), MajorAndMinor);
    assert_eq!(class(&compact(true, Some("x")).expect_err("no family")), "NoSuchColumnFamilyException");
    // HBase's clients ask for the state of MOB compactions with a region that does not exist.
    let mob = RegionInfo::new("t".parse().expect("a name"), ".mob".into(), Bytes::new(), RegionId(0));
    let request = pb::GetRegionInfoRequest {
        region: pb::RegionSpecifier { r#type: 1, value: mob.expect("a region").name().clone() },
        compaction_state: Some(true),
        best_split_row: Option::None,
    };
    let info: pb::GetRegionInfoResponse = bench.admin("GetRegionInfo", &request).expect("info");
    assert_eq!(info.compaction_state(), None, "the table has no MOB family");
    let clear = |queue: &str| {
        let request = pb::ClearCompactionQueuesRequest { queue_name: vec![queue.to_owned()] };
        bench.admin::<pb::ClearCompactionQueuesResponse>("ClearCompactionQueues", &request)
    };
    clear("long").expect("cleared");
    assert_eq!(state(), MajorAndMinor, "they are small");
    assert_eq!(clear("middle").expect_err("no queue").message, "Unknown queue name middle");
    clear("short").expect("cleared");
    assert_eq!(state(), None);
    let switch = |enabled| {
        let request = pb::CompactionSwitchRequest { enabled };
        bench
            .admin::<pb::CompactionSwitchResponse>("CompactionSwitch", &request)
            .expect("switched")
            .prev_state
    };
    assert_eq!((switch(false), switch(true), switch(true)), (true, false, true));
}

#[test]
fn flushes_happen_before_the_answer() {
    let bench = Bench::new();
    bench.put("r", "f:x", "1");
    let flush = |family: Option<&'static str>| {
        let request = pb::FlushRegionRequest {
            region: bench.region_of(b"r"),
            family: family.map(Bytes::from),
            ..Default::default()
        };
        bench.admin::<pb::FlushRegionResponse>("FlushRegion", &request)
    };
    assert_eq!(flush(None).expect("flushed").flushed, Some(true));
    assert_eq!(class(&flush(Some("x")).expect_err("no family")), "NoSuchColumnFamilyException");
    assert_eq!(bench.row("r"), ["f:x=1"]);
    assert_eq!(bench.server.counters().snapshot().flushes, 1);
}

#[test]
fn slow_calls_and_large_answers_are_kept_for_the_operator() {
    const TRACED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let options = Options {
        warn_time: Some(Duration::from_secs(10)),
        warn_bytes: Some(1_000),
        warn_scan_time: None,
        ..Options::default()
    };
    let bench = Bench::with(options, &[("", "")]);
    bench.put("row", "f:x", &"v".repeat(2_000));
    assert_eq!(bench.row("row").len(), 1, "a large answer");
    let late = |method, message: &dyn Fn() -> Vec<u8>| {
        let mut call = bench.call(method, &pb::EmptyMsg {}, Bytes::new());
        call.param = message().into();
        call.attributes = vec![("caller".to_owned(), Bytes::from_static(method.as_bytes()))];
        call.traceparent = rpc::TraceParent::parse(TRACED.as_bytes()).map(Box::new);
        bench.world.advance(Duration::from_secs(11));
        bench.send(call).expect("answered");
    };
    let get = pb::GetRequest {
        region: bench.region_of(b"row"),
        get: pb::Get { row: "nobody".into(), ..Default::default() },
    };
    late("Get", &|| get.encode_to_vec());
    let put = pb::MutateRequest {
        region: bench.region_of(b"row"),
        mutation: super::bench::mutation(pb::mutation_proto::MutationType::Put, "row", "f:y", "1"),
        ..Default::default()
    };
    late("Mutate", &|| put.encode_to_vec());
    let scan = pb::ScanRequest {
        region: Some(bench.region_of(b"row")),
        scan: Some(pb::Scan { start_row: Some("s".into()), ..Default::default() }),
        ..Default::default()
    };
    late("Scan", &|| scan.encode_to_vec());
    let find = |log_type: pb::slow_log_response_request::LogType| {
        let wanted = pb::SlowLogResponseRequest { log_type: Some(log_type as i32), ..Default::default() };
        let request = pb::LogRequest {
            log_class_name:
                "org.apache.hadoop.hbase.shaded.protobuf.generated.AdminProtos$SlowLogResponseRequest".into(),
            log_message: wanted.encode_to_vec().into(),
        };
        let entry: pb::LogEntry = bench.admin("GetLogEntries", &request).expect("a ring");
        // The Java client loads the class with this name.
        assert!(entry.log_class_name.ends_with(".AdminProtos$SlowLogResponses"), "{}", entry.log_class_name);
        pb::SlowLogResponses::decode(entry.log_message).expect("entries").slow_log_payloads
    };
    let region = String::from_utf8_lossy(&bench.region_of(b"row").value).into_owned();
    let slow = find(pb::slow_log_response_request::LogType::SlowLog);
    let shown = slow.iter().map(|entry| (&*entry.method_name, entry.processing_time, entry.param()));
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            ("Mutate", 11_000, &*format!("region= {region}")),
            ("Get", 11_000, &*format!("region= {region}, row= nobody")),
        ]
    );
    assert!(slow.iter().all(|entry| entry.region_name() == region && entry.client_address == "127.0.0.1:1"));
    assert_eq!(slow[0].start_time, bench.world.now().0 - 22_000, "another slow call came after it");
    for entry in &slow {
        let pairs = entry.request_attribute.iter().map(|pair| (&*pair.name, pair.value().to_vec()));
        let expected = [("caller", entry.method_name.clone().into_bytes()), ("traceparent", TRACED.into())];
        assert_eq!(pairs.collect::<Vec<_>>(), expected);
    }
    let large = find(pb::slow_log_response_request::LogType::LargeLog);
    assert_eq!(large.len(), 1);
    assert!(large[0].response_size > 2_000 && large[0].call_details == "Get(GetRequest)");
    let cleared: pb::ClearSlowLogResponses =
        bench.admin("ClearSlowLogsResponses", &pb::ClearSlowLogResponseRequest {}).expect("cleared");
    assert!(cleared.is_cleaned);
    assert!(find(pb::slow_log_response_request::LogType::SlowLog).is_empty());
    let without =
        Bench::with(Options { slow_calls_max: 0, warn_bytes: Some(0), ..Options::default() }, &[("", "")]);
    without.put("row", "f:x", "1");
    let cleared: pb::ClearSlowLogResponses =
        without.admin("ClearSlowLogsResponses", &pb::ClearSlowLogResponseRequest {}).expect("answered");
    assert!(!cleared.is_cleaned);
}

#[test]
fn running_work_is_listed() {
    let bench = Bench::new();
    let calls = || bench.server.tasks(TaskFilter::Operation);
    assert!(calls().is_empty());
    let put = pb::MutateRequest {
        region: bench.region_of(b"row"),
        mutation: super::bench::mutation(pb::mutation_proto::MutationType::Put, "row", "f:y", "1"),
        ..Default::default()
    };
    let waiting = bench.begin(bench.call("Mutate", &put, Bytes::new()));
    bench.world.advance(Duration::from_millis(1_500));
    let [task] = &calls()[..] else { panic!("one call waits") };
    let call = task.call.as_ref().expect("a call");
    assert_eq!((&*call.method, call.region.as_bytes()), ("Mutate", &put.region.value[..]));
    assert_eq!((task.state, task.started.0), (TaskState::Running, bench.world.now().0 - 1_500));
    assert_eq!(bench.server.tasks(TaskFilter::Rpc).len(), 1);
    drop(waiting);
    assert!(calls().is_empty(), "its client is gone");
    bench.put("row", "f:x", "1");
    assert!(calls().is_empty(), "it is answered");
    let region = bench.server.regions().all().remove(0);
    bench.server.flush(&region, region::FlushReason::Requested).expect("flushes");
    let tasks = bench.server.tasks(TaskFilter::General);
    let last = tasks.last().expect("opening and flushing");
    assert_eq!((last.description.split(' ').next(), last.state), (Some("Flushing"), TaskState::Complete));
    assert_eq!(bench.server.tasks(TaskFilter::All).len(), tasks.len());
}

#[test]
fn other_methods_answer_as_hbase() {
    let bench = Bench::new();
    let _: pb::RollWalWriterResponse =
        bench.admin("RollWALWriter", &pb::RollWalWriterRequest {}).expect("rolled");
    let request = pb::LogRequest {
        log_class_name:
            "org.apache.hadoop.hbase.shaded.protobuf.generated.AdminProtos$SlowLogResponseRequest".into(),
        log_message: Bytes::new(),
    };
    let entry: pb::LogEntry = bench.admin("GetLogEntries", &request).expect("a ring");
    assert!(entry.log_message.is_empty());
    let region = bench.region_of(b"a");
    let mut lost = region.clone();
    lost.value = "lost".into();
    let cleared: pb::ClearRegionBlockCacheResponse = bench
        .admin("ClearRegionBlockCache", &pb::ClearRegionBlockCacheRequest { region: vec![region, lost] })
        .expect("cleared");
    assert_eq!(cleared.stats.exception.len(), 1);
    let cached: pb::GetCachedFilesListResponse =
        bench.admin("GetCachedFilesList", &pb::GetCachedFilesListRequest {}).expect("a list");
    assert!(cached.cached_files.is_empty());
    let quotas: pb::GetSpaceQuotaSnapshotsResponse =
        bench.admin("GetSpaceQuotaSnapshots", &pb::GetSpaceQuotaSnapshotsRequest {}).expect("a list");
    assert!(quotas.snapshots.is_empty());
    let unknown = bench.admin::<pb::EmptyMsg>("ExecuteProcedures", &pb::EmptyMsg {}).expect_err("not ours");
    assert!(unknown.message.contains("UnsupportedOperationException"));
    let update = || {
        bench.admin::<pb::UpdateConfigurationResponse>(
            "UpdateConfiguration",
            &pb::UpdateConfigurationRequest {},
        )
    };
    assert!(update().is_err(), "there is no file to read again");
    bench.server.on_update_configuration(|| {
        Ok(conf::Conf::new()
            .with(&conf::keys::regionserver::COMPACTION_ENABLED, "false")
            .with(&conf::keys::regionserver::ROWS_WARNING_THRESHOLD, "17")
            .with(&conf::keys::store::BLOCKING_STORE_FILES, "0")
            .with(&conf::keys::regionserver::SCANNER_TIMEOUT, "1"))
    });
    let lease = bench.server.options().scanner_timeout;
    bench.put("r", "f:x", "1");
    let region = bench.server.regions().all().remove(0);
    region.flush(region::FlushReason::Requested).expect("flushes");
    assert!(!region.has_too_many_files());
    update().expect("read again");
    assert_eq!(bench.server.options().batch_rows_warning, 17);
    assert!(region.has_too_many_files(), "regions that are open follow");
    assert_eq!(bench.server.options().scanner_timeout, lease, "scanners that are open have their lease");
    assert!(!bench.server.background.switch_compaction(true), "as the file says");
    let _: pb::StopServerResponse =
        bench.admin("StopServer", &pb::StopServerRequest { reason: "because".into() }).expect("stops");
    assert!(bench.server.is_stopping());
}

#[test]
fn updated_compaction_options_act_on_open_regions() {
    let bench = Bench::new();
    let region = bench.server.regions().all().remove(0);
    for row in ["a", "b"] {
        bench.put(row, "f:x", "1");
        region.flush(region::FlushReason::Requested).expect("flushes");
    }
    let queued = || bench.server.background.compacting(&region).minor;
    assert!(!region.needs_compaction() && !queued(), "two files are too few by default");
    bench
        .server
        .on_update_configuration(|| Ok(conf::Conf::new().with(&conf::keys::store::COMPACTION_MIN, "2")));
    let _: pb::UpdateConfigurationResponse =
        bench.admin("UpdateConfiguration", &pb::UpdateConfigurationRequest {}).expect("read again");
    assert!(region.needs_compaction() && queued(), "two files are enough now");
}

#[test]
fn clients_bootstrap_from_any_address() {
    let view = Arc::new(ClusterView::new());
    let service = ClientMetaService::new(view.clone(), 2);
    let nodes = BootstrapNodeService::new(view.clone());
    let bench = Bench::new();
    let ask = |service: &dyn Service, method: &'static str| match service.call(bench.call(
        method,
        &pb::EmptyMsg {},
        Bytes::new(),
    )) {
        Answer::Now(outcome) => outcome.map(|reply| reply.message),
        Answer::Later(_) => panic!("nothing to wait for"),
    };
    assert_eq!(class(&ask(&service, "GetClusterId").expect_err("not yet")), "ServerNotRunningYetException");
    let name = |port| ServerName { host: "h".into(), port, start_code: 1 };
    view.set_cluster_id("an id");
    view.set_masters(Some(name(16000)), vec![name(16001)]);
    view.set_region_servers(vec![name(1), name(2), name(3)]);
    view.set_meta(vec![MetaLocation { region: RegionInfo::meta(), server: Some(name(1)), open_sequence: 4 }]);
    let id =
        pb::GetClusterIdResponse::decode(ask(&service, "GetClusterId").expect("an id")).expect("the message");
    assert_eq!(id.cluster_id(), "an id");
    let master = pb::GetActiveMasterResponse::decode(ask(&service, "GetActiveMaster").expect("one"))
        .expect("the message");
    assert_eq!(master.server_name.expect("active").port(), 16000);
    let masters =
        pb::GetMastersResponse::decode(ask(&service, "GetMasters").expect("two")).expect("the message");
    assert_eq!(masters.master_servers.iter().map(|m| m.is_active).collect::<Vec<_>>(), [true, false]);
    let meta = ask(&service, "GetMetaRegionLocations").expect("one");
    let meta = pb::GetMetaRegionLocationsResponse::decode(meta).expect("the message").meta_locations;
    assert_eq!((meta.len(), meta[0].seq_num), (1, 4));
    let some = pb::GetBootstrapNodesResponse::decode(ask(&service, "GetBootstrapNodes").expect("some"))
        .expect("the message");
    assert_eq!(some.server_name.len(), 2, "as many as the limit says");
    let all = pb::GetAllBootstrapNodesResponse::decode(ask(&nodes, "GetAllBootstrapNodes").expect("all"))
        .expect("the message");
    assert_eq!(all.node.len(), 3);
    assert!(ask(&service, "Nope").is_err() && ask(&nodes, "Nope").is_err());
}

#[test]
fn file_names_split_rows_and_sizes_are_reported() {
    let bench = Bench::new();
    let region = bench.server.regions().all().remove(0);
    let info = || {
        let request = pb::GetRegionInfoRequest {
            region: bench.region_of(b"a"),
            compaction_state: None,
            best_split_row: Some(true),
        };
        bench.admin::<pb::GetRegionInfoResponse>("GetRegionInfo", &request).expect("info")
    };
    let files = |families: &[&'static str]| {
        let family = families.iter().map(|family| Bytes::from(*family)).collect();
        let request = pb::GetStoreFileRequest { region: bench.region_of(b"a"), family };
        bench.admin::<pb::GetStoreFileResponse>("GetStoreFile", &request).map(|response| response.store_file)
    };
    assert_eq!((info().splittable, info().best_split_row), (Some(true), None), "it is empty");
    assert_eq!(files(&[]).expect("a list"), Vec::<String>::new());
    let value = "v".repeat(9_000);
    for row in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        for column in ["f:1", "f:2", "f:3", "f:4", "f:5", "f:6", "f:7", "f:8"] {
            bench.put(row, column, &value);
        }
    }
    bench.put("a", "g:1", "small");
    // The memory is flushed to find the row.
    let middle = info().best_split_row.expect("many rows");
    assert!((&b"c"[..]..=b"f").contains(&&middle[..]), "{middle:?}");
    assert_eq!(files(&["f"]).expect("a list").len(), 1);
    let all = files(&[]).expect("a list");
    assert!(all.len() == 2 && all[0].starts_with("file:memory/data/default/t/"), "{all:?}");
    assert_eq!(class(&files(&["x"]).expect_err("no family")), "NoSuchColumnFamilyException");
    let load = bench.server.region_load(&region);
    assert_eq!((load.stores, load.storefiles, load.mem_store_size_mb), (Some(2), Some(2), Some(0)));
    assert_eq!(load.write_requests_count, Some(65));
    bench.put("a", "f:1", "little");
    assert_eq!(bench.server.region_load(&region).mem_store_size_mb, Some(1), "not nothing");
    assert!(load.root_index_size_kb.is_some() && load.total_static_bloom_size_kb.is_some());

    bench.server.run_chore();
    bench.world.advance(std::time::Duration::from_secs(2));
    (0..10).for_each(|_| drop(bench.row("a")));
    bench.server.run_chore();
    let load = bench.server.server_load();
    assert_eq!(load.number_of_requests, Some(5), "ten in two seconds");
    assert!(load.total_number_of_requests > load.number_of_requests);
}
