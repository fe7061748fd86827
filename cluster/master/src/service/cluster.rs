//! Handlers of calls about the cluster as a whole.

use bytes::Bytes;
use proto::pb;
use rpc::{Exception, Reply, class};

use super::{Handler, answer, now, with};

pub(super) const HANDLERS: &[(&str, Handler)] = &[
    ("IsMasterRunning", |_, _| now(&pb::IsMasterRunningResponse { is_master_running: true })),
    ("GetClusterStatus", |master, call| {
        with(master, call, |master, request: pb::GetClusterStatusRequest| {
            Ok(Reply::of(&pb::GetClusterStatusResponse {
                cluster_status: crate::status::of(master, &request.options),
            }))
        })
    }),
    ("getSecurityCapabilities", |_, _| {
        now(&pb::SecurityCapabilitiesResponse {
            capabilities: vec![pb::security_capabilities_response::Capability::SimpleAuthentication as i32],
        })
    }),
    ("IsMasterInMaintenanceMode", |_, _| {
        now(&pb::IsInMaintenanceModeResponse { in_maintenance_mode: false })
    }),
    ("ListDecommissionedRegionServers", |_, _| {
        now(&pb::ListDecommissionedRegionServersResponse { server_name: Vec::new() })
    }),
    // As in HBase, an empty list changes nothing, and neither do servers that are not in the cluster. The only server
    // that could be drained is this one, and no other could take its regions.
    ("DecommissionRegionServers", |master, call| {
        answer(call.decode().and_then(|request: pb::DecommissionRegionServersRequest| {
            if request.server_name.contains(&(&master.name).into()) {
                return Err(Exception::do_not_retry(
                    "java.lang.UnsupportedOperationException: \
                     this cluster has one server, which cannot be decommissioned",
                ));
            }
            Ok(Reply::of(&pb::DecommissionRegionServersResponse {}))
        }))
    }),
    ("ClearDeadServers", |_, call| {
        answer(call.decode().map(|request: pb::ClearDeadServersRequest| {
            // The answer lists the servers that could not be cleared: all that the request names, because none of them
            // is dead.
            Reply::of(&pb::ClearDeadServersResponse { server_name: request.server_name })
        }))
    }),
    // HBase flushes the region in which the master has its procedures. Here they are in small objects, which are durable
    // when a call is answered.
    ("FlushMasterStore", |_, _| now(&pb::FlushMasterStoreResponse {})),
    // Returns the balancer's decisions, of which there are none. HBase keeps them only if it is configured to.
    ("GetLogEntries", |_, call| {
        const MESSAGES: &str = "org.apache.hadoop.hbase.shaded.protobuf.generated.MasterProtos$";
        answer(call.decode().and_then(|request: pb::LogRequest| {
            let kinds = ["BalancerDecisions", "BalancerRejections"];
            let asked = |kind: &&&str| request.log_class_name.contains(&format!("{kind}Request"));
            let Some(kind) = kinds.iter().find(asked) else {
                return Err(Exception::io(format!(
                    "Invalid request params: the master keeps no log for {}",
                    request.log_class_name
                )));
            };
            let log_class_name = format!("{MESSAGES}{kind}Response");
            Ok(Reply::of(&pb::LogEntry { log_class_name, log_message: Bytes::new() }))
        }))
    }),
    ("ExecMasterService", |_, _| {
        answer(Err(Exception::new(
            class::UNKNOWN_PROTOCOL,
            "no master coprocessor endpoint is registered here",
        )))
    }),
    // Master and region server are one process, so both calls end the process. The answer is sent first.
    ("Shutdown", |master, call| {
        tracing::info!(client = %call.connection.remote, "shut down by a client's request");
        master.regions.stop();
        now(&pb::ShutdownResponse {})
    }),
    ("PromoteReplica", |master, call| {
        let client = call.connection.remote;
        with(master, call, move |master, _: pb::PromoteReplicaRequest| {
            let primary = master.followed_primary.get();
            if let Some(primary) = primary {
                // The replica serves while it checks that it can become the primary.
                primary.promote().map_err(Exception::do_not_retry)?;
                tracing::info!(%client, "promoted by a client's request");
                master.regions.stop();
            }
            Ok(Reply::of(&pb::PromoteReplicaResponse { was_primary: primary.is_none() }))
        })
    }),
    ("StopMaster", |master, call| {
        tracing::info!(client = %call.connection.remote, "stopped by a client's request");
        master.regions.stop();
        now(&pb::StopMasterResponse {})
    }),
];
